#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "fail_alloc.h"
#include "informer/timers.h"

static void on_due(void *arg)
{
	(void)arg;
}

static int add(struct gq_timers *timers, int64_t due_ns)
{
	return gq_timers_add(timers, due_ns, on_due, (void *)(uintptr_t)(timers->added + 1));
}

static void take(struct gq_timers *timers, int64_t now_ns, int64_t due_ns, uintptr_t nth)
{
	struct gq_timer timer = {0};

	assert_true(gq_timers_take(timers, now_ns, UINT64_MAX, &timer));
	assert_int_equal(timer.due_ns, due_ns);
	assert_int_equal((uintptr_t)timer.arg, nth);
	assert_true(timer.on_due == on_due);
}

static void soonest_first(void **state)
{
	struct gq_timers timers = {0};
	struct gq_timer timer;

	(void)state;
	assert_true(gq_timers_next_ns(&timers) == INT64_MAX);
	assert_false(gq_timers_take(&timers, INT64_MAX, UINT64_MAX, &timer));
	assert_int_equal(add(&timers, 30), 0);
	assert_int_equal(add(&timers, 10), 0);
	assert_int_equal(add(&timers, 20), 0);
	assert_int_equal(add(&timers, 10), 0);
	assert_int_equal(gq_timers_next_ns(&timers), 10);
	assert_false(gq_timers_take(&timers, 9, UINT64_MAX, &timer));
	take(&timers, 10, 10, 2);
	take(&timers, 10, 10, 4);
	assert_false(gq_timers_take(&timers, 19, UINT64_MAX, &timer));
	take(&timers, 100, 20, 3);
	take(&timers, 100, 30, 1);
	assert_false(gq_timers_take(&timers, INT64_MAX, UINT64_MAX, &timer));
	gq_timers_done(&timers);
}

static void the_new_wait_for_the_next_round(void **state)
{
	struct gq_timers timers = {0};
	struct gq_timer timer;

	(void)state;
	assert_int_equal(add(&timers, 1), 0);
	uint64_t before = timers.added;
	assert_true(gq_timers_take(&timers, 5, before, &timer));
	assert_int_equal(add(&timers, 1), 0);
	assert_false(gq_timers_take(&timers, 5, before, &timer));
	assert_true(gq_timers_take(&timers, 5, timers.added, &timer));
	gq_timers_done(&timers);
}

static void many_in_any_order(void **state)
{
	struct gq_timers timers = {0};
	struct gq_timer timer, last = {0};
	uint32_t random = 1;

	(void)state;
	for (int i = 0; i < GQ_TIMERS_MAX; i++) {
		random = random * 1664525 + 1013904223;
		assert_int_equal(add(&timers, random >> 22), 0);
	}
	assert_int_equal(add(&timers, 0), GQ_ETOOBIG);
	for (int i = 0; i < GQ_TIMERS_MAX; i++) {
		assert_true(gq_timers_take(&timers, INT64_MAX, UINT64_MAX, &timer));
		assert_true(!i || timer.due_ns > last.due_ns ||
			    (timer.due_ns == last.due_ns && timer.nth > last.nth));
		last = timer;
	}
	assert_int_equal(timers.len, 0);
	assert_int_equal(add(&timers, 0), 0);
	gq_timers_done(&timers);
	assert_int_equal(timers.len, 0);
}

static void no_memory(void **state)
{
	struct gq_timers timers = {0};

	(void)state;
	fail_alloc(0);
	assert_int_equal(add(&timers, 1), GQ_ENOMEM);
	assert_true(fail_alloc_done());
	assert_int_equal(timers.added, 0);
	assert_int_equal(add(&timers, 1), 0);
	gq_timers_done(&timers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(soonest_first),
	    cmocka_unit_test(the_new_wait_for_the_next_round),
	    cmocka_unit_test(many_in_any_order),
	    cmocka_unit_test(no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
