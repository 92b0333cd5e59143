#include "testpki.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(bool ok, const char *what)
{
	if (!ok) {
		(void)fprintf(stderr, "test certificates: %s failed\n", what);
		abort();
	}
}

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;

	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	need(extension && X509_add_ext(cert, extension, -1), value);
	X509_EXTENSION_free(extension);
}

static X509 *make_cert(const char *name, const char *alt, EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key)
{
	static long serial = 1000;
	X509 *cert = X509_new();

	need(cert && X509_set_version(cert, 2), "X509_new");
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	X509_NAME *subject = X509_get_subject_name(cert);
	need(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name,
					-1, -1, 0),
	     "X509_NAME_add_entry_by_txt");
	X509_set_issuer_name(cert, ca ? X509_get_subject_name(ca) : subject);
	extend(cert, ca ? ca : cert, NID_basic_constraints,
	       ca ? "critical,CA:FALSE" : "critical,CA:TRUE");
	if (alt)
		extend(cert, ca, NID_subject_alt_name, alt);
	need(X509_sign(cert, ca_key, EVP_sha256()) > 0, "X509_sign");
	return cert;
}

static char *steal_bio(BIO *bio)
{
	char *data = NULL;
	long len = BIO_get_mem_data(bio, &data);
	char *copy = strndup(data, (size_t)len);

	BIO_free(bio);
	return copy;
}

static char *cert_pem(X509 *cert)
{
	BIO *bio = BIO_new(BIO_s_mem());
	need(bio && PEM_write_bio_X509(bio, cert), "PEM_write_bio_X509");
	return steal_bio(bio);
}

static char *key_pem(EVP_PKEY *key)
{
	BIO *bio = BIO_new(BIO_s_mem());
	need(bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL),
	     "PEM_write_bio_PrivateKey");
	return steal_bio(bio);
}

void testpki_make(struct testpki *pki)
{
	EVP_PKEY *keys[4];
	for (size_t i = 0; i < 4; i++) {
		keys[i] = EVP_EC_gen("P-256");
		need(keys[i] != NULL, "EVP_EC_gen");
	}
	X509 *ca = make_cert("test CA", NULL, keys[0], NULL, keys[0]);
	X509 *server =
	    make_cert("apiserver", "IP:127.0.0.1,DNS:gpuquota.test", keys[1], ca, keys[0]);
	X509 *client = make_cert("tester", NULL, keys[2], ca, keys[0]);
	X509 *other = make_cert("other CA", NULL, keys[3], NULL, keys[3]);
	*pki = (struct testpki){
	    .ca = cert_pem(ca),
	    .server_cert = cert_pem(server),
	    .server_key = key_pem(keys[1]),
	    .client_cert = cert_pem(client),
	    .client_key = key_pem(keys[2]),
	    .other_ca = cert_pem(other),
	    .other_key = key_pem(keys[3]),
	};
	X509_free(ca);
	X509_free(server);
	X509_free(client);
	X509_free(other);
	for (size_t i = 0; i < 4; i++)
		EVP_PKEY_free(keys[i]);
}

void testpki_done(struct testpki *pki)
{
	free(pki->ca);
	free(pki->server_cert);
	free(pki->server_key);
	free(pki->client_cert);
	free(pki->client_key);
	free(pki->other_ca);
	free(pki->other_key);
	*pki = (struct testpki){0};
}
