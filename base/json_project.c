#include "base/json_project.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a pruned copy or a record of keys may keep allocated between objects. */
#define IDLE_BYTES_MAX (1u << 20)

static const struct {
	size_t max;  /* bytes, as they stand in the stream */
	bool strict; /* of another type, or longer: malformed; else as if it were absent */
	bool number;
} slot_rules[GQ_SLOTS] = {
    [GQ_SLOT_TYPE] = {64, true, false},       [GQ_SLOT_VERSION] = {256, false, false},
    [GQ_SLOT_KIND] = {256, true, false},      [GQ_SLOT_REASON] = {256, false, false},
    [GQ_SLOT_CODE] = {24, false, true},       [GQ_SLOT_LIST_VERSION] = {256, true, false},
    [GQ_SLOT_CONTINUE] = {8192, true, false},
};

/* The keys that mean something to us, by the role of the object that they stand in. */
static const struct {
	enum gq_json_role in;
	const char *key;
	enum gq_json_slot slot;
	enum gq_json_role role;
} wanted[] = {
    {GQ_AS_EVENT, "type", GQ_SLOT_TYPE, GQ_AS_NONE},
    {GQ_AS_EVENT, "object", GQ_SLOT_NONE, GQ_AS_EVENT_OBJECT},
    {GQ_AS_EVENT_OBJECT, "metadata", GQ_SLOT_NONE, GQ_AS_META},
    {GQ_AS_EVENT_OBJECT, "code", GQ_SLOT_CODE, GQ_AS_NONE},
    {GQ_AS_EVENT_OBJECT, "reason", GQ_SLOT_REASON, GQ_AS_NONE},
    {GQ_AS_OBJECT, "metadata", GQ_SLOT_NONE, GQ_AS_META},
    {GQ_AS_META, "resourceVersion", GQ_SLOT_VERSION, GQ_AS_NONE},
    {GQ_AS_LIST, "kind", GQ_SLOT_KIND, GQ_AS_NONE},
    {GQ_AS_LIST, "metadata", GQ_SLOT_NONE, GQ_AS_LIST_META},
    {GQ_AS_LIST, "items", GQ_SLOT_NONE, GQ_AS_ITEMS},
    {GQ_AS_LIST, "code", GQ_SLOT_CODE, GQ_AS_NONE},
    {GQ_AS_LIST, "reason", GQ_SLOT_REASON, GQ_AS_NONE},
    {GQ_AS_LIST_META, "resourceVersion", GQ_SLOT_LIST_VERSION, GQ_AS_NONE},
    {GQ_AS_LIST_META, "continue", GQ_SLOT_CONTINUE, GQ_AS_NONE},
};

const struct gq_json_keep gq_json_only[] = {GQ_JSON_KEEP_END};

int gq_json_fail(struct gq_json_stream *s, uint64_t offset, int code, const char *what)
{
	return gq_fail(&s->err, code, "line %" PRIu64 " column %" PRIu64 ": %s", s->line,
		       offset - s->line_offset + 1, what);
}

int gq_json_fail_found(struct gq_json_stream *s, const char *p, const char *what)
{
	unsigned char c = (unsigned char)*p;
	char found[160];

	if (c > 0x20 && c < 0x7F && c != '\'' && c != '\\')
		(void)snprintf(found, sizeof found, "%s, found '%c'", what, c);
	else
		(void)snprintf(found, sizeof found, "%s, found byte 0x%02x", what, c);
	return gq_json_fail(s, gq_json_offset(s, p), GQ_EINVALID, found);
}

int gq_json_fail_buf(struct gq_json_stream *s, const struct gq_buf *buf)
{
	if (buf->code == GQ_ENOMEM)
		return gq_fail(&s->err, buf->code, "out of memory");
	return gq_fail(&s->err, buf->code, "line %" PRIu64 ": more than %zu bytes to keep", s->line,
		       buf->max);
}

void gq_json_slot_init(struct gq_json_stream *s, enum gq_json_slot slot)
{
	s->slots[slot] = GQ_BUF_INIT(slot_rules[slot].max);
}

const char *gq_json_slot_text(const struct gq_json_stream *s, enum gq_json_slot slot)
{
	return s->slots[slot].data ? s->slots[slot].data : "";
}

long gq_json_slot_code(const struct gq_json_stream *s)
{
	const char *text = gq_json_slot_text(s, GQ_SLOT_CODE);
	char *end;

	errno = 0;
	long code = strtol(text, &end, 10);
	return errno || *end ? 0 : code;
}

void gq_json_begin(struct gq_json_stream *s, const char *p)
{
	static const enum gq_json_role roles[] = {
	    [GQ_JSON_DOCUMENT] = GQ_AS_OBJECT,
	    [GQ_JSON_WATCH] = GQ_AS_EVENT,
	    [GQ_JSON_LIST] = GQ_AS_LIST,
	};

	for (int i = 1; i < GQ_SLOTS; i++)
		gq_buf_reset(&s->slots[i]);
	gq_buf_reset(&s->out);
	s->have_object = false;
	s->object_offset = gq_json_offset(s, p);
	s->slot = GQ_SLOT_NONE;
	s->value = (struct gq_json_fate){
	    .keep = s->options.keep,
	    .role = roles[s->options.shape],
	    .emit = s->options.shape == GQ_JSON_DOCUMENT,
	};
}

int gq_json_key_text(struct gq_json_stream *s, const char *p, size_t len)
{
	if (gq_buf_append(&s->keys.bytes, p, len))
		return gq_json_fail_buf(s, &s->keys.bytes);
	return 0;
}

static const struct gq_json_keep *find(const struct gq_json_keep *keep, const char *key, size_t len)
{
	/* most keys differ at once, and a call for each row would cost more than the rest */
	for (; keep->key; keep++)
		if (keep->key[0] == key[0] && strncmp(keep->key, key, len) == 0 &&
		    keep->key[len] == '\0')
			return keep;
	return NULL;
}

static int emit_key(struct gq_json_stream *s, const char *key, size_t len)
{
	struct gq_json_frame *frame = &s->frames[s->depth];

	if (frame->some)
		gq_buf_putc(&s->out, ',');
	frame->some = true;
	if (s->lex.had_escape) {
		gq_buf_json_string(&s->out, key, len);
	} else {
		gq_buf_putc(&s->out, '"');
		gq_buf_append(&s->out, key, len);
		gq_buf_putc(&s->out, '"');
	}
	return gq_buf_putc(&s->out, ':') ? gq_json_fail_buf(s, &s->out) : 0;
}

int gq_json_key_end(struct gq_json_stream *s)
{
	struct gq_json_frame *frame = &s->frames[s->depth];
	struct gq_buf *bytes = &s->keys.bytes;
	char *key = bytes->data + s->key_at;
	size_t len = bytes->len - s->key_at;

	if (s->lex.had_escape) {
		len = gq_lex_unescape(key, len);
		bytes->len = s->key_at + len;
		key[len] = '\0';
	}
	int code = gq_json_keys_add(&s->keys, &frame->keys, s->key_at);
	if (code == GQ_EINVALID)
		return gq_json_fail(s, s->key_offset, code, "this key stands twice in its object");
	if (code)
		return gq_fail(&s->err, code, "out of memory");
	key = bytes->data + s->key_at;

	s->value = (struct gq_json_fate){0};
	s->slot = GQ_SLOT_NONE;
	s->only = NULL;
	if (frame->fate.emit) {
		const struct gq_json_keep *keep =
		    frame->fate.keep ? find(frame->fate.keep, key, len) : NULL;
		s->value.emit = keep || !frame->fate.keep;
		s->value.keep = keep ? keep->children : NULL;
		if (keep && keep->children == gq_json_only)
			s->only = keep->key + len + 1;
	}
	for (size_t i = 0; frame->fate.role && i < sizeof wanted / sizeof wanted[0]; i++) {
		if (wanted[i].in == frame->fate.role && wanted[i].key[0] == key[0] &&
		    strcmp(wanted[i].key, key) == 0) {
			s->value.role = wanted[i].role;
			s->slot = wanted[i].slot;
		}
	}
	if (s->value.role == GQ_AS_EVENT_OBJECT)
		s->value.emit = true, s->value.keep = s->options.keep;
	else if (s->value.emit)
		code = emit_key(s, key, len);
	s->only_at = s->out.len;
	if (s->value.emit)
		return code;
	if (!s->value.role && !s->slot) {
		s->skip = true;
		s->skip_depth = s->depth;
	}
	return 0;
}

/* Whether the value at p may stand where its role says; drops a role that it can't play. */
static int check_role(struct gq_json_stream *s, const char *p)
{
	switch (s->value.role) {
	case GQ_AS_OBJECT:
	case GQ_AS_EVENT_OBJECT:
		return *p == '{' ? 0 : gq_json_fail_found(s, p, "expected an object");
	case GQ_AS_ITEMS:
		if (*p == 'n') {
			s->have_object = true;
			s->value.role = GQ_AS_NONE;
			return 0;
		}
		return *p == '[' ? 0 : gq_json_fail_found(s, p, "expected an array of items");
	case GQ_AS_LIST_META:
		if (*p == '{')
			return 0;
		s->value.role = GQ_AS_NONE;
		return *p == 'n' ? 0 : gq_json_fail_found(s, p, "expected the list's metadata");
	case GQ_AS_META:
		if (*p != '{')
			s->value.role = GQ_AS_NONE;
		return 0;
	case GQ_AS_NONE:
	case GQ_AS_EVENT:
	case GQ_AS_LIST:
	default:
		return 0;
	}
}

static int check_slot(struct gq_json_stream *s, const char *p)
{
	bool fits = slot_rules[s->slot].number ? *p == '-' || (*p >= '0' && *p <= '9') : *p == '"';

	if (fits) {
		gq_buf_reset(&s->slots[s->slot]);
		return 0;
	}
	if (slot_rules[s->slot].strict && *p != 'n')
		return gq_json_fail_found(s, p, "expected a string");
	s->slot = GQ_SLOT_NONE;
	return 0;
}

int gq_json_value(struct gq_json_stream *s, const char *p)
{
	struct gq_json_frame *frame = &s->frames[s->depth];
	int code;

	if (s->closer[s->depth] == ']') {
		s->slot = GQ_SLOT_NONE;
		s->value = frame->fate;
		s->value.role = GQ_AS_NONE;
		frame->element_at = s->out.len;
		if (frame->fate.role == GQ_AS_ITEMS)
			s->value = (struct gq_json_fate){s->options.keep, GQ_AS_OBJECT, true};
		else if (frame->some && gq_buf_putc(&s->out, ','))
			return gq_json_fail_buf(s, &s->out);
		frame->some = true;
	}
	if (s->value.role && (code = check_role(s, p)))
		return code;
	if (s->slot && (code = check_slot(s, p)))
		return code;
	if (!s->value.emit && !s->value.role && !s->slot) {
		s->skip = true;
		s->skip_depth = s->depth;
	}
	return 0;
}

int gq_json_text(struct gq_json_stream *s, const char *p, size_t len)
{
	struct gq_buf *slot = &s->slots[s->slot];

	if (s->value.emit && gq_buf_append(&s->out, p, len))
		return gq_json_fail_buf(s, &s->out);
	if (s->slot && gq_buf_append(slot, p, len) &&
	    (slot->code == GQ_ENOMEM || slot_rules[s->slot].strict))
		return gq_json_fail_buf(s, slot);
	return 0;
}

/* Whether the emitted string, len bytes with its quotes, is one of only. */
static bool is_one_of(const char *only, const char *text, size_t len)
{
	for (; *only; only += strlen(only) + 1)
		if (len == strlen(only) + 2 && *text == '"' && memcmp(text + 1, only, len - 2) == 0)
			return true;
	return false;
}

int gq_json_text_end(struct gq_json_stream *s, const char *p)
{
	struct gq_buf *slot = &s->slots[s->slot];

	if (s->only) {
		s->frames[s->depth].wanted =
		    is_one_of(s->only, s->out.data + s->only_at, s->out.len - s->only_at);
	}
	if (!s->slot)
		return 0;
	if (!slot_rules[s->slot].number && s->lex.had_nul) {
		if (slot_rules[s->slot].strict)
			return gq_json_fail(s, gq_json_offset(s, p), GQ_EINVALID,
					    "\\u0000 in a string that names something");
		slot->code = GQ_EINVALID;
	}
	if (slot->code) {
		gq_buf_reset(slot);
	} else if (!slot_rules[s->slot].number) {
		slot->len = gq_lex_unescape(slot->data + 1, slot->len - 2);
		memmove(slot->data, slot->data + 1, slot->len);
		slot->data[slot->len] = '\0';
	}
	s->slot = GQ_SLOT_NONE;
	return 0;
}

int gq_json_open(struct gq_json_stream *s, const char *p)
{
	struct gq_json_frame *frame = &s->frames[s->depth];

	if (s->options.shape == GQ_JSON_LIST && s->value.role == GQ_AS_OBJECT) {
		gq_buf_reset(&s->out);
		gq_buf_reset(&s->slots[GQ_SLOT_VERSION]);
		s->object_offset = gq_json_offset(s, p);
	}
	*frame = (struct gq_json_frame){.fate = s->value};
	gq_json_keys_open(&s->keys, &frame->keys);
	if (frame->fate.emit && gq_buf_putc(&s->out, *p))
		return gq_json_fail_buf(s, &s->out);
	return 0;
}

int gq_json_deliver(struct gq_json_stream *s)
{
	bool watch = s->options.shape == GQ_JSON_WATCH;
	struct gq_json_item item = {
	    .type = watch ? gq_json_slot_text(s, GQ_SLOT_TYPE) : NULL,
	    .json = s->out.data,
	    .len = s->out.len,
	    .resource_version = gq_json_slot_text(s, GQ_SLOT_VERSION),
	    .reason = watch ? gq_json_slot_text(s, GQ_SLOT_REASON) : "",
	    .code = watch ? gq_json_slot_code(s) : 0,
	};
	struct gq_err err = {0};

	int code = s->options.on_item(s->options.arg, &item, &err);
	if (code < 0)
		return gq_fail(&s->err, code, "%s", err.msg);
	if (s->out.cap > IDLE_BYTES_MAX)
		gq_buf_done(&s->out);
	if (watch)
		gq_json_keys_trim(&s->keys, IDLE_BYTES_MAX);
	return 0;
}

/* Takes the object that closes out of the copy again, unless it is wanted in its array. */
static void drop_unwanted(struct gq_json_stream *s)
{
	const struct gq_json_frame *frame = &s->frames[s->depth];
	struct gq_json_frame *array = &s->frames[s->depth - 1];

	if (!frame->fate.keep || frame->fate.keep->children != gq_json_only || frame->wanted ||
	    frame->fate.role || s->closer[s->depth] != '}' || s->closer[s->depth - 1] != ']')
		return;
	s->out.len = array->element_at;
	s->out.data[s->out.len] = '\0';
	array->some = s->out.data[s->out.len - 1] != '[';
}

int gq_json_close(struct gq_json_stream *s, const char *p)
{
	struct gq_json_frame *frame = &s->frames[s->depth];
	enum gq_json_role role = frame->fate.role;

	if (frame->fate.emit && gq_buf_putc(&s->out, *p))
		return gq_json_fail_buf(s, &s->out);
	drop_unwanted(s);
	gq_json_keys_close(&s->keys, &frame->keys);
	if (role == GQ_AS_ITEMS || role == GQ_AS_EVENT_OBJECT)
		s->have_object = true;
	if (role == GQ_AS_OBJECT && s->options.shape == GQ_JSON_LIST) {
		s->object_offset = gq_json_offset(s, p) + 1;
		return gq_json_deliver(s);
	}
	if (role == GQ_AS_EVENT) {
		if (!s->have_object || !s->slots[GQ_SLOT_TYPE].len)
			return gq_json_fail(s, gq_json_offset(s, p), GQ_EINVALID,
					    "an event without type or object");
		return gq_json_deliver(s);
	}
	return 0;
}
