#include "controller/leader_metrics.h"

#include <stdio.h>

#include "webhook/exposition.h"

static void print_writes(struct gq_buf *out, const struct gq_journal_stats *stats)
{
	gq_metric_family(out, "gpuquota_journal_writes_total", "counter",
			 "Writes of the journal, by how they ended.");
	for (int o = 0; o < GQ_JOURNAL_OUTCOMES; o++) {
		const struct gq_metric_label labels[] = {
		    {"outcome", gq_journal_outcome_name((enum gq_journal_outcome)o)}, {0}};
		gq_metric_sample_int(out, "gpuquota_journal_writes_total", labels,
				     (int64_t)stats->writes[o]);
	}
}

static void print_write_seconds(struct gq_buf *out, const struct gq_journal_stats *stats)
{
	uint64_t sum = 0;

	gq_metric_family(out, "gpuquota_journal_write_duration_seconds", "histogram",
			 "Time of a journal write that succeeded.");
	for (int b = 0; b <= GQ_JOURNAL_BUCKETS; b++) {
		char le[32] = "+Inf";
		if (b < GQ_JOURNAL_BUCKETS)
			(void)snprintf(le, sizeof le, "%g", gq_journal_bounds_s[b]);
		const struct gq_metric_label labels[] = {{"le", le}, {0}};
		sum += stats->write_buckets[b];
		gq_metric_sample_int(out, "gpuquota_journal_write_duration_seconds_bucket", labels,
				     (int64_t)sum);
	}
	gq_metric_sample(out, "gpuquota_journal_write_duration_seconds_sum", NULL,
			 stats->write_sum_s);
	gq_metric_sample_int(out, "gpuquota_journal_write_duration_seconds_count", NULL,
			     (int64_t)sum);
}

void gq_leader_metrics_print_journal(struct gq_buf *out, const struct gq_journal_stats *stats)
{
	print_writes(out, stats);
	print_write_seconds(out, stats);
	gq_metric_single(out, "gpuquota_journal_grants_total", "counter",
			 "Reservations that were noted before their answer.",
			 (double)stats->committed);
	gq_metric_single(out, "gpuquota_journal_failed_grants_total", "counter",
			 "Reservations that could not be noted, and were taken back.",
			 (double)stats->aborted);
	gq_metric_single(out, "gpuquota_journal_bytes", "gauge",
			 "Size of the last journal written.", (double)stats->bytes);
	gq_metric_single(out, "gpuquota_journal_reservations", "gauge",
			 "Reservations in the last journal written.", (double)stats->reservations);
	gq_metric_single(out, "gpuquota_journal_epoch", "gauge", "The last term of this process.",
			 (double)stats->epoch);
	gq_metric_single(
	    out, "gpuquota_journal_held", "gauge",
	    "1 while nothing is granted: the journal is not ours, was lost, or can't be "
	    "written.",
	    !stats->holds || stats->held || stats->problem[0]);
}

void gq_leader_metrics_print_leadership(struct gq_buf *out,
					const struct gq_leadership_status *status)
{
	gq_metric_single(out, "gpuquota_leader", "gauge",
			 "1 while this process decides; another answers 503.", status->leads);
	gq_metric_single(out, "gpuquota_leader_terms_total", "counter",
			 "Times that this process has taken the journal over.",
			 (double)status->terms);
}

void gq_leader_metrics_print_telling(struct gq_buf *out, const struct gq_events_stats *events,
				     const struct gq_reporting_stats *reporting)
{
	const struct {
		const char *outcome;
		uint64_t n;
	} outcomes[] = {
	    {"written", events->written}, {"failed", events->failed}, {"dropped", events->dropped}};

	gq_metric_family(out, "gpuquota_events_total", "counter",
			 "Kubernetes Events, by what became of them.");
	for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
		const struct gq_metric_label labels[] = {{"outcome", outcomes[i].outcome}, {0}};
		gq_metric_sample_int(out, "gpuquota_events_total", labels, (int64_t)outcomes[i].n);
	}
	gq_metric_single(out, "gpuquota_status_writes_total", "counter",
			 "Writes of the ConfigMap gpuquota-status.",
			 (double)reporting->status.written);
	gq_metric_single(out, "gpuquota_status_write_failures_total", "counter",
			 "Writes of the ConfigMap gpuquota-status that failed.",
			 (double)reporting->status.failed);
	gq_metric_single(out, "gpuquota_recounts_total", "counter", "Recounts of the ledger.",
			 (double)reporting->recounts);
	gq_metric_single(out, "gpuquota_last_recount_timestamp_seconds", "gauge",
			 "When the last recount ended, as Unix time; 0 there was none.",
			 (double)reporting->last_recount_s);
}
