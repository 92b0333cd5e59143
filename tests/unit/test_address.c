#include "webhook/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "webhook_peer.h"

static void parses(void **state)
{
	static const struct {
		const char *text;
		int family, every;
		unsigned port;
	} good[] = {
	    {"127.0.0.1:9443", AF_INET, 0, 9443}, {"0.0.0.0:1", AF_INET, 0, 1},
	    {"[::1]:9443", AF_INET6, 0, 9443},    {"[::]:65535", AF_INET6, 0, 65535},
	    {":9402", AF_INET6, 1, 9402},         {":0", AF_INET6, 1, 0},
	};
	static const char *const bad[] = {
	    "",
	    "9443",
	    "127.0.0.1",
	    "127.0.0.1:",
	    "127.0.0.1:x",
	    "1.2.3.4:-1",
	    "1.2.3.4:65536",
	    "1.2.3.4:99999",
	    "1.2.3.4:123456",
	    "localhost:1",
	    "::1:9443",
	    "[127.0.0.1]:1",
	    "[::1:1",
	    "::1]:1",
	    "[]:1",
	    "1.2.3:1",
	    "1.2.3.4 :1",
	    "[::1]",
	    ":+1",
	    "[::g]:1",
	};
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct gq_address address;
		assert_int_equal(gq_address_parse(good[i].text, &address, NULL), 0);
		assert_int_equal(address.sa.ss_family, good[i].family);
		assert_int_equal(address.every, good[i].every);
		in_port_t port = address.sa.ss_family == AF_INET
				     ? ((struct sockaddr_in *)&address.sa)->sin_port
				     : ((struct sockaddr_in6 *)&address.sa)->sin6_port;
		assert_int_equal(ntohs(port), good[i].port);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct gq_address address = {.every = 7};
		struct gq_err err = {0};
		assert_int_equal(gq_address_parse(bad[i], &address, &err), GQ_EINVALID);
		assert_int_equal(address.every, 7);
		assert_non_null(strstr(err.msg, bad[i]));
	}
	char longest[200];
	memset(longest, '1', sizeof longest);
	memcpy(longest + sizeof longest - 3, ":1", 3);
	assert_int_equal(gq_address_parse(longest, &(struct gq_address){0}, NULL), GQ_EINVALID);
}

static int try_connect(const char *address, unsigned port)
{
	int fd = peer_tcp(address, port);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void listens_where_told(void **state)
{
	unsigned port = 0;
	int fd = -1;
	struct gq_err err;

	(void)state;
	assert_int_equal(gq_address_listen("127.0.0.1:0", &fd, &port, &err), 0);
	assert_true(port > 0);
	assert_int_equal(try_connect("127.0.0.1", port), 0);
	assert_int_equal(try_connect("127.0.0.2", port), -ECONNREFUSED);
	assert_int_equal(try_connect("::1", port), -ECONNREFUSED);
	close(fd);

	assert_int_equal(gq_address_listen("[::1]:0", &fd, &port, &err), 0);
	assert_int_equal(try_connect("::1", port), 0);
	assert_int_equal(try_connect("127.0.0.1", port), -ECONNREFUSED);
	close(fd);

	assert_int_equal(gq_address_listen("[::]:0", &fd, &port, &err), 0);
	assert_int_equal(try_connect("::1", port), 0);
	assert_int_equal(try_connect("127.0.0.1", port), -ECONNREFUSED);
	close(fd);

	assert_int_equal(gq_address_listen(":0", &fd, &port, &err), 0);
	assert_int_equal(try_connect("::1", port), 0);
	assert_int_equal(try_connect("127.0.0.1", port), 0);
	assert_int_equal(try_connect("127.0.0.2", port), 0);
	close(fd);
}

static void says_which_address_is_taken(void **state)
{
	unsigned port, other = 7;
	int fd, second = -7;
	char text[32];
	struct gq_err err;

	(void)state;
	assert_int_equal(gq_address_listen("127.0.0.1:0", &fd, &port, &err), 0);
	(void)snprintf(text, sizeof text, "127.0.0.1:%u", port);
	assert_int_equal(gq_address_listen(text, &second, &other, &err), GQ_EIO);
	assert_non_null(strstr(err.msg, text));
	assert_non_null(strstr(err.msg, strerror(EADDRINUSE)));
	assert_int_equal(second, -7);
	assert_int_equal(other, 7);
	close(fd);
	/* an address that is not this machine's (a range for documentation) */
	assert_int_equal(gq_address_listen("192.0.2.1:0", &second, &other, &err), GQ_EIO);
	assert_non_null(strstr(err.msg, "192.0.2.1:0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parses),
	    cmocka_unit_test(listens_where_told),
	    cmocka_unit_test(says_which_address_is_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
