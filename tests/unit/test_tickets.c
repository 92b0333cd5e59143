#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "controller/tickets.h"
#include "quota/decision.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define MS GQ_NS_PER_MS
#define THREADS 4
#define PUTS 500

static struct app_clock app_time;
static struct gq_ledger *ledger;
static struct gq_tickets *tickets;

static int setup(void **state)
{
	(void)state;
	app_clock_init(&app_time);
	ledger =
	    app_ledger(APP_POLICY_HEAD "tenants:\n  - name: team-a\n    namespaces: [a-train]\n"
				       "    quota: {A100: {gpus: 100000}}\n");
	tickets = gq_tickets_new(ledger, &app_time.clock);
	gq_tickets_open(tickets, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	gq_tickets_free(tickets);
	gq_ledger_free(ledger);
	return 0;
}

static uint64_t propose(const char *uid)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	struct gq_pod *pod = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json,
		      "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"%s\",\"uid\":\"%s\","
		      "\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"j\",\"uid\":\"o-%s\","
		      "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"c\","
		      "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}",
		      uid, uid, uid);
	if (gq_pod_decode(json.data, json.len, NULL, &pod, &err))
		fail_msg("%s", err.msg);
	const struct gq_create create = {.pod = pod,
					 .request_uid = uid,
					 .user = "system:serviceaccount:kube-system:job-controller",
					 .now_ns = app_time.mono_ns,
					 .wall_s = app_time.wall_s,
					 .deadline_ns = app_time.mono_ns + GQ_NS_PER_S};
	assert_int_equal(gq_decide_create(ledger, &create, &verdict, &err), 0);
	assert_int_equal(verdict.kind, GQ_VERDICT_ALLOW);
	gq_pod_unref(pod);
	return verdict.ticket;
}

struct answer {
	unsigned got;
	int code;
	size_t charges; /* at that time */
};

static void on_done(void *done_arg, int code)
{
	struct answer *answer = done_arg;

	answer->got++;
	answer->code = code;
	answer->charges = app_charges(ledger);
}

static bool put(uint64_t ticket, int64_t within_ns, struct answer *answer)
{
	*answer = (struct answer){0};
	return gq_tickets_put(tickets, ticket, app_time.mono_ns + within_ns, on_done, answer);
}

static void assert_counts(uint64_t committed, uint64_t failed)
{
	uint64_t c, f;

	gq_tickets_count(tickets, &c, &f);
	assert_int_equal(c, committed);
	assert_int_equal(f, failed);
}

#define ENDED(answer, with)                                                                        \
	do {                                                                                       \
		assert_int_equal((answer).got, 1);                                                 \
		assert_int_equal((answer).code, (with));                                           \
	} while (0)

static void test_only_what_is_in_the_write(void **state)
{
	struct answer one, two, three;

	(void)state;
	assert_true(put(propose("one"), 100 * MS, &one));
	assert_false(put(propose("two"), 100 * MS, &two)); /* it was told already */
	assert_false(gq_tickets_waiting(tickets));
	gq_tickets_take(tickets);
	assert_true(gq_tickets_waiting(tickets));
	assert_true(put(propose("three"), 100 * MS, &three));
	/* of a write that is printed now, a ticket that was not taken before is no part */
	gq_tickets_mark(tickets, 5);
	gq_tickets_commit(tickets, 1, 4);
	assert_int_equal(one.got + two.got + three.got, 0);
	gq_tickets_commit(tickets, 1, 5);
	ENDED(one, 0);
	ENDED(two, 0);
	assert_int_equal(three.got, 0);
	gq_tickets_mark(tickets, 6);
	gq_tickets_mark(tickets, 7); /* written again: the first counts */
	gq_tickets_commit(tickets, 1, 6);
	ENDED(three, 0);
	assert_counts(3, 0);
	assert_int_equal(app_held(ledger, "team-a", GQ_STATE_RESERVED), 3);
}

static void test_never_committed_without_a_write(void **state)
{
	struct answer one;

	(void)state;
	put(propose("one"), 100 * MS, &one);
	gq_tickets_take(tickets);
	gq_tickets_commit(tickets, 1, UINT64_MAX);
	assert_int_equal(one.got, 0);
	gq_tickets_fail(tickets);
}

static void test_expire(void **state)
{
	struct answer one, two, joined;

	(void)state;
	assert_int_equal(gq_tickets_deadline_ns(tickets), INT64_MAX);
	put(propose("one"), 100 * MS, &one);
	put(propose("two"), 50 * MS, &two);
	gq_tickets_take(tickets);
	assert_int_equal(gq_tickets_deadline_ns(tickets), app_time.mono_ns + 50 * MS);
	app_time.mono_ns += 50 * MS - 1;
	gq_tickets_expire(tickets);
	assert_int_equal(two.got, 0);
	app_time.mono_ns++;
	gq_tickets_expire(tickets);
	ENDED(two, GQ_EIO);
	assert_int_equal(two.charges, 1); /* taken back before he was told */
	assert_int_equal(one.got, 0);
	/* another waits for it, though he was not taken yet */
	app_time.mono_ns += 50 * MS;
	put(propose("one"), 100 * MS, &joined);
	gq_tickets_expire(tickets);
	ENDED(one, GQ_EIO);
	assert_int_equal(one.charges, 1);
	gq_tickets_take(tickets);
	gq_tickets_mark(tickets, 1);
	gq_tickets_commit(tickets, 1, 1);
	ENDED(joined, 0);
	assert_counts(1, 2);
}

static void test_who_joins_waits_for_the_same_write(void **state)
{
	struct answer one, two;

	(void)state;
	put(propose("one"), 100 * MS, &one);
	gq_tickets_take(tickets);
	gq_tickets_mark(tickets, 5);
	put(propose("one"), 100 * MS, &two);
	gq_tickets_commit(tickets, 1, 5);
	ENDED(one, 0);
	ENDED(two, 0);
	assert_int_equal(app_charges(ledger), 1);
}

static void test_aborted_elsewhere(void **state)
{
	struct answer one, two;
	uint64_t ticket = propose("one");

	(void)state;
	put(ticket, 100 * MS, &one);
	put(ticket, 100 * MS, &two);
	gq_tickets_take(tickets);
	gq_tickets_mark(tickets, 5);
	gq_ledger_abort(ledger, ticket, app_time.mono_ns);
	gq_tickets_commit(tickets, 1, 5);
	ENDED(one, GQ_EIO);
	ENDED(two, GQ_EIO);
	assert_counts(0, 2);
}

static void test_fail(void **state)
{
	struct answer one, two, three;

	(void)state;
	put(propose("one"), 100 * MS, &one);
	put(propose("one"), 100 * MS, &two);
	gq_tickets_take(tickets);
	gq_tickets_mark(tickets, 5);
	put(propose("three"), 100 * MS, &three);
	gq_tickets_fail(tickets);
	ENDED(one, GQ_EIO);
	ENDED(two, GQ_EIO);
	ENDED(three, GQ_EIO);
	assert_int_equal(app_charges(ledger), 0);
	assert_false(gq_tickets_waiting(tickets));
}

static void test_closed(void **state)
{
	struct answer one, two, three;

	(void)state;
	put(propose("one"), 100 * MS, &one);
	assert_false(gq_tickets_close_idle(tickets));
	put(propose("two"), 100 * MS, &two); /* still taken */
	assert_int_equal(two.got, 0);
	gq_tickets_open(tickets, false);
	/* refused, and the charge stays for him who waits */
	assert_false(put(propose("one"), 100 * MS, &three));
	ENDED(three, GQ_EIO);
	assert_int_equal(three.charges, 2);
	gq_tickets_take(tickets);
	put(propose("one"), 100 * MS, &three);
	assert_int_equal(three.charges, 2);
	put(propose("three"), 100 * MS, &three);
	ENDED(three, GQ_EIO);
	assert_int_equal(three.charges, 2);
	gq_tickets_mark(tickets, 1);
	gq_tickets_commit(tickets, 1, 1);
	ENDED(one, 0);
	ENDED(two, 0);
	gq_tickets_open(tickets, true);
	assert_true(gq_tickets_close_idle(tickets));
	put(propose("four"), 100 * MS, &three);
	ENDED(three, GQ_EIO);
	assert_int_equal(app_charges(ledger), 2);
}

static void test_not_open_at_first(void **state)
{
	struct gq_tickets *fresh = gq_tickets_new(ledger, &app_time.clock);
	struct answer one = {0};

	(void)state;
	assert_false(gq_tickets_put(fresh, propose("one"), INT64_MAX, on_done, &one));
	ENDED(one, GQ_EIO);
	assert_int_equal(one.charges, 0);
	gq_tickets_free(fresh);
	gq_tickets_free(NULL);
}

static void test_told_again(void **state)
{
	struct answer answers[4];

	(void)state;
	assert_true(put(propose("1"), MS, &answers[0]));
	assert_false(put(propose("2"), MS, &answers[1]));
	gq_tickets_untold(tickets);
	assert_true(put(propose("3"), MS, &answers[2]));
	assert_false(put(propose("4"), MS, &answers[3]));
	gq_tickets_fail(tickets);
}

static void test_out_of_memory(void **state)
{
	struct answer one, two;
	uint64_t ticket = propose("one"), other = propose("two");

	(void)state;
	fail_alloc(0);
	bool told = put(ticket, 100 * MS, &one);
	assert_false(told);
	ENDED(one, GQ_ENOMEM);
	put(other, 100 * MS, &one);
	fail_alloc(0);
	put(other, 100 * MS, &two);
	assert_true(fail_alloc_done());
	ENDED(two, GQ_ENOMEM);
	assert_int_equal(app_charges(ledger), 1);
	gq_tickets_fail(tickets);
	fail_alloc(0);
	assert_null(gq_tickets_new(ledger, &app_time.clock));
	assert_true(fail_alloc_done());
}

/* ---- many at once ---- */

static atomic_uint ended;

static void on_ended(void *done_arg, int code)
{
	(void)code;
	assert_int_equal(atomic_fetch_add((atomic_uint *)done_arg, 1), 0);
	atomic_fetch_add(&ended, 1);
}

static void *put_many(void *arg)
{
	atomic_uint *got = arg;

	for (uint64_t i = 0; i < PUTS; i++)
		(void)gq_tickets_put(tickets, 1000 + i % 7, i % 5 ? INT64_MAX : 0, on_ended,
				     &got[i]);
	return NULL;
}

static void test_each_is_answered_once(void **state)
{
	static atomic_uint got[THREADS][PUTS];
	pthread_t threads[THREADS];

	(void)state;
	for (size_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, put_many, got[t]), 0);
	for (uint64_t seq = 1; atomic_load(&ended) < THREADS * PUTS; seq++) {
		gq_tickets_take(tickets);
		gq_tickets_expire(tickets);
		gq_tickets_mark(tickets, seq);
		if (seq % 3 == 0)
			gq_tickets_open(tickets, seq % 2);
		if (seq % 2)
			gq_tickets_commit(tickets, 1, seq);
		else
			gq_tickets_fail(tickets);
	}
	for (size_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_join(threads[t], NULL), 0);
	assert_int_equal(atomic_load(&ended), THREADS * PUTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_only_what_is_in_the_write),
	    TEST(test_never_committed_without_a_write),
	    TEST(test_expire),
	    TEST(test_who_joins_waits_for_the_same_write),
	    TEST(test_aborted_elsewhere),
	    TEST(test_fail),
	    TEST(test_closed),
	    TEST(test_not_open_at_first),
	    TEST(test_told_again),
	    TEST(test_out_of_memory),
	    TEST(test_each_is_answered_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
