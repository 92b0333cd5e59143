#ifndef GQ_WEBHOOK_HTTP_H
#define GQ_WEBHOOK_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* The request side of HTTP/1.x for one connection: llhttp, plus what llhttp leaves to its user. It
 * bounds the head and the framing around the body, and refuses whatever two readers could take for
 * two different requests.
 *
 * A translation unit of its own, since llhttp.h and libwebsockets.h define the same names.
 * Sources: RFC 9110, RFC 9112. */
struct gq_http;

/* Credentials are not read: nothing here asks who the client is. Pointers live until the message is
 * complete. */
struct gq_http_head {
	const char *method;      /* static */
	const char *path;        /* of an origin-form or absolute-form target, never empty */
	const char *query;       /* without '?', or "" */
	uint64_t content_length; /* 0 when chunked */
	bool chunked;
	bool expect_continue; /* the client waits for "100 Continue" */
};

/* Both return 0, or the HTTP status to refuse the message with. */
struct gq_http_handler {
	int (*head)(void *arg, const struct gq_http_head *head);
	int (*body)(void *arg, const char *bytes, size_t len);
	void *arg;
};

struct gq_http_limits {
	size_t head_bytes;   /* request line and header fields with everything between them */
	uint64_t body_bytes; /* decoded */
};

/* Answers of gq_http_feed() besides the status of a refusal (>= 400). */
#define GQ_HTTP_MORE 0
#define GQ_HTTP_COMPLETE 1

/* NULL when out of memory. handler and limits are copied. */
struct gq_http *gq_http_new(const struct gq_http_handler *handler,
			    const struct gq_http_limits *limits);
void gq_http_free(struct gq_http *http);
GQ_DEFINE_CLEANUP(gq_cleanup_http, struct gq_http, gq_http_free);

/* Reads at most to the end of one message; the bytes behind *ret_used belong to the next.
 * GQ_HTTP_MORE: all were used. A status: the stream is of no further use, answer and close;
 * *ret_used is not set. The result does not depend on where the bytes are cut. */
int gq_http_feed(struct gq_http *http, const char *bytes, size_t len, size_t *ret_used);

/* After GQ_HTTP_COMPLETE: whether the connection may be used again. */
bool gq_http_keep_alive(const struct gq_http *http);

/* The reason phrase of a status, for a status line. */
const char *gq_http_reason(int status);

#endif
