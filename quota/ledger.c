#include "quota/ledger.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/class_internal.h"
#include "quota/ledger_internal.h"
#include "quota/rules.h"

#define DEFAULT_TTL_NS (60 * GQ_NS_PER_S)
#define SLOT_KEY_MAX_BYTES 1024

const char *gq_charge_state_name(enum gq_charge_state state)
{
	static const char *const names[GQ_STATES] = {"reserved", "pending", "bound", "terminating"};

	return names[state];
}

struct gq_ledger *gq_ledger_new(const struct gq_ledger_options *options)
{
	struct gq_ledger *ledger = calloc(1, sizeof *ledger);

	if (!ledger)
		return NULL;
	ledger->ttl_ns = options->reservation_ttl_ns ? options->reservation_ttl_ns : DEFAULT_TTL_NS;
	ledger->deciding = true;
	atomic_init(&ledger->rules_active, UINT_MAX);
	gq_lock_init(&ledger->lock, GQ_RANK_LEDGER);
	gq_lock_init(&ledger->turn, GQ_RANK_LEDGER_TURN);
	gq_lock_init(&ledger->build_lock, GQ_RANK_LEDGER_BUILD);
	gq_list_init(&ledger->all_slots);
	gq_list_init(&ledger->all_namespaces);
	gq_list_init(&ledger->all_nodes);
	gq_list_init(&ledger->waiting);
	ledger->charges = gq_map_new();
	ledger->tickets = gq_map_new();
	ledger->requests = gq_map_new();
	ledger->slots = gq_map_new();
	ledger->namespaces = gq_map_new();
	ledger->nodes = gq_map_new();
	ledger->owners = gq_map_new();
	if (gq_unseen_init(ledger, options->note_ended) || !ledger->charges || !ledger->tickets ||
	    !ledger->requests || !ledger->slots || !ledger->namespaces || !ledger->nodes ||
	    !ledger->owners) {
		gq_ledger_free(ledger);
		return NULL;
	}
	return ledger;
}

/* ---- slots ---- */

/* Returns the length; 0: longer than any name can be. */
static size_t print_slot_key(char key[SLOT_KEY_MAX_BYTES], const char *ns, const char *name)
{
	int len = snprintf(key, SLOT_KEY_MAX_BYTES, "%s/%s", ns, name);

	return len > 0 && len < SLOT_KEY_MAX_BYTES ? (size_t)len : 0;
}

struct gq_slot *gq_ledger_slot_find(struct gq_ledger *ledger, const char *ns, const char *name)
{
	char key[SLOT_KEY_MAX_BYTES];
	size_t len = print_slot_key(key, ns, name);

	return len ? gq_map_get(ledger->slots, key, len) : NULL;
}

static void slot_free(struct gq_slot *slot)
{
	free(slot->name);
	free(slot->key);
	free(slot);
}

static struct gq_slot *slot_get(struct gq_ledger *ledger, const char *ns_name, const char *name)
{
	struct gq_slot *slot = gq_ledger_slot_find(ledger, ns_name, name);
	char key[SLOT_KEY_MAX_BYTES];

	if (slot)
		return slot;
	size_t len = print_slot_key(key, ns_name, name);
	struct gq_ns *ns = len ? gq_ledger_ns_get(ledger, ns_name) : NULL;
	if (!ns)
		return NULL;
	slot = calloc(1, sizeof *slot);
	if (!slot)
		goto fail;
	gq_list_init(&slot->charges);
	slot->ns = ns;
	slot->name = strdup(name);
	slot->key = strdup(key);
	if (!slot->name || !slot->key || gq_map_put(ledger->slots, slot->key, len, slot, NULL))
		goto fail;
	/* Empty, so it is counted everywhere; but in no book that does not know whose it is yet. */
	slot->counted_in = ns->assigned_in == ledger->build ? ledger->build : 0;
	gq_list_append(&ledger->all_slots, &slot->in_all);
	gq_list_append(&ns->slots, &slot->in_ns);
	ns->n_slots++;
	return slot;
fail:
	if (slot)
		slot_free(slot);
	gq_ledger_ns_drop_unused(ledger, ns);
	return NULL;
}

static void slot_drop_unused(struct gq_ledger *ledger, struct gq_slot *slot)
{
	struct gq_ns *ns = slot->ns;

	if (!gq_list_empty(&slot->charges))
		return;
	if (ledger->slot_cursor == &slot->in_all)
		ledger->slot_cursor = slot->in_all.next;
	if (ledger->verify_cursor == &slot->in_all)
		ledger->verify_cursor = slot->in_all.next;
	gq_list_remove(&slot->in_all);
	gq_list_remove(&slot->in_ns);
	gq_map_remove(ledger->slots, slot->key, strlen(slot->key));
	slot_free(slot);
	ns->n_slots--;
	gq_ledger_ns_drop_unused(ledger, ns);
}

void gq_ledger_uncount(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns)
{
	if (ledger->cur)
		gq_book_remove(ledger->cur, slot, now_ns);
	if (ledger->next && slot->counted_in == ledger->build)
		gq_book_remove(ledger->next, slot, now_ns);
}

void gq_ledger_count(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns)
{
	if (ledger->cur)
		gq_book_add(ledger->cur, slot, now_ns);
	if (ledger->next && slot->counted_in == ledger->build)
		gq_book_add(ledger->next, slot, now_ns);
}

/* ---- nodes ---- */

static struct gq_node_entry *node_get(struct gq_ledger *ledger, const char *name)
{
	struct gq_node_entry *entry = gq_map_get(ledger->nodes, name, strlen(name));

	if (entry)
		return entry;
	entry = calloc(1, sizeof *entry);
	if (!entry)
		return NULL;
	entry->name = strdup(name);
	/* the snapshot may still know a node that is gone */
	entry->read.class_id = GQ_CLASS_NONE;
	if (ledger->cur)
		entry->read = gq_node_snapshot_read(ledger->cur->snapshot, name);
	entry->read.label = entry->read.value = NULL;
	gq_list_init(&entry->charges);
	if (!entry->name ||
	    gq_map_put(ledger->nodes, entry->name, strlen(entry->name), entry, NULL)) {
		free(entry->name);
		free(entry);
		return NULL;
	}
	gq_list_append(&ledger->all_nodes, &entry->in_all);
	return entry;
}

static void node_entry_free(struct gq_node_entry *entry)
{
	gq_node_unref(entry->node);
	gq_node_unref(entry->evidence);
	free(entry->name);
	free(entry);
}

static void node_drop_unused(struct gq_ledger *ledger, struct gq_node_entry *entry)
{
	if (entry->node || !gq_list_empty(&entry->charges))
		return;
	if (ledger->node_cursor == &entry->in_all)
		ledger->node_cursor = entry->in_all.next;
	gq_list_remove(&entry->in_all);
	gq_map_remove(ledger->nodes, entry->name, strlen(entry->name));
	node_entry_free(entry);
	ledger->nodes_changed = true;
}

/* Whether `state` tells less of a node's class than `before` did: nothing, or only the model of its
 * variant. Under the policy in force; NULL tells nothing. */
static bool tells_less(const struct gq_ledger *ledger, const struct gq_node *state,
		       const struct gq_node *before)
{
	const struct gq_node *const nodes[] = {state, before};
	int told[2] = {GQ_CLASS_NONE, GQ_CLASS_NONE};

	if (!ledger->cur)
		return false;
	const struct gq_class_table *classes = ledger->cur->policy->classes;
	for (int i = 0; i < 2; i++)
		if (nodes[i])
			told[i] =
			    gq_class_read_labels(classes, nodes[i]->labels, nodes[i]->n_labels)
				.class_id;
	if (told[0] == told[1] || told[1] == GQ_CLASS_NONE)
		return false;
	return told[0] == GQ_CLASS_NONE || gq_class_inside(classes, told[1], told[0]);
}

/* Puts a new state (NULL: gone) in place; the last state that told more of the class stays as
 * evidence. */
static void node_replace(struct gq_ledger *ledger, struct gq_node_entry *entry,
			 const struct gq_node *node)
{
	struct gq_node *old = entry->node, *evidence = entry->evidence;

	if (tells_less(ledger, old, evidence)) {
		gq_node_unref(old);
	} else {
		gq_node_unref(evidence);
		evidence = old;
	}
	if (!tells_less(ledger, node, evidence)) {
		gq_node_unref(evidence);
		evidence = NULL;
	}
	entry->node = node ? gq_node_ref(node) : NULL;
	entry->evidence = evidence;
	ledger->nodes_changed = true;
}

int gq_ledger_node_seen(struct gq_ledger *ledger, const struct gq_node *node, struct gq_err *err)
{
	int code = 0;

	gq_ledger_lock(ledger);
	struct gq_node_entry *entry = node_get(ledger, node->name);
	if (!entry) {
		code = gq_fail(err, GQ_ENOMEM, "out of memory for node %s", node->name);
	} else {
		entry->list_epoch = ledger->epoch[GQ_NODES];
		if (!entry->node || !gq_node_equal(entry->node, node))
			node_replace(ledger, entry, node);
	}
	gq_ledger_unlock(ledger);
	return code;
}

void gq_ledger_node_gone(struct gq_ledger *ledger, const char *name)
{
	gq_ledger_lock(ledger);
	struct gq_node_entry *entry = gq_map_get(ledger->nodes, name, strlen(name));
	if (entry && entry->node) {
		node_replace(ledger, entry, NULL);
		node_drop_unused(ledger, entry);
	}
	gq_ledger_unlock(ledger);
}

/* ---- charges ---- */

void gq_ledger_state_set(struct gq_ledger *ledger, struct gq_charge *charge,
			 enum gq_charge_state state)
{
	ledger->by_state[charge->state]--;
	ledger->by_state[state]++;
	charge->state = state;
}

struct gq_charge *gq_ledger_charge_new(struct gq_ledger *ledger, const struct gq_pod *pod)
{
	struct gq_slot *slot = slot_get(ledger, pod->namespace_, pod->name);
	struct gq_charge *charge = slot ? calloc(1, sizeof *charge) : NULL;

	if (!charge || gq_map_put(ledger->charges, pod->uid, strlen(pod->uid), charge, NULL)) {
		free(charge);
		if (slot)
			slot_drop_unused(ledger, slot);
		return NULL;
	}
	charge->pod = gq_pod_ref(pod);
	charge->state = GQ_STATE_RESERVED;
	charge->slot = slot;
	charge->list_epoch = ledger->epoch[GQ_PODS];
	charge->verify_epoch = ledger->verify_epoch;
	gq_list_init(&charge->in_node);
	gq_list_init(&charge->waiting);
	gq_list_init(&charge->in_unseen);
	gq_list_append(&slot->charges, &charge->in_slot);
	ledger->by_state[GQ_STATE_RESERVED]++;
	return charge;
}

static void charge_free(struct gq_charge *charge)
{
	gq_pod_unref(charge->pod);
	gq_parts_done(&charge->parts[0]);
	gq_parts_done(&charge->parts[1]);
	free(charge->bind_node);
	free(charge->request_uid);
	free(charge->entry);
	free(charge);
}

static void charge_leave_node(struct gq_ledger *ledger, struct gq_charge *charge)
{
	struct gq_node_entry *entry = charge->node;

	gq_list_remove(&charge->in_node);
	charge->node = NULL;
	if (entry)
		node_drop_unused(ledger, entry);
}

void gq_ledger_charge_remove(struct gq_ledger *ledger, struct gq_charge *charge, int64_t now_ns)
{
	struct gq_slot *slot = charge->slot;

	gq_ledger_uncount(ledger, slot, now_ns);
	gq_list_remove(&charge->in_slot);
	gq_ledger_count(ledger, slot, now_ns);
	free(charge->bind_node);
	charge->bind_node = NULL;
	charge->entry_binds = false;
	gq_reserve_settle(ledger, charge, now_ns);
	charge_leave_node(ledger, charge);
	gq_map_remove(ledger->charges, charge->pod->uid, strlen(charge->pod->uid));
	ledger->by_state[charge->state]--;
	charge_free(charge);
	slot_drop_unused(ledger, slot);
}

int gq_ledger_charge_parts(const struct gq_book *book, const struct gq_pod *pod,
			   const char *bind_node, struct gq_parts *ret_parts)
{
	struct gq_candidates candidates;
	struct gq_parts parts = {0}, bind_parts = {0};
	int code = 0;

	gq_node_snapshot_match(book->snapshot, pod, &candidates);
	if (gq_parts_compute(book->policy, pod, &candidates, &parts))
		return GQ_ENOMEM;
	if (bind_node) {
		gq_node_snapshot_match_node(book->snapshot, bind_node, &candidates);
		code = gq_parts_compute(book->policy, pod, &candidates, &bind_parts);
		if (!code)
			code = gq_parts_merge(&parts, &bind_parts);
		gq_parts_done(&bind_parts);
	}
	if (code)
		gq_parts_done(&parts);
	else
		*ret_parts = parts;
	return code;
}

/* Parts under each book, by its bank. */
static int parts_new(const struct gq_ledger *ledger, const struct gq_pod *pod,
		     const char *bind_node, struct gq_parts ret_parts[2])
{
	struct gq_book *const books[] = {ledger->cur, ledger->next};

	for (size_t i = 0; i < 2; i++) {
		if (books[i] &&
		    gq_ledger_charge_parts(books[i], pod, bind_node, &ret_parts[books[i]->bank])) {
			gq_parts_done(&ret_parts[0]);
			gq_parts_done(&ret_parts[1]);
			return GQ_ENOMEM;
		}
	}
	return 0;
}

static void parts_take(const struct gq_ledger *ledger, struct gq_charge *charge,
		       const struct gq_parts parts[2])
{
	struct gq_book *const books[] = {ledger->cur, ledger->next};

	for (size_t i = 0; i < 2; i++) {
		if (!books[i])
			continue;
		gq_parts_done(&charge->parts[books[i]->bank]);
		charge->parts[books[i]->bank] = parts[books[i]->bank];
	}
}

int gq_ledger_charge_refresh(struct gq_ledger *ledger, struct gq_charge *charge)
{
	struct gq_parts fresh[2] = {{0}};

	if (parts_new(ledger, charge->pod, charge->bind_node, fresh))
		return GQ_ENOMEM;
	parts_take(ledger, charge, fresh);
	return 0;
}

void gq_charge_admit(const struct gq_ledger *ledger, struct gq_charge *charge,
		     const struct gq_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++) {
		int id = parts->items[i].class_id;
		gq_class_set_add(&charge->admitted[ledger->cur->bank], id);
		if (ledger->next && ledger->class_moves[id] >= 0)
			gq_class_set_add(&charge->admitted[ledger->next->bank],
					 ledger->class_moves[id]);
	}
}

void gq_charge_admit_no_more(const struct gq_ledger *ledger, struct gq_charge *charge)
{
	const struct gq_book *const books[] = {ledger->cur, ledger->next};

	for (size_t b = 0; charge->admitted_known && b < 2; b++) {
		if (!books[b])
			continue;
		const struct gq_parts *parts = &charge->parts[books[b]->bank];
		struct gq_class_set *admitted = &charge->admitted[books[b]->bank];
		struct gq_class_set kept = {{0}};
		for (size_t i = 0; i < parts->n; i++)
			if (gq_class_set_has(admitted, parts->items[i].class_id))
				gq_class_set_add(&kept, parts->items[i].class_id);
		*admitted = kept;
	}
}

void gq_charge_admit_parts(const struct gq_ledger *ledger, struct gq_charge *charge)
{
	const struct gq_book *const books[] = {ledger->cur, ledger->next};

	if (!ledger->synced || !(ledger->cur || ledger->next))
		return;
	for (size_t b = 0; b < 2; b++) {
		const struct gq_parts *parts = books[b] ? &charge->parts[books[b]->bank] : NULL;
		for (size_t i = 0; parts && i < parts->n; i++)
			gq_class_set_add(&charge->admitted[books[b]->bank],
					 parts->items[i].class_id);
	}
	charge->admitted_known = true;
}

enum gq_charge_state gq_ledger_seen_state(const struct gq_pod *pod)
{
	if (pod->terminating)
		return GQ_STATE_TERMINATING;
	return pod->node_name[0] ? GQ_STATE_BOUND : GQ_STATE_PENDING;
}

/* Puts the pod's new state into its charge. The slot is uncounted. GQ_ENOMEM changes nothing. */
static int charge_update(struct gq_ledger *ledger, struct gq_charge *charge,
			 const struct gq_pod *pod, bool fresh_charge)
{
	/* Most events change only the status. */
	bool same = !fresh_charge && !charge->bind_node && gq_pod_asks_alike(charge->pod, pod);
	const char *bind_node = pod->node_name[0] ? NULL : charge->bind_node;
	struct gq_node_entry *entry = NULL;
	struct gq_parts fresh[2] = {{0}};

	if (!same && parts_new(ledger, pod, bind_node, fresh))
		return GQ_ENOMEM;
	if (pod->node_name[0]) {
		entry = node_get(ledger, pod->node_name);
		if (!entry) {
			gq_parts_done(&fresh[0]);
			gq_parts_done(&fresh[1]);
			return GQ_ENOMEM;
		}
	}
	if (!same)
		parts_take(ledger, charge, fresh);
	if (entry != charge->node) {
		charge_leave_node(ledger, charge);
		charge->node = entry;
		if (entry)
			gq_list_append(&entry->charges, &charge->in_node);
	}
	/* the map's key points into the pod */
	gq_map_remove(ledger->charges, charge->pod->uid, strlen(charge->pod->uid));
	const struct gq_pod *old = charge->pod;
	charge->pod = gq_pod_ref(pod);
	(void)gq_map_put(ledger->charges, pod->uid, strlen(pod->uid), charge, NULL);
	gq_pod_unref(old);
	gq_ledger_state_set(ledger, charge, gq_ledger_seen_state(pod));
	if (pod->node_name[0]) {
		free(charge->bind_node);
		charge->bind_node = NULL;
		charge->entry_binds = false;
	}
	return 0;
}

int gq_ledger_pod_update(struct gq_ledger *ledger, const struct gq_pod *pod, int64_t now_ns)
{
	struct gq_charge *charge = gq_map_get(ledger->charges, pod->uid, strlen(pod->uid));
	bool holds = gq_pod_holds(pod);

	if (charge && (!holds || strcmp(charge->pod->name, pod->name) != 0 ||
		       strcmp(charge->pod->namespace_, pod->namespace_) != 0)) {
		if (!holds)
			gq_unseen_over(ledger, pod->uid);
		gq_ledger_charge_remove(ledger, charge, now_ns);
		charge = NULL;
	}
	if (!holds)
		return 0;
	bool fresh = !charge;
	if (fresh)
		charge = gq_ledger_charge_new(ledger, pod);
	if (!charge)
		return GQ_ENOMEM;
	gq_ledger_uncount(ledger, charge->slot, now_ns);
	int code = charge_update(ledger, charge, pod, fresh);
	gq_ledger_count(ledger, charge->slot, now_ns);
	if (code && fresh)
		gq_ledger_charge_remove(ledger, charge, now_ns);
	else if (!code && !charge->admitted_known)
		gq_charge_admit_parts(ledger, charge);
	return code;
}

/* A decision charges every GPU pod in a namespace of a tenant, and none elsewhere. */
static bool was_unasked(const struct gq_ledger *ledger, const struct gq_charge *charge)
{
	return ledger->synced && ledger->deciding && ledger->cur &&
	       charge->slot->ns->assign[ledger->cur->bank].tenant >= 0;
}

void gq_ledger_charge_watched(struct gq_ledger *ledger, struct gq_charge *charge, bool known,
			      int64_t now_ns)
{
	if (!known)
		charge->unasked = was_unasked(ledger, charge);
	charge->list_epoch = ledger->epoch[GQ_PODS];
	charge->watched = true;
	gq_reserve_settle(ledger, charge, now_ns);
}

int gq_ledger_pod_seen(struct gq_ledger *ledger, const struct gq_pod *pod, int64_t now_ns,
		       struct gq_err *err)
{
	gq_ledger_lock(ledger);
	bool known = gq_map_get(ledger->charges, pod->uid, strlen(pod->uid));
	gq_verify_heard(ledger, pod->uid);
	int code = gq_ledger_pod_update(ledger, pod, now_ns);
	struct gq_charge *charge = gq_map_get(ledger->charges, pod->uid, strlen(pod->uid));
	if (charge)
		gq_ledger_charge_watched(ledger, charge, known, now_ns);
	gq_ledger_unlock(ledger);
	return code ? gq_fail(err, code, "out of memory for pod %s/%s", pod->namespace_, pod->name)
		    : 0;
}

void gq_ledger_pod_gone(struct gq_ledger *ledger, const char *uid, int64_t now_ns)
{
	gq_ledger_lock(ledger);
	gq_verify_heard(ledger, uid);
	struct gq_charge *charge = gq_map_get(ledger->charges, uid, strlen(uid));
	/* Its kubelet would have said first that its containers have ended. */
	if (charge && charge->watched && charge->node && ledger->deciding)
		ledger->forced_deletions++;
	if (charge) {
		gq_unseen_over(ledger, uid);
		gq_ledger_charge_remove(ledger, charge, now_ns);
	}
	gq_ledger_unlock(ledger);
}

/* ---- full lists ---- */

void gq_ledger_list_begin(struct gq_ledger *ledger, enum gq_collection collection)
{
	gq_ledger_lock(ledger);
	ledger->epoch[collection]++;
	gq_ledger_unlock(ledger);
}

/* Takes out the pods of one slot that the list did not show. Reservations, and pods that only a GET
 * has shown, are no business of the list: they may be younger than it. */
static void slot_sweep(struct gq_ledger *ledger, struct gq_slot *slot, int64_t now_ns)
{
	for (;;) {
		struct gq_charge *gone = NULL;
		for (struct gq_list *at = slot->charges.next; at != &slot->charges; at = at->next) {
			struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
			if (charge->watched && charge->list_epoch != ledger->epoch[GQ_PODS]) {
				gone = charge;
				break;
			}
		}
		if (!gone)
			return;
		bool last = gone->in_slot.next == gone->in_slot.prev;
		gq_unseen_over(ledger, gone->pod->uid);
		gq_ledger_charge_remove(ledger, gone, now_ns);
		if (last)
			return; /* the slot is gone too */
	}
}

static void sweep_pods(struct gq_ledger *ledger, int64_t now_ns)
{
	gq_lock_take(&ledger->build_lock);
	gq_ledger_lock(ledger);
	ledger->slot_cursor = ledger->all_slots.next;
	for (unsigned n = 1; ledger->slot_cursor != &ledger->all_slots; n++) {
		struct gq_slot *slot = gq_list_entry(ledger->slot_cursor, struct gq_slot, in_all);
		ledger->slot_cursor = ledger->slot_cursor->next;
		slot_sweep(ledger, slot, now_ns);
		if (n % GQ_SLICE == 0) {
			gq_ledger_unlock(ledger);
			gq_ledger_lock(ledger);
		}
	}
	ledger->slot_cursor = NULL;
	gq_ledger_unlock(ledger);
	gq_lock_release(&ledger->build_lock);
}

static void sweep_nodes(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	for (struct gq_list *at = ledger->all_nodes.next, *then; at != &ledger->all_nodes;
	     at = then) {
		struct gq_node_entry *entry = gq_list_entry(at, struct gq_node_entry, in_all);
		then = at->next;
		if (entry->node && entry->list_epoch != ledger->epoch[GQ_NODES]) {
			node_replace(ledger, entry, NULL);
			node_drop_unused(ledger, entry);
		}
	}
	gq_ledger_unlock(ledger);
}

int gq_ledger_list_end(struct gq_ledger *ledger, enum gq_collection collection, int64_t now_ns,
		       struct gq_err *err)
{
	if (collection == GQ_PODS)
		sweep_pods(ledger, now_ns);
	else if (collection == GQ_NAMESPACES)
		gq_ledger_ns_sweep(ledger);
	else if (collection == GQ_NODES)
		sweep_nodes(ledger);
	return collection == GQ_NODES ? gq_ledger_nodes_settle(ledger, now_ns, err) : 0;
}

/* ---- policy, readiness, end ---- */

int gq_ledger_set_policy(struct gq_ledger *ledger, const struct gq_policy *policy, int64_t now_ns,
			 struct gq_err *err)
{
	unsigned active = gq_rules_active_anywhere(policy);
	unsigned before = atomic_load(&ledger->rules_active);

	/* whoever meets the new policy has to meet its rules */
	atomic_fetch_or(&ledger->rules_active, active);
	int code = gq_ledger_rebuild(ledger, policy, now_ns, NULL, err);
	atomic_store(&ledger->rules_active, code ? before : active);
	return code;
}

unsigned gq_ledger_rules_active(const struct gq_ledger *ledger)
{
	return atomic_load(&ledger->rules_active);
}

struct gq_policy *gq_ledger_policy(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	struct gq_policy *policy = ledger->cur ? gq_policy_ref(ledger->cur->policy) : NULL;
	gq_ledger_unlock(ledger);
	return policy;
}

enum gq_locale gq_ledger_locale(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	enum gq_locale locale = gq_book_locale(ledger->cur);
	gq_ledger_unlock(ledger);
	return locale;
}

void gq_ledger_set_synced(struct gq_ledger *ledger)
{
	gq_lock_take(&ledger->build_lock);
	gq_ledger_lock(ledger);
	ledger->synced = true;
	if (ledger->cur)
		gq_ledger_admit_seen(ledger);
	gq_ledger_unlock(ledger);
	gq_lock_release(&ledger->build_lock);
}

void gq_ledger_set_deciding(struct gq_ledger *ledger, bool deciding)
{
	gq_ledger_lock(ledger);
	ledger->deciding = deciding;
	gq_ledger_unlock(ledger);
}

bool gq_ledger_ready(struct gq_ledger *ledger)
{
	gq_ledger_lock(ledger);
	bool ready = ledger->synced && ledger->cur;
	gq_ledger_unlock(ledger);
	return ready;
}

void gq_ledger_free(struct gq_ledger *ledger)
{
	if (!ledger)
		return;
	while (ledger->charges && !gq_list_empty(&ledger->all_slots)) {
		struct gq_slot *slot =
		    gq_list_entry(ledger->all_slots.next, struct gq_slot, in_all);
		struct gq_list *first = slot->charges.next;
		gq_ledger_charge_remove(ledger, gq_list_entry(first, struct gq_charge, in_slot), 0);
	}
	while (ledger->namespaces && !gq_list_empty(&ledger->all_namespaces)) {
		struct gq_ns *ns = gq_list_entry(ledger->all_namespaces.next, struct gq_ns, in_all);
		gq_list_remove(&ns->in_all);
		gq_ledger_ns_free(ns);
	}
	while (ledger->nodes && !gq_list_empty(&ledger->all_nodes)) {
		struct gq_node_entry *entry =
		    gq_list_entry(ledger->all_nodes.next, struct gq_node_entry, in_all);
		gq_list_remove(&entry->in_all);
		node_entry_free(entry);
	}
	gq_verify_free(ledger->verify);
	gq_book_free(ledger->cur);
	gq_map_free(ledger->charges);
	gq_map_free(ledger->tickets);
	gq_map_free(ledger->requests);
	gq_map_free(ledger->slots);
	gq_map_free(ledger->namespaces);
	gq_map_free(ledger->nodes);
	gq_map_free(ledger->owners);
	free(ledger->ended);
	free(ledger->over);
	gq_lock_done(&ledger->build_lock);
	gq_lock_done(&ledger->turn);
	gq_lock_done(&ledger->lock);
	free(ledger);
}
