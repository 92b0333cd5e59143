#ifndef GQ_WEBHOOK_ATTEMPTS_H
#define GQ_WEBHOOK_ATTEMPTS_H

#include <stdint.h>

#include "base/cleanup.h"

/* When reviews that were answered 503 first came. The API server sends such a review again, with
 * the same UID, until the time of its first call is over. Each call names the whole time, so only
 * whoever remembers the first knows how much is left.
 *
 * Bounded: what is forgotten costs a user the reason, and nothing else. Any thread. */
struct gq_attempts;

/* How long one is remembered: the API server waits for no webhook any longer. */
#define GQ_ATTEMPTS_MAX_S 30

/* NULL: out of memory. */
struct gq_attempts *gq_attempts_new(void);
/* Takes NULL. */
void gq_attempts_free(struct gq_attempts *attempts);
GQ_DEFINE_CLEANUP(gq_cleanup_attempts, struct gq_attempts, gq_attempts_free);

/* The review came at received_ns and is sent again. */
void gq_attempts_note(struct gq_attempts *attempts, const char *uid, int64_t received_ns);
/* When it first came; received_ns if it is not remembered. Monotonic. */
int64_t gq_attempts_first(struct gq_attempts *attempts, const char *uid, int64_t received_ns);

#endif
