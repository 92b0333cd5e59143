#include "controller/leadership.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/lock.h"
#include "base/log.h"
#include "controller/barrier.h"
#include "controller/election.h"
#include "controller/trace.h"

#define TICK_NS (50 * GQ_NS_PER_MS)
#define POLICY_RETRY_NS (500 * GQ_NS_PER_MS)
/* Fenced while the Lease is ours: whoever wrote the journal gets a moment to say who he is. */
#define FENCED_PAUSE_NS (1 * GQ_NS_PER_S)
#define HAND_OVER_MAX_NS (10 * GQ_NS_PER_S)
#define MEND_NS (1 * GQ_NS_PER_S)

enum state {
	STATE_FOLLOWING,
	STATE_JOURNAL, /* is being taken over */
	STATE_POLICY,
	STATE_BARRIER,
	STATE_LEADING,
	STATE_FLUSHING, /* hands over: tickets at hand get their answer */
	STATE_LEAVING,  /* waits for a successor */
	STATE_ENDED,
};

struct gq_leadership {
	struct gq_leadership_options options;
	atomic_bool leads;

	/* The client's thread alone. */
	enum state state;
	struct gq_election *election; /* NULL: the only replica */
	struct gq_barrier *barrier;
	bool election_runs;
	uint64_t term; /* answers of an earlier one are void */
	uint64_t epoch;
	int64_t fence_ns;
	int64_t policy_at_ns; /* when to try again; 0 under way */
	int64_t pause_until_ns;
	int64_t leaving_ns;
	int64_t mend_ns;

	struct gq_lock lock; /* of what follows: what other threads tell */
	bool started;
	bool ticks; /* a timer is set for the next tick */
	bool hand_over;
	void (*handed_over)(void *arg);
	void *handed_over_arg;
	bool successor_seen;
	bool labelled;                    /* our own pod, by the watch */
	bool mislabelled;                 /* it should be the other way */
	const char *fenced;               /* why another leader is believed in, or NULL */
	struct policy_call *policy_calls; /* the newest first */
	uint64_t policy_term;             /* in which policy_code came; 0 none */
	int policy_code;
	struct gq_leadership_status status;
};

/* A question for the policy. The answer to one that was overtaken may never come, or come late, but
 * not after that to a newer one. */
struct policy_call {
	struct gq_leadership *leadership;
	uint64_t term;
	struct policy_call *older;
};

static int64_t now(const struct gq_leadership *leadership)
{
	return gq_clock_mono_ns(leadership->options.clock);
}

static void proceed(struct gq_leadership *leadership);

static void on_wake(void *arg)
{
	proceed(arg);
}

/* Something was told: do not wait for the next tick, which comes all the same. */
static void wake(void *arg)
{
	struct gq_leadership *leadership = arg;
	struct gq_err err;

	(void)gq_api_after(leadership->options.api, 0, on_wake, leadership, &err);
}

static void relist(void *arg)
{
	struct gq_leadership *leadership = arg;

	leadership->options.relist(leadership->options.arg);
}

int gq_leadership_new(const struct gq_leadership_options *options,
		      struct gq_leadership **ret_leadership, struct gq_err *err)
{
	struct gq_leadership *leadership = calloc(1, sizeof *leadership);
	int code = 0;

	if (!leadership)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	leadership->options = *options;
	leadership->barrier =
	    gq_barrier_new(&(struct gq_barrier_options){.clock = options->clock,
							.routing = options->routing,
							.relist = relist,
							.wake = wake,
							.arg = leadership});
	if (!leadership->barrier)
		code = gq_fail(err, GQ_ENOMEM, "out of memory");
	else if (options->elect)
		code = gq_election_new(
		    &(struct gq_election_options){.namespace_ = options->namespace_,
						  .name = GQ_LEASE_NAME,
						  .identity = options->identity,
						  .seed = (uint64_t)now(leadership)},
		    &leadership->election, err);
	if (code) {
		gq_barrier_free(leadership->barrier);
		free(leadership);
		return code;
	}
	gq_lock_init(&leadership->lock, GQ_RANK_LEAF);
	*ret_leadership = leadership;
	return 0;
}

static void policy_calls_free(struct policy_call *calls)
{
	for (struct policy_call *older; calls; calls = older) {
		older = calls->older;
		free(calls);
	}
}

void gq_leadership_free(struct gq_leadership *leadership)
{
	if (!leadership)
		return;
	policy_calls_free(leadership->policy_calls);
	gq_barrier_free(leadership->barrier);
	gq_election_free(leadership->election);
	gq_lock_done(&leadership->lock);
	free(leadership);
}

bool gq_leadership_leads(const struct gq_leadership *leadership)
{
	return atomic_load(&leadership->leads);
}

void gq_leadership_status(struct gq_leadership *leadership, struct gq_leadership_status *ret_status)
{
	gq_lock_take(&leadership->lock);
	*ret_status = leadership->status;
	gq_lock_release(&leadership->lock);
	ret_status->leads = gq_leadership_leads(leadership);
}

/* ---- what the informer tells ---- */

void gq_leadership_own_pod(struct gq_leadership *leadership, const char *name,
			   const char *leader_label, const char *barrier, bool gone, bool listed)
{
	bool ours = strcmp(name, leadership->options.identity) == 0;
	bool labelled = !gone && strcmp(leader_label, "true") == 0;
	bool news;

	if (ours && !gone)
		gq_barrier_seen(leadership->barrier, barrier, listed);
	gq_lock_take(&leadership->lock);
	if (ours) {
		news = leadership->labelled != labelled;
		leadership->labelled = labelled;
		/* not by us: a write that came late, or a person */
		leadership->mislabelled = !gone && labelled != gq_leadership_leads(leadership);
	} else {
		news = labelled && !leadership->successor_seen;
		leadership->successor_seen |= labelled;
	}
	gq_lock_release(&leadership->lock);
	if (news)
		wake(leadership);
}

void gq_leadership_pods_listed(struct gq_leadership *leadership, int64_t begun_ns)
{
	gq_barrier_listed(leadership->barrier, begun_ns);
}

/* ---- stepping down ---- */

static void stop_leading(struct gq_leadership *leadership, enum state state, const char *why)
{
	bool led = atomic_exchange(&leadership->leads, false);
	/* a successor is to come: until it takes the label off, we are the one to answer 503 */
	bool found = leadership->state == STATE_FLUSHING && leadership->election;

	leadership->term++;
	leadership->state = state;
	gq_trace("stop", leadership->epoch, 0, NULL, 0);
	gq_journal_stop(leadership->options.journal);
	gq_barrier_stop(leadership->barrier);
	leadership->options.follow_policy(leadership->options.arg);
	if (found)
		gq_routing_rest(leadership->options.routing);
	else
		gq_routing_leave(leadership->options.routing);
	gq_log(GQ_LOG_WARN, "leads no more", GQ_S("why", why));
	if (led)
		leadership->options.on_change(leadership->options.arg, false, why);
}

void gq_leadership_fenced(struct gq_leadership *leadership, const char *why)
{
	gq_lock_take(&leadership->lock);
	leadership->fenced = why;
	gq_lock_release(&leadership->lock);
	wake(leadership);
}

static void step_down(struct gq_leadership *leadership, const char *why)
{
	leadership->pause_until_ns = now(leadership) + FENCED_PAUSE_NS;
	stop_leading(leadership, STATE_FOLLOWING, why);
}

static void leave(struct gq_leadership *leadership);

static void step_down_if_fenced(struct gq_leadership *leadership)
{
	gq_lock_take(&leadership->lock);
	const char *why = GQ_STEAL(leadership->fenced);
	gq_lock_release(&leadership->lock);
	if (!why)
		return;
	if (leadership->state >= STATE_JOURNAL && leadership->state <= STATE_LEADING)
		step_down(leadership, why);
	else if (leadership->state == STATE_FLUSHING)
		leave(leadership); /* a journal that is not ours has nothing left to flush */
}

/* ---- taking over ---- */

static void lead(struct gq_leadership *leadership)
{
	leadership->state = STATE_LEADING;
	gq_trace("lead", leadership->epoch, 0, NULL, 0);
	gq_journal_open(leadership->options.journal,
			leadership->options.first_ever(leadership->options.arg));
	atomic_store(&leadership->leads, true);
	gq_routing_take(leadership->options.routing);
	gq_log(GQ_LOG_INFO, "leads", GQ_I("epoch", leadership->epoch),
	       GQ_S("identity", leadership->options.identity),
	       GQ_I("ms", (now(leadership) - leadership->fence_ns) / GQ_NS_PER_MS));
	leadership->options.on_change(leadership->options.arg, true, "elected");
}

static void begin_barrier(struct gq_leadership *leadership)
{
	leadership->state = STATE_BARRIER;
	gq_barrier_begin(leadership->barrier, leadership->epoch);
	proceed(leadership);
}

static void barrier_proceed(struct gq_leadership *leadership)
{
	if (!gq_barrier_passed(leadership->barrier))
		return;
	gq_trace("barrier", leadership->epoch, 0, NULL, 0);
	if (leadership->state == STATE_BARRIER) {
		lead(leadership);
	} else {
		gq_trace("lead", leadership->epoch, 0, NULL, 0);
		gq_journal_release(leadership->options.journal);
	}
}

static void read_policy(struct gq_leadership *leadership);

static void on_policy(void *arg, int code)
{
	struct policy_call *call = arg;
	struct gq_leadership *leadership = call->leadership;

	gq_lock_take(&leadership->lock);
	struct policy_call **at = &leadership->policy_calls;
	while (*at != call)
		at = &(*at)->older;
	*at = NULL;
	leadership->policy_term = call->term;
	leadership->policy_code = code;
	gq_lock_release(&leadership->lock);
	policy_calls_free(call);
	wake(leadership);
}

static void policy_proceed(struct gq_leadership *leadership)
{
	gq_lock_take(&leadership->lock);
	bool done = leadership->policy_term == leadership->term;
	int code = leadership->policy_code;
	leadership->policy_term = 0;
	gq_lock_release(&leadership->lock);
	if (done && !code)
		begin_barrier(leadership);
	else if (done && code == GQ_ECONFLICT)
		step_down(leadership, "another replica has written the accepted policy");
	else if (done)
		leadership->policy_at_ns = now(leadership) + POLICY_RETRY_NS;
	else if (leadership->policy_at_ns && now(leadership) >= leadership->policy_at_ns)
		read_policy(leadership);
}

static void read_policy(struct gq_leadership *leadership)
{
	struct policy_call *call = malloc(sizeof *call);

	leadership->policy_at_ns = call ? 0 : now(leadership) + POLICY_RETRY_NS;
	if (!call)
		return;
	gq_lock_take(&leadership->lock);
	*call = (struct policy_call){leadership, leadership->term, leadership->policy_calls};
	leadership->policy_calls = call;
	gq_lock_release(&leadership->lock);
	leadership->options.lead_policy(leadership->options.arg, leadership->epoch, on_policy,
					call);
}

static void on_journal(void *arg, uint64_t epoch)
{
	struct gq_leadership *leadership = arg;

	if (leadership->state != STATE_JOURNAL)
		return;
	leadership->epoch = epoch;
	leadership->fence_ns = now(leadership);
	gq_lock_take(&leadership->lock);
	leadership->status.epoch = epoch;
	leadership->status.terms++;
	gq_lock_release(&leadership->lock);
	leadership->state = STATE_POLICY;
	read_policy(leadership);
}

static void take_over(struct gq_leadership *leadership)
{
	leadership->term++;
	leadership->state = STATE_JOURNAL;
	gq_log(GQ_LOG_INFO, "takes the journal over",
	       GQ_S("identity", leadership->options.identity));
	gq_journal_take_over(leadership->options.journal, on_journal, leadership);
}

void gq_leadership_hold_over(struct gq_leadership *leadership)
{
	if (leadership->state != STATE_LEADING)
		return;
	gq_barrier_begin(leadership->barrier, leadership->epoch);
	proceed(leadership);
}

/* ---- election ---- */

static int64_t wall_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * GQ_NS_PER_S + ts.tv_nsec;
}

static void on_lease(void *arg, const struct gq_api_response *response)
{
	struct gq_leadership *leadership = arg;

	leadership->election_runs = false;
	if (response->code && response->code != GQ_ENOTFOUND && response->code != GQ_ECONFLICT &&
	    !response->unauthorized)
		gq_log(GQ_LOG_WARN, "the Lease could not be read or written",
		       GQ_S("problem", response->error));
	gq_election_end(leadership->election, now(leadership), response->code, response->body,
			response->len);
	gq_lock_take(&leadership->lock);
	(void)snprintf(leadership->status.holder, sizeof leadership->status.holder, "%s",
		       gq_election_holder(leadership->election));
	gq_lock_release(&leadership->lock);
	proceed(leadership);
}

static void elect(struct gq_leadership *leadership)
{
	struct gq_election_request due;
	struct gq_err err;

	if (leadership->election_runs ||
	    !gq_election_begin(leadership->election, now(leadership), wall_ns(), &due))
		return;
	const struct gq_api_request request = {.method = due.method,
					       .path = due.path,
					       .content_type = due.content_type,
					       .body = due.body,
					       .body_len = due.body_len,
					       .keep = gq_lease_keep,
					       .max_bytes = GQ_LEASE_MAX_BYTES,
					       .timeout_ns = due.timeout_ns,
					       .on_done = on_lease,
					       .arg = leadership};
	int code = gq_api_start(leadership->options.api, &request, &err);
	if (code)
		gq_election_end(leadership->election, now(leadership), code, "", 0);
	else
		leadership->election_runs = true;
}

static bool elected(const struct gq_leadership *leadership)
{
	return !leadership->election || gq_election_leads(leadership->election, now(leadership));
}

/* ---- handing over ---- */

static void leave(struct gq_leadership *leadership)
{
	bool led = leadership->state != STATE_FOLLOWING;

	if (led)
		stop_leading(leadership, STATE_LEAVING, "it was asked to end");
	leadership->state = STATE_LEAVING;
	leadership->leaving_ns = now(leadership);
	gq_lock_take(&leadership->lock);
	/* one that is seen from now on is a successor, and nobody waits for that of another */
	leadership->successor_seen = !led || !leadership->election;
	gq_lock_release(&leadership->lock);
	if (leadership->election)
		gq_election_release(leadership->election, now(leadership));
}

static void on_flushed(void *arg)
{
	struct gq_leadership *leadership = arg;

	if (leadership->state == STATE_FLUSHING)
		leave(leadership);
}

static void begin_hand_over(struct gq_leadership *leadership)
{
	if (leadership->state != STATE_LEADING) {
		leave(leadership);
		return;
	}
	leadership->state = STATE_FLUSHING;
	leadership->leaving_ns = now(leadership);
	atomic_store(&leadership->leads, false);
	leadership->options.on_change(leadership->options.arg, false, "it was asked to end");
	gq_journal_flush(leadership->options.journal, on_flushed, leadership);
}

static void leaving_proceed(struct gq_leadership *leadership)
{
	void (*done)(void *arg) = NULL;
	bool released = !leadership->election || gq_election_released(leadership->election);

	gq_lock_take(&leadership->lock);
	if ((released && leadership->successor_seen && !leadership->labelled) ||
	    now(leadership) - leadership->leaving_ns >= HAND_OVER_MAX_NS)
		done = GQ_STEAL(leadership->handed_over);
	gq_lock_release(&leadership->lock);
	if (!done)
		return;
	leadership->state = STATE_ENDED;
	done(leadership->handed_over_arg);
}

void gq_leadership_hand_over(struct gq_leadership *leadership, void (*done)(void *arg), void *arg)
{
	gq_lock_take(&leadership->lock);
	leadership->hand_over = true;
	leadership->handed_over = done;
	leadership->handed_over_arg = arg;
	bool started = leadership->started;
	gq_lock_release(&leadership->lock);
	if (started)
		wake(leadership);
	else
		gq_leadership_start(leadership);
}

/* ---- what to do next ---- */

static void proceed(struct gq_leadership *leadership)
{
	gq_lock_take(&leadership->lock);
	bool started = leadership->started, hand_over = leadership->hand_over;
	gq_lock_release(&leadership->lock);
	if (!started || leadership->state == STATE_ENDED)
		return;
	step_down_if_fenced(leadership);
	if (hand_over && leadership->state < STATE_FLUSHING)
		begin_hand_over(leadership);
	if (leadership->election)
		elect(leadership);
	bool may_lead = elected(leadership);
	switch (leadership->state) {
	case STATE_FOLLOWING:
		if (may_lead && now(leadership) >= leadership->pause_until_ns)
			take_over(leadership);
		break;
	case STATE_JOURNAL:
	case STATE_POLICY:
	case STATE_BARRIER:
	case STATE_LEADING:
		if (!may_lead)
			stop_leading(leadership, STATE_FOLLOWING,
				     "its Lease was not renewed in time");
		else if (leadership->state == STATE_POLICY)
			policy_proceed(leadership);
		else if (leadership->state != STATE_JOURNAL)
			barrier_proceed(leadership);
		break;
	case STATE_FLUSHING:
		if (now(leadership) - leadership->leaving_ns >= HAND_OVER_MAX_NS)
			leave(leadership);
		break;
	case STATE_LEAVING:
		leaving_proceed(leadership);
		break;
	case STATE_ENDED:
		break;
	}
}

/* Puts the label of our own pod right, at most once a second. */
static void mend_label(struct gq_leadership *leadership)
{
	gq_lock_take(&leadership->lock);
	bool mend = leadership->mislabelled && now(leadership) >= leadership->mend_ns;
	bool labelled = leadership->labelled;
	if (mend)
		leadership->mislabelled = false;
	gq_lock_release(&leadership->lock);
	if (!mend)
		return;
	leadership->mend_ns = now(leadership) + MEND_NS;
	if (leadership->state == STATE_LEADING && !labelled)
		gq_routing_take(leadership->options.routing);
	else if (leadership->state == STATE_FOLLOWING && labelled)
		gq_routing_leave(leadership->options.routing);
}

static void on_tick(void *arg);

/* Sets the timer for the next tick, unless there is one. */
static void tick_in(struct gq_leadership *leadership, int64_t delay_ns)
{
	struct gq_err err;

	gq_lock_take(&leadership->lock);
	bool set = leadership->started && !leadership->ticks;
	leadership->ticks = leadership->ticks || set;
	gq_lock_release(&leadership->lock);
	if (!set || !gq_api_after(leadership->options.api, delay_ns, on_tick, leadership, &err))
		return;
	gq_log(GQ_LOG_ERROR, "the election does not go on for now", GQ_S("problem", err.msg));
	gq_lock_take(&leadership->lock);
	leadership->ticks = false;
	gq_lock_release(&leadership->lock);
}

static void on_tick(void *arg)
{
	struct gq_leadership *leadership = arg;

	gq_lock_take(&leadership->lock);
	leadership->ticks = false;
	gq_lock_release(&leadership->lock);
	proceed(leadership);
	mend_label(leadership);
	gq_journal_tick(leadership->options.journal);
	if (leadership->state != STATE_ENDED)
		tick_in(leadership, TICK_NS);
}

void gq_leadership_start(struct gq_leadership *leadership)
{
	gq_lock_take(&leadership->lock);
	leadership->started = true;
	gq_lock_release(&leadership->lock);
	tick_in(leadership, 0);
}

void gq_leadership_tick(struct gq_leadership *leadership)
{
	tick_in(leadership, 0);
}
