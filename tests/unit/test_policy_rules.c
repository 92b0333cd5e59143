#include "policy_cases.h"

#include "quota/rule.h"

#define KNOWN                                                                                      \
	"privileged, containerRuntimeSockets, hostDevices, hostPath, gpuWithoutRequest, "          \
	"bypassLabels, podLimit, requireGpuMemory, requireUserNamespace, requireReadinessProbe"

static const struct policy_case cases[] = {
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
     .problems = "p:4:3: privileged: nothing where a map is expected; write a value, or remove "
		 "the key\n"},
    {.name = "list",
     .yaml = "rules:\n"
	     "  privileged: [enforce]\n",
     .problems = "p:4:15: privileged: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "no mode",
     .yaml = "rules:\n"
	     "  privileged: {}\n",
     .problems = "p:4:15: privileged: key \"mode\" is missing; write mode: enforce\n"},
    {.name = "no mode, and what else is wrong",
     .yaml = "rules:\n"
	     "  hostPath: {allow: [data]}\n",
     .problems = "p:4:13: hostPath: key \"mode\" is missing; write mode: enforce\n"
		 "p:4:22: path \"data\" is not absolute; write it from the root directory on, "
		 "such as /data\n"},
    {.name = "misspelt mode",
     .yaml = "rules:\n"
	     "  privileged: enforced\n",
     .problems = "p:4:15: privileged \"enforced\" is not one of enforce, warn, audit, "
		 "disabled; did you mean \"enforce\"?\n"},
    {.name = "unknown key",
     .yaml = "rules:\n"
	     "  privileged: {mode: warn, images: [a]}\n",
     .problems = "p:4:28: unknown key \"images\"; known here: mode, exemptNamespaces, "
		 "exemptServiceAccounts\n"},
    {.name = "key of another rule",
     .yaml = "rules:\n"
	     "  hostDevices: {mode: warn, allow: [/dev/fuse]}\n",
     .problems = "p:4:29: unknown key \"allow\"; known here: mode, exemptNamespaces, "
		 "exemptServiceAccounts\n"},
    {.name = "known keys with its own",
     .yaml = "rules:\n"
	     "  hostPath: {mode: warn, paths: [/data]}\n",
     .problems = "p:4:26: unknown key \"paths\"; known here: mode, exemptNamespaces, "
		 "exemptServiceAccounts, allow\n"},
    {.name = "misspelt key",
     .yaml = "rules:\n"
	     "  privileged: {mode: warn, exemptServiceAccount: [a/b]}\n",
     .problems = "p:4:28: unknown key \"exemptServiceAccount\"; did you mean "
		 "\"exemptServiceAccounts\"?\n"},
    {.name = "bad namespace",
     .yaml = "rules:\n"
	     "  privileged: {mode: disabled, exemptNamespaces: [A]}\n",
     .problems = "p:4:51: \"A\" is not the name of a namespace; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "unknown rule",
     .yaml = "rules:\n"
	     "  priviledged: enforce\n",
     .problems = "p:4:3: unknown key \"priviledged\"; did you mean \"privileged\"?\n"},
    {.name = "unknown rule, upper case",
     .yaml = "rules:\n"
	     "  podlimit: {mode: enforce, gpus: 1}\n",
     .problems = "p:4:3: unknown key \"podlimit\"; did you mean \"podLimit\"?\n"},
    {.name = "unknown rule, none close",
     .yaml = "rules:\n"
	     "  tidyDesk: enforce\n",
     .problems = "p:4:3: unknown key \"tidyDesk\"; known here: " KNOWN "\n"},
    {.name = "accounts",
     .yaml = "rules:\n"
	     "  privileged:\n"
	     "    mode: warn\n"
	     "    exemptServiceAccounts:\n"
	     "      - a/b\n"
	     "      - operator\n"
	     "      - a/B\n"
	     "      - /b\n"
	     "      - a/\n"
	     "      - a.b/c\n"
	     "      - a/b/c\n"
	     "      - a/*\n"
	     "      - system:serviceaccount:gpu-operator:nvidia.driver\n"
	     "      - system:serviceaccount:gpu-operator\n"
	     "      - a/b\n"
	     "      - 5\n",
     .problems = "p:8:9: \"operator\" is not a service account; write NAMESPACE/NAME, such as "
		 "a-serve/default\n"
		 "p:9:9: \"a/B\" is not a service account; write NAMESPACE/NAME, such as "
		 "a-serve/default\n"
		 "p:10:9: \"/b\" is not a service account; write NAMESPACE/NAME, such as "
		 "a-serve/default\n"
		 "p:11:9: \"a/\" is not a service account; write NAMESPACE/NAME, such as "
		 "a-serve/default\n"
		 "p:12:9: \"a.b/c\" is not a service account; write NAMESPACE/NAME, such as "
		 "a-serve/default\n"
		 "p:13:9: \"a/b/c\" is not a service account; write NAMESPACE/NAME, such as "
		 "a-serve/default\n"
		 "p:14:9: \"a/*\" is not a service account; patterns are not supported; name "
		 "each, or exempt the namespace\n"
		 "p:15:9: \"system:serviceaccount:gpu-operator:nvidia.driver\" is not a service "
		 "account; write gpu-operator/nvidia.driver\n"
		 "p:16:9: \"system:serviceaccount:gpu-operator\" is not a service account; write "
		 "NAMESPACE/NAME, such as a-serve/default\n"
		 "p:17:9: service account \"a/b\" stands in line 7 already; remove one of the "
		 "two\n"
		 "p:18:9: service account: a number where text is expected; for text write "
		 "\"5\", with quotes\n"},
    {.name = "accounts of podLimit",
     .yaml = "rules:\n"
	     "  podLimit: {mode: warn, gpus: 1, exemptServiceAccounts: [a/b]}\n",
     .problems = "p:4:35: podLimit: service accounts can't be exempt, since a tenant chooses "
		 "what its pods run as; exempt namespaces\n"},
    {.name = "accounts of requireGpuMemory",
     .yaml = "rules:\n"
	     "  requireGpuMemory: {mode: warn, exemptServiceAccounts: []}\n",
     .problems = "p:4:34: requireGpuMemory: service accounts can't be exempt, since a tenant "
		 "chooses what its pods run as; exempt namespaces\n"},
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
     .problems = "p:4:13: podLimit does not say its mode; write {mode: enforce, gpus: 4}\n"},
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
	     "  podLimit: {mode: warn, gpus: 1, accounts: [a]}\n",
     .problems = "p:4:35: unknown key \"accounts\"; known here: mode, exemptNamespaces, gpus, "
		 "classes\n"},
    {.name = "off with mistakes",
     .yaml = "rules:\n"
	     "  hostPath: {mode: disabled, allow: [data]}\n"
	     "  gpuWithoutRequest: {mode: disabled, schedulerNames: [\"\"]}\n",
     .problems = "p:4:38: path \"data\" is not absolute; write it from the root directory on, "
		 "such as /data\n"
		 "p:5:56: \"\" is not the name of a scheduler; write it as in a pod's "
		 "spec.schedulerName\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

static void names(void **state)
{
	struct gq_buf all = GQ_BUF_INIT(400);

	(void)state;
	for (int id = 0; id < GQ_RULES; id++)
		gq_buf_printf(&all, "%s%s", id ? ", " : "", gq_rule_name((enum gq_rule_id)id));
	assert_string_equal(all.data, KNOWN);
	gq_buf_done(&all);
}

/* Every rule as a word and as a map, in every mode. */
static void every_mode(void **state)
{
	(void)state;
	for (int id = 0; id < GQ_RULES; id++) {
		for (int mode = GQ_MODE_ENFORCE; mode <= GQ_MODE_DISABLED; mode++) {
			const char *name = gq_rule_name((enum gq_rule_id)id);
			const char *word = gq_mode_name((enum gq_mode)mode);
			char yaml[300];
			if (id != GQ_RULE_POD_LIMIT || mode == GQ_MODE_DISABLED) {
				snprintf(yaml, sizeof yaml, POLICY_HEAD "rules: {%s: %s}\n", name,
					 word);
				struct gq_policy *p = policy_of(yaml);
				for (int i = 0; i < GQ_RULES; i++)
					assert_int_equal(p->rules.by[i].mode,
							 i == id ? mode : GQ_MODE_DISABLED);
				gq_policy_unref(p);
			}
			snprintf(yaml, sizeof yaml,
				 POLICY_HEAD "rules: {%s: {mode: %s, exemptNamespaces: [x]%s}}\n",
				 name, word, id == GQ_RULE_POD_LIMIT ? ", gpus: 1" : "");
			struct gq_policy *p = policy_of(yaml);
			assert_int_equal(p->rules.by[id].mode, mode);
			assert_int_equal(p->rules.by[id].n_exempt_namespaces, 1);
			assert_string_equal(p->rules.by[id].exempt_namespaces[0], "x");
			gq_policy_unref(p);
		}
	}
}

static void exempt(void **state)
{
	struct gq_policy *p =
	    policy_of(POLICY_HEAD "rules:\n"
				  "  hostDevices: {mode: audit, exemptNamespaces: [b, a],\n"
				  "    exemptServiceAccounts: [gpu-operator/node.feature, a/5]}\n");
	const struct gq_rule *rule = &p->rules.by[GQ_RULE_HOST_DEVICES];

	(void)state;
	assert_int_equal(rule->mode, GQ_MODE_AUDIT);
	assert_int_equal(rule->n_exempt_namespaces, 2);
	assert_string_equal(rule->exempt_namespaces[0], "b");
	assert_string_equal(rule->exempt_namespaces[1], "a");
	assert_int_equal(rule->n_exempt_accounts, 2);
	assert_string_equal(rule->exempt_accounts[0].namespace_, "gpu-operator");
	assert_string_equal(rule->exempt_accounts[0].name, "node.feature");
	assert_string_equal(rule->exempt_accounts[1].namespace_, "a");
	assert_string_equal(rule->exempt_accounts[1].name, "5");
	assert_int_equal(p->rules.by[GQ_RULE_PRIVILEGED].n_exempt_accounts, 0);
	gq_policy_unref(p);
}

/* A rule that is off keeps its keys, since a tenant may switch it on. */
static void off_keeps_its_keys(void **state)
{
	struct gq_policy *p = policy_of(
	    POLICY_HEAD "rules:\n"
			"  podLimit: {mode: disabled, gpus: 2.5, exemptNamespaces: [a]}\n"
			"  hostPath: {mode: disabled, allow: [/data]}\n"
			"tenants: [{name: a, rules: {podLimit: warn, hostPath: enforce}}]\n");

	(void)state;
	assert_int_equal(p->rules.by[GQ_RULE_POD_LIMIT].mode, GQ_MODE_DISABLED);
	assert_int_equal(p->rules.pod_limit.shares, GQ_SHARES_PER_GPU * 5 / 2);
	assert_int_equal(p->rules.by[GQ_RULE_POD_LIMIT].n_exempt_namespaces, 1);
	assert_int_equal(p->rules.n_allowed_paths, 1);
	gq_policy_unref(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),           cmocka_unit_test(names),
	    cmocka_unit_test(every_mode),         cmocka_unit_test(exempt),
	    cmocka_unit_test(off_keeps_its_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
