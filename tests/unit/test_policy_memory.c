#include "policy_cases.h"

/* Fails one allocation after the other: each time the answer is GQ_ENOMEM and nothing is left
 * behind. Allocations of our own objects only; the linker sends them here. */

static long countdown; /* allocations until the one that fails; < 0: none fails */

static bool fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

static void torture(const char *yaml, int expected)
{
	for (long n = 0;; n++) {
		struct gq_policy *policy = NULL;
		struct gq_policy_problems problems = {0};
		struct gq_err err = {0};
		countdown = n;
		int code = gq_policy_parse(yaml, strlen(yaml), "", &policy, &problems, &err);
		bool all = countdown >= 0; /* it never came to the one that would have failed */
		countdown = -1;
		if (all) {
			assert_int_equal(code, expected);
			assert_true(n > 5);
			gq_policy_unref(policy);
			gq_policy_problems_done(&problems);
			return;
		}
		assert_int_equal(code, GQ_ENOMEM);
		assert_int_equal(err.code, GQ_ENOMEM);
		assert_null(policy);
		assert_int_equal(problems.n_items, 0);
		assert_null(problems.items);
	}
}

static void good_policy(void **state)
{
	(void)state;
	torture(
	    POLICY_HEAD
	    "exempt: {namespaces: [kube-system]}\n"
	    "classes: {Foo: {parent: A100, memory: 8Gi, match: [{label: l, values: [v]}]}}\n"
	    "tenants:\n"
	    "  - {name: b, quota: {Foo: {gpus: 1}}}\n"
	    "  - name: a\n"
	    "    parent: b\n"
	    "    namespaces: [x, y]\n"
	    "    namespaceSelector: {matchLabels: {team: a},\n"
	    "      matchExpressions: [{key: k, operator: In, values: [v]}]}\n"
	    "    quota: {A100: {gpus: 8, memory: 640Gi}}\n"
	    "    podLimit: {gpus: 2, classes: {A100: {gpus: 1}}}\n"
	    "    rules: {privileged: warn}\n"
	    "grants:\n"
	    "  - {tenant: a, class: A100, gpus: 8, until: \"2026-12-04T18:00:00Z\", reason: r}\n"
	    "rules:\n"
	    "  podLimit: {mode: warn, gpus: 1, exemptNamespaces: [x], classes: {Foo: {gpus: 1}}}\n"
	    "  privileged: {mode: warn, exemptServiceAccounts: [a/b]}\n"
	    "  hostPath: {mode: warn, allow: [/data, {path: /mnt, readOnly: true}]}\n"
	    "  gpuWithoutRequest: {mode: warn, schedulerNames: [hami-scheduler]}\n"
	    "  requireGpuMemory: {mode: warn, resources: [{count: a/b, memory: [a/c]}]}\n",
	    0);
}

static void bad_policy(void **state)
{
	(void)state;
	torture(POLICY_HEAD
		"mode: off\n"
		"mode: warn\n"
		"tenents: []\n"
		"classes: {Foo: {parent: Bar}, other: {}}\n"
		"tenants:\n"
		"  - {name: a, parent: b, quota: {A10O: {gpus: 500m, memory: 80GB}}}\n"
		"  - {name: b, parent: a, namespaces: [kube-system, x, x]}\n"
		"  - {name: c, podLimit: 4, rules: {podLimit: warn, tidyDesk: warn}}\n"
		"rules:\n"
		"  privileged: {mode: warn, exemptServiceAccounts: [b, a/b, a/b]}\n"
		"  hostPath: {mode: warn, allow: [/, /a, /./a, {readOnly: true}]}\n"
		"  bypassLabels: {mode: warn, schedulerNames: [\"\"], images: []}\n"
		"  requireGpuMemory: {mode: warn, resources: [{count: a, memory: []}]}\n",
		GQ_EINVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good_policy),
	    cmocka_unit_test(bad_policy),
	};
	countdown = -1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
