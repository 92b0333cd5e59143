#ifndef GQ_QUOTA_FIELD_H
#define GQ_QUOTA_FIELD_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_object.h"
#include "quota/arena.h"
#include "quota/object.h"

/* Typed access to the fields of a small JSON object, for the decoders of Kubernetes objects. A
 * failure names the field by its path: spec.containers[0].name. */

/* Caps on what one object may have of each; a list or map with more is GQ_ETOOBIG. Kubernetes'
 * own limits are lower where it has any. */
#define GQ_FIELD_ITEMS_MAX 1000  /* any list, and maps of resources */
#define GQ_FIELD_ENV_MAX 20000   /* variables and mounts of one container */
#define GQ_FIELD_TERMS_MAX 100   /* nodeSelectorTerms */
#define GQ_FIELD_LABELS_MAX 4000 /* node feature discovery writes hundreds */
#define GQ_FIELD_TREE_BYTES_MAX (8u << 20)

/* A value and how one gets there. value is NULL for a field that is absent or null. Borrows its
 * parent: keep that in place. */
struct gq_field {
	const struct gq_field *up; /* NULL: the object itself */
	const char *key;           /* NULL: element of a list */
	size_t index;
	struct json_object *value;
};

/* Parses an object. *ret_root: json_object_put(). */
int gq_field_parse(const char *json, size_t len, struct json_object **ret_root, struct gq_err *err);

/* Fails with "PATH: message". key, when not NULL, is a member of field. */
int gq_field_fail(const struct gq_field *field, const char *key, int code, struct gq_err *err,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* A member that must be an object, a list of at most max items, a map of at most max entries.
 * up->value may be NULL, then the member is absent. */
int gq_field_object(const struct gq_field *up, const char *key, struct gq_field *ret_field,
		    struct gq_err *err);
int gq_field_list(const struct gq_field *up, const char *key, size_t max,
		  struct gq_field *ret_field, size_t *ret_n, struct gq_err *err);
int gq_field_map(const struct gq_field *up, const char *key, size_t max, struct gq_field *ret_field,
		 size_t *ret_n, struct gq_err *err);

/* The i-th element of a list, which must be an object. */
int gq_field_item(const struct gq_field *list, size_t i, struct gq_field *ret_field,
		  struct gq_err *err);

/* A string without NUL in it; absent is "". peek: lives as long as the JSON. */
int gq_field_peek(const struct gq_field *up, const char *key, const char **ret_text,
		  struct gq_err *err);
int gq_field_text(const struct gq_field *up, const char *key, struct gq_arena *arena,
		  const char **ret_text, struct gq_err *err);
/* A list of strings. */
int gq_field_texts(const struct gq_field *up, const char *key, struct gq_arena *arena,
		   const char *const **ret_texts, size_t *ret_n, struct gq_err *err);
/* A map of strings, sorted by key. */
int gq_field_labels(const struct gq_field *up, const char *key, struct gq_arena *arena,
		    const struct gq_label **ret_labels, size_t *ret_n, struct gq_err *err);
/* A quantity as it was written: a string or a number; null is "null". Lives as long as the JSON. */
int gq_field_quantity(const struct gq_field *map, const char *key, struct json_object *value,
		      const char **ret_text, struct gq_err *err);

/* true or false; absent is false. */
int gq_field_bool(const struct gq_field *up, const char *key, bool *ret_value, struct gq_err *err);

/* A whole number of 0 … GQ_FIELD_COUNT_MAX, as the API server's int32 counts are. */
#define GQ_FIELD_COUNT_MAX INT32_MAX
int gq_field_count(const struct gq_field *up, const char *key, int64_t absent, int64_t *ret_count,
		   struct gq_err *err);

/* Whether a member is there and not null. */
bool gq_field_has(const struct gq_field *up, const char *key);

/* Whether a taint comes and goes with the node's health (node.kubernetes.io/…) and is not looked
 * at, nor are tolerations of it. */
bool gq_taint_is_passing(const char *key);

/* An arena allocation as an error code. */
#define GQ_TAKE(err, pointer, allocation)                                                          \
	(((pointer) = (allocation)) ? 0 : gq_fail(err, GQ_ENOMEM, "out of memory"))

#endif
