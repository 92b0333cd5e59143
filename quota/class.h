#ifndef GQ_QUOTA_CLASS_H
#define GQ_QUOTA_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "quota/object.h"

/* GPU models as quotas name them: a tree with "*" at the root, models below it (A100), variants
 * below those (A100-80GB). Built in for the models in the device plugins' and clouds' labels; a
 * policy adds and overrides. A table is immutable; ids are indexes into it and mean nothing in
 * another table. */

#define GQ_CLASS_MAX 256
#define GQ_CLASS_NAME_MAX 63 /* bytes, as of a label value */
#define GQ_CLASS_ANY 0       /* "*" */
#define GQ_CLASS_OTHER 1     /* "other": a model that the table does not know; a leaf */
#define GQ_CLASS_NONE (-1)

/* A set of leaf classes. */
struct gq_class_set {
	uint64_t bits[GQ_CLASS_MAX / 64];
};

static inline bool gq_class_set_has(const struct gq_class_set *set, int id)
{
	return set->bits[id / 64] >> (id % 64) & 1;
}

static inline void gq_class_set_add(struct gq_class_set *set, int id)
{
	set->bits[id / 64] |= UINT64_C(1) << (id % 64);
}

struct gq_class_match {
	const char *label;
	const char *const *values;
	size_t n_values;
};

/* What a policy says of a class. */
struct gq_class_def {
	const char *name;
	const char *parent; /* NULL: as built in, or directly below "*" */
	int64_t memory_mib; /* of one device; 0: as built in, or the parent's */
	const struct gq_class_match *matches;
	size_t n_matches;
};

struct gq_class_table;

/* The built-in table plus defs (copied; may be none). Errors: GQ_EINVALID (unknown parent, a cycle,
 * two classes matching the same label value, "*" or "other" redefined), GQ_ETOOBIG, GQ_ENOMEM. */
int gq_class_table_new(const struct gq_class_def *defs, size_t n_defs,
		       struct gq_class_table **ret_table, struct gq_err *err);
void gq_class_table_free(struct gq_class_table *table);
GQ_DEFINE_CLEANUP(gq_cleanup_class_table, struct gq_class_table, gq_class_table_free);

/* The id, or GQ_CLASS_NONE. Names match exactly but for case. */
int gq_class_find(const struct gq_class_table *table, const char *name);
const char *gq_class_name(const struct gq_class_table *table, int id);
size_t gq_class_count(const struct gq_class_table *table);
int gq_class_parent(const struct gq_class_table *table, int id); /* GQ_CLASS_NONE for "*" */
/* The leaf classes inside a class (itself when it is a leaf). */
const struct gq_class_set *gq_class_leaves(const struct gq_class_table *table, int id);
/* MiB of one device, 0 when not known. */
int64_t gq_class_memory_mib(const struct gq_class_table *table, int id);
/* The known name closest to a misspelt one, or NULL when none is close. */
const char *gq_class_suggest(const struct gq_class_table *table, const char *name);

/* How labels tell the model. */
struct gq_class_reading {
	int class_id;       /* GQ_CLASS_NONE: the labels do not tell */
	int64_t memory_mib; /* of one device: from the labels, else the table's; 0 not known */
	const char *label;  /* the label that told, e.g. "nvidia.com/gpu.product"; or NULL */
	const char *value;  /* its value; points into labels */
};

/* Reads node labels (or the labels that a selector demands): the policy's own matches first, then
 * GFD's nvidia.com/gpu.product (its -MIG-… and -SHARED endings ignored) and AMD's product name,
 * then the clouds' labels. Values match by tokens, never by substring: H20 is not H200, A10 not
 * A100. A product that the table does not know is GQ_CLASS_OTHER. A model whose variants differ in
 * memory becomes the variant when product or memory label tell; else the model itself. labels:
 * sorted by key. Source: gpu-feature-discovery, GKE, Karpenter, AKS, CoreWeave, Alibaba and AMD
 * label docs. */
struct gq_class_reading gq_class_read_labels(const struct gq_class_table *table,
					     const struct gq_label *labels, size_t n_labels);

/* Whether a label key could tell the model at all (in the policy's matches or built in). */
bool gq_class_label_tells(const struct gq_class_table *table, const char *label_key);

#endif
