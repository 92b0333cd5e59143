#include "informer/keep.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t count(const struct gq_json_keep *keep)
{
	size_t n = 0;

	while (keep && keep[n].key)
		n++;
	return n;
}

static struct gq_json_keep *find(struct gq_json_keep *keep, const char *key)
{
	for (; keep->key; keep++)
		if (strcmp(keep->key, key) == 0)
			return keep;
	return keep;
}

/* Children are ours and not const in truth. */
static struct gq_json_keep *children(const struct gq_json_keep *keep)
{
	return (struct gq_json_keep *)(uintptr_t)keep->children;
}

/* Adds all of `from` to `to`, which has room for it. */
static int add_all(struct gq_json_keep *to, const struct gq_json_keep *from)
{
	static const struct gq_json_keep nothing[1];

	for (; from && from->key; from++) {
		struct gq_json_keep *slot = find(to, from->key);
		struct gq_json_keep *merged = NULL;
		bool known = slot->key;
		if (known && !slot->children)
			continue; /* kept whole already */
		if (from->children) {
			merged = gq_keep_merge(known ? slot->children : nothing, from->children);
			if (!merged)
				return GQ_ENOMEM;
		}
		gq_keep_free(children(slot));
		slot->key = from->key;
		slot->children = merged;
	}
	return 0;
}

struct gq_json_keep *gq_keep_merge(const struct gq_json_keep *a, const struct gq_json_keep *b)
{
	GQ_CLEANUP(gq_cleanup_keep)
	struct gq_json_keep *merged = calloc(count(a) + count(b) + 1, sizeof *merged);

	if (!merged || add_all(merged, a) || add_all(merged, b))
		return NULL;
	return GQ_STEAL(merged);
}

void gq_keep_free(struct gq_json_keep *keep)
{
	if (!keep)
		return;
	for (const struct gq_json_keep *at = keep; at->key; at++)
		gq_keep_free(children(at));
	free(keep);
}
