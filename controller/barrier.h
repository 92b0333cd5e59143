#ifndef GQ_CONTROLLER_BARRIER_H
#define GQ_CONTROLLER_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "controller/routing.h"

/* The barrier: from some moment on, every pod that was stored before it is in the ledger.
 *
 * It is an annotation that we write to our own pod and wait to see: events of one collection come
 * in their order. Without a pod of our own, or without that event within two seconds, it is a full
 * list that was begun after the moment. The client's thread, but for what the informer tells. */
struct gq_barrier;

struct gq_barrier_options {
	const struct gq_clock *clock; /* all pointers are borrowed */
	struct gq_routing *routing;
	/* Has the pods listed in full. */
	void (*relist)(void *arg);
	/* It may have been passed: gq_barrier_passed() is to be called soon. Any thread. */
	void (*wake)(void *arg);
	void *arg;
};

/* options: copied. NULL: out of memory. */
struct gq_barrier *gq_barrier_new(const struct gq_barrier_options *options);
/* After the API client and the informer have ended. Takes NULL. */
void gq_barrier_free(struct gq_barrier *barrier);
GQ_DEFINE_CLEANUP(gq_cleanup_barrier, struct gq_barrier, gq_barrier_free);

/* The moment is now. One that was waited for before is forgotten. epoch: ours. */
void gq_barrier_begin(struct gq_barrier *barrier, uint64_t epoch);
/* Nobody waits any more. */
void gq_barrier_stop(struct gq_barrier *barrier);
/* Whether it was passed; true once. Does what is due; call it at each wake and a few times a
 * second.
 */
bool gq_barrier_passed(struct gq_barrier *barrier);

/* The informer's thread. Our own pod has this annotation ("" none). listed: as part of a full list,
 * of which the rest is still to come. */
void gq_barrier_seen(struct gq_barrier *barrier, const char *annotation, bool listed);
/* A full list that was begun then is in the ledger. */
void gq_barrier_listed(struct gq_barrier *barrier, int64_t begun_ns);

#endif
