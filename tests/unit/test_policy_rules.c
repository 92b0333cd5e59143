#include "policy_cases.h"

static const struct policy_case cases[] = {
    {.name = "privileged enforced",
     .yaml = "rules:\n"
	     "  privileged: enforce\n",
     .problems = "p:4:3: rule \"privileged\" is not supported yet by this version; remove it "
		 "or set it to disabled\n"},
    {.name = "containerRuntimeSockets enforced",
     .yaml = "rules:\n"
	     "  containerRuntimeSockets: enforce\n",
     .problems = "p:4:3: rule \"containerRuntimeSockets\" is not supported yet by this "
		 "version; remove it or set it to disabled\n"},
    {.name = "hostDevices enforced",
     .yaml = "rules:\n"
	     "  hostDevices: enforce\n",
     .problems = "p:4:3: rule \"hostDevices\" is not supported yet by this version; remove it "
		 "or set it to disabled\n"},
    {.name = "gpuWithoutRequest enforced",
     .yaml = "rules:\n"
	     "  gpuWithoutRequest: enforce\n",
     .problems = "p:4:3: rule \"gpuWithoutRequest\" is not supported yet by this version; "
		 "remove it or set it to disabled\n"},
    {.name = "requireGpuMemory enforced",
     .yaml = "rules:\n"
	     "  requireGpuMemory: enforce\n",
     .problems = "p:4:3: rule \"requireGpuMemory\" is not supported yet by this version; "
		 "remove it or set it to disabled\n"},
    {.name = "requireUserNamespace enforced",
     .yaml = "rules:\n"
	     "  requireUserNamespace: enforce\n",
     .problems = "p:4:3: rule \"requireUserNamespace\" is not supported yet by this version; "
		 "remove it or set it to disabled\n"},
    {.name = "warned",
     .yaml = "rules:\n"
	     "  privileged: warn\n",
     .problems = "p:4:3: rule \"privileged\" is not supported yet by this version; remove it "
		 "or set it to disabled\n"},
    {.name = "as a map",
     .yaml = "rules:\n"
	     "  privileged: {mode: audit, exemptNamespaces: [a]}\n",
     .problems = "p:4:3: rule \"privileged\" is not supported yet by this version; remove it "
		 "or set it to disabled\n"},
    {.name = "off",
     .yaml = "rules:\n"
	     "  privileged: off\n",
     .problems = "p:4:15: privileged \"off\" is not one of enforce, warn, audit, disabled; "
		 "did you mean \"disabled\"?\n"},
    {.name = "false",
     .yaml = "rules:\n"
	     "  privileged: {mode: false}\n",
     .problems = "p:4:22: mode \"false\" is not one of enforce, warn, audit, disabled; did "
		 "you mean \"disabled\"?\n"},
    {.name = "true",
     .yaml = "rules:\n"
	     "  privileged: true\n",
     .problems = "p:4:15: privileged \"true\" is not one of enforce, warn, audit, disabled; "
		 "write one of these words\n"},
    {.name = "nothing",
     .yaml = "rules:\n"
	     "  privileged:\n",
     .problems = "p:4:3: privileged: nothing where a single value is expected; write a value, "
		 "or remove the key\n"},
    {.name = "list",
     .yaml = "rules:\n"
	     "  privileged: [enforce]\n",
     .problems = "p:4:15: privileged: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "no mode",
     .yaml = "rules:\n"
	     "  privileged: {}\n",
     .problems = "p:4:15: privileged: key \"mode\" is missing; write mode: disabled\n"},
    {.name = "misspelt mode",
     .yaml = "rules:\n"
	     "  privileged: enforced\n",
     .problems = "p:4:15: privileged \"enforced\" is not one of enforce, warn, audit, "
		 "disabled; did you mean \"enforce\"?\n"},
    {.name = "unknown key",
     .yaml = "rules:\n"
	     "  privileged: {mode: disabled, images: [a]}\n",
     .problems = "p:4:32: unknown key \"images\"; known here: mode, exemptNamespaces\n"},
    {.name = "bad namespace",
     .yaml = "rules:\n"
	     "  privileged: {mode: disabled, exemptNamespaces: [A]}\n",
     .problems = "p:4:51: \"A\" is not the name of a namespace; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "unknown rule",
     .yaml = "rules:\n"
	     "  priviledged: enforce\n",
     .problems = "p:4:3: unknown rule \"priviledged\"; did you mean \"privileged\"?\n"},
    {.name = "unknown rule, upper case",
     .yaml = "rules:\n"
	     "  podlimit: {mode: enforce, gpus: 1}\n",
     .problems = "p:4:3: unknown rule \"podlimit\"; did you mean \"podLimit\"?\n"},
    {.name = "unknown rule, none close",
     .yaml = "rules:\n"
	     "  tidyDesk: enforce\n",
     .problems = "p:4:3: unknown rule \"tidyDesk\"; remove it; this version has the rule "
		 "podLimit\n"},
    {.name = "podLimit bare",
     .yaml = "rules:\n"
	     "  podLimit: enforce\n",
     .problems = "p:4:13: podLimit does not say how many gpus; write {mode: enforce, gpus: "
		 "4}\n"},
    {.name = "podLimit misspelt",
     .yaml = "rules:\n"
	     "  podLimit: enforced\n",
     .problems = "p:4:13: podLimit \"enforced\" is not one of enforce, warn, audit, disabled; "
		 "did you mean \"enforce\"?\n"},
    {.name = "podLimit number",
     .yaml = "rules:\n"
	     "  podLimit: 4\n",
     .problems = "p:4:13: podLimit \"4\" is not one of enforce, warn, audit, disabled; write "
		 "one of these words\n"},
    {.name = "podLimit nothing",
     .yaml = "rules:\n"
	     "  podLimit: ~\n",
     .problems = "p:4:13: podLimit: nothing where a map is expected; write a value, or remove "
		 "the key\n"},
    {.name = "podLimit list",
     .yaml = "rules:\n"
	     "  podLimit: [4]\n",
     .problems = "p:4:13: podLimit: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "podLimit without mode",
     .yaml = "rules:\n"
	     "  podLimit: {gpus: 4}\n",
     .problems = "p:4:13: podLimit: key \"mode\" is missing; write mode: enforce\n"},
    {.name = "podLimit without gpus",
     .yaml = "rules:\n"
	     "  podLimit: {mode: warn}\n",
     .problems = "p:4:13: podLimit does not say how many gpus; write gpus: 4\n"},
    {.name = "podLimit bad gpus",
     .yaml = "rules:\n"
	     "  podLimit: {mode: warn, gpus: -1}\n",
     .problems = "p:4:32: gpus: \"-1\" is negative; write 0 to allow none\n"},
    {.name = "podLimit bad gpus while off",
     .yaml = "rules:\n"
	     "  podLimit: {mode: disabled, gpus: -1}\n",
     .problems = "p:4:36: gpus: \"-1\" is negative; write 0 to allow none\n"},
    {.name = "podLimit bad namespaces",
     .yaml = "rules:\n"
	     "  podLimit: {mode: warn, gpus: 1, exemptNamespaces: [A, b]}\n",
     .problems = "p:4:54: \"A\" is not the name of a namespace; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "podLimit unknown key",
     .yaml = "rules:\n"
	     "  podLimit: {mode: warn, gpus: 1, exempt: [a]}\n",
     .problems = "p:4:35: unknown key \"exempt\"; known here: mode, gpus, exemptNamespaces\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

/* The rules that this version does not have may stand there as long as they are off. */
static void off_is_fine(void **state)
{
	(void)state;
	assert_policy_problems("all off",
			       POLICY_HEAD
			       "rules:\n"
			       "  privileged: disabled\n"
			       "  containerRuntimeSockets: {mode: disabled}\n"
			       "  hostDevices: {mode: disabled, exemptNamespaces: [a]}\n"
			       "  gpuWithoutRequest: \"disabled\"\n"
			       "  requireGpuMemory: disabled\n"
			       "  requireUserNamespace: disabled\n"
			       "  podLimit: disabled\n",
			       "");
	assert_policy_problems("podLimit off as a map",
			       POLICY_HEAD "rules: {podLimit: {mode: disabled}}\n", "");
}

static void pod_limit(void **state)
{
	static const char yaml[] =
	    POLICY_HEAD "rules: {podLimit: {mode: warn, gpus: 2.5, exemptNamespaces: [b, a]}}\n";
	struct gq_policy *policy = NULL;
	struct gq_policy_problems none = {0};

	(void)state;
	assert_int_equal(gq_policy_parse(yaml, sizeof yaml - 1, "", &policy, &none, NULL), 0);
	assert_int_equal(policy->rules.by[GQ_RULE_POD_LIMIT].mode, GQ_MODE_WARN);
	assert_int_equal(policy->rules.pod_limit.shares, GQ_SHARES_PER_GPU * 5 / 2);
	assert_int_equal(policy->rules.by[GQ_RULE_POD_LIMIT].n_exempt_namespaces, 2);
	assert_string_equal(policy->rules.by[GQ_RULE_POD_LIMIT].exempt_namespaces[0], "b");
	assert_string_equal(policy->rules.by[GQ_RULE_POD_LIMIT].exempt_namespaces[1], "a");
	gq_policy_unref(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),
	    cmocka_unit_test(off_is_fine),
	    cmocka_unit_test(pod_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
