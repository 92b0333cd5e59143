#include "quota/workload.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/amount.h"
#include "quota/field.h"

/* Where a Deployment's maxSurge is left out. Source: apps/v1, RollingUpdateDeployment. */
#define SURGE_PERCENT_DEFAULT 25

/* spec.jobTemplate.spec.template is the longest way to a template. */
#define PATH_MAX_KEYS 3

enum count { COUNT_NONE, COUNT_REPLICAS, COUNT_NODES, COUNT_JOB };

/* path: from the object to what holds the template, and the number of its pods. */
static const struct {
	const char *group;
	const char *resource;
	const char *name;
	const char *path[PATH_MAX_KEYS + 1];
	enum count count;
	const char *count_field; /* for messages; "" when there is none */
} kinds[GQ_WORKLOAD_KINDS] = {
    [GQ_WORKLOAD_DEPLOYMENT] =
	{"apps", "deployments", "Deployment", {"spec"}, COUNT_REPLICAS, "spec.replicas"},
    [GQ_WORKLOAD_REPLICA_SET] =
	{"apps", "replicasets", "ReplicaSet", {"spec"}, COUNT_REPLICAS, "spec.replicas"},
    [GQ_WORKLOAD_STATEFUL_SET] =
	{"apps", "statefulsets", "StatefulSet", {"spec"}, COUNT_REPLICAS, "spec.replicas"},
    [GQ_WORKLOAD_DAEMON_SET] = {"apps", "daemonsets", "DaemonSet", {"spec"}, COUNT_NODES, ""},
    [GQ_WORKLOAD_JOB] = {"batch", "jobs", "Job", {"spec"}, COUNT_JOB, "spec.parallelism"},
    [GQ_WORKLOAD_CRON_JOB] = {"batch",
			      "cronjobs",
			      "CronJob",
			      {"spec", "jobTemplate", "spec"},
			      COUNT_JOB,
			      "spec.jobTemplate.spec.parallelism"},
    [GQ_WORKLOAD_REPLICATION_CONTROLLER] = {"",
					    "replicationcontrollers",
					    "ReplicationController",
					    {"spec"},
					    COUNT_REPLICAS,
					    "spec.replicas"},
    [GQ_WORKLOAD_POD_TEMPLATE] = {"", "podtemplates", "PodTemplate", {NULL}, COUNT_NONE, ""},
};

/* A template is kept whole: any change of it makes new pods. */
static const struct gq_json_keep keep_rolling[] = {{"maxSurge", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_strategy[] = {
    {"type", NULL}, {"rollingUpdate", keep_rolling}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_job_spec[] = {{"template", NULL},
						    {"parallelism", NULL},
						    {"completions", NULL},
						    {"suspend", NULL},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_job_template[] = {{"spec", keep_job_spec}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_spec[] = {{"template", NULL},
						{"replicas", NULL},
						{"strategy", keep_strategy},
						{"updateStrategy", keep_strategy},
						{"parallelism", NULL},
						{"completions", NULL},
						{"suspend", NULL},
						{"jobTemplate", keep_job_template},
						GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_owner[] = {{"controller", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_metadata[] = {{"name", NULL},
						    {"namespace", NULL},
						    {"deletionTimestamp", NULL},
						    {"ownerReferences", keep_owner},
						    GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_workload[] = {
    {"metadata", keep_metadata}, {"spec", keep_spec}, {"template", NULL}, GQ_JSON_KEEP_END};

const struct gq_json_keep *gq_workload_keep(void)
{
	return keep_workload;
}

int gq_workload_kind_of(const char *group, const char *resource)
{
	for (int kind = 0; kind < GQ_WORKLOAD_KINDS; kind++)
		if (strcmp(kinds[kind].group, group) == 0 &&
		    strcmp(kinds[kind].resource, resource) == 0)
			return kind;
	return -1;
}

const char *gq_workload_kind_name(enum gq_workload_kind kind)
{
	return kinds[kind].name;
}

const char *gq_workload_count_field(enum gq_workload_kind kind)
{
	return kinds[kind].count_field;
}

void gq_workload_done(struct gq_workload *workload)
{
	gq_pod_unref(workload->pod);
	gq_posture_unref(workload->posture);
	free(workload->name);
	free(workload->template_);
	*workload = (struct gq_workload){0};
}

int64_t gq_workload_surge(const struct gq_workload *workload, int64_t pods)
{
	int64_t surge = workload->surge;

	if (workload->surge_percent) /* 32 bits each */
		surge = (surge * pods + 99) / 100;
	return gq_min64(surge, pods);
}

/* What is between the object and its template. */
struct way {
	struct gq_field root;
	struct gq_field steps[PATH_MAX_KEYS]; /* the last n_steps one holds the template */
	size_t n_steps;
	const struct gq_field *holder;
	struct gq_field template;
};

static int walk(enum gq_workload_kind kind, struct json_object *root, struct way *way,
		struct gq_err *err)
{
	int code = 0;

	way->root = (struct gq_field){.value = root};
	way->holder = &way->root;
	way->n_steps = 0;
	for (const char *const *key = kinds[kind].path; !code && *key; key++) {
		struct gq_field *step = &way->steps[way->n_steps++];
		code = gq_field_object(way->holder, *key, step, err);
		way->holder = step;
	}
	return code ? code : gq_field_object(way->holder, "template", &way->template, err);
}

static int read_owners(const struct gq_field *meta, struct gq_workload *workload,
		       struct gq_err *err)
{
	struct gq_field owners, owner;
	size_t n;
	int code = gq_field_list(meta, "ownerReferences", GQ_FIELD_ITEMS_MAX, &owners, &n, err);

	for (size_t i = 0; !code && i < n && !workload->owned; i++) {
		code = gq_field_item(&owners, i, &owner, err);
		if (!code)
			code = gq_field_bool(&owner, "controller", &workload->owned, err);
	}
	return code;
}

static int read_metadata(const struct way *way, struct gq_workload *workload,
			 const char **ret_namespace, struct gq_err *err)
{
	struct gq_field meta;
	const char *name, *deleted;
	int code = gq_field_object(&way->root, "metadata", &meta, err);

	if (!code)
		code = gq_field_peek(&meta, "namespace", ret_namespace, err);
	if (!code)
		code = gq_field_peek(&meta, "name", &name, err);
	if (!code)
		code = gq_field_peek(&meta, "deletionTimestamp", &deleted, err);
	if (!code)
		code = read_owners(&meta, workload, err);
	if (!code)
		code = GQ_TAKE(err, workload->name, strdup(name));
	if (code)
		return code;
	workload->deleted = gq_field_has(&meta, "deletionTimestamp");
	return 0;
}

/* "25%" */
static bool parse_percent(const char *text, int64_t *ret_percent)
{
	int64_t percent = 0;
	size_t i = 0;

	for (; isdigit((unsigned char)text[i]); i++)
		percent = gq_min64(percent * 10 + (text[i] - '0'), GQ_FIELD_COUNT_MAX);
	*ret_percent = percent;
	return i > 0 && text[i] == '%' && !text[i + 1];
}

/* strategy: NULL when the kind has none that surges. */
static int read_surge(const struct gq_field *spec, const char *strategy_key, int64_t absent_percent,
		      struct gq_workload *workload, struct gq_err *err)
{
	struct gq_field strategy, rolling;
	const char *type, *text = NULL;
	int code = gq_field_object(spec, strategy_key, &strategy, err);

	if (!code)
		code = gq_field_peek(&strategy, "type", &type, err);
	if (!code)
		code = gq_field_object(&strategy, "rollingUpdate", &rolling, err);
	if (code || (*type && strcmp(type, "RollingUpdate") != 0))
		return code;
	if (!gq_field_has(&rolling, "maxSurge")) {
		workload->surge = absent_percent;
		workload->surge_percent = true;
		return 0;
	}
	if (gq_field_peek(&rolling, "maxSurge", &text, NULL) == GQ_EINVALID)
		return gq_field_count(&rolling, "maxSurge", 0, &workload->surge, err);
	workload->surge_percent = true;
	if (!text || !parse_percent(text, &workload->surge))
		return gq_field_fail(&rolling, "maxSurge", GQ_EINVALID, err,
				     "must be a number or a percentage");
	return 0;
}

/* As many as it runs at once. Source: batch/v1, JobSpec. */
static int read_job(const struct way *way, struct gq_workload *workload, struct gq_err *err)
{
	int64_t parallelism, completions;
	int code = gq_field_count(way->holder, "parallelism", 1, &parallelism, err);

	if (!code)
		code = gq_field_count(way->holder, "completions", GQ_FIELD_COUNT_MAX, &completions,
				      err);
	for (size_t i = 0; !code && i < way->n_steps; i++) {
		bool suspend; /* a CronJob's own, or its Job's */
		code = gq_field_bool(&way->steps[i], "suspend", &suspend, err);
		if (!code && suspend)
			return 0;
	}
	if (!code)
		workload->pods = gq_min64(parallelism, completions);
	return code;
}

static int read_count(const struct way *way, struct gq_workload *workload, struct gq_err *err)
{
	int code = 0;

	switch (kinds[workload->kind].count) {
	case COUNT_NONE:
		break;
	case COUNT_REPLICAS:
		code = gq_field_count(way->holder, "replicas", 1, &workload->pods, err);
		break;
	case COUNT_NODES:
		workload->pods = GQ_PODS_BY_NODES;
		break;
	case COUNT_JOB:
		return read_job(way, workload, err);
	}
	if (!code && workload->kind == GQ_WORKLOAD_DEPLOYMENT)
		code = read_surge(way->holder, "strategy", SURGE_PERCENT_DEFAULT, workload, err);
	if (!code && workload->kind == GQ_WORKLOAD_DAEMON_SET)
		code = read_surge(way->holder, "updateStrategy", 0, workload, err);
	return code;
}

/* Puts the way to the template in front of a path inside of it. */
static int prefix_path(enum gq_workload_kind kind, int code, struct gq_err *err)
{
	char path[64] = "";
	size_t len = 0;

	if (code == GQ_ENOMEM)
		return code;
	for (const char *const *key = kinds[kind].path; *key; key++)
		len += (size_t)snprintf(path + len, sizeof path - len, "%s.", *key);
	return gq_err_prefix(err, code, "%stemplate.", path);
}

static int read_template(const struct way *way, const char *namespace_,
			 struct gq_workload *workload, struct gq_err *err)
{
	struct json_object *root = way->template.value;
	int code = gq_pod_template_decode_tree(root, namespace_, &workload->pod, err);

	if (!code)
		code = gq_posture_decode_tree(root, &workload->posture, err);
	if (code)
		return prefix_path(workload->kind, code, err);
	const char *text = root ? json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN) : "";
	code = GQ_TAKE(err, workload->template_, text ? strdup(text) : NULL);
	workload->namespace_ = workload->pod->namespace_;
	return code;
}

int gq_workload_decode_tree(enum gq_workload_kind kind, struct json_object *root,
			    const char *default_namespace, struct gq_workload *ret_workload,
			    struct gq_err *err)
{
	struct gq_workload workload GQ_CLEANUP(gq_workload_done) = {.kind = kind};
	const char *namespace_;
	struct way way;
	int code = walk(kind, root, &way, err);

	if (!code)
		code = read_metadata(&way, &workload, &namespace_, err);
	if (!code)
		code = read_count(&way, &workload, err);
	if (!code && !*namespace_ && default_namespace)
		namespace_ = default_namespace;
	if (!code)
		code = read_template(&way, namespace_, &workload, err);
	if (code)
		return code;
	*ret_workload = workload;
	workload = (struct gq_workload){0};
	return 0;
}
