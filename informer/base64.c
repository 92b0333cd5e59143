#include "informer/base64.h"

#include <openssl/crypto.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

static int decode(const char *text, size_t len, char *out, size_t *ret_n)
{
	uint32_t group = 0;
	unsigned have = 0, padding = 0;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
			continue;
		int value = digit(c);
		if (c == '=' && have >= 2 && padding < 2)
			padding++;
		else if (value < 0 || padding)
			return GQ_EINVALID;
		group = group << 6 | (value < 0 ? 0 : (uint32_t)value);
		if (++have < 4)
			continue;
		for (unsigned k = 0; k < 3 - padding; k++)
			out[n++] = (char)(group >> (16 - 8 * k) & 0xff);
		have = 0;
		group = 0;
	}
	if (have)
		return GQ_EINVALID;
	*ret_n = n;
	return 0;
}

int gq_base64_decode(const char *text, size_t len, char **ret_bytes, size_t *ret_len,
		     struct gq_err *err)
{
	size_t room = len / 4 * 3 + 4;
	char *out = calloc(1, room);
	if (!out)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if (decode(text, len, out, ret_len)) {
		OPENSSL_cleanse(out, room);
		free(out);
		return gq_fail(err, GQ_EINVALID, "not base64");
	}
	*ret_bytes = out;
	return 0;
}
