#ifndef GQ_CONTROLLER_LEADERSHIP_H
#define GQ_CONTROLLER_LEADERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "controller/journal.h"
#include "controller/routing.h"
#include "informer/api.h"

/* Who answers requests: the way of one replica from following to leading and back.
 *
 *   elected -> the journal is taken over (which fences whoever led before) -> the accepted policy
 * is read -> the barrier: every pod that was stored before the fence is in the ledger -> leads
 *
 * The barrier: controller/barrier.h. Everything runs on the API client's thread; what the informer
 * tells is handed over. */
struct gq_leadership;

/* Callbacks are called on the client's thread, with no lock held. */
struct gq_leadership_options {
	struct gq_api *api; /* all pointers are borrowed */
	const struct gq_clock *clock;
	struct gq_journal *journal;
	struct gq_routing *routing;
	const char *namespace_;
	const char *identity;
	bool elect; /* by the Lease; false: this is the only replica */
	/* The journal is ours, with this epoch: makes the accepted policy ours, too, then calls
	 * done, on any thread. GQ_ECONFLICT: another leader has it; any other failure is tried
	 * again. Not called, or in vain, when it was overtaken by follow_policy or a later call. */
	void (*lead_policy)(void *arg, uint64_t epoch, void (*done)(void *done_arg, int code),
			    void *done_arg);
	/* After that: whether no policy was ever accepted here, so that nobody can have granted
	 * anything before. */
	bool (*first_ever)(void *arg);
	void (*follow_policy)(void *arg);
	/* Has the pods listed in full. */
	void (*relist)(void *arg);
	/* Leads now, or leads no more. why: a few words for people. */
	void (*on_change)(void *arg, bool leads, const char *why);
	void *arg;
};

/* options: copied. Errors: GQ_ENOMEM. */
int gq_leadership_new(const struct gq_leadership_options *options,
		      struct gq_leadership **ret_leadership, struct gq_err *err);
/* After the API client and the informer have ended. Takes NULL. */
void gq_leadership_free(struct gq_leadership *leadership);
GQ_DEFINE_CLEANUP(gq_cleanup_leadership, struct gq_leadership, gq_leadership_free);

/* Every cache has synced: runs for leader from now on, since a replica that knows nothing yet had
 * better let another lead. Any thread; once. */
void gq_leadership_start(struct gq_leadership *leadership);

/* Goes on with what is due. Only needed where memory was short even for a timer: call it now and
 * then. Any thread. */
void gq_leadership_tick(struct gq_leadership *leadership);

/* Whether requests are answered here. Any thread; lock-free. */
bool gq_leadership_leads(const struct gq_leadership *leadership);

/* Hands over for good: stops granting, has the journal flushed, gives the Lease up, and waits until
 * a successor's label is seen, or ten seconds. Then done(arg). A replica that does not lead, nor is
 * about to, waits for nobody. Any thread; once. */
void gq_leadership_hand_over(struct gq_leadership *leadership, void (*done)(void *arg), void *arg);

/* For the feed; on the informer's thread. */
void gq_leadership_own_pod(struct gq_leadership *leadership, const char *name,
			   const char *leader_label, const char *barrier, bool gone, bool listed);
void gq_leadership_pods_listed(struct gq_leadership *leadership, int64_t begun_ns);

/* Another leader was noticed: steps down. why: stays in place. Any thread. */
void gq_leadership_fenced(struct gq_leadership *leadership, const char *why);

/* A lost journal's time to live has passed: whatever was granted by it is stored by now, or never
 * will be. Once it is in the ledger, grants are made again. On the client's thread. */
void gq_leadership_hold_over(struct gq_leadership *leadership);

struct gq_leadership_status {
	bool leads;
	uint64_t epoch;   /* of our last term */
	char holder[256]; /* of the Lease, as last seen; "" nobody */
	uint64_t terms;   /* begun here */
};
/* Any thread. */
void gq_leadership_status(struct gq_leadership *leadership,
			  struct gq_leadership_status *ret_status);

#endif
