#include "base/json_keep.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct gq_json_keep *find(const struct gq_json_keep *list, const char *key)
{
	for (; list->key; list++)
		if (strcmp(list->key, key) == 0)
			return list;
	return NULL;
}

/* Whether two nodes of one key need a list of their own. */
static bool both_choose(const struct gq_json_keep *a, const struct gq_json_keep *b)
{
	return b && a->children && b->children;
}

/* Nodes of the merged lists, their ends included. */
static size_t count(const struct gq_json_keep *a, const struct gq_json_keep *b)
{
	size_t n = 1;

	for (const struct gq_json_keep *at = a; at->key; at++) {
		const struct gq_json_keep *other = find(b, at->key);
		n += 1 + (both_choose(at, other) ? count(at->children, other->children) : 0);
	}
	for (; b->key; b++)
		n += !find(a, b->key);
	return n;
}

/* Takes nodes from *free_nodes, which are cleared. */
static const struct gq_json_keep *merge(const struct gq_json_keep *a, const struct gq_json_keep *b,
					struct gq_json_keep **free_nodes)
{
	struct gq_json_keep *list = *free_nodes;
	size_t n = 0;

	for (const struct gq_json_keep *at = a; at->key; at++)
		list[n++] = *at;
	for (const struct gq_json_keep *at = b; at->key; at++)
		if (!find(a, at->key))
			list[n++] = *at;
	*free_nodes = list + n + 1;
	for (size_t i = 0; a[i].key; i++) {
		const struct gq_json_keep *other = find(b, a[i].key);
		if (both_choose(&a[i], other))
			list[i].children = merge(a[i].children, other->children, free_nodes);
		else if (other)
			list[i].children = NULL;
	}
	return list;
}

int gq_json_keep_merge(const struct gq_json_keep *a, const struct gq_json_keep *b,
		       struct gq_json_keep **ret_merged)
{
	struct gq_json_keep *nodes = NULL;

	if (a && b) {
		struct gq_json_keep *free_nodes = nodes = calloc(count(a, b), sizeof *nodes);
		if (!nodes)
			return GQ_ENOMEM;
		(void)merge(a, b, &free_nodes);
	}
	*ret_merged = nodes;
	return 0;
}

int gq_json_keep_wrap(const char *const *path, size_t n, const struct gq_json_keep *tree,
		      struct gq_json_keep **ret_wrapped)
{
	static const struct gq_json_keep nothing[] = {GQ_JSON_KEEP_END};

	if (n == 0)
		return gq_json_keep_merge(tree, tree ? nothing : NULL, ret_wrapped);
	/* of each key one node and the end of its list */
	struct gq_json_keep(*lists)[2] = calloc(n, sizeof *lists);
	if (!lists)
		return GQ_ENOMEM;
	for (size_t i = 0; i < n; i++)
		lists[i][0] = (struct gq_json_keep){path[i], i + 1 < n ? lists[i + 1] : tree};
	*ret_wrapped = lists[0];
	return 0;
}

void gq_json_keep_free(struct gq_json_keep *keep)
{
	free(keep);
}
