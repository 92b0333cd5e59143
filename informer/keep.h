#ifndef GQ_INFORMER_KEEP_H
#define GQ_INFORMER_KEEP_H

#include "base/cleanup.h"
#include "base/json_filter.h"

/* A keep tree that keeps what a or b keeps. Keys are borrowed from both. NULL: out of memory. */
struct gq_json_keep *gq_keep_merge(const struct gq_json_keep *a, const struct gq_json_keep *b);
/* Takes NULL. */
void gq_keep_free(struct gq_json_keep *keep);
GQ_DEFINE_CLEANUP(gq_cleanup_keep, struct gq_json_keep, gq_keep_free);

#endif
