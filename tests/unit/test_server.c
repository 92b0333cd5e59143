#include "webhook/server.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/x509.h>

#include "base/clock.h"
#include "webhook_peer.h"

static void fails_at_start(void **state)
{
	struct peer_server server;
	const struct gq_server_options good = peer_options(&server);
	struct gq_server *none = (struct gq_server *)&server;
	struct gq_server_options options[8];
	char taken[32];
	struct gq_err err;

	(void)state;
	peer_make_pair("other", 0, 3600);
	peer_server_start(&server, &good);
	(void)snprintf(taken, sizeof taken, "127.0.0.1:%u", server.port);
	const struct {
		int code;
		const char *says;
	} want[] = {
	    {GQ_EINVALID, "localhost"}, {GQ_EIO, taken},        {GQ_EIO, taken},
	    {GQ_EINVALID, "other.key"}, {GQ_EIO, "absent.crt"}, {GQ_EINVALID, "needs"},
	    {GQ_EINVALID, "needs"},     {GQ_EINVALID, "needs"},
	};
	for (size_t i = 0; i < 8; i++)
		options[i] = good;
	options[0].listen = "localhost:0";
	options[1].listen = taken;
	options[2].metrics_listen = taken;
	options[3].tls_key = peer_path("other.key");
	options[4].tls_cert = peer_path("absent.crt");
	options[5].handle = NULL;
	options[6].handle_metrics = NULL;
	options[7].listen = NULL;
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(gq_server_new(&options[i], &none, &err), want[i].code);
		assert_non_null(strstr(err.msg, want[i].says));
		assert_ptr_equal(none, &server);
	}
	peer_server_stop(&server);
}

static void serves_one_address_only(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.metrics_listen = NULL;
	options.handle_metrics = NULL;
	peer_server_start(&server, &options);
	assert_int_equal(server.metrics_port, 0);
	assert_true(peer_tcp("127.0.0.2", server.port) < 0);
	assert_int_equal(errno, ECONNREFUSED);
	assert_true(peer_tcp("::1", server.port) < 0);
	assert_int_equal(errno, ECONNREFUSED);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/echo", 3);
	peer_expect(peer, 200, "bbb");
	peer_close(peer);
	peer_server_stop(&server);
}

static void is_freed_without_having_run(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(gq_server_new(&options, &server.server, NULL), 0);
		gq_server_free(server.server);
	}
	gq_server_free(NULL);
}

static void counts(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *one = peer_connect(server.port), *two = peer_connect(server.port);
	peer_post(one, "/echo", 3);
	peer_expect(one, 200, NULL);
	peer_puts(one, "GET /missing HTTP/1.1\r\nHost: test\r\n\r\n");
	peer_expect(one, 404, NULL);
	peer_post(one, "/busy", 3);
	peer_expect(one, 503, NULL);
	peer_post(two, "/park", 3);
	peer_server_wait_parked(&server, 1);
	struct gq_server_stats stats = peer_server_stats(&server);
	assert_int_equal(stats.connections_open, 2);
	assert_int_equal(stats.connections_total, 2);
	assert_int_equal(stats.requests_in_flight, 1);
	assert_int_equal(stats.responses_total[2], 1);
	assert_int_equal(stats.responses_total[4], 1);
	assert_int_equal(stats.responses_total[5], 1);
	assert_int_equal(stats.tls_failures_total, 0);
	assert_in_range(stats.certificate_not_after_s - (int64_t)time(NULL), 3000, 3600);
	peer_server_release(&server, "");
	peer_expect(two, 200, "");
	peer_until(peer_server_stats(&server).requests_in_flight == 0);
	peer_close(one);
	peer_close(two);
	peer_server_wait_open(&server, 0);
	peer_server_stop(&server);
}

static void retries_and_frees_state(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	for (unsigned i = 1; i <= 20; i++) {
		peer_post(peer, "/retry?5", 3);
		peer_expect(peer, 200, "6");
		pthread_mutex_lock(&server.lock);
		assert_int_equal(server.freed, i);
		pthread_mutex_unlock(&server.lock);
	}
	peer_close(peer);
	peer_server_stop(&server);
}

static void copy_pair(const char *name)
{
	static const char *const ends[] = {".crt", ".key"};
	char from[64], to[64], text[16384];

	for (int i = 0; i < 2; i++) {
		(void)snprintf(from, sizeof from, "%s%s", name, ends[i]);
		(void)snprintf(to, sizeof to, "live%s", ends[i]);
		FILE *file = fopen(peer_path(from), "re");
		assert_non_null(file);
		size_t n = fread(text, 1, sizeof text, file);
		fclose(file);
		peer_write(to, text, n);
	}
}

static void expect_name(const struct peer *peer, const char *name)
{
	char text[64] = "";
	X509 *cert = SSL_get1_peer_certificate(peer->ssl);

	assert_non_null(cert);
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, text, sizeof text);
	X509_free(cert);
	assert_string_equal(text, name);
}

/* Connects over and over until told to stop. */
struct caller {
	pthread_t thread;
	unsigned port;
	_Atomic bool stop;
	_Atomic unsigned done, failed;
};

static void *call(void *arg)
{
	struct caller *caller = arg;

	while (!caller->stop) {
		struct peer *peer = peer_try_connect(caller->port, NULL, 0, 0);
		if (!peer) {
			caller->failed++;
			continue;
		}
		for (int i = 0; i < 3; i++) {
			peer_post(peer, "/echo", 3);
			peer_expect(peer, 200, "bbb");
		}
		peer_close(peer);
		caller->done++;
	}
	return NULL;
}

static void swaps_certificates_under_load(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct caller caller = {0};
	struct gq_err err;

	(void)state;
	peer_make_pair("a", 0, 3600);
	peer_make_pair("b", 2048, 7200);
	copy_pair("a");
	options.tls_cert = peer_path("live.crt");
	options.tls_key = peer_path("live.key");
	peer_server_start(&server, &options);
	caller.port = server.port;
	assert_int_equal(pthread_create(&caller.thread, NULL, call, &caller), 0);
	struct peer *old = peer_connect(server.port);
	expect_name(old, "a");
	for (int i = 0; i < 20; i++) {
		const char *name = i % 2 ? "a" : "b";
		copy_pair(name);
		if (gq_server_reload_certificate(server.server, &err))
			fail_msg("%s", err.msg);
		struct peer *peer = peer_connect(server.port);
		expect_name(peer, name);
		peer_close(peer);
	}
	/* half of a rotation: the new key is not there yet */
	copy_pair("b");
	assert_int_equal(gq_server_reload_certificate(server.server, NULL), 0);
	char text[8192];
	FILE *file = fopen(peer_path("a.crt"), "re");
	assert_non_null(file);
	size_t n = fread(text, 1, sizeof text, file);
	fclose(file);
	peer_write("live.crt", text, n);
	assert_int_equal(gq_server_reload_certificate(server.server, &err), GQ_EINVALID);
	assert_non_null(strstr(err.msg, "live.key"));
	struct peer *peer = peer_connect(server.port);
	expect_name(peer, "b");
	peer_close(peer);
	assert_true(peer_server_stats(&server).certificate_not_after_s >
		    (int64_t)time(NULL) + 7000);
	/* the connection of the beginning is still good */
	peer_post(old, "/echo", 3);
	peer_expect(old, 200, "bbb");
	peer_close(old);
	unsigned before = caller.done;
	peer_until(caller.done > before);
	caller.stop = true;
	pthread_join(caller.thread, NULL);
	assert_int_equal(caller.failed, 0);
	peer_server_stop(&server);
}

static void drains(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct peer *parked[3];
	struct peer_answer answer;

	(void)state;
	peer_server_start(&server, &options);
	for (unsigned i = 0; i < 3; i++) {
		parked[i] = peer_connect(server.port);
		peer_post(parked[i], "/park", 3);
		peer_server_wait_parked(&server, i + 1);
	}
	struct peer *idle = peer_connect(server.port);
	peer_post(idle, "/echo", 3);
	peer_expect(idle, 200, NULL);
	struct peer *begun = peer_connect(server.port);
	peer_puts(begun, "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n1");
	peer_post(idle, "/echo", 3);
	peer_expect(idle, 200, NULL);
	gq_server_drain(server.server, 60 * GQ_NS_PER_S);

	/* the listener is open, new work is done, and told to go */
	struct peer *late = peer_connect(server.port);
	peer_post(late, "/echo", 3);
	peer_read(late, &answer);
	assert_int_equal(answer.status, 200);
	assert_true(answer.close);
	free(answer.body);
	peer_expect_end(late);
	peer_close(late);
	peer_puts(begun, "2");
	peer_read(begun, &answer);
	assert_string_equal(answer.body, "12");
	assert_true(answer.close);
	free(answer.body);
	peer_close(begun);
	/* an idle connection is not cut: its next request may be on the way */
	peer_post(idle, "/echo", 3);
	peer_read(idle, &answer);
	assert_int_equal(answer.status, 200);
	assert_true(answer.close);
	free(answer.body);
	peer_close(idle);
	for (int i = 0; i < 3; i++)
		peer_server_release(&server, "done");
	for (int i = 0; i < 3; i++) {
		peer_read(parked[i], &answer);
		assert_string_equal(answer.body, "done");
		assert_true(answer.close);
		free(answer.body);
		peer_expect_end(parked[i]);
		peer_close(parked[i]);
	}
	peer_server_join(&server);
	assert_int_equal(peer_server_stats(&server).requests_in_flight, 0);
	peer_server_stop(&server);
}

static void sends_idle_connections_away(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *idle = peer_connect(server.port), *unused = peer_connect(server.port);
	struct peer *parked = peer_connect(server.port), *begun = peer_connect(server.port);
	struct peer *probe = peer_connect_plain(server.metrics_port);
	peer_post(idle, "/echo", 3);
	peer_expect(idle, 200, NULL);
	peer_post(parked, "/park", 3);
	peer_server_wait_parked(&server, 1);
	peer_puts(begun, "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n1");
	peer_puts(probe, "GET /echo HTTP/1.1\r\nHost: test\r\n\r\n");
	peer_expect(probe, 200, NULL);
	/* by now the loop has seen the half of a request, or finds it when it looks */
	gq_server_close_idle(server.server);
	peer_expect_end(idle);
	assert_true(idle->got_notify);
	peer_expect_end(unused);
	peer_close(idle);
	peer_close(unused);
	/* who is served stays, also for what comes next */
	peer_server_release(&server, "done");
	peer_expect(parked, 200, "done");
	peer_puts(begun, "2");
	peer_expect(begun, 200, "12");
	peer_puts(probe, "GET /echo HTTP/1.1\r\nHost: test\r\n\r\n");
	peer_expect(probe, 200, NULL);
	peer_server_wait_open(&server, 3);
	peer_post(parked, "/echo", 3);
	peer_expect(parked, 200, "bbb");
	/* new ones come in, and go with the next call */
	idle = peer_connect(server.port);
	peer_post(idle, "/echo", 3);
	peer_expect(idle, 200, "bbb");
	gq_server_close_idle(server.server);
	peer_expect_end(idle);
	peer_expect_end(parked);
	peer_expect_end(begun);
	peer_close(idle);
	peer_close(parked);
	peer_close(begun);
	peer_server_wait_open(&server, 1);
	peer_close(probe);
	peer_server_stop(&server);
}

/* Bytes that the loop has not looked at yet are a request. */
static void sends_away_nobody_who_asks(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.inline_below_bytes = 1000;
	peer_server_start(&server, &options);
	struct peer *slow = peer_connect(server.port), *asks = peer_connect(server.port);
	peer_post(asks, "/echo", 3);
	peer_expect(asks, 200, "bbb");
	peer_post(slow, "/gate", 3);
	peer_until(peer_server_handled(&server) == 2);
	peer_post(asks, "/echo", 4);
	gq_server_close_idle(server.server);
	peer_server_open_gate(&server);
	peer_expect(slow, 200, "bbb");
	peer_expect(asks, 200, "bbbb");
	peer_close(slow);
	peer_close(asks);
	peer_server_stop(&server);
}

static void says_goodbye_to_idle_connections(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	struct peer *idle = peer_connect(server.port);
	peer_post(idle, "/echo", 3);
	peer_expect(idle, 200, NULL);
	gq_server_drain(server.server, 60 * GQ_NS_PER_S);
	peer_server_join(&server);
	peer_expect_end(idle);
	assert_true(idle->got_notify);
	peer_close(idle);
	peer_server_stop(&server);
}

static void drains_no_shorter_and_no_longer(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);

	(void)state;
	options.drain_min_ns = 100 * GQ_NS_PER_MS;
	peer_server_start(&server, &options);
	int64_t since = gq_clock_mono_ns(&gq_clock_real);
	gq_server_drain(server.server, 60 * GQ_NS_PER_S);
	peer_server_join(&server);
	assert_true(gq_clock_mono_ns(&gq_clock_real) - since >= 100 * GQ_NS_PER_MS);
	peer_server_stop(&server);

	options = peer_options(&server);
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	peer_post(peer, "/park", 3);
	peer_server_wait_parked(&server, 1);
	gq_server_drain(server.server, 100 * GQ_NS_PER_MS);
	peer_server_join(&server); /* though one is in flight */
	assert_int_equal(peer_server_stats(&server).requests_in_flight, 1);
	/* whose answer comes after the server is gone */
	struct gq_request *late = peer_server_take(&server);
	peer_server_stop(&server);
	gq_request_answer(late, &(struct gq_answer){.status = 200});
	peer_close(peer);
}

/* Many at once, with every way to answer, while some leave. */
static void *mixed_client(void *arg)
{
	static const char *const paths[] = {"/echo", "/retry?2", "/big?50000", "/busy", "/echo?x"};
	struct caller *caller = arg;

	for (unsigned i = 0; i < 60; i++) {
		struct peer *peer = peer_connect(caller->port);
		for (unsigned j = 0; j < 5; j++) {
			peer_post(peer, paths[(i + j) % 5], 1 + i * 97 % 3000);
			if (i % 7 == 3 && j == 3)
				break;
			peer_expect(peer, strstr(paths[(i + j) % 5], "busy") ? 503 : 200, NULL);
		}
		if (i % 7 == 3)
			peer_reset(peer);
		else
			peer_close(peer);
		caller->done++;
	}
	return NULL;
}

static void serves_many_at_once(void **state)
{
	(void)state;
	for (size_t inline_below = 0; inline_below <= 1000; inline_below += 1000) {
		struct peer_server server;
		struct gq_server_options options = peer_options(&server);
		struct caller callers[6] = {0};
		options.inline_below_bytes = inline_below;
		options.workers = 3;
		peer_server_start(&server, &options);
		for (int i = 0; i < 6; i++) {
			callers[i].port = server.port;
			assert_int_equal(
			    pthread_create(&callers[i].thread, NULL, mixed_client, &callers[i]), 0);
		}
		for (int i = 0; i < 6; i++) {
			pthread_join(callers[i].thread, NULL);
			assert_int_equal(callers[i].done, 60);
		}
		peer_server_wait_open(&server, 0);
		peer_until(peer_server_stats(&server).requests_in_flight == 0);
		peer_server_stop(&server);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fails_at_start),
	    cmocka_unit_test(serves_one_address_only),
	    cmocka_unit_test(is_freed_without_having_run),
	    cmocka_unit_test(counts),
	    cmocka_unit_test(retries_and_frees_state),
	    cmocka_unit_test(swaps_certificates_under_load),
	    cmocka_unit_test(drains),
	    cmocka_unit_test(sends_idle_connections_away),
	    cmocka_unit_test(sends_away_nobody_who_asks),
	    cmocka_unit_test(says_goodbye_to_idle_connections),
	    cmocka_unit_test(drains_no_shorter_and_no_longer),
	    cmocka_unit_test(serves_many_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
