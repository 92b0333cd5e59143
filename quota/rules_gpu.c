#include <string.h>
#include <strings.h>

#include "quota/decision_internal.h"
#include "quota/demand.h"
#include "quota/rules_internal.h"

/* Rules about how a pod comes by GPUs, and how many. */

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_one_of(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(text, list[i]) == 0)
			return true;
	return false;
}

/* ---- gpuWithoutRequest ---- */

/* Whether each container is taken to ask: an annotation asks for the pod as a whole. */
static bool asks_by_annotation(const struct gq_pod *pod)
{
	return pod->problem.kind == GQ_PROBLEM_UNSUPPORTED_ANNOTATION;
}

static void check_visible(const struct gq_posture *posture, const char *container,
			  const struct gq_env *env, struct gq_found *found)
{
	/* "none" gives driver libraries and no device. Source: nvidia-container-toolkit's docs. */
	static const char *const no_devices[] = {"", "void", "none"};
	const char *name = gq_gpu_env_name(env->env);

	if (env->env == GQ_ENV_VISIBLE_DEVICES) {
		if (!env->value)
			GQ_FOUND(found, GQ_MSG_RULE_ENV_REFERENCE, {"container", container},
				 {"name", name}, {"from", env->from});
		else if (!is_one_of(env->value, no_devices, COUNT(no_devices)))
			GQ_FOUND(found, GQ_MSG_RULE_ENV_DEVICES, {"container", container},
				 {"name", name}, {"value", env->value});
	} else if (env->env == GQ_ENV_DRIVER_CAPABILITIES && (!env->value || env->value[0]) &&
		   strncmp(posture->runtime_class, "nvidia", 6) == 0) {
		GQ_FOUND(found, GQ_MSG_RULE_ENV_CAPABILITIES, {"container", container},
			 {"name", name}, {"runtime", posture->runtime_class});
	}
}

static void check_pod_without_gpu(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const struct gq_rules *rules = &ruled->policy->rules;

	if (is_one_of(posture->scheduler, rules->gpu_schedulers, rules->n_gpu_schedulers))
		GQ_FOUND(found, GQ_MSG_RULE_SCHEDULER, {"scheduler", posture->scheduler});
	for (size_t i = 0; i < posture->n_annotations; i++)
		GQ_FOUND(found, GQ_MSG_RULE_ANNOTATION, {"name", posture->annotations[i].key});
	if (ruled->pod->node_name[0] &&
	    gq_node_snapshot_has_gpu(ruled->snapshot, ruled->pod->node_name))
		GQ_FOUND(found, GQ_MSG_RULE_NODE_NAME, {"node", ruled->pod->node_name});
}

/* Variables that envFrom may set, of which one is a or b. */
static void check_env_froms(const struct gq_posture_container *container, enum gq_gpu_env a,
			    enum gq_gpu_env b, struct gq_found *found)
{
	struct gq_container_path path = gq_container_path(container);

	for (size_t i = 0; i < container->n_env_froms; i++) {
		const struct gq_env_from *from = &container->env_froms[i];
		bool first = gq_gpu_env_begins(a, from->prefix);
		if (first || gq_gpu_env_begins(b, from->prefix))
			GQ_FOUND(found, GQ_MSG_RULE_ENV_FROM, {"container", path.text},
				 {"prefix", from->prefix}, {"source", from->source},
				 {"name", gq_gpu_env_name(first ? a : b)});
	}
}

/* Whether the container sets it itself: that goes before what envFrom brings. */
static bool sets(const struct gq_posture_container *container, int env)
{
	for (size_t i = 0; i < container->n_envs; i++)
		if ((int)container->envs[i].env == env)
			return true;
	return false;
}

/* Calls check for each variable of a ConfigMap that the container takes its environment from. */
static enum gq_rules_answer
each_env_map(const struct gq_ruled *ruled, const struct gq_posture_container *container,
	     struct gq_found *found,
	     void (*check)(const struct gq_posture *posture, const char *container,
			   const struct gq_env *env, struct gq_found *found))
{
	struct gq_container_path path = gq_container_path(container);
	enum gq_rules_answer answer = GQ_RULES_PASSED;
	struct gq_env_map map;

	for (size_t i = 0; i < container->n_env_maps; i++) {
		enum gq_rules_answer one = gq_env_map_read(ruled, container->env_maps[i], &map);
		if (one == GQ_RULES_FAILED)
			return one;
		if (one == GQ_RULES_READ)
			answer = one;
		if (one == GQ_RULES_TOO_MANY)
			check(ruled->posture, path.text,
			      &(struct gq_env){GQ_ENV_VISIBLE_DEVICES, NULL, map.name}, found);
		for (int env = 0; env < GQ_ENVS; env++)
			if (map.set[env] && !sets(container, env))
				check(ruled->posture, path.text,
				      &(struct gq_env){(enum gq_gpu_env)env, map.values[env], ""},
				      found);
	}
	return answer;
}

static enum gq_rules_answer check_environment(const struct gq_ruled *ruled,
					      const struct gq_posture_container *container,
					      struct gq_found *found)
{
	struct gq_container_path path = gq_container_path(container);

	for (size_t e = 0; e < container->n_envs; e++)
		check_visible(ruled->posture, path.text, &container->envs[e], found);
	check_env_froms(container, GQ_ENV_VISIBLE_DEVICES, GQ_ENV_DRIVER_CAPABILITIES, found);
	return each_env_map(ruled, container, found, check_visible);
}

/* Where a container asks for GPUs the device plugin sets the variable to what it gave, whatever the
 * pod says. Source: NVIDIA/nvidia-container-toolkit issue 27. */
enum gq_rules_answer gq_rule_gpu_without_request(const struct gq_ruled *ruled,
						 struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	enum gq_rules_answer answer = GQ_RULES_PASSED;

	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		if (container->has_plugin_gpu || asks_by_annotation(ruled->pod) ||
		    !gq_ruled_container(ruled, container))
			continue;
		enum gq_rules_answer one = check_environment(ruled, container, found);
		if (one == GQ_RULES_FAILED)
			return one;
		if (one == GQ_RULES_READ)
			answer = one;
	}
	if (!ruled->ephemeral_only && !gq_pod_asks_for_gpu(ruled->pod))
		check_pod_without_gpu(ruled, found);
	return answer;
}

/* ---- bypassLabels ---- */

static bool switches_off(const struct gq_env *env)
{
	static const char *const harmless[] = {"", "0", "false", "False", "FALSE"};

	if (env->env == GQ_ENV_DISABLE_CONTROL)
		return !env->value || !is_one_of(env->value, harmless, COUNT(harmless));
	if (env->env == GQ_ENV_CORE_POLICY)
		return !env->value || strcasecmp(env->value, "disable") == 0 ||
		       strstr(env->value, "$("); /* may be put together */
	return false;
}

static void check_switch(const struct gq_posture *posture, const char *container,
			 const struct gq_env *env, struct gq_found *found)
{
	(void)posture;
	if (switches_off(env))
		GQ_FOUND(found, GQ_MSG_RULE_BYPASS_ENV, {"container", container},
			 {"name", gq_gpu_env_name(env->env)},
			 {"value", env->value ? env->value : env->from});
}

static enum gq_rules_answer check_switches(const struct gq_ruled *ruled,
					   const struct gq_posture_container *container,
					   struct gq_found *found)
{
	struct gq_container_path path = gq_container_path(container);

	for (size_t e = 0; e < container->n_envs; e++)
		check_switch(ruled->posture, path.text, &container->envs[e], found);
	check_env_froms(container, GQ_ENV_DISABLE_CONTROL, GQ_ENV_CORE_POLICY, found);
	return each_env_map(ruled, container, found, check_switch);
}

enum gq_rules_answer gq_rule_bypass_labels(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const struct gq_rules *rules = &ruled->policy->rules;
	enum gq_rules_answer answer = GQ_RULES_PASSED;

	for (size_t i = 0; i < posture->n_containers; i++) {
		if (!gq_ruled_container(ruled, &posture->containers[i]))
			continue;
		enum gq_rules_answer one = check_switches(ruled, &posture->containers[i], found);
		if (one == GQ_RULES_FAILED)
			return one;
		if (one == GQ_RULES_READ)
			answer = one;
	}
	if (ruled->ephemeral_only)
		return answer;
	const char *webhook = gq_label_get(posture->labels, posture->n_labels, "hami.io/webhook");
	if (webhook && strcmp(webhook, "ignore") == 0)
		GQ_FOUND(found, GQ_MSG_RULE_BYPASS_LABEL, {"name", "hami.io/webhook"},
			 {"value", webhook});
	const char *scheduler = posture->scheduler[0] ? posture->scheduler : "default-scheduler";
	if (rules->n_only_schedulers && gq_pod_asks_for_gpu(ruled->pod) &&
	    !is_one_of(scheduler, rules->only_schedulers, rules->n_only_schedulers)) {
		struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
		for (size_t i = 0; i < rules->n_only_schedulers; i++)
			gq_buf_printf(&list, "%s%s", i ? ", " : "", rules->only_schedulers[i]);
		GQ_FOUND(found, GQ_MSG_RULE_BYPASS_SCHEDULER, {"scheduler", scheduler},
			 {"list", list.data ? list.data : ""});
	}
	return answer;
}

/* ---- podLimit ---- */

/* The most shares that the pod holds anywhere. */
static int64_t most_shares(const struct gq_parts *parts, const struct gq_pod *pod)
{
	int64_t most = parts->n ? 0 : gq_demand_on(pod, 0).shares;

	for (size_t i = 0; i < parts->n; i++)
		most = gq_max64(most, parts->items[i].amount.shares);
	return most;
}

bool gq_pod_limit_passed(const struct gq_policy *policy, const struct gq_pod_limit *limit,
			 const struct gq_pod *pod, const struct gq_parts *parts,
			 struct gq_pod_limit_finding *ret_finding)
{
	int64_t asks = most_shares(parts, pod);

	if (asks > limit->shares) {
		*ret_finding = (struct gq_pod_limit_finding){GQ_CLASS_NONE, limit->shares, asks};
		return true;
	}
	for (size_t i = 0; i < limit->n_classes; i++) {
		const struct gq_class_shares *one = &limit->classes[i];
		asks =
		    gq_parts_inside(parts, gq_class_leaves(policy->classes, one->class_id)).shares;
		if (asks > one->shares) {
			*ret_finding =
			    (struct gq_pod_limit_finding){one->class_id, one->shares, asks};
			return true;
		}
	}
	return false;
}

enum gq_rules_answer gq_rule_pod_limit(const struct gq_ruled *ruled, struct gq_found *found)
{
	struct gq_pod_limit_finding finding;

	if (ruled->parts && gq_pod_limit_passed(ruled->policy, &ruled->policy->rules.pod_limit,
						ruled->pod, ruled->parts, &finding)) {
		gq_explain_pod_limit(&found->text, found->locale, ruled->policy, NULL, &finding);
		found->n++;
	}
	return GQ_RULES_PASSED;
}

/* ---- requireGpuMemory ---- */

static bool has_any(const struct gq_posture_container *container, const char *const *names,
		    size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_one_of(names[i], container->resources, container->n_resources))
			return true;
	return false;
}

enum gq_rules_answer gq_rule_gpu_memory(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const struct gq_rules *rules = &ruled->policy->rules;

	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		struct gq_container_path path = gq_container_path(container);
		for (size_t v = 0; v < rules->n_vgpus; v++) {
			const struct gq_vgpu_names *vgpu = &rules->vgpus[v];
			struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
			if (!has_any(container, &vgpu->count, 1) ||
			    has_any(container, vgpu->memory, vgpu->n_memory))
				continue;
			for (size_t m = 0; m < vgpu->n_memory; m++)
				gq_buf_printf(&list, "%s%s", m ? ", " : "", vgpu->memory[m]);
			GQ_FOUND(found, GQ_MSG_RULE_GPU_MEMORY, {"container", path.text},
				 {"name", vgpu->count}, {"list", list.data ? list.data : ""});
		}
	}
	return GQ_RULES_PASSED;
}

/* ---- requireReadinessProbe ---- */

/* Whether others send the pod requests: it is made to run for good, and either kept up by a
 * workload whose pods are alike or has a port. */
static bool serves(const struct gq_ruled *ruled)
{
	static const char *const kinds[] = {"Deployment", "ReplicaSet", "StatefulSet",
					    "ReplicationController"};
	const char *kind = ruled->owner_kind ? ruled->owner_kind : ruled->pod->owner.kind;

	return ruled->posture->restarts &&
	       (ruled->posture->has_ports || is_one_of(kind, kinds, COUNT(kinds)));
}

enum gq_rules_answer gq_rule_readiness_probe(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;

	if (!serves(ruled))
		return GQ_RULES_PASSED;
	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		struct gq_container_path path = gq_container_path(container);
		bool stays = container->kind == GQ_CONTAINER_MAIN || container->sidecar;
		if (container->has_gpu && stays && !container->probed)
			GQ_FOUND(found, GQ_MSG_RULE_PROBE, {"container", path.text});
	}
	return GQ_RULES_PASSED;
}
