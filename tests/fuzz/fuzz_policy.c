#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "quota/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold of every answer, whatever the bytes. */
static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_text(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0, width; i < len; i += width) {
		width = gq_utf8_width(text + i, len - i);
		check(width && (unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
	}
}

static void check_pod_limit(const struct gq_policy *policy, const struct gq_pod_limit *limit)
{
	check(limit->shares >= 0);
	for (size_t i = 0; i < limit->n_classes; i++) {
		const struct gq_class_shares *most = &limit->classes[i];
		check(most->class_id > GQ_CLASS_ANY &&
		      (size_t)most->class_id < gq_class_count(policy->classes));
		check(most->shares >= 0 && most->shares < GQ_UNLIMITED);
	}
}

static void check_rules(const struct gq_policy *policy)
{
	const struct gq_rules *rules = &policy->rules;

	for (int id = 0; id < GQ_RULES; id++) {
		const struct gq_rule *rule = &rules->by[id];
		check(rule->mode <= GQ_MODE_DISABLED);
		for (size_t i = 0; i < rule->n_exempt_namespaces; i++)
			check(*rule->exempt_namespaces[i]);
		for (size_t i = 0; i < rule->n_exempt_accounts; i++)
			check(*rule->exempt_accounts[i].namespace_ &&
			      *rule->exempt_accounts[i].name);
	}
	check_pod_limit(policy, &rules->pod_limit);
	check(rules->by[GQ_RULE_POD_LIMIT].mode == GQ_MODE_DISABLED ||
	      rules->pod_limit.shares != GQ_UNLIMITED || rules->pod_limit.n_classes);
	for (size_t i = 0; i < rules->n_allowed_paths; i++)
		check(rules->allowed_paths[i].prefix[0] == '/' &&
		      rules->allowed_paths[i].prefix[1]);
	for (size_t i = 0; i < rules->n_vgpus; i++)
		check(strchr(rules->vgpus[i].count, '/') && rules->vgpus[i].n_memory);
	for (size_t i = 0; i < rules->n_gpu_schedulers; i++)
		check(*rules->gpu_schedulers[i]);
	for (size_t i = 0; i < rules->n_only_schedulers; i++)
		check(*rules->only_schedulers[i]);
}

static void check_policy(const struct gq_policy *policy)
{
	int classes = (int)gq_class_count(policy->classes);

	for (size_t i = 0; i < policy->n_tenants; i++) {
		const struct gq_tenant *t = &policy->tenants[i];
		int above = 0;
		for (int p = t->parent; p >= 0; p = policy->tenants[p].parent)
			check(++above <= GQ_TENANT_DEPTH_MAX);
		check(*t->name && t->mode < GQ_MODE_DISABLED);
		check_pod_limit(policy, &t->pod_limit);
		for (int id = 0; id < GQ_RULES; id++)
			check(t->rule_modes[id] >= -1 && t->rule_modes[id] <= GQ_MODE_DISABLED);
		for (size_t l = 0; l < t->n_limits; l++) {
			check(t->limits[l].class_id >= 0 && t->limits[l].class_id < classes);
			check(t->limits[l].most.shares >= 0 && t->limits[l].most.memory_mib >= 0);
			check(t->limits[l].most.shares != GQ_UNLIMITED ||
			      t->limits[l].most.memory_mib != GQ_UNLIMITED);
		}
		check(!t->selector || t->selector->n_requirements > 0);
		if (t->selector)
			(void)gq_label_selector_matches(t->selector, NULL, 0);
	}
	for (size_t i = 0; i < policy->n_grants; i++) {
		const struct gq_grant *g = &policy->grants[i];
		check(g->tenant >= 0 && (size_t)g->tenant < policy->n_tenants);
		check(g->class_id >= 0 && g->class_id < classes);
		check(g->amount.shares >= 0 && g->amount.memory_mib >= 0);
		check_text(g->reason);
	}
	check_rules(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_policy *policy = NULL;
	struct gq_policy_problems problems = {0};

	int code = gq_policy_parse((const char *)data, size, "", &policy, &problems, NULL);
	if (code == 0) {
		check(problems.n_items == 0);
		check_policy(policy);
	} else {
		check(!policy && (code == GQ_ETOOBIG || code == GQ_EINVALID));
		check((code == GQ_EINVALID) == (problems.n_items > 0));
	}
	for (size_t i = 0; i < problems.n_items; i++) {
		const struct gq_policy_problem *p = &problems.items[i];
		check(p->line > 0 && p->column > 0);
		check(i == 0 || p[-1].line < p->line ||
		      (p[-1].line == p->line && p[-1].column <= p->column));
		check_text(p->message);
		if (p->suggestion)
			check_text(p->suggestion);
	}
	gq_policy_problems_done(&problems);
	gq_policy_unref(policy);
	return 0;
}
