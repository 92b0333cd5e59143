#include "controller/barrier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"

#define EVENT_MAX_NS (2 * GQ_NS_PER_S)
#define NONCE_BYTES 64

struct gq_barrier {
	struct gq_barrier_options options;

	/* The client's thread alone. */
	bool waited_for;
	uint64_t nth;     /* answers to the annotation of an earlier one are void */
	int64_t since_ns; /* the moment */
	int64_t event_ns; /* when the wait for the event began; 0 not yet */
	bool no_event;    /* none will come */
	bool relisted;

	struct gq_lock lock;     /* of what follows */
	char nonce[NONCE_BYTES]; /* what the annotation is to be; "" nobody waits */
	bool seen;               /* in an event of its own */
	bool seen_in_list;       /* in a list that is not complete yet */
	bool listed;             /* some list is complete */
	int64_t list_begun_ns;   /* of the last one */
};

struct call {
	struct gq_barrier *barrier;
	uint64_t nth;
};

struct gq_barrier *gq_barrier_new(const struct gq_barrier_options *options)
{
	struct gq_barrier *barrier = calloc(1, sizeof *barrier);

	if (!barrier)
		return NULL;
	barrier->options = *options;
	gq_lock_init(&barrier->lock, GQ_RANK_LEAF);
	return barrier;
}

void gq_barrier_free(struct gq_barrier *barrier)
{
	if (!barrier)
		return;
	gq_lock_done(&barrier->lock);
	free(barrier);
}

static int64_t now(const struct gq_barrier *barrier)
{
	return gq_clock_mono_ns(barrier->options.clock);
}

static void await(struct gq_barrier *barrier, const char *nonce)
{
	gq_lock_take(&barrier->lock);
	(void)snprintf(barrier->nonce, sizeof barrier->nonce, "%s", nonce);
	barrier->seen = barrier->seen_in_list = false;
	gq_lock_release(&barrier->lock);
}

static void on_annotated(void *arg, int code)
{
	struct call call = *(struct call *)arg;
	struct gq_barrier *barrier = call.barrier;

	free(arg);
	if (!code || call.nth != barrier->nth)
		return;
	barrier->no_event = true;
	barrier->options.wake(barrier->options.arg);
}

void gq_barrier_begin(struct gq_barrier *barrier, uint64_t epoch)
{
	struct call *call = malloc(sizeof *call);
	char nonce[NONCE_BYTES];

	barrier->waited_for = true;
	barrier->nth++;
	barrier->since_ns = now(barrier);
	barrier->event_ns = 0;
	barrier->no_event = !call;
	barrier->relisted = false;
	(void)snprintf(nonce, sizeof nonce, "%llu.%llu.%lld", (unsigned long long)epoch,
		       (unsigned long long)barrier->nth, (long long)barrier->since_ns);
	await(barrier, nonce);
	if (!call)
		return;
	*call = (struct call){barrier, barrier->nth};
	gq_routing_barrier(barrier->options.routing, nonce, on_annotated, call);
}

void gq_barrier_stop(struct gq_barrier *barrier)
{
	barrier->waited_for = false;
	barrier->nth++;
	await(barrier, "");
}

bool gq_barrier_passed(struct gq_barrier *barrier)
{
	int64_t now_ns = now(barrier);

	if (!barrier->waited_for)
		return false;
	gq_lock_take(&barrier->lock);
	bool listed = barrier->listed;
	bool passed = barrier->seen || (listed && barrier->list_begun_ns >= barrier->since_ns);
	gq_lock_release(&barrier->lock);
	if (passed) {
		gq_barrier_stop(barrier);
		return true;
	}
	if (barrier->relisted || !listed) /* a first list is under way: nothing is faster */
		return false;
	if (!barrier->event_ns)
		barrier->event_ns = now_ns;
	if (!barrier->no_event && now_ns - barrier->event_ns < EVENT_MAX_NS)
		return false;
	gq_log(GQ_LOG_INFO, "the pods are listed in full before anything is granted",
	       GQ_S("since", barrier->no_event ? "there is no pod of our own to mark"
					       : "the watch did not show our own pod"));
	barrier->relisted = true;
	barrier->options.relist(barrier->options.arg);
	return false;
}

void gq_barrier_seen(struct gq_barrier *barrier, const char *annotation, bool listed)
{
	gq_lock_take(&barrier->lock);
	bool news = barrier->nonce[0] && strcmp(annotation, barrier->nonce) == 0;
	if (news && listed)
		barrier->seen_in_list = true;
	else if (news)
		barrier->seen = true;
	gq_lock_release(&barrier->lock);
	if (news)
		barrier->options.wake(barrier->options.arg);
}

void gq_barrier_listed(struct gq_barrier *barrier, int64_t begun_ns)
{
	gq_lock_take(&barrier->lock);
	barrier->listed = true;
	barrier->list_begun_ns = begun_ns;
	if (barrier->seen_in_list)
		barrier->seen = true;
	gq_lock_release(&barrier->lock);
	barrier->options.wake(barrier->options.arg);
}
