#include "webhook/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "webhook_peer.h"

static void waits_quietly_at_the_maximum(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct peer *peer[3];

	(void)state;
	options.max_connections = 3;
	peer_server_start(&server, &options);
	for (int i = 0; i < 3; i++)
		peer[i] = peer_connect(server.port);
	/* more than fit, in the kernel's queue */
	struct peer *waiting[10];
	for (int i = 0; i < 10; i++)
		waiting[i] = peer_connect_plain(server.port);
	assert_in_range(peer_turns(&server, peer[0], 300), 300, 300 * 5);
	assert_int_equal(peer_server_stats(&server).connections_open, 3);
	/* metrics have room of their own */
	struct peer *metrics = peer_connect_plain(server.metrics_port);
	peer_puts(metrics, "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n");
	peer_expect(metrics, 200, NULL);
	peer_close(metrics);
	/* each that leaves lets one in, in order */
	for (int i = 0; i < 10; i++)
		peer_close(waiting[i]);
	peer_close(peer[1]);
	struct peer *next = peer_connect(server.port);
	peer_post(next, "/echo", 3);
	peer_expect(next, 200, "bbb");
	peer_close(next);
	peer_close(peer[0]);
	peer_close(peer[2]);
	peer_server_wait_open(&server, 0);
	peer_server_stop(&server);
}

static void survives_the_end_of_descriptors(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rlimit limit, low;

	(void)state;
	peer_server_start(&server, &options);
	struct peer *peer = peer_connect(server.port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	int next = dup(fd);
	assert_true(next >= 0);
	close(next);
	low = limit;
	low.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	address.sin_port = htons((uint16_t)server.port);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	uint64_t turns = peer_turns(&server, peer, 300);
	uint64_t open = peer_server_stats(&server).connections_open;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_in_range(turns, 300, 300 * 5);
	assert_int_equal(open, 1);
	/* and is taken up again by itself */
	peer_server_wait_open(&server, 2);
	close(fd);
	peer_close(peer);
	peer_server_stop(&server);
}

static void stays_below_the_limit_of_files(void **state)
{
	struct peer_server server;
	struct gq_server_options options = peer_options(&server);
	struct rlimit limit, low;
	struct gq_err err;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	int code = gq_server_new(&options, &server.server, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(code, GQ_EINVALID);
	assert_non_null(strstr(err.msg, "open files"));

	low.rlim_cur = 148; /* leaves 4 */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	peer_server_start(&server, &options);
	struct peer *peer[5];
	for (int i = 0; i < 4; i++)
		peer[i] = peer_connect(server.port);
	peer[4] = peer_connect_plain(server.port);
	assert_in_range(peer_turns(&server, peer[0], 50), 50, 50 * 5);
	assert_int_equal(peer_server_stats(&server).connections_open, 4);
	for (int i = 0; i < 5; i++)
		peer_close(peer[i]);
	peer_server_stop(&server);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(waits_quietly_at_the_maximum),
	    cmocka_unit_test(survives_the_end_of_descriptors),
	    cmocka_unit_test(stays_below_the_limit_of_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
