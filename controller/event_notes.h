#ifndef GQ_CONTROLLER_EVENT_NOTES_H
#define GQ_CONTROLLER_EVENT_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/events.h"
#include "quota/decision.h"

/* What gpuquota tells by Events, one function each. All may be called from any thread, with no lock
 * held, and copy what they are given. */
struct gq_event_notes {
	struct gq_events *events;
	const char *namespace_; /* gpuquota's own */
	const char *identity;   /* of this replica */
};

/* A refused creation, beside the workload that wants the pod (GPUQuotaExceeded; GPUPodRefused when
 * no limit is passed). Nothing to tell: the verdict is no denial, the request is a dry run, or the
 * pod has no owner, since its user has the answer. */
void gq_note_pod_denied(const struct gq_event_notes *notes, const struct gq_create *create,
			const struct gq_verdict *verdict);

/* A refused binding, beside the pod (GPUBindingRefused). */
void gq_note_binding_denied(const struct gq_event_notes *notes, const struct gq_binding *binding,
			    const struct gq_verdict *verdict);

/* One currency of one limit. */
struct gq_limit_note {
	const char *tenant;
	const char *class_name;
	bool memory; /* held and limit are MiB, else shares */
	int64_t held;
	int64_t limit;
	/* Pods that hold of it, as "namespace/name": the first five at least, which are named. The
	 * first n_unasked came in without us. */
	const char *const *pods;
	size_t n_pods, n_unasked;
};

/* A tenant holds more than a limit (TenantOverQuota), and no more (TenantWithinQuota), beside the
 * policy. */
void gq_note_tenant_over(const struct gq_event_notes *notes, const struct gq_limit_note *limit);
void gq_note_tenant_within(const struct gq_event_notes *notes, const struct gq_limit_note *limit);

/* What is in the policy ConfigMap was judged. problems: lines "policy.yaml:12:5: …"; in_force: the
 * hash of the policy that stays, or NULL. Beside it (PolicyRefused, PolicyAccepted). */
void gq_note_policy_refused(const struct gq_event_notes *notes, const char *problems,
			    const char *in_force);
void gq_note_policy_accepted(const struct gq_event_notes *notes, const char *hash);

/* This replica leads (LeaderElected), or no more (LeaderLost; why: "its Lease was not renewed in
 * time"; a warning unless it was planned), beside the Lease. */
void gq_note_leader_elected(const struct gq_event_notes *notes);
void gq_note_leader_lost(const struct gq_event_notes *notes, const char *why, bool planned);

/* A recount found totals that differed, and repaired them (LedgerDrift), beside the policy.
 * details: tenants, classes and pods, or "". */
void gq_note_ledger_drift(const struct gq_event_notes *notes, unsigned n_limits,
			  const char *details);

/* The selectors of two tenants match a namespace (AmbiguousNamespace), beside and in it. */
void gq_note_namespace_ambiguous(const struct gq_event_notes *notes, const char *namespace_,
				 const char *first, const char *second);

/* The journal was lost or rewritten by somebody else (JournalLost), beside it. how: "was deleted";
 * pause_s: how long nothing is granted. */
void gq_note_journal_lost(const struct gq_event_notes *notes, const char *how, int64_t pause_s);

#endif
