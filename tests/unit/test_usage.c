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
	SEEN(w, .name = "p1", .gpus = 2, .product = A100_80, .node = "a1");
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
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(used_and_free),
	    cmocka_unit_test(a_copy),
	    cmocka_unit_test(before_a_policy),
	    cmocka_unit_test(seconds_when_clocks_are_late),
	    cmocka_unit_test(memory_that_nobody_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
