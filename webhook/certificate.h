#ifndef GQ_WEBHOOK_CERTIFICATE_H
#define GQ_WEBHOOK_CERTIFICATE_H

#include <stdint.h>

#include <openssl/types.h>

#include "base/cleanup.h"
#include "base/err.h"

/* The certificate that handshakes use, swapped as a whole while they run. Any thread; one mutex,
 * held for a swap or for handing the pair to one handshake. */
struct gq_certificate;

/* NULL when out of memory. */
struct gq_certificate *gq_certificate_new(void);
void gq_certificate_free(struct gq_certificate *certificate);
GQ_DEFINE_CLEANUP(gq_cleanup_certificate, struct gq_certificate, gq_certificate_free);

/* Reads both PEM files (the certificate first, then its chain), checks that they fit and that
 * OpenSSL would serve them, then takes them into use. A failure leaves what was in use.
 * Errors: GQ_EIO a file cannot be read; GQ_EINVALID no certificate, no key, an encrypted key, a key
 * of another certificate, too weak; GQ_ETOOBIG; GQ_ENOMEM. */
int gq_certificate_load(struct gq_certificate *certificate, const char *cert_path,
			const char *key_path, struct gq_err *err);

/* Unix time of the leaf's end; 0 before the first load. */
int64_t gq_certificate_not_after_s(struct gq_certificate *certificate);

/* Makes every handshake of ctx ask for the pair in use. certificate must outlive ctx. */
void gq_certificate_serve(struct gq_certificate *certificate, SSL_CTX *ctx);

#endif
