#ifndef GQ_WEBHOOK_TLS_H
#define GQ_WEBHOOK_TLS_H

#include <stdbool.h>

#include <openssl/types.h>

#include "webhook/certificate.h"

/* Sets a server's SSL_CTX up: TLS 1.2 and 1.3, forward secrecy only, no renegotiation, no sessions
 * to resume, and the certificate in use at each handshake. 0, or -1. */
int gq_tls_configure(SSL_CTX *ctx, struct gq_certificate *certificate);

/* Of a connection that ends: whether that is because its handshake did not succeed. ssl may be
 * NULL. */
bool gq_tls_failed(const SSL *ssl);

#endif
