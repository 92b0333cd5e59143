#ifndef GQ_WEBHOOK_RETRIES_H
#define GQ_WEBHOOK_RETRIES_H

#include <stdint.h>

#include "base/cleanup.h"

/* When reviews that were answered 503 first came. The API server sends such a review again, with
 * the same UID, until the time of its first call is over. Each call names the whole time, so only
 * whoever remembers the first knows how much is left.
 *
 * Bounded: what is forgotten costs a user the reason, and nothing else. Any thread. */
struct gq_retries;

/* How long one is remembered: the API server waits for no webhook any longer. */
#define GQ_RETRIES_MAX_S 30

/* NULL: out of memory. */
struct gq_retries *gq_retries_new(void);
/* Takes NULL. */
void gq_retries_free(struct gq_retries *retries);
GQ_DEFINE_CLEANUP(gq_cleanup_retries, struct gq_retries, gq_retries_free);

/* The review came at received_ns and is sent again. */
void gq_retries_note(struct gq_retries *retries, const char *uid, int64_t received_ns);
/* When it first came; received_ns if it is not remembered. Monotonic. */
int64_t gq_retries_first(struct gq_retries *retries, const char *uid, int64_t received_ns);

#endif
