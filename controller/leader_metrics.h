#ifndef GQ_CONTROLLER_LEADER_METRICS_H
#define GQ_CONTROLLER_LEADER_METRICS_H

#include "base/buf.h"
#include "controller/events.h"
#include "controller/journal.h"
#include "controller/leadership.h"
#include "controller/reporting.h"

/* Metrics of what only a leader does. */
void gq_leader_metrics_print_journal(struct gq_buf *out, const struct gq_journal_stats *stats);
void gq_leader_metrics_print_leadership(struct gq_buf *out,
					const struct gq_leadership_status *status);
void gq_leader_metrics_print_telling(struct gq_buf *out, const struct gq_events_stats *events,
				     const struct gq_reporting_stats *reporting);

#endif
