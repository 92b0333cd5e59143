#include "fail_alloc.h"

#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static long countdown = -1;
static bool failed, held;

void fail_alloc(long nth)
{
	countdown = nth;
	failed = false;
}

void fail_alloc_hold(bool hold)
{
	held = hold;
}

bool fail_alloc_done(void)
{
	bool was = failed;

	fail_alloc(-1);
	return was;
}

static bool now(void)
{
	if (held || countdown < 0 || countdown-- > 0)
		return false;
	return failed = true;
}

void *__wrap_malloc(size_t size)
{
	return now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return now() ? NULL : __real_realloc(p, size);
}
