#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t real_mono_ns(void *arg)
{
	struct timespec now;

	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * GQ_NS_PER_S + now.tv_nsec + 1;
}

static int64_t real_wall_s(void *arg)
{
	(void)arg;
	return (int64_t)time(NULL);
}

const struct gq_clock gq_clock_real = {.mono_ns = real_mono_ns, .wall_s = real_wall_s, .arg = NULL};
