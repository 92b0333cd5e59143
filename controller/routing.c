#include "controller/routing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quota/object.h"

struct gq_routing {
	struct gq_routing_options options;
};

struct gq_routing *gq_routing_new(const struct gq_routing_options *options)
{
	struct gq_routing *routing = calloc(1, sizeof *routing);

	if (routing)
		routing->options = *options;
	return routing;
}

void gq_routing_free(struct gq_routing *routing)
{
	free(routing);
}

struct call {
	void (*done)(void *arg, int code);
	void *arg;
};

static void on_patched(void *arg, const struct gq_api_response *response)
{
	struct call call = *(struct call *)arg;

	free(arg);
	if (call.done)
		call.done(call.arg, response->code);
}

static void patch(struct gq_routing *routing, const char *body, void (*done)(void *arg, int code),
		  void *arg)
{
	char path[600];
	struct call *call = malloc(sizeof *call);
	struct gq_err err;
	int code = GQ_ENOMEM;

	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s",
		       routing->options.namespace_, routing->options.identity);
	if (call) {
		*call = (struct call){done, arg};
		code = gq_api_start(
		    routing->options.api,
		    &(struct gq_api_request){.method = "PATCH",
					     .path = path,
					     .content_type = "application/merge-patch+json",
					     .body = body,
					     .body_len = strlen(body),
					     .timeout_ns = 2 * GQ_NS_PER_S,
					     .on_done = on_patched,
					     .arg = call},
		    &err);
	}
	if (code) {
		free(call);
		if (done)
			done(arg, code);
	}
}

void gq_routing_leave(struct gq_routing *routing)
{
	patch(routing, "{\"metadata\":{\"labels\":{\"" GQ_LEADER_LABEL "\":null}}}", NULL, NULL);
}

void gq_routing_take(struct gq_routing *routing)
{
	patch(routing, "{\"metadata\":{\"labels\":{\"" GQ_LEADER_LABEL "\":\"true\"}}}", NULL,
	      NULL);
}

void gq_routing_barrier(struct gq_routing *routing, const char *nonce,
			void (*done)(void *arg, int code), void *arg)
{
	char body[512];

	(void)snprintf(body, sizeof body,
		       "{\"metadata\":{\"annotations\":{\"" GQ_BARRIER_ANNOTATION "\":\"%s\"}}}",
		       nonce);
	patch(routing, body, done, arg);
}
