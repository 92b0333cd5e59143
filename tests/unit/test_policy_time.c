#include "policy_cases.h"

static const struct policy_case cases[] = {
    {.name = "until \"2026-12-04\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04\"}\n",
     .problems = "p:6:46: until: \"2026-12-04\" is not a date and time of RFC 3339; write "
		 "\"2026-12-04T00:00:00Z\"\n"},
    {.name = "until \"2026-12-04T18:00:00\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T18:00:00\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T18:00:00\" is not a date and time of RFC 3339; "
		 "write \"2026-12-04T18:00:00Z\" or another offset\n"},
    {.name = "until \"2026-12-04 18:00:00\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04 18:00:00\"}\n",
     .problems = "p:6:46: until: \"2026-12-04 18:00:00\" is not a date and time of RFC 3339; "
		 "write \"2026-12-04T18:00:00Z\" or another offset\n"},
    {.name = "until \"2026-12-04 18:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04 18:00:00Z\"}\n",
     .problems = "p:6:46: until: \"2026-12-04 18:00:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until tomorrow",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: tomorrow}\n",
     .problems = "p:6:46: until: \"tomorrow\" is not a date and time of RFC 3339; write it "
		 "like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until 1796400000",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: 1796400000}\n",
     .problems = "p:6:46: until: \"1796400000\" is not a date and time of RFC 3339; write it "
		 "like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-13-01T00:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-13-01T00:00:00Z\"}\n",
     .problems = "p:6:46: until: \"2026-13-01T00:00:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-02-29T00:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-02-29T00:00:00Z\"}\n",
     .problems = "p:6:46: until: \"2026-02-29T00:00:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"1900-02-29T00:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"1900-02-29T00:00:00Z\"}\n",
     .problems = "p:6:46: until: \"1900-02-29T00:00:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-04-31T00:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-04-31T00:00:00Z\"}\n",
     .problems = "p:6:46: until: \"2026-04-31T00:00:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T24:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T24:00:00Z\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T24:00:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T23:60:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T23:60:00Z\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T23:60:00Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T23:59:60Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T23:59:60Z\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T23:59:60Z\" is not a date and time of RFC 3339; "
		 "write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T18:00:00+0200\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T18:00:00+0200\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T18:00:00+0200\" is not a date and time of RFC "
		 "3339; write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T18:00:00+24:00\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T18:00:00+24:00\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T18:00:00+24:00\" is not a date and time of RFC "
		 "3339; write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T18:00:00.Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T18:00:00.Z\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T18:00:00.Z\" is not a date and time of RFC "
		 "3339; write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"2026-12-04T18:00:00Zx\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"2026-12-04T18:00:00Zx\"}\n",
     .problems = "p:6:46: until: \"2026-12-04T18:00:00Zx\" is not a date and time of RFC "
		 "3339; write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until \"02026-12-04T18:00:00Z\"",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: \"02026-12-04T18:00:00Z\"}\n",
     .problems = "p:6:46: until: \"02026-12-04T18:00:00Z\" is not a date and time of RFC "
		 "3339; write it like \"2026-12-04T18:00:00Z\"\n"},
    {.name = "until ~",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: ~}\n",
     .problems = "p:6:46: until: nothing where a value is expected; write until: "
		 "\"2026-12-04T18:00:00Z\"\n"},
    {.name = "until [a]",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	     "grants:\n"
	     "  - {tenant: a, class: A100, gpus: 1, until: [a]}\n",
     .problems = "p:6:46: until: a list where a single value is expected; write one value\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

static void times(void **state)
{
	static const struct {
		const char *text;
		int64_t unix_s;
	} good[] = {
	    {"1970-01-01T00:00:00Z", 0},
	    {"1969-12-31T23:59:59Z", -1},
	    {"2026-12-04T18:00:00Z", 1796407200},
	    {"2026-12-04t18:00:00z", 1796407200},
	    {"2026-12-04T20:00:00+02:00", 1796407200},
	    {"2026-12-04T12:30:00-05:30", 1796407200},
	    {"2026-12-04T18:00:00.999Z", 1796407200},
	    {"2024-02-29T00:00:00Z", 1709164800},
	    {"2000-02-29T12:00:00Z", 951825600},
	    {"9999-12-31T23:59:59Z", INT64_C(253402300799)},
	    {"0000-01-01T00:00:00Z", INT64_C(-62167219200)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct gq_buf yaml = GQ_BUF_INIT(1024);
		struct gq_policy *policy = NULL;
		struct gq_policy_problems none = {0};
		gq_buf_printf(&yaml,
			      POLICY_HEAD
			      "tenants: [{name: a, quota: {A100: {gpus: 1}}}]\n"
			      "grants: [{tenant: a, class: A100, gpus: 1, until: \"%s\"}]\n",
			      good[i].text);
		assert_int_equal(gq_policy_parse(yaml.data, yaml.len, "", &policy, &none, NULL), 0);
		assert_int_equal(policy->grants[0].until_s, good[i].unix_s);
		gq_policy_unref(policy);
		gq_buf_done(&yaml);
	}
}

/* YAML 1.1 makes a timestamp of it; here it is text with or without quotes. */
static void quotes_are_optional(void **state)
{
	(void)state;
	assert_policy_problems("no quotes",
			       POLICY_HEAD "tenants: [{name: a, quota: {A100: {gpus: 1}}}]\n"
					   "grants:\n"
					   "  - tenant: a\n"
					   "    class: A100\n"
					   "    gpus: 1\n"
					   "    until: 2026-12-04T18:00:00Z\n",
			       "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),
	    cmocka_unit_test(times),
	    cmocka_unit_test(quotes_are_optional),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
