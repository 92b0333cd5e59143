#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/journal_pace.h"

#define MS GQ_NS_PER_MS
#define S GQ_NS_PER_S

static void test_writes_are_five_milliseconds_apart(void **state)
{
	struct gq_pace pace;
	int64_t now_ns = 100 * S;

	(void)state;
	gq_pace_init(&pace, now_ns);
	assert_true(gq_pace_write_ns(&pace, now_ns) <= now_ns);
	gq_pace_written(&pace, 1000, now_ns);
	assert_int_equal(gq_pace_write_ns(&pace, now_ns), now_ns + 5 * MS);
	assert_int_equal(gq_pace_write_ns(&pace, now_ns + 3 * MS), now_ns + 5 * MS);
}

static void test_bytes_stretch_it(void **state)
{
	static const size_t sizes[] = {1000, 100 << 10, 128 << 10};

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct gq_pace pace;
		int64_t begun_ns = 100 * S, now_ns = begun_ns;
		double bytes = 0;
		gq_pace_init(&pace, now_ns);
		while (now_ns < begun_ns + 600 * S) {
			int64_t at_ns = gq_pace_write_ns(&pace, now_ns);
			now_ns = at_ns > now_ns ? at_ns : now_ns;
			gq_pace_written(&pace, sizes[i], now_ns);
			bytes += (double)sizes[i];
		}
		/* after what was saved up, as much as comes in */
		double most = (256 << 10) * 660.0 + 2 * (double)sizes[i];
		assert_true(bytes <= most);
		assert_true(bytes >= 0.95 * most || sizes[i] == 1000);
		/* what is saved up has a cap */
		now_ns += 3600 * S;
		(void)gq_pace_write_ns(&pace, now_ns);
		assert_true(pace.tokens <= 60.0 * (256 << 10));
	}
}

static void test_failures_wait_longer_and_longer(void **state)
{
	static const struct {
		int retry_after_s;
		int64_t wait_ms;
	} waits[] = {{0, 50},  {0, 100},  {0, 200},   {1, 1000},
		     {0, 800}, {0, 1000}, {60, 1000}, {0, 1000}};
	struct gq_pace pace;
	int64_t now_ns = 100 * S;

	(void)state;
	gq_pace_init(&pace, now_ns);
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
		gq_pace_failed(&pace, waits[i].retry_after_s, now_ns);
		assert_int_equal(pace.retry_ns - now_ns, waits[i].wait_ms * MS);
		assert_int_equal(gq_pace_write_ns(&pace, now_ns), pace.retry_ns);
		now_ns = pace.retry_ns;
	}
	gq_pace_works(&pace);
	assert_true(gq_pace_write_ns(&pace, now_ns) <= now_ns);
	gq_pace_failed(&pace, 0, now_ns);
	assert_int_equal(pace.retry_ns - now_ns, 50 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_writes_are_five_milliseconds_apart),
	    cmocka_unit_test(test_bytes_stretch_it),
	    cmocka_unit_test(test_failures_wait_longer_and_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
