#ifndef GQ_CONTROLLER_JOURNAL_ATTEMPTS_H
#define GQ_CONTROLLER_JOURNAL_ATTEMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/hash.h"

/* Writes of the journal whose outcome is not known, and which may still arrive. */

#define GQ_ATTEMPTS_MAX 32

struct gq_journal_attempts {
	struct {
		uint64_t seq;
		char hash[GQ_HASH_TEXT_BYTES]; /* of the lines */
	} items[GQ_ATTEMPTS_MAX];
	size_t n;
};

/* When there are too many, the oldest is forgotten: should it arrive, it is not recognised. The
 * same for one for whose hash there was no memory. */
void gq_journal_attempts_add(struct gq_journal_attempts *attempts, uint64_t seq, const char *lines,
			     size_t len);
/* The last one was not written. */
void gq_journal_attempts_drop_last(struct gq_journal_attempts *attempts);
/* Whether one of them wrote this. */
bool gq_journal_attempts_have(const struct gq_journal_attempts *attempts, uint64_t seq,
			      const char *lines, size_t len);

#endif
