#include <inttypes.h>
#include <stdio.h>

#include "quota/explain_internal.h"
#include "quota/workload_internal.h"

/* The words about workloads. */

struct number {
	char text[24];
};

static struct number number_of(int64_t value)
{
	struct number number;

	(void)snprintf(number.text, sizeof number.text, "%" PRId64, value);
	return number;
}

static void put_in_front(struct gq_buf *out, const struct gq_buf *front)
{
	struct gq_buf both = GQ_BUF_INIT(out->max);

	if (!out->len)
		return;
	gq_buf_append(&both, front->data ? front->data : "", front->len);
	gq_buf_append(&both, out->data, out->len);
	if (both.code) { /* it is said without */
		gq_buf_done(&both);
		return;
	}
	gq_buf_done(out);
	*out = both;
}

void gq_explain_workload(struct gq_verdict *verdict, const struct gq_workload *workload)
{
	PHRASE(name);
	PHRASE(front);

	gq_buf_printf(&name, "%s%s%s", gq_workload_kind_name(workload->kind),
		      *workload->name ? " " : "", workload->name);
	PRINT(&front, verdict->locale, GQ_MSG_WORKLOAD, {"workload", text(&name)});
	if (verdict->kind == GQ_VERDICT_DENY)
		put_in_front(&verdict->message, &front);
	for (size_t i = 0; i < verdict->n_warnings; i++)
		put_in_front(&verdict->warnings[i], &front);
	put_in_front(&verdict->audit, &front);
}

void gq_explain_never_short(struct gq_buf *out, const struct gq_explain *about,
			    const struct gq_finding *finding, int tenant)
{
	static const enum gq_message_id ids[2][2] = {
	    {GQ_MSG_WORKLOAD_NEVER, GQ_MSG_WORKLOAD_NEVER_PARENT},
	    {GQ_MSG_WORKLOAD_NEVER_MEMORY, GQ_MSG_WORKLOAD_NEVER_MEMORY_PARENT}};
	PHRASE(limit);
	PHRASE(asks);
	PHRASE(excess);

	if (finding->kind == GQ_FINDING_UNLISTED) {
		gq_explain_short(out, about, finding, tenant);
		return;
	}
	gq_explain_limit(&limit, about, finding);
	gq_explain_amount(&asks, about->locale, finding, finding->adds);
	gq_explain_amount(&excess, about->locale, finding,
			  gq_sat_sub(finding->adds, finding->most));
	PRINT(out, about->locale,
	      ids[finding->kind == GQ_FINDING_MEMORY][finding->tenant != tenant],
	      {"tenant", about->policy->tenants[finding->tenant].name},
	      {"child", about->policy->tenants[tenant].name}, {"limit", text(&limit)},
	      {"asks", text(&asks)}, {"excess", text(&excess)});
}

void gq_explain_never(struct gq_buf *out, const struct gq_explain *about,
		      const struct gq_facts *facts)
{
	gq_explain_never_short(out, about, &facts->finding, facts->tenant);
	if (facts->finding.kind != GQ_FINDING_UNLISTED || facts->narrows)
		gq_explain_fit(out, about, facts);
}

/* "4 pods of 1.5" */
static void print_pods(struct gq_buf *out, enum gq_locale locale, const struct gq_finding *finding,
		       int64_t pods, int64_t each, bool more)
{
	enum gq_message_id one = more ? GQ_MSG_WORKLOAD_MORE_ONE : GQ_MSG_WORKLOAD_PODS_ONE;
	enum gq_message_id many = more ? GQ_MSG_WORKLOAD_MORE_MANY : GQ_MSG_WORKLOAD_PODS_MANY;
	PHRASE(amount);
	PHRASE(asks);

	gq_explain_amount(&amount, locale, finding, each);
	if (finding->kind == GQ_FINDING_MEMORY)
		gq_buf_puts(&asks, text(&amount));
	else
		PRINT(&asks, locale, GQ_MSG_WORKLOAD_EACH, {"each", text(&amount)});
	PRINT(out, locale, pods == 1 ? one : many, {"count", number_of(pods).text},
	      {"each", text(&asks)});
}

/* What they need, in words: with those that are started before old ones end, and with the old. */
static void print_rollout(struct gq_buf *out, enum gq_locale locale,
			  const struct gq_rollout *rollout, const struct gq_shortfall *s)
{
	PHRASE(pods);
	PHRASE(surging);
	PHRASE(old);
	const struct gq_buf *all = &pods;

	if (rollout->grows) {
		print_pods(out, locale, &s->finding, s->pods - s->old_pods, s->each, true);
		return;
	}
	print_pods(&pods, locale, &s->finding, s->pods, s->each, false);
	if (s->surge) {
		PRINT(&surging, locale, GQ_MSG_WORKLOAD_SURGE, {"pods", text(&pods)},
		      {"surge", number_of(s->surge).text});
		all = &surging;
	}
	if (!s->old_pods || !s->old_each) {
		gq_buf_puts(out, text(all));
		return;
	}
	print_pods(&old, locale, &s->finding, s->old_pods, s->old_each, false);
	PRINT(out, locale, GQ_MSG_WORKLOAD_INSTEAD, {"pods", text(all)}, {"old", text(&old)});
}

void gq_explain_shortfall(struct gq_buf *out, const struct gq_explain *about, int tenant,
			  const struct gq_rollout *rollout, const struct gq_shortfall *s)
{
	static const enum gq_message_id ids[2][2] = {
	    {GQ_MSG_WORKLOAD_SHORT, GQ_MSG_WORKLOAD_SHORT_PARENT},
	    {GQ_MSG_WORKLOAD_SHORT_MEMORY, GQ_MSG_WORKLOAD_SHORT_MEMORY_PARENT}};
	const struct gq_finding *finding = &s->finding;
	PHRASE(limit);
	PHRASE(left);
	PHRASE(needs);
	PHRASE(pods);
	PHRASE(lacks);

	gq_explain_limit(&limit, about, finding);
	gq_explain_amount(&left, about->locale, finding, s->free);
	gq_explain_amount(&needs, about->locale, finding, s->needs);
	print_rollout(&pods, about->locale, rollout, s);
	gq_explain_amount(&lacks, about->locale, finding, gq_sat_sub(s->needs, s->free));
	PRINT(out, about->locale,
	      ids[finding->kind == GQ_FINDING_MEMORY][finding->tenant != tenant],
	      {"tenant", about->policy->tenants[finding->tenant].name},
	      {"child", about->policy->tenants[tenant].name}, {"limit", text(&limit)},
	      {"free", text(&left)}, {"kind", gq_workload_kind_name(rollout->now.workload->kind)},
	      {"needs", text(&needs)}, {"pods", text(&pods)}, {"lacks", text(&lacks)});
}

bool gq_explain_rollout_fit(struct gq_buf *out, enum gq_locale locale,
			    const struct gq_rollout *rollout,
			    const struct gq_shortfalls *shortfalls)
{
	const struct gq_workload *now = rollout->now.workload;
	const struct gq_workload *before = rollout->before.workload;
	int64_t none = rollout->grows ? before->pods : 0;
	bool surges = !rollout->grows && now->surge > 0;

	if (now->pods == GQ_PODS_BY_NODES)
		PRINT(out, locale, GQ_MSG_WORKLOAD_FIT_NODES, {"", ""});
	else if (shortfalls->most_pods <= none)
		PRINT(out, locale, GQ_MSG_WORKLOAD_FIT_NONE, {"", ""});
	else if (shortfalls->most_pods < now->pods)
		PRINT(out, locale, GQ_MSG_WORKLOAD_FIT_PODS,
		      {"count", number_of(shortfalls->most_pods).text},
		      {"field", gq_workload_count_field(now->kind)});
	else if (surges)
		PRINT(out, locale, GQ_MSG_WORKLOAD_FIT_SURGE, {"", ""});
	else
		return false;
	return true;
}
