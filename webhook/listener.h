#ifndef GQ_WEBHOOK_LISTENER_H
#define GQ_WEBHOOK_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <libwebsockets.h>

/* A listening socket of our own, which libwebsockets polls. Its own listeners take an address for
 * an interface (and bind every address in an IPv6 build), and spin when descriptors run out.
 * Loop only. */
struct gq_listener {
	int fd; /* until libwebsockets has it: then -1 */
	unsigned port;
	bool metrics;
	unsigned max, open; /* connections */
	atomic_uint_fast64_t accepted;
	bool paused;
	struct lws_vhost *vhost; /* of its connections */
	struct lws *wsi;
};

/* Accepts what is there; at the maximum, or out of descriptors, stops polling. */
void gq_listener_accept(struct gq_listener *listener);
/* Counts one of its connections; a closed one lets it accept again. */
void gq_listener_opened(struct gq_listener *listener);
void gq_listener_closed(struct gq_listener *listener);
/* From time to time: tries again after descriptors had run out. */
void gq_listener_retry(struct gq_listener *listener);

#endif
