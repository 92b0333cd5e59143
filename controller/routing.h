#ifndef GQ_CONTROLLER_ROUTING_H
#define GQ_CONTROLLER_ROUTING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "informer/api.h"

/* The leader's label and the barrier's annotation on the pods of our own namespace. The Service
 * selects pods by the label, so it says where reviews go; it is not what makes anybody a leader. */
struct gq_routing;

struct gq_routing_options {
	struct gq_api *api;           /* borrowed */
	const char *namespace_;       /* our own; copied */
	const char *identity;         /* our pod's name; copied. What can be no pod's name says that
					 there is no pod of our own. */
	const struct gq_clock *clock; /* borrowed; NULL: the machine's */
};

/* NULL: out of memory, or a namespace that can't stand in a path. */
struct gq_routing *gq_routing_new(const struct gq_routing_options *options);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_routing_free(struct gq_routing *routing);
GQ_DEFINE_CLEANUP(gq_cleanup_routing, struct gq_routing, gq_routing_free);

/* Both say how the label shall be from now on, until the other is called. It is made so, tried
 * again after failures, and looked after twice a minute, since a write that timed out, of this
 * process or another, may arrive later. That we have no pod is fine. leave: at the start of the
 * process, and on stepping down: the label is taken off our own pod. take: as the new leader: it is
 * set on our own pod, then taken off every other, as two pods with the label are better than none:
 * who is asked in vain is asked again, but a Service without a pod is an error at once. Any thread,
 * no lock of rank LEAF held. */
void gq_routing_leave(struct gq_routing *routing);
void gq_routing_take(struct gq_routing *routing);
/* Leaves the label as it is until one of those is called: a successor will take it off. Any thread,
 * no lock of rank LEAF held. */
void gq_routing_rest(struct gq_routing *routing);

/* Goes on with what is due. Only needed where memory was short even for a timer: call it now and
 * then. Any thread, no lock of rank LEAF held. */
void gq_routing_tick(struct gq_routing *routing);

/* Annotates our own pod with nonce, within 2 s. done is called exactly once, on the API client's
 * thread or, when nothing could be sent, before this returns: with 0; GQ_ENOTFOUND, there is no pod
 * of our own; or what failed. Any thread, no lock of rank LEAF held. */
void gq_routing_barrier(struct gq_routing *routing, const char *nonce,
			void (*done)(void *arg, int code), void *arg);

struct gq_routing_status {
	bool settled;  /* the label is as it was asked for last */
	bool labelled; /* our pod has it, by the last answer */
	bool no_pod;   /* we have none, by the last answer */
	uint64_t failures;
	int code; /* of the last failure */
};
/* Any thread. */
void gq_routing_status(struct gq_routing *routing, struct gq_routing_status *ret_status);

#endif
