#ifndef GQ_BASE_ERR_H
#define GQ_BASE_ERR_H

/* Error codes and messages.
 *
 * Every fallible function returns 0 or one of the negative codes below and takes a
 * `struct gq_err *err` as its last parameter. err may be NULL; it is written only on failure. */

enum gq_code {
	GQ_OK = 0,
	GQ_ENOTFOUND = -1,  /* the thing asked for does not exist */
	GQ_ECONFLICT = -2,  /* somebody else changed it first */
	GQ_EGONE = -3,      /* a resourceVersion or continue token has expired: list again */
	GQ_ETHROTTLED = -4, /* told to come back later */
	GQ_EDENIED = -5,    /* refused by policy or by the peer's authorisation */
	GQ_ENOMEM = -6,     /* out of memory: an answer (503), never an abort */
	GQ_ETOOBIG = -7,    /* over one of our caps */
	GQ_EINVALID = -8,   /* malformed input */
	GQ_EIO = -9,        /* file or network failure; may work when tried again */
};

#define GQ_ERR_MAX 1024

/* A message for people, always NUL-terminated, truncated at GQ_ERR_MAX - 1 bytes on a UTF-8
 * boundary. Plain data: no cleanup. */
struct gq_err {
	int code;
	char msg[GQ_ERR_MAX];
};

/* Fills err (when not NULL) and returns code, so that failing is one statement:
 *     return gq_fail(err, GQ_EINVALID, "line %u: …", line); */
int gq_fail(struct gq_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts context in front of the message that an inner layer wrote. Does nothing on err == NULL.
 * Returns err->code, or code when err is NULL. */
int gq_err_prefix(struct gq_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The constant name of a code, for logs: "EINVALID". Never NULL. */
const char *gq_code_name(int code);

#endif
