#ifndef GQ_WEBHOOK_CONNECTION_H
#define GQ_WEBHOOK_CONNECTION_H

#include <libwebsockets.h>

#include "webhook/http.h"
#include "webhook/request.h"
#include "webhook/server.h"

/* One accepted connection: HTTP/1.1 over a raw socket of libwebsockets. Loop only.
 *
 *   HANDSHAKE -> IDLE -> HEAD -> BODY -> WORK -> SEND -> IDLE …
 *                                              \-> LINGER -> gone
 *
 * Reading is off in WORK and SEND: what is pipelined waits in the kernel, or in the stash what had
 * been read already. Each state but WORK has a deadline. */
enum gq_connection_state {
	GQ_CONNECTION_HANDSHAKE,
	GQ_CONNECTION_IDLE,
	GQ_CONNECTION_HEAD,
	GQ_CONNECTION_BODY,
	GQ_CONNECTION_WORK,
	GQ_CONNECTION_SEND,
	GQ_CONNECTION_LINGER, /* our side is closed: the peer's last bytes are swallowed */
	GQ_CONNECTION_DEAD,   /* libwebsockets is about to free it */
};

/* What connections share; the server's. */
struct gq_connection_shared {
	const struct gq_server_options *options; /* with defaults filled in */
	struct gq_work *work;
	struct gq_request *spare; /* requests to use again, linked by next */
	unsigned spare_count;
	atomic_uint_fast64_t responses[6];
	atomic_uint_fast64_t in_flight;
};

/* The memory is libwebsockets' (per_session_data_size), zeroed. */
struct gq_connection {
	struct lws_dll2 list;
	struct lws *wsi; /* NULL before opening and after closing */
	struct gq_connection_shared *shared;
	bool metrics;
	enum gq_connection_state state;
	int64_t deadline_ns;
	struct gq_http *http;
	struct gq_request *request; /* from HEAD to SEND */
	size_t sent;                /* of its answer */
	int refusal;                /* of a head whose message is read to its end all the same */
	bool want_continue;
	bool reading; /* POLLIN as last asked of libwebsockets */
	bool shutdown_pending;
	char *stash; /* read, but not yet wanted */
	size_t stash_at, stash_len;
	size_t swallowed;
};

/* 0, or -1: to be closed. */
int gq_connection_open(struct gq_connection *connection, struct lws *wsi, bool metrics,
		       struct gq_connection_shared *shared, int64_t now_ns);
/* Frees what it holds and orphans its request. Safe to call twice. True the first time. */
bool gq_connection_close(struct gq_connection *connection);

/* Bytes came; the socket takes bytes again; its request was answered. 0, or -1: to be closed. */
int gq_connection_received(struct gq_connection *connection, const char *bytes, size_t len);
int gq_connection_writable(struct gq_connection *connection);
int gq_connection_answered(struct gq_connection *connection);

/* Looks at the deadline. 0, or -1: to be closed. */
int gq_connection_tick(struct gq_connection *connection, int64_t now_ns);
/* Says goodbye (close_notify) if it is between requests: the server is about to go. */
void gq_connection_farewell(struct gq_connection *connection);
/* The same while the server goes on, once it was quiet for a while; unless a request has begun to
 * arrive by then: that is answered. */
void gq_connection_leave(struct gq_connection *connection, int64_t now_ns);
/* Whether something is under way that a drain waits for. */
bool gq_connection_busy(const struct gq_connection *connection);

/* A request to fill; NULL when out of memory. And back, when it is over. */
struct gq_request *gq_connection_take_request(struct gq_connection_shared *shared);
void gq_connection_give_request(struct gq_connection_shared *shared, struct gq_request *request);

#endif
