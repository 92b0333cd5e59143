#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/ledger_internal.h"

struct gq_amount gq_usage_used(const struct gq_usage_limit *limit)
{
	struct gq_amount used =
	    gq_amount_add(limit->used[GQ_STATE_PENDING], limit->used[GQ_STATE_BOUND]);

	return gq_amount_add(used, limit->used[GQ_STATE_TERMINATING]);
}

struct gq_amount gq_usage_free(const struct gq_usage_limit *limit)
{
	struct gq_amount held = gq_amount_add(gq_usage_used(limit), limit->used[GQ_STATE_RESERVED]);

	return gq_amount_sub(limit->most, held);
}

void gq_usage_done(struct gq_usage *usage)
{
	for (size_t t = 0; t < usage->n_tenants; t++)
		free(usage->tenants[t].limits);
	free(usage->tenants);
	for (size_t i = 0; i < usage->n_uncharged; i++)
		free(usage->uncharged[i].namespace_);
	free(usage->uncharged);
	gq_policy_unref(usage->policy);
	*usage = (struct gq_usage){0};
}

static int copy_tenant(const struct gq_book *book, size_t t, int64_t now_ns, int64_t wall_s,
		       struct gq_usage_tenant *ret_tenant)
{
	const struct gq_book_tenant *from = &book->tenants[t];
	struct gq_usage_tenant to = {.name = from->spec->name, .mode = from->spec->mode};

	to.limits = calloc(from->n_limits + 1, sizeof *to.limits);
	if (!to.limits)
		return GQ_ENOMEM;
	if (from->parent >= 0)
		to.parent = book->tenants[from->parent].spec->name;
	for (size_t i = 0; i < from->n_limits; i++) {
		const struct gq_book_limit *limit = &from->limits[i];
		struct gq_usage_limit *copy = &to.limits[to.n_limits++];
		copy->class_name = gq_class_name(book->policy->classes, limit->class_id);
		copy->most = gq_book_most(limit, from, wall_s);
		memcpy(copy->used, limit->used.by, sizeof copy->used);
		/* a device whose memory nobody knows */
		for (int s = 0; s < GQ_STATES; s++)
			if (copy->used[s].memory_mib >= GQ_CHARGE_CAP)
				copy->used[s].memory_mib = GQ_UNLIMITED;
		double since_s = (double)(now_ns - limit->bound_since_ns) / (double)GQ_NS_PER_S;
		double shares =
		    limit->bound_share_s +
		    (double)limit->used.by[GQ_STATE_BOUND].shares * (since_s > 0 ? since_s : 0);
		copy->bound_gpu_seconds = shares / (double)GQ_SHARES_PER_GPU;
		copy->drift_total = limit->drift_total;
	}
	*ret_tenant = to;
	return 0;
}

static int copy_uncharged(struct gq_ledger *ledger, struct gq_usage *usage)
{
	unsigned bank = ledger->cur->bank;

	usage->uncharged = calloc(gq_map_count(ledger->namespaces) + 1, sizeof *usage->uncharged);
	if (!usage->uncharged)
		return GQ_ENOMEM;
	for (struct gq_list *at = ledger->all_namespaces.next; at != &ledger->all_namespaces;
	     at = at->next) {
		const struct gq_ns *ns = gq_list_entry(at, struct gq_ns, in_all);
		const struct gq_assign *assign = &ns->assign[bank];
		bool ambiguous = assign->kind == GQ_ASSIGN_AMBIGUOUS;
		if (assign->kind == GQ_ASSIGN_EXEMPT ||
		    (!ambiguous && (assign->tenant >= 0 || ns->n_slots == 0)))
			continue;
		char *name = strdup(ns->name);
		if (!name)
			return GQ_ENOMEM;
		usage->uncharged[usage->n_uncharged++] =
		    (struct gq_usage_uncharged){.namespace_ = name,
						.pods = assign->tenant < 0 ? ns->n_slots : 0,
						.ambiguous = ambiguous};
	}
	return 0;
}

int gq_ledger_usage(struct gq_ledger *ledger, int64_t now_ns, int64_t wall_s,
		    struct gq_usage *ret_usage, struct gq_err *err)
{
	struct gq_usage usage = {0};
	int code = 0;

	gq_ledger_lock(ledger);
	usage.synced = ledger->synced;
	memcpy(usage.charges, ledger->by_state, sizeof usage.charges);
	if (ledger->cur) {
		usage.policy = gq_policy_ref(ledger->cur->policy);
		usage.tenants = calloc(ledger->cur->n_tenants + 1, sizeof *usage.tenants);
		if (!usage.tenants)
			code = GQ_ENOMEM;
		for (size_t t = 0; !code && t < ledger->cur->n_tenants; t++) {
			code = copy_tenant(ledger->cur, t, now_ns, wall_s, &usage.tenants[t]);
			usage.n_tenants += !code;
		}
		if (!code)
			code = copy_uncharged(ledger, &usage);
	}
	gq_ledger_unlock(ledger);
	if (code) {
		gq_usage_done(&usage);
		return gq_fail(err, code, "out of memory for the usage");
	}
	*ret_usage = usage;
	return 0;
}
