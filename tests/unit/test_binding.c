#include "ledger_fixture.h"

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"

#define BOTH "'" A100_80 "','" H100 "'"

static void binding_within_the_charge(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1}, H100: {gpus: 1}}\n");

	(void)state;
	RUN(w, .name = "p1", .products = BOTH);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	/* and again, and elsewhere: nothing is counted twice */
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "a1", true), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "A100", "1/1 b0 p1 r0 t0");
	assert_usage(w, "team-a", "H100", "1/1 b0 p1 r0 t0");
	SEEN(w, .name = "p1", .products = BOTH, .node = "a1");
	assert_usage(w, "team-a", "A100", "1/1 b1 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "0/1 b0 p0 r0 t0");
	/* already on a node, unknown pods and pods of no tenant: nothing to say */
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "cpu"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "cpu"), "h1", true), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_NO_GPU);
	SEEN(w, .ns = "other", .name = "p9");
	assert_int_equal(world_bind(w, SPEC(.ns = "other", .name = "p9"), "h1", false),
			 GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "0/1 b0 p0 r0 t0");
	world_free(w);
}

static void binding_to_another_class(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");

	(void)state;
	world_node(w, "l1", PRODUCT "=" L40S);
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p2", .gpus = 1, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_DENY);
	assert_string_equal(
	    message_of(w),
	    "The pod cannot go to node h1, whose GPUs are of class H100-80GB: team-a may hold 2 "
	    "H100 GPUs and holds 1, and the pod asks for 2. It fits there when GPUs come free; a "
	    "nodeSelector for another model avoids the wait.");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "l1", true), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "of class L40S: team-a has no quota for it"));
	GONE(w, .name = "p2");
	/* with room: both, until it is seen there */
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", true), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "A100", "2/2 b0 p2 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "H100", .name = "p3", .product = H100);
	SEEN(w, .name = "p1", .gpus = 2, .product = A100_80, .node = "h1");
	assert_usage(w, "team-a", "A100", "0/2 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b2 p0 r0 t0");
	world_free(w);
}

/* A pending pod may be changed (a toleration added, a selector narrowed) or a node may come, so
 * that it counts in a limit without having been asked whether it fits there. */
static void binding_to_a_class_that_came_later(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p2", .gpus = 1, .product = H100);
	SEEN(w, .name = "p1", .gpus = 2, .products = BOTH);
	assert_usage(w, "team-a", "H100", "3/2 b0 p3 r0 t0");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "may hold 2 H100 GPUs and holds 1, and the pod asks "
					      "for 2."));
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "a1", false), GQ_VERDICT_ALLOW);
	/* its quota of A100 is no way to more H100 either */
	SEEN(w, .name = "p1", .gpus = 2, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_DENY);
	GONE(w, .name = "p2");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	/* once allowed it stays allowed */
	SEEN(w, .name = "p3", .gpus = 2, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	/* what was there before us can't be told apart */
	assert_int_equal(world_bind(w, SPEC(.name = "p3"), "h2", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

/* A reload that numbers the policy's own classes anew changes nothing of what a pod may bind to. */
static void binding_after_classes_moved(void **state)
{
#define OWN(first, second)                                                                         \
	"classes:\n"                                                                               \
	"  " first ": {match: [{label: pool, values: [" first "]}]}\n"                             \
	"  " second ": {match: [{label: pool, values: [" second "]}]}\n"                           \
	"tenants: [{name: team-a, namespaces: [a-train], quota: {red: {gpus: 2}, "                 \
	"blue: {gpus: 2}}}]\n"
	struct world *w = world_new(OWN("red", "blue"));

	(void)state;
	world_node(w, "r", "pool=red");
	world_node(w, "b", "pool=blue");
	world_node_gone(w, "a1");
	world_node_gone(w, "a2");
	world_node_gone(w, "h1");
	world_node_gone(w, "h2");
	world_settle(w);
	world_node_gone(w, "b");
	world_settle(w);
	RUN(w, .name = "p1", .gpus = 2); /* red is all there is */
	world_node(w, "b", "pool=blue");
	world_settle(w);
	SEEN(w, .name = "p2", .gpus = 2, .node = "b");
	world_policy(w, OWN("blue", "red"));
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "b", false), GQ_VERDICT_DENY);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "r", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

static void binding_to_an_unknown_node(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p2", .gpus = 1, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "new", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "to node new, whose GPUs are of class unknown"));
	GONE(w, .name = "p2");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "new", false), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	world_free(w);
}

static void binding_dry_run_and_late(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");
	struct gq_binding binding = {.namespace_ = "a-train",
				     .name = "p1",
				     .uid = "a-train/p1",
				     .node = "h1",
				     .dry_run = true,
				     .now_ns = w->now_ns,
				     .deadline_ns = w->now_ns + S};

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	gq_verdict_done(&w->verdict);
	assert_int_equal(gq_decide_binding(w->ledger, &binding, &w->verdict, NULL), 0);
	assert_int_equal(w->verdict.kind, GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	gq_verdict_done(&w->verdict);
	binding.deadline_ns = w->now_ns;
	assert_int_equal(gq_decide_binding(w->ledger, &binding, &w->verdict, NULL), 0);
	assert_int_equal(w->verdict.kind, GQ_VERDICT_UNAVAILABLE);
	world_free(w);
}

/* Without a uid the pod that exists is meant, not a namesake that was only asked for. */
static void legacy_binding_beside_a_namesake(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 4}, H100: {gpus: 4}}\n");

	(void)state;
	RUN(w, .name = "p1", .uid = "old", .product = A100_80);
	ALLOWED(w, .name = "p1", .uid = "new", .product = A100_80);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", true), GQ_VERDICT_ALLOW);
	GONE(w, .uid = "new");
	assert_usage(w, "team-a", "H100", "1/4 b0 p1 r0 t0");
	world_free(w);
}

static void binding_that_only_warns(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    mode: warn\n    quota: {A100: {gpus: 2}, H100: {gpus: 1}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_usage(w, "team-a", "H100", "2/1 b0 p2 r0 t0");
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(binding_within_the_charge),
	    cmocka_unit_test(binding_to_another_class),
	    cmocka_unit_test(binding_to_a_class_that_came_later),
	    cmocka_unit_test(binding_after_classes_moved),
	    cmocka_unit_test(binding_to_an_unknown_node),
	    cmocka_unit_test(binding_dry_run_and_late),
	    cmocka_unit_test(legacy_binding_beside_a_namesake),
	    cmocka_unit_test(binding_that_only_warns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
