#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "fail_alloc.h"

static void test_append(void **state)
{
	struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(1000);

	(void)state;
	assert_int_equal(gq_buf_append(&b, NULL, 0), 0);
	assert_string_equal(b.data, "");
	assert_int_equal(gq_buf_append(&b, "a\0b", 3), 0);
	assert_int_equal(gq_buf_puts(&b, "cd"), 0);
	assert_int_equal(gq_buf_putc(&b, 'e'), 0);
	assert_int_equal(gq_buf_printf(&b, "%d%s", -7, "x"), 0);
	assert_int_equal(b.len, 9);
	assert_memory_equal(b.data, "a\0bcde-7x", 10);
	gq_buf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.data, "");
	for (int i = 0; i < 1000; i++)
		assert_int_equal(gq_buf_putc(&b, 'x'), 0);
	assert_int_equal(strlen(b.data), 1000);
	gq_buf_done(&b);
	assert_null(b.data);
	assert_int_equal(b.max, 1000);
	gq_buf_reset(&b);
}

/* At the cap, and one over: soft, remembered, and nothing half done. */
static void test_cap(void **state)
{
	(void)state;
	for (size_t max = 0; max < 200; max++) {
		struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(max);
		char text[201];
		memset(text, 'x', sizeof text);
		text[max] = '\0';
		assert_int_equal(gq_buf_puts(&b, text), 0);
		assert_true(b.cap <= max + 1);
		assert_int_equal(gq_buf_putc(&b, 'y'), GQ_ETOOBIG);
		assert_int_equal(b.len, max);
		assert_string_equal(b.data, text);
		/* later calls do nothing, even those that would fit */
		assert_int_equal(gq_buf_append(&b, "", 0), GQ_ETOOBIG);
		assert_int_equal(gq_buf_printf(&b, "%s", ""), GQ_ETOOBIG);
		gq_buf_reset(&b);
		assert_int_equal(gq_buf_printf(&b, "%s", text), 0);
		assert_int_equal(b.len, max);
		gq_buf_reset(&b);
		assert_int_equal(gq_buf_printf(&b, "%sz", text), GQ_ETOOBIG);
	}
	struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(SIZE_MAX);
	assert_int_equal(gq_buf_puts(&b, "abc"), 0);
	assert_int_equal(gq_buf_reserve(&b, SIZE_MAX), GQ_ETOOBIG);
	gq_buf_reset(&b);
	assert_int_equal(gq_buf_reserve(&b, SIZE_MAX - 1), GQ_ETOOBIG);
}

static void test_json_string(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *json;
	} cases[] = {
	    {NULL, 0, "\"\""},
	    {"", 0, "\"\""},
	    {"plain text", 10, "\"plain text\""},
	    {"\"\\/", 3, "\"\\\"\\\\/\""},
	    {"a\nb\rc\td", 7, "\"a\\nb\\u000dc\\u0009d\""},
	    {"\0\x1F\x20\x7F", 4, "\"\\u0000\\u001f \x7F\""},
	    {"\xE4\xB8\xAD\xF0\x9F\x98\x80", 7, "\"\xE4\xB8\xAD\xF0\x9F\x98\x80\""},
	    /* each bad byte becomes one U+FFFD */
	    {"a\xFF\xC0z", 4, "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\""},
	    {"\xE4\xB8", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
	    {"\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(1000);
		assert_int_equal(gq_buf_json_string(&b, cases[i].text, cases[i].len), 0);
		assert_string_equal(b.data, cases[i].json);
		b.max = strlen(cases[i].json) - 1;
		gq_buf_reset(&b);
		assert_int_equal(gq_buf_json_string(&b, cases[i].text, cases[i].len), GQ_ETOOBIG);
	}
}

static void test_url_escape(void **state)
{
	static const char plain[] = "azAZ09-._~";
	struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(64);

	(void)state;
	assert_int_equal(gq_buf_url_escape(&b, ""), 0);
	assert_int_equal(b.len, 0);
	assert_int_equal(gq_buf_url_escape(&b, plain), 0);
	assert_string_equal(b.data, plain);
	gq_buf_reset(&b);
	assert_int_equal(gq_buf_url_escape(&b, "a=b&c d/%+@[`{\x01\x7f\xff"), 0);
	assert_string_equal(b.data, "a%3Db%26c%20d%2F%25%2B%40%5B%60%7B%01%7F%FF");
	gq_buf_reset(&b);
	/* a character is escaped as a whole, or not at all */
	b.max = 4;
	assert_int_equal(gq_buf_url_escape(&b, "ab="), GQ_ETOOBIG);
	assert_string_equal(b.data, "ab");
}

static void test_steal(void **state)
{
	struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(10);

	(void)state;
	assert_null(gq_buf_steal(&b));
	gq_buf_puts(&b, "mine");
	char *text GQ_AUTOFREE = gq_buf_steal(&b);
	assert_string_equal(text, "mine");
	assert_null(b.data);
	assert_int_equal(b.max, 10);
	gq_buf_puts(&b, "much too long for it");
	assert_null(gq_buf_steal(&b));
	assert_int_equal(b.code, 0);
	assert_int_equal(gq_buf_puts(&b, "again"), 0);
}

static void test_out_of_memory(void **state)
{
	struct gq_buf b GQ_BUF_CLEANUP = GQ_BUF_INIT(1000);

	(void)state;
	fail_alloc(0);
	assert_int_equal(gq_buf_puts(&b, "a"), GQ_ENOMEM);
	assert_true(fail_alloc_done());
	assert_int_equal(gq_buf_puts(&b, "a"), GQ_ENOMEM);
	assert_null(gq_buf_steal(&b));
	gq_buf_puts(&b, "what was there ");
	fail_alloc(0);
	assert_int_equal(gq_buf_printf(&b, "%0200d", 0), GQ_ENOMEM);
	assert_true(fail_alloc_done());
	assert_string_equal(b.data, "what was there ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_append),      cmocka_unit_test(test_cap),
	    cmocka_unit_test(test_json_string), cmocka_unit_test(test_steal),
	    cmocka_unit_test(test_url_escape),  cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
