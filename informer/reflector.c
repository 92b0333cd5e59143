#include "informer/reflector.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "informer/backoff.h"
#include "informer/reflector_internal.h"
#include "informer/status.h"

enum {
	RAW_MAX_BYTES = 16 << 20, /* of one object, as client-go's decoder */
	KEPT_MAX_BYTES = 4 << 20,
	ERROR_MAX_BYTES = 64 << 10,
	PAGE_SIZE = 500,
};

/* What our protocol needs of any object, on top of what the resource keeps. */
static const struct gq_json_keep keep_metadata[] = {
    {"resourceVersion", NULL}, {"annotations", gq_reflector_keep_marker}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_protocol[] = {{"metadata", keep_metadata}, GQ_JSON_KEEP_END};

static int64_t or_default(int64_t value, int64_t otherwise)
{
	return value > 0 ? value : otherwise;
}

int gq_reflector_new(const struct gq_informer_resource *resource,
		     const struct gq_informer_options *options, uint64_t seed,
		     struct gq_reflector **ret_reflector, struct gq_err *err)
{
	if (!resource->name || !resource->path || resource->path[0] != '/' || !resource->keep ||
	    !resource->on_event)
		return gq_fail(err, GQ_EINVALID, "a resource needs name, path, keep and on_event");
	GQ_CLEANUP(gq_cleanup_reflector) struct gq_reflector *r = calloc(1, sizeof *r);
	if (!r)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	GQ_CLEANUP(gq_cleanup_keep)
	struct gq_json_keep *protocol = gq_keep_merge(keep_protocol, gq_api_status_keep);
	r->resource = resource;
	r->options = options;
	r->keep = protocol ? gq_keep_merge(resource->keep, protocol) : NULL;
	if (!r->keep)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	r->silence_ns = or_default(options->silence_ns, 90 * GQ_NS_PER_S);
	r->watch_timeout_ns = or_default(options->watch_timeout_ns, 300 * GQ_NS_PER_S);
	r->page_size = options->page_size ? options->page_size : PAGE_SIZE;
	r->backoff.min_ns = or_default(options->backoff_min_ns, 800 * GQ_NS_PER_MS);
	r->backoff.max_ns = or_default(options->backoff_max_ns, 30 * GQ_NS_PER_S);
	r->backoff.random = seed;
	r->no_stream_list = options->no_watch_list;
	r->phase = r->no_stream_list ? GQ_PHASE_PAGED_LIST : GQ_PHASE_STREAM_LIST;
	r->error_body = GQ_BUF_INIT(ERROR_MAX_BYTES);
	*ret_reflector = GQ_STEAL(r);
	return 0;
}

void gq_reflector_free(struct gq_reflector *r)
{
	if (!r)
		return;
	gq_json_stream_free(r->stream);
	gq_keep_free(r->keep);
	gq_buf_done(&r->error_body);
	free(r->continue_token);
	free(r);
}

const struct gq_reflector_counters *gq_reflector_counters(const struct gq_reflector *r)
{
	return &r->counters;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t gq_reflector_deadline(const struct gq_reflector *r)
{
	if (!r->running)
		return r->next_ns;
	int64_t silent = r->heard_ns + r->silence_ns;
	if (r->phase != GQ_PHASE_STREAM_LIST || r->status != 200)
		return silent;
	return earlier(silent,
		       earlier(r->heard_ns + GQ_MARKER_QUIET_NS, r->began_ns + GQ_MARKER_TOTAL_NS));
}

void gq_reflector_hurry(struct gq_reflector *r, int64_t now_ns)
{
	if (!r->running && r->next_ns > now_ns)
		r->next_ns = now_ns;
}

static void query(struct gq_buf *path, const char *key, const char *value)
{
	gq_buf_putc(path, strchr(path->data, '?') ? '&' : '?');
	gq_buf_puts(path, key);
	gq_buf_putc(path, '=');
	gq_buf_url_escape(path, value);
}

static void query_number(struct gq_buf *path, const char *key, uint64_t value)
{
	gq_buf_printf(path, "%c%s=%llu", strchr(path->data, '?') ? '&' : '?', key,
		      (unsigned long long)value);
}

static void query_watch(struct gq_reflector *r, struct gq_buf *path)
{
	/* drawn anew each time, so that the watches of many clients do not end together */
	uint64_t span = (uint64_t)(r->watch_timeout_ns / GQ_NS_PER_S);
	uint64_t seconds = span + gq_backoff_random(&r->backoff.random, span + 1);

	query(path, "watch", "1");
	query(path, "allowWatchBookmarks", "true");
	query_number(path, "timeoutSeconds", seconds ? seconds : 1);
	if (r->phase == GQ_PHASE_STREAM_LIST) {
		query(path, "sendInitialEvents", "true");
		query(path, "resourceVersionMatch", "NotOlderThan");
		query(path, "resourceVersion", "");
	} else {
		query(path, "resourceVersion", r->version);
	}
}

/* Whether the request is the first of a list. */
static bool begins_list(const struct gq_reflector *r)
{
	return r->phase == GQ_PHASE_STREAM_LIST ||
	       (r->phase == GQ_PHASE_PAGED_LIST && !r->continue_token);
}

int gq_reflector_begin(struct gq_reflector *r, int64_t now_ns, struct gq_buf *path,
		       struct gq_err *err)
{
	r->status = 0;
	r->items = 0;
	r->failed = false;
	r->failure = (struct gq_err){0};
	r->told = (struct gq_api_status){0};
	gq_buf_reset(&r->error_body);
	if (gq_buf_puts(path, r->resource->path))
		return gq_fail(err, path->code, "can't make room for a path");
	if (r->resource->field_selector)
		query(path, "fieldSelector", r->resource->field_selector);
	if (r->phase == GQ_PHASE_PAGED_LIST) {
		/* without a resourceVersion: the newest state */
		query_number(path, "limit", r->page_size);
		if (r->continue_token)
			query(path, "continue", r->continue_token);
	} else {
		query_watch(r, path);
		atomic_fetch_add(&r->counters.watches, 1);
	}
	if (path->code)
		return gq_fail(err, path->code, "can't make room for a path");
	r->running = true;
	r->began_ns = r->heard_ns = now_ns;
	if (begins_list(r))
		r->list_began_ns = now_ns;
	return 0;
}

static int fail_running(struct gq_reflector *r, const struct gq_err *why)
{
	r->failed = true;
	r->failure = *why;
	return why->code;
}

int gq_reflector_response(struct gq_reflector *r, int64_t now_ns, long status)
{
	struct gq_err why = {0};

	r->heard_ns = now_ns;
	atomic_store(&r->counters.last_byte_ns, now_ns);
	if (r->status)
		return 0; /* trailers look like a second head */
	r->status = status;
	if (status != 200)
		return 0;
	const struct gq_json_stream_options options = {
	    .shape = r->phase == GQ_PHASE_PAGED_LIST ? GQ_JSON_LIST : GQ_JSON_WATCH,
	    .keep = r->keep,
	    .max_raw_bytes = RAW_MAX_BYTES,
	    .max_kept_bytes = KEPT_MAX_BYTES,
	    .on_item = gq_reflector_item,
	    .arg = r,
	};
	r->stream = gq_json_stream_new(&options);
	if (!r->stream) {
		(void)gq_fail(&why, GQ_ENOMEM, "out of memory");
		return fail_running(r, &why);
	}
	if (r->phase == GQ_PHASE_WATCH)
		atomic_store(&r->counters.connected, true);
	if (begins_list(r)) {
		atomic_fetch_add(&r->counters.lists, 1);
		if (gq_reflector_tell(r, GQ_EVENT_LIST_BEGIN, NULL, &why))
			return fail_running(r, &why);
	}
	return 0;
}

int gq_reflector_data(struct gq_reflector *r, int64_t now_ns, const char *bytes, size_t len)
{
	struct gq_err why = {0};

	r->heard_ns = now_ns;
	atomic_store(&r->counters.last_byte_ns, now_ns);
	atomic_fetch_add(&r->counters.bytes, len);
	if (r->failed)
		return r->failure.code;
	if (!r->stream) /* of a failed request, the beginning is enough */
		return gq_buf_append(&r->error_body, bytes, len);
	if (gq_json_stream_feed(r->stream, bytes, len, &why))
		return fail_running(r, &why);
	return 0;
}

void gq_reflector_idle(struct gq_reflector *r)
{
	struct gq_err why = {0};

	if (!r->dirty)
		return;
	const struct gq_event event = {.kind = GQ_EVENT_IDLE};
	if (r->resource->on_event(r->resource->arg, &event, &why) < 0)
		gq_reflector_problem(r, &why);
	r->dirty = false;
}
