#ifndef GQ_WEBHOOK_SERVER_H
#define GQ_WEBHOOK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

/* An HTTP/1.1 server for two addresses: HTTPS for the API server's calls, plain HTTP for metrics
 * and probes. libwebsockets is the event loop, listener and TLS (raw sockets); llhttp the parser.
 *
 * One loop thread owns every connection. Requests to the HTTPS address go to worker threads; a
 * handler answers at once or parks the request and answers later from any thread. Workers never
 * touch a connection: answers go through the done-queue. A connection that closes orphans its
 * request, whose answer is then dropped. */
struct gq_server;
struct gq_request;

struct gq_server_options {
	/* "ADDR:PORT", "[::1]:9443", ":9443" (every IPv4 and IPv6 address) */
	const char *listen;
	const char *metrics_listen; /* or NULL */
	const char *tls_cert;       /* PEM files; the certificate with its chain */
	const char *tls_key;
	unsigned workers;           /* 0: 2 */
	unsigned max_connections;   /* 0: 1000; below RLIMIT_NOFILE */
	size_t max_body_bytes;      /* 0: 8 MiB; larger ones get 413 */
	size_t max_bytes_in_flight; /* of all bodies: 0: 256 MiB; beyond it 503 */
	int64_t idle_timeout_ns;    /* keep-alive: 0: 120 s, longer than the API server's 90 s */
	int64_t quiet_ns;           /* see gq_server_close_idle(): 0: 500 ms */
	int64_t head_timeout_ns;    /* TLS handshake; first byte to end of the head: 0: 10 s */
	int64_t body_timeout_ns;    /* the body; and for the peer to take the answer: 0: 10 s */
	int64_t drain_min_ns;       /* how long to go on accepting after gq_server_drain(): 0 */
	/* Requests to the HTTPS address with a body below this run on the loop itself while none
	 * waits for a worker: no hand-over, so half the time for a small one. handle() must not
	 * block then. 0: off. */
	size_t inline_below_bytes;
	/* A request to the HTTPS address whose method and path passed route(). On a worker. Must
	 * lead to exactly one gq_request_answer(), now or later, from any thread. */
	void (*handle)(void *arg, struct gq_request *request);
	/* The same for the metrics address; on a worker too. */
	void (*handle_metrics)(void *arg, struct gq_request *request);
	/* On the loop, for each head: 0 to go on, else the status to refuse with (404, 405). */
	int (*route)(void *arg, bool metrics, const char *method, const char *path);
	void *arg;
};

/* Strings of options are copied. Binds both addresses and loads the certificate, so that what can
 * fail at start fails here: GQ_EINVALID (address, certificate, key that does not match), GQ_EIO
 * (bind, file). */
int gq_server_new(const struct gq_server_options *options, struct gq_server **ret_server,
		  struct gq_err *err);
/* Starts the workers and runs the loop on the calling thread until drained; once. No handler runs
 * after it. Errors: GQ_ENOMEM, GQ_EIO. */
int gq_server_run(struct gq_server *server, struct gq_err *err);
/* Stops accepting new work gracefully: goes on answering with Connection: close and returns from
 * run once no request is in flight, at least drain_min_ns later and at most max_ns later. The
 * listener stays open until then. Any thread; async-signal-unsafe. */
void gq_server_drain(struct gq_server *server, int64_t max_ns);
/* Closes the connections to the HTTPS address on which no request is under way, so that their peers
 * open new ones, to whoever the Service leads to then. Each once it was quiet for quiet_ns: a peer
 * that used it a moment ago may be sending on it now, and would not send that again. Any thread. */
void gq_server_close_idle(struct gq_server *server);
/* After run has returned. Requests not answered yet may still be. */
void gq_server_free(struct gq_server *server);
GQ_DEFINE_CLEANUP(gq_cleanup_server, struct gq_server, gq_server_free);

/* Reads certificate and key again; a pair that can't be read or does not match leaves the one in
 * use in place. No connection is lost; handshakes under way keep what they have. Any thread. */
int gq_server_reload_certificate(struct gq_server *server, struct gq_err *err);

/* The ports bound (when 0 was asked for). metrics may be NULL. */
void gq_server_ports(const struct gq_server *server, unsigned *ret_port, unsigned *ret_metrics);

struct gq_server_stats {
	uint64_t connections_open;
	uint64_t connections_total;
	uint64_t requests_in_flight;
	uint64_t responses_total[6]; /* by status / 100 */
	uint64_t tls_failures_total;
	uint64_t loop_turns_total;       /* one that rises without requests is a loop that spins */
	int64_t certificate_not_after_s; /* Unix time */
};
void gq_server_stats(const struct gq_server *server, struct gq_server_stats *ret_stats);

/* What a handler may ask of a request. Pointers live until the answer. */
const char *gq_request_path(const struct gq_request *request);  /* without query */
const char *gq_request_query(const struct gq_request *request); /* without '?', or "" */
const char *gq_request_body(const struct gq_request *request, size_t *ret_len);
int64_t gq_request_received_ns(const struct gq_request *request); /* monotonic, head complete */

/* A slot for the handler's own state; freed by free_fn with the request. */
void gq_request_set_state(struct gq_request *request, void *state, void (*free_fn)(void *state));
void *gq_request_state(const struct gq_request *request);

/* Whether the peer is gone, so that no answer will reach anybody. One is owed all the same. */
bool gq_request_orphaned(const struct gq_request *request);

/* Runs the handler again on a worker, delay_ns from now. Instead of an answer, once per call. */
void gq_request_retry(struct gq_request *request, int64_t delay_ns);

struct gq_answer {
	int status;               /* HTTP */
	const char *content_type; /* "application/json" */
	const char *body;         /* copied */
	size_t len;
	int retry_after_s; /* > 0: header Retry-After */
	bool close;        /* Connection: close */
};

/* Ends the request: the handler must not touch it afterwards. Any thread, even after
 * gq_server_free(): the answer is dropped then. */
void gq_request_answer(struct gq_request *request, const struct gq_answer *answer);

#endif
