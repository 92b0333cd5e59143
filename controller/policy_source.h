#ifndef GQ_CONTROLLER_POLICY_SOURCE_H
#define GQ_CONTROLLER_POLICY_SOURCE_H

#include <stdbool.h>

#include "base/clock.h"
#include "informer/informer.h"
#include "quota/ledger.h"

#define GQ_POLICY_NAME "gpuquota-policy"
#define GQ_POLICY_KEY "policy.yaml"

/* The policy ConfigMap: each state of it is judged, and put in force when it is good. A bad one, or
 * its deletion, leaves the last good one in force and is told. */
struct gq_policy_source;

/* NULL: out of memory. Both are borrowed. */
struct gq_policy_source *gq_policy_source_new(struct gq_ledger *ledger,
					      const struct gq_clock *clock);
void gq_policy_source_free(struct gq_policy_source *source);
GQ_DEFINE_CLEANUP(gq_cleanup_policy_source, struct gq_policy_source, gq_policy_source_free);

extern const struct gq_json_keep gq_policy_source_keep[];

/* For gq_informer_resource; arg is the source. The informer's thread. */
int gq_policy_source_event(void *arg, const struct gq_event *event, struct gq_err *err);

struct gq_policy_status {
	bool in_force;
	char hash[65];            /* of the policy in force, or "" */
	bool last_ok;             /* the newest state of the ConfigMap is the one in force */
	char problem[GQ_ERR_MAX]; /* what is wrong with the newest state, first line; or "" */
};
/* Any thread. */
void gq_policy_source_status(struct gq_policy_source *source, struct gq_policy_status *ret_status);

#endif
