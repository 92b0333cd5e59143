/* What one decision costs, beside a ledger that holds 100, 10,000 and 100,000 pods on 5,000 nodes
 * of 50 label sets, of 20 tenants. Prints p50 and p99 of gq_decide_create() and of the rest of a
 * pod's life, and how p99 grows; and what a decision waits while everything is counted anew. Each
 * figure is the lowest of several batches, since neighbours on the machine only ever slow one down.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "../unit/node_fixture.h"
#include "base/clock.h"
#include "quota/decision.h"
#include "quota/ledger.h"

#define NODES 5000
#define LABEL_SETS 50
#define TENANTS 20
#define BATCHES 40
#define BATCH 1000
#define ROUNDS (BATCHES * BATCH)
#define WARM_UP 2000

static const char *const products[] = {"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB",
				       "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-L40S"};
#define PRODUCTS (sizeof products / sizeof products[0])

static int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * GQ_NS_PER_S + now.tv_nsec;
}

static void fail(const char *what, const struct gq_err *err)
{
	(void)fprintf(stderr, "%s: %s\n", what, err ? err->msg : "");
	exit(1);
}

static struct gq_policy *make_policy(void)
{
	struct gq_buf yaml GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_policy_problems problems = {0};
	struct gq_policy *policy = NULL;
	struct gq_err err;

	gq_buf_puts(&yaml, "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\ntenants:\n"
			   "  - {name: everybody, quota: {\"*\": {gpus: 10000000}}}\n");
	for (int t = 0; t < TENANTS; t++)
		gq_buf_printf(
		    &yaml,
		    "  - {name: t%d, parent: everybody, namespaceSelector: {matchLabels: "
		    "{team: t%d}}, quota: {A100: {gpus: 1000000, memory: 100000000Gi}, "
		    "H100: {gpus: 1000000}, H200: {gpus: 1000000}, L40S: {gpus: 1000000}, "
		    "\"*\": {gpus: 1000000}}}\n",
		    t, t);
	if (gq_policy_parse(yaml.data, yaml.len, "bench", &policy, &problems, &err))
		fail("policy", &err);
	return policy;
}

static void add_nodes(struct gq_ledger *ledger)
{
	for (int i = 0; i < NODES; i++) {
		char name[64], labels[512];
		struct gq_err err;
		int set = i % LABEL_SETS;
		(void)snprintf(name, sizeof name, "gpu-node-%05d", i);
		(void)snprintf(labels, sizeof labels,
			       "kubernetes.io/hostname=%s,nvidia.com/gpu.product=%s,"
			       "topology.kubernetes.io/zone=zone-%d,pool.example.com/name=pool-%d",
			       name, products[(size_t)set % PRODUCTS], set % 3, set);
		struct gq_node *node = fixture_node(name, labels, "nvidia.com/gpu=8", "");
		if (!node || gq_ledger_node_seen(ledger, node, &err))
			fail("node", &err);
		gq_node_unref(node);
	}
}

static void add_namespaces(struct gq_ledger *ledger)
{
	for (int n = 0; n < TENANTS * 5; n++) {
		char json[256];
		struct gq_namespace *ns = NULL;
		struct gq_err err;
		(void)snprintf(json, sizeof json,
			       "{\"metadata\":{\"name\":\"ns-%d\",\"labels\":{\"team\":\"t%d\"}}}",
			       n, n % TENANTS);
		if (gq_namespace_decode(json, strlen(json), &ns, &err) ||
		    gq_ledger_namespace_seen(ledger, ns, 0, &err))
			fail("namespace", &err);
		gq_namespace_unref(ns);
	}
}

/* Every third pod may land on two models, every tenth on any. */
static struct gq_pod *make_pod(const char *name, int i, bool bound)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 14);
	struct gq_pod *pod = NULL;
	struct gq_err err;
	size_t product = (size_t)i % PRODUCTS;

	gq_buf_printf(&json,
		      "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns-%d\",\"uid\":\"%s\"},"
		      "\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{"
		      "\"nvidia.com/gpu\":\"1\"}}}]",
		      name, i % (TENANTS * 5), name);
	if (i % 3 == 0)
		gq_buf_printf(
		    &json,
		    ",\"affinity\":{\"nodeAffinity\":{"
		    "\"requiredDuringSchedulingIgnoredDuringExecution\":{"
		    "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":"
		    "\"nvidia.com/gpu.product\",\"operator\":\"In\",\"values\":[\"%s\",\"%s\"]}"
		    "]}]}}}",
		    products[product], products[(product + 1) % PRODUCTS]);
	else if (i % 10)
		gq_buf_printf(&json, ",\"nodeSelector\":{\"nvidia.com/gpu.product\":\"%s\"}",
			      products[product]);
	if (bound) /* a node of that product */
		gq_buf_printf(&json, ",\"nodeName\":\"gpu-node-%05d\"",
			      (int)product + (i / 5 % (NODES / 5)) * 5);
	gq_buf_puts(&json, "},\"status\":{\"phase\":\"Pending\"}}");
	if (json.code || gq_pod_decode(json.data, json.len, NULL, &pod, &err))
		fail("pod", &err);
	return pod;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

struct times {
	int64_t decide[ROUNDS], rest[ROUNDS];
};

static double at(int64_t *times, size_t n, double part)
{
	qsort(times, n, sizeof *times, by_value);
	return (double)times[(size_t)((double)(n - 1) * part)] / 1000;
}

static double best_of_batches(int64_t *times, double part)
{
	double best = at(times, BATCH, part);

	for (int b = 1; b < BATCHES; b++) {
		double one = at(times + (ptrdiff_t)b * BATCH, BATCH, part);
		best = one < best ? one : best;
	}
	return best;
}

/* One pod from request to end. Returns the time that the decision took. */
static int64_t cycle(struct gq_ledger *ledger, int i, int64_t *ret_rest_ns)
{
	static struct gq_reads reads;
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	struct gq_err err;
	char name[32];

	(void)snprintf(name, sizeof name, "new-%d", i);
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = make_pod(name, i, false);
	struct gq_pod *bound GQ_CLEANUP(gq_cleanup_pod) = make_pod(name, i, true);
	int64_t start = clock_ns();
	const struct gq_create create = {.pod = pod,
					 .request_uid = name,
					 .user = "system:serviceaccount:kube-system:job-controller",
					 .now_ns = start,
					 .deadline_ns = start + 10 * GQ_NS_PER_S,
					 .reads = &reads};
	if (gq_decide_create(ledger, &create, &verdict, &err))
		fail("decision", &err);
	int64_t decided = clock_ns();
	if (verdict.kind != GQ_VERDICT_ALLOW || !verdict.ticket)
		fail(verdict.message.data ? verdict.message.data : "no ticket", NULL);
	gq_ledger_commit(ledger, verdict.ticket, decided);
	if (gq_ledger_pod_seen(ledger, pod, decided, &err) ||
	    gq_ledger_pod_seen(ledger, bound, decided, &err))
		fail("pod", &err);
	gq_ledger_pod_gone(ledger, pod->uid, decided);
	*ret_rest_ns = clock_ns() - decided;
	return decided - start;
}

struct counting {
	struct gq_ledger *ledger;
	atomic_int left;
	int64_t took_ns;
};

static void *count_anew(void *arg)
{
	struct counting *counting = arg;
	struct gq_err err;

	while (atomic_load(&counting->left) > 0) {
		int64_t start = clock_ns();
		struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
		if (gq_ledger_recount(counting->ledger, start, &drift, &err) || drift.n_limits)
			fail("recount", &err);
		counting->took_ns = clock_ns() - start;
		atomic_fetch_sub(&counting->left, 1);
	}
	return NULL;
}

static void bench_while_counting(struct gq_ledger *ledger, struct times *times)
{
	struct counting counting = {.ledger = ledger, .left = 5};
	pthread_t thread;
	size_t n = 0;
	int64_t rest;

	if (pthread_create(&thread, NULL, count_anew, &counting))
		fail("thread", NULL);
	while (atomic_load(&counting.left) > 0 && n < ROUNDS)
		times->decide[n] = cycle(ledger, (int)n, &rest), n++;
	pthread_join(thread, NULL);
	printf("  while counting anew (%.0f ms each): %zu decisions, p50 %.1f us, p99 %.1f us, "
	       "longest %.1f us\n",
	       (double)counting.took_ns / 1e6, n, at(times->decide, n, 0.5),
	       at(times->decide, n, 0.99), at(times->decide, n, 1));
}

static double bench(const struct gq_policy *policy, int pods, struct times *times)
{
	struct gq_ledger *ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	struct gq_err err;
	int64_t rest;

	if (!ledger || gq_ledger_set_policy(ledger, policy, 0, &err))
		fail("ledger", &err);
	add_nodes(ledger);
	if (gq_ledger_nodes_settle(ledger, 0, &err))
		fail("nodes", &err);
	add_namespaces(ledger);
	gq_ledger_set_synced(ledger);
	for (int i = 0; i < pods; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "pod-%d", i);
		struct gq_pod *pod = make_pod(name, i, i % 4 != 0);
		if (gq_ledger_pod_seen(ledger, pod, 0, &err))
			fail("pod", &err);
		gq_pod_unref(pod);
	}
	for (int i = 0; i < WARM_UP; i++)
		(void)cycle(ledger, i, &rest);
	for (int i = 0; i < ROUNDS; i++)
		times->decide[i] = cycle(ledger, i, &times->rest[i]);
	double p99 = best_of_batches(times->decide, 0.99);
	printf(
	    "%6d pods: decision p50 %.1f us, p99 %.1f us; commit, seen, bound, gone p50 %.1f us, "
	    "p99 %.1f us\n",
	    pods, best_of_batches(times->decide, 0.5), p99, best_of_batches(times->rest, 0.5),
	    best_of_batches(times->rest, 0.99));
	bench_while_counting(ledger, times);
	gq_ledger_free(ledger);
	return p99;
}

int main(void)
{
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = make_policy();
	struct times *times = malloc(sizeof *times);

	if (!times)
		return 1;
	double few = bench(policy, 100, times);
	(void)bench(policy, 10000, times);
	double many = bench(policy, 100000, times);
	printf("p99 at 100000 pods / at 100: %.2f (goal: at most 1.5)\n", many / few);
	free(times);
	return 0;
}
