#include "controller/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, const char *path, struct gq_buf *out, struct gq_err *err)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof chunk);
		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gq_fail(err, GQ_EIO, "%s: %s", path, strerror(errno));
		if (gq_buf_append(out, chunk, (size_t)n) == GQ_ETOOBIG)
			return gq_fail(err, GQ_ETOOBIG, "%s: larger than %zu bytes", path,
				       out->max);
		if (out->code)
			return gq_fail(err, out->code, "%s: out of memory", path);
	}
}

int gq_file_read(const char *path, struct gq_buf *out, struct gq_err *err)
{
	if (strcmp(path, "-") == 0)
		return read_all(STDIN_FILENO, "standard input", out, err);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return gq_fail(err, GQ_EIO, "%s: %s", path, strerror(errno));
	int code = read_all(fd, path, out, err);
	close(fd);
	return code;
}

struct gq_file_stamp gq_file_stamp(const char *path)
{
	struct gq_file_stamp stamp = {0};
	struct stat st;

	if (stat(path, &st) == 0) {
		stamp.device = (uint64_t)st.st_dev;
		stamp.inode = (uint64_t)st.st_ino;
		stamp.size = (int64_t)st.st_size;
		stamp.changed_ns =
		    (int64_t)st.st_ctim.tv_sec * 1000000000 + (int64_t)st.st_ctim.tv_nsec;
	}
	return stamp;
}

bool gq_file_stamp_equal(const struct gq_file_stamp *a, const struct gq_file_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->changed_ns == b->changed_ns;
}
