#ifndef GQ_INFORMER_BACKOFF_H
#define GQ_INFORMER_BACKOFF_H

#include <stdint.h>

/* Jittered exponential backoff. Time is a parameter. Source: client-go, wait.BackoffManager as
 * tools/cache/reflector.go uses it. */
struct gq_backoff {
	int64_t min_ns;
	int64_t max_ns;
	uint64_t random; /* seed; the state of the generator */
	unsigned steps;
	int64_t quiet_since_ns; /* when the last delay is over */
};

/* The next delay, from min_ns doubling to max_ns, each up to twice as long by chance but never
 * over max_ns. Starts anew after two minutes without a call. */
int64_t gq_backoff_next(struct gq_backoff *backoff, int64_t now_ns);

/* A number below bound (> 0). No secrets: for jitter only. Source: SplitMix64. */
uint64_t gq_backoff_random(uint64_t *state, uint64_t bound);

#endif
