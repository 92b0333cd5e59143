#include "webhook/admission.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "quota/message.h"
#include "webhook/retries.h"
#include "webhook/review.h"
#include "webhook/timeout.h"

/* The API server's own default, for callers that name none; and the longest it ever waits. */
#define TIMEOUT_DEFAULT_NS (10 * GQ_NS_PER_S)
#define TIMEOUT_MAX_NS (GQ_RETRIES_MAX_S * GQ_NS_PER_S)
/* A 503 with Retry-After: 1 that comes later than so long before the deadline may have the API
 * server wait in vain, and tell its user of nothing but the deadline: a busy one is late with its
 * next call. */
#define LAST_WORD_NS (2500 * GQ_NS_PER_MS)
/* An answer at the deadline is too late: the way to the API server takes time. */
#define WAY_NS (250 * GQ_NS_PER_MS)
#define ANSWER_MAX_BYTES (256u << 10)
#define MESSAGE_MAX_BYTES (32u << 10)
#define AUDIT_PAIRS_MAX 4

const double gq_duration_bounds_s[GQ_DURATION_BUCKETS] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10};

struct gq_admission {
	struct gq_admission_options options;
	struct gq_retries *retries;
	_Atomic uint64_t reviews[GQ_VERDICT_UNAVAILABLE + 1][GQ_REASON_COUNT];
	_Atomic uint64_t duration_buckets[GQ_DURATION_BUCKETS + 1];
	_Atomic uint64_t duration_sum_ns;
};

/* One review from its arrival to its answer. */
struct call {
	struct gq_admission *admission;
	struct gq_request *request;
	struct gq_review review;
	struct gq_pod *pod;        /* of a pod's creation */
	struct gq_binding binding; /* its strings live in review; node NULL: it is none */
	int64_t deadline_ns;
	struct gq_reads *reads; /* made when the decision first asks for one */
	atomic_int reads_under_way;
	struct gq_verdict verdict; /* while its ticket is being committed */
	bool decided;              /* once at least, and locale is its namespace's */
	enum gq_locale locale;     /* of what is told of it */
};

struct gq_admission *gq_admission_new(const struct gq_admission_options *options)
{
	struct gq_admission *admission = calloc(1, sizeof *admission);

	if (!admission)
		return NULL;
	admission->options = *options;
	admission->retries = gq_retries_new();
	if (!admission->retries) {
		free(admission);
		return NULL;
	}
	return admission;
}

void gq_admission_free(struct gq_admission *admission)
{
	if (!admission)
		return;
	gq_retries_free(admission->retries);
	free(admission);
}

int gq_admission_route(const char *method, const char *path)
{
	if (strcmp(path, "/validate") != 0 && strcmp(path, "/validate-ai-pod") != 0 &&
	    strcmp(path, "/validate-policy") != 0)
		return 404;
	return strcmp(method, "POST") == 0 ? 0 : 405;
}

/* ---- counting ---- */

static void count(struct gq_admission *admission, const struct gq_request *request,
		  enum gq_verdict_kind kind, enum gq_reason reason)
{
	int64_t took_ns =
	    gq_clock_mono_ns(admission->options.clock) - gq_request_received_ns(request);
	size_t bucket = 0;

	if (took_ns < 0)
		took_ns = 0;
	while (bucket < GQ_DURATION_BUCKETS && (double)took_ns / 1e9 > gq_duration_bounds_s[bucket])
		bucket++;
	atomic_fetch_add(&admission->reviews[kind][reason], 1);
	atomic_fetch_add(&admission->duration_buckets[bucket], 1);
	atomic_fetch_add(&admission->duration_sum_ns, (uint64_t)took_ns);
}

void gq_admission_stats(const struct gq_admission *admission, struct gq_admission_stats *ret_stats)
{
	for (int k = 0; k <= GQ_VERDICT_UNAVAILABLE; k++)
		for (int r = 0; r < GQ_REASON_COUNT; r++)
			ret_stats->reviews[k][r] = atomic_load(&admission->reviews[k][r]);
	for (int b = 0; b <= GQ_DURATION_BUCKETS; b++)
		ret_stats->duration_buckets[b] = atomic_load(&admission->duration_buckets[b]);
	ret_stats->duration_sum_s = (double)atomic_load(&admission->duration_sum_ns) / 1e9;
}

/* ---- answers ---- */

static void call_free(void *state)
{
	struct call *call = state;

	gq_review_done(&call->review);
	gq_pod_unref(call->pod);
	gq_verdict_done(&call->verdict);
	if (call->reads)
		gq_reads_done(call->reads);
	free(call->reads);
	free(call);
}

/* Of a call that was not decided yet, or is none: the policy's. */
static enum gq_locale locale_of(const struct gq_admission *admission, const struct call *call)
{
	return call && call->decided ? call->locale : gq_ledger_locale(admission->options.ledger);
}

/* An answer that is no AdmissionReview: the API server takes it as a failed call. */
static void answer_error(struct gq_request *request, int status, const char *text, bool close)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(ANSWER_MAX_BYTES);

	gq_buf_puts(&body, "{\"error\":");
	gq_buf_json_string(&body, text, strlen(text));
	gq_buf_puts(&body, "}\n");
	gq_request_answer(request, &(struct gq_answer){.status = status,
						       .content_type = "application/json",
						       .body = body.data ? body.data : "",
						       .len = body.len,
						       .retry_after_s = status == 503,
						       .close = close});
}

/* The API server tells nobody what stands in a 503; but what stands in a refusal it does. Only for
 * creations: an unanswered binding is let pass. */
static int answer_last_word(const struct call *call, const char *text)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(ANSWER_MAX_BYTES);
	const struct gq_review_answer answer = {
	    .uid = call->review.uid, .code = 503, .message = text};
	int code = gq_review_print(&body, &answer);

	if (!code)
		gq_request_answer(call->request,
				  &(struct gq_answer){.status = 200,
						      .content_type = "application/json",
						      .body = body.data,
						      .len = body.len});
	return code;
}

static void answer_text(struct gq_admission *admission, struct gq_request *request,
			enum gq_reason reason, const char *text)
{
	const struct call *call = gq_request_state(request);

	count(admission, request, GQ_VERDICT_UNAVAILABLE, reason);
	if (call && call->pod) {
		int64_t now_ns = gq_clock_mono_ns(admission->options.clock);
		gq_retries_note(admission->retries, call->review.uid,
				gq_request_received_ns(request));
		if (now_ns + LAST_WORD_NS >= call->deadline_ns && answer_last_word(call, text) == 0)
			return;
	}
	answer_error(request, 503, text, reason == GQ_REASON_NOT_LEADER);
}

static void answer_unavailable(struct gq_admission *admission, struct gq_request *request,
			       enum gq_reason reason, enum gq_message_id id)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);

	gq_message_print(&text, locale_of(admission, gq_request_state(request)), id, NULL, 0);
	answer_text(admission, request, reason, text.data ? text.data : "");
}

static void answer_bad(struct gq_admission *admission, struct gq_request *request,
		       const struct gq_err *err)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	if (err->code == GQ_ENOMEM) {
		answer_unavailable(admission, request, GQ_REASON_OVERLOADED, GQ_MSG_NO_MEMORY);
		return;
	}
	count(admission, request, GQ_VERDICT_DENY, GQ_REASON_BAD_REVIEW);
	gq_log(GQ_LOG_WARN, "a review was answered with 400",
	       GQ_S("path", gq_request_path(request)), GQ_S("problem", err->msg));
	gq_message_print(&text, locale_of(admission, gq_request_state(request)), GQ_MSG_BAD_REVIEW,
			 &(struct gq_message_arg){"detail", err->msg}, 1);
	answer_error(request, 400, text.data ? text.data : "", false);
}

static void tell_denied(const struct call *call, const struct gq_verdict *verdict)
{
	const struct gq_admission_options *options = &call->admission->options;
	const struct gq_create create = {.pod = call->pod, .dry_run = call->review.dry_run};
	const struct gq_binding *binding = call->binding.node ? &call->binding : NULL;

	if (options->on_denied && (call->pod || binding))
		options->on_denied(options->arg, call->pod ? &create : NULL, binding, verdict);
}

/* Writes the verdict as the review's response. */
static void answer_verdict(struct call *call, const struct gq_verdict *verdict)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(ANSWER_MAX_BYTES);
	const char *warnings[GQ_WARNINGS_MAX];
	const char *audit[2 * AUDIT_PAIRS_MAX];
	struct gq_review_answer answer = {
	    .uid = call->review.uid,
	    .allowed = verdict->kind == GQ_VERDICT_ALLOW,
	    .code = 403,
	    .message = verdict->message.data ? verdict->message.data : "",
	    .warnings = {.texts = warnings,
			 .cut = verdict->warnings_cut,
			 .locale = verdict->locale},
	    .audit = audit,
	};

	if (verdict->kind == GQ_VERDICT_UNAVAILABLE) {
		answer_text(call->admission, call->request, verdict->reason, answer.message);
		return;
	}
	if (verdict->kind == GQ_VERDICT_DENY)
		tell_denied(call, verdict);
	for (; answer.warnings.n < verdict->n_warnings; answer.warnings.n++)
		warnings[answer.warnings.n] = verdict->warnings[answer.warnings.n].data;
	if (verdict->tenant) {
		audit[2 * answer.n_audit] = "tenant";
		audit[2 * answer.n_audit++ + 1] = verdict->tenant;
	}
	if (verdict->reason != GQ_REASON_NO_GPU && verdict->reason != GQ_REASON_NOT_OURS) {
		audit[2 * answer.n_audit] = "reason";
		audit[2 * answer.n_audit++ + 1] = gq_reason_name(verdict->reason);
	}
	if (verdict->audit.len) {
		audit[2 * answer.n_audit] = "would-refuse";
		audit[2 * answer.n_audit++ + 1] = verdict->audit.data;
	}
	if (gq_review_print(&body, &answer)) {
		answer_unavailable(call->admission, call->request, GQ_REASON_OVERLOADED,
				   GQ_MSG_NO_MEMORY);
		return;
	}
	count(call->admission, call->request, verdict->kind, verdict->reason);
	gq_request_answer(call->request, &(struct gq_answer){.status = 200,
							     .content_type = "application/json",
							     .body = body.data,
							     .len = body.len});
}

static void answer_too_late(struct call *call)
{
	answer_unavailable(call->admission, call->request, GQ_REASON_TOO_LATE, GQ_MSG_TOO_LATE);
}

/* ---- waiting for others ---- */

/* Until when others may keep us waiting. */
static int64_t wait_deadline(const struct call *call, int64_t now_ns)
{
	int64_t way_ns = (call->deadline_ns - now_ns) / 8;

	return call->deadline_ns - (way_ns < WAY_NS ? way_ns : WAY_NS);
}

/* The journal does not hold what was granted. The API server tries a creation again; a binding that
 * nobody answers it would let pass, so that one is refused. */
static void answer_uncommitted(struct call *call)
{
	struct gq_verdict *verdict = &call->verdict;

	verdict->kind = call->pod ? GQ_VERDICT_UNAVAILABLE : GQ_VERDICT_DENY;
	verdict->reason = GQ_REASON_JOURNAL;
	verdict->n_warnings = 0;
	verdict->warnings_cut = false;
	gq_buf_reset(&verdict->message);
	verdict->locale = locale_of(call->admission, call);
	gq_message_print(&verdict->message, verdict->locale, GQ_MSG_JOURNAL, NULL, 0);
	answer_verdict(call, verdict);
}

/* Somebody else was waited for until the end. */
static void answer_waited(struct call *call)
{
	if (call->pod)
		answer_too_late(call);
	else
		answer_uncommitted(call);
}

static void on_committed(void *done_arg, int code)
{
	struct call *call = done_arg;

	if (code)
		answer_uncommitted(call);
	else
		answer_verdict(call, &call->verdict);
}

/* The one that ends last, the starter among them, has the request decided again. */
static void reads_leave(struct call *call)
{
	if (atomic_fetch_sub(&call->reads_under_way, 1) > 1)
		return;
	for (size_t i = 0; i < call->reads->n; i++)
		call->reads->items[i].done = call->reads->items[i].started;
	gq_request_retry(call->request, 0);
}

static void on_read(void *done_arg)
{
	reads_leave(done_arg);
}

static void reads_start(struct call *call, int64_t timeout_ns)
{
	const struct gq_admission_options *options = &call->admission->options;
	size_t n = call->reads->n; /* complete before the first answer can come */

	atomic_store(&call->reads_under_way, 1);
	for (size_t i = 0; i < n; i++) {
		struct gq_read *read = &call->reads->items[i];
		if (read->started)
			continue;
		read->started = true;
		atomic_fetch_add(&call->reads_under_way, 1);
		options->read(options->arg, read, timeout_ns, on_read, call);
	}
	reads_leave(call);
}

/* ---- the two kinds of reviews ---- */

static void proceed(struct call *call, struct gq_verdict *verdict, int64_t now_ns)
{
	const struct gq_admission_options *options = &call->admission->options;

	switch (verdict->kind) {
	case GQ_VERDICT_WAIT:
		if (now_ns + verdict->wait_ns >= wait_deadline(call, now_ns))
			answer_waited(call);
		else
			gq_request_retry(call->request, verdict->wait_ns);
		return;
	case GQ_VERDICT_READ:
		reads_start(call, wait_deadline(call, now_ns) - now_ns);
		return;
	case GQ_VERDICT_ALLOW:
		if (verdict->ticket) {
			gq_verdict_done(&call->verdict);
			call->verdict = *verdict;
			*verdict = GQ_VERDICT_INIT;
			options->commit(options->arg, call->verdict.ticket,
					wait_deadline(call, now_ns), on_committed, call);
			return;
		}
		break;
	case GQ_VERDICT_DENY:
	case GQ_VERDICT_UNAVAILABLE:
		break;
	}
	answer_verdict(call, verdict);
}

static int decide_create(struct call *call, int64_t now_ns, struct gq_verdict *verdict,
			 struct gq_err *err)
{
	const struct gq_admission_options *options = &call->admission->options;

	if (!call->reads && gq_pod_asks_for_gpu(call->pod)) {
		call->reads = malloc(sizeof *call->reads);
		if (!call->reads)
			return gq_fail(err, GQ_ENOMEM, "out of memory");
		call->reads->n = 0;
	}
	const struct gq_create create = {
	    .pod = call->pod,
	    .request_uid = call->review.uid,
	    .user = call->review.user,
	    .dry_run = call->review.dry_run,
	    .now_ns = now_ns,
	    .wall_s = gq_clock_wall_s(options->clock),
	    .deadline_ns = call->deadline_ns,
	    .reads = call->reads,
	};
	return gq_decide_create(options->ledger, &create, verdict, err);
}

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

static int decide_binding(struct call *call, int64_t now_ns, struct gq_verdict *verdict,
			  struct gq_err *err)
{
	const struct gq_review *review = &call->review;
	const struct gq_admission_options *options = &call->admission->options;
	struct gq_binding binding = {
	    .namespace_ = review->namespace_,
	    .name = review->name,
	    .dry_run = review->dry_run,
	    .now_ns = now_ns,
	    .wall_s = gq_clock_wall_s(options->clock),
	    .deadline_ns = call->deadline_ns,
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
	call->binding = binding;
	return gq_decide_binding(options->ledger, &binding, verdict, err);
}

static bool is_core(const struct gq_review *review, const char *resource, const char *subresource)
{
	return review->group[0] == '\0' && strcmp(review->resource, resource) == 0 &&
	       strcmp(review->subresource, subresource) == 0 &&
	       strcmp(review->operation, "CREATE") == 0;
}

static void decide(struct call *call)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	int64_t now_ns = gq_clock_mono_ns(call->admission->options.clock);
	struct gq_err err = {0};
	int code = 0;

	if (gq_request_orphaned(call->request)) { /* so nothing is reserved for it */
		answer_too_late(call);
		return;
	}
	if (call->pod) {
		code = decide_create(call, now_ns, &verdict, &err);
	} else if (is_core(&call->review, "pods", "binding") ||
		   is_core(&call->review, "bindings", "")) {
		code = decide_binding(call, now_ns, &verdict, &err);
	} else {
		verdict.kind = GQ_VERDICT_ALLOW;
		verdict.reason = GQ_REASON_NOT_OURS;
	}
	if (code) {
		answer_bad(call->admission, call->request, &err);
		return;
	}
	call->decided = true;
	call->locale = verdict.locale;
	proceed(call, &verdict, now_ns);
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
static int decide_policy(struct call *call, struct gq_verdict *verdict, struct gq_err *err)
{
	static const char *const key[] = {"data", "policy.yaml"};
	const struct gq_admission_options *options = &call->admission->options;
	const struct gq_review *review = &call->review;
	struct gq_policy_problems problems GQ_CLEANUP(gq_policy_problems_done) = {0};
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = NULL;
	struct gq_err parse_err = {0};
	const char *yaml;
	size_t len;

	verdict->kind = GQ_VERDICT_ALLOW;
	verdict->reason = GQ_REASON_NOT_OURS;
	if (review->group[0] || strcmp(review->resource, "configmaps") != 0 || !review->object ||
	    strcmp(review->namespace_, options->policy_namespace) != 0 ||
	    strcmp(review->name, options->policy_name) != 0)
		return 0;
	verdict->reason = GQ_REASON_POLICY;
	verdict->locale = gq_ledger_locale(options->ledger);
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

/* ---- a new request ---- */

static int read_pod(struct call *call, struct gq_err *err)
{
	static const char *const kind_key[] = {"kind"};
	const struct gq_review *review = &call->review;
	const char *kind;
	size_t len;

	if (!review->object)
		return gq_fail(err, GQ_EINVALID, "request.object is missing");
	int code = gq_review_object_string(review, kind_key, 1, &kind, &len, err);
	if (code)
		return code;
	if (kind && strcmp(kind, "Pod") != 0)
		return gq_fail(err, GQ_EINVALID, "request.object is no Pod");
	code = gq_pod_decode_tree(review->object, review->namespace_, &call->pod, err);
	if (code)
		return gq_err_prefix(err, code, "request.object: ");
	if (review->namespace_[0] && strcmp(call->pod->namespace_, review->namespace_) != 0)
		return gq_fail(err, GQ_EINVALID, "request.namespace and the pod's differ");
	if (!call->pod->namespace_[0])
		return gq_fail(err, GQ_EINVALID, "request.namespace is missing");
	if (!gq_object_name_ok(call->pod->namespace_) || !gq_object_name_ok(call->pod->name))
		return gq_fail(err, GQ_EINVALID, "request.object: no pod can have such a name");
	if (!call->pod->uid[0] && gq_pod_asks_for_gpu(call->pod))
		return gq_fail(err, GQ_EINVALID, "request.object: metadata.uid is missing");
	if (strlen(call->pod->uid) > GQ_UID_MAX_BYTES)
		return gq_fail(err, GQ_EINVALID,
			       "request.object: metadata.uid is longer than %d bytes",
			       GQ_UID_MAX_BYTES);
	return 0;
}

static struct call *call_new(struct gq_admission *admission, struct gq_request *request,
			     struct gq_err *err)
{
	struct call *call = calloc(1, sizeof *call);
	int64_t timeout_ns = TIMEOUT_DEFAULT_NS;
	size_t len;

	if (!call) {
		gq_fail(err, GQ_ENOMEM, "out of memory");
		return NULL;
	}
	call->admission = admission;
	call->request = request;
	call->verdict = GQ_VERDICT_INIT;
	const char *body = gq_request_body(request, &len);
	int code = gq_timeout_of_query(gq_request_query(request), &timeout_ns, err);
	if (!code)
		code = gq_review_decode(body, len, &call->review, err);
	if (!code && is_core(&call->review, "pods", "") &&
	    strcmp(gq_request_path(request), "/validate-policy") != 0)
		code = read_pod(call, err);
	if (code) {
		call_free(call);
		return NULL;
	}
	if (timeout_ns > TIMEOUT_MAX_NS)
		timeout_ns = TIMEOUT_MAX_NS;
	call->deadline_ns = gq_retries_first(admission->retries, call->review.uid,
					     gq_request_received_ns(request)) +
			    timeout_ns;
	return call;
}

static bool leads(const struct gq_admission *admission)
{
	const struct gq_admission_options *options = &admission->options;

	return !options->leads || options->leads(options->arg);
}

void gq_admission_handle(struct gq_admission *admission, struct gq_request *request)
{
	struct call *call = gq_request_state(request);
	struct gq_err err = {0};

	if (!leads(admission)) {
		answer_unavailable(admission, request, GQ_REASON_NOT_LEADER, GQ_MSG_NOT_LEADER);
		return;
	}

	if (!call) {
		call = call_new(admission, request, &err);
		if (!call) {
			answer_bad(admission, request, &err);
			return;
		}
		gq_request_set_state(request, call, call_free);
	}
	if (strcmp(gq_request_path(request), "/validate-policy") != 0) {
		decide(call);
		return;
	}
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	if (decide_policy(call, &verdict, &err))
		answer_bad(admission, request, &err);
	else
		answer_verdict(call, &verdict);
}
