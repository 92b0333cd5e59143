#include "controller/tickets.h"

#include <stdlib.h>

#include "base/lock.h"
#include "controller/trace.h"

/* Somebody who waits for a ticket. */
struct waiter {
	struct waiter *next;
	uint64_t ticket;
	int64_t deadline_ns;
	uint64_t seq; /* the first write that held the ticket; 0 none yet */
	void (*done)(void *done_arg, int code);
	void *done_arg;
};

struct gq_tickets {
	struct gq_ledger *ledger;
	const struct gq_clock *clock;

	struct gq_lock lock; /* of what follows */
	/* Changed by the journal's thread alone, which may read them without the lock. */
	struct waiter *waiters;
	struct waiter *incoming;
	bool open;
	bool told; /* that something is incoming */
	uint64_t committed, failed;
};

struct gq_tickets *gq_tickets_new(struct gq_ledger *ledger, const struct gq_clock *clock)
{
	struct gq_tickets *tickets = calloc(1, sizeof *tickets);

	if (!tickets)
		return NULL;
	tickets->ledger = ledger;
	tickets->clock = clock;
	gq_lock_init(&tickets->lock, GQ_RANK_LEAF);
	return tickets;
}

void gq_tickets_free(struct gq_tickets *tickets)
{
	if (!tickets)
		return;
	gq_tickets_fail(tickets);
	gq_lock_done(&tickets->lock);
	free(tickets);
}

static bool is_listed(const struct waiter *list, uint64_t ticket)
{
	for (; list; list = list->next)
		if (list->ticket == ticket)
			return true;
	return false;
}

/* With the lock held. */
static bool is_waited_for(const struct gq_tickets *tickets, uint64_t ticket)
{
	return is_listed(tickets->waiters, ticket) || is_listed(tickets->incoming, ticket);
}

bool gq_tickets_put(struct gq_tickets *tickets, uint64_t ticket, int64_t deadline_ns,
		    void (*done)(void *done_arg, int code), void *done_arg)
{
	struct waiter *waiter = malloc(sizeof *waiter);
	bool tell = false, shared = false;

	gq_lock_take(&tickets->lock);
	bool take = waiter && tickets->open;
	if (take) {
		*waiter = (struct waiter){.next = tickets->incoming,
					  .ticket = ticket,
					  .deadline_ns = deadline_ns,
					  .done = done,
					  .done_arg = done_arg};
		tickets->incoming = waiter;
		tell = !tickets->told;
		tickets->told = true;
	} else {
		tickets->failed++;
		shared = is_waited_for(tickets, ticket);
	}
	gq_lock_release(&tickets->lock);
	if (take)
		return tell;
	if (!shared)
		gq_ledger_abort(tickets->ledger, ticket, gq_clock_mono_ns(tickets->clock));
	done(done_arg, waiter ? GQ_EIO : GQ_ENOMEM);
	free(waiter);
	return false;
}

void gq_tickets_untold(struct gq_tickets *tickets)
{
	gq_lock_take(&tickets->lock);
	tickets->told = false;
	gq_lock_release(&tickets->lock);
}

void gq_tickets_open(struct gq_tickets *tickets, bool open)
{
	gq_lock_take(&tickets->lock);
	tickets->open = open;
	gq_lock_release(&tickets->lock);
}

bool gq_tickets_close_idle(struct gq_tickets *tickets)
{
	gq_lock_take(&tickets->lock);
	bool idle = !tickets->waiters && !tickets->incoming;
	if (idle)
		tickets->open = false;
	gq_lock_release(&tickets->lock);
	return idle;
}

void gq_tickets_take(struct gq_tickets *tickets)
{
	gq_lock_take(&tickets->lock);
	struct waiter *next, *fresh = GQ_STEAL(tickets->incoming);
	tickets->told = false;
	for (; fresh; fresh = next) {
		next = fresh->next;
		/* who joins a ticket that is being written waits for the same write */
		for (const struct waiter *w = tickets->waiters; w; w = w->next)
			if (w->ticket == fresh->ticket)
				fresh->seq = w->seq;
		fresh->next = tickets->waiters;
		tickets->waiters = fresh;
	}
	gq_lock_release(&tickets->lock);
}

static void end(struct gq_tickets *tickets, struct waiter *waiter, int code)
{
	gq_lock_take(&tickets->lock);
	if (code)
		tickets->failed++;
	else
		tickets->committed++;
	gq_lock_release(&tickets->lock);
	waiter->done(waiter->done_arg, code);
	free(waiter);
}

/* Of those that were taken out of the waiters. */
static void fail_all(struct gq_tickets *tickets, struct waiter *list)
{
	for (struct waiter *next; list; list = next) {
		next = list->next;
		gq_lock_take(&tickets->lock);
		bool shared = is_waited_for(tickets, list->ticket);
		gq_lock_release(&tickets->lock);
		if (!shared)
			gq_ledger_abort(tickets->ledger, list->ticket,
					gq_clock_mono_ns(tickets->clock));
		end(tickets, list, GQ_EIO);
	}
}

void gq_tickets_expire(struct gq_tickets *tickets)
{
	int64_t now_ns = gq_clock_mono_ns(tickets->clock);
	struct waiter *over = NULL;

	gq_lock_take(&tickets->lock);
	for (struct waiter **at = &tickets->waiters; *at;) {
		struct waiter *waiter = *at;
		if (waiter->deadline_ns > now_ns) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		waiter->next = over;
		over = waiter;
	}
	gq_lock_release(&tickets->lock);
	fail_all(tickets, over);
}

int64_t gq_tickets_deadline_ns(const struct gq_tickets *tickets)
{
	int64_t first_ns = INT64_MAX;

	for (const struct waiter *w = tickets->waiters; w; w = w->next)
		if (w->deadline_ns < first_ns)
			first_ns = w->deadline_ns;
	return first_ns;
}

bool gq_tickets_waiting(const struct gq_tickets *tickets)
{
	return tickets->waiters != NULL;
}

void gq_tickets_mark(struct gq_tickets *tickets, uint64_t seq)
{
	for (struct waiter *w = tickets->waiters; w; w = w->next)
		if (!w->seq)
			w->seq = seq;
}

static int commit_one(struct gq_tickets *tickets, uint64_t ticket, uint64_t epoch, uint64_t seq)
{
	char uid[GQ_UID_MAX_BYTES + 1] = "";

	if (gq_trace_on())
		(void)gq_ledger_ticket_uid(tickets->ledger, ticket, uid);
	/* one that was aborted has no charge, whatever the journal holds */
	if (!gq_ledger_commit(tickets->ledger, ticket, gq_clock_mono_ns(tickets->clock)))
		return GQ_EIO;
	if (gq_trace_on())
		gq_trace("grant", epoch, seq, (const char *const[]){uid}, 1);
	return 0;
}

void gq_tickets_commit(struct gq_tickets *tickets, uint64_t epoch, uint64_t seq)
{
	struct waiter *safe = NULL;

	gq_tickets_take(tickets);
	gq_lock_take(&tickets->lock);
	for (struct waiter **at = &tickets->waiters; *at;) {
		struct waiter *waiter = *at;
		if (!waiter->seq || waiter->seq > seq) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		waiter->next = safe;
		safe = waiter;
	}
	gq_lock_release(&tickets->lock);
	while (safe) {
		uint64_t ticket = safe->ticket;
		int code = commit_one(tickets, ticket, epoch, seq);
		for (struct waiter **at = &safe; *at;) {
			struct waiter *waiter = *at;
			if (waiter->ticket != ticket) {
				at = &waiter->next;
				continue;
			}
			*at = waiter->next;
			end(tickets, waiter, code);
		}
	}
}

void gq_tickets_fail(struct gq_tickets *tickets)
{
	gq_tickets_take(tickets);
	gq_lock_take(&tickets->lock);
	struct waiter *all = GQ_STEAL(tickets->waiters);
	gq_lock_release(&tickets->lock);
	fail_all(tickets, all);
}

void gq_tickets_count(struct gq_tickets *tickets, uint64_t *ret_committed, uint64_t *ret_failed)
{
	gq_lock_take(&tickets->lock);
	*ret_committed = tickets->committed;
	*ret_failed = tickets->failed;
	gq_lock_release(&tickets->lock);
}
