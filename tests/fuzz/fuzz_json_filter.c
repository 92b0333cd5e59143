/* Any bytes, in each shape, through a stream: whole and cut they give the same; what comes out is
 * sound, and all of it stays when it is pruned again; json-c reads the copy as it reads the input.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/json_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct gq_json_keep a_keep[] = {{"b", NULL}, {"a", a_keep}, {"name", NULL}, {0}};
static const struct gq_json_keep only_keep[] = {
    GQ_JSON_KEEP_ONLY("a", "b"), {"b", a_keep}, {"only", only_keep}, {0}};
static const struct gq_json_keep keep[] = {
    {"a", a_keep}, {"only", only_keep}, {"metadata", a_keep}, {"spec", NULL}, {"", NULL}, {0}};

struct read {
	const struct gq_json_keep *keep;
	struct gq_buf items;
	int code;
	struct gq_err err;
};

static void check(int holds)
{
	if (!holds)
		abort();
}

static struct json_object *parse(const char *text, size_t len)
{
	struct json_tokener *tokener = json_tokener_new_ex(GQ_JSON_DEPTH_MAX + 1);
	struct json_object *object = NULL;

	if (tokener) {
		json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
		object = json_tokener_parse_ex(tokener, text, (int)len);
		json_tokener_free(tokener);
	}
	return object;
}

static int on_item(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct read *r = arg;
	struct gq_buf again GQ_BUF_CLEANUP = GQ_BUF_INIT(8u << 20);

	check(item->json[0] == '{' && item->json[item->len] == '\0');
	check(gq_json_prune(item->json, item->len, r->keep, &again, err) == 0);
	check(again.len == item->len && memcmp(again.data, item->json, item->len) == 0);
	struct json_object *object = parse(item->json, item->len);
	check(object != NULL);
	json_object_put(object);
	gq_buf_printf(&r->items, "%s %s %ld %s ", item->type ? item->type : "",
		      item->resource_version, item->code, item->reason);
	return gq_buf_append(&r->items, item->json, item->len);
}

static void read_cut(struct read *r, enum gq_json_shape shape, const char *text, size_t len,
		     size_t piece)
{
	struct gq_json_stream_options options = {shape, r->keep, 4096, 3000, on_item, r};
	struct gq_json_stream *s GQ_CLEANUP(gq_cleanup_json_stream) = gq_json_stream_new(&options);

	if (!s)
		return;
	for (size_t at = 0; at < len && !r->code; at += piece)
		r->code =
		    gq_json_stream_feed(s, text + at, len - at < piece ? len - at : piece, &r->err);
	if (!r->code)
		r->code = gq_json_stream_end(s, &r->err);
	if (!r->code && shape == GQ_JSON_LIST) {
		const struct gq_json_list_info *info = gq_json_stream_list_info(s);
		gq_buf_printf(&r->items, "%s %s %s %ld %s", info->kind, info->resource_version,
			      info->continue_token, info->code, info->reason);
	}
}

/* The whole document, kept, means what it meant. */
static void compare(const char *text, size_t len)
{
	struct gq_buf copy GQ_BUF_CLEANUP = GQ_BUF_INIT(8u << 20);

	if (gq_json_prune(text, len, NULL, &copy, NULL))
		return;
	struct json_object *before = parse(text, len);
	struct json_object *after = parse(copy.data, copy.len);
	check(before && after && json_object_equal(before, after));
	json_object_put(before);
	json_object_put(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	static const struct gq_json_keep *const keeps[] = {keep, NULL};

	if (size == 0 || size > 1u << 20)
		return 0;
	for (int shape = GQ_JSON_DOCUMENT; shape <= GQ_JSON_LIST; shape++) {
		for (int k = 0; k < 2; k++) {
			struct read whole = {.keep = keeps[k], .items = GQ_BUF_INIT(8u << 20)};
			struct read cut = whole;
			size_t piece = 1 + data[size / 2] % 7;
			read_cut(&whole, (enum gq_json_shape)shape, text, size, size);
			read_cut(&cut, (enum gq_json_shape)shape, text, size, piece);
			check(whole.code == cut.code && strcmp(whole.err.msg, cut.err.msg) == 0);
			check(whole.items.len == cut.items.len);
			check(!whole.items.len ||
			      memcmp(whole.items.data, cut.items.data, cut.items.len) == 0);
			gq_buf_done(&whole.items);
			gq_buf_done(&cut.items);
		}
	}
	compare(text, size);
	return 0;
}
