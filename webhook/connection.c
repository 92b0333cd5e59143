#include "webhook/connection.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"

#define HEAD_MAX_BYTES (32u << 10)
#define WRITE_BYTES (32u << 10)
#define LINGER_NS (2 * GQ_NS_PER_S)
#define SPARE_MAX 64

static_assert(GQ_ANSWER_PRE >= LWS_PRE, "libwebsockets wants more room in front");

static int64_t deadline(int64_t from_ns, int64_t timeout_ns)
{
	return timeout_ns > INT64_MAX - from_ns ? INT64_MAX : from_ns + timeout_ns;
}

static int64_t now_ns(void)
{
	return gq_clock_mono_ns(&gq_clock_real);
}

static bool expects_bytes(const struct gq_connection *connection)
{
	return connection->state <= GQ_CONNECTION_BODY;
}

/* POLLIN while bytes are wanted, and never while libwebsockets holds unsent output: its raw role
 * would return from each POLLIN without reading, and spin. */
static void set_reading(struct gq_connection *connection)
{
	bool want = (expects_bytes(connection) || connection->state == GQ_CONNECTION_LINGER) &&
		    !lws_partial_buffered(connection->wsi);

	if (want == connection->reading)
		return;
	connection->reading = want;
	lws_rx_flow_control(connection->wsi, want);
}

struct gq_request *gq_connection_take_request(struct gq_connection_shared *shared)
{
	struct gq_request *request = shared->spare;

	if (!request)
		return gq_request_new(shared->work);
	shared->spare = request->next;
	shared->spare_count--;
	gq_request_reset(request);
	return request;
}

void gq_connection_give_request(struct gq_connection_shared *shared, struct gq_request *request)
{
	if (shared->spare_count >= SPARE_MAX) {
		gq_request_free(request);
		return;
	}
	gq_request_reset(request);
	request->next = shared->spare;
	shared->spare = request;
	shared->spare_count++;
}

/* Our side is done: close_notify, FIN, and then the peer gets a while to close its own. Closing at
 * once would send a reset over unread bytes, and the peer might lose the answer. */
static int begin_linger(struct gq_connection *connection)
{
	SSL *ssl = lws_get_ssl(connection->wsi);
	int64_t wait = LINGER_NS;

	if (wait > connection->shared->options->head_timeout_ns)
		wait = connection->shared->options->head_timeout_ns;
	if (connection->state != GQ_CONNECTION_LINGER)
		connection->deadline_ns = deadline(now_ns(), wait);
	connection->state = GQ_CONNECTION_LINGER;
	if (ssl) {
		int n = SSL_shutdown(ssl);
		connection->shutdown_pending =
		    n < 0 && SSL_get_error(ssl, n) == SSL_ERROR_WANT_WRITE;
		ERR_clear_error();
		if (connection->shutdown_pending) {
			lws_callback_on_writable(connection->wsi);
			return 0;
		}
	}
	(void)shutdown(lws_get_socket_fd(connection->wsi), SHUT_WR);
	return 0;
}

static int finish_answer(struct gq_connection *connection)
{
	struct gq_request *request = connection->request;
	bool close = request->close;

	connection->request = NULL;
	gq_connection_give_request(connection->shared, request);
	if (close)
		return begin_linger(connection);
	connection->state = GQ_CONNECTION_IDLE;
	connection->deadline_ns = deadline(now_ns(), connection->shared->options->idle_timeout_ns);
	return 0;
}

/* Sends what the socket takes. Larger answers go in pieces, so that libwebsockets never copies
 * more than one of them. */
static int send_answer(struct gq_connection *connection)
{
	struct gq_buf *answer = &connection->request->answer;

	while (connection->sent < answer->len && !lws_partial_buffered(connection->wsi)) {
		size_t n = answer->len - connection->sent;
		if (n > WRITE_BYTES)
			n = WRITE_BYTES;
		if (lws_write(connection->wsi, (unsigned char *)answer->data + connection->sent, n,
			      LWS_WRITE_RAW) < (int)n)
			return -1;
		connection->sent += n;
	}
	if (lws_partial_buffered(connection->wsi)) {
		/* comes back by RAW_WRITEABLE once libwebsockets has drained its piece */
		lws_callback_on_writable(connection->wsi);
		return 0;
	}
	return finish_answer(connection);
}

static int begin_answer(struct gq_connection *connection)
{
	struct gq_request *request = connection->request;

	if (request->answer.code)
		return -1;
	atomic_fetch_add_explicit(&connection->shared->responses[request->status / 100], 1,
				  memory_order_relaxed);
	connection->state = GQ_CONNECTION_SEND;
	connection->deadline_ns = deadline(now_ns(), connection->shared->options->body_timeout_ns);
	connection->sent = GQ_ANSWER_PRE;
	return send_answer(connection);
}

static int refuse(struct gq_connection *connection, int status, bool close)
{
	gq_request_refuse(connection->request, status, close);
	return begin_answer(connection);
}

static int on_head(void *arg, const struct gq_http_head *head)
{
	struct gq_connection *connection = arg;
	const struct gq_server_options *options = connection->shared->options;
	int64_t now = now_ns();

	connection->state = GQ_CONNECTION_BODY;
	connection->deadline_ns = deadline(now, options->body_timeout_ns);
	int status = gq_request_take_head(connection->request, head, now);
	if (!status && options->route)
		status =
		    options->route(options->arg, connection->metrics, head->method, head->path);
	if (status && !head->chunked && !head->content_length) {
		/* nothing follows, so the connection can go on */
		connection->refusal = status;
		return 0;
	}
	connection->want_continue = !status && head->expect_continue;
	return status;
}

static int on_body(void *arg, const char *bytes, size_t len)
{
	struct gq_connection *connection = arg;

	connection->want_continue = false; /* it did not wait */
	return gq_request_take_body(connection->request, bytes, len);
}

/* The handler's request is ours again. */
static int take_answer(struct gq_connection *connection)
{
	atomic_fetch_sub_explicit(&connection->shared->in_flight, 1, memory_order_relaxed);
	connection->request->connection = NULL;
	return begin_answer(connection);
}

/* The whole message is here. */
static int dispatch(struct gq_connection *connection)
{
	struct gq_connection_shared *shared = connection->shared;
	const struct gq_server_options *options = shared->options;
	struct gq_request *request = connection->request;

	request->keep_alive = gq_http_keep_alive(connection->http);
	if (connection->refusal)
		return refuse(connection, connection->refusal, false);
	request->connection = connection;
	request->handle = connection->metrics ? options->handle_metrics : options->handle;
	request->handle_arg = options->arg;
	connection->state = GQ_CONNECTION_WORK;
	connection->deadline_ns = INT64_MAX;
	atomic_fetch_add_explicit(&shared->in_flight, 1, memory_order_relaxed);
	if (!connection->metrics && request->body_len < options->inline_below_bytes &&
	    !gq_work_waiting(shared->work)) {
		if (gq_work_run_here(shared->work, request))
			return take_answer(connection);
		return 0; /* parked: not ours to touch any more */
	}
	gq_work_submit(shared->work, request);
	return 0;
}

static int begin_message(struct gq_connection *connection)
{
	connection->request = gq_connection_take_request(connection->shared);
	if (!connection->request)
		return -1;
	connection->refusal = 0;
	connection->want_continue = false;
	connection->state = GQ_CONNECTION_HEAD;
	connection->deadline_ns = deadline(now_ns(), connection->shared->options->head_timeout_ns);
	return 0;
}

static int send_continue(struct gq_connection *connection)
{
	static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
	unsigned char out[LWS_PRE + sizeof line];

	connection->want_continue = false;
	memcpy(out + LWS_PRE, line, sizeof line - 1);
	if (lws_write(connection->wsi, out + LWS_PRE, sizeof line - 1, LWS_WRITE_RAW) <
	    (int)sizeof line - 1)
		return -1;
	return 0;
}

/* Reads as far as the state allows. ret_used: how far that was. */
static int consume(struct gq_connection *connection, const char *bytes, size_t len,
		   size_t *ret_used)
{
	size_t at = 0;

	while (at < len && expects_bytes(connection)) {
		size_t used = 0;
		if (connection->state == GQ_CONNECTION_IDLE) {
			/* stray line ends do not begin a message, nor its deadline */
			if (bytes[at] == '\r' || bytes[at] == '\n') {
				at++;
				continue;
			}
			if (begin_message(connection))
				return -1;
		}
		int result = gq_http_feed(connection->http, bytes + at, len - at, &used);
		at += used;
		if (result > GQ_HTTP_COMPLETE) {
			at = len; /* no telling where another message would begin */
			if (refuse(connection, result, true))
				return -1;
		} else if (result == GQ_HTTP_COMPLETE && dispatch(connection)) {
			return -1;
		}
	}
	if (connection->state == GQ_CONNECTION_BODY && connection->want_continue &&
	    send_continue(connection))
		return -1;
	*ret_used = at;
	return 0;
}

/* Goes on with what was read before the last answer went out. */
static int consume_stash(struct gq_connection *connection)
{
	size_t used = 0;

	if (!connection->stash || !expects_bytes(connection))
		return 0;
	if (consume(connection, connection->stash + connection->stash_at,
		    connection->stash_len - connection->stash_at, &used))
		return -1;
	connection->stash_at += used;
	if (connection->stash_at == connection->stash_len ||
	    connection->state == GQ_CONNECTION_LINGER) {
		free(connection->stash);
		connection->stash = NULL;
	}
	return 0;
}

int gq_connection_open(struct gq_connection *connection, struct lws *wsi, bool metrics,
		       struct gq_connection_shared *shared, int64_t now)
{
	struct gq_http_handler handler = {.head = on_head, .body = on_body, .arg = connection};
	struct gq_http_limits limits = {.head_bytes = HEAD_MAX_BYTES,
					.body_bytes = shared->options->max_body_bytes};

	connection->http = gq_http_new(&handler, &limits);
	if (!connection->http)
		return -1;
	connection->wsi = wsi;
	connection->metrics = metrics;
	connection->shared = shared;
	connection->reading = true;
	connection->state = metrics ? GQ_CONNECTION_IDLE : GQ_CONNECTION_HANDSHAKE;
	connection->deadline_ns = deadline(now, metrics ? shared->options->idle_timeout_ns
							: shared->options->head_timeout_ns);
	return 0;
}

bool gq_connection_close(struct gq_connection *connection)
{
	struct gq_request *request = connection->request;

	if (!connection->wsi)
		return false;
	connection->wsi = NULL;
	connection->request = NULL;
	if (request && request->connection) { /* a handler has it: it comes back without us */
		request->connection = NULL;
		atomic_store_explicit(&request->orphaned, true, memory_order_relaxed);
	} else if (request) {
		gq_connection_give_request(connection->shared, request);
	}
	gq_http_free(connection->http);
	connection->http = NULL;
	free(connection->stash);
	connection->stash = NULL;
	return true;
}

/* The handshake is over. libwebsockets' own timer for "establishing" stays armed until somebody
 * clears it, and would cut a connection that waits for its first request. */
static void begin_idle(struct gq_connection *connection, int64_t now)
{
	lws_set_timeout(connection->wsi, NO_PENDING_TIMEOUT, 0);
	connection->state = GQ_CONNECTION_IDLE;
	connection->deadline_ns = deadline(now, connection->shared->options->idle_timeout_ns);
}

int gq_connection_received(struct gq_connection *connection, const char *bytes, size_t len)
{
	size_t used = 0;

	if (connection->state == GQ_CONNECTION_LINGER) {
		/* at most what a client could be in the middle of sending */
		connection->swallowed += len;
		return connection->swallowed > 2 * connection->shared->options->max_body_bytes ? -1
											       : 0;
	}
	if (connection->state == GQ_CONNECTION_HANDSHAKE)
		begin_idle(connection, now_ns());
	if (!expects_bytes(connection) || connection->stash)
		return -1; /* reading was off */
	if (consume(connection, bytes, len, &used))
		return -1;
	if (used < len && connection->state != GQ_CONNECTION_LINGER) {
		connection->stash = malloc(len - used);
		if (!connection->stash)
			return -1;
		memcpy(connection->stash, bytes + used, len - used);
		connection->stash_at = 0;
		connection->stash_len = len - used;
	}
	set_reading(connection);
	return 0;
}

int gq_connection_writable(struct gq_connection *connection)
{
	int result = 0;

	if (connection->state == GQ_CONNECTION_SEND)
		result = send_answer(connection);
	else if (connection->shutdown_pending)
		result = begin_linger(connection);
	if (result || consume_stash(connection))
		return -1;
	set_reading(connection);
	return 0;
}

int gq_connection_answered(struct gq_connection *connection)
{
	if (take_answer(connection) || consume_stash(connection))
		return -1;
	set_reading(connection);
	return 0;
}

/* What the loop has not looked at yet: a request has begun. */
static bool has_bytes(const struct gq_connection *connection)
{
	char first;

	return recv(lws_get_socket_fd(connection->wsi), &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

int gq_connection_tick(struct gq_connection *connection, int64_t now)
{
	if (connection->state == GQ_CONNECTION_HANDSHAKE) {
		SSL *ssl = lws_get_ssl(connection->wsi);
		if (ssl && SSL_is_init_finished(ssl))
			begin_idle(connection, now);
	}
	if (now < connection->deadline_ns)
		return 0;
	switch (connection->state) {
	case GQ_CONNECTION_IDLE:
		if (!has_bytes(connection))
			(void)begin_linger(connection);
		break;
	case GQ_CONNECTION_HEAD:
	case GQ_CONNECTION_BODY:
		if (refuse(connection, 408, true))
			return -1;
		break;
	case GQ_CONNECTION_WORK:
	case GQ_CONNECTION_DEAD:
		return 0;
	case GQ_CONNECTION_HANDSHAKE:
	case GQ_CONNECTION_SEND:
	case GQ_CONNECTION_LINGER:
		return -1;
	}
	set_reading(connection);
	return 0;
}

void gq_connection_farewell(struct gq_connection *connection)
{
	if (connection->state == GQ_CONNECTION_IDLE)
		(void)begin_linger(connection);
}

void gq_connection_leave(struct gq_connection *connection, int64_t now)
{
	const struct gq_server_options *options = connection->shared->options;

	if (connection->state != GQ_CONNECTION_IDLE)
		return;
	int64_t since_ns = connection->deadline_ns - options->idle_timeout_ns;
	int64_t quiet_until_ns = deadline(since_ns, options->quiet_ns);
	if (quiet_until_ns < connection->deadline_ns)
		connection->deadline_ns = quiet_until_ns > now ? quiet_until_ns : now;
	(void)gq_connection_tick(connection, now); /* -1 is of other states only */
}

bool gq_connection_busy(const struct gq_connection *connection)
{
	return connection->state != GQ_CONNECTION_IDLE && connection->state != GQ_CONNECTION_DEAD;
}
