#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/decision_internal.h"
#include "quota/entry.h"

#define STORE_WAIT_NS (5 * GQ_NS_PER_MS)

/* The one of the pods of a name that a binding without uid means: the pod that exists, before one
 * that was only asked for; the youngest of these. */
static struct gq_charge *find_bindable(const struct gq_slot *slot)
{
	struct gq_charge *reserved = NULL;

	for (const struct gq_list *at = slot->charges.prev; at != &slot->charges; at = at->prev) {
		struct gq_charge *charge = gq_list_entry(at, struct gq_charge, in_slot);
		if (charge->state == GQ_STATE_PENDING)
			return charge;
		if (charge->state == GQ_STATE_RESERVED && !reserved)
			reserved = charge;
	}
	return reserved;
}

static struct gq_charge *find_bound_charge(struct gq_ledger *ledger,
					   const struct gq_binding *binding)
{
	struct gq_charge *charge = NULL;

	if (binding->uid[0]) {
		charge = gq_map_get(ledger->charges, binding->uid, strlen(binding->uid));
	} else {
		const struct gq_slot *slot =
		    gq_ledger_slot_find(ledger, binding->namespace_, binding->name);
		if (slot)
			charge = find_bindable(slot);
	}
	/* already on a node: the API server refuses to bind it again */
	return charge && !charge->pod->node_name[0] ? charge : NULL;
}

/* What the charge holds by right: not what its selectors, its tolerations or new nodes have added
 * since it was allowed. */
static int admitted_parts(const struct gq_charge *charge, unsigned bank, struct gq_parts *ret_parts)
{
	size_t n = 0;

	if (gq_parts_merge(ret_parts, &charge->parts[bank]))
		return GQ_ENOMEM;
	for (size_t i = 0; i < ret_parts->n; i++)
		if (!charge->admitted_known ||
		    gq_class_set_has(&charge->admitted[bank], ret_parts->items[i].class_id))
			ret_parts->items[n++] = ret_parts->items[i];
	ret_parts->n = n;
	return 0;
}

/* Whether the parts ask for anything that those held by right do not cover. */
static bool parts_exceed(const struct gq_parts *parts, const struct gq_parts *had)
{
	for (size_t i = 0; i < parts->n; i++) {
		const struct gq_part *part = &parts->items[i];
		bool covered = false;
		for (size_t h = 0; !covered && h < had->n; h++)
			covered = had->items[h].class_id == part->class_id &&
				  had->items[h].amount.shares >= part->amount.shares &&
				  had->items[h].amount.memory_mib >= part->amount.memory_mib;
		if (!covered)
			return true;
	}
	return false;
}

struct bind_result {
	struct gq_findings findings;
	struct gq_pod *pod;
	struct gq_policy *policy;
	struct gq_node_snapshot *snapshot;
	int tenant;
	enum gq_locale locale;
	enum gq_room room;
	bool wait;    /* something about the pod is being stored: ask again */
	bool too_big; /* for a line of the journal */
	bool earlier; /* another binding of the pod is still on its way */
	uint64_t ticket;
};

/* The line keeps who asked for the pod, where it was not seen yet. 0 or GQ_ENOMEM, GQ_ETOOBIG,
 * GQ_EINVALID: no node can have such a name. */
static int print_line(const struct gq_charge *charge, const char *node, struct gq_buf *line)
{
	struct gq_entry old GQ_CLEANUP(gq_entry_done) = {0};
	struct gq_err err;

	if (charge->entry && gq_entry_decode(charge->entry, charge->entry_len, &old, &err))
		return GQ_ENOMEM;
	return gq_entry_print(line, charge->pod, old.user, node);
}

/* Charges the class of the node besides, until the pod is seen there. What that adds must be in the
 * journal before the answer: the pod may be bound by it long after we are gone. */
static int bind_charge(struct gq_ledger *ledger, const struct gq_binding *binding,
		       struct gq_charge *charge, const struct gq_parts *node_parts, bool adds,
		       struct bind_result *result)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	int code = 0;

	/* It may yet reach the store, so it stays charged until it is seen there or over; what the
	 * pod holds by right beside it needs nothing more. */
	if (charge->entry_binds) {
		result->earlier = adds;
		return 0;
	}
	if (adds) {
		code = print_line(charge, binding->node, &line);
		result->too_big = code == GQ_ETOOBIG;
		if (code == GQ_EINVALID)
			result->room = GQ_ROOM_HELD;
		if (code)
			return code == GQ_ENOMEM ? code : 0;
		result->room = gq_unseen_room(ledger, charge->slot->ns,
					      gq_unseen_cost(line.data, line.len), binding->now_ns);
		if (result->room != GQ_ROOM)
			return 0;
	}
	if (adds && gq_reserve_set_ticket(ledger, charge, false))
		return GQ_ENOMEM;
	code = gq_reserve_bind(ledger, charge, binding->node, binding->now_ns);
	if (code) {
		gq_reserve_close_ticket(ledger, charge);
		return code;
	}
	if (adds) {
		gq_unseen_add(ledger, charge, &line);
		charge->entry_binds = true;
		result->ticket = charge->ticket;
	}
	gq_charge_admit(ledger, charge, node_parts);
	gq_reserve_wait(ledger, charge, binding->now_ns);
	return 0;
}

static int decide_bind_locked(struct gq_ledger *ledger, const struct gq_binding *binding,
			      struct gq_charge *charge, struct bind_result *result)
{
	struct gq_book *book = ledger->cur;
	struct gq_parts node_parts GQ_CLEANUP(gq_parts_done) = {0};
	struct gq_parts had GQ_CLEANUP(gq_parts_done) = {0};
	struct gq_parts merged GQ_CLEANUP(gq_parts_done) = {0};
	struct gq_candidates candidates;

	result->tenant = charge->slot->ns->assign[book->bank].tenant;
	if (result->tenant < 0)
		return 0;
	result->locale = book->policy->tenants[result->tenant].locale;
	if (charge->ticket && !binding->dry_run) {
		result->wait = true;
		return 0;
	}
	result->pod = gq_pod_ref(charge->pod);
	result->policy = gq_policy_ref(book->policy);
	result->snapshot = gq_node_snapshot_ref(book->snapshot);
	gq_node_snapshot_match_node(book->snapshot, binding->node, &candidates);
	if (gq_parts_compute(book->policy, charge->pod, &candidates, &node_parts) ||
	    admitted_parts(charge, book->bank, &had) || gq_parts_merge(&merged, &had) ||
	    gq_parts_merge(&merged, &node_parts))
		return GQ_ENOMEM;
	gq_fit(book, charge->slot, result->tenant, &merged, &node_parts, charge, &had,
	       binding->wall_s, &result->findings);
	if (gq_findings_enforced(&result->findings) || binding->dry_run)
		return 0;
	return bind_charge(ledger, binding, charge, &node_parts, parts_exceed(&node_parts, &had),
			   result);
}

int gq_decide_binding(struct gq_ledger *ledger, const struct gq_binding *binding,
		      struct gq_verdict *verdict, struct gq_err *err)
{
	struct bind_result result = {.tenant = -1};
	int code = 0;

	if (gq_check_too_late(ledger, binding->now_ns, binding->deadline_ns, verdict))
		return 0;
	gq_ledger_lock(ledger);
	bool ready = ledger->synced && ledger->cur;
	result.locale = gq_book_locale(ledger->cur);
	struct gq_charge *charge = ready ? find_bound_charge(ledger, binding) : NULL;
	if (charge)
		code = decide_bind_locked(ledger, binding, charge, &result);
	gq_ledger_unlock(ledger);
	verdict->locale = result.locale;
	if (!ready)
		return gq_verdict_unavailable(verdict, GQ_REASON_NOT_SYNCED);
	if (code) {
		code = gq_fail(err, GQ_ENOMEM, "out of memory while deciding a binding");
	} else if (result.wait) {
		gq_verdict_wait(verdict, STORE_WAIT_NS);
	} else if (result.earlier) {
		gq_explain_earlier_binding(&verdict->message, verdict->locale, binding->node);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, GQ_REASON_EARLIER_BINDING);
	} else if (result.too_big) {
		gq_explain_too_big(&verdict->message, verdict->locale);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, GQ_REASON_UNSUPPORTED);
	} else if (result.room != GQ_ROOM) {
		/* Refused, since the API server would let an unanswered binding pass. */
		gq_verdict_no_room(verdict, result.room);
		verdict->kind = GQ_VERDICT_DENY;
	} else if (result.tenant < 0) {
		gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_NO_GPU);
	} else {
		const struct gq_explain about = {.policy = result.policy,
						 .snapshot = result.snapshot,
						 .pod = result.pod,
						 .namespace_ = binding->namespace_,
						 .locale = verdict->locale};
		verdict->policy = gq_policy_ref(result.policy);
		verdict->tenant = result.policy->tenants[result.tenant].name;
		gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_FITS);
		verdict->ticket = result.ticket;
		const struct gq_finding *refusal = gq_findings_enforced(&result.findings);
		size_t n = refusal ? 1 : result.findings.n;
		for (size_t i = 0; i < n; i++) {
			const struct gq_finding *f = refusal ? refusal : &result.findings.items[i];
			gq_explain_binding(&verdict->message, &about, binding->node, f);
			(void)gq_verdict_refuse(verdict, f->mode, gq_finding_reason(f));
		}
	}
	gq_pod_unref(result.pod);
	gq_policy_unref(result.policy);
	gq_node_snapshot_unref(result.snapshot);
	return code;
}
