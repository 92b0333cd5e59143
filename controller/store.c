#include "controller/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "controller/feed.h"

/* How many questions about reservations may be under way. */
#define PROBES_MAX 64
#define PROBE_TIMEOUT_NS (10 * GQ_NS_PER_S)

struct gq_store {
	struct gq_ledger *ledger;
	struct gq_api *api;
	const struct gq_clock *clock;
	atomic_size_t probing;
};

struct gq_store *gq_store_new(struct gq_ledger *ledger, struct gq_api *api,
			      const struct gq_clock *clock)
{
	struct gq_store *store = calloc(1, sizeof *store);

	if (!store)
		return NULL;
	store->ledger = ledger;
	store->api = api;
	store->clock = clock;
	return store;
}

void gq_store_free(struct gq_store *store)
{
	free(store);
}

/* ---- reads for decisions ---- */

struct read_call {
	struct gq_read *read;
	void (*done)(void *done_arg);
	void *done_arg;
};

static void on_read(void *arg, const struct gq_api_response *response)
{
	struct read_call call = *(struct read_call *)arg;

	free(arg);
	/* of 401 nothing follows about the object */
	call.read->code = response->unauthorized ? GQ_EIO : response->code;
	if (response->code == 0) {
		call.read->body = malloc(response->len + 1);
		if (call.read->body) {
			memcpy(call.read->body, response->body, response->len);
			call.read->body[response->len] = '\0';
			call.read->len = response->len;
		} else {
			call.read->code = GQ_ENOMEM;
		}
	}
	call.done(call.done_arg);
}

void gq_store_read(struct gq_store *store, struct gq_read *read, int64_t timeout_ns,
		   void (*done)(void *done_arg), void *done_arg)
{
	struct read_call *call = malloc(sizeof *call);
	struct gq_err err;
	int code = GQ_ENOMEM;

	if (call) {
		*call = (struct read_call){.read = read, .done = done, .done_arg = done_arg};
		const struct gq_api_request request = {.method = "GET",
						       .path = read->path,
						       .keep = read->keep,
						       .timeout_ns = timeout_ns,
						       .on_done = on_read,
						       .arg = call};
		code = gq_api_start(store->api, &request, &err);
		if (!code)
			return;
		gq_log(GQ_LOG_WARN, "an object that a decision needs could not be asked for",
		       GQ_S("path", read->path), GQ_S("problem", err.msg));
		free(call);
	}
	read->code = code;
	done(done_arg);
}

/* ---- questions about reservations ---- */

struct probe_call {
	struct gq_store *store;
	struct gq_probe probe;
	int64_t begun_ns;
};

static void probe_end(struct probe_call *call, enum gq_probe_outcome outcome,
		      const struct gq_pod *pod)
{
	struct gq_store *store = call->store;
	struct gq_err err;

	if (gq_ledger_probe_done(store->ledger, call->probe.uid, outcome, pod, call->begun_ns,
				 gq_clock_mono_ns(store->clock), &err))
		gq_log(GQ_LOG_ERROR, "a pod that was read could not be charged",
		       GQ_S("problem", err.msg));
	atomic_fetch_sub(&store->probing, 1);
	free(call);
}

static void on_probe(void *arg, const struct gq_api_response *response)
{
	struct probe_call *call = arg;
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;
	struct gq_err err, why;

	if (response->code == GQ_ENOTFOUND) {
		probe_end(call, GQ_PROBE_ABSENT, NULL);
		return;
	}
	if (response->code) {
		gq_log(GQ_LOG_WARN, "a reservation stays, since its pod could not be read",
		       GQ_S("namespace", call->probe.namespace_), GQ_S("pod", call->probe.name),
		       GQ_S("problem", response->error));
		probe_end(call, GQ_PROBE_FAILED, NULL);
		return;
	}
	int code = gq_feed_pod_decode(response->body, response->len, &pod, &why, &err);
	if (code) {
		gq_log(GQ_LOG_WARN, "a reservation stays, since its pod could not be understood",
		       GQ_S("namespace", call->probe.namespace_), GQ_S("pod", call->probe.name),
		       GQ_S("problem", err.msg));
		probe_end(call, GQ_PROBE_FAILED, NULL);
	} else if (strcmp(pod->uid, call->probe.uid) != 0) {
		probe_end(call, GQ_PROBE_ABSENT, NULL);
	} else {
		probe_end(call, GQ_PROBE_FOUND, pod);
	}
}

/* 0 or why it could not be asked; the call is over then. */
static int probe_ask(struct gq_store *store, struct probe_call *call, struct gq_err *err)
{
	const struct gq_probe *probe = &call->probe;
	char path[640];

	/* no resourceVersion: the most recent state, whatever a cache has */
	int n = snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods/%s", probe->namespace_,
			 probe->name);
	if (n < 0 || (size_t)n >= sizeof path)
		return gq_fail(err, GQ_ETOOBIG, "the pod's name is too long");
	const struct gq_api_request request = {.method = "GET",
					       .path = path,
					       .keep = gq_pod_keep,
					       .timeout_ns = PROBE_TIMEOUT_NS,
					       .on_done = on_probe,
					       .arg = call};
	return gq_api_start(store->api, &request, err);
}

static void probe_start(struct gq_store *store, const struct gq_probe *probe)
{
	struct probe_call *call = malloc(sizeof *call);
	int64_t now_ns = gq_clock_mono_ns(store->clock);
	struct gq_err err;

	atomic_fetch_add(&store->probing, 1);
	if (call) {
		*call = (struct probe_call){.store = store, .probe = *probe, .begun_ns = now_ns};
		if (probe_ask(store, call, &err) == 0)
			return;
		free(call);
	}
	atomic_fetch_sub(&store->probing, 1);
	(void)gq_ledger_probe_done(store->ledger, probe->uid, GQ_PROBE_FAILED, NULL, now_ns, now_ns,
				   &err);
}

void gq_store_probe(struct gq_store *store)
{
	struct gq_probe probes[16];
	size_t under_way;

	while ((under_way = atomic_load(&store->probing)) < PROBES_MAX) {
		size_t max = sizeof probes / sizeof probes[0];
		if (max > PROBES_MAX - under_way)
			max = PROBES_MAX - under_way;
		size_t n = gq_ledger_probes_due(store->ledger, gq_clock_mono_ns(store->clock),
						probes, max);
		for (size_t i = 0; i < n; i++)
			probe_start(store, &probes[i]);
		if (n < max)
			return;
	}
}
