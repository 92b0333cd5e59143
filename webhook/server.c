#include "webhook/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <libwebsockets.h>

#include "base/log.h"
#include "webhook/address.h"
#include "webhook/certificate.h"
#include "webhook/connection.h"
#include "webhook/listener.h"
#include "webhook/tls.h"

/* Metrics and probes must get through when the API server's side is full. */
#define METRICS_CONNECTIONS 64
/* Listeners, event and timer descriptors, libwebsockets' own. */
#define OWN_FDS 16
/* What the rest of the process may need. */
#define OTHER_FDS 64
#define SWEEP_NS (250 * GQ_NS_PER_MS)
/* libwebsockets' own timeouts are to stay out of the way of ours. */
#define LWS_TIMEOUT_S 86400
#define LWS_BUFFER_BYTES (32u << 10)

struct gq_server {
	struct gq_server_options options; /* its strings are ours */
	struct gq_connection_shared shared;
	struct gq_certificate *certificate;
	struct lws_context *context;
	struct lws_dll2_owner connections;
	struct gq_listener https, metrics;
	int timer_fd;
	bool timer_armed;
	int64_t sweep_ns;
	int64_t drain_since_ns; /* 0: not draining */
	bool finished;
	atomic_bool drain_wanted, close_idle_wanted;
	atomic_int_fast64_t drain_max_ns;
	atomic_uint_fast64_t connections_open, tls_failures, turns;
};

static struct gq_server *server_of(struct lws *wsi)
{
	return lws_context_user(lws_get_context(wsi));
}

static void kill_connection(struct gq_connection *connection)
{
	connection->state = GQ_CONNECTION_DEAD;
	/* not now: the caller may be walking a list, or inside one of its callbacks */
	lws_set_timeout(connection->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

static void arm_timer(struct gq_server *server, bool on)
{
	int64_t ns = on ? server->sweep_ns : 0;
	struct itimerspec when = {
	    .it_interval = {.tv_sec = ns / GQ_NS_PER_S, .tv_nsec = ns % GQ_NS_PER_S},
	};

	if (on == server->timer_armed)
		return;
	when.it_value = when.it_interval;
	if (timerfd_settime(server->timer_fd, 0, &when, NULL) == 0)
		server->timer_armed = on;
}

static int on_open(struct lws *wsi, struct gq_connection *connection)
{
	struct gq_server *server = server_of(wsi);
	struct gq_listener *listener = lws_get_opaque_user_data(wsi);

	if (gq_connection_open(connection, wsi, listener->metrics, &server->shared,
			       gq_clock_mono_ns(&gq_clock_real)))
		return -1;
	lws_dll2_add_tail(&connection->list, &server->connections);
	gq_listener_opened(listener);
	atomic_fetch_add_explicit(&server->connections_open, 1, memory_order_relaxed);
	arm_timer(server, true);
	return 0;
}

static void on_close(struct lws *wsi, struct gq_connection *connection)
{
	struct gq_server *server = server_of(wsi);

	/* libwebsockets starts the handshake before it tells of the connection, so one that fails
	 * at once is never opened; and the SSL is gone by the second call */
	if (gq_tls_failed(lws_get_ssl(wsi)))
		atomic_fetch_add_explicit(&server->tls_failures, 1, memory_order_relaxed);
	if (!connection || !gq_connection_close(connection))
		return;
	lws_dll2_remove(&connection->list);
	gq_listener_closed(lws_get_opaque_user_data(wsi));
	atomic_fetch_sub_explicit(&server->connections_open, 1, memory_order_relaxed);
}

static int connection_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user,
			       void *in, size_t len)
{
	struct gq_connection *connection = user;

	switch ((int)reason) {
	case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS:
		/* user is the SSL_CTX here */
		return gq_tls_configure(user, server_of(wsi)->certificate);
	case LWS_CALLBACK_RAW_ADOPT: /* accepted; the handshake is still to come */
		return on_open(wsi, connection);
	case LWS_CALLBACK_RAW_RX:
		gq_work_awake(server_of(wsi)->shared.work);
		if (!connection->wsi || connection->state == GQ_CONNECTION_DEAD)
			return -1;
		return gq_connection_received(connection, in, len);
	case LWS_CALLBACK_RAW_WRITEABLE:
		if (!connection->wsi || connection->state == GQ_CONNECTION_DEAD)
			return 0;
		return gq_connection_writable(connection);
	case LWS_CALLBACK_RAW_CLOSE:
	case LWS_CALLBACK_WSI_DESTROY: /* the one that always comes */
		on_close(wsi, connection);
		return 0;
	default:
		return 0;
	}
}

static int listener_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user,
			     void *in, size_t len)
{
	(void)user;
	(void)in;
	(void)len;
	if (reason == LWS_CALLBACK_RAW_RX_FILE)
		gq_listener_accept(lws_get_opaque_user_data(wsi));
	return 0;
}

/* The event and the timer descriptor; what they stand for is done by gq_server_run(). */
static int wake_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
			 size_t len)
{
	uint64_t count;

	(void)user;
	(void)in;
	(void)len;
	if (reason == LWS_CALLBACK_RAW_RX_FILE &&
	    read(lws_get_socket_fd(wsi), &count, sizeof count) < 0 && errno != EAGAIN)
		gq_log(GQ_LOG_ERROR, "cannot read a wake-up", GQ_S("error", strerror(errno)));
	return 0;
}

static const struct lws_protocols protocols[] = {
    {.name = "gpuquota",
     .callback = connection_callback,
     .per_session_data_size = sizeof(struct gq_connection)},
    {.name = "gpuquota-listener", .callback = listener_callback},
    {.name = "gpuquota-wake", .callback = wake_callback},
    {.name = NULL},
};

/* libwebsockets' warnings and errors, in our format. */
static void log_line(int level, const char *line)
{
	char text[512];
	size_t len = strcspn(line, "\r\n");

	if (len >= sizeof text)
		len = sizeof text - 1;
	memcpy(text, line, len);
	text[len] = '\0';
	const char *message = text;
	gq_log(level == LLL_ERR ? GQ_LOG_ERROR : GQ_LOG_WARN, "libwebsockets",
	       GQ_S("text", message));
}

static void sweep(struct gq_server *server, int64_t now)
{
	bool any = false;

	lws_start_foreach_dll_safe(struct lws_dll2 *, at, next, server->connections.head)
	{
		struct gq_connection *connection = lws_container_of(at, struct gq_connection, list);
		any = true;
		if (connection->state != GQ_CONNECTION_DEAD && gq_connection_tick(connection, now))
			kill_connection(connection);
	}
	lws_end_foreach_dll_safe(at, next);
	gq_listener_retry(&server->https);
	gq_listener_retry(&server->metrics);
	if (!any && !server->drain_since_ns)
		arm_timer(server, false);
}

static void collect(struct gq_server *server)
{
	struct gq_request *request, *next;

	while ((request = gq_work_collect(server->shared.work))) {
		for (; request; request = next) {
			struct gq_connection *connection = request->connection;
			next = request->next;
			if (!connection) {
				atomic_fetch_sub_explicit(&server->shared.in_flight, 1,
							  memory_order_relaxed);
				gq_connection_give_request(&server->shared, request);
			} else if (connection->state != GQ_CONNECTION_DEAD &&
				   gq_connection_answered(connection)) {
				kill_connection(connection);
			}
		}
	}
}

static bool busy(const struct gq_server *server)
{
	lws_start_foreach_dll(struct lws_dll2 *, at, server->connections.head)
	{
		if (gq_connection_busy(lws_container_of(at, struct gq_connection, list)))
			return true;
	}
	lws_end_foreach_dll(at);
	return false;
}

static void drain(struct gq_server *server, int64_t now)
{
	if (!server->drain_since_ns) {
		if (!atomic_load(&server->drain_wanted))
			return;
		server->drain_since_ns = now;
		arm_timer(server, true);
	}
	int64_t elapsed = now - server->drain_since_ns;
	if (elapsed >= atomic_load(&server->drain_max_ns) ||
	    (elapsed >= server->options.drain_min_ns && !busy(server)))
		server->finished = true;
}

static void leave(struct gq_connection *connection, int64_t now)
{
	if (connection->metrics || connection->state == GQ_CONNECTION_DEAD)
		return;
	/* the tick notices that a handshake is over */
	if (gq_connection_tick(connection, now))
		kill_connection(connection);
	else
		gq_connection_leave(connection, now);
}

static void close_idle(struct gq_server *server, int64_t now)
{
	if (!atomic_exchange(&server->close_idle_wanted, false))
		return;
	lws_start_foreach_dll_safe(struct lws_dll2 *, at, next, server->connections.head)
	{
		leave(lws_container_of(at, struct gq_connection, list), now);
	}
	lws_end_foreach_dll_safe(at, next);
}

int gq_server_run(struct gq_server *server, struct gq_err *err)
{
	int64_t swept = 0;
	int code = gq_work_start(server->shared.work, server->options.workers, err);

	while (!code && !server->finished) {
		int64_t now = gq_clock_mono_ns(&gq_clock_real);
		if (now - swept >= server->sweep_ns / 2) {
			sweep(server, now);
			swept = now;
		}
		drain(server, now);
		close_idle(server, now);
		/* last before sleeping: from here on an answer writes to the event descriptor */
		collect(server);
		if (server->finished)
			break;
		if (lws_service(server->context, 0) < 0)
			code = gq_fail(err, GQ_EIO, "the event loop failed");
		/* before the answer to anything read in it goes out, so who has one finds it
		 * counted */
		atomic_fetch_add_explicit(&server->turns, 1, memory_order_relaxed);
	}
	gq_work_stop(server->shared.work);
	lws_start_foreach_dll(struct lws_dll2 *, at, server->connections.head)
	{
		gq_connection_farewell(lws_container_of(at, struct gq_connection, list));
	}
	lws_end_foreach_dll(at);
	return code;
}

void gq_server_drain(struct gq_server *server, int64_t max_ns)
{
	atomic_store(&server->drain_max_ns, max_ns);
	gq_work_set_draining(server->shared.work);
	atomic_store(&server->drain_wanted, true);
	gq_work_wake(server->shared.work);
}

void gq_server_close_idle(struct gq_server *server)
{
	atomic_store(&server->close_idle_wanted, true);
	gq_work_wake(server->shared.work);
}

int gq_server_reload_certificate(struct gq_server *server, struct gq_err *err)
{
	return gq_certificate_load(server->certificate, server->options.tls_cert,
				   server->options.tls_key, err);
}

void gq_server_ports(const struct gq_server *server, unsigned *ret_port, unsigned *ret_metrics)
{
	*ret_port = server->https.port;
	if (ret_metrics)
		*ret_metrics = server->metrics.port;
}

void gq_server_stats(const struct gq_server *server, struct gq_server_stats *ret_stats)
{
	struct gq_server_stats stats = {
	    .connections_open = atomic_load(&server->connections_open),
	    .connections_total =
		atomic_load(&server->https.accepted) + atomic_load(&server->metrics.accepted),
	    .requests_in_flight = atomic_load(&server->shared.in_flight),
	    .tls_failures_total = atomic_load(&server->tls_failures),
	    .loop_turns_total = atomic_load(&server->turns),
	    .certificate_not_after_s = gq_certificate_not_after_s(server->certificate),
	};

	for (unsigned i = 0; i < sizeof stats.responses_total / sizeof stats.responses_total[0];
	     i++)
		stats.responses_total[i] = atomic_load(&server->shared.responses[i]);
	*ret_stats = stats;
}

static int copy_options(struct gq_server *server, const struct gq_server_options *given,
			struct gq_err *err)
{
	struct gq_server_options *own = &server->options;
	struct rlimit limit;

	*own = *given;
	own->listen = own->metrics_listen = own->tls_cert = own->tls_key = NULL;
	if (!given->listen || !given->tls_cert || !given->tls_key || !given->handle ||
	    (given->metrics_listen && !given->handle_metrics))
		return gq_fail(err, GQ_EINVALID,
			       "a server needs an address, a certificate, a key "
			       "and handlers");
	own->listen = strdup(given->listen);
	own->tls_cert = strdup(given->tls_cert);
	own->tls_key = strdup(given->tls_key);
	own->metrics_listen = given->metrics_listen ? strdup(given->metrics_listen) : NULL;
	if (!own->listen || !own->tls_cert || !own->tls_key ||
	    (given->metrics_listen && !own->metrics_listen))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	own->workers = own->workers ? own->workers : 2;
	own->max_connections = own->max_connections ? own->max_connections : 1000;
	own->max_body_bytes = own->max_body_bytes ? own->max_body_bytes : 8u << 20;
	own->max_bytes_in_flight = own->max_bytes_in_flight ? own->max_bytes_in_flight : 256u << 20;
	own->quiet_ns = own->quiet_ns ? own->quiet_ns : 500 * GQ_NS_PER_MS;
	own->idle_timeout_ns = own->idle_timeout_ns ? own->idle_timeout_ns : 120 * GQ_NS_PER_S;
	own->head_timeout_ns = own->head_timeout_ns ? own->head_timeout_ns : 10 * GQ_NS_PER_S;
	own->body_timeout_ns = own->body_timeout_ns ? own->body_timeout_ns : 10 * GQ_NS_PER_S;

	/* libwebsockets spins and floods the log on EMFILE, so there is to be none */
	rlim_t reserved = METRICS_CONNECTIONS + OWN_FDS + OTHER_FDS;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		if (limit.rlim_cur <= reserved)
			return gq_fail(err, GQ_EINVALID,
				       "the limit of open files is %ju: at least "
				       "%ju are needed",
				       (uintmax_t)limit.rlim_cur, (uintmax_t)reserved + 1);
		if (own->max_connections > limit.rlim_cur - reserved)
			own->max_connections = (unsigned)(limit.rlim_cur - reserved);
	}
	return 0;
}

/* Four sweeps in the shortest of the timeouts, so that short ones are kept too. */
static int64_t sweep_interval(const struct gq_server_options *options)
{
	int64_t shortest = options->head_timeout_ns;

	if (options->body_timeout_ns < shortest)
		shortest = options->body_timeout_ns;
	if (options->idle_timeout_ns < shortest)
		shortest = options->idle_timeout_ns;
	int64_t interval = shortest / 4;
	if (interval < 5 * GQ_NS_PER_MS)
		interval = 5 * GQ_NS_PER_MS;
	return interval < SWEEP_NS ? interval : SWEEP_NS;
}

static struct lws_vhost *new_vhost(struct gq_server *server, const char *name, bool tls)
{
	struct lws_context_creation_info info = {
	    .port = CONTEXT_PORT_NO_LISTEN_SERVER, /* the listeners are our own */
	    .vhost_name = name,
	    .protocols = protocols,
	    /* the default offers h2, and a client that takes it would change the role of its raw
	     * connection */
	    .alpn = "http/1.1",
	    .timeout_secs = LWS_TIMEOUT_S,
	    .options =
		LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS |
		(tls ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX
		     : 0),
	};

	return lws_create_vhost(server->context, &info);
}

static struct lws *adopt_file(struct lws_vhost *vhost, int fd, const char *protocol, void *opaque)
{
	struct lws *wsi = lws_adopt_descriptor_vhost_via_info(&(lws_adopt_desc_t){
	    .vh = vhost,
	    .type = LWS_ADOPT_RAW_FILE_DESC,
	    .fd = {.filefd = fd},
	    .vh_prot_name = protocol,
	    .opaque = opaque,
	});

	if (!wsi)
		close(fd);
	return wsi;
}

static int start_lws(struct gq_server *server, struct gq_err *err)
{
	struct lws_context_creation_info info = {
	    .port = CONTEXT_PORT_NO_LISTEN,
	    .user = server,
	    .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT |
		       LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS,
	    .fd_limit_per_thread = server->options.max_connections + METRICS_CONNECTIONS + OWN_FDS,
	    .pt_serv_buf_size = LWS_BUFFER_BYTES,
	    .timeout_secs = LWS_TIMEOUT_S,
	};

	lws_set_log_level(LLL_ERR | LLL_WARN, log_line);
	server->context = lws_create_context(&info);
	if (!server->context)
		return gq_fail(err, GQ_ENOMEM, "libwebsockets did not start");
	server->https.vhost = new_vhost(server, "https", true);
	server->metrics.vhost = new_vhost(server, "metrics", false);
	if (!server->https.vhost || !server->metrics.vhost)
		return gq_fail(err, GQ_ENOMEM, "libwebsockets did not take the TLS setup");

	/* libwebsockets closes what it adopted; the other end of the event descriptor must live on
	 * for late answers */
	int event_fd = fcntl(gq_work_event_fd(server->shared.work), F_DUPFD_CLOEXEC, 0);
	bool ok =
	    event_fd >= 0 && adopt_file(server->metrics.vhost, event_fd, "gpuquota-wake", NULL);
	server->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	ok = server->timer_fd >= 0 &&
	     adopt_file(server->metrics.vhost, server->timer_fd, "gpuquota-wake", NULL) && ok;
	for (int i = 0; i < 2 && ok; i++) {
		struct gq_listener *listener = i ? &server->metrics : &server->https;
		if (listener->fd < 0)
			continue;
		int fd = listener->fd;
		listener->fd = -1;
		listener->wsi = adopt_file(listener->vhost, fd, "gpuquota-listener", listener);
		ok = listener->wsi != NULL;
	}
	return ok ? 0 : gq_fail(err, GQ_ENOMEM, "libwebsockets did not take a descriptor");
}

int gq_server_new(const struct gq_server_options *options, struct gq_server **ret_server,
		  struct gq_err *err)
{
	struct gq_server *server GQ_CLEANUP(gq_cleanup_server) = calloc(1, sizeof *server);

	if (!server)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	server->https.fd = server->metrics.fd = -1;
	int code = copy_options(server, options, err);
	if (code)
		return code;
	server->sweep_ns = sweep_interval(&server->options);
	server->https.max = server->options.max_connections;
	server->metrics.max = METRICS_CONNECTIONS;
	server->metrics.metrics = true;
	server->shared.options = &server->options;
	server->shared.work = gq_work_new(&(struct gq_work_options){
	    .max_body_bytes = server->options.max_body_bytes,
	    .max_bytes_in_flight = server->options.max_bytes_in_flight,
	});
	server->certificate = gq_certificate_new();
	if (!server->shared.work || !server->certificate)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	code = gq_server_reload_certificate(server, err);
	if (!code)
		code = gq_address_listen(server->options.listen, &server->https.fd,
					 &server->https.port, err);
	if (!code && server->options.metrics_listen)
		code = gq_address_listen(server->options.metrics_listen, &server->metrics.fd,
					 &server->metrics.port, err);
	if (!code)
		code = start_lws(server, err);
	if (code)
		return code;
	*ret_server = GQ_STEAL(server);
	return 0;
}

void gq_server_free(struct gq_server *server)
{
	if (!server)
		return;
	server->https.wsi = server->metrics.wsi = NULL; /* they go in no particular order */
	/* closes every connection, so that no request knows one any more */
	if (server->context)
		lws_context_destroy(server->context);
	if (server->https.fd >= 0)
		close(server->https.fd);
	if (server->metrics.fd >= 0)
		close(server->metrics.fd);
	while (server->shared.spare) {
		struct gq_request *request = server->shared.spare;
		server->shared.spare = request->next;
		gq_request_free(request);
	}
	if (server->shared.work)
		gq_work_close(server->shared.work);
	gq_work_unref(server->shared.work);
	gq_certificate_free(server->certificate);
	free((char *)server->options.listen);
	free((char *)server->options.metrics_listen);
	free((char *)server->options.tls_cert);
	free((char *)server->options.tls_key);
	free(server);
}
