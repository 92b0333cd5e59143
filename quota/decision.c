#include "quota/decision.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/decision_internal.h"
#include "quota/entry.h"
#include "quota/message.h"
#include "quota/rules_internal.h"

#define WATCH_WAIT_NS (5 * GQ_NS_PER_MS)
#define PROBE_WAIT_NS (20 * GQ_NS_PER_MS)

/* ---- the namespace's tenant ---- */

bool gq_check_namespace(const struct gq_view *view, const char *name, struct gq_verdict *verdict)
{
	const struct gq_assign *assign = &view->assign;
	const struct gq_tenant *tenants = view->policy->tenants;

	switch (assign->kind) {
	case GQ_ASSIGN_EXEMPT:
		gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_EXEMPT);
		return true;
	case GQ_ASSIGN_AMBIGUOUS:
		gq_explain_ambiguous_namespace(&verdict->message, verdict->locale, name,
					       tenants[assign->first].name,
					       tenants[assign->second].name);
		if (!gq_verdict_refuse(verdict, view->policy->mode, GQ_REASON_AMBIGUOUS_NAMESPACE))
			gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_AMBIGUOUS_NAMESPACE);
		return true;
	case GQ_ASSIGN_NONE:
	case GQ_ASSIGN_UNKNOWN:
		if (!view->policy->unassigned_allow) {
			gq_explain_unassigned(&verdict->message, verdict->locale, name);
			(void)gq_verdict_refuse(verdict, view->policy->mode, GQ_REASON_UNASSIGNED);
		}
		if (verdict->kind != GQ_VERDICT_DENY)
			gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_UNASSIGNED);
		return true;
	case GQ_ASSIGN_TENANT:
		break;
	}
	return false;
}

/* The strictest mode among a tenant and the parents whose limits its pods count in: what no limit
 * can see would pass by an enforced one, too. */
static enum gq_mode strictest_mode(const struct gq_policy *policy, int tenant)
{
	enum gq_mode mode = policy->tenants[tenant].mode;

	for (int t = policy->tenants[tenant].parent; t >= 0; t = policy->tenants[t].parent)
		if (policy->tenants[t].n_limits > 0 && policy->tenants[t].mode < mode)
			mode = policy->tenants[t].mode;
	return mode;
}

bool gq_check_countable(const struct gq_view *view, const struct gq_pod *pod,
			struct gq_reads *reads, struct gq_verdict *verdict)
{
	enum gq_mode mode = strictest_mode(view->policy, view->assign.tenant);

	if (pod->problem.kind != GQ_PROBLEM_NONE) {
		bool quantity = pod->problem.kind == GQ_PROBLEM_BAD_QUANTITY;
		gq_explain_problem(&verdict->message, verdict->locale, pod);
		if (gq_verdict_refuse(verdict, mode,
				      quantity ? GQ_REASON_BAD_QUANTITY : GQ_REASON_UNSUPPORTED))
			return true;
	}
	if (pod->n_claims == 0 && pod->n_device_classes == 0)
		return false;
	switch (gq_claims_check(pod, reads, verdict->locale, &verdict->message)) {
	case GQ_CLAIMS_READ:
		gq_verdict_answer(verdict, GQ_VERDICT_READ, GQ_REASON_CLAIM);
		return true;
	case GQ_CLAIMS_FAILED:
		gq_verdict_unavailable(verdict, GQ_REASON_CLAIM);
		return true;
	case GQ_CLAIMS_REFUSED:
		return gq_verdict_refuse(verdict, mode, GQ_REASON_CLAIM);
	case GQ_CLAIMS_HARMLESS:
		break;
	}
	return false;
}

bool gq_check_pod_limit(const struct gq_view *view, const struct gq_pod *pod,
			const struct gq_parts *parts, struct gq_verdict *verdict)
{
	const struct gq_tenant *tenant = gq_view_tenant(view);
	struct gq_pod_limit_finding finding;

	if (!gq_pod_limit_passed(view->policy, &tenant->pod_limit, pod, parts, &finding))
		return false;
	gq_explain_pod_limit(&verdict->message, verdict->locale, view->policy, tenant->name,
			     &finding);
	return gq_verdict_refuse(verdict, tenant->mode, GQ_REASON_POD_LIMIT);
}

/* Whether the pod may land on several classes that no one limit of the tenant holds together. */
static bool lands_on_several(const struct gq_view *view, const struct gq_parts *parts)
{
	const struct gq_policy *policy = view->policy;
	const struct gq_tenant *tenant = &policy->tenants[view->assign.tenant];

	if (parts->n < 2)
		return false;
	for (size_t i = 0; i < tenant->n_limits; i++) {
		int id = tenant->limits[i].class_id;
		size_t inside = 0;
		for (size_t p = 0; id != GQ_CLASS_ANY && p < parts->n; p++)
			inside += gq_class_set_has(gq_class_leaves(policy->classes, id),
						   parts->items[p].class_id);
		if (inside == parts->n)
			return false;
	}
	return true;
}

bool gq_check_ambiguous_class(const struct gq_view *view, const struct gq_pod *pod,
			      const struct gq_parts *parts, struct gq_verdict *verdict)
{
	const struct gq_explain about = gq_view_explain(view, pod, verdict);

	if (!view->policy->ambiguous_deny || !lands_on_several(view, parts))
		return false;
	gq_explain_ambiguous_class(&verdict->message, &about, view->assign.tenant, parts);
	return gq_verdict_refuse(verdict, gq_view_tenant(view)->mode, GQ_REASON_AMBIGUOUS_CLASS);
}

/* ---- charging ---- */

/* Earlier attempts of the same maker that no pod followed. One that makes pods fast is held back
 * until its last ones were seen, so that pods which something after us refuses never hold more than
 * a few GPUs. Returns true when the verdict is made. */
static bool check_attempts(struct gq_ledger *ledger, const struct gq_create *create,
			   const struct gq_maker_key *maker, struct gq_verdict *verdict)
{
	struct gq_attempts attempts = gq_makers_attempts(ledger, maker->key.data, create->now_ns);

	if (attempts.absent >= maker->most_absent) {
		gq_explain_attempts(&verdict->message, verdict->locale, create->pod, &attempts);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, GQ_REASON_OWNER_ATTEMPTS);
		return true;
	}
	if (attempts.old >= maker->most_absent) { /* the API server is being asked */
		gq_verdict_wait(verdict, PROBE_WAIT_NS);
		return true;
	}
	if (maker->most_unseen && attempts.unseen >= maker->most_unseen) {
		gq_makers_hurry(ledger, maker->key.data, create->now_ns);
		gq_verdict_wait(verdict, WATCH_WAIT_NS);
		return true;
	}
	return false;
}

static bool check_makers(struct gq_ledger *ledger, const struct gq_create *create,
			 const struct gq_maker_key makers[GQ_MAKERS], struct gq_verdict *verdict)
{
	for (int m = 0; m < GQ_MAKERS; m++)
		if (makers[m].key.len && check_attempts(ledger, create, &makers[m], verdict))
			return true;
	return false;
}

/* What is worked out about a pod without the lock, and what is found with it. */
struct proposal {
	const struct gq_create *create;
	const struct gq_view *view;
	struct gq_parts parts;
	struct gq_maker_key makers[GQ_MAKERS];
	struct gq_buf entry; /* its line in the journal */
	struct gq_findings findings;
	struct gq_facts facts;
};

static void proposal_done(struct proposal *proposal)
{
	gq_parts_done(&proposal->parts);
	gq_makers_done(&proposal->makers);
	gq_buf_done(&proposal->entry);
}

/* Makes the charge. 0 or GQ_ENOMEM, which leaves nothing behind. */
static int charge_make(struct gq_ledger *ledger, struct proposal *proposal, uint64_t *ret_ticket)
{
	const struct gq_create *create = proposal->create;
	struct gq_parts *parts = &proposal->parts;
	struct gq_charge *charge = gq_ledger_charge_new(ledger, create->pod);

	if (!charge)
		return GQ_ENOMEM;
	charge->answered_ns = create->now_ns;
	charge->admitted_known = true;
	gq_charge_admit(ledger, charge, parts);
	if (gq_makers_set(ledger, charge, proposal->makers) ||
	    gq_reserve_set_ticket(ledger, charge, true) ||
	    gq_reserve_set_request(ledger, charge, create->request_uid))
		goto fail;
	gq_ledger_uncount(ledger, charge->slot, create->now_ns);
	int code = 0;
	if (ledger->next)
		code = gq_ledger_charge_refresh(ledger, charge);
	else
		charge->parts[ledger->cur->bank] =
		    (struct gq_parts){GQ_STEAL(parts->items), parts->n};
	gq_ledger_count(ledger, charge->slot, create->now_ns);
	if (code)
		goto fail;
	gq_unseen_add(ledger, charge, &proposal->entry);
	*ret_ticket = charge->ticket;
	return 0;
fail:
	gq_ledger_charge_remove(ledger, charge, create->now_ns);
	return GQ_ENOMEM;
}

/* The same pod or the same request again. Returns true when the verdict is made. */
static bool check_again(struct gq_ledger *ledger, const struct gq_create *create,
			struct gq_verdict *verdict)
{
	const char *uid = create->pod->uid;
	struct gq_charge *charge = gq_map_get(ledger->charges, uid, strlen(uid));
	const struct gq_charge *request =
	    gq_map_get(ledger->requests, create->request_uid, strlen(create->request_uid));

	if (create->dry_run)
		return false;
	if (request && request != charge) {
		gq_message_print(&verdict->message, verdict->locale, GQ_MSG_REQUEST_UID_REUSED,
				 NULL, 0);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, GQ_REASON_REQUEST_UID);
		return true;
	}
	if (!charge)
		return false;
	if (charge->state == GQ_STATE_RESERVED && !charge->proposed)
		gq_reserve_wait(ledger, charge, create->now_ns);
	verdict->ticket = charge->ticket;
	gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_FITS);
	return true;
}

static bool check_room(struct gq_ledger *ledger, const struct proposal *proposal,
		       const struct gq_ns *ns, struct gq_verdict *verdict)
{
	const struct gq_buf *entry = &proposal->entry;
	enum gq_room room = gq_unseen_room(ledger, ns, gq_unseen_cost(entry->data, entry->len),
					   proposal->create->now_ns);

	if (room == GQ_ROOM)
		return true;
	(void)gq_verdict_no_room(verdict, room);
	return false;
}

/* The part of a decision that needs the lock: does it fit, and the charge. The words are printed by
 * the caller from the proposal's facts (refused: facts.finding is set) and findings (not enforced).
 */
static enum gq_outcome decide_locked(struct gq_ledger *ledger, struct proposal *proposal,
				     struct gq_verdict *verdict)
{
	const struct gq_create *create = proposal->create;
	const struct gq_pod *pod = create->pod;
	const struct gq_parts *parts = &proposal->parts;
	struct gq_findings *findings = &proposal->findings;
	int tenant = proposal->view->assign.tenant;

	if (ledger->generation != proposal->view->generation)
		return GQ_OUTCOME_AGAIN;
	if (check_again(ledger, create, verdict))
		return GQ_OUTCOME_DONE;
	const struct gq_slot *slot = gq_ledger_slot_find(ledger, pod->namespace_, pod->name);
	const struct gq_ns *ns =
	    gq_map_get(ledger->namespaces, pod->namespace_, strlen(pod->namespace_));
	gq_fit(ledger->cur, slot, tenant, parts, parts, NULL, NULL, create->wall_s, findings);
	const struct gq_finding *refusal = gq_findings_enforced(findings);
	if (refusal) {
		gq_fit_facts(ledger, ledger->cur, ns, slot, tenant, pod, parts, refusal,
			     create->wall_s, &proposal->facts);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, gq_finding_reason(refusal));
		return GQ_OUTCOME_DONE;
	}
	bool enforced = strictest_mode(proposal->view->policy, tenant) == GQ_MODE_ENFORCE;
	if (parts->n > 0 && !create->dry_run) {
		if ((enforced && check_makers(ledger, create, proposal->makers, verdict)) ||
		    !check_room(ledger, proposal, ns, verdict))
			return GQ_OUTCOME_DONE;
		if (charge_make(ledger, proposal, &verdict->ticket))
			return GQ_OUTCOME_NOMEM;
	}
	gq_verdict_answer(verdict, GQ_VERDICT_ALLOW,
			  findings->n ? gq_finding_reason(&findings->items[0]) : GQ_REASON_FITS);
	return GQ_OUTCOME_DONE;
}

/* The words for what decide_locked() found. */
static void print_findings(const struct gq_explain *about, int tenant,
			   const struct gq_findings *findings, const struct gq_facts *facts,
			   struct gq_verdict *verdict)
{
	if (verdict->kind == GQ_VERDICT_DENY) {
		if (verdict->reason == GQ_REASON_OVER_LIMIT ||
		    verdict->reason == GQ_REASON_UNLISTED)
			gq_explain_finding(&verdict->message, about, facts);
		return;
	}
	for (size_t i = 0; verdict->kind == GQ_VERDICT_ALLOW && i < findings->n; i++) {
		gq_explain_short(&verdict->message, about, &findings->items[i], tenant);
		(void)gq_verdict_refuse(verdict, findings->items[i].mode,
					gq_finding_reason(&findings->items[i]));
	}
}

/* Everything about the tenant's quota, under one view. */
static enum gq_outcome decide_quota(struct gq_ledger *ledger, struct proposal *proposal,
				    struct gq_verdict *verdict)
{
	const struct gq_create *create = proposal->create;
	const struct gq_view *view = proposal->view;
	const struct gq_explain about = gq_view_explain(view, create->pod, verdict);

	if (gq_makers_print(create->pod, create->user, proposal->makers))
		return GQ_OUTCOME_NOMEM;
	if (gq_check_pod_limit(view, create->pod, &proposal->parts, verdict) ||
	    gq_check_ambiguous_class(view, create->pod, &proposal->parts, verdict))
		return GQ_OUTCOME_DONE;
	int code = gq_entry_print(&proposal->entry, create->pod, create->user, NULL);
	if (code == GQ_ETOOBIG) {
		gq_explain_too_big(&verdict->message, verdict->locale);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, GQ_REASON_UNSUPPORTED);
		return GQ_OUTCOME_DONE;
	}
	if (code)
		return GQ_OUTCOME_NOMEM;
	gq_ledger_lock(ledger);
	enum gq_outcome outcome = decide_locked(ledger, proposal, verdict);
	gq_ledger_unlock(ledger);
	if (outcome == GQ_OUTCOME_DONE)
		print_findings(&about, view->assign.tenant, &proposal->findings, &proposal->facts,
			       verdict);
	return outcome;
}

/* Kubelets make pods that stand for their static ones: those run whatever we say. */
static bool is_mirror(const struct gq_create *create)
{
	static const char kubelet[] = "system:node:";

	return create->user && strncmp(create->user, kubelet, sizeof kubelet - 1) == 0;
}

/* Returns true when the verdict is made. */
static bool check_rules(const struct gq_create *create, const struct gq_view *view,
			const struct gq_parts *parts, struct gq_verdict *verdict)
{
	const struct gq_ruled ruled = {
	    .policy = view->policy,
	    .tenant = gq_view_tenant(view),
	    .snapshot = view->snapshot,
	    .pod = create->pod,
	    .posture = create->posture,
	    .parts = parts,
	    .reads = create->reads,
	};

	return !is_mirror(create) && gq_rules_verdict(&ruled, verdict);
}

static enum gq_outcome decide_in_view(struct gq_ledger *ledger, const struct gq_create *create,
				      const struct gq_view *view, struct gq_verdict *verdict)
{
	struct proposal proposal GQ_CLEANUP(proposal_done) = {
	    .create = create,
	    .view = view,
	    .entry = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES),
	    .facts = {.other_class = GQ_CLASS_NONE}};
	struct gq_candidates candidates;
	bool asks = gq_pod_asks_for_gpu(create->pod);

	if (view->assign.kind == GQ_ASSIGN_EXEMPT) {
		gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_EXEMPT);
		return GQ_OUTCOME_DONE;
	}
	if (asks) {
		gq_node_snapshot_match(view->snapshot, create->pod, &candidates);
		if (gq_parts_compute(view->policy, create->pod, &candidates, &proposal.parts))
			return GQ_OUTCOME_NOMEM;
	}
	if (check_rules(create, view, &proposal.parts, verdict))
		return GQ_OUTCOME_DONE;
	if (!asks) {
		gq_verdict_pass(verdict, GQ_REASON_NO_GPU);
		return GQ_OUTCOME_DONE;
	}
	if (gq_check_namespace(view, create->pod->namespace_, verdict) ||
	    gq_check_countable(view, create->pod, create->reads, verdict))
		return GQ_OUTCOME_DONE;
	return decide_quota(ledger, &proposal, verdict);
}

/* A pod that only requireUserNamespace could concern waits for nobody. */
static bool may_pass_unsynced(const struct gq_create *create, unsigned concern)
{
	return !gq_pod_asks_for_gpu(create->pod) &&
	       (concern & ~(1u << GQ_RULE_REQUIRE_USER_NAMESPACE)) == 0;
}

int gq_decide_create(struct gq_ledger *ledger, const struct gq_create *create,
		     struct gq_verdict *verdict, struct gq_err *err)
{
	unsigned concern = create->posture ? gq_rules_concern(create->posture, create->pod) &
						 gq_ledger_rules_active(ledger)
					   : 0;

	if (!gq_pod_asks_for_gpu(create->pod) && !concern)
		return gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_NO_GPU);
	for (int tries = 0; tries < GQ_REVALIDATE_MAX; tries++) {
		struct gq_view view GQ_CLEANUP(gq_view_done) = {0};
		gq_verdict_done(verdict);
		if (gq_check_too_late(ledger, create->now_ns, create->deadline_ns, verdict))
			return 0;
		if (!gq_view_take(ledger, create->pod->namespace_, create->reads, create->now_ns,
				  verdict, &view)) {
			if (verdict->kind == GQ_VERDICT_UNAVAILABLE &&
			    may_pass_unsynced(create, concern))
				gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_NO_GPU);
			return 0;
		}
		switch (decide_in_view(ledger, create, &view, verdict)) {
		case GQ_OUTCOME_DONE:
			return 0;
		case GQ_OUTCOME_NOMEM:
			return gq_fail(err, GQ_ENOMEM, "out of memory while deciding");
		case GQ_OUTCOME_AGAIN:
			break;
		}
	}
	return gq_verdict_unavailable(verdict, GQ_REASON_OVERLOADED);
}

int gq_decide_ephemeral(struct gq_ledger *ledger, const struct gq_create *create,
			const char *const *had, size_t n_had, struct gq_verdict *verdict)
{
	struct gq_view view GQ_CLEANUP(gq_view_done) = {0};

	gq_verdict_done(verdict);
	if (gq_check_too_late(ledger, create->now_ns, create->deadline_ns, verdict))
		return 0;
	if (!gq_view_take(ledger, create->pod->namespace_, create->reads, create->now_ns, verdict,
			  &view))
		return 0;
	const struct gq_ruled ruled = {
	    .policy = view.policy,
	    .tenant = gq_view_tenant(&view),
	    .snapshot = view.snapshot,
	    .pod = create->pod,
	    .posture = create->posture,
	    .reads = create->reads,
	    .ephemeral_only = true,
	    .had = had,
	    .n_had = n_had,
	};
	if (view.assign.kind == GQ_ASSIGN_EXEMPT)
		return gq_verdict_answer(verdict, GQ_VERDICT_ALLOW, GQ_REASON_EXEMPT);
	if (!gq_rules_verdict(&ruled, verdict))
		gq_verdict_pass(verdict, GQ_REASON_NO_GPU);
	return 0;
}
