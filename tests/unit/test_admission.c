#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/admission_world.h"
#include "tests/unit/fail_alloc.h"

static int setup_empty(void **state)
{
	(void)state;
	world_init(&world, gq_ledger_new(&(struct gq_ledger_options){0}));
	return 0;
}

static void routes(void **state)
{
	static const struct {
		const char *method, *path;
		int status;
	} cases[] = {
	    {"POST", "/validate", 0},
	    {"POST", "/validate-ai-pod", 0},
	    {"POST", "/validate-policy", 0},
	    {"GET", "/validate", 405},
	    {"PUT", "/validate-policy", 405},
	    {"POST", "/", 404},
	    {"POST", "/validate/", 404},
	    {"POST", "/validatex", 404},
	    {"POST", "", 404},
	    {"GET", "/metrics", 404},
	    {"post", "/validate", 405},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++)
		assert_int_equal(gq_admission_route(cases[i].method, cases[i].path),
				 cases[i].status);
}

static void allows_and_charges(void **state)
{
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "3"));

	(void)state;
	struct json_object *root = answer_review(request);
	assert_true(json_true(root, "response.allowed"));
	assert_string_equal(json_text(root, "response.uid"), "r-u1");
	assert_string_equal(json_text(root, "response.auditAnnotations.tenant"), "team-a");
	assert_string_equal(json_text(root, "response.auditAnnotations.reason"), "fits");
	assert_null(json_at(root, "response.warnings"));
	json_object_put(root);
	assert_int_equal(app_held(world.ledger, "team-a", GQ_STATE_RESERVED), 3);
	assert_int_equal(counted(&world, GQ_VERDICT_ALLOW, GQ_REASON_FITS), 1);
	assert_int_equal(world.n_commits, 1);
	request_free(request);
}

static void denies(void **state)
{
	allow(POD(.ns = "a-train", .name = "p1", .uid = "u1", .gpus = "3"));
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-serve", .name = "p2", .uid = "u2", .gpus = "2"));

	(void)state;
	const char *message = assert_denied(request);
	assert_has(message, "team-a may hold 4 A100 GPUs and holds 3 (0 bound, 0 pending, 3 "
			    "reserved); this pod asks for 2: 1 too many.");
	assert_has(message, "\n");
	assert_has(message, "It would fit with 1 GPU");
	struct json_object *root = answer_review(request);
	assert_string_equal(json_text(root, "response.auditAnnotations.reason"), "over_limit");
	json_object_put(root);
	request_free(request);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 3);
	assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT), 1);
	assert_int_equal(world.n_commits, 1);
}

/* The same review again, as the API server sends it when a connection broke. */
static void charges_once(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		allow(POD(.ns = "a-train", .name = "p1", .uid = "u1", .gpus = "3"));
	assert_int_equal(app_held(world.ledger, "team-a", -1), 3);
	assert_int_equal(app_charges(world.ledger), 1);
}

static void dry_run(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		allow(
		    POD(.ns = "a-train", .name = "p1", .uid = "u1", .gpus = "4", .dry_run = true));
	assert_int_equal(app_charges(world.ledger), 0);
	assert_int_equal(world.n_commits, 0);
	struct gq_request *request = ask_pod(
	    &world, POD(.ns = "a-train", .name = "p1", .uid = "u1", .gpus = "5", .dry_run = true));
	assert_has(assert_denied(request), "1 too many");
	request_free(request);
	assert_int_equal(app_charges(world.ledger), 0);
}

static void other_paths_are_alike(void **state)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	(void)state;
	print_pod_review(&body, POD(.ns = "a-train", .name = "p1", .uid = "u1", .gpus = "4"));
	struct gq_request *request = ask(&world, "/validate-ai-pod", body.data);
	assert_allowed(request);
	request_free(request);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 4);
	gq_buf_reset(&body);
	print_pod_review(&body, POD(.ns = "a-train", .name = "p2", .uid = "u2", .gpus = "1"));
	request = ask(&world, "/validate-ai-pod", body.data);
	assert_has(assert_denied(request), "1 too many");
	request_free(request);
	gq_buf_reset(&body);
	print_pod_review(&body, POD(.ns = "a-train", .name = "p3", .uid = "u3"));
	request = ask(&world, "/validate-ai-pod", body.data);
	assert_allowed(request);
	request_free(request);
	request = ask(&world, "/validate-ai-pod", "{}");
	(void)assert_failed(request, 400);
	request_free(request);
}

/* ---- bad input ---- */

#define HEX32 "0123456789abcdef0123456789abcdef"
#define HEX128 HEX32 HEX32 HEX32 HEX32
#define HEAD "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{'uid':'r',"
#define PODS HEAD "'operation':'CREATE','resource':{'resource':'pods'},"
#define BINDING HEAD "'operation':'CREATE','resource':{'resource':'pods'},'subResource':'binding',"
#define GPU "'spec':{'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}"

static void bad_reviews(void **state)
{
	static const struct {
		const char *body, *message;
	} cases[] = {
	    {"", "AdmissionReview"},
	    {"{", ""},
	    {"{}", "AdmissionReview"},
	    {"\xFF\xFE", ""},
	    {"[[[[[[", ""},
	    {PODS "'namespace':'a-train'}}", "request.object is missing"},
	    {PODS "'namespace':'a-train','object':{'kind':'Deployment','metadata':{'name':'p',"
		  "'uid':'u'}," GPU "}}}",
	     "no Pod"},
	    {PODS "'namespace':'a-train','object':{'kind':7,'metadata':{'name':'p','uid':'u'}," GPU
		  "}}}",
	     "kind"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'uid':'u'}," GPU "}}}", "name"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'name':'p'}," GPU "}}}", "uid"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'name':'p','uid':'" HEX128 "'}," GPU
		  "}}}",
	     "longer than 127 bytes"},
	    {PODS "'object':{'metadata':{'name':'p','uid':'u'}," GPU "}}}", "namespace"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'namespace':'a-serve','name':'p',"
		  "'uid':'u'}," GPU "}}}",
	     "differ"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'name':'../p','uid':'u'}," GPU "}}}",
	     "name"},
	    {PODS "'namespace':'../x','object':{'metadata':{'name':'p','uid':'u'}," GPU "}}}",
	     "name"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'name':'p','uid':'u'},"
		  "'spec':{'containers':'x'}}}}",
	     "request.object: spec.containers"},
	    {PODS "'namespace':'a-train','object':{'metadata':[]," GPU "}}}", "metadata"},
	    {PODS "'namespace':'a-train','object':{'metadata':{'name':'p','uid':'u'},"
		  "'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu':[1]}}}]}}}}",
	     ""},
	    {PODS "'namespace':'a-train','object':{'metadata':{'name':'p','uid':'u'},"
		  "'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu':'1',"
		  "'nvidia.com/gpu':'0'}}}]}}}}",
	     ""},
	    {BINDING "'namespace':'a-train','name':'p'}}", "Binding"},
	    {BINDING "'name':'p','object':{'target':{'name':'a1'}}}}", "Binding"},
	    {BINDING "'namespace':'a-train','object':{'target':{'name':'a1'}}}}", "Binding"},
	    {BINDING "'namespace':'a-train','name':'p','object':{'target':{}}}}", "Binding"},
	    {BINDING "'namespace':'a-train','name':'p','object':{'target':{'kind':'Pod','name':"
		     "'a1'}}}}",
	     "Node"},
	    {BINDING "'namespace':'a-train','name':'p','object':{'target':{'name':7}}}}", "name"},
	    {BINDING "'namespace':'a-train','name':'p','object':{'target':'a1'}}}", "target"},
	    {BINDING "'namespace':'a-train','name':'p','object':{'metadata':{'uid':{}},'target':"
		     "{'name':'a1'}}}}",
	     "uid"},
	    {BINDING "'namespace':'a-train','name':'p','object':{'target':{'name':'a1\\u0000x'}}}}",
	     "NUL"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_request *request = ask(&world, "/validate", cases[i].body);
		if (request->answer.status != 400)
			fail_msg("%s: %s", cases[i].body, request->answer_body);
		assert_has(assert_failed(request, 400), cases[i].message);
		assert_int_equal(app_charges(world.ledger), 0);
		assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_BAD_REVIEW), i + 1);
		assert_int_equal(counted_all(&world), i + 1);
		request_free(request);
	}
	assert_int_equal(world.n_commits, 0);
	assert_int_equal(world.n_reads, 0);
}

/* A pod that asks for something that is no number is refused, with a sentence. */
static void bad_quantities(void **state)
{
	static const char *const cases[] = {"-1", "0.5", "x", "1e400", "9223372036854775808", ""};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_request *request = ask_pod(
		    &world, POD(.ns = "a-train", .name = "p", .uid = "u", .gpus = cases[i]));
		assert_has(assert_denied(request), "nvidia.com/gpu");
		assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_BAD_QUANTITY), i + 1);
		request_free(request);
	}
	assert_int_equal(app_charges(world.ledger), 0);
}

static struct gq_request *ask_query(const char *query)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	/* in a namespace that has to be read, which tells the time that there is */
	print_pod_review(&body, POD(.ns = "b-1", .name = "p", .uid = "u1", .gpus = "1"));
	char *json = json_of(body.data);
	struct gq_request *request = ask_bytes(&world, "/validate", query, json, strlen(json));
	free(json);
	return request;
}

static void timeouts(void **state)
{
	static const struct {
		const char *query;
		int64_t ns; /* 0: refused */
	} cases[] = {
	    {"", 10 * GQ_NS_PER_S},
	    {"timeout=2s", 2 * GQ_NS_PER_S},
	    {"timeout=1500ms", 1500 * GQ_NS_PER_MS},
	    {"timeout=1h", 30 * GQ_NS_PER_S},
	    {"timeout=999999999999h", 30 * GQ_NS_PER_S},
	    {"other=1", 10 * GQ_NS_PER_S},
	    {"timeout=0s", 0},
	    {"timeout=-1s", 0},
	    {"timeout=soon", 0},
	    {"timeout=", 0},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		world.n_reads = 0;
		struct gq_request *request = ask_query(cases[i].query);
		if (cases[i].ns) {
			assert_int_equal(request->answers, 0);
			assert_int_equal(world.n_reads, 1);
			/* without the way of the answer */
			int64_t way_ns = cases[i].ns / 8 < 250 * GQ_NS_PER_MS ? cases[i].ns / 8
									      : 250 * GQ_NS_PER_MS;
			assert_true(world.reads[0].timeout_ns == cases[i].ns - way_ns);
		} else {
			assert_has(assert_failed(request, 400), "timeout");
			assert_int_equal(world.n_reads, 0);
		}
		request_free(request);
	}
}

/* A request that lay so long that nobody waits for it any more reserves nothing. */
static void too_late(void **state)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	(void)state;
	print_pod_review(&body, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "1"));
	char *json = json_of(body.data);
	for (int64_t late_ns = -1; late_ns <= 1; late_ns++) {
		struct gq_request *request =
		    request_new(&world, "/validate", "timeout=3s", json, strlen(json));
		world.clock.mono_ns += 3 * GQ_NS_PER_S + late_ns;
		request_handle(&world, request);
		if (late_ns < 0) {
			assert_allowed(request);
			gq_ledger_pod_gone(world.ledger, "u1", world.clock.mono_ns);
		} else {
			assert_has(assert_last_word(request), "time");
		}
		assert_int_equal(app_charges(world.ledger), 0);
		request_free(request);
	}
	assert_int_equal(counted(&world, GQ_VERDICT_UNAVAILABLE, GQ_REASON_TOO_LATE), 2);
	free(json);
}

/* Only those that the API server refuses without an answer hear the reason in a refusal; where it
 * lets pass what gets none, a refusal would be the worse answer. */
static void last_words(void **state)
{
	static const struct {
		const char *spec;
		bool told;
	} cases[] = {
	    {"{'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}", true},
	    {"{'containers':[{'name':'c','securityContext':{'privileged':true}}]}", true},
	    {"{'containers':[{'name':'c'}],'volumes':[{'name':'v','persistentVolumeClaim':{"
	     "'claimName':'c'}}]}",
	     false},
	    {"{'containers':[{'name':'c','envFrom':[{'configMapRef':{'name':'m'}}]}]}", false},
	};

	(void)state;
	app_set_policy(world.ledger,
		       APP_POLICY "rules: {privileged: enforce, hostDevices: enforce, "
				  "gpuWithoutRequest: enforce}\n");
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
		gq_buf_printf(
		    &body,
		    "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{"
		    "'uid':'r%zu','operation':'CREATE','namespace':'a-train','name':'p',"
		    "'resource':{'resource':'pods'},'object':{'metadata':{'name':'p',"
		    "'namespace':'a-train','uid':'u%zu'},'spec':%s}}}",
		    i, i, cases[i].spec);
		char *json = json_of(body.data);
		struct gq_request *request =
		    request_new(&world, "/validate", "timeout=3s", json, strlen(json));
		print_message("%s\n", json);
		world.clock.mono_ns += 3 * GQ_NS_PER_S;
		request_handle(&world, request);
		if (cases[i].told)
			assert_has(assert_last_word(request), "time");
		else
			assert_has(assert_failed(request, 503), "time");
		request_free(request);
		free(json);
	}
}

/* A sound review of an object with more in it than is looked at is refused in a review: an error
 * would have the API server let it pass, where the registration says so. */
static void more_than_is_looked_at(void **state)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_buf_puts(&body,
		    "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{"
		    "'uid':'r','operation':'CREATE','namespace':'a-train','name':'p',"
		    "'resource':{'resource':'pods'},'object':{'metadata':{'name':'p',"
		    "'namespace':'a-train','uid':'u'},'spec':{'containers':[{'name':'c'}],"
		    "'volumes':[");
	for (int i = 0; i < 1001; i++)
		gq_buf_printf(&body, "%s{'name':'v%d','emptyDir':{}}", i ? "," : "", i);
	gq_buf_puts(&body, "]}}}}");
	char *json = json_of(body.data);
	struct gq_request *request =
	    ask_bytes(&world, "/validate", "timeout=10s", json, strlen(json));
	assert_has(assert_denied(request), "more in it than gpuquota looks at");
	assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_UNSUPPORTED), 1);
	request_free(request);
	free(json);
}

/* ---- not ready ---- */

static void not_synced(void **state)
{
	struct gq_request *request;

	(void)state;
	for (int step = 0; step < 3; step++) {
		request =
		    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u", .gpus = "1"));
		assert_has(assert_failed(request, 503), "try again");
		request_free(request);
		/* a pod without GPUs never waits for us */
		allow(POD(.ns = "a-train", .name = "cpu", .uid = "v"));
		if (step == 0)
			app_set_policy(world.ledger, APP_POLICY);
		else if (step == 1)
			app_node(world.ledger, "a1", "NVIDIA-A100-SXM4-80GB");
	}
	assert_int_equal(counted(&world, GQ_VERDICT_UNAVAILABLE, GQ_REASON_NOT_SYNCED), 3);
	assert_int_equal(counted(&world, GQ_VERDICT_ALLOW, GQ_REASON_NO_GPU), 3);
	request =
	    ask(&world, "/validate",
		BINDING "'namespace':'a-train','name':'p','object':{'target':{'name':'a1'}}}}");
	(void)assert_failed(request, 503);
	request_free(request);
	gq_ledger_set_synced(world.ledger);
	allow(POD(.ns = "a-train", .name = "p", .uid = "u", .gpus = "1"));
}

/* ---- what is not decided here ---- */

static void not_ours(void **state)
{
	static const char *const files[] = {
	    "configmap-create",
	    "namespace-create",
	    "pod-delete",
	    "pod-update",
	    "resourceclaim-create",
	    "resourceclaim-create-extended",
	    "resourceclaim-update-allocated",
	    "resourceclaimtemplate-create",
	};

	(void)state;
	for (size_t i = 0; i < LEN(files); i++) {
		char path[512];
		size_t len;
		(void)snprintf(path, sizeof path, GQ_TEST_DATA "/captures/reviews/%s.json",
			       files[i]);
		char *body = read_file(path, &len);
		struct gq_request *request =
		    ask_bytes(&world, "/validate", "timeout=10s", body, len);
		struct json_object *root = answer_review(request);
		assert_true(json_true(root, "response.allowed"));
		assert_null(json_at(root, "response.auditAnnotations"));
		assert_int_equal(counted(&world, GQ_VERDICT_ALLOW, GQ_REASON_NOT_OURS), i + 1);
		json_object_put(root);
		request_free(request);
		free(body);
	}
	assert_int_equal(app_charges(world.ledger), 0);
}

static void captured_pods(void **state)
{
	static const struct {
		const char *file;
		int held; /* of team-a afterwards */
	} cases[] = {
	    {"pod-create-by-job", 0},
	    {"pod-create-dryrun", 0},
	    {"pod-create", 1},
	    {"pod-create-generatename", 2},
	    {"pod-create-by-replicaset", 4},
	    {"pod-create", 4}, /* again */
	    {"pod-binding", 4},
	    {"legacy-binding", 4},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char path[512];
		size_t len;
		(void)snprintf(path, sizeof path, GQ_TEST_DATA "/captures/reviews/%s.json",
			       cases[i].file);
		char *body = read_file(path, &len);
		struct gq_request *request =
		    ask_bytes(&world, "/validate", "timeout=10s", body, len);
		print_message("%s\n", cases[i].file);
		assert_allowed(request);
		assert_int_equal(app_held(world.ledger, "team-a", -1), cases[i].held);
		request_free(request);
		free(body);
	}
}

static void exempt_and_unassigned(void **state)
{
	(void)state;
	allow(POD(.ns = "kube-system", .name = "p", .uid = "u1", .gpus = "64"));
	assert_int_equal(counted(&world, GQ_VERDICT_ALLOW, GQ_REASON_EXEMPT), 1);
	assert_int_equal(app_charges(world.ledger), 0);
	assert_int_equal(world.n_reads, 0);
}

/* ---- modes ---- */

static void warn_mode(void **state)
{
	(void)state;
	app_set_policy(world.ledger, APP_POLICY_HEAD
		       "mode: warn\ntenants:\n  - name: team-a\n    namespaces: [a-train]\n"
		       "    quota: {A100: {gpus: 1}}\n");
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "2"));
	struct json_object *root = answer_review(request);
	assert_true(json_true(root, "response.allowed"));
	struct json_object *list = json_at(root, "response.warnings");
	assert_int_equal(json_object_array_length(list), 1);
	assert_has(json_object_get_string(json_object_array_get_idx(list, 0)),
		   "team-a may hold 1 A100 GPU");
	json_object_put(root);
	request_free(request);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 2);
}

static void audit_mode(void **state)
{
	(void)state;
	app_set_policy(world.ledger, APP_POLICY_HEAD
		       "mode: audit\ntenants:\n  - name: team-a\n    namespaces: [a-train]\n"
		       "    quota: {A100: {gpus: 1}}\n");
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "2"));
	struct json_object *root = answer_review(request);
	assert_true(json_true(root, "response.allowed"));
	assert_null(json_at(root, "response.warnings"));
	assert_has(json_text(root, "response.auditAnnotations.would-refuse"),
		   "team-a may hold 1 A100 GPU");
	json_object_put(root);
	request_free(request);
}

/* ---- bindings ---- */

static struct gq_request *ask_binding(const char *resource, const char *uid, const char *node)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	gq_buf_printf(&body,
		      HEAD "'operation':'CREATE',%s,'namespace':'a-train','name':'p','object':{"
			   "'kind':'Binding','metadata':{'name':'p'%s%s%s},'target':{'kind':"
			   "'Node','name':'%s'}}}}",
		      resource, uid ? ",'uid':'" : "", uid ? uid : "", uid ? "'" : "", node);
	return ask(&world, "/validate", body.data);
}

static void bindings(void **state)
{
	static const char *const resources[] = {
	    "'resource':{'group':'','resource':'pods'},'subResource':'binding'",
	    "'resource':{'group':'','resource':'bindings'}"};
	struct gq_request *request;

	(void)state;
	app_node(world.ledger, "h1", "NVIDIA-H100-80GB-HBM3");
	assert_int_equal(gq_ledger_nodes_settle(world.ledger, START_NS, NULL), 0);
	allow(POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "4",
		  .spec = ",'nodeSelector':{'nvidia.com/gpu.product':'NVIDIA-A100-SXM4-80GB'}"));
	for (size_t i = 0; i < LEN(resources); i++) {
		const char *uid = i == 0 ? "u1" : NULL;
		request = ask_binding(resources[i], uid, "a1");
		assert_allowed(request);
		request_free(request);
		request = ask_binding(resources[i], uid, "h1");
		assert_has(assert_denied(request), "h1");
		request_free(request);
		/* of a pod that holds nothing */
		request = ask_binding(resources[0], "u9", "h1");
		assert_allowed(request);
		request_free(request);
	}
	assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_UNLISTED), 2);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 4);
}

/* ---- figures ---- */

static void durations(void **state)
{
	struct gq_admission_stats stats;
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	/* one in each bucket, just at its bound, and one above all */
	static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
					0.05,   0.1,     0.25,   1,     2.5,    10,    20};
	double sum = 0;

	(void)state;
	print_pod_review(&body, POD(.ns = "a-train", .name = "p", .uid = "u1"));
	char *json = json_of(body.data);
	for (size_t i = 0; i < LEN(bounds); i++) {
		struct gq_request *request =
		    request_new(&world, "/validate", "", json, strlen(json));
		request->received_ns -= (int64_t)(bounds[i] * 1e9 + 0.5);
		request_handle(&world, request);
		assert_int_equal(request->answers, 1);
		sum += bounds[i];
		request_free(request);
	}
	/* a clock of another core that is behind counts as no time */
	struct gq_request *request = request_new(&world, "/validate", "", json, strlen(json));
	request->received_ns += 5;
	request_handle(&world, request);
	request_free(request);
	free(json);
	gq_admission_stats(world.admission, &stats);
	for (size_t b = 0; b <= GQ_DURATION_BUCKETS; b++)
		assert_int_equal(stats.duration_buckets[b], b == 0 ? 2 : 1);
	assert_true(stats.duration_sum_s > sum - 1e-6 && stats.duration_sum_s < sum + 1e-6);
}

/* ---- no memory ---- */

/* Each allocation in turn fails: one answer, the right one or 503, and never more than one charge.
 */
static void no_memory(void **state)
{
	static const struct pod_review pods[] = {
	    {.ns = "a-train", .name = "p", .uid = "u1", .gpus = "2"},
	    {.ns = "a-train", .name = "p", .uid = "u1", .gpus = "9"},
	};
	unsigned failed = 0;

	(void)state;
	for (size_t which = 0; which < LEN(pods); which++) {
		bool more = true;
		for (long nth = 0; more; nth++) {
			struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
			struct world w;
			world_init(&w, app_ledger(APP_POLICY));
			print_pod_review(&body, &pods[which]);
			char *json = json_of(body.data);
			struct gq_request *request =
			    request_new(&w, "/validate", "", json, strlen(json));
			fail_alloc(nth);
			request_handle(&w, request);
			more = fail_alloc_done();
			assert_int_equal(request->answers, 1);
			assert_true(request->answer.status == 200 || request->answer.status == 503);
			if (request->answer.status == 503)
				failed++;
			else if (which == 0)
				assert_allowed(request);
			else
				(void)assert_denied(request);
			assert_in_range(app_charges(w.ledger), 0, which == 0 ? 1 : 0);
			request_free(request);
			free(json);
			world_done(&w);
		}
	}
	assert_true(failed > 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(routes),
	    TEST(allows_and_charges),
	    TEST(denies),
	    TEST(charges_once),
	    TEST(dry_run),
	    TEST(other_paths_are_alike),
	    TEST(bad_reviews),
	    TEST(bad_quantities),
	    TEST(timeouts),
	    TEST(too_late),
	    TEST(last_words),
	    TEST(more_than_is_looked_at),
	    cmocka_unit_test_setup_teardown(not_synced, setup_empty, teardown),
	    TEST(not_ours),
	    TEST(captured_pods),
	    TEST(exempt_and_unassigned),
	    TEST(warn_mode),
	    TEST(audit_mode),
	    TEST(bindings),
	    TEST(durations),
	    cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
