#include "ledger_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "quota/amount.h"
#include "quota/entry.h"
#include "quota_testing.h"

/* Everything at once: requests, pod events, nodes, namespaces that move, policies, recounts, the
 * journal and readers, each in a thread of its own. Meant for ThreadSanitizer, and checked by an
 * oracle: what the oracle holds for the steady tenant is never more than the ledger does, and the
 * ledger never holds more than the limit. At the end the totals equal what the test itself has
 * counted. */

#define STEADY_LIMIT 5

#define SPACES 400 /* more than a slice of namespaces, so that one is met half-way */
#define BIG 600    /* pods of one namespace: more than are moved under the lock */

/* Tenants in another order and number each time, so that an index kept too long shows. */
#define STEADY                                                                                     \
	"  - {name: steady, namespaces: [s0, s1], quota: {A100: {gpus: 5}, H100: {gpus: 5}}}\n"
#define RED                                                                                        \
	"  - {name: red, namespaceSelector: {matchLabels: {team: red}}, quota: {\"*\": {gpus: "    \
	"9999}}}\n"
#define BLUE                                                                                       \
	"  - {name: blue, namespaceSelector: {matchLabels: {team: blue}}, quota: {A100: {gpus: "   \
	"9999}, H100: {gpus: 9999}}}\n"
#define FILLER(n) "  - {name: filler" n ", namespaces: [f" n "], quota: {L40S: {gpus: 1}}}\n"
static const char *const policies[] = {
    "tenants:\n" STEADY RED BLUE,
    "classes: {AAA: {}, BBB: {parent: AAA}}\n"
    "tenants:\n" FILLER("1") FILLER("2") FILLER("3") FILLER("4") FILLER("5") BLUE RED STEADY,
    "classes: {A0: {match: [{label: pool, values: [x]}]}}\n"
    "tenants:\n" BLUE STEADY "  - {name: top, quota: {\"*\": {gpus: 99999}}}\n" RED,
    ("unassigned: allow\ntenants:\n" STEADY),
};

struct shared {
	struct gq_ledger *ledger;
	struct gq_ledger *successor; /* takes over what is in the journal, all the time */
	struct gq_policy *policies[LEN(policies)];
	uint64_t seed;
	int rounds;
	_Atomic int64_t now_ns;
	atomic_int held[2]; /* GPUs of the steady tenant: A100, H100 */
	atomic_int faults;
	atomic_bool over;
	atomic_uint allowed, refused, crossed;
	/* each owned by one thread; read at the end */
	int team[SPACES]; /* 0 none, 1 red, 2 blue */
	int pods[SPACES];
	int big_team;
};

struct thread {
	struct shared *s;
	int number;
	uint64_t seed;
};

static int64_t tick(struct shared *s)
{
	return atomic_fetch_add(&s->now_ns, GQ_NS_PER_MS);
}

static uint32_t roll(struct thread *t, uint32_t n)
{
	return seed_next(&t->seed) % n;
}

static void check(struct shared *s, bool right, const char *what)
{
	if (!right && atomic_fetch_add(&s->faults, 1) < 10)
		print_error("%s\n", what);
}

static void check_held(struct shared *s)
{
	check(s, atomic_load(&s->held[0]) <= STEADY_LIMIT, "more A100 allowed than the limit");
	check(s, atomic_load(&s->held[1]) <= STEADY_LIMIT, "more H100 allowed than the limit");
}

static void pod_event(struct shared *s, struct pod_spec *spec)
{
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_make(spec);

	check(s, gq_ledger_pod_seen(s->ledger, pod, tick(s), NULL) == 0, "a pod was not taken in");
}

/* Binds the pod to a node; returns the verdict, and its ticket. */
static enum gq_verdict_kind bind(struct shared *s, const struct pod_spec *spec, const char *node,
				 uint64_t *ret_ticket)
{
	struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
	int64_t now = tick(s);
	const struct gq_binding binding = {.namespace_ = spec->ns,
					   .name = spec->name,
					   .uid = spec->uid,
					   .node = node,
					   .now_ns = now,
					   .deadline_ns = now + S};

	check(s, gq_decide_binding(s->ledger, &binding, &verdict, NULL) == 0, "bind");
	*ret_ticket = verdict.ticket;
	return verdict.kind;
}

static const char *const steady_nodes[] = {"a-steady", "h-steady"};

/* Binds a pod of one class to a node of the other, which has to find room there. Returns the class
 * that the oracle holds for it now. */
static int bind_across(struct thread *t, struct pod_spec *spec, int kind)
{
	struct shared *s = t->s;
	uint64_t ticket;
	enum gq_verdict_kind verdict = bind(s, spec, steady_nodes[!kind], &ticket);

	check(s, verdict == GQ_VERDICT_ALLOW || verdict == GQ_VERDICT_DENY, "a binding waits");
	if (verdict != GQ_VERDICT_ALLOW)
		return kind;
	check(s, ticket != 0, "nothing to commit of a binding");
	atomic_fetch_add(&s->held[!kind], spec->gpus);
	check_held(s);
	pod_event(s, spec);
	if (roll(t, 2)) {
		atomic_fetch_sub(&s->held[!kind], spec->gpus);
		gq_ledger_abort(s->ledger, ticket, tick(s));
		return kind;
	}
	gq_ledger_commit(s->ledger, ticket, tick(s));
	atomic_fetch_add(&s->crossed, 1);
	atomic_fetch_sub(&s->held[kind], spec->gpus);
	spec->node = steady_nodes[!kind];
	pod_event(s, spec);
	return !kind;
}

/* One steady pod, from request to end; the oracle counts it for less long than the ledger. */
static void *request(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->s;
	struct gq_reads *reads = calloc(1, sizeof *reads);

	for (int i = 0; i < s->rounds; i++) {
		char name[32], uid[32];
		int gpus = 1 + (int)roll(t, 4), kind = (int)roll(t, 2);
		struct pod_spec spec = {.ns = roll(t, 2) ? "s0" : "s1",
					.name = name,
					.uid = uid,
					.gpus = gpus,
					.product = kind ? H100 : A100_80};
		(void)snprintf(name, sizeof name, "w%d-%d", t->number, i % 3);
		(void)snprintf(uid, sizeof uid, "w%d-%d", t->number, i);
		struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) = pod_make(&spec);
		struct gq_verdict verdict GQ_CLEANUP(gq_verdict_done) = GQ_VERDICT_INIT;
		int64_t now = tick(s);
		const struct gq_create create = {.pod = pod,
						 .request_uid = uid,
						 .user = uid,
						 .dry_run = roll(t, 16) == 0,
						 .now_ns = now,
						 .deadline_ns = now + S,
						 .reads = reads};
		check(s, gq_decide_create(s->ledger, &create, &verdict, NULL) == 0, "no decision");
		check(s, verdict.kind != GQ_VERDICT_READ && verdict.kind != GQ_VERDICT_WAIT,
		      "waits");
		if (verdict.kind != GQ_VERDICT_ALLOW || create.dry_run) {
			atomic_fetch_add(&s->refused, verdict.kind == GQ_VERDICT_DENY);
			continue;
		}
		atomic_fetch_add(&s->allowed, 1);
		atomic_fetch_add(&s->held[kind], gpus);
		check_held(s);
		check(s, verdict.ticket != 0, "nothing to commit");
		if (roll(t, 8) == 0) {
			atomic_fetch_sub(&s->held[kind], gpus);
			gq_ledger_abort(s->ledger, verdict.ticket, tick(s));
			continue;
		}
		gq_ledger_commit(s->ledger, verdict.ticket, tick(s));
		pod_event(s, &spec);
		if (roll(t, 2)) {
			uint64_t ticket;
			check(s,
			      bind(s, &spec, steady_nodes[kind], &ticket) == GQ_VERDICT_ALLOW &&
				  ticket == 0,
			      "a binding within the charge");
			spec.node = steady_nodes[kind];
			pod_event(s, &spec);
		} else if (roll(t, 2)) {
			kind = bind_across(t, &spec, kind);
		}
		atomic_fetch_sub(&s->held[kind], gpus);
		gq_ledger_pod_gone(s->ledger, uid, tick(s));
	}
	free(reads);
	return NULL;
}

/* Pods of other namespaces come and go; many are the first or the last of theirs. */
static void *pod_events(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->s;

	for (int i = 0; i < s->rounds * 4; i++) {
		int space = (int)roll(t, SPACES);
		char ns[16], uid[32], name[16];
		(void)snprintf(ns, sizeof ns, "n%d", space);
		bool more = s->pods[space] == 0 || (s->pods[space] < 3 && roll(t, 2));
		int which = more ? s->pods[space]++ : --s->pods[space];
		(void)snprintf(name, sizeof name, "p%d", which);
		(void)snprintf(uid, sizeof uid, "%s/%s", ns, name);
		struct pod_spec spec = {.ns = ns, .name = name, .uid = uid, .product = A100_80};
		if (more)
			pod_event(s, &spec);
		else
			gq_ledger_pod_gone(s->ledger, uid, tick(s));
		/* pods that may land anywhere: matched again with each change of the nodes */
		struct pod_spec any = {.ns = "nobody", .name = name, .uid = "any"};
		if (roll(t, 16) == 0)
			pod_event(s, &any);
	}
	return NULL;
}

static void *namespace_events(void *arg)
{
	static const char *const labels[] = {"x=1", "team=red", "team=blue"};
	struct thread *t = arg;
	struct shared *s = t->s;

	for (int i = 0; i < s->rounds * 4; i++) {
		int space = (int)roll(t, SPACES), team = (int)roll(t, 3);
		bool big = roll(t, 32) == 0;
		char name[16];
		(void)snprintf(name, sizeof name, "n%d", space);
		struct gq_namespace *ns GQ_CLEANUP(gq_cleanup_namespace) =
		    namespace_make(big ? "big" : name, labels[team]);
		check(s, gq_ledger_namespace_seen(s->ledger, ns, tick(s), NULL) == 0, "namespace");
		if (big)
			s->big_team = team;
		else
			s->team[space] = team;
	}
	return NULL;
}

static void *node_events(void *arg)
{
	static const char *const products[] = {A100_80, A100_40, H100, L40S};
	struct thread *t = arg;
	struct shared *s = t->s;

	for (int i = 0; i < s->rounds; i++) {
		char json[256];
		struct gq_node *node GQ_CLEANUP(gq_cleanup_node) = NULL;
		struct gq_err err;
		int n = (int)roll(t, 300);
		(void)snprintf(
		    json, sizeof json,
		    "{\"metadata\":{\"name\":\"x%d\",\"labels\":{\"" PRODUCT
		    "\":\"%s\"}},\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"8\"}}}",
		    n, products[roll(t, LEN(products))]);
		check(s, gq_node_decode(json, strlen(json), &node, &err) == 0, "a node");
		if (roll(t, 4) == 0)
			gq_ledger_node_gone(s->ledger, node->name);
		else
			check(s, gq_ledger_node_seen(s->ledger, node, NULL) == 0, "a node");
		if (roll(t, 4) == 0)
			check(s, gq_ledger_nodes_settle(s->ledger, tick(s), NULL) == 0, "settling");
	}
	return NULL;
}

/* A list that shows nothing, so that every pod is suspect: the watch tells them all. */
static void compare(struct shared *s)
{
	struct gq_probe probe;

	check(s, gq_ledger_verify_begin(s->ledger, NULL) == 0, "a list begins");
	check(s, gq_ledger_verify_unlisted(s->ledger, NULL) == 0, "a list ends");
	while (gq_ledger_suspect_next(s->ledger, &probe))
		(void)gq_ledger_suspect_agrees(s->ledger, probe.uid, NULL);
	gq_ledger_verify_end(s->ledger);
}

static void *policy_events(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->s;

	for (int i = 0; i < s->rounds / 4; i++) {
		struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};
		if (roll(t, 3) == 0)
			check(s,
			      gq_ledger_recount(s->ledger, tick(s), &drift, NULL) == 0 &&
				  drift.n_limits + drift.n_pods == 0,
			      "drift");
		else if (roll(t, 3) == 0)
			compare(s);
		else
			check(s,
			      gq_ledger_set_policy(s->ledger, s->policies[roll(t, LEN(policies))],
						   tick(s), NULL) == 0,
			      "a policy");
	}
	return NULL;
}

/* The lines of the one ledger into the other. */
static void take_over(struct shared *s)
{
	struct gq_buf lines GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_buf uids GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_unseen unseen;
	size_t n = 0, len;

	check(s, gq_ledger_unseen_print(s->ledger, &lines, &uids, &unseen) == 0, "lines");
	for (const char *at = lines.data; at && *at; at += len + 1, n++) {
		struct gq_entry entry GQ_CLEANUP(gq_entry_done) = {0};
		len = strcspn(at, "\n");
		check(s,
		      gq_entry_decode(at, len, &entry, NULL) == 0 &&
			  gq_ledger_restore(s->successor, &entry, tick(s), NULL) == 0,
		      "a line");
	}
	check(s, n == unseen.n, "as many lines as were told");
	for (char *uid = uids.data, *end; uid && (end = strchr(uid, '\n')); uid = end + 1) {
		*end = '\0';
		gq_ledger_pod_gone(s->successor, uid, tick(s));
	}
}

/* A reservation is taken over while everybody goes on. */
static void haunt(struct thread *t)
{
	struct shared *s = t->s;
	char uid[32]; /* one that is over does not come back */
	(void)snprintf(uid, sizeof uid, "ghost-%u", roll(t, 1u << 30));
	struct gq_pod *pod GQ_CLEANUP(gq_cleanup_pod) =
	    pod_make(SPEC(.ns = "n7", .name = "ghost", .uid = uid, .product = A100_80));
	char user[] = "ghost", node[] = "h-steady", none[] = "";
	const struct gq_entry entry = {
	    .pod = pod, .user = user, .bind_node = roll(t, 2) ? node : none};

	check(s, gq_ledger_restore(s->ledger, &entry, tick(s), NULL) == 0, "restored");
	check(s, gq_ledger_unseen(s->ledger).n > 0, "a restored line");
	if (roll(t, 2))
		check(s, gq_ledger_pod_seen(s->ledger, pod, tick(s), NULL) == 0, "seen");
	gq_ledger_pod_gone(s->ledger, uid, tick(s));
}

static void *journal(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->s;
	struct gq_ended ended[16];

	for (int i = 0; i < s->rounds; i++) {
		take_over(s);
		haunt(t);
		check(s, !gq_ledger_check_watch(s->ledger, tick(s)), "no pod is late");
		while (gq_ledger_ended(s->ledger, ended, LEN(ended)))
			check(s, ended[0].seen && ended[0].uid[0], "what ended was seen");
		gq_ledger_hold_grants(s->ledger, roll(t, 8) == 0);
	}
	gq_ledger_hold_grants(s->ledger, false);
	return NULL;
}

static void *readers(void *arg)
{
	struct thread *t = arg;
	struct shared *s = t->s;

	while (!atomic_load(&s->over)) {
		struct gq_usage usage GQ_CLEANUP(gq_usage_done) = {0};
		struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) =
		    gq_ledger_policy(s->ledger);
		struct gq_probe probes[4];
		check(s, policy && gq_ledger_ready(s->ledger), "ready once is ready for good");
		check(s, gq_ledger_usage(s->ledger, tick(s), 0, &usage, NULL) == 0, "usage");
		for (size_t i = 0; i < usage.n_tenants; i++) {
			const struct gq_usage_tenant *tenant = &usage.tenants[i];
			for (size_t k = 0; k < tenant->n_limits; k++) {
				struct gq_amount used =
				    gq_amount_add(gq_usage_used(&tenant->limits[k]),
						  tenant->limits[k].used[GQ_STATE_RESERVED]);
				check(s,
				      strcmp(tenant->name, "steady") != 0 ||
					  used.shares <= STEADY_LIMIT * GQ_SHARES_PER_GPU,
				      "the ledger is over the limit");
				/* as if, so that holders are looked for */
				tenant->limits[k].most = (struct gq_amount){0, 0};
			}
		}
		check(s, gq_ledger_usage_holders(s->ledger, &usage, NULL) == 0, "holders");
		(void)gq_ledger_probes_due(s->ledger, tick(s), probes, LEN(probes));
	}
	return NULL;
}

static int64_t total_in(struct shared *s, const char *tenant, const char *class_name)
{
	struct gq_usage usage;
	int64_t total = -1;

	assert_int_equal(gq_ledger_usage(s->ledger, tick(s), 0, &usage, NULL), 0);
	for (size_t i = 0; i < usage.n_tenants; i++)
		for (size_t k = 0; k < usage.tenants[i].n_limits; k++) {
			const struct gq_usage_limit *l = &usage.tenants[i].limits[k];
			if (strcmp(usage.tenants[i].name, tenant) == 0 &&
			    strcmp(l->class_name, class_name) == 0)
				total = (gq_usage_used(l).shares + l->used[0].shares) /
					GQ_SHARES_PER_GPU;
		}
	gq_usage_done(&usage);
	return total;
}

static void check_end(struct shared *s)
{
	int expected[3] = {0, 0, 0};
	struct gq_drift drift GQ_CLEANUP(gq_drift_done) = {0};

	expected[s->big_team] += BIG;
	for (int i = 0; i < SPACES; i++)
		expected[s->team[i]] += s->pods[i];
	assert_int_equal(gq_ledger_nodes_settle(s->ledger, tick(s), NULL), 0);
	assert_int_equal(gq_ledger_recount(s->ledger, tick(s), &drift, NULL), 0);
	assert_string_equal(print_drift(&drift), "");
	assert_int_equal(gq_ledger_set_policy(s->ledger, s->policies[0], tick(s), NULL), 0);
	assert_int_equal(total_in(s, "red", "*"), expected[1]);
	assert_int_equal(total_in(s, "blue", "A100"), expected[2]);
	assert_int_equal(total_in(s, "steady", "A100"), 0);
	assert_int_equal(total_in(s, "steady", "H100"), 0);
	assert_int_equal(atomic_load(&s->faults), 0);
	assert_true(atomic_load(&s->allowed) > (unsigned)s->rounds / 10);
	assert_true(atomic_load(&s->crossed) > 0);
	assert_int_equal(gq_ledger_unseen(s->ledger).n, 0);
	assert_int_equal(gq_ledger_unseen(s->ledger).bytes, 0);
}

static void everything_at_once(void **state)
{
	struct world *w = world_with(&(struct gq_ledger_options){.note_ended = true}, policies[0]);
	struct world *successor = world_bare(policies[0]);
	const char *rounds = getenv("GQ_ROUNDS");
	struct shared *s = calloc(1, sizeof *s);
	static void *(*const bodies[])(void *) = {
	    request, request, pod_events, namespace_events, node_events, policy_events, journal};
	struct thread threads[LEN(bodies) + 1];
	pthread_t ids[LEN(bodies) + 1];
	char name[16];

	(void)state;
	assert_non_null(s);
	s->ledger = w->ledger;
	s->successor = successor->ledger;
	s->seed = seed_take("everything_at_once");
	s->rounds = rounds ? (int)strtol(rounds, NULL, 0) : 300;
	s->now_ns = w->now_ns;
	for (size_t i = 0; i < LEN(policies); i++)
		s->policies[i] = policy_make(policies[i]);
	world_node(w, "a-steady", PRODUCT "=" A100_80);
	world_node(w, "h-steady", PRODUCT "=" H100);
	for (int i = 0; i < BIG; i++) {
		(void)snprintf(name, sizeof name, "b%d", i);
		SEEN(w, .ns = "big", .name = name, .product = A100_80);
	}
	gq_ledger_set_synced(w->ledger);
	for (size_t i = 0; i < LEN(threads); i++) {
		threads[i] = (struct thread){.s = s, .number = (int)i, .seed = s->seed + i * 7919};
		assert_int_equal(pthread_create(&ids[i], NULL,
						i < LEN(bodies) ? bodies[i] : readers, &threads[i]),
				 0);
	}
	for (size_t i = 0; i < LEN(bodies); i++)
		assert_int_equal(pthread_join(ids[i], NULL), 0);
	atomic_store(&s->over, true);
	assert_int_equal(pthread_join(ids[LEN(bodies)], NULL), 0);
	print_message("%u allowed, %u refused, %u bound to the other class\n", s->allowed,
		      s->refused, s->crossed);
	check_end(s);
	for (size_t i = 0; i < LEN(policies); i++)
		gq_policy_unref(s->policies[i]);
	assert_pods(successor, "");
	assert_unseen(successor, "");
	free(s);
	world_free(successor);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(everything_at_once)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
