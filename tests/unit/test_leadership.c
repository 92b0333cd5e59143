/* How a replica comes to lead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/leadership_world.h"

/* ---- taking over ---- */

static void in_order(void **state)
{
	(void)state;
	pass_ms(20000);
	expect(""); /* not before it is told to start */
	gq_leadership_start(leadership);
	settle();
	expect("journal");
	pass_ms(5000);
	assert_string_equal(lease.holder, "pod-a");
	assert_int_equal(status().terms, 0);
	end_journal(7);
	expect("policy-7");
	pass_ms(5000);
	end_policy(0);
	expect("barrier");
	show(false); /* the watch may be faster than the answer */
	expect("open label LEADS");
	assert_true(status().leads);
	assert_int_equal(status().epoch, 7);
	assert_int_equal(status().terms, 1);
	assert_string_equal(status().holder, "pod-a");
	end_barrier(0);
	show(false);
	listed(app_time.mono_ns);
	pass_ms(60000);
	expect("");
}

static void another_leads(void **state)
{
	(void)state;
	reach(FOLLOWING);
	pass_ms(4500);
	expect("");
	assert_string_equal(status().holder, "pod-b");
	pass_ms(2000);
	expect("journal");
	assert_string_equal(status().holder, "pod-a");
}

/* Nobody can have granted anything before the first leader ever. */
static void the_first_ever(void **state)
{
	(void)state;
	first = true;
	reach(BARRIER);
	show(false);
	expect("open-first label LEADS");
}

static void only_replica(void **state)
{
	(void)teardown(state);
	assert_int_equal(make(false), 0);
	start_code = GQ_EINVALID; /* no request is made */
	listed(START_NS);
	app_time.mono_ns += S;
	gq_leadership_start(leadership);
	settle();
	expect("journal");
	end_journal(1);
	end_policy(0);
	show(false);
	expect("policy-1 barrier open label LEADS");
	gq_leadership_fenced(leadership, "somebody wrote the journal");
	settle();
	expect("stop follow unlabel ENDS");
	pass_ms(1100);
	expect("journal");
	gq_leadership_hand_over(leadership, handed_over, &lease);
	settle();
	expect("stop follow unlabel handed-over"); /* there is no other to wait for */
}

/* ---- the policy ---- */

static void policy_again(void **state)
{
	static const int codes[] = {GQ_EIO, GQ_ENOMEM, GQ_EDENIED, GQ_EINVALID};

	(void)state;
	reach(JOURNAL);
	end_journal(7);
	expect("policy-7");
	for (size_t i = 0; i < LEN(codes); i++) {
		end_policy(codes[i]);
		pass_ms(480);
		expect("");
		pass_ms(100);
		expect("policy-7");
		pass_ms(3000); /* one at a time */
		expect("");
	}
	end_policy(0);
	expect("barrier");
}

/* A higher epoch in it is another leader's. */
static void policy_of_another(void **state)
{
	(void)state;
	reach(POLICY);
	end_policy(GQ_ECONFLICT);
	expect("stop follow unlabel");
	pass_ms(980);
	expect("");
	pass_ms(100);
	expect("journal");
	end_journal(9);
	expect("policy-9");
}

/* ---- the barrier ---- */

static void barrier_by_own_pod(void **state)
{
	(void)state;
	reach(BARRIER);
	end_barrier(0);
	/* what is not the event: another pod's, an earlier barrier, one that went with the pod */
	gq_leadership_own_pod(leadership, "pod-b", "", awaited, false, false);
	gq_leadership_own_pod(leadership, "pod-a", "", "", false, false);
	gq_leadership_own_pod(leadership, "pod-a", "", "7.1", false, false);
	gq_leadership_own_pod(leadership, "pod-a", "true", awaited, true, false);
	pass_ms(1900);
	expect("");
	show(false);
	expect("open label LEADS");
}

/* In a list, events come in no order: it counts at its end, whenever the list began. */
static void barrier_in_a_list(void **state)
{
	(void)state;
	reach(BARRIER);
	end_barrier(0);
	show(true);
	pass_ms(1500);
	expect("");
	listed(START_NS);
	expect("open label LEADS");
}

static void no_own_pod(void **state)
{
	(void)state;
	reach(BARRIER);
	int64_t fence_ns = app_time.mono_ns;
	pass_ms(100);
	end_barrier(GQ_ENOTFOUND);
	settle();
	expect("relist");
	listed(fence_ns - 1); /* was under way before */
	pass_ms(20000);
	expect("");
	listed(fence_ns);
	expect("open label LEADS");
}

/* No memory to mark it is as good as no pod. */
static void no_mark(void **state)
{
	(void)state;
	reach(POLICY);
	fail_alloc(0);
	end_policy(0);
	assert_true(fail_alloc_done());
	expect("relist");
	listed(app_time.mono_ns);
	expect("open label LEADS");
}

/* The answer may come before the call returns. */
static void no_own_pod_at_once(void **state)
{
	(void)state;
	barrier_code = GQ_ENOTFOUND;
	reach(POLICY);
	end_policy(0);
	expect("barrier relist");
	listed(app_time.mono_ns);
	expect("open label LEADS");
}

static void no_event(void **state)
{
	(void)state;
	for (int answered = 0; answered < 2; answered++) {
		restart();
		reach(BARRIER);
		if (answered)
			end_barrier(0);
		pass_ms(1900);
		expect("");
		pass_ms(200);
		expect("relist");
		pass_ms(30000);
		expect(""); /* once */
		if (answered)
			show(false); /* late, but it counts */
		else
			listed(app_time.mono_ns);
		expect("open label LEADS");
	}
}

/* A list that happens to begin after the fence will do. */
static void any_list(void **state)
{
	(void)state;
	reach(BARRIER);
	listed(app_time.mono_ns - 1 * MS);
	expect("");
	pass_ms(100);
	listed(app_time.mono_ns);
	expect("open label LEADS");
}

static void first_list_runs(void **state)
{
	(void)teardown(state);
	assert_int_equal(make(true), 0);
	app_time.mono_ns += S;
	gq_leadership_start(leadership);
	settle();
	end_journal(7);
	end_policy(0);
	end_barrier(GQ_ENOTFOUND);
	expect("journal policy-7 barrier");
	pass_ms(60000);
	expect(""); /* another list is not faster */
	listed(START_NS);
	expect("relist"); /* it began too early */
	listed(app_time.mono_ns);
	expect("open label LEADS");
}

/* ---- short of memory ---- */

/* No timer could be set: it goes on with the next call from outside. */
static void without_timers(void **state)
{
	(void)state;
	after_code = GQ_ENOMEM;
	gq_leadership_start(leadership);
	after_code = 0;
	pass_ms(1000);
	expect("");
	gq_leadership_tick(leadership);
	settle();
	expect("journal");
	assert_int_equal(n_timers, 1);
	gq_leadership_tick(leadership); /* not another one */
	gq_leadership_start(leadership);
	assert_int_equal(n_timers, 1);
	end_journal(7);
	end_policy(0);
	show(false);
	expect("policy-7 barrier open label LEADS");
	after_code = GQ_ENOMEM;
	pass_ms(60);
	assert_int_equal(n_timers, 0);
	gq_leadership_tick(leadership);
	after_code = 0;
	pass_ms(2000);
	assert_true(gq_leadership_leads(leadership)); /* nothing has looked */
	lease.code = GQ_EIO;
	pass_ms(2000);
	gq_leadership_tick(leadership);
	settle();
	expect(ends[LEADING]);
}

static void not_started_does_not_tick(void **state)
{
	(void)state;
	pass_ms(100);
	gq_leadership_tick(leadership);
	assert_int_equal(n_timers, 0);
	pass_ms(100);
	expect("");
}

/* Any allocation fails: it leads all the same, later. */
static void out_of_memory(void **state)
{
	bool failed = true;
	long nth = 0;

	for (; failed; nth++) {
		(void)teardown(state);
		fail_alloc(nth);
		int code = setup(state);
		if (!code)
			gq_leadership_start(leadership);
		journal_done = NULL;
		policy_done = NULL;
		for (int i = 0; !code && i < 200 && !gq_leadership_leads(leadership); i++) {
			pass_ms(50);
			if (journal_done)
				GQ_STEAL(journal_done)(journal_arg, 7);
			if (policy_done)
				GQ_STEAL(policy_done)(policy_arg, 0);
			if (awaited[0])
				show(false);
			if (occurrences(story, "relist"))
				listed(app_time.mono_ns);
		}
		failed = fail_alloc_done();
		if (code)
			assert_true(code == GQ_ENOMEM && failed && !leadership);
		else
			assert_true(gq_leadership_leads(leadership));
	}
	assert_true(nth > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(in_order),           TEST(another_leads),
	    TEST(the_first_ever),     TEST(only_replica),
	    TEST(policy_again),       TEST(policy_of_another),
	    TEST(barrier_by_own_pod), TEST(barrier_in_a_list),
	    TEST(no_own_pod),         TEST(no_mark),
	    TEST(no_own_pod_at_once), TEST(no_event),
	    TEST(any_list),           TEST(first_list_runs),
	    TEST(without_timers),     TEST(not_started_does_not_tick),
	    TEST(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
