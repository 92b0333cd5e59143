/* Whose language an answer has, whoever makes it: the decision, or admission around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/admission_world.h"

#define HEAD "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{'uid':'r',"

/* The policy speaks Chinese, team-b English. */
#define POLICY(mode)                                                                               \
	APP_POLICY_HEAD "locale: zh\n"                                                             \
			"mode: " mode "\n"                                                         \
			"tenants:\n"                                                               \
			"  - name: team-a\n"                                                       \
			"    namespaces: [a-train]\n"                                              \
			"    quota: {A100: {gpus: 4}}\n"                                           \
			"  - name: team-b\n"                                                       \
			"    locale: en\n"                                                         \
			"    namespaces: [b-train]\n"                                              \
			"    quota: {A100: {gpus: 4}}\n"

static struct gq_request *ask_of(const char *ns, const char *gpus)
{
	static unsigned n;
	char uid[16];

	(void)snprintf(uid, sizeof uid, "u%u", n++);
	return ask_pod(&world, POD(.ns = ns, .name = uid, .uid = uid, .gpus = gpus));
}

static void refusals(void **state)
{
	(void)state;
	app_set_policy(world.ledger, POLICY("enforce"));
	struct gq_request *zh = ask_of("a-train", "5"), *en = ask_of("b-train", "5");
	assert_has(assert_denied(zh), "租户 team-a 的配额为 4 张 A100 GPU，");
	assert_has(assert_denied(en), "team-b may hold 4 A100 GPUs");
	request_free(zh);
	request_free(en);
}

static void warnings(void **state)
{
	(void)state;
	app_set_policy(world.ledger, POLICY("warn"));
	struct gq_request *request = ask_of("a-train", "5");
	struct json_object *root = answer_review(request);
	assert_true(json_true(root, "response.allowed"));
	struct json_object *list = json_at(root, "response.warnings");
	assert_int_equal(json_object_array_length(list), 1);
	assert_string_equal(json_object_get_string(json_object_array_get_idx(list, 0)),
			    "在 enforce 模式下会被拒绝：租户 team-a 的配额为 4 张 A100 GPU，"
			    "已占用 0 张（已绑定 0，待调度 0，已预留 0）；此 Pod 申请 5 "
			    "张，超出 1 张。");
	json_object_put(root);
	request_free(request);
}

/* What the journal could not note, and what came too late. */
static void after_a_decision(void **state)
{
	(void)state;
	app_set_policy(world.ledger, POLICY("enforce"));
	world.commit_code = GQ_EIO;
	struct gq_request *zh = ask_of("a-train", "1"), *en = ask_of("b-train", "1");
	assert_has(assert_failed(zh, 503), "目前无法可靠地记录预留");
	assert_has(assert_failed(en, 503), "cannot note reservations");
	request_free(zh);
	request_free(en);
	/* the last word, which is the one that a user reads */
	world.clock.mono_ns += GQ_NS_PER_S;
	en = ask_pod(&world, POD(.ns = "b-train", .name = "q", .uid = "q", .gpus = "1"));
	(void)assert_failed(en, 503);
	world.clock.mono_ns += 8 * GQ_NS_PER_S;
	struct gq_request *last =
	    ask_pod(&world, POD(.ns = "b-train", .name = "q", .uid = "q", .gpus = "1"));
	assert_has(assert_last_word(last), "cannot note reservations");
	request_free(en);
	request_free(last);
	world.commit_code = 0;
	/* decided while something is read, and then the caller is gone */
	app_set_policy(world.ledger, POLICY("enforce"));
	en = ask_pod(&world,
		     POD(.ns = "b-train", .name = "c", .uid = "c",
			 .spec = ",'resourceClaims':[{'name':'x','resourceClaimName':'x'}]"));
	assert_int_equal(en->answers, 0);
	world_finish_read(&world, world.n_reads - 1, GQ_ENOTFOUND, NULL);
	en->orphaned = true;
	request_run(&world, en);
	assert_has(assert_failed(en, 503), "The time that the API server gave");
	request_free(en);
}

static bool on_leads(void *arg)
{
	(void)arg;
	return false;
}

/* The policy in force speaks, or English without one. */
static void before_a_decision(void **state)
{
	struct gq_admission *always = world.admission;

	(void)state;
	for (int step = 0; step < 2; step++) {
		bool zh = step == 1;
		app_set_policy(world.ledger, zh ? POLICY("enforce") : APP_POLICY);
		struct gq_request *bad = ask_bytes(&world, "/validate", "timeout=3s", "{", 1);
		assert_has(assert_failed(bad, 400),
			   zh ? "该请求不是可以处理的" : "The request is no AdmissionReview");
		request_free(bad);
		struct gq_request *binding =
		    ask(&world, "/validate",
			HEAD "'operation':'CREATE','resource':{'group':'','resource':'pods'},"
			     "'subResource':'binding','namespace':'a-train','name':'p',"
			     "'object':{'target':{'name':''}}}}");
		assert_has(assert_failed(binding, 400),
			   zh ? "该请求不是可以处理的" : "The request is no AdmissionReview");
		request_free(binding);
		world.admission = gq_admission_new(&(struct gq_admission_options){
		    .ledger = world.ledger, .clock = &world.clock.clock, .leads = on_leads});
		assert_non_null(world.admission);
		struct gq_request *follower = ask_of("b-train", "1");
		assert_has(assert_failed(follower, 503), zh ? "不是主副本" : "does not lead");
		request_free(follower);
		gq_admission_free(world.admission);
		world.admission = always;
	}
}

/* What is wrong with a policy is told in English, in a sentence of the policy in force. */
static void policies(void **state)
{
	(void)state;
	app_set_policy(world.ledger, POLICY("enforce"));
	struct gq_request *request =
	    ask(&world, "/validate-policy",
		HEAD "'operation':'UPDATE','namespace':'gpuquota-system','name':'gpuquota-policy',"
		     "'resource':{'group':'','resource':'configmaps'},"
		     "'object':{'data':{'policy.yaml':'kind: QuotaPolicy'}}}}");
	const char *message = assert_denied(request);
	assert_has(message, "策略被拒绝，之前的策略继续生效。");
	assert_has(message, "\npolicy.yaml:1:1: policy: key \"apiVersion\" is missing");
	request_free(request);
	request =
	    ask(&world, "/validate-policy",
		HEAD "'operation':'UPDATE','namespace':'gpuquota-system','name':'gpuquota-policy',"
		     "'resource':{'group':'','resource':'configmaps'},'object':{'data':{}}}}");
	assert_has(assert_denied(request), "data 下没有键 policy.yaml");
	request_free(request);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(refusals),          TEST(warnings), TEST(after_a_decision),
	    TEST(before_a_decision), TEST(policies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
