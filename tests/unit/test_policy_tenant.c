#include "policy_cases.h"

static const struct policy_case cases[] = {
    {.name = "item is text",
     .yaml = "tenants: [a]\n",
     .problems = "p:3:11: tenant: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "item is nothing",
     .yaml = "tenants:\n"
	     "  -\n",
     .problems = "p:4:3: tenant: nothing where a map is expected; write a value, or remove "
		 "the item\n"},
    {.name = "no name",
     .yaml = "tenants:\n"
	     "  - namespaces: [a]\n",
     .problems = "p:4:5: tenant: key \"name\" is missing; write name: team-a\n"},
    {.name = "unknown key",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namspaces: [x]\n",
     .problems = "p:5:5: unknown key \"namspaces\"; did you mean \"namespaces\"?\n"},
    {.name = "mode",
     .yaml = "tenants:\n"
	     "  - {name: a, mode: disabled}\n",
     .problems = "p:4:21: mode \"disabled\" is not one of enforce, warn, audit; write audit "
		 "to refuse nothing\n"},
    {.name = "unlisted",
     .yaml = "tenants:\n"
	     "  - {name: a, unlisted: deni}\n",
     .problems = "p:4:25: unlisted \"deni\" is not one of deny, allow; did you mean "
		 "\"deny\"?\n"},
    {.name = "quota is a list",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: [A100]}\n",
     .problems = "p:4:22: quota: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "quota is a number",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: 8}}\n",
     .problems = "p:4:29: quota: a single value where a map is expected; write {gpus: 8}\n"},
    {.name = "quota is text",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: eight}}\n",
     .problems = "p:4:29: quota: a single value where a map is expected; write {gpus: 4}\n"},
    {.name = "quota is nothing",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100:\n",
     .problems = "p:6:7: quota: nothing where a map is expected; write a value, or remove the "
		 "key\n"},
    {.name = "quota names nothing",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {}}}\n",
     .problems = "p:4:29: quota of \"A100\" names neither gpus nor memory; write {gpus: 4}, "
		 "or remove the class\n"},
    {.name = "quota unknown key",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A100: {gpu: 8}}}\n",
     .problems = "p:4:30: unknown key \"gpu\"; did you mean \"gpus\"?\n"},
    {.name = "quota unknown class",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {A1000: {gpus: 8}, Zx81: {gpus: 1}}}\n",
     .problems = "p:4:23: unknown class \"A1000\"; did you mean \"A100\"?\n"
		 "p:4:41: unknown class \"Zx81\"; define it under \"classes\", or write "
		 "\"other\" for all models that nothing defines\n"},
    {.name = "class twice",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: 8}\n"
	     "      a100: {gpus: 4}\n",
     .problems = "p:7:7: class \"a100\" has a quota in line 6 already, as \"A100\"; remove "
		 "one of the two\n"},
    {.name = "class twice, first broken",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    quota:\n"
	     "      A100: {gpus: x}\n"
	     "      a100: {gpus: 4}\n",
     .problems = "p:6:20: gpus: \"x\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"
		 "p:7:7: class \"a100\" has a quota in line 6 already, as \"A100\"; remove "
		 "one of the two\n"},
    {.name = "rules",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    rules:\n"
	     "      priviledged: warn\n"
	     "      hostPath: {mode: warn, allow: [/data]}\n"
	     "      hostDevices: off\n"
	     "      bypassLabels: [warn]\n"
	     "      requireUserNamespace:\n"
	     "      podLimit: 4\n",
     .problems = "p:6:7: unknown key \"priviledged\"; did you mean \"privileged\"?\n"
		 "p:7:17: hostPath: a tenant gives a mode alone; write hostPath: warn; keys "
		 "stand in the policy's own \"rules\"\n"
		 "p:8:20: hostDevices \"off\" is not one of enforce, warn, audit, disabled; did "
		 "you mean \"disabled\"?\n"
		 "p:9:21: bypassLabels: a list where a single value is expected; write one "
		 "value\n"
		 "p:10:7: requireUserNamespace: nothing where a single value is expected; write "
		 "a value, or remove the key\n"
		 "p:11:17: podLimit \"4\" is not one of enforce, warn, audit, disabled; write "
		 "one of these words\n"},
    {.name = "rules are a word",
     .yaml = "tenants:\n"
	     "  - {name: a, rules: warn}\n",
     .problems = "p:4:22: rules: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "podLimit switched on without one",
     .yaml = "tenants:\n"
	     "  - {name: a, rules: {podLimit: warn}}\n",
     .problems = "p:4:33: podLimit: the policy's own \"rules\" do not say how many gpus; "
		 "write podLimit: {mode: disabled, gpus: 4} there, or podLimit: {gpus: 4} "
		 "outside the tenant's \"rules\"\n"},
    {.name = "podLimit switched on where it is disabled without one",
     .yaml = "tenants:\n"
	     "  - {name: a, podLimit: {gpus: 4}, rules: {podLimit: enforce}}\n"
	     "rules: {podLimit: disabled}\n",
     .problems = "p:4:54: podLimit: the policy's own \"rules\" do not say how many gpus; "
		 "write podLimit: {mode: disabled, gpus: 4} there, or podLimit: {gpus: 4} "
		 "outside the tenant's \"rules\"\n"},
    {.name = "podLimit switched on where it is wrong",
     .yaml = "tenants:\n"
	     "  - {name: a, rules: {podLimit: enforce}}\n"
	     "rules: {podLimit: {mode: warn, gpus: x}}\n",
     .problems = "p:5:38: gpus: \"x\" is not a plain decimal number; write how many GPUs, "
		 "such as 4 or 0.5\n"},
    {.name = "selector empty",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {}\n",
     .problems = "p:5:24: namespaceSelector: an empty one would match every namespace; name a "
		 "label, or remove the selector\n"},
    {.name = "selector empty labels",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {}}\n",
     .problems = "p:5:24: namespaceSelector: an empty one would match every namespace; name a "
		 "label, or remove the selector\n"},
    {.name = "selector empty both",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {}, matchExpressions: []}\n",
     .problems = "p:5:24: namespaceSelector: an empty one would match every namespace; name a "
		 "label, or remove the selector\n"},
    {.name = "selector nothing",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: ~\n",
     .problems = "p:5:24: namespaceSelector: nothing where a map is expected; write a value, "
		 "or remove the key\n"},
    {.name = "selector labels as list",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: [a]}\n",
     .problems = "p:5:38: matchLabels: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "selector bare labels",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {team: a}\n",
     .problems = "p:5:25: unknown key \"team\"; known here: matchLabels, matchExpressions\n"},
    {.name = "selector label true",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {gpu: true}}\n",
     .problems = "p:5:44: label: true or false where text is expected; for text write "
		 "\"true\", with quotes\n"},
    {.name = "selector label number",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {gpu: 5}}\n",
     .problems = "p:5:44: label: a number where text is expected; for text write \"5\", with "
		 "quotes\n"},
    {.name = "selector label nothing",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {gpu: }}\n",
     .problems = "p:5:39: label: nothing where text is expected; write a value, or remove the "
		 "key\n"},
    {.name = "selector bad key",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {\"a b\": c}}\n",
     .problems = "p:5:39: \"a b\" cannot be the key of a label; write it as on the namespace\n"},
    {.name = "selector bad value",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchLabels: {a: \"b c\"}}\n",
     .problems = "p:5:42: \"b c\" cannot be the value of a label; write it as on the "
		 "namespace, at most 63 characters\n"},
    {.name = "selector no key",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{operator: Exists}]}\n",
     .problems = "p:5:44: matchExpressions: key \"key\" is missing; write the key of a "
		 "namespace's label\n"},
    {.name = "selector no operator",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a}]}\n",
     .problems = "p:5:44: matchExpressions: key \"operator\" is missing; write In, NotIn, "
		 "Exists or DoesNotExist\n"},
    {.name = "selector bad operator",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: in, values: "
	     "[b]}]}\n",
     .problems = "p:5:63: operator \"in\" is not one of In, NotIn, Exists, DoesNotExist; did "
		 "you mean \"In\"?\n"},
    {.name = "selector operator of nodes",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: Gt, values: "
	     "[\"1\"]}]}\n",
     .problems = "p:5:63: operator \"Gt\" is not one of In, NotIn, Exists, DoesNotExist; "
		 "write one of these words\n"},
    {.name = "selector In without values",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: In}]}\n",
     .problems = "p:5:44: operator In needs values; write values: [a, b]\n"},
    {.name = "selector In with none",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: NotIn, values: "
	     "[]}]}\n",
     .problems = "p:5:78: operator NotIn needs values; write values: [a, b]\n"},
    {.name = "selector Exists with values",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: "
	     "[b]}]}\n",
     .problems = "p:5:79: operator Exists takes no values; remove them, or use In or NotIn\n"},
    {.name = "selector values as text",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: In, values: b}]}\n",
     .problems = "p:5:75: values: text where a list is expected; write [\"b\"]\n"},
    {.name = "selector value number",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: a, operator: In, values: "
	     "[5]}]}\n",
     .problems = "p:5:76: value: a number where text is expected; for text write \"5\", with "
		 "quotes\n"},
    {.name = "selector bad values",
     .yaml = "tenants:\n"
	     "  - name: a\n"
	     "    namespaceSelector: {matchExpressions: [{key: \"?\", operator: In, values: "
	     "[\"?\"]}]}\n",
     .problems = "p:5:50: \"?\" cannot be the key of a label; write it as on the namespace\n"
		 "p:5:78: \"?\" cannot be the value of a label; write it as on the namespace, "
		 "at most 63 characters\n"},
    {.name = "grant keys missing",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {}\n",
     .problems = "p:7:5: grant: key \"tenant\" is missing; write the name of a tenant\n"
		 "p:7:5: grant: key \"class\" is missing; write a class, such as A100\n"
		 "p:7:5: grant: key \"until\" is missing; write until: "
		 "\"2026-12-04T18:00:00Z\"\n"},
    {.name = "grant is text",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants: [a]\n",
     .problems = "p:6:10: grant: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "grant without amount",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: team-a, class: A100, until: \"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:5: the grant names neither gpus nor memory; write gpus: 4, or remove "
		 "the grant\n"},
    {.name = "grant unknown tenant",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: tema-a, class: A100, gpus: 1, until: \"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:14: unknown tenant \"tema-a\"; did you mean \"team-a\"?\n"},
    {.name = "grant unknown tenant, none close",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: zebra, class: A100, gpus: 1, until: \"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:14: unknown tenant \"zebra\"; add it to \"tenants\", or remove the "
		 "grant\n"},
    {.name = "grant unknown class",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: team-a, class: H10O, gpus: 1, until: \"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:29: unknown class \"H10O\"; did you mean \"H100\"?\n"},
    {.name = "grant bad amounts",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: team-a, class: A100, gpus: -1, memory: 5, until: "
	     "\"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:41: gpus: \"-1\" is negative; write 0 to allow none\n"
		 "p:7:53: memory: \"5\" is less than one MiB (these are bytes); did you mean "
		 "\"5Gi\"?\n"},
    {.name = "grant adds to nothing",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: open, class: H100, gpus: 1, until: \"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:27: tenant \"open\" has no limit of class \"H100\" and \"unlisted: "
		 "allow\": there is nothing to add to; give open a quota of H100, or remove "
		 "the grant\n"},
    {.name = "grant adds to a variant only",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: open, class: A100-80GB, gpus: 1, until: \"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:27: tenant \"open\" has no limit of class \"A100-80GB\" and \"unlisted: "
		 "allow\": there is nothing to add to; give open a quota of A100-80GB, or "
		 "remove the grant\n"},
    {.name = "grant unknown key",
     .yaml = "tenants:\n"
	     "  - {name: team-a, quota: {A100: {gpus: 8}}}\n"
	     "  - {name: open, unlisted: allow, quota: {A100: {gpus: 8}}}\n"
	     "grants:\n"
	     "  - {tenant: team-a, class: A100, gpus: 1, untill: x, until: "
	     "\"2026-12-04T18:00:00Z\"}\n",
     .problems = "p:7:44: unknown key \"untill\"; did you mean \"until\"?\n"},
    {.name = "more than twenty",
     .yaml = "tenants:\n"
	     "  - {name: X0}\n"
	     "  - {name: X1}\n"
	     "  - {name: X2}\n"
	     "  - {name: X3}\n"
	     "  - {name: X4}\n"
	     "  - {name: X5}\n"
	     "  - {name: X6}\n"
	     "  - {name: X7}\n"
	     "  - {name: X8}\n"
	     "  - {name: X9}\n"
	     "  - {name: X10}\n"
	     "  - {name: X11}\n"
	     "  - {name: X12}\n"
	     "  - {name: X13}\n"
	     "  - {name: X14}\n"
	     "  - {name: X15}\n"
	     "  - {name: X16}\n"
	     "  - {name: X17}\n"
	     "  - {name: X18}\n"
	     "  - {name: X19}\n"
	     "  - {name: X20}\n"
	     "  - {name: X21}\n"
	     "  - {name: X22}\n"
	     "  - {name: X23}\n"
	     "  - {name: X24}\n",
     .problems = "p:4:12: \"X0\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:5:12: \"X1\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:6:12: \"X2\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:7:12: \"X3\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:8:12: \"X4\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:9:12: \"X5\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:10:12: \"X6\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:11:12: \"X7\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:12:12: \"X8\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:13:12: \"X9\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:14:12: \"X10\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:15:12: \"X11\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:16:12: \"X12\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:17:12: \"X13\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:18:12: \"X14\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:19:12: \"X15\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:20:12: \"X16\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:21:12: \"X17\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:22:12: \"X18\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:23:12: \"X19\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p: 5 more\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

static void too_many_classes(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(8192);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "classes:\n");
	for (int i = 0; i <= GQ_TENANT_LIMIT_MAX; i++)
		gq_buf_printf(&yaml, "  c%d: {}\n", i);
	gq_buf_puts(&yaml, "tenants:\n  - name: a\n    quota:\n");
	for (int i = 0; i <= GQ_TENANT_LIMIT_MAX; i++)
		gq_buf_printf(&yaml, "      c%d: {gpus: 1}\n", i);
	assert_policy_problems(
	    "65", yaml.data,
	    "p:72:7: more than 64 classes in the quota of one tenant; limit fewer "
	    "classes, or a class that holds several\n");
	gq_buf_done(&yaml);
}

static void too_many_tenants(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "tenants:\n");
	for (int i = 0; i <= GQ_TENANT_MAX; i++)
		gq_buf_printf(&yaml, "  - {name: t%d}\n", i);
	assert_policy_problems(
	    "10001", yaml.data,
	    "p:4:3: 10001 tenants; at most 10000 are possible; share one tenant by "
	    "several namespaces\n");
	gq_buf_done(&yaml);
}

static void grants(void **state)
{
	static const char yaml[] = POLICY_HEAD
	    "tenants:\n"
	    "  - {name: a, quota: {A100: {gpus: 1}}}\n"
	    "  - {name: b, quota: {A100: {gpus: 1}}, unlisted: allow}\n"
	    "grants:\n"
	    "  - {tenant: b, class: a100, memory: 1Gi, until: \"1970-01-01T00:01:00Z\"}\n"
	    "  - {tenant: a, class: H100, gpus: 0.5, until: \"1970-01-01T00:02:00Z\", reason: a "
	    "b}\n"
	    "  - {tenant: a, class: \"*\", gpus: 1, memory: 1Mi, until: "
	    "\"1970-01-01T00:03:00Z\"}\n";
	struct gq_policy *policy = NULL;
	struct gq_policy_problems none = {0};

	(void)state;
	assert_int_equal(gq_policy_parse(yaml, sizeof yaml - 1, "", &policy, &none, NULL), 0);
	assert_int_equal(policy->n_grants, 3);
	const struct gq_grant *g = policy->grants;
	assert_int_equal(g[0].tenant, 1);
	assert_int_equal(g[0].class_id, gq_class_find(policy->classes, "A100"));
	assert_int_equal(g[0].amount.shares, 0);
	assert_int_equal(g[0].amount.memory_mib, 1024);
	assert_int_equal(g[0].until_s, 60);
	assert_string_equal(g[0].reason, "");
	/* a class without a limit counts as a limit of 0 with unlisted: deny */
	assert_int_equal(g[1].tenant, 0);
	assert_int_equal(g[1].class_id, gq_class_find(policy->classes, "H100"));
	assert_int_equal(g[1].amount.shares, GQ_SHARES_PER_GPU / 2);
	assert_int_equal(g[1].amount.memory_mib, 0);
	assert_string_equal(g[1].reason, "a b");
	assert_int_equal(g[2].class_id, GQ_CLASS_ANY);
	gq_policy_unref(policy);
}

/* A tenant's word may be stricter than the rule's and less strict; children do not inherit it. */
static void rules(void **state)
{
	struct gq_policy *p = policy_of(
	    POLICY_HEAD
	    "tenants:\n"
	    "  - name: a\n"
	    "    mode: audit\n"
	    "    rules: {privileged: warn, requireUserNamespace: enforce, podLimit: audit,\n"
	    "      hostDevices: disabled}\n"
	    "  - {name: b, parent: a}\n"
	    "  - {name: c, rules: {}}\n"
	    "rules:\n"
	    "  privileged: enforce\n"
	    "  podLimit: {mode: disabled, classes: {A100: {gpus: 2}}}\n");
	static const signed char words[GQ_RULES] = {
	    [GQ_RULE_PRIVILEGED] = GQ_MODE_WARN,
	    [GQ_RULE_RUNTIME_SOCKETS] = -1,
	    [GQ_RULE_HOST_DEVICES] = GQ_MODE_DISABLED,
	    [GQ_RULE_HOST_PATH] = -1,
	    [GQ_RULE_GPU_WITHOUT_REQUEST] = -1,
	    [GQ_RULE_BYPASS_LABELS] = -1,
	    [GQ_RULE_POD_LIMIT] = GQ_MODE_AUDIT,
	    [GQ_RULE_REQUIRE_GPU_MEMORY] = -1,
	    [GQ_RULE_REQUIRE_USER_NAMESPACE] = GQ_MODE_ENFORCE,
	    [GQ_RULE_REQUIRE_READINESS_PROBE] = -1,
	};

	(void)state;
	for (int id = 0; id < GQ_RULES; id++) {
		assert_int_equal(p->tenants[0].rule_modes[id], words[id]);
		assert_int_equal(p->tenants[1].rule_modes[id], -1);
		assert_int_equal(p->tenants[2].rule_modes[id], -1);
	}
	assert_int_equal(p->rules.by[GQ_RULE_PRIVILEGED].mode, GQ_MODE_ENFORCE);
	assert_int_equal(p->rules.by[GQ_RULE_REQUIRE_USER_NAMESPACE].mode, GQ_MODE_DISABLED);
	gq_policy_unref(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),
	    cmocka_unit_test(too_many_classes),
	    cmocka_unit_test(too_many_tenants),
	    cmocka_unit_test(grants),
	    cmocka_unit_test(rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
