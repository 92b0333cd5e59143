#include "controller/event_notes.h"

#include <string.h>

#include "base/buf.h"
#include "controller/election.h"
#include "controller/journal_text.h"
#include "controller/policy_source.h"
#include "quota/message.h"

#define TEXT_MAX_BYTES (16u << 10) /* before it is cut for the Event */
#define PODS_NAMED 5

/* An owner reference has one, but the charge does not keep it. */
static const char *api_version_of(const char *kind)
{
	static const char *const known[][2] = {
	    {"CronJob", "batch/v1"},
	    {"DaemonSet", "apps/v1"},
	    {"Deployment", "apps/v1"},
	    {"Job", "batch/v1"},
	    {"Pod", "v1"},
	    {"ReplicaSet", "apps/v1"},
	    {"ReplicationController", "v1"},
	    {"StatefulSet", "apps/v1"},
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(kind, known[i][0]) == 0)
			return known[i][1];
	return "";
}

static struct gq_event_about config_map(const struct gq_event_notes *notes, const char *name)
{
	return (struct gq_event_about){.api_version = "v1",
				       .kind = "ConfigMap",
				       .namespace_ = notes->namespace_,
				       .name = name,
				       .uid = ""};
}

/* text: what there is of it, should memory have run out. */
static void note_text(const struct gq_event_notes *notes, struct gq_event_note note,
		      const struct gq_buf *text)
{
	note.text = text->data ? text->data : "";
	gq_events_note(notes->events, &note);
}

/* ---- denials ---- */

void gq_note_pod_denied(const struct gq_event_notes *notes, const struct gq_create *create,
			const struct gq_verdict *verdict)
{
	const struct gq_owner *owner = &create->pod->owner;

	if (verdict->kind != GQ_VERDICT_DENY || create->dry_run || !owner->kind[0] ||
	    !owner->name[0])
		return;
	const struct gq_event_note note = {.regarding = {.api_version = api_version_of(owner->kind),
							 .kind = owner->kind,
							 .namespace_ = create->pod->namespace_,
							 .name = owner->name,
							 .uid = owner->uid},
					   .warning = true,
					   .reason = verdict->reason == GQ_REASON_OVER_LIMIT
							 ? "GPUQuotaExceeded"
							 : "GPUPodRefused",
					   .action = "Deny"};
	note_text(notes, note, &verdict->message);
}

void gq_note_binding_denied(const struct gq_event_notes *notes, const struct gq_binding *binding,
			    const struct gq_verdict *verdict)
{
	if (verdict->kind != GQ_VERDICT_DENY || binding->dry_run)
		return;
	const struct gq_event_note note = {.regarding = {.api_version = "v1",
							 .kind = "Pod",
							 .namespace_ = binding->namespace_,
							 .name = binding->name,
							 .uid = binding->uid},
					   .warning = true,
					   .reason = "GPUBindingRefused",
					   .action = "Deny"};
	note_text(notes, note, &verdict->message);
}

/* ---- limits ---- */

static void put_amount(struct gq_buf *out, const struct gq_limit_note *limit, int64_t amount)
{
	if (limit->memory)
		gq_message_memory(out, GQ_LOCALE_EN, amount, limit->class_name);
	else
		gq_message_gpus(out, GQ_LOCALE_EN, amount, limit->class_name);
}

static void put_names(struct gq_buf *out, const char *head, const struct gq_limit_note *limit,
		      size_t from, size_t to, size_t more)
{
	if (from == to)
		return;
	gq_buf_puts(out, head);
	for (size_t i = from; i < to; i++)
		gq_buf_printf(out, "%s%s", i > from ? ", " : "", limit->pods[i]);
	if (more)
		gq_buf_printf(out, ", %zu more", more);
	gq_buf_putc(out, '.');
}

static void put_pods(struct gq_buf *out, const struct gq_limit_note *limit)
{
	size_t named = limit->n_pods < PODS_NAMED ? limit->n_pods : PODS_NAMED;
	size_t unasked = limit->n_unasked < named ? limit->n_unasked : named;

	put_names(out, " Pods that came in without gpuquota: ", limit, 0, unasked,
		  limit->n_unasked - unasked);
	put_names(out, unasked ? " Others that hold of it: " : " Pods that hold of it: ", limit,
		  unasked, named, limit->n_pods - named);
}

static void note_limit(const struct gq_event_notes *notes, const struct gq_limit_note *limit,
		       struct gq_event_note note, const struct gq_buf *text)
{
	struct gq_buf topic GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);

	gq_buf_printf(&topic, "%s/%s/%s", limit->tenant, limit->class_name,
		      limit->memory ? "memory" : "gpus");
	note.regarding = config_map(notes, GQ_POLICY_NAME);
	note.action = "Count";
	note.topic = topic.data;
	note_text(notes, note, text);
}

void gq_note_tenant_over(const struct gq_event_notes *notes, const struct gq_limit_note *limit)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text, "%s holds ", limit->tenant);
	put_amount(&text, limit, limit->held);
	gq_buf_puts(&text, " and may hold ");
	put_amount(&text, limit, limit->limit);
	gq_buf_puts(&text,
		    ". No pod is evicted; new ones are refused until enough have ended or the "
		    "quota is raised.");
	put_pods(&text, limit);
	note_limit(notes, limit,
		   (struct gq_event_note){.warning = true, .reason = "TenantOverQuota"}, &text);
}

void gq_note_tenant_within(const struct gq_event_notes *notes, const struct gq_limit_note *limit)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text, "%s is within its quota again: it holds ", limit->tenant);
	put_amount(&text, limit, limit->held);
	gq_buf_puts(&text, " and may hold ");
	put_amount(&text, limit, limit->limit);
	gq_buf_putc(&text, '.');
	note_limit(notes, limit, (struct gq_event_note){.reason = "TenantWithinQuota"}, &text);
}

/* ---- the policy ---- */

static void put_joined(struct gq_buf *out, const char *lines)
{
	for (const char *end; *lines; lines = end + strspn(end, "\n")) {
		end = lines + strcspn(lines, "\n");
		gq_buf_append(out, lines, (size_t)(end - lines));
		if (end[strspn(end, "\n")])
			gq_buf_puts(out, "; ");
	}
}

void gq_note_policy_refused(const struct gq_event_notes *notes, const char *problems,
			    const char *in_force)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	if (in_force)
		gq_buf_printf(&text, "Not put in force; policy %s stays: ", in_force);
	else
		gq_buf_puts(&text, "No policy is in force, so GPU pods have to wait: ");
	put_joined(&text, problems);
	note_text(notes,
		  (struct gq_event_note){.regarding = config_map(notes, GQ_POLICY_NAME),
					 .warning = true,
					 .reason = "PolicyRefused",
					 .action = "Refuse"},
		  &text);
}

void gq_note_policy_accepted(const struct gq_event_notes *notes, const char *hash)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text, "Policy %s is in force.", hash);
	note_text(notes,
		  (struct gq_event_note){.regarding = config_map(notes, GQ_POLICY_NAME),
					 .reason = "PolicyAccepted",
					 .action = "Accept"},
		  &text);
}

/* ---- leadership ---- */

static struct gq_event_about lease(const struct gq_event_notes *notes)
{
	return (struct gq_event_about){.api_version = "coordination.k8s.io/v1",
				       .kind = "Lease",
				       .namespace_ = notes->namespace_,
				       .name = GQ_LEASE_NAME,
				       .uid = ""};
}

void gq_note_leader_elected(const struct gq_event_notes *notes)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text, "%s leads.", notes->identity);
	note_text(notes,
		  (struct gq_event_note){
		      .regarding = lease(notes), .reason = "LeaderElected", .action = "Elect"},
		  &text);
}

void gq_note_leader_lost(const struct gq_event_notes *notes, const char *why, bool planned)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text, "%s leads no more: %s.", notes->identity, why);
	note_text(notes,
		  (struct gq_event_note){.regarding = lease(notes),
					 .warning = !planned,
					 .reason = "LeaderLost",
					 .action = "StepDown"},
		  &text);
}

/* ---- the ledger ---- */

void gq_note_ledger_drift(const struct gq_event_notes *notes, unsigned n_limits,
			  const char *details)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text, "A recount found %u %s with a wrong total and repaired %s", n_limits,
		      n_limits == 1 ? "limit" : "limits", n_limits == 1 ? "it" : "them");
	gq_buf_puts(&text, details[0] ? ": " : ".");
	put_joined(&text, details);
	note_text(notes,
		  (struct gq_event_note){.regarding = config_map(notes, GQ_POLICY_NAME),
					 .warning = true,
					 .reason = "LedgerDrift",
					 .action = "Repair"},
		  &text);
}

void gq_note_namespace_ambiguous(const struct gq_event_notes *notes, const char *namespace_,
				 const char *first, const char *second)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text,
		      "The selectors of the tenants %s and %s both match this namespace, so GPU "
		      "pods are refused here. Name it in the namespaces of one of them, or change "
		      "its labels.",
		      first, second);
	note_text(notes,
		  (struct gq_event_note){.regarding = {.api_version = "v1",
						       .kind = "Namespace",
						       .namespace_ = namespace_,
						       .name = namespace_,
						       .uid = ""},
					 .warning = true,
					 .reason = "AmbiguousNamespace",
					 .action = "Deny"},
		  &text);
}

void gq_note_journal_lost(const struct gq_event_notes *notes, const char *how, int64_t pause_s)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(TEXT_MAX_BYTES);

	gq_buf_printf(&text,
		      "The journal %s. It is written anew from memory, and GPU pods have to wait "
		      "for %lld s, until no grant that is missing in it can matter.",
		      how, (long long)pause_s);
	note_text(notes,
		  (struct gq_event_note){.regarding = config_map(notes, GQ_JOURNAL_NAME),
					 .warning = true,
					 .reason = "JournalLost",
					 .action = "Rewrite"},
		  &text);
}
