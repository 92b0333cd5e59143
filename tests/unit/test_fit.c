#include "ledger_fixture.h"

#include "quota_testing.h"

/* What fits at the edge of a limit, to the share and the MiB. What a refusal says about it is in
 * test_explain.c. */

static void to_the_share(void **state)
{
	static const struct {
		const char *quota, *resources;
		bool fits;
	} cases[] = {
	    {"gpus: 2", "'nvidia.com/gpu':'2'", true},
	    {"gpus: 2", "'nvidia.com/gpu':'3'", false},
	    {"gpus: 0", "'nvidia.com/gpu':'1'", false},
	    {"gpus: 0.5", "'nvidia.com/gpumem-percentage':'50'", true},
	    {"gpus: 0.5", "'nvidia.com/gpumem-percentage':'51'", false},
	    {"gpus: 0.5", "'nvidia.com/gpucores':'51','nvidia.com/gpumem':'1'", false},
	    {"gpus: 0.25", "'nvidia.com/gpumem':'20480'", true},
	    {"gpus: 0.25", "'nvidia.com/gpumem':'20481'", false},
	    {"memory: 80Gi", "'nvidia.com/gpu':'1'", true},
	    {"memory: 81919Mi", "'nvidia.com/gpu':'1'", false},
	    {"memory: 1000Mi", "'nvidia.com/gpu':'10','nvidia.com/gpumem':'100'", true},
	    {"memory: 999Mi", "'nvidia.com/gpu':'10','nvidia.com/gpumem':'100'", false},
	    {"gpus: 1, memory: 1Gi", "'nvidia.com/gpumem':'1024'", true},
	    {"gpus: 1, memory: 1Gi", "'nvidia.com/gpu':'1'", false},
	    {"gpus: 8", "'amd.com/gpu':'9'", false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf policy GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_buf_printf(
		    &policy,
		    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {%s}}}]\n",
		    cases[i].quota);
		struct world *w = world_new(policy.data);
		enum gq_verdict_kind kind =
		    CREATE(w, .resources = cases[i].resources, .product = A100_80);
		if (kind != (cases[i].fits ? GQ_VERDICT_ALLOW : GQ_VERDICT_DENY))
			fail_msg("%s in %s: %s", cases[i].resources, cases[i].quota, message_of(w));
		world_free(w);
	}
}

/* A limit inside another, and a model beside its variants. */
static void nested_limits(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: "
				    "{gpus: 4}, A100-80GB: {gpus: 2}, \"*\": {gpus: 5}}}]\n");

	(void)state;
	world_node(w, "a40", PRODUCT "=" A100_40);
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "2 A100-80GB GPUs", .name = "p2", .product = A100_80);
	RUN(w, .name = "p2", .gpus = 2, .product = A100_40);
	DENIED(w, GQ_REASON_OVER_LIMIT, "4 A100 GPUs", .name = "p3", .product = A100_40);
	RUN(w, .name = "p3", .product = H100);
	DENIED(w, GQ_REASON_OVER_LIMIT, "5 GPUs of any model", .name = "p4", .product = H100);
	assert_usage(w, "team-a", "A100-80GB", "2/2 b0 p2 r0 t0");
	assert_usage(w, "team-a", "A100", "4/4 b0 p4 r0 t0");
	assert_usage(w, "team-a", "*", "5/5 b0 p5 r0 t0");
	world_free(w);
}

static void a_deep_family(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: d, parent: c, namespaces: [a-train], quota: {A100: {gpus: 9}}}\n"
		      "  - {name: c, parent: b, quota: {A100: {gpus: 8}}}\n"
		      "  - {name: b, parent: a}\n"
		      "  - {name: a, quota: {\"*\": {gpus: 3}, A100: {memory: 999Gi}}}\n");

	(void)state;
	DENIED(w, GQ_REASON_OVER_LIMIT, "a may hold 3 GPUs of any model", .gpus = 4,
	       .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "c may hold 8 A100 GPUs and holds 0", .gpus = 9,
	       .product = A100_80);
	RUN(w, .gpus = 3, .product = A100_80);
	assert_usage(w, "d", "A100", "3/9 b0 p3 r0 t0");
	assert_usage(w, "c", "A100", "3/8 b0 p3 r0 t0");
	assert_usage(w, "a", "*", "3/3 b0 p3 r0 t0");
	/* unlisted is a matter of the tenant's own quota, not of its parents' */
	DENIED(w, GQ_REASON_UNLISTED, "d has no quota for GPUs of class H100-80GB, only for A100",
	       .name = "q", .product = H100);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(to_the_share),
	    cmocka_unit_test(nested_limits),
	    cmocka_unit_test(a_deep_family),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
