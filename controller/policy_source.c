#include "controller/policy_source.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "controller/hash.h"
#include "quota/field.h"

struct gq_policy_source {
	struct gq_ledger *ledger;
	const struct gq_clock *clock;
	bool listed;         /* between LIST_BEGIN and LIST_END the ConfigMap was there */
	char told[65];       /* what was told last, so that it is told once: the hash of the bytes
				refused,        or a word; "" after a good policy */
	struct gq_lock lock; /* guards status */
	struct gq_policy_status status;
};

static const struct gq_json_keep name_keep[] = {{"name", NULL}, {0}};
static const struct gq_json_keep data_keep[] = {{GQ_POLICY_KEY, NULL}, {0}};
const struct gq_json_keep gq_policy_source_keep[] = {
    {"metadata", name_keep}, {"data", data_keep}, {0}};

struct gq_policy_source *gq_policy_source_new(struct gq_ledger *ledger,
					      const struct gq_clock *clock)
{
	struct gq_policy_source *source = calloc(1, sizeof *source);

	if (!source)
		return NULL;
	source->ledger = ledger;
	source->clock = clock;
	gq_lock_init(&source->lock, GQ_RANK_LEAF);
	return source;
}

void gq_policy_source_free(struct gq_policy_source *source)
{
	if (!source)
		return;
	gq_lock_done(&source->lock);
	free(source);
}

void gq_policy_source_status(struct gq_policy_source *source, struct gq_policy_status *ret_status)
{
	gq_lock_take(&source->lock);
	*ret_status = source->status;
	gq_lock_release(&source->lock);
}

static void status_good(struct gq_policy_source *source, const char *hash)
{
	source->told[0] = '\0';
	gq_lock_take(&source->lock);
	source->status.in_force = true;
	source->status.last_ok = true;
	source->status.problem[0] = '\0';
	(void)snprintf(source->status.hash, sizeof source->status.hash, "%s", hash);
	gq_lock_release(&source->lock);
}

/* problem: its first line is kept. key names this state of the ConfigMap. */
static void status_bad(struct gq_policy_source *source, const char *key, const char *problem)
{
	int len = (int)strcspn(problem, "\n");

	gq_lock_take(&source->lock);
	source->status.last_ok = false;
	(void)snprintf(source->status.problem, sizeof source->status.problem, "%.*s", len, problem);
	bool in_force = source->status.in_force;
	gq_lock_release(&source->lock);
	if (strcmp(source->told, key) == 0)
		return;
	(void)snprintf(source->told, sizeof source->told, "%s", key);
	gq_log(GQ_LOG_ERROR, "the policy ConfigMap is not usable",
	       GQ_S("then", in_force ? "the last good policy stays in force"
				     : "GPU pods wait for a policy"),
	       GQ_S("problem", problem));
}

static void refuse(struct gq_policy_source *source, const char *hash,
		   const struct gq_policy_problems *problems, const struct gq_err *err)
{
	struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(32u << 10);

	if (problems->n_items)
		gq_policy_problems_print(problems, GQ_POLICY_KEY, &list);
	status_bad(source, hash, list.data ? list.data : err->msg);
}

static int apply(struct gq_policy_source *source, const char *yaml, size_t len, struct gq_err *err)
{
	struct gq_policy_problems problems GQ_CLEANUP(gq_policy_problems_done) = {0};
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = NULL;
	struct gq_policy *now GQ_CLEANUP(gq_cleanup_policy) = gq_ledger_policy(source->ledger);
	char hash[GQ_HASH_TEXT_BYTES];

	if (gq_hash_text(yaml, len, hash))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if (now && strcmp(now->hash, hash) == 0) {
		status_good(source, hash);
		return 0;
	}
	int code = gq_policy_parse(yaml, len, hash, &policy, &problems, err);
	if (code == GQ_ENOMEM)
		return code;
	if (code) {
		refuse(source, hash, &problems, err);
		return 0;
	}
	code = gq_ledger_set_policy(source->ledger, policy, gq_clock_mono_ns(source->clock), err);
	if (code)
		return code;
	status_good(source, hash);
	gq_log(GQ_LOG_INFO, "policy in force", GQ_S("hash", hash),
	       GQ_I("tenants", policy->n_tenants),
	       GQ_I("classes", gq_class_count(policy->classes)));
	return 0;
}

static int upsert(struct gq_policy_source *source, const struct gq_event *event, struct gq_err *err)
{
	struct json_object *root = NULL, *yaml = NULL;
	struct gq_field top = {0}, data;
	int code = gq_field_parse(event->json, event->len, &root, err);

	source->listed = true;
	top.value = root;
	if (!code)
		code = gq_field_object(&top, "data", &data, err);
	if (!code && data.value)
		(void)json_object_object_get_ex(data.value, GQ_POLICY_KEY, &yaml);
	if (!code && json_object_is_type(yaml, json_type_string))
		code = apply(source, json_object_get_string(yaml),
			     (size_t)json_object_get_string_len(yaml), err);
	else if (!code)
		status_bad(source, "no key",
			   "the ConfigMap has no key " GQ_POLICY_KEY " under data");
	json_object_put(root);
	return code;
}

int gq_policy_source_event(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct gq_policy_source *source = arg;

	switch (event->kind) {
	case GQ_EVENT_LIST_BEGIN:
		source->listed = false;
		break;
	case GQ_EVENT_UPSERT:
		return upsert(source, event, err);
	case GQ_EVENT_LIST_END:
		if (!source->listed)
			status_bad(source, "absent", "there is no ConfigMap " GQ_POLICY_NAME);
		break;
	case GQ_EVENT_DELETE:
		status_bad(source, "deleted", "the ConfigMap " GQ_POLICY_NAME " was deleted");
		break;
	case GQ_EVENT_IDLE:
		break;
	}
	return 0;
}
