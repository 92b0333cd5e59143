#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "controller/journal_tally.h"

static void writes(void **state)
{
	struct gq_journal_tally tally = {.stats = {.epoch = 7}};
	struct gq_journal_stats stats;

	(void)state;
	gq_journal_tally_init(&tally);
	gq_journal_tally_written(&tally, 1 * GQ_NS_PER_MS, 300, 2);
	gq_journal_tally_written(&tally, 3 * GQ_NS_PER_MS, 400, 3);
	gq_journal_tally_written(&tally, 60 * GQ_NS_PER_S, 500, 4);
	gq_journal_tally_outcome(&tally, GQ_JOURNAL_CONFLICT, "");
	gq_journal_tally_get(&tally, &stats);
	assert_int_equal(stats.epoch, 7);
	assert_int_equal(stats.writes[GQ_JOURNAL_WRITTEN], 3);
	assert_int_equal(stats.writes[GQ_JOURNAL_CONFLICT], 1);
	assert_int_equal(stats.write_buckets[0], 1);
	assert_int_equal(stats.write_buckets[2], 1);
	assert_int_equal(stats.write_buckets[GQ_JOURNAL_BUCKETS], 1);
	assert_true(stats.write_sum_s > 60.003 && stats.write_sum_s < 60.005);
	assert_int_equal(stats.bytes, 500);
	assert_int_equal(stats.reservations, 4);
	gq_journal_tally_done(&tally);
}

static void problems(void **state)
{
	struct gq_journal_tally tally = {0};
	struct gq_journal_stats stats;

	(void)state;
	gq_journal_tally_init(&tally);
	gq_journal_tally_outcome(&tally, GQ_JOURNAL_DENIED, "forbidden");
	gq_journal_tally_written(&tally, 1, 1, 1); /* whoever wrote it says when all is well */
	gq_journal_tally_get(&tally, &stats);
	assert_string_equal(stats.problem, "forbidden");
	gq_journal_tally_problem(&tally, "");
	gq_journal_tally_get(&tally, &stats);
	assert_string_equal(stats.problem, "");
	for (int o = 0; o < GQ_JOURNAL_OUTCOMES; o++)
		assert_non_null(gq_journal_outcome_name((enum gq_journal_outcome)o));
	gq_journal_tally_done(&tally);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(writes),
	    cmocka_unit_test(problems),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
