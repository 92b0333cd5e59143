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

static void check_policy(const struct gq_policy *policy)
{
	int classes = (int)gq_class_count(policy->classes);

	for (size_t i = 0; i < policy->n_tenants; i++) {
		const struct gq_tenant *t = &policy->tenants[i];
		int above = 0;
		for (int p = t->parent; p >= 0; p = policy->tenants[p].parent)
			check(++above <= GQ_TENANT_DEPTH_MAX);
		check(*t->name && t->mode < GQ_MODE_DISABLED && t->pod_limit.shares >= 0);
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
