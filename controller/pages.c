#include "controller/pages.h"

#include <stdio.h>
#include <string.h>

#include "controller/leader_metrics.h"
#include "controller/version.h"
#include "webhook/exposition.h"
#include "webhook/metrics.h"

#define PAGE_MAX_BYTES (64u << 20)
#define COLLECTIONS_MAX 8

int gq_pages_route(const char *method, const char *path)
{
	static const char *const paths[] = {"/metrics", "/healthz", "/readyz", "/usage"};

	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		if (strcmp(path, paths[i]) == 0)
			return strcmp(method, "GET") == 0 ? 0 : 405;
	return 404;
}

static void answer(struct gq_request *request, int status, const char *type,
		   const struct gq_buf *body)
{
	const char *failed = "out of memory\n";

	if (body->code)
		gq_request_answer(request, &(struct gq_answer){.status = 503,
							       .content_type = "text/plain",
							       .body = failed,
							       .len = strlen(failed)});
	else
		gq_request_answer(request, &(struct gq_answer){.status = status,
							       .content_type = type,
							       .body = body->data ? body->data : "",
							       .len = body->len});
}

/* ---- metrics ---- */

static void each_watch(struct gq_buf *out, const struct gq_watch_stats *stats, size_t n,
		       const char *name, const char *type, const char *help,
		       double (*value)(const struct gq_watch_stats *stats))
{
	gq_metric_family(out, name, type, help);
	for (size_t i = 0; i < n; i++) {
		const struct gq_metric_label labels[] = {{"resource", stats[i].resource}, {0}};
		gq_metric_sample(out, name, labels, value(&stats[i]));
	}
}

static double watch_synced(const struct gq_watch_stats *s)
{
	return s->synced;
}

static double watch_connected(const struct gq_watch_stats *s)
{
	return s->connected;
}

static double watch_events(const struct gq_watch_stats *s)
{
	return (double)s->events;
}

static double watch_bytes(const struct gq_watch_stats *s)
{
	return (double)s->bytes;
}

static double watch_lists(const struct gq_watch_stats *s)
{
	return (double)s->lists;
}

static double watch_watches(const struct gq_watch_stats *s)
{
	return (double)s->watches;
}

static double watch_errors(const struct gq_watch_stats *s)
{
	return (double)s->errors;
}

static double watch_skipped(const struct gq_watch_stats *s)
{
	return (double)s->skipped;
}

static void print_watches(struct gq_buf *out, const struct gq_informer *informer)
{
	static const struct {
		const char *name, *type, *help;
		double (*value)(const struct gq_watch_stats *stats);
	} families[] = {
	    {"gpuquota_watch_synced", "gauge", "1 once the collection was listed in full.",
	     watch_synced},
	    {"gpuquota_watch_connected", "gauge", "1 while a watch is established.",
	     watch_connected},
	    {"gpuquota_watch_events_total", "counter", "Events received, bookmarks left out.",
	     watch_events},
	    {"gpuquota_watch_bytes_total", "counter", "Bytes received by lists and watches.",
	     watch_bytes},
	    {"gpuquota_watch_lists_total", "counter", "Full lists begun.", watch_lists},
	    {"gpuquota_watch_requests_total", "counter", "Watch requests begun.", watch_watches},
	    {"gpuquota_watch_errors_total", "counter",
	     "Failed requests, ERROR events and watches that were cut.", watch_errors},
	    {"gpuquota_watch_skipped_objects_total", "counter",
	     "Objects that could not be understood.", watch_skipped},
	};
	struct gq_watch_stats stats[COLLECTIONS_MAX];
	size_t n = gq_informer_stats(informer, stats, COLLECTIONS_MAX);

	for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
		each_watch(out, stats, n, families[i].name, families[i].type, families[i].help,
			   families[i].value);
}

static void print_policy(struct gq_buf *out, const struct gq_policy_status *status)
{
	if (status->in_force) {
		const struct gq_metric_label labels[] = {{"hash", status->hash}, {0}};
		gq_metric_family(out, "gpuquota_policy_info", "gauge",
				 "The policy in force, by the SHA-256 of its bytes.");
		gq_metric_sample_int(out, "gpuquota_policy_info", labels, 1);
	}
	gq_metric_single(
	    out, "gpuquota_policy_last_reload_successful", "gauge",
	    "1 while the newest state of the policy ConfigMap is good, and in force or "
	    "about to be.",
	    status->last_ok);
}

static void print_program(struct gq_buf *out)
{
	const struct gq_metric_label labels[] = {{"version", GQ_VERSION}, {0}};

	gq_metric_family(out, "gpuquota_build_info", "gauge", "The version of the program.");
	gq_metric_sample_int(out, "gpuquota_build_info", labels, 1);
}

static void print_leading(struct gq_buf *out, struct gq_pages *pages)
{
	struct gq_leadership_status leadership;
	struct gq_journal_stats journal;
	struct gq_events_stats events;
	struct gq_reporting_stats reporting;

	gq_leadership_status(pages->leadership, &leadership);
	gq_journal_stats(pages->journal, &journal);
	gq_events_stats(pages->events, &events);
	gq_reporting_stats(pages->reporting, &reporting);
	gq_leader_metrics_print_leadership(out, &leadership);
	gq_leader_metrics_print_journal(out, &journal);
	gq_leader_metrics_print_telling(out, &events, &reporting);
}

static void metrics(struct gq_pages *pages, struct gq_request *request)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(PAGE_MAX_BYTES);
	struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};
	struct gq_admission_stats reviews;
	struct gq_server_stats server;
	struct gq_policy_status policy;

	/* one opinion only: the leader's */
	if (gq_leadership_leads(pages->leadership)) {
		out.code = gq_ledger_usage(pages->ledger, gq_clock_mono_ns(pages->clock),
					   gq_clock_wall_s(pages->clock), &usage, NULL);
		gq_metrics_print_usage(&out, &usage);
	}
	gq_admission_stats(pages->admission, &reviews);
	gq_server_stats(pages->server, &server);
	gq_policy_source_status(pages->policy, &policy);
	gq_metrics_print_reviews(&out, &reviews);
	print_policy(&out, &policy);
	print_watches(&out, pages->informer);
	gq_metrics_print_server(&out, &server);
	print_leading(&out, pages);
	print_program(&out);
	answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}

/* ---- the other pages ---- */

static void usage_page(struct gq_pages *pages, struct gq_request *request)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(PAGE_MAX_BYTES);
	struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};

	out.code = gq_ledger_usage(pages->ledger, gq_clock_mono_ns(pages->clock),
				   gq_clock_wall_s(pages->clock), &usage, NULL);
	gq_usage_print_json(&out, &usage);
	answer(request, 200, "application/json", &out);
}

/* 200 once decisions are made; else 503 with what is missing, a line each. */
static void readyz(struct gq_pages *pages, struct gq_request *request)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 10);
	struct gq_watch_stats stats[COLLECTIONS_MAX];
	struct gq_policy_status policy;
	bool ready = gq_ledger_ready(pages->ledger);
	size_t n = gq_informer_stats(pages->informer, stats, COLLECTIONS_MAX);

	gq_policy_source_status(pages->policy, &policy);
	for (size_t i = 0; i < n; i++)
		gq_buf_printf(&out, "[%c] %s listed\n", stats[i].synced ? '+' : '-',
			      stats[i].resource);
	gq_buf_printf(&out, "[%c] policy in force\n", policy.in_force ? '+' : '-');
	if (policy.problem[0])
		gq_buf_printf(&out, "    %s\n", policy.problem);
	if (atomic_load(&pages->draining)) {
		gq_buf_puts(&out, "[-] shutting down\n");
		ready = false;
	}
	gq_buf_puts(&out, ready ? "ready\n" : "not ready\n");
	answer(request, ready ? 200 : 503, "text/plain; charset=utf-8", &out);
}

void gq_pages_handle(struct gq_pages *pages, struct gq_request *request)
{
	const char *path = gq_request_path(request);

	if (strcmp(path, "/metrics") == 0) {
		metrics(pages, request);
	} else if (strcmp(path, "/usage") == 0) {
		usage_page(pages, request);
	} else if (strcmp(path, "/readyz") == 0) {
		readyz(pages, request);
	} else {
		struct gq_buf ok GQ_BUF_CLEANUP = GQ_BUF_INIT(16);
		gq_buf_puts(&ok, "ok\n");
		answer(request, 200, "text/plain; charset=utf-8", &ok);
	}
}
