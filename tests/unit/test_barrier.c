#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/barrier.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

/* ---- routing, played by the test ---- */

static struct {
	char nonce[128];
	void (*done)(void *arg, int code);
	void *arg;
} asked[4];
static size_t n_asked;

void gq_routing_barrier(struct gq_routing *routing, const char *nonce,
			void (*done)(void *arg, int code), void *arg)
{
	(void)routing;
	assert_true(n_asked < sizeof asked / sizeof asked[0]);
	(void)snprintf(asked[n_asked].nonce, sizeof asked[0].nonce, "%s", nonce);
	asked[n_asked].done = done;
	asked[n_asked++].arg = arg;
}

static struct app_clock app_time;
static struct gq_barrier *barrier;
static unsigned relists, wakes;

static void on_relist(void *arg)
{
	(void)arg;
	relists++;
}

static void on_wake(void *arg)
{
	(void)arg;
	wakes++;
}

static int setup(void **state)
{
	(void)state;
	n_asked = relists = wakes = 0;
	app_clock_init(&app_time);
	barrier = gq_barrier_new(&(struct gq_barrier_options){
	    .clock = &app_time.clock, .relist = on_relist, .wake = on_wake});
	return barrier ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_asked; i++)
		if (asked[i].arg)
			asked[i].done(asked[i].arg, GQ_EIO);
	gq_barrier_free(barrier);
	return 0;
}

static void answer(size_t i, int code)
{
	void *arg = GQ_STEAL(asked[i].arg);

	asked[i].done(arg, code);
}

static void pass_ms(int64_t ms)
{
	app_time.mono_ns += ms * GQ_NS_PER_MS;
}

static void assert_waits(void)
{
	assert_false(gq_barrier_passed(barrier));
}

static void listed(void)
{
	gq_barrier_listed(barrier, app_time.mono_ns);
}

/* ---- tests ---- */

static void our_own_event(void **state)
{
	(void)state;
	listed();
	assert_waits();
	pass_ms(1);
	gq_barrier_begin(barrier, 7);
	answer(0, 0);
	assert_waits();
	gq_barrier_seen(barrier, "", false);
	gq_barrier_seen(barrier, "7", false);
	assert_waits();
	wakes = 0;
	gq_barrier_seen(barrier, asked[0].nonce, false);
	assert_int_equal(wakes, 1);
	assert_true(gq_barrier_passed(barrier));
	assert_waits(); /* once */
	assert_int_equal(relists, 0);
}

/* The objects of a list come in no order: only its end says that all are there. */
static void our_own_pod_in_a_list(void **state)
{
	(void)state;
	listed();
	pass_ms(1);
	int64_t before_ns = app_time.mono_ns;
	pass_ms(1);
	gq_barrier_begin(barrier, 7);
	gq_barrier_seen(barrier, asked[0].nonce, true);
	assert_waits();
	gq_barrier_listed(barrier, before_ns);
	assert_true(gq_barrier_passed(barrier));
}

static void a_list_in_its_place(void **state)
{
	static const int codes[] = {GQ_ENOTFOUND, GQ_EDENIED, GQ_EIO};

	(void)state;
	listed();
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		pass_ms(1);
		int64_t before_ns = app_time.mono_ns;
		pass_ms(1);
		gq_barrier_begin(barrier, 7);
		assert_waits();
		assert_int_equal(relists, i);
		answer(i, codes[i]);
		assert_waits();
		assert_waits(); /* asked for once */
		assert_int_equal(relists, i + 1);
		gq_barrier_listed(barrier, before_ns); /* may lack what was stored before */
		assert_waits();
		listed();
		assert_true(gq_barrier_passed(barrier));
	}
}

static void no_event_in_time(void **state)
{
	(void)state;
	listed();
	pass_ms(1);
	gq_barrier_begin(barrier, 7);
	answer(0, 0);
	assert_waits();
	pass_ms(1999);
	assert_waits();
	assert_int_equal(relists, 0);
	pass_ms(1);
	assert_waits();
	assert_int_equal(relists, 1);
	/* the event may come all the same */
	gq_barrier_seen(barrier, asked[0].nonce, false);
	assert_true(gq_barrier_passed(barrier));
}

/* Nothing is faster than a first list that is under way. */
static void a_first_list(void **state)
{
	(void)state;
	int64_t before_ns = app_time.mono_ns;
	pass_ms(1);
	gq_barrier_begin(barrier, 7);
	answer(0, 0);
	pass_ms(60000);
	assert_waits();
	assert_int_equal(relists, 0);
	gq_barrier_listed(barrier, before_ns);
	assert_waits();
	pass_ms(1999);
	assert_waits();
	assert_int_equal(relists, 0);
	pass_ms(1);
	assert_waits();
	assert_int_equal(relists, 1);
}

static void one_that_is_overtaken(void **state)
{
	(void)state;
	listed();
	pass_ms(1);
	gq_barrier_begin(barrier, 7);
	gq_barrier_begin(barrier, 7);
	assert_string_not_equal(asked[0].nonce, asked[1].nonce);
	gq_barrier_seen(barrier, asked[0].nonce, false);
	answer(0, GQ_ENOTFOUND);
	assert_waits();
	assert_int_equal(relists, 0);
	gq_barrier_stop(barrier);
	gq_barrier_seen(barrier, asked[1].nonce, false);
	assert_waits();
}

static void too_little_memory(void **state)
{
	(void)state;
	fail_alloc(0);
	assert_null(gq_barrier_new(&(struct gq_barrier_options){.clock = &app_time.clock}));
	assert_true(fail_alloc_done());
	listed();
	pass_ms(1);
	fail_alloc(0);
	gq_barrier_begin(barrier, 7);
	assert_true(fail_alloc_done());
	assert_int_equal(n_asked, 0);
	assert_waits();
	assert_int_equal(relists, 1);
	gq_barrier_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(our_own_event),     TEST(our_own_pod_in_a_list), TEST(a_list_in_its_place),
	    TEST(no_event_in_time),  TEST(a_first_list),          TEST(one_that_is_overtaken),
	    TEST(too_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
