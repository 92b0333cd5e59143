#include "base/lock.h"

#include <assert.h>

#ifndef NDEBUG
/* Bit r: this thread holds a lock of rank r. */
static _Thread_local unsigned held;

static void note_take(const struct gq_lock *lock)
{
	/* nothing of this rank or above may be held already */
	assert(held >> lock->rank == 0);
	held |= 1u << lock->rank;
}

static void note_release(const struct gq_lock *lock)
{
	assert(held >> lock->rank & 1);
	held &= ~(1u << lock->rank);
}
#else
static void note_take(const struct gq_lock *lock)
{
	(void)lock;
}

static void note_release(const struct gq_lock *lock)
{
	(void)lock;
}
#endif

void gq_lock_init(struct gq_lock *lock, enum gq_lock_rank rank)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->rank = rank;
}

void gq_lock_done(struct gq_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

void gq_lock_take(struct gq_lock *lock)
{
	note_take(lock);
	pthread_mutex_lock(&lock->mutex);
}

void gq_lock_release(struct gq_lock *lock)
{
	note_release(lock);
	pthread_mutex_unlock(&lock->mutex);
}

bool gq_lock_held(const struct gq_lock *lock)
{
#ifndef NDEBUG
	return held >> lock->rank & 1;
#else
	(void)lock;
	return true;
#endif
}
