/* The way of one replica to leading and back. The election is the real one, against a Lease of the
 * test; the journal and the routing are played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/election.h"
#include "controller/leadership.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define MS GQ_NS_PER_MS
#define S GQ_NS_PER_S

static struct gq_leadership *leadership;
static struct app_clock app_time;

/* What the leadership had others do, a word each, since it was looked at last. */
static char story[4096];

static void tell(const char *word, bool leads)
{
	size_t len = strlen(story);

	/* and it answers requests only where it should */
	if (leadership && gq_leadership_leads(leadership) != leads)
		fail_msg("%s%s while it leads: %d", story, word, !leads);
	(void)snprintf(story + len, sizeof story - len, "%s%s", len ? " " : "", word);
}

/* ---- the API client, with a Lease behind it ---- */

static struct {
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[256];
static size_t n_timers;
static int after_code;

static struct {
	bool runs;
	char method[8];
	char *body;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} call;
static int start_code;

static struct {
	char holder[64];
	unsigned version; /* 0: there is none */
	int code;         /* that every request fails with */
	bool silent;      /* nothing is answered */
} lease;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	fail_alloc_hold(true);
	assert_false(call.runs);
	assert_has(request->path, "/apis/coordination.k8s.io/v1/namespaces/gpuquota-system/leases");
	assert_ptr_equal(request->keep, gq_lease_keep);
	assert_true(request->timeout_ns > 0);
	(void)snprintf(call.method, sizeof call.method, "%s", request->method);
	free(call.body);
	call.body = request->body ? strndup(request->body, request->body_len) : NULL;
	call.on_done = request->on_done;
	call.arg = request->arg;
	call.runs = true;
	fail_alloc_hold(false);
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	(void)api;
	if (after_code)
		return gq_fail(err, after_code, "the test says so");
	assert_true(n_timers < LEN(timers) && delay_ns >= 0);
	timers[n_timers].due_ns = app_time.mono_ns + delay_ns;
	timers[n_timers].on_due = on_due;
	timers[n_timers++].arg = arg;
	return 0;
}

/* What a write of the Lease makes of it. */
static void write_lease(void)
{
	struct json_object *root = json_parse(call.body, strlen(call.body));

	(void)snprintf(lease.holder, sizeof lease.holder, "%s",
		       json_text(root, "spec.holderIdentity"));
	lease.version++;
	json_object_put(root);
}

static void answer(void)
{
	char body[512] = "";
	int code = lease.code;

	fail_alloc_hold(true);
	if (!code && call.body)
		write_lease();
	else if (!code && !lease.version)
		code = GQ_ENOTFOUND;
	if (!code)
		(void)snprintf(body, sizeof body,
			       "{\"metadata\":{\"resourceVersion\":\"%u\"},\"spec\":{"
			       "\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":5,"
			       "\"renewTime\":\"%u\"}}",
			       lease.version, lease.holder, lease.version);
	call.runs = false;
	fail_alloc_hold(false);
	call.on_done(call.arg, &(struct gq_api_response){.code = code,
							 .body = body,
							 .len = strlen(body),
							 .error = code ? "the test says so" : ""});
}

/* Whether something was due. */
static bool step(void)
{
	for (size_t i = 0; i < n_timers; i++) {
		if (timers[i].due_ns > app_time.mono_ns)
			continue;
		void (*on_due)(void *arg) = timers[i].on_due;
		void *arg = timers[i].arg;
		timers[i] = timers[--n_timers];
		on_due(arg);
		return true;
	}
	if (!call.runs || lease.silent)
		return false;
	answer();
	return true;
}

static void settle(void)
{
	for (unsigned i = 0; step(); i++)
		if (i == 1000)
			fail_msg("it does not come to rest: %s", story);
}

static void pass_ms(int64_t ms)
{
	settle();
	for (int64_t end_ns = app_time.mono_ns + ms * MS; app_time.mono_ns < end_ns;) {
		app_time.mono_ns += 10 * MS;
		settle();
	}
}

/* ---- the journal and the routing, played ---- */

static void (*journal_done)(void *arg, uint64_t epoch);
static void (*flush_done)(void *arg);
static void *journal_arg, *flush_arg;
static bool flush_at_once;

void gq_journal_take_over(struct gq_journal *journal, void (*done)(void *arg, uint64_t epoch),
			  void *arg)
{
	(void)journal;
	tell("journal", false);
	journal_done = done;
	journal_arg = arg;
}

void gq_journal_open(struct gq_journal *journal, bool first_ever)
{
	(void)journal;
	tell(first_ever ? "open-first" : "open", false);
}

void gq_journal_stop(struct gq_journal *journal)
{
	(void)journal;
	tell("stop", false);
}

void gq_journal_flush(struct gq_journal *journal, void (*done)(void *arg), void *arg)
{
	(void)journal;
	tell("flush", false);
	flush_done = done;
	flush_arg = arg;
	if (flush_at_once)
		done(arg);
}

/* Those that run, the newest last. */
static struct {
	void (*done)(void *arg, int code);
	void *arg;
} barriers[8];
static size_t n_barriers;
static char nonce[320];
static int barrier_code; /* 1: answered later */

void gq_routing_leave(struct gq_routing *routing)
{
	(void)routing;
	tell("unlabel", false);
}

void gq_routing_take(struct gq_routing *routing)
{
	(void)routing;
	tell("label", true);
}

void gq_routing_barrier(struct gq_routing *routing, const char *text,
			void (*done)(void *arg, int code), void *arg)
{
	(void)routing;
	tell("barrier", false);
	assert_string_not_equal(text, nonce);
	assert_in_range(strlen(text), 1, sizeof nonce - 1);
	(void)snprintf(nonce, sizeof nonce, "%s", text);
	if (barrier_code <= 0) {
		done(arg, barrier_code);
		return;
	}
	assert_true(n_barriers < LEN(barriers));
	barriers[n_barriers].done = done;
	barriers[n_barriers++].arg = arg;
}

static void end_barrier(int code)
{
	assert_true(n_barriers > 0);
	n_barriers--;
	barriers[n_barriers].done(barriers[n_barriers].arg, code);
}

/* ---- the callbacks ---- */

static void (*policy_done)(void *arg, int code);
static void *policy_arg;
static bool first;

static void lead_policy(void *arg, uint64_t epoch, void (*done)(void *done_arg, int code),
			void *done_arg)
{
	char word[32];

	assert_ptr_equal(arg, &app_time);
	(void)snprintf(word, sizeof word, "policy-%u", (unsigned)epoch);
	tell(word, false);
	policy_done = done;
	policy_arg = done_arg;
}

static void follow_policy(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	tell("follow", false);
}

static bool first_ever(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	return first;
}

static void relist(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	tell("relist", false);
}

static const char *reason;

static void on_change(void *arg, bool leads, const char *why)
{
	assert_ptr_equal(arg, &app_time);
	tell(leads ? "LEADS" : "ENDS", leads);
	reason = why;
}

static void handed_over(void *arg)
{
	assert_ptr_equal(arg, &lease);
	tell("handed-over", false);
}

/* ---- one replica ---- */

static struct gq_leadership_options options = {.clock = &app_time.clock,
					       .namespace_ = "gpuquota-system",
					       .identity = "pod-a",
					       .lead_policy = lead_policy,
					       .first_ever = first_ever,
					       .follow_policy = follow_policy,
					       .relist = relist,
					       .on_change = on_change,
					       .arg = &app_time};

static void listed(int64_t begun_ns)
{
	gq_leadership_pods_listed(leadership, begun_ns);
	settle();
}

static int make(bool elect)
{
	struct gq_err err;

	n_timers = 0;
	after_code = start_code = 0;
	call.runs = false;
	memset(&lease, 0, sizeof lease);
	flush_at_once = first = false;
	barrier_code = 1;
	nonce[0] = story[0] = '\0';
	app_clock_init(&app_time);
	options.elect = elect;
	leadership = NULL;
	return gq_leadership_new(&options, &leadership, &err);
}

static int setup(void **state)
{
	(void)state;
	int code = make(true);
	if (!code)
		listed(START_NS);
	app_time.mono_ns += S;
	return code;
}

/* The client ends: it answers what still runs. */
static int teardown(void **state)
{
	(void)state;
	while (n_barriers)
		end_barrier(GQ_EIO);
	gq_leadership_free(leadership);
	gq_leadership_free(NULL);
	free(call.body);
	call.body = NULL;
	return 0;
}

static void restart(void)
{
	(void)teardown(NULL);
	assert_int_equal(setup(NULL), 0);
}

/* What has happened since the last call, and nothing else. */
static void expect(const char *words)
{
	assert_string_equal(story, words);
	story[0] = '\0';
}

static struct gq_leadership_status status(void)
{
	struct gq_leadership_status now;

	gq_leadership_status(leadership, &now);
	assert_int_equal(now.leads, gq_leadership_leads(leadership));
	return now;
}

static void end_journal(uint64_t epoch)
{
	journal_done(journal_arg, epoch);
	settle();
}

static void end_policy(int code)
{
	policy_done(policy_arg, code);
	settle();
}

/* The watch shows our pod as the barrier has left it. */
static void show(bool in_list)
{
	gq_leadership_own_pod(leadership, "pod-a", "", nonce, false, in_list);
	settle();
}

static void show_successor(void)
{
	gq_leadership_own_pod(leadership, "pod-b", "true", "", false, false);
	settle();
}

enum stage { FOLLOWING, JOURNAL, POLICY, BARRIER, LEADING, STAGES };

/* From the beginning to a stage; the story begins there. */
static void reach(enum stage stage)
{
	if (stage == FOLLOWING) {
		lease.version = 1;
		(void)snprintf(lease.holder, sizeof lease.holder, "pod-b");
	}
	gq_leadership_start(leadership);
	settle();
	if (stage >= POLICY)
		end_journal(7);
	if (stage >= BARRIER)
		end_policy(0);
	if (stage >= LEADING) {
		end_barrier(0);
		show(false);
	}
	assert_int_equal(gq_leadership_leads(leadership), stage == LEADING);
	story[0] = '\0';
}

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
	gq_leadership_own_pod(leadership, "pod-b", "", nonce, false, false);
	gq_leadership_own_pod(leadership, "pod-a", "", "", false, false);
	gq_leadership_own_pod(leadership, "pod-a", "", "7.1", false, false);
	gq_leadership_own_pod(leadership, "pod-a", "true", nonce, true, false);
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

/* ---- stepping down ---- */

static const char *const ends[STAGES] = {"", "stop follow unlabel", "stop follow unlabel",
					 "stop follow unlabel", "stop follow unlabel ENDS"};

static void take_over_again(uint64_t epoch)
{
	char words[128];

	expect("journal");
	end_journal(epoch);
	end_policy(0);
	show(false);
	(void)snprintf(words, sizeof words, "policy-%u barrier open label LEADS", (unsigned)epoch);
	expect(words);
	assert_int_equal(status().epoch, epoch);
}

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
	char old_nonce[sizeof nonce];
	memcpy(old_nonce, nonce, sizeof nonce);
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
	expect("stop follow unlabel");
	pass_ms(60);
	assert_string_equal(lease.holder, "");
	gq_leadership_own_pod(leadership, "pod-a", "true", "", false, false);
	gq_leadership_own_pod(leadership, "pod-b", "", "", false, false);
	gq_leadership_own_pod(leadership, "pod-b", "true", "", true, false);
	pass_ms(5000);
	expect("");
	assert_string_equal(lease.holder, "");
	show_successor();
	expect("handed-over");
	show_successor();
	gq_leadership_fenced(leadership, "another wrote");
	gq_leadership_tick(leadership);
	pass_ms(60000);
	expect("");
	assert_string_equal(lease.holder, "");
}

static void no_successor(void **state)
{
	(void)state;
	reach(LEADING);
	flush_at_once = true;
	hand_over();
	expect("ENDS flush stop follow unlabel");
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
		expect("ENDS flush stop follow unlabel");
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
	expect("stop follow unlabel");
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
	expect("ENDS flush stop follow unlabel");
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
	expect("stop follow unlabel handed-over");
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
			if (nonce[0])
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
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(in_order),
	    TEST(another_leads),
	    TEST(the_first_ever),
	    TEST(only_replica),
	    TEST(policy_again),
	    TEST(policy_of_another),
	    TEST(barrier_by_own_pod),
	    TEST(barrier_in_a_list),
	    TEST(no_own_pod),
	    TEST(no_own_pod_at_once),
	    TEST(no_event),
	    TEST(any_list),
	    TEST(first_list_runs),
	    TEST(lease_lost),
	    TEST(lease_taken),
	    TEST(requests_that_fail),
	    TEST(fenced),
	    TEST(fenced_without_a_timer),
	    TEST(earlier_terms),
	    TEST(overtaken_questions),
	    TEST(hands_over),
	    TEST(no_successor),
	    TEST(release_takes_long),
	    TEST(flush_takes_long),
	    TEST(fenced_while_flushing),
	    TEST(lease_lost_while_flushing),
	    TEST(hands_over_early),
	    TEST(without_timers),
	    TEST(not_started_does_not_tick),
	    TEST(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
