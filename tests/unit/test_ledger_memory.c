#include "ledger_fixture.h"

#include "fail_alloc.h"
#include "quota/entry.h"
#include "quota/ledger_internal.h"

/* Fails one allocation of the ledger after the other. The answer is GQ_ENOMEM, or it was done all
 * the same; and in the first case nothing has changed: totals as before, nothing to repair. */

#define POLICY                                                                                     \
	"tenants:\n"                                                                               \
	"  - {name: top, quota: {\"*\": {gpus: 20, memory: 2000Gi}}}\n"                            \
	"  - {name: team-a, parent: top, namespaces: [a-train], quota: {A100: {gpus: 8}, H100: "   \
	"{gpus: 8}}}\n"                                                                            \
	"  - {name: red, namespaceSelector: {matchLabels: {team: red}}, quota: {A100: {gpus: "     \
	"8}}}\n"                                                                                   \
	"  - {name: rest, namespaceSelector: {matchExpressions: [{key: k, operator: Exists}]}}\n"  \
	"grants: [{tenant: red, class: H100, gpus: 1, until: \"2030-01-01T00:00:00Z\"}]\n"

/* The linker sends strdup() here, and its malloc() to fail_alloc.c. */
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

/* What an attempt works on, made before allocations fail. */
struct objects {
	struct gq_pod *pod, *bound, *other;
	struct gq_node *node;
	struct gq_namespace *ns;
	struct gq_policy *policy;
};

static char *state_of(struct world *w)
{
	static const char *const limits[][2] = {
	    {"top", "*"}, {"team-a", "A100"}, {"team-a", "H100"}, {"red", "A100"}, {"red", "H100"}};
	struct gq_buf out = GQ_BUF_INIT(4096);

	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		gq_buf_printf(&out, "%s\n", usage_of(w, limits[i][0], limits[i][1]));
		gq_buf_printf(&out, "%s\n", memory_of(w, limits[i][0], limits[i][1]));
	}
	gq_buf_printf(&out, "%s\n%s", pods_of(w), unseen_of(w));
	return gq_buf_steal(&out);
}

static int create(struct world *w, const struct objects *o, bool dry_run)
{
	const struct gq_create request = {.pod = o->other,
					  .request_uid = "a request",
					  .user = "jane",
					  .dry_run = dry_run,
					  .now_ns = w->now_ns,
					  .wall_s = w->wall_s,
					  .deadline_ns = w->now_ns + S,
					  .reads = &w->reads};

	gq_verdict_done(&w->verdict);
	return gq_decide_create(w->ledger, &request, &w->verdict, NULL);
}

static int do_create(struct world *w, const struct objects *o)
{
	return create(w, o, false);
}

static int do_seen(struct world *w, const struct objects *o)
{
	return gq_ledger_pod_seen(w->ledger, o->other, w->now_ns, NULL);
}

static int do_bound(struct world *w, const struct objects *o)
{
	return gq_ledger_pod_seen(w->ledger, o->bound, w->now_ns, NULL);
}

static int do_bind(struct world *w, const struct objects *o)
{
	const struct gq_binding binding = {.namespace_ = o->pod->namespace_,
					   .name = o->pod->name,
					   .uid = o->pod->uid,
					   .node = "h1",
					   .now_ns = w->now_ns,
					   .deadline_ns = w->now_ns + S};

	gq_verdict_done(&w->verdict);
	int code = gq_decide_binding(w->ledger, &binding, &w->verdict, NULL);
	assert_true(code || w->verdict.kind == GQ_VERDICT_ALLOW);
	return code;
}

static int restore(struct world *w, const struct gq_pod *pod, const char *node)
{
	char user[] = "jane", bind_node[16];
	const struct gq_entry entry = {
	    .pod = (struct gq_pod *)pod, .user = user, .bind_node = bind_node};

	(void)snprintf(bind_node, sizeof bind_node, "%s", node);
	return gq_ledger_restore(w->ledger, &entry, w->now_ns, NULL);
}

static int do_restore(struct world *w, const struct objects *o)
{
	return restore(w, o->other, "");
}

static int do_restore_bound(struct world *w, const struct objects *o)
{
	return restore(w, o->other, "h1");
}

static int do_restore_binding(struct world *w, const struct objects *o)
{
	return restore(w, o->pod, "h1");
}

static int do_node(struct world *w, const struct objects *o)
{
	int code = gq_ledger_node_seen(w->ledger, o->node, NULL);

	return code ? code : gq_ledger_nodes_settle(w->ledger, w->now_ns, NULL);
}

static int do_namespace(struct world *w, const struct objects *o)
{
	return gq_ledger_namespace_seen(w->ledger, o->ns, w->now_ns, NULL);
}

static int do_policy(struct world *w, const struct objects *o)
{
	return gq_ledger_set_policy(w->ledger, o->policy, w->now_ns, NULL);
}

static int do_usage(struct world *w, const struct objects *o)
{
	struct gq_usage usage;
	int code = gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL);

	(void)o;
	if (!code)
		gq_usage_done(&usage);
	return code;
}

static int do_holders(struct world *w, const struct objects *o)
{
	struct gq_usage usage;
	int code = gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL);

	(void)o;
	if (code)
		return code;
	for (size_t t = 0; t < usage.n_tenants; t++)
		for (size_t i = 0; i < usage.tenants[t].n_limits; i++)
			usage.tenants[t].limits[i].most = (struct gq_amount){0, 0};
	code = gq_ledger_usage_holders(w->ledger, &usage, NULL);
	gq_usage_done(&usage);
	return code;
}

static int do_recount(struct world *w, const struct objects *o)
{
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};

	(void)o;
	return gq_ledger_recount(w->ledger, w->now_ns, &drift, NULL);
}

static int do_found(struct world *w, const struct objects *o)
{
	return gq_ledger_probe_done(w->ledger, "asked", GQ_PROBE_FOUND, o->other, w->now_ns,
				    w->now_ns, NULL);
}

static int do_bind_end(struct world *w, const struct objects *o)
{
	return gq_ledger_probe_done(w->ledger, "a-train/p", GQ_PROBE_FOUND, o->pod,
				    w->now_ns + 60 * S, w->now_ns + 60 * S, NULL);
}

static struct world *setup(void)
{
	struct world *w = world_new(POLICY);
	char name[16];

	/* enough for maps to be about to grow, now and then */
	for (int i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof name, "fill%d", i);
		SEEN(w, .ns = "elsewhere", .name = name);
	}
	world_namespace(w, "r1", "team=red");
	RUN(w, .name = "p", .gpus = 2, .product = A100_80);
	SEEN(w, .name = "q", .gpus = 1, .node = "a2");
	SEEN(w, .name = "pending");
	return w;
}

static struct world *setup_asked(void)
{
	struct world *w = setup();

	ALLOWED(w, .name = "other", .uid = "asked", .gpus = 1);
	return w;
}

/* A total is wrong, and what the recount finds wants to be noted. */
static struct world *setup_drifted(void)
{
	struct world *w = setup();

	w->ledger->cur->tenants[0].limits[0].used.by[GQ_STATE_BOUND].shares++;
	gq_ledger_state_set(w->ledger, gq_map_get(w->ledger->charges, "a-train/q", 9),
			    GQ_STATE_PENDING);
	return w;
}

static struct world *setup_binding(void)
{
	struct world *w = setup();

	assert_int_equal(world_bind(w, SPEC(.name = "p"), "h1", false), GQ_VERDICT_ALLOW);
	return w;
}

/* Allowed, not seen, and bound by somebody who is faster than the watch. */
static struct world *setup_unseen(void)
{
	struct world *w = setup();

	GONE(w, .name = "p");
	ALLOWED(w, .name = "p", .gpus = 2, .product = A100_80);
	return w;
}

static long torture(struct world *(*make)(void),
		    int (*act)(struct world *w, const struct objects *o), bool may_settle_later)
{
	struct objects o = {
	    .pod = pod_make(SPEC(.name = "p", .gpus = 2, .product = A100_80)),
	    .bound = pod_make(SPEC(.name = "p", .gpus = 2, .product = A100_80, .node = "new")),
	    .other = pod_make(SPEC(.name = "other", .uid = "asked", .owner = "Job/j")),
	    .ns = namespace_make("a-new-one", "team=red"),
	    .policy = policy_make("classes: {AAA: {}}\n" POLICY),
	};
	struct gq_err err;
	static const char json[] = "{\"metadata\":{\"name\":\"a2\",\"labels\":{\"" PRODUCT
				   "\":\"" H100 "\"}},\"status\":{\"allocatable\":{"
				   "\"nvidia.com/gpu\":\"8\"}}}";

	assert_int_equal(gq_node_decode(json, strlen(json), &o.node, &err), 0);
	long failures = 0;

	for (long n = 0;; n++) {
		struct world *w = make();
		char *before = state_of(w);
		fail_alloc(n);
		int code = act(w, &o);
		bool failed = fail_alloc_done();
		char *after = state_of(w);
		if (code) {
			assert_true(failed);
			assert_int_equal(code, GQ_ENOMEM);
			if (!may_settle_later)
				assert_string_equal(before, after);
			if (!may_settle_later)
				assert_int_equal(world_recount(w), 0);
			/* with memory again it is done as if nothing had happened */
			assert_int_equal(act(w, &o), 0);
		}
		char *done = state_of(w);
		assert_int_equal(world_recount(w), 0);
		char *recounted = state_of(w);
		assert_string_equal(done, recounted);
		free(before);
		free(after);
		free(done);
		free(recounted);
		world_free(w);
		if (!failed)
			break;
		failures++;
	}
	gq_pod_unref(o.pod);
	gq_pod_unref(o.bound);
	gq_pod_unref(o.other);
	gq_node_unref(o.node);
	gq_namespace_unref(o.ns);
	gq_policy_unref(o.policy);
	return failures;
}

static void creating(void **state)
{
	(void)state;
	assert_true(torture(setup, do_create, false) > 0);
}

static void pods_seen(void **state)
{
	(void)state;
	assert_true(torture(setup, do_seen, false) > 0);
	assert_true(torture(setup, do_bound, false) > 0);
	/* it asks for what it was allowed */
	assert_int_equal(torture(setup_asked, do_seen, false), 0);
}

static void binding(void **state)
{
	(void)state;
	assert_true(torture(setup, do_bind, false) > 0);
	assert_true(torture(setup_unseen, do_bind, false) > 0);
	assert_true(torture(setup_binding, do_bind_end, false) > 0);
}

static void taking_over(void **state)
{
	(void)state;
	assert_true(torture(setup, do_restore, false) > 0);
	assert_true(torture(setup, do_restore_bound, false) > 0);
	assert_true(torture(setup, do_restore_binding, false) > 0);
	assert_true(torture(setup_unseen, do_restore_binding, false) > 0);
	assert_true(torture(setup_asked, do_restore, false) > 0);
}

static void nodes_and_namespaces(void **state)
{
	(void)state;
	/* settling is done charge by charge, and gone on with the next time */
	assert_true(torture(setup, do_node, true) > 0);
	assert_true(torture(setup, do_namespace, false) > 0);
}

static void policies_and_usage(void **state)
{
	(void)state;
	assert_true(torture(setup, do_policy, false) > 0);
	assert_true(torture(setup_asked, do_policy, false) > 0);
	long usage = torture(setup, do_usage, false);
	assert_true(usage > 0);
	assert_true(torture(setup, do_holders, false) > usage);
}

static void recounts(void **state)
{
	(void)state;
	assert_true(torture(setup_asked, do_recount, false) > 0);
	assert_true(torture(setup_drifted, do_recount, true) > 0);
}

static void probes(void **state)
{
	(void)state;
	/* it asks for what it was allowed */
	assert_int_equal(torture(setup_asked, do_found, false), 0);
}

static void a_ledger(void **state)
{
	(void)state;
	for (long n = 0;; n++) {
		fail_alloc(n);
		struct gq_ledger *ledger = gq_ledger_new(&(struct gq_ledger_options){0});
		bool failed = fail_alloc_done();
		assert_true(failed == !ledger);
		gq_ledger_free(ledger);
		if (!failed)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(creating),
	    cmocka_unit_test(pods_seen),
	    cmocka_unit_test(binding),
	    cmocka_unit_test(taking_over),
	    cmocka_unit_test(nodes_and_namespaces),
	    cmocka_unit_test(policies_and_usage),
	    cmocka_unit_test(recounts),
	    cmocka_unit_test(probes),
	    cmocka_unit_test(a_ledger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
