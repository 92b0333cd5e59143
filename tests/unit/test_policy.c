#include <pthread.h>
#include <time.h>

#include "policy_cases.h"

/* Every key that this version takes, with a value that is not its default. */
static void every_key(void **state)
{
	static const char yaml[] = POLICY_HEAD
	    "mode: warn\n"
	    "locale: zh\n"
	    "unassigned: allow\n"
	    "ambiguous: deny\n"
	    "holders: none\n"
	    "exempt:\n"
	    "  namespaces: [kube-system, gpuquota-system, gpu-operator]\n"
	    "classes:\n"
	    "  A100-80GB:\n"
	    "    match: [{label: node.kubernetes.io/instance-type, values: [p4de.24xlarge]}]\n"
	    "    memory: 80Gi\n"
	    "tenants:\n"
	    "  - name: research\n"
	    "    mode: audit\n"
	    "    locale: en\n"
	    "    quota:\n"
	    "      A100: {gpus: 16}\n"
	    "  - name: team-a\n"
	    "    parent: research\n"
	    "    namespaces: [a-train, a-serve]\n"
	    "    namespaceSelector:\n"
	    "      matchLabels: {team: a}\n"
	    "      matchExpressions: [{key: env, operator: NotIn, values: [test, \"\"]}]\n"
	    "    quota:\n"
	    "      A100: {gpus: 8, memory: 640Gi}\n"
	    "      H100: {gpus: 4}\n"
	    "      \"*\": {memory: 1Ti}\n"
	    "    unlisted: allow\n"
	    "    podLimit: {gpus: 4, classes: {H100: {gpus: 2}}}\n"
	    "    rules: {privileged: enforce, hostDevices: audit}\n"
	    "grants:\n"
	    "  - {tenant: team-a, class: H100, gpus: 8, until: \"2026-12-04T18:00:00Z\", reason: "
	    "launch}\n"
	    "rules:\n"
	    "  privileged: {mode: warn, exemptServiceAccounts: [gpu-operator/driver]}\n"
	    "  containerRuntimeSockets: enforce\n"
	    "  hostDevices: {mode: enforce, exemptNamespaces: [gpu-operator]}\n"
	    "  hostPath: {mode: audit, allow: [/data, {path: /mnt/models, "
	    "readOnly: true}]}\n"
	    "  gpuWithoutRequest: {mode: warn, schedulerNames: [kai-scheduler]}\n"
	    "  bypassLabels: {mode: enforce, schedulerNames: [hami-scheduler]}\n"
	    "  podLimit: {mode: enforce, gpus: 2, classes: {A100: {gpus: 1}}, "
	    "exemptNamespaces: [ai-core-production]}\n"
	    "  requireGpuMemory: {mode: warn, resources: [{count: "
	    "volcano.sh/vgpu-number, memory: [volcano.sh/vgpu-memory]}]}\n"
	    "  requireUserNamespace: disabled\n"
	    "  requireReadinessProbe: warn\n";
	struct gq_policy *p = policy_of(yaml);

	(void)state;
	assert_string_equal(p->hash, "abc");
	assert_int_equal(p->n_bytes, sizeof yaml - 1);
	assert_memory_equal(p->bytes, yaml, sizeof yaml - 1);
	assert_ptr_not_equal(p->bytes, yaml);
	assert_int_equal(p->mode, GQ_MODE_WARN);
	assert_int_equal(p->locale, GQ_LOCALE_ZH);
	assert_true(p->unassigned_allow);
	assert_true(p->ambiguous_deny);
	assert_int_equal(p->holders, GQ_HOLDERS_NONE);
	assert_int_equal(p->n_exempt_namespaces, 3);
	assert_string_equal(p->exempt_namespaces[2], "gpu-operator");
	assert_int_equal(gq_class_memory_mib(p->classes, gq_class_find(p->classes, "A100-80GB")),
			 80 * 1024);
	assert_int_equal(p->n_tenants, 2);
	assert_int_equal(p->tenants[0].mode, GQ_MODE_AUDIT);
	assert_int_equal(p->tenants[0].locale, GQ_LOCALE_EN);
	assert_int_equal(p->tenants[0].n_namespaces, 0);
	assert_null(p->tenants[0].selector);
	const struct gq_tenant *t = &p->tenants[1];
	assert_string_equal(t->name, "team-a");
	assert_int_equal(t->parent, 0);
	assert_int_equal(t->mode, GQ_MODE_WARN);
	assert_int_equal(t->locale, GQ_LOCALE_ZH);
	assert_int_equal(t->n_namespaces, 2);
	assert_string_equal(t->namespaces[1], "a-serve");
	assert_int_equal(t->selector->n_requirements, 2);
	assert_string_equal(t->selector->requirements[0].key, "team");
	assert_string_equal(t->selector->requirements[0].values[0], "a");
	assert_int_equal(t->selector->requirements[1].op, GQ_OP_NOT_IN);
	assert_string_equal(t->selector->requirements[1].values[1], "");
	assert_int_equal(t->n_limits, 3);
	assert_int_equal(t->limits[0].class_id, gq_class_find(p->classes, "A100"));
	assert_int_equal(t->limits[0].most.shares, 8 * GQ_SHARES_PER_GPU);
	assert_int_equal(t->limits[0].most.memory_mib, 640 * 1024);
	assert_int_equal(t->limits[1].most.memory_mib, GQ_UNLIMITED);
	assert_int_equal(t->limits[2].class_id, GQ_CLASS_ANY);
	assert_int_equal(t->limits[2].most.shares, GQ_UNLIMITED);
	assert_int_equal(t->limits[2].most.memory_mib, 1024 * 1024);
	assert_true(t->unlisted_allow);
	assert_int_equal(t->pod_limit.shares, 4 * GQ_SHARES_PER_GPU);
	assert_int_equal(t->pod_limit.n_classes, 1);
	assert_int_equal(t->rule_modes[GQ_RULE_PRIVILEGED], GQ_MODE_ENFORCE);
	assert_int_equal(t->rule_modes[GQ_RULE_HOST_DEVICES], GQ_MODE_AUDIT);
	assert_int_equal(p->n_grants, 1);
	assert_int_equal(p->grants[0].until_s, 1796407200);
	assert_string_equal(p->grants[0].reason, "launch");
	assert_int_equal(p->rules.by[GQ_RULE_POD_LIMIT].mode, GQ_MODE_ENFORCE);
	assert_int_equal(p->rules.pod_limit.shares, 2 * GQ_SHARES_PER_GPU);
	assert_int_equal(p->rules.pod_limit.n_classes, 1);
	assert_string_equal(p->rules.by[GQ_RULE_POD_LIMIT].exempt_namespaces[0],
			    "ai-core-production");
	assert_int_equal(p->rules.by[GQ_RULE_PRIVILEGED].mode, GQ_MODE_WARN);
	assert_string_equal(p->rules.by[GQ_RULE_PRIVILEGED].exempt_accounts[0].name, "driver");
	assert_int_equal(p->rules.by[GQ_RULE_RUNTIME_SOCKETS].mode, GQ_MODE_ENFORCE);
	assert_int_equal(p->rules.by[GQ_RULE_HOST_PATH].mode, GQ_MODE_AUDIT);
	assert_int_equal(p->rules.n_allowed_paths, 2);
	assert_true(p->rules.allowed_paths[1].read_only);
	assert_string_equal(p->rules.gpu_schedulers[0], "kai-scheduler");
	assert_string_equal(p->rules.only_schedulers[0], "hami-scheduler");
	assert_string_equal(p->rules.vgpus[0].count, "volcano.sh/vgpu-number");
	assert_int_equal(p->rules.by[GQ_RULE_REQUIRE_USER_NAMESPACE].mode, GQ_MODE_DISABLED);
	assert_int_equal(p->rules.by[GQ_RULE_REQUIRE_READINESS_PROBE].mode, GQ_MODE_WARN);
	gq_policy_unref(p);
}

static void defaults(void **state)
{
	struct gq_policy *p = policy_of(POLICY_HEAD "tenants:\n  - {name: a}\n");

	(void)state;
	assert_int_equal(p->mode, GQ_MODE_ENFORCE);
	assert_false(p->unassigned_allow);
	assert_false(p->ambiguous_deny);
	assert_int_equal(p->holders, GQ_HOLDERS_NAMESPACE);
	assert_int_equal(p->n_exempt_namespaces, 2);
	assert_string_equal(p->exempt_namespaces[0], "kube-system");
	assert_string_equal(p->exempt_namespaces[1], "gpuquota-system");
	assert_int_not_equal(gq_class_find(p->classes, "H100"), GQ_CLASS_NONE);
	assert_int_equal(p->locale, GQ_LOCALE_EN);
	assert_int_equal(p->tenants[0].locale, GQ_LOCALE_EN);
	assert_int_equal(p->tenants[0].mode, GQ_MODE_ENFORCE);
	assert_int_equal(p->tenants[0].parent, -1);
	assert_false(p->tenants[0].unlisted_allow);
	assert_int_equal(p->tenants[0].pod_limit.shares, GQ_UNLIMITED);
	assert_int_equal(p->tenants[0].n_limits, 0);
	assert_int_equal(p->n_grants, 0);
	for (int id = 0; id < GQ_RULES; id++) {
		assert_int_equal(p->rules.by[id].mode, GQ_MODE_DISABLED);
		assert_int_equal(p->tenants[0].rule_modes[id], -1);
	}
	assert_int_equal(p->rules.pod_limit.shares, GQ_UNLIMITED);
	/* a tenant may switch on what the policy does not mention */
	assert_string_equal(p->rules.gpu_schedulers[0], "hami-scheduler");
	assert_string_equal(p->rules.vgpus[0].count, "nvidia.com/gpu");
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD "exempt: {namespaces: []}\ntenants: []\n");
	assert_int_equal(p->n_exempt_namespaces, 0);
	assert_int_equal(p->n_tenants, 0);
	gq_policy_unref(p);
	p = policy_of(POLICY_HEAD);
	assert_int_equal(p->n_tenants, 0);
	gq_policy_unref(p);
}

static void json_is_yaml(void **state)
{
	struct gq_policy *p = policy_of("{\"apiVersion\":\"config.gpuquota.io/v1alpha1\","
					"\"kind\":\"QuotaPolicy\",\"tenants\":[{\"name\":\"a\","
					"\"quota\":{\"*\":{\"gpus\":1.5}}}]}");

	(void)state;
	assert_int_equal(p->tenants[0].limits[0].most.shares, GQ_SHARES_PER_GPU * 3 / 2);
	gq_policy_unref(p);
}

static void hashes(void **state)
{
	struct gq_policy *p = NULL;
	struct gq_policy_problems none = {0};
	char hash[100];

	(void)state;
	memset(hash, 'f', sizeof hash - 1);
	hash[99] = '\0';
	assert_int_equal(gq_policy_parse(POLICY_HEAD, strlen(POLICY_HEAD), hash, &p, &none, NULL),
			 0);
	assert_int_equal(strlen(p->hash), 64);
	gq_policy_unref(p);
}

static void too_big(void **state)
{
	struct gq_policy *p = NULL;
	struct gq_policy_problems none = {0};
	struct gq_err err = {0};
	struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES + 1);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "#");
	while (yaml.len < GQ_POLICY_MAX_BYTES)
		gq_buf_putc(&yaml, 'x');
	assert_int_equal(gq_policy_parse(yaml.data, yaml.len, "", &p, &none, &err), 0);
	gq_policy_unref(GQ_STEAL(p));
	gq_buf_putc(&yaml, 'x');
	assert_int_equal(gq_policy_parse(yaml.data, yaml.len, "", &p, &none, &err), GQ_ETOOBIG);
	assert_string_equal(err.msg, "the policy has 1048577 bytes; at most 1048576 are read");
	assert_null(p);
	assert_int_equal(none.n_items, 0);
	gq_buf_done(&yaml);
}

/* Ten thousand tenants with parents, namespaces, selectors and quotas, and a tenth of that wrong:
 * a check that is not linear would be seen by the test's time limit. */
static void many_tenants(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);
	struct gq_policy *p;

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "tenants:\n");
	for (int i = 0; i < GQ_TENANT_MAX; i++)
		gq_buf_printf(&yaml,
			      "- {name: t%d, parent: t%d, namespaces: [n%d, m%d], "
			      "quota: {A100: {gpus: 8}}}\n",
			      i, i == 0 ? -1 : i / 10, i, i);
	char *at = strstr(yaml.data, ", parent: t-1");
	assert_non_null(at);
	memset(at, ' ', strlen(", parent: t-1"));
	struct timespec before, after;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	p = policy_of(yaml.data);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	print_message("%zu bytes, %zu tenants: %.0f ms of CPU\n", yaml.len, p->n_tenants,
		      (double)(after.tv_sec - before.tv_sec) * 1e3 +
			  (double)(after.tv_nsec - before.tv_nsec) / 1e6);
	assert_int_equal(p->n_tenants, GQ_TENANT_MAX);
	assert_int_equal(p->tenants[9999].parent, 999);
	gq_policy_unref(p);
	/* every parent unknown: a suggestion is looked for only where it will be shown */
	for (at = yaml.data; (at = strstr(at, "parent: t"));)
		memcpy(at, "parent: u", 9);
	char *problems = policy_problems(yaml.data, yaml.len);
	assert_non_null(strstr(problems, "p: 9979 more\n"));
	free(problems);
	gq_buf_done(&yaml);
}

static void *hold(void *policy)
{
	for (int i = 0; i < 10000; i++)
		gq_policy_unref(gq_policy_ref(policy));
	gq_policy_unref(policy);
	return NULL;
}

static void counted(void **state)
{
	struct gq_policy *p = policy_of(POLICY_HEAD);
	pthread_t threads[4];

	(void)state;
	assert_null(gq_policy_ref(NULL));
	gq_policy_unref(NULL);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hold, gq_policy_ref(p)), 0);
	assert_int_equal(p->mode, GQ_MODE_ENFORCE);
	gq_policy_unref(p);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void selectors(void **state)
{
	static const struct {
		const char *selector;
		bool none; /* matches a namespace without labels */
		bool team; /* team=a */
		bool both; /* env=prod, team=b */
	} cases[] = {
	    {"{matchLabels: {team: a}}", false, true, false},
	    {"{matchLabels: {team: b, env: prod}}", false, false, true},
	    {"{matchLabels: {team: a, env: prod}}", false, false, false},
	    {"{matchExpressions: [{key: team, operator: In, values: [a, b]}]}", false, true, true},
	    {"{matchExpressions: [{key: team, operator: NotIn, values: [a]}]}", true, false, true},
	    {"{matchExpressions: [{key: env, operator: Exists}]}", false, false, true},
	    {"{matchExpressions: [{key: env, operator: DoesNotExist}]}", true, true, false},
	    {"{matchLabels: {team: a}, matchExpressions: [{key: env, operator: Exists}]}", false,
	     false, false},
	    {"{matchLabels: {team: \"\"}}", false, false, false},
	};
	static const struct gq_label team[] = {{"team", "a"}};
	static const struct gq_label both[] = {{"env", "prod"}, {"team", "b"}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char yaml[512];
		(void)snprintf(yaml, sizeof yaml,
			       POLICY_HEAD "tenants: [{name: a, namespaceSelector: %s}]\n",
			       cases[i].selector);
		struct gq_policy *p = policy_of(yaml);
		const struct gq_label_selector *s = p->tenants[0].selector;
		assert_non_null(s);
		assert_int_equal(gq_label_selector_matches(s, NULL, 0), cases[i].none);
		assert_int_equal(gq_label_selector_matches(s, team, 1), cases[i].team);
		assert_int_equal(gq_label_selector_matches(s, both, 2), cases[i].both);
		gq_policy_unref(p);
	}
	/* numbers are compared for nodes only */
	static const char *const five[] = {"5"};
	static const struct gq_requirement greater = {"n", GQ_OP_GT, five, 1};
	static const struct gq_label_selector numeric = {&greater, 1};
	static const struct gq_label six[] = {{"n", "6"}};
	assert_false(gq_label_selector_matches(&numeric, six, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key),    cmocka_unit_test(defaults),
	    cmocka_unit_test(json_is_yaml), cmocka_unit_test(hashes),
	    cmocka_unit_test(too_big),      cmocka_unit_test(many_tenants),
	    cmocka_unit_test(counted),      cmocka_unit_test(selectors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
