#ifndef GQ_CONTROLLER_POLICY_SOURCE_H
#define GQ_CONTROLLER_POLICY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "controller/accepted.h"
#include "informer/api.h"
#include "informer/informer.h"
#include "quota/ledger.h"

/* From the ConfigMaps of the policy to the ledger.
 *
 * What is enforced is what gpuquota-policy-accepted has. Who follows takes it from there. Who leads
 * judges each state of gpuquota-policy, writes a good one to gpuquota-policy-accepted, and enforces
 * it once that has succeeded. So a bad one, or its deletion, leaves the last good one in force,
 * whoever leads next and whatever is restarted.
 *
 * Events and answers are only put down where they come; gq_policy_source_work() does all the rest,
 * on one thread, which may take long over a large policy: main, not the API client's. Who leads
 * trusts no watch, which may lag: an event only makes it read the ConfigMap concerned. */
struct gq_policy_source;

struct gq_policy_status {
	bool in_force;
	char hash[GQ_HASH_TEXT_BYTES]; /* of the policy in force, or "" */
	bool last_ok;             /* the newest state of gpuquota-policy is good, and nothing keeps
				     it from being accepted */
	bool last_in_force;       /* and it is the one in force */
	char problem[GQ_ERR_MAX]; /* else why, first line, with line and column; or "" */
};

struct gq_policy_source_options {
	struct gq_ledger *ledger;
	struct gq_api *api; /* NULL: never leads */
	const struct gq_clock *clock;
	const char *namespace_;
	/* There is work: gq_policy_source_work() is to be called soon. Any thread, no lock held. */
	void (*wake)(void *arg);
	/* On the thread that works, no lock held; may call what is below. Each may be NULL. */
	void (*on_change)(void *arg, const struct gq_policy_status *status);
	/* While it led, somebody with a higher epoch wrote. It follows from here on. */
	void (*on_fenced)(void *arg);
	void *arg;
};

/* options: copied; what they point to is borrowed. Follows. NULL: out of memory. */
struct gq_policy_source *gq_policy_source_new(const struct gq_policy_source_options *options);
/* After the informer and the API client have ended (their callbacks come here). Takes NULL. */
void gq_policy_source_free(struct gq_policy_source *source);
GQ_DEFINE_CLEANUP(gq_cleanup_policy_source, struct gq_policy_source, gq_policy_source_free);

/* For gq_informer_resource, with gq_policy_state_keep; arg is the source. The informer's thread. */
int gq_policy_source_event(void *arg, const struct gq_event *event, struct gq_err *err);
int gq_policy_source_accepted_event(void *arg, const struct gq_event *event, struct gq_err *err);

/* Does what there is to do. One thread; at each wake-up, and now and then besides, which is when
 * what failed for want of memory is tried again. */
void gq_policy_source_work(struct gq_policy_source *source);

/* This replica leads from now on: call it once the journal is fenced. Reads the accepted policy,
 * puts it in force, writes it again with our epoch, so that what an old leader still sends comes to
 * nothing; then the same with the newest gpuquota-policy, if it is good and another. Then calls
 * done, once, on the thread that works: 0; or why that could not be, and then it follows:
 * GQ_ECONFLICT when somebody with a higher epoch wrote meanwhile. A newest policy that could only
 * not be written does not keep it from leading. Any thread; the last call of this and the next
 * counts, and the done of one that was overtaken is not called. */
void gq_policy_source_lead(struct gq_policy_source *source, uint64_t epoch,
			   void (*done)(void *arg, int code), void *arg);
/* After done: whether no policy was ever accepted before this leader. Any thread. */
bool gq_policy_source_first_ever(const struct gq_policy_source *source);
/* It leads no more. Any thread. */
void gq_policy_source_follow(struct gq_policy_source *source);

/* Any thread. */
void gq_policy_source_status(struct gq_policy_source *source, struct gq_policy_status *ret_status);

#endif
