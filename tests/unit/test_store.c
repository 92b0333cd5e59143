#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/store.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

/* ---- the API client, played by the test ---- */

#define CALLS_MAX 256

static struct {
	char path[700];
	const struct gq_json_keep *keep;
	int64_t timeout_ns;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} calls[CALLS_MAX];
static size_t n_calls;
static int start_code;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	assert_true(n_calls < CALLS_MAX);
	assert_string_equal(request->method, "GET");
	assert_true(request->timeout_ns > 0);
	assert_null(request->body);
	(void)snprintf(calls[n_calls].path, sizeof calls[0].path, "%s", request->path);
	calls[n_calls].keep = request->keep;
	calls[n_calls].timeout_ns = request->timeout_ns;
	calls[n_calls].on_done = request->on_done;
	calls[n_calls++].arg = request->arg;
	return 0;
}

/* The response's bytes go when the callback returns, as the client's do. */
static void finish(size_t i, int code, const char *body)
{
	char *copy = strdup(code ? "" : body);

	assert_non_null(copy);
	calls[i].on_done(calls[i].arg,
			 &(struct gq_api_response){.code = code,
						   .status = code == GQ_ENOTFOUND ? 404
							     : code               ? 500
										  : 200,
						   .body = copy,
						   .len = strlen(copy),
						   .error = code ? "the test says so" : ""});
	memset(copy, 'x', strlen(copy));
	free(copy);
}

/* ---- a store with a ledger ---- */

static struct app_clock app_time;
static struct gq_ledger *ledger;
static struct gq_store *store;

static int setup(void **state)
{
	(void)state;
	n_calls = 0;
	start_code = 0;
	app_clock_init(&app_time);
	ledger =
	    app_ledger(APP_POLICY_HEAD "tenants:\n  - name: team-a\n    namespaces: [a-train]\n"
				       "    quota: {A100: {gpus: 1000}}\n");
	store = gq_store_new(ledger, NULL, &app_time.clock);
	return store ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_store_free(store);
	gq_ledger_free(ledger);
	return 0;
}

static void pass_s(double seconds)
{
	app_time.mono_ns += (int64_t)(seconds * 1e9);
}

static void print_pod(struct gq_buf *out, const char *name, const char *uid)
{
	gq_buf_printf(out,
		      "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"%s\",\"uid\":\"%s\","
		      "\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"j\",\"uid\":\"o-%s\","
		      "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"c\","
		      "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}",
		      name, uid, uid);
}

/* A reservation of one GPU, as an admission makes it. */
static void reserve(const char *name, const char *uid)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	struct gq_pod *pod = NULL;
	struct gq_err err = {0};

	print_pod(&json, name, uid);
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
	assert_true(verdict.ticket != 0);
	gq_ledger_commit(ledger, verdict.ticket, app_time.mono_ns);
	gq_pod_unref(pod);
}

static void reserve_many(int n)
{
	for (int i = 0; i < n; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "p%d", i);
		reserve(name, name);
	}
}

static int reserved(void)
{
	return app_held(ledger, "team-a", GQ_STATE_RESERVED);
}

/* A reservation that was never committed is never asked about, however old. */
static void commits(void **state)
{
	(void)state;
	reserve("p", "u");
	assert_int_equal(reserved(), 1);
	pass_s(1.9);
	gq_store_probe(store);
	assert_int_equal(n_calls, 0);
	pass_s(0.2);
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	assert_string_equal(calls[0].path, "/api/v1/namespaces/a-train/pods/p");
	assert_ptr_equal(calls[0].keep, gq_pod_keep);
	/* not twice at a time */
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	finish(0, GQ_EIO, NULL);
}

/* ---- how reservations end ---- */

/* No such pod: that frees the GPU only when it was asked after the time to live. */
static void absent(void **state)
{
	(void)state;
	reserve("p", "u");
	pass_s(3);
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	finish(0, GQ_ENOTFOUND, NULL);
	assert_int_equal(reserved(), 1);
	pass_s(56.9);
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	pass_s(0.2);
	gq_store_probe(store);
	assert_int_equal(n_calls, 2);
	assert_int_equal(reserved(), 1);
	finish(1, GQ_ENOTFOUND, NULL);
	assert_int_equal(reserved(), 0);
}

/* A question that was begun before the end of the time to live and answered after it. */
static void absent_too_early(void **state)
{
	(void)state;
	reserve("p", "u");
	pass_s(59);
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	pass_s(5);
	finish(0, GQ_ENOTFOUND, NULL);
	assert_int_equal(reserved(), 1);
	gq_store_probe(store);
	assert_int_equal(n_calls, 2);
	finish(1, GQ_ENOTFOUND, NULL);
	assert_int_equal(reserved(), 0);
}

/* What the API server has in the pod's place, long after its time to live. */
static void answers(void **state)
{
	static const struct {
		int code;
		const char *uid; /* of the pod that is there; NULL: body or none */
		const char *body;
		int reserved, pending;
	} cases[] = {
	    {GQ_ENOTFOUND, NULL, NULL, 0, 0},
	    {0, "u", NULL, 0, 1},
	    {0, "another", NULL, 0, 0},
	    /* whatever tells nothing frees nothing */
	    {0, "", NULL, 1, 0},
	    {0, NULL, "{}", 1, 0},
	    {0, NULL, "", 1, 0},
	    {0, NULL, "{\"metadata\":{\"name\":\"p\"}}", 1, 0},
	    {0, NULL, "[]", 1, 0},
	    {GQ_EIO, NULL, NULL, 1, 0},
	    {GQ_EDENIED, NULL, NULL, 1, 0},
	    {GQ_ETHROTTLED, NULL, NULL, 1, 0},
	    {GQ_EGONE, NULL, NULL, 1, 0},
	    {GQ_EINVALID, NULL, NULL, 1, 0},
	    {GQ_ETOOBIG, NULL, NULL, 1, 0},
	    {GQ_ENOMEM, NULL, NULL, 1, 0},
	};

	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		teardown(state);
		setup(state);
		reserve("p", "u");
		pass_s(100);
		gq_store_probe(store);
		assert_int_equal(n_calls, 1);
		if (cases[i].uid)
			print_pod(&json, "p", cases[i].uid);
		finish(0, cases[i].code, cases[i].uid ? json.data : cases[i].body);
		print_message("case %zu\n", i);
		assert_int_equal(reserved(), cases[i].reserved);
		assert_int_equal(app_held(ledger, "team-a", GQ_STATE_PENDING), cases[i].pending);
		/* what stays is asked about again, a second later */
		gq_store_probe(store);
		assert_int_equal(n_calls, 1);
		pass_s(1.1);
		gq_store_probe(store);
		assert_int_equal(n_calls, cases[i].reserved ? 2 : 1);
		if (n_calls == 2)
			finish(1, GQ_EIO, NULL);
	}
}

static void cannot_ask(void **state)
{
	static const int codes[] = {GQ_ENOMEM, GQ_EINVALID};

	(void)state;
	reserve("p", "u");
	pass_s(100);
	for (size_t i = 0; i < LEN(codes); i++) {
		start_code = codes[i];
		gq_store_probe(store);
		assert_int_equal(n_calls, 0);
		assert_int_equal(reserved(), 1);
		pass_s(1.1);
	}
	start_code = 0;
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	finish(0, GQ_ENOTFOUND, NULL);
	assert_int_equal(reserved(), 0);
}

static void no_memory_to_ask(void **state)
{
	(void)state;
	reserve("p", "u");
	pass_s(100);
	fail_alloc(0);
	gq_store_probe(store);
	assert_true(fail_alloc_done());
	assert_int_equal(n_calls, 0);
	assert_int_equal(reserved(), 1);
	pass_s(1.1);
	gq_store_probe(store);
	assert_int_equal(n_calls, 1);
	finish(0, GQ_EIO, NULL);
}

/* However many are due, 64 questions are under way and no more. */
static void at_most_64(void **state)
{
	(void)state;
	reserve_many(150);
	pass_s(100);
	gq_store_probe(store);
	assert_int_equal(n_calls, 64);
	gq_store_probe(store);
	assert_int_equal(n_calls, 64);
	finish(0, GQ_ENOTFOUND, NULL);
	gq_store_probe(store);
	assert_int_equal(n_calls, 65);
	for (size_t i = 1; i < 21; i++)
		finish(i, GQ_ENOTFOUND, NULL);
	gq_store_probe(store);
	assert_int_equal(n_calls, 85);
	for (size_t i = 21; i < 85; i++)
		finish(i, GQ_ENOTFOUND, NULL);
	gq_store_probe(store);
	assert_int_equal(n_calls, 149);
	for (size_t i = 85; i < 149; i++)
		finish(i, GQ_ENOTFOUND, NULL);
	gq_store_probe(store);
	assert_int_equal(n_calls, 150);
	finish(149, GQ_ENOTFOUND, NULL);
	assert_int_equal(reserved(), 0);
	/* each was asked about once */
	for (size_t i = 0; i < n_calls; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(calls[i].path, calls[k].path);
}

/* An API server that can't be reached does not make the loop spin. */
static void many_that_fail(void **state)
{
	(void)state;
	reserve_many(150);
	pass_s(100);
	start_code = GQ_ENOMEM;
	gq_store_probe(store);
	assert_int_equal(reserved(), 150);
}

/* ---- reads ---- */

static void on_read(void *done_arg)
{
	++*(unsigned *)done_arg;
}

static void read_copies(void **state)
{
	struct gq_read read = {.kind = GQ_READ_NAMESPACE, .keep = gq_namespace_keep};
	unsigned done = 0;

	(void)state;
	(void)snprintf(read.path, sizeof read.path, "/api/v1/namespaces/b-1");
	gq_store_read(store, &read, 7 * GQ_NS_PER_S, on_read, &done);
	assert_int_equal(done, 0);
	assert_int_equal(n_calls, 1);
	assert_string_equal(calls[0].path, "/api/v1/namespaces/b-1");
	assert_ptr_equal(calls[0].keep, gq_namespace_keep);
	assert_true(calls[0].timeout_ns == 7 * GQ_NS_PER_S);
	finish(0, 0, "{\"metadata\":{\"name\":\"b-1\"}}");
	assert_int_equal(done, 1);
	assert_int_equal(read.code, 0);
	assert_string_equal(read.body, "{\"metadata\":{\"name\":\"b-1\"}}");
	assert_int_equal(read.len, strlen(read.body));
	free(read.body);
}

static void read_failures(void **state)
{
	static const int codes[] = {GQ_ENOTFOUND, GQ_EDENIED, GQ_EIO, GQ_ETOOBIG};

	(void)state;
	for (size_t i = 0; i < LEN(codes); i++) {
		struct gq_read read = {.path = "/x"};
		unsigned done = 0;
		gq_store_read(store, &read, GQ_NS_PER_S, on_read, &done);
		finish(i, codes[i], NULL);
		assert_int_equal(done, 1);
		assert_int_equal(read.code, codes[i]);
		assert_null(read.body);
	}
}

/* Of 401 nothing follows about the object: it is no answer like 403. */
static void read_unauthorized(void **state)
{
	struct gq_read read = {.path = "/x"};
	unsigned done = 0;

	(void)state;
	gq_store_read(store, &read, GQ_NS_PER_S, on_read, &done);
	calls[0].on_done(calls[0].arg, &(struct gq_api_response){.code = GQ_EDENIED,
								 .status = 401,
								 .unauthorized = true,
								 .body = "",
								 .error = "the test says so"});
	assert_int_equal(done, 1);
	assert_int_equal(read.code, GQ_EIO);
	assert_null(read.body);
}

static void read_not_begun(void **state)
{
	(void)state;
	for (int which = 0; which < 3; which++) {
		struct gq_read read = {.path = "/x"};
		unsigned done = 0;
		start_code = which == 1 ? GQ_EINVALID : 0;
		fail_alloc(which == 0 ? 0 : which == 2 ? 1 : -1);
		n_calls = 0;
		gq_store_read(store, &read, GQ_NS_PER_S, on_read, &done);
		if (which == 2) {
			/* the body can't be kept */
			calls[0].on_done(calls[0].arg,
					 &(struct gq_api_response){.body = "{}", .len = 2});
		}
		assert_int_equal(fail_alloc_done(), which != 1);
		assert_int_equal(done, 1);
		assert_int_equal(read.code, which == 1 ? GQ_EINVALID : GQ_ENOMEM);
		assert_null(read.body);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(commits),           TEST(absent),
	    TEST(absent_too_early),  TEST(answers),
	    TEST(cannot_ask),        TEST(no_memory_to_ask),
	    TEST(at_most_64),        TEST(many_that_fail),
	    TEST(read_copies),       TEST(read_failures),
	    TEST(read_unauthorized), TEST(read_not_begun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
