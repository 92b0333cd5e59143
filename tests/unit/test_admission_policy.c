/* POST /validate-policy: what becomes of a policy at kubectl apply. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/admission_world.h"

#define HEAD "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{'uid':'r',"

/* text: bytes of the policy; NULL: the ConfigMap has another key. */
static struct gq_request *ask_policy(const char *operation, const char *resource,
				     const char *namespace_, const char *name, const char *text,
				     size_t len)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(2u << 20);

	gq_buf_printf(&body,
		      "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
		      "\"request\":{\"uid\":\"r\",\"operation\":\"%s\",\"namespace\":\"%s\","
		      "\"name\":\"%s\",\"resource\":{\"group\":\"\",\"resource\":\"%s\"},"
		      "\"object\":",
		      operation, namespace_, name, resource);
	if (strcmp(operation, "DELETE") == 0) {
		gq_buf_puts(&body, "null");
	} else {
		gq_buf_puts(&body, text ? "{\"kind\":\"ConfigMap\",\"data\":{\"policy.yaml\":"
					: "{\"kind\":\"ConfigMap\",\"data\":{\"other\":");
		gq_buf_json_string(&body, text ? text : "", len);
		gq_buf_puts(&body, "}}");
	}
	gq_buf_puts(&body, "}}");
	assert_int_equal(body.code, 0);
	return ask_bytes(&world, "/validate-policy", "timeout=3s", body.data, body.len);
}

static struct gq_request *ask_our_policy(const char *text)
{
	return ask_policy("UPDATE", "configmaps", "gpuquota-system", "gpuquota-policy", text,
			  text ? strlen(text) : 0);
}

static void policies(void **state)
{
	static const struct {
		const char *text, *message; /* NULL: good */
	} cases[] = {
	    {APP_POLICY, NULL},
	    {APP_POLICY_HEAD "tenants: []\n", NULL},
	    {APP_POLICY_HEAD "tenants:\n  - name: t\n    quotas: {}\n", "policy.yaml:5:5"},
	    {APP_POLICY_HEAD "tenants:\n  - name: t\n    quotas: {}\n", "quota"},
	    {"", "policy"},
	    {"{", "policy.yaml:2:1"},
	    {"apiVersion: v1\nkind: QuotaPolicy\n", "policy.yaml:1:"},
	    {APP_POLICY_HEAD "\xE9\x85\x8D: 1\n", "\xE9\x85\x8D"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_request *request = ask_our_policy(cases[i].text);
		if (cases[i].message) {
			const char *message = assert_denied(request);
			assert_has(message, cases[i].message);
			assert_has(message, "stays in force");
		} else {
			assert_allowed(request);
		}
		request_free(request);
	}
	assert_int_equal(counted(&world, GQ_VERDICT_ALLOW, GQ_REASON_POLICY), 2);
	assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_POLICY), LEN(cases) - 2);
	/* judging puts nothing in force */
	struct gq_policy *policy = gq_ledger_policy(world.ledger);
	assert_string_equal(policy->hash, "0123abcd");
	gq_policy_unref(policy);
}

static void policy_without_its_key(void **state)
{
	struct gq_request *request = ask_our_policy(NULL);

	(void)state;
	assert_has(assert_denied(request), "policy.yaml");
	request_free(request);
}

/* What the ConfigMap holds is judged to its last byte, as it will be read. */
static void policy_with_a_nul(void **state)
{
	static const char text[] = APP_POLICY "\0tenants: []\n";
	struct gq_request *request = ask_policy("UPDATE", "configmaps", "gpuquota-system",
						"gpuquota-policy", text, sizeof text - 1);

	(void)state;
	(void)assert_denied(request);
	request_free(request);
}

/* Twenty problems with the longest names are told to the last one. */
static void policy_with_many_problems(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	char name[63];

	(void)state;
	memset(name, 'x', sizeof name);
	gq_buf_puts(&text, APP_POLICY_HEAD "tenants:\n");
	for (char tenant = 'a'; tenant <= 'b'; tenant++) {
		gq_buf_printf(&text, "  - name: %c%.62s\n    quota: {A100: {gpus: 1}}\n", tenant,
			      name);
		gq_buf_puts(&text, "    namespaces:\n");
		for (int i = 0; i < 20; i++)
			gq_buf_printf(&text, "      - n%02d%.60s\n", i, name);
	}
	struct gq_request *request = ask_our_policy(text.data);
	const char *message = assert_denied(request);
	assert_int_equal(occurrences(message, "policy.yaml:"), 20);
	assert_has(message, "\"n19");
	assert_true(strlen(message) > 6000);
	request_free(request);
}

static void other_objects(void **state)
{
	static const struct {
		const char *operation, *resource, *namespace_, *name;
	} cases[] = {
	    {"UPDATE", "configmaps", "gpuquota-system", "gpuquota-status"},
	    {"CREATE", "configmaps", "default", "gpuquota-policy"},
	    {"CREATE", "secrets", "gpuquota-system", "gpuquota-policy"},
	    {"DELETE", "configmaps", "gpuquota-system", "gpuquota-policy"},
	    {"CREATE", "pods", "gpuquota-system", "gpuquota-policy"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_request *request =
		    ask_policy(cases[i].operation, cases[i].resource, cases[i].namespace_,
			       cases[i].name, "not: a policy", 13);
		assert_allowed(request);
		request_free(request);
	}
	assert_int_equal(counted(&world, GQ_VERDICT_ALLOW, GQ_REASON_NOT_OURS), LEN(cases));
}

static void bad_policy_reviews(void **state)
{
	static const char *const cases[] = {
	    "",
	    "{}",
	    HEAD "'operation':'CREATE','resource':{'resource':'configmaps'},'namespace':"
		 "'gpuquota-system','name':'gpuquota-policy','object':{'data':"
		 "{'policy.yaml':7}}}}",
	    HEAD "'operation':'CREATE','resource':{'resource':'configmaps'},'namespace':"
		 "'gpuquota-system','name':'gpuquota-policy','object':{'data':'x'}}}",
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_request *request = ask(&world, "/validate-policy", cases[i]);
		(void)assert_failed(request, 400);
		request_free(request);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(policies),          TEST(policy_without_its_key),
	    TEST(policy_with_a_nul), TEST(policy_with_many_problems),
	    TEST(other_objects),     TEST(bad_policy_reviews),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
