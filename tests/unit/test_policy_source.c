#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/policy_world.h"

static void written(const char *text)
{
	write_policy(text);
	show(WRITTEN);
	logged[0] = '\0';
	settle();
}

static void accepted(const char *text, const char *hash)
{
	edit(ACCEPTED, text, "3", hash);
	show(ACCEPTED);
	logged[0] = '\0';
	settle();
}

static void deleted(int which)
{
	delete_map(which);
	show(which);
	logged[0] = '\0';
	settle();
}

static void list(int which, enum gq_event_kind kind)
{
	assert_int_equal(event(which, kind, NULL), 0);
	logged[0] = '\0';
	settle();
}

static void assert_told(unsigned times)
{
	assert_int_equal(occurrences(logged, "the policy ConfigMap is not usable"), times);
}

/* What is written is judged, and enforced when a leader has accepted it. */
static void enforces_what_was_accepted(void **state)
{
	struct gq_policy_status status;

	(void)state;
	gq_policy_source_status(source, &status);
	assert_false(status.in_force || status.last_ok);
	written(GOOD);
	assert_status(NULL, NULL);
	assert_int_equal(changes, 1);
	accepted(GOOD, hash_of(GOOD));
	assert_status(GOOD, NULL);
	assert_has(logged, "policy in force");
	assert_int_equal(changes, 2);
	/* the same again is nothing new */
	written(GOOD);
	accepted(GOOD, hash_of(GOOD));
	assert_status(GOOD, NULL);
	assert_string_equal(logged, "");
	assert_int_equal(changes, 2);
	written(OTHER);
	assert_status(GOOD, NULL);
	assert_int_equal(changes, 3); /* the newest is not in force */
	accepted(OTHER, hash_of(OTHER));
	assert_status(OTHER, NULL);
	assert_has(logged, "policy in force");
	/* it is not this replica's to write anything */
	assert_requests("");
	assert_int_equal(n_timers, 0);
}

static void one_accepted_that_is_not_usable(void **state)
{
	static const char told[] = "the accepted policy's ConfigMap is not usable";

	(void)state;
	written(GOOD);
	accepted(OTHER, hash_of(GOOD));
	assert_status(NULL, NULL);
	assert_has(logged, told);
	assert_has(logged, "GPU pods wait for a policy");
	accepted(GOOD, hash_of(GOOD));
	assert_status(GOOD, NULL);
	accepted(OTHER, hash_of(GOOD));
	assert_status(GOOD, NULL);
	assert_has(logged, told);
	assert_has(logged, "its hash is not that of its policy");
	accepted(OTHER, hash_of(GOOD));
	assert_string_equal(logged, "");
	accepted(BAD, hash_of(BAD));
	assert_status(GOOD, NULL);
	assert_has(logged, "policy.yaml:5:5");
	accepted(THIRD, NULL);
	assert_status(GOOD, NULL);
	assert_has(logged, told);
	assert_int_equal(event(ACCEPTED, GQ_EVENT_UPSERT,
			       "{\"metadata\":{\"resourceVersion\":\"9\"},\"data\":{}}"),
			 0);
	settle();
	assert_status(GOOD, NULL);
	assert_has(logged, "it has no key policy.yaml");
	deleted(ACCEPTED);
	assert_status(GOOD, NULL);
	list(ACCEPTED, GQ_EVENT_LIST_BEGIN);
	list(ACCEPTED, GQ_EVENT_LIST_END);
	assert_status(GOOD, NULL);
	accepted(OTHER, hash_of(OTHER));
	assert_status(OTHER, NULL);
}

/* The last accepted policy stays, and each bad one is told once. */
static void bad(void **state)
{
	(void)state;
	written(GOOD);
	accepted(GOOD, hash_of(GOOD));
	written(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(1);
	assert_has(logged, "the last good policy stays in force");
	written(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(0);
	written(BAD_TOO);
	assert_status(GOOD, "policy.yaml:3:7");
	assert_told(1);
	written(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(1);
	written(GOOD);
	assert_status(GOOD, NULL);
	assert_string_equal(logged, "");
	written(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(1);
}

static void bad_from_the_start(void **state)
{
	(void)state;
	written(BAD);
	assert_status(NULL, "policy.yaml:5:5");
	assert_told(1);
	assert_has(logged, "GPU pods wait for a policy");
	/* what was accepted before is in force all the same */
	accepted(GOOD, hash_of(GOOD));
	assert_status(GOOD, "policy.yaml:5:5");
	written(GOOD);
	assert_status(GOOD, NULL);
}

static void deletions(void **state)
{
	(void)state;
	accepted(GOOD, hash_of(GOOD));
	written(GOOD);
	deleted(WRITTEN);
	assert_status(GOOD, "was deleted");
	assert_told(1);
	written(GOOD);
	assert_status(GOOD, NULL);
	deleted(WRITTEN);
	assert_told(1);
	assert_status(GOOD, "was deleted");
	/* a bad one that comes back is what is wrong now, though it was told before */
	written(BAD);
	assert_told(1);
	deleted(WRITTEN);
	assert_status(GOOD, "was deleted");
	written(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
}

static void lists(void **state)
{
	(void)state;
	/* there is none yet */
	list(WRITTEN, GQ_EVENT_LIST_BEGIN);
	list(WRITTEN, GQ_EVENT_LIST_END);
	assert_status(NULL, "there is no ConfigMap");
	assert_told(1);
	list(WRITTEN, GQ_EVENT_IDLE);
	/* nor at the next list, which is told no more */
	list(WRITTEN, GQ_EVENT_LIST_BEGIN);
	list(WRITTEN, GQ_EVENT_LIST_END);
	assert_status(NULL, "there is no ConfigMap");
	assert_told(0);
	list(WRITTEN, GQ_EVENT_LIST_BEGIN);
	written(GOOD);
	list(WRITTEN, GQ_EVENT_LIST_END);
	assert_status(NULL, NULL);
	/* a list of the other says nothing of this one */
	list(ACCEPTED, GQ_EVENT_LIST_BEGIN);
	accepted(GOOD, hash_of(GOOD));
	list(ACCEPTED, GQ_EVENT_LIST_END);
	assert_status(GOOD, NULL);
	/* gone while nobody watched */
	list(WRITTEN, GQ_EVENT_LIST_BEGIN);
	list(WRITTEN, GQ_EVENT_LIST_END);
	assert_status(GOOD, "there is no ConfigMap");
	assert_told(1);
	/* a list that failed half way, then one without it */
	list(WRITTEN, GQ_EVENT_LIST_BEGIN);
	written(GOOD);
	list(WRITTEN, GQ_EVENT_LIST_BEGIN);
	list(WRITTEN, GQ_EVENT_LIST_END);
	assert_status(GOOD, "there is no ConfigMap");
}

/* Only the last state of several counts. */
static void hurry(void **state)
{
	(void)state;
	write_policy(BAD);
	show(WRITTEN);
	write_policy(GOOD);
	show(WRITTEN);
	accept_policy(OTHER, 1);
	show(ACCEPTED);
	accept_policy(GOOD, 2);
	show(ACCEPTED);
	settle();
	assert_status(GOOD, NULL);
	assert_told(0);
	assert_int_equal(occurrences(logged, "policy in force"), 1);
}

/* An object that is none of the API server's is an error of the watch, and changes nothing. */
static void no_config_map(void **state)
{
	(void)state;
	accepted(GOOD, hash_of(GOOD));
	written(GOOD);
	for (int which = 0; which < 2; which++) {
		assert_int_equal(event(which, GQ_EVENT_UPSERT, "{\"data\":\"x\"}"), GQ_EINVALID);
		assert_int_equal(event(which, GQ_EVENT_UPSERT, "{\"data\":{}}"), GQ_EINVALID);
	}
	settle();
	assert_status(GOOD, NULL);
}

static void free_null(void **state)
{
	(void)state;
	gq_policy_source_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(enforces_what_was_accepted),
	    TEST(one_accepted_that_is_not_usable),
	    TEST(bad),
	    TEST(bad_from_the_start),
	    TEST(deletions),
	    TEST(lists),
	    TEST(hurry),
	    TEST(no_config_map),
	    cmocka_unit_test(free_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
