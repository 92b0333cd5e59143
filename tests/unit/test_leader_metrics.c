#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/leader_metrics.h"
#include "tests/unit/exposition_page.h"

struct expected {
	const char *series;
	double value;
};

static void assert_samples(const struct page *page, const struct expected *expected, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (page_value(page, expected[i].series) != expected[i].value)
			fail_msg("%s is %f", expected[i].series,
				 page_value(page, expected[i].series));
}

static void assert_type(const struct page *page, const char *family, const char *type)
{
	for (size_t i = 0; i < page->n_families; i++) {
		if (strcmp(page->families[i].name, family) != 0)
			continue;
		assert_string_equal(page->families[i].type, type);
		return;
	}
	fail_msg("%s is not on the page", family);
}

/* What was printed, as a scraper reads it; empties out. */
static struct page *read_page(struct gq_buf *out)
{
	assert_int_equal(out->code, 0);
	struct page *page = page_parse(out->data);
	gq_buf_done(out);
	return page;
}

static const struct gq_journal_stats journal_stats = {
    .holds = true,
    .held = true,
    .epoch = 7,
    .seq = 19,
    .writes = {[GQ_JOURNAL_WRITTEN] = 60,
	       [GQ_JOURNAL_CONFLICT] = 2,
	       [GQ_JOURNAL_ABSENT] = 3,
	       [GQ_JOURNAL_DENIED] = 4,
	       [GQ_JOURNAL_THROTTLED] = 5,
	       [GQ_JOURNAL_UNKNOWN] = 6},
    .committed = 1000,
    .aborted = 12,
    .bytes = 4096,
    .reservations = 31,
    .write_buckets = {[0] = 10, [1] = 20, [GQ_JOURNAL_BUCKETS - 1] = 25, [GQ_JOURNAL_BUCKETS] = 5},
    .write_sum_s = 12.5,
    .problem = "a \"problem\" is no label",
};

static void journal(void **state)
{
	struct gq_buf out = GQ_BUF_INIT(1u << 20);
	char series[128];
	struct page *page;

	(void)state;
	gq_leader_metrics_print_journal(&out, &journal_stats);
	assert_has_not(out.data, "problem");
	page = read_page(&out);
	for (int o = 0; o < GQ_JOURNAL_OUTCOMES; o++) {
		(void)snprintf(series, sizeof series,
			       "gpuquota_journal_writes_total{outcome=\"%s\"}",
			       gq_journal_outcome_name((enum gq_journal_outcome)o));
		assert_true(page_value(page, series) == (double)journal_stats.writes[o]);
	}
	assert_int_equal(page_count(page, "gpuquota_journal_writes_total"), GQ_JOURNAL_OUTCOMES);

	/* cumulative, as the format wants it */
	static const double cumulative[] = {10, 30, 30, 30, 30, 30, 30, 30, 30, 55, 60};
	assert_int_equal(LEN(cumulative), GQ_JOURNAL_BUCKETS + 1);
	for (int b = 0; b <= GQ_JOURNAL_BUCKETS; b++) {
		char le[32] = "+Inf";
		if (b < GQ_JOURNAL_BUCKETS)
			(void)snprintf(le, sizeof le, "%g", gq_journal_bounds_s[b]);
		(void)snprintf(series, sizeof series,
			       "gpuquota_journal_write_duration_seconds_bucket{le=\"%s\"}", le);
		assert_true(page_value(page, series) == cumulative[b]);
	}
	static const struct expected cases[] = {
	    {"gpuquota_journal_write_duration_seconds_sum", 12.5},
	    {"gpuquota_journal_write_duration_seconds_count", 60},
	    {"gpuquota_journal_grants_total", 1000},
	    {"gpuquota_journal_failed_grants_total", 12},
	    {"gpuquota_journal_bytes", 4096},
	    {"gpuquota_journal_reservations", 31},
	    {"gpuquota_journal_epoch", 7},
	    {"gpuquota_journal_held", 1},
	};
	assert_samples(page, cases, LEN(cases));
	assert_type(page, "gpuquota_journal_writes_total", "counter");
	assert_type(page, "gpuquota_journal_write_duration_seconds", "histogram");
	assert_type(page, "gpuquota_journal_grants_total", "counter");
	assert_type(page, "gpuquota_journal_failed_grants_total", "counter");
	assert_type(page, "gpuquota_journal_held", "gauge");
	page_free(page);
}

/* An epoch by the clock has 16 digits, of which none may be lost. */
static void epochs_by_the_clock(void **state)
{
	struct gq_buf out = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_leader_metrics_print_journal(
	    &out, &(struct gq_journal_stats){.holds = true, .epoch = UINT64_C(1800000000123)});
	assert_has(out.data, "\ngpuquota_journal_epoch 1800000000123\n");
	assert_has(out.data, "\ngpuquota_journal_held 0\n");
	struct page *page = read_page(&out);
	assert_true(page_value(page, "gpuquota_journal_write_duration_seconds_count") == 0);
	page_free(page);
}

/* Who follows grants nothing, either. */
static void journal_of_a_follower(void **state)
{
	struct gq_buf out = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_leader_metrics_print_journal(&out, &(struct gq_journal_stats){.held = false});
	struct page *page = read_page(&out);
	assert_true(page_value(page, "gpuquota_journal_held") == 1);
	page_free(page);
}

static void leadership(void **state)
{
	(void)state;
	for (int leads = 0; leads < 2; leads++) {
		struct gq_buf out = GQ_BUF_INIT(1u << 20);
		gq_leader_metrics_print_leadership(
		    &out, &(struct gq_leadership_status){
			      .leads = leads != 0, .terms = 3, .epoch = 7, .holder = "pod-b"});
		struct page *page = read_page(&out);
		assert_true(page_value(page, "gpuquota_leader") == leads);
		assert_true(page_value(page, "gpuquota_leader_terms_total") == 3);
		assert_type(page, "gpuquota_leader", "gauge");
		assert_type(page, "gpuquota_leader_terms_total", "counter");
		assert_int_equal(page->n_samples, 2);
		page_free(page);
	}
}

static const struct gq_events_stats events_stats = {.written = 5, .failed = 6, .dropped = 7};
static const struct gq_reporting_stats reporting_stats = {
    .status = {.written = 8, .failed = 9}, .recounts = 10, .last_recount_s = START_WALL_S};

static void telling(void **state)
{
	static const struct expected cases[] = {
	    {"gpuquota_events_total{outcome=\"written\"}", 5},
	    {"gpuquota_events_total{outcome=\"failed\"}", 6},
	    {"gpuquota_events_total{outcome=\"dropped\"}", 7},
	    {"gpuquota_status_writes_total", 8},
	    {"gpuquota_status_write_failures_total", 9},
	    {"gpuquota_recounts_total", 10},
	    {"gpuquota_last_recount_timestamp_seconds", START_WALL_S},
	};
	struct gq_buf out = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_leader_metrics_print_telling(&out, &events_stats, &reporting_stats);
	struct page *page = read_page(&out);
	assert_samples(page, cases, LEN(cases));
	assert_int_equal(page->n_samples, LEN(cases));
	assert_type(page, "gpuquota_events_total", "counter");
	assert_type(page, "gpuquota_recounts_total", "counter");
	assert_type(page, "gpuquota_last_recount_timestamp_seconds", "gauge");
	page_free(page);
}

/* All on one page, as they are served. */
static void linted(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	gq_leader_metrics_print_leadership(&out, &(struct gq_leadership_status){.leads = true});
	gq_leader_metrics_print_journal(&out, &journal_stats);
	gq_leader_metrics_print_telling(&out, &events_stats, &reporting_stats);
	page_free(page_parse(out.data));
	page_lint(out.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(journal),
	    cmocka_unit_test(epochs_by_the_clock),
	    cmocka_unit_test(journal_of_a_follower),
	    cmocka_unit_test(leadership),
	    cmocka_unit_test(telling),
	    cmocka_unit_test(linted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
