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

static void test_lists_tell_when_they_were_asked_for(void **state)
{
	struct sim *sim = *state;
	int64_t began = sim->now;

	(void)sim_begin(sim, 0, 0);
	sim->now += 2 * S;
	sim_head(sim, 200);
	assert_int_equal(sim->begun_ns, began);
	sim->begun_ns = 0;
	sim->now += 2 * S;
	sim_text(sim, SIM_EVENT("ADDED", "a", "7") SIM_MARKER("9"));
	assert_int_equal(sim->begun_ns, began);
	/* by pages it is the first of them, whatever became of the others */
	sim->options.no_watch_list = true;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 503, "");
	(void)sim_begin(sim, 800 * MS, 1600 * MS);
	began = sim->now;
	sim->now += S;
	sim_answer(sim, 200, SIM_LIST("8", "tok", SIM_POD("a", "3")));
	assert_int_equal(sim->begun_ns, began);
	sim->begun_ns = 0;
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 503, "");
	(void)sim_begin(sim, 800 * MS, 30 * S);
	sim_answer(sim, 200, SIM_LIST("8", "", SIM_POD("b", "4")));
	sim_expect(sim, "[+a@7]!synced[+a@3+b@4]!synced");
	assert_int_equal(sim->begun_ns, began);
}

static void relist(struct sim *sim)
{
	gq_reflector_relist(sim->reflector, sim->now);
}

static void test_relist_of_a_watch(void **state)
{
	struct sim *sim = *state;

	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	sim_text(sim, SIM_MARKER("9") SIM_EVENT("ADDED", "a", "10"));
	sim->now += S;
	relist(sim);
	assert_false(gq_reflector_counters(sim->reflector)->connected);
	assert_true(has(sim_begin(sim, 0, 0), "sendInitialEvents"));
	sim_head(sim, 200);
	sim_text(sim, SIM_EVENT("ADDED", "a", "10") SIM_MARKER("12"));
	assert_int_equal(sim->begun_ns, sim->now);
	sim_expect(sim, "[]!synced+a@10[+a@10]");
	sim->now += 400 * S;
	sim_end(sim);
	assert_true(has(sim_begin(sim, 0, 0), "&resourceVersion=12"));
	/* and between two requests of a server without WatchList */
	sim->options.no_watch_list = true;
	sim_restart(sim);
	sim_to_watch(sim);
	sim_answer(sim, 200, SIM_EVENT("ADDED", "b", "11"));
	relist(sim);
	assert_true(has(sim_begin(sim, 0, 0), "/pods?limit=500"));
	assert_int_equal(sim->n_problems, 0);
	assert_int_equal(gq_reflector_counters(sim->reflector)->errors, 0);
}

static void test_relist_of_a_list(void **state)
{
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim_restart(sim);
	int64_t began = sim->now;
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 200, SIM_LIST("8", "tok", SIM_POD("a", "3")));
	assert_true(has(sim_begin(sim, 0, 0), "continue=tok"));
	sim->now += S;
	relist(sim);
	relist(sim); /* two before it has begun are one */
	assert_false(has(sim_begin(sim, 0, 0), "continue"));
	sim_answer(sim, 200, SIM_LIST("9", "", SIM_POD("b", "4")));
	sim_expect(sim, "[+a@3[+b@4]!synced");
	assert_int_equal(sim->begun_ns, began + S);
	/* a WatchList in the middle of an object */
	sim->options.no_watch_list = false;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	sim_text(sim, SIM_EVENT("ADDED", "a", "5") "{\"type\":\"ADD");
	relist(sim);
	assert_true(has(sim_begin(sim, 0, 0), "sendInitialEvents"));
	sim_head(sim, 200);
	sim_text(sim, SIM_EVENT("ADDED", "c", "6") SIM_MARKER("7"));
	sim_expect(sim, "[+a@5[+c@6]!synced");
}

/* A failure before does not hold it up, one after it does. */
static void test_relist_knows_no_backoff(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	for (int i = 0; i < 6; i++) {
		sim_answer(sim, 503, "");
		if (i < 5)
			(void)sim_begin(sim, 100 * MS, 30 * S);
	}
	relist(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 503, "");
	(void)sim_begin(sim, 5 * S, 30 * S);
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, sim_set_up, sim_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_watch_list_then_watch_on_one_stream),
	    TEST(test_version_is_not_kept_before_the_marker),
	    TEST(test_paged_list),
	    TEST(test_lists_tell_when_they_were_asked_for),
	    TEST(test_relist_of_a_watch),
	    TEST(test_relist_of_a_list),
	    TEST(test_relist_knows_no_backoff),
	    TEST(test_bookmarks_advance_the_version),
	    TEST(test_silence),
	    TEST(test_trailers_are_no_second_answer),
	    TEST(test_requests_that_cannot_be_made),
	    TEST(test_timeouts_are_drawn_anew),
	    TEST(test_resources_that_lack_something),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
