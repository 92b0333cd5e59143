#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "fail_alloc.h"
#include "workload_testing.h"

#define POD                                                                                        \
	"'template':{'metadata':{'labels':{'app':'x'}},'spec':{'containers':[{'name':'main',"      \
	"'resources':{'limits':{'nvidia.com/gpu':'2'}}}]}}"

static void kinds(void **state)
{
	static const struct {
		const char *group, *resource, *name;
	} cases[] = {
	    {"apps", "deployments", "Deployment"},
	    {"apps", "replicasets", "ReplicaSet"},
	    {"apps", "statefulsets", "StatefulSet"},
	    {"apps", "daemonsets", "DaemonSet"},
	    {"batch", "jobs", "Job"},
	    {"batch", "cronjobs", "CronJob"},
	    {"", "replicationcontrollers", "ReplicationController"},
	    {"", "podtemplates", "PodTemplate"},
	};
	static const char *const others[][2] = {{"", "pods"},
						{"", "deployments"},
						{"extensions", "deployments"},
						{"apps", "controllerrevisions"},
						{"apps", ""},
						{"batch", "deployments"}};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		int kind = gq_workload_kind_of(cases[i].group, cases[i].resource);
		assert_true(kind >= 0);
		assert_string_equal(gq_workload_kind_name((enum gq_workload_kind)kind),
				    cases[i].name);
	}
	for (size_t i = 0; i < LEN(others); i++)
		assert_int_equal(gq_workload_kind_of(others[i][0], others[i][1]), -1);
}

/* How many pods each kind has, and how many more while it rolls. */
static void counts(void **state)
{
	static const struct {
		enum gq_workload_kind kind;
		const char *fields; /* beside the template */
		int64_t pods, surge;
	} cases[] = {
	    {GQ_WORKLOAD_DEPLOYMENT, "", 1, 1},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':8,", 8, 2},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':9,", 9, 3},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':0,", 0, 0},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':null,", 1, 1},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':2147483647,", 2147483647, 536870912},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':4,'strategy':{'type':'Recreate'},", 4, 0},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':4,'strategy':{'type':'RollingUpdate'},", 4, 1},
	    {GQ_WORKLOAD_DEPLOYMENT,
	     "'replicas':4,'strategy':{'rollingUpdate':{'maxUnavailable':1}},", 4, 1},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':4,'strategy':{'rollingUpdate':{'maxSurge':0}},", 4,
	     0},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':4,'strategy':{'rollingUpdate':{'maxSurge':3}},", 4,
	     3},
	    /* no more than there are to be replaced */
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':4,'strategy':{'rollingUpdate':{'maxSurge':9}},", 4,
	     4},
	    {GQ_WORKLOAD_DEPLOYMENT,
	     "'replicas':3,'strategy':{'rollingUpdate':{'maxSurge':'34%'}},", 3, 2},
	    {GQ_WORKLOAD_DEPLOYMENT, "'replicas':3,'strategy':{'rollingUpdate':{'maxSurge':'0%'}},",
	     3, 0},
	    {GQ_WORKLOAD_DEPLOYMENT,
	     "'replicas':3,'strategy':{'rollingUpdate':{'maxSurge':'100%'}},", 3, 3},
	    {GQ_WORKLOAD_DEPLOYMENT,
	     "'replicas':2147483647,'strategy':{'rollingUpdate':{'maxSurge':"
	     "'99999999999999999999%'}},",
	     2147483647, 2147483647},
	    {GQ_WORKLOAD_REPLICA_SET, "", 1, 0},
	    {GQ_WORKLOAD_REPLICA_SET, "'replicas':5,", 5, 0},
	    {GQ_WORKLOAD_STATEFUL_SET, "", 1, 0},
	    {GQ_WORKLOAD_STATEFUL_SET,
	     "'replicas':5,'updateStrategy':{'rollingUpdate':{'maxUnavailable':2}},", 5, 0},
	    {GQ_WORKLOAD_REPLICATION_CONTROLLER, "'replicas':5,", 5, 0},
	    {GQ_WORKLOAD_JOB, "", 1, 0},
	    {GQ_WORKLOAD_JOB, "'parallelism':4,", 4, 0},
	    {GQ_WORKLOAD_JOB, "'parallelism':4,'completions':2,", 2, 0},
	    {GQ_WORKLOAD_JOB, "'completions':9,", 1, 0},
	    {GQ_WORKLOAD_JOB, "'parallelism':0,", 0, 0},
	    {GQ_WORKLOAD_JOB, "'parallelism':4,'suspend':true,", 0, 0},
	    {GQ_WORKLOAD_JOB, "'parallelism':4,'suspend':false,", 4, 0},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_buf_printf(&json, "{'metadata':{'name':'w'},'spec':{%s%s}}", cases[i].fields,
			      POD);
		struct gq_workload w = workload_of(cases[i].kind, json.data);
		if (w.pods != cases[i].pods || gq_workload_surge(&w, w.pods) != cases[i].surge)
			fail_msg("%s: %lld + %lld", cases[i].fields, (long long)w.pods,
				 (long long)gq_workload_surge(&w, w.pods));
		assert_int_equal(w.pod->n_asks, 1);
		gq_workload_done(&w);
	}
}

static void a_daemon_set_has_a_pod_for_each_node(void **state)
{
	static const struct {
		const char *fields;
		int64_t surge_of_10;
	} cases[] = {
	    {"", 0},
	    {"'updateStrategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':2}},", 2},
	    {"'updateStrategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':'15%'}},", 2},
	    {"'updateStrategy':{'type':'OnDelete','rollingUpdate':{'maxSurge':2}},", 0},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_buf_printf(&json, "{'metadata':{'name':'w'},'spec':{%s%s}}", cases[i].fields,
			      POD);
		struct gq_workload w = workload_of(GQ_WORKLOAD_DAEMON_SET, json.data);
		assert_int_equal(w.pods, GQ_PODS_BY_NODES);
		assert_int_equal(gq_workload_surge(&w, 10), cases[i].surge_of_10);
		gq_workload_done(&w);
	}
}

static void a_cron_jobs_template_is_its_jobs(void **state)
{
	static const struct {
		const char *fields, *job_fields;
		int64_t pods;
	} cases[] = {{"", "", 1},
		     {"", "'parallelism':3,", 3},
		     {"", "'parallelism':3,'completions':2,", 2},
		     {"'suspend':true,", "'parallelism':3,", 0},
		     {"", "'suspend':true,'parallelism':3,", 0},
		     {"'parallelism':7,", "", 1}};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_buf_printf(&json,
			      "{'metadata':{'name':'w'},'spec':{%s'jobTemplate':{'spec':{%s%s}}}}",
			      cases[i].fields, cases[i].job_fields, POD);
		struct gq_workload w = workload_of(GQ_WORKLOAD_CRON_JOB, json.data);
		assert_int_equal(w.pods, cases[i].pods);
		assert_int_equal(w.pod->asks[0].amounts[0].value, 2);
		gq_workload_done(&w);
	}
}

static void a_pod_template_has_no_pods(void **state)
{
	struct gq_workload w =
	    workload_of(GQ_WORKLOAD_POD_TEMPLATE, "{'metadata':{'name':'w'}," POD "}");

	(void)state;
	assert_int_equal(w.pods, 0);
	assert_int_equal(w.pod->n_asks, 1);
	gq_workload_done(&w);
}

/* The controller gives its pods their names, owners and the namespace, whatever the template says.
 */
static void the_templates_own_names_are_nobodys(void **state)
{
	struct gq_workload w = workload_of(
	    GQ_WORKLOAD_DEPLOYMENT,
	    "{'metadata':{'name':'web','namespace':'a-serve','uid':'u','deletionTimestamp':'now',"
	    "'ownerReferences':[{'kind':'X','name':'x'},{'kind':'Y','controller':true}]},"
	    "'spec':{'template':{'metadata':{'name':'p','generateName':'p-','namespace':'other',"
	    "'uid':'u','deletionTimestamp':'now','ownerReferences':[{'controller':true,'kind':'A',"
	    "'name':'a','uid':'b'}],'annotations':{'gpu-fraction':'0.5'}},"
	    "'status':{'phase':'Succeeded'},"
	    "'spec':{'hostPID':true,'containers':[{'name':'main'}]}}}}");

	(void)state;
	assert_string_equal(w.name, "web");
	assert_string_equal(w.namespace_, "a-serve");
	assert_true(w.deleted && w.owned);
	assert_string_equal(w.pod->namespace_, "a-serve");
	assert_string_equal(w.pod->name, "");
	assert_string_equal(w.pod->generate_name, "");
	assert_string_equal(w.pod->uid, "");
	assert_string_equal(w.pod->owner.kind, "");
	assert_false(w.pod->terminating);
	assert_int_equal(w.pod->phase, GQ_POD_PENDING);
	assert_true(gq_pod_is_template(w.pod));
	assert_int_equal(w.pod->problem.kind, GQ_PROBLEM_UNSUPPORTED_ANNOTATION);
	assert_true(w.posture->host_pid);
	gq_workload_done(&w);
}

static void what_is_left_out(void **state)
{
	static const char *const cases[] = {"{}", "{'spec':{}}", "{'spec':null}",
					    "{'spec':{'template':null}}",
					    "{'metadata':{'generateName':'w-'}}"};

	(void)state;
	for (int kind = 0; kind < GQ_WORKLOAD_KINDS; kind++) {
		for (size_t i = 0; i < LEN(cases); i++) {
			struct gq_workload w = workload_of((enum gq_workload_kind)kind, cases[i]);
			assert_string_equal(w.name, "");
			assert_string_equal(w.namespace_, "a-train");
			assert_false(w.deleted || w.owned || gq_pod_asks_for_gpu(w.pod));
			assert_string_equal(w.template_, "");
			gq_workload_done(&w);
		}
	}
}

/* Whatever makes new pods is a change of the template, and nothing else is. */
static void a_change_of_the_template(void **state)
{
	static const struct {
		const char *json;
		bool changed;
	} cases[] = {
	    {"{'spec':{'template':{'spec':{'containers':[{'name':'a','image':'i:1'}]}}}}", false},
	    {"{'metadata':{'name':'x','labels':{'a':'b'}},'spec':{'replicas':7,'template':"
	     "{'spec':{'containers':[{'name':'a','image':'i:1'}]}}},'status':{'replicas':3}}",
	     false},
	    {"{'spec':{'template':{'spec':{'containers':[{'name':'a','image':'i:2'}]}}}}", true},
	    {"{'spec':{'template':{'metadata':{'annotations':{'restarted':'1'}},"
	     "'spec':{'containers':[{'name':'a','image':'i:1'}]}}}}",
	     true},
	};
	struct gq_workload old = workload_of(GQ_WORKLOAD_DEPLOYMENT, cases[0].json);

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_workload w = workload_of(GQ_WORKLOAD_DEPLOYMENT, cases[i].json);
		assert_int_equal(strcmp(w.template_, old.template_) != 0, cases[i].changed);
		gq_workload_done(&w);
	}
	gq_workload_done(&old);
}

static void malformed(void **state)
{
	static const struct {
		enum gq_workload_kind kind;
		const char *json, *message;
	} cases[] = {
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':[]}", "spec: must be an object"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'template':1}}", "spec.template: must be an object"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'replicas':-1}}",
	     "spec.replicas: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'replicas':2147483648}}",
	     "spec.replicas: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'replicas':99999999999999999999999}}",
	     "spec.replicas: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'replicas':1.5}}",
	     "spec.replicas: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'replicas':'3'}}",
	     "spec.replicas: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'strategy':{'rollingUpdate':{'maxSurge':'2'}}}}",
	     "spec.strategy.rollingUpdate.maxSurge: must be a number or a percentage"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'strategy':{'rollingUpdate':{'maxSurge':'%'}}}}",
	     "spec.strategy.rollingUpdate.maxSurge: must be a number or a percentage"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'strategy':{'rollingUpdate':{'maxSurge':'-5%'}}}}",
	     "spec.strategy.rollingUpdate.maxSurge: must be a number or a percentage"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'spec':{'strategy':{'rollingUpdate':{'maxSurge':-5}}}}",
	     "spec.strategy.rollingUpdate.maxSurge: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_DAEMON_SET, "{'spec':{'updateStrategy':{'type':1}}}",
	     "spec.updateStrategy.type: must be a string"},
	    {GQ_WORKLOAD_JOB, "{'spec':{'suspend':'yes'}}", "spec.suspend: must be true or false"},
	    {GQ_WORKLOAD_JOB, "{'spec':{'completions':-1}}",
	     "spec.completions: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_CRON_JOB, "{'spec':{'jobTemplate':{'spec':{'parallelism':-1}}}}",
	     "spec.jobTemplate.spec.parallelism: must be a whole number from 0 to 2147483647"},
	    {GQ_WORKLOAD_CRON_JOB,
	     "{'spec':{'jobTemplate':{'spec':{'template':{'spec':{'containers':[{'name':1}]}}}}}}",
	     "spec.jobTemplate.spec.template.spec.containers[0].name: must be a string"},
	    {GQ_WORKLOAD_STATEFUL_SET, "{'spec':{'template':{'spec':{'hostPID':'yes'}}}}",
	     "spec.template.spec.hostPID: must be true or false"},
	    {GQ_WORKLOAD_POD_TEMPLATE, "{'template':{'spec':{'nodeName':1}}}",
	     "template.spec.nodeName: must be a string"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'metadata':{'name':7}}", "metadata.name: must be a string"},
	    {GQ_WORKLOAD_DEPLOYMENT, "{'metadata':{'ownerReferences':[{'controller':1}]}}",
	     "metadata.ownerReferences[0].controller: must be true or false"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_workload w = {0};
		struct gq_err err = {0};
		int code = workload_read(cases[i].kind, cases[i].json, &w, &err);
		if (code != GQ_EINVALID || strcmp(err.msg, cases[i].message) != 0)
			fail_msg("%s: %d %s", cases[i].json, code, err.msg);
		assert_null(w.pod);
	}
}

static void too_little_memory_is_an_answer(void **state)
{
	static const char json[] =
	    "{\"metadata\":{\"name\":\"web\"},\"spec\":{\"replicas\":2,\"template\":{\"spec\":{"
	    "\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":"
	    "\"1\"}}}]}}}}";
	bool failed = true;

	(void)state;
	for (long nth = 0; failed; nth++) {
		struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;
		struct gq_workload w = {0};
		struct gq_err err = {0};
		assert_int_equal(gq_field_parse(json, strlen(json), &root, NULL), 0);
		fail_alloc(nth);
		int code = gq_workload_decode_tree(GQ_WORKLOAD_DEPLOYMENT, root, "ns", &w, &err);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		assert_int_equal(err.code, code);
		if (failed)
			assert_string_equal(err.msg, "out of memory");
		assert_int_equal(w.pod == NULL, failed);
		assert_true(failed || nth > 3);
		gq_workload_done(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kinds),
	    cmocka_unit_test(counts),
	    cmocka_unit_test(a_daemon_set_has_a_pod_for_each_node),
	    cmocka_unit_test(a_cron_jobs_template_is_its_jobs),
	    cmocka_unit_test(a_pod_template_has_no_pods),
	    cmocka_unit_test(the_templates_own_names_are_nobodys),
	    cmocka_unit_test(what_is_left_out),
	    cmocka_unit_test(a_change_of_the_template),
	    cmocka_unit_test(malformed),
	    cmocka_unit_test(too_little_memory_is_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
