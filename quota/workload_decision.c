#include <string.h>

#include "quota/field.h"
#include "quota/message.h"
#include "quota/rules.h"
#include "quota/workload_internal.h"

/* What a review asks for. */
enum scope {
	SCOPE_NOTHING,
	SCOPE_PODS, /* only whether more pods fit: it warns */
	SCOPE_ALL,
};

static enum scope scope_of(const struct gq_workload_review *review)
{
	const struct gq_workload *now = review->now, *before = review->before;

	if (now->deleted)
		return SCOPE_NOTHING;
	if (!before || strcmp(now->template_, before->template_) != 0)
		return SCOPE_ALL;
	return now->pods > before->pods ? SCOPE_PODS : SCOPE_NOTHING;
}

static void rollout_done(struct gq_rollout *rollout)
{
	gq_parts_done(&rollout->now.parts);
	gq_parts_done(&rollout->before.parts);
}

/* 0 or GQ_ENOMEM. */
static int side_take(const struct gq_view *view, const struct gq_workload *workload,
		     struct gq_workload_side *side)
{
	side->workload = workload;
	if (!workload || !gq_pod_asks_for_gpu(workload->pod))
		return 0;
	gq_node_snapshot_match(view->snapshot, workload->pod, &side->candidates);
	return gq_parts_compute(view->policy, workload->pod, &side->candidates, &side->parts);
}

static bool check_rules(const struct gq_workload_review *review, const struct gq_view *view,
			const struct gq_parts *parts, struct gq_verdict *verdict)
{
	const struct gq_ruled ruled = {
	    .policy = view->policy,
	    .tenant = gq_view_tenant(view),
	    .snapshot = view->snapshot,
	    .pod = review->now->pod,
	    .posture = review->now->posture,
	    .parts = parts,
	    .owner_kind = gq_workload_kind_name(review->now->kind),
	    .reads = review->reads,
	};

	return gq_rules_verdict(&ruled, verdict);
}

/* What is said of the template, whatever its number of pods. Returns true when the verdict is made.
 */
static bool check_template(const struct gq_workload_review *review, const struct gq_view *view,
			   const struct gq_parts *parts, struct gq_verdict *verdict)
{
	const struct gq_pod *pod = review->now->pod;

	if (check_rules(review, view, parts, verdict))
		return true;
	if (!gq_pod_asks_for_gpu(pod)) {
		gq_verdict_pass(verdict, GQ_REASON_NO_GPU);
		return true;
	}
	return gq_check_namespace(view, pod->namespace_, verdict) ||
	       gq_check_countable(view, pod, review->reads, verdict) ||
	       gq_check_pod_limit(view, pod, parts, verdict) ||
	       gq_check_ambiguous_class(view, pod, parts, verdict);
}

static void say_never(const struct gq_explain *about, int tenant,
		      const struct gq_findings *findings, const struct gq_facts *facts,
		      struct gq_verdict *verdict)
{
	const struct gq_finding *refusal = gq_findings_enforced(findings);

	if (refusal) {
		gq_explain_never(&verdict->message, about, facts);
		gq_verdict_answer(verdict, GQ_VERDICT_DENY, gq_finding_reason(refusal));
		return;
	}
	for (size_t i = 0; i < findings->n; i++) {
		gq_explain_never_short(&verdict->message, about, &findings->items[i], tenant);
		(void)gq_verdict_refuse(verdict, findings->items[i].mode,
					gq_finding_reason(&findings->items[i]));
	}
}

static void say_short(const struct gq_explain *about, int tenant, const struct gq_rollout *rollout,
		      const struct gq_shortfalls *shortfalls, struct gq_verdict *verdict)
{
	for (size_t i = 0; i < shortfalls->n; i++) {
		gq_explain_shortfall(&verdict->message, about, tenant, rollout,
				     &shortfalls->items[i]);
		gq_verdict_warn(verdict, GQ_REASON_OVER_LIMIT);
	}
	if (shortfalls->n &&
	    gq_explain_rollout_fit(&verdict->message, verdict->locale, rollout, shortfalls))
		gq_verdict_warn(verdict, GQ_REASON_OVER_LIMIT);
}

/* What the limits say. */
static enum gq_outcome decide_quota(struct gq_ledger *ledger,
				    const struct gq_workload_review *review,
				    const struct gq_view *view, const struct gq_rollout *rollout,
				    enum scope scope, struct gq_verdict *verdict)
{
	int tenant = view->assign.tenant;
	const struct gq_parts *parts = &rollout->now.parts;
	const struct gq_explain about = gq_view_explain(view, review->now->pod, verdict);
	struct gq_findings never = {.n = 0};
	struct gq_shortfalls shortfalls = {.n = 0};
	struct gq_facts facts;

	gq_ledger_lock(ledger);
	bool again = ledger->generation != view->generation;
	if (!again && scope == SCOPE_ALL) {
		gq_fit_alone(ledger->cur, tenant, parts, review->wall_s, &never);
		const struct gq_finding *refusal = gq_findings_enforced(&never);
		if (refusal)
			gq_fit_alone_facts(ledger->cur, tenant, review->now->pod, parts, refusal,
					   review->wall_s, &facts);
	}
	if (!again && !never.n && !review->now->owned)
		gq_workload_fit(ledger->cur, tenant, rollout, review->wall_s, &shortfalls);
	gq_ledger_unlock(ledger);
	if (again)
		return GQ_OUTCOME_AGAIN;
	gq_verdict_pass(verdict, GQ_REASON_FITS);
	say_never(&about, tenant, &never, &facts, verdict);
	say_short(&about, tenant, rollout, &shortfalls, verdict);
	return GQ_OUTCOME_DONE;
}

/* It only gets more pods of a template that it has; that these are refused is told, no more. */
static void warn_of_refusal(struct gq_verdict *verdict)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(32u << 10);
	enum gq_reason reason = verdict->reason;

	gq_message_print(&text, verdict->locale, GQ_MSG_WORKLOAD_GROWS, NULL, 0);
	gq_buf_puts(&text, "\n");
	gq_buf_append(&text, verdict->message.data ? verdict->message.data : "",
		      verdict->message.len);
	gq_buf_reset(&verdict->message);
	gq_buf_append(&verdict->message, text.data ? text.data : "", text.len);
	gq_verdict_warn(verdict, reason);
	gq_verdict_allow(verdict, reason);
}

static enum gq_outcome decide_in_view(struct gq_ledger *ledger,
				      const struct gq_workload_review *review,
				      const struct gq_view *view, enum scope scope,
				      struct gq_verdict *verdict)
{
	struct gq_rollout rollout GQ_CLEANUP(rollout_done) = {.grows = scope == SCOPE_PODS};

	if (view->assign.kind == GQ_ASSIGN_EXEMPT) {
		gq_verdict_allow(verdict, GQ_REASON_EXEMPT);
		return GQ_OUTCOME_DONE;
	}
	if (side_take(view, review->now, &rollout.now) ||
	    side_take(view, review->before, &rollout.before))
		return GQ_OUTCOME_NOMEM;
	if (check_template(review, view, &rollout.now.parts, verdict)) {
		if (scope == SCOPE_ALL || verdict->kind != GQ_VERDICT_DENY)
			return GQ_OUTCOME_DONE;
		warn_of_refusal(verdict);
		return GQ_OUTCOME_DONE;
	}
	if (view->assign.kind != GQ_ASSIGN_TENANT) {
		gq_verdict_allow(verdict, GQ_REASON_UNASSIGNED);
		return GQ_OUTCOME_DONE;
	}
	return decide_quota(ledger, review, view, &rollout, scope, verdict);
}

static int decide(struct gq_ledger *ledger, const struct gq_workload_review *review,
		  enum scope scope, struct gq_verdict *verdict, struct gq_err *err)
{
	for (int tries = 0; tries < GQ_REVALIDATE_MAX; tries++) {
		struct gq_view view GQ_CLEANUP(gq_view_done) = {0};
		gq_verdict_done(verdict);
		if (gq_check_too_late(ledger, review->now_ns, review->deadline_ns, verdict))
			return 0;
		if (!gq_view_take(ledger, review->now->namespace_, review->reads, review->now_ns,
				  verdict, &view))
			return 0;
		switch (decide_in_view(ledger, review, &view, scope, verdict)) {
		case GQ_OUTCOME_DONE:
			gq_explain_workload(verdict, review->now);
			return 0;
		case GQ_OUTCOME_NOMEM:
			return gq_fail(err, GQ_ENOMEM, "out of memory while deciding");
		case GQ_OUTCOME_AGAIN:
			break;
		}
	}
	return gq_verdict_unavailable(verdict, GQ_REASON_OVERLOADED);
}

int gq_decide_workload(struct gq_ledger *ledger, const struct gq_workload_review *review,
		       struct gq_verdict *verdict, struct gq_err *err)
{
	const struct gq_workload *now = review->now;
	enum scope scope = scope_of(review);
	bool asks = gq_pod_asks_for_gpu(now->pod);

	gq_verdict_done(verdict);
	if (scope == SCOPE_NOTHING || (!asks && !(gq_rules_concern(now->posture, now->pod) &
						  gq_ledger_rules_active(ledger)))) {
		gq_verdict_allow(verdict, asks ? GQ_REASON_FITS : GQ_REASON_NO_GPU);
		return 0;
	}
	int code = decide(ledger, review, scope, verdict, err);
	if (!code && scope == SCOPE_PODS && verdict->kind == GQ_VERDICT_UNAVAILABLE) {
		gq_buf_reset(&verdict->message); /* nothing is refused for want of a warning */
		gq_verdict_allow(verdict, verdict->reason);
	}
	return code;
}

int gq_decide_scale(struct gq_ledger *ledger, const struct gq_workload_review *review, int64_t pods,
		    struct gq_verdict *verdict, struct gq_err *err)
{
	struct gq_workload before = *review->now, after = before;
	struct gq_workload_review scale = *review;

	before.pods = gq_max64(0, gq_min64(before.pods, GQ_FIELD_COUNT_MAX));
	after.pods = gq_max64(0, gq_min64(pods, GQ_FIELD_COUNT_MAX));
	scale.now = &after;
	scale.before = &before;
	return gq_decide_workload(ledger, &scale, verdict, err);
}
