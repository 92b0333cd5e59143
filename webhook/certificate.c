#include "webhook/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/lock.h"
#include "base/pem.h"

#define FILE_MAX_BYTES (1u << 20)
#define CHAIN_MAX 32

struct pair {
	X509 *leaf;
	EVP_PKEY *key;
	STACK_OF(X509) * chain;
	int64_t not_after_s;
};

struct gq_certificate {
	struct gq_lock lock;
	struct pair current;
};

static void pair_done(struct pair *pair)
{
	X509_free(pair->leaf);
	EVP_PKEY_free(pair->key);
	sk_X509_pop_free(pair->chain, X509_free);
	*pair = (struct pair){0};
}

static void bio_done(BIO **bio)
{
	BIO_free(*bio);
}

static void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

static void ssl_ctx_done(SSL_CTX **ctx)
{
	SSL_CTX_free(*ctx);
}

struct gq_certificate *gq_certificate_new(void)
{
	struct gq_certificate *certificate = calloc(1, sizeof *certificate);

	if (certificate)
		gq_lock_init(&certificate->lock, GQ_RANK_LEAF);
	return certificate;
}

void gq_certificate_free(struct gq_certificate *certificate)
{
	if (!certificate)
		return;
	pair_done(&certificate->current);
	gq_lock_done(&certificate->lock);
	free(certificate);
}

/* The whole file in a memory BIO: read in one go, so that a rotation under way is less likely to
 * be seen by halves, and no more than the cap. */
static int read_file(const char *path, BIO **ret_bio, struct gq_err *err)
{
	FILE *file GQ_CLEANUP(close_file) = fopen(path, "re");
	BIO *bio GQ_CLEANUP(bio_done) = BIO_new(BIO_s_mem());
	char chunk[16384];
	size_t total = 0, n;

	if (!file)
		return gq_fail(err, GQ_EIO, "cannot open %s: %s", path, strerror(errno));
	while (bio && (n = fread(chunk, 1, sizeof chunk, file)) > 0) {
		total += n;
		if (total > FILE_MAX_BYTES)
			return gq_fail(err, GQ_ETOOBIG, "%s is larger than %u bytes", path,
				       FILE_MAX_BYTES);
		if (BIO_write(bio, chunk, (int)n) != (int)n)
			return gq_fail(err, GQ_ENOMEM, "out of memory reading %s", path);
	}
	OPENSSL_cleanse(chunk, sizeof chunk);
	if (!bio)
		return gq_fail(err, GQ_ENOMEM, "out of memory reading %s", path);
	if (ferror(file))
		return gq_fail(err, GQ_EIO, "cannot read %s: %s", path, strerror(errno));
	*ret_bio = GQ_STEAL(bio);
	return 0;
}

static int read_certificates(const char *path, struct pair *pair, struct gq_err *err)
{
	BIO *bio GQ_CLEANUP(bio_done) = NULL;
	struct tm end;
	X509 *next;

	int code = read_file(path, &bio, err);
	if (code)
		return code;
	pair->leaf = PEM_read_bio_X509(bio, NULL, gq_pem_no_passphrase, NULL);
	if (!pair->leaf)
		return gq_fail(err, GQ_EINVALID, "%s holds no PEM certificate", path);
	pair->chain = sk_X509_new_null();
	if (!pair->chain)
		return gq_fail(err, GQ_ENOMEM, "out of memory reading %s", path);
	while ((next = PEM_read_bio_X509(bio, NULL, gq_pem_no_passphrase, NULL))) {
		if (sk_X509_num(pair->chain) >= CHAIN_MAX || !sk_X509_push(pair->chain, next)) {
			X509_free(next);
			return gq_fail(err, GQ_ETOOBIG, "%s holds more than %d certificates", path,
				       CHAIN_MAX);
		}
	}
	/* the end of the file is "no start line"; anything else is a broken certificate */
	if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return gq_fail(err, GQ_EINVALID, "certificate %d in %s is broken",
			       sk_X509_num(pair->chain) + 2, path);
	if (ASN1_TIME_to_tm(X509_get0_notAfter(pair->leaf), &end) != 1)
		return gq_fail(err, GQ_EINVALID, "the certificate in %s has no valid end", path);
	pair->not_after_s = (int64_t)timegm(&end);
	return 0;
}

static int read_key(const char *path, struct pair *pair, struct gq_err *err)
{
	BIO *bio GQ_CLEANUP(bio_done) = NULL;

	int code = read_file(path, &bio, err);
	if (code)
		return code;
	pair->key = PEM_read_bio_PrivateKey(bio, NULL, gq_pem_no_passphrase, NULL);
	if (!pair->key)
		return gq_fail(err, GQ_EINVALID, "%s holds no unencrypted PEM private key", path);
	return 0;
}

/* What OpenSSL would refuse in a handshake (mismatch, weak key) it refuses here as well. */
static int check_pair(const struct pair *pair, const char *cert_path, const char *key_path,
		      struct gq_err *err)
{
	if (X509_check_private_key(pair->leaf, pair->key) != 1)
		return gq_fail(err, GQ_EINVALID,
			       "the key in %s is not that of the certificate in "
			       "%s",
			       key_path, cert_path);
	SSL_CTX *trial GQ_CLEANUP(ssl_ctx_done) = SSL_CTX_new(TLS_server_method());
	if (!trial)
		return gq_fail(err, GQ_ENOMEM, "out of memory checking %s", cert_path);
	if (SSL_CTX_use_cert_and_key(trial, pair->leaf, pair->key, pair->chain, 1) != 1) {
		const char *why = ERR_reason_error_string(ERR_peek_last_error());
		return gq_fail(err, GQ_EINVALID, "OpenSSL refuses the certificate in %s: %s",
			       cert_path, why ? why : "no reason given");
	}
	return 0;
}

int gq_certificate_load(struct gq_certificate *certificate, const char *cert_path,
			const char *key_path, struct gq_err *err)
{
	struct pair pair GQ_CLEANUP(pair_done) = {0};
	struct pair old;

	ERR_clear_error();
	int code = read_certificates(cert_path, &pair, err);
	if (!code)
		code = read_key(key_path, &pair, err);
	if (!code)
		code = check_pair(&pair, cert_path, key_path, err);
	ERR_clear_error();
	if (code)
		return code;
	gq_lock_take(&certificate->lock);
	old = certificate->current;
	certificate->current = pair;
	gq_lock_release(&certificate->lock);
	pair = old; /* freed on the way out */
	return 0;
}

int64_t gq_certificate_not_after_s(struct gq_certificate *certificate)
{
	gq_lock_take(&certificate->lock);
	int64_t end = certificate->current.not_after_s;
	gq_lock_release(&certificate->lock);
	return end;
}

/* For each handshake. The SSL takes references, so a later swap does not concern it. */
static int on_handshake(SSL *ssl, void *arg)
{
	struct gq_certificate *certificate = arg;

	gq_lock_take(&certificate->lock);
	int ok = certificate->current.leaf &&
		 SSL_use_cert_and_key(ssl, certificate->current.leaf, certificate->current.key,
				      certificate->current.chain, 1) == 1;
	gq_lock_release(&certificate->lock);
	return ok;
}

void gq_certificate_serve(struct gq_certificate *certificate, SSL_CTX *ctx)
{
	SSL_CTX_set_cert_cb(ctx, on_handshake, certificate);
}
