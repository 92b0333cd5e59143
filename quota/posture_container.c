#include "quota/posture_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "quota/gpu_names.h"
#include "quota/quantity.h"

/* Keeps what is decoded below and no more; of some values only that they are there. */
static const struct gq_json_keep keep_presence[] = {GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_env_source[] = {
    {"configMapKeyRef", keep_presence}, {"secretKeyRef", keep_presence},
    {"fieldRef", keep_presence},        {"resourceFieldRef", keep_presence},
    {"fileKeyRef", keep_presence},      GQ_JSON_KEEP_END};
#define ONE_OF(id, name) name "\0"
/* A pod may have hundreds of others. */
static const struct gq_json_keep keep_env[] = {GQ_JSON_KEEP_ONLY("name", GQ_GPU_ENV_NAMES(ONE_OF)),
					       {"value", NULL},
					       {"valueFrom", keep_env_source},
					       GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_name[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_env_from[] = {
    {"prefix", NULL}, {"configMapRef", keep_name}, {"secretRef", keep_name}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_mount[] = {
    {"name", NULL}, {"readOnly", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_capabilities[] = {{"add", NULL}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_posture_keep_windows[] = {{"hostProcess", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_security[] = {{"privileged", NULL},
						    {"procMount", NULL},
						    {"capabilities", keep_capabilities},
						    {"windowsOptions", gq_posture_keep_windows},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_resources[] = {
    {"requests", NULL}, {"limits", NULL}, {"claims", keep_presence}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_posture_keep_container[] = {{"name", NULL},
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

#define NAMED(id, name) [id] = name,
static const char *const env_names[GQ_ENVS] = {GQ_GPU_ENV_NAMES(NAMED)};

const char *gq_gpu_env_name(enum gq_gpu_env env)
{
	return env_names[env];
}

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

static int build_env(struct gq_posture_build *b, const struct gq_field *item, struct gq_env *env)
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

static int build_envs(struct gq_posture_build *b, const struct gq_field *container,
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

static int build_env_from(struct gq_posture_build *b, const struct gq_field *item,
			  struct gq_env_from *from)
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
static int peek_env_map(struct gq_posture_build *b, const struct gq_field *item,
			const char **ret_name)
{
	struct gq_field map;
	const char *prefix;
	int code = gq_field_peek(item, "prefix", &prefix, b->err);

	*ret_name = "";
	if (!code)
		code = gq_field_object(item, "configMapRef", &map, b->err);
	return code || *prefix ? code : gq_field_peek(&map, "name", ret_name, b->err);
}

static int count_env_froms(struct gq_posture_build *b, const struct gq_field *list, size_t n,
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

static int build_env_froms(struct gq_posture_build *b, const struct gq_field *container,
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

static int is_volume_name(const void *name, const void *volume)
{
	const struct gq_posture_volume *const *v = volume;

	return strcmp(name, (*v)->name);
}

static void mount_volume(const struct gq_posture_build *b, struct gq_mount *mount)
{
	struct gq_posture_volume **found =
	    b->n_volumes ? bsearch(mount->volume, b->volumes, b->n_volumes,
				   sizeof(struct gq_posture_volume *), is_volume_name)
			 : NULL;

	if (!found)
		return;
	mount->of = *found;
	(*found)->written |= !mount->read_only;
}

/* volumeDevices hand over a whole volume, to be written to as well. */
static int build_mounts(struct gq_posture_build *b, const struct gq_field *container,
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
		if (!code)
			mount_volume(b, &mounts[i]);
	}
	if (code)
		return code;
	c->mounts = mounts;
	c->n_mounts = n_files + n_blocks;
	return 0;
}

/* Whether an entry of requests or limits asks for something: not 0, or nobody knows what. */
static int asks_for_some(struct gq_posture_build *b, const struct gq_field *map, const char *name,
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
static int each_resource(struct gq_posture_build *b, const struct gq_field *map,
			 const struct gq_field *seen, struct gq_posture_container *c,
			 const char **names)
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

static int build_resources(struct gq_posture_build *b, const struct gq_field *container,
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

static int read_capabilities(struct gq_posture_build *b, const struct gq_field *security,
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
int gq_posture_read_host_process(struct gq_posture_build *b, const struct gq_field *security,
				 bool *ret_host_process)
{
	struct gq_field windows;
	int code = gq_field_object(security, "windowsOptions", &windows, b->err);

	if (code || !gq_field_has(&windows, "hostProcess"))
		return code;
	return gq_field_bool(&windows, "hostProcess", ret_host_process, b->err);
}

/* Of what is looked at, only hostProcess can be said for the whole pod. */
static int read_security(struct gq_posture_build *b, const struct gq_field *container,
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
		code = gq_posture_read_host_process(b, &security, &c->host_process);
	if (!code)
		code = read_capabilities(b, &security, c);
	if (code)
		return code;
	c->unmasked_proc = strcmp(proc_mount, "Unmasked") == 0;
	return 0;
}

int gq_posture_build_container(struct gq_posture_build *b, const struct gq_field *item,
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
