#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/ledger_internal.h"

/* Counting anew, aside. The new book is filled slice by slice; between slices the lock is free for
 * decisions, which go on against the book in force. A slot that changes after it was counted in the
 * new book is changed in both (gq_ledger_uncount, gq_ledger_count). The swap is one step. */

/* ---- snapshot of the nodes ---- */

static void facts_free(struct gq_node_facts *facts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		gq_node_unref(facts[i].node);
		gq_node_unref(facts[i].evidence);
		free((char *)facts[i].name);
	}
	free(facts);
}

/* Copies references of every node, with the lock held: this grows with nodes, not with pods. */
static int facts_collect(struct gq_ledger *ledger, struct gq_node_facts **ret_facts, size_t *ret_n)
{
	size_t n = 0, max = gq_map_count(ledger->nodes);
	struct gq_node_facts *facts = calloc(max + 1, sizeof *facts);

	if (!facts)
		return GQ_ENOMEM;
	for (struct gq_list *at = ledger->all_nodes.next; at != &ledger->all_nodes; at = at->next) {
		const struct gq_node_entry *entry = gq_list_entry(at, struct gq_node_entry, in_all);
		char *name = strdup(entry->name);
		if (!name) {
			facts_free(facts, n);
			return GQ_ENOMEM;
		}
		facts[n++] = (struct gq_node_facts){
		    .node = entry->node ? gq_node_ref(entry->node) : NULL,
		    .evidence = entry->evidence ? gq_node_ref(entry->evidence) : NULL,
		    .name = name};
	}
	*ret_facts = facts;
	*ret_n = n;
	return 0;
}

/* A snapshot of the present nodes as a policy's class table reads them. Takes the lock. */
static int snapshot_new(struct gq_ledger *ledger, const struct gq_policy *policy,
			struct gq_node_snapshot **ret_snapshot, struct gq_err *err)
{
	struct gq_node_facts *facts = NULL;
	size_t n = 0;

	gq_ledger_lock(ledger);
	int code = facts_collect(ledger, &facts, &n);
	if (!code)
		ledger->nodes_changed = false;
	gq_ledger_unlock(ledger);
	if (code)
		return gq_fail(err, code, "out of memory for a snapshot of the nodes");
	code = gq_node_snapshot_new(policy->classes, facts, n, ret_snapshot, err);
	facts_free(facts, n);
	if (code) {
		gq_ledger_lock(ledger);
		ledger->nodes_changed = true;
		gq_ledger_unlock(ledger);
	}
	return code;
}

/* ---- walks in slices (build_lock and lock held; lock is let go between slices) ---- */

static void breathe(struct gq_ledger *ledger, unsigned done)
{
	if (done % GQ_SLICE)
		return;
	gq_ledger_unlock(ledger);
	gq_ledger_lock(ledger);
}

static int walk_slots(struct gq_ledger *ledger,
		      int (*visit)(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns),
		      int64_t now_ns)
{
	int code = 0;

	ledger->slot_cursor = ledger->all_slots.next;
	for (unsigned n = 1; !code && ledger->slot_cursor != &ledger->all_slots; n++) {
		struct gq_slot *slot = gq_list_entry(ledger->slot_cursor, struct gq_slot, in_all);
		ledger->slot_cursor = ledger->slot_cursor->next;
		code = visit(ledger, slot, now_ns);
		breathe(ledger, n);
	}
	ledger->slot_cursor = NULL;
	return code;
}

static int refresh_slot(struct gq_ledger *ledger, struct gq_slot *slot, bool pending_only,
			int64_t now_ns)
{
	int code = 0;

	gq_ledger_uncount(ledger, slot, now_ns);
	for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
		if (!pending_only || !charge->node)
			code = code ? code : gq_ledger_charge_refresh(ledger, charge);
	}
	gq_ledger_count(ledger, slot, now_ns);
	return code;
}

/* A pod that was not seen on a node may land elsewhere now. */
static int visit_pending(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns)
{
	for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next)
		if (!gq_list_entry(at, struct gq_charge, in_slot)->node)
			return refresh_slot(ledger, slot, true, now_ns);
	return 0;
}

static int visit_admit(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns)
{
	(void)now_ns;
	for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
		if (!charge->admitted_known)
			gq_charge_admit_parts(ledger, charge);
	}
	return 0;
}

void gq_ledger_admit_seen(struct gq_ledger *ledger)
{
	(void)walk_slots(ledger, visit_admit, 0);
}

static bool reading_equal(const struct gq_class_reading *a, const struct gq_class_reading *b)
{
	return a->class_id == b->class_id && a->memory_mib == b->memory_mib;
}

/* Charges on nodes that are read differently now move. */
static int refresh_nodes(struct gq_ledger *ledger, int64_t now_ns)
{
	int code = 0;
	unsigned n = 1;

	ledger->node_cursor = ledger->all_nodes.next;
	while (!code && ledger->node_cursor != &ledger->all_nodes) {
		struct gq_node_entry *entry =
		    gq_list_entry(ledger->node_cursor, struct gq_node_entry, in_all);
		ledger->node_cursor = ledger->node_cursor->next;
		struct gq_class_reading read =
		    gq_node_snapshot_read(ledger->cur->snapshot, entry->name);
		if (!reading_equal(&read, &entry->read)) {
			struct gq_list *at = entry->charges.next;
			for (; !code && at != &entry->charges; at = at->next)
				code = refresh_slot(
				    ledger, gq_list_entry(at, struct gq_charge, in_node)->slot,
				    false, now_ns);
			if (code) /* as it was, so that it is done again */
				break;
			entry->read = read;
			entry->read.label = entry->read.value = NULL;
		}
		breathe(ledger, n++);
	}
	ledger->node_cursor = NULL;
	return code;
}

int gq_ledger_nodes_settle(struct gq_ledger *ledger, int64_t now_ns, struct gq_err *err)
{
	struct gq_node_snapshot *fresh = NULL;
	int code = 0;

	gq_lock_take(&ledger->build_lock);
	gq_ledger_lock(ledger);
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) =
	    ledger->cur && ledger->nodes_changed ? gq_policy_ref(ledger->cur->policy) : NULL;
	gq_ledger_unlock(ledger);
	if (policy)
		code = snapshot_new(ledger, policy, &fresh, err);
	if (fresh) {
		gq_ledger_lock(ledger);
		struct gq_node_snapshot *old = ledger->cur->snapshot;
		if (gq_node_snapshot_fingerprint(old) != gq_node_snapshot_fingerprint(fresh))
			ledger->pending_stale = true;
		ledger->cur->snapshot = fresh;
		ledger->generation++;
		code = refresh_nodes(ledger, now_ns);
		if (ledger->pending_stale && !code) {
			code = walk_slots(ledger, visit_pending, now_ns);
			ledger->pending_stale = code != 0;
		}
		if (code) /* do it again with the next settling */
			ledger->nodes_changed = true;
		gq_ledger_unlock(ledger);
		gq_node_snapshot_unref(old);
		if (code)
			gq_fail(err, code, "out of memory while nodes changed");
	}
	gq_lock_release(&ledger->build_lock);
	return code;
}

/* ---- a new book ---- */

/* What tenants and classes of the book in force are in the new one, by name; -1: not there. */
struct moves {
	int *tenants;
	int classes[GQ_CLASS_MAX];
};

static int moves_init(struct moves *moves, const struct gq_book *cur, const struct gq_book *next)
{
	size_t n = cur ? cur->n_tenants : 0;
	size_t n_classes = cur ? gq_class_count(cur->policy->classes) : 0;
	struct gq_map *names GQ_CLEANUP(gq_cleanup_map) = gq_map_new();

	moves->tenants = calloc(n + 1, sizeof *moves->tenants);
	if (!moves->tenants || !names)
		goto fail;
	for (size_t t = 0; t < next->n_tenants; t++) {
		const char *name = next->tenants[t].spec->name;
		if (gq_map_put(names, name, strlen(name), &next->tenants[t], NULL))
			goto fail;
	}
	for (size_t t = 0; t < n; t++) {
		const char *name = cur->tenants[t].spec->name;
		const struct gq_book_tenant *same = gq_map_get(names, name, strlen(name));
		moves->tenants[t] = same ? (int)(same - next->tenants) : -1;
	}
	for (size_t id = n_classes; id < GQ_CLASS_MAX; id++)
		moves->classes[id] = GQ_CLASS_NONE;
	for (size_t id = 0; id < n_classes; id++)
		moves->classes[id] = gq_class_find(next->policy->classes,
						   gq_class_name(cur->policy->classes, (int)id));
	return 0;
fail:
	free(moves->tenants);
	return GQ_ENOMEM;
}

static void assign_namespaces(struct gq_ledger *ledger, const struct moves *moves)
{
	const struct gq_book *cur = ledger->cur, *next = ledger->next;
	unsigned n = 1;

	ledger->ns_cursor = ledger->all_namespaces.next;
	while (ledger->ns_cursor != &ledger->all_namespaces) {
		struct gq_ns *ns = gq_list_entry(ledger->ns_cursor, struct gq_ns, in_all);
		ledger->ns_cursor = ledger->ns_cursor->next;
		int before = cur ? ns->assign[cur->bank].tenant : -1;
		if (ns->assigned_in != ledger->build)
			ns->assign[next->bank] = gq_tenancy_assign(
			    next, ns->name, ns->object, before < 0 ? -1 : moves->tenants[before]);
		ns->assigned_in = ledger->build;
		breathe(ledger, n++);
	}
	ledger->ns_cursor = NULL;
}

/* What the charge was allowed for, by the ids of the book that is built. */
static void carry_admitted(const struct gq_ledger *ledger, struct gq_charge *charge)
{
	const struct gq_class_set *old = &charge->admitted[1 - ledger->next->bank];
	struct gq_class_set *new = &charge->admitted[ledger->next->bank];

	*new = (struct gq_class_set){{0}};
	for (int id = 0; charge->admitted_known && id < GQ_CLASS_MAX; id++)
		if (gq_class_set_has(old, id) && ledger->class_moves[id] >= 0)
			gq_class_set_add(new, ledger->class_moves[id]);
}

/* Parts of a charge in the book that is built. What an answer reserved stays as it was answered,
 * where the policy is the same and no change of the nodes is still to be applied. */
static int parts_next(const struct gq_ledger *ledger, const struct gq_charge *charge,
		      struct gq_parts *ret_parts)
{
	if (ledger->drift && !ledger->pending_stale && charge->state == GQ_STATE_RESERVED &&
	    !charge->watched)
		return gq_parts_merge(ret_parts, &charge->parts[ledger->cur->bank]);
	return gq_ledger_charge_parts(ledger->next, charge->pod, charge->bind_node, ret_parts);
}

static int visit_count_next(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns)
{
	unsigned bank = ledger->next->bank;

	if (slot->counted_in == ledger->build)
		return 0;
	for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
		struct gq_parts fresh = {0};
		if (parts_next(ledger, charge, &fresh))
			return GQ_ENOMEM;
		gq_parts_done(&charge->parts[bank]);
		charge->parts[bank] = fresh;
		carry_admitted(ledger, charge);
		if (!ledger->cur) /* nothing was decided before */
			gq_charge_admit_parts(ledger, charge);
	}
	slot->counted_in = ledger->build;
	if (ledger->drift)
		gq_drift_check_slot(ledger, slot);
	gq_book_add(ledger->next, slot, now_ns);
	return 0;
}

static bool amount_equal(struct gq_amount a, struct gq_amount b)
{
	return a.shares == b.shares && a.memory_mib == b.memory_mib;
}

static bool count_equal(const struct gq_count *a, const struct gq_count *b)
{
	for (int s = 0; s < GQ_STATES; s++)
		if (!amount_equal(a->by[s], b->by[s]))
			return false;
	return amount_equal(a->unready, b->unready);
}

/* Takes over what a limit has counted until now, since a counter never goes back. */
static void carry_seconds(struct gq_book_limit *new, const struct gq_book_limit *old,
			  int64_t now_ns)
{
	new->bound_share_s =
	    old->bound_share_s + (double)old->used.by[GQ_STATE_BOUND].shares *(
				     (double)(now_ns - old->bound_since_ns) / (double)GQ_NS_PER_S);
	new->bound_since_ns = now_ns;
}

static void carry_limit(struct gq_ledger *ledger, const struct gq_book_tenant *tenant,
			struct gq_book_limit *new, const struct gq_book_limit *old, int64_t now_ns)
{
	carry_seconds(new, old, now_ns);
	new->drift_total = old->drift_total;
	if (ledger->drift && (new->drifted || !count_equal(&new->used, &old->used)))
		gq_drift_count(ledger->drift, ledger->next, tenant, new, gq_count_total(&old->used),
			       gq_count_total(&new->used));
}

/* Hands over what limits have counted to the new book, and notes those whose totals differ. */
static void carry_over(struct gq_ledger *ledger, const struct moves *moves, int64_t now_ns)
{
	for (size_t t = 0; ledger->cur && t < ledger->cur->n_tenants; t++) {
		const struct gq_book_tenant *old = &ledger->cur->tenants[t];
		int to = moves->tenants[t];
		struct gq_book_tenant *new = to < 0 ? NULL : &ledger->next->tenants[to];
		for (size_t i = 0; new &&i < old->n_limits; i++) {
			int id = moves->classes[old->limits[i].class_id];
			for (size_t k = 0; k < new->n_limits; k++) {
				if (new->limits[k].class_id == id)
					carry_limit(ledger, new, &new->limits[k], &old->limits[i],
						    now_ns);
			}
		}
	}
}

/* Fills ledger->next and swaps it in; with the lock held. */
static int build(struct gq_ledger *ledger, const struct moves *moves, int64_t now_ns)
{
	assign_namespaces(ledger, moves);
	int code = walk_slots(ledger, visit_count_next, now_ns);
	if (code)
		return code;
	carry_over(ledger, moves, now_ns);
	bool other_nodes = !ledger->cur || ledger->cur->snapshot != ledger->next->snapshot;
	ledger->cur = GQ_STEAL(ledger->next);
	ledger->generation++;
	ledger->pending_stale = false;
	struct gq_list *at = ledger->all_nodes.next;
	for (; other_nodes && at != &ledger->all_nodes; at = at->next) {
		struct gq_node_entry *entry = gq_list_entry(at, struct gq_node_entry, in_all);
		entry->read = gq_node_snapshot_read(ledger->cur->snapshot, entry->name);
		entry->read.label = entry->read.value = NULL;
	}
	return 0;
}

int gq_ledger_rebuild_held(struct gq_ledger *ledger, const struct gq_policy *policy, int64_t now_ns,
			   struct gq_drift *drift, struct gq_err *err)
{
	struct gq_node_snapshot *snapshot GQ_CLEANUP(gq_cleanup_node_snapshot) = NULL;
	struct gq_book *cur = ledger->cur; /* only changes under build_lock */
	int code = 0;

	if (!policy && !cur)
		return 0;
	/* With the nodes that the charges were counted by, when only these are to be checked. */
	if (policy)
		code = snapshot_new(ledger, policy, &snapshot, err);
	else
		snapshot = gq_node_snapshot_ref(cur->snapshot);
	if (code)
		return code;
	if (!policy)
		policy = cur->policy;
	struct gq_book *next = gq_book_new(policy, snapshot, cur ? 1 - cur->bank : 0, now_ns);
	struct moves moves;
	if (!next || moves_init(&moves, cur, next)) {
		gq_book_free(next);
		return gq_fail(err, GQ_ENOMEM, "out of memory while counting anew");
	}
	gq_ledger_lock(ledger);
	ledger->next = next;
	ledger->class_moves = moves.classes;
	ledger->drift = drift;
	ledger->build++;
	code = build(ledger, &moves, now_ns);
	ledger->next = NULL;
	ledger->class_moves = NULL;
	ledger->drift = NULL;
	gq_ledger_unlock(ledger);
	free(moves.tenants);
	gq_book_free(code ? next : cur);
	return code ? gq_fail(err, code, "out of memory while counting anew") : 0;
}

int gq_ledger_rebuild(struct gq_ledger *ledger, const struct gq_policy *policy, int64_t now_ns,
		      struct gq_drift *drift, struct gq_err *err)
{
	gq_lock_take(&ledger->build_lock);
	int code = gq_ledger_rebuild_held(ledger, policy, now_ns, drift, err);
	gq_lock_release(&ledger->build_lock);
	return code;
}
