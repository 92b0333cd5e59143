#include "quota/class.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct gq_class_table *table_of(const struct gq_class_def *defs, size_t n)
{
	struct gq_class_table *table = NULL;
	struct gq_err err = {0};

	if (gq_class_table_new(defs, n, &table, &err))
		fail_msg("%s", err.msg);
	return table;
}

static int id_of(const struct gq_class_table *table, const char *name)
{
	int id = gq_class_find(table, name);

	if (id == GQ_CLASS_NONE)
		fail_msg("no class %s", name);
	return id;
}

static size_t count_leaves(const struct gq_class_table *table, const char *name)
{
	const struct gq_class_set *set = gq_class_leaves(table, id_of(table, name));
	size_t n = 0;

	for (size_t i = 0; i < gq_class_count(table); i++)
		n += gq_class_set_has(set, (int)i);
	return n;
}

static bool holds(const struct gq_class_table *table, const char *name, const char *leaf)
{
	return gq_class_set_has(gq_class_leaves(table, id_of(table, name)), id_of(table, leaf));
}

static void test_builtin_tree(void **state)
{
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(NULL, 0);
	(void)state;

	assert_int_equal(gq_class_find(table, "*"), GQ_CLASS_ANY);
	assert_int_equal(gq_class_find(table, "other"), GQ_CLASS_OTHER);
	assert_int_equal(gq_class_find(table, "a100-80gb"), id_of(table, "A100-80GB"));
	assert_int_equal(gq_class_find(table, "A100-80"), GQ_CLASS_NONE);
	assert_string_equal(gq_class_name(table, id_of(table, "h100")), "H100");
	assert_int_equal(gq_class_parent(table, GQ_CLASS_ANY), GQ_CLASS_NONE);
	assert_int_equal(gq_class_parent(table, id_of(table, "A100")), GQ_CLASS_ANY);
	assert_int_equal(gq_class_parent(table, id_of(table, "A100-40GB")), id_of(table, "A100"));
	assert_int_equal(count_leaves(table, "A100"), 2);
	assert_true(holds(table, "A100", "A100-40GB"));
	assert_true(holds(table, "A100", "A100-80GB"));
	assert_false(holds(table, "A100", "A100"));
	assert_false(holds(table, "A100", "A10"));
	assert_int_equal(count_leaves(table, "L4"), 1);
	assert_true(holds(table, "L4", "L4"));
	assert_true(holds(table, "*", "other"));
	assert_true(holds(table, "*", "H100-94GB"));
	assert_false(holds(table, "*", "H100"));
	assert_int_equal(gq_class_memory_mib(table, id_of(table, "A100-80GB")), 81920);
	assert_int_equal(gq_class_memory_mib(table, id_of(table, "A100")), 0);
	assert_int_equal(gq_class_memory_mib(table, GQ_CLASS_OTHER), 0);
}

static void test_policy_adds(void **state)
{
	const struct gq_class_def defs[] = {
	    {.name = "A100-80GB-IB", .parent = "A100-80GB"},
	    {.name = "Hopper"}, /* parents may come later */
	    {.name = "h100", .parent = "hopper"},
	    {.name = "Wafer", .parent = "*", .memory_mib = 44000},
	    {.name = "A100-40GB", .memory_mib = 40000},
	};
	GQ_CLEANUP(gq_cleanup_class_table)
	struct gq_class_table *table = table_of(defs, sizeof defs / sizeof defs[0]);
	(void)state;

	assert_false(holds(table, "A100", "A100-80GB")); /* no leaf any more */
	assert_true(holds(table, "A100", "A100-80GB-IB"));
	assert_true(holds(table, "A100-80GB", "A100-80GB-IB"));
	assert_int_equal(count_leaves(table, "A100-80GB"), 1);
	assert_true(holds(table, "Hopper", "H100-80GB"));
	assert_int_equal(count_leaves(table, "Hopper"), 2);
	assert_int_equal(gq_class_parent(table, id_of(table, "Wafer")), GQ_CLASS_ANY);
	assert_int_equal(gq_class_memory_mib(table, id_of(table, "Wafer")), 44000);
	assert_int_equal(gq_class_memory_mib(table, id_of(table, "A100-40GB")), 40000);
	/* memory that is not given is the parent's */
	assert_int_equal(gq_class_memory_mib(table, id_of(table, "A100-80GB-IB")), 81920);
	assert_int_equal(gq_class_memory_mib(table, id_of(table, "Hopper")), 0);
}

static void test_bad_definitions(void **state)
{
	static const char *const one[] = {"p4d"}, *const two[] = {"g5", "p4d"};
	static const struct gq_class_match match_one = {"type", one, 1};
	static const struct gq_class_match match_two = {"type", two, 2};
	static const char long_name[] =
	    "0123456789012345678901234567890123456789012345678901234567890123";
	static const struct {
		struct gq_class_def defs[2];
		int code;
		const char *says;
	} cases[] = {
	    {{{.name = "A", .parent = "A10O"}, {.name = "B"}}, GQ_EINVALID, "\"A10O\""},
	    {{{.name = "A", .parent = "B"}, {.name = "B", .parent = "A"}}, GQ_EINVALID, "ancestor"},
	    {{{.name = "A", .parent = "A"}, {.name = "B"}}, GQ_EINVALID, "ancestor"},
	    {{{.name = "A100", .parent = "A100-40GB"}, {.name = "B"}}, GQ_EINVALID, "ancestor"},
	    {{{.name = "A", .parent = "other"}, {.name = "B"}}, GQ_EINVALID, "below"},
	    {{{.name = "*", .memory_mib = 1}, {.name = "B"}}, GQ_EINVALID, "redefined"},
	    {{{.name = "Other"}, {.name = "B"}}, GQ_EINVALID, "redefined"},
	    {{{.name = "B"}, {.name = "b"}}, GQ_EINVALID, "twice"},
	    {{{.name = "A100"}, {.name = "a100"}}, GQ_EINVALID, "twice"},
	    {{{.name = ""}, {.name = "B"}}, GQ_EINVALID, "no name"},
	    {{{.name = long_name}, {.name = "B"}}, GQ_ETOOBIG, "63"},
	    {{{.name = "A", .matches = &match_one, .n_matches = 1},
	      {.name = "B", .matches = &match_two, .n_matches = 1}},
	     GQ_EINVALID,
	     "type=p4d"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_class_table *table = NULL;
		struct gq_err err = {0};
		int code = gq_class_table_new(cases[i].defs, 2, &table, &err);
		if (code != cases[i].code || !strstr(err.msg, cases[i].says) || table)
			fail_msg("case %zu: %d %s", i, code, err.msg);
	}
}

static void test_too_many(void **state)
{
	static char names[GQ_CLASS_MAX][8];
	static struct gq_class_def defs[GQ_CLASS_MAX + 1];
	struct gq_class_table *table = NULL;
	struct gq_err err = {0};
	(void)state;

	for (size_t i = 0; i < GQ_CLASS_MAX; i++) {
		names[i][0] = 'x';
		names[i][1] = (char)('a' + i / 16);
		names[i][2] = (char)('a' + i % 16);
		defs[i].name = names[i];
	}
	defs[GQ_CLASS_MAX].name = "one-more";
	assert_int_equal(gq_class_table_new(defs, GQ_CLASS_MAX, &table, &err), GQ_ETOOBIG);
	assert_int_equal(gq_class_table_new(defs, GQ_CLASS_MAX + 1, &table, &err), GQ_ETOOBIG);
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *builtin = table_of(NULL, 0);
	size_t room = GQ_CLASS_MAX - gq_class_count(builtin);
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *full = table_of(defs, room);
	assert_int_equal(gq_class_count(full), GQ_CLASS_MAX);
	assert_true(holds(full, "*", names[room - 1]));

	static const char *values[16385];
	for (size_t i = 0; i < 16385; i++)
		values[i] = "v";
	const struct gq_class_match match = {"type", values, 16385};
	const struct gq_class_def def = {.name = "A", .matches = &match, .n_matches = 1};
	assert_int_equal(gq_class_table_new(&def, 1, &table, &err), GQ_ETOOBIG);
	assert_null(table);
}

static void test_suggest(void **state)
{
	static const struct {
		const char *name;
		const char *known; /* NULL: none is close */
	} cases[] = {
	    {"A10O", "A100"},
	    {"H10", "H100"},
	    {"H010", "H100"},
	    {"a100-80g", "A100-80GB"},
	    {"A100_40GB", "A100-40GB"},
	    {"NVIDIA-A100-PCIE-80GB", "A100-80GB"},
	    {"NVIDIA-H100-80GB-HBM3-which-is-a-name-that-is-far-too-long-for-a-class", "H100-80GB"},
	    {"Teamm", "Team"},
	    {"L400S", "L40S"},
	    {"othr", "other"},
	    {"banana", NULL},
	    {"x", NULL},
	    {"", NULL},
	};
	const struct gq_class_def def = {.name = "Team"};
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = table_of(&def, 1);
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const char *found = gq_class_suggest(table, cases[i].name);
		if (!cases[i].known != !found || (found && strcmp(found, cases[i].known) != 0))
			fail_msg("%s: %s", cases[i].name, found ? found : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_builtin_tree),    cmocka_unit_test(test_policy_adds),
	    cmocka_unit_test(test_bad_definitions), cmocka_unit_test(test_too_many),
	    cmocka_unit_test(test_suggest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
