#include "quota/amount.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MAX GQ_UNLIMITED

static void arithmetic_saturates(void **state)
{
	static const struct {
		int64_t a, b, sum, difference, product;
	} cases[] = {
	    {0, 0, 0, 0, 0},
	    {3, 2, 5, 1, 6},
	    {2, 3, 5, 0, 6},
	    {0, MAX, MAX, 0, 0},
	    {MAX, 0, MAX, MAX, 0},
	    {MAX, 1, MAX, MAX, MAX},
	    {1, MAX, MAX, 0, MAX},
	    {MAX, MAX, MAX, MAX, MAX},
	    {MAX - 1, 1, MAX, MAX - 2, MAX - 1},
	    {MAX - 1, 2, MAX, MAX - 3, MAX},
	    {MAX / 2 + 1, 2, MAX / 2 + 3, MAX / 2 - 1, MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_true(gq_sat_add(cases[i].a, cases[i].b) == cases[i].sum);
		assert_true(gq_sat_add(cases[i].b, cases[i].a) == cases[i].sum);
		assert_true(gq_sat_sub(cases[i].a, cases[i].b) == cases[i].difference);
		assert_true(gq_sat_mul(cases[i].a, cases[i].b) == cases[i].product);
		assert_true(gq_sat_mul(cases[i].b, cases[i].a) == cases[i].product);
	}
}

static void currencies_apart(void **state)
{
	const struct gq_amount a = {5, 1}, b = {2, 7};
	struct gq_amount sum = gq_amount_add(a, b), less = gq_amount_sub(a, b),
			 most = gq_amount_max(a, b);

	(void)state;
	assert_true(sum.shares == 7 && sum.memory_mib == 8);
	assert_true(less.shares == 3 && less.memory_mib == 0);
	assert_true(most.shares == 5 && most.memory_mib == 7);
	assert_false(gq_amount_is_zero(a));
	assert_false(gq_amount_is_zero((struct gq_amount){0, 1}));
	assert_false(gq_amount_is_zero((struct gq_amount){1, 0}));
	assert_true(gq_amount_is_zero((struct gq_amount){0, 0}));
}

static void parts_of_a_gpu_are_exact(void **state)
{
	static const int64_t divisors[] = {2, 3, 7, 8, 48, 100, 1000};

	(void)state;
	for (size_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++)
		assert_true(GQ_SHARES_PER_GPU % divisors[i] == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(arithmetic_saturates),
	    cmocka_unit_test(currencies_apart),
	    cmocka_unit_test(parts_of_a_gpu_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
