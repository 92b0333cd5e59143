#ifndef GQ_WEBHOOK_ADDRESS_H
#define GQ_WEBHOOK_ADDRESS_H

#include <sys/socket.h>

#include "base/err.h"

/* Room for "[IPv6%zone]:port" and a NUL. */
#define GQ_ADDRESS_TEXT_MAX 80

struct gq_address {
	struct sockaddr_storage sa;
	socklen_t len;
	int every; /* ":PORT": every IPv4 and IPv6 address of the machine */
};

/* Reads "IPV4:PORT", "[IPV6]:PORT" or ":PORT". Port 0 lets the kernel choose. Names are not
 * resolved: what is bound must not hang on a resolver. Errors: GQ_EINVALID. */
int gq_address_parse(const char *text, struct gq_address *ret_address, struct gq_err *err);

/* Opens a non-blocking listening socket on exactly that address; the message of a failure names it.
 * ret_port: the port bound. ret_fd: the caller's to close. Errors: GQ_EINVALID, GQ_EIO. */
int gq_address_listen(const char *text, int *ret_fd, unsigned *ret_port, struct gq_err *err);

#endif
