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

/* "a, b or c" */
static void print_choice(struct gq_buf *out, enum gq_locale locale, const char *const *list,
			 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			gq_message_print(out, locale,
					 i + 1 < n ? GQ_MSG_LIST_SEPARATOR : GQ_MSG_OR_SEPARATOR,
					 NULL, 0);
		gq_buf_puts(out, list[i]);
	}
}

/* ---- gpuWithoutRequest ---- */

bool gq_env_gives_devices(const struct gq_env *env)
{
	/* "none" gives driver libraries and no device. Source: nvidia-container-toolkit's docs. */
	static const char *const no_devices[] = {"", "void", "none"};

	return env->env == GQ_ENV_VISIBLE_DEVICES &&
	       !(env->value && is_one_of(env->value, no_devices, COUNT(no_devices)));
}

/* What stands there for a person: the value, or what kind of reference has it. */
static const char *shown(const struct gq_env *env)
{
	return env->value ? env->value : env->from;
}

static void check_visible(const struct gq_ruled *ruled, const char *container,
			  const struct gq_env *env, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const char *name = gq_gpu_env_name(env->env);

	if (gq_env_gives_devices(env)) {
		if (ruled->ephemeral_only)
			GQ_FOUND(found, GQ_MSG_RULE_ENV_EPHEMERAL, {"container", container},
				 {"name", name}, {"value", shown(env)});
		else if (!env->value)
			GQ_FOUND(found, GQ_MSG_RULE_ENV_REFERENCE, {"container", container},
				 {"name", name}, {"from", env->from});
		else
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
}

/* Whoever chooses a node passes by its scheduler, and the kubelet passes over names that the node
 * does not offer: so only whole devices that it does offer are a request there. */
static void check_node_name(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_pod *pod = ruled->pod;
	bool device = false, share = false;

	if (!pod->node_name[0] || !gq_node_snapshot_has_gpu(ruled->snapshot, pod->node_name))
		return;
	for (size_t i = 0; i < pod->n_asks; i++) {
		for (size_t k = 0; k < pod->asks[i].n_amounts; k++) {
			const struct gq_gpu_amount *amount = &pod->asks[i].amounts[k];
			if (amount->meaning != GQ_GPU_COUNT)
				share = true;
			else if (gq_node_snapshot_offers(ruled->snapshot, pod->node_name,
							 amount->resource))
				device = true;
		}
	}
	if (!device)
		GQ_FOUND(found, GQ_MSG_RULE_NODE_NAME, {"node", pod->node_name});
	else if (share)
		GQ_FOUND(found, GQ_MSG_RULE_NODE_NAME_SHARE, {"node", pod->node_name});
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
				 {"kind", from->secret ? "Secret" : "ConfigMap"},
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

static void print_env_map(struct gq_buf *out, enum gq_locale locale, const char *container,
			  const char *map)
{
	const struct gq_message_arg args[] = {{"container", container}, {"source", map}};

	gq_message_print(out, locale, GQ_MSG_ENV_FROM_MAP, args, 2);
}

/* ConfigMaps of one container that are looked at. */
#define ENV_MAPS_MAX 32

/* Calls check for each variable of a ConfigMap that the container takes its environment from. */
static enum gq_rules_answer
each_env_map(const struct gq_ruled *ruled, const struct gq_posture_container *container,
	     struct gq_found *found,
	     void (*check)(const struct gq_ruled *ruled, const char *container,
			   const struct gq_env *env, struct gq_found *found))
{
	struct gq_container_path path = gq_container_path(container);
	enum gq_rules_answer answer = GQ_RULES_PASSED;
	struct gq_env_map map;

	for (size_t i = 0; i < container->n_env_maps; i++) {
		enum gq_rules_answer one =
		    i < ENV_MAPS_MAX ? gq_env_map_read(ruled, container->env_maps[i], &map)
				     : GQ_RULES_TOO_MANY;
		if (one == GQ_RULES_TOO_MANY) {
			GQ_FOUND(found, GQ_MSG_RULE_ENV_MAPS, {"container", path.text});
			break;
		}
		answer = gq_rules_both(answer, one);
		struct gq_buf where GQ_BUF_CLEANUP = GQ_BUF_INIT(2048);
		print_env_map(&where, found->locale, path.text, map.name);
		for (int env = 0; env < GQ_ENVS; env++)
			if (map.set[env] && !sets(container, env))
				check(ruled, where.data ? where.data : path.text,
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
		check_visible(ruled, path.text, &container->envs[e], found);
	check_env_froms(container, GQ_ENV_VISIBLE_DEVICES, GQ_ENV_DRIVER_CAPABILITIES, found);
	return each_env_map(ruled, container, found, check_visible);
}

/* In a container that asks for GPUs the device plugin sets the variable; that the pod's own takes
 * its place is a matter of bypassLabels. */
enum gq_rules_answer gq_rule_gpu_without_request(const struct gq_ruled *ruled,
						 struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	enum gq_rules_answer answer = GQ_RULES_PASSED;

	for (size_t i = 0; i < posture->n_containers; i++) {
		const struct gq_posture_container *container = &posture->containers[i];
		if (container->has_plugin_gpu || !gq_ruled_container(ruled, container))
			continue;
		answer = gq_rules_both(answer, check_environment(ruled, container, found));
	}
	if (ruled->ephemeral_only)
		return answer;
	if (!gq_pod_asks_for_gpu(ruled->pod))
		check_pod_without_gpu(ruled, found);
	check_node_name(ruled, found);
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

static void check_switch(const struct gq_ruled *ruled, const char *container,
			 const struct gq_env *env, struct gq_found *found)
{
	(void)ruled;
	if (switches_off(env))
		GQ_FOUND(found, GQ_MSG_RULE_BYPASS_ENV, {"container", container},
			 {"name", gq_gpu_env_name(env->env)}, {"value", shown(env)});
}

/* The kubelet appends the pod's variables to those of the device plugin, and of two the runtime
 * takes the last. Source: kubelet_pods.go, GenerateRunContainerOptions; NVIDIA/k8s-device-plugin
 * issue 1432. */
static void check_beyond(const struct gq_ruled *ruled, const char *container,
			 const struct gq_env *env, struct gq_found *found)
{
	if (gq_env_gives_devices(env))
		GQ_FOUND(found, GQ_MSG_RULE_ENV_BEYOND, {"container", container},
			 {"name", gq_gpu_env_name(env->env)}, {"value", shown(env)});
	else
		check_switch(ruled, container, env, found);
}

static enum gq_rules_answer check_switches(const struct gq_ruled *ruled,
					   const struct gq_posture_container *container,
					   struct gq_found *found)
{
	struct gq_container_path path = gq_container_path(container);
	void (*check)(const struct gq_ruled *ruled, const char *path, const struct gq_env *env,
		      struct gq_found *found) =
	    container->has_plugin_gpu ? check_beyond : check_switch;

	for (size_t e = 0; e < container->n_envs; e++)
		check(ruled, path.text, &container->envs[e], found);
	if (container->has_plugin_gpu)
		check_env_froms(container, GQ_ENV_VISIBLE_DEVICES, GQ_ENV_VISIBLE_DEVICES, found);
	check_env_froms(container, GQ_ENV_DISABLE_CONTROL, GQ_ENV_CORE_POLICY, found);
	return each_env_map(ruled, container, found, check);
}

enum gq_rules_answer gq_rule_bypass_labels(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_posture *posture = ruled->posture;
	const struct gq_rules *rules = &ruled->policy->rules;
	enum gq_rules_answer answer = GQ_RULES_PASSED;

	for (size_t i = 0; i < posture->n_containers; i++) {
		if (gq_ruled_container(ruled, &posture->containers[i]))
			answer = gq_rules_both(
			    answer, check_switches(ruled, &posture->containers[i], found));
	}
	if (ruled->ephemeral_only)
		return answer;
	const char *webhook = gq_label_get(posture->labels, posture->n_labels, "hami.io/webhook");
	if (webhook && strcmp(webhook, "ignore") == 0)
		GQ_FOUND(found, GQ_MSG_RULE_BYPASS_LABEL, {"name", "hami.io/webhook"},
			 {"value", webhook});
	for (size_t i = 0; i < posture->n_annotations; i++)
		if (strncmp(posture->annotations[i].key, "hami.io/", 8) == 0)
			GQ_FOUND(found, GQ_MSG_RULE_PLACED, {"name", posture->annotations[i].key});
	const char *scheduler = posture->scheduler[0] ? posture->scheduler : "default-scheduler";
	/* a template may leave it to a webhook of the sharing system, which sees pods only */
	bool left_open = ruled->owner_kind && !posture->scheduler[0];
	if (rules->n_only_schedulers && !left_open && gq_pod_asks_for_gpu(ruled->pod) &&
	    !is_one_of(scheduler, rules->only_schedulers, rules->n_only_schedulers)) {
		struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
		print_choice(&list, found->locale, rules->only_schedulers,
			     rules->n_only_schedulers);
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

static bool lands_elsewhere(const struct gq_class_set *leaves, const struct gq_parts *parts)
{
	for (size_t i = 0; i < parts->n; i++)
		if (!gq_class_set_has(leaves, parts->items[i].class_id))
			return true;
	return false;
}

bool gq_pod_limit_passed(const struct gq_policy *policy, const struct gq_pod_limit *limit,
			 const struct gq_pod *pod, const struct gq_parts *parts,
			 struct gq_pod_limit_finding *ret_finding)
{
	int64_t asks = most_shares(parts, pod);

	if (asks > limit->shares) {
		*ret_finding = (struct gq_pod_limit_finding){
		    .class_id = GQ_CLASS_NONE, .limit_shares = limit->shares, .asks_shares = asks};
		return true;
	}
	for (size_t i = 0; i < limit->n_classes; i++) {
		const struct gq_class_shares *one = &limit->classes[i];
		const struct gq_class_set *leaves = gq_class_leaves(policy->classes, one->class_id);
		asks = gq_parts_inside(parts, leaves).shares;
		if (asks > one->shares) {
			*ret_finding =
			    (struct gq_pod_limit_finding){.class_id = one->class_id,
							  .limit_shares = one->shares,
							  .asks_shares = asks,
							  .may = lands_elsewhere(leaves, parts)};
			return true;
		}
	}
	return false;
}

static void found_pod_limit(const struct gq_ruled *ruled, const struct gq_tenant *tenant,
			    const struct gq_pod_limit *limit, struct gq_found *found)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(2048);
	struct gq_pod_limit_finding finding;

	if (!gq_pod_limit_passed(ruled->policy, limit, ruled->pod, ruled->parts, &finding))
		return;
	gq_explain_pod_limit(&line, found->locale, ruled->policy, tenant ? tenant->name : NULL,
			     &finding);
	gq_found_line(found, &line);
}

/* Who passes the rule is told of the tenant's own limit as well, if that would be the next word. */
enum gq_rules_answer gq_rule_pod_limit(const struct gq_ruled *ruled, struct gq_found *found)
{
	const struct gq_tenant *tenant = ruled->tenant;

	if (!ruled->parts)
		return GQ_RULES_PASSED;
	found_pod_limit(ruled, NULL, &ruled->policy->rules.pod_limit, found);
	if (found->n && tenant && tenant->mode == GQ_MODE_ENFORCE)
		found_pod_limit(ruled, tenant, &tenant->pod_limit, found);
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
			print_choice(&list, found->locale, vgpu->memory, vgpu->n_memory);
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
