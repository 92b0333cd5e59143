#include <stdlib.h>
#include <string.h>

#include "quota/arena.h"
#include "quota/field.h"
#include "quota/object.h"
#include "quota/quantity.h"

static const struct gq_json_keep keep_metadata[] = {
    {"name", NULL}, {"uid", NULL}, {"labels", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_taint[] = {
    {"key", NULL}, {"value", NULL}, {"effect", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_spec[] = {{"taints", keep_taint}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_status[] = {{"allocatable", NULL}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_node_keep[] = {
    {"metadata", keep_metadata}, {"spec", keep_spec}, {"status", keep_status}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_namespace_keep[] = {{"metadata", keep_metadata}, GQ_JSON_KEEP_END};

/* What nodes and namespaces have in common. */
static int build_metadata(const struct gq_field *root, struct gq_arena *arena, const char **name,
			  const char **uid, const struct gq_label **labels, size_t *n_labels,
			  struct gq_err *err)
{
	struct gq_field meta;
	int code = gq_field_object(root, "metadata", &meta, err);

	if (!code)
		code = gq_field_text(&meta, "name", arena, name, err);
	if (!code && !**name)
		return gq_field_fail(&meta, "name", GQ_EINVALID, err, "must be given");
	if (!code)
		code = gq_field_text(&meta, "uid", arena, uid, err);
	return code ? code : gq_field_labels(&meta, "labels", arena, labels, n_labels, err);
}

static int read_taint(const struct gq_field *list, size_t i, struct gq_field *ret_item,
		      bool *ret_kept, struct gq_err *err)
{
	const char *key, *effect;
	int code = gq_field_item(list, i, ret_item, err);

	if (!code)
		code = gq_field_peek(ret_item, "key", &key, err);
	if (!code)
		code = gq_field_peek(ret_item, "effect", &effect, err);
	if (!code)
		*ret_kept = !gq_taint_is_passing(key) &&
			    (strcmp(effect, "NoSchedule") == 0 || strcmp(effect, "NoExecute") == 0);
	return code;
}

static int build_taints(const struct gq_field *root, struct gq_arena *arena, struct gq_node *node,
			struct gq_err *err)
{
	struct gq_field spec, list, item;
	struct gq_taint *taints;
	bool kept;
	size_t n;
	size_t n_kept = 0;
	int code = gq_field_object(root, "spec", &spec, err);

	if (!code)
		code = gq_field_list(&spec, "taints", GQ_FIELD_ITEMS_MAX, &list, &n, err);
	for (size_t i = 0; !code && i < n; i++) {
		code = read_taint(&list, i, &item, &kept, err);
		n_kept += !code && kept;
	}
	if (!code)
		code = GQ_TAKE(err, taints, GQ_ARENA_ARRAY(arena, struct gq_taint, n_kept));
	n_kept = 0;
	for (size_t i = 0; !code && i < n; i++) {
		code = read_taint(&list, i, &item, &kept, err);
		if (code || !kept)
			continue;
		struct gq_taint *taint = &taints[n_kept++];
		code = gq_field_text(&item, "key", arena, &taint->key, err);
		if (!code)
			code = gq_field_text(&item, "value", arena, &taint->value, err);
		if (!code)
			code = gq_field_text(&item, "effect", arena, &taint->effect, err);
	}
	if (code)
		return code;
	node->taints = taints;
	node->n_taints = n_kept;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct gq_node_resource *)a)->name,
		      ((const struct gq_node_resource *)b)->name);
}

static int build_resources(const struct gq_field *root, struct gq_arena *arena,
			   struct gq_node *node, struct gq_err *err)
{
	struct gq_field status, map;
	struct gq_node_resource *resources;
	const char *text;
	size_t n;
	size_t kept = 0;
	int code = gq_field_object(root, "status", &status, err);

	if (!code)
		code = gq_field_map(&status, "allocatable", GQ_FIELD_ITEMS_MAX, &map, &n, err);
	if (!code && map.value) {
		json_object_object_foreach(map.value, counted, ignored)
		{
			(void)ignored;
			kept += gq_gpu_resource_meaning(counted, NULL) != GQ_GPU_NONE;
		}
	}
	if (!code)
		code =
		    GQ_TAKE(err, resources, GQ_ARENA_ARRAY(arena, struct gq_node_resource, kept));
	if (code)
		return code;
	n = 0;
	if (map.value) {
		json_object_object_foreach(map.value, name, value)
		{
			if (gq_gpu_resource_meaning(name, NULL) == GQ_GPU_NONE)
				continue;
			struct gq_node_resource *resource = &resources[n++];
			code = gq_field_quantity(&map, name, value, &text, err);
			if (code)
				return code;
			if (gq_quantity_units(text, strlen(text), 1, &resource->count, NULL, NULL))
				resource->count = 0;
			resource->name = gq_gpu_static_name(name);
			if (!resource->name)
				code = GQ_TAKE(err, resource->name,
					       gq_arena_text(arena, name, strlen(name)));
			if (code)
				return code;
		}
		qsort(resources, n, sizeof *resources, by_name);
	}
	node->resources = resources;
	node->n_resources = n;
	return 0;
}

static int build_node(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct gq_field root = {.value = arg};
	struct gq_node *node;
	int code = GQ_TAKE(err, node, GQ_ARENA_ARRAY(arena, struct gq_node, 1));

	if (code)
		return code;
	*ret_object = node;
	code = build_metadata(&root, arena, &node->name, &node->uid, &node->labels, &node->n_labels,
			      err);
	if (!code)
		code = build_taints(&root, arena, node, err);
	return code ? code : build_resources(&root, arena, node, err);
}

int gq_node_decode(const char *json, size_t len, struct gq_node **ret_node, struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	void *object;
	int code = gq_field_parse(json, len, &root, err);

	if (!code)
		code = gq_arena_build(build_node, root, &object, err);
	if (code)
		return code;
	*ret_node = object;
	return 0;
}

struct gq_node *gq_node_ref(const struct gq_node *node)
{
	gq_counted_ref(node);
	return (struct gq_node *)(uintptr_t)node;
}

void gq_node_unref(const struct gq_node *node)
{
	gq_counted_unref(node);
}

bool gq_node_equal(const struct gq_node *a, const struct gq_node *b)
{
	if (strcmp(a->name, b->name) != 0 || strcmp(a->uid, b->uid) != 0 ||
	    a->n_labels != b->n_labels || a->n_taints != b->n_taints ||
	    a->n_resources != b->n_resources)
		return false;
	for (size_t i = 0; i < a->n_labels; i++)
		if (strcmp(a->labels[i].key, b->labels[i].key) != 0 ||
		    strcmp(a->labels[i].value, b->labels[i].value) != 0)
			return false;
	for (size_t i = 0; i < a->n_taints; i++)
		if (strcmp(a->taints[i].key, b->taints[i].key) != 0 ||
		    strcmp(a->taints[i].value, b->taints[i].value) != 0 ||
		    strcmp(a->taints[i].effect, b->taints[i].effect) != 0)
			return false;
	for (size_t i = 0; i < a->n_resources; i++)
		if (strcmp(a->resources[i].name, b->resources[i].name) != 0 ||
		    a->resources[i].count != b->resources[i].count)
			return false;
	return true;
}

static int build_namespace(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct gq_field root = {.value = arg};
	struct gq_namespace *ns;
	int code = GQ_TAKE(err, ns, GQ_ARENA_ARRAY(arena, struct gq_namespace, 1));

	if (code)
		return code;
	*ret_object = ns;
	return build_metadata(&root, arena, &ns->name, &ns->uid, &ns->labels, &ns->n_labels, err);
}

int gq_namespace_decode(const char *json, size_t len, struct gq_namespace **ret_namespace,
			struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	void *object;
	int code = gq_field_parse(json, len, &root, err);

	if (!code)
		code = gq_arena_build(build_namespace, root, &object, err);
	if (code)
		return code;
	*ret_namespace = object;
	return 0;
}

struct gq_namespace *gq_namespace_ref(const struct gq_namespace *ns)
{
	gq_counted_ref(ns);
	return (struct gq_namespace *)(uintptr_t)ns;
}

void gq_namespace_unref(const struct gq_namespace *ns)
{
	gq_counted_unref(ns);
}
