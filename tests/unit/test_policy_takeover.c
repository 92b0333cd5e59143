#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/policy_world.h"

static const struct failure failures[] = FAILURES;

static void the_first_of_all(void **state)
{
	(void)state;
	write_policy(GOOD);
	show(WRITTEN);
	lead(EPOCH);
	honest("GET accepted");
	honest("GET written");
	expect("POST accepted");
	/* not before it is written */
	assert_status(NULL, NULL);
	answer_honestly();
	settle();
	assert_done(0);
	assert_status(GOOD, NULL);
	assert_accepted(GOOD, "5");
	assert_string_equal(json_text(maps[ACCEPTED].data, "sourceResourceVersion"), "1");
	assert_false(request.open);
	/* its own write comes by the watch and is no news */
	show(ACCEPTED);
	run();
	assert_requests("");
}

/* What the last leader accepted is in force, and written with our epoch, before ours is done. */
static void from_another(void **state)
{
	(void)state;
	write_policy(GOOD);
	accept_policy(GOOD, 3);
	show(WRITTEN);
	lead(EPOCH);
	honest("GET accepted");
	assert_status(GOOD, NULL);
	honest("PUT accepted");
	assert_accepted(GOOD, "5");
	assert_int_equal(dones, 0);
	honest("GET written");
	assert_done(0);
	assert_false(request.open);
	assert_int_equal(occurrences(logged, "policy in force"), 1);
}

/* The watch lags: what is read counts, of both. */
static void with_a_watch_that_lags(void **state)
{
	(void)state;
	write_policy(THIRD);
	show(WRITTEN);
	accept_policy(THIRD, 2);
	show(ACCEPTED);
	settle();
	assert_status(THIRD, NULL);
	write_policy(OTHER);
	accept_policy(OTHER, 3);
	lead(EPOCH);
	run();
	assert_done(0);
	assert_requests("GET accepted,PUT accepted,GET written,");
	assert_status(OTHER, NULL);
	assert_accepted(OTHER, "5");
	/* what it shows late is looked up, not believed */
	struct config_map now = maps[WRITTEN];
	unsigned version = map_versions[WRITTEN];
	maps[WRITTEN].data = NULL;
	edit(WRITTEN, THIRD, NULL, NULL);
	show(WRITTEN);
	json_object_put(maps[WRITTEN].data);
	maps[WRITTEN] = now;
	map_versions[WRITTEN] = version;
	run();
	assert_requests("GET written,");
	assert_status(OTHER, NULL);
	show(WRITTEN);
	show(ACCEPTED);
	run();
	assert_requests("");
}

static void with_a_newer_policy(void **state)
{
	(void)state;
	write_policy(OTHER);
	accept_policy(GOOD, 3);
	lead(EPOCH);
	honest("GET accepted");
	honest("PUT accepted");
	honest("GET written");
	assert_status(GOOD, NULL);
	assert_int_equal(dones, 0);
	honest("PUT accepted");
	assert_done(0);
	assert_status(OTHER, NULL);
	assert_accepted(OTHER, "5");
}

/* After a restart there is only what was accepted. */
static void with_a_bad_policy(void **state)
{
	(void)state;
	write_policy(BAD);
	show(WRITTEN);
	accept_policy(GOOD, 3);
	lead(EPOCH);
	run();
	assert_done(0);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_accepted(GOOD, "5");
	gq_policy_source_follow(source);
	run();
	/* and after the next leader's */
	lead(6);
	run();
	assert_done(0);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_accepted(GOOD, "6");
}

static void without_a_policy(void **state)
{
	(void)state;
	accept_policy(GOOD, 3);
	lead(EPOCH);
	run();
	assert_done(0);
	assert_status(GOOD, "there is no ConfigMap gpuquota-policy");
	assert_accepted(GOOD, "5");
}

static void with_nothing_at_all(void **state)
{
	(void)state;
	lead(EPOCH);
	run();
	assert_done(0);
	assert_status(NULL, "there is no ConfigMap gpuquota-policy");
	assert_requests("GET accepted,GET written,");
	assert_false(maps[ACCEPTED].exists);
	rewrite(BAD);
	assert_status(NULL, "policy.yaml:5:5");
	rewrite(GOOD);
	honest("POST accepted");
	assert_status(GOOD, NULL);
}

/* Somebody spoilt or deleted what was accepted, between two leaders. */
static void with_what_the_watch_showed_last(void **state)
{
	(void)state;
	for (int spoilt = 0; spoilt < 2; spoilt++) {
		accept_policy(GOOD, 3);
		show(ACCEPTED);
		settle();
		write_policy(BAD);
		delete_map(ACCEPTED);
		if (spoilt)
			edit(ACCEPTED, OTHER, "3", hash_of(GOOD));
		lead(EPOCH);
		run();
		assert_done(0);
		assert_accepted(GOOD, "5");
		assert_status(GOOD, "policy.yaml:5:5");
		gq_policy_source_follow(source);
		run();
	}
}

/* The journal was fenced a moment ago: whatever epoch is there is none that counts. */
static void with_an_epoch_that_was_made_up(void **state)
{
	(void)state;
	accept_policy(GOOD, 4000000000);
	write_policy(GOOD);
	lead(EPOCH);
	run();
	assert_done(0);
	assert_status(GOOD, NULL);
	assert_accepted(GOOD, "5");
}

static void again_with_the_same_epoch(void **state)
{
	(void)state;
	to_lead();
	lead(EPOCH);
	run();
	assert_done(0);
	assert_requests("GET accepted,GET written,");
}

/* Each request of a takeover fails in each way; the caller tries again, and then it works. */
static void that_fails(void **state)
{
	(void)state;
	for (unsigned at = 0; at < 3; at++) {
		for (size_t i = 0; i < LEN(failures); i++) {
			write_policy(GOOD);
			accept_policy(GOOD, 3);
			lead(EPOCH);
			for (unsigned n = 0; n < at; n++) {
				answer_honestly();
				settle();
			}
			answer(failures[i].status, "", 0);
			run();
			assert_done(failures[i].code);
			lead(EPOCH);
			run();
			assert_done(0);
			assert_status(GOOD, NULL);
			assert_accepted(GOOD, "5");
			gq_policy_source_follow(source);
			run();
		}
	}
	assert_int_equal(fences, 0);
}

static void that_gets_no_sense(void **state)
{
	static const char *const bodies[] = {"", "{}", "{\"metadata\":{}}", "[]", "{\"data\":3}"};

	(void)state;
	for (size_t i = 0; i < LEN(bodies); i++) {
		accept_policy(GOOD, 3);
		lead(EPOCH);
		expect("GET accepted");
		answer(200, bodies[i], 0);
		settle();
		assert_done(GQ_EINVALID);
		lead(EPOCH);
		honest("GET accepted");
		expect("PUT accepted");
		assert_int_equal(carry_out(), 200);
		answer(200, bodies[i], 0);
		settle();
		assert_done(GQ_EINVALID);
		/* it had been written */
		lead(EPOCH);
		run();
		assert_done(0);
		assert_accepted(GOOD, "5");
		gq_policy_source_follow(source);
		run();
	}
}

static void that_cannot_be_asked(void **state)
{
	(void)state;
	start_code = GQ_ENOMEM;
	lead(EPOCH);
	assert_done(GQ_ENOMEM);
	start_code = 0;
	accept_policy(GOOD, 3);
	lead(EPOCH);
	honest("GET accepted");
	start_code = GQ_ENOMEM;
	answer_honestly();
	settle();
	assert_done(GQ_ENOMEM);
	start_code = 0;
	lead(EPOCH);
	run();
	assert_done(0);
}

/* A newest policy that can't be written does not keep the last one from being enforced. */
static void with_a_newer_policy_that_waits(void **state)
{
	(void)state;
	write_policy(OTHER);
	accept_policy(GOOD, 3);
	lead(EPOCH);
	honest("GET accepted");
	honest("PUT accepted");
	honest("GET written");
	refused("PUT accepted", 403);
	assert_done(0);
	assert_status(GOOD, "accepted policy can't be stored: so it is");
	pass_ms(1000);
	run();
	assert_status(OTHER, NULL);
	assert_int_equal(dones, 1);
}

/* The old leader's last write comes in between: it was accepted, and is taken over. */
static void against_a_late_write(void **state)
{
	(void)state;
	write_policy(OTHER);
	accept_policy(GOOD, 3);
	lead(EPOCH);
	honest("GET accepted");
	accept_policy(THIRD, 3);
	honest("PUT accepted");
	honest("GET accepted");
	assert_status(THIRD, "");
	honest("PUT accepted");
	honest("GET written");
	honest("PUT accepted");
	assert_done(0);
	assert_status(OTHER, NULL);
	/* deleted in between, or made */
	lead(6);
	honest("GET accepted");
	delete_map(ACCEPTED);
	honest("PUT accepted");
	honest("GET accepted");
	accept_policy(GOOD, 5);
	honest("POST accepted");
	honest("GET accepted");
	run();
	assert_done(0);
	assert_status(OTHER, NULL);
	assert_accepted(OTHER, "6");
}

static void against_a_newer_leader(void **state)
{
	(void)state;
	accept_policy(GOOD, 3);
	lead(EPOCH);
	honest("GET accepted");
	accept_policy(OTHER, 6);
	honest("PUT accepted");
	honest("GET accepted");
	assert_done(GQ_ECONFLICT);
	assert_int_equal(fences, 0);
	assert_accepted(OTHER, "6");
	assert_false(request.open);
}

/* Somebody who always comes first. */
static void against_somebody_stubborn(void **state)
{
	(void)state;
	accept_policy(GOOD, 3);
	lead(EPOCH);
	for (int i = 0; i < 10 && request.open; i++) {
		honest("GET accepted");
		accept_policy(GOOD, 3);
		honest("PUT accepted");
	}
	assert_done(GQ_ECONFLICT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_first_of_all),
	    TEST(from_another),
	    TEST(with_a_watch_that_lags),
	    TEST(with_a_newer_policy),
	    TEST(with_a_bad_policy),
	    TEST(without_a_policy),
	    TEST(with_nothing_at_all),
	    TEST(with_what_the_watch_showed_last),
	    TEST(with_an_epoch_that_was_made_up),
	    TEST(again_with_the_same_epoch),
	    TEST(that_fails),
	    TEST(that_gets_no_sense),
	    TEST(that_cannot_be_asked),
	    TEST(with_a_newer_policy_that_waits),
	    TEST(against_a_late_write),
	    TEST(against_a_newer_leader),
	    TEST(against_somebody_stubborn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
