#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "reflector_sim.h"

#define MS GQ_NS_PER_MS
#define S GQ_NS_PER_S

static int set_up(void **state)
{
	struct sim *sim = malloc(sizeof *sim);

	if (!sim)
		return -1;
	sim_init(sim);
	*state = sim;
	return 0;
}

static int tear_down(void **state)
{
	sim_done(*state);
	free(*state);
	return 0;
}

static bool has(const char *path, const char *part)
{
	return strstr(path, part) != NULL;
}

static long number_after(const char *path, const char *key)
{
	const char *at = strstr(path, key);

	assert_non_null(at);
	return strtol(at + strlen(key), NULL, 10);
}

static void test_watch_list_then_watch_on_one_stream(void **state)
{
	struct sim *sim = *state;
	const char *path = sim_begin(sim, 0, 0);

	assert_memory_equal(path, "/api/v1/pods?watch=1&", 21);
	assert_true(has(path, "&allowWatchBookmarks=true"));
	assert_true(has(path, "&sendInitialEvents=true"));
	assert_true(has(path, "&resourceVersionMatch=NotOlderThan"));
	assert_int_equal(strcmp(path + strlen(path) - 17, "&resourceVersion="), 0);
	assert_in_range(number_after(path, "timeoutSeconds="), 300, 600);
	sim_head(sim, 200);
	sim_expect(sim, "[");
	assert_false(gq_reflector_counters(sim->reflector)->connected);
	sim_text(sim, SIM_EVENT("ADDED", "b", "7") SIM_EVENT("ADDED", "a", "9"));
	gq_reflector_idle(sim->reflector);
	gq_reflector_idle(sim->reflector);
	sim_expect(sim, "+b@7+a@9.");
	assert_false(gq_reflector_counters(sim->reflector)->synced);
	sim_text(sim,
		 SIM_MARKER("12") SIM_EVENT("MODIFIED", "a", "13") SIM_EVENT("DELETED", "b", "14"));
	gq_reflector_idle(sim->reflector);
	sim_expect(sim, "]!synced+a@13-b@14.");
	assert_true(gq_reflector_counters(sim->reflector)->synced);
	assert_true(gq_reflector_counters(sim->reflector)->connected);
	assert_int_equal(gq_reflector_counters(sim->reflector)->events, 4);
	assert_int_equal(gq_reflector_counters(sim->reflector)->lists, 1);
	/* a clean end resumes at the last version, at once */
	sim->now += 400 * S;
	sim_end(sim);
	path = sim_begin(sim, 0, 0);
	assert_true(has(path, "&resourceVersion=14"));
	assert_false(has(path, "sendInitialEvents"));
	assert_int_equal(sim->n_problems, 0);
	assert_false(gq_reflector_counters(sim->reflector)->connected);
}

static void test_version_is_not_kept_before_the_marker(void **state)
{
	struct sim *sim = *state;

	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	sim_text(sim, SIM_EVENT("ADDED", "a", "90") SIM_BOOKMARK("95"));
	sim->now += 5 * S;
	sim_end(sim); /* before the marker: not a list */
	sim_expect(sim, "[+a@90");
	assert_int_equal(sim->n_problems, 1);
	assert_int_equal(sim->last_code, GQ_EIO);
	assert_string_equal(sim->problem.data,
			    "WatchList: ended before the end of the initial events");
	/* this time by pages */
	assert_true(has(sim_begin(sim, 800 * MS, 1600 * MS), "/pods?limit=500"));
	sim_answer(sim, 200, SIM_LIST("97", "", SIM_POD("a", "90")));
	sim_expect(sim, "[+a@90]!synced");
	assert_true(has(sim_begin(sim, 0, 0), "&resourceVersion=97"));
	/* and by WatchList again the next time */
	sim_answer(sim, 410, SIM_STATUS(410, "Expired"));
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "sendInitialEvents"));
}

static void test_refused_watch_list_is_not_asked_again(void **state)
{
	static const long refusals[] = {422, 400};
	struct sim *sim = *state;

	for (size_t i = 0; i < 2; i++) {
		sim_restart(sim);
		(void)sim_begin(sim, 0, 0);
		sim_answer(sim, refusals[i], SIM_STATUS(422, "Invalid"));
		sim_expect(sim, ""); /* nobody was told of a list */
		assert_true(has(sim_begin(sim, 0, 0), "limit=500"));
		sim_answer(sim, 200, SIM_LIST("5", "", ""));
		sim_expect(sim, "[]!synced");
		(void)sim_begin(sim, 0, 0);
		sim_answer(sim, 410, SIM_STATUS(410, "Expired"));
		assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "limit=500"));
	}
	sim->options.no_watch_list = true;
	sim_restart(sim);
	assert_true(has(sim_begin(sim, 0, 0), "limit=500"));
}

static void test_any_failure_of_watch_list_falls_back(void **state)
{
	static const long failures[] = {401, 403, 404, 410, 500, 503, 504};
	struct sim *sim = *state;

	for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
		sim_restart(sim);
		(void)sim_begin(sim, 0, 0);
		sim_answer(sim, failures[i], SIM_STATUS(500, "InternalError"));
		assert_true(has(sim_begin(sim, 800 * MS, 1600 * MS), "limit=500"));
	}
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_break(sim);
	assert_true(has(sim_begin(sim, 800 * MS, 1600 * MS), "limit=500"));
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 200, SIM_ERROR(500, "InternalError"));
	assert_true(has(sim_begin(sim, 800 * MS, 1600 * MS), "limit=500"));
	/* but not when the server only asks for time */
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 429);
	gq_reflector_end(sim->reflector, sim->now, NULL, 9);
	assert_true(has(sim_begin(sim, 9 * S, 9 * S), "sendInitialEvents"));
}

static void test_server_that_ignores_watch_list(void **state)
{
	struct sim *sim = *state;

	/* initial events come, then nothing: no marker within ten seconds */
	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	sim->now += 9 * S;
	sim_text(sim, SIM_EVENT("ADDED", "a", "9"));
	assert_int_equal(gq_reflector_deadline(sim->reflector), sim->now + 10 * S);
	sim->now += 10 * S;
	gq_reflector_cut(sim->reflector, sim->now);
	assert_int_equal(sim->last_code, GQ_EIO);
	assert_true(has(sim_begin(sim, 800 * MS, 1600 * MS), "limit=500"));
	sim_answer(sim, 200, SIM_LIST("10", "", SIM_POD("a", "9")));
	sim_expect(sim, "[+a@9[+a@9]!synced");
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 410, SIM_STATUS(410, "Gone"));
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "limit=500"));

	/* events come all the time: two minutes at most */
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	int64_t began = sim->now;
	sim_head(sim, 200);
	while (sim->now < began + 115 * S) {
		sim->now += 5 * S;
		sim_text(sim, SIM_EVENT("MODIFIED", "a", "9") SIM_BOOKMARK("9"));
	}
	assert_int_equal(gq_reflector_deadline(sim->reflector), began + 120 * S);
	sim->now = began + 120 * S;
	gq_reflector_cut(sim->reflector, sim->now);
	assert_true(has(sim_begin(sim, 800 * MS, 1600 * MS), "limit=500"));
}

static void test_paged_list(void **state)
{
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim->options.page_size = 2;
	sim->resource.field_selector = "metadata.name=gpuquota-policy,x!=é&";
	sim_restart(sim);
	assert_string_equal(
	    sim_begin(sim, 0, 0),
	    "/api/v1/"
	    "pods?fieldSelector=metadata.name%3Dgpuquota-policy%2Cx%21%3D%C3%A9%26&limit=2");
	sim_answer(sim, 200, SIM_LIST("8", "to+ke/n=", SIM_POD("a", "3") "," SIM_POD("b", "4")));
	assert_true(has(sim_begin(sim, 0, 0), "&limit=2&continue=to%2Bke%2Fn%3D"));
	/* an empty page is not the end; only an empty token is */
	sim_answer(sim, 200, SIM_LIST("8", "next", ""));
	assert_true(has(sim_begin(sim, 0, 0), "&continue=next"));
	sim_expect(sim, "[+a@3+b@4");
	sim_answer(
	    sim, 200,
	    "{\"items\":[" SIM_POD(
		"c", "5") "],\"metadata\":{\"resourceVersion\":\"8\"},\"kind\":\"PodList\"}");
	sim_expect(sim, "+c@5]!synced");
	const char *path = sim_begin(sim, 0, 0);
	assert_true(has(path, "fieldSelector=metadata.name%3D"));
	assert_true(has(path, "&resourceVersion=8"));
	assert_int_equal(sim->n_problems, 0);
}

static void test_expired_continue_token_restarts_the_list(void **state)
{
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 200, SIM_LIST("8", "t1", SIM_POD("a", "3")));
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 410, SIM_STATUS(410, "Expired"));
	assert_int_equal(sim->last_code, GQ_EGONE);
	/* from the first page, never with the token that the Status offers */
	assert_string_equal(sim_begin(sim, 800 * MS, 1600 * MS), "/api/v1/pods?limit=500");
	sim_answer(sim, 200, SIM_LIST("9", "", SIM_POD("b", "4")));
	sim_expect(sim, "[+a@3[+b@4]!synced");
}

static void test_page_that_fails_is_asked_again(void **state)
{
	static const long failures[] = {429, 500, 502, 503, 504, 401, 403, 0};
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 200, SIM_LIST("8", "t1", SIM_POD("a", "3")));
	for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
		assert_true(has(sim_begin(sim, 0, 30 * S), "&continue=t1"));
		if (failures[i])
			sim_answer(sim, failures[i], "oh no");
		else
			sim_break(sim);
		assert_true(gq_reflector_deadline(sim->reflector) >= sim->now + 800 * MS);
	}
	/* a page that breaks off half way comes again: objects twice do no harm */
	(void)sim_begin(sim, 0, 30 * S);
	sim_head(sim, 200);
	sim_text(sim, "{\"items\":[" SIM_POD("b", "4") ",");
	sim_break(sim);
	assert_true(has(sim_begin(sim, 0, 30 * S), "&continue=t1"));
	sim_answer(sim, 200, SIM_LIST("8", "", SIM_POD("b", "4")));
	sim_expect(sim, "[+a@3+b@4+b@4]!synced");
}

static void test_answers_that_are_no_list(void **state)
{
	static const struct {
		const char *body;
		int code;
	} cases[] = {
	    {"<html>Sign in</html>", GQ_EINVALID},
	    {"", GQ_EINVALID},
	    {"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"8\"},\"items\":[",
	     GQ_EINVALID},
	    {"{\"kind\":\"PodList\",\"metadata\":{},\"items\":[]}", GQ_EINVALID},
	    {SIM_STATUS(410, "Expired"), GQ_EGONE},
	    {SIM_STATUS(500, "InternalError"), GQ_EIO},
	};
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		sim_restart(sim);
		(void)sim_begin(sim, 0, 0);
		sim_answer(sim, 200, cases[i].body);
		assert_int_equal(sim->last_code, cases[i].code);
		assert_false(gq_reflector_counters(sim->reflector)->synced);
		assert_string_equal(sim_begin(sim, 800 * MS, 1600 * MS), "/api/v1/pods?limit=500");
	}
}

static void test_bookmarks_advance_the_version(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	assert_true(has(sim->path.data, "&resourceVersion=10"));
	sim_head(sim, 200);
	sim_text(sim, SIM_EVENT("MODIFIED", "a", "20") SIM_BOOKMARK("opaque-77"));
	gq_reflector_idle(sim->reflector);
	sim_expect(sim, "+a@20.");
	sim->now += 2 * S;
	sim_break(sim);
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=opaque-77"));
	assert_int_equal(sim->n_problems, 1);
}

static void test_watches_of_no_time(void **state)
{
	struct sim *sim = *state;

	/* ended at once and empty: an error */
	sim_to_watch(sim);
	sim_answer(sim, 200, "");
	assert_int_equal(sim->n_problems, 1);
	assert_string_equal(sim->problem.data, "watch: ended at once, without an event");
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=10"));
	/* ended at once with an event: no error, but watches begin a second apart */
	sim_answer(sim, 200, SIM_EVENT("MODIFIED", "a", "11"));
	assert_int_equal(sim->n_problems, 1);
	assert_true(has(sim_begin(sim, 1 * S, 1 * S), "&resourceVersion=11"));
	/* empty for longer than a second: no error */
	sim_head(sim, 200);
	sim->now += 1 * S;
	sim_end(sim);
	assert_int_equal(sim->n_problems, 1);
	assert_true(has(sim_begin(sim, 0, 0), "&resourceVersion=11"));
}

static void test_what_makes_a_watch_list_again(void **state)
{
	static const struct {
		long status;
		const char *body;
		int code;
	} cases[] = {
	    {410, SIM_STATUS(410, "Expired"), GQ_EGONE},
	    {410, "", GQ_EGONE},
	    {200, SIM_ERROR(410, "Expired"), GQ_EGONE},
	    {200, SIM_ERROR(410, "Gone"), GQ_EGONE},
	    {200, SIM_ERROR(0, "Expired"), GQ_EGONE},
	    {200, SIM_ERROR(500, "InternalError"), GQ_EIO},
	    {200, SIM_ERROR(429, "TooManyRequests"), GQ_ETHROTTLED},
	    {200, "{\"type\":\"ERROR\",\"object\":{}}", GQ_EIO},
	    {400, SIM_STATUS(400, "BadRequest"), GQ_EINVALID},
	    {404, SIM_STATUS(404, "NotFound"), GQ_ENOTFOUND},
	    {504,
	     "{\"kind\":\"Status\",\"code\":504,\"reason\":\"Timeout\",\"details\":{\"causes\":[{"
	     "\"reason\":\"ResourceVersionTooLarge\"}],\"retryAfterSeconds\":1}}",
	     GQ_EIO},
	    {200, "not JSON", GQ_EINVALID},
	    {200, "{\"type\":\"RENAMED\",\"object\":" SIM_POD("a", "11") "}", GQ_EINVALID},
	    {200, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"v\"}}}", GQ_EINVALID},
	};
	struct sim *sim = *state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		sim_restart(sim);
		sim_to_watch(sim);
		sim_answer(sim, cases[i].status, cases[i].body);
		assert_int_equal(sim->n_problems, 1);
		assert_int_equal(sim->last_code, cases[i].code);
		assert_string_equal(sim_begin(sim, 800 * MS, 30 * S), "/api/v1/pods?limit=500");
		/* what is missing from the new list was deleted: the consumer sees it by the marks
		 */
		gq_buf_reset(&sim->log);
		sim_answer(sim, 200, SIM_LIST("50", "", SIM_POD("z", "49")));
		sim_expect(sim, "[+z@49]");
	}
}

static void test_what_resumes_a_watch(void **state)
{
	static const long failures[] = {401, 403, 429, 500, 502, 503, 504};
	struct sim *sim = *state;

	sim_to_watch(sim);
	for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
		sim_answer(sim, failures[i], SIM_STATUS(500, "x"));
		assert_int_equal(sim->n_problems, i + 1);
		assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=10"));
	}
	sim_break(sim);
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=10"));
	sim_expect(sim, "");
}

static void test_retry_after(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	sim_head(sim, 429);
	gq_reflector_end(sim->reflector, sim->now, NULL, 47);
	(void)sim_begin(sim, 47 * S, 47 * S);
	/* in the Status */
	sim_answer(sim, 429,
		   "{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":52}}");
	(void)sim_begin(sim, 52 * S, 52 * S);
	/* in an ERROR event */
	sim_answer(sim, 200,
		   "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":429,\"details\":"
		   "{\"retryAfterSeconds\":61}}}");
	(void)sim_begin(sim, 61 * S, 61 * S);
	/* no day of silence */
	sim_head(sim, 503);
	gq_reflector_end(sim->reflector, sim->now, NULL, 86400);
	(void)sim_begin(sim, 300 * S, 300 * S);
}

static void test_silence(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	assert_int_equal(gq_reflector_deadline(sim->reflector), sim->now + 90 * S);
	sim_head(sim, 200);
	sim->now += 89 * S;
	sim_text(sim, SIM_BOOKMARK("11"));
	assert_int_equal(gq_reflector_deadline(sim->reflector), sim->now + 90 * S);
	/* a stall in the middle of an object is silence too */
	sim_text(sim, "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\",");
	sim->now += 90 * S;
	gq_reflector_cut(sim->reflector, sim->now);
	assert_string_equal(sim->problem.data, "watch: no byte for 90 s: cut");
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=11"));
	sim_expect(sim, "");

	sim->options.silence_ns = 5 * S;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	assert_int_equal(gq_reflector_deadline(sim->reflector), sim->now + 5 * S);
	sim->now += 5 * S;
	gq_reflector_cut(sim->reflector, sim->now); /* no answer at all */
	(void)sim_begin(sim, 800 * MS, 1600 * MS);
}

static void test_failures_never_spin(void **state)
{
	struct sim *sim = *state;

	/* whatever goes wrong, a hundred times in a row: the pace falls to the ceiling */
	for (int i = 0; i < 100; i++) {
		(void)sim_begin(sim, i ? 800 * MS : 0, 30 * S);
		if (i % 3 == 0)
			sim_answer(sim, 200, "{\"type\":\"ADDED\",");
		else if (i % 3 == 1)
			sim_answer(sim, 500, "");
		else
			sim_break(sim);
		if (i > 10)
			assert_true(gq_reflector_deadline(sim->reflector) >= sim->now + 22 * S);
	}
	assert_int_equal(sim->n_problems, 100);
	assert_int_equal(gq_reflector_counters(sim->reflector)->errors, 100);
}

static void test_relist_loops_do_not_spin(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	for (int i = 0; i < 20; i++) { /* lists go well, every watch is told 410 */
		sim_answer(sim, 410, SIM_STATUS(410, "Expired"));
		(void)sim_begin(sim, i < 6 ? 800 * MS : 22 * S, 30 * S);
		sim_answer(sim, 200, SIM_LIST("50", "", ""));
		(void)sim_begin(sim, 0, 0);
	}
}

static void test_trailers_are_no_second_answer(void **state)
{
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	sim_text(sim, SIM_LIST("5", "", SIM_POD("a", "3")));
	sim_head(sim, 200);
	sim_end(sim);
	sim_expect(sim, "[+a@3]!synced");
}

static void test_requests_that_cannot_be_made(void **state)
{
	struct sim *sim = *state;
	struct gq_buf none = GQ_BUF_INIT(0);
	struct gq_err err = {0};

	/* what the request before has left does not count */
	sim_to_watch(sim);
	sim_answer(sim, 410, SIM_STATUS(410, "Expired"));
	(void)sim_begin(sim, 0, 30 * S);
	sim_answer(sim, 200, SIM_LIST("50", "", ""));
	assert_int_equal(gq_reflector_begin(sim->reflector, sim->now, &none, &err), GQ_ETOOBIG);
	gq_reflector_end(sim->reflector, sim->now, &err, 0);
	assert_int_equal(sim->last_code, GQ_ETOOBIG);
	assert_true(has(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=50"));
}

static void test_timeouts_are_drawn_anew(void **state)
{
	struct sim *sim = *state;
	long first, distinct = 0;

	sim->options.watch_timeout_ns = 20 * S;
	sim_restart(sim);
	sim_to_watch(sim);
	first = number_after(sim->path.data, "timeoutSeconds=");
	for (int i = 0; i < 30; i++) {
		sim_head(sim, 200);
		sim->now += 2 * S;
		sim_end(sim);
		long next = number_after(sim_begin(sim, 0, 0), "timeoutSeconds=");
		assert_in_range(next, 20, 40);
		distinct += next != first;
	}
	assert_true(distinct > 5);
}

static void test_resources_that_lack_something(void **state)
{
	struct sim *sim = *state;
	struct gq_informer_resource broken[4];
	struct gq_reflector *reflector = NULL;

	for (size_t i = 0; i < 4; i++)
		broken[i] = sim->resource;
	broken[0].name = NULL;
	broken[1].path = "api/v1";
	broken[2].keep = NULL;
	broken[3].on_event = NULL;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(gq_reflector_new(&broken[i], &sim->options, 1, &reflector, NULL),
				 GQ_EINVALID);
	assert_null(reflector);
	gq_reflector_free(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_watch_list_then_watch_on_one_stream),
	    TEST(test_version_is_not_kept_before_the_marker),
	    TEST(test_refused_watch_list_is_not_asked_again),
	    TEST(test_any_failure_of_watch_list_falls_back),
	    TEST(test_server_that_ignores_watch_list),
	    TEST(test_paged_list),
	    TEST(test_expired_continue_token_restarts_the_list),
	    TEST(test_page_that_fails_is_asked_again),
	    TEST(test_answers_that_are_no_list),
	    TEST(test_bookmarks_advance_the_version),
	    TEST(test_watches_of_no_time),
	    TEST(test_what_makes_a_watch_list_again),
	    TEST(test_what_resumes_a_watch),
	    TEST(test_retry_after),
	    TEST(test_silence),
	    TEST(test_failures_never_spin),
	    TEST(test_relist_loops_do_not_spin),
	    TEST(test_trailers_are_no_second_answer),
	    TEST(test_requests_that_cannot_be_made),
	    TEST(test_timeouts_are_drawn_anew),
	    TEST(test_resources_that_lack_something),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
