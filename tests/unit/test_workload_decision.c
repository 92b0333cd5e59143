#include "workload_world.h"

/* What authors of workloads are refused for, and which changes are judged. What they are warned
 * about is in test_workload_fit.c. */

static const char *const kind_names[] = {
    "Deployment", "ReplicaSet", "StatefulSet",           "DaemonSet",
    "Job",        "CronJob",    "ReplicationController", "PodTemplate"};

/* ---- refused ---- */

static void a_pod_that_could_never_fit(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 4, memory: 160Gi}}\n");

	(void)state;
	for (int kind = 0; kind < GQ_WORKLOAD_KINDS; kind++) {
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
		const char *nine = "'nvidia.com/gpu':'9'";
		judge(w, W(.kind = (enum gq_workload_kind)kind, .resources = nine), NULL);
		gq_buf_printf(&text,
			      "%s web: team-a may hold 8 A100 GPUs, and each pod of this template "
			      "asks for 9: 1 too many, whatever others hold.\n"
			      "It would fit with 8 GPUs.",
			      kind_names[kind]);
		assert_denied(w, GQ_REASON_OVER_LIMIT, text.data);
		assert_string_equal(w->verdict.tenant, "team-a");
	}
	judge(w, W(.resources = "'nvidia.com/gpu':'3'", .product = H100), NULL);
	assert_denied(w, GQ_REASON_OVER_LIMIT,
		      "Deployment web: team-a may hold 160Gi of H100 memory, and each pod of this "
		      "template asks for 244677Mi: 80837Mi too much, whatever others hold.\n"
		      "It would fit with 2 GPUs, or on A100 (8 free): nodeSelector "
		      "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB.");
	judge(w, W(.product = L40S), NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_UNLISTED);
	assert_non_null(strstr(message_of(w), "Deployment web: team-a has no quota for GPUs of"));
	world_free(w);
}

/* What others hold has no part in it. */
static void never_is_not_now(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 8, .product = A100_80);
	judge(w, W(.resources = "'nvidia.com/gpu':'8'"), NULL);
	assert_verdict(w, GQ_VERDICT_ALLOW, GQ_REASON_OVER_LIMIT);
	judge(w, W(.resources = "'nvidia.com/gpu':'9'"), NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	assert_non_null(strstr(message_of(w), "It would fit with 8 GPUs."));
	world_free(w);
}

static void parents_and_modes(void **state)
{
	static const char family[] =
	    "tenants:\n"
	    "  - {name: research, mode: %s, quota: {A100: {gpus: 4}}}\n"
	    "  - {name: team-a, mode: %s, parent: research, namespaces: [a-train],\n"
	    "     quota: {A100: {gpus: 8}}}\n";
	static const char text[] =
	    "research may hold 4 A100 GPUs, with all its tenants, team-a among them, and each pod "
	    "of this template asks for 5: 1 too many, whatever others hold.";
	static const struct {
		const char *parent, *child;
		enum gq_verdict_kind kind;
		bool warns, audits;
	} cases[] = {
	    {"enforce", "enforce", GQ_VERDICT_DENY, false, false},
	    {"enforce", "warn", GQ_VERDICT_DENY, false, false},
	    {"warn", "enforce", GQ_VERDICT_ALLOW, true, false},
	    {"audit", "enforce", GQ_VERDICT_ALLOW, false, true},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char policy[512], whole[1024];
		(void)snprintf(policy, sizeof policy, family, cases[i].parent, cases[i].child);
		struct world *w = world_new(policy);
		judge(w, W(.resources = "'nvidia.com/gpu':'5'"), NULL);
		assert_verdict(w, cases[i].kind, GQ_REASON_OVER_LIMIT);
		assert_int_equal(w->verdict.n_warnings, cases[i].warns);
		if (cases[i].warns) {
			(void)snprintf(whole, sizeof whole,
				       "Deployment web: Would be refused in mode enforce: %s",
				       text);
			assert_string_equal(warnings_of(w), whole);
		} else {
			(void)snprintf(whole, sizeof whole, "Deployment web: %s", text);
			const char *said = cases[i].audits ? w->verdict.audit.data : message_of(w);
			assert_int_equal(strncmp(said, whole, strlen(whole)), 0);
		}
		world_free(w);
	}
}

static void grants_of_this_moment(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}}\n"
					   "grants:\n"
					   "  - {tenant: team-a, class: A100, gpus: 2, until: "
					   "\"2026-01-02T00:00:00Z\", reason: launch}\n");

	(void)state;
	judge(w, W(.resources = "'nvidia.com/gpu':'4'", .fields = "'strategy':{'type':'Recreate'}"),
	      NULL);
	assert_silent(w);
	world_pass(w, 2 * 86400 * S);
	w->wall_s += 2 * 86400;
	judge(w, W(.resources = "'nvidia.com/gpu':'4'"), NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	world_free(w);
}

static void what_is_said_of_a_pod_is_said_of_a_template(void **state)
{
	static const struct {
		const char *policy;
		struct workload_spec spec;
		enum gq_reason reason;
		const char *text;
	} cases[] = {
	    {TEAM_A "    quota: {A100: {gpus: 8}}\n    podLimit: {gpus: 2}\n",
	     {.resources = "'nvidia.com/gpu':'3'"},
	     GQ_REASON_POD_LIMIT,
	     "Deployment web: One pod of team-a may ask for at most 2 GPUs"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {podLimit: {mode: enforce, gpus: 2}}\n",
	     {.resources = "'nvidia.com/gpu':'3'"},
	     GQ_REASON_POD_LIMIT,
	     "Deployment web: One pod of this cluster may ask for at most 2 GPUs"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: enforce}\n",
	     {.resources = "", .container = "'securityContext':{'privileged':true}"},
	     GQ_REASON_PRIVILEGED,
	     "Deployment web: containers/main"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {requireReadinessProbe: enforce}\n",
	     {.kind = GQ_WORKLOAD_STATEFUL_SET},
	     GQ_REASON_REQUIRE_READINESS_PROBE,
	     "StatefulSet web: containers/main holds a GPU and has neither readinessProbe"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {hostDevices: enforce}\n",
	     {.pod = "'volumes':[{'name':'dev','hostPath':{'path':'/dev/nvidia0'}}]"},
	     GQ_REASON_HOST_DEVICES,
	     "Deployment web: Volume dev (hostPath /dev/nvidia0)"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\n",
	     {.resources = "'nvidia.com/gpu':'x'"},
	     GQ_REASON_BAD_QUANTITY,
	     "Deployment web: containers/main asks for nvidia.com/gpu: x"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\n",
	     {.resources = "'nvidia.com/gpu.shared':'1'"},
	     GQ_REASON_UNSUPPORTED,
	     "Deployment web: containers/main asks for nvidia.com/gpu.shared"},
	    {TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 8}}\nambiguous: deny\n",
	     {.product = ""},
	     GQ_REASON_AMBIGUOUS_CLASS,
	     "Deployment web: "},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\n",
	     {.ns = "elsewhere"},
	     GQ_REASON_UNASSIGNED,
	     "Deployment web: Namespace elsewhere"},
	    {TEAM_A "    quota: {A100: {gpus: 8}}\n",
	     {.resources = "'deviceclass.resource.kubernetes.io/gpu.nvidia.com':'1'"},
	     GQ_REASON_CLAIM,
	     "Deployment web: The resource claim"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = world_new(cases[i].policy);
		world_namespace(w, "elsewhere", "");
		judge(w, &cases[i].spec, NULL);
		assert_verdict(w, GQ_VERDICT_DENY, cases[i].reason);
		if (strncmp(message_of(w), cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s", message_of(w));
		world_free(w);
	}
}

static void two_tenants_want_the_namespace(void **state)
{
	struct world *w = world_new("tenants:\n"
				    "  - {name: x, namespaceSelector: {matchLabels: {x: y}}}\n"
				    "  - {name: z, namespaceSelector: {matchLabels: {z: y}}}\n");

	(void)state;
	world_namespace(w, "both", "x=y,z=y");
	judge(w, W(.ns = "both"), NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_AMBIGUOUS_NAMESPACE);
	world_free(w);
}

static void exempt_namespaces_and_no_gpus(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 1}}\nexempt: {namespaces: [infra]}\n"
			     "rules: {privileged: enforce}\n");

	(void)state;
	judge(w, W(.ns = "infra", .resources = "'nvidia.com/gpu':'9'"), NULL);
	assert_silent(w);
	assert_int_equal(w->verdict.reason, GQ_REASON_EXEMPT);
	judge(w, W(.ns = "elsewhere", .resources = ""), NULL);
	assert_silent(w);
	assert_int_equal(w->verdict.reason, GQ_REASON_NO_GPU);
	world_free(w);
}

/* ---- claims ---- */

static void answer_read(struct world *w, const char *path, int code, const char *body)
{
	for (size_t i = 0; i < w->reads.n; i++) {
		struct gq_read *read = &w->reads.items[i];
		if (strcmp(read->path, path) != 0)
			continue;
		read->done = true;
		read->code = code;
		read->body = body ? json_of(body) : NULL;
		read->len = body ? strlen(body) : 0;
		return;
	}
	fail_msg("nobody asks for %s", path);
}

#define CLAIMS                                                                                     \
	"'resourceClaims':[{'name':'c','resourceClaimTemplateName':'t'},"                          \
	"{'name':'d','resourceClaimName':'n'}]"
#define TEMPLATE_PATH "/apis/resource.k8s.io/v1/namespaces/a-train/resourceclaimtemplates/t"
#define CLAIM_PATH "/apis/resource.k8s.io/v1/namespaces/a-train/resourceclaims/n"
#define REQUESTS "{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'%s'}}]}}"

/* One that does not exist yet may be of anything, and comes before the pods. */
static void claims_that_do_not_exist_yet(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1}}\n");
	const struct workload_spec spec = {.resources = "", .pod = CLAIMS};

	(void)state;
	assert_int_equal(judge(w, &spec, NULL), GQ_VERDICT_READ);
	answer_read(w, TEMPLATE_PATH, GQ_ENOTFOUND, NULL);
	answer_read(w, CLAIM_PATH, GQ_ENOTFOUND, NULL);
	judge(w, &spec, NULL);
	assert_silent(w);
	gq_reads_done(&w->reads);

	/* of a pod they are a reason */
	const struct pod_spec pod = {.resources = "", .spec = CLAIMS};
	assert_int_equal(world_ask(w, &pod, &(struct ask){0}), GQ_VERDICT_READ);
	answer_read(w, TEMPLATE_PATH, GQ_ENOTFOUND, NULL);
	answer_read(w, CLAIM_PATH, GQ_ENOTFOUND, NULL);
	assert_int_equal(world_ask(w, &pod, &(struct ask){0}), GQ_VERDICT_DENY);
	gq_reads_done(&w->reads);
	world_free(w);
}

static void claims_of_gpus(void **state)
{
	static const struct {
		const char *device_class;
		int class_code;
		bool allowed;
	} cases[] = {{"gpu.nvidia.com", 0, false},
		     {"fast-disk", GQ_ENOTFOUND, true},
		     {"fast-disk", GQ_EDENIED, false}};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1}}\n");
		const struct workload_spec spec = {
		    .resources = "",
		    .pod = "'resourceClaims':[{'name':'c','resourceClaimTemplateName':'t'}]"};
		char body[512];
		assert_int_equal(judge(w, &spec, NULL), GQ_VERDICT_READ);
		(void)snprintf(body, sizeof body, "{'spec':{'spec':" REQUESTS "}}",
			       cases[i].device_class);
		answer_read(w, TEMPLATE_PATH, 0, body);
		if (judge(w, &spec, NULL) == GQ_VERDICT_READ) {
			answer_read(w, "/apis/resource.k8s.io/v1/deviceclasses/fast-disk",
				    cases[i].class_code, NULL);
			judge(w, &spec, NULL);
		}
		if (cases[i].allowed)
			assert_silent(w);
		else
			assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_CLAIM);
		gq_reads_done(&w->reads);
		world_free(w);
	}
}

/* ---- updates ---- */

#define PRIVILEGED "'securityContext':{'privileged':true}"

static void updates_that_are_not_judged(void **state)
{
	static const struct {
		struct workload_spec before, now;
	} cases[] = {
	    {{.resources = "'nvidia.com/gpu':'9'"}, {.resources = "'nvidia.com/gpu':'9'"}},
	    {{.resources = "'nvidia.com/gpu':'9'", .fields = "'replicas':4"},
	     {.resources = "'nvidia.com/gpu':'9'", .fields = "'replicas':3"}},
	    {{.resources = "'nvidia.com/gpu':'9'"},
	     {.resources = "'nvidia.com/gpu':'9'", .meta = "'labels':{'a':'b'}"}},
	    {{.resources = "'nvidia.com/gpu':'1'"},
	     {.resources = "'nvidia.com/gpu':'9'", .meta = "'deletionTimestamp':'now'"}},
	    {{.container = PRIVILEGED, .fields = "'replicas':4"},
	     {.container = PRIVILEGED, .fields = "'replicas':3"}},
	    {{.container = PRIVILEGED}, {.container = PRIVILEGED, .meta = "'labels':{'a':'b'}"}},
	    {{.kind = GQ_WORKLOAD_DAEMON_SET, .resources = "'nvidia.com/gpu':'9'"},
	     {.kind = GQ_WORKLOAD_DAEMON_SET, .resources = "'nvidia.com/gpu':'9'"}},
	    {{.ns = "elsewhere", .fields = "'replicas':9"}, {.ns = "elsewhere"}},
	};
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: enforce}\n");

	(void)state;
	world_namespace(w, "elsewhere", "");
	for (size_t i = 0; i < LEN(cases); i++) {
		judge(w, &cases[i].now, &cases[i].before);
		assert_silent(w);
	}
	world_free(w);
}

/* More pods of a template that breaks a rule: nobody is kept from growing, but everybody learns
 * why nothing comes of it. */
static void growth_of_what_breaks_a_rule(void **state)
{
	static const char refused[] =
	    "Deployment web: Its new pods are refused:\n"
	    "containers/main is privileged, which opens every device of the node to it: remove "
	    "securityContext.privileged.";
	static const char *const modes[] = {"enforce", "warn", "audit", "disabled"};

	(void)state;
	for (size_t i = 0; i < LEN(modes); i++) {
		char policy[256];
		(void)snprintf(policy, sizeof policy,
			       TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: %s}\n",
			       modes[i]);
		struct world *w = world_new(policy);
		for (int gpus = 0; gpus < 2; gpus++) {
			const char *asks = gpus ? "'nvidia.com/gpu':'1'" : "";
			struct workload_spec before = {.container = PRIVILEGED, .resources = asks};
			struct workload_spec now = before;
			now.fields = "'replicas':2";
			for (int scaled = 0; scaled < 2; scaled++) {
				if (scaled)
					scale(w, &before, 2);
				else
					judge(w, &now, &before);
				assert_int_equal(w->verdict.kind, GQ_VERDICT_ALLOW);
				assert_int_equal(w->verdict.message.len, 0);
				assert_int_equal(w->verdict.n_warnings, i < 2);
				assert_int_equal(w->verdict.audit.len > 0, i == 2);
				if (i < 3)
					assert_int_equal(w->verdict.reason, GQ_REASON_PRIVILEGED);
				if (i == 0)
					assert_string_equal(warnings_of(w), refused);
			}
		}
		world_free(w);
	}
}

/* Nor is anybody kept from it whose pods are refused for another reason. */
static void growth_in_a_namespace_of_nobody(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	world_namespace(w, "elsewhere", "");
	judge(w, W(.ns = "elsewhere", .fields = "'replicas':9"), W(.ns = "elsewhere"));
	assert_verdict(w, GQ_VERDICT_ALLOW, GQ_REASON_UNASSIGNED);
	assert_ptr_equal(strstr(warnings_of(w), "Deployment web: Its new pods are refused:\n"
						"Namespace elsewhere belongs to no tenant"),
			 warnings_of(w));
	world_free(w);
}

/* In the language of the tenant. */
static void growth_in_chinese(void **state)
{
	struct world *w = world_new("locale: zh\n" TEAM_A "    quota: {A100: {gpus: 8}}\n"
				    "rules: {privileged: enforce}\n");

	(void)state;
	scale(w, W(.container = PRIVILEGED), 2);
	assert_ptr_equal(strstr(warnings_of(w), "Deployment web：它的新 Pod 会被拒绝：\n"
						"containers/main 是特权容器"),
			 warnings_of(w));
	world_free(w);
}

/* A changed template is judged as a new one, whatever the old one was like. */
static void a_changed_template(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: enforce}\n");
	static const char nine[] = "'nvidia.com/gpu':'9'";

	(void)state;
	judge(w, W(.resources = nine), W(.resources = "'nvidia.com/gpu':'1'"));
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	judge(w, W(.resources = nine, .annotation = "new"), W(.resources = nine));
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	judge(w, W(.container = PRIVILEGED, .annotation = "new"), W(.container = PRIVILEGED));
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_PRIVILEGED);
	world_free(w);
}

static void read_failed(struct world *w)
{
	for (size_t i = 0; i < w->reads.n; i++) {
		w->reads.items[i].done = true;
		w->reads.items[i].code = GQ_EIO;
	}
}

/* Whatever is wrong, a scale is not refused for it. */
static void a_scale_only_warns(void **state)
{
	static const struct workload_spec cases[] = {
	    {.resources = "'nvidia.com/gpu':'9'"},
	    {.resources = "'nvidia.com/gpu':'x'"},
	    {.container = PRIVILEGED},
	    {.ns = "elsewhere"},
	    {.product = L40S},
	    {.resources = "", .pod = CLAIMS},
	};
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: enforce}\n");
	struct world *unready = world_bare(NULL);

	(void)state;
	world_namespace(w, "elsewhere", "");
	for (size_t i = 0; i < LEN(cases); i++) {
		if (scale(w, &cases[i], INT64_MAX) == GQ_VERDICT_READ) {
			read_failed(w);
			assert_int_equal(scale(w, &cases[i], INT64_MAX), GQ_VERDICT_ALLOW);
			assert_silent(w);
		}
		assert_int_equal(w->verdict.kind, GQ_VERDICT_ALLOW);
		assert_int_equal(scale(w, &cases[i], INT64_MIN), GQ_VERDICT_ALLOW);
		assert_int_equal(scale(unready, &cases[i], 9), GQ_VERDICT_ALLOW);
		assert_int_equal(unready->verdict.message.len, 0);
	}
	world_free(w);
	gq_ledger_free(unready->ledger);
	gq_verdict_done(&unready->verdict);
	free(unready);
}

/* ---- not decided ---- */

static void no_opinion(void **state)
{
	static const char policy[] =
	    TEAM_A "    namespaceSelector: {matchLabels: {a: b}}\n    quota: {A100: {gpus: 8}}\n";
	struct world *w = world_new(policy);
	struct world *unready = world_bare(policy);

	(void)state;
	assert_int_equal(judge_at(w, W(.ns = "a-train"), NULL, w->now_ns), GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_TOO_LATE);
	assert_int_equal(judge(w, W(.ns = "not-seen"), NULL), GQ_VERDICT_READ);
	assert_string_equal(w->reads.items[0].path, "/api/v1/namespaces/not-seen");
	gq_reads_done(&w->reads);
	assert_int_equal(judge(unready, W(.ns = "a-train"), NULL), GQ_VERDICT_UNAVAILABLE);
	world_free(w);
	gq_ledger_free(unready->ledger);
	gq_verdict_done(&unready->verdict);
	free(unready);
}

/* Words may be missing then, but none is half there, and nobody is let through. */
static void too_little_memory(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: warn}\n");
	const struct workload_spec never = {.resources = "'nvidia.com/gpu':'9'"};
	const struct workload_spec many = {.fields = "'replicas':9", .container = PRIVILEGED};

	(void)state;
	allocations_left = 0;
	do {
		assert_int_not_equal(judge(w, &never, NULL), GQ_VERDICT_ALLOW);
		allocations_left++;
	} while (out_of_memory);
	assert_true(allocations_left > 5);
	allocations_left = 0;
	do {
		enum gq_verdict_kind kind = judge(w, &many, NULL);
		if (kind == GQ_VERDICT_ALLOW && w->verdict.n_warnings < 3)
			assert_true(w->verdict.warnings_cut);
		for (size_t i = 0; kind == GQ_VERDICT_ALLOW && i < w->verdict.n_warnings; i++)
			assert_true(w->verdict.warnings[i].len > 0);
		allocations_left++;
	} while (out_of_memory);
	assert_int_equal(w->verdict.n_warnings, 3);
	allocations_left = -1;
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pod_that_could_never_fit),
	    cmocka_unit_test(never_is_not_now),
	    cmocka_unit_test(parents_and_modes),
	    cmocka_unit_test(grants_of_this_moment),
	    cmocka_unit_test(what_is_said_of_a_pod_is_said_of_a_template),
	    cmocka_unit_test(two_tenants_want_the_namespace),
	    cmocka_unit_test(exempt_namespaces_and_no_gpus),
	    cmocka_unit_test(claims_that_do_not_exist_yet),
	    cmocka_unit_test(claims_of_gpus),
	    cmocka_unit_test(updates_that_are_not_judged),
	    cmocka_unit_test(growth_of_what_breaks_a_rule),
	    cmocka_unit_test(growth_in_a_namespace_of_nobody),
	    cmocka_unit_test(growth_in_chinese),
	    cmocka_unit_test(a_changed_template),
	    cmocka_unit_test(a_scale_only_warns),
	    cmocka_unit_test(no_opinion),
	    cmocka_unit_test(too_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
