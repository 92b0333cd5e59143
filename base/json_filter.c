#include "base/json_filter.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_project.h"

/* White space; the only place where a line may end. */
static inline const char *skip_blank(struct gq_json_stream *s, const char *p, const char *end)
{
	for (; p < end && (unsigned char)*p <= ' '; p++) {
		if (*p == '\n') {
			s->line++;
			s->line_offset = gq_json_offset(s, p) + 1;
		} else if (*p != ' ' && *p != '\t' && *p != '\r') {
			break;
		}
	}
	return p;
}

/* Each returns false. */
static bool fail_lex(struct gq_json_stream *s, const char *p)
{
	return gq_json_fail_found(s, p, s->lex.why) == 0;
}

static bool fail_grammar(struct gq_json_stream *s, const char *p)
{
	static const char *const expected[] = {
	    [GQ_ST_BETWEEN] = "expected an object",
	    [GQ_ST_END] = "bytes behind the end",
	    [GQ_ST_FIRST_KEY] = "expected a key or '}'",
	    [GQ_ST_KEY] = "expected a key",
	    [GQ_ST_COLON] = "expected ':' behind a key",
	    [GQ_ST_FIRST_VALUE] = "expected a value or ']'",
	    [GQ_ST_VALUE] = "expected a value",
	};
	bool object = s->closer[s->depth] == '}';
	const char *after = object ? "expected ',' or '}'" : "expected ',' or ']'";

	return gq_json_fail_found(s, p, s->state == GQ_ST_AFTER ? after : expected[s->state]) == 0;
}

static bool fail_nul_key(struct gq_json_stream *s, const char *p)
{
	return gq_json_fail(s, gq_json_offset(s, p), GQ_EINVALID, "\\u0000 in a key") == 0;
}

static bool fail_depth(struct gq_json_stream *s, const char *p)
{
	return gq_json_fail(s, gq_json_offset(s, p), GQ_ETOOBIG, "nested too deeply") == 0;
}

/* The grammar, in three parts that follow each other round and round: a key and its colon, a value
 * as far as its first bracket or its end, and what stands behind a value. Each reads on from *at
 * until the part is over (true) or the bytes are, or until somebody else has to go on (false).
 *
 * There are two copies of each. keep: tokens go to the projection. Not keep: nobody looks at them,
 * and false says, too, that the dropped value is over. */
#define GQ_JSON_PART static inline __attribute__((always_inline)) bool

GQ_JSON_PART walk_key(struct gq_json_stream *s, const char **at, const char *end, const bool keep)
{
	enum gq_lex_result lexed;
	const char *p = *at;

	if (s->state == GQ_ST_FIRST_KEY || s->state == GQ_ST_KEY) {
		p = *at = skip_blank(s, p, end);
		if (p == end)
			return false;
		if (*p != '"') {
			if (*p != '}' || s->state != GQ_ST_FIRST_KEY)
				return fail_grammar(s, p);
			s->state = GQ_ST_AFTER;
			return true;
		}
		if (keep) {
			s->key_at = s->keys.bytes.len;
			s->key_offset = gq_json_offset(s, p);
		}
		s->lex.had_escape = s->lex.had_nul = false;
		s->state = GQ_ST_IN_KEY;
		*at = ++p;
	}
	if (s->state == GQ_ST_IN_KEY) {
		lexed = gq_lex_string(&s->lex, &p, end);
		if (lexed == GQ_LEX_BAD)
			return fail_lex(s, p);
		if (keep && gq_json_key_text(s, *at, (size_t)(p - *at) - (lexed == GQ_LEX_DONE)))
			return false;
		*at = p;
		if (lexed == GQ_LEX_MORE)
			return false;
		if (s->lex.had_nul)
			return fail_nul_key(s, p);
		s->state = GQ_ST_COLON;
		if (keep && (gq_json_key_end(s) || s->skip))
			return false;
	}
	p = *at = skip_blank(s, p, end);
	if (p == end)
		return false;
	if (*p != ':')
		return fail_grammar(s, p);
	*at = p + 1;
	s->state = GQ_ST_VALUE;
	return true;
}

GQ_JSON_PART walk_open(struct gq_json_stream *s, const char **at, const bool keep)
{
	const char *p = (*at)++;

	if (s->depth == GQ_JSON_DEPTH_MAX)
		return fail_depth(s, p);
	s->depth++;
	s->closer[s->depth] = *p == '{' ? '}' : ']';
	s->state = *p == '{' ? GQ_ST_FIRST_KEY : GQ_ST_FIRST_VALUE;
	if (!keep)
		return true;
	(void)gq_json_open(s, p);
	return false; /* the cap may count from here */
}

GQ_JSON_PART walk_value(struct gq_json_stream *s, const char **at, const char *end, const bool keep)
{
	enum gq_lex_result lexed;
	const char *p = *at;

	if (s->state == GQ_ST_FIRST_VALUE || s->state == GQ_ST_VALUE) {
		p = *at = skip_blank(s, p, end);
		if (p == end)
			return false;
		if (*p == ']' && s->state == GQ_ST_FIRST_VALUE) {
			s->state = GQ_ST_AFTER;
			return true;
		}
		bool text = *p == '"', container = *p == '{' || *p == '[';
		if (!text && !container && !gq_lex_scalar_start(&s->lex, *p))
			return fail_grammar(s, p);
		if (keep && (gq_json_value(s, p) || s->skip)) {
			s->state = GQ_ST_VALUE;
			return false;
		}
		if (container)
			return walk_open(s, at, keep);
		s->lex.had_escape = s->lex.had_nul = false;
		s->state = text ? GQ_ST_IN_STRING : GQ_ST_IN_SCALAR;
		p += text;
	}
	lexed = s->state == GQ_ST_IN_STRING ? gq_lex_string(&s->lex, &p, end)
					    : gq_lex_scalar(&s->lex, &p, end);
	/* before any complaint, so that a full buffer is met however the bytes were cut */
	if (keep && gq_json_text(s, *at, (size_t)(p - *at)))
		return false;
	if (lexed == GQ_LEX_BAD)
		return fail_lex(s, p);
	*at = p;
	if (lexed == GQ_LEX_MORE || (keep && gq_json_text_end(s, p)))
		return false;
	s->state = GQ_ST_AFTER;
	if (keep || s->depth > s->skip_depth)
		return true;
	return s->skip = false;
}

/* Also at the end of an empty container. */
GQ_JSON_PART walk_after(struct gq_json_stream *s, const char **at, const char *end, const bool keep)
{
	const char *p = *at = skip_blank(s, *at, end);

	if (p == end)
		return false;
	if (*p == ',') {
		s->state = s->closer[s->depth] == '}' ? GQ_ST_KEY : GQ_ST_VALUE;
		*at = p + 1;
		return true;
	}
	if (*p != s->closer[s->depth])
		return fail_grammar(s, p);
	if (keep && gq_json_close(s, p))
		return false;
	*at = p + 1;
	s->depth--;
	if (keep)
		return false; /* the cap may count from here */
	if (s->depth > s->skip_depth)
		return true;
	return s->skip = false;
}

GQ_JSON_PART walk(struct gq_json_stream *s, const char **at, const char *end, const bool keep)
{
	bool on = true;

	while (on) {
		if (s->state <= GQ_ST_COLON)
			on = walk_key(s, at, end, keep);
		else if (s->state <= GQ_ST_IN_SCALAR)
			on = walk_value(s, at, end, keep);
		else
			on = walk_after(s, at, end, keep);
	}
	return s->err.code == 0;
}

static bool walk_kept(struct gq_json_stream *s, const char **at, const char *end)
{
	return walk(s, at, end, true);
}

static bool walk_dropped(struct gq_json_stream *s, const char **at, const char *end)
{
	return walk(s, at, end, false);
}

/* Between and behind documents. */
static bool walk_outside(struct gq_json_stream *s, const char **at, const char *end)
{
	const char *p = *at = skip_blank(s, *at, end);

	if (p == end)
		return true;
	if (s->state == GQ_ST_END || *p != '{')
		return fail_grammar(s, p);
	*at = p + 1;
	gq_json_begin(s, p);
	s->depth = 1;
	s->closer[1] = '}';
	s->state = GQ_ST_FIRST_KEY;
	return gq_json_open(s, p) == 0;
}

static bool run(struct gq_json_stream *s, const char *p, const char *end)
{
	bool fine = true;

	while (fine && p < end) {
		if (s->depth == 0) {
			fine = walk_outside(s, &p, end);
			continue;
		}
		/* the object may have no more than this many bytes from here */
		uint64_t left =
		    s->options.max_raw_bytes - (gq_json_offset(s, p) - s->object_offset);
		const char *stop = (uint64_t)(end - p) > left ? p + left : end;
		if (left == 0)
			return gq_json_fail(s, gq_json_offset(s, p), GQ_ETOOBIG,
					    "too large an object") == 0;
		fine = s->skip ? walk_dropped(s, &p, stop) : walk_kept(s, &p, stop);
		if (s->depth == 0)
			s->state = s->options.shape == GQ_JSON_WATCH ? GQ_ST_BETWEEN : GQ_ST_END;
	}
	return fine;
}

struct gq_json_stream *gq_json_stream_new(const struct gq_json_stream_options *options)
{
	struct gq_json_stream *s = malloc(sizeof *s);

	if (!s)
		return NULL;
	memset(s, 0, offsetof(struct gq_json_stream, frames));
	s->options = *options;
	if (s->options.max_raw_bytes > UINT32_MAX)
		s->options.max_raw_bytes = UINT32_MAX; /* what the records of keys can address */
	s->state = GQ_ST_BETWEEN;
	s->line = 1;
	s->out = GQ_BUF_INIT(options->max_kept_bytes);
	s->keys.bytes = GQ_BUF_INIT(UINT32_MAX);
	for (int i = 1; i < GQ_SLOTS; i++)
		gq_json_slot_init(s, (enum gq_json_slot)i);
	return s;
}

void gq_json_stream_free(struct gq_json_stream *s)
{
	if (!s)
		return;
	for (int i = 1; i < GQ_SLOTS; i++)
		gq_buf_done(&s->slots[i]);
	gq_buf_done(&s->out);
	gq_json_keys_done(&s->keys);
	free(s);
}

int gq_json_stream_feed(struct gq_json_stream *s, const char *bytes, size_t len, struct gq_err *err)
{
	if (!s->err.code && len) {
		s->chunk = bytes;
		(void)run(s, bytes, bytes + len);
		s->offset += len;
		s->chunk = NULL;
	}
	return s->err.code ? gq_fail(err, s->err.code, "%s", s->err.msg) : 0;
}

static int finish(struct gq_json_stream *s)
{
	if (s->depth)
		return gq_json_fail(s, s->offset, GQ_EINVALID, "the input ends too early");
	if (s->options.shape == GQ_JSON_WATCH)
		return 0;
	if (s->state == GQ_ST_BETWEEN)
		return gq_json_fail(s, s->offset, GQ_EINVALID, "the input is empty");
	if (s->options.shape == GQ_JSON_DOCUMENT)
		return gq_json_deliver(s);
	s->info = (struct gq_json_list_info){
	    .kind = gq_json_slot_text(s, GQ_SLOT_KIND),
	    .resource_version = gq_json_slot_text(s, GQ_SLOT_LIST_VERSION),
	    .continue_token = gq_json_slot_text(s, GQ_SLOT_CONTINUE),
	    .reason = gq_json_slot_text(s, GQ_SLOT_REASON),
	    .code = gq_json_slot_code(s),
	};
	if (!s->have_object && strcmp(s->info.kind, "Status") != 0)
		return gq_json_fail(s, s->offset, GQ_EINVALID, "neither a list nor a Status");
	return 0;
}

int gq_json_stream_end(struct gq_json_stream *s, struct gq_err *err)
{
	if (!s->err.code && !s->finished) {
		s->finished = true;
		(void)finish(s);
	}
	return s->err.code ? gq_fail(err, s->err.code, "%s", s->err.msg) : 0;
}

const struct gq_json_list_info *gq_json_stream_list_info(const struct gq_json_stream *s)
{
	return &s->info;
}

static int append_item(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct gq_buf *out = arg;

	if (gq_buf_append(out, item->json, item->len))
		return gq_fail(err, out->code, "the pruned document is too large");
	return 0;
}

int gq_json_prune(const char *bytes, size_t len, const struct gq_json_keep *keep,
		  struct gq_buf *out, struct gq_err *err)
{
	struct gq_json_stream_options options = {
	    .shape = GQ_JSON_DOCUMENT,
	    .keep = keep,
	    .max_raw_bytes = len,
	    .max_kept_bytes = out->max, /* escaped anew, a key can be longer than it was */
	    .on_item = append_item,
	    .arg = out,
	};
	struct gq_json_stream *s GQ_CLEANUP(gq_cleanup_json_stream) = gq_json_stream_new(&options);

	if (!s)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	int code = gq_json_stream_feed(s, bytes, len, err);
	return code ? code : gq_json_stream_end(s, err);
}
