#ifndef GQ_QUOTA_NODES_INTERNAL_H
#define GQ_QUOTA_NODES_INTERNAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "quota/nodes.h"

/* Shared by nodes.c (building and reading a snapshot) and node_match.c (matching pods). */

#define GQ_NODE_NO_SHAPE UINT32_MAX
#define GQ_NODE_INDEX_END UINT32_MAX

/* What nodes have in common that selectors, tolerations and resources can tell. */
struct gq_node_shape {
	const struct gq_node *sample;
	struct gq_class_reading reading;
	int hint_class; /* what reading.label=value alone tells while nodes carry it; else NONE */
	uint32_t first; /* its nodes are members[first] … */
	uint32_t count;
};

struct gq_node_known {
	const struct gq_node *node;     /* NULL: gone */
	const struct gq_node *evidence; /* or NULL */
	uint32_t shape;                 /* GQ_NODE_NO_SHAPE: no candidate */
	struct gq_class_reading reading;
};

/* Finds nodes by name (key "") and by the labels that are left out of shapes. */
struct gq_node_index_entry {
	const char *key;
	const char *value;
	uint32_t known;
	uint32_t next;
};

struct gq_node_snapshot {
	atomic_uint refs;
	const struct gq_class_table *table;
	uint64_t fingerprint;
	struct gq_node_known *known;
	size_t n_known;
	struct gq_node_shape *shapes;
	size_t n_shapes;
	uint32_t *members; /* indexes into known, by shape */
	const char **left_out;
	size_t n_left_out;
	uint64_t seed;
	uint32_t *heads; /* heads_mask + 1 of them */
	size_t heads_mask;
	struct gq_node_index_entry *entries;
	size_t n_entries;
};

/* Walks the index: entries with this key and value, GQ_NODE_INDEX_END at the end. */
uint32_t gq_node_index_first(const struct gq_node_snapshot *snapshot, const char *key,
			     const char *value);
uint32_t gq_node_index_next(const struct gq_node_snapshot *snapshot, uint32_t at);

bool gq_node_left_out(const struct gq_node_snapshot *snapshot, const char *key);

#endif
