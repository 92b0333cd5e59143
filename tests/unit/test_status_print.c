#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/recount.h"
#include "controller/status.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define GPU GQ_SHARES_PER_GPU

/* What is borrowed by facts is never freed here: gq_status_facts_done() is not called on these. */
#define TEXT(literal) ((char *)(uintptr_t)(literal))

static struct gq_usage_holder holders[] = {
    {.namespace_ = TEXT("a-train"), .name = TEXT("llm-0"), .amount = {8 * GPU, 655360}},
    {.namespace_ = TEXT("a-train"),
     .name = TEXT("123"),
     .amount = {GPU / 2, GQ_UNLIMITED},
     .unasked = true},
};
static struct gq_usage_limit limits_a[] = {
    {.class_name = "A100",
     .most = {8 * GPU, 1024 * 1024},
     .used = {{GPU, 81920}, {GPU / 2, 40960}, {8 * GPU, 655360}, {0, 0}},
     .unready = {3 * GPU / 2, 122880},
     .holders = holders,
     .n_holders = 2,
     .pods = 7},
    {.class_name = "*", .most = {10 * GPU, GQ_UNLIMITED}, .used = {{0, 0}, {GPU / 2, 1}}},
};
static struct gq_usage_limit limits_b[] = {
    {.class_name = "H100", .most = {GQ_UNLIMITED, 81920}, .used = {[GQ_STATE_BOUND] = {0, 81559}}},
    {.class_name = "L40S", .most = {99 * GPU, GQ_UNLIMITED}, .used = {{0, 0}, {20 * GPU, 0}}},
};
static struct gq_usage_tenant tenants[] = {
    {.name = "idle", .mode = GQ_MODE_AUDIT},
    {.name = "team-a", .parent = "top", .mode = GQ_MODE_ENFORCE, .n_limits = 2, .limits = limits_a},
    {.name = "empty", .mode = GQ_MODE_WARN},
    {.name = "on", .mode = GQ_MODE_ENFORCE, .n_limits = 2, .limits = limits_b},
};
static struct gq_usage_uncharged uncharged[] = {{.namespace_ = TEXT("lab"), .pods = 3},
						{.namespace_ = TEXT("both"), .ambiguous = true}};
static char *drifted[] = {TEXT("a-train/llm-0"), TEXT("b/1")};
static struct gq_drift_limit drift[] = {
    {TEXT("team-a"), TEXT("A100"), -2 * GPU, -163840},
    {TEXT("on"), TEXT("*"), GPU / 4, 0},
};

static struct gq_status_facts facts_make(void)
{
	return (struct gq_status_facts){
	    .usage = {.synced = true,
		      .tenants = tenants,
		      .n_tenants = LEN(tenants),
		      .uncharged = uncharged,
		      .n_uncharged = LEN(uncharged)},
	    .policy = {.in_force = true,
		       .hash = "d0c1",
		       .problem = "policy.yaml:3:7: mode \"never\" is not one of enforce, warn"},
	    .journal_held = true,
	    .journal_problem = "configmaps \"gpuquota-journal\" is forbidden",
	    .recount = {.request = "1800000000000000001",
			.at_s = START_WALL_S - 60,
			.pods = 1234,
			.limits = drift,
			.n_limits = LEN(drift),
			.drifted = drifted,
			.n_drifted = LEN(drifted)},
	    .leader = "gpuquota-7d9f-x2x5b",
	    .epoch = 12,
	    .updated_s = START_WALL_S,
	};
}

struct printed {
	struct gq_buf yaml, json;
};

static void printed_done(struct printed *printed)
{
	gq_buf_done(&printed->yaml);
	gq_buf_done(&printed->json);
}

static struct printed print(const struct gq_status_facts *facts, size_t max_bytes)
{
	struct printed printed = {GQ_BUF_INIT(max_bytes), GQ_BUF_INIT(max_bytes)};

	assert_int_equal(gq_status_print(facts, max_bytes, &printed.yaml, &printed.json), 0);
	assert_true(printed.yaml.len + printed.json.len <= max_bytes);
	return printed;
}

static void for_people(void **state)
{
	struct gq_status_facts facts = facts_make();
	struct printed printed GQ_CLEANUP(printed_done) = print(&facts, GQ_STATUS_MAX_BYTES);

	(void)state;
	assert_string_equal(
	    printed.yaml.data,
	    "leader: gpuquota-7d9f-x2x5b\n"
	    "epoch: 12\n"
	    "updated: 2027-01-15T08:00:00Z\n"
	    "synced: true\n"
	    "policy:\n"
	    "  hash: d0c1\n"
	    "  inForce: true\n"
	    "  problem: \"policy.yaml:3:7: mode \\\"never\\\" is not one of enforce, warn\"\n"
	    "journal:\n"
	    "  held: true\n"
	    "  problem: \"configmaps \\\"gpuquota-journal\\\" is forbidden\"\n"
	    "over:\n"
	    "- tenant: team-a\n"
	    "  class: A100\n"
	    "  gpus: {held: 9.5, limit: 8, over: 1.5}\n"
	    "  pods: 7\n"
	    "  holders:\n"
	    "  - {pod: a-train/llm-0, gpus: 8, memory: 640Gi}\n"
	    "  - {pod: a-train/123, gpus: 0.5, memory: unknown, unasked: true}\n"
	    "uncharged:\n"
	    "- {namespace: lab, pods: 3, ambiguous: false}\n"
	    "- {namespace: both, pods: 0, ambiguous: true}\n"
	    "recount:\n"
	    "  last: 2027-01-15T07:59:00Z\n"
	    "  pods: 1234\n"
	    "  request: \"1800000000000000001\"\n"
	    "  problem: \"\"\n"
	    "  drift:\n"
	    "  - {tenant: team-a, class: A100, gpus: -2, memory: -160Gi}\n"
	    "  - {tenant: \"on\", class: \"*\", gpus: 0.25, memory: 0}\n"
	    "  driftPods:\n"
	    "  - a-train/llm-0\n"
	    "  - b/1\n"
	    "tenants:\n"
	    "- name: \"on\"\n"
	    "  mode: enforce\n"
	    "  limits:\n"
	    "  - class: H100\n"
	    "    memory: {limit: 80Gi, used: 81559Mi, bound: 81559Mi, pending: 0, terminating: 0, "
	    "reserved: 0, free: 361Mi, unready: 0}\n"
	    "  - class: L40S\n"
	    "    gpus: {limit: 99, used: 20, bound: 0, pending: 20, terminating: 0, reserved: 0, "
	    "free: 79, unready: 0}\n"
	    "- name: team-a\n"
	    "  parent: top\n"
	    "  mode: enforce\n"
	    "  limits:\n"
	    "  - class: A100\n"
	    "    gpus: {limit: 8, used: 8.5, bound: 8, pending: 0.5, terminating: 0, reserved: 1, "
	    "free: 0, unready: 1.5}\n"
	    "    memory: {limit: 1Ti, used: 680Gi, bound: 640Gi, pending: 40Gi, terminating: 0, "
	    "reserved: 80Gi, free: 264Gi, unready: 120Gi}\n"
	    "  - class: \"*\"\n"
	    "    gpus: {limit: 10, used: 0.5, bound: 0, pending: 0.5, terminating: 0, reserved: 0, "
	    "free: 9.5, unready: 0}\n"
	    "- name: empty\n"
	    "  mode: warn\n"
	    "  limits: []\n"
	    "- name: idle\n"
	    "  mode: audit\n"
	    "  limits: []\n");
}

static void before_anything(void **state)
{
	static const struct gq_status_facts none;
	struct printed printed GQ_CLEANUP(printed_done) = print(&none, GQ_STATUS_MAX_BYTES);
	struct json_object *root = json_parse(printed.json.data, printed.json.len);

	(void)state;
	assert_string_equal(printed.yaml.data, "leader: \"\"\n"
					       "epoch: 0\n"
					       "updated: 1970-01-01T00:00:00Z\n"
					       "synced: false\n"
					       "policy:\n"
					       "  hash: \"\"\n"
					       "  inForce: false\n"
					       "  problem: \"\"\n"
					       "journal:\n"
					       "  held: false\n"
					       "  problem: \"\"\n"
					       "over: []\n"
					       "uncharged: []\n"
					       "recount:\n"
					       "  last: never\n"
					       "tenants: []\n");
	assert_null(json_at(root, "policyHash"));
	assert_null(json_at(root, "policyProblem"));
	assert_null(json_at(root, "journalProblem"));
	assert_false(json_true(root, "journalHeld"));
	assert_null(json_at(root, "recount"));
	assert_false(json_true(root, "truncated"));
	json_object_put(root);
}

static struct json_object *nth(struct json_object *root, const char *path, size_t i)
{
	struct json_object *list = json_at(root, path);

	assert_true(json_object_is_type(list, json_type_array));
	assert_true(i < json_object_array_length(list));
	return json_object_array_get_idx(list, i);
}

static void assert_number(struct json_object *root, const char *path, int64_t value)
{
	struct json_object *at = json_at(root, path);

	assert_true(json_object_is_type(at, json_type_int));
	assert_true(json_object_get_int64(at) == value);
}

/* The keys that the command line reads. */
static void for_programs(void **state)
{
	struct gq_status_facts facts = facts_make();
	struct printed printed GQ_CLEANUP(printed_done) = print(&facts, GQ_STATUS_MAX_BYTES);
	struct json_object *root = json_parse(printed.json.data, printed.json.len);

	(void)state;
	assert_string_equal(json_text(root, "policyHash"), "d0c1");
	assert_has(json_text(root, "policyProblem"), "mode \"never\"");
	assert_true(json_true(root, "journalHeld"));
	assert_has(json_text(root, "journalProblem"), "is forbidden");
	assert_true(json_true(root, "synced"));
	assert_string_equal(json_text(root, "leader"), "gpuquota-7d9f-x2x5b");
	assert_number(root, "epoch", 12);
	assert_number(root, "updated", START_WALL_S);
	assert_false(json_true(root, "truncated"));
	assert_string_equal(json_text(root, "recount.request"), "1800000000000000001");
	assert_number(root, "recount.at", START_WALL_S - 60);
	assert_number(root, "recount.pods", 1234);
	struct json_object *one = nth(root, "recount.drift", 0);
	assert_string_equal(json_text(one, "tenant"), "team-a");
	assert_string_equal(json_text(one, "class"), "A100");
	assert_string_equal(json_text(one, "gpus"), "-2");
	assert_number(one, "memoryMiB", -163840);
	assert_string_equal(json_object_get_string(nth(root, "recount.driftPods", 1)), "b/1");
	assert_null(json_at(root, "recount.problem"));
	one = nth(root, "over", 0);
	assert_string_equal(json_text(one, "tenant"), "team-a");
	assert_string_equal(json_text(one, "gpus.held"), "9.5");
	assert_string_equal(json_text(one, "gpus.limit"), "8");
	assert_string_equal(json_text(one, "gpus.over"), "1.5");
	assert_null(json_at(one, "memoryMiB"));
	assert_number(one, "pods", 7);
	assert_string_equal(json_text(nth(one, "holders", 1), "name"), "123");
	assert_string_equal(json_text(nth(one, "holders", 1), "namespace"), "a-train");
	assert_string_equal(json_text(nth(one, "holders", 1), "gpus"), "0.5");
	assert_null(json_at(nth(one, "holders", 1), "memoryMiB"));
	assert_number(nth(one, "holders", 0), "memoryMiB", 655360);
	assert_true(json_true(nth(one, "holders", 1), "unasked"));
	assert_false(json_true(nth(one, "holders", 0), "unasked"));
	assert_string_equal(json_text(nth(root, "uncharged", 1), "namespace"), "both");
	one = nth(root, "tenants", 1);
	assert_string_equal(json_text(one, "name"), "team-a");
	assert_string_equal(json_text(nth(one, "limits", 0), "gpus.bound"), "8");
	assert_string_equal(json_text(nth(one, "limits", 0), "gpus.unready"), "1.5");
	assert_number(nth(one, "limits", 0), "memoryMiB.unready", 122880);
	json_object_put(root);
}

/* Over in memory, and by an amount that nobody can tell. */
static void over_in_memory(void **state)
{
	struct gq_usage_limit limits[] = {
	    {.class_name = "A100", .most = {GQ_UNLIMITED, 1024}, .used = {{GPU, 2048}}},
	    {.class_name = "*", .most = {4 * GPU, 1024}, .used = {{5 * GPU, GQ_UNLIMITED}}}};
	struct gq_usage_tenant tenant = {.name = "t", .n_limits = 2, .limits = limits};
	const struct gq_status_facts facts = {.usage = {.tenants = &tenant, .n_tenants = 1}};
	struct printed printed GQ_CLEANUP(printed_done) = print(&facts, GQ_STATUS_MAX_BYTES);
	struct json_object *root = json_parse(printed.json.data, printed.json.len);

	(void)state;
	assert_has(printed.yaml.data, "- tenant: t\n"
				      "  class: A100\n"
				      "  memory: {held: 2Gi, limit: 1Gi, over: 1Gi}\n"
				      "  pods: 0\n"
				      "  holders: []\n"
				      "- tenant: t\n"
				      "  class: \"*\"\n"
				      "  gpus: {held: 5, limit: 4, over: 1}\n"
				      "  memory: {held: unknown, limit: 1Gi, over: unknown}\n");
	assert_number(nth(root, "over", 0), "memoryMiB.over", 1024);
	assert_null(json_at(nth(root, "over", 1), "memoryMiB.over"));
	json_object_put(root);
}

/* kubectl prints a text as a block only without tabs, blanks at the end of a line, and what is not
 * printable; and no reader may take a name for something else. */
static void texts(void **state)
{
	static const struct {
		const char *text, *yaml;
	} cases[] = {
	    {"team-a.b_c/d9", "team-a.b_c/d9"},
	    {"9a", "\"9a\""},
	    {"true", "\"true\""},
	    {"Null", "\"Null\""},
	    {"nullable", "nullable"},
	    {"-", "\"-\""},
	    {"a b", "\"a b\""},
	    {"a: b #c", "\"a: b #c\""},
	    {"a\"b\\c", "\"a\\\"b\\\\c\""},
	    {"a\nb\tc\x7f", "\"a\\U0000000Ab\\U00000009c\\U0000007F\""},
	    {"团队 é", "\"团队 é\""},
	    {"\xF0\x9F\x98\x80", "\"\\U0001F600\""},
	    {"\xC2\x85\xE2\x80\xA8\xEF\xBB\xBF", "\"\\U00000085\\U00002028\\U0000FEFF\""},
	    {"\xFF"
	     "a",
	     "\"\\U0000FFFDa\""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_status_facts facts = {.epoch = 1};
		(void)snprintf(facts.leader, sizeof facts.leader, "%s", cases[i].text);
		struct printed printed GQ_CLEANUP(printed_done) =
		    print(&facts, GQ_STATUS_MAX_BYTES);
		struct json_object *root = json_parse(printed.json.data, printed.json.len);
		char expected[256];
		(void)snprintf(expected, sizeof expected, "leader: %s\nepoch: 1\n", cases[i].yaml);
		assert_has(printed.yaml.data, expected);
		json_object_put(root);
	}
}

/* ---- bounds ---- */

/* More of everything than there is room for. */
static struct gq_status_facts crowd(size_t n)
{
	struct gq_status_facts facts = {.recount = {.at_s = 1}};
	struct gq_usage *usage = &facts.usage;
	char name[64];

	usage->tenants = calloc(n, sizeof *usage->tenants);
	usage->uncharged = calloc(n, sizeof *usage->uncharged);
	facts.recount.limits = calloc(n, sizeof *facts.recount.limits);
	facts.recount.drifted = calloc(n, sizeof *facts.recount.drifted);
	facts.recount.more_limits = facts.recount.more_drifted = 7;
	for (size_t i = 0; i < n; i++) {
		struct gq_usage_tenant *tenant = &usage->tenants[usage->n_tenants++];
		(void)snprintf(name, sizeof name, "t%05zu", i);
		tenant->name = strdup(name);
		tenant->limits = calloc(1, sizeof *tenant->limits);
		tenant->n_limits = 1;
		tenant->limits[0] = (struct gq_usage_limit){
		    .class_name = "A100",
		    .most = {GPU, GQ_UNLIMITED},
		    .used = {[GQ_STATE_BOUND] = {(int64_t)(i + 2) * GPU, 0}}};
		usage->uncharged[usage->n_uncharged++].namespace_ = strdup(name);
		facts.recount.limits[facts.recount.n_limits++] = (struct gq_drift_limit){
		    .tenant = strdup(name), .class_name = strdup("A100"), .shares = GPU};
		facts.recount.drifted[facts.recount.n_drifted++] = strdup(name);
	}
	return facts;
}

static void crowd_done(struct gq_status_facts *facts)
{
	for (size_t i = 0; i < facts->usage.n_tenants; i++)
		free((char *)(uintptr_t)facts->usage.tenants[i].name);
	gq_status_facts_done(facts);
}

static void too_many(void **state)
{
	static const struct {
		const char *list, *missing;
		int64_t more;
	} cases[] = {
	    {"over", "missing.over", 0},           {"uncharged", "missing.uncharged", 0},
	    {"recount.drift", "missing.drift", 7}, {"recount.driftPods", "missing.driftPods", 7},
	    {"tenants", "missing.tenants", 0},
	};
	struct gq_status_facts facts = crowd(3000);
	struct printed printed GQ_CLEANUP(printed_done) = print(&facts, GQ_STATUS_MAX_BYTES);
	struct json_object *root = json_parse(printed.json.data, printed.json.len);

	(void)state;
	/* the room is used */
	assert_true(printed.yaml.len + printed.json.len > GQ_STATUS_MAX_BYTES - 1000);
	assert_true(json_true(root, "truncated"));
	for (size_t i = 0; i < LEN(cases); i++) {
		struct json_object *list = json_at(root, cases[i].list);
		size_t n = json_object_array_length(list);
		assert_in_range(n, 100, 2900);
		assert_number(root, cases[i].missing, 3000 - (int64_t)n + cases[i].more);
	}
	assert_has(printed.yaml.data, "\ntruncated: true\nmissing: {over: ");
	/* the largest are there */
	assert_string_equal(json_text(nth(root, "tenants", 0), "name"), "t02999");
	assert_string_equal(json_text(nth(root, "over", 0), "tenant"), "t02999");
	assert_has(printed.yaml.data, "\n- name: t02999\n");
	assert_has_not(printed.yaml.data, "\n- name: t00000\n");
	json_object_put(root);
	/* with more room, all of it */
	printed_done(&printed);
	facts.recount.more_limits = facts.recount.more_drifted = 0;
	printed = print(&facts, 4u << 20);
	root = json_parse(printed.json.data, printed.json.len);
	assert_false(json_true(root, "truncated"));
	assert_has_not(printed.yaml.data, "truncated");
	assert_int_equal(json_object_array_length(json_at(root, "tenants")), 3000);
	json_object_put(root);
	crowd_done(&facts);
}

/* Whatever the room: never more than it, and always valid. */
static void every_room(void **state)
{
	struct gq_status_facts facts = crowd(5);
	unsigned fit = 0;

	(void)state;
	for (size_t max = 0; max < 8000; max += 7) {
		struct printed printed GQ_CLEANUP(printed_done) = {GQ_BUF_INIT(max),
								   GQ_BUF_INIT(max)};
		int code = gq_status_print(&facts, max, &printed.yaml, &printed.json);
		if (code) {
			assert_int_equal(code, GQ_ETOOBIG);
			assert_int_equal(fit, 0);
			continue;
		}
		fit++;
		assert_true(printed.yaml.len + printed.json.len <= max);
		json_object_put(json_parse(printed.json.data, printed.json.len));
	}
	assert_true(fit > 100);
	crowd_done(&facts);
}

static void out_of_memory(void **state)
{
	struct gq_status_facts facts = facts_make();
	long n = 0;

	(void)state;
	for (bool failed = true; failed; n++) {
		struct gq_buf yaml GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
		struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_STATUS_MAX_BYTES);
		fail_alloc(n);
		int code = gq_status_print(&facts, GQ_STATUS_MAX_BYTES, &yaml, &json);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
	}
	assert_true(n > 10);
}

/* ---- recounts ---- */

static void copies(void **state)
{
	struct gq_status_facts facts = facts_make();
	struct gq_status_recount copy = {.pods = 77};
	long n = 0;

	(void)state;
	for (bool failed = true; failed; n++) {
		fail_alloc(n);
		int code = gq_status_recount_copy(&facts.recount, &copy);
		failed = fail_alloc_done();
		assert_int_equal(code, failed ? GQ_ENOMEM : 0);
		assert_int_equal(copy.pods, failed ? 77 : 1234);
	}
	assert_true(n > 2);
	assert_int_equal(copy.n_limits, 2);
	assert_int_equal(copy.n_drifted, 2);
	assert_true(copy.limits != facts.recount.limits);
	assert_true(copy.drifted[1] != drifted[1]);
	assert_string_equal(copy.drifted[1], "b/1");
	assert_string_equal(copy.limits[1].class_name, "*");
	assert_string_equal(copy.request, facts.recount.request);
	gq_status_recount_done(&copy);
	gq_status_recount_done(&copy); /* emptied */
	assert_int_equal(copy.n_limits + copy.n_drifted + copy.pods, 0);
}

/* What the list found and what counting anew found, one after the other. */
static void a_result(void **state)
{
	static const struct gq_recount_result result = {
	    .pods = 5,
	    .missed = {.limits = {{TEXT("team-a"), TEXT("A100"), -GPU, 0}},
		       .n_limits = 1,
		       .more_limits = 1,
		       .pods = {TEXT("a/1"), TEXT("a/2")},
		       .n_pods = 2,
		       .more_pods = 3},
	    .drift = {
		.limits = {{TEXT("team-b"), TEXT("*"), 0, 7}, {TEXT("c"), TEXT("H100"), 1, 1}},
		.n_limits = 2,
		.more_limits = 10,
		.pods = {TEXT("b/1")},
		.n_pods = 1,
		.counted = 1234}};
	static const struct gq_recount_result failed = {.code = GQ_EIO, .problem = "HTTP 500"};
	static const struct gq_recount_result mute = {.code = GQ_ENOMEM};
	struct gq_status_recount recount = {.pods = 77};
	long n = 0;

	(void)state;
	for (bool again = true; again; n++) {
		fail_alloc(n);
		int code = gq_status_recount_take(&recount, "17", START_WALL_S, &result);
		again = fail_alloc_done();
		assert_int_equal(code, again ? GQ_ENOMEM : 0);
		assert_int_equal(recount.pods, again ? 77 : 1234);
	}
	assert_true(n > 2);
	assert_string_equal(recount.request, "17");
	assert_true(recount.at_s == START_WALL_S);
	assert_string_equal(recount.problem, "");
	assert_int_equal(recount.n_limits, 3);
	assert_int_equal(recount.more_limits, 11);
	assert_string_equal(recount.limits[0].tenant, "team-a");
	assert_true(recount.limits[0].shares == -GPU);
	assert_string_equal(recount.limits[2].class_name, "H100");
	assert_int_equal(recount.n_drifted, 3);
	assert_int_equal(recount.more_drifted, 3);
	assert_string_equal(recount.drifted[2], "b/1");
	/* replaced */
	assert_int_equal(gq_status_recount_take(&recount, "", 1, &failed), 0);
	assert_int_equal(recount.n_limits + recount.n_drifted + recount.more_limits, 0);
	assert_string_equal(recount.request, "");
	assert_string_equal(recount.problem, "HTTP 500");
	assert_int_equal(gq_status_recount_take(&recount, "", 1, &mute), 0);
	assert_string_equal(recount.problem, "ENOMEM");
	gq_status_recount_done(&recount);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(for_people),   cmocka_unit_test(before_anything),
	    cmocka_unit_test(for_programs), cmocka_unit_test(over_in_memory),
	    cmocka_unit_test(texts),        cmocka_unit_test(too_many),
	    cmocka_unit_test(every_room),   cmocka_unit_test(out_of_memory),
	    cmocka_unit_test(copies),       cmocka_unit_test(a_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
