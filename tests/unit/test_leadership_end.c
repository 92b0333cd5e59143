/* How a replica ceases to lead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/leadership_world.h"

/* ---- stepping down ---- */

static void lease_lost(void **state)
{
	(void)state;
	for (enum stage stage = JOURNAL; stage < STAGES; stage++) {
		restart();
		reach(stage);
		lease.code = GQ_EIO;
		pass_ms(2400); /* the rest of 3.5 s, less one renewal */
		expect(stage == BARRIER ? "relist" : "");
		pass_ms(1200);
		expect(ends[stage]);
		assert_int_equal(status().leads, false);
		if (stage == LEADING)
			assert_has(reason, "Lease");
		pass_ms(10000);
		expect("");
		lease.code = 0;
		pass_ms(1500);
		take_over_again(8);
	}
}

/* Somebody else holds it, which is known with the next renewal. */
static void lease_taken(void **state)
{
	(void)state;
	reach(LEADING);
	lease.code = GQ_ECONFLICT;
	pass_ms(1100);
	lease.code = 0;
	lease.version++;
	(void)snprintf(lease.holder, sizeof lease.holder, "pod-b");
	pass_ms(1100);
	expect(ends[LEADING]);
	assert_string_equal(status().holder, "pod-b");
	/* a moment later that one is gone */
	lease.holder[0] = '\0';
	lease.version++;
	pass_ms(1300);
	take_over_again(8);
}

static void requests_that_fail(void **state)
{
	(void)state;
	reach(LEADING);
	start_code = GQ_ENOMEM;
	pass_ms(3700);
	expect(ends[LEADING]);
	start_code = 0;
	pass_ms(1300);
	take_over_again(8);
	lease.silent = true; /* answers stay away, and the client does not end them */
	pass_ms(3700);
	expect(ends[LEADING]);
}

static void fenced(void **state)
{
	(void)state;
	for (enum stage stage = FOLLOWING; stage < STAGES; stage++) {
		restart();
		reach(stage);
		int64_t then_ns = app_time.mono_ns;
		gq_leadership_fenced(leadership, "another wrote");
		settle();
		expect(ends[stage]);
		if (stage == FOLLOWING)
			continue;
		if (stage == LEADING)
			assert_string_equal(reason, "another wrote");
		pass_ms(900);
		assert_string_equal(lease.holder, "pod-a");
		expect("");
		pass_ms(160);
		assert_in_range(app_time.mono_ns - then_ns, S, 1100 * MS);
		take_over_again(9);
	}
}

/* It is noticed on another thread, and the client has no memory for a timer: at the next tick. */
static void fenced_without_a_timer(void **state)
{
	(void)state;
	reach(LEADING);
	after_code = GQ_ENOMEM;
	gq_leadership_fenced(leadership, "another wrote");
	after_code = 0;
	expect("");
	pass_ms(60);
	expect(ends[LEADING]);
}

/* Answers to what an earlier term has asked mean nothing. */
static void earlier_terms(void **state)
{
	(void)state;
	/* the policy */
	reach(POLICY);
	void (*old_done)(void *arg, int code) = policy_done;
	void *old_arg = policy_arg;
	gq_leadership_fenced(leadership, "another wrote");
	pass_ms(1100);
	expect("stop follow unlabel journal");
	end_journal(9);
	expect("policy-9");
	old_done(old_arg, 0);
	pass_ms(100);
	expect("");
	end_policy(0);
	expect("barrier");

	/* the policy, while it follows */
	restart();
	reach(POLICY);
	gq_leadership_fenced(leadership, "another wrote");
	settle();
	end_policy(0);
	expect("stop follow unlabel");
	pass_ms(1100);
	expect("journal");

	/* the barrier: neither its answer nor its event */
	restart();
	reach(BARRIER);
	char old_nonce[sizeof awaited];
	memcpy(old_nonce, awaited, sizeof awaited);
	gq_leadership_fenced(leadership, "another wrote");
	pass_ms(1100);
	end_journal(9);
	end_policy(0);
	expect("stop follow unlabel journal policy-9 barrier");
	assert_int_equal(n_barriers, 2);
	barriers[0].done(barriers[0].arg, GQ_ENOTFOUND);
	barriers[0] = barriers[--n_barriers];
	gq_leadership_own_pod(leadership, "pod-a", "", old_nonce, false, false);
	pass_ms(1000);
	expect("");
	/* nor a list that began before the new fence */
	listed(app_time.mono_ns - 1500 * MS);
	expect("");
	show(false);
	expect("open label LEADS");

	/* the journal, when it has been stopped */
	restart();
	reach(JOURNAL);
	gq_leadership_fenced(leadership, "another wrote");
	settle();
	expect("stop follow unlabel");
	end_journal(7);
	expect("");
	assert_int_equal(status().terms, 0);
}

/* A list that our pod was in, but that did not end before the term did, says nothing of the next.
 */
static void list_of_an_earlier_term(void **state)
{
	(void)state;
	reach(BARRIER);
	show(true);
	gq_leadership_fenced(leadership, "another wrote");
	pass_ms(1100);
	end_journal(9);
	end_policy(0);
	expect("stop follow unlabel journal policy-9 barrier");
	listed(START_NS);
	expect("");
	show(false);
	expect("open label LEADS");
}

/* Of many terms, the policy answers only the last: no question is kept for ever. */
static void overtaken_questions(void **state)
{
	(void)state;
	reach(POLICY);
	for (uint64_t epoch = 8; epoch < 12; epoch++) {
		gq_leadership_fenced(leadership, "another wrote");
		pass_ms(1100);
		expect("stop follow unlabel journal");
		end_journal(epoch);
		story[0] = '\0';
	}
	end_policy(0);
	expect("barrier");
	gq_leadership_fenced(leadership, "another wrote");
	pass_ms(1100);
	end_journal(12); /* asked, and the program ends */
}

/* ---- handing over ---- */

static void hand_over(void)
{
	gq_leadership_hand_over(leadership, handed_over, &lease);
	settle();
}

static void hands_over(void **state)
{
	(void)state;
	reach(LEADING);
	show_successor(); /* whoever led before us: no successor */
	hand_over();
	expect("ENDS flush");
	assert_has(reason, "asked to end");
	pass_ms(3000);
	assert_string_equal(lease.holder, "pod-a"); /* not before the flush is done */
	expect("");
	flush_done(flush_arg);
	settle();
	expect("stop follow rest");
	pass_ms(60);
	assert_string_equal(lease.holder, "");
	gq_leadership_own_pod(leadership, "pod-a", "true", "", false, false);
	gq_leadership_own_pod(leadership, "pod-b", "", "", false, false);
	gq_leadership_own_pod(leadership, "pod-b", "true", "", true, false);
	pass_ms(5000);
	expect("");
	assert_string_equal(lease.holder, "");
	show_successor();
	expect(""); /* reviews still come here */
	gq_leadership_own_pod(leadership, "pod-a", "", "", false, false);
	settle();
	expect("handed-over");
	show_successor();
	gq_leadership_fenced(leadership, "another wrote");
	gq_leadership_tick(leadership);
	pass_ms(60000);
	expect("");
	assert_string_equal(lease.holder, "");
}

/* Where reviews go ends with our own pod, too. */
static void pod_goes(void **state)
{
	(void)state;
	reach(LEADING);
	flush_at_once = true;
	gq_leadership_own_pod(leadership, "pod-a", "true", "", false, false);
	hand_over();
	expect("ENDS flush stop follow rest");
	show_successor();
	pass_ms(100);
	expect("");
	gq_leadership_own_pod(leadership, "pod-a", "true", "", true, false);
	settle();
	expect("handed-over");
}

static void no_successor(void **state)
{
	(void)state;
	reach(LEADING);
	flush_at_once = true;
	hand_over();
	expect("ENDS flush stop follow rest");
	pass_ms(9900);
	expect("");
	pass_ms(200);
	expect("handed-over");
}

/* The Lease must be free as well, or ten seconds have passed. */
static void release_takes_long(void **state)
{
	(void)state;
	for (int answered = 0; answered < 2; answered++) {
		restart();
		reach(LEADING);
		flush_at_once = true;
		lease.silent = true;
		hand_over();
		show_successor();
		expect("ENDS flush stop follow rest");
		pass_ms(9000);
		expect("");
		lease.silent = !answered;
		pass_ms(answered ? 60 : 1100);
		expect("handed-over");
	}
}

static void flush_takes_long(void **state)
{
	(void)state;
	reach(LEADING);
	hand_over();
	expect("ENDS flush");
	pass_ms(9900);
	expect("");
	pass_ms(200);
	expect("stop follow rest");
	flush_done(flush_arg); /* late */
	show_successor();
	pass_ms(60);
	expect("handed-over");
}

/* A journal that is not ours has nothing to flush, and says nothing more. */
static void fenced_while_flushing(void **state)
{
	(void)state;
	reach(LEADING);
	hand_over();
	gq_leadership_fenced(leadership, "another wrote");
	settle();
	expect("ENDS flush stop follow rest");
	show_successor();
	pass_ms(60);
	expect("handed-over");
}

/* The Lease is lost meanwhile: what is at hand is still the journal's to decide. */
static void lease_lost_while_flushing(void **state)
{
	(void)state;
	reach(LEADING);
	hand_over();
	lease.code = GQ_EIO;
	pass_ms(5000);
	expect("ENDS flush");
	lease.code = 0;
	flush_done(flush_arg);
	show_successor();
	pass_ms(1500);
	expect("stop follow rest handed-over");
}

static void hands_over_early(void **state)
{
	(void)state;
	/* while another leads: nobody waits for us */
	reach(FOLLOWING);
	hand_over();
	expect("handed-over");
	assert_string_equal(lease.holder, "pod-b");

	/* while it takes over */
	for (enum stage stage = JOURNAL; stage < LEADING; stage++) {
		restart();
		reach(stage);
		hand_over();
		expect("stop follow unlabel");
		pass_ms(100);
		assert_string_equal(lease.holder, "");
		show_successor();
		expect("handed-over");
		if (stage == POLICY)
			end_policy(0);
		if (stage == JOURNAL)
			end_journal(7);
		pass_ms(20000);
		expect("");
	}

	/* before it was told to start; an earlier life may have left a Lease */
	restart();
	lease.version = 1;
	(void)snprintf(lease.holder, sizeof lease.holder, "pod-a");
	hand_over();
	expect("handed-over");
	assert_string_equal(lease.holder, "");
	gq_leadership_start(leadership);
	pass_ms(20000);
	expect("");

	/* and without an API server */
	restart();
	lease.code = GQ_EIO;
	hand_over();
	pass_ms(9900);
	expect("");
	pass_ms(200);
	expect("handed-over");
}

/* ---- a lost journal ---- */

/* Its time to live is over: what was stored until then must be in the ledger before anything is
 * granted. */
/* A write of an earlier leader that comes late, or a person, has changed the label of our pod. */
static void label_changed_by_others(void **state)
{
	(void)state;
	reach(LEADING);
	may_lead = true;
	show(false);
	pass_ms(100);
	expect("");
	labelled = false;
	show(false);
	pass_ms(60);
	expect("label");
	labelled = false;
	show(false);
	pass_ms(900); /* once a second */
	expect("");
	pass_ms(200);
	expect("label");
	show(false);
	may_lead = false;
	gq_leadership_fenced(leadership, "another wrote");
	settle();
	expect(ends[LEADING]);
	labelled = true;
	show(false);
	pass_ms(1100);
	expect("unlabel journal");
}

static void hold_over(void **state)
{
	(void)state;
	gq_leadership_hold_over(leadership); /* not while it follows */
	reach(LEADING);
	may_lead = true;
	pass_ms(60000);
	int64_t over_ns = app_time.mono_ns;
	show(false); /* the barrier of the beginning */
	expect("");
	gq_leadership_hold_over(leadership);
	expect("barrier");
	pass_ms(100);
	listed(over_ns - 1);
	expect("");
	show(false);
	expect("release");
	show(false);
	pass_ms(5000);
	expect("");

	/* without the event, by a list; and not once it leads no more */
	gq_leadership_hold_over(leadership);
	pass_ms(2100);
	expect("barrier relist");
	listed(app_time.mono_ns);
	expect("release");
	pass_ms(10);
	gq_leadership_hold_over(leadership);
	expect("barrier");
	may_lead = false;
	gq_leadership_fenced(leadership, "another wrote");
	settle();
	show(false);
	listed(app_time.mono_ns);
	expect(ends[LEADING]);
}

/* ---- several threads ---- */

static bool ended;

static void *meddle(void *arg)
{
	struct gq_leadership_status now;

	(void)arg;
	for (int i = 0; !__atomic_load_n(&ended, __ATOMIC_RELAXED); i++) {
		gq_leadership_own_pod(leadership, "pod-b", i % 2 ? "true" : "", "", false, false);
		gq_leadership_own_pod(leadership, "pod-a", "", "7.1", false, i % 3 == 0);
		gq_leadership_pods_listed(leadership, START_NS);
		if (i % 500 == 0)
			gq_leadership_fenced(leadership, "another wrote");
		gq_leadership_tick(leadership);
		gq_leadership_start(leadership);
		gq_leadership_status(leadership, &now);
		(void)gq_leadership_leads(leadership);
		usleep(50);
	}
	return NULL;
}

/* What other threads tell, at any time, harms nothing. */
static void threads(void **state)
{
	pthread_t thread[2];
	uint64_t epoch = 7;

	(void)state;
	__atomic_store_n(&ended, false, __ATOMIC_RELAXED);
	gq_leadership_start(leadership);
	for (size_t i = 0; i < LEN(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, meddle, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		bool over = i >= 2900; /* they are gone, and it comes to lead after all */
		if (over && !__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
			__atomic_store_n(&ended, true, __ATOMIC_RELAXED);
			for (size_t t = 0; t < LEN(thread); t++)
				pthread_join(thread[t], NULL);
		}
		for (int n = 0; n < 20 && step(); n++)
			;
		pthread_mutex_lock(&played);
		app_time.mono_ns += 50 * MS;
		pthread_mutex_unlock(&played);
		char words[sizeof story];
		memcpy(words, story, sizeof words);
		story[0] = '\0';
		if (strstr(words, "journal"))
			journal_done(journal_arg, epoch++);
		else if (strstr(words, "policy"))
			policy_done(policy_arg, 0);
		else if (strstr(words, "barrier"))
			gq_leadership_own_pod(leadership, "pod-a", "", awaited, false, false);
		while (n_barriers)
			end_barrier(0);
	}
	assert_true(gq_leadership_leads(leadership));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(lease_lost),
	    TEST(lease_taken),
	    TEST(requests_that_fail),
	    TEST(fenced),
	    TEST(fenced_without_a_timer),
	    TEST(earlier_terms),
	    TEST(list_of_an_earlier_term),
	    TEST(overtaken_questions),
	    TEST(hands_over),
	    TEST(pod_goes),
	    TEST(no_successor),
	    TEST(release_takes_long),
	    TEST(flush_takes_long),
	    TEST(fenced_while_flushing),
	    TEST(lease_lost_while_flushing),
	    TEST(hands_over_early),
	    TEST(label_changed_by_others),
	    TEST(hold_over),
	    TEST(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
