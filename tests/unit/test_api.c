#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "apidouble.h"
#include "informer/api.h"

#define LONG_NS (30 * GQ_NS_PER_S)

static const struct gq_json_keep keep_metadata[] = {{"name", NULL}, {NULL, NULL}};
static const struct gq_json_keep keep[] = {{"metadata", keep_metadata}, {NULL, NULL}};

/* What came of a request; the test waits for it. */
struct result {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned calls;
	struct gq_api_response response;
	char body[256];
	char error[256];
	struct gq_api *again; /* a callback starts another request here */
	struct result *then;
	int again_code;
};

static void on_done(void *arg, const struct gq_api_response *response);

static void result_init(struct result *result)
{
	*result = (struct result){0};
	pthread_mutex_init(&result->lock, NULL);
	pthread_cond_init(&result->changed, NULL);
}

static void result_wait(struct result *result)
{
	pthread_mutex_lock(&result->lock);
	while (!result->calls)
		pthread_cond_wait(&result->changed, &result->lock);
	pthread_mutex_unlock(&result->lock);
}

static struct gq_api_request request_of(const char *method, const char *path, struct result *result)
{
	return (struct gq_api_request){.method = method,
				       .path = path,
				       .timeout_ns = LONG_NS,
				       .on_done = on_done,
				       .arg = result};
}

static void on_done(void *arg, const struct gq_api_response *response)
{
	struct result *result = arg;

	pthread_mutex_lock(&result->lock);
	result->calls++;
	result->response = *response;
	(void)snprintf(result->body, sizeof result->body, "%.*s",
		       (int)(response->len < 255 ? response->len : 255), response->body);
	(void)snprintf(result->error, sizeof result->error, "%s", response->error);
	if (result->again) {
		const struct gq_api_request request = request_of("GET", "/again", result->then);
		/* waiting here would wait for ever */
		assert_int_equal(gq_api_call(result->again, &request, NULL, NULL, NULL),
				 GQ_EINVALID);
		result->again_code = gq_api_start(result->again, &request, NULL);
	}
	pthread_cond_broadcast(&result->changed);
	pthread_mutex_unlock(&result->lock);
}

struct fixture {
	struct apidouble *server;
	struct gq_kubeconfig config;
	struct gq_api *api;
	struct result result;
};

static int set_up(void **state)
{
	static char token[] = "t0ken";
	struct fixture *f = calloc(1, sizeof *f);
	struct gq_err err = {0};

	if (!f)
		return -1;
	f->server = apidouble_new(NULL, false);
	f->config.server = (char *)(uintptr_t)apidouble_url(f->server);
	f->config.token = token;
	result_init(&f->result);
	*state = f;
	return gq_api_new(&f->config, "gpuquota/test", &f->api, &err);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	gq_api_free(f->api);
	apidouble_free(f->server);
	free(f);
	return 0;
}

static void start(struct fixture *f, const struct gq_api_request *request)
{
	struct gq_err err = {0};

	result_init(&f->result);
	if (gq_api_start(f->api, request, &err))
		fail_msg("%s", err.msg);
}

static void test_methods_and_bodies(void **state)
{
	static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
	struct fixture *f = *state;

	for (size_t i = 0; i < 5; i++) {
		struct gq_api_request request = request_of(methods[i], "/x?y=z", &f->result);
		char body[] = "{\"a\":1}", type[] = "application/merge-patch+json",
		     path[] = "/x?y=z";
		if (i) {
			request.body = body;
			request.body_len = strlen(body);
			request.content_type = type;
		}
		request.path = path;
		start(f, &request);
		/* all was copied */
		memset(body, '#', sizeof body - 1);
		memset(type, '#', sizeof type - 1);
		memset(path, '#', sizeof path - 1);
		struct apicall *call = apidouble_next(f->server, "/x");
		assert_string_equal(apicall_method(call), methods[i]);
		assert_string_equal(apicall_path(call), "/x?y=z");
		assert_string_equal(apicall_body(call), i ? "{\"a\":1}" : "");
		if (i)
			assert_string_equal(apicall_header(call, "Content-Type", 0),
					    "application/merge-patch+json");
		assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer t0ken");
		assert_string_equal(apicall_header(call, "User-Agent", 0), "gpuquota/test");
		assert_null(apicall_header(call, "Accept-Encoding", 0));
		apicall_answer(call, 201, "", "{\"as\":\"it comes\"}");
		result_wait(&f->result);
		assert_int_equal(f->result.response.code, 0);
		assert_int_equal(f->result.response.status, 201);
		assert_string_equal(f->result.body, "{\"as\":\"it comes\"}");
		assert_string_equal(f->result.error, "");
	}
	assert_int_equal(apidouble_connections(f->server), 1); /* kept alive */
}

static void test_answers(void **state)
{
	static const struct {
		int status;
		const char *headers, *body;
		bool keep;
		int code, retry_after_s;
		const char *error, *got;
	} cases[] = {
	    {200, "", "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},\"spec\":{}}", true, 0, 0, "",
	     "{\"metadata\":{\"name\":\"n\"}}"},
	    {200, "", "not JSON", false, 0, 0, "", "not JSON"},
	    {200, "", "", false, 0, 0, "", ""},
	    {200, "", "{\"metadata\":", true, GQ_EINVALID, 0, NULL, ""},
	    {200, "", "{\"a\":1,}", true, GQ_EINVALID, 0, NULL, ""},
	    {200, "", "", true, GQ_EINVALID, 0, "the answer is empty", ""},
	    {404, "", "{\"kind\":\"Status\",\"message\":\"pods \\\"x\\\" not found\",\"code\":404}",
	     true, GQ_ENOTFOUND, 0, "pods \"x\" not found", ""},
	    {409, "", "{\"kind\":\"Status\",\"message\":\"changed\",\"code\":409}", false,
	     GQ_ECONFLICT, 0, "changed",
	     "{\"kind\":\"Status\",\"message\":\"changed\",\"code\":409}"},
	    {410, "", "", false, GQ_EGONE, 0, "HTTP 410", ""},
	    {401, "", "Unauthorized", false, GQ_EDENIED, 0, "HTTP 401", "Unauthorized"},
	    {403, "", "{}", true, GQ_EDENIED, 0, "HTTP 403", ""},
	    {422, "", "{}", true, GQ_EINVALID, 0, "HTTP 422", ""},
	    {429, "Retry-After: 7\r\n", "", false, GQ_ETHROTTLED, 7, "HTTP 429", ""},
	    {429, "", "{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":9}}",
	     true, GQ_ETHROTTLED, 9, "HTTP 429", ""},
	    {429, "Retry-After: 99999999\r\n", "", false, GQ_ETHROTTLED, 300, "HTTP 429", ""},
	    {500, "", "{\"kind\":\"Status\",\"message\":\"etcd\"}", true, GQ_EIO, 0, "etcd", ""},
	    {503, "Retry-After: 1\r\n", "", true, GQ_EIO, 1, "HTTP 503", ""},
	    {302, "Location: /elsewhere\r\n", "", false, GQ_EIO, 0, "HTTP 302", ""},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_api_request request = request_of("GET", "/x", &f->result);
		request.keep = cases[i].keep ? keep : NULL;
		start(f, &request);
		apicall_answer(apidouble_next(f->server, ""), cases[i].status, cases[i].headers,
			       cases[i].body);
		result_wait(&f->result);
		assert_int_equal(f->result.response.code, cases[i].code);
		assert_int_equal(f->result.response.status, cases[i].status);
		assert_int_equal(f->result.response.retry_after_s, cases[i].retry_after_s);
		assert_string_equal(f->result.body, cases[i].got);
		if (cases[i].error)
			assert_string_equal(f->result.error, cases[i].error);
		else
			assert_true(f->result.error[0]);
	}
	assert_int_equal(apidouble_waiting(f->server), 0); /* nothing was tried twice */
}

/* An answer of n bytes that hold {"metadata":{"name":"xxx…"}}, or the same under a dropped key. */
static void answer_huge(struct apicall *call, const char *head, size_t n)
{
	static char chunk[64 << 10];

	memset(chunk, 'x', sizeof chunk);
	apicall_begin(call, 200, "");
	apicall_send(call, head);
	for (size_t sent = 0; sent < n; sent += sizeof chunk)
		apicall_send_bytes(call, chunk, sizeof chunk);
	apicall_send(call, "\"}}");
	apicall_end(call);
}

static void test_sizes(void **state)
{
	struct fixture *f = *state;
	struct gq_api_request request = request_of("GET", "/x", &f->result);

	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"a\":{\"b\":\"", 3 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, 0);
	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"a\":{\"b\":\"", 5 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_ETOOBIG);
	assert_string_equal(f->result.body, "");
	request.max_bytes = 6 << 20;
	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"a\":{\"b\":\"", 5 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, 0);
	assert_int_equal(f->result.response.len, (5 << 20) + 14);
	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"a\":{\"b\":\"", 7 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_ETOOBIG);

	request.max_bytes = 0;
	request.keep = keep;
	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"metadata\":{\"name\":\"n\"},\"a\":{\"b\":\"",
		    5 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, 0);
	assert_string_equal(f->result.body, "{\"metadata\":{\"name\":\"n\"}}");
	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"metadata\":{\"name\":\"", 5 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_ETOOBIG);
	request.max_bytes = 6 << 20;
	start(f, &request);
	answer_huge(apidouble_next(f->server, ""), "{\"metadata\":{\"name\":\"", 5 << 20);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, 0);
}

static void test_broken_transfers(void **state)
{
	struct fixture *f = *state;
	struct gq_api_request request = request_of("GET", "/x", &f->result);

	for (int how = 0; how < 4; how++) {
		request.keep = how % 2 ? keep : NULL;
		start(f, &request);
		struct apicall *call = apidouble_next(f->server, "");
		if (how >= 2) {
			apicall_begin(call, 200, "");
			apicall_send(call, "{\"metadata\":{\"name\":\"n\"}}");
		}
		apicall_reset(call);
		result_wait(&f->result);
		assert_int_equal(f->result.response.code, GQ_EIO);
		assert_true(f->result.error[0]);
		assert_string_equal(f->result.body, "");
	}
	assert_int_equal(apidouble_waiting(f->server), 0);
}

static void test_nobody_listens(void **state)
{
	struct fixture *f = *state;
	struct gq_api_request request = request_of("GET", "/x", &f->result);

	apidouble_free(f->server);
	f->server = NULL;
	start(f, &request);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_EIO);
	assert_int_equal(f->result.response.status, 0);
}

static void test_timeout(void **state)
{
	struct fixture *f = *state;
	struct gq_api_request request = request_of("GET", "/x", &f->result);

	request.timeout_ns = 50 * GQ_NS_PER_MS;
	start(f, &request);
	struct apicall *call = apidouble_next(f->server, "");
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_EIO);
	assert_memory_equal(f->result.error, "no answer in time", 17);
	apicall_close(call);
}

static void test_no_request_waits_for_another(void **state)
{
	struct fixture *f = *state;
	struct result results[20];
	struct apicall *calls[20];
	char path[32];

	for (size_t i = 0; i < 20; i++) {
		(void)snprintf(path, sizeof path, "/nth/%02zu", i);
		struct gq_api_request request = request_of("GET", path, &results[i]);
		result_init(&results[i]);
		assert_int_equal(gq_api_start(f->api, &request, NULL), 0);
	}
	for (size_t i = 0; i < 20; i++) { /* all of them are with the server */
		(void)snprintf(path, sizeof path, "/nth/%02zu", i);
		calls[i] = apidouble_next(f->server, path);
	}
	for (size_t i = 20; i-- > 0;) {
		apicall_answer(calls[i], 200, "", apicall_path(calls[i]));
		result_wait(&results[i]);
		assert_string_equal(results[i].body, apicall_path(calls[i]));
	}
}

static void test_callbacks_may_start_requests(void **state)
{
	struct fixture *f = *state;
	struct gq_api_request request = request_of("GET", "/first", &f->result);
	struct result second;

	result_init(&second);
	result_init(&f->result);
	f->result.again = f->api;
	f->result.then = &second;
	assert_int_equal(gq_api_start(f->api, &request, NULL), 0);
	apicall_answer(apidouble_next(f->server, "/first"), 200, "", "1");
	apicall_answer(apidouble_next(f->server, "/again"), 200, "", "2");
	result_wait(&second);
	assert_string_equal(second.body, "2");
	assert_int_equal(f->result.again_code, 0);
}

/* gq_api_call() on a thread of its own. */
struct caller {
	struct gq_api *api;
	const struct gq_json_keep *keep;
	struct gq_buf out;
	long status;
	int code;
	struct gq_err err;
	pthread_t thread;
};

static void *call_it(void *arg)
{
	struct caller *caller = arg;
	const struct gq_api_request request = {
	    .method = "GET", .path = "/call", .timeout_ns = LONG_NS, .keep = caller->keep};

	caller->code =
	    gq_api_call(caller->api, &request, &caller->out, &caller->status, &caller->err);
	return NULL;
}

static void test_calls_that_wait(void **state)
{
	struct fixture *f = *state;
	struct caller callers[8];

	for (size_t i = 0; i < 8; i++) {
		callers[i] = (struct caller){.api = f->api, .keep = i % 2 ? keep : NULL};
		callers[i].out = GQ_BUF_INIT(1000);
		gq_buf_puts(&callers[i].out, ">");
		assert_int_equal(pthread_create(&callers[i].thread, NULL, call_it, &callers[i]), 0);
	}
	for (size_t i = 0; i < 8; i++)
		apicall_answer(apidouble_next(f->server, ""), i ? 200 : 404, "",
			       i ? "{\"metadata\":{\"name\":\"n\"}}"
				 : "{\"kind\":\"Status\",\"message\":\"none\"}");
	size_t failed = 0;
	for (size_t i = 0; i < 8; i++) {
		pthread_join(callers[i].thread, NULL);
		if (callers[i].code) {
			failed++;
			assert_int_equal(callers[i].code, GQ_ENOTFOUND);
			assert_int_equal(callers[i].status, 404);
			assert_string_equal(callers[i].err.msg, "none");
		} else {
			assert_int_equal(callers[i].status, 200);
			assert_string_equal(callers[i].out.data,
					    ">{\"metadata\":{\"name\":\"n\"}}");
		}
		gq_buf_done(&callers[i].out);
	}
	assert_int_equal(failed, 1);
}

static void test_free_ends_what_is_outstanding(void **state)
{
	struct fixture *f = *state;
	struct result results[4], never;

	result_init(&never);
	for (size_t i = 0; i < 4; i++) {
		struct gq_api_request request = request_of("GET", "/x", &results[i]);
		result_init(&results[i]);
		if (i == 0) {
			results[i].again = f->api; /* refused by then */
			results[i].then = &never;
		}
		assert_int_equal(gq_api_start(f->api, &request, NULL), 0);
	}
	(void)apidouble_next(f->server, "/x");
	gq_api_free(f->api);
	f->api = NULL;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(results[i].calls, 1);
		assert_int_equal(results[i].response.code, GQ_EIO);
		assert_string_equal(results[i].error, "the API client was stopped");
	}
	assert_int_equal(results[0].again_code, GQ_EINVALID);
	assert_int_equal(never.calls, 0);
	gq_api_free(NULL);
}

/* Timers of a test; what was due is written down by its letter. */
struct ticks {
	struct gq_api *api;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char log[64];
	bool hold; /* on_hold() does not return */
	unsigned n;
};

struct tick {
	struct ticks *all;
	char letter;
};

static void ticks_init(struct ticks *ticks, struct gq_api *api)
{
	*ticks = (struct ticks){.api = api};
	pthread_mutex_init(&ticks->lock, NULL);
	pthread_cond_init(&ticks->changed, NULL);
}

static void on_tick(void *arg)
{
	struct tick *tick = arg;
	struct ticks *all = tick->all;

	pthread_mutex_lock(&all->lock);
	if (all->n < sizeof all->log - 1)
		all->log[all->n] = tick->letter;
	all->n++;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

static void on_hold(void *arg)
{
	struct ticks *all = arg;

	pthread_mutex_lock(&all->lock);
	while (all->hold)
		pthread_cond_wait(&all->changed, &all->lock);
	pthread_mutex_unlock(&all->lock);
}

static void ticks_wait(struct ticks *ticks, unsigned n)
{
	pthread_mutex_lock(&ticks->lock);
	while (ticks->n < n)
		pthread_cond_wait(&ticks->changed, &ticks->lock);
	pthread_mutex_unlock(&ticks->lock);
}

static void hold(struct ticks *ticks)
{
	ticks->hold = true;
	assert_int_equal(gq_api_after(ticks->api, 0, on_hold, ticks, NULL), 0);
}

static void let_go(struct ticks *ticks)
{
	pthread_mutex_lock(&ticks->lock);
	ticks->hold = false;
	pthread_cond_broadcast(&ticks->changed);
	pthread_mutex_unlock(&ticks->lock);
}

static void test_timers_in_order(void **state)
{
	struct fixture *f = *state;
	static const struct {
		char letter;
		int64_t delay_ns;
	} timers[] = {{'d', 30 * GQ_NS_PER_MS}, {'c', 20 * GQ_NS_PER_MS}, {'a', 0},
		      {'e', 40 * GQ_NS_PER_MS}, {'b', 10 * GQ_NS_PER_MS}, {'x', INT64_MAX}};
	struct ticks ticks;
	struct tick each[6];

	ticks_init(&ticks, f->api);
	int64_t before = gq_clock_mono_ns(&gq_clock_real);
	hold(&ticks);
	for (size_t i = 0; i < 6; i++) {
		each[i] = (struct tick){&ticks, timers[i].letter};
		assert_int_equal(gq_api_after(f->api, timers[i].delay_ns, on_tick, &each[i], NULL),
				 0);
	}
	let_go(&ticks);
	ticks_wait(&ticks, 5);
	assert_string_equal(ticks.log, "abcde");
	/* not one of them too soon */
	assert_true(gq_clock_mono_ns(&gq_clock_real) - before >= 40 * GQ_NS_PER_MS);
}

static void test_many_timers(void **state)
{
	struct fixture *f = *state;
	struct ticks ticks;
	struct tick tick = {&ticks, 'x'};
	struct gq_err err = {0};
	unsigned n = 0;

	ticks_init(&ticks, f->api);
	hold(&ticks);
	while (gq_api_after(f->api, 0, on_tick, &tick, &err) == 0)
		n++;
	assert_int_equal(err.code, GQ_ETOOBIG);
	assert_in_range(n, 9999, 10000);
	let_go(&ticks);
	ticks_wait(&ticks, n);
	assert_int_equal(gq_api_after(f->api, -5, on_tick, &tick, NULL), 0);
	ticks_wait(&ticks, n + 1);
}

/* Adds itself anew for ever, and starts a request the first time. */
struct chain {
	struct fixture *f;
	unsigned links;
	int code;
};

static void on_link(void *arg)
{
	struct chain *chain = arg;
	const struct gq_api_request request = request_of("GET", "/link", &chain->f->result);

	if (chain->links++ == 3)
		chain->code = gq_api_start(chain->f->api, &request, NULL);
	assert_int_equal(gq_api_after(chain->f->api, 0, on_link, chain, NULL), 0);
}

static void test_timers_from_callbacks(void **state)
{
	struct fixture *f = *state;
	struct chain chain = {.f = f, .code = 1};

	assert_int_equal(gq_api_after(f->api, 0, on_link, &chain, NULL), 0);
	/* they leave room for requests */
	apicall_answer(apidouble_next(f->server, "/link"), 200, "", "");
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, 0);
	gq_api_free(f->api);
	f->api = NULL;
	assert_int_equal(chain.code, 0);
	assert_true(chain.links > 4);
}

struct adder {
	struct tick tick;
	pthread_t thread;
};

static void *add_timers(void *arg)
{
	struct adder *adder = arg;

	for (int i = 0; i < 100; i++)
		assert_int_equal(gq_api_after(adder->tick.all->api, i % 3 * GQ_NS_PER_MS, on_tick,
					      &adder->tick, NULL),
				 0);
	return NULL;
}

static void test_timers_from_other_threads(void **state)
{
	struct fixture *f = *state;
	struct adder adders[4];
	struct ticks ticks;

	ticks_init(&ticks, f->api);
	for (size_t i = 0; i < 4; i++) {
		adders[i].tick = (struct tick){&ticks, 'x'};
		assert_int_equal(pthread_create(&adders[i].thread, NULL, add_timers, &adders[i]),
				 0);
	}
	for (size_t i = 0; i < 4; i++)
		pthread_join(adders[i].thread, NULL);
	ticks_wait(&ticks, 400);
}

static void on_done_after(void *arg, const struct gq_api_response *response)
{
	struct tick *tick = arg;

	assert_int_equal(response->code, GQ_EIO);
	tick->letter =
	    (char)(gq_api_after(tick->all->api, 0, on_tick, tick, NULL) == GQ_EINVALID ? 'r' : 'w');
}

static void test_free_forgets_timers(void **state)
{
	struct fixture *f = *state;
	struct ticks ticks;
	struct tick tick = {&ticks, 'x'};
	struct gq_api_request request = request_of("GET", "/x", NULL);

	ticks_init(&ticks, f->api);
	request.on_done = on_done_after;
	request.arg = &tick;
	assert_int_equal(gq_api_start(f->api, &request, NULL), 0);
	(void)apidouble_next(f->server, "/x");
	assert_int_equal(gq_api_after(f->api, 3600 * GQ_NS_PER_S, on_tick, &tick, NULL), 0);
	gq_api_free(f->api);
	f->api = NULL;
	assert_int_equal(ticks.n, 0);
	assert_int_equal(tick.letter, 'r');
}

static void test_new_token_after_401(void **state)
{
	struct fixture *f = *state;
	char path[] = "/tmp/gq-api-token-XXXXXX";
	struct gq_api_request request = request_of("GET", "/x", &f->result);

	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "old\n", 4), 4);
	gq_api_free(f->api);
	f->config.token_file = path;
	assert_int_equal(gq_api_new(&f->config, "x", &f->api, NULL), 0);
	start(f, &request);
	struct apicall *call = apidouble_next(f->server, "");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer old");
	apicall_answer(call, 401, "", "");
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_EDENIED);
	assert_true(f->result.response.unauthorized);
	struct gq_credential_state credential;
	gq_credential_state(gq_api_credential(f->api), &credential);
	assert_true(credential.refused);
	assert_string_equal(credential.file, path);
	/* the refused one is not sent again once its file is gone */
	unlink(path);
	start(f, &request);
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_EIO);
	assert_true(f->result.response.unauthorized);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("new", file);
	fclose(file);
	start(f, &request);
	call = apidouble_next(f->server, "");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer new");
	apicall_answer(call, 200, "", "");
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, 0);
	assert_false(f->result.response.unauthorized);
	gq_credential_state(gq_api_credential(f->api), &credential);
	assert_false(credential.refused);
	start(f, &request);
	apicall_answer(apidouble_next(f->server, ""), 403, "", "");
	result_wait(&f->result);
	assert_int_equal(f->result.response.code, GQ_EDENIED);
	assert_false(f->result.response.unauthorized);
	unlink(path);
	close(fd);
}

static void test_requests_that_are_none(void **state)
{
	struct fixture *f = *state;
	const struct gq_api_request good = request_of("GET", "/x", &f->result);
	struct gq_api_request bad[9];

	for (size_t i = 0; i < 9; i++)
		bad[i] = good;
	bad[0].method = "get";
	bad[1].method = NULL;
	bad[2].path = "x";
	bad[3].path = NULL;
	bad[4].path = "/a b";
	bad[5].path = "/a\r\nX: y";
	bad[6].timeout_ns = 0;
	bad[7].on_done = NULL;
	bad[8].body = "{}";
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(gq_api_start(f->api, &bad[i], NULL), GQ_EINVALID);
	assert_int_equal(f->result.calls, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_methods_and_bodies),
	    TEST(test_answers),
	    TEST(test_sizes),
	    TEST(test_broken_transfers),
	    TEST(test_nobody_listens),
	    TEST(test_timeout),
	    TEST(test_no_request_waits_for_another),
	    TEST(test_callbacks_may_start_requests),
	    TEST(test_calls_that_wait),
	    TEST(test_free_ends_what_is_outstanding),
	    TEST(test_timers_in_order),
	    TEST(test_many_timers),
	    TEST(test_timers_from_callbacks),
	    TEST(test_timers_from_other_threads),
	    TEST(test_free_forgets_timers),
	    TEST(test_new_token_after_401),
	    TEST(test_requests_that_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
