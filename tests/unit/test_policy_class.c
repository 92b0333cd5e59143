#include "policy_cases.h"

static const struct policy_case cases[] = {
    {.name = "list",
     .yaml = "classes:\n"
	     "  - A100\n",
     .problems = "p:4:3: classes: a list where a map is expected; write {key: value}, or "
		 "\"key: value\" on lines further in\n"},
    {.name = "nothing",
     .yaml = "classes:\n"
	     "  X:\n",
     .problems = "p:4:3: class: nothing where a map is expected; write a value, or remove the "
		 "key\n"},
    {.name = "text",
     .yaml = "classes:\n"
	     "  X: 80Gi\n",
     .problems = "p:4:6: class: text where a map is expected; write {key: value}, or \"key: "
		 "value\" on lines further in\n"},
    {.name = "star anew",
     .yaml = "classes:\n"
	     "  \"*\": {memory: 1Gi}\n",
     .problems = "p:4:3: class \"*\" is built in and cannot be defined anew; choose another "
		 "name\n"},
    {.name = "other anew",
     .yaml = "classes:\n"
	     "  Other: {memory: 1Gi}\n",
     .problems = "p:4:3: class \"Other\" is built in and cannot be defined anew; choose "
		 "another name\n"},
    {.name = "bad name",
     .yaml = "classes:\n"
	     "  \"a b\": {}\n"
	     "  \"\": {}\n"
	     "  -x: {}\n",
     .problems = "p:4:3: \"a b\" cannot be the name of a class; use letters, digits, \"-\", "
		 "\"_\" and \".\", at most 63\n"
		 "p:5:3: \"\" cannot be the name of a class; use letters, digits, \"-\", "
		 "\"_\" and \".\", at most 63\n"
		 "p:6:3: \"-x\" cannot be the name of a class; use letters, digits, \"-\", "
		 "\"_\" and \".\", at most 63\n"},
    {.name = "twice",
     .yaml = "classes:\n"
	     "  Foo: {memory: 1Gi}\n"
	     "  foo: {memory: 2Gi}\n",
     .problems = "p:5:3: class \"foo\" is defined as \"Foo\" in line 4 already; remove one of "
		 "the two\n"},
    {.name = "no memory at all",
     .yaml = "classes:\n"
	     "  Foo: {memory: 0}\n",
     .problems = "p:4:17: memory: a device has more than 0; write the memory of one device, "
		 "or remove the key\n"},
    {.name = "unknown parent",
     .yaml = "classes:\n"
	     "  Foo: {parent: A10O}\n"
	     "  Bar: {parent: Fo}\n"
	     "  Baz: {parent: nowhere}\n",
     .problems = "p:4:17: unknown class \"A10O\" as parent; did you mean \"A100\"?\n"
		 "p:5:17: unknown class \"Fo\" as parent; did you mean \"Foo\"?\n"
		 "p:6:17: unknown class \"nowhere\" as parent; define it under \"classes\"\n"},
    {.name = "parent other",
     .yaml = "classes:\n"
	     "  Foo: {parent: other}\n",
     .problems = "p:4:17: class \"other\" holds no classes; leave parent out, or name a "
		 "model\n"},
    {.name = "parent itself",
     .yaml = "classes:\n"
	     "  Foo: {parent: foo}\n",
     .problems = "p:4:17: parent cycle of classes: Foo -> foo; give one of them another "
		 "parent, or none\n"},
    {.name = "circle of three",
     .yaml = "classes:\n"
	     "  A: {parent: B}\n"
	     "  B: {parent: C}\n"
	     "  C: {parent: A}\n"
	     "  D: {parent: A}\n",
     .problems = "p:4:15: parent cycle of classes: A -> B -> C -> A; give one of them another "
		 "parent, or none\n"},
    {.name = "circle through a built-in class",
     .yaml = "classes:\n"
	     "  A100: {parent: A100-80GB}\n",
     .problems = "p:4:18: parent cycle of classes: A100 -> A100-80GB -> A100; give one of "
		 "them another parent, or none\n"},
    {.name = "cycle through a built-in parent of an own class",
     .yaml = "classes:\n"
	     "  A100-80GB: {memory: 80Gi}\n"
	     "  A100: {parent: A100-80GB}\n",
     .problems = "p:5:18: parent cycle of classes: A100 -> A100-80GB -> A100; give one of them "
		 "another parent, or none\n"},
    {.name = "match is a map",
     .yaml = "classes:\n"
	     "  X: {match: {label: l, values: [v]}}\n",
     .problems = "p:4:14: match: a map where a list is expected; begin each item with \"- \", "
		 "or write [a, b]\n"},
    {.name = "match without values",
     .yaml = "classes:\n"
	     "  X: {match: [{label: l}]}\n",
     .problems = "p:4:15: match: key \"values\" is missing; write the label's values: [a, b]\n"},
    {.name = "match with no value",
     .yaml = "classes:\n"
	     "  X: {match: [{label: l, values: []}]}\n",
     .problems = "p:4:34: values: an empty list matches no node; write the label's values, or "
		 "remove the match\n"},
    {.name = "match without label",
     .yaml = "classes:\n"
	     "  X: {match: [{values: [a]}]}\n",
     .problems = "p:4:15: match: key \"label\" is missing; write the key of a node label\n"},
    {.name = "match bad label",
     .yaml = "classes:\n"
	     "  X: {match: [{label: \"a b\", values: [v]}]}\n"
	     "  Y: {match: [{label: \"/a\", values: [v]}]}\n"
	     "  Z: {match: [{label: a/b/c, values: [v]}]}\n",
     .problems = "p:4:23: \"a b\" cannot be the key of a label; write it as on the node, such "
		 "as nvidia.com/gpu.product\n"
		 "p:5:23: \"/a\" cannot be the key of a label; write it as on the node, such "
		 "as nvidia.com/gpu.product\n"
		 "p:6:23: \"a/b/c\" cannot be the key of a label; write it as on the node, "
		 "such as nvidia.com/gpu.product\n"},
    {.name = "match bad value",
     .yaml = "classes:\n"
	     "  X: {match: [{label: l, values: [\"a b\"]}]}\n"
	     "  Y: {match: [{label: l, values: [5]}]}\n"
	     "  Z: {match: [{label: l, values: [\"\"]}]}\n",
     .problems = "p:4:35: \"a b\" cannot be the value of a label; write it as on the node, at "
		 "most 63 characters\n"
		 "p:5:35: value: a number where text is expected; for text write \"5\", with "
		 "quotes\n"
		 "p:6:35: \"\" cannot be the value of a label; write it as on the node, at "
		 "most 63 characters\n"},
    {.name = "two classes match alike",
     .yaml = "classes:\n"
	     "  X: {match: [{label: l, values: [a, b]}]}\n"
	     "  Y: {match: [{label: l, values: [c, b]}]}\n",
     .problems = "p:5:38: \"b\" is matched by class \"X\" in line 4 already; leave it with "
		 "one of X and Y\n"},
    {.name = "unknown key",
     .yaml = "classes:\n"
	     "  X: {matches: []}\n",
     .problems = "p:4:7: unknown key \"matches\"; did you mean \"match\"?\n"},
    {.name = "refused class is not unknown elsewhere",
     .yaml = "classes:\n"
	     "  Foo: {memory: 0}\n"
	     "tenants:\n"
	     "  - {name: a, quota: {FOO: {gpus: 1}}}\n",
     .problems = "p:4:17: memory: a device has more than 0; write the memory of one device, "
		 "or remove the key\n"},
    {.name = "not unknown in quota: own class",
     .yaml = "classes:\n"
	     "  Foo: {memory: 8Gi}\n"
	     "tenants:\n"
	     "  - {name: a, quota: {foo: {gpus: 1}, fooo: {gpus: 1}}}\n",
     .problems = "p:6:39: unknown class \"fooo\"; did you mean \"Foo\"?\n"},
    {.name = "unknown class, number",
     .yaml = "tenants:\n"
	     "  - {name: a, quota: {4090: {gpus: 1}}}\n",
     .problems = "p:4:23: unknown class \"4090\"; define it under \"classes\", or write "
		 "\"other\" for all models that nothing defines\n"},
};

static void problems(void **state)
{
	(void)state;
	check_policy_cases(cases, sizeof cases / sizeof cases[0]);
}

static void too_many(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(64u << 10);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "classes:\n");
	for (int i = 0; i < GQ_CLASS_MAX + 1; i++)
		gq_buf_printf(&yaml, "  X%d: {}\n", i);
	assert_policy_problems("too many", yaml.data,
			       "p:4:3: more than 256 classes; define fewer\n");
	gq_buf_done(&yaml);
}

/* Fewer than the cap, but not together with the built-in ones: told by the table, placed here. */
static void too_many_with_built_in(void **state)
{
	struct gq_buf yaml = GQ_BUF_INIT(64u << 10);

	(void)state;
	gq_buf_puts(&yaml, POLICY_HEAD "classes:\n");
	for (int i = 0; i < GQ_CLASS_MAX - 1; i++)
		gq_buf_printf(&yaml, "  X%d: {}\n", i);
	char *problems = policy_problems(yaml.data, yaml.len);
	assert_ptr_equal(strstr(problems, "p:4:3: classes: "), problems);
	free(problems);
	gq_buf_done(&yaml);
}

static void in_the_table(void **state)
{
	static const char yaml[] = POLICY_HEAD
	    "classes:\n"
	    "  Big: {}\n"
	    "  Big-1: {parent: big, memory: 640Gi, match: [{label: x/y, values: [a, b]}]}\n"
	    "  a100-80gb: {memory: 81Gi}\n"
	    "tenants:\n"
	    "  - name: a\n"
	    "    quota: {BIG-1: {gpus: 1}, \"*\": {gpus: 2}, OTHER: {gpus: 3}, a100: {gpus: 4}}\n";
	struct gq_policy *policy = NULL;
	struct gq_policy_problems none = {0};
	const struct gq_label label = {"x/y", "b"};

	(void)state;
	assert_int_equal(gq_policy_parse(yaml, sizeof yaml - 1, "", &policy, &none, NULL), 0);
	const struct gq_class_table *table = policy->classes;
	int big = gq_class_find(table, "Big"), leaf = gq_class_find(table, "Big-1");
	assert_int_not_equal(big, GQ_CLASS_NONE);
	assert_int_not_equal(leaf, GQ_CLASS_NONE);
	assert_int_equal(gq_class_parent(table, leaf), big);
	assert_int_equal(gq_class_memory_mib(table, leaf), 640 * 1024);
	assert_int_equal(gq_class_memory_mib(table, gq_class_find(table, "A100-80GB")), 81 * 1024);
	assert_int_equal(gq_class_read_labels(table, &label, 1).class_id, leaf);
	const struct gq_tenant *tenant = &policy->tenants[0];
	assert_int_equal(tenant->n_limits, 4);
	assert_int_equal(tenant->limits[0].class_id, leaf);
	assert_int_equal(tenant->limits[1].class_id, GQ_CLASS_ANY);
	assert_int_equal(tenant->limits[2].class_id, GQ_CLASS_OTHER);
	assert_int_equal(tenant->limits[3].class_id, gq_class_find(table, "A100"));
	gq_policy_unref(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(problems),
	    cmocka_unit_test(too_many),
	    cmocka_unit_test(too_many_with_built_in),
	    cmocka_unit_test(in_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
