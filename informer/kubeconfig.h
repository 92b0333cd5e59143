#ifndef GQ_INFORMER_KUBECONFIG_H
#define GQ_INFORMER_KUBECONFIG_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Where the API server is and how to prove who we are: from a kubeconfig file or from the files
 * that a pod gets. Paths in a kubeconfig are relative to its folder. Secrets are wiped when freed
 * and never printed. */
struct gq_kubeconfig {
	char *server; /* https://host:port, no trailing slash; http:// only to loopback */
	char *ca_file;
	char *ca_pem; /* wins over ca_file */
	bool insecure_skip_tls_verify;
	char *tls_server_name;
	char *proxy_url;
	char *client_cert_file;
	char *client_cert_pem;
	char *client_key_file;
	char *client_key_pem;
	char *token;
	char *token_file; /* wins over token; read again before each request */
	char *username;
	char *password;
	char *impersonate_user;
	char *impersonate_uid;
	char **impersonate_groups; /* NULL-terminated, or NULL */
	char *namespace_;          /* of the context, or NULL */
};

/* Reads a kubeconfig (YAML or JSON). context: NULL is current-context.
 * Errors: GQ_EINVALID with file, line and column: not YAML, a missing cluster, user or context, bad
 * base64, exec or auth-provider credentials (refused, with what to use instead); GQ_EIO can't read;
 * GQ_ETOOBIG over 1 MiB.
 * Source: client-go, clientcmd/api/v1. */
int gq_kubeconfig_load(const char *path, const char *context, struct gq_kubeconfig **ret_config,
		       struct gq_err *err);

/* From KUBERNETES_SERVICE_HOST/PORT and the service account folder (usually
 * /var/run/secrets/kubernetes.io/serviceaccount; root is put in front, "" but in tests).
 * GQ_ENOTFOUND: not in a pod. */
int gq_kubeconfig_in_cluster(const char *root, struct gq_kubeconfig **ret_config,
			     struct gq_err *err);

/* --kubeconfig (path, may be NULL), else $KUBECONFIG (one file), else in-cluster, else (only with
 * allow_home) ~/.kube/config. */
int gq_kubeconfig_find(const char *path, bool allow_home, struct gq_kubeconfig **ret_config,
		       struct gq_err *err);

void gq_kubeconfig_free(struct gq_kubeconfig *config);
GQ_DEFINE_CLEANUP(gq_cleanup_kubeconfig, struct gq_kubeconfig, gq_kubeconfig_free);

#endif
