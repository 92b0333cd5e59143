#include "ledger_fixture.h"

#include "quota_testing.h"

#define TEAM(mode)                                                                                 \
	"tenants:\n"                                                                               \
	"  - {name: team-a, mode: " mode ", namespaces: [a-train, a-serve],\n"                     \
	"     quota: {A100: {gpus: 8}, H100: {gpus: 4}}}\n"
#define POD .gpus = 2, .product = A100_80

static void one(struct world *w, const char *probes)
{
	const char *found = probes_of(w);

	if (strcmp(found, probes) != 0)
		fail_msg("asked about \"%s\", not \"%s\"", found, probes);
}

static void ends_after_its_time_and_an_absence(void **state)
{
	struct world *w = world_new(TEAM("enforce"));
	int64_t answered = w->now_ns;

	(void)state;
	ALLOWED(w, POD);
	one(w, "");
	world_pass(w, 2 * S - 1);
	one(w, "");
	world_pass(w, 1);
	one(w, "a-train/p");
	one(w, ""); /* once at a time */
	/* absent, but its time is not over: it may still be on its way */
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r2 t0");
	world_pass(w, 58 * S - 1);
	one(w, "");
	world_pass(w, 1);
	one(w, "a-train/p");
	/* an absence that was established before the end is none */
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, answered + 60 * S - 1);
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r2 t0");
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, answered + 60 * S);
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_pods(w, "");
	world_free(w);
}

static void no_clock_alone_ends_it(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	ALLOWED(w, POD);
	world_pass(w, 3600 * S);
	for (int i = 0; i < 100; i++) {
		one(w, "a-train/p");
		world_probed(w, SPEC(.name = "p"), GQ_PROBE_FAILED, NULL, w->now_ns);
		world_pass(w, 1 * S - 1);
		one(w, ""); /* asked again a second later */
		world_pass(w, 1);
	}
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r2 t0");
	world_free(w);
}

static void found_by_a_get(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	ALLOWED(w, POD);
	world_pass(w, 2 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD, .node = "a1"), w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b2 p0 r0 t0");
	/* the watch confirms it, and nobody asks again */
	SEEN(w, POD, .node = "a1");
	world_pass(w, 600 * S);
	one(w, "");
	world_free(w);
}

/* It was deleted before the watch came to it, so the watch never tells. */
static void found_and_vanished(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	ALLOWED(w, POD);
	world_pass(w, 2 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	world_pass(w, 60 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FAILED, NULL, w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	world_pass(w, 1 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_pods(w, "");

	/* found in a state that holds nothing */
	ALLOWED(w, POD);
	world_pass(w, 2 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD, .phase = "Failed"), w->now_ns);
	assert_pods(w, "");
	world_free(w);
}

static void answers_that_come_too_late(void **state)
{
	struct world *w = world_new(TEAM("enforce"));
	int64_t begun;

	(void)state;
	/* the watch was faster */
	ALLOWED(w, POD);
	world_pass(w, 60 * S);
	one(w, "a-train/p");
	SEEN(w, POD, .node = "a1");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b2 p0 r0 t0");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b2 p0 r0 t0");
	GONE(w, .name = "p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	assert_pods(w, "");

	/* asked before it was stored, seen, about to be bound, and only then answered */
	ALLOWED(w, POD);
	world_pass(w, 2 * S);
	begun = w->now_ns;
	one(w, "a-train/p");
	SEEN(w, POD);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "a1", false), GQ_VERDICT_ALLOW);
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, begun);
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	world_free(w);
}

static void a_retried_request_starts_its_time_anew(void **state)
{
	struct world *w = world_new(TEAM("enforce"));
	const struct ask same = {.request_uid = "r"};

	(void)state;
	world_ask(w, SPEC(POD), &same);
	world_pass(w, 2 * S);
	one(w, "a-train/p");
	world_pass(w, 48 * S);
	world_ask(w, SPEC(POD), &same);
	/* the question asked before is answered now: of no use */
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	world_pass(w, 59 * S);
	one(w, "a-train/p"); /* after its grace */
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r2 t0");
	world_pass(w, 1 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_pods(w, "");
	world_free(w);
}

static void a_proposal_is_never_asked_about(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	world_propose(w, SPEC(POD), &(struct ask){0});
	world_pass(w, 100 * S);
	one(w, "");
	world_commit(w); /* its time starts now */
	one(w, "");
	world_pass(w, 2 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_pods(w, "1 reserved");
	world_free(w);
}

static void many_are_asked_about_in_turn(void **state)
{
	struct world *w = world_new(TEAM("warn"));
	struct gq_probe probes[3];
	char name[16];

	(void)state;
	for (int i = 0; i < 9; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		ALLOWED(w, .name = name, .resources = "'nvidia.com/gpumem-percentage':'1'",
			.product = A100_80);
	}
	world_pass(w, 2 * S);
	for (int i = 0; i < 9; i += 3) {
		assert_int_equal(gq_ledger_probes_due(w->ledger, w->now_ns, probes, 3), 3);
		for (int k = 0; k < 3; k++) {
			(void)snprintf(name, sizeof name, "p%d", i + k);
			assert_string_equal(probes[k].name, name);
			assert_string_equal(probes[k].namespace_, "a-train");
		}
	}
	assert_int_equal(gq_ledger_probes_due(w->ledger, w->now_ns, probes, 3), 0);
	world_free(w);
}

/* ---- a binding that never comes to pass ---- */

static void a_binding_ends(void **state)
{
	struct world *w = world_new(TEAM("enforce"));
	int64_t bound;

	(void)state;
	RUN(w, POD);
	bound = w->now_ns;
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "2/4 b0 p2 r0 t0");
	world_pass(w, 2 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	assert_usage(w, "team-a", "H100", "2/4 b0 p2 r0 t0"); /* its time is not over */
	world_pass(w, 60 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), bound + 60 * S - 1);
	assert_usage(w, "team-a", "H100", "2/4 b0 p2 r0 t0");
	world_pass(w, 60 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	/* nothing is left to ask about */
	world_pass(w, 600 * S);
	one(w, "");
	world_free(w);
}

static void a_binding_that_the_watch_shows_later(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	RUN(w, POD);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	world_pass(w, 60 * S);
	one(w, "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD, .node = "h1"), w->now_ns);
	assert_non_null(strstr(usage_of(w, "team-a", "H100"), "2/4 "));
	SEEN(w, POD, .node = "h1");
	assert_usage(w, "team-a", "H100", "2/4 b2 p0 r0 t0");
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	world_pass(w, 600 * S);
	one(w, "");
	world_free(w);
}

/* ---- attempts of one owner ---- */

#define OWNED(n) .name = n, .owner = "ReplicaSet/llm", .product = A100_80

static void a_controller_waits_for_its_last_ones(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	ALLOWED(w, OWNED("p1"));
	ALLOWED(w, OWNED("p2"));
	assert_int_equal(CREATE(w, OWNED("p3")), GQ_VERDICT_WAIT);
	assert_true(w->verdict.wait_ns == 5 * GQ_NS_PER_MS);
	assert_pods(w, "2 reserved");
	/* others go on */
	ALLOWED(w, .name = "q1", .owner = "ReplicaSet/other", .product = A100_80);
	ALLOWED(w, .name = "q2", .product = A100_80);
	SEEN(w, OWNED("p1"));
	ALLOWED(w, OWNED("p3"));
	assert_int_equal(CREATE(w, OWNED("p4")), GQ_VERDICT_WAIT);
	GONE(w, .name = "p2");
	ALLOWED(w, OWNED("p4"));
	/* what would not fit is refused at once */
	DENIED(w, GQ_REASON_OVER_LIMIT, "A100", .gpus = 7, OWNED("p5"));
	world_free(w);
}

static void a_controller_is_refused(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	ALLOWED(w, OWNED("p1"));
	world_pass(w, 1 * S);
	ALLOWED(w, OWNED("p2"));
	world_pass(w, 1 * S);
	one(w, "a-train/p1");
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_int_equal(CREATE(w, OWNED("p3")), GQ_VERDICT_WAIT);
	world_pass(w, 1 * S);
	/* two are older than 2 s: the API server is asked first */
	assert_int_equal(CREATE(w, OWNED("p3")), GQ_VERDICT_WAIT);
	assert_true(w->verdict.wait_ns == 20 * GQ_NS_PER_MS);
	one(w, "a-train/p1 a-train/p2");
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	DENIED(
	    w, GQ_REASON_OWNER_ATTEMPTS,
	    "2 earlier pods of ReplicaSet llm were allowed and never appeared, so something "
	    "after gpuquota refuses them (a ResourceQuota, another webhook?): look at the events "
	    "of ReplicaSet llm. Their GPUs are given back in at most 57 s; then it may try "
	    "again.",
	    OWNED("p3"));
	/* meanwhile the tenant's others get their GPUs */
	ALLOWED(w, .ns = "a-serve", .name = "q1", .gpus = 5, .owner = "ReplicaSet/other",
		.product = A100_80);
	world_pass(w, 57 * S);
	DENIED(w, GQ_REASON_OWNER_ATTEMPTS, "at most 1 s", OWNED("p3"));
	one(w, "a-serve/q1 a-train/p1");
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	ALLOWED(w, OWNED("p3"));
	world_free(w);
}

/* Who writes somebody else's owner into pods does not use up the attempts of that owner. */
static void a_borrowed_owner(void **state)
{
	struct world *w = world_new(TEAM("enforce"));
	const struct ask mallory = {.user = "mallory"};

	(void)state;
	assert_int_equal(world_ask(w, SPEC(OWNED("x1")), &mallory), GQ_VERDICT_ALLOW);
	assert_int_equal(world_ask(w, SPEC(OWNED("x2")), &mallory), GQ_VERDICT_ALLOW);
	assert_int_equal(world_ask(w, SPEC(OWNED("x3")), &mallory), GQ_VERDICT_WAIT);
	ALLOWED(w, OWNED("p1"));
	ALLOWED(w, .ns = "a-serve", OWNED("p1"));
	assert_int_equal(world_ask(w, SPEC(.ns = "a-serve", OWNED("x3")), &mallory),
			 GQ_VERDICT_ALLOW);
	world_free(w);
}

static void a_controller_whose_pods_the_watch_lags(void **state)
{
	struct world *w = world_new(TEAM("enforce"));

	(void)state;
	ALLOWED(w, OWNED("p1"));
	ALLOWED(w, OWNED("p2"));
	world_pass(w, 51 * GQ_NS_PER_MS);
	one(w, "");
	/* somebody waits: asked early */
	assert_int_equal(CREATE(w, OWNED("p3")), GQ_VERDICT_WAIT);
	one(w, "a-train/p1 a-train/p2");
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_FOUND, SPEC(OWNED("p1")), w->now_ns);
	ALLOWED(w, OWNED("p3"));
	/* an early absence says nothing yet; asked once more at the end of the grace */
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_int_equal(CREATE(w, OWNED("p4")), GQ_VERDICT_WAIT);
	one(w, "");
	world_pass(w, 60 * GQ_NS_PER_MS);
	assert_int_equal(CREATE(w, OWNED("p4")), GQ_VERDICT_WAIT);
	one(w, "a-train/p3");
	world_pass(w, 2 * S - 111 * GQ_NS_PER_MS);
	one(w, "a-train/p2");
	world_free(w);
}

static void bare_pods_only_after_two_seconds(void **state)
{
	struct world *w = world_new(TEAM("enforce"));
	char name[16];

	(void)state;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		ALLOWED(w, .name = name, .product = A100_80);
	}
	world_pass(w, 2 * S);
	assert_int_equal(CREATE(w, .name = "q", .product = A100_80), GQ_VERDICT_WAIT);
	one(w, "a-train/p0 a-train/p1 a-train/p2 a-train/p3");
	world_probed(w, SPEC(.name = "p0"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	DENIED(w, GQ_REASON_OWNER_ATTEMPTS, "2 earlier pods of pod q were allowed and never",
	       .name = "q", .product = A100_80);
	/* another user, or another namespace, is somebody else */
	assert_int_equal(
	    world_ask(w, SPEC(.name = "q", .product = A100_80), &(struct ask){.user = "john"}),
	    GQ_VERDICT_ALLOW);
	ALLOWED(w, .ns = "a-serve", .name = "q", .product = A100_80);
	/* a dry run is no attempt */
	assert_int_equal(
	    world_ask(w, SPEC(.name = "r", .product = A100_80), &(struct ask){.dry_run = true}),
	    GQ_VERDICT_ALLOW);
	world_free(w);
}

/* Whatever owners a user writes into his pods, and even if he is fast. */
static void a_user_with_many_owners(void **state)
{
	struct world *w = world_new(
	    "tenants: [{name: team-a, namespaces: [a-train], quota: {A100: {gpus: 50}}}]\n");
	char name[16], owner[32];

	(void)state;
	for (int i = 0; i < 8; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		(void)snprintf(owner, sizeof owner, "Job/j%d", i);
		ALLOWED(w, .name = name, .product = A100_80, .owner = owner);
	}
	assert_int_equal(CREATE(w, .name = "q", .product = A100_80, .owner = "Job/q"),
			 GQ_VERDICT_WAIT);
	assert_int_equal(CREATE(w, .name = "q", .product = A100_80), GQ_VERDICT_WAIT);
	SEEN(w, .name = "p0", .product = A100_80, .owner = "Job/j0");
	ALLOWED(w, .name = "p8", .product = A100_80, .owner = "Job/j8");
	/* Kubernetes' controllers speak for many owners */
	for (int i = 0; i < 3; i++) {
		(void)snprintf(name, sizeof name, "c%d", i);
		(void)snprintf(owner, sizeof owner, "Job/c%d", i);
		assert_int_equal(
		    world_ask(
			w, SPEC(.name = name, .product = A100_80, .owner = owner),
			&(struct ask){.user = "system:serviceaccount:kube-system:job-controller"}),
		    GQ_VERDICT_ALLOW);
	}
	/* the same once they are old, and the API server shows none of them */
	world_pass(w, 2 * S);
	probes_of(w);
	for (int i = 1; i < 9; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		world_probed(w, SPEC(.name = name), GQ_PROBE_ABSENT, NULL, w->now_ns);
	}
	DENIED(w, GQ_REASON_OWNER_ATTEMPTS, "8 earlier pods of Job q were allowed and never",
	       .name = "q", .product = A100_80, .owner = "Job/q");
	world_free(w);
}

static void tenants_that_only_warn_are_not_held_back(void **state)
{
	static const char *const modes[] = {TEAM("warn"), TEAM("audit")};

	(void)state;
	for (size_t m = 0; m < LEN(modes); m++) {
		struct world *w = world_new(modes[m]);
		char name[16];
		for (int i = 0; i < 5; i++) {
			(void)snprintf(name, sizeof name, "p%d", i);
			ALLOWED(w, OWNED(name));
			world_pass(w, 3 * S);
		}
		assert_pods(w, "5 reserved");
		world_free(w);
	}
}

/* Their reservations would starve the others below that parent. */
static void their_enforcing_parent_holds_them_back(void **state)
{
	struct world *w =
	    world_new("tenants:\n"
		      "  - {name: top, quota: {A100: {gpus: 8}}}\n"
		      "  - {name: team-a, parent: top, mode: warn, namespaces: [a-train]}\n");

	(void)state;
	world_ask(w, SPEC(OWNED("p1")), &(struct ask){0});
	world_ask(w, SPEC(OWNED("p2")), &(struct ask){0});
	assert_pods(w, "2 reserved");
	assert_int_equal(world_ask(w, SPEC(OWNED("p3")), &(struct ask){0}), GQ_VERDICT_WAIT);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ends_after_its_time_and_an_absence),
	    cmocka_unit_test(no_clock_alone_ends_it),
	    cmocka_unit_test(found_by_a_get),
	    cmocka_unit_test(found_and_vanished),
	    cmocka_unit_test(answers_that_come_too_late),
	    cmocka_unit_test(a_retried_request_starts_its_time_anew),
	    cmocka_unit_test(a_proposal_is_never_asked_about),
	    cmocka_unit_test(many_are_asked_about_in_turn),
	    cmocka_unit_test(a_binding_ends),
	    cmocka_unit_test(a_binding_that_the_watch_shows_later),
	    cmocka_unit_test(a_controller_waits_for_its_last_ones),
	    cmocka_unit_test(a_controller_is_refused),
	    cmocka_unit_test(a_borrowed_owner),
	    cmocka_unit_test(a_controller_whose_pods_the_watch_lags),
	    cmocka_unit_test(bare_pods_only_after_two_seconds),
	    cmocka_unit_test(a_user_with_many_owners),
	    cmocka_unit_test(tenants_that_only_warn_are_not_held_back),
	    cmocka_unit_test(their_enforcing_parent_holds_them_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
