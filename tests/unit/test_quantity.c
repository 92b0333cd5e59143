#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quota/amount.h"
#include "quota/quantity.h"

#define LEN(array) (sizeof(array) / sizeof *(array))

static void units_of_every_form(void **state)
{
	static const struct {
		const char *text;
		int64_t units_per_one;
		int64_t units;
		enum gq_exactness exact;
	} cases[] = {
	    {"0", 1, 0, GQ_EXACT},
	    {"-0", 1, 0, GQ_EXACT},
	    {"0e999999999999999999999", 1, 0, GQ_EXACT},
	    {"8", 1, 8, GQ_EXACT},
	    {"+8", 1, 8, GQ_EXACT},
	    {"008", 1, 8, GQ_EXACT},
	    {"8.", 1, 8, GQ_EXACT},
	    {"8.000", 1, 8, GQ_EXACT},
	    {".5", 2, 1, GQ_EXACT},
	    {"500m", 1, 1, GQ_ROUNDED},
	    {"1000m", 1, 1, GQ_EXACT},
	    {"1001m", 1, 2, GQ_ROUNDED},
	    {"2000000u", 1, 2, GQ_EXACT},
	    {"3000000000n", 1, 3, GQ_EXACT},
	    {"1n", 1, 1, GQ_ROUNDED},
	    {"1k", 1, 1000, GQ_EXACT},
	    {"1M", 1, 1000000, GQ_EXACT},
	    {"1G", 1, 1000000000, GQ_EXACT},
	    {"1T", 1, INT64_C(1000000000000), GQ_EXACT},
	    {"1P", 1, INT64_C(1000000000000000), GQ_EXACT},
	    {"1E", 1, INT64_C(1000000000000000000), GQ_EXACT},
	    {"1Ki", 1, 1024, GQ_EXACT},
	    {"1Mi", 1, 1048576, GQ_EXACT},
	    {"1Gi", 1, INT64_C(1) << 30, GQ_EXACT},
	    {"1Ti", 1, INT64_C(1) << 40, GQ_EXACT},
	    {"1Pi", 1, INT64_C(1) << 50, GQ_EXACT},
	    {"1Ei", 1, INT64_C(1) << 60, GQ_EXACT},
	    {"1.5Ki", 1, 1536, GQ_EXACT},
	    {"0.0001Ki", 1, 1, GQ_ROUNDED},
	    {"1e3", 1, 1000, GQ_EXACT},
	    {"1E3", 1, 1000, GQ_EXACT},
	    {"1e+3", 1, 1000, GQ_EXACT},
	    {"1E-3", 1, 1, GQ_ROUNDED},
	    {"12e-1", 1, 2, GQ_ROUNDED},
	    {"1e-30", 1, 1, GQ_ROUNDED},
	    {"1e-99999999999999999999", 1, 1, GQ_ROUNDED},
	    {"0.00000000000000000000000000001e30", 1, 10, GQ_EXACT},
	    {"9223372036854775806", 1, INT64_MAX - 1, GQ_EXACT},
	    {"9223372036854775805.1", 1, INT64_MAX - 1, GQ_ROUNDED},
	    {"0.5", GQ_SHARES_PER_GPU, 2520000, GQ_EXACT},
	    {"0.33", GQ_SHARES_PER_GPU, 1663200, GQ_EXACT},
	    {"0.333333333", GQ_SHARES_PER_GPU, 1680000, GQ_ROUNDED},
	    {"8", GQ_SHARES_PER_GPU, 40320000, GQ_EXACT},
	    {"1830034134000", GQ_SHARES_PER_GPU, INT64_C(9223372035360000000), GQ_EXACT},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_err err = {0};
		int64_t units = -7;
		enum gq_exactness exact = GQ_EXACT;
		print_message("%s\n", cases[i].text);
		assert_int_equal(gq_quantity_units(cases[i].text, strlen(cases[i].text),
						   cases[i].units_per_one, &units, &exact, &err),
				 0);
		assert_int_equal(units, cases[i].units);
		assert_int_equal(exact, cases[i].exact);
	}
}

static void refuses(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} cases[] = {
	    {"", GQ_EINVALID, "\"\" is not a quantity"},
	    {" 1", GQ_EINVALID, "\" 1\" is not a quantity"},
	    {"1 ", GQ_EINVALID, "is not a quantity"},
	    {".", GQ_EINVALID, "is not a quantity"},
	    {"+", GQ_EINVALID, "is not a quantity"},
	    {"1..2", GQ_EINVALID, "is not a quantity"},
	    {"--1", GQ_EINVALID, "is not a quantity"},
	    {"NaN", GQ_EINVALID, "\"NaN\" is not a quantity"},
	    {"Inf", GQ_EINVALID, "is not a quantity"},
	    {"0x10", GQ_EINVALID, "\"0x10\" is not a quantity"},
	    {"0x", GQ_EINVALID, "is not a quantity"},
	    {"1e", GQ_EINVALID, "is not a quantity"},
	    {"1e+", GQ_EINVALID, "is not a quantity"},
	    {"1e3Ki", GQ_EINVALID, "is not a quantity"},
	    {"1e1.5", GQ_EINVALID, "is not a quantity"},
	    {"1Kib", GQ_EINVALID, "is not a quantity"},
	    {"1ki", GQ_EINVALID, "is not a quantity"},
	    {"1K", GQ_EINVALID, "is not a quantity"},
	    {"1mi", GQ_EINVALID, "is not a quantity"},
	    {"1i", GQ_EINVALID, "is not a quantity"},
	    {"1GB", GQ_EINVALID, "is not a quantity"},
	    {"1,5", GQ_EINVALID, "is not a quantity"},
	    {"\xD9\xA1", GQ_EINVALID, "is not a quantity"},
	    {"-1", GQ_EINVALID, "\"-1\" is negative"},
	    {"-0.001", GQ_EINVALID, "is negative"},
	    {"-1e30", GQ_EINVALID, "is negative"},
	    {"9223372036854775807", GQ_ETOOBIG, "\"9223372036854775807\" is too large"},
	    {"9223372036854775806.5", GQ_ETOOBIG, "is too large"},
	    {"18446744073709551616", GQ_ETOOBIG, "is too large"},
	    {"18446744073709551617", GQ_ETOOBIG, "is too large"},
	    {"340282366920938463463374607431768211457", GQ_ETOOBIG, "is too large"},
	    {"1e30", GQ_ETOOBIG, "is too large"},
	    {"1e999999999999999999999", GQ_ETOOBIG, "is too large"},
	    {"8Ei", GQ_ETOOBIG, "is too large"},
	    {"10E", GQ_ETOOBIG, "is too large"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_err err = {0};
		int64_t units = -7;
		enum gq_exactness exact = GQ_ROUNDED;
		print_message("%s\n", cases[i].text);
		assert_int_equal(gq_quantity_units(cases[i].text, strlen(cases[i].text), 1, &units,
						   &exact, &err),
				 cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		assert_non_null(strstr(err.msg, cases[i].says));
		assert_int_equal(units, -7);
		assert_int_equal(exact, GQ_ROUNDED);
		assert_int_equal(
		    gq_quantity_units(cases[i].text, strlen(cases[i].text), 1, &units, NULL, NULL),
		    cases[i].code);
	}
}

static void length_is_obeyed_and_capped(void **state)
{
	char digits[200];
	int64_t units;
	struct gq_err err;

	(void)state;
	assert_int_equal(gq_quantity_units("123Ki", 3, 1, &units, NULL, NULL), 0);
	assert_int_equal(units, 123);
	assert_int_equal(gq_quantity_units("1\0002", 3, 1, &units, NULL, NULL), GQ_EINVALID);
	memset(digits, '0', sizeof digits);
	digits[127] = '7';
	assert_int_equal(gq_quantity_units(digits, 128, 1, &units, NULL, NULL), 0);
	assert_int_equal(units, 7);
	assert_int_equal(gq_quantity_units(digits, 129, 1, &units, NULL, &err), GQ_EINVALID);
	assert_non_null(strstr(err.msg, "too long"));
	memset(digits, '9', sizeof digits);
	assert_int_equal(gq_quantity_units(digits, 128, INT64_MAX - 1, &units, NULL, NULL),
			 GQ_ETOOBIG);
	digits[126] = 'E';
	digits[127] = 'i';
	assert_int_equal(gq_quantity_units(digits, 128, INT64_MAX - 1, &units, NULL, NULL),
			 GQ_ETOOBIG);
	digits[0] = '.';
	assert_int_equal(gq_quantity_units(digits, 128, 1, &units, NULL, NULL), 0);
	assert_int_equal(units, INT64_C(1) << 60);
}

static void prints(int (*print)(struct gq_buf *out, int64_t n), int64_t n, const char *want)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64);

	assert_int_equal(print(&out, n), 0);
	assert_string_equal(out.data, want);
}

static void shares_as_decimals(void **state)
{
	(void)state;
	prints(gq_shares_print, 0, "0");
	prints(gq_shares_print, 7 * GQ_SHARES_PER_GPU, "7");
	prints(gq_shares_print, GQ_SHARES_PER_GPU / 2, "0.5");
	prints(gq_shares_print, 10 * GQ_SHARES_PER_GPU + GQ_SHARES_PER_GPU / 4, "10.25");
	prints(gq_shares_print, GQ_SHARES_PER_GPU / 100, "0.01");
	prints(gq_shares_print, GQ_SHARES_PER_GPU / 16, "0.0625");
	prints(gq_shares_print, 126, "0.000025");
	prints(gq_shares_print, GQ_SHARES_PER_GPU - 126, "0.999975");
	prints(gq_shares_print, GQ_SHARES_PER_GPU / 7, "0.142");
	prints(gq_shares_print, GQ_SHARES_PER_GPU / 3, "0.333");
	prints(gq_shares_print, 2 * (GQ_SHARES_PER_GPU / 3), "0.666");
	prints(gq_shares_print, GQ_SHARES_PER_GPU / 48, "0.020");
	prints(gq_shares_print, GQ_SHARES_PER_GPU + 1, "1.000");
	prints(gq_shares_print, INT64_MAX - 1, "1830034134296.582");
	prints(gq_shares_print, GQ_UNLIMITED, "unlimited");
}

static void mib_in_the_largest_unit(void **state)
{
	(void)state;
	prints(gq_mib_print, 0, "0");
	prints(gq_mib_print, 1, "1Mi");
	prints(gq_mib_print, 81559, "81559Mi");
	prints(gq_mib_print, 655360, "640Gi");
	prints(gq_mib_print, 1024 * 1024, "1Ti");
	prints(gq_mib_print, INT64_C(1) << 60, "1048576Ei");
	prints(gq_mib_print, INT64_MAX - 1, "9223372036854775806Mi");
	prints(gq_mib_print, GQ_UNLIMITED, "unlimited");
}

/* What is printed is read back as what it was, where nothing is cut. */
static void exact_shares_round_trip(void **state)
{
	(void)state;
	for (int64_t shares = 0; shares < 3 * GQ_SHARES_PER_GPU; shares += 126 * 89) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64);
		int64_t back;
		enum gq_exactness exact;
		assert_int_equal(gq_shares_print(&out, shares), 0);
		assert_int_equal(
		    gq_quantity_units(out.data, out.len, GQ_SHARES_PER_GPU, &back, &exact, NULL),
		    0);
		assert_int_equal(back, shares);
		assert_int_equal(exact, GQ_EXACT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(units_of_every_form),
	    cmocka_unit_test(refuses),
	    cmocka_unit_test(length_is_obeyed_and_capped),
	    cmocka_unit_test(shares_as_decimals),
	    cmocka_unit_test(mib_in_the_largest_unit),
	    cmocka_unit_test(exact_shares_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
