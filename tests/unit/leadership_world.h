#ifndef GQ_TESTS_UNIT_LEADERSHIP_WORLD_H
#define GQ_TESTS_UNIT_LEADERSHIP_WORLD_H

/* One replica on its way to leading and back. The election is the real one, against a Lease of the
 * test; the journal and the routing are played. Include after <cmocka.h>, in one file of a test. */

#include <pthread.h>

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
static bool may_lead; /* while a lost journal is waited out */

static inline void tell(const char *word, bool leads)
{
	size_t len = strlen(story);

	/* and it answers requests only where it should */
	if (leadership && gq_leadership_leads(leadership) != leads)
		fail_msg("%s%s while it leads: %d", story, word, !leads);
	(void)snprintf(story + len, sizeof story - len, "%s%s", len ? " " : "", word);
}

/* ---- the API client, with a Lease behind it ---- */

/* Guards the timers and the time, while several threads are in play. */
static pthread_mutex_t played = PTHREAD_MUTEX_INITIALIZER;
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
	assert_true(delay_ns >= 0);
	pthread_mutex_lock(&played);
	bool room = n_timers < LEN(timers);
	if (room) {
		timers[n_timers].due_ns = app_time.mono_ns + delay_ns;
		timers[n_timers].on_due = on_due;
		timers[n_timers++].arg = arg;
	}
	pthread_mutex_unlock(&played);
	return room ? 0 : gq_fail(err, GQ_ETOOBIG, "too many timers");
}

/* What a write of the Lease makes of it. */
static inline void write_lease(void)
{
	struct json_object *root = json_parse(call.body, strlen(call.body));

	(void)snprintf(lease.holder, sizeof lease.holder, "%s",
		       json_text(root, "spec.holderIdentity"));
	lease.version++;
	json_object_put(root);
}

static inline void answer(void)
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
static inline bool step(void)
{
	void (*on_due)(void *arg) = NULL;
	void *arg = NULL;

	pthread_mutex_lock(&played);
	for (size_t i = 0; i < n_timers && !on_due; i++) {
		if (timers[i].due_ns > app_time.mono_ns)
			continue;
		on_due = timers[i].on_due;
		arg = timers[i].arg;
		timers[i] = timers[--n_timers];
	}
	pthread_mutex_unlock(&played);
	if (on_due) {
		on_due(arg);
		return true;
	}
	if (!call.runs || lease.silent)
		return false;
	answer();
	return true;
}

static inline void settle(void)
{
	for (unsigned i = 0; step(); i++)
		if (i == 1000)
			fail_msg("it does not come to rest: %s", story);
}

static inline void pass_ms(int64_t ms)
{
	settle();
	for (int64_t end_ns = app_time.mono_ns + ms * MS; app_time.mono_ns < end_ns;) {
		pthread_mutex_lock(&played);
		app_time.mono_ns += 10 * MS;
		pthread_mutex_unlock(&played);
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

void gq_journal_tick(struct gq_journal *journal)
{
	(void)journal;
}

void gq_journal_release(struct gq_journal *journal)
{
	(void)journal;
	tell("release", true);
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
static char awaited[320];
static int barrier_code; /* 1: answered later */

/* Our own pod, as we left it last. */
static bool labelled;

void gq_routing_leave(struct gq_routing *routing)
{
	labelled = false;
	(void)routing;
	tell("unlabel", false);
}

void gq_routing_rest(struct gq_routing *routing)
{
	(void)routing;
	tell("rest", false);
}

void gq_routing_take(struct gq_routing *routing)
{
	(void)routing;
	labelled = true;
	tell("label", true);
}

void gq_routing_barrier(struct gq_routing *routing, const char *nonce,
			void (*done)(void *arg, int code), void *arg)
{
	(void)routing;
	tell("barrier", may_lead);
	assert_string_not_equal(nonce, awaited);
	assert_in_range(strlen(nonce), 1, sizeof awaited - 1);
	(void)snprintf(awaited, sizeof awaited, "%s", nonce);
	if (barrier_code <= 0) {
		done(arg, barrier_code);
		return;
	}
	assert_true(n_barriers < LEN(barriers));
	barriers[n_barriers].done = done;
	barriers[n_barriers++].arg = arg;
}

static inline void end_barrier(int code)
{
	assert_true(n_barriers > 0);
	n_barriers--;
	barriers[n_barriers].done(barriers[n_barriers].arg, code);
}

/* ---- the callbacks ---- */

static void (*policy_done)(void *arg, int code);
static void *policy_arg;
static bool first;

static inline void lead_policy(void *arg, uint64_t epoch, void (*done)(void *done_arg, int code),
			       void *done_arg)
{
	char word[32];

	assert_ptr_equal(arg, &app_time);
	(void)snprintf(word, sizeof word, "policy-%u", (unsigned)epoch);
	tell(word, false);
	policy_done = done;
	policy_arg = done_arg;
}

static inline void follow_policy(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	tell("follow", false);
}

static inline bool first_ever(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	return first;
}

static inline void relist(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	tell("relist", may_lead);
}

static const char *reason;

static inline void on_change(void *arg, bool leads, const char *why)
{
	assert_ptr_equal(arg, &app_time);
	tell(leads ? "LEADS" : "ENDS", leads);
	reason = why;
}

static inline void handed_over(void *arg)
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

static inline void listed(int64_t begun_ns)
{
	gq_leadership_pods_listed(leadership, begun_ns);
	settle();
}

static inline int make(bool elect)
{
	struct gq_err err;

	n_timers = 0;
	after_code = start_code = 0;
	call.runs = false;
	memset(&lease, 0, sizeof lease);
	flush_at_once = first = may_lead = false;
	barrier_code = 1;
	labelled = false;
	awaited[0] = story[0] = '\0';
	app_clock_init(&app_time);
	options.elect = elect;
	leadership = NULL;
	return gq_leadership_new(&options, &leadership, &err);
}

static inline int setup(void **state)
{
	(void)state;
	int code = make(true);
	if (!code)
		listed(START_NS);
	app_time.mono_ns += S;
	return code;
}

/* The client ends: it answers what still runs. */
static inline int teardown(void **state)
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

static inline void restart(void)
{
	(void)teardown(NULL);
	assert_int_equal(setup(NULL), 0);
}

/* What has happened since the last call, and nothing else. */
static inline void expect(const char *words)
{
	assert_string_equal(story, words);
	story[0] = '\0';
}

static inline struct gq_leadership_status status(void)
{
	struct gq_leadership_status now;

	gq_leadership_status(leadership, &now);
	assert_int_equal(now.leads, gq_leadership_leads(leadership));
	return now;
}

static inline void end_journal(uint64_t epoch)
{
	journal_done(journal_arg, epoch);
	settle();
}

static inline void end_policy(int code)
{
	policy_done(policy_arg, code);
	settle();
}

/* The watch shows our pod as the barrier has left it. */
static inline void show(bool in_list)
{
	gq_leadership_own_pod(leadership, "pod-a", labelled ? "true" : "", awaited, false, in_list);
	settle();
}

static inline void show_successor(void)
{
	gq_leadership_own_pod(leadership, "pod-b", "true", "", false, false);
	settle();
}

enum stage { FOLLOWING, JOURNAL, POLICY, BARRIER, LEADING, STAGES };

/* From the beginning to a stage; the story begins there. */
static inline void reach(enum stage stage)
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

static const char *const ends[STAGES] = {"", "stop follow unlabel", "stop follow unlabel",
					 "stop follow unlabel", "stop follow unlabel ENDS"};

static inline void take_over_again(uint64_t epoch)
{
	char words[128];

	expect("journal");
	end_journal(epoch);
	end_policy(0);
	(void)snprintf(words, sizeof words, "policy-%u barrier", (unsigned)epoch);
	expect(words); /* whatever was seen in an earlier term */
	show(false);
	expect("open label LEADS");
	assert_int_equal(status().epoch, epoch);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
