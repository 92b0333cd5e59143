#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "informer/reflector_internal.h"

/* The end of a request: what it was worth and what comes next. */

#define WATCH_SPACING_NS GQ_NS_PER_S
enum { RETRY_AFTER_MAX_S = 300 };

/* What to do after a failure, apart from waiting. */
enum remedy {
	AGAIN,  /* the same request: the server, the network or the credentials failed */
	AFRESH, /* list from the beginning: what we asked for can't be had, or can't be read */
};

static void list_afresh(struct gq_reflector *r)
{
	free(r->continue_token);
	r->continue_token = NULL;
	r->version[0] = '\0';
	if (r->phase == GQ_PHASE_WATCH)
		r->phase = r->no_stream_list ? GQ_PHASE_PAGED_LIST : GQ_PHASE_STREAM_LIST;
}

static void release(struct gq_reflector *r)
{
	gq_json_stream_free(r->stream);
	r->stream = NULL;
	r->running = false;
	atomic_store(&r->counters.connected, false);
}

static void retry(struct gq_reflector *r, int64_t now_ns, enum remedy remedy, int retry_after_s,
		  struct gq_err *why)
{
	static const char *const what[] = {
	    [GQ_PHASE_STREAM_LIST] = "WatchList",
	    [GQ_PHASE_PAGED_LIST] = "list",
	    [GQ_PHASE_WATCH] = "watch",
	};

	(void)gq_err_prefix(why, why->code, "%s: ", what[r->phase]);
	atomic_fetch_add(&r->counters.errors, 1);
	int64_t delay = gq_backoff_next(&r->backoff, now_ns);
	if (retry_after_s > RETRY_AFTER_MAX_S)
		retry_after_s = RETRY_AFTER_MAX_S;
	if (delay < retry_after_s * GQ_NS_PER_S)
		delay = retry_after_s * GQ_NS_PER_S;
	r->next_ns = now_ns + delay;
	if (r->phase == GQ_PHASE_STREAM_LIST && why->code != GQ_ETHROTTLED)
		r->phase = GQ_PHASE_PAGED_LIST;
	else if (remedy == AFRESH)
		list_afresh(r);
	gq_reflector_problem(r, why);
}

static enum remedy remedy_for(const struct gq_reflector *r, int code)
{
	/* an error that came inside a stream says nothing of where to go on */
	if (r->failed || r->told.version_too_large)
		return AFRESH;
	return code == GQ_EIO || code == GQ_ETHROTTLED || code == GQ_EDENIED ? AGAIN : AFRESH;
}

static void end_refused(struct gq_reflector *r, int64_t now_ns, int retry_after_s)
{
	struct gq_api_status *told = &r->told;
	struct gq_err why = {0};

	bool is_status =
	    r->error_body.data && gq_api_status_parse(r->error_body.data, r->error_body.len, told);
	(void)gq_fail(&why, gq_api_status_code(r->status), "HTTP %ld%s%s", r->status,
		      is_status && told->message[0] ? ": " : "", told->message);
	if (!why.code)
		why.code = GQ_EIO; /* 2xx, but not 200 */
	bool unknown = r->phase == GQ_PHASE_STREAM_LIST && (r->status == 422 || r->status == 400);
	if (!retry_after_s)
		retry_after_s = told->retry_after_s;
	retry(r, now_ns, remedy_for(r, why.code), retry_after_s, &why);
	if (unknown) {
		/* once and for all, so there is no need to wait */
		r->no_stream_list = true;
		r->next_ns = now_ns;
	}
}

static int next_page(struct gq_reflector *r, const char *token, struct gq_err *err)
{
	if (strlen(token) > GQ_CONTINUE_MAX)
		return gq_fail(err, GQ_ETOOBIG, "a continue token of more than %d bytes",
			       GQ_CONTINUE_MAX);
	char *copy = strdup(token);
	if (!copy)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	free(r->continue_token);
	r->continue_token = copy;
	return 0;
}

static int end_page(struct gq_reflector *r, struct gq_err *err)
{
	const struct gq_json_list_info *info = gq_json_stream_list_info(r->stream);

	if (strcmp(info->kind, "Status") == 0) {
		int code = gq_api_status_code(info->code ? info->code : 500);
		return gq_fail(err, code ? code : GQ_EIO, "the server says %ld %s", info->code,
			       info->reason);
	}
	/* only an empty token ends the list; a page may be empty */
	if (info->continue_token[0])
		return next_page(r, info->continue_token, err);
	free(r->continue_token);
	r->continue_token = NULL;
	return gq_reflector_listed(r, info->resource_version, err);
}

/* HTTP 200 to its last byte, and nothing was wrong on the way. */
static void end_complete(struct gq_reflector *r, int64_t now_ns)
{
	const bool was_watch = r->phase == GQ_PHASE_WATCH;
	struct gq_err why = {0};

	int code = gq_json_stream_end(r->stream, &why);
	if (code && was_watch) {
		/* cut in the middle of an object: as good as a reset */
		why.code = GQ_EIO;
		retry(r, now_ns, AGAIN, 0, &why);
		return;
	}
	if (!code && r->phase == GQ_PHASE_PAGED_LIST)
		code = end_page(r, &why);
	else if (!code && r->phase == GQ_PHASE_STREAM_LIST)
		code = gq_fail(&why, GQ_EIO, "ended before the end of the initial events");
	else if (!code && was_watch && r->items == 0 && now_ns - r->began_ns < GQ_NS_PER_S)
		code = gq_fail(&why, GQ_EIO, "ended at once, without an event");
	if (code) {
		retry(r, now_ns, remedy_for(r, code), 0, &why);
		return;
	}
	r->next_ns = now_ns;
	if (was_watch && r->next_ns < r->began_ns + WATCH_SPACING_NS)
		r->next_ns = r->began_ns + WATCH_SPACING_NS;
}

void gq_reflector_end(struct gq_reflector *r, int64_t now_ns, const struct gq_err *failure,
		      int retry_after_s)
{
	struct gq_err why = {0};

	if (r->failed) {
		why = r->failure;
		retry(r, now_ns, remedy_for(r, why.code), r->told.retry_after_s, &why);
	} else if (r->status && r->status != 200) {
		end_refused(r, now_ns, retry_after_s);
	} else if (failure || !r->stream) {
		if (failure)
			why = *failure;
		else
			(void)gq_fail(&why, GQ_EIO, "there was no answer");
		retry(r, now_ns, AGAIN, 0, &why);
	} else {
		end_complete(r, now_ns);
	}
	release(r);
}

void gq_reflector_cut(struct gq_reflector *r, int64_t now_ns)
{
	struct gq_err why = {0};

	if (r->phase == GQ_PHASE_STREAM_LIST && r->status == 200) {
		(void)gq_fail(&why, GQ_EIO,
			      "the server did not mark the end of the initial events: it lists by "
			      "pages from now on");
		r->no_stream_list = true;
	} else {
		(void)gq_fail(&why, GQ_EIO, "no byte for %lld s: cut",
			      (long long)((now_ns - r->heard_ns) / GQ_NS_PER_S));
	}
	retry(r, now_ns, AGAIN, 0, &why);
	release(r);
}

void gq_reflector_relist(struct gq_reflector *r, int64_t now_ns)
{
	list_afresh(r);
	r->next_ns = now_ns;
	release(r);
}
