#ifndef GQ_QUOTA_RULE_H
#define GQ_QUOTA_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a policy says a pod may not do, whatever its quota. rules.h holds pods against it. */

/* The strictest first. */
enum gq_mode { GQ_MODE_ENFORCE, GQ_MODE_WARN, GQ_MODE_AUDIT, GQ_MODE_DISABLED };
/* As a policy writes it: "enforce". */
const char *gq_mode_name(enum gq_mode mode);

/* In the order in which they are held against a pod. */
enum gq_rule_id {
	GQ_RULE_PRIVILEGED,
	GQ_RULE_RUNTIME_SOCKETS,
	GQ_RULE_HOST_DEVICES,
	GQ_RULE_HOST_PATH,
	GQ_RULE_GPU_WITHOUT_REQUEST,
	GQ_RULE_BYPASS_LABELS,
	GQ_RULE_POD_LIMIT,
	GQ_RULE_REQUIRE_GPU_MEMORY,
	GQ_RULE_REQUIRE_USER_NAMESPACE,
	GQ_RULE_REQUIRE_READINESS_PROBE,
	GQ_RULES,
};
/* As a policy writes it: "containerRuntimeSockets". */
const char *gq_rule_name(enum gq_rule_id id);

struct gq_service_account {
	const char *namespace_;
	const char *name;
};

struct gq_rule {
	enum gq_mode mode; /* GQ_MODE_DISABLED: no rule */
	const char *const *exempt_namespaces;
	size_t n_exempt_namespaces;
	/* Pods that run as one of these; not for rules about what a tenant asks for (podLimit,
	 * requireGpuMemory), since a tenant chooses what a pod runs as. */
	const struct gq_service_account *exempt_accounts;
	size_t n_exempt_accounts;
};

/* The most that one pod may ask for: of all classes together, and of single ones. */
struct gq_class_shares {
	int class_id; /* into the policy's class table */
	int64_t shares;
};
struct gq_pod_limit {
	int64_t shares; /* GQ_UNLIMITED: none */
	const struct gq_class_shares *classes;
	size_t n_classes;
};

/* A directory of the node that pods may mount, with everything below it. */
struct gq_allowed_path {
	const char *prefix; /* as gq_host_path_clean() gives it */
	bool read_only;     /* only if every mount of the volume is */
};

/* A resource by which pods ask for vGPUs, and those by which they say how much memory. */
struct gq_vgpu_names {
	const char *count;
	const char *const *memory;
	size_t n_memory;
};

/* Schedulers that give out GPUs, X(name). The API server asks about pods that name one of these
 * (match_condition.h), so a policy may leave some out and add none. */
#define GQ_GPU_SCHEDULERS(X) X("hami-scheduler") X("kai-scheduler")

struct gq_rules {
	struct gq_rule by[GQ_RULES];
	struct gq_pod_limit pod_limit;
	const struct gq_allowed_path *allowed_paths; /* hostPath */
	size_t n_allowed_paths;
	const struct gq_vgpu_names *vgpus; /* requireGpuMemory; HAMi's when none are given */
	size_t n_vgpus;
	/* gpuWithoutRequest: schedulers that pods without a GPU have no business with. */
	const char *const *gpu_schedulers;
	size_t n_gpu_schedulers;
	/* bypassLabels: the schedulers that pods with a GPU have to use; none given, none is asked
	 * for. */
	const char *const *only_schedulers;
	size_t n_only_schedulers;
};

#endif
