#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/demand.h"
#include "quota/entry.h"
#include "tests/unit/fail_alloc.h"
#include "tests/unit/node_fixture.h"
#include "tests/unit/quota_testing.h"

/* The linker sends strdup() here, and its malloc() to fail_alloc.c. */
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

#define PRODUCT "nvidia.com/gpu.product"
#define REPLICASET_USER "system:serviceaccount:kube-system:replicaset-controller"

/* Where the pods of these tests may land, or not. */
static const struct fixture_spec specs[] = {
    {"n", PRODUCT "=NVIDIA-A100-SXM4-80GB,a=1,b=2", "nvidia.com/gpu=8", ""},
    {"a40", PRODUCT "=NVIDIA-A100-PCIE-40GB,a=x,b=7", "nvidia.com/gpu=8", "k=v:NoSchedule"},
    {"h80", PRODUCT "=NVIDIA-H100-80GB-HBM3,a=y", "nvidia.com/gpu=8", "other=v:NoExecute"},
    {"mi", "amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM", "amd.com/gpu=8", ""},
    {"both", PRODUCT "=NVIDIA-L40S,a=1", "nvidia.com/gpu=8,amd.com/gpu=8", "k=w:NoSchedule"},
};

static struct gq_class_table *table;
static struct gq_node_snapshot *nodes;

static int make_nodes(void **state)
{
	(void)state;
	table = fixture_table(NULL, 0);
	nodes = table ? fixture_snapshot(table, specs, LEN(specs)) : NULL;
	return nodes ? 0 : -1;
}

static int free_nodes(void **state)
{
	(void)state;
	gq_node_snapshot_unref(nodes);
	gq_class_table_free(table);
	return 0;
}

static void assert_same_places(const struct gq_pod *a, const struct gq_pod *b)
{
	struct gq_candidates of_a, of_b;

	gq_node_snapshot_match(nodes, a, &of_a);
	gq_node_snapshot_match(nodes, b, &of_b);
	assert_int_equal(of_a.source, of_b.source);
	assert_int_equal(of_a.unknown, of_b.unknown);
	assert_int_equal(of_a.overflow, of_b.overflow);
	assert_int_equal(of_a.n, of_b.n);
	for (size_t i = 0; i < of_a.n; i++) {
		assert_int_equal(of_a.items[i].class_id, of_b.items[i].class_id);
		assert_int_equal(of_a.items[i].device_mib, of_b.items[i].device_mib);
	}
}

static void assert_same_demand(const struct gq_pod *a, const struct gq_pod *b)
{
	static const int64_t devices[] = {0, 1, 24576, 40960, 81920, INT64_MAX - 1};
	const char *of_a[8], *of_b[8];

	for (size_t i = 0; i < LEN(devices); i++) {
		struct gq_amount demand_a = gq_demand_on(a, devices[i]);
		struct gq_amount demand_b = gq_demand_on(b, devices[i]);
		assert_int_equal(demand_a.shares, demand_b.shares);
		assert_int_equal(demand_a.memory_mib, demand_b.memory_mib);
	}
	size_t n = gq_demand_node_resources(a, of_a, LEN(of_a));
	assert_int_equal(gq_demand_node_resources(b, of_b, LEN(of_b)), n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(of_a[i], of_b[i]);
}

/* Prints and decodes; fails the test when the pod that comes back is another. */
static void round_trip(const struct gq_pod *pod, const char *user, const char *bind_node,
		       struct gq_buf *line)
{
	struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
	struct gq_buf again GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_err err = {0};

	assert_int_equal(gq_entry_print(line, pod, user, bind_node), 0);
	assert_null(strchr(line->data, '\n'));
	if (gq_entry_decode(line->data, line->len, &entry, &err))
		fail_msg("%s: %s", line->data, err.msg);
	assert_string_equal(entry.pod->namespace_, pod->namespace_);
	assert_string_equal(entry.pod->name, pod->name);
	assert_string_equal(entry.pod->uid, pod->uid);
	assert_string_equal(entry.pod->owner.kind, pod->owner.kind);
	assert_string_equal(entry.pod->owner.name, pod->owner.name);
	assert_string_equal(entry.pod->owner.uid, pod->owner.uid);
	assert_string_equal(entry.user, user ? user : "");
	assert_string_equal(entry.bind_node, bind_node ? bind_node : "");
	assert_true(gq_pod_asks_alike(pod, entry.pod));
	assert_same_demand(pod, entry.pod);
	assert_same_places(pod, entry.pod);
	assert_int_equal(gq_entry_print(&again, entry.pod, entry.user, entry.bind_node), 0);
	assert_string_equal(again.data, line->data);
}

/* The pod with what an entry needs, where it has none. Borrows from it. */
static struct gq_pod with_names(const struct gq_pod *pod)
{
	struct gq_pod named = *pod;

	named.namespace_ = *pod->namespace_ ? pod->namespace_ : "n";
	named.name = *pod->name ? pod->name : "p";
	named.uid = *pod->uid ? pod->uid : "u";
	return named;
}

/* A pod of these fields of its spec. */
#define SPEC(spec) "{'metadata':{'name':'p','namespace':'n','uid':'u'},'spec':{" spec "}}"
#define LIMIT(limits) SPEC("'containers':[{'name':'c','resources':{'limits':{" limits "}}}]")
#define ONE_GPU "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]"
#define REQUIRED(required)                                                                         \
	SPEC(ONE_GPU ",'affinity':{'nodeAffinity':{"                                               \
		     "'requiredDuringSchedulingIgnoredDuringExecution':" required "}}")
/* And what a line says of it. */
#define META "{'metadata':{'namespace':'n','name':'p','uid':'u'},'spec':{"
#define ONE_LINE "'containers':[{'resources':{'requests':{'nvidia.com/gpu':1}}}]}}"

static void lines_are_as_short_as_they_can_be(void **state)
{
	static const struct {
		const char *pod, *user, *bind_node, *line;
	} cases[] = {
	    {SPEC(""), NULL, NULL, META "}}"},
	    {SPEC(ONE_GPU), "", "", META ONE_LINE},
	    {SPEC(ONE_GPU), "jane", "node-1",
	     META "'containers':[{'resources':{'requests':{'nvidia.com/gpu':1}}}]},"
		  "'user':'jane','bindNode':'node-1'}"},
	    {"{'metadata':{'name':'p','generateName':'g-','namespace':'n','uid':'u',"
	     "'labels':{'a':'b'},'ownerReferences':[{'kind':'Other','name':'o','uid':'1'},"
	     "{'apiVersion':'v1','kind':'Job','name':'j','uid':'2','controller':true}]},"
	     "'spec':{'nodeName':'node-1'},'status':{'phase':'Pending'}}",
	     NULL, NULL,
	     "{'metadata':{'namespace':'n','name':'p','uid':'u','ownerReferences':["
	     "{'kind':'Job','name':'j','uid':'2','controller':true}]},"
	     "'spec':{'nodeName':'node-1'}}"},
	    {"{'metadata':{'name':'p','namespace':'n','uid':'u','ownerReferences':["
	     "{'uid':'2','controller':true}]}}",
	     NULL, NULL,
	     "{'metadata':{'namespace':'n','name':'p','uid':'u','ownerReferences':["
	     "{'uid':'2','controller':true}]},'spec':{}}"},
	    /* amounts */
	    {LIMIT("'nvidia.com/gpu':'1Ki','nvidia.com/gpumem':'2k','cpu':'1',"
		   "'nvidia.com/gpumem-percentage':250,'nvidia.com/gpucores':'0'"),
	     NULL, NULL,
	     META "'containers':[{'resources':{'requests':{'nvidia.com/gpu':1024,"
		  "'nvidia.com/gpumem':2000,'nvidia.com/gpumem-percentage':100}}}]}}"},
	    {SPEC("'containers':[{'name':'c','resources':{'requests':{'nvidia.com/gpu':'1'},"
		  "'limits':{'nvidia.com/gpu':'4','amd.com/gpu':'2'}}},{'name':'idle'}]"),
	     NULL, NULL,
	     META "'containers':[{'resources':{'requests':{'nvidia.com/gpu':1,"
		  "'amd.com/gpu':2}}}]}}"},
	    {LIMIT("'nvidia.com/gpu':'9223372036854775806'"), NULL, NULL,
	     META "'containers':[{'resources':{'requests':{"
		  "'nvidia.com/gpu':9223372036854775806}}}]}}"},
	    /* roles, in their order */
	    {SPEC("'overhead':{'nvidia.com/gpu':'1','cpu':'1'},'containers':["
		  "{'name':'a','restartPolicy':'Always','resources':{'limits':"
		  "{'nvidia.com/gpu':'1'}}}],'initContainers':["
		  "{'name':'i','resources':{'limits':{'nvidia.com/gpu':'3'}}},{'name':'idle'},"
		  "{'name':'s','restartPolicy':'Always','resources':{'limits':"
		  "{'nvidia.com/gpu':'4'}}},"
		  "{'name':'j','resources':{'limits':{'nvidia.com/gpu':'5'}}}]"),
	     NULL, NULL,
	     META "'initContainers':[{'resources':{'requests':{'nvidia.com/gpu':3}}},"
		  "{'resources':{'requests':{'nvidia.com/gpu':4}},'restartPolicy':'Always'},"
		  "{'resources':{'requests':{'nvidia.com/gpu':5}}}],"
		  "'containers':[{'resources':{'requests':{'nvidia.com/gpu':1}}}],"
		  "'overhead':{'nvidia.com/gpu':1}}}"},
	    /* where */
	    {SPEC("'nodeSelector':{'b':'2','a':'','':'c'}"), NULL, NULL,
	     META "'nodeSelector':{'':'c','a':'','b':'2'}}}"},
	    {SPEC("'tolerations':[{'key':'k','operator':'Equal','value':'v',"
		  "'effect':'NoSchedule'},{'operator':'Exists','tolerationSeconds':3},{},"
		  "{'key':'m','operator':'Gt','value':'5'},"
		  "{'key':'node.kubernetes.io/x','operator':'Exists'}]"),
	     NULL, NULL,
	     META "'tolerations':[{'key':'k','value':'v','effect':'NoSchedule'},"
		  "{'operator':'Exists'},{},{'key':'m','operator':'Exists','value':'5'}]}}"},
	    {SPEC("'affinity':{'podAffinity':{}}"), NULL, NULL, META "}}"},
	    {REQUIRED("null"), NULL, NULL, META ONE_LINE},
	    {REQUIRED("{'nodeSelectorTerms':[]}"), NULL, NULL,
	     META "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
		  "{}}}," ONE_LINE},
	    {REQUIRED("{'nodeSelectorTerms':[{},{'matchExpressions':["
		      "{'key':'a','operator':'In','values':['x','y']},"
		      "{'key':'b','operator':'NotIn','values':['z']},"
		      "{'key':'c','operator':'Exists'},{'key':'d','operator':'DoesNotExist'},"
		      "{'key':'e','operator':'Gt','values':['3']},"
		      "{'key':'f','operator':'Lt','values':['9']}],"
		      "'matchFields':[{'key':'metadata.name','operator':'In','values':['n']}]}]}"),
	     NULL, NULL,
	     META "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
		  "{'nodeSelectorTerms':[{},{'matchExpressions':["
		  "{'key':'a','operator':'In','values':['x','y']},"
		  "{'key':'b','operator':'NotIn','values':['z']},"
		  "{'key':'c','operator':'Exists'},{'key':'d','operator':'DoesNotExist'},"
		  "{'key':'e','operator':'Gt','values':['3']},"
		  "{'key':'f','operator':'Lt','values':['9']}],"
		  "'matchFields':[{'key':'metadata.name','operator':'In','values':['n']}]}]}}}"
		  "," ONE_LINE},
	    /* neither claims nor problems */
	    {"{'metadata':{'name':'p','namespace':'n','uid':'u','annotations':"
	     "{'gpu-fraction':'1'}},'spec':{'resourceClaims':[{'name':'a'}],'containers':["
	     "{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1','amd.com/gpu':'0.5',"
	     "'deviceclass.resource.kubernetes.io/x':'1'}}}]},'status':{'phase':'Running'}}",
	     NULL, NULL, META ONE_LINE},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(cases[i].pod);
		char *expected = json_of(cases[i].line);
		print_message("%s\n", cases[i].pod);
		round_trip(pod, cases[i].user, cases[i].bind_node, &line);
		assert_string_equal(line.data, expected);
		free(expected);
	}
}

static void what_a_pod_asks_and_where_comes_back(void **state)
{
	static const char *const pods[] = {
	    SPEC(ONE_GPU ",'nodeSelector':{'" PRODUCT "':'NVIDIA-A100-PCIE-40GB'},"
			 "'tolerations':[{'key':'k','operator':'Exists'}]"),
	    SPEC(ONE_GPU ",'nodeSelector':{'" PRODUCT "':'NVIDIA-A100-PCIE-40GB'}"),
	    SPEC(ONE_GPU ",'nodeSelector':{'" PRODUCT "':'NVIDIA-B200'}"),
	    SPEC(ONE_GPU ",'tolerations':[{'operator':'Exists'}]"),
	    SPEC(ONE_GPU ",'tolerations':[{'key':'k','value':'w'},"
			 "{'key':'other','operator':'Exists','effect':'NoExecute'}]"),
	    SPEC(ONE_GPU ",'nodeName':'h80'"),
	    SPEC(ONE_GPU ",'nodeName':'no such node'"),
	    LIMIT("'amd.com/gpu':'2'"),
	    LIMIT("'amd.com/gpu':'2','nvidia.com/gpu':'1'"),
	    LIMIT("'nvidia.com/gpucores':'30'"),
	    LIMIT("'nvidia.com/gpu':'2','nvidia.com/gpumem':'8000','nvidia.com/gpucores':'30'"),
	    LIMIT("'nvidia.com/gpumem':'1','nvidia.com/gpumem-percentage':'33'"),
	    REQUIRED("{}"),
	    REQUIRED("{'nodeSelectorTerms':[{}]}"),
	    REQUIRED("{'nodeSelectorTerms':[{'matchExpressions':[{'key':'a','operator':'In',"
		     "'values':['1','y']}]},{'matchFields':[{'key':'metadata.name',"
		     "'operator':'NotIn','values':['n']}]}]}"),
	    REQUIRED("{'nodeSelectorTerms':[{'matchExpressions':[{'key':'b','operator':'Gt',"
		     "'values':['1']},{'key':'b','operator':'Lt','values':['5']}]}]}"),
	    SPEC(ONE_GPU ",'nodeSelector':{'quo\\\"te\\\\':'\\n\\u00e9\\ud83d\\ude00\\u007f'}"),
	};

	(void)state;
	for (size_t i = 0; i < LEN(pods); i++) {
		struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(pods[i]);
		print_message("%s\n", pods[i]);
		round_trip(pod, "a \"b\"\\\r\n\xC3\xA9", "node-1.example.com", &line);
	}
}

static const struct gq_json_keep keep_request[] = {{"object", gq_pod_keep}, GQ_JSON_KEEP_END};
static const struct gq_json_keep keep_review[] = {{"request", keep_request}, GQ_JSON_KEEP_END};

/* The pod of a file, or of a review in a file; NULL when there is none. */
static struct gq_pod *pod_in(const char *json, size_t len, bool in_review)
{
	static const char head[] = "{\"request\":{\"object\":";
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_pod *pod = NULL;
	size_t skip = in_review ? strlen(head) : 0, tail = in_review ? 2 : 0;

	if (gq_json_prune(json, len, in_review ? keep_review : gq_pod_keep, &kept, NULL) ||
	    kept.len < skip + tail || (in_review && strncmp(kept.data, head, skip) != 0) ||
	    gq_pod_decode(kept.data + skip, kept.len - skip - tail, NULL, &pod, NULL))
		return NULL;
	return pod;
}

static size_t round_trip_folder(const char *folder, bool in_review)
{
	char path[512];
	size_t n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof path, GQ_SOURCE_DIR "/tests/fuzz/corpus/%s", folder);
	assert_non_null(dir = opendir(path));
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
		char json[1u << 14];
		(void)snprintf(path, sizeof path, GQ_SOURCE_DIR "/tests/fuzz/corpus/%s/%s", folder,
			       entry->d_name);
		FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
		if (!file)
			continue;
		size_t len = fread(json, 1, sizeof json, file);
		(void)fclose(file);
		assert_true(len < sizeof json);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_in(json, len, in_review);
		if (!pod)
			continue;
		print_message("%s\n", path);
		struct gq_pod named = with_names(pod);
		round_trip(&named, REPLICASET_USER, NULL, &line);
		n++;
	}
	(void)closedir(dir);
	return n;
}

static void pods_of_the_corpus_come_back(void **state)
{
	(void)state;
	assert_true(round_trip_folder("pod", false) >= 8);
	assert_true(round_trip_folder("review", true) >= 20);
}

static int on_pod(void *arg, const struct gq_json_item *item, struct gq_err *err)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;

	if (gq_pod_decode(item->json, item->len, NULL, &pod, err) || !*pod->uid)
		return 0; /* a bookmark */
	round_trip(pod, NULL, NULL, &line);
	++*(size_t *)arg;
	return 0;
}

static void pods_of_a_cluster_come_back(void **state)
{
	size_t n = 0, len;
	struct gq_json_stream_options options = {.shape = GQ_JSON_WATCH,
						 .keep = gq_pod_keep,
						 .max_raw_bytes = 1u << 20,
						 .max_kept_bytes = 1u << 20,
						 .on_item = on_pod,
						 .arg = &n};
	GQ_CLEANUP(gq_cleanup_json_stream)
	struct gq_json_stream *stream = gq_json_stream_new(&options);
	char *json GQ_AUTOFREE = read_file(GQ_TEST_DATA "/captures/pods-watchlist.jsonl", &len);

	(void)state;
	assert_non_null(stream);
	assert_int_equal(gq_json_stream_feed(stream, json, len, NULL), 0);
	assert_int_equal(gq_json_stream_end(stream, NULL), 0);
	assert_true(n > 0);
}

#define TYPICAL                                                                                    \
	"{'metadata':{'name':'train-5bb4fdc6b6-2b5cp','generateName':'train-5bb4fdc6b6-',"         \
	"'namespace':'team-a-training','uid':'cf085161-4f3b-4a5c-990f-d2e35e9cb53a',"              \
	"'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet','name':"                   \
	"'train-5bb4fdc6b6','uid':'f4a5f369-b28b-481f-8125-c33b0e7fd798','controller':true,"       \
	"'blockOwnerDeletion':true}]},'spec':{'nodeSelector':"                                     \
	"{'nvidia.com/gpu.product':'NVIDIA-A100-SXM4-80GB'},'containers':[{'name':'train',"        \
	"'resources':{'limits':{'nvidia.com/gpu':'1','cpu':'8','memory':'64Gi'},'requests':"       \
	"{'nvidia.com/gpu':'1','cpu':'8','memory':'64Gi'}}}],'tolerations':["                      \
	"{'key':'node.kubernetes.io/not-ready','operator':'Exists','effect':'NoExecute'},"         \
	"{'key':'node.kubernetes.io/unreachable','operator':'Exists','effect':'NoExecute'}]},"     \
	"'status':{'phase':'Pending'}}"

/* The journal holds many, and each costs etcd its bytes at every write. */
static void a_typical_line_is_short(void **state)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_buf with_user GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(TYPICAL);

	(void)state;
	round_trip(pod, NULL, NULL, &line);
	round_trip(pod, REPLICASET_USER, NULL, &with_user);
	print_message("%zu bytes, %zu with the user: %s\n", line.len, with_user.len,
		      with_user.data);
	assert_true(line.len < 400);
	assert_true(with_user.len < 470);
}

static void what_no_reservation_is_of_is_not_printed(void **state)
{
	char long_uid[GQ_UID_MAX_BYTES + 2], uid[GQ_UID_MAX_BYTES + 1];
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(SPEC(ONE_GPU));

	(void)state;
	memset(long_uid, 'u', sizeof long_uid - 1);
	long_uid[sizeof long_uid - 1] = '\0';
	(void)snprintf(uid, sizeof uid, "%.*s", GQ_UID_MAX_BYTES, long_uid);
	const struct {
		const char *namespace_, *name, *uid, *bind_node;
		int code;
	} cases[] = {
	    {"n", "p", uid, "node-1", 0},
	    {"n", "p", "", NULL, GQ_EINVALID},
	    {"n", "p", long_uid, NULL, GQ_EINVALID},
	    {"", "p", "u", NULL, GQ_EINVALID},
	    {"../n", "p", "u", NULL, GQ_EINVALID},
	    {"n", "", "u", NULL, GQ_EINVALID},
	    {"n", "P", "u", NULL, GQ_EINVALID},
	    {"n", "p", "u", "node/1", GQ_EINVALID},
	};
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
		struct gq_pod named = *pod;
		named.namespace_ = cases[i].namespace_;
		named.name = cases[i].name;
		named.uid = cases[i].uid;
		if (cases[i].code == 0) {
			round_trip(&named, NULL, cases[i].bind_node, &out);
			continue;
		}
		gq_buf_puts(&out, "before");
		assert_int_equal(gq_entry_print(&out, &named, NULL, cases[i].bind_node),
				 cases[i].code);
		assert_string_equal(out.data, "before");
		assert_int_equal(out.code, 0);
	}
}

#define ALLOWED "'spec':{}"
#define NAMED(spec) "{'metadata':{'namespace':'n','name':'p','uid':'u'}," spec "}"

static void lines_that_are_none_are_refused(void **state)
{
	static const struct {
		const char *line;
		const char *message; /* a part of it; NULL: the line is taken */
	} cases[] = {
	    {NAMED(ALLOWED), NULL},
	    {" " NAMED(ALLOWED) " ", NULL},
	    {NAMED(ALLOWED ",'later':{'a':[1]}"), NULL},
	    {NAMED(ALLOWED ",'user':null,'bindNode':null"), NULL},
	    {NAMED("'spec':{'nodeName':'any'},'status':{'phase':'Pending'}"), NULL},
	    {"", "line 1"},
	    {"null", ""},
	    {"[]", ""},
	    {"{", "line 1"},
	    {NAMED(ALLOWED) "x", "line 1"},
	    {NAMED(ALLOWED) NAMED(ALLOWED), "line 1"},
	    {"{'metadata':{'namespace':'n','name':'p'}}", "metadata.uid: must be given"},
	    {"{'metadata':{'namespace':'n','name':'p','uid':''}}", "metadata.uid: must be given"},
	    {"{'metadata':{'namespace':'n','name':'p','uid':1}}", "metadata.uid: must be a string"},
	    {"{'metadata':{'name':'p','uid':'u'}}", "metadata.namespace: "},
	    {"{'metadata':{'namespace':'a/b','name':'p','uid':'u'}}", "metadata.namespace: "},
	    {"{'metadata':{'namespace':'n','name':'../p','uid':'u'}}", "metadata.name: "},
	    {"{'metadata':{'namespace':'n','generateName':'p','uid':'u'}}", "metadata.name: "},
	    {"{'metadata':{'namespace':'n','name':'p','uid':'u','uid':'v'}}", "line 1"},
	    {NAMED("'user':'a','user':'b'"), "line 1"},
	    {NAMED("'x':{'a':1,'a':1}"), "line 1"},
	    {NAMED("'user':1"), "user: must be a string"},
	    {NAMED("'user':'a\\u0000b'"), "user: has a NUL"},
	    {NAMED("'user':'\\ud800'"), "line 1"},
	    {NAMED("'bindNode':{}"), "bindNode: must be a string"},
	    {NAMED("'bindNode':'Node 1'"), "bindNode: no node"},
	    {NAMED("'bindNode':'../n'"), "bindNode: no node"},
	    {NAMED("'spec':{'overhead':{'nvidia.com/gpu':-1}}"), "can't be counted"},
	    {NAMED("'spec':{'overhead':{'nvidia.com/gpu':1,'nvidia.com/mig-1g.5gb':1}}"),
	     "can't be counted"},
	    {NAMED("'spec':{'overhead':{'deviceclass.resource.kubernetes.io/x':1}}"),
	     "can't be counted"},
	    {NAMED("'spec':{'resourceClaims':[{'name':'c'}]}"), "can't be counted"},
	    {NAMED("'spec':{'tolerations':[{'operator':'Like'}]}"), "operator"},
	    {NAMED("'status':{'phase':'Running'}"), "past its start"},
	    {NAMED("'status':{'phase':'Succeeded'}"), "past its start"},
	    {"{'metadata':{'namespace':'n','name':'p','uid':'u','deletionTimestamp':'x'}}",
	     "past its start"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *line = json_of(cases[i].line);
		struct gq_entry entry = {.user = line};
		struct gq_err err = {0};
		print_message("%s\n", line);
		int code = gq_entry_decode(line, strlen(line), &entry, &err);
		assert_int_equal(code, cases[i].message ? GQ_EINVALID : 0);
		if (code) {
			assert_non_null(strstr(err.msg, cases[i].message));
			assert_null(entry.pod);
			assert_ptr_equal(entry.user, line);
			assert_int_equal(gq_entry_decode(line, strlen(line), &entry, NULL), code);
		} else {
			gq_entry_done(&entry);
			assert_null(entry.pod);
			gq_entry_done(&entry);
		}
		free(line);
	}
}

/* {"metadata":…,"KEY":"nnn…"} with n times this. */
static void print_filled(struct gq_buf *out, const char *uid, const char *key, const char *fill,
			 size_t n)
{
	gq_buf_printf(out,
		      "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p\",\"uid\":\"%s\"},\"%s\":\"",
		      uid, key);
	for (size_t i = 0; i < n; i++)
		gq_buf_puts(out, fill);
	assert_int_equal(gq_buf_puts(out, "\"}"), 0);
}

static void sizes_are_capped(void **state)
{
	char uid[GQ_UID_MAX_BYTES + 2];
	struct gq_buf empty GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	memset(uid, 'u', sizeof uid - 1);
	uid[sizeof uid - 1] = '\0';
	print_filled(&empty, "u", "x", "", 0);
	const struct {
		const char *uid, *key;
		size_t n;
		int code;
	} cases[] = {
	    {uid + 1, "x", 0, 0},
	    {uid, "x", 0, GQ_EINVALID},
	    {"u", "user", GQ_ENTRY_USER_MAX_BYTES, 0},
	    {"u", "user", GQ_ENTRY_USER_MAX_BYTES + 1, GQ_EINVALID},
	    {"u", "bindNode", 253, 0},
	    {"u", "bindNode", 254, GQ_EINVALID},
	    {"u", "x", GQ_ENTRY_MAX_BYTES - empty.len, 0},
	    {"u", "x", GQ_ENTRY_MAX_BYTES - empty.len + 1, GQ_ETOOBIG},
	};
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_entry entry = {0};
		print_filled(&line, cases[i].uid, cases[i].key, "a", cases[i].n);
		assert_int_equal(gq_entry_decode(line.data, line.len, &entry, NULL), cases[i].code);
		gq_entry_done(&entry);
	}
	/* nor does it help that the rest is blank */
	struct gq_entry entry = {0};
	while (empty.len <= GQ_ENTRY_MAX_BYTES)
		assert_int_equal(gq_buf_putc(&empty, ' '), 0);
	assert_int_equal(gq_entry_decode(empty.data, empty.len - 1, &entry, NULL), 0);
	gq_entry_done(&entry);
	assert_int_equal(gq_entry_decode(empty.data, empty.len, &entry, NULL), GQ_ETOOBIG);
}

static void a_long_line_is_not_printed(void **state)
{
	char value[GQ_ENTRY_MAX_BYTES + 1];
	struct gq_label label = {"k", value};
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(SPEC(ONE_GPU));
	struct gq_pod selecting = *pod;
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);

	(void)state;
	selecting.node_selector = &label;
	selecting.n_node_selector = 1;
	memset(value, 'v', sizeof value - 1);
	value[0] = '\0';
	assert_int_equal(gq_entry_print(&line, &selecting, NULL, NULL), 0);
	size_t room = GQ_ENTRY_MAX_BYTES - line.len;

	/* the longest */
	gq_buf_reset(&line);
	value[0] = 'v';
	value[room] = '\0';
	round_trip(&selecting, NULL, NULL, &line);
	assert_int_equal(line.len, GQ_ENTRY_MAX_BYTES);

	/* and behind another one, and one more byte */
	assert_int_equal(gq_entry_print(&line, &selecting, NULL, NULL), 0);
	assert_int_equal(line.len, 2 * GQ_ENTRY_MAX_BYTES);
	value[room] = 'v';
	value[room + 1] = '\0';
	assert_int_equal(gq_entry_print(&line, &selecting, NULL, NULL), GQ_ETOOBIG);
	assert_int_equal(line.code, GQ_ETOOBIG);
	assert_int_equal(line.len, 2 * GQ_ENTRY_MAX_BYTES);
	assert_int_equal(strlen(line.data), line.len);
	assert_int_equal(line.max, 1u << 20);

	/* nor one that finds no room */
	struct gq_buf small GQ_BUF_CLEANUP = GQ_BUF_INIT(80);
	assert_int_equal(gq_buf_puts(&small, "before"), 0);
	assert_int_equal(gq_entry_print(&small, pod, NULL, NULL), GQ_ETOOBIG);
	assert_string_equal(small.data, "before");
	/* nor into a buffer that has failed */
	assert_int_equal(gq_entry_print(&small, pod, NULL, NULL), GQ_ETOOBIG);
	assert_string_equal(small.data, "before");
}

/* A user of n times this comes back as so many of that. */
static void long_users_are_cut_between_characters(void **state)
{
	static const struct {
		const char *before, *fill, *back;
		size_t n;
	} cases[] = {
	    {"", "a", "a", 1024},
	    {"", "\xC3\xA9", "\xC3\xA9", 512},
	    {"a", "\xC3\xA9", "\xC3\xA9", 511},
	    {"", "\xE2\x82\xAC", "\xE2\x82\xAC", 341},
	    {"a", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80", 255},
	    {"", "\x01", "\x01", 1024},
	    {"", "\"", "\"", 1024},
	    {"", "\xFF", "\xEF\xBF\xBD", 341},
	};
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(SPEC(ONE_GPU));

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf user GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_buf back GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
		struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
		gq_buf_puts(&user, cases[i].before);
		gq_buf_puts(&back, cases[i].before);
		for (size_t k = 0; k < 2000; k++)
			gq_buf_puts(&user, cases[i].fill);
		for (size_t k = 0; k < cases[i].n; k++)
			gq_buf_puts(&back, cases[i].back);
		assert_int_equal(gq_entry_print(&line, pod, user.data, NULL), 0);
		assert_int_equal(gq_entry_decode(line.data, line.len, &entry, NULL), 0);
		assert_string_equal(entry.user, back.data);
	}
}

static void too_little_memory_is_an_answer(void **state)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(TYPICAL);
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	bool failed = true;

	(void)state;
	for (long nth = 0; failed; nth++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
		fail_alloc(nth);
		int code = gq_entry_print(&out, pod, REPLICASET_USER, "node-1");
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		assert_int_equal(out.code, code);
		assert_true(!failed || out.len == 0);
		assert_true(failed || nth > 0);
	}
	assert_int_equal(gq_entry_print(&line, pod, REPLICASET_USER, "node-1"), 0);
	failed = true;
	for (long nth = 0; failed; nth++) {
		struct gq_entry entry = {0};
		struct gq_err err = {0};
		fail_alloc(nth);
		int code = gq_entry_decode(line.data, line.len, &entry, &err);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		assert_int_equal(err.code, code);
		assert_true(!failed || (!entry.pod && !entry.user && !entry.bind_node));
		assert_true(failed || nth > 5);
		gq_entry_done(&entry);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_are_as_short_as_they_can_be),
	    cmocka_unit_test(what_a_pod_asks_and_where_comes_back),
	    cmocka_unit_test(pods_of_the_corpus_come_back),
	    cmocka_unit_test(pods_of_a_cluster_come_back),
	    cmocka_unit_test(a_typical_line_is_short),
	    cmocka_unit_test(what_no_reservation_is_of_is_not_printed),
	    cmocka_unit_test(lines_that_are_none_are_refused),
	    cmocka_unit_test(sizes_are_capped),
	    cmocka_unit_test(a_long_line_is_not_printed),
	    cmocka_unit_test(long_users_are_cut_between_characters),
	    cmocka_unit_test(too_little_memory_is_an_answer),
	};

	return cmocka_run_group_tests(tests, make_nodes, free_nodes);
}
