#ifndef GQ_BASE_LOCK_H
#define GQ_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* A mutex that knows its place in the order of locks. Debug builds (without NDEBUG) assert that a
 * thread takes locks in ascending order only, and that it releases what it holds. The order is in
 * ARCHITECTURE.md. */

enum gq_lock_rank {
	GQ_RANK_LEDGER_BUILD,
	GQ_RANK_LEDGER_TURN,
	GQ_RANK_LEDGER,
	GQ_RANK_LEAF, /* with no other lock: queues, statuses */
	GQ_RANKS,
};

struct gq_lock {
	pthread_mutex_t mutex;
	enum gq_lock_rank rank;
};

void gq_lock_init(struct gq_lock *lock, enum gq_lock_rank rank);
/* Not held by anybody. */
void gq_lock_done(struct gq_lock *lock);

void gq_lock_take(struct gq_lock *lock);
void gq_lock_release(struct gq_lock *lock);

/* Whether the calling thread holds a lock of this rank; always true with NDEBUG. For assertions. */
bool gq_lock_held(const struct gq_lock *lock);

#endif
