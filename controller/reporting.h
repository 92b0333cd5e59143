#ifndef GQ_CONTROLLER_REPORTING_H
#define GQ_CONTROLLER_REPORTING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "controller/event_notes.h"
#include "controller/journal.h"
#include "controller/policy_source.h"
#include "controller/recount.h"
#include "controller/status.h"
#include "informer/informer.h"
#include "quota/ledger.h"

/* What the leader tells people of, and the recounts: the ConfigMap gpuquota-status, Events about
 * tenants that are over a limit, periodic recounts and those that somebody asks for by an
 * annotation of the status. */
struct gq_reporting;

struct gq_reporting_options {
	struct gq_ledger *ledger; /* all pointers are borrowed */
	struct gq_api *api;
	const struct gq_clock *clock;
	struct gq_policy_source *policy;
	struct gq_journal *journal;
	const struct gq_event_notes *notes;
	const char *namespace_;
	const char *identity;
	void (*relist)(void *arg); /* has the pods listed in full */
	void *arg;
};

/* options: copied. NULL: out of memory. */
struct gq_reporting *gq_reporting_new(const struct gq_reporting_options *options);
/* After the API client and the informer have ended. Takes NULL. */
void gq_reporting_free(struct gq_reporting *reporting);
GQ_DEFINE_CLEANUP(gq_cleanup_reporting, struct gq_reporting, gq_reporting_free);

/* This process leads from now on, or no more. Any thread. */
void gq_reporting_lead(struct gq_reporting *reporting, bool leads);
/* Call it about ten times a second, from one thread. */
void gq_reporting_tick(struct gq_reporting *reporting, int64_t now_ns);

/* The ConfigMap gpuquota-status, for gq_informer_resource; arg is the reporting. */
extern const struct gq_json_keep gq_reporting_status_keep[];
int gq_reporting_status_event(void *arg, const struct gq_event *event, struct gq_err *err);

/* Whether the status was there already: somebody has led before. Any thread. */
bool gq_reporting_status_seen(struct gq_reporting *reporting);

struct gq_reporting_stats {
	struct gq_status_writer_stats status;
	uint64_t recounts;
	int64_t last_recount_s; /* Unix time; 0 none yet */
};
/* Any thread. */
void gq_reporting_stats(struct gq_reporting *reporting, struct gq_reporting_stats *ret_stats);

#endif
