#include "rules_cases.h"

#include <json-c/json.h>

#include "quota/decision_internal.h"
#include "quota/rules_internal.h"
#include "quota_testing.h"

#define MOST 96 /* objects that are read for one pod */
#define POLICY                                                                                     \
	"tenants: [{name: team, namespaces: [a-train], quota: {\"*\": {gpus: 8}}}]\n"              \
	"rules: {containerRuntimeSockets: enforce}\n"
#define CLAIMED(volume, claim)                                                                     \
	"{'name':'" volume "','persistentVolumeClaim':{'claimName':'" claim "'}}"
#define VOLUMES(list) "{'spec':{'volumes':[" list "]}}"
#define CLAIM(claim, pv)                                                                           \
	"{'kind':'PersistentVolumeClaim','metadata':{'name':'" claim "'},"                         \
	"'spec':{'volumeName':'" pv "'}}"
#define AT_RUN(pv)                                                                                 \
	"{'kind':'PersistentVolume','metadata':{'name':'" pv "'},'spec':{'local':{'path':'/"       \
	"run'}}}"

static struct gq_create create_of(struct world *w, const struct rules_pod *pod)
{
	return (struct gq_create){.pod = pod->pod,
				  .posture = pod->posture,
				  .request_uid = "r",
				  .now_ns = w->now_ns,
				  .wall_s = w->wall_s,
				  .deadline_ns = w->now_ns + S,
				  .reads = &w->reads};
}

static enum gq_verdict_kind decide(struct world *w, const struct rules_pod *pod)
{
	const struct gq_create create = create_of(w, pod);

	gq_verdict_done(&w->verdict);
	assert_int_equal(gq_decide_create(w->ledger, &create, &w->verdict, NULL), 0);
	return w->verdict.kind;
}

/* Claims first and then what they are bound to, each once. */
static void reads_in_two_rounds(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) =
	    rules_pod(VOLUMES(CLAIMED("a", "one") "," CLAIMED("b", "two") "," CLAIMED("c", "one")));
	struct json_object *objects = json_tokener_parse(
	    "[{\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":\"one\"},\"spec\":{"
	    "\"volumeName\":\"pv-1\"}},{\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"name\":"
	    "\"two\"},\"spec\":{\"volumeName\":\"pv-1\"}}]");
	struct world *w = rules_world(POLICY);

	(void)state;
	assert_int_equal(decide(w, &pod), GQ_VERDICT_READ);
	assert_int_equal(w->reads.n, 2);
	assert_string_equal(w->reads.items[0].path,
			    "/api/v1/namespaces/a-train/persistentvolumeclaims/one");
	assert_int_equal(w->reads.items[0].kind, GQ_READ_VOLUME_CLAIM);
	assert_string_equal(w->reads.items[1].path,
			    "/api/v1/namespaces/a-train/persistentvolumeclaims/two");
	assert_true(rules_answer_reads(&w->reads, objects));
	assert_int_equal(decide(w, &pod), GQ_VERDICT_READ);
	assert_int_equal(w->reads.n, 3);
	assert_string_equal(w->reads.items[2].path, "/api/v1/persistentvolumes/pv-1");
	assert_int_equal(w->reads.items[2].kind, GQ_READ_VOLUME);
	assert_true(rules_answer_reads(&w->reads, objects));
	assert_int_equal(decide(w, &pod), GQ_VERDICT_ALLOW);
	json_object_put(objects);
	world_free(w);
}

/* A read that fails for now is no answer; one that is not allowed, or finds nothing, is one. */
static void reads_that_fail(void **state)
{
	static const struct {
		int code;
		const char *body;
		enum gq_verdict_kind kind;
	} cases[] = {
	    {GQ_EIO, NULL, GQ_VERDICT_UNAVAILABLE},
	    {GQ_ETHROTTLED, NULL, GQ_VERDICT_UNAVAILABLE},
	    {0, "no JSON", GQ_VERDICT_UNAVAILABLE},
	    {GQ_ENOTFOUND, NULL, GQ_VERDICT_ALLOW},
	    {GQ_EDENIED, NULL, GQ_VERDICT_ALLOW},
	    {0, "{}", GQ_VERDICT_ALLOW},
	    {0, "{\"spec\":null}", GQ_VERDICT_ALLOW},
	    {0, "{\"spec\":{\"volumeName\":7}}", GQ_VERDICT_ALLOW},
	    {0, "{\"spec\":{\"volumeName\":\"\"}}", GQ_VERDICT_ALLOW},
	    {0, "{\"spec\":{\"volumeName\":\"../../nodes/a1\"}}", GQ_VERDICT_ALLOW},
	};
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(VOLUMES(CLAIMED("v", "data")));

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = rules_world(POLICY);
		assert_int_equal(decide(w, &pod), GQ_VERDICT_READ);
		struct gq_read *read = &w->reads.items[0];
		read->done = true;
		read->code = cases[i].code;
		read->body = cases[i].body ? strdup(cases[i].body) : NULL;
		read->len = cases[i].body ? strlen(cases[i].body) : 0;
		assert_int_equal(decide(w, &pod), cases[i].kind);
		assert_int_equal(w->reads.n, 1);
		if (cases[i].kind == GQ_VERDICT_UNAVAILABLE)
			assert_int_equal(w->verdict.reason, GQ_REASON_REFERENCE);
		world_free(w);
	}
}

/* Names that no object has are not put into a path. */
static void impossible_names(void **state)
{
	static const char *const pods[] = {
	    VOLUMES(CLAIMED("v", "../secrets/x")),
	    VOLUMES(CLAIMED("v", "")),
	    VOLUMES(CLAIMED("v", "a?b")),
	    VOLUMES(
		"{'name':'v','ephemeral':{'volumeClaimTemplate':{'spec':{'volumeName':'a/b'}}}}"),
	    VOLUMES("{'name':'v','persistentVolumeClaim':{}}"),
	};
	struct world *w = rules_world(POLICY);

	(void)state;
	for (size_t i = 0; i < LEN(pods); i++) {
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(pods[i]);
		assert_int_equal(decide(w, &pod), GQ_VERDICT_ALLOW);
		assert_int_equal(w->reads.n, 0);
	}
	world_free(w);
}

/* More claims than are ever looked at: nobody knows where the last ones lead. */
static void more_than_can_be_read(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct world *w = rules_world(POLICY);

	(void)state;
	for (unsigned n = MOST; n <= MOST + 1; n++) {
		gq_buf_reset(&text);
		gq_buf_puts(&text, "{'spec':{'volumes':[");
		for (unsigned i = 0; i < n; i++)
			gq_buf_printf(&text, "%s" CLAIMED("v%u", "c%u"), i ? "," : "", i, i);
		gq_buf_puts(&text, "]}}");
		bool many = n > MOST;
		assert_int_equal(rules_ask_pod(w, text.data),
				 many ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW);
		if (many)
			assert_string_equal(
			    message_of(w),
			    "The pod has more volumes by claims than can be looked at, "
			    "volume v96 among them, so it cannot be told where they "
			    "lead: use fewer.");
	}
	world_free(w);
}

/* Paths as long as nobody writes them lead anywhere. */
static void long_paths(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct world *w = rules_world(POLICY);
	char *path = malloc(GQ_HOST_PATH_MAX + 3);

	(void)state;
	assert_non_null(path);
	for (int longer = 0; longer < 2; longer++) {
		size_t len = GQ_HOST_PATH_MAX + (size_t)longer;
		memset(path, 'x', len);
		path[0] = '/';
		path[len] = '\0';
		gq_buf_reset(&text);
		gq_buf_printf(&text, "{'spec':{'volumes':[{'name':'v','hostPath':{'path':'%s'}}]}}",
			      path);
		assert_int_equal(rules_ask_pod(w, text.data),
				 longer ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW);
		gq_buf_reset(&text);
		gq_buf_printf(
		    &text,
		    "[" CLAIM("data", "pv") ",{'kind':'PersistentVolume','metadata':{"
					    "'name':'pv'},'spec':{'local':{'path':'%s'}}}]",
		    path);
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) =
		    rules_pod(VOLUMES(CLAIMED("v", "data")));
		assert_int_equal(rules_ask(w, &pod, text.data),
				 longer ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW);
	}
	free(path);
	world_free(w);
}

/* What a volume is called where it is told of. */
static void words(void **state)
{
	static const struct {
		const char *pod, *says;
	} cases[] = {
	    {VOLUMES("{'name':'v','hostPath':{'path':'/var//run/'}}"),
	     "Volume v (hostPath /var//run/) opens "},
	    {VOLUMES(CLAIMED("v", "data")),
	     "Volume v (claim data, PersistentVolume pv, path /run of the node) opens "},
	    {VOLUMES(
		 "{'name':'v','ephemeral':{'volumeClaimTemplate':{'spec':{'volumeName':'pv'}}}}"),
	     "Volume v (claim p-v, PersistentVolume pv, path /run of the node) opens "},
	    {"{'metadata':{'name':'','generateName':'p-'},'spec':{'volumes':[{'name':'v','"
	     "ephemeral':"
	     "{'volumeClaimTemplate':{'spec':{'volumeName':'pv'}}}}]}}",
	     "Volume v (PersistentVolume pv, path /run of the node) opens "},
	};
	struct world *w = rules_world(POLICY);

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(cases[i].pod);
		assert_int_equal(rules_ask(w, &pod, "[" CLAIM("data", "pv") "," AT_RUN("pv") "]"),
				 GQ_VERDICT_DENY);
		assert_ptr_equal(strstr(message_of(w), cases[i].says), message_of(w));
	}
	world_free(w);
}

/* Where nothing can be read, claims lead nowhere that is known. */
static void without_reads(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) =
	    rules_pod(VOLUMES(CLAIMED("v", "data") ",{'name':'h','hostPath':{'path':'/data'}}"));
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = policy_make(POLICY);
	const struct gq_ruled ruled = {.policy = policy, .pod = pod.pod, .posture = pod.posture};
	struct gq_volume_path path;

	(void)state;
	assert_int_equal(gq_volume_path(&ruled, &pod.posture->volumes[0], &path), GQ_RULES_PASSED);
	assert_false(path.on_node);
	assert_int_equal(gq_volume_path(&ruled, &pod.posture->volumes[1], &path), GQ_RULES_PASSED);
	assert_true(path.on_node);
	assert_string_equal(path.clean, "/data");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_in_two_rounds), cmocka_unit_test(reads_that_fail),
	    cmocka_unit_test(impossible_names),    cmocka_unit_test(more_than_can_be_read),
	    cmocka_unit_test(long_paths),          cmocka_unit_test(words),
	    cmocka_unit_test(without_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
