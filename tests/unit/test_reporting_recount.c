/* When is counted anew, and what is made of the result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/reporting_world.h"

/* ---- recounts ---- */

static void periodic(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 25; i++) {
		lead(i % 2 == 0); /* whoever leads or not */
		pass_s(299);
		assert_int_equal(recounts, i - 1);
		app_time.mono_ns += GQ_NS_PER_S;
		tick();
		assert_int_equal(recounts, i);
		assert_int_equal(recount_lists, i % 12 == 0);
		if (recount_lists) {
			played_recounter.options.relist(played_recounter.options.arg);
			assert_int_equal(relists, i / 12);
		}
		end_well();
	}
}

static void not_before_it_is_ready(void **state)
{
	(void)teardown(state);
	ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	reporting = make();
	assert_non_null(reporting);
	lead(true);
	pass_s(1000);
	assert_int_equal(recounts, 0);
	assert_int_equal(writer_ticks, 1000);
	app_set_policy(ledger, POLICY);
	gq_ledger_set_synced(ledger);
	tick();
	assert_int_equal(recounts, 1);
}

/* One at a time, however long it takes. */
static void one_at_a_time(void **state)
{
	(void)state;
	app_time.mono_ns += 300 * GQ_NS_PER_S;
	tick();
	app_time.mono_ns += 900 * GQ_NS_PER_S;
	tick();
	assert_int_equal(recounts, 1);
	end_well();
	tick();
	assert_int_equal(recounts, 2);
	end_well();

	/* one that was told to be over may not quite be: then a moment later, not in five minutes,
	 * and the one with a list is not left out */
	for (unsigned i = 3; i <= 12; i++) {
		app_time.mono_ns += 300 * GQ_NS_PER_S;
		recount_busy = true;
		tick();
		tick();
		assert_int_equal(recounts, i - 1);
		recount_busy = false;
		tick();
		assert_int_equal(recounts, i);
		assert_int_equal(recount_lists, i == 12);
		end_well();
	}
}

static int status_event(enum gq_event_kind kind, const char *json)
{
	const struct gq_event event = {.kind = kind, .json = json, .len = strlen(json)};
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 16);
	struct gq_err err;

	if (json[0] && gq_json_prune(json, strlen(json), gq_reporting_status_keep, &kept, NULL))
		return gq_reporting_status_event(reporting, &event, &err);
	return gq_reporting_status_event(
	    reporting,
	    &(struct gq_event){.kind = kind, .json = json[0] ? kept.data : "", .len = kept.len},
	    &err);
}

/* The watch shows the status with this annotation. */
static void ask(const char *request)
{
	char json[512];

	(void)snprintf(json, sizeof json,
		       "{\"metadata\":{\"name\":\"gpuquota-status\",\"annotations\":{\"other\":1,"
		       "\"" GQ_STATUS_REQUEST_ANNOTATION "\":\"%s\"}},\"data\":{\"a\":\"b\"}}",
		       request);
	assert_int_equal(status_event(GQ_EVENT_UPSERT, json), 0);
}

/* As `gpuquota usage` asks, so many seconds ago. */
static const char *request_of(int64_t ago_s)
{
	static char text[64];

	(void)snprintf(text, sizeof text, "%lld000000123", (long long)(app_time.wall_s - ago_s));
	return text;
}

static void assert_answered(const char *request)
{
	struct gq_status_facts facts;

	gather(&facts);
	assert_string_equal(facts.recount.request, request);
	gq_status_facts_done(&facts);
}

static void asked_for(void **state)
{
	char first[64];

	(void)state;
	lead(true);
	tick();
	assert_answered("");
	(void)snprintf(first, sizeof first, "%s", request_of(0));
	ask(first);
	tick();
	assert_int_equal(recounts, 1);
	assert_true(recount_lists);
	assert_answered(""); /* not yet */
	end_well();
	assert_answered(first);

	/* once, and it stays the answer when others come */
	ask(first);
	pass_s(250);
	assert_int_equal(recounts, 1);
	pass_s(100);
	assert_int_equal(recounts, 2);
	assert_false(recount_lists);
	assert_answered(first);

	/* no answer while another runs that has begun before */
	ask(request_of(5));
	tick();
	assert_int_equal(recounts, 3);
	ask(request_of(1));
	tick();
	tick();
	assert_int_equal(recounts, 3);
	end_well();
	assert_answered(request_of(5));
	tick();
	assert_int_equal(recounts, 4);
	assert_true(recount_lists);
	end_well();
	assert_answered(request_of(1));
	tick();
	assert_int_equal(recounts, 4);

	/* one that nobody asked for is no answer either */
	pass_s(299);
	app_time.mono_ns += GQ_NS_PER_S;
	app_time.wall_s++;
	tick();
	assert_int_equal(recounts, 5);
	(void)snprintf(first, sizeof first, "%s", request_of(0));
	ask(first);
	end_well();
	tick();
	assert_int_equal(recounts, 6);
	assert_true(recount_lists);
	end_well();
	assert_answered(first);
}

/* A request that could not be begun is begun a moment later. */
static void asked_for_too_early(void **state)
{
	(void)state;
	lead(true);
	recount_busy = true;
	ask(request_of(0));
	tick();
	recount_busy = false;
	tick();
	assert_int_equal(recounts, 1);
	end_well();
	assert_answered(request_of(0));
}

/* Recounts that are asked for are not among those of which the twelfth has a list. */
static void asked_for_between(void **state)
{
	(void)state;
	lead(true);
	for (unsigned i = 1; i <= 12; i++) {
		ask(request_of(0));
		tick();
		assert_true(recount_lists);
		end_well();
		app_time.mono_ns += 300 * GQ_NS_PER_S;
		app_time.wall_s += 300;
		tick();
		assert_int_equal(recounts, 2 * i);
		assert_int_equal(recount_lists, i == 12);
		end_well();
	}
}

static void which_requests(void **state)
{
	static const char longest[] =
	    "012345678901234567890123456789012345678901234567890123456789012";
	struct {
		const char *request;
		bool answered;
	} cases[] = {
	    {strdup(request_of(91)), false}, /* others have answered it, or nobody waits any more */
	    {strdup(request_of(900)), true}, /* a clock behind ours */
	    {strdup(request_of(-3000)), true}, /* a clock ahead of ours */
	    {"please", true},
	    {"2026-11-30T12:00:00Z", true},
	    {"1", true},
	    {"99999999999999999999999", true},
	    {longest, true},
	    {"abc3456789012345678901234567890123456789012345678901234567890123", false},
	    {"", false},
	};

	(void)state;
	assert_int_equal(strlen(longest), GQ_STATUS_REQUEST_MAX_BYTES);
	for (size_t i = 0; i < LEN(cases); i++) {
		if (i > 0) /* the first request may be an old one; any other is made now */
			ask("");
		lead(true);
		unsigned before = recounts;
		ask(cases[i].request);
		tick();
		if (recounts - before != cases[i].answered)
			fail_msg("%s: %u recounts", cases[i].request, recounts - before);
		if (!cases[i].answered)
			continue;
		end_well();
		assert_answered(cases[i].request);
	}
	free((char *)cases[0].request);
	free((char *)cases[1].request);
	free((char *)cases[2].request);
}

static void asked_a_follower(void **state)
{
	(void)state;
	ask(request_of(0));
	tick();
	assert_int_equal(recounts, 0);
	app_time.mono_ns += 10 * GQ_NS_PER_S;
	app_time.wall_s += 10;
	lead(true); /* soon enough for whoever waits */
	tick();
	assert_int_equal(recounts, 1);
	assert_true(recount_lists);
	end_well();
	assert_answered(request_of(10));
}

/* A recount of its own is no answer: it has taken no list. */
static void asked_a_follower_that_counts(void **state)
{
	(void)state;
	pass_s(295);
	ask(request_of(0));
	pass_s(10);
	assert_int_equal(recounts, 1);
	assert_answered("");
	lead(true);
	tick();
	assert_int_equal(recounts, 2);
	assert_true(recount_lists);
	end_well();
	assert_answered(request_of(10));
}

static void other_events(void **state)
{
	static const char *const cases[] = {
	    "{}",
	    "{\"metadata\":{}}",
	    "{\"metadata\":{\"annotations\":{}}}",
	    "{\"metadata\":{\"annotations\":null}}",
	    ("{\"metadata\":{\"annotations\":{\"" GQ_STATUS_REQUEST_ANNOTATION "\":\"\"}}}"),
	};
	char json[256];

	(void)state;
	lead(true);
	for (size_t i = 0; i < LEN(cases); i++)
		assert_int_equal(status_event(GQ_EVENT_UPSERT, cases[i]), 0);
	assert_int_equal(status_event(GQ_EVENT_LIST_BEGIN, ""), 0);
	assert_int_equal(status_event(GQ_EVENT_LIST_END, ""), 0);
	assert_int_equal(status_event(GQ_EVENT_IDLE, ""), 0);
	(void)snprintf(json, sizeof json, "{\"metadata\":{\"annotations\":{\"%s\":\"%s\"}}}",
		       GQ_STATUS_REQUEST_ANNOTATION, request_of(0));
	assert_int_equal(status_event(GQ_EVENT_DELETE, json), 0);
	assert_int_not_equal(status_event(GQ_EVENT_UPSERT, "{"), 0);
	assert_int_not_equal(
	    status_event(GQ_EVENT_UPSERT,
			 "{\"metadata\":{\"annotations\":{\"" GQ_STATUS_REQUEST_ANNOTATION
			 "\":7}}}"),
	    0);
	tick();
	assert_int_equal(recounts, 0);

	/* taken back before it was begun */
	ask(request_of(0));
	ask("");
	tick();
	assert_int_equal(recounts, 0);
}

/* ---- what a recount finds ---- */

static void drift(void **state)
{
	static char team_a[] = "team-a", a100[] = "A100", team_b[] = "team-b", any[] = "*",
		    p[] = "a-train/p", q[] = "b/q";
	struct gq_recount_result result = {
	    .code = GQ_EIO,
	    .problem = "the list failed",
	    .missed = {.limits[0] = {.tenant = team_a, .class_name = a100},
		       .n_limits = 1,
		       .pods[0] = p,
		       .n_pods = 1},
	    .drift = {.limits[0] = {.tenant = team_b, .class_name = any},
		      .n_limits = 1,
		      .more_limits = 2,
		      .pods[0] = q,
		      .n_pods = 1,
		      .counted = 9}};
	struct gq_reporting_stats stats;
	struct gq_status_facts facts;

	(void)state;
	lead(true);
	ask(request_of(0));
	tick();
	end_recount(&result);
	expect("drift in 4: A100 of team-a, * of team-b; pod a-train/p; pod b/q\n");
	gather(&facts);
	assert_string_equal(facts.recount.request, request_of(0));
	assert_string_equal(facts.recount.problem, "the list failed");
	assert_int_equal(facts.recount.at_s, START_WALL_S);
	assert_int_equal(facts.recount.pods, 9);
	assert_int_equal(facts.recount.n_limits, 2);
	assert_int_equal(facts.recount.more_limits, 2);
	assert_int_equal(facts.recount.n_drifted, 2);
	gq_status_facts_done(&facts);
	gq_reporting_stats(reporting, &stats);
	assert_int_equal(stats.recounts, 1);
	assert_int_equal(stats.last_recount_s, START_WALL_S);
	assert_int_equal(stats.status.written, 5);
	assert_int_equal(stats.status.failed, 6);

	/* a follower's ledger is its own affair; it is in its log, and here */
	lead(false);
	app_time.mono_ns += 300 * GQ_NS_PER_S;
	app_time.wall_s += 300;
	tick();
	end_recount(&result);
	expect("");
	gq_reporting_stats(reporting, &stats);
	assert_int_equal(stats.recounts, 2);
	assert_int_equal(stats.last_recount_s, START_WALL_S + 300);

	/* and nothing where nothing was wrong */
	lead(true);
	app_time.mono_ns += 300 * GQ_NS_PER_S;
	tick();
	end_well();
	expect("");
}

/* An answer that can't be kept is given with another recount. */
static void answering_without_memory(void **state)
{
	static char team_a[] = "team-a", a100[] = "A100";
	bool failed = true;
	long nth = 0;

	(void)state;
	lead(true);
	for (; failed; nth++) {
		app_time.wall_s++;
		ask(request_of(0));
		tick();
		fail_alloc(nth);
		end_recount(&(struct gq_recount_result){
		    .drift = {.limits[0] = {.tenant = team_a, .class_name = a100}, .n_limits = 1}});
		failed = fail_alloc_done();
		tick();
		if (recount_runs)
			end_well();
		assert_answered(request_of(0));
	}
	assert_true(nth > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(periodic),
	    TEST(not_before_it_is_ready),
	    TEST(one_at_a_time),
	    TEST(asked_for),
	    TEST(asked_for_too_early),
	    TEST(asked_for_between),
	    TEST(which_requests),
	    TEST(asked_a_follower),
	    TEST(asked_a_follower_that_counts),
	    TEST(other_events),
	    TEST(drift),
	    TEST(answering_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
