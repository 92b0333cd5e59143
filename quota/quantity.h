#ifndef GQ_QUOTA_QUANTITY_H
#define GQ_QUOTA_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Kubernetes quantities: every suffix family (n u m "" k M G T P E, Ki … Ei, e3, E-3).
 * Source: k8s.io/apimachinery/pkg/api/resource, quantity.go. */

enum gq_exactness {
	GQ_EXACT,   /* the value is a whole number of units */
	GQ_ROUNDED, /* it was not, and was rounded up */
};

/* value * units_per_one, rounded up to an integer. text: len bytes, no NUL needed.
 * units_per_one: 1 for counts, GQ_SHARES_PER_GPU for decimals of a GPU. ret_exact may be NULL.
 * Errors: GQ_EINVALID not a quantity (the message quotes it), or negative; GQ_ETOOBIG above
 * INT64_MAX - 1. Outputs untouched on failure. */
int gq_quantity_units(const char *text, size_t len, int64_t units_per_one, int64_t *ret_units,
		      enum gq_exactness *ret_exact, struct gq_err *err);

/* Appends shares as decimal GPUs, exact up to six places without trailing zeros ("7", "0.5"); a
 * longer fraction is cut to three places (sevenths: "0.142"). GQ_UNLIMITED: "unlimited". */
int gq_shares_print(struct gq_buf *out, int64_t shares);

/* Appends MiB in the largest binary unit that keeps it whole: "640Gi", "81559Mi". */
int gq_mib_print(struct gq_buf *out, int64_t mib);

#endif
