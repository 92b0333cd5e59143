#include <string.h>

#include "quota/rules_internal.h"

/* Which pods a rule could concern: once for us, and once in CEL for the API server, which asks
 * about these only. The two stand side by side here; where they differ the API server's may be
 * true for more. */

#define KEY(key) key,
static const char *const schedulers[] = {GQ_GPU_SCHEDULERS(KEY)};

static bool gives_out_gpus(const char *scheduler)
{
	for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++)
		if (strcmp(scheduler, schedulers[i]) == 0)
			return true;
	return false;
}

static unsigned bit(enum gq_rule_id id)
{
	return 1u << id;
}

static bool is_switch(enum gq_gpu_env env)
{
	return env == GQ_ENV_DISABLE_CONTROL || env == GQ_ENV_CORE_POLICY;
}

static bool says_something(const struct gq_env *env)
{
	if (env->env == GQ_ENV_VISIBLE_DEVICES)
		return gq_env_gives_devices(env);
	return !env->value || env->value[0];
}

/* itself: without what only shows in other objects. */
static unsigned concern_of_container(const struct gq_posture *posture,
				     const struct gq_posture_container *c, bool itself)
{
	unsigned concern = 0;

	if (c->privileged || c->host_process || c->unmasked_proc ||
	    (posture->host_pid && (c->sys_admin || c->sys_ptrace)))
		concern |= bit(GQ_RULE_PRIVILEGED);
	for (size_t i = 0; i < c->n_envs; i++)
		if (says_something(&c->envs[i]))
			concern |= bit(is_switch(c->envs[i].env) ? GQ_RULE_BYPASS_LABELS
								 : GQ_RULE_GPU_WITHOUT_REQUEST);
	if (c->n_env_froms)
		concern |= bit(GQ_RULE_GPU_WITHOUT_REQUEST) | bit(GQ_RULE_BYPASS_LABELS);
	if (c->n_env_maps && !itself)
		concern |= bit(GQ_RULE_GPU_WITHOUT_REQUEST) | bit(GQ_RULE_BYPASS_LABELS);
	return concern;
}

static unsigned concern_of(const struct gq_posture *posture, const struct gq_pod *pod, bool itself)
{
	bool asks = gq_pod_asks_for_gpu(pod);
	unsigned concern = 0;

	for (size_t i = 0; i < posture->n_containers; i++)
		concern |= concern_of_container(posture, &posture->containers[i], itself);
	for (size_t i = 0; i < posture->n_volumes; i++) {
		const struct gq_posture_volume *volume = &posture->volumes[i];
		if (volume->host_path[0])
			concern |= bit(GQ_RULE_HOST_PATH);
		bool claimed = volume->claim[0] || volume->volume_name[0];
		if (volume->host_path[0] || (claimed && !itself))
			concern |= bit(GQ_RULE_RUNTIME_SOCKETS) | bit(GQ_RULE_HOST_DEVICES);
	}
	if (gives_out_gpus(posture->scheduler) || posture->n_annotations || pod->node_name[0])
		concern |= bit(GQ_RULE_GPU_WITHOUT_REQUEST);
	if (posture->n_labels || posture->n_annotations || asks)
		concern |= bit(GQ_RULE_BYPASS_LABELS);
	if (asks)
		concern |= bit(GQ_RULE_POD_LIMIT) | bit(GQ_RULE_REQUIRE_GPU_MEMORY) |
			   bit(GQ_RULE_REQUIRE_READINESS_PROBE);
	if (posture->host_users && !itself)
		concern |= bit(GQ_RULE_REQUIRE_USER_NAMESPACE);
	return concern;
}

unsigned gq_rules_concern(const struct gq_posture *posture, const struct gq_pod *pod)
{
	return concern_of(posture, pod, false);
}

unsigned gq_rules_concern_itself(const struct gq_posture *posture, const struct gq_pod *pod)
{
	return concern_of(posture, pod, true);
}

/* Appends text with each "$P" replaced. */
static void print(struct gq_buf *out, const char *text, const char *pod)
{
	const char *at;

	while ((at = strstr(text, "$P"))) {
		gq_buf_append(out, text, (size_t)(at - text));
		gq_buf_puts(out, pod);
		text = at + 2;
	}
	gq_buf_puts(out, text);
}

#define EVERY_CONTAINER                                                                            \
	"($P.spec.containers + (has($P.spec.initContainers) ? $P.spec.initContainers : []) + "     \
	"(has($P.spec.ephemeralContainers) ? $P.spec.ephemeralContainers : []))"

static void print_env_names(struct gq_buf *out)
{
	for (int env = 0; env < GQ_ENVS; env++)
		gq_buf_printf(out, "%s'%s'", env ? ", " : "",
			      gq_gpu_env_name((enum gq_gpu_env)env));
}

static const char *const labels[] = {GQ_POSTURE_LABELS(KEY)};
static const char *const annotations[] = {GQ_POSTURE_ANNOTATIONS(KEY)};

static void print_keys(struct gq_buf *out, const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		gq_buf_printf(out, "%s'%s'", i ? ", " : "", keys[i]);
}

int gq_rules_print_container_condition(struct gq_buf *out, const char *pod)
{
	/* privileged */
	print(out,
	      EVERY_CONTAINER
	      ".exists(c, has(c.securityContext) && ("
	      "(has(c.securityContext.privileged) && c.securityContext.privileged) || "
	      "(has(c.securityContext.procMount) && "
	      "c.securityContext.procMount != 'Default') || "
	      "(has(c.securityContext.windowsOptions) && "
	      "has(c.securityContext.windowsOptions.hostProcess) && "
	      "c.securityContext.windowsOptions.hostProcess) || "
	      "(has($P.spec.hostPID) && $P.spec.hostPID && "
	      "has(c.securityContext.capabilities) && "
	      "has(c.securityContext.capabilities.add)))) || "
	      "(has($P.spec.securityContext) && "
	      "has($P.spec.securityContext.windowsOptions) && "
	      "has($P.spec.securityContext.windowsOptions.hostProcess) && "
	      "$P.spec.securityContext.windowsOptions.hostProcess) || ",
	      pod);
	/* containerRuntimeSockets, hostDevices, hostPath */
	print(out, "(has($P.spec.volumes) && $P.spec.volumes.exists(v, has(v.hostPath))) || ", pod);
	/* gpuWithoutRequest and bypassLabels: the environment */
	print(out, EVERY_CONTAINER ".exists(c, (has(c.env) && c.env.exists(e, e.name in [", pod);
	print_env_names(out);
	gq_buf_printf(out,
		      "] && (has(e.valueFrom) || (has(e.value) && e.value != '' && "
		      "!(e.name == '%s' && e.value in ['void', 'none']))))) || "
		      "(has(c.envFrom) && c.envFrom.exists(f, has(f.prefix) && "
		      "f.prefix != '' && [",
		      gq_gpu_env_name(GQ_ENV_VISIBLE_DEVICES));
	print_env_names(out);
	gq_buf_puts(out, "].exists(n, n.startsWith(f.prefix)))))");
	return out->code;
}

/* gpuWithoutRequest, and the label of bypassLabels. */
int gq_rules_print_pod_condition(struct gq_buf *out, const char *pod)
{
	print(out, "(has($P.spec.schedulerName) && $P.spec.schedulerName in [", pod);
	print_keys(out, schedulers, sizeof schedulers / sizeof *schedulers);
	print(out,
	      "]) || (has($P.spec.nodeName) && $P.spec.nodeName != '') || "
	      "(has($P.metadata) && has($P.metadata.annotations) && [",
	      pod);
	print_keys(out, annotations, sizeof annotations / sizeof *annotations);
	print(out,
	      "].exists(k, k in $P.metadata.annotations)) || "
	      "(has($P.metadata) && has($P.metadata.labels) && [",
	      pod);
	print_keys(out, labels, sizeof labels / sizeof *labels);
	print(out, "].exists(k, k in $P.metadata.labels))", pod);
	return out->code;
}

int gq_rules_print_reference_condition(struct gq_buf *out, const char *pod)
{
	print(out,
	      "((has($P.spec.volumes) && $P.spec.volumes.exists(v, "
	      "has(v.persistentVolumeClaim) || has(v.ephemeral))) || " EVERY_CONTAINER
	      ".exists(c, has(c.envFrom) && c.envFrom.exists(f, has(f.configMapRef) && "
	      "(!has(f.prefix) || f.prefix == ''))))",
	      pod);
	return out->code;
}
