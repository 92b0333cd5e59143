#include "quota/pool.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)16 << 10)

struct gq_pool_block {
	struct gq_pool_block *next;
	size_t used;
	size_t cap;
	alignas(max_align_t) unsigned char bytes[];
};

void gq_pool_done(struct gq_pool *pool)
{
	struct gq_pool_block *next;

	for (struct gq_pool_block *b = pool->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	*pool = GQ_POOL_INIT(pool->max);
}

static struct gq_pool_block *add_block(struct gq_pool *pool, size_t bytes)
{
	size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;

	if (cap > pool->max || pool->taken > pool->max - cap)
		return NULL;
	struct gq_pool_block *block = malloc(sizeof *block + cap);
	if (!block)
		return NULL;
	block->used = 0;
	block->cap = cap;
	block->next = pool->blocks;
	pool->blocks = block;
	pool->taken += cap;
	return block;
}

void *gq_pool_alloc(struct gq_pool *pool, size_t count, size_t size)
{
	const size_t align = alignof(max_align_t);
	size_t bytes;

	if (pool->failed)
		return NULL;
	if (__builtin_mul_overflow(count, size, &bytes) || bytes > pool->max) {
		pool->failed = true;
		return NULL;
	}
	bytes = (bytes ? bytes + align - 1 : align) / align * align;
	struct gq_pool_block *block = pool->blocks;
	if (!block || block->cap - block->used < bytes)
		block = add_block(pool, bytes);
	if (!block) {
		pool->failed = true;
		return NULL;
	}
	void *p = block->bytes + block->used;
	block->used += bytes;
	return memset(p, 0, bytes);
}

char *gq_pool_copy(struct gq_pool *pool, const char *text, size_t len)
{
	char *copy = gq_pool_alloc(pool, len + 1, 1);

	if (copy && len)
		memcpy(copy, text, len);
	return copy;
}
