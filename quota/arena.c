#include "quota/arena.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN sizeof(void *)
#define CHUNK_BYTES 4096

/* In front of every counted object. Its size is a multiple of ALIGN. */
struct head {
	size_t size;
	atomic_size_t refs;
};

struct chunk {
	struct chunk *next;
	char bytes[];
};

/* len > 0 bytes; a multiple of ALIGN when the memory is for objects. */
static void *take_scratch(struct gq_arena *arena, size_t len)
{
	if (len > arena->chunk_left) {
		size_t room = len > CHUNK_BYTES ? len : CHUNK_BYTES;
		if (room > SIZE_MAX - sizeof(struct chunk))
			return NULL;
		struct chunk *chunk = malloc(sizeof *chunk + room);
		if (!chunk)
			return NULL;
		chunk->next = arena->scratch;
		arena->scratch = chunk;
		arena->chunk = chunk->bytes;
		arena->chunk_left = room;
	}
	void *at = arena->chunk;
	arena->chunk += len;
	arena->chunk_left -= len;
	return at;
}

/* Padding goes in front of what needs it, in scratch memory as in the block, so that strings pack.
 */
static void *take(struct gq_arena *arena, size_t len, size_t align)
{
	size_t pad = (align - arena->used % align) % align;

	if (len > SIZE_MAX / 2 - pad || arena->used > SIZE_MAX / 2)
		return NULL;
	if (arena->block) {
		if (arena->size - arena->used < pad || arena->size - arena->used - pad < len)
			return NULL;
		arena->used += pad + len;
		return arena->block + arena->used - len;
	}
	size_t skip = (align - (uintptr_t)arena->chunk % align) % align;
	char *at = take_scratch(arena, skip + len);
	if (!at)
		return NULL;
	arena->used += pad + len;
	/* a new chunk may be aligned differently, but never needs more than skip to be aligned */
	return at + (align - (uintptr_t)at % align) % align;
}

void *gq_arena_array(struct gq_arena *arena, size_t n, size_t size)
{
	static void *const nothing[1];
	size_t len;

	if (n == 0)
		return (void *)(uintptr_t)nothing;
	if (__builtin_mul_overflow(n, size, &len))
		return NULL;
	void *at = take(arena, len, ALIGN);
	if (at)
		memset(at, 0, len);
	return at;
}

const char *gq_arena_text(struct gq_arena *arena, const char *text, size_t len)
{
	if (len == 0)
		return "";
	if (len == SIZE_MAX)
		return NULL;
	char *at = take(arena, len + 1, 1);
	if (!at)
		return NULL;
	memcpy(at, text, len);
	at[len] = '\0';
	return at;
}

static void free_scratch(struct gq_arena *arena)
{
	for (struct chunk *chunk = arena->scratch; chunk;) {
		struct chunk *next = chunk->next;
		free(chunk);
		chunk = next;
	}
	arena->scratch = NULL;
}

int gq_arena_build(int (*build)(void *arg, struct gq_arena *arena, void **ret_object,
				struct gq_err *err),
		   void *arg, void **ret_object, struct gq_err *err)
{
	struct gq_arena measure = {.used = sizeof(struct head)};
	void *object;

	_Static_assert(sizeof(struct head) % ALIGN == 0, "the object behind the head is aligned");
	int code = build(arg, &measure, &object, err);
	free_scratch(&measure);
	if (code)
		return code;
	struct head *head = malloc(measure.used);
	if (!head)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	struct gq_arena arena = {.block = (char *)head, .size = measure.used, .used = sizeof *head};
	code = build(arg, &arena, &object, err);
	if (code) {
		free(head);
		return code;
	}
	head->size = measure.used;
	atomic_init(&head->refs, 1);
	*ret_object = object;
	return 0;
}

static struct head *head_of(const void *object)
{
	return (struct head *)(uintptr_t)object - 1;
}

void gq_counted_ref(const void *object)
{
	if (object)
		atomic_fetch_add_explicit(&head_of(object)->refs, 1, memory_order_relaxed);
}

void gq_counted_unref(const void *object)
{
	if (!object)
		return;
	struct head *head = head_of(object);
	if (atomic_fetch_sub_explicit(&head->refs, 1, memory_order_acq_rel) == 1)
		free(head);
}

size_t gq_counted_size(const void *object)
{
	return object ? head_of(object)->size : 0;
}
