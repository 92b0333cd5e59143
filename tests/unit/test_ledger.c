#include "ledger_fixture.h"

#include "quota_testing.h"

#define TEAMS                                                                                      \
	"tenants:\n"                                                                               \
	"  - {name: team-a, namespaces: [a-train], quota: {A100: {gpus: 8}, H100: {gpus: 4}}}\n"   \
	"  - {name: team-b, namespaces: [a-serve], quota: {A100: {gpus: 8}, H100: {gpus: 4}}}\n"
#define BOTH "'" A100_80 "','" H100 "'"

/* ---- one pod's life ---- */

static void from_request_to_end(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	assert_int_equal(world_propose(w, SPEC(.gpus = 2, .product = A100_80), &(struct ask){0}),
			 GQ_VERDICT_ALLOW);
	assert_true(w->ticket != 0);
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r2 t0"); /* proposed counts as reserved */
	world_commit(w);
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r2 t0");
	assert_pods(w, "1 reserved");
	SEEN(w, .gpus = 2, .product = A100_80);
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	SEEN(w, .gpus = 2, .product = A100_80, .node = "a1");
	assert_usage(w, "team-a", "A100", "2/8 b2 p0 r0 t0");
	SEEN(w, .gpus = 2, .product = A100_80, .node = "a1", .phase = "Running");
	SEEN(w, .gpus = 2, .product = A100_80, .node = "a1", .terminating = true);
	assert_usage(w, "team-a", "A100", "2/8 b0 p0 r0 t2");
	assert_pods(w, "1 terminating");
	GONE(w, .name = "p");
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	GONE(w, .name = "p"); /* twice is harmless */
	GONE(w, .name = "never-heard-of");
	assert_pods(w, "");
	world_free(w);
}

static void an_ended_phase_releases(void **state)
{
	static const char *const phases[] = {"Succeeded", "Failed"};

	(void)state;
	for (size_t i = 0; i < LEN(phases); i++) {
		struct world *w = world_new(TEAMS);
		RUN(w, .gpus = 8, .product = A100_80);
		SEEN(w, .gpus = 8, .product = A100_80, .node = "a1", .phase = "Unknown");
		assert_usage(w, "team-a", "A100", "8/8 b8 p0 r0 t0");
		SEEN(w, .gpus = 8, .product = A100_80, .node = "a1", .phase = phases[i]);
		assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
		/* its deletion comes later, and other states of it */
		SEEN(w, .gpus = 8, .product = A100_80, .node = "a1", .phase = phases[i]);
		ALLOWED(w, .name = "next", .gpus = 8, .product = A100_80);
		GONE(w, .name = "p");
		assert_usage(w, "team-a", "A100", "8/8 b0 p0 r8 t0");
		world_free(w);
	}
}

static void the_same_again(void **state)
{
	struct world *w = world_new(TEAMS);
	const struct ask same = {.request_uid = "r1"};

	(void)state;
	/* a second request for the pod joins the first one's ticket */
	assert_int_equal(world_propose(w, SPEC(.gpus = 5, .product = A100_80), &same),
			 GQ_VERDICT_ALLOW);
	uint64_t ticket = w->ticket;
	assert_int_equal(world_propose(w, SPEC(.gpus = 5, .product = A100_80), &same),
			 GQ_VERDICT_ALLOW);
	assert_true(w->ticket == ticket);
	assert_int_equal(world_propose(w, SPEC(.gpus = 5, .product = A100_80),
				       &(struct ask){.request_uid = "r2"}),
			 GQ_VERDICT_ALLOW);
	assert_true(w->ticket == ticket);
	/* the request's uid with another pod */
	assert_int_equal(world_ask(w, SPEC(.name = "p2", .product = A100_80), &same),
			 GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_REQUEST_UID);
	assert_non_null(strstr(message_of(w), "carries the UID of an earlier request"));
	world_commit(w);
	gq_ledger_commit(w->ledger, ticket, w->now_ns);
	gq_ledger_commit(w->ledger, ticket, w->now_ns);
	/* after the answer there is nothing to commit */
	assert_int_equal(world_propose(w, SPEC(.gpus = 5, .product = A100_80), &same),
			 GQ_VERDICT_ALLOW);
	assert_true(w->ticket == 0);
	SEEN(w, .gpus = 5, .product = A100_80);
	assert_int_equal(world_propose(w, SPEC(.gpus = 5, .product = A100_80), &same),
			 GQ_VERDICT_ALLOW);
	assert_true(w->ticket == 0);
	assert_usage(w, "team-a", "A100", "5/8 b0 p5 r0 t0");
	world_free(w);
}

static void dry_run_leaves_no_trace(void **state)
{
	struct world *w = world_new(TEAMS);
	const struct ask dry = {.dry_run = true, .request_uid = "r"};

	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(
		    world_propose(w, SPEC(.gpus = 8, .product = A100_80, .owner = "Job/j"), &dry),
		    GQ_VERDICT_ALLOW);
		assert_true(w->ticket == 0);
	}
	assert_int_equal(world_propose(w, SPEC(.gpus = 9, .product = A100_80), &dry),
			 GQ_VERDICT_DENY);
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_pods(w, "");
	world_pass(w, 3 * S);
	assert_string_equal(probes_of(w), "");
	/* its uids mean nothing afterwards */
	assert_int_equal(world_ask(w, SPEC(.name = "q", .gpus = 8, .product = A100_80),
				   &(struct ask){.request_uid = "r"}),
			 GQ_VERDICT_ALLOW);
	/* nor does it restart the time of a reservation */
	world_pass(w, 59 * S);
	assert_int_equal(world_propose(w, SPEC(.name = "q", .gpus = 8, .product = A100_80), &dry),
			 GQ_VERDICT_ALLOW);
	world_pass(w, 1 * S);
	assert_string_equal(probes_of(w), "a-train/q");
	world_probed(w, SPEC(.name = "q"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_pods(w, "");
	world_free(w);
}

static void aborted(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	world_propose(w, SPEC(.gpus = 8, .product = A100_80), &(struct ask){0});
	gq_ledger_abort(w->ledger, w->ticket, w->now_ns);
	assert_pods(w, "");
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	world_commit(w); /* too late, and of nothing */
	gq_ledger_abort(w->ledger, w->ticket, w->now_ns);
	gq_ledger_abort(w->ledger, 12345, w->now_ns);
	assert_pods(w, "");

	/* the watch was faster than the store: the pod exists, whatever the store says */
	world_propose(w, SPEC(.gpus = 8, .product = A100_80), &(struct ask){0});
	SEEN(w, .gpus = 8, .product = A100_80);
	gq_ledger_abort(w->ledger, w->ticket, w->now_ns);
	assert_usage(w, "team-a", "A100", "8/8 b0 p8 r0 t0");
	GONE(w, .name = "p");

	/* seen, then committed; seen and gone, then committed */
	world_propose(w, SPEC(.gpus = 8, .product = A100_80), &(struct ask){0});
	SEEN(w, .gpus = 8, .product = A100_80);
	world_commit(w);
	assert_usage(w, "team-a", "A100", "8/8 b0 p8 r0 t0");
	world_pass(w, 100 * S);
	assert_string_equal(probes_of(w), "");
	GONE(w, .name = "p");
	world_propose(w, SPEC(.gpus = 8, .product = A100_80), &(struct ask){0});
	SEEN(w, .gpus = 8, .product = A100_80);
	GONE(w, .name = "p");
	world_commit(w);
	assert_pods(w, "");
	world_free(w);
}

/* A model warms up, serves, crashes: what it holds is the same, and shown apart while it is not
 * Ready. */
static void not_ready(void **state)
{
	static const struct {
		struct pod_spec spec;
		const char *used, *unready;
	} steps[] = {
	    {{.phase = "Pending"}, "3/8 b2 p1 r0 t0", "0 0"},
	    {{.phase = "Running"}, "3/8 b2 p1 r0 t0", "2 160Gi"},
	    {{.phase = "Running", .ready = true}, "3/8 b2 p1 r0 t0", "0 0"},
	    {{.phase = "Running"}, "3/8 b2 p1 r0 t0", "2 160Gi"},
	    {{.phase = "Running"}, "3/8 b2 p1 r0 t0", "2 160Gi"},
	    {{.phase = "Running", .terminating = true}, "3/8 b0 p1 r0 t2", "0 0"},
	    {{.phase = "Failed"}, "1/8 b0 p1 r0 t0", "0 0"},
	};
	struct world *w = world_new("tenants:\n"
				    "  - {name: top, quota: {\"*\": {gpus: 8}}}\n"
				    "  - {name: team-a, parent: top, namespaces: [a-train], quota: "
				    "{A100: {gpus: 8}, H100: {gpus: 8}}}\n");

	(void)state;
	SEEN(w, .name = "other", .product = A100_80, .phase = "Pending");
	for (size_t i = 0; i < LEN(steps); i++) {
		struct pod_spec spec = steps[i].spec;
		spec.gpus = 2;
		spec.node = "a1";
		world_seen(w, &spec);
		assert_usage(w, "team-a", "A100", steps[i].used);
		assert_usage(w, "top", "*", steps[i].used);
		assert_unready(w, "team-a", "A100", steps[i].unready);
		assert_unready(w, "top", "*", steps[i].unready);
		assert_unready(w, "team-a", "H100", "0 0");
		assert_int_equal(world_recount(w), 0);
	}
	world_free(w);
}

/* Only one of them can exist: what a Ready one holds is not unready, whichever comes first. */
static void namesakes_that_are_not_ready(void **state)
{
	static const struct pod_spec tiny = {
	    .uid = "tiny", .node = "a1", .phase = "Running", .ready = true};
	static const struct pod_spec small = {
	    .uid = "small", .gpus = 2, .node = "a1", .phase = "Running"};
	static const struct pod_spec large = {
	    .uid = "large", .gpus = 5, .node = "a2", .phase = "Running", .ready = true};
	static const struct {
		bool small_ready, large_ready;
		const char *unready;
	} cases[] = {{false, false, "4 320Gi"},
		     {false, true, "0 0"},
		     {true, false, "3 240Gi"},
		     {true, true, "0 0"}};

	(void)state;
	for (size_t i = 0; i < LEN(cases) * 2; i++) {
		struct world *w = world_new(TEAMS);
		struct pod_spec pods[] = {small, large};
		world_seen(w, &tiny);
		pods[0].ready = cases[i / 2].small_ready;
		pods[1].ready = cases[i / 2].large_ready;
		world_seen(w, &pods[i % 2]);
		world_seen(w, &pods[1 - i % 2]);
		assert_usage(w, "team-a", "A100", "5/8 b5 p0 r0 t0");
		assert_unready(w, "team-a", "A100", cases[i / 2].unready);
		world_free(w);
	}
}

/* ---- namesakes: at full quota, a StatefulSet's pod is deleted and made again ---- */

enum step { MADE, OLD_TERMINATES, OLD_GONE, NEW_SEEN, NEW_BOUND, STEPS };

static void do_step(struct world *w, enum step step)
{
	const struct pod_spec old = {.name = "db-0",
				     .uid = "old",
				     .gpus = 8,
				     .product = A100_80,
				     .node = "a1",
				     .terminating = true};
	struct pod_spec new = {.name = "db-0", .uid = "new", .gpus = 8, .product = A100_80};

	switch (step) {
	case MADE:
		assert_int_equal(world_ask(w, &new, &(struct ask){0}), GQ_VERDICT_ALLOW);
		break;
	case OLD_TERMINATES:
		world_seen(w, &old);
		break;
	case OLD_GONE:
		world_gone(w, &old);
		break;
	case NEW_BOUND:
		new.node = "a2";
		world_seen(w, &new);
		break;
	case NEW_SEEN:
		world_seen(w, &new);
		break;
	case STEPS:
		break;
	}
}

/* Every order of the events in which the pod is made before it is seen, and so on; the API server
 * may have made the new pod before our watch tells that the old one is gone. */
static void namesakes_count_as_the_largest(void **state)
{
	static const enum step orders[][STEPS] = {
	    {OLD_TERMINATES, OLD_GONE, MADE, NEW_SEEN, NEW_BOUND},
	    {OLD_TERMINATES, MADE, OLD_GONE, NEW_SEEN, NEW_BOUND},
	    {OLD_TERMINATES, MADE, NEW_SEEN, OLD_GONE, NEW_BOUND},
	    {OLD_TERMINATES, MADE, NEW_SEEN, NEW_BOUND, OLD_GONE},
	    {MADE, OLD_TERMINATES, OLD_GONE, NEW_SEEN, NEW_BOUND},
	    {MADE, OLD_TERMINATES, NEW_SEEN, OLD_GONE, NEW_BOUND},
	    {MADE, NEW_SEEN, OLD_TERMINATES, NEW_BOUND, OLD_GONE},
	    {MADE, NEW_SEEN, NEW_BOUND, OLD_TERMINATES, OLD_GONE},
	    {MADE, OLD_GONE, NEW_SEEN, NEW_BOUND, STEPS},
	};

	(void)state;
	for (size_t i = 0; i < LEN(orders); i++) {
		struct world *w = world_new(TEAMS);
		RUN(w, .name = "db-0", .uid = "old", .gpus = 8, .product = A100_80);
		SEEN(w, .name = "db-0", .uid = "old", .gpus = 8, .product = A100_80, .node = "a1");
		for (int s = 0; s < STEPS; s++) {
			do_step(w, orders[i][s]);
			if (strncmp(usage_of(w, "team-a", "A100"), "8/8 ", 4) != 0 &&
			    orders[i][s] != OLD_GONE)
				fail_msg("order %zu step %d: %s", i, s,
					 usage_of(w, "team-a", "A100"));
			/* and nobody else gets in; what fits beside it does */
			if (orders[i][s] != OLD_GONE)
				DENIED(w, GQ_REASON_OVER_LIMIT, "8 A100 GPUs", .name = "other",
				       .product = A100_80);
			assert_int_equal(world_recount(w), 0);
		}
		assert_usage(w, "team-a", "A100", "8/8 b8 p0 r0 t0");
		assert_pods(w, "1 bound");
		world_free(w);
	}
}

static void a_larger_namesake_adds_the_difference(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	RUN(w, .name = "db-0", .uid = "old", .gpus = 3, .product = A100_80);
	RUN(w, .name = "filler", .gpus = 4, .product = A100_80);
	DENIED(w, GQ_REASON_OVER_LIMIT, "asks for 2: 1 too many", .name = "db-0", .uid = "new",
	       .gpus = 5, .product = A100_80);
	ALLOWED(w, .name = "db-0", .uid = "new", .gpus = 4, .product = A100_80);
	assert_usage(w, "team-a", "A100", "8/8 b0 p7 r1 t0");
	/* another model under the same name is a namesake too, in each limit by itself */
	ALLOWED(w, .name = "db-0", .uid = "newer", .gpus = 4, .product = H100);
	assert_usage(w, "team-a", "H100", "4/4 b0 p0 r4 t0");
	GONE(w, .name = "db-0", .uid = "old");
	assert_usage(w, "team-a", "A100", "8/8 b0 p4 r4 t0");
	/* the same name elsewhere is another pod */
	ALLOWED(w, .ns = "a-serve", .name = "db-0", .uid = "b", .gpus = 8, .product = A100_80);
	assert_usage(w, "team-b", "A100", "8/8 b0 p0 r8 t0");
	world_free(w);
}

/* ---- what the watch says ---- */

static void list(struct world *w, enum gq_collection collection)
{
	gq_ledger_list_begin(w->ledger, collection);
}

static void list_end(struct world *w, enum gq_collection collection)
{
	struct gq_err err;

	if (gq_ledger_list_end(w->ledger, collection, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

static void a_list_tells_what_is_gone(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	RUN(w, .name = "stays", .gpus = 1, .product = A100_80);
	RUN(w, .name = "missed", .gpus = 2, .product = A100_80);
	RUN(w, .name = "twin", .uid = "t1", .gpus = 1, .product = A100_80);
	RUN(w, .name = "twin", .uid = "t2", .gpus = 1, .product = A100_80);
	ALLOWED(w, .name = "young", .gpus = 1, .product = A100_80);
	list(w, GQ_PODS);
	SEEN(w, .name = "stays", .gpus = 1, .product = A100_80);
	ALLOWED(w, .name = "younger", .gpus = 1, .product = A100_80);
	SEEN(w, .name = "twin", .uid = "t2", .gpus = 1, .product = A100_80);
	list_end(w, GQ_PODS);
	assert_usage(w, "team-a", "A100", "4/8 b0 p2 r2 t0");
	assert_pods(w, "2 reserved, 2 pending");
	/* an empty list */
	list(w, GQ_PODS);
	list_end(w, GQ_PODS);
	assert_pods(w, "2 reserved");
	world_free(w);
}

/* A pod that only a GET has shown may be younger than the list that ends now. */
static void a_list_leaves_what_a_get_found(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	ALLOWED(w, .gpus = 3, .product = A100_80);
	world_pass(w, 2 * S);
	assert_string_equal(probes_of(w), "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(.gpus = 3, .product = A100_80),
		     w->now_ns);
	list(w, GQ_PODS);
	list_end(w, GQ_PODS);
	assert_usage(w, "team-a", "A100", "3/8 b0 p3 r0 t0");
	SEEN(w, .gpus = 3, .product = A100_80);
	list(w, GQ_PODS);
	list_end(w, GQ_PODS);
	assert_pods(w, "");
	world_free(w);
}

static void lists_of_nodes_and_namespaces(void **state)
{
	struct world *w = world_new(
	    "tenants:\n"
	    "  - {name: red, namespaceSelector: {matchLabels: {team: red}}, quota: {A100: {gpus: "
	    "8}, H100: {gpus: 8}}}\n");

	(void)state;
	world_namespace(w, "r1", "team=red");
	world_namespace(w, "r2", "team=red");
	RUN(w, .ns = "r1", .name = "p1", .products = BOTH);
	assert_usage(w, "red", "H100", "1/8 b0 p1 r0 t0");
	list(w, GQ_NODES);
	world_node_unsettled(w, "a1", PRODUCT "=" A100_80, "nvidia.com/gpu=8");
	list_end(w, GQ_NODES);
	/* no H100 any more: it lands on an A100 or waits for one */
	assert_usage(w, "red", "H100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "red", "A100", "1/8 b0 p1 r0 t0");
	list(w, GQ_NAMESPACES);
	world_namespace(w, "r1", "team=red");
	list_end(w, GQ_NAMESPACES);
	ALLOWED(w, .ns = "r1", .name = "p2", .product = A100_80);
	assert_int_equal(CREATE(w, .ns = "r2", .name = "p3", .product = A100_80), GQ_VERDICT_READ);
	world_free(w);
}

static void events_out_of_order(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	/* the deletion of the old one comes after the new one was seen */
	RUN(w, .name = "p1", .uid = "u1", .product = A100_80);
	SEEN(w, .name = "p1", .uid = "u2", .product = A100_80);
	GONE(w, .name = "p1", .uid = "u1");
	assert_usage(w, "team-a", "A100", "1/8 b0 p1 r0 t0");
	/* never asked about, seen all the same (created while nobody asked us) */
	SEEN(w, .name = "p2", .gpus = 20, .product = A100_80);
	assert_usage(w, "team-a", "A100", "21/8 b0 p21 r0 t0");
	GONE(w, .name = "p2");
	/* a charge whose uid turns out to be another name's (made again by generateName) */
	ALLOWED(w, .name = "x1", .uid = "gen", .product = A100_80);
	SEEN(w, .name = "x2", .uid = "gen", .product = A100_80);
	assert_usage(w, "team-a", "A100", "2/8 b0 p2 r0 t0");
	SEEN(w, .ns = "a-serve", .name = "x2", .uid = "gen", .product = A100_80);
	assert_usage(w, "team-a", "A100", "1/8 b0 p1 r0 t0");
	assert_usage(w, "team-b", "A100", "1/8 b0 p1 r0 t0");
	/* a pod without GPUs was never charged, and one that stops asking holds nothing */
	SEEN(w, .name = "cpu", .resources = "'cpu':'4'");
	SEEN(w, .ns = "a-serve", .name = "x2", .uid = "gen", .resources = "'cpu':'4'");
	assert_pods(w, "1 pending");
	world_free(w);
}

/* ---- nodes come, go and change ---- */

static void labels_removed_and_restored(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	RUN(w, .gpus = 8, .product = A100_80);
	SEEN(w, .gpus = 8, .product = A100_80, .node = "a1");
	world_node(w, "a1", "");
	assert_usage(w, "team-a", "A100", "8/8 b8 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	world_node(w, "a1", "zone=x"); /* and again, without labels before */
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	world_node(w, "a1", PRODUCT "=" A100_80);
	assert_usage(w, "team-a", "A100", "8/8 b8 p0 r0 t0");
	/* a different known class moves it, even over the limit */
	world_node(w, "a1", PRODUCT "=" H100);
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "8/4 b8 p0 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "may hold 4 H100 GPUs and holds 8", .name = "p2",
	       .product = H100);
	/* a pod that adds nothing still passes */
	ALLOWED(w, .name = "p", .uid = "next", .product = H100);
	world_free(w);
}

/* Labels that tell less than before (the model without its variant) take nothing back. */
static void a_variant_stays_known(void **state)
{
	struct world *w = world_new("tenants:\n"
				    "  - {name: team-a, namespaces: [a-train], quota: {A100-40GB: "
				    "{gpus: 8}, A100-80GB: {gpus: 8}}}\n");
	static const char whole[] = PRODUCT "=NVIDIA-A100-SXM4,nvidia.com/gpu.memory=81920";
	static const char less[] = PRODUCT "=NVIDIA-A100-SXM4";

	(void)state;
	world_node(w, "n", whole);
	SEEN(w, .name = "p", .node = "n");
	assert_usage(w, "team-a", "A100-80GB", "1/8 b1 p0 r0 t0");
	assert_usage(w, "team-a", "A100-40GB", "0/8 b0 p0 r0 t0");
	world_node(w, "n", less);
	assert_usage(w, "team-a", "A100-40GB", "0/8 b0 p0 r0 t0");
	world_node(w, "n", "");
	world_node(w, "n", less);
	assert_usage(w, "team-a", "A100-40GB", "0/8 b0 p0 r0 t0");
	assert_usage(w, "team-a", "A100-80GB", "1/8 b1 p0 r0 t0");
	world_node(w, "n", PRODUCT "=" A100_40);
	assert_usage(w, "team-a", "A100-40GB", "1/8 b1 p0 r0 t0");
	world_node(w, "n", less);
	assert_usage(w, "team-a", "A100-40GB", "1/8 b1 p0 r0 t0");
	assert_usage(w, "team-a", "A100-80GB", "0/8 b0 p0 r0 t0");
	world_free(w);
}

static void a_node_deleted(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	RUN(w, .gpus = 4, .product = H100);
	SEEN(w, .gpus = 4, .product = H100, .node = "h1");
	world_node_gone(w, "h1");
	assert_usage(w, "team-a", "H100", "4/4 b4 p0 r0 t0");
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	SEEN(w, .gpus = 4, .product = H100, .node = "h1", .terminating = true);
	assert_usage(w, "team-a", "H100", "4/4 b0 p0 r0 t4");
	world_node_gone(w, "h1");
	world_node(w, "h1", ""); /* it comes back, its labels later */
	assert_usage(w, "team-a", "H100", "4/4 b0 p0 r0 t4");
	GONE(w, .name = "p");
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	world_free(w);
}

static void a_node_that_is_seen_late(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	SEEN(w, .gpus = 2, .node = "late");
	assert_usage(w, "team-a", "A100", "2/8 b2 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "2/4 b2 p0 r0 t0");
	world_node(w, "late", "");
	assert_usage(w, "team-a", "H100", "2/4 b2 p0 r0 t0");
	world_node(w, "late", PRODUCT "=" H100);
	assert_usage(w, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "2/4 b2 p0 r0 t0");
	/* asked for with a node of its own that nobody knows yet */
	ALLOWED(w, .name = "q", .node = "later");
	assert_usage(w, "team-a", "A100", "1/8 b0 p0 r1 t0");
	world_node(w, "later", PRODUCT "=" A100_80);
	assert_usage(w, "team-a", "A100", "1/8 b0 p0 r1 t0");
	assert_usage(w, "team-a", "H100", "2/4 b2 p0 r0 t0");
	world_free(w);
}

/* A pod that turns up on a node which has just gone: its class is not known, now or later. */
static void a_node_gone_before_its_pod_is_seen(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	gq_ledger_node_gone(w->ledger, "h1");
	SEEN(w, .node = "h1");
	world_settle(w);
	assert_usage(w, "team-a", "H100", "1/4 b1 p0 r0 t0");
	world_free(w);
}

static void nodes_that_appear(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	world_node_gone(w, "h1");
	world_node_gone(w, "h2");
	RUN(w, .gpus = 2, .spec = "'tolerations':[]");
	ALLOWED(w, .name = "q", .gpus = 2, .spec = "'tolerations':[]");
	assert_usage(w, "team-a", "A100", "4/8 b0 p2 r2 t0");
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	world_node_unsettled(w, "h9", PRODUCT "=" H100, "nvidia.com/gpu=8");
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	world_settle(w);
	assert_usage(w, "team-a", "A100", "4/8 b0 p2 r2 t0");
	assert_usage(w, "team-a", "H100", "4/4 b0 p2 r2 t0");
	world_free(w);
}

/* Changes of nodes that have not been taken over are no fault of the totals. */
static void recount_before_nodes_settle(void **state)
{
	struct world *w = world_new(TEAMS);

	(void)state;
	RUN(w, .products = BOTH);
	SEEN(w, .name = "q", .node = "a1");
	world_node_unsettled(w, "a1", PRODUCT "=" H100, "nvidia.com/gpu=8");
	gq_ledger_node_gone(w->ledger, "h1");
	gq_ledger_node_gone(w->ledger, "h2");
	assert_int_equal(world_recount(w), 0);
	world_settle(w);
	assert_usage(w, "team-a", "H100", "2/4 b1 p1 r0 t0");
	world_free(w);
}

/* A pod that is deleted while it runs may go on running; one that has ended first does not. */
static void forced_deletions(void **state)
{
	struct world *w = world_new(TEAMS);
	struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};

	(void)state;
	SEEN(w, .name = "pending", .gpus = 1, .product = A100_80);
	GONE(w, .name = "pending");
	SEEN(w, .name = "ended", .gpus = 1, .product = A100_80, .node = "a1");
	SEEN(w, .name = "ended", .gpus = 1, .product = A100_80, .node = "a1", .phase = "Failed");
	GONE(w, .name = "ended");
	SEEN(w, .name = "runs", .gpus = 1, .product = A100_80, .node = "a1");
	GONE(w, .name = "runs");
	GONE(w, .name = "runs");
	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	assert_int_equal(usage.forced_deletions, 1);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(from_request_to_end),
	    cmocka_unit_test(an_ended_phase_releases),
	    cmocka_unit_test(the_same_again),
	    cmocka_unit_test(dry_run_leaves_no_trace),
	    cmocka_unit_test(aborted),
	    cmocka_unit_test(not_ready),
	    cmocka_unit_test(namesakes_that_are_not_ready),
	    cmocka_unit_test(namesakes_count_as_the_largest),
	    cmocka_unit_test(a_larger_namesake_adds_the_difference),
	    cmocka_unit_test(a_list_tells_what_is_gone),
	    cmocka_unit_test(a_list_leaves_what_a_get_found),
	    cmocka_unit_test(lists_of_nodes_and_namespaces),
	    cmocka_unit_test(events_out_of_order),
	    cmocka_unit_test(labels_removed_and_restored),
	    cmocka_unit_test(a_variant_stays_known),
	    cmocka_unit_test(a_node_deleted),
	    cmocka_unit_test(a_node_that_is_seen_late),
	    cmocka_unit_test(a_node_gone_before_its_pod_is_seen),
	    cmocka_unit_test(nodes_that_appear),
	    cmocka_unit_test(recount_before_nodes_settle),
	    cmocka_unit_test(forced_deletions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
