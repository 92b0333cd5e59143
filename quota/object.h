#ifndef GQ_QUOTA_OBJECT_H
#define GQ_QUOTA_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_filter.h"
#include "quota/gpu_names.h"

/* The one decoder of Kubernetes objects. Wherever an object comes from (review, watch, list, file)
 * it goes through the keep tree and the decode function here, so the same pod always means the
 * same.
 *
 * Decoded objects are immutable and counted; each lives in one block of memory, strings included.
 * They may be shared between threads. */

/* Whether a name may stand in a path of the API server: lower-case letters, digits, '-' and '.', as
 * every name of a pod, namespace, claim or class is made of; at most 253. */
bool gq_object_name_ok(const char *name);

/* The API server's UIDs have 36 bytes. A reservation goes by its pod's UID until its end, so a
 * longer one is not taken into a decision. */
#define GQ_UID_MAX_BYTES 127

struct gq_label {
	const char *key;
	const char *value;
};

enum gq_selector_op {
	GQ_OP_IN,
	GQ_OP_NOT_IN,
	GQ_OP_EXISTS,
	GQ_OP_DOES_NOT_EXIST,
	GQ_OP_GT, /* node affinity only: integers */
	GQ_OP_LT,
};

struct gq_requirement {
	const char *key;
	enum gq_selector_op op;
	const char *const *values;
	size_t n_values;
};

/* One of nodeSelectorTerms: all of its requirements hold. A term with none matches nothing. */
struct gq_node_term {
	const struct gq_requirement *expressions; /* on labels */
	size_t n_expressions;
	const struct gq_requirement *fields; /* on metadata.name */
	size_t n_fields;
};

struct gq_toleration {
	const char *key; /* "" with exists: every key */
	bool exists;     /* operator Exists, else Equal */
	const char *value;
	const char *effect; /* "" is every effect */
};

enum gq_container_role {
	GQ_ROLE_INIT,
	GQ_ROLE_SIDECAR, /* an init container with restartPolicy Always */
	GQ_ROLE_MAIN,
	GQ_ROLE_OVERHEAD, /* spec.overhead; container name "" */
};

struct gq_gpu_amount {
	const char *resource;
	enum gq_gpu_meaning meaning;
	int64_t value; /* > 0: what asks for 0 is left out; percentages at most 100 */
};

/* The GPU resources of one container that has any. Requests count; a name that stands in limits
 * only counts with its limit, since the API server defaults requests from limits. */
struct gq_gpu_ask {
	const char *container;
	enum gq_container_role role;
	const struct gq_gpu_amount *amounts;
	size_t n_amounts;
};

struct gq_pod_claim {
	const char *name;     /* in the pod */
	const char *claim;    /* resourceClaimName, or "" */
	const char *template; /* resourceClaimTemplateName, or "" */
};

/* Why a pod's GPU request can't be counted. Such a pod is refused when it asks to be created. */
enum gq_pod_problem_kind {
	GQ_PROBLEM_NONE,
	GQ_PROBLEM_UNSUPPORTED_RESOURCE,   /* name, detail: what it belongs to */
	GQ_PROBLEM_UNSUPPORTED_ANNOTATION, /* name, detail */
	GQ_PROBLEM_BAD_QUANTITY,           /* container, name, value; detail: why */
};

struct gq_pod_problem {
	enum gq_pod_problem_kind kind;
	const char *container; /* "containers/NAME", "initContainers/NAME", "overhead", or "" */
	const char *name;
	const char *value;
	struct gq_phrase detail;
};

struct gq_owner {
	const char *kind; /* of the controller owner; all "" when there is none */
	const char *name;
	const char *uid;
};

enum gq_pod_phase { GQ_POD_PENDING, GQ_POD_RUNNING, GQ_POD_SUCCEEDED, GQ_POD_FAILED };

struct gq_pod {
	const char *namespace_;
	const char *name;          /* or "": a file that leaves it to generateName, a template */
	const char *generate_name; /* or "" */
	const char *uid;           /* or "" (files) */
	const char *node_name;     /* or "" */
	struct gq_owner owner;
	enum gq_pod_phase phase;              /* Unknown counts as Running: the pod still holds */
	bool terminating;                     /* has a deletionTimestamp */
	bool ready;                           /* its condition Ready is True */
	const struct gq_label *node_selector; /* sorted by key */
	size_t n_node_selector;
	const struct gq_node_term *affinity; /* required; terms are alternatives */
	size_t n_affinity;
	bool has_affinity; /* required node affinity is present (0 terms match nothing) */
	const struct gq_toleration *tolerations; /* without those of node.kubernetes.io/ taints */
	size_t n_tolerations;
	const struct gq_gpu_ask
	    *asks; /* init containers in their order, then containers, overhead */
	size_t n_asks;
	const struct gq_pod_claim *claims;
	size_t n_claims;
	const char *const *device_classes; /* of deviceclass.resource.kubernetes.io/ names */
	size_t n_device_classes;
	struct gq_pod_problem problem; /* the first one found */
};

/* Whether the decision has anything to say about the pod. */
static inline bool gq_pod_asks_for_gpu(const struct gq_pod *pod)
{
	return pod->n_asks || pod->n_claims || pod->n_device_classes ||
	       pod->problem.kind != GQ_PROBLEM_NONE;
}

/* Whether it is not one pod but what a template says of its pods. */
static inline bool gq_pod_is_template(const struct gq_pod *pod)
{
	return !*pod->name && !*pod->generate_name;
}

/* Whether a pod that exists in this state is charged. */
static inline bool gq_pod_holds(const struct gq_pod *pod)
{
	return gq_pod_asks_for_gpu(pod) && pod->phase != GQ_POD_SUCCEEDED &&
	       pod->phase != GQ_POD_FAILED;
}

/* Whether a pod holds and serves nobody though it runs on its node: it warms up, or crashes again
 * and again. The Ready condition is the kubelet's, or the node controller's once the node is lost.
 */
static inline bool gq_pod_unready(const struct gq_pod *pod)
{
	return pod->phase == GQ_POD_RUNNING && pod->node_name[0] && !pod->terminating &&
	       !pod->ready;
}

/* Of gpuquota's own pods: which one leads, and what a new leader waits to see again. */
#define GQ_LEADER_LABEL "gpuquota.io/leader"
#define GQ_BARRIER_ANNOTATION "gpuquota.io/barrier"

/* What gq_pod_decode() reads, and the two above. */
extern const struct gq_json_keep gq_pod_keep[];

/* json: a pruned Pod, len bytes. default_namespace: taken when metadata.namespace is absent (in an
 * AdmissionReview it may be); may be NULL. On success *ret_pod has one reference, the caller's.
 * Errors: GQ_EINVALID a field of the wrong type, neither name nor generateName, an unknown
 * operator, …, with the path of the field (spec.containers[0].resources.limits); GQ_ETOOBIG too
 * many of something (1000 items of a list or map, 100 node selector terms, 4000 labels); GQ_ENOMEM.
 * Source: the Pod reference, core/v1. */
int gq_pod_decode(const char *json, size_t len, const char *default_namespace,
		  struct gq_pod **ret_pod, struct gq_err *err);
struct json_object;
/* The same from a tree that is already parsed (borrowed). */
int gq_pod_decode_tree(struct json_object *root, const char *default_namespace,
		       struct gq_pod **ret_pod, struct gq_err *err);
/* A pod of a PodTemplateSpec, in this namespace (may be NULL). What its metadata says of name, uid,
 * namespace and owners is not taken over: the pods' controller sets them. root: borrowed; NULL is
 * an empty template. Errors: as gq_pod_decode(). */
int gq_pod_template_decode_tree(struct json_object *root, const char *namespace_,
				struct gq_pod **ret_pod, struct gq_err *err);
struct gq_pod *gq_pod_ref(const struct gq_pod *pod);
void gq_pod_unref(const struct gq_pod *pod);
/* Whether two states of a pod ask for the same and may land in the same places; of any other change
 * the ledger learns nothing new. */
bool gq_pod_asks_alike(const struct gq_pod *a, const struct gq_pod *b);

struct gq_taint {
	const char *key;
	const char *value;
	const char *effect;
};

struct gq_node_resource {
	const char *name; /* GPU names only */
	int64_t count; /* allocatable; 0 is not offered. A quantity that does not parse counts 0. */
};

struct gq_node {
	const char *name;
	const char *uid;
	const struct gq_label *labels; /* sorted by key */
	size_t n_labels;
	/* NoSchedule and NoExecute only, without node.kubernetes.io/ ones, which come and go */
	const struct gq_taint *taints;
	size_t n_taints;
	const struct gq_node_resource *resources; /* sorted by name */
	size_t n_resources;
};

extern const struct gq_json_keep gq_node_keep[];
int gq_node_decode(const char *json, size_t len, struct gq_node **ret_node, struct gq_err *err);
struct gq_node *gq_node_ref(const struct gq_node *node);
void gq_node_unref(const struct gq_node *node);
/* Whether two states of a node mean the same to us (heartbeats change nothing). */
bool gq_node_equal(const struct gq_node *a, const struct gq_node *b);
/* NULL when absent. Labels must be sorted by key. */
const char *gq_label_get(const struct gq_label *labels, size_t n_labels, const char *key);

struct gq_namespace {
	const char *name;
	const char *uid;
	const struct gq_label *labels; /* sorted by key */
	size_t n_labels;
};

extern const struct gq_json_keep gq_namespace_keep[];
int gq_namespace_decode(const char *json, size_t len, struct gq_namespace **ret_namespace,
			struct gq_err *err);
struct gq_namespace *gq_namespace_ref(const struct gq_namespace *ns);
void gq_namespace_unref(const struct gq_namespace *ns);

/* What a DRA object says about device classes. Request names of the claim or template spec. */
struct gq_claim {
	const char *const *device_classes; /* of every request, alternatives included */
	size_t n_device_classes;
};
extern const struct gq_json_keep gq_claim_keep[];          /* ResourceClaim */
extern const struct gq_json_keep gq_claim_template_keep[]; /* ResourceClaimTemplate */
/* Either kind. GQ_EINVALID for a request form that is not known: it might be a GPU's. */
int gq_claim_decode(const char *json, size_t len, struct gq_claim **ret_claim, struct gq_err *err);
void gq_claim_free(struct gq_claim *claim);

/* Whether a DeviceClass is proven to be of no GPU: its own selectors pin device.driver to driver
 * names of which none looks like a GPU's. *ret_harmless is false when in doubt. */
extern const struct gq_json_keep gq_device_class_keep[];
int gq_device_class_decode(const char *json, size_t len, bool *ret_harmless, struct gq_err *err);

GQ_DEFINE_CLEANUP(gq_cleanup_pod, struct gq_pod, gq_pod_unref);
GQ_DEFINE_CLEANUP(gq_cleanup_node, struct gq_node, gq_node_unref);
GQ_DEFINE_CLEANUP(gq_cleanup_namespace, struct gq_namespace, gq_namespace_unref);
GQ_DEFINE_CLEANUP(gq_cleanup_claim, struct gq_claim, gq_claim_free);

#endif
