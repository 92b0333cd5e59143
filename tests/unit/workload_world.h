#ifndef GQ_TESTS_UNIT_WORKLOAD_WORLD_H
#define GQ_TESTS_UNIT_WORKLOAD_WORLD_H

/* Workloads as they are judged in the world of ledger_fixture.h. */

#include "fail_alloc.h"
#include "ledger_fixture.h"
#include "workload_testing.h"

#define TEAM_A                                                                                     \
	"tenants:\n"                                                                               \
	"  - name: team-a\n"                                                                       \
	"    namespaces: [a-train, a-serve]\n"

/* A workload in short; everything that is left out has the default in brackets. JSON is written
 * with single quotes. */
struct workload_spec {
	enum gq_workload_kind kind; /* [Deployment] */
	const char *ns;             /* [a-train] */
	const char *fields;         /* of its spec, "'replicas':4" */
	const char *resources;      /* limits of the container, [one GPU] */
	const char *container;      /* further fields of the container */
	const char *pod;            /* further fields of the pod's spec */
	const char *product;        /* nodeSelector nvidia.com/gpu.product; "" none [A100_80] */
	const char *meta;           /* further fields of the object's metadata */
	const char *annotation;     /* of the template */
	bool nameless;
};

static inline struct gq_workload make(const struct workload_spec *spec)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	bool cron = spec->kind == GQ_WORKLOAD_CRON_JOB;
	const char *product = spec->product ? spec->product : A100_80;

	gq_buf_printf(&json, "{'metadata':{'name':'%s','namespace':'%s'%s%s},",
		      spec->nameless ? "" : "web", spec->ns ? spec->ns : "a-train",
		      spec->meta ? "," : "", spec->meta ? spec->meta : "");
	gq_buf_puts(&json, spec->kind == GQ_WORKLOAD_POD_TEMPLATE ? "" : "'spec':{");
	gq_buf_puts(&json, cron ? "'jobTemplate':{'spec':{" : "");
	if (spec->fields)
		gq_buf_printf(&json, "%s,", spec->fields);
	gq_buf_printf(&json, "'template':{'metadata':{'annotations':{'a':'%s'}},'spec':{",
		      spec->annotation ? spec->annotation : "");
	if (*product)
		gq_buf_printf(&json, "'nodeSelector':{'" PRODUCT "':'%s'},", product);
	gq_buf_printf(&json, "'containers':[{'name':'main','resources':{'limits':{%s}}%s%s}]%s%s}}",
		      spec->resources ? spec->resources : "'nvidia.com/gpu':'1'",
		      spec->container ? "," : "", spec->container ? spec->container : "",
		      spec->pod ? "," : "", spec->pod ? spec->pod : "");
	gq_buf_puts(&json, spec->kind == GQ_WORKLOAD_POD_TEMPLATE ? "}" : cron ? "}}}}" : "}}");
	assert_int_equal(json.code, 0);
	return workload_of(spec->kind, json.data);
}

/* How many allocations a judgement gets, -1 any number; whether the last one wanted more. */
static long allocations_left = -1;
static bool out_of_memory;

static inline enum gq_verdict_kind judge_at(struct world *w, const struct workload_spec *spec,
					    const struct workload_spec *before, int64_t deadline_ns)
{
	struct gq_workload now = make(spec), old = {0};
	struct gq_err err = {0};

	if (before)
		old = make(before);
	const struct gq_workload_review review = {.now = &now,
						  .before = before ? &old : NULL,
						  .user = "jane",
						  .now_ns = w->now_ns,
						  .wall_s = w->wall_s,
						  .deadline_ns = deadline_ns,
						  .reads = &w->reads};
	fail_alloc(allocations_left);
	int code = gq_decide_workload(w->ledger, &review, &w->verdict, &err);
	out_of_memory = fail_alloc_done();
	if (code && (!out_of_memory || code != GQ_ENOMEM))
		fail_msg("%s", err.msg);
	gq_workload_done(&now);
	gq_workload_done(&old);
	return code ? GQ_VERDICT_UNAVAILABLE : w->verdict.kind;
}

static inline enum gq_verdict_kind judge(struct world *w, const struct workload_spec *spec,
					 const struct workload_spec *before)
{
	return judge_at(w, spec, before, w->now_ns + 10 * S);
}

static inline enum gq_verdict_kind scale(struct world *w, const struct workload_spec *spec,
					 int64_t pods)
{
	struct gq_workload now = make(spec);
	struct gq_err err = {0};
	const struct gq_workload_review review = {.now = &now,
						  .user = "jane",
						  .now_ns = w->now_ns,
						  .wall_s = w->wall_s,
						  .deadline_ns = w->now_ns + 10 * S,
						  .reads = &w->reads};

	if (gq_decide_scale(w->ledger, &review, pods, &w->verdict, &err))
		fail_msg("%s", err.msg);
	gq_workload_done(&now);
	return w->verdict.kind;
}

#define W(...) (&(struct workload_spec){__VA_ARGS__})

/* Every warning on its line. */
static inline const char *warnings_of(const struct world *w)
{
	static char lines[8192];
	size_t len = 0;

	lines[0] = '\0';
	for (size_t i = 0; i < w->verdict.n_warnings; i++)
		len += (size_t)snprintf(lines + len, sizeof lines - len, "%s%s", i ? "\n" : "",
					w->verdict.warnings[i].data);
	return lines;
}

#define assert_verdict(w, wanted_kind, wanted_reason)                                              \
	do {                                                                                       \
		if ((w)->verdict.kind != (wanted_kind) || (w)->verdict.reason != (wanted_reason))  \
			fail_msg("%d, %s: %s", (w)->verdict.kind,                                  \
				 gq_reason_name((w)->verdict.reason), message_of(w));              \
	} while (0)

/* Allowed without a word. */
static inline void assert_silent(const struct world *w)
{
	if (w->verdict.kind != GQ_VERDICT_ALLOW || w->verdict.n_warnings || w->verdict.audit.len)
		fail_msg("%d, %s: %s\n%s", w->verdict.kind, gq_reason_name(w->verdict.reason),
			 message_of(w), warnings_of(w));
}

#define assert_warned(w, text)                                                                     \
	do {                                                                                       \
		assert_verdict(w, GQ_VERDICT_ALLOW, GQ_REASON_OVER_LIMIT);                         \
		assert_string_equal(warnings_of(w), text);                                         \
	} while (0)

static inline void assert_denied(const struct world *w, enum gq_reason reason, const char *text)
{
	assert_verdict(w, GQ_VERDICT_DENY, reason);
	assert_string_equal(message_of(w), text);
}

#endif
