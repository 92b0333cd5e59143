#ifndef GQ_INFORMER_INFORMER_H
#define GQ_INFORMER_INFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_filter.h"
#include "informer/credential.h"
#include "informer/kubeconfig.h"

/* Lists and watches some collections of the API server: one thread, one libcurl multi for all of
 * them. Knows nothing of what the objects mean: it hands over the (pruned) bytes of one object.
 *
 * Each collection is first listed: by a WatchList (sendInitialEvents) where the server can, else by
 * a paged LIST. It is then watched from the last resourceVersion seen (bookmarks count), resumed
 * there after a clean end, and listed again after 410 Gone in either form, an ERROR event or when
 * the server no longer knows that version. Failures are retried with jittered exponential backoff
 * (0.8 s doubling to 30 s, Retry-After obeyed); after a 401 another token in its file ends the wait
 * within a second. A watch that is silent for too long is cut.
 * resourceVersions are opaque strings. Source: client-go, tools/cache/reflector.go. */
struct gq_informer;

enum gq_event_kind {
	GQ_EVENT_LIST_BEGIN, /* a full list starts: objects follow as UPSERT. A list that fails half
				way is followed by another LIST_BEGIN, without END. */
	GQ_EVENT_UPSERT,     /* the object exists, in this state */
	GQ_EVENT_DELETE,     /* the object is gone; the bytes are its last state */
	GQ_EVENT_LIST_END,   /* every object not seen since LIST_BEGIN is gone */
	GQ_EVENT_IDLE,       /* the events at hand are through: a good time for work that is better
				done once for many */
};

struct gq_event {
	enum gq_event_kind kind;
	const char *json; /* UPSERT, DELETE: the pruned object, NUL-terminated; else NULL */
	size_t len;
	const char *resource_version; /* UPSERT, DELETE */
	int64_t begun_ns; /* LIST_BEGIN, LIST_END: when the list's first request was made; what
			     existed then and still does is in the list */
};

struct gq_informer_resource {
	const char *name;                /* for metrics and logs: "pods" */
	const char *path;                /* "/api/v1/pods" */
	const char *field_selector;      /* or NULL: "metadata.name=gpuquota-policy" */
	const struct gq_json_keep *keep; /* metadata.resourceVersion and a few fields of the
					    protocol are kept besides */
	/* On the informer's thread, no lock held. A negative return (err filled) means that this
	 * object was not understood: it is counted, told to on_problem, and skipped. GQ_ENOMEM, and
	 * any failure of LIST_BEGIN or LIST_END, is another matter: the collection is listed again.
	 */
	int (*on_event)(void *arg, const struct gq_event *event, struct gq_err *err);
	void *arg;
};

/* Everything pointed to is borrowed for the informer's life, the resources too. */
struct gq_informer_options {
	const struct gq_kubeconfig *config;
	struct gq_credential *credential; /* or NULL: one of its own */
	const char *user_agent;
	const struct gq_informer_resource *resources;
	size_t n_resources;
	const struct gq_clock *clock; /* NULL: the machine's */
	/* Something a person should know: a failed list or watch, an object that was not
	 * understood. On the informer's thread. */
	void (*on_problem)(void *arg, const char *resource, int code, const char *message);
	/* A collection has its first full list. */
	void (*on_synced)(void *arg, const char *resource);
	void *arg;
	/* Zero takes the default. */
	int64_t watch_timeout_ns; /* asked of the server: 5 min to 10 min, drawn anew each time */
	int64_t silence_ns;       /* no byte, not even a bookmark, for so long: cut. 90 s; bookmarks
				     come about once a minute */
	int64_t backoff_min_ns;   /* 800 ms */
	int64_t backoff_max_ns;   /* 30 s */
	size_t page_size;         /* of a paged LIST: 500 */
	bool no_watch_list;       /* paged LIST only */
};

int gq_informer_new(const struct gq_informer_options *options, struct gq_informer **ret_informer,
		    struct gq_err *err);
/* Starts the thread. */
int gq_informer_start(struct gq_informer *informer, struct gq_err *err);
/* Stops and joins the thread; callbacks are over when it returns. Takes NULL. */
void gq_informer_free(struct gq_informer *informer);
GQ_DEFINE_CLEANUP(gq_cleanup_informer, struct gq_informer, gq_informer_free);

/* The collection with that name is listed in full again, at once, whatever its watch is doing. Any
 * thread. A name that is not known does nothing. */
void gq_informer_relist(struct gq_informer *informer, const char *resource);

/* Whether every collection has had its first full list. Any thread; lock-free. */
bool gq_informer_synced(const struct gq_informer *informer);

/* Counters of one collection, for metrics. Any thread. */
struct gq_watch_stats {
	const char *resource;
	bool synced;
	bool connected;       /* a watch is established */
	uint64_t events;      /* of any kind but bookmarks */
	uint64_t bytes;       /* as received */
	uint64_t lists;       /* full lists begun */
	uint64_t watches;     /* watch requests begun */
	uint64_t errors;      /* failed requests, ERROR events, cut watches */
	uint64_t skipped;     /* objects that were not understood */
	int64_t last_byte_ns; /* monotonic time of the last byte, 0 never */
};
size_t gq_informer_stats(const struct gq_informer *informer, struct gq_watch_stats *stats,
			 size_t max);

#endif
