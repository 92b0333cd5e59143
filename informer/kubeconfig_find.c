#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "informer/kubeconfig.h"
#include "informer/kubeconfig_internal.h"
#include "informer/secret.h"

#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
enum { ACCOUNT_FILE_MAX_BYTES = 1 << 20 };

GQ_DEFINE_CLEANUP(cleanup_url, CURLU, curl_url_cleanup);
GQ_DEFINE_CLEANUP(cleanup_curl_str, char, curl_free);
#define CURL_STR GQ_CLEANUP(cleanup_curl_str)

static bool is_loopback(const char *host)
{
	struct in_addr v4;

	if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
		return true;
	return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

int gq_kubeconfig_server(const char *text, char **ret_server, struct gq_err *err)
{
	GQ_CLEANUP(cleanup_url) CURLU *url = curl_url();
	CURL_STR char *host = NULL, *user = NULL, *password = NULL;

	if (!url)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	bool tls = strncasecmp(text, "https://", 8) == 0;
	if (!tls && strncasecmp(text, "http://", 7) != 0)
		return gq_fail(err, GQ_EINVALID, "the server \"%s\" must begin with https://",
			       text);
	if (!gq_secret_is_header_value(text) || strchr(text, ' ') || strstr(text, ":///") ||
	    curl_url_set(url, CURLUPART_URL, text, 0) ||
	    curl_url_get(url, CURLUPART_HOST, &host, 0) || !*host)
		return gq_fail(err, GQ_EINVALID, "the server is not a URL");
	(void)curl_url_get(url, CURLUPART_USER, &user, 0);
	(void)curl_url_get(url, CURLUPART_PASSWORD, &password, 0);
	if (user || password || strpbrk(text, "?#"))
		return gq_fail(err, GQ_EINVALID,
			       "the server's URL may hold a host, a port and a path, nothing else");
	if (!tls && !is_loopback(host))
		return gq_fail(
		    err, GQ_EINVALID,
		    "the server \"%s\" must begin with https://: plain http is for loopback", text);
	size_t len = strlen(text);
	while (len && text[len - 1] == '/')
		len--;
	char *server = strndup(text, len);
	if (!server)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_server = server;
	return 0;
}

int gq_kubeconfig_proxy(const char *text, struct gq_err *err)
{
	GQ_CLEANUP(cleanup_url) CURLU *url = curl_url();
	CURL_STR char *scheme = NULL, *host = NULL;

	if (!url)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	/* the text itself is not told: it may hold a password */
	if (curl_url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) ||
	    curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) ||
	    curl_url_get(url, CURLUPART_HOST, &host, 0) || !*host)
		return gq_fail(err, GQ_EINVALID, "proxy-url is not a URL");
	if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0 &&
	    strcmp(scheme, "socks5") != 0)
		return gq_fail(err, GQ_EINVALID,
			       "proxy-url must begin with http://, https:// or socks5://");
	return 0;
}

static int account_path(const char *root, const char *file, char **ret_path, struct gq_err *err)
{
	char *path = NULL;

	if (asprintf(&path, "%s" ACCOUNT_DIR "/%s", root ? root : "", file) < 0)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_path = path;
	return 0;
}

static int account_namespace(const char *root, char **ret_namespace, struct gq_err *err)
{
	GQ_AUTOFREE char *path = NULL, *text = NULL;
	size_t len = 0;

	int code = account_path(root, "namespace", &path, err);
	if (code)
		return code;
	if (access(path, R_OK) != 0)
		return 0; /* only a default: not every pod has it */
	code = gq_secret_read_file(path, ACCOUNT_FILE_MAX_BYTES, &text, &len, err);
	if (code)
		return code;
	char *name = gq_secret_trimmed(text, len);
	if (!name)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_namespace = name;
	return 0;
}

int gq_kubeconfig_in_cluster(const char *root, struct gq_kubeconfig **ret_config,
			     struct gq_err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	GQ_CLEANUP(gq_cleanup_kubeconfig) struct gq_kubeconfig *config = NULL;
	GQ_AUTOFREE char *url = NULL;
	int code;

	if (!host || !*host || !port || !*port)
		return gq_fail(err, GQ_ENOTFOUND,
			       "no kubeconfig, and not in a pod: KUBERNETES_SERVICE_HOST and _PORT "
			       "are not set");
	config = calloc(1, sizeof *config);
	bool v6 = strchr(host, ':') && host[0] != '[';
	if (!config ||
	    asprintf(&url, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port) < 0) {
		url = NULL; /* asprintf leaves it undefined */
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	}
	if ((code = account_path(root, "token", &config->token_file, err)) ||
	    (code = account_path(root, "ca.crt", &config->ca_file, err)))
		return code;
	if (access(config->token_file, F_OK) != 0)
		return gq_fail(err, GQ_ENOTFOUND, "not in a pod with a service account: no %s",
			       config->token_file);
	if (access(config->ca_file, R_OK) != 0)
		return gq_fail(err, GQ_EIO, "can't read %s", config->ca_file);
	code = gq_kubeconfig_server(url, &config->server, err);
	if (code)
		return gq_err_prefix(err, code, "KUBERNETES_SERVICE_HOST and _PORT: ");
	code = account_namespace(root, &config->namespace_, err);
	if (code)
		return code;
	*ret_config = GQ_STEAL(config);
	return 0;
}

static int load_home(struct gq_kubeconfig **ret_config, struct gq_err *err)
{
	const char *home = getenv("HOME");
	char *path = NULL;

	if (home && *home) {
		if (asprintf(&path, "%s/.kube/config", home) < 0)
			return gq_fail(err, GQ_ENOMEM, "out of memory");
		GQ_AUTOFREE char *owned = path;
		if (access(owned, F_OK) == 0)
			return gq_kubeconfig_load(owned, NULL, ret_config, err);
	}
	return gq_fail(
	    err, GQ_ENOTFOUND,
	    "no API server is known: no --kubeconfig, no $KUBECONFIG, no service account "
	    "of a pod, no ~/.kube/config");
}

int gq_kubeconfig_find(const char *path, bool allow_home, struct gq_kubeconfig **ret_config,
		       struct gq_err *err)
{
	if (path)
		return gq_kubeconfig_load(path, NULL, ret_config, err);
	const char *env = getenv("KUBECONFIG");
	if (env && strchr(env, ':'))
		return gq_fail(
		    err, GQ_EINVALID,
		    "$KUBECONFIG names several files, which is not supported: make one with "
		    "kubectl config view --flatten --minify");
	if (env && *env)
		return gq_kubeconfig_load(env, NULL, ret_config, err);
	int code = gq_kubeconfig_in_cluster("", ret_config, err);
	if (code == GQ_ENOTFOUND && allow_home)
		return load_home(ret_config, err);
	return code;
}
