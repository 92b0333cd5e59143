#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "controller/hash.h"
#include "controller/policy_source.h"
#include "tests/unit/app_testing.h"

#define GOOD APP_POLICY
#define OTHER APP_POLICY_HEAD "tenants:\n  - name: t\n    quota: {A100: {gpus: 1}}\n"
#define BAD APP_POLICY_HEAD "tenants:\n  - name: t\n    quotas: {}\n"
#define BAD_TOO APP_POLICY_HEAD "mode: never\n"

static struct app_clock app_time;
static struct gq_ledger *ledger;
static struct gq_policy_source *source;
static char logged[32u << 10]; /* while the last event was handled */

/* Takes the place of the log, which holds back what comes too often. */
void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields)
{
	size_t at = strlen(logged);

	(void)level;
	at += (size_t)snprintf(logged + at, sizeof logged - at, "%s", msg);
	for (; fields->key; fields++)
		if (fields->text)
			at += (size_t)snprintf(logged + at, sizeof logged - at, " %s=%s",
					       fields->key, fields->text);
	assert_true(at < sizeof logged);
}

static int setup(void **state)
{
	(void)state;
	app_clock_init(&app_time);
	ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	source = gq_policy_source_new(ledger, &app_time.clock);
	gq_ledger_set_synced(ledger);
	return ledger && source ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_policy_source_free(source);
	gq_ledger_free(ledger);
	return 0;
}

/* Through the keep tree, as the informer hands it over. Returns what the source returned. */
static int send_json(enum gq_event_kind kind, const char *json, size_t len)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);
	struct gq_event event = {.kind = kind};
	struct gq_err err = {0};

	if (json) {
		if (gq_json_prune(json, len, gq_policy_source_keep, &kept, &err))
			fail_msg("%s", err.msg);
		event.json = kept.data;
		event.len = kept.len;
		event.resource_version = "7";
	}
	logged[0] = '\0';
	return gq_policy_source_event(source, &event, &err);
}

/* text: len bytes of the policy. */
static void config_map(enum gq_event_kind kind, const char *text, size_t len)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);

	gq_buf_puts(&json, "{\"metadata\":{\"name\":\"gpuquota-policy\",\"managedFields\":[]},"
			   "\"data\":{\"other\":\"x\",\"policy.yaml\":");
	gq_buf_json_string(&json, text, len);
	gq_buf_puts(&json, "}}");
	assert_int_equal(json.code, 0);
	assert_int_equal(send_json(kind, json.data, json.len), 0);
}

static void apply(const char *text)
{
	config_map(GQ_EVENT_UPSERT, text, strlen(text));
}

static void send(enum gq_event_kind kind)
{
	assert_int_equal(send_json(kind, NULL, 0), 0);
}

/* in_force: the text of the policy that the ledger has, or NULL. problem: a part of what the status
 * says, or NULL when all is well. */
static void assert_status(const char *in_force, const char *problem)
{
	struct gq_policy *policy = gq_ledger_policy(ledger);
	struct gq_policy_status status;
	char hash[GQ_HASH_TEXT_BYTES] = "";

	gq_policy_source_status(source, &status);
	if (in_force)
		assert_int_equal(gq_hash_text(in_force, strlen(in_force), hash), 0);
	assert_true(status.in_force == (in_force != NULL));
	assert_string_equal(status.hash, hash);
	assert_true((policy != NULL) == (in_force != NULL));
	if (policy)
		assert_string_equal(policy->hash, hash);
	assert_true(gq_ledger_ready(ledger) == (in_force != NULL));
	assert_true(status.last_ok == (in_force && !problem));
	if (problem)
		assert_has(status.problem, problem);
	else
		assert_string_equal(status.problem, "");
	assert_null(strchr(status.problem, '\n'));
	gq_policy_unref(policy);
}

static void assert_told(unsigned times)
{
	assert_int_equal(occurrences(logged, "the policy ConfigMap is not usable"), times);
}

static void good(void **state)
{
	struct gq_policy_status status;

	(void)state;
	gq_policy_source_status(source, &status);
	assert_false(status.in_force || status.last_ok);
	apply(GOOD);
	assert_status(GOOD, NULL);
	assert_has(logged, "policy in force");
	/* the same again is nothing new */
	apply(GOOD);
	assert_status(GOOD, NULL);
	assert_string_equal(logged, "");
	apply(OTHER);
	assert_status(OTHER, NULL);
	assert_has(logged, "policy in force");
}

/* The last good policy stays, and each bad one is told once. */
static void bad(void **state)
{
	(void)state;
	apply(GOOD);
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(1);
	assert_has(logged, "the last good policy stays in force");
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(0);
	apply(BAD_TOO);
	assert_status(GOOD, "policy.yaml:3:7");
	assert_told(1);
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(1);
	/* recovered, without a second "in force" for what was in force all along */
	apply(GOOD);
	assert_status(GOOD, NULL);
	assert_has_not(logged, "policy in force");
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_told(1);
	apply(OTHER);
	assert_status(OTHER, NULL);
}

static void bad_from_the_start(void **state)
{
	(void)state;
	apply(BAD);
	assert_status(NULL, "policy.yaml:5:5");
	assert_told(1);
	assert_has(logged, "GPU pods wait for a policy");
	apply(GOOD);
	assert_status(GOOD, NULL);
}

static void deleted(void **state)
{
	(void)state;
	apply(GOOD);
	config_map(GQ_EVENT_DELETE, GOOD, strlen(GOOD));
	assert_status(GOOD, "was deleted");
	assert_told(1);
	apply(GOOD);
	assert_status(GOOD, NULL);
	config_map(GQ_EVENT_DELETE, GOOD, strlen(GOOD));
	assert_told(1);
	assert_status(GOOD, "was deleted");
	/* a bad one that comes back is what is wrong now, though it was told before */
	apply(BAD);
	assert_told(1);
	config_map(GQ_EVENT_DELETE, BAD, strlen(BAD));
	assert_status(GOOD, "was deleted");
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
}

static void lists(void **state)
{
	(void)state;
	/* there is none yet */
	send(GQ_EVENT_LIST_BEGIN);
	send(GQ_EVENT_LIST_END);
	assert_status(NULL, "there is no ConfigMap");
	assert_told(1);
	send(GQ_EVENT_IDLE);
	/* nor at the next list, which is told no more */
	send(GQ_EVENT_LIST_BEGIN);
	send(GQ_EVENT_LIST_END);
	assert_status(NULL, "there is no ConfigMap");
	assert_told(0);
	send(GQ_EVENT_LIST_BEGIN);
	apply(GOOD);
	send(GQ_EVENT_LIST_END);
	assert_status(GOOD, NULL);
	assert_told(0);
	/* gone while nobody watched */
	send(GQ_EVENT_LIST_BEGIN);
	send(GQ_EVENT_LIST_END);
	assert_status(GOOD, "there is no ConfigMap");
	assert_told(1);
	/* a bad one is there, at least */
	send(GQ_EVENT_LIST_BEGIN);
	apply(BAD);
	send(GQ_EVENT_LIST_END);
	assert_status(GOOD, "policy.yaml:5:5");
	/* a list that failed half way, then one without it */
	send(GQ_EVENT_LIST_BEGIN);
	apply(GOOD);
	send(GQ_EVENT_LIST_BEGIN);
	send(GQ_EVENT_LIST_END);
	assert_status(GOOD, "there is no ConfigMap");
}

static void without_the_key(void **state)
{
	static const char *const cases[] = {
	    "{\"metadata\":{\"name\":\"gpuquota-policy\"}}",
	    "{\"data\":null}",
	    "{\"data\":{}}",
	    "{\"data\":{\"policy.yml\":\"x\"}}",
	    "{\"data\":{\"policy.yaml\":null}}",
	    "{\"data\":{\"policy.yaml\":{}}}",
	};

	(void)state;
	apply(GOOD);
	for (size_t i = 0; i < LEN(cases); i++) {
		assert_int_equal(send_json(GQ_EVENT_UPSERT, cases[i], strlen(cases[i])), 0);
		assert_status(GOOD, "no key policy.yaml");
		assert_told(i == 0);
	}
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	assert_int_equal(send_json(GQ_EVENT_UPSERT, cases[0], strlen(cases[0])), 0);
	assert_status(GOOD, "no key policy.yaml");
	apply(BAD);
	assert_status(GOOD, "policy.yaml:5:5");
	apply(GOOD);
	assert_status(GOOD, NULL);
}

/* An object that is none of the API server's is an error of the watch, and changes nothing. */
static void not_a_config_map(void **state)
{
	static const char json[] = "{\"data\":\"x\"}";

	(void)state;
	apply(GOOD);
	assert_int_equal(send_json(GQ_EVENT_UPSERT, json, sizeof json - 1), GQ_EINVALID);
	assert_status(GOOD, NULL);
}

/* Bytes count to the last one: what hides behind a NUL is no comment. */
static void nul(void **state)
{
	static const char text[] = GOOD "\0tenants: []\n";

	(void)state;
	apply(OTHER);
	config_map(GQ_EVENT_UPSERT, text, sizeof text - 1);
	assert_status(OTHER, "policy.yaml:");
}

static void too_large(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(2u << 20);

	(void)state;
	apply(GOOD);
	gq_buf_puts(&text, GOOD);
	while (text.len <= GQ_POLICY_MAX_BYTES)
		gq_buf_puts(&text, "# a comment of a certain length, over and over\n");
	config_map(GQ_EVENT_UPSERT, text.data, text.len);
	assert_status(GOOD, "");
	assert_told(1);
}

static void free_null(void **state)
{
	(void)state;
	gq_policy_source_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(good),
	    TEST(bad),
	    TEST(bad_from_the_start),
	    TEST(deleted),
	    TEST(lists),
	    TEST(without_the_key),
	    TEST(not_a_config_map),
	    TEST(nul),
	    TEST(too_large),
	    cmocka_unit_test(free_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
