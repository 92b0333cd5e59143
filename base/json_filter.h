#ifndef GQ_BASE_JSON_FILTER_H
#define GQ_BASE_JSON_FILTER_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* A strict, streaming JSON reader that keeps only what somebody reads.
 *
 * Bytes are pushed in, cut anywhere. Of each object the reader writes a pruned copy: the fields
 * that a keep tree names, compact, in their order. Everything else (managedFields first of all) is
 * checked and dropped on the way, so that no list and no watch is ever whole in memory. The pruned
 * copy is small and known to be sound: json-c may take it.
 *
 * Refused with GQ_EINVALID: anything that is not RFC 8259 (single quotes, NaN, "1.", raw control
 * characters, comments, truncation, bytes behind the end), invalid UTF-8 (overlong, surrogates), a
 * lone \ud800 escape, \u0000 in a key anywhere, and a key that stands twice in an object on a kept
 * path or in a kept value. Refused with GQ_ETOOBIG: nesting deeper than GQ_JSON_DEPTH_MAX, an
 * object over the caps. Messages name line and column, both from 1, the column in bytes; of the
 * input they hold one escaped byte at most. Source: RFC 8259. */

#define GQ_JSON_DEPTH_MAX 128

/* A keep tree. Arrays are transparent: a node applies to each element. A node with children keeps a
 * value that is neither object nor array as it is: whoever decodes the copy complains. */
struct gq_json_keep {
	const char *key;                     /* NULL ends a list of siblings */
	const struct gq_json_keep *children; /* NULL: the whole value is kept */
};
#define GQ_JSON_KEEP_END                                                                           \
	{                                                                                          \
		NULL, NULL                                                                         \
	}

/* First among its siblings: an object in an array is kept only if this key is that string in it,
 * written without escapes; or one of several, "one\0two". Literals. */
#define GQ_JSON_KEEP_ONLY(key, values)                                                             \
	{                                                                                          \
		key "\0" values "\0", gq_json_only                                                 \
	}
extern const struct gq_json_keep gq_json_only[];

/* One object that was read. All pointers are valid during the callback only. */
struct gq_json_item {
	const char *type;             /* WATCH: the event's "type"; else NULL */
	const char *json;             /* the pruned object, NUL-terminated */
	size_t len;                   /* bytes */
	const char *resource_version; /* metadata.resourceVersion of the object, or "" */
	const char *reason;           /* WATCH: what an ERROR event's Status says, or "" */
	long code;                    /* and its code, or 0 */
};

enum gq_json_shape {
	GQ_JSON_DOCUMENT, /* exactly one JSON value (an object); the item is the whole of it, and
			     comes with gq_json_stream_end(), when nothing can be wrong any more */
	GQ_JSON_WATCH,    /* documents {"type": T, "object": O} one after the other, any white space
			     between; an item per document is its O; keep applies to O */
	GQ_JSON_LIST, /* one document {…, "items": [O, …]}; an item per O; keep applies to O */
};

struct gq_json_stream_options {
	enum gq_json_shape shape;
	const struct gq_json_keep *keep; /* borrowed for the life of the stream; NULL: everything */
	size_t max_raw_bytes;            /* of one object as it comes in, in a WATCH of its event;
					    counts as 4 GiB at most */
	size_t max_kept_bytes;           /* of one pruned object */
	/* Returns 0, or a negative code (err filled) that ends the stream with that code. */
	int (*on_item)(void *arg, const struct gq_json_item *item, struct gq_err *err);
	void *arg;
};

struct gq_json_stream;

/* NULL when out of memory. */
struct gq_json_stream *gq_json_stream_new(const struct gq_json_stream_options *options);
void gq_json_stream_free(struct gq_json_stream *stream);
GQ_DEFINE_CLEANUP(gq_cleanup_json_stream, struct gq_json_stream, gq_json_stream_free);

/* Reads the next bytes. After a failure the stream is dead: each later call fails alike. */
int gq_json_stream_feed(struct gq_json_stream *stream, const char *bytes, size_t len,
			struct gq_err *err);

/* Says that the bytes are at their end: GQ_EINVALID in the middle of a document, when DOCUMENT or
 * LIST saw none, or when a LIST held neither "items" nor a Status: that is no empty list. */
int gq_json_stream_end(struct gq_json_stream *stream, struct gq_err *err);

/* LIST only, after gq_json_stream_end(): the list's own metadata, "" when absent. And what a Status
 * in place of the list says (kind is "Status" then): its code (0 when absent), reason. */
struct gq_json_list_info {
	const char *kind;
	const char *resource_version;
	const char *continue_token;
	const char *reason;
	long code;
};
const struct gq_json_list_info *gq_json_stream_list_info(const struct gq_json_stream *stream);

/* DOCUMENT in one call: appends the pruned document to out, or nothing. */
int gq_json_prune(const char *bytes, size_t len, const struct gq_json_keep *keep,
		  struct gq_buf *out, struct gq_err *err);

#endif
