#include "controller/journal_attempts.h"

#include <string.h>

void gq_journal_attempts_add(struct gq_journal_attempts *attempts, uint64_t seq, const char *lines,
			     size_t len)
{
	if (attempts->n == GQ_ATTEMPTS_MAX) {
		attempts->n--;
		memmove(attempts->items, attempts->items + 1,
			attempts->n * sizeof attempts->items[0]);
	}
	attempts->items[attempts->n].seq = seq;
	if (gq_hash_text(lines, len, attempts->items[attempts->n].hash))
		attempts->items[attempts->n].hash[0] = '\0';
	attempts->n++;
}

void gq_journal_attempts_drop_last(struct gq_journal_attempts *attempts)
{
	if (attempts->n)
		attempts->n--;
}

bool gq_journal_attempts_have(const struct gq_journal_attempts *attempts, uint64_t seq,
			      const char *lines, size_t len)
{
	char hash[GQ_HASH_TEXT_BYTES];

	if (gq_hash_text(lines, len, hash))
		return false;
	for (size_t i = 0; i < attempts->n; i++)
		if (attempts->items[i].seq == seq && strcmp(attempts->items[i].hash, hash) == 0)
			return true;
	return false;
}
