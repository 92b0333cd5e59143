#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "informer/backoff.h"

static struct gq_backoff make(uint64_t seed)
{
	return (struct gq_backoff){
	    .min_ns = 800 * GQ_NS_PER_MS, .max_ns = 30 * GQ_NS_PER_S, .random = seed};
}

static void test_doubles_to_the_ceiling(void **state)
{
	static const int64_t floors_ms[] = {800,   1600,          3200,  6400,
					    12800, 25600 * 3 / 4, 22500, 22500};
	(void)state;

	for (uint64_t seed = 0; seed < 200; seed++) {
		struct gq_backoff b = make(seed);
		int64_t now = 1;
		for (size_t i = 0; i < sizeof floors_ms / sizeof *floors_ms; i++) {
			int64_t delay = gq_backoff_next(&b, now);
			assert_in_range(delay, floors_ms[i] * GQ_NS_PER_MS, 30 * GQ_NS_PER_S);
			if (i < 4)
				assert_in_range(delay, 0, 2 * floors_ms[i] * GQ_NS_PER_MS);
			now += delay;
		}
	}
}

static void test_jitter_spreads(void **state)
{
	struct gq_backoff a = make(1), b = make(2), same = make(1);
	(void)state;

	int64_t first = gq_backoff_next(&a, 1);
	assert_true(first != gq_backoff_next(&b, 1));
	assert_int_equal(first, gq_backoff_next(&same, 1));
	for (int i = 0; i < 10; i++)
		first = gq_backoff_next(&a, 1);
	assert_true(first != gq_backoff_next(&a, 1)); /* at the ceiling too */
}

static void test_starts_anew_after_quiet(void **state)
{
	struct gq_backoff b = make(7);
	int64_t now = 1;
	(void)state;

	for (int i = 0; i < 10; i++)
		now += gq_backoff_next(&b, now);
	assert_true(gq_backoff_next(&b, now + 119 * GQ_NS_PER_S) > 20 * GQ_NS_PER_S);
	now = b.quiet_since_ns + 121 * GQ_NS_PER_S;
	assert_in_range(gq_backoff_next(&b, now), 800 * GQ_NS_PER_MS, 1600 * GQ_NS_PER_MS);
}

static void test_odd_limits(void **state)
{
	struct gq_backoff b = {.min_ns = 50, .max_ns = 10, .random = 3};
	(void)state;

	for (int i = 0; i < 100; i++)
		assert_in_range(gq_backoff_next(&b, 1), 1, 10);
	b = (struct gq_backoff){
	    .min_ns = INT64_C(1) << 61, .max_ns = INT64_C(1) << 62, .random = 3};
	for (int i = 0; i < 100; i++)
		assert_true(gq_backoff_next(&b, 1) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_doubles_to_the_ceiling),
	    cmocka_unit_test(test_jitter_spreads),
	    cmocka_unit_test(test_starts_anew_after_quiet),
	    cmocka_unit_test(test_odd_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
