#ifndef GQ_CONTROLLER_TICKETS_H
#define GQ_CONTROLLER_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "quota/ledger.h"

/* The tickets that wait for a write of the journal, and who waits for them. Whoever does not get
 * his ticket committed is told so, and what was proposed is taken back once nobody waits for it. */
struct gq_tickets;

/* Both are borrowed. NULL: out of memory. */
struct gq_tickets *gq_tickets_new(struct gq_ledger *ledger, const struct gq_clock *clock);
/* Fails those that are left. Takes NULL. */
void gq_tickets_free(struct gq_tickets *tickets);
GQ_DEFINE_CLEANUP(gq_cleanup_tickets, struct gq_tickets, gq_tickets_free);

/* Any thread. done(done_arg, code) is called exactly once, here or later on the journal's thread: 0
 * committed, GQ_EIO not, or not by deadline_ns, or the ticket was not open any more; GQ_ENOMEM.
 * Returns whether the journal's thread has to be told that there is something to take. */
bool gq_tickets_put(struct gq_tickets *tickets, uint64_t ticket, int64_t deadline_ns,
		    void (*done)(void *done_arg, int code), void *done_arg);
/* It could not be told: the next one that is put says so again. Any thread. */
void gq_tickets_untold(struct gq_tickets *tickets);
/* Whether tickets are taken; not at first. Any thread. */
void gq_tickets_open(struct gq_tickets *tickets, bool open);
/* Takes none any more, if nobody waits. Returns whether nobody does. Any thread. */
bool gq_tickets_close_idle(struct gq_tickets *tickets);

/* The rest on the journal's thread, with no lock held. */

/* Takes what was put since. */
void gq_tickets_take(struct gq_tickets *tickets);
/* Fails those whose time is up. */
void gq_tickets_expire(struct gq_tickets *tickets);
/* When the first one's time is up; INT64_MAX: nobody waits. */
int64_t gq_tickets_deadline_ns(const struct gq_tickets *tickets);
bool gq_tickets_waiting(const struct gq_tickets *tickets);
/* Those that are in no write yet are in write seq. */
void gq_tickets_mark(struct gq_tickets *tickets, uint64_t seq);
/* Commits those that are in a write up to seq of this epoch. */
void gq_tickets_commit(struct gq_tickets *tickets, uint64_t epoch, uint64_t seq);
/* Fails all of them. */
void gq_tickets_fail(struct gq_tickets *tickets);

/* How many ended so. Any thread. */
void gq_tickets_count(struct gq_tickets *tickets, uint64_t *ret_committed, uint64_t *ret_failed);

#endif
