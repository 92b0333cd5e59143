#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "informer/secret.h"

static void test_reads_a_file(void **state)
{
	char path[] = "/tmp/gq-secret-XXXXXX";
	struct gq_err err = {0};
	char *text = NULL;
	size_t len = 0;
	(void)state;

	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "12345", 5), 5);
	close(fd);
	assert_int_equal(gq_secret_read_file(path, 5, &text, &len, &err), 0);
	assert_string_equal(text, "12345");
	assert_int_equal(len, 5);
	gq_secret_free(text);
	text = NULL;
	assert_int_equal(gq_secret_read_file(path, 4, &text, &len, &err), GQ_ETOOBIG);
	assert_null(text);
	assert_non_null(strstr(err.msg, path));
	unlink(path);
	assert_int_equal(gq_secret_read_file(path, 4, &text, &len, &err), GQ_EIO);
	assert_non_null(strstr(err.msg, strerror(ENOENT)));
	assert_int_equal(gq_secret_read_file("/tmp", 4, &text, &len, &err), GQ_EIO);
	assert_null(text);
}

static void test_trims(void **state)
{
	static const char *const cases[][2] = {
	    {"", ""}, {" \r\n\t", ""}, {"a", "a"}, {"\n a b\t\r\n", "a b"}};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *got = gq_secret_trimmed(cases[i][0], strlen(cases[i][0]));
		assert_string_equal(got, cases[i][1]);
		gq_secret_free(got);
	}
	gq_secret_free(NULL);
	gq_secret_wipe(NULL, 0);
}

static void test_header_values(void **state)
{
	(void)state;
	assert_true(gq_secret_is_header_value(""));
	assert_true(gq_secret_is_header_value("eyJ.a b-ü"));
	assert_false(gq_secret_is_header_value("a\r\nX-Evil: 1"));
	assert_false(gq_secret_is_header_value("a\nb"));
	assert_false(gq_secret_is_header_value("a\x7f"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reads_a_file),
	    cmocka_unit_test(test_trims),
	    cmocka_unit_test(test_header_values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
