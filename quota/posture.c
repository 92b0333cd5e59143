#include "quota/posture.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json_object.h"
#include "quota/arena.h"
#include "quota/field.h"
#include "quota/gpu_names.h"
#include "quota/quantity.h"

/* No object has a longer name. */
#define NAME_BYTES_MAX 253

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Keeps what is decoded below and no more; of some values only that they are there. */
static const struct gq_json_keep keep_presence[] = {GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_env_source[] = {
    {"configMapKeyRef", keep_presence}, {"secretKeyRef", keep_presence},
    {"fieldRef", keep_presence},        {"resourceFieldRef", keep_presence},
    {"fileKeyRef", keep_presence},      GQ_JSON_KEEP_END};
#define VISIBLE_DEVICES "NVIDIA_VISIBLE_DEVICES"
#define DRIVER_CAPABILITIES "NVIDIA_DRIVER_CAPABILITIES"
#define DISABLE_CONTROL "CUDA_DISABLE_CONTROL"
#define CORE_POLICY "GPU_CORE_UTILIZATION_POLICY"
/* A pod may have hundreds of others. */
static const struct gq_json_keep keep_env[] = {
    GQ_JSON_KEEP_ONLY("name", VISIBLE_DEVICES "\0" DRIVER_CAPABILITIES "\0" DISABLE_CONTROL
					      "\0" CORE_POLICY),
    {"value", NULL},
    {"valueFrom", keep_env_source},
    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_name[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_env_from[] = {
    {"prefix", NULL}, {"configMapRef", keep_name}, {"secretRef", keep_name}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_mount[] = {
    {"name", NULL}, {"readOnly", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_capabilities[] = {{"add", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_windows[] = {{"hostProcess", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_security[] = {{"privileged", NULL},
						    {"procMount", NULL},
						    {"capabilities", keep_capabilities},
						    {"windowsOptions", keep_windows},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_resources[] = {
    {"requests", NULL}, {"limits", NULL}, {"claims", keep_presence}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_container[] = {{"name", NULL},
						     {"restartPolicy", NULL},
						     {"securityContext", keep_security},
						     {"env", keep_env},
						     {"envFrom", keep_env_from},
						     {"volumeMounts", keep_mount},
						     {"volumeDevices", keep_name},
						     {"resources", keep_resources},
						     {"ports", keep_presence},
						     {"readinessProbe", keep_presence},
						     {"startupProbe", keep_presence},
						     GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_host_path[] = {{"path", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim[] = {{"claimName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim_spec[] = {{"volumeName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_template[] = {{"spec", keep_claim_spec}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_ephemeral[] = {{"volumeClaimTemplate", keep_template},
						     GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_volume[] = {{"name", NULL},
						  {"hostPath", keep_host_path},
						  {"persistentVolumeClaim", keep_claim},
						  {"ephemeral", keep_ephemeral},
						  GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_pod_security[] = {{"windowsOptions", keep_windows},
							GQ_JSON_KEEP_END};
#define KEEP_KEY(key) {key, NULL},
static const struct gq_json_keep keep_labels[] = {GQ_POSTURE_LABELS(KEEP_KEY) GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_annotations[] = {GQ_POSTURE_ANNOTATIONS(KEEP_KEY)
							   GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_metadata[] = {
    {"name", NULL}, {"labels", keep_labels}, {"annotations", keep_annotations}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_spec[] = {{"hostPID", NULL},
						{"hostIPC", NULL},
						{"hostNetwork", NULL},
						{"hostUsers", NULL},
						{"os", keep_name},
						{"restartPolicy", NULL},
						{"runtimeClassName", NULL},
						{"schedulerName", NULL},
						{"serviceAccountName", NULL},
						{"serviceAccount", NULL},
						{"securityContext", keep_pod_security},
						{"initContainers", keep_container},
						{"containers", keep_container},
						{"ephemeralContainers", keep_container},
						{"volumes", keep_volume},
						GQ_JSON_KEEP_END};
const struct gq_json_keep gq_posture_keep[] = {
    {"metadata", keep_metadata}, {"spec", keep_spec}, GQ_JSON_KEEP_END};

static const char *const lists[] = {
    [GQ_CONTAINER_INIT] = "initContainers",
    [GQ_CONTAINER_MAIN] = "containers",
    [GQ_CONTAINER_EPHEMERAL] = "ephemeralContainers",
};

static const char *const env_names[GQ_ENVS] = {
    [GQ_ENV_VISIBLE_DEVICES] = VISIBLE_DEVICES,
    [GQ_ENV_DRIVER_CAPABILITIES] = DRIVER_CAPABILITIES,
    [GQ_ENV_DISABLE_CONTROL] = DISABLE_CONTROL,
    [GQ_ENV_CORE_POLICY] = CORE_POLICY,
};

const char *gq_container_list(enum gq_container_kind kind)
{
	return lists[kind];
}

const char *gq_gpu_env_name(enum gq_gpu_env env)
{
	return env_names[env];
}

/* What building a posture reads and writes. */
struct build {
	struct json_object *root;
	struct gq_arena *arena;
	struct gq_posture *posture;
	bool host_process; /* of the pod */
	struct gq_err *err;
};

/* GQ_ENVS when it is none of them. */
static enum gq_gpu_env find_env(const char *name)
{
	size_t env = 0;

	while (env < GQ_ENVS && strcmp(name, env_names[env]) != 0)
		env++;
	return (enum gq_gpu_env)env;
}

bool gq_gpu_env_begins(enum gq_gpu_env env, const char *prefix)
{
	size_t len = strlen(prefix);

	return len && strncmp(prefix, env_names[env], len) == 0 && env_names[env][len];
}

static bool begins_env(const char *prefix)
{
	for (int env = 0; env < GQ_ENVS; env++)
		if (gq_gpu_env_begins((enum gq_gpu_env)env, prefix))
			return true;
	return false;
}

static int build_env(struct build *b, const struct gq_field *item, struct gq_env *env)
{
	struct gq_field from;
	int code = gq_field_text(item, "value", b->arena, &env->value, b->err);

	if (!code)
		code = gq_field_object(item, "valueFrom", &from, b->err);
	if (code)
		return code;
	env->from = "";
	if (!from.value)
		return 0;
	env->value = NULL;
	env->from = "valueFrom";
	for (const struct gq_json_keep *source = keep_env_source; source->key; source++)
		if (gq_field_has(&from, source->key))
			env->from = source->key;
	return 0;
}

static int build_envs(struct build *b, const struct gq_field *container,
		      struct gq_posture_container *c)
{
	struct gq_field list, item;
	struct gq_env *envs = NULL;
	const char *name;
	size_t n, kept = 0;
	int code = gq_field_list(container, "env", GQ_FIELD_ENV_MAX, &list, &n, b->err);

	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "name", &name, b->err);
		if (!code)
			kept += find_env(name) != GQ_ENVS;
	}
	if (!code)
		code = GQ_TAKE(b->err, envs, GQ_ARENA_ARRAY(b->arena, struct gq_env, kept));
	kept = 0;
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "name", &name, b->err);
		if (code || find_env(name) == GQ_ENVS)
			continue;
		envs[kept].env = find_env(name);
		code = build_env(b, &item, &envs[kept++]);
	}
	c->envs = envs;
	c->n_envs = kept;
	return code;
}

static int build_env_from(struct build *b, const struct gq_field *item, struct gq_env_from *from)
{
	struct gq_field map, secret;
	int code = gq_field_text(item, "prefix", b->arena, &from->prefix, b->err);

	if (!code)
		code = gq_field_object(item, "configMapRef", &map, b->err);
	if (!code)
		code = gq_field_object(item, "secretRef", &secret, b->err);
	from->secret = !map.value;
	if (!code)
		code = gq_field_text(map.value ? &map : &secret, "name", b->arena, &from->source,
				     b->err);
	return code;
}

/* What an envFrom without a prefix brings is only known to its ConfigMap. (Secrets are never read.)
 */
static int peek_env_map(struct build *b, const struct gq_field *item, const char **ret_name)
{
	struct gq_field map;
	const char *prefix;
	int code = gq_field_peek(item, "prefix", &prefix, b->err);

	*ret_name = "";
	if (!code)
		code = gq_field_object(item, "configMapRef", &map, b->err);
	return code || *prefix ? code : gq_field_peek(&map, "name", ret_name, b->err);
}

static int count_env_froms(struct build *b, const struct gq_field *list, size_t n,
			   size_t *ret_prefixed, size_t *ret_maps)
{
	struct gq_field item;
	const char *prefix, *map;
	int code = 0;

	*ret_prefixed = *ret_maps = 0;
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "prefix", &prefix, b->err);
		if (!code)
			code = peek_env_map(b, &item, &map);
		if (code)
			break;
		*ret_prefixed += begins_env(prefix);
		*ret_maps += *map != '\0';
	}
	return code;
}

static int build_env_froms(struct build *b, const struct gq_field *container,
			   struct gq_posture_container *c)
{
	struct gq_field list, item;
	struct gq_env_from *froms = NULL;
	const char **maps = NULL;
	const char *prefix, *map;
	size_t n, n_froms, n_maps;
	int code = gq_field_list(container, "envFrom", GQ_FIELD_ENV_MAX, &list, &n, b->err);

	if (!code)
		code = count_env_froms(b, &list, n, &n_froms, &n_maps);
	if (!code)
		code =
		    GQ_TAKE(b->err, froms, GQ_ARENA_ARRAY(b->arena, struct gq_env_from, n_froms));
	if (!code)
		code = GQ_TAKE(b->err, maps, GQ_ARENA_ARRAY(b->arena, const char *, n_maps));
	n_froms = n_maps = 0;
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = gq_field_peek(&item, "prefix", &prefix, b->err);
		if (!code)
			code = peek_env_map(b, &item, &map);
		if (!code && begins_env(prefix))
			code = build_env_from(b, &item, &froms[n_froms++]);
		else if (!code && *map)
			code = GQ_TAKE(b->err, maps[n_maps++],
				       gq_arena_text(b->arena, map, strlen(map)));
	}
	if (code)
		return code;
	c->env_froms = froms;
	c->n_env_froms = n_froms;
	c->env_maps = maps;
	c->n_env_maps = n_maps;
	return 0;
}

/* volumeDevices hand over a whole volume, to be written to as well. */
static int build_mounts(struct build *b, const struct gq_field *container,
			struct gq_posture_container *c)
{
	struct gq_field files, blocks, item;
	struct gq_mount *mounts = NULL;
	size_t n_files, n_blocks;
	int code =
	    gq_field_list(container, "volumeMounts", GQ_FIELD_ENV_MAX, &files, &n_files, b->err);

	if (!code)
		code = gq_field_list(container, "volumeDevices", GQ_FIELD_ENV_MAX, &blocks,
				     &n_blocks, b->err);
	if (!code)
		code = GQ_TAKE(b->err, mounts,
			       GQ_ARENA_ARRAY(b->arena, struct gq_mount, n_files + n_blocks));
	for (size_t i = 0; !code && i < n_files + n_blocks; i++) {
		bool block = i >= n_files;
		code =
		    gq_field_item(block ? &blocks : &files, block ? i - n_files : i, &item, b->err);
		if (!code)
			code = gq_field_text(&item, "name", b->arena, &mounts[i].volume, b->err);
		if (!code && !block)
			code = gq_field_bool(&item, "readOnly", &mounts[i].read_only, b->err);
	}
	if (code)
		return code;
	c->mounts = mounts;
	c->n_mounts = n_files + n_blocks;
	return 0;
}

/* Whether an entry of requests or limits asks for something: not 0, or nobody knows what. */
static int asks_for_some(struct build *b, const struct gq_field *map, const char *name,
			 bool *ret_some)
{
	struct json_object *value = NULL;
	const char *text;
	int64_t units = 0;

	*ret_some = false;
	if (!map->value || !json_object_object_get_ex(map->value, name, &value))
		return 0;
	int code = gq_field_quantity(map, name, value, &text, b->err);
	if (code)
		return code;
	*ret_some = gq_quantity_units(text, strlen(text), 1, &units, NULL, NULL) || units != 0;
	return 0;
}

/* Those of HAMi that say how much of a GPU are none, nor is what nobody offers: a kubelet passes
 * over a name that its node does not have, so that a pod which chooses its node can ask for one and
 * get no GPU by it. */
static bool is_of_plugin(const char *name)
{
	return strcmp(name, "nvidia.com/gpu") == 0 || strcmp(name, "nvidia.com/gpu.shared") == 0 ||
	       strncmp(name, "nvidia.com/mig-", 15) == 0;
}

/* Names with a '/' in map that ask for some of it, of those that are not in `seen` already; fills
 * names, or only counts when that is NULL. */
static int each_resource(struct build *b, const struct gq_field *map, const struct gq_field *seen,
			 struct gq_posture_container *c, const char **names)
{
	bool some = false, before = false;

	if (!map->value)
		return 0;
	json_object_object_foreach(map->value, name, ignored)
	{
		(void)ignored;
		if (!strchr(name, '/'))
			continue;
		int code = asks_for_some(b, map, name, &some);
		if (!code && seen)
			code = asks_for_some(b, seen, name, &before);
		if (code)
			return code;
		if (!some || before)
			continue;
		if (names) {
			code = GQ_TAKE(b->err, names[c->n_resources],
				       gq_arena_text(b->arena, name, strlen(name)));
			if (code)
				return code;
		}
		c->n_resources++;
		enum gq_gpu_meaning meaning = gq_gpu_resource_meaning(name, NULL);
		c->has_gpu |= meaning != GQ_GPU_NONE;
		c->has_plugin_gpu |= is_of_plugin(name);
	}
	return 0;
}

static int build_resources(struct build *b, const struct gq_field *container,
			   struct gq_posture_container *c)
{
	struct gq_field resources, requests, limits, claims;
	const char **names = NULL;
	size_t n, n_claims = 0;
	int code = gq_field_object(container, "resources", &resources, b->err);

	if (!code)
		code =
		    gq_field_map(&resources, "requests", GQ_FIELD_ITEMS_MAX, &requests, &n, b->err);
	if (!code)
		code = gq_field_map(&resources, "limits", GQ_FIELD_ITEMS_MAX, &limits, &n, b->err);
	if (!code)
		code = gq_field_list(&resources, "claims", GQ_FIELD_ITEMS_MAX, &claims, &n_claims,
				     b->err);
	c->has_gpu = n_claims > 0;
	if (!code)
		code = each_resource(b, &requests, NULL, c, NULL);
	if (!code)
		code = each_resource(b, &limits, &requests, c, NULL);
	if (!code)
		code =
		    GQ_TAKE(b->err, names, GQ_ARENA_ARRAY(b->arena, const char *, c->n_resources));
	c->resources = names;
	c->n_resources = 0;
	if (!code)
		code = each_resource(b, &requests, NULL, c, names);
	if (!code)
		code = each_resource(b, &limits, &requests, c, names);
	return code;
}

static bool is_capability(const char *text, const char *name)
{
	if (strncasecmp(text, "CAP_", 4) == 0)
		text += 4;
	return strcasecmp(text, name) == 0 || strcasecmp(text, "ALL") == 0;
}

static int read_capabilities(struct build *b, const struct gq_field *security,
			     struct gq_posture_container *c)
{
	struct gq_field capabilities, list;
	size_t n;
	int code = gq_field_object(security, "capabilities", &capabilities, b->err);

	if (!code)
		code = gq_field_list(&capabilities, "add", GQ_FIELD_ITEMS_MAX, &list, &n, b->err);
	for (size_t i = 0; !code && i < n; i++) {
		struct gq_field item = {.up = &list, .index = i};
		struct json_object *value = json_object_array_get_idx(list.value, i);
		if (!json_object_is_type(value, json_type_string))
			return gq_field_fail(&item, NULL, GQ_EINVALID, b->err, "must be a string");
		const char *name = json_object_get_string(value);
		c->all_powers |= is_capability(name, "ALL");
		c->sys_admin |= is_capability(name, "SYS_ADMIN");
		c->sys_ptrace |= is_capability(name, "SYS_PTRACE");
	}
	return code;
}

/* security: of a pod or a container. */
static int read_host_process(struct build *b, const struct gq_field *security,
			     bool *ret_host_process)
{
	struct gq_field windows;
	int code = gq_field_object(security, "windowsOptions", &windows, b->err);

	if (code || !gq_field_has(&windows, "hostProcess"))
		return code;
	return gq_field_bool(&windows, "hostProcess", ret_host_process, b->err);
}

/* Of what is looked at, only hostProcess can be said for the whole pod. */
static int read_security(struct build *b, const struct gq_field *container,
			 struct gq_posture_container *c)
{
	struct gq_field security;
	const char *proc_mount;
	int code = gq_field_object(container, "securityContext", &security, b->err);

	c->host_process = b->host_process;
	if (!code)
		code = gq_field_bool(&security, "privileged", &c->privileged, b->err);
	if (!code)
		code = gq_field_peek(&security, "procMount", &proc_mount, b->err);
	if (!code)
		code = read_host_process(b, &security, &c->host_process);
	if (!code)
		code = read_capabilities(b, &security, c);
	if (code)
		return code;
	c->unmasked_proc = strcmp(proc_mount, "Unmasked") == 0;
	return 0;
}

static int build_container(struct build *b, const struct gq_field *item,
			   enum gq_container_kind kind, struct gq_posture_container *c)
{
	struct gq_field ports, readiness, startup;
	const char *restart;
	size_t n_ports;
	int code = gq_field_text(item, "name", b->arena, &c->name, b->err);

	if (!code)
		code = gq_field_peek(item, "restartPolicy", &restart, b->err);
	if (!code)
		code = read_security(b, item, c);
	if (!code)
		code = build_envs(b, item, c);
	if (!code)
		code = build_env_froms(b, item, c);
	if (!code)
		code = build_mounts(b, item, c);
	if (!code)
		code = build_resources(b, item, c);
	if (!code)
		code = gq_field_list(item, "ports", GQ_FIELD_ITEMS_MAX, &ports, &n_ports, b->err);
	if (!code)
		code = gq_field_object(item, "readinessProbe", &readiness, b->err);
	if (!code)
		code = gq_field_object(item, "startupProbe", &startup, b->err);
	if (code)
		return code;
	c->kind = kind;
	c->sidecar = kind == GQ_CONTAINER_INIT && strcmp(restart, "Always") == 0;
	c->probed = readiness.value || startup.value;
	b->posture->has_ports |= n_ports > 0;
	return 0;
}

static int build_containers(struct build *b, const struct gq_field *spec)
{
	struct gq_field list[COUNT(lists)], item;
	size_t n[COUNT(lists)] = {0};
	size_t all = 0;
	struct gq_posture_container *containers = NULL, *at;
	int code = 0;

	for (size_t kind = 0; !code && kind < COUNT(lists); kind++) {
		code = gq_field_list(spec, lists[kind], GQ_FIELD_ITEMS_MAX, &list[kind], &n[kind],
				     b->err);
		all += n[kind];
	}
	if (!code)
		code = GQ_TAKE(b->err, containers,
			       GQ_ARENA_ARRAY(b->arena, struct gq_posture_container, all));
	at = containers;
	for (size_t kind = 0; !code && kind < COUNT(lists); kind++) {
		for (size_t i = 0; !code && i < n[kind]; i++) {
			code = gq_field_item(&list[kind], i, &item, b->err);
			if (!code)
				code =
				    build_container(b, &item, (enum gq_container_kind)kind, at++);
		}
	}
	b->posture->containers = containers;
	b->posture->n_containers = all;
	return code;
}

/* The claim of a generic ephemeral volume: POD-VOLUME. A name longer than any object's is none. */
static int name_claim(struct build *b, const char *pod, struct gq_posture_volume *volume)
{
	size_t pod_len = strlen(pod), volume_len = strlen(volume->name);
	char *claim;

	volume->claim = "";
	if (!pod_len || pod_len + 1 + volume_len > NAME_BYTES_MAX)
		return 0;
	int code = GQ_TAKE(b->err, claim, gq_arena_array(b->arena, pod_len + volume_len + 2, 1));
	if (code)
		return code;
	memcpy(claim, pod, pod_len + 1);
	claim[pod_len] = '-';
	memcpy(claim + pod_len + 1, volume->name, volume_len + 1);
	volume->claim = claim;
	return 0;
}

static int build_volume(struct build *b, const struct gq_field *item, const char *pod,
			struct gq_posture_volume *volume)
{
	struct gq_field host_path, claim, ephemeral, template, spec;
	int code = gq_field_text(item, "name", b->arena, &volume->name, b->err);

	if (!code)
		code = gq_field_object(item, "hostPath", &host_path, b->err);
	if (!code)
		code = gq_field_text(&host_path, "path", b->arena, &volume->host_path, b->err);
	if (!code)
		code = gq_field_object(item, "persistentVolumeClaim", &claim, b->err);
	if (!code)
		code = gq_field_text(&claim, "claimName", b->arena, &volume->claim, b->err);
	if (!code)
		code = gq_field_object(item, "ephemeral", &ephemeral, b->err);
	if (!code)
		code = gq_field_object(&ephemeral, "volumeClaimTemplate", &template, b->err);
	if (!code)
		code = gq_field_object(&template, "spec", &spec, b->err);
	if (!code)
		code = gq_field_text(&spec, "volumeName", b->arena, &volume->volume_name, b->err);
	if (code || !ephemeral.value)
		return code;
	volume->ephemeral = true;
	return name_claim(b, pod, volume);
}

static int by_volume_name(const void *a, const void *b)
{
	const struct gq_posture_volume *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int is_volume_name(const void *name, const void *volume)
{
	const struct gq_posture_volume *const *v = volume;

	return strcmp(name, (*v)->name);
}

/* Volumes that some container may write. Sorted first: a pod may have many of both. */
static int mark_written(struct build *b, struct gq_posture_volume *volumes, size_t n)
{
	const struct gq_posture *posture = b->posture;
	struct gq_posture_volume **sorted;
	int code = GQ_TAKE(b->err, sorted, GQ_ARENA_ARRAY(b->arena, struct gq_posture_volume *, n));

	if (code)
		return code;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &volumes[i];
	if (n)
		qsort(sorted, n, sizeof *sorted, by_volume_name);
	for (size_t c = 0; n && c < posture->n_containers; c++) {
		const struct gq_posture_container *container = &posture->containers[c];
		for (size_t m = 0; m < container->n_mounts; m++) {
			const struct gq_mount *mount = &container->mounts[m];
			struct gq_posture_volume **found =
			    mount->read_only
				? NULL
				: bsearch(mount->volume, sorted, n, sizeof *sorted, is_volume_name);
			if (found)
				(*found)->written = true;
		}
	}
	return 0;
}

static int build_volumes(struct build *b, const struct gq_field *meta, const struct gq_field *spec)
{
	struct gq_field list, item;
	struct gq_posture_volume *volumes = NULL;
	const char *pod;
	size_t n;
	int code = gq_field_peek(meta, "name", &pod, b->err);

	if (!code)
		code = gq_field_list(spec, "volumes", GQ_FIELD_ITEMS_MAX, &list, &n, b->err);
	if (!code)
		code =
		    GQ_TAKE(b->err, volumes, GQ_ARENA_ARRAY(b->arena, struct gq_posture_volume, n));
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, b->err);
		if (!code)
			code = build_volume(b, &item, pod, &volumes[i]);
	}
	if (code)
		return code;
	b->posture->volumes = volumes;
	b->posture->n_volumes = n;
	return mark_written(b, volumes, n);
}

/* Those of a map whose keys are in keys, in that order. Others may be there too: a review is pruned
 * for several decoders at once. */
static int build_labels(struct build *b, const struct gq_field *meta, const char *key,
			const struct gq_json_keep *keys, const struct gq_label **ret_labels,
			size_t *ret_n)
{
	struct gq_field map;
	struct gq_label *labels = NULL;
	size_t n = 0;
	int code = gq_field_object(meta, key, &map, b->err);

	for (const struct gq_json_keep *k = keys; !code && k->key; k++)
		n += gq_field_has(&map, k->key);
	if (!code)
		code = GQ_TAKE(b->err, labels, GQ_ARENA_ARRAY(b->arena, struct gq_label, n));
	n = 0;
	for (const struct gq_json_keep *k = keys; !code && k->key; k++) {
		if (!gq_field_has(&map, k->key))
			continue;
		labels[n].key = k->key;
		code = gq_field_text(&map, k->key, b->arena, &labels[n++].value, b->err);
	}
	*ret_labels = labels;
	*ret_n = n;
	return code;
}

static int build_account(struct build *b, const struct gq_field *spec)
{
	static const char *const keys[] = {"serviceAccountName", "serviceAccount"};
	int code = 0;

	b->posture->service_account = "";
	for (size_t i = 0; !code && i < COUNT(keys) && !*b->posture->service_account; i++)
		code = gq_field_text(spec, keys[i], b->arena, &b->posture->service_account, b->err);
	if (!code && !*b->posture->service_account)
		b->posture->service_account = "default";
	return code;
}

/* The API server writes the default one's name into pods and not into templates. */
static const char *keep_scheduler(struct gq_arena *arena, const char *name)
{
	size_t len = strcmp(name, "default-scheduler") == 0 ? 0 : strlen(name);

	return gq_arena_text(arena, name, len);
}

static int read_pod(struct build *b, const struct gq_field *spec)
{
	struct gq_posture *posture = b->posture;
	struct gq_field os, security;
	const char *os_name, *restart, *scheduler;
	int code = gq_field_bool(spec, "hostPID", &posture->host_pid, b->err);

	if (!code)
		code = gq_field_bool(spec, "hostIPC", &posture->host_ipc, b->err);
	if (!code)
		code = gq_field_bool(spec, "hostNetwork", &posture->host_network, b->err);
	posture->host_users = true;
	if (!code && gq_field_has(spec, "hostUsers"))
		code = gq_field_bool(spec, "hostUsers", &posture->host_users, b->err);
	if (!code)
		code = gq_field_object(spec, "os", &os, b->err);
	if (!code)
		code = gq_field_peek(&os, "name", &os_name, b->err);
	if (!code)
		code = gq_field_peek(spec, "restartPolicy", &restart, b->err);
	if (!code)
		code = gq_field_object(spec, "securityContext", &security, b->err);
	if (!code)
		code = read_host_process(b, &security, &b->host_process);
	if (!code)
		code = gq_field_text(spec, "runtimeClassName", b->arena, &posture->runtime_class,
				     b->err);
	if (!code)
		code = gq_field_peek(spec, "schedulerName", &scheduler, b->err);
	if (!code)
		code = GQ_TAKE(b->err, posture->scheduler, keep_scheduler(b->arena, scheduler));
	if (code)
		return code;
	posture->windows = strcmp(os_name, "windows") == 0;
	posture->restarts = !*restart || strcmp(restart, "Always") == 0;
	return build_account(b, spec);
}

static int build_posture(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct build again = {.root = arg, .arena = arena, .err = err}, *b = &again;
	struct gq_field root = {.value = b->root}, meta, spec;
	int code = GQ_TAKE(err, b->posture, GQ_ARENA_ARRAY(arena, struct gq_posture, 1));

	if (!code)
		code = gq_field_object(&root, "metadata", &meta, err);
	if (!code)
		code = gq_field_object(&root, "spec", &spec, err);
	if (!code)
		code = read_pod(b, &spec);
	if (!code)
		code = build_labels(b, &meta, "labels", keep_labels, &b->posture->labels,
				    &b->posture->n_labels);
	if (!code)
		code = build_labels(b, &meta, "annotations", keep_annotations,
				    &b->posture->annotations, &b->posture->n_annotations);
	if (!code)
		code = build_containers(b, &spec);
	if (!code)
		code = build_volumes(b, &meta, &spec);
	*ret_object = b->posture;
	return code;
}

int gq_posture_decode_tree(struct json_object *root, struct gq_posture **ret_posture,
			   struct gq_err *err)
{
	void *object;
	int code = gq_arena_build(build_posture, root, &object, err);

	if (code)
		return code;
	*ret_posture = object;
	return 0;
}

struct gq_posture *gq_posture_ref(const struct gq_posture *posture)
{
	gq_counted_ref(posture);
	return (struct gq_posture *)(uintptr_t)posture;
}

void gq_posture_unref(const struct gq_posture *posture)
{
	gq_counted_unref(posture);
}
