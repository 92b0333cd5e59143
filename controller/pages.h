#ifndef GQ_CONTROLLER_PAGES_H
#define GQ_CONTROLLER_PAGES_H

#include <stdatomic.h>

#include "base/clock.h"
#include "controller/events.h"
#include "controller/journal.h"
#include "controller/leadership.h"
#include "controller/policy_source.h"
#include "controller/reporting.h"
#include "informer/informer.h"
#include "quota/ledger.h"
#include "webhook/admission.h"
#include "webhook/server.h"

/* The pages of the metrics address. Everything is borrowed; server and informer are set once they
 * exist, before the first request. */
struct gq_pages {
	struct gq_ledger *ledger;
	const struct gq_clock *clock;
	struct gq_admission *admission;
	struct gq_policy_source *policy;
	struct gq_leadership *leadership;
	struct gq_journal *journal;
	struct gq_events *events;
	struct gq_reporting *reporting;
	struct gq_informer *informer;
	struct gq_server *server;
	atomic_bool draining;
};

int gq_pages_route(const char *method, const char *path);
/* On a worker. */
void gq_pages_handle(struct gq_pages *pages, struct gq_request *request);

#endif
