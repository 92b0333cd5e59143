#include "ledger_fixture.h"

#include "quota/entry.h"
#include "quota/ledger_internal.h"
#include "quota_testing.h"

/* What may be granted while much was not seen, or nothing is known for sure. */

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"
#define TEAM TEAM_A "    quota: {A100: {gpus: 8}, H100: {gpus: 4}, \"*\": {gpus: 10}}\n"
#define BOTH "'" A100_80 "','" H100 "'"
#define POD .gpus = 2, .product = A100_80

/* ---- room ---- */

#define ROOM                                                                                       \
	"tenants:\n"                                                                               \
	"  - {name: top, namespaces: [t], quota: {\"*\": {gpus: 1000}}}\n"                         \
	"  - {name: red, parent: top, namespaces: [r], quota: {\"*\": {gpus: 1000}}}\n"            \
	"  - {name: blue, parent: top, namespaces: [b], quota: {\"*\": {gpus: 1000}}}\n"           \
	"  - {name: green, namespaces: [g], quota: {\"*\": {gpus: 4}}}\n"
#define QUARTER (GQ_UNSEEN_MAX_BYTES / 4)

static struct world *world_with_room(void)
{
	static const char *const namespaces[] = {"t", "r", "b", "g"};
	struct world *w = world_new(ROOM);

	for (size_t i = 0; i < LEN(namespaces); i++)
		world_namespace(w, namespaces[i], "");
	return w;
}

static void print_spec(struct gq_buf *out, size_t len)
{
	gq_buf_puts(out, "'nodeSelector':{'x':'");
	for (size_t i = 0; i < len; i++)
		gq_buf_putc(out, 'y');
	gq_buf_puts(out, "'}");
}

/* Asks for a pod whose line costs so much. */
static enum gq_verdict_kind fill(struct world *w, const char *ns, const char *name, size_t cost)
{
	struct gq_buf spec GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_ENTRY_MAX_BYTES);
	char user[64];

	(void)snprintf(user, sizeof user, "%s-%s", ns, name);
	print_spec(&spec, 1);
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) =
	    pod_make(SPEC(.ns = ns, .name = name, .spec = spec.data));
	assert_int_equal(gq_entry_print(&line, pod, user, NULL), 0);
	size_t least = gq_unseen_cost(line.data, line.len);
	assert_true(cost >= least);
	gq_buf_reset(&spec);
	print_spec(&spec, 1 + cost - least);
	size_t before = gq_ledger_unseen(w->ledger).bytes;
	enum gq_verdict_kind kind = world_ask(w, SPEC(.ns = ns, .name = name, .spec = spec.data),
					      &(struct ask){.user = user});
	size_t after = gq_ledger_unseen(w->ledger).bytes;
	assert_int_equal(after - before, kind == GQ_VERDICT_ALLOW ? cost : 0);
	return kind;
}

static void assert_full(struct world *w, enum gq_verdict_kind kind)
{
	assert_int_equal(kind, GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_JOURNAL_FULL);
	assert_non_null(strstr(message_of(w), "have not appeared yet"));
	assert_int_equal(w->ticket, 0);
}

#define LARGE (QUARTER / 2)
#define SMALL 400

/* A tenant that is alone takes three quarters; the last is for those that have less than one. */
static void room_for_everybody(void **state)
{
	struct world *w = world_with_room();
	char name[16];

	(void)state;
	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		assert_int_equal(fill(w, "r", name, LARGE), GQ_VERDICT_ALLOW);
	}
	assert_full(w, fill(w, "r", "q", LARGE + 1));
	assert_int_equal(fill(w, "r", "p5", LARGE), GQ_VERDICT_ALLOW);
	assert_pods(w, "6 reserved");
	assert_full(w, fill(w, "r", "q", SMALL));
	/* what would not fit in the quota anyway is refused, and nobody's time is wasted */
	DENIED(w, GQ_REASON_OVER_LIMIT, "green", .ns = "g", .name = "x", .gpus = 5);
	/* its parent and its sibling are tenants of their own */
	assert_int_equal(fill(w, "t", "p", SMALL), GQ_VERDICT_ALLOW);
	assert_int_equal(fill(w, "b", "p0", LARGE), GQ_VERDICT_ALLOW);
	assert_full(w, fill(w, "b", "p1", LARGE - SMALL + 1));
	assert_int_equal(fill(w, "b", "p1", LARGE - SMALL), GQ_VERDICT_ALLOW);
	assert_int_equal(gq_ledger_unseen(w->ledger).bytes, GQ_UNSEEN_MAX_BYTES);
	assert_full(w, fill(w, "g", "p", SMALL));
	/* one that was allowed needs no room to be asked for again, nor does a dry run */
	assert_int_equal(world_ask(w, SPEC(.ns = "r", .name = "p0"), &(struct ask){0}),
			 GQ_VERDICT_ALLOW);
	assert_int_equal(
	    world_ask(w, SPEC(.ns = "r", .name = "dry"), &(struct ask){.dry_run = true}),
	    GQ_VERDICT_ALLOW);
	/* what one of red leaves is for those that wait */
	SEEN(w, .ns = "r", .name = "p0");
	assert_full(w, fill(w, "r", "q", SMALL));
	assert_full(w, fill(w, "b", "p2", SMALL + 1));
	assert_int_equal(fill(w, "b", "p2", SMALL), GQ_VERDICT_ALLOW);
	assert_int_equal(fill(w, "g", "p", LARGE - SMALL), GQ_VERDICT_ALLOW);
	assert_full(w, fill(w, "g", "q", SMALL));
	assert_unseen(w, "r/p1 r/p2 r/p3 r/p4 r/p5 t/p b/p0 b/p1 b/p2 g/p");
	/* while somebody waits, nobody gets more than a quarter, though there is room for it */
	for (int i = 1; i < 5; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		SEEN(w, .ns = "r", .name = name);
	}
	SEEN(w, .ns = "b", .name = "p0");
	assert_int_equal(fill(w, "r", "q", LARGE), GQ_VERDICT_ALLOW);
	assert_full(w, fill(w, "r", "s", SMALL));
	world_pass(w, 4999 * GQ_NS_PER_MS);
	assert_full(w, fill(w, "r", "s", SMALL));
	world_pass(w, 1 * GQ_NS_PER_MS);
	assert_int_equal(fill(w, "r", "s", SMALL), GQ_VERDICT_ALLOW);
	world_free(w);
}

/* A successor takes over whatever there is; only then it is full. */
static void what_is_taken_over_needs_no_room(void **state)
{
	struct world *w = world_with_room(), *next = world_with_room();

	(void)state;
	for (int i = 0; i < 6; i++) {
		char name[2][16];
		(void)snprintf(name[0], sizeof name[0], "p%d", i);
		(void)snprintf(name[1], sizeof name[1], "q%d", i);
		assert_int_equal(fill(w, "r", name[0], LARGE), GQ_VERDICT_ALLOW);
		assert_int_equal(fill(next, "r", name[1], LARGE), GQ_VERDICT_ALLOW);
	}
	world_restore(next, w);
	assert_pods(next, "12 reserved");
	assert_int_equal(gq_ledger_unseen(next->ledger).bytes, 12 * LARGE);
	assert_full(next, fill(next, "g", "p", SMALL));
	world_free(w);
	world_free(next);
}

static void a_line_that_is_too_big(void **state)
{
	struct world *w = world_with_room();
	struct gq_buf spec GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	(void)state;
	print_spec(&spec, GQ_ENTRY_MAX_BYTES);
	DENIED(w, GQ_REASON_UNSUPPORTED, "longer than gpuquota keeps of one pod (16 KiB)",
	       .ns = "r", .spec = spec.data);
	assert_pods(w, "");
	assert_unseen(w, "");
	/* one that is there all the same is bound to nothing that it was not allowed for */
	gq_buf_reset(&spec);
	gq_buf_printf(&spec, "'tolerations':[{'operator':'Exists','key':'%0*d'}]",
		      (int)GQ_ENTRY_MAX_BYTES, 0);
	SEEN(w, .ns = "r", .product = A100_80, .spec = spec.data);
	assert_int_equal(world_bind(w, SPEC(.ns = "r"), "h1", false), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_UNSUPPORTED);
	assert_non_null(strstr(message_of(w), "longer than gpuquota keeps of one pod (16 KiB)"));
	assert_int_equal(world_bind(w, SPEC(.ns = "r"), "a1", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

/* ---- when nothing can be granted ---- */

static void grants_are_held_back(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, .name = "p1", POD);
	RUN(w, .name = "p2", POD);
	gq_ledger_hold_grants(w->ledger, true);
	assert_int_equal(CREATE(w, .name = "q", POD), GQ_VERDICT_UNAVAILABLE);
	assert_int_equal(w->verdict.reason, GQ_REASON_JOURNAL);
	assert_non_null(strstr(message_of(w), "cannot note reservations"));
	/* what changes nothing goes on */
	DENIED(w, GQ_REASON_OVER_LIMIT, "A100", .name = "big", .gpus = 5, .product = A100_80);
	ALLOWED(w, .name = "cpu", .gpus = 0, .resources = "'cpu':'1'");
	ALLOWED(w, .name = "p1", POD);
	assert_int_equal(world_bind(w, SPEC(.name = "p2"), "a1", false), GQ_VERDICT_ALLOW);
	/* refused: unanswered, it would be bound */
	assert_int_equal(world_bind(w, SPEC(.name = "p2"), "h1", false), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_JOURNAL);
	assert_non_null(strstr(message_of(w), "cannot note reservations"));
	assert_usage(w, "team-a", "H100", "0/4 b0 p0 r0 t0");
	gq_ledger_hold_grants(w->ledger, false);
	ALLOWED(w, .name = "q", POD);
	assert_int_equal(world_bind(w, SPEC(.name = "p2"), "h1", false), GQ_VERDICT_ALLOW);
	world_free(w);
}

static void check_lag(struct world *w, bool lags)
{
	assert_true(gq_ledger_check_watch(w->ledger, w->now_ns) == lags);
	assert_int_equal(CREATE(w, .ns = "a-serve", .name = "q"),
			 lags ? GQ_VERDICT_UNAVAILABLE : GQ_VERDICT_ALLOW);
	if (lags) {
		assert_int_equal(w->verdict.reason, GQ_REASON_WATCH_LAGS);
		assert_non_null(strstr(message_of(w), "more than five seconds old"));
	}
	GONE(w, .ns = "a-serve", .name = "q");
}

static void a_watch_that_lags(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, POD);
	ALLOWED(w, .name = "refused", POD);
	world_pass(w, 4 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "refused"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	check_lag(w, false);
	world_pass(w, 1 * S);
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	check_lag(w, false);
	world_pass(w, 1);
	check_lag(w, true);
	world_pass(w, 100 * S);
	check_lag(w, true);
	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_WATCH_LAGS);
	SEEN(w, POD);
	check_lag(w, false);
	world_free(w);
}

/* It was deleted again before the watch came to it. */
static void a_lag_ends_with_the_pod(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, POD);
	world_pass(w, 6 * S);
	(void)probes_of(w);
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	check_lag(w, true);
	world_pass(w, 60 * S);
	assert_string_equal(probes_of(w), "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	check_lag(w, false);
	world_free(w);
}

/* Found by a GET, deleted while the watch was away, and the watch comes back by a list, which tells
 * of no deletion: it must not keep everybody waiting. */
static void a_deletion_that_nobody_tells_of(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	ALLOWED(w, POD);
	world_pass(w, 2 * S);
	assert_string_equal(probes_of(w), "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_FOUND, SPEC(POD), w->now_ns);
	gq_ledger_list_begin(w->ledger, GQ_PODS);
	assert_int_equal(gq_ledger_list_end(w->ledger, GQ_PODS, w->now_ns, NULL), 0);
	world_pass(w, 4 * S);
	check_lag(w, true);
	world_pass(w, 1 * S);
	assert_string_equal(probes_of(w), "a-train/p");
	world_probed(w, SPEC(.name = "p"), GQ_PROBE_ABSENT, NULL, w->now_ns);
	check_lag(w, false);
	world_free(w);
}

/* What the watch has lost, and a fresh list has found, says nothing about how old the watch is. */
static void a_lost_pod_is_no_lag(void **state)
{
	struct world *w = world_new(TEAM);
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
	const struct gq_pod *pod = pod_make(SPEC(POD, .node = "a1"));
	enum gq_suspect_verdict verdict;

	(void)state;
	assert_int_equal(gq_ledger_verify_begin(w->ledger, NULL), 0);
	assert_int_equal(gq_ledger_verify_listed(w->ledger, &pod, 1, NULL), 0);
	assert_int_equal(
	    gq_ledger_suspect_judge(w->ledger, pod->uid, pod, w->now_ns, &drift, &verdict, NULL),
	    0);
	assert_int_equal(verdict, GQ_SUSPECT_CHARGED);
	gq_ledger_verify_end(w->ledger);
	world_pass(w, 10 * S);
	check_lag(w, false);
	gq_pod_unref(pod);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(room_for_everybody),
	    cmocka_unit_test(what_is_taken_over_needs_no_room),
	    cmocka_unit_test(a_line_that_is_too_big),
	    cmocka_unit_test(grants_are_held_back),
	    cmocka_unit_test(a_watch_that_lags),
	    cmocka_unit_test(a_lag_ends_with_the_pod),
	    cmocka_unit_test(a_deletion_that_nobody_tells_of),
	    cmocka_unit_test(a_lost_pod_is_no_lag),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
