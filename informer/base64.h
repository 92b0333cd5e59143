#ifndef GQ_INFORMER_BASE64_H
#define GQ_INFORMER_BASE64_H

#include <stddef.h>

#include "base/err.h"

/* Decodes standard, padded base64; white space between the digits is skipped.
 * ret_bytes: NUL-terminated behind ret_len, to be freed with gq_secret_free().
 * Errors: GQ_EINVALID, GQ_ENOMEM. Source: RFC 4648 §4. */
int gq_base64_decode(const char *text, size_t len, char **ret_bytes, size_t *ret_len,
		     struct gq_err *err);

#endif
