#include <stdio.h>
#include <string.h>

#include "quota/decision_internal.h"
#include "quota/field.h"
#include "quota/rules_internal.h"

/* Variables that a container takes from a ConfigMap as a whole. Of a ConfigMap only those are kept
 * that decide about GPUs. */

#define KEEP(id, name) {name, NULL},
static const struct gq_json_keep keep_data[] = {GQ_GPU_ENV_NAMES(KEEP) GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_map[] = {{"data", keep_data}, GQ_JSON_KEEP_END};

enum gq_rules_answer gq_env_map_read(const struct gq_ruled *ruled, const char *name,
				     struct gq_env_map *ret_map)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_field top = {0}, data;
	char path[640];

	*ret_map = (struct gq_env_map){.name = name};
	if (!ruled->reads || !gq_object_name_ok(name) || !gq_object_name_ok(ruled->pod->namespace_))
		return GQ_RULES_PASSED;
	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/configmaps/%s",
		       ruled->pod->namespace_, name);
	enum gq_rules_answer answer =
	    gq_rules_read(ruled->reads, GQ_READ_CONFIG_MAP, path, keep_map, &root);
	top.value = root;
	if (!root || gq_field_object(&top, "data", &data, NULL))
		return answer;
	for (int env = 0; env < GQ_ENVS; env++) {
		const char *key = gq_gpu_env_name((enum gq_gpu_env)env);
		const char *value;
		if (!gq_field_has(&data, key) || gq_field_peek(&data, key, &value, NULL))
			continue;
		ret_map->set[env] = true;
		(void)snprintf(ret_map->values[env], sizeof ret_map->values[env], "%s", value);
	}
	return answer;
}
