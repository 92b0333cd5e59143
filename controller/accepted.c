#include "controller/accepted.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "quota/field.h"

#define HASH_KEY "hash"
#define SOURCE_KEY "sourceResourceVersion"
#define EPOCH_KEY "epoch"
#define PROBLEM_MAX_BYTES (32u << 10)

static const struct gq_json_keep metadata_keep[] = {
    {"name", NULL}, {"resourceVersion", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep data_keep[] = {{GQ_POLICY_KEY, NULL},
						{HASH_KEY, NULL},
						{SOURCE_KEY, NULL},
						{EPOCH_KEY, NULL},
						GQ_JSON_KEEP_END};
const struct gq_json_keep gq_policy_state_keep[] = {
    {"metadata", metadata_keep}, {"data", data_keep}, GQ_JSON_KEEP_END};

struct gq_policy_state *gq_policy_state_ref(struct gq_policy_state *state)
{
	if (state)
		state->refs++;
	return state;
}

void gq_policy_state_unref(struct gq_policy_state *state)
{
	if (!state || --state->refs)
		return;
	gq_policy_unref(state->policy);
	free(state->problem);
	free(state->yaml);
	free(state);
}

struct gq_policy_state *gq_policy_state_absent(bool deleted)
{
	struct gq_policy_state *state = calloc(1, sizeof *state);

	if (state) {
		state->refs = 1;
		state->deleted = deleted;
	}
	return state;
}

static int copy_version(char *to, const char *from, const char *what, struct gq_err *err)
{
	size_t len = strlen(from);

	if (len >= GQ_VERSION_BYTES)
		return gq_fail(err, GQ_ETOOBIG, "%s has more than %d characters", what,
			       GQ_VERSION_BYTES - 1);
	memcpy(to, from, len + 1);
	return 0;
}

/* A value of data, or NULL when there is none that is a string. */
static struct json_object *value_of(const struct gq_field *data, const char *key)
{
	struct json_object *value = NULL;

	if (!data->value || !json_object_object_get_ex(data->value, key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return NULL;
	return value;
}

static const char *text_of(const struct gq_field *data, const char *key)
{
	struct json_object *value = value_of(data, key);

	return value ? json_object_get_string(value) : "";
}

static int copy_yaml(struct gq_policy_state *state, struct json_object *yaml, struct gq_err *err)
{
	size_t len = (size_t)json_object_get_string_len(yaml);

	state->yaml = malloc(len + 1);
	if (!state->yaml)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	/* with a NUL that hides something, if there is one */
	memcpy(state->yaml, json_object_get_string(yaml), len);
	state->yaml[len] = '\0';
	state->len = len;
	if (gq_hash_text(state->yaml, len, state->hash))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return 0;
}

static uint64_t parse_epoch(const char *text)
{
	char *end;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	unsigned long long epoch = strtoull(text, &end, 10);
	return *end || errno ? 0 : epoch;
}

/* Of no use but to people, so that one that can't be is left out. */
static void read_source(struct gq_policy_state *state, const char *text)
{
	if (copy_version(state->source_version, text, SOURCE_KEY, NULL))
		state->source_version[0] = '\0';
}

static int read_data(struct gq_policy_state *state, const struct gq_field *data, struct gq_err *err)
{
	struct json_object *yaml = value_of(data, GQ_POLICY_KEY);
	int code = yaml ? copy_yaml(state, yaml, err) : 0;

	if (code)
		return code;
	state->intact = yaml && strcmp(text_of(data, HASH_KEY), state->hash) == 0;
	state->epoch = parse_epoch(text_of(data, EPOCH_KEY));
	read_source(state, text_of(data, SOURCE_KEY));
	return 0;
}

int gq_policy_state_read(const char *json, size_t len, struct gq_policy_state **ret_state,
			 struct gq_err *err)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_policy_state *state GQ_CLEANUP(gq_cleanup_policy_state) =
	    gq_policy_state_absent(false);
	struct gq_field top = {0}, metadata, data;
	const char *version;

	if (!state)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	int code = gq_field_parse(json, len, &root, err);
	top.value = root;
	if (!code)
		code = gq_field_object(&top, "metadata", &metadata, err);
	if (!code)
		code = gq_field_peek(&metadata, "resourceVersion", &version, err);
	if (!code && !version[0])
		code = gq_fail(err, GQ_EINVALID, "metadata.resourceVersion is missing");
	if (!code)
		code = copy_version(state->version, version, "metadata.resourceVersion", err);
	if (!code)
		code = gq_field_object(&top, "data", &data, err);
	if (!code)
		code = read_data(state, &data, err);
	if (code)
		return code;
	state->exists = true;
	*ret_state = GQ_STEAL(state);
	return 0;
}

static int refuse(struct gq_policy_state *state, const char *why, struct gq_err *err)
{
	state->problem = strdup(why);
	if (!state->problem)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	state->judged = true;
	return 0;
}

int gq_policy_state_judge(struct gq_policy_state *state, const struct gq_policy_state *like,
			  struct gq_err *err)
{
	struct gq_policy_problems problems GQ_CLEANUP(gq_policy_problems_done) = {0};
	struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(PROBLEM_MAX_BYTES);
	struct gq_err why = {0};

	if (state->judged)
		return 0;
	if (!state->exists)
		return refuse(state,
			      state->deleted ? "the ConfigMap " GQ_POLICY_NAME " was deleted"
					     : "there is no ConfigMap " GQ_POLICY_NAME,
			      err);
	if (!state->yaml)
		return refuse(state, "the ConfigMap has no key " GQ_POLICY_KEY " under data", err);
	if (like && like->policy && strcmp(like->hash, state->hash) == 0) {
		state->policy = gq_policy_ref(like->policy);
		state->judged = true;
		return 0;
	}
	int code =
	    gq_policy_parse(state->yaml, state->len, state->hash, &state->policy, &problems, &why);
	if (code == GQ_ENOMEM)
		return gq_fail(err, code, "%s", why.msg);
	state->judged = !code;
	if (!code)
		return 0;
	if (problems.n_items)
		gq_policy_problems_print(&problems, GQ_POLICY_KEY, &list);
	return refuse(state, list.data ? list.data : why.msg, err);
}

static void member(struct gq_buf *out, const char *key, const char *text, size_t len)
{
	gq_buf_printf(out, ",\"%s\":", key);
	gq_buf_json_string(out, text, len);
}

int gq_accepted_print(struct gq_buf *out, const struct gq_policy_state *state, uint64_t epoch,
		      const char *namespace_, const char *version)
{
	/* the version of a policy that was read back is that of its own source */
	const char *source = state->source_version[0] ? state->source_version : state->version;

	gq_buf_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
			 "\"name\":\"" GQ_ACCEPTED_NAME "\","
			 "\"labels\":{\"app.kubernetes.io/name\":\"gpuquota\"}");
	member(out, "namespace", namespace_, strlen(namespace_));
	if (version)
		member(out, "resourceVersion", version, strlen(version));
	gq_buf_printf(out, "},\"data\":{\"" EPOCH_KEY "\":\"%llu\"", (unsigned long long)epoch);
	member(out, HASH_KEY, state->hash, strlen(state->hash));
	member(out, SOURCE_KEY, source, strlen(source));
	member(out, GQ_POLICY_KEY, state->yaml, state->len);
	return gq_buf_puts(out, "}}");
}
