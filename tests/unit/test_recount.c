#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "controller/recount.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

/* ---- the API client, played by the test ---- */

#define CALLS_MAX 2048

static struct {
	char path[512];
	const struct gq_json_keep *keep;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} calls[CALLS_MAX];
static size_t n_calls;
static int start_code; /* what gq_api_start() fails with, from start_from on */
static size_t start_from;

static struct {
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[CALLS_MAX];
static size_t n_timers, n_fired;
static int after_code;

static struct app_clock app_time;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	if (start_code && n_calls >= start_from)
		return gq_fail(err, start_code, "the test says so");
	assert_true(n_calls < CALLS_MAX);
	assert_string_equal(request->method, "GET");
	assert_true(request->timeout_ns > 0);
	assert_null(request->body);
	(void)snprintf(calls[n_calls].path, sizeof calls[0].path, "%s", request->path);
	calls[n_calls].keep = request->keep;
	calls[n_calls].on_done = request->on_done;
	calls[n_calls++].arg = request->arg;
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	(void)api;
	if (after_code)
		return gq_fail(err, after_code, "the test says so");
	assert_true(n_timers < CALLS_MAX && delay_ns >= 0);
	timers[n_timers].due_ns = app_time.mono_ns + delay_ns;
	timers[n_timers].on_due = on_due;
	timers[n_timers++].arg = arg;
	return 0;
}

/* The answer to a request, pruned as the client does it. The bytes go when the callback returns. */
static void finish(size_t i, int code, const char *body)
{
	struct gq_buf kept = GQ_BUF_INIT(16u << 20);

	assert_true(i < n_calls);
	if (!code && gq_json_prune(body, strlen(body), calls[i].keep, &kept, NULL))
		gq_buf_puts(&kept, body);
	calls[i].on_done(calls[i].arg,
			 &(struct gq_api_response){.code = code,
						   .body = kept.len ? kept.data : "",
						   .len = kept.len,
						   .error = code ? "the test says so" : ""});
	if (kept.len)
		memset(kept.data, 'x', kept.len);
	gq_buf_done(&kept);
}

static void pass_s(double seconds)
{
	app_time.mono_ns += (int64_t)(seconds * 1e9);
	for (size_t i = n_fired; i < n_timers && timers[i].due_ns <= app_time.mono_ns; i++) {
		n_fired++;
		timers[i].on_due(timers[i].arg);
	}
}

/* ---- the end of a recount, on whatever thread ---- */

static pthread_mutex_t done_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER;
static unsigned n_done;
static struct gq_recount_result last; /* without what it points to */
static char missed[512], drift[512];  /* pods, with ' ' between them */
static struct gq_recounter *recounter;
static bool started_within;

static void print_pods(char text[512], const struct gq_drift *from)
{
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < from->n_pods && len < 400; i++)
		len += (size_t)snprintf(text + len, 512 - len, "%s%s", i ? " " : "", from->pods[i]);
}

static void on_done(void *arg, const struct gq_recount_result *result)
{
	bool again = gq_recounter_start(recounter, false, on_done, arg);

	pthread_mutex_lock(&done_mutex);
	started_within = again;
	last = *result;
	print_pods(missed, &result->missed);
	print_pods(drift, &result->drift);
	++*(unsigned *)arg;
	pthread_cond_signal(&done_cond);
	pthread_mutex_unlock(&done_mutex);
}

static void wait_done(unsigned n)
{
	pthread_mutex_lock(&done_mutex);
	while (n_done < n)
		pthread_cond_wait(&done_cond, &done_mutex);
	pthread_mutex_unlock(&done_mutex);
	assert_int_equal(n_done, n);
	assert_false(started_within);
}

/* It is free for the next one a moment after its end was told. */
static void start(bool list)
{
	while (!gq_recounter_start(recounter, list, on_done, &n_done))
		sched_yield();
}

/* ---- a recounter with a ledger ---- */

static struct gq_ledger *ledger;
static unsigned relists;

static void on_relist(void *arg)
{
	++*(unsigned *)arg;
}

static int setup(void **state)
{
	(void)state;
	n_calls = n_timers = n_fired = n_done = relists = 0;
	start_code = after_code = 0;
	start_from = 0;
	app_clock_init(&app_time);
	ledger =
	    app_ledger(APP_POLICY_HEAD "tenants:\n  - name: team-a\n    namespaces: [a-train]\n"
				       "    quota: {A100: {gpus: 1000}}\n");
	recounter = gq_recounter_new(&(struct gq_recounter_options){
	    .ledger = ledger, .clock = &app_time.clock, .relist = on_relist, .arg = &relists});
	return recounter ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_recounter_free(recounter);
	gq_ledger_free(ledger);
	return 0;
}

/* ---- pods ---- */

/* One GPU on a1. */
static void print_pod(struct gq_buf *out, const char *name, const char *uid, const char *extra)
{
	gq_buf_printf(out,
		      "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"%s\",\"uid\":\"%s\","
		      "\"managedFields\":[1]},\"spec\":{%s\"nodeName\":\"a1\",\"containers\":[{"
		      "\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}",
		      name, uid, extra);
}

static void seen(const char *name, const char *uid)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_pod *pod = NULL;
	struct gq_err err = {0};

	print_pod(&json, name, uid, "");
	if (gq_pod_decode(json.data, json.len, NULL, &pod, &err) ||
	    gq_ledger_pod_seen(ledger, pod, app_time.mono_ns, &err))
		fail_msg("%s", err.msg);
	gq_pod_unref(pod);
}

static void gone(const char *uid)
{
	gq_ledger_pod_gone(ledger, uid, app_time.mono_ns);
}

/* Answers a GET with one pod. */
static void finish_pod(size_t i, const char *name, const char *uid)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	print_pod(&json, name, uid, "");
	finish(i, 0, json.data);
}

/* Answers a list with these pods, whose uids are their names: "p q". */
static void finish_page(size_t i, const char *names, const char *token)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 20);

	gq_buf_printf(&json,
		      "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"5\","
		      "\"continue\":\"%s\"},\"items\":[",
		      token);
	for (const char *at = names; *at;) {
		size_t len = strcspn(at, " ");
		char name[32];
		(void)snprintf(name, sizeof name, "%.*s", (int)len, at);
		print_pod(&json, name, name, "");
		at += len + (at[len] == ' ');
		gq_buf_puts(&json, *at ? "," : "");
	}
	gq_buf_puts(&json, "]}");
	assert_int_equal(json.code, 0);
	finish(i, 0, json.data);
}

static int held(void)
{
	return app_held(ledger, "team-a", GQ_STATE_BOUND);
}

static uint64_t drift_total(void)
{
	struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};

	assert_int_equal(gq_ledger_usage(ledger, START_NS, START_WALL_S, &usage, NULL), 0);
	return usage.tenants[0].limits[0].drift_total;
}

/* ---- tests ---- */

static void counting_only(void **state)
{
	(void)state;
	seen("p", "p");
	for (unsigned i = 1; i < 4; i++) {
		start(false);
		wait_done(i);
		assert_int_equal(n_calls, 0);
		assert_int_equal(last.code, 0);
		assert_false(last.listed);
		assert_int_equal(last.drift.counted, 1);
	}
}

static void all_alike(void **state)
{
	(void)state;
	seen("p", "p");
	seen("q", "q");
	start(true);
	assert_false(gq_recounter_start(recounter, false, on_done, &n_done));
	assert_int_equal(n_calls, 1);
	/* consistent: without a resourceVersion */
	assert_string_equal(calls[0].path, "/api/v1/pods?limit=500");
	finish_page(0, "p q", "");
	wait_done(1);
	assert_int_equal(n_calls, 1);
	assert_int_equal(last.code, 0);
	assert_string_equal(last.problem, "");
	assert_true(last.listed);
	assert_int_equal(last.pods, 2);
	assert_int_equal(last.suspects, 0);
	assert_int_equal(last.drift.counted, 2);
	assert_int_equal(drift_total(), 0);
}

static void pages(void **state)
{
	(void)state;
	seen("p", "p");
	seen("q", "q");
	seen("r", "r");
	start(true);
	finish_page(0, "p", "a+b/c=&%");
	assert_int_equal(n_calls, 2);
	assert_string_equal(calls[1].path, "/api/v1/pods?limit=500&continue=a%2Bb%2Fc%3D%26%25");
	finish_page(1, "", "Az09-._~");
	assert_string_equal(calls[2].path, "/api/v1/pods?limit=500&continue=Az09-._~");
	finish_page(2, "q r", "");
	wait_done(1);
	assert_int_equal(n_calls, 3);
	assert_true(last.listed);
	assert_int_equal(last.pods, 3);
	assert_int_equal(last.suspects, 0);
}

/* The ledger may be ahead of the list, or behind it; a question tells. */
static void churn(void **state)
{
	(void)state;
	seen("deleted", "deleted");
	seen("deleted-late", "deleted-late");
	start(true);
	gone("deleted");
	seen("created", "created");
	finish_page(0, "deleted created-late", "");
	assert_int_equal(n_calls, 4);
	assert_string_equal(calls[1].path, "/api/v1/namespaces/a-train/pods/deleted");
	assert_ptr_equal(calls[1].keep, gq_pod_keep);
	finish(1, GQ_ENOTFOUND, NULL);
	assert_string_equal(calls[2].path, "/api/v1/namespaces/a-train/pods/created-late");
	finish_pod(2, "created-late", "created-late");
	assert_string_equal(calls[3].path, "/api/v1/namespaces/a-train/pods/deleted-late");
	finish(3, GQ_ENOTFOUND, NULL);
	pass_s(1.9);
	seen("created-late", "created-late");
	gone("deleted-late");
	assert_int_equal(held(), 2);
	pass_s(0.2);
	wait_done(1);
	assert_int_equal(last.code, 0);
	assert_int_equal(last.suspects, 3);
	assert_int_equal(last.unanswered + last.removed + last.charged + last.corrected, 0);
	assert_string_equal(missed, "");
	assert_int_equal(held(), 2);
	assert_int_equal(drift_total(), 0);
}

/* Says what is logged besides. free() */
static char *due_with_log(void)
{
	struct app_output output;

	app_output_begin(&output, 2);
	pass_s(2.1);
	wait_done(1);
	return app_output_end(&output);
}

static void a_lost_deletion(void **state)
{
	(void)state;
	seen("p", "p");
	seen("q", "q");
	start(true);
	pass_s(1);
	finish_page(0, "q", "");
	assert_int_equal(n_calls, 2);
	pass_s(1);
	finish(1, GQ_ENOTFOUND, NULL);
	assert_int_equal(held(), 2);
	assert_int_equal(n_timers, 1);
	/* from the beginning of the question */
	assert_true(timers[0].due_ns == START_NS + 3 * GQ_NS_PER_S);
	char *log = due_with_log();
	assert_has(log, "namespace=a-train");
	assert_has(log, "pod=p");
	assert_has(log, "tenant=team-a");
	assert_has(log, "gpus_too_many=1");
	assert_has(log, "pods=a-train/p");
	free(log);
	assert_int_equal(held(), 1);
	assert_int_equal(last.removed, 1);
	assert_int_equal(last.code, 0);
	assert_string_equal(missed, "a-train/p");
	assert_string_equal(drift, "");
	assert_int_equal(drift_total(), 1);
}

static void a_lost_creation(void **state)
{
	(void)state;
	start(true);
	finish_page(0, "p", "");
	finish_pod(1, "p", "p");
	assert_int_equal(held(), 0);
	char *log = due_with_log();
	assert_has(log, "pod=p");
	assert_has(log, "gpus_too_many=-1");
	free(log);
	assert_int_equal(held(), 1);
	assert_int_equal(last.charged, 1);
	assert_string_equal(missed, "a-train/p");
	assert_int_equal(drift_total(), 1);
}

/* Deleted and created again under its name, and the watch lost both. */
static void another_uid(void **state)
{
	(void)state;
	seen("p", "before");
	start(true);
	finish_page(0, "p", "");
	assert_int_equal(n_calls, 3);
	finish_pod(1, "p", "p");
	finish_pod(2, "p", "p");
	assert_int_equal(n_timers, 2);
	free(due_with_log());
	assert_int_equal(last.removed, 1);
	assert_int_equal(last.charged, 1);
	assert_int_equal(app_charges(ledger), 1);
	gone("before");
	assert_int_equal(held(), 1);
	gone("p");
	assert_int_equal(held(), 0);
}

/* Its watch is read without what is not understood; so is the list. */
static void not_understood(void **state)
{
	static const char strange[] =
	    "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
	    "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"Of\"}]}]}}"
	    "},";
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	seen("p", "p");
	start(true);
	gq_buf_puts(&json, "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[");
	print_pod(&json, "p", "p", strange);
	gq_buf_puts(&json, ",{\"metadata\":{\"name\":7}},{\"metadata\":{\"namespace\":\"a-train\","
			   "\"name\":\"cpu\",\"uid\":\"c\"},\"spec\":{}}]}");
	finish(0, 0, json.data);
	wait_done(1);
	assert_int_equal(last.code, 0);
	assert_int_equal(last.pods, 1);
	assert_int_equal(last.suspects, 0);
}

static void a_list_that_expires(void **state)
{
	(void)state;
	seen("p", "p");
	start(true);
	finish_page(0, "p", "next");
	finish(1, GQ_EGONE, NULL);
	/* from the beginning, and what was seen before counts no more */
	assert_string_equal(calls[2].path, "/api/v1/pods?limit=500");
	finish_page(2, "", "next");
	finish(3, GQ_EGONE, NULL);
	finish_page(4, "", "");
	assert_string_equal(calls[5].path, "/api/v1/namespaces/a-train/pods/p");
	finish_pod(5, "p", "p");
	wait_done(1);
	assert_true(last.listed);
	assert_int_equal(last.suspects, 1);
	assert_int_equal(last.removed, 0);

	start(true);
	finish(6, GQ_EGONE, NULL);
	finish(7, GQ_EGONE, NULL);
	finish(8, GQ_EGONE, NULL);
	wait_done(2);
	assert_int_equal(n_calls, 9);
	assert_int_equal(last.code, GQ_EGONE);
	assert_false(last.listed);
	assert_int_equal(held(), 1);
}

static void lists_that_fail(void **state)
{
	static const struct {
		int code;
		const char *body;
	} cases[] = {
	    {GQ_EIO, NULL},
	    {GQ_EDENIED, NULL},
	    {GQ_ETHROTTLED, NULL},
	    {GQ_ETOOBIG, NULL},
	    {GQ_ENOTFOUND, NULL},
	    {0, ""},
	    {0, "{"},
	    {0, "[]"},
	    {0, "{\"metadata\":{}}"},
	    {0, "{\"items\":[{\"metadata\":{\"name\":\"q\"}}"},
	};

	(void)state;
	seen("p", "p");
	for (size_t i = 0; i < LEN(cases); i++) {
		n_calls = 0;
		start(true);
		finish_page(0, "missing", "next");
		finish(1, cases[i].code, cases[i].body);
		wait_done((unsigned)i + 1);
		assert_int_equal(n_calls, 2);
		assert_true(last.code != 0);
		assert_true(!cases[i].code || last.code == cases[i].code);
		assert_true(strlen(last.problem) > 0);
		assert_false(last.listed);
		assert_false(last.relist);
		assert_int_equal(last.suspects, 0);
		assert_int_equal(held(), 1);
		/* our own charges are counted all the same */
		assert_int_equal(last.drift.counted, 1);
	}
	start_code = GQ_ENOMEM;
	start(true);
	wait_done(LEN(cases) + 1);
	assert_int_equal(last.code, GQ_ENOMEM);
	start_from = 1;
	n_calls = 0;
	start(true);
	finish_page(0, "p", "next");
	wait_done(LEN(cases) + 2);
	assert_int_equal(last.code, GQ_ENOMEM);
	assert_int_equal(held(), 1);
	assert_int_equal(relists, 0);
}

/* One of which nothing can be said stays as it is; the others are judged. */
static void questions_that_fail(void **state)
{
	static const struct {
		int code;
		const char *body;
	} cases[] = {
	    {GQ_EIO, NULL},
	    {GQ_EDENIED, NULL},
	    {GQ_ETHROTTLED, NULL},
	    {GQ_EGONE, NULL},
	    {GQ_EINVALID, NULL},
	    {GQ_ETOOBIG, NULL},
	    {0, ""},
	    {0, "[]"},
	    {0, "{}"},
	    {0, "{\"metadata\":{\"name\":\"p\"}}"},
	};

	for (size_t i = 0; i < LEN(cases); i++) {
		teardown(state);
		setup(state);
		seen("p", "p");
		seen("q", "q");
		start(true);
		finish_page(0, "", "");
		assert_int_equal(n_calls, 3);
		finish(1, cases[i].code, cases[i].body);
		finish(2, GQ_ENOTFOUND, NULL);
		pass_s(2);
		wait_done(1);
		assert_true(last.code != 0);
		assert_non_null(strstr(last.problem, "a-train/p"));
		assert_true(last.listed);
		assert_int_equal(last.suspects, 2);
		assert_int_equal(last.unanswered, 1);
		assert_int_equal(last.removed, 1);
		assert_string_equal(missed, "a-train/q");
		assert_int_equal(held(), 1);
	}
}

static void questions_not_begun(void **state)
{
	(void)state;
	seen("p", "p");
	seen("q", "q");
	start(true);
	start_code = GQ_ENOMEM;
	finish_page(0, "", "");
	wait_done(1);
	assert_int_equal(last.code, GQ_ENOMEM);
	assert_int_equal(last.unanswered, 2);
	assert_int_equal(held(), 2);
	start_code = 0;
	start(true);
	finish_page(1, "", "");
	after_code = GQ_ENOMEM;
	finish(2, GQ_ENOTFOUND, NULL);
	finish(3, GQ_ENOTFOUND, NULL);
	wait_done(2);
	assert_int_equal(last.code, GQ_ENOMEM);
	assert_int_equal(last.unanswered, 2);
	assert_int_equal(held(), 2);
	assert_int_equal(n_timers, 0);
}

static void see_many(int n)
{
	char name[32];

	for (int i = 0; i < n; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		seen(name, name);
	}
}

/* However many differ: 32 questions at once, and 512 pods under way. */
static void many(void **state)
{
	size_t answered = 0;

	(void)state;
	see_many(1000);
	start(true);
	finish_page(0, "", "");
	assert_int_equal(n_calls, 1 + 32);
	finish(1, GQ_ENOTFOUND, NULL);
	assert_int_equal(n_calls, 1 + 33);
	for (answered = 1; answered + 1 < n_calls; answered++)
		finish(1 + answered, GQ_ENOTFOUND, NULL);
	assert_int_equal(answered, 512);
	assert_int_equal(held(), 1000);
	pass_s(2);
	assert_int_equal(held(), 1000 - 512);
	for (; answered + 1 < n_calls; answered++)
		finish(1 + answered, GQ_ENOTFOUND, NULL);
	assert_int_equal(answered, 1000);
	pass_s(2);
	wait_done(1);
	assert_int_equal(last.removed, 1000);
	assert_int_equal(held(), 0);
	for (size_t i = 1; i < n_calls; i++)
		for (size_t k = 1; k < i; k++)
			assert_string_not_equal(calls[i].path, calls[k].path);
}

static void too_many(void **state)
{
	(void)state;
	see_many(GQ_SUSPECTS_MAX + 1);
	start(true);
	finish_page(0, "", "");
	wait_done(1);
	assert_int_equal(n_calls, 1);
	assert_int_equal(relists, 1);
	assert_true(last.relist);
	assert_int_equal(last.code, GQ_ETOOBIG);
	assert_int_equal(last.suspects, 0);
	assert_int_equal(held(), GQ_SUSPECTS_MAX + 1);
}

/* The client ends while one question waits for its answer and another for the watch. */
static void the_client_ends(void **state)
{
	(void)state;
	seen("p", "p");
	seen("q", "q");
	start(true);
	finish_page(0, "", "");
	finish(1, GQ_ENOTFOUND, NULL);
	start_code = GQ_EIO;
	finish(2, GQ_EIO, NULL);
	assert_int_equal(n_done, 0);
	assert_int_equal(held(), 2);
}

static void without_memory(void **state)
{
	bool failed = true;

	for (long n = 0; failed; n++) {
		teardown(state);
		setup(state);
		seen("p", "p");
		seen("q", "q");
		fail_alloc(n);
		start(true);
		/* what the test itself needs must not fail */
		if (n_calls == 1) {
			static const char page[] =
			    "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[{\"metadata\":{"
			    "\"namespace\":"
			    "\"a-train\",\"name\":\"q\",\"uid\":\"q\"},\"spec\":{\"containers\":[{"
			    "\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/"
			    "gpu\":\"1\"}}}]}}]}";
			calls[0].on_done(calls[0].arg,
					 &(struct gq_api_response){
					     .body = page, .len = strlen(page), .error = ""});
		}
		if (n_calls == 2)
			calls[1].on_done(calls[1].arg,
					 &(struct gq_api_response){
					     .code = GQ_ENOTFOUND, .body = "", .error = ""});
		if (n_timers) /* else it is being finished by now */
			pass_s(2);
		wait_done(1);
		failed = fail_alloc_done();
		assert_true(last.code == 0 || (failed && last.code == GQ_ENOMEM));
		assert_int_equal(held(), last.removed ? 1 : 2);
		assert_true(last.code || last.removed == 1);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(counting_only),
	    TEST(all_alike),
	    TEST(pages),
	    TEST(churn),
	    TEST(a_lost_deletion),
	    TEST(a_lost_creation),
	    TEST(another_uid),
	    TEST(not_understood),
	    TEST(a_list_that_expires),
	    TEST(lists_that_fail),
	    TEST(questions_that_fail),
	    TEST(questions_not_begun),
	    TEST(many),
	    TEST(too_many),
	    TEST(the_client_ends),
	    TEST(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
