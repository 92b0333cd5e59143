#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/fail_alloc.h"
#include "tests/unit/policy_world.h"

static const struct failure failures[] = FAILURES;

/* ---- leading ---- */

static void a_new_policy(void **state)
{
	(void)state;
	to_lead();
	write_policy(OTHER);
	show(WRITTEN);
	settle();
	honest("GET written");
	expect("PUT accepted");
	assert_status(GOOD, NULL);
	assert_false(told_status.last_in_force); /* about to be */
	answer_honestly();
	settle();
	assert_status(OTHER, NULL);
	assert_true(told_status.last_in_force);
	assert_accepted(OTHER, "5");
	assert_false(request.open);
	/* and one that comes while the last is on its way */
	write_policy(GOOD);
	show(WRITTEN);
	settle();
	honest("GET written");
	write_policy(THIRD);
	show(WRITTEN);
	run();
	assert_status(THIRD, NULL);
	assert_accepted(THIRD, "5");
}

static void a_bad_policy(void **state)
{
	(void)state;
	to_lead();
	rewrite(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_has(logged, "the policy ConfigMap is not usable");
	assert_accepted(GOOD, "5");
	delete_map(WRITTEN);
	show(WRITTEN);
	run();
	assert_status(GOOD, "was deleted");
	assert_accepted(GOOD, "5");
	assert_requests("GET written,");
	rewrite(GOOD);
	assert_status(GOOD, NULL);
	run();
	assert_requests("");
}

/* A write that fails in any way is tried again, and nothing is enforced before. */
static void a_write_that_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(failures); i++) {
		to_lead();
		rewrite(OTHER);
		refused("PUT accepted", failures[i].status);
		assert_status(GOOD, "accepted policy can't be stored: so it is");
		assert_has(logged, "a new policy can't be accepted");
		assert_false(request.open);
		/* it waits, and the longer the more often */
		pass_ms(199);
		run();
		assert_requests("");
		pass_ms(201);
		settle();
		/* first of all what became of the last one, if that is not known */
		bool unsure = failures[i].code == GQ_EIO;
		if (unsure)
			honest("GET accepted");
		refused("PUT accepted", failures[i].status);
		assert_int_equal(occurrences(logged, "a new policy can't be accepted"), 1);
		pass_ms(399);
		run();
		assert_requests("");
		pass_ms(401);
		run();
		assert_requests(unsure ? "GET accepted,PUT accepted," : "PUT accepted,");
		assert_status(OTHER, NULL);
		assert_accepted(OTHER, "5");
	}
	assert_int_equal(fences, 0);
}

static void told_to_wait(void **state)
{
	(void)state;
	to_lead();
	rewrite(OTHER);
	expect("PUT accepted");
	answer(429, "", 7);
	settle();
	pass_ms(6999);
	run();
	assert_requests("");
	/* a newer policy does not wait for the last one's sake */
	rewrite(THIRD);
	run();
	assert_status(THIRD, NULL);
}

/* No answer came, though it was written: that it was is seen, and it is not written again. */
static void a_write_that_came_about(void **state)
{
	(void)state;
	to_lead();
	rewrite(OTHER);
	expect("PUT accepted");
	assert_int_equal(carry_out(), 200);
	answer(0, "", 0);
	settle();
	assert_status(GOOD, "can't be stored");
	pass_ms(400);
	settle();
	honest("GET accepted");
	assert_status(OTHER, NULL);
	assert_false(request.open);
}

/* … though by the time that this is seen the policy has become a bad one: what is stored is what
 * the next leader would enforce, and so do we. */
static void a_write_that_came_about_in_vain(void **state)
{
	(void)state;
	to_lead();
	rewrite(OTHER);
	expect("PUT accepted");
	assert_int_equal(carry_out(), 200);
	write_policy(BAD);
	show(WRITTEN);
	answer(504, "", 0);
	settle();
	pass_ms(400);
	run();
	assert_status(OTHER, "policy.yaml:5:5");
	assert_accepted(OTHER, "5");
}

/* … or it comes about much later. */
static void a_write_that_is_late(void **state)
{
	(void)state;
	to_lead();
	rewrite(OTHER);
	expect("PUT accepted");
	struct request late = request;
	late.body = strdup(request.body);
	write_policy(BAD);
	show(WRITTEN);
	answer(0, "", 0);
	settle();
	pass_ms(400);
	run();
	assert_status(GOOD, "policy.yaml:5:5");
	assert_accepted(GOOD, "5");
	free(request.body);
	request = late;
	request.open = false;
	assert_int_equal(carry_out(), 200);
	assert_accepted(OTHER, "5");
	show(ACCEPTED);
	run();
	assert_status(OTHER, "policy.yaml:5:5");
	assert_accepted(OTHER, "5");
	/* after the next write it would have been refused */
	rewrite(THIRD);
	run();
	assert_status(THIRD, NULL);
	/* so that the same from there on is a person's */
	rewrite(BAD);
	accept_policy(OTHER, EPOCH);
	show(ACCEPTED);
	run();
	assert_status(THIRD, "policy.yaml:5:5");
	assert_accepted(THIRD, "5");
}

/* What stands there is not what was written last. */
static void a_conflict(void **state)
{
	static const struct {
		const char *text, *epoch;
		bool fenced;
	} cases[] = {
	    {THIRD, "5", false}, {THIRD, "4", false}, {THIRD, "", false}, {GOOD, "4", false},
	    {BAD, "5", false},   {GOOD, "6", true},   {THIRD, "6", true},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		to_lead();
		fences = 0;
		rewrite(OTHER);
		edit(ACCEPTED, cases[i].text, cases[i].epoch, hash_of(cases[i].text));
		honest("PUT accepted");
		honest("GET accepted");
		if (cases[i].fenced) {
			assert_int_equal(fences, 1);
			assert_false(request.open);
			assert_status(GOOD, NULL);
			/* it follows */
			show(ACCEPTED);
			run();
			assert_status(cases[i].text, NULL);
			assert_requests("");
			accept_policy(GOOD, 1);
			show(ACCEPTED);
			run();
			continue;
		}
		assert_status(GOOD, NULL);
		honest("PUT accepted");
		assert_int_equal(fences, 0);
		assert_status(OTHER, NULL);
		assert_accepted(OTHER, "5");
	}
}

static void a_conflict_without_end(void **state)
{
	(void)state;
	to_lead();
	rewrite(OTHER);
	for (int i = 0; request.open; i++) {
		assert_true(i < 10);
		accept_policy(GOOD, 4);
		honest("PUT accepted");
		if (request.open)
			honest("GET accepted");
	}
	assert_status(GOOD, "accepted policy can't be stored");
	pass_ms(400);
	run();
	assert_status(OTHER, NULL);
}

/* A person edits or deletes what was accepted: it is written again. */
static void edits(void **state)
{
	static const struct {
		const char *text, *epoch;
		bool intact;
	} cases[] = {
	    {OTHER, "5", true}, {OTHER, "5", false}, {BAD, "5", true},    {GOOD, "5", false},
	    {GOOD, "4", true},  {GOOD, "", true},    {OTHER, "9", false},
	};

	(void)state;
	to_lead();
	for (size_t i = 0; i < LEN(cases); i++) {
		edit(ACCEPTED, cases[i].text, cases[i].epoch,
		     cases[i].intact ? hash_of(cases[i].text) : "0123");
		show(ACCEPTED);
		run();
		assert_requests("GET accepted,PUT accepted,");
		assert_status(GOOD, NULL);
		assert_accepted(GOOD, "5");
		show(ACCEPTED);
		run();
		assert_requests("");
	}
	delete_map(ACCEPTED);
	show(ACCEPTED);
	run();
	assert_requests("GET accepted,POST accepted,");
	assert_accepted(GOOD, "5");
	/* also if the watch has missed the deletion */
	delete_map(ACCEPTED);
	assert_int_equal(event(ACCEPTED, GQ_EVENT_LIST_BEGIN, NULL), 0);
	assert_int_equal(event(ACCEPTED, GQ_EVENT_LIST_END, NULL), 0);
	run();
	assert_requests("GET accepted,POST accepted,");
	assert_accepted(GOOD, "5");
	assert_int_equal(fences, 0);
	/* and with a bad policy beside it */
	rewrite(BAD);
	edit(ACCEPTED, OTHER, "5", hash_of(OTHER));
	show(ACCEPTED);
	run();
	assert_accepted(GOOD, "5");
	assert_status(GOOD, "policy.yaml:5:5");
	accept_policy(OTHER, 6);
	show(ACCEPTED);
	run();
	assert_int_equal(fences, 1);
	assert_accepted(OTHER, "6");
	assert_status(OTHER, "policy.yaml:5:5");
}

/* What a newer policy replaces is not enforced on the way. */
static void no_detours(void **state)
{
	(void)state;
	to_lead();
	rewrite(OTHER);
	expect("PUT accepted");
	assert_int_equal(carry_out(), 200);
	write_policy(THIRD);
	show(WRITTEN);
	answer(0, "", 0);
	settle();
	pass_ms(400);
	run();
	assert_requests("GET accepted,GET written,PUT accepted,");
	assert_status(THIRD, NULL);
	assert_int_equal(occurrences(logged, "policy in force"), 1);
}

/* A person puts one there while none is in force. */
static void one_made_by_a_person(void **state)
{
	(void)state;
	lead(EPOCH);
	run();
	assert_done(0);
	accept_policy(GOOD, 1);
	show(ACCEPTED);
	run();
	assert_status(GOOD, "there is no ConfigMap");
	assert_accepted(GOOD, "5");
}

/* What is shown while a request is under way may be newer than the answer. */
static void nothing_is_missed(void **state)
{
	(void)state;
	to_lead();
	edit(ACCEPTED, OTHER, "5", "0123");
	show(ACCEPTED);
	settle();
	expect("GET accepted");
	/* the answer was made before this */
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	accept_policy(GOOD, EPOCH);
	print_map(ACCEPTED, &body);
	edit(ACCEPTED, THIRD, "5", "0123");
	show(ACCEPTED);
	answer(200, body.data, 0);
	run();
	assert_accepted(GOOD, "5");
	/* and of the policy */
	write_policy(OTHER);
	show(WRITTEN);
	settle();
	expect("GET written");
	gq_buf_reset(&body);
	print_map(WRITTEN, &body);
	write_policy(THIRD);
	show(WRITTEN);
	answer(200, body.data, 0);
	run();
	assert_status(THIRD, NULL);
	assert_accepted(THIRD, "5");
}

static void a_read_that_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(failures); i++) {
		to_lead();
		write_policy(OTHER);
		show(WRITTEN);
		settle();
		refused("GET written", failures[i].status);
		assert_status(GOOD, "the ConfigMap gpuquota-policy can't be read: so it is");
		pass_ms(400);
		run();
		assert_status(OTHER, NULL);
		delete_map(ACCEPTED);
		show(ACCEPTED);
		settle();
		refused("GET accepted", failures[i].status);
		assert_status(OTHER, "accepted policy can't be read: so it is");
		pass_ms(400);
		run();
		assert_status(OTHER, NULL);
		assert_accepted(OTHER, "5");
	}
}

/* ---- following again ---- */

static void leads_no_more(void **state)
{
	(void)state;
	/* before it was done */
	accept_policy(GOOD, 3);
	lead(EPOCH);
	gq_policy_source_follow(source);
	run();
	assert_int_equal(dones, 0);
	assert_requests("GET accepted,");
	assert_status(NULL, "");
	/* in the middle of a write, whose end is seen like anybody else's */
	to_lead();
	rewrite(OTHER);
	expect("PUT accepted");
	gq_policy_source_follow(source);
	settle();
	answer_honestly();
	settle();
	assert_status(GOOD, NULL);
	show(ACCEPTED);
	settle();
	assert_status(OTHER, NULL);
	/* what the new leader writes is enforced, and nothing is written */
	write_policy(GOOD);
	show(WRITTEN);
	accept_policy(THIRD, 6);
	show(ACCEPTED);
	run();
	assert_status(THIRD, NULL);
	assert_requests("");
	assert_int_equal(fences, 0);
}

static void the_last_word_counts(void **state)
{
	unsigned first = 0;

	(void)state;
	accept_policy(GOOD, 3);
	gq_policy_source_lead(source, 4, on_done, &first);
	gq_policy_source_follow(source);
	gq_policy_source_lead(source, EPOCH, on_done, &app_time);
	run();
	assert_done(0);
	assert_accepted(GOOD, "5");
	/* one that is under way is forgotten, and its answer too */
	dones = 0;
	gq_policy_source_lead(source, 6, on_done, &first);
	settle();
	struct request old = request;
	request.open = false;
	lead(7);
	struct request new = request;
	request = old;
	request.body = NULL;
	answer(500, "", 0);
	request = new;
	run();
	assert_done(0);
	assert_accepted(GOOD, "7");
}

/* ---- without memory ---- */

/* Whatever allocation fails, nothing is lost: those who took over in vain try again. */
static void no_memory(void **state)
{
	long n = 0;

	(void)state;
	for (bool failed = true; failed; n++) {
		accept_policy(GOOD, 3);
		write_policy(OTHER);
		fail_alloc(n);
		lead(EPOCH);
		for (int i = 0; i < 100 && !(dones && !done_code && !request.open && !woken); i++) {
			settle();
			fail_alloc_hold(true);
			int which = request.open ? map_of(request.path) : 0;
			int status = request.open ? carry_out() : 0;
			struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
			if (status / 100 == 2)
				print_map(which, &body);
			fail_alloc_hold(false);
			if (status)
				answer(status, body.data ? body.data : "", 0);
			else if (dones && done_code)
				lead(EPOCH);
			pass_ms(500);
			work();
		}
		failed = fail_alloc_done();
		pass_ms(20000);
		run();
		assert_done(0);
		assert_status(OTHER, NULL);
		assert_accepted(OTHER, "5");
		gq_policy_source_follow(source);
		run();
	}
	assert_true(n > 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_new_policy),
	    TEST(a_bad_policy),
	    TEST(a_write_that_fails),
	    TEST(told_to_wait),
	    TEST(a_write_that_came_about),
	    TEST(a_write_that_came_about_in_vain),
	    TEST(a_write_that_is_late),
	    TEST(a_conflict),
	    TEST(a_conflict_without_end),
	    TEST(edits),
	    TEST(no_detours),
	    TEST(one_made_by_a_person),
	    TEST(nothing_is_missed),
	    TEST(a_read_that_fails),
	    TEST(leads_no_more),
	    TEST(the_last_word_counts),
	    TEST(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
