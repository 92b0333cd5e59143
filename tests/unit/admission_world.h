#ifndef GQ_TESTS_UNIT_ADMISSION_WORLD_H
#define GQ_TESTS_UNIT_ADMISSION_WORLD_H

/* The webhook's decisions with everything around them played by the test: the server's requests,
 * the reads of the API server, the commits of the store. Include after <cmocka.h>, in one file of
 * the program only: it defines the functions of webhook/server.h that decisions call. */

#include "tests/unit/app_testing.h"
#include "webhook/admission.h"

struct gq_request {
	const char *path, *query;
	char *body;
	size_t len;
	int64_t received_ns;
	void *state;
	void (*free_state)(void *state);
	bool retry; /* to be handled again, in delay_ns */
	int64_t delay_ns;
	unsigned retries;
	bool orphaned;
	unsigned answers;
	struct gq_answer answer;
	char answer_body[128u << 10];
};

const char *gq_request_path(const struct gq_request *request)
{
	return request->path;
}

const char *gq_request_query(const struct gq_request *request)
{
	return request->query;
}

const char *gq_request_body(const struct gq_request *request, size_t *ret_len)
{
	*ret_len = request->len;
	return request->body;
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

bool gq_request_orphaned(const struct gq_request *request)
{
	return request->orphaned;
}

void gq_request_retry(struct gq_request *request, int64_t delay_ns)
{
	assert_false(request->retry);
	assert_int_equal(request->answers, 0);
	request->retry = true;
	request->delay_ns = delay_ns;
	request->retries++;
}

static inline void request_drop_state(struct gq_request *request)
{
	if (request->state)
		request->free_state(request->state);
	request->state = NULL;
}

/* The server frees the handler's state with the answer; so does this. */
void gq_request_answer(struct gq_request *request, const struct gq_answer *answer)
{
	assert_false(request->retry);
	assert_int_equal(request->answers, 0);
	assert_true(answer->len < sizeof request->answer_body);
	request->answers++;
	request->answer = *answer;
	memcpy(request->answer_body, answer->body, answer->len);
	request->answer_body[answer->len] = '\0';
	request_drop_state(request);
}

#define WORLD_CALLS_MAX 64

struct world {
	struct app_clock clock;
	struct gq_ledger *ledger;
	struct gq_admission *admission;
	struct world_read {
		struct gq_read *read;
		char path[640];
		int64_t timeout_ns;
		void (*done)(void *done_arg);
		void *done_arg;
	} reads[WORLD_CALLS_MAX];
	size_t n_reads;
	int (*read_at_once)(struct gq_read *read); /* answers reads before read() returns */
	struct {
		uint64_t ticket;
		void (*done)(void *done_arg, int code);
		void *done_arg;
	} commits[WORLD_CALLS_MAX];
	size_t n_commits;
	bool hold_commits;
	int commit_code;
};

static inline void world_finish_read(struct world *world, size_t i, int code, const char *json)
{
	struct world_read *r = &world->reads[i];

	r->read->code = code;
	if (!code && json) {
		r->read->body = json_of(json);
		r->read->len = strlen(json);
	}
	r->done(r->done_arg);
}

static inline void world_read(void *arg, struct gq_read *read, int64_t timeout_ns,
			      void (*done)(void *done_arg), void *done_arg)
{
	struct world *world = arg;

	assert_true(world->n_reads < WORLD_CALLS_MAX);
	assert_false(read->done);
	struct world_read *r = &world->reads[world->n_reads++];
	*r = (struct world_read){
	    .read = read, .timeout_ns = timeout_ns, .done = done, .done_arg = done_arg};
	memcpy(r->path, read->path, sizeof r->path);
	if (world->read_at_once) {
		read->code = world->read_at_once(read);
		done(done_arg);
	}
}

/* Releases the i-th commit that is held. */
static inline void world_finish_commit(struct world *world, size_t i, int code)
{
	if (code)
		gq_ledger_abort(world->ledger, world->commits[i].ticket, world->clock.mono_ns);
	else
		gq_ledger_commit(world->ledger, world->commits[i].ticket, world->clock.mono_ns);
	world->commits[i].done(world->commits[i].done_arg, code);
}

static inline void world_commit(void *arg, uint64_t ticket, int64_t deadline_ns,
				void (*done)(void *done_arg, int code), void *done_arg)
{
	struct world *world = arg;

	assert_true(deadline_ns > world->clock.mono_ns);
	assert_true(ticket != 0 && world->n_commits < WORLD_CALLS_MAX);
	size_t i = world->n_commits++;
	world->commits[i].ticket = ticket;
	world->commits[i].done = done;
	world->commits[i].done_arg = done_arg;
	if (!world->hold_commits)
		world_finish_commit(world, i, world->commit_code);
}

/* ledger: now the world's. */
static inline void world_init(struct world *world, struct gq_ledger *ledger)
{
	*world = (struct world){.ledger = ledger};
	app_clock_init(&world->clock);
	world->admission =
	    gq_admission_new(&(struct gq_admission_options){.ledger = ledger,
							    .clock = &world->clock.clock,
							    .policy_namespace = "gpuquota-system",
							    .policy_name = "gpuquota-policy",
							    .read = world_read,
							    .commit = world_commit,
							    .arg = world});
	assert_non_null(world->admission);
}

static inline void world_done(struct world *world)
{
	gq_admission_free(world->admission);
	gq_ledger_free(world->ledger);
}

/* ---- requests ---- */

static inline struct gq_request *request_new(struct world *world, const char *path,
					     const char *query, const char *body, size_t len)
{
	struct gq_request *request = calloc(1, sizeof *request);

	assert_non_null(request);
	request->path = path;
	request->query = query;
	request->body = malloc(len ? len : 1);
	assert_non_null(request->body);
	memcpy(request->body, body, len);
	request->len = len;
	request->received_ns = world->clock.mono_ns;
	return request;
}

/* As the server frees it, answered or not. */
static inline void request_free(struct gq_request *request)
{
	request_drop_state(request);
	free(request->body);
	free(request);
}

static inline void request_handle(struct world *world, struct gq_request *request)
{
	request->retry = false;
	gq_admission_handle(world->admission, request);
}

/* Lets the time pass that it asked for, and handles it again, until it waits for something else. */
static inline void request_run(struct world *world, struct gq_request *request)
{
	while (request->retry) {
		assert_true(request->delay_ns >= 0 && request->retries < 10000);
		world->clock.mono_ns += request->delay_ns;
		request_handle(world, request);
	}
}

static inline struct gq_request *ask_bytes(struct world *world, const char *path, const char *query,
					   const char *body, size_t len)
{
	struct gq_request *request = request_new(world, path, query, body, len);

	request_handle(world, request);
	return request;
}

/* body: single-quoted */
static inline struct gq_request *ask(struct world *world, const char *path, const char *body)
{
	char *json = json_of(body);
	struct gq_request *request = ask_bytes(world, path, "timeout=10s", json, strlen(json));

	free(json);
	return request;
}

struct pod_review {
	const char *ns, *name, *uid;
	const char *gpus;  /* NULL: none */
	const char *spec;  /* more members of the spec, each with a comma in front; single-quoted */
	const char *owner; /* uid of its ReplicaSet, or NULL */
	const char *operation;
	bool dry_run;
};

/* The request's uid is "r-" and the pod's. */
static inline void print_pod_review(struct gq_buf *out, const struct pod_review *p)
{
	gq_buf_printf(out,
		      "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{"
		      "'uid':'r-%s','operation':'%s','namespace':'%s','name':'%s','dryRun':%s,"
		      "'resource':{'group':'','version':'v1','resource':'pods'},"
		      "'userInfo':{'username':'jane'},'object':{'kind':'Pod','metadata':{"
		      "'namespace':'%s','name':'%s','uid':'%s'",
		      p->uid, p->operation ? p->operation : "CREATE", p->ns, p->name,
		      p->dry_run ? "true" : "false", p->ns, p->name, p->uid);
	if (p->owner)
		gq_buf_printf(out,
			      ",'ownerReferences':[{'kind':'ReplicaSet','name':'rs','uid':'%s',"
			      "'controller':true}]",
			      p->owner);
	gq_buf_puts(out, "},'spec':{'containers':[{'name':'c'");
	if (p->gpus)
		gq_buf_printf(out, ",'resources':{'limits':{'nvidia.com/gpu':'%s'}}", p->gpus);
	gq_buf_printf(out, "}]%s}}}}", p->spec ? p->spec : "");
	assert_int_equal(out->code, 0);
}

static inline struct gq_request *ask_pod(struct world *world, const struct pod_review *p)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	print_pod_review(&body, p);
	return ask(world, "/validate", body.data);
}

/* ---- answers ---- */

/* The response of a review, which must be valid JSON. json_object_put() it. */
static inline struct json_object *answer_review(const struct gq_request *request)
{
	if (request->answers != 1 || request->answer.status != 200)
		fail_msg("%u answers, status %d: %s", request->answers, request->answer.status,
			 request->answer_body);
	assert_string_equal(request->answer.content_type, "application/json");
	assert_int_equal(request->answer.retry_after_s, 0);
	return json_parse(request->answer_body, request->answer.len);
}

static inline void assert_allowed(const struct gq_request *request)
{
	struct json_object *root = answer_review(request);

	if (!json_true(root, "response.allowed"))
		fail_msg("%s", request->answer_body);
	json_object_put(root);
}

static inline const char *assert_refused(const struct gq_request *request, int code)
{
	static char message[128u << 10];
	struct json_object *root = answer_review(request);

	if (json_true(root, "response.allowed"))
		fail_msg("%s", request->answer_body);
	assert_int_equal(json_object_get_int(json_at(root, "response.status.code")), code);
	(void)snprintf(message, sizeof message, "%s", json_text(root, "response.status.message"));
	json_object_put(root);
	return message;
}

/* The message, which is valid until the next call. */
static inline const char *assert_denied(const struct gq_request *request)
{
	return assert_refused(request, 403);
}

/* Not decided, and there is no time to ask again: what the user reads. */
static inline const char *assert_last_word(const struct gq_request *request)
{
	return assert_refused(request, 503);
}

/* An answer that is no review: 400, or 503 with Retry-After. Its text. */
static inline const char *assert_failed(const struct gq_request *request, int status)
{
	static char message[64u << 10];

	if (request->answers != 1 || request->answer.status != status)
		fail_msg("%u answers, status %d: %s", request->answers, request->answer.status,
			 request->answer_body);
	assert_string_equal(request->answer.content_type, "application/json");
	assert_int_equal(request->answer.retry_after_s, status == 503 ? 1 : 0);
	struct json_object *root = json_parse(request->answer_body, request->answer.len);
	(void)snprintf(message, sizeof message, "%s", json_text(root, "error"));
	assert_true(message[0] != '\0');
	json_object_put(root);
	return message;
}

static inline uint64_t counted(struct world *world, enum gq_verdict_kind kind,
			       enum gq_reason reason)
{
	struct gq_admission_stats stats;

	gq_admission_stats(world->admission, &stats);
	return stats.reviews[kind][reason];
}

/* Of all reviews. */
static inline uint64_t counted_all(struct world *world)
{
	struct gq_admission_stats stats;
	uint64_t n = 0;

	gq_admission_stats(world->admission, &stats);
	for (int k = 0; k <= GQ_VERDICT_UNAVAILABLE; k++)
		for (int r = 0; r < GQ_REASON_COUNT; r++)
			n += stats.reviews[k][r];
	return n;
}

/* cmocka leaves a failed test by a jump, so what a test made is freed here. */
static struct world world;

static inline int setup(void **state)
{
	(void)state;
	world_init(&world, app_ledger(APP_POLICY));
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	world_done(&world);
	return 0;
}

#define POD(...) (&(struct pod_review){__VA_ARGS__})

/* Allows a pod and forgets the request. */
static inline void allow(const struct pod_review *p)
{
	struct gq_request *request = ask_pod(&world, p);

	assert_allowed(request);
	request_free(request);
}

#endif
