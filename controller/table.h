#ifndef GQ_CONTROLLER_TABLE_H
#define GQ_CONTROLLER_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "base/cleanup.h"

/* A table for a terminal: columns as wide as their widest cell, the first few flush left, the
 * others (numbers) flush right. */
struct gq_table;

/* header: borrowed, n_columns > 0. n_left: how many columns are flush left. NULL: out of memory. */
struct gq_table *gq_table_new(const char *const *header, size_t n_columns, size_t n_left);
void gq_table_free(struct gq_table *table);

/* Fills the next cell of the row at hand (copied; a control character becomes '?'); gq_table_row()
 * ends the row. */
void gq_table_cell(struct gq_table *table, const char *text);
void gq_table_row(struct gq_table *table);

/* Leaves the column out when each of its cells is "0". After the last row. */
void gq_table_hide_zeros(struct gq_table *table, size_t column);

/* Prints the rows that were ended. GQ_ENOMEM when some cell was lost, and nothing is printed then;
 * GQ_EIO. */
int gq_table_print(const struct gq_table *table, FILE *out);

#endif
