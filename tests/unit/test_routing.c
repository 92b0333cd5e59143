#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/json_filter.h"
#include "controller/routing.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define MS GQ_NS_PER_MS
#define S GQ_NS_PER_S
#define PODS "/api/v1/namespaces/gpuquota-system/pods"
#define LIST PODS "?labelSelector=gpuquota.io%2Fleader%3Dtrue&limit=100"
#define OFF "{\"metadata\":{\"labels\":{\"gpuquota.io/leader\":null}}}"
#define ON "{\"metadata\":{\"labels\":{\"gpuquota.io/leader\":\"true\"}}}"

/* ---- the API client, played by the test ---- */

#define CALLS_MAX 8
#define TIMERS_MAX 64

static struct call {
	char method[8], path[700], body[512];
	const struct gq_json_keep *keep;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} calls[CALLS_MAX]; /* under way */
static size_t n_calls;
static struct {
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[TIMERS_MAX];
static size_t n_timers;
static int start_code, after_code;
static struct app_clock app_time;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of calls, while there are threads */
static bool threads;

static struct call *call_new(void)
{
	(void)pthread_mutex_lock(&mutex);
	assert_true(n_calls < CALLS_MAX);
	return &calls[n_calls++];
}

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	void *copy = malloc(1); /* may fail, as the client's own */
	if (!copy)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	free(copy);
	assert_int_equal(request->timeout_ns, 2 * S);
	assert_non_null(request->keep);
	struct call *call = call_new();
	*call =
	    (struct call){.keep = request->keep, .on_done = request->on_done, .arg = request->arg};
	(void)snprintf(call->method, sizeof call->method, "%s", request->method);
	(void)snprintf(call->path, sizeof call->path, "%s", request->path);
	if (request->body) {
		assert_string_equal(request->content_type, "application/merge-patch+json");
		assert_true(request->body_len < sizeof call->body);
		memcpy(call->body, request->body, request->body_len);
	}
	(void)pthread_mutex_unlock(&mutex);
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	(void)api;
	if (threads)
		return 0;
	if (after_code)
		return gq_fail(err, after_code, "the test says so");
	assert_true(n_timers < TIMERS_MAX);
	assert_true(delay_ns >= 0);
	timers[n_timers].due_ns = app_time.mono_ns + delay_ns;
	timers[n_timers].on_due = on_due;
	timers[n_timers++].arg = arg;
	return 0;
}

/* The time goes on; timers are called as they fall due. */
static void pass(int64_t ns)
{
	int64_t end_ns = app_time.mono_ns + ns;

	for (;;) {
		size_t first = n_timers;
		for (size_t i = 0; i < n_timers; i++)
			if (timers[i].due_ns <= end_ns &&
			    (first == n_timers || timers[i].due_ns < timers[first].due_ns))
				first = i;
		if (first == n_timers)
			break;
		void (*on_due)(void *arg) = timers[first].on_due;
		void *arg = timers[first].arg;
		if (timers[first].due_ns > app_time.mono_ns)
			app_time.mono_ns = timers[first].due_ns;
		timers[first] = timers[--n_timers];
		on_due(arg);
	}
	app_time.mono_ns = end_ns;
}

/* The oldest request under way ends. body: with single quotes. */
static void finish(int code, const char *body)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(128u << 10);
	char *json = json_of(code ? "{}" : body);

	(void)pthread_mutex_lock(&mutex);
	assert_true(n_calls > 0);
	struct call call = calls[0];
	memmove(calls, calls + 1, --n_calls * sizeof *calls);
	(void)pthread_mutex_unlock(&mutex);
	int failed = gq_json_prune(json, strlen(json), call.keep, &pruned, NULL);
	free(json);
	if (failed) {
		assert_int_equal(failed, GQ_ENOMEM);
		code = failed;
	}
	call.on_done(call.arg, &(struct gq_api_response){.code = code,
							 .body = code ? "" : pruned.data,
							 .len = code ? 0 : pruned.len,
							 .error = code ? "the test says so" : ""});
}

/* ---- routing ---- */

static struct gq_routing *routing;

static struct gq_routing *make(const char *identity)
{
	return gq_routing_new(&(struct gq_routing_options){
	    .namespace_ = "gpuquota-system", .identity = identity, .clock = &app_time.clock});
}

static int setup(void **state)
{
	(void)state;
	n_calls = n_timers = 0;
	start_code = after_code = 0;
	app_clock_init(&app_time);
	routing = make("pod-a");
	return routing ? 0 : -1;
}

/* The client ends what is under way. */
static int teardown(void **state)
{
	(void)state;
	start_code = after_code = GQ_EINVALID;
	while (n_calls)
		finish(GQ_EIO, NULL);
	gq_routing_free(routing);
	return 0;
}

static void restart(const char *identity)
{
	(void)teardown(NULL);
	(void)setup(NULL);
	gq_routing_free(routing);
	routing = make(identity);
	assert_non_null(routing);
}

/* One request is under way, and this is it. name: of the pod. */
static void expect_patch(const char *name, const char *body)
{
	char path[700];

	(void)snprintf(path, sizeof path, PODS "/%s", name);
	assert_int_equal(n_calls, 1);
	assert_string_equal(calls[0].method, "PATCH");
	assert_string_equal(calls[0].path, path);
	assert_string_equal(calls[0].body, body);
}

static void expect_list(void)
{
	assert_int_equal(n_calls, 1);
	assert_string_equal(calls[0].method, "GET");
	assert_string_equal(calls[0].path, LIST);
	assert_string_equal(calls[0].body, "");
}

static struct gq_routing_status status(void)
{
	struct gq_routing_status now;

	gq_routing_status(routing, &now);
	return now;
}

static void leaves(void **state)
{
	(void)state;
	pass(60 * S);
	assert_int_equal(n_calls, 0);
	gq_routing_leave(routing);
	expect_patch("pod-a", OFF);
	assert_false(status().settled);
	finish(0, "{'metadata':{'name':'pod-a'}}");
	assert_int_equal(n_calls, 0);
	assert_true(status().settled && !status().labelled && !status().no_pod);
	/* a write that was late has set it again */
	pass(30 * S - 1);
	assert_int_equal(n_calls, 0);
	pass(1);
	expect_patch("pod-a", OFF);
}

static void takes(void **state)
{
	(void)state;
	gq_routing_take(routing);
	expect_patch("pod-a", ON);
	finish(0, "{}");
	assert_true(status().labelled && !status().settled);
	expect_list();
	finish(0, "{'kind':'PodList','metadata':{'resourceVersion':'5'},'items':["
		  "{'metadata':{'name':'pod-b','labels':{'gpuquota.io/leader':'true'}}},"
		  "{'metadata':{'name':'pod-a'}},{'metadata':{'name':'../x'}},"
		  "{'metadata':{'name':'pod-c'}}]}");
	expect_patch("pod-b", OFF);
	finish(0, "{}");
	expect_patch("pod-c", OFF);
	finish(GQ_ENOTFOUND, NULL);
	assert_int_equal(n_calls, 0);
	assert_true(status().settled && status().labelled);
	assert_int_equal(status().failures, 0);
	pass(30 * S);
	expect_patch("pod-a", ON);
	finish(0, "{}");
	expect_list();
	finish(0, "{'items':[{'metadata':{'name':'pod-a'}}]}");
	assert_int_equal(n_calls, 0);
	gq_routing_leave(routing);
	expect_patch("pod-a", OFF);
	assert_true(status().labelled);
	finish(0, "{}");
	assert_false(status().labelled);
}

/* No pod of our own: nothing is missing. */
static void no_pod(void **state)
{
	(void)state;
	gq_routing_leave(routing);
	finish(GQ_ENOTFOUND, NULL);
	assert_int_equal(n_calls, 0);
	assert_true(status().settled && status().no_pod);
	gq_routing_take(routing);
	expect_patch("pod-a", ON);
	finish(GQ_ENOTFOUND, NULL);
	finish(0, "{'items':null}");
	assert_int_equal(n_calls, 0);
	assert_true(status().settled && status().no_pod && !status().labelled);
	assert_int_equal(status().failures, 0);
}

/* What can be no pod's name never gets into a path. */
static void identities(void **state)
{
	static const char *const cases[] = {"", "../pod-a", "a/b", "laptop_1", "a?b", "pod a"};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		restart(cases[i]);
		gq_routing_leave(routing);
		assert_int_equal(n_calls, 0);
		assert_true(status().settled && status().no_pod);
		gq_routing_take(routing);
		finish(0, "{'items':[{'metadata':{'name':'pod-b'}}]}");
		expect_patch("pod-b", OFF);
		finish(0, "{}");
		assert_int_equal(n_calls, 0);
		assert_true(status().settled && status().no_pod && !status().labelled);
	}
	assert_null(gq_routing_new(
	    &(struct gq_routing_options){.namespace_ = "../secrets", .identity = "pod-a"}));
}

/* Each failure is followed by another attempt, later and later, until it goes well. */
static void tries_again(void **state)
{
	static const int codes[] = {GQ_EIO,     GQ_EDENIED,   GQ_ETHROTTLED, GQ_EINVALID,
				    GQ_ETOOBIG, GQ_ECONFLICT, GQ_ENOMEM};

	(void)state;
	for (size_t i = 0; i < LEN(codes); i++) {
		int64_t shortest_ns = 100 * MS;
		restart("pod-a");
		gq_routing_leave(routing);
		for (unsigned n = 1; n <= 12; n++) {
			expect_patch("pod-a", OFF);
			finish(codes[i], NULL);
			assert_int_equal(n_calls, 0);
			assert_int_equal(status().failures, n);
			assert_int_equal(status().code, codes[i]);
			pass(shortest_ns - 1);
			assert_int_equal(n_calls, 0);
			pass(5 * S);
			if (shortest_ns < 3200 * MS)
				shortest_ns *= 2;
		}
		assert_false(status().settled);
		finish(0, "{}");
		assert_true(status().settled);
	}
}

/* A pod that does not give the label up is tried on; ours has it meanwhile. */
static void stubborn(void **state)
{
	static const char list[] =
	    "{'items':[{'metadata':{'name':'pod-b'}},{'metadata':{'name':'pod-c'}}]}";

	(void)state;
	gq_routing_take(routing);
	for (int i = 0; i < 3; i++) {
		expect_patch("pod-a", ON);
		finish(0, "{}");
		expect_list();
		finish(0, list);
		expect_patch("pod-b", OFF);
		finish(GQ_EDENIED, NULL);
		expect_patch("pod-c", OFF);
		finish(0, "{}");
		assert_int_equal(n_calls, 0);
		assert_true(status().labelled && !status().settled);
		pass(5 * S);
	}
	finish(0, "{}");
	expect_list();
	finish(0, "{'items':[]}");
	assert_true(status().labelled && status().settled);
	assert_int_equal(status().failures, 3);
}

/* What is asked to rest changes nothing, neither by what is under way nor later. */
static void rests(void **state)
{
	(void)state;
	for (int done = 0; done <= 3; done++) {
		restart("pod-a");
		gq_routing_take(routing);
		for (int i = 0; i < done; i++)
			finish(0, i == 1 ? "{'items':[{'metadata':{'name':'pod-b'}}]}" : "{}");
		assert_int_equal(n_calls, done < 3);
		gq_routing_rest(routing);
		if (n_calls)
			finish(done == 1 ? 0 : GQ_EIO, "{'items':[{'metadata':{'name':'pod-b'}}]}");
		pass(90 * S);
		assert_int_equal(n_calls, 0);
		gq_routing_leave(routing);
		expect_patch("pod-a", OFF);
		finish(0, "{}");
		assert_true(status().settled && !status().labelled);
	}
}

/* Lists that can't be had, or are no lists, or go on. */
static void bad_lists(void **state)
{
	static const struct {
		int code;
		const char *body;
	} cases[] = {
	    {GQ_EDENIED, NULL},
	    {GQ_EIO, NULL},
	    {GQ_ENOTFOUND, NULL},
	    {0, "{'items':7}"},
	    {0, "{'items':[7]}"},
	    {0, "{'items':[{'metadata':7}]}"},
	    {0, "{'items':[{'metadata':{'name':7}}]}"},
	    {0, "{'metadata':{'continue':['x']},'items':[]}"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		restart("pod-a");
		gq_routing_take(routing);
		for (int n = 0; n < 3; n++) {
			expect_patch("pod-a", ON);
			finish(0, "{}");
			expect_list();
			finish(cases[i].code, cases[i].body);
			assert_int_equal(n_calls, 0);
			assert_true(status().labelled && !status().settled);
			pass(5 * S);
		}
		expect_patch("pod-a", ON);
	}
	restart("pod-a");
	gq_routing_take(routing);
	finish(0, "{}");
	finish(0, "{'metadata':{'continue':'x'},'items':[{'metadata':{'name':'pod-b'}}]}");
	finish(0, "{}");
	assert_int_equal(n_calls, 0);
	assert_true(status().labelled && !status().settled);
	pass(5 * S);
	expect_patch("pod-a", ON);
}

/* Whatever is under way, what was asked for last is what remains; one request at a time. */
static void supersedes(void **state)
{
	(void)state;
	for (int step = 0; step < 3; step++) {
		for (int code = 0; code >= GQ_EIO; code += GQ_EIO) {
			restart("pod-a");
			gq_routing_take(routing);
			if (step > 0)
				finish(0, "{}");
			if (step > 1)
				finish(0, "{'items':[{'metadata':{'name':'pod-b'}}]}");
			gq_routing_leave(routing);
			assert_int_equal(n_calls, 1);
			finish(code, "{'items':[{'metadata':{'name':'pod-c'}}]}");
			expect_patch("pod-a", OFF);
			finish(0, "{}");
			assert_true(status().settled && !status().labelled);
			assert_int_equal(n_calls, 0);
			pass(29 * S);
			assert_int_equal(n_calls, 0);
		}
	}
	/* there and back while one request is under way */
	restart("pod-a");
	gq_routing_leave(routing);
	gq_routing_take(routing);
	gq_routing_leave(routing);
	gq_routing_take(routing);
	expect_patch("pod-a", OFF);
	finish(0, "{}");
	expect_patch("pod-a", ON);
	/* while it waits for another attempt: at once, and the old timer means nothing */
	finish(GQ_EIO, NULL);
	assert_int_equal(n_calls, 0);
	gq_routing_leave(routing);
	expect_patch("pod-a", OFF);
	pass(10 * S);
	expect_patch("pod-a", OFF);
	finish(0, "{}");
	pass(29 * S);
	assert_int_equal(n_calls, 0);
}

/* What one call waits for after failures, the next does not. */
static void starts_anew(void **state)
{
	(void)state;
	gq_routing_leave(routing);
	for (int i = 0; i < 8; i++) {
		finish(GQ_EIO, NULL);
		pass(5 * S);
	}
	finish(GQ_EIO, NULL);
	gq_routing_take(routing);
	expect_patch("pod-a", ON);
	finish(GQ_EIO, NULL);
	assert_int_equal(n_calls, 0);
	pass(200 * MS);
	expect_patch("pod-a", ON);
}

/* Requests or timers that can't be had. */
static void cannot_start(void **state)
{
	(void)state;
	start_code = GQ_ENOMEM;
	gq_routing_take(routing);
	assert_int_equal(n_calls, 0);
	assert_int_equal(status().code, GQ_ENOMEM);
	start_code = 0;
	pass(S);
	expect_patch("pod-a", ON);
	after_code = GQ_ENOMEM;
	finish(GQ_EIO, NULL);
	assert_int_equal(n_timers, 0);
	pass(5 * S);
	assert_int_equal(n_calls, 0);
	gq_routing_tick(routing);
	expect_patch("pod-a", ON);
	gq_routing_tick(routing);
	expect_patch("pod-a", ON);
}

/* ---- the barrier ---- */

static int barrier_code;
static unsigned barriers;

static void on_barrier(void *arg, int code)
{
	assert_ptr_equal(arg, &barrier_code);
	barrier_code = code;
	barriers++;
}

static void barrier(void **state)
{
	static const int codes[] = {0, GQ_ENOTFOUND, GQ_EIO, GQ_EDENIED, GQ_ECONFLICT};

	(void)state;
	barriers = 0;
	for (size_t i = 0; i < LEN(codes); i++) {
		gq_routing_barrier(routing, "7.\"x\"", on_barrier, &barrier_code);
		expect_patch("pod-a", "{\"metadata\":{\"annotations\":{\"gpuquota.io/barrier\":"
				      "\"7.\\\"x\\\"\"}}}");
		assert_int_equal(barriers, i);
		finish(codes[i], "{}");
		assert_int_equal(barriers, i + 1);
		assert_int_equal(barrier_code, codes[i]);
		pass(10 * S);
		assert_int_equal(n_calls, 0);
	}
	/* beside what is done with the label */
	gq_routing_leave(routing);
	gq_routing_barrier(routing, "8", on_barrier, &barrier_code);
	assert_int_equal(n_calls, 2);
	finish(0, "{}");
	finish(0, "{}");
	assert_int_equal(barrier_code, 0);

	start_code = GQ_ENOMEM;
	gq_routing_barrier(routing, "9", on_barrier, &barrier_code);
	assert_int_equal(barrier_code, GQ_ENOMEM);
	restart("no pod");
	gq_routing_barrier(routing, "9", on_barrier, &barrier_code);
	assert_int_equal(barrier_code, GQ_ENOTFOUND);
	assert_int_equal(n_calls, 0);
	assert_int_equal(barriers, LEN(codes) + 3);
}

/* Out of memory at any point: what is asked for comes about later, and done is called. */
static void out_of_memory(void **state)
{
	bool failed = true;

	(void)state;
	barriers = 0;
	for (long nth = 0; failed; nth++) {
		(void)teardown(NULL);
		start_code = after_code = 0;
		n_timers = 0;
		fail_alloc(nth);
		routing = make("pod-a");
		if (!routing) {
			assert_true(fail_alloc_done());
			continue;
		}
		gq_routing_take(routing);
		for (int i = 0; i < 40 && !status().settled; i++) {
			if (!n_calls)
				pass(5 * S);
			else if (strcmp(calls[0].method, "GET") == 0)
				finish(0, "{'items':[{'metadata':{'name':'pod-b'}}]}");
			else
				finish(0, "{}");
		}
		assert_true(status().settled && status().labelled);
		unsigned before = barriers;
		gq_routing_barrier(routing, "1", on_barrier, &barrier_code);
		if (n_calls)
			finish(0, "{}");
		assert_int_equal(barriers, before + 1);
		failed = fail_alloc_done();
		assert_true(barrier_code == 0 || (failed && barrier_code == GQ_ENOMEM));
	}
}

/* Asked from several threads at once: one request at a time, and in the end what was asked last. */
static void *asks(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		if ((i + *(int *)arg) % 2)
			gq_routing_take(routing);
		else
			gq_routing_leave(routing);
	}
	return NULL;
}

static size_t under_way(void)
{
	(void)pthread_mutex_lock(&mutex);
	size_t n = n_calls;
	(void)pthread_mutex_unlock(&mutex);
	assert_in_range(n, 0, 1);
	return n;
}

static void any_thread(void **state)
{
	pthread_t askers[2];
	int which[2] = {0, 1};

	(void)state;
	threads = true;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&askers[i], NULL, asks, &which[i]), 0);
	for (int i = 0; i < 3000; i++)
		if (under_way())
			finish(i % 7 ? 0 : GQ_EIO, "{'items':[{'metadata':{'name':'pod-b'}}]}");
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(askers[i], NULL), 0);
	gq_routing_take(routing);
	while (under_way())
		finish(0, "{}");
	assert_true(status().settled && status().labelled);
	threads = false;
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(leaves),        TEST(takes),        TEST(no_pod),    TEST(identities),
	    TEST(tries_again),   TEST(stubborn),     TEST(bad_lists), TEST(supersedes),
	    TEST(starts_anew),   TEST(cannot_start), TEST(barrier),   TEST(any_thread),
	    TEST(out_of_memory), TEST(rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
