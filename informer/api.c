#include "informer/api.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/lock.h"
#include "informer/secret.h"
#include "informer/status.h"
#include "informer/timers.h"
#include "informer/transport.h"

enum {
	BODY_MAX_BYTES = 4 << 20,   /* of an answer, where its request sets no max_bytes */
	RAW_MAX_BYTES = 256 << 20,  /* of an answer that is pruned on the way */
	ERROR_MAX_BYTES = 64 << 10, /* of an answer that is no success */
	PATH_MAX_BYTES = 64 << 10,
	CONNECTIONS_KEPT = 16,
	POLL_MAX_MS = 60000,
	RETRY_AFTER_MAX_S = 300,
};

/* One request, from gq_api_start() to the end of its callback. */
struct call {
	struct call *next;
	struct call **prev_next; /* in the list of those that run */
	const char *method;      /* one of methods[] */
	char *path;
	char *content_type;
	char *body;
	size_t body_len;
	const struct gq_json_keep *keep;
	size_t max_bytes;
	int64_t timeout_ns;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;

	CURL *easy;
	struct curl_slist *headers;
	struct gq_credential_use use;
	bool no_token; /* to begin with */
	char error[CURL_ERROR_SIZE];
	long status;
	struct gq_json_stream *stream; /* prunes the answer */
	struct gq_buf answer;
	struct gq_err failure; /* of the answer; code 0: none */
};

struct gq_api {
	struct gq_transport *transport; /* the thread's */
	CURLM *multi;
	pthread_t thread;
	struct call *running; /* the thread's */

	struct gq_lock lock; /* of what follows */
	struct call *queue, **queue_end;
	struct gq_timers timers;
	bool stop;
};

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

static void call_free(struct call *call)
{
	if (!call)
		return;
	free(call->path);
	free(call->content_type);
	gq_secret_wipe(call->body, call->body_len);
	gq_json_stream_free(call->stream);
	gq_buf_done(&call->answer);
	free(call);
}
GQ_DEFINE_CLEANUP(cleanup_call, struct call, call_free);

static int on_pruned(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct call *call = arg;

	if (gq_buf_append(&call->answer, item->json, item->len))
		return gq_fail(err, call->answer.code, "the answer is too large");
	return 0;
}

static int fail_call(struct call *call, int code, const char *what)
{
	if (!call->failure.code)
		(void)gq_fail(&call->failure, code, "%s", what);
	return code;
}

static int begin_pruning(struct call *call)
{
	const struct gq_json_stream_options options = {
	    .shape = GQ_JSON_DOCUMENT,
	    .keep = call->keep,
	    .max_raw_bytes = RAW_MAX_BYTES,
	    .max_kept_bytes = call->max_bytes,
	    .on_item = on_pruned,
	    .arg = call,
	};

	call->stream = gq_json_stream_new(&options);
	return call->stream ? 0 : fail_call(call, GQ_ENOMEM, "out of memory");
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct call *call = arg;
	size_t len = size * n;

	if (!call->status) {
		(void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->status);
		bool success = gq_api_status_code(call->status) == 0;
		call->answer.max = success ? call->max_bytes : ERROR_MAX_BYTES;
		if (success && call->keep && begin_pruning(call))
			return 0;
	}
	if (call->stream)
		return gq_json_stream_feed(call->stream, bytes, len, &call->failure) ? 0 : len;
	if (gq_buf_append(&call->answer, bytes, len)) {
		/* of a refusal, the beginning is enough */
		if (gq_api_status_code(call->status) == 0)
			(void)fail_call(call, call->answer.code, "the answer is too large");
		return 0;
	}
	return len;
}

static CURLcode set_method(CURL *easy, const struct call *call)
{
	CURLcode rc = CURLE_OK;

	if (call->body) {
		rc =
		    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
		if (!rc)
			rc = curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
	}
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
	return rc;
}

static CURLcode set_callbacks(CURL *easy, struct call *call)
{
	CURLcode rc = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	long timeout_ms = (long)((call->timeout_ns + GQ_NS_PER_MS - 1) / GQ_NS_PER_MS);

	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	if (!rc)
		rc = curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms);
	return rc;
}

/* Ends a call, whether it ran or not. The answer's own faults count before those of the transfer.
 */
static void end_call(struct gq_api *api, struct call *call, const struct gq_err *broke)
{
	struct gq_api_response response = {.body = "", .error = ""};
	struct gq_api_status told = {0};
	struct gq_err why = {0};
	curl_off_t retry_after = 0;

	if (call->easy) {
		(void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &response.status);
		(void)curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after);
		(void)curl_multi_remove_handle(api->multi, call->easy);
		curl_easy_cleanup(call->easy);
	}
	curl_slist_free_all(call->headers);
	response.unauthorized = response.status == 401 || call->no_token;
	if (response.status)
		gq_credential_answered(gq_api_credential(api), &call->use, response.status);
	int refused = response.status ? gq_api_status_code(response.status) : 0;
	if (refused) {
		if (call->answer.data)
			(void)gq_api_status_parse(call->answer.data, call->answer.len, &told);
		if (told.message[0])
			(void)gq_fail(&why, refused, "%s", told.message);
		else
			(void)gq_fail(&why, refused, "HTTP %ld", response.status);
	} else if (call->failure.code) {
		why = call->failure;
	} else if (broke) {
		why = *broke;
	} else if (call->stream) {
		(void)gq_json_stream_end(call->stream, &why);
	} else if (call->keep) {
		(void)gq_fail(&why, GQ_EINVALID, "the answer is empty");
	}
	if (retry_after <= 0 || retry_after > RETRY_AFTER_MAX_S)
		retry_after = retry_after > 0 ? RETRY_AFTER_MAX_S : told.retry_after_s;
	response.code = why.code;
	response.error = why.msg;
	response.retry_after_s = (int)retry_after;
	/* what a failure left is not pruned and may be cut off */
	if (call->answer.data && !(why.code && (call->keep || !refused))) {
		response.body = call->answer.data;
		response.len = call->answer.len;
	}
	call->on_done(call->arg, &response);
	call_free(call);
}

static void begin_call(struct gq_api *api, struct call *call)
{
	struct gq_err why = {0};
	int code = gq_transport_request(api->transport, call->path, call->content_type, &call->use,
					&call->easy, &call->headers, &why);

	call->no_token = code == GQ_EIO;
	if (!code && (set_method(call->easy, call) || set_callbacks(call->easy, call) ||
		      curl_multi_add_handle(api->multi, call->easy)))
		code = gq_fail(&why, GQ_ENOMEM, "out of memory");
	if (code) {
		end_call(api, call, &why);
		return;
	}
	call->next = api->running;
	if (call->next)
		call->next->prev_next = &call->next;
	call->prev_next = &api->running;
	api->running = call;
}

static void unlink_call(struct call *call)
{
	*call->prev_next = call->next;
	if (call->next)
		call->next->prev_next = call->prev_next;
}

/* Takes the whole queue. Returns whether to go on. */
static bool take_queue(struct gq_api *api, struct call **ret_queue)
{
	gq_lock_take(&api->lock);
	*ret_queue = api->queue;
	api->queue = NULL;
	api->queue_end = &api->queue;
	bool go_on = !api->stop;
	gq_lock_release(&api->lock);
	return go_on;
}

static bool reap(struct gq_api *api)
{
	struct CURLMsg *msg;
	bool any = false;
	int left;

	while ((msg = curl_multi_info_read(api->multi, &left))) {
		struct call *call = NULL;
		CURLcode rc = msg->data.result;
		struct gq_err broke = {0};
		if (msg->msg != CURLMSG_DONE ||
		    curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&call) || !call)
			continue;
		if (rc)
			(void)gq_transport_fail(&broke, rc, call->error);
		unlink_call(call);
		end_call(api, call, rc ? &broke : NULL);
		any = true;
	}
	return any;
}

static int64_t now_ns(void)
{
	return gq_clock_mono_ns(&gq_clock_real);
}

/* Those that are due now; what they add has its turn after the transfers. */
static void run_timers(struct gq_api *api)
{
	int64_t now = now_ns();
	struct gq_timer timer;

	gq_lock_take(&api->lock);
	uint64_t before = api->timers.added;
	while (!api->stop && gq_timers_take(&api->timers, now, before, &timer)) {
		gq_lock_release(&api->lock);
		timer.on_due(timer.arg);
		gq_lock_take(&api->lock);
	}
	gq_lock_release(&api->lock);
}

/* How long the thread may sleep. */
static int timeout_ms(struct gq_api *api)
{
	gq_lock_take(&api->lock);
	int64_t next = gq_timers_next_ns(&api->timers);
	gq_lock_release(&api->lock);
	if (next == INT64_MAX)
		return POLL_MAX_MS;
	int64_t left = next - now_ns();
	if (left <= 0)
		return 0;
	left = left / GQ_NS_PER_MS + (left % GQ_NS_PER_MS != 0);
	return left < POLL_MAX_MS ? (int)left : POLL_MAX_MS;
}

static void *run(void *arg)
{
	struct gq_api *api = arg;
	struct call *queue, *next;
	struct gq_err stopped = {0};
	int running;

	gq_transport_block_signals();
	(void)gq_fail(&stopped, GQ_EIO, "the API client was stopped");
	while (take_queue(api, &queue)) {
		for (; queue; queue = next) {
			next = queue->next;
			begin_call(api, queue);
		}
		run_timers(api);
		(void)curl_multi_perform(api->multi, &running);
		(void)curl_multi_poll(api->multi, NULL, 0, reap(api) ? 0 : timeout_ms(api), NULL);
	}
	for (; queue; queue = next) {
		next = queue->next;
		end_call(api, queue, &stopped);
	}
	while (api->running) {
		struct call *call = api->running;
		unlink_call(call);
		end_call(api, call, &stopped);
	}
	return NULL;
}

int gq_api_new(const struct gq_kubeconfig *config, const char *user_agent, struct gq_api **ret_api,
	       struct gq_err *err)
{
	struct gq_transport *transport = NULL;
	int code = gq_transport_new(config, NULL, user_agent, &transport, err);

	if (code)
		return code;
	struct gq_api *api = calloc(1, sizeof *api);
	CURLM *multi = curl_multi_init();
	if (api && multi) {
		api->transport = transport;
		api->multi = multi;
		api->queue_end = &api->queue;
		(void)curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
		gq_lock_init(&api->lock, GQ_RANK_LEAF);
		if (pthread_create(&api->thread, NULL, run, api) == 0) {
			*ret_api = api;
			return 0;
		}
		gq_lock_done(&api->lock);
	}
	if (multi)
		(void)curl_multi_cleanup(multi);
	free(api);
	gq_transport_free(transport);
	return gq_fail(err, GQ_ENOMEM, "can't start the API client: out of memory or threads");
}

void gq_api_stop(struct gq_api *api)
{
	if (!api)
		return;
	gq_lock_take(&api->lock);
	bool stopped = api->stop;
	api->stop = true;
	gq_lock_release(&api->lock);
	if (stopped)
		return;
	(void)curl_multi_wakeup(api->multi);
	(void)pthread_join(api->thread, NULL);
}

void gq_api_free(struct gq_api *api)
{
	if (!api)
		return;
	gq_api_stop(api);
	(void)curl_multi_cleanup(api->multi);
	gq_transport_free(api->transport);
	gq_timers_done(&api->timers);
	gq_lock_done(&api->lock);
	free(api);
}

struct gq_credential *gq_api_credential(struct gq_api *api)
{
	return gq_transport_credential(api->transport);
}

static const char *known_method(const char *method)
{
	for (size_t i = 0; method && i < sizeof methods / sizeof *methods; i++)
		if (strcmp(methods[i], method) == 0)
			return methods[i];
	return NULL;
}

static bool is_path(const char *path)
{
	if (!path || path[0] != '/' || strlen(path) > PATH_MAX_BYTES)
		return false;
	for (; *path; path++)
		if ((unsigned char)*path <= ' ' || *path == 0x7f || *path == '#')
			return false;
	return true;
}

static int copy_request(const struct gq_api_request *request, struct call *call)
{
	call->method = known_method(request->method);
	call->keep = request->keep;
	call->max_bytes = request->max_bytes ? request->max_bytes : BODY_MAX_BYTES;
	call->timeout_ns = request->timeout_ns;
	call->on_done = request->on_done;
	call->arg = request->arg;
	call->path = strdup(request->path);
	if (!call->path)
		return GQ_ENOMEM;
	if (request->content_type && !(call->content_type = strdup(request->content_type)))
		return GQ_ENOMEM;
	if (!request->body)
		return 0;
	call->body = malloc(request->body_len + 1);
	if (!call->body)
		return GQ_ENOMEM;
	memcpy(call->body, request->body, request->body_len);
	call->body[request->body_len] = '\0';
	call->body_len = request->body_len;
	return 0;
}

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	if (!known_method(request->method) || !is_path(request->path) || !request->on_done ||
	    request->timeout_ns <= 0 || (request->body && !request->content_type) ||
	    (request->content_type && !gq_secret_is_header_value(request->content_type)))
		return gq_fail(err, GQ_EINVALID,
			       "a request needs a known method, a path, a timeout, on_done and the "
			       "type of its body");
	GQ_CLEANUP(cleanup_call) struct call *call = calloc(1, sizeof *call);
	if (!call || copy_request(request, call))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	gq_lock_take(&api->lock);
	bool stop = api->stop;
	if (!stop) {
		*api->queue_end = call;
		api->queue_end = &call->next;
		call = NULL;
	}
	gq_lock_release(&api->lock);
	if (stop)
		return gq_fail(err, GQ_EINVALID, "the API client was stopped");
	(void)curl_multi_wakeup(api->multi);
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	int64_t now = now_ns();
	int64_t due = delay_ns <= 0 ? now : delay_ns > INT64_MAX - now ? INT64_MAX : now + delay_ns;
	int code = 0;

	gq_lock_take(&api->lock);
	bool stop = api->stop, first = due < gq_timers_next_ns(&api->timers);
	if (!stop)
		code = gq_timers_add(&api->timers, due, on_due, arg);
	gq_lock_release(&api->lock);
	if (stop)
		return gq_fail(err, GQ_EINVALID, "the API client was stopped");
	if (code)
		return gq_fail(err, code, code == GQ_ENOMEM ? "out of memory" : "too many timers");
	if (first)
		(void)curl_multi_wakeup(api->multi);
	return 0;
}

/* Somebody who waits for an answer. */
struct waiter {
	struct gq_lock lock;
	pthread_cond_t answered;
	bool done;
	struct gq_buf *out;
	long status;
	int code;
	struct gq_err err;
};

static void on_answer(void *arg, const struct gq_api_response *response)
{
	struct waiter *waiter = arg;

	gq_lock_take(&waiter->lock);
	waiter->status = response->status;
	waiter->code = response->code;
	if (response->code)
		(void)gq_fail(&waiter->err, response->code, "%s", response->error);
	if (waiter->out && gq_buf_append(waiter->out, response->body, response->len) &&
	    !waiter->code)
		waiter->code = gq_fail(&waiter->err, waiter->out->code, "the answer is too large");
	waiter->done = true;
	pthread_cond_signal(&waiter->answered);
	gq_lock_release(&waiter->lock);
}

int gq_api_call(struct gq_api *api, const struct gq_api_request *request, struct gq_buf *out,
		long *ret_status, struct gq_err *err)
{
	struct waiter waiter = {.out = out};
	struct gq_api_request mine = *request;

	if (pthread_equal(pthread_self(), api->thread))
		return gq_fail(err, GQ_EINVALID, "a callback can't wait for an answer");
	gq_lock_init(&waiter.lock, GQ_RANK_LEAF);
	if (pthread_cond_init(&waiter.answered, NULL)) {
		gq_lock_done(&waiter.lock);
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	}
	mine.on_done = on_answer;
	mine.arg = &waiter;
	int code = gq_api_start(api, &mine, err);
	if (!code) {
		gq_lock_take(&waiter.lock);
		while (!waiter.done)
			pthread_cond_wait(&waiter.answered, &waiter.lock.mutex);
		gq_lock_release(&waiter.lock);
		code = waiter.code;
		if (code && err)
			*err = waiter.err;
		if (ret_status)
			*ret_status = waiter.status;
	}
	pthread_cond_destroy(&waiter.answered);
	gq_lock_done(&waiter.lock);
	return code;
}
