#include "webhook/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>

#include "webhook_peer.h"

static struct peer_server server;

static int setup(void **state)
{
	struct gq_server_options options = peer_options(&server);

	(void)state;
	peer_server_start(&server, &options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	peer_server_stop(&server);
	return 0;
}

static void expect_works(struct peer *peer)
{
	assert_non_null(peer);
	peer_post(peer, "/echo", 3);
	peer_expect(peer, 200, "bbb");
}

static void speaks_http_1_1_whatever_is_offered(void **state)
{
	static const struct {
		const char *offer, *chosen;
	} cases[] = {
	    {"\x08http/1.1", "http/1.1"},
	    {"\x02h2\x08http/1.1", "http/1.1"},
	    {"\x02h2", ""},
	    {"\x08http/1.0", ""},
	    {NULL, ""},
	};

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
			struct peer *peer = peer_try_connect(server.port, cases[i].offer, 0, 0);
			const unsigned char *name;
			unsigned len;
			expect_works(peer);
			SSL_get0_alpn_selected(peer->ssl, &name, &len);
			assert_int_equal(len, strlen(cases[i].chosen));
			assert_memory_equal(len ? (const char *)name : "", cases[i].chosen, len);
			/* what a client does that believes in h2 */
			peer_puts(peer, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
			peer_send(peer, "\0\0\0\4\0\0\0\0\0", 9);
			struct peer_answer answer;
			peer_read(peer, &answer);
			assert_true(answer.status >= 400 && answer.close);
			free(answer.body);
			peer_expect_end(peer);
			peer_close(peer);
		}
	}
	peer_server_wait_open(&server, 0);
}

static void speaks_tls_1_2_and_1_3_only(void **state)
{
	static const struct {
		int version;
		bool good;
	} cases[] = {
	    {TLS1_VERSION, false},
	    {TLS1_1_VERSION, false},
	    {TLS1_2_VERSION, true},
	    {TLS1_3_VERSION, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint64_t before = peer_server_stats(&server).tls_failures_total;
		struct peer *peer =
		    peer_try_connect(server.port, NULL, cases[i].version, cases[i].version);
		if (!cases[i].good) {
			assert_null(peer);
			peer_until(peer_server_stats(&server).tls_failures_total == before + 1);
			continue;
		}
		expect_works(peer);
		assert_int_equal(SSL_version(peer->ssl), cases[i].version);
		peer_close(peer);
	}
}

static void refuses_renegotiation(void **state)
{
	struct peer *peer = peer_try_connect(server.port, NULL, 0, TLS1_2_VERSION);

	(void)state;
	expect_works(peer);
	assert_int_equal(SSL_renegotiate(peer->ssl), 1);
	assert_true(SSL_do_handshake(peer->ssl) <= 0);
	ERR_clear_error();
	peer_close(peer);
	peer_server_wait_open(&server, 0);
}

static void resumes_no_session(void **state)
{
	(void)state;
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		struct peer *first = peer_try_connect(server.port, NULL, version, version);
		expect_works(first);
		SSL_SESSION *session = SSL_get1_session(first->ssl);
		assert_non_null(session);
		assert_false(SSL_SESSION_has_ticket(session));
		/* a session that ended well is what a client may ask for again */
		SSL_shutdown(first->ssl);
		SSL_CTX *ctx = SSL_get_SSL_CTX(first->ssl);
		SSL *ssl = SSL_new(ctx);
		int fd = peer_tcp("127.0.0.1", server.port);
		assert_true(fd >= 0);
		SSL_set_fd(ssl, fd);
		SSL_set_session(ssl, session);
		assert_int_equal(SSL_connect(ssl), 1);
		assert_false(SSL_session_reused(ssl));
		SSL_SESSION_free(session);
		peer_close(first);
		struct peer second = {.fd = fd, .ssl = ssl};
		expect_works(&second);
		SSL_free(ssl);
		close(fd);
	}
}

static void counts_failures_but_not_probes(void **state)
{
	uint64_t before = peer_server_stats(&server).tls_failures_total;
	uint64_t total = peer_server_stats(&server).connections_total;

	(void)state;
	peer_server_wait_open(&server, 0);
	struct peer *peer = peer_connect_plain(server.port);
	peer_close(peer);
	peer_until(peer_server_stats(&server).connections_total == total + 1);
	peer_server_wait_open(&server, 0);
	assert_int_equal(peer_server_stats(&server).tls_failures_total, before);
	/* good ones that leave without a word, before and after a request */
	for (int i = 0; i < 2; i++) {
		peer = peer_connect(server.port);
		if (i)
			expect_works(peer);
		else
			peer_server_wait_open(&server, 1);
		peer_close(peer);
		peer_server_wait_open(&server, 0);
	}
	assert_int_equal(peer_server_stats(&server).tls_failures_total, before);
	/* plain HTTP where TLS is spoken */
	peer = peer_connect_plain(server.port);
	peer_puts(peer, "GET / HTTP/1.1\r\nHost: test\r\n\r\n");
	while (!peer->ended)
		if (recv(peer->fd, peer->in, sizeof peer->in, 0) <= 0)
			peer->ended = true;
	peer_close(peer);
	peer_until(peer_server_stats(&server).tls_failures_total == before + 1);
}

/* Whatever name the client asks for: there is one certificate. */
static void ignores_the_server_name(void **state)
{
	static const char *const names[] = {"https", "metrics", "gpuquota.gpuquota-system.svc"};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
		SSL *ssl = SSL_new(ctx);
		int fd = peer_tcp("127.0.0.1", server.port);
		assert_true(fd >= 0);
		SSL_set_fd(ssl, fd);
		SSL_set_tlsext_host_name(ssl, names[i]);
		assert_int_equal(SSL_connect(ssl), 1);
		struct peer peer = {.fd = fd, .ssl = ssl};
		expect_works(&peer);
		SSL_free(ssl);
		SSL_CTX_free(ctx);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(speaks_http_1_1_whatever_is_offered),
	    cmocka_unit_test(speaks_tls_1_2_and_1_3_only),
	    cmocka_unit_test(refuses_renegotiation),
	    cmocka_unit_test(resumes_no_session),
	    cmocka_unit_test(counts_failures_but_not_probes),
	    cmocka_unit_test(ignores_the_server_name),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
