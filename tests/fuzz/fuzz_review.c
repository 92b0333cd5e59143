/* A request body on its whole way: review, pod, decision against a ledger, answer. Whatever comes,
 * it is answered once and with valid JSON; what is not allowed leaves nothing behind; what is
 * allowed either asks for no GPU or fits, and is charged. The input is read a second time here, by
 * json-c alone and without the decoders, to say what it asks for. */
#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "webhook/admission.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS (1000 * GQ_NS_PER_S)
#define NOW_S INT64_C(1800000000)
#define LIMIT_GPUS 4
#define HELD_GPUS 2 /* by the pod a-train/base */

static void check(int ok)
{
	if (!ok)
		abort();
}

/* ---- what is around the decision ---- */

struct gq_request {
	const char *path;
	const uint8_t *data;
	size_t size;
	void *state;
	void (*free_state)(void *state);
	int retry;
	int answers, status;
	char *body;
};

void gq_log_emit(enum gq_log_level level, const char *msg, const struct gq_log_field *fields)
{
	(void)level;
	(void)msg;
	(void)fields;
}

const char *gq_request_path(const struct gq_request *request)
{
	return request->path;
}

const char *gq_request_query(const struct gq_request *request)
{
	(void)request;
	return "timeout=10s";
}

const char *gq_request_body(const struct gq_request *request, size_t *ret_len)
{
	*ret_len = request->size;
	return (const char *)request->data;
}

int64_t gq_request_received_ns(const struct gq_request *request)
{
	(void)request;
	return NOW_NS;
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
	(void)request;
	return false;
}

void gq_request_retry(struct gq_request *request, int64_t delay_ns)
{
	check(delay_ns >= 0 && !request->retry);
	request->retry = 1;
}

void gq_request_answer(struct gq_request *request, const struct gq_answer *answer)
{
	request->answers++;
	request->status = answer->status;
	request->body = malloc(answer->len + 1);
	check(request->body != NULL);
	memcpy(request->body, answer->body, answer->len);
	request->body[answer->len] = '\0';
	check(strlen(request->body) == answer->len);
	if (request->state)
		request->free_state(request->state);
	request->state = NULL;
}

static int64_t mono_ns(void *arg)
{
	(void)arg;
	return NOW_NS;
}

static int64_t wall_s(void *arg)
{
	(void)arg;
	return NOW_S;
}

static const struct gq_clock fixed_clock = {mono_ns, wall_s, NULL};

/* Namespaces that begin with b are team-b's; there are no claims. */
static void answer_read(void *arg, struct gq_read *read, int64_t timeout_ns,
			void (*done)(void *done_arg), void *done_arg)
{
	(void)arg;
	check(timeout_ns > 0 && strncmp(read->path, "/api", 4) == 0);
	read->code = GQ_ENOTFOUND;
	const char *name = strrchr(read->path, '/') + 1;
	if (read->kind == GQ_READ_NAMESPACE && name[0] == 'b') {
		char json[512];
		int n =
		    snprintf(json, sizeof json,
			     "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"team\":\"b\"}}}", name);
		read->code = 0;
		read->body = strdup(json);
		read->len = (size_t)n;
	}
	done(done_arg);
}

static void commit(void *arg, uint64_t ticket, int64_t deadline_ns,
		   void (*done)(void *done_arg, int code), void *done_arg)
{
	(void)deadline_ns;
	gq_ledger_commit(arg, ticket, NOW_NS);
	done(done_arg, 0);
}

static const char policy_yaml[] = "apiVersion: config.gpuquota.io/v1alpha1\n"
				  "kind: QuotaPolicy\n"
				  "exempt: {namespaces: [kube-system]}\n"
				  "tenants:\n"
				  "  - name: team-a\n"
				  "    namespaces: [a-train, a-serve, default]\n"
				  "    quota: {A100: {gpus: 4}}\n"
				  "  - name: team-b\n"
				  "    namespaceSelector: {matchLabels: {team: b}}\n"
				  "    quota: {A100: {gpus: 4}}\n";
static const char node_json[] =
    "{\"metadata\":{\"name\":\"a1\",\"uid\":\"n\",\"labels\":{\"nvidia.com/gpu.product\":"
    "\"NVIDIA-A100-SXM4-80GB\"}},\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"8\"}}}";
static const char base_json[] =
    "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"base\",\"uid\":\"base\"},\"spec\":"
    "{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}";

static void see_base(struct gq_ledger *ledger)
{
	struct gq_pod *pod = NULL;

	check(gq_pod_decode(base_json, sizeof base_json - 1, NULL, &pod, NULL) == 0);
	check(gq_ledger_pod_seen(ledger, pod, NOW_NS, NULL) == 0);
	gq_pod_unref(pod);
}

static struct gq_ledger *ledger_new(void)
{
	struct gq_ledger *ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	struct gq_policy_problems problems = {0};
	struct gq_policy *policy = NULL;
	struct gq_node *node = NULL;

	check(ledger != NULL);
	check(gq_policy_parse(policy_yaml, sizeof policy_yaml - 1, "h", &policy, &problems, NULL) ==
	      0);
	check(gq_ledger_set_policy(ledger, policy, NOW_NS, NULL) == 0);
	check(gq_node_decode(node_json, sizeof node_json - 1, &node, NULL) == 0);
	check(gq_ledger_node_seen(ledger, node, NULL) == 0);
	check(gq_ledger_nodes_settle(ledger, NOW_NS, NULL) == 0);
	see_base(ledger);
	gq_ledger_set_synced(ledger);
	gq_node_unref(node);
	gq_policy_unref(policy);
	return ledger;
}

/* Pods charged; no tenant may hold more than its limit. */
static size_t charges(struct gq_ledger *ledger)
{
	struct gq_usage usage = {0};
	size_t n = 0;

	check(gq_ledger_usage(ledger, NOW_NS, NOW_S, &usage, NULL) == 0);
	for (int s = 0; s < GQ_STATES; s++)
		n += usage.charges[s];
	for (size_t t = 0; t < usage.n_tenants; t++) {
		int64_t shares = 0;
		for (int s = 0; s < GQ_STATES; s++)
			shares += usage.tenants[t].limits[0].used[s].shares;
		check(shares >= 0 && shares <= LIMIT_GPUS * GQ_SHARES_PER_GPU);
	}
	gq_usage_done(&usage);
	return n;
}

/* ---- what the input says ---- */

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (json_object_is_type(object, json_type_object))
		(void)json_object_object_get_ex(object, key, &value);
	return value;
}

static const char *text(struct json_object *object, const char *key)
{
	struct json_object *value = member(object, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

struct asked {
	int64_t gpus;  /* nvidia.com/gpu of the containers */
	int others;    /* some other name that has gpu or mig- in it */
	int supported; /* … which this version counts: HAMi's */
};

/* A plain count of one to nine digits, else 0: this only judges what is clear. */
static int64_t plain_count(struct json_object *value)
{
	const char *digits = value ? json_object_get_string(value) : "";
	size_t len = digits ? strlen(digits) : 0;

	if (len == 0 || len > 9 || strspn(digits, "0123456789") != len)
		return 0;
	return strtol(digits, NULL, 10);
}

static void ask_of(struct json_object *resources, struct asked *asked)
{
	struct json_object *limits = member(resources, "limits");
	struct json_object *requests = member(resources, "requests");
	struct json_object *maps[] = {limits, requests};
	struct json_object *count = member(requests, "nvidia.com/gpu");

	asked->gpus += plain_count(count ? count : member(limits, "nvidia.com/gpu"));
	for (int i = 0; i < 2; i++) {
		if (!json_object_is_type(maps[i], json_type_object))
			continue;
		json_object_object_foreach(maps[i], name, value)
		{
			(void)value;
			if (strcmp(name, "nvidia.com/gpu") == 0)
				continue;
			if (strncmp(name, "nvidia.com/gpu", 14) == 0)
				asked->supported = 1;
			if (strncmp(name, "nvidia.com/mig-", 15) == 0 && plain_count(value) > 0)
				asked->others = 1;
		}
	}
}

static struct asked asked_by(struct json_object *pod)
{
	struct json_object *containers = member(member(pod, "spec"), "containers");
	struct asked asked = {0};

	for (size_t i = 0; json_object_is_type(containers, json_type_array) &&
			   i < json_object_array_length(containers);
	     i++)
		ask_of(member(json_object_array_get_idx(containers, i), "resources"), &asked);
	return asked;
}

static const char *namespace_of(struct json_object *request)
{
	const char *ns = text(request, "namespace");

	return ns[0] ? ns : text(member(member(request, "object"), "metadata"), "namespace");
}

/* Whether the namespace is one of the two tenants' here. */
static int of_tenant(const char *ns)
{
	return strcmp(ns, "a-train") == 0 || strcmp(ns, "a-serve") == 0 ||
	       strcmp(ns, "default") == 0 || ns[0] == 'b';
}

static void check_allowed(struct json_object *request, size_t before, size_t after)
{
	struct json_object *resource = member(request, "resource");
	struct json_object *pod = member(request, "object");

	if (strcmp(text(request, "operation"), "CREATE") != 0 || text(resource, "group")[0] ||
	    strcmp(text(resource, "resource"), "pods") != 0 || text(request, "subResource")[0]) {
		check(after == before);
		return;
	}
	const struct asked asked = asked_by(pod);
	const char *ns = namespace_of(request);
	int again = strcmp(text(member(pod, "metadata"), "uid"), "base") == 0;
	int same_name = strcmp(ns, "a-train") == 0 &&
			strcmp(text(member(pod, "metadata"), "name"), "base") == 0;
	int64_t room = LIMIT_GPUS - (ns[0] == 'a' || ns[0] == 'd' ? HELD_GPUS : 0);
	if (!of_tenant(ns) || again) {
		check(after == before);
		return;
	}
	check(!asked.others);
	if (asked.gpus > 0) {
		check(asked.supported || asked.gpus <= (same_name ? LIMIT_GPUS : room));
		check(after == before + !json_object_get_boolean(member(request, "dryRun")));
	}
}

/* ---- one request ---- */

static struct gq_request run(struct gq_admission *admission, const char *path, const uint8_t *data,
			     size_t size)
{
	struct gq_request request = {.path = path, .data = data, .size = size};

	for (int i = 0; !request.answers; i++) {
		check(i < 50); /* nothing is waited for here, and reads are few */
		check(i == 0 || request.retry);
		request.retry = 0;
		gq_admission_handle(admission, &request);
	}
	check(request.answers == 1 && !request.retry);
	check(request.status == 200 || request.status == 400);
	return request;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gq_ledger *ledger;
	static struct gq_admission *admission;

	if (!ledger) {
		ledger = ledger_new();
		admission = gq_admission_new(
		    &(struct gq_admission_options){.ledger = ledger,
						   .clock = &fixed_clock,
						   .policy_namespace = "gpuquota-system",
						   .policy_name = "gpuquota-policy",
						   .read = answer_read,
						   .commit = commit,
						   .arg = ledger});
		check(admission != NULL);
	}
	size_t before = charges(ledger);
	check(before == 1);
	struct json_tokener *tokener = json_tokener_new_ex(200);
	struct json_object *input = json_tokener_parse_ex(tokener, (const char *)data, (int)size);
	json_tokener_free(tokener);
	struct json_object *asked = member(input, "request");

	struct gq_request request = run(admission, "/validate", data, size);
	struct json_object *answer = json_tokener_parse(request.body);
	struct json_object *response = member(answer, "response");
	size_t after = charges(ledger);
	check(json_object_is_type(answer, json_type_object));
	if (request.status == 400) {
		check(text(answer, "error")[0] != '\0' && after == before);
	} else {
		int allowed = json_object_get_boolean(member(response, "allowed"));
		check(json_object_is_type(input, json_type_object));
		check(strcmp(text(response, "uid"), text(asked, "uid")) == 0);
		if (allowed)
			check_allowed(asked, before, after);
		else
			check(after == before &&
			      text(member(response, "status"), "message")[0] != '\0');
	}
	if (after != before ||
	    strcmp(text(member(member(asked, "object"), "metadata"), "uid"), "base") == 0) {
		gq_ledger_pod_gone(ledger, text(member(member(asked, "object"), "metadata"), "uid"),
				   NOW_NS);
		see_base(ledger);
	}
	gq_ledger_namespace_gone(ledger, namespace_of(asked));
	check(charges(ledger) == before);
	json_object_put(answer);
	free(request.body);

	request = run(admission, "/validate-policy", data, size);
	answer = json_tokener_parse(request.body);
	check(json_object_is_type(answer, json_type_object));
	json_object_put(answer);
	free(request.body);
	json_object_put(input);
	return 0;
}
