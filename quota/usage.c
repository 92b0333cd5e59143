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

struct gq_amount gq_usage_over(const struct gq_usage_limit *limit)
{
	struct gq_amount held = gq_amount_add(gq_usage_used(limit), limit->used[GQ_STATE_RESERVED]);
	struct gq_amount over = gq_amount_sub(held, limit->most);

	if (limit->most.shares == GQ_UNLIMITED)
		over.shares = 0;
	if (limit->most.memory_mib == GQ_UNLIMITED)
		over.memory_mib = 0;
	return over;
}

static void holder_done(struct gq_usage_holder *holder)
{
	free(holder->namespace_);
	free(holder->name);
	*holder = (struct gq_usage_holder){0};
}

static void limit_done(struct gq_usage_limit *limit)
{
	for (size_t i = 0; i < limit->n_holders; i++)
		holder_done(&limit->holders[i]);
	free(limit->holders);
	limit->holders = NULL;
	limit->n_holders = limit->pods = 0;
}

void gq_usage_done(struct gq_usage *usage)
{
	for (size_t t = 0; t < usage->n_tenants; t++) {
		for (size_t i = 0; i < usage->tenants[t].n_limits; i++)
			limit_done(&usage->tenants[t].limits[i]);
		free(usage->tenants[t].limits);
	}
	free(usage->tenants);
	for (size_t i = 0; i < usage->n_uncharged; i++)
		free(usage->uncharged[i].namespace_);
	free(usage->uncharged);
	gq_policy_unref(usage->policy);
	*usage = (struct gq_usage){0};
}

/* A device whose memory nobody knows counts as one that has all there is. */
static struct gq_amount shown_amount(struct gq_amount amount)
{
	if (amount.memory_mib >= GQ_CHARGE_CAP)
		amount.memory_mib = GQ_UNLIMITED;
	return amount;
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
		for (int s = 0; s < GQ_STATES; s++)
			copy->used[s] = shown_amount(limit->used.by[s]);
		copy->unready = shown_amount(limit->used.unready);
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
		if (ambiguous) {
			struct gq_usage_uncharged *one = &usage->uncharged[usage->n_uncharged - 1];
			one->first = ledger->cur->tenants[assign->first].spec->name;
			one->second = ledger->cur->tenants[assign->second].spec->name;
		}
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
	usage.forced_deletions = ledger->forced_deletions;
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

/* ---- who holds ---- */

/* Negative: a comes first. By what the limit is over in; a total order, so that the same pods are
 * named each time. */
static int holder_compare(const struct gq_usage_holder *a, const struct gq_usage_holder *b,
			  bool by_memory)
{
	int64_t more = by_memory ? b->amount.memory_mib - a->amount.memory_mib
				 : b->amount.shares - a->amount.shares;
	int order;

	if (more)
		return more > 0 ? 1 : -1;
	order = strcmp(a->namespace_, b->namespace_);
	return order ? order : strcmp(a->name, b->name);
}

static bool slot_unasked(const struct gq_slot *slot)
{
	for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next)
		if (gq_list_entry(at, struct gq_charge, in_slot)->unasked)
			return true;
	return false;
}

/* Puts a slot among the holders of a limit when it holds enough. */
static int limit_consider(struct gq_usage_limit *limit, const struct gq_slot *slot,
			  struct gq_amount amount)
{
	bool by_memory = gq_usage_over(limit).shares == 0;
	struct gq_usage_holder holder = {.namespace_ = slot->ns->name,
					 .name = slot->name,
					 .amount = shown_amount(amount),
					 .unasked = slot_unasked(slot)};
	size_t at = limit->n_holders;

	limit->pods++;
	while (at > 0 && holder_compare(&holder, &limit->holders[at - 1], by_memory) < 0)
		at--;
	if (at == GQ_USAGE_HOLDERS_MAX)
		return 0;
	holder.namespace_ = strdup(holder.namespace_);
	holder.name = strdup(holder.name);
	if (!holder.namespace_ || !holder.name) {
		holder_done(&holder);
		return GQ_ENOMEM;
	}
	if (limit->n_holders == GQ_USAGE_HOLDERS_MAX)
		holder_done(&limit->holders[--limit->n_holders]);
	for (size_t i = limit->n_holders; i > at; i--)
		limit->holders[i] = limit->holders[i - 1];
	limit->holders[at] = holder;
	limit->n_holders++;
	return 0;
}

static int slot_consider(const struct gq_book *book, struct gq_usage *usage,
			 const struct gq_slot *slot)
{
	int code = 0;

	for (int t = slot->ns->assign[book->bank].tenant; t >= 0; t = book->tenants[t].parent) {
		struct gq_usage_tenant *tenant = &usage->tenants[t];
		for (size_t i = 0; !code && i < tenant->n_limits; i++) {
			struct gq_count count;
			if (!tenant->limits[i].holders)
				continue;
			gq_slot_count(slot, book->bank, book->tenants[t].limits[i].leaves, NULL,
				      NULL, &count);
			struct gq_amount amount = gq_count_total(&count);
			if (!gq_amount_is_zero(amount))
				code = limit_consider(&tenant->limits[i], slot, amount);
		}
	}
	return code;
}

/* Makes room for holders in the limits that are over: from now on they are told by that. */
static int make_room(struct gq_usage *usage, bool *ret_any)
{
	*ret_any = false;
	for (size_t t = 0; t < usage->n_tenants; t++) {
		for (size_t i = 0; i < usage->tenants[t].n_limits; i++) {
			struct gq_usage_limit *limit = &usage->tenants[t].limits[i];
			limit_done(limit);
			if (gq_amount_is_zero(gq_usage_over(limit)))
				continue;
			limit->holders = calloc(GQ_USAGE_HOLDERS_MAX, sizeof *limit->holders);
			if (!limit->holders)
				return GQ_ENOMEM;
			*ret_any = true;
		}
	}
	return 0;
}

int gq_ledger_usage_holders(struct gq_ledger *ledger, struct gq_usage *usage, struct gq_err *err)
{
	bool any;
	int code = make_room(usage, &any);

	if (!code && !any)
		return 0;
	/* Under build_lock the book stays, and the one cursor over the slots is ours; the ledger's
	 * lock is let go after every few of them, as in every work that grows with pods. A pod that
	 * comes or goes meanwhile may be named or not. */
	gq_lock_take(&ledger->build_lock);
	gq_ledger_lock(ledger);
	ledger->slot_cursor = ledger->all_slots.next;
	if (!ledger->cur || ledger->cur->policy != usage->policy)
		ledger->slot_cursor = &ledger->all_slots;
	for (unsigned n = 1; !code && ledger->slot_cursor != &ledger->all_slots; n++) {
		struct gq_slot *slot = gq_list_entry(ledger->slot_cursor, struct gq_slot, in_all);
		ledger->slot_cursor = ledger->slot_cursor->next;
		code = slot_consider(ledger->cur, usage, slot);
		if (n % GQ_SLICE == 0) {
			gq_ledger_unlock(ledger);
			gq_ledger_lock(ledger);
		}
	}
	ledger->slot_cursor = NULL;
	gq_ledger_unlock(ledger);
	gq_lock_release(&ledger->build_lock);
	return code ? gq_fail(err, code, "out of memory for the holders of a limit") : 0;
}
