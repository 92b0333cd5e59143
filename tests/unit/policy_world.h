#ifndef GQ_TESTS_UNIT_POLICY_WORLD_H
#define GQ_TESTS_UNIT_POLICY_WORLD_H

/* A policy source and what it lives in: a ledger, a log, and an API server with the two ConfigMaps
 * of the policy, whose answers and watch events come when the test says so. Include after
 * <cmocka.h>, in one file of a test. */

#include "base/log.h"
#include "controller/hash.h"
#include "controller/policy_source.h"
#include "informer/status.h"
#include "tests/unit/app_testing.h"

#define GOOD APP_POLICY
#define OTHER APP_POLICY_HEAD "tenants:\n  - name: t\n    quota: {A100: {gpus: 1}}\n"
#define THIRD APP_POLICY_HEAD "tenants:\n  - name: u\n    quota: {A100: {gpus: 2}}\n"
#define BAD APP_POLICY_HEAD "tenants:\n  - name: t\n    quotas: {}\n"
#define BAD_TOO APP_POLICY_HEAD "mode: never\n"

#define EPOCH 5

enum { WRITTEN, ACCEPTED };

static struct app_clock app_time;
static struct gq_ledger *ledger;
static struct gq_policy_source *source;
static char logged[64u << 10];
static unsigned woken, changes, fences, dones;
static int done_code;
static struct gq_policy_status told_status;

/* Takes the place of the log, which holds back what comes too often. */
void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields)
{
	size_t at = strlen(logged);

	(void)level;
	if (at > sizeof logged / 2)
		return;
	at += (size_t)snprintf(logged + at, sizeof logged - at, "%s", msg);
	for (; fields->key; fields++)
		if (fields->text)
			at += (size_t)snprintf(logged + at, sizeof logged - at, " %s=%s",
					       fields->key, fields->text);
	assert_true(at < sizeof logged);
}

/* ---- the API server ---- */

static struct config_map {
	const char *name;
	bool exists;
	struct json_object *data;
} maps[] = {{.name = "gpuquota-policy"}, {.name = "gpuquota-policy-accepted"}};
static unsigned versions; /* of the last write */
static unsigned map_versions[2];

static const char map_path[] = "/api/v1/namespaces/gpuquota-system/configmaps";

/* The request that is under way, or the one that was forgotten and may still be carried out. */
static struct request {
	bool open;
	char method[8];
	char path[256];
	char *body;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} request;
static char requests[1024]; /* since the test looked last: "GET written,PUT accepted," */
static int start_code;      /* gq_api_start() fails so */

static struct timer {
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[64];
static size_t n_timers;

static inline int map_of(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	assert_int_equal(strncmp(path, map_path, sizeof map_path - 1), 0);
	return strcmp(name, maps[WRITTEN].name) == 0 ? WRITTEN : ACCEPTED;
}

int gq_api_start(struct gq_api *api, const struct gq_api_request *new, struct gq_err *err)
{
	assert_null(api);
	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	assert_false(request.open);
	assert_true(new->timeout_ns > 0 && new->timeout_ns < 5 * GQ_NS_PER_S);
	assert_ptr_equal(new->keep, gq_policy_state_keep);
	assert_true((new->body != NULL) == (strcmp(new->method, "GET") != 0));
	free(request.body);
	request = (struct request){.open = true, .on_done = new->on_done, .arg = new->arg};
	(void)snprintf(request.method, sizeof request.method, "%s", new->method);
	(void)snprintf(request.path, sizeof request.path, "%s", new->path);
	if (new->body) {
		assert_string_equal(new->content_type, "application/json");
		request.body = strndup(new->body, new->body_len);
		assert_non_null(request.body);
	}
	size_t at = strlen(requests);
	(void)snprintf(requests + at, sizeof requests - at, "%s %s,", new->method,
		       map_of(new->path) == WRITTEN ? "written" : "accepted");
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	(void)err;
	assert_null(api);
	assert_true(n_timers < LEN(timers));
	timers[n_timers++] = (struct timer){app_time.mono_ns + delay_ns, on_due, arg};
	return 0;
}

static inline void put(int which, struct json_object *data)
{
	json_object_put(maps[which].data);
	maps[which].data = data;
	maps[which].exists = true;
	map_versions[which] = ++versions;
}

/* What a person does. epoch, hash: NULL leaves the key out. */
static inline void edit(int which, const char *text, const char *epoch, const char *hash)
{
	struct json_object *data = json_object_new_object();

	json_object_object_add(data, "policy.yaml", json_object_new_string(text));
	if (epoch)
		json_object_object_add(data, "epoch", json_object_new_string(epoch));
	if (hash)
		json_object_object_add(data, "hash", json_object_new_string(hash));
	put(which, data);
}

static inline void write_policy(const char *text)
{
	edit(WRITTEN, text, NULL, NULL);
}

static inline const char *hash_of(const char *text)
{
	static char hash[GQ_HASH_TEXT_BYTES];

	assert_int_equal(gq_hash_text(text, strlen(text), hash), 0);
	return hash;
}

/* What another leader does. */
static inline void accept_policy(const char *text, unsigned epoch)
{
	char number[16];

	(void)snprintf(number, sizeof number, "%u", epoch);
	edit(ACCEPTED, text, number, hash_of(text));
}

static inline void delete_map(int which)
{
	json_object_put(maps[which].data);
	maps[which].data = NULL;
	maps[which].exists = false;
	map_versions[which] = ++versions;
}

static inline void print_map(int which, struct gq_buf *out)
{
	gq_buf_printf(
	    out, "{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%u\"},\"data\":%s}",
	    maps[which].name, map_versions[which], json_object_to_json_string(maps[which].data));
	assert_int_equal(out->code, 0);
}

/* Carries the request out, and returns the status. */
static inline int carry_out(void)
{
	int which = map_of(request.path);
	char version[16];

	(void)snprintf(version, sizeof version, "%u", map_versions[which]);
	if (strcmp(request.method, "GET") == 0)
		return maps[which].exists ? 200 : 404;
	assert_int_equal(which, ACCEPTED);
	struct json_object *root = json_parse(request.body, strlen(request.body));
	assert_string_equal(json_text(root, "metadata.name"), maps[ACCEPTED].name);
	assert_string_equal(json_text(root, "metadata.namespace"), "gpuquota-system");
	assert_string_equal(json_text(root, "apiVersion"), "v1");
	assert_string_equal(json_text(root, "kind"), "ConfigMap");
	bool create = strcmp(request.method, "POST") == 0;
	int status = create ? 201 : 200;
	if (create && maps[which].exists)
		status = 409;
	else if (!create && !maps[which].exists)
		status = 404;
	else if (!create && strcmp(json_text(root, "metadata.resourceVersion"), version) != 0)
		status = 409;
	else
		put(which, json_object_get(json_at(root, "data")));
	json_object_put(root);
	return status;
}

/* Answers with that status and body; 0: no answer in time. The bytes go when the callback returns,
 * as the client's do. */
static inline void answer(int status, const char *body, int retry_after_s)
{
	char *copy = strdup(body);
	int code = status ? gq_api_status_code(status) : GQ_EIO;

	assert_non_null(copy);
	assert_true(request.open);
	request.open = false;
	request.on_done(request.arg, &(struct gq_api_response){.code = code,
							       .status = status,
							       .body = copy,
							       .len = strlen(copy),
							       .retry_after_s = retry_after_s,
							       .error = code ? "so it is" : ""});
	memset(copy, 'x', strlen(copy));
	free(copy);
}

static inline void answer_honestly(void)
{
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);
	int status = carry_out();

	if (status / 100 == 2)
		print_map(map_of(request.path), &body);
	answer(status, body.data ? body.data : "", 0);
}

/* ---- the source ---- */

static inline void work(void)
{
	woken = 0;
	gq_policy_source_work(source);
}

/* Until the source waits for an answer, or for nothing. */
static inline void settle(void)
{
	while (woken)
		work();
}

/* Until there is nothing left to do. */
static inline void run(void)
{
	for (int i = 0; i < 100; i++) {
		settle();
		if (!request.open)
			return;
		answer_honestly();
	}
	fail_msg("it goes on for ever: %s", requests);
}

/* Lets time pass, and timers with it. */
static inline void pass_ms(int64_t ms)
{
	app_time.mono_ns += ms * GQ_NS_PER_MS;
	for (size_t i = 0; i < n_timers;) {
		if (timers[i].due_ns > app_time.mono_ns) {
			i++;
			continue;
		}
		struct timer due = timers[i];
		timers[i] = timers[--n_timers];
		due.on_due(due.arg);
	}
}

static inline int event(int which, enum gq_event_kind kind, const char *json)
{
	const struct gq_event event = {.kind = kind,
				       .json = json,
				       .len = json ? strlen(json) : 0,
				       .resource_version = json ? "1" : NULL};
	struct gq_err err;

	return which == WRITTEN ? gq_policy_source_event(source, &event, &err)
				: gq_policy_source_accepted_event(source, &event, &err);
}

/* The watch shows the present state. */
static inline void show(int which)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4u << 20);

	if (maps[which].exists)
		print_map(which, &json);
	assert_int_equal(event(which, maps[which].exists ? GQ_EVENT_UPSERT : GQ_EVENT_DELETE,
			       json.data ? json.data : "{}"),
			 0);
}

static inline void on_wake(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	woken++;
}

static inline void on_change(void *arg, const struct gq_policy_status *status)
{
	struct gq_policy_status now;

	assert_ptr_equal(arg, &app_time);
	changes++;
	told_status = *status;
	gq_policy_source_status(source, &now); /* no lock is held */
	assert_string_equal(now.problem, status->problem);
}

static inline void on_fenced(void *arg)
{
	assert_ptr_equal(arg, &app_time);
	fences++;
}

static inline void on_done(void *arg, int code)
{
	assert_ptr_equal(arg, &app_time);
	dones++;
	done_code = code;
}

static inline void start_source(void)
{
	source =
	    gq_policy_source_new(&(struct gq_policy_source_options){.ledger = ledger,
								    .clock = &app_time.clock,
								    .namespace_ = "gpuquota-system",
								    .wake = on_wake,
								    .on_change = on_change,
								    .on_fenced = on_fenced,
								    .arg = &app_time});
	assert_non_null(source);
	woken = changes = fences = dones = 0;
	told_status = (struct gq_policy_status){0};
}

static inline int world_setup(void **state)
{
	(void)state;
	app_clock_init(&app_time);
	ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	assert_non_null(ledger);
	gq_ledger_set_synced(ledger);
	start_source();
	logged[0] = requests[0] = '\0';
	n_timers = 0;
	start_code = 0;
	versions = 0;
	return 0;
}

static inline int world_teardown(void **state)
{
	(void)state;
	if (request.open)
		answer(0, "", 0); /* as the client's end does */
	gq_policy_source_free(source);
	gq_ledger_free(ledger);
	for (int which = 0; which < 2; which++) {
		json_object_put(maps[which].data);
		maps[which].data = NULL;
		maps[which].exists = false;
		map_versions[which] = 0;
	}
	free(request.body);
	request = (struct request){0};
	return 0;
}

static inline void assert_requests(const char *text)
{
	assert_string_equal(requests, text);
	requests[0] = '\0';
}

/* in_force: the text of the policy that the ledger has, or NULL. problem: a part of what the status
 * says, or NULL when all is well. */
static inline void assert_status(const char *in_force, const char *problem)
{
	struct gq_policy *policy = gq_ledger_policy(ledger);
	struct gq_policy_status status;
	const char *hash = in_force ? hash_of(in_force) : "";

	gq_policy_source_status(source, &status);
	assert_true(status.in_force == (in_force != NULL));
	assert_string_equal(status.hash, hash);
	assert_true((policy != NULL) == (in_force != NULL));
	if (policy)
		assert_string_equal(policy->hash, hash);
	assert_true(gq_ledger_ready(ledger) == (in_force != NULL));
	assert_true(status.last_ok == !problem);
	if (problem)
		assert_has(status.problem, problem);
	else
		assert_string_equal(status.problem, "");
	assert_null(strchr(status.problem, '\n'));
	assert_false(status.last_in_force && (problem || !in_force));
	assert_true(told_status.last_in_force == status.last_in_force);
	/* who is told of changes knows it */
	assert_string_equal(told_status.problem, status.problem);
	assert_string_equal(told_status.hash, status.hash);
	gq_policy_unref(policy);
}

/* What is stored as accepted, by the leader of that epoch. */
static inline void assert_accepted(const char *text, const char *epoch)
{
	struct json_object *data = maps[ACCEPTED].data;

	assert_true(maps[ACCEPTED].exists);
	assert_string_equal(json_object_get_string(json_object_object_get(data, "policy.yaml")),
			    text);
	assert_string_equal(json_text(data, "hash"), hash_of(text));
	assert_string_equal(json_text(data, "epoch"), epoch);
}

/* How a request may fail. */
struct failure {
	int status, code;
};

#define FAILURES                                                                                   \
	{                                                                                          \
		{0, GQ_EIO}, {500, GQ_EIO}, {503, GQ_EIO}, {504, GQ_EIO}, {429, GQ_ETHROTTLED},    \
		    {403, GQ_EDENIED}, {401, GQ_EDENIED}, {422, GQ_EINVALID}, {400, GQ_EINVALID},  \
		{                                                                                  \
			410, GQ_EGONE                                                              \
		}                                                                                  \
	}

/* ---- who leads ---- */

/* Takes over up to its first request. */
static inline void lead(uint64_t epoch)
{
	dones = 0;
	settle();
	gq_policy_source_lead(source, epoch, on_done, &app_time);
	settle();
}

static inline void assert_done(int code)
{
	assert_int_equal(dones, 1);
	assert_int_equal(done_code, code);
}

/* Answers the request that is under way, whose method and ConfigMap are these. */
static inline void expect(const char *text)
{
	char now[64];

	assert_true(request.open);
	(void)snprintf(now, sizeof now, "%s %s", request.method,
		       map_of(request.path) == WRITTEN ? "written" : "accepted");
	assert_string_equal(now, text);
	requests[0] = '\0';
}

static inline void honest(const char *text)
{
	expect(text);
	answer_honestly();
	settle();
}

static inline void refused(const char *text, int status)
{
	expect(text);
	answer(status, "", 0);
	settle();
}

/* It leads, with GOOD written, accepted and in force. */
static inline void to_lead(void)
{
	gq_policy_source_follow(source);
	settle();
	write_policy(GOOD);
	show(WRITTEN);
	lead(EPOCH);
	run();
	assert_done(0);
	show(ACCEPTED);
	run();
	assert_status(GOOD, NULL);
	assert_accepted(GOOD, "5");
	requests[0] = logged[0] = '\0';
}

static inline void rewrite(const char *text)
{
	write_policy(text);
	show(WRITTEN);
	settle();
	honest("GET written");
}

#endif
