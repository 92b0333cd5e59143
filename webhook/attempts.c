#include "webhook/attempts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"

#define SLOTS 4096u
#define MAX_NS (GQ_ATTEMPTS_MAX_S * GQ_NS_PER_S)

/* A review has one slot, by its hash; the later of two takes it. */
struct slot {
	uint64_t hash;
	int64_t first_ns;
	bool taken;
};

struct gq_attempts {
	struct gq_lock lock;
	struct slot slots[SLOTS];
};

struct gq_attempts *gq_attempts_new(void)
{
	struct gq_attempts *attempts = calloc(1, sizeof *attempts);

	if (attempts)
		gq_lock_init(&attempts->lock, GQ_RANK_LEAF);
	return attempts;
}

void gq_attempts_free(struct gq_attempts *attempts)
{
	if (!attempts)
		return;
	gq_lock_done(&attempts->lock);
	free(attempts);
}

static bool holds(const struct slot *slot, uint64_t hash, int64_t received_ns)
{
	return slot->taken && slot->hash == hash && received_ns - slot->first_ns < MAX_NS;
}

void gq_attempts_note(struct gq_attempts *attempts, const char *uid, int64_t received_ns)
{
	uint64_t hash = gq_hash(uid, strlen(uid));
	struct slot *slot = &attempts->slots[hash % SLOTS];

	gq_lock_take(&attempts->lock);
	if (!holds(slot, hash, received_ns))
		*slot = (struct slot){.hash = hash, .first_ns = received_ns, .taken = true};
	gq_lock_release(&attempts->lock);
}

int64_t gq_attempts_first(struct gq_attempts *attempts, const char *uid, int64_t received_ns)
{
	uint64_t hash = gq_hash(uid, strlen(uid));
	const struct slot *slot = &attempts->slots[hash % SLOTS];
	int64_t first_ns = received_ns;

	gq_lock_take(&attempts->lock);
	if (holds(slot, hash, received_ns) && slot->first_ns < received_ns)
		first_ns = slot->first_ns;
	gq_lock_release(&attempts->lock);
	return first_ns;
}
