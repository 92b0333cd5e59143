#include "webhook/review.h"

#include <json-c/json.h>
#include <pthread.h>
#include <string.h>

#include "base/json_keep.h"
#include "quota/field.h"
#include "quota/posture.h"
#include "quota/workload.h"

#define UID_MAX_BYTES 128
#define KEPT_MAX_BYTES (4u << 20)

/* The policy ConfigMap and a Binding are told apart from a Pod by keys that a Pod has not. */
static const struct gq_json_keep data_keep[] = {{"policy.yaml", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep target_keep[] = {{"kind", NULL}, {"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep resource_keep[] = {
    {"group", NULL}, {"resource", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep user_keep[] = {{"username", NULL}, GQ_JSON_KEEP_END};

/* Of what an object was before, only what decides whether a change matters. */
static const struct gq_json_keep name_keep[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep had_spec_keep[] = {{"ephemeralContainers", name_keep},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep had_keep[] = {{"spec", had_spec_keep}, GQ_JSON_KEEP_END};

/* Built once, of what the decoders of the kinds read; NULL: out of memory. */
static struct gq_json_keep *review_keep;

/* Every kind in one tree, since the object's kind may come after it. */
static int keep_build_parts(struct gq_json_keep **parts)
{
	static const struct gq_json_keep others[] = {
	    {"kind", NULL}, {"target", target_keep}, {"data", data_keep}, GQ_JSON_KEEP_END};
	const struct gq_json_keep *workload = gq_workload_keep();
	int code = workload ? 0 : GQ_ENOMEM;

	if (!code)
		code = gq_json_keep_merge(gq_pod_keep, gq_posture_keep, &parts[0]);
	if (!code)
		code = gq_json_keep_merge(parts[0], workload, &parts[1]);
	if (!code)
		code = gq_json_keep_merge(parts[1], others, &parts[2]);
	if (!code)
		code = gq_json_keep_merge(had_keep, workload, &parts[3]);
	return code;
}

static pthread_once_t keep_once = PTHREAD_ONCE_INIT;

static void keep_build(void)
{
	/* they live on as parts of the tree */
	static struct gq_json_keep *parts[4];
	static struct gq_json_keep request_keep[] = {
	    {"uid", NULL},           {"resource", resource_keep},
	    {"subResource", NULL},   {"name", NULL},
	    {"namespace", NULL},     {"operation", NULL},
	    {"userInfo", user_keep}, {"dryRun", NULL},
	    {"object", NULL},        {"oldObject", NULL},
	    GQ_JSON_KEEP_END};
	static struct gq_json_keep tree[] = {
	    {"apiVersion", NULL}, {"kind", NULL}, {"request", request_keep}, GQ_JSON_KEEP_END};

	if (keep_build_parts(parts))
		return;
	for (struct gq_json_keep *k = request_keep; k->key; k++) {
		if (strcmp(k->key, "object") == 0)
			k->children = parts[2];
		else if (strcmp(k->key, "oldObject") == 0)
			k->children = parts[3];
	}
	review_keep = tree;
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
			return gq_fail(err, GQ_EINVALID,
				       "request.uid holds a character that no "
				       "UID has");
	return 0;
}

static int check_operation(const char *operation, struct gq_err *err)
{
	static const char *const known[] = {"CREATE", "UPDATE", "DELETE", "CONNECT"};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(operation, known[i]) == 0)
			return 0;
	return gq_fail(err, GQ_EINVALID,
		       "request.operation must be CREATE, UPDATE, DELETE or CONNECT");
}

static int read_request(const struct gq_field *request, struct gq_review *r, struct gq_err *err)
{
	struct gq_field resource, user, object, old_object;
	int code;

	if ((code = gq_field_peek(request, "uid", &r->uid, err)) ||
	    (code = check_uid(r->uid, err)) ||
	    (code = gq_field_peek(request, "operation", &r->operation, err)) ||
	    (code = check_operation(r->operation, err)) ||
	    (code = gq_field_peek(request, "namespace", &r->namespace_, err)) ||
	    (code = gq_field_peek(request, "name", &r->name, err)) ||
	    (code = gq_field_peek(request, "subResource", &r->subresource, err)) ||
	    (code = gq_field_object(request, "resource", &resource, err)) ||
	    (code = gq_field_peek(&resource, "group", &r->group, err)) ||
	    (code = gq_field_peek(&resource, "resource", &r->resource, err)) ||
	    (code = gq_field_object(request, "userInfo", &user, err)) ||
	    (code = gq_field_peek(&user, "username", &r->user, err)) ||
	    (code = gq_field_bool(request, "dryRun", &r->dry_run, err)) ||
	    (code = gq_field_object(request, "object", &object, err)) ||
	    (code = gq_field_object(request, "oldObject", &old_object, err)))
		return code;
	if (!r->resource[0])
		return gq_fail(err, GQ_EINVALID, "request.resource.resource is missing");
	r->object = object.value;
	r->old_object = old_object.value;
	return 0;
}

int gq_review_decode(const char *body, size_t len, struct gq_review *ret_review, struct gq_err *err)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(KEPT_MAX_BYTES);
	struct gq_review review GQ_CLEANUP(gq_review_done) = {0};
	struct gq_field root = {0}, request;
	const char *version, *kind;

	pthread_once(&keep_once, keep_build);
	if (!review_keep)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	int code = gq_json_prune(body, len, review_keep, &pruned, err);
	if (!code)
		code = gq_field_parse(pruned.data, pruned.len, &review.root, err);
	if (code)
		return code;
	root.value = review.root;
	if ((code = gq_field_peek(&root, "apiVersion", &version, err)) ||
	    (code = gq_field_peek(&root, "kind", &kind, err)) ||
	    (code = gq_field_object(&root, "request", &request, err)))
		return code;
	if (strcmp(kind, "AdmissionReview") != 0 || strcmp(version, "admission.k8s.io/v1") != 0)
		return gq_fail(err, GQ_EINVALID,
			       "the kind must be AdmissionReview of "
			       "admission.k8s.io/v1");
	if (!request.value)
		return gq_fail(err, GQ_EINVALID, "request is missing");
	code = read_request(&request, &review, err);
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

int gq_review_object_string(const struct gq_review *review, const char *const *keys, size_t n_keys,
			    const char **ret_text, size_t *ret_len, struct gq_err *err)
{
	struct json_object *at = review->object;

	for (size_t i = 0; at && i < n_keys; i++) {
		if (!json_object_is_type(at, json_type_object))
			return gq_fail(err, GQ_EINVALID, "request.object: %s must be an object",
				       i ? keys[i - 1] : "it");
		if (!json_object_object_get_ex(at, keys[i], &at))
			at = NULL;
	}
	if (at && !json_object_is_type(at, json_type_string))
		return gq_fail(err, GQ_EINVALID, "request.object: %s must be a string",
			       keys[n_keys - 1]);
	const char *text = at ? json_object_get_string(at) : NULL;
	if (at && !text)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_text = text;
	*ret_len = at ? (size_t)json_object_get_string_len(at) : 0;
	return 0;
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
		gq_buf_printf(
		    out, ",\"status\":{\"code\":%d,\"reason\":\"%s\",\"message\":", answer->code,
		    answer->code == 503 ? "ServiceUnavailable" : "Forbidden");
		put_string(out, answer->message);
		gq_buf_puts(out, "}");
	}
	if (answer->warnings.n || answer->warnings.cut) {
		gq_buf_puts(out, ",\"warnings\":");
		gq_warnings_print(out, &answer->warnings);
	}
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
