#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json_filter.h"
#include "controller/election.h"
#include "tests/unit/app_testing.h"
#include "tests/unit/fail_alloc.h"

#define MS GQ_NS_PER_MS
#define S GQ_NS_PER_S
#define WALL_NS (START_WALL_S * S + 123456789)
#define WALL_TEXT "2027-01-15T08:00:00.123456Z"
#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/gpuquota-system/leases"
#define LEASE COLLECTION "/gpuquota"

/* ---- one election, played by hand ---- */

static struct gq_election *election;
static int64_t now_ns, wall_ns;
static struct gq_election_request request;

static int setup(void **state)
{
	const struct gq_election_options how = {
	    .namespace_ = "gpuquota-system", .name = "gpuquota", .identity = "pod-a", .seed = 1};

	(void)state;
	now_ns = START_NS;
	wall_ns = WALL_NS;
	election = NULL;
	return gq_election_new(&how, &election, NULL);
}

static int teardown(void **state)
{
	(void)state;
	gq_election_free(election);
	return 0;
}

/* Forgets everything. */
static void restart(void)
{
	(void)teardown(NULL);
	(void)setup(NULL);
}

static bool begin(void)
{
	return gq_election_begin(election, now_ns, wall_ns, &request);
}

static void pass(int64_t ns)
{
	now_ns += ns;
	wall_ns += ns;
}

/* The next request is this one; time goes on to when it is due. Returns how long that was. */
static int64_t expect(const char *method)
{
	int64_t since_ns = now_ns, due_ns;

	while (!begin()) {
		due_ns = gq_election_deadline(election);
		assert_true(due_ns > now_ns && due_ns < INT64_MAX);
		pass(due_ns - now_ns);
	}
	assert_string_equal(request.method, method);
	assert_string_equal(request.path, strcmp(method, "POST") ? LEASE : COLLECTION);
	assert_in_range(request.timeout_ns, 50 * MS, S);
	if (strcmp(method, "GET") == 0) {
		assert_null(request.body);
	} else {
		assert_string_equal(request.content_type, "application/json");
		assert_int_equal(strlen(request.body), request.body_len);
	}
	return now_ns - since_ns;
}

/* The answer as the API client hands it over. */
static void answer(const char *single_quoted)
{
	struct gq_buf pruned GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_LEASE_MAX_BYTES);
	char *json = json_of(single_quoted);

	if (gq_json_prune(json, strlen(json), gq_lease_keep, &pruned, NULL))
		fail_msg("not JSON: %s", json);
	gq_election_end(election, now_ns, 0, pruned.data, pruned.len);
	free(json);
}

static void refuse(int code)
{
	gq_election_end(election, now_ns, code, "", 0);
}

/* The write succeeds: it comes back with another resourceVersion. */
static void echo(void)
{
	static unsigned version = 1000;
	struct json_object *root = json_parse(request.body, request.body_len), *metadata;
	char text[32];

	(void)snprintf(text, sizeof text, "%u", version++);
	assert_true(json_object_object_get_ex(root, "metadata", &metadata));
	(void)json_object_object_add(metadata, "resourceVersion", json_object_new_string(text));
	const char *json = json_object_to_json_string(root);
	gq_election_end(election, now_ns, 0, json, strlen(json));
	json_object_put(root);
}

static bool leads(void)
{
	return gq_election_leads(election, now_ns);
}

static void become_leader(void)
{
	expect("GET");
	refuse(GQ_ENOTFOUND);
	expect("POST");
	echo();
	assert_true(leads());
}

/* What the request would write. json_object_put() it. */
static struct json_object *written(void)
{
	return json_parse(request.body, request.body_len);
}

static int64_t written_number(const char *path)
{
	struct json_object *root = written();
	struct json_object *at = json_at(root, path);

	assert_true(json_object_is_type(at, json_type_int));
	int64_t number = json_object_get_int64(at);
	json_object_put(root);
	return number;
}

static void assert_written(const char *path, const char *text)
{
	struct json_object *root = written();

	assert_string_equal(json_text(root, path), text);
	json_object_put(root);
}

static void options(void **state)
{
	static const struct {
		const char *namespace_, *name, *identity;
		int64_t lease_ns, renew_ns, retry_ns;
		int code;
	} cases[] = {
	    {"n", "l", "i", 0, 0, 0, 0},
	    {"n", "l", "i", 15 * S, 10 * S, 2 * S, 0},
	    {"n", "l", "i", 3600 * S, 0, 0, 0},
	    {"n", "l", "i", 3601 * S, 0, 0, GQ_EINVALID},
	    {"n", "l", "i", 3500 * MS, 0, 0, GQ_EINVALID},
	    {"n", "l", "i", 0, 5 * S, 0, GQ_EINVALID},
	    {"n", "l", "i", 0, 1200 * MS, 0, GQ_EINVALID},
	    {"n", "l", "i", 0, 1201 * MS, 0, 0},
	    {"n", "l", "i", 0, 0, -1, GQ_EINVALID},
	    {"n", "l", "i", -5 * S, -6 * S, 0, GQ_EINVALID},
	    {"n", "l", "", 0, 0, 0, GQ_EINVALID},
	    {"n", "../l", "i", 0, 0, 0, GQ_EINVALID},
	    {"n/x", "l", "i", 0, 0, 0, GQ_EINVALID},
	    {"", "l", "i", 0, 0, 0, GQ_EINVALID},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_election *made = NULL;
		struct gq_err err = {0};
		const struct gq_election_options how = {cases[i].namespace_,
							cases[i].name,
							cases[i].identity,
							cases[i].lease_ns,
							cases[i].renew_ns,
							cases[i].retry_ns,
							0};
		if (gq_election_new(&how, &made, &err) != cases[i].code)
			fail_msg("case %zu", i);
		assert_true(!made == (cases[i].code != 0));
		assert_int_equal(err.code, cases[i].code);
		gq_election_free(made);
	}
}

/* No Lease: it is made. From before the request was sent on, it leads. */
static void creates(void **state)
{
	(void)state;
	assert_int_equal(expect("GET"), 0);
	assert_true(gq_election_deadline(election) == INT64_MAX);
	assert_false(begin());
	refuse(GQ_ENOTFOUND);
	assert_int_equal(expect("POST"), 0);
	assert_string_equal(
	    request.body, "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
			  "\"metadata\":{\"name\":\"gpuquota\",\"namespace\":\"gpuquota-system\"},"
			  "\"spec\":{\"holderIdentity\":\"pod-a\",\"leaseDurationSeconds\":5,"
			  "\"acquireTime\":\"" WALL_TEXT "\",\"renewTime\":\"" WALL_TEXT
			  "\",\"leaseTransitions\":0}}");
	pass(700 * MS);
	assert_false(leads());
	echo();
	assert_true(leads());
	assert_string_equal(gq_election_holder(election), "pod-a");
	assert_int_equal(gq_election_deadline(election), START_NS + S);
	now_ns = START_NS + 3500 * MS - 1;
	assert_true(leads());
	now_ns++;
	assert_false(leads());
}

/* Leases as people make them. wait_ns: until it is written, when it stays as it is. */
static void leases(void **state)
{
	static const struct {
		const char *spec;
		int64_t wait_ns;
		int64_t transitions; /* that are written */
		const char *holder;  /* as it is told */
	} cases[] = {
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':15,'leaseTransitions':3}", 15 * S, 4,
	     "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':1}", S, 1, "pod-b"},
	    {"{'holderIdentity':'','leaseDurationSeconds':3600,'leaseTransitions':3}", 0, 4, ""},
	    {"{'holderIdentity':null,'leaseDurationSeconds':15}", 0, 1, ""},
	    {"{'leaseDurationSeconds':15}", 0, 1, ""},
	    {"{}", 0, 1, ""},
	    {"null", 0, 1, ""},
	    {"[]", 0, 1, ""},
	    {"'pod-b'", 0, 1, ""},
	    {"{'holderIdentity':'pod-b'}", 5 * S, 1, "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':0}", 5 * S, 1, "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':-1}", 5 * S, 1, "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':'9'}", 5 * S, 1, "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':1.5}", 5 * S, 1, "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':3601}", 3600 * S, 1, "pod-b"},
	    {"{'holderIdentity':'pod-b','leaseDurationSeconds':99999999999999999999}", 3600 * S, 1,
	     "pod-b"},
	    {"{'holderIdentity':7}", 5 * S, 1, ""},
	    {"{'holderIdentity':['pod-a']}", 5 * S, 1, ""},
	    {"{'holderIdentity':'pod-a\\u0000'}", 5 * S, 1, "pod-a"},
	    {"{'holderIdentity':'pod-aa'}", 5 * S, 1, "pod-aa"},
	    {"{'holderIdentity':'','leaseTransitions':-4}", 0, 1, ""},
	    {"{'holderIdentity':'','leaseTransitions':'4'}", 0, 1, ""},
	    {"{'holderIdentity':'','leaseTransitions':2147483646}", 0, INT32_MAX, ""},
	    {"{'holderIdentity':'','leaseTransitions':9999999999999}", 0, INT32_MAX, ""},
	    {"{'holderIdentity':'pod-a','leaseTransitions':3}", 0, 3, "pod-a"},
	    {"{'holderIdentity':'pod-a','leaseTransitions':3,'acquireTime':'2026-01-02T03:04:05"
	     ".000007Z','leaseDurationSeconds':3600}",
	     0, 3, "pod-a"},
	    {"{'holderIdentity':'pod-a','acquireTime':'\\\"}'}", 0, 0, "pod-a"},
	    {"{'holderIdentity':'pod-a','acquireTime':'0000000000000000000000000000000000000000'}",
	     0, 0, "pod-a"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char lease[512];
		(void)snprintf(lease, sizeof lease,
			       "{'metadata':{'resourceVersion':'7'},'spec':%s}", cases[i].spec);
		restart();
		expect("GET");
		answer(lease);
		while (now_ns += gq_election_deadline(election) - now_ns, begin()) {
			assert_true(!leads() && now_ns - START_NS <= 3600 * S);
			if (strcmp(request.method, "GET") != 0)
				break;
			answer(lease);
		}
		if (now_ns - START_NS != cases[i].wait_ns)
			fail_msg("%s: written after %lld ms", cases[i].spec,
				 (long long)((now_ns - START_NS) / MS));
		assert_string_equal(gq_election_holder(election), cases[i].holder);
		assert_string_equal(request.method, "PUT");
		assert_int_equal(written_number("spec.leaseTransitions"), cases[i].transitions);
		assert_int_equal(written_number("spec.leaseDurationSeconds"), 5);
		assert_written("spec.holderIdentity", "pod-a");
		assert_written("metadata.resourceVersion", "7");
		assert_written("spec.renewTime", WALL_TEXT);
		assert_written("spec.acquireTime", strstr(cases[i].spec, "000007Z")
						       ? "2026-01-02T03:04:05.000007Z"
						       : WALL_TEXT);
		echo();
		assert_true(leads());
	}
}

/* What is no Lease at all is a failure: nothing is written. */
static void no_lease(void **state)
{
	static const char *const cases[] = {
	    "",
	    "null",
	    "[]",
	    "{}",
	    "{'metadata':{}}",
	    "{'metadata':{'resourceVersion':''}}",
	    "{'metadata':{'resourceVersion':7}}",
	    "{'metadata':[],'spec':{'holderIdentity':'pod-a'}}",
	    "{'metadata':{'resourceVersion':'7'},'spec':{'holderIdentity':'pod-a'}",
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *json = json_of(cases[i]);
		expect("GET");
		gq_election_end(election, now_ns, 0, json, strlen(json));
		free(json);
		assert_in_range(gq_election_deadline(election) - now_ns, S, 1200 * MS);
		assert_false(leads());
	}
}

/* What others put into the metadata stays there; what only the API server writes is left out. */
static void metadata(void **state)
{
	(void)state;
	expect("GET");
	answer("{'metadata':{'name':'x','uid':'u','resourceVersion':'a\\\"7','labels':{'a/b':'c'},"
	       "'managedFields':[{'manager':'kubectl'}],'annotations':{'n':'line\\nbreak'},"
	       "'finalizers':['f'],'ownerReferences':[{'uid':'o'}]},'spec':{}}");
	expect("PUT");
	assert_has(request.body,
		   "\"metadata\":{\"name\":\"gpuquota\",\"namespace\":\"gpuquota-system\","
		   "\"resourceVersion\":\"a\\\"7\",\"uid\":\"u\",\"labels\":{\"a/b\":\"c\"},"
		   "\"annotations\":{\"n\":\"line\\nbreak\"},\"ownerReferences\":[{\"uid\":\"o\"}],"
		   "\"finalizers\":[\"f\"]}");
	assert_has_not(request.body, "kubectl");
}

#define OF_B(version, time)                                                                        \
	"{'metadata':{'resourceVersion':'" version "'},'spec':{'holderIdentity':'pod-b',"          \
	"'leaseDurationSeconds':5,'renewTime':'" time "'}}"

/* Another's Lease is waited for from when it was last seen to change, which its metadata are not;
 * the times in it mean nothing here. */
static void waits(void **state)
{
	(void)state;
	expect("GET");
	answer(OF_B("1", "1999-01-01T00:00:00.000000Z"));
	assert_in_range(expect("GET"), 250 * MS, 300 * MS);
	answer(OF_B("2", "1999-01-01T00:00:00.000001Z"));
	int64_t changed_ns = now_ns;
	assert_in_range(expect("GET"), 250 * MS, 300 * MS);
	answer("{'metadata':{'resourceVersion':'3','labels':{'a':'b'}},'spec':{'holderIdentity':"
	       "'pod-b','leaseDurationSeconds':5,'renewTime':'1999-01-01T00:00:00.000001Z'}}");
	/* failures on the way do not make it longer */
	for (; expect("GET"), now_ns < changed_ns + 4 * S;)
		refuse(GQ_EIO);
	refuse(GQ_EDENIED);
	while (!begin())
		pass(gq_election_deadline(election) - now_ns);
	assert_int_equal(now_ns - changed_ns, 5 * S);
	assert_string_equal(request.method, "PUT");
	assert_written("metadata.resourceVersion", "3");
	/* it was not dead */
	refuse(GQ_ECONFLICT);
	assert_int_equal(expect("GET"), 0);
	answer(OF_B("4", "1999-01-01T00:00:00.000002Z"));
	assert_false(leads());
	assert_in_range(expect("GET"), 0, 300 * MS);
}

/* How a renewal can end, and what comes next. */
static void renewals(void **state)
{
	static const struct {
		int code; /* 1: success */
		const char *next;
		int64_t after_ms;
	} cases[] = {
	    {1, "PUT", 1000},           {GQ_ECONFLICT, "GET", 0},  {GQ_ENOTFOUND, "GET", 0},
	    {GQ_EIO, "GET", 1000},      {GQ_EDENIED, "GET", 1000}, {GQ_ETHROTTLED, "GET", 1000},
	    {GQ_EINVALID, "GET", 1000}, {GQ_ETOOBIG, "GET", 1000},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		restart();
		become_leader();
		assert_int_equal(expect("PUT"), S);
		assert_written("spec.acquireTime", WALL_TEXT);
		assert_written("spec.renewTime", "2027-01-15T08:00:01.123456Z");
		assert_int_equal(written_number("spec.leaseTransitions"), 0);
		if (cases[i].code > 0)
			echo();
		else
			refuse(cases[i].code);
		assert_true(leads());
		assert_int_equal(expect(cases[i].next), cases[i].after_ms * MS);
		/* no success: the leadership ends with the first renewal's time */
		now_ns = START_NS + 3500 * MS;
		assert_int_equal(leads(), cases[i].code > 0);
	}
}

/* A renewal of unknown outcome is read back, and renewed again at once. */
static void unknown_outcome(void **state)
{
	(void)state;
	become_leader();
	expect("PUT");
	char *body = strdup(request.body);
	pass(request.timeout_ns);
	refuse(GQ_EIO);
	assert_int_equal(expect("GET"), 0);
	struct json_object *root = json_parse(body, strlen(body)), *metadata;
	assert_true(json_object_object_get_ex(root, "metadata", &metadata));
	(void)json_object_object_add(metadata, "resourceVersion", json_object_new_string("9"));
	const char *json = json_object_to_json_string(root);
	gq_election_end(election, now_ns, 0, json, strlen(json));
	json_object_put(root);
	free(body);
	assert_int_equal(expect("PUT"), 0);
	assert_written("metadata.resourceVersion", "9");
	echo();
	assert_int_equal(gq_election_deadline(election), now_ns + S);
	assert_true(gq_election_leads(election, now_ns + 3500 * MS - 1));
}

/* Requests that hang leave time for others before the deadline. Then it leads no more, and says
 * when that is; it tries on, and resumes what is still its own. */
static void hangs(void **state)
{
	unsigned requests = 0;

	(void)state;
	become_leader();
	int64_t end_ns = now_ns + 3500 * MS;
	pass(S);
	while (now_ns < end_ns && begin()) {
		requests++;
		assert_int_equal(gq_election_deadline(election), end_ns);
		assert_true(now_ns + request.timeout_ns <= end_ns);
		assert_true(leads());
		pass(request.timeout_ns);
		refuse(GQ_EIO);
	}
	assert_int_equal(now_ns, end_ns);
	assert_int_equal(requests, 3);
	assert_false(leads());
	expect("GET");
	/* a leadership that is over is no deadline any more */
	assert_true(gq_election_deadline(election) == INT64_MAX);
	answer("{'metadata':{'resourceVersion':'5'},'spec':{'holderIdentity':'pod-a',"
	       "'leaseTransitions':8}}");
	assert_false(leads());
	assert_int_equal(expect("PUT"), 0);
	assert_int_equal(written_number("spec.leaseTransitions"), 8);
	echo();
	assert_true(leads());
}

/* While a request runs that was sent before the end of the leadership, the end comes. */
static void ends_under_way(void **state)
{
	(void)state;
	become_leader();
	expect("PUT");
	now_ns = gq_election_deadline(election);
	assert_int_equal(now_ns, START_NS + 3500 * MS);
	assert_false(leads());
	assert_false(begin());
	assert_true(gq_election_deadline(election) == INT64_MAX);
	/* an answer that comes so late counts from when it was asked */
	echo();
	assert_true(leads());
	assert_true(gq_election_leads(election, START_NS + 4500 * MS - 1));
	assert_false(gq_election_leads(election, START_NS + 4500 * MS));
}

/* Somebody took it: that ends the leadership on the spot. */
static void loses(void **state)
{
	(void)state;
	become_leader();
	expect("PUT");
	refuse(GQ_ECONFLICT);
	expect("GET");
	assert_true(leads());
	answer(OF_B("1", "1999-01-01T00:00:00.000000Z"));
	assert_false(leads());
	assert_string_equal(gq_election_holder(election), "pod-b");
	expect("GET");
}

/* However the API server answers, requests do not follow one another without end. */
static void no_storm(void **state)
{
	static const int codes[] = {GQ_ENOTFOUND, GQ_ECONFLICT, GQ_EIO, 0};

	(void)state;
	for (int leader = 0; leader < 2; leader++)
		for (size_t get = 0; get < LEN(codes); get++)
			for (size_t put = 0; put < LEN(codes); put++) {
				restart();
				if (leader)
					become_leader();
				unsigned requests = 0;
				for (int64_t until_ns = now_ns + 60 * S; now_ns < until_ns;) {
					if (!begin()) {
						int64_t due = gq_election_deadline(election);
						assert_true(due > now_ns);
						pass(due - now_ns);
						continue;
					}
					requests++;
					int code = codes[request.body ? put : get];
					if (code)
						refuse(code);
					else
						answer("{'metadata':{'resourceVersion':'5'}}");
				}
				if (requests < 40 || requests > 4 * 61)
					fail_msg("%u requests", requests);
			}
}

#define OURS "{'metadata':{'resourceVersion':'6'},'spec':{'holderIdentity':'pod-a'}}"

static void expect_release(void)
{
	assert_int_equal(expect("PUT"), 0);
	assert_written("spec.holderIdentity", "");
	assert_int_equal(written_number("spec.leaseDurationSeconds"), 1);
	assert_int_equal(written_number("spec.leaseTransitions"), 0);
	assert_false(gq_election_released(election));
}

static void release(void)
{
	gq_election_release(election, now_ns);
	assert_false(leads());
}

static void assert_over(void)
{
	assert_true(gq_election_released(election));
	assert_true(gq_election_deadline(election) == INT64_MAX);
	pass(100 * S);
	assert_false(begin());
	assert_false(leads());
}

static void releases(void **state)
{
	(void)state;
	become_leader();
	release();
	expect_release();
	release();
	assert_false(leads());
	/* somebody wrote a label in the meantime */
	refuse(GQ_ECONFLICT);
	assert_int_equal(expect("GET"), 0);
	answer(OURS);
	expect_release();
	/* an unknown outcome: not done */
	refuse(GQ_EIO);
	assert_in_range(expect("GET"), S, 1200 * MS);
	answer(OURS);
	expect_release();
	echo();
	assert_string_equal(gq_election_holder(election), "");
	assert_over();
}

/* What is read back after a release that failed, and whether that is the end. */
static void releases_at_last(void **state)
{
	static const struct {
		int code;
		const char *lease;
		bool over;
	} cases[] = {
	    {GQ_ENOTFOUND, NULL, true},
	    {0, OF_B("1", "1999-01-01T00:00:00.000000Z"), true},
	    {0, "{'metadata':{'resourceVersion':'6'},'spec':{'holderIdentity':''}}", true},
	    {0, OURS, false},
	    {GQ_EIO, NULL, false},
	    {GQ_EDENIED, NULL, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		restart();
		become_leader();
		release();
		expect_release();
		refuse(GQ_ECONFLICT);
		expect("GET");
		if (cases[i].code)
			refuse(cases[i].code);
		else
			answer(cases[i].lease);
		if (cases[i].over)
			assert_over();
		else
			assert_false(gq_election_released(election));
	}
}

/* A release while something else is under way, or before anything was known. */
static void releases_early(void **state)
{
	(void)state;
	/* nothing known: it may still be ours from an earlier life */
	release();
	assert_false(gq_election_released(election));
	expect("GET");
	answer(OURS);
	expect_release();
	echo();
	assert_over();

	/* waiting for another's */
	restart();
	expect("GET");
	answer(OF_B("1", "1999-01-01T00:00:00.000000Z"));
	release();
	assert_over();

	/* a renewal under way succeeds */
	restart();
	become_leader();
	expect("PUT");
	release();
	assert_false(begin());
	echo();
	assert_false(leads());
	expect_release();
	echo();
	assert_over();

	/* an acquisition of unknown outcome */
	restart();
	expect("GET");
	refuse(GQ_ENOTFOUND);
	expect("POST");
	release();
	refuse(GQ_EIO);
	assert_false(gq_election_released(election));
	expect("GET");
	answer(OURS);
	expect_release();
	echo();
	assert_over();
}

/* Somebody deletes the Lease: its holder makes it anew at once, others wait in case there is one.
 */
static void deleted(void **state)
{
	(void)state;
	become_leader();
	expect("PUT");
	refuse(GQ_ENOTFOUND);
	assert_int_equal(expect("GET"), 0);
	refuse(GQ_ENOTFOUND);
	assert_true(leads());
	assert_int_equal(expect("POST"), 0);
	echo();
	assert_true(leads());

	restart();
	expect("GET");
	answer(OF_B("1", "1999-01-01T00:00:00.000000Z"));
	expect("GET");
	int64_t gone_ns = now_ns;
	refuse(GQ_ENOTFOUND);
	assert_string_equal(gq_election_holder(election), "");
	while (assert_true(now_ns - gone_ns < 60 * S),
	       !begin() || strcmp(request.method, "GET") == 0)
		if (gq_election_deadline(election) == INT64_MAX)
			refuse(GQ_ENOTFOUND);
		else
			pass(gq_election_deadline(election) - now_ns);
	assert_string_equal(request.method, "POST");
	assert_int_equal(now_ns - gone_ns, 5 * S);

	/* made by another, and gone again */
	restart();
	expect("GET");
	refuse(GQ_ENOTFOUND);
	expect("POST");
	refuse(GQ_ECONFLICT);
	assert_int_equal(expect("GET"), 0);
	refuse(GQ_ENOTFOUND);
	assert_in_range(expect("GET"), 250 * MS, 300 * MS);

	/* one whose leadership has lapsed is such another */
	restart();
	become_leader();
	pass(10 * S);
	expect("PUT");
	refuse(GQ_ENOTFOUND);
	expect("GET");
	refuse(GQ_ENOTFOUND);
	assert_in_range(expect("GET"), 250 * MS, 300 * MS);
}

/* The wall clock is only written. Each renewal changes the record, whatever it does. */
static void wall_clock(void **state)
{
	static const int64_t walls[] = {WALL_NS - S,
					WALL_NS,
					WALL_NS,
					WALL_NS - 1000,
					WALL_NS + 1000,
					WALL_NS - 3600 * S,
					WALL_NS + 86400 * S,
					INT64_MIN,
					0,
					1,
					INT64_MAX,
					INT64_MAX};
	char last[64] = "";

	(void)state;
	become_leader();
	for (size_t i = 0; i < LEN(walls); i++) {
		assert_int_equal(expect("PUT"), S);
		refuse(GQ_ECONFLICT); /* to have it written anew, with a clock of our choice */
		expect("GET");
		char lease[256];
		(void)snprintf(lease, sizeof lease,
			       "{'metadata':{'resourceVersion':'6'},'spec':{'holderIdentity':"
			       "'pod-a','renewTime':'%s'}}",
			       last);
		answer(lease);
		wall_ns = walls[i];
		assert_true(begin());
		struct json_object *root = written();
		const char *time = json_text(root, "spec.renewTime");
		assert_int_equal(strlen(time), strlen(WALL_TEXT));
		assert_string_not_equal(time, last);
		(void)snprintf(last, sizeof last, "%s", time);
		json_object_put(root);
		echo();
		assert_true(leads());
		wall_ns = WALL_NS;
	}
}

/* Out of memory at any point: no crash, and it goes on when there is memory. */
static void out_of_memory(void **state)
{
	static const char json[] = "{\"metadata\":{\"resourceVersion\":\"6\",\"labels\":"
				   "{\"a\":\"b\"}},\"spec\":{\"holderIdentity\":\"pod-a\"}}";
	bool failed = true;

	for (long nth = 0; failed; nth++) {
		(void)teardown(NULL);
		fail_alloc(nth);
		int code = setup(state);
		for (int requests = 0; !code && !leads() && requests < 20;) {
			if (begin()) {
				gq_election_end(election, now_ns, 0, json, strlen(json));
				requests++;
			} else {
				assert_true(gq_election_deadline(election) > now_ns);
				pass(gq_election_deadline(election) - now_ns);
			}
		}
		failed = fail_alloc_done();
		assert_true(code ? code == GQ_ENOMEM && failed : leads());
	}
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(options),        TEST(creates),
	    TEST(leases),         TEST(no_lease),
	    TEST(metadata),       TEST(waits),
	    TEST(renewals),       TEST(unknown_outcome),
	    TEST(hangs),          TEST(ends_under_way),
	    TEST(loses),          TEST(no_storm),
	    TEST(releases),       TEST(releases_at_last),
	    TEST(releases_early), TEST(deleted),
	    TEST(wall_clock),     TEST(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
