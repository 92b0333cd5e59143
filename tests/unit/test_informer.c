#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "apidouble.h"
#include "base/buf.h"
#include "base/clock.h"
#include "informer/informer.h"
#include "informer/informer_internal.h"
#include "reflector_sim.h"

#define S GQ_NS_PER_S

static const struct gq_json_keep keep_metadata[] = {{"name", NULL}, {NULL, NULL}};
static const struct gq_json_keep keep[] = {{"metadata", keep_metadata}, {NULL, NULL}};

/* An informer against the double, with a clock that goes only when the test says so. What the
 * consumer is told is written down in the manner of reflector_sim.h. */
struct fixture {
	struct apidouble *server;
	struct gq_kubeconfig config;
	struct gq_informer_resource resources[2];
	struct gq_informer_options options;
	struct gq_informer *informer;
	struct gq_clock clock;
	_Atomic int64_t now;
	atomic_uint reads;        /* of the clock */
	_Atomic int64_t begun_ns; /* as the last LIST_END told it */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct gq_buf log;
	struct gq_buf problem;
	size_t n_problems;
	bool busy; /* events since the last IDLE */
};

static int64_t fake_mono(void *arg)
{
	struct fixture *f = arg;
	int64_t now = atomic_load(&f->now);

	atomic_fetch_add(&f->reads, 1);
	return now;
}

/* Until the informer has gone a whole round by the time that it is now. */
static void settle(struct fixture *f)
{
	for (int i = 0; i < 3; i++) {
		unsigned before = atomic_load(&f->reads);
		gq_informer_wake(f->informer);
		while (atomic_load(&f->reads) == before)
			sched_yield();
	}
}

static void note(struct fixture *f, const char *text)
{
	pthread_mutex_lock(&f->lock);
	f->busy = true;
	gq_buf_puts(&f->log, text);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static int on_event(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct fixture *f = arg;
	char text[128];
	(void)err;

	switch (event->kind) {
	case GQ_EVENT_LIST_BEGIN:
		note(f, "[");
		break;
	case GQ_EVENT_LIST_END:
		atomic_store(&f->begun_ns, event->begun_ns);
		note(f, "]");
		break;
	case GQ_EVENT_UPSERT:
	case GQ_EVENT_DELETE:
		(void)snprintf(text, sizeof text, "%c%s",
			       event->kind == GQ_EVENT_UPSERT ? '+' : '-', event->resource_version);
		note(f, text);
		break;
	case GQ_EVENT_IDLE:
		pthread_mutex_lock(&f->lock);
		f->busy = false;
		pthread_cond_broadcast(&f->changed);
		pthread_mutex_unlock(&f->lock);
		break;
	}
	return 0;
}

static void on_problem(void *arg, const char *resource, int code, const char *message)
{
	struct fixture *f = arg;
	(void)code;
	(void)resource;

	pthread_mutex_lock(&f->lock);
	f->n_problems++;
	gq_buf_reset(&f->problem);
	gq_buf_puts(&f->problem, message);
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static void on_synced(void *arg, const char *resource)
{
	(void)resource;
	note(arg, "!");
}

static void wait_changed(struct fixture *f, const char *what)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	if (pthread_cond_timedwait(&f->changed, &f->lock, &until))
		fail_msg("%s; it is \"%s\", the last problem \"%s\"", what, f->log.data,
			 f->problem.data);
}

/* Waits until the log is `log`, and empties it. */
static void expect(struct fixture *f, const char *log)
{
	pthread_mutex_lock(&f->lock);
	while (f->log.len < strlen(log))
		wait_changed(f, log);
	assert_string_equal(f->log.data, log);
	gq_buf_reset(&f->log);
	pthread_mutex_unlock(&f->lock);
}

static void expect_problem(struct fixture *f, size_t nth, const char *part)
{
	pthread_mutex_lock(&f->lock);
	while (f->n_problems < nth)
		wait_changed(f, part);
	assert_int_equal(f->n_problems, nth);
	if (!strstr(f->problem.data, part))
		fail_msg("%s", f->problem.data);
	pthread_mutex_unlock(&f->lock);
}

static void advance(struct fixture *f, int64_t ns)
{
	atomic_fetch_add(&f->now, ns);
	gq_informer_wake(f->informer);
}

static struct fixture *make(const struct testpki *pki)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	f->server = apidouble_new(pki, false);
	f->config.server = (char *)(uintptr_t)apidouble_url(f->server);
	f->clock =
	    (struct gq_clock){.mono_ns = fake_mono, .wall_s = gq_clock_real.wall_s, .arg = f};
	atomic_store(&f->now, 1000 * S);
	f->resources[0] = (struct gq_informer_resource){
	    .name = "pods", .path = "/api/v1/pods", .keep = keep, .on_event = on_event, .arg = f};
	f->resources[1] = (struct gq_informer_resource){
	    .name = "nodes", .path = "/api/v1/nodes", .keep = keep, .on_event = on_event, .arg = f};
	f->options = (struct gq_informer_options){.config = &f->config,
						  .user_agent = "gpuquota/test",
						  .resources = f->resources,
						  .n_resources = 1,
						  .clock = &f->clock,
						  .on_problem = on_problem,
						  .on_synced = on_synced,
						  .arg = f};
	f->log = GQ_BUF_INIT(1 << 20);
	f->problem = GQ_BUF_INIT(1 << 16);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	return f;
}

static void run(struct fixture *f)
{
	struct gq_err err = {0};

	if (gq_informer_new(&f->options, &f->informer, &err) ||
	    gq_informer_start(f->informer, &err))
		fail_msg("%s", err.msg);
}

static void unmake(struct fixture *f)
{
	gq_informer_free(f->informer);
	apidouble_free(f->server);
	gq_buf_done(&f->log);
	gq_buf_done(&f->problem);
	free(f);
}

static struct apicall *next(struct fixture *f, const char *part)
{
	struct apicall *call = apidouble_next(f->server, "");

	if (!strstr(apicall_path(call), part))
		fail_msg("%s has no %s", apicall_path(call), part);
	assert_null(apicall_header(call, "Accept-Encoding", 0));
	return call;
}

/* Up to a watch that runs from version 9, and its call. */
static struct apicall *to_watch(struct fixture *f)
{
	run(f);
	struct apicall *call = next(f, "sendInitialEvents=true");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("ADDED", "a", "5") SIM_MARKER("9"));
	expect(f, "[+5]!");
	return call;
}

static struct gq_watch_stats stats_of(struct fixture *f)
{
	struct gq_watch_stats stats;

	assert_int_equal(gq_informer_stats(f->informer, &stats, 1), 1);
	return stats;
}

static void test_from_list_to_resumed_watch(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	run(f);
	struct apicall *call = next(f, "/api/v1/pods?watch=1");
	assert_string_equal(apicall_method(call), "GET");
	assert_string_equal(apicall_header(call, "User-Agent", 0), "gpuquota/test");
	apicall_begin(call, 200, "");
	expect(f, "["); /* the head alone begins the list */
	assert_false(gq_informer_synced(f->informer));
	apicall_send(call, SIM_EVENT("ADDED", "a", "5"));
	expect(f, "+5");
	apicall_send(call, SIM_MARKER("9"));
	expect(f, "]!");
	assert_true(gq_informer_synced(f->informer));
	assert_true(stats_of(f).connected);
	apicall_send(call, SIM_EVENT("MODIFIED", "a", "11") SIM_BOOKMARK("15"));
	expect(f, "+11");
	advance(f, 300 * S / 10);
	apicall_end(call);
	call = next(f, "&resourceVersion=15");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("DELETED", "a", "16"));
	expect(f, "-16");
	struct gq_watch_stats stats = stats_of(f);
	assert_string_equal(stats.resource, "pods");
	assert_true(stats.synced);
	assert_int_equal(stats.events, 3);
	assert_int_equal(stats.lists, 1);
	assert_int_equal(stats.watches, 2);
	assert_int_equal(stats.errors, 0);
	assert_int_equal(stats.bytes, strlen(SIM_EVENT("ADDED", "a", "5") SIM_MARKER("9")
						 SIM_EVENT("MODIFIED", "a", "11") SIM_BOOKMARK("15")
						     SIM_EVENT("DELETED", "a", "16")));
	assert_int_equal(stats.last_byte_ns, 1030 * S);
	pthread_mutex_lock(&f->lock);
	while (f->busy)
		wait_changed(f, "no IDLE came");
	pthread_mutex_unlock(&f->lock);
	assert_int_equal(apidouble_connections(f->server), 1); /* kept alive */
	unmake(f);                                             /* while the watch runs */
}

static void test_chunks_of_one_byte(void **state)
{
	static const char stream[] =
	    SIM_EVENT("ADDED", "a", "5") SIM_MARKER("9") SIM_EVENT("DELETED", "a", "11");
	struct fixture *f = make(NULL);
	(void)state;

	run(f);
	struct apicall *call = next(f, "sendInitialEvents");
	apicall_begin(call, 200, "");
	for (size_t i = 0; i < sizeof stream - 1; i++)
		apicall_send_bytes(call, stream + i, 1);
	expect(f, "[+5]!-11");
	unmake(f);
}

static void test_pages_on_old_servers(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	run(f);
	apicall_answer(next(f, "sendInitialEvents"), 422, "", SIM_STATUS(422, "Invalid"));
	expect_problem(f, 1, "WatchList: HTTP 422: said so");
	apicall_answer(next(f, "limit=500"), 200, "", SIM_LIST("8", "tok", SIM_POD("a", "5")));
	apicall_answer(next(f, "limit=500&continue=tok"), 200, "",
		       SIM_LIST("8", "", SIM_POD("b", "6")));
	expect(f, "[+5+6]!");
	struct apicall *call = next(f, "&resourceVersion=8");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("MODIFIED", "b", "9"));
	expect(f, "+9");
	unmake(f);
}

static void test_server_that_ignores_watch_list(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	run(f);
	struct apicall *call = next(f, "sendInitialEvents");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("ADDED", "a", "5"));
	expect(f, "[+5");
	advance(f, 10 * S);
	apicall_wait_gone(call);
	expect_problem(f, 1, "lists by pages from now on");
	advance(f, 2 * S);
	apicall_answer(next(f, "limit=500"), 200, "", SIM_LIST("8", "", SIM_POD("a", "5")));
	expect(f, "[+5]!");
	(void)next(f, "&resourceVersion=8");
	unmake(f);
}

static void test_gone(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	struct apicall *call = to_watch(f);
	apicall_send(call, SIM_ERROR(410, "Expired"));
	expect_problem(f, 1, "watch: ERROR event 410 Expired: said so");
	apicall_wait_gone(call);
	advance(f, 2 * S);
	call = next(f, "sendInitialEvents");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_MARKER("20")); /* "a" is gone: the consumer sees it by the marks */
	expect(f, "[]");
	advance(f, 2 * S);
	apicall_end(call);
	apicall_answer(next(f, "&resourceVersion=20"), 410, "", SIM_STATUS(410, "Expired"));
	expect_problem(f, 2, "watch: HTTP 410: said so");
	settle(f);
	assert_int_equal(stats_of(f).watches, 3);
	advance(f, 4 * S);
	(void)next(f, "sendInitialEvents");
	assert_true(gq_informer_synced(f->informer)); /* the cache is old, but was whole */
	unmake(f);
}

static void test_throttled(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	struct apicall *call = to_watch(f);
	advance(f, 2 * S);
	apicall_end(call);
	apicall_answer(next(f, "&resourceVersion=9"), 429, "Retry-After: 60\r\n", "");
	expect_problem(f, 1, "watch: HTTP 429");
	advance(f, 59 * S);
	settle(f);
	assert_int_equal(stats_of(f).watches, 2);
	advance(f, 1 * S);
	(void)next(f, "&resourceVersion=9");
	unmake(f);
}

static void test_breaks(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	/* a reset, an end in the middle of an object, an end in the middle of a chunk, a 503 */
	struct apicall *call = to_watch(f);
	apicall_send(call, SIM_BOOKMARK("10") SIM_EVENT("MODIFIED", "a", "10"));
	expect(f, "+10");
	apicall_reset(call);
	expect_problem(f, 1, "watch: ");
	advance(f, 30 * S);
	call = next(f, "&resourceVersion=10");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("MODIFIED", "a", "11") "{\"type\":\"MODIFIED\",\"object\":{");
	apicall_end(call);
	expect(f, "+11");
	expect_problem(f, 2, "watch: ");
	advance(f, 30 * S);
	call = next(f, "&resourceVersion=11");
	apicall_begin(call, 200, "");
	apicall_raw(call, "ff\r\n{\"type\":\"");
	apicall_close(call);
	expect_problem(f, 3, "watch: ");
	advance(f, 30 * S);
	apicall_answer(next(f, "&resourceVersion=11"), 503, "", "");
	expect_problem(f, 4, "watch: HTTP 503");
	advance(f, 30 * S);
	call = next(f, "&resourceVersion=11");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("DELETED", "a", "12"));
	expect(f, "-12");
	unmake(f);
}

static void test_silence_and_lag(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	/* late is not silent: what comes after 89 s is taken */
	struct apicall *call = to_watch(f);
	advance(f, 89 * S);
	apicall_send(call, SIM_EVENT("MODIFIED", "a", "11"));
	expect(f, "+11");
	advance(f, 89 * S);
	apicall_send(call, SIM_EVENT("DELETED", "a", "12"));
	expect(f, "-12");
	/* a stall in the middle of an object: the bytes before it count as heard */
	advance(f, 60 * S);
	int64_t stalled_at = atomic_load(&f->now);
	apicall_send(call, "{\"type\":\"ADDED\",\"obj");
	while (stats_of(f).last_byte_ns != stalled_at)
		sched_yield();
	advance(f, 90 * S);
	apicall_wait_gone(call);
	expect_problem(f, 1, "watch: no byte for 90 s: cut");
	advance(f, 30 * S);
	call = next(f, "&resourceVersion=12");
	/* no answer at all */
	advance(f, 90 * S);
	apicall_wait_gone(call);
	expect_problem(f, 2, "watch: no byte for 90 s: cut");
	advance(f, 30 * S);
	(void)next(f, "&resourceVersion=12");
	unmake(f);
}

static void put_token(const char *path, const char *token)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(token, file);
	fclose(file);
}

/* Fills in a template of mkstemp(), and has the informer take its tokens from there. */
static void use_token(struct fixture *f, char *path, const char *token)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	put_token(path, token);
	f->config.token_file = path;
}

static void test_tokens(void **state)
{
	struct fixture *f = make(NULL);
	char path[] = "/tmp/gq-informer-token-XXXXXX";
	(void)state;

	use_token(f, path, "one\n");
	run(f);
	struct apicall *call = next(f, "sendInitialEvents");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer one");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_MARKER("9"));
	expect(f, "[]!");
	put_token(path, "two\n"); /* while a watch runs */
	advance(f, 2 * S);
	apicall_end(call);
	call = next(f, "&resourceVersion=9");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer two");
	apicall_answer(call, 401, "", "Unauthorized");
	expect_problem(f, 1, "watch: HTTP 401");
	unlink(path); /* refused and gone: no request without a token */
	advance(f, 30 * S);
	expect_problem(f, 2, "no token: ");
	put_token(path, "three");
	advance(f, 30 * S);
	call = next(f, "&resourceVersion=9");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer three");
	unlink(path);
	unmake(f);
}

/* After a 401 a watch waits for long, but not once there is another token. */
static void test_new_token_ends_the_wait(void **state)
{
	struct fixture *f = make(NULL);
	char path[] = "/tmp/gq-informer-token-XXXXXX";
	struct gq_credential *credential = NULL;
	(void)state;

	use_token(f, path, "one");
	f->options.backoff_min_ns = 600 * S;
	f->options.backoff_max_ns = 1200 * S;
	assert_int_equal(gq_credential_new(&f->config, &credential, NULL), 0);
	f->options.credential = credential;
	struct apicall *call = to_watch(f);
	apicall_end(call);
	advance(f, 2 * S);
	call = next(f, "&resourceVersion=9");
	apicall_answer(call, 401, "", "Unauthorized");
	expect_problem(f, 1, "watch: HTTP 401");
	struct gq_credential_state told;
	gq_credential_state(credential, &told);
	assert_true(told.refused);
	for (int i = 0; i < 5; i++) {
		advance(f, 2 * S);
		settle(f);
	}
	put_token(path, "one"); /* written again, but no other */
	advance(f, 2 * S);
	settle(f);
	assert_int_equal(apidouble_waiting(f->server), 0);
	put_token(path, "two");
	advance(f, S);
	call = next(f, "&resourceVersion=9");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer two");
	apicall_answer(call, 401, "", "Unauthorized");
	expect_problem(f, 2, "watch: HTTP 401");
	/* the file is gone, too, when it would be time again */
	unlink(path);
	advance(f, 1200 * S);
	expect_problem(f, 3, "no token: ");
	for (int i = 0; i < 5; i++) {
		advance(f, 2 * S);
		settle(f);
	}
	expect_problem(f, 3, "no token: ");
	put_token(path, "three");
	advance(f, S);
	call = next(f, "&resourceVersion=9");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer three");
	apicall_begin(call, 200, "");
	apicall_send(call, SIM_EVENT("ADDED", "b", "10"));
	expect(f, "+10");
	gq_credential_state(credential, &told);
	assert_false(told.refused); /* known from its head: a watch does not end for long */
	unlink(path);
	unmake(f);
	gq_credential_free(credential);
}

/* Another token is no answer to other failures. */
static void test_new_token_is_no_news_to_others(void **state)
{
	struct fixture *f = make(NULL);
	char path[] = "/tmp/gq-informer-token-XXXXXX";
	(void)state;

	use_token(f, path, "one");
	f->options.backoff_min_ns = 600 * S;
	f->options.backoff_max_ns = 1200 * S;
	struct apicall *call = to_watch(f);
	apicall_end(call);
	advance(f, 2 * S);
	apicall_answer(next(f, "&resourceVersion=9"), 403, "", "Forbidden");
	expect_problem(f, 1, "watch: HTTP 403");
	put_token(path, "two");
	for (int i = 0; i < 5; i++) {
		advance(f, 2 * S);
		settle(f);
	}
	assert_int_equal(apidouble_waiting(f->server), 0);
	unlink(path);
	unmake(f);
}

static void test_tls(void **state)
{
	struct testpki pki;
	(void)state;

	testpki_make(&pki);
	struct fixture *f = make(&pki);
	f->config.ca_pem = pki.ca;
	(void)to_watch(f);
	unmake(f);

	f = make(&pki);
	f->config.ca_pem = pki.other_ca;
	run(f);
	expect_problem(f, 1, "the API server's certificate does not hold");
	advance(f, 30 * S);
	expect_problem(f, 2, "the API server's certificate does not hold");
	assert_int_equal(apidouble_waiting(f->server), 0);
	unmake(f);
	testpki_done(&pki);
}

static void test_nobody_listens(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	apidouble_free(f->server);
	f->server = NULL;
	char url[] = "http://127.0.0.1:1";
	f->config.server = url;
	run(f);
	for (size_t i = 1; i <= 5; i++) { /* one failure each time, no spin */
		expect_problem(f, i, "onnect");
		advance(f, 30 * S);
	}
	unmake(f);
}

static void test_collections_are_independent(void **state)
{
	struct fixture *f = make(NULL);
	struct gq_watch_stats stats[3];
	(void)state;

	f->options.n_resources = 2;
	run(f);
	struct apicall *pods = apidouble_next(f->server, "/api/v1/pods");
	struct apicall *nodes = apidouble_next(f->server, "/api/v1/nodes");
	apicall_begin(pods, 200, "");
	apicall_send(pods, SIM_MARKER("9"));
	expect(f, "[]!");
	assert_false(gq_informer_synced(f->informer)); /* all or not */
	apicall_answer(nodes, 500, "", "");
	expect_problem(f, 1, "HTTP 500");
	apicall_send(pods, SIM_EVENT("ADDED", "a", "11"));
	expect(f, "+11");
	advance(f, 2 * S);
	apicall_answer(apidouble_next(f->server, "/api/v1/nodes"), 200, "",
		       SIM_LIST("7", "", SIM_POD("n", "3")));
	expect(f, "[+3]!");
	assert_true(gq_informer_synced(f->informer));
	assert_int_equal(gq_informer_stats(f->informer, stats, 3), 2);
	assert_string_equal(stats[0].resource, "pods");
	assert_string_equal(stats[1].resource, "nodes");
	assert_int_equal(stats[0].errors, 0);
	assert_int_equal(stats[1].errors, 1);
	unmake(f);
}

static void test_relist(void **state)
{
	struct fixture *f = make(NULL);
	(void)state;

	f->options.n_resources = 2;
	f->resources[1].path = "/api/v1/nodes";
	run(f);
	struct apicall *pods = apidouble_next(f->server, "/api/v1/pods");
	apicall_begin(pods, 200, "");
	apicall_send(pods, SIM_MARKER("9"));
	expect(f, "[]!");
	struct apicall *nodes = apidouble_next(f->server, "/api/v1/nodes");
	apicall_begin(nodes, 200, "");
	apicall_send(nodes, SIM_MARKER("8"));
	expect(f, "[]!");
	atomic_fetch_add(&f->now, 5 * S);
	gq_informer_relist(f->informer, "secrets");
	gq_informer_relist(f->informer, "pods");
	/* the watch is cut, the list begun, and by then another one is wanted */
	apicall_wait_gone(pods);
	pods = apidouble_next(f->server, "/api/v1/pods");
	assert_non_null(strstr(apicall_path(pods), "sendInitialEvents"));
	gq_informer_relist(f->informer, "pods");
	apicall_wait_gone(pods);
	pods = apidouble_next(f->server, "/api/v1/pods");
	apicall_begin(pods, 200, "");
	apicall_send(pods, SIM_EVENT("ADDED", "a", "10") SIM_MARKER("11"));
	expect(f, "[+10]");
	assert_int_equal(atomic_load(&f->begun_ns), 1005 * S);
	apicall_send(nodes, SIM_EVENT("ADDED", "n", "12"));
	expect(f, "+12");
	settle(f);
	assert_int_equal(apidouble_waiting(f->server), 0);
	assert_int_equal(stats_of(f).errors, 0);
	unmake(f);
}

static void test_ends_at_any_time(void **state)
{
	(void)state;

	gq_informer_free(NULL);
	for (int when = 0; when < 5; when++) {
		struct fixture *f = make(NULL);
		if (when == 0) {
			assert_int_equal(gq_informer_new(&f->options, &f->informer, NULL), 0);
		} else {
			run(f);
			assert_int_equal(gq_informer_start(f->informer, NULL), GQ_EINVALID);
		}
		if (when >= 2) {
			struct apicall *call = next(f, "sendInitialEvents");
			if (when == 2)
				apicall_answer(call, 500, "", "");
			if (when >= 3)
				apicall_begin(call, 200, "");
			if (when >= 4)
				apicall_send(call, "{\"type\":\"ADDED\",\"object\":{");
		}
		unmake(f);
	}
}

static void test_options_that_cannot_work(void **state)
{
	struct fixture *f = make(NULL);
	char ca[] = "/nonexistent/ca";
	struct gq_err err = {0};
	(void)state;

	f->options.n_resources = 0;
	assert_int_equal(gq_informer_new(&f->options, &f->informer, &err), GQ_EINVALID);
	f->options.n_resources = 2;
	f->resources[1].keep = NULL;
	assert_int_equal(gq_informer_new(&f->options, &f->informer, &err), GQ_EINVALID);
	f->options.n_resources = 1;
	f->config.ca_file = ca;
	assert_int_equal(gq_informer_new(&f->options, &f->informer, &err), GQ_EINVALID);
	assert_string_equal(err.msg, "/nonexistent/ca: No such file or directory");
	assert_null(f->informer);
	unmake(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_from_list_to_resumed_watch),
	    cmocka_unit_test(test_chunks_of_one_byte),
	    cmocka_unit_test(test_pages_on_old_servers),
	    cmocka_unit_test(test_server_that_ignores_watch_list),
	    cmocka_unit_test(test_gone),
	    cmocka_unit_test(test_throttled),
	    cmocka_unit_test(test_breaks),
	    cmocka_unit_test(test_silence_and_lag),
	    cmocka_unit_test(test_tokens),
	    cmocka_unit_test(test_new_token_ends_the_wait),
	    cmocka_unit_test(test_new_token_is_no_news_to_others),
	    cmocka_unit_test(test_tls),
	    cmocka_unit_test(test_nobody_listens),
	    cmocka_unit_test(test_collections_are_independent),
	    cmocka_unit_test(test_relist),
	    cmocka_unit_test(test_ends_at_any_time),
	    cmocka_unit_test(test_options_that_cannot_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
