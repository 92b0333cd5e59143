#include "ledger_fixture.h"

#include "quota_testing.h"

#define POLICY(quota) "tenants: [{name: team-a, namespaces: [a-train], quota: {" quota "}}]\n"

static double seconds_of(struct world *w, const char *class_name)
{
	struct gq_usage usage;
	double seconds = -1;

	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	for (size_t t = 0; t < usage.n_tenants; t++)
		for (size_t i = 0; i < usage.tenants[t].n_limits; i++)
			if (strcmp(usage.tenants[t].limits[i].class_name, class_name) == 0)
				seconds = usage.tenants[t].limits[i].bound_gpu_seconds;
	gq_usage_done(&usage);
	return seconds;
}

#define assert_seconds(w, class_name, expected)                                                    \
	do {                                                                                       \
		double seconds_ = seconds_of(w, class_name);                                       \
		if (seconds_ < (expected)-1e-6 || seconds_ > (expected) + 1e-6)                    \
			fail_msg("%f GPU seconds, not %f", seconds_, (double)(expected));          \
	} while (0)

static void a_lowered_limit_evicts_nobody(void **state)
{
	struct world *w = world_new(POLICY("A100: {gpus: 8}"));

	(void)state;
	RUN(w, .name = "p1", .gpus = 6, .product = A100_80);
	world_policy(w, POLICY("A100: {gpus: 4}"));
	assert_usage(w, "team-a", "A100", "6/4 b0 p6 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 4 A100 GPUs and holds 6", .name = "p2",
	       .product = A100_80);
	/* a namesake adds nothing */
	ALLOWED(w, .name = "p1", .uid = "again", .gpus = 6, .product = A100_80);
	world_policy(w, POLICY("A100: {gpus: 7}, H100: {gpus: 1}"));
	ALLOWED(w, .name = "p2", .product = A100_80);
	ALLOWED(w, .name = "p3", .product = H100);
	world_policy(w, POLICY("\"*\": {gpus: 8}"));
	assert_usage(w, "team-a", "*", "8/8 b0 p6 r2 t0");
	assert_usage(w, "team-a", "A100", "no such limit");
	world_free(w);
}

/* The ids of another policy's classes mean nothing here. */
static void other_classes(void **state)
{
	struct world *w = world_new(POLICY("A100: {gpus: 8}, other: {gpus: 8}"));

	(void)state;
	world_node(w, "x1", "pool=big");
	world_node(w, "y1", PRODUCT "=NVIDIA-Unheard-Of");
	SEEN(w, .name = "p1", .gpus = 2, .node = "x1");
	SEEN(w, .name = "p2", .gpus = 1, .node = "y1");
	ALLOWED(w, .name = "p3", .gpus = 3, .spec = "'nodeSelector':{'pool':'big'}");
	assert_usage(w, "team-a", "A100", "5/8 b2 p0 r3 t0"); /* never known: every limit */
	assert_usage(w, "team-a", "other", "6/8 b3 p0 r3 t0");
	world_policy(w, "classes: {AAA: {memory: 8Gi, match: [{label: pool, values: [big]}]},\n"
			"  ZZZ: {match: [{label: " PRODUCT
			", values: [NVIDIA-Unheard-Of]}]}}\n" POLICY(
			    "AAA: {gpus: 8, memory: 80Gi}, A100: {gpus: 8}, ZZZ: {gpus: 1}"));
	assert_usage(w, "team-a", "AAA", "5/8 b2 p0 r3 t0");
	assert_memory(w, "team-a", "AAA", "40Gi/80Gi b16Gi p0 r24Gi t0");
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "team-a", "ZZZ", "1/1 b1 p0 r0 t0");
	world_policy(w, POLICY("A100: {gpus: 8}, other: {gpus: 8}"));
	assert_usage(w, "team-a", "other", "6/8 b3 p0 r3 t0");
	world_free(w);
}

static void tenants_come_and_go(void **state)
{
	static const char two[] =
	    "tenants:\n"
	    "  - {name: zero, namespaces: [z], quota: {A100: {gpus: 1}}}\n"
	    "  - {name: red, namespaces: [a-train], quota: {A100: {gpus: 8}}}\n";
	static const char renamed[] =
	    "tenants:\n"
	    "  - {name: crimson, namespaces: [a-train], quota: {A100: {gpus: 8}}}\n";
	struct world *w = world_new(two);

	(void)state;
	RUN(w, .gpus = 3, .product = A100_80);
	world_policy(w, renamed);
	assert_usage(w, "crimson", "A100", "3/8 b0 p3 r0 t0");
	assert_usage(w, "red", "A100", "no such limit");
	world_policy(w, "tenants: []\n");
	assert_pods(w, "1 pending");
	DENIED(w, GQ_REASON_UNASSIGNED, "a-train", .name = "q");
	world_policy(w, two);
	assert_usage(w, "red", "A100", "3/8 b0 p3 r0 t0");
	world_free(w);
}

/* Whose namespace is claimed by two keeps its tenant by name, wherever that stands in the policy.
 */
static void an_ambiguous_namespace_follows_its_tenant(void **state)
{
	static const char *const policies[] = {
	    "tenants:\n"
	    "  - {name: red, namespaceSelector: {matchLabels: {x: \"1\"}}, quota: {A100: {gpus: "
	    "8}}}\n"
	    "  - {name: blue, namespaceSelector: {matchLabels: {y: \"1\"}}, quota: {A100: {gpus: "
	    "8}}}\n",
	    "tenants:\n"
	    "  - {name: aaa, namespaces: [z], quota: {A100: {gpus: 8}}}\n"
	    "  - {name: blue, namespaceSelector: {matchLabels: {y: \"1\"}}, quota: {A100: {gpus: "
	    "8}}}\n"
	    "  - {name: red, namespaceSelector: {matchLabels: {x: \"1\"}}, quota: {A100: {gpus: "
	    "8}}}\n",
	    "tenants:\n"
	    "  - {name: blue, namespaceSelector: {matchLabels: {y: \"1\"}}, quota: {A100: {gpus: "
	    "8}}}\n"
	    "  - {name: pink, namespaceSelector: {matchLabels: {x: \"1\"}}, quota: {A100: {gpus: "
	    "8}}}\n",
	};
	struct world *w = world_new(policies[0]);

	(void)state;
	world_namespace(w, "ns", "x=1");
	RUN(w, .ns = "ns", .gpus = 2, .product = A100_80);
	world_namespace(w, "ns", "x=1,y=1");
	world_policy(w, policies[1]);
	assert_usage(w, "red", "A100", "2/8 b0 p2 r0 t0");
	assert_usage(w, "blue", "A100", "0/8 b0 p0 r0 t0");
	/* its tenant is gone: nobody's, until the labels are put right */
	world_policy(w, policies[2]);
	assert_usage(w, "pink", "A100", "0/8 b0 p0 r0 t0");
	world_namespace(w, "ns", "x=1");
	assert_usage(w, "pink", "A100", "2/8 b0 p2 r0 t0");
	world_free(w);
}

static void seconds_are_carried_over(void **state)
{
	struct world *w = world_new(POLICY("A100: {gpus: 8}, H100: {gpus: 8}"));

	(void)state;
	SEEN(w, .gpus = 2, .node = "a1");
	world_pass(w, 10 * S);
	assert_seconds(w, "A100", 20);
	assert_int_equal(world_recount(w), 0);
	assert_seconds(w, "A100", 20);
	world_pass(w, 10 * S);
	assert_seconds(w, "A100", 40);
	world_policy(w, "classes: {AAA: {}}\n" POLICY("A100: {gpus: 9}, \"*\": {gpus: 9}"));
	assert_seconds(w, "A100", 40);
	assert_seconds(w, "*", 0); /* since it exists */
	world_pass(w, 5 * S);
	SEEN(w, .gpus = 2, .node = "a1", .terminating = true);
	world_pass(w, 50 * S);
	assert_seconds(w, "A100", 50);
	assert_seconds(w, "*", 10);
	assert_int_equal(world_recount(w), 0);
	assert_int_equal(world_recount(w), 0);
	assert_seconds(w, "A100", 50);
	world_free(w);
}

static void reservations_survive(void **state)
{
	struct world *w = world_new(POLICY("A100: {gpus: 8}"));

	(void)state;
	world_propose(w, SPEC(.name = "p1", .gpus = 2, .product = A100_80), &(struct ask){0});
	uint64_t ticket = w->ticket;
	ALLOWED(w, .name = "p2", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p3", .gpus = 1, .product = A100_80);
	assert_int_equal(world_bind(w, SPEC(.name = "p3"), "h1", false), GQ_VERDICT_DENY);
	world_policy(w, POLICY("A100: {gpus: 8}, H100: {gpus: 1}"));
	assert_int_equal(world_bind(w, SPEC(.name = "p3"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_recount(w), 0);
	assert_usage(w, "team-a", "A100", "5/8 b0 p1 r4 t0");
	assert_usage(w, "team-a", "H100", "1/1 b0 p1 r0 t0");
	gq_ledger_commit(w->ledger, ticket, w->now_ns);
	world_pass(w, 2 * S);
	assert_string_equal(probes_of(w), "a-train/p1 a-train/p2 a-train/p3");
	world_free(w);
}

static void nothing_to_count(void **state)
{
	struct world *w = world_bare(NULL);

	(void)state;
	assert_string_equal(drift_of(w), "");
	SEEN(w, .gpus = 2, .node = "a1");
	SEEN(w, .ns = "a-serve", .gpus = 2);
	world_settle(w); /* no policy yet: later */
	world_policy(w, POLICY("A100: {gpus: 8}"));
	assert_usage(w, "team-a", "A100", "2/8 b2 p0 r0 t0");
	world_node(w, "a1", PRODUCT "=" H100);
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	world_free(w);
}

/* More slots, namespaces and nodes than one slice has. */
static void many(void **state)
{
	struct world *w = world_bare(POLICY("A100: {gpus: 1000}, H100: {gpus: 1000}"));
	char name[32], ns[32];

	(void)state;
	for (int i = 0; i < 600; i++) {
		(void)snprintf(name, sizeof name, "n%d", i);
		world_node_unsettled(w, name, PRODUCT "=" A100_80, "nvidia.com/gpu=8");
		(void)snprintf(ns, sizeof ns, "ns%d", i);
		SEEN(w, .ns = ns);
		SEEN(w, .name = name, .node = name);
	}
	world_settle(w);
	assert_usage(w, "team-a", "A100", "600/1000 b600 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "0/1000 b0 p0 r0 t0");
	for (int i = 0; i < 600; i++) {
		(void)snprintf(name, sizeof name, "n%d", i);
		world_node_unsettled(w, name, PRODUCT "=" H100, "nvidia.com/gpu=8");
	}
	world_settle(w);
	assert_usage(w, "team-a", "H100", "600/1000 b600 p0 r0 t0");
	assert_int_equal(world_recount(w), 0);
	gq_ledger_list_begin(w->ledger, GQ_PODS);
	assert_int_equal(gq_ledger_list_end(w->ledger, GQ_PODS, w->now_ns, NULL), 0);
	assert_pods(w, "");
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_lowered_limit_evicts_nobody),
	    cmocka_unit_test(other_classes),
	    cmocka_unit_test(tenants_come_and_go),
	    cmocka_unit_test(an_ambiguous_namespace_follows_its_tenant),
	    cmocka_unit_test(seconds_are_carried_over),
	    cmocka_unit_test(reservations_survive),
	    cmocka_unit_test(nothing_to_count),
	    cmocka_unit_test(many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
