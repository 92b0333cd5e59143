#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/yaml_guard.h"

#define BOM "\xef\xbb\xbf"
#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void expect(const char *text, size_t len, enum gq_yaml_fault fault, unsigned line,
		   unsigned column, size_t offset)
{
	struct gq_yaml_place at = {99, 99, 99};
	enum gq_yaml_fault got = gq_yaml_guard(text, len, &at);

	if (got != fault || at.line != line || at.column != column || at.offset != offset)
		fail_msg("\"%.40s\": fault %d at %u:%u, byte %zu", text, (int)got, at.line,
			 at.column, at.offset);
}

static void test_sound(void **state)
{
	static const char *const texts[] = {
	    "",      BOM,        BOM "é: ü # 10%\r\nb:\tc\n %\n", "a: ?b\tc",
	    "\t? a", "? a\n: b", "a: \xf0\x9f\x98\x80\xc2\x80",
	};
	(void)state;

	for (size_t i = 0; i < LEN(texts); i++)
		expect(texts[i], strlen(texts[i]), GQ_YAML_FAULT_NONE, 99, 99, 99);
}

static void test_faults(void **state)
{
	static const struct {
		const char *text;
		enum gq_yaml_fault fault;
		unsigned line, column;
		size_t offset;
	} cases[] = {
	    {"a: \xff\n", GQ_YAML_FAULT_NOT_UTF8, 1, 4, 3},
	    {"é: ü\nb: \xc0\x80\n", GQ_YAML_FAULT_NOT_UTF8, 2, 4, 10},
	    {"a\xf0\x9f\x98", GQ_YAML_FAULT_NOT_UTF8, 1, 2, 1},
	    {"a: \x1b[31m", GQ_YAML_FAULT_CONTROL, 1, 4, 3},
	    {"\n\nab\x7f", GQ_YAML_FAULT_CONTROL, 3, 3, 4},
	    {"%YAML 1.2\n", GQ_YAML_FAULT_DIRECTIVE, 1, 1, 0},
	    {"%x \xff\n", GQ_YAML_FAULT_DIRECTIVE, 1, 1, 0},
	    {BOM "%x", GQ_YAML_FAULT_DIRECTIVE, 1, 2, 3},
	    {"# a\n%TAG\n", GQ_YAML_FAULT_DIRECTIVE, 2, 1, 4},
	    {"a: b\r\n%x\n", GQ_YAML_FAULT_DIRECTIVE, 2, 1, 6},
	    {"a: b\r%x\n", GQ_YAML_FAULT_DIRECTIVE, 1, 6, 5},
	    {"a: b\n" BOM "%x\n", GQ_YAML_FAULT_DIRECTIVE, 2, 2, 8},
	    {"? t:\t>", GQ_YAML_FAULT_KEY_AND_TAB, 1, 1, 0},
	    {"a\n ?\n? b\n\tc", GQ_YAML_FAULT_KEY_AND_TAB, 2, 2, 3},
	    {"a: what?\n\tb", GQ_YAML_FAULT_KEY_AND_TAB, 1, 8, 7},
	    {"?\t", GQ_YAML_FAULT_KEY_AND_TAB, 1, 1, 0},
	    {"? a\t\xff", GQ_YAML_FAULT_KEY_AND_TAB, 1, 1, 0},
	};
	(void)state;

	for (size_t i = 0; i < LEN(cases); i++)
		expect(cases[i].text, strlen(cases[i].text), cases[i].fault, cases[i].line,
		       cases[i].column, cases[i].offset);
	expect("a\0b", 3, GQ_YAML_FAULT_CONTROL, 1, 2, 1);
	/* nothing is read behind the end */
	expect("a\xc3\xa9", 2, GQ_YAML_FAULT_NOT_UTF8, 1, 2, 1);
	expect("? \t", 2, GQ_YAML_FAULT_NONE, 99, 99, 99);
}

static void test_empty_lines(void **state)
{
	static const struct {
		const char *line;
		size_t n;
		enum gq_yaml_fault fault;
	} cases[] = {
	    {"\n", 1000, GQ_YAML_FAULT_NONE},           {"\n", 1001, GQ_YAML_FAULT_EMPTY_LINES},
	    {" \t\n", 1001, GQ_YAML_FAULT_EMPTY_LINES}, {"\r", 1001, GQ_YAML_FAULT_EMPTY_LINES},
	    {"\r\n", 500, GQ_YAML_FAULT_NONE},          {"\r\n", 501, GQ_YAML_FAULT_EMPTY_LINES},
	    {"#\n", 5000, GQ_YAML_FAULT_NONE},
	};
	(void)state;

	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf text = GQ_BUF_INIT(64 << 10);
		struct gq_yaml_place at = {0};
		for (size_t k = 0; k < cases[i].n; k++)
			gq_buf_puts(&text, cases[i].line);
		assert_int_equal(text.code, 0);
		assert_int_equal(gq_yaml_guard(text.data, text.len, &at), cases[i].fault);
		gq_buf_done(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sound),
	    cmocka_unit_test(test_faults),
	    cmocka_unit_test(test_empty_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
