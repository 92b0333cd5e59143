#ifndef GQ_CONTROLLER_EVENTS_H
#define GQ_CONTROLLER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "informer/api.h"

/* Events (events.k8s.io/v1) for what people should see beside the objects concerned. Told at most
 * once each while they repeat (a series), and few in all: whoever makes pods in a loop must not
 * fill etcd. Losing one harms nothing, so nothing waits for it and a failed write is only counted.
 */
struct gq_events;

struct gq_events_options {
	struct gq_api *api;             /* borrowed */
	const struct gq_clock *clock;   /* borrowed */
	const char *instance;           /* reportingInstance: the pod's name; borrowed */
	const char *fallback_namespace; /* of events about what has no namespace; borrowed */
};

/* options: copied. NULL: out of memory. */
struct gq_events *gq_events_new(const struct gq_events_options *options);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_events_free(struct gq_events *events);
GQ_DEFINE_CLEANUP(gq_cleanup_events, struct gq_events, gq_events_free);

struct gq_event_about {
	const char *api_version; /* "v1", "apps/v1" */
	const char *kind;
	const char *namespace_; /* or "" */
	const char *name;
	const char *uid; /* or "" */
};

struct gq_event_note {
	struct gq_event_about regarding;
	bool warning;       /* type Warning, else Normal */
	const char *reason; /* one word in CamelCase: "GPUQuotaExceeded" */
	const char *action; /* what was done, one word: "Deny" */
	const char *text;   /* for people; cut at 1024 bytes, between characters */
};

/* Any thread; returns at once. Everything is copied. The same reason about the same object within
 * ten minutes is one Event with a series (the newest text counts); in all at most 20 writes at once
 * and 2 a second on average. */
void gq_events_note(struct gq_events *events, const struct gq_event_note *note);

struct gq_events_stats {
	uint64_t written;
	uint64_t failed;
	uint64_t dropped; /* beyond the rate */
};
void gq_events_stats(const struct gq_events *events, struct gq_events_stats *ret_stats);

#endif
