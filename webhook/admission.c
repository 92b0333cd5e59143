#include "webhook/admission.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "quota/message.h"
#include "webhook/retries.h"
#include "webhook/review.h"
#include "webhook/subject.h"
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
#define AUDIT_PAIRS_MAX 4

const double gq_duration_bounds_s[GQ_DURATION_BUCKETS] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10};

struct gq_admission {
	struct gq_admission_options options;
	struct gq_retries *retries;
	_Atomic uint64_t reviews[GQ_VERDICT_UNAVAILABLE + 1][GQ_REASON_COUNT];
	_Atomic uint64_t rule_findings[GQ_RULES][GQ_MODE_DISABLED];
	_Atomic uint64_t duration_buckets[GQ_DURATION_BUCKETS + 1];
	_Atomic uint64_t duration_sum_ns;
};

/* One review from its arrival to its answer. */
struct call {
	struct gq_admission *admission;
	struct gq_request *request;
	struct gq_review review;
	struct gq_subject subject;
	struct gq_err too_big; /* code 0: the subject was read */
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

static void count_findings(struct gq_admission *admission, const struct gq_verdict *verdict)
{
	for (int m = 0; m < GQ_MODE_DISABLED; m++)
		for (int r = 0; verdict->rule_findings[m] >> r; r++)
			if (verdict->rule_findings[m] >> r & 1)
				atomic_fetch_add(&admission->rule_findings[r][m], 1);
}

void gq_admission_stats(const struct gq_admission *admission, struct gq_admission_stats *ret_stats)
{
	for (int k = 0; k <= GQ_VERDICT_UNAVAILABLE; k++)
		for (int r = 0; r < GQ_REASON_COUNT; r++)
			ret_stats->reviews[k][r] = atomic_load(&admission->reviews[k][r]);
	for (int r = 0; r < GQ_RULES; r++)
		for (int m = 0; m < GQ_MODE_DISABLED; m++)
			ret_stats->rule_findings[r][m] =
			    atomic_load(&admission->rule_findings[r][m]);
	for (int b = 0; b <= GQ_DURATION_BUCKETS; b++)
		ret_stats->duration_buckets[b] = atomic_load(&admission->duration_buckets[b]);
	ret_stats->duration_sum_s = (double)atomic_load(&admission->duration_sum_ns) / 1e9;
}

/* ---- answers ---- */

static void call_free(void *state)
{
	struct call *call = state;

	gq_subject_done(&call->subject);
	gq_review_done(&call->review);
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
	if (call && gq_subject_is_awaited(&call->subject)) {
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
	const struct gq_subject *subject = &call->subject;
	const struct gq_create create = {.pod = subject->pod, .dry_run = call->review.dry_run};

	if (!options->on_denied)
		return;
	if (subject->kind == GQ_SUBJECT_POD)
		options->on_denied(options->arg, &create, NULL, verdict);
	else if (subject->kind == GQ_SUBJECT_BINDING)
		options->on_denied(options->arg, NULL, &subject->binding, verdict);
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
	count_findings(call->admission, verdict);
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

	verdict->kind =
	    call->subject.kind == GQ_SUBJECT_BINDING ? GQ_VERDICT_DENY : GQ_VERDICT_UNAVAILABLE;
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
	if (call->subject.kind == GQ_SUBJECT_BINDING)
		answer_uncommitted(call);
	else
		answer_too_late(call);
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

/* ---- deciding ---- */

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

static int make_reads(struct call *call, struct gq_err *err)
{
	if (call->reads || !gq_subject_needs_reads(&call->subject, call->admission->options.ledger))
		return 0;
	call->reads = malloc(sizeof *call->reads);
	if (!call->reads)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	call->reads->n = 0;
	return 0;
}

/* More of something than anybody has. An error would have the API server let it pass where the
 * registration says so. */
static void answer_too_big(struct call *call)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;

	verdict.kind = GQ_VERDICT_DENY;
	verdict.reason = GQ_REASON_UNSUPPORTED;
	gq_message_print(&verdict.message, locale_of(call->admission, call), GQ_MSG_OBJECT_TOO_BIG,
			 &(struct gq_message_arg){"detail", call->too_big.msg}, 1);
	answer_verdict(call, &verdict);
}

static void decide(struct call *call)
{
	const struct gq_admission_options *options = &call->admission->options;
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	const struct gq_subject_time time = {.now_ns = gq_clock_mono_ns(options->clock),
					     .wall_s = gq_clock_wall_s(options->clock),
					     .deadline_ns = call->deadline_ns};
	struct gq_err err = {0};

	if (gq_request_orphaned(call->request)) { /* so nothing is reserved for it */
		answer_too_late(call);
		return;
	}
	if (call->too_big.code) {
		answer_too_big(call);
		return;
	}
	int code = make_reads(call, &err);
	if (!code)
		code = gq_subject_decide(&call->subject, options->ledger, &time, call->reads,
					 &verdict, &err);
	if (code) {
		answer_bad(call->admission, call->request, &err);
		return;
	}
	call->decided = true;
	call->locale = verdict.locale;
	proceed(call, &verdict, time.now_ns);
}

/* ---- a new request ---- */

static bool judges_policy(const struct gq_request *request)
{
	return strcmp(gq_request_path(request), "/validate-policy") == 0;
}

static struct call *call_new(struct gq_admission *admission, struct gq_request *request,
			     struct gq_err *err)
{
	const struct gq_policy_place policy = {admission->options.policy_namespace,
					       admission->options.policy_name};
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
	if (!code)
		code = gq_subject_read(&call->review, judges_policy(request) ? &policy : NULL,
				       &call->subject, err);
	if (code == GQ_ETOOBIG && call->review.root) { /* refused in a review: it is a sound one */
		gq_subject_done(&call->subject);
		call->too_big = *err;
		code = 0;
	}
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
	decide(call);
}
