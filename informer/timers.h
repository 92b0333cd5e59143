#ifndef GQ_INFORMER_TIMERS_H
#define GQ_INFORMER_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One-shot timers, soonest first: a binary heap. No clock and no lock of its own. */

/* More than that at once is somebody's fault. */
#define GQ_TIMERS_MAX 10000

struct gq_timer {
	int64_t due_ns;
	uint64_t nth; /* of those that are due together, the one that was added first goes first */
	void (*on_due)(void *arg);
	void *arg;
};

/* Zeroed: none. */
struct gq_timers {
	struct gq_timer *heap;
	size_t len;
	size_t cap;
	uint64_t added;
};

/* Forgets them all. */
void gq_timers_done(struct gq_timers *timers);

/* GQ_ENOMEM; GQ_ETOOBIG with GQ_TIMERS_MAX of them. */
int gq_timers_add(struct gq_timers *timers, int64_t due_ns, void (*on_due)(void *arg), void *arg);

/* When the first is due; INT64_MAX without any. */
int64_t gq_timers_next_ns(const struct gq_timers *timers);

/* Takes out the first if it is due and was added before `before` of them all were (`added` at some
 * time, so that one that adds itself anew does not go round for ever). */
bool gq_timers_take(struct gq_timers *timers, int64_t now_ns, uint64_t before,
		    struct gq_timer *ret_timer);

#endif
