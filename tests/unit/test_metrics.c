#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/exposition_page.h"
#include "webhook/metrics.h"

#define GPU GQ_SHARES_PER_GPU
#define MIB 1048576.0

/* Two tenants; names that need escaping. */
static struct gq_usage_limit limits_a[] = {
    {.class_name = "A100",
     .most = {8 * GPU, 655360},
     .used = {{GPU, 81920}, {GPU / 2, 40960}, {4 * GPU, 327680}, {0, 0}},
     .unready = {3 * GPU / 2, 122880},
     .bound_gpu_seconds = 1234567890.75,
     .drift_total = 7},
    {.class_name = "*",
     .most = {GQ_UNLIMITED, 1024},
     .used = {{0, 0}, {GPU / 3, GQ_UNLIMITED}, {0, 0}, {0, 0}}},
};
static struct gq_usage_limit limits_b[] = {
    {.class_name = "H\"1\\00\n", .most = {0, GQ_UNLIMITED}},
};
static struct gq_usage_tenant tenants[] = {
    {.name = "team-a", .mode = GQ_MODE_ENFORCE, .n_limits = 2, .limits = limits_a},
    {.name = "t\"e\\a\nm", .parent = "team-a", .n_limits = 1, .limits = limits_b},
    {.name = "empty"},
};
static struct gq_usage_uncharged uncharged[] = {
    {.namespace_ = (char *)(uintptr_t) "lab", .pods = 3},
    {.namespace_ = (char *)(uintptr_t) "both", .ambiguous = true},
};
static const struct gq_usage usage = {.synced = true,
				      .tenants = tenants,
				      .n_tenants = LEN(tenants),
				      .uncharged = uncharged,
				      .n_uncharged = LEN(uncharged),
				      .charges = {1, 2, 3, 4}};

static struct gq_admission_stats stats_of(void)
{
	struct gq_admission_stats stats = {.duration_sum_s = 12.5};

	stats.reviews[GQ_VERDICT_ALLOW][GQ_REASON_FITS] = 5;
	stats.reviews[GQ_VERDICT_ALLOW][GQ_REASON_NO_GPU] = 1;
	stats.reviews[GQ_VERDICT_DENY][GQ_REASON_OVER_LIMIT] = 2;
	stats.reviews[GQ_VERDICT_UNAVAILABLE][GQ_REASON_NOT_SYNCED] = 3;
	stats.rule_findings[GQ_RULE_RUNTIME_SOCKETS][GQ_MODE_WARN] = 6;
	stats.rule_findings[GQ_RULE_REQUIRE_READINESS_PROBE][GQ_MODE_AUDIT] = 7;
	stats.duration_buckets[0] = 4;
	stats.duration_buckets[3] = 5;
	stats.duration_buckets[GQ_DURATION_BUCKETS] = 2;
	return stats;
}

static void whole_page(struct gq_buf *out)
{
	const struct gq_admission_stats stats = stats_of();
	const struct gq_server_stats server = {.connections_open = 2,
					       .connections_total = 9,
					       .requests_in_flight = 1,
					       .responses_total = {0, 0, 7, 0, 1, 3},
					       .tls_failures_total = 4,
					       .certificate_not_after_s = 1900000000};

	gq_metrics_print_usage(out, &usage);
	gq_metrics_print_reviews(out, &stats);
	gq_metrics_print_server(out, &server);
	assert_int_equal(out->code, 0);
}

static void usage_series(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_metrics_print_usage(&out, &usage);
	struct page *page = page_parse(out.data);
	static const struct {
		const char *series;
		double value;
	} cases[] = {
	    {"gpuquota_limit_gpus{tenant=\"team-a\",class=\"A100\"}", 8},
	    {"gpuquota_limit_gpus{tenant=\"t\\\"e\\\\a\\nm\",class=\"H\\\"1\\\\00\\n\"}", 0},
	    {"gpuquota_limit_memory_bytes{tenant=\"team-a\",class=\"A100\"}", 655360 * MIB},
	    {"gpuquota_limit_memory_bytes{tenant=\"team-a\",class=\"*\"}", 1024 * MIB},
	    {"gpuquota_used_gpus{tenant=\"team-a\",class=\"A100\",state=\"reserved\"}", 1},
	    {"gpuquota_used_gpus{tenant=\"team-a\",class=\"A100\",state=\"pending\"}", 0.5},
	    {"gpuquota_used_gpus{tenant=\"team-a\",class=\"A100\",state=\"bound\"}", 4},
	    {"gpuquota_used_gpus{tenant=\"team-a\",class=\"A100\",state=\"terminating\"}", 0},
	    {"gpuquota_used_gpus{tenant=\"team-a\",class=\"*\",state=\"pending\"}", 1.0 / 3},
	    {"gpuquota_used_memory_bytes{tenant=\"team-a\",class=\"A100\",state=\"bound\"}",
	     327680 * MIB},
	    {"gpuquota_used_memory_bytes{tenant=\"team-a\",class=\"*\",state=\"pending\"}",
	     HUGE_VAL},
	    {"gpuquota_unready_gpus{tenant=\"team-a\",class=\"A100\"}", 1.5},
	    {"gpuquota_unready_gpus{tenant=\"team-a\",class=\"*\"}", 0},
	    {"gpuquota_unready_memory_bytes{tenant=\"team-a\",class=\"A100\"}", 122880 * MIB},
	    {"gpuquota_bound_gpu_seconds_total{tenant=\"team-a\",class=\"A100\"}", 1234567890.75},
	    {"gpuquota_ledger_drift_total{tenant=\"team-a\",class=\"A100\"}", 7},
	    {"gpuquota_ledger_drift_total{tenant=\"team-a\",class=\"*\"}", 0},
	    {"gpuquota_charges{state=\"reserved\"}", 1},
	    {"gpuquota_charges{state=\"pending\"}", 2},
	    {"gpuquota_charges{state=\"bound\"}", 3},
	    {"gpuquota_charges{state=\"terminating\"}", 4},
	    {"gpuquota_uncharged_pods{namespace=\"lab\"}", 3},
	    {"gpuquota_uncharged_pods{namespace=\"both\"}", 0},
	    {"gpuquota_ambiguous_namespace{namespace=\"both\"}", 1},
	};
	for (size_t i = 0; i < LEN(cases); i++)
		assert_true(page_value(page, cases[i].series) == cases[i].value);
	/* unlimited is no series, and neither is a limit that is kept */
	assert_int_equal(page_count(page, "gpuquota_over_gpus"), 0);
	assert_int_equal(page_count(page, "gpuquota_over_memory_bytes"), 1); /* nobody knows */
	assert_int_equal(page_count(page, "gpuquota_limit_gpus"), 2);
	assert_int_equal(page_count(page, "gpuquota_limit_memory_bytes"), 2);
	assert_int_equal(page_count(page, "gpuquota_used_gpus"), 3 * GQ_STATES);
	assert_int_equal(page_count(page, "gpuquota_unready_gpus"), 3);
	assert_int_equal(page_count(page, "gpuquota_unready_memory_bytes"), 3);
	assert_int_equal(page_count(page, "gpuquota_ambiguous_namespace"), 1);
	assert_int_equal(page_count(page, "gpuquota_ledger_drift_total"), 3);
	page_free(page);
}

/* Before there is a policy there are families and no series of tenants. */
static void nothing_yet(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_metrics_print_usage(&out, &(struct gq_usage){0});
	struct page *page = page_parse(out.data);
	/* gpuquota_charges, and the deletions */
	assert_int_equal(page->n_samples, GQ_STATES + 1);
	assert_int_equal(page->n_families, 14);
	page_free(page);
}

static void review_series(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	const struct gq_admission_stats stats = stats_of();
	double last = 0;

	(void)state;
	gq_metrics_print_reviews(&out, &stats);
	struct page *page = page_parse(out.data);
	assert_true(
	    page_value(page, "gpuquota_reviews_total{decision=\"allow\",reason=\"fits\"}") == 5);
	assert_true(
	    page_value(page, "gpuquota_reviews_total{decision=\"allow\",reason=\"no_gpu\"}") == 1);
	assert_true(
	    page_value(page, "gpuquota_reviews_total{decision=\"deny\",reason=\"over_limit\"}") ==
	    2);
	assert_true(page_value(page, "gpuquota_reviews_total{decision=\"unavailable\","
				     "reason=\"not_synced\"}") == 3);
	assert_int_equal(page_count(page, "gpuquota_reviews_total"), 4);
	assert_true(page_value(page, "gpuquota_rule_findings_total{"
				     "rule=\"containerRuntimeSockets\",mode=\"warn\"}") == 6);
	assert_true(page_value(page, "gpuquota_rule_findings_total{"
				     "rule=\"requireReadinessProbe\",mode=\"audit\"}") == 7);
	assert_int_equal(page_count(page, "gpuquota_rule_findings_total"), 2);
	/* cumulative, by rising bounds, the last one is the count */
	assert_int_equal(page_count(page, "gpuquota_review_duration_seconds_bucket"),
			 GQ_DURATION_BUCKETS + 1);
	double last_bound = 0;
	size_t bucket = 0;
	for (size_t i = 0; i < page->n_samples; i++) {
		static const char head[] = "gpuquota_review_duration_seconds_bucket{le=\"";
		if (strncmp(page->samples[i].series, head, sizeof head - 1) != 0)
			continue;
		double bound = strtod(page->samples[i].series + sizeof head - 1, NULL);
		assert_true(bound > last_bound && page->samples[i].value >= last);
		if (bucket < GQ_DURATION_BUCKETS)
			assert_true(bound == gq_duration_bounds_s[bucket]);
		else
			assert_true(isinf(bound));
		last_bound = bound;
		last = page->samples[i].value;
		bucket++;
	}
	assert_true(page_value(page, "gpuquota_review_duration_seconds_bucket{le=\"0.0001\"}") ==
		    4);
	assert_true(page_value(page, "gpuquota_review_duration_seconds_bucket{le=\"0.001\"}") == 9);
	assert_true(page_value(page, "gpuquota_review_duration_seconds_bucket{le=\"10\"}") == 9);
	assert_true(page_value(page, "gpuquota_review_duration_seconds_bucket{le=\"+Inf\"}") == 11);
	assert_true(page_value(page, "gpuquota_review_duration_seconds_count") == 11);
	assert_true(page_value(page, "gpuquota_review_duration_seconds_sum") == 12.5);
	page_free(page);
}

static void server_series(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	whole_page(&out);
	struct page *page = page_parse(out.data);
	assert_true(page_value(page, "gpuquota_http_connections") == 2);
	assert_true(page_value(page, "gpuquota_http_connections_total") == 9);
	assert_true(page_value(page, "gpuquota_http_requests_in_flight") == 1);
	assert_true(page_value(page, "gpuquota_http_responses_total{code=\"2xx\"}") == 7);
	assert_true(page_value(page, "gpuquota_http_responses_total{code=\"5xx\"}") == 3);
	assert_true(page_value(page, "gpuquota_tls_handshake_failures_total") == 4);
	assert_true(page_value(page, "gpuquota_certificate_expiry_timestamp_seconds") ==
		    1900000000);
	page_free(page);
}

static void over_series(void **state)
{
	struct gq_usage_limit limits[] = {
	    {.class_name = "A100",
	     .most = {8 * GPU, 1024},
	     .used = {{GPU, 512}, {0, 0}, {8 * GPU + GPU / 2, 768}, {0, 0}}},
	    {.class_name = "H100", .most = {8 * GPU, GQ_UNLIMITED}, .used = {{8 * GPU, 1}}},
	};
	struct gq_usage_tenant tenant = {.name = "team-a", .n_limits = 2, .limits = limits};
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_metrics_print_usage(&out, &(struct gq_usage){.tenants = &tenant, .n_tenants = 1});
	struct page *page = page_parse(out.data);
	assert_true(page_value(page, "gpuquota_over_gpus{tenant=\"team-a\",class=\"A100\"}") ==
		    1.5);
	assert_true(page_value(page, "gpuquota_over_memory_bytes{tenant=\"team-a\","
				     "class=\"A100\"}") == 256 * MIB);
	assert_int_equal(page_count(page, "gpuquota_over_gpus"), 1);
	assert_int_equal(page_count(page, "gpuquota_over_memory_bytes"), 1);
	page_free(page);
}

/* From a ledger that holds pods. */
static void real_usage(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_ledger *ledger = app_ledger(APP_POLICY);
	struct gq_usage real = {0};
	struct gq_pod *pod = NULL;
	static const char json[] =
	    "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"p\",\"uid\":\"u1\"},"
	    "\"spec\":{\"nodeName\":\"a1\",\"containers\":[{\"name\":\"c\",\"resources\":"
	    "{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}";

	(void)state;
	assert_int_equal(gq_pod_decode(json, sizeof json - 1, NULL, &pod, NULL), 0);
	assert_int_equal(gq_ledger_pod_seen(ledger, pod, START_NS, NULL), 0);
	gq_pod_unref(pod);
	assert_int_equal(
	    gq_ledger_usage(ledger, START_NS + 10 * GQ_NS_PER_S, START_WALL_S, &real, NULL), 0);
	gq_metrics_print_usage(&out, &real);
	gq_usage_done(&real);
	struct page *page = page_parse(out.data);
	assert_true(
	    page_value(
		page, "gpuquota_used_gpus{tenant=\"team-a\",class=\"A100\",state=\"bound\"}") == 2);
	assert_true(page_value(page, "gpuquota_limit_gpus{tenant=\"team-a\",class=\"A100\"}") == 4);
	assert_true(page_value(page, "gpuquota_bound_gpu_seconds_total{tenant=\"team-a\","
				     "class=\"A100\"}") == 20);
	page_free(page);
	gq_ledger_free(ledger);
}

/* A page that does not fit says so, and is not cut off in silence. */
static void too_large(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(200);

	(void)state;
	gq_metrics_print_usage(&out, &usage);
	assert_int_equal(out.code, GQ_ETOOBIG);
}

static void linted(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	whole_page(&out);
	page_lint(out.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(usage_series),  cmocka_unit_test(nothing_yet),
	    cmocka_unit_test(review_series), cmocka_unit_test(server_series),
	    cmocka_unit_test(over_series),   cmocka_unit_test(real_usage),
	    cmocka_unit_test(too_large),     cmocka_unit_test(linted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
