#include "ledger_fixture.h"

#include "quota/decision_internal.h"

static void reasons_have_names(void **state)
{
	(void)state;
	for (int a = 0; a < GQ_REASON_COUNT; a++) {
		const char *name = gq_reason_name((enum gq_reason)a);
		assert_non_null(name);
		assert_true(strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
		for (int b = 0; b < a; b++)
			assert_string_not_equal(name, gq_reason_name((enum gq_reason)b));
	}
}

/* The same words refuse, warn or are noted, as the mode says. */
static void refusals_by_mode(void **state)
{
	static const struct {
		enum gq_mode mode;
		bool refused;
		const char *message, *warning, *audit;
	} cases[] = {
	    {GQ_MODE_ENFORCE, true, "no", "", ""},
	    {GQ_MODE_WARN, false, "", "Would be refused in mode enforce: no", ""},
	    {GQ_MODE_AUDIT, false, "", "", "no"},
	    {GQ_MODE_DISABLED, false, "", "", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
		gq_buf_puts(&verdict.message, "no");
		assert_int_equal(gq_verdict_refuse(&verdict, cases[i].mode, GQ_REASON_POD_LIMIT),
				 cases[i].refused);
		assert_int_equal(verdict.reason, GQ_REASON_POD_LIMIT);
		assert_int_equal(verdict.kind == GQ_VERDICT_DENY, cases[i].refused);
		assert_string_equal(verdict.message.len ? verdict.message.data : "",
				    cases[i].message);
		assert_string_equal(verdict.n_warnings ? verdict.warnings[0].data : "",
				    cases[i].warning);
		assert_string_equal(verdict.audit.len ? verdict.audit.data : "", cases[i].audit);
	}
}

/* Notes are whole: what there is no room for is left out, which is shown once, and what comes then
 * may still fit. */
static void more_notes_than_fit(void **state)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	size_t len = 0;

	(void)state;
	for (int i = 0; i < 7; i++) {
		if (i == 5)
			len = verdict.audit.len;
		for (int n = 0; n < 7000; n++)
			gq_buf_putc(&verdict.message, (char)('a' + i));
		assert_false(gq_verdict_refuse(&verdict, GQ_MODE_AUDIT, GQ_REASON_UNLISTED));
	}
	assert_int_equal(len, 4 * 7000 + 3 + strlen("\n…"));
	assert_int_equal(verdict.audit.len, len);
	assert_string_equal(strstr(verdict.audit.data, "\nd") + 7001, "\n…");
	gq_buf_puts(&verdict.message, "small");
	assert_false(gq_verdict_refuse(&verdict, GQ_MODE_AUDIT, GQ_REASON_UNLISTED));
	assert_string_equal(strstr(verdict.audit.data, "\n…"), "\n…\nsmall");
	assert_int_equal(verdict.audit.code, 0);
}

/* Nor does the language of a prefix differ from its sentence's; a long sentence is kept whole. */
static void warning_in_chinese(void **state)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;

	(void)state;
	verdict.locale = GQ_LOCALE_ZH;
	for (int i = 0; i < 2000; i++)
		gq_buf_puts(&verdict.message, "长");
	assert_false(gq_verdict_refuse(&verdict, GQ_MODE_WARN, GQ_REASON_UNLISTED));
	assert_int_equal(verdict.n_warnings, 1);
	assert_false(verdict.warnings_cut);
	assert_ptr_equal(strstr(verdict.warnings[0].data, "在 enforce 模式下会被拒绝：长长"),
			 verdict.warnings[0].data);
	assert_int_equal(verdict.warnings[0].len,
			 strlen("在 enforce 模式下会被拒绝：") + strlen("长") * 2000);
	gq_verdict_unavailable(&verdict, GQ_REASON_WATCH_LAGS);
	assert_non_null(strstr(verdict.message.data, "请几秒后重试"));
}

static void many_refusals(void **state)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;

	(void)state;
	for (int i = 0; i < GQ_WARNINGS_MAX + 3; i++) {
		gq_buf_puts(&verdict.message, "w");
		assert_false(gq_verdict_refuse(&verdict, GQ_MODE_WARN, GQ_REASON_UNLISTED));
	}
	assert_int_equal(verdict.n_warnings, GQ_WARNINGS_MAX);
	assert_true(verdict.warnings_cut);
	for (int i = 0; i < 2; i++) {
		gq_buf_puts(&verdict.message, "a");
		assert_false(gq_verdict_refuse(&verdict, GQ_MODE_AUDIT, GQ_REASON_UNLISTED));
	}
	assert_string_equal(verdict.audit.data, "a\na");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reasons_have_names),  cmocka_unit_test(refusals_by_mode),
	    cmocka_unit_test(more_notes_than_fit), cmocka_unit_test(warning_in_chinese),
	    cmocka_unit_test(many_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
