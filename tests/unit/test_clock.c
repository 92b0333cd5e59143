#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/clock.h"

static void test_real(void **state)
{
	int64_t first = gq_clock_mono_ns(&gq_clock_real);
	int64_t second = gq_clock_mono_ns(&gq_clock_real);
	time_t before = time(NULL);
	int64_t wall = gq_clock_wall_s(&gq_clock_real);
	time_t after = time(NULL);
	struct timespec now;

	(void)state;
	assert_true(first > 0);
	assert_true(second >= first);
	assert_in_range(wall, before, after);
	/* nanoseconds of the monotonic clock, not of another */
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true(second <= ((int64_t)now.tv_sec + 1) * GQ_NS_PER_S);
	assert_true(second / GQ_NS_PER_S + 3600 > now.tv_sec);
}

static int64_t fake(void *arg)
{
	return *(int64_t *)arg;
}

static void test_injected(void **state)
{
	int64_t value = 5 * GQ_NS_PER_MS;
	const struct gq_clock clock = {.mono_ns = fake, .wall_s = fake, .arg = &value};

	(void)state;
	assert_int_equal(gq_clock_mono_ns(&clock), 5000000);
	value++;
	assert_int_equal(gq_clock_wall_s(&clock), 5000001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_real),
	    cmocka_unit_test(test_injected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
