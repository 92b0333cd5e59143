#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

void gq_buf_done(struct gq_buf *buf)
{
	free(buf->data);
	*buf = GQ_BUF_INIT(buf->max);
}

void gq_buf_reset(struct gq_buf *buf)
{
	buf->len = 0;
	buf->code = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

int gq_buf_reserve(struct gq_buf *buf, size_t len)
{
	if (buf->code)
		return buf->code;
	size_t max = buf->max < PTRDIFF_MAX ? buf->max : PTRDIFF_MAX - 1;
	if (len > max || buf->len > max - len)
		return buf->code = GQ_ETOOBIG;
	size_t need = buf->len + len + 1;
	if (need <= buf->cap)
		return 0;
	size_t cap = buf->cap ? buf->cap : 64;
	while (cap < need)
		cap *= 2; /* need is at most half of SIZE_MAX */
	if (cap > max + 1)
		cap = max + 1;
	char *data = realloc(buf->data, cap);
	if (!data)
		return buf->code = GQ_ENOMEM;
	buf->data = data;
	buf->cap = cap;
	buf->data[buf->len] = '\0';
	return 0;
}

int gq_buf_append(struct gq_buf *buf, const void *bytes, size_t len)
{
	if (gq_buf_reserve(buf, len))
		return buf->code;
	if (len)
		memcpy(buf->data + buf->len, bytes, len);
	buf->len += len;
	buf->data[buf->len] = '\0';
	return 0;
}

int gq_buf_puts(struct gq_buf *buf, const char *text)
{
	return gq_buf_append(buf, text, strlen(text));
}

int gq_buf_putc(struct gq_buf *buf, char c)
{
	return gq_buf_append(buf, &c, 1);
}

int gq_buf_vprintf(struct gq_buf *buf, const char *fmt, va_list ap)
{
	va_list again;

	if (buf->code)
		return buf->code;
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	if (n < 0)
		buf->code = GQ_ENOMEM;
	else if (!gq_buf_reserve(buf, (size_t)n)) {
		(void)vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, again);
		buf->len += (size_t)n;
	}
	va_end(again);
	return buf->code;
}

int gq_buf_printf(struct gq_buf *buf, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int code = gq_buf_vprintf(buf, fmt, ap);
	va_end(ap);
	return code;
}

int gq_buf_json_string(struct gq_buf *buf, const char *text, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	size_t plain = 0; /* start of the run not yet appended */
	size_t i = 0;

	gq_buf_putc(buf, '"');
	while (i < len) {
		unsigned char c = (unsigned char)text[i];
		size_t width = c < 0x80 ? 1 : gq_utf8_width(text + i, len - i);
		if (c >= 0x20 && c != '"' && c != '\\' && width) {
			i += width;
			continue;
		}
		if (i > plain)
			gq_buf_append(buf, text + plain, i - plain);
		if (!width) {
			gq_buf_puts(buf, "\xEF\xBF\xBD");
		} else if (c == '"' || c == '\\') {
			gq_buf_append(buf, (char[]){'\\', (char)c}, 2);
		} else if (c == '\n') {
			gq_buf_puts(buf, "\\n");
		} else {
			gq_buf_append(buf, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]},
				      6);
		}
		plain = ++i;
	}
	if (len > plain)
		gq_buf_append(buf, text + plain, len - plain);
	return gq_buf_putc(buf, '"');
}

int gq_buf_url_escape(struct gq_buf *buf, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    strchr("-._~", c))
			gq_buf_putc(buf, (char)c);
		else
			gq_buf_append(buf, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
	}
	return buf->code;
}

char *gq_buf_steal(struct gq_buf *buf)
{
	if (buf->code) {
		gq_buf_done(buf);
		return NULL;
	}
	char *data = GQ_STEAL(buf->data);
	*buf = GQ_BUF_INIT(buf->max);
	return data;
}
