#ifndef GQ_CONTROLLER_USAGE_COMMAND_H
#define GQ_CONTROLLER_USAGE_COMMAND_H

#include "base/clock.h"

/* How `gpuquota usage` waits; tests have their own. */
struct gq_usage_time {
	const struct gq_clock *clock;
	void (*pause)(void *arg, int64_t ns);
	void *arg;
};

/* The body of gq_command_usage(). */
int gq_usage_command_run(int argc, char **argv, const struct gq_usage_time *time);

#endif
