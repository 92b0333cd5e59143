#include "informer/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gq_secret_wipe(char *secret, size_t len)
{
	if (secret)
		OPENSSL_cleanse(secret, len);
	free(secret);
}

void gq_secret_free(char *secret)
{
	gq_secret_wipe(secret, secret ? strlen(secret) : 0);
}

static int read_all(int fd, char *to, size_t room, size_t *ret_len)
{
	size_t len = 0;

	while (len < room) {
		ssize_t n = read(fd, to + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_len = len;
	return 0;
}

int gq_secret_read_file(const char *path, size_t max, char **ret_text, size_t *ret_len,
			struct gq_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return gq_fail(err, GQ_EIO, "%s: %s", path, strerror(errno));
	size_t len = 0, room = max + 1; /* one more byte tells whether the file is longer */
	char *text = malloc(room + 1);
	if (!text) {
		close(fd);
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	}
	int failed = read_all(fd, text, room, &len);
	close(fd);
	if (failed || len > max) {
		gq_secret_wipe(text, len);
		if (failed)
			return gq_fail(err, GQ_EIO, "%s: %s", path, strerror(failed));
		return gq_fail(err, GQ_ETOOBIG, "%s: larger than %zu bytes", path, max);
	}
	text[len] = '\0';
	*ret_text = text;
	if (ret_len)
		*ret_len = len;
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

char *gq_secret_trimmed(const char *text, size_t len)
{
	while (len && is_space(text[len - 1]))
		len--;
	while (len && is_space(*text)) {
		text++;
		len--;
	}
	return strndup(text, len);
}

bool gq_secret_is_header_value(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}
