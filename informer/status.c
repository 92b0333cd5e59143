#include "informer/status.h"

#include <json-c/json.h>
#include <string.h>

#include "base/json_object.h"
#include "base/utf8.h"

enum { PRUNED_MAX_BYTES = 64 << 10, RETRY_AFTER_MAX_S = 300 };

static const struct gq_json_keep keep_causes[] = {{"reason", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_details[] = {
    {"retryAfterSeconds", NULL}, {"causes", keep_causes}, GQ_JSON_KEEP_END};
const struct gq_json_keep gq_api_status_keep[] = {
    {"kind", NULL},  {"code", NULL}, {"reason", NULL}, {"message", NULL}, {"details", keep_details},
    GQ_JSON_KEEP_END};

static void copy_text(struct json_object *from, const char *key, char *to, size_t size)
{
	struct json_object *value = NULL;

	if (!json_object_object_get_ex(from, key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return;
	const char *text = json_object_get_string(value);
	size_t len = (size_t)json_object_get_string_len(value), n = 0;
	for (size_t width; n < len && (width = gq_utf8_width(text + n, len - n)); n += width)
		if (n + width >= size)
			break;
	memcpy(to, text, n);
	to[n] = '\0';
}

static int64_t get_int(struct json_object *from, const char *key)
{
	struct json_object *value = NULL;

	if (!json_object_object_get_ex(from, key, &value) ||
	    !json_object_is_type(value, json_type_int))
		return 0;
	return json_object_get_int64(value);
}

static bool has_cause(struct json_object *details, const char *wanted)
{
	struct json_object *causes = NULL, *reason = NULL;

	if (!json_object_object_get_ex(details, "causes", &causes) ||
	    !json_object_is_type(causes, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(causes); i++)
		if (json_object_object_get_ex(json_object_array_get_idx(causes, i), "reason",
					      &reason) &&
		    json_object_is_type(reason, json_type_string) &&
		    strcmp(json_object_get_string(reason), wanted) == 0)
			return true;
	return false;
}

bool gq_api_status_parse(const char *json, size_t len, struct gq_api_status *ret)
{
	GQ_BUF_CLEANUP struct gq_buf pruned = GQ_BUF_INIT(PRUNED_MAX_BYTES);
	struct json_object *kind = NULL, *details = NULL;

	*ret = (struct gq_api_status){0};
	if (gq_json_prune(json, len, gq_api_status_keep, &pruned, NULL) || !pruned.data)
		return false;
	GQ_CLEANUP(gq_cleanup_json) struct json_object *root = json_tokener_parse(pruned.data);
	if (!json_object_is_type(root, json_type_object) ||
	    !json_object_object_get_ex(root, "kind", &kind) ||
	    !json_object_is_type(kind, json_type_string) ||
	    strcmp(json_object_get_string(kind), "Status") != 0)
		return false;
	int64_t code = get_int(root, "code");
	ret->code = code >= 100 && code <= 999 ? (long)code : 0;
	copy_text(root, "reason", ret->reason, sizeof ret->reason);
	copy_text(root, "message", ret->message, sizeof ret->message);
	if (json_object_object_get_ex(root, "details", &details) &&
	    json_object_is_type(details, json_type_object)) {
		int64_t retry = get_int(details, "retryAfterSeconds");
		if (retry > 0)
			ret->retry_after_s =
			    retry < RETRY_AFTER_MAX_S ? (int)retry : RETRY_AFTER_MAX_S;
		ret->version_too_large = has_cause(details, "ResourceVersionTooLarge");
	}
	/* older servers name no cause */
	if (ret->code == 504 && strstr(ret->message, "Too large resource version"))
		ret->version_too_large = true;
	return true;
}

int gq_api_status_code(long http_status)
{
	if (http_status >= 200 && http_status < 300)
		return 0;
	switch (http_status) {
	case 401:
	case 403:
		return GQ_EDENIED;
	case 404:
		return GQ_ENOTFOUND;
	case 409:
		return GQ_ECONFLICT;
	case 410:
		return GQ_EGONE;
	case 429:
		return GQ_ETHROTTLED;
	default:
		return http_status >= 400 && http_status < 500 ? GQ_EINVALID : GQ_EIO;
	}
}
