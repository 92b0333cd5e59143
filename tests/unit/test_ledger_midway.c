#include "ledger_fixture.h"

#include <pthread.h>

#include "quota/ledger_internal.h"
#include "quota_testing.h"

/* What happens while something larger is under way: between the slices of counting anew, and
 * between a decision's matching of the pod and its charge. The linker puts the test in between: it
 * is called whenever the ledger's lock is let go, and before each matching without the lock. */

static struct world *world;
static void (*between)(struct world *w, unsigned call); /* NULL: nothing */
static unsigned calls;

static void step_in(void)
{
	void (*act)(struct world *, unsigned) = between;

	if (!act)
		return;
	between = NULL; /* not from within itself */
	act(world, calls++);
	between = act;
}

void __real_gq_lock_release(struct gq_lock *lock);
void __wrap_gq_lock_release(struct gq_lock *lock);
void __real_gq_node_snapshot_match(const struct gq_node_snapshot *snapshot,
				   const struct gq_pod *pod, struct gq_candidates *ret_candidates);
void __wrap_gq_node_snapshot_match(const struct gq_node_snapshot *snapshot,
				   const struct gq_pod *pod, struct gq_candidates *ret_candidates);

static bool midway_matching; /* step in before matching, and not when the lock is let go */

void __wrap_gq_lock_release(struct gq_lock *lock)
{
	__real_gq_lock_release(lock);
	if (world && lock == &world->ledger->lock && !midway_matching)
		step_in();
}

void __wrap_gq_node_snapshot_match(const struct gq_node_snapshot *snapshot,
				   const struct gq_pod *pod, struct gq_candidates *ret_candidates)
{
	if (world && midway_matching)
		step_in();
	__real_gq_node_snapshot_match(snapshot, pod, ret_candidates);
}

static void during(struct world *w, void (*act)(struct world *w, unsigned call), bool matching)
{
	world = w;
	between = act;
	calls = 0;
	midway_matching = matching;
}

static void over(void)
{
	between = NULL;
	world = NULL;
}

/* ---- between the slices of a policy reload ---- */

/* As many tenants as an index of an older policy could point behind. */
#define FILLER(n) "  - {name: filler" n ", namespaces: [f" n "], quota: {L40S: {gpus: 1}}}\n"
#define FILLERS FILLER("1") FILLER("2") FILLER("3") FILLER("4") FILLER("5") FILLER("6")
#define RED                                                                                        \
	"  - {name: red, namespaceSelector: {matchLabels: {team: red}}, quota: {A100: {gpus: "     \
	"99999}}}\n"
#define BLUE                                                                                       \
	"  - {name: blue, namespaceSelector: {matchLabels: {team: blue}}, quota: {A100: {gpus: "   \
	"99999}}}\n"
#define EARLIER "tenants:\n" FILLERS RED BLUE
#define LATER "classes: {AAA: {}, BBB: {}}\ntenants:\n" BLUE RED

static void space(char name[16], int i)
{
	(void)snprintf(name, 16, "n%03d", i);
}

/* More namespaces and pods than some slices hold; each namespace is red and has one pod. */
#define SPACES (5 * GQ_SLICE)

static struct world *many(const char *policy)
{
	struct world *w = world_new(policy);
	char name[16];

	for (int i = 0; i < SPACES; i++) {
		space(name, i);
		world_namespace(w, name, "team=red");
		SEEN(w, .ns = name, .product = A100_80);
	}
	return w;
}

static char *counts(struct world *w)
{
	struct gq_buf out = GQ_BUF_INIT(1024);

	gq_buf_printf(&out, "red %s, ", usage_of(w, "red", "A100"));
	gq_buf_printf(&out, "blue %s", usage_of(w, "blue", "A100"));
	return gq_buf_steal(&out);
}

/* Under the policy in force, and counted anew, it is the same. */
static void check_counts(struct world *w, const char *expected)
{
	char *now = counts(w);

	assert_string_equal(now, expected);
	free(now);
	assert_int_equal(world_recount(w), 0);
}

static void pods_come_and_go(struct world *w, unsigned call)
{
	char first[16], last[16], name[16];

	/* one early and one late in every walk; a new one in a namespace that is new itself */
	space(first, (int)(call % SPACES));
	space(last, SPACES - 1 - (int)(call % SPACES));
	(void)snprintf(name, sizeof name, "x%u", call);
	SEEN(w, .ns = first, .name = name, .product = A100_80);
	ALLOWED(w, .ns = last, .name = name, .product = A100_80);
	world_namespace(w, name, "team=blue");
	SEEN(w, .ns = name, .product = A100_80);
	if (call % 2)
		GONE(w, .ns = first, .name = "p");
}

static void pods_while_a_policy_is_loaded(void **state)
{
	struct world *w = many(EARLIER);
	char expected[128];

	(void)state;
	for (int round = 0; round < 4; round++) {
		during(w, pods_come_and_go, false);
		world_policy(w, round % 2 ? EARLIER : LATER);
		over();
		assert_true(calls > 10); /* it was let go between the slices */
		assert_int_equal(world_recount(w), 0);
	}
	struct gq_usage usage;
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	size_t pods = usage.charges[GQ_STATE_PENDING], reserved = usage.charges[GQ_STATE_RESERVED];
	gq_usage_done(&usage);
	assert_true(pods > SPACES / 2 && reserved > 10);
	/* every pod is there in one of the two, none in both */
	char *now = counts(w);
	unsigned red_pending, red_reserved, blue;
	assert_int_equal(sscanf(now, "red %*u/99999 b0 p%u r%u t0, blue %u/", &red_pending,
				&red_reserved, &blue),
			 3);
	free(now);
	assert_int_equal(red_reserved, reserved);
	assert_int_equal(red_pending + blue, pods);
	(void)snprintf(expected, sizeof expected,
		       "red %u/99999 b0 p%u r%u t0, blue %u/99999 b0 p%u r0 t0",
		       red_pending + red_reserved, red_pending, red_reserved, blue, blue);
	check_counts(w, expected);
	world_free(w);
}

static void namespaces_change(struct world *w, unsigned call)
{
	char name[16];

	/* each gets blue somewhere, the first ones late and the last ones early */
	for (int i = 0; i < SPACES / 20; i++) {
		int at = (int)call * (SPACES / 20) + i;
		if (at >= SPACES)
			return;
		space(name, at % 2 ? SPACES - 1 - at / 2 : at / 2);
		world_namespace(w, name, "team=blue");
		SEEN(w, .ns = name, .name = "late", .product = A100_80);
	}
}

static void namespaces_move_while_a_policy_is_loaded(void **state)
{
	static const char *const policies[][2] = {
	    {EARLIER, LATER},
	    {LATER, EARLIER},
	    /* labels that mean nothing under the policy in force mean something under the next */
	    {"tenants:\n" FILLERS, LATER},
	    {LATER, LATER},
	};

	(void)state;
	for (size_t i = 0; i < LEN(policies); i++) {
		struct world *w = many(policies[i][0]);
		during(w, namespaces_change, false);
		world_policy(w, policies[i][1]);
		over();
		for (unsigned call = calls; call <= 20; call++)
			namespaces_change(w, call);
		char expected[128];
		(void)snprintf(expected, sizeof expected,
			       "red 0/99999 b0 p0 r0 t0, blue %d/99999 b0 p%d r0 t0", 2 * SPACES,
			       2 * SPACES);
		check_counts(w, expected);
		world_free(w);
	}
}

static void bindings_happen(struct world *w, unsigned call)
{
	char name[16];

	space(name, (int)(call * 7 % SPACES));
	assert_int_equal(world_bind(w, SPEC(.ns = name), "a1", false), GQ_VERDICT_ALLOW);
	SEEN(w, .ns = name, .product = A100_80, .node = "a1");
}

static void bindings_while_counting_anew(void **state)
{
	struct world *w = many(EARLIER);

	(void)state;
	during(w, bindings_happen, false);
	assert_int_equal(world_recount(w), 0);
	world_policy(w, LATER);
	over();
	assert_true(calls > 20);
	assert_int_equal(world_recount(w), 0);
	world_free(w);
}

static void pods_get_ready(struct world *w, unsigned call)
{
	char name[16];

	for (int i = 0; i < 3; i++) {
		space(name, (int)((call * 3 + (unsigned)i) * 7 % SPACES));
		SEEN(w, .ns = name, .product = A100_80, .node = "a1", .phase = "Running",
		     .ready = call % 2 == 0);
	}
}

static void readiness_while_counting_anew(void **state)
{
	struct world *w = many(EARLIER);
	char name[16];

	(void)state;
	for (int i = 0; i < SPACES; i++) {
		space(name, i);
		SEEN(w, .ns = name, .product = A100_80, .node = "a1", .phase = "Running");
	}
	assert_unready(w, "red", "A100", "320 25Ti");
	for (int round = 0; round < 4; round++) {
		during(w, pods_get_ready, false);
		assert_int_equal(world_recount(w), 0);
		world_policy(w, round % 2 ? EARLIER : LATER);
		over();
		assert_true(calls > 10);
		assert_int_equal(world_recount(w), 0);
	}
	assert_string_not_equal(unready_of(w, "red", "A100"), "320 25Ti");
	for (int i = 0; i < SPACES; i++) {
		space(name, i);
		SEEN(w, .ns = name, .product = A100_80, .node = "a1", .phase = "Running",
		     .ready = true);
	}
	assert_unready(w, "red", "A100", "0 0");
	world_free(w);
}

static void pods_end(struct world *w, unsigned call)
{
	char name[16];

	for (int i = 0; i < 20; i++) {
		space(name, ((int)call * 20 + i) % SPACES);
		GONE(w, .ns = name);
		gq_ledger_namespace_gone(w->ledger, name);
	}
}

/* Walks go on though what they stand on is taken away, and new ones are not forgotten. */
static void everything_ends_meanwhile(void **state)
{
	struct world *w = many(EARLIER);

	(void)state;
	during(w, pods_end, false);
	world_policy(w, LATER);
	over();
	assert_int_equal(world_recount(w), 0);
	gq_ledger_list_begin(w->ledger, GQ_PODS);
	during(w, pods_come_and_go, false);
	assert_int_equal(gq_ledger_list_end(w->ledger, GQ_PODS, w->now_ns, NULL), 0);
	over();
	world_free(w);
}

/* Those that the walk would look at next end. */
static void the_next_end(struct world *w, unsigned call)
{
	char name[16];

	for (int i = 0; i < 3; i++) {
		space(name, (int)call * (GQ_SLICE + 3) + GQ_SLICE + i);
		GONE(w, .ns = name);
	}
	space(name, SPACES + (int)call);
	SEEN(w, .ns = name, .product = A100_80);
}

static void pods_end_while_a_list_is_compared(void **state)
{
	struct world *w = many(EARLIER);
	struct gq_probe probe;
	size_t suspects = 0;

	(void)state;
	assert_int_equal(gq_ledger_verify_begin(w->ledger, NULL), 0);
	during(w, the_next_end, false);
	assert_int_equal(gq_ledger_verify_unlisted(w->ledger, NULL), 0);
	over();
	assert_int_equal(calls, SPACES / GQ_SLICE);
	while (gq_ledger_suspect_next(w->ledger, &probe))
		suspects++;
	/* after each slice but the last */
	assert_int_equal(suspects, SPACES - 3 * (SPACES / GQ_SLICE - 1));
	gq_ledger_verify_end(w->ledger);
	world_free(w);
}

static void nodes_change(struct world *w, unsigned call)
{
	world_node_unsettled(w, "a2", call % 2 ? PRODUCT "=" A100_80 : PRODUCT "=" A100_40,
			     "nvidia.com/gpu=8");
	pods_come_and_go(w, call);
}

static void nodes_settle_meanwhile(void **state)
{
	struct world *w = many(EARLIER);

	(void)state;
	for (int i = 0; i < 4; i++) {
		world_node_unsettled(w, "a1", i % 2 ? "" : PRODUCT "=" A100_40, "nvidia.com/gpu=8");
		during(w, nodes_change, false);
		world_settle(w);
		over();
		assert_int_equal(world_recount(w), 0);
	}
	assert_true(calls > 2);
	world_free(w);
}

/* ---- between matching and charging ---- */

static void reload(struct world *w, unsigned call)
{
	if (call == 0)
		world_policy(
		    w, "classes: {AAA: {}, A00: {match: [{label: pool, values: [big]}]}}\n"
		       "tenants: [{name: other}, {name: team-a, namespaces: [a-train], quota: "
		       "{A00: {gpus: 1}, H100: {gpus: 8}}}]\n");
}

static void move(struct world *w, unsigned call)
{
	if (call == 0)
		world_namespace(w, "ns", "team=blue");
}

static void settle(struct world *w, unsigned call)
{
	if (call == 0) {
		world_node(w, "a1", PRODUCT "=" H100);
		world_node(w, "a2", PRODUCT "=" H100);
	}
}

static void never_still(struct world *w, unsigned call)
{
	char name[16];

	space(name, (int)call);
	SEEN(w, .ns = name, .name = "q");
}

static void a_decision_is_worked_out_again(void **state)
{
	static const char before[] =
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: "
	    "{gpus: 8}}}]\n";
	struct world *w = world_new(before);

	(void)state;
	/* the classes' ids are others now, and so is the quota */
	world_node(w, "b1", "pool=big");
	during(w, reload, true);
	enum gq_verdict_kind kind = CREATE(w, .gpus = 2, .spec = "'nodeSelector':{'pool':'big'}");
	over();
	assert_int_equal(kind, GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "team-a may hold 1 A00 GPU and holds 0"));
	world_free(w);

	w = world_new(EARLIER);
	world_namespace(w, "ns", "team=red");
	during(w, move, true);
	assert_int_equal(CREATE(w, .ns = "ns", .product = A100_80), GQ_VERDICT_ALLOW);
	over();
	assert_string_equal(w->verdict.tenant, "blue");
	assert_usage(w, "red", "A100", "0/99999 b0 p0 r0 t0");
	assert_usage(w, "blue", "A100", "1/99999 b0 p0 r1 t0");
	world_free(w);

	w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 8}, "
		      "H100: {gpus: 8}}}]\n");
	during(w, settle, true);
	assert_int_equal(CREATE(w, .name = "p"), GQ_VERDICT_ALLOW);
	over();
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "1/8 b0 p0 r1 t0");
	world_free(w);
}

/* A crash loop next door: no decision is worked out again for it, and the journal has nothing to
 * write. */
static void flap(struct world *w, unsigned call)
{
	for (int i = 0; i < 5; i++)
		SEEN(w, .name = "flaps", .node = "a1", .phase = "Running",
		     .ready = (call + (unsigned)i) % 2);
}

static void readiness_disturbs_no_decision(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: "
				    "{gpus: 8}}}]\n");

	(void)state;
	flap(w, 0);
	ALLOWED(w, .name = "waits", .product = A100_80);
	uint64_t generation = w->ledger->generation;
	uint64_t unseen = gq_ledger_unseen(w->ledger).version;
	during(w, flap, true);
	assert_int_equal(world_propose(w, SPEC(.product = A100_80), &(struct ask){.dry_run = true}),
			 GQ_VERDICT_ALLOW);
	over();
	assert_int_equal(calls, 1);
	assert_true(w->ledger->generation == generation);
	assert_true(gq_ledger_unseen(w->ledger).version == unseen);
	assert_unready(w, "team-a", "A100", "1 80Gi");
	world_free(w);
}

/* Those that the walk would come to next. */
static void next_pods_end(struct world *w, unsigned call)
{
	(void)call;
	for (int i = 0; i < 20; i++) {
		const struct gq_list *next = w->ledger->slot_cursor;
		char name[16];
		if (!next || next == &w->ledger->all_slots)
			return;
		(void)snprintf(name, sizeof name, "%s",
			       gq_list_entry(next, struct gq_slot, in_all)->ns->name);
		GONE(w, .ns = name);
	}
}

/* The list of holders is made in slices too. */
static void pods_end_while_holders_are_listed(void **state)
{
	struct world *w = many("tenants:\n  - {name: red, namespaceSelector: {matchLabels: {team: "
			       "red}}, quota: {A100: {gpus: 1}}}\n");
	struct gq_usage usage;

	(void)state;
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	during(w, next_pods_end, false);
	assert_int_equal(gq_ledger_usage_holders(w->ledger, &usage, NULL), 0);
	over();
	/* after 64 each 20 end, and after the last 64 those 4 that are left */
	assert_int_equal(usage.tenants[0].limits[0].pods, 4 * GQ_SLICE);
	assert_int_equal(usage.tenants[0].limits[0].n_holders, GQ_USAGE_HOLDERS_MAX);
	gq_usage_done(&usage);
	world_free(w);
}

static void a_world_that_never_stands_still(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: {A100: "
				    "{gpus: 8}, H100: {gpus: 8}}}]\n");

	(void)state;
	during(w, never_still, true);
	assert_int_equal(CREATE(w, .name = "p"), GQ_VERDICT_UNAVAILABLE);
	over();
	assert_int_equal(w->verdict.reason, GQ_REASON_OVERLOADED);
	assert_non_null(strstr(message_of(w), "nothing is reserved: try again"));
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pods_while_a_policy_is_loaded),
	    cmocka_unit_test(namespaces_move_while_a_policy_is_loaded),
	    cmocka_unit_test(bindings_while_counting_anew),
	    cmocka_unit_test(readiness_while_counting_anew),
	    cmocka_unit_test(everything_ends_meanwhile),
	    cmocka_unit_test(pods_end_while_a_list_is_compared),
	    cmocka_unit_test(nodes_settle_meanwhile),
	    cmocka_unit_test(a_decision_is_worked_out_again),
	    cmocka_unit_test(readiness_disturbs_no_decision),
	    cmocka_unit_test(pods_end_while_holders_are_listed),
	    cmocka_unit_test(a_world_that_never_stands_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
