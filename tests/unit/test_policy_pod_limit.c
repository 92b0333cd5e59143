#include "policy_cases.h"

/* The rule and a tenant name their limits alike. */
#define RULE "rules:\n  podLimit:\n    mode: warn\n"
#define TENANT "tenants:\n- name: a\n  podLimit:\n"

static const struct policy_case cases[] = {
    {.name = "classes",
     .yaml = RULE "    classes:\n"
		  "      A1000: {gpus: 2}\n"
		  "      A100: 2\n"
		  "      a100: {gpus: 2}\n"
		  "      H100: {}\n"
		  "      H200: {gpus: -1}\n"
		  "      T4: {gpus: 1, memory: 80Gi}\n"
		  "      L4:\n"
		  "      \"*\": {gpus: 8}\n",
     .problems = "p:7:7: unknown class \"A1000\"; did you mean \"A100\"?\n"
		 "p:8:13: classes: a single value where a map is expected; write {gpus: 2}\n"
		 "p:9:7: class \"a100\" has a podLimit in line 8 already, as \"A100\"; remove one "
		 "of the two\n"
		 "p:10:13: classes: key \"gpus\" is missing; write {gpus: 4}\n"
		 "p:11:20: gpus: \"-1\" is negative; write 0 to allow none\n"
		 "p:12:21: unknown key \"memory\"; known here: gpus\n"
		 "p:13:7: classes: nothing where a map is expected; write a value, or remove the "
		 "key\n"
		 "p:14:7: podLimit: class \"*\" is every class; write gpus beside \"classes\"\n"},
    {.name = "no classes",
     .yaml = RULE "    classes: {}\n",
     .problems = "p:6:14: podLimit: classes names none; write {A100: {gpus: 4}}, or remove "
		 "it\n"},
    {.name = "classes are a list",
     .yaml = RULE "    classes: [A100]\n",
     .problems = "p:6:14: classes: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "tenant: classes",
     .yaml = TENANT "    classes: {A1000: {gpus: 2}, \"*\": {gpus: 1}, A100: {gpus: x}}\n",
     .problems = "p:6:15: unknown class \"A1000\"; did you mean \"A100\"?\n"
		 "p:6:33: podLimit: class \"*\" is every class; write gpus beside \"classes\"\n"
		 "p:6:62: gpus: \"x\" is not a plain decimal number; write how many GPUs, such "
		 "as 4 or 0.5\n"},
    {.name = "tenant: a number",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: 4}\n",
     .problems = "p:4:25: podLimit: a single value where a map is expected; write {gpus: 4}\n"},
    {.name = "tenant: a word",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: four}\n",
     .problems = "p:4:25: podLimit: a single value where a map is expected; write {gpus: 4}\n"},
    {.name = "tenant: a long number",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: 0.12345678901234567890123456789012345678901234567890}\n",
     .problems = "p:4:25: podLimit: a single value where a map is expected; write {gpus: "
		 "0.12345678901234567890123456789012345678}\n"},
    {.name = "tenant: nothing",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: ~}\n",
     .problems = "p:4:25: podLimit: nothing where a map is expected; write a value, or remove "
		 "the key\n"},
    {.name = "tenant: empty",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: {}}\n",
     .problems = "p:4:25: podLimit names no gpus; write podLimit: {gpus: 4}\n"},
    {.name = "tenant: mode",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: {mode: warn, gpus: 4}}\n",
     .problems = "p:4:26: unknown key \"mode\"; known here: gpus, classes\n"},
    {.name = "tenant: unknown keys only",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: {gpu: 4}}\n",
     .problems = "p:4:26: unknown key \"gpu\"; did you mean \"gpus\"?\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

static void assert_class(const struct gq_policy *p, const struct gq_class_shares *most,
			 const char *name, int64_t shares)
{
	assert_int_equal(most->class_id, gq_class_find(p->classes, name));
	assert_int_equal(most->shares, shares);
}

static void of_the_rule(void **state)
{
	struct gq_policy *p =
	    policy_of(POLICY_HEAD "classes: {Foo: {memory: 8Gi}}\n"
				  "rules:\n"
				  "  podLimit: {mode: enforce, gpus: 4,\n"
				  "    classes: {foo: {gpus: 2}, A100-80GB: {gpus: 0.5}}}\n");

	(void)state;
	assert_int_equal(p->rules.by[GQ_RULE_POD_LIMIT].mode, GQ_MODE_ENFORCE);
	assert_int_equal(p->rules.pod_limit.shares, 4 * GQ_SHARES_PER_GPU);
	assert_int_equal(p->rules.pod_limit.n_classes, 2);
	assert_class(p, &p->rules.pod_limit.classes[0], "Foo", 2 * GQ_SHARES_PER_GPU);
	assert_class(p, &p->rules.pod_limit.classes[1], "A100-80GB", GQ_SHARES_PER_GPU / 2);
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "rules: {podLimit: {mode: warn, classes: {T4: {gpus: 0}}}}\n");
	assert_int_equal(p->rules.pod_limit.shares, GQ_UNLIMITED);
	assert_int_equal(p->rules.pod_limit.n_classes, 1);
	assert_class(p, &p->rules.pod_limit.classes[0], "T4", 0);
	gq_policy_unref(p);
}

static void of_a_tenant(void **state)
{
	struct gq_policy *p = policy_of(
	    POLICY_HEAD "tenants:\n"
			"  - {name: a, podLimit: {gpus: 4, classes: {A100: {gpus: 2}}}}\n"
			"  - {name: b, podLimit: {classes: {T4: {gpus: 1}, L4: {gpus: 2}}}}\n"
			"  - {name: c}\n");

	(void)state;
	assert_int_equal(p->tenants[0].pod_limit.shares, 4 * GQ_SHARES_PER_GPU);
	assert_int_equal(p->tenants[0].pod_limit.n_classes, 1);
	assert_class(p, &p->tenants[0].pod_limit.classes[0], "A100", 2 * GQ_SHARES_PER_GPU);
	assert_int_equal(p->tenants[1].pod_limit.shares, GQ_UNLIMITED);
	assert_int_equal(p->tenants[1].pod_limit.n_classes, 2);
	assert_class(p, &p->tenants[1].pod_limit.classes[1], "L4", 2 * GQ_SHARES_PER_GPU);
	assert_int_equal(p->tenants[2].pod_limit.shares, GQ_UNLIMITED);
	assert_int_equal(p->tenants[2].pod_limit.n_classes, 0);
	assert_int_equal(p->rules.pod_limit.shares, GQ_UNLIMITED);
	gq_policy_unref(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),
	    cmocka_unit_test(of_the_rule),
	    cmocka_unit_test(of_a_tenant),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
