#ifndef GQ_TESTS_JSON_READ_H
#define GQ_TESTS_JSON_READ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_filter.h"

/* Reads a text through a stream and writes down what came out. */
struct json_read {
	enum gq_json_shape shape;
	const struct gq_json_keep *keep;
	size_t max_raw_bytes;  /* 0: plenty */
	size_t max_kept_bytes; /* 0: plenty */
	long fail_at_item;     /* on_item refuses this one, counted from 1 */

	/* Results. items: a line for each, "[TYPE ]@RESOURCEVERSION JSON", " CODE REASON" behind it
	 * when there is a code; list: a line at the end of a LIST. */
	struct gq_buf items;
	long n_items;
	int code;
	struct gq_err err;
};

static inline int json_read_item(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct json_read *r = arg;

	if (++r->n_items == r->fail_at_item)
		return gq_fail(err, GQ_ECONFLICT, "refused by the test");
	if (strlen(item->json) != item->len)
		return gq_fail(err, GQ_EIO, "the item's length is not that of its text");
	if (item->type)
		gq_buf_printf(&r->items, "%s ", item->type);
	gq_buf_printf(&r->items, "@%s %s", item->resource_version, item->json);
	if (item->code || *item->reason)
		gq_buf_printf(&r->items, " %ld %s", item->code, item->reason);
	return gq_buf_putc(&r->items, '\n');
}

/* Feeds the text cut into pieces of the given sizes, the last one over and over. Each piece is an
 * allocation of its own, so that a sanitizer sees a read past it. Returns the code. */
static inline int json_read(struct json_read *r, const char *text, size_t len, const size_t *sizes,
			    size_t n_sizes)
{
	struct gq_json_stream_options options = {
	    .shape = r->shape,
	    .keep = r->keep,
	    .max_raw_bytes = r->max_raw_bytes ? r->max_raw_bytes : 64u << 20,
	    .max_kept_bytes = r->max_kept_bytes ? r->max_kept_bytes : 64u << 20,
	    .on_item = json_read_item,
	    .arg = r,
	};
	struct gq_json_stream *s GQ_CLEANUP(gq_cleanup_json_stream) = NULL;

	r->items.max = 128u << 20;
	gq_buf_reset(&r->items);
	gq_buf_append(&r->items, "", 0);
	r->err = (struct gq_err){0};
	r->n_items = 0;
	r->code = 0;
	s = gq_json_stream_new(&options);
	if (!s)
		return r->code = GQ_ENOMEM;
	for (size_t at = 0, i = 0; at < len && !r->code; i += i + 1 < n_sizes) {
		size_t n = sizes[i] < len - at ? sizes[i] : len - at;
		char *piece GQ_AUTOFREE = malloc(n ? n : 1);
		if (!piece)
			return r->code = GQ_ENOMEM;
		memcpy(piece, text + at, n);
		r->code = gq_json_stream_feed(s, piece, n, &r->err);
		at += n;
	}
	if (!r->code)
		r->code = gq_json_stream_end(s, &r->err);
	if (!r->code && r->shape == GQ_JSON_LIST) {
		const struct gq_json_list_info *info = gq_json_stream_list_info(s);
		gq_buf_printf(&r->items, "list kind=%s rv=%s continue=%s code=%ld reason=%s\n",
			      info->kind, info->resource_version, info->continue_token, info->code,
			      info->reason);
	}
	return r->code;
}

/* All at once. */
static inline int json_read_whole(struct json_read *r, const char *text)
{
	return json_read(r, text, strlen(text), (const size_t[]){SIZE_MAX}, 1);
}

static inline void json_read_done(struct json_read *r)
{
	gq_buf_done(&r->items);
}
#define JSON_READ_CLEANUP GQ_CLEANUP(json_read_done)

#endif
