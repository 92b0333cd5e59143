#include "ledger_fixture.h"

#include "quota/entry.h"
#include "quota/ledger_internal.h"
#include "quota_testing.h"

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"
#define TEAM TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 4}, \"*\": {gpus: 10}}\n"
#define BOTH "'" A100_80 "','" H100 "'"
#define POD .gpus = 2, .product = A100_80

/* Whether the set's number has changed since the last look. */
static bool changed(struct world *w)
{
	static uint64_t last;
	uint64_t version = gq_ledger_unseen(w->ledger).version;
	bool other = version != last;

	last = version;
	return other;
}

static void lines_come_and_go(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	assert_unseen(w, "");
	(void)changed(w);
	world_propose(w, SPEC(.name = "p1", POD), &(struct ask){0});
	assert_true(changed(w));
	assert_unseen(w, "a-train/p1");
	world_commit(w);
	assert_false(changed(w));
	ALLOWED(w, .ns = "a-serve", .name = "p2", POD);
	assert_true(changed(w));
	assert_unseen(w, "a-train/p1 a-serve/p2");
	/* nothing is noted of what holds nothing by it */
	world_propose(w, SPEC(.name = "dry", POD), &(struct ask){.dry_run = true});
	DENIED(w, GQ_REASON_OVER_LIMIT, "A100", .name = "big", .gpus = 7, .product = A100_80);
	SEEN(w, .name = "there", POD);
	GONE(w, .name = "there");
	GONE(w, .name = "never");
	assert_false(changed(w));
	/* the watch shows one, in whatever state */
	SEEN(w, .name = "p1", POD, .node = "a1");
	assert_true(changed(w));
	assert_unseen(w, "a-serve/p2");
	SEEN(w, .name = "p1", POD, .node = "a1", .terminating = true);
	assert_false(changed(w));
	SEEN(w, .ns = "a-serve", .name = "p2", POD, .phase = "Succeeded");
	assert_true(changed(w));
	assert_unseen(w, "");
	world_free(w);
}

/* Which costs more than it is long, as JSON within JSON. */
static void a_line_with_quotes(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	world_ask(w, SPEC(.spec = "'nodeSelector':{'a':'x\\\\y\\tz'}"),
		  &(struct ask){.user = "the \"admin\" \\"});
	assert_unseen(w, "a-train/p");
	world_free(w);
}

static void lines_of_aborted_and_vanished_pods_go(void **state)
{
	struct world *w = world_new(TEAM);
	uint64_t ticket;

	(void)state;
	world_propose(w, SPEC(.name = "p1", POD), &(struct ask){0});
	ticket = w->ticket;
	world_propose(w, SPEC(.name = "p2", POD), &(struct ask){0});
	world_abort(w);
	assert_unseen(w, "a-train/p1");
	/* it was seen before its ticket was decided */
	SEEN(w, .name = "p1", POD);
	assert_unseen(w, "");
	gq_ledger_abort(w->ledger, ticket, w->now_ns);
	assert_pods(w, "1 pending");
	ALLOWED(w, .name = "p3", POD);
	GONE(w, .name = "p3");
	assert_unseen(w, "");
	world_free(w);
}

static void lines_go_by_a_get(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, .name = "p1", POD);
	ALLOWED(w, .name = "p2", POD);
	world_pass(w, 2 * S);
	(void)probes_of(w);
	(void)changed(w);
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_FOUND, SPEC(.name = "p1", POD), w->now_ns);
	assert_true(changed(w));
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_false(changed(w));
	assert_unseen(w, "a-train/p2");
	world_pass(w, 58 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_FAILED, NULL, w->now_ns);
	assert_unseen(w, "a-train/p2");
	world_pass(w, 1 * S);
	assert_string_equal(probes_of(w), "a-train/p2");
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_unseen(w, "");
	assert_true(changed(w));
	world_free(w);
}

/* ---- taking over ---- */

static const char *const classes[] = {"A100", "H100", "*"};

/* The two worlds hold as much of every class. */
static void assert_alike(struct world *a, struct world *b)
{
	for (size_t c = 0; c < LEN(classes); c++) {
		char text[256];
		(void)snprintf(text, sizeof text, "%s", usage_of(a, "team-a", classes[c]));
		assert_usage(b, "team-a", classes[c], text);
		(void)snprintf(text, sizeof text, "%s", memory_of(a, "team-a", classes[c]));
		assert_memory(b, "team-a", classes[c], text);
	}
}

static void a_successor_counts_the_same(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);
	char lines[256];

	(void)state;
	ALLOWED(w, .name = "p1", .gpus = 3, .product = A100_80);
	ALLOWED(w, .ns = "a-serve", .name = "p2", .products = BOTH);
	ALLOWED(w, .name = "p3", .resources = "'nvidia.com/gpumem-percentage':'25'",
		.product = H100, .owner = "ReplicaSet/llm");
	ALLOWED(w, .name = "p4");
	world_propose(w, SPEC(.name = "p5", .gpus = 1, .node = "a1"), &(struct ask){0});
	(void)snprintf(lines, sizeof lines, "%s", unseen_of(w));
	world_restore(next, w);
	assert_pods(next, "5 reserved");
	assert_unseen(next, lines);
	assert_alike(w, next);
	assert_usage(next, "team-a", "A100", "6/8 b0 p0 r6 t0");
	assert_usage(next, "team-a", "H100", "2.25/4 b0 p0 r2.25 t0");
	/* once more changes nothing */
	world_restore(next, w);
	assert_unseen(next, lines);
	assert_alike(w, next);
	/* what one leader allowed, the next holds back */
	DENIED(next, GQ_REASON_OVER_LIMIT, "A100", .name = "q", .gpus = 3, .product = A100_80);
	ALLOWED(next, .name = "q", .gpus = 2, .product = A100_80);
	/* and it is the same request when it comes again */
	ALLOWED(next, .name = "p1", .gpus = 3, .product = A100_80);
	assert_usage(next, "team-a", "A100", "8/8 b0 p0 r8 t0");
	SEEN(next, .name = "p1", .gpus = 3, .product = A100_80, .node = "a1");
	GONE(next, .ns = "a-serve", .name = "p2");
	assert_unseen(next, "a-train/p3 a-train/p4 a-train/p5 a-train/q");
	assert_usage(next, "team-a", "A100", "7/8 b3 p0 r4 t0");
	world_free(w);
	world_free(next);
}

static void its_time_begins_anew(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);

	(void)state;
	ALLOWED(w, POD);
	/* monotonic clocks of two machines have nothing in common */
	world_pass(next, -500 * S);
	world_restore(next, w);
	/* asked about as soon as who led before is fenced: its pod may have been seen, and be over
	 */
	assert_string_equal(probes_of(next), "");
	world_pass(next, 1 * S);
	gq_ledger_renew(next->ledger, next->now_ns);
	assert_string_equal(probes_of(next), "a-train/p");
	world_probed(next, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, next->now_ns);
	world_pass(next, 2 * S);
	assert_string_equal(probes_of(next), "a-train/p");
	world_probed(next, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, next->now_ns);
	world_pass(next, 58 * S - 1);
	assert_string_equal(probes_of(next), "");
	assert_pods(next, "1 reserved");
	world_pass(next, 1);
	assert_string_equal(probes_of(next), "a-train/p");
	world_probed(next, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, next->now_ns);
	assert_pods(next, "");
	assert_unseen(next, "");
	world_free(w);
	world_free(next);
}

static void what_was_seen_is_left_alone(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);

	(void)state;
	ALLOWED(w, .name = "p1", POD);
	ALLOWED(w, .name = "p2", POD);
	ALLOWED(w, .name = "p3", POD);
	SEEN(next, .name = "p1", POD);
	SEEN(next, .name = "p2", POD, .node = "h1");
	/* within what it may land on anyway */
	assert_int_equal(world_bind(next, SPEC(.name = "p1"), "a1", false), GQ_VERDICT_ALLOW);
	/* a GET has shown it; whoever leads next finds it as well */
	ALLOWED(next, .name = "p3", POD);
	world_probed(next, SPEC(.name = "p3"), GQ_PROBE_FOUND, SPEC(.name = "p3", POD),
		     next->now_ns);
	(void)changed(next);
	world_restore(next, w);
	assert_false(changed(next));
	assert_unseen(next, "");
	assert_usage(next, "team-a", "A100", "4/8 b0 p4 r0 t0");
	assert_usage(next, "team-a", "H100", "2/4 b2 p0 r0 t0");
	world_free(w);
	world_free(next);
}

/* A UID never comes back, so what the watch has shown to be over needs no time to live. */
static void what_is_over_is_not_restored(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);

	(void)state;
	ALLOWED(w, .name = "deleted", POD);
	ALLOWED(w, .name = "ended", POD);
	ALLOWED(w, .name = "listed-away", POD);
	ALLOWED(w, .name = "unknown", POD);
	SEEN(next, .name = "deleted", POD);
	GONE(next, .name = "deleted");
	GONE(next, .name = "unknown"); /* of which there was no charge */
	SEEN(next, .name = "ended", POD);
	SEEN(next, .name = "ended", POD, .phase = "Succeeded");
	SEEN(next, .name = "listed-away", POD);
	gq_ledger_list_begin(next->ledger, GQ_PODS);
	assert_int_equal(gq_ledger_list_end(next->ledger, GQ_PODS, next->now_ns, NULL), 0);
	world_restore(next, w);
	assert_unseen(next, "a-train/unknown");
	world_free(w);
	world_free(next);
}

static void our_own_reservations_stay(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, .name = "p1", POD);
	world_pass(w, 59 * S);
	world_propose(w, SPEC(.name = "p2", POD), &(struct ask){0});
	world_restore(w, w);
	assert_unseen(w, "a-train/p2 a-train/p1");
	assert_usage(w, "team-a", "A100", "4/8 b0 p0 r4 t0");
	/* the time of the first begins anew, the other's own request answers for it */
	world_pass(w, 2 * S);
	assert_string_equal(probes_of(w), "a-train/p1");
	world_probed(w, SPEC(.name = "p1"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_pods(w, "2 reserved");
	world_abort(w);
	assert_unseen(w, "a-train/p1");
	assert_pods(w, "1 reserved");
	world_free(w);
}

/* ---- bindings taken over ---- */

/* A world whose pod p was allowed for A100s and bound to h1. */
static struct world *world_that_bound(void)
{
	struct world *w = world_new(TEAM);

	RUN(w, POD);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_unseen(w, "a-train/p>h1");
	return w;
}

static void a_binding_of_a_pending_pod(void **state)
{
	struct world *w = world_that_bound(), *next = world_new(TEAM);
	int64_t bound;

	(void)state;
	SEEN(next, POD);
	bound = next->now_ns;
	world_restore(next, w);
	assert_alike(w, next);
	assert_usage(next, "team-a", "H100", "2/4 b0 p2 r0 t0");
	assert_unseen(next, "a-train/p>h1");
	/* its status changes, and it stays */
	SEEN(next, POD);
	assert_unseen(next, "a-train/p>h1");
	/* its request comes again: allowed before */
	assert_int_equal(world_bind(next, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(next->ticket, 0);
	/* it does not come to pass */
	world_pass(next, 60 * S);
	assert_string_equal(probes_of(next), "a-train/p");
	world_probed(next, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), bound + 60 * S - 1);
	assert_usage(next, "team-a", "H100", "2/4 b0 p2 r0 t0");
	world_pass(next, 60 * S);
	(void)probes_of(next);
	world_probed(next, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), next->now_ns);
	assert_usage(next, "team-a", "H100", "0/4 b0 p0 r0 t0");
	assert_unseen(next, "");
	world_free(w);
	world_free(next);
}

static void a_binding_of_a_pod_that_was_not_seen(void **state)
{
	struct world *w = world_that_bound(), *next = world_new(TEAM);

	(void)state;
	world_restore(next, w);
	assert_pods(next, "1 reserved");
	assert_usage(next, "team-a", "A100", "2/8 b0 p0 r2 t0");
	assert_usage(next, "team-a", "H100", "2/4 b0 p0 r2 t0");
	SEEN(next, POD);
	assert_usage(next, "team-a", "H100", "2/4 b0 p2 r0 t0");
	assert_unseen(next, "a-train/p>h1");
	SEEN(next, POD, .node = "h1");
	assert_usage(next, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(next, "team-a", "H100", "2/4 b2 p0 r0 t0");
	assert_unseen(next, "");
	world_free(w);
	world_free(next);
}

static void a_binding_that_came_to_pass(void **state)
{
	struct world *w = world_that_bound(), *next = world_new(TEAM);

	(void)state;
	SEEN(next, POD, .node = "h1");
	world_restore(next, w);
	assert_unseen(next, "");
	assert_usage(next, "team-a", "A100", "0/8 b0 p0 r0 t0");
	assert_usage(next, "team-a", "H100", "2/4 b2 p0 r0 t0");
	world_pass(next, 100 * S);
	assert_string_equal(probes_of(next), "");
	world_free(w);
	world_free(next);
}

/* The present leader allowed another one meanwhile: what an older journal says is behind that. */
static void a_binding_beside_our_own(void **state)
{
	struct world *w = world_that_bound(), *next = world_new(TEAM);

	(void)state;
	world_node(next, "b1", PRODUCT "=" A100_40);
	SEEN(next, POD);
	assert_int_equal(world_bind(next, SPEC(.name = "p"), "b1", false), GQ_VERDICT_ALLOW);
	assert_unseen(next, "a-train/p>b1");
	world_restore(next, w);
	assert_unseen(next, "a-train/p>b1");
	assert_usage(next, "team-a", "H100", "0/4 b0 p0 r0 t0");
	world_free(w);
	world_free(next);
}

/* ---- before the successor knows much ---- */

static void a_successor_that_has_no_policy_yet(void **state)
{
	struct world *w = world_that_bound(), *next = world_bare(NULL);

	(void)state;
	ALLOWED(w, .name = "q", .products = BOTH);
	world_restore(next, w);
	assert_pods(next, "2 reserved");
	assert_unseen(next, "a-train/p>h1 a-train/q");
	world_fill(next);
	world_policy(next, TEAM);
	assert_usage(next, "team-a", "A100", "3/8 b0 p0 r3 t0");
	assert_usage(next, "team-a", "H100", "3/4 b0 p0 r3 t0");
	SEEN(next, POD);
	gq_ledger_set_synced(next->ledger);
	assert_alike(w, next);
	/* each keeps what it was allowed for, even where a limit is lowered below that */
	world_policy(next, TEAM_A "    quota: {A100: {gpus: 1}, H100: {gpus: 1}}\n");
	assert_int_equal(world_bind(next, SPEC(.name = "p"), "a1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(next, SPEC(.name = "q"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(next->ticket, 0);
	world_free(w);
	world_free(next);
}

/* Synced, and the policy comes last. */
static void a_successor_whose_policy_comes_last(void **state)
{
	struct world *w = world_that_bound(), *next = world_bare(NULL);

	(void)state;
	ALLOWED(w, .name = "q", .gpus = 2, .products = BOTH);
	world_fill(next);
	gq_ledger_set_synced(next->ledger);
	world_restore(next, w);
	world_policy(next, TEAM_A "    quota: {A100: {gpus: 1}, H100: {gpus: 1}}\n");
	assert_usage(next, "team-a", "H100", "4/1 b0 p0 r4 t0");
	assert_int_equal(world_bind(next, SPEC(.name = "q"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(world_bind(next, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	assert_int_equal(next->ticket, 0);
	world_free(w);
	world_free(next);
}

static void a_successor_with_another_policy(void **state)
{
	struct world *w = world_that_bound(), *next;

	(void)state;
	ALLOWED(w, .ns = "a-serve", .name = "q", .products = BOTH);
	next = world_new("classes: {AAA: {}, zzz: {parent: AAA}}\n"
			 "tenants:\n"
			 "  - {name: other, quota: {AAA: {gpus: 1}}}\n"
			 "  - {name: team-b, namespaces: [a-train], quota: {H100: {gpus: 1}}}\n");
	world_restore(next, w);
	assert_pods(next, "2 reserved");
	assert_usage(next, "team-b", "H100", "2/1 b0 p0 r2 t0");
	/* of nobody now, and still to be kept for whoever reads the journal next */
	assert_unseen(next, "a-train/p>h1 a-serve/q");
	world_policy(next, TEAM);
	assert_usage(next, "team-a", "A100", "3/8 b0 p0 r3 t0");
	assert_usage(next, "team-a", "H100", "3/4 b0 p0 r3 t0");
	world_free(w);
	world_free(next);
}

/* A class that came after the pod was restored is none that it was allowed for. */
static void a_restored_pod_is_held_to_what_it_was_allowed(void **state)
{
	struct world *w = world_new(TEAM), *next;

	(void)state;
	ALLOWED(w, .name = "p", .gpus = 2, .product = A100_80);
	next = world_new(TEAM);
	RUN(next, .name = "q", .gpus = 3, .product = H100);
	world_restore(next, w);
	SEEN(next, .gpus = 2, .products = BOTH);
	assert_int_equal(world_bind(next, SPEC(.name = "p"), "h1", false), GQ_VERDICT_DENY);
	assert_int_equal(world_bind(next, SPEC(.name = "p"), "a1", false), GQ_VERDICT_ALLOW);
	world_free(w);
	world_free(next);
}

/* ---- what ended ---- */

static struct world *world_that_notes(void)
{
	struct world *w = world_with(&(struct gq_ledger_options){.note_ended = true}, TEAM);

	world_fill(w);
	gq_ledger_set_synced(w->ledger);
	return w;
}

/* "uid seen 3" or "uid back 3", after so many seconds, oldest first, at most max of them. */
static const char *ended_of(struct world *w, size_t max)
{
	static char text[1024];
	struct gq_ended ended[8];
	size_t n = gq_ledger_ended(w->ledger, ended, max), len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%s %s %d", i ? ", " : "",
					ended[i].uid, ended[i].seen ? "seen" : "back",
					(int)(ended[i].at_ns / S) - 1000);
	return text;
}

static void ends_are_told(void **state)
{
	struct world *w = world_that_notes();

	(void)state;
	ALLOWED(w, .name = "p1", .product = A100_80);
	ALLOWED(w, .name = "p2", .product = A100_80);
	ALLOWED(w, .name = "p3", .product = A100_80);
	ALLOWED(w, .name = "p4", .product = A100_80);
	world_propose(w, SPEC(.name = "p5", .product = A100_80), &(struct ask){0});
	world_abort(w); /* was never answered */
	assert_string_equal(ended_of(w, 8), "");
	world_pass(w, 1 * S);
	SEEN(w, .name = "p1", .product = A100_80);
	SEEN(w, .name = "p1", .product = A100_80, .node = "a1");
	GONE(w, .name = "p1");
	world_pass(w, 1 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_FOUND, SPEC(.name = "p2", .product = A100_80),
		     w->now_ns);
	SEEN(w, .name = "p2", .product = A100_80);
	SEEN(w, .name = "p4", .product = A100_80, .phase = "Failed");
	world_pass(w, 58 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p3"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	assert_string_equal(ended_of(w, 2), "a-train/p1 seen 1, a-train/p2 seen 2");
	assert_string_equal(ended_of(w, 8), "a-train/p4 seen 2, a-train/p3 back 60");
	assert_string_equal(ended_of(w, 8), "");
	world_free(w);
}

static void ends_of_bindings_are_told(void **state)
{
	struct world *w = world_that_notes();

	(void)state;
	RUN(w, .name = "p1", .product = A100_80);
	RUN(w, .name = "p2", .product = A100_80);
	assert_string_equal(ended_of(w, 8), "a-train/p1 seen 0, a-train/p2 seen 0");
	assert_int_equal(world_bind(w, SPEC(.name = "p1"), "h1", false), GQ_VERDICT_ALLOW);
	world_propose_bind(w, SPEC(.name = "p2"), "h1", false);
	world_abort(w);
	world_pass(w, 1 * S);
	/* not seen there yet */
	SEEN(w, .name = "p1", .product = A100_80);
	SEEN(w, .name = "p1", .product = A100_80);
	assert_string_equal(ended_of(w, 8), "");
	SEEN(w, .name = "p1", .product = A100_80, .node = "h1");
	assert_int_equal(world_bind(w, SPEC(.name = "p2"), "h1", false), GQ_VERDICT_ALLOW);
	world_pass(w, 60 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p2"), GQ_PROBE_FOUND, SPEC(.name = "p2", .product = A100_80),
		     w->now_ns);
	assert_string_equal(ended_of(w, 8), "a-train/p1 seen 1, a-train/p2 back 61");
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_come_and_go),
	    cmocka_unit_test(a_line_with_quotes),
	    cmocka_unit_test(lines_of_aborted_and_vanished_pods_go),
	    cmocka_unit_test(lines_go_by_a_get),
	    cmocka_unit_test(a_successor_counts_the_same),
	    cmocka_unit_test(its_time_begins_anew),
	    cmocka_unit_test(what_was_seen_is_left_alone),
	    cmocka_unit_test(what_is_over_is_not_restored),
	    cmocka_unit_test(our_own_reservations_stay),
	    cmocka_unit_test(a_binding_of_a_pending_pod),
	    cmocka_unit_test(a_binding_of_a_pod_that_was_not_seen),
	    cmocka_unit_test(a_binding_that_came_to_pass),
	    cmocka_unit_test(a_binding_beside_our_own),
	    cmocka_unit_test(a_successor_that_has_no_policy_yet),
	    cmocka_unit_test(a_successor_whose_policy_comes_last),
	    cmocka_unit_test(a_successor_with_another_policy),
	    cmocka_unit_test(a_restored_pod_is_held_to_what_it_was_allowed),
	    cmocka_unit_test(ends_are_told),
	    cmocka_unit_test(ends_of_bindings_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
