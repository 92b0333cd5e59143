#ifndef GQ_TESTS_UNIT_JOURNAL_WORLD_H
#define GQ_TESTS_UNIT_JOURNAL_WORLD_H

/* An API server that holds one ConfigMap, with compare-and-set on its resourceVersion, and journals
 * with their ledgers in front of it. A request waits until the test says how it ends. Include after
 * <cmocka.h>, in one file of a test. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/journal.h"
#include "controller/journal_text.h"
#include "informer/api.h"
#include "quota/decision.h"
#include "quota/entry.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define MS GQ_NS_PER_MS
#define TTL_NS (4 * GQ_NS_PER_S)
#define REQUESTS_MAX 64
#define TIMERS_MAX 256
#define ANSWERS_MAX 4096
#define WORLD_POLICY                                                                               \
	APP_POLICY_HEAD "tenants:\n  - name: team-a\n    namespaces: [a-train]\n"                  \
			"    quota: {A100: {gpus: 10000}}\n"

static struct app_clock app_time;

/* Allocations count (fail_alloc.h) in the code under test alone. */
static void in_code(bool is)
{
	fail_alloc_hold(!is);
}
#define CODE(call)                                                                                 \
	do {                                                                                       \
		in_code(true);                                                                     \
		call;                                                                              \
		in_code(false);                                                                    \
	} while (0)

/* ---- the object ---- */

static struct {
	bool exists;
	uint64_t version; /* of the server: never used twice */
	char *data;       /* the member "data" as JSON, or NULL */
	unsigned writes;
} object;

/* Called at each change. */
static void (*on_object_hook)(void);

static inline void object_set(const char *data)
{
	char *copy = data ? strdup(data) : NULL;

	free(object.data);
	object.data = copy;
	object.exists = true;
	object.version++;
	if (on_object_hook)
		on_object_hook();
}

static void object_delete(void)
{
	free(GQ_STEAL(object.data));
	object.exists = false;
	object.version++;
}

/* What people or another leader write. held: as it stands in the object, or NULL. */
static inline void object_write(const char *format, const char *holder, const char *epoch,
				const char *seq, const char *lines, const char *held)
{
	struct json_object *data = json_object_new_object();

	json_object_object_add(data, "format", json_object_new_string(format));
	json_object_object_add(data, "holder", json_object_new_string(holder));
	json_object_object_add(data, "epoch", json_object_new_string(epoch));
	json_object_object_add(data, "seq", json_object_new_string(seq));
	json_object_object_add(data, "reservations", json_object_new_string(lines));
	if (held)
		json_object_object_add(data, "held", json_object_new_string(held));
	object_set(json_object_to_json_string(data));
	json_object_put(data);
}

/* A member of the data, "" when it is not there; until the next call. */
static const char *object_text(const char *key)
{
	static char text[256 << 10];
	struct json_object *root, *member = NULL;

	text[0] = '\0';
	if (!object.exists || !object.data)
		return text;
	root = json_parse(object.data, strlen(object.data));
	if (json_object_object_get_ex(root, key, &member))
		(void)snprintf(text, sizeof text, "%s", json_object_get_string(member));
	json_object_put(root);
	return text;
}

static bool object_has(const char *uid)
{
	return strstr(object_text("reservations"), uid) != NULL;
}

/* ---- requests and timers ---- */

enum ending {
	END_OK,
	END_DROPPED, /* no answer, and nothing was done */
	END_LOST,    /* no answer, though it was done */
	END_LATE,    /* no answer, and it will be done by arrive() */
	END_GARBLED, /* done, and an answer that can't be read */
	END_EMPTIED, /* done, and an answer without a resourceVersion */
	END_5XX,
	END_403,
	END_429,
	END_404,
	END_422,
};

struct request {
	struct gq_api *api;
	char method[8];
	char path[600];
	char *body;
	int64_t sent_ns;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
	bool done; /* the server has done it */
	int status;
	char *answer;
};
static struct request requests[REQUESTS_MAX]; /* not answered yet, oldest first */
static size_t n_requests;
static struct request late[REQUESTS_MAX];
static size_t n_late;
static unsigned n_sent, n_puts; /* ever; those with a body */
static int64_t put_ns;          /* when the last one with a body was sent */
static size_t put_bytes;
static int start_code, after_code;

static struct {
	struct gq_api *api;
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[TIMERS_MAX];
static size_t n_timers;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	char *body = NULL;

	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	in_code(false);
	assert_true(request->timeout_ns > 0);
	assert_ptr_equal(request->keep, gq_journal_keep);
	assert_true(n_requests < REQUESTS_MAX);
	if (request->body) {
		body = malloc(request->body_len + 1);
		assert_non_null(body);
		memcpy(body, request->body, request->body_len);
		body[request->body_len] = '\0';
		n_puts++;
		put_ns = app_time.mono_ns;
		put_bytes = request->body_len;
	}
	struct request *slot = &requests[n_requests++];
	*slot = (struct request){.api = api,
				 .body = body,
				 .sent_ns = app_time.mono_ns,
				 .on_done = request->on_done,
				 .arg = request->arg};
	(void)snprintf(slot->method, sizeof slot->method, "%s", request->method);
	(void)snprintf(slot->path, sizeof slot->path, "%s", request->path);
	n_sent++;
	in_code(true);
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	if (after_code)
		return gq_fail(err, after_code, "the test says so");
	assert_true(delay_ns >= 0);
	assert_true(n_timers < TIMERS_MAX);
	timers[n_timers].api = api;
	timers[n_timers].due_ns = app_time.mono_ns + delay_ns;
	timers[n_timers].on_due = on_due;
	timers[n_timers++].arg = arg;
	return 0;
}

/* Lets what is due by until_ns happen, in its order. */
static void run_until(int64_t until_ns)
{
	for (;;) {
		size_t first = n_timers;
		for (size_t i = 0; i < n_timers; i++)
			if (timers[i].due_ns <= until_ns &&
			    (first == n_timers || timers[i].due_ns < timers[first].due_ns))
				first = i;
		if (first == n_timers)
			break;
		void (*on_due)(void *) = timers[first].on_due;
		void *arg = timers[first].arg;
		if (timers[first].due_ns > app_time.mono_ns)
			app_time.mono_ns = timers[first].due_ns;
		n_timers--;
		memmove(&timers[first], &timers[first + 1], (n_timers - first) * sizeof timers[0]);
		CODE(on_due(arg));
	}
	app_time.mono_ns = until_ns;
}

static void pass(int64_t ns)
{
	run_until(app_time.mono_ns + ns);
}

static char *object_print(void)
{
	char *text = NULL;

	assert_true(asprintf(&text, "{\"metadata\":{\"resourceVersion\":\"%llu\"}%s%s}",
			     (unsigned long long)object.version, object.data ? ",\"data\":" : "",
			     object.data ? object.data : "") > 0);
	return text;
}

/* What the server makes of a request; its answer is kept. */
static void serve_now(struct request *request)
{
	struct json_object *root = NULL, *member = NULL;
	char version[32];

	request->done = true;
	(void)snprintf(version, sizeof version, "%llu", (unsigned long long)object.version);
	if (request->body)
		root = json_parse(request->body, strlen(request->body));
	bool get = strcmp(request->method, "GET") == 0;
	bool post = strcmp(request->method, "POST") == 0;
	struct json_object *demanded = json_at(root, "metadata.resourceVersion");
	assert_string_equal(request->path,
			    post ? "/api/v1/namespaces/gq/configmaps"
				 : "/api/v1/namespaces/gq/configmaps/" GQ_JOURNAL_NAME);
	if (get || post) {
		assert_null(demanded);
		request->status = get && !object.exists ? 404 : post && object.exists ? 409 : 200;
	} else {
		assert_string_equal(request->method, "PUT");
		bool same = !demanded || strcmp(json_object_get_string(demanded), version) == 0;
		request->status = !object.exists ? 404 : !same ? 409 : 200;
	}
	if (request->status == 200 && !get) {
		assert_string_equal(json_text(root, "metadata.name"), GQ_JOURNAL_NAME);
		assert_string_equal(json_text(root, "metadata.namespace"), "gq");
		if (json_object_object_get_ex(root, "data", &member))
			object_set(json_object_to_json_string(member));
		object.writes++;
	}
	if (request->status == 200)
		request->answer = object_print();
	json_object_put(root);
}

static void request_free(struct request *request)
{
	free(request->body);
	free(request->answer);
}

/* Its answer goes to the client. The bytes go when the callback returns, as the client's do. */
static void answer(size_t i, enum ending ending)
{
	static const int codes[] = {
	    [END_5XX] = GQ_EIO,       [END_403] = GQ_EDENIED,  [END_429] = GQ_ETHROTTLED,
	    [END_404] = GQ_ENOTFOUND, [END_422] = GQ_EINVALID, [END_DROPPED] = GQ_EIO,
	    [END_LOST] = GQ_EIO,      [END_LATE] = GQ_EIO};
	assert_true(i < n_requests);
	struct request request = requests[i];
	struct gq_api_response response = {.error = "the test says so"};
	char *body = NULL;

	memmove(&requests[i], &requests[i + 1], (--n_requests - i) * sizeof requests[0]);
	if (!request.done && (ending == END_OK || ending == END_LOST || ending == END_GARBLED ||
			      ending == END_EMPTIED))
		serve_now(&request);
	if (ending == END_OK || ending == END_GARBLED || ending == END_EMPTIED)
		response.code = request.status == 200   ? 0
				: request.status == 409 ? GQ_ECONFLICT
							: GQ_ENOTFOUND;
	else
		response.code = codes[ending];
	if (ending == END_429)
		response.retry_after_s = 1;
	if (!response.code) {
		response.error = "";
		body = strdup(ending == END_GARBLED   ? "{\"metadata\":"
			      : ending == END_EMPTIED ? "{}"
						      : request.answer);
	} else {
		body = strdup("");
	}
	if (ending == END_LATE && !request.done) {
		assert_true(n_late < REQUESTS_MAX);
		late[n_late] = request;
		late[n_late++].body = strdup(request.body ? request.body : "");
	}
	response.body = body;
	response.len = strlen(body);
	CODE(request.on_done(request.arg, &response));
	memset(body, 'x', strlen(body));
	free(body);
	request_free(&request);
}

/* The only request under way ends so. */
static inline void end_with(enum ending ending)
{
	assert_int_equal(n_requests, 1);
	answer(0, ending);
}

/* The oldest of those that were late reaches the server. */
static inline void arrive(void)
{
	assert_true(n_late > 0);
	struct request request = late[0];

	memmove(&late[0], &late[1], --n_late * sizeof late[0]);
	if (request.body[0])
		serve_now(&request);
	request_free(&request);
}

/* ---- those in front of it ---- */

struct side {
	char name[16];
	struct gq_ledger *ledger;
	struct gq_journal *journal;
	uint64_t epoch; /* of the last take-over that succeeded */
	unsigned taken_over, fenced, lost, flushed;
};

/* Somebody who waits for an answer. */
struct answer {
	struct side *side;
	char uid[32];
	uint64_t ticket;
	unsigned got;
	int code;
	int64_t at_ns;
	bool shared; /* another waits for the same ticket */
};

/* Called at each answer instead of the check that the object holds it by now. */
static void (*on_answer_hook)(struct answer *a);

static void on_fenced(void *arg)
{
	((struct side *)arg)->fenced++;
}

static void on_lost(void *arg, const char *how)
{
	assert_true(how[0] != '\0');
	((struct side *)arg)->lost++;
}

/* As if the barrier was passed at once. */
static void on_hold_over(void *arg)
{
	gq_journal_release(((struct side *)arg)->journal);
}

static void on_taken_over(void *arg, uint64_t epoch)
{
	struct side *side = arg;

	assert_true(epoch > side->epoch);
	side->epoch = epoch;
	side->taken_over++;
}

static inline void on_flushed(void *arg)
{
	((struct side *)arg)->flushed++;
}

static void side_init(struct side *side, const char *name)
{
	*side = (struct side){0};
	(void)snprintf(side->name, sizeof side->name, "%s", name);
	side->ledger = app_ledger(WORLD_POLICY);
	side->journal =
	    gq_journal_new(&(struct gq_journal_options){.api = (struct gq_api *)(void *)side,
							.ledger = side->ledger,
							.clock = &app_time.clock,
							.namespace_ = "gq",
							.holder = side->name,
							.ttl_ns = TTL_NS,
							.on_fenced = on_fenced,
							.on_lost = on_lost,
							.on_hold_over = on_hold_over,
							.arg = side});
	assert_non_null(side->journal);
}

/* The process dies. What it has sent may be done all the same. */
static void side_done(struct side *side)
{
	CODE(gq_journal_stop(side->journal));
	for (size_t i = n_timers; i-- > 0;)
		if (timers[i].api == (struct gq_api *)(void *)side)
			memmove(&timers[i], &timers[i + 1], (--n_timers - i) * sizeof timers[0]);
	for (size_t i = n_requests; i-- > 0;)
		if (requests[i].api == (struct gq_api *)(void *)side)
			answer(i, END_LATE);
	gq_journal_free(side->journal);
	gq_ledger_free(side->ledger);
}

static void world_reset(void)
{
	app_clock_init(&app_time);
	n_timers = 0;
	start_code = after_code = 0;
	n_sent = n_puts = 0;
	put_ns = 0;
	put_bytes = 0;
	object_delete();
	object.version = 100;
	object.writes = 0;
}

static void world_end(void)
{
	while (n_late) {
		request_free(&late[0]);
		memmove(&late[0], &late[1], --n_late * sizeof late[0]);
	}
	assert_int_equal(n_requests, 0);
	free(GQ_STEAL(object.data));
}

static bool side_holds_grants(struct side *side)
{
	struct gq_journal_stats stats;

	gq_journal_stats(side->journal, &stats);
	return stats.held;
}

static struct gq_pod *pod_of(const char *uid)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_pod *pod = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json,
		      "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"%s\",\"uid\":\"%s\","
		      "\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"j\",\"uid\":\"o-%s\","
		      "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"c\","
		      "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}",
		      uid, uid, uid);
	if (gq_pod_decode(json.data, json.len, NULL, &pod, &err))
		fail_msg("%s", err.msg);
	return pod;
}

/* A decision for a pod of one GPU. Returns its ticket, or 0 when nothing is granted. */
static uint64_t propose(struct side *side, const char *uid)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	struct gq_pod *pod = pod_of(uid);
	struct gq_err err = {0};
	const struct gq_create create = {.pod = pod,
					 .request_uid = uid,
					 .user = "system:serviceaccount:kube-system:job-controller",
					 .now_ns = app_time.mono_ns,
					 .wall_s = app_time.wall_s,
					 .deadline_ns = app_time.mono_ns + GQ_NS_PER_S};

	assert_int_equal(gq_decide_create(side->ledger, &create, &verdict, &err), 0);
	gq_pod_unref(pod);
	if (verdict.kind == GQ_VERDICT_ALLOW)
		return verdict.ticket;
	if (verdict.reason != GQ_REASON_JOURNAL)
		fail_msg("%s is not granted: %s", uid, gq_reason_name(verdict.reason));
	return 0;
}

static inline bool grants(struct side *side)
{
	uint64_t ticket = propose(side, "trial");

	if (ticket)
		gq_ledger_abort(side->ledger, ticket, app_time.mono_ns);
	assert_int_equal(ticket != 0, !side_holds_grants(side));
	return ticket != 0;
}

static bool ledger_has(struct side *side, const char *uid)
{
	struct gq_buf lines GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_unseen unseen;

	assert_int_equal(gq_ledger_unseen_print(side->ledger, &lines, NULL, &unseen), 0);
	return lines.data && strstr(lines.data, uid);
}

/* Committed only if the object holds it now; else the charge is gone. */
static void on_answer(void *done_arg, int code)
{
	struct answer *a = done_arg;

	in_code(false);
	assert_int_equal(a->got++, 0);
	a->code = code;
	a->at_ns = app_time.mono_ns;
	if (on_answer_hook)
		on_answer_hook(a);
	else if (!code && !object_has(a->uid))
		fail_msg("%s was committed and is not in the object", a->uid);
	if (!code && !ledger_has(a->side, a->uid))
		fail_msg("%s was committed without a charge", a->uid);
	if (code && !a->shared && ledger_has(a->side, a->uid))
		fail_msg("%s failed and is still charged", a->uid);
	in_code(true);
}

static void wait_for(struct side *side, struct answer *a, const char *uid, uint64_t ticket,
		     int64_t deadline_ns)
{
	*a = (struct answer){.side = side, .ticket = ticket};
	(void)snprintf(a->uid, sizeof a->uid, "%s", uid);
	CODE(gq_journal_commit(side->journal, ticket, deadline_ns, on_answer, a));
}

/* A grant that waits for ten seconds at most. */
static inline void ask(struct side *side, struct answer *a, const char *uid)
{
	uint64_t ticket = propose(side, uid);

	assert_true(ticket != 0);
	wait_for(side, a, uid, ticket, app_time.mono_ns + 10 * GQ_NS_PER_S);
	pass(0);
}

static void take_over(struct side *side)
{
	CODE(gq_journal_take_over(side->journal, on_taken_over, side));
}

static inline void open_grants(struct side *side, bool first_ever)
{
	CODE(gq_journal_open(side->journal, first_ever));
}

static inline void stop(struct side *side)
{
	CODE(gq_journal_stop(side->journal));
}

/* Everything is answered well for so long. */
static inline void settle(int64_t ns)
{
	for (int64_t end_ns = app_time.mono_ns + ns; app_time.mono_ns < end_ns;) {
		while (n_requests)
			answer(0, END_OK);
		pass(MS);
	}
	while (n_requests)
		answer(0, END_OK);
}

/* The first leader ever, in quiet. */
static inline void lead(struct side *side)
{
	take_over(side);
	settle(20 * MS);
	assert_int_equal(side->taken_over, 1);
	open_grants(side, true);
	settle(20 * MS);
	assert_true(grants(side));
	settle(400 * MS);
}

static inline void assert_waits(const struct answer *a)
{
	assert_int_equal(a->got, 0);
}

static inline void assert_committed(const struct answer *a)
{
	assert_int_equal(a->got, 1);
	assert_int_equal(a->code, 0);
}

static inline void assert_failed(const struct answer *a)
{
	assert_int_equal(a->got, 1);
	assert_int_equal(a->code, GQ_EIO);
}

/* A line as an earlier leader wrote it. */
static inline void line_print(struct gq_buf *out, const char *uid)
{
	struct gq_pod *pod = pod_of(uid);

	assert_int_equal(gq_entry_print(out, pod, "jane", NULL), 0);
	gq_buf_putc(out, '\n');
	gq_pod_unref(pod);
}

#endif
