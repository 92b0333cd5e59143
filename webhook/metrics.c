#include "webhook/metrics.h"

#include <math.h>
#include <stdio.h>

#include "webhook/exposition.h"

#define MIB_BYTES 1048576.0

static double gpus(int64_t shares)
{
	return shares == GQ_UNLIMITED ? HUGE_VAL : (double)shares / (double)GQ_SHARES_PER_GPU;
}

/* Memory that nobody can know (a device of unknown size) counts as unlimited. */
static double bytes(int64_t mib)
{
	return mib == GQ_UNLIMITED ? HUGE_VAL : (double)mib * MIB_BYTES;
}

static void each_limit(struct gq_buf *out, const struct gq_usage *usage, const char *name,
		       void (*print)(struct gq_buf *out, const char *name,
				     struct gq_metric_label *labels,
				     const struct gq_usage_limit *limit))
{
	for (size_t t = 0; t < usage->n_tenants; t++) {
		for (size_t i = 0; i < usage->tenants[t].n_limits; i++) {
			const struct gq_usage_limit *limit = &usage->tenants[t].limits[i];
			struct gq_metric_label labels[4] = {{"tenant", usage->tenants[t].name},
							    {"class", limit->class_name}};
			print(out, name, labels, limit);
		}
	}
}

static void print_limit_gpus(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			     const struct gq_usage_limit *limit)
{
	if (limit->most.shares != GQ_UNLIMITED)
		gq_metric_sample(out, name, labels, gpus(limit->most.shares));
}

static void print_limit_memory(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			       const struct gq_usage_limit *limit)
{
	if (limit->most.memory_mib != GQ_UNLIMITED)
		gq_metric_sample(out, name, labels, bytes(limit->most.memory_mib));
}

static void print_used_gpus(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			    const struct gq_usage_limit *limit)
{
	for (int s = 0; s < GQ_STATES; s++) {
		labels[2] = (struct gq_metric_label){"state",
						     gq_charge_state_name((enum gq_charge_state)s)};
		gq_metric_sample(out, name, labels, gpus(limit->used[s].shares));
	}
}

static void print_used_memory(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			      const struct gq_usage_limit *limit)
{
	for (int s = 0; s < GQ_STATES; s++) {
		labels[2] = (struct gq_metric_label){"state",
						     gq_charge_state_name((enum gq_charge_state)s)};
		gq_metric_sample(out, name, labels, bytes(limit->used[s].memory_mib));
	}
}

static void print_unready_gpus(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			       const struct gq_usage_limit *limit)
{
	gq_metric_sample(out, name, labels, gpus(limit->unready.shares));
}

static void print_unready_memory(struct gq_buf *out, const char *name,
				 struct gq_metric_label *labels, const struct gq_usage_limit *limit)
{
	gq_metric_sample(out, name, labels, bytes(limit->unready.memory_mib));
}

/* Nothing at all while nobody is over, so that the series itself is the alarm. */
static void print_over_gpus(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			    const struct gq_usage_limit *limit)
{
	int64_t over = gq_usage_over(limit).shares;

	if (over)
		gq_metric_sample(out, name, labels, gpus(over));
}

static void print_over_memory(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			      const struct gq_usage_limit *limit)
{
	int64_t over = gq_usage_over(limit).memory_mib;

	if (over)
		gq_metric_sample(out, name, labels, bytes(over));
}

static void print_bound_seconds(struct gq_buf *out, const char *name,
				struct gq_metric_label *labels, const struct gq_usage_limit *limit)
{
	gq_metric_sample(out, name, labels, limit->bound_gpu_seconds);
}

static void print_drift(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			const struct gq_usage_limit *limit)
{
	gq_metric_sample_int(out, name, labels, (int64_t)limit->drift_total);
}

static void print_uncharged(struct gq_buf *out, const struct gq_usage *usage)
{
	gq_metric_family(out, "gpuquota_uncharged_pods", "gauge",
			 "GPU pods in a namespace of no tenant, which nobody is charged for.");
	for (size_t i = 0; i < usage->n_uncharged; i++) {
		const struct gq_metric_label labels[] = {
		    {"namespace", usage->uncharged[i].namespace_}, {0}};
		gq_metric_sample_int(out, "gpuquota_uncharged_pods", labels,
				     (int64_t)usage->uncharged[i].pods);
	}
	gq_metric_family(out, "gpuquota_ambiguous_namespace", "gauge",
			 "Namespaces that the selectors of two tenants match.");
	for (size_t i = 0; i < usage->n_uncharged; i++) {
		const struct gq_metric_label labels[] = {
		    {"namespace", usage->uncharged[i].namespace_}, {0}};
		if (usage->uncharged[i].ambiguous)
			gq_metric_sample_int(out, "gpuquota_ambiguous_namespace", labels, 1);
	}
}

void gq_metrics_print_usage(struct gq_buf *out, const struct gq_usage *usage)
{
	static const struct {
		const char *name, *type, *help;
		void (*print)(struct gq_buf *out, const char *name, struct gq_metric_label *labels,
			      const struct gq_usage_limit *limit);
	} families[] = {
	    {"gpuquota_limit_gpus", "gauge", "GPUs that a tenant may hold of a class.",
	     print_limit_gpus},
	    {"gpuquota_used_gpus", "gauge", "GPUs that a tenant holds of a class, by state.",
	     print_used_gpus},
	    {"gpuquota_limit_memory_bytes", "gauge",
	     "GPU memory that a tenant may hold of a class.", print_limit_memory},
	    {"gpuquota_used_memory_bytes", "gauge",
	     "GPU memory that a tenant holds of a class, by state.", print_used_memory},
	    {"gpuquota_unready_gpus", "gauge",
	     "GPUs that a tenant holds of a class by running pods that are not Ready; a part of "
	     "those in state bound.",
	     print_unready_gpus},
	    {"gpuquota_unready_memory_bytes", "gauge",
	     "GPU memory that a tenant holds of a class by running pods that are not Ready; a part "
	     "of that in state bound.",
	     print_unready_memory},
	    {"gpuquota_over_gpus", "gauge",
	     "GPUs that a tenant holds of a class beyond its limit; no series when it does not.",
	     print_over_gpus},
	    {"gpuquota_over_memory_bytes", "gauge",
	     "GPU memory that a tenant holds of a class beyond its limit; no series when it does "
	     "not.",
	     print_over_memory},
	    {"gpuquota_bound_gpu_seconds_total", "counter",
	     "GPUs bound to pods of a tenant, times seconds.", print_bound_seconds},
	    {"gpuquota_ledger_drift_total", "counter",
	     "Times that what a tenant holds of a class was found wrong and repaired.",
	     print_drift},
	};

	for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
		gq_metric_family(out, families[i].name, families[i].type, families[i].help);
		each_limit(out, usage, families[i].name, families[i].print);
	}
	gq_metric_family(out, "gpuquota_charges", "gauge", "GPU pods in the ledger, by state.");
	for (int s = 0; s < GQ_STATES; s++) {
		const struct gq_metric_label labels[] = {
		    {"state", gq_charge_state_name((enum gq_charge_state)s)}, {0}};
		gq_metric_sample_int(out, "gpuquota_charges", labels, (int64_t)usage->charges[s]);
	}
	gq_metric_single(
	    out, "gpuquota_forced_deletions_total", "counter",
	    "GPU pods deleted while they ran: a kubelet may still run them, uncounted.",
	    (double)usage->forced_deletions);
	print_uncharged(out, usage);
}

static const char *decision_name(int kind)
{
	switch ((enum gq_verdict_kind)kind) {
	case GQ_VERDICT_ALLOW:
		return "allow";
	case GQ_VERDICT_DENY:
		return "deny";
	case GQ_VERDICT_UNAVAILABLE:
		return "unavailable";
	case GQ_VERDICT_WAIT:
	case GQ_VERDICT_READ:
		break;
	}
	return NULL;
}

void gq_metrics_print_reviews(struct gq_buf *out, const struct gq_admission_stats *stats)
{
	static const char duration[] = "gpuquota_review_duration_seconds";
	uint64_t sum = 0;

	gq_metric_family(out, "gpuquota_reviews_total", "counter",
			 "Admission reviews answered, by decision and reason.");
	for (int k = 0; k <= GQ_VERDICT_UNAVAILABLE; k++) {
		for (int r = 0; decision_name(k) && r < GQ_REASON_COUNT; r++) {
			const struct gq_metric_label labels[] = {
			    {"decision", decision_name(k)},
			    {"reason", gq_reason_name((enum gq_reason)r)},
			    {0}};
			if (stats->reviews[k][r])
				gq_metric_sample_int(out, "gpuquota_reviews_total", labels,
						     (int64_t)stats->reviews[k][r]);
		}
	}
	gq_metric_family(out, "gpuquota_rule_findings_total", "counter",
			 "Admission reviews in which a rule found something, by the rule's mode.");
	for (int r = 0; r < GQ_RULES; r++) {
		for (int m = 0; m < GQ_MODE_DISABLED; m++) {
			const struct gq_metric_label labels[] = {
			    {"rule", gq_rule_name((enum gq_rule_id)r)},
			    {"mode", gq_mode_name((enum gq_mode)m)},
			    {0}};
			if (stats->rule_findings[r][m])
				gq_metric_sample_int(out, "gpuquota_rule_findings_total", labels,
						     (int64_t)stats->rule_findings[r][m]);
		}
	}
	gq_metric_family(out, duration, "histogram", "Time from a review's arrival to its answer.");
	for (int b = 0; b <= GQ_DURATION_BUCKETS; b++) {
		char le[32] = "+Inf";
		if (b < GQ_DURATION_BUCKETS)
			(void)snprintf(le, sizeof le, "%g", gq_duration_bounds_s[b]);
		const struct gq_metric_label labels[] = {{"le", le}, {0}};
		sum += stats->duration_buckets[b];
		gq_metric_sample_int(out, "gpuquota_review_duration_seconds_bucket", labels,
				     (int64_t)sum);
	}
	gq_metric_sample(out, "gpuquota_review_duration_seconds_sum", NULL, stats->duration_sum_s);
	gq_metric_sample_int(out, "gpuquota_review_duration_seconds_count", NULL, (int64_t)sum);
}

void gq_metrics_print_server(struct gq_buf *out, const struct gq_server_stats *stats)
{
	gq_metric_single(out, "gpuquota_http_connections", "gauge",
			 "Connections open on both addresses.", (double)stats->connections_open);
	gq_metric_single(out, "gpuquota_http_connections_total", "counter",
			 "Connections accepted on both addresses.",
			 (double)stats->connections_total);
	gq_metric_single(out, "gpuquota_http_requests_in_flight", "gauge",
			 "Requests that wait for their answer.", (double)stats->requests_in_flight);
	gq_metric_family(out, "gpuquota_http_responses_total", "counter",
			 "Responses by the class of their status.");
	for (unsigned c = 1; c < 6; c++) {
		char code[8];
		(void)snprintf(code, sizeof code, "%uxx", c);
		const struct gq_metric_label labels[] = {{"code", code}, {0}};
		gq_metric_sample_int(out, "gpuquota_http_responses_total", labels,
				     (int64_t)stats->responses_total[c]);
	}
	gq_metric_single(out, "gpuquota_tls_handshake_failures_total", "counter",
			 "TLS handshakes that failed.", (double)stats->tls_failures_total);
	gq_metric_single(out, "gpuquota_certificate_expiry_timestamp_seconds", "gauge",
			 "When the certificate in use expires, as Unix time.",
			 (double)stats->certificate_not_after_s);
}
