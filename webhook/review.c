#include "webhook/review.h"

#include <json-c/json.h>
#include <pthread.h>
#include <string.h>

#include "base/json_filter.h"
#include "base/utf8.h"
#include "quota/object.h"

#define UID_MAX_BYTES 128
#define KEPT_MAX_BYTES (4u << 20)
#define WARNING_MAX_BYTES 256
#define OBJECT_KEYS_MAX 16

/* The policy ConfigMap and a Binding are told apart from a Pod by keys that a Pod has not. */
static const struct gq_json_keep data_keep[] = {{"policy.yaml", NULL}, {0}};
static const struct gq_json_keep target_keep[] = {{"kind", NULL}, {"name", NULL}, {0}};
static const struct gq_json_keep resource_keep[] = {{"group", NULL}, {"resource", NULL}, {0}};
static const struct gq_json_keep user_keep[] = {{"username", NULL}, {0}};

static struct gq_json_keep object_keep[OBJECT_KEYS_MAX];
static const struct gq_json_keep request_keep[] = {
    {"uid", NULL},	    {"resource", resource_keep}, {"subResource", NULL},
    {"name", NULL},	    {"namespace", NULL},	 {"operation", NULL},
    {"userInfo", user_keep}, {"dryRun", NULL},		 {"object", object_keep},
    {0}};
static const struct gq_json_keep review_keep[] = {
    {"apiVersion", NULL}, {"kind", NULL}, {"request", request_keep}, {0}};

static pthread_once_t keep_once = PTHREAD_ONCE_INIT;

/* What a pod is decoded from, plus the fields of the two other kinds. */
static void keep_build(void)
{
	static const struct gq_json_keep more[] = {
	    {"kind", NULL}, {"target", target_keep}, {"data", data_keep}};
	size_t n = 0;

	for (const struct gq_json_keep *k = gq_pod_keep; k->key && n + 4 < OBJECT_KEYS_MAX; k++)
		if (strcmp(k->key, "kind") != 0)
			object_keep[n++] = *k;
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		object_keep[n++] = more[i];
	object_keep[n] = (struct gq_json_keep){0};
}

static int parse_pruned(const struct gq_buf *pruned, struct json_object **ret_root,
			struct gq_err *err)
{
	struct json_tokener *tokener = json_tokener_new_ex(GQ_JSON_DEPTH_MAX);

	if (!tokener)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *root = json_tokener_parse_ex(tokener, pruned->data, (int)pruned->len);
	bool whole = json_tokener_get_error(tokener) == json_tokener_success &&
		     json_tokener_get_parse_end(tokener) == pruned->len;
	json_tokener_free(tokener);
	if (!whole || !json_object_is_type(root, json_type_object)) {
		json_object_put(root);
		return gq_fail(err, GQ_EINVALID, "the body is no JSON object");
	}
	*ret_root = root;
	return 0;
}

/* A string member; absent or null is "". */
static int get_string(struct json_object *parent, const char *key, const char **ret_text,
		      struct gq_err *err)
{
	struct json_object *value = NULL;

	*ret_text = "";
	if (!json_object_object_get_ex(parent, key, &value) || !value)
		return 0;
	if (!json_object_is_type(value, json_type_string))
		return gq_fail(err, GQ_EINVALID, "%s is no string", key);
	*ret_text = json_object_get_string(value);
	if (strlen(*ret_text) != (size_t)json_object_get_string_len(value))
		return gq_fail(err, GQ_EINVALID, "%s holds a NUL character", key);
	return 0;
}

static int get_object(struct json_object *parent, const char *key, struct json_object **ret_object,
		      struct gq_err *err)
{
	struct json_object *value = NULL;

	*ret_object = NULL;
	if (!json_object_object_get_ex(parent, key, &value) || !value)
		return 0;
	if (!json_object_is_type(value, json_type_object))
		return gq_fail(err, GQ_EINVALID, "%s is no object", key);
	*ret_object = value;
	return 0;
}

static int check_uid(const char *uid, struct gq_err *err)
{
	size_t len = strlen(uid);

	if (len == 0)
		return gq_fail(err, GQ_EINVALID, "request.uid is missing");
	if (len > UID_MAX_BYTES)
		return gq_fail(err, GQ_EINVALID, "request.uid is longer than %d bytes",
			       UID_MAX_BYTES);
	for (size_t i = 0; i < len; i++)
		if (uid[i] <= ' ' || uid[i] > '~')
			return gq_fail(err, GQ_EINVALID, "request.uid holds a character that no "
							 "UID has");
	return 0;
}

static int read_request(struct json_object *request, struct gq_review *r, struct gq_err *err)
{
	struct json_object *resource, *user, *dry_run = NULL;
	int code;

	if ((code = get_string(request, "uid", &r->uid, err)) || (code = check_uid(r->uid, err)) ||
	    (code = get_string(request, "operation", &r->operation, err)) ||
	    (code = get_string(request, "namespace", &r->namespace_, err)) ||
	    (code = get_string(request, "name", &r->name, err)) ||
	    (code = get_string(request, "subResource", &r->subresource, err)) ||
	    (code = get_object(request, "resource", &resource, err)) ||
	    (code = get_object(request, "userInfo", &user, err)) ||
	    (code = get_object(request, "object", &r->object, err)))
		return code;
	if (!r->operation[0])
		return gq_fail(err, GQ_EINVALID, "request.operation is missing");
	if (!resource)
		return gq_fail(err, GQ_EINVALID, "request.resource is missing");
	if ((code = get_string(resource, "group", &r->group, err)) ||
	    (code = get_string(resource, "resource", &r->resource, err)))
		return code;
	r->user = "";
	if (user && (code = get_string(user, "username", &r->user, err)))
		return code;
	if (json_object_object_get_ex(request, "dryRun", &dry_run) && dry_run) {
		if (!json_object_is_type(dry_run, json_type_boolean))
			return gq_fail(err, GQ_EINVALID, "dryRun is neither true nor false");
		r->dry_run = json_object_get_boolean(dry_run);
	}
	return 0;
}

int gq_review_decode(const char *body, size_t len, struct gq_review *ret_review, struct gq_err *err)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(KEPT_MAX_BYTES);
	struct gq_review review GQ_CLEANUP(gq_review_done) = {0};
	struct json_object *request;
	const char *version, *kind;

	pthread_once(&keep_once, keep_build);
	int code = gq_json_prune(body, len, review_keep, &pruned, err);
	if (!code)
		code = parse_pruned(&pruned, &review.root, err);
	if (code || (code = get_string(review.root, "apiVersion", &version, err)) ||
	    (code = get_string(review.root, "kind", &kind, err)) ||
	    (code = get_object(review.root, "request", &request, err)))
		return code;
	if (strcmp(kind, "AdmissionReview") != 0 || strcmp(version, "admission.k8s.io/v1") != 0)
		return gq_fail(err, GQ_EINVALID, "the kind must be AdmissionReview of "
						 "admission.k8s.io/v1");
	if (!request)
		return gq_fail(err, GQ_EINVALID, "request is missing");
	code = read_request(request, &review, err);
	if (code)
		return code;
	*ret_review = review;
	review = (struct gq_review){0};
	return 0;
}

void gq_review_done(struct gq_review *review)
{
	json_object_put(review->root);
	*review = (struct gq_review){0};
}

const char *gq_review_object_string(const struct gq_review *review, const char *const *keys,
				    size_t n_keys)
{
	struct json_object *at = review->object;

	for (size_t i = 0; i < n_keys; i++)
		if (!json_object_is_type(at, json_type_object) ||
		    !json_object_object_get_ex(at, keys[i], &at))
			return NULL;
	return json_object_is_type(at, json_type_string) ? json_object_get_string(at) : NULL;
}

/* A warning on one line, within the API server's limits. */
static void put_warning(struct gq_buf *out, const char *text)
{
	char line[WARNING_MAX_BYTES + 1];
	size_t n = 0, len = strlen(text);

	for (size_t i = 0; i < len;) {
		size_t width = gq_utf8_width(text + i, len - i);
		if (width == 0)
			width = 1;
		if (n + width > WARNING_MAX_BYTES)
			break;
		if (width == 1 && ((unsigned char)text[i] < 0x20 || text[i] == 0x7f))
			line[n] = ' ';
		else
			memcpy(line + n, text + i, width);
		n += width;
		i += width;
	}
	gq_buf_json_string(out, line, n);
}

static void put_string(struct gq_buf *out, const char *text)
{
	gq_buf_json_string(out, text, strlen(text));
}

int gq_review_print(struct gq_buf *out, const struct gq_review_answer *answer)
{
	gq_buf_puts(out, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
			 "\"response\":{\"uid\":");
	put_string(out, answer->uid);
	gq_buf_puts(out, answer->allowed ? ",\"allowed\":true" : ",\"allowed\":false");
	if (!answer->allowed) {
		gq_buf_printf(out, ",\"status\":{\"code\":%d,\"reason\":\"%s\",\"message\":",
			      answer->code, answer->code == 403 ? "Forbidden" : "Invalid");
		put_string(out, answer->message);
		gq_buf_puts(out, "}");
	}
	for (size_t i = 0; i < answer->n_warnings; i++) {
		gq_buf_puts(out, i ? "," : ",\"warnings\":[");
		put_warning(out, answer->warnings[i]);
	}
	if (answer->n_warnings)
		gq_buf_puts(out, "]");
	for (size_t i = 0; i < answer->n_audit; i++) {
		gq_buf_puts(out, i ? "," : ",\"auditAnnotations\":{");
		put_string(out, answer->audit[2 * i]);
		gq_buf_puts(out, ":");
		put_string(out, answer->audit[2 * i + 1]);
	}
	if (answer->n_audit)
		gq_buf_puts(out, "}");
	return gq_buf_puts(out, "}}");
}
