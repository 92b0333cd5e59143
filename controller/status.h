#ifndef GQ_CONTROLLER_STATUS_H
#define GQ_CONTROLLER_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "controller/policy_source.h"
#include "informer/api.h"
#include "quota/ledger.h"

/* ConfigMap gpuquota-status: what the leader knows, for people (key status.yaml) and for
 * `gpuquota usage` (key usage.json: the page /usage, and more). */

#define GQ_STATUS_NAME "gpuquota-status"
#define GQ_STATUS_YAML_KEY "status.yaml"
#define GQ_STATUS_JSON_KEY "usage.json"
/* Whoever may patch the ConfigMap asks for a recount by setting this annotation to a value that it
 * did not have. The recount that follows names it as gq_status_recount.request. Longer values than
 * GQ_STATUS_REQUEST_MAX_BYTES are to be ignored. */
#define GQ_STATUS_REQUEST_ANNOTATION "gpuquota.io/recount-requested"
#define GQ_STATUS_REQUEST_MAX_BYTES 63

/* Of all data together: the ConfigMap is below 256 KiB with its metadata. */
#define GQ_STATUS_MAX_BYTES 250000

/* ---- the facts ---- */

struct gq_recount_result;

/* The last recount. What it found is as in struct gq_drift. */
struct gq_status_recount {
	char request[GQ_STATUS_REQUEST_MAX_BYTES + 1]; /* the annotation it answers, or "" */
	int64_t at_s;                                  /* Unix time of its end; 0: none yet */
	size_t pods;                                   /* that were counted */
	char problem[512];                             /* why not all were, or "" */
	struct gq_drift_limit *limits;
	size_t n_limits, more_limits;
	char **drifted; /* "namespace/name" */
	size_t n_drifted, more_drifted;
};

/* Frees what it points to and leaves it empty. */
void gq_status_recount_done(struct gq_status_recount *recount);
/* A deep copy. GQ_ENOMEM leaves ret_copy untouched. */
int gq_status_recount_copy(const struct gq_status_recount *recount,
			   struct gq_status_recount *ret_copy);
/* Replaces recount by what has come out of a new one, which answers `request` ("": nobody's) and
 * ended at at_s. GQ_ENOMEM: recount stays. */
int gq_status_recount_take(struct gq_status_recount *recount, const char *request, int64_t at_s,
			   const struct gq_recount_result *result);

struct gq_status_facts {
	struct gq_usage usage; /* owned; with holders, see gq_ledger_usage_holders() */
	struct gq_policy_status policy;
	struct gq_status_recount recount; /* owned */
	bool journal_held;                /* nothing is granted for now */
	char journal_problem[GQ_ERR_MAX]; /* why the last write of it failed, or "" */
	char leader[256];                 /* who leads: the pod's name */
	uint64_t epoch;
	int64_t updated_s; /* Unix time */
};

void gq_status_facts_done(struct gq_status_facts *facts);

/* ---- printing (status_print.c) ---- */

/* Appends both documents. Together they have at most max_bytes (GQ_STATUS_MAX_BYTES); what does not
 * fit is left out, the tenants that hold least first, and counted under "truncated" and "missing".
 * GQ_ENOMEM; GQ_ETOOBIG when not even the head fits. */
int gq_status_print(const struct gq_status_facts *facts, size_t max_bytes, struct gq_buf *yaml,
		    struct gq_buf *json);

/* ---- writing (status_writer.c) ---- */

/* Keeps the ConfigMap up to date while this process leads. */
struct gq_status_writer;

struct gq_status_writer_options {
	struct gq_api *api;     /* borrowed */
	const char *namespace_; /* copied */
	uint64_t seed;          /* of jitter */
	/* Fills ret_facts, which the writer empties, also on failure; it comes zeroed. The thread
	 * of gq_status_writer_tick(), no lock held. On failure there is no write this time. */
	int (*gather)(void *arg, struct gq_status_facts *ret_facts, struct gq_err *err);
	void *arg;
};

/* NULL: out of memory. */
struct gq_status_writer *gq_status_writer_new(const struct gq_status_writer_options *options);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_status_writer_free(struct gq_status_writer *writer);
GQ_DEFINE_CLEANUP(gq_cleanup_status_writer, struct gq_status_writer, gq_status_writer_free);

/* From now on this process leads, and the status is written soon; or it leads no more, and nothing
 * is begun. Any thread. */
void gq_status_writer_lead(struct gq_status_writer *writer, bool leads);

/* The ConfigMap is gone: it is written anew soon. Any thread. */
void gq_status_writer_gone(struct gq_status_writer *writer);

/* Call it about every 100 ms, from one thread. Looks at the facts every three seconds and writes
 * them when something but the time, and what is unready, has changed, and every minute. now_ns:
 * monotonic. */
void gq_status_writer_tick(struct gq_status_writer *writer, int64_t now_ns);

struct gq_status_writer_stats {
	uint64_t written;
	uint64_t failed;
};
/* Any thread. */
void gq_status_writer_stats(struct gq_status_writer *writer,
			    struct gq_status_writer_stats *ret_stats);

#endif
