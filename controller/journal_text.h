#ifndef GQ_CONTROLLER_JOURNAL_TEXT_H
#define GQ_CONTROLLER_JOURNAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_filter.h"

/* The journal as it lies in its ConfigMap. */

#define GQ_JOURNAL_NAME "gpuquota-journal"
#define GQ_JOURNAL_FORMAT "1"
/* A higher epoch or seq is not one. */
#define GQ_JOURNAL_NUMBER_MAX (INT64_MAX - 1)
/* A longer resourceVersion is not one. */
#define GQ_JOURNAL_VERSION_MAX_BYTES 255

struct gq_journal_text {
	const char *holder;   /* identity of the leader that wrote it */
	const char *instance; /* of the process; "" not told. Two may have one identity. */
	uint64_t epoch;       /* of its term; a new leader's is higher */
	uint64_t seq;         /* of the write within the term */
	const char *lines;    /* reservations, a line each (quota/entry.h) */
	size_t lines_len;
	/* Reservations may be missing: what an earlier leader wrote was lost, and nothing is
	 * granted for one time to live. */
	bool held;
	bool empty;               /* nobody has written it yet; then it is none of ours */
	const char *version;      /* resourceVersion; "" when it is to be created */
	const char *others;       /* for printing: labels and annotations that are not ours, as
				     gq_journal_text_others() gave them; or "", NULL */
	struct json_object *root; /* of what was parsed: the strings live in it */
};

/* What of the ConfigMap is read. */
extern const struct gq_json_keep gq_journal_keep[];
/* Labels and annotations that are longer in all are not carried on. */
#define GQ_JOURNAL_OTHERS_MAX_BYTES (32u << 10)

/* Prints the whole object, ready to be sent. */
int gq_journal_text_print(struct gq_buf *out, const char *namespace_,
			  const struct gq_journal_text *text);

/* Reads a pruned object. GQ_EINVALID: it is no journal of this format, and the message says why;
 * then ret_text has nothing but the version, when that could be read. GQ_ENOMEM. Emptied by the
 * caller with gq_journal_text_done() in every case. */
int gq_journal_text_parse(const char *json, size_t len, struct gq_journal_text *ret_text,
			  struct gq_err *err);
void gq_journal_text_done(struct gq_journal_text *text);

/* Puts the labels and annotations of what was parsed into out, to be carried on by the next write:
 * they belong to whoever manages the cluster's objects. Nothing when there are none, or they do not
 * fit. */
void gq_journal_text_others(const struct gq_journal_text *text, struct gq_buf *out);

#endif
