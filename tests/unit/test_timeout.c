#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/app_testing.h"
#include "webhook/timeout.h"

#define DAY_NS (24 * 3600 * GQ_NS_PER_S)

static void good(void **state)
{
	static const struct {
		const char *query;
		int64_t ns;
	} cases[] = {
	    {"timeout=10s", 10 * GQ_NS_PER_S},
	    {"timeout=1ns", 1},
	    {"timeout=500us", 500000},
	    {"timeout=500\xC2\xB5s", 500000},
	    {"timeout=500ms", 500 * GQ_NS_PER_MS},
	    {"timeout=1.5s", 1500 * GQ_NS_PER_MS},
	    {"timeout=.5s", 500 * GQ_NS_PER_MS},
	    {"timeout=2.s", 2 * GQ_NS_PER_S},
	    {"timeout=1m", 60 * GQ_NS_PER_S},
	    {"timeout=1m30s", 90 * GQ_NS_PER_S},
	    {"timeout=1h2m3s4ms", 3723004 * GQ_NS_PER_MS},
	    {"timeout=0s1ms", GQ_NS_PER_MS},
	    {"timeout=30s", 30 * GQ_NS_PER_S},
	    {"timeout=24h", DAY_NS},
	    {"timeout=25h", DAY_NS},
	    {"timeout=99999999999999999999999999h", DAY_NS},
	    {"a=b&timeout=7s", 7 * GQ_NS_PER_S},
	    {"timeout=7s&a=b", 7 * GQ_NS_PER_S},
	    {"timeout=7s&timeout=8s", 7 * GQ_NS_PER_S},
	    {"xtimeout=1s&timeout=7s", 7 * GQ_NS_PER_S},
	    /* none: what the caller had stays */
	    {"", 42},
	    {"timeout", 42},
	    {"Timeout=1s", 42},
	    {"xtimeout=1s", 42},
	    {"a=timeout=1s", 42},
	    {"&&", 42},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_err err = {0};
		int64_t ns = 42;
		if (gq_timeout_of_query(cases[i].query, &ns, &err))
			fail_msg("%s: %s", cases[i].query, err.msg);
		if (ns != cases[i].ns)
			fail_msg("%s: %lld", cases[i].query, (long long)ns);
	}
}

static void bad(void **state)
{
	static const char *const cases[] = {
	    "timeout=",    "timeout=0",    "timeout=0s",     "timeout=0ms0s", "timeout=0.1ns",
	    "timeout=10",  "timeout=s",    "timeout=.s",     "timeout=-1s",   "timeout=+1s",
	    "timeout=1x",  "timeout=1ss",  "timeout=1s ",    "timeout= 1s",   "timeout=1s2",
	    "timeout=1S",  "timeout=1e3s", "timeout=1.2.3s", "timeout=abc",   "timeout=%31s",
	    "timeout=nan", "timeout=inf",  "timeout=1d",     "a=b&timeout=",  "timeout=&timeout=1s",
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_err err = {0};
		int64_t ns = 42;
		if (gq_timeout_of_query(cases[i], &ns, &err) != GQ_EINVALID)
			fail_msg("%s is taken", cases[i]);
		assert_has(err.msg, "timeout");
		assert_int_equal(ns, 42);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(good), cmocka_unit_test(bad)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
