#ifndef GQ_QUOTA_ENTRY_H
#define GQ_QUOTA_ENTRY_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "quota/object.h"

/* One reservation as a line of the journal: a pod as JSON, cut down to what the ledger needs of it,
 * that the one decoder of pods reads back to the same demand and the same candidates. What is
 * printed can always be decoded. */

/* A longer line is not printed: no pod that somebody means has one. */
#define GQ_ENTRY_MAX_BYTES (16u << 10)
/* A longer user is cut between two characters. */
#define GQ_ENTRY_USER_MAX_BYTES 1024

struct gq_entry {
	struct gq_pod *pod; /* reference; with namespace, name and uid; containers have no names */
	char *user;         /* who asked for it; "" not known */
	char *bind_node;    /* a binding to it was allowed; "" none */
};

/* Appends the line, without a line break in it or behind it. user, bind_node: may be NULL or "".
 * Only the owner that is the controller, GPU amounts by container, nodeName, node selector,
 * required node affinity and tolerations are printed: no claim, no problem, no phase, no
 * generateName, no name of a container. As short as it can be: nothing that is empty or a default.
 * pod: as gq_pod_decode() made it.
 * Returns 0, GQ_ENOMEM or GQ_ETOOBIG (out->code, and out has no more than before), or GQ_EINVALID
 * (out as before): no uid, or a namespace, name, uid or bind_node that can't be. */
int gq_entry_print(struct gq_buf *out, const struct gq_pod *pod, const char *user,
		   const char *bind_node);

/* Reads one line. Fields that are not known are passed over.
 * ret_entry: emptied by the caller with gq_entry_done().
 * Errors: GQ_EINVALID (no JSON, a key that stands twice, no uid, a name that no pod can have, a
 * pod that no reservation is of: with a claim, with a problem, or past Pending, …); GQ_ETOOBIG;
 * GQ_ENOMEM. */
int gq_entry_decode(const char *line, size_t len, struct gq_entry *ret_entry, struct gq_err *err);
void gq_entry_done(struct gq_entry *entry);

#endif
