#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/demand.h"
#include "quota/ledger_internal.h"

void gq_parts_done(struct gq_parts *parts)
{
	free(parts->items);
	*parts = (struct gq_parts){0};
}

static struct gq_amount cap_amount(struct gq_amount amount)
{
	if (amount.shares > GQ_CHARGE_CAP)
		amount.shares = GQ_CHARGE_CAP;
	if (amount.memory_mib > GQ_CHARGE_CAP)
		amount.memory_mib = GQ_CHARGE_CAP;
	return amount;
}

static void put_part(struct gq_parts *parts, int class_id, bool maybe, struct gq_amount amount)
{
	amount = cap_amount(amount);
	for (size_t i = 0; i < parts->n; i++) {
		struct gq_part *part = &parts->items[i];
		if (part->class_id == class_id) {
			part->amount = gq_amount_max(part->amount, amount);
			part->maybe = part->maybe && maybe;
			return;
		}
	}
	parts->items[parts->n++] =
	    (struct gq_part){.class_id = class_id, .maybe = maybe, .amount = amount};
}

static int64_t largest_device(const struct gq_class_table *classes)
{
	int64_t largest = 0;

	for (int id = 0; id < (int)gq_class_count(classes); id++)
		largest = gq_max64(largest, gq_class_memory_mib(classes, id));
	return largest;
}

/* Every leaf of the table: the pod may land on anything. A leaf whose memory is not known counts as
 * the largest device that is. */
static void put_every_leaf(struct gq_parts *parts, const struct gq_class_table *classes,
			   const struct gq_pod *pod)
{
	const struct gq_class_set *leaves = gq_class_leaves(classes, GQ_CLASS_ANY);
	int64_t largest = largest_device(classes);

	for (int id = 0; id < (int)gq_class_count(classes); id++) {
		if (!gq_class_set_has(leaves, id))
			continue;
		int64_t mib = gq_class_memory_mib(classes, id);
		put_part(parts, id, true, gq_demand_on(pod, mib ? mib : largest));
	}
}

int gq_parts_compute(const struct gq_policy *policy, const struct gq_pod *pod,
		     const struct gq_candidates *candidates, struct gq_parts *ret_parts)
{
	bool every =
	    candidates->unknown || candidates->overflow || candidates->source == GQ_FROM_NOTHING;
	size_t room = candidates->n + (every ? gq_class_count(policy->classes) : 0);
	struct gq_parts parts = {0};

	if (pod->n_asks > 0 && room > 0) {
		parts.items = calloc(room, sizeof *parts.items);
		if (!parts.items)
			return GQ_ENOMEM;
		for (size_t i = 0; i < candidates->n; i++)
			put_part(&parts, candidates->items[i].class_id, false,
				 gq_demand_on(pod, candidates->items[i].device_mib));
		if (every)
			put_every_leaf(&parts, policy->classes, pod);
	}
	*ret_parts = parts;
	return 0;
}

int gq_parts_merge(struct gq_parts *parts, const struct gq_parts *other)
{
	struct gq_part *items = realloc(parts->items, (parts->n + other->n + 1) * sizeof *items);

	if (!items)
		return GQ_ENOMEM;
	parts->items = items;
	for (size_t i = 0; i < other->n; i++)
		put_part(parts, other->items[i].class_id, other->items[i].maybe,
			 other->items[i].amount);
	return 0;
}

struct gq_amount gq_parts_inside(const struct gq_parts *parts, const struct gq_class_set *leaves)
{
	struct gq_amount most = {0, 0};

	for (size_t i = 0; i < parts->n; i++)
		if (gq_class_set_has(leaves, parts->items[i].class_id))
			most = gq_amount_max(most, parts->items[i].amount);
	return most;
}

struct gq_amount gq_count_total(const struct gq_count *count)
{
	struct gq_amount total = {0, 0};

	for (int s = 0; s < GQ_STATES; s++)
		total = gq_amount_add(total, count->by[s]);
	return total;
}

/* Raises the running maximum to amount and books the rise under state. */
static void count_rise(struct gq_count *count, struct gq_amount *most, enum gq_charge_state state,
		       struct gq_amount amount)
{
	struct gq_amount rise = gq_amount_sub(amount, *most);

	count->by[state] = gq_amount_add(count->by[state], rise);
	*most = gq_amount_max(*most, amount);
}

void gq_slot_count(const struct gq_slot *slot, unsigned bank, const struct gq_class_set *leaves,
		   const struct gq_parts *extra, const struct gq_charge *replaced,
		   struct gq_count *ret_count)
{
	/* What surely exists comes first, so that a namesake counts only by what it adds. */
	static const enum gq_charge_state order[] = {GQ_STATE_BOUND, GQ_STATE_TERMINATING,
						     GQ_STATE_PENDING, GQ_STATE_RESERVED};
	struct gq_amount most = {0, 0}, ready = {0, 0};

	*ret_count = (struct gq_count){0};
	for (size_t i = 0; slot && i < sizeof order / sizeof order[0]; i++) {
		const struct gq_list *at = slot->charges.next;
		for (; at != &slot->charges; at = at->next) {
			const struct gq_charge *charge =
			    gq_list_entry(at, struct gq_charge, in_slot);
			if (charge->state != order[i] || charge == replaced)
				continue;
			struct gq_amount amount = gq_parts_inside(&charge->parts[bank], leaves);
			count_rise(ret_count, &most, order[i], amount);
			if (order[i] == GQ_STATE_BOUND && !gq_pod_unready(charge->pod))
				ready = gq_amount_max(ready, amount);
		}
	}
	ret_count->unready = gq_amount_sub(ret_count->by[GQ_STATE_BOUND], ready);
	if (extra)
		count_rise(ret_count, &most, GQ_STATE_RESERVED, gq_parts_inside(extra, leaves));
}

static void total_change(struct gq_amount *total, struct gq_amount amount, bool add)
{
	/* never below 0, but by a bug of ours: the recount would tell */
	*total = add ? gq_amount_add(*total, amount) : gq_amount_sub(*total, amount);
}

static void limit_change(struct gq_book_limit *limit, const struct gq_count *count, bool add,
			 int64_t now_ns)
{
	limit->bound_share_s += (double)limit->used.by[GQ_STATE_BOUND].shares *
				((double)(now_ns - limit->bound_since_ns) / (double)GQ_NS_PER_S);
	limit->bound_since_ns = now_ns;
	for (int s = 0; s < GQ_STATES; s++)
		total_change(&limit->used.by[s], count->by[s], add);
	total_change(&limit->used.unready, count->unready, add);
}

static void book_change(struct gq_book *book, const struct gq_slot *slot, bool add, int64_t now_ns)
{
	for (int t = slot->ns->assign[book->bank].tenant; t >= 0; t = book->tenants[t].parent) {
		struct gq_book_tenant *tenant = &book->tenants[t];
		for (size_t i = 0; i < tenant->n_limits; i++) {
			struct gq_count count;
			gq_slot_count(slot, book->bank, tenant->limits[i].leaves, NULL, NULL,
				      &count);
			limit_change(&tenant->limits[i], &count, add, now_ns);
		}
	}
}

void gq_book_add(struct gq_book *book, const struct gq_slot *slot, int64_t now_ns)
{
	book_change(book, slot, true, now_ns);
}

void gq_book_remove(struct gq_book *book, const struct gq_slot *slot, int64_t now_ns)
{
	book_change(book, slot, false, now_ns);
}

struct gq_amount gq_book_most(const struct gq_book_limit *limit,
			      const struct gq_book_tenant *tenant, int64_t wall_s)
{
	struct gq_amount most = limit->base;

	for (size_t i = 0; i < tenant->n_grants; i++)
		if (tenant->grants[i]->until_s > wall_s &&
		    tenant->grants[i]->class_id == limit->class_id)
			most = gq_amount_add(most, tenant->grants[i]->amount);
	return most;
}

static bool has_limit(const struct gq_book_tenant *tenant, int class_id)
{
	for (size_t i = 0; i < tenant->n_limits; i++)
		if (tenant->limits[i].class_id == class_id)
			return true;
	return false;
}

/* What a class has without the grants that name it and without a limit of its own: nothing in the
 * currencies that they name, and no limit in the other. */
static struct gq_amount granted_base(const struct gq_book_tenant *tenant, int class_id)
{
	struct gq_amount base = {GQ_UNLIMITED, GQ_UNLIMITED};

	for (size_t i = 0; i < tenant->n_grants; i++) {
		const struct gq_grant *grant = tenant->grants[i];
		if (grant->class_id == class_id && grant->amount.shares)
			base.shares = 0;
		if (grant->class_id == class_id && grant->amount.memory_mib)
			base.memory_mib = 0;
	}
	/* a grant of nothing gives nothing */
	if (base.shares == GQ_UNLIMITED && base.memory_mib == GQ_UNLIMITED)
		base = (struct gq_amount){0, 0};
	return base;
}

static void add_limit(struct gq_book *book, struct gq_book_tenant *tenant, int class_id,
		      struct gq_amount base, int64_t now_ns)
{
	const struct gq_class_set *leaves = gq_class_leaves(book->policy->classes, class_id);

	tenant->limits[tenant->n_limits++] = (struct gq_book_limit){
	    .class_id = class_id, .leaves = leaves, .base = base, .bound_since_ns = now_ns};
	for (size_t i = 0; i < sizeof leaves->bits / sizeof leaves->bits[0]; i++)
		tenant->listed.bits[i] |= leaves->bits[i];
}

/* Gives each tenant its own grants. */
static int sort_grants(struct gq_book *book)
{
	const struct gq_policy *policy = book->policy;
	const struct gq_grant **at;

	book->grants = at = calloc(policy->n_grants + 1, sizeof(const struct gq_grant *));
	if (!at)
		return GQ_ENOMEM;
	for (size_t g = 0; g < policy->n_grants; g++)
		book->tenants[policy->grants[g].tenant].n_grants++;
	for (size_t t = 0; t < book->n_tenants; t++) {
		book->tenants[t].grants = at;
		at += book->tenants[t].n_grants;
		book->tenants[t].n_grants = 0;
	}
	for (size_t g = 0; g < policy->n_grants; g++) {
		struct gq_book_tenant *tenant = &book->tenants[policy->grants[g].tenant];
		tenant->grants[tenant->n_grants++] = &policy->grants[g];
	}
	return 0;
}

static int add_limits(struct gq_book *book, struct gq_book_tenant *tenant, int64_t now_ns)
{
	const struct gq_tenant *spec = tenant->spec;

	tenant->limits = calloc(spec->n_limits + tenant->n_grants + 1, sizeof *tenant->limits);
	if (!tenant->limits)
		return GQ_ENOMEM;
	for (size_t i = 0; i < spec->n_limits; i++)
		add_limit(book, tenant, spec->limits[i].class_id, spec->limits[i].most, now_ns);
	for (size_t i = 0; i < tenant->n_grants; i++) {
		int class_id = tenant->grants[i]->class_id;
		if (!has_limit(tenant, class_id))
			add_limit(book, tenant, class_id, granted_base(tenant, class_id), now_ns);
	}
	return 0;
}

struct gq_book *gq_book_new(const struct gq_policy *policy, struct gq_node_snapshot *snapshot,
			    unsigned bank, int64_t now_ns)
{
	struct gq_book *book = calloc(1, sizeof *book);

	if (!book)
		return NULL;
	book->policy = gq_policy_ref(policy);
	book->snapshot = gq_node_snapshot_ref(snapshot);
	book->bank = bank;
	book->n_tenants = policy->n_tenants;
	book->tenants = calloc(policy->n_tenants + 1, sizeof *book->tenants);
	if (!book->tenants)
		goto fail;
	for (size_t t = 0; t < policy->n_tenants; t++) {
		book->tenants[t].spec = &policy->tenants[t];
		book->tenants[t].parent = policy->tenants[t].parent;
	}
	if (sort_grants(book))
		goto fail;
	for (size_t t = 0; t < policy->n_tenants; t++)
		if (add_limits(book, &book->tenants[t], now_ns))
			goto fail;
	if (gq_tenancy_build(book))
		goto fail;
	return book;
fail:
	gq_book_free(book);
	return NULL;
}

void gq_book_free(struct gq_book *book)
{
	if (!book)
		return;
	gq_tenancy_free(book);
	for (size_t t = 0; book->tenants && t < book->n_tenants; t++)
		free(book->tenants[t].limits);
	free(book->tenants);
	free(book->grants);
	gq_node_snapshot_unref(book->snapshot);
	gq_policy_unref(book->policy);
	free(book);
}
