#ifndef GQ_QUOTA_POLICY_REPORT_H
#define GQ_QUOTA_POLICY_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "quota/policy.h"

/* How the parts of the policy reader tell what is wrong. Inside quota/policy*.c only. */

#define GQ_POLICY_PROBLEM_MAX 20

/* Keeps the first GQ_POLICY_PROBLEM_MAX problems by their place in the file, whatever the order in
 * which they are found. */
struct gq_policy_report {
	struct gq_policy_problems problems;
	bool failed; /* out of memory */
};

/* Whether a problem at this place would be kept: asked before a suggestion is worked out, so that a
 * file full of mistakes costs no more than one with twenty. */
bool gq_policy_report_wants(const struct gq_policy_report *report, unsigned line, unsigned column);

/* suggestion: copied; may be NULL. */
void gq_policy_report_add(struct gq_policy_report *report, unsigned line, unsigned column,
			  const char *suggestion, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Bytes from a file, in quotes and fit to be shown: control characters become spaces, what is long
 * is cut. */
struct gq_quoted {
	char text[84];
};
struct gq_quoted gq_policy_quote(const char *text, size_t len);

/* Room for one suggestion. gq_hint() fills it and returns it. */
struct gq_hint {
	char text[320];
};
const char *gq_hint(struct gq_hint *hint, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The candidate nearest to a misspelt word by edit distance, case ignored; NULL when none is near.
 */
struct gq_nearest {
	const char *word;
	size_t len;
	const char *best;
	size_t limit; /* a candidate must be nearer than this */
};
struct gq_nearest gq_nearest_to(const char *word, size_t len);
void gq_nearest_offer(struct gq_nearest *nearest, const char *candidate);

#endif
