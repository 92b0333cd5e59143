#include "webhook/warnings.h"

#include <string.h>

#include "base/utf8.h"
#include "quota/message.h"

#define LINE_MAX_BYTES (64u << 10)

/* Takes pieces as long as they fit. */
struct printer {
	struct gq_buf *out; /* NULL: they are only counted */
	size_t room;        /* runes */
	size_t n;
	bool full; /* something was left out */
};

/* In well-formed UTF-8. */
static size_t count_runes(const char *text, size_t len)
{
	size_t runes = 0;

	for (size_t i = 0; i < len; i++)
		runes += ((unsigned char)text[i] & 0xc0) != 0x80;
	return runes;
}

static void put_piece(struct printer *printer, const char *piece, size_t len)
{
	size_t runes = count_runes(piece, len);

	if (printer->full || runes > printer->room) {
		printer->full = true;
		return;
	}
	printer->room -= runes;
	if (!printer->out)
		return;
	if (printer->n++)
		gq_buf_putc(printer->out, ',');
	gq_buf_json_string(printer->out, piece, len);
}

/* What the API server calls a control character: C0, DEL and C1. */
static bool is_control(const char *text, size_t width)
{
	unsigned char c = (unsigned char)text[0];

	if (width == 1)
		return c < 0x20 || c == 0x7f;
	return width == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0;
}

/* The line as it may be passed on. */
static void clean_line(struct gq_buf *out, const char *text, size_t len)
{
	for (size_t i = 0, width; i < len; i += width ? width : 1) {
		width = gq_utf8_width(text + i, len - i);
		if (width == 0)
			gq_buf_puts(out, "\xEF\xBF\xBD");
		else if (is_control(text + i, width))
			gq_buf_putc(out, ' ');
		else
			gq_buf_append(out, text + i, width);
	}
	while (out->len && out->data[out->len - 1] == ' ')
		out->len--;
}

/* A mark that ends a part of a Chinese sentence, and begins no line. */
static bool is_stop(const char *text, size_t len)
{
	static const char *const stops[] = {"，", "。", "；", "：", "、", "！", "？", "）", "」"};

	for (size_t i = 0; len >= 3 && i < sizeof stops / sizeof stops[0]; i++)
		if (memcmp(text, stops[i], 3) == 0)
			return true;
	return false;
}

/* The bytes of the line's next warning. */
static size_t piece_len(const char *line, size_t len)
{
	size_t i = 0, best = 0, width;

	for (size_t runes = 0; i < len && runes < GQ_WARNING_RUNES_MAX; runes++, i += width) {
		width = gq_utf8_width(line + i, len - i);
		if (line[i] == ' ')
			best = i;
		else if (is_stop(line + i, len - i) && !is_stop(line + i + 3, len - i - 3))
			best = i + 3;
	}
	return i == len || line[i] == ' ' || best == 0 ? i : best;
}

static int put_line(struct printer *printer, const char *text, size_t text_len)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);

	clean_line(&line, text, text_len);
	if (line.code)
		return line.code;
	for (size_t i = 0, len; i < line.len; i += len) {
		while (line.data[i] == ' ')
			i++;
		len = piece_len(line.data + i, line.len - i);
		put_piece(printer, line.data + i, len);
	}
	return 0;
}

static int put_lines(struct printer *printer, const struct gq_warnings *warnings)
{
	int code = 0;

	for (size_t i = 0; i < warnings->n; i++) {
		for (const char *at = warnings->texts[i]; !code && *at; at += *at == '\n') {
			size_t len = strcspn(at, "\n");
			code = put_line(printer, at, len);
			at += len;
		}
	}
	return code;
}

int gq_warnings_print(struct gq_buf *out, const struct gq_warnings *warnings)
{
	const char *notice = gq_message_template(warnings->locale, GQ_MSG_WARNINGS_CUT);
	size_t notice_len = strlen(notice);
	struct printer all = {.room = GQ_WARNINGS_RUNES_MAX};
	struct printer printer = {.out = out, .room = GQ_WARNINGS_RUNES_MAX};
	int code = put_lines(&all, warnings);
	bool cut = warnings->cut || all.full;

	if (cut)
		printer.room -= count_runes(notice, notice_len);
	gq_buf_putc(out, '[');
	if (!code)
		code = put_lines(&printer, warnings);
	if (cut) {
		printer.room = GQ_WARNINGS_RUNES_MAX;
		printer.full = false;
		put_piece(&printer, notice, notice_len);
	}
	if (code && !out->code)
		out->code = code;
	return gq_buf_putc(out, ']');
}
