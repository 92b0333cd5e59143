#include "controller/reporting.h"

#include <json-c/json.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "quota/field.h"

#define LOOK_EVERY_NS (3 * GQ_NS_PER_S)
#define RECOUNT_EVERY_NS (300 * GQ_NS_PER_S)
/* Every so many recounts, and those that somebody asks for, begin with a fresh list of all pods. */
#define LIST_EVERY 12
/* Limits over which a tenant is, and namespaces that two match, of which is remembered that people
 * were told. */
#define TOLD_MAX 1000

/* A limit that was passed when people were last told, or (class_name NULL) a namespace that two
 * tenants match. */
struct told {
	char *name; /* of the tenant, or the namespace */
	char *class_name;
	bool memory;
	bool still;
};

struct gq_reporting {
	struct gq_reporting_options options;
	struct gq_status_writer *writer;
	struct gq_recounter *recounter;
	atomic_bool leads;

	/* The thread that ticks. */
	int64_t look_ns;
	int64_t recount_ns;
	unsigned periodic; /* recounts that nobody asked for */
	struct told *told;
	size_t n_told;

	struct gq_lock lock;                          /* of what follows */
	char wanted[GQ_STATUS_REQUEST_MAX_BYTES + 1]; /* the last request seen; "" none */
	int64_t wanted_s;                             /* when it was made */
	bool status_seen;
	char answering[GQ_STATUS_REQUEST_MAX_BYTES + 1]; /* the request of the recount under way */
	bool running;                                    /* a recount */
	struct gq_status_recount last;
	uint64_t recounts;
};

static int gather(void *arg, struct gq_status_facts *ret_facts, struct gq_err *err);

static void on_relist(void *arg)
{
	struct gq_reporting *reporting = arg;

	reporting->options.relist(reporting->options.arg);
}

struct gq_reporting *gq_reporting_new(const struct gq_reporting_options *options)
{
	struct gq_reporting *reporting = calloc(1, sizeof *reporting);

	if (!reporting)
		return NULL;
	reporting->options = *options;
	gq_lock_init(&reporting->lock, GQ_RANK_LEAF);
	reporting->recount_ns = gq_clock_mono_ns(options->clock) + RECOUNT_EVERY_NS;
	reporting->writer = gq_status_writer_new(
	    &(struct gq_status_writer_options){.api = options->api,
					       .namespace_ = options->namespace_,
					       .seed = (uint64_t)reporting->recount_ns,
					       .gather = gather,
					       .arg = reporting});
	reporting->recounter =
	    gq_recounter_new(&(struct gq_recounter_options){.ledger = options->ledger,
							    .api = options->api,
							    .clock = options->clock,
							    .relist = on_relist,
							    .arg = reporting});
	if (!reporting->writer || !reporting->recounter) {
		gq_reporting_free(reporting);
		return NULL;
	}
	return reporting;
}

static void told_done(struct told *told)
{
	free(told->name);
	free(told->class_name);
}

void gq_reporting_free(struct gq_reporting *reporting)
{
	if (!reporting)
		return;
	gq_recounter_free(reporting->recounter);
	gq_status_writer_free(reporting->writer);
	for (size_t i = 0; i < reporting->n_told; i++)
		told_done(&reporting->told[i]);
	free(reporting->told);
	gq_status_recount_done(&reporting->last);
	gq_lock_done(&reporting->lock);
	free(reporting);
}

void gq_reporting_lead(struct gq_reporting *reporting, bool leads)
{
	atomic_store(&reporting->leads, leads);
	gq_status_writer_lead(reporting->writer, leads);
}

bool gq_reporting_status_seen(struct gq_reporting *reporting)
{
	gq_lock_take(&reporting->lock);
	bool seen = reporting->status_seen;
	gq_lock_release(&reporting->lock);
	return seen;
}

void gq_reporting_stats(struct gq_reporting *reporting, struct gq_reporting_stats *ret_stats)
{
	*ret_stats = (struct gq_reporting_stats){0};
	gq_status_writer_stats(reporting->writer, &ret_stats->status);
	gq_lock_take(&reporting->lock);
	ret_stats->recounts = reporting->recounts;
	ret_stats->last_recount_s = reporting->last.at_s;
	gq_lock_release(&reporting->lock);
}

/* ---- the status ---- */

static int gather(void *arg, struct gq_status_facts *ret_facts, struct gq_err *err)
{
	struct gq_reporting *reporting = arg;
	const struct gq_reporting_options *options = &reporting->options;
	struct gq_journal_stats journal;
	int64_t now_s = gq_clock_wall_s(options->clock);
	int code = gq_ledger_usage(options->ledger, gq_clock_mono_ns(options->clock), now_s,
				   &ret_facts->usage, err);

	if (!code)
		code = gq_ledger_usage_holders(options->ledger, &ret_facts->usage, err);
	if (code)
		return code;
	gq_policy_source_status(options->policy, &ret_facts->policy);
	gq_journal_stats(options->journal, &journal);
	ret_facts->journal_held = journal.held || journal.problem[0];
	(void)snprintf(ret_facts->journal_problem, sizeof ret_facts->journal_problem, "%s",
		       journal.problem);
	(void)snprintf(ret_facts->leader, sizeof ret_facts->leader, "%s", options->identity);
	ret_facts->epoch = journal.epoch;
	ret_facts->updated_s = now_s;
	gq_lock_take(&reporting->lock);
	code = gq_status_recount_copy(&reporting->last, &ret_facts->recount);
	gq_lock_release(&reporting->lock);
	return code ? gq_fail(err, code, "out of memory") : 0;
}

/* ---- recounts ---- */

/* Nobody waits longer for an answer; a new leader finds requests that others have answered. */
#define REQUEST_MAX_S 90

/* `gpuquota usage` asks with the Unix time in nanoseconds. -1: what others wrote has none. */
static int64_t asked_s(const char *request)
{
	size_t digits = strspn(request, "0123456789");

	if (request[digits] || digits != 19)
		return -1;
	return (int64_t)(strtoull(request, NULL, 10) / (uint64_t)GQ_NS_PER_S);
}

static bool request_is_open(struct gq_reporting *reporting)
{
	int64_t now_s = gq_clock_wall_s(reporting->options.clock);

	gq_lock_take(&reporting->lock);
	bool open = reporting->wanted[0] &&
		    strcmp(reporting->wanted, reporting->last.request) != 0 &&
		    now_s - reporting->wanted_s <= REQUEST_MAX_S;
	gq_lock_release(&reporting->lock);
	return open;
}

/* The clock of who asks may be wrong, so only that of the first request counts, which may be an old
 * one that others have answered. */
static void note_request(struct gq_reporting *reporting, const char *request)
{
	int64_t now_s = gq_clock_wall_s(reporting->options.clock);
	int64_t since_s = asked_s(request);

	gq_lock_take(&reporting->lock);
	if (strcmp(reporting->wanted, request) != 0)
		reporting->wanted_s = reporting->status_seen || since_s < 0 ? now_s : since_s;
	reporting->status_seen = true;
	(void)snprintf(reporting->wanted, sizeof reporting->wanted, "%s", request);
	gq_lock_release(&reporting->lock);
}

static void note_drift(const struct gq_reporting *reporting, const struct gq_recount_result *result)
{
	const struct gq_drift *const drifts[] = {&result->missed, &result->drift};
	struct gq_buf details GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
	size_t n = 0;

	for (size_t d = 0; d < 2; d++) {
		n += drifts[d]->n_limits + drifts[d]->more_limits;
		for (size_t i = 0; i < drifts[d]->n_limits && i < 5; i++)
			gq_buf_printf(&details, "%s%s of %s", details.len ? ", " : "",
				      drifts[d]->limits[i].class_name, drifts[d]->limits[i].tenant);
	}
	for (size_t d = 0; d < 2; d++)
		for (size_t i = 0; i < drifts[d]->n_pods && i < 5; i++)
			gq_buf_printf(&details, "; pod %s", drifts[d]->pods[i]);
	if (n)
		gq_note_ledger_drift(reporting->options.notes, (unsigned)n,
				     details.data ? details.data : "");
}

static void on_recounted(void *arg, const struct gq_recount_result *result)
{
	struct gq_reporting *reporting = arg;
	int64_t now_s = gq_clock_wall_s(reporting->options.clock);

	if (result->code)
		gq_log(GQ_LOG_ERROR, "the recount failed", GQ_S("problem", result->problem));
	/* that of a follower's ledger is in its log */
	if (atomic_load(&reporting->leads))
		note_drift(reporting, result);
	gq_lock_take(&reporting->lock);
	reporting->running = false;
	reporting->recounts++;
	int code = gq_status_recount_take(&reporting->last, reporting->answering, now_s, result);
	gq_lock_release(&reporting->lock);
	if (code)
		gq_log(GQ_LOG_ERROR, "what a recount found is not shown", GQ_I("code", code));
}

static void recount_if_due(struct gq_reporting *reporting, int64_t now_ns)
{
	bool asked = atomic_load(&reporting->leads) && request_is_open(reporting);

	gq_lock_take(&reporting->lock);
	bool start = !reporting->running && (asked || now_ns >= reporting->recount_ns);
	if (start) {
		reporting->running = true;
		/* an answer stays the answer until there is another question */
		memcpy(reporting->answering, asked ? reporting->wanted : reporting->last.request,
		       sizeof reporting->answering);
	}
	gq_lock_release(&reporting->lock);
	if (!start)
		return;
	bool list = asked || (reporting->periodic + 1) % LIST_EVERY == 0;
	if (gq_recounter_start(reporting->recounter, list, on_recounted, reporting)) {
		reporting->recount_ns = now_ns + RECOUNT_EVERY_NS;
		reporting->periodic += !asked;
		return;
	}
	/* the last one is not quite over: at the next tick */
	gq_lock_take(&reporting->lock);
	reporting->running = false;
	gq_lock_release(&reporting->lock);
}

static const struct gq_json_keep annotations_keep[] = {{GQ_STATUS_REQUEST_ANNOTATION, NULL},
						       GQ_JSON_KEEP_END};
static const struct gq_json_keep metadata_keep[] = {{"annotations", annotations_keep},
						    GQ_JSON_KEEP_END};
const struct gq_json_keep gq_reporting_status_keep[] = {{"metadata", metadata_keep},
							GQ_JSON_KEEP_END};

int gq_reporting_status_event(void *arg, const struct gq_event *event, struct gq_err *err)
{
	struct gq_reporting *reporting = arg;
	struct json_object *root = NULL;
	struct gq_field top = {0}, metadata, annotations;
	const char *request = "";

	if (event->kind == GQ_EVENT_DELETE)
		gq_status_writer_gone(reporting->writer);
	if (event->kind != GQ_EVENT_UPSERT)
		return 0;
	int code = gq_field_parse(event->json, event->len, &root, err);
	top.value = root;
	if (!code)
		code = gq_field_object(&top, "metadata", &metadata, err);
	if (!code)
		code = gq_field_object(&metadata, "annotations", &annotations, err);
	if (!code)
		code = gq_field_peek(&annotations, GQ_STATUS_REQUEST_ANNOTATION, &request, err);
	if (!code && strlen(request) <= GQ_STATUS_REQUEST_MAX_BYTES)
		note_request(reporting, request);
	json_object_put(root);
	return code;
}

/* ---- Events about tenants ---- */

static bool told_is(const struct told *told, const char *name, const char *class_name, bool memory)
{
	if (strcmp(told->name, name) != 0 || !told->class_name != !class_name)
		return false;
	return !class_name || (told->memory == memory && strcmp(told->class_name, class_name) == 0);
}

/* Notes that it is so now. Returns whether that is news. */
static bool is_news(struct gq_reporting *reporting, const char *name, const char *class_name,
		    bool memory)
{
	for (size_t i = 0; i < reporting->n_told; i++) {
		if (told_is(&reporting->told[i], name, class_name, memory)) {
			reporting->told[i].still = true;
			return false;
		}
	}
	if (reporting->n_told == TOLD_MAX)
		return false;
	struct told *grown =
	    realloc(reporting->told, (reporting->n_told + 1) * sizeof *reporting->told);
	if (!grown)
		return false;
	reporting->told = grown;
	struct told told = {.name = strdup(name),
			    .class_name = class_name ? strdup(class_name) : NULL,
			    .memory = memory,
			    .still = true};
	if (!told.name || (class_name && !told.class_name)) {
		told_done(&told);
		return false;
	}
	reporting->told[reporting->n_told++] = told;
	return true;
}

static struct gq_limit_note limit_note(const struct gq_usage_tenant *tenant,
				       const struct gq_usage_limit *limit, bool memory)
{
	struct gq_amount held = gq_amount_add(gq_usage_used(limit), limit->used[GQ_STATE_RESERVED]);

	return (struct gq_limit_note){.tenant = tenant->name,
				      .class_name = limit->class_name,
				      .memory = memory,
				      .held = memory ? held.memory_mib : held.shares,
				      .limit =
					  memory ? limit->most.memory_mib : limit->most.shares};
}

static void tell_over(struct gq_reporting *reporting, const struct gq_usage_tenant *tenant,
		      const struct gq_usage_limit *limit, bool memory)
{
	char text[GQ_USAGE_HOLDERS_MAX][600];
	const char *pods[GQ_USAGE_HOLDERS_MAX];
	struct gq_limit_note note = limit_note(tenant, limit, memory);

	if (!is_news(reporting, tenant->name, limit->class_name, memory))
		return;
	/* those that nobody asked us about first: they are the reason */
	for (int unasked = 1; unasked >= 0; unasked--) {
		for (size_t i = 0; i < limit->n_holders && note.n_pods < GQ_USAGE_HOLDERS_MAX;
		     i++) {
			const struct gq_usage_holder *holder = &limit->holders[i];
			if (holder->unasked != (unasked == 1))
				continue;
			(void)snprintf(text[note.n_pods], sizeof text[0], "%s/%s",
				       holder->namespace_, holder->name);
			pods[note.n_pods] = text[note.n_pods];
			note.n_pods++;
		}
		if (unasked)
			note.n_unasked = note.n_pods;
	}
	note.pods = pods;
	if (note.n_pods == GQ_USAGE_HOLDERS_MAX)
		note.n_pods = limit->pods;
	gq_note_tenant_over(reporting->options.notes, &note);
}

/* Of a limit that was passed and is no more, unless it is none any more. */
static void tell_within(const struct gq_reporting *reporting, const struct gq_usage *usage,
			const struct told *told)
{
	for (size_t t = 0; t < usage->n_tenants; t++) {
		const struct gq_usage_tenant *tenant = &usage->tenants[t];
		for (size_t l = 0; l < tenant->n_limits; l++) {
			struct gq_limit_note note =
			    limit_note(tenant, &tenant->limits[l], told->memory);
			if (told_is(told, tenant->name, note.class_name, told->memory) &&
			    note.limit != GQ_UNLIMITED)
				gq_note_tenant_within(reporting->options.notes, &note);
		}
	}
}

/* What was so and is no more. */
static void tell_ended(struct gq_reporting *reporting, const struct gq_usage *usage)
{
	size_t n = 0;

	for (size_t i = 0; i < reporting->n_told; i++) {
		struct told *told = &reporting->told[i];
		if (told->still) {
			reporting->told[n++] = *told;
			continue;
		}
		if (told->class_name)
			tell_within(reporting, usage, told);
		told_done(told);
	}
	reporting->n_told = n;
}

static void look_at_tenants(struct gq_reporting *reporting)
{
	const struct gq_reporting_options *options = &reporting->options;
	struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};
	struct gq_err err;

	if (gq_ledger_usage(options->ledger, gq_clock_mono_ns(options->clock),
			    gq_clock_wall_s(options->clock), &usage, &err) ||
	    gq_ledger_usage_holders(options->ledger, &usage, &err)) {
		gq_log(GQ_LOG_ERROR, "tenants could not be looked at", GQ_S("problem", err.msg));
		return;
	}
	for (size_t i = 0; i < reporting->n_told; i++)
		reporting->told[i].still = false;
	for (size_t t = 0; t < usage.n_tenants; t++) {
		for (size_t l = 0; l < usage.tenants[t].n_limits; l++) {
			const struct gq_usage_limit *limit = &usage.tenants[t].limits[l];
			struct gq_amount over = gq_usage_over(limit);
			if (over.shares)
				tell_over(reporting, &usage.tenants[t], limit, false);
			if (over.memory_mib)
				tell_over(reporting, &usage.tenants[t], limit, true);
		}
	}
	for (size_t i = 0; i < usage.n_uncharged; i++) {
		const struct gq_usage_uncharged *one = &usage.uncharged[i];
		if (one->ambiguous && is_news(reporting, one->namespace_, NULL, false))
			gq_note_namespace_ambiguous(options->notes, one->namespace_, one->first,
						    one->second);
	}
	tell_ended(reporting, &usage);
}

void gq_reporting_tick(struct gq_reporting *reporting, int64_t now_ns)
{
	gq_status_writer_tick(reporting->writer, now_ns);
	if (!gq_ledger_ready(reporting->options.ledger))
		return;
	recount_if_due(reporting, now_ns);
	if (!atomic_load(&reporting->leads) || now_ns < reporting->look_ns)
		return;
	reporting->look_ns = now_ns + LOOK_EVERY_NS;
	look_at_tenants(reporting);
}
