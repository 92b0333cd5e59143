#include <string.h>

#include "quota/policy_impl.h"

#define OWN_MAX 2

/* Own keys of rules that are absent are NULL. */
static void read_allow(struct gq_policy_reader *r, const struct gq_yaml_node *const own[OWN_MAX])
{
	struct gq_rules *rules = &r->policy->rules;

	if (own[0])
		rules->allowed_paths = gq_policy_allowed_paths(r, own[0], &rules->n_allowed_paths);
}

#define NAME(name) name,
static const char *const gpu_schedulers[] = {GQ_GPU_SCHEDULERS(NAME)};
#define N_GPU_SCHEDULERS (sizeof gpu_schedulers / sizeof *gpu_schedulers)

static void read_gpu_schedulers(struct gq_policy_reader *r,
				const struct gq_yaml_node *const own[OWN_MAX])
{
	struct gq_rules *rules = &r->policy->rules;

	if (!own[0])
		return;
	rules->gpu_schedulers = gq_policy_schedulers(r, own[0], &rules->n_gpu_schedulers);
	for (size_t i = 0; i < rules->n_gpu_schedulers; i++) {
		size_t k = 0;
		while (k < N_GPU_SCHEDULERS &&
		       strcmp(rules->gpu_schedulers[i], gpu_schedulers[k]) != 0)
			k++;
		if (k == N_GPU_SCHEDULERS)
			GQ_REPORT(r, own[0], "name hami-scheduler, kai-scheduler, or none with []",
				  "the API server does not ask about pods of scheduler \"%s\"",
				  rules->gpu_schedulers[i]);
	}
}

static void read_only_schedulers(struct gq_policy_reader *r,
				 const struct gq_yaml_node *const own[OWN_MAX])
{
	struct gq_rules *rules = &r->policy->rules;

	if (own[0])
		rules->only_schedulers = gq_policy_schedulers(r, own[0], &rules->n_only_schedulers);
}

static void read_pod_limit(struct gq_policy_reader *r,
			   const struct gq_yaml_node *const own[OWN_MAX])
{
	gq_policy_read_pod_limit_keys(r, own[0], own[1], &r->policy->rules.pod_limit);
}

static void read_resources(struct gq_policy_reader *r,
			   const struct gq_yaml_node *const own[OWN_MAX])
{
	struct gq_rules *rules = &r->policy->rules;

	if (own[0])
		rules->vgpus = gq_policy_vgpus(r, own[0], &rules->n_vgpus);
}

static const struct rule_kind {
	const char *name;
	bool about_requests; /* what a tenant asks for: no exempt service accounts */
	struct gq_policy_field own[OWN_MAX];
	void (*read_own)(struct gq_policy_reader *r, const struct gq_yaml_node *const own[OWN_MAX]);
} kinds[GQ_RULES] = {
    [GQ_RULE_PRIVILEGED] = {.name = "privileged"},
    [GQ_RULE_RUNTIME_SOCKETS] = {.name = "containerRuntimeSockets"},
    [GQ_RULE_HOST_DEVICES] = {.name = "hostDevices"},
    [GQ_RULE_HOST_PATH] = {.name = "hostPath",
			   .own = {{"allow", GQ_POLICY_LIST, false, NULL}},
			   .read_own = read_allow},
    [GQ_RULE_GPU_WITHOUT_REQUEST] = {.name = "gpuWithoutRequest",
				     .own = {{"schedulerNames", GQ_POLICY_LIST, false, NULL}},
				     .read_own = read_gpu_schedulers},
    [GQ_RULE_BYPASS_LABELS] = {.name = "bypassLabels",
			       .own = {{"schedulerNames", GQ_POLICY_LIST, false, NULL}},
			       .read_own = read_only_schedulers},
    [GQ_RULE_POD_LIMIT] = {.name = "podLimit",
			   .about_requests = true,
			   .own = {{"gpus", GQ_POLICY_SCALAR, false, NULL},
				   {"classes", GQ_POLICY_MAP, false, NULL}},
			   .read_own = read_pod_limit},
    [GQ_RULE_REQUIRE_GPU_MEMORY] = {.name = "requireGpuMemory",
				    .about_requests = true,
				    .own = {{"resources", GQ_POLICY_LIST, false, NULL}},
				    .read_own = read_resources},
    [GQ_RULE_REQUIRE_USER_NAMESPACE] = {.name = "requireUserNamespace"},
    [GQ_RULE_REQUIRE_READINESS_PROBE] = {.name = "requireReadinessProbe"},
};

const char *gq_rule_name(enum gq_rule_id id)
{
	return kinds[id].name;
}

/* Each rule's entry in a map of rules, NULL where it has none. */
static void find_rules(struct gq_policy_reader *r, const struct gq_yaml_node *map,
		       const struct gq_yaml_node *values[GQ_RULES])
{
	struct gq_policy_field fields[GQ_RULES];

	for (int id = 0; id < GQ_RULES; id++)
		fields[id] = (struct gq_policy_field){kinds[id].name, GQ_POLICY_ANY, false, NULL};
	gq_policy_fields(r, map, "rules", fields, GQ_RULES, values);
}

static void read_mode(struct gq_policy_reader *r, enum gq_rule_id id,
		      const struct gq_yaml_node *node)
{
	struct gq_hint hint;

	if (id == GQ_RULE_POD_LIMIT && node->scalar == GQ_YAML_NUMBER) {
		gq_hint(&hint, "write {mode: enforce, gpus: %.40s}", node->text);
		GQ_REPORT(r, node, hint.text, "podLimit does not say its mode");
		return;
	}
	int mode = gq_policy_word(r, node, kinds[id].name, gq_policy_rule_modes);
	if (mode < 0)
		return;
	r->policy->rules.by[id].mode = (enum gq_mode)mode;
	if (id != GQ_RULE_POD_LIMIT || mode == GQ_MODE_DISABLED)
		return;
	gq_hint(&hint, "write {mode: %s, gpus: 4}", gq_policy_rule_modes[mode]);
	GQ_REPORT(r, node, hint.text, "podLimit does not say how many gpus");
}

static void read_map(struct gq_policy_reader *r, enum gq_rule_id id,
		     const struct gq_yaml_node *node)
{
	enum { MODE, NAMESPACES, ACCOUNTS, OWN, N = OWN + OWN_MAX };
	const struct rule_kind *kind = &kinds[id];
	struct gq_policy_field fields[N] = {
	    [MODE] = {"mode", GQ_POLICY_SCALAR, true, "write mode: enforce"},
	    [NAMESPACES] = {"exemptNamespaces", GQ_POLICY_LIST, false, NULL},
	    [ACCOUNTS] = {"exemptServiceAccounts",
			  kind->about_requests ? GQ_POLICY_REFUSED : GQ_POLICY_LIST, false, NULL},
	};
	const struct gq_yaml_node *value[N] = {NULL};
	struct gq_rule *rule = &r->policy->rules.by[id];
	size_t n = OWN;

	for (size_t i = 0; i < OWN_MAX && kind->own[i].key; i++)
		fields[n++] = kind->own[i];
	gq_policy_fields(r, node, kind->name, fields, n, value);
	int mode = gq_policy_word(r, value[MODE], "mode", gq_policy_rule_modes);
	if (mode >= 0)
		rule->mode = (enum gq_mode)mode;
	if (value[NAMESPACES])
		rule->exempt_namespaces =
		    gq_policy_namespaces(r, value[NAMESPACES], &rule->n_exempt_namespaces);
	if (value[ACCOUNTS] && kind->about_requests)
		GQ_REPORT(r, value[ACCOUNTS]->key, "exempt namespaces",
			  "%s: service accounts can't be exempt, since a tenant chooses what "
			  "its pods run as",
			  kind->name);
	else if (value[ACCOUNTS])
		rule->exempt_accounts =
		    gq_policy_accounts(r, value[ACCOUNTS], &rule->n_exempt_accounts);
	if (kind->read_own)
		kind->read_own(r, value + OWN);
	if (id != GQ_RULE_POD_LIMIT || node->kind != GQ_YAML_MAP)
		return;
	r->pod_limit_given = gq_policy_has(node, "gpus") || gq_policy_has(node, "classes");
	if (!r->pod_limit_given && mode >= 0 && mode != GQ_MODE_DISABLED)
		GQ_REPORT(r, node, "write gpus: 4", "podLimit does not say how many gpus");
}

/* What holds where the policy says nothing; of a rule that is off too, since a tenant may switch it
 * on. */
static void set_defaults(struct gq_rules *rules)
{
	static const char *const memory[] = {"nvidia.com/gpumem", "nvidia.com/gpumem-percentage"};
	static const struct gq_vgpu_names hami[] = {{"nvidia.com/gpu", memory, 2}};

	for (int id = 0; id < GQ_RULES; id++)
		rules->by[id].mode = GQ_MODE_DISABLED;
	rules->pod_limit.shares = GQ_UNLIMITED;
	rules->gpu_schedulers = gpu_schedulers;
	rules->n_gpu_schedulers = N_GPU_SCHEDULERS;
	rules->vgpus = hami;
	rules->n_vgpus = sizeof hami / sizeof hami[0];
}

void gq_policy_read_rules(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	const struct gq_yaml_node *value[GQ_RULES];

	set_defaults(&r->policy->rules);
	if (!node)
		return;
	find_rules(r, node, value);
	for (int id = 0; id < GQ_RULES; id++) {
		if (!value[id])
			continue;
		if (value[id]->kind == GQ_YAML_SCALAR && value[id]->scalar != GQ_YAML_NULL)
			read_mode(r, (enum gq_rule_id)id, value[id]);
		else
			read_map(r, (enum gq_rule_id)id, value[id]);
	}
}

void gq_policy_read_tenant_rules(struct gq_policy_reader *r, const struct gq_yaml_node *map,
				 struct gq_tenant *tenant)
{
	const struct gq_yaml_node *value[GQ_RULES];
	struct gq_hint hint;

	find_rules(r, map, value);
	for (int id = 0; id < GQ_RULES; id++) {
		const struct gq_yaml_node *node = value[id];
		if (!node)
			continue;
		if (node->kind == GQ_YAML_MAP) {
			gq_hint(&hint, "write %s: warn; keys stand in the policy's own \"rules\"",
				kinds[id].name);
			GQ_REPORT(r, node, hint.text, "%s: a tenant gives a mode alone",
				  kinds[id].name);
			continue;
		}
		int mode = gq_policy_word(r, node, kinds[id].name, gq_policy_rule_modes);
		if (mode < 0)
			continue;
		tenant->rule_modes[id] = (signed char)mode;
		if (id == GQ_RULE_POD_LIMIT && mode != GQ_MODE_DISABLED && !r->pod_limit_given)
			GQ_REPORT(r, node,
				  "write podLimit: {mode: disabled, gpus: 4} there, or podLimit: "
				  "{gpus: 4} outside the tenant's \"rules\"",
				  "podLimit: the policy's own \"rules\" do not say how many gpus");
	}
}
