#include "webhook/retries.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"

#define SLOTS 4096u
#define MAX_NS (GQ_RETRIES_MAX_S * GQ_NS_PER_S)

/* A review has one slot, by its hash; the later of two takes it. */
struct slot {
	uint64_t hash;
	int64_t first_ns;
	bool taken;
};

struct gq_retries {
	struct gq_lock lock;
	struct slot slots[SLOTS];
};

struct gq_retries *gq_retries_new(void)
{
	struct gq_retries *retries = calloc(1, sizeof *retries);

	if (retries)
		gq_lock_init(&retries->lock, GQ_RANK_LEAF);
	return retries;
}

void gq_retries_free(struct gq_retries *retries)
{
	if (!retries)
		return;
	gq_lock_done(&retries->lock);
	free(retries);
}

static bool holds(const struct slot *slot, uint64_t hash, int64_t received_ns)
{
	return slot->taken && slot->hash == hash && received_ns - slot->first_ns < MAX_NS;
}

void gq_retries_note(struct gq_retries *retries, const char *uid, int64_t received_ns)
{
	uint64_t hash = gq_hash(uid, strlen(uid));
	struct slot *slot = &retries->slots[hash % SLOTS];

	gq_lock_take(&retries->lock);
	if (!holds(slot, hash, received_ns))
		*slot = (struct slot){.hash = hash, .first_ns = received_ns, .taken = true};
	gq_lock_release(&retries->lock);
}

int64_t gq_retries_first(struct gq_retries *retries, const char *uid, int64_t received_ns)
{
	uint64_t hash = gq_hash(uid, strlen(uid));
	const struct slot *slot = &retries->slots[hash % SLOTS];
	int64_t first_ns = received_ns;

	gq_lock_take(&retries->lock);
	if (holds(slot, hash, received_ns) && slot->first_ns < received_ns)
		first_ns = slot->first_ns;
	gq_lock_release(&retries->lock);
	return first_ns;
}
