#include "rules_cases.h"

#include "quota/decision_internal.h"
#include "quota/rules_internal.h"
#include "quota_testing.h"

/* What the rules about GPUs look at besides the pod: nodes, owners of templates, what a pod is
 * charged. Most of what they find is in tests/data/rules. */

static void on_gpu_node(struct world *w, const char *node, bool refused)
{
	char text[256];

	(void)snprintf(text, sizeof text, "{'spec':{'nodeName':'%s'}}", node);
	enum gq_verdict_kind kind = rules_ask_pod(w, text);
	if (kind != (refused ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW))
		fail_msg("%s: %d %s", node, kind, message_of(w));
	if (refused)
		assert_int_equal(w->verdict.reason, GQ_REASON_GPU_WITHOUT_REQUEST);
}

/* Nodes as they come and go: one of which only the device plugin tells that it has GPUs, and one of
 * which only its labels do. */
static void nodes_with_gpus(void **state)
{
	struct world *w = rules_world("rules: {gpuWithoutRequest: enforce}\n");

	(void)state;
	on_gpu_node(w, "a1", true);
	on_gpu_node(w, "cpu", false);
	on_gpu_node(w, "absent", false);
	world_node_unsettled(w, "unlabelled", "", "nvidia.com/gpu=4");
	world_node_unsettled(w, "amd", "", "amd.com/gpu=8");
	world_node_unsettled(w, "mig", "", "nvidia.com/mig-1g.5gb=7");
	world_settle(w);
	on_gpu_node(w, "unlabelled", true);
	on_gpu_node(w, "amd", true);
	on_gpu_node(w, "mig", true);
	world_node_gone(w, "a1");
	on_gpu_node(w, "a1", false);
	world_free(w);
}

static enum gq_rules_answer check_template(const struct gq_policy *policy,
					   const struct rules_pod *pod, const char *kind,
					   struct gq_verdict *verdict)
{
	const struct gq_ruled ruled = {
	    .policy = policy, .pod = pod->pod, .posture = pod->posture, .owner_kind = kind};

	gq_verdict_done(verdict);
	return gq_rules_check(&ruled, verdict);
}

/* A template's pods will be made by its workload, or by one that this makes. */
static void owners_of_templates(void **state)
{
	static const struct {
		const char *kind;
		bool serves;
	} cases[] = {
	    {"Deployment", true},  {"ReplicaSet", true},
	    {"StatefulSet", true}, {"ReplicationController", true},
	    {"DaemonSet", false},  {"Job", false},
	    {"CronJob", false},    {"PodTemplate", false},
	    {NULL, false},
	};
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) =
	    policy_make("rules: {requireReadinessProbe: enforce}\n");
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) =
	    rules_pod("{'spec':{'containers':[{'name':'c','resources':{'limits':{"
		      "'nvidia.com/gpu':'1'}}}]}}");
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		enum gq_rules_answer answer = check_template(policy, &pod, cases[i].kind, &verdict);
		assert_int_equal(answer, cases[i].serves ? GQ_RULES_REFUSED : GQ_RULES_PASSED);
	}
	/* which goes before what made the pod itself */
	struct rules_pod of_job GQ_CLEANUP(rules_pod_done) =
	    rules_pod("{'metadata':{'ownerReferences':[{'kind':'Job','name':'j','uid':'j',"
		      "'controller':true}]},'spec':{'containers':[{'name':'c','resources':{"
		      "'limits':{'nvidia.com/gpu':'1'}}}]}}");
	assert_int_equal(check_template(policy, &of_job, "Deployment", &verdict), GQ_RULES_REFUSED);
	assert_int_equal(check_template(policy, &of_job, NULL, &verdict), GQ_RULES_PASSED);
}

/* A template that names no scheduler may get one from a webhook of the sharing system, which sees
 * pods only; a pod that names none has got none. */
static void schedulers_of_templates(void **state)
{
	static const struct {
		const char *scheduler;
		bool template_refused, pod_refused;
	} cases[] = {
	    {"", false, true},
	    {"'schedulerName':'default-scheduler',", false, true}, /* as the API server writes it */
	    {"'schedulerName':'hami-scheduler',", false, false},
	    {"'schedulerName':'volcano',", true, true},
	};
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = policy_make(
	    "rules: {bypassLabels: {mode: enforce, schedulerNames: [hami-scheduler]}}\n");
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char text[256];
		(void)snprintf(text, sizeof text,
			       "{'spec':{%s'containers':[{'name':'c','resources':{'limits':{"
			       "'nvidia.com/gpu':'1'}}}]}}",
			       cases[i].scheduler);
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(text);
		assert_int_equal(check_template(policy, &pod, "Deployment", &verdict),
				 cases[i].template_refused ? GQ_RULES_REFUSED : GQ_RULES_PASSED);
		assert_int_equal(check_template(policy, &pod, NULL, &verdict),
				 cases[i].pod_refused ? GQ_RULES_REFUSED : GQ_RULES_PASSED);
	}
}

/* Who passes the rule is told what its tenant's limit is, if that would be the next word; and of
 * several models which one it is about. */
static void both_pod_limits(void **state)
{
	static const struct {
		const char *mode, *pod;
		const char *says; /* NULL: allowed */
	} cases[] = {
	    {"enforce", "'nvidia.com/gpu':'5'",
	     "One pod of this cluster may ask for at most 4 GPUs; this pod asks for 5: lower it, "
	     "spread the work over several pods, or ask who runs the cluster to exempt the "
	     "namespace.\n"
	     "One pod of team-a may ask for at most 3 GPUs; this pod asks for 5: lower it, or "
	     "spread the work over several pods."},
	    {"enforce", "'nvidia.com/gpu':'4'",
	     "One pod of this cluster may ask for at most 2 H100 GPUs; this pod may land on them "
	     "and asks for 4: choose another model by a nodeSelector, lower it, or spread the work "
	     "over several pods.\n"
	     "One pod of team-a may ask for at most 3 GPUs; this pod asks for 4: lower it, or "
	     "spread the work over several pods."},
	    {"enforce", "'nvidia.com/gpu':'3'",
	     "One pod of this cluster may ask for at most 2 H100 GPUs; this pod may land on them "
	     "and asks for 3: choose another model by a nodeSelector, lower it, or spread the work "
	     "over several pods.\n"
	     "One pod of team-a may ask for at most 1 H100 GPU; this pod may land on them and asks "
	     "for 3: choose another model by a nodeSelector, lower it, or spread the work over "
	     "several pods."},
	    {"enforce", "'nvidia.com/gpu':'1'", NULL},
	    /* a limit that refuses nobody is no next word */
	    {"warn", "'nvidia.com/gpu':'5'",
	     "One pod of this cluster may ask for at most 4 GPUs; this pod asks for 5: lower it, "
	     "spread the work over several pods, or ask who runs the cluster to exempt the "
	     "namespace."},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char policy[512], text[256];
		(void)snprintf(policy, sizeof policy,
			       "tenants: [{name: team-a, mode: %s, namespaces: [a-train], quota: "
			       "{\"*\": {gpus: 8}}, podLimit: {gpus: 3, classes: {H100: {gpus: "
			       "1}}}}]\n"
			       "rules: {podLimit: {mode: enforce, gpus: 4, classes: {H100: {gpus: "
			       "2}}}}\n",
			       cases[i].mode);
		(void)snprintf(text, sizeof text,
			       "{'spec':{'containers':[{'name':'c','resources':{'limits':{%s}}}]}}",
			       cases[i].pod);
		struct world *w = rules_world(policy);
		assert_int_equal(rules_ask_pod(w, text),
				 cases[i].says ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW);
		if (cases[i].says)
			assert_string_equal(message_of(w), cases[i].says);
		world_free(w);
	}
	/* on that model alone there is no other to choose */
	struct world *w = rules_world("tenants: [{name: team-a, namespaces: [a-train]}]\nrules: "
				      "{podLimit: {mode: enforce, classes: {H100: {gpus: 2}}}}\n");
	assert_int_equal(rules_ask_pod(w, "{'spec':{'nodeSelector':{'" PRODUCT "':'" H100
					  "'},'containers':[{'name':'c','resources':{'limits':{"
					  "'nvidia.com/gpu':'3'}}}]}}"),
			 GQ_VERDICT_DENY);
	assert_ptr_equal(strstr(message_of(w), "One pod of this cluster may ask for at most 2 H100 "
					       "GPUs; this pod asks for 3: lower it"),
			 message_of(w));
	world_free(w);
}

/* What a pod is charged where no limit of podLimit looks: on each class for itself. */
static void pod_limit(void **state)
{
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) =
	    policy_make("rules: {podLimit: {mode: enforce, gpus: 4, classes: {A100: {gpus: 1}, "
			"H100: {gpus: 2}}}}\n");
	const struct gq_pod_limit *limit = &policy->rules.pod_limit;
	int a100 = gq_class_find(policy->classes, "A100-80GB");
	int h100 = gq_class_find(policy->classes, "H100-80GB");
	const int64_t one = GQ_SHARES_PER_GPU;
	const struct {
		int64_t on_a100, on_h100;
		const char *passes; /* class; "*": all together; NULL: none */
		int64_t asks;
		bool may;
	} cases[] = {
	    {one, 2 * one, NULL, 0, false},          {one + 1, 0, "A100", one + 1, true},
	    {one, 3 * one, "H100", 3 * one, true},   {one, 5 * one, "*", 5 * one, false},
	    {5 * one, 5 * one, "*", 5 * one, false}, /* the larger, not the sum */
	};
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod("{}");

	(void)state;
	assert_true(a100 >= 0 && h100 >= 0);
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_part items[] = {
		    {.class_id = a100, .amount = {.shares = cases[i].on_a100}},
		    {.class_id = h100, .amount = {.shares = cases[i].on_h100}}};
		const struct gq_parts parts = {items, 2};
		struct gq_pod_limit_finding finding;
		bool passed = gq_pod_limit_passed(policy, limit, pod.pod, &parts, &finding);
		assert_int_equal(passed, cases[i].passes != NULL);
		if (!passed)
			continue;
		assert_int_equal(finding.asks_shares, cases[i].asks);
		assert_int_equal(finding.may, cases[i].may);
		if (*cases[i].passes == '*')
			assert_int_equal(finding.class_id, GQ_CLASS_NONE);
		else
			assert_int_equal(finding.class_id,
					 gq_class_find(policy->classes, cases[i].passes));
	}
}

/* Without its posture a pod is held against podLimit only, as the ledger has it. */
static void without_posture(void **state)
{
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {\"*\": {gpus: 8}}}]\n"
	    "rules: {podLimit: {mode: enforce, gpus: 2}, requireGpuMemory: enforce, privileged: "
	    "enforce}\n");

	(void)state;
	ALLOWED(w, .gpus = 2);
	DENIED(w, GQ_REASON_POD_LIMIT, "at most 2 GPUs; this pod asks for 3", .name = "q",
	       .gpus = 3);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nodes_with_gpus),
	    cmocka_unit_test(owners_of_templates),
	    cmocka_unit_test(schedulers_of_templates),
	    cmocka_unit_test(both_pod_limits),
	    cmocka_unit_test(pod_limit),
	    cmocka_unit_test(without_posture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
