#include "controller/routing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "informer/backoff.h"
#include "quota/field.h"
#include "quota/object.h"

#define TIMEOUT_NS (2 * GQ_NS_PER_S)
#define RETRY_MIN_NS (100 * GQ_NS_PER_MS)
#define RETRY_MAX_NS (5 * GQ_NS_PER_S)
#define REFRESH_NS (30 * GQ_NS_PER_S)
#define PODS_MAX 100 /* of other pods with the label, looked at in one attempt */
#define LIST_MAX_BYTES (128u << 10)
#define PATH_MAX_BYTES 1024

#define LABEL_BODY(value) "{\"metadata\":{\"labels\":{\"" GQ_LEADER_LABEL "\":" value "}}}"

enum step {
	STEP_OWN,
	STEP_LIST,
	STEP_STRIP, /* the next of the names that were listed */
	STEP_BARRIER,
	STEPS,
};

struct gq_routing {
	struct gq_api *api;
	const struct gq_clock *clock;
	char *namespace_, *identity;
	bool has_name; /* identity can be a pod's */

	struct gq_lock lock; /* of what follows */
	bool wanted, take;   /* what was asked for last */
	uint64_t generation; /* how often something was asked for */
	int64_t due_ns;
	bool running; /* one request at most; whoever sets it owns the next group */
	struct gq_routing_status status;
	bool told[STEPS]; /* a failure of this kind, since it last went well */

	uint64_t begun; /* the generation that is worked on */
	enum step step;
	bool incomplete; /* something of this attempt failed */
	struct gq_backoff backoff;
	struct gq_buf names; /* each with a NUL behind it */
	size_t next_name;    /* offset */
	struct gq_buf path;
};

static const struct gq_json_keep name_keep[] = {{"name", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep item_keep[] = {{"metadata", name_keep}, GQ_JSON_KEEP_END};
#define pod_keep item_keep /* of a pod that was written, nothing is needed */
static const struct gq_json_keep continue_keep[] = {{"continue", NULL}, GQ_JSON_KEEP_END};
static const struct gq_json_keep list_keep[] = {
    {"metadata", continue_keep}, {"items", item_keep}, GQ_JSON_KEEP_END};

struct gq_routing *gq_routing_new(const struct gq_routing_options *options)
{
	struct gq_routing *routing;

	if (!gq_object_name_ok(options->namespace_) || !(routing = calloc(1, sizeof *routing)))
		return NULL;
	gq_lock_init(&routing->lock, GQ_RANK_LEAF);
	routing->api = options->api;
	routing->clock = options->clock ? options->clock : &gq_clock_real;
	routing->namespace_ = strdup(options->namespace_);
	routing->identity = strdup(options->identity);
	routing->has_name = gq_object_name_ok(options->identity);
	routing->names = GQ_BUF_INIT(LIST_MAX_BYTES);
	routing->path = GQ_BUF_INIT(PATH_MAX_BYTES);
	routing->backoff = (struct gq_backoff){
	    .min_ns = RETRY_MIN_NS, .max_ns = RETRY_MAX_NS, .random = (uint64_t)(uintptr_t)routing};
	if (!routing->namespace_ || !routing->identity) {
		gq_routing_free(routing);
		return NULL;
	}
	return routing;
}

void gq_routing_free(struct gq_routing *routing)
{
	if (!routing)
		return;
	gq_lock_done(&routing->lock);
	free(routing->namespace_);
	free(routing->identity);
	gq_buf_done(&routing->names);
	gq_buf_done(&routing->path);
	free(routing);
}

void gq_routing_status(struct gq_routing *routing, struct gq_routing_status *ret_status)
{
	gq_lock_take(&routing->lock);
	*ret_status = routing->status;
	gq_lock_release(&routing->lock);
}

/* With the lock. Returns whether a failure is to be logged: once, until it goes well again. */
static bool note(struct gq_routing *routing, enum step step, int code)
{
	bool first = code && !routing->told[step];

	routing->told[step] = code != 0;
	if (code) {
		routing->status.failures++;
		routing->status.code = code;
	}
	return first;
}

static void tell(enum step step, const char *problem)
{
	static const char *const what[STEPS] = {
	    [STEP_LIST] = "can't list the pods with the leader's label",
	    [STEP_STRIP] = "can't take the leader's label off another pod",
	    [STEP_OWN] = "can't write the leader's label of our own pod",
	    [STEP_BARRIER] = "can't write the barrier on our own pod",
	};

	gq_log(GQ_LOG_WARN, what[step], GQ_S("problem", problem));
}

/* ---- what comes next; all with the lock ---- */

static int read_names(struct gq_routing *routing, const char *body, size_t len)
{
	GQ_CLEANUP(gq_cleanup_json) struct json_object *root = NULL;
	struct gq_field top = {0}, metadata, items, item;
	const char *text;
	size_t n;

	gq_buf_reset(&routing->names);
	routing->next_name = 0;
	int code = gq_field_parse(body, len, &root, NULL);
	top.value = root;
	if (!code)
		code = gq_field_object(&top, "metadata", &metadata, NULL);
	if (!code)
		code = gq_field_peek(&metadata, "continue", &text, NULL);
	if (!code)
		code = gq_field_list(&top, "items", PODS_MAX, &items, &n, NULL);
	if (code)
		return code;
	routing->incomplete |= *text != '\0';
	for (size_t i = 0; i < n; i++) {
		code = gq_field_item(&items, i, &item, NULL);
		if (!code)
			code = gq_field_object(&item, "metadata", &metadata, NULL);
		if (!code)
			code = gq_field_peek(&metadata, "name", &text, NULL);
		if (code)
			return code;
		if (gq_object_name_ok(text) && strcmp(text, routing->identity) != 0)
			gq_buf_append(&routing->names, text, strlen(text) + 1);
	}
	return routing->names.code;
}

static void begin_attempt(struct gq_routing *routing)
{
	routing->begun = routing->generation;
	routing->step = STEP_OWN;
	routing->incomplete = false;
}

static void try_again(struct gq_routing *routing, int64_t now_ns)
{
	routing->due_ns = now_ns + gq_backoff_next(&routing->backoff, now_ns);
	begin_attempt(routing);
}

static void attempt_done(struct gq_routing *routing, int64_t now_ns)
{
	if (routing->incomplete) {
		try_again(routing, now_ns);
		return;
	}
	routing->status.settled = true;
	routing->backoff.steps = 0;
	routing->due_ns = now_ns + REFRESH_NS;
	begin_attempt(routing);
}

/* The step has ended with code. Returns whether that is to be logged. */
static bool step_done(struct gq_routing *routing, int64_t now_ns, int code, const char *body,
		      size_t len)
{
	enum step step = routing->step;

	if (step == STEP_LIST && !code)
		code = read_names(routing, body, len);
	if (step == STEP_OWN && (!code || code == GQ_ENOTFOUND)) {
		routing->status.no_pod = code == GQ_ENOTFOUND;
		routing->status.labelled = !code && routing->take;
	}
	if (step == STEP_STRIP)
		routing->next_name += strlen(routing->names.data + routing->next_name) + 1;
	/* a pod that is gone has no label */
	if (step != STEP_LIST && code == GQ_ENOTFOUND)
		code = 0;
	bool first = note(routing, step, code);
	if (code) {
		routing->incomplete = true;
		routing->status.settled = false;
	}
	if (code && step != STEP_STRIP)
		try_again(routing, now_ns);
	else if (step == STEP_OWN && routing->take)
		routing->step = STEP_LIST;
	else if (step != STEP_OWN && routing->next_name < routing->names.len)
		routing->step = STEP_STRIP;
	else
		attempt_done(routing, now_ns);
	return first;
}

/* ---- requests ---- */

/* Only whoever set running. */
static int print_path(struct gq_routing *routing)
{
	struct gq_buf *path = &routing->path;

	gq_buf_reset(path);
	gq_buf_printf(path, "/api/v1/namespaces/%s/pods", routing->namespace_);
	if (routing->step == STEP_LIST)
		/* no resourceVersion: the most recent state, whatever a cache has */
		return gq_buf_printf(path, "?labelSelector=gpuquota.io%%2Fleader%%3Dtrue&limit=%d",
				     PODS_MAX);
	return gq_buf_printf(path, "/%s",
			     routing->step == STEP_OWN ? routing->identity
						       : routing->names.data + routing->next_name);
}

static void on_answer(void *arg, const struct gq_api_response *response);

static int start(struct gq_routing *routing, bool take, struct gq_err *err)
{
	enum step step = routing->step;
	const char *body = step == STEP_OWN && take ? LABEL_BODY("\"true\"") : LABEL_BODY("null");
	struct gq_api_request request = {.method = "PATCH",
					 .max_bytes = LIST_MAX_BYTES,
					 .timeout_ns = TIMEOUT_NS,
					 .on_done = on_answer,
					 .arg = routing};

	if (step == STEP_OWN && !routing->has_name)
		return gq_fail(err, GQ_ENOTFOUND, "no pod has such a name");
	if (print_path(routing))
		return gq_fail(err, routing->path.code, "out of memory");
	request.path = routing->path.data;
	if (step == STEP_LIST) {
		request.method = "GET";
		request.keep = list_keep;
	} else {
		request.keep = pod_keep;
		request.content_type = "application/merge-patch+json";
		request.body = body;
		request.body_len = strlen(body);
	}
	return gq_api_start(routing->api, &request, err);
}

static void on_due(void *arg)
{
	gq_routing_tick(arg);
}

/* A request has ended, or could not be sent. Returns whether something is due now; if not, there is
 * a timer. */
static bool finish(struct gq_routing *routing, int code, const char *problem, const char *body,
		   size_t len)
{
	int64_t now_ns = gq_clock_mono_ns(routing->clock);
	bool first = false;

	gq_lock_take(&routing->lock);
	enum step step = routing->step;
	if (routing->begun == routing->generation)
		first = step_done(routing, now_ns, code, body, len);
	int64_t delay_ns = routing->due_ns - now_ns;
	routing->running = false;
	gq_lock_release(&routing->lock);
	if (first)
		tell(step, code ? problem : "the answer can't be read");
	if (delay_ns <= 0)
		return true;
	/* without a timer, there is gq_routing_tick() */
	(void)gq_api_after(routing->api, delay_ns, on_due, routing, NULL);
	return false;
}

static void on_answer(void *arg, const struct gq_api_response *response)
{
	if (finish(arg, response->code, response->error, response->body, response->len))
		gq_routing_tick(arg);
}

void gq_routing_tick(struct gq_routing *routing)
{
	struct gq_err err = {0};
	int code;

	do {
		int64_t now_ns = gq_clock_mono_ns(routing->clock);
		gq_lock_take(&routing->lock);
		bool begins = routing->wanted && !routing->running && now_ns >= routing->due_ns;
		if (begins && routing->begun != routing->generation) {
			routing->backoff.steps = 0;
			begin_attempt(routing);
		}
		routing->running |= begins;
		bool take = routing->take;
		gq_lock_release(&routing->lock);
		if (!begins)
			return;
		code = start(routing, take, &err);
	} while (code && finish(routing, code, err.msg, NULL, 0));
}

static void ask(struct gq_routing *routing, bool take)
{
	gq_lock_take(&routing->lock);
	routing->wanted = true;
	routing->take = take;
	routing->generation++;
	routing->due_ns = 0;
	routing->status.settled = false;
	gq_lock_release(&routing->lock);
	gq_routing_tick(routing);
}

void gq_routing_leave(struct gq_routing *routing)
{
	ask(routing, false);
}

void gq_routing_take(struct gq_routing *routing)
{
	ask(routing, true);
}

void gq_routing_rest(struct gq_routing *routing)
{
	gq_lock_take(&routing->lock);
	routing->wanted = false;
	routing->generation++;
	gq_lock_release(&routing->lock);
}

/* ---- the barrier ---- */

struct barrier {
	struct gq_routing *routing;
	void (*done)(void *arg, int code);
	void *arg;
};

/* Takes the barrier. */
static void barrier_end(struct barrier *barrier, int code, const char *problem)
{
	struct barrier ended = *barrier;

	free(barrier);
	gq_lock_take(&ended.routing->lock);
	bool first = note(ended.routing, STEP_BARRIER, code == GQ_ENOTFOUND ? 0 : code);
	gq_lock_release(&ended.routing->lock);
	if (first)
		tell(STEP_BARRIER, problem);
	ended.done(ended.arg, code);
}

static void on_barrier(void *arg, const struct gq_api_response *response)
{
	barrier_end(arg, response->code, response->error);
}

static int barrier_start(struct barrier *barrier, const char *nonce, struct gq_err *err)
{
	struct gq_routing *routing = barrier->routing;
	struct gq_buf path GQ_BUF_CLEANUP = GQ_BUF_INIT(PATH_MAX_BYTES);
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(PATH_MAX_BYTES);

	if (!routing->has_name)
		return gq_fail(err, GQ_ENOTFOUND, "no pod has such a name");
	gq_buf_printf(&path, "/api/v1/namespaces/%s/pods/%s", routing->namespace_,
		      routing->identity);
	gq_buf_puts(&body, "{\"metadata\":{\"annotations\":{\"" GQ_BARRIER_ANNOTATION "\":");
	gq_buf_json_string(&body, nonce, strlen(nonce));
	if (gq_buf_puts(&body, "}}}") || path.code)
		return gq_fail(err, path.code ? path.code : body.code, "can't write the request");
	const struct gq_api_request request = {.method = "PATCH",
					       .path = path.data,
					       .content_type = "application/merge-patch+json",
					       .body = body.data,
					       .body_len = body.len,
					       .keep = pod_keep,
					       .timeout_ns = TIMEOUT_NS,
					       .on_done = on_barrier,
					       .arg = barrier};
	return gq_api_start(routing->api, &request, err);
}

void gq_routing_barrier(struct gq_routing *routing, const char *nonce,
			void (*done)(void *arg, int code), void *arg)
{
	struct barrier *barrier = malloc(sizeof *barrier);
	struct gq_err err = {0};

	if (!barrier) {
		done(arg, GQ_ENOMEM);
		return;
	}
	*barrier = (struct barrier){.routing = routing, .done = done, .arg = arg};
	int code = barrier_start(barrier, nonce, &err);
	if (code)
		barrier_end(barrier, code, err.msg);
}
