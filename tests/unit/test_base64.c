#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "informer/base64.h"
#include "informer/secret.h"

static void test_decodes(void **state)
{
	static const struct {
		const char *text;
		const char *bytes;
		size_t len;
	} cases[] = {
	    {"", "", 0},
	    {"Zw==", "g", 1},
	    {"Z3E=", "gq", 2},
	    {"Z3F1", "gqu", 3},
	    {"Z3F1b3Rh", "gquota", 6},
	    {" Z3\nF1\r\n b3\tRh ", "gquota", 6},
	    {"AAD/+/8=", "\0\0\xff\xfb\xff", 5},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *bytes = NULL;
		size_t len = 99;
		assert_int_equal(
		    gq_base64_decode(cases[i].text, strlen(cases[i].text), &bytes, &len, NULL), 0);
		assert_int_equal(len, cases[i].len);
		assert_memory_equal(bytes, cases[i].bytes, len);
		assert_int_equal(bytes[len], 0);
		gq_secret_wipe(bytes, len);
	}
}

static void test_refuses(void **state)
{
	static const char *const cases[] = {"Z",        "Zw",   "Zw=",   "Z===", "====",   "=Zw=",
					    "Zw==Z3E=", "Z-_1", "Z3F1b", "Zw=a", "Zw==Zw", "Z3E=="};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *bytes = NULL;
		size_t len = 99;
		struct gq_err err = {0};
		assert_int_equal(gq_base64_decode(cases[i], strlen(cases[i]), &bytes, &len, &err),
				 GQ_EINVALID);
		assert_null(bytes);
		assert_int_equal(len, 99);
		assert_int_equal(err.code, GQ_EINVALID);
	}
	char nul[4] = {'Z', 'w', '\0', '='};
	char *bytes = NULL;
	size_t len;
	assert_int_equal(gq_base64_decode(nul, sizeof nul, &bytes, &len, NULL), GQ_EINVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_decodes),
	    cmocka_unit_test(test_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
