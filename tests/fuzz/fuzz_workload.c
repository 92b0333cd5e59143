/* The decoder of workloads: the first byte says which kind, the rest is the object. What passes is
 * judged, so that no number in it is too much for the arithmetic. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quota/field.h"
#include "quota/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

/* One tenant, whose limits any pod of its may pass, and no nodes. */
static struct gq_ledger *ledger_make(void)
{
	static const char yaml[] =
	    "apiVersion: config.gpuquota.io/v1alpha1\n"
	    "kind: QuotaPolicy\n"
	    "mode: warn\n"
	    "tenants:\n"
	    "  - {name: top, mode: audit, quota: {\"*\": {gpus: 1}}}\n"
	    "  - {name: t, mode: warn, parent: top, namespaces: [ns], unlisted: allow,\n"
	    "     quota: {A100: {gpus: 8, memory: 640Gi}, \"*\": {gpus: 1000000}}}\n"
	    "rules: {privileged: warn, hostDevices: warn, gpuWithoutRequest: audit}\n";
	struct gq_ledger *ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	struct gq_policy_problems problems = {0};
	struct gq_policy *policy = NULL;

	check(ledger && gq_policy_parse(yaml, sizeof yaml - 1, "h", &policy, &problems, NULL) == 0);
	check(gq_ledger_set_policy(ledger, policy, 1, NULL) == 0);
	gq_policy_unref(policy);
	gq_policy_problems_done(&problems);
	gq_ledger_set_synced(ledger);
	return ledger;
}

static void judge(struct gq_ledger *ledger, const struct gq_workload *now,
		  const struct gq_workload *before)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	struct gq_reads reads GQ_CLEANUP(gq_reads_done) = {0};
	const struct gq_workload_review review = {.now = now,
						  .before = before,
						  .user = "u",
						  .now_ns = 2,
						  .deadline_ns = 3,
						  .reads = &reads};

	check(gq_decide_workload(ledger, &review, &verdict, NULL) == 0);
	check(verdict.kind != GQ_VERDICT_DENY && verdict.ticket == 0);
	for (size_t i = 0; i < verdict.n_warnings; i++)
		check(verdict.warnings[i].len > 0);
	if (before)
		check(gq_decide_scale(ledger, &review, INT64_MAX, &verdict, NULL) == 0);
	check(verdict.kind != GQ_VERDICT_DENY);
}

static void decoded(enum gq_workload_kind kind, struct json_object *root)
{
	static struct gq_ledger *ledger; /* for all inputs: no decision leaves a trace */
	struct gq_workload workload GQ_CLEANUP(gq_workload_done) = {0};
	struct gq_workload again GQ_CLEANUP(gq_workload_done) = {0};
	struct gq_workload bare GQ_CLEANUP(gq_workload_done) = {0};
	struct json_object *empty GQ_CLEANUP(gq_cleanup_json) = json_object_new_object();
	struct gq_err err = {0};

	int code = gq_workload_decode_tree(kind, root, "ns", &workload, &err);
	if (code) {
		check(!workload.pod && err.code == code && err.msg[0]);
		return;
	}
	check(workload.kind == kind && workload.name && *workload.namespace_);
	check(workload.pods == GQ_PODS_BY_NODES ||
	      (workload.pods >= 0 && workload.pods <= GQ_FIELD_COUNT_MAX));
	int64_t pods = workload.pods < 0 ? GQ_FIELD_COUNT_MAX : workload.pods;
	int64_t surge = gq_workload_surge(&workload, pods);
	check(surge >= 0 && surge <= pods);
	check(gq_pod_is_template(workload.pod) && workload.posture);
	check(gq_workload_decode_tree(kind, root, "ns", &again, NULL) == 0);
	check(strcmp(again.template_, workload.template_) == 0);
	check(empty && gq_workload_decode_tree(kind, empty, "ns", &bare, NULL) == 0);
	if (!ledger)
		ledger = ledger_make();
	judge(ledger, &workload, NULL);
	judge(ledger, &workload, &bare);
	judge(ledger, &bare, &workload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *root GQ_CLEANUP(gq_cleanup_json) = NULL;

	if (size == 0 || gq_field_parse((const char *)data + 1, size - 1, &root, NULL))
		return 0;
	decoded((enum gq_workload_kind)(data[0] % GQ_WORKLOAD_KINDS), root);
	return 0;
}
