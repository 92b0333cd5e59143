#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/drift_log.h"
#include "tests/unit/app_testing.h"

static char tenant[] = "team-a", class_name[] = "A100";
static char names[GQ_DRIFT_PODS_MAX][320] = {"a-train/p", "a-serve/q"};

static char *logged(const struct gq_drift *drift)
{
	struct app_output output;

	app_output_begin(&output, 2);
	gq_drift_log(drift);
	return app_output_end(&output);
}

static void nothing(void **state)
{
	char *log = logged(&(struct gq_drift){.counted = 5});

	(void)state;
	assert_string_equal(log, "");
	free(log);
}

static void limits_and_pods(void **state)
{
	struct gq_drift drift = {
	    .limits = {{tenant, class_name, -GQ_SHARES_PER_GPU * 3 / 2, 81920}},
	    .n_limits = 1,
	    .more_limits = 7,
	    .n_pods = 2,
	    .more_pods = 3,
	    .pods = {names[0], names[1]},
	};
	char *log = logged(&drift);

	(void)state;
	assert_has(log, "tenant=team-a");
	assert_has(log, "class=A100");
	assert_has(log, "gpus_too_many=-1.5");
	assert_has(log, "mib_too_many=81920");
	assert_has(log, "more=7");
	assert_has(log, "a-train/p a-serve/q and 3 more");
	assert_int_equal(occurrences(log, "\n"), 3);
	free(log);
}

/* Twenty names at their longest. */
static void long_names(void **state)
{
	struct gq_drift drift = {.n_pods = GQ_DRIFT_PODS_MAX};

	(void)state;
	for (size_t i = 0; i < GQ_DRIFT_PODS_MAX; i++) {
		memset(names[i], 'a' + (int)i, 317);
		names[i][63] = '/';
		drift.pods[i] = names[i];
	}
	char *log = logged(&drift);
	for (size_t i = 0; i < GQ_DRIFT_PODS_MAX; i++)
		assert_has(log, names[i]);
	free(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing),
	    cmocka_unit_test(limits_and_pods),
	    cmocka_unit_test(long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
