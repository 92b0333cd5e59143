#include "informer/timers.h"

#include <stdlib.h>

#include "base/err.h"

void gq_timers_done(struct gq_timers *timers)
{
	free(timers->heap);
	*timers = (struct gq_timers){0};
}

static bool sooner(const struct gq_timer *a, const struct gq_timer *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->nth < b->nth;
}

static int make_room(struct gq_timers *timers)
{
	if (timers->len < timers->cap)
		return 0;
	if (timers->len >= GQ_TIMERS_MAX)
		return GQ_ETOOBIG;
	size_t cap = timers->cap ? timers->cap * 2 : 16;
	if (cap > GQ_TIMERS_MAX)
		cap = GQ_TIMERS_MAX;
	struct gq_timer *heap = realloc(timers->heap, cap * sizeof *heap);
	if (!heap)
		return GQ_ENOMEM;
	timers->heap = heap;
	timers->cap = cap;
	return 0;
}

int gq_timers_add(struct gq_timers *timers, int64_t due_ns, void (*on_due)(void *arg), void *arg)
{
	int code = make_room(timers);

	if (code)
		return code;
	const struct gq_timer timer = {
	    .due_ns = due_ns, .nth = timers->added++, .on_due = on_due, .arg = arg};
	size_t at = timers->len++;
	while (at && sooner(&timer, &timers->heap[(at - 1) / 2])) {
		timers->heap[at] = timers->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	timers->heap[at] = timer;
	return 0;
}

int64_t gq_timers_next_ns(const struct gq_timers *timers)
{
	return timers->len ? timers->heap[0].due_ns : INT64_MAX;
}

bool gq_timers_take(struct gq_timers *timers, int64_t now_ns, uint64_t before,
		    struct gq_timer *ret_timer)
{
	struct gq_timer *heap = timers->heap;

	if (!timers->len || heap[0].due_ns > now_ns || heap[0].nth >= before)
		return false;
	*ret_timer = heap[0];
	const struct gq_timer last = heap[--timers->len];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < timers->len; at = child) {
		if (child + 1 < timers->len && sooner(&heap[child + 1], &heap[child]))
			child++;
		if (!sooner(&heap[child], &last))
			break;
		heap[at] = heap[child];
	}
	heap[at] = last;
	return true;
}
