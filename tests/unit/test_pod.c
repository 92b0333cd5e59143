#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quota/arena.h"
#include "quota/message.h"
#include "tests/unit/quota_testing.h"

static void print_problem(struct gq_buf *out, const struct gq_pod_problem *problem)
{
	static const char *const kinds[] = {[GQ_PROBLEM_UNSUPPORTED_RESOURCE] = "unsupported",
					    [GQ_PROBLEM_UNSUPPORTED_ANNOTATION] = "annotation",
					    [GQ_PROBLEM_BAD_QUANTITY] = "bad"};

	if (problem->kind != GQ_PROBLEM_NONE)
		gq_buf_printf(out, "%s(%s|%s|%s|%s) ", kinds[problem->kind], problem->container,
			      problem->name, problem->value,
			      gq_phrase_text(GQ_LOCALE_EN, &problem->detail));
}

/* What a pod asks for, in one line. */
static void print_asks(struct gq_buf *out, const struct gq_pod *pod)
{
	static const char *const roles[] = {"init", "sidecar", "main", "overhead"};

	for (size_t i = 0; i < pod->n_asks; i++) {
		gq_buf_printf(out, "%s:%s", roles[pod->asks[i].role], pod->asks[i].container);
		for (size_t k = 0; k < pod->asks[i].n_amounts; k++)
			gq_buf_printf(out, " %s=%" PRId64, pod->asks[i].amounts[k].resource,
				      pod->asks[i].amounts[k].value);
		gq_buf_puts(out, "; ");
	}
	for (size_t i = 0; i < pod->n_device_classes; i++)
		gq_buf_printf(out, "class %s ", pod->device_classes[i]);
	for (size_t i = 0; i < pod->n_claims; i++)
		gq_buf_printf(out, "claim %s|%s|%s ", pod->claims[i].name, pod->claims[i].claim,
			      pod->claims[i].template);
	print_problem(out, &pod->problem);
	while (out->len && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
}

/* One container c with these resources. */
#define ONE(resources)                                                                             \
	"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c'," resources "}]}}"
#define LIMIT(limits) ONE("'resources':{'limits':{" limits "}}")
#define KAI "KAI Scheduler's GPU sharing"

static const struct {
	const char *pod;
	const char *asks;
} asks_cases[] = {
    {"{'metadata':{'name':'p'}}", ""},
    {"{'metadata':{'name':'p'},'spec':null,'status':null}", ""},
    {ONE("'resources':{}"), ""},
    {ONE("'resources':{'limits':null,'requests':null}"), ""},
    {LIMIT("'cpu':'1','memory':'4Gi','example.com/gpunk':'1'"), ""},
    {LIMIT("'nvidia.com/gpu':'2'"), "main:c nvidia.com/gpu=2;"},
    {LIMIT("'nvidia.com/gpu':2"), "main:c nvidia.com/gpu=2;"},
    {LIMIT("'nvidia.com/gpu':2.0"), "main:c nvidia.com/gpu=2;"},
    {LIMIT("'nvidia.com/gpu':'1k'"), "main:c nvidia.com/gpu=1000;"},
    {LIMIT("'nvidia.com/gpu':'1Ki'"), "main:c nvidia.com/gpu=1024;"},
    {LIMIT("'nvidia.com/gpu':'1e3'"), "main:c nvidia.com/gpu=1000;"},
    {LIMIT("'nvidia.com/gpu':'2000m'"), "main:c nvidia.com/gpu=2;"},
    {LIMIT("'amd.com/gpu':'4'"), "main:c amd.com/gpu=4;"},
    /* requests and limits */
    {ONE("'resources':{'requests':{'nvidia.com/gpu':'3'}}"), "main:c nvidia.com/gpu=3;"},
    {ONE("'resources':{'requests':{'nvidia.com/gpu':'2'},'limits':{'nvidia.com/gpu':'2'}}"),
     "main:c nvidia.com/gpu=2;"},
    {ONE("'resources':{'requests':{'nvidia.com/gpu':'1'},'limits':{'nvidia.com/gpu':'4',"
	 "'amd.com/gpu':'2'}}"),
     "main:c nvidia.com/gpu=1 amd.com/gpu=2;"},
    {ONE("'resources':{'requests':{'cpu':'1'},'limits':{'nvidia.com/gpu':'4'}}"),
     "main:c nvidia.com/gpu=4;"},
    {ONE("'resources':{'requests':{'nvidia.com/gpu':'0'},'limits':{'nvidia.com/gpu':'4'}}"), ""},
    {LIMIT("'nvidia.com/gpu':'0'"), ""},
    {LIMIT("'nvidia.com/mig-1g.5gb':'0'"), ""},
    {LIMIT("'deviceclass.resource.kubernetes.io/gpu.nvidia.com':'0'"), ""},
    /* HAMi */
    {LIMIT("'nvidia.com/gpu':'2','nvidia.com/gpumem':'2048'"),
     "main:c nvidia.com/gpu=2 nvidia.com/gpumem=2048;"},
    {LIMIT("'nvidia.com/gpumem':'2k'"), "main:c nvidia.com/gpumem=2000;"},
    {LIMIT("'nvidia.com/gpumem-percentage':'250','nvidia.com/gpucores':'101'"),
     "main:c nvidia.com/gpumem-percentage=100 nvidia.com/gpucores=100;"},
    {LIMIT("'nvidia.com/gpu':1,'nvidia.com/gpumem':0,'nvidia.com/gpumem-percentage':0,"
	   "'nvidia.com/gpucores':0,'nvidia.com/priority':1"),
     "main:c nvidia.com/gpu=1;"},
    {LIMIT("'nvidia.com/gpumem':0"), ""},
    /* where */
    {"{'metadata':{'name':'p'},'spec':{'overhead':{'nvidia.com/gpu':'1','cpu':'1'},'containers':["
     "{'name':'a','resources':{'limits':{'nvidia.com/gpu':'1'}}},{'name':'idle'},"
     "{'name':'b','resources':{'limits':{'nvidia.com/gpu':'2'}}}],'initContainers':["
     "{'name':'i','restartPolicy':null,'resources':{'limits':{'nvidia.com/gpu':'3'}}},"
     "{'name':'s','restartPolicy':'Always','resources':{'limits':{'nvidia.com/gpu':'4'}}}]}}",
     "init:i nvidia.com/gpu=3; sidecar:s nvidia.com/gpu=4; main:a nvidia.com/gpu=1; "
     "main:b nvidia.com/gpu=2; overhead: nvidia.com/gpu=1;"},
    {"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a','restartPolicy':'Always',"
     "'resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}",
     "main:a nvidia.com/gpu=1;"},
    {"{'metadata':{'name':'p'},'spec':{'ephemeralContainers':[{'name':'e','resources':{'limits':"
     "{'nvidia.com/gpu':'1'}}}]}}",
     ""},
    /* DRA */
    {LIMIT("'deviceclass.resource.kubernetes.io/gpu.nvidia.com':'1'"), "class gpu.nvidia.com"},
    {ONE("'resources':{'requests':{'deviceclass.resource.kubernetes.io/x':'1'},"
	 "'limits':{'deviceclass.resource.kubernetes.io/x':'1'}}"),
     "class x"},
    {"{'metadata':{'name':'p'},'spec':{'resourceClaims':[{'name':'a','resourceClaimName':'x'},"
     "{'name':'b','resourceClaimTemplateName':'y'},{'name':'c','source':{}}]}}",
     "claim a|x| claim b||y claim c||"},
    /* what can't be counted */
    {LIMIT("'nvidia.com/mig-1g.5gb':'1'"), "unsupported(containers/c|nvidia.com/mig-1g.5gb|1|MIG)"},
    {LIMIT("'nvidia.com/mig-1g.5gb':'nonsense'"),
     "unsupported(containers/c|nvidia.com/mig-1g.5gb|nonsense|MIG)"},
    {LIMIT("'nvidia.com/gpu':'500m'"),
     "bad(containers/c|nvidia.com/gpu|500m|it must be a whole number)"},
    {LIMIT("'nvidia.com/gpu':0.5"),
     "bad(containers/c|nvidia.com/gpu|0.5|it must be a whole number)"},
    {LIMIT("'nvidia.com/gpu':'-1'"), "bad(containers/c|nvidia.com/gpu|-1|it is negative)"},
    {LIMIT("'nvidia.com/gpu':-1"), "bad(containers/c|nvidia.com/gpu|-1|it is negative)"},
    {LIMIT("'nvidia.com/gpu':null"),
     "bad(containers/c|nvidia.com/gpu|null|it is not a Kubernetes quantity)"},
    {LIMIT("'nvidia.com/gpu':'NaN'"),
     "bad(containers/c|nvidia.com/gpu|NaN|it is not a Kubernetes quantity)"},
    {LIMIT("'nvidia.com/gpu':'0x'"),
     "bad(containers/c|nvidia.com/gpu|0x|it is not a Kubernetes quantity)"},
    {LIMIT("'nvidia.com/gpu':''"),
     "bad(containers/c|nvidia.com/gpu||it is not a Kubernetes quantity)"},
    {LIMIT("'nvidia.com/gpu':1e30"),
     "bad(containers/c|nvidia.com/gpu|1e30|it is larger than can be counted)"},
    {LIMIT("'nvidia.com/gpu':'9223372036854775807'"),
     "bad(containers/c|nvidia.com/gpu|9223372036854775807|it is larger than can be counted)"},
    {LIMIT("'nvidia.com/gpumem':'1.5'"),
     "bad(containers/c|nvidia.com/gpumem|1.5|it must be a whole number)"},
    {"{'metadata':{'name':'p'},'spec':{'initContainers':[{'name':'i','resources':{'requests':{"
     "'volcano.sh/vgpu-number':'1'}}}],'overhead':{'nvidia.com/gpu':'-1'}}}",
     "unsupported(initContainers/i|volcano.sh/vgpu-number|1|Volcano vGPU)"},
    {"{'metadata':{'name':'p'},'spec':{'overhead':{'nvidia.com/gpu':'-1'}}}",
     "bad(overhead|nvidia.com/gpu|-1|it is negative)"},
    {"{'metadata':{'name':'p','annotations':{'gpu-fraction':'0.5','x':'y'}}}",
     "annotation(|gpu-fraction|0.5|" KAI ")"},
    {"{'metadata':{'name':'p','annotations':{'gpu-memory':''}}}",
     "annotation(|gpu-memory||" KAI ")"},
    {"{'metadata':{'name':'p','annotations':{'gpu-fraction-num-devices':'2'}},'spec':{'containers':"
     "[{'name':'c','resources':{'limits':{'nvidia.com/gpu':1}}}]}}",
     "main:c nvidia.com/gpu=1; annotation(|gpu-fraction-num-devices|2|" KAI ")"},
    {"{'metadata':{'name':'p','annotations':{'nvidia.com/use-gputype':'A100'}}}", ""},
};

static void asks(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(asks_cases); i++) {
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(asks_cases[i].pod);
		print_message("%s\n", asks_cases[i].pod);
		gq_buf_puts(&text, "");
		print_asks(&text, pod);
		assert_string_equal(text.data, asks_cases[i].asks);
		assert_int_equal(gq_pod_asks_for_gpu(pod), text.len > 0);
	}
}

static void identity(void **state)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) =
	    pod_of_text("{'metadata':{'name':'p','namespace':'n','uid':'u','generateName':'g-','"
			"ownerReferences':["
			"{'kind':'Other','name':'o','uid':'1'},"
			"{'kind':'Job','name':'j','uid':'2','controller':true},"
			"{'kind':'Late','name':'l','uid':'3','controller':false}]},"
			"'spec':{'nodeName':'node-1'}}");

	(void)state;
	assert_string_equal(pod->namespace_, "n");
	assert_string_equal(pod->name, "p");
	assert_string_equal(pod->uid, "u");
	assert_string_equal(pod->generate_name, "g-");
	assert_string_equal(pod->node_name, "node-1");
	assert_string_equal(pod->owner.kind, "Job");
	assert_string_equal(pod->owner.name, "j");
	assert_string_equal(pod->owner.uid, "2");

	struct gq_pod *bare GQ_CLEANUP(gq_cleanup_pod) =
	    pod_of_text("{'metadata':{'generateName':'g-'}}");
	assert_string_equal(bare->name, "");
	assert_string_equal(bare->namespace_, "");
	assert_string_equal(bare->owner.kind, "");
	assert_string_equal(bare->owner.name, "");
	assert_string_equal(bare->owner.uid, "");
	assert_string_equal(bare->problem.container, "");
	assert_string_equal(bare->problem.detail.name, "");
	assert_int_equal(bare->phase, GQ_POD_PENDING);
	assert_false(bare->terminating);
}

static void default_namespace_fills_in(void **state)
{
	static const struct {
		const char *json, *fallback, *want;
	} cases[] = {
	    {"{'metadata':{'name':'p'}}", "team", "team"},
	    {"{'metadata':{'name':'p','namespace':''}}", "team", "team"},
	    {"{'metadata':{'name':'p','namespace':'own'}}", "team", "own"},
	    {"{'metadata':{'name':'p'}}", NULL, ""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *json = json_of(cases[i].json);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = NULL;
		assert_int_equal(gq_pod_decode(json, strlen(json), cases[i].fallback, &pod, NULL),
				 0);
		free(json);
		assert_string_equal(pod->namespace_, cases[i].want);
	}
}

static void phases(void **state)
{
	static const struct {
		const char *pod;
		enum gq_pod_phase phase;
		bool terminating;
	} cases[] = {
	    {"{'metadata':{'name':'p'},'status':{}}", GQ_POD_PENDING, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Pending'}}", GQ_POD_PENDING, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Running'}}", GQ_POD_RUNNING, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Unknown'}}", GQ_POD_RUNNING, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Hibernated'}}", GQ_POD_RUNNING, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Succeeded'}}", GQ_POD_SUCCEEDED, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Failed'}}", GQ_POD_FAILED, false},
	    {"{'metadata':{'name':'p','deletionTimestamp':'2026-11-30T08:41:50Z'}}", GQ_POD_PENDING,
	     true},
	    {"{'metadata':{'name':'p','deletionTimestamp':null}}", GQ_POD_PENDING, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(cases[i].pod);
		print_message("%s\n", cases[i].pod);
		assert_int_equal(pod->phase, cases[i].phase);
		assert_int_equal(pod->terminating, cases[i].terminating);
	}
}

#define CONDITIONS(phase, list)                                                                    \
	"{'metadata':{'name':'p'},'spec':{'nodeName':'n'},'status':{'phase':'" phase               \
	"','conditions':" list "}}"
#define READY(status) "{'type':'Ready','status':'" status "'}"

/* A pod serves nobody while it runs and its kubelet does not say that it is Ready. */
static void readiness(void **state)
{
	static const struct {
		const char *pod;
		bool ready, unready;
	} cases[] = {
	    {CONDITIONS("Running", "[" READY("True") "]"), true, false},
	    {CONDITIONS("Running", "[" READY("False") "]"), false, true},
	    {CONDITIONS("Running", "[" READY("Unknown") "]"), false, true},
	    {CONDITIONS("Running", "[" READY("true") "]"), false, true},
	    {CONDITIONS("Running", "[]"), false, true},
	    {CONDITIONS("Running", "null"), false, true},
	    {CONDITIONS("Running", "[{'type':'Ready'}]"), false, true},
	    {CONDITIONS("Running", "[{'type':'ContainersReady','status':'True'},"
				   "{'type':'PodScheduled','status':'True'}]"),
	     false, true},
	    {CONDITIONS("Running", "[{'type':'ContainersReady','status':'False'}," READY(
				       "True") ","
					       "{'type':'example.com/Ready','status':'False'}]"),
	     true, false},
	    {CONDITIONS("Unknown", "[" READY("False") "]"), false, true}, /* a lost node */
	    /* images are pulled, init containers run */
	    {CONDITIONS("Pending", "[" READY("False") "]"), false, false},
	    {CONDITIONS("Succeeded", "[" READY("False") "]"), false, false},
	    {CONDITIONS("Failed", "[" READY("False") "]"), false, false},
	    {"{'metadata':{'name':'p'},'status':{'phase':'Running'}}", false, false},
	    {"{'metadata':{'name':'p','deletionTimestamp':'2026-11-30T08:41:50Z'},"
	     "'spec':{'nodeName':'n'},'status':{'phase':'Running'}}",
	     false, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(cases[i].pod);
		print_message("%s\n", cases[i].pod);
		assert_int_equal(pod->ready, cases[i].ready);
		assert_int_equal(gq_pod_unready(pod), cases[i].unready);
	}
}

/* Of conditions there are many, they are long, and each event of a pod has them. */
static void little_is_kept_of_conditions(void **state)
{
	char *json =
	    json_of("{'metadata':{'name':'p'},'status':{'phase':'Running','conditions':["
		    "{'type':'ContainersReady','status':'False'},{'status':'False','type':'Ready','"
		    "lastProbeTime':null,'lastTransitionTime':'2026-11-30T08:41:50Z',"
		    "'reason':'ContainersNotReady','message':'containers with unready status: [c]',"
		    "'observedGeneration':1},{'type':'Initialized','status':'True'}],'"
		    "containerStatuses':[{'ready':false}]}}");
	char *kept =
	    json_of("{'metadata':{'name':'p'},'status':{'phase':'Running','conditions':[{'status':"
		    "'False','type':'Ready'}]}}");
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);

	(void)state;
	assert_int_equal(gq_json_prune(json, strlen(json), gq_pod_keep, &out, NULL), 0);
	assert_string_equal(out.data, kept);
	free(json);
	free(kept);
}

static void print_requirements(struct gq_buf *out, const struct gq_requirement *r, size_t n)
{
	static const char *const ops[] = {"in", "notin", "exists", "!exists", ">", "<"};

	for (size_t i = 0; i < n; i++) {
		gq_buf_printf(out, " %s %s", r[i].key, ops[r[i].op]);
		for (size_t k = 0; k < r[i].n_values; k++)
			gq_buf_printf(out, "%c%s", k ? ',' : ' ', r[i].values[k]);
		gq_buf_putc(out, ';');
	}
}

/* Where a pod may land, in one line. */
static void print_placing(struct gq_buf *out, const struct gq_pod *pod)
{
	for (size_t i = 0; i < pod->n_node_selector; i++)
		gq_buf_printf(out, "%s=%s ", pod->node_selector[i].key,
			      pod->node_selector[i].value);
	if (pod->has_affinity)
		gq_buf_puts(out, "affinity ");
	for (size_t i = 0; i < pod->n_affinity; i++) {
		gq_buf_puts(out, "[");
		print_requirements(out, pod->affinity[i].expressions,
				   pod->affinity[i].n_expressions);
		if (pod->affinity[i].n_fields)
			gq_buf_puts(out, " fields");
		print_requirements(out, pod->affinity[i].fields, pod->affinity[i].n_fields);
		gq_buf_puts(out, "] ");
	}
	for (size_t i = 0; i < pod->n_tolerations; i++)
		gq_buf_printf(out, "tolerates(%s%s%s:%s) ", pod->tolerations[i].key,
			      pod->tolerations[i].exists ? " exists " : "=",
			      pod->tolerations[i].value, pod->tolerations[i].effect);
	while (out->len && out->data[out->len - 1] == ' ')
		out->data[--out->len] = '\0';
}

#define SPEC(spec) "{'metadata':{'name':'p'},'spec':{" spec "}}"
#define REQUIRED(required)                                                                         \
	SPEC("'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution'"        \
	     ":" required "}}")

static void placing(void **state)
{
	static const struct {
		const char *pod;
		const char *placing;
	} cases[] = {
	    {SPEC("'nodeSelector':{'b':'2','c':'','a':'1'}"), "a=1 b=2 c="},
	    {SPEC("'affinity':null"), ""},
	    {SPEC("'affinity':{'podAffinity':{}}"), ""},
	    {SPEC("'affinity':{'nodeAffinity':{'preferredDuringSchedulingIgnoredDuringExecution':"
		  "[{'weight':1}]}}"),
	     ""},
	    {REQUIRED("null"), ""},
	    {REQUIRED("{}"), "affinity"},
	    {REQUIRED("{'nodeSelectorTerms':[]}"), "affinity"},
	    {REQUIRED("{'nodeSelectorTerms':[{}]}"), "affinity []"},
	    {REQUIRED("{'nodeSelectorTerms':[{'matchExpressions':["
		      "{'key':'a','operator':'In','values':['x','y']},"
		      "{'key':'b','operator':'NotIn','values':['z']},"
		      "{'key':'c','operator':'Exists'},{'key':'d','operator':'DoesNotExist'},"
		      "{'key':'e','operator':'Gt','values':['3']},"
		      "{'key':'f','operator':'Lt','values':['9']}],"
		      "'matchFields':[{'key':'metadata.name','operator':'In','values':['n']}]},"
		      "{'matchFields':[]}]}"),
	     "affinity [ a in x,y; b notin z; c exists; d !exists; e > 3; f < 9; "
	     "fields metadata.name in n;] []"},
	    {SPEC("'tolerations':[{'key':'nvidia.com/"
		  "gpu','operator':'Exists','effect':'NoSchedule'},"
		  "{'key':'k','operator':'Equal','value':'v'},{'key':'k','value':'w'},"
		  "{'operator':'Exists'},{'key':'n','operator':'Gt','value':'5'}]"),
	     "tolerates(nvidia.com/gpu exists :NoSchedule) tolerates(k=v:) tolerates(k=w:) "
	     "tolerates( exists :) tolerates(n exists 5:)"},
	    {SPEC("'tolerations':[{'key':'node.kubernetes.io/not-ready','operator':'Exists',"
		  "'effect':'NoExecute','tolerationSeconds':300},{'key':'k','operator':'Exists'},"
		  "{'key':'node.kubernetes.io/unreachable','operator':'Exists'}]"),
	     "tolerates(k exists :)"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_of_text(cases[i].pod);
		print_message("%s\n", cases[i].pod);
		gq_buf_puts(&text, "");
		print_placing(&text, pod);
		assert_string_equal(text.data, cases[i].placing);
	}
}

static void wrong_types_are_named(void **state)
{
	static const struct {
		const char *pod;
		const char *message; /* its start */
	} cases[] = {
	    {"", "not a JSON object: it is cut off"},
	    {"{", "not a JSON object: it is cut off"},
	    {"[]", "not a JSON object"},
	    {"{} {}", "not a JSON object"},
	    {"{'metadata':{}}", "metadata.name: must be given"},
	    {"{'spec':{}}", "metadata.name: must be given"},
	    {"{'metadata':1}", "metadata: must be an object"},
	    {"{'metadata':{'name':1}}", "metadata.name: must be a string"},
	    {"{'metadata':{'name':'p\\u0000q'}}", "metadata.name: has a NUL character in it"},
	    {"{'metadata':{'name':'p','uid':[]}}", "metadata.uid: must be a string"},
	    {"{'metadata':{'name':'p','namespace':{}}}", "metadata.namespace: must be a string"},
	    {"{'metadata':{'name':'p','deletionTimestamp':0}}",
	     "metadata.deletionTimestamp: must be a string"},
	    {"{'metadata':{'name':'p','annotations':{'gpu-fraction':0.5}}}",
	     "metadata.annotations.gpu-fraction: must be a string"},
	    {"{'metadata':{'name':'p','annotations':[]}}",
	     "metadata.annotations: must be an object"},
	    {"{'metadata':{'name':'p','ownerReferences':{}}}",
	     "metadata.ownerReferences: must be a list"},
	    {"{'metadata':{'name':'p','ownerReferences':[{'controller':'yes'}]}}",
	     "metadata.ownerReferences[0].controller: must be true or false"},
	    {"{'metadata':{'name':'p','ownerReferences':[{'controller':true,'uid':7}]}}",
	     "metadata.ownerReferences[0].uid: must be a string"},
	    {"{'metadata':{'name':'p'},'status':{'phase':3}}", "status.phase: must be a string"},
	    {"{'metadata':{'name':'p'},'status':{'conditions':{}}}",
	     "status.conditions: must be a list"},
	    {"{'metadata':{'name':'p'},'status':{'conditions':[7]}}",
	     "status.conditions[0]: must be an object"},
	    {"{'metadata':{'name':'p'},'status':{'conditions':[{},{'status':true}]}}",
	     "status.conditions[1].status: must be a string"},
	    {"{'metadata':{'name':'p'},'spec':[]}", "spec: must be an object"},
	    {SPEC("'nodeName':{}"), "spec.nodeName: must be a string"},
	    {SPEC("'nodeSelector':{'a':1}"), "spec.nodeSelector.a: must be a string"},
	    {SPEC("'nodeSelector':{'a':null}"), "spec.nodeSelector.a: must be a string"},
	    {SPEC("'nodeSelector':'a'"), "spec.nodeSelector: must be an object"},
	    {SPEC("'affinity':[]"), "spec.affinity: must be an object"},
	    {REQUIRED("{'nodeSelectorTerms':{}}"),
	     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
	     "nodeSelectorTerms: must be a list"},
	    {REQUIRED("{'nodeSelectorTerms':[null]}"),
	     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
	     "nodeSelectorTerms[0]: must be an object"},
	    {REQUIRED(
		 "{'nodeSelectorTerms':[{},{'matchExpressions':[{'key':'a','operator':'Like'}]}]}"),
	     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
	     "nodeSelectorTerms[1].matchExpressions[0].operator: unknown operator \"Like\""},
	    {REQUIRED("{'nodeSelectorTerms':[{'matchFields':[{'key':'a','operator':'In','values':["
		      "1]}]}]}"),
	     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
	     "nodeSelectorTerms[0].matchFields[0].values[0]: must be a string"},
	    {SPEC("'tolerations':[{'operator':'Maybe'}]"),
	     "spec.tolerations[0].operator: unknown operator \"Maybe\""},
	    {SPEC("'tolerations':[{'key':false}]"), "spec.tolerations[0].key: must be a string"},
	    {SPEC("'containers':{}"), "spec.containers: must be a list"},
	    {SPEC("'containers':['c']"), "spec.containers[0]: must be an object"},
	    {SPEC("'containers':[{},{'name':2}]"), "spec.containers[1].name: must be a string"},
	    {SPEC("'containers':[{'resources':1}]"),
	     "spec.containers[0].resources: must be an object"},
	    {SPEC("'containers':[{'resources':{'limits':[]}}]"),
	     "spec.containers[0].resources.limits: must be an object"},
	    {SPEC("'containers':[{'resources':{'limits':{'nvidia.com/gpu':true}}}]"),
	     "spec.containers[0].resources.limits.nvidia.com/gpu: must be a quantity"},
	    {SPEC("'initContainers':[{'resources':{'requests':{'nvidia.com/gpu':{}}}}]"),
	     "spec.initContainers[0].resources.requests.nvidia.com/gpu: must be a quantity"},
	    {SPEC("'initContainers':[{'restartPolicy':1}]"),
	     "spec.initContainers[0].restartPolicy: must be a string"},
	    {SPEC("'overhead':{'nvidia.com/gpu':['1']}"),
	     "spec.overhead.nvidia.com/gpu: must be a quantity"},
	    {SPEC("'resourceClaims':{}"), "spec.resourceClaims: must be a list"},
	    {SPEC("'resourceClaims':[{'name':1}]"),
	     "spec.resourceClaims[0].name: must be a string"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *json = json_of(cases[i].pod);
		struct gq_err err = {0};
		struct gq_pod *pod = NULL;
		print_message("%s\n", cases[i].pod);
		assert_int_equal(gq_pod_decode(json, strlen(json), "n", &pod, &err), GQ_EINVALID);
		assert_null(pod);
		assert_int_equal(strncmp(err.msg, cases[i].message, strlen(cases[i].message)), 0);
		assert_int_equal(gq_pod_decode(json, strlen(json), "n", &pod, NULL), GQ_EINVALID);
		free(json);
	}
}

/* A pod with n items between before and after. */
static int decode_many(const char *before, const char *item, size_t n, const char *after,
		       struct gq_pod **ret_pod, struct gq_err *err)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 20);

	gq_buf_puts(&text, before);
	for (size_t i = 0; i < n; i++)
		gq_buf_printf(&text, "%s%s", i ? "," : "", item);
	assert_int_equal(gq_buf_puts(&text, after), 0);
	char *json = json_of(text.data);
	int code = gq_pod_decode(json, strlen(json), NULL, ret_pod, err);
	free(json);
	return code;
}

static void sizes_are_capped(void **state)
{
	static const struct {
		const char *before, *item, *after;
		size_t max;
		const char *message;
	} cases[] = {
	    {"{'metadata':{'name':'p'},'spec':{'containers':[",
	     "{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}", "]}}", 1000,
	     "spec.containers: has more than 1000 items"},
	    {"{'metadata':{'name':'p'},'spec':{'tolerations':[", "{'key':'k','value':'v'}", "]}}",
	     1000, "spec.tolerations: has more than 1000 items"},
	    {"{'metadata':{'name':'p'},'spec':{'affinity':{'nodeAffinity':{"
	     "'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[",
	     "{}", "]}}}}}", 100,
	     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
	     "nodeSelectorTerms: has more than 100 items"},
	    {"{'metadata':{'name':'p'},'spec':{'resourceClaims':[", "{'name':'c'}", "]}}", 1000,
	     "spec.resourceClaims: has more than 1000 items"},
	    {"{'metadata':{'name':'p','ownerReferences':[", "{'kind':'k'}", "]}}", 1000,
	     "metadata.ownerReferences: has more than 1000 items"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_err err = {0};
		struct gq_pod *pod = NULL;
		assert_int_equal(decode_many(cases[i].before, cases[i].item, cases[i].max,
					     cases[i].after, &pod, &err),
				 0);
		gq_pod_unref(pod);
		pod = NULL;
		assert_int_equal(decode_many(cases[i].before, cases[i].item, cases[i].max + 1,
					     cases[i].after, &pod, &err),
				 GQ_ETOOBIG);
		assert_null(pod);
		assert_string_equal(err.msg, cases[i].message);
	}
	struct gq_pod *pod = NULL;
	assert_int_equal(decode_many("{'metadata':{'name':'p'},'spec':{'containers':[",
				     "{'name':'c'}", 1u << 20, "]}}", &pod, NULL),
			 GQ_ETOOBIG);
	/* deeper than any field that is read */
	assert_int_equal(
	    decode_many("{'metadata':{'name':'p'},'spec':{'overhead':[[[[[[[[[[[[[[[[[[[["
			"[[[[[[[[[[[[[[",
			"", 0, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}}", &pod, NULL),
	    GQ_EINVALID);
}

static void references_share_one_block(void **state)
{
	struct gq_pod *pod = pod_of_text(LIMIT("'nvidia.com/gpu':'1'"));
	struct gq_pod *again = gq_pod_ref(pod);

	(void)state;
	assert_ptr_equal(again, pod);
	gq_pod_unref(pod);
	assert_string_equal(again->name, "p");
	assert_int_equal(again->asks[0].amounts[0].value, 1);
	gq_pod_unref(again);
	gq_pod_unref(NULL);
	assert_null(gq_pod_ref(NULL));
}

static void an_object_does_not_borrow_its_json(void **state)
{
	char *json =
	    json_of("{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','resources':"
		    "{'limits':{'nvidia.com/gpu':'x','amd.com/gpu':'1'}}}]}}");
	struct gq_pod *pod = NULL;

	(void)state;
	assert_int_equal(gq_pod_decode(json, strlen(json), NULL, &pod, NULL), 0);
	memset(json, 'z', strlen(json));
	free(json);
	assert_string_equal(pod->problem.value, "x");
	assert_string_equal(pod->problem.name, "nvidia.com/gpu");
	assert_string_equal(pod->asks[0].container, "c");
	gq_pod_unref(pod);
}

/* The ledger holds each pod of the cluster that asks for a GPU. */
static void a_typical_pod_is_small(void **state)
{
	struct gq_pod *pod = pod_of_text(
	    "{'metadata':{'name':'train-5bb4fdc6b6-2b5cp','generateName':'train-5bb4fdc6b6-',"
	    "'namespace':'team-a-training','uid':'cf085161-4f3b-4a5c-990f-d2e35e9cb53a',"
	    "'ownerReferences':[{'kind':'ReplicaSet','name':'train-5bb4fdc6b6',"
	    "'uid':'f4a5f369-b28b-481f-8125-c33b0e7fd798','controller':true}]},"
	    "'spec':{'nodeName':'gpu-node-0001.example.com','nodeSelector':"
	    "{'nvidia.com/gpu.product':'NVIDIA-A100-SXM4-80GB'},'containers':[{'name':'train',"
	    "'resources':{'limits':{'nvidia.com/gpu':'1','cpu':'8','memory':'64Gi'},'requests':"
	    "{'nvidia.com/gpu':'1','cpu':'8','memory':'64Gi'}}}],'tolerations':["
	    "{'key':'node.kubernetes.io/not-ready','operator':'Exists','effect':'NoExecute'},"
	    "{'key':'node.kubernetes.io/unreachable','operator':'Exists','effect':'NoExecute'},"
	    "{'key':'nvidia.com/gpu','operator':'Exists','effect':'NoSchedule'}]},"
	    "'status':{'phase':'Running'}}");

	(void)state;
	print_message("%zu bytes\n", gq_counted_size(pod));
	assert_true(gq_counted_size(pod) > sizeof *pod);
	assert_true(gq_counted_size(pod) < 800);
	gq_pod_unref(pod);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(asks),
	    cmocka_unit_test(identity),
	    cmocka_unit_test(default_namespace_fills_in),
	    cmocka_unit_test(phases),
	    cmocka_unit_test(readiness),
	    cmocka_unit_test(little_is_kept_of_conditions),
	    cmocka_unit_test(placing),
	    cmocka_unit_test(wrong_types_are_named),
	    cmocka_unit_test(sizes_are_capped),
	    cmocka_unit_test(references_share_one_block),
	    cmocka_unit_test(an_object_does_not_borrow_its_json),
	    cmocka_unit_test(a_typical_pod_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
