#ifndef GQ_BASE_BUF_H
#define GQ_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* A growing byte buffer with a cap from birth.
 *
 * Appending fails softly: the first failure (out of memory, or over the cap) is remembered in
 * `code`, later calls do nothing, and the caller checks once at the end. The data is always
 * NUL-terminated behind `len` when data is not NULL. */
struct gq_buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max; /* bytes; 0 refuses everything */
	int code;   /* 0, GQ_ENOMEM or GQ_ETOOBIG */
};

#define GQ_BUF_INIT(max_bytes) ((struct gq_buf){.max = (max_bytes)})

/* Frees the data and leaves an empty buffer with the same cap. */
void gq_buf_done(struct gq_buf *buf);
#define GQ_BUF_CLEANUP GQ_CLEANUP(gq_buf_done)

/* Empties without freeing; forgets an earlier failure. */
void gq_buf_reset(struct gq_buf *buf);

/* Each returns buf->code. bytes may be NULL only when len is 0. */
int gq_buf_append(struct gq_buf *buf, const void *bytes, size_t len);
int gq_buf_puts(struct gq_buf *buf, const char *text);
int gq_buf_putc(struct gq_buf *buf, char c);
int gq_buf_printf(struct gq_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int gq_buf_vprintf(struct gq_buf *buf, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* Makes room for len more bytes without changing the contents. */
int gq_buf_reserve(struct gq_buf *buf, size_t len);

/* Appends text as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
int gq_buf_json_string(struct gq_buf *buf, const char *text, size_t len);

/* Appends text for a part of a URL: all but the unreserved characters of RFC 3986 become %XX. */
int gq_buf_url_escape(struct gq_buf *buf, const char *text);

/* Hands the data to the caller (free()) and leaves an empty buffer; NULL after a failure or when
 * nothing was ever appended. */
char *gq_buf_steal(struct gq_buf *buf);

#endif
