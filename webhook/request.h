#ifndef GQ_WEBHOOK_REQUEST_H
#define GQ_WEBHOOK_REQUEST_H

#include <stdatomic.h>

#include "base/buf.h"
#include "webhook/http.h"
#include "webhook/server.h"
#include "webhook/work.h"

/* Bytes in front of the answer that belong to libwebsockets (LWS_PRE). */
#define GQ_ANSWER_PRE 16

/* One request on its way: filled by the loop, then the handler's until the answer, then the loop's
 * again. The accessors of it are in server.h. */
struct gq_request {
	struct gq_request *next; /* in whichever list has it */
	struct gq_work *work;    /* a reference */
	void *connection;        /* loop only; NULL: orphaned */
	atomic_bool orphaned;    /* the same, for workers */
	bool ran;                /* the handler has seen it */
	void (*handle)(void *arg, struct gq_request *request);
	void *handle_arg;
	int64_t received_ns;
	int64_t due_ns; /* among the delayed */

	const char *method;
	struct gq_buf strings; /* path and query, each with its NUL */
	size_t query_at;
	char *body;
	size_t body_len, body_cap;
	uint64_t body_expected; /* Content-Length */
	bool keep_alive;        /* as the client wants it */
	void *state;
	void (*free_state)(void *state);

	struct gq_buf answer; /* GQ_ANSWER_PRE bytes, then head and body as they are sent */
	int status;
	bool close; /* the answer says so */
};

/* NULL when out of memory. Small answers need no memory later. */
struct gq_request *gq_request_new(struct gq_work *work);
void gq_request_free(struct gq_request *request);
/* Ready for the next message; keeps small buffers. */
void gq_request_reset(struct gq_request *request);

/* Takes over what the head says. 0, or the status to refuse with. */
int gq_request_take_head(struct gq_request *request, const struct gq_http_head *head,
			 int64_t now_ns);
/* The same for a piece of the body. */
int gq_request_take_body(struct gq_request *request, const char *bytes, size_t len);

/* Fills request->answer. Out of memory: request->answer.code. */
void gq_request_render(struct gq_request *request, const struct gq_answer *answer);
/* The same for a refusal by the server itself: the status and its reason as text. */
void gq_request_refuse(struct gq_request *request, int status, bool close);

#endif
