#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* the portable scan; the other one runs in every test of the filter */
#define GQ_LEX_NO_SSE2
#include "base/json_lex.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct string_case {
	const char *text; /* behind the opening quote, closing quote included */
	const char *decoded;
};

static const struct string_case good_strings[] = {
    {"\"", ""},
    {"plain\"", "plain"},
    {"\x7F 0123456789 0123456789 0123456789\"", "\x7F 0123456789 0123456789 0123456789"},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
    {"a\\u0041\\u00e9\\u20AC\"", "aA\xC3\xA9\xE2\x82\xAC"},
    {"\\u07ff\\u0800\\uffff\"", "\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF"},
    {"\\ud83d\\ude00\\uD800\\uDC00\\udbff\\udfff\"",
     "\xF0\x9F\x98\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"},
    {"\\ud7ff\\ue000\"", "\xED\x9F\xBF\xEE\x80\x80"},
    {"\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\"",
     "\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"},
    {"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF\"", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"},
    {"\xE4\xB8\xAD, \xE6\x96\x87\\n\"", "\xE4\xB8\xAD, \xE6\x96\x87\n"},
};

/* The byte that is wrong is the last one. */
static const struct string_case bad_strings[] = {
    {"\x01", "a control character in a string"},
    {"0123456789abcde\x1F", "a control character in a string"},
    {"\\a", "an unknown escape"},
    {"\\'", "an unknown escape"},
    {"\\U", "an unknown escape"},
    {"\\x", "an unknown escape"},
    {"\\\n", "an unknown escape"},
    {"\\\xC3", "an unknown escape"},
    {"\\u\"", "an escape without four hexadecimal digits"},
    {"\\u00g", "an escape without four hexadecimal digits"},
    {"\\u+", "an escape without four hexadecimal digits"},
    {"\\u004\"", "an escape without four hexadecimal digits"},
    {"\\ud800\"", "half of a surrogate pair"},
    {"\\ud800x", "half of a surrogate pair"},
    {"\\ud800\\n", "half of a surrogate pair"},
    {"\\udbff\\udbff", "half of a surrogate pair"},
    {"\\ud800\\u0041", "half of a surrogate pair"},
    {"\\udc00", "half of a surrogate pair"},
    {"\\udfff", "half of a surrogate pair"},
    {"\\ud83d\\ude00\\ude00", "half of a surrogate pair"},
    {"\x80", "invalid UTF-8"},
    {"\xBF", "invalid UTF-8"},
    {"\xC0", "invalid UTF-8"},
    {"\xC1", "invalid UTF-8"},
    {"\xF5", "invalid UTF-8"},
    {"\xFF", "invalid UTF-8"},
    {"\xC2\"", "invalid UTF-8"},
    {"\xC2\xC2", "invalid UTF-8"},
    {"\xE0\x9F", "invalid UTF-8"},
    {"\xED\xA0", "invalid UTF-8"},
    {"\xE2\x82\"", "invalid UTF-8"},
    {"\xF0\x8F", "invalid UTF-8"},
    {"\xF4\x90", "invalid UTF-8"},
    {"\xF0\x90\x80\\", "invalid UTF-8"},
    {"\xC3\xA9\x80", "invalid UTF-8"},
};

/* Reads text, cut at `cut`, each part in memory of its own. Returns how far it came. */
static enum gq_lex_result read_string(struct gq_json_lex *lex, const char *text, size_t cut,
				      size_t *ret_used)
{
	size_t len = strlen(text);
	size_t sizes[] = {cut, len - cut};
	enum gq_lex_result result = GQ_LEX_MORE;

	*lex = (struct gq_json_lex){0};
	*ret_used = 0;
	for (size_t i = 0; i < 2 && result == GQ_LEX_MORE; i++) {
		char *part = malloc(sizes[i] + 1);
		assert_non_null(part);
		memcpy(part, text + *ret_used, sizes[i]);
		const char *at = part;
		result = gq_lex_string(lex, &at, part + sizes[i]);
		*ret_used += (size_t)(at - part);
		free(part);
	}
	return result;
}

static void test_strings(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(good_strings); i++) {
		const char *text = good_strings[i].text;
		size_t len = strlen(text), used;
		struct gq_json_lex lex;
		for (size_t cut = 0; cut < len; cut++) {
			assert_int_equal(read_string(&lex, text, cut, &used), GQ_LEX_DONE);
			assert_int_equal(used, len);
			assert_false(lex.had_nul);
			assert_int_equal(lex.had_escape, strchr(text, '\\') != NULL);
		}
		char decoded[100];
		memcpy(decoded, text, len);
		decoded[gq_lex_unescape(decoded, len - 1)] = '\0';
		assert_string_equal(decoded, good_strings[i].decoded);
	}
}

static void test_bad_strings(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(bad_strings); i++) {
		const char *text = bad_strings[i].text;
		size_t len = strlen(text), used;
		struct gq_json_lex lex;
		for (size_t cut = 0; cut <= len; cut++) {
			if (read_string(&lex, text, cut, &used) != GQ_LEX_BAD || used != len - 1 ||
			    strcmp(lex.why, bad_strings[i].decoded) != 0)
				fail_msg("%s cut at %zu: at %zu: %s", text, cut, used,
					 lex.why ? lex.why : "-");
		}
	}
}

static void test_nul_escape(void **state)
{
	static const char *const with[] = {"\\u0000\"", "a\\u0000b\"", "\\n\\u0000\""};
	static const char *const without[] = {"\\u0001\"", "\\\\u0000\"", "0000\"", "\\u1000\""};
	struct gq_json_lex lex;
	size_t used;

	(void)state;
	for (size_t i = 0; i < COUNT(with); i++) {
		assert_int_equal(read_string(&lex, with[i], 1, &used), GQ_LEX_DONE);
		assert_true(lex.had_nul);
	}
	for (size_t i = 0; i < COUNT(without); i++) {
		assert_int_equal(read_string(&lex, without[i], 1, &used), GQ_LEX_DONE);
		assert_false(lex.had_nul);
	}
}

/* Each byte value at each place of a block is found or passed over. */
static void test_plain(void **state)
{
	char block[40];

	(void)state;
	for (int c = 0; c < 256; c++) {
		bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
		for (size_t at = 0; at < sizeof block; at++) {
			memset(block, 'x', sizeof block);
			block[at] = (char)c;
			const char *end = block + sizeof block;
			assert_ptr_equal(gq_lex_plain(block, end), plain ? end : block + at);
			/* what is behind the end does not count */
			assert_ptr_equal(gq_lex_plain(block, block + at), block + at);
		}
	}
	/* bytes beside a mark, where a borrow could mark wrongly */
	memcpy(block, "\x20\x21\x23\x5b\x5d\x5e\x7f\x7e\x21\"", 10);
	assert_ptr_equal(gq_lex_plain(block, block + 10), block + 9);
}

static void test_scalars(void **state)
{
	static const struct {
		const char *text;
		size_t used; /* bytes that belong to it */
		enum gq_lex_result result;
	} cases[] = {
	    {"true,", 4, GQ_LEX_DONE},  {"false}", 5, GQ_LEX_DONE},
	    {"null ", 4, GQ_LEX_DONE},  {"nulL", 3, GQ_LEX_BAD},
	    {"tRue", 1, GQ_LEX_BAD},    {"fals", 4, GQ_LEX_MORE},
	    {"0,", 1, GQ_LEX_DONE},     {"-0,", 2, GQ_LEX_DONE},
	    {"10]", 2, GQ_LEX_DONE},    {"-12.50,", 6, GQ_LEX_DONE},
	    {"0.0e0,", 5, GQ_LEX_DONE}, {"1E+400,", 6, GQ_LEX_DONE},
	    {"1e-07,", 5, GQ_LEX_DONE}, {"123456789012345678901234567890,", 30, GQ_LEX_DONE},
	    {"01,", 1, GQ_LEX_BAD},     {"-01,", 2, GQ_LEX_BAD},
	    {"00", 1, GQ_LEX_BAD},      {"1.,", 2, GQ_LEX_BAD},
	    {"1.e5", 2, GQ_LEX_BAD},    {"-,", 1, GQ_LEX_BAD},
	    {"-.5", 1, GQ_LEX_BAD},     {"1e,", 2, GQ_LEX_BAD},
	    {"1e+,", 3, GQ_LEX_BAD},    {"1e.5", 2, GQ_LEX_BAD},
	    {"--1", 1, GQ_LEX_BAD},     {"1.5.5", 3, GQ_LEX_DONE},
	    {"1e5e5", 3, GQ_LEX_DONE},  {"0x10", 1, GQ_LEX_DONE},
	    {"1-2", 1, GQ_LEX_DONE},    {"12", 2, GQ_LEX_MORE},
	    {"-", 1, GQ_LEX_MORE},      {"1.", 2, GQ_LEX_MORE},
	    {"1_000", 1, GQ_LEX_DONE},  {"1\xC2", 1, GQ_LEX_DONE},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t len = strlen(cases[i].text);
		for (size_t cut = 1; cut <= len; cut++) {
			struct gq_json_lex lex = {0};
			const char *at = cases[i].text;
			assert_true(gq_lex_scalar_start(&lex, *at));
			enum gq_lex_result result = gq_lex_scalar(&lex, &at, cases[i].text + cut);
			if (result == GQ_LEX_MORE && cut < len)
				result = gq_lex_scalar(&lex, &at, cases[i].text + len);
			if (result != cases[i].result || at != cases[i].text + cases[i].used)
				fail_msg("%s cut at %zu: %d at %zu", cases[i].text, cut, result,
					 (size_t)(at - cases[i].text));
		}
	}
	struct gq_json_lex lex = {0};
	for (const char *p = "+.NIxTFN'/]},:\x80"; *p; p++)
		assert_false(gq_lex_scalar_start(&lex, *p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_strings),    cmocka_unit_test(test_bad_strings),
	    cmocka_unit_test(test_nul_escape), cmocka_unit_test(test_plain),
	    cmocka_unit_test(test_scalars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
