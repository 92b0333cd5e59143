#ifndef GQ_CONTROLLER_STORE_H
#define GQ_CONTROLLER_STORE_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "informer/api.h"
#include "quota/decision.h"
#include "quota/ledger.h"

/* The single reads that decisions ask for, and the questions by which reservations end. */
struct gq_store;

/* All are borrowed. NULL: out of memory. */
struct gq_store *gq_store_new(struct gq_ledger *ledger, struct gq_api *api,
			      const struct gq_clock *clock);
/* After the API client has ended (its callbacks come here). Takes NULL. */
void gq_store_free(struct gq_store *store);
GQ_DEFINE_CLEANUP(gq_cleanup_store, struct gq_store, gq_store_free);

/* Reads one object; done is called once read->code and read->body are filled in. */
void gq_store_read(struct gq_store *store, struct gq_read *read, int64_t timeout_ns,
		   void (*done)(void *done_arg), void *done_arg);

/* Asks the API server about the reservations that are due. Call about ten times a second. */
void gq_store_probe(struct gq_store *store);

#endif
