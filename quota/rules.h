#ifndef GQ_QUOTA_RULES_H
#define GQ_QUOTA_RULES_H

#include <stdbool.h>

#include "base/buf.h"
#include "quota/decision.h"
#include "quota/nodes.h"
#include "quota/posture.h"

/* Rules: what a pod may not do, whatever its quota. Each is a function of the pod, and of a few
 * objects that it refers to; none changes anything. */

/* What rules look at. Everything is borrowed. */
struct gq_ruled {
	const struct gq_policy *policy;
	const struct gq_tenant *tenant; /* or NULL */
	const struct gq_node_snapshot *snapshot;
	const struct gq_pod *pod;
	const struct gq_posture *posture;
	const struct gq_parts *parts; /* what the pod is charged on each class; NULL: not known */
	const char *owner_kind; /* of a template, its workload's kind; NULL: the pod's owner's */
	struct gq_reads *reads; /* for claims of volumes; NULL: none can be read */
	/* Only the ephemeral containers that are not in `had` (names) and what these mount, on
	 * behalf of a pod that runs already. */
	bool ephemeral_only;
	const char *const *had;
	size_t n_had;
	const struct gq_added *added; /* inside */
};

/* Which rules could concern a pod at all, as bits by enum gq_rule_id; of those, what the `rules`
 * registration's matchConditions let pass. Work is that of a look at each container. */
unsigned gq_rules_concern(const struct gq_posture *posture, const struct gq_pod *pod);

/* Of these, those that could find something in the pod itself, whatever it refers to: the API
 * server refuses such pods while nobody answers. */
unsigned gq_rules_concern_itself(const struct gq_posture *posture, const struct gq_pod *pod);

/* Which rules are switched on for the pods of a tenant (NULL: of none), as bits. */
unsigned gq_rules_active(const struct gq_policy *policy, const struct gq_tenant *tenant);

/* The same of any tenant. */
unsigned gq_rules_active_anywhere(const struct gq_policy *policy);

enum gq_rules_answer {
	GQ_RULES_PASSED, /* what was found in warn and audit is in the verdict */
	GQ_RULES_REFUSED,
	GQ_RULES_READ,   /* reads were added: ask again with them */
	GQ_RULES_FAILED, /* a read failed for now: no opinion */
	GQ_RULES_NOMEM,
	GQ_RULES_TOO_MANY, /* inside: more would have to be read than may be */
};

/* Holds a pod against every rule of its policy. All that is found of enforced rules stands in the
 * verdict's message, a line each; the reason is the first one's. No lock, no I/O. */
enum gq_rules_answer gq_rules_check(const struct gq_ruled *ruled, struct gq_verdict *verdict);

/* The same as an answer: true when the verdict is made, be it that something has to be read. */
bool gq_rules_verdict(const struct gq_ruled *ruled, struct gq_verdict *verdict);

/* Append CEL expressions, of which pod is one that gives a Pod or a PodTemplateSpec. For each pod
 * without a GPU in which a rule could find something one of the first two is true;
 * requireUserNamespace, which is about every pod, is left out.
 * container_condition: by what its containers, ephemeral ones too, have or may mount.
 * pod_condition: by what the pod chooses as a whole; every pod that runs has a node, so it says
 * nothing about ephemeral containers.
 * reference_condition: true for each that has volumes by claims, or its environment from
 * ConfigMaps, which have to be read first. */
int gq_rules_print_container_condition(struct gq_buf *out, const char *pod);
int gq_rules_print_pod_condition(struct gq_buf *out, const char *pod);
int gq_rules_print_reference_condition(struct gq_buf *out, const char *pod);

#endif
