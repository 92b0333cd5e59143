#ifndef GQ_INFORMER_KUBECONFIG_INTERNAL_H
#define GQ_INFORMER_KUBECONFIG_INTERNAL_H

#include <stddef.h>

#include "informer/kubeconfig.h"

/* gq_kubeconfig_load() from memory. path: for messages and for relative paths. text is only
 * read. */
int gq_kubeconfig_parse(const char *path, const char *text, size_t len, const char *context,
			struct gq_kubeconfig **ret_config, struct gq_err *err);

/* Checks an https:// (or loopback http://) URL of an API server and returns it without a slash at
 * its end. Errors: GQ_EINVALID, GQ_ENOMEM. */
int gq_kubeconfig_server(const char *text, char **ret_server, struct gq_err *err);

/* Checks a proxy URL: http, https or socks5. */
int gq_kubeconfig_proxy(const char *text, struct gq_err *err);

#endif
