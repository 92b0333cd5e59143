#include "webhook/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/field.h"
#include "quota/message.h"
#include "quota/policy.h"
#include "quota/rules.h"

#define MESSAGE_MAX_BYTES (32u << 10)

/* ---- which subject ---- */

static bool is(const struct gq_review *review, const char *operation, const char *group,
	       const char *resource, const char *subresource)
{
	return strcmp(review->operation, operation) == 0 && strcmp(review->group, group) == 0 &&
	       strcmp(review->resource, resource) == 0 &&
	       strcmp(review->subresource, subresource) == 0;
}

static bool is_written(const struct gq_review *review)
{
	return strcmp(review->operation, "CREATE") == 0 || strcmp(review->operation, "UPDATE") == 0;
}

static enum gq_subject_kind kind_of(const struct gq_review *review,
				    const struct gq_policy_place *policy)
{
	if (policy) {
		bool it = !review->group[0] && strcmp(review->resource, "configmaps") == 0 &&
			  review->object && strcmp(review->namespace_, policy->namespace_) == 0 &&
			  strcmp(review->name, policy->name) == 0;
		return it ? GQ_SUBJECT_POLICY : GQ_SUBJECT_NONE;
	}
	if (is(review, "CREATE", "", "pods", ""))
		return GQ_SUBJECT_POD;
	if (is(review, "UPDATE", "", "pods", "ephemeralcontainers"))
		return GQ_SUBJECT_EPHEMERAL;
	if (is(review, "CREATE", "", "pods", "binding") || is(review, "CREATE", "", "bindings", ""))
		return GQ_SUBJECT_BINDING;
	if (is_written(review) && gq_workload_kind_of(review->group, review->resource) >= 0) {
		if (!review->subresource[0])
			return GQ_SUBJECT_WORKLOAD;
		if (strcmp(review->subresource, "scale") == 0)
			return GQ_SUBJECT_SCALE;
	}
	return GQ_SUBJECT_NONE;
}

/* ---- pods ---- */

static int read_pod(struct gq_subject *subject, struct gq_err *err)
{
	static const char *const kind_key[] = {"kind"};
	const struct gq_review *review = subject->review;
	const char *kind;
	size_t len;

	if (!review->object)
		return gq_fail(err, GQ_EINVALID, "request.object is missing");
	int code = gq_review_object_string(review, kind_key, 1, &kind, &len, err);
	if (code)
		return code;
	if (kind && strcmp(kind, "Pod") != 0)
		return gq_fail(err, GQ_EINVALID, "request.object is no Pod");
	code = gq_pod_decode_tree(review->object, review->namespace_, &subject->pod, err);
	if (!code)
		code = gq_posture_decode_tree(review->object, &subject->posture, err);
	if (code)
		return gq_err_prefix(err, code, "request.object: ");
	const struct gq_pod *pod = subject->pod;
	if (review->namespace_[0] && strcmp(pod->namespace_, review->namespace_) != 0)
		return gq_fail(err, GQ_EINVALID, "request.namespace and the pod's differ");
	if (!pod->namespace_[0])
		return gq_fail(err, GQ_EINVALID, "request.namespace is missing");
	if (!gq_object_name_ok(pod->namespace_) || !gq_object_name_ok(pod->name))
		return gq_fail(err, GQ_EINVALID, "request.object: no pod can have such a name");
	if (!pod->uid[0] && gq_pod_asks_for_gpu(pod))
		return gq_fail(err, GQ_EINVALID, "request.object: metadata.uid is missing");
	if (strlen(pod->uid) > GQ_UID_MAX_BYTES)
		return gq_fail(err, GQ_EINVALID,
			       "request.object: metadata.uid is longer than %d bytes",
			       GQ_UID_MAX_BYTES);
	return 0;
}

/* The ephemeral containers that the pod had before. */
static int read_had(struct gq_subject *subject, struct gq_err *err)
{
	struct gq_field root = {.value = subject->review->old_object}, spec, list, item;
	size_t n;
	int code = gq_field_object(&root, "spec", &spec, err);

	if (!code)
		code =
		    gq_field_list(&spec, "ephemeralContainers", GQ_FIELD_ITEMS_MAX, &list, &n, err);
	if (code)
		return gq_err_prefix(err, code, "request.oldObject: ");
	subject->had = calloc(n ? n : 1, sizeof *subject->had);
	if (!subject->had)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		code = gq_field_item(&list, i, &item, err);
		if (!code)
			code = gq_field_peek(&item, "name", &subject->had[i], err);
		if (code)
			return gq_err_prefix(err, code, "request.oldObject: ");
	}
	subject->n_had = n;
	return 0;
}

/* ---- bindings ---- */

/* A string of the Binding; absent is "". */
static int binding_text(const struct gq_review *review, const char *parent, const char *key,
			const char **ret_text, struct gq_err *err)
{
	const char *text;
	size_t len;
	int code =
	    gq_review_object_string(review, (const char *[]){parent, key}, 2, &text, &len, err);

	if (code)
		return code;
	if (text && strlen(text) != len)
		return gq_fail(err, GQ_EINVALID, "request.object: %s.%s has a NUL character in it",
			       parent, key);
	*ret_text = text ? text : "";
	return 0;
}

static int read_binding(struct gq_subject *subject, struct gq_err *err)
{
	const struct gq_review *review = subject->review;
	struct gq_binding binding = {
	    .namespace_ = review->namespace_,
	    .name = review->name,
	    .dry_run = review->dry_run,
	};
	const char *target_kind;
	int code;

	if ((code = binding_text(review, "metadata", "uid", &binding.uid, err)) ||
	    (code = binding_text(review, "target", "kind", &target_kind, err)) ||
	    (code = binding_text(review, "target", "name", &binding.node, err)))
		return code;
	if (!binding.name[0] || !binding.namespace_[0] || !binding.node[0] ||
	    (target_kind[0] && strcmp(target_kind, "Node") != 0))
		return gq_fail(err, GQ_EINVALID, "a Binding names a pod, its namespace and a Node");
	subject->binding = binding;
	return 0;
}

/* ---- workloads ---- */

static int read_workload(struct gq_subject *subject, struct gq_err *err)
{
	const struct gq_review *review = subject->review;

	subject->workload_kind =
	    (enum gq_workload_kind)gq_workload_kind_of(review->group, review->resource);
	if (!review->object)
		return gq_fail(err, GQ_EINVALID, "request.object is missing");
	int code = gq_workload_decode_tree(subject->workload_kind, review->object,
					   review->namespace_, &subject->workload, err);
	if (code)
		return gq_err_prefix(err, code, "request.object: ");
	if (review->namespace_[0] && strcmp(subject->workload.namespace_, review->namespace_) != 0)
		return gq_fail(err, GQ_EINVALID, "request.namespace and the object's differ");
	if (!gq_object_name_ok(subject->workload.namespace_))
		return gq_fail(err, GQ_EINVALID, "request.object: no namespace has such a name");
	if (strcmp(review->operation, "UPDATE") != 0 || !review->old_object)
		return 0;
	code = gq_workload_decode_tree(subject->workload_kind, review->old_object,
				       review->namespace_, &subject->before, err);
	subject->updates = !code;
	return code ? gq_err_prefix(err, code, "request.oldObject: ") : 0;
}

/* spec.replicas of a Scale; absent is 0. */
static int scale_replicas(struct json_object *scale, int64_t *ret_replicas, struct gq_err *err)
{
	struct gq_field root = {.value = scale}, spec;
	struct json_object *value = NULL;
	int code = gq_field_object(&root, "spec", &spec, err);

	*ret_replicas = 0;
	if (code || !spec.value || !json_object_object_get_ex(spec.value, "replicas", &value) ||
	    !value)
		return code;
	if (!json_object_is_type(value, json_type_int))
		return gq_fail(err, GQ_EINVALID, "spec.replicas must be a whole number");
	*ret_replicas = json_object_get_int64(value);
	return 0;
}

static int read_scale(struct gq_subject *subject, struct gq_err *err)
{
	const struct gq_review *review = subject->review;

	subject->workload_kind =
	    (enum gq_workload_kind)gq_workload_kind_of(review->group, review->resource);
	if (!review->object)
		return gq_fail(err, GQ_EINVALID, "request.object is missing");
	if (!gq_object_name_ok(review->namespace_) || !gq_object_name_ok(review->name))
		return gq_fail(err, GQ_EINVALID, "the scale of no object that can exist");
	int code = scale_replicas(review->object, &subject->replicas, err);
	if (!code)
		code = scale_replicas(review->old_object, &subject->had_replicas, err);
	return code ? gq_err_prefix(err, code, "request: ") : 0;
}

/* ---- all of them ---- */

int gq_subject_read(const struct gq_review *review, const struct gq_policy_place *policy,
		    struct gq_subject *ret_subject, struct gq_err *err)
{
	*ret_subject = (struct gq_subject){.kind = kind_of(review, policy), .review = review};
	switch (ret_subject->kind) {
	case GQ_SUBJECT_POD:
		return read_pod(ret_subject, err);
	case GQ_SUBJECT_EPHEMERAL: {
		int code = read_pod(ret_subject, err);
		return code ? code : read_had(ret_subject, err);
	}
	case GQ_SUBJECT_BINDING:
		return read_binding(ret_subject, err);
	case GQ_SUBJECT_WORKLOAD:
		return read_workload(ret_subject, err);
	case GQ_SUBJECT_SCALE:
		return read_scale(ret_subject, err);
	case GQ_SUBJECT_POLICY:
	case GQ_SUBJECT_NONE:
		break;
	}
	return 0;
}

void gq_subject_done(struct gq_subject *subject)
{
	gq_pod_unref(subject->pod);
	gq_posture_unref(subject->posture);
	free(subject->had);
	gq_workload_done(&subject->workload);
	gq_workload_done(&subject->before);
	*subject = (struct gq_subject){0};
}

bool gq_subject_needs_reads(const struct gq_subject *subject, const struct gq_ledger *ledger)
{
	switch (subject->kind) {
	case GQ_SUBJECT_POD:
		return gq_pod_asks_for_gpu(subject->pod) ||
		       (gq_rules_concern(subject->posture, subject->pod) &
			gq_ledger_rules_active(ledger));
	case GQ_SUBJECT_EPHEMERAL:
	case GQ_SUBJECT_WORKLOAD:
	case GQ_SUBJECT_SCALE:
		return true;
	case GQ_SUBJECT_BINDING:
	case GQ_SUBJECT_POLICY:
	case GQ_SUBJECT_NONE:
		break;
	}
	return false;
}

bool gq_subject_is_awaited(const struct gq_subject *subject)
{
	return subject->kind == GQ_SUBJECT_POD && subject->posture &&
	       (gq_pod_asks_for_gpu(subject->pod) ||
		gq_rules_concern_itself(subject->posture, subject->pod));
}

/* The workload whose scale is to change is not part of the review. */
static int decide_scale(const struct gq_subject *subject, struct gq_ledger *ledger,
			const struct gq_subject_time *time, struct gq_reads *reads,
			struct gq_verdict *verdict, struct gq_err *err)
{
	const struct gq_review *review = subject->review;
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
	struct gq_workload workload GQ_CLEANUP(gq_workload_done) = {0};
	char path[640];

	gq_verdict_allow(verdict, GQ_REASON_NOT_OURS);
	if (subject->replicas <= subject->had_replicas)
		return 0;
	(void)snprintf(path, sizeof path, "%s%s/v1/namespaces/%s/%s/%s",
		       review->group[0] ? "/apis/" : "/api", review->group, review->namespace_,
		       review->resource, review->name);
	const struct gq_read *read =
	    gq_reads_get(reads, GQ_READ_WORKLOAD, path, gq_workload_keep());
	if (read && !read->done) {
		verdict->kind = GQ_VERDICT_READ;
		return 0;
	}
	/* it only warns: what can't be read is let pass */
	if (!read || read->code || gq_field_parse(read->body, read->len, &root, NULL) ||
	    gq_workload_decode_tree(subject->workload_kind, root, review->namespace_, &workload,
				    NULL))
		return 0;
	workload.pods = subject->had_replicas;
	const struct gq_workload_review change = {.now = &workload,
						  .user = review->user,
						  .now_ns = time->now_ns,
						  .wall_s = time->wall_s,
						  .deadline_ns = time->deadline_ns,
						  .reads = reads};
	return gq_decide_scale(ledger, &change, subject->replicas, verdict, err);
}

static int refuse_policy(struct gq_verdict *verdict, const struct gq_policy_problems *problems,
			 const struct gq_err *parse_err, struct gq_err *err)
{
	struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(MESSAGE_MAX_BYTES);

	verdict->kind = GQ_VERDICT_DENY;
	/* lines that are too many are cut by the message */
	if (problems->n_items)
		gq_policy_problems_print(problems, "policy.yaml", &list);
	else
		gq_buf_puts(&list, parse_err->msg);
	int code =
	    gq_message_print(&verdict->message, verdict->locale, GQ_MSG_POLICY_INVALID,
			     &(struct gq_message_arg){"problems", list.data ? list.data : ""}, 1);
	return code ? gq_fail(err, GQ_ENOMEM, "out of memory") : 0;
}

/* The ConfigMap that is to become the policy. */
static int decide_policy(const struct gq_review *review, struct gq_ledger *ledger,
			 struct gq_verdict *verdict, struct gq_err *err)
{
	static const char *const key[] = {"data", "policy.yaml"};
	struct gq_policy_problems problems GQ_CLEANUP(gq_policy_problems_done) = {0};
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = NULL;
	struct gq_err parse_err = {0};
	const char *yaml;
	size_t len;

	gq_verdict_allow(verdict, GQ_REASON_POLICY);
	verdict->locale = gq_ledger_locale(ledger);
	/* twenty problems may take more than a refused pod's message */
	verdict->message.max = MESSAGE_MAX_BYTES;
	int code = gq_review_object_string(review, key, 2, &yaml, &len, err);
	if (code)
		return code;
	if (!yaml) {
		verdict->kind = GQ_VERDICT_DENY;
		return gq_message_print(&verdict->message, verdict->locale, GQ_MSG_POLICY_NO_KEY,
					&(struct gq_message_arg){"key", "policy.yaml"}, 1)
			   ? gq_fail(err, GQ_ENOMEM, "out of memory")
			   : 0;
	}
	code = gq_policy_parse(yaml, len, "", &policy, &problems, &parse_err);
	if (code == GQ_ENOMEM)
		return gq_fail(err, code, "%s", parse_err.msg);
	return code ? refuse_policy(verdict, &problems, &parse_err, err) : 0;
}

static int decide_pod(const struct gq_subject *subject, struct gq_ledger *ledger,
		      const struct gq_subject_time *time, struct gq_reads *reads,
		      struct gq_verdict *verdict, struct gq_err *err)
{
	const struct gq_create create = {
	    .pod = subject->pod,
	    .posture = subject->posture,
	    .request_uid = subject->review->uid,
	    .user = subject->review->user,
	    .dry_run = subject->review->dry_run,
	    .now_ns = time->now_ns,
	    .wall_s = time->wall_s,
	    .deadline_ns = time->deadline_ns,
	    .reads = reads,
	};

	if (subject->kind == GQ_SUBJECT_EPHEMERAL)
		return gq_decide_ephemeral(ledger, &create, subject->had, subject->n_had, verdict);
	return gq_decide_create(ledger, &create, verdict, err);
}

int gq_subject_decide(const struct gq_subject *subject, struct gq_ledger *ledger,
		      const struct gq_subject_time *time, struct gq_reads *reads,
		      struct gq_verdict *verdict, struct gq_err *err)
{
	switch (subject->kind) {
	case GQ_SUBJECT_POD:
	case GQ_SUBJECT_EPHEMERAL:
		return decide_pod(subject, ledger, time, reads, verdict, err);
	case GQ_SUBJECT_BINDING: {
		struct gq_binding binding = subject->binding;
		binding.now_ns = time->now_ns;
		binding.wall_s = time->wall_s;
		binding.deadline_ns = time->deadline_ns;
		return gq_decide_binding(ledger, &binding, verdict, err);
	}
	case GQ_SUBJECT_WORKLOAD: {
		const struct gq_workload_review review = {
		    .now = &subject->workload,
		    .before = subject->updates ? &subject->before : NULL,
		    .user = subject->review->user,
		    .now_ns = time->now_ns,
		    .wall_s = time->wall_s,
		    .deadline_ns = time->deadline_ns,
		    .reads = reads};
		return gq_decide_workload(ledger, &review, verdict, err);
	}
	case GQ_SUBJECT_SCALE:
		return decide_scale(subject, ledger, time, reads, verdict, err);
	case GQ_SUBJECT_POLICY:
		return decide_policy(subject->review, ledger, verdict, err);
	case GQ_SUBJECT_NONE:
		break;
	}
	gq_verdict_allow(verdict, GQ_REASON_NOT_OURS);
	return 0;
}
