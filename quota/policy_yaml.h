#ifndef GQ_QUOTA_POLICY_YAML_H
#define GQ_QUOTA_POLICY_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "quota/policy_report.h"
#include "quota/pool.h"

/* A policy's YAML as a plain tree with positions. Inside quota/policy*.c only. */

#define GQ_YAML_DEPTH_MAX 32
#define GQ_YAML_NODE_MAX 400000

enum gq_yaml_kind {
	GQ_YAML_SCALAR,
	GQ_YAML_LIST,
	GQ_YAML_MAP,
	GQ_YAML_BROKEN, /* already reported; whoever meets it says nothing more */
};

/* What a plain scalar means by the YAML 1.2 core schema; quoted scalars are text. */
enum gq_yaml_scalar { GQ_YAML_TEXT, GQ_YAML_NUMBER, GQ_YAML_BOOLEAN, GQ_YAML_NULL };

struct gq_yaml_node {
	enum gq_yaml_kind kind;
	enum gq_yaml_scalar scalar;
	unsigned line;    /* from 1 */
	unsigned column;  /* from 1, in characters */
	const char *text; /* SCALAR: valid UTF-8 without control characters, NUL-terminated */
	size_t len;
	const struct gq_yaml_node *key; /* of an entry of a MAP: its key, a SCALAR */
	struct gq_yaml_node *first;     /* of a LIST or MAP */
	struct gq_yaml_node *next;      /* in its LIST or MAP */
	size_t n;                       /* of a LIST or MAP */
};

/* Reads one document. Reported and left out of the tree: duplicate keys (the second), keys that are
 * no scalars. Reported and BROKEN: aliases, text with control characters. Anchors, tags and
 * directives are reported too.
 * *ret_root: in pool; NULL when reading could not go on, which has been reported.
 * Errors: GQ_ENOMEM. Writes to no stream. */
int gq_yaml_read(const char *bytes, size_t len, struct gq_pool *pool,
		 struct gq_policy_report *report, struct gq_yaml_node **ret_root,
		 struct gq_err *err);

#endif
