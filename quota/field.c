#include "quota/field.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* The objects that are decoded nest less than this, and json-c recurses when it frees. */
#define DEPTH_MAX 32
#define PATH_BYTES_MAX 512
#define PATH_FIELDS_MAX 16

int gq_field_parse(const char *json, size_t len, struct json_object **ret_root, struct gq_err *err)
{
	if (len > GQ_FIELD_TREE_BYTES_MAX)
		return gq_fail(err, GQ_ETOOBIG, "the object is larger than %u bytes",
			       GQ_FIELD_TREE_BYTES_MAX);
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
	if (!tokener)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *root = json_tokener_parse_ex(tokener, json, (int)len);
	enum json_tokener_error error = json_tokener_get_error(tokener);
	size_t end = json_tokener_get_parse_end(tokener);
	json_tokener_free(tokener);
	/* json-c that could not allocate claims success, has nothing, and stopped half way */
	if (error == json_tokener_success && !root && end < len && !memchr(json, '\0', len))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if (error != json_tokener_success || end != len) {
		json_object_put(root);
		return gq_fail(err, GQ_EINVALID, "not a JSON object: %s",
			       error == json_tokener_success    ? "something follows its end"
			       : error == json_tokener_continue ? "it is cut off"
								: json_tokener_error_desc(error));
	}
	if (!json_object_is_type(root, json_type_object)) {
		json_object_put(root);
		return gq_fail(err, GQ_EINVALID, "not a JSON object");
	}
	*ret_root = root;
	return 0;
}

static void print_path(struct gq_buf *out, const struct gq_field *field, const char *key)
{
	const struct gq_field *way[PATH_FIELDS_MAX];
	size_t n = 0;

	for (; field && field->up && n < PATH_FIELDS_MAX; field = field->up)
		way[n++] = field;
	while (n-- > 0) {
		if (way[n]->key)
			gq_buf_printf(out, "%s%s", out->len ? "." : "", way[n]->key);
		else
			gq_buf_printf(out, "[%zu]", way[n]->index);
	}
	if (key)
		gq_buf_printf(out, "%s%s", out->len ? "." : "", key);
}

int gq_field_fail(const struct gq_field *field, const char *key, int code, struct gq_err *err,
		  const char *fmt, ...)
{
	struct gq_buf path GQ_BUF_CLEANUP = GQ_BUF_INIT(PATH_BYTES_MAX);
	char message[128];
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	if (vsnprintf(message, sizeof message, fmt, ap) < 0)
		message[0] = '\0';
	va_end(ap);
	print_path(&path, field, key);
	return gq_fail(err, code, "%s: %s", path.data ? path.data : "", message);
}

static struct json_object *member(const struct gq_field *up, const char *key)
{
	struct json_object *value = NULL;

	if (up->value)
		(void)json_object_object_get_ex(up->value, key, &value);
	return value;
}

bool gq_field_has(const struct gq_field *up, const char *key)
{
	return member(up, key) != NULL;
}

int gq_field_object(const struct gq_field *up, const char *key, struct gq_field *ret_field,
		    struct gq_err *err)
{
	struct json_object *value = member(up, key);

	if (value && !json_object_is_type(value, json_type_object))
		return gq_field_fail(up, key, GQ_EINVALID, err, "must be an object");
	*ret_field = (struct gq_field){.up = up, .key = key, .value = value};
	return 0;
}

int gq_field_map(const struct gq_field *up, const char *key, size_t max, struct gq_field *ret_field,
		 size_t *ret_n, struct gq_err *err)
{
	struct gq_field map;
	int code = gq_field_object(up, key, &map, err);

	if (code)
		return code;
	size_t n = map.value ? (size_t)json_object_object_length(map.value) : 0;
	if (n > max)
		return gq_field_fail(up, key, GQ_ETOOBIG, err, "has more than %zu entries", max);
	*ret_field = map;
	*ret_n = n;
	return 0;
}

int gq_field_list(const struct gq_field *up, const char *key, size_t max,
		  struct gq_field *ret_field, size_t *ret_n, struct gq_err *err)
{
	struct json_object *value = member(up, key);

	if (value && !json_object_is_type(value, json_type_array))
		return gq_field_fail(up, key, GQ_EINVALID, err, "must be a list");
	size_t n = value ? json_object_array_length(value) : 0;
	if (n > max)
		return gq_field_fail(up, key, GQ_ETOOBIG, err, "has more than %zu items", max);
	*ret_field = (struct gq_field){.up = up, .key = key, .value = value};
	*ret_n = n;
	return 0;
}

int gq_field_item(const struct gq_field *list, size_t i, struct gq_field *ret_field,
		  struct gq_err *err)
{
	struct gq_field item = {
	    .up = list, .index = i, .value = json_object_array_get_idx(list->value, i)};

	if (!json_object_is_type(item.value, json_type_object))
		return gq_field_fail(&item, NULL, GQ_EINVALID, err, "must be an object");
	*ret_field = item;
	return 0;
}

/* value: not NULL. */
static int text_of(const struct gq_field *up, const char *key, struct json_object *value,
		   const char **ret_text, size_t *ret_len, struct gq_err *err)
{
	if (!json_object_is_type(value, json_type_string))
		return gq_field_fail(up, key, GQ_EINVALID, err, "must be a string");
	const char *text = json_object_get_string(value);
	size_t len = (size_t)json_object_get_string_len(value);
	if (!text)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if (strlen(text) != len)
		return gq_field_fail(up, key, GQ_EINVALID, err, "has a NUL character in it");
	*ret_text = text;
	*ret_len = len;
	return 0;
}

int gq_field_peek(const struct gq_field *up, const char *key, const char **ret_text,
		  struct gq_err *err)
{
	struct json_object *value = member(up, key);
	size_t len;

	if (!value) {
		*ret_text = "";
		return 0;
	}
	return text_of(up, key, value, ret_text, &len, err);
}

static int copy_text(const struct gq_field *up, const char *key, struct json_object *value,
		     struct gq_arena *arena, const char **ret_text, struct gq_err *err)
{
	const char *text;
	size_t len;
	int code = text_of(up, key, value, &text, &len, err);

	if (code)
		return code;
	return GQ_TAKE(err, *ret_text, gq_arena_text(arena, text, len));
}

int gq_field_text(const struct gq_field *up, const char *key, struct gq_arena *arena,
		  const char **ret_text, struct gq_err *err)
{
	struct json_object *value = member(up, key);

	if (!value) {
		*ret_text = "";
		return 0;
	}
	return copy_text(up, key, value, arena, ret_text, err);
}

int gq_field_texts(const struct gq_field *up, const char *key, struct gq_arena *arena,
		   const char *const **ret_texts, size_t *ret_n, struct gq_err *err)
{
	struct gq_field list;
	const char **texts;
	size_t n;
	int code = gq_field_list(up, key, GQ_FIELD_ITEMS_MAX, &list, &n, err);

	if (!code)
		code = GQ_TAKE(err, texts, GQ_ARENA_ARRAY(arena, const char *, n));
	if (code)
		return code;
	for (size_t i = 0; i < n; i++) {
		struct gq_field item = {.up = &list, .index = i};
		code = copy_text(&item, NULL, json_object_array_get_idx(list.value, i), arena,
				 &texts[i], err);
		if (code)
			return code;
	}
	*ret_texts = texts;
	*ret_n = n;
	return 0;
}

int gq_field_bool(const struct gq_field *up, const char *key, bool *ret_value, struct gq_err *err)
{
	struct json_object *value = member(up, key);

	if (value && !json_object_is_type(value, json_type_boolean))
		return gq_field_fail(up, key, GQ_EINVALID, err, "must be true or false");
	*ret_value = json_object_get_boolean(value);
	return 0;
}

int gq_field_count(const struct gq_field *up, const char *key, int64_t absent, int64_t *ret_count,
		   struct gq_err *err)
{
	struct json_object *value = member(up, key);
	int64_t count = value ? json_object_get_int64(value) : absent;

	if (value &&
	    (!json_object_is_type(value, json_type_int) || count < 0 || count > GQ_FIELD_COUNT_MAX))
		return gq_field_fail(up, key, GQ_EINVALID, err,
				     "must be a whole number from 0 to %d", GQ_FIELD_COUNT_MAX);
	*ret_count = count;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct gq_label *)a)->key, ((const struct gq_label *)b)->key);
}

int gq_field_labels(const struct gq_field *up, const char *key, struct gq_arena *arena,
		    const struct gq_label **ret_labels, size_t *ret_n, struct gq_err *err)
{
	struct gq_field map;
	struct gq_label *labels;
	size_t n;
	size_t i = 0;
	int code = gq_field_map(up, key, GQ_FIELD_LABELS_MAX, &map, &n, err);

	if (!code)
		code = GQ_TAKE(err, labels, GQ_ARENA_ARRAY(arena, struct gq_label, n));
	if (code)
		return code;
	if (map.value) {
		json_object_object_foreach(map.value, name, value)
		{
			code =
			    GQ_TAKE(err, labels[i].key, gq_arena_text(arena, name, strlen(name)));
			if (!code)
				code = copy_text(&map, name, value, arena, &labels[i].value, err);
			if (code)
				return code;
			i++;
		}
		qsort(labels, n, sizeof *labels, by_key);
	}
	*ret_labels = labels;
	*ret_n = n;
	return 0;
}

int gq_field_quantity(const struct gq_field *map, const char *key, struct json_object *value,
		      const char **ret_text, struct gq_err *err)
{
	size_t len;

	switch (json_object_get_type(value)) {
	case json_type_null:
		*ret_text = "null"; /* which is none: the API server never sends it */
		return 0;
	case json_type_int:
	case json_type_double: /* printed as it was written */
		*ret_text = json_object_get_string(value);
		return *ret_text ? 0 : gq_fail(err, GQ_ENOMEM, "out of memory");
	case json_type_string:
		return text_of(map, key, value, ret_text, &len, err);
	default:
		return gq_field_fail(map, key, GQ_EINVALID, err, "must be a quantity");
	}
}
