#ifndef GQ_CONTROLLER_HASH_H
#define GQ_CONTROLLER_HASH_H

#include <stddef.h>

#include "base/err.h"

#define GQ_HASH_TEXT_BYTES 65

/* SHA-256 as 64 lower-case hexadecimal digits and a NUL. GQ_ENOMEM when OpenSSL fails. */
int gq_hash_text(const void *bytes, size_t len, char ret_text[GQ_HASH_TEXT_BYTES]);

#endif
