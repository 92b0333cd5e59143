#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/commands.h"
#include "informer/api.h"
#include "tests/unit/app_testing.h"
#include "webhook/metrics.h"

/* ---- the way to the API server, played by the test ---- */

struct gq_api {
	const struct gq_kubeconfig *config;
};

static struct {
	const char *answer; /* body of the page */
	int code;
	char kubeconfig[256], server[256], path[512];
	unsigned found, calls;
} peer;

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

int gq_api_call(struct gq_api *api, const struct gq_api_request *request, struct gq_buf *out,
		long *ret_status, struct gq_err *err)
{
	(void)ret_status;
	assert_string_equal(request->method, "GET");
	assert_true(request->timeout_ns > 0);
	assert_int_equal(request->max_bytes, 64 << 20); /* of the page */
	(void)snprintf(peer.server, sizeof peer.server, "%s", api->config->server);
	(void)snprintf(peer.path, sizeof peer.path, "%s", request->path);
	peer.calls++;
	if (peer.code)
		return gq_fail(err, peer.code, "services \"gpuquota\" is forbidden");
	return gq_buf_puts(out, peer.answer);
}

/* ---- the command ---- */

struct result {
	int status;
	char *out, *err;
};

static struct result run(const char *answer, int code, const char *line)
{
	char *text = strdup(line), *argv[16], *rest = text;
	struct app_output out, err;
	struct result result;
	int argc = 0;

	memset(&peer, 0, sizeof peer);
	peer.answer = answer;
	peer.code = code;
	for (char *word; (word = strtok_r(rest, " ", &rest));)
		argv[argc++] = word;
	argv[argc] = NULL;
	app_output_begin(&err, STDERR_FILENO);
	app_output_begin(&out, STDOUT_FILENO);
	result.status = gq_command_usage(argc, argv);
	result.out = app_output_end(&out);
	result.err = app_output_end(&err);
	free(text);
	return result;
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

static void pod(struct gq_ledger *ledger, const char *ns, const char *name, const char *node)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_pod *decoded = NULL;

	gq_buf_printf(&json,
		      "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\"},"
		      "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"c\",\"resources\":"
		      "{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}",
		      ns, name, name, node);
	assert_int_equal(gq_pod_decode(json.data, json.len, NULL, &decoded, NULL), 0);
	assert_int_equal(gq_ledger_pod_seen(ledger, decoded, START_NS, NULL), 0);
	gq_pod_unref(decoded);
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
	     "/api/v1/namespaces/gpuquota-system/services/http:gpuquota:metrics/proxy/usage"},
	    {"usage --kubeconfig f --namespace other", "f", "https://api",
	     "/api/v1/namespaces/other/services/http:gpuquota:metrics/proxy/usage"},
	    {"usage -n other", "(none)", "https://api",
	     "/api/v1/namespaces/other/services/http:gpuquota:metrics/proxy/usage"},
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
	    {"", "forbidden", GQ_EDENIED},
	    {"", "not gpuquota's usage page", 0},
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
	    cmocka_unit_test(tables),   cmocka_unit_test(notes),     cmocka_unit_test(ways),
	    cmocka_unit_test(failures), cmocka_unit_test(odd_pages), cmocka_unit_test(unusable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
