#ifndef GQ_BASE_CLOCK_H
#define GQ_BASE_CLOCK_H

#include <stdint.h>

#define GQ_NS_PER_S INT64_C(1000000000)
#define GQ_NS_PER_MS INT64_C(1000000)

/* The clock is injected wherever time matters, so that tests never sleep. The functions may be
 * called from any thread. */
struct gq_clock {
	int64_t (*mono_ns)(void *arg); /* CLOCK_MONOTONIC or a stand-in, nanoseconds, never 0 */
	int64_t (*wall_s)(void *arg);  /* Unix time, seconds */
	void *arg;
};

/* The machine's clock. */
extern const struct gq_clock gq_clock_real;

static inline int64_t gq_clock_mono_ns(const struct gq_clock *clock)
{
	return clock->mono_ns(clock->arg);
}

static inline int64_t gq_clock_wall_s(const struct gq_clock *clock)
{
	return clock->wall_s(clock->arg);
}

#endif
