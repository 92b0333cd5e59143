#include "quota/field.h"
#include "quota/workload_internal.h"

/* So many pods of a workload count in a limit. A DaemonSet has one on each node that fits: of those
 * whose class is inside the limit, or not known. */
static int64_t pods_inside(const struct gq_workload_side *side, const struct gq_class_set *leaves)
{
	const struct gq_candidates *candidates = &side->candidates;
	size_t nodes = candidates->unknown_nodes;

	if (!side->workload)
		return 0;
	if (side->workload->pods != GQ_PODS_BY_NODES)
		return side->workload->pods;
	for (size_t i = 0; i < candidates->n; i++)
		if (gq_class_set_has(leaves, candidates->items[i].class_id))
			nodes += candidates->items[i].nodes;
	if (nodes > candidates->nodes) /* one that may be several classes was counted for each */
		nodes = candidates->nodes;
	return gq_min64((int64_t)nodes, GQ_FIELD_COUNT_MAX);
}

/* The most that pods of now and before hold together while one takes the place of the other: at
 * most surge more than there are to be, or as many as there were. */
static int64_t peak(const struct gq_shortfall *s)
{
	int64_t together = gq_max64(s->pods + s->surge, s->old_pods);
	int64_t pods = s->pods, old_pods = s->old_pods;

	if (s->each >= s->old_each)
		old_pods = gq_min64(old_pods, together - pods);
	else
		pods = gq_min64(pods, together - old_pods);
	return gq_sat_add(gq_sat_mul(pods, s->each), gq_sat_mul(old_pods, s->old_each));
}

/* One currency of one limit: s has its pods and what each asks for. */
static bool is_short(const struct gq_rollout *rollout, struct gq_shortfall *s, int64_t most,
		     int64_t used, int64_t *most_pods)
{
	int64_t held = gq_sat_mul(s->old_pods, s->old_each);

	if (most >= GQ_CHARGE_CAP || s->each == 0)
		return false;
	s->finding.most = most;
	s->free = gq_sat_sub(most, used);
	/* pods that nothing was before are replaced one day, too */
	s->needs = rollout->before.workload ? gq_sat_sub(peak(s), held)
					    : gq_sat_mul(s->pods + s->surge, s->each);
	*most_pods = gq_min64(*most_pods, gq_sat_add(s->free, held) / s->each);
	return s->needs > s->free;
}

static void check_limit(const struct gq_book *book, int t, const struct gq_book_limit *limit,
			const struct gq_rollout *rollout, int64_t wall_s, struct gq_shortfalls *out)
{
	const struct gq_book_tenant *tenant = &book->tenants[t];
	struct gq_amount each = gq_parts_inside(&rollout->now.parts, limit->leaves);
	struct gq_amount old_each = gq_parts_inside(&rollout->before.parts, limit->leaves);
	struct gq_amount most = gq_book_most(limit, tenant, wall_s);
	struct gq_amount used = gq_count_total(&limit->used);
	struct gq_shortfall s = {.finding = {.kind = GQ_FINDING_SHARES,
					     .tenant = t,
					     .mode = tenant->spec->mode,
					     .class_id = limit->class_id},
				 .pods = pods_inside(&rollout->now, limit->leaves),
				 .each = each.shares,
				 .old_pods = pods_inside(&rollout->before, limit->leaves),
				 .old_each = old_each.shares};

	if (!rollout->grows)
		s.surge = gq_workload_surge(rollout->now.workload, s.pods);
	bool shares = is_short(rollout, &s, most.shares, used.shares, &out->most_pods);
	struct gq_shortfall memory = s;
	memory.finding.kind = GQ_FINDING_MEMORY;
	memory.each = each.memory_mib;
	memory.old_each = old_each.memory_mib;
	if (!is_short(rollout, &memory, most.memory_mib, used.memory_mib, &out->most_pods) &&
	    !shares)
		return;
	if (out->n < GQ_SHORTFALLS_MAX)
		out->items[out->n++] = shares ? s : memory;
}

void gq_workload_fit(const struct gq_book *book, int tenant, const struct gq_rollout *rollout,
		     int64_t wall_s, struct gq_shortfalls *ret_shortfalls)
{
	ret_shortfalls->n = 0;
	ret_shortfalls->most_pods = GQ_FIELD_COUNT_MAX;
	for (int t = tenant; t >= 0; t = book->tenants[t].parent)
		for (size_t i = 0; i < book->tenants[t].n_limits; i++)
			check_limit(book, t, &book->tenants[t].limits[i], rollout, wall_s,
				    ret_shortfalls);
}
