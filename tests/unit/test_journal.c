#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/journal_world.h"

/* A journal that is held: what becomes of those who wait, however a write ends. */

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

/* ---- one write ---- */

static void test_nothing_is_answered_before_the_write(void **state)
{
	struct answer one;

	(void)state;
	ask(&a, &one, "uid-1");
	assert_int_equal(n_requests, 1);
	assert_string_equal(requests[0].method, "PUT");
	assert_non_null(strstr(requests[0].body, "uid-1"));
	pass(4 * GQ_NS_PER_S);
	assert_waits(&one);
	end_with(END_OK);
	assert_committed(&one);
	assert_string_equal(object_text("holder"), "pod-a");
	assert_string_equal(object_text("format"), GQ_JOURNAL_FORMAT);
	assert_string_equal(object_text("held"), "");
	assert_int_equal(app_held(a.ledger, "team-a", GQ_STATE_RESERVED), 1);
}

static void test_one_write_for_all_that_came_meanwhile(void **state)
{
	struct answer all[9];
	unsigned before = n_puts;
	char uid[16];

	(void)state;
	for (size_t i = 0; i < LEN(all); i++) {
		(void)snprintf(uid, sizeof uid, "uid-%zu", i);
		ask(&a, &all[i], uid);
	}
	assert_int_equal(n_puts - before, 1);
	int64_t first_ns = put_ns;
	pass(MS);
	end_with(END_OK);
	assert_committed(&all[0]);
	for (size_t i = 1; i < LEN(all); i++)
		assert_waits(&all[i]);
	pass(3 * MS);
	assert_int_equal(n_requests, 0);
	pass(MS);
	assert_int_equal(put_ns - first_ns, 5 * MS);
	end_with(END_OK);
	for (size_t i = 1; i < LEN(all); i++)
		assert_committed(&all[i]);
	assert_int_equal(n_puts - before, 2);
}

/* How a write may end that is done again, or was done after all. */
static const struct {
	enum ending ending;
	bool read;         /* it is read back */
	bool again;        /* and written again */
	int64_t within_ns; /* of the end */
	int64_t after_ns;
} endings[] = {
    {END_429, false, true, 1010 * MS, 1000 * MS}, {END_403, false, true, 60 * MS, 50 * MS},
    {END_5XX, true, true, 60 * MS, 50 * MS},      {END_422, true, true, 60 * MS, 50 * MS},
    {END_DROPPED, true, true, 60 * MS, 50 * MS},  {END_LATE, true, true, 60 * MS, 50 * MS},
    {END_LOST, true, false, 60 * MS, 50 * MS},    {END_GARBLED, true, false, 60 * MS, 50 * MS},
    {END_EMPTIED, true, false, 60 * MS, 50 * MS},
};

static void test_however_a_write_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(endings); i++) {
		struct answer one;
		char uid[16];
		(void)snprintf(uid, sizeof uid, "uid-%02zu", i);
		ask(&a, &one, uid);
		pass(MS);
		end_with(endings[i].ending);
		assert_waits(&one);
		int64_t ended_ns = app_time.mono_ns;
		unsigned puts = n_puts;
		while (!one.got && app_time.mono_ns < ended_ns + 2 * GQ_NS_PER_S) {
			assert_int_equal(strcmp(n_requests ? requests[0].method : "GET", "GET") ==
						 0 ||
					     endings[i].again,
					 1);
			if (n_requests)
				end_with(END_OK);
			pass(MS);
		}
		assert_committed(&one);
		assert_in_range(one.at_ns - ended_ns, endings[i].after_ns, endings[i].within_ns);
		assert_int_equal(n_puts - puts, endings[i].again);
		settle(400 * MS);
	}
	assert_int_equal(a.fenced + a.lost, 0);
	assert_true(grants(&a));
}

static void test_a_write_that_never_ends_well(void **state)
{
	static const enum ending bad[] = {END_429,     END_403,  END_5XX, END_422,
					  END_DROPPED, END_LATE, END_429, END_403};
	int64_t asked_ns = app_time.mono_ns;
	struct answer one;
	unsigned before = n_sent;

	(void)state;
	ask(&a, &one, "uid-1");
	for (size_t i = 0; !one.got; i++) {
		while (n_requests)
			answer(0, bad[i % LEN(bad)]);
		pass(MS);
		assert_true(i < 20000);
	}
	assert_failed(&one);
	/* in good time, and not asking all the while */
	assert_int_equal(one.at_ns, asked_ns + 10 * GQ_NS_PER_S);
	assert_in_range(n_sent - before, 10, 40);
	assert_int_equal(app_charges(a.ledger), 0);
}

static void test_a_late_arrival_is_recognised(void **state)
{
	struct answer one, two, three;

	(void)state;
	ask(&a, &one, "uid-1");
	end_with(END_LATE);
	ask(&a, &two, "uid-2");
	pass(60 * MS);
	assert_string_equal(requests[0].method, "GET");
	end_with(END_OK);
	assert_string_equal(requests[0].method, "PUT");
	ask(&a, &three, "uid-3");
	/* the first overtakes the second, which has lost then */
	arrive();
	assert_true(object_has("uid-1"));
	assert_waits(&one);
	end_with(END_OK);
	assert_string_equal(requests[0].method, "GET");
	end_with(END_OK);
	assert_committed(&one);
	assert_waits(&two);
	settle(20 * MS);
	assert_committed(&two);
	assert_committed(&three);
}

static void test_a_late_arrival_after_the_next_write_does_nothing(void **state)
{
	struct answer one;
	uint64_t version;

	(void)state;
	ask(&a, &one, "uid-1");
	end_with(END_LATE);
	settle(400 * MS);
	assert_committed(&one);
	version = object.version;
	arrive();
	assert_int_equal(object.version, version);
	ask(&a, &one, "uid-2");
	end_with(END_OK);
	assert_committed(&one);
}

static void test_too_many_late_ones(void **state)
{
	struct answer one;

	(void)state;
	ask(&a, &one, "uid-1");
	for (unsigned i = 0; i < 40;) {
		if (n_requests && requests[0].body) {
			/* each differs from the one before */
			char uid[16];
			uint64_t ticket;
			(void)snprintf(uid, sizeof uid, "x-%u", i++);
			ticket = propose(&a, uid);
			assert_true(ticket != 0);
			end_with(END_LATE);
			gq_ledger_abort(a.ledger, ticket, app_time.mono_ns);
		} else if (n_requests) {
			end_with(END_OK);
		}
		pass(20 * MS);
		if (one.got) /* its time is up */
			ask(&a, &one, "uid-1");
	}
	/* the oldest is forgotten: what it held is written again */
	arrive();
	assert_waits(&one);
	settle(2 * GQ_NS_PER_S);
	assert_committed(&one);
	assert_int_equal(a.fenced + a.lost, 0);
}

static void test_an_answer_that_says_something_else_is_no_success(void **state)
{
	struct answer one;
	char *body, *at;

	(void)state;
	ask(&a, &one, "uid-1");
	/* somebody on the way drops the line */
	body = requests[0].body;
	at = strstr(body, "uid-1");
	for (; at; at = strstr(body, "uid-1"))
		memcpy(at, "uid-x", 5);
	end_with(END_OK);
	assert_waits(&one);
	assert_false(object_has("uid-1"));
	settle(100 * MS);
	assert_committed(&one);
}

/* ---- somebody else writes it ---- */

struct edit {
	const char *format, *holder, *epoch, *seq, *lines;
	bool fenced; /* else the journal goes on as if nothing was */
	bool lost;
};
static const struct edit edits[] = {
    {"1", "pod-a", "=", "=", "", false, false},   {"1", "pod-a", "=", "=", "garbage", false, false},
    {"1", "pod-a", "=", "77", "=", false, false}, {"1", "pod-a", "=", "77", "", false, false},
    {"1", "pod-b", "=", "=", "=", true, false},   {"1", "pod-b", "+", "1", "=", true, false},
    {"1", "pod-a", "+", "=", "=", true, false},   {"1", "pod-a", "3", "=", "=", true, false},
    {"1", "", "=", "=", "=", false, true},        {"1", "pod-a", "x", "=", "=", false, true},
    {"1", "pod-a", "=", "-1", "=", false, true},  {"1", "pod-a", "", "", "", false, true},
    {"2", "pod-b", "=", "=", "=", false, true},   {"", "pod-a", "=", "=", "=", false, true},
};

static void edit(const struct edit *e)
{
	char *epoch = strdup(object_text("epoch")), *seq = strdup(object_text("seq"));
	char *lines = strdup(object_text("reservations"));
	char higher[32];

	(void)snprintf(higher, sizeof higher, "%llu",
		       (unsigned long long)strtoull(epoch, NULL, 10) + 1);
	object_write(e->format, e->holder,
		     e->epoch[0] == '='   ? epoch
		     : e->epoch[0] == '+' ? higher
					  : e->epoch,
		     e->seq[0] == '=' ? seq : e->seq, e->lines[0] == '=' ? lines : e->lines, NULL);
	free(epoch);
	free(seq);
	free(lines);
}

/* After the journal was lost: nothing for one time to live, what was reserved is in it again. */
static void assert_held_for_ttl(const char *uid)
{
	int64_t since_ns = app_time.mono_ns;

	assert_false(grants(&a));
	settle(50 * MS);
	assert_true(object_has(uid));
	assert_string_equal(object_text("holder"), "pod-a");
	assert_string_equal(object_text("held"), "true");
	settle(TTL_NS - 60 * MS);
	assert_false(grants(&a));
	settle(200 * MS);
	assert_true(grants(&a));
	assert_true(app_time.mono_ns - since_ns >= TTL_NS);
	assert_string_equal(object_text("held"), "");
}

static void test_whoever_else_writes_it(void **state)
{
	for (size_t i = 0; i < LEN(edits); i++) {
		const struct edit *e = &edits[i];
		struct answer kept, one;
		teardown(state);
		setup(state);
		ask(&a, &kept, "uid-kept");
		end_with(END_OK);
		settle(20 * MS);
		ask(&a, &one, "uid-1");
		edit(e);
		end_with(END_OK);
		assert_waits(&one);
		assert_string_equal(requests[0].method, "GET");
		end_with(END_OK);
		assert_int_equal(a.fenced, e->fenced);
		assert_int_equal(a.lost, e->lost);
		if (e->fenced) {
			assert_failed(&one);
			assert_false(grants(&a));
			settle(GQ_NS_PER_S);
			assert_int_equal(object.writes, 4); /* nothing is written any more */
			assert_true(ledger_has(&a, "uid-kept"));
		} else if (e->lost) {
			assert_failed(&one);
			assert_held_for_ttl("uid-kept");
		} else {
			settle(20 * MS);
			assert_committed(&one);
			assert_true(object_has("uid-kept"));
			assert_true(grants(&a));
		}
	}
}

static void test_replaced_by_one_without_data(void **state)
{
	struct answer kept, one;

	(void)state;
	ask(&a, &kept, "uid-kept");
	end_with(END_OK);
	settle(20 * MS);
	ask(&a, &one, "uid-1");
	object_set(NULL);
	end_with(END_OK);
	end_with(END_OK);
	assert_failed(&one);
	assert_int_equal(a.lost, 1);
	assert_held_for_ttl("uid-kept");
}

static void test_deleted(void **state)
{
	struct answer kept, one;
	unsigned long long epoch = a.epoch;

	(void)state;
	ask(&a, &kept, "uid-kept");
	end_with(END_OK);
	settle(20 * MS);
	ask(&a, &one, "uid-1");
	object_delete();
	end_with(END_OK);
	assert_failed(&one);
	assert_int_equal(a.lost, 1);
	pass(5 * MS);
	assert_string_equal(requests[0].method, "POST");
	assert_held_for_ttl("uid-kept");
	assert_true(strtoull(object_text("epoch"), NULL, 10) > epoch);
	assert_int_equal(a.lost, 1);
}

/* It does not come back at once: each time the hold begins anew, told of once. */
static void test_deleted_and_late(void **state)
{
	struct answer one;

	(void)state;
	ask(&a, &one, "uid-1");
	object_delete();
	end_with(END_OK);
	assert_failed(&one);
	pass(10 * MS);
	end_with(END_LATE);
	pass(2 * GQ_NS_PER_S);
	end_with(END_OK); /* still absent */
	int64_t since_ns = app_time.mono_ns;
	assert_string_equal(requests[0].method, "POST");
	arrive();
	end_with(END_OK);
	settle(TTL_NS - 10 * MS);
	assert_false(grants(&a));
	settle(200 * MS);
	assert_true(grants(&a));
	assert_true(app_time.mono_ns >= since_ns + TTL_NS);
	assert_int_equal(a.lost, 1);
	assert_int_equal(a.fenced, 0);
}

static void test_another_leader_found_when_an_answer_was_lost(void **state)
{
	struct answer one, two;

	(void)state;
	ask(&a, &one, "uid-1");
	end_with(END_LOST); /* written; then somebody takes over, with the line */
	char *lines = strdup(object_text("reservations"));
	object_write("1", "pod-b", "99", "1", lines, NULL);
	free(lines);
	ask(&a, &two, "uid-2");
	pass(60 * MS);
	end_with(END_OK);
	assert_failed(&one);
	assert_failed(&two);
	assert_int_equal(a.fenced, 1);
}

/* ---- bounds ---- */

static void test_average_of_bytes(void **state)
{
	struct answer one, kept[250];
	char uid[64];
	double bytes = 0;
	int64_t begun_ns, last_ns = 0;
	int64_t longest_ns = 0;

	(void)state;
	for (size_t i = 0; i < LEN(kept); i++) {
		(void)snprintf(uid, sizeof uid, "kept-%03zu", i);
		uint64_t ticket = propose(&a, uid);
		assert_true(ticket != 0);
		wait_for(&a, &kept[i], uid, ticket, app_time.mono_ns + GQ_NS_PER_S);
	}
	settle(100 * MS);
	assert_committed(&kept[0]);
	assert_true(put_bytes > (40u << 10));
	begun_ns = app_time.mono_ns;
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(uid, sizeof uid, "uid-%u", i);
		uint64_t ticket = propose(&a, uid);
		wait_for(&a, &one, uid, ticket, INT64_MAX);
		while (!n_requests)
			pass(MS);
		bytes += (double)put_bytes;
		assert_true(put_ns - last_ns >= 5 * MS);
		if (last_ns && put_ns - last_ns > longest_ns)
			longest_ns = put_ns - last_ns;
		last_ns = put_ns;
		end_with(END_OK);
		assert_committed(&one);
		struct gq_pod *pod = pod_of(uid);
		assert_int_equal(gq_ledger_pod_seen(a.ledger, pod, app_time.mono_ns, NULL), 0);
		gq_ledger_pod_gone(a.ledger, uid, app_time.mono_ns);
		gq_pod_unref(pod);
	}
	double passed_s = (double)(app_time.mono_ns - begun_ns) / 1e9;
	assert_true(bytes <= (256 << 10) * (60 + passed_s) + (128 << 10));
	assert_true(longest_ns >= (int64_t)((double)put_bytes / (256 << 10) * 0.9e9));
	assert_true(longest_ns < GQ_NS_PER_S);
}

static void test_what_was_seen_leaves_it(void **state)
{
	struct answer one;
	struct gq_pod *pod = pod_of("uid-1");
	unsigned before;

	(void)state;
	ask(&a, &one, "uid-1");
	end_with(END_OK);
	before = n_puts;
	assert_int_equal(gq_ledger_pod_seen(a.ledger, pod, app_time.mono_ns, NULL), 0);
	gq_pod_unref(pod);
	settle(240 * MS);
	assert_int_equal(n_puts, before);
	assert_true(object_has("uid-1"));
	settle(120 * MS);
	assert_false(object_has("uid-1"));
	settle(GQ_NS_PER_S);
	assert_int_equal(n_puts, before + 1);
}

/* ---- deadlines ---- */

static void test_answered_by_the_deadline(void **state)
{
	struct answer one, two;

	(void)state;
	uint64_t ticket = propose(&a, "uid-1");
	wait_for(&a, &one, "uid-1", ticket, app_time.mono_ns + 37 * MS);
	pass(0);
	ticket = propose(&a, "uid-2");
	wait_for(&a, &two, "uid-2", ticket, app_time.mono_ns + 338 * MS);
	pass(36 * MS);
	assert_waits(&one);
	pass(MS);
	assert_failed(&one);
	pass(300 * MS);
	assert_waits(&two);
	pass(MS);
	assert_failed(&two);
	assert_int_equal(app_charges(a.ledger), 0);
	/* what was written all the same is cleaned away */
	end_with(END_OK);
	assert_true(object_has("uid-1"));
	settle(400 * MS);
	assert_false(object_has("uid-1"));
}

static void test_two_wait_for_one_ticket(void **state)
{
	struct answer one, two, three;

	(void)state;
	uint64_t ticket = propose(&a, "uid-1");
	wait_for(&a, &one, "uid-1", ticket, app_time.mono_ns + 50 * MS);
	one.shared = true;
	pass(0);
	assert_int_equal(propose(&a, "uid-1"), ticket);
	wait_for(&a, &two, "uid-1", ticket, app_time.mono_ns + 500 * MS);
	pass(60 * MS);
	assert_failed(&one);
	assert_int_equal(app_charges(a.ledger), 1);
	/* one who is not even taken yet */
	wait_for(&a, &three, "uid-1", ticket, app_time.mono_ns + 500 * MS);
	end_with(END_OK);
	assert_committed(&two);
	assert_committed(&three);
}

/* It was decided on a charge that was taken back since. */
static void test_a_ticket_that_was_aborted_is_not_committed(void **state)
{
	struct answer one, two;

	(void)state;
	uint64_t ticket = propose(&a, "uid-1");
	wait_for(&a, &one, "uid-1", ticket, app_time.mono_ns + 50 * MS);
	pass(50 * MS);
	assert_failed(&one);
	wait_for(&a, &two, "uid-1", ticket, app_time.mono_ns + GQ_NS_PER_S);
	settle(100 * MS);
	assert_failed(&two);
}

/* ---- when the client can't ---- */

static void test_a_request_that_can_not_be_made(void **state)
{
	struct answer one;
	struct gq_journal_stats stats;

	(void)state;
	start_code = GQ_ENOMEM;
	ask(&a, &one, "uid-1");
	pass(500 * MS);
	assert_waits(&one);
	gq_journal_stats(a.journal, &stats);
	assert_string_equal(stats.problem, "the test says so");
	start_code = 0;
	settle(GQ_NS_PER_S + 50 * MS);
	assert_committed(&one);
	gq_journal_stats(a.journal, &stats);
	assert_string_equal(stats.problem, "");
}

static void test_timers_that_can_not_be_set(void **state)
{
	struct answer one, two;

	(void)state;
	after_code = GQ_ETOOBIG;
	uint64_t ticket = propose(&a, "uid-1");
	wait_for(&a, &one, "uid-1", ticket, app_time.mono_ns + GQ_NS_PER_S);
	/* the tick that is due takes it, and can set no other */
	pass(100 * MS);
	end_with(END_OK);
	assert_committed(&one);
	pass(GQ_NS_PER_S);
	assert_int_equal(n_timers, 0);
	/* nothing can tell of it: whoever comes next does */
	ticket = propose(&a, "uid-2");
	wait_for(&a, &one, "uid-2", ticket, app_time.mono_ns + GQ_NS_PER_S);
	after_code = 0;
	ask(&a, &two, "uid-3");
	settle(50 * MS);
	assert_committed(&one);
	assert_committed(&two);
	settle(400 * MS);
	assert_int_not_equal(n_timers, 0);
}

static void test_stats(void **state)
{
	struct gq_journal_stats stats;
	struct answer one;

	(void)state;
	gq_journal_stats(a.journal, &stats);
	uint64_t written = stats.writes[GQ_JOURNAL_WRITTEN];
	ask(&a, &one, "uid-1");
	pass(20 * MS);
	end_with(END_OK);
	gq_journal_stats(a.journal, &stats);
	assert_true(stats.holds && !stats.held);
	assert_int_equal(stats.epoch, a.epoch);
	assert_int_equal(stats.writes[GQ_JOURNAL_WRITTEN], written + 1);
	assert_int_equal(stats.committed, 1);
	assert_int_equal(stats.aborted, 0);
	assert_int_equal(stats.bytes, put_bytes);
	assert_int_equal(stats.reservations, 1);
	assert_int_equal(stats.write_buckets[4], 1); /* 20 ms is at most 25 */
	ask(&a, &one, "uid-2");
	end_with(END_403);
	gq_journal_stats(a.journal, &stats);
	assert_int_equal(stats.writes[GQ_JOURNAL_DENIED], 1);
	assert_string_equal(stats.problem, "the test says so");
	stop(&a);
	gq_journal_stats(a.journal, &stats);
	assert_true(!stats.holds && stats.held);
	assert_int_equal(stats.aborted, 1);
	for (int o = 0; o < GQ_JOURNAL_OUTCOMES; o++)
		assert_non_null(gq_journal_outcome_name((enum gq_journal_outcome)o));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_nothing_is_answered_before_the_write),
	    TEST(test_one_write_for_all_that_came_meanwhile),
	    TEST(test_however_a_write_ends),
	    TEST(test_a_write_that_never_ends_well),
	    TEST(test_a_late_arrival_is_recognised),
	    TEST(test_a_late_arrival_after_the_next_write_does_nothing),
	    TEST(test_too_many_late_ones),
	    TEST(test_an_answer_that_says_something_else_is_no_success),
	    TEST(test_whoever_else_writes_it),
	    TEST(test_replaced_by_one_without_data),
	    TEST(test_deleted),
	    TEST(test_deleted_and_late),
	    TEST(test_another_leader_found_when_an_answer_was_lost),
	    TEST(test_average_of_bytes),
	    TEST(test_what_was_seen_leaves_it),
	    TEST(test_answered_by_the_deadline),
	    TEST(test_two_wait_for_one_ticket),
	    TEST(test_a_ticket_that_was_aborted_is_not_committed),
	    TEST(test_a_request_that_can_not_be_made),
	    TEST(test_timers_that_can_not_be_set),
	    TEST(test_stats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
