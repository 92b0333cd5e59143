#ifndef GQ_QUOTA_WORKLOAD_INTERNAL_H
#define GQ_QUOTA_WORKLOAD_INTERNAL_H

#include "quota/decision_internal.h"
#include "quota/workload.h"

/* Shared by workload_decision.c, workload_fit.c (do all of its pods fit) and workload_explain.c. */

/* A workload and what one of its pods is charged. */
struct gq_workload_side {
	const struct gq_workload *workload; /* NULL: there is none */
	struct gq_parts parts;
	struct gq_candidates candidates;
};

struct gq_rollout {
	struct gq_workload_side now;
	struct gq_workload_side before; /* of an update */
	bool grows;                     /* the template is the same: no pod is replaced */
};

/* One limit that does not have what the workload needs. Amounts in the finding's unit. */
struct gq_shortfall {
	struct gq_finding finding; /* used and adds are not set */
	int64_t free;
	int64_t needs; /* at most at one time, besides what the pods of before hold */
	int64_t pods, each;
	int64_t surge;
	int64_t old_pods, old_each; /* that are replaced; 0 none */
};

#define GQ_SHORTFALLS_MAX 8

struct gq_shortfalls {
	size_t n; /* at most one for each limit */
	struct gq_shortfall items[GQ_SHORTFALLS_MAX];
	/* So many pods fit at one time in every limit, those of before among them. */
	int64_t most_pods;
};

/* Holds all pods of the workload, with maxSurge, against what every limit of tenant and its parents
 * has free. Work is that of the limits. ledger.lock held. */
void gq_workload_fit(const struct gq_book *book, int tenant, const struct gq_rollout *rollout,
		     int64_t wall_s, struct gq_shortfalls *ret_shortfalls);

/* ---- workload_explain.c (no lock) ---- */

/* Whom everything in the verdict is about: "Deployment web: " goes in front of it. */
void gq_explain_workload(struct gq_verdict *verdict, const struct gq_workload *workload);
/* One of gq_fit_alone(). */
void gq_explain_never(struct gq_buf *out, const struct gq_explain *about,
		      const struct gq_facts *facts);
void gq_explain_never_short(struct gq_buf *out, const struct gq_explain *about,
			    const struct gq_finding *finding, int tenant);
void gq_explain_shortfall(struct gq_buf *out, const struct gq_explain *about, int tenant,
			  const struct gq_rollout *rollout, const struct gq_shortfall *shortfall);
/* What would fit. False: there is nothing to say. */
bool gq_explain_rollout_fit(struct gq_buf *out, enum gq_locale locale,
			    const struct gq_rollout *rollout,
			    const struct gq_shortfalls *shortfalls);

#endif
