#include <stdio.h>
#include <string.h>

#include "quota/decision_internal.h"
#include "quota/demand.h"

/* How many pods of a namespace are looked at for naming holders. */
#define HOLDER_SCAN_MAX 256
#define NAMESPACE_SCAN_MAX 4096

/* Keeps the first ones, but never loses the first that refuses behind others that only warn. */
static void add_finding(struct gq_findings *findings, const struct gq_finding *finding)
{
	if (findings->n < GQ_FINDINGS_MAX)
		findings->items[findings->n++] = *finding;
	else if (finding->mode == GQ_MODE_ENFORCE && !gq_findings_enforced(findings))
		findings->items[GQ_FINDINGS_MAX - 1] = *finding;
}

/* One currency of one limit. */
static void check_currency(struct gq_findings *findings, struct gq_finding finding, int64_t most,
			   int64_t before, int64_t after, int64_t used)
{
	int64_t adds = gq_sat_sub(after, before);

	/* A pod that adds nothing fits, even where a limit was lowered below what is held. */
	if (adds == 0 || most >= GQ_CHARGE_CAP || gq_sat_add(used, adds) <= most)
		return;
	finding.most = most;
	finding.adds = adds;
	add_finding(findings, &finding);
}

static void check_limit(const struct gq_book *book, const struct gq_slot *slot, int t,
			const struct gq_book_limit *limit, const struct gq_parts *parts,
			const struct gq_charge *replaced, const struct gq_parts *had,
			int64_t wall_s, struct gq_findings *findings)
{
	const struct gq_book_tenant *tenant = &book->tenants[t];
	struct gq_count counted, before, after;
	struct gq_finding finding = {.kind = GQ_FINDING_SHARES,
				     .tenant = t,
				     .mode = tenant->spec->mode,
				     .class_id = limit->class_id};

	gq_slot_count(slot, book->bank, limit->leaves, NULL, NULL, &counted);
	before = counted;
	if (replaced)
		gq_slot_count(slot, book->bank, limit->leaves, had, replaced, &before);
	gq_slot_count(slot, book->bank, limit->leaves, parts, replaced, &after);
	for (int s = 0; s < GQ_STATES; s++)
		finding.used.by[s] =
		    gq_amount_add(gq_amount_sub(limit->used.by[s], counted.by[s]), before.by[s]);
	struct gq_amount most = gq_book_most(limit, tenant, wall_s);
	struct gq_amount from = gq_count_total(&before), to = gq_count_total(&after);
	struct gq_amount used = gq_count_total(&finding.used);

	check_currency(findings, finding, most.shares, from.shares, to.shares, used.shares);
	finding.kind = GQ_FINDING_MEMORY;
	check_currency(findings, finding, most.memory_mib, from.memory_mib, to.memory_mib,
		       used.memory_mib);
}

/* A class that the pod certainly may land on must be in some limit of the tenant; of the classes
 * that it is only counted in to be safe, one must. */
static void check_listed(const struct gq_book *book, int t, const struct gq_parts *parts,
			 struct gq_findings *findings)
{
	const struct gq_book_tenant *tenant = &book->tenants[t];
	bool any_listed = false;

	if (tenant->spec->unlisted_allow || parts->n == 0)
		return;
	for (size_t i = 0; i < parts->n; i++) {
		bool listed = gq_class_set_has(&tenant->listed, parts->items[i].class_id);
		any_listed = any_listed || listed;
		if (!listed && !parts->items[i].maybe) {
			add_finding(findings,
				    &(struct gq_finding){.kind = GQ_FINDING_UNLISTED,
							 .tenant = t,
							 .mode = tenant->spec->mode,
							 .class_id = parts->items[i].class_id});
			return;
		}
	}
	if (!any_listed)
		add_finding(findings, &(struct gq_finding){.kind = GQ_FINDING_UNLISTED,
							   .tenant = t,
							   .mode = tenant->spec->mode,
							   .class_id = GQ_CLASS_ANY});
}

void gq_fit(const struct gq_book *book, const struct gq_slot *slot, int tenant,
	    const struct gq_parts *parts, const struct gq_parts *listed,
	    const struct gq_charge *replaced, const struct gq_parts *had, int64_t wall_s,
	    struct gq_findings *ret_findings)
{
	ret_findings->n = 0;
	check_listed(book, tenant, listed, ret_findings);
	for (int t = tenant; t >= 0; t = book->tenants[t].parent)
		for (size_t i = 0; i < book->tenants[t].n_limits; i++)
			check_limit(book, slot, t, &book->tenants[t].limits[i], parts, replaced,
				    had, wall_s, ret_findings);
}

void gq_fit_alone(const struct gq_book *book, int tenant, const struct gq_parts *parts,
		  int64_t wall_s, struct gq_findings *ret_findings)
{
	ret_findings->n = 0;
	check_listed(book, tenant, parts, ret_findings);
	for (int t = tenant; t >= 0; t = book->tenants[t].parent) {
		const struct gq_book_tenant *owner = &book->tenants[t];
		for (size_t i = 0; i < owner->n_limits; i++) {
			const struct gq_book_limit *limit = &owner->limits[i];
			struct gq_amount most = gq_book_most(limit, owner, wall_s);
			struct gq_amount asks = gq_parts_inside(parts, limit->leaves);
			struct gq_finding finding = {.kind = GQ_FINDING_SHARES,
						     .tenant = t,
						     .mode = owner->spec->mode,
						     .class_id = limit->class_id};
			check_currency(ret_findings, finding, most.shares, 0, asks.shares, 0);
			finding.kind = GQ_FINDING_MEMORY;
			check_currency(ret_findings, finding, most.memory_mib, 0, asks.memory_mib,
				       0);
		}
	}
}

const struct gq_finding *gq_findings_enforced(const struct gq_findings *findings)
{
	for (size_t i = 0; i < findings->n; i++)
		if (findings->items[i].mode == GQ_MODE_ENFORCE)
			return &findings->items[i];
	return NULL;
}

/* ---- what to say ---- */

static void add_holder(struct gq_facts *facts, const char *name, int64_t holds)
{
	size_t at = facts->n_holders;

	if (at == GQ_HOLDERS_MAX) {
		facts->holders_cut = true;
		if (holds <= facts->holders[at - 1].holds)
			return;
		at--;
	} else {
		facts->n_holders++;
	}
	for (; at > 0 && facts->holders[at - 1].holds < holds; at--)
		facts->holders[at] = facts->holders[at - 1];
	(void)snprintf(facts->holders[at].name, sizeof facts->holders[at].name, "%s", name);
	facts->holders[at].holds = holds;
}

/* Whether two pods are of different ReplicaSets of one Deployment, whose names differ only behind
 * the last '-': then the Deployment is rolling. */
static bool other_revision(const struct gq_pod *pod, const struct gq_slot *slot)
{
	const struct gq_owner *own = &pod->owner;
	const char *end = strrchr(own->name, '-');

	if (!end || strcmp(own->kind, "ReplicaSet") != 0)
		return false;
	for (const struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next) {
		const struct gq_owner *owner =
		    &gq_list_entry(at, struct gq_charge, in_slot)->pod->owner;
		const char *other_end = strrchr(owner->name, '-');
		if (other_end && strcmp(owner->kind, own->kind) == 0 &&
		    strcmp(owner->uid, own->uid) != 0 &&
		    other_end - owner->name == end - own->name &&
		    memcmp(owner->name, own->name, (size_t)(end - own->name)) == 0)
			return true;
	}
	return false;
}

/* Adds the pods of one namespace that count in the finding's limit; prefix: its name and '/', or
 * "". */
static void add_holders_of(const struct gq_book *book, const struct gq_ns *ns, const char *prefix,
			   const struct gq_pod *pod, unsigned *scanned, struct gq_facts *facts)
{
	const struct gq_class_set *leaves =
	    gq_class_leaves(book->policy->classes, facts->finding.class_id);

	for (const struct gq_list *at = ns->slots.next; at != &ns->slots; at = at->next) {
		const struct gq_slot *slot = gq_list_entry(at, struct gq_slot, in_ns);
		struct gq_count count;
		char name[512];
		if (++*scanned > HOLDER_SCAN_MAX) {
			facts->holders_cut = true;
			return;
		}
		gq_slot_count(slot, book->bank, leaves, NULL, NULL, &count);
		int64_t holds = gq_finding_amount(&facts->finding, gq_count_total(&count));
		(void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] ? "/" : "",
			       slot->name);
		if (holds > 0) {
			add_holder(facts, name, holds);
			facts->surges = facts->surges || (!prefix[0] && other_revision(pod, slot));
		}
	}
}

/* The largest holders that the policy lets a refusal name: those of the request's namespace, or of
 * the tenant. */
static void find_holders(const struct gq_ledger *ledger, const struct gq_book *book,
			 const struct gq_ns *ns, const struct gq_pod *pod, struct gq_facts *facts)
{
	unsigned scanned = 0, namespaces = 0;

	add_holders_of(book, ns, "", pod, &scanned, facts);
	if (book->policy->holders != GQ_HOLDERS_TENANT)
		return;
	for (const struct gq_list *at = ledger->all_namespaces.next;
	     at != &ledger->all_namespaces && scanned <= HOLDER_SCAN_MAX; at = at->next) {
		const struct gq_ns *other = gq_list_entry(at, struct gq_ns, in_all);
		if (++namespaces > NAMESPACE_SCAN_MAX) {
			facts->holders_cut = true;
			return;
		}
		if (other != ns && other->assign[book->bank].tenant == facts->tenant)
			add_holders_of(book, other, other->name, pod, &scanned, facts);
	}
}

/* Whether the pod asks for whole devices only: then fewer of them is good advice. */
static bool asks_whole_gpus(const struct gq_pod *pod)
{
	for (size_t i = 0; i < pod->n_asks; i++)
		for (size_t k = 0; k < pod->asks[i].n_amounts; k++)
			if (pod->asks[i].amounts[k].meaning != GQ_GPU_COUNT)
				return false;
	return true;
}

static struct gq_amount limit_left(const struct gq_book_tenant *tenant,
				   const struct gq_book_limit *limit, int64_t wall_s)
{
	return gq_amount_sub(gq_book_most(limit, tenant, wall_s), gq_count_total(&limit->used));
}

/* So many whole GPUs of what the pod asks for fit in every limit, in both currencies. alone: with
 * nothing else held. */
static int64_t whole_gpus_left(const struct gq_book *book, int tenant, const struct gq_parts *parts,
			       int64_t wall_s, bool alone)
{
	int64_t least = GQ_UNLIMITED;

	for (int t = tenant; t >= 0; t = book->tenants[t].parent) {
		for (size_t i = 0; i < book->tenants[t].n_limits; i++) {
			const struct gq_book_limit *limit = &book->tenants[t].limits[i];
			struct gq_amount asks = gq_parts_inside(parts, limit->leaves);
			struct gq_amount left = alone
						    ? gq_book_most(limit, &book->tenants[t], wall_s)
						    : limit_left(&book->tenants[t], limit, wall_s);
			int64_t gpus = asks.shares / GQ_SHARES_PER_GPU;
			if (gpus == 0)
				continue;
			int64_t mib = (asks.memory_mib + gpus - 1) / gpus;
			least = gq_min64(least, left.shares / GQ_SHARES_PER_GPU);
			if (mib > 0)
				least = gq_min64(least, left.memory_mib / mib);
		}
	}
	return least;
}

/* The least that every limit holding some of the pod's parts has left, in shares. */
static int64_t free_shares(const struct gq_book *book, int tenant, const struct gq_parts *parts,
			   int64_t wall_s)
{
	int64_t least = GQ_UNLIMITED;

	for (int t = tenant; t >= 0; t = book->tenants[t].parent) {
		for (size_t i = 0; i < book->tenants[t].n_limits; i++) {
			const struct gq_book_limit *limit = &book->tenants[t].limits[i];
			if (gq_amount_is_zero(gq_parts_inside(parts, limit->leaves)))
				continue;
			least =
			    gq_min64(least, limit_left(&book->tenants[t], limit, wall_s).shares);
		}
	}
	return least;
}

/* Would the pod fit if it could only land on this leaf? */
static bool fits_on(const struct gq_book *book, const struct gq_slot *slot, int tenant,
		    const struct gq_pod *pod, int class_id, int64_t wall_s, int64_t *ret_free)
{
	struct gq_part part = {
	    .class_id = class_id,
	    .amount = gq_demand_on(pod, gq_class_memory_mib(book->policy->classes, class_id))};
	struct gq_parts parts = {.items = &part, .n = 1};
	struct gq_findings findings;

	gq_fit(book, slot, tenant, &parts, &parts, NULL, NULL, wall_s, &findings);
	if (findings.n > 0)
		return false;
	*ret_free = free_shares(book, tenant, &parts, wall_s);
	return true;
}

/* The class by which the tenant's quota knows a leaf: the narrowest limit that holds it. */
static int quota_name(const struct gq_book *book, int tenant, int leaf)
{
	const struct gq_class_table *classes = book->policy->classes;

	for (int id = leaf; id > GQ_CLASS_ANY; id = gq_class_parent(classes, id))
		for (size_t i = 0; i < book->tenants[tenant].n_limits; i++)
			if (book->tenants[tenant].limits[i].class_id == id)
				return id;
	return leaf;
}

/* The first leaf of a set that exists on nodes and where the pod would fit. */
static bool find_leaf(const struct gq_book *book, const struct gq_slot *slot, int tenant,
		      const struct gq_pod *pod, const struct gq_class_set *leaves, int64_t wall_s,
		      struct gq_facts *facts)
{
	const char *label, *value;

	for (int id = 0; id < (int)gq_class_count(book->policy->classes); id++) {
		if (gq_class_set_has(leaves, id) &&
		    fits_on(book, slot, tenant, pod, id, wall_s, &facts->other_free) &&
		    gq_node_snapshot_selector_for(book->snapshot, id, &label, &value)) {
			facts->other_class = id;
			facts->other_named = quota_name(book, tenant, id);
			return true;
		}
	}
	return false;
}

static void find_other_class(const struct gq_book *book, const struct gq_slot *slot, int tenant,
			     const struct gq_pod *pod, const struct gq_parts *parts, int64_t wall_s,
			     struct gq_facts *facts)
{
	struct gq_class_set own = {{0}}, others = {{0}};
	size_t sure = 0;

	for (size_t i = 0; i < parts->n; i++) {
		gq_class_set_add(&own, parts->items[i].class_id);
		sure += !parts->items[i].maybe;
	}
	facts->several = sure > 1 || sure < parts->n;
	if (facts->several && find_leaf(book, slot, tenant, pod, &own, wall_s, facts)) {
		facts->narrows = true;
		return;
	}
	const struct gq_book_tenant *owner = &book->tenants[tenant];
	const struct gq_class_set *allowed =
	    owner->spec->unlisted_allow ? gq_class_leaves(book->policy->classes, GQ_CLASS_ANY)
					: &owner->listed;
	for (size_t i = 0; i < sizeof others.bits / sizeof others.bits[0]; i++)
		others.bits[i] = allowed->bits[i] & ~own.bits[i];
	(void)find_leaf(book, slot, tenant, pod, &others, wall_s, facts);
}

void gq_fit_facts(const struct gq_ledger *ledger, const struct gq_book *book,
		  const struct gq_ns *ns, const struct gq_slot *slot, int tenant,
		  const struct gq_pod *pod, const struct gq_parts *parts,
		  const struct gq_finding *finding, int64_t wall_s, struct gq_facts *ret_facts)
{
	*ret_facts =
	    (struct gq_facts){.finding = *finding, .tenant = tenant, .other_class = GQ_CLASS_NONE};
	if (finding->kind != GQ_FINDING_UNLISTED) {
		if (ns) /* whether they are named is the policy's, and explain.c's */
			find_holders(ledger, book, ns, pod, ret_facts);
		if (asks_whole_gpus(pod))
			ret_facts->fewer_gpus = whole_gpus_left(book, tenant, parts, wall_s, false);
	}
	find_other_class(book, slot, tenant, pod, parts, wall_s, ret_facts);
}

void gq_fit_alone_facts(const struct gq_book *book, int tenant, const struct gq_pod *pod,
			const struct gq_parts *parts, const struct gq_finding *finding,
			int64_t wall_s, struct gq_facts *ret_facts)
{
	*ret_facts = (struct gq_facts){
	    .finding = *finding, .tenant = tenant, .alone = true, .other_class = GQ_CLASS_NONE};
	if (finding->kind != GQ_FINDING_UNLISTED && asks_whole_gpus(pod))
		ret_facts->fewer_gpus = whole_gpus_left(book, tenant, parts, wall_s, true);
	find_other_class(book, NULL, tenant, pod, parts, wall_s, ret_facts);
}
