#ifndef GQ_INFORMER_CREDENTIAL_H
#define GQ_INFORMER_CREDENTIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "informer/kubeconfig.h"

/* What we show to the API server to prove who we are, and what it thinks of it. A token in a file
 * is read for each request, so that one that was replaced counts at once; while the file can't be
 * read the last one serves, unless the API server has refused it (401). One for all that talk to
 * one API server: what one of them meets concerns the others. Any thread. Source: client-go,
 * transport/token_source.go. */
struct gq_credential;

/* config: borrowed, must outlive it. GQ_ENOMEM. */
int gq_credential_new(const struct gq_kubeconfig *config, struct gq_credential **ret_credential,
		      struct gq_err *err);
void gq_credential_free(struct gq_credential *credential);
GQ_DEFINE_CLEANUP(gq_cleanup_credential, struct gq_credential, gq_credential_free);

/* What one request shows. Zeroed: none was made. */
struct gq_credential_use {
	uint64_t token;   /* which one: it counts up with each that is read; 0 none so far */
	uint64_t request; /* in the order in which they began, from 1 */
};

/* A request begins. use: filled in any case. ret_token: to be freed with gq_secret_free(); NULL
 * when it needs no token. Errors: GQ_EIO no token can be read; GQ_ENOMEM. */
int gq_credential_begin(struct gq_credential *credential, struct gq_credential_use *use,
			char **ret_token, struct gq_err *err);

/* The API server has answered that request. status: HTTP. */
void gq_credential_answered(struct gq_credential *credential, const struct gq_credential_use *use,
			    long status);

/* Whether another token has come since that request: reads the file. */
bool gq_credential_renewed(struct gq_credential *credential, const struct gq_credential_use *use);

enum gq_credential_kind {
	GQ_CREDENTIAL_NONE,
	GQ_CREDENTIAL_TOKEN_FILE,
	GQ_CREDENTIAL_TOKEN,
	GQ_CREDENTIAL_PASSWORD,
	GQ_CREDENTIAL_CERTIFICATE,
};

struct gq_credential_state {
	enum gq_credential_kind kind;
	const char *file;  /* of a token or certificate; NULL: it stands in the kubeconfig */
	bool refused;      /* 401 was the last word on it */
	uint64_t refusals; /* answers of 401 */
	bool has_token;    /* one that may be shown, be it an older one */
	char unusable[GQ_ERR_MAX]; /* why the token file is of no use at present, or "" */
};
void gq_credential_state(struct gq_credential *credential, struct gq_credential_state *ret_state);

#endif
