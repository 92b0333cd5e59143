#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/quota_testing.h"

static struct gq_node *node_of_text(const char *single_quoted)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
	struct gq_err err = {0};
	char *json = json_of(single_quoted);
	struct gq_node *node = NULL;

	assert_int_equal(prune(json, strlen(json), gq_node_keep, &kept), 0);
	free(json);
	if (gq_node_decode(kept.data, kept.len, &node, &err))
		fail_msg("%s", err.msg);
	return node;
}

#define NODE(meta, spec, status)                                                                   \
	"{'metadata':{'name':'n'" meta "},'spec':{" spec "},'status':{" status "}}"

static void what_is_read(void **state)
{
	static const struct {
		const char *node;
		const char *text;
	} cases[] = {
	    {"{'metadata':{'name':'n'}}", "n |"},
	    {NODE(",'uid':'u','labels':{'b':'2','a':'1','a.b':''},'annotations':{'x':'y'}", "", ""),
	     "n u|a=1 a.b= b=2 "},
	    {NODE("",
		  "'unschedulable':true,'taints':[{'key':'node.kubernetes.io/"
		  "unschedulable','effect':"
		  "'NoSchedule'},{'key':'nvidia.com/gpu','value':'present','effect':'NoSchedule'},"
		  "{'key':'soft','effect':'PreferNoSchedule'},{'key':'k','effect':'NoExecute',"
		  "'timeAdded':'x'},{'key':'node.kubernetes.io/not-ready','effect':'NoExecute'}]",
		  ""),
	     "n |taint nvidia.com/gpu=present:NoSchedule taint k=:NoExecute "},
	    {NODE(
		 "", "",
		 "'capacity':{'nvidia.com/gpu':'9'},'allocatable':{'nvidia.com/gpu':'8','cpu':'64',"
		 "'amd.com/gpu':0,'nvidia.com/mig-1g.5gb':'many','example.com/nic':'4',"
		 "'nvidia.com/gpumem':'1k','example.com/my-gpu':null}"),
	     "n |amd.com/gpu:0 example.com/my-gpu:0 nvidia.com/gpu:8 nvidia.com/gpumem:1000 "
	     "nvidia.com/mig-1g.5gb:0 "},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_node *node GQ_CLEANUP(gq_cleanup_node) = node_of_text(cases[i].node);
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		print_message("%s\n", cases[i].node);
		gq_buf_printf(&text, "%s %s|", node->name, node->uid);
		for (size_t k = 0; k < node->n_labels; k++)
			gq_buf_printf(&text, "%s=%s ", node->labels[k].key, node->labels[k].value);
		for (size_t k = 0; k < node->n_taints; k++)
			gq_buf_printf(&text, "taint %s=%s:%s ", node->taints[k].key,
				      node->taints[k].value, node->taints[k].effect);
		for (size_t k = 0; k < node->n_resources; k++)
			gq_buf_printf(&text, "%s:%" PRId64 " ", node->resources[k].name,
				      node->resources[k].count);
		assert_string_equal(text.data, cases[i].text);
	}
}

static void equality(void **state)
{
	static const char same[] = NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
					"'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
					"'allocatable':{'nvidia.com/gpu':'8'}");
	static const struct {
		const char *node;
		bool equal;
	} cases[] = {
	    {same, true},
	    /* a heartbeat, another order, a taint that passes, another annotation */
	    {NODE(",'resourceVersion':'9','uid':'u','annotations':{'x':'y'},'labels':{'b':'2','a':'"
		  "1'}",
		  "'unschedulable':true,'taints':[{'key':'node.kubernetes.io/"
		  "disk-pressure','effect':"
		  "'NoSchedule'},{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'conditions':[{'type':'Ready'}],'allocatable':{'cpu':'1','nvidia.com/gpu':8}"),
	     true},
	    {NODE(",'uid':'other','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'3'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','c':'2'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}", "",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoExecute'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'k','value':'w','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'j','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'nvidia.com/gpu':'7'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]",
		  "'allocatable':{'amd.com/gpu':'8'}"),
	     false},
	    {NODE(",'uid':'u','labels':{'a':'1','b':'2'}",
		  "'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]", ""),
	     false},
	    {"{'metadata':{'name':'m','uid':'u','labels':{'a':'1','b':'2'}},'spec':{'taints':["
	     "{'key':'k','value':'v','effect':'NoSchedule'}]},'status':{'allocatable':"
	     "{'nvidia.com/gpu':'8'}}}",
	     false},
	};
	struct gq_node *node GQ_CLEANUP(gq_cleanup_node) = node_of_text(same);

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_node *other GQ_CLEANUP(gq_cleanup_node) = node_of_text(cases[i].node);
		print_message("%s\n", cases[i].node);
		assert_int_equal(gq_node_equal(node, other), cases[i].equal);
		assert_int_equal(gq_node_equal(other, node), cases[i].equal);
	}
}

static void wrong_types_are_named(void **state)
{
	static const struct {
		const char *node;
		const char *message;
	} cases[] = {
	    {"{}", "metadata.name: must be given"},
	    {"{'metadata':{'name':''}}", "metadata.name: must be given"},
	    {NODE(",'labels':{'a':1}", "", ""), "metadata.labels.a: must be a string"},
	    {NODE(",'labels':[]", "", ""), "metadata.labels: must be an object"},
	    {NODE(",'uid':1", "", ""), "metadata.uid: must be a string"},
	    {NODE("", "'taints':{}", ""), "spec.taints: must be a list"},
	    {NODE("", "'taints':[1]", ""), "spec.taints[0]: must be an object"},
	    {NODE("", "'taints':[{'key':1}]", ""), "spec.taints[0].key: must be a string"},
	    {NODE("", "'taints':[{'effect':'NoSchedule','value':1}]", ""),
	     "spec.taints[0].value: must be a string"},
	    {NODE("", "", "'allocatable':[]"), "status.allocatable: must be an object"},
	    {NODE("", "", "'allocatable':{'nvidia.com/gpu':false}"),
	     "status.allocatable.nvidia.com/gpu: must be a quantity"},
	    {"{'metadata':{'name':'n'},'status':'x'}", "status: must be an object"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *json = json_of(cases[i].node);
		struct gq_err err = {0};
		struct gq_node *node = NULL;
		print_message("%s\n", cases[i].node);
		assert_int_equal(gq_node_decode(json, strlen(json), &node, &err), GQ_EINVALID);
		free(json);
		assert_null(node);
		assert_string_equal(err.msg, cases[i].message);
	}
}

static void too_many_labels(void **state)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_err err = {0};
	struct gq_node *node = NULL;

	(void)state;
	gq_buf_puts(&json, "{\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"\"");
	for (int i = 0; i < 4000; i++)
		gq_buf_printf(&json, ",\"k%d\":\"v\"", i);
	assert_int_equal(gq_buf_puts(&json, "}}}"), 0);
	assert_int_equal(gq_node_decode(json.data, json.len, &node, &err), GQ_ETOOBIG);
	assert_string_equal(err.msg, "metadata.labels: has more than 4000 entries");
}

static void namespaces(void **state)
{
	static const char text[] =
	    "{'metadata':{'name':'team-a','uid':'u','labels':{'z':'1','team':'a'},"
	    "'managedFields':[]},'spec':{'finalizers':['kubernetes']}}";
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
	struct gq_err err = {0};
	struct gq_namespace *ns GQ_CLEANUP(gq_cleanup_namespace) = NULL;
	char *json = json_of(text);

	(void)state;
	assert_int_equal(prune(json, strlen(json), gq_namespace_keep, &kept), 0);
	free(json);
	assert_int_equal(gq_namespace_decode(kept.data, kept.len, &ns, &err), 0);
	assert_string_equal(ns->name, "team-a");
	assert_string_equal(ns->uid, "u");
	assert_int_equal(ns->n_labels, 2);
	assert_string_equal(gq_label_get(ns->labels, ns->n_labels, "team"), "a");
	struct gq_namespace *again = gq_namespace_ref(ns);
	assert_ptr_equal(again, ns);
	gq_namespace_unref(again);

	struct gq_namespace *bad = NULL;
	assert_int_equal(gq_namespace_decode("{}", 2, &bad, &err), GQ_EINVALID);
	assert_string_equal(err.msg, "metadata.name: must be given");
	assert_null(bad);
	gq_namespace_unref(NULL);
}

static void node_references(void **state)
{
	struct gq_node *node = node_of_text("{'metadata':{'name':'n'}}");
	struct gq_node *again = gq_node_ref(node);

	(void)state;
	gq_node_unref(node);
	assert_string_equal(again->name, "n");
	gq_node_unref(again);
	gq_node_unref(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_read),
	    cmocka_unit_test(equality),
	    cmocka_unit_test(wrong_types_are_named),
	    cmocka_unit_test(too_many_labels),
	    cmocka_unit_test(namespaces),
	    cmocka_unit_test(node_references),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
