#include "quota/policy_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "quota/edit.h"

#define MESSAGE_MAX 4096 /* well above what values, cut as they are, can make */
#define QUOTED_MAX 72    /* bytes of a value that a message shows */

static bool before(unsigned line, unsigned column, const struct gq_policy_problem *other)
{
	return line < other->line || (line == other->line && column < other->column);
}

bool gq_policy_report_wants(const struct gq_policy_report *report, unsigned line, unsigned column)
{
	const struct gq_policy_problems *problems = &report->problems;

	return problems->n_items < GQ_POLICY_PROBLEM_MAX ||
	       before(line, column, &problems->items[GQ_POLICY_PROBLEM_MAX - 1]);
}

static void problem_done(struct gq_policy_problem *problem)
{
	free(problem->message);
	free(problem->suggestion);
}

static bool make_problem(struct gq_policy_problem *problem, const char *suggestion, const char *fmt,
			 va_list ap)
{
	struct gq_buf GQ_BUF_CLEANUP message = GQ_BUF_INIT(MESSAGE_MAX);

	(void)gq_buf_vprintf(&message, fmt, ap);
	problem->message = gq_buf_steal(&message);
	problem->suggestion = suggestion ? strdup(suggestion) : NULL;
	if (problem->message && (problem->suggestion || !suggestion))
		return true;
	problem_done(problem);
	return false;
}

void gq_policy_report_add(struct gq_policy_report *report, unsigned line, unsigned column,
			  const char *suggestion, const char *fmt, ...)
{
	struct gq_policy_problems *problems = &report->problems;
	struct gq_policy_problem problem = {.line = line, .column = column};
	va_list ap;

	if (report->failed)
		return;
	if (!gq_policy_report_wants(report, line, column)) {
		problems->more++;
		return;
	}
	if (!problems->items)
		problems->items = calloc(GQ_POLICY_PROBLEM_MAX, sizeof *problems->items);
	if (!problems->items) {
		report->failed = true;
		return;
	}
	va_start(ap, fmt);
	bool made = make_problem(&problem, suggestion, fmt, ap);
	va_end(ap);
	if (!made) {
		report->failed = true;
		return;
	}
	if (problems->n_items == GQ_POLICY_PROBLEM_MAX) {
		problem_done(&problems->items[--problems->n_items]);
		problems->more++;
	}
	size_t at = problems->n_items++;
	for (; at > 0 && before(line, column, &problems->items[at - 1]); at--)
		problems->items[at] = problems->items[at - 1];
	problems->items[at] = problem;
}

void gq_policy_problems_done(struct gq_policy_problems *problems)
{
	for (size_t i = 0; i < problems->n_items; i++)
		problem_done(&problems->items[i]);
	free(problems->items);
	*problems = (struct gq_policy_problems){0};
}

int gq_policy_problems_print(const struct gq_policy_problems *problems, const char *file,
			     struct gq_buf *out)
{
	for (size_t i = 0; i < problems->n_items; i++) {
		const struct gq_policy_problem *p = &problems->items[i];
		gq_buf_printf(out, "%s:%u:%u: %s", file, p->line, p->column, p->message);
		if (p->suggestion)
			gq_buf_printf(out, "; %s", p->suggestion);
		gq_buf_putc(out, '\n');
	}
	if (problems->more)
		gq_buf_printf(out, "%s: %zu more\n", file, problems->more);
	return out->code;
}

struct gq_quoted gq_policy_quote(const char *text, size_t len)
{
	struct gq_quoted quoted;
	size_t at = 0, i = 0;

	quoted.text[at++] = '"';
	while (i < len) {
		size_t width = gq_utf8_width(text + i, len - i);
		unsigned char c = (unsigned char)text[i];
		if (i + (width ? width : 1) > QUOTED_MAX)
			break;
		if (!width || c < 0x20 || c == 0x7f) {
			quoted.text[at++] = width ? ' ' : '?';
			i++;
			continue;
		}
		memcpy(quoted.text + at, text + i, width);
		at += width;
		i += width;
	}
	if (i < len) {
		memcpy(quoted.text + at, "…", 3);
		at += 3;
	}
	quoted.text[at++] = '"';
	quoted.text[at] = '\0';
	return quoted;
}

const char *gq_hint(struct gq_hint *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(hint->text, sizeof hint->text, fmt, ap) < 0)
		hint->text[0] = '\0';
	va_end(ap);
	return hint->text;
}

struct gq_nearest gq_nearest_to(const char *word, size_t len)
{
	size_t limit = len <= 1 ? 0 : len <= 3 ? 2 : len <= 7 ? 3 : 4;

	return (struct gq_nearest){.word = word, .len = len, .limit = limit};
}

void gq_nearest_offer(struct gq_nearest *nearest, const char *candidate)
{
	size_t len = strlen(candidate);
	size_t gap = len > nearest->len ? len - nearest->len : nearest->len - len;

	if (gap >= nearest->limit)
		return;
	size_t d = gq_edit_distance(nearest->word, nearest->len, candidate, len, nearest->limit,
				    gq_edit_fold);
	if (d < nearest->limit) {
		nearest->best = candidate;
		nearest->limit = d;
	}
}
