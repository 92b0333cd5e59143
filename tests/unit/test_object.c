#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/arena.h"
#include "quota/demand.h"
#include "quota/field.h"
#include "tests/unit/quota_testing.h"

#define CAPTURES GQ_TEST_DATA "/captures/"

static void labels_are_found(void **state)
{
	static const struct gq_label labels[] = {
	    {"a", "1"}, {"a.b", "2"}, {"a/b", "3"}, {"b", ""}, {"c", "5"}};

	(void)state;
	for (size_t n = 0; n <= LEN(labels); n++) {
		for (size_t i = 0; i < LEN(labels); i++) {
			const char *value = gq_label_get(labels, n, labels[i].key);
			if (i < n)
				assert_ptr_equal(value, labels[i].value);
			else
				assert_null(value);
		}
		assert_null(gq_label_get(labels, n, ""));
		assert_null(gq_label_get(labels, n, "aa"));
		assert_null(gq_label_get(labels, n, "d"));
	}
	assert_null(gq_label_get(NULL, 0, "a"));
}

static void passing_taints(void **state)
{
	(void)state;
	assert_true(gq_taint_is_passing("node.kubernetes.io/not-ready"));
	assert_true(gq_taint_is_passing("node.kubernetes.io/"));
	assert_false(gq_taint_is_passing("node.kubernetes.io"));
	assert_false(gq_taint_is_passing("node.kubernetes.iox/y"));
	assert_false(gq_taint_is_passing("my.node.kubernetes.io/x"));
	assert_false(gq_taint_is_passing("nvidia.com/gpu"));
	assert_false(gq_taint_is_passing(""));
}

/* The member of a review's request as JSON of its own, pruned on the way; free(). */
static char *object_of_review(const char *json, size_t len, const char *member, size_t *ret_len)
{
	const struct gq_json_keep request[] = {{member, gq_pod_keep}, {NULL, NULL}};
	const struct gq_json_keep review[] = {{"request", request}, {NULL, NULL}};
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	assert_int_equal(prune(json, len, review, &kept), 0);
	struct json_object *root = json_tokener_parse(kept.data);
	struct json_object *object;
	assert_true(json_object_object_get_ex(root, "request", &object));
	assert_true(json_object_object_get_ex(object, member, &object));
	char *text = strdup(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	json_object_put(root);
	assert_non_null(text);
	*ret_len = strlen(text);
	return text;
}

static struct gq_pod *decode(const char *json, size_t len)
{
	struct gq_err err = {0};
	struct gq_pod *pod = NULL;

	if (gq_pod_decode(json, len, NULL, &pod, &err))
		fail_msg("%s", err.msg);
	return pod;
}

static struct gq_pod *pod_of_review(const char *name, const char *member)
{
	char path[512];
	size_t len, object_len;

	(void)snprintf(path, sizeof path, CAPTURES "reviews/%s.json", name);
	char *json = read_file(path, &len);
	char *object = object_of_review(json, len, member, &object_len);
	struct gq_pod *pod = decode(object, object_len);
	free(object);
	free(json);
	return pod;
}

static void captured_reviews(void **state)
{
	static const struct {
		const char *review, *member, *name, *owner_kind, *node;
		size_t n_asks, n_claims, n_classes;
		int64_t gpus;
		bool terminating;
	} cases[] = {
	    {"pod-create", "object", "ok2", "", "", 1, 0, 0, 1, false},
	    {"pod-create-dryrun", "object", NULL, "", "", 1, 0, 0, 1, false},
	    {"pod-create-generatename", "object", NULL, "", "", 1, 0, 0, 1, false},
	    {"pod-create-by-job", "object", NULL, "Job", "", 0, 0, 0, 0, false},
	    {"pod-create-by-replicaset", "object", NULL, "ReplicaSet", "", 1, 0, 0, 2, false},
	    {"pod-create-dra-claim", "object", "dra1", "", "", 0, 1, 0, 0, false},
	    {"pod-create-dra-extended", "object", "dra2", "", "", 0, 0, 1, 0, false},
	    {"pod-delete", "oldObject", NULL, NULL, NULL, 1, 0, 0, 1, false},
	    {"pod-update", "object", NULL, NULL, NULL, 0, 0, 0, 0, false},
	    {"pod-update", "oldObject", NULL, NULL, NULL, 0, 0, 0, 0, false},
	    {"pod-ephemeralcontainers", "object", NULL, NULL, NULL, 1, 0, 0, 1, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) =
		    pod_of_review(cases[i].review, cases[i].member);
		print_message("%s %s\n", cases[i].review, cases[i].member);
		assert_string_equal(pod->namespace_, "default");
		assert_int_equal(strlen(pod->uid), 36);
		assert_true(*pod->name != '\0');
		if (cases[i].name)
			assert_string_equal(pod->name, cases[i].name);
		if (cases[i].owner_kind)
			assert_string_equal(pod->owner.kind, cases[i].owner_kind);
		if (cases[i].node)
			assert_string_equal(pod->node_name, cases[i].node);
		assert_int_equal(pod->n_asks, cases[i].n_asks);
		assert_int_equal(pod->n_claims, cases[i].n_claims);
		assert_int_equal(pod->n_device_classes, cases[i].n_classes);
		assert_int_equal(pod->problem.kind, GQ_PROBLEM_NONE);
		assert_int_equal(gq_demand_on(pod, 0).shares, cases[i].gpus * GQ_SHARES_PER_GPU);
		assert_int_equal(pod->terminating, cases[i].terminating);
	}
}

/* Pods in the order they came; at most 64. */
struct seen {
	struct gq_pod *pods[64];
	size_t n;
};

static void seen_done(struct seen *seen)
{
	for (size_t i = 0; i < seen->n; i++)
		gq_pod_unref(seen->pods[i]);
}

static int see(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct seen *seen = arg;

	if (item->type && strcmp(item->type, "BOOKMARK") == 0)
		return 0;
	assert_true(seen->n < LEN(seen->pods));
	int code = gq_pod_decode(item->json, item->len, NULL, &seen->pods[seen->n], err);
	seen->n += code == 0;
	return code;
}

static void read_stream(enum gq_json_shape shape, const char *json, size_t len, struct seen *seen)
{
	struct gq_err err = {0};
	const struct gq_json_stream_options options = {.shape = shape,
						       .keep = gq_pod_keep,
						       .max_raw_bytes = 1u << 20,
						       .max_kept_bytes = 1u << 20,
						       .on_item = see,
						       .arg = seen};
	struct gq_json_stream *stream GQ_CLEANUP(gq_cleanup_json_stream) =
	    gq_json_stream_new(&options);

	assert_non_null(stream);
	if (gq_json_stream_feed(stream, json, len, &err) || gq_json_stream_end(stream, &err))
		fail_msg("%s", err.msg);
}

static void captured_watch(void **state)
{
	struct seen seen GQ_CLEANUP(seen_done) = {.n = 0};
	size_t len;
	char *json = read_file(CAPTURES "pods-watchlist.jsonl", &len);
	int64_t gpus = 0;
	size_t bytes = 0;

	(void)state;
	read_stream(GQ_JSON_WATCH, json, len, &seen);
	free(json);
	assert_true(seen.n > 0);
	for (size_t i = 0; i < seen.n; i++) {
		assert_int_equal(seen.pods[i]->problem.kind, GQ_PROBLEM_NONE);
		assert_true(*seen.pods[i]->uid != '\0');
		gpus += gq_demand_on(seen.pods[i], 0).shares / GQ_SHARES_PER_GPU;
		bytes += gq_counted_size(seen.pods[i]);
	}
	print_message("%zu pods, %d GPUs, %zu bytes a pod\n", seen.n, (int)gpus, bytes / seen.n);
	assert_string_equal(seen.pods[0]->name, "d1-5bb4fdc6b6-2b5cp");
	assert_string_equal(seen.pods[0]->owner.kind, "ReplicaSet");
	assert_string_equal(seen.pods[0]->node_name, "a1");
	assert_int_equal(seen.pods[0]->phase, GQ_POD_RUNNING);
	assert_int_equal(gq_demand_on(seen.pods[0], 0).shares, 2 * GQ_SHARES_PER_GPU);
}

/* A pod with some of everything that makes a demand. */
static const char intricate[] =
    "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'default','uid':'u-1',"
    "'managedFields':[{'manager':'kubectl'}],'labels':{'app':'x'}},'spec':{'overhead':"
    "{'amd.com/gpu':'1'},'initContainers':[{'name':'i','image':'x','resources':{'limits':"
    "{'nvidia.com/gpu':'2','nvidia.com/gpumem':'3000'}}},{'name':'s','restartPolicy':'Always',"
    "'resources':{'requests':{'nvidia.com/gpumem-percentage':'33'}}}],'containers':[{'name':'c',"
    "'image':'x','env':[{'name':'A','value':'B'}],'resources':{'limits':{'cpu':'1',"
    "'nvidia.com/gpu':'3','nvidia.com/gpucores':'40','nvidia.com/gpumem':'1001'}}}]},"
    "'status':{'phase':'Pending'}}";

static void expect_same(const struct gq_pod *a, const struct gq_pod *b)
{
	static const int64_t devices[] = {0, 1, 7, 40960, 81559, 143771};

	assert_string_equal(a->name, b->name);
	assert_string_equal(a->uid, b->uid);
	for (size_t i = 0; i < LEN(devices); i++) {
		struct gq_amount x = gq_demand_on(a, devices[i]), y = gq_demand_on(b, devices[i]);
		assert_int_equal(x.shares, y.shares);
		assert_int_equal(x.memory_mib, y.memory_mib);
	}
	assert_int_equal(gq_counted_size(a), gq_counted_size(b));
}

/* The pod as a file, in a review, in a watch event, in a list. */
static void compare_ways(const char *json)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct seen seen GQ_CLEANUP(seen_done) = {.n = 0};
	size_t len;
	struct gq_pod *file GQ_CLEANUP(gq_cleanup_pod) = pod_of(json, strlen(json));

	gq_buf_printf(&text, "{\"type\":\"MODIFIED\",\"object\":%s}\n", json);
	read_stream(GQ_JSON_WATCH, text.data, text.len, &seen);
	gq_buf_reset(&text);
	gq_buf_printf(&text, "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[%s,%s]}", json,
		      json);
	read_stream(GQ_JSON_LIST, text.data, text.len, &seen);
	assert_int_equal(seen.n, 3);
	for (size_t i = 0; i < seen.n; i++)
		expect_same(file, seen.pods[i]);

	gq_buf_reset(&text);
	gq_buf_printf(&text,
		      "{\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"r\","
		      "\"object\":%s,\"oldObject\":null}}",
		      json);
	char *object = object_of_review(text.data, text.len, "object", &len);
	struct gq_pod *review GQ_CLEANUP(gq_cleanup_pod) = decode(object, len);
	free(object);
	expect_same(file, review);
}

static void every_way_gives_the_same_demand(void **state)
{
	static const char *const reviews[] = {
	    "pod-create",           "pod-create-by-job",       "pod-create-by-replicaset",
	    "pod-create-dra-claim", "pod-create-dra-extended", "pod-update"};

	(void)state;
	char *json = json_of(intricate);
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of(json, strlen(json));
	assert_int_equal(pod->n_asks, 4);
	compare_ways(json);
	free(json);
	for (size_t i = 0; i < LEN(reviews); i++) {
		char path[512];
		size_t len;
		(void)snprintf(path, sizeof path, CAPTURES "reviews/%s.json", reviews[i]);
		char *review = read_file(path, &len);
		struct json_object *root = json_tokener_parse(review), *object;
		assert_true(json_object_object_get_ex(root, "request", &object));
		assert_true(json_object_object_get_ex(object, "object", &object));
		compare_ways(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
		json_object_put(root);
		free(review);
	}
}

static void captured_claims_and_classes(void **state)
{
	size_t len;
	char *json = read_file(CAPTURES "dra-objects.json", &len);
	struct json_object *root = json_tokener_parse(json), *items;
	unsigned claims = 0, classes = 0;

	(void)state;
	assert_true(json_object_object_get_ex(root, "items", &items));
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		struct json_object *item = json_object_array_get_idx(items, i), *kind_object;
		struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		assert_true(json_object_object_get_ex(item, "kind", &kind_object));
		const char *kind = json_object_get_string(kind_object);
		const char *text = json_object_to_json_string_ext(item, JSON_C_TO_STRING_PLAIN);
		if (strcmp(kind, "ResourceClaim") == 0) {
			struct gq_claim *claim GQ_CLEANUP(gq_cleanup_claim) = NULL;
			assert_int_equal(prune(text, strlen(text), gq_claim_keep, &kept), 0);
			assert_int_equal(gq_claim_decode(kept.data, kept.len, &claim, NULL), 0);
			assert_int_equal(claim->n_device_classes, 1);
			assert_string_equal(claim->device_classes[0], "gpu.nvidia.com");
			claims++;
		} else if (strcmp(kind, "DeviceClass") == 0) {
			bool harmless = true;
			assert_int_equal(prune(text, strlen(text), gq_device_class_keep, &kept), 0);
			assert_int_equal(
			    gq_device_class_decode(kept.data, kept.len, &harmless, NULL), 0);
			assert_false(harmless);
			classes++;
		}
	}
	json_object_put(root);
	free(json);
	assert_int_equal(claims, 2);
	assert_int_equal(classes, 1);
}

/* Whether a change of a pod can matter to where it lands or what it counts. */
static void pods_that_ask_alike(void **state)
{
#define SPEC(x) "{\"metadata\":{\"name\":\"p\"},\"spec\":{" x "}}"
#define GPUS(n)                                                                                    \
	"\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":" n "}}}]"
#define TERM(op, values)                                                                           \
	"\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"     \
	"\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"" op          \
	"\",\"values\":[" values "]}]}]}}}"
	static const char *const different[] = {
	    SPEC(GPUS("1")),
	    SPEC(GPUS("2")),
	    SPEC(GPUS("1") ",\"nodeName\":\"n\""),
	    SPEC(GPUS("1") ",\"nodeSelector\":{\"a\":\"1\"}"),
	    SPEC(GPUS("1") ",\"nodeSelector\":{\"a\":\"2\"}"),
	    SPEC(GPUS("1") ",\"nodeSelector\":{\"a\":\"1\",\"b\":\"1\"}"),
	    SPEC(GPUS("1") ",\"tolerations\":[{\"key\":\"k\",\"operator\":\"Exists\"}]"),
	    SPEC(GPUS("1") ",\"tolerations\":[{\"key\":\"k\",\"value\":\"v\"}]"),
	    SPEC(GPUS("1") "," TERM("In", "\"1\"")),
	    SPEC(GPUS("1") "," TERM("In", "\"2\"")),
	    SPEC(GPUS("1") "," TERM("In", "\"1\",\"2\"")),
	    SPEC(GPUS("1") "," TERM("NotIn", "\"1\"")),
	};

	(void)state;
	for (size_t i = 0; i < LEN(different); i++) {
		for (size_t k = 0; k < LEN(different); k++) {
			struct gq_pod *a GQ_CLEANUP(gq_cleanup_pod) = NULL;
			struct gq_pod *b GQ_CLEANUP(gq_cleanup_pod) = NULL;
			assert_int_equal(
			    gq_pod_decode(different[i], strlen(different[i]), "ns", &a, NULL), 0);
			assert_int_equal(
			    gq_pod_decode(different[k], strlen(different[k]), "ns", &b, NULL), 0);
			if (gq_pod_asks_alike(a, b) != (i == k))
				fail_msg("%s\n%s", different[i], different[k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(labels_are_found),
	    cmocka_unit_test(passing_taints),
	    cmocka_unit_test(captured_reviews),
	    cmocka_unit_test(captured_watch),
	    cmocka_unit_test(every_way_gives_the_same_demand),
	    cmocka_unit_test(captured_claims_and_classes),
	    cmocka_unit_test(pods_that_ask_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
