#include "quota/object.h"

#include <string.h>

#include "quota/field.h"

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
