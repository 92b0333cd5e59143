#include "policy_cases.h"

static const struct policy_case cases[] = {
    {.name = "name twice",
     .yaml = "tenants:\n"
	     "  - {name: a}\n"
	     "  - {name: b}\n"
	     "  - {name: a}\n",
     .problems = "p:6:12: tenant \"a\" stands in line 4 already; choose another name, or "
		 "merge the two\n"},
    {.name = "unknown parent",
     .yaml = "tenants:\n"
	     "  - {name: research}\n"
	     "  - {name: b, parent: reserach}\n"
	     "  - {name: c, parent: zzz}\n",
     .problems = "p:5:23: unknown tenant \"reserach\" as parent; did you mean \"research\"?\n"
		 "p:6:23: unknown tenant \"zzz\" as parent; add it to \"tenants\", or remove "
		 "the parent\n"},
    {.name = "own parent",
     .yaml = "tenants:\n"
	     "  - {name: a, parent: a}\n",
     .problems = "p:4:23: parent cycle: a -> a; remove the parent of one of them\n"},
    {.name = "circle of two",
     .yaml = "tenants:\n"
	     "  - {name: a, parent: b}\n"
	     "  - {name: b, parent: a}\n",
     .problems = "p:4:23: parent cycle: a -> b -> a; remove the parent of one of them\n"},
    {.name = "circle told once",
     .yaml = "tenants:\n"
	     "  - {name: tail, parent: c}\n"
	     "  - {name: c, parent: d}\n"
	     "  - {name: d, parent: e}\n"
	     "  - {name: e, parent: c}\n"
	     "  - {name: f, parent: e}\n",
     .problems = "p:5:23: parent cycle: c -> d -> e -> c; remove the parent of one of them\n"},
    {.name = "two circles",
     .yaml = "tenants:\n"
	     "  - {name: a, parent: b}\n"
	     "  - {name: b, parent: a}\n"
	     "  - {name: c, parent: d}\n"
	     "  - {name: d, parent: c}\n",
     .problems = "p:4:23: parent cycle: a -> b -> a; remove the parent of one of them\n"
		 "p:6:23: parent cycle: c -> d -> c; remove the parent of one of them\n"},
    {.name = "too deep",
     .yaml = "tenants:\n"
	     "  - {name: t0}\n"
	     "  - {name: t1, parent: t0}\n"
	     "  - {name: t2, parent: t1}\n"
	     "  - {name: t3, parent: t2}\n"
	     "  - {name: t4, parent: t3}\n"
	     "  - {name: t5, parent: t4}\n"
	     "  - {name: t6, parent: t5}\n"
	     "  - {name: t7, parent: t6}\n"
	     "  - {name: t8, parent: t7}\n"
	     "  - {name: t9, parent: t8}\n"
	     "  - {name: t10, parent: t9}\n"
	     "  - {name: t11, parent: t10}\n",
     .problems = "p:13:24: tenant \"t9\" has more than 8 parents above it; take out a level\n"},
    {.name = "too deep, the other way round",
     .yaml = "tenants:\n"
	     "  - {name: t9, parent: t8}\n"
	     "  - {name: t8, parent: t7}\n"
	     "  - {name: t7, parent: t6}\n"
	     "  - {name: t6, parent: t5}\n"
	     "  - {name: t5, parent: t4}\n"
	     "  - {name: t4, parent: t3}\n"
	     "  - {name: t3, parent: t2}\n"
	     "  - {name: t2, parent: t1}\n"
	     "  - {name: t1, parent: t0}\n"
	     "  - {name: t0}\n",
     .problems = "p:4:24: tenant \"t9\" has more than 8 parents above it; take out a level\n"},
    {.name = "namespace of two",
     .yaml = "tenants:\n"
	     "  - {name: a, namespaces: [x, y]}\n"
	     "  - {name: b, namespaces: [z, y]}\n",
     .problems = "p:5:31: namespace \"y\" belongs to tenant \"a\" in line 4; leave it with "
		 "one of \"a\" and \"b\"\n"},
    {.name = "namespace twice in one",
     .yaml = "tenants:\n"
	     "  - {name: a, namespaces: [x, y, x]}\n",
     .problems = "p:4:34: namespace \"x\" stands in line 4 already; remove one of the two\n"},
    {.name = "namespace exempt",
     .yaml = "exempt: {namespaces: [x]}\n"
	     "tenants:\n"
	     "  - {name: a, namespaces: [x, kube-system]}\n",
     .problems = "p:5:28: namespace \"x\" is exempt; remove it here or under exempt\n"},
    {.name = "namespace exempt by default",
     .yaml = "tenants:\n"
	     "  - {name: a, namespaces: [x, kube-system]}\n",
     .problems = "p:4:31: namespace \"kube-system\" is exempt, as long as \"exempt\" does not "
		 "say otherwise; remove it here or under exempt\n"},
    {.name = "nameless tenants do not clash",
     .yaml = "tenants:\n"
	     "  - {name: A}\n"
	     "  - {name: A}\n",
     .problems = "p:4:12: \"A\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"
		 "p:5:12: \"A\" cannot be the name of a tenant; use a-z, 0-9 and \"-\", at "
		 "most 63 characters\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

/* Eight parents above a tenant are allowed, whatever the order in the file. */
static void deep_enough(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(4096);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "tenants:\n  - {name: t0}\n");
	for (int i = GQ_TENANT_DEPTH_MAX; i > 0; i--)
		gq_buf_printf(&yaml, "  - {name: t%d, parent: t%d}\n", i, i - 1);
	assert_policy_problems("deep", yaml.data, "");
	gq_buf_done(&yaml);
}

/* A cycle longer than a message is cut, and still begins and ends with the same tenant. */
static void long_cycle(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(8192);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "tenants:\n");
	for (int i = 0; i < 99; i++)
		gq_buf_printf(&yaml, "  - {name: a-tenant-%d, parent: a-tenant-%d}\n", i,
			      (i + 1) % 99);
	char *problems = policy_problems(yaml.data, yaml.len);
	assert_non_null(strstr(problems, "p:4:32: parent cycle: a-tenant-0 -> a-tenant-1 -> "));
	assert_non_null(strstr(problems, "… -> a-tenant-0; remove the parent of one of them\n"));
	free(problems);
	gq_buf_done(&yaml);
}

static void parents(void **state)
{
	static const char yaml[] = POLICY_HEAD "tenants:\n"
					       "  - {name: c, parent: b}\n"
					       "  - {name: a}\n"
					       "  - {name: b, parent: a}\n";
	struct gq_policy *policy = NULL;
	struct gq_policy_problems none = {0};

	(void)state;
	assert_int_equal(gq_policy_parse(yaml, sizeof yaml - 1, "", &policy, &none, NULL), 0);
	assert_int_equal(policy->tenants[0].parent, 2);
	assert_int_equal(policy->tenants[1].parent, -1);
	assert_int_equal(policy->tenants[2].parent, 1);
	gq_policy_unref(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),
	    cmocka_unit_test(deep_enough),
	    cmocka_unit_test(long_cycle),
	    cmocka_unit_test(parents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
