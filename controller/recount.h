#ifndef GQ_CONTROLLER_RECOUNT_H
#define GQ_CONTROLLER_RECOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "informer/api.h"
#include "quota/ledger.h"

/* The recount: finds and repairs what is wrong in the ledger. With a list, it first takes a fresh,
 * consistent list of the pods and holds it against the ledger. Pods in which the two differ are
 * asked about one by one; those of which the watch, two seconds after such a GET began, has still
 * not told what that showed are drift. Then, and without a list only, every charge is counted anew.
 *
 * The list and the GETs run on the API client's thread; counting anew, which takes a quarter of a
 * second with 100,000 pods, on a thread of its own, so that no other request waits for it. */
struct gq_recounter;

struct gq_recounter_options {
	struct gq_ledger *ledger; /* all borrowed */
	struct gq_api *api;
	const struct gq_clock *clock;
	/* More pods differ than can be asked about: the pods should be listed again by whoever
	 * watches them. On the API client's thread; may be NULL. */
	void (*relist)(void *arg);
	void *arg;
};

struct gq_recount_result {
	int code;               /* 0, or why not all was counted; what was not stays as it is */
	char problem[512];      /* the same for people, or "" */
	bool listed;            /* the ledger was held against a whole list */
	bool relist;            /* too many pods differed, and it has to be listed again instead */
	size_t pods;            /* of the list: those that hold GPUs */
	size_t suspects;        /* asked about */
	size_t unanswered;      /* of these, those that no answer came for */
	size_t removed;         /* charges of pods that hold nothing any more */
	size_t charged;         /* pods that were not charged */
	size_t corrected;       /* charges of pods that were bound or deleted since */
	struct gq_drift missed; /* what these repairs changed */
	struct gq_drift drift;  /* what counting anew has found; counted is set */
};

/* NULL: out of memory. */
struct gq_recounter *gq_recounter_new(const struct gq_recounter_options *options);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_recounter_free(struct gq_recounter *recounter);
GQ_DEFINE_CLEANUP(gq_cleanup_recounter, struct gq_recounter, gq_recounter_free);

/* Starts a recount; false when one is under way. What was wrong is logged; a failure is the
 * caller's to log. done is called once, on the recounter's or another thread, with no lock held,
 * until gq_recounter_free() returns; not at all when the API client ends before the list does.
 * result is its for the call only. Any thread. */
bool gq_recounter_start(struct gq_recounter *recounter, bool list,
			void (*done)(void *arg, const struct gq_recount_result *result), void *arg);

#endif
