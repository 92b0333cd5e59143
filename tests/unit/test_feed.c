#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/feed.h"
#include "tests/unit/app_testing.h"

typedef int (*feed_fn)(void *arg, const struct gq_event *event, struct gq_err *err);

static struct app_clock app_time;
static struct gq_feed feed;

static int setup(void **state)
{
	(void)state;
	app_clock_init(&app_time);
	feed = (struct gq_feed){.ledger = app_ledger(APP_POLICY), .clock = &app_time.clock};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	gq_ledger_free(feed.ledger);
	return 0;
}

/* json: single-quoted, or NULL. Objects come pruned, so this prunes. */
static int send(feed_fn fn, enum gq_event_kind kind, const char *json, struct gq_err *err)
{
	const struct gq_json_keep *keep = fn == gq_feed_pods    ? gq_pod_keep
					  : fn == gq_feed_nodes ? gq_node_keep
								: gq_namespace_keep;
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(8u << 20);
	struct gq_event event = {.kind = kind};

	*err = (struct gq_err){0};
	if (json) {
		char *text = json_of(json);
		if (gq_json_prune(text, strlen(text), keep, &kept, err))
			fail_msg("%s", err->msg);
		free(text);
		event.json = kept.data;
		event.len = kept.len;
		event.resource_version = "1";
	}
	return fn(&feed, &event, err);
}

static void good(feed_fn fn, enum gq_event_kind kind, const char *json)
{
	struct gq_err err;

	if (send(fn, kind, json, &err))
		fail_msg("%s", err.msg);
}

#define POD(uid, more)                                                                             \
	"{'metadata':{'namespace':'a-train','name':'" uid "','uid':'" uid "'" more                 \
	"},'spec':{'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}"

static int held(int state)
{
	return app_held(feed.ledger, "team-a", state);
}

static void pods(void **state)
{
	(void)state;
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u1", ""));
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u2", ""));
	assert_int_equal(held(GQ_STATE_PENDING), 2);
	good(gq_feed_pods, GQ_EVENT_UPSERT,
	     POD("u1", ",'deletionTimestamp':'2026-01-01T00:00:00Z'"));
	assert_int_equal(held(GQ_STATE_TERMINATING), 1);
	good(gq_feed_pods, GQ_EVENT_DELETE, POD("u1", ""));
	assert_int_equal(held(-1), 1);
	good(gq_feed_pods, GQ_EVENT_DELETE, POD("u1", "")); /* again */
	good(gq_feed_pods, GQ_EVENT_DELETE, POD("unknown", ""));
	good(gq_feed_pods, GQ_EVENT_IDLE, NULL);
	assert_int_equal(held(-1), 1);
}

/* What a list does not show is gone. */
static void pod_lists(void **state)
{
	(void)state;
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u1", ""));
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u2", ""));
	good(gq_feed_pods, GQ_EVENT_LIST_BEGIN, NULL);
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u2", ""));
	/* one that failed half way is begun again */
	good(gq_feed_pods, GQ_EVENT_LIST_BEGIN, NULL);
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u3", ""));
	assert_int_equal(held(-1), 3);
	good(gq_feed_pods, GQ_EVENT_LIST_END, NULL);
	assert_int_equal(held(-1), 1);
	good(gq_feed_pods, GQ_EVENT_DELETE, POD("u3", ""));
	assert_int_equal(held(-1), 0);
}

/* An object that nobody can use is an error; the others go on. */
static void bad_objects(void **state)
{
	static const struct {
		feed_fn fn;
		const char *json;
	} cases[] = {
	    {gq_feed_pods, "{}"},
	    {gq_feed_pods, "{'metadata':{'name':'x'}}"},
	    {gq_feed_pods, "{'metadata':{'namespace':'a-train','name':'x'}}"},
	    {gq_feed_pods, "{'metadata':'x'}"},
	    {gq_feed_pods, "{'metadata':{'namespace':'n','name':'x','uid':'u'},'spec':'x'}"},
	    {gq_feed_pods, "{'metadata':{'namespace':'n','name':'x','uid':'u'},"
			   "'spec':{'containers':7}}"},
	    {gq_feed_nodes, "{}"},
	    {gq_feed_nodes, "{'metadata':{'name':7}}"},
	    {gq_feed_namespaces, "{}"},
	    {gq_feed_namespaces, "{'metadata':{'name':'n','labels':[]}}"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_err err;
		assert_int_equal(send(cases[i].fn, GQ_EVENT_UPSERT, cases[i].json, &err),
				 GQ_EINVALID);
		assert_true(err.msg[0] != '\0');
		assert_int_equal(app_charges(feed.ledger), i);
		char pod[512];
		(void)snprintf(pod, sizeof pod,
			       "{'metadata':{'namespace':'a-train','name':'p%zu','uid':'p%zu'},"
			       "'spec':{'containers':[{'name':'c','resources':{'limits':"
			       "{'nvidia.com/gpu':'1'}}}]}}",
			       i, i);
		good(gq_feed_pods, GQ_EVENT_UPSERT, pod);
		assert_int_equal(app_charges(feed.ledger), i + 1);
	}
}

static void print_many(struct gq_buf *out, const char *item)
{
	for (int i = 0; i < 1001; i++) {
		gq_buf_puts(out, i ? "," : "");
		gq_buf_puts(out, item);
	}
}

/* Nobody frees the GPUs of a running pod by adding to it what we can't read. */
static void pods_beyond_us(void **state)
{
	static const struct {
		const char *metadata, *spec, *status, *many;
	} cases[] = {
	    {",'ownerReferences':[%]", "", "",
	     "{'apiVersion':'v1','kind':'ConfigMap','name':'c','uid':'x'}"},
	    {"", ",'tolerations':[%]", "", "{'key':'k','operator':'Exists'}"},
	    {"", ",'tolerations':[{'operator':'Unless'}]", "", ""},
	    {"",
	     ",'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':"
	     "{'nodeSelectorTerms':[{'matchExpressions':[{'key':'k','operator':'Near','values':"
	     "['x']}]}]}}}",
	     "", ""},
	    {"", "", "'conditions':[%]", "{'type':'Ready','status':'True'}"},
	    {"", "", "'phase':'Running','conditions':{'Ready':'True'}", ""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_buf many GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_err err;
		const char *parts[] = {"{'metadata':{'namespace':'a-train','name':'p','uid':'u'",
				       cases[i].metadata,
				       "},'spec':{'containers':[{'name':'c','resources':{'limits':"
				       "{'nvidia.com/gpu':'1'}}}]",
				       cases[i].spec,
				       "},'status':{",
				       cases[i].status,
				       "}}"};
		print_many(&many, cases[i].many);
		for (size_t k = 0; k < LEN(parts); k++) {
			size_t cut = strcspn(parts[k], "%");
			gq_buf_append(&json, parts[k], cut);
			if (parts[k][cut]) {
				gq_buf_append(&json, many.data, many.len);
				gq_buf_puts(&json, parts[k] + cut + 1);
			}
		}
		assert_int_equal(json.code, 0);
		good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u", ""));
		good(gq_feed_pods, GQ_EVENT_LIST_BEGIN, NULL);
		int code = send(gq_feed_pods, GQ_EVENT_UPSERT, json.data, &err);
		assert_true(code == GQ_EINVALID || code == GQ_ETOOBIG);
		assert_has(err.msg, "pod a-train/p is counted, though not understood");
		good(gq_feed_pods, GQ_EVENT_LIST_END, NULL);
		assert_int_equal(held(-1), 1);
		/* and its end is seen */
		good(gq_feed_pods, GQ_EVENT_DELETE, json.data);
		assert_int_equal(held(-1), 0);
	}
}

/* A deletion needs the uid or the name and nothing else. */
static void deletions(void **state)
{
	struct gq_err err;

	(void)state;
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u", ""));
	assert_int_equal(send(gq_feed_pods, GQ_EVENT_DELETE, "{'metadata':{'name':'u'}}", &err),
			 GQ_EINVALID);
	assert_has(err.msg, "uid");
	assert_int_equal(send(gq_feed_pods, GQ_EVENT_DELETE, "{'metadata':{'uid':7}}", &err),
			 GQ_EINVALID);
	assert_int_equal(held(-1), 1);
	good(gq_feed_pods, GQ_EVENT_DELETE, "{'metadata':{'uid':'u'},'spec':{'containers':7}}");
	assert_int_equal(held(-1), 0);
	assert_int_equal(send(gq_feed_nodes, GQ_EVENT_DELETE, "{}", &err), GQ_EINVALID);
	assert_has(err.msg, "name");
	assert_int_equal(send(gq_feed_namespaces, GQ_EVENT_DELETE, "{}", &err), GQ_EINVALID);
	good(gq_feed_nodes, GQ_EVENT_DELETE, "{'metadata':{'name':'a1','labels':7}}");
	good(gq_feed_namespaces, GQ_EVENT_DELETE, "{'metadata':{'name':'n','labels':7}}");
}

/* ---- nodes ---- */

#define NODE(name, product)                                                                        \
	"{'metadata':{'name':'" name "','uid':'n','labels':{'nvidia.com/gpu.product':'" product    \
	"'}},'status':{'allocatable':{'nvidia.com/gpu':'8'}}}"

static void bind(const char *uid, const char *node)
{
	char json[512];

	(void)snprintf(json, sizeof json,
		       "{'metadata':{'namespace':'a-train','name':'%s','uid':'%s'},'spec':"
		       "{'nodeName':'%s','containers':[{'name':'c','resources':{'limits':"
		       "{'nvidia.com/gpu':'1'}}}]}}",
		       uid, uid, node);
	good(gq_feed_pods, GQ_EVENT_UPSERT, json);
}

/* Changes of nodes count once the events at hand are through. */
static void nodes(void **state)
{
	(void)state;
	good(gq_feed_nodes, GQ_EVENT_UPSERT, NODE("h1", "NVIDIA-H100-80GB-HBM3"));
	bind("u1", "h1");
	assert_int_equal(held(GQ_STATE_BOUND), 1); /* unknown yet: it counts in every limit */
	good(gq_feed_nodes, GQ_EVENT_IDLE, NULL);
	assert_int_equal(held(GQ_STATE_BOUND), 0); /* an H100, of which team-a has no limit */
	bind("u2", "a1");
	assert_int_equal(held(GQ_STATE_BOUND), 1);
	good(gq_feed_nodes, GQ_EVENT_UPSERT, NODE("h1", "NVIDIA-A100-SXM4-80GB"));
	good(gq_feed_pods, GQ_EVENT_IDLE, NULL); /* of another collection: nothing happens */
	assert_int_equal(held(GQ_STATE_BOUND), 1);
	good(gq_feed_nodes, GQ_EVENT_IDLE, NULL);
	assert_int_equal(held(GQ_STATE_BOUND), 2);
	/* a node that goes away changes nothing */
	good(gq_feed_nodes, GQ_EVENT_DELETE, NODE("h1", "NVIDIA-A100-SXM4-80GB"));
	good(gq_feed_nodes, GQ_EVENT_IDLE, NULL);
	assert_int_equal(held(GQ_STATE_BOUND), 2);
}

static void node_lists(void **state)
{
	(void)state;
	good(gq_feed_nodes, GQ_EVENT_LIST_BEGIN, NULL);
	good(gq_feed_nodes, GQ_EVENT_UPSERT, NODE("h1", "NVIDIA-H100-80GB-HBM3"));
	good(gq_feed_nodes, GQ_EVENT_LIST_END, NULL);
	good(gq_feed_nodes, GQ_EVENT_IDLE, NULL);
	/* a1 is gone: a pod that may only go to an H100 counts in no limit of A100 */
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u1", ""));
	assert_int_equal(held(-1), 0);
}

/* ---- namespaces ---- */

static int held_by_b(void)
{
	return app_held(feed.ledger, "team-b", -1);
}

static void namespaces(void **state)
{
	(void)state;
	good(gq_feed_pods, GQ_EVENT_UPSERT,
	     "{'metadata':{'namespace':'b-1','name':'p','uid':'u'},'spec':{'containers':[{'name':"
	     "'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}");
	assert_int_equal(held_by_b(), 0);
	good(gq_feed_namespaces, GQ_EVENT_UPSERT,
	     "{'metadata':{'name':'b-1','labels':{'team':'b'}}}");
	assert_int_equal(held_by_b(), 1);
	good(gq_feed_namespaces, GQ_EVENT_UPSERT, "{'metadata':{'name':'b-1','labels':{}}}");
	assert_int_equal(held_by_b(), 0);
	good(gq_feed_namespaces, GQ_EVENT_LIST_BEGIN, NULL);
	good(gq_feed_namespaces, GQ_EVENT_UPSERT,
	     "{'metadata':{'name':'b-1','labels':{'team':'b'}}}");
	good(gq_feed_namespaces, GQ_EVENT_LIST_END, NULL);
	good(gq_feed_namespaces, GQ_EVENT_IDLE, NULL);
	assert_int_equal(held_by_b(), 1);
	good(gq_feed_namespaces, GQ_EVENT_DELETE, "{'metadata':{'name':'other'}}");
	assert_int_equal(held_by_b(), 1);
}

/* What was told of own pods, as text. */
static char told[512];

static void on_own_pod(void *arg, const char *name, const char *leader_label, const char *barrier,
		       bool gone, bool listed)
{
	assert_ptr_equal(arg, &feed);
	/* the ledger has it by now */
	(void)snprintf(told + strlen(told), sizeof told - strlen(told),
		       "%s%s%s leader=%s barrier=%s held=%d;", listed ? "in list " : "",
		       gone ? "-" : "+", name, leader_label, barrier, held(-1));
}

static void on_pods_listed(void *arg, int64_t begun_ns)
{
	assert_ptr_equal(arg, &feed);
	assert_int_equal(begun_ns, 77);
	(void)snprintf(told + strlen(told), sizeof told - strlen(told), "listed held=%d;",
		       held(-1));
}

static void expect_told(const char *text)
{
	assert_string_equal(told, text);
	told[0] = '\0';
}

static void own_pods(void **state)
{
	struct gq_err err;

	(void)state;
	told[0] = '\0';
	feed.arg = &feed;
	feed.on_own_pod = on_own_pod;
	feed.on_pods_listed = on_pods_listed;
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u1", ""));
	expect_told("");
	/* the namespace of the others, so that the ledger shows what it has */
	feed.own_namespace = "a-train";
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u2", ""));
	good(gq_feed_pods, GQ_EVENT_UPSERT,
	     POD("u3", ",'labels':{'app':'a-train','gpuquota.io/leader':'true'},"
		       "'annotations':{'gpuquota.io/barrier':'7','x':'y'}"));
	good(gq_feed_pods, GQ_EVENT_DELETE, POD("u3", ",'labels':{'gpuquota.io/leader':''}"));
	expect_told("+u2 leader= barrier= held=2;+u3 leader=true barrier=7 held=3;"
		    "-u3 leader= barrier= held=2;");
	/* the name elsewhere is not the namespace */
	good(gq_feed_pods, GQ_EVENT_UPSERT,
	     "{'metadata':{'namespace':'other','name':'a-train','uid':'u4'},'spec':{}}");
	expect_told("");
	/* a pod that is not understood is told all the same */
	assert_int_equal(send(gq_feed_pods, GQ_EVENT_UPSERT,
			      "{'metadata':{'namespace':'a-train','name':'p','uid':'u5',"
			      "'annotations':{'gpuquota.io/barrier':'8'}},'spec':{'containers':3}}",
			      &err),
			 GQ_EINVALID);
	expect_told("+p leader= barrier=8 held=2;");
	const struct gq_event begin = {.kind = GQ_EVENT_LIST_BEGIN, .begun_ns = 77};
	const struct gq_event end = {.kind = GQ_EVENT_LIST_END, .begun_ns = 77};
	assert_int_equal(gq_feed_pods(&feed, &begin, &err), 0);
	good(gq_feed_pods, GQ_EVENT_UPSERT, POD("u2", ""));
	assert_int_equal(gq_feed_pods(&feed, &end, &err), 0);
	expect_told("in list +u2 leader= barrier= held=2;listed held=1;");
}

/* The captured stream of the API server goes through whole. */
static void captured_stream(void **state)
{
	char *text, *line, *rest;
	size_t len, n = 0;

	(void)state;
	text = read_file(GQ_TEST_DATA "/captures/pods-watchlist.jsonl", &len);
	good(gq_feed_pods, GQ_EVENT_LIST_BEGIN, NULL);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct json_object *root = json_parse(line, strlen(line));
		const char *type = json_text(root, "type");
		struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
		struct gq_err err = {0};
		const char *json = json_object_to_json_string(json_at(root, "object"));
		if (strcmp(type, "BOOKMARK") != 0) {
			assert_int_equal(
			    gq_json_prune(json, strlen(json), gq_pod_keep, &kept, &err), 0);
			const struct gq_event event = {.kind = strcmp(type, "DELETED") == 0
								   ? GQ_EVENT_DELETE
								   : GQ_EVENT_UPSERT,
						       .json = kept.data,
						       .len = kept.len,
						       .resource_version = "1"};
			if (gq_feed_pods(&feed, &event, &err))
				fail_msg("%s", err.msg);
			n++;
		}
		json_object_put(root);
	}
	good(gq_feed_pods, GQ_EVENT_LIST_END, NULL);
	free(text);
	assert_true(n > 0 && app_charges(feed.ledger) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(pods),      TEST(pod_lists),       TEST(bad_objects), TEST(pods_beyond_us),
	    TEST(deletions), TEST(nodes),           TEST(node_lists),  TEST(namespaces),
	    TEST(own_pods),  TEST(captured_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
