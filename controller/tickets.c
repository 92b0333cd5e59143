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
	struct waiter *waiters; /* the journal's thread alone */

	struct gq_lock lock; /* of what follows */
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

bool gq_tickets_put(struct gq_tickets *tickets, uint64_t ticket, int64_t deadline_ns,
		    void (*done)(void *done_arg, int code), void *done_arg)
{
	struct waiter *waiter = malloc(sizeof *waiter);
	bool tell = false;

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
	}
	gq_lock_release(&tickets->lock);
	if (take)
		return tell;
	gq_ledger_abort(tickets->ledger, ticket, gq_clock_mono_ns(tickets->clock));
	done(done_arg, waiter ? GQ_EIO : GQ_ENOMEM);
	free(waiter);
	return false;
}

void gq_tickets_open(struct gq_tickets *tickets, bool open)
{
	gq_lock_take(&tickets->lock);
	tickets->open = open;
	gq_lock_release(&tickets->lock);
}

void gq_tickets_take(struct gq_tickets *tickets)
{
	gq_lock_take(&tickets->lock);
	struct waiter *fresh = GQ_STEAL(tickets->incoming);
	tickets->told = false;
	gq_lock_release(&tickets->lock);
	while (fresh) {
		struct waiter *next = fresh->next;
		fresh->next = tickets->waiters;
		tickets->waiters = fresh;
		/* who joins a ticket that is being written waits for the same write */
		for (const struct waiter *w = fresh->next; w; w = w->next)
			if (w->ticket == fresh->ticket)
				fresh->seq = w->seq;
		fresh = next;
	}
}

static bool is_waited_for(const struct waiter *list, uint64_t ticket)
{
	for (; list; list = list->next)
		if (list->ticket == ticket)
			return true;
	return false;
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

void gq_tickets_expire(struct gq_tickets *tickets)
{
	int64_t now_ns = gq_clock_mono_ns(tickets->clock);
	struct waiter **at = &tickets->waiters;

	while (*at) {
		struct waiter *waiter = *at;
		if (waiter->deadline_ns > now_ns) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		if (!is_waited_for(tickets->waiters, waiter->ticket))
			gq_ledger_abort(tickets->ledger, waiter->ticket, now_ns);
		end(tickets, waiter, GQ_EIO);
	}
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

void gq_tickets_commit(struct gq_tickets *tickets, uint64_t epoch, uint64_t seq)
{
	struct waiter **at = &tickets->waiters;
	char uid[GQ_UID_MAX_BYTES + 1];

	while (*at) {
		struct waiter *waiter = *at;
		if (!waiter->seq || waiter->seq > seq) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		if (gq_trace_on() && gq_ledger_ticket_uid(tickets->ledger, waiter->ticket, uid))
			gq_trace("grant", epoch, seq, (const char *const[]){uid}, 1);
		gq_ledger_commit(tickets->ledger, waiter->ticket, gq_clock_mono_ns(tickets->clock));
		end(tickets, waiter, 0);
	}
}

void gq_tickets_fail(struct gq_tickets *tickets)
{
	struct waiter *next;

	gq_tickets_take(tickets);
	for (struct waiter *waiter = GQ_STEAL(tickets->waiters); waiter; waiter = next) {
		next = waiter->next;
		gq_ledger_abort(tickets->ledger, waiter->ticket, gq_clock_mono_ns(tickets->clock));
		end(tickets, waiter, GQ_EIO);
	}
}

void gq_tickets_count(struct gq_tickets *tickets, uint64_t *ret_committed, uint64_t *ret_failed)
{
	gq_lock_take(&tickets->lock);
	*ret_committed = tickets->committed;
	*ret_failed = tickets->failed;
	gq_lock_release(&tickets->lock);
}
