#include "ledger_fixture.h"

#include "quota/amount.h"
#include "quota_testing.h"

static void used_and_free(void **state)
{
	const int64_t gpu = GQ_SHARES_PER_GPU;
	struct gq_usage_limit limit = {.most = {8 * gpu, GQ_UNLIMITED},
				       .used = {[GQ_STATE_RESERVED] = {gpu, 10},
						[GQ_STATE_PENDING] = {2 * gpu, 20},
						[GQ_STATE_BOUND] = {3 * gpu, 30},
						[GQ_STATE_TERMINATING] = {gpu, 40}}};

	(void)state;
	assert_true(gq_usage_used(&limit).shares == 6 * gpu);
	assert_true(gq_usage_used(&limit).memory_mib == 90);
	assert_true(gq_usage_free(&limit).shares == gpu);
	assert_true(gq_usage_free(&limit).memory_mib == GQ_UNLIMITED);
	limit.most.shares = 2 * gpu; /* lowered below what is held */
	assert_true(gq_usage_free(&limit).shares == 0);
}

static void a_copy(void **state)
{
	struct world *w =
	    world_new("unassigned: allow\n"
		      "exempt: {namespaces: [free]}\n"
		      "tenants:\n"
		      "  - {name: top, quota: {\"*\": {gpus: 9}}}\n"
		      "  - {name: team-a, parent: top, mode: audit, namespaces: [a-train],\n"
		      "     quota: {A100: {gpus: 8, memory: 100Gi}, H100: {memory: 1Gi}}}\n");
	struct gq_usage usage;

	(void)state;
	SEEN(w, .name = "p1", .gpus = 2, .product = A100_80, .node = "a1", .phase = "Running");
	SEEN(w, .ns = "nobody", .name = "p1");
	SEEN(w, .ns = "nobody", .name = "p2");
	SEEN(w, .ns = "free", .name = "p1");
	world_pass(w, 3 * S);
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	world_policy(w, "tenants: []\n"); /* the copy does not care */
	assert_true(usage.synced);
	assert_int_equal(usage.n_tenants, 2);
	const struct gq_usage_tenant *top = &usage.tenants[0], *team = &usage.tenants[1];
	assert_string_equal(top->name, "top");
	assert_null(top->parent);
	assert_int_equal(top->mode, GQ_MODE_ENFORCE);
	assert_string_equal(team->parent, "top");
	assert_int_equal(team->mode, GQ_MODE_AUDIT);
	assert_int_equal(team->n_limits, 2);
	assert_string_equal(team->limits[0].class_name, "A100");
	assert_true(team->limits[0].most.shares == 8 * GQ_SHARES_PER_GPU);
	assert_true(team->limits[0].most.memory_mib == 100 * 1024);
	assert_true(team->limits[1].most.shares == GQ_UNLIMITED);
	assert_true(team->limits[0].used[GQ_STATE_BOUND].shares == 2 * GQ_SHARES_PER_GPU);
	assert_true(team->limits[0].unready.shares == 2 * GQ_SHARES_PER_GPU);
	assert_true(team->limits[0].unready.memory_mib == 160 * 1024);
	assert_true(top->limits[0].unready.shares == 2 * GQ_SHARES_PER_GPU);
	assert_true(team->limits[1].unready.shares == 0);
	assert_true(team->limits[0].bound_gpu_seconds > 5.99 &&
		    team->limits[0].bound_gpu_seconds < 6.01);
	assert_true(top->limits[0].bound_gpu_seconds > 5.99);
	assert_int_equal(usage.n_uncharged, 1);
	assert_string_equal(usage.uncharged[0].namespace_, "nobody");
	assert_int_equal(usage.uncharged[0].pods, 2);
	assert_false(usage.uncharged[0].ambiguous);
	assert_int_equal(usage.charges[GQ_STATE_PENDING], 3);
	assert_int_equal(usage.charges[GQ_STATE_BOUND], 1);
	gq_usage_done(&usage);
	gq_usage_done(&usage); /* emptied */
	world_free(w);
}

static void before_a_policy(void **state)
{
	struct world *w = world_bare(NULL);
	struct gq_usage usage;

	(void)state;
	SEEN(w, .name = "p1");
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	assert_false(usage.synced);
	assert_null(usage.policy);
	assert_int_equal(usage.n_tenants + usage.n_uncharged, 0);
	assert_int_equal(usage.charges[GQ_STATE_PENDING], 1);
	gq_usage_done(&usage);
	assert_null(gq_ledger_policy(w->ledger));
	world_free(w);
}

/* Clocks of several threads may come in the wrong order; the seconds are right all the same. */
static void seconds_when_clocks_are_late(void **state)
{
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 8}}}]\n");
	struct gq_usage usage;

	(void)state;
	SEEN(w, .name = "p1", .gpus = 2, .node = "a1");
	world_pass(w, 10 * S);
	SEEN(w, .name = "p2", .gpus = 1, .node = "a1");
	w->now_ns -= 1 * S;
	SEEN(w, .name = "p3", .gpus = 1, .node = "a1");
	w->now_ns += 2 * S;
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	double seconds = usage.tenants[0].limits[0].bound_gpu_seconds;
	gq_usage_done(&usage);
	/* 2 GPUs 11 s, one from the 10th, one from the 9th */
	assert_true(seconds > 24.99 && seconds < 25.01);
	world_free(w);
}

/* Of a device that no label and no table knows, the memory is not a large number but none at all.
 */
static void memory_that_nobody_knows(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], "
				    "quota: {\"*\": {gpus: 8}}}]\n");
	struct gq_usage usage;

	(void)state;
	RUN(w, .name = "p1", .product = "NVIDIA-FOO-9000");
	RUN(w, .name = "p2", .gpus = 1, .product = A100_80);
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	assert_true(usage.tenants[0].limits[0].used[GQ_STATE_PENDING].memory_mib == GQ_UNLIMITED);
	assert_true(gq_usage_used(&usage.tenants[0].limits[0]).memory_mib == GQ_UNLIMITED);
	gq_usage_done(&usage);
	assert_usage(w, "team-a", "*", "2/8 b0 p2 r0 t0");
	world_node(w, "foo", PRODUCT "=NVIDIA-FOO-9000");
	SEEN(w, .name = "p1", .node = "foo", .phase = "Running");
	assert_unready(w, "team-a", "*", "1 unlimited");
	world_free(w);
}

static void beyond_a_limit(void **state)
{
	const int64_t gpu = GQ_SHARES_PER_GPU;
	static const struct {
		struct gq_amount most, reserved, bound, over; /* in GPUs and MiB */
	} cases[] = {
	    {{8, 100}, {3, 50}, {5, 50}, {0, 0}},
	    {{8, 100}, {4, 50}, {5, 50}, {1, 0}},
	    {{8, 100}, {0, 0}, {8, 107}, {0, 7}},
	    {{0, 0}, {1, 0}, {0, 1}, {1, 1}},
	    {{GQ_UNLIMITED, 100}, {4, 1}, {99, 100}, {0, 1}},
	    {{8, GQ_UNLIMITED}, {4, 1}, {5, GQ_UNLIMITED}, {1, 0}},
	    {{8, 100}, {1, 1}, {1, GQ_UNLIMITED}, {0, GQ_UNLIMITED}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_usage_limit limit = {.most = cases[i].most};
		limit.most.shares = gq_sat_mul(limit.most.shares, gpu);
		limit.used[GQ_STATE_RESERVED] = cases[i].reserved;
		limit.used[GQ_STATE_RESERVED].shares *= gpu;
		limit.used[GQ_STATE_BOUND] = cases[i].bound;
		limit.used[GQ_STATE_BOUND].shares *= gpu;
		struct gq_amount over = gq_usage_over(&limit);
		if (over.shares != cases[i].over.shares * gpu ||
		    over.memory_mib != cases[i].over.memory_mib)
			fail_msg("case %zu", i);
	}
}

/* "a-train/p1 2, a-train/p2 1 unasked; 2 pods" of a tenant's first limit. */
static const char *holders_of(struct world *w, size_t tenant)
{
	static char text[2048];
	struct gq_buf out = GQ_BUF_INIT(sizeof text);
	struct gq_usage usage;

	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	assert_int_equal(gq_ledger_usage_holders(w->ledger, &usage, NULL), 0);
	/* again, it is the same */
	assert_int_equal(gq_ledger_usage_holders(w->ledger, &usage, NULL), 0);
	const struct gq_usage_limit *limit = &usage.tenants[tenant].limits[0];
	for (size_t i = 0; i < limit->n_holders; i++)
		gq_buf_printf(&out, "%s%s/%s %d%s", i ? ", " : "", limit->holders[i].namespace_,
			      limit->holders[i].name,
			      (int)(limit->holders[i].amount.shares / GQ_SHARES_PER_GPU),
			      limit->holders[i].unasked ? " unasked" : "");
	gq_buf_printf(&out, "; %zu pods", limit->pods);
	(void)snprintf(text, sizeof text, "%s", out.data);
	gq_buf_done(&out);
	gq_usage_done(&usage);
	return text;
}

static void who_holds(void **state)
{
	struct world *w = world_new(
	    "tenants:\n"
	    "  - {name: top, quota: {\"*\": {gpus: 20}}}\n"
	    "  - {name: team-a, parent: top, namespaces: [a-train], quota: {A100: {gpus: 4}}}\n"
	    "  - {name: team-b, parent: top, namespaces: [b], quota: {A100: {gpus: 4}}}\n");

	(void)state;
	RUN(w, .name = "p2", .gpus = 1, .product = A100_80);
	RUN(w, .name = "p1", .gpus = 1, .product = A100_80);
	SEEN(w, .name = "whole", .gpus = 2, .product = A100_80);
	assert_string_equal(holders_of(w, 1), "; 0 pods"); /* at its limit, not over it */
	SEEN(w, .name = "late", .gpus = 3, .product = A100_80, .node = "a1");
	SEEN(w, .name = "other-class", .gpus = 8, .product = H100);
	SEEN(w, .ns = "b", .name = "others", .gpus = 1, .product = A100_80);
	assert_string_equal(holders_of(w, 1),
			    "a-train/late 3 unasked, a-train/whole 2 unasked, a-train/p1 1, "
			    "a-train/p2 1; 4 pods");
	assert_string_equal(holders_of(w, 0), "; 0 pods");
	assert_string_equal(holders_of(w, 2), "; 0 pods");
	/* a parent's holders are its children's */
	SEEN(w, .ns = "b", .name = "large", .gpus = 5, .product = H100);
	assert_string_equal(holders_of(w, 0),
			    "a-train/other-class 8 unasked, b/large 5 unasked, a-train/late 3 "
			    "unasked, a-train/whole 2 unasked, a-train/p1 1, a-train/p2 1, "
			    "b/others 1 unasked; 7 pods");
	GONE(w, .name = "late");
	assert_string_equal(holders_of(w, 1), "; 0 pods");
	world_free(w);
}

/* Ten are named, whatever the order in which they come; of as many GPUs, by name. */
static void the_largest_holders(void **state)
{
	static const int gpus[] = {1, 2, 9, 3, 4, 4, 1, 8, 5, 5, 7, 6, 1};
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 1}}}]\n");

	(void)state;
	for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "p%zu", i);
		SEEN(w, .name = name, .gpus = gpus[i], .product = A100_80);
	}
	assert_string_equal(holders_of(w, 0),
			    "a-train/p2 9 unasked, a-train/p7 8 unasked, a-train/p10 7 unasked, "
			    "a-train/p11 6 unasked, a-train/p8 5 unasked, a-train/p9 5 unasked, "
			    "a-train/p4 4 unasked, a-train/p5 4 unasked, a-train/p3 3 unasked, "
			    "a-train/p1 2 unasked; 13 pods");
	world_free(w);
}

/* Over in memory alone: by what they hold of that. */
static void holders_of_memory(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: "
				    "{\"*\": {gpus: 20, memory: 200Gi}}}]\n");

	(void)state;
	SEEN(w, .name = "p1", .gpus = 3, .product = A100_40);
	SEEN(w, .name = "p2", .gpus = 2, .product = A100_80);
	assert_string_equal(holders_of(w, 0), "a-train/p2 2 unasked, a-train/p1 3 unasked; 2 pods");
	world_free(w);
}

/* Only a pod that should have been asked about is told of. */
static void unasked(void **state)
{
	static const char over[] = "tenants: [{name: team-a, namespaces: [a-train, lab], quota: "
				   "{A100: {gpus: 0}}}]\n";
	struct world *w =
	    world_bare("unassigned: allow\ntenants: [{name: team-a, namespaces: [a-train], "
		       "quota: {A100: {gpus: 0}}}]\n");

	(void)state;
	SEEN(w, .name = "before", .product = A100_80);
	gq_ledger_set_synced(w->ledger);
	SEEN(w, .name = "before", .product = A100_80, .node = "n");
	SEEN(w, .name = "with", .product = A100_80);
	SEEN(w, .ns = "lab", .name = "uncharged", .product = A100_80);
	gq_ledger_set_deciding(w->ledger, false);
	SEEN(w, .name = "leader-was-asked", .product = A100_80);
	gq_ledger_set_deciding(w->ledger, true);
	SEEN(w, .name = "with2", .product = A100_80);
	world_policy(w, over);
	assert_string_equal(holders_of(w, 0),
			    "a-train/before 1, a-train/leader-was-asked 1, a-train/with 1 "
			    "unasked, a-train/with2 1 unasked, lab/uncharged 1; 5 pods");
	world_free(w);
}

/* The copy is of another policy: nobody is named by its limits. */
static void holders_under_another_policy(void **state)
{
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 0}}}]\n");
	struct gq_usage usage;

	(void)state;
	SEEN(w, .name = "p");
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	world_policy(w, "tenants: [{name: team-b, namespaces: [a-train], quota: {H100: {gpus: "
			"0}, A100: {gpus: 0}}}]\n");
	assert_int_equal(gq_ledger_usage_holders(w->ledger, &usage, NULL), 0);
	assert_int_equal(usage.tenants[0].limits[0].n_holders, 0);
	gq_usage_done(&usage);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(used_and_free),
	    cmocka_unit_test(beyond_a_limit),
	    cmocka_unit_test(who_holds),
	    cmocka_unit_test(the_largest_holders),
	    cmocka_unit_test(holders_of_memory),
	    cmocka_unit_test(unasked),
	    cmocka_unit_test(holders_under_another_policy),
	    cmocka_unit_test(a_copy),
	    cmocka_unit_test(before_a_policy),
	    cmocka_unit_test(seconds_when_clocks_are_late),
	    cmocka_unit_test(memory_that_nobody_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
