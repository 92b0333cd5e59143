#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/utf8.h"

static size_t encode(uint32_t c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t width = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
	for (size_t i = width; i > 1; i--, c >>= 6)
		out[i - 1] = (char)(0x80 | (c & 0x3F));
	out[0] = (char)(leads[width] | c);
	return width;
}

/* Every code point, whole and cut short. */
static void test_code_points(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x120000; c++) {
		char text[5] = "\0\0\0\0x";
		size_t width = encode(c, text);
		int sound = c < 0xD800 || (c > 0xDFFF && c < 0x110000);
		if (gq_utf8_width(text, sizeof text) != (sound ? width : 0))
			fail_msg("U+%04X", (unsigned)c);
		for (size_t len = 0; len < width; len++)
			if (gq_utf8_width(text, len) != 0)
				fail_msg("U+%04X cut to %zu", (unsigned)c, len);
	}
}

static void test_malformed(void **state)
{
	static const char *const cases[] = {
	    "\x80",
	    "\xBF",
	    "\xC0\x80",
	    "\xC1\xBF",
	    "\xC2 ",
	    "\xC2\xC2",
	    "\xE0\x80\x80",
	    "\xE0\x9F\xBF",
	    "\xE2\x82 ",
	    "\xED\xA0\x80",
	    "\xF0\x80\x80\x80",
	    "\xF0\x8F\xBF\xBF",
	    "\xF0\x90\x80 ",
	    "\xF4\x90\x80\x80",
	    "\xF5\x80\x80\x80",
	    "\xFE",
	    "\xFF",
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(gq_utf8_width(cases[i], strlen(cases[i])), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_code_points),
	    cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
