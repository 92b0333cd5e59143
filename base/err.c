#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cuts a message that vsnprintf truncated back to a whole UTF-8 character. */
static void trim_utf8(char *msg, size_t cap)
{
	size_t len = strlen(msg);

	if (len + 1 < cap)
		return;
	size_t start = len;
	while (start > 0 && len - start < 4 && ((unsigned char)msg[start - 1] & 0xC0) == 0x80)
		start--;
	if (start == 0)
		return;
	unsigned char lead = (unsigned char)msg[start - 1];
	size_t want = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
	if (len - (start - 1) < want)
		msg[start - 1] = '\0';
}

int gq_fail(struct gq_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	if (vsnprintf(err->msg, sizeof err->msg, fmt, ap) < 0)
		err->msg[0] = '\0';
	va_end(ap);
	trim_utf8(err->msg, sizeof err->msg);
	return code;
}

int gq_err_prefix(struct gq_err *err, int code, const char *fmt, ...)
{
	char inner[GQ_ERR_MAX];
	va_list ap;

	if (!err)
		return code;
	memcpy(inner, err->msg, sizeof inner);
	inner[sizeof inner - 1] = '\0';
	va_start(ap, fmt);
	int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	if ((size_t)n < sizeof err->msg) {
		size_t room = sizeof err->msg - (size_t)n - 1;
		size_t len = strlen(inner);
		if (len > room)
			len = room;
		memcpy(err->msg + n, inner, len);
		err->msg[(size_t)n + len] = '\0';
	}
	trim_utf8(err->msg, sizeof err->msg);
	if (!err->code)
		err->code = code;
	return err->code;
}

const char *gq_code_name(int code)
{
	switch (code) {
	case GQ_OK:
		return "OK";
	case GQ_ENOTFOUND:
		return "ENOTFOUND";
	case GQ_ECONFLICT:
		return "ECONFLICT";
	case GQ_EGONE:
		return "EGONE";
	case GQ_ETHROTTLED:
		return "ETHROTTLED";
	case GQ_EDENIED:
		return "EDENIED";
	case GQ_ENOMEM:
		return "ENOMEM";
	case GQ_ETOOBIG:
		return "ETOOBIG";
	case GQ_EINVALID:
		return "EINVALID";
	case GQ_EIO:
		return "EIO";
	default:
		return "UNKNOWN";
	}
}
