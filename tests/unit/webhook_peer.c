#include "webhook_peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "webhook/request.h"

/* Whatever hangs fails after this long. */
#define PATIENCE_S 20

static char dir[64];

static void remove_dir(void)
{
	DIR *open = opendir(dir);
	char path[512];

	for (struct dirent *e; open && (e = readdir(open));) {
		(void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
	}
	if (open)
		closedir(open);
	rmdir(dir);
}

const char *peer_dir(void)
{
	if (!dir[0]) {
		(void)snprintf(dir, sizeof dir, "/tmp/gq-webhook-XXXXXX");
		assert_non_null(mkdtemp(dir));
		atexit(remove_dir);
	}
	return dir;
}

const char *peer_path(const char *name)
{
	static char slots[8][256];
	static unsigned next;
	char *slot = slots[next++ % 8];

	(void)snprintf(slot, sizeof slots[0], "%s/%s", peer_dir(), name);
	return slot;
}

void peer_write(const char *name, const char *text, size_t len)
{
	FILE *file = fopen(peer_path(name), "we");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

void peer_make_pair(const char *name, int rsa_bits, long valid_s)
{
	EVP_PKEY *key = rsa_bits ? EVP_RSA_gen((unsigned)rsa_bits) : EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	char path[128];

	assert_non_null(key);
	assert_non_null(cert);
	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), valid_s);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	(void)snprintf(path, sizeof path, "%s.crt", name);
	FILE *file = fopen(peer_path(path), "we");
	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, cert), 1);
	fclose(file);
	(void)snprintf(path, sizeof path, "%s.key", name);
	file = fopen(peer_path(path), "we");
	assert_non_null(file);
	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* ---- the server ---- */

static void answer_text(struct gq_request *request, int status, const char *text, size_t len)
{
	gq_request_answer(
	    request, &(struct gq_answer){
			 .status = status, .content_type = "text/plain", .body = text, .len = len});
}

static void echo(struct gq_request *request)
{
	char text[1024];
	size_t len;
	const char *body = gq_request_body(request, &len);

	if (len) {
		answer_text(request, 200, body, len);
		return;
	}
	int n = snprintf(text, sizeof text, "%s %s ?%s", request->method, gq_request_path(request),
			 gq_request_query(request));
	answer_text(request, 200, text, (size_t)n);
}

static void big(struct gq_request *request)
{
	size_t len = strtoul(gq_request_query(request), NULL, 10);
	char *text = malloc(len + 1);

	memset(text, 'x', len);
	answer_text(request, 200, text, len);
	free(text);
}

struct run_count {
	struct peer_server *peer;
	unsigned long runs;
};

static void free_count(void *state)
{
	struct run_count *count = state;

	pthread_mutex_lock(&count->peer->lock);
	count->peer->freed++;
	pthread_cond_broadcast(&count->peer->changed);
	pthread_mutex_unlock(&count->peer->lock);
	free(count);
}

static void retry(struct peer_server *peer, struct gq_request *request)
{
	struct run_count *count = gq_request_state(request);
	char text[32];

	if (!count) {
		count = calloc(1, sizeof *count);
		count->peer = peer;
		gq_request_set_state(request, count, free_count);
	}
	if (count->runs++ < strtoul(gq_request_query(request), NULL, 10)) {
		gq_request_retry(request, (int64_t)count->runs * 1000);
		return;
	}
	int n = snprintf(text, sizeof text, "%lu", count->runs);
	answer_text(request, 200, text, (size_t)n);
}

static void handle(void *arg, struct gq_request *request)
{
	struct peer_server *peer = arg;
	const char *path = gq_request_path(request);

	pthread_mutex_lock(&peer->lock);
	peer->handled++;
	peer->on_loop = pthread_equal(pthread_self(), peer->thread);
	if (strcmp(path, "/park") == 0) {
		assert_true(peer->parked_count < 64);
		peer->parked[peer->parked_count++] = request;
		request = NULL;
	}
	pthread_cond_broadcast(&peer->changed);
	if (request && strcmp(path, "/gate") == 0) {
		while (!peer->gate)
			pthread_cond_wait(&peer->changed, &peer->lock);
	}
	pthread_mutex_unlock(&peer->lock);
	if (!request)
		return;
	if (strcmp(path, "/big") == 0) {
		big(request);
	} else if (strcmp(path, "/retry") == 0) {
		retry(peer, request);
	} else if (strcmp(path, "/close") == 0) {
		gq_request_answer(request, &(struct gq_answer){.status = 200, .close = true});
	} else if (strcmp(path, "/busy") == 0) {
		gq_request_answer(request, &(struct gq_answer){.status = 503, .retry_after_s = 7});
	} else {
		echo(request);
	}
}

static void handle_metrics(void *arg, struct gq_request *request)
{
	(void)arg;
	echo(request);
}

static int route(void *arg, bool metrics, const char *method, const char *path)
{
	(void)arg;
	(void)metrics;
	if (strcmp(path, "/missing") == 0)
		return 404;
	return strcmp(method, "PUT") == 0 ? 405 : 0;
}

struct gq_server_options peer_options(struct peer_server *peer)
{
	static bool made;

	if (!made) {
		peer_make_pair("server", 0, 3600);
		made = true;
	}
	*peer = (struct peer_server){.lock = PTHREAD_MUTEX_INITIALIZER,
				     .changed = PTHREAD_COND_INITIALIZER};
	return (struct gq_server_options){
	    .listen = "127.0.0.1:0",
	    .metrics_listen = "127.0.0.1:0",
	    .tls_cert = peer_path("server.crt"),
	    .tls_key = peer_path("server.key"),
	    .handle = handle,
	    .handle_metrics = handle_metrics,
	    .route = route,
	    .arg = peer,
	};
}

static void *run(void *arg)
{
	struct peer_server *peer = arg;
	struct gq_err err;

	/* the handler compares its thread with this one */
	pthread_mutex_lock(&peer->lock);
	pthread_mutex_unlock(&peer->lock);
	if (gq_server_run(peer->server, &err))
		(void)fprintf(stderr, "run: %s\n", err.msg);
	return NULL;
}

void peer_server_start(struct peer_server *peer, const struct gq_server_options *options)
{
	struct gq_err err;

	if (gq_server_new(options, &peer->server, &err))
		fail_msg("%s", err.msg);
	gq_server_ports(peer->server, &peer->port, &peer->metrics_port);
	pthread_mutex_lock(&peer->lock);
	assert_int_equal(pthread_create(&peer->thread, NULL, run, peer), 0);
	pthread_mutex_unlock(&peer->lock);
	peer->running = true;
}

void peer_server_join(struct peer_server *peer)
{
	assert_int_equal(pthread_join(peer->thread, NULL), 0);
	peer->running = false;
}

void peer_server_stop(struct peer_server *peer)
{
	if (peer->running) {
		gq_server_drain(peer->server, 0);
		peer_server_join(peer);
	}
	gq_server_free(peer->server);
	peer->server = NULL;
}

static void wait_changed(struct peer_server *peer)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	assert_int_equal(pthread_cond_timedwait(&peer->changed, &peer->lock, &until), 0);
}

void peer_server_wait_parked(struct peer_server *peer, unsigned count)
{
	pthread_mutex_lock(&peer->lock);
	while (peer->parked_count < count)
		wait_changed(peer);
	pthread_mutex_unlock(&peer->lock);
}

struct gq_request *peer_server_take(struct peer_server *peer)
{
	peer_server_wait_parked(peer, 1);
	pthread_mutex_lock(&peer->lock);
	struct gq_request *request = peer->parked[0];
	peer->parked_count--;
	memmove(peer->parked, peer->parked + 1, peer->parked_count * sizeof peer->parked[0]);
	pthread_mutex_unlock(&peer->lock);
	return request;
}

void peer_server_release(struct peer_server *peer, const char *body)
{
	answer_text(peer_server_take(peer), 200, body, strlen(body));
}

void peer_server_open_gate(struct peer_server *peer)
{
	pthread_mutex_lock(&peer->lock);
	peer->gate = 1;
	pthread_cond_broadcast(&peer->changed);
	pthread_mutex_unlock(&peer->lock);
}

unsigned peer_server_handled(struct peer_server *peer)
{
	pthread_mutex_lock(&peer->lock);
	unsigned handled = peer->handled;
	pthread_mutex_unlock(&peer->lock);
	return handled;
}

struct gq_server_stats peer_server_stats(const struct peer_server *peer)
{
	struct gq_server_stats stats;

	gq_server_stats(peer->server, &stats);
	return stats;
}

void peer_pause(void)
{
	struct timespec pause = {.tv_nsec = 100000};

	nanosleep(&pause, NULL);
}

void peer_server_wait_open(const struct peer_server *peer, unsigned count)
{
	peer_until(peer_server_stats(peer).connections_open == count);
}

/* ---- the client ---- */

int peer_tcp(const char *address, unsigned port)
{
	struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	bool is_v6 = strchr(address, ':') != NULL;
	int on = 1;

	assert_int_equal(is_v6 ? inet_pton(AF_INET6, address, &v6.sin6_addr)
			       : inet_pton(AF_INET, address, &v4.sin_addr),
			 1);
	int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
		    is_v6 ? sizeof v6 : sizeof v4)) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

struct peer *peer_connect_plain(unsigned port)
{
	struct peer *peer = calloc(1, sizeof *peer);

	assert_non_null(peer);
	peer->fd = peer_tcp("127.0.0.1", port);
	assert_true(peer->fd >= 0);
	return peer;
}

struct peer *peer_try_connect(unsigned port, const char *alpn, int min, int max)
{
	struct peer *peer = peer_connect_plain(port);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	assert_non_null(ctx);
	SSL_CTX_set_security_level(ctx, 0);
	SSL_CTX_set_mode(ctx, SSL_MODE_AUTO_RETRY);
	if (min)
		SSL_CTX_set_min_proto_version(ctx, min);
	if (max)
		SSL_CTX_set_max_proto_version(ctx, max);
	peer->ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	assert_non_null(peer->ssl);
	if (alpn)
		SSL_set_alpn_protos(peer->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
	SSL_set_fd(peer->ssl, peer->fd);
	if (SSL_connect(peer->ssl) != 1) {
		ERR_clear_error();
		peer_close(peer);
		return NULL;
	}
	return peer;
}

struct peer *peer_connect(unsigned port)
{
	struct peer *peer = peer_try_connect(port, NULL, 0, 0);

	assert_non_null(peer);
	return peer;
}

void peer_send(struct peer *peer, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = peer->ssl ? SSL_write(peer->ssl, bytes, len > 16384 ? 16384 : (int)len)
				      : send(peer->fd, bytes, len, MSG_NOSIGNAL);
		assert_true(n > 0);
		bytes += n;
		len -= (size_t)n;
	}
}

void peer_puts(struct peer *peer, const char *text)
{
	peer_send(peer, text, strlen(text));
}

void peer_post(struct peer *peer, const char *path, size_t len)
{
	char *text = malloc(len + 512);

	assert_non_null(text);
	int n = snprintf(text, 512, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n\r\n",
			 path, len);
	memset(text + n, 'b', len);
	peer_send(peer, text, (size_t)n + len);
	free(text);
}

/* False at the end of the stream. */
static bool fill(struct peer *peer)
{
	ssize_t n;

	assert_true(peer->in_len < sizeof peer->in);
	if (peer->ssl)
		n = SSL_read(peer->ssl, peer->in + peer->in_len,
			     (int)(sizeof peer->in - peer->in_len));
	else
		n = recv(peer->fd, peer->in + peer->in_len, sizeof peer->in - peer->in_len, 0);
	if (n > 0) {
		peer->in_len += (size_t)n;
		return true;
	}
	assert_false(n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
	peer->ended = true;
	peer->got_notify = peer->ssl && SSL_get_error(peer->ssl, (int)n) == SSL_ERROR_ZERO_RETURN;
	ERR_clear_error();
	return false;
}

static void use(struct peer *peer, size_t len)
{
	peer->in_len -= len;
	memmove(peer->in, peer->in + len, peer->in_len);
}

void peer_read(struct peer *peer, struct peer_answer *ret_answer)
{
	struct peer_answer answer = {0};
	char *end;

	while (!(end = memmem(peer->in, peer->in_len, "\r\n\r\n", 4)))
		assert_true(fill(peer));
	size_t head = (size_t)(end - peer->in) + 4;
	assert_true(head < sizeof answer.head);
	memcpy(answer.head, peer->in, head);
	use(peer, head);
	assert_int_equal(sscanf(answer.head, "HTTP/1.1 %d ", &answer.status), 1);
	answer.close = strcasestr(answer.head, "\r\nConnection: close\r\n") != NULL;
	const char *length = strcasestr(answer.head, "\r\nContent-Length: ");
	if (length)
		answer.len = strtoul(length + 18, NULL, 10);
	answer.body = malloc(answer.len + 1);
	assert_non_null(answer.body);
	for (size_t at = 0; at < answer.len;) {
		if (!peer->in_len)
			assert_true(fill(peer));
		size_t n = peer->in_len < answer.len - at ? peer->in_len : answer.len - at;
		memcpy(answer.body + at, peer->in, n);
		use(peer, n);
		at += n;
	}
	answer.body[answer.len] = '\0';
	*ret_answer = answer;
}

void peer_expect(struct peer *peer, int status, const char *body)
{
	struct peer_answer answer;

	peer_read(peer, &answer);
	assert_int_equal(answer.status, status);
	if (body)
		assert_string_equal(answer.body, body);
	free(answer.body);
}

uint64_t peer_turns(const struct peer_server *server, struct peer *peer, unsigned count)
{
	uint64_t before = peer_server_stats(server).loop_turns_total;

	for (unsigned i = 0; i < count; i++) {
		peer_post(peer, "/echo", 3);
		peer_expect(peer, 200, "bbb");
	}
	return peer_server_stats(server).loop_turns_total - before;
}

void peer_expect_end(struct peer *peer)
{
	assert_int_equal(peer->in_len, 0);
	while (!peer->ended)
		assert_false(fill(peer));
}

void peer_close(struct peer *peer)
{
	SSL_free(peer->ssl);
	close(peer->fd);
	free(peer);
}

void peer_reset(struct peer *peer)
{
	struct linger at_once = {.l_onoff = 1, .l_linger = 0};

	setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	peer_close(peer);
}
