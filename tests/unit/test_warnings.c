#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "quota/message.h"
#include "webhook/warnings.h"

#define LEN(array) (sizeof(array) / sizeof *(array))

/* The warnings that the API server reads. The caller puts it. */
static struct json_object *print(const struct gq_warnings *warnings)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	assert_int_equal(gq_warnings_print(&out, warnings), 0);
	struct json_object *list = json_tokener_parse(out.data);
	assert_non_null(list);
	return list;
}

static const char *at(struct json_object *list, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(list, i));
}

/* A control character as Go's unicode.IsControl() has it, or bytes that are no UTF-8. */
static bool is_bad(const char *text, size_t len)
{
	for (size_t i = 0, width; i < len; i += width) {
		width = gq_utf8_width(text + i, len - i);
		unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];
		if (!width || c < 0x20 || c == 0x7f || (c == 0xc2 && next < 0xa0))
			return true;
	}
	return false;
}

static size_t runes_of(const char *text)
{
	size_t n = 0, len = strlen(text);

	for (size_t i = 0; i < len; i += gq_utf8_width(text + i, len - i))
		n++;
	return n;
}

/* What the API server does with them: whatever it takes as it is, it passes on as it is. */
static void assert_passed_on(struct json_object *list)
{
	size_t total = 0;

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const char *text = at(list, i);
		assert_true(text[0] != '\0');
		assert_false(is_bad(text, strlen(text)));
		assert_in_range(runes_of(text), 1, 256);
		total += runes_of(text);
	}
	assert_in_range(total, 0, 4096);
}

static void assert_printed(const char *text, const char *const *expected, size_t n)
{
	struct json_object *list = print(&(struct gq_warnings){.texts = &text, .n = 1});

	assert_passed_on(list);
	for (size_t i = 0; i < n && i < json_object_array_length(list); i++)
		assert_string_equal(at(list, i), expected[i]);
	assert_int_equal(json_object_array_length(list), n);
	json_object_put(list);
}

#define PRINTED(text, ...)                                                                         \
	assert_printed(text, (const char *const[]){__VA_ARGS__},                                   \
		       LEN(((const char *const[]){__VA_ARGS__})))

static void short_ones(void **state)
{
	(void)state;
	assert_printed("", NULL, 0);
	assert_printed(" \n\t\n", NULL, 0);
	PRINTED("one", "one");
	PRINTED("two\nlines", "two", "lines");
	PRINTED("one \n\n  two\n", "one", "two");
	PRINTED("carriage\r\nreturn", "carriage", "return");
	PRINTED("tab\there", "tab here");
	PRINTED("c1 \xC2\x9B[31m", "c1  [31m");
	PRINTED("\xC2\xA0 stays", "\xC2\xA0 stays");
	PRINTED("a\xFFz", "a\xEF\xBF\xBDz");
	PRINTED("\"quotes\" and \\", "\"quotes\" and \\");
	PRINTED("配额为 8 张。", "配额为 8 张。");
}

/* n times the piece, and a NUL. */
static char *repeat(char *to, const char *piece, size_t n)
{
	for (size_t len = strlen(piece); n > 0; n--, to += len)
		memcpy(to, piece, len);
	*to = '\0';
	return to;
}

static void broken_at_a_sensible_place(void **state)
{
	char text[4096], first[2048], second[2048];

	(void)state;
	/* 256 fit; of 257 the last word goes on */
	repeat(repeat(text, "x", 200), "y", 56);
	PRINTED(text, text);
	repeat(repeat(repeat(text, "x", 200), " ", 1), "y", 56);
	repeat(first, "x", 200);
	repeat(second, "y", 56);
	PRINTED(text, first, second);
	/* a space at the very border is where it breaks, and nothing begins with one */
	repeat(repeat(repeat(text, "x", 256), " ", 3), "y", 2);
	repeat(first, "x", 256);
	PRINTED(text, first, "yy");
	repeat(repeat(repeat(text, "w ", 50), "x", 156), " z", 1);
	repeat(repeat(first, "w ", 50), "x", 156);
	PRINTED(text, first, "z");
	/* behind a Chinese mark, runes counted and not bytes */
	repeat(repeat(repeat(text, "卡", 200), "，", 1), "存", 100);
	repeat(repeat(first, "卡", 200), "，", 1);
	repeat(second, "存", 100);
	PRINTED(text, first, second);
	/* never between two marks */
	repeat(repeat(repeat(repeat(text, "卡", 200), "，", 1), "存", 54), "）。", 1);
	repeat(repeat(first, "卡", 200), "，", 1);
	repeat(repeat(second, "存", 54), "）。", 1);
	PRINTED(text, first, second);
	/* one word without end */
	repeat(text, "🚀", 300);
	repeat(first, "🚀", 256);
	repeat(second, "🚀", 44);
	PRINTED(text, first, second);
}

/* Whatever the text is made of, and wherever it has to be broken. */
static void any_text_is_passed_on(void **state)
{
	static const char *const pieces[] = {"a",        "é",  "配",    "🚀", "\xFF", "\n",
					     "\xC2\x85", "\"", "卡， ", " ", "）。", "word "};
	char texts[LEN(pieces)][1200];
	const char *list[LEN(pieces)];

	(void)state;
	for (size_t shift = 0; shift < 4; shift++) {
		for (size_t i = 0; i < LEN(pieces); i++) {
			char *end = repeat(texts[i], "x", shift);
			repeat(end, pieces[i], (sizeof texts[i] - 8) / strlen(pieces[i]));
			list[i] = texts[i];
			struct json_object *printed =
			    print(&(struct gq_warnings){.texts = &list[i], .n = 1});
			assert_passed_on(printed);
			json_object_put(printed);
		}
		struct json_object *printed =
		    print(&(struct gq_warnings){.texts = list, .n = LEN(pieces)});
		assert_passed_on(printed);
		json_object_put(printed);
	}
}

/* 4096 runes are all told; of more the last warning says so, in the language. */
static void too_many(void **state)
{
	char text[4 * 4096 + 8];
	const char *list[] = {text, "z"};

	(void)state;
	repeat(text, "配", 4096);
	struct json_object *printed = print(&(struct gq_warnings){.texts = list, .n = 1});
	assert_int_equal(json_object_array_length(printed), 16);
	assert_passed_on(printed);
	json_object_put(printed);
	for (int locale = 0; locale < GQ_LOCALE_COUNT; locale++) {
		const char *notice =
		    gq_message_template((enum gq_locale)locale, GQ_MSG_WARNINGS_CUT);
		printed = print(
		    &(struct gq_warnings){.texts = list, .n = 2, .locale = (enum gq_locale)locale});
		assert_passed_on(printed);
		assert_int_equal(json_object_array_length(printed), 16);
		assert_string_equal(at(printed, 15), notice);
		assert_int_equal(runes_of(at(printed, 14)), 256);
		json_object_put(printed);
		/* who gathered them may have left some out already */
		printed = print(&(struct gq_warnings){
		    .texts = &list[1], .n = 1, .cut = true, .locale = (enum gq_locale)locale});
		assert_int_equal(json_object_array_length(printed), 2);
		assert_string_equal(at(printed, 1), notice);
		json_object_put(printed);
	}
}

/* What does not fit is left out from the end: nothing short slips in behind it. */
static void order_is_kept(void **state)
{
	char text[4096];
	const char *list[] = {text, text, "z"};
	size_t n;

	(void)state;
	repeat(text, "word ", 800);
	struct json_object *printed = print(&(struct gq_warnings){.texts = list, .n = 3});
	n = json_object_array_length(printed);
	assert_passed_on(printed);
	for (size_t i = 0; i + 1 < n; i++)
		assert_string_not_equal(at(printed, i), "z");
	assert_string_equal(at(printed, n - 1),
			    gq_message_template(GQ_LOCALE_EN, GQ_MSG_WARNINGS_CUT));
	json_object_put(printed);
}

static void too_large(void **state)
{
	const char *const text = "text";
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(6);

	(void)state;
	assert_int_equal(gq_warnings_print(&out, &(struct gq_warnings){.texts = &text, .n = 1}),
			 GQ_ETOOBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(short_ones),
	    cmocka_unit_test(broken_at_a_sensible_place),
	    cmocka_unit_test(any_text_is_passed_on),
	    cmocka_unit_test(too_many),
	    cmocka_unit_test(order_is_kept),
	    cmocka_unit_test(too_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
