#include "rules_cases.h"

#include <json-c/json.h>

#include "quota_testing.h"

/* Which pods rules concern, held against the cases of tests/data/rules. That the API server's half
 * says the same is for tests/e2e to tell, which has a CEL. */

static const char *const rules[] = {"privileged",
				    "containerRuntimeSockets",
				    "hostDevices",
				    "hostPath",
				    "gpuWithoutRequest",
				    "bypassLabels",
				    "podLimit",
				    "requireGpuMemory",
				    "requireUserNamespace",
				    "requireReadinessProbe"};

#define USER_NAMESPACE (1u << GQ_RULE_REQUIRE_USER_NAMESPACE)

static unsigned bit_of(const char *rule)
{
	unsigned id = 0;

	while (strcmp(gq_rule_name((enum gq_rule_id)id), rule) != 0)
		assert_true(++id < GQ_RULES);
	return 1u << id;
}

/* Who is refused by a rule is concerned by it; who is not even asked about is concerned by none, so
 * that a program which has not synced yet stops nothing else. */
static void check(const struct rules_case *c, void *arg)
{
	unsigned concern = gq_rules_concern(c->posture, c->pod);
	unsigned of_quota = 1u << GQ_RULE_POD_LIMIT | 1u << GQ_RULE_REQUIRE_GPU_MEMORY |
			    1u << GQ_RULE_REQUIRE_READINESS_PROBE | 1u << GQ_RULE_BYPASS_LABELS;
	bool asks = gq_pod_asks_for_gpu(c->pod);
	struct world *w;

	(void)arg;
	if (c->ephemeral)
		return;
	w = rules_world(c->policy);
	(void)rules_case_ask(w, c);
	unsigned found = w->verdict.rule_findings[GQ_MODE_ENFORCE] |
			 w->verdict.rule_findings[GQ_MODE_WARN] |
			 w->verdict.rule_findings[GQ_MODE_AUDIT];
	world_free(w);
	if (found & ~(concern & bit_of(c->rule)))
		fail_msg("%s, %s: found %x, concern %x", c->rule, c->name, found, concern);
	if (!*c->sent && (concern & ~USER_NAMESPACE))
		fail_msg("%s, %s: concern %x", c->rule, c->name, concern);
	/* the API server takes zero GPUs for a request */
	if (asks && (strcmp(c->sent, "quota") != 0 || (concern & of_quota) != of_quota))
		fail_msg("%s, %s: asks for a GPU, concern %x", c->rule, c->name, concern);
	if (!asks && (concern & of_quota & ~(1u << GQ_RULE_BYPASS_LABELS)))
		fail_msg("%s, %s: concern %x", c->rule, c->name, concern);
}

static void concerns(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(rules); i++)
		assert_true(rules_cases_each(rules[i], check, NULL) > 0);
}

/* One line, closed brackets and quotes, and nothing left to be filled in. */
static void check_expression(const char *text)
{
	int depth = 0;
	bool quoted = false;

	for (const char *at = text; *at; at++) {
		assert_true(*at >= ' ' && *at != '$' && *at != '"');
		quoted ^= *at == '\'';
		if (quoted)
			continue;
		depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
		assert_true(depth >= 0);
	}
	assert_int_equal(depth, 0);
	assert_false(quoted);
	assert_null(strstr(text, "  ")); /* hack/generate-manifests.sh folds at single spaces */
}

static void has_key(const char *text, const char *key)
{
	char quoted[128];

	(void)snprintf(quoted, sizeof quoted, "'%s'", key);
	if (!strstr(text, quoted))
		fail_msg("%s is not asked about: %s", key, text);
}

#define KEY(key) key,

static void container_condition(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	(void)state;
	assert_int_equal(gq_rules_print_container_condition(&out, "some.pod"), 0);
	check_expression(out.data);
	for (int env = 0; env < GQ_ENVS; env++)
		has_key(out.data, gq_gpu_env_name((enum gq_gpu_env)env));
	static const char *const fields[] = {
	    "some.pod.spec.containers",
	    "some.pod.spec.initContainers",
	    "some.pod.spec.ephemeralContainers",
	    "c.securityContext.privileged",
	    "c.securityContext.procMount",
	    "c.securityContext.capabilities.add",
	    "some.pod.spec.hostPID",
	    "c.securityContext.windowsOptions.hostProcess",
	    "some.pod.spec.securityContext.windowsOptions.hostProcess",
	    "v.hostPath",
	    "e.valueFrom",
	    "f.prefix",
	};
	for (size_t i = 0; i < LEN(fields); i++)
		if (!strstr(out.data, fields[i]))
			fail_msg("%s is not asked about: %s", fields[i], out.data);
}

static void pod_condition(void **state)
{
	static const char *const keys[] = {GQ_GPU_SCHEDULERS(KEY) GQ_POSTURE_LABELS(KEY)
					       GQ_POSTURE_ANNOTATIONS(KEY)};
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	(void)state;
	assert_int_equal(gq_rules_print_pod_condition(&out, "t"), 0);
	check_expression(out.data);
	for (size_t i = 0; i < LEN(keys); i++)
		has_key(out.data, keys[i]);
	assert_non_null(strstr(out.data, "t.spec.nodeName != ''"));
	assert_non_null(strstr(out.data, "has(t.metadata)"));
}

static void reference_condition(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	(void)state;
	assert_int_equal(gq_rules_print_reference_condition(&out, "object"), 0);
	check_expression(out.data);
	assert_non_null(strstr(out.data, "has(v.persistentVolumeClaim) || has(v.ephemeral)"));
	assert_non_null(strstr(out.data, "has(f.configMapRef)"));
}

static void too_little_room(void **state)
{
	int (*const print[])(struct gq_buf * out, const char *pod) = {
	    gq_rules_print_container_condition, gq_rules_print_pod_condition,
	    gq_rules_print_reference_condition};

	(void)state;
	for (size_t i = 0; i < LEN(print); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
		assert_int_equal(print[i](&out, "object"), GQ_ETOOBIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(concerns),        cmocka_unit_test(container_condition),
	    cmocka_unit_test(pod_condition),   cmocka_unit_test(reference_condition),
	    cmocka_unit_test(too_little_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
