#include "webhook/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void gq_metric_family(struct gq_buf *out, const char *name, const char *type, const char *help)
{
	gq_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_label_value(struct gq_buf *out, const char *value)
{
	for (const char *p = value; *p; p++) {
		if (*p == '\n')
			gq_buf_puts(out, "\\n");
		else if (*p == '"' || *p == '\\')
			gq_buf_append(out, (char[]){'\\', *p}, 2);
		else
			gq_buf_putc(out, *p);
	}
}

static void put_name(struct gq_buf *out, const char *name, const struct gq_metric_label *labels)
{
	gq_buf_puts(out, name);
	for (size_t i = 0; labels && labels[i].name; i++) {
		gq_buf_printf(out, "%s%s=\"", i ? "," : "{", labels[i].name);
		put_label_value(out, labels[i].value ? labels[i].value : "");
		gq_buf_puts(out, labels[i + 1].name ? "\"" : "\"}");
	}
	gq_buf_putc(out, ' ');
}

/* With as many digits as it takes to read the same number back: a counter without its last digits
 * would stand still. */
static void put_number(struct gq_buf *out, double value)
{
	char text[32];

	if (!isfinite(value)) {
		gq_buf_puts(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (value == floor(value) && fabs(value) < 1e15) {
		gq_buf_printf(out, "%.0f", value);
		return;
	}
	for (int digits = 9; digits <= 17; digits += 2) {
		(void)snprintf(text, sizeof text, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	gq_buf_puts(out, text);
}

void gq_metric_sample(struct gq_buf *out, const char *name, const struct gq_metric_label *labels,
		      double value)
{
	put_name(out, name, labels);
	put_number(out, value);
	gq_buf_putc(out, '\n');
}

void gq_metric_sample_int(struct gq_buf *out, const char *name,
			  const struct gq_metric_label *labels, int64_t value)
{
	put_name(out, name, labels);
	gq_buf_printf(out, "%" PRId64 "\n", value);
}

void gq_metric_single(struct gq_buf *out, const char *name, const char *type, const char *help,
		      double value)
{
	gq_metric_family(out, name, type, help);
	gq_metric_sample(out, name, NULL, value);
}
