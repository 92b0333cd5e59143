#include "quota/policy_impl.h"

static bool read_class(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		       struct gq_class_shares *most)
{
	static const struct gq_policy_field fields[] = {
	    {"gpus", GQ_POLICY_SCALAR, true, "write {gpus: 4}"},
	};
	const struct gq_yaml_node *value[1];

	most->class_id = gq_policy_class(r, node->key);
	if (most->class_id == GQ_CLASS_ANY) {
		GQ_REPORT(r, node->key, "write gpus beside \"classes\"",
			  "podLimit: class \"*\" is every class");
		return false;
	}
	return gq_policy_expect_limit(r, node, "classes") &&
	       gq_policy_fields(r, node, "classes", fields, 1, value) &&
	       gq_policy_gpus(r, value[0], &most->shares) && most->class_id != GQ_CLASS_NONE;
}

static void read_classes(struct gq_policy_reader *r, const struct gq_yaml_node *map,
			 struct gq_pod_limit *limit)
{
	const struct gq_yaml_node *seen[GQ_CLASS_MAX] = {NULL};
	struct gq_class_shares *classes = gq_pool_alloc(r->pool, map->n, sizeof *classes);

	if (!classes)
		return;
	limit->classes = classes;
	for (const struct gq_yaml_node *item = map->first; item; item = item->next) {
		bool good = read_class(r, item, &classes[limit->n_classes]);
		int id = classes[limit->n_classes].class_id;
		if (id != GQ_CLASS_NONE && seen[id]) {
			GQ_REPORT(r, item->key, "remove one of the two",
				  "class %s has a podLimit in line %u already, as %s",
				  GQ_QUOTE(item->key), seen[id]->line, GQ_QUOTE(seen[id]));
			continue;
		}
		if (id != GQ_CLASS_NONE)
			seen[id] = item->key;
		if (good)
			limit->n_classes++;
	}
}

void gq_policy_read_pod_limit_keys(struct gq_policy_reader *r, const struct gq_yaml_node *gpus,
				   const struct gq_yaml_node *classes, struct gq_pod_limit *limit)
{
	if (gpus)
		gq_policy_gpus(r, gpus, &limit->shares);
	if (!classes)
		return;
	if (classes->n)
		read_classes(r, classes, limit);
	else
		GQ_REPORT(r, classes, "write {A100: {gpus: 4}}, or remove it",
			  "podLimit: classes names none");
}

void gq_policy_read_pod_limit(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			      struct gq_pod_limit *limit)
{
	static const struct gq_policy_field fields[] = {
	    {"gpus", GQ_POLICY_SCALAR, false, NULL},
	    {"classes", GQ_POLICY_MAP, false, NULL},
	};
	const struct gq_yaml_node *value[2];

	if (!gq_policy_expect_limit(r, node, "podLimit") ||
	    !gq_policy_fields(r, node, "podLimit", fields, 2, value))
		return;
	if (!node->n)
		GQ_REPORT(r, node, "write podLimit: {gpus: 4}", "podLimit names no gpus");
	gq_policy_read_pod_limit_keys(r, value[0], value[1], limit);
}
