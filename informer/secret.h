#ifndef GQ_INFORMER_SECRET_H
#define GQ_INFORMER_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Strings that must not stay behind in memory. */

/* Overwrites len bytes and frees. Takes NULL. */
void gq_secret_wipe(char *secret, size_t len);
/* The same for a string. */
void gq_secret_free(char *secret);
GQ_DEFINE_CLEANUP(gq_cleanup_secret, char, gq_secret_free);

/* Reads a small file whole, in one allocation, so that no copy of a secret is left by growing.
 * ret_text: NUL-terminated (there may be NULs inside), to be freed with gq_secret_free(); ret_len
 * may be NULL. Errors: GQ_EIO can't read; GQ_ETOOBIG over max bytes; GQ_ENOMEM. */
int gq_secret_read_file(const char *path, size_t max, char **ret_text, size_t *ret_len,
			struct gq_err *err);

/* A copy without the white space at both ends; NULL when out of memory. */
char *gq_secret_trimmed(const char *text, size_t len);

/* Whether text may stand in an HTTP header: no control character. */
bool gq_secret_is_header_value(const char *text);

#endif
