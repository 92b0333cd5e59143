#include "ledger_fixture.h"

#include "quota/ledger_internal.h"
#include "quota_testing.h"

/* Each test spoils the ledger from the inside, as a fault of ours would. */

#define GPU GQ_SHARES_PER_GPU
#define POLICY                                                                                     \
	"tenants:\n"                                                                               \
	"  - {name: top, quota: {\"*\": {gpus: 40}}}\n"                                            \
	"  - {name: team-a, parent: top, namespaces: [a-train],\n"                                 \
	"     quota: {A100: {gpus: 30, memory: 4000Gi}, H100: {gpus: 8}}}\n"                       \
	"  - {name: team-b, namespaces: [a-serve], quota: {A100: {gpus: 8}}}\n"

static struct gq_charge *charge_of(struct world *w, const char *uid)
{
	struct gq_charge *charge = gq_map_get(w->ledger->charges, uid, strlen(uid));

	assert_non_null(charge);
	return charge;
}

static struct gq_book_limit *limit_of(struct world *w, const char *tenant, const char *class_name)
{
	struct gq_book *book = w->ledger->cur;

	for (size_t t = 0; t < book->n_tenants; t++)
		for (size_t i = 0; i < book->tenants[t].n_limits; i++) {
			struct gq_book_limit *limit = &book->tenants[t].limits[i];
			if (strcmp(book->tenants[t].spec->name, tenant) == 0 &&
			    strcmp(gq_class_name(book->policy->classes, limit->class_id),
				   class_name) == 0)
				return limit;
		}
	fail_msg("no limit of %s for %s", tenant, class_name);
	return NULL;
}

static struct gq_part *part_of(struct world *w, const char *uid)
{
	struct gq_parts *parts = &charge_of(w, uid)->parts[w->ledger->cur->bank];

	assert_true(parts->n > 0);
	return &parts->items[0];
}

/* ---- ways to spoil it ---- */

static void total_up(struct world *w)
{
	limit_of(w, "team-a", "A100")->used.by[GQ_STATE_BOUND].shares += 3 * GPU / 2;
}

static void total_down(struct world *w)
{
	limit_of(w, "top", "*")->used.by[GQ_STATE_PENDING].shares -= GPU;
	limit_of(w, "team-a", "A100")->used.by[GQ_STATE_PENDING].memory_mib -= 1024;
}

static void total_state(struct world *w)
{
	struct gq_count *used = &limit_of(w, "team-b", "A100")->used;

	used->by[GQ_STATE_RESERVED] = used->by[GQ_STATE_BOUND];
	used->by[GQ_STATE_BOUND] = (struct gq_amount){0, 0};
}

static void unready_up(struct world *w)
{
	limit_of(w, "team-b", "A100")->used.unready = (struct gq_amount){GPU, 81920};
}

static void unready_lost(struct world *w)
{
	limit_of(w, "team-a", "A100")->used.unready.memory_mib = 0;
}

static void parts_only(struct world *w)
{
	part_of(w, "a-train/bound")->amount.shares = 5 * GPU;
}

static void parts_counted(struct world *w)
{
	struct gq_charge *charge = charge_of(w, "a-train/bound");

	gq_ledger_uncount(w->ledger, charge->slot, w->now_ns);
	part_of(w, "a-train/bound")->amount = (struct gq_amount){5 * GPU, 81920};
	gq_ledger_count(w->ledger, charge->slot, w->now_ns);
}

static void parts_lost(struct world *w)
{
	struct gq_charge *charge = charge_of(w, "a-serve/other");

	gq_ledger_uncount(w->ledger, charge->slot, w->now_ns);
	charge->parts[w->ledger->cur->bank].n = 0;
	gq_ledger_count(w->ledger, charge->slot, w->now_ns);
}

static void parts_of_another_class(struct world *w)
{
	struct gq_charge *charge = charge_of(w, "a-train/bound");

	gq_ledger_uncount(w->ledger, charge->slot, w->now_ns);
	part_of(w, "a-train/bound")->class_id =
	    gq_class_find(w->ledger->cur->policy->classes, "H100-80GB");
	gq_ledger_count(w->ledger, charge->slot, w->now_ns);
}

static void parts_surely(struct world *w)
{
	part_of(w, "a-train/pending")->maybe = true;
}

static void state_only(struct world *w)
{
	gq_ledger_state_set(w->ledger, charge_of(w, "a-train/bound"), GQ_STATE_TERMINATING);
}

static void state_counted(struct world *w)
{
	struct gq_charge *charge = charge_of(w, "a-train/bound");

	gq_ledger_uncount(w->ledger, charge->slot, w->now_ns);
	gq_ledger_state_set(w->ledger, charge, GQ_STATE_RESERVED);
	gq_ledger_count(w->ledger, charge->slot, w->now_ns);
}

static void state_uncharged(struct world *w)
{
	gq_ledger_state_set(w->ledger, charge_of(w, "lab/x"), GQ_STATE_BOUND);
}

static void nothing_at_all(struct world *w)
{
	(void)w;
}

static struct world *small_world(void)
{
	struct world *w = world_new(POLICY);

	SEEN(w, .name = "bound", .gpus = 2, .node = "a1", .phase = "Running");
	SEEN(w, .name = "pending", .gpus = 3, .product = A100_80);
	ALLOWED(w, .name = "reserved", .gpus = 4, .product = A100_80);
	SEEN(w, .ns = "a-serve", .name = "other", .gpus = 1, .node = "a2");
	SEEN(w, .ns = "lab", .name = "x", .gpus = 1);
	return w;
}

static char *state_text(struct world *w)
{
	struct gq_buf out = GQ_BUF_INIT(4096);

	gq_buf_printf(&out, "%s\n", usage_of(w, "top", "*"));
	gq_buf_printf(&out, "%s\n", usage_of(w, "team-a", "A100"));
	gq_buf_printf(&out, "%s\n", memory_of(w, "team-a", "A100"));
	gq_buf_printf(&out, "%s\n", usage_of(w, "team-a", "H100"));
	gq_buf_printf(&out, "%s\n", usage_of(w, "team-b", "A100"));
	gq_buf_printf(&out, "unready %s\n", unready_of(w, "top", "*"));
	gq_buf_printf(&out, "unready %s\n", unready_of(w, "team-a", "A100"));
	gq_buf_printf(&out, "unready %s\n", unready_of(w, "team-b", "A100"));
	gq_buf_printf(&out, "%s\n", pods_of(w));
	assert_int_equal(out.code, 0);
	return gq_buf_steal(&out);
}

static void found_and_repaired(void **state)
{
	static const struct {
		void (*spoil)(struct world *w);
		const char *drift;
	} cases[] = {
	    {nothing_at_all, ""},
	    {total_up, "team-a A100 +1.5 +0"},
	    {total_down, "top * -1 +0, team-a A100 +0 -1Gi"},
	    {total_state, "team-b A100 +0 +0"},
	    {unready_up, "team-b A100 +0 +0"},
	    {unready_lost, "team-a A100 +0 +0"},
	    {parts_only, "top * +0 +0, team-a A100 +0 +0; pods a-train/bound"},
	    {parts_counted, "top * +3 -80Gi, team-a A100 +3 -80Gi; pods a-train/bound"},
	    {parts_lost, "team-b A100 -1 -80Gi; pods a-serve/other"},
	    {parts_of_another_class,
	     "team-a A100 -2 -160Gi, team-a H100 +2 +160Gi; pods a-train/bound"},
	    {parts_surely, "; pods a-train/pending"},
	    {state_only, "top * +0 +0, team-a A100 +0 +0; pods a-train/bound"},
	    {state_counted, "top * +0 +0, team-a A100 +0 +0; pods a-train/bound"},
	    {state_uncharged, "; pods lab/x"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct world *w = small_world();
		char *before = state_text(w);
		cases[i].spoil(w);
		assert_string_equal(drift_of(w), cases[i].drift);
		char *after = state_text(w);
		assert_string_equal(after, before);
		assert_string_equal(drift_of(w), "");
		free(before);
		free(after);
		world_free(w);
	}
}

/* Nothing is known of a reservation but what was answered. */
static void reservations_are_left_alone(void **state)
{
	struct world *w = small_world();
	struct gq_charge *charge = charge_of(w, "a-train/reserved");

	(void)state;
	gq_ledger_uncount(w->ledger, charge->slot, w->now_ns);
	part_of(w, "a-train/reserved")->amount.shares = 5 * GPU;
	gq_ledger_count(w->ledger, charge->slot, w->now_ns);
	assert_usage(w, "team-a", "A100", "10/30 b2 p3 r5 t0");
	assert_string_equal(drift_of(w), "");
	assert_string_equal(drift_of(w), "");
	assert_usage(w, "team-a", "A100", "10/30 b2 p3 r5 t0");
	/* under another policy it is counted anew */
	world_policy(w, POLICY);
	assert_usage(w, "team-a", "A100", "9/30 b2 p3 r4 t0");
	/* and its total is no less sure than others */
	limit_of(w, "team-a", "A100")->used.by[GQ_STATE_RESERVED].shares = 0;
	assert_string_equal(drift_of(w), "team-a A100 -4 +0");
	assert_usage(w, "team-a", "A100", "9/30 b2 p3 r4 t0");
	world_free(w);
}

static uint64_t drift_total(struct world *w, const char *tenant, const char *class_name)
{
	struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};

	assert_int_equal(gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, &usage, NULL), 0);
	for (size_t t = 0; t < usage.n_tenants; t++)
		for (size_t i = 0; i < usage.tenants[t].n_limits; i++)
			if (strcmp(usage.tenants[t].name, tenant) == 0 &&
			    strcmp(usage.tenants[t].limits[i].class_name, class_name) == 0)
				return usage.tenants[t].limits[i].drift_total;
	return UINT64_MAX;
}

static void totals_survive_a_policy(void **state)
{
	struct world *w = small_world();

	(void)state;
	total_up(w);
	assert_true(world_recount(w) == 1);
	parts_counted(w);
	assert_true(world_recount(w) == 3);
	assert_true(world_recount(w) == 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(drift_total(w, "team-a", "A100"), 2);
		assert_int_equal(drift_total(w, "team-a", "H100"), 0);
		assert_int_equal(drift_total(w, "top", "*"), 1);
		assert_int_equal(drift_total(w, "team-b", "A100"), 0);
		world_policy(w, "classes: {AAA: {}}\n" POLICY);
	}
	world_free(w);
}

static void counts_and_caps(void **state)
{
	struct gq_buf policy GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
	char name[32];

	(void)state;
	gq_buf_puts(&policy, "tenants:\n");
	for (int i = 0; i < GQ_DRIFT_LIMITS_MAX + 6; i++)
		gq_buf_printf(&policy,
			      "  - {name: t%d, namespaces: [n%d], quota: {A100: {gpus: "
			      "8}}}\n",
			      i, i);
	struct world *w = world_new(policy.data);
	for (int i = 0; i < GQ_DRIFT_LIMITS_MAX + 6; i++) {
		(void)snprintf(name, sizeof name, "n%d", i);
		SEEN(w, .ns = name, .node = "a1");
		(void)snprintf(name, sizeof name, "n%d/p", i);
		part_of(w, name)->amount.shares = 0;
	}
	assert_int_equal(gq_ledger_recount(w->ledger, w->now_ns, &drift, NULL), 0);
	assert_int_equal(drift.counted, GQ_DRIFT_LIMITS_MAX + 6);
	assert_int_equal(drift.n_limits, GQ_DRIFT_LIMITS_MAX);
	assert_int_equal(drift.more_limits, 6);
	assert_int_equal(drift.n_pods, GQ_DRIFT_PODS_MAX);
	assert_int_equal(drift.more_pods, GQ_DRIFT_LIMITS_MAX + 6 - GQ_DRIFT_PODS_MAX);
	for (int i = 0; i < GQ_DRIFT_LIMITS_MAX + 6; i++) {
		(void)snprintf(name, sizeof name, "t%d", i);
		assert_int_equal(drift_total(w, name, "A100"), 1);
	}
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(found_and_repaired),
	    cmocka_unit_test(reservations_are_left_alone),
	    cmocka_unit_test(totals_survive_a_policy),
	    cmocka_unit_test(counts_and_caps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
