#ifndef GQ_QUOTA_WORKLOAD_H
#define GQ_QUOTA_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_filter.h"
#include "quota/decision.h"
#include "quota/posture.h"

/* Workloads: objects that make pods from a template. They are judged when they are written, so that
 * a Deployment is refused at once and not its pods one by one. Nothing is reserved for them: what
 * counts is decided pod by pod. */

enum gq_workload_kind {
	GQ_WORKLOAD_DEPLOYMENT,
	GQ_WORKLOAD_REPLICA_SET,
	GQ_WORKLOAD_STATEFUL_SET,
	GQ_WORKLOAD_DAEMON_SET,
	GQ_WORKLOAD_JOB,
	GQ_WORKLOAD_CRON_JOB,
	GQ_WORKLOAD_REPLICATION_CONTROLLER,
	GQ_WORKLOAD_POD_TEMPLATE,
	GQ_WORKLOAD_KINDS,
};

/* By API group ("" is core) and resource ("deployments"); -1: none that is known. */
int gq_workload_kind_of(const char *group, const char *resource);
/* "Deployment". */
const char *gq_workload_kind_name(enum gq_workload_kind kind);
/* The field that says how many pods there are, "spec.replicas"; "" when there is none. */
const char *gq_workload_count_field(enum gq_workload_kind kind);

#define GQ_PODS_BY_NODES (-1) /* a DaemonSet's: one for each node that fits */

/* A decoded workload: one pod of its template, and how many there are. */
struct gq_workload {
	enum gq_workload_kind kind;
	const char *namespace_; /* the pod's string */
	char *name;             /* or "", with generateName; owned */
	struct gq_pod *pod;     /* in the workload's namespace, without name and uid; a reference */
	struct gq_posture *posture; /* a reference */
	bool deleted;               /* has a deletionTimestamp */
	bool owned;                 /* has a controller, which was judged already */
	/* Pods that it holds when it has settled: replicas, or as many as a Job runs at once;
	 * GQ_PODS_BY_NODES. 0 for a PodTemplate and what is suspended or scaled to 0. */
	int64_t pods;
	int64_t surge; /* maxSurge: pods, or percent of the pods; 0 where nothing surges */
	bool surge_percent;
	char *template_; /* the whole template, for telling whether it changed; owned */
};
void gq_workload_done(struct gq_workload *workload);

/* How many more than `pods` (0 … 2^31) there may be while all of them are replaced. */
int64_t gq_workload_surge(const struct gq_workload *workload, int64_t pods);

/* What gq_workload_decode_tree() reads of any of the kinds. Never NULL. */
const struct gq_json_keep *gq_workload_keep(void);

/* root: the pruned object, borrowed. default_namespace: where metadata has none; may be NULL.
 * ret_workload is emptied with gq_workload_done(). Errors: as gq_pod_decode_tree(), with the path
 * of the field (spec.template.spec.containers[0].name); GQ_EINVALID for a number of pods that is
 * none of 0 … 2^31-1. Source: apps/v1, batch/v1, core/v1. */
int gq_workload_decode_tree(enum gq_workload_kind kind, struct json_object *root,
			    const char *default_namespace, struct gq_workload *ret_workload,
			    struct gq_err *err);

struct gq_workload_review {
	const struct gq_workload *now;
	const struct gq_workload *before; /* UPDATE; NULL: CREATE */
	const char *user;
	int64_t now_ns;
	int64_t wall_s;
	int64_t deadline_ns;
	struct gq_reads *reads; /* kept by the caller from one call to the next; may grow */
};

/* Judges it. Refused, in the mode of whoever owns the rule or limit: its template breaks a rule,
 * asks for what can't be counted, or one of its pods could never fit, whatever others hold. Warned
 * about, with the arithmetic, whatever the mode: all its pods with maxSurge do not fit now. An
 * update is judged only if the template changed or there are more pods than before, and then only
 * for what is new; what is being deleted is allowed. Reserves nothing. ret_verdict as with
 * gq_decide_create(). Errors: GQ_ENOMEM. */
int gq_decide_workload(struct gq_ledger *ledger, const struct gq_workload_review *review,
		       struct gq_verdict *ret_verdict, struct gq_err *err);

/* The same for a change of a scale: only ever warns. workload: as a read of it gave it, borrowed,
 * its pods are those before; pods: those after. */
int gq_decide_scale(struct gq_ledger *ledger, const struct gq_workload_review *review, int64_t pods,
		    struct gq_verdict *ret_verdict, struct gq_err *err);

#endif
