#ifndef GQ_BASE_UTF8_H
#define GQ_BASE_UTF8_H

#include <stddef.h>

/* The width in bytes (1 to 4) of the well-formed UTF-8 character at the start of text, or 0 when
 * there is none: truncated, overlong, a surrogate, or above U+10FFFF.
 * Source: The Unicode Standard, table 3-7. */
size_t gq_utf8_width(const char *text, size_t len);

#endif
