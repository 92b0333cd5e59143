#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "quota/pool.h"

static void aligned_and_zeroed(void **state)
{
	struct gq_pool pool = GQ_POOL_INIT(1u << 20);

	(void)state;
	for (size_t size = 0; size < 300; size++) {
		unsigned char *p = gq_pool_alloc(&pool, size, 3);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < size * 3; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xAA, size * 3);
	}
	assert_false(pool.failed);
	gq_pool_done(&pool);
	assert_null(pool.blocks);
	assert_int_equal(pool.max, 1u << 20);
}

static void copies(void **state)
{
	struct gq_pool pool = GQ_POOL_INIT(1u << 20);

	(void)state;
	assert_string_equal(gq_pool_copy(&pool, "abcdef", 3), "abc");
	assert_string_equal(gq_pool_copy(&pool, NULL, 0), "");
	gq_pool_done(&pool);
}

/* The first failure stays, so that one look at the end is enough. */
static void capped(void **state)
{
	struct gq_pool pool = GQ_POOL_INIT(64u << 10);

	(void)state;
	assert_non_null(gq_pool_alloc(&pool, 1, 40000));
	assert_null(gq_pool_alloc(&pool, 1, 40000));
	assert_true(pool.failed);
	assert_null(gq_pool_alloc(&pool, 1, 1));
	assert_null(gq_pool_copy(&pool, "a", 1));
	gq_pool_done(&pool);
	assert_false(pool.failed);
	assert_null(gq_pool_alloc(&pool, SIZE_MAX / 2, 4));
	gq_pool_done(&pool);
	assert_null(gq_pool_alloc(&pool, 1, SIZE_MAX));
	gq_pool_done(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(aligned_and_zeroed),
	    cmocka_unit_test(copies),
	    cmocka_unit_test(capped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
