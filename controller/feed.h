#ifndef GQ_CONTROLLER_FEED_H
#define GQ_CONTROLLER_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "informer/informer.h"
#include "quota/ledger.h"

/* From the informer's events to the ledger: decodes each object and tells what became of it. A pod
 * of which something is not understood is an error and is charged all the same, where that is
 * possible. All on the informer's thread. */
struct gq_feed {
	struct gq_ledger *ledger;
	const struct gq_clock *clock;

	/* gpuquota's own pods: those of this namespace, by the labels and annotations that replicas
	 * know each other by. Each is told after the ledger has it, so that every pod stored before
	 * is in the ledger by then, unless a list is under way. own_namespace NULL: nothing is
	 * told. */
	const char *own_namespace;
	/* leader_label, barrier: "" absent. gone: deleted; a list tells of no deletions. listed: it
	 * is part of a full list, whose objects come in no order. */
	void (*on_own_pod)(void *arg, const char *name, const char *leader_label,
			   const char *barrier, bool gone, bool listed);
	/* A full list of the pods has come to its end, and the ledger knows which are gone.
	 * begun_ns: as in struct gq_event. May be NULL. */
	void (*on_pods_listed)(void *arg, int64_t begun_ns);
	void *arg;

	bool listing; /* the feed's own: a full list of pods is under way */
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
