/* Who is told what of tenants and the status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/reporting_world.h"

/* ---- the status ---- */

static void facts(void **state)
{
	struct gq_status_facts facts;

	(void)state;
	assert_false(writer_leads);
	lead(true);
	assert_true(writer_leads);
	seen("p", 3);
	app_time.wall_s += 7;
	gather(&facts);
	assert_string_equal(facts.leader, "pod-a"); /* who writes it, whatever the Lease says */
	assert_int_equal(facts.epoch, 7);
	assert_true(facts.journal_held);
	assert_string_equal(facts.journal_problem, "forbidden");
	assert_int_equal(facts.updated_s, START_WALL_S + 7);
	assert_true(facts.policy.in_force);
	assert_string_equal(facts.policy.hash, "0123abcd");
	assert_int_equal(facts.recount.at_s, 0);
	assert_int_equal(facts.usage.n_tenants, 3);
	assert_int_equal(facts.usage.tenants[0].limits[0].n_holders, 1);
	assert_string_equal(facts.usage.tenants[0].limits[0].holders[0].name, "p");
	gq_status_facts_done(&facts);
	lead(false);
	assert_false(writer_leads);
}

/* ---- tenants ---- */

static void over(void **state)
{
	(void)state;
	lead(true);
	seen("fine", 2);
	pass_s(10);
	expect("");
	gq_ledger_set_deciding(ledger, false);
	seen("early", 1);
	gq_ledger_set_deciding(ledger, true);
	pass_s(3);
	/* 240Gi are three of 80Gi */
	expect("team-a over A100 3/2: !a-train/fine a-train/early\n");
	pass_s(60);
	expect("");
	seen("big", 4); /* one more currency, and more of the other, which is known */
	pass_s(3);
	expect("team-a over A100 560Gi/240Gi: !a-train/big !a-train/fine a-train/early\n");
	gone("big");
	pass_s(3);
	expect("team-a within A100 240Gi/240Gi\n");
	gone("early");
	pass_s(3);
	expect("team-a within A100 2/2\n");
	pass_s(60);
	expect("");
	seen("again", 1);
	pass_s(3);
	expect("team-a over A100 3/2: !a-train/fine !a-train/again\n");
}

/* Those that came in without us are the reason, even if they hold less. */
static void unasked_first(void **state)
{
	(void)state;
	lead(false);
	seen("t4", 4);
	seen("t2", 2);
	lead(true);
	seen("n1", 1);
	seen("n3", 3);
	tick();
	expect("team-a over A100 10/2: !a-train/n3 !a-train/n1 a-train/t4 a-train/t2\n"
	       "team-a over A100 800Gi/240Gi: !a-train/n3 !a-train/n1 a-train/t4 a-train/t2\n");
}

/* More pods than are known by name are counted all the same. */
static void many_pods(void **state)
{
	char name[16];

	(void)state;
	for (unsigned i = 0; i < 15; i++) {
		(void)snprintf(name, sizeof name, "p%02u", i);
		seen(name, 1);
	}
	lead(true);
	tick();
	assert_has(told, "team-a over A100 15/2: ");
	assert_has(told, "a-train/p00 ");
	assert_has(told, " of 15\n");
}

static void every_three_seconds(void **state)
{
	(void)state;
	lead(true);
	tick();
	seen("p", 3);
	pass_s(2);
	expect("");
	pass_s(1);
	expect("team-a over A100 3/2: !a-train/p\n");
}

/* The limit that was passed is not there any more: nobody is within it. */
static void limits_that_go(void **state)
{
	(void)state;
	lead(true);
	seen("p", 4);
	tick();
	expect("team-a over A100 4/2: !a-train/p\nteam-a over A100 320Gi/240Gi: !a-train/p\n");
	app_set_policy(ledger, APP_POLICY_HEAD "tenants:\n  - name: team-a\n    namespaces: "
					       "[a-train]\n    quota: {A100: {gpus: 8}}\n");
	pass_s(3);
	expect("team-a within A100 4/8\n");
	app_set_policy(ledger, POLICY);
	pass_s(3);
	told[0] = '\0';
	app_set_policy(ledger, APP_POLICY_HEAD "tenants:\n  - name: team-z\n    namespaces: "
					       "[z]\n    quota: {A100: {gpus: 8}}\n");
	pass_s(30);
	expect("");
}

static void followers_are_silent(void **state)
{
	(void)state;
	lead(false);
	seen("p", 3);
	namespace_seen("both", "\"b\":\"1\",\"c\":\"1\"");
	pass_s(60);
	expect("");
	lead(true);
	tick();
	expect("team-a over A100 3/2: a-train/p\nboth of team-b and team-c\n");
	lead(false);
	gone("p");
	pass_s(60);
	expect("");
	lead(true); /* what was told is ended */
	tick();
	expect("team-a within A100 0/2\n");
}

static void ambiguous(void **state)
{
	(void)state;
	lead(true);
	namespace_seen("both", "\"b\":\"1\",\"c\":\"1\"");
	namespace_seen("team-a", "\"b\":\"1\""); /* of one, and named like another */
	namespace_seen("neither", "");
	tick();
	expect("both of team-b and team-c\n");
	pass_s(30);
	expect("");
	namespace_seen("both", "\"b\":\"1\"");
	pass_s(3);
	expect("");
	namespace_seen("both", "\"b\":\"1\",\"c\":\"1\"");
	pass_s(3);
	expect("both of team-b and team-c\n");
}

/* ---- short of memory ---- */

static void making_without_memory(void **state)
{
	bool failed = true;
	long nth = 0;

	(void)teardown(state);
	ledger = app_ledger(POLICY);
	for (; failed; nth++) {
		fail_alloc(nth);
		reporting = make();
		failed = fail_alloc_done();
		assert_int_equal(failed, reporting == NULL);
	}
	assert_true(nth == 4);
}

/* What could not be told or noted is told with the next look, and nothing twice. */
static void working_without_memory(void **state)
{
	bool failed = true;
	long nth = 0;

	(void)state;
	for (; failed; nth++) {
		(void)teardown(NULL);
		assert_int_equal(setup(NULL), 0);
		lead(true);
		seen("p", 3);
		namespace_seen("both", "\"b\":\"1\",\"c\":\"1\"");
		fail_alloc(nth);
		tick();
		failed = fail_alloc_done();
		pass_s(3);
		assert_int_equal(occurrences(told, "both of team-b and team-c\n"), 1);
		assert_int_equal(occurrences(told, "team-a over A100 3/2"), 1);
	}
	assert_true(nth > 3);
	told[0] = '\0';

	/* the status is not written this time */
	failed = true;
	for (nth = 0; failed; nth++) {
		struct gq_status_facts facts = {0};
		struct gq_err err;
		fail_alloc(nth);
		int code = played_writer.options.gather(played_writer.options.arg, &facts, &err);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		gq_status_facts_done(&facts);
	}
	assert_true(nth > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(facts),
	    TEST(over),
	    TEST(unasked_first),
	    TEST(many_pods),
	    TEST(every_three_seconds),
	    TEST(limits_that_go),
	    TEST(followers_are_silent),
	    TEST(ambiguous),
	    TEST(making_without_memory),
	    TEST(working_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
