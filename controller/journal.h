#ifndef GQ_CONTROLLER_JOURNAL_H
#define GQ_CONTROLLER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "informer/api.h"
#include "quota/ledger.h"

/* The journal: reservations whose pod was not seen yet, in one ConfigMap, so that whoever leads
 * next knows what was answered. A ticket is committed once a write that holds it is known to have
 * succeeded; the write demands the resourceVersion of our last one, so whoever wrote in between has
 * fenced us. One write commits everything that came while the last was under way.
 *
 * Requests run on the API client's thread, one at a time. */
struct gq_journal;

struct gq_journal_options {
	struct gq_api *api; /* all pointers are borrowed */
	struct gq_ledger *ledger;
	const struct gq_clock *clock;
	const char *namespace_;
	const char *holder; /* our identity */
	int64_t ttl_ns;     /* of a reservation */
	/* Another leader has taken the journal over: we are one no more. On the client's thread;
	 * the journal has stopped before. */
	void (*on_fenced)(void *arg);
	/* The journal was lost (how: "was deleted"): nothing is granted for one time to live. On
	 * the client's thread; may be NULL. */
	void (*on_lost)(void *arg, const char *how);
	/* That time is over: gq_journal_release() once every pod that is stored by now is in the
	 * ledger. On the client's thread. */
	void (*on_hold_over)(void *arg);
	void *arg;
};

/* options: copied. NULL: out of memory. */
struct gq_journal *gq_journal_new(const struct gq_journal_options *options);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_journal_free(struct gq_journal *journal);
GQ_DEFINE_CLEANUP(gq_cleanup_journal, struct gq_journal, gq_journal_free);

/* Takes the journal over: writes it with an epoch of our own, which fences whoever led before, and
 * restores its reservations into the ledger. Tries until it succeeds or gq_journal_stop(); then
 * done(arg, epoch). A journal that is absent or not understood is written anew, and the ledger
 * grants nothing for one time to live. On the client's thread. */
void gq_journal_take_over(struct gq_journal *journal, void (*done)(void *arg, uint64_t epoch),
			  void *arg);

/* After a take-over: from now on the ledger grants. If the journal was absent or not understood,
 * or says that this happened to an earlier leader shortly before, what was in it is not known, so
 * nothing is granted for one time to live; unless this is the first leader ever. On the client's
 * thread. */
void gq_journal_open(struct gq_journal *journal, bool first_ever);

/* Ends the pause after on_hold_over: grants are made again. On the client's thread. */
void gq_journal_release(struct gq_journal *journal);

/* Goes on with what is due. Only needed where memory was short even for a timer: call it now and
 * then. On the client's thread. */
void gq_journal_tick(struct gq_journal *journal);

/* Nothing is written or committed any more; every ticket at hand is aborted, and the ledger grants
 * nothing until the next take-over. On the client's thread. */
void gq_journal_stop(struct gq_journal *journal);

/* Nothing further is granted; done(arg) once the tickets at hand have their answer, by
 * gq_journal_stop() at the latest, and none is taken any more. On the client's thread. */
void gq_journal_flush(struct gq_journal *journal, void (*done)(void *arg), void *arg);

/* Commits a ticket, then calls done, on the client's thread, with 0; or with why it could not be
 * (GQ_EIO, GQ_ENOMEM): then it was aborted before, unless somebody else still waits for it. No
 * later than deadline_ns. Any thread. */
void gq_journal_commit(struct gq_journal *journal, uint64_t ticket, int64_t deadline_ns,
		       void (*done)(void *done_arg, int code), void *done_arg);

/* How a request for the journal ended. */
enum gq_journal_outcome {
	GQ_JOURNAL_WRITTEN,
	GQ_JOURNAL_CONFLICT,
	GQ_JOURNAL_ABSENT,
	GQ_JOURNAL_DENIED,
	GQ_JOURNAL_THROTTLED,
	GQ_JOURNAL_UNKNOWN, /* no answer, or one that leaves open whether it was written */
	GQ_JOURNAL_OUTCOMES,
};
const char *gq_journal_outcome_name(enum gq_journal_outcome outcome);

#define GQ_JOURNAL_BUCKETS 10
extern const double gq_journal_bounds_s[GQ_JOURNAL_BUCKETS];

struct gq_journal_stats {
	bool holds;     /* the journal is ours */
	bool held;      /* nothing is granted for now */
	uint64_t epoch; /* the last one of ours */
	uint64_t seq;
	uint64_t writes[GQ_JOURNAL_OUTCOMES];
	uint64_t committed; /* tickets */
	uint64_t aborted;
	uint64_t bytes;        /* of the last write */
	uint64_t reservations; /* in it */
	uint64_t
	    write_buckets[GQ_JOURNAL_BUCKETS + 1]; /* of writes that succeeded; not cumulative */
	double write_sum_s;
	char problem[GQ_ERR_MAX]; /* why the last write failed, or the journal was lost; or "" */
};
/* Any thread. */
void gq_journal_stats(struct gq_journal *journal, struct gq_journal_stats *ret_stats);

#endif
