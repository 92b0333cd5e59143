#include "controller/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define HIDDEN (-1)

struct gq_table {
	const char *const *header;
	size_t n_columns, n_left;
	char **cells; /* row after row */
	size_t n_cells, cap;
	bool lost;
	int widths[]; /* of the columns; HIDDEN: not printed */
};

/* Characters, not bytes; names here have no wide ones. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xC0) != 0x80;
	return width;
}

struct gq_table *gq_table_new(const char *const *header, size_t n_columns, size_t n_left)
{
	struct gq_table *table = calloc(1, sizeof *table + n_columns * sizeof table->widths[0]);

	if (!table)
		return NULL;
	table->header = header;
	table->n_columns = n_columns;
	table->n_left = n_left;
	for (size_t i = 0; i < n_columns; i++)
		table->widths[i] = width_of(header[i]);
	return table;
}

void gq_table_free(struct gq_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

void gq_table_cell(struct gq_table *table, const char *text)
{
	if (table->lost)
		return;
	if (table->n_cells == table->cap) {
		size_t cap = table->cap ? table->cap * 2 : 64;
		char **cells = realloc(table->cells, cap * sizeof *cells);
		if (!cells) {
			table->lost = true;
			return;
		}
		table->cells = cells;
		table->cap = cap;
	}
	char *copy = strdup(text);
	if (!copy) {
		table->lost = true;
		return;
	}
	/* what a terminal would obey */
	for (char *p = copy; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	int *widest = &table->widths[table->n_cells % table->n_columns];
	int width = width_of(copy);
	*widest = width > *widest ? width : *widest;
	table->cells[table->n_cells++] = copy;
}

void gq_table_row(struct gq_table *table)
{
	while (!table->lost && table->n_cells % table->n_columns)
		gq_table_cell(table, "");
}

void gq_table_hide_zeros(struct gq_table *table, size_t column)
{
	for (size_t i = column; i < table->n_cells; i += table->n_columns)
		if (strcmp(table->cells[i], "0") != 0)
			return;
	table->widths[column] = HIDDEN;
}

static int print_row(const struct gq_table *table, const char *const *cells, FILE *out)
{
	int behind = 0; /* blanks that a cell flush left still wants, if another follows */

	for (size_t i = 0; i < table->n_columns; i++) {
		int pad = table->widths[i] - width_of(cells[i]);
		bool left = i < table->n_left;
		if (table->widths[i] == HIDDEN)
			continue;
		if (fprintf(out, "%*s%s", behind + (left ? 0 : pad), "", cells[i]) < 0)
			return GQ_EIO;
		behind = 2 + (left ? pad : 0);
	}
	return fputc('\n', out) == EOF ? GQ_EIO : 0;
}

int gq_table_print(const struct gq_table *table, FILE *out)
{
	size_t rows = table->n_cells / table->n_columns;

	if (table->lost)
		return GQ_ENOMEM;
	int code = print_row(table, table->header, out);
	for (size_t row = 0; !code && row < rows; row++)
		code = print_row(table, (const char *const *)&table->cells[row * table->n_columns],
				 out);
	return code;
}
