#ifndef GQ_QUOTA_DECISION_H
#define GQ_QUOTA_DECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "quota/ledger.h"
#include "quota/object.h"
#include "quota/posture.h"

/* The decision about one request: rules, tenant of the namespace, demand, candidate classes, and
 * the charge against every limit concerned, all or nothing. */

enum gq_verdict_kind {
	GQ_VERDICT_ALLOW,
	GQ_VERDICT_DENY,
	GQ_VERDICT_WAIT,        /* ask again in wait_ns, until the request's deadline */
	GQ_VERDICT_READ,        /* read the objects in `reads` and ask again with them */
	GQ_VERDICT_UNAVAILABLE, /* no opinion: 503, Retry-After */
};

/* Why, as the metric gpuquota_reviews_total{reason} and the audit annotation say it. */
enum gq_reason {
	GQ_REASON_NO_GPU,
	GQ_REASON_FITS,
	GQ_REASON_EXEMPT,
	GQ_REASON_UNASSIGNED,
	GQ_REASON_OVER_LIMIT,
	GQ_REASON_UNLISTED,
	GQ_REASON_AMBIGUOUS_NAMESPACE,
	GQ_REASON_AMBIGUOUS_CLASS,
	GQ_REASON_PRIVILEGED,
	GQ_REASON_RUNTIME_SOCKETS,
	GQ_REASON_HOST_DEVICES,
	GQ_REASON_HOST_PATH,
	GQ_REASON_GPU_WITHOUT_REQUEST,
	GQ_REASON_BYPASS_LABELS,
	GQ_REASON_POD_LIMIT,
	GQ_REASON_REQUIRE_GPU_MEMORY,
	GQ_REASON_REQUIRE_USER_NAMESPACE,
	GQ_REASON_REQUIRE_READINESS_PROBE,
	GQ_REASON_UNSUPPORTED,
	GQ_REASON_BAD_QUANTITY,
	GQ_REASON_CLAIM,
	GQ_REASON_REFERENCE, /* what the pod refers to could not be read */
	GQ_REASON_OWNER_ATTEMPTS,
	GQ_REASON_EARLIER_BINDING,
	GQ_REASON_REQUEST_UID,
	GQ_REASON_NOT_SYNCED,
	GQ_REASON_NOT_LEADER,
	GQ_REASON_JOURNAL,      /* no reservation can be noted safely now */
	GQ_REASON_JOURNAL_FULL, /* for this tenant at least */
	GQ_REASON_WATCH_LAGS,
	GQ_REASON_TOO_LATE,
	GQ_REASON_OVERLOADED,
	GQ_REASON_BAD_REVIEW,
	GQ_REASON_POLICY,
	GQ_REASON_NOT_OURS, /* an operation or resource that this version has no opinion on */
	GQ_REASON_COUNT,
};
const char *gq_reason_name(enum gq_reason reason);

enum gq_read_kind {
	GQ_READ_NAMESPACE,
	GQ_READ_CLAIM,
	GQ_READ_CLAIM_TEMPLATE,
	GQ_READ_DEVICE_CLASS,
	GQ_READ_VOLUME_CLAIM,
	GQ_READ_VOLUME,
	GQ_READ_CONFIG_MAP,
	GQ_READ_WORKLOAD,
};

/* Of one request: its namespace, resource claims and their device classes, volume claims and their
 * volumes. */
#define GQ_READS_MAX 160

/* One object that the decision needs and no cache has. */
struct gq_read {
	enum gq_read_kind kind;
	char path[640]; /* of the API server */
	const struct gq_json_keep *keep;
	bool started; /* the caller's: the read is under way or done */
	bool done;    /* code and body are filled in */
	int code;     /* 0 or GQ_E…; GQ_ENOTFOUND is an answer too */
	char *body;   /* pruned JSON, owned; or NULL */
	size_t len;
};

struct gq_reads {
	size_t n;
	struct gq_read items[GQ_READS_MAX];
};
void gq_reads_done(struct gq_reads *reads);
/* The read of a path, added when it is not there yet. NULL: too many. */
struct gq_read *gq_reads_get(struct gq_reads *reads, enum gq_read_kind kind, const char *path,
			     const struct gq_json_keep *keep);

#define GQ_WARNINGS_MAX 32

struct gq_verdict {
	enum gq_verdict_kind kind;
	enum gq_reason reason;
	enum gq_locale locale; /* of message and warnings: the tenant's, or the policy's */
	int64_t wait_ns;
	uint64_t ticket;       /* ALLOW: to be committed before the answer; 0: nothing to commit */
	struct gq_buf message; /* DENY, UNAVAILABLE: for people, may have several lines */
	struct gq_buf warnings[GQ_WARNINGS_MAX];
	size_t n_warnings;
	/* Rules that found something, as bits by enum gq_rule_id, by the mode of the rule. */
	unsigned rule_findings[GQ_MODE_DISABLED];
	bool warnings_cut;        /* there were more of them */
	struct gq_buf audit;      /* what audit mode would have refused; "" is nothing */
	const char *tenant;       /* name, valid while `policy` is held; or NULL */
	struct gq_policy *policy; /* reference, or NULL */
};
#define GQ_VERDICT_INIT                                                                            \
	((struct gq_verdict){.message = GQ_BUF_INIT(8192), .audit = GQ_BUF_INIT(32768)})
void gq_verdict_done(struct gq_verdict *verdict);
void gq_verdict_allow(struct gq_verdict *verdict, enum gq_reason reason);

struct gq_create {
	const struct gq_pod *pod; /* with namespace, name and uid */
	/* Of the same pod; NULL: rules look at nothing but what it asks for. */
	const struct gq_posture *posture;
	const char *request_uid;
	const char *user; /* who asks: attempts are counted by it, and the journal has it */
	bool dry_run;     /* decides, and leaves no trace */
	int64_t now_ns;
	int64_t wall_s;
	int64_t deadline_ns;    /* a request whose time is up is dropped before it reserves */
	struct gq_reads *reads; /* kept by the caller from one call to the next; may grow. NULL:
				   only for a pod with neither GPU nor posture */
};

/* A pod wants to be created. ret_verdict: initialised by the caller with GQ_VERDICT_INIT, and
 * emptied with gq_verdict_done(). Any answer but an error is in the verdict. Errors: GQ_ENOMEM
 * (answer 503; nothing is reserved). Any thread; takes ledger.lock, so call with no lock held. */
int gq_decide_create(struct gq_ledger *ledger, const struct gq_create *create,
		     struct gq_verdict *ret_verdict, struct gq_err *err);

/* Ephemeral containers are added to a pod that runs: only what they add is judged. had: names of
 * those that it had before, borrowed. create: its pod needs no uid. Returns 0. */
int gq_decide_ephemeral(struct gq_ledger *ledger, const struct gq_create *create,
			const char *const *had, size_t n_had, struct gq_verdict *ret_verdict);

struct gq_binding {
	const char *namespace_;
	const char *name;
	const char *uid; /* or "": the legacy form has none */
	const char *node;
	bool dry_run;
	int64_t now_ns;
	int64_t wall_s;
	int64_t deadline_ns;
};

/* A pod is to be bound to a node. What its creation was allowed for always fits; any other class
 * must have room now, though the pod may be charged there since it was changed or a node came, and
 * is charged besides until the pod is seen on its node. */
int gq_decide_binding(struct gq_ledger *ledger, const struct gq_binding *binding,
		      struct gq_verdict *ret_verdict, struct gq_err *err);

#endif
