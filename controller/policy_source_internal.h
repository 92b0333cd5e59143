#ifndef GQ_CONTROLLER_POLICY_SOURCE_INTERNAL_H
#define GQ_CONTROLLER_POLICY_SOURCE_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "controller/policy_source.h"
#include "informer/backoff.h"

/* The two ConfigMaps. */
enum gq_policy_map {
	GQ_POLICY_WRITTEN, /* gpuquota-policy */
	GQ_POLICY_ACCEPTED,
	GQ_POLICY_MAPS,
};

enum gq_policy_role {
	GQ_POLICY_FOLLOWS,
	GQ_POLICY_TAKES_OVER, /* from gq_policy_source_lead() to its done */
	GQ_POLICY_LEADS,
};

/* The one request that may be under way. */
enum gq_policy_call {
	GQ_POLICY_CALL_NONE,
	GQ_POLICY_CALL_READ_ACCEPTED,
	GQ_POLICY_CALL_READ_WRITTEN,
	GQ_POLICY_CALL_WRITE,
};

struct gq_policy_answer {
	bool there;
	int code;
	long status;
	int retry_after_s;
	char *body;
	size_t len;
	char error[GQ_ERR_MAX];
};

/* What gpuquota-policy-accepted is, as we read or wrote it last. */
struct gq_policy_stored {
	bool exists;
	bool good; /* intact and usable */
	char version[GQ_VERSION_BYTES];
	char hash[GQ_HASH_TEXT_BYTES];
	uint64_t epoch;
};

/* What gq_policy_source_lead() and _follow() ask for. */
struct gq_policy_wish {
	bool there;
	enum gq_policy_role role; /* FOLLOWS, or TAKES_OVER */
	uint64_t epoch;
	void (*done)(void *arg, int code);
	void *arg;
};

struct gq_policy_source {
	struct gq_policy_source_options options;
	bool listed[GQ_POLICY_MAPS]; /* the informer's thread: there since LIST_BEGIN */

	/* Of gq_policy_source_work(). */
	enum gq_policy_role role;
	uint64_t epoch;
	void (*done)(void *arg, int code); /* while it takes over */
	void *done_arg;
	struct gq_policy_state *shown[GQ_POLICY_MAPS]; /* by the watch; NULL: nothing yet */
	struct gq_policy_state *newest; /* of gpuquota-policy: of the watch, or read by who leads */
	struct gq_policy_state *in_force;
	char told[GQ_POLICY_MAPS][GQ_HASH_TEXT_BYTES]; /* of what was refused: told once */
	char stuck[GQ_ERR_MAX]; /* what keeps the newest from being accepted, or "" */

	/* Of who leads: policy_lead.c. */
	bool stale[GQ_POLICY_MAPS]; /* to be read before anything is done */
	atomic_bool first_ever;     /* there was none, and we had accepted none before */
	bool first_read;            /* taking over: gpuquota-policy-accepted was not read yet */
	bool renewed; /* … and what was accepted is not written with our epoch yet */
	struct gq_policy_stored stored;
	struct gq_policy_state *found; /* as it was read; NULL: we wrote it since */
	enum gq_policy_call call;
	struct gq_policy_state *writing;
	char
	    unsure[GQ_HASH_TEXT_BYTES]; /* of a write that may have come about, or may yet; or "" */
	unsigned conflicts;             /* in a row */
	struct gq_backoff backoff;
	int64_t retry_ns; /* no request before */
	int64_t armed_ns; /* the last timer */

	struct gq_lock lock; /* of what follows */
	struct gq_policy_state *came[GQ_POLICY_MAPS];
	struct gq_policy_wish wish;
	struct gq_policy_answer answer;
	uint64_t n_calls; /* the answer of any but the last is of no interest */
	struct gq_policy_status status;
};

/* policy_source.c */

void gq_policy_source_wake(struct gq_policy_source *source);
/* Judges by what is known already, where it can. GQ_ENOMEM. */
int gq_policy_source_judge(struct gq_policy_source *source, struct gq_policy_state *state,
			   struct gq_err *err);
/* Makes state the newest of gpuquota-policy. GQ_ENOMEM: it is not. */
int gq_policy_source_newest(struct gq_policy_source *source, struct gq_policy_state *state,
			    struct gq_err *err);
/* What gpuquota-policy-accepted has; tells when it is not usable. GQ_ENOMEM. */
int gq_policy_source_usable(struct gq_policy_source *source, struct gq_policy_state *state,
			    bool *ret_usable, struct gq_err *err);
/* Puts a good one in force. */
int gq_policy_source_enforce(struct gq_policy_source *source, struct gq_policy_state *state,
			     struct gq_err *err);

/* policy_lead.c: the steps of who takes over or leads. */

void gq_policy_lead_begin(struct gq_policy_source *source, const struct gq_policy_wish *wish);
/* Forgets the request that is under way, and that it led. */
void gq_policy_lead_end(struct gq_policy_source *source);
/* The watch has shown another state. */
void gq_policy_lead_shown(struct gq_policy_source *source, enum gq_policy_map map);
void gq_policy_lead_answer(struct gq_policy_source *source, const struct gq_policy_answer *answer);
/* Starts what is due. */
void gq_policy_lead_step(struct gq_policy_source *source);

#endif
