/* How fast the JSON filter prunes: bench_json_filter [PODS]. Prints one line for each shape. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_filter.h"

#define CHUNK_BYTES 16384

static const struct gq_json_keep resources_keep[] = {{"limits", NULL}, {"requests", NULL}, {0}};
static const struct gq_json_keep container_keep[] = {
    {"name", NULL}, {"resources", resources_keep}, {"restartPolicy", NULL}, {0}};
static const struct gq_json_keep owner_keep[] = {
    {"kind", NULL}, {"name", NULL}, {"uid", NULL}, {"controller", NULL}, {0}};
static const struct gq_json_keep metadata_keep[] = {{"name", NULL},
						    {"namespace", NULL},
						    {"generateName", NULL},
						    {"uid", NULL},
						    {"labels", NULL},
						    {"annotations", NULL},
						    {"deletionTimestamp", NULL},
						    {"ownerReferences", owner_keep},
						    {0}};
static const struct gq_json_keep spec_keep[] = {
    {"nodeName", NULL},    {"nodeSelector", NULL},         {"affinity", NULL},
    {"tolerations", NULL}, {"containers", container_keep}, {"initContainers", container_keep},
    {"overhead", NULL},    {"resourceClaims", NULL},       {0}};
static const struct gq_json_keep status_keep[] = {{"phase", NULL}, {0}};
static const struct gq_json_keep pod_keep[] = {
    {"metadata", metadata_keep}, {"spec", spec_keep}, {"status", status_keep}, {0}};

static void managed_fields(struct gq_buf *b)
{
	gq_buf_puts(b, "\"managedFields\":[");
	for (int m = 0; m < 2; m++) {
		gq_buf_printf(
		    b,
		    "%s{\"manager\":\"%s\",\"operation\":\"Update\",\"apiVersion\":\"v1\","
		    "\"time\":\"2026-11-30T08:40:24Z\",\"fieldsType\":\"FieldsV1\","
		    "\"fieldsV1\":{",
		    m ? "," : "", m ? "kubelet" : "kube-controller-manager");
		if (m == 0) {
			gq_buf_puts(
			    b, "\"f:metadata\":{\"f:generateName\":{},\"f:labels\":{\".\":{},"
			       "\"f:app\":{},\"f:pod-template-hash\":{}},\"f:ownerReferences\":{"
			       "\".\":{},\"k:{\\\"uid\\\":\\\"f4a5f369-b28b-481f-8125-"
			       "c33b0e7fd798\\\"}\":{}}},\"f:spec\":{\"f:containers\":{"
			       "\"k:{\\\"name\\\":\\\"main\\\"}\":{\".\":{},\"f:env\":{\".\":{}");
			for (int i = 0; i < 24; i++)
				gq_buf_printf(b,
					      ",\"k:{\\\"name\\\":\\\"SETTING_%d\\\"}\":{\".\":{},"
					      "\"f:name\":{},\"f:value\":{}}",
					      i);
			gq_buf_puts(b,
				    "},\"f:image\":{},\"f:resources\":{\".\":{},\"f:limits\":{"
				    "\".\":{},\"f:nvidia.com/gpu\":{}}}}},\"f:schedulerName\":{}}");
		} else {
			gq_buf_puts(b, "\"f:status\":{\"f:conditions\":{");
			static const char *const names[] = {"ContainersReady", "Initialized",
							    "Ready", "PodReadyToStartContainers"};
			for (size_t i = 0; i < 4; i++)
				gq_buf_printf(b,
					      "%s\"k:{\\\"type\\\":\\\"%s\\\"}\":{\".\":{},"
					      "\"f:lastProbeTime\":{},\"f:lastTransitionTime\":{},"
					      "\"f:status\":{},\"f:type\":{}}",
					      i ? "," : "", names[i]);
			gq_buf_puts(b,
				    "},\"f:containerStatuses\":{},\"f:hostIP\":{},\"f:phase\":{},"
				    "\"f:podIP\":{},\"f:startTime\":{}}");
		}
		gq_buf_puts(b, "}}");
	}
	gq_buf_puts(b, "]");
}

static void pod(struct gq_buf *b, unsigned n)
{
	gq_buf_printf(
	    b,
	    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"train-%u\","
	    "\"generateName\":\"train-\",\"namespace\":\"team-%u\",\"uid\":\"cf085161-4f3b-"
	    "4a5c-990f-%012u\",\"resourceVersion\":\"%u\",\"creationTimestamp\":"
	    "\"2026-11-30T08:40:24Z\",\"labels\":{\"app\":\"train\",\"pod-template-hash\":"
	    "\"5bb4fdc6b6\",\"team\":\"t%u\"},\"annotations\":{\"example.org/note\":"
	    "\"nightly run\"},\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":"
	    "\"ReplicaSet\",\"name\":\"train\",\"uid\":\"f4a5f369-b28b-481f-8125-"
	    "c33b0e7fd798\",\"controller\":true,\"blockOwnerDeletion\":true}],",
	    n, n % 50, n, n + 1000, n % 50);
	managed_fields(b);
	gq_buf_puts(b,
		    "},\"spec\":{\"volumes\":[{\"name\":\"kube-api-access\",\"projected\":{"
		    "\"sources\":[{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":"
		    "\"token\"}},{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":"
		    "\"ca.crt\",\"path\":\"ca.crt\"}]}}],\"defaultMode\":420}}],\"containers\":[{"
		    "\"name\":\"main\",\"image\":\"registry.example/ai/train:2026.11\",\"env\":[");
	for (int i = 0; i < 24; i++)
		gq_buf_printf(b,
			      "%s{\"name\":\"SETTING_%d\",\"value\":\"a value of some length that"
			      " nobody here wants to read, number %d\"}",
			      i ? "," : "", i, i);
	gq_buf_puts(
	    b, "],\"resources\":{\"limits\":{\"cpu\":\"8\",\"memory\":\"64Gi\","
	       "\"nvidia.com/gpu\":\"1\"},\"requests\":{\"cpu\":\"8\",\"memory\":\"64Gi\","
	       "\"nvidia.com/gpu\":\"1\"}},\"volumeMounts\":[{\"name\":\"kube-api-access\","
	       "\"readOnly\":true,\"mountPath\":\"/var/run/secrets/kubernetes.io/"
	       "serviceaccount\"}],\"terminationMessagePath\":\"/dev/termination-log\","
	       "\"imagePullPolicy\":\"IfNotPresent\"}],\"restartPolicy\":\"Always\","
	       "\"nodeSelector\":{\"nvidia.com/gpu.product\":\"NVIDIA-H100-80GB-HBM3\"},"
	       "\"tolerations\":[{\"key\":\"nvidia.com/gpu\",\"operator\":\"Exists\",\"effect\":"
	       "\"NoSchedule\"}],\"nodeName\":\"node-1\",\"schedulerName\":\"default-"
	       "scheduler\"},\"status\":{\"phase\":\"Running\",\"conditions\":[");
	for (int i = 0; i < 5; i++)
		gq_buf_printf(
		    b,
		    "%s{\"type\":\"Condition%d\",\"status\":\"True\",\"lastProbeTime\":null,"
		    "\"lastTransitionTime\":\"2026-11-30T08:40:24Z\"}",
		    i ? "," : "", i);
	gq_buf_puts(
	    b, "],\"hostIP\":\"10.0.0.1\",\"podIP\":\"10.244.0.7\",\"startTime\":"
	       "\"2026-11-30T08:40:24Z\",\"containerStatuses\":[{\"name\":\"main\",\"state\":{"
	       "\"running\":{\"startedAt\":\"2026-11-30T08:40:24Z\"}},\"ready\":true,"
	       "\"restartCount\":0,\"image\":\"registry.example/ai/train:2026.11\",\"imageID\":"
	       "\"registry.example/ai/train@sha256:0123456789abcdef0123456789abcdef0123456789"
	       "abcdef0123456789abcdef\",\"started\":true}],\"qosClass\":\"Guaranteed\"}}");
}

struct count {
	uint64_t items;
	uint64_t kept_bytes;
};

static int on_item(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct count *count = arg;

	(void)err;
	count->items++;
	count->kept_bytes += item->len;
	return 0;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int measure(const char *name, enum gq_json_shape shape, const struct gq_json_keep *keep,
		   const struct gq_buf *input)
{
	double best = 0;
	struct count count = {0};

	for (int round = 0; round < 5; round++) {
		struct gq_json_stream_options options = {shape,    keep,    8u << 20,
							 1u << 20, on_item, &count};
		struct gq_json_stream *s GQ_CLEANUP(gq_cleanup_json_stream) =
		    gq_json_stream_new(&options);
		struct gq_err err = {0};
		int code = s ? 0 : GQ_ENOMEM;
		double start = now_s();

		count = (struct count){0};
		for (size_t at = 0; !code && at < input->len; at += CHUNK_BYTES) {
			size_t len = input->len - at < CHUNK_BYTES ? input->len - at : CHUNK_BYTES;
			code = gq_json_stream_feed(s, input->data + at, len, &err);
		}
		if (!code)
			code = gq_json_stream_end(s, &err);
		if (code) {
			fprintf(stderr, "%s: %s\n", name, err.msg);
			return 1;
		}
		double rate = (double)input->len / 1e6 / (now_s() - start);
		best = rate > best ? rate : best;
	}
	printf("%-26s %8.1f MB  %7llu items  %6.1f MB kept  %6.0f MB/s\n", name,
	       (double)input->len / 1e6, (unsigned long long)count.items,
	       (double)count.kept_bytes / 1e6, best);
	return 0;
}

static void event(struct gq_buf *b, void (*object)(struct gq_buf *, unsigned), unsigned n)
{
	gq_buf_puts(b, "{\"type\":\"ADDED\",\"object\":");
	object(b, n);
	gq_buf_puts(b, "}\n");
}

static void only_managed_fields(struct gq_buf *b, unsigned n)
{
	(void)n;
	gq_buf_puts(b, "{\"metadata\":{");
	managed_fields(b);
	gq_buf_puts(b, "}}");
}

static void long_string(struct gq_buf *b, unsigned n)
{
	gq_buf_puts(b, "{\"data\":{\"x\":\"");
	for (unsigned i = 0; i < 150; i++)
		gq_buf_printf(b, "line %u of a text that somebody keeps in an object; ", n + i);
	gq_buf_puts(b, "\"}}");
}

int main(int argc, char **argv)
{
	enum { PODS, MANAGED_FIELDS, STRINGS, LIST, INPUTS };
	struct gq_buf inputs[INPUTS];
	unsigned pods = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 20000;
	int failed = 0;

	for (int i = 0; i < INPUTS; i++)
		inputs[i] = GQ_BUF_INIT((size_t)4 << 30);
	gq_buf_puts(&inputs[LIST], "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
				   "\"resourceVersion\":\"9\"},\"items\":[");
	for (unsigned i = 0; i < pods; i++) {
		event(&inputs[PODS], pod, i);
		event(&inputs[MANAGED_FIELDS], only_managed_fields, i);
		event(&inputs[STRINGS], long_string, i);
		gq_buf_puts(&inputs[LIST], i ? "," : "");
		pod(&inputs[LIST], i);
	}
	gq_buf_puts(&inputs[LIST], "]}");
	for (int i = 0; i < INPUTS; i++)
		failed |= inputs[i].code;
	if (failed)
		fputs("out of memory\n", stderr);
	else
		failed =
		    measure("pods, WATCH", GQ_JSON_WATCH, pod_keep, &inputs[PODS]) ||
		    measure("pods, LIST", GQ_JSON_LIST, pod_keep, &inputs[LIST]) ||
		    measure("pods, all kept", GQ_JSON_WATCH, NULL, &inputs[PODS]) ||
		    measure("managedFields, dropped", GQ_JSON_WATCH, pod_keep,
			    &inputs[MANAGED_FIELDS]) ||
		    measure("7 KB strings, dropped", GQ_JSON_WATCH, pod_keep, &inputs[STRINGS]);
	for (int i = 0; i < INPUTS; i++)
		gq_buf_done(&inputs[i]);
	return failed != 0;
}
