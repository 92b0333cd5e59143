#include "ledger_fixture.h"

#include "quota_testing.h"

/* How many pods somebody may have on their way, and that a successor holds him to as many. What a
 * probe does to them is in test_reserve.c. */

#define TEAM                                                                                       \
	"tenants: [{name: team-a, namespaces: [a-train, a-serve], quota: {A100: {gpus: 50}}}]\n"
#define CONTROLLER "system:serviceaccount:kube-system:job-controller"

static enum gq_verdict_kind ask_as(struct world *w, const char *user, const char *name,
				   const char *owner)
{
	return world_ask(w, SPEC(.name = name, .product = A100_80, .owner = owner),
			 &(struct ask){.user = user});
}

/* n pods of the user, each of an owner of its own, or of this one. */
static void make(struct world *w, const char *user, const char *prefix, int n, const char *owner)
{
	char name[32], own[32];

	for (int i = 0; i < n; i++) {
		(void)snprintf(name, sizeof name, "%s%d", prefix, i);
		(void)snprintf(own, sizeof own, "Job/%s%d", prefix, i);
		assert_int_equal(ask_as(w, user, name, owner ? owner : own), GQ_VERDICT_ALLOW);
	}
}

static void absent(struct world *w, const char *name)
{
	world_probed(w, SPEC(.name = name), GQ_PROBE_ABSENT, NULL, w->now_ns);
}

static void refused(struct world *w, const char *user, const char *name, const char *owner)
{
	assert_int_equal(ask_as(w, user, name, owner), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_OWNER_ATTEMPTS);
}

static void two_of_an_owner(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	make(w, CONTROLLER, "p", 2, "Job/j");
	assert_int_equal(ask_as(w, CONTROLLER, "p2", "Job/j"), GQ_VERDICT_WAIT);
	make(w, CONTROLLER, "q", 2, "Job/k");
	/* the same name elsewhere is another */
	assert_int_equal(world_ask(w, SPEC(.ns = "a-serve", .product = A100_80, .owner = "Job/j"),
				   &(struct ask){.user = CONTROLLER}),
			 GQ_VERDICT_ALLOW);
	SEEN(w, .name = "p0", .product = A100_80, .owner = "Job/j");
	assert_int_equal(ask_as(w, CONTROLLER, "p2", "Job/j"), GQ_VERDICT_ALLOW);
	world_abort(w);
	world_free(w);
}

static void eight_of_a_user(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	make(w, "jane", "p", 8, NULL);
	assert_int_equal(ask_as(w, "jane", "x", "Job/x"), GQ_VERDICT_WAIT);
	assert_int_equal(ask_as(w, "jane", "x", NULL), GQ_VERDICT_WAIT);
	assert_int_equal(ask_as(w, "john", "x", "Job/x"), GQ_VERDICT_ALLOW);
	/* a controller speaks for the owners that it names, however many */
	make(w, CONTROLLER, "c", 12, NULL);
	/* somebody who only looks like one does not */
	make(w, "system:serviceaccount:mine:kube-system", "m", 8, NULL);
	assert_int_equal(ask_as(w, "system:serviceaccount:mine:kube-system", "y", "Job/y"),
			 GQ_VERDICT_WAIT);
	world_free(w);
}

/* An attempt that is asked for again is the youngest, and does not hide the older ones. */
static void an_attempt_that_is_asked_for_again(void **state)
{
	struct world *w = world_new(TEAM);

	(void)state;
	make(w, "jane", "p", 3, NULL);
	for (int i = 0; i < 3; i++) {
		char name[8];
		(void)snprintf(name, sizeof name, "b%d", i);
		assert_int_equal(ask_as(w, "john", name, NULL), GQ_VERDICT_ALLOW);
	}
	world_pass(w, 2 * S);
	(void)probes_of(w);
	absent(w, "b1");
	absent(w, "b2");
	refused(w, "john", "x", NULL);
	assert_int_equal(ask_as(w, "john", "b0", NULL), GQ_VERDICT_ALLOW);
	refused(w, "john", "x", NULL);
	/* of the two left one is young again */
	assert_int_equal(ask_as(w, "john", "b1", NULL), GQ_VERDICT_ALLOW);
	assert_int_equal(ask_as(w, "john", "x", NULL), GQ_VERDICT_ALLOW);
	world_free(w);
}

/* ---- over a change of the leader ---- */

static void a_successor_knows_an_owner(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);

	(void)state;
	make(w, CONTROLLER, "p", 2, "Job/j");
	world_restore(next, w);
	world_restore(next, w);
	assert_int_equal(ask_as(next, CONTROLLER, "p2", "Job/j"), GQ_VERDICT_WAIT);
	assert_int_equal(ask_as(next, CONTROLLER, "q", "Job/other"), GQ_VERDICT_ALLOW);
	world_pass(next, 2 * S);
	assert_string_equal(probes_of(next), "a-train/p0 a-train/p1 a-train/q");
	absent(next, "p0");
	absent(next, "p1");
	refused(next, CONTROLLER, "p2", "Job/j");
	assert_non_null(strstr(message_of(next), "2 earlier pods of Job j"));
	/* until one is seen after all */
	SEEN(next, .name = "p1", .product = A100_80, .owner = "Job/j");
	assert_int_equal(ask_as(next, CONTROLLER, "p2", "Job/j"), GQ_VERDICT_ALLOW);
	world_free(w);
	world_free(next);
}

static void a_successor_knows_a_user(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);
	char name[8];

	(void)state;
	make(w, "jane", "p", 8, NULL);
	world_restore(next, w);
	assert_int_equal(ask_as(next, "jane", "x", "Job/x"), GQ_VERDICT_WAIT);
	assert_int_equal(ask_as(next, "john", "x", "Job/x"), GQ_VERDICT_ALLOW);
	world_pass(next, 2 * S);
	(void)probes_of(next);
	for (int i = 0; i < 8; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		absent(next, name);
	}
	refused(next, "jane", "y", "Job/y");
	world_free(w);
	world_free(next);
}

/* A binding writes the line anew; who asked for the pod stays in it. */
static void a_binding_keeps_the_user(void **state)
{
	struct world *w = world_new("tenants: [{name: team-a, namespaces: [a-train], quota: "
				    "{A100: {gpus: 50}, H100: {gpus: 50}}}]\n");
	struct world *next = world_new(TEAM);

	(void)state;
	make(w, "jane", "p", 8, NULL);
	assert_int_equal(world_bind(w, SPEC(.name = "p3"), "h1", false), GQ_VERDICT_ALLOW);
	assert_non_null(strstr(unseen_of(w), "a-train/p3>h1"));
	world_restore(next, w);
	assert_int_equal(ask_as(next, "jane", "x", "Job/x"), GQ_VERDICT_WAIT);
	world_free(w);
	world_free(next);
}

/* What the successor has seen already is no attempt. */
static void seen_ones_do_not_count(void **state)
{
	struct world *w = world_new(TEAM), *next = world_new(TEAM);

	(void)state;
	make(w, CONTROLLER, "p", 2, "Job/j");
	SEEN(next, .name = "p0", .product = A100_80, .owner = "Job/j");
	world_restore(next, w);
	assert_int_equal(ask_as(next, CONTROLLER, "p2", "Job/j"), GQ_VERDICT_ALLOW);
	assert_int_equal(ask_as(next, CONTROLLER, "p3", "Job/j"), GQ_VERDICT_WAIT);
	world_free(w);
	world_free(next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_of_an_owner),
	    cmocka_unit_test(eight_of_a_user),
	    cmocka_unit_test(an_attempt_that_is_asked_for_again),
	    cmocka_unit_test(a_successor_knows_an_owner),
	    cmocka_unit_test(a_successor_knows_a_user),
	    cmocka_unit_test(a_binding_keeps_the_user),
	    cmocka_unit_test(seen_ones_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
