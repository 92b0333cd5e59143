#ifndef GQ_CONTROLLER_JOURNAL_TALLY_H
#define GQ_CONTROLLER_JOURNAL_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "controller/journal.h"

/* What a journal tells of itself, to any thread. */
struct gq_journal_tally {
	struct gq_lock lock; /* of stats */
	struct gq_journal_stats stats;
};

void gq_journal_tally_init(struct gq_journal_tally *tally);
void gq_journal_tally_done(struct gq_journal_tally *tally);
void gq_journal_tally_get(struct gq_journal_tally *tally, struct gq_journal_stats *ret_stats);

/* Why nothing can be granted now; "" it can. */
void gq_journal_tally_problem(struct gq_journal_tally *tally, const char *problem);
/* A write ended so; problem: of it, logged, or "". */
void gq_journal_tally_outcome(struct gq_journal_tally *tally, enum gq_journal_outcome outcome,
			      const char *problem);
/* A write of so many bytes and reservations succeeded. */
void gq_journal_tally_written(struct gq_journal_tally *tally, int64_t took_ns, size_t bytes,
			      size_t reservations);

#endif
