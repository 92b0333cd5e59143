#ifndef GQ_QUOTA_CLASS_INTERNAL_H
#define GQ_QUOTA_CLASS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quota/class.h"

/* Shared by class.c (the tree), class_read.c (labels) and class_table.c (data). */

/* A model that every table holds, or a variant of one that differs in memory. A model stands before
 * its variants.
 * patterns: alternatives separated by '|', each up to GQ_CLASS_PATTERN_TOKENS words in lower case
 * that a product's name must all contain. A variant is also told by its model together with a word
 * like "80gb", so it needs patterns only where names leave the size out. */
struct gq_class_builtin {
	const char *name;
	const char *model;    /* of a variant; NULL for a model */
	unsigned gb;          /* nominal size in names; variants only */
	int64_t memory_mib;   /* as the driver reports it; 0: differs or not known */
	const char *patterns; /* NULL: none */
};
extern const struct gq_class_builtin gq_class_builtins[];
extern const size_t gq_class_builtin_count;

/* Values of cloud labels that say less than they mean. */
struct gq_class_alias {
	const char *label;
	const char *value;
	const char *class_name;
};
extern const struct gq_class_alias gq_class_aliases[];
extern const size_t gq_class_alias_count;

/* Labels that name the product, in the order of trust, and labels of a device's MiB. */
extern const char *const gq_class_product_labels[];
extern const size_t gq_class_product_label_count;
extern const char *const gq_class_memory_labels[];
extern const size_t gq_class_memory_label_count;

#define GQ_CLASS_PATTERN_TOKENS 3
#define GQ_CLASS_PATTERN_MAX 256

struct gq_class_word {
	const char *text;
	size_t len;
};

struct gq_class_pattern {
	struct gq_class_word words[GQ_CLASS_PATTERN_TOKENS];
	size_t n;
	int id;
};

struct gq_class_entry {
	const char *name;
	int parent;
	int model;   /* a built-in variant: its model, wherever a policy hangs either; else NONE */
	unsigned gb; /* of a built-in variant */
	int64_t memory_mib;
	struct gq_class_set leaves;
};

/* One label value that a policy gives to a class. */
struct gq_class_told {
	const char *label;
	const char *value;
	int id;
	size_t order; /* in the policy: the first that fits wins */
};

struct gq_class_table {
	size_t n;
	struct gq_class_entry classes[GQ_CLASS_MAX];
	int by_name[GQ_CLASS_MAX]; /* ids, sorted by name without case */
	struct gq_class_pattern patterns[GQ_CLASS_PATTERN_MAX]; /* sorted by first word */
	size_t n_patterns;
	struct gq_class_told *told; /* sorted by label and value */
	size_t n_told;
	char *strings;
};

/* What the name of a product says. */
struct gq_class_product {
	int class_id; /* NONE: nothing, or two models at once; OTHER: no model of the table */
	bool sized;   /* it names a size: no need of the memory label to choose a variant */
	bool sliced;  /* devices are MIG slices: the memory label is of a slice */
};
struct gq_class_product gq_class_read_product(const struct gq_class_table *table,
					      const char *product);

/* Splits "a|b c" into patterns of a class. False when they do not fit: a bug in the data. */
bool gq_class_patterns_add(struct gq_class_table *table, const char *patterns, int id);
void gq_class_patterns_sort(struct gq_class_table *table);

/* Whether a label carries a device's memory. */
bool gq_class_label_is_memory(const char *label_key);

/* Whether id is ancestor or below it. */
bool gq_class_inside(const struct gq_class_table *table, int id, int ancestor);

#endif
