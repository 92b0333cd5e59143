#ifndef GQ_CONTROLLER_CREDENTIAL_LOG_H
#define GQ_CONTROLLER_CREDENTIAL_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "informer/credential.h"

/* Tells people of credentials that the API server refuses, and of a token file that is of no use:
 * when it begins, every minute, and when it is over. Every request meets the same, and none else
 * speaks of it. */
struct gq_credential_log {
	int64_t refused_ns;  /* since when; 0 it is not */
	int64_t told_ns;     /* when that was told last */
	int64_t accepted_ns; /* since when it is taken again, if that was not told; 0 */
	bool unusable_told;
	bool had_token; /* then */
};

/* Call it often. now_ns: monotonic, > 0. */
void gq_credential_log(struct gq_credential_log *log, const struct gq_credential_state *state,
		       int64_t now_ns);

/* Whether a failure is for want of good credentials, which gq_credential_log() tells of. */
bool gq_credential_log_covers(const struct gq_credential_state *state, int code);

#endif
