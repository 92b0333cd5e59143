#ifndef GQ_WEBHOOK_EXPOSITION_H
#define GQ_WEBHOOK_EXPOSITION_H

#include <stdint.h>

#include "base/buf.h"

/* Prometheus' text format. A family is announced once, then its samples follow.
 * Source: prometheus.io/docs/instrumenting/exposition_formats. */

/* type: "counter", "gauge", "histogram". */
void gq_metric_family(struct gq_buf *out, const char *name, const char *type, const char *help);

struct gq_metric_label {
	const char *name;
	const char *value; /* any UTF-8; escaped here */
};

/* labels end with a NULL name; NULL: none. */
void gq_metric_sample(struct gq_buf *out, const char *name, const struct gq_metric_label *labels,
		      double value);
void gq_metric_sample_int(struct gq_buf *out, const char *name,
			  const struct gq_metric_label *labels, int64_t value);

/* A family of one sample without labels. */
void gq_metric_single(struct gq_buf *out, const char *name, const char *type, const char *help,
		      double value);

#endif
