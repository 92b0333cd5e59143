#ifndef GQ_INFORMER_API_H
#define GQ_INFORMER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_filter.h"
#include "informer/credential.h"
#include "informer/kubeconfig.h"

/* A client of the API server for single requests: one thread with one libcurl multi, so that no
 * request blocks another. */
struct gq_api;

/* config: borrowed, must outlive the client. user_agent: borrowed. Starts the thread.
 * GQ_EINVALID: credentials that libcurl or OpenSSL can't use; GQ_ENOMEM. */
int gq_api_new(const struct gq_kubeconfig *config, const char *user_agent, struct gq_api **ret_api,
	       struct gq_err *err);
/* Ends all requests (their callbacks run, with GQ_EIO) and joins the thread; what is asked for from
 * now on is refused. For whoever may still ask while he is taken down. Takes NULL. */
void gq_api_stop(struct gq_api *api);
/* The same, and frees it. Takes NULL. */
void gq_api_free(struct gq_api *api);
GQ_DEFINE_CLEANUP(gq_cleanup_api, struct gq_api, gq_api_free);

/* What it shows to the API server; valid until the client is freed. Any thread. */
struct gq_credential *gq_api_credential(struct gq_api *api);

struct gq_api_response {
	int code;         /* 0; GQ_ENOTFOUND 404; GQ_ECONFLICT 409; GQ_EGONE 410; GQ_ETHROTTLED 429;
			     GQ_EDENIED 401, 403; GQ_EINVALID other 4xx or a bad body; GQ_EIO 5xx,
			     network, timeout; GQ_ETOOBIG */
	long status;      /* HTTP, 0 when there was no answer */
	const char *body; /* pruned when a keep tree was given, and "" then on failure; else as it
			     came; NUL-terminated, valid in the callback */
	size_t len;
	bool unauthorized; /* 401, or there was no token to show: as gq_credential_state() tells of
			      all requests */
	int retry_after_s; /* 0 when not told */
	const char
	    *error; /* what failed, for people: the Status message when there is one; or "" */
};

struct gq_api_request {
	const char *method;       /* "GET", "POST", "PUT", "PATCH", "DELETE" */
	const char *path;         /* with query; copied */
	const char *content_type; /* or NULL without a body */
	const char *body;         /* copied; may be NULL */
	size_t body_len;
	const struct gq_json_keep *keep; /* prune the answer's JSON while it comes; NULL: as it
					    comes */
	size_t max_bytes;                /* of the answer, or of what is left of it when it is
					    pruned; 0: 4 MiB */
	int64_t timeout_ns;              /* of the whole request, > 0 */
	/* Called exactly once, on the client's thread, with no lock held. May start requests. */
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
};

/* Any thread. GQ_ENOMEM, GQ_EINVALID: nothing was started and on_done is not called. */
int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err);

/* Calls on_due once, delay_ns from now (0: as soon as it can), on the client's thread with no lock
 * held. Any thread. What is not due when the client ends is never called. GQ_ENOMEM; GQ_ETOOBIG
 * with more than 10,000 of them; GQ_EINVALID once the client has been stopped. */
int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err);

/* The same as gq_api_start(), waiting for the answer (CLI, start-up). The body is appended to out
 * (may be NULL). Returns the response's code; err says what failed and ret_status the HTTP status
 * (may be NULL). GQ_EINVALID in a callback of the client, which can't wait. */
int gq_api_call(struct gq_api *api, const struct gq_api_request *request, struct gq_buf *out,
		long *ret_status, struct gq_err *err);

#endif
