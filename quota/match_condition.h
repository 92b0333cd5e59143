#ifndef GQ_QUOTA_MATCH_CONDITION_H
#define GQ_QUOTA_MATCH_CONDITION_H

#include "base/buf.h"

/* The CEL expressions by which the API server tells which objects to ask us about, from the lists
 * that the recognisers use. */

/* Appends the matchCondition of an entry of manifests/webhooks.yaml, one line without a line break:
 *   quota            pods that ask for a GPU
 *   rules            other pods in which a rule could find something
 *   references       other pods with volumes by claims, or with variables from a ConfigMap as a
 *                    whole, which would have to be read to tell
 *   user-namespaces  other pods without a user namespace of their own
 *   workloads        workloads whose template is one of the first three, and scales that grow
 *   workload-user-namespaces
 *                    other workloads whose pods have no user namespace of their own
 * An entry asks about none of the pods that those above it ask about, but for user-namespaces,
 * which asks about those of references too: that one is asked in vain while we are away. Errors:
 * GQ_EINVALID another entry; those of the buffer. */
int gq_match_condition_print(struct gq_buf *out, const char *entry);

#endif
