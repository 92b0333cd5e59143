#ifndef GQ_QUOTA_ARENA_H
#define GQ_QUOTA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Builds an object in one block of memory of exactly its size. The function that builds runs twice:
 * against scratch memory, which tells the size, then into the block. It must do the same both
 * times. */
struct gq_arena {
	char *block; /* NULL while measuring */
	size_t size; /* of the block */
	size_t used;
	void *scratch; /* list of scratch chunks */
	char *chunk;   /* free bytes of the newest */
	size_t chunk_left;
};

/* Zeroed memory, aligned for any type that we keep; NULL when out of memory (n * size overflowing
 * counts). For n == 0 a pointer that must not be followed. */
void *gq_arena_array(struct gq_arena *arena, size_t n, size_t size);
#define GQ_ARENA_ARRAY(arena, type, n) ((type *)gq_arena_array(arena, n, sizeof(type)))

/* A copy with a NUL behind it; static storage for len == 0. */
const char *gq_arena_text(struct gq_arena *arena, const char *text, size_t len);

/* build: 0 or a negative code, err filled; *ret_object is the first thing that it took from the
 * arena. A head in front of the object holds its count (1 at first) and its size; it ends with the
 * last gq_counted_unref(). */
int gq_arena_build(int (*build)(void *arg, struct gq_arena *arena, void **ret_object,
				struct gq_err *err),
		   void *arg, void **ret_object, struct gq_err *err);

/* object: built as above, or NULL. Any thread. */
void gq_counted_ref(const void *object);
void gq_counted_unref(const void *object);
/* Bytes of the block; 0 for NULL. */
size_t gq_counted_size(const void *object);

#endif
