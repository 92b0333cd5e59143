#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/journal_world.h"

/* A journal that is held: how it ends, and what it does without memory. */

static struct side a;

static int setup(void **state)
{
	(void)state;
	world_reset();
	side_init(&a, "pod-a");
	lead(&a);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	side_done(&a);
	world_end();
	return 0;
}

/* ---- flush ---- */

static void test_flush(void **state)
{
	struct answer one, two, three;

	(void)state;
	ask(&a, &one, "uid-1");
	two = (struct answer){0};
	uint64_t ticket = propose(&a, "uid-2");
	CODE(gq_journal_flush(a.journal, on_flushed, &a));
	assert_false(grants(&a));
	assert_int_equal(a.flushed, 0);
	/* decided just before */
	wait_for(&a, &two, "uid-2", ticket, app_time.mono_ns + GQ_NS_PER_S);
	pass(0);
	end_with(END_OK);
	assert_committed(&one);
	assert_int_equal(a.flushed, 0);
	pass(10 * MS);
	end_with(END_OK);
	assert_committed(&two);
	assert_int_equal(a.flushed, 1);
	wait_for(&a, &three, "uid-3", 999, app_time.mono_ns + GQ_NS_PER_S);
	assert_failed(&three);
	settle(GQ_NS_PER_S);
	assert_int_equal(a.flushed, 1);
	assert_false(grants(&a));
	assert_string_equal(object_text("holder"), "pod-a");
}

static void test_flush_of_nothing(void **state)
{
	(void)state;
	CODE(gq_journal_flush(a.journal, on_flushed, &a));
	assert_int_equal(a.flushed, 1);
	stop(&a);
	CODE(gq_journal_flush(a.journal, on_flushed, &a));
	assert_int_equal(a.flushed, 2);
}

static void test_flush_that_fails(void **state)
{
	struct answer one;

	(void)state;
	ask(&a, &one, "uid-1");
	CODE(gq_journal_flush(a.journal, on_flushed, &a));
	object_write("1", "pod-b", "99", "1", "", NULL);
	end_with(END_OK);
	end_with(END_OK);
	assert_failed(&one);
	assert_int_equal(a.fenced, 1);
	/* nobody waits any more, though not as was hoped */
	assert_int_equal(a.flushed, 1);
	stop(&a);
	assert_int_equal(a.flushed, 1);
}

/* ---- stop ---- */

static void test_stop_with_a_write_under_way(void **state)
{
	static const enum ending all[] = {END_OK,  END_DROPPED, END_LOST, END_LATE, END_GARBLED,
					  END_5XX, END_403,     END_429,  END_404,  END_422};

	for (size_t i = 0; i < LEN(all); i++) {
		struct answer one, two;
		teardown(state);
		setup(state);
		ask(&a, &one, "uid-1");
		ask(&a, &two, "uid-2");
		stop(&a);
		assert_failed(&one);
		assert_failed(&two);
		assert_false(grants(&a));
		assert_int_equal(app_charges(a.ledger), 0);
		end_with(all[i]);
		pass(2 * GQ_NS_PER_S);
		assert_int_equal(n_requests, 0);
		wait_for(&a, &two, "uid-3", 99, app_time.mono_ns + GQ_NS_PER_S);
		assert_failed(&two);
		/* and on from there */
		take_over(&a);
		settle(50 * MS);
		assert_int_equal(a.taken_over, 2);
		open_grants(&a, false);
		assert_true(grants(&a));
		/* what arrived is known, though nobody was told */
		assert_int_equal(ledger_has(&a, "uid-1"), object_has("uid-1"));
	}
}

static void test_stop_while_it_is_read_or_waited_for(void **state)
{
	struct answer one;

	ask(&a, &one, "uid-1");
	end_with(END_LOST);
	stop(&a); /* before it is read */
	assert_failed(&one);
	pass(2 * GQ_NS_PER_S);
	assert_int_equal(n_requests, 0);
	teardown(state);
	setup(state);
	ask(&a, &one, "uid-1");
	end_with(END_LOST);
	pass(60 * MS);
	assert_string_equal(requests[0].method, "GET");
	stop(&a);
	assert_failed(&one);
	/* the answer of an earlier term does not end the request of the next */
	take_over(&a);
	assert_int_equal(n_requests, 2);
	answer(0, END_OK);
	assert_int_equal(n_requests, 1);
	settle(50 * MS);
	assert_int_equal(a.taken_over, 2);
}

/* ---- out of memory ---- */

static void test_out_of_memory(void **state)
{
	bool failed = true;

	for (long n = 0; failed; n++) {
		struct answer one, two;
		teardown(state);
		setup(state);
		uint64_t first = propose(&a, "uid-1"), second = propose(&a, "uid-2");
		fail_alloc(n);
		wait_for(&a, &one, "uid-1", first, app_time.mono_ns + 10 * GQ_NS_PER_S);
		pass(0);
		wait_for(&a, &two, "uid-2", second, app_time.mono_ns + 10 * GQ_NS_PER_S);
		if (n_requests)
			end_with(END_LOST);
		settle(3 * GQ_NS_PER_S);
		failed = fail_alloc_done();
		assert_int_equal(one.got, 1);
		assert_int_equal(two.got, 1);
		assert_true(one.code == 0 || one.code == GQ_ENOMEM);
		assert_true(two.code == 0 || two.code == GQ_ENOMEM);
		assert_true(!one.code || !two.code);
		assert_int_equal(a.fenced + a.lost, 0);
		assert_true(grants(&a));
	}
}

/* One who can't be told to wait does not take the charge from another who does. */
static void test_out_of_memory_for_a_second_waiter(void **state)
{
	struct answer one, two;

	(void)state;
	ask(&a, &one, "uid-1");
	uint64_t ticket = propose(&a, "uid-1");
	two = (struct answer){.side = &a, .uid = "uid-1", .shared = true};
	fail_alloc(0);
	CODE(gq_journal_commit(a.journal, ticket, INT64_MAX, on_answer, &two));
	assert_true(fail_alloc_done());
	assert_int_equal(two.got, 1);
	assert_int_equal(two.code, GQ_ENOMEM);
	end_with(END_OK);
	assert_committed(&one);
}

/* What nobody asks for is looked at all the same, so that the next one to ask need not wait. */
static void test_deleted_while_nobody_asks(void **state)
{
	(void)state;
	settle(9 * GQ_NS_PER_S);
	object_delete();
	assert_int_equal(a.lost, 0);
	settle(2 * GQ_NS_PER_S);
	assert_int_equal(a.lost, 1);
	assert_false(grants(&a));
	settle(TTL_NS);
	assert_true(grants(&a));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_deleted_while_nobody_asks),
	    TEST(test_flush),
	    TEST(test_flush_of_nothing),
	    TEST(test_flush_that_fails),
	    TEST(test_stop_with_a_write_under_way),
	    TEST(test_stop_while_it_is_read_or_waited_for),
	    TEST(test_out_of_memory),
	    TEST(test_out_of_memory_for_a_second_waiter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
