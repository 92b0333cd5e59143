#ifndef GQ_QUOTA_POSTURE_H
#define GQ_QUOTA_POSTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_filter.h"
#include "quota/object.h"

/* What a pod may do to its node and how it gets there: what rules look at, besides what it asks
 * for (object.h). Decoded from reviews and files only, never for the ledger, which has no use for
 * it. Immutable and counted; one block of memory. */

enum gq_container_kind { GQ_CONTAINER_INIT, GQ_CONTAINER_MAIN, GQ_CONTAINER_EPHEMERAL };
/* "initContainers", "containers", "ephemeralContainers". */
const char *gq_container_list(enum gq_container_kind kind);

/* The environment variables that decide about GPUs; X(id, name). The last two are HAMi-core's
 * switches, for all of it and for compute. */
#define GQ_GPU_ENV_NAMES(X)                                                                        \
	X(GQ_ENV_VISIBLE_DEVICES, "NVIDIA_VISIBLE_DEVICES")                                        \
	X(GQ_ENV_DRIVER_CAPABILITIES, "NVIDIA_DRIVER_CAPABILITIES")                                \
	X(GQ_ENV_DISABLE_CONTROL, "CUDA_DISABLE_CONTROL")                                          \
	X(GQ_ENV_CORE_POLICY, "GPU_CORE_UTILIZATION_POLICY")
#define GQ_GPU_ENV_ID(id, name) id,
enum gq_gpu_env { GQ_GPU_ENV_NAMES(GQ_GPU_ENV_ID) GQ_ENVS };
const char *gq_gpu_env_name(enum gq_gpu_env env);
/* Whether a prefix of envFrom and a key can make up its name. */
bool gq_gpu_env_begins(enum gq_gpu_env env, const char *prefix);

struct gq_env {
	enum gq_gpu_env env;
	const char *value; /* as written, $(OTHER) unresolved; NULL: from elsewhere */
	const char *from; /* static: "configMapKeyRef", "fieldRef", …, or "valueFrom" for a source
			     that is not known; "" with a value */
};

/* envFrom whose prefix is the beginning of one of those names: what it is for can't be told from
 * the pod. */
struct gq_env_from {
	const char *prefix;
	const char *source; /* name of the ConfigMap or Secret */
	bool secret;
};

struct gq_mount {
	const char *volume;
	const struct gq_posture_volume *of; /* NULL: the pod has none of that name */
	bool read_only;                     /* never for volumeDevices */
};

/* Keys by which tenants steer GPU sharing systems, or tell them that a pod has been placed already;
 * X(key), sorted. */
#define GQ_POSTURE_LABELS(X) X("hami.io/webhook")
#define GQ_POSTURE_ANNOTATIONS(X)                                                                  \
	X("hami.io/amd-devices-allocated")                                                         \
	X("hami.io/amd-devices-to-allocate")                                                       \
	X("hami.io/bind-phase")                                                                    \
	X("hami.io/bind-time")                                                                     \
	X("hami.io/vgpu-devices-allocated")                                                        \
	X("hami.io/vgpu-devices-to-allocate")                                                      \
	X("hami.io/vgpu-node")                                                                     \
	X("hami.io/vgpu-time")                                                                     \
	X("nvidia.com/nouse-gputype")                                                              \
	X("nvidia.com/nouse-gpuuuid")                                                              \
	X("nvidia.com/use-gputype")                                                                \
	X("nvidia.com/use-gpuuuid")                                                                \
	X("nvidia.com/vgpu-mode")

struct gq_posture_container {
	enum gq_container_kind kind;
	const char *name;
	bool sidecar; /* init, with restartPolicy Always */
	bool privileged;
	bool host_process;  /* Windows; the pod's where the container says nothing */
	bool unmasked_proc; /* procMount: Unmasked */
	bool all_powers, sys_admin, sys_ptrace; /* of capabilities.add; ALL is all three */
	bool probed;                            /* has a readiness or startup probe */
	bool has_gpu; /* asks for a GPU by a name of gpu_names.h or by a claim */
	/* Among these one of NVIDIA's device plugin, which sets NVIDIA_VISIBLE_DEVICES. */
	bool has_plugin_gpu;
	const struct gq_env *envs;
	size_t n_envs;
	const struct gq_env_from *env_froms;
	size_t n_env_froms;
	const char *const *env_maps; /* ConfigMaps of envFrom without a prefix */
	size_t n_env_maps;
	const struct gq_mount *mounts;
	size_t n_mounts;
	/* Extended resources (with a '/') in requests or limits, of any vendor, that are not 0. */
	const char *const *resources;
	size_t n_resources;
};

struct gq_posture_volume {
	const char *name;
	bool written;          /* a container mounts it, and not read-only */
	const char *host_path; /* as written; "" unless it is one */
	/* PersistentVolumeClaim that it mounts, "" none. One of a generic ephemeral volume does not
	 * exist yet; volume_name is then what its template asks for. It is named after the pod: ""
	 * as long as that has no name. */
	const char *claim;
	bool ephemeral;
	const char *volume_name; /* PersistentVolume that an ephemeral claim names, or "" */
};

struct gq_posture {
	bool host_pid, host_ipc, host_network;
	/* spec.hostUsers; true when it is not given. */
	bool host_users;
	bool windows;   /* spec.os.name */
	bool restarts;  /* restartPolicy Always, the default: as servers do */
	bool has_ports; /* a container declares a port */
	const char *runtime_class;
	const char *scheduler;       /* "" is the default one */
	const char *service_account; /* "default" when none is named */
	/* Those of GQ_POSTURE_LABELS and GQ_POSTURE_ANNOTATIONS that it has. Sorted by key. */
	const struct gq_label *labels;
	size_t n_labels;
	const struct gq_label *annotations;
	size_t n_annotations;
	const struct gq_posture_container
	    *containers; /* init, main, ephemeral; each in its order */
	size_t n_containers;
	const struct gq_posture_volume *volumes;
	size_t n_volumes;
};

/* What gq_posture_decode_tree() reads of a pod, or of a pod template. */
extern const struct gq_json_keep gq_posture_keep[];

/* root: a pruned Pod or PodTemplateSpec (metadata, spec), borrowed. Errors: GQ_EINVALID a field of
 * the wrong type, with its path; GQ_ETOOBIG; GQ_ENOMEM. Source: core/v1, the Pod reference. */
int gq_posture_decode_tree(struct json_object *root, struct gq_posture **ret_posture,
			   struct gq_err *err);
struct gq_posture *gq_posture_ref(const struct gq_posture *posture);
void gq_posture_unref(const struct gq_posture *posture);
GQ_DEFINE_CLEANUP(gq_cleanup_posture, struct gq_posture, gq_posture_unref);

#endif
