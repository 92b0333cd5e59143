#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/event_notes.h"
#include "tests/unit/api_played.h"

static struct gq_event_notes notes = {.namespace_ = "gpuquota-system", .identity = "gpuquota-7f9c"};

static int setup(void **state)
{
	(void)state;
	calls_reset();
	app_clock_init(&app_time);
	notes.events = gq_events_new(
	    &(struct gq_events_options){.clock = &app_time.clock, .instance = notes.identity});
	return notes.events ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_calls; i++)
		if (calls[i].on_done)
			finish(i, 0);
	gq_events_free(notes.events);
	calls_reset();
	return 0;
}

/* Nothing has been told yet. */
static void fresh(void)
{
	(void)teardown(NULL);
	assert_int_equal(setup(NULL), 0);
}

/* What one Event says. NULL: the member is absent. */
struct expect {
	const char *namespace_;
	const char *api_version, *kind, *name, *uid;
	const char *type, *reason, *action, *note;
};

static void assert_member(struct json_object *body, const char *path, const char *text)
{
	if (text)
		assert_string_equal(json_text(body, path), text);
	else
		assert_null(json_at(body, path));
}

/* The one Event that was sent since the last call. */
static void assert_told(const struct expect *expect)
{
	char path[200];

	assert_int_equal(n_calls, 1);
	assert_string_equal(calls[0].method, "POST");
	(void)snprintf(path, sizeof path, "/apis/events.k8s.io/v1/namespaces/%s/events",
		       expect->namespace_);
	assert_string_equal(calls[0].path, path);
	struct json_object *body = body_of(0);
	assert_string_equal(json_text(body, "reportingInstance"), "gpuquota-7f9c");
	assert_member(body, "metadata.namespace", expect->namespace_);
	assert_member(body, "regarding.namespace", expect->namespace_);
	assert_member(body, "regarding.apiVersion", expect->api_version);
	assert_member(body, "regarding.kind", expect->kind);
	assert_member(body, "regarding.name", expect->name);
	assert_member(body, "regarding.uid", expect->uid);
	assert_member(body, "type", expect->type);
	assert_member(body, "reason", expect->reason);
	assert_member(body, "action", expect->action);
	assert_member(body, "note", expect->note);
	json_object_put(body);
	finish(0, 0);
	calls_reset();
}

/* ---- denials ---- */

static struct gq_verdict verdict_of(enum gq_verdict_kind kind, enum gq_reason reason)
{
	struct gq_verdict verdict = GQ_VERDICT_INIT;

	verdict.kind = kind;
	verdict.reason = reason;
	gq_buf_puts(&verdict.message,
		    "team-a may hold 8 A100 GPUs and holds 7.\nIt would fit with 1 "
		    "GPU.");
	return verdict;
}

#define TOLD "team-a may hold 8 A100 GPUs and holds 7. It would fit with 1 GPU."

static void deny_pod(const char *kind, enum gq_reason reason)
{
	struct gq_verdict verdict = verdict_of(GQ_VERDICT_DENY, reason);
	const struct gq_pod pod = {
	    .namespace_ = "a-train", .name = "p", .owner = {kind, "w", "o-1"}};

	gq_note_pod_denied(&notes, &(struct gq_create){.pod = &pod}, &verdict);
	gq_verdict_done(&verdict);
}

static void owners(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
	    {"ReplicaSet", "apps/v1"},
	    {"Deployment", "apps/v1"},
	    {"StatefulSet", "apps/v1"},
	    {"DaemonSet", "apps/v1"},
	    {"Job", "batch/v1"},
	    {"CronJob", "batch/v1"},
	    {"ReplicationController", "v1"},
	    {"Pod", "v1"},
	    {"RayCluster", NULL},
	    {"Jobs", NULL},
	};

	for (size_t i = 0; i < LEN(cases); i++) {
		deny_pod(cases[i][0], GQ_REASON_OVER_LIMIT);
		assert_told(&(struct expect){.namespace_ = "a-train",
					     .api_version = cases[i][1],
					     .kind = cases[i][0],
					     .name = "w",
					     .uid = "o-1",
					     .type = "Warning",
					     .reason = "GPUQuotaExceeded",
					     .action = "Deny",
					     .note = TOLD});
	}
}

static void pod_reasons(void **state)
{
	(void)state;
	for (int reason = 0; reason < GQ_REASON_COUNT; reason++) {
		fresh();
		deny_pod("Job", (enum gq_reason)reason);
		assert_has(calls[0].body, reason == GQ_REASON_OVER_LIMIT ? "\"GPUQuotaExceeded\""
									 : "\"GPUPodRefused\"");
	}
}

static void pod_untold(void **state)
{
	(void)state;
	const struct gq_pod owned = {.namespace_ = "a-train", .owner = {"Job", "w", "o-1"}};
	const struct gq_pod alone = {.namespace_ = "a-train", .owner = {"", "", ""}};
	const struct gq_pod nameless = {.namespace_ = "a-train", .owner = {"Job", "", ""}};

	for (int kind = GQ_VERDICT_ALLOW; kind <= GQ_VERDICT_UNAVAILABLE; kind++) {
		struct gq_verdict verdict =
		    verdict_of((enum gq_verdict_kind)kind, GQ_REASON_OVER_LIMIT);
		bool deny = kind == GQ_VERDICT_DENY;
		gq_note_pod_denied(&notes, &(struct gq_create){.pod = &alone}, &verdict);
		gq_note_pod_denied(&notes, &(struct gq_create){.pod = &nameless}, &verdict);
		gq_note_pod_denied(&notes, &(struct gq_create){.pod = &owned, .dry_run = true},
				   &verdict);
		assert_int_equal(n_calls, 0);
		gq_note_pod_denied(&notes, &(struct gq_create){.pod = &owned}, &verdict);
		assert_int_equal(n_calls, deny);
		gq_verdict_done(&verdict);
		if (deny)
			finish(0, 0);
		calls_reset();
	}
}

static void bindings(void **state)
{
	(void)state;
	struct gq_binding binding = {
	    .namespace_ = "a-train", .name = "p", .uid = "u-1", .node = "n", .dry_run = true};
	struct gq_verdict verdict = verdict_of(GQ_VERDICT_DENY, GQ_REASON_OVER_LIMIT);

	gq_note_binding_denied(&notes, &binding, &verdict);
	binding.dry_run = false;
	verdict.kind = GQ_VERDICT_ALLOW;
	gq_note_binding_denied(&notes, &binding, &verdict);
	assert_int_equal(n_calls, 0);
	verdict.kind = GQ_VERDICT_DENY;
	gq_note_binding_denied(&notes, &binding, &verdict);
	struct expect expect = {.namespace_ = "a-train",
				.api_version = "v1",
				.kind = "Pod",
				.name = "p",
				.uid = "u-1",
				.type = "Warning",
				.reason = "GPUBindingRefused",
				.action = "Deny",
				.note = TOLD};
	assert_told(&expect);
	fresh();
	binding.uid = "";
	expect.uid = NULL;
	gq_note_binding_denied(&notes, &binding, &verdict);
	assert_told(&expect);
	gq_verdict_done(&verdict);
}

/* ---- what is told beside an object of our own ---- */

#define OURS(kind_, api_version_, name_)                                                           \
	.namespace_ = "gpuquota-system", .api_version = (api_version_), .kind = (kind_),           \
	.name = (name_)
#define POLICY OURS("ConfigMap", "v1", "gpuquota-policy")

static void limits(void **state)
{
	(void)state;
	static const char *const pods[] = {"a-train/p1", "a-train/p2", "a-train/p3", "a-serve/p4",
					   "a-serve/p5", "a-serve/p6", "a-serve/p7"};
	struct gq_limit_note limit = {.tenant = "team-a",
				      .class_name = "A100",
				      .held = 9 * GQ_SHARES_PER_GPU,
				      .limit = 8 * GQ_SHARES_PER_GPU};
	struct expect expect = {POLICY, .type = "Warning", .reason = "TenantOverQuota",
				.action = "Count"};

	gq_note_tenant_over(&notes, &limit);
	expect.note =
	    "team-a holds 9 A100 GPUs and may hold 8 A100 GPUs. No pod is evicted; new ones "
	    "are refused until enough have ended or the quota is raised.";
	assert_told(&expect);

	limit.class_name = "H100"; /* a series of its own */
	limit.pods = pods;
	limit.n_pods = limit.n_unasked = 1;
	gq_note_tenant_over(&notes, &limit);
	expect.note =
	    "team-a holds 9 H100 GPUs and may hold 8 H100 GPUs. No pod is evicted; new ones "
	    "are refused until enough have ended or the quota is raised. Pods that came in "
	    "without gpuquota: a-train/p1.";
	assert_told(&expect);

	limit.tenant = "team-b";
	limit.n_pods = limit.n_unasked = LEN(pods);
	limit.held = 81920;
	limit.limit = 40960;
	limit.memory = true;
	gq_note_tenant_over(&notes, &limit);
	expect.note =
	    "team-b holds 80Gi of H100 memory and may hold 40Gi of H100 memory. No pod is "
	    "evicted; new ones are refused until enough have ended or the quota is raised. "
	    "Pods that came in without gpuquota: a-train/p1, a-train/p2, a-train/p3, "
	    "a-serve/p4, a-serve/p5, 2 more.";
	assert_told(&expect);

	/* who was asked about, or there before us, is named after the others */
	limit.tenant = "team-c";
	limit.n_unasked = 2;
	gq_note_tenant_over(&notes, &limit);
	expect.note =
	    "team-c holds 80Gi of H100 memory and may hold 40Gi of H100 memory. No pod is "
	    "evicted; new ones are refused until enough have ended or the quota is raised. "
	    "Pods that came in without gpuquota: a-train/p1, a-train/p2. Others that hold of it: "
	    "a-train/p3, a-serve/p4, a-serve/p5, 2 more.";
	assert_told(&expect);
	limit.tenant = "team-d";
	limit.n_unasked = 0;
	limit.n_pods = 2;
	gq_note_tenant_over(&notes, &limit);
	expect.note =
	    "team-d holds 80Gi of H100 memory and may hold 40Gi of H100 memory. No pod is "
	    "evicted; new ones are refused until enough have ended or the quota is raised. "
	    "Pods that hold of it: a-train/p1, a-train/p2.";
	assert_told(&expect);
	limit.tenant = "team-b";

	/* the other currency is another series, and so is being back under it */
	limit.memory = false;
	limit.class_name = "*";
	limit.held = limit.limit = GQ_SHARES_PER_GPU;
	gq_note_tenant_within(&notes, &limit);
	expect.type = "Normal";
	expect.reason = "TenantWithinQuota";
	expect.note =
	    "team-b is within its quota again: it holds 1 GPU of any model and may hold 1 GPU "
	    "of any model.";
	assert_told(&expect);
	limit.memory = true;
	gq_note_tenant_within(&notes, &limit);
	assert_int_equal(n_calls, 1);
}

static void policies(void **state)
{
	(void)state;
	struct expect expect = {POLICY, .type = "Warning", .reason = "PolicyRefused",
				.action = "Refuse"};

	gq_note_policy_refused(
	    &notes, "policy.yaml:12:5: unknown key\npolicy.yaml:14:1: no quota\n", "0123abcd");
	expect.note = "Not put in force; policy 0123abcd stays: policy.yaml:12:5: unknown key; "
		      "policy.yaml:14:1: no quota";
	assert_told(&expect);

	fresh();
	gq_note_policy_refused(&notes, "the ConfigMap has no policy.yaml", NULL);
	expect.note = "No policy is in force, so GPU pods have to wait: the ConfigMap has no "
		      "policy.yaml";
	assert_told(&expect);

	gq_note_policy_accepted(&notes, "0123abcd");
	assert_told(&(struct expect){POLICY, .type = "Normal", .reason = "PolicyAccepted",
				     .action = "Accept", .note = "Policy 0123abcd is in force."});
}

static void leadership(void **state)
{
	(void)state;
	gq_note_leader_elected(&notes);
	assert_told(&(struct expect){OURS("Lease", "coordination.k8s.io/v1", "gpuquota"),
				     .type = "Normal", .reason = "LeaderElected", .action = "Elect",
				     .note = "gpuquota-7f9c leads."});
	gq_note_leader_lost(&notes, "its Lease was not renewed in time", false);
	assert_told(&(struct expect){
	    OURS("Lease", "coordination.k8s.io/v1", "gpuquota"), .type = "Warning",
	    .reason = "LeaderLost", .action = "StepDown",
	    .note = "gpuquota-7f9c leads no more: its Lease was not renewed in time."});
}

static void drift(void **state)
{
	(void)state;
	struct expect expect = {POLICY, .type = "Warning", .reason = "LedgerDrift",
				.action = "Repair"};

	gq_note_ledger_drift(&notes, 1, "");
	expect.note = "A recount found 1 limit with a wrong total and repaired it.";
	assert_told(&expect);
	fresh();
	gq_note_ledger_drift(&notes, 2, "team-a A100: a-train/p\nteam-b H100: b/q");
	expect.note = "A recount found 2 limits with a wrong total and repaired them: team-a A100: "
		      "a-train/p; team-b H100: b/q";
	assert_told(&expect);
}

static void ambiguous(void **state)
{
	(void)state;
	gq_note_namespace_ambiguous(&notes, "a-train", "team-a", "team-b");
	assert_told(&(struct expect){
	    .namespace_ = "a-train",
	    .api_version = "v1",
	    .kind = "Namespace",
	    .name = "a-train",
	    .type = "Warning",
	    .reason = "AmbiguousNamespace",
	    .action = "Deny",
	    .note =
		"The selectors of the tenants team-a and team-b both match this namespace, so GPU "
		"pods are refused here. Name it in the namespaces of one of them, or change its "
		"labels."});
}

static void journal(void **state)
{
	(void)state;
	gq_note_journal_lost(&notes, "was deleted", 60);
	assert_told(
	    &(struct expect){OURS("ConfigMap", "v1", "gpuquota-journal"), .type = "Warning",
			     .reason = "JournalLost", .action = "Rewrite",
			     .note = "The journal was deleted. It is written anew from memory, and "
				     "GPU pods have to wait "
				     "for 60 s, until no grant that is missing in it can matter."});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(owners, setup, teardown),
	    cmocka_unit_test_setup_teardown(pod_reasons, setup, teardown),
	    cmocka_unit_test_setup_teardown(pod_untold, setup, teardown),
	    cmocka_unit_test_setup_teardown(bindings, setup, teardown),
	    cmocka_unit_test_setup_teardown(limits, setup, teardown),
	    cmocka_unit_test_setup_teardown(policies, setup, teardown),
	    cmocka_unit_test_setup_teardown(leadership, setup, teardown),
	    cmocka_unit_test_setup_teardown(drift, setup, teardown),
	    cmocka_unit_test_setup_teardown(ambiguous, setup, teardown),
	    cmocka_unit_test_setup_teardown(journal, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
