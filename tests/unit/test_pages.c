#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/pages.h"
#include "tests/unit/exposition_page.h"

/* ---- the server and the informer, played by the test ---- */

struct gq_request {
	const char *path;
	unsigned answers;
	int status;
	char type[128];
	char *body;
};

const char *gq_request_path(const struct gq_request *request)
{
	return request->path;
}

void gq_request_answer(struct gq_request *request, const struct gq_answer *answer)
{
	request->answers++;
	request->status = answer->status;
	(void)snprintf(request->type, sizeof request->type, "%s", answer->content_type);
	request->body = strndup(answer->body, answer->len);
}

/* What decisions need besides; none is made here. */
int64_t gq_request_received_ns(const struct gq_request *request)
{
	(void)request;
	return 0;
}

const char *gq_request_query(const struct gq_request *request)
{
	(void)request;
	return "";
}

const char *gq_request_body(const struct gq_request *request, size_t *ret_len)
{
	(void)request;
	*ret_len = 0;
	return "";
}

void gq_request_set_state(struct gq_request *request, void *state, void (*free_fn)(void *state))
{
	(void)request;
	(void)state;
	(void)free_fn;
	fail();
}

bool gq_request_orphaned(const struct gq_request *request)
{
	(void)request;
	return false;
}

void *gq_request_state(const struct gq_request *request)
{
	(void)request;
	return NULL;
}

void gq_request_retry(struct gq_request *request, int64_t delay_ns)
{
	(void)request;
	(void)delay_ns;
	fail();
}

void gq_server_stats(const struct gq_server *server, struct gq_server_stats *ret_stats)
{
	(void)server;
	*ret_stats = (struct gq_server_stats){.connections_open = 3};
}

static struct gq_watch_stats watches[] = {
    {.resource = "namespaces", .synced = true, .connected = true, .events = 5},
    {.resource = "nodes", .synced = true, .errors = 2},
    {.resource = "policy", .synced = true},
    {.resource = "pods", .bytes = 12345, .lists = 2, .watches = 3, .skipped = 1},
};

size_t gq_informer_stats(const struct gq_informer *informer, struct gq_watch_stats *stats,
			 size_t max)
{
	(void)informer;
	assert_true(max >= LEN(watches));
	memcpy(stats, watches, sizeof watches);
	return LEN(watches);
}

/* ---- the leadership, played by the test ---- */

static struct gq_leadership_status leading;

bool gq_leadership_leads(const struct gq_leadership *leadership)
{
	(void)leadership;
	return leading.leads;
}

void gq_leadership_status(struct gq_leadership *leadership, struct gq_leadership_status *ret_status)
{
	(void)leadership;
	*ret_status = leading;
}

/* ---- */

static struct app_clock app_time;
static struct gq_pages pages;

static int setup(void **state)
{
	(void)state;
	app_clock_init(&app_time);
	memset(&pages, 0, sizeof pages);
	leading = (struct gq_leadership_status){.leads = true, .epoch = 7, .terms = 2};
	watches[3].synced = false;
	pages.ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	pages.clock = &app_time.clock;
	pages.policy = gq_policy_source_new(&(struct gq_policy_source_options){
	    .ledger = pages.ledger, .clock = pages.clock, .namespace_ = "gpuquota-system"});
	pages.admission = gq_admission_new(
	    &(struct gq_admission_options){.ledger = pages.ledger, .clock = pages.clock});
	pages.journal = gq_journal_new(&(struct gq_journal_options){.ledger = pages.ledger,
								    .clock = pages.clock,
								    .namespace_ = "gpuquota-system",
								    .holder = "gpuquota-0",
								    .ttl_ns = 60 * GQ_NS_PER_S});
	pages.events = gq_events_new(
	    &(struct gq_events_options){.clock = pages.clock, .instance = "gpuquota-0"});
	pages.reporting =
	    gq_reporting_new(&(struct gq_reporting_options){.ledger = pages.ledger,
							    .clock = pages.clock,
							    .policy = pages.policy,
							    .namespace_ = "gpuquota-system",
							    .identity = "gpuquota-0"});
	return pages.ledger && pages.policy && pages.admission && pages.journal && pages.events &&
		       pages.reporting
		   ? 0
		   : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_reporting_free(pages.reporting);
	gq_events_free(pages.events);
	gq_journal_free(pages.journal);
	gq_admission_free(pages.admission);
	gq_policy_source_free(pages.policy);
	gq_ledger_free(pages.ledger);
	return 0;
}

static void apply_policy(const char *yaml)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	char hash[GQ_HASH_TEXT_BYTES];
	struct gq_err err = {0};

	assert_int_equal(gq_hash_text(yaml, strlen(yaml), hash), 0);
	gq_buf_printf(&json, "{\"metadata\":{\"resourceVersion\":\"1\"},\"data\":{\"hash\":\"%s\",",
		      hash);
	gq_buf_puts(&json, "\"policy.yaml\":");
	gq_buf_json_string(&json, yaml, strlen(yaml));
	gq_buf_puts(&json, "}}");
	/* written and accepted */
	const struct gq_event event = {.kind = GQ_EVENT_UPSERT, .json = json.data, .len = json.len};
	assert_int_equal(gq_policy_source_event(pages.policy, &event, &err), 0);
	assert_int_equal(gq_policy_source_accepted_event(pages.policy, &event, &err), 0);
	gq_policy_source_work(pages.policy);
}

/* The page; free() its body. */
static struct gq_request get(const char *path, int status)
{
	struct gq_request request = {.path = path};

	gq_pages_handle(&pages, &request);
	assert_int_equal(request.answers, 1);
	if (request.status != status)
		fail_msg("%s: %d %s", path, request.status, request.body);
	return request;
}

static void routes(void **state)
{
	static const struct {
		const char *method, *path;
		int status;
	} cases[] = {
	    {"GET", "/metrics", 0},    {"GET", "/healthz", 0},    {"GET", "/readyz", 0},
	    {"GET", "/usage", 0},      {"POST", "/usage", 405},   {"HEAD", "/metrics", 405},
	    {"GET", "/", 404},         {"GET", "/metrics/", 404}, {"GET", "/validate", 404},
	    {"POST", "/nowhere", 404},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++)
		assert_int_equal(gq_pages_route(cases[i].method, cases[i].path), cases[i].status);
}

static void healthz(void **state)
{
	struct gq_request request = get("/healthz", 200);

	(void)state;
	assert_string_equal(request.body, "ok\n");
	free(request.body);
}

static void readyz(void **state)
{
	struct gq_request request = get("/readyz", 503);

	(void)state;
	assert_has(request.type, "text/plain");
	assert_has(request.body, "[+] nodes listed\n");
	assert_has(request.body, "[-] pods listed\n");
	assert_has(request.body, "[-] policy in force\n");
	assert_has(request.body, "not ready\n");
	free(request.body);

	watches[3].synced = true;
	gq_ledger_set_synced(pages.ledger);
	apply_policy(APP_POLICY_HEAD "mode: never\n");
	request = get("/readyz", 503);
	assert_has(request.body, "[+] pods listed\n");
	assert_has(request.body, "[-] policy in force\n");
	assert_has(request.body, "policy.yaml:3:7");
	free(request.body);

	apply_policy(APP_POLICY);
	request = get("/readyz", 200);
	assert_has(request.body, "[+] policy in force\n");
	assert_has(request.body, "\nready\n");
	free(request.body);

	/* a bad policy behind a good one is told, and is no reason to send no more reviews */
	apply_policy(APP_POLICY_HEAD "mode: never\n");
	request = get("/readyz", 200);
	assert_has(request.body, "policy.yaml:3:7");
	free(request.body);

	atomic_store(&pages.draining, true);
	request = get("/readyz", 503);
	assert_has(request.body, "[-] shutting down\n");
	assert_has(request.body, "not ready\n");
	free(request.body);
	request = get("/healthz", 200); /* alive all the same */
	free(request.body);
}

static void usage(void **state)
{
	struct gq_request request = get("/usage", 200);

	(void)state;
	assert_string_equal(request.type, "application/json");
	struct json_object *root = json_parse(request.body, strlen(request.body));
	assert_null(json_at(root, "policyHash"));
	json_object_put(root);
	free(request.body);
	apply_policy(APP_POLICY);
	request = get("/usage", 200);
	root = json_parse(request.body, strlen(request.body));
	assert_int_equal(strlen(json_text(root, "policyHash")), 64);
	assert_int_equal(json_object_array_length(json_at(root, "tenants")), 2);
	json_object_put(root);
	free(request.body);
}

static void metrics(void **state)
{
	struct gq_request request = get("/metrics", 200);

	(void)state;
	assert_string_equal(request.type, "text/plain; version=0.0.4; charset=utf-8");
	struct page *page = page_parse(request.body);
	free(request.body);
	/* before there is a policy */
	assert_int_equal(page_count(page, "gpuquota_policy_info"), 0);
	assert_true(page_value(page, "gpuquota_policy_last_reload_successful") == 0);
	page_free(page);

	apply_policy(APP_POLICY);
	request = get("/metrics", 200);
	page = page_parse(request.body);
	free(request.body);
	static const struct {
		const char *series;
		double value;
	} cases[] = {
	    {"gpuquota_policy_last_reload_successful", 1},
	    {"gpuquota_ledger_drift_total{tenant=\"team-a\",class=\"A100\"}", 0},
	    {"gpuquota_leader", 1},
	    {"gpuquota_leader_terms_total", 2},
	    {"gpuquota_journal_held", 1},
	    {"gpuquota_journal_grants_total", 0},
	    {"gpuquota_journal_writes_total{outcome=\"written\"}", 0},
	    {"gpuquota_events_total{outcome=\"written\"}", 0},
	    {"gpuquota_status_writes_total", 0},
	    {"gpuquota_recounts_total", 0},
	    {"gpuquota_last_recount_timestamp_seconds", 0},
	    {"gpuquota_http_connections", 3},
	    {"gpuquota_limit_gpus{tenant=\"team-a\",class=\"A100\"}", 4},
	    {"gpuquota_watch_synced{resource=\"nodes\"}", 1},
	    {"gpuquota_watch_synced{resource=\"pods\"}", 0},
	    {"gpuquota_watch_connected{resource=\"namespaces\"}", 1},
	    {"gpuquota_watch_events_total{resource=\"namespaces\"}", 5},
	    {"gpuquota_watch_bytes_total{resource=\"pods\"}", 12345},
	    {"gpuquota_watch_lists_total{resource=\"pods\"}", 2},
	    {"gpuquota_watch_requests_total{resource=\"pods\"}", 3},
	    {"gpuquota_watch_errors_total{resource=\"nodes\"}", 2},
	    {"gpuquota_watch_skipped_objects_total{resource=\"pods\"}", 1},
	    {"gpuquota_review_duration_seconds_count", 0},
	};
	for (size_t i = 0; i < LEN(cases); i++)
		if (page_value(page, cases[i].series) != cases[i].value)
			fail_msg("%s is %f", cases[i].series, page_value(page, cases[i].series));
	assert_int_equal(page_count(page, "gpuquota_policy_info{hash=\""), 1);
	assert_int_equal(page_count(page, "gpuquota_build_info{version=\""), 1);
	assert_int_equal(page_count(page, "gpuquota_watch_synced"), LEN(watches));
	page_free(page);

	apply_policy(APP_POLICY_HEAD "mode: never\n");
	request = get("/metrics", 200);
	page = page_parse(request.body);
	assert_true(page_value(page, "gpuquota_policy_last_reload_successful") == 0);
	assert_int_equal(page_count(page, "gpuquota_policy_info"), 1);
	page_free(page);
	free(request.body);
}

/* What tenants hold is told by the leader alone, so that sums over replicas are right; how a
 * follower itself does is on its page all the same. */
static void metrics_of_a_follower(void **state)
{
	static const char *const of_the_leader[] = {
	    "gpuquota_limit_",
	    "gpuquota_used_",
	    "gpuquota_ledger_drift_total",
	    "gpuquota_bound_gpu_seconds_total",
	    "gpuquota_charges",
	};

	(void)state;
	apply_policy(APP_POLICY);
	for (int leads = 0; leads < 2; leads++) {
		leading.leads = leads != 0;
		struct gq_request request = get("/metrics", 200);
		struct page *page = page_parse(request.body);
		free(request.body);
		for (size_t i = 0; i < LEN(of_the_leader); i++)
			assert_int_equal(page_count(page, of_the_leader[i]) > 0, leads);
		assert_true(page_value(page, "gpuquota_leader") == leads);
		assert_int_equal(page_count(page, "gpuquota_policy_info"), 1);
		assert_int_equal(page_count(page, "gpuquota_watch_synced"), LEN(watches));
		assert_int_equal(page_count(page, "gpuquota_journal_epoch"), 1);
		page_free(page);
	}
	/* the page for people shows what this replica has counted, whoever leads */
	leading.leads = false;
	struct gq_request request = get("/usage", 200);
	assert_has(request.body, "team-a");
	free(request.body);
}

static void linted(void **state)
{
	(void)state;
	apply_policy(APP_POLICY);
	struct gq_request request = get("/metrics", 200);
	char *copy = strdup(request.body);
	free(request.body);
	page_lint(copy);
	free(copy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(routes),    TEST(healthz), TEST(readyz), TEST(usage), TEST(metrics),
	    TEST(metrics_of_a_follower), TEST(linted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
