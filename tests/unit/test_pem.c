#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pem.h"

/* 0 would be a passphrase of no characters; only less than that is none. */
static void test_gives_none(void **state)
{
	char buf[] = "untouched";
	(void)state;

	assert_true(gq_pem_no_passphrase(buf, sizeof buf, 0, NULL) < 0);
	assert_string_equal(buf, "untouched");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_gives_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
