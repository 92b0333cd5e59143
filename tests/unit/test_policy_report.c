#include "policy_cases.h"

#include "quota/policy_report.h"

static char *printed(struct gq_policy_report *report)
{
	struct gq_buf out = GQ_BUF_INIT(64u << 10);

	gq_buf_puts(&out, "");
	gq_policy_problems_print(&report->problems, "f.yaml", &out);
	return gq_buf_steal(&out);
}

static void file_order(void **state)
{
	struct gq_policy_report report = {0};

	(void)state;
	gq_policy_report_add(&report, 3, 1, NULL, "third");
	gq_policy_report_add(&report, 1, 7, "do %s", "first %d", 1);
	gq_policy_report_add(&report, 3, 1, NULL, "third again");
	gq_policy_report_add(&report, 1, 9, "", "second");
	char *text = printed(&report);
	assert_string_equal(text, "f.yaml:1:7: first 1; do %s\n"
				  "f.yaml:1:9: second; \n"
				  "f.yaml:3:1: third\n"
				  "f.yaml:3:1: third again\n");
	free(text);
	gq_policy_problems_done(&report.problems);
	text = printed(&report);
	assert_string_equal(text, "");
	free(text);
}

/* The first twenty of the file stay, in whatever order they are found. */
static void at_most_twenty(void **state)
{
	struct gq_policy_report report = {0};

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		unsigned line = (i * 37) % 50 + 1;
		gq_policy_report_add(&report, line, 1, NULL, "line %u", line);
	}
	assert_int_equal(report.problems.n_items, 20);
	assert_int_equal(report.problems.more, 30);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(report.problems.items[i].line, i + 1);
	assert_true(gq_policy_report_wants(&report, 19, 5));
	assert_false(gq_policy_report_wants(&report, 20, 1));
	gq_policy_problems_done(&report.problems);
}

static void quoted(void **state)
{
	char long_text[100];

	(void)state;
	assert_string_equal(gq_policy_quote("abc", 3).text, "\"abc\"");
	assert_string_equal(gq_policy_quote("abc", 0).text, "\"\"");
	assert_string_equal(gq_policy_quote("a\nb\x7f\0c", 6).text, "\"a b  c\"");
	assert_string_equal(gq_policy_quote("a\xff\xc3", 3).text, "\"a??\"");
	memset(long_text, 'x', sizeof long_text);
	memcpy(long_text + 70, "é", 2);
	struct gq_quoted cut = gq_policy_quote(long_text, sizeof long_text);
	assert_string_equal(cut.text + 69, "xxé…\"");
	memcpy(long_text + 70, "xé", 3);
	cut = gq_policy_quote(long_text, sizeof long_text);
	assert_string_equal(cut.text + 69, "xxx…\"");
}

static void neighbours(void **state)
{
	static const char *const words[] = {"tenants", "mode", "gpus", "namespaceSelector",
					    "audit"};
	static const struct {
		const char *word;
		const char *nearest; /* or NULL */
	} cases[] = {
	    {"tenent", "tenants"},
	    {"TENANTS", "tenants"},
	    {"mdoe", "mode"},
	    {"gpu", "gpus"},
	    {"cpus", "gpus"},
	    {"g", NULL},
	    {"", NULL},
	    {"modes", "mode"},
	    {"nodeSelector", NULL},
	    {"auto", NULL},
	    {"adit", "audit"},
	    {"xyz", NULL},
	    {"namespaceselektor", "namespaceSelector"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_nearest n = gq_nearest_to(cases[i].word, strlen(cases[i].word));
		for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
			gq_nearest_offer(&n, words[w]);
		if (!cases[i].nearest)
			assert_null(n.best);
		else
			assert_string_equal(n.best, cases[i].nearest);
	}
}

static void long_hint(void **state)
{
	struct gq_hint hint;

	(void)state;
	assert_ptr_equal(gq_hint(&hint, "%400d", 1), hint.text);
	assert_int_equal(strlen(hint.text), sizeof hint.text - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(file_order), cmocka_unit_test(at_most_twenty),
	    cmocka_unit_test(quoted),     cmocka_unit_test(neighbours),
	    cmocka_unit_test(long_hint),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
