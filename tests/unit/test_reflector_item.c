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

static const char watch_list[] =
    SIM_EVENT("ADDED", "a", "5") SIM_EVENT("ADDED", "b", "7") SIM_MARKER("9")
	SIM_EVENT("MODIFIED", "a", "11") SIM_BOOKMARK("12") SIM_EVENT("DELETED", "b", "13");
static const char page[] =
    SIM_LIST("9", "", SIM_POD("a", "5") "," SIM_POD("b", "7") "," SIM_POD("c", "8"));

static void test_streams_split_anywhere(void **state)
{
	struct sim *sim = *state;
	size_t len = strlen(watch_list);

	for (size_t cut = 0; cut <= len; cut++) {
		sim_restart(sim);
		(void)sim_begin(sim, 0, 1 << 30);
		sim_head(sim, 200);
		assert_int_equal(sim_feed(sim, watch_list, cut), 0);
		assert_int_equal(sim_feed(sim, watch_list + cut, len - cut), 0);
		sim_expect(sim, "[+a@5+b@7]!synced+a@11-b@13");
	}
	sim_restart(sim);
	(void)sim_begin(sim, 0, 1 << 30);
	sim_head(sim, 200);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(sim_feed(sim, watch_list + i, 1), 0);
	sim_expect(sim, "[+a@5+b@7]!synced+a@11-b@13");
}

static void test_pages_split_anywhere(void **state)
{
	struct sim *sim = *state;
	size_t len = strlen(page);

	sim->options.no_watch_list = true;
	for (size_t cut = 0; cut <= len; cut++) {
		sim_restart(sim);
		(void)sim_begin(sim, 0, 1 << 30);
		sim_head(sim, 200);
		assert_int_equal(sim_feed(sim, page, cut), 0);
		assert_int_equal(sim_feed(sim, page + cut, len - cut), 0);
		sim_end(sim);
		sim_expect(sim, "[+a@5+b@7+c@8]!synced");
	}
}

/* How many of the stream's lines are whole in its first `cut` bytes; the last line break is no part
 * of an object. */
static size_t lines_in(const char *text, size_t cut)
{
	size_t n = 0;

	for (size_t i = 0; i < cut; i++)
		n += text[i] == '}' && (text[i + 1] == '\n');
	return n;
}

static void test_streams_that_end_anywhere(void **state)
{
	/* the version to go on from after so many lines; NULL: the list has to be made again */
	static const char *const versions[] = {NULL, NULL, NULL, "9", "11", "12", "13"};
	struct sim *sim = *state;
	size_t len = strlen(watch_list);

	for (size_t cut = 0; cut <= len; cut++) {
		for (int clean = 0; clean < 2; clean++) {
			char want[64];
			sim_restart(sim);
			(void)sim_begin(sim, 0, 1 << 30);
			sim_head(sim, 200);
			assert_int_equal(sim_feed(sim, watch_list, cut), 0);
			sim->now += 2 * S;
			if (clean)
				sim_end(sim);
			else
				sim_break(sim);
			gq_buf_reset(&sim->log);
			const char *version = versions[lines_in(watch_list, cut)];
			const char *path = sim_begin(sim, 0, 2 * S);
			(void)snprintf(want, sizeof want, "&resourceVersion=%s",
				       version ? version : "");
			if (version) {
				assert_string_equal(strstr(path, "&resourceVersion="), want);
				continue;
			}
			assert_string_equal(path, "/api/v1/pods?limit=500");
			sim_answer(sim, 200, page);
			sim_expect(sim, "[+a@5+b@7+c@8]!synced");
		}
	}
}

static void test_pages_that_end_anywhere(void **state)
{
	struct sim *sim = *state;
	size_t len = strlen(page);

	sim->options.no_watch_list = true;
	for (size_t cut = 0; cut < len; cut++) {
		sim_restart(sim);
		(void)sim_begin(sim, 0, 1 << 30);
		sim_head(sim, 200);
		assert_int_equal(sim_feed(sim, page, cut), 0);
		if (cut % 2)
			sim_end(sim);
		else
			sim_break(sim);
		assert_false(gq_reflector_counters(sim->reflector)->synced);
		gq_buf_reset(&sim->log);
		assert_string_equal(sim_begin(sim, 800 * MS, 1600 * MS), "/api/v1/pods?limit=500");
		sim_answer(sim, 200, page);
		sim_expect(sim, "[+a@5+b@7+c@8]!synced");
	}
}

static void test_objects_that_are_not_understood_are_skipped(void **state)
{
	struct sim *sim = *state;

	sim->refuse = "bad";
	sim->refuse_code = GQ_EINVALID;
	sim->options.no_watch_list = true;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(
	    sim, 200,
	    SIM_LIST("9", "", SIM_POD("a", "5") "," SIM_POD("bad", "6") "," SIM_POD("c", "7")));
	sim_expect(sim, "[+a@5+bad@6+c@7]!synced");
	assert_int_equal(sim->n_problems, 1);
	assert_string_equal(sim->problem.data, "not understood");
	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	assert_int_equal(sim_text(sim, SIM_EVENT("MODIFIED", "bad", "10")), 0);
	assert_int_equal(gq_reflector_counters(sim->reflector)->skipped, 2);
	assert_int_equal(gq_reflector_counters(sim->reflector)->errors, 0);
	sim->now += 2 * S;
	sim_end(sim);
	assert_non_null(strstr(sim_begin(sim, 0, 0), "&resourceVersion=10"));
}

static void test_without_memory_the_object_is_not_lost(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	sim->refuse = "a";
	sim->refuse_code = GQ_ENOMEM;
	sim_answer(sim, 200, SIM_EVENT("MODIFIED", "a", "11") SIM_EVENT("MODIFIED", "b", "12"));
	sim_expect(sim, "+a@11");
	assert_int_equal(sim->last_code, GQ_ENOMEM);
	assert_int_equal(gq_reflector_counters(sim->reflector)->skipped, 0);
	assert_string_equal(sim_begin(sim, 800 * MS, 30 * S), "/api/v1/pods?limit=500");
}

static void test_list_end_that_fails(void **state)
{
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim->end_code = GQ_ENOMEM;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_answer(sim, 200, page);
	sim_expect(sim, "[+a@5+b@7+c@8]");
	assert_false(gq_reflector_counters(sim->reflector)->synced);
	assert_string_equal(sim_begin(sim, 800 * MS, 30 * S), "/api/v1/pods?limit=500");
	sim->end_code = 0;
	sim_answer(sim, 200, page);
	sim_expect(sim, "[+a@5+b@7+c@8]!synced");
}

/* An object of n bytes of one dropped or one kept string. */
static int feed_huge(struct sim *sim, const char *head, size_t n, const char *tail)
{
	static char chunk[64 << 10];
	int code = sim_text(sim, head);

	memset(chunk, 'x', sizeof chunk);
	for (size_t fed = 0; fed < n && !code; fed += sizeof chunk)
		code = sim_feed(sim, chunk, sizeof chunk);
	return code ? code : sim_text(sim, tail);
}

static void test_objects_over_the_caps(void **state)
{
	static const char dropped[] = "{\"type\":\"ADDED\",\"object\":{\"status\":\"";
	static const char kept[] = "{\"type\":\"ADDED\",\"object\":{\"spec\":\"";
	static const char tail[] =
	    "\",\"metadata\":{\"name\":\"h\",\"resourceVersion\":\"12\"}}}\n";
	struct sim *sim = *state;

	sim_to_watch(sim);
	sim_head(sim, 200);
	assert_int_equal(feed_huge(sim, dropped, 12 << 20, tail), 0); /* large, but not for us */
	sim_expect(sim, "+h@12");
	assert_int_equal(feed_huge(sim, dropped, 20 << 20, tail), GQ_ETOOBIG);
	sim_break(sim);
	assert_int_equal(sim->last_code, GQ_ETOOBIG);
	assert_string_equal(sim_begin(sim, 800 * MS, 30 * S), "/api/v1/pods?limit=500");

	sim_restart(sim);
	sim_to_watch(sim);
	sim_head(sim, 200);
	assert_int_equal(feed_huge(sim, kept, 6 << 20, tail), GQ_ETOOBIG);
	sim_break(sim);
	assert_string_equal(sim_begin(sim, 800 * MS, 30 * S), "/api/v1/pods?limit=500");
}

static void test_versions_and_tokens_over_the_caps(void **state)
{
	static char body[64 << 10];
	struct sim *sim = *state;

	sim->options.no_watch_list = true;
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	(void)snprintf(body, sizeof body,
		       "{\"metadata\":{\"resourceVersion\":\"%0300d\"},\"items\":[]}", 1);
	sim_answer(sim, 200, body);
	assert_int_equal(sim->last_code, GQ_ETOOBIG);
	(void)sim_begin(sim, 800 * MS, 30 * S);
	(void)snprintf(
	    body, sizeof body,
	    "{\"metadata\":{\"resourceVersion\":\"1\",\"continue\":\"%020000d\"},\"items\":[]}", 1);
	sim_answer(sim, 200, body);
	assert_true(sim->last_code == GQ_ETOOBIG);
	assert_string_equal(sim_begin(sim, 800 * MS, 30 * S), "/api/v1/pods?limit=500");
}

static void test_long_error_bodies_end_the_transfer(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	sim_head(sim, 503);
	assert_int_equal(feed_huge(sim, "", 1 << 20, ""), GQ_ETOOBIG);
	sim_break(sim);
	assert_string_equal(sim->problem.data, "watch: HTTP 503");
	assert_non_null(strstr(sim_begin(sim, 800 * MS, 30 * S), "&resourceVersion=10"));
}

static void test_duplicates_are_handed_on(void **state)
{
	struct sim *sim = *state;

	sim_to_watch(sim);
	sim_head(sim, 200);
	sim_text(sim, SIM_EVENT("ADDED", "a", "11") SIM_EVENT("ADDED", "a", "11")
			  SIM_EVENT("DELETED", "a", "12") SIM_EVENT("DELETED", "a", "12"));
	sim_expect(sim, "+a@11+a@11-a@12-a@12");
}

static void test_markers(void **state)
{
	/* bookmarks that only look like one */
	static const char *const others[] = {
	    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\","
	    "\"annotations\":{\"k8s.io/initial-events-end\":\"false\"}}}}",
	    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\","
	    "\"annotations\":[\"k8s.io/initial-events-end\"]}}}",
	    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\","
	    "\"labels\":{\"k8s.io/initial-events-end\":\"true\"}}}}",
	    "{\"type\":\"BOOKMARK\",\"object\":{}}",
	    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":null}}",
	};
	struct sim *sim = *state;

	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		assert_int_equal(sim_text(sim, others[i]), 0);
	sim_expect(sim, "[");
	assert_int_equal(sim_text(sim, SIM_MARKER("9")), 0);
	sim_expect(sim, "]!synced");
	/* a marker without a version is none to go on from */
	sim_restart(sim);
	(void)sim_begin(sim, 0, 0);
	sim_head(sim, 200);
	assert_int_equal(sim_text(sim, SIM_MARKER("")), GQ_EINVALID);
	sim_expect(sim, "[");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, sim_set_up, sim_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_streams_split_anywhere),
	    TEST(test_pages_split_anywhere),
	    TEST(test_streams_that_end_anywhere),
	    TEST(test_pages_that_end_anywhere),
	    TEST(test_objects_that_are_not_understood_are_skipped),
	    TEST(test_without_memory_the_object_is_not_lost),
	    TEST(test_list_end_that_fails),
	    TEST(test_objects_over_the_caps),
	    TEST(test_versions_and_tokens_over_the_caps),
	    TEST(test_long_error_bodies_end_the_transfer),
	    TEST(test_duplicates_are_handed_on),
	    TEST(test_markers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
