#include "apidouble.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MAX = 1 << 20, GIVE_UP_S = 30, CALLS_MAX = 8192 };

enum state { ASKED, TAKEN, ANSWERED, ENDED };

struct connection {
	struct connection *next;
	struct apidouble *server;
	pthread_t thread;
	int fd;
	SSL *tls;
};

struct apicall {
	struct apicall *next;
	struct connection *connection;
	enum state state;
	char *text; /* the request as it came */
	char *body;
	char method[16];
	char *path;
	char client[64];
};

struct apidouble {
	int fd;
	unsigned port;
	char url[64];
	SSL_CTX *tls;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows, and of the states of the calls */
	pthread_cond_t changed;
	bool stop;
	struct connection *connections;
	struct apicall *calls, **calls_end;
	size_t n_connections, n_failed;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "API-server double: %s\n", what);
	abort();
}

static void wait_changed(struct apidouble *server, const char *what)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += GIVE_UP_S;
	if (pthread_cond_timedwait(&server->changed, &server->lock, &until) == ETIMEDOUT)
		die(what);
}

static ssize_t conn_read(struct connection *c, char *to, size_t room)
{
	return c->tls ? SSL_read(c->tls, to, (int)room) : recv(c->fd, to, room, 0);
}

static void conn_write(struct connection *c, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = c->tls ? SSL_write(c->tls, bytes, (int)len)
				   : send(c->fd, bytes, len, MSG_NOSIGNAL);
		if (n <= 0)
			return; /* the client is gone, as some tests want it */
		bytes += n;
		len -= (size_t)n;
	}
}

static size_t body_length(const char *text)
{
	const char *at = strcasestr(text, "\r\nContent-Length:");
	return at ? strtoul(at + 17, NULL, 10) : 0;
}

/* Reads one request; NULL at the end of the connection. Clients do not pipeline. */
static char *read_request(struct connection *c, char **ret_body)
{
	char *text = calloc(1, REQUEST_MAX + 1);
	size_t len = 0;

	while (text && len < REQUEST_MAX) {
		ssize_t n = conn_read(c, text + len, REQUEST_MAX - len);
		if (n <= 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
		char *end = strstr(text, "\r\n\r\n");
		if (end && len - (size_t)(end + 4 - text) >= body_length(text)) {
			*ret_body = end + 4;
			end[2] = '\0';
			return text;
		}
	}
	free(text);
	return NULL;
}

static void name_client(struct connection *c, char *to, size_t size)
{
	X509 *cert = c->tls ? SSL_get_peer_certificate(c->tls) : NULL;

	if (cert)
		(void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, to,
						(int)size);
	X509_free(cert);
}

static struct apicall *read_call(struct connection *c)
{
	char *body = NULL, *text = read_request(c, &body);

	if (!text)
		return NULL;
	struct apicall *call = calloc(1, sizeof *call);
	if (!call)
		die("out of memory");
	char *space = strchr(text, ' ');
	char *end = space ? strchr(space + 1, ' ') : NULL;
	if (!end || space - text >= (ptrdiff_t)sizeof call->method)
		die("not a request");
	memcpy(call->method, text, (size_t)(space - text));
	call->path = strndup(space + 1, (size_t)(end - space - 1));
	call->connection = c;
	call->text = text;
	call->body = body;
	name_client(c, call->client, sizeof call->client);
	return call;
}

static bool handshake(struct connection *c)
{
	struct apidouble *server = c->server;

	if (!server->tls)
		return true;
	c->tls = SSL_new(server->tls);
	if (c->tls && SSL_set_fd(c->tls, c->fd) && SSL_accept(c->tls) == 1)
		return true;
	pthread_mutex_lock(&server->lock);
	server->n_failed++;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	return false;
}

static void *serve(void *arg)
{
	struct connection *c = arg;
	struct apidouble *server = c->server;
	struct apicall *call;

	bool go_on = handshake(c);
	while (go_on && (call = read_call(c))) {
		pthread_mutex_lock(&server->lock);
		*server->calls_end = call;
		server->calls_end = &call->next;
		pthread_cond_broadcast(&server->changed);
		/* the test writes the answer, from its own thread */
		while (call->state < ANSWERED && !server->stop)
			pthread_cond_wait(&server->changed, &server->lock);
		go_on = call->state == ANSWERED && !server->stop;
		pthread_mutex_unlock(&server->lock);
	}
	shutdown(c->fd, SHUT_RDWR);
	return NULL;
}

static void *accept_all(void *arg)
{
	struct apidouble *server = arg;

	for (;;) {
		int fd = accept(server->fd, NULL, NULL);
		if (fd < 0 && errno == EINTR)
			continue;
		if (fd < 0)
			return NULL;
		int yes = 1;
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		struct connection *c = calloc(1, sizeof *c);
		if (!c)
			die("out of memory");
		c->fd = fd;
		c->server = server;
		pthread_mutex_lock(&server->lock);
		c->next = server->connections;
		server->connections = c;
		server->n_connections++;
		if (server->stop)
			shutdown(fd, SHUT_RDWR);
		if (pthread_create(&c->thread, NULL, serve, c))
			die("no thread");
		pthread_mutex_unlock(&server->lock);
	}
}

static SSL_CTX *make_tls(const struct testpki *pki, bool want_client_cert)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
	BIO *cert_bio = BIO_new_mem_buf(pki->server_cert, -1);
	BIO *key_bio = BIO_new_mem_buf(pki->server_key, -1);
	BIO *ca_bio = BIO_new_mem_buf(pki->ca, -1);
	X509 *cert = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);
	X509 *ca = PEM_read_bio_X509(ca_bio, NULL, NULL, NULL);

	if (!tls || SSL_CTX_use_certificate(tls, cert) != 1 ||
	    SSL_CTX_use_PrivateKey(tls, key) != 1 ||
	    X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), ca) != 1)
		die("TLS set-up");
	if (want_client_cert)
		SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	X509_free(cert);
	X509_free(ca);
	EVP_PKEY_free(key);
	BIO_free(cert_bio);
	BIO_free(key_bio);
	BIO_free(ca_bio);
	return tls;
}

struct apidouble *apidouble_new(const struct testpki *pki, bool want_client_cert)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct apidouble *server = calloc(1, sizeof *server);
	socklen_t len = sizeof address;

	if (!server)
		die("out of memory");
	(void)signal(SIGPIPE, SIG_IGN); /* a client that is gone is an error of the write */
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server->fd < 0 || bind(server->fd, (struct sockaddr *)&address, sizeof address) ||
	    listen(server->fd, 64) || getsockname(server->fd, (struct sockaddr *)&address, &len))
		die("can't listen");
	server->port = ntohs(address.sin_port);
	(void)snprintf(server->url, sizeof server->url, "%s://127.0.0.1:%u", pki ? "https" : "http",
		       server->port);
	server->tls = pki ? make_tls(pki, want_client_cert) : NULL;
	server->calls_end = &server->calls;
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->changed, NULL);
	if (pthread_create(&server->thread, NULL, accept_all, server))
		die("no thread");
	return server;
}

void apidouble_free(struct apidouble *server)
{
	if (!server)
		return;
	shutdown(server->fd, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	close(server->fd);
	pthread_mutex_lock(&server->lock);
	server->stop = true;
	for (struct connection *c = server->connections; c; c = c->next)
		shutdown(c->fd, SHUT_RDWR);
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	for (struct connection *c = server->connections, *next; c; c = next) {
		next = c->next;
		pthread_join(c->thread, NULL);
		SSL_free(c->tls);
		close(c->fd);
		free(c);
	}
	for (struct apicall *call = server->calls, *next; call; call = next) {
		next = call->next;
		free(call->text);
		free(call->path);
		free(call);
	}
	SSL_CTX_free(server->tls);
	pthread_cond_destroy(&server->changed);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

const char *apidouble_url(const struct apidouble *server)
{
	return server->url;
}

unsigned apidouble_port(const struct apidouble *server)
{
	return server->port;
}

struct apicall *apidouble_next(struct apidouble *server, const char *prefix)
{
	struct apicall *call;

	pthread_mutex_lock(&server->lock);
	for (;;) {
		for (call = server->calls; call; call = call->next)
			if (call->state == ASKED &&
			    strncmp(call->path, prefix, strlen(prefix)) == 0)
				break;
		if (call)
			break;
		wait_changed(server, "no request came");
	}
	call->state = TAKEN;
	pthread_mutex_unlock(&server->lock);
	return call;
}

size_t apidouble_waiting(struct apidouble *server)
{
	size_t n = 0;

	pthread_mutex_lock(&server->lock);
	for (struct apicall *call = server->calls; call; call = call->next)
		n += call->state == ASKED;
	pthread_mutex_unlock(&server->lock);
	return n;
}

size_t apidouble_connections(struct apidouble *server)
{
	pthread_mutex_lock(&server->lock);
	size_t n = server->n_connections;
	pthread_mutex_unlock(&server->lock);
	return n;
}

size_t apidouble_failed_handshakes(struct apidouble *server)
{
	pthread_mutex_lock(&server->lock);
	size_t n = server->n_failed;
	pthread_mutex_unlock(&server->lock);
	return n;
}

const char *apicall_method(const struct apicall *call)
{
	return call->method;
}

const char *apicall_path(const struct apicall *call)
{
	return call->path;
}

const char *apicall_header(const struct apicall *call, const char *name, size_t nth)
{
	static char value[65536];
	size_t len = strlen(name);

	for (const char *line = strstr(call->text, "\r\n"); line; line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':' || nth-- > 0)
			continue;
		const char *start = line + len + 1 + strspn(line + len + 1, " ");
		(void)snprintf(value, sizeof value, "%.*s", (int)strcspn(start, "\r"), start);
		return value;
	}
	return NULL;
}

const char *apicall_body(const struct apicall *call)
{
	return call->body;
}

const char *apicall_client(const struct apicall *call)
{
	return call->client;
}

static void set_state(struct apicall *call, enum state state)
{
	struct apidouble *server = call->connection->server;

	pthread_mutex_lock(&server->lock);
	call->state = state;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

static void send_head(struct apicall *call, int status, const char *headers, const char *framing)
{
	char head[4096];

	int n = snprintf(head, sizeof head,
			 "HTTP/1.1 %d Scripted\r\nContent-Type: application/json\r\n%s%s\r\n",
			 status, headers, framing);
	if (n < 0 || (size_t)n >= sizeof head)
		die("headers too long");
	conn_write(call->connection, head, (size_t)n);
}

void apicall_answer(struct apicall *call, int status, const char *headers, const char *body)
{
	char framing[64];

	(void)snprintf(framing, sizeof framing, "Content-Length: %zu\r\n", strlen(body));
	send_head(call, status, headers, framing);
	conn_write(call->connection, body, strlen(body));
	set_state(call, ANSWERED);
}

void apicall_begin(struct apicall *call, int status, const char *headers)
{
	send_head(call, status, headers, "Transfer-Encoding: chunked\r\n");
}

void apicall_send_bytes(struct apicall *call, const char *bytes, size_t len)
{
	char size[32];

	int n = snprintf(size, sizeof size, "%zx\r\n", len);
	conn_write(call->connection, size, (size_t)n);
	conn_write(call->connection, bytes, len);
	conn_write(call->connection, "\r\n", 2);
}

void apicall_send(struct apicall *call, const char *text)
{
	apicall_send_bytes(call, text, strlen(text));
}

void apicall_end(struct apicall *call)
{
	conn_write(call->connection, "0\r\n\r\n", 5);
	set_state(call, ANSWERED);
}

void apicall_raw(struct apicall *call, const char *text)
{
	conn_write(call->connection, text, strlen(text));
}

void apicall_close(struct apicall *call)
{
	set_state(call, ENDED);
}

void apicall_reset(struct apicall *call)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	int nowhere = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* a close with no linger is a reset; the number stays taken until the double ends */
	(void)setsockopt(call->connection->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	if (nowhere < 0 || dup2(nowhere, call->connection->fd) < 0)
		die("can't reset");
	close(nowhere);
	set_state(call, ENDED);
}

void apicall_wait_gone(struct apicall *call)
{
	struct timeval give_up = {.tv_sec = GIVE_UP_S};
	char byte;

	(void)setsockopt(call->connection->fd, SOL_SOCKET, SO_RCVTIMEO, &give_up, sizeof give_up);
	ssize_t n = recv(call->connection->fd, &byte, 1, 0);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		die("the client did not end the connection");
	set_state(call, ENDED);
}
