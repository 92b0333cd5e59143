#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "apidouble.h"
#include "informer/transport.h"

static struct testpki pki;
static char dir[] = "/tmp/gq-transport-XXXXXX";

/* A file under dir; the name is valid until the next call but three. */
static char *file(const char *name, const char *text)
{
	static char paths[4][128];
	static unsigned turn;
	char *path = paths[turn++ % 4];

	(void)snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	(void)unlink(path);
	if (text) {
		FILE *out = fopen(path, "w");
		assert_non_null(out);
		fputs(text, out);
		fclose(out);
	}
	return path;
}

/* One request, made by a thread of its own while the test answers it. */
struct shot {
	CURL *easy;
	struct curl_slist *headers;
	struct gq_credential_use use;
	pthread_t thread;
	CURLcode rc;
	long status;
	char error[CURL_ERROR_SIZE];
};

static size_t ignore(char *bytes, size_t size, size_t n, void *arg)
{
	(void)bytes;
	(void)arg;
	return size * n;
}

static void *perform(void *arg)
{
	struct shot *shot = arg;

	gq_transport_block_signals();
	shot->rc = curl_easy_perform(shot->easy);
	curl_easy_getinfo(shot->easy, CURLINFO_RESPONSE_CODE, &shot->status);
	return NULL;
}

static void fire(struct gq_transport *transport, struct shot *shot)
{
	struct gq_err err = {0};

	*shot = (struct shot){0};
	if (gq_transport_request(transport, "/version?a=b%2F..", "application/json", &shot->use,
				 &shot->easy, &shot->headers, &err))
		fail_msg("%s", err.msg);
	curl_easy_setopt(shot->easy, CURLOPT_WRITEFUNCTION, ignore);
	curl_easy_setopt(shot->easy, CURLOPT_ERRORBUFFER, shot->error);
	assert_int_equal(pthread_create(&shot->thread, NULL, perform, shot), 0);
}

static void land(struct shot *shot)
{
	pthread_join(shot->thread, NULL);
	curl_easy_cleanup(shot->easy);
	curl_slist_free_all(shot->headers);
}

static struct gq_transport *make(const struct gq_kubeconfig *config)
{
	struct gq_transport *transport = NULL;
	struct gq_err err = {0};

	if (gq_transport_new(config, NULL, "gpuquota/test", &transport, &err))
		fail_msg("%s", err.msg);
	return transport;
}

/* Fires, answers 200, and returns the request. */
static struct apicall *exchange(struct gq_transport *transport, struct apidouble *server)
{
	struct shot shot;

	fire(transport, &shot);
	struct apicall *call = apidouble_next(server, "");
	apicall_answer(call, 200, "", "{}");
	land(&shot);
	assert_int_equal(shot.rc, CURLE_OK);
	assert_int_equal(shot.status, 200);
	return call;
}

static void test_headers(void **state)
{
	char *groups[] = {(char[]){"g1"}, (char[]){"g 2"}, NULL};
	struct apidouble *server = apidouble_new(NULL, false);
	struct gq_kubeconfig config = {.server = (char *)(uintptr_t)apidouble_url(server),
				       .token = (char[]){"t0ken"},
				       .impersonate_user = (char[]){"alice"},
				       .impersonate_uid = (char[]){"17"},
				       .impersonate_groups = groups};
	struct gq_transport *transport = make(&config);
	(void)state;

	struct apicall *call = exchange(transport, server);
	assert_string_equal(apicall_path(call), "/version?a=b%2F..");
	assert_string_equal(apicall_header(call, "Accept", 0), "application/json");
	assert_string_equal(apicall_header(call, "Content-Type", 0), "application/json");
	assert_string_equal(apicall_header(call, "User-Agent", 0), "gpuquota/test");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer t0ken");
	assert_string_equal(apicall_header(call, "Impersonate-User", 0), "alice");
	assert_string_equal(apicall_header(call, "Impersonate-Uid", 0), "17");
	assert_string_equal(apicall_header(call, "Impersonate-Group", 0), "g1");
	assert_string_equal(apicall_header(call, "Impersonate-Group", 1), "g 2");
	assert_null(apicall_header(call, "Accept-Encoding", 0));
	assert_null(apicall_header(call, "Expect", 0));
	gq_transport_free(transport);

	struct gq_kubeconfig basic = {
	    .server = config.server, .username = (char[]){"bob"}, .password = (char[]){"s3:cret"}};
	transport = make(&basic);
	call = exchange(transport, server);
	assert_string_equal(apicall_header(call, "Authorization", 0), "Basic Ym9iOnMzOmNyZXQ=");
	gq_transport_free(transport);
	apidouble_free(server);
}

static void test_server_with_a_path(void **state)
{
	struct apidouble *server = apidouble_new(NULL, false);
	char url[128];
	struct gq_kubeconfig config = {.server = url};
	(void)state;

	(void)snprintf(url, sizeof url, "%s/k8s/clusters/c-1", apidouble_url(server));
	struct gq_transport *transport = make(&config);
	struct apicall *call = exchange(transport, server);
	assert_string_equal(apicall_path(call), "/k8s/clusters/c-1/version?a=b%2F..");
	assert_null(apicall_header(call, "Authorization", 0));
	gq_transport_free(transport);
	apidouble_free(server);
}

static void test_certificate_authorities(void **state)
{
	struct apidouble *server = apidouble_new(&pki, false);
	char *url = (char *)(uintptr_t)apidouble_url(server);
	const struct {
		struct gq_kubeconfig config;
		bool ok;
	} cases[] = {
	    {{.server = url, .ca_pem = pki.ca}, true},
	    {{.server = url, .ca_file = file("ca.crt", pki.ca)}, true},
	    {{.server = url, .ca_file = file("bad.crt", pki.other_ca), .ca_pem = pki.ca}, true},
	    {{.server = url, .insecure_skip_tls_verify = true}, true},
	    {{.server = url, .ca_pem = pki.ca, .tls_server_name = (char[]){"gpuquota.test"}}, true},
	    {{.server = url, .ca_pem = pki.ca, .tls_server_name = (char[]){"other.test"}}, false},
	    {{.server = url, .ca_pem = pki.other_ca}, false},
	    {{.server = url, .ca_file = file("other.crt", pki.other_ca)}, false},
	    {{.server = url}, false}, /* the machine's roots */
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_transport *transport = make(&cases[i].config);
		struct gq_err err = {0};
		struct shot shot;
		if (cases[i].ok) {
			struct apicall *call = exchange(transport, server);
			char host[64];
			(void)snprintf(host, sizeof host, "127.0.0.1:%u", apidouble_port(server));
			assert_string_equal(apicall_header(call, "Host", 0), host);
		} else {
			fire(transport, &shot);
			land(&shot);
			assert_int_equal(gq_transport_fail(&err, shot.rc, shot.error), GQ_EIO);
			assert_memory_equal(
			    err.msg,
			    "the API server's certificate does not hold against the "
			    "certificate authority and server name that were configured: ",
			    115);
		}
		gq_transport_free(transport);
	}
	assert_int_equal(apidouble_waiting(server), 0);
	apidouble_free(server);
}

static void test_certificate_authority_that_changes(void **state)
{
	struct apidouble *server = apidouble_new(&pki, false);
	struct gq_kubeconfig config = {.server = (char *)(uintptr_t)apidouble_url(server),
				       .ca_file = file("ca.crt", pki.other_ca)};
	struct gq_transport *transport = make(&config);
	struct shot shot;
	(void)state;

	fire(transport, &shot);
	land(&shot);
	assert_int_equal(shot.rc, CURLE_PEER_FAILED_VERIFICATION);
	file("ca.crt", pki.ca);
	(void)exchange(transport, server);
	gq_transport_free(transport);
	apidouble_free(server);
}

static void test_client_certificates(void **state)
{
	struct apidouble *server = apidouble_new(&pki, true);
	char *url = (char *)(uintptr_t)apidouble_url(server);
	struct gq_kubeconfig by_pem = {.server = url,
				       .ca_pem = pki.ca,
				       .client_cert_pem = pki.client_cert,
				       .client_key_pem = pki.client_key};
	struct gq_kubeconfig by_file = {.server = url,
					.ca_pem = pki.ca,
					.client_cert_file = file("c.crt", pki.client_cert),
					.client_key_file = file("c.key", pki.client_key)};
	struct gq_kubeconfig none = {.server = url, .ca_pem = pki.ca};
	struct shot shot;
	(void)state;

	struct gq_transport *transport = make(&by_pem);
	assert_string_equal(apicall_client(exchange(transport, server)), "tester");
	gq_transport_free(transport);
	transport = make(&by_file);
	assert_string_equal(apicall_client(exchange(transport, server)), "tester");
	gq_transport_free(transport);
	transport = make(&none);
	fire(transport, &shot);
	land(&shot);
	assert_int_not_equal(shot.rc, CURLE_OK);
	gq_transport_free(transport);
	apidouble_free(server);
}

static void test_tokens_from_a_file(void **state)
{
	struct apidouble *server = apidouble_new(NULL, false);
	struct gq_kubeconfig config = {.server = (char *)(uintptr_t)apidouble_url(server),
				       .token = (char[]){"not this"},
				       .token_file = file("token", " one\n")};
	struct gq_transport *transport = make(&config);
	struct gq_credential_use use = {0};
	CURL *easy = NULL;
	struct curl_slist *headers = NULL;
	struct gq_err err = {0};
	(void)state;

	assert_string_equal(apicall_header(exchange(transport, server), "Authorization", 0),
			    "Bearer one");
	file("token", "two\n");
	assert_string_equal(apicall_header(exchange(transport, server), "Authorization", 0),
			    "Bearer two");
	/* while it can't be read, or is half written, the old one serves */
	const char *const broken[] = {NULL, "", " \n", "a\r\nX-Evil: 1"};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		file("token", broken[i]);
		assert_string_equal(apicall_header(exchange(transport, server), "Authorization", 0),
				    "Bearer two");
	}
	FILE *nul = fopen(config.token_file, "w");
	assert_non_null(nul);
	assert_int_equal(fwrite("cut\0off", 1, 7, nul), 7);
	assert_int_equal(fclose(nul), 0);
	struct shot shot;
	fire(transport, &shot);
	struct apicall *call = apidouble_next(server, "");
	assert_string_equal(apicall_header(call, "Authorization", 0), "Bearer two");
	apicall_answer(call, 401, "", "");
	land(&shot);
	/* but not after it was refused */
	gq_credential_answered(gq_transport_credential(transport), &shot.use, shot.status);
	assert_int_equal(gq_transport_request(transport, "/", NULL, &use, &easy, &headers, &err),
			 GQ_EIO);
	assert_null(easy);
	assert_null(headers);
	assert_memory_equal(err.msg, "no token: ", 10);
	assert_null(strstr(err.msg, "two"));
	assert_int_equal(use.token, shot.use.token);
	file("token", "three");
	assert_string_equal(apicall_header(exchange(transport, server), "Authorization", 0),
			    "Bearer three");
	gq_transport_free(transport);
	apidouble_free(server);
}

/* What one of two meets is known to the other. */
static void test_one_credential_for_two(void **state)
{
	struct apidouble *server = apidouble_new(NULL, false);
	struct gq_kubeconfig config = {.server = (char *)(uintptr_t)apidouble_url(server),
				       .token_file = file("token", "one")};
	struct gq_credential *credential = NULL;
	struct gq_transport *a = NULL, *b = NULL;
	struct gq_credential_use use = {0};
	struct gq_err err = {0};
	struct shot shot;
	(void)state;

	assert_int_equal(gq_credential_new(&config, &credential, &err), 0);
	assert_int_equal(gq_transport_new(&config, credential, "a", &a, &err), 0);
	assert_int_equal(gq_transport_new(&config, credential, "b", &b, &err), 0);
	assert_ptr_equal(gq_transport_credential(a), gq_transport_credential(b));
	fire(a, &shot);
	apicall_answer(apidouble_next(server, ""), 401, "", "");
	land(&shot);
	gq_credential_answered(credential, &shot.use, shot.status);
	file("token", NULL);
	assert_int_equal(gq_transport_request(b, "/", NULL, &use, &shot.easy, &shot.headers, &err),
			 GQ_EIO);
	gq_transport_free(a);
	gq_transport_free(b);
	gq_credential_free(credential);
	apidouble_free(server);
}

static void test_no_redirects(void **state)
{
	struct apidouble *server = apidouble_new(NULL, false);
	struct gq_kubeconfig config = {.server = (char *)(uintptr_t)apidouble_url(server)};
	struct gq_transport *transport = make(&config);
	struct shot shot;
	(void)state;

	fire(transport, &shot);
	apicall_answer(apidouble_next(server, ""), 302, "Location: /elsewhere\r\n", "");
	land(&shot);
	assert_int_equal(shot.rc, CURLE_OK);
	assert_int_equal(shot.status, 302);
	assert_int_equal(apidouble_waiting(server), 0);
	gq_transport_free(transport);
	apidouble_free(server);
}

static void test_proxies(void **state)
{
	static const char *const variables[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
						"all_proxy",  "ALL_PROXY",   "no_proxy"};
	struct apidouble *server = apidouble_new(&pki, false);
	struct apidouble *proxy = apidouble_new(NULL, false);
	struct gq_kubeconfig config = {.server = (char *)(uintptr_t)apidouble_url(server),
				       .ca_pem = pki.ca,
				       .token = (char[]){"t0ken"}};
	struct shot shot;
	char target[64];
	(void)state;

	/* the environment's proxies are not for us */
	for (size_t i = 0; i < 5; i++)
		setenv(variables[i], "http://127.0.0.1:1", 1);
	struct gq_transport *transport = make(&config);
	(void)exchange(transport, server);
	gq_transport_free(transport);

	/* nor are its exceptions; the token is for the server's eyes only */
	setenv("no_proxy", "127.0.0.1", 1);
	config.proxy_url = (char *)(uintptr_t)apidouble_url(proxy);
	transport = make(&config);
	fire(transport, &shot);
	struct apicall *call = apidouble_next(proxy, "");
	(void)snprintf(target, sizeof target, "127.0.0.1:%u", apidouble_port(server));
	assert_string_equal(apicall_method(call), "CONNECT");
	assert_string_equal(apicall_path(call), target);
	assert_null(apicall_header(call, "Authorization", 0));
	apicall_answer(call, 403, "", "");
	land(&shot);
	assert_int_not_equal(shot.rc, CURLE_OK);
	gq_transport_free(transport);
	for (size_t i = 0; i < 6; i++)
		unsetenv(variables[i]);
	apidouble_free(server);
	apidouble_free(proxy);
}

static void test_credentials_that_cannot_work(void **state)
{
	static char garbage[] =
	    "-----BEGIN CERTIFICATE-----\nZ3F1b3Rh\n-----END CERTIFICATE-----\n";
	static char locked[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
			       "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgAAAAAAAAAAAICCAAw\n"
			       "-----END ENCRYPTED PRIVATE KEY-----\n";
	char *url = (char[]){"https://127.0.0.1:1"};
	const struct {
		struct gq_kubeconfig config;
		const char *message;
	} cases[] = {
	    {{.server = url, .ca_file = (char[]){"/nonexistent/ca"}},
	     "/nonexistent/ca: No such file or directory"},
	    {{.server = url, .ca_pem = garbage},
	     "certificate-authority-data holds no PEM certificate"},
	    {{.server = url, .ca_pem = (char[]){"x"}},
	     "certificate-authority-data holds no PEM certificate"},
	    {{.server = url, .client_cert_pem = pki.client_cert},
	     "a client certificate and its key go together"},
	    {{.server = url, .client_cert_pem = pki.client_cert, .client_key_pem = pki.other_key},
	     "client-key-data is not the key of client-certificate-data"},
	    {{.server = url, .client_cert_pem = garbage, .client_key_pem = pki.client_key},
	     "client-certificate-data holds no PEM certificate"},
	    {{.server = url, .client_cert_pem = pki.client_cert, .client_key_pem = locked},
	     "client-key-data holds no PEM private key without a passphrase"},
	    {{.server = url, .tls_server_name = (char[]){"a/b"}},
	     "tls-server-name \"a/b\" is not a host name"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_transport *transport = NULL;
		struct gq_err err = {0};
		assert_int_equal(gq_transport_new(&cases[i].config, NULL, "x", &transport, &err),
				 GQ_EINVALID);
		assert_string_equal(err.msg, cases[i].message);
		assert_null(transport);
	}
	gq_transport_free(NULL);
}

static int make_all(void **state)
{
	(void)state;
	testpki_make(&pki);
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_all(void **state)
{
	char command[64];
	(void)state;

	testpki_done(&pki);
	(void)snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_headers),
	    cmocka_unit_test(test_server_with_a_path),
	    cmocka_unit_test(test_certificate_authorities),
	    cmocka_unit_test(test_certificate_authority_that_changes),
	    cmocka_unit_test(test_client_certificates),
	    cmocka_unit_test(test_tokens_from_a_file),
	    cmocka_unit_test(test_one_credential_for_two),
	    cmocka_unit_test(test_no_redirects),
	    cmocka_unit_test(test_proxies),
	    cmocka_unit_test(test_credentials_that_cannot_work),
	};
	return cmocka_run_group_tests(tests, make_all, remove_all);
}
