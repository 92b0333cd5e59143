#include "rules_cases.h"

#include <json-c/json.h>

/* Each case of tests/data/rules, as whoever creates the pod sees it. All that fail are told. */
struct tally {
	unsigned failed;
};

static void complain(const struct rules_case *c, struct tally *tally, const char *why,
		     const struct world *w)
{
	tally->failed++;
	print_error("%s, %s: %s\n  verdict %d, %s: %s\n", c->rule, c->name, why, w->verdict.kind,
		    gq_reason_name(w->verdict.reason), rules_told(&w->verdict));
}

static bool says_all(const struct rules_case *c, const char *told)
{
	bool all = true;

	for (size_t i = 0; c->says && i < json_object_array_length(c->says); i++) {
		const char *want = json_object_get_string(json_object_array_get_idx(c->says, i));
		if (!strstr(told, want)) {
			print_error("  lacks: %s\n", want);
			all = false;
		}
	}
	return all;
}

static void check(const struct rules_case *c, void *arg)
{
	struct tally *tally = arg;
	bool warns = c->found && strcmp(c->found, "warn") == 0;
	bool audits = c->found && strcmp(c->found, "audit") == 0;

	/* where nobody asks about other pods than those of the rule, these are let pass */
	if (!*c->sent && strcmp(c->rule, "requireUserNamespace") == 0)
		return;
	struct world *w = rules_world(c->policy);
	enum gq_verdict_kind kind = rules_case_ask(w, c);
	if (kind != (c->refused ? GQ_VERDICT_DENY : GQ_VERDICT_ALLOW))
		complain(c, tally, c->refused ? "it is let pass" : "it is not let pass", w);
	else if (!says_all(c, rules_told(&w->verdict)))
		complain(c, tally, "it says something else", w);
	else if (w->verdict.n_warnings != warns || (w->verdict.audit.len > 0) != audits)
		complain(c, tally, "warnings or audit", w);
	else if (!c->refused && !c->found && *rules_told(&w->verdict))
		complain(c, tally, "something is told", w);
	else if (c->refused && *pods_of(w))
		complain(c, tally, "it holds something", w);
	world_free(w);
}

static void check_rule(const char *rule, size_t at_least)
{
	struct tally tally = {0};
	size_t n = rules_cases_each(rule, check, &tally);

	if (tally.failed)
		fail_msg("%u of %zu cases of %s", tally.failed, n, rule);
	assert_true(n >= at_least);
}

#define OF_RULE(rule, at_least)                                                                    \
	static void rule(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		check_rule(#rule, at_least);                                                       \
	}
OF_RULE(privileged, 60)
OF_RULE(containerRuntimeSockets, 80)
OF_RULE(hostDevices, 60)
OF_RULE(hostPath, 30)
OF_RULE(gpuWithoutRequest, 100)
OF_RULE(bypassLabels, 40)
OF_RULE(podLimit, 12)
OF_RULE(requireGpuMemory, 14)
OF_RULE(requireUserNamespace, 18)
OF_RULE(requireReadinessProbe, 14)

#define RULES(text)                                                                                \
	"tenants:\n  - {name: team, namespaces: [a-train], quota: {\"*\": {gpus: 8}}}\n"           \
	"  - {name: chinese, locale: zh, namespaces: [a-serve], quota: {\"*\": {gpus: 8}}}\n"      \
	"rules: {" text "}\n"
#define PRIVILEGED "'securityContext':{'privileged':true}"
#define SEES_ALL "'env':[{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'}]"
#define DOCKER "'volumes':[{'name':'v','hostPath':{'path':'/run/docker.sock'}}]"
#define BAD "{'spec':{'containers':[{'name':'c'," PRIVILEGED "," SEES_ALL "}]," DOCKER "}}"

/* Who breaks several rules learns of all, in their order, and the first is the reason. */
static void all_are_told(void **state)
{
	struct world *w = rules_world(RULES(
	    "gpuWithoutRequest: enforce, containerRuntimeSockets: enforce, hostPath: enforce, "
	    "privileged: enforce"));

	(void)state;
	assert_int_equal(rules_ask_pod(w, BAD), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_PRIVILEGED);
	assert_string_equal(w->verdict.tenant, "team");
	assert_string_equal(
	    message_of(w),
	    "containers/c is privileged, which opens every device of the node to it: remove "
	    "securityContext.privileged.\n"
	    "Volume v (hostPath /run/docker.sock) opens /run/docker.sock to the pod, by which it "
	    "can start containers that no quota counts: remove the volume, or ask who runs the "
	    "cluster to exempt the namespace.\n"
	    "Volume v (hostPath /run/docker.sock): pods may mount nothing of a node here; use an "
	    "emptyDir, or a PersistentVolumeClaim.\n"
	    "containers/c sets NVIDIA_VISIBLE_DEVICES to all and asks for no nvidia.com/gpu, so it "
	    "would use GPUs that are not counted: remove the variable, or ask for GPUs in "
	    "resources.limits (nvidia.com/gpu: 1).");
	assert_int_equal(w->verdict.rule_findings[GQ_MODE_ENFORCE],
			 1u << GQ_RULE_PRIVILEGED | 1u << GQ_RULE_RUNTIME_SOCKETS |
			     1u << GQ_RULE_HOST_PATH | 1u << GQ_RULE_GPU_WITHOUT_REQUEST);
	world_free(w);
}

/* Each finding goes the way of its rule's mode. */
static void modes_side_by_side(void **state)
{
	struct world *w = rules_world(
	    RULES("privileged: audit, containerRuntimeSockets: warn, gpuWithoutRequest: enforce"));

	(void)state;
	assert_int_equal(rules_ask_pod(w, BAD), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_GPU_WITHOUT_REQUEST);
	assert_null(strstr(message_of(w), "privileged"));
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_non_null(strstr(w->verdict.warnings[0].data, "Would be refused in mode enforce: "
							    "Volume v (hostPath"));
	assert_non_null(strstr(w->verdict.audit.data, "containers/c is privileged"));
	assert_int_equal(w->verdict.rule_findings[GQ_MODE_ENFORCE],
			 1u << GQ_RULE_GPU_WITHOUT_REQUEST);
	assert_int_equal(w->verdict.rule_findings[GQ_MODE_WARN], 1u << GQ_RULE_RUNTIME_SOCKETS);
	assert_int_equal(w->verdict.rule_findings[GQ_MODE_AUDIT], 1u << GQ_RULE_PRIVILEGED);
	world_free(w);
}

/* A finding that refuses nothing is the reason of an allowed pod. */
static void reason_of_what_is_let_pass(void **state)
{
	struct world *w = rules_world(RULES("privileged: audit"));

	(void)state;
	assert_int_equal(rules_ask_pod(w, BAD), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_PRIVILEGED);
	assert_int_equal(rules_ask_pod(w, "{}"), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_NO_GPU);
	world_free(w);
}

/* The rules' words are the tenant's language, those of a namespace of nobody the policy's. */
static void languages(void **state)
{
	struct world *w = rules_world("locale: zh\n" RULES("privileged: enforce"));

	(void)state;
	assert_int_equal(rules_ask_pod(w, "{'metadata':{'namespace':'a-serve'},'spec':{"
					  "'containers':[{'name':'c'," PRIVILEGED "}]}}"),
			 GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "containers/c"));
	assert_non_null(strstr(message_of(w), "特权"));
	world_namespace(w, "nobodys", "");
	assert_int_equal(rules_ask_pod(w, "{'metadata':{'namespace':'nobodys'},'spec':{"
					  "'containers':[{'name':'c'," PRIVILEGED "}]}}"),
			 GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "特权"));
	assert_null(w->verdict.tenant);
	world_free(w);
}

/* Rules hold in namespaces of no tenant, and not in exempt ones. */
static void namespaces(void **state)
{
	static const char pod[] = "{'metadata':{'namespace':'%s'},'spec':{'containers':[{'name':"
				  "'c'," PRIVILEGED "}]}}";
	static const struct {
		const char *ns;
		enum gq_verdict_kind kind;
		enum gq_reason reason;
	} cases[] = {
	    {"a-train", GQ_VERDICT_DENY, GQ_REASON_PRIVILEGED},
	    {"nobodys", GQ_VERDICT_DENY, GQ_REASON_PRIVILEGED},
	    {"not-seen-yet", GQ_VERDICT_DENY, GQ_REASON_PRIVILEGED},
	    {"gpu-operator", GQ_VERDICT_ALLOW, GQ_REASON_EXEMPT},
	    {"kube-system", GQ_VERDICT_DENY, GQ_REASON_PRIVILEGED}, /* the list is the policy's */
	};
	struct world *w = rules_world("exempt: {namespaces: [gpu-operator]}\nunassigned: allow\n"
				      "mode: audit\n" RULES("privileged: enforce"));

	(void)state;
	for (size_t i = 1; i < sizeof cases / sizeof *cases; i++)
		if (i != 2)
			world_namespace(w, cases[i].ns, "");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[512];
		(void)snprintf(text, sizeof text, pod, cases[i].ns);
		assert_int_equal(rules_ask_pod(w, text), cases[i].kind);
		assert_int_equal(w->verdict.reason, cases[i].reason);
	}
	world_free(w);
}

/* Kubelets tell of their static pods after they were started. */
static void mirror_pods(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(BAD);
	struct world *w = rules_world(RULES("privileged: enforce"));
	static const struct {
		const char *user;
		enum gq_verdict_kind kind;
	} cases[] = {
	    {"system:node:a1", GQ_VERDICT_ALLOW},
	    {"system:nodes", GQ_VERDICT_DENY},
	    {"system:serviceaccount:kube-system:node", GQ_VERDICT_DENY},
	    {"jane", GQ_VERDICT_DENY},
	    {"", GQ_VERDICT_DENY},
	    {NULL, GQ_VERDICT_DENY},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_create create = {.pod = pod.pod,
					   .posture = pod.posture,
					   .request_uid = "r",
					   .user = cases[i].user,
					   .now_ns = w->now_ns,
					   .wall_s = w->wall_s,
					   .deadline_ns = w->now_ns + S,
					   .reads = &w->reads};
		gq_verdict_done(&w->verdict);
		assert_int_equal(gq_decide_create(w->ledger, &create, &w->verdict, NULL), 0);
		assert_int_equal(w->verdict.kind, cases[i].kind);
	}
	world_free(w);
}

/* A pod with more findings of one rule than anybody reads. */
static void findings_of_one_rule_are_few(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct world *w = rules_world(RULES("privileged: enforce"));

	(void)state;
	for (unsigned n = 4; n <= 30; n += 13) {
		char more[64];
		gq_buf_reset(&text);
		gq_buf_puts(&text, "{'spec':{'containers':[");
		for (unsigned i = 0; i < n; i++)
			gq_buf_printf(&text, "%s{'name':'c%u'," PRIVILEGED "}", i ? "," : "", i);
		gq_buf_puts(&text, "]}}");
		assert_int_equal(rules_ask_pod(w, text.data), GQ_VERDICT_DENY);
		assert_non_null(strstr(message_of(w), "containers/c3 is privileged"));
		assert_null(strstr(message_of(w), "containers/c4"));
		(void)snprintf(more, sizeof more, "\n%u more of this kind.", n - 4);
		if (n > 4)
			assert_non_null(strstr(message_of(w), more));
		else
			assert_null(strstr(message_of(w), "more of this kind"));
	}
	world_free(w);
}

/* What a pod holds already is left as it is when it breaks a rule on a second try. */
static void refused_pods_hold_nothing(void **state)
{
	struct world *w = rules_world(RULES("privileged: enforce"));

	(void)state;
	assert_int_equal(rules_ask_pod(w, "{'spec':{'containers':[{'name':'c'," PRIVILEGED
					  ",'resources':{'limits':{'nvidia.com/gpu':'2'}}}]}}"),
			 GQ_VERDICT_DENY);
	assert_usage(w, "team", "*", "0/8 b0 p0 r0 t0");
	assert_int_equal(rules_ask_pod(w, "{'spec':{'containers':[{'name':'c','resources':{"
					  "'limits':{'nvidia.com/gpu':'2'}}}]}}"),
			 GQ_VERDICT_ALLOW);
	assert_usage(w, "team", "*", "2/8 b0 p0 r2 t0");
	world_free(w);
}

static void which_are_switched_on(void **state)
{
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) =
	    policy_make("tenants:\n"
			"  - {name: a, rules: {privileged: disabled, hostPath: audit}}\n"
			"  - {name: b}\n"
			"rules: {privileged: warn, hostDevices: {mode: disabled}, podLimit: {mode: "
			"audit, gpus: 1}}\n");
	unsigned off = 1u << GQ_RULE_POD_LIMIT;

	(void)state;
	assert_int_equal(gq_rules_active(policy, NULL), off | 1u << GQ_RULE_PRIVILEGED);
	assert_int_equal(gq_rules_active(policy, &policy->tenants[0]),
			 off | 1u << GQ_RULE_HOST_PATH);
	assert_int_equal(gq_rules_active(policy, &policy->tenants[1]),
			 off | 1u << GQ_RULE_PRIVILEGED);
}

/* Before the caches are there nobody has an opinion, but on pods that only a user namespace could
 * be asked of. */
static void before_sync(void **state)
{
	struct world *w = world_bare(RULES("privileged: enforce, requireUserNamespace: enforce"));

	(void)state;
	assert_int_equal(rules_ask_pod(w, BAD), GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_NOT_SYNCED);
	assert_int_equal(rules_ask_pod(w, "{}"), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_NO_GPU);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(privileged),
	    cmocka_unit_test(containerRuntimeSockets),
	    cmocka_unit_test(hostDevices),
	    cmocka_unit_test(hostPath),
	    cmocka_unit_test(gpuWithoutRequest),
	    cmocka_unit_test(bypassLabels),
	    cmocka_unit_test(podLimit),
	    cmocka_unit_test(requireGpuMemory),
	    cmocka_unit_test(requireUserNamespace),
	    cmocka_unit_test(requireReadinessProbe),
	    cmocka_unit_test(all_are_told),
	    cmocka_unit_test(modes_side_by_side),
	    cmocka_unit_test(reason_of_what_is_let_pass),
	    cmocka_unit_test(languages),
	    cmocka_unit_test(namespaces),
	    cmocka_unit_test(mirror_pods),
	    cmocka_unit_test(findings_of_one_rule_are_few),
	    cmocka_unit_test(refused_pods_hold_nothing),
	    cmocka_unit_test(which_are_switched_on),
	    cmocka_unit_test(before_sync),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
