#include "ledger_fixture.h"

#include "quota/ledger_internal.h"
#include "quota_testing.h"

#define GPU GQ_SHARES_PER_GPU

static const struct gq_part *part_of(const struct gq_policy *policy, const struct gq_parts *parts,
				     const char *class_name)
{
	int id = gq_class_find(policy->classes, class_name);

	assert_true(id >= 0);
	for (size_t i = 0; i < parts->n; i++)
		if (parts->items[i].class_id == id)
			return &parts->items[i];
	return NULL;
}

static struct gq_amount inside(const struct gq_policy *policy, const struct gq_parts *parts,
			       const char *class_name)
{
	return gq_parts_inside(
	    parts, gq_class_leaves(policy->classes, gq_class_find(policy->classes, class_name)));
}

static void parts_of_candidates(void **state)
{
	struct gq_policy *policy = policy_make("tenants: []\n");
	struct gq_pod *pod = pod_make(SPEC(.resources = "'nvidia.com/gpumem':'20480'"));
	int a40 = gq_class_find(policy->classes, "A100-40GB");
	int a80 = gq_class_find(policy->classes, "A100-80GB");
	struct gq_candidates candidates = {
	    .source = GQ_FROM_NODES, .n = 3, .items = {{a40, 40960}, {a40, 20480}, {a80, 81920}}};
	struct gq_parts parts, more = {0};

	(void)state;
	assert_int_equal(gq_parts_compute(policy, pod, &candidates, &parts), 0);
	assert_int_equal(parts.n, 2);
	/* two sizes of one leaf: the larger share */
	assert_true(part_of(policy, &parts, "A100-40GB")->amount.shares == GPU);
	assert_true(part_of(policy, &parts, "A100-80GB")->amount.shares == GPU / 4);
	assert_false(part_of(policy, &parts, "A100-80GB")->maybe);
	assert_true(inside(policy, &parts, "A100").shares == GPU);
	assert_true(inside(policy, &parts, "A100-80GB").shares == GPU / 4);
	assert_true(inside(policy, &parts, "H100").shares == 0);
	assert_true(inside(policy, &parts, "*").memory_mib == 20480);

	/* unknown besides: every class, but what is certain stays so and is not made smaller */
	candidates.n = 1;
	candidates.unknown = true;
	assert_int_equal(gq_parts_compute(policy, pod, &candidates, &more), 0);
	assert_true(more.n > 50);
	assert_true(part_of(policy, &more, "H100-80GB")->maybe);
	assert_true(part_of(policy, &more, "other")->maybe);
	assert_false(part_of(policy, &more, "A100-40GB")->maybe);
	assert_true(part_of(policy, &more, "A100-40GB")->amount.shares == GPU / 2);

	/* merged: the larger, and certain where either is */
	assert_int_equal(gq_parts_merge(&more, &parts), 0);
	assert_true(part_of(policy, &more, "A100-40GB")->amount.shares == GPU);
	assert_false(part_of(policy, &more, "A100-80GB")->maybe);
	assert_true(part_of(policy, &more, "H100-80GB")->maybe);
	gq_parts_done(&parts);
	gq_parts_done(&more);
	gq_parts_done(&more);
	gq_pod_unref(pod);
	gq_policy_unref(policy);
}

static void unknown_in_three_ways(void **state)
{
	static const struct gq_candidates cases[] = {
	    {.source = GQ_FROM_NOTHING},
	    {.source = GQ_FROM_NODES, .unknown = true},
	    {.source = GQ_FROM_SELECTOR, .overflow = true},
	};
	struct gq_policy *policy = policy_make("tenants: []\n");
	struct gq_pod *pod = pod_make(SPEC(.gpus = 2));
	struct gq_pod *cpu = pod_make(SPEC(.resources = "'cpu':'1'"));

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_parts parts;
		assert_int_equal(gq_parts_compute(policy, pod, &cases[i], &parts), 0);
		assert_true(inside(policy, &parts, "H100").shares == 2 * GPU);
		/* a class whose memory is not known counts as the largest device there is */
		int64_t largest = inside(policy, &parts, "*").memory_mib;
		assert_true(inside(policy, &parts, "other").memory_mib == largest);
		assert_true(largest > inside(policy, &parts, "H100").memory_mib);
		gq_parts_done(&parts);
		assert_int_equal(gq_parts_compute(policy, cpu, &cases[i], &parts), 0);
		assert_int_equal(parts.n, 0);
		gq_parts_done(&parts);
	}
	gq_pod_unref(pod);
	gq_pod_unref(cpu);
	gq_policy_unref(policy);
}

/* Absurd amounts: a total never becomes something that can't be taken back. */
static void absurd_amounts_come_out_again(void **state)
{
	struct world *w =
	    world_new("tenants: [{name: team-a, namespaces: [a-train], mode: warn, quota: {A100: "
		      "{gpus: 8, memory: 10Gi}, other: {memory: 1Gi}}}]\n");
	char name[16];

	(void)state;
	world_node(w, "odd", PRODUCT "=NVIDIA-Unheard-Of");
	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		SEEN(w, .name = name, .resources = "'nvidia.com/gpu':'9223372036854775806'",
		     .product = A100_80);
	}
	SEEN(w, .name = "odd", .node = "odd");
	SEEN(w, .name = "sane", .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_UNASSIGNED, "", .ns = "x");
	assert_int_equal(CREATE(w, .name = "next", .product = A100_80), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 2);
	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		GONE(w, .name = name);
	}
	assert_usage(w, "team-a", "A100", "3/8 b0 p2 r1 t0");
	assert_memory(w, "team-a", "A100", "240Gi/10Gi b0 p160Gi r80Gi t0");
	GONE(w, .name = "odd");
	assert_memory(w, "team-a", "other", "0/1Gi b0 p0 r0 t0");
	world_free(w);
}

static void a_grant_is_its_tenants(void **state)
{
	struct world *w = world_new(
	    "tenants:\n"
	    "  - {name: a, namespaces: [a-train], quota: {A100: {gpus: 1}}}\n"
	    "  - {name: b, namespaces: [a-serve], quota: {A100: {gpus: 1}}}\n"
	    "grants:\n"
	    "  - {tenant: b, class: A100, gpus: 1, until: \"2026-01-01T01:00:00Z\"}\n"
	    "  - {tenant: a, class: A100, gpus: 4, until: \"2026-01-01T02:00:00Z\"}\n"
	    "  - {tenant: b, class: A100, gpus: 2, until: \"2026-01-01T03:00:00Z\"}\n"
	    "  - {tenant: b, class: H100, memory: 1Gi, until: \"2026-01-01T01:00:00Z\"}\n"
	    "  - {tenant: b, class: H100, memory: 2Gi, until: \"2026-01-01T02:00:00Z\"}\n");
	static const char *const later[][3] = {{"0/5 b0 p0 r0 t0", "0/4 b0 p0 r0 t0", "3Gi"},
					       {"0/5 b0 p0 r0 t0", "0/3 b0 p0 r0 t0", "2Gi"},
					       {"0/1 b0 p0 r0 t0", "0/3 b0 p0 r0 t0", "/0 "},
					       {"0/1 b0 p0 r0 t0", "0/1 b0 p0 r0 t0", "/0 "}};

	(void)state;
	for (size_t i = 0; i < LEN(later); i++) {
		assert_usage(w, "a", "A100", later[i][0]);
		assert_usage(w, "b", "A100", later[i][1]);
		assert_usage(w, "b", "H100", "0/unlimited b0 p0 r0 t0");
		assert_non_null(strstr(memory_of(w, "b", "H100"), later[i][2]));
		world_pass(w, 3600 * S);
	}
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_of_candidates),
	    cmocka_unit_test(unknown_in_three_ways),
	    cmocka_unit_test(absurd_amounts_come_out_again),
	    cmocka_unit_test(a_grant_is_its_tenants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
