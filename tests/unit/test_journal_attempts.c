#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/journal_attempts.h"

static void test_by_number_and_text(void **state)
{
	struct gq_journal_attempts attempts = {0};

	(void)state;
	assert_false(gq_journal_attempts_have(&attempts, 0, "", 0));
	gq_journal_attempts_add(&attempts, 7, "", 0);
	gq_journal_attempts_add(&attempts, 8, "one\n", 4);
	gq_journal_attempts_add(&attempts, 9, "one\ntwo\n", 8);
	assert_true(gq_journal_attempts_have(&attempts, 7, "", 0));
	assert_true(gq_journal_attempts_have(&attempts, 8, "one\n", 4));
	assert_true(gq_journal_attempts_have(&attempts, 9, "one\ntwo\n", 8));
	assert_false(gq_journal_attempts_have(&attempts, 9, "one\n", 4));
	assert_false(gq_journal_attempts_have(&attempts, 8, "one\ntwo\n", 8));
	assert_false(gq_journal_attempts_have(&attempts, 8, "one", 3));
	gq_journal_attempts_drop_last(&attempts);
	assert_false(gq_journal_attempts_have(&attempts, 9, "one\ntwo\n", 8));
	assert_true(gq_journal_attempts_have(&attempts, 8, "one\n", 4));
	for (int i = 0; i < 5; i++)
		gq_journal_attempts_drop_last(&attempts);
	assert_int_equal(attempts.n, 0);
}

static void test_the_oldest_is_forgotten(void **state)
{
	struct gq_journal_attempts attempts = {0};

	(void)state;
	for (uint64_t seq = 1; seq <= GQ_ATTEMPTS_MAX + 3; seq++)
		gq_journal_attempts_add(&attempts, seq, "x", 1);
	assert_int_equal(attempts.n, GQ_ATTEMPTS_MAX);
	for (uint64_t seq = 1; seq <= GQ_ATTEMPTS_MAX + 3; seq++)
		assert_int_equal(gq_journal_attempts_have(&attempts, seq, "x", 1), seq > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_by_number_and_text),
	    cmocka_unit_test(test_the_oldest_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
