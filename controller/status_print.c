#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/utf8.h"
#include "controller/recount.h"
#include "controller/status.h"
#include "quota/quantity.h"
#include "webhook/metrics.h"

/* ---- the facts ---- */

void gq_status_recount_done(struct gq_status_recount *recount)
{
	for (size_t i = 0; i < recount->n_limits; i++) {
		free(recount->limits[i].tenant);
		free(recount->limits[i].class_name);
	}
	for (size_t i = 0; i < recount->n_drifted; i++)
		free(recount->drifted[i]);
	free(recount->limits);
	free(recount->drifted);
	*recount = (struct gq_status_recount){0};
}

/* Makes room for more of both. */
static int reserve_drift(struct gq_status_recount *recount, size_t limits, size_t drifted)
{
	recount->limits = calloc(limits + 1, sizeof *recount->limits);
	recount->drifted = calloc(drifted + 1, sizeof *recount->drifted);
	return recount->limits && recount->drifted ? 0 : GQ_ENOMEM;
}

static int add_drift(struct gq_status_recount *recount, const struct gq_drift_limit *limits,
		     size_t n_limits, char *const *drifted, size_t n_drifted)
{
	for (size_t i = 0; i < n_limits; i++) {
		struct gq_drift_limit *copy = &recount->limits[recount->n_limits++];
		*copy = limits[i];
		copy->tenant = strdup(limits[i].tenant);
		copy->class_name = strdup(limits[i].class_name);
		if (!copy->tenant || !copy->class_name)
			return GQ_ENOMEM;
	}
	for (size_t i = 0; i < n_drifted; i++) {
		char *copy = strdup(drifted[i]);
		if (!copy)
			return GQ_ENOMEM;
		recount->drifted[recount->n_drifted++] = copy;
	}
	return 0;
}

int gq_status_recount_copy(const struct gq_status_recount *recount,
			   struct gq_status_recount *ret_copy)
{
	struct gq_status_recount copy = *recount;

	copy.n_limits = copy.n_drifted = 0;
	int code = reserve_drift(&copy, recount->n_limits, recount->n_drifted);
	if (!code)
		code = add_drift(&copy, recount->limits, recount->n_limits, recount->drifted,
				 recount->n_drifted);
	if (code)
		gq_status_recount_done(&copy);
	else
		*ret_copy = copy;
	return code;
}

int gq_status_recount_take(struct gq_status_recount *recount, const char *request, int64_t at_s,
			   const struct gq_recount_result *result)
{
	const struct gq_drift *const drifts[] = {&result->missed, &result->drift};
	struct gq_status_recount fresh = {.at_s = at_s, .pods = result->drift.counted};

	(void)snprintf(fresh.request, sizeof fresh.request, "%s", request);
	(void)snprintf(fresh.problem, sizeof fresh.problem, "%s", result->problem);
	if (result->code && !fresh.problem[0])
		(void)snprintf(fresh.problem, sizeof fresh.problem, "%s",
			       gq_code_name(result->code));
	int code = reserve_drift(&fresh, result->missed.n_limits + result->drift.n_limits,
				 result->missed.n_pods + result->drift.n_pods);
	for (size_t i = 0; !code && i < 2; i++) {
		code = add_drift(&fresh, drifts[i]->limits, drifts[i]->n_limits, drifts[i]->pods,
				 drifts[i]->n_pods);
		fresh.more_limits += drifts[i]->more_limits;
		fresh.more_drifted += drifts[i]->more_pods;
	}
	gq_status_recount_done(code ? &fresh : recount);
	if (!code)
		*recount = fresh;
	return code;
}

void gq_status_facts_done(struct gq_status_facts *facts)
{
	gq_usage_done(&facts->usage);
	gq_status_recount_done(&facts->recount);
}

/* ---- values ---- */

/* A word that no YAML reader takes for anything but a string. */
static bool is_plain(const char *text)
{
	static const char *const taken[] = {"true", "false", "yes", "no", "on",
					    "off",  "null",  "y",   "n"};

	if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')))
		return false;
	for (const char *p = text; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
		      (*p >= '0' && *p <= '9') || *p == '-' || *p == '_' || *p == '.' || *p == '/'))
			return false;
	for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
		if (strcasecmp(text, taken[i]) == 0)
			return false;
	return true;
}

static uint32_t decode_utf8(const char *text, size_t width)
{
	static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
	uint32_t point = (unsigned char)text[0] & masks[width];

	for (size_t i = 1; i < width; i++)
		point = point << 6 | ((unsigned char)text[i] & 0x3F);
	return point;
}

/* kubectl shows a text as a block only when all of it may stand in one: there, emoji, breaks of
 * other scripts and controls must not appear as they are. */
static bool is_printable(uint32_t point)
{
	return (point >= 0x20 && point < 0x7F) ||
	       (point >= 0xA0 && point < 0xFEFF && point != 0x2028 && point != 0x2029);
}

static void yaml_text(struct gq_buf *out, const char *text)
{
	size_t len = strlen(text), width;

	if (is_plain(text)) {
		gq_buf_puts(out, text);
		return;
	}
	gq_buf_putc(out, '"');
	for (size_t i = 0; i < len; i += width ? width : 1) {
		width = gq_utf8_width(text + i, len - i);
		uint32_t point = width ? decode_utf8(text + i, width) : 0xFFFD;
		if (point == '"' || point == '\\')
			gq_buf_putc(out, '\\');
		if (is_printable(point))
			gq_buf_append(out, text + i, width);
		else
			gq_buf_printf(out, "\\U%08" PRIX32, point);
	}
	gq_buf_putc(out, '"');
}

static void json_text(struct gq_buf *out, const char *text)
{
	gq_buf_json_string(out, text, strlen(text));
}

static void json_text_or_null(struct gq_buf *out, const char *text)
{
	if (*text)
		json_text(out, text);
	else
		gq_buf_puts(out, "null");
}

/* 2026-12-04T18:00:00Z. Source: RFC 3339. */
static void yaml_time(struct gq_buf *out, int64_t wall_s)
{
	time_t at = (time_t)wall_s;
	struct tm tm;
	char text[64];

	if (gmtime_r(&at, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
		gq_buf_puts(out, text);
	else
		gq_buf_puts(out, "null");
}

/* A currency: how it is named and written in each document. */
struct currency {
	const char *yaml_name, *json_name;
	int64_t (*pick)(struct gq_amount amount);
	void (*yaml)(struct gq_buf *out, int64_t value);
	void (*json)(struct gq_buf *out, int64_t value);
};

static int64_t pick_shares(struct gq_amount amount)
{
	return amount.shares;
}

static int64_t pick_mib(struct gq_amount amount)
{
	return amount.memory_mib;
}

static void yaml_gpus(struct gq_buf *out, int64_t shares)
{
	if (shares < 0)
		gq_buf_putc(out, '-');
	gq_shares_print(out, shares < 0 ? -shares : shares);
}

/* An amount of memory is without limit only where a device's memory is not known. */
static void yaml_memory(struct gq_buf *out, int64_t mib)
{
	if (mib < 0)
		gq_buf_putc(out, '-');
	if (mib == GQ_UNLIMITED)
		gq_buf_puts(out, "unknown");
	else
		gq_mib_print(out, mib < 0 ? -mib : mib);
}

static void json_gpus(struct gq_buf *out, int64_t shares)
{
	if (shares == GQ_UNLIMITED) {
		gq_buf_puts(out, "null");
		return;
	}
	gq_buf_putc(out, '"');
	yaml_gpus(out, shares);
	gq_buf_putc(out, '"');
}

static void json_memory(struct gq_buf *out, int64_t mib)
{
	if (mib == GQ_UNLIMITED)
		gq_buf_puts(out, "null");
	else
		gq_buf_printf(out, "%" PRId64, mib);
}

static const struct currency currencies[] = {
    {"gpus", "gpus", pick_shares, yaml_gpus, json_gpus},
    {"memory", "memoryMiB", pick_mib, yaml_memory, json_memory},
};
#define CURRENCIES (sizeof currencies / sizeof currencies[0])

static struct gq_amount held_of(const struct gq_usage_limit *limit)
{
	return gq_amount_add(gq_usage_used(limit), limit->used[GQ_STATE_RESERVED]);
}

/* ---- lists that may be cut ---- */

/* One list, in both documents. */
struct list {
	struct gq_buf yaml, json;
	size_t max; /* bytes of both */
	size_t n;
	size_t missing;
	int code;
};

static void list_done(struct list *list)
{
	gq_buf_done(&list->yaml);
	gq_buf_done(&list->json);
}

static size_t list_bytes(const struct list *list)
{
	return list->yaml.len + list->json.len;
}

/* The end of an item that was printed from `yaml` and `json` on: it stays, or it is missing. Once
 * one is missing so is what follows. */
static void list_end_item(struct list *list, const struct gq_buf *yaml, const struct gq_buf *json)
{
	if (yaml->code == GQ_ENOMEM || json->code == GQ_ENOMEM)
		list->code = GQ_ENOMEM;
	if (list->missing || yaml->code || json->code ||
	    list_bytes(list) + yaml->len + json->len + 1 > list->max) {
		list->missing++;
		return;
	}
	if (list->n++)
		gq_buf_puts(&list->json, ",");
	gq_buf_append(&list->yaml, yaml->data ? yaml->data : "", yaml->len);
	gq_buf_append(&list->json, json->data ? json->data : "", json->len);
	if (list->yaml.code || list->json.code)
		list->code = GQ_ENOMEM;
}

struct tenant_order {
	const struct gq_usage_tenant *tenant;
	int64_t held; /* of the limit in which it holds most */
};

static int by_size(const void *left, const void *right)
{
	const struct tenant_order *a = left, *b = right;

	if (a->held != b->held)
		return a->held > b->held ? -1 : 1;
	return strcmp(a->tenant->name, b->tenant->name);
}

static struct tenant_order *sort_tenants(const struct gq_usage *usage)
{
	struct tenant_order *order = calloc(usage->n_tenants + 1, sizeof *order);

	if (!order)
		return NULL;
	for (size_t t = 0; t < usage->n_tenants; t++) {
		order[t].tenant = &usage->tenants[t];
		for (size_t i = 0; i < usage->tenants[t].n_limits; i++)
			order[t].held =
			    gq_max64(order[t].held, held_of(&usage->tenants[t].limits[i]).shares);
	}
	qsort(order, usage->n_tenants, sizeof *order, by_size);
	return order;
}

/* ---- items ---- */

#define ITEM_MAX_BYTES GQ_STATUS_MAX_BYTES

static void yaml_numbers(struct gq_buf *out, const struct gq_usage_limit *limit,
			 const struct currency *currency)
{
	gq_buf_printf(out, "    %s: {limit: ", currency->yaml_name);
	currency->yaml(out, currency->pick(limit->most));
	gq_buf_puts(out, ", used: ");
	currency->yaml(out, currency->pick(gq_usage_used(limit)));
	static const enum gq_charge_state states[] = {GQ_STATE_BOUND, GQ_STATE_PENDING,
						      GQ_STATE_TERMINATING, GQ_STATE_RESERVED};
	for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
		gq_buf_printf(out, ", %s: ", gq_charge_state_name(states[i]));
		currency->yaml(out, currency->pick(limit->used[states[i]]));
	}
	gq_buf_puts(out, ", free: ");
	currency->yaml(out, currency->pick(gq_usage_free(limit)));
	gq_buf_puts(out, ", unready: ");
	currency->yaml(out, currency->pick(limit->unready));
	gq_buf_puts(out, "}\n");
}

static void put_tenant(struct gq_buf *yaml, struct gq_buf *json,
		       const struct gq_usage_tenant *tenant)
{
	gq_buf_puts(yaml, "- name: ");
	yaml_text(yaml, tenant->name);
	if (tenant->parent) {
		gq_buf_puts(yaml, "\n  parent: ");
		yaml_text(yaml, tenant->parent);
	}
	gq_buf_printf(yaml, "\n  mode: %s\n  limits:%s\n", gq_mode_name(tenant->mode),
		      tenant->n_limits ? "" : " []");
	for (size_t i = 0; i < tenant->n_limits; i++) {
		const struct gq_usage_limit *limit = &tenant->limits[i];
		gq_buf_puts(yaml, "  - class: ");
		yaml_text(yaml, limit->class_name);
		gq_buf_puts(yaml, "\n");
		for (size_t c = 0; c < CURRENCIES; c++)
			if (currencies[c].pick(limit->most) != GQ_UNLIMITED)
				yaml_numbers(yaml, limit, &currencies[c]);
	}
	gq_buf_puts(json, "\n");
	gq_usage_print_tenant(json, tenant);
}

static void put_over_numbers(struct gq_buf *yaml, struct gq_buf *json,
			     const struct gq_usage_limit *limit, const struct currency *currency)
{
	const struct {
		const char *name;
		int64_t value;
	} numbers[] = {{"held", currency->pick(held_of(limit))},
		       {"limit", currency->pick(limit->most)},
		       {"over", currency->pick(gq_usage_over(limit))}};

	gq_buf_printf(yaml, "  %s: {", currency->yaml_name);
	gq_buf_printf(json, ",\"%s\":{", currency->json_name);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		gq_buf_printf(yaml, "%s%s: ", i ? ", " : "", numbers[i].name);
		gq_buf_printf(json, "%s\"%s\":", i ? "," : "", numbers[i].name);
		currency->yaml(yaml, numbers[i].value);
		currency->json(json, numbers[i].value);
	}
	gq_buf_puts(yaml, "}\n");
	gq_buf_putc(json, '}');
}

static void put_holder(struct gq_buf *yaml, struct gq_buf *json,
		       const struct gq_usage_holder *holder)
{
	char name[600];

	(void)snprintf(name, sizeof name, "%s/%s", holder->namespace_, holder->name);
	gq_buf_puts(yaml, "  - {pod: ");
	yaml_text(yaml, name);
	gq_buf_puts(json, "{\"namespace\":");
	json_text(json, holder->namespace_);
	gq_buf_puts(json, ",\"name\":");
	json_text(json, holder->name);
	for (size_t c = 0; c < CURRENCIES; c++) {
		gq_buf_printf(yaml, ", %s: ", currencies[c].yaml_name);
		gq_buf_printf(json, ",\"%s\":", currencies[c].json_name);
		currencies[c].yaml(yaml, currencies[c].pick(holder->amount));
		currencies[c].json(json, currencies[c].pick(holder->amount));
	}
	gq_buf_puts(yaml, holder->unasked ? ", unasked: true}\n" : "}\n");
	gq_buf_printf(json, ",\"unasked\":%s}", holder->unasked ? "true" : "false");
}

static void put_over(struct gq_buf *yaml, struct gq_buf *json, const char *tenant,
		     const struct gq_usage_limit *limit)
{
	struct gq_amount over = gq_usage_over(limit);

	gq_buf_puts(yaml, "- tenant: ");
	yaml_text(yaml, tenant);
	gq_buf_puts(yaml, "\n  class: ");
	yaml_text(yaml, limit->class_name);
	gq_buf_puts(yaml, "\n");
	gq_buf_puts(json, "{\"tenant\":");
	json_text(json, tenant);
	gq_buf_puts(json, ",\"class\":");
	json_text(json, limit->class_name);
	for (size_t c = 0; c < CURRENCIES; c++)
		if (currencies[c].pick(over))
			put_over_numbers(yaml, json, limit, &currencies[c]);
	gq_buf_printf(yaml, "  pods: %zu\n  holders:%s\n", limit->pods,
		      limit->n_holders ? "" : " []");
	gq_buf_printf(json, ",\"pods\":%zu,\"holders\":[", limit->pods);
	for (size_t i = 0; i < limit->n_holders; i++) {
		gq_buf_puts(json, i ? "," : "");
		put_holder(yaml, json, &limit->holders[i]);
	}
	gq_buf_puts(json, "]}");
}

static void put_uncharged(struct gq_buf *yaml, struct gq_buf *json,
			  const struct gq_usage_uncharged *uncharged)
{
	gq_buf_puts(yaml, "- {namespace: ");
	yaml_text(yaml, uncharged->namespace_);
	gq_buf_printf(yaml, ", pods: %zu, ambiguous: %s}\n", uncharged->pods,
		      uncharged->ambiguous ? "true" : "false");
	gq_usage_print_uncharged(json, uncharged);
}

static void put_drift(struct gq_buf *yaml, struct gq_buf *json, const struct gq_drift_limit *limit)
{
	const struct gq_amount amount = {limit->shares, limit->memory_mib};

	gq_buf_puts(yaml, "  - {tenant: ");
	yaml_text(yaml, limit->tenant);
	gq_buf_puts(yaml, ", class: ");
	yaml_text(yaml, limit->class_name);
	gq_buf_puts(json, "{\"tenant\":");
	json_text(json, limit->tenant);
	gq_buf_puts(json, ",\"class\":");
	json_text(json, limit->class_name);
	for (size_t c = 0; c < CURRENCIES; c++) {
		gq_buf_printf(yaml, ", %s: ", currencies[c].yaml_name);
		gq_buf_printf(json, ",\"%s\":", currencies[c].json_name);
		currencies[c].yaml(yaml, currencies[c].pick(amount));
		currencies[c].json(json, currencies[c].pick(amount));
	}
	gq_buf_puts(yaml, "}\n");
	gq_buf_putc(json, '}');
}

static void put_drifted(struct gq_buf *yaml, struct gq_buf *json, const char *pod)
{
	gq_buf_puts(yaml, "  - ");
	yaml_text(yaml, pod);
	gq_buf_puts(yaml, "\n");
	json_text(json, pod);
}

/* ---- the documents ---- */

enum { LIST_OVER, LIST_UNCHARGED, LIST_DRIFT, LIST_DRIFTED, LIST_TENANTS, LISTS };
static const char *const list_names[LISTS] = {"over", "uncharged", "drift", "driftPods", "tenants"};

static void fill_over(struct list *list, const struct tenant_order *order, size_t n_tenants,
		      struct gq_buf *yaml, struct gq_buf *json)
{
	for (size_t t = 0; t < n_tenants; t++) {
		const struct gq_usage_tenant *tenant = order[t].tenant;
		for (size_t i = 0; i < tenant->n_limits; i++) {
			if (gq_amount_is_zero(gq_usage_over(&tenant->limits[i])))
				continue;
			gq_buf_reset(yaml);
			gq_buf_reset(json);
			put_over(yaml, json, tenant->name, &tenant->limits[i]);
			list_end_item(list, yaml, json);
		}
	}
}

/* All lists but the tenants; each has its share of the room, so that none can crowd out the others.
 */
static void fill_lists(const struct gq_status_facts *facts, size_t room,
		       const struct tenant_order *order, struct list lists[LISTS],
		       struct gq_buf *yaml, struct gq_buf *json)
{
	const struct gq_usage *usage = &facts->usage;

	lists[LIST_OVER].max = room / 4;
	lists[LIST_UNCHARGED].max = room / 8;
	lists[LIST_DRIFT].max = room / 8;
	lists[LIST_DRIFTED].max = room / 8;
	fill_over(&lists[LIST_OVER], order, usage->n_tenants, yaml, json);
	for (size_t i = 0; i < usage->n_uncharged; i++) {
		gq_buf_reset(yaml);
		gq_buf_reset(json);
		put_uncharged(yaml, json, &usage->uncharged[i]);
		list_end_item(&lists[LIST_UNCHARGED], yaml, json);
	}
	for (size_t i = 0; i < facts->recount.n_limits; i++) {
		gq_buf_reset(yaml);
		gq_buf_reset(json);
		put_drift(yaml, json, &facts->recount.limits[i]);
		list_end_item(&lists[LIST_DRIFT], yaml, json);
	}
	lists[LIST_DRIFT].missing += facts->recount.more_limits;
	for (size_t i = 0; i < facts->recount.n_drifted; i++) {
		gq_buf_reset(yaml);
		gq_buf_reset(json);
		put_drifted(yaml, json, facts->recount.drifted[i]);
		list_end_item(&lists[LIST_DRIFTED], yaml, json);
	}
	lists[LIST_DRIFTED].missing += facts->recount.more_drifted;
	for (int l = 0; l < LIST_TENANTS; l++)
		room -= list_bytes(&lists[l]);
	lists[LIST_TENANTS].max = room;
	for (size_t t = 0; t < usage->n_tenants; t++) {
		gq_buf_reset(yaml);
		gq_buf_reset(json);
		put_tenant(yaml, json, order[t].tenant);
		list_end_item(&lists[LIST_TENANTS], yaml, json);
	}
}

static void yaml_head(struct gq_buf *out, const struct gq_status_facts *facts)
{
	gq_buf_puts(out, "leader: ");
	yaml_text(out, facts->leader);
	gq_buf_printf(out, "\nepoch: %" PRIu64 "\nupdated: ", facts->epoch);
	yaml_time(out, facts->updated_s);
	gq_buf_printf(out,
		      "\nsynced: %s\npolicy:\n  hash: ", facts->usage.synced ? "true" : "false");
	yaml_text(out, facts->policy.hash);
	gq_buf_printf(out,
		      "\n  inForce: %s\n  problem: ", facts->policy.in_force ? "true" : "false");
	yaml_text(out, facts->policy.problem);
	gq_buf_printf(
	    out, "\njournal:\n  held: %s\n  problem: ", facts->journal_held ? "true" : "false");
	yaml_text(out, facts->journal_problem);
	gq_buf_puts(out, "\n");
}

static void yaml_list(struct gq_buf *out, const char *title, const struct list *list)
{
	gq_buf_printf(out, "%s:%s\n", title, list->n ? "" : " []");
	gq_buf_append(out, list->yaml.data ? list->yaml.data : "", list->yaml.len);
}

static void yaml_missing(struct gq_buf *out, const struct list lists[LISTS])
{
	bool any = false;

	for (int l = 0; l < LISTS; l++) {
		if (!lists[l].missing)
			continue;
		gq_buf_printf(out, "%s%s: %zu", any ? ", " : "truncated: true\nmissing: {",
			      list_names[l], lists[l].missing);
		any = true;
	}
	if (any)
		gq_buf_puts(out, "}\n");
}

static void yaml_document(struct gq_buf *out, const struct gq_status_facts *facts,
			  const struct list lists[LISTS])
{
	yaml_head(out, facts);
	yaml_missing(out, lists);
	yaml_list(out, "over", &lists[LIST_OVER]);
	yaml_list(out, "uncharged", &lists[LIST_UNCHARGED]);
	gq_buf_puts(out, "recount:\n  last: ");
	if (facts->recount.at_s) {
		yaml_time(out, facts->recount.at_s);
		gq_buf_printf(out, "\n  pods: %zu\n  request: ", facts->recount.pods);
		yaml_text(out, facts->recount.request);
		gq_buf_puts(out, "\n  problem: ");
		yaml_text(out, facts->recount.problem);
		gq_buf_puts(out, "\n");
		yaml_list(out, "  drift", &lists[LIST_DRIFT]);
		yaml_list(out, "  driftPods", &lists[LIST_DRIFTED]);
	} else {
		gq_buf_puts(out, "never\n");
	}
	yaml_list(out, "tenants", &lists[LIST_TENANTS]);
}

static void json_list(struct gq_buf *out, const char *title, const struct list *list)
{
	gq_buf_printf(out, "\"%s\":[", title);
	gq_buf_append(out, list->json.data ? list->json.data : "", list->json.len);
	gq_buf_putc(out, ']');
}

static void json_document(struct gq_buf *out, const struct gq_status_facts *facts,
			  const struct list lists[LISTS])
{
	size_t missing = 0;

	gq_buf_puts(out, "{\"policyHash\":");
	json_text_or_null(out, facts->policy.hash);
	gq_buf_puts(out, ",\"policyProblem\":");
	json_text_or_null(out, facts->policy.problem);
	gq_buf_printf(
	    out, ",\"journalHeld\":%s,\"journalProblem\":", facts->journal_held ? "true" : "false");
	json_text_or_null(out, facts->journal_problem);
	gq_buf_printf(out, ",\"synced\":%s,\"leader\":", facts->usage.synced ? "true" : "false");
	json_text(out, facts->leader);
	gq_buf_printf(out, ",\"epoch\":%" PRIu64 ",\"updated\":%" PRId64 ",\"missing\":{",
		      facts->epoch, facts->updated_s);
	for (int l = 0; l < LISTS; l++) {
		gq_buf_printf(out, "%s\"%s\":%zu", l ? "," : "", list_names[l], lists[l].missing);
		missing += lists[l].missing;
	}
	gq_buf_printf(out, "},\"truncated\":%s,\"recount\":", missing ? "true" : "false");
	if (facts->recount.at_s) {
		gq_buf_puts(out, "{\"request\":");
		json_text(out, facts->recount.request);
		gq_buf_printf(out,
			      ",\"at\":%" PRId64 ",\"pods\":%zu,\"problem\":", facts->recount.at_s,
			      facts->recount.pods);
		json_text_or_null(out, facts->recount.problem);
		gq_buf_putc(out, ',');
		json_list(out, "drift", &lists[LIST_DRIFT]);
		gq_buf_putc(out, ',');
		json_list(out, "driftPods", &lists[LIST_DRIFTED]);
		gq_buf_putc(out, '}');
	} else {
		gq_buf_puts(out, "null");
	}
	gq_buf_putc(out, ',');
	json_list(out, "over", &lists[LIST_OVER]);
	gq_buf_putc(out, ',');
	json_list(out, "uncharged", &lists[LIST_UNCHARGED]);
	gq_buf_putc(out, ',');
	json_list(out, "tenants", &lists[LIST_TENANTS]);
	gq_buf_puts(out, "}\n");
}

/* Both documents without their lists, and with the longest account of what is missing. */
static size_t head_bytes(const struct gq_status_facts *facts, struct gq_buf *yaml,
			 struct gq_buf *json)
{
	struct list empty[LISTS];

	for (int l = 0; l < LISTS; l++)
		empty[l] = (struct list){.missing = SIZE_MAX};
	gq_buf_reset(yaml);
	gq_buf_reset(json);
	yaml_document(yaml, facts, empty);
	json_document(json, facts, empty);
	return yaml->len + json->len;
}

int gq_status_print(const struct gq_status_facts *facts, size_t max_bytes, struct gq_buf *yaml,
		    struct gq_buf *json)
{
	struct gq_buf one_yaml GQ_BUF_CLEANUP = GQ_BUF_INIT(ITEM_MAX_BYTES);
	struct gq_buf one_json GQ_BUF_CLEANUP = GQ_BUF_INIT(ITEM_MAX_BYTES);
	struct tenant_order *order = sort_tenants(&facts->usage);
	struct list lists[LISTS];
	int code = order ? 0 : GQ_ENOMEM;

	for (int l = 0; l < LISTS; l++)
		lists[l] =
		    (struct list){.yaml = GQ_BUF_INIT(max_bytes), .json = GQ_BUF_INIT(max_bytes)};
	size_t head = head_bytes(facts, &one_yaml, &one_json);
	if (!code && (one_yaml.code || one_json.code))
		code = one_yaml.code ? one_yaml.code : one_json.code;
	if (!code && head > max_bytes)
		code = GQ_ETOOBIG;
	if (!code)
		fill_lists(facts, max_bytes - head, order, lists, &one_yaml, &one_json);
	for (int l = 0; l < LISTS; l++)
		code = code ? code : lists[l].code;
	if (!code) {
		yaml_document(yaml, facts, lists);
		json_document(json, facts, lists);
		code = yaml->code ? yaml->code : json->code;
	}
	for (int l = 0; l < LISTS; l++)
		list_done(&lists[l]);
	free(order);
	return code;
}
