#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "controller/table.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

static const char *const header[] = {"TENANT", "CLASS", "LIMIT", "USED"};

/* What is printed. free() */
static char *printed(const struct gq_table *table, int code)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(gq_table_print(table, out), code);
	(void)fclose(out);
	return text;
}

static void fill(struct gq_table *table, const char *const *cells, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		gq_table_cell(table, cells[i]);
		if (i % LEN(header) == LEN(header) - 1)
			gq_table_row(table);
	}
}

static void columns(void **state)
{
	static const char *const cells[] = {"a", "A100", "8", "7.25", "research", "*", "1000", "0"};
	struct gq_table *table = gq_table_new(header, LEN(header), 2);

	(void)state;
	fill(table, cells, LEN(cells));
	char *text = printed(table, 0);
	assert_string_equal(text, "TENANT    CLASS  LIMIT  USED\n"
				  "a         A100       8  7.25\n"
				  "research  *       1000     0\n");
	free(text);
	gq_table_free(table);
}

static void all_left(void **state)
{
	static const char *const cells[] = {"a", "b", "c", "long cell", "", "b", "c", "d"};
	struct gq_table *table = gq_table_new(header, LEN(header), LEN(header));

	(void)state;
	fill(table, cells, LEN(cells));
	char *text = printed(table, 0);
	/* no spaces at the end of a line */
	assert_string_equal(text, "TENANT  CLASS  LIMIT  USED\n"
				  "a       b      c      long cell\n"
				  "        b      c      d\n");
	free(text);
	gq_table_free(table);
}

/* Characters count, not bytes; a terminal obeys nothing of what a name holds. */
static void characters(void **state)
{
	static const char *const cells[] = {"caf\xC3\xA9", "x",        "1", "2",
					    "\x1b[2J",     "a\nb\x7f", "3", "4"};
	struct gq_table *table = gq_table_new(header, LEN(header), 1);

	(void)state;
	fill(table, cells, LEN(cells));
	char *text = printed(table, 0);
	assert_string_equal(text, "TENANT  CLASS  LIMIT  USED\n"
				  "caf\xC3\xA9        x      1     2\n"
				  "?[2J     a?b?      3     4\n");
	free(text);
	gq_table_free(table);
}

static void rows_that_end_early(void **state)
{
	struct gq_table *table = gq_table_new(header, LEN(header), 2);

	(void)state;
	gq_table_row(table); /* an empty one is none */
	gq_table_cell(table, "a");
	gq_table_row(table);
	gq_table_cell(table, "never ended");
	char *text = printed(table, 0);
	assert_int_equal(occurrences(text, "\n"), 2);
	assert_has(text, "\na ");
	assert_has_not(text, "never");
	free(text);
	gq_table_free(table);
	gq_table_free(NULL);
}

static void a_column_of_zeros(void **state)
{
	static const char *const none[] = {"a", "0", "8", "0", "b", "x", "0", "0"};
	static const char *const some[] = {"a", "0", "8", "0", "b", "x", "0", "0.5"};
	struct gq_table *table = gq_table_new(header, LEN(header), 2);

	(void)state;
	fill(table, none, LEN(none));
	for (size_t i = 0; i < LEN(header); i++)
		gq_table_hide_zeros(table, i);
	char *text = printed(table, 0);
	assert_string_equal(text, "TENANT  CLASS  LIMIT\n"
				  "a       0          8\n"
				  "b       x          0\n");
	free(text);
	gq_table_free(table);

	table = gq_table_new(header, LEN(header), 2);
	fill(table, some, LEN(some));
	gq_table_hide_zeros(table, 3);
	text = printed(table, 0);
	assert_has(text, "  USED\n");
	assert_has(text, "   0.5\n");
	free(text);
	gq_table_free(table);
}

static void empty(void **state)
{
	struct gq_table *table = gq_table_new(header, LEN(header), 2);

	(void)state;
	char *text = printed(table, 0);
	assert_string_equal(text, "TENANT  CLASS  LIMIT  USED\n");
	free(text);
	gq_table_free(table);
}

/* A table that lost a cell prints none of its rows in the wrong columns. */
static void no_memory(void **state)
{
	bool more = true;
	unsigned lost = 0;

	(void)state;
	for (long nth = 0; more; nth++) {
		fail_alloc(nth);
		struct gq_table *table = gq_table_new(header, LEN(header), 2);
		for (int i = 0; table && i < 50; i++) {
			for (size_t c = 0; c < LEN(header); c++)
				gq_table_cell(table, c ? "y" : "x");
			gq_table_row(table);
		}
		more = fail_alloc_done();
		if (!table)
			continue;
		char *text = printed(table, more ? GQ_ENOMEM : 0);
		lost += more;
		assert_int_equal(occurrences(text, "\n"), more ? 0 : 51);
		free(text);
		gq_table_free(table);
	}
	assert_true(lost > 0);
}

static void full_disk(void **state)
{
	struct gq_table *table = gq_table_new(header, LEN(header), 2);
	FILE *out = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(out);
	setbuf(out, NULL);
	assert_int_equal(gq_table_print(table, out), GQ_EIO);
	(void)fclose(out);
	gq_table_free(table);
}

/* A large cluster: the columns are measured once, or this takes for ever. */
static void many_rows(void **state)
{
	struct gq_table *table = gq_table_new(header, LEN(header), 2);

	(void)state;
	for (int i = 0; i < 200000; i++) {
		gq_table_cell(table, "tenant");
		gq_table_row(table);
	}
	char *text = printed(table, 0);
	unsigned lines = 0;
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 200001);
	free(text);
	gq_table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(columns),
	    cmocka_unit_test(all_left),
	    cmocka_unit_test(characters),
	    cmocka_unit_test(rows_that_end_early),
	    cmocka_unit_test(empty),
	    cmocka_unit_test(no_memory),
	    cmocka_unit_test(full_disk),
	    cmocka_unit_test(many_rows),
	    cmocka_unit_test(a_column_of_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
