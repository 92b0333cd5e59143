/* A process has one trace, so these tests go from none to one, in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/trace.h"
#include "tests/unit/app_testing.h"

#define VARIABLE "GPUQUOTA_TRACE"

static char dir[] = "/tmp/gpuquota-trace-XXXXXX";
static char path[128];

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof path, "%s/trace", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir);
}

static void off(void **state)
{
	(void)state;
	assert_int_equal(unsetenv(VARIABLE), 0);
	for (int i = 0; i < 2; i++) {
		gq_trace_open("pod-a");
		assert_false(gq_trace_on());
		gq_trace("lead", 1, 2, NULL, 0);
		assert_int_equal(setenv(VARIABLE, "", 1), 0);
	}
}

static void no_file(void **state)
{
	struct app_output output;

	(void)state;
	assert_int_equal(setenv(VARIABLE, "/nowhere/trace", 1), 0);
	app_output_begin(&output, STDERR_FILENO);
	gq_trace_open("pod-a");
	gq_trace("lead", 1, 2, NULL, 0);
	char *log = app_output_end(&output);
	assert_false(gq_trace_on());
	assert_has(log, "the trace can't be written");
	assert_has(log, "/nowhere/trace");
	assert_has(log, "No such file");
	assert_int_equal(occurrences(log, "\n"), 1);
	free(log);
}

/* The file's lines, cut in place; their number. */
static size_t read_lines(char *text, char *lines[], size_t max)
{
	size_t n = 0;

	for (char *end; (end = strchr(text, '\n')); text = end + 1) {
		*end = '\0';
		assert_true(n < max);
		lines[n++] = text;
	}
	assert_string_equal(text, ""); /* whole lines only */
	return n;
}

static void lines(void **state)
{
	static const char *const uids[] = {"3b0a-1", "a \"quoted\"\n\xc3\xa9 one"};
	int64_t before_ns = gq_clock_mono_ns(&gq_clock_real);
	char *line[8];
	size_t len;

	(void)state;
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	(void)fputs("{\"by\":\"an earlier process\"}\n", file);
	(void)fclose(file);
	assert_int_equal(setenv(VARIABLE, path, 1), 0);
	gq_trace_open("pod \"a\"");
	assert_true(gq_trace_on());
	gq_trace("barrier", 7, 0, NULL, 0);
	gq_trace("grant", UINT64_MAX, 17, uids, 1);
	gq_trace("write", 8, UINT64_MAX, uids, 2);

	char *text = read_file(path, &len);
	assert_int_equal(read_lines(text, line, LEN(line)), 4);
	assert_string_equal(line[0], "{\"by\":\"an earlier process\"}");
	static const char *const rest[] = {
	    ",\"by\":\"pod \\\"a\\\"\",\"event\":\"barrier\",\"epoch\":7,\"seq\":0,\"uids\":[]}",
	    ",\"by\":\"pod \\\"a\\\"\",\"event\":\"grant\",\"epoch\":18446744073709551615,"
	    "\"seq\":17,\"uids\":[\"3b0a-1\"]}",
	    ",\"by\":\"pod \\\"a\\\"\",\"event\":\"write\",\"epoch\":8,"
	    "\"seq\":18446744073709551615,\"uids\":[\"3b0a-1\",",
	};
	int64_t last_ns = before_ns;
	for (size_t i = 0; i < LEN(rest); i++) {
		struct json_object *root = json_parse(line[i + 1], strlen(line[i + 1]));
		int64_t ns = json_object_get_int64(json_at(root, "ns"));
		assert_true(ns >= last_ns && ns <= gq_clock_mono_ns(&gq_clock_real));
		last_ns = ns;
		assert_has(line[i + 1], "{\"ns\":");
		assert_has(line[i + 1], rest[i]);
		if (i == 2)
			assert_string_equal(json_object_get_string(json_object_array_get_idx(
						json_at(root, "uids"), 1)),
					    uids[1]);
		json_object_put(root);
	}
	free(text);
}

/* What does not fit in one line is not written at all, and that is told. */
static void too_long(void **state)
{
	static const char *uids[10000];
	struct app_output output;
	size_t len, before;

	(void)state;
	for (size_t i = 0; i < LEN(uids); i++)
		uids[i] = "0123456789-0123456789-0123456789-0123";
	free(read_file(path, &before));
	app_output_begin(&output, STDERR_FILENO);
	gq_trace("write", 8, 9, uids, LEN(uids));
	char *log = app_output_end(&output);
	assert_has(log, "a line of the trace is lost");
	free(log);
	free(read_file(path, &len));
	assert_int_equal(len, before);
	/* a journal's worth of them fits */
	gq_trace("write", 8, 9, uids, 3000);
	free(read_file(path, &len));
	assert_in_range(len - before, 3000 * 38, 3000 * 41 + 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(off),
	    cmocka_unit_test(no_file),
	    cmocka_unit_test(lines),
	    cmocka_unit_test(too_long),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
