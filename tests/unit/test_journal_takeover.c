#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/journal_world.h"

/* Taking the journal over, whatever is found, and whatever becomes of the requests. */

static struct side a;
static struct gq_buf lines;

static int setup(void **state)
{
	(void)state;
	world_reset();
	side_init(&a, "pod-a");
	lines = GQ_BUF_INIT(64u << 10);
	line_print(&lines, "uid-old-1");
	line_print(&lines, "uid-old-2");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	gq_buf_done(&lines);
	side_done(&a);
	world_end();
	return 0;
}

static void found_of_another(void)
{
	object_write("1", "pod-b", "41", "7", lines.data, NULL);
}

static void found_nothing(void)
{
	object_delete();
}

static void found_no_data(void)
{
	object_set(NULL);
}

static void found_garbage(void)
{
	object_set("{\"format\":{\"a\":[1]},\"holder\":7}");
}

static void found_newer(void)
{
	object_write("2", "pod-b", "41", "7", lines.data, NULL);
}

static void found_our_own(void)
{
	object_write("1", "pod-a", "41", "7", lines.data, NULL);
}

static void found_held(void)
{
	object_write("1", "pod-b", "41", "7", lines.data, "true");
}

static void found_bad_line(void)
{
	struct gq_buf bad GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	gq_buf_puts(&bad, "no reservation\n\n{}\n");
	gq_buf_puts(&bad, lines.data);
	object_write("1", "pod-b", "41", "7", bad.data, NULL);
}

static void found_cut_line(void)
{
	char *cut = strdup(lines.data);

	cut[strlen(cut) - 3] = '\0';
	object_write("1", "pod-b", "41", "7", cut, NULL);
	free(cut);
}

static void found_highest_epoch(void)
{
	object_write("1", "pod-b", "9223372036854775806", "7", lines.data, NULL);
}

static const struct {
	void (*found)(void);
	const char *epoch; /* of ours; NULL: by the clock */
	unsigned restored;
	bool held; /* nothing is granted for one time to live */
} finds[] = {
    {found_of_another, "42", 2, false}, {found_nothing, NULL, 0, true},
    {found_no_data, NULL, 0, true},     {found_garbage, NULL, 0, true},
    {found_newer, NULL, 0, true},       {found_our_own, "42", 2, false},
    {found_held, "42", 2, true},        {found_bad_line, "42", 2, true},
    {found_cut_line, "42", 1, true},    {found_highest_epoch, NULL, 2, false},
};

static void assert_opens(bool held)
{
	int64_t since_ns = app_time.mono_ns;

	assert_false(grants(&a));
	open_grants(&a, false);
	assert_int_equal(grants(&a), !held);
	assert_int_equal(a.lost, held);
	assert_string_equal(object_text("held"), held ? "true" : "");
	if (!held)
		return;
	settle(TTL_NS - 10 * MS);
	assert_false(grants(&a));
	settle(200 * MS);
	assert_true(grants(&a));
	assert_true(app_time.mono_ns >= since_ns + TTL_NS);
	assert_string_equal(object_text("held"), "");
}

static void assert_restored(unsigned n)
{
	assert_int_equal(app_charges(a.ledger), n);
	assert_int_equal(object_has("uid-old-1"), n > 0);
	assert_int_equal(object_has("uid-old-2"), n > 1);
}

static void test_whatever_is_found(void **state)
{
	for (size_t i = 0; i < LEN(finds); i++) {
		struct answer one;
		teardown(state);
		setup(state);
		finds[i].found();
		take_over(&a);
		assert_int_equal(n_requests, 1);
		assert_string_equal(requests[0].method, "GET");
		assert_null(strchr(requests[0].path, '?')); /* no cache's answer */
		end_with(END_OK);
		pass(10 * MS);
		assert_int_equal(a.taken_over, 0);
		assert_false(grants(&a));
		end_with(END_OK);
		assert_int_equal(a.taken_over, 1);
		assert_string_equal(object_text("holder"), "pod-a");
		if (finds[i].epoch)
			assert_string_equal(object_text("epoch"), finds[i].epoch);
		else
			assert_true(a.epoch >= (uint64_t)START_WALL_S * 1000);
		assert_int_equal(strtoull(object_text("epoch"), NULL, 10), a.epoch);
		assert_restored(finds[i].restored);
		assert_opens(finds[i].held);
		ask(&a, &one, "uid-1");
		settle(20 * MS);
		assert_committed(&one);
	}
}

static void test_the_first_leader_ever_holds_nothing(void **state)
{
	struct answer one;

	(void)state;
	take_over(&a);
	settle(50 * MS);
	assert_string_equal(object_text("held"), "true");
	open_grants(&a, true);
	assert_true(grants(&a));
	assert_int_equal(a.lost, 0);
	settle(20 * MS);
	assert_string_equal(object_text("held"), "");
	ask(&a, &one, "uid-1");
	settle(20 * MS);
	assert_committed(&one);
}

/* Deleted, taken over by one who dies while he holds grants back: the next holds them, too. */
static void test_a_loss_outlives_who_found_it(void **state)
{
	(void)state;
	take_over(&a);
	settle(50 * MS);
	open_grants(&a, false);
	assert_false(grants(&a));
	side_done(&a);
	side_init(&a, "pod-b");
	take_over(&a);
	settle(50 * MS);
	assert_int_equal(a.taken_over, 1);
	assert_opens(true);
	side_done(&a);
	side_init(&a, "pod-a");
	take_over(&a);
	settle(50 * MS);
	assert_opens(false);
}

/* What we have reserved before, and what the journal has, come together. */
static void test_own_reservations_and_those_of_the_journal(void **state)
{
	struct answer one;

	(void)state;
	lead(&a);
	ask(&a, &one, "uid-own");
	end_with(END_OK);
	stop(&a);
	found_of_another();
	take_over(&a);
	settle(50 * MS);
	assert_int_equal(a.taken_over, 2);
	assert_true(object_has("uid-own"));
	assert_true(object_has("uid-old-1") && object_has("uid-old-2"));
	assert_int_equal(app_charges(a.ledger), 3);
}

static void test_conflict(void **state)
{
	(void)state;
	found_of_another();
	take_over(&a);
	end_with(END_OK);
	pass(10 * MS);
	/* the old leader writes once more, with one reservation more */
	line_print(&lines, "uid-old-3");
	object_write("1", "pod-b", "41", "8", lines.data, NULL);
	end_with(END_OK);
	assert_int_equal(a.taken_over, 0);
	assert_string_equal(requests[0].method, "GET");
	end_with(END_OK);
	settle(20 * MS);
	assert_int_equal(a.taken_over, 1);
	assert_true(object_has("uid-old-3"));
	assert_true(a.epoch > 41);
	assert_opens(false);
}

static void test_conflict_with_another_who_takes_over(void **state)
{
	(void)state;
	found_of_another();
	take_over(&a);
	end_with(END_OK);
	pass(10 * MS);
	object_write("1", "pod-c", "42", "1", lines.data, NULL);
	end_with(END_OK);
	settle(20 * MS);
	assert_int_equal(a.epoch, 43);
	assert_int_equal(a.fenced, 0);
	assert_restored(2);
}

/* How requests of a take-over may end; it is taken over in the end. */
static void test_however_its_requests_end(void **state)
{
	static const enum ending all[] = {END_DROPPED, END_LOST, END_GARBLED, END_EMPTIED, END_5XX,
					  END_403,     END_429,  END_LATE,    END_422};

	for (size_t i = 0; i < LEN(all) * 2 * LEN(finds); i++) {
		enum ending ending = all[i % LEN(all)];
		bool of_write = i / LEN(all) % 2;
		size_t f = i / LEN(all) / 2;
		bool done = ending == END_LOST || ending == END_GARBLED || ending == END_EMPTIED;
		teardown(state);
		setup(state);
		finds[f].found();
		take_over(&a);
		if (of_write) {
			end_with(END_OK);
			pass(10 * MS);
			unsigned puts = n_puts;
			uint64_t version = object.version;
			end_with(ending);
			assert_int_equal(a.taken_over, 0);
			settle(1100 * MS);
			assert_int_equal(n_puts - puts, done ? 0 : 1);
			if (done)
				assert_int_equal(object.version, version + 1);
		} else {
			end_with(ending);
			settle(1100 * MS);
		}
		if (a.taken_over != 1)
			fail_msg("ending %d of %s with find %zu: not taken over", (int)ending,
				 of_write ? "a write" : "a read", f);
		assert_restored(finds[f].restored);
		while (n_late)
			arrive();
		assert_opens(finds[f].held);
	}
}

/* The journal was absent, so what we created late is no proof that nothing was lost. */
static void test_our_own_late_creation_hides_no_loss(void **state)
{
	(void)state;
	take_over(&a);
	end_with(END_OK);
	pass(10 * MS);
	assert_string_equal(requests[0].method, "POST");
	end_with(END_LATE);
	pass(60 * MS);
	end_with(END_OK); /* still absent */
	assert_string_equal(requests[0].method, "POST");
	arrive();
	end_with(END_OK); /* conflict */
	settle(50 * MS);
	assert_int_equal(a.taken_over, 1);
	assert_opens(true);
}

static void test_replaced_by_a_good_one_while_taking_over(void **state)
{
	(void)state;
	found_garbage();
	take_over(&a);
	end_with(END_OK);
	pass(10 * MS);
	found_of_another(); /* who does not know either what was lost */
	end_with(END_OK);
	settle(50 * MS);
	assert_restored(2);
	assert_opens(true);
}

static void test_deleted_before_it_is_opened(void **state)
{
	struct answer one;

	(void)state;
	found_of_another();
	take_over(&a);
	settle(20 * MS);
	assert_int_equal(a.taken_over, 1);
	object_delete();
	/* something to clean */
	struct gq_pod *pod = pod_of("uid-old-1");
	assert_int_equal(gq_ledger_pod_seen(a.ledger, pod, app_time.mono_ns, NULL), 0);
	gq_pod_unref(pod);
	settle(400 * MS);
	assert_int_equal(a.lost, 1);
	assert_true(object_has("uid-old-2"));
	open_grants(&a, true);
	assert_false(grants(&a));
	settle(TTL_NS);
	assert_true(grants(&a));
	ask(&a, &one, "uid-1");
	settle(20 * MS);
	assert_committed(&one);
}

static void test_deleted_under_the_fencing_write(void **state)
{
	(void)state;
	found_of_another();
	take_over(&a);
	end_with(END_OK);
	pass(10 * MS);
	object_delete();
	end_with(END_OK);
	settle(50 * MS);
	assert_int_equal(a.taken_over, 1);
	assert_restored(2);
	assert_opens(true);
}

static void test_fenced_before_it_is_opened(void **state)
{
	(void)state;
	found_of_another();
	take_over(&a);
	settle(20 * MS);
	object_write("1", "pod-c", "99", "1", "", NULL);
	struct gq_pod *pod = pod_of("uid-old-1");
	assert_int_equal(gq_ledger_pod_seen(a.ledger, pod, app_time.mono_ns, NULL), 0);
	gq_pod_unref(pod);
	settle(400 * MS);
	assert_int_equal(a.fenced, 1);
	open_grants(&a, false);
	assert_false(grants(&a));
	settle(GQ_NS_PER_S);
	assert_string_equal(object_text("holder"), "pod-c");
}

static void test_stop_and_again_at_each_step(void **state)
{
	for (int step = 0; step < 4; step++) {
		teardown(state);
		setup(state);
		found_of_another();
		take_over(&a);
		if (step >= 1)
			end_with(END_OK);
		if (step >= 2)
			pass(10 * MS);
		if (step >= 3)
			end_with(END_5XX);
		stop(&a);
		while (n_requests)
			answer(0, END_LOST);
		pass(2 * GQ_NS_PER_S);
		assert_int_equal(a.taken_over, 0);
		assert_int_equal(n_requests, 0);
		take_over(&a);
		settle(50 * MS);
		assert_int_equal(a.taken_over, 1);
		assert_restored(2);
		assert_opens(false);
	}
}

/* A backoff of before does not hold up the next term. */
static void test_at_once_after_failures(void **state)
{
	(void)state;
	found_of_another();
	take_over(&a);
	for (int i = 0; i < 8; i++) {
		end_with(END_5XX);
		pass(GQ_NS_PER_S);
	}
	end_with(END_5XX);
	stop(&a);
	take_over(&a);
	assert_int_equal(n_requests, 1);
	settle(20 * MS);
	assert_int_equal(a.taken_over, 1);
}

static void test_out_of_memory(void **state)
{
	bool failed = true;

	for (long n = 0; failed; n++) {
		teardown(state);
		setup(state);
		found_of_another();
		fail_alloc(n);
		take_over(&a);
		settle(300 * MS);
		failed = fail_alloc_done();
		assert_int_equal(a.taken_over, 1);
		assert_restored(2);
		assert_opens(false);
	}
}

static void test_no_memory_for_a_journal(void **state)
{
	struct gq_ledger *ledger = app_ledger(WORLD_POLICY);
	struct gq_journal *journal = NULL;
	bool failed = true;

	(void)state;
	for (long n = 0; failed; n++) {
		fail_alloc(n);
		in_code(true);
		journal = gq_journal_new(&(struct gq_journal_options){
		    .ledger = ledger, .clock = &app_time.clock, .holder = "x"});
		failed = fail_alloc_done();
		assert_int_equal(journal == NULL, failed);
		gq_journal_free(journal);
	}
	gq_ledger_free(ledger);
}

/* Two processes with one identity, begun in the same second: only one may believe that it leads. */
static void test_two_of_one_name(void **state)
{
	struct side b;
	struct answer one, two;

	(void)state;
	side_init(&b, "pod-a");
	take_over(&a);
	take_over(&b);
	while (n_requests && strcmp(requests[0].method, "GET") == 0)
		answer(0, END_OK); /* there is none, both are told */
	settle(100 * MS);
	assert_int_equal(a.taken_over, 1);
	assert_int_equal(b.taken_over, 1);
	assert_true(a.epoch != b.epoch);
	open_grants(&a, true);
	open_grants(&b, true);
	settle(400 * MS);
	struct side *old = a.epoch < b.epoch ? &a : &b, *new = old == &a ? &b : &a;
	if (!old->fenced) {
		ask(old, &two, "uid-old");
		settle(100 * MS);
		assert_failed(&two);
	}
	assert_int_equal(old->fenced, 1);
	/* the other was no first one any more, so somebody may have granted before it */
	settle(TTL_NS);
	ask(new, &one, "uid-new");
	settle(100 * MS);
	assert_committed(&one);
	assert_int_equal(new->fenced, 0);
	side_done(&b);
}

/* Something was there: whoever wrote it may have granted, whatever else is missing. */
static void test_first_ever_only_where_nothing_was_written(void **state)
{
	(void)state;
	object_write("99", "pod-b", "7", "1", "", NULL);
	take_over(&a);
	settle(100 * MS);
	open_grants(&a, true);
	settle(100 * MS);
	assert_false(grants(&a));
	assert_int_equal(a.lost, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_two_of_one_name),
	    TEST(test_first_ever_only_where_nothing_was_written),
	    TEST(test_whatever_is_found),
	    TEST(test_the_first_leader_ever_holds_nothing),
	    TEST(test_a_loss_outlives_who_found_it),
	    TEST(test_own_reservations_and_those_of_the_journal),
	    TEST(test_conflict),
	    TEST(test_conflict_with_another_who_takes_over),
	    TEST(test_however_its_requests_end),
	    TEST(test_our_own_late_creation_hides_no_loss),
	    TEST(test_replaced_by_a_good_one_while_taking_over),
	    TEST(test_deleted_before_it_is_opened),
	    TEST(test_deleted_under_the_fencing_write),
	    TEST(test_fenced_before_it_is_opened),
	    TEST(test_stop_and_again_at_each_step),
	    TEST(test_at_once_after_failures),
	    TEST(test_out_of_memory),
	    TEST(test_no_memory_for_a_journal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
