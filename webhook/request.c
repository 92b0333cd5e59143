#include "webhook/request.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Strings come from a head that has a cap of its own; this is for the three NULs. */
#define STRINGS_MAX (1u << 20)
#define HEAD_ROOM 512 /* status line and header fields of an answer */
#define FIRST_ANSWER 4096
/* A body is believed this far ahead of its bytes; further memory comes with them. */
#define TRUSTED_BODY (64u << 10)
/* Larger buffers are not kept for the next message. */
#define KEEP_BYTES (16u << 10)

struct gq_request *gq_request_new(struct gq_work *work)
{
	struct gq_request *request = calloc(1, sizeof *request);

	if (!request)
		return NULL;
	request->strings = GQ_BUF_INIT(STRINGS_MAX);
	request->answer = GQ_BUF_INIT(INT_MAX - 1);
	if (gq_buf_reserve(&request->answer, FIRST_ANSWER)) {
		free(request);
		return NULL;
	}
	request->method = "";
	request->work = gq_work_ref(work);
	atomic_init(&request->orphaned, false);
	return request;
}

static void drop_state(struct gq_request *request)
{
	void *state = request->state;

	request->state = NULL;
	if (state && request->free_state)
		request->free_state(state);
}

static void drop_body(struct gq_request *request)
{
	gq_work_give_bytes(request->work, request->body_cap);
	free(request->body);
	request->body = NULL;
	request->body_len = request->body_cap = 0;
}

void gq_request_free(struct gq_request *request)
{
	if (!request)
		return;
	drop_state(request);
	drop_body(request);
	gq_buf_done(&request->strings);
	gq_buf_done(&request->answer);
	gq_work_unref(request->work);
	free(request);
}

static void empty(struct gq_buf *buf)
{
	if (buf->cap > KEEP_BYTES)
		gq_buf_done(buf);
	gq_buf_reset(buf);
}

void gq_request_reset(struct gq_request *request)
{
	drop_state(request);
	drop_body(request);
	empty(&request->strings);
	empty(&request->answer);
	request->next = NULL;
	request->connection = NULL;
	atomic_store_explicit(&request->orphaned, false, memory_order_relaxed);
	request->ran = request->keep_alive = request->close = false;
	request->handle = NULL;
	request->free_state = NULL;
	request->method = "";
	request->status = 0;
	request->body_expected = 0;
}

int gq_request_take_head(struct gq_request *request, const struct gq_http_head *head,
			 int64_t now_ns)
{
	struct gq_buf *strings = &request->strings;

	request->received_ns = now_ns;
	request->method = head->method;
	request->body_expected = head->content_length;
	gq_buf_reset(strings);
	gq_buf_append(strings, head->path, strlen(head->path) + 1);
	request->query_at = strings->len;
	gq_buf_append(strings, head->query, strlen(head->query) + 1);
	if (strings->code)
		return 503;
	return gq_work_has_room(request->work, (size_t)head->content_length) ? 0 : 503;
}

/* Room for len more bytes and a NUL. */
static int grow_body(struct gq_request *request, size_t len)
{
	size_t need = request->body_len + len + 1;
	size_t expected = (size_t)request->body_expected + 1;
	size_t cap = request->body_cap * 2;

	if (need <= request->body_cap)
		return 0;
	if (cap < TRUSTED_BODY)
		cap = TRUSTED_BODY;
	if (expected > 1 && cap > expected)
		cap = expected;
	if (expected == 1 && request->body_cap == 0)
		cap = 4096; /* chunked: no idea yet */
	if (cap > gq_work_max_body_bytes(request->work) + 1)
		cap = gq_work_max_body_bytes(request->work) + 1;
	if (cap < need)
		cap = need;
	if (!gq_work_take_bytes(request->work, cap - request->body_cap))
		return 503;
	char *body = realloc(request->body, cap);
	if (!body) {
		gq_work_give_bytes(request->work, cap - request->body_cap);
		return 503;
	}
	request->body = body;
	request->body_cap = cap;
	return 0;
}

int gq_request_take_body(struct gq_request *request, const char *bytes, size_t len)
{
	int status = grow_body(request, len);

	if (status)
		return status;
	memcpy(request->body + request->body_len, bytes, len);
	request->body_len += len;
	request->body[request->body_len] = '\0';
	return 0;
}

void gq_request_render(struct gq_request *request, const struct gq_answer *answer)
{
	static const char pre[GQ_ANSWER_PRE];
	struct gq_buf *out = &request->answer;
	char head[HEAD_ROOM], retry[48] = "";
	int status = answer->status >= 200 && answer->status <= 599 ? answer->status : 500;

	request->status = status;
	request->close = answer->close || !request->keep_alive || gq_work_draining(request->work);
	if (answer->retry_after_s > 0)
		(void)snprintf(retry, sizeof retry, "Retry-After: %d\r\n", answer->retry_after_s);
	int n = snprintf(head, sizeof head,
			 "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s\r\n",
			 status, gq_http_reason(status),
			 answer->content_type ? answer->content_type : "text/plain; charset=utf-8",
			 answer->len, retry, request->close ? "Connection: close\r\n" : "");
	gq_buf_reset(out);
	if (n < 0 || (size_t)n >= sizeof head) {
		out->code = GQ_ETOOBIG; /* only a content type of ours can be that long */
		return;
	}
	/* HEAD announces a body and sends none */
	size_t body = strcmp(request->method, "HEAD") == 0 ? 0 : answer->len;
	gq_buf_reserve(out, GQ_ANSWER_PRE + (size_t)n + body);
	gq_buf_append(out, pre, sizeof pre);
	gq_buf_append(out, head, (size_t)n);
	gq_buf_append(out, answer->body, body);
}

void gq_request_refuse(struct gq_request *request, int status, bool close)
{
	char text[64];
	int n = snprintf(text, sizeof text, "%d %s\n", status, gq_http_reason(status));

	gq_request_render(request, &(struct gq_answer){
				       .status = status,
				       .body = text,
				       .len = n > 0 ? (size_t)n : 0,
				       .retry_after_s = status == 503 ? 1 : 0,
				       .close = close,
				   });
}

void gq_request_answer(struct gq_request *request, const struct gq_answer *answer)
{
	gq_request_render(request, answer);
	if (request->answer.code)
		gq_request_refuse(request, 503, true); /* fits the buffer that there is */
	/* here, on the handler's thread, rather than on the loop */
	drop_state(request);
	drop_body(request);
	gq_work_finish(request->work, request);
}

void gq_request_retry(struct gq_request *request, int64_t delay_ns)
{
	int64_t now = gq_clock_mono_ns(&gq_clock_real);

	if (delay_ns < 0)
		delay_ns = 0;
	gq_work_delay(request->work, request,
		      delay_ns > INT64_MAX - now ? INT64_MAX : now + delay_ns);
}

bool gq_request_orphaned(const struct gq_request *request)
{
	return atomic_load_explicit(&request->orphaned, memory_order_relaxed);
}

const char *gq_request_path(const struct gq_request *request)
{
	return request->strings.data;
}

const char *gq_request_query(const struct gq_request *request)
{
	return request->strings.data + request->query_at;
}

const char *gq_request_body(const struct gq_request *request, size_t *ret_len)
{
	*ret_len = request->body_len;
	return request->body ? request->body : "";
}

int64_t gq_request_received_ns(const struct gq_request *request)
{
	return request->received_ns;
}

void gq_request_set_state(struct gq_request *request, void *state, void (*free_fn)(void *state))
{
	request->state = state;
	request->free_state = free_fn;
}

void *gq_request_state(const struct gq_request *request)
{
	return request->state;
}
