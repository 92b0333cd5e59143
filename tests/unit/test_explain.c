#include "ledger_fixture.h"

#include "quota_testing.h"

#define TEAM_A(rest)                                                                               \
	rest "tenants: [{name: team-a, namespaces: [a-train, a-serve, a-dev], quota: {A100: "      \
	     "{gpus: 8}, H100: {gpus: 4}}}]\n"
#define BOTH "'" A100_80 "','" H100 "'"

static void refused(struct world *w, const struct pod_spec *spec, const char *message)
{
	assert_int_equal(world_ask(w, spec, &(struct ask){0}), GQ_VERDICT_DENY);
	assert_string_equal(message_of(w), message);
}

#define REFUSED(w, message, ...) refused(w, SPEC(__VA_ARGS__), message)

/* The example of the design, to the letter. */
static void the_example(void **state)
{
	struct world *w = world_new(TEAM_A(""));

	(void)state;
	SEEN(w, .name = "train-0", .gpus = 4, .product = A100_80, .node = "a1");
	SEEN(w, .ns = "a-serve", .name = "llm-7f9c", .gpus = 2, .product = A100_80, .node = "a2");
	SEEN(w, .name = "train-1", .gpus = 1, .product = A100_80);
	REFUSED(w,
		"team-a may hold 8 A100 GPUs and holds 7 (6 bound, 1 pending, 0 reserved); this "
		"pod asks for 2: 1 too many.\n"
		"Holders in a-serve: llm-7f9c (2), 5 more in other namespaces.\n"
		"It would fit with 1 GPU, or on H100 (4 free): nodeSelector "
		"nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3.",
		.ns = "a-serve", .name = "llm-8a0d", .gpus = 2, .product = A100_80);
	world_free(w);
}

static void who_holds(void **state)
{
	static const struct {
		const char *holders, *line, *other;
	} cases[] = {
	    {"", "Holders in a-train: big (3), one (1), 4 more in other namespaces.",
	     "Holders in a-dev: none, 8 in other namespaces."},
	    {"holders: tenant\n", "Holders in a-train: a-serve/llm (4), big (3), one (1).",
	     "Holders in a-dev: a-serve/llm (4), a-train/big (3), a-train/one (1)."},
	    {"holders: none\n", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf policy GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_buf_printf(&policy, "%s" TEAM_A(""), cases[i].holders);
		struct world *w = world_new(policy.data);
		world_namespace(w, "a-dev", "");
		SEEN(w, .name = "one", .gpus = 1, .product = A100_80);
		SEEN(w, .name = "big", .gpus = 3, .product = A100_80);
		SEEN(w, .name = "elsewhere", .gpus = 3, .product = H100);
		SEEN(w, .ns = "a-serve", .name = "llm", .gpus = 4, .product = A100_80);
		DENIED(w, GQ_REASON_OVER_LIMIT, cases[i].line ? cases[i].line : "It would fit",
		       .name = "p", .product = A100_80);
		DENIED(w, GQ_REASON_OVER_LIMIT, cases[i].other ? cases[i].other : "It would fit",
		       .ns = "a-dev", .name = "p", .product = A100_80);
		if (!cases[i].line)
			assert_null(strstr(message_of(w), "Holders"));
		world_free(w);
	}
}

static void a_long_list_is_cut(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train, a-serve], "
				    "quota: {A100: {gpus: 30}}}]\n");
	char name[16];

	(void)state;
	for (int i = 1; i <= 7; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		SEEN(w, .name = name, .gpus = i, .product = A100_80);
	}
	SEEN(w, .ns = "a-serve", .name = "q", .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "Holders in a-train: p7 (7), p6 (6), p5 (5), p4 (4), p3 (3), 5 more here and in "
	       "other namespaces.",
	       .name = "next", .product = A100_80);
	world_free(w);
}

/* So many pods in the namespace that not all are looked at. */
static void holders_beyond_the_look(void **state)
{
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 2}, H100: {gpus: "
	    "999}}}]\n");
	char name[16];

	(void)state;
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		SEEN(w, .name = name, .product = H100);
	}
	SEEN(w, .name = "q", .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "holds 2", .name = "next", .product = A100_80);
	/* nothing is claimed that was not looked at */
	assert_null(strstr(message_of(w), "none"));
	assert_null(strstr(message_of(w), "in other namespaces"));
	world_free(w);
}

static void what_would_fit(void **state)
{
	struct world *w = world_new(TEAM_A(""));

	(void)state;
	/* fewer; another model; neither */
	SEEN(w, .name = "h", .gpus = 4, .product = H100);
	SEEN(w, .name = "a", .gpus = 5, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "\nIt would fit with 3 GPUs.", .name = "p", .gpus = 4,
	       .product = A100_80);
	SEEN(w, .name = "a2", .gpus = 3, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "\nIt would not fit with fewer GPUs or on another model now: wait until GPUs come "
	       "free, delete a pod that holds some, or ask who runs the cluster for more quota.",
	       .name = "p", .gpus = 4, .product = A100_80);
	GONE(w, .name = "h");
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "\nIt would fit on H100 (4 free): nodeSelector nvidia.com/gpu.product=" H100 ".",
	       .name = "p", .gpus = 4, .product = A100_80);
	/* no node of that model exists: nothing to advise */
	world_node_gone(w, "h1");
	world_node_gone(w, "h2");
	DENIED(w, GQ_REASON_OVER_LIMIT, "\nIt would not fit", .name = "p", .gpus = 4,
	       .product = A100_80);
	/* parts of a GPU: fewer is no advice */
	GONE(w, .name = "a");
	DENIED(w, GQ_REASON_OVER_LIMIT, "\nIt would not fit", .name = "p",
	       .resources = "'nvidia.com/gpu':'11','nvidia.com/gpumem-percentage':'50'",
	       .product = A100_80);
	world_free(w);
}

/* Fewer GPUs are advised only as far as they fit in every limit, memory too. */
static void fewer_means_it(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: "
				    "{gpus: 8, memory: 160Gi}, "
				    "\"*\": {gpus: 4}}}]\n");

	(void)state;
	DENIED(w, GQ_REASON_OVER_LIMIT, "\nIt would fit with 2 GPUs.", .gpus = 9,
	       .product = A100_80);
	SEEN(w, .name = "q", .gpus = 1, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "\nIt would fit with 1 GPU.", .gpus = 5,
	       .product = A100_80);
	ALLOWED(w, .gpus = 1, .product = A100_80);
	world_free(w);
}

static void a_limit_without_gpus(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: "
				    "{gpus: 1}, H100: {memory: 800Gi}}}]\n");

	(void)state;
	DENIED(w, GQ_REASON_OVER_LIMIT, "or on H100 (unlimited free): nodeSelector", .gpus = 2,
	       .product = A100_80);
	world_free(w);
}

static void a_choice_among_its_own(void **state)
{
	struct world *w = world_new(TEAM_A(""));

	(void)state;
	SEEN(w, .name = "h", .gpus = 4, .product = H100);
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "team-a may hold 4 H100 GPUs and holds 4 (0 bound, 4 pending, 0 reserved); this pod "
	       "asks for 2: 2 too many.\n"
	       "Holders in a-train: h (4).\n"
	       "It may land on A100-80GB, H100-80GB, so it counts in the limits of each; it would "
	       "fit with a choice among them: nodeSelector nvidia.com/gpu.product=" A100_80 ".",
	       .name = "p", .gpus = 2, .products = BOTH);
	/* also where one of them is not listed at all */
	world_node(w, "l1", PRODUCT "=" L40S);
	DENIED(
	    w, GQ_REASON_UNLISTED,
	    "team-a has no quota for GPUs of class L40S, only for A100, H100: choose one of those "
	    "with a nodeSelector, or ask who runs the cluster for a quota of L40S.\n"
	    "It may land on A100-80GB, L40S, H100-80GB, so it counts in the limits of each; it "
	    "would fit with a choice among them: nodeSelector nvidia.com/gpu.product=" A100_80 ".",
	    .name = "p", .gpus = 2);
	world_free(w);
}

/* The class is called as the quota calls it, here by the variant. */
static void classes_as_the_quota_names_them(void **state)
{
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100-80GB: {gpus: 1}, "
	    "H100-80GB: {gpus: 3}, \"*\": {gpus: 50}}}]\n");

	(void)state;
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "It would fit with 1 GPU, or on H100-80GB (3 free):", .gpus = 2, .product = A100_80);
	world_free(w);

	w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 1}, "
		      "\"*\": {gpus: 50}}}]\n");
	/* only "*" holds it: by its own name */
	DENIED(w, GQ_REASON_OVER_LIMIT, "or on H100-80GB (50 free):", .gpus = 2,
	       .product = A100_80);
	world_free(w);
}

static void a_replicaset_that_surges(void **state)
{
	struct world *w = world_new(TEAM_A(""));

	(void)state;
	SEEN(w, .name = "llm-1", .gpus = 8, .product = A100_80, .owner = "ReplicaSet/llm-5d4b");
	DENIED(
	    w, GQ_REASON_OVER_LIMIT,
	    "\nReplicaSet llm-7f9c starts new pods before it ends old ones, which needs more GPUs "
	    "than it holds: in the strategy of its Deployment set maxSurge to 0 and "
	    "maxUnavailable to 1.",
	    .name = "llm-2", .gpus = 8, .product = A100_80, .owner = "ReplicaSet/llm-7f9c");
	/* one that is only too large, and one of another Deployment, roll nothing */
	DENIED(w, GQ_REASON_OVER_LIMIT, "8 too many", .name = "llm-3", .gpus = 8,
	       .product = A100_80, .owner = "ReplicaSet/llm-5d4b");
	assert_null(strstr(message_of(w), "maxSurge"));
	DENIED(w, GQ_REASON_OVER_LIMIT, "8 too many", .name = "web-1", .gpus = 8,
	       .product = A100_80, .owner = "ReplicaSet/web-7f9c");
	assert_null(strstr(message_of(w), "maxSurge"));
	DENIED(w, GQ_REASON_OVER_LIMIT, "8 too many", .name = "job-2", .gpus = 8,
	       .product = A100_80, .owner = "Job/train");
	assert_null(strstr(message_of(w), "maxSurge"));
	world_free(w);
}

static void terminating_ones_are_told(void **state)
{
	struct world *w = world_new(TEAM_A(""));

	(void)state;
	SEEN(w, .name = "a", .gpus = 5, .product = A100_80, .node = "a1", .terminating = true);
	ALLOWED(w, .name = "b", .gpus = 3, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "holds 8 (0 bound, 0 pending, 3 reserved, 5 terminating); this pod asks for 1",
	       .name = "c", .product = A100_80);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_example),
	    cmocka_unit_test(who_holds),
	    cmocka_unit_test(a_long_list_is_cut),
	    cmocka_unit_test(holders_beyond_the_look),
	    cmocka_unit_test(what_would_fit),
	    cmocka_unit_test(fewer_means_it),
	    cmocka_unit_test(a_limit_without_gpus),
	    cmocka_unit_test(a_choice_among_its_own),
	    cmocka_unit_test(classes_as_the_quota_names_them),
	    cmocka_unit_test(a_replicaset_that_surges),
	    cmocka_unit_test(terminating_ones_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
