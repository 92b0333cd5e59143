#ifndef GQ_WEBHOOK_REVIEW_H
#define GQ_WEBHOOK_REVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "webhook/warnings.h"

/* AdmissionReview of admission.k8s.io/v1: the request as it is read, the response as it is written.
 * Source: k8s.io/api/admission/v1; apiserver, admission/plugin/webhook/request/admissionreview.go.
 */

struct json_object;

/* Strings live as long as the review. */
struct gq_review {
	const char *uid;
	const char *operation; /* CREATE, UPDATE, DELETE, CONNECT */
	const char *group;     /* of request.resource; "" is core */
	const char *resource;
	const char *subresource;
	const char *namespace_;
	const char *name;
	const char *user;
	bool dry_run;
	struct json_object *object;     /* pruned; NULL when the request has none */
	struct json_object *old_object; /* the same, of what was there before an update */
	struct json_object *root;
};

/* Reads what anybody here looks at and checks the rest on the way. Errors, all of which mean HTTP
 * 400: GQ_EINVALID malformed JSON (line and column), another kind or version, a missing or wrongly
 * typed field; GQ_ETOOBIG over a cap. GQ_ENOMEM: 503. */
int gq_review_decode(const char *body, size_t len, struct gq_review *ret_review,
		     struct gq_err *err);
void gq_review_done(struct gq_review *review);

struct gq_review_answer {
	const char *uid;
	bool allowed;
	int code;            /* refused: HTTP code inside the status; 403, or 503 */
	const char *message; /* refused: for people; may have several lines */
	struct gq_warnings warnings;
	const char *const *audit; /* key, value, key, value, … */
	size_t n_audit;           /* pairs */
};

/* Appends the response. Returns out->code. */
int gq_review_print(struct gq_buf *out, const struct gq_review_answer *answer);

/* A string member at a path of keys of the review's object. *ret_text is NULL when it, or what it
 * is in, is absent or null; else its *ret_len bytes and a NUL, which live as long as the review and
 * may hold a NUL. GQ_EINVALID: it is something else than a string; GQ_ENOMEM. */
int gq_review_object_string(const struct gq_review *review, const char *const *keys, size_t n_keys,
			    const char **ret_text, size_t *ret_len, struct gq_err *err);

#endif
