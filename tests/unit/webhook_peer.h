#ifndef GQ_TEST_WEBHOOK_PEER_H
#define GQ_TEST_WEBHOOK_PEER_H

/* The other side of the webhook's server in tests: certificates made on the spot, a server on a
 * thread of its own with a scripted handler, and a client that can misbehave. Everything fails the
 * running cmocka test when the machine does not play along. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

#include "webhook/server.h"

/* A temporary directory; removed with its files at exit of the test program. */
const char *peer_dir(void);
/* "DIR/name", in static memory of 8 slots. */
const char *peer_path(const char *name);
void peer_write(const char *name, const char *text, size_t len);
/* Self-signed "NAME.crt" with its key "NAME.key" in PEM: EC P-256; rsa_bits > 0: RSA. */
void peer_make_pair(const char *name, int rsa_bits, long valid_s);

struct peer_server {
	struct gq_server *server;
	pthread_t thread;
	bool running;
	unsigned port, metrics_port;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct gq_request *parked[64]; /* requests to /park, oldest first */
	unsigned parked_count;
	unsigned handled; /* calls of the handler */
	unsigned freed;   /* states freed */
	unsigned gate;    /* /gate waits while it is 0 */
	bool on_loop;     /* the last handler ran on the loop's thread */
};

/* Options with a certificate, 127.0.0.1:0 for both listeners, and the handler below, to be adjusted
 * before peer_server_start():
 *   /echo         200 and the body, or "METHOD PATH ?QUERY" when there is none
 *   /big?N        N bytes of 'x'
 *   /park         kept in `parked`, answered by peer_server_release()
 *   /gate         waits for the gate, then as /echo
 *   /retry?N      runs again N times, then 200 with the number of runs
 *   /close        200, Connection: close
 *   /busy         503, Retry-After: 7
 * route(): 404 for /missing, 405 for PUT. */
struct gq_server_options peer_options(struct peer_server *peer);
void peer_server_start(struct peer_server *peer, const struct gq_server_options *options);
/* Drains at once, joins, frees. */
void peer_server_stop(struct peer_server *peer);
void peer_server_join(struct peer_server *peer);
void peer_server_wait_parked(struct peer_server *peer, unsigned count);
/* Takes the oldest parked request; its answer is the caller's duty. */
struct gq_request *peer_server_take(struct peer_server *peer);
void peer_server_release(struct peer_server *peer, const char *body);
void peer_server_open_gate(struct peer_server *peer);
unsigned peer_server_handled(struct peer_server *peer);
struct gq_server_stats peer_server_stats(const struct peer_server *peer);
/* Waits until the server has that many connections. */
void peer_server_wait_open(const struct peer_server *peer, unsigned count);

struct peer {
	int fd;
	SSL *ssl; /* NULL: plain */
	char in[1 << 16];
	size_t in_len;
	bool ended;      /* the server closed its side */
	bool got_notify; /* … with close_notify */
};

struct peer_answer {
	int status;
	char head[2048];
	char *body; /* free() */
	size_t len;
	bool close;
};

/* alpn: in wire format, or NULL. min and max: TLS versions, or 0. NULL when the handshake fails. */
struct peer *peer_try_connect(unsigned port, const char *alpn, int min, int max);
struct peer *peer_connect(unsigned port);
struct peer *peer_connect_plain(unsigned port);
/* A TCP connection: >= 0, or -1 with errno. */
int peer_tcp(const char *address, unsigned port);
void peer_send(struct peer *peer, const char *bytes, size_t len);
void peer_puts(struct peer *peer, const char *text);
/* POST with a body of len 'b's. */
void peer_post(struct peer *peer, const char *path, size_t len);
void peer_read(struct peer *peer, struct peer_answer *ret_answer);
/* Reads an answer and checks it. body may be NULL. */
void peer_expect(struct peer *peer, int status, const char *body);
/* Posts count requests, each answered before the next, and says how often the server's loop went
 * round for them. */
uint64_t peer_turns(const struct peer_server *server, struct peer *peer, unsigned count);
/* Reads until the server closes; more bytes fail the test. */
void peer_expect_end(struct peer *peer);
void peer_close(struct peer *peer);
/* Closes with a reset. */
void peer_reset(struct peer *peer);

/* Stops the clock of the test, not with sleep: runs until the condition holds or 20 s are over. */
#define peer_until(condition)                                                                      \
	do {                                                                                       \
		for (int peer_tries = 0; !(condition); peer_tries++) {                             \
			assert_true(peer_tries < 200000);                                          \
			peer_pause();                                                              \
		}                                                                                  \
	} while (0)
void peer_pause(void);

#endif
