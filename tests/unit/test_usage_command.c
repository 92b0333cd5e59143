#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/commands.h"
#include "controller/status.h"
#include "controller/usage_command.h"
#include "informer/api.h"
#include "tests/unit/app_testing.h"
#include "webhook/metrics.h"

/* ---- the way to the API server, played by the test ---- */

struct gq_api {
	const struct gq_kubeconfig *config;
};

static struct {
	const char *answer; /* the page */
	int code;
	char kubeconfig[256], server[256], path[512];
	unsigned found, calls;

	/* a recount */
	const char *recount; /* members of "recount" but the request, once it is there */
	int patch_code;
	char patch[512], nonce[64];
	double delay_s;  /* until it is there */
	double outage_s; /* until then every GET fails */
	int64_t patched_ns;
} peer;

static struct app_clock app_time;

void gq_kubeconfig_free(struct gq_kubeconfig *config)
{
	if (config)
		free(config->server);
	free(config);
}

int gq_kubeconfig_find(const char *path, bool allow_home, struct gq_kubeconfig **ret_config,
		       struct gq_err *err)
{
	(void)err;
	assert_true(allow_home);
	(void)snprintf(peer.kubeconfig, sizeof peer.kubeconfig, "%s", path ? path : "(none)");
	peer.found++;
	*ret_config = calloc(1, sizeof **ret_config);
	(*ret_config)->server = strdup("https://api");
	return 0;
}

int gq_api_new(const struct gq_kubeconfig *config, const char *user_agent, struct gq_api **ret_api,
	       struct gq_err *err)
{
	(void)err;
	assert_has(user_agent, "gpuquota/");
	*ret_api = calloc(1, sizeof **ret_api);
	(*ret_api)->config = config;
	return 0;
}

void gq_api_free(struct gq_api *api)
{
	free(api);
}

static int answer_status(struct gq_buf *out, const char *page)
{
	gq_buf_puts(out, "{\"data\":{\"usage.json\":");
	gq_buf_json_string(out, page, strlen(page));
	return gq_buf_puts(out, "}}");
}

static int take_patch(const struct gq_api_request *request, struct gq_err *err)
{
	assert_string_equal(request->content_type, "application/merge-patch+json");
	(void)snprintf(peer.patch, sizeof peer.patch, "%.*s", (int)request->body_len,
		       request->body);
	if (peer.patch_code)
		return gq_fail(err, peer.patch_code, "the API server says so");
	struct json_object *root = json_parse(peer.patch, strlen(peer.patch));
	struct json_object *nonce = NULL;
	assert_true(json_object_object_get_ex(json_at(root, "metadata.annotations"),
					      "gpuquota.io/recount-requested", &nonce));
	(void)snprintf(peer.nonce, sizeof peer.nonce, "%s", json_object_get_string(nonce));
	assert_true(strlen(peer.nonce) > 0 && strlen(peer.nonce) <= GQ_STATUS_REQUEST_MAX_BYTES);
	peer.patched_ns = app_time.mono_ns;
	json_object_put(root);
	return 0;
}

/* The page, with the answer to the recount once its time has come. */
static int answer_recount(struct gq_buf *out, struct gq_err *err)
{
	struct gq_buf page GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	double since_s = (double)(app_time.mono_ns - peer.patched_ns) / 1e9;

	if (since_s < peer.outage_s)
		return gq_fail(err, GQ_EIO, "connection refused");
	if (since_s < peer.delay_s)
		return answer_status(out, "{\"tenants\":[],\"leader\":\"gpuquota-1\",\"recount\":"
					  "{\"request\":\"17\",\"pods\":5,\"drift\":[]}}");
	gq_buf_printf(&page,
		      "{\"policyHash\":\"x\",\"synced\":true,\"tenants\":[],\"missing\":{%s},"
		      "\"recount\":{\"request\":\"%s\",%s}}",
		      strstr(peer.recount, "more") ? "\"drift\":3,\"driftPods\":2" : "", peer.nonce,
		      peer.recount);
	return answer_status(out, page.data);
}

int gq_api_call(struct gq_api *api, const struct gq_api_request *request, struct gq_buf *out,
		long *ret_status, struct gq_err *err)
{
	(void)ret_status;
	assert_true(request->timeout_ns > 0);
	(void)snprintf(peer.server, sizeof peer.server, "%s", api->config->server);
	(void)snprintf(peer.path, sizeof peer.path, "%s", request->path);
	peer.calls++;
	if (strcmp(request->method, "PATCH") == 0)
		return take_patch(request, err);
	assert_string_equal(request->method, "GET");
	assert_int_equal(request->max_bytes, 64 << 20); /* of the page */
	if (peer.code)
		return gq_fail(err, peer.code, "configmaps \"gpuquota-status\" is forbidden");
	if (peer.recount)
		return answer_recount(out, err);
	if (strcmp(request->path, "/usage") == 0 || !peer.answer[0])
		return gq_buf_puts(out, peer.answer[0] ? peer.answer : "{\"data\":{}}");
	return answer_status(out, peer.answer);
}

static void pause_ns(void *arg, int64_t ns)
{
	assert_ptr_equal(arg, &peer);
	assert_int_equal(ns, 500 * GQ_NS_PER_MS);
	app_time.mono_ns += ns;
}

/* ---- the command ---- */

struct result {
	int status;
	char *out, *err;
};

static struct result run_again(const char *line)
{
	char *text = strdup(line), *argv[16], *rest = text;
	struct app_output out, err;
	struct result result;
	int argc = 0;

	const struct gq_usage_time time = {
	    .clock = &app_time.clock, .pause = pause_ns, .arg = &peer};
	app_clock_init(&app_time);
	for (char *word; (word = strtok_r(rest, " ", &rest));)
		argv[argc++] = word;
	argv[argc] = NULL;
	app_output_begin(&err, STDERR_FILENO);
	app_output_begin(&out, STDOUT_FILENO);
	result.status = gq_usage_command_run(argc, argv, &time);
	result.out = app_output_end(&out);
	result.err = app_output_end(&err);
	free(text);
	return result;
}

static struct result run(const char *answer, int code, const char *line)
{
	memset(&peer, 0, sizeof peer);
	peer.answer = answer;
	peer.code = code;
	return run_again(line);
}

static void result_done(struct result *result)
{
	free(result->out);
	free(result->err);
}

/* The page of a ledger, as the program prints it. */
static char *page(struct gq_ledger *ledger)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_usage usage = {0};

	assert_int_equal(gq_ledger_usage(ledger, START_NS, START_WALL_S, &usage, NULL), 0);
	assert_int_equal(gq_usage_print_json(&out, &usage), 0);
	gq_usage_done(&usage);
	return gq_buf_steal(&out);
}

/* more: further members of the pod */
static void pod_with(struct gq_ledger *ledger, const char *ns, const char *name, const char *node,
		     const char *more)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_pod *decoded = NULL;

	gq_buf_printf(&json,
		      "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\"},"
		      "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"c\",\"resources\":"
		      "{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}%s}",
		      ns, name, name, node, more);
	assert_int_equal(gq_pod_decode(json.data, json.len, NULL, &decoded, NULL), 0);
	assert_int_equal(gq_ledger_pod_seen(ledger, decoded, START_NS, NULL), 0);
	gq_pod_unref(decoded);
}

static void pod(struct gq_ledger *ledger, const char *ns, const char *name, const char *node)
{
	pod_with(ledger, ns, name, node, "");
}

static void tables(void **state)
{
	struct gq_ledger *ledger =
	    app_ledger(APP_POLICY_HEAD "tenants:\n"
				       "  - name: team-a\n"
				       "    namespaces: [a-train]\n"
				       "    quota: {A100: {gpus: 4, memory: 320Gi}, \"*\": {gpus: "
				       "6.5}, H100: {memory: 1Ti}}\n"
				       "  - name: idle\n");

	(void)state;
	pod(ledger, "a-train", "p1", "a1");
	pod(ledger, "a-train", "p2", "");
	pod(ledger, "lab", "p3", "a1");
	char *json = page(ledger);
	struct result result = run(json, 0, "usage");
	assert_int_equal(result.status, 0);
	assert_string_equal(result.err, "");
	assert_string_equal(
	    result.out,
	    "TENANT  CLASS        LIMIT   USED  BOUND  PENDING  TERMINATING  RESERVED  FREE\n"
	    "team-a  A100             4      4      2        2            0         0     0\n"
	    "team-a  A100 memory  320Gi  320Gi  160Gi    160Gi            0         0     0\n"
	    "team-a  *              6.5      4      2        2            0         0   2.5\n"
	    "team-a  H100 memory    1Ti      0      0        0            0         0   1Ti\n"
	    "namespace lab: GPU pods charged to no tenant: 1\n");
	result_done(&result);
	/* the JSON goes through as it came */
	static const char *const lines[] = {"usage -o json", "usage -ojson", "usage -o=json",
					    "usage --output json", "usage --output=json"};
	for (size_t i = 0; i < LEN(lines); i++) {
		result = run(json, 0, lines[i]);
		assert_int_equal(result.status, 0);
		assert_string_equal(result.out, json);
		result_done(&result);
	}
	result = run(json, 0, "usage -o text");
	assert_has(result.out, "TENANT");
	result_done(&result);
	free(json);
	gq_ledger_free(ledger);
}

/* Its column is there while anybody has some. */
static void not_ready(void **state)
{
	static const char policy[] =
	    APP_POLICY_HEAD "tenants:\n"
			    "  - name: team-a\n"
			    "    namespaces: [a-train]\n"
			    "    quota: {A100: {gpus: 4, memory: 320Gi}}\n"
			    "  - {name: team-b, namespaces: [b], quota: {\"*\": {gpus: 8}}}\n";
	struct gq_ledger *ledger = app_ledger(policy);

	(void)state;
	pod(ledger, "a-train", "p1", "a1");
	pod_with(ledger, "a-train", "p2", "a1", ",\"status\":{\"phase\":\"Running\"}");
	pod(ledger, "b", "p3", "a1");
	char *json = page(ledger);
	struct result result = run(json, 0, "usage");
	assert_string_equal(
	    result.out, "TENANT  CLASS        LIMIT   USED  BOUND  PENDING  TERMINATING  "
			"RESERVED  FREE  UNREADY\n"
			"team-a  A100             4      4      4        0            0         "
			"0     0        2\n"
			"team-a  A100 memory  320Gi  320Gi  320Gi        0            0         "
			"0     0    160Gi\n"
			"team-b  *                8      2      2        0            0         "
			"0     6        0\n");
	result_done(&result);
	free(json);
	pod_with(ledger, "a-train", "p2", "a1",
		 ",\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
		 "\"status\":\"True\"}]}");
	json = page(ledger);
	result = run(json, 0, "usage");
	assert_has_not(result.out, "UNREADY");
	result_done(&result);
	free(json);
	gq_ledger_free(ledger);
}

static void notes(void **state)
{
	struct gq_ledger *ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	char *json = page(ledger);
	struct result result = run(json, 0, "usage");

	(void)state;
	assert_int_equal(result.status, 0);
	assert_has(result.out, "no policy is in force yet");
	assert_has(result.out, "has not read the whole cluster yet");
	result_done(&result);
	free(json);
	gq_ledger_free(ledger);
	result = run("{\"policyHash\":\"x\",\"synced\":true,\"tenants\":[],\"uncharged\":"
		     "[{\"namespace\":\"both\",\"pods\":0,\"ambiguous\":true}]}",
		     0, "usage");
	assert_has(result.out, "namespace both: GPU pods charged to no tenant: 0, since the "
			       "selectors of two tenants match it\n");
	assert_has_not(result.out, "no policy");
	assert_has_not(result.out, "not read");
	result_done(&result);
}

/* Where the page is read from. */
static void ways(void **state)
{
	static const char empty[] = "{\"tenants\":[]}";
	static const struct {
		const char *line, *kubeconfig, *server, *path;
	} cases[] = {
	    {"usage", "(none)", "https://api",
	     "/api/v1/namespaces/gpuquota-system/configmaps/gpuquota-status"},
	    {"usage --kubeconfig f --namespace other", "f", "https://api",
	     "/api/v1/namespaces/other/configmaps/gpuquota-status"},
	    {"usage -n other", "(none)", "https://api",
	     "/api/v1/namespaces/other/configmaps/gpuquota-status"},
	    {"usage --url http://127.0.0.1:9402", "", "http://127.0.0.1:9402", "/usage"},
	    {"usage --url=http://127.0.0.1:9402//", "", "http://127.0.0.1:9402", "/usage"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct result result = run(empty, 0, cases[i].line);
		assert_int_equal(result.status, 0);
		assert_int_equal(peer.calls, 1);
		assert_string_equal(peer.kubeconfig, cases[i].kubeconfig);
		assert_string_equal(peer.server, cases[i].server);
		assert_string_equal(peer.path, cases[i].path);
		result_done(&result);
	}
}

static void failures(void **state)
{
	static const struct {
		const char *answer, *message;
		int code;
	} cases[] = {
	    {"",
	     "configmaps \"gpuquota-status\" is forbidden\nClusterRole gpuquota-reader allows "
	     "it: kubectl -n gpuquota-system create rolebinding NAME "
	     "--clusterrole=gpuquota-reader",
	     GQ_EDENIED},
	    {"", "there is no status in namespace gpuquota-system: gpuquota is not installed there",
	     GQ_ENOTFOUND},
	    {"", "configmaps \"gpuquota-status\" is forbidden\n", GQ_EIO},
	    {"", "has no key usage.json", 0},
	    {"<html>", "not gpuquota's usage page", 0},
	    {"[]", "not gpuquota's usage page", 0},
	    {"{\"kind\":\"Status\"}", "not gpuquota's usage page", 0},
	    {"{\"tenants\":{}}", "not gpuquota's usage page", 0},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct result result = run(cases[i].answer, cases[i].code, "usage");
		assert_int_equal(result.status, 1);
		assert_string_equal(result.out, "");
		assert_has(result.err, "gpuquota usage: ");
		assert_has(result.err, cases[i].message);
		result_done(&result);
	}
}

/* ---- what the leader's status says besides ---- */

#define STATUS(members) "{'policyHash':'x','synced':true,'tenants':[]," members "}"
#define NO_TABLE "TENANT  CLASS  LIMIT  USED  BOUND  PENDING  TERMINATING  RESERVED  FREE\n"

static void status_notes(void **state)
{
	static const struct {
		const char *page, *notes;
	} cases[] = {
	    {STATUS("'leader':'gpuquota-0','updated':1799999910"), "leader: gpuquota-0\n"},
	    {STATUS("'leader':'gpuquota-0','updated':1799999909"),
	     "leader: gpuquota-0\nstatus is 91 s old: is gpuquota running?\n"},
	    /* a clock that goes ahead of ours */
	    {STATUS("'leader':'g','updated':1800009999"), "leader: g\n"},
	    {STATUS("'leader':'a\\u001b[2Jb'"), "leader: a?[2Jb\n"},
	    {STATUS("'policyProblem':'policy.yaml:3:7: no\\u0007'"),
	     "the newest policy is not in force: policy.yaml:3:7: no?\n"},
	    {STATUS("'journalHeld':true,'journalProblem':'configmaps is forbidden'"),
	     "GPU pods wait, since the journal can't be written: configmaps is forbidden\n"},
	    {STATUS("'journalHeld':true,'journalProblem':null"),
	     "GPU pods wait: the journal was lost, and reservations may be missing in it\n"},
	    {STATUS("'journalHeld':false,'journalProblem':null"), ""},
	    {STATUS("'truncated':true,'missing':{'tenants':12,'over':1,'uncharged':0}"),
	     "the status has no room for all: left out are 12 tenants, 1 limits that are over and "
	     "0 namespaces\n"},
	    {STATUS(
		 "'over':[{'tenant':'team-a','class':'A100','gpus':{'held':'9.5','limit':'8',"
		 "'over':'1.5'},'pods':12,'holders':[{'namespace':'a','name':'p1','gpus':'8',"
		 "'unasked':false},{'namespace':'a','name':'p2','gpus':'0.5','unasked':true}]}]"),
	     "team-a is over its limit of A100: holds 9.5 of 8 GPUs: a/p1 (8), a/p2 (0.5, never "
	     "asked for) and 10 more\n"},
	    {STATUS("'over':[{'tenant':'t','class':'*','gpus':{'held':'9','limit':'8'},"
		    "'memoryMiB':{'held':2048,'limit':1024},'pods':0,'holders':[]}]"),
	     "t is over its limit of *: holds 9 of 8 GPUs and 2Gi of 1Gi of memory\n"},
	    {STATUS("'over':[{'tenant':'t','class':'*','memoryMiB':{'held':null,'limit':1024},"
		    "'pods':0,'holders':[]}]"),
	     "t is over its limit of *: holds unknown of 1Gi of memory\n"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *page_json = json_of(cases[i].page), expected[1024];
		struct result result = run(page_json, 0, "usage");
		(void)snprintf(expected, sizeof expected, NO_TABLE "%s", cases[i].notes);
		assert_string_equal(result.out, expected);
		assert_int_equal(result.status, 0);
		result_done(&result);
		free(page_json);
	}
}

/* What a leader writes can be read. */
static void a_real_status(void **state)
{
	struct gq_ledger *ledger =
	    app_ledger(APP_POLICY_HEAD "tenants:\n"
				       "  - name: team-a\n"
				       "    namespaces: [a-train]\n"
				       "    quota: {A100: {gpus: 1, memory: 320Gi}}\n");
	struct gq_status_facts facts = {.leader = "gpuquota-0",
					.updated_s = START_WALL_S - 100,
					.policy = {.in_force = true, .hash = "x"}};
	struct gq_buf yaml GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);

	(void)state;
	pod(ledger, "a-train", "p1", "a1");
	assert_int_equal(gq_ledger_usage(ledger, START_NS, START_WALL_S, &facts.usage, NULL), 0);
	assert_int_equal(gq_ledger_usage_holders(ledger, &facts.usage, NULL), 0);
	assert_int_equal(gq_status_print(&facts, GQ_STATUS_MAX_BYTES, &yaml, &json), 0);
	struct result result = run(json.data, 0, "usage");
	assert_string_equal(
	    result.out,
	    "TENANT  CLASS        LIMIT   USED  BOUND  PENDING  TERMINATING  RESERVED   FREE\n"
	    "team-a  A100             1      2      2        0            0         0      0\n"
	    "team-a  A100 memory  320Gi  160Gi  160Gi        0            0         0  160Gi\n"
	    "team-a is over its limit of A100: holds 2 of 1 GPUs: a-train/p1 (2, never asked "
	    "for)\n"
	    "leader: gpuquota-0\n"
	    "status is 100 s old: is gpuquota running?\n");
	result_done(&result);
	result = run(json.data, 0, "usage -o json");
	assert_string_equal(result.out, json.data);
	result_done(&result);
	gq_status_facts_done(&facts);
	gq_ledger_free(ledger);
}

/* ---- a recount ---- */

static void recounts(void **state)
{
	static const struct {
		const char *recount, *out;
		double delay_s, outage_s;
		int status;
	} cases[] = {
	    {"'pods':1234,'drift':[]", "no drift: 1234 pods recounted\n" NO_TABLE, 0, 0, 0},
	    {"'pods':1,'drift':[]", "no drift: 1 pods recounted\n" NO_TABLE, 59, 0, 0},
	    {"'pods':1,'drift':[]", "no drift: 1 pods recounted\n" NO_TABLE, 0, 59, 0},
	    {"'pods':7,'drift':[{'tenant':'team-a','class':'A100','gpus':'-2',"
	     "'memoryMiB':-163840},{'tenant':'t\\u001b','class':'*','gpus':'0.25',"
	     "'memoryMiB':0}],'driftPods':['a/p1','a/p2']",
	     "drift repaired: the total of team-a in A100 was off by -2 GPUs, -160Gi of memory\n"
	     "drift repaired: the total of t? in * was off by 0.25 GPUs, 0 of memory\n"
	     "drift repaired: the charges of these pods were wrong: a/p1, a/p2\n" NO_TABLE,
	     3, 0, 0},
	    {"'drift':[],'driftPods':['a/p1'],'more':1",
	     "drift repaired: 3 totals more\n"
	     "drift repaired: the charges of these pods were wrong: a/p1 and 2 more\n" NO_TABLE,
	     0, 0, 0},
	    {"'pods':7,'problem':'HTTP 500\\n'",
	     "the recount is not complete: HTTP 500?\nno drift: 7 pods recounted\n" NO_TABLE, 0, 0,
	     1},
	};
	static char last_nonce[64];

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *members = json_of(cases[i].recount);
		memset(&peer, 0, sizeof peer);
		peer.recount = members;
		peer.delay_s = cases[i].delay_s;
		peer.outage_s = cases[i].outage_s;
		struct result result = run_again("usage --recount");
		assert_string_equal(result.err, "");
		assert_string_equal(result.out, cases[i].out);
		assert_int_equal(result.status, cases[i].status);
		result_done(&result);
		free(members);
		(void)snprintf(last_nonce, sizeof last_nonce, "%s", peer.nonce);
	}
	/* Unix nanoseconds */
	assert_string_equal(last_nonce, "1800000000000000000");
}

static void recount_failures(void **state)
{
	static const struct {
		int patch_code, code;
		double delay_s, outage_s;
		const char *message;
	} cases[] = {
	    {GQ_EDENIED, 0, 0, 0,
	     "the API server says so\nClusterRole gpuquota-operator allows it"},
	    {GQ_ENOTFOUND, 0, 0, 0, "there is no status in namespace gpuquota-system"},
	    {GQ_EIO, 0, 0, 0, "gpuquota usage: the API server says so\n"},
	    {0, GQ_EDENIED, 0, 0, "ClusterRole gpuquota-reader allows it"},
	    {0, GQ_ENOTFOUND, 0, 0, "there is no status in namespace gpuquota-system"},
	    {0, 0, 61, 0,
	     "no recount within 60 s, though it was asked for: is gpuquota running? The leader was "
	     "gpuquota-1\n"},
	    {0, 0, 0, 61, "no recount within 60 s: connection refused\n"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		memset(&peer, 0, sizeof peer);
		peer.recount = "\"pods\":1,\"drift\":[]";
		peer.patch_code = cases[i].patch_code;
		peer.code = cases[i].code;
		peer.delay_s = cases[i].delay_s;
		peer.outage_s = cases[i].outage_s;
		struct result result = run_again("usage --recount");
		assert_int_equal(result.status, 1);
		assert_string_equal(result.out, "");
		assert_has(result.err, cases[i].message);
		assert_true(app_time.mono_ns - START_NS <= 61 * GQ_NS_PER_S);
		result_done(&result);
	}
}

/* A page of another version, or of somebody else, crashes nothing. */
static void odd_pages(void **state)
{
	static const char *const cases[] = {
	    "{\"tenants\":[1,null,\"x\",[],{}]}",
	    "{\"tenants\":[{\"name\":7,\"limits\":7}]}",
	    "{\"tenants\":[{\"limits\":[1,{},{\"class\":[],\"gpus\":{\"limit\":{}}}]}]}",
	    "{\"tenants\":[{\"name\":\"\\u001b[2J\",\"limits\":[{\"class\":\"c\",\"gpus\":"
	    "{\"limit\":\"1\",\"used\":null}}]}]}",
	    "{\"tenants\":[{\"name\":\"t\",\"limits\":[{\"class\":\"c\",\"memoryMiB\":{\"limit\":"
	    "-5,\"used\":9223372036854775807,\"free\":\"x\"}}]}]}",
	    "{\"tenants\":[],\"uncharged\":[1,{}],\"policyHash\":1,\"synced\":\"x\"}",
	    "{\"tenants\":[],\"over\":[1,{},{\"pods\":-1,\"holders\":[1,{}],\"gpus\":1,"
	    "\"memoryMiB\":{}},{\"memoryMiB\":{\"held\":-9223372036854775808}}]}",
	    "{\"tenants\":[],\"leader\":{},\"updated\":\"x\",\"missing\":7,\"truncated\":1}",
	    "{\"tenants\":[],\"leader\":[],\"updated\":-9223372036854775808,\"recount\":[]}",
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct result result = run(cases[i], 0, "usage");
		assert_int_equal(result.status, 0);
		assert_has(result.out, "TENANT");
		assert_has_not(result.out, "\x1b");
		result_done(&result);
	}
}

static void unusable(void **state)
{
	static const struct {
		const char *line, *message;
	} cases[] = {
	    {"usage -o", "--output needs a value"},
	    {"usage -o xml", "--output is text or json, not xml"},
	    {"usage -o json -o text", "given twice"},
	    {"usage -x", "unknown option -x"},
	    {"usage json", "unexpected argument json"},
	    {"usage -n ../../secrets", "--namespace"},
	    {"usage --recount=now", "--recount takes no value"},
	    {"usage --recount --url http://x", "--recount is asked for through the API server"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct result result = run("{\"tenants\":[]}", 0, cases[i].line);
		assert_int_equal(result.status, 2);
		assert_int_equal(peer.calls + peer.found, 0);
		assert_string_equal(result.out, "");
		assert_has(result.err, cases[i].message);
		result_done(&result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(status_notes), cmocka_unit_test(a_real_status),
	    cmocka_unit_test(recounts),     cmocka_unit_test(recount_failures),
	    cmocka_unit_test(tables),       cmocka_unit_test(not_ready),
	    cmocka_unit_test(notes),        cmocka_unit_test(ways),
	    cmocka_unit_test(failures),     cmocka_unit_test(odd_pages),
	    cmocka_unit_test(unusable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
