/* A Lease of raw bytes as the answer to each request of an election: what is written is JSON with
 * our name in it, and nobody leads by a Lease that says that another holds it. */
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "controller/election.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_body(const struct gq_election_request *request)
{
	struct json_object *root = NULL, *spec = NULL, *field = NULL;

	check(request->timeout_ns > 0 && request->path[0] == '/');
	if (!request->body)
		return;
	check(strlen(request->body) == request->body_len);
	root = json_tokener_parse(request->body);
	check(json_object_object_get_ex(root, "spec", &spec));
	check(json_object_object_get_ex(spec, "holderIdentity", &field));
	check(strcmp(json_object_get_string(field), "pod-a") == 0);
	check(json_object_object_get_ex(spec, "leaseTransitions", &field));
	check(json_object_get_int64(field) >= 0 && json_object_get_int64(field) <= INT32_MAX);
	check(json_object_object_get_ex(spec, "acquireTime", &field));
	check(json_object_get_string_len(field) > 0);
	json_object_put(root);
}

/* The first requests, every one answered by the same bytes. */
static void play(const char *body, size_t len)
{
	const struct gq_election_options options = {
	    .namespace_ = "n", .name = "l", .identity = "pod-a"};
	struct gq_election *election GQ_CLEANUP(gq_cleanup_election) = NULL;
	struct gq_election_request request;
	int64_t now_ns = GQ_NS_PER_S, free_ns = now_ns;

	if (gq_election_new(&options, &election, NULL))
		return;
	for (int i = 0; i < 12; i++) {
		int64_t due_ns = gq_election_deadline(election);
		check(due_ns < INT64_MAX);
		now_ns = due_ns > now_ns ? due_ns : now_ns;
		if (!gq_election_begin(election, now_ns, now_ns, &request))
			continue;
		check_body(&request);
		/* another's Lease is not written before a second has passed */
		check(!request.body || now_ns >= free_ns);
		gq_election_end(election, now_ns, 0, body, len);
		const char *holder = gq_election_holder(election);
		bool ours = strcmp(holder, "pod-a") == 0;
		if (i == 0 && *holder && !ours)
			free_ns = now_ns + GQ_NS_PER_S;
		check(ours || !gq_election_leads(election, now_ns));
	}
	gq_election_release(election, now_ns);
	check(!gq_election_leads(election, now_ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_LEASE_MAX_BYTES);

	play((const char *)data, size);
	if (gq_json_prune((const char *)data, size, gq_lease_keep, &pruned, NULL) == 0)
		play(pruned.data, pruned.len);
	return 0;
}
