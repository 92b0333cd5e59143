#include "ledger_fixture.h"

#include "workload_testing.h"

/* What users of workloads are told. */

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"

/* A workload in short; everything that is left out has the default in brackets. JSON is written
 * with single quotes. */
struct workload_spec {
	enum gq_workload_kind kind; /* [Deployment] */
	const char *ns;             /* [a-train] */
	const char *fields;         /* of its spec, "'replicas':4" */
	const char *resources;      /* limits of the container, [one GPU] */
	const char *container;      /* further fields of the container */
	const char *pod;            /* further fields of the pod's spec */
	const char *product;        /* nodeSelector nvidia.com/gpu.product; "" none [A100_80] */
	const char *meta;           /* further fields of the object's metadata */
	const char *annotation;     /* of the template */
};

static struct gq_workload make(const struct workload_spec *spec)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	bool cron = spec->kind == GQ_WORKLOAD_CRON_JOB;
	const char *product = spec->product ? spec->product : A100_80;

	gq_buf_printf(&json, "{'metadata':{'name':'web','namespace':'%s'%s%s},",
		      spec->ns ? spec->ns : "a-train", spec->meta ? "," : "",
		      spec->meta ? spec->meta : "");
	gq_buf_puts(&json, spec->kind == GQ_WORKLOAD_POD_TEMPLATE ? "" : "'spec':{");
	gq_buf_puts(&json, cron ? "'jobTemplate':{'spec':{" : "");
	if (spec->fields)
		gq_buf_printf(&json, "%s,", spec->fields);
	gq_buf_printf(&json, "'template':{'metadata':{'annotations':{'a':'%s'}},'spec':{",
		      spec->annotation ? spec->annotation : "");
	if (*product)
		gq_buf_printf(&json, "'nodeSelector':{'" PRODUCT "':'%s'},", product);
	gq_buf_printf(&json, "'containers':[{'name':'main','resources':{'limits':{%s}}%s%s}]%s%s}}",
		      spec->resources ? spec->resources : "'nvidia.com/gpu':'1'",
		      spec->container ? "," : "", spec->container ? spec->container : "",
		      spec->pod ? "," : "", spec->pod ? spec->pod : "");
	gq_buf_puts(&json, spec->kind == GQ_WORKLOAD_POD_TEMPLATE ? "}" : cron ? "}}}}" : "}}");
	assert_int_equal(json.code, 0);
	return workload_of(spec->kind, json.data);
}

static enum gq_verdict_kind judge_at(struct world *w, const struct workload_spec *spec,
				     const struct workload_spec *before, int64_t deadline_ns)
{
	struct gq_workload now = make(spec), old = {0};
	struct gq_err err = {0};

	if (before)
		old = make(before);
	const struct gq_workload_review review = {.now = &now,
						  .before = before ? &old : NULL,
						  .user = "jane",
						  .now_ns = w->now_ns,
						  .wall_s = w->wall_s,
						  .deadline_ns = deadline_ns,
						  .reads = &w->reads};
	if (gq_decide_workload(w->ledger, &review, &w->verdict, &err))
		fail_msg("%s", err.msg);
	gq_workload_done(&now);
	gq_workload_done(&old);
	return w->verdict.kind;
}

static enum gq_verdict_kind judge(struct world *w, const struct workload_spec *spec,
				  const struct workload_spec *before)
{
	return judge_at(w, spec, before, w->now_ns + 10 * S);
}

static enum gq_verdict_kind scale(struct world *w, const struct workload_spec *spec, int64_t pods)
{
	struct gq_workload now = make(spec);
	struct gq_err err = {0};
	const struct gq_workload_review review = {.now = &now,
						  .user = "jane",
						  .now_ns = w->now_ns,
						  .wall_s = w->wall_s,
						  .deadline_ns = w->now_ns + 10 * S,
						  .reads = &w->reads};

	if (gq_decide_scale(w->ledger, &review, pods, &w->verdict, &err))
		fail_msg("%s", err.msg);
	gq_workload_done(&now);
	return w->verdict.kind;
}

#define W(...) (&(struct workload_spec){__VA_ARGS__})

/* Every warning on its line. */
static const char *warnings_of(const struct world *w)
{
	static char lines[8192];
	size_t len = 0;

	lines[0] = '\0';
	for (size_t i = 0; i < w->verdict.n_warnings; i++)
		len += (size_t)snprintf(lines + len, sizeof lines - len, "%s%s", i ? "\n" : "",
					w->verdict.warnings[i].data);
	return lines;
}

#define assert_verdict(w, wanted_kind, wanted_reason)                                              \
	do {                                                                                       \
		if ((w)->verdict.kind != (wanted_kind) || (w)->verdict.reason != (wanted_reason))  \
			fail_msg("%d, %s: %s", (w)->verdict.kind,                                  \
				 gq_reason_name((w)->verdict.reason), message_of(w));              \
	} while (0)

/* Allowed without a word. */
static void assert_silent(const struct world *w)
{
	if (w->verdict.kind != GQ_VERDICT_ALLOW || w->verdict.n_warnings || w->verdict.audit.len)
		fail_msg("%d, %s: %s\n%s", w->verdict.kind, gq_reason_name(w->verdict.reason),
			 message_of(w), warnings_of(w));
}

#define assert_warned(w, text)                                                                     \
	do {                                                                                       \
		assert_verdict(w, GQ_VERDICT_ALLOW, GQ_REASON_OVER_LIMIT);                         \
		assert_string_equal(warnings_of(w), text);                                         \
	} while (0)

static void assert_denied(const struct world *w, enum gq_reason reason, const char *text)
{
	assert_verdict(w, GQ_VERDICT_DENY, reason);
	assert_string_equal(message_of(w), text);
}

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
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1}}\nexempt: {namespaces: [infra]}\n"
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

/* ---- warned ---- */

#define FIVE_OF_EIGHT "    quota: {A100: {gpus: 8}}\n"

static void not_all_of_them_fit_now(void **state)
{
	struct world *w = world_new(TEAM_A FIVE_OF_EIGHT);

	(void)state;
	RUN(w, .name = "p1", .gpus = 5, .product = A100_80);
	judge(w, W(.kind = GQ_WORKLOAD_STATEFUL_SET, .fields = "'replicas':3"), NULL);
	assert_silent(w);
	judge(w, W(.kind = GQ_WORKLOAD_STATEFUL_SET, .fields = "'replicas':4"), NULL);
	assert_warned(w, "StatefulSet web: team-a may hold 8 A100 GPUs and has 3 free; this "
			 "StatefulSet needs 4 (4 pods of 1): 1 too few.\n"
			 "StatefulSet web: At most 3 of its pods fit now, and the others are "
			 "refused until GPUs come free: set spec.replicas to 3.");
	judge(w,
	      W(.fields = "'replicas':4,'strategy':{'type':'Recreate'}",
		.resources = "'nvidia.com/gpu':'3','nvidia.com/gpumem-percentage':'50'"),
	      NULL);
	assert_warned(w, "Deployment web: team-a may hold 8 A100 GPUs and has 3 free; this "
			 "Deployment needs 6 (4 pods of 1.5): 3 too few.\n"
			 "Deployment web: At most 2 of its pods fit now, and the others are "
			 "refused until GPUs come free: set spec.replicas to 2.");
	judge(w, W(.kind = GQ_WORKLOAD_JOB, .fields = "'parallelism':9,'completions':4"), NULL);
	assert_warned(w, "Job web: team-a may hold 8 A100 GPUs and has 3 free; this Job needs 4 "
			 "(4 pods of 1): 1 too few.\n"
			 "Job web: At most 3 of its pods fit now, and the others are refused until "
			 "GPUs come free: set spec.parallelism to 3.");
	judge(w, W(.kind = GQ_WORKLOAD_CRON_JOB, .resources = "'nvidia.com/gpu':'4'"), NULL);
	assert_warned(w, "CronJob web: team-a may hold 8 A100 GPUs and has 3 free; this CronJob "
			 "needs 4 (1 pod of 4): 1 too few.\n"
			 "CronJob web: None of its new pods fits now: they are refused until GPUs "
			 "come free.");
	judge(w, W(.kind = GQ_WORKLOAD_JOB, .fields = "'parallelism':9,'suspend':true"), NULL);
	assert_silent(w);
	judge(w, W(.kind = GQ_WORKLOAD_POD_TEMPLATE, .resources = "'nvidia.com/gpu':'4'"), NULL);
	assert_silent(w);
	assert_usage(w, "team-a", "A100", "5/8 b0 p5 r0 t0");
	world_free(w);
}

static void pods_with_those_that_roll(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	judge(w, W(.fields = "'replicas':6"), NULL);
	assert_silent(w);
	judge(w, W(.fields = "'replicas':7"), NULL);
	assert_warned(w, "Deployment web: team-a may hold 8 A100 GPUs and has 8 free; this "
			 "Deployment needs 9 (7 pods of 1 and 2 more while it rolls): 1 too few.\n"
			 "Deployment web: All its pods fit, but not those that it starts besides "
			 "while it rolls: set maxSurge to 0 and maxUnavailable to 1.");
	judge(w, W(.fields = "'replicas':8,'strategy':{'rollingUpdate':{'maxSurge':0}}"), NULL);
	assert_silent(w);
	judge(w, W(.fields = "'replicas':12"), NULL);
	assert_warned(w,
		      "Deployment web: team-a may hold 8 A100 GPUs and has 8 free; this "
		      "Deployment needs 15 (12 pods of 1 and 3 more while it rolls): 7 too few.\n"
		      "Deployment web: At most 8 of its pods fit now, and the others are "
		      "refused until GPUs come free: set spec.replicas to 8.");
	world_free(w);
}

static void every_limit_has_its_say(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: research, mode: audit, quota: {\"*\": {gpus: 3}}}\n"
		      "  - {name: team-a, mode: warn, parent: research, namespaces: [a-train],\n"
		      "     quota: {A100: {gpus: 8, memory: 160Gi}, \"*\": {gpus: 10}}}\n");

	(void)state;
	judge(w, W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':4"), NULL);
	assert_warned(w,
		      "ReplicaSet web: team-a may hold 160Gi of A100 memory and has 160Gi free; "
		      "this ReplicaSet needs 320Gi (4 pods of 80Gi): 160Gi too little.\n"
		      "ReplicaSet web: research may hold 3 GPUs of any model and has 3 free, "
		      "with all its tenants, team-a among them; this ReplicaSet needs 4 (4 pods "
		      "of 1): 1 too few.\n"
		      "ReplicaSet web: At most 2 of its pods fit now, and the others are refused "
		      "until GPUs come free: set spec.replicas to 2.");
	world_free(w);
}

/* Its controller was judged when it was written, and warned about. */
static void what_has_a_controller(void **state)
{
	static const char owned[] = "'ownerReferences':[{'kind':'Deployment','controller':true}]";
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}}\n");

	(void)state;
	judge(w, W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':9", .meta = owned), NULL);
	assert_silent(w);
	judge(
	    w,
	    W(.kind = GQ_WORKLOAD_REPLICA_SET, .resources = "'nvidia.com/gpu':'3'", .meta = owned),
	    NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	world_free(w);
}

static void as_many_as_there_are_nodes(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 1}}\n");
	static const char four[] = "'nvidia.com/gpu':'4'";

	(void)state;
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .resources = four), NULL);
	assert_silent(w); /* a1, a2 */
	world_node(w, "a3", PRODUCT "=" A100_80);
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .resources = four), NULL);
	assert_warned(w,
		      "DaemonSet web: team-a may hold 8 A100 GPUs and has 8 free; this DaemonSet "
		      "needs 12 (3 pods of 4): 4 too few.\n"
		      "DaemonSet web: Its pods on some of the nodes are refused until GPUs come "
		      "free: give its template a nodeSelector for fewer nodes.");
	/* on both models: each limit counts its own nodes */
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = ""), NULL);
	assert_warned(w, "DaemonSet web: team-a may hold 1 H100 GPU and has 1 free; this DaemonSet "
			 "needs 2 (2 pods of 1): 1 too few.\n"
			 "DaemonSet web: Its pods on some of the nodes are refused until GPUs come "
			 "free: give its template a nodeSelector for fewer nodes.");
	judge(w,
	      W(.kind = GQ_WORKLOAD_DAEMON_SET, .resources = four,
		.fields = "'updateStrategy':{'rollingUpdate':{'maxSurge':'50%'}}"),
	      NULL);
	assert_non_null(strstr(warnings_of(w), "needs 20 (3 pods of 4 and 2 more while it rolls)"));
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = "NVIDIA-A100-PCIE-40GB"), NULL);
	assert_silent(w);
	world_free(w);
}

/* ---- updates ---- */

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
	    {{.container = "'securityContext':{'privileged':true}"},
	     {.container = "'securityContext':{'privileged':true}", .fields = "'replicas':2"}},
	    {{.kind = GQ_WORKLOAD_DAEMON_SET, .resources = "'nvidia.com/gpu':'9'"},
	     {.kind = GQ_WORKLOAD_DAEMON_SET, .resources = "'nvidia.com/gpu':'9'"}},
	    {{.ns = "elsewhere"}, {.ns = "elsewhere", .fields = "'replicas':9"}},
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

/* A changed template is judged as a new one, whatever the old one was like. */
static void a_changed_template(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}}\nrules: {privileged: enforce}\n");
	static const char nine[] = "'nvidia.com/gpu':'9'";
	static const char powers[] = "'securityContext':{'privileged':true}";

	(void)state;
	judge(w, W(.resources = nine), W(.resources = "'nvidia.com/gpu':'1'"));
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	judge(w, W(.resources = nine, .annotation = "new"), W(.resources = nine));
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	judge(w, W(.container = powers, .annotation = "new"), W(.container = powers));
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_PRIVILEGED);
	world_free(w);
}

/* What the pods that are replaced hold is there for the new ones, but for those that overlap. */
static void what_a_rollout_needs(void **state)
{
	static const struct {
		struct workload_spec before, now;
		const char *needs; /* NULL: it fits */
	} cases[] = {
	    /* eight of eight are held: one more while it rolls */
	    {{.fields = "'replicas':7"},
	     {.fields = "'replicas':7", .annotation = "new"},
	     "has 1 free; this Deployment needs 2 (7 pods of 1 and 2 more while it rolls in place "
	     "of 7 pods of 1): 1 too few."},
	    {{.fields = "'replicas':7,'strategy':{'rollingUpdate':{'maxSurge':1}}"},
	     {.fields = "'replicas':7,'strategy':{'rollingUpdate':{'maxSurge':1}}",
	      .annotation = "new"},
	     NULL},
	    {{.fields = "'replicas':7,'strategy':{'type':'Recreate'}"},
	     {.fields = "'replicas':8,'strategy':{'type':'Recreate'}", .annotation = "new"},
	     NULL},
	    {{.fields = "'replicas':7,'strategy':{'type':'Recreate'}"},
	     {.fields = "'replicas':9,'strategy':{'type':'Recreate'}", .annotation = "new"},
	     "needs 2 (9 pods of 1 in place of 7 pods of 1): 1 too few."},
	    /* fewer, larger pods */
	    {{.kind = GQ_WORKLOAD_STATEFUL_SET, .fields = "'replicas':7"},
	     {.kind = GQ_WORKLOAD_STATEFUL_SET,
	      .fields = "'replicas':3",
	      .resources = "'nvidia.com/gpu':'2'"},
	     "needs 3 (3 pods of 2 in place of 7 pods of 1): 2 too few."},
	    /* smaller ones: the first ones beside all of the old */
	    {{.fields = "'replicas':3", .resources = "'nvidia.com/gpu':'2'"},
	     {.fields = "'replicas':3,'strategy':{'rollingUpdate':{'maxSurge':2}}"},
	     "needs 2 (3 pods of 1 and 2 more while it rolls in place of 3 pods of 2): 1 too few."},
	    /* of another model: nothing of that is held */
	    {{.fields = "'replicas':7"},
	     {.fields = "'replicas':3", .product = H100},
	     "may hold 2 H100 GPUs and has 2 free; this Deployment needs 3 (3 pods of 1 and 1 more "
	     "while it rolls): 1 too few."},
	};
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 2}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 7, .product = A100_80);
	for (size_t i = 0; i < LEN(cases); i++) {
		judge(w, &cases[i].now, &cases[i].before);
		if (!cases[i].needs)
			assert_silent(w);
		else if (!strstr(warnings_of(w), cases[i].needs))
			fail_msg("%zu: %s", i, warnings_of(w));
	}
	world_free(w);
}

static void more_pods_than_before(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");
	static const char text[] =
	    "Deployment web: team-a may hold 8 A100 GPUs and has 4 free; this Deployment needs 6 "
	    "(6 more pods of 1): 2 too few.\n"
	    "Deployment web: At most 8 of its pods fit now, and the others are refused until GPUs "
	    "come free: set spec.replicas to 8.";

	(void)state;
	RUN(w, .name = "p1", .gpus = 4, .product = A100_80);
	judge(w, W(.fields = "'replicas':8"), W(.fields = "'replicas':4"));
	assert_silent(w);
	judge(w, W(.fields = "'replicas':10"), W(.fields = "'replicas':4"));
	assert_warned(w, text);
	assert_int_equal(scale(w, W(.fields = "'replicas':4"), 8), GQ_VERDICT_ALLOW);
	assert_silent(w);
	scale(w, W(.fields = "'replicas':4"), 10);
	assert_warned(w, text);
	scale(w, W(.fields = "'replicas':4"), 3);
	assert_silent(w);
	RUN(w, .name = "p2", .gpus = 4, .product = A100_80);
	scale(w, W(.fields = "'replicas':4"), 5);
	assert_warned(w, "Deployment web: team-a may hold 8 A100 GPUs and has 0 free; this "
			 "Deployment needs 1 (1 more pod of 1): 1 too few.\n"
			 "Deployment web: None of its new pods fits now: they are refused until "
			 "GPUs come free.");
	world_free(w);
}

/* Whatever is wrong, a scale is not refused for it. */
static void a_scale_only_warns(void **state)
{
	static const struct workload_spec cases[] = {
	    {.resources = "'nvidia.com/gpu':'9'"},
	    {.resources = "'nvidia.com/gpu':'x'"},
	    {.container = "'securityContext':{'privileged':true}"},
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
		assert_int_equal(scale(w, &cases[i], INT64_MAX), GQ_VERDICT_ALLOW);
		assert_int_equal(scale(w, &cases[i], INT64_MIN), GQ_VERDICT_ALLOW);
		assert_int_equal(scale(unready, &cases[i], 9), GQ_VERDICT_ALLOW);
		assert_int_equal(unready->verdict.message.len, 0);
	}
	world_free(w);
	gq_ledger_free(unready->ledger);
	gq_verdict_done(&unready->verdict);
	free(unready);
}

/* ---- numbers that nobody means ---- */

static void hostile_numbers(void **state)
{
	static const char *const resources[] = {
	    "'nvidia.com/gpu':'1'", "'nvidia.com/gpu':'9223372036854775807'",
	    "'nvidia.com/gpu':'1000000','nvidia.com/gpumem':'9223372036854775807'"};
	static const char fields[] =
	    "'replicas':2147483647,'parallelism':2147483647,'strategy':{'rollingUpdate':"
	    "{'maxSurge':2147483647}},'updateStrategy':{'rollingUpdate':{'maxSurge':"
	    "'2147483647%'}}";
	struct world *w = world_new(TEAM_A "    mode: warn\n    quota: {A100: {gpus: 8, memory: "
					   "1Gi}, \"*\": {gpus: 13000000}}\n");

	(void)state;
	for (int kind = 0; kind < GQ_WORKLOAD_KINDS; kind++) {
		for (size_t i = 0; i < LEN(resources); i++) {
			const struct workload_spec spec = {.kind = (enum gq_workload_kind)kind,
							   .resources = resources[i],
							   .fields = fields};
			assert_int_equal(judge(w, &spec, NULL), GQ_VERDICT_ALLOW);
			assert_true(w->verdict.n_warnings > 0);
			assert_int_equal(judge(w, &spec, W(.kind = (enum gq_workload_kind)kind)),
					 GQ_VERDICT_ALLOW);
			assert_int_equal(judge(w, W(.kind = (enum gq_workload_kind)kind), &spec),
					 GQ_VERDICT_ALLOW);
		}
	}
	world_policy(w, TEAM_A "    quota: {A100: {gpus: 8}}\n");
	judge(w, W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':2147483647"), NULL);
	assert_non_null(strstr(warnings_of(w), "needs 2147483647 (2147483647 pods of 1): "
					       "2147483639 too few."));
	world_free(w);
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

static void in_chinese(void **state)
{
	struct world *w = world_new("locale: zh\n" TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	judge(w, W(.fields = "'replicas':7"), NULL);
	assert_warned(
	    w, "Deployment web：租户 team-a 的配额为 8 张 A100 GPU，剩余 8 张；此 Deployment "
	       "需要 9 张（7 个 Pod，每个 1，滚动更新时另加 2 个），还缺 1 张。\n"
	       "Deployment web：其 Pod 全部可以容纳，但滚动更新时额外启动的 Pod 会被拒绝：请将 "
	       "maxSurge 设为 0，将 maxUnavailable 设为 1。");
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
	    cmocka_unit_test(not_all_of_them_fit_now),
	    cmocka_unit_test(pods_with_those_that_roll),
	    cmocka_unit_test(every_limit_has_its_say),
	    cmocka_unit_test(what_has_a_controller),
	    cmocka_unit_test(as_many_as_there_are_nodes),
	    cmocka_unit_test(updates_that_are_not_judged),
	    cmocka_unit_test(a_changed_template),
	    cmocka_unit_test(what_a_rollout_needs),
	    cmocka_unit_test(more_pods_than_before),
	    cmocka_unit_test(a_scale_only_warns),
	    cmocka_unit_test(hostile_numbers),
	    cmocka_unit_test(no_opinion),
	    cmocka_unit_test(in_chinese),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
