#include "controller/hash.h"

#include <openssl/evp.h>

int gq_hash_text(const void *bytes, size_t len, char ret_text[GQ_HASH_TEXT_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (EVP_Digest(bytes, len, digest, &n, EVP_sha256(), NULL) != 1 || n != 32)
		return GQ_ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		ret_text[2 * i] = hex[digest[i] >> 4];
		ret_text[2 * i + 1] = hex[digest[i] & 15];
	}
	ret_text[2 * n] = '\0';
	return 0;
}
