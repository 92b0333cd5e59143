#include "controller/journal_text.h"

#include <json-c/json.h>
#include <string.h>

#include "quota/field.h"

static const struct gq_json_keep metadata_keep[] = {
    {"resourceVersion", NULL}, {"labels", NULL}, {"annotations", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep data_keep[] = {
    {"format", NULL}, {"holder", NULL},       {"instance", NULL}, {"epoch", NULL},
    {"seq", NULL},    {"reservations", NULL}, {"held", NULL},     GQ_JSON_KEEP_END};
const struct gq_json_keep gq_journal_keep[] = {
    {"metadata", metadata_keep}, {"data", data_keep}, GQ_JSON_KEEP_END};

static void print_string(struct gq_buf *out, const char *key, const char *value, size_t len)
{
	gq_buf_puts(out, key);
	gq_buf_json_string(out, value, len);
}

int gq_journal_text_print(struct gq_buf *out, const char *namespace_,
			  const struct gq_journal_text *text)
{
	gq_buf_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
			 "\"" GQ_JOURNAL_NAME "\",\"namespace\":");
	gq_buf_json_string(out, namespace_, strlen(namespace_));
	gq_buf_puts(out, text->others && text->others[0]
			     ? text->others
			     : ",\"labels\":{\"app.kubernetes.io/name\":\"gpuquota\"}");
	if (text->version[0])
		print_string(out, ",\"resourceVersion\":", text->version, strlen(text->version));
	print_string(out,
		     "},\"data\":{\"format\":\"" GQ_JOURNAL_FORMAT "\",\"holder\":", text->holder,
		     strlen(text->holder));
	if (text->instance && text->instance[0])
		print_string(out, ",\"instance\":", text->instance, strlen(text->instance));
	gq_buf_printf(out, ",\"epoch\":\"%llu\",\"seq\":\"%llu\"", (unsigned long long)text->epoch,
		      (unsigned long long)text->seq);
	if (text->held)
		gq_buf_puts(out, ",\"held\":\"true\"");
	print_string(out, ",\"reservations\":", text->lines_len ? text->lines : "",
		     text->lines_len);
	return gq_buf_puts(out, "}}");
}

/* Digits alone. */
static bool parse_number(const char *text, uint64_t *ret_number)
{
	int64_t number = 0;

	if (!text[0])
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, *text - '0', &number))
			return false;
	}
	*ret_number = (uint64_t)number;
	return number <= GQ_JOURNAL_NUMBER_MAX;
}

static int parse_data(const struct gq_field *top, struct gq_journal_text *text, struct gq_err *err)
{
	struct gq_field data;
	const char *format, *epoch, *seq, *held;
	int code = gq_field_object(top, "data", &data, err);

	if (!code)
		code = gq_field_peek(&data, "format", &format, err);
	if (code)
		return code;
	text->empty = !format[0];
	if (text->empty)
		return gq_fail(err, GQ_EINVALID, "it holds no reservations yet");
	if (strcmp(format, GQ_JOURNAL_FORMAT) != 0)
		return gq_fail(err, GQ_EINVALID, "it is of format %.40s, not " GQ_JOURNAL_FORMAT,
			       format);
	if ((code = gq_field_peek(&data, "holder", &text->holder, err)) ||
	    (code = gq_field_peek(&data, "instance", &text->instance, err)) ||
	    (code = gq_field_peek(&data, "epoch", &epoch, err)) ||
	    (code = gq_field_peek(&data, "seq", &seq, err)) ||
	    (code = gq_field_peek(&data, "held", &held, err)) ||
	    (code = gq_field_peek(&data, "reservations", &text->lines, err)))
		return code;
	text->held = held[0] != '\0';
	text->lines_len = strlen(text->lines);
	if (!text->holder[0] || !parse_number(epoch, &text->epoch) ||
	    !parse_number(seq, &text->seq))
		return gq_fail(err, GQ_EINVALID, "its holder, epoch or seq is not one");
	return 0;
}

int gq_journal_text_parse(const char *json, size_t len, struct gq_journal_text *ret_text,
			  struct gq_err *err)
{
	struct gq_field top = {0}, metadata;

	*ret_text =
	    (struct gq_journal_text){.holder = "", .instance = "", .lines = "", .version = ""};
	int code = gq_field_parse(json, len, &ret_text->root, err);
	top.value = ret_text->root;
	if (!code)
		code = gq_field_object(&top, "metadata", &metadata, err);
	if (!code)
		code = gq_field_peek(&metadata, "resourceVersion", &ret_text->version, err);
	if (!code && strlen(ret_text->version) > GQ_JOURNAL_VERSION_MAX_BYTES) {
		ret_text->version = "";
		code = gq_fail(err, GQ_EINVALID, "its resourceVersion is too long");
	}
	if (!code)
		code = parse_data(&top, ret_text, err);
	if (code) {
		ret_text->holder = ret_text->instance = ret_text->lines = "";
		ret_text->lines_len = 0;
		ret_text->epoch = ret_text->seq = 0;
		ret_text->held = false;
	}
	return code == GQ_ETOOBIG ? GQ_EINVALID : code;
}

void gq_journal_text_others(const struct gq_journal_text *text, struct gq_buf *out)
{
	static const char *const keys[] = {"labels", "annotations"};
	struct json_object *metadata = NULL, *value;

	if (!json_object_is_type(text->root, json_type_object) ||
	    !json_object_object_get_ex(text->root, "metadata", &metadata) ||
	    !json_object_is_type(metadata, json_type_object))
		return;
	for (size_t k = 0; k < 2; k++) {
		if (!json_object_object_get_ex(metadata, keys[k], &value) ||
		    !json_object_is_type(value, json_type_object) ||
		    json_object_object_length(value) == 0)
			continue;
		const char *json = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
		if (!json) {
			out->code = GQ_ENOMEM;
			break;
		}
		gq_buf_printf(out, ",\"%s\":", keys[k]);
		gq_buf_puts(out, json);
	}
	if (out->code)
		gq_buf_reset(out);
}

void gq_journal_text_done(struct gq_journal_text *text)
{
	json_object_put(text->root);
	*text = (struct gq_journal_text){.holder = "", .instance = "", .lines = "", .version = ""};
}
