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
