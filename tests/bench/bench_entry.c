/* What it costs to print a reservation of the journal and to decode it, and how long it is; and the
 * same for a journal that is full. Prints the fastest of many rounds, since neighbours on the
 * machine only ever slow a round down. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "quota/entry.h"

#define JOURNAL_BYTES (128u << 10)
#define ROUND 100 /* entries */
#define SECONDS 0.5
#define USER "system:serviceaccount:kube-system:replicaset-controller"

#define HEAD                                                                                       \
	"{\"metadata\":{\"namespace\":\"team-a-training\",\"name\":\"train-5bb4fdc6b6-2b5cp\","    \
	"\"uid\":\"cf085161-4f3b-4a5c-990f-d2e35e9cb53a\",\"ownerReferences\":[{\"kind\":"         \
	"\"ReplicaSet\",\"name\":\"train-5bb4fdc6b6\",\"uid\":"                                    \
	"\"f4a5f369-b28b-481f-8125-c33b0e7fd798\",\"controller\":true}]},\"spec\":{"
#define GPU "{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}"
#define VGPU                                                                                       \
	"{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\",\"nvidia.com/gpumem\":\"8000\","     \
	"\"nvidia.com/gpucores\":\"30\"}}}"

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds for one entry. */
static double best_print(const struct gq_pod *pod, struct gq_buf *line)
{
	double end = now_s() + SECONDS, start, best = 1;

	do {
		start = now_s();
		for (int i = 0; i < ROUND; i++) {
			gq_buf_reset(line);
			(void)gq_entry_print(line, pod, USER, NULL);
		}
		double took = (now_s() - start) / ROUND;
		best = took < best ? took : best;
	} while (start < end);
	return best;
}

static double best_decode(const struct gq_buf *line)
{
	double end = now_s() + SECONDS, start, best = 1;

	do {
		start = now_s();
		for (int i = 0; i < ROUND; i++) {
			struct gq_entry entry = {0};
			(void)gq_entry_decode(line->data, line->len, &entry, NULL);
			gq_entry_done(&entry);
		}
		double took = (now_s() - start) / ROUND;
		best = took < best ? took : best;
	} while (start < end);
	return best;
}

static int bench(const char *what, const char *json)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;
	struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
	struct gq_err err = {0};

	if (gq_pod_decode(json, strlen(json), NULL, &pod, &err) ||
	    gq_entry_print(&line, pod, USER, NULL) ||
	    gq_entry_decode(line.data, line.len, &entry, &err)) {
		(void)fprintf(stderr, "%s: %s\n", what, err.msg);
		return -1;
	}
	double print = best_print(pod, &line), decode = best_decode(&line);
	size_t full = JOURNAL_BYTES / (line.len + 1);
	printf("%-32s %5zu bytes: print %5.2f us, decode %6.2f us; %4zu in %u KiB: %.2f and %.2f "
	       "ms\n",
	       what, line.len, print * 1e6, decode * 1e6, full, JOURNAL_BYTES >> 10,
	       print * 1e3 * (double)full, decode * 1e3 * (double)full);
	return 0;
}

int main(void)
{
	if (bench("one GPU", HEAD "\"containers\":[" GPU "]}}") ||
	    bench("one GPU, a node selector",
		  HEAD "\"nodeSelector\":{\"nvidia.com/gpu.product\":\"NVIDIA-A100-SXM4-80GB\"},"
		       "\"containers\":[" GPU "]}}") ||
	    bench("affinity, tolerations, 3 vGPUs", HEAD
		  "\"affinity\":{\"nodeAffinity\":{"
		  "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":["
		  "{\"matchExpressions\":[{\"key\":\"nvidia.com/gpu.product\",\"operator\":\"In\","
		  "\"values\":[\"NVIDIA-H100-80GB-HBM3\",\"NVIDIA-H200\"]}]}]}}},"
		  "\"tolerations\":[{\"key\":\"nvidia.com/gpu\",\"operator\":\"Exists\","
		  "\"effect\":\"NoSchedule\"},{\"key\":\"dedicated\",\"value\":\"gpu\"}],"
		  "\"containers\":[" VGPU "," VGPU "," VGPU "]}}"))
		return 1;
	return 0;
}
