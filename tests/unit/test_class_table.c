#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quota/class_internal.h"

static int new_table(void **state)
{
	struct gq_class_table *table = NULL;

	if (gq_class_table_new(NULL, 0, &table, NULL))
		return -1;
	*state = table;
	return 0;
}

static int free_table(void **state)
{
	gq_class_table_free(*state);
	return 0;
}

/* A quota named as the table names the class, and a product named so, mean the same. */
static void test_each_name_reads_as_itself(void **state)
{
	const struct gq_class_table *table = *state;

	for (size_t i = 0; i < gq_class_builtin_count; i++) {
		const char *name = gq_class_builtins[i].name;
		int id = gq_class_find(table, name);
		assert_int_not_equal(id, GQ_CLASS_NONE);
		assert_string_equal(gq_class_name(table, id), name);
		struct gq_class_product product = gq_class_read_product(table, name);
		if (product.class_id != id)
			fail_msg("%s reads as %d", name, product.class_id);
	}
}

static void test_variants_follow_their_model(void **state)
{
	const struct gq_class_table *table = *state;

	assert_int_equal(gq_class_count(table), gq_class_builtin_count + 2); /* no name twice */
	for (size_t i = 0; i < gq_class_builtin_count; i++) {
		const struct gq_class_builtin *variant = &gq_class_builtins[i];
		int id = gq_class_find(table, variant->name);
		if (!variant->model) {
			assert_int_equal(gq_class_parent(table, id), GQ_CLASS_ANY);
			assert_int_equal(variant->gb, 0);
			assert_non_null(variant->patterns);
			continue;
		}
		int model = gq_class_find(table, variant->model);
		assert_int_not_equal(model, GQ_CLASS_NONE);
		assert_true(model < id);
		assert_int_equal(gq_class_parent(table, id), model);
		assert_int_equal(gq_class_memory_mib(table, model), 0);
		/* nominal GB and the driver's MiB are about the same */
		double ratio = (double)variant->memory_mib / (variant->gb * 1024.0);
		assert_true(ratio > 0.95 && ratio < 1.01);
	}
}

static void test_aliases_name_classes(void **state)
{
	const struct gq_class_table *table = *state;

	for (size_t i = 0; i < gq_class_alias_count; i++) {
		const struct gq_class_alias *alias = &gq_class_aliases[i];
		struct gq_label label = {alias->label, alias->value};
		struct gq_class_reading reading = gq_class_read_labels(table, &label, 1);
		assert_int_not_equal(reading.class_id, GQ_CLASS_NONE);
		assert_string_equal(gq_class_name(table, reading.class_id), alias->class_name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each_name_reads_as_itself),
	    cmocka_unit_test(test_variants_follow_their_model),
	    cmocka_unit_test(test_aliases_name_classes),
	};
	return cmocka_run_group_tests(tests, new_table, free_table);
}
