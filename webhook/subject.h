#ifndef GQ_WEBHOOK_SUBJECT_H
#define GQ_WEBHOOK_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "quota/decision.h"
#include "quota/workload.h"
#include "webhook/review.h"

/* What a review is about, decoded, and which decision that is. */

enum gq_subject_kind {
	GQ_SUBJECT_NONE, /* nothing that we have an opinion on */
	GQ_SUBJECT_POD,  /* a pod's creation */
	GQ_SUBJECT_EPHEMERAL,
	GQ_SUBJECT_BINDING,
	GQ_SUBJECT_WORKLOAD,
	GQ_SUBJECT_SCALE,
	GQ_SUBJECT_POLICY,
};

/* Strings live as long as the review. */
struct gq_subject {
	enum gq_subject_kind kind;
	const struct gq_review *review;
	struct gq_pod *pod;         /* POD, EPHEMERAL: a reference */
	struct gq_posture *posture; /* the same */
	const char **had;           /* EPHEMERAL: containers that it had before; owned */
	size_t n_had;
	struct gq_binding binding;           /* BINDING; its times are not set */
	struct gq_workload workload;         /* WORKLOAD */
	struct gq_workload before;           /* WORKLOAD, of an update */
	bool updates;                        /* before is set */
	enum gq_workload_kind workload_kind; /* WORKLOAD, SCALE */
	int64_t replicas, had_replicas;      /* SCALE */
};

/* Where the policy is that GQ_SUBJECT_POLICY judges. */
struct gq_policy_place {
	const char *namespace_;
	const char *name;
};

/* review: borrowed for the subject's life. policy: what /validate-policy judges, NULL for a call of
 * another path. Errors: GQ_EINVALID and GQ_ETOOBIG, which mean HTTP 400; GQ_ENOMEM. Either way
 * gq_subject_done() empties it. */
int gq_subject_read(const struct gq_review *review, const struct gq_policy_place *policy,
		    struct gq_subject *ret_subject, struct gq_err *err);
void gq_subject_done(struct gq_subject *subject);

/* Whether the decision may ask for reads. */
bool gq_subject_needs_reads(const struct gq_subject *subject, const struct gq_ledger *ledger);

/* Whether the API server refuses it while nobody answers, by the registrations of manifests/: then
 * a refusal with a reason is better than none. */
bool gq_subject_is_awaited(const struct gq_subject *subject);

/* When it is decided, and until when. */
struct gq_subject_time {
	int64_t now_ns;
	int64_t wall_s;
	int64_t deadline_ns;
};

/* reads: as in struct gq_create. Errors: as gq_subject_read(). */
int gq_subject_decide(const struct gq_subject *subject, struct gq_ledger *ledger,
		      const struct gq_subject_time *time, struct gq_reads *reads,
		      struct gq_verdict *ret_verdict, struct gq_err *err);

#endif
