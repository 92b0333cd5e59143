#include <string.h>

#include "quota/policy_impl.h"

static void read_pod_limit(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	static const struct gq_policy_field fields[] = {
	    {"mode", GQ_POLICY_SCALAR, true, "write mode: enforce"},
	    {"gpus", GQ_POLICY_SCALAR, false, NULL},
	    {"exemptNamespaces", GQ_POLICY_LIST, false, NULL},
	};
	struct gq_rule *rule = &r->policy->rules.by[GQ_RULE_POD_LIMIT];
	const struct gq_yaml_node *value[3];
	struct gq_hint hint;

	if (node->kind == GQ_YAML_SCALAR && node->scalar != GQ_YAML_NULL) {
		int mode = gq_policy_word(r, node, "podLimit", gq_policy_rule_modes);
		if (mode < 0 || mode == GQ_MODE_DISABLED)
			return;
		gq_hint(&hint, "write {mode: %s, gpus: 4}", gq_policy_rule_modes[mode]);
		GQ_REPORT(r, node, hint.text, "podLimit does not say how many gpus");
		return;
	}
	if (!gq_policy_fields(r, node, "podLimit", fields, 3, value) && !value[0])
		return;
	int mode = gq_policy_word(r, value[0], "mode", gq_policy_rule_modes);
	bool counted = value[1] && gq_policy_gpus(r, value[1], &r->policy->rules.pod_limit.shares);
	if (value[2])
		rule->exempt_namespaces =
		    gq_policy_namespaces(r, value[2], &rule->n_exempt_namespaces);
	if (mode < 0 || mode == GQ_MODE_DISABLED)
		return;
	if (!gq_policy_has(node, "gpus"))
		GQ_REPORT(r, node, "write gpus: 4", "podLimit does not say how many gpus");
	if (counted)
		rule->mode = (enum gq_mode)mode;
}

/* Rules of later versions: known by name, and off. */
static void read_later_rule(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	static const struct gq_policy_field fields[] = {
	    {"mode", GQ_POLICY_SCALAR, true, "write mode: disabled"},
	    {"exemptNamespaces", GQ_POLICY_LIST, false, NULL},
	};
	const struct gq_yaml_node *value[2] = {node, NULL};
	size_t n;

	if (node->kind != GQ_YAML_SCALAR &&
	    !gq_policy_fields(r, node, node->key->text, fields, 2, value))
		return;
	int mode = gq_policy_word(r, value[0], value[0] == node ? node->key->text : "mode",
				  gq_policy_rule_modes);
	if (value[1])
		(void)gq_policy_namespaces(r, value[1], &n);
	if (mode >= 0 && mode != GQ_MODE_DISABLED)
		GQ_REPORT(r, node->key, "remove it or set it to disabled",
			  "rule %s is not supported yet by this version", GQ_QUOTE(node->key));
}

void gq_policy_read_rules(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	static const char *const later[] = {
	    "privileged",       "containerRuntimeSockets", "hostDevices", "gpuWithoutRequest",
	    "requireGpuMemory", "requireUserNamespace",    NULL};
	struct gq_hint hint;

	for (const struct gq_yaml_node *v = node ? node->first : NULL; v; v = v->next) {
		struct gq_nearest nearest = gq_nearest_to(v->key->text, v->key->len);
		size_t i = 0;
		if (strcmp(v->key->text, "podLimit") == 0) {
			read_pod_limit(r, v);
			continue;
		}
		gq_nearest_offer(&nearest, "podLimit");
		for (; later[i] && strcmp(later[i], v->key->text) != 0; i++)
			gq_nearest_offer(&nearest, later[i]);
		if (later[i]) {
			read_later_rule(r, v);
			continue;
		}
		if (nearest.best)
			gq_hint(&hint, "did you mean \"%s\"?", nearest.best);
		else
			gq_hint(&hint, "remove it; this version has the rule podLimit");
		GQ_REPORT(r, v->key, hint.text, "unknown rule %s", GQ_QUOTE(v->key));
	}
}
