#include "quota/policy_yaml.h"

#include <libfyaml.h>
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "base/yaml_guard.h"

/* libfyaml is used for its events only, not for its documents: nesting, aliases and duplicate keys
 * are then judged here as they come, with positions, and nothing of it recurses. */

struct frame {
	struct gq_yaml_node *node;
	struct gq_yaml_node *last;
	struct gq_yaml_node *key; /* MAP: the key that waits for its value */
	bool key_dropped;         /* MAP: a key came that is none; its value is to be dropped */
};

struct reader {
	const char *bytes;
	size_t len;
	struct gq_pool *pool;
	struct gq_policy_report *report;
	struct gq_yaml_node *root;
	struct frame stack[GQ_YAML_DEPTH_MAX];
	size_t depth;
	size_t n_nodes;
	struct gq_yaml_place seen; /* moves forward only: the end of the last token */
	char output[120];          /* what libfyaml would have printed first; or "" */
	bool in_document;
	bool done; /* nothing more is read */
	bool lost; /* the tree is of no use */
};

static void walk_to(struct reader *r, size_t offset)
{
	while (r->seen.offset < offset && r->seen.offset < r->len) {
		size_t at = r->seen.offset;
		size_t width = gq_utf8_width(r->bytes + at, r->len - at);
		if (r->bytes[at] == '\n') {
			r->seen.line++;
			r->seen.column = 1;
		} else {
			r->seen.column++;
		}
		r->seen.offset += width ? width : 1;
	}
}

static void walk_over(struct reader *r, struct fy_token *token)
{
	const struct fy_mark *end = token ? fy_token_end_mark(token) : NULL;

	if (end)
		walk_to(r, end->input_pos);
}

/* Reports what libfyaml must not be given. */
static bool is_clean(struct reader *r)
{
	struct gq_policy_report *report = r->report;
	struct gq_yaml_place at = {0};
	enum gq_yaml_fault fault = gq_yaml_guard(r->bytes, r->len, &at);
	unsigned byte = fault ? (unsigned char)r->bytes[at.offset] : 0;

	switch (fault) {
	case GQ_YAML_FAULT_NONE:
		return true;
	case GQ_YAML_FAULT_NOT_UTF8:
		gq_policy_report_add(report, at.line, at.column, "save the file as UTF-8",
				     "not UTF-8: byte 0x%02x", byte);
		return false;
	case GQ_YAML_FAULT_CONTROL:
		gq_policy_report_add(report, at.line, at.column, "remove it",
				     "control character 0x%02x", byte);
		return false;
	case GQ_YAML_FAULT_DIRECTIVE:
		gq_policy_report_add(report, at.line, at.column, "remove them",
				     "directives (%%) are not supported in a policy");
		return false;
	case GQ_YAML_FAULT_EMPTY_LINES:
		gq_policy_report_add(report, at.line, at.column, "remove them",
				     "too many empty lines");
		return false;
	case GQ_YAML_FAULT_KEY_AND_TAB:
		gq_policy_report_add(
		    report, at.line, at.column, "write spaces in place of tabs",
		    "a \"?\" before white space and a tab further on could be read as an explicit "
		    "key, which is not supported in a policy");
		return false;
	}
	return false;
}

static bool one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(text, *words) == 0)
			return true;
	return false;
}

static bool is_number(const char *text)
{
	static const char *const odd[] = {".inf",  ".Inf",  ".INF",  "-.inf", "-.Inf",
					  "-.INF", "+.inf", "+.Inf", "+.INF", ".nan",
					  ".NaN",  ".NAN",  NULL};
	const char *p = text + (*text == '-' || *text == '+');

	if (one_of(text, odd))
		return true;
	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'o'))
		return p[2] &&
		       p[2 + strspn(p + 2, p[1] == 'x' ? "0123456789abcdefABCDEF" : "01234567")] ==
			   '\0';
	size_t whole = strspn(p, "0123456789");
	p += whole;
	size_t part = 0;
	if (*p == '.') {
		part = strspn(p + 1, "0123456789");
		p += 1 + part;
	}
	if (!whole && !part)
		return false;
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '-' || p[1] == '+');
		size_t exponent = strspn(p, "0123456789");
		if (!exponent)
			return false;
		p += exponent;
	}
	return *p == '\0';
}

/* Source: YAML 1.2.2, section 10.3.2, the core schema. */
static enum gq_yaml_scalar classify(const char *text)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const booleans[] = {"true",  "True",  "TRUE", "false",
					       "False", "FALSE", NULL};

	if (one_of(text, nulls))
		return GQ_YAML_NULL;
	if (one_of(text, booleans))
		return GQ_YAML_BOOLEAN;
	return is_number(text) ? GQ_YAML_NUMBER : GQ_YAML_TEXT;
}

static struct gq_yaml_node *new_node(struct reader *r, enum gq_yaml_kind kind,
				     struct fy_token *token)
{
	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
	struct gq_yaml_node *node = gq_pool_alloc(r->pool, 1, sizeof *node);

	if (!node)
		return NULL;
	node->kind = kind;
	if (mark) {
		node->line = (unsigned)mark->line + 1;
		node->column = (unsigned)mark->column + 1;
	}
	if (++r->n_nodes > GQ_YAML_NODE_MAX) {
		gq_policy_report_add(r->report, node->line, node->column, "write less",
				     "more than %d values in one policy", GQ_YAML_NODE_MAX);
		r->done = r->lost = true;
	}
	return node;
}

/* An empty value has no token. In a map it stands where its key does; in a list at its dash, which
 * is the next one behind the last token. */
static void place_empty(struct reader *r, struct gq_yaml_node *node)
{
	struct frame *frame = r->depth ? &r->stack[r->depth - 1] : NULL;

	if (frame && frame->key) {
		node->line = frame->key->line;
		node->column = frame->key->column;
		return;
	}
	bool comment = false;
	while (r->seen.offset < r->len) {
		char c = r->bytes[r->seen.offset];
		if (c == '\n')
			comment = false;
		else if (c == '#')
			comment = true;
		else if (c == '-' && !comment)
			break;
		walk_to(r, r->seen.offset + 1);
	}
	node->line = r->seen.line;
	node->column = r->seen.column;
	walk_to(r, r->seen.offset + 1);
}

static void add_node(struct reader *r, struct gq_yaml_node *node)
{
	if (!r->depth) {
		r->root = node;
		return;
	}
	struct frame *frame = &r->stack[r->depth - 1];
	struct gq_yaml_node *parent = frame->node;
	if (parent->kind == GQ_YAML_MAP) {
		if (frame->key_dropped) {
			frame->key_dropped = false;
			return;
		}
		if (!frame->key) {
			if (node->kind == GQ_YAML_SCALAR) {
				frame->key = node;
				return;
			}
			if (node->kind != GQ_YAML_BROKEN)
				gq_policy_report_add(r->report, node->line, node->column,
						     "write a word", "a key that is no text");
			frame->key_dropped = true;
			return;
		}
		node->key = GQ_STEAL(frame->key);
	}
	if (frame->last)
		frame->last->next = node;
	else
		parent->first = node;
	frame->last = node;
	parent->n++;
}

/* Reports and takes out each entry whose key stood before. */
static int drop_duplicates(struct reader *r, struct gq_yaml_node *map)
{
	struct gq_map *GQ_CLEANUP(gq_cleanup_map) keys = NULL;

	if (map->n < 2)
		return 0;
	keys = gq_map_new();
	if (!keys)
		return GQ_ENOMEM;
	struct gq_yaml_node *last = NULL;
	for (struct gq_yaml_node *node = map->first; node; node = node->next) {
		const struct gq_yaml_node *key = node->key;
		const struct gq_yaml_node *first = gq_map_get(keys, key->text, key->len);
		if (first) {
			gq_policy_report_add(
			    r->report, key->line, key->column, "remove one of the two",
			    "duplicate key %s, which stands in line %u already",
			    gq_policy_quote(key->text, key->len).text, first->line);
			last->next = node->next;
			map->n--;
			continue;
		}
		/* the map hands the pointer back as it got it, and only reads are made of it */
		if (gq_map_put(keys, key->text, key->len, (void *)(uintptr_t)key, NULL))
			return GQ_ENOMEM;
		last = node;
	}
	return 0;
}

static void refuse_extras(struct reader *r, struct fy_token *anchor, struct fy_token *tag)
{
	const struct fy_mark *mark = anchor ? fy_token_start_mark(anchor) : NULL;

	if (mark)
		gq_policy_report_add(r->report, (unsigned)mark->line + 1, (unsigned)mark->column,
				     "remove it, and repeat the value where it is needed",
				     "anchors (&) are not supported in a policy");
	mark = tag ? fy_token_start_mark(tag) : NULL;
	if (mark)
		gq_policy_report_add(r->report, (unsigned)mark->line + 1,
				     (unsigned)mark->column + 1, "remove it; for text use quotes",
				     "tags (!) are not supported in a policy");
}

static bool is_printable(const char *text, size_t len)
{
	for (size_t i = 0, width; i < len; i += width) {
		width = gq_utf8_width(text + i, len - i);
		if (!width || (unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	}
	return true;
}

/* fy_token_get_text() of libfyaml 0.7.12 gives "" when memory is out, and cuts (and leaks) a quoted
 * text whose length it guessed wrong; the iterator does neither. */
static int read_text(struct fy_token *token, struct gq_buf *out)
{
	const struct fy_iter_chunk *chunk = NULL;
	int failed = 0;

	gq_buf_puts(out, "");
	if (!token)
		return out->code;
	struct fy_token_iter *iter = fy_token_iter_create(token);
	if (!iter)
		return GQ_ENOMEM;
	while ((chunk = fy_token_iter_chunk_next(iter, chunk, &failed)))
		gq_buf_append(out, chunk->str, chunk->len);
	fy_token_iter_destroy(iter);
	return failed ? GQ_ENOMEM : out->code;
}

static int on_scalar(struct reader *r, struct fy_token *token)
{
	struct gq_yaml_node *node = new_node(r, GQ_YAML_SCALAR, token);
	enum fy_scalar_style style = token ? fy_token_scalar_style(token) : FYSS_PLAIN;
	struct gq_buf GQ_BUF_CLEANUP text = GQ_BUF_INIT(r->len * 4);

	if (!node || read_text(token, &text))
		return GQ_ENOMEM;
	if (!node->line)
		place_empty(r, node);
	/* a quoted scalar's mark is behind its quote */
	if ((style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && node->column > 1)
		node->column--;
	node->len = text.len;
	if (style == FYSS_LITERAL || style == FYSS_FOLDED)
		while (node->len && text.data[node->len - 1] == '\n')
			node->len--;
	node->text = gq_pool_copy(r->pool, text.data, node->len);
	if (!node->text)
		return GQ_ENOMEM;
	if (!is_printable(node->text, node->len)) {
		gq_policy_report_add(r->report, node->line, node->column,
				     "write it on one line and without such characters",
				     "text with a line break, a tab or a control character");
		node->kind = GQ_YAML_BROKEN;
	}
	node->scalar = style == FYSS_PLAIN ? classify(node->text) : GQ_YAML_TEXT;
	add_node(r, node);
	return 0;
}

static int on_alias(struct reader *r, struct fy_token *token)
{
	struct gq_yaml_node *node = new_node(r, GQ_YAML_BROKEN, token);

	if (!node)
		return GQ_ENOMEM;
	if (node->column > 1)
		node->column--; /* the mark is behind the star */
	gq_policy_report_add(r->report, node->line, node->column,
			     "repeat the value; the class of every model is \"*\", with quotes",
			     "aliases (*) are not supported in a policy");
	add_node(r, node);
	return 0;
}

static int on_open(struct reader *r, enum gq_yaml_kind kind, struct fy_token *token)
{
	struct gq_yaml_node *node = new_node(r, kind, token);

	if (!node)
		return GQ_ENOMEM;
	if (r->depth == GQ_YAML_DEPTH_MAX) {
		gq_policy_report_add(r->report, node->line, node->column, "a policy needs seven",
				     "nested deeper than %d levels", GQ_YAML_DEPTH_MAX);
		r->done = r->lost = true;
		return 0;
	}
	add_node(r, node);
	r->stack[r->depth++] = (struct frame){.node = node};
	return 0;
}

static int on_close(struct reader *r)
{
	struct gq_yaml_node *node = r->stack[--r->depth].node;

	return node->kind == GQ_YAML_MAP ? drop_duplicates(r, node) : 0;
}

static void on_document(struct reader *r, const struct fy_event *event)
{
	struct fy_token *token = event->document_start.document_start;
	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

	if (!r->in_document) {
		r->in_document = true;
		return;
	}
	gq_policy_report_add(r->report, mark ? (unsigned)mark->line + 1 : r->seen.line,
			     mark ? (unsigned)mark->column + 1 : r->seen.column,
			     "put everything into one document",
			     "a second YAML document in one policy");
	r->done = true;
}

static int on_event(struct reader *r, struct fy_event *event)
{
	switch (event->type) {
	case FYET_DOCUMENT_START:
		on_document(r, event);
		return 0;
	case FYET_SCALAR:
		refuse_extras(r, event->scalar.anchor, event->scalar.tag);
		if (on_scalar(r, event->scalar.value))
			return GQ_ENOMEM;
		walk_over(r, event->scalar.value);
		return 0;
	case FYET_ALIAS:
		walk_over(r, event->alias.anchor);
		return on_alias(r, event->alias.anchor);
	case FYET_SEQUENCE_START:
		refuse_extras(r, event->sequence_start.anchor, event->sequence_start.tag);
		return on_open(r, GQ_YAML_LIST, event->sequence_start.sequence_start);
	case FYET_MAPPING_START:
		refuse_extras(r, event->mapping_start.anchor, event->mapping_start.tag);
		return on_open(r, GQ_YAML_MAP, event->mapping_start.mapping_start);
	case FYET_SEQUENCE_END:
		walk_over(r, event->sequence_end.sequence_end);
		return on_close(r);
	case FYET_MAPPING_END:
		walk_over(r, event->mapping_end.mapping_end);
		return on_close(r);
	default:
		return 0;
	}
}

/* What to do about the messages of libfyaml that people meet. */
static const char *advice(const char *message)
{
	static const struct {
		const char *part;
		const char *advice;
	} known[] = {
	    {"alias", "write the class of every model as \"*\", with quotes"},
	    {"tab", "indent with spaces"},
	    {"without closing quote", "close the quote"},
	    {"bracket", "close each [ with a ]"},
	    {"flow mapping", "close each { with a }, put a comma between entries"},
	    {"trailing content", "put the whole value between the quotes"},
	    {"escape", "use single quotes, or write \\\\ for a backslash"},
	    {"cannot start with", "put the value in quotes"},
	    {"mapping on the same line", "put the value in quotes, or begin a new line"},
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strstr(message, known[i].part))
			return known[i].advice;
	return "compare the indentation and the colons here with the lines around";
}

/* Some of libfyaml's messages belong to no place and are handed here in place of being collected.
 * The first is kept. */
static void on_output(struct fy_diag *diag, void *user, const char *text, size_t len)
{
	struct reader *r = user;

	(void)diag;
	if (r->output[0])
		return;
	if (len >= sizeof r->output)
		len = sizeof r->output - 1;
	for (size_t i = 0; i < len; i++)
		r->output[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : ' ';
	while (len > 0 && r->output[len - 1] == ' ')
		len--;
	r->output[len] = '\0';
}

static int report_syntax(struct reader *r, struct fy_diag *diag)
{
	void *at = NULL;

	r->lost = true;
	for (struct fy_diag_error *e; (e = fy_diag_errors_iterate(diag, &at));) {
		if (e->type != FYET_ERROR || !e->msg)
			continue;
		gq_policy_report_add(r->report, e->line > 0 ? (unsigned)e->line : 1,
				     e->column > 0 ? (unsigned)e->column : 1, advice(e->msg),
				     "not YAML: %.200s", e->msg);
		return 0;
	}
	/* out of memory, it names the call that failed, or says nothing */
	if (!r->output[0] || strstr(r->output, "failed"))
		return GQ_ENOMEM;
	gq_policy_report_add(r->report, r->seen.line, r->seen.column, advice(r->output),
			     "not YAML: %s", r->output);
	return 0;
}

static int read_events(struct reader *r, struct fy_parser *parser, struct fy_diag *diag)
{
	int code = 0;

	while (!code && !r->done) {
		struct fy_event *event = fy_parser_parse(parser);
		if (!event)
			return fy_parser_get_stream_error(parser) ? report_syntax(r, diag) : 0;
		code = on_event(r, event);
		fy_parser_event_free(parser, event);
	}
	return code;
}

static int read_stream(struct reader *r)
{
	struct fy_diag_cfg diag_cfg;

	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL; /* else it writes to stderr */
	diag_cfg.output_fn = on_output;
	diag_cfg.user = r;
	diag_cfg.show_source = diag_cfg.show_position = false;
	diag_cfg.show_type = diag_cfg.show_module = false;
	struct fy_diag *diag = fy_diag_create(&diag_cfg);
	if (!diag)
		return GQ_ENOMEM;
	fy_diag_set_collect_errors(diag, true);
	const struct fy_parse_cfg cfg = {
	    .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE,
	    .diag = diag,
	};
	struct fy_parser *parser = fy_parser_create(&cfg);
	int code = GQ_ENOMEM;
	if (parser && !fy_parser_set_string(parser, r->bytes, r->len))
		code = read_events(r, parser, diag);
	if (parser)
		fy_parser_destroy(parser);
	fy_diag_destroy(diag); /* unref alone keeps the collected errors */
	return code;
}

int gq_yaml_read(const char *bytes, size_t len, struct gq_pool *pool,
		 struct gq_policy_report *report, struct gq_yaml_node **ret_root,
		 struct gq_err *err)
{
	struct reader r = {
	    .bytes = bytes,
	    .len = len,
	    .pool = pool,
	    .report = report,
	    .seen = {0, 1, 1},
	};

	*ret_root = NULL;
	if (!is_clean(&r))
		return 0;
	/* libfyaml reads memory that it never set when a block scalar ends without a line end */
	char *ended = gq_pool_alloc(pool, len + 1, 1);
	if (!ended)
		return gq_fail(err, GQ_ENOMEM, "out of memory while reading the policy");
	if (len)
		memcpy(ended, bytes, len);
	if (len && bytes[len - 1] != '\n')
		ended[len++] = '\n';
	r.bytes = ended;
	r.len = len;
	if (read_stream(&r))
		return gq_fail(err, GQ_ENOMEM, "out of memory while reading the policy");
	if (!r.root && !r.lost)
		gq_policy_report_add(report, 1, 1,
				     "begin with apiVersion: config.gpuquota.io/v1alpha1",
				     "the policy is empty");
	*ret_root = r.lost ? NULL : r.root;
	return 0;
}
