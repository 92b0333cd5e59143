#include "webhook/tls.h"

#include <openssl/ssl.h>

int gq_tls_configure(SSL_CTX *ctx, struct gq_certificate *certificate)
{
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1)
		return -1;
	/* The API server resumes no sessions, and without them a new certificate is seen at once.
	 * Read-ahead stays off: libwebsockets would not know of what it has read. */
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
				     SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(ctx, 0);
	/* libwebsockets' own picks another vhost by the name that the client asked for */
	SSL_CTX_set_tlsext_servername_callback(ctx, NULL);
	gq_certificate_serve(certificate, ctx);
	return 0;
}

bool gq_tls_failed(const SSL *ssl)
{
	unsigned char first;

	/* Whoever connects and leaves without a byte is a probe. SSL_is_init_finished() would not
	 * do: a peer that leaves without close_notify puts a good connection back to "in init". */
	return ssl && BIO_number_read(SSL_get_rbio(ssl)) > 0 &&
	       SSL_get_peer_finished(ssl, &first, 1) == 0;
}
