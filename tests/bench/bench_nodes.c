/* What it costs to take a snapshot of the nodes and to match pods against it. Prints the fastest of
 * many rounds, since neighbours on the machine only ever slow a round down. */
#include <time.h>

#include "../unit/node_fixture.h"

#define LABEL_SETS 50
#define NAME_MAX_LEN 64
#define N(array) (sizeof(array) / sizeof((array)[0]))

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct gq_node *make_node(size_t i)
{
	static const char *const products[] = {"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB",
					       "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200",
					       "NVIDIA-L40S"};
	size_t set = i % LABEL_SETS;
	char name[NAME_MAX_LEN], labels[4096];
	int len;

	(void)snprintf(name, sizeof name, "gpu-node-%05zu.example.internal", i);
	len = snprintf(labels, sizeof labels,
		       "kubernetes.io/hostname=%s,kubernetes.io/os=linux,kubernetes.io/arch=amd64,"
		       "nvidia.com/gpu.product=%s,nvidia.com/gpu.memory=81920,"
		       "topology.kubernetes.io/zone=zone-%zu,pool.example.com/name=pool-%zu",
		       name, products[set % N(products)], set % 3, set);
	/* as many labels as feature discovery leaves on a node */
	for (int k = 0; k < 33 && len < (int)sizeof labels; k++)
		len += snprintf(labels + len, sizeof labels - (size_t)len,
				",feature.node.kubernetes.io/cpu-feature-%d=true", k);
	return fixture_node(name, labels, "nvidia.com/gpu=8",
			    set % 10 == 9 ? "dedicated=gpu:NoSchedule" : "");
}

static void bench_match(const struct gq_node_snapshot *s, const char *what,
			const struct gq_pod *pod)
{
	struct gq_candidates candidates;
	double end = now_s() + 0.3, start, best = 1;

	do {
		start = now_s();
		for (int i = 0; i < 20; i++)
			gq_node_snapshot_match(s, pod, &candidates);
		double took = (now_s() - start) / 20;
		best = took < best ? took : best;
	} while (start < end);
	printf("  match %-34s %8.0f ns (%zu candidates)\n", what, best * 1e9, candidates.n);
}

static void bench_pods(const struct gq_node_snapshot *s)
{
	static const struct gq_gpu_amount one = {"nvidia.com/gpu", GQ_GPU_COUNT, 1};
	static const struct gq_gpu_ask ask = {"main", GQ_ROLE_MAIN, &one, 1};
	static const struct gq_label product = {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"};
	static const struct gq_label host = {"kubernetes.io/hostname",
					     "gpu-node-00042.example.internal"};
	static const struct gq_label nowhere = {"nvidia.com/gpu.product", "NVIDIA-B200"};
	static const char *const hosts[] = {"gpu-node-00000.example.internal"};
	static const char *const products[] = {"NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"};
	static const struct gq_requirement in = {"nvidia.com/gpu.product", GQ_OP_IN, products, 2};
	static const struct gq_requirement not_host = {"kubernetes.io/hostname", GQ_OP_NOT_IN,
						       hosts, 1};
	static const struct gq_requirement no_host = {"kubernetes.io/hostname",
						      GQ_OP_DOES_NOT_EXIST, NULL, 0};
	static const struct gq_node_term term_in = {&in, 1, NULL, 0};
	static const struct gq_node_term term_not = {&not_host, 1, NULL, 0};
	static const struct gq_node_term term_none = {&no_host, 1, NULL, 0};
	struct gq_pod pod = {.node_name = "", .asks = &ask, .n_asks = 1};

	bench_match(s, "without a selector", &pod);
	pod.n_node_selector = 1;
	pod.node_selector = &product;
	bench_match(s, "nodeSelector product", &pod);
	pod.node_selector = &host;
	bench_match(s, "nodeSelector hostname", &pod);
	pod.node_selector = &nowhere;
	bench_match(s, "nodeSelector of no node", &pod);
	pod.n_node_selector = 0;
	pod.has_affinity = true;
	pod.n_affinity = 1;
	pod.affinity = &term_in;
	bench_match(s, "affinity product in two", &pod);
	pod.affinity = &term_not;
	bench_match(s, "affinity hostname not in one", &pod);
	pod.affinity = &term_none;
	bench_match(s, "affinity no hostname (worst case)", &pod);
}

static int bench(const struct gq_class_table *table, size_t n)
{
	struct gq_node_facts *facts = calloc(n, sizeof *facts);
	struct gq_node_snapshot *s = NULL;
	int code = -1;

	for (size_t i = 0; facts && i < n; i++) {
		struct gq_node *node = make_node(i);
		if (!node)
			goto out;
		facts[i] = (struct gq_node_facts){node, node, node->name};
	}
	double end = now_s() + 1, start, best = 1;
	do {
		gq_node_snapshot_unref(s);
		s = NULL;
		start = now_s();
		if (!facts || gq_node_snapshot_new(table, facts, n, &s, NULL))
			goto out;
		double took = now_s() - start;
		best = took < best ? took : best;
	} while (start < end);
	printf("%zu nodes of %d label sets\n  snapshot %.2f ms\n", n, LABEL_SETS, best * 1e3);
	bench_pods(s);
	code = 0;
out:
	gq_node_snapshot_unref(s);
	for (size_t i = 0; facts && i < n; i++)
		gq_node_unref(facts[i].node);
	free(facts);
	return code;
}

int main(void)
{
	GQ_CLEANUP(gq_cleanup_class_table) struct gq_class_table *table = fixture_table(NULL, 0);

	if (!table || bench(table, 100) || bench(table, 5000)) {
		(void)fprintf(stderr, "failed\n");
		return 1;
	}
	return 0;
}
