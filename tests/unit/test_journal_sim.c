#include "tests/unit/ledger_fixture.h"

#include "tests/unit/journal_world.h"

/* Two leaders and one object, with whatever can happen to requests, leaders and the object, in any
 * order: whoever answers a grant knows of every other that is on its way. $GQ_SEED repeats a run,
 * $GQ_ROUNDS makes more of them. */

#define STEPS 1500
#define PODS_MAX STEPS
/* A create that was answered is seen within this time, or was in vain. */
#define ON_ITS_WAY_NS (2 * GQ_NS_PER_S)
/* Every request has an answer by then: with the former, less than a time to live. */
#define ANSWER_MAX_NS (500 * MS)

static uint64_t seed;
static struct side sides[2];
static bool opened[2], first_ever;

static struct sim_pod {
	struct answer answer;
	bool written;   /* at some version */
	bool committed; /* answered */
	bool blind;     /* when it was decided, one on its way was not known */
	bool seen;
} pods[PODS_MAX];
static size_t n_pods, n_committed;
static int64_t lost_ns; /* when somebody destroyed the object last; 0 never */
static uint64_t epochs[PODS_MAX];
static size_t n_epochs;

static uint32_t below(uint32_t bound)
{
	return seed_next(&seed) % bound;
}

static bool on_its_way(const struct sim_pod *pod)
{
	return pod->committed && !pod->seen && app_time.mono_ns - pod->answer.at_ns < ON_ITS_WAY_NS;
}

/* The first that is on its way and not in the ledger, or NULL. */
static const struct sim_pod *unknown_to(struct side *side)
{
	struct gq_buf lines GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_unseen unseen;

	assert_int_equal(gq_ledger_unseen_print(side->ledger, &lines, NULL, &unseen), 0);
	for (size_t i = 0; i < n_pods; i++)
		if (on_its_way(&pods[i]) &&
		    (!lines.data || !strstr(lines.data, pods[i].answer.uid)))
			return &pods[i];
	return NULL;
}

static void on_object(void)
{
	const char *text = object_text("reservations");

	for (size_t i = 0; i < n_pods; i++)
		if (strstr(text, pods[i].answer.uid))
			pods[i].written = true;
}

static void on_sim_answer(struct answer *a)
{
	struct sim_pod *pod = (struct sim_pod *)(void *)a; /* its first member */

	if (a->code)
		return;
	pod->committed = true;
	n_committed++;
	if (!pod->written)
		fail_msg("%s was committed and never in the object", a->uid);
	if (pod->blind)
		fail_msg("%s was decided by %s, which did not know all", a->uid, a->side->name);
	const struct sim_pod *unknown = unknown_to(a->side);
	if (unknown)
		fail_msg("%s was committed by %s, which does not know %s", a->uid, a->side->name,
			 unknown->answer.uid);
}

/* Unless somebody destroyed it, the object has all that are on their way. */
static void check_object(void)
{
	const char *text = object_text("reservations");

	for (size_t i = 0; i < n_pods && !lost_ns; i++)
		if (pods[i].committed && !pods[i].seen && !strstr(text, pods[i].answer.uid))
			fail_msg("%s is not in the object", pods[i].answer.uid);
}

static void look_after(size_t s)
{
	struct side *side = &sides[s];
	unsigned taken = side->taken_over;

	if (side->fenced) {
		side->fenced = 0;
		opened[s] = false;
	}
	if (!taken || opened[s])
		return;
	for (size_t i = 0; i < n_epochs && !lost_ns; i++)
		assert_true(epochs[i] != side->epoch);
	epochs[n_epochs++] = side->epoch;
	opened[s] = true;
	side->taken_over = 0;
	open_grants(side, first_ever);
	first_ever = false;
}

static void grant(size_t s)
{
	struct sim_pod *pod = &pods[n_pods];
	char uid[16];

	(void)snprintf(uid, sizeof uid, "uid-%06zu", n_pods);
	uint64_t ticket = propose(&sides[s], uid);
	if (!ticket)
		return;
	n_pods++;
	*pod = (struct sim_pod){.blind = unknown_to(&sides[s]) != NULL};
	wait_for(&sides[s], &pod->answer, uid, ticket,
		 app_time.mono_ns + (50 + (int64_t)below(1500)) * MS);
}

static void tell_seen(struct side *side, const char *uid)
{
	struct gq_pod *pod = pod_of(uid);

	assert_int_equal(gq_ledger_pod_seen(side->ledger, pod, app_time.mono_ns, NULL), 0);
	gq_pod_unref(pod);
}

static void see(void)
{
	struct sim_pod *pod = &pods[below((uint32_t)n_pods)];

	if (!pod->committed || pod->seen)
		return;
	pod->seen = true;
	tell_seen(&sides[0], pod->answer.uid);
	tell_seen(&sides[1], pod->answer.uid);
}

static void lead_now(size_t s)
{
	opened[s] = false;
	sides[s].taken_over = 0;
	take_over(&sides[s]);
}

static void die(size_t s)
{
	char name[16];

	(void)snprintf(name, sizeof name, "%s", sides[s].name);
	side_done(&sides[s]);
	side_init(&sides[s], name);
	opened[s] = false;
	for (size_t i = 0; i < n_pods; i++)
		if (pods[i].seen)
			tell_seen(&sides[s], pods[i].answer.uid);
}

static void destroy(void)
{
	switch (below(4)) {
	case 0:
		object_delete();
		break;
	case 1:
		object_set(NULL);
		break;
	case 2:
		object_write("2", "somebody", "1", "1", "", NULL);
		break;
	default:
		object_write("1", "somebody", "x", "1", "", NULL);
	}
	lost_ns = app_time.mono_ns;
}

static void answer_one(size_t i)
{
	static const enum ending some[] = {END_DROPPED, END_LOST, END_LATE, END_GARBLED,
					   END_5XX,     END_403,  END_429};
	bool well = below(3) != 0;

	/* what the server has done already is answered, or the answer gets lost */
	if (requests[i].done)
		answer(i, well ? END_OK : below(2) ? END_LOST : END_GARBLED);
	else
		answer(i, well ? END_OK : some[below(LEN(some))]);
}

/* All is well for one time to live. */
static void wait_out(void)
{
	for (int64_t end_ns = app_time.mono_ns + TTL_NS; app_time.mono_ns < end_ns; pass(5 * MS)) {
		while (n_requests)
			answer(0, END_OK);
		look_after(0);
		look_after(1);
	}
}

static void step(bool losses)
{
	uint32_t s = below(2), n = below(100);

	if (n < 30)
		pass((int64_t)below(20) * MS);
	else if (n < 55 && n_requests)
		answer_one(below((uint32_t)n_requests));
	else if (n < 62 && n_requests && !requests[n_requests - 1].done)
		serve_now(&requests[n_requests - 1]);
	else if (n < 66 && n_late)
		arrive();
	else if (n < 84)
		grant(s);
	else if (n < 93 && n_pods)
		see();
	else if (n < 96 && below(4) == 0)
		lead_now(s);
	else if (n == 96 && below(6) == 0)
		die(s);
	else if (n == 97 && below(4) == 0)
		stop(&sides[s]);
	else if (n == 98 && losses && below(8) == 0)
		destroy();
	else if (n == 99 && lost_ns && below(4) == 0)
		wait_out();
	for (size_t i = 0; i < n_requests;)
		if (app_time.mono_ns - requests[i].sent_ns > ANSWER_MAX_NS)
			answer_one(i);
		else
			i++;
	look_after(0);
	look_after(1);
	if (n % 4 == 0)
		check_object();
}

/* All is well again: one of them leads, and grants within a time to live. */
static void recover(void)
{
	struct answer one;

	stop(&sides[0]);
	while (n_late)
		arrive();
	lead_now(1);
	settle(2 * GQ_NS_PER_S);
	look_after(1);
	if (!opened[1]) /* a late one of the other was in its way */
		fail_msg("%s does not lead", sides[1].name);
	settle(TTL_NS + 200 * MS);
	on_answer_hook = NULL;
	ask(&sides[1], &one, "uid-last");
	settle(50 * MS);
	assert_committed(&one);
	for (size_t i = 0; i < n_pods; i++)
		assert_int_equal(pods[i].answer.got, 1);
}

static void run(bool losses)
{
	world_reset();
	n_pods = n_epochs = n_committed = 0;
	lost_ns = 0;
	first_ever = true;
	opened[0] = opened[1] = false;
	on_object_hook = on_object;
	on_answer_hook = on_sim_answer;
	side_init(&sides[0], "pod-a");
	side_init(&sides[1], "pod-b");
	lead_now(0);
	settle(20 * MS);
	look_after(0);
	settle(20 * MS);
	for (unsigned i = 0; i < STEPS; i++)
		step(losses);
	recover();
	side_done(&sides[0]);
	side_done(&sides[1]);
	on_object_hook = NULL;
	world_end();
}

static unsigned rounds(void)
{
	const char *given = getenv("GQ_ROUNDS");

	return given ? (unsigned)strtoul(given, NULL, 0) : 12;
}

static void test_two_leaders(void **state)
{
	size_t committed = 0;

	(void)state;
	seed = seed_take("two leaders");
	for (unsigned i = 0; i < rounds(); i++) {
		uint64_t begun = seed;
		run(i % 2);
		committed += n_committed;
		if (n_committed == 0)
			print_message("no grant at all with seed %llu\n",
				      (unsigned long long)begun);
	}
	print_message("%zu grants\n", committed);
	assert_true(committed > 20 * rounds());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_two_leaders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
