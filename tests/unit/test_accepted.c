#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/accepted.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define GOOD APP_POLICY
#define BAD APP_POLICY_HEAD "tenants:\n  - name: t\n    quotas: {}\n"
#define META "'metadata':{'name':'x','resourceVersion':'12'}"

/* Pruned first, as it comes. json: single-quoted. */
static int read_pruned(const char *json, struct gq_policy_state **ret_state)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);
	struct gq_err err = {0};
	char *text = json_of(json);

	*ret_state = NULL;
	if (gq_json_prune(text, strlen(text), gq_policy_state_keep, &kept, &err))
		fail_msg("%s", err.msg);
	free(text);
	return gq_policy_state_read(kept.data, kept.len, ret_state, &err);
}

static struct gq_policy_state *state_of(const char *text, size_t len)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);
	struct gq_policy_state *state = NULL;
	struct gq_err err = {0};

	gq_buf_puts(&json, "{\"metadata\":{\"resourceVersion\":\"12\"},\"data\":{\"policy.yaml\":");
	gq_buf_json_string(&json, text, len);
	gq_buf_puts(&json, "}}");
	if (gq_policy_state_read(json.data, json.len, &state, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(state->len, len);
	assert_memory_equal(state->yaml, text, len);
	return state;
}

static void expect_judgement(struct gq_policy_state *state, const char *problem)
{
	struct gq_err err = {0};

	assert_int_equal(gq_policy_state_judge(state, NULL, &err), 0);
	assert_true(state->judged);
	assert_true((state->policy != NULL) == !problem);
	if (problem)
		assert_has(state->problem, problem);
	else
		assert_null(state->problem);
	/* once and for all */
	const struct gq_policy *policy = state->policy;
	assert_int_equal(gq_policy_state_judge(state, NULL, &err), 0);
	assert_ptr_equal(policy, state->policy);
	gq_policy_state_unref(state);
}

static void comes_back_as_it_was_written(void **state)
{
	static const char text[] = GOOD "# \"quoted\" \\ \t \xc3\xa9\n";
	struct gq_policy_state *written = state_of(text, sizeof text - 1), *read = NULL, *again;
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_err err = {0};

	(void)state;
	assert_int_equal(gq_accepted_print(&json, written, 77, "the-namespace", "9"), 0);
	struct json_object *root = json_parse(json.data, json.len);
	assert_string_equal(json_text(root, "apiVersion"), "v1");
	assert_string_equal(json_text(root, "kind"), "ConfigMap");
	assert_string_equal(json_text(root, "metadata.name"), "gpuquota-policy-accepted");
	assert_string_equal(json_text(root, "metadata.namespace"), "the-namespace");
	assert_string_equal(json_text(root, "metadata.resourceVersion"), "9");
	assert_string_equal(json_text(root, "data.sourceResourceVersion"), "12");
	assert_string_equal(json_text(root, "data.epoch"), "77");
	assert_string_equal(json_text(root, "data.hash"), written->hash);
	json_object_put(root);
	assert_int_equal(gq_policy_state_read(json.data, json.len, &read, &err), 0);
	assert_true(read->exists && read->intact);
	assert_string_equal(read->version, "9");
	assert_string_equal(read->source_version, "12");
	assert_string_equal(read->hash, written->hash);
	assert_int_equal(read->epoch, 77);
	assert_int_equal(read->len, sizeof text - 1);
	/* written by the next leader it keeps its source; a new one has no version */
	gq_buf_reset(&json);
	assert_int_equal(gq_accepted_print(&json, read, UINT64_MAX, "n", NULL), 0);
	root = json_parse(json.data, json.len);
	assert_string_equal(json_text(root, "data.sourceResourceVersion"), "12");
	assert_null(json_at(root, "metadata.resourceVersion"));
	json_object_put(root);
	assert_int_equal(gq_policy_state_read(json.data, json.len, &again, &err), GQ_EINVALID);
	struct gq_buf tiny GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
	assert_int_equal(gq_accepted_print(&tiny, read, 1, "n", NULL), GQ_ETOOBIG);
	gq_policy_state_unref(written);
	gq_policy_state_unref(read);
}

static void what_a_person_makes_of_it(void **state)
{
	static const struct {
		const char *data;
		uint64_t epoch;
		bool yaml;
	} cases[] = {
	    {"{'policy.yaml':'x','hash':'','epoch':'7'}", 7, true},
	    {"{'policy.yaml':'x','epoch':'18446744073709551615'}", UINT64_MAX, true},
	    {"{'policy.yaml':'x','epoch':'18446744073709551616'}", 0, true},
	    {"{'policy.yaml':'x','epoch':'-1'}", 0, true},
	    {"{'policy.yaml':'x','epoch':'7 '}", 0, true},
	    {"{'policy.yaml':'x','epoch':' 7'}", 0, true},
	    {"{'policy.yaml':'x','epoch':7}", 0, true},
	    {"{'policy.yaml':{},'epoch':'7'}", 7, false},
	    {"{'policy.yml':'x'}", 0, false},
	    {"{'policy.yaml':null}", 0, false},
	    {"{}", 0, false},
	    {"null", 0, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_policy_state *read;
		char json[256];
		(void)snprintf(json, sizeof json, "{" META ",'data':%s}", cases[i].data);
		assert_int_equal(read_pruned(json, &read), 0);
		assert_true(read->exists);
		assert_false(read->intact);
		assert_true((read->yaml != NULL) == cases[i].yaml);
		assert_true(read->epoch == cases[i].epoch);
		assert_string_equal(read->version, "12");
		if (cases[i].yaml)
			gq_policy_state_unref(read);
		else
			expect_judgement(read, "no key policy.yaml");
	}
	struct gq_policy_state *read;
	assert_int_equal(read_pruned("{" META "}", &read), 0);
	expect_judgement(read, "no key policy.yaml");
	/* a version of 300 characters is of no use, nor harm */
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	gq_buf_printf(&json, "{" META ",'data':{'sourceResourceVersion':'%0300d'}}", 1);
	assert_int_equal(read_pruned(json.data, &read), 0);
	assert_string_equal(read->source_version, "");
	gq_policy_state_unref(read);
	gq_buf_reset(&json);
	gq_buf_printf(&json, "{'metadata':{'resourceVersion':'%0300d'}}", 1);
	assert_int_equal(read_pruned(json.data, &read), GQ_ETOOBIG);
	assert_int_equal(read_pruned("{" META ",'data':'x'}", &read), GQ_EINVALID);
	assert_int_equal(read_pruned("{'data':{}}", &read), GQ_EINVALID);
	assert_null(read);
}

static void judgements(void **state)
{
	/* what hides behind a NUL is no comment */
	static const char nul[] = GOOD "\0tenants: []\n";
	struct gq_buf large GQ_BUF_CLEANUP = GQ_BUF_INIT(2u << 20);

	(void)state;
	expect_judgement(state_of(GOOD, strlen(GOOD)), NULL);
	expect_judgement(state_of(BAD, strlen(BAD)), "policy.yaml:5:5");
	expect_judgement(state_of(nul, sizeof nul - 1), "policy.yaml:");
	expect_judgement(state_of("", 0), "");
	gq_buf_puts(&large, GOOD);
	while (large.len <= GQ_POLICY_MAX_BYTES)
		gq_buf_puts(&large, "# a comment of a certain length, over and over\n");
	expect_judgement(state_of(large.data, large.len), "");
	expect_judgement(gq_policy_state_absent(false), "there is no ConfigMap");
	expect_judgement(gq_policy_state_absent(true), "was deleted");
	gq_policy_state_unref(NULL);
	assert_null(gq_policy_state_ref(NULL));
}

static void is_parsed_once(void **state)
{
	struct gq_policy_state *one = state_of(GOOD, strlen(GOOD));
	struct gq_policy_state *same = state_of(GOOD, strlen(GOOD));
	struct gq_policy_state *bad = state_of(BAD, strlen(BAD));
	struct gq_err err;

	(void)state;
	assert_int_equal(gq_policy_state_judge(one, NULL, &err), 0);
	assert_int_equal(gq_policy_state_judge(same, one, &err), 0);
	assert_ptr_equal(one->policy, same->policy);
	assert_string_equal(one->policy->hash, one->hash);
	assert_int_equal(gq_policy_state_judge(bad, one, &err), 0);
	assert_null(bad->policy);
	gq_policy_state_unref(gq_policy_state_ref(one));
	gq_policy_state_unref(one);
	gq_policy_state_unref(same);
	gq_policy_state_unref(bad);
}

/* Without memory nothing is read or judged, and what was there is as it was. */
static void no_memory(void **state)
{
	static const char json[] =
	    "{\"metadata\":{\"resourceVersion\":\"12\"},\"data\":{\"policy.yaml\":\"x\"}}";
	struct gq_policy_state *read = NULL;
	struct gq_err err;
	int code = GQ_ENOMEM;

	(void)state;
	for (long n = 0; code; n++) {
		fail_alloc(n);
		code = gq_policy_state_read(json, sizeof json - 1, &read, &err);
		if (!fail_alloc_done())
			break;
		/* json-c says no more than that it did not parse */
		assert_true(!code || code == GQ_ENOMEM || code == GQ_EINVALID);
		assert_true((read == NULL) == (code != 0));
	}
	assert_int_equal(code, 0);
	gq_policy_state_unref(read);
	struct gq_policy_state *good = state_of(GOOD, strlen(GOOD));
	for (long n = 0; !good->judged; n++) {
		fail_alloc(n);
		code = gq_policy_state_judge(good, NULL, &err);
		(void)fail_alloc_done();
		assert_true(good->judged == (code == 0));
		assert_true(code == 0 || code == GQ_ENOMEM);
	}
	assert_non_null(good->policy);
	gq_policy_state_unref(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(comes_back_as_it_was_written),
	    cmocka_unit_test(what_a_person_makes_of_it),
	    cmocka_unit_test(judgements),
	    cmocka_unit_test(is_parsed_once),
	    cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
