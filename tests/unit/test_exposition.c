#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/app_testing.h"
#include "webhook/exposition.h"

static void families(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	(void)state;
	gq_metric_single(&out, "x_total", "counter", "Things.", 3);
	assert_string_equal(out.data,
			    "# HELP x_total Things.\n# TYPE x_total counter\nx_total 3\n");
}

static void labels(void **state)
{
	static const struct {
		const char *value, *text;
	} cases[] = {
	    {"team-a", "team-a"},
	    {"", ""},
	    {NULL, ""},
	    {"a\"b", "a\\\"b"},
	    {"a\\b", "a\\\\b"},
	    {"a\nb", "a\\nb"},
	    {"\\n", "\\\\n"},
	    {"{x=\"y\"} 1", "{x=\\\"y\\\"} 1"},
	    {"\xE9\x85\x8D", "\xE9\x85\x8D"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		struct gq_buf want GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		const struct gq_metric_label two[] = {{"a", cases[i].value}, {"b", "2"}, {0}};
		const struct gq_metric_label one[] = {{"a", cases[i].value}, {0}};
		const struct gq_metric_label none[] = {{0}};
		gq_metric_sample_int(&out, "m", two, 1);
		gq_metric_sample_int(&out, "m", one, INT64_MIN);
		gq_metric_sample_int(&out, "m", none, INT64_MAX);
		gq_metric_sample_int(&out, "m", NULL, 0);
		gq_buf_printf(&want,
			      "m{a=\"%s\",b=\"2\"} 1\nm{a=\"%s\"} -9223372036854775808\n"
			      "m 9223372036854775807\nm 0\n",
			      cases[i].text, cases[i].text);
		assert_string_equal(out.data, want.data);
	}
}

static void values(void **state)
{
	static const struct {
		double value;
		const char *text; /* NULL: whatever reads back as the same */
	} cases[] = {
	    {0, "0"},
	    {1, "1"},
	    {-7, "-7"},
	    {0.5, "0.5"},
	    {0.1, "0.1"},
	    {1.0 / 3, NULL},
	    {8796093022208.0, "8796093022208"},
	    {999999999999999.0, "999999999999999"},
	    {1e15, NULL},
	    {1e300, NULL},
	    {5e-324, NULL},
	    /* nine digits would not tell these apart: a counter would stand still */
	    {1234567890.25, NULL},
	    {1234567890.75, NULL},
	    {98765432109.123, NULL},
	    {(double)HUGE_VAL, "+Inf"},
	    {-(double)HUGE_VAL, "-Inf"},
	    {(double)NAN, "NaN"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_metric_sample(&out, "m", NULL, cases[i].value);
		assert_true(out.len > 3 && out.data[out.len - 1] == '\n');
		out.data[out.len - 1] = '\0';
		if (cases[i].text)
			assert_string_equal(out.data + 2, cases[i].text);
		else
			assert_true(strtod(out.data + 2, NULL) == cases[i].value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(families),
	    cmocka_unit_test(labels),
	    cmocka_unit_test(values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
