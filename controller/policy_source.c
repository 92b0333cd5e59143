#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "controller/policy_source_internal.h"

struct gq_policy_source *gq_policy_source_new(const struct gq_policy_source_options *options)
{
	struct gq_policy_source *source = calloc(1, sizeof *source);

	if (!source)
		return NULL;
	source->options = *options;
	gq_lock_init(&source->lock, GQ_RANK_LEAF);
	return source;
}

void gq_policy_source_free(struct gq_policy_source *source)
{
	if (!source)
		return;
	for (int map = 0; map < GQ_POLICY_MAPS; map++) {
		gq_policy_state_unref(source->shown[map]);
		gq_policy_state_unref(source->came[map]);
	}
	gq_policy_state_unref(source->newest);
	gq_policy_state_unref(source->in_force);
	gq_policy_state_unref(source->writing);
	gq_policy_state_unref(source->found);
	free(source->answer.body);
	gq_lock_done(&source->lock);
	free(source);
}

bool gq_policy_source_first_ever(const struct gq_policy_source *source)
{
	return atomic_load(&source->first_ever);
}

void gq_policy_source_status(struct gq_policy_source *source, struct gq_policy_status *ret_status)
{
	gq_lock_take(&source->lock);
	*ret_status = source->status;
	gq_lock_release(&source->lock);
}

void gq_policy_source_wake(struct gq_policy_source *source)
{
	if (source->options.wake)
		source->options.wake(source->options.arg);
}

/* ---- what comes from other threads ---- */

/* Takes over state. Only the last that came counts. */
static int came(struct gq_policy_source *source, enum gq_policy_map map,
		struct gq_policy_state *state, struct gq_err *err)
{
	if (!state)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	gq_lock_take(&source->lock);
	struct gq_policy_state *old = source->came[map];
	source->came[map] = state;
	gq_lock_release(&source->lock);
	gq_policy_state_unref(old);
	gq_policy_source_wake(source);
	return 0;
}

static int on_event(struct gq_policy_source *source, enum gq_policy_map map,
		    const struct gq_event *event, struct gq_err *err)
{
	struct gq_policy_state *state;
	int code;

	switch (event->kind) {
	case GQ_EVENT_LIST_BEGIN:
		source->listed[map] = false;
		break;
	case GQ_EVENT_UPSERT:
		source->listed[map] = true;
		code = gq_policy_state_read(event->json, event->len, &state, err);
		return code ? code : came(source, map, state, err);
	case GQ_EVENT_LIST_END:
		if (!source->listed[map])
			return came(source, map, gq_policy_state_absent(false), err);
		break;
	case GQ_EVENT_DELETE:
		return came(source, map, gq_policy_state_absent(true), err);
	case GQ_EVENT_IDLE:
		break;
	}
	return 0;
}

int gq_policy_source_event(void *arg, const struct gq_event *event, struct gq_err *err)
{
	return on_event(arg, GQ_POLICY_WRITTEN, event, err);
}

int gq_policy_source_accepted_event(void *arg, const struct gq_event *event, struct gq_err *err)
{
	return on_event(arg, GQ_POLICY_ACCEPTED, event, err);
}

static void wish(struct gq_policy_source *source, const struct gq_policy_wish *new)
{
	gq_lock_take(&source->lock);
	source->wish = *new;
	gq_lock_release(&source->lock);
	gq_policy_source_wake(source);
}

void gq_policy_source_lead(struct gq_policy_source *source, uint64_t epoch,
			   void (*done)(void *arg, int code), void *arg)
{
	wish(source, &(struct gq_policy_wish){.there = true,
					      .role = GQ_POLICY_TAKES_OVER,
					      .epoch = epoch,
					      .done = done,
					      .arg = arg});
}

void gq_policy_source_follow(struct gq_policy_source *source)
{
	wish(source, &(struct gq_policy_wish){.there = true, .role = GQ_POLICY_FOLLOWS});
}

/* ---- judging and enforcing ---- */

/* Whether this is told for the first time in a row. key names what was refused, "" what was not. */
static bool first_told(struct gq_policy_source *source, enum gq_policy_map map, const char *key)
{
	char *told = source->told[map];

	if (strcmp(told, key) == 0)
		return false;
	(void)snprintf(told, sizeof source->told[map], "%s", key);
	return key[0] != '\0';
}

static const char *key_of(const struct gq_policy_state *state)
{
	if (!state->exists)
		return state->deleted ? "deleted" : "absent";
	return state->yaml ? state->hash : "no key";
}

int gq_policy_source_judge(struct gq_policy_source *source, struct gq_policy_state *state,
			   struct gq_err *err)
{
	const struct gq_policy_state *like = source->in_force;

	if (!like || strcmp(like->hash, state->hash) != 0)
		like = source->newest;
	return gq_policy_state_judge(state, like, err);
}

int gq_policy_source_newest(struct gq_policy_source *source, struct gq_policy_state *state,
			    struct gq_err *err)
{
	int code = gq_policy_source_judge(source, state, err);

	if (code)
		return code;
	if (state != source->newest) {
		gq_policy_state_unref(source->newest);
		source->newest = gq_policy_state_ref(state);
	}
	if (first_told(source, GQ_POLICY_WRITTEN, state->policy ? "" : key_of(state)))
		gq_log(GQ_LOG_ERROR, "the policy ConfigMap is not usable",
		       GQ_S("then", source->in_force ? "the last good policy stays in force"
						     : "GPU pods wait for a policy"),
		       GQ_S("problem", state->problem));
	return 0;
}

int gq_policy_source_usable(struct gq_policy_source *source, struct gq_policy_state *state,
			    bool *ret_usable, struct gq_err *err)
{
	*ret_usable = false;
	if (!state->exists)
		return 0;
	int code = state->intact ? gq_policy_source_judge(source, state, err) : 0;
	if (code)
		return code;
	*ret_usable = state->intact && state->policy;
	if (first_told(source, GQ_POLICY_ACCEPTED, *ret_usable ? "" : key_of(state)))
		gq_log(GQ_LOG_ERROR, "the accepted policy's ConfigMap is not usable",
		       GQ_S("then", source->in_force ? "the policy in force stays"
						     : "GPU pods wait for a policy"),
		       GQ_S("problem", !state->yaml ? "it has no key " GQ_POLICY_KEY " under data"
				       : !state->intact ? "its hash is not that of its policy"
							: state->problem));
	return 0;
}

int gq_policy_source_enforce(struct gq_policy_source *source, struct gq_policy_state *state,
			     struct gq_err *err)
{
	int code = gq_ledger_set_policy(source->options.ledger, state->policy,
					gq_clock_mono_ns(source->options.clock), err);

	if (code)
		return code;
	gq_policy_state_unref(source->in_force);
	source->in_force = gq_policy_state_ref(state);
	gq_log(GQ_LOG_INFO, "policy in force", GQ_S("hash", state->hash),
	       GQ_I("tenants", state->policy->n_tenants),
	       GQ_I("classes", gq_class_count(state->policy->classes)));
	return 0;
}

/* ---- following ---- */

static int follow(struct gq_policy_source *source, struct gq_err *err)
{
	struct gq_policy_state *accepted = source->shown[GQ_POLICY_ACCEPTED];
	bool usable = false;
	int code = 0;

	if (source->shown[GQ_POLICY_WRITTEN])
		code = gq_policy_source_newest(source, source->shown[GQ_POLICY_WRITTEN], err);
	if (!code && accepted)
		code = gq_policy_source_usable(source, accepted, &usable, err);
	if (code || !usable)
		return code;
	if (source->in_force && strcmp(source->in_force->hash, accepted->hash) == 0)
		return 0;
	return gq_policy_source_enforce(source, accepted, err);
}

static void take_role(struct gq_policy_source *source, const struct gq_policy_wish *new)
{
	gq_policy_lead_end(source);
	if (new->role == GQ_POLICY_TAKES_OVER)
		gq_policy_lead_begin(source, new);
}

/* ---- the status ---- */

static void print_status(const struct gq_policy_source *source, struct gq_policy_status *status)
{
	const struct gq_policy_state *newest = source->newest;
	const char *problem = source->stuck;

	*status = (struct gq_policy_status){.in_force = source->in_force != NULL};
	if (source->in_force)
		(void)snprintf(status->hash, sizeof status->hash, "%s", source->in_force->hash);
	if (newest && !newest->policy)
		problem = newest->problem;
	status->last_ok = newest && newest->policy && !problem[0];
	status->last_in_force = status->last_ok && source->in_force &&
				strcmp(newest->hash, source->in_force->hash) == 0;
	(void)snprintf(status->problem, sizeof status->problem, "%.*s", (int)strcspn(problem, "\n"),
		       problem);
}

static void publish(struct gq_policy_source *source)
{
	struct gq_policy_status status;

	print_status(source, &status);
	gq_lock_take(&source->lock);
	struct gq_policy_status *old = &source->status;
	bool changed = old->in_force != status.in_force || old->last_ok != status.last_ok ||
		       old->last_in_force != status.last_in_force ||
		       strcmp(old->hash, status.hash) != 0 ||
		       strcmp(old->problem, status.problem) != 0;
	*old = status;
	gq_lock_release(&source->lock);
	if (changed && source->options.on_change)
		source->options.on_change(source->options.arg, &status);
}

/* ---- work ---- */

/* Takes what came from other threads. */
struct inbox {
	struct gq_policy_state *came[GQ_POLICY_MAPS];
	struct gq_policy_wish wish;
	struct gq_policy_answer answer;
};

static void take_inbox(struct gq_policy_source *source, struct inbox *inbox)
{
	gq_lock_take(&source->lock);
	for (int map = 0; map < GQ_POLICY_MAPS; map++) {
		inbox->came[map] = source->came[map];
		source->came[map] = NULL;
	}
	inbox->wish = source->wish;
	inbox->answer = source->answer;
	source->wish.there = false;
	source->answer = (struct gq_policy_answer){0};
	gq_lock_release(&source->lock);
}

void gq_policy_source_work(struct gq_policy_source *source)
{
	struct inbox inbox;
	struct gq_err err;

	take_inbox(source, &inbox);
	for (enum gq_policy_map map = 0; map < GQ_POLICY_MAPS; map++) {
		if (!inbox.came[map])
			continue;
		gq_policy_state_unref(source->shown[map]);
		source->shown[map] = inbox.came[map];
		gq_policy_lead_shown(source, map);
	}
	if (inbox.wish.there)
		take_role(source, &inbox.wish);
	else if (inbox.answer.there)
		gq_policy_lead_answer(source, &inbox.answer);
	free(inbox.answer.body);
	gq_policy_lead_step(source);
	/* last, since who leads may have come to follow */
	if (source->role == GQ_POLICY_FOLLOWS && follow(source, &err))
		gq_log(GQ_LOG_ERROR, "a policy could not be taken over", GQ_S("problem", err.msg));
	publish(source);
}
