#include "webhook/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

/* Connections accepted before others get their turn. */
#define BATCH 32

static void set_paused(struct gq_listener *listener, bool paused)
{
	if (listener->paused == paused || !listener->wsi)
		return;
	listener->paused = paused;
	lws_rx_flow_control(listener->wsi, !paused);
}

/* A peer that is gone without a word is noticed after a minute. */
static void set_options(int fd)
{
	int on = 1, idle_s = 30, interval_s = 10, count = 3;
	unsigned unacknowledged_ms = 30000;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
			 sizeof unacknowledged_ms);
}

void gq_listener_accept(struct gq_listener *listener)
{
	for (unsigned i = 0; i < BATCH && listener->open < listener->max; i++) {
		int fd = accept4(lws_get_socket_fd(listener->wsi), NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0) {
			if (errno != EAGAIN) {
				gq_log(GQ_LOG_ERROR, "cannot accept a connection",
				       GQ_S("error", strerror(errno)));
				set_paused(listener, true);
			}
			return;
		}
		atomic_fetch_add_explicit(&listener->accepted, 1, memory_order_relaxed);
		set_options(fd);
		/* closes the descriptor when it fails; the connection is counted by its callback */
		(void)lws_adopt_descriptor_vhost_via_info(&(lws_adopt_desc_t){
		    .vh = listener->vhost,
		    .type = LWS_ADOPT_SOCKET | LWS_ADOPT_ALLOW_SSL,
		    .fd = {.sockfd = fd},
		    .vh_prot_name = "gpuquota",
		    .opaque = listener,
		});
	}
	if (listener->open >= listener->max)
		set_paused(listener, true);
}

void gq_listener_opened(struct gq_listener *listener)
{
	listener->open++;
}

void gq_listener_closed(struct gq_listener *listener)
{
	listener->open--;
	set_paused(listener, false);
}

void gq_listener_retry(struct gq_listener *listener)
{
	if (listener->open < listener->max)
		set_paused(listener, false);
}
