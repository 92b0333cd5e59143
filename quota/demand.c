#include "quota/demand.h"

#include <stdbool.h>
#include <string.h>

#include "quota/gpu_names.h"

#define SHARES_PER_PERCENT (GQ_SHARES_PER_GPU / 100)

/* 128 bits, so that a product of two amounts is exact before it is divided. */
__extension__ typedef unsigned __int128 wide;

/* ceil(a * b / divisor), saturating; all >= 0, divisor > 0. */
static int64_t muldiv_up(int64_t a, int64_t b, int64_t divisor)
{
	wide quotient =
	    ((wide)(uint64_t)a * (uint64_t)b + (uint64_t)(divisor - 1)) / (uint64_t)divisor;

	return quotient < (uint64_t)GQ_UNLIMITED ? (int64_t)quotient : GQ_UNLIMITED;
}

static int64_t amount_of(const struct gq_gpu_ask *ask, const char *node_resource,
			 enum gq_gpu_meaning meaning)
{
	for (size_t i = 0; i < ask->n_amounts; i++)
		if (ask->amounts[i].meaning == meaning &&
		    gq_gpu_node_resource(ask->amounts[i].resource) == node_resource)
			return ask->amounts[i].value;
	return 0;
}

static struct gq_amount whole_device(int64_t device_mib)
{
	return (struct gq_amount){GQ_SHARES_PER_GPU, device_mib ? device_mib : GQ_UNLIMITED};
}

/* One device, or one vGPU, of a vendor in a container. Where a container gives its memory in MiB
 * and in percent, the larger counts. */
static struct gq_amount one_device(const struct gq_gpu_ask *ask, const char *node_resource,
				   int64_t device_mib)
{
	int64_t mib = amount_of(ask, node_resource, GQ_GPU_MEMORY_MIB);
	int64_t percent = amount_of(ask, node_resource, GQ_GPU_MEMORY_PERCENT);
	int64_t cores = amount_of(ask, node_resource, GQ_GPU_CORES_PERCENT);
	struct gq_amount one = {0, 0};

	if (!mib && !percent)
		return whole_device(device_mib);
	if (mib)
		one = (struct gq_amount){device_mib ? muldiv_up(mib, GQ_SHARES_PER_GPU, device_mib)
						    : GQ_SHARES_PER_GPU,
					 mib};
	if (percent)
		one = gq_amount_max(
		    one, (struct gq_amount){percent * SHARES_PER_PERCENT,
					    device_mib ? muldiv_up(device_mib, percent, 100)
						       : GQ_UNLIMITED});
	one.shares = gq_max64(one.shares, cores * SHARES_PER_PERCENT);
	return one;
}

/* Whether the vendor of amount i has an amount before it. */
static bool is_repeated(const struct gq_gpu_ask *ask, size_t i)
{
	const char *node_resource = gq_gpu_node_resource(ask->amounts[i].resource);

	for (size_t k = 0; k < i; k++)
		if (gq_gpu_node_resource(ask->amounts[k].resource) == node_resource)
			return true;
	return false;
}

static struct gq_amount demand_of(const struct gq_gpu_ask *ask, int64_t device_mib)
{
	struct gq_amount sum = {0, 0};

	for (size_t i = 0; i < ask->n_amounts; i++) {
		if (is_repeated(ask, i))
			continue;
		const char *node_resource = gq_gpu_node_resource(ask->amounts[i].resource);
		int64_t count = amount_of(ask, node_resource, GQ_GPU_COUNT);
		struct gq_amount one = one_device(ask, node_resource, device_mib);
		/* memory or cores without a number of devices: HAMi gives one. A number that was
		 * written as 0 is taken alike, so that a doubtful pod counts more rather than less.
		 */
		if (!count)
			count = 1;
		sum = gq_amount_add(sum, (struct gq_amount){gq_sat_mul(one.shares, count),
							    gq_sat_mul(one.memory_mib, count)});
	}
	return sum;
}

struct gq_amount gq_demand_on(const struct gq_pod *pod, int64_t device_mib)
{
	struct gq_amount running = {0, 0};  /* sidecars started so far */
	struct gq_amount starting = {0, 0}; /* the most that is held while init containers run */
	struct gq_amount main_sum = {0, 0};
	struct gq_amount overhead = {0, 0};

	for (size_t i = 0; i < pod->n_asks; i++) {
		struct gq_amount own = demand_of(&pod->asks[i], device_mib);
		switch (pod->asks[i].role) {
		case GQ_ROLE_SIDECAR:
			running = gq_amount_add(running, own);
			starting = gq_amount_max(starting, running);
			break;
		case GQ_ROLE_INIT:
			starting = gq_amount_max(starting, gq_amount_add(running, own));
			break;
		case GQ_ROLE_MAIN:
			main_sum = gq_amount_add(main_sum, own);
			break;
		case GQ_ROLE_OVERHEAD:
			overhead = gq_amount_add(overhead, own);
			break;
		}
	}
	struct gq_amount held = gq_amount_max(gq_amount_add(main_sum, running), starting);
	return gq_amount_add(held, overhead);
}

size_t gq_demand_node_resources(const struct gq_pod *pod, const char **names, size_t max)
{
	const char *seen[8]; /* more than there are vendors that are counted */
	size_t n = 0;

	for (size_t i = 0; i < pod->n_asks; i++) {
		for (size_t k = 0; k < pod->asks[i].n_amounts; k++) {
			const char *name = gq_gpu_node_resource(pod->asks[i].amounts[k].resource);
			size_t j = 0;
			while (j < n && seen[j] != name)
				j++;
			if (!name || j < n || n == sizeof seen / sizeof *seen)
				continue;
			if (n < max)
				names[n] = name;
			seen[n++] = name;
		}
	}
	return n;
}
