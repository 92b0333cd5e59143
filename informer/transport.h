#ifndef GQ_INFORMER_TRANSPORT_H
#define GQ_INFORMER_TRANSPORT_H

#include <curl/curl.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "informer/credential.h"
#include "informer/kubeconfig.h"

/* How requests reach the API server: the settings and credentials of every libcurl handle. HTTP/1.1
 * only, TLS 1.2 or newer, no redirects, no proxy and no credentials but those of the kubeconfig,
 * never Accept-Encoding. One thread at a time. */
struct gq_transport;

/* config, credential, user_agent: borrowed. credential: NULL for one of its own. Loads certificates
 * and keys once, to tell what is wrong with them.
 * Errors: GQ_EINVALID names the file or key at fault; GQ_ENOMEM. */
int gq_transport_new(const struct gq_kubeconfig *config, struct gq_credential *credential,
		     const char *user_agent, struct gq_transport **ret_transport,
		     struct gq_err *err);
void gq_transport_free(struct gq_transport *transport);
GQ_DEFINE_CLEANUP(gq_cleanup_transport, struct gq_transport, gq_transport_free);

/* The transport's, for its life. */
struct gq_credential *gq_transport_credential(struct gq_transport *transport);

/* A handle for one request to path (with query), with everything set but callbacks and method.
 * content_type: may be NULL. use: filled in any case, so that what comes of the request can be told
 * to the credential. ret_headers: to be freed after the handle.
 * Errors: GQ_EIO no token can be read; GQ_ENOMEM. */
int gq_transport_request(struct gq_transport *transport, const char *path, const char *content_type,
			 struct gq_credential_use *use, CURL **ret_easy,
			 struct curl_slist **ret_headers, struct gq_err *err);

/* Called at the start of a thread that drives transfers: it takes no signals. Not SIGPIPE either,
 * which OpenSSL's writes would raise. */
void gq_transport_block_signals(void);

/* A sentence for people on a failed transfer. detail: the handle's error buffer, may be "". */
int gq_transport_fail(struct gq_err *err, CURLcode code, const char *detail);

#endif
