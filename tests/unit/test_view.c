#include "ledger_fixture.h"

#include "quota/decision_internal.h"

/* What a decision looks at: the policy, and whose the namespace is. */

#define POLICY                                                                                     \
	"exempt: {namespaces: [infra]}\n"                                                          \
	"tenants:\n"                                                                               \
	"  - {name: team-a, locale: zh, namespaces: [a-train]}\n"                                  \
	"  - {name: team-b, namespaceSelector: {matchLabels: {team: b}}}\n"                        \
	"  - {name: team-c, namespaceSelector: {matchLabels: {group: c}}}\n"

static bool take(struct world *w, const char *ns, struct gq_view *ret_view)
{
	*ret_view = (struct gq_view){0};
	gq_verdict_done(&w->verdict);
	return gq_view_take(w->ledger, ns, &w->reads, w->now_ns, &w->verdict, ret_view);
}

/* Whose a namespace is that the view can tell at once: "-" nobody's. */
static void is_of(struct world *w, const char *ns, enum gq_assign_kind kind, const char *tenant)
{
	struct gq_view view GQ_CLEANUP(gq_view_done);

	assert_true(take(w, ns, &view));
	assert_int_equal(view.assign.kind, kind);
	assert_non_null(view.policy);
	assert_non_null(view.snapshot);
	const struct gq_tenant *owner = gq_view_tenant(&view);
	assert_string_equal(owner ? owner->name : "-", tenant);
	assert_string_equal(w->verdict.tenant ? w->verdict.tenant : "-", tenant);
	assert_ptr_equal(w->verdict.policy, view.policy);
	assert_int_equal(w->verdict.locale, owner ? owner->locale : view.policy->locale);
}

static void whose_namespace(void **state)
{
	struct world *w = world_new(POLICY);

	(void)state;
	world_namespace(w, "b", "team=b");
	world_namespace(w, "both", "team=b,group=c");
	world_namespace(w, "infra", "team=b");
	is_of(w, "a-train", GQ_ASSIGN_TENANT, "team-a");
	assert_int_equal(w->verdict.locale, GQ_LOCALE_ZH);
	is_of(w, "b", GQ_ASSIGN_TENANT, "team-b");
	assert_int_equal(w->verdict.locale, GQ_LOCALE_EN);
	is_of(w, "a-serve", GQ_ASSIGN_NONE, "-");
	is_of(w, "both", GQ_ASSIGN_AMBIGUOUS, "-");
	is_of(w, "infra", GQ_ASSIGN_EXEMPT, "-");
	assert_int_equal(w->reads.n, 0);
	world_free(w);
}

static void not_ready(void **state)
{
	struct world *w = world_bare(NULL);
	struct gq_view view;

	(void)state;
	for (int step = 0; step < 2; step++) {
		assert_false(take(w, "a-train", &view));
		assert_int_equal(w->verdict.kind, GQ_VERDICT_UNAVAILABLE);
		assert_int_equal(w->verdict.reason, GQ_REASON_NOT_SYNCED);
		assert_non_null(strstr(message_of(w), "has not read the cluster's nodes"));
		assert_null(w->verdict.policy);
		gq_view_done(&view);
		if (step == 0)
			world_policy(w, POLICY); /* and still no caches */
	}
	world_fill(w);
	gq_ledger_set_synced(w->ledger);
	is_of(w, "a-train", GQ_ASSIGN_TENANT, "team-a");
	world_free(w);
}

/* code, labels: what the API server answers when it is asked for the namespace. */
static bool answered(struct world *w, const char *ns, int code, const char *json,
		     struct gq_view *ret_view)
{
	char path[128];

	gq_reads_done(&w->reads);
	assert_false(take(w, ns, ret_view));
	gq_view_done(ret_view);
	assert_int_equal(w->verdict.kind, GQ_VERDICT_READ);
	assert_int_equal(w->reads.n, 1);
	struct gq_read *read = &w->reads.items[0];
	assert_int_equal(read->kind, GQ_READ_NAMESPACE);
	(void)snprintf(path, sizeof path, "/api/v1/namespaces/%s", ns);
	assert_string_equal(read->path, path);
	read->done = true;
	read->code = code;
	read->body = json ? strdup(json) : NULL;
	read->len = json ? strlen(json) : 0;
	return take(w, ns, ret_view);
}

/* The watch has not shown it: it is read, and what is read holds from then on. */
static void unknown_namespaces(void **state)
{
	static const char of_b[] = "{\"metadata\":{\"name\":\"new\",\"labels\":{\"team\":\"b\"}}}";
	struct world *w = world_new(POLICY);
	struct gq_view view;

	(void)state;
	assert_true(answered(w, "new", 0, of_b, &view));
	assert_string_equal(gq_view_tenant(&view)->name, "team-b");
	assert_string_equal(w->verdict.tenant, "team-b");
	gq_view_done(&view);
	gq_reads_done(&w->reads);
	is_of(w, "new", GQ_ASSIGN_TENANT, "team-b"); /* without a read */

	/* by name no labels are needed */
	world_policy(w, POLICY "  - {name: team-d, namespaces: [named]}\n");
	is_of(w, "named", GQ_ASSIGN_TENANT, "team-d");
	assert_int_equal(w->reads.n, 0);

	assert_true(answered(w, "plain", 0, "{\"metadata\":{\"name\":\"plain\"}}", &view));
	assert_int_equal(view.assign.kind, GQ_ASSIGN_NONE);
	gq_view_done(&view);
	assert_true(answered(w, "gone", GQ_ENOTFOUND, NULL, &view));
	assert_int_equal(view.assign.kind, GQ_ASSIGN_NONE);
	assert_null(w->verdict.tenant);
	gq_view_done(&view);
	world_free(w);
}

static void reads_that_fail(void **state)
{
	static const struct {
		int code;
		const char *json;
	} cases[] = {
	    {GQ_EIO, NULL},           {GQ_EDENIED, NULL}, {GQ_ETHROTTLED, NULL},
	    {0, "{\"metadata\":{}}"}, {0, "no JSON"},
	};
	struct world *w = world_new(POLICY);
	struct gq_view view;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_false(answered(w, "new", cases[i].code, cases[i].json, &view));
		assert_int_equal(w->verdict.kind, GQ_VERDICT_UNAVAILABLE);
		assert_int_equal(w->verdict.reason, GQ_REASON_NOT_SYNCED);
		gq_view_done(&view);
	}
	world_free(w);
}

/* No namespace has such a name, so nothing is read and it is nobody's. */
static void impossible_names(void **state)
{
	static const char *const names[] = {"../kube-system", "A", "", "a/b", "a?b"};
	struct world *w = world_new(POLICY);

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		is_of(w, names[i], GQ_ASSIGN_NONE, "-");
	assert_int_equal(w->reads.n, 0);
	world_free(w);
}

/* It holds while the generation stays. */
static void generations(void **state)
{
	struct world *w = world_new(POLICY);
	struct gq_view first, second;

	(void)state;
	assert_true(take(w, "a-train", &first));
	assert_true(take(w, "a-train", &second));
	assert_int_equal(first.generation, second.generation);
	assert_ptr_equal(first.policy, second.policy);
	gq_view_done(&second);
	world_policy(w, "tenants: [{name: other, namespaces: [a-train]}]\n");
	assert_string_equal(gq_view_tenant(&first)->name, "team-a"); /* kept alive by the view */
	assert_true(take(w, "a-train", &second));
	assert_int_not_equal(first.generation, second.generation);
	assert_string_equal(gq_view_tenant(&second)->name, "other");
	gq_view_done(&first);
	gq_view_done(&second);
	assert_null(second.policy);
	gq_view_done(&second);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whose_namespace),    cmocka_unit_test(not_ready),
	    cmocka_unit_test(unknown_namespaces), cmocka_unit_test(reads_that_fail),
	    cmocka_unit_test(impossible_names),   cmocka_unit_test(generations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
