#include "ledger_fixture.h"

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"

#define BOTH "'" A100_80 "','" H100 "'"

static void binding_within_the_charge(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 1}, H100: {gpus: 1}}\n");

	(void)state;
	RUN(w, .name = "p1", .products = BOTH);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	/* and again, and elsewhere: nothing is counted twice */
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "a1", true), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "A100", "1/1 b0 p1 r0 t0");
	assert_usage(w, "team-a", "H100", "1/1 b0 p1 r0 t0");
	SEEN(w, .name = "p1", .products = BOTH, .node = "a1");
	assert_usage(w, "team-a", "A100", "1/1 b1 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "0/1 b0 p0 r0 t0");
	/* already on a node, unknown pods and pods of no tenant: nothing to say */
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "cpu"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "cpu"), "h1", true), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.reason, GQ_REASON_NO_GPU);
	SEEN(w, .ns = "other", .name = "p9");
	assert_int_equal(world_bind(w, SPEC(.ns = "other", .name = "p9"), "h1", false),
			 GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "0/1 b0 p0 r0 t0");
	world_free(w);
}

static void binding_to_another_class(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");

	(void)state;
	world_node(w, "l1", PRODUCT "=" L40S);
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p2", .gpus = 1, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_DENY);
	assert_string_equal(
	    message_of(w),
	    "The pod cannot go to node h1, whose GPUs are of class H100-80GB: team-a may hold 2 "
	    "H100 GPUs and holds 1, and the pod asks for 2. It fits there when GPUs come free; a "
	    "nodeSelector for another model avoids the wait.");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "l1", true), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "of class L40S: team-a has no quota for it"));
	GONE(w, .name = "p2");
	/* with room: both, until it is seen there */
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", true), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "A100", "2/2 b0 p2 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "H100", .name = "p3", .product = H100);
	SEEN(w, .name = "p1", .gpus = 2, .product = A100_80, .node = "h1");
	assert_usage(w, "team-a", "A100", "0/2 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b2 p0 r0 t0");
	world_free(w);
}

/* A pending pod may be changed (a toleration added, a selector narrowed) or a node may come, so
 * that it counts in a limit without having been asked whether it fits there. */
static void binding_to_a_class_that_came_later(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p2", .gpus = 1, .product = H100);
	SEEN(w, .name = "p1", .gpus = 2, .products = BOTH);
	assert_usage(w, "team-a", "H100", "3/2 b0 p3 r0 t0");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "may hold 2 H100 GPUs and holds 1, and the pod asks "
					      "for 2."));
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "a1", false), GQ_VERDICT_ALLOW);
	/* its quota of A100 is no way to more H100 either */
	SEEN(w, .name = "p1", .gpus = 2, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_DENY);
	GONE(w, .name = "p2");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	/* once allowed it stays allowed */
	SEEN(w, .name = "p3", .gpus = 2, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	/* what was there before us can't be told apart */
	assert_int_equal(world_bind(w, SPEC(.name = "p3"), "h2", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

/* A scheduler whose binding got no answer tries another node, and the first may be stored yet. */
static void binding_beside_another(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}, L40S: {gpus: 9}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	SEEN(w, .name = "p1", .gpus = 2, .products = BOTH);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "a1", false), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "H100", .name = "p2", .gpus = 1, .product = H100);
	/* what it was not allowed for waits until that is seen or over */
	world_node(w, "l1", "nvidia.com/gpu.product=NVIDIA-L40S");
	SEEN(w, .name = "p1", .gpus = 2, .products = BOTH ",'NVIDIA-L40S'");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "l1", false), GQ_VERDICT_DENY);
	SEEN(w, .name = "p1", .gpus = 2, .products = BOTH, .node = "a1");
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	world_free(w);
}

/* A reload that numbers the policy's own classes anew changes nothing of what a pod may bind to. */
static void binding_after_classes_moved(void **state)
{
#define OWN(first, second)                                                                         \
	"classes:\n"                                                                               \
	"  " first ": {match: [{label: pool, values: [" first "]}]}\n"                             \
	"  " second ": {match: [{label: pool, values: [" second "]}]}\n"                           \
	"tenants: [{name: team-a, namespaces: [a-train], quota: {red: {gpus: 2}, "                 \
	"blue: {gpus: 2}}}]\n"
	struct world *w = world_new(OWN("red", "blue"));

	(void)state;
	world_node(w, "r", "pool=red");
	world_node(w, "b", "pool=blue");
	world_node_gone(w, "a1");
	world_node_gone(w, "a2");
	world_node_gone(w, "h1");
	world_node_gone(w, "h2");
	world_settle(w);
	world_node_gone(w, "b");
	world_settle(w);
	RUN(w, .name = "p1", .gpus = 2); /* red is all there is */
	world_node(w, "b", "pool=blue");
	world_settle(w);
	SEEN(w, .name = "p2", .gpus = 2, .node = "b");
	world_policy(w, OWN("blue", "red"));
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "b", false), GQ_VERDICT_DENY);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "r", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

static void binding_to_an_unknown_node(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	RUN(w, .name = "p2", .gpus = 1, .product = H100);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "new", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "to node new, whose GPUs are of class unknown"));
	GONE(w, .name = "p2");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "new", false), GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	world_free(w);
}

static void binding_dry_run_and_late(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");
	struct gq_binding binding = {.namespace_ = "a-train",
				     .name = "p1",
				     .uid = "a-train/p1",
				     .node = "h1",
				     .dry_run = true,
				     .now_ns = w->now_ns,
				     .deadline_ns = w->now_ns + S};

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	gq_verdict_done(&w->verdict);
	assert_int_equal(gq_decide_binding(w->ledger, &binding, &w->verdict, NULL), 0);
	assert_int_equal(w->verdict.kind, GQ_VERDICT_ALLOW);
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	gq_verdict_done(&w->verdict);
	binding.deadline_ns = w->now_ns;
	assert_int_equal(gq_decide_binding(w->ledger, &binding, &w->verdict, NULL), 0);
	assert_int_equal(w->verdict.kind, GQ_VERDICT_UNAVAILABLE);
	world_free(w);
}

/* Without a uid the pod that exists is meant, not a namesake that was only asked for. */
static void legacy_binding_beside_a_namesake(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 4}, H100: {gpus: 4}}\n");

	(void)state;
	RUN(w, .name = "p1", .uid = "old", .product = A100_80);
	ALLOWED(w, .name = "p1", .uid = "new", .product = A100_80);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", true), GQ_VERDICT_ALLOW);
	GONE(w, .uid = "new");
	assert_usage(w, "team-a", "H100", "1/4 b0 p1 r0 t0");
	world_free(w);
}

static void binding_that_only_warns(void **state)
{
	struct world *w =
	    world_new(TEAM_A "    mode: warn\n    quota: {A100: {gpus: 2}, H100: {gpus: 1}}\n");

	(void)state;
	RUN(w, .name = "p1", .gpus = 2, .product = A100_80);
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_usage(w, "team-a", "H100", "2/1 b0 p2 r0 t0");
	world_free(w);
}

/* ---- tickets ---- */

#define TEAM TEAM_A "    quota: {A100: {gpus: 4}, H100: {gpus: 2}}\n"
#define POD .gpus = 2, .product = A100_80

/* A world whose pod p, allowed for A100s, is about to be bound to h1. */
static struct world *world_that_binds(void)
{
	struct world *w = world_new(TEAM);

	RUN(w, POD);
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_true(w->ticket != 0);
	return w;
}

static bool ticket_open(struct world *w)
{
	char uid[GQ_UID_MAX_BYTES + 1] = "";
	bool open = gq_ledger_ticket_uid(w->ledger, w->ticket, uid);

	assert_string_equal(uid, open ? "a-train/p" : "");
	return open;
}

/* What was added is charged and to be stored from the first moment on. */
static void a_binding_that_adds_is_stored(void **state)
{
	struct world *w = world_that_binds();

	(void)state;
	assert_true(ticket_open(w));
	assert_unseen(w, "a-train/p>h1");
	assert_usage(w, "team-a", "A100", "2/4 b0 p2 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	DENIED(w, GQ_REASON_OVER_LIMIT, "H100", .name = "q", .product = H100);
	world_free(w);

	w = world_that_binds();
	world_commit(w);
	assert_false(ticket_open(w));
	assert_unseen(w, "a-train/p>h1");
	/* again: it is within what it holds by now */
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h2", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	SEEN(w, POD, .node = "h2");
	assert_unseen(w, "");
	assert_usage(w, "team-a", "A100", "0/4 b0 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "2/2 b2 p0 r0 t0");
	world_free(w);
}

static void a_binding_within_needs_no_ticket(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	RUN(w, .products = BOTH);
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	assert_unseen(w, "");
	/* nor does it do away with the line of one that was not seen */
	ALLOWED(w, .name = "q", .product = A100_80);
	assert_int_equal(world_propose_bind(w, SPEC(.name = "q"), "a1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	assert_unseen(w, "a-train/q");
	SEEN(w, .name = "q", .product = A100_80);
	assert_unseen(w, "");
	world_free(w);
}

/* Its creation, or a binding, is on its way to the journal: the next one waits for that. */
static void a_second_binding_waits(void **state)
{
	struct world *w = world_that_binds();
	uint64_t ticket = w->ticket;

	(void)state;
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_WAIT);
	assert_true(w->verdict.wait_ns > 0 && w->verdict.wait_ns <= 100 * GQ_NS_PER_MS);
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "a1", true), GQ_VERDICT_WAIT);
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	gq_ledger_commit(w->ledger, ticket, w->now_ns);
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	world_propose(w, SPEC(.name = "q", .product = A100_80), &(struct ask){0});
	assert_int_equal(world_propose_bind(w, SPEC(.name = "q"), "a1", false), GQ_VERDICT_WAIT);
	world_free(w);
}

/* What may happen to the pod while its binding is on its way to the journal. */
static void before_the_commit(void **state)
{
	struct world *w = world_that_binds();

	(void)state;
	/* its status changes */
	SEEN(w, POD);
	SEEN(w, POD, .terminating = true);
	assert_true(ticket_open(w));
	assert_unseen(w, "a-train/p>h1");
	assert_usage(w, "team-a", "H100", "2/2 b0 p0 r0 t2");
	world_commit(w);
	assert_unseen(w, "a-train/p>h1");
	/* it waits to be seen there, from now on */
	world_pass(w, 2 * S);
	assert_string_equal(probes_of(w), "a-train/p");
	SEEN(w, POD, .node = "h1");
	assert_unseen(w, "");
	world_free(w);

	/* it is on a node, whichever */
	w = world_that_binds();
	SEEN(w, POD, .node = "a1");
	assert_false(ticket_open(w));
	assert_unseen(w, "");
	world_commit(w);
	assert_usage(w, "team-a", "A100", "2/4 b2 p0 r0 t0");
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	world_pass(w, 100 * S);
	assert_string_equal(probes_of(w), "");
	world_free(w);

	/* it is gone */
	w = world_that_binds();
	GONE(w, .name = "p");
	assert_false(ticket_open(w));
	world_commit(w);
	assert_pods(w, "");
	assert_unseen(w, "");
	world_free(w);
}

static void the_same_before_an_abort(void **state)
{
	struct world *w = world_that_binds();

	(void)state;
	SEEN(w, POD);
	world_abort(w);
	assert_false(ticket_open(w));
	assert_unseen(w, "");
	assert_usage(w, "team-a", "A100", "2/4 b0 p2 r0 t0");
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	world_pass(w, 100 * S);
	assert_string_equal(probes_of(w), "");
	/* bound again, with a ticket of its own */
	uint64_t before = w->ticket;
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_true(w->ticket && w->ticket != before);
	gq_ledger_abort(w->ledger, before, w->now_ns); /* is long over */
	assert_unseen(w, "a-train/p>h1");
	world_commit(w);
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	world_free(w);

	w = world_that_binds();
	SEEN(w, POD, .node = "h1");
	world_abort(w);
	assert_usage(w, "team-a", "H100", "2/2 b2 p0 r0 t0");
	assert_unseen(w, "");
	world_free(w);

	w = world_that_binds();
	GONE(w, .name = "p");
	world_abort(w);
	assert_pods(w, "");
	world_free(w);
}

/* A pod that was allowed and not seen is bound, as a scheduler does that is faster than we are. */
static void a_binding_of_an_unseen_pod(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, POD);
	assert_int_equal(world_propose_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_true(w->ticket != 0);
	assert_unseen(w, "a-train/p>h1");
	assert_usage(w, "team-a", "H100", "2/2 b0 p0 r2 t0");
	/* the watch shows it, not bound yet */
	SEEN(w, POD);
	assert_unseen(w, "a-train/p>h1");
	world_commit(w);
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	SEEN(w, POD, .node = "h1");
	assert_unseen(w, "");
	world_free(w);

	/* the binding is not stored: the reservation stays, and its line */
	w = world_new(TEAM);
	ALLOWED(w, POD);
	world_propose_bind(w, SPEC(.name = "p"), "h1", false);
	world_abort(w);
	assert_usage(w, "team-a", "A100", "2/4 b0 p0 r2 t0");
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	assert_non_null(strstr(unseen_of(w), "a-train/p"));
	SEEN(w, POD);
	assert_unseen(w, "");
	world_free(w);

	/* a GET shows it, and its end */
	w = world_new(TEAM);
	ALLOWED(w, POD);
	world_bind(w, SPEC(.name = "p"), "h1", false);
	world_pass(w, 2 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	assert_unseen(w, "a-train/p>h1");
	assert_usage(w, "team-a", "H100", "2/2 b0 p2 r0 t0");
	world_pass(w, 60 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_unseen(w, "");
	assert_pods(w, "");
	world_free(w);
}

/* No node can have that name, so no line can name it. */
static void binding_to_what_is_no_node(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	RUN(w, POD);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "no such node", false), GQ_VERDICT_DENY);
	assert_usage(w, "team-a", "H100", "0/2 b0 p0 r0 t0");
	assert_unseen(w, "");
	world_free(w);
}

/* Nor is it left unanswered when there is no room to store it: then it would come to pass. */
static void a_binding_without_room(void **state)
{
	struct world *w = world_new(TEAM_A "    quota: {A100: {gpus: 4000}, H100: {gpus: 4000}}\n");
	char name[16], user[16], spec[9000];

	(void)state;
	(void)snprintf(spec, sizeof spec, "'tolerations':[{'operator':'Exists','key':'%08000d'}]",
		       0);
	RUN(w, POD);
	for (int i = 0; i < 11; i++) { /* three quarters of what there is */
		struct pod_spec pod = {.name = name, .product = A100_80, .spec = spec};
		(void)snprintf(name, sizeof name, "p%d", i);
		(void)snprintf(user, sizeof user, "user-%d", i);
		assert_int_equal(world_ask(w, &pod, &(struct ask){.user = user}), GQ_VERDICT_ALLOW);
	}
	for (int i = 0; i < 11; i++) {
		struct pod_spec pod = {.name = name, .product = A100_80};
		(void)snprintf(name, sizeof name, "q%d", i);
		(void)snprintf(user, sizeof user, "user-q%d", i);
		if (world_ask(w, &pod, &(struct ask){.user = user}) != GQ_VERDICT_ALLOW)
			break;
	}
	assert_int_equal(w->verdict.reason, GQ_REASON_JOURNAL_FULL);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_JOURNAL_FULL);
	assert_non_null(strstr(message_of(w), "Too many allowed pods of the tenant"));
	assert_usage(w, "team-a", "H100", "0/4000 b0 p0 r0 t0");
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "a1", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

/* ---- pods that the watch showed first ---- */

/* Its classes when it came into sight are its by right; one that is added later is not. */
static void check_first_sight(struct world *w)
{
	/* "wide" was seen when it might land on both, "narrow" on A100s only */
	SEEN(w, .name = "narrow", .gpus = 2, .products = BOTH);
	RUN(w, .ns = "a-serve", .name = "rival", .product = H100);
	world_policy(w, TEAM_A "    quota: {A100: {gpus: 2}, H100: {gpus: 2}}\n");
	assert_int_equal(world_bind(w, SPEC(.name = "wide"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	assert_int_equal(world_bind(w, SPEC(.name = "narrow"), "h1", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "of class H100-80GB: team-a may hold 2 H100 GPUs"));
	assert_int_equal(world_bind(w, SPEC(.name = "narrow"), "a1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	world_free(w);
}

static void show_both(struct world *w)
{
	SEEN(w, .name = "wide", .gpus = 2, .products = BOTH);
	SEEN(w, .name = "narrow", POD);
}

#define PLENTY TEAM_A "    quota: {A100: {gpus: 9}, H100: {gpus: 9}}\n"

static void seen_before_we_were_synced(void **state)
{
	struct world *w = world_bare(PLENTY);

	(void)state;
	world_fill(w);
	show_both(w);
	gq_ledger_set_synced(w->ledger);
	check_first_sight(w);
}

/* Until all is listed, a node is no later than a pod. */
static void nodes_that_are_listed_after_the_pods(void **state)
{
	struct world *w = world_bare(TEAM_A "    quota: {A100: {gpus: 4}, L40S: {gpus: 2}}\n");

	(void)state;
	world_node(w, "a1", PRODUCT "=" A100_80);
	SEEN(w, .gpus = 2);
	world_node(w, "l1", PRODUCT "=" L40S);
	gq_ledger_set_synced(w->ledger);
	world_policy(w, TEAM_A "    quota: {A100: {gpus: 4}, L40S: {gpus: 1}}\n");
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "l1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(w->ticket, 0);
	world_free(w);
}

static void seen_before_the_first_policy(void **state)
{
	struct world *w = world_bare(NULL);

	(void)state;
	world_fill(w);
	show_both(w);
	gq_ledger_set_synced(w->ledger);
	world_policy(w, PLENTY);
	check_first_sight(w);

	w = world_bare(NULL);
	world_fill(w);
	gq_ledger_set_synced(w->ledger);
	show_both(w);
	world_policy(w, PLENTY);
	check_first_sight(w);

	w = world_bare(NULL);
	world_fill(w);
	show_both(w);
	world_policy(w, PLENTY);
	gq_ledger_set_synced(w->ledger);
	check_first_sight(w);
}

static void seen_while_we_decide(void **state)
{
	struct world *w = world_new(PLENTY);

	(void)state;
	show_both(w);
	check_first_sight(w);
}

/* By another policy, the same classes have other numbers. */
static void seen_before_classes_were_renumbered(void **state)
{
	struct world *w = world_new(PLENTY);

	(void)state;
	show_both(w);
	world_policy(w, "classes: {AAA: {}, zzz: {parent: AAA}}\n" PLENTY);
	world_policy(w, PLENTY);
	world_policy(w, "classes: {AAA: {}}\n" PLENTY);
	check_first_sight(w);
}

/* A node that comes later adds its class to whatever may land there. */
static void a_node_that_adds_a_class(void **state)
{
	static const char *const tight = TEAM_A "    quota: {A100: {gpus: 4}, L40S: {gpus: 1}}\n";
	struct world *w = world_bare(tight);

	(void)state;
	world_node(w, "a1", PRODUCT "=" A100_80);
	SEEN(w, .name = "p1", .gpus = 2);
	SEEN(w, .name = "p2", .gpus = 1);
	gq_ledger_set_synced(w->ledger);
	assert_usage(w, "team-a", "A100", "3/4 b0 p3 r0 t0");
	world_node(w, "l1", PRODUCT "=" L40S);
	assert_usage(w, "team-a", "L40S", "3/1 b0 p3 r0 t0");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "l1", false), GQ_VERDICT_DENY);
	assert_non_null(strstr(message_of(w), "may hold 1 L40S GPU"));
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "a1", false), GQ_VERDICT_ALLOW);
	SEEN(w, .name = "p1", .gpus = 2, .node = "a1");
	/* now there is room for the other one, which is stored first */
	assert_int_equal(world_bind(w, SPEC(.name = "p2"), "l1", false), GQ_VERDICT_ALLOW);
	assert_true(w->ticket != 0);
	assert_unseen(w, "a-train/p2>l1");
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(binding_within_the_charge),
	    cmocka_unit_test(binding_to_another_class),
	    cmocka_unit_test(binding_to_a_class_that_came_later),
	    cmocka_unit_test(binding_beside_another),
	    cmocka_unit_test(binding_after_classes_moved),
	    cmocka_unit_test(binding_to_an_unknown_node),
	    cmocka_unit_test(binding_dry_run_and_late),
	    cmocka_unit_test(legacy_binding_beside_a_namesake),
	    cmocka_unit_test(binding_that_only_warns),
	    cmocka_unit_test(a_binding_that_adds_is_stored),
	    cmocka_unit_test(a_binding_within_needs_no_ticket),
	    cmocka_unit_test(a_second_binding_waits),
	    cmocka_unit_test(before_the_commit),
	    cmocka_unit_test(the_same_before_an_abort),
	    cmocka_unit_test(a_binding_of_an_unseen_pod),
	    cmocka_unit_test(binding_to_what_is_no_node),
	    cmocka_unit_test(a_binding_without_room),
	    cmocka_unit_test(seen_before_we_were_synced),
	    cmocka_unit_test(nodes_that_are_listed_after_the_pods),
	    cmocka_unit_test(seen_before_the_first_policy),
	    cmocka_unit_test(seen_while_we_decide),
	    cmocka_unit_test(seen_before_classes_were_renumbered),
	    cmocka_unit_test(a_node_that_adds_a_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
