#ifndef GQ_BASE_YAML_GUARD_H
#define GQ_BASE_YAML_GUARD_H

#include <stddef.h>

/* What is looked for in YAML before libfyaml gets it: bytes that a terminal or a log had better not
 * get, and what libfyaml 0.7.12 does not survive. */
enum gq_yaml_fault {
	GQ_YAML_FAULT_NONE,
	GQ_YAML_FAULT_NOT_UTF8,
	GQ_YAML_FAULT_CONTROL,     /* a control character that is no tab and no line end */
	GQ_YAML_FAULT_DIRECTIVE,   /* a line that begins with "%" */
	GQ_YAML_FAULT_EMPTY_LINES, /* too many on end */
	GQ_YAML_FAULT_KEY_AND_TAB, /* a "?" before white space, and a tab further on */
};

struct gq_yaml_place {
	size_t offset;   /* bytes */
	unsigned line;   /* from 1 */
	unsigned column; /* from 1, in characters; a byte order mark is one */
};

/* The first fault and where it is; of KEY_AND_TAB, where its "?" is. ret_at is untouched when there
 * is none. */
enum gq_yaml_fault gq_yaml_guard(const char *bytes, size_t len, struct gq_yaml_place *ret_at);

#endif
