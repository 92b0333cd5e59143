#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "webhook/retries.h"

static struct gq_retries *retries;

static int setup(void **state)
{
	(void)state;
	retries = gq_retries_new();
	return retries ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_retries_free(retries);
	return 0;
}

static int64_t at(int64_t s)
{
	return s * GQ_NS_PER_S;
}

static void the_first_counts(void **state)
{
	(void)state;
	assert_int_equal(gq_retries_first(retries, "a", at(5)), at(5));
	gq_retries_note(retries, "a", at(5));
	gq_retries_note(retries, "a", at(6));
	assert_int_equal(gq_retries_first(retries, "a", at(7)), at(5));
	assert_int_equal(gq_retries_first(retries, "b", at(7)), at(7));
	/* a call that came before, and was answered later */
	assert_int_equal(gq_retries_first(retries, "a", at(4)), at(4));
}

static void old_ones_are_forgotten(void **state)
{
	(void)state;
	gq_retries_note(retries, "a", at(5));
	assert_int_equal(gq_retries_first(retries, "a", at(5 + GQ_RETRIES_MAX_S) - 1), at(5));
	assert_int_equal(gq_retries_first(retries, "a", at(5 + GQ_RETRIES_MAX_S)),
			 at(5 + GQ_RETRIES_MAX_S));
	gq_retries_note(retries, "a", at(40));
	assert_int_equal(gq_retries_first(retries, "a", at(41)), at(40));
}

/* A burst that is told to come back every second: each has its own first call. */
static void a_burst(void **state)
{
	char uid[32];

	(void)state;
	for (int s = 1; s < 10; s++) {
		for (int i = 0; i < 100; i++) {
			(void)snprintf(uid, sizeof uid, "uid-%d", i);
			assert_int_equal(gq_retries_first(retries, uid, at(s)), at(1));
			gq_retries_note(retries, uid, at(s));
		}
	}
}

/* However many there are, the newest is remembered and none is mistaken for another. */
static void many(void **state)
{
	char uid[32];
	int known = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		(void)snprintf(uid, sizeof uid, "uid-%d", i);
		gq_retries_note(retries, uid, i);
		assert_int_equal(gq_retries_first(retries, uid, at(1)), i);
	}
	for (int i = 0; i < 20000; i++) {
		(void)snprintf(uid, sizeof uid, "uid-%d", i);
		int64_t first_ns = gq_retries_first(retries, uid, at(1));
		assert_true(first_ns == i || first_ns == at(1));
		known += first_ns == i;
	}
	assert_true(known > 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(the_first_counts, setup, teardown),
	    cmocka_unit_test_setup_teardown(old_ones_are_forgotten, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_burst, setup, teardown),
	    cmocka_unit_test_setup_teardown(many, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
