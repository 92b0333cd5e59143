#include "webhook/retries.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"

#define SETS 512u
#define SET_SLOTS 8u
#define MAX_NS (GQ_RETRIES_MAX_S * GQ_NS_PER_S)

/* A review has one slot of a set, by its hash; the oldest of the set makes room. */
struct slot {
	uint64_t hash;
	int64_t first_ns;
	bool taken;
};

struct gq_retries {
	struct gq_lock lock;
	struct slot slots[SETS][SET_SLOTS];
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

/* The slot of the review; or, with none, the one to take for it. */
static struct slot *find(struct gq_retries *retries, uint64_t hash, int64_t received_ns,
			 bool *ret_known)
{
	struct slot *set = retries->slots[hash % SETS], *oldest = set;

	for (unsigned i = 0; i < SET_SLOTS; i++) {
		struct slot *slot = &set[i];
		if (slot->taken && received_ns - slot->first_ns >= MAX_NS)
			slot->taken = false;
		*ret_known = slot->taken && slot->hash == hash;
		if (*ret_known)
			return slot;
		if (oldest->taken && (!slot->taken || slot->first_ns < oldest->first_ns))
			oldest = slot;
	}
	return oldest;
}

void gq_retries_note(struct gq_retries *retries, const char *uid, int64_t received_ns)
{
	uint64_t hash = gq_hash(uid, strlen(uid));
	bool known;

	gq_lock_take(&retries->lock);
	struct slot *slot = find(retries, hash, received_ns, &known);
	if (!known)
		*slot = (struct slot){.hash = hash, .first_ns = received_ns, .taken = true};
	gq_lock_release(&retries->lock);
}

int64_t gq_retries_first(struct gq_retries *retries, const char *uid, int64_t received_ns)
{
	uint64_t hash = gq_hash(uid, strlen(uid));
	bool known;

	gq_lock_take(&retries->lock);
	const struct slot *slot = find(retries, hash, received_ns, &known);
	int64_t first_ns = known && slot->first_ns < received_ns ? slot->first_ns : received_ns;
	gq_lock_release(&retries->lock);
	return first_ns;
}
