#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

static struct timespec fake_mono = {.tv_sec = 1000};

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	/* 2026-12-04 18:00:07.089 UTC */
	*ret = id == CLOCK_MONOTONIC ? fake_mono
				     : (struct timespec){.tv_sec = 1796407207, .tv_nsec = 89999999};
	return 0;
}

/* Standard error goes to a file while lines are written. */
static int saved_stderr;
static FILE *sink;

static void capture_begin(void)
{
	sink = tmpfile();
	assert_non_null(sink);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(dup2(fileno(sink), STDERR_FILENO) >= 0);
}

/* What was written, NUL-terminated. */
static const char *capture_end(void)
{
	static char text[100000];

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	ssize_t n = pread(fileno(sink), text, sizeof text - 1, 0);
	fclose(sink);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

static void test_text(void **state)
{
	(void)state;
	gq_log_configure(GQ_LOG_DEBUG, GQ_LOG_TEXT);
	capture_begin();
	gq_log(GQ_LOG_INFO, "policy accepted", GQ_S("hash", "ab12"), GQ_I("tenants", -3));
	gq_log(GQ_LOG_ERROR, "no fields");
	gq_log(GQ_LOG_DEBUG, "quoted", GQ_S("a", "two words"), GQ_S("b", "x=\"y\"\n"),
	       GQ_S("c", ""), GQ_S("d", NULL), GQ_S("e", "\x1B[31m"), GQ_S("f", "a\xFF"),
	       GQ_S("g", "a/b:c,d"));
	assert_string_equal(
	    capture_end(),
	    "2026-12-04T18:00:07.089Z info  policy accepted hash=ab12 tenants=-3\n"
	    "2026-12-04T18:00:07.089Z error no fields\n"
	    "2026-12-04T18:00:07.089Z debug quoted a=\"two words\" b=\"x=\\\"y\\\"\\n\" "
	    "c=\"\" d=\"\" e=\"\\u001b[31m\" f=\"a\xEF\xBF\xBD\" g=a/b:c,d\n");
}

static void test_json(void **state)
{
	(void)state;
	gq_log_configure(GQ_LOG_INFO, GQ_LOG_JSON);
	capture_begin();
	gq_log(GQ_LOG_WARN, "a \"message\"", GQ_S("k", "line\nbreak"), GQ_I("n", INT64_MIN));
	gq_log(GQ_LOG_INFO, "plain");
	assert_string_equal(
	    capture_end(),
	    "{\"time\":\"2026-12-04T18:00:07.089Z\",\"level\":\"warn\",\"msg\":"
	    "\"a \\\"message\\\"\",\"k\":\"line\\nbreak\",\"n\":-9223372036854775808}\n"
	    "{\"time\":\"2026-12-04T18:00:07.089Z\",\"level\":\"info\",\"msg\":\"plain\"}\n");
}

static void test_level(void **state)
{
	(void)state;
	gq_log_configure(GQ_LOG_WARN, GQ_LOG_TEXT);
	capture_begin();
	gq_log(GQ_LOG_DEBUG, "too low 1");
	gq_log(GQ_LOG_INFO, "too low 2");
	assert_string_equal(capture_end(), "");
}

/* A field that does not fit is left out; the line stays one that can be parsed. */
static void test_long(void **state)
{
	static char huge[9000];

	(void)state;
	memset(huge, 'x', sizeof huge - 1);
	gq_log_configure(GQ_LOG_INFO, GQ_LOG_JSON);
	capture_begin();
	gq_log(GQ_LOG_INFO, "long", GQ_S("a", huge), GQ_I("b", 1), GQ_S("c", huge));
	assert_string_equal(
	    capture_end(),
	    "{\"time\":\"2026-12-04T18:00:07.089Z\",\"level\":\"info\",\"msg\":\"long\","
	    "\"b\":1,\"left_out\":2}\n");
	/* at any length */
	for (size_t len = 7900; len < 8200; len++) {
		huge[len] = '\0';
		capture_begin();
		fake_mono.tv_sec += 10;
		gq_log(GQ_LOG_INFO, "long", GQ_S("a", huge));
		const char *line = capture_end();
		size_t got = strlen(line);
		assert_in_range(got, 60, 8192);
		assert_string_equal(line + got - 2, "}\n");
		huge[len] = 'x';
	}
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void test_burst(void **state)
{
	static const char first[] = "first", second[] = "second";

	(void)state;
	gq_log_configure(GQ_LOG_INFO, GQ_LOG_TEXT);
	capture_begin();
	for (int i = 0; i < 25; i++) {
		gq_log(GQ_LOG_INFO, first);
		gq_log(GQ_LOG_INFO, second); /* has a limit of its own */
	}
	assert_int_equal(count_lines(capture_end()), 20);

	fake_mono.tv_sec += 9;
	capture_begin();
	gq_log(GQ_LOG_INFO, first);
	assert_string_equal(capture_end(), "");

	fake_mono.tv_sec += 1;
	capture_begin();
	gq_log(GQ_LOG_INFO, first);
	gq_log(GQ_LOG_INFO, first);
	assert_string_equal(capture_end(), "2026-12-04T18:00:07.089Z info  first held_back=16\n"
					   "2026-12-04T18:00:07.089Z info  first\n");
}

/* However many messages there are, and whatever their order: never more than the limit of each. */
static void test_many_messages(void **state)
{
	static char messages[1000][16];

	(void)state;
	gq_log_configure(GQ_LOG_INFO, GQ_LOG_TEXT);
	fake_mono.tv_sec += 100;
	capture_begin();
	for (int round = 0; round < 12; round++)
		for (int i = 0; i < 200; i++) {
			snprintf(messages[i], sizeof messages[i], "m%03d", i);
			gq_log(GQ_LOG_INFO, messages[i]);
		}
	assert_int_equal(count_lines(capture_end()), 2000);
	/* more than have a place of their own share one limit */
	capture_begin();
	for (int i = 200; i < 1000; i++) {
		snprintf(messages[i], sizeof messages[i], "m%03d", i);
		gq_log(GQ_LOG_INFO, messages[i]);
	}
	assert_in_range(count_lines(capture_end()), 10, 300);
	fake_mono.tv_sec += 100;
	capture_begin();
	for (int i = 0; i < 1000; i++)
		gq_log(GQ_LOG_INFO, messages[i]);
	assert_in_range(count_lines(capture_end()), 200, 300);
}

static void test_parse(void **state)
{
	enum gq_log_level level = GQ_LOG_ERROR;
	enum gq_log_format format = GQ_LOG_JSON;

	(void)state;
	assert_int_equal(gq_log_level_parse("debug", &level), 0);
	assert_int_equal(level, GQ_LOG_DEBUG);
	assert_int_equal(gq_log_level_parse("warn", &level), 0);
	assert_int_equal(level, GQ_LOG_WARN);
	assert_int_equal(gq_log_level_parse("Warn", &level), GQ_EINVALID);
	assert_int_equal(gq_log_level_parse("", &level), GQ_EINVALID);
	assert_int_equal(level, GQ_LOG_WARN);
	assert_int_equal(gq_log_format_parse("text", &format), 0);
	assert_int_equal(format, GQ_LOG_TEXT);
	assert_int_equal(gq_log_format_parse("json", &format), 0);
	assert_int_equal(format, GQ_LOG_JSON);
	assert_int_equal(gq_log_format_parse("xml", &format), GQ_EINVALID);
	assert_int_equal(format, GQ_LOG_JSON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text),  cmocka_unit_test(test_json),
	    cmocka_unit_test(test_level), cmocka_unit_test(test_long),
	    cmocka_unit_test(test_burst), cmocka_unit_test(test_many_messages),
	    cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
