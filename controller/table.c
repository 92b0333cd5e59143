#include "controller/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct gq_table {
	const char *const *header;
	size_t n_columns, n_left;
	char **cells; /* row after row */
	size_t n_cells, cap;
	bool lost;
};

struct gq_table *gq_table_new(const char *const *header, size_t n_columns, size_t n_left)
{
	struct gq_table *table = calloc(1, sizeof *table);

	if (table)
		*table = (struct gq_table){
		    .header = header, .n_columns = n_columns, .n_left = n_left};
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
	table->lost = table->lost || !copy;
	table->cells[table->n_cells++] = copy;
}

void gq_table_row(struct gq_table *table)
{
	while (!table->lost && table->n_cells % table->n_columns)
		gq_table_cell(table, "");
}

/* Characters, not bytes; names here have no wide ones. */
static int width_of(const char *text)
{
	int width = 0;

	for (; text && *text; text++)
		width += ((unsigned char)*text & 0xC0) != 0x80;
	return width;
}

static const char *cell_at(const struct gq_table *table, size_t row, size_t column)
{
	/* row 0 is the header */
	if (row == 0)
		return table->header[column];
	const char *cell = table->cells[(row - 1) * table->n_columns + column];
	return cell ? cell : "";
}

int gq_table_print(const struct gq_table *table, FILE *out)
{
	size_t rows = 1 + table->n_cells / table->n_columns;

	for (size_t row = 0; row < rows; row++) {
		for (size_t column = 0; column < table->n_columns; column++) {
			const char *cell = cell_at(table, row, column);
			int widest = 0;
			for (size_t r = 0; r < rows; r++) {
				int width = width_of(cell_at(table, r, column));
				widest = width > widest ? width : widest;
			}
			int pad = widest - width_of(cell);
			bool left = column < table->n_left;
			bool last = column + 1 == table->n_columns;
			if (fprintf(out, "%*s%s%*s", left ? 0 : pad, "", cell,
				    left && !last ? pad : 0, "") < 0 ||
			    fputs(last ? "\n" : "  ", out) < 0)
				return GQ_EIO;
		}
	}
	return table->lost ? GQ_ENOMEM : 0;
}
