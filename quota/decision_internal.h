#ifndef GQ_QUOTA_DECISION_INTERNAL_H
#define GQ_QUOTA_DECISION_INTERNAL_H

#include "quota/decision.h"
#include "quota/ledger_internal.h"

/* Shared by decision.c (creations), binding.c, workload*.c, view.c (what a decision looks at),
 * verdict.c, fit.c (does it fit), claims.c (what must be read first), rules*.c and explain.c (the
 * words). */

enum gq_finding_kind {
	GQ_FINDING_SHARES, /* more GPUs than the limit has left */
	GQ_FINDING_MEMORY,
	GQ_FINDING_UNLISTED, /* the tenant has no quota for a class the pod may land on */
};

/* One way in which a pod does not fit. */
struct gq_finding {
	enum gq_finding_kind kind;
	int tenant; /* who owns the limit */
	enum gq_mode mode;
	int class_id; /* of the limit; UNLISTED: the class without one */
	int64_t most; /* shares or MiB */
	struct gq_count used;
	int64_t adds; /* what the pod adds to the limit, same unit */
};

/* The currency of an amount that a finding is about. */
static inline int64_t gq_finding_amount(const struct gq_finding *finding, struct gq_amount amount)
{
	return finding->kind == GQ_FINDING_MEMORY ? amount.memory_mib : amount.shares;
}

#define GQ_FINDINGS_MAX 8

struct gq_findings {
	size_t n;
	struct gq_finding items[GQ_FINDINGS_MAX];
};

#define GQ_HOLDERS_MAX 5

struct gq_holder {
	char name[512]; /* of the pod; with its namespace in front when that is another one */
	int64_t holds;  /* in the finding's unit */
};

/* What an explanation needs, gathered with the lock held and printed without it. */
struct gq_facts {
	struct gq_finding finding;
	int tenant; /* of the namespace */
	bool alone; /* it would not fit with nothing else held either */
	struct gq_holder holders[GQ_HOLDERS_MAX];
	size_t n_holders;
	bool holders_cut;   /* the namespace has more of them */
	int64_t fewer_gpus; /* so many whole GPUs would fit; 0 none, or it does not ask for whole
			       ones */
	int other_class;    /* a leaf where it would fit; GQ_CLASS_NONE */
	int other_named;    /* as the tenant's quota names it */
	int64_t other_free; /* shares */
	bool narrows;       /* other_class is among the pod's own candidates */
	bool several;       /* the pod may land on several classes */
	bool surges;        /* an older ReplicaSet of the pod's Deployment still holds some */
};

/* What an explanation is about. */
struct gq_explain {
	const struct gq_policy *policy;
	const struct gq_node_snapshot *snapshot;
	const struct gq_pod *pod;
	const char *namespace_;
	enum gq_locale locale;
};

/* ---- view.c (no lock held) ---- */

/* What a decision works on without the lock: the policy and nodes in force, and whose the namespace
 * is. Holds while ledger->generation stays. */
struct gq_view {
	uint64_t generation;
	struct gq_policy *policy;
	struct gq_node_snapshot *snapshot;
	struct gq_assign assign;
};
/* Also for a view that was not taken, if zeroed. */
void gq_view_done(struct gq_view *view);
/* The namespace's tenant, or NULL. */
const struct gq_tenant *gq_view_tenant(const struct gq_view *view);
/* reads: an unknown namespace is read first. On success the verdict gets policy and tenant; false:
 * it is made (READ, or UNAVAILABLE when not ready). gq_view_done() in both cases. */
bool gq_view_take(struct gq_ledger *ledger, const char *ns_name, struct gq_reads *reads,
		  int64_t now_ns, struct gq_verdict *verdict, struct gq_view *ret_view);

/* Whether now is too late to decide; the verdict is made then. */
bool gq_check_too_late(struct gq_ledger *ledger, int64_t now_ns, int64_t deadline_ns,
		       struct gq_verdict *verdict);
/* What explanations are about: pod, in the verdict's words. */
struct gq_explain gq_view_explain(const struct gq_view *view, const struct gq_pod *pod,
				  const struct gq_verdict *verdict);

/* ---- decision.c (no lock held) ---- */

/* The world changed between matching and charging so often that somebody else should get a turn. */
#define GQ_REVALIDATE_MAX 16

/* Of a decision in one view. AGAIN: that one holds no more. */
enum gq_outcome { GQ_OUTCOME_DONE, GQ_OUTCOME_AGAIN, GQ_OUTCOME_NOMEM };

/* Each returns true when the verdict is made ---- */

/* Namespaces without a tenant. */
bool gq_check_namespace(const struct gq_view *view, const char *name, struct gq_verdict *verdict);
/* Requests that can't be counted. The namespace has a tenant. */
bool gq_check_countable(const struct gq_view *view, const struct gq_pod *pod,
			struct gq_reads *reads, struct gq_verdict *verdict);
/* The tenant's own podLimit. */
bool gq_check_pod_limit(const struct gq_view *view, const struct gq_pod *pod,
			const struct gq_parts *parts, struct gq_verdict *verdict);
/* Whether the policy wants one class chosen, and the pod may land on several. */
bool gq_check_ambiguous_class(const struct gq_view *view, const struct gq_pod *pod,
			      const struct gq_parts *parts, struct gq_verdict *verdict);

/* ---- fit.c (ledger.lock held) ---- */

/* Holds the pod's parts against every limit of tenant and its parents. slot: of its namespace and
 * name, NULL when there is none yet. replaced: a charge of the slot whose place the parts take, or
 * NULL; had: of its parts, those that it holds by right, whatever it is charged for (NULL without
 * replaced). listed: the parts that must be covered by the tenant's own quota. */
void gq_fit(const struct gq_book *book, const struct gq_slot *slot, int tenant,
	    const struct gq_parts *parts, const struct gq_parts *listed,
	    const struct gq_charge *replaced, const struct gq_parts *had, int64_t wall_s,
	    struct gq_findings *ret_findings);

/* The same for a pod that nothing else is held besides: what does not fit so never fits under these
 * limits. */
void gq_fit_alone(const struct gq_book *book, int tenant, const struct gq_parts *parts,
		  int64_t wall_s, struct gq_findings *ret_findings);

/* The finding that refuses: the first whose limit is enforced, or NULL. */
const struct gq_finding *gq_findings_enforced(const struct gq_findings *findings);

/* Everything worth saying about a finding: holders, and what would fit. */
void gq_fit_facts(const struct gq_ledger *ledger, const struct gq_book *book,
		  const struct gq_ns *ns, const struct gq_slot *slot, int tenant,
		  const struct gq_pod *pod, const struct gq_parts *parts,
		  const struct gq_finding *finding, int64_t wall_s, struct gq_facts *ret_facts);
/* The same about one of gq_fit_alone(): no holders. */
void gq_fit_alone_facts(const struct gq_book *book, int tenant, const struct gq_pod *pod,
			const struct gq_parts *parts, const struct gq_finding *finding,
			int64_t wall_s, struct gq_facts *ret_facts);

/* ---- verdict.c ---- */

/* Nothing refuses: allowed, for what was warned of or noted before, else for reason. */
void gq_verdict_pass(struct gq_verdict *verdict, enum gq_reason reason);
/* Each returns 0, for the caller to return. Their words are in verdict->locale. */
int gq_verdict_answer(struct gq_verdict *verdict, enum gq_verdict_kind kind, enum gq_reason reason);
int gq_verdict_unavailable(struct gq_verdict *verdict, enum gq_reason reason);
int gq_verdict_wait(struct gq_verdict *verdict, int64_t wait_ns);
/* Nothing that the journal must hold can be granted. */
int gq_verdict_no_room(struct gq_verdict *verdict, enum gq_room room);
/* A refusal in the mode of whoever makes it: refused, warned about, or only noted. The text is in
 * verdict->message. Returns whether the pod is refused. */
bool gq_verdict_refuse(struct gq_verdict *verdict, enum gq_mode mode, enum gq_reason reason);
/* A warning about what nobody refuses. The text is in verdict->message, which is emptied. */
void gq_verdict_warn(struct gq_verdict *verdict, enum gq_reason reason);
enum gq_reason gq_finding_reason(const struct gq_finding *finding);

/* ---- claims.c (no lock) ---- */

enum gq_claims_verdict {
	GQ_CLAIMS_HARMLESS, /* none is of a GPU */
	GQ_CLAIMS_READ,     /* reads were added */
	GQ_CLAIMS_REFUSED,  /* message is filled in */
	GQ_CLAIMS_FAILED,   /* a read failed for now: no opinion */
};
/* locale: of the message. */
enum gq_claims_verdict gq_claims_check(const struct gq_pod *pod, struct gq_reads *reads,
				       enum gq_locale locale, struct gq_buf *message);

/* ---- explain.c (no lock) ---- */

/* The whole refusal: the arithmetic, the holders, what would fit. */
void gq_explain_finding(struct gq_buf *out, const struct gq_explain *about,
			const struct gq_facts *facts);
/* One line of at most 120 characters or so, for a warning. */
void gq_explain_short(struct gq_buf *out, const struct gq_explain *about,
		      const struct gq_finding *finding, int tenant);
/* The pod can't go to node while another binding of it is on its way. */
void gq_explain_earlier_binding(struct gq_buf *out, enum gq_locale locale, const char *node);
/* The pod's constraints are longer than a line of the journal may be. */
void gq_explain_too_big(struct gq_buf *out, enum gq_locale locale);
void gq_explain_problem(struct gq_buf *out, enum gq_locale locale, const struct gq_pod *pod);
struct gq_pod_limit_finding;
/* tenant: its name, NULL for the rule of the cluster. */
void gq_explain_pod_limit(struct gq_buf *out, enum gq_locale locale, const struct gq_policy *policy,
			  const char *tenant, const struct gq_pod_limit_finding *finding);
void gq_explain_unassigned(struct gq_buf *out, enum gq_locale locale, const char *ns);
void gq_explain_ambiguous_namespace(struct gq_buf *out, enum gq_locale locale, const char *ns,
				    const char *first, const char *second);
void gq_explain_ambiguous_class(struct gq_buf *out, const struct gq_explain *about, int tenant,
				const struct gq_parts *parts);
void gq_explain_attempts(struct gq_buf *out, enum gq_locale locale, const struct gq_pod *pod,
			 const struct gq_attempts *attempts);
void gq_explain_claim(struct gq_buf *out, enum gq_locale locale, const char *claim,
		      const char *device_class);
/* detail: why, in the locale. */
void gq_explain_claim_unreadable(struct gq_buf *out, enum gq_locale locale, const char *claim,
				 const char *detail);
void gq_explain_binding(struct gq_buf *out, const struct gq_explain *about, const char *node,
			const struct gq_finding *finding);

#endif
