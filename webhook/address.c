#include "webhook/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 512

static int parse_port(const char *text, const char *port, in_port_t *ret_port, struct gq_err *err)
{
	unsigned value = 0;
	size_t len = strlen(port);

	if (len == 0 || len > 5 || strspn(port, "0123456789") != len)
		return gq_fail(err, GQ_EINVALID, "address \"%s\": \"%s\" is no port", text, port);
	for (const char *p = port; *p; p++)
		value = value * 10 + (unsigned)(*p - '0');
	if (value > 65535)
		return gq_fail(err, GQ_EINVALID, "address \"%s\": port %u is above 65535", text,
			       value);
	*ret_port = htons((in_port_t)value);
	return 0;
}

int gq_address_parse(const char *text, struct gq_address *ret_address, struct gq_err *err)
{
	struct gq_address address = {0};
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address.sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address.sa;
	char host[GQ_ADDRESS_TEXT_MAX];
	in_port_t port = 0;

	const char *colon = strrchr(text, ':');
	if (!colon)
		return gq_fail(err, GQ_EINVALID, "address \"%s\" has no port: ADDRESS:PORT", text);
	int code = parse_port(text, colon + 1, &port, err);
	if (code)
		return code;
	size_t len = (size_t)(colon - text);
	bool brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
	if (len >= sizeof host)
		return gq_fail(err, GQ_EINVALID, "address \"%s\" is too long", text);
	memcpy(host, text + brackets, len - 2 * brackets);
	host[len - 2 * brackets] = '\0';

	if (len == 0) {
		*v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
		address.len = sizeof *v6;
		address.every = 1;
	} else if (brackets && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		address.len = sizeof *v6;
	} else if (!brackets && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		address.len = sizeof *v4;
	} else if (!brackets && strchr(host, ':')) {
		return gq_fail(err, GQ_EINVALID,
			       "address \"%s\": an IPv6 address needs brackets: "
			       "[::1]:9443",
			       text);
	} else {
		return gq_fail(err, GQ_EINVALID, "address \"%s\": \"%s\" is no IP address", text,
			       host);
	}
	*ret_address = address;
	return 0;
}

/* One attempt; -1 with errno set. */
static int open_listener(const struct gq_address *address, unsigned *ret_port)
{
	struct sockaddr_storage bound;
	socklen_t len = sizeof bound;
	int on = 1;
	int only_v6 = !address->every;

	int fd = socket(address->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	/* a restart must not wait for the old connections' TIME_WAIT */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    (address->sa.ss_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6)) ||
	    bind(fd, (const struct sockaddr *)&address->sa, address->len) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&bound, &len)) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	*ret_port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
						      : ((struct sockaddr_in *)&bound)->sin_port);
	return fd;
}

int gq_address_listen(const char *text, int *ret_fd, unsigned *ret_port, struct gq_err *err)
{
	struct gq_address address;
	unsigned port;

	int code = gq_address_parse(text, &address, err);
	if (code)
		return code;
	int fd = open_listener(&address, &port);
	if (fd < 0 && address.every && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
		/* a kernel without IPv6: every address is every IPv4 address */
		in_port_t wanted = ((struct sockaddr_in6 *)&address.sa)->sin6_port;
		address = (struct gq_address){.len = sizeof(struct sockaddr_in), .every = 1};
		((struct sockaddr_in *)&address.sa)->sin_family = AF_INET;
		((struct sockaddr_in *)&address.sa)->sin_port = wanted;
		fd = open_listener(&address, &port);
	}
	if (fd < 0)
		return gq_fail(err, GQ_EIO, "cannot listen on %s: %s", text, strerror(errno));
	*ret_fd = fd;
	*ret_port = port;
	return 0;
}
