#include "controller/recount.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_filter.h"
#include "base/log.h"
#include "controller/drift_log.h"
#include "controller/feed.h"

enum {
	LIST_TRIES = 3,
	PAGE_PODS = 500,
	PAGES_MAX = 20000,         /* ten million pods */
	PAGE_MAX_BYTES = 32 << 20, /* of the fields that are kept */
	POD_MAX_BYTES = 4 << 20,   /* the same of one pod */
	CONTINUE_MAX_BYTES = 16 << 10,
	BATCH = 64,     /* pods that the ledger is told at once */
	GETS_MAX = 32,  /* questions that wait for their answer */
	ASKED_MAX = 512 /* and those that wait for the watch besides */
};
#define PAGE_TIMEOUT_NS (30 * GQ_NS_PER_S)
#define GET_TIMEOUT_NS (10 * GQ_NS_PER_S)
/* The watch usually takes milliseconds. */
#define WATCH_GRACE_NS (2 * GQ_NS_PER_S)

/* One suspect, from the question to the verdict. */
struct question {
	struct gq_recounter *recounter;
	struct question *prev, *next;
	struct gq_probe probe;
	struct gq_pod *pod; /* what the GET showed; NULL: no pod with that uid */
	int64_t begun_ns;
};

struct gq_recounter {
	struct gq_recounter_options options;
	atomic_bool busy;
	/* Of whoever started the recount, then of the API client's thread, then of the counting
	 * one. */
	struct gq_recount_result result;
	void (*done)(void *arg, const struct gq_recount_result *result);
	void *arg;
	unsigned tries, pages;
	struct gq_pod *batch[BATCH];
	size_t n_batch;
	struct question *questions;
	size_t n_questions; /* of these, n_gets wait for the answer */
	size_t n_gets;
	pthread_t thread;
	bool has_thread; /* that was not joined yet */
};

static const struct gq_json_keep list_metadata_keep[] = {{"continue", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep list_keep[] = {
    {"kind", NULL}, {"metadata", list_metadata_keep}, {"items", gq_pod_keep}, GQ_JSON_KEEP_END};

struct gq_recounter *gq_recounter_new(const struct gq_recounter_options *options)
{
	struct gq_recounter *r = calloc(1, sizeof *r);

	if (r)
		r->options = *options;
	return r;
}

static void result_done(struct gq_recount_result *result)
{
	gq_drift_done(&result->missed);
	gq_drift_done(&result->drift);
}

static void question_free(struct question *q)
{
	struct gq_recounter *r = q->recounter;

	if (q->prev)
		q->prev->next = q->next;
	else
		r->questions = q->next;
	if (q->next)
		q->next->prev = q->prev;
	r->n_questions--;
	gq_pod_unref(q->pod);
	free(q);
}

void gq_recounter_free(struct gq_recounter *r)
{
	if (!r)
		return;
	if (r->has_thread)
		(void)pthread_join(r->thread, NULL);
	/* those whose time had not come when the client ended */
	while (r->questions)
		question_free(r->questions);
	result_done(&r->result);
	free(r);
}

static int64_t now(const struct gq_recounter *r)
{
	return gq_clock_mono_ns(r->options.clock);
}

/* The first problem is the one that is told. */
static void problem(struct gq_recounter *r, int code, const char *message)
{
	if (r->result.code)
		return;
	r->result.code = code;
	(void)snprintf(r->result.problem, sizeof r->result.problem, "%.511s", message);
}

/* ---- counting anew, the last step ---- */

static void *count_anew(void *arg)
{
	struct gq_recounter *r = arg;
	struct gq_err err;
	int code = gq_ledger_recount(r->options.ledger, now(r), &r->result.drift, &err);

	if (code)
		problem(r, code, err.msg);
	gq_drift_log(&r->result.drift);
	r->done(r->arg, &r->result);
	result_done(&r->result);
	atomic_store(&r->busy, false);
	return NULL;
}

static void finish(struct gq_recounter *r)
{
	gq_ledger_verify_end(r->options.ledger);
	gq_drift_log(&r->result.missed);
	if (r->has_thread)
		(void)pthread_join(r->thread, NULL); /* of the one before: it is over */
	r->has_thread = true;
	if (pthread_create(&r->thread, NULL, count_anew, r)) {
		r->has_thread = false;
		(void)count_anew(r);
	}
}

/* ---- questions ---- */

static void ask_more(struct gq_recounter *r);

static void unanswered(struct question *q, int code, const char *why)
{
	struct gq_recounter *r = q->recounter;
	struct gq_err err;

	gq_fail(&err, code, "pod %s/%s: %s", q->probe.namespace_, q->probe.name, why);
	problem(r, code, err.msg);
	r->result.unanswered++;
	question_free(q);
}

static void tell_verdict(struct gq_recounter *r, const struct gq_probe *pod,
			 enum gq_suspect_verdict verdict)
{
	switch (verdict) {
	case GQ_SUSPECT_AGREES:
		break;
	case GQ_SUSPECT_REMOVED:
		r->result.removed++;
		gq_log(GQ_LOG_ERROR, "a pod was charged that holds nothing any more",
		       GQ_S("namespace", pod->namespace_), GQ_S("pod", pod->name));
		break;
	case GQ_SUSPECT_CHARGED:
		r->result.charged++;
		gq_log(GQ_LOG_ERROR, "a pod was not charged", GQ_S("namespace", pod->namespace_),
		       GQ_S("pod", pod->name));
		break;
	case GQ_SUSPECT_CORRECTED:
		r->result.corrected++;
		gq_log(GQ_LOG_ERROR, "a pod was charged in a state that is over",
		       GQ_S("namespace", pod->namespace_), GQ_S("pod", pod->name));
		break;
	}
}

/* The watch has had its time. */
static void on_due(void *arg)
{
	struct question *q = arg;
	struct gq_recounter *r = q->recounter;
	enum gq_suspect_verdict verdict;
	struct gq_err err;
	int code = gq_ledger_suspect_judge(r->options.ledger, q->probe.uid, q->pod, now(r),
					   &r->result.missed, &verdict, &err);

	if (code) {
		unanswered(q, code, err.msg);
	} else {
		tell_verdict(r, &q->probe, verdict);
		question_free(q);
	}
	ask_more(r);
}

/* q->pod is what there is: agreed at once, or in so long. */
static void answered(struct question *q)
{
	struct gq_recounter *r = q->recounter;
	int64_t left_ns = q->begun_ns + WATCH_GRACE_NS - now(r);
	struct gq_err err;

	if (gq_ledger_suspect_agrees(r->options.ledger, q->probe.uid, q->pod)) {
		question_free(q);
		return;
	}
	int code = gq_api_after(r->options.api, left_ns > 0 ? left_ns : 0, on_due, q, &err);
	if (code)
		unanswered(q, code, err.msg);
}

static void on_get(void *arg, const struct gq_api_response *response)
{
	struct question *q = arg;
	struct gq_recounter *r = q->recounter;
	struct gq_err err, why = {0};
	int code = response->code;

	r->n_gets--;
	if (!code)
		code = gq_feed_pod_decode(response->body, response->len, &q->pod, &why, &err);
	else if (code == GQ_ENOTFOUND)
		code = 0;
	else
		gq_fail(&err, code, "%s", response->error);
	if (!code && q->pod && strcmp(q->pod->uid, q->probe.uid) != 0) {
		gq_pod_unref(q->pod);
		q->pod = NULL;
	}
	if (code)
		unanswered(q, code, err.msg);
	else
		answered(q);
	ask_more(r);
}

static void ask(struct question *q)
{
	struct gq_recounter *r = q->recounter;
	const struct gq_probe *probe = &q->probe;
	struct gq_err err = {0};
	char path[640];

	/* no resourceVersion: the most recent state, whatever a cache has */
	int n = snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", probe->namespace_,
			 probe->name);
	const struct gq_api_request request = {.method = "GET",
					       .path = path,
					       .keep = gq_pod_keep,
					       .timeout_ns = GET_TIMEOUT_NS,
					       .on_done = on_get,
					       .arg = q};
	int code = 0;
	if (n < 0 || (size_t)n >= sizeof path || !gq_object_name_ok(probe->namespace_) ||
	    !gq_object_name_ok(probe->name))
		code = gq_fail(&err, GQ_EINVALID, "no pod can have that name");
	r->n_gets++;
	if (!code)
		code = gq_api_start(r->options.api, &request, &err);
	if (code) {
		r->n_gets--;
		unanswered(q, code, err.msg);
	}
}

/* Asks about as many suspects as may be under way. Ends the recount when none is left. */
static void ask_more(struct gq_recounter *r)
{
	struct gq_probe probe;

	while (r->n_gets < GETS_MAX && r->n_questions < ASKED_MAX &&
	       gq_ledger_suspect_next(r->options.ledger, &probe)) {
		struct question *q = calloc(1, sizeof *q);
		r->result.suspects++;
		if (!q) {
			problem(r, GQ_ENOMEM, "out of memory for a question");
			r->result.unanswered++;
			continue;
		}
		*q = (struct question){
		    .recounter = r, .next = r->questions, .probe = probe, .begun_ns = now(r)};
		if (q->next)
			q->next->prev = q;
		r->questions = q;
		r->n_questions++;
		ask(q);
	}
	if (r->n_questions == 0)
		finish(r);
}

/* ---- the list ---- */

static void batch_drop(struct gq_recounter *r)
{
	for (size_t i = 0; i < r->n_batch; i++)
		gq_pod_unref(r->batch[i]);
	r->n_batch = 0;
}

/* Passes on what the ledger says of the list. So many suspects are asked about by listing again. */
static int told(struct gq_recounter *r, int code)
{
	r->result.relist = r->result.relist || code == GQ_ETOOBIG;
	return code;
}

static int batch_tell(struct gq_recounter *r, struct gq_err *err)
{
	int code = gq_ledger_verify_listed(r->options.ledger,
					   (const struct gq_pod *const *)r->batch, r->n_batch, err);

	batch_drop(r);
	return told(r, code);
}

static int on_item(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct gq_recounter *r = arg;
	struct gq_pod *pod = NULL;
	struct gq_err why = {0};
	int code = gq_feed_pod_decode(item->json, item->len, &pod, &why, err);

	if (code == GQ_ENOMEM)
		return code;
	if (code) /* the watch could not read it either, and tells of it */
		return 0;
	if (!gq_pod_holds(pod)) {
		gq_pod_unref(pod);
		return 0;
	}
	r->result.pods++;
	r->batch[r->n_batch++] = pod;
	return r->n_batch == BATCH ? batch_tell(r, err) : 0;
}

/* ret_token: of the next page, NULL behind the last; free(). */
static int page_read(struct gq_recounter *r, const struct gq_api_response *response,
		     char **ret_token, struct gq_err *err)
{
	const struct gq_json_stream_options options = {.shape = GQ_JSON_LIST,
						       .max_raw_bytes = POD_MAX_BYTES,
						       .max_kept_bytes = POD_MAX_BYTES,
						       .on_item = on_item,
						       .arg = r};
	struct gq_json_stream *stream GQ_CLEANUP(gq_cleanup_json_stream) =
	    gq_json_stream_new(&options);

	if (!stream)
		return gq_fail(err, GQ_ENOMEM, "out of memory for a list of pods");
	int code = gq_json_stream_feed(stream, response->body, response->len, err);
	if (!code)
		code = gq_json_stream_end(stream, err);
	if (!code)
		code = batch_tell(r, err);
	batch_drop(r);
	if (code)
		return code;
	const char *token = gq_json_stream_list_info(stream)->continue_token;
	*ret_token = NULL;
	if (!token[0])
		return 0;
	if (strlen(token) > CONTINUE_MAX_BYTES)
		return gq_fail(err, GQ_ETOOBIG, "a continue token of %zu bytes", strlen(token));
	*ret_token = strdup(token);
	return *ret_token ? 0 : gq_fail(err, GQ_ENOMEM, "out of memory for a list of pods");
}

static void on_page(void *arg, const struct gq_api_response *response);

static int page_ask(struct gq_recounter *r, const char *token, struct gq_err *err)
{
	struct gq_buf path GQ_BUF_CLEANUP = GQ_BUF_INIT(3 * CONTINUE_MAX_BYTES + 256);

	if (++r->pages > PAGES_MAX)
		return gq_fail(err, GQ_ETOOBIG, "more than %d pages of pods", PAGES_MAX);
	/* no resourceVersion: a consistent read, whatever a cache has */
	gq_buf_printf(&path, "/api/v1/pods?limit=%d", PAGE_PODS);
	if (token) {
		gq_buf_puts(&path, "&continue=");
		gq_buf_url_escape(&path, token);
	}
	if (path.code)
		return gq_fail(err, path.code, "out of memory for a list of pods");
	const struct gq_api_request request = {.method = "GET",
					       .path = path.data,
					       .keep = list_keep,
					       .max_bytes = PAGE_MAX_BYTES,
					       .timeout_ns = PAGE_TIMEOUT_NS,
					       .on_done = on_page,
					       .arg = r};
	return gq_api_start(r->options.api, &request, err);
}

static int list_end(struct gq_recounter *r, struct gq_err *err)
{
	int code = told(r, gq_ledger_verify_unlisted(r->options.ledger, err));

	if (code)
		return code;
	r->result.listed = true;
	ask_more(r);
	return 0;
}

static int list_begin(struct gq_recounter *r, struct gq_err *err)
{
	int code = gq_ledger_verify_begin(r->options.ledger, err);

	r->tries++;
	r->pages = 0;
	r->result.pods = 0;
	return code ? code : page_ask(r, NULL, err);
}

/* The list will not come to its end: nothing that it has told is acted upon. */
static void list_fail(struct gq_recounter *r, int code, struct gq_err *err)
{
	gq_err_prefix(err, code, "a list of the pods: ");
	problem(r, code, err->msg);
	if (r->result.relist && r->options.relist)
		r->options.relist(r->options.arg);
	finish(r);
}

static void on_page(void *arg, const struct gq_api_response *response)
{
	struct gq_recounter *r = arg;
	char *token GQ_AUTOFREE = NULL;
	struct gq_err err = {0};
	int code = response->code;

	if (code)
		gq_fail(&err, code, "%s", response->error);
	else
		code = page_read(r, response, &token, &err);
	if (code == GQ_EGONE && r->tries < LIST_TRIES)
		code = list_begin(r, &err);
	else if (!code && token)
		code = page_ask(r, token, &err);
	else if (!code)
		code = list_end(r, &err);
	if (code)
		list_fail(r, code, &err);
}

bool gq_recounter_start(struct gq_recounter *r, bool list,
			void (*done)(void *arg, const struct gq_recount_result *result), void *arg)
{
	struct gq_err err = {0};

	if (atomic_exchange(&r->busy, true))
		return false;
	r->result = (struct gq_recount_result){0};
	r->done = done;
	r->arg = arg;
	r->tries = 0;
	if (!list)
		finish(r);
	else if (list_begin(r, &err))
		list_fail(r, err.code, &err);
	return true;
}
