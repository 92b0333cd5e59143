#include "controller/journal_tally.h"

#include <stdio.h>

#include "base/log.h"

const double gq_journal_bounds_s[GQ_JOURNAL_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025,
							0.05,  0.1,    0.25,  1,    5};

const char *gq_journal_outcome_name(enum gq_journal_outcome outcome)
{
	static const char *const names[GQ_JOURNAL_OUTCOMES] = {"written", "conflict",  "absent",
							       "denied",  "throttled", "unknown"};

	return names[outcome];
}

void gq_journal_tally_init(struct gq_journal_tally *tally)
{
	gq_lock_init(&tally->lock, GQ_RANK_LEAF);
}

void gq_journal_tally_done(struct gq_journal_tally *tally)
{
	gq_lock_done(&tally->lock);
}

void gq_journal_tally_get(struct gq_journal_tally *tally, struct gq_journal_stats *ret_stats)
{
	gq_lock_take(&tally->lock);
	*ret_stats = tally->stats;
	gq_lock_release(&tally->lock);
}

void gq_journal_tally_problem(struct gq_journal_tally *tally, const char *problem)
{
	gq_lock_take(&tally->lock);
	(void)snprintf(tally->stats.problem, sizeof tally->stats.problem, "%s", problem);
	gq_lock_release(&tally->lock);
}

void gq_journal_tally_outcome(struct gq_journal_tally *tally, enum gq_journal_outcome outcome,
			      const char *problem)
{
	gq_lock_take(&tally->lock);
	tally->stats.writes[outcome]++;
	gq_lock_release(&tally->lock);
	gq_journal_tally_problem(tally, problem);
	if (problem[0])
		gq_log(GQ_LOG_WARN, "the journal could not be written",
		       GQ_S("outcome", gq_journal_outcome_name(outcome)), GQ_S("problem", problem));
}

void gq_journal_tally_written(struct gq_journal_tally *tally, int64_t took_ns, size_t bytes,
			      size_t reservations)
{
	double took_s = (double)took_ns / (double)GQ_NS_PER_S;
	size_t bucket = 0;

	while (bucket < GQ_JOURNAL_BUCKETS && took_s > gq_journal_bounds_s[bucket])
		bucket++;
	gq_lock_take(&tally->lock);
	tally->stats.writes[GQ_JOURNAL_WRITTEN]++;
	tally->stats.write_buckets[bucket]++;
	tally->stats.write_sum_s += took_s;
	tally->stats.bytes = bytes;
	tally->stats.reservations = reservations;
	gq_lock_release(&tally->lock);
}
