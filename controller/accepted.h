#ifndef GQ_CONTROLLER_ACCEPTED_H
#define GQ_CONTROLLER_ACCEPTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_filter.h"
#include "controller/hash.h"
#include "quota/policy.h"

/* The two ConfigMaps of the policy: the one that people write, and the one in which the leader
 * keeps what it accepted, before it enforces it. */
#define GQ_POLICY_NAME "gpuquota-policy"
#define GQ_ACCEPTED_NAME "gpuquota-policy-accepted"
#define GQ_POLICY_KEY "policy.yaml"

/* resourceVersions are opaque: copied and sent back. */
#define GQ_VERSION_BYTES 256

/* One state of one of the two. Counted; one thread at a time. */
struct gq_policy_state {
	unsigned refs;
	bool exists;
	bool deleted; /* does not exist, and did */
	char version[GQ_VERSION_BYTES];
	char *yaml; /* NULL: there is no key policy.yaml */
	size_t len;
	char hash[GQ_HASH_TEXT_BYTES]; /* of yaml, or "" */

	/* What gpuquota-policy-accepted says besides. */
	bool intact;                           /* the hash that it says is that of yaml */
	char source_version[GQ_VERSION_BYTES]; /* of the gpuquota-policy that it was */
	uint64_t epoch;                        /* of the leader that wrote it; 0: not to be read */

	/* After gq_policy_state_judge(). */
	bool judged;
	struct gq_policy *policy; /* NULL: no usable one */
	char *problem;            /* then: why, a line for each thing that is wrong */
};

extern const struct gq_json_keep gq_policy_state_keep[];

/* json: a pruned ConfigMap. GQ_EINVALID: it is none; GQ_ETOOBIG; GQ_ENOMEM. */
int gq_policy_state_read(const char *json, size_t len, struct gq_policy_state **ret_state,
			 struct gq_err *err);
/* There is none. NULL: out of memory. */
struct gq_policy_state *gq_policy_state_absent(bool deleted);
struct gq_policy_state *gq_policy_state_ref(struct gq_policy_state *state); /* takes NULL */
void gq_policy_state_unref(struct gq_policy_state *state);
GQ_DEFINE_CLEANUP(gq_cleanup_policy_state, struct gq_policy_state, gq_policy_state_unref);

/* Parses the policy, once. like: a state that may have the same text and its verdict, or NULL.
 * GQ_ENOMEM: not judged. */
int gq_policy_state_judge(struct gq_policy_state *state, const struct gq_policy_state *like,
			  struct gq_err *err);

/* Appends the ConfigMap gpuquota-policy-accepted with the policy of state, as the leader of that
 * epoch writes it. version: of the one that it replaces; NULL: there is none. */
int gq_accepted_print(struct gq_buf *out, const struct gq_policy_state *state, uint64_t epoch,
		      const char *namespace_, const char *version);

#endif
