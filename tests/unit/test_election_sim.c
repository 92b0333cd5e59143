/* Several elections against one Lease, with clocks, a network and an API server of the test: in no
 * run do two lead at once, and there is always soon one that leads. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json_filter.h"
#include "controller/election.h"
#include "informer/backoff.h"
#include "tests/unit/app_testing.h"

#define MS GQ_NS_PER_MS
#define S GQ_NS_PER_S
#define NODES_MAX 3
#define MESSAGES_MAX 64
#define NEVER INT64_MAX

static const char *world; /* what is played */
static uint64_t seed, seed_state;
static int64_t now_ns; /* the world's time */

static int64_t below(int64_t bound)
{
	return (int64_t)gq_backoff_random(&seed_state, (uint64_t)bound);
}

static bool chance(int percent)
{
	return below(100) < percent;
}

/* ---- the API server ---- */

static struct json_object *lease; /* NULL: there is none */
static unsigned version, uid;

static struct json_object *child(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	assert_true(json_object_object_get_ex(object, key, &value));
	return value;
}

static void set_text(struct json_object *object, const char *key, unsigned number)
{
	char text[16];

	(void)snprintf(text, sizeof text, "%u", number);
	assert_int_equal(json_object_object_add(object, key, json_object_new_string(text)), 0);
}

static void store_lease(struct json_object *root)
{
	if (!lease)
		uid++;
	json_object_put(lease);
	lease = root;
	set_text(child(lease, "metadata"), "resourceVersion", ++version);
	set_text(child(lease, "metadata"), "uid", uid);
}

static void delete_lease(void)
{
	json_object_put(lease);
	lease = NULL;
}

/* What PUT does: without a Lease it makes one, unless it names a UID; what changes nothing is not
 * written. */
static int put(struct json_object *root)
{
	if (!lease) {
		bool known = json_at(root, "metadata.uid") != NULL;
		if (known)
			return GQ_ECONFLICT;
		store_lease(json_object_get(root));
		return 0;
	}
	if (strcmp(json_text(root, "metadata.resourceVersion"),
		   json_text(lease, "metadata.resourceVersion")) != 0)
		return GQ_ECONFLICT;
	if (!json_object_equal(root, lease))
		store_lease(json_object_get(root));
	return 0;
}

/* ret_answer: free() */
static int serve(const char *method, const char *body, size_t len, char **ret_answer)
{
	struct gq_buf pruned = GQ_BUF_INIT(GQ_LEASE_MAX_BYTES);
	int code = 0;

	if (strcmp(method, "GET") == 0) {
		code = lease ? 0 : GQ_ENOTFOUND;
	} else {
		struct json_object *root = json_parse(body, len);
		if (strcmp(method, "PUT") == 0)
			code = put(root);
		else if (lease)
			code = GQ_ECONFLICT;
		else
			store_lease(json_object_get(root));
		json_object_put(root);
	}
	if (!code) {
		const char *json = json_object_to_json_string(lease);
		assert_int_equal(gq_json_prune(json, strlen(json), gq_lease_keep, &pruned, NULL),
				 0);
		*ret_answer = gq_buf_steal(&pruned);
	}
	return code;
}

/* ---- nodes and their requests ---- */

struct faults {
	int lost, failed; /* percent of requests, and of answers */
	int64_t delay_ns; /* at most, each way */
	bool kills, freezes, edits, deletes;
	bool clocks; /* wall clocks stand still, or jump about */
};

static struct node {
	char identity[32];
	struct gq_election *election; /* NULL: it is down */
	unsigned life;
	int64_t clock_ns;  /* its own clock's offset */
	int64_t frozen_ns; /* until then it does nothing */
	int64_t up_ns;     /* when it is started again */
} nodes[NODES_MAX];
static size_t n_nodes;

static struct message {
	bool used, served;
	struct node *node;
	unsigned life;
	const char *method;
	char *body;
	size_t len;
	int64_t arrive_ns; /* at the API server, whether or not somebody still waits */
	int64_t back_ns;   /* when the answer is there, or the request has timed out */
	bool timed_out;
	int code;
	char *answer;
} messages[MESSAGES_MAX];

static void start(struct node *node)
{
	const struct gq_election_options options = {.namespace_ = "gpuquota-system",
						    .name = "gpuquota",
						    .identity = node->identity,
						    .seed = (uint64_t)below(INT64_MAX)};

	assert_int_equal(gq_election_new(&options, &node->election, NULL), 0);
	node->life++;
	node->up_ns = NEVER;
	node->clock_ns = below(1000 * S); /* another boot, another clock */
}

static void kill_node(struct node *node, int64_t up_ns)
{
	gq_election_free(node->election);
	node->election = NULL;
	node->up_ns = up_ns;
	node->frozen_ns = 0;
}

static bool node_leads(const struct node *node)
{
	return node->election && gq_election_leads(node->election, now_ns + node->clock_ns);
}

static struct node *leader(void)
{
	struct node *found = NULL;

	for (size_t i = 0; i < n_nodes; i++) {
		if (!node_leads(&nodes[i]))
			continue;
		if (found)
			fail_msg("%s, seed %llu: %s and %s lead at %lld ms", world,
				 (unsigned long long)seed, found->identity, nodes[i].identity,
				 (long long)(now_ns / MS));
		found = &nodes[i];
	}
	return found;
}

static void send(struct node *node, const struct gq_election_request *request,
		 const struct faults *faults)
{
	struct message *message = messages;

	for (; message->used; message++)
		assert_true(message < messages + MESSAGES_MAX - 1);
	*message = (struct message){.used = true,
				    .node = node,
				    .life = node->life,
				    .method = request->method,
				    .len = request->body_len,
				    .arrive_ns = NEVER};
	if (request->body)
		message->body = strdup(request->body);
	message->back_ns = now_ns + request->timeout_ns;
	message->timed_out = true;
	if (chance(faults->lost))
		return;
	message->arrive_ns = now_ns + (faults->delay_ns ? below(faults->delay_ns) : 0);
	int64_t back_ns = message->arrive_ns + (faults->delay_ns ? below(faults->delay_ns) : 0);
	if (!chance(faults->lost) && back_ns <= message->back_ns) {
		message->back_ns = back_ns;
		message->timed_out = false;
	}
}

static void drop(struct message *message)
{
	free(message->body);
	free(message->answer);
	*message = (struct message){0};
}

static bool waits(const struct message *message)
{
	return message->node && message->node->election && message->node->life == message->life;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

static int64_t message_due_ns(const struct message *message)
{
	int64_t arrive_ns = message->served ? NEVER : message->arrive_ns;

	if (!waits(message))
		return arrive_ns == NEVER ? now_ns : arrive_ns;
	int64_t back_ns = later(message->back_ns, message->node->frozen_ns);
	return arrive_ns <= back_ns ? arrive_ns : back_ns;
}

static void message_step(struct message *message, const struct faults *faults)
{
	if (!message->served && message->arrive_ns <= now_ns) {
		message->served = true;
		bool fails = chance(faults->failed), done = chance(50);
		if (!fails || done)
			message->code =
			    serve(message->method, message->body, message->len, &message->answer);
		if (fails)
			message->code = done ? GQ_EIO : GQ_ETHROTTLED;
	}
	if (waits(message) && later(message->back_ns, message->node->frozen_ns) <= now_ns) {
		struct node *node = message->node;
		int code = message->timed_out ? GQ_EIO : message->code;
		const char *body = code ? "" : message->answer;
		gq_election_end(node->election, now_ns + node->clock_ns, code, body, strlen(body));
		message->node = NULL;
	}
	if (!waits(message) && (message->served || message->arrive_ns == NEVER))
		drop(message);
}

static int64_t node_due_ns(const struct node *node)
{
	if (!node->election)
		return node->up_ns;
	int64_t due_ns = gq_election_deadline(node->election);
	return due_ns == NEVER ? NEVER : later(due_ns - node->clock_ns, node->frozen_ns);
}

static void node_step(struct node *node, const struct faults *faults)
{
	struct gq_election_request request;
	int64_t wall_ns = START_WALL_S * S + now_ns;

	if (!node->election) {
		start(node);
		return;
	}
	if (faults->clocks)
		wall_ns = seed % 2 ? START_WALL_S * S : below(START_WALL_S * S);
	if (gq_election_begin(node->election, now_ns + node->clock_ns, wall_ns, &request))
		send(node, &request, faults);
}

static void edit_lease(void)
{
	struct json_object *labels = json_object_new_object();

	set_text(labels, "a", (unsigned)below(3));
	(void)json_object_object_add(child(lease, "metadata"), "labels", labels);
	set_text(child(lease, "metadata"), "resourceVersion", ++version);
}

static void strike(const struct faults *faults)
{
	struct node *node = &nodes[below((int64_t)n_nodes)];
	bool all_know = true;

	/* who does not know of a holder does not wait for one */
	for (size_t i = 0; i < n_nodes; i++)
		all_know &= nodes[i].election && *gq_election_holder(nodes[i].election);
	switch (below(5)) {
	case 0:
		if (faults->kills)
			kill_node(node, now_ns + below(12 * S));
		break;
	case 1:
		if (faults->freezes)
			node->frozen_ns = now_ns + below(12 * S);
		break;
	case 2:
		if (faults->edits && lease)
			edit_lease();
		break;
	case 3:
		if (faults->deletes && all_know)
			delete_lease();
		break;
	default:
		break;
	}
}

/* Runs the world until a time, or until somebody leads. Returns for how long somebody led. */
static int64_t run(const struct faults *faults, int64_t until_ns, bool until_led)
{
	int64_t strike_ns = now_ns + below(3 * S), led_ns = 0;

	while (now_ns < until_ns && !(until_led && leader())) {
		struct message *message = NULL;
		struct node *node = NULL;
		int64_t next_ns = strike_ns < until_ns ? strike_ns : until_ns;
		for (size_t i = 0; i < MESSAGES_MAX; i++)
			if (messages[i].used && message_due_ns(&messages[i]) < next_ns) {
				message = &messages[i];
				next_ns = message_due_ns(message);
			}
		for (size_t i = 0; i < n_nodes; i++)
			if (node_due_ns(&nodes[i]) < next_ns) {
				node = &nodes[i];
				next_ns = node_due_ns(node);
			}
		if (leader())
			led_ns += later(next_ns, now_ns) - now_ns;
		now_ns = later(next_ns, now_ns);
		if (node)
			node_step(node, faults);
		else if (message)
			message_step(message, faults);
		else if (now_ns >= strike_ns) {
			strike(faults);
			strike_ns = now_ns + below(3 * S);
		}
		(void)leader();
	}
	return led_ns;
}

static void world_begin(const char *name, size_t n)
{
	world = name;
	seed_state = seed;
	now_ns = START_NS;
	version = uid = 0;
	n_nodes = n;
	for (size_t i = 0; i < n; i++) {
		nodes[i] = (struct node){0};
		(void)snprintf(nodes[i].identity, sizeof nodes[i].identity, "pod-%zu", i);
		start(&nodes[i]);
	}
}

static void world_end(void)
{
	for (size_t i = 0; i < n_nodes; i++)
		kill_node(&nodes[i], NEVER);
	for (size_t i = 0; i < MESSAGES_MAX; i++)
		drop(&messages[i]);
	delete_lease();
}

static const struct faults calm = {.delay_ns = 10 * MS};

/* led: the least percentage of the time with a leader. */
static void never_two(void **state)
{
	static const struct {
		const char *name;
		struct faults faults;
		size_t nodes;
		int led;
	} cases[] = {
	    {"calm", {.delay_ns = 10 * MS}, 2, 99},
	    {"slow", {.delay_ns = 700 * MS}, 2, 50},
	    {"slower than the timeout", {.delay_ns = 2500 * MS}, 2, 0},
	    {"lossy", {.delay_ns = 50 * MS, .lost = 15, .failed = 10}, 2, 80},
	    {"kills", {.delay_ns = 50 * MS, .lost = 5, .kills = true}, 2, 30},
	    {"freezes", {.delay_ns = 50 * MS, .lost = 5, .freezes = true}, 3, 30},
	    {"edits", {.delay_ns = 50 * MS, .failed = 5, .edits = true}, 2, 90},
	    {"deletions", {.delay_ns = 300 * MS, .lost = 10, .failed = 10, .deletes = true}, 3, 50},
	    {"clocks", {.delay_ns = 50 * MS, .lost = 10, .failed = 10, .clocks = true}, 2, 80},
	    {"all but deletions",
	     {.delay_ns = 1200 * MS,
	      .lost = 20,
	      .failed = 10,
	      .kills = true,
	      .freezes = true,
	      .edits = true,
	      .clocks = true},
	     3,
	     0},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		int64_t led_ns = 0, rounds = 20;
		for (seed = 0; seed < (uint64_t)rounds; seed++) {
			world_begin(cases[i].name, cases[i].nodes);
			led_ns += run(&cases[i].faults, now_ns + 120 * S, false);
			/* when all is well again, one leads soon, and stays */
			(void)run(&calm, now_ns + 20 * S, false);
			struct node *first = leader();
			if (!first || run(&calm, now_ns + 20 * S, false) < 20 * S ||
			    leader() != first)
				fail_msg("%s, seed %llu: nobody leads for good", world,
					 (unsigned long long)seed);
			world_end();
		}
		if (led_ns * 100 < cases[i].led * rounds * 120 * S)
			fail_msg("%s: led for only %lld %% of the time", cases[i].name,
				 (long long)(led_ns * 100 / (rounds * 120 * S)));
	}
}

/* A crash is followed by another's leadership within lease_ns and one look; a restart of the same
 * pod, at once. */
static void takeover(void **state)
{
	static const struct faults instant = {0};
	int64_t longest_ns = 0;

	(void)state;
	for (seed = 0; seed < 300; seed++) {
		bool restarts = seed % 3 == 0;
		world_begin("takeover", 2);
		(void)run(&instant, now_ns + 20 * S + below(5 * S), false);
		struct node *node = leader();
		assert_non_null(node);
		int64_t since_ns = now_ns;
		kill_node(node, restarts ? now_ns : NEVER);
		(void)run(&instant, now_ns + 20 * S, true);
		assert_non_null(leader());
		if (restarts) {
			assert_int_equal(now_ns, since_ns);
			assert_ptr_equal(leader(), node);
		} else {
			assert_ptr_not_equal(leader(), node);
			longest_ns = later(longest_ns, now_ns - since_ns);
			assert_true(now_ns - since_ns <= 5300 * MS);
		}
		world_end();
	}
	/* no later than it may be, no earlier than it must be */
	assert_true(longest_ns > 5 * S);
}

/* A release is followed by another's leadership within one look. */
static void handover(void **state)
{
	static const struct faults instant = {0};

	(void)state;
	for (seed = 0; seed < 50; seed++) {
		world_begin("handover", 2);
		(void)run(&instant, now_ns + 10 * S + below(5 * S), false);
		struct node *node = leader();
		assert_non_null(node);
		gq_election_release(node->election, now_ns + node->clock_ns);
		assert_null(leader());
		int64_t since_ns = now_ns;
		(void)run(&instant, now_ns + 20 * S, true);
		assert_non_null(leader());
		assert_ptr_not_equal(leader(), node);
		assert_true(now_ns - since_ns <= 300 * MS);
		assert_true(gq_election_released(node->election));
		world_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(never_two),
	    cmocka_unit_test(takeover),
	    cmocka_unit_test(handover),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
