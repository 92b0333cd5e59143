#include "rules_cases.h"

#include "quota/rules_internal.h"
#include "quota_testing.h"

/* What is added to a pod that runs, and pods of many volumes and mounts: those of them too large to
 * go through one list for each item of another. */

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

static unsigned long comparisons;

int __wrap_strcmp(const char *a, const char *b)
{
	comparisons++;
	return __real_strcmp(a, b);
}

static void what_is_new(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(
	    "{'spec':{'volumes':[{'name':'old','hostPath':{'path':'/run'}},"
	    "{'name':'new','hostPath':{'path':'/var/run'}},{'name':'read','emptyDir':{}}],"
	    "'containers':[{'name':'c','volumeMounts':[{'name':'old'},{'name':'read'}]}],"
	    "'ephemeralContainers':[{'name':'before','volumeMounts':[{'name':'old'}]},"
	    "{'name':'added','volumeMounts':[{'name':'new','readOnly':true},{'name':'new'},"
	    "{'name':'none'},{'name':'read','readOnly':true}]},{'name':'c'}]}}");
	const char *had[] = {"zz", "before"};
	struct gq_added added;
	struct gq_ruled ruled = {.pod = pod.pod,
				 .posture = pod.posture,
				 .added = &added,
				 .ephemeral_only = true,
				 .had = had,
				 .n_had = 2};
	const struct gq_posture_volume *volumes = pod.posture->volumes;

	(void)state;
	gq_added_find(&ruled, &added);
	/* the container c, the ephemeral ones before, added and c: a name may stand in two lists */
	assert_int_equal(pod.posture->n_containers, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(gq_ruled_container(&ruled, &pod.posture->containers[i]), i >= 2);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(gq_ruled_volume(&ruled, &volumes[i]), i > 0);
		assert_int_equal(gq_ruled_written(&ruled, &volumes[i]), i == 1);
	}
	ruled.n_had = 0;
	gq_added_find(&ruled, &added);
	assert_true(gq_ruled_volume(&ruled, &volumes[0]));

	/* of a pod that is created all of it is */
	ruled.ephemeral_only = false;
	for (size_t i = 0; i < 4; i++)
		assert_true(gq_ruled_container(&ruled, &pod.posture->containers[i]));
	for (size_t i = 0; i < 3; i++) {
		assert_true(gq_ruled_volume(&ruled, &volumes[i]));
		assert_true(gq_ruled_written(&ruled, &volumes[i]));
	}
}

#define POLICY                                                                                     \
	"tenants: [{name: team, namespaces: [a-train], quota: {\"*\": {gpus: 8}}}]\n"              \
	"rules: {containerRuntimeSockets: enforce, hostDevices: enforce, hostPath: {mode: "        \
	"enforce, allow: [/data]}, privileged: enforce}\n"
#define VOLUMES 1000
#define CONTAINERS 30
#define MOUNTS 700

/* list: of the containers that mount. */
static struct rules_pod large_pod(const char *list)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(8u << 20);

	gq_buf_puts(&text, "{'spec':{'volumes':[");
	for (unsigned i = 0; i < VOLUMES; i++)
		gq_buf_printf(&text, "%s{'name':'v%u','hostPath':{'path':'/data/%u'}}",
			      i ? "," : "", i, i);
	gq_buf_printf(&text, "],'containers':[{'name':'c'}],'%s':[", list);
	for (unsigned i = 0; i < CONTAINERS; i++) {
		gq_buf_printf(&text, "%s{'name':'e%u','volumeMounts':[", i ? "," : "", i);
		for (unsigned m = 0; m < MOUNTS; m++)
			gq_buf_printf(&text, "%s{'name':'v%u'}", m ? "," : "",
				      (i + m * 7) % VOLUMES);
		gq_buf_puts(&text, "]}");
	}
	gq_buf_puts(&text, "]}}");
	assert_int_equal(text.code, 0);
	return rules_pod(text.data);
}

/* Sorting and looking up takes some dozens for each; every volume with every mount, 21 million. */
static void assert_quick(unsigned long since)
{
	unsigned long made = comparisons - since;

	if (made > 40ul * CONTAINERS * MOUNTS)
		fail_msg("%lu comparisons", made);
}

static void a_large_pod_is_created(void **state)
{
	unsigned long since = comparisons;
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = large_pod("initContainers");
	struct world *w = rules_world(POLICY);

	(void)state;
	assert_int_equal(rules_ask(w, &pod, NULL), GQ_VERDICT_ALLOW);
	assert_quick(since);
	world_free(w);
}

static void much_is_added_to_a_pod(void **state)
{
	unsigned long since = comparisons;
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = large_pod("ephemeralContainers");
	struct world *w = rules_world(POLICY);
	const char *had[GQ_FIELD_ITEMS_MAX];
	const struct gq_create create = {.pod = pod.pod,
					 .posture = pod.posture,
					 .request_uid = "r",
					 .user = "jane",
					 .now_ns = w->now_ns,
					 .wall_s = w->wall_s,
					 .deadline_ns = w->now_ns + S,
					 .reads = &w->reads};

	(void)state;
	for (size_t i = 0; i < LEN(had); i++)
		had[i] = i % 2 ? "before" : "another";
	gq_verdict_done(&w->verdict);
	assert_int_equal(gq_decide_ephemeral(w->ledger, &create, had, LEN(had), &w->verdict), 0);
	assert_int_equal(w->verdict.kind, GQ_VERDICT_ALLOW);
	assert_quick(since);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_new),
	    cmocka_unit_test(a_large_pod_is_created),
	    cmocka_unit_test(much_is_added_to_a_pod),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
