#include "quota/object.h"

#include <string.h>

#include "quota/field.h"

bool gq_object_name_ok(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= 253 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len && name[0] != '.';
}

const char *gq_label_get(const struct gq_label *labels, size_t n_labels, const char *key)
{
	size_t low = 0, high = n_labels;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(labels[middle].key, key);
		if (order == 0)
			return labels[middle].value;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool gq_taint_is_passing(const char *key)
{
	static const char prefix[] = "node.kubernetes.io/";

	return strncmp(key, prefix, sizeof prefix - 1) == 0;
}

static bool texts_equal(const char *const *a, const char *const *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

static bool requirements_equal(const struct gq_requirement *a, const struct gq_requirement *b,
			       size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].op != b[i].op || a[i].n_values != b[i].n_values ||
		    strcmp(a[i].key, b[i].key) != 0 ||
		    !texts_equal(a[i].values, b[i].values, a[i].n_values))
			return false;
	return true;
}

static bool terms_equal(const struct gq_node_term *a, const struct gq_node_term *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].n_expressions != b[i].n_expressions || a[i].n_fields != b[i].n_fields ||
		    !requirements_equal(a[i].expressions, b[i].expressions, a[i].n_expressions) ||
		    !requirements_equal(a[i].fields, b[i].fields, a[i].n_fields))
			return false;
	return true;
}

static bool tolerations_equal(const struct gq_toleration *a, const struct gq_toleration *b,
			      size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].exists != b[i].exists || strcmp(a[i].key, b[i].key) != 0 ||
		    strcmp(a[i].value, b[i].value) != 0 || strcmp(a[i].effect, b[i].effect) != 0)
			return false;
	return true;
}

static bool ask_equal(const struct gq_gpu_ask *a, const struct gq_gpu_ask *b)
{
	if (a->role != b->role || a->n_amounts != b->n_amounts)
		return false;
	for (size_t i = 0; i < a->n_amounts; i++)
		if (a->amounts[i].value != b->amounts[i].value ||
		    strcmp(a->amounts[i].resource, b->amounts[i].resource) != 0)
			return false;
	return true;
}

bool gq_pod_asks_alike(const struct gq_pod *a, const struct gq_pod *b)
{
	if (strcmp(a->node_name, b->node_name) != 0 || a->n_node_selector != b->n_node_selector ||
	    a->has_affinity != b->has_affinity || a->n_affinity != b->n_affinity ||
	    a->n_tolerations != b->n_tolerations || a->n_asks != b->n_asks ||
	    !terms_equal(a->affinity, b->affinity, a->n_affinity) ||
	    !tolerations_equal(a->tolerations, b->tolerations, a->n_tolerations))
		return false;
	for (size_t i = 0; i < a->n_node_selector; i++)
		if (strcmp(a->node_selector[i].key, b->node_selector[i].key) != 0 ||
		    strcmp(a->node_selector[i].value, b->node_selector[i].value) != 0)
			return false;
	for (size_t i = 0; i < a->n_asks; i++)
		if (!ask_equal(&a->asks[i], &b->asks[i]))
			return false;
	return true;
}
