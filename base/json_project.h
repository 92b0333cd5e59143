#ifndef GQ_BASE_JSON_PROJECT_H
#define GQ_BASE_JSON_PROJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json_filter.h"
#include "base/json_keys.h"
#include "base/json_lex.h"

/* What is done with the tokens outside of dropped values: the pruned copy, the strings that are
 * wanted besides it, duplicate keys. Part of json_filter: json_filter.c knows the grammar and calls
 * the functions below, in the order of the document. */

/* Keys up to COLON, values up to IN_SCALAR. */
enum gq_json_state {
	GQ_ST_FIRST_KEY,
	GQ_ST_KEY,
	GQ_ST_IN_KEY,
	GQ_ST_COLON,
	GQ_ST_FIRST_VALUE, /* of an array: or its end */
	GQ_ST_VALUE,
	GQ_ST_IN_STRING,
	GQ_ST_IN_SCALAR,
	GQ_ST_AFTER,   /* behind a value, or at the end of an empty container */
	GQ_ST_BETWEEN, /* no document is open */
	GQ_ST_END,     /* the only document is over */
};

/* What a value is to us, apart from being kept or not. */
enum gq_json_role {
	GQ_AS_NONE,
	GQ_AS_EVENT,        /* a watch's {"type", "object"} */
	GQ_AS_LIST,         /* the document of a list */
	GQ_AS_LIST_META,    /* its metadata */
	GQ_AS_ITEMS,        /* its items */
	GQ_AS_OBJECT,       /* an object to be pruned */
	GQ_AS_EVENT_OBJECT, /* the same, in a watch: may be a Status */
	GQ_AS_META,         /* its metadata */
};

/* Strings taken out of the stream, whether kept or not. */
enum gq_json_slot {
	GQ_SLOT_NONE,
	GQ_SLOT_TYPE,
	GQ_SLOT_VERSION,
	GQ_SLOT_KIND,
	GQ_SLOT_REASON,
	GQ_SLOT_CODE, /* a number */
	GQ_SLOT_LIST_VERSION,
	GQ_SLOT_CONTINUE,
	GQ_SLOTS,
};

struct gq_json_fate {
	const struct gq_json_keep *keep; /* NULL: everything */
	enum gq_json_role role;
	bool emit; /* into the pruned copy */
};

/* An object or array that is open and not dropped. */
struct gq_json_frame {
	struct gq_json_fate fate;
	bool some;         /* something of it is in the copy already */
	bool wanted;       /* an object that is kept only so, see GQ_JSON_KEEP_ONLY */
	size_t element_at; /* an array: where its last element begins in the copy, with its comma */
	struct gq_json_key_scope keys;
};

struct gq_json_stream {
	struct gq_json_stream_options options;
	struct gq_json_lex lex;
	enum gq_json_state state;
	bool skip;                          /* inside of a dropped value… */
	unsigned skip_depth;                /* …that began at this depth */
	unsigned depth;                     /* containers open */
	char closer[GQ_JSON_DEPTH_MAX + 1]; /* by depth: '}' or ']' */
	struct gq_json_fate value;          /* the value that comes next or is being read */
	enum gq_json_slot slot;             /* where it goes besides */
	const char *only;                   /* what it must be for its object to be kept, or NULL */
	size_t only_at;                     /* where it begins in the copy */

	struct gq_json_keys keys;
	size_t key_at;       /* the key being read, in keys.bytes */
	uint64_t key_offset; /* and where it began */
	struct gq_buf out;
	struct gq_buf slots[GQ_SLOTS];
	bool have_object; /* WATCH: of this event; LIST: "items" was there */
	bool finished;

	/* where we are */
	const char *chunk;
	uint64_t offset; /* of the chunk in the stream */
	uint64_t line;
	uint64_t line_offset;
	uint64_t object_offset; /* where counting max_raw_bytes began */

	struct gq_json_list_info info;
	struct gq_err err; /* code != 0: dead */

	/* Last, since it is large and not cleared: each is set when its container opens. */
	struct gq_json_frame frames[GQ_JSON_DEPTH_MAX + 1];
};

static inline uint64_t gq_json_offset(const struct gq_json_stream *s, const char *p)
{
	return s->offset + (uint64_t)(p - s->chunk);
}

/* Kills the stream. Each returns its code. The message names line and column of the offset. */
int gq_json_fail(struct gq_json_stream *s, uint64_t offset, int code, const char *what);
/* GQ_EINVALID at p, with the byte there. */
int gq_json_fail_found(struct gq_json_stream *s, const char *p, const char *what);
/* An append to buf failed. No column: where a full buffer is seen hangs on how the bytes were cut.
 */
int gq_json_fail_buf(struct gq_json_stream *s, const struct gq_buf *buf);

/* A document opens; its '{' is at p and not consumed yet. */
void gq_json_begin(struct gq_json_stream *s, const char *p);

/* Bytes of a key, without its quotes. */
int gq_json_key_text(struct gq_json_stream *s, const char *p, size_t len);
/* It is complete. Sets what becomes of its value; s->skip: dropped. */
int gq_json_key_end(struct gq_json_stream *s);

/* A value begins at p, which is not consumed. s->skip: it is dropped after all. */
int gq_json_value(struct gq_json_stream *s, const char *p);

/* Bytes of a string (its quotes included) or scalar that is not dropped. */
int gq_json_text(struct gq_json_stream *s, const char *p, size_t len);
/* It is complete. */
int gq_json_text_end(struct gq_json_stream *s, const char *p);

/* The container at p opens, of s->value's fate; the innermost closes with the byte at p. Closing
 * hands items over. The caller counts s->depth: it is that of the container in both. */
int gq_json_open(struct gq_json_stream *s, const char *p);
int gq_json_close(struct gq_json_stream *s, const char *p);

/* Hands over the object that was read. */
int gq_json_deliver(struct gq_json_stream *s);

/* Empty, and with its cap. */
void gq_json_slot_init(struct gq_json_stream *s, enum gq_json_slot slot);
/* "" when absent. */
const char *gq_json_slot_text(const struct gq_json_stream *s, enum gq_json_slot slot);
long gq_json_slot_code(const struct gq_json_stream *s);

#endif
