#include "quota/match_condition.h"

#include <string.h>

#include "base/err.h"
#include "quota/gpu_names.h"
#include "quota/rules.h"

/* Ephemeral containers are added to pods with GPUs, too, and quota is not asked about them. */
#define EPHEMERAL "(has(request.subResource) && request.subResource == 'ephemeralcontainers')"

static void print_quota(struct gq_buf *out)
{
	gq_gpu_names_print_match_condition(out, "object");
}

/* pod: gives a Pod or a PodTemplateSpec */
static void print_ruled(struct gq_buf *out, const char *pod)
{
	gq_rules_print_container_condition(out, pod);
	gq_buf_puts(out, " || ");
	gq_rules_print_pod_condition(out, pod);
}

static void print_rules(struct gq_buf *out)
{
	gq_buf_puts(out, "(" EPHEMERAL " || !(");
	gq_gpu_names_print_match_condition(out, "object");
	gq_buf_puts(out, ")) && (");
	gq_rules_print_container_condition(out, "object");
	gq_buf_puts(out, " || (!" EPHEMERAL " && (");
	gq_rules_print_pod_condition(out, "object");
	gq_buf_puts(out, ")))");
}

static void print_others(struct gq_buf *out)
{
	gq_buf_puts(out, "!(");
	gq_gpu_names_print_match_condition(out, "object");
	gq_buf_puts(out, ") && !(");
	print_ruled(out, "object");
	gq_buf_puts(out, ")");
}

static void print_references(struct gq_buf *out)
{
	gq_rules_print_reference_condition(out, "object");
	gq_buf_puts(out, " && (" EPHEMERAL " ? !(");
	gq_rules_print_container_condition(out, "object");
	gq_buf_puts(out, ") : ");
	print_others(out);
	gq_buf_puts(out, ")");
}

static void print_user_namespaces(struct gq_buf *out)
{
	print_others(out);
	gq_buf_puts(out, " && (!has(object.spec.hostUsers) || object.spec.hostUsers)");
}

/* Appends the beginning of what holds for a template t of a workload that is not being deleted; it
 * is in one of three places. What did not change is not asked about. */
static void print_template(struct gq_buf *out)
{
	gq_buf_puts(out, "!has(object.metadata.deletionTimestamp) && "
			 "(request.operation == 'CREATE' || "
			 "(has(object.spec) ? object.spec != oldObject.spec : "
			 "object.template != oldObject.template)) && "
			 "(has(object.spec) ? (has(object.spec.jobTemplate) ? "
			 "[object.spec.jobTemplate.spec.template] : "
			 "has(object.spec.template) ? [object.spec.template] : []) : "
			 "has(object.template) ? [object.template] : [])"
			 ".exists(t, has(t.spec) && ");
}

static void print_any(struct gq_buf *out, const char *pod)
{
	gq_gpu_names_print_match_condition(out, pod);
	gq_buf_puts(out, " || ");
	print_ruled(out, pod);
	gq_buf_puts(out, " || ");
	gq_rules_print_reference_condition(out, pod);
}

static void print_workloads(struct gq_buf *out)
{
	gq_buf_puts(out, "has(request.subResource) && request.subResource == 'scale' ? "
			 "(has(object.spec.replicas) ? object.spec.replicas : 0) > "
			 "(has(oldObject.spec.replicas) ? oldObject.spec.replicas : 0) : ");
	print_template(out);
	gq_buf_puts(out, "(");
	print_any(out, "t");
	gq_buf_puts(out, "))");
}

static void print_workload_user_namespaces(struct gq_buf *out)
{
	print_template(out);
	gq_buf_puts(out, "(!has(t.spec.hostUsers) || t.spec.hostUsers) && !(");
	print_any(out, "t");
	gq_buf_puts(out, "))");
}

static const struct {
	const char *entry;
	void (*print)(struct gq_buf *out);
} conditions[] = {
    {"quota", print_quota},           {"rules", print_rules},
    {"references", print_references}, {"user-namespaces", print_user_namespaces},
    {"workloads", print_workloads},   {"workload-user-namespaces", print_workload_user_namespaces},
};

int gq_match_condition_print(struct gq_buf *out, const char *entry)
{
	for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
		if (strcmp(conditions[i].entry, entry) != 0)
			continue;
		conditions[i].print(out);
		return out->code;
	}
	return GQ_EINVALID;
}
