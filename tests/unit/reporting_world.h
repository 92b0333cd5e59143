#ifndef GQ_TESTS_UNIT_REPORTING_WORLD_H
#define GQ_TESTS_UNIT_REPORTING_WORLD_H

/* What the leader reports: the ledger is a real one; the recounter, the writer of the status and
 * the Events are played. Include after <cmocka.h>, in one file of a test. */

#include "controller/reporting.h"
#include "quota/quantity.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

static struct app_clock app_time;
static struct gq_ledger *ledger;
static struct gq_reporting *reporting;

/* ---- the recounter, played ---- */

struct gq_recounter {
	struct gq_recounter_options options;
};

static struct gq_recounter played_recounter;
static bool recount_runs, recount_lists, recount_busy;
static unsigned recounts;
static void (*recount_done)(void *arg, const struct gq_recount_result *result);
static void *recount_arg;

struct gq_recounter *gq_recounter_new(const struct gq_recounter_options *options)
{
	void *memory = malloc(1); /* so that it can fail */

	free(memory);
	played_recounter.options = *options;
	return memory ? &played_recounter : NULL;
}

void gq_recounter_free(struct gq_recounter *recounter)
{
	assert_true(!recounter || recounter == &played_recounter);
}

bool gq_recounter_start(struct gq_recounter *recounter, bool list,
			void (*done)(void *arg, const struct gq_recount_result *result), void *arg)
{
	assert_ptr_equal(recounter, &played_recounter);
	if (recount_busy)
		return false;
	assert_false(recount_runs);
	recount_runs = true;
	recount_lists = list;
	recount_done = done;
	recount_arg = arg;
	recounts++;
	return true;
}

static inline void end_recount(const struct gq_recount_result *result)
{
	assert_true(recount_runs);
	recount_runs = false;
	recount_done(recount_arg, result);
}

static inline void end_well(void)
{
	end_recount(&(struct gq_recount_result){.drift.counted = 3});
}

/* ---- the writer of the status, played ---- */

struct gq_status_writer {
	struct gq_status_writer_options options;
};

static struct gq_status_writer played_writer;
static bool writer_leads;
static unsigned writer_ticks;

struct gq_status_writer *gq_status_writer_new(const struct gq_status_writer_options *options)
{
	void *memory = malloc(1);

	free(memory);
	played_writer.options = *options;
	return memory ? &played_writer : NULL;
}

void gq_status_writer_free(struct gq_status_writer *writer)
{
	assert_true(!writer || writer == &played_writer);
}

static bool writer_gone;

void gq_status_writer_gone(struct gq_status_writer *writer)
{
	(void)writer;
	writer_gone = true;
}

void gq_status_writer_lead(struct gq_status_writer *writer, bool leads)
{
	(void)writer;
	writer_leads = leads;
}

void gq_status_writer_tick(struct gq_status_writer *writer, int64_t now_ns)
{
	(void)writer;
	assert_true(now_ns == app_time.mono_ns);
	writer_ticks++;
}

void gq_status_writer_stats(struct gq_status_writer *writer,
			    struct gq_status_writer_stats *ret_stats)
{
	(void)writer;
	*ret_stats = (struct gq_status_writer_stats){.written = 5, .failed = 6};
}

/* ---- the others, played ---- */

void gq_journal_stats(struct gq_journal *journal, struct gq_journal_stats *ret_stats)
{
	(void)journal;
	*ret_stats = (struct gq_journal_stats){.held = true, .epoch = 7, .problem = "forbidden"};
}

void gq_policy_source_status(struct gq_policy_source *source, struct gq_policy_status *ret_status)
{
	(void)source;
	*ret_status = (struct gq_policy_status){.in_force = true, .hash = "0123abcd"};
}

/* What was told since it was looked at last, a line each. */
static char told[8192];

static inline void tell(const char *line)
{
	size_t len = strlen(told);

	(void)snprintf(told + len, sizeof told - len, "%s\n", line);
}

static inline void expect(const char *lines)
{
	assert_string_equal(told, lines);
	told[0] = '\0';
}

static const struct gq_event_notes played_notes;

static inline void put_limit(struct gq_buf *out, const char *what,
			     const struct gq_limit_note *limit)
{
	gq_buf_printf(out, "%s %s %s ", limit->tenant, what, limit->class_name);
	if (limit->memory) {
		gq_mib_print(out, limit->held);
		gq_buf_putc(out, '/');
		gq_mib_print(out, limit->limit);
	} else {
		gq_shares_print(out, limit->held);
		gq_buf_putc(out, '/');
		gq_shares_print(out, limit->limit);
	}
}

void gq_note_tenant_over(const struct gq_event_notes *notes, const struct gq_limit_note *limit)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	fail_alloc_hold(true);
	assert_ptr_equal(notes, &played_notes);
	put_limit(&out, "over", limit);
	gq_buf_puts(&out, ":");
	for (size_t i = 0; i < limit->n_pods && i < GQ_USAGE_HOLDERS_MAX; i++)
		gq_buf_printf(&out, " %s%s", i < limit->n_unasked ? "!" : "", limit->pods[i]);
	if (limit->n_pods > GQ_USAGE_HOLDERS_MAX)
		gq_buf_printf(&out, " of %zu", limit->n_pods);
	tell(out.data);
	fail_alloc_hold(false);
}

void gq_note_tenant_within(const struct gq_event_notes *notes, const struct gq_limit_note *limit)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	fail_alloc_hold(true);
	assert_ptr_equal(notes, &played_notes);
	put_limit(&out, "within", limit);
	assert_int_equal(limit->n_pods, 0);
	tell(out.data);
	fail_alloc_hold(false);
}

void gq_note_ledger_drift(const struct gq_event_notes *notes, unsigned n_limits,
			  const char *details)
{
	char line[1200];

	assert_ptr_equal(notes, &played_notes);
	(void)snprintf(line, sizeof line, "drift in %u: %s", n_limits, details);
	tell(line);
}

void gq_note_namespace_ambiguous(const struct gq_event_notes *notes, const char *namespace_,
				 const char *first, const char *second)
{
	char line[512];

	assert_ptr_equal(notes, &played_notes);
	(void)snprintf(line, sizeof line, "%s of %s and %s", namespace_, first, second);
	tell(line);
}

/* ---- a ledger, and what is reported of it ---- */

#define POLICY                                                                                     \
	APP_POLICY_HEAD "tenants:\n"                                                               \
			"  - name: team-a\n    namespaces: [a-train]\n"                            \
			"    quota: {A100: {gpus: 2, memory: 240Gi}}\n"                            \
			"  - name: team-b\n    namespaceSelector: {matchLabels: {b: \"1\"}}\n"     \
			"    quota: {A100: {gpus: 1}}\n"                                           \
			"  - name: team-c\n    namespaceSelector: {matchLabels: {c: \"1\"}}\n"     \
			"    quota: {A100: {gpus: 1}}\n"

static unsigned relists;

static inline void on_relist(void *arg)
{
	assert_ptr_equal(arg, &told);
	relists++;
}

static inline struct gq_reporting *make(void)
{
	return gq_reporting_new(&(struct gq_reporting_options){.ledger = ledger,
							       .clock = &app_time.clock,
							       .notes = &played_notes,
							       .namespace_ = "gpuquota-system",
							       .identity = "pod-a",
							       .relist = on_relist,
							       .arg = &told});
}

static inline int setup(void **state)
{
	(void)state;
	app_clock_init(&app_time);
	recount_runs = recount_busy = writer_leads = false;
	recounts = writer_ticks = relists = 0;
	told[0] = '\0';
	ledger = app_ledger(POLICY);
	reporting = make();
	return reporting ? 0 : -1;
}

static inline int teardown(void **state)
{
	(void)state;
	gq_reporting_free(reporting);
	gq_reporting_free(NULL);
	gq_ledger_free(ledger);
	return 0;
}

static inline void lead(bool leads)
{
	gq_ledger_set_deciding(ledger, leads);
	gq_reporting_lead(reporting, leads);
}

static inline void tick(void)
{
	gq_reporting_tick(reporting, app_time.mono_ns);
}

/* Ticks as main does, less often; recounts end at once, and find nothing. */
static inline void pass_s(unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		app_time.mono_ns += GQ_NS_PER_S;
		app_time.wall_s++;
		tick();
		if (recount_runs)
			end_well();
	}
}

/* A pod on a1. */
static inline void seen(const char *name, int gpus)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_pod *pod = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json,
		      "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"%s\",\"uid\":\"%s\"},"
		      "\"spec\":{\"nodeName\":\"a1\",\"containers\":[{\"name\":\"c\",\"resources\":"
		      "{\"limits\":{\"nvidia.com/gpu\":\"%d\"}}}]}}",
		      name, name, gpus);
	if (gq_pod_decode(json.data, json.len, NULL, &pod, &err) ||
	    gq_ledger_pod_seen(ledger, pod, app_time.mono_ns, &err))
		fail_msg("%s", err.msg);
	gq_pod_unref(pod);
}

static inline void gone(const char *uid)
{
	gq_ledger_pod_gone(ledger, uid, app_time.mono_ns);
}

/* labels: "b":"1", or "" */
static inline void namespace_seen(const char *name, const char *labels)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_namespace *ns = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json, "{\"metadata\":{\"name\":\"%s\",\"labels\":{%s}}}", name, labels);
	if (gq_namespace_decode(json.data, json.len, &ns, &err) ||
	    gq_ledger_namespace_seen(ledger, ns, app_time.mono_ns, &err))
		fail_msg("%s", err.msg);
	gq_namespace_unref(ns);
}

static inline void gather(struct gq_status_facts *ret_facts)
{
	struct gq_err err;

	memset(ret_facts, 0, sizeof *ret_facts);
	assert_int_equal(played_writer.options.gather(played_writer.options.arg, ret_facts, &err),
			 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
