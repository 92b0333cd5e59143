#include "ledger_fixture.h"

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"

#define BOTH "'" A100_80 "','" H100 "'"

static void quota_spans_namespaces(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 5, .product = A100_80);
	RUN(w, .ns = "a-serve", .name = "p2", .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "team-a may hold 8 A100 GPUs and holds 7 (0 bound, 7 pending, 0 reserved); this pod "
	       "asks for 2: 1 too many.",
	       .ns = "a-serve", .name = "p3", .gpus = 2, .product = A100_80);
	assert_string_equal(w->verdict.tenant, "team-a");
	ALLOWED(w, .name = "p4", .gpus = 1, .product = A100_80);
	assert_usage(w, "team-a", "A100", "8/8 b0 p7 r1 t0");
	GONE(w, .name = "p1");
	ALLOWED(w, .name = "p3", .gpus = 2, .product = A100_80);
	assert_usage(w, "team-a", "A100", "5/8 b0 p2 r3 t0");
	world_free(w);
}

static void quota_is_per_model(void **state)
{
	struct world *w = world_new(
	    TEAM_A "    quota: {A100: {gpus: 1}, H100: {gpus: 2}, A100-40GB: {gpus: 0}}\n");

	(void)state;
	RUN(w, .name = "p1", .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "1 A100 GPU and holds 1", .name = "p2", .product = A100_80);
	RUN(w, .name = "p3", .gpus = 2, .product = H100);
	DENIED(w, GQ_REASON_OVER_LIMIT, "2 H100 GPUs", .name = "p4", .product = H100);
	assert_usage(w, "team-a", "A100", "1/1 b0 p1 r0 t0");
	assert_usage(w, "team-a", "A100-40GB", "0/0 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	world_free(w);
}

/* A pod that may land on either counts in both, and once where one limit holds both. */
static void alternatives_count_once(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 3}, \"*\": {gpus: 4}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .products = BOTH);
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	assert_usage(w, "team-a", "H100", "2/3 b0 p2 r0 t0");
	assert_usage(w, "team-a", "*", "2/4 b0 p2 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "team-a may hold 3 H100 GPUs and holds 2", .name = "p2",
	       .gpus = 2, .products = BOTH);
	RUN(w, .name = "p3", .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "team-a may hold 4 GPUs of any model and holds 4",
	       .name = "p4", .product = A100_80);
	/* bound: exactly one of them */
	SEEN(w, .name = "p1", .gpus = 2, .products = BOTH, .node = "h2");
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	assert_usage(w, "team-a", "H100", "2/3 b2 p0 r0 t0");
	assert_usage(w, "team-a", "*", "4/4 b2 p2 r0 t0");
	world_free(w);
}

#define FAMILY(parent_mode, child_mode)                                                            \
	"tenants:\n"                                                                               \
	"  - {name: research, mode: " parent_mode                                                  \
	", namespaces: [lab], quota: {A100: {gpus: 4}}}\n"                                         \
	"  - {name: team-a, mode: " child_mode                                                     \
	", parent: research, namespaces: [a-train], quota: {A100: {gpus: 3}, H100: {gpus: 1}}}\n"  \
	"  - {name: team-b, parent: research, namespaces: [a-serve], quota: {A100: {gpus: 3}}}\n"

static void parent_bounds_the_sum(void **state)
{
	struct world *w = world_new(FAMILY("enforce", "enforce"));

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .ns = "a-serve", .name = "p2", .gpus = 1, .product = A100_80);
	RUN(w, .ns = "lab", .name = "p3", .gpus = 1, .product = A100_80);
	assert_usage(w, "research", "A100", "4/4 b0 p4 r0 t0");
	assert_usage(w, "team-a", "A100", "2/3 b0 p2 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "research may hold 4 A100 GPUs and holds 4 (0 bound, 4 pending, 0 reserved), with "
	       "all its tenants, team-a among them; this pod asks for 1: 1 too many.",
	       .name = "p4", .product = A100_80);
	/* the parent does not name H100, so it bounds none */
	RUN(w, .name = "p5", .product = H100);
	world_free(w);
}

static void modes_of_a_family(void **state)
{
	/* a child that only warns is still refused by an enforcing parent */
	struct world *w = world_new(FAMILY("enforce", "warn"));

	(void)state;
	assert_int_equal(CREATE(w, .name = "p1", .gpus = 4, .product = A100_80), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_non_null(strstr(w->verdict.warnings[0].data, "team-a may hold 3 A100 GPUs"));
	DENIED(w, GQ_REASON_OVER_LIMIT, "research may hold 4 A100 GPUs", .name = "p2",
	       .product = A100_80);
	world_free(w);

	/* an enforcing child is refused at its own limit, though its parent only warns */
	w = world_new(FAMILY("warn", "enforce"));
	RUN(w, .name = "p1", .gpus = 3, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "team-a may hold 3 A100 GPUs", .name = "p2",
	       .product = A100_80);
	RUN(w, .ns = "a-serve", .name = "p3", .product = A100_80);
	assert_int_equal(CREATE(w, .ns = "a-serve", .name = "p4", .product = A100_80),
			 GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_non_null(strstr(w->verdict.warnings[0].data, "research may hold 4 A100 GPUs"));
	assert_usage(w, "research", "A100", "5/4 b0 p4 r1 t0");
	world_free(w);
}

/* More limits than findings that are kept: the one that refuses is never lost among them. */
static void enforcing_parent_behind_many_warnings(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: top, quota: {\"*\": {gpus: 1}}}\n"
		      "  - name: team-a\n"
		      "    parent: top\n"
		      "    mode: warn\n"
		      "    namespaces: [a-train]\n"
		      "    quota: {\"*\": {gpus: 0, memory: 0}, A100: {gpus: 0, memory: 0},\n"
		      "      A100-80GB: {gpus: 0, memory: 0}, H100: {gpus: 0, memory: 0},\n"
		      "      A100-40GB: {gpus: 0, memory: 0}, H100-80GB: {gpus: 0, memory: 0}}\n");

	(void)state;
	DENIED(w, GQ_REASON_OVER_LIMIT, "top may hold 1 GPU of any model", .gpus = 2);
	assert_pods(w, "");
	world_free(w);
}

/* What no limit can see would pass by the parent's, too. */
static void enforcing_parent_of_what_cannot_be_counted(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: top, quota: {A100: {gpus: 8}}}\n"
		      "  - {name: idle}\n"
		      "  - {name: team-a, parent: top, mode: warn, namespaces: [a-train]}\n"
		      "  - {name: team-b, parent: idle, mode: warn, namespaces: [a-serve]}\n");

	(void)state;
	DENIED(w, GQ_REASON_UNSUPPORTED, "nvidia.com/mig-1g.10gb",
	       .resources = "'nvidia.com/mig-1g.10gb':'1'");
	DENIED(w, GQ_REASON_BAD_QUANTITY, "nvidia.com/gpu", .resources = "'nvidia.com/gpu':'0.5'");
	/* a parent without a limit bounds nothing */
	assert_int_equal(CREATE(w, .ns = "a-serve", .resources = "'nvidia.com/mig-1g.10gb':'1'"),
			 GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	world_free(w);
}

static void unlisted_classes(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}, L40S: {gpus: 1}}\n");

	(void)state;
	DENIED(
	    w, GQ_REASON_UNLISTED,
	    "team-a has no quota for GPUs of class H100-80GB, only for A100, L40S: choose one of "
	    "those",
	    .product = H100);
	DENIED(w, GQ_REASON_UNLISTED, "H100-80GB", .products = BOTH);
	world_free(w);

	w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n    unlisted: allow\n");
	RUN(w, .name = "p1", .gpus = 50, .product = H100);
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_pods(w, "1 pending");
	world_free(w);

	w = world_new(TEAM_A);
	DENIED(w, GQ_REASON_UNLISTED, "nor for any other", .product = H100);
	world_free(w);

	/* "*" lists every class */
	w = world_new(TEAM_A "    quota: {\"*\": {gpus: 8}}\n");
	RUN(w, .name = "p1", .gpus = 8, .product = H100);
	DENIED(w, GQ_REASON_OVER_LIMIT, "GPUs of any model", .name = "p2", .product = A100_80);
	world_free(w);
}

static void namespaces_of_nobody(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	DENIED(w, GQ_REASON_UNASSIGNED, "Namespace other belongs to no tenant", .ns = "other",
	       .product = A100_80);
	assert_null(w->verdict.tenant);
	ALLOWED(w, .ns = "kube-system", .product = A100_80);
	assert_int_equal(w->verdict.reason, GQ_REASON_EXEMPT);
	assert_pods(w, "");
	world_policy(w, "mode: warn\n" TEAM_A "    quota: {A100: {gpus: 8}}\n");
	assert_int_equal(CREATE(w, .ns = "other"), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_int_equal(w->verdict.reason, GQ_REASON_UNASSIGNED);
	world_policy(w, "unassigned: allow\nexempt: {namespaces: [free]}\n" TEAM_A
			"    quota: {A100: {gpus: 8}}\n");
	ALLOWED(w, .ns = "other");
	assert_int_equal(w->verdict.reason, GQ_REASON_UNASSIGNED);
	ALLOWED(w, .ns = "free");
	assert_int_equal(w->verdict.reason, GQ_REASON_EXEMPT);
	assert_int_equal(w->verdict.ticket, 0);
	world_free(w);
}

static void ambiguous_class(void **state)
{
	struct world *w =
	    world_new("ambiguous: deny\n" TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 8}}\n");

	(void)state;
	DENIED(w, GQ_REASON_AMBIGUOUS_CLASS,
	       "This pod of team-a may land on GPUs of several classes (A100-80GB, H100-80GB), and "
	       "the policy asks for one: choose it, as with nodeSelector nvidia.com/gpu.product=",
	       .products = BOTH);
	/* variants of one model are told apart by no limit */
	ALLOWED(w, .products = "'" A100_80 "','" A100_40 "'");
	ALLOWED(w, .name = "p2", .product = A100_80);
	world_free(w);
}

static void ambiguous_namespace(void **state)
{
	static const char policy[] =
	    "tenants:\n"
	    "  - {name: red, namespaceSelector: {matchLabels: {team: red}}, quota: {A100: {gpus: "
	    "8}}}\n"
	    "  - {name: blue, namespaceSelector: {matchLabels: {color: blue}}, quota: {A100: "
	    "{gpus: 8}}}\n";
	struct world *w = world_new(policy);

	(void)state;
	world_namespace(w, "a-train", "team=red");
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	world_namespace(w, "a-train", "color=blue,team=red");
	DENIED(w, GQ_REASON_AMBIGUOUS_NAMESPACE,
	       "The labels of namespace a-train match two tenants, ", .name = "p2",
	       .product = A100_80);
	/* what is there stays where it was, also when counted anew */
	assert_usage(w, "red", "A100", "2/8 b0 p2 r0 t0");
	assert_int_equal(world_recount(w), 0);
	world_policy(w, policy);
	assert_usage(w, "red", "A100", "2/8 b0 p2 r0 t0");
	world_namespace(w, "a-train", "color=blue");
	assert_usage(w, "red", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "blue", "A100", "2/8 b0 p2 r0 t0");
	world_free(w);
}

static void pod_limits(void **state)
{
	struct world *w = world_new(
	    "tenants:\n"
	    "  - {name: team-a, namespaces: [a-train, big], podLimit: {gpus: 4}, quota: {A100: "
	    "{gpus: 20}}}\n"
	    "  - {name: team-b, namespaces: [a-serve], quota: {A100: {gpus: 20}}}\n"
	    "rules: {podLimit: {mode: enforce, gpus: 2, exemptNamespaces: [big]}}\n");

	(void)state;
	DENIED(w, GQ_REASON_POD_LIMIT,
	       "One pod of this cluster may ask for at most 2 GPUs; this pod asks for 3", .gpus = 3,
	       .product = A100_80);
	DENIED(w, GQ_REASON_POD_LIMIT,
	       "One pod of team-a may ask for at most 4 GPUs; this pod asks for 5", .ns = "big",
	       .gpus = 5, .product = A100_80);
	ALLOWED(w, .ns = "big", .gpus = 4, .product = A100_80);
	ALLOWED(w, .gpus = 2, .product = A100_80);
	DENIED(w, GQ_REASON_POD_LIMIT, "of this cluster", .ns = "a-serve", .gpus = 3,
	       .product = A100_80);
	/* a part of a GPU as well as a whole one */
	DENIED(w, GQ_REASON_POD_LIMIT, "asks for 2.5", .ns = "a-serve",
	       .resources = "'nvidia.com/gpu':'5','nvidia.com/gpumem-percentage':'50'");
	world_free(w);
}

static void pod_limit_that_warns(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 20}}\n"
					   "rules: {podLimit: {mode: warn, gpus: 2}}\n");

	(void)state;
	assert_int_equal(CREATE(w, .gpus = 3, .product = A100_80), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_usage(w, "team-a", "A100", "3/20 b0 p0 r3 t0");
	world_free(w);
}

/* The rule holds for pods that nobody is charged for, too. */
static void pod_limit_without_a_tenant(void **state)
{
	struct world *w =
	    world_new("unassigned: allow\n"
		      "rules: {podLimit: {mode: enforce, gpus: 4, "
		      "exemptNamespaces: [free]}}\n" TEAM_A "    quota: {A100: {gpus: 8}}\n");

	(void)state;
	ALLOWED(w, .ns = "nobody", .name = "p", .gpus = 4, .product = A100_80);
	DENIED(w, GQ_REASON_POD_LIMIT, "One pod of this cluster may ask for at most 4 GPUs",
	       .ns = "nobody", .name = "q", .gpus = 5, .product = A100_80);
	ALLOWED(w, .ns = "free", .name = "q", .gpus = 5, .product = A100_80);
	world_free(w);
}

/* A class without a limit is free where the tenant allows it. */
static void advice_of_an_unlisted_class(void **state)
{
	struct world *w = world_new(TEAM_A "    unlisted: allow\n    quota: {A100: {gpus: 1}}\n");

	(void)state;
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "or on H100-80GB (unlimited free): nodeSelector nvidia.com/gpu.product=", .gpus = 2,
	       .product = A100_80);
	ALLOWED(w, .gpus = 2, .product = H100);
	world_free(w);
}

static void modes(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    mode: warn\n    quota: {A100: {gpus: 1, memory: 10Gi}}\n");

	(void)state;
	assert_int_equal(CREATE(w, .gpus = 2, .product = A100_80), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_OVER_LIMIT);
	assert_int_equal(w->verdict.n_warnings, 2);
	assert_string_equal(
	    w->verdict.warnings[0].data,
	    "Would be refused in mode enforce: team-a may hold 1 A100 GPU and holds "
	    "0 (0 bound, 0 pending, 0 reserved); this pod asks for 2: 1 too many.");
	assert_non_null(strstr(w->verdict.warnings[1].data, "10Gi of A100 memory"));
	assert_int_equal(w->verdict.audit.len, 0);
	/* charged all the same */
	assert_usage(w, "team-a", "A100", "2/1 b0 p0 r2 t0");
	assert_int_equal(CREATE(w, .name = "p2", .product = H100), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_UNLISTED);
	world_free(w);

	w = world_new("mode: audit\n" TEAM_A "    quota: {A100: {gpus: 1}}\n");
	ALLOWED(w, .gpus = 2, .product = A100_80);
	assert_string_equal(w->verdict.audit.data,
			    "team-a may hold 1 A100 GPU and holds 0 (0 bound, 0 pending, 0 "
			    "reserved); this pod asks for 2: 1 too many.");
	assert_usage(w, "team-a", "A100", "2/1 b0 p0 r2 t0");
	ALLOWED(w, .name = "p2", .gpus = 1, .products = BOTH);
	assert_non_null(strchr(w->verdict.audit.data, '\n')); /* two of them */
	world_free(w);
}

static void grants_end(void **state)
{
	struct world *w = world_new(
	    TEAM_A "    quota: {A100: {gpus: 1}}\n"
		   "grants:\n"
		   "  - {tenant: team-a, class: A100, gpus: 2, until: \"2026-01-01T01:00:00Z\"}\n"
		   "  - {tenant: team-a, class: H100, gpus: 1, until: \"2026-01-01T01:00:00Z\"}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 3, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 3 A100 GPUs", .name = "p2", .product = A100_80);
	/* a class without a limit of its own: a limit of nothing, and the grant */
	RUN(w, .name = "p3", .product = H100);
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 1 H100 GPU ", .name = "p4", .product = H100);
	assert_usage(w, "team-a", "A100", "3/3 b0 p3 r0 t0");
	world_pass(w, 3599 * S);
	GONE(w, .name = "p3");
	RUN(w, .name = "p5", .product = H100);
	GONE(w, .name = "p5");
	world_pass(w, 1 * S); /* until is exclusive */
	assert_usage(w, "team-a", "A100", "3/1 b0 p3 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 1 A100 GPU ", .name = "p2", .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 0 H100 GPUs ", .name = "p6", .product = H100);
	world_free(w);
}

static void memory_limits(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {\"*\": {memory: 200Gi}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	assert_memory(w, "team-a", "*", "160Gi/200Gi b0 p160Gi r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT,
	       "team-a may hold 200Gi of GPU memory and holds 160Gi (0 bound, 160Gi pending, 0 "
	       "reserved); this pod asks for 80Gi: 40Gi too much.",
	       .name = "p2", .product = A100_80);
	/* GPUs are not limited */
	ALLOWED(w, .name = "p3", .resources = "'nvidia.com/gpu':'40','nvidia.com/gpumem':'1024'",
		.product = A100_80);
	assert_memory(w, "team-a", "*", "200Gi/200Gi b0 p160Gi r40Gi t0");
	world_free(w);
}

static void vgpus(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1, memory: 80Gi}}\n");

	(void)state;
	/* the larger of memory (a quarter) and cores (half) */
	RUN(w, .name = "p1", .resources = "'nvidia.com/gpumem':'20480','nvidia.com/gpucores':'50'",
	    .product = A100_80);
	assert_usage(w, "team-a", "A100", "0.5/1 b0 p0.5 r0 t0");
	assert_memory(w, "team-a", "A100", "20Gi/80Gi b0 p20Gi r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "this pod asks for 0.6: 0.1 too many", .name = "p2",
	       .resources = "'nvidia.com/gpu':'2','nvidia.com/gpumem-percentage':'30'",
	       .product = A100_80);
	RUN(w, .name = "p3",
	    .resources = "'nvidia.com/gpu':'2','nvidia.com/gpumem-percentage':'25'",
	    .product = A100_80);
	assert_usage(w, "team-a", "A100", "1/1 b0 p1 r0 t0");
	assert_memory(w, "team-a", "A100", "60Gi/80Gi b0 p60Gi r0 t0");
	world_free(w);
}

/* Of several classes inside one limit the largest demand counts, per currency. */
static void candidates_of_different_size(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 4, memory: 320Gi}}\n");

	(void)state;
	world_node(w, "a40", PRODUCT "=" A100_40);
	/* 20 GiB is half of the small one; in percent the large one has more memory */
	DENIED(w, GQ_REASON_UNLISTED, "H100", .name = "p1"); /* without a selector also the H100s */
	RUN(w, .name = "p2", .resources = "'nvidia.com/gpumem':'20480'",
	    .products = "'" A100_80 "','" A100_40 "'");
	assert_usage(w, "team-a", "A100", "0.5/4 b0 p0.5 r0 t0");
	RUN(w, .name = "p3", .products = "'" A100_80 "','" A100_40 "'");
	assert_memory(w, "team-a", "A100", "100Gi/320Gi b0 p100Gi r0 t0");
	SEEN(w, .name = "p3", .products = "'" A100_80 "','" A100_40 "'", .node = "a40");
	assert_memory(w, "team-a", "A100", "60Gi/320Gi b40Gi p20Gi r0 t0");
	world_free(w);
}

/* Nodes whose class was never known, and pods of which nothing is known: every limit. */
static void unknown_counts_everywhere(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 4}, H100: {gpus: 2}}\n");

	(void)state;
	world_node(w, "dark", "zone=x");
	RUN(w, .name = "p1", .spec = "'nodeSelector':{'zone':'x'}");
	assert_usage(w, "team-a", "A100", "1/4 b0 p1 r0 t0");
	assert_usage(w, "team-a", "H100", "1/2 b0 p1 r0 t0");
	SEEN(w, .name = "p1", .spec = "'nodeSelector':{'zone':'x'}", .node = "dark");
	assert_usage(w, "team-a", "A100", "1/4 b1 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "1/2 b1 p0 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 2 H100 GPUs", .name = "p2", .gpus = 2,
	       .spec = "'nodeSelector':{'zone':'nowhere'}");
	RUN(w, .name = "p2", .spec = "'nodeSelector':{'zone':'nowhere'}");
	assert_usage(w, "team-a", "H100", "2/2 b1 p1 r0 t0");
	/* the selector's own value, when no such node exists yet */
	RUN(w, .name = "p3", .product = A100_40);
	assert_usage(w, "team-a", "A100", "3/4 b1 p2 r0 t0");
	world_free(w);
}

static void nothing_to_say(void **state)
{
	struct world *w = world_bare(NULL);

	(void)state;
	/* no opinion before sync and a policy; CPU pods never wait */
	assert_int_equal(CREATE(w, .gpus = 1), GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_NOT_SYNCED);
	assert_non_null(strstr(message_of(w), "try again in a few seconds"));
	assert_int_equal(CREATE(w, .resources = "'cpu':'1'"), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_NO_GPU);
	gq_ledger_set_synced(w->ledger);
	assert_int_equal(CREATE(w, .gpus = 1), GQ_VERDICT_UNAVAILABLE);
	assert_false(gq_ledger_ready(w->ledger));
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "a1", false), GQ_VERDICT_UNAVAILABLE);
	world_policy(w, TEAM_A "    quota: {A100: {gpus: 4}}\n");
	assert_true(gq_ledger_ready(w->ledger));
	assert_int_equal(CREATE(w, .product = A100_80), GQ_VERDICT_ALLOW);
	/* time is up */
	assert_int_equal(
	    world_ask(w, SPEC(.name = "late", .product = A100_80), &(struct ask){.late = true}),
	    GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_TOO_LATE);
	assert_pods(w, "1 reserved");
	world_free(w);

	w = world_bare(TEAM_A);
	assert_int_equal(CREATE(w, .gpus = 1), GQ_VERDICT_UNAVAILABLE);
	world_free(w);
}

static void requests_that_are_not_understood(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {\"*\": {gpus: 4}}\n");

	(void)state;
	DENIED(w, GQ_REASON_UNSUPPORTED, "nvidia.com/mig-1g.5gb",
	       .resources = "'nvidia.com/mig-1g.5gb':'1'");
	DENIED(w, GQ_REASON_BAD_QUANTITY, "cannot be counted",
	       .resources = "'nvidia.com/gpu':'1.5'");
	assert_pods(w, "");
	world_policy(w, TEAM_A "    mode: warn\n    quota: {\"*\": {gpus: 4}}\n");
	assert_int_equal(CREATE(w, .resources = "'nvidia.com/mig-1g.5gb':'1'"), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	world_free(w);
}

static void unseen_namespace_is_read(void **state)
{
	struct world *w = world_new(
	    "tenants:\n"
	    "  - {name: red, namespaceSelector: {matchLabels: {team: red}}, quota: {A100: {gpus: "
	    "1}}}\n");

	(void)state;
	assert_int_equal(CREATE(w, .ns = "fresh", .product = A100_80), GQ_VERDICT_READ);
	assert_int_equal(w->reads.n, 1);
	assert_string_equal(w->reads.items[0].path, "/api/v1/namespaces/fresh");
	w->reads.items[0].done = true;
	w->reads.items[0].body =
	    strdup("{\"metadata\":{\"name\":\"fresh\",\"labels\":{\"team\":\"red\"}}}");
	w->reads.items[0].len = strlen(w->reads.items[0].body);
	ALLOWED(w, .ns = "fresh", .product = A100_80);
	assert_string_equal(w->verdict.tenant, "red");
	gq_reads_done(&w->reads);
	DENIED(w, GQ_REASON_OVER_LIMIT, "red may hold 1 A100 GPU", .ns = "fresh", .name = "p2",
	       .product = A100_80);

	/* it does not exist; it can't be read now */
	assert_int_equal(CREATE(w, .ns = "none", .product = A100_80), GQ_VERDICT_READ);
	w->reads.items[0].done = true;
	w->reads.items[0].code = GQ_ENOTFOUND;
	DENIED(w, GQ_REASON_UNASSIGNED, "none", .ns = "none", .product = A100_80);
	w->reads.items[0].code = GQ_EIO;
	assert_int_equal(CREATE(w, .ns = "none", .product = A100_80), GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_NOT_SYNCED);
	world_free(w);
}

/* ---- bindings ---- */

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quota_spans_namespaces),
	    cmocka_unit_test(quota_is_per_model),
	    cmocka_unit_test(alternatives_count_once),
	    cmocka_unit_test(parent_bounds_the_sum),
	    cmocka_unit_test(modes_of_a_family),
	    cmocka_unit_test(enforcing_parent_behind_many_warnings),
	    cmocka_unit_test(enforcing_parent_of_what_cannot_be_counted),
	    cmocka_unit_test(unlisted_classes),
	    cmocka_unit_test(namespaces_of_nobody),
	    cmocka_unit_test(ambiguous_class),
	    cmocka_unit_test(ambiguous_namespace),
	    cmocka_unit_test(pod_limits),
	    cmocka_unit_test(pod_limit_that_warns),
	    cmocka_unit_test(pod_limit_without_a_tenant),
	    cmocka_unit_test(advice_of_an_unlisted_class),
	    cmocka_unit_test(modes),
	    cmocka_unit_test(grants_end),
	    cmocka_unit_test(memory_limits),
	    cmocka_unit_test(vgpus),
	    cmocka_unit_test(candidates_of_different_size),
	    cmocka_unit_test(unknown_counts_everywhere),
	    cmocka_unit_test(nothing_to_say),
	    cmocka_unit_test(requests_that_are_not_understood),
	    cmocka_unit_test(unseen_namespace_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
