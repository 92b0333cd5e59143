#ifndef GQ_TESTS_APIDOUBLE_H
#define GQ_TESTS_APIDOUBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "testpki.h"

/* A stand-in for the API server, on a loopback port: hands each request to the test, which answers
 * it byte by byte as it likes. Nothing in it depends on time; whatever waits for the program under
 * test gives up, and aborts the test, after 30 s. */
struct apidouble;
struct apicall; /* one request and its answer; belongs to the double */

/* pki: NULL serves plain HTTP. want_client_cert: refuses clients without one signed by pki->ca. */
struct apidouble *apidouble_new(const struct testpki *pki, bool want_client_cert);
/* Closes every connection. */
void apidouble_free(struct apidouble *server);
const char *apidouble_url(const struct apidouble *server);
unsigned apidouble_port(const struct apidouble *server);

/* The next request whose path begins with prefix, in order of arrival; waits for it. */
struct apicall *apidouble_next(struct apidouble *server, const char *prefix);
/* How many requests wait to be taken. */
size_t apidouble_waiting(struct apidouble *server);
/* How many connections were accepted, and how many failed in their TLS handshake. */
size_t apidouble_connections(struct apidouble *server);
size_t apidouble_failed_handshakes(struct apidouble *server);

const char *apicall_method(const struct apicall *call);
const char *apicall_path(const struct apicall *call); /* with query */
/* The value of a header, or NULL. The nth (from 0) of that name. */
const char *apicall_header(const struct apicall *call, const char *name, size_t nth);
const char *apicall_body(const struct apicall *call);
/* CN of the client's certificate, or "". */
const char *apicall_client(const struct apicall *call);

/* A whole answer. headers: lines that end in \r\n, or "". */
void apicall_answer(struct apicall *call, int status, const char *headers, const char *body);
/* A chunked answer: its head, some bytes of its body as one chunk, its end. */
void apicall_begin(struct apicall *call, int status, const char *headers);
void apicall_send(struct apicall *call, const char *text);
void apicall_send_bytes(struct apicall *call, const char *bytes, size_t len);
void apicall_end(struct apicall *call);
/* Raw bytes, past all framing. */
void apicall_raw(struct apicall *call, const char *text);
/* Ends the connection: in order, or by a TCP reset. */
void apicall_close(struct apicall *call);
void apicall_reset(struct apicall *call);
/* Waits until the client has ended the connection, and ends it here. */
void apicall_wait_gone(struct apicall *call);

#endif
