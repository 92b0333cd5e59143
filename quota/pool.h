#ifndef GQ_QUOTA_POOL_H
#define GQ_QUOTA_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* A pool of memory that is given back all at once. Like gq_buf it fails softly: the first failure
 * is kept in `failed`, later calls return NULL, and the owner checks once at the end. Not
 * thread-safe. */

struct gq_pool_block;

struct gq_pool {
	struct gq_pool_block *blocks;
	size_t taken; /* bytes, of all blocks */
	size_t max;   /* bytes */
	bool failed;
};

#define GQ_POOL_INIT(max_bytes) ((struct gq_pool){.max = (max_bytes)})

/* Frees everything and leaves an empty pool with the same cap. */
void gq_pool_done(struct gq_pool *pool);
#define GQ_POOL_CLEANUP GQ_CLEANUP(gq_pool_done)

/* count * size bytes, zeroed, aligned for any object; not NULL for 0 bytes. */
void *gq_pool_alloc(struct gq_pool *pool, size_t count, size_t size);

/* A NUL-terminated copy. */
char *gq_pool_copy(struct gq_pool *pool, const char *text, size_t len);

#endif
