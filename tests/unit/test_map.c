#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "fail_alloc.h"

#define KEYS 2000

static char keys[KEYS][16];
static int values[2][KEYS];

static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < KEYS; i++)
		snprintf(keys[i], sizeof keys[i], "key-%d", i);
	return 0;
}

static void test_empty(void **state)
{
	struct gq_map *map GQ_CLEANUP(gq_cleanup_map) = gq_map_new();
	size_t cursor = 0;

	(void)state;
	assert_null(gq_map_get(map, "a", 1));
	assert_null(gq_map_remove(map, "a", 1));
	assert_int_equal(gq_map_count(map), 0);
	assert_null(gq_map_next(map, &cursor));
	gq_map_free(NULL);
}

static void test_put(void **state)
{
	struct gq_map *map GQ_CLEANUP(gq_cleanup_map) = gq_map_new();
	int a, b;
	void *old = &a;

	(void)state;
	assert_int_equal(gq_map_put(map, "key", 3, &a, &old), 0);
	assert_null(old);
	assert_int_equal(gq_map_put(map, "key", 3, &b, &old), 0);
	assert_ptr_equal(old, &a);
	assert_ptr_equal(gq_map_get(map, "key", 3), &b);
	assert_int_equal(gq_map_count(map), 1);
	/* keys are bytes: of any length, none, or with a NUL */
	assert_null(gq_map_get(map, "key", 2));
	assert_int_equal(gq_map_put(map, "", 0, &a, NULL), 0);
	assert_int_equal(gq_map_put(map, "k\0a", 3, &a, NULL), 0);
	assert_null(gq_map_get(map, "k\0b", 3));
	assert_ptr_equal(gq_map_get(map, "k\0a", 3), &a);
	assert_ptr_equal(gq_map_get(map, "", 0), &a);
	assert_int_equal(gq_map_count(map), 3);
	assert_ptr_equal(gq_map_remove(map, "", 0), &a);
	assert_null(gq_map_get(map, "", 0));
}

/* The entries are those of a plain array, after any sequence of changes. */
static void test_model(void **state)
{
	struct gq_map *map GQ_CLEANUP(gq_cleanup_map) = gq_map_new();
	void *model[KEYS] = {0};
	size_t count = 0;
	uint32_t random = 1;

	(void)state;
	for (int step = 0; step < 60000; step++) {
		random = random * 1664525u + 1013904223u;
		size_t i = (random >> 8) % (step < 30000 ? KEYS : 40);
		size_t len = strlen(keys[i]);
		if (random >> 30 != 0) { /* puts are three times as frequent at first */
			void *value = &values[random >> 31][i], *old;
			if (step >= 30000 && random >> 30 != 1)
				continue;
			assert_int_equal(gq_map_put(map, keys[i], len, value, &old), 0);
			assert_ptr_equal(old, model[i]);
			count += !model[i];
			model[i] = value;
		} else {
			assert_ptr_equal(gq_map_remove(map, keys[i], len), model[i]);
			count -= model[i] != NULL;
			model[i] = NULL;
		}
		assert_int_equal(gq_map_count(map), count);
		if (step % 97 == 0) {
			for (size_t k = 0; k < KEYS; k++)
				assert_ptr_equal(gq_map_get(map, keys[k], strlen(keys[k])),
						 model[k]);
		}
	}
	/* a walk meets each once */
	size_t cursor = 0, met = 0;
	for (int *value; (value = gq_map_next(map, &cursor)); met++) {
		size_t k = (size_t)(value - values[0]) % KEYS;
		assert_ptr_equal(model[k], value);
		model[k] = NULL;
	}
	assert_int_equal(met, count);
}

static void test_out_of_memory(void **state)
{
	struct gq_map *map GQ_CLEANUP(gq_cleanup_map) = NULL;
	bool failed = true;

	(void)state;
	fail_alloc(0);
	assert_null(gq_map_new());
	assert_true(fail_alloc_done());
	map = gq_map_new();
	for (int i = 0; i < 100; i++) {
		void *old = &map;
		fail_alloc(0);
		int code = gq_map_put(map, keys[i], strlen(keys[i]), &values[0][i], &old);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		if (failed) {
			assert_ptr_equal(old, &map);
			assert_int_equal(gq_map_count(map), i);
			assert_null(gq_map_get(map, keys[i], strlen(keys[i])));
			gq_map_put(map, keys[i], strlen(keys[i]), &values[0][i], NULL);
		}
		for (int k = 0; k <= i; k++)
			assert_ptr_equal(gq_map_get(map, keys[k], strlen(keys[k])), &values[0][k]);
	}
}

/* Not a measure of quality: no two of many near keys are alike, whatever their length and place. */
static void test_hash(void **state)
{
	char text[40] = {0};
	unsigned long long seen[40 * 8 + 40];
	size_t n = 0;

	(void)state;
	for (size_t len = 0; len < sizeof text; len++)
		seen[n++] = gq_hash(text, len);
	for (size_t bit = 0; bit < sizeof text * 8; bit++) {
		text[bit / 8] = (char)(1 << bit % 8);
		seen[n++] = gq_hash(text, sizeof text);
		text[bit / 8] = 0;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert_true(seen[i] != seen[k]);
	/* the place in memory does not matter */
	char shifted[41] = {0};
	assert_true(gq_hash(shifted + 1, 20) == gq_hash(text, 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty), cmocka_unit_test(test_put),
	    cmocka_unit_test(test_model), cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
