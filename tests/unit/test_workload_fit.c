#include "workload_world.h"

/* Whether all pods of a workload fit, and what is said when they do not. */

static void not_all_of_them_fit_now(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 5, .product = A100_80);
	judge(w, W(.kind = GQ_WORKLOAD_STATEFUL_SET, .fields = "'replicas':3"), NULL);
	assert_silent(w);
	judge(w, W(.kind = GQ_WORKLOAD_STATEFUL_SET, .fields = "'replicas':4"), NULL);
	assert_warned(w, "StatefulSet web: team-a may hold 8 A100 GPUs and has 3 free; this "
			 "StatefulSet needs 4 (4 pods of 1): 1 too few.\n"
			 "StatefulSet web: At most 3 of its pods fit now, and the others are "
			 "refused until GPUs come free: set spec.replicas to 3.");
	judge(w,
	      W(.fields = "'replicas':4,'strategy':{'type':'Recreate'}",
		.resources = "'nvidia.com/gpu':'3','nvidia.com/gpumem-percentage':'50'"),
	      NULL);
	assert_warned(w, "Deployment web: team-a may hold 8 A100 GPUs and has 3 free; this "
			 "Deployment needs 6 (4 pods of 1.5): 3 too few.\n"
			 "Deployment web: At most 2 of its pods fit now, and the others are "
			 "refused until GPUs come free: set spec.replicas to 2.");
	judge(w, W(.kind = GQ_WORKLOAD_JOB, .fields = "'parallelism':9,'completions':4"), NULL);
	assert_warned(w, "Job web: team-a may hold 8 A100 GPUs and has 3 free; this Job needs 4 "
			 "(4 pods of 1): 1 too few.\n"
			 "Job web: At most 3 of its pods fit now, and the others are refused until "
			 "GPUs come free: set spec.parallelism to 3.");
	judge(w, W(.kind = GQ_WORKLOAD_CRON_JOB, .resources = "'nvidia.com/gpu':'4'"), NULL);
	assert_warned(w, "CronJob web: team-a may hold 8 A100 GPUs and has 3 free; this CronJob "
			 "needs 4 (1 pod of 4): 1 too few.\n"
			 "CronJob web: None of its new pods fits now: they are refused until GPUs "
			 "come free.");
	judge(w, W(.kind = GQ_WORKLOAD_JOB, .fields = "'parallelism':9,'suspend':true"), NULL);
	assert_silent(w);
	judge(w, W(.kind = GQ_WORKLOAD_POD_TEMPLATE, .resources = "'nvidia.com/gpu':'4'"), NULL);
	assert_silent(w);
	assert_usage(w, "team-a", "A100", "5/8 b0 p5 r0 t0");
	world_free(w);
}

static void pods_with_those_that_roll(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	judge(w, W(.fields = "'replicas':6"), NULL);
	assert_silent(w);
	judge(w, W(.fields = "'replicas':7"), NULL);
	assert_warned(w, "Deployment web: team-a may hold 8 A100 GPUs and has 8 free; this "
			 "Deployment needs 9 (7 pods of 1, and 2 more while it rolls): 1 too few.\n"
			 "Deployment web: All its pods fit, but not those that it starts besides "
			 "while it rolls: set maxSurge to 0 and maxUnavailable to 1.");
	judge(w, W(.fields = "'replicas':8,'strategy':{'rollingUpdate':{'maxSurge':0}}"), NULL);
	assert_silent(w);
	judge(w, W(.fields = "'replicas':12"), NULL);
	assert_warned(w,
		      "Deployment web: team-a may hold 8 A100 GPUs and has 8 free; this "
		      "Deployment needs 15 (12 pods of 1, and 3 more while it rolls): 7 too few.\n"
		      "Deployment web: At most 8 of its pods fit now, and the others are "
		      "refused until GPUs come free: set spec.replicas to 8.");
	world_free(w);
}

static void every_limit_has_its_say(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: research, mode: audit, quota: {\"*\": {gpus: 3}}}\n"
		      "  - {name: team-a, mode: warn, parent: research, namespaces: [a-train],\n"
		      "     quota: {A100: {gpus: 8, memory: 160Gi}, \"*\": {gpus: 10}}}\n");

	(void)state;
	judge(w, W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':4"), NULL);
	assert_warned(w,
		      "ReplicaSet web: team-a may hold 160Gi of A100 memory and has 160Gi free; "
		      "this ReplicaSet needs 320Gi (4 pods of 80Gi): 160Gi too little.\n"
		      "ReplicaSet web: research may hold 3 GPUs of any model and has 3 free, "
		      "with all its tenants, team-a among them; this ReplicaSet needs 4 (4 pods "
		      "of 1): 1 too few.\n"
		      "ReplicaSet web: At most 2 of its pods fit now, and the others are refused "
		      "until GPUs come free: set spec.replicas to 2.");
	world_free(w);
}

/* Its controller was judged when it was written, and warned about. */
static void what_has_a_controller(void **state)
{
	static const char owned[] = "'ownerReferences':[{'kind':'Deployment','controller':true}]";
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}}\n");

	(void)state;
	judge(w, W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':9", .meta = owned), NULL);
	assert_silent(w);
	judge(
	    w,
	    W(.kind = GQ_WORKLOAD_REPLICA_SET, .resources = "'nvidia.com/gpu':'3'", .meta = owned),
	    NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	world_free(w);
}

static void as_many_as_there_are_nodes(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 1}}\n");
	static const char four[] = "'nvidia.com/gpu':'4'";

	(void)state;
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .resources = four), NULL);
	assert_silent(w); /* a1, a2 */
	world_node(w, "a3", PRODUCT "=" A100_80);
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .resources = four), NULL);
	assert_warned(w,
		      "DaemonSet web: team-a may hold 8 A100 GPUs and has 8 free; this DaemonSet "
		      "needs 12 (3 pods of 4): 4 too few.\n"
		      "DaemonSet web: Its pods on some of the nodes are refused until GPUs come "
		      "free: give its template a nodeSelector for fewer nodes.");
	/* on both models: each limit counts its own nodes */
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = ""), NULL);
	assert_warned(w, "DaemonSet web: team-a may hold 1 H100 GPU and has 1 free; this DaemonSet "
			 "needs 2 (2 pods of 1): 1 too few.\n"
			 "DaemonSet web: Its pods on some of the nodes are refused until GPUs come "
			 "free: give its template a nodeSelector for fewer nodes.");
	judge(w,
	      W(.kind = GQ_WORKLOAD_DAEMON_SET, .resources = four,
		.fields = "'updateStrategy':{'rollingUpdate':{'maxSurge':'50%'}}"),
	      NULL);
	assert_non_null(
	    strstr(warnings_of(w), "needs 20 (3 pods of 4, and 2 more while it rolls)"));
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = "NVIDIA-A100-PCIE-40GB"), NULL);
	assert_silent(w);
	world_free(w);
}

/* How many nodes of a limit's class there are is taken as the most that may be. */
static void nodes_that_are_not_told_apart(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 1}, H100: {gpus: 4}, L40S: {gpus: 2}}\n");

	(void)state;
	/* an A100 of either memory is one node of the A100s */
	world_node(w, "a3", PRODUCT "=A100");
	judge(w, W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = "A100"), NULL);
	assert_silent(w);
	judge(w,
	      W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = "A100",
		.resources = "'nvidia.com/gpu':'3'"),
	      NULL);
	assert_verdict(w, GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);
	/* three nodes of one model, in two shapes */
	world_node(w, "h3", PRODUCT "=" H100 ",zone=far");
	judge(
	    w,
	    W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = H100, .resources = "'nvidia.com/gpu':'2'"),
	    NULL);
	assert_non_null(strstr(warnings_of(w), "needs 6 (3 pods of 2): 2 too few."));
	/* of those that nothing is known of, any may be an L40S */
	for (int i = 0; i < 3; i++) {
		char name[8];
		(void)snprintf(name, sizeof name, "u%d", i);
		world_node(w, name, "pool=new");
	}
	judge(w,
	      W(.kind = GQ_WORKLOAD_DAEMON_SET, .product = "",
		.pod = "'nodeSelector':{'pool':'new'}"),
	      NULL);
	assert_non_null(strstr(warnings_of(w), "L40S GPUs and has 2 free; this DaemonSet needs 3 "
					       "(3 pods of 1): 1 too few."));
	world_free(w);
}

/* A currency without a limit is short of nothing, however much is asked for. */
static void no_limit_in_a_currency(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {memory: 800Gi}}\n");

	(void)state;
	judge(w,
	      W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':2147483647",
		.resources = "'nvidia.com/gpu':'100','nvidia.com/gpumem':'1'"),
	      NULL);
	assert_warned(w, "ReplicaSet web: team-a may hold 800Gi of A100 memory and has 800Gi free; "
			 "this ReplicaSet needs 214748364700Mi (2147483647 pods of 100Mi): "
			 "214747545500Mi too little.\n"
			 "ReplicaSet web: At most 8192 of its pods fit now, and the others are "
			 "refused until GPUs come free: set spec.replicas to 8192.");
	world_free(w);
}

/* What the pods that are replaced hold is there for the new ones, but for those that overlap. */
static void what_a_rollout_needs(void **state)
{
	static const struct {
		struct workload_spec before, now;
		const char *needs; /* NULL: it fits */
	} cases[] = {
	    /* eight of eight are held: one more while it rolls */
	    {{.fields = "'replicas':7"},
	     {.fields = "'replicas':7", .annotation = "new"},
	     "has 1 free; this Deployment needs 2 (7 pods of 1, and 2 more while it rolls, in "
	     "place "
	     "of 7 pods of 1): 1 too few."},
	    {{.fields = "'replicas':7,'strategy':{'rollingUpdate':{'maxSurge':1}}"},
	     {.fields = "'replicas':7,'strategy':{'rollingUpdate':{'maxSurge':1}}",
	      .annotation = "new"},
	     NULL},
	    {{.fields = "'replicas':7,'strategy':{'type':'Recreate'}"},
	     {.fields = "'replicas':8,'strategy':{'type':'Recreate'}", .annotation = "new"},
	     NULL},
	    {{.fields = "'replicas':7,'strategy':{'type':'Recreate'}"},
	     {.fields = "'replicas':9,'strategy':{'type':'Recreate'}", .annotation = "new"},
	     "needs 2 (9 pods of 1, in place of 7 pods of 1): 1 too few."},
	    /* fewer, larger pods */
	    {{.kind = GQ_WORKLOAD_STATEFUL_SET, .fields = "'replicas':7"},
	     {.kind = GQ_WORKLOAD_STATEFUL_SET,
	      .fields = "'replicas':3",
	      .resources = "'nvidia.com/gpu':'2'"},
	     "needs 3 (3 pods of 2, in place of 7 pods of 1): 2 too few."},
	    /* smaller ones: the first ones beside all of the old */
	    {{.fields = "'replicas':3", .resources = "'nvidia.com/gpu':'2'"},
	     {.fields = "'replicas':3,'strategy':{'rollingUpdate':{'maxSurge':2}}"},
	     "needs 2 (3 pods of 1, and 2 more while it rolls, in place of 3 pods of 2): 1 too "
	     "few."},
	    /* of another model: nothing of that is held */
	    {{.fields = "'replicas':7"},
	     {.fields = "'replicas':3", .product = H100},
	     "may hold 2 H100 GPUs and has 2 free; this Deployment needs 3 (3 pods of 1, and 1 "
	     "more "
	     "while it rolls): 1 too few."},
	};
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 2}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 7, .product = A100_80);
	for (size_t i = 0; i < LEN(cases); i++) {
		judge(w, &cases[i].now, &cases[i].before);
		if (!cases[i].needs)
			assert_silent(w);
		else if (!strstr(warnings_of(w), cases[i].needs))
			fail_msg("%zu: %s", i, warnings_of(w));
	}
	world_free(w);
}

static void more_pods_than_before(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");
	static const char text[] =
	    "Deployment web: team-a may hold 8 A100 GPUs and has 4 free; this Deployment needs 6 "
	    "(6 more pods of 1): 2 too few.\n"
	    "Deployment web: At most 8 of its pods fit now, and the others are refused until GPUs "
	    "come free: set spec.replicas to 8.";

	(void)state;
	RUN(w, .name = "p1", .gpus = 4, .product = A100_80);
	judge(w, W(.fields = "'replicas':8"), W(.fields = "'replicas':4"));
	assert_silent(w);
	judge(w, W(.fields = "'replicas':10"), W(.fields = "'replicas':4"));
	assert_warned(w, text);
	assert_int_equal(scale(w, W(.fields = "'replicas':4"), 8), GQ_VERDICT_ALLOW);
	assert_silent(w);
	scale(w, W(.fields = "'replicas':4"), 10);
	assert_warned(w, text);
	scale(w, W(.fields = "'replicas':4"), 3);
	assert_silent(w);
	RUN(w, .name = "p2", .gpus = 4, .product = A100_80);
	scale(w, W(.fields = "'replicas':4"), 5);
	assert_warned(w, "Deployment web: team-a may hold 8 A100 GPUs and has 0 free; this "
			 "Deployment needs 1 (1 more pod of 1): 1 too few.\n"
			 "Deployment web: None of its new pods fits now: they are refused until "
			 "GPUs come free.");
	world_free(w);
}

static void hostile_numbers(void **state)
{
	static const char *const resources[] = {
	    "'nvidia.com/gpu':'1'", "'nvidia.com/gpu':'9223372036854775807'",
	    "'nvidia.com/gpu':'1000000','nvidia.com/gpumem':'9223372036854775807'"};
	static const char fields[] =
	    "'replicas':2147483647,'parallelism':2147483647,'strategy':{'rollingUpdate':"
	    "{'maxSurge':2147483647}},'updateStrategy':{'rollingUpdate':{'maxSurge':"
	    "'2147483647%'}}";
	struct world *w = world_new(TEAM_A "    mode: warn\n    quota: {A100: {gpus: 8, memory: "
					   "1Gi}, \"*\": {gpus: 13000000}}\n");

	(void)state;
	for (int kind = 0; kind < GQ_WORKLOAD_KINDS; kind++) {
		for (size_t i = 0; i < LEN(resources); i++) {
			const struct workload_spec spec = {.kind = (enum gq_workload_kind)kind,
							   .resources = resources[i],
							   .fields = fields};
			assert_int_equal(judge(w, &spec, NULL), GQ_VERDICT_ALLOW);
			assert_true(w->verdict.n_warnings > 0);
			assert_int_equal(judge(w, &spec, W(.kind = (enum gq_workload_kind)kind)),
					 GQ_VERDICT_ALLOW);
			assert_int_equal(judge(w, W(.kind = (enum gq_workload_kind)kind), &spec),
					 GQ_VERDICT_ALLOW);
		}
	}
	world_policy(w, TEAM_A "    quota: {A100: {gpus: 8}}\n");
	judge(w, W(.kind = GQ_WORKLOAD_REPLICA_SET, .fields = "'replicas':2147483647"), NULL);
	assert_non_null(strstr(warnings_of(w), "needs 2147483647 (2147483647 pods of 1): "
					       "2147483639 too few."));
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(not_all_of_them_fit_now),
	    cmocka_unit_test(pods_with_those_that_roll),
	    cmocka_unit_test(every_limit_has_its_say),
	    cmocka_unit_test(what_has_a_controller),
	    cmocka_unit_test(as_many_as_there_are_nodes),
	    cmocka_unit_test(nodes_that_are_not_told_apart),
	    cmocka_unit_test(no_limit_in_a_currency),
	    cmocka_unit_test(what_a_rollout_needs),
	    cmocka_unit_test(more_pods_than_before),
	    cmocka_unit_test(hostile_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
