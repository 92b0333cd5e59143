#include "policy_cases.h"

static const struct policy_case cases[] = {
    {.name = "unknown key",
     .yaml = "tenants: []\n"
	     "quotas: {}\n",
     .problems = "p:4:1: unknown key \"quotas\"; known here: apiVersion, kind, mode, locale, "
		 "unassigned, ambiguous, holders, exempt, classes, tenants, grants, rules\n"},
    {.name = "unknown key, close",
     .yaml = "tenents: []\n",
     .problems = "p:3:1: unknown key \"tenents\"; did you mean \"tenants\"?\n"},
    {.name = "unknown key, two letters swapped",
     .yaml = "mdoe: warn\n",
     .problems = "p:3:1: unknown key \"mdoe\"; did you mean \"mode\"?\n"},
    {.name = "unknown key in upper case",
     .yaml = "Tenants: []\n",
     .problems = "p:3:1: unknown key \"Tenants\"; did you mean \"tenants\"?\n"},
    {.name = "unknown key, nothing close",
     .yaml = "superuser: root\n",
     .problems = "p:3:1: unknown key \"superuser\"; known here: apiVersion, kind, mode, "
		 "locale, unassigned, ambiguous, holders, exempt, classes, tenants, grants, "
		 "rules\n"},
    {.name = "key with quotes and line break",
     .yaml = "\"a\\\"b c\": 1\n",
     .problems = "p:3:1: unknown key \"a\"b c\"; known here: apiVersion, kind, mode, locale, "
		 "unassigned, ambiguous, holders, exempt, classes, tenants, grants, rules\n"},
    {.name = "missing both",
     .yaml = "mode: warn\n",
     .bare = true,
     .problems = "p:1:1: policy: key \"apiVersion\" is missing; write apiVersion: "
		 "config.gpuquota.io/v1alpha1\n"
		 "p:1:1: policy: key \"kind\" is missing; write kind: QuotaPolicy\n"},
    {.name = "missing kind",
     .yaml = "apiVersion: config.gpuquota.io/v1alpha1\n",
     .bare = true,
     .problems = "p:1:1: policy: key \"kind\" is missing; write kind: QuotaPolicy\n"},
    {.name = "other version",
     .yaml = "apiVersion: config.gpuquota.io/v1\n"
	     "kind: QuotaPolicy\n",
     .bare = true,
     .problems = "p:1:13: apiVersion \"config.gpuquota.io/v1\" is not known to this version; "
		 "write apiVersion: config.gpuquota.io/v1alpha1\n"},
    {.name = "other kind",
     .yaml = "apiVersion: config.gpuquota.io/v1alpha1\n"
	     "kind: quotapolicy\n",
     .bare = true,
     .problems = "p:2:7: kind \"quotapolicy\" is not known to this version; write kind: "
		 "QuotaPolicy\n"},
    {.name = "kind is a number",
     .yaml = "apiVersion: config.gpuquota.io/v1alpha1\n"
	     "kind: 5\n",
     .bare = true,
     .problems = "p:2:7: kind: a number where text is expected; for text write \"5\", with "
		 "quotes\n"},
    {.name = "apiVersion is nothing",
     .yaml = "apiVersion:\n"
	     "kind: QuotaPolicy\n",
     .bare = true,
     .problems = "p:1:1: apiVersion: nothing where a value is expected; write apiVersion: "
		 "config.gpuquota.io/v1alpha1\n"},
    {.name = "map for list",
     .yaml = "tenants: {a: 1}\n",
     .problems = "p:3:10: tenants: a map where a list is expected; begin each item with \"- "
		 "\", or write [a, b]\n"},
    {.name = "text for list",
     .yaml = "tenants: team-a\n",
     .problems = "p:3:10: tenants: text where a list is expected; write [\"team-a\"]\n"},
    {.name = "nothing for list",
     .yaml = "tenants:\n",
     .problems = "p:3:1: tenants: nothing where a list is expected; write a value, or remove "
		 "the key\n"},
    {.name = "list for map",
     .yaml = "classes: [A100]\n",
     .problems = "p:3:10: classes: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "text for map",
     .yaml = "rules: enforce\n",
     .problems = "p:3:8: rules: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "list for word",
     .yaml = "mode: [enforce]\n",
     .problems = "p:3:7: mode: a list where a single value is expected; write one value\n"},
    {.name = "nothing for word",
     .yaml = "mode: ~\n",
     .problems = "p:3:7: mode: nothing where a single value is expected; write a value, or "
		 "remove the key\n"},
    {.name = "word: off",
     .yaml = "mode: off\n",
     .problems = "p:3:7: mode \"off\" is not one of enforce, warn, audit; write audit to "
		 "refuse nothing\n"},
    {.name = "word: no",
     .yaml = "unassigned: no\n",
     .problems = "p:3:13: unassigned \"no\" is not one of deny, allow; write one of these "
		 "words\n"},
    {.name = "word: false",
     .yaml = "mode: false\n",
     .problems = "p:3:7: mode \"false\" is not one of enforce, warn, audit; write audit to "
		 "refuse nothing\n"},
    {.name = "word: On",
     .yaml = "mode: On\n",
     .problems = "p:3:7: mode \"On\" is not one of enforce, warn, audit; write one of these "
		 "words\n"},
    {.name = "word: upper case",
     .yaml = "mode: Enforce\n",
     .problems = "p:3:7: mode \"Enforce\" is not one of enforce, warn, audit; did you mean "
		 "\"enforce\"?\n"},
    {.name = "word: misspelt",
     .yaml = "mode: enforced\n",
     .problems = "p:3:7: mode \"enforced\" is not one of enforce, warn, audit; did you mean "
		 "\"enforce\"?\n"},
    {.name = "word: disabled is for rules",
     .yaml = "mode: disabled\n",
     .problems = "p:3:7: mode \"disabled\" is not one of enforce, warn, audit; write audit to "
		 "refuse nothing\n"},
    {.name = "ambiguous",
     .yaml = "ambiguous: chargeall\n",
     .problems = "p:3:12: ambiguous \"chargeall\" is not one of charge-all, deny; did you "
		 "mean \"charge-all\"?\n"},
    {.name = "holders",
     .yaml = "holders: all\n",
     .problems = "p:3:10: holders \"all\" is not one of namespace, tenant, none; write one of "
		 "these words\n"},
    {.name = "unassigned",
     .yaml = "unassigned: allowed\n",
     .problems = "p:3:13: unassigned \"allowed\" is not one of deny, allow; did you mean "
		 "\"allow\"?\n"},
    {.name = "locale zh", .yaml = "locale: zh\n", .problems = ""},
    {.name = "locale of a tenant",
     .yaml = "tenants:\n"
	     "  - {name: a, locale: zh-CN}\n",
     .problems = "p:4:23: locale \"zh-CN\" is not one of en, zh; write one of these words\n"},
    {.name = "locale unknown",
     .yaml = "locale: en-US\n",
     .problems = "p:3:9: locale \"en-US\" is not one of en, zh; write one of these words\n"},
    {.name = "number for text",
     .yaml = "tenants:\n"
	     "  - name: 5\n",
     .problems = "p:4:11: name: a number where text is expected; for text write \"5\", with "
		 "quotes\n"},
    {.name = "hex for text",
     .yaml = "tenants:\n"
	     "  - name: 0x1f\n",
     .problems = "p:4:11: name: a number where text is expected; for text write \"0x1f\", "
		 "with quotes\n"},
    {.name = "float for text",
     .yaml = "tenants:\n"
	     "  - name: 1e3\n",
     .problems = "p:4:11: name: a number where text is expected; for text write \"1e3\", with "
		 "quotes\n"},
    {.name = "true for text",
     .yaml = "tenants:\n"
	     "  - name: true\n",
     .problems = "p:4:11: name: true or false where text is expected; for text write "
		 "\"true\", with quotes\n"},
    {.name = "null for text",
     .yaml = "tenants:\n"
	     "  - name: null\n",
     .problems = "p:4:11: name: nothing where a value is expected; write name: team-a\n"},
    {.name = "list for text",
     .yaml = "tenants:\n"
	     "  - name: [a]\n",
     .problems = "p:4:11: name: a list where text is expected; write one value\n"},
    {.name = "exempt list",
     .yaml = "exempt: [kube-system]\n",
     .problems = "p:3:9: exempt: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "exempt unknown key",
     .yaml = "exempt: {namespace: [a]}\n",
     .problems = "p:3:10: unknown key \"namespace\"; did you mean \"namespaces\"?\n"},
    {.name = "gpus -1",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: -1}\n",
     .problems = "p:6:20: gpus: \"-1\" is negative; write 0 to allow none\n"},
    {.name = "gpus \"-0.5\"",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: \"-0.5\"}\n",
     .problems = "p:6:20: gpus: \"-0.5\" is negative; write 0 to allow none\n"},
    {.name = "gpus four",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: four}\n",
     .problems = "p:6:20: gpus: \"four\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus 1.5.2",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 1.5.2}\n",
     .problems = "p:6:20: gpus: \"1.5.2\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus .",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: .}\n",
     .problems = "p:6:20: gpus: \".\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus \"\"",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: \"\"}\n",
     .problems = "p:6:20: gpus: \"\" is not a plain decimal number; write how many GPUs, such "
		 "as 4 or 0.5\n"},
    {.name = "gpus 500m",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 500m}\n",
     .problems = "p:6:20: gpus: \"500m\" is not a plain decimal number; write 0.5\n"},
    {.name = "gpus 1e2",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 1e2}\n",
     .problems = "p:6:20: gpus: \"1e2\" is not a plain decimal number; write 100\n"},
    {.name = "gpus 2k",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 2k}\n",
     .problems = "p:6:20: gpus: \"2k\" is not a plain decimal number; write 2000\n"},
    {.name = "gpus 010",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 010}\n",
     .problems = "p:6:20: gpus: \"010\" could be meant as an octal number; write 10\n"},
    {.name = "gpus 00.5",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 00.5}\n",
     .problems = "p:6:20: gpus: \"00.5\" could be meant as an octal number; write 0.5\n"},
    {.name = "gpus .nan",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: .nan}\n",
     .problems = "p:6:20: gpus: \".nan\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus .inf",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: .inf}\n",
     .problems = "p:6:20: gpus: \".inf\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus 0x10",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 0x10}\n",
     .problems = "p:6:20: gpus: \"0x10\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus 1_000",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 1_000}\n",
     .problems = "p:6:20: gpus: \"1_000\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus \"1,5\"",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: \"1,5\"}\n",
     .problems = "p:6:20: gpus: \"1,5\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus 99999999999999999999",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 99999999999999999999}\n",
     .problems = "p:6:20: gpus: \"99999999999999999999\" is more than can be counted; leave "
		 "gpus out for no limit\n"},
    {.name = "gpus 1e30",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 1e30}\n",
     .problems = "p:6:20: gpus: \"1e30\" is more than can be counted; leave gpus out for no "
		 "limit\n"},
    {.name = "gpus [1]",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: [1]}\n",
     .problems = "p:6:20: gpus: a list where a single value is expected; write one value\n"},
    {.name = "gpus ~",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: ~}\n",
     .problems = "p:6:20: gpus: nothing where a single value is expected; write a value, or "
		 "remove the key\n"},
    {.name = "gpus true",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: true}\n",
     .problems = "p:6:20: gpus: \"true\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "gpus +1",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: +1}\n",
     .problems = "p:6:20: gpus: \"+1\" is not a plain decimal number; write 1\n"},
    {.name = "gpus 1 GPU",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 1 GPU}\n",
     .problems = "p:6:20: gpus: \"1 GPU\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "memory -1Gi",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: -1Gi}\n",
     .problems = "p:6:22: memory: \"-1Gi\" is negative; write 0 to allow none\n"},
    {.name = "memory 80",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 80}\n",
     .problems = "p:6:22: memory: \"80\" is less than one MiB (these are bytes); did you mean "
		 "\"80Gi\"?\n"},
    {.name = "memory \"1000000\"",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: \"1000000\"}\n",
     .problems = "p:6:22: memory: \"1000000\" is less than one MiB (these are bytes); write a "
		 "unit, such as 80Gi\n"},
    {.name = "memory 80m",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 80m}\n",
     .problems = "p:6:22: memory: \"80m\" is less than one MiB (these are bytes); write a "
		 "unit, such as 80Gi\n"},
    {.name = "memory 80GB",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 80GB}\n",
     .problems = "p:6:22: memory: \"80GB\" is not a Kubernetes quantity of bytes; did you "
		 "mean \"80Gi\"?\n"},
    {.name = "memory 80gb",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 80gb}\n",
     .problems = "p:6:22: memory: \"80gb\" is not a Kubernetes quantity of bytes; did you "
		 "mean \"80Gi\"?\n"},
    {.name = "memory \"80 Gi\"",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: \"80 Gi\"}\n",
     .problems = "p:6:22: memory: \"80 Gi\" is not a Kubernetes quantity of bytes; did you "
		 "mean \"80Gi\"?\n"},
    {.name = "memory 80gi",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 80gi}\n",
     .problems = "p:6:22: memory: \"80gi\" is not a Kubernetes quantity of bytes; did you "
		 "mean \"80Gi\"?\n"},
    {.name = "memory lots",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: lots}\n",
     .problems = "p:6:22: memory: \"lots\" is not a Kubernetes quantity of bytes; write bytes "
		 "with a unit, such as 80Gi\n"},
    {.name = "memory 16Ei",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 16Ei}\n",
     .problems = "p:6:22: memory: \"16Ei\" is more than can be counted; leave memory out for "
		 "no limit\n"},
    {.name = "memory 010Gi",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 010Gi}\n",
     .problems = "p:6:22: memory: \"010Gi\" could be meant as an octal number; write 10Gi\n"},
    {.name = "memory .nan",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: .nan}\n",
     .problems = "p:6:22: memory: \".nan\" is not a Kubernetes quantity of bytes; write bytes "
		 "with a unit, such as 80Gi\n"},
    {.name = "memory 1023Ki",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: 1023Ki}\n",
     .problems = "p:6:22: memory: \"1023Ki\" is less than one MiB (these are bytes); write a "
		 "unit, such as 80Gi\n"},
    {.name = "memory [80Gi]",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: [80Gi]}\n",
     .problems = "p:6:22: memory: a list where a single value is expected; write one value\n"},
    {.name = "memory ~",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {memory: ~}\n",
     .problems = "p:6:22: memory: nothing where a single value is expected; write a value, or "
		 "remove the key\n"},
    {.name = "tenant name Team",
     .yaml = "tenants:\n"
	     "  - name: Team\n",
     .problems = "p:4:11: \"Team\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "tenant name team_a",
     .yaml = "tenants:\n"
	     "  - name: team_a\n",
     .problems = "p:4:11: \"team_a\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", "
		 "at most 63 characters\n"},
    {.name = "tenant name -a",
     .yaml = "tenants:\n"
	     "  - name: -a\n",
     .problems = "p:4:11: \"-a\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "tenant name a-",
     .yaml = "tenants:\n"
	     "  - name: a-\n",
     .problems = "p:4:11: \"a-\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "tenant name a.b",
     .yaml = "tenants:\n"
	     "  - name: a.b\n",
     .problems = "p:4:11: \"a.b\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "tenant name \"\"",
     .yaml = "tenants:\n"
	     "  - name: \"\"\n",
     .problems = "p:4:11: \"\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "tenant name \"té\"",
     .yaml = "tenants:\n"
	     "  - name: \"té\"\n",
     .problems = "p:4:11: \"té\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "namespace Kube",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [Kube]\n",
     .problems = "p:5:18: \"Kube\" is not the name of a namespace; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "namespace \"a b\"",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [\"a b\"]\n",
     .problems = "p:5:18: \"a b\" is not the name of a namespace; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
    {.name = "namespace team-*",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [team-*]\n",
     .problems = "p:5:18: \"team-*\" is not the name of a namespace; patterns are not "
		 "supported: name each namespace\n"},
    {.name = "namespace 5",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [5]\n",
     .problems = "p:5:18: namespace: a number where text is expected; for text write \"5\", "
		 "with quotes\n"},
    {.name = "namespace true",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [true]\n",
     .problems = "p:5:18: namespace: true or false where text is expected; for text write "
		 "\"true\", with quotes\n"},
    {.name = "namespace [a]",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaces: [[a]]\n",
     .problems = "p:5:18: namespace: a list where text is expected; write one value\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

struct amount_case {
	const char *text;
	int64_t value;
};

static const struct gq_policy *one_quota(const char *entry)
{
	struct gq_buf yaml = GQ_BUF_INIT(1024);
	struct gq_policy *policy = NULL;
	struct gq_policy_problems none = {0};

	gq_buf_printf(&yaml, POLICY_HEAD "tenants: [{name: a, quota: {A100: {%s}}}]\n", entry);
	assert_int_equal(gq_policy_parse(yaml.data, yaml.len, "", &policy, &none, NULL), 0);
	assert_int_equal(policy->tenants[0].n_limits, 1);
	gq_buf_done(&yaml);
	return policy;
}

/* What is no whole number of shares is rounded down: a limit never lets through more than it says.
 */
static void gpus(void **state)
{
	static const struct amount_case good[] = {
	    {"gpus: 0", 0},
	    {"gpus: 8", 8 * GQ_SHARES_PER_GPU},
	    {"gpus: \"8\"", 8 * GQ_SHARES_PER_GPU},
	    {"gpus: 0.5", GQ_SHARES_PER_GPU / 2},
	    {"gpus: 2.0", 2 * GQ_SHARES_PER_GPU},
	    {"gpus: 0.25", GQ_SHARES_PER_GPU / 4},
	    {"gpus: 0.333333", 1679998},
	    {"gpus: 0.0000001", 0},
	    {"gpus: 1000000", 1000000 * GQ_SHARES_PER_GPU},
	};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		const struct gq_policy *policy = one_quota(good[i].text);
		assert_int_equal(policy->tenants[0].limits[0].most.shares, good[i].value);
		assert_int_equal(policy->tenants[0].limits[0].most.memory_mib, GQ_UNLIMITED);
		gq_policy_unref(policy);
	}
}

static void memory(void **state)
{
	static const struct amount_case good[] = {
	    {"memory: 0", 0},
	    {"memory: 640Gi", 640 * 1024},
	    {"memory: 1Mi", 1},
	    {"memory: 1536Ki", 1},
	    {"memory: 80G", 76293},
	    {"memory: \"80Gi\"", 80 * 1024},
	    {"memory: 1073741824", 1024},
	    {"memory: 1.5Gi", 1536},
	};

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		const struct gq_policy *policy = one_quota(good[i].text);
		assert_int_equal(policy->tenants[0].limits[0].most.memory_mib, good[i].value);
		assert_int_equal(policy->tenants[0].limits[0].most.shares, GQ_UNLIMITED);
		gq_policy_unref(policy);
	}
}

/* "no" and "off" are words of YAML 1.2 like others; quotes make text of a number. */
static void words_that_yaml_1_1_misread(void **state)
{
	static const char yaml[] =
	    POLICY_HEAD "tenants:\n"
			"  - {name: no, namespaces: [off, y, \"5\", \"true\"]}\n";
	struct gq_policy *policy = NULL;
	struct gq_policy_problems none = {0};

	(void)state;
	assert_int_equal(gq_policy_parse(yaml, sizeof yaml - 1, "", &policy, &none, NULL), 0);
	assert_string_equal(policy->tenants[0].name, "no");
	assert_int_equal(policy->tenants[0].n_namespaces, 4);
	assert_string_equal(policy->tenants[0].namespaces[0], "off");
	assert_string_equal(policy->tenants[0].namespaces[1], "y");
	assert_string_equal(policy->tenants[0].namespaces[2], "5");
	assert_string_equal(policy->tenants[0].namespaces[3], "true");
	gq_policy_unref(policy);
}

static void long_names(void **state)
{
	char yaml[512];
	char name[65];

	(void)state;
	memset(name, 'x', sizeof name - 1);
	name[64] = '\0';
	(void)snprintf(yaml, sizeof yaml, POLICY_HEAD "tenants: [{name: %.63s}]\n", name);
	assert_policy_problems("63 characters", yaml, "");
	(void)snprintf(yaml, sizeof yaml, POLICY_HEAD "tenants: [{name: %s}]\n", name);
	char *problems = policy_problems(yaml, strlen(yaml));
	assert_non_null(strstr(problems, "cannot be the name of a tenant"));
	free(problems);
	(void)snprintf(yaml, sizeof yaml, POLICY_HEAD "%s%s: 1\n", name, name);
	problems = policy_problems(yaml, strlen(yaml));
	assert_non_null(strstr(problems, "xxx…\"; known here: "));
	free(problems);
}

static void mode_names(void **state)
{
	(void)state;
	assert_string_equal(gq_mode_name(GQ_MODE_ENFORCE), "enforce");
	assert_string_equal(gq_mode_name(GQ_MODE_WARN), "warn");
	assert_string_equal(gq_mode_name(GQ_MODE_AUDIT), "audit");
	assert_string_equal(gq_mode_name(GQ_MODE_DISABLED), "disabled");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(mode_names),
	    cmocka_unit_test(problems),
	    cmocka_unit_test(gpus),
	    cmocka_unit_test(memory),
	    cmocka_unit_test(words_that_yaml_1_1_misread),
	    cmocka_unit_test(long_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
