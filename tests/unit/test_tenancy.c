#include "ledger_fixture.h"

#include "quota_testing.h"

#define TENANT(name, rest) "  - {name: " name ", quota: {A100: {gpus: 8}}, " rest "}\n"

static const char *tenant_of(struct world *w, const char *ns)
{
	static char text[64];
	enum gq_verdict_kind kind =
	    world_ask(w, SPEC(.ns = ns, .product = A100_80), &(struct ask){.dry_run = true});

	(void)snprintf(text, sizeof text, "%s",
		       kind == GQ_VERDICT_READ                              ? "read"
		       : w->verdict.reason == GQ_REASON_AMBIGUOUS_NAMESPACE ? "two"
		       : w->verdict.reason == GQ_REASON_EXEMPT              ? "exempt"
		       : w->verdict.tenant                                  ? w->verdict.tenant
									    : "nobody");
	gq_reads_done(&w->reads);
	return text;
}

static void labels_tell_the_tenant(void **state)
{
	static const struct {
		const char *labels, *tenant;
	} cases[] = {
	    {"", "nobody"},
	    {"team=red", "red"},
	    {"team=redd", "nobody"},
	    {"team=a", "letters"},
	    {"team=b,other=x", "letters"},
	    {"team=b,site=x", "nobody"}, /* all requirements hold */
	    {"gpu=yes", "exists"},
	    {"gpu=", "exists"},
	    {"gpu=yes,team=red", "two"},
	    {"gpu=yes,tier=gold", "exists"},
	    {"tier=gold", "nobody"},
	    {"tier=gold,zone=c", "nowhere"},
	    {"tier=gold,zone=a", "nobody"},
	    {"a=1,b=2", "pairs"},
	    {"a=1,b=3", "nobody"},
	    {"a=1,b=2,team=red", "two"},
	};
	struct world *w = world_new(
	    "exempt: {namespaces: [free]}\n"
	    "tenants:\n" TENANT("red", "namespaceSelector: {matchLabels: {team: red}}") TENANT(
		"letters", "namespaceSelector: {matchExpressions: [{key: team, operator: "
			   "In, values: [a, b, a]}, {key: site, operator: DoesNotExist}]}")
		TENANT("exists", "namespaceSelector: {matchExpressions: [{key: gpu, operator: "
				 "Exists}]}")
		    TENANT("nowhere", "namespaceSelector: {matchExpressions: [{key: zone, "
				      "operator: NotIn, values: [a, b]}, {key: zone, operator: "
				      "Exists}, {key: gpu, operator: DoesNotExist}]}")
			TENANT("pairs", "namespaceSelector: {matchLabels: {a: \"1\", b: \"2\"}}")
			    TENANT("named", "namespaces: [n1, red-too]"));

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		world_namespace(w, "ns", cases[i].labels);
		if (strcmp(tenant_of(w, "ns"), cases[i].tenant) != 0)
			fail_msg("%s: %s, not %s", cases[i].labels, tenant_of(w, "ns"),
				 cases[i].tenant);
	}
	/* a name beats selectors, and needs no labels */
	world_namespace(w, "red-too", "team=red,gpu=1");
	assert_string_equal(tenant_of(w, "red-too"), "named");
	assert_string_equal(tenant_of(w, "n1"), "named");
	world_namespace(w, "free", "team=red");
	assert_string_equal(tenant_of(w, "free"), "exempt");
	/* labels that nobody knows yet are read; without selectors they would tell nothing */
	assert_string_equal(tenant_of(w, "unseen"), "read");
	world_policy(w, "tenants:\n" TENANT("named", "namespaces: [n1]"));
	assert_string_equal(tenant_of(w, "unseen"), "nobody");
	world_free(w);
}

#define TWO                                                                                        \
	"tenants:\n" TENANT("red", "namespaceSelector: {matchLabels: {team: red}}")                \
	    TENANT("blue", "namespaceSelector: {matchLabels: {team: blue}}")

static void a_namespace_moves(void **state)
{
	struct world *w = world_new(TWO);

	(void)state;
	world_namespace(w, "ns", "team=red");
	world_namespace(w, "blue1", "team=blue");
	RUN(w, .ns = "ns", .name = "p1", .gpus = 3, .product = A100_80);
	SEEN(w, .ns = "ns", .name = "p1", .gpus = 3, .product = A100_80, .node = "a1");
	ALLOWED(w, .ns = "ns", .name = "p2", .gpus = 2, .product = A100_80);
	RUN(w, .ns = "blue1", .name = "p1", .gpus = 7, .product = A100_80);
	assert_usage(w, "red", "A100", "5/8 b3 p0 r2 t0");
	/* even over the limit; what comes next is refused */
	world_namespace(w, "ns", "team=blue");
	assert_usage(w, "red", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "blue", "A100", "12/8 b3 p7 r2 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "blue may hold 8 A100 GPUs and holds 12", .ns = "ns",
	       .name = "p3", .product = A100_80);
	world_namespace(w, "ns", "");
	assert_usage(w, "blue", "A100", "7/8 b0 p7 r0 t0");
	assert_string_equal(tenant_of(w, "ns"), "nobody");
	world_namespace(w, "ns", "team=red");
	assert_usage(w, "red", "A100", "5/8 b3 p0 r2 t0");
	world_free(w);
}

static void fill(struct world *w, const char *ns, int pods)
{
	char name[32];

	for (int i = 0; i < pods; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		SEEN(w, .ns = ns, .name = name, .product = A100_80);
	}
}

/* More pods than are moved while others wait for the lock. */
static void a_large_namespace_moves(void **state)
{
	struct world *w = world_new(TWO);

	(void)state;
	world_namespace(w, "ns", "team=red");
	fill(w, "ns", 600);
	assert_usage(w, "red", "A100", "600/8 b0 p600 r0 t0");
	world_namespace(w, "ns", "team=blue");
	assert_usage(w, "red", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "blue", "A100", "600/8 b0 p600 r0 t0");
	world_namespace(w, "ns", "team=blue,team2=x");
	assert_usage(w, "blue", "A100", "600/8 b0 p600 r0 t0");
	world_free(w);
}

/* At start the pods may be there before the namespaces. */
static void a_large_namespace_before_sync(void **state)
{
	struct world *w = world_bare(TWO);

	(void)state;
	fill(w, "ns", 600);
	assert_usage(w, "red", "A100", "0/8 b0 p0 r0 t0");
	world_namespace(w, "ns", "team=red");
	assert_usage(w, "red", "A100", "600/8 b0 p600 r0 t0");
	world_free(w);
}

static void a_namespace_is_deleted_and_made_again(void **state)
{
	struct world *w = world_new(TWO);

	(void)state;
	world_namespace(w, "ns", "team=red");
	RUN(w, .ns = "ns", .name = "p1", .gpus = 3, .product = A100_80);
	gq_ledger_namespace_gone(w->ledger, "ns");
	gq_ledger_namespace_gone(w->ledger, "ns");
	gq_ledger_namespace_gone(w->ledger, "never");
	/* its pods stay charged where they were until the watch tells, whatever is counted anew */
	assert_usage(w, "red", "A100", "3/8 b0 p3 r0 t0");
	assert_int_equal(world_recount(w), 0);
	world_policy(w, TWO);
	assert_usage(w, "red", "A100", "3/8 b0 p3 r0 t0");
	/* and a new one of that name is another namespace */
	assert_string_equal(tenant_of(w, "ns"), "read");
	world_namespace(w, "ns", "team=blue");
	assert_usage(w, "blue", "A100", "3/8 b0 p3 r0 t0");
	GONE(w, .ns = "ns", .name = "p1");
	gq_ledger_namespace_gone(w->ledger, "ns");
	assert_string_equal(tenant_of(w, "ns"), "read");
	world_free(w);
}

static void an_ambiguous_namespace_that_never_had_a_tenant(void **state)
{
	struct world *w = world_new(TWO TENANT(
	    "other", "namespaceSelector: {matchExpressions: [{key: x, operator: Exists}]}"));
	struct gq_usage usage;

	(void)state;
	world_namespace(w, "ns", "team=red,x=1");
	SEEN(w, .ns = "ns", .product = A100_80);
	assert_usage(w, "red", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "other", "A100", "0/8 b0 p0 r0 t0");
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	assert_int_equal(usage.n_uncharged, 1);
	assert_string_equal(usage.uncharged[0].namespace_, "ns");
	assert_true(usage.uncharged[0].ambiguous);
	assert_int_equal(usage.uncharged[0].pods, 1);
	gq_usage_done(&usage);
	world_free(w);
}

/* A GET's answer may be older than what the watch has shown meanwhile. */
static void what_the_watch_showed_stays(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: red, namespaceSelector: {matchLabels: {team: red}}, "
		      "quota: {A100: {gpus: 2}}}\n"
		      "  - {name: blue, namespaceSelector: {matchLabels: {team: blue}}, "
		      "quota: {A100: {gpus: 2}}}\n");
	struct gq_namespace *older = namespace_make("ns", "team=red");
	struct gq_err err;

	(void)state;
	assert_int_equal(gq_ledger_namespace_read(w->ledger, older, w->now_ns, &err), 0);
	RUN(w, .ns = "ns", .name = "p1", .gpus = 1, .product = A100_80);
	assert_usage(w, "red", "A100", "1/2 b0 p1 r0 t0");
	world_namespace(w, "ns", "team=blue");
	assert_int_equal(gq_ledger_namespace_read(w->ledger, older, w->now_ns, &err), 0);
	assert_usage(w, "blue", "A100", "1/2 b0 p1 r0 t0");
	assert_usage(w, "red", "A100", "0/2 b0 p0 r0 t0");
	gq_namespace_unref(older);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(labels_tell_the_tenant),
	    cmocka_unit_test(a_namespace_moves),
	    cmocka_unit_test(a_large_namespace_moves),
	    cmocka_unit_test(a_large_namespace_before_sync),
	    cmocka_unit_test(a_namespace_is_deleted_and_made_again),
	    cmocka_unit_test(an_ambiguous_namespace_that_never_had_a_tenant),
	    cmocka_unit_test(what_the_watch_showed_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
