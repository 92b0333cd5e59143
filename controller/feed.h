#ifndef GQ_CONTROLLER_FEED_H
#define GQ_CONTROLLER_FEED_H

#include "base/clock.h"
#include "informer/informer.h"
#include "quota/ledger.h"

/* From the informer's events to the ledger: decodes each object and tells what became of it. A pod
 * of which something is not understood is an error and is charged all the same, where that is
 * possible. All on the informer's thread. */
struct gq_feed {
	struct gq_ledger *ledger;
	const struct gq_clock *clock;
};

/* For gq_informer_resource; arg is a struct gq_feed. */
int gq_feed_pods(void *arg, const struct gq_event *event, struct gq_err *err);
int gq_feed_nodes(void *arg, const struct gq_event *event, struct gq_err *err);
int gq_feed_namespaces(void *arg, const struct gq_event *event, struct gq_err *err);

/* A pod as every list, watch and GET of it is understood: what has something in it that can't be
 * read is read without that, where that is possible, since it holds its GPUs all the same.
 * ret_why: its code is 0, or says with its message what could not be read. Has a uid. Errors:
 * GQ_EINVALID, GQ_ETOOBIG, GQ_ENOMEM. */
int gq_feed_pod_decode(const char *json, size_t len, struct gq_pod **ret_pod,
		       struct gq_err *ret_why, struct gq_err *err);

#endif
