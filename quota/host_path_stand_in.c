#include "quota/host_path.h"

#include <string.h>

/* Enough of host_path.h for the policy's reader: paths of Linux, of a system with systemd. */

bool gq_host_path_clean(const char *path, char ret_clean[GQ_HOST_PATH_MAX + 1])
{
	size_t at = 0;

	if (strlen(path) > GQ_HOST_PATH_MAX)
		return false;
	while (*path) {
		size_t n = strcspn(path, "/");
		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (at > 0 && ret_clean[--at] != '/')
				continue;
		} else if (n > 0 && !(n == 1 && *path == '.')) {
			ret_clean[at++] = '/';
			memcpy(ret_clean + at, path, n);
			at += n;
		}
		path += n + (path[n] == '/');
	}
	if (at == 0)
		ret_clean[at++] = '/';
	ret_clean[at] = '\0';
	if (gq_host_path_inside(ret_clean, "/var/run"))
		memmove(ret_clean, ret_clean + 4, at + 1 - 4);
	return true;
}

bool gq_host_path_inside(const char *clean, const char *base)
{
	size_t n = strcmp(base, "/") == 0 ? 0 : strlen(base);

	return strncmp(clean, base, n) == 0 && (clean[n] == '\0' || clean[n] == '/');
}
