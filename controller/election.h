#ifndef GQ_CONTROLLER_ELECTION_H
#define GQ_CONTROLLER_ELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_filter.h"

/* Leader election by a Lease, without I/O: says what to request when, takes the answers, and knows
 * who leads. Another's Lease is taken when it was not seen to change for its own duration, on this
 * process's monotonic clock; one that vanished, after lease_ns. The wall clock is only written.
 *
 * It is about liveness only; the journal makes two leaders harmless. There are two for a while when
 * clocks run at rates that differ by more than lease_ns / renew_ns, or when a Lease is deleted that
 * a starting process has not seen, or deleted twice in a row. Time is a parameter. One thread.
 * Source: client-go, tools/leaderelection; coordination/v1. */
struct gq_election;

#define GQ_LEASE_NAME "gpuquota" /* of the Lease that the replicas share */

struct gq_election_options {
	const char *namespace_; /* of the Lease */
	const char *name;
	const char *identity; /* the pod's name, so that a restarted container resumes its Lease */
	int64_t lease_ns;     /* others wait so long, in whole seconds; at most 1 h. 0: 5 s */
	int64_t renew_ns;     /* not renewed for so long: leads no more. 0: 3.5 s, below lease_ns */
	int64_t retry_ns;     /* between attempts; 0: 1 s. 1.2 times that is below renew_ns */
	uint64_t seed;        /* of jitter */
};

/* Strings are copied. Errors: GQ_EINVALID times that do not fit together, names that can't stand in
 * a path, an identity that is empty or longer than 253 bytes; GQ_ENOMEM. */
int gq_election_new(const struct gq_election_options *options, struct gq_election **ret_election,
		    struct gq_err *err);
void gq_election_free(struct gq_election *election);
GQ_DEFINE_CLEANUP(gq_cleanup_election, struct gq_election, gq_election_free);

/* What of a Lease is read: the spec, and what people put into its metadata, which a PUT must carry
 * on. Pruned it is at most so large. */
extern const struct gq_json_keep gq_lease_keep[];
#define GQ_LEASE_MAX_BYTES (512u << 10)

/* One request; the strings live until the next call of begin. */
struct gq_election_request {
	const char *method; /* GET, POST or PUT */
	const char *path;
	const char *content_type; /* or NULL */
	const char *body;         /* or NULL */
	size_t body_len;
	int64_t timeout_ns;
};

/* When gq_election_begin() is to be called next: a request is due, or leadership ends unless it was
 * renewed (that is so while a request runs, too). Monotonic; may have passed; INT64_MAX while a
 * request runs and nothing is due before its answer, and after a release. Ask anew after each other
 * call. */
int64_t gq_election_deadline(const struct gq_election *election);

/* The next request, when one is due and none runs: returns true and fills ret_request. It runs
 * until gq_election_end(). wall_ns: Unix time in nanoseconds, only for the Lease's own timestamps.
 */
bool gq_election_begin(struct gq_election *election, int64_t now_ns, int64_t wall_ns,
		       struct gq_election_request *ret_request);

/* The answer: code as in struct gq_api_response, body the pruned Lease when code is 0. A request
 * that could not be started ends with its code, too. Any body is taken: what is no Lease is a
 * failure. */
void gq_election_end(struct gq_election *election, int64_t now_ns, int code, const char *body,
		     size_t len);

/* Whether the Lease is held and was renewed within renew_ns. Counted from before the renewing
 * request was sent. */
bool gq_election_leads(const struct gq_election *election, int64_t now_ns);

/* Gives the Lease up, for good: from now on it leads no more, and the next requests release it
 * (holder "", one second), again while it is still ours; nothing is acquired any more. The caller
 * decides how long to go on when the API server does not answer. */
void gq_election_release(struct gq_election *election, int64_t now_ns);
/* After a release: nothing is left to do. */
bool gq_election_released(const struct gq_election *election);

/* Who holds the Lease as last seen; "" nobody or not known; the first 253 bytes. Lives until the
 * next end. */
const char *gq_election_holder(const struct gq_election *election);

#endif
