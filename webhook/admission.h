#ifndef GQ_WEBHOOK_ADMISSION_H
#define GQ_WEBHOOK_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "quota/decision.h"
#include "webhook/server.h"

/* From an HTTP request to its answer: decodes the review, has it decided, waits or reads where the
 * decision asks for it, and writes what was decided. */
struct gq_admission;

/* What the wiring supplies. Called on any thread, with no lock held. */
struct gq_admission_options {
	struct gq_ledger *ledger;
	const struct gq_clock *clock;
	const char *policy_namespace; /* of the ConfigMap that /validate-policy judges */
	const char *policy_name;
	/* Starts a read of the API server. done(done_arg) is called once read->code and read->body
	 * are filled in (read->done is set by the admission itself). */
	void (*read)(void *arg, struct gq_read *read, int64_t timeout_ns,
		     void (*done)(void *done_arg), void *done_arg);
	/* Commits a ticket to the store, then calls done with 0, or with why not: then the store
	 * has taken the charge back (gq_ledger_abort) before. No later than deadline_ns. */
	void (*commit)(void *arg, uint64_t ticket, int64_t deadline_ns,
		       void (*done)(void *done_arg, int code), void *done_arg);
	/* Whether this replica decides; another one answers 503 and closes the connection, so that
	 * the next call may reach the one that does. NULL: it always does. */
	bool (*leads)(void *arg);
	/* A pod's creation was refused, or a binding (the other one is NULL), for whoever tells
	 * people of it. May be NULL. */
	void (*on_denied)(void *arg, const struct gq_create *create,
			  const struct gq_binding *binding, const struct gq_verdict *verdict);
	void *arg;
};

/* options are copied, what they point to is borrowed. NULL: out of memory. */
struct gq_admission *gq_admission_new(const struct gq_admission_options *options);
/* After the server and whatever calls back are gone. Takes NULL. */
void gq_admission_free(struct gq_admission *admission);
GQ_DEFINE_CLEANUP(gq_cleanup_admission, struct gq_admission, gq_admission_free);

/* For gq_server_options: arg is the admission. */
int gq_admission_route(const char *method, const char *path);
void gq_admission_handle(struct gq_admission *admission, struct gq_request *request);

#define GQ_DURATION_BUCKETS 14
extern const double gq_duration_bounds_s[GQ_DURATION_BUCKETS];

struct gq_admission_stats {
	/* by decision (enum gq_verdict_kind; WAIT and READ are never an answer) and reason */
	uint64_t reviews[GQ_VERDICT_UNAVAILABLE + 1][GQ_REASON_COUNT];
	/* reviews in which a rule found something, by its mode there */
	uint64_t rule_findings[GQ_RULES][GQ_MODE_DISABLED];
	uint64_t duration_buckets[GQ_DURATION_BUCKETS + 1]; /* not cumulative; last: above all */
	double duration_sum_s;
};
void gq_admission_stats(const struct gq_admission *admission, struct gq_admission_stats *ret_stats);

#endif
