#ifndef GQ_TESTS_UNIT_API_PLAYED_H
#define GQ_TESTS_UNIT_API_PLAYED_H

/* The API client, played by the test, for what writes Events. Include after <cmocka.h>, in one file
 * of a test. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "informer/api.h"
#include "tests/unit/app_testing.h"

#define CALLS_MAX 2048

/* Guards what follows while several threads are in play. */
static pthread_mutex_t played = PTHREAD_MUTEX_INITIALIZER;

static struct played_call {
	char method[8];
	char path[700];
	char content_type[64];
	char *body;
	void (*on_done)(void *arg, const struct gq_api_response *response);
	void *arg;
} calls[CALLS_MAX];
static size_t n_calls;
static int start_code;

static struct {
	int64_t due_ns;
	void (*on_due)(void *arg);
	void *arg;
} timers[16];
static size_t n_timers;
static int after_code;
static struct app_clock app_time;

int gq_api_start(struct gq_api *api, const struct gq_api_request *request, struct gq_err *err)
{
	(void)api;
	if (start_code)
		return gq_fail(err, start_code, "the test says so");
	assert_true(request->timeout_ns > 0);
	assert_non_null(request->keep);

	pthread_mutex_lock(&played);
	assert_true(n_calls < CALLS_MAX);
	struct played_call *call = &calls[n_calls++];
	*call = (struct played_call){.on_done = request->on_done, .arg = request->arg};
	(void)snprintf(call->method, sizeof call->method, "%s", request->method);
	(void)snprintf(call->path, sizeof call->path, "%s", request->path);
	(void)snprintf(call->content_type, sizeof call->content_type, "%s", request->content_type);
	call->body = strndup(request->body, request->body_len);
	pthread_mutex_unlock(&played);
	assert_non_null(call->body);
	return 0;
}

int gq_api_after(struct gq_api *api, int64_t delay_ns, void (*on_due)(void *arg), void *arg,
		 struct gq_err *err)
{
	(void)api;
	if (after_code)
		return gq_fail(err, after_code, "the test says so");
	assert_true(delay_ns >= 0);
	pthread_mutex_lock(&played);
	assert_true(n_timers < LEN(timers));
	timers[n_timers].due_ns = app_time.mono_ns + delay_ns;
	timers[n_timers].on_due = on_due;
	timers[n_timers++].arg = arg;
	pthread_mutex_unlock(&played);
	return 0;
}

static void calls_reset(void)
{
	for (size_t i = 0; i < n_calls; i++)
		free(calls[i].body);
	n_calls = n_timers = 0;
	start_code = after_code = 0;
}

/* The response's bytes go when the callback returns, as the client's do. */
static void finish(size_t i, int code)
{
	char *copy = strdup(code ? "the test says so" : "");

	pthread_mutex_lock(&played);
	assert_true(i < n_calls);
	pthread_mutex_unlock(&played);
	assert_non_null(copy);
	assert_non_null(calls[i].on_done);
	void (*on_done)(void *, const struct gq_api_response *) = calls[i].on_done;
	calls[i].on_done = NULL;
	on_done(calls[i].arg, &(struct gq_api_response){.code = code, .body = "", .error = copy});
	memset(copy, 'x', strlen(copy));
	free(copy);
}

/* The body of a request; json_object_put() it. */
static inline struct json_object *body_of(size_t i)
{
	assert_true(i < n_calls);
	return json_parse(calls[i].body, strlen(calls[i].body));
}

#endif
