#ifndef GQ_CONTROLLER_EVENTS_H
#define GQ_CONTROLLER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "informer/api.h"

/* Events (events.k8s.io/v1) for what people should see beside the objects concerned. What repeats
 * is told as a series, and little in all: whoever makes pods in a loop must not fill etcd. Losing
 * one harms nothing, so nothing waits for it and a failed write is only counted.
 *
 * Memory is bounded: 1,024 series are known (the longest unheard are forgotten), at most 2.5 KiB
 * each, and 64 wait for their turn, of one namespace 32.
 *
 * Source: Kubernetes, pkg/apis/core/validation/events.go. Of an Event only the series may change
 * afterwards, and one about an object without a namespace may only be in "default" or
 * "kube-system". */
struct gq_events;

struct gq_events_options {
	struct gq_api *api;           /* borrowed */
	const struct gq_clock *clock; /* borrowed */
	const char *instance; /* reportingInstance: the pod's name, not ""; cut at 128 bytes */
};

/* options: copied. NULL: out of memory. */
struct gq_events *gq_events_new(const struct gq_events_options *options);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_events_free(struct gq_events *events);
GQ_DEFINE_CLEANUP(gq_cleanup_events, struct gq_events, gq_events_free);

struct gq_event_about {
	const char *api_version; /* "v1", "apps/v1"; "" when not known */
	const char *kind;
	/* The Event goes there; "": to "default". A Namespace gives its own name here, so that its
	 * users can read the Event. */
	const char *namespace_;
	const char *name;
	const char *uid; /* or "" */
};

struct gq_event_note {
	struct gq_event_about regarding;
	bool warning;       /* type Warning, else Normal */
	const char *reason; /* one word in CamelCase: "GPUQuotaExceeded" */
	const char *action; /* what was done, one word: "Deny" */
	/* Tells series apart that have object and reason in common, and is not shown: a tenant's
	 * name; or NULL. */
	const char *topic;
	const char
	    *text; /* for people; lines are joined, and cut at 1024 bytes, between characters */
};

/* Any thread, with no lock held; returns at once. Everything is copied. The same about the same
 * object, with no ten minutes of silence in between, is one series, written at most once in 30 s:
 * the Event's count goes up, or, since an Event's text can't change, a new Event has the newest
 * text and what was not counted yet. In all at most 20 writes at once and 2 a second on average. */
void gq_events_note(struct gq_events *events, const struct gq_event_note *note);

struct gq_events_stats {
	uint64_t written; /* creations and updates of Events */
	uint64_t failed;  /* those that the API server did not do; what they said is forgotten */
	uint64_t dropped; /* notes beyond the bounds, or that can't be an Event */
};
void gq_events_stats(struct gq_events *events, struct gq_events_stats *ret_stats);

#endif
