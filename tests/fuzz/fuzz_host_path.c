/* Paths of the node: whatever is written, one form comes out, and means the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quota/host_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

/* Of a path in its one form: the parts that must have gone. */
static void check_form(const char *clean)
{
	char separator = *clean == '/' ? '/' : '\\';
	const char *part = clean;
	size_t len = strlen(clean);

	check(len > 0 && len <= GQ_HOST_PATH_MAX);
	if (separator == '/')
		part = clean + 1;
	else if (strncmp(clean, "\\\\.\\", 4) == 0)
		part = clean + 4;
	else
		check(clean[1] == ':');
	if (len == 1)
		return;
	check(clean[len - 1] != separator);
	for (;;) {
		const char *end = strchr(part, separator);
		size_t part_len = end ? (size_t)(end - part) : strlen(part);
		check(part_len > 0);
		check(!(part_len == 1 && part[0] == '.'));
		check(!(part_len == 2 && part[0] == '.' && part[1] == '.'));
		if (!end)
			return;
		part = end + 1;
	}
}

/* Longer ones say nothing new about their parents, and there are many of them. */
#define PARENTS_BYTES_MAX 256

/* A directory gives whatever lies in it. */
static void check_parents(const char *clean)
{
	char parent[PARENTS_BYTES_MAX + 1];
	struct gq_host_path_reading reading = gq_host_path_read(clean, false);

	memcpy(parent, clean, strlen(clean) + 1);
	for (char *slash; *clean == '/' && (slash = strrchr(parent, '/'));) {
		slash[slash == parent] = '\0';
		check(gq_host_path_inside(clean, parent));
		struct gq_host_path_reading above = gq_host_path_read(parent, false);
		check(!reading.socket || above.socket);
		check(!reading.device || above.device);
		if (slash == parent)
			return;
	}
}

/* Going down and up again changes nothing; path: without what Windows reads in its own way. */
static void check_way_back(const char *path, const char *clean)
{
	char again[GQ_HOST_PATH_MAX + 1];
	size_t len = strlen(path);
	char *back = malloc(len + sizeof "/x/..");

	if (!back)
		return;
	memcpy(back, path, len);
	memcpy(back + len, "/x/..", sizeof "/x/..");
	if (gq_host_path_clean(back, again))
		check(strcmp(again, clean) == 0);
	free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char clean[GQ_HOST_PATH_MAX + 1], again[GQ_HOST_PATH_MAX + 1];
	char *path = malloc(size + 1);

	if (!path)
		return 0;
	memcpy(path, data, size);
	path[size] = '\0';
	if (gq_host_path_clean(path, clean)) {
		check_form(clean);
		/* "\.\.\pipe" is a name on Linux, and in front of it "/" makes a pipe of it */
		if (*clean != '/' || !strchr(clean, '\\'))
			check(gq_host_path_clean(clean, again) && strcmp(clean, again) == 0);
		check(gq_host_path_inside(clean, clean));
		if (strlen(clean) <= PARENTS_BYTES_MAX)
			check_parents(clean);
		if (!strpbrk(path, "\\:") && strncmp(path, "//", 2) != 0)
			check_way_back(path, clean);
	} else {
		/* "a" is longer as "/a" */
		check(strlen(path) >= GQ_HOST_PATH_MAX);
	}
	free(path);
	return 0;
}
