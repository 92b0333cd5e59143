#ifndef GQ_WEBHOOK_METRICS_H
#define GQ_WEBHOOK_METRICS_H

#include "base/buf.h"
#include "quota/ledger.h"
#include "webhook/admission.h"
#include "webhook/server.h"

/* The pages of the metrics address, from copies of the state: no lock is held here. */

/* gpuquota_limit_…, gpuquota_used_…, gpuquota_bound_gpu_seconds_total, gpuquota_ledger_drift_total
 * and the like. A currency that is not limited has no limit series. */
void gq_metrics_print_usage(struct gq_buf *out, const struct gq_usage *usage);
/* gpuquota_reviews_total, gpuquota_rule_findings_total, gpuquota_review_duration_seconds. */
void gq_metrics_print_reviews(struct gq_buf *out, const struct gq_admission_stats *stats);
/* gpuquota_http_…, gpuquota_certificate_expiry_timestamp_seconds. */
void gq_metrics_print_server(struct gq_buf *out, const struct gq_server_stats *stats);

/* GET /usage: a JSON document; gpus are decimal strings, memory in MiB, null is unlimited. Returns
 * out->code. */
int gq_usage_print_json(struct gq_buf *out, const struct gq_usage *usage);
/* One element of its "tenants", and of its "uncharged". */
void gq_usage_print_tenant(struct gq_buf *out, const struct gq_usage_tenant *tenant);
void gq_usage_print_uncharged(struct gq_buf *out, const struct gq_usage_uncharged *uncharged);

#endif
