#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/status.h"
#include "tests/unit/app_testing.h"

/* ---- the API client, played by the test ---- */

static struct {
	char method[8], path[256], type[64];
	char *body;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} call;
static unsigned n_calls;
static bool running;
static int start_code;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	n_calls++;
	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	assert_false(running);
	assert_true(request->timeout_ns > 0);
	assert_non_null(request->keep); /* not all of it comes back */
	(void)snprintf(call.method, sizeof call.method, "%s", request->method);
	(void)snprintf(call.path, sizeof call.path, "%s", request->path);
	(void)snprintf(call.type, sizeof call.type, "%s", request->content_type);
	free(call.body);
	call.body = strndup(request->body, request->body_len);
	call.on_done = request->on_done;
	call.arg = request->arg;
	running = true;
	return 0;
}

static void finish(int code, int retry_after_s)
{
	assert_true(running);
	running = false;
	call.on_done(call.arg, &(struct gq_api_response){.code = code,
							 .body = "",
							 .error = code ? "the test says so" : "",
							 .retry_after_s = retry_after_s});
}

/* ---- the facts ---- */

static struct app_clock app_time;
static struct gq_status_writer *writer;
static unsigned looks;
static uint64_t epoch;  /* a fact that changes */
static int64_t unready; /* GPUs */
static int gather_code;

static int gather(void *arg, struct gq_status_facts *ret_facts, struct gq_err *err)
{
	assert_ptr_equal(arg, &app_time);
	looks++;
	/* half filled, also on failure */
	ret_facts->recount.drifted = calloc(1, sizeof *ret_facts->recount.drifted);
	ret_facts->recount.n_drifted = 1;
	ret_facts->recount.drifted[0] = strdup("a-train/p");
	if (gather_code)
		return gq_fail(err, gather_code, "the test says so");
	struct gq_usage *usage = &ret_facts->usage;
	usage->tenants = calloc(1, sizeof *usage->tenants);
	usage->n_tenants = 1;
	usage->tenants[0].name = "team-a";
	usage->tenants[0].limits = calloc(1, sizeof *usage->tenants[0].limits);
	usage->tenants[0].n_limits = 1;
	usage->tenants[0].limits[0] =
	    (struct gq_usage_limit){.class_name = "A100",
				    .most = {8 * GQ_SHARES_PER_GPU, GQ_UNLIMITED},
				    .unready = {unready * GQ_SHARES_PER_GPU, 0}};
	(void)snprintf(ret_facts->leader, sizeof ret_facts->leader, "gpuquota-0");
	ret_facts->epoch = epoch;
	ret_facts->updated_s = app_time.wall_s;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	n_calls = looks = 0;
	running = false;
	start_code = gather_code = 0;
	epoch = 7;
	unready = 0;
	app_clock_init(&app_time);
	writer = gq_status_writer_new(&(struct gq_status_writer_options){
	    .namespace_ = "gpuquota-system", .seed = 1, .gather = gather, .arg = &app_time});
	return writer ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_status_writer_free(writer);
	gq_status_writer_free(NULL);
	free(call.body);
	call.body = NULL;
	return 0;
}

static void tick(void)
{
	gq_status_writer_tick(writer, app_time.mono_ns);
}

/* Ticks every 100 ms, as main does. Ends with the first request; returns the time until then. */
static double pass_s(double seconds)
{
	int64_t begun_ns = app_time.mono_ns;
	int64_t end_ns = begun_ns + (int64_t)(seconds * 1e9);
	unsigned before = n_calls;

	while (n_calls == before && app_time.mono_ns < end_ns) {
		app_time.mono_ns += 100 * GQ_NS_PER_MS;
		app_time.wall_s = START_WALL_S + (app_time.mono_ns - START_NS) / GQ_NS_PER_S;
		tick();
	}
	return n_calls == before ? -1 : (double)(app_time.mono_ns - begun_ns) / 1e9;
}

static void assert_quiet(double seconds)
{
	double at = pass_s(seconds);

	if (at >= 0)
		fail_msg("a request after %f s", at);
}

/* The first write is behind. */
static void lead_and_write(void)
{
	gq_status_writer_lead(writer, true);
	tick();
	finish(0, 0);
}

/* ---- what is sent ---- */

static void a_patch(void **state)
{
	(void)state;
	tick();
	assert_quiet(100); /* a follower writes nothing, and looks at nothing */
	assert_int_equal(looks, 0);
	gq_status_writer_lead(writer, true);
	tick();
	assert_int_equal(n_calls, 1);
	assert_string_equal(call.method, "PATCH");
	assert_string_equal(call.path,
			    "/api/v1/namespaces/gpuquota-system/configmaps/gpuquota-status");
	assert_string_equal(call.type, "application/merge-patch+json");
	struct json_object *root = json_parse(call.body, strlen(call.body));
	struct json_object *data = json_at(root, "data");
	struct json_object *yaml = NULL, *json = NULL;
	assert_true(json_object_object_get_ex(data, "status.yaml", &yaml));
	assert_true(json_object_object_get_ex(data, "usage.json", &json));
	assert_has(json_object_get_string(yaml), "leader: gpuquota-0\nepoch: 7\n");
	json_object_put(
	    json_parse(json_object_get_string(json), (size_t)json_object_get_string_len(json)));
	/* annotations are other people's, and a resourceVersion would make conflicts */
	assert_null(json_at(root, "metadata.annotations"));
	assert_null(json_at(root, "metadata.resourceVersion"));
	json_object_put(root);
	finish(0, 0);
	struct gq_status_writer_stats stats;
	gq_status_writer_stats(writer, &stats);
	assert_int_equal(stats.written, 1);
	assert_int_equal(stats.failed, 0);
}

static void not_there_yet(void **state)
{
	(void)state;
	gq_status_writer_lead(writer, true);
	tick();
	char *patched = strdup(call.body);
	finish(GQ_ENOTFOUND, 0);
	assert_int_equal(n_calls, 2);
	assert_string_equal(call.method, "POST");
	assert_string_equal(call.path, "/api/v1/namespaces/gpuquota-system/configmaps");
	assert_string_equal(call.type, "application/json");
	assert_string_equal(call.body, patched);
	struct json_object *root = json_parse(call.body, strlen(call.body));
	assert_string_equal(json_text(root, "kind"), "ConfigMap");
	assert_string_equal(json_text(root, "apiVersion"), "v1");
	assert_string_equal(json_text(root, "metadata.name"), "gpuquota-status");
	json_object_put(root);
	free(patched);
	finish(0, 0);
	assert_quiet(50);
}

/* Somebody made it between the two requests; or the namespace is not there. */
static void made_by_another(void **state)
{
	static const int codes[] = {GQ_ECONFLICT, GQ_ENOTFOUND, GQ_EDENIED};

	(void)state;
	gq_status_writer_lead(writer, true);
	tick();
	for (size_t i = 0; i < LEN(codes); i++) {
		finish(GQ_ENOTFOUND, 0);
		assert_string_equal(call.method, "POST");
		finish(codes[i], 0);
		assert_true(pass_s(61) >= 1);
		assert_string_equal(call.method, "PATCH");
	}
	finish(0, 0);
}

/* ---- when ---- */

static void on_change(void **state)
{
	(void)state;
	lead_and_write();
	epoch++;
	double at = pass_s(10);
	assert_true(at > 2.9 && at < 3.2);
	finish(0, 0);
	assert_has(call.body, "epoch: 8");
	/* changed and changed back between two looks */
	epoch = 9;
	epoch = 8;
	assert_quiet(50);
	assert_in_range(looks, 17, 19);
}

static void time_alone_is_no_change(void **state)
{
	(void)state;
	lead_and_write();
	double at = pass_s(100);
	assert_true(at > 59.9 && at < 63.2);
	assert_has(call.body, "updated: 2027-01-15T08:01:0");
	finish(0, 0);
	at = pass_s(100);
	assert_true(at > 59.9 && at < 63.2);
	finish(0, 0);
}

/* A pod in a crash loop must not have the status written every three seconds for ever. */
static void readiness_alone_is_no_change(void **state)
{
	(void)state;
	unready = 1;
	lead_and_write();
	assert_has(call.body, "unready: 1}");
	for (int minute = 0; minute < 3; minute++) {
		double waited = 0, at;
		do {
			unready = unready == 2 ? 3 : 2;
			at = pass_s(3);
			waited += at < 0 ? 3 : at;
		} while (at < 0);
		assert_true(waited > 59.9 && waited < 63.2);
		finish(0, 0);
	}
	/* but it goes along with anything else */
	unready = 5;
	assert_quiet(20);
	epoch++;
	assert_true(pass_s(4) > 0);
	assert_has(call.body, "unready: 5}");
	finish(0, 0);
	/* and what was written is what later looks are held against */
	unready = 0;
	assert_quiet(50);
}

static void one_at_a_time(void **state)
{
	(void)state;
	gq_status_writer_lead(writer, true);
	tick();
	assert_int_equal(n_calls, 1);
	epoch++;
	assert_quiet(30);
	assert_int_equal(looks, 1);
	finish(0, 0);
	assert_true(pass_s(4) > 0);
	assert_has(call.body, "epoch: 8");
	finish(0, 0);
}

/* ---- when it goes wrong ---- */

static void failures(void **state)
{
	static const int codes[] = {GQ_EDENIED, GQ_EIO, GQ_EINVALID, GQ_ECONFLICT};

	(void)state;
	for (size_t i = 0; i < LEN(codes); i++) {
		struct app_output errors;
		double longest = 0;
		app_output_begin(&errors, STDERR_FILENO);
		gq_status_writer_lead(writer, true);
		tick();
		for (int n = 0; n < 12; n++) {
			finish(codes[i], 0);
			double at = pass_s(61);
			assert_true(at >= 1);
			longest = at > longest ? at : longest;
		}
		assert_true(longest > 30);
		finish(0, 0);
		assert_quiet(50); /* what was sent last is there */
		char *told = app_output_end(&errors);
		bool tell = codes[i] != GQ_ECONFLICT;
		assert_int_equal(occurrences(told, "can't be written"), tell);
		assert_int_equal(occurrences(told, "is written again"), tell);
		free(told);
		gq_status_writer_lead(writer, false);
		tick();
	}
	struct gq_status_writer_stats stats;
	gq_status_writer_stats(writer, &stats);
	assert_int_equal(stats.failed, 12 * LEN(codes));
	assert_int_equal(stats.written, LEN(codes));
}

static void told_when_to_come_back(void **state)
{
	(void)state;
	gq_status_writer_lead(writer, true);
	tick();
	finish(GQ_ETHROTTLED, 40);
	assert_quiet(39.5);
	assert_true(pass_s(5) > 0);
	finish(0, 0);
}

static void no_memory_for_a_request(void **state)
{
	(void)state;
	start_code = GQ_ENOMEM;
	gq_status_writer_lead(writer, true);
	tick();
	assert_int_equal(n_calls, 1);
	assert_true(pass_s(10) >= 1);
	start_code = 0;
	assert_true(pass_s(10) >= 1);
	finish(0, 0);
	assert_quiet(50);
}

static void no_facts(void **state)
{
	struct app_output errors;

	(void)state;
	gather_code = GQ_ENOMEM;
	gq_status_writer_lead(writer, true);
	app_output_begin(&errors, STDERR_FILENO);
	assert_quiet(30);
	char *told = app_output_end(&errors);
	assert_int_equal(occurrences(told, "no status could be made"), 1);
	free(told);
	gather_code = 0;
	assert_true(pass_s(4) > 0);
	finish(0, 0);
}

/* ---- leading ---- */

static void stepping_down(void **state)
{
	(void)state;
	gq_status_writer_lead(writer, true);
	tick();
	gq_status_writer_lead(writer, false);
	/* an answer that comes late begins nothing */
	finish(GQ_ENOTFOUND, 0);
	epoch++;
	assert_quiet(200);
	assert_int_equal(n_calls, 1);
	/* again: at once, though nothing has changed, since another has written meanwhile */
	epoch--;
	gq_status_writer_lead(writer, true);
	tick();
	assert_int_equal(n_calls, 2);
	finish(0, 0);
	gq_status_writer_lead(writer, true); /* no news */
	assert_quiet(50);
}

/* Leadership was lost and taken again while a request was under way. */
static void a_short_absence(void **state)
{
	(void)state;
	gq_status_writer_lead(writer, true);
	tick();
	gq_status_writer_lead(writer, false);
	gq_status_writer_lead(writer, true);
	assert_quiet(5);
	finish(0, 0);
	assert_true(pass_s(1) > 0);
	finish(0, 0);
	assert_quiet(50);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(a_patch),
	    TEST(not_there_yet),
	    TEST(made_by_another),
	    TEST(on_change),
	    TEST(time_alone_is_no_change),
	    TEST(one_at_a_time),
	    TEST(failures),
	    TEST(told_when_to_come_back),
	    TEST(no_memory_for_a_request),
	    TEST(no_facts),
	    TEST(stepping_down),
	    TEST(a_short_absence),
	    TEST(readiness_alone_is_no_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
