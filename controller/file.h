#ifndef GQ_CONTROLLER_FILE_H
#define GQ_CONTROLLER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends a file ("-": standard input) to out. GQ_EIO can't be read; GQ_ETOOBIG over out's cap. */
int gq_file_read(const char *path, struct gq_buf *out, struct gq_err *err);

/* What tells one state of a file from another, symbolic links followed. */
struct gq_file_stamp {
	uint64_t device, inode;
	int64_t size, changed_ns;
};
/* All zero when there is no such file. */
struct gq_file_stamp gq_file_stamp(const char *path);
bool gq_file_stamp_equal(const struct gq_file_stamp *a, const struct gq_file_stamp *b);

#endif
