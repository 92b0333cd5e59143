#include "webhook/connection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "webhook_peer.h"

#define HOST "Host: test\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

static void keeps_connections(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	for (int i = 0; i < 50; i++) {
		peer_post(peer, "/echo", 3);
		peer_expect(peer, 200, "bbb");
	}
	peer_puts(peer,
		  "GET http://test:1/a?b=c HTTP/1.1\r\n" HOST "Authorization: Bearer t\r\n\r\n");
	peer_expect(peer, 200, "GET /a ?b=c");
	assert_int_equal(peer_server_stats(&server).connections_total, 1);
	peer_puts(peer, "GET /a HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	struct peer_answer answer;
	peer_read(peer, &answer);
	assert_true(answer.close);
	free(answer.body);
	peer_expect_end(peer);
	assert_true(peer->got_notify);
	peer_close(peer);
	peer_server_stop(&server);
}

static void speaks_plain_http_for_metrics(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect_plain(server.metrics_port);
	peer_puts(peer, GET("/metrics"));
	peer_expect(peer, 200, "GET /metrics ?");
	/* the server closes its side first, and waits for ours */
	struct peer *last = peer_connect_plain(server.metrics_port);
	peer_puts(last, "GET /metrics HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	peer_expect(last, 200, NULL);
	peer_expect_end(last);
	assert_int_equal(peer_server_stats(&server).connections_open, 2);
	peer_close(last);
	peer_server_wait_open(&server, 1);
	/* a client that closes its side still gets the answer */
	peer_puts(peer, GET("/healthz"));
	shutdown(peer->fd, SHUT_WR);
	peer_expect(peer, 200, "GET /healthz ?");
	peer_expect_end(peer);
	peer_close(peer);
	peer_server_stop(&server);
}

static void refuses_early(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	static const struct {
		const char *request;
		int status;
		bool close;
	} cases[] = {
	    {GET("/missing"), 404, false},
	    {"PUT /a HTTP/1.1\r\n" HOST "\r\n", 405, false},
	    {"PUT /a HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 405, true},
	    {"POST /missing HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 404, true},
	    {"GET /a HTTP/1.1\r\n\r\n", 400, true},
	    {"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501, true},
	    {"POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", 501, true},
	    {"POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
	     400, true},
	    {"GET /a HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", 400,
	     true},
	    {"POST /a HTTP/1.1\r\n" HOST "Content-Length: 8388609\r\n\r\n", 413, true},
	    {"POST /a HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 8388609\r\n\r\n",
	     413, true},
	    {"POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	     413, true},
	    {"POST /a HTTP/1.1\r\n" HOST "Expect: cake\r\nContent-Length: 1\r\n\r\n", 417, true},
	    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, true},
	};

	(void)state;
	peer_server_start(&server, &options);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct peer *peer = peer_connect(server.port);
		struct peer_answer answer;
		peer_puts(peer, cases[i].request);
		peer_read(peer, &answer);
		if (answer.status != cases[i].status)
			print_error("%s%s", cases[i].request, answer.head);
		assert_int_equal(answer.status / 100, 4 + (answer.status >= 500));
		if (strncmp(cases[i].request, "PRI", 3) != 0)
			assert_int_equal(answer.status, cases[i].status);
		assert_int_equal(answer.close, cases[i].close);
		free(answer.body);
		if (cases[i].close) {
			peer_expect_end(peer);
			assert_true(peer->got_notify);
		} else {
			peer_puts(peer, GET("/still"));
			peer_expect(peer, 200, "GET /still ?");
		}
		peer_close(peer);
	}
	assert_int_equal(peer_server_handled(&server), 2);
	peer_server_stop(&server);
}

static void bounds_the_head_over_records(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	char line[1024];

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_puts(peer, "GET /a HTTP/1.1\r\n" HOST);
	int n = snprintf(line, sizeof line, "X: %0900d\r\n", 0);
	for (int i = 0; i < 40; i++) /* a record each; the server may close meanwhile */
		if (SSL_write(peer->ssl, line, n) <= 0)
			break;
	peer_expect(peer, 431, NULL);
	peer_expect_end(peer);
	peer_close(peer);
	peer_server_stop(&server);
}

/* Requests that come in one piece are answered one after the other, in order. */
static void answers_pipelined_requests(size_t inline_below)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	options.inline_below_bytes = inline_below;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_puts(peer, GET("/1") "POST /park HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\np"
				  "\r\n" GET("/missing") "POST /echo HTTP/1.1\r\n" HOST
							 "Content-Length: 4\r\n\r\n4444" GET(
							     "/5") "GET /6 HT");
	peer_expect(peer, 200, "GET /1 ?");
	peer_server_wait_parked(&server, 1);
	assert_int_equal(peer_server_handled(&server), 2);
	/* more of it comes while the second is parked, over several records */
	peer_puts(peer, "TP/1.1\r\n" HOST "\r\n");
	peer_post(peer, "/echo", 100000);
	peer_server_release(&server, "parked");
	peer_expect(peer, 200, "parked");
	peer_expect(peer, 404, NULL);
	peer_expect(peer, 200, "4444");
	peer_expect(peer, 200, "GET /5 ?");
	peer_expect(peer, 200, "GET /6 ?");
	struct peer_answer answer;
	peer_read(peer, &answer);
	assert_int_equal(answer.len, 100000);
	assert_int_equal(strspn(answer.body, "b"), 100000);
	free(answer.body);
	peer_close(peer);
	peer_server_stop(&server);
}

static void answers_pipelined_requests_on_workers(void **state)
{
	(void)state;
	answers_pipelined_requests(0);
}

static void answers_pipelined_requests_on_the_loop(void **state)
{
	(void)state;
	answers_pipelined_requests(1000);
}

static void takes_bodies_up_to_the_limit(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct peer_answer answer;

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/echo", 8u << 20);
	peer_read(peer, &answer);
	assert_int_equal(answer.status, 200);
	assert_int_equal(answer.len, 8u << 20);
	assert_int_equal(strspn(answer.body, "b"), 8u << 20);
	free(answer.body);

	/* chunked, one byte more, the last one refused */
	char *chunk = malloc((1u << 20) + 16);
	assert_non_null(chunk);
	peer_puts(peer, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
	memcpy(chunk, "100000\r\n", 8);
	memset(chunk + 8, 'c', 1u << 20);
	memcpy(chunk + 8 + (1u << 20), "\r\n", 2);
	for (int i = 0; i < 8; i++)
		peer_send(peer, chunk, (1u << 20) + 10);
	free(chunk);
	peer_puts(peer, "1\r\n");
	peer_expect(peer, 413, NULL);
	peer_expect_end(peer);
	peer_close(peer);
	peer_server_stop(&server);
}

/* A client that sends all of a refused body before it reads must find the answer, not a reset. */
static void swallows_what_it_refused(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.max_body_bytes = 4 << 20;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/echo", 5 << 20);
	peer_expect(peer, 413, "413 Content Too Large\n");
	peer_expect_end(peer);
	assert_true(peer->got_notify);
	peer_close(peer);
	peer_server_wait_open(&server, 0);
	peer_server_stop(&server);
}

static void asks_to_continue(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct peer_answer answer;

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_puts(peer, "POST /echo HTTP/1.1\r\n" HOST
			"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	peer_read(peer, &answer);
	assert_int_equal(answer.status, 100);
	free(answer.body);
	peer_puts(peer, "abc");
	peer_expect(peer, 200, "abc");
	/* one that did not wait is not asked; the next starts afresh */
	peer_puts(peer, "POST /echo HTTP/1.1\r\n" HOST
			"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
	peer_expect(peer, 200, "abc");
	peer_puts(peer, "POST /missing HTTP/1.1\r\n" HOST
			"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	peer_expect(peer, 404, NULL);
	peer_close(peer);
	peer_server_stop(&server);
}

static void bounds_the_bytes_in_flight(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct peer_answer answer;

	(void)state;
	options.max_bytes_in_flight = 100000;
	peer_server_start(&server, &options);
	struct peer *first = peer_connect(server.port), *second = peer_connect(server.port);
	peer_post(first, "/park", 60000);
	peer_server_wait_parked(&server, 1);
	peer_post(second, "/echo", 60000);
	peer_read(second, &answer);
	assert_int_equal(answer.status, 503);
	assert_non_null(strstr(answer.head, "\r\nRetry-After: 1\r\n"));
	assert_true(answer.close);
	free(answer.body);
	peer_close(second);
	peer_server_release(&server, "done");
	peer_expect(first, 200, "done");
	second = peer_connect(server.port);
	peer_post(second, "/echo", 60000);
	peer_expect(second, 200, NULL);
	peer_close(second);
	peer_close(first);
	peer_server_stop(&server);
}

static void runs_small_requests_on_the_loop(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.inline_below_bytes = 1000;
	options.workers = 1;
	peer_server_start(&server, &options);
	struct peer *peer[3];
	for (int i = 0; i < 3; i++)
		peer[i] = peer_connect(server.port);
	peer_post(peer[0], "/echo", 999);
	peer_expect(peer[0], 200, NULL);
	assert_true(server.on_loop);
	peer_post(peer[0], "/echo", 1000);
	peer_expect(peer[0], 200, NULL);
	assert_false(server.on_loop);
	peer_post(peer[0], "/retry?2", 5); /* comes back on a worker */
	peer_expect(peer[0], 200, "3");
	assert_false(server.on_loop);
	peer_post(peer[0], "/park", 5);
	peer_server_release(&server, "later");
	peer_expect(peer[0], 200, "later");

	/* not past one that waits for the worker */
	peer_post(peer[0], "/gate", 1000);
	peer_until(peer_server_handled(&server) == 7);
	peer_post(peer[1], "/echo", 1000);
	peer_until(peer_server_stats(&server).requests_in_flight == 2);
	peer_post(peer[2], "/echo", 5);
	peer_until(peer_server_stats(&server).requests_in_flight == 3);
	assert_int_equal(peer_server_handled(&server), 7);
	peer_server_open_gate(&server);
	for (int i = 0; i < 3; i++) {
		peer_expect(peer[i], 200, NULL);
		peer_close(peer[i]);
	}
	peer_server_stop(&server);
}

/* A peer that resets while its request is parked: nobody is told, nothing is touched. */
static void orphans_parked_requests(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	for (int i = 0; i < 3; i++) {
		struct peer *peer = peer_connect(server.port);
		peer_post(peer, "/park", 5000);
		peer_server_wait_parked(&server, (unsigned)i + 1);
		peer_reset(peer);
		peer_server_wait_open(&server, 0);
	}
	assert_int_equal(peer_server_stats(&server).requests_in_flight, 3);
	peer_server_release(&server, "to nobody");
	gq_request_retry(peer_server_take(&server), 0); /* parks itself again */
	peer_server_wait_parked(&server, 2);
	peer_server_release(&server, "to nobody");
	peer_server_release(&server, "to nobody");
	peer_until(peer_server_stats(&server).requests_in_flight == 0);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/echo", 3);
	peer_expect(peer, 200, "bbb");
	peer_close(peer);
	peer_server_stop(&server);
}

static void does_not_start_for_a_peer_that_is_gone(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.workers = 1;
	peer_server_start(&server, &options);
	struct peer *first = peer_connect(server.port), *second = peer_connect(server.port);
	peer_post(first, "/gate", 10);
	peer_until(peer_server_handled(&server) == 1);
	peer_post(second, "/echo", 10);
	peer_until(peer_server_stats(&server).requests_in_flight == 2);
	peer_reset(second);
	peer_server_wait_open(&server, 1);
	peer_server_open_gate(&server);
	peer_expect(first, 200, NULL);
	peer_until(peer_server_stats(&server).requests_in_flight == 0);
	assert_int_equal(peer_server_handled(&server), 1);
	peer_close(first);
	peer_server_stop(&server);
}

static void answers_a_half_closed_peer(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/park", 10);
	assert_true(SSL_shutdown(peer->ssl) >= 0);
	shutdown(peer->fd, SHUT_WR);
	peer_server_release(&server, "still");
	peer_expect(peer, 200, "still");
	peer_close(peer);
	peer_server_stop(&server);
}

/* While the kernel takes no more of a large answer, the loop must sleep, even though the client has
 * sent more: libwebsockets returns from POLLIN at once as long as it holds output. */
static void does_not_spin_on_a_stalled_reader(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.body_timeout_ns = 60 * GQ_NS_PER_S;
	peer_server_start(&server, &options);
	struct peer *stalled = peer_connect(server.port), *other = peer_connect(server.port);
	peer_puts(stalled, GET("/big?16000000") GET("/after"));
	peer_until(peer_server_stats(&server).responses_total[2] == 1);
	peer_puts(stalled, GET("/more"));
	assert_in_range(peer_turns(&server, other, 300), 300, 300 * 5);
	struct peer_answer answer;
	peer_read(stalled, &answer);
	assert_int_equal(answer.len, 16000000);
	free(answer.body);
	peer_expect(stalled, 200, "GET /after ?");
	peer_expect(stalled, 200, "GET /more ?");
	peer_close(stalled);
	peer_close(other);
	peer_server_stop(&server);
}

/* The same while it lingers: output is out by then, input still comes. */
static void does_not_spin_while_lingering(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *lingering = peer_connect(server.port), *other = peer_connect(server.port);
	peer_puts(lingering, "nonsense\r\n\r\n");
	peer_expect(lingering, 400, NULL);
	peer_puts(lingering, "more of it");
	assert_in_range(peer_turns(&server, other, 300), 300, 300 * 5);
	peer_close(lingering);
	peer_close(other);
	peer_server_stop(&server);
}

static struct gq_server_options short_deadlines(struct peer_server *server)
{
	struct gq_server_options options = peer_options(server);

	options.head_timeout_ns = 300 * GQ_NS_PER_MS;
	options.body_timeout_ns = 300 * GQ_NS_PER_MS;
	options.idle_timeout_ns = 1 * GQ_NS_PER_S;
	return options;
}

/* On a machine that is busy with other things, a handshake may miss the short deadline. */
static struct peer *connect_in_time(const struct peer_server *server)
{
	struct peer *peer = NULL;

	for (int tries = 0; !peer && tries < 20; tries++)
		peer = peer_try_connect(server->port, NULL, 0, 0);
	assert_non_null(peer);
	return peer;
}

/* Sends a byte at a time until the server has had enough. */
static void dribble(struct peer *peer)
{
	for (int i = 0; i < 200000; i++) {
		char ignored;
		int n = peer->ssl ? SSL_write(peer->ssl, "a", 1)
				  : (int)send(peer->fd, "a", 1, MSG_NOSIGNAL);
		if (n <= 0 || recv(peer->fd, &ignored, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
			return;
		peer_pause();
	}
	fail_msg("the server listens forever");
}

static void cuts_who_is_slow(void **state)
{
	struct peer_server server;
	struct gq_server_options options = short_deadlines(&server);

	(void)state;
	options.idle_timeout_ns = 60 * GQ_NS_PER_S;
	peer_server_start(&server, &options);
	/* no handshake at all */
	struct peer *peer = peer_connect_plain(server.port);
	peer_expect_end(peer);
	peer_close(peer);
	/* half a ClientHello */
	peer = peer_connect_plain(server.port);
	peer_send(peer, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
	peer_expect_end(peer);
	peer_close(peer);
	peer_until(peer_server_stats(&server).tls_failures_total >= 1);
	/* a head, silent and byte by byte */
	static const char *const begun[] = {
	    "GET /",
	    "GET /a HTTP/1.1\r\n" HOST "X: ",
	    "POST /a HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n",
	    "POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfff;",
	};
	for (size_t i = 0; i < sizeof begun / sizeof begun[0]; i++) {
		for (int dribbling = 0; dribbling <= 1; dribbling++) {
			peer = connect_in_time(&server);
			peer_puts(peer, begun[i]);
			if (dribbling)
				dribble(peer);
			peer_expect(peer, 408, NULL);
			peer_expect_end(peer);
			assert_true(peer->got_notify);
			peer_close(peer);
		}
	}
	/* the same on the plain side */
	peer = peer_connect_plain(server.metrics_port);
	peer_puts(peer, "GET /a");
	dribble(peer);
	peer_expect(peer, 408, NULL);
	peer_expect_end(peer);
	peer_close(peer);
	peer_server_stop(&server);
}

static void closes_idle_connections(void **state)
{
	struct peer_server server;
	struct gq_server_options options = short_deadlines(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *fresh = connect_in_time(&server), *used = connect_in_time(&server);
	peer_post(used, "/echo", 3);
	peer_expect(used, 200, "bbb");
	peer_expect_end(used);
	assert_true(used->got_notify);
	peer_expect_end(fresh);
	assert_true(fresh->got_notify);
	peer_close(used);
	peer_close(fresh);
	/* who does not close his side is left after a while */
	struct peer *deaf = peer_connect_plain(server.metrics_port);
	peer_server_wait_open(&server, 1);
	peer_server_wait_open(&server, 0);
	peer_close(deaf);
	peer_server_stop(&server);
}

/* Line ends between messages do not keep a connection alive. */
static void is_not_kept_by_blank_lines(void **state)
{
	struct peer_server server;
	struct gq_server_options options = short_deadlines(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = connect_in_time(&server);
	while (recv(peer->fd, peer->in, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
		if (SSL_write(peer->ssl, "\r\n", 2) <= 0)
			break;
		peer_pause();
	}
	peer_expect_end(peer);
	peer_close(peer);
	peer_server_stop(&server);
}

static void leaves_readers_that_stall(void **state)
{
	struct peer_server server;
	struct gq_server_options options = short_deadlines(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = connect_in_time(&server);
	peer_puts(peer, GET("/big?16000000"));
	peer_until(peer_server_stats(&server).responses_total[2] == 1);
	peer_server_wait_open(&server, 0);
	peer_close(peer);
	peer_server_stop(&server);
}

/* A request takes as long as its handler needs. */
static void has_no_deadline_for_handlers(void **state)
{
	struct peer_server server;
	struct gq_server_options options = short_deadlines(&server);

	(void)state;
	options.idle_timeout_ns = 60 * GQ_NS_PER_S;
	peer_server_start(&server, &options);
	struct peer *peer = connect_in_time(&server);
	peer_post(peer, "/park", 3);
	peer_server_wait_parked(&server, 1);
	for (int i = 0; i < 3; i++) { /* three times the deadline of another */
		struct peer *mute = peer_connect_plain(server.port);
		peer_expect_end(mute);
		peer_close(mute);
	}
	peer_server_release(&server, "worth it");
	peer_expect(peer, 200, "worth it");
	peer_close(peer);
	peer_server_stop(&server);
}

/* The handshake has a deadline; a connection that is through it waits as an idle one does. */
static void waits_for_a_first_request(void **state)
{
	struct peer_server server;
	struct gq_server_options options = short_deadlines(&server);

	(void)state;
	options.idle_timeout_ns = 60 * GQ_NS_PER_S;
	peer_server_start(&server, &options);
	struct peer *peer = connect_in_time(&server);
	for (int i = 0; i < 3; i++) {
		struct peer *mute = peer_connect_plain(server.port);
		peer_expect_end(mute);
		peer_close(mute);
	}
	peer_post(peer, "/echo", 3);
	peer_expect(peer, 200, "bbb");
	peer_close(peer);
	peer_server_stop(&server);
}

static void says_retry_after_and_close(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct peer_answer answer;

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/busy", 3);
	peer_read(peer, &answer);
	assert_int_equal(answer.status, 503);
	assert_non_null(strstr(answer.head, "\r\nRetry-After: 7\r\n"));
	assert_false(answer.close);
	free(answer.body);
	peer_post(peer, "/close", 3);
	peer_read(peer, &answer);
	assert_true(answer.close);
	free(answer.body);
	peer_expect_end(peer);
	assert_true(peer->got_notify);
	peer_close(peer);
	peer_server_stop(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keeps_connections),
	    cmocka_unit_test(speaks_plain_http_for_metrics),
	    cmocka_unit_test(refuses_early),
	    cmocka_unit_test(bounds_the_head_over_records),
	    cmocka_unit_test(answers_pipelined_requests_on_workers),
	    cmocka_unit_test(answers_pipelined_requests_on_the_loop),
	    cmocka_unit_test(takes_bodies_up_to_the_limit),
	    cmocka_unit_test(swallows_what_it_refused),
	    cmocka_unit_test(asks_to_continue),
	    cmocka_unit_test(bounds_the_bytes_in_flight),
	    cmocka_unit_test(runs_small_requests_on_the_loop),
	    cmocka_unit_test(orphans_parked_requests),
	    cmocka_unit_test(does_not_start_for_a_peer_that_is_gone),
	    cmocka_unit_test(answers_a_half_closed_peer),
	    cmocka_unit_test(does_not_spin_on_a_stalled_reader),
	    cmocka_unit_test(does_not_spin_while_lingering),
	    cmocka_unit_test(cuts_who_is_slow),
	    cmocka_unit_test(closes_idle_connections),
	    cmocka_unit_test(is_not_kept_by_blank_lines),
	    cmocka_unit_test(leaves_readers_that_stall),
	    cmocka_unit_test(has_no_deadline_for_handlers),
	    cmocka_unit_test(waits_for_a_first_request),
	    cmocka_unit_test(says_retry_after_and_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
