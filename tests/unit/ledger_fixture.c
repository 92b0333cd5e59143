#include "ledger_fixture.h"

#include <time.h>

#include "node_fixture.h"
#include "quota/entry.h"
#include "quota/quantity.h"
#include "quota_testing.h"

#define POLICY_HEAD "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\n"

/* ---- objects ---- */

static const char *or_default(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

const char *pod_uid(const struct pod_spec *spec)
{
	static _Thread_local char uids[8][256];
	static _Thread_local unsigned at;
	char *uid = uids[at++ % LEN(uids)];

	if (spec->uid)
		return spec->uid;
	(void)snprintf(uid, sizeof uids[0], "%s/%s", or_default(spec->ns, "a-train"),
		       or_default(spec->name, "p"));
	return uid;
}

static void print_owner(struct gq_buf *out, const char *owner)
{
	gq_buf_printf(out,
		      ",'ownerReferences':[{'controller':true,'kind':'%.*s','name':'%s',"
		      "'uid':'%s'}]",
		      (int)strcspn(owner, "/"), owner, strchr(owner, '/') + 1, owner);
}

struct gq_pod *pod_make(const struct pod_spec *spec)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	int gpus = spec->gpus || spec->resources ? spec->gpus : 1;

	gq_buf_printf(&out, "{'metadata':{'name':'%s','namespace':'%s','uid':'%s'",
		      or_default(spec->name, "p"), or_default(spec->ns, "a-train"), pod_uid(spec));
	if (spec->terminating)
		gq_buf_puts(&out, ",'deletionTimestamp':'2026-01-01T00:00:00Z'");
	if (spec->owner)
		print_owner(&out, spec->owner);
	gq_buf_puts(&out, "},'spec':{'containers':[{'name':'main','resources':{'limits':{");
	if (gpus)
		gq_buf_printf(&out, "'nvidia.com/gpu':'%d'%s", gpus, spec->resources ? "," : "");
	gq_buf_printf(&out, "%s}}}]", or_default(spec->resources, ""));
	if (spec->product)
		gq_buf_printf(&out, ",'nodeSelector':{'" PRODUCT "':'%s'}", spec->product);
	if (spec->products)
		gq_buf_printf(&out,
			      ",'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnored"
			      "DuringExecution':{'nodeSelectorTerms':[{'matchExpressions':["
			      "{'key':'" PRODUCT "','operator':'In','values':[%s]}]}]}}}",
			      spec->products);
	if (spec->node)
		gq_buf_printf(&out, ",'nodeName':'%s'", spec->node);
	if (spec->spec)
		gq_buf_printf(&out, ",%s", spec->spec);
	gq_buf_printf(&out, "},'status':{'phase':'%s'", or_default(spec->phase, "Pending"));
	if (spec->ready)
		gq_buf_puts(&out, ",'conditions':[{'type':'Ready','status':'True'}]");
	gq_buf_puts(&out, "}}");
	assert_int_equal(out.code, 0);
	return pod_of_text(out.data);
}

struct gq_namespace *namespace_make(const char *name, const char *labels)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct gq_namespace *ns = NULL;
	struct gq_err err;

	gq_buf_printf(&out, "{\"metadata\":{\"name\":\"%s\",\"labels\":{", name);
	fixture_pairs(&out, labels);
	gq_buf_puts(&out, "}}}");
	if (gq_namespace_decode(out.data, out.len, &ns, &err))
		fail_msg("%s", err.msg);
	return ns;
}

struct gq_policy *policy_make(const char *yaml)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_policy *policy = NULL;
	struct gq_policy_problems problems = {0};
	struct gq_err err;

	gq_buf_printf(&out, POLICY_HEAD "%s", yaml);
	if (gq_policy_parse(out.data, out.len, "hash", &policy, &problems, &err)) {
		gq_buf_reset(&out);
		gq_policy_problems_print(&problems, "policy", &out);
		fail_msg("%s", out.data);
	}
	gq_policy_problems_done(&problems);
	return policy;
}

/* ---- the world ---- */

struct world *world_bare(const char *policy)
{
	return world_with(&(struct gq_ledger_options){0}, policy);
}

struct world *world_with(const struct gq_ledger_options *options, const char *policy)
{
	struct world *w = calloc(1, sizeof *w);

	assert_non_null(w);
	w->ledger = gq_ledger_new(options);
	assert_non_null(w->ledger);
	w->now_ns = 1000 * S;
	w->wall_s = 1767225600; /* 2026-01-01 */
	w->verdict = GQ_VERDICT_INIT;
	if (policy)
		world_policy(w, policy);
	return w;
}

struct world *world_new(const char *policy)
{
	struct world *w = world_bare(policy);

	world_fill(w);
	gq_ledger_set_synced(w->ledger);
	return w;
}

void world_fill(struct world *w)
{
	world_node_unsettled(w, "a1", PRODUCT "=" A100_80, "nvidia.com/gpu=8");
	world_node_unsettled(w, "a2", PRODUCT "=" A100_80, "nvidia.com/gpu=8");
	world_node_unsettled(w, "h1", PRODUCT "=" H100, "nvidia.com/gpu=8");
	world_node_unsettled(w, "h2", PRODUCT "=" H100, "nvidia.com/gpu=8");
	world_settle(w);
	world_namespace(w, "a-train", "");
	world_namespace(w, "a-serve", "");
}

unsigned world_recount(struct world *w)
{
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
	struct gq_err err;

	if (gq_ledger_recount(w->ledger, w->now_ns, &drift, &err))
		fail_msg("%s", err.msg);
	return (unsigned)(drift.n_limits + drift.more_limits + drift.n_pods + drift.more_pods);
}

static void print_signed(struct gq_buf *out, int64_t amount,
			 int (*print)(struct gq_buf *out, int64_t amount))
{
	gq_buf_puts(out, amount < 0 ? " -" : " +");
	print(out, amount < 0 ? -amount : amount);
}

const char *print_drift(const struct gq_drift *drift)
{
	static char text[8192];
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(sizeof text - 1);

	for (size_t i = 0; i < drift->n_limits; i++) {
		const struct gq_drift_limit *limit = &drift->limits[i];
		gq_buf_printf(&out, "%s%s %s", i ? ", " : "", limit->tenant, limit->class_name);
		print_signed(&out, limit->shares, gq_shares_print);
		print_signed(&out, limit->memory_mib, gq_mib_print);
	}
	if (drift->more_limits)
		gq_buf_printf(&out, " and %zu more", drift->more_limits);
	if (drift->n_pods)
		gq_buf_puts(&out, "; pods");
	for (size_t i = 0; i < drift->n_pods; i++)
		gq_buf_printf(&out, " %s", drift->pods[i]);
	if (drift->more_pods)
		gq_buf_printf(&out, " and %zu more", drift->more_pods);
	assert_int_equal(out.code, 0);
	(void)snprintf(text, sizeof text, "%s", out.data ? out.data : "");
	return text;
}

const char *drift_of(struct world *w)
{
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
	struct gq_err err;

	if (gq_ledger_recount(w->ledger, w->now_ns, &drift, &err))
		fail_msg("%s", err.msg);
	return print_drift(&drift);
}

void world_free(struct world *w)
{
	if (!w->drift_expected)
		assert_int_equal(world_recount(w), 0);
	gq_verdict_done(&w->verdict);
	gq_reads_done(&w->reads);
	gq_ledger_free(w->ledger);
	free(w);
}

void world_policy(struct world *w, const char *yaml)
{
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = policy_make(yaml);
	struct gq_err err;

	if (gq_ledger_set_policy(w->ledger, policy, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

void world_node_unsettled(struct world *w, const char *name, const char *labels,
			  const char *resources)
{
	struct gq_node *node GQ_CLEANUP(gq_cleanup_node) =
	    fixture_node(name, labels, resources, "");
	struct gq_err err;

	assert_non_null(node);
	if (gq_ledger_node_seen(w->ledger, node, &err))
		fail_msg("%s", err.msg);
}

void world_settle(struct world *w)
{
	struct gq_err err;

	if (gq_ledger_nodes_settle(w->ledger, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

void world_node(struct world *w, const char *name, const char *labels)
{
	world_node_unsettled(w, name, labels, "nvidia.com/gpu=8");
	world_settle(w);
}

void world_node_gone(struct world *w, const char *name)
{
	gq_ledger_node_gone(w->ledger, name);
	world_settle(w);
}

void world_namespace(struct world *w, const char *name, const char *labels)
{
	struct gq_namespace *ns GQ_CLEANUP(gq_cleanup_namespace) = namespace_make(name, labels);
	struct gq_err err;

	if (gq_ledger_namespace_seen(w->ledger, ns, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

void world_pass(struct world *w, int64_t ns)
{
	w->now_ns += ns;
	w->wall_s += ns / S;
}

enum gq_verdict_kind world_propose(struct world *w, const struct pod_spec *spec,
				   const struct ask *ask)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_make(spec);
	struct gq_err err = {0};
	char request[32];

	(void)snprintf(request, sizeof request, "request-%u", w->requests++);
	const struct gq_create create = {.pod = pod,
					 .request_uid = or_default(ask->request_uid, request),
					 .user = or_default(ask->user, "jane"),
					 .dry_run = ask->dry_run,
					 .now_ns = w->now_ns,
					 .wall_s = w->wall_s,
					 .deadline_ns = w->now_ns + (ask->late ? 0 : 10 * S),
					 .reads = &w->reads};
	gq_verdict_done(&w->verdict);
	if (gq_decide_create(w->ledger, &create, &w->verdict, &err))
		fail_msg("%s", err.msg);
	w->ticket = w->verdict.kind == GQ_VERDICT_ALLOW ? w->verdict.ticket : 0;
	return w->verdict.kind;
}

void world_commit(struct world *w)
{
	gq_ledger_commit(w->ledger, w->ticket, w->now_ns);
}

enum gq_verdict_kind world_ask(struct world *w, const struct pod_spec *spec, const struct ask *ask)
{
	enum gq_verdict_kind kind = world_propose(w, spec, ask);

	if (w->ticket)
		world_commit(w);
	return kind;
}

void world_seen(struct world *w, const struct pod_spec *spec)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_make(spec);
	struct gq_err err;

	if (gq_ledger_pod_seen(w->ledger, pod, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

void world_gone(struct world *w, const struct pod_spec *spec)
{
	gq_ledger_pod_gone(w->ledger, pod_uid(spec), w->now_ns);
}

enum gq_verdict_kind world_bind(struct world *w, const struct pod_spec *spec, const char *node,
				bool legacy)
{
	enum gq_verdict_kind kind = world_propose_bind(w, spec, node, legacy);

	if (w->ticket)
		world_commit(w);
	return kind;
}

enum gq_verdict_kind world_propose_bind(struct world *w, const struct pod_spec *spec,
					const char *node, bool legacy)
{
	struct gq_err err = {0};
	const struct gq_binding binding = {.namespace_ = or_default(spec->ns, "a-train"),
					   .name = or_default(spec->name, "p"),
					   .uid = legacy ? "" : pod_uid(spec),
					   .node = node,
					   .now_ns = w->now_ns,
					   .wall_s = w->wall_s,
					   .deadline_ns = w->now_ns + 3 * S};

	gq_verdict_done(&w->verdict);
	if (gq_decide_binding(w->ledger, &binding, &w->verdict, &err))
		fail_msg("%s", err.msg);
	w->ticket = w->verdict.kind == GQ_VERDICT_ALLOW ? w->verdict.ticket : 0;
	return w->verdict.kind;
}

void world_abort(struct world *w)
{
	gq_ledger_abort(w->ledger, w->ticket, w->now_ns);
}

const char *message_of(const struct world *w)
{
	return w->verdict.message.data ? w->verdict.message.data : "";
}

/* ---- usage ---- */

static void usage_take(struct world *w, struct gq_usage *ret_usage)
{
	struct gq_err err;

	if (gq_ledger_usage(w->ledger, w->now_ns, w->wall_s, ret_usage, &err))
		fail_msg("%s", err.msg);
}

static const char *print_usage(struct world *w, const char *tenant, const char *class_name,
			       bool memory)
{
	static char text[256];
	struct gq_usage usage GQ_CLEANUP(gq_usage_done);
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(sizeof text - 1);

	usage_take(w, &usage);
	for (size_t t = 0; t < usage.n_tenants; t++) {
		for (size_t i = 0; i < usage.tenants[t].n_limits; i++) {
			const struct gq_usage_limit *limit = &usage.tenants[t].limits[i];
			int64_t total = 0, by[GQ_STATES];
			if (strcmp(usage.tenants[t].name, tenant) != 0 ||
			    strcmp(limit->class_name, class_name) != 0)
				continue;
			for (int s = 0; s < GQ_STATES; s++) {
				by[s] = memory ? limit->used[s].memory_mib : limit->used[s].shares;
				total += by[s];
			}
			int (*print)(struct gq_buf *, int64_t) =
			    memory ? gq_mib_print : gq_shares_print;
			print(&out, total);
			gq_buf_puts(&out, "/");
			print(&out, memory ? limit->most.memory_mib : limit->most.shares);
			gq_buf_puts(&out, " b");
			print(&out, by[GQ_STATE_BOUND]);
			gq_buf_puts(&out, " p");
			print(&out, by[GQ_STATE_PENDING]);
			gq_buf_puts(&out, " r");
			print(&out, by[GQ_STATE_RESERVED]);
			gq_buf_puts(&out, " t");
			print(&out, by[GQ_STATE_TERMINATING]);
		}
	}
	assert_int_equal(out.code, 0);
	(void)snprintf(text, sizeof text, "%s", out.data ? out.data : "no such limit");
	return text;
}

const char *usage_of(struct world *w, const char *tenant, const char *class_name)
{
	return print_usage(w, tenant, class_name, false);
}

const char *memory_of(struct world *w, const char *tenant, const char *class_name)
{
	return print_usage(w, tenant, class_name, true);
}

const char *unready_of(struct world *w, const char *tenant, const char *class_name)
{
	static char text[128];
	struct gq_usage usage GQ_CLEANUP(gq_usage_done);
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(sizeof text - 1);

	usage_take(w, &usage);
	for (size_t t = 0; t < usage.n_tenants; t++) {
		for (size_t i = 0; i < usage.tenants[t].n_limits; i++) {
			const struct gq_usage_limit *limit = &usage.tenants[t].limits[i];
			if (strcmp(usage.tenants[t].name, tenant) != 0 ||
			    strcmp(limit->class_name, class_name) != 0)
				continue;
			gq_shares_print(&out, limit->unready.shares);
			gq_buf_puts(&out, " ");
			gq_mib_print(&out, limit->unready.memory_mib);
		}
	}
	assert_int_equal(out.code, 0);
	(void)snprintf(text, sizeof text, "%s", out.data ? out.data : "no such limit");
	return text;
}

const char *pods_of(struct world *w)
{
	static char text[128];
	struct gq_usage usage GQ_CLEANUP(gq_usage_done);
	size_t len = 0;

	text[0] = '\0';
	usage_take(w, &usage);
	for (int s = 0; s < GQ_STATES; s++)
		if (usage.charges[s])
			len += (size_t)snprintf(text + len, sizeof text - len, "%s%zu %s",
						len ? ", " : "", usage.charges[s],
						gq_charge_state_name((enum gq_charge_state)s));
	return text;
}

/* ---- questions about reservations ---- */

static int by_uid(const void *a, const void *b)
{
	return strcmp(((const struct gq_probe *)a)->uid, ((const struct gq_probe *)b)->uid);
}

const char *probes_of(struct world *w)
{
	static char text[1024];
	struct gq_probe probes[16];
	size_t n = gq_ledger_probes_due(w->ledger, w->now_ns, probes, LEN(probes)), len = 0;

	text[0] = '\0';
	qsort(probes, n, sizeof probes[0], by_uid);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i ? " " : "",
					probes[i].uid);
	return text;
}

void world_probed(struct world *w, const struct pod_spec *spec, enum gq_probe_outcome outcome,
		  const struct pod_spec *found, int64_t begun_ns)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = found ? pod_make(found) : NULL;
	struct gq_err err;

	if (gq_ledger_probe_done(w->ledger, pod_uid(spec), outcome, pod, begun_ns, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

/* ---- what the journal must hold ---- */

#define LINES_MAX_BYTES (1u << 20)

static struct gq_unseen print_unseen(struct world *w, struct gq_buf *lines, struct gq_buf *uids)
{
	struct gq_unseen unseen;

	assert_int_equal(gq_ledger_unseen_print(w->ledger, lines, uids, &unseen), 0);
	return unseen;
}

/* Decodes each line and hands it over. */
static void each_line(const struct gq_buf *lines, void *arg,
		      void (*visit)(void *arg, const struct gq_entry *entry))
{
	for (const char *at = lines->data; at && *at;) {
		struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
		struct gq_err err;
		size_t len = strcspn(at, "\n");
		if (gq_entry_decode(at, len, &entry, &err))
			fail_msg("%.*s: %s", (int)len, at, err.msg);
		visit(arg, &entry);
		at += len + (at[len] != '\0');
	}
}

static void name_entry(void *arg, const struct gq_entry *entry)
{
	struct gq_buf *out = arg;

	gq_buf_printf(out, "%s%s%s%s", out->len ? " " : "", entry->pod->uid,
		      *entry->bind_node ? ">" : "", entry->bind_node);
}

static size_t count_lines(const struct gq_buf *text)
{
	size_t n = 0;

	for (const char *at = text->data; at && *at; at++)
		n += *at == '\n';
	return n;
}

const char *unseen_of(struct world *w)
{
	static char text[64u << 10];
	struct gq_buf lines GQ_BUF_CLEANUP = GQ_BUF_INIT(LINES_MAX_BYTES);
	struct gq_buf uids GQ_BUF_CLEANUP = GQ_BUF_INIT(LINES_MAX_BYTES);
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(LINES_MAX_BYTES);
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(sizeof text - 1);
	struct gq_unseen unseen = print_unseen(w, &lines, &uids),
			 told = gq_ledger_unseen(w->ledger);

	each_line(&lines, &out, name_entry);
	assert_int_equal(count_lines(&lines), unseen.n);
	assert_int_equal(count_lines(&uids), unseen.n);
	gq_buf_json_string(&json, lines.data ? lines.data : "", lines.len);
	assert_int_equal(json.len - 2, unseen.bytes); /* without the quotes */
	assert_memory_equal(&unseen, &told, sizeof told);
	(void)snprintf(text, sizeof text, "%s", out.data ? out.data : "");
	return text;
}

static void restore_entry(void *arg, const struct gq_entry *entry)
{
	struct world *w = arg;
	struct gq_err err;

	if (gq_ledger_restore(w->ledger, entry, w->now_ns, &err))
		fail_msg("%s", err.msg);
}

void world_restore(struct world *w, struct world *from)
{
	struct gq_buf lines GQ_BUF_CLEANUP = GQ_BUF_INIT(LINES_MAX_BYTES);

	(void)print_unseen(from, &lines, NULL);
	each_line(&lines, w, restore_entry);
}

void restore_line(struct world *w, const struct pod_spec *spec, const char *user, const char *node)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_make(spec);
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINES_MAX_BYTES);

	assert_int_equal(gq_entry_print(&line, pod, user, node), 0);
	each_line(&line, w, restore_entry);
}

/* ---- chance ---- */

uint64_t seed_take(const char *test)
{
	const char *given = getenv("GQ_SEED");
	uint64_t seed = 20261130;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (given && strcmp(given, "random") == 0)
		seed = (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec;
	else if (given)
		seed = strtoull(given, NULL, 0);
	print_message("%s: GQ_SEED=%llu\n", test, (unsigned long long)seed);
	return seed;
}

uint32_t seed_next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33);
}
