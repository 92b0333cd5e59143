#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "controller/policy_source_internal.h"

/* Less than a Lease lasts. */
#define REQUEST_TIMEOUT_NS (3 * GQ_NS_PER_S)
#define BACKOFF_MIN_NS (200 * GQ_NS_PER_MS)
#define BACKOFF_MAX_NS (10 * GQ_NS_PER_S)
/* A policy whose every byte is escaped. */
#define BODY_MAX_BYTES (8u << 20)
#define CONFLICTS_AT_ONCE 3

static int64_t now_ns(const struct gq_policy_source *source)
{
	return gq_clock_mono_ns(source->options.clock);
}

static void forget_call(struct gq_policy_source *source)
{
	gq_lock_take(&source->lock);
	source->n_calls++;
	char *body = source->answer.body;
	source->answer = (struct gq_policy_answer){0};
	gq_lock_release(&source->lock);
	free(body);
	source->call = GQ_POLICY_CALL_NONE;
	gq_policy_state_unref(source->writing);
	source->writing = NULL;
}

void gq_policy_lead_end(struct gq_policy_source *source)
{
	forget_call(source);
	source->role = GQ_POLICY_FOLLOWS;
	source->done = NULL;
	source->stuck[0] = '\0';
}

void gq_policy_lead_begin(struct gq_policy_source *source, const struct gq_policy_wish *wish)
{
	source->role = GQ_POLICY_TAKES_OVER;
	source->epoch = wish->epoch;
	source->done = wish->done;
	source->done_arg = wish->arg;
	source->stale[GQ_POLICY_WRITTEN] = source->stale[GQ_POLICY_ACCEPTED] = true;
	source->first_read = true;
	source->renewed = false;
	source->stored = (struct gq_policy_stored){0};
	gq_policy_state_unref(source->found);
	source->found = NULL;
	source->unsure[0] = '\0';
	source->conflicts = 0;
	source->backoff = (struct gq_backoff){
	    .min_ns = BACKOFF_MIN_NS, .max_ns = BACKOFF_MAX_NS, .random = wish->epoch};
	source->retry_ns = source->armed_ns = 0;
}

static bool is_stored(const struct gq_policy_source *source, const struct gq_policy_state *state)
{
	const struct gq_policy_stored *stored = &source->stored;

	return stored->exists && stored->good && stored->epoch == source->epoch &&
	       strcmp(stored->hash, state->hash) == 0;
}

/* Whether the watch shows what we read or wrote ourselves. */
static bool is_known(const struct gq_policy_source *source, enum gq_policy_map map)
{
	const struct gq_policy_state *shown = source->shown[map], *newest = source->newest;
	const struct gq_policy_stored *stored = &source->stored;

	if (map == GQ_POLICY_WRITTEN)
		return newest && newest->exists == shown->exists &&
		       strcmp(newest->version, shown->version) == 0;
	if (!shown->exists || !stored->exists)
		return shown->exists == stored->exists;
	return strcmp(shown->version, stored->version) == 0 ||
	       (shown->intact && is_stored(source, shown) && shown->epoch == source->epoch);
}

void gq_policy_lead_shown(struct gq_policy_source *source, enum gq_policy_map map)
{
	if (source->role == GQ_POLICY_FOLLOWS || is_known(source, map))
		return;
	source->stale[map] = true;
	/* a new policy does not wait for what was wrong with the last one */
	if (map == GQ_POLICY_WRITTEN)
		source->retry_ns = 0;
}

/* ---- how it ends ---- */

static void taken_over(struct gq_policy_source *source)
{
	void (*done)(void *arg, int code) = source->done;

	source->role = GQ_POLICY_LEADS;
	source->done = NULL;
	done(source->done_arg, 0);
}

static void not_taken_over(struct gq_policy_source *source, int code, const char *why)
{
	void (*done)(void *arg, int code) = source->done;

	gq_policy_lead_end(source);
	gq_log(GQ_LOG_WARN, "the accepted policy could not be taken over", GQ_S("problem", why));
	done(source->done_arg, code);
}

static void fenced(struct gq_policy_source *source)
{
	if (source->role == GQ_POLICY_TAKES_OVER) {
		not_taken_over(source, GQ_ECONFLICT, "somebody with a higher epoch wrote it");
		return;
	}
	gq_policy_lead_end(source);
	gq_log(GQ_LOG_WARN, "somebody with a higher epoch wrote the accepted policy");
	if (source->options.on_fenced)
		source->options.on_fenced(source->options.arg);
}

static void on_timer(void *arg)
{
	gq_policy_source_wake(arg);
}

/* One timer for each time to wait for; one that is overtaken wakes in vain. */
static void arm(struct gq_policy_source *source, int64_t now)
{
	struct gq_err err;

	if (source->armed_ns == source->retry_ns)
		return;
	if (gq_api_after(source->options.api, source->retry_ns - now, on_timer, source, &err) == 0)
		source->armed_ns = source->retry_ns;
}

/* Tries again later, or gives up taking over: then only the newest policy can wait. kind: NONE is
 * the ledger. */
static void fail(struct gq_policy_source *source, enum gq_policy_call kind, int code,
		 int retry_after_s, const char *why)
{
	static const char *const what[] = {
	    [GQ_POLICY_CALL_NONE] = "accepted policy can't be put in force",
	    [GQ_POLICY_CALL_READ_ACCEPTED] = "accepted policy can't be read",
	    [GQ_POLICY_CALL_READ_WRITTEN] = "the ConfigMap " GQ_POLICY_NAME " can't be read",
	    [GQ_POLICY_CALL_WRITE] = "accepted policy can't be stored",
	};
	char stuck[GQ_ERR_MAX];
	int64_t now = now_ns(source);

	if (source->role == GQ_POLICY_TAKES_OVER &&
	    !(kind == GQ_POLICY_CALL_WRITE && source->renewed)) {
		not_taken_over(source, code, why);
		return;
	}
	(void)snprintf(stuck, sizeof stuck, "%s: %.900s", what[kind], why);
	if (strcmp(stuck, source->stuck) != 0)
		gq_log(GQ_LOG_ERROR, "a new policy can't be accepted", GQ_S("problem", stuck));
	memcpy(source->stuck, stuck, sizeof stuck);
	int64_t delay = gq_backoff_next(&source->backoff, now);
	if (delay < retry_after_s * GQ_NS_PER_S)
		delay = retry_after_s * GQ_NS_PER_S;
	source->retry_ns = now + delay;
	arm(source, now);
	if (source->role == GQ_POLICY_TAKES_OVER)
		taken_over(source);
}

/* ---- requests ---- */

struct call {
	struct gq_policy_source *source;
	uint64_t nth;
};

/* The API client's thread. */
static void on_done(void *arg, const struct gq_api_response *response)
{
	struct call call = *(struct call *)arg;
	struct gq_policy_source *source = call.source;
	struct gq_policy_answer answer = {.there = true,
					  .code = response->code,
					  .status = response->status,
					  .retry_after_s = response->retry_after_s};

	free(arg);
	(void)snprintf(answer.error, sizeof answer.error, "%s", response->error);
	answer.body = malloc(response->len + 1);
	if (answer.body) {
		memcpy(answer.body, response->body, response->len);
		answer.body[response->len] = '\0';
		answer.len = response->len;
	} else if (!answer.code) {
		answer.code = gq_fail(NULL, GQ_ENOMEM, "out of memory");
		(void)snprintf(answer.error, sizeof answer.error, "out of memory");
	}
	gq_lock_take(&source->lock);
	bool wanted = call.nth == source->n_calls;
	if (wanted) {
		source->answer = answer;
		answer.body = NULL;
	}
	gq_lock_release(&source->lock);
	free(answer.body);
	if (wanted)
		gq_policy_source_wake(source);
}

/* name: of the ConfigMap, or "". body: NULL: a GET. */
static void start(struct gq_policy_source *source, enum gq_policy_call kind, const char *method,
		  const char *name, const struct gq_buf *body)
{
	struct call *call = malloc(sizeof *call);
	char path[512];
	struct gq_err err = {.msg = "out of memory"};
	int code = call && !(body && body->code) ? 0 : GQ_ENOMEM;

	if (!code) {
		gq_lock_take(&source->lock);
		*call = (struct call){.source = source, .nth = ++source->n_calls};
		gq_lock_release(&source->lock);
		(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/configmaps%s%s",
			       source->options.namespace_, name[0] ? "/" : "", name);
		const struct gq_api_request request = {.method = method,
						       .path = path,
						       .content_type =
							   body ? "application/json" : NULL,
						       .body = body ? body->data : NULL,
						       .body_len = body ? body->len : 0,
						       .keep = gq_policy_state_keep,
						       .timeout_ns = REQUEST_TIMEOUT_NS,
						       .on_done = on_done,
						       .arg = call};
		source->call = kind;
		code = gq_api_start(source->options.api, &request, &err);
	}
	if (!code)
		return;
	free(call);
	source->call = GQ_POLICY_CALL_NONE;
	fail(source, kind, code, 0, err.msg);
}

static void start_read(struct gq_policy_source *source, enum gq_policy_map map)
{
	/* set anew by what the watch shows before the answer, which may be older than that */
	source->stale[map] = false;
	if (map == GQ_POLICY_WRITTEN)
		start(source, GQ_POLICY_CALL_READ_WRITTEN, "GET", GQ_POLICY_NAME, NULL);
	else
		start(source, GQ_POLICY_CALL_READ_ACCEPTED, "GET", GQ_ACCEPTED_NAME, NULL);
	if (source->call == GQ_POLICY_CALL_NONE)
		source->stale[map] = true;
}

static void start_write(struct gq_policy_source *source, struct gq_policy_state *state)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(BODY_MAX_BYTES);
	bool exists = source->stored.exists;

	(void)gq_accepted_print(&body, state, source->epoch, source->options.namespace_,
				exists ? source->stored.version : NULL);
	gq_policy_state_unref(source->writing);
	source->writing = gq_policy_state_ref(state);
	start(source, GQ_POLICY_CALL_WRITE, exists ? "PUT" : "POST", exists ? GQ_ACCEPTED_NAME : "",
	      &body);
}

/* ---- answers ---- */

/* 0 and the state, which may be that there is none; else the request has failed. */
static int read_state(const struct gq_policy_answer *answer, bool deleted,
		      struct gq_policy_state **ret_state, struct gq_err *err)
{
	if (answer->code == 0)
		return gq_policy_state_read(answer->body, answer->len, ret_state, err);
	if (answer->code != GQ_ENOTFOUND)
		return gq_fail(err, answer->code, "%s", answer->error);
	*ret_state = gq_policy_state_absent(deleted);
	return *ret_state ? 0 : gq_fail(err, GQ_ENOMEM, "out of memory");
}

static int on_accepted(struct gq_policy_source *source, struct gq_policy_state *state,
		       struct gq_err *err)
{
	bool usable;
	int code = gq_policy_source_usable(source, state, &usable, err);

	if (code)
		return code;
	/* An epoch that is higher at the first look is no sign of a newer leader: the journal was
	 * fenced a moment ago, so it was made up by a person, or the journal began anew. */
	if (!source->first_read && state->intact && state->epoch > source->epoch) {
		fenced(source);
		return 0;
	}
	if (source->first_read)
		atomic_store(&source->first_ever, !state->exists && !source->in_force);
	source->stored = (struct gq_policy_stored){
	    .exists = state->exists, .good = usable, .epoch = state->epoch};
	memcpy(source->stored.version, state->version, sizeof state->version);
	memcpy(source->stored.hash, state->hash, sizeof state->hash);
	gq_policy_state_unref(source->found);
	source->found = gq_policy_state_ref(state);
	source->first_read = false;
	return 0;
}

static void forget_known(struct gq_policy_source *source, enum gq_policy_map map)
{
	if (source->stale[map] && source->shown[map] && is_known(source, map))
		source->stale[map] = false;
}

static void on_read(struct gq_policy_source *source, enum gq_policy_call kind,
		    const struct gq_policy_answer *answer)
{
	enum gq_policy_map map =
	    kind == GQ_POLICY_CALL_READ_WRITTEN ? GQ_POLICY_WRITTEN : GQ_POLICY_ACCEPTED;
	const struct gq_policy_state *shown = source->shown[GQ_POLICY_WRITTEN];
	struct gq_policy_state *state GQ_CLEANUP(gq_cleanup_policy_state) = NULL;
	struct gq_err err;
	int code = read_state(answer, shown && shown->deleted, &state, &err);

	if (!code)
		code = map == GQ_POLICY_WRITTEN ? gq_policy_source_newest(source, state, &err)
						: on_accepted(source, state, &err);
	if (!code) {
		forget_known(source, map);
		return;
	}
	source->stale[map] = true;
	fail(source, kind, code, answer->retry_after_s, err.msg);
}

static void wrote(struct gq_policy_source *source, const struct gq_policy_state *state,
		  const struct gq_policy_state *answer)
{
	source->stored =
	    (struct gq_policy_stored){.exists = true, .good = true, .epoch = source->epoch};
	memcpy(source->stored.version, answer->version, sizeof answer->version);
	memcpy(source->stored.hash, state->hash, sizeof state->hash);
	gq_policy_state_unref(source->found);
	source->found = NULL;
	source->unsure[0] = '\0';
	source->conflicts = 0;
	forget_known(source, GQ_POLICY_ACCEPTED);
}

/* Whether a write that failed may have come about, or may yet. */
static bool is_unsure(const struct gq_policy_answer *answer)
{
	return answer->code == GQ_EIO || answer->status / 100 == 2 || answer->status == 0;
}

static void on_write(struct gq_policy_source *source, const struct gq_policy_answer *answer,
		     struct gq_policy_state *writing)
{
	struct gq_policy_state *state GQ_CLEANUP(gq_cleanup_policy_state) = NULL;
	struct gq_err err = {0};
	int code = answer->code;

	if (!code)
		code = gq_policy_state_read(answer->body, answer->len, &state, &err);
	else
		(void)gq_fail(&err, code, "%s", answer->error);
	if (!code) {
		wrote(source, writing, state);
		return;
	}
	bool moved = code == GQ_ECONFLICT || (code == GQ_ENOTFOUND && source->stored.exists);
	bool unsure = is_unsure(answer);
	if (unsure)
		memcpy(source->unsure, writing->hash, sizeof writing->hash);
	if (moved || unsure)
		source->stale[GQ_POLICY_ACCEPTED] = true;
	if (moved && ++source->conflicts <= CONFLICTS_AT_ONCE)
		return;
	source->conflicts = 0;
	fail(source, GQ_POLICY_CALL_WRITE, code, answer->retry_after_s, err.msg);
}

void gq_policy_lead_answer(struct gq_policy_source *source, const struct gq_policy_answer *answer)
{
	struct gq_policy_state *writing GQ_CLEANUP(gq_cleanup_policy_state) = source->writing;
	enum gq_policy_call kind = source->call;

	source->writing = NULL;
	source->call = GQ_POLICY_CALL_NONE;
	if (kind == GQ_POLICY_CALL_WRITE)
		on_write(source, answer, writing);
	else if (kind != GQ_POLICY_CALL_NONE)
		on_read(source, kind, answer);
}

/* ---- what comes next ---- */

/* What gpuquota-policy-accepted is to have once it is renewed, or NULL. */
static struct gq_policy_state *wanted(const struct gq_policy_source *source)
{
	return source->newest && source->newest->policy ? source->newest : source->in_force;
}

/* Whether what was found is to be enforced as it is: what the last leader accepted; or what we
 * wrote without knowing that we did; or, with nothing in force, whatever there is. Anything else
 * was put there by a person, and is written over, as is all that a newer policy replaces. */
static bool adopts(const struct gq_policy_source *source)
{
	const struct gq_policy_state *found = source->found;

	if (!found || !source->stored.good)
		return false;
	if (source->in_force && strcmp(source->in_force->hash, found->hash) == 0)
		return false;
	if (!source->renewed)
		return true;
	if (wanted(source) != source->in_force)
		return false;
	return !source->in_force || strcmp(source->unsure, found->hash) == 0;
}

static void all_well(struct gq_policy_source *source)
{
	source->stuck[0] = '\0';
	source->backoff.steps = 0;
	if (source->role == GQ_POLICY_TAKES_OVER)
		taken_over(source);
}

/* Puts what is stored in force. Returns whether it is. */
static bool enforce(struct gq_policy_source *source, struct gq_policy_state *state)
{
	struct gq_err err;
	int code = 0;

	if (!source->in_force || strcmp(source->in_force->hash, state->hash) != 0)
		code = gq_policy_source_enforce(source, state, &err);
	if (code)
		fail(source, GQ_POLICY_CALL_NONE, code, 0, err.msg);
	return !code;
}

/* Before anything else what was accepted is ours. Returns whether it is. */
static bool renew(struct gq_policy_source *source)
{
	if (source->renewed)
		return true;
	if (adopts(source) && !enforce(source, source->found))
		return false;
	source->renewed = !source->in_force || is_stored(source, source->in_force);
	if (!source->renewed)
		start_write(source, source->in_force);
	return source->renewed;
}

static void step(struct gq_policy_source *source)
{
	if (source->stale[GQ_POLICY_ACCEPTED]) {
		start_read(source, GQ_POLICY_ACCEPTED);
		return;
	}
	if (!renew(source))
		return;
	if (source->stale[GQ_POLICY_WRITTEN]) {
		start_read(source, GQ_POLICY_WRITTEN);
		return;
	}
	if (adopts(source) && !enforce(source, source->found))
		return;
	struct gq_policy_state *want = wanted(source);
	if (want && !is_stored(source, want))
		start_write(source, want);
	else if (!want || enforce(source, want))
		all_well(source);
}

void gq_policy_lead_step(struct gq_policy_source *source)
{
	int64_t now = now_ns(source);

	if (source->role == GQ_POLICY_FOLLOWS || source->call != GQ_POLICY_CALL_NONE)
		return;
	if (now < source->retry_ns)
		arm(source, now);
	else
		step(source);
}
