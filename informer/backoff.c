#include "informer/backoff.h"

#include "base/clock.h"

#define RESET_NS (120 * GQ_NS_PER_S)

uint64_t gq_backoff_random(uint64_t *state, uint64_t bound)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % bound;
}

int64_t gq_backoff_next(struct gq_backoff *backoff, int64_t now_ns)
{
	if (backoff->steps && now_ns - backoff->quiet_since_ns > RESET_NS)
		backoff->steps = 0;
	int64_t delay = backoff->min_ns;
	for (unsigned i = 0; i < backoff->steps && delay < backoff->max_ns; i++)
		delay = delay > backoff->max_ns / 2 ? backoff->max_ns : delay * 2;
	if (delay < backoff->max_ns)
		backoff->steps++;
	delay += (int64_t)gq_backoff_random(&backoff->random, (uint64_t)delay + 1);
	/* at the ceiling the jitter goes downwards, so that clients do not come in step */
	if (delay > backoff->max_ns)
		delay = backoff->max_ns - (int64_t)gq_backoff_random(
					      &backoff->random, (uint64_t)backoff->max_ns / 4 + 1);
	backoff->quiet_since_ns = now_ns + delay;
	return delay;
}
