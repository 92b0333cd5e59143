#ifndef GQ_BASE_JSON_KEEP_H
#define GQ_BASE_JSON_KEEP_H

#include <stddef.h>

#include "base/cleanup.h"
#include "base/json_filter.h"

/* Keep trees made of others: what several decoders read of one object, in one pass.
 *
 * A tree made here is one block, ended with gq_json_keep_free(). It borrows: the keys, and the
 * parts of its sources that it takes as they are, so its sources have to outlive it. A tree that is
 * NULL keeps everything, as in struct gq_json_stream_options. Any thread. */

/* What a or b keeps: a's keys in their order, then those that only b has. Of a key in both the
 * whole value is kept when one of them keeps the whole. *ret_merged is NULL when a or b is.
 * Errors: GQ_ENOMEM. */
int gq_json_keep_merge(const struct gq_json_keep *a, const struct gq_json_keep *b,
		       struct gq_json_keep **ret_merged);

/* tree, for an object that stands at path (n keys) in another: {"spec", "template"} keeps of a
 * workload what tree keeps of its pods. n == 0: a copy. Errors: GQ_ENOMEM. */
int gq_json_keep_wrap(const char *const *path, size_t n, const struct gq_json_keep *tree,
		      struct gq_json_keep **ret_wrapped);

void gq_json_keep_free(struct gq_json_keep *keep);
GQ_DEFINE_CLEANUP(gq_cleanup_json_keep, struct gq_json_keep, gq_json_keep_free);

#endif
