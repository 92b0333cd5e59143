#ifndef GQ_QUOTA_AMOUNT_H
#define GQ_QUOTA_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

/* The two currencies. Everything that is counted is counted in these, exactly and saturating:
 * nothing overflows, and GQ_UNLIMITED stays unlimited whatever is added to or taken from it. */

#define GQ_SHARES_PER_GPU INT64_C(5040000)
#define GQ_UNLIMITED INT64_MAX

struct gq_amount {
	int64_t shares;     /* 1/5,040,000 GPU; >= 0 */
	int64_t memory_mib; /* MiB of device memory; >= 0 */
};

static inline int64_t gq_sat_add(int64_t a, int64_t b)
{
	int64_t sum;

	if (a == GQ_UNLIMITED || b == GQ_UNLIMITED)
		return GQ_UNLIMITED;
	return __builtin_add_overflow(a, b, &sum) ? GQ_UNLIMITED : sum;
}

/* a - b, at least 0; unlimited less anything is unlimited. */
static inline int64_t gq_sat_sub(int64_t a, int64_t b)
{
	if (a == GQ_UNLIMITED)
		return GQ_UNLIMITED;
	return a > b ? a - b : 0;
}

/* Both >= 0. */
static inline int64_t gq_sat_mul(int64_t a, int64_t b)
{
	int64_t product;

	if (a == 0 || b == 0)
		return 0;
	if (a == GQ_UNLIMITED || b == GQ_UNLIMITED)
		return GQ_UNLIMITED;
	return __builtin_mul_overflow(a, b, &product) ? GQ_UNLIMITED : product;
}

static inline int64_t gq_min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t gq_max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline struct gq_amount gq_amount_add(struct gq_amount a, struct gq_amount b)
{
	return (struct gq_amount){gq_sat_add(a.shares, b.shares),
				  gq_sat_add(a.memory_mib, b.memory_mib)};
}

static inline struct gq_amount gq_amount_sub(struct gq_amount a, struct gq_amount b)
{
	return (struct gq_amount){gq_sat_sub(a.shares, b.shares),
				  gq_sat_sub(a.memory_mib, b.memory_mib)};
}

/* The larger of each currency. */
static inline struct gq_amount gq_amount_max(struct gq_amount a, struct gq_amount b)
{
	return (struct gq_amount){gq_max64(a.shares, b.shares),
				  gq_max64(a.memory_mib, b.memory_mib)};
}

static inline bool gq_amount_is_zero(struct gq_amount a)
{
	return a.shares == 0 && a.memory_mib == 0;
}

#endif
