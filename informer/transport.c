#include "informer/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/pem.h"
#include "informer/secret.h"

enum {
	PEM_MAX_BYTES = 1 << 20,
	CONNECT_TIMEOUT_MS = 15000,
	DEAD_PEER_MS = 30000,
	BUFFER_BYTES = 256 << 10,
	CONNECTION_MAX_AGE_S =
	    600, /* so that client certificates that were renewed come into use */
};

struct gq_transport {
	const struct gq_kubeconfig *config;
	const char *user_agent;
	char *base;  /* scheme, host, port and path in front of a request's path */
	char *proxy; /* or "": without it libcurl would look into the environment */
	struct gq_credential *credential;
	struct gq_credential *own_credential; /* or NULL: it is another's */
	struct curl_slist *connect_to; /* tls-server-name in the URL, the true address here */
	char *host_header;             /* "Host: …" then */
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void init_curl(void)
{
	curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

GQ_DEFINE_CLEANUP(cleanup_bio, BIO, BIO_free_all);
GQ_DEFINE_CLEANUP(cleanup_x509, X509, X509_free);
GQ_DEFINE_CLEANUP(cleanup_pkey, EVP_PKEY, EVP_PKEY_free);
GQ_DEFINE_CLEANUP(cleanup_url, CURLU, curl_url_cleanup);
GQ_DEFINE_CLEANUP(cleanup_curl_str, char, curl_free);
GQ_DEFINE_CLEANUP(cleanup_easy, CURL, curl_easy_cleanup);
GQ_DEFINE_CLEANUP(cleanup_slist, struct curl_slist, curl_slist_free_all);

/* pem wins over file; ret_pem is NULL when neither is given. */
static int load_pem(const char *pem, const char *file, char **ret_pem, struct gq_err *err)
{
	if (pem) {
		char *copy = strdup(pem);
		if (!copy)
			return gq_fail(err, GQ_ENOMEM, "out of memory");
		*ret_pem = copy;
		return 0;
	}
	if (!file)
		return 0;
	struct gq_err why = {0};
	int code = gq_secret_read_file(file, PEM_MAX_BYTES, ret_pem, NULL, &why);
	/* no file to be found is a mistake of the configuration */
	return code ? gq_fail(err, code == GQ_ENOMEM ? code : GQ_EINVALID, "%s", why.msg) : 0;
}

static X509 *parse_certificate(const char *pem)
{
	GQ_CLEANUP(cleanup_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, gq_pem_no_passphrase, NULL) : NULL;

	ERR_clear_error();
	return cert;
}

static EVP_PKEY *parse_key(const char *pem)
{
	GQ_CLEANUP(cleanup_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, gq_pem_no_passphrase, NULL) : NULL;

	ERR_clear_error();
	return key;
}

static int check_certificates(const struct gq_kubeconfig *config, struct gq_err *err)
{
	GQ_CLEANUP(gq_cleanup_secret) char *ca = NULL, *cert_pem = NULL, *key_pem = NULL;
	int code;

	if ((code = load_pem(config->ca_pem, config->ca_file, &ca, err)) ||
	    (code = load_pem(config->client_cert_pem, config->client_cert_file, &cert_pem, err)) ||
	    (code = load_pem(config->client_key_pem, config->client_key_file, &key_pem, err)))
		return code;
	const char *ca_name = config->ca_pem ? "certificate-authority-data" : config->ca_file;
	const char *cert_name =
	    config->client_cert_pem ? "client-certificate-data" : config->client_cert_file;
	const char *key_name = config->client_key_pem ? "client-key-data" : config->client_key_file;
	if (ca) {
		GQ_CLEANUP(cleanup_x509) X509 *parsed = parse_certificate(ca);
		if (!parsed)
			return gq_fail(err, GQ_EINVALID, "%s holds no PEM certificate", ca_name);
	}
	if (!cert_pem != !key_pem)
		return gq_fail(err, GQ_EINVALID, "a client certificate and its key go together");
	if (!cert_pem)
		return 0;
	GQ_CLEANUP(cleanup_x509) X509 *cert = parse_certificate(cert_pem);
	GQ_CLEANUP(cleanup_pkey) EVP_PKEY *key = parse_key(key_pem);
	if (!cert)
		return gq_fail(err, GQ_EINVALID, "%s holds no PEM certificate", cert_name);
	if (!key)
		return gq_fail(err, GQ_EINVALID, "%s holds no PEM private key without a passphrase",
			       key_name);
	int match = X509_check_private_key(cert, key);
	ERR_clear_error();
	if (match != 1)
		return gq_fail(err, GQ_EINVALID, "%s is not the key of %s", key_name, cert_name);
	return 0;
}

/* libcurl takes SNI and the name to verify from the URL: with tls-server-name the URL carries that
 * name, and the connection goes to the true address. */
static int override_name(struct gq_transport *t, struct gq_err *err)
{
	GQ_CLEANUP(cleanup_url) CURLU *url = curl_url();
	GQ_CLEANUP(cleanup_curl_str) char *host = NULL, *port = NULL, *path = NULL;
	const char *name = t->config->tls_server_name;
	GQ_AUTOFREE char *entry = NULL;

	if (!url || curl_url_set(url, CURLUPART_URL, t->config->server, 0) ||
	    curl_url_get(url, CURLUPART_HOST, &host, 0) ||
	    curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) ||
	    curl_url_get(url, CURLUPART_PATH, &path, 0))
		return gq_fail(err, GQ_EINVALID, "the server \"%s\" is not a URL",
			       t->config->server);
	if (strncasecmp(t->config->server, "https://", 8) != 0)
		return 0;
	if (strpbrk(name, "/:@?#[] "))
		return gq_fail(err, GQ_EINVALID, "tls-server-name \"%s\" is not a host name", name);
	if (strcmp(path, "/") == 0)
		path[0] = '\0';
	free(t->base);
	if (asprintf(&t->base, "https://%s:%s%s", name, port, path) < 0)
		t->base = NULL;
	if (asprintf(&t->host_header, "Host: %s:%s", host, port) < 0)
		t->host_header = NULL;
	if (asprintf(&entry, "%s:%s:%s:%s", name, port, host, port) < 0)
		entry = NULL;
	if (entry)
		t->connect_to = curl_slist_append(NULL, entry);
	if (!t->base || !t->host_header || !t->connect_to)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	return 0;
}

int gq_transport_new(const struct gq_kubeconfig *config, struct gq_credential *credential,
		     const char *user_agent, struct gq_transport **ret_transport,
		     struct gq_err *err)
{
	(void)pthread_once(&curl_once, init_curl);
	if (curl_ready)
		return gq_fail(err, GQ_ENOMEM, "libcurl: %s", curl_easy_strerror(curl_ready));
	int code = check_certificates(config, err);
	if (code)
		return code;
	GQ_CLEANUP(gq_cleanup_transport) struct gq_transport *t = calloc(1, sizeof *t);
	if (!t)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	t->config = config;
	t->user_agent = user_agent;
	if (!credential && (code = gq_credential_new(config, &t->own_credential, err)))
		return code;
	t->credential = credential ? credential : t->own_credential;
	t->base = strdup(config->server);
	const char *proxy = config->proxy_url ? config->proxy_url : "";
	/* the proxy resolves names, as with client-go */
	bool socks = strncasecmp(proxy, "socks5://", 9) == 0;
	if (asprintf(&t->proxy, "%s%s", socks ? "socks5h" : "", proxy + (socks ? 6 : 0)) < 0)
		t->proxy = NULL;
	if (!t->base || !t->proxy)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if (config->tls_server_name) {
		code = override_name(t, err);
		if (code)
			return code;
	}
	*ret_transport = GQ_STEAL(t);
	return 0;
}

void gq_transport_free(struct gq_transport *t)
{
	if (!t)
		return;
	free(t->base);
	gq_secret_free(t->proxy);
	gq_credential_free(t->own_credential);
	curl_slist_free_all(t->connect_to);
	free(t->host_header);
	free(t);
}

struct gq_credential *gq_transport_credential(struct gq_transport *t)
{
	return t->credential;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)arg;
	(void)purpose;
	unsigned ms = DEAD_PEER_MS;
	/* keepalive alone does not see a peer that is gone while bytes are on their way to it */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
	return CURL_SOCKOPT_OK;
}

static CURLcode set_blob(CURL *easy, CURLoption option, const char *text)
{
	struct curl_blob blob = {
	    .data = (void *)(uintptr_t)text, .len = strlen(text), .flags = CURL_BLOB_NOCOPY};
	return curl_easy_setopt(easy, option, &blob);
}

static CURLcode set_tls(CURL *easy, const struct gq_kubeconfig *config)
{
	CURLcode rc = curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	long verify = !config->insecure_skip_tls_verify;

	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verify);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, verify * 2);
	/* a CA file that was rotated counts from the next connection on */
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
	/* the machine's own roots are no roots of the cluster */
	if (!rc && (config->ca_pem || config->ca_file))
		rc = curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	if (!rc && config->ca_pem)
		rc = set_blob(easy, CURLOPT_CAINFO_BLOB, config->ca_pem);
	else if (!rc && config->ca_file)
		rc = curl_easy_setopt(easy, CURLOPT_CAINFO, config->ca_file);
	if (!rc && config->client_cert_pem)
		rc = set_blob(easy, CURLOPT_SSLCERT_BLOB, config->client_cert_pem);
	else if (!rc && config->client_cert_file)
		rc = curl_easy_setopt(easy, CURLOPT_SSLCERT, config->client_cert_file);
	if (!rc && config->client_key_pem)
		rc = set_blob(easy, CURLOPT_SSLKEY_BLOB, config->client_key_pem);
	else if (!rc && config->client_key_file)
		rc = curl_easy_setopt(easy, CURLOPT_SSLKEY, config->client_key_file);
	return rc;
}

static CURLcode set_connection(CURL *easy, const struct gq_transport *t)
{
	static const struct {
		CURLoption option;
		long value;
	} numbers[] = {
	    {CURLOPT_NOSIGNAL, 1},
	    {CURLOPT_FOLLOWLOCATION, 0},
	    {CURLOPT_PATH_AS_IS, 1},
	    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
	    {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
	    {CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS},
	    {CURLOPT_BUFFERSIZE, BUFFER_BYTES},
	    {CURLOPT_TCP_KEEPALIVE, 1},
	    {CURLOPT_TCP_KEEPIDLE, 15},
	    {CURLOPT_TCP_KEEPINTVL, 5},
	    {CURLOPT_MAXLIFETIME_CONN, CONNECTION_MAX_AGE_S},
	};
	CURLcode rc = CURLE_OK;

	for (size_t i = 0; !rc && i < sizeof numbers / sizeof *numbers; i++)
		rc = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_PROXY, t->proxy);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_USERAGENT, t->user_agent);
	if (!rc && t->connect_to)
		rc = curl_easy_setopt(easy, CURLOPT_CONNECT_TO, t->connect_to);
	return rc;
}

static CURLcode set_credentials(CURL *easy, const struct gq_kubeconfig *config, const char *token)
{
	CURLcode rc = CURLE_OK;

	if (token) {
		rc = curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		if (!rc)
			rc = curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, token);
	} else if (config->username) {
		rc = curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		if (!rc)
			rc = curl_easy_setopt(easy, CURLOPT_USERNAME, config->username);
		if (!rc)
			rc = curl_easy_setopt(easy, CURLOPT_PASSWORD,
					      config->password ? config->password : "");
	}
	return rc;
}

static int add_header(struct curl_slist **list, const char *name, const char *value)
{
	GQ_AUTOFREE char *line = NULL;

	if (asprintf(&line, "%s%s", name, value) < 0) {
		line = NULL;
		return GQ_ENOMEM;
	}
	struct curl_slist *longer = curl_slist_append(*list, line);
	if (!longer)
		return GQ_ENOMEM;
	*list = longer;
	return 0;
}

static int make_headers(const struct gq_transport *t, const char *content_type,
			struct curl_slist **list)
{
	const struct gq_kubeconfig *config = t->config;
	int code = add_header(list, "Accept: ", "application/json");

	if (!code) /* libcurl would wait a second for "100 Continue" */
		code = add_header(list, "Expect:", "");
	if (!code && content_type)
		code = add_header(list, "Content-Type: ", content_type);
	if (!code && t->host_header)
		code = add_header(list, t->host_header, "");
	if (!code && config->impersonate_user)
		code = add_header(list, "Impersonate-User: ", config->impersonate_user);
	if (!code && config->impersonate_uid)
		code = add_header(list, "Impersonate-Uid: ", config->impersonate_uid);
	for (char **group = config->impersonate_groups; !code && group && *group; group++)
		code = add_header(list, "Impersonate-Group: ", *group);
	return code;
}

int gq_transport_request(struct gq_transport *t, const char *path, const char *content_type,
			 struct gq_credential_use *use, CURL **ret_easy,
			 struct curl_slist **ret_headers, struct gq_err *err)
{
	GQ_CLEANUP(gq_cleanup_secret) char *token = NULL;
	GQ_CLEANUP(cleanup_slist) struct curl_slist *headers = NULL;
	GQ_CLEANUP(cleanup_easy) CURL *easy = NULL;
	GQ_AUTOFREE char *url = NULL;

	int code = gq_credential_begin(t->credential, use, &token, err);
	if (code)
		return code;
	if (asprintf(&url, "%s%s", t->base, path) < 0) {
		url = NULL;
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	}
	easy = curl_easy_init();
	if (!easy || make_headers(t, content_type, &headers))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	CURLcode rc = set_connection(easy, t);
	if (!rc)
		rc = set_tls(easy, t->config);
	if (!rc)
		rc = set_credentials(easy, t->config, token);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_URL, url);
	if (rc == CURLE_OUT_OF_MEMORY)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	if (rc)
		return gq_fail(err, GQ_EINVALID, "libcurl: %s", curl_easy_strerror(rc));
	*ret_easy = GQ_STEAL(easy);
	*ret_headers = GQ_STEAL(headers);
	return 0;
}

void gq_transport_block_signals(void)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, NULL);
}

int gq_transport_fail(struct gq_err *err, CURLcode code, const char *detail)
{
	const char *what = detail && *detail ? detail : curl_easy_strerror(code);

	switch (code) {
	case CURLE_OUT_OF_MEMORY:
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	case CURLE_PEER_FAILED_VERIFICATION:
		return gq_fail(err, GQ_EIO,
			       "the API server's certificate does not hold against the certificate "
			       "authority and server name that were configured: %s",
			       what);
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
		return gq_fail(err, GQ_EIO,
			       "a certificate or key that was configured can't be used: %s", what);
	case CURLE_OPERATION_TIMEDOUT:
		return gq_fail(err, GQ_EIO, "no answer in time: %s", what);
	default:
		return gq_fail(err, GQ_EIO, "%s", what);
	}
}
