#include "naive_ledger.h"

#include "quota/amount.h"
#include "quota_testing.h"

/* A random life of a cluster, told to the ledger and to one that knows nothing of how that works.
 * Every verdict, every total and the set of lines for the journal must be the same. Now and then
 * another ledger takes over, from a list and those lines, and life goes on with that. $GQ_SEED
 * repeats a run, $GQ_ROUNDS makes it longer. */

static int roll(struct model *m, int n)
{
	return (int)(seed_next(&m->seed) % (uint32_t)n);
}

/* ---- events ---- */

static struct pod_spec spec_of(const struct mpod *pod)
{
	static const char *const spaces[] = {"ns0", "ns1", "ns2", "ns3"};
	static const char *const names[] = {"p0", "p1", "p2", "p3", "p4"};
	static const char *const nodes[] = {"n0", "n1", "n2", "n3", "n4", "n5"};
	struct pod_spec spec = {.ns = spaces[pod->space],
				.name = names[pod->name],
				.uid = pod->uid,
				.gpus = pod->gpus,
				.phase = pod->running ? "Running" : "Pending",
				.ready = pod->ready,
				.terminating = pod->dying};

	if (pod->node != NOTHING)
		spec.node = nodes[pod->node];
	if (pod->choice <= OF_H80)
		spec.product = products[pod->choice];
	if (pod->choice == OF_A80_OR_H80)
		spec.products = "'" A100_80 "','" H100 "'";
	return spec;
}

static struct mpod *some_pod(struct model *m, bool charged, bool exists)
{
	int start = roll(m, PODS);

	for (int i = 0; i < PODS; i++) {
		struct mpod *pod = &m->pods[(start + i) % PODS];
		if (pod->charged == charged && pod->exists == exists)
			return pod;
	}
	return NULL;
}

static struct mpod some_new_pod(struct model *m)
{
	struct mpod pod = {.space = roll(m, SPACES),
			   .name = roll(m, NAMES),
			   .gpus = 1 + roll(m, 4),
			   .choice = (enum choice)roll(m, CHOICES),
			   .node = NOTHING,
			   .seen_node = NOTHING,
			   .bind = NOTHING,
			   .line_bind = NOTHING};

	(void)snprintf(pod.uid, sizeof pod.uid, "uid-%u", m->serial++);
	return pod;
}

/* Nothing can be granted now, and the ledger says so. */
static bool blocked(struct model *m, enum gq_verdict_kind kind)
{
	if (!m->held && !m->lags)
		return false;
	assert_true(kind == GQ_VERDICT_UNAVAILABLE || kind == GQ_VERDICT_DENY);
	assert_int_equal(m->w->verdict.reason, m->held ? GQ_REASON_JOURNAL : GQ_REASON_WATCH_LAGS);
	m->blocked++;
	return true;
}

static void do_create(struct model *m)
{
	struct mpod *pod = some_pod(m, false, false);
	int64_t before[LEN(m->rules->limits)][2];
	char user[32];

	if (!pod)
		return;
	*pod = some_new_pod(m);
	(void)snprintf(user, sizeof user, "user-%u", m->serial);
	struct pod_spec spec = spec_of(pod);
	bool dry_run = roll(m, 8) == 0;
	const struct mspace *space = &m->spaces[pod->space];
	const struct tenant *tenant = tenant_of(m, space->tenant);
	bool clear = space->seen && (!space->red || !space->blue || !tenant_of(m, "blue"));

	totals(m, before);
	enum gq_verdict_kind kind =
	    world_propose(m->w, &spec, &(struct ask){.user = user, .dry_run = dry_run});
	if (!space->seen) {
		assert_int_equal(kind, GQ_VERDICT_READ);
		gq_reads_done(&m->w->reads);
		return;
	}
	if (!tenant || !clear) {
		assert_int_equal(kind, GQ_VERDICT_DENY);
		return;
	}
	pod->charged = true;
	pod->state = GQ_STATE_RESERVED;
	bool expected = fits(m, (const int64_t(*)[2])before);
	if (expected && !dry_run && blocked(m, kind)) {
		pod->charged = false;
		return;
	}
	if (kind != (expected ? GQ_VERDICT_ALLOW : GQ_VERDICT_DENY))
		fail_msg("%s: %s", expected ? "refused" : "allowed", message_of(m->w));
	pod->charged = expected && !dry_run;
	pod->admitted = all_leaves_of(m, pod);
	m->allowed += expected;
	m->refused += !expected;
	pod->proposed = pod->line = pod->charged;
	pod->ticket = m->w->ticket;
	assert_true(!pod->charged || pod->ticket);
}

/* The binding did not come to pass, or was not answered. */
static void unbound(struct mpod *pod)
{
	pod->bind = NOTHING;
	pod->line_binds = false;
	if (pod->watched) {
		pod->line = false;
		pod->ticket = 0;
	}
}

static void do_commit(struct model *m)
{
	for (int p = 0; p < PODS; p++) {
		struct mpod *pod = &m->pods[p];
		if (!pod->charged || !pod->ticket || roll(m, 3) == 0)
			continue;
		bool abort = roll(m, 8) == 0;
		if (abort)
			gq_ledger_abort(m->w->ledger, pod->ticket, m->w->now_ns);
		else
			gq_ledger_commit(m->w->ledger, pod->ticket, m->w->now_ns);
		if (abort && pod->proposed)
			pod->charged = false;
		else if (abort)
			unbound(pod);
		if (!abort)
			pod->answered_ns = m->w->now_ns;
		if (!abort && pod->proposed)
			pod->exists = roll(m, 5) != 0; /* or refused after us */
		pod->proposed = false;
		pod->ticket = 0;
	}
}

/* The ledger has learnt the pod's present state. */
static void shown(struct mpod *pod)
{
	pod->charged = true;
	pod->proposed = false;
	pod->seen_node = pod->node;
	pod->seen_unready = pod->node != NOTHING && pod->running && !pod->ready && !pod->dying;
	pod->state = pod->dying             ? GQ_STATE_TERMINATING
		     : pod->node != NOTHING ? GQ_STATE_BOUND
					    : GQ_STATE_PENDING;
	if (pod->node != NOTHING)
		pod->bind = NOTHING;
	if (pod->bind == NOTHING || !pod->line_binds) {
		pod->line = false;
		pod->ticket = 0;
	}
}

static void see(struct model *m, struct mpod *pod)
{
	struct pod_spec spec = spec_of(pod);

	bool fresh = !pod->charged;

	world_seen(m->w, &spec);
	pod->watched = true;
	shown(pod);
	if (fresh)
		pod->admitted = all_leaves_of(m, pod);
}

/* A pod that nobody was asked about. */
static void do_stray(struct model *m)
{
	struct mpod *pod = some_pod(m, false, false);

	if (!pod || roll(m, 4))
		return;
	*pod = some_new_pod(m);
	pod->exists = true;
	see(m, pod);
}

static void do_pod_event(struct model *m)
{
	struct mpod *pod = some_pod(m, roll(m, 4) != 0, true);

	if (!pod)
		return;
	struct pod_spec spec = spec_of(pod);
	switch (roll(m, 10)) {
	case 0:
	case 1:
		if (pod->node == NOTHING)
			pod->node = pod->bind != NOTHING ? pod->bind : roll(m, NODES);
		see(m, pod);
		break;
	case 2:
		pod->dying = true;
		see(m, pod);
		break;
	case 3:
	case 4:
		pod->exists = pod->charged = false;
		if (roll(m, 3) == 0) {
			spec.phase = "Succeeded";
			world_seen(m->w, &spec);
		} else {
			world_gone(m->w, &spec);
		}
		break;
	case 5:
	case 6:
	case 7:
		pod->running = pod->node != NOTHING;
		pod->ready = pod->running && roll(m, 2);
		see(m, pod);
		break;
	default:
		see(m, pod);
	}
}

static void do_bind(struct model *m)
{
	struct mpod *pod = some_pod(m, true, true);
	int64_t before[LEN(m->rules->limits)][2];

	if (!pod || pod->seen_node != NOTHING)
		return;
	struct pod_spec spec = spec_of(pod);
	char node[8];
	int old = pod->bind, n = roll(m, NODES);
	bool charged_to_somebody = tenant_of(m, m->spaces[pod->space].tenant) != NULL;
	(void)snprintf(node, sizeof node, "n%d", n);
	/* what new nodes have added since it was allowed is not its by right */
	pod->mask = pod->admitted;
	totals(m, before);
	unsigned had = leaves_of(m, pod), adds = leaves_on(m, n);
	pod->mask |= adds;
	pod->bind = n;
	/* what an earlier binding was allowed for is held until this one replaces it */
	bool expected = !charged_to_somebody || fits(m, (const int64_t(*)[2])before);
	enum gq_verdict_kind kind = world_propose_bind(m->w, &spec, node, false);
	unsigned admitted = pod->mask;
	pod->mask = 0;
	pod->bind = old;
	if (charged_to_somebody && pod->ticket) {
		assert_int_equal(kind, GQ_VERDICT_WAIT);
		return;
	}
	/* one that is on its way stays, and lets no other in beside it that needs more */
	bool earlier = charged_to_somebody && expected && pod->line_binds && old != NOTHING;
	/* classes that only one policy has are none of the model's business */
	bool within = had >> REST & 1 ? !(adds >> REST & 1) : !(adds & ~had);
	bool unsure = had >> REST & adds >> REST & 1;
	if (earlier) {
		if (!unsure && kind != (within ? GQ_VERDICT_ALLOW : GQ_VERDICT_DENY))
			fail_msg("binding beside another: %s", message_of(m->w));
		assert_true(!m->w->ticket);
		return;
	}
	if (expected && charged_to_somebody && !within && kind != GQ_VERDICT_ALLOW &&
	    blocked(m, kind))
		return;
	if (kind != (expected ? GQ_VERDICT_ALLOW : GQ_VERDICT_DENY))
		fail_msg("binding %s: %s", expected ? "refused" : "allowed", message_of(m->w));
	if (!expected || !charged_to_somebody)
		return;
	if (!unsure && within == (m->w->ticket != 0))
		fail_msg("binding of %s to n%d: %s", pod->uid, n,
			 within ? "a ticket" : "no ticket");
	pod->admitted = admitted;
	pod->bind = n;
	pod->answered_ns = m->w->now_ns;
	if (!m->w->ticket)
		return;
	pod->ticket = m->w->ticket;
	pod->line = pod->line_binds = true;
	pod->line_bind = n;
	m->stored_bindings++;
}

static void do_probes(struct model *m)
{
	struct gq_probe probes[PODS];
	size_t n;

	if (roll(m, 3) == 0)
		world_pass(m->w, 61 * S);
	else
		world_pass(m->w, roll(m, 3000) * GQ_NS_PER_MS);
	n = gq_ledger_probes_due(m->w->ledger, m->w->now_ns, probes, LEN(probes));
	for (size_t i = 0; i < n; i++) {
		struct mpod *pod = m->pods;
		while (strcmp(pod->uid, probes[i].uid) != 0)
			pod++;
		assert_true(pod->charged && !pod->proposed);
		struct pod_spec spec = spec_of(pod);
		bool over = m->w->now_ns >= pod->answered_ns + 60 * S;
		if (roll(m, 6) == 0) {
			world_probed(m->w, &spec, GQ_PROBE_FAILED, NULL, m->w->now_ns);
			continue;
		}
		world_probed(m->w, &spec, pod->exists ? GQ_PROBE_FOUND : GQ_PROBE_ABSENT,
			     pod->exists ? &spec : NULL, m->w->now_ns);
		if (!pod->exists) {
			assert_false(pod->watched);
			pod->charged = !over && pod->state == GQ_STATE_RESERVED;
			continue;
		}
		if (!pod->watched)
			shown(pod);
		if (over && pod->node == NOTHING && pod->bind != NOTHING)
			unbound(pod);
	}
}

static void show_node(const struct mnode *node, int n, struct world *w)
{
	char name[8], labels[128] = "";

	(void)snprintf(name, sizeof name, "n%d", n);
	if (node->label != NOTHING)
		(void)snprintf(labels, sizeof labels, PRODUCT "=%s", products[node->label]);
	if (node->exists)
		world_node_unsettled(w, name, labels, "nvidia.com/gpu=8");
}

static void do_node(struct model *m)
{
	int n = roll(m, NODES), label = roll(m, 5) - 1;
	struct mnode *node = &m->nodes[n];
	char name[8];

	if (label >= REST)
		label = node->label;
	(void)snprintf(name, sizeof name, "n%d", n);
	if (roll(m, 4) == 0) {
		gq_ledger_node_gone(m->w->ledger, name);
		if (node->exists && node->label != NOTHING)
			node->evidence = node->label;
		node->exists = false;
		node->label = NOTHING;
	} else {
		if (node->label != NOTHING)
			node->evidence = node->label;
		if (label != NOTHING)
			node->evidence = NOTHING;
		node->label = label;
		node->exists = true;
		show_node(node, n, m->w);
	}
	node->known = true;
}

static void settled(struct model *m)
{
	for (int n = 0; n < NODES; n++) {
		struct mnode *node = &m->nodes[n];
		node->snap_exists = node->exists;
		node->snap_known = node->known;
		node->snap_label = node->label;
		node->snap_reading = node->label != NOTHING ? node->label : node->evidence;
	}
}

static void do_settle(struct model *m)
{
	world_settle(m->w);
	settled(m);
}

static void assign(struct model *m, struct mspace *space)
{
	bool red = space->red && tenant_of(m, "red"), blue = space->blue && tenant_of(m, "blue");

	if (space->seen && !(red && blue))
		space->tenant = red ? "red" : blue ? "blue" : NULL;
	else if (!tenant_of(m, space->tenant))
		space->tenant = NULL;
}

static void show_space(const struct mspace *space, int s, struct world *w)
{
	char name[8];

	(void)snprintf(name, sizeof name, "ns%d", s);
	if (space->seen)
		world_namespace(w, name,
				space->red && space->blue ? "blue=1,red=1"
				: space->red              ? "red=1"
				: space->blue             ? "blue=1"
							  : "x=1");
}

static void tell_space(struct model *m, int s, bool red, bool blue)
{
	struct mspace *space = &m->spaces[s];

	space->red = red;
	space->blue = blue;
	space->seen = true;
	show_space(space, s, m->w);
	assign(m, space);
}

static void do_space(struct model *m)
{
	int s = roll(m, SPACES);
	char name[8];

	(void)snprintf(name, sizeof name, "ns%d", s);
	if (roll(m, 5)) {
		bool red = roll(m, 2);
		tell_space(m, s, red, roll(m, 3) == 0);
		return;
	}
	gq_ledger_namespace_gone(m->w->ledger, name);
	m->spaces[s].seen = false;
	assign(m, &m->spaces[s]);
}

static void do_policy(struct model *m)
{
	m->rules = &rules[roll(m, LEN(rules))];
	world_policy(m->w, m->rules->yaml);
	for (int s = 0; s < SPACES; s++)
		assign(m, &m->spaces[s]);
	do_settle(m); /* a policy takes the nodes as they are */
}

static void do_list(struct model *m)
{
	gq_ledger_list_begin(m->w->ledger, GQ_PODS);
	for (int p = 0; p < PODS; p++) {
		struct mpod *pod = &m->pods[p];
		if (pod->exists && roll(m, 8) == 0)
			pod->exists = pod->dying = false; /* deleted unseen */
		if (pod->exists)
			see(m, pod);
		else if (pod->watched)
			pod->charged = false;
	}
	assert_int_equal(gq_ledger_list_end(m->w->ledger, GQ_PODS, m->w->now_ns, NULL), 0);
}

static void do_hold(struct model *m)
{
	m->held = roll(m, 4) == 0;
	gq_ledger_hold_grants(m->w->ledger, m->held);
}

static void do_check_watch(struct model *m)
{
	m->lags = false;
	for (int p = 0; p < PODS; p++) {
		const struct mpod *pod = &m->pods[p];
		m->lags |= pod->charged && !pod->watched && pod->state != GQ_STATE_RESERVED &&
			   m->w->now_ns - pod->answered_ns > 5 * S;
	}
	assert_true(gq_ledger_check_watch(m->w->ledger, m->w->now_ns) == m->lags);
}

/* ---- another ledger takes over ---- */

/* The nodes and namespaces as a process that starts now finds them: what a node was is forgotten.
 */
static void show_cluster(struct model *m, struct world *next)
{
	for (int n = 0; n < NODES; n++)
		show_node(&m->nodes[n], n, next);
	for (int s = 0; s < SPACES; s++)
		show_space(&m->spaces[s], s, next);
}

static void show_pods(struct model *m, struct world *next)
{
	gq_ledger_list_begin(next->ledger, GQ_PODS);
	for (int p = 0; p < PODS; p++) {
		struct pod_spec spec = spec_of(&m->pods[p]);
		if (m->pods[p].exists)
			world_seen(next, &spec);
	}
	assert_int_equal(gq_ledger_list_end(next->ledger, GQ_PODS, next->now_ns, NULL), 0);
}

/* What a pod is to the successor. */
static void succeed(struct model *m, struct mpod *pod)
{
	int bind = pod->line && pod->node == NOTHING ? pod->line_bind : NOTHING;

	pod->charged = pod->exists || pod->line;
	pod->watched = pod->exists;
	pod->proposed = pod->probing = false;
	pod->state = GQ_STATE_RESERVED;
	pod->ticket = 0;
	pod->bind = bind;
	pod->line_binds = bind != NOTHING;
	pod->answered_ns = m->w->now_ns;
	if (pod->exists)
		shown(pod);
	if (pod->charged)
		pod->admitted = all_leaves_of(m, pod);
}

static void do_takeover(struct model *m)
{
	struct world *next = world_bare(NULL);
	int64_t old[LEN(m->rules->limits)][2], new[LEN(m->rules->limits)][2];
	bool lines_first = roll(m, 2), policy_last = roll(m, 2);

	for (int s = 0; s < SPACES; s++) /* or it would be told by nobody whose they are */
		if (!m->spaces[s].seen || (m->spaces[s].red && m->spaces[s].blue))
			tell_space(m, s, roll(m, 2), false);
	do_settle(m);
	world_pass(next, m->w->now_ns - next->now_ns);
	if (!policy_last)
		world_policy(next, m->rules->yaml);
	if (lines_first)
		world_restore(next, m->w);
	show_cluster(m, next);
	show_pods(m, next);
	if (!lines_first)
		world_restore(next, m->w);
	if (policy_last)
		world_policy(next, m->rules->yaml);
	world_settle(next);
	gq_ledger_set_synced(next->ledger);

	/* whatever counted is counted still: but what is gone, and bindings within the charge */
	struct model before = *m;
	for (int p = 0; p < PODS; p++) {
		struct mpod *pod = &before.pods[p];
		pod->charged = pod->charged && (pod->exists || pod->line);
		if (pod->bind != pod->line_bind || !pod->line)
			pod->bind = NOTHING;
	}
	totals(&before, old);
	for (int n = 0; n < NODES; n++) {
		m->nodes[n].evidence = NOTHING;
		m->nodes[n].known = m->nodes[n].exists;
	}
	settled(m);
	for (int p = 0; p < PODS; p++)
		succeed(m, &m->pods[p]);
	totals(m, new);
	for (size_t i = 0; i < LEN(m->rules->limits) && m->rules->limits[i].tenant; i++)
		for (int c = 0; c < 2; c++)
			if (new[i][c] < old[i][c])
				fail_msg("%s %s: %lld after a takeover, %lld before",
					 m->rules->limits[i].tenant,
					 class_names[m->rules->limits[i].class_],
					 (long long)new[i][c], (long long)old[i][c]);
	world_free(m->w);
	m->w = next;
	m->held = m->lags = false;
	m->takeovers++;
}

/* What is forgotten once nothing holds on to it. */
static void forget(struct model *m)
{
	for (int s = 0; s < SPACES; s++) {
		bool used = m->spaces[s].seen;
		for (int p = 0; p < PODS; p++)
			used |= m->pods[p].charged && m->pods[p].space == s;
		if (!used)
			m->spaces[s].tenant = NULL;
	}
	for (int n = 0; n < NODES; n++) {
		bool used = m->nodes[n].exists;
		for (int p = 0; p < PODS; p++)
			used |= m->pods[p].charged && m->pods[p].seen_node == n;
		if (!used)
			m->nodes[n].evidence = NOTHING;
	}
	for (int p = 0; p < PODS; p++) {
		struct mpod *pod = &m->pods[p];
		if (!pod->charged && !pod->exists)
			pod->watched = pod->proposed = false;
		if (!pod->charged) {
			pod->seen_node = pod->bind = NOTHING;
			pod->line = pod->line_binds = false;
			pod->ticket = 0;
		}
	}
}

/* The journal's lines, in whatever order. */
static void compare_lines(struct model *m, int event, unsigned round)
{
	size_t n = 0, expected = 0;
	char text[PODS * 32], *rest = text, *token;

	(void)snprintf(text, sizeof text, "%s", unseen_of(m->w));
	for (int p = 0; p < PODS; p++)
		expected += m->pods[p].line;
	while ((token = strtok_r(rest, " ", &rest))) {
		const struct mpod *pod = m->pods;
		size_t len = strcspn(token, ">");
		while (pod < m->pods + PODS &&
		       (strlen(pod->uid) != len || strncmp(pod->uid, token, len) != 0))
			pod++;
		if (pod == m->pods + PODS || !pod->line ||
		    (token[len] ? atol(token + len + 2) : NOTHING) != pod->line_bind)
			fail_msg("round %u event %d: the line %s", round, event, token);
		n++;
	}
	if (n != expected)
		fail_msg("round %u event %d: %zu lines, not %zu", round, event, n, expected);
}

static void compare(struct model *m, int event, unsigned round)
{
	struct gq_usage usage;
	size_t charges[GQ_STATES] = {0};

	assert_int_equal(gq_ledger_usage(m->w->ledger, m->w->now_ns, m->w->wall_s, &usage, NULL),
			 0);
	for (int p = 0; p < PODS; p++)
		if (m->pods[p].charged)
			charges[m->pods[p].state]++;
	for (int s = 0; s < GQ_STATES; s++)
		if (usage.charges[s] != charges[s])
			fail_msg("round %u event %d: %zu pods %s, not %zu", round, event,
				 usage.charges[s], gq_charge_state_name((enum gq_charge_state)s),
				 charges[s]);
	for (size_t i = 0; i < LEN(m->rules->limits) && m->rules->limits[i].tenant; i++) {
		const struct limit *limit = &m->rules->limits[i];
		int64_t by[GQ_STATES][2], unready[2];
		total_of(m, limit, by);
		unready_of_limit(m, limit, unready);
		for (size_t t = 0; t < usage.n_tenants; t++) {
			for (size_t k = 0; k < usage.tenants[t].n_limits; k++) {
				const struct gq_usage_limit *l = &usage.tenants[t].limits[k];
				if (strcmp(usage.tenants[t].name, limit->tenant) != 0 ||
				    strcmp(l->class_name, class_names[limit->class_]) != 0)
					continue;
				for (int s = 0; s < GQ_STATES; s++)
					if (l->used[s].shares != by[s][0] * GQ_SHARES_PER_GPU ||
					    l->used[s].memory_mib != by[s][1])
						fail_msg(
						    "round %u event %d: %s %s %s: %lld MiB, "
						    "%lld GPUs; not %lld, %lld",
						    round, event, limit->tenant, l->class_name,
						    gq_charge_state_name((enum gq_charge_state)s),
						    (long long)l->used[s].memory_mib,
						    (long long)(l->used[s].shares /
								GQ_SHARES_PER_GPU),
						    (long long)by[s][1], (long long)by[s][0]);
				if (l->unready.shares != unready[0] * GQ_SHARES_PER_GPU ||
				    l->unready.memory_mib != unready[1])
					fail_msg("round %u event %d: %s %s: %lld MiB unready, "
						 "not %lld",
						 round, event, limit->tenant, l->class_name,
						 (long long)l->unready.memory_mib,
						 (long long)unready[1]);
				m->unready += unready[0] != 0;
			}
		}
	}
	gq_usage_done(&usage);
	compare_lines(m, event, round);
}

static void a_random_life(void **state)
{
	struct model m = {
	    .w = world_bare(rules[0].yaml), .rules = &rules[0], .seed = seed_take("a_random_life")};
	const char *rounds = getenv("GQ_ROUNDS");
	unsigned n = rounds ? (unsigned)strtoul(rounds, NULL, 0) : 4000;
	static void (*const events[])(struct model *) = {
	    do_create, do_create, do_create, do_create, do_commit, do_commit, do_pod_event,
	    do_pod_event, do_pod_event, do_pod_event, do_bind, do_bind, do_probes, do_node,
	    do_settle, do_space, do_hold, do_check_watch, do_stray,
	    /* these now and then only, so that things can pile up */
	    do_policy, do_list, do_takeover};

	(void)state;
	gq_ledger_set_synced(m.w->ledger);
	for (int i = 0; i < NODES; i++)
		m.nodes[i] = (struct mnode){.label = NOTHING,
					    .evidence = NOTHING,
					    .snap_label = NOTHING,
					    .snap_reading = NOTHING};
	for (int p = 0; p < PODS; p++)
		m.pods[p].seen_node = m.pods[p].node = m.pods[p].bind = m.pods[p].line_bind =
		    NOTHING;
	for (unsigned round = 0; round < n; round++) {
		int event = roll(&m, LEN(events));
		if (event >= (int)LEN(events) - 3 && roll(&m, 4))
			continue;
		events[event](&m);
		forget(&m);
		compare(&m, event, round);
		if (roll(&m, 50) == 0)
			assert_int_equal(world_recount(m.w), 0);
	}
	print_message("%u allowed, %u refused, %u held back, %u bindings stored, %u takeovers\n",
		      m.allowed, m.refused, m.blocked, m.stored_bindings, m.takeovers);
	assert_true(n < 1000 || (m.allowed > n / 200 && m.refused > n / 200));
	assert_true(n < 1000 || m.unready > n / 20);
	assert_true(n < 4000 || (m.blocked && m.stored_bindings && m.takeovers));
	world_free(m.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_random_life)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
