#ifndef GQ_INFORMER_REFLECTOR_INTERNAL_H
#define GQ_INFORMER_REFLECTOR_INTERNAL_H

#include "base/json_filter.h"
#include "informer/backoff.h"
#include "informer/keep.h"
#include "informer/reflector.h"
#include "informer/status.h"

/* A resourceVersion is opaque: copied, sent back, never parsed. */
enum { GQ_VERSION_MAX = 255, GQ_CONTINUE_MAX = 16 << 10 };

/* How long a WatchList may go on without its marker: since the last byte, and in all. A server
 * that does not know sendInitialEvents never sends one. */
#define GQ_MARKER_QUIET_NS (10 * GQ_NS_PER_S)
#define GQ_MARKER_TOTAL_NS (120 * GQ_NS_PER_S)

enum gq_phase {
	GQ_PHASE_STREAM_LIST, /* WatchList before its marker; the same stream then is the watch */
	GQ_PHASE_PAGED_LIST,
	GQ_PHASE_WATCH,
};

struct gq_reflector {
	const struct gq_informer_resource *resource;
	const struct gq_informer_options *options;
	struct gq_json_keep *keep; /* the resource's and ours */
	struct gq_reflector_counters counters;
	struct gq_backoff backoff;
	int64_t silence_ns;
	int64_t watch_timeout_ns;
	size_t page_size;
	bool no_stream_list; /* not wanted, or not to be had here */

	enum gq_phase phase;
	char version[GQ_VERSION_MAX + 1]; /* where to watch from */
	char *continue_token;             /* of the next page, or NULL */
	int64_t next_ns;                  /* no request runs: when the next may begin */
	int64_t list_began_ns;            /* the first request of the last list */
	bool dirty;                       /* events since the last GQ_EVENT_IDLE */

	/* The request that runs. */
	bool running;
	int64_t began_ns;
	int64_t heard_ns; /* last byte, or the beginning */
	long status;
	uint64_t items; /* documents of the stream, bookmarks too */
	struct gq_json_stream *stream;
	struct gq_buf error_body;
	bool failed; /* by what came, or by on_event */
	struct gq_err failure;
	struct gq_api_status told; /* by an ERROR event */
};

/* reflector_item.c */

/* metadata.annotations: the marker at the end of the initial events. */
extern const struct gq_json_keep gq_reflector_keep_marker[];
int gq_reflector_item(void *arg, const struct gq_json_item *item, struct gq_err *err);
/* Calls on_event. Non-zero ends the stream; objects that are not understood don't. */
int gq_reflector_tell(struct gq_reflector *r, enum gq_event_kind kind,
		      const struct gq_json_item *item, struct gq_err *err);
/* The list is complete, in the state of version: tells so and goes on to watch. */
int gq_reflector_listed(struct gq_reflector *r, const char *version, struct gq_err *err);
void gq_reflector_problem(struct gq_reflector *r, const struct gq_err *why);

#endif
