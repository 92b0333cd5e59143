/* DRA objects: what a pod that names claims may get. */
#include <stdlib.h>
#include <string.h>

#include "quota/arena.h"
#include "quota/field.h"
#include "quota/object.h"

/* deviceClassName of the request itself is the form of v1beta1; resourceClassName that of v1alpha2,
 * whose classes say nothing that can be judged. */
static const struct gq_json_keep keep_class_name[] = {{"deviceClassName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_request[] = {{"deviceClassName", NULL},
						   {"exactly", keep_class_name},
						   {"firstAvailable", keep_class_name},
						   GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_devices[] = {{"requests", keep_request}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_claim_spec[] = {
    {"devices", keep_devices}, {"resourceClassName", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_template_spec[] = {{"spec", keep_claim_spec},
							 GQ_JSON_KEEP_END};
const struct gq_json_keep gq_claim_keep[] = {{"spec", keep_claim_spec}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_claim_template_keep[] = {{"spec", keep_template_spec},
						      GQ_JSON_KEEP_END};

static const struct gq_json_keep keep_name[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_cel[] = {{"expression", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_selector[] = {{"cel", keep_cel}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_class_spec[] = {
    {"selectors", keep_selector}, {"extendedResourceName", NULL}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_device_class_keep[] = {
    {"metadata", keep_name}, {"spec", keep_class_spec}, GQ_JSON_KEEP_END};

/* Classes of one claim, while they are read: a round that counts, one that fills. */
struct classes {
	struct gq_arena *arena;
	const char **names; /* NULL: counting */
	size_t n;
};

/* form: an object that must name a class. */
static int read_class(const struct gq_field *form, struct classes *classes, struct gq_err *err)
{
	const char *name;
	int code = gq_field_peek(form, "deviceClassName", &name, err);

	if (code)
		return code;
	if (!*name)
		return gq_field_fail(form, "deviceClassName", GQ_EINVALID, err, "must be given");
	if (classes->names)
		code = GQ_TAKE(err, classes->names[classes->n],
			       gq_arena_text(classes->arena, name, strlen(name)));
	classes->n++;
	return code;
}

static int read_request(const struct gq_field *request, struct classes *classes, struct gq_err *err)
{
	struct gq_field exactly, list, item;
	size_t n;
	size_t before = classes->n;
	int code = gq_field_object(request, "exactly", &exactly, err);

	if (!code && exactly.value)
		code = read_class(&exactly, classes, err);
	if (!code)
		code = gq_field_list(request, "firstAvailable", GQ_FIELD_ITEMS_MAX, &list, &n, err);
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, err);
		if (!code)
			code = read_class(&item, classes, err);
	}
	if (!code && gq_field_has(request, "deviceClassName"))
		code = read_class(request, classes, err);
	if (!code && classes->n == before)
		return gq_field_fail(request, NULL, GQ_EINVALID, err,
				     "asks for devices in a form that is not known");
	return code;
}

static int read_requests(const struct gq_field *spec, struct classes *classes, struct gq_err *err)
{
	struct gq_field devices, list, item;
	size_t n;
	int code = gq_field_object(spec, "devices", &devices, err);

	if (!code)
		code = gq_field_list(&devices, "requests", GQ_FIELD_ITEMS_MAX, &list, &n, err);
	if (!code && n == 0)
		return gq_field_fail(spec, NULL, GQ_EINVALID, err,
				     "asks for devices in a form that is not known");
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, err);
		if (!code)
			code = read_request(&item, classes, err);
	}
	return code;
}

static int build_claim(void *arg, struct gq_arena *arena, void **ret_object, struct gq_err *err)
{
	struct gq_field root = {.value = arg}, outer, inner;
	struct classes classes = {.arena = arena};
	struct gq_claim *claim;
	int code = GQ_TAKE(err, claim, GQ_ARENA_ARRAY(arena, struct gq_claim, 1));

	if (!code)
		code = gq_field_object(&root, "spec", &outer, err);
	if (!code)
		code = gq_field_object(&outer, "spec", &inner, err);
	if (code)
		return code;
	const struct gq_field *spec = inner.value ? &inner : &outer;
	code = read_requests(spec, &classes, err);
	if (!code)
		code = GQ_TAKE(err, classes.names, GQ_ARENA_ARRAY(arena, const char *, classes.n));
	classes.n = 0;
	if (!code)
		code = read_requests(spec, &classes, err);
	if (code)
		return code;
	claim->device_classes = classes.names;
	claim->n_device_classes = classes.n;
	*ret_object = claim;
	return 0;
}

int gq_claim_decode(const char *json, size_t len, struct gq_claim **ret_claim, struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	void *object;
	int code = gq_field_parse(json, len, &root, err);

	if (!code)
		code = gq_arena_build(build_claim, root, &object, err);
	if (code)
		return code;
	*ret_claim = object;
	return 0;
}

void gq_claim_free(struct gq_claim *claim)
{
	gq_counted_unref(claim);
}

/* A scanner for the little of CEL that proves something. Whatever it does not know makes it say
 * so, and then nothing is proven. */
enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_STRING, TOKEN_MARK, TOKEN_UNKNOWN };

struct token {
	enum token_kind kind;
	const char *text; /* of a string: without its quotes */
	size_t len;
};

static bool is_word_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_';
}

/* Strings with escapes, triple quotes, prefixes (r"…", b"…") and comments are unknown: the word in
 * front of a prefixed string touches it. */
static struct token next_token(const char **at)
{
	static const char *const pairs[] = {"&&", "||", "==", "!=", "<=", ">="};
	const char *p = *at + strspn(*at, " \t\r\n");
	struct token token = {TOKEN_UNKNOWN, p, 1};

	if (!*p) {
		token.kind = TOKEN_END;
		token.len = 0;
	} else if (is_word_char(*p)) {
		token.kind = TOKEN_WORD;
		while (is_word_char(p[token.len]))
			token.len++;
		if (p[token.len] == '"' || p[token.len] == '\'')
			token.kind = TOKEN_UNKNOWN;
	} else if (*p == '"' || *p == '\'') {
		size_t len = strcspn(p + 1, (const char[]){*p, '\\', '\n', '\r', '\0'});
		bool closed = p[1 + len] == *p;
		bool triple = closed && len == 0 && p[2] == *p;
		if (closed && !triple)
			token.kind = TOKEN_STRING;
		token.text = p + 1;
		token.len = len;
		*at = p + 2 + len;
		if (token.kind == TOKEN_STRING)
			return token;
	} else if (strchr("()[]{}.,!<>+-*/%?:", *p) && !(p[0] == '/' && p[1] == '/')) {
		token.kind = TOKEN_MARK;
	}
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		if (strncmp(p, pairs[i], 2) == 0) {
			token.kind = TOKEN_MARK;
			token.len = 2;
		}
	}
	*at = p + token.len;
	return token;
}

static bool is_text(const struct token *token, enum token_kind kind, const char *text)
{
	return token->kind == kind && token->len == strlen(text) &&
	       memcmp(token->text, text, token->len) == 0;
}

static bool is_harmless_driver(const struct token *name)
{
	char driver[256]; /* a DNS name: longer ones can't be */

	if (name->kind != TOKEN_STRING || name->len == 0 || name->len >= sizeof driver)
		return false;
	memcpy(driver, name->text, name->len);
	driver[name->len] = '\0';
	return !gq_gpu_device_name(driver);
}

/* What one conjunct says: device.driver == "X", "X" == device.driver, device.driver in ["X", …]. */
enum pin { PIN_NONE, PIN_HARMLESS, PIN_GPU };

static bool is_driver(const struct token *t)
{
	return is_text(&t[0], TOKEN_WORD, "device") && is_text(&t[1], TOKEN_MARK, ".") &&
	       is_text(&t[2], TOKEN_WORD, "driver");
}

static enum pin read_pin(const struct token *t, size_t n)
{
	if (n == 5 && is_driver(t) && is_text(&t[3], TOKEN_MARK, "==") && t[4].kind == TOKEN_STRING)
		return is_harmless_driver(&t[4]) ? PIN_HARMLESS : PIN_GPU;
	if (n == 5 && is_driver(t + 2) && is_text(&t[1], TOKEN_MARK, "==") &&
	    t[0].kind == TOKEN_STRING)
		return is_harmless_driver(&t[0]) ? PIN_HARMLESS : PIN_GPU;
	if (n < 7 || !is_driver(t) || !is_text(&t[3], TOKEN_WORD, "in") ||
	    !is_text(&t[4], TOKEN_MARK, "[") || !is_text(&t[n - 1], TOKEN_MARK, "]"))
		return PIN_NONE;
	enum pin pin = PIN_HARMLESS;
	for (size_t i = 5; i < n - 1; i++) {
		bool comma = (i - 5) % 2 == 1;
		if (comma ? !is_text(&t[i], TOKEN_MARK, ",") : t[i].kind != TOKEN_STRING)
			return PIN_NONE;
		if (!comma && !is_harmless_driver(&t[i]))
			pin = PIN_GPU;
	}
	return pin;
}

/* Whether expression is true only for devices of drivers that are no GPU's: a conjunction, one of
 * whose terms pins the driver. Anything that binds looser than && makes it doubtful. */
static bool is_harmless_expression(const char *expression)
{
	struct token conjunct[64]; /* longer ones pin nothing */
	size_t n = 0;
	int depth = 0;
	bool harmless = false;

	for (;;) {
		struct token token = next_token(&expression);
		if (token.kind == TOKEN_UNKNOWN)
			return false;
		bool mark = token.kind == TOKEN_MARK;
		if (mark && strchr("([{", token.text[0]))
			depth++;
		if (mark && strchr(")]}", token.text[0]) && --depth < 0)
			return false;
		bool top = depth == 0;
		if (top && (is_text(&token, TOKEN_MARK, "||") || is_text(&token, TOKEN_MARK, "?")))
			return false;
		if (token.kind == TOKEN_END || (top && is_text(&token, TOKEN_MARK, "&&"))) {
			enum pin pin = n <= sizeof conjunct / sizeof *conjunct
					   ? read_pin(conjunct, n)
					   : PIN_NONE;
			if (pin == PIN_GPU)
				return false;
			harmless |= pin == PIN_HARMLESS;
			n = 0;
			if (token.kind == TOKEN_END)
				return harmless && depth == 0;
			continue;
		}
		if (n < sizeof conjunct / sizeof *conjunct)
			conjunct[n] = token;
		n++;
	}
}

int gq_device_class_decode(const char *json, size_t len, bool *ret_harmless, struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_field top = {0}, meta, spec, list, item, cel;
	const char *name, *resource, *expression;
	size_t n;
	bool pinned = false;
	int code = gq_field_parse(json, len, &root, err);

	top.value = root;
	if (!code)
		code = gq_field_object(&top, "metadata", &meta, err);
	if (!code)
		code = gq_field_peek(&meta, "name", &name, err);
	if (!code)
		code = gq_field_object(&top, "spec", &spec, err);
	if (!code)
		code = gq_field_peek(&spec, "extendedResourceName", &resource, err);
	if (!code)
		code = gq_field_list(&spec, "selectors", GQ_FIELD_ITEMS_MAX, &list, &n, err);
	for (size_t i = 0; !code && i < n; i++) {
		code = gq_field_item(&list, i, &item, err);
		if (!code)
			code = gq_field_object(&item, "cel", &cel, err);
		if (!code)
			code = gq_field_peek(&cel, "expression", &expression, err);
		if (!code && is_harmless_expression(expression))
			pinned = true;
	}
	if (code)
		return code;
	*ret_harmless = pinned && !gq_gpu_device_name(name) &&
			gq_gpu_resource_meaning(resource, NULL) == GQ_GPU_NONE;
	return 0;
}
