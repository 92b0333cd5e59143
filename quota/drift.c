#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/ledger_internal.h"

/* What a recount finds wrong. A charge is wrong when its parts, or its state, are not what its pod
 * means; a limit is when its total is not the sum of its charges, or a charge in it is wrong. */

void gq_drift_done(struct gq_drift *drift)
{
	for (size_t i = 0; i < drift->n_limits; i++) {
		free(drift->limits[i].tenant);
		free(drift->limits[i].class_name);
	}
	for (size_t i = 0; i < drift->n_pods; i++)
		free(drift->pods[i]);
	*drift = (struct gq_drift){0};
}

/* The item of this limit, made when it is not there. NULL: no room. */
static struct gq_drift_limit *limit_get(struct gq_drift *drift, const char *tenant,
					const char *class_name)
{
	for (size_t i = 0; i < drift->n_limits; i++)
		if (strcmp(drift->limits[i].tenant, tenant) == 0 &&
		    strcmp(drift->limits[i].class_name, class_name) == 0)
			return &drift->limits[i];
	if (drift->n_limits == GQ_DRIFT_LIMITS_MAX)
		return NULL;
	struct gq_drift_limit *item = &drift->limits[drift->n_limits];
	*item = (struct gq_drift_limit){.tenant = strdup(tenant), .class_name = strdup(class_name)};
	if (!item->tenant || !item->class_name) {
		free(item->tenant);
		free(item->class_name);
		return NULL;
	}
	drift->n_limits++;
	return item;
}

void gq_drift_count(struct gq_drift *drift, const struct gq_book *book,
		    const struct gq_book_tenant *tenant, struct gq_book_limit *limit,
		    struct gq_amount had, struct gq_amount has)
{
	struct gq_drift_limit *item = limit_get(
	    drift, tenant->spec->name, gq_class_name(book->policy->classes, limit->class_id));

	limit->drift_total++;
	limit->drifted = false;
	if (!item) {
		drift->more_limits++;
		return;
	}
	/* of amounts, none of which is below 0; a later one may add to it */
	if (__builtin_add_overflow(item->shares, had.shares - has.shares, &item->shares))
		item->shares = GQ_UNLIMITED;
	if (__builtin_add_overflow(item->memory_mib, had.memory_mib - has.memory_mib,
				   &item->memory_mib))
		item->memory_mib = GQ_UNLIMITED;
}

void gq_drift_note_pod(struct gq_drift *drift, const struct gq_pod *pod)
{
	size_t size = strlen(pod->namespace_) + strlen(pod->name) + 2;
	char *name = drift->n_pods < GQ_DRIFT_PODS_MAX ? malloc(size) : NULL;

	if (!name) {
		drift->more_pods++;
		return;
	}
	(void)snprintf(name, size, "%s/%s", pod->namespace_, pod->name);
	drift->pods[drift->n_pods++] = name;
}

/* In whatever order: that follows the nodes'. */
static bool parts_equal(const struct gq_parts *a, const struct gq_parts *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct gq_part *x = &a->items[i], *y = &b->items[i];
		for (size_t k = 0; y->class_id != x->class_id && k < b->n; k++)
			y = &b->items[k];
		if (y->class_id != x->class_id || y->maybe != x->maybe ||
		    y->amount.shares != x->amount.shares ||
		    y->amount.memory_mib != x->amount.memory_mib)
			return false;
	}
	return true;
}

/* Marks the limits in which it matters that the charge was wrong. */
static void mark_limits(const struct gq_ledger *ledger, const struct gq_charge *charge,
			bool state_wrong)
{
	struct gq_book *next = ledger->next;
	const struct gq_parts *old = &charge->parts[ledger->cur->bank];
	const struct gq_parts *new = &charge->parts[next->bank];
	int t = charge->slot->ns->assign[next->bank].tenant;

	for (; t >= 0; t = next->tenants[t].parent) {
		struct gq_book_tenant *tenant = &next->tenants[t];
		for (size_t i = 0; i < tenant->n_limits; i++) {
			struct gq_book_limit *limit = &tenant->limits[i];
			struct gq_amount had = gq_parts_inside(old, limit->leaves);
			struct gq_amount has = gq_parts_inside(new, limit->leaves);
			if (had.shares != has.shares || had.memory_mib != has.memory_mib ||
			    (state_wrong && !gq_amount_is_zero(has)))
				limit->drifted = true;
		}
	}
}

void gq_drift_check_slot(struct gq_ledger *ledger, const struct gq_slot *slot)
{
	for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
		enum gq_charge_state right = gq_ledger_seen_state(charge->pod);
		/* what nobody has seen yet is reserved */
		bool seen = charge->watched || charge->state != GQ_STATE_RESERVED;
		bool state_wrong = seen && charge->state != right;
		ledger->drift->counted++;
		if (!state_wrong && parts_equal(&charge->parts[ledger->cur->bank],
						&charge->parts[ledger->next->bank]))
			continue;
		mark_limits(ledger, charge, state_wrong);
		gq_drift_note_pod(ledger->drift, charge->pod);
		if (state_wrong)
			gq_ledger_state_set(ledger, charge, right);
	}
}

int gq_ledger_recount(struct gq_ledger *ledger, int64_t now_ns, struct gq_drift *ret_drift,
		      struct gq_err *err)
{
	struct gq_drift drift = {0};
	int code = gq_ledger_rebuild(ledger, NULL, now_ns, &drift, err);

	if (code)
		gq_drift_done(&drift);
	else
		*ret_drift = drift;
	return code;
}
