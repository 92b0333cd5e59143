#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quota/explain_internal.h"
#include "quota/quantity.h"
#include "quota/rules_internal.h"

void gq_explain_amount(struct gq_buf *out, enum gq_locale locale, const struct gq_finding *finding,
		       int64_t amount)
{
	if (finding->kind == GQ_FINDING_MEMORY)
		gq_message_mib(out, locale, amount);
	else
		gq_message_shares(out, locale, amount);
}

/* Goes in front of every item of a list but the first. */
static void print_separator(struct gq_buf *out, enum gq_locale locale)
{
	if (out->len)
		gq_buf_puts(out, gq_message_template(locale, GQ_MSG_LIST_SEPARATOR));
}

void gq_explain_limit(struct gq_buf *out, const struct gq_explain *about,
		      const struct gq_finding *finding)
{
	const char *name = gq_class_name(about->policy->classes, finding->class_id);

	if (finding->kind == GQ_FINDING_MEMORY)
		gq_message_memory(out, about->locale, finding->most, name);
	else
		gq_message_gpus(out, about->locale, finding->most, name);
}

static void print_states(struct gq_buf *out, enum gq_locale locale,
			 const struct gq_finding *finding)
{
	struct gq_buf by[GQ_STATES];

	for (int s = 0; s < GQ_STATES; s++) {
		by[s] = GQ_BUF_INIT(64);
		gq_explain_amount(&by[s], locale, finding,
				  gq_finding_amount(finding, finding->used.by[s]));
	}
	bool terminating = gq_finding_amount(finding, finding->used.by[GQ_STATE_TERMINATING]) > 0;
	PRINT(out, locale, terminating ? GQ_MSG_STATES_TERMINATING : GQ_MSG_STATES,
	      {"bound", text(&by[GQ_STATE_BOUND])}, {"pending", text(&by[GQ_STATE_PENDING])},
	      {"reserved", text(&by[GQ_STATE_RESERVED])},
	      {"terminating", text(&by[GQ_STATE_TERMINATING])});
	for (int s = 0; s < GQ_STATES; s++)
		gq_buf_done(&by[s]);
}

/* "team-a may hold 8 A100 GPUs and holds 7 (…); this pod asks for 2: 1 too many." */
static void print_over(struct gq_buf *out, const struct gq_explain *about,
		       const struct gq_finding *finding, int tenant)
{
	PHRASE(limit);
	PHRASE(used);
	PHRASE(states);
	PHRASE(asks);
	PHRASE(excess);
	int64_t holds = gq_finding_amount(finding, gq_count_total(&finding->used));
	bool parent = finding->tenant != tenant;
	bool memory = finding->kind == GQ_FINDING_MEMORY;

	gq_explain_limit(&limit, about, finding);
	gq_explain_amount(&used, about->locale, finding, holds);
	print_states(&states, about->locale, finding);
	gq_explain_amount(&asks, about->locale, finding, finding->adds);
	gq_explain_amount(&excess, about->locale, finding,
			  gq_sat_sub(gq_sat_add(holds, finding->adds), finding->most));
	enum gq_message_id id = memory ? (parent ? GQ_MSG_OVER_MEMORY_PARENT : GQ_MSG_OVER_MEMORY)
				       : (parent ? GQ_MSG_OVER_LIMIT_PARENT : GQ_MSG_OVER_LIMIT);
	PRINT(out, about->locale, id, {"tenant", about->policy->tenants[finding->tenant].name},
	      {"child", about->policy->tenants[tenant].name}, {"limit", text(&limit)},
	      {"used", text(&used)}, {"states", text(&states)}, {"asks", text(&asks)},
	      {"excess", text(&excess)});
}

static void print_class(struct gq_buf *list, const struct gq_explain *about, int class_id)
{
	print_separator(list, about->locale);
	gq_buf_puts(list, gq_class_name(about->policy->classes, class_id));
}

static void print_unlisted(struct gq_buf *out, const struct gq_explain *about,
			   const struct gq_finding *finding)
{
	const struct gq_tenant *tenant = &about->policy->tenants[finding->tenant];
	const char *class_name = gq_class_name(about->policy->classes, finding->class_id);
	PHRASE(listed);

	for (size_t i = 0; i < tenant->n_limits; i++)
		print_class(&listed, about, tenant->limits[i].class_id);
	if (tenant->n_limits)
		PRINT(out, about->locale, GQ_MSG_UNLISTED, {"tenant", tenant->name},
		      {"class", class_name}, {"listed", text(&listed)});
	else
		PRINT(out, about->locale, GQ_MSG_UNLISTED_NONE, {"tenant", tenant->name},
		      {"class", class_name});
}

static void print_holder(struct gq_buf *list, const struct gq_explain *about,
			 const struct gq_finding *finding, const struct gq_holder *holder)
{
	PHRASE(holds);

	gq_explain_amount(&holds, about->locale, finding, holder->holds);
	print_separator(list, about->locale);
	PRINT(list, about->locale, GQ_MSG_HOLDER, {"holder", holder->name},
	      {"holds", text(&holds)});
}

static void print_holders(struct gq_buf *out, const struct gq_explain *about,
			  const struct gq_facts *facts)
{
	const struct gq_finding *finding = &facts->finding;
	int64_t more = gq_finding_amount(finding, gq_count_total(&finding->used));
	PHRASE(list);
	PHRASE(rest);

	/* not all were looked at, and of these none: nothing can be said */
	bool unknown = facts->n_holders == 0 && facts->holders_cut;

	if (about->policy->holders == GQ_HOLDERS_NONE || more == 0 || unknown)
		return;
	for (size_t i = 0; i < facts->n_holders; i++) {
		print_holder(&list, about, finding, &facts->holders[i]);
		more = gq_sat_sub(more, facts->holders[i].holds);
	}
	gq_explain_amount(&rest, about->locale, finding, more);
	enum gq_message_id id = facts->n_holders == 0 ? GQ_MSG_HOLDERS_ELSEWHERE
				: more == 0           ? GQ_MSG_HOLDERS
				: facts->holders_cut  ? GQ_MSG_HOLDERS_CUT
						      : GQ_MSG_HOLDERS_MORE;
	gq_buf_puts(out, "\n");
	PRINT(out, about->locale, id, {"namespace", about->namespace_}, {"list", text(&list)},
	      {"more", text(&rest)});
}

static void print_classes(struct gq_buf *out, const struct gq_explain *about,
			  const struct gq_candidates *candidates)
{
	int last = GQ_CLASS_NONE;

	for (size_t i = 0; i < candidates->n; i++) {
		int id = candidates->items[i].class_id;
		if (id != last)
			print_class(out, about, id);
		last = id;
	}
	if (candidates->n == 0)
		gq_buf_puts(out, "*");
}

void gq_explain_fit(struct gq_buf *out, const struct gq_explain *about,
		    const struct gq_facts *facts)
{
	const char *label = "", *value = "", *class_name = "";
	PHRASE(gpus);
	PHRASE(free_gpus);
	PHRASE(classes);

	gq_message_gpus(&gpus, about->locale, facts->fewer_gpus * GQ_SHARES_PER_GPU, NULL);
	gq_buf_puts(out, "\n");
	if (facts->other_class != GQ_CLASS_NONE &&
	    gq_node_snapshot_selector_for(about->snapshot, facts->other_class, &label, &value)) {
		class_name = gq_class_name(about->policy->classes, facts->other_named);
		gq_message_shares(&free_gpus, about->locale, facts->other_free);
	}
	if (facts->narrows && class_name[0]) {
		struct gq_candidates candidates;
		gq_node_snapshot_match(about->snapshot, about->pod, &candidates);
		print_classes(&classes, about, &candidates);
	}
	enum gq_message_id id = class_name[0] && facts->narrows          ? GQ_MSG_FIT_NARROW
				: class_name[0] && facts->fewer_gpus > 0 ? GQ_MSG_FIT_FEWER_OR_CLASS
				: class_name[0]                          ? GQ_MSG_FIT_CLASS
				: facts->fewer_gpus > 0                  ? GQ_MSG_FIT_FEWER
				: facts->alone                           ? GQ_MSG_FIT_NEVER
									 : GQ_MSG_FIT_NONE;
	PRINT(out, about->locale, id, {"gpus", text(&gpus)}, {"class", class_name},
	      {"free", text(&free_gpus)}, {"label", label}, {"value", value},
	      {"classes", text(&classes)});
}

static void print_owner(struct gq_buf *out, enum gq_locale locale, const struct gq_pod *pod)
{
	if (pod->owner.uid[0])
		gq_buf_printf(out, "%s %s", pod->owner.kind, pod->owner.name);
	else
		PRINT(out, locale, GQ_MSG_OWNER_POD, {"name", pod->name});
}

void gq_explain_finding(struct gq_buf *out, const struct gq_explain *about,
			const struct gq_facts *facts)
{
	PHRASE(owner);

	if (facts->finding.kind == GQ_FINDING_UNLISTED) {
		print_unlisted(out, about, &facts->finding);
		if (facts->narrows)
			gq_explain_fit(out, about, facts);
		return;
	}
	print_over(out, about, &facts->finding, facts->tenant);
	print_holders(out, about, facts);
	gq_explain_fit(out, about, facts);
	if (facts->surges) {
		print_owner(&owner, about->locale, about->pod);
		gq_buf_puts(out, "\n");
		PRINT(out, about->locale, GQ_MSG_SURGE, {"owner", text(&owner)});
	}
}

void gq_explain_short(struct gq_buf *out, const struct gq_explain *about,
		      const struct gq_finding *finding, int tenant)
{
	if (finding->kind == GQ_FINDING_UNLISTED)
		print_unlisted(out, about, finding);
	else
		print_over(out, about, finding, tenant);
}

void gq_explain_earlier_binding(struct gq_buf *out, enum gq_locale locale, const char *node)
{
	PRINT(out, locale, GQ_MSG_EARLIER_BINDING, {"node", node});
}

void gq_explain_too_big(struct gq_buf *out, enum gq_locale locale)
{
	gq_message_print(out, locale, GQ_MSG_TOO_BIG, NULL, 0);
}

void gq_explain_problem(struct gq_buf *out, enum gq_locale locale, const struct gq_pod *pod)
{
	const struct gq_pod_problem *p = &pod->problem;
	enum gq_message_id id = p->kind == GQ_PROBLEM_BAD_QUANTITY ? GQ_MSG_BAD_QUANTITY
				: p->kind == GQ_PROBLEM_UNSUPPORTED_ANNOTATION
				    ? GQ_MSG_UNSUPPORTED_ANNOTATION
				    : GQ_MSG_UNSUPPORTED_RESOURCE;

	PRINT(out, locale, id, {"container", p->container}, {"name", p->name}, {"value", p->value},
	      {"detail", gq_phrase_text(locale, &p->detail)});
}

void gq_explain_pod_limit(struct gq_buf *out, enum gq_locale locale, const struct gq_policy *policy,
			  const char *tenant, const struct gq_pod_limit_finding *finding)
{
	const char *class_name = finding->class_id == GQ_CLASS_NONE
				     ? NULL
				     : gq_class_name(policy->classes, finding->class_id);
	PHRASE(limit);
	PHRASE(asks);

	gq_message_gpus(&limit, locale, finding->limit_shares, class_name);
	gq_message_shares(&asks, locale, finding->asks_shares);
	enum gq_message_id id = finding->may
				    ? (tenant ? GQ_MSG_POD_LIMIT_MAY : GQ_MSG_POD_LIMIT_RULE_MAY)
				    : (tenant ? GQ_MSG_POD_LIMIT : GQ_MSG_POD_LIMIT_RULE);
	PRINT(out, locale, id, {"tenant", tenant ? tenant : ""}, {"limit", text(&limit)},
	      {"asks", text(&asks)});
}

void gq_explain_unassigned(struct gq_buf *out, enum gq_locale locale, const char *ns)
{
	PRINT(out, locale, GQ_MSG_UNASSIGNED, {"namespace", ns});
}

void gq_explain_ambiguous_namespace(struct gq_buf *out, enum gq_locale locale, const char *ns,
				    const char *first, const char *second)
{
	PRINT(out, locale, GQ_MSG_NAMESPACE_AMBIGUOUS, {"namespace", ns}, {"first", first},
	      {"second", second});
}

void gq_explain_ambiguous_class(struct gq_buf *out, const struct gq_explain *about, int tenant,
				const struct gq_parts *parts)
{
	const char *label = "nvidia.com/gpu.product", *value = "…";
	size_t shown = 0;
	PHRASE(classes);

	for (size_t i = 0; i < parts->n && shown < 8; i++) {
		if (parts->items[i].maybe)
			continue;
		print_class(&classes, about, parts->items[i].class_id);
		shown++;
		(void)gq_node_snapshot_selector_for(about->snapshot, parts->items[i].class_id,
						    &label, &value);
	}
	if (shown == 0)
		gq_buf_puts(&classes, "*");
	PRINT(out, about->locale, GQ_MSG_CLASS_AMBIGUOUS,
	      {"tenant", about->policy->tenants[tenant].name}, {"classes", text(&classes)},
	      {"label", label}, {"value", value});
}

void gq_explain_attempts(struct gq_buf *out, enum gq_locale locale, const struct gq_pod *pod,
			 const struct gq_attempts *attempts)
{
	char count[16], seconds[16];
	PHRASE(owner);

	print_owner(&owner, locale, pod);
	(void)snprintf(count, sizeof count, "%u", attempts->absent);
	(void)snprintf(seconds, sizeof seconds, "%d", attempts->seconds_left);
	PRINT(out, locale, GQ_MSG_OWNER_ATTEMPTS, {"owner", text(&owner)}, {"count", count},
	      {"seconds", seconds});
}

void gq_explain_claim(struct gq_buf *out, enum gq_locale locale, const char *claim,
		      const char *device_class)
{
	PRINT(out, locale, GQ_MSG_CLAIM, {"claim", claim}, {"device_class", device_class});
}

void gq_explain_claim_unreadable(struct gq_buf *out, enum gq_locale locale, const char *claim,
				 const char *detail)
{
	PRINT(out, locale, GQ_MSG_CLAIM_UNREADABLE, {"claim", claim}, {"detail", detail});
}

void gq_explain_binding(struct gq_buf *out, const struct gq_explain *about, const char *node,
			const struct gq_finding *finding)
{
	struct gq_class_reading read = gq_node_snapshot_read(about->snapshot, node);
	const char *class_name = read.class_id == GQ_CLASS_NONE
				     ? gq_message_template(about->locale, GQ_MSG_CLASS_UNKNOWN)
				     : gq_class_name(about->policy->classes, read.class_id);
	const char *tenant = about->policy->tenants[finding->tenant].name;
	PHRASE(limit);
	PHRASE(used);
	PHRASE(asks);

	if (finding->kind == GQ_FINDING_UNLISTED) {
		PRINT(out, about->locale, GQ_MSG_BINDING_UNLISTED, {"node", node},
		      {"class", class_name}, {"tenant", tenant});
		return;
	}
	gq_explain_limit(&limit, about, finding);
	gq_explain_amount(&used, about->locale, finding,
			  gq_finding_amount(finding, gq_count_total(&finding->used)));
	gq_explain_amount(&asks, about->locale, finding, finding->adds);
	PRINT(out, about->locale, GQ_MSG_BINDING_NO_ROOM, {"node", node}, {"class", class_name},
	      {"tenant", tenant}, {"limit", text(&limit)}, {"used", text(&used)},
	      {"asks", text(&asks)});
}
