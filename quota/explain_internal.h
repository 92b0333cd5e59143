#ifndef GQ_QUOTA_EXPLAIN_INTERNAL_H
#define GQ_QUOTA_EXPLAIN_INTERNAL_H

#include "quota/decision_internal.h"
#include "quota/message.h"

/* Shared by explain.c and workload_explain.c: what sentences about limits are made of. */

#define PHRASE(name) struct gq_buf name GQ_BUF_CLEANUP = GQ_BUF_INIT(2048)

/* A phrase that did not fit or found no memory prints as what there is of it. */
static inline const char *text(const struct gq_buf *phrase)
{
	return phrase->data ? phrase->data : "";
}

#define PRINT(out, locale, id, ...)                                                                \
	gq_message_print(out, locale, id, (const struct gq_message_arg[]){__VA_ARGS__},            \
			 sizeof((const struct gq_message_arg[]){__VA_ARGS__}) /                    \
			     sizeof(struct gq_message_arg))

/* An amount in the finding's currency: "7", "80Gi". */
void gq_explain_amount(struct gq_buf *out, enum gq_locale locale, const struct gq_finding *finding,
		       int64_t amount);
/* "8 A100 GPUs" */
void gq_explain_limit(struct gq_buf *out, const struct gq_explain *about,
		      const struct gq_finding *finding);
/* On a line of its own, what would fit. */
void gq_explain_fit(struct gq_buf *out, const struct gq_explain *about,
		    const struct gq_facts *facts);

#endif
