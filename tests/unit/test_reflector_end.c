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

static void test_hurry(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	for (int i = 0; i < 8; i++) {
		sim_answer(sim, 401, "");
		(void)sim_begin(sim, 800 * MS, 30 * S);
	}
	sim_answer(sim, 401, "");
	gq_reflector_hurry(sim->reflector, sim->now);
	assert_non_null(strstr(sim_begin(sim, 0, 0), "&resourceVersion=10"));
	/* of no use to one that runs */
	gq_reflector_hurry(sim->reflector, sim->now + S);
	assert_true(gq_reflector_deadline(sim->reflector) >= sim->now + 90 * S);
	/* and it is no excuse for what fails again */
	sim_answer(sim, 401, "");
	(void)sim_begin(sim, 22 * S, 30 * S);
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, sim_set_up, sim_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_refused_watch_list_is_not_asked_again),
	    TEST(test_any_failure_of_watch_list_falls_back),
	    TEST(test_server_that_ignores_watch_list),
	    TEST(test_expired_continue_token_restarts_the_list),
	    TEST(test_page_that_fails_is_asked_again),
	    TEST(test_answers_that_are_no_list),
	    TEST(test_watches_of_no_time),
	    TEST(test_what_makes_a_watch_list_again),
	    TEST(test_what_resumes_a_watch),
	    TEST(test_retry_after),
	    TEST(test_hurry),
	    TEST(test_failures_never_spin),
	    TEST(test_relist_loops_do_not_spin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
