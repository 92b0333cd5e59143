#ifndef GQ_QUOTA_GPU_NAMES_H
#define GQ_QUOTA_GPU_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "quota/phrase.h"

/* The one list of the names by which pods ask for GPUs. It drives the recogniser (below) and the
 * matchConditions of the webhook registrations (gq_gpu_names_print_match_condition), so that the
 * two cannot drift apart: what the API server does not send us, the recogniser does not know, and
 * the reverse. */

enum gq_gpu_meaning {
	GQ_GPU_NONE,       /* no GPU request */
	GQ_GPU_COUNT,      /* whole devices, or vGPUs when the container names memory or cores */
	GQ_GPU_MEMORY_MIB, /* HAMi: MiB of each vGPU */
	GQ_GPU_MEMORY_PERCENT, /* HAMi: percent of each card; above 100 counts as 100, 0 as not
				  given */
	GQ_GPU_CORES_PERCENT,  /* HAMi: percent of each card's compute */
	GQ_GPU_DEVICE_CLASS,   /* deviceclass.resource.kubernetes.io/CLASS: depends on the class */
	GQ_GPU_NOT_SUPPORTED,  /* a GPU request that this version refuses */
};

/* Keys of pod annotations that ask for GPUs, X(key): KAI Scheduler's. Constraints on where
 * a counted GPU comes from (HAMi's nvidia.com/use-gputype, …) are no requests. */
#define GQ_GPU_ANNOTATIONS(X)                                                                      \
	X("gpu-fraction")                                                                          \
	X("gpu-memory")                                                                            \
	X("gpu-fraction-num-devices")

/* What a resource name (of requests, limits or overhead) means. detail, when not NULL, gets for
 * GQ_GPU_DEVICE_CLASS the class's name and for GQ_GPU_NOT_SUPPORTED what it belongs to ("MIG",
 * "Volcano vGPU", …); it points into static storage or into name. */
enum gq_gpu_meaning gq_gpu_resource_meaning(const char *name, struct gq_phrase *detail);

/* The same for a pod annotation's key: NOT_SUPPORTED for keys that ask for GPUs (KAI's
 * gpu-fraction, …), NONE for others. */
enum gq_gpu_meaning gq_gpu_annotation_meaning(const char *key, struct gq_phrase *detail);

/* Whether a DeviceClass or DRA driver name looks like a GPU's ("gpu.nvidia.com"). */
bool gq_gpu_device_name(const char *name);

/* The whole device resource of the vendor that offers a name on nodes: what a node must list for
 * a pod with this name to land there. "nvidia.com/gpu" for itself and for HAMi's names; NULL when
 * the name is not offered by nodes as such. */
const char *gq_gpu_node_resource(const char *name);

/* The name in static storage, for names that are counted (COUNT to CORES_PERCENT); else NULL. */
const char *gq_gpu_static_name(const char *name);

/* Appends the CEL expression (one line, no trailing newline) that is true for every pod with a
 * request that the recogniser knows: resource names in limits and requests of containers and init
 * containers and in overhead, resourceClaims, annotations. pod: a CEL expression that gives a Pod
 * or a PodTemplateSpec. */
int gq_gpu_names_print_match_condition(struct gq_buf *out, const char *pod);

#endif
