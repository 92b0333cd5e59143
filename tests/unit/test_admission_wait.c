/* Reviews that are not answered at once: they wait for the watch, for reads, for a commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/admission_world.h"

/* ---- waiting ---- */

static void see(const char *uid, const char *name, const char *owner)
{
	struct gq_buf json GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	struct gq_pod *pod = NULL;
	struct gq_err err = {0};

	gq_buf_printf(&json,
		      "{\"metadata\":{\"namespace\":\"a-train\",\"name\":\"%s\",\"uid\":\"%s\","
		      "\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"rs\",\"uid\":"
		      "\"%s\",\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"c\","
		      "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}",
		      name, uid, owner);
	if (gq_pod_decode(json.data, json.len, NULL, &pod, &err) ||
	    gq_ledger_pod_seen(world.ledger, pod, world.clock.mono_ns, &err))
		fail_msg("%s", err.msg);
	gq_pod_unref(pod);
}

static void two_unseen(void)
{
	allow(POD(.ns = "a-train", .name = "p1", .uid = "u1", .gpus = "1", .owner = "o"));
	allow(POD(.ns = "a-train", .name = "p2", .uid = "u2", .gpus = "1", .owner = "o"));
}

/* A controller whose last pods were not seen yet waits for the watch. */
static void waits_for_the_watch(void **state)
{
	(void)state;
	two_unseen();
	struct gq_request *request = ask_pod(
	    &world, POD(.ns = "a-train", .name = "p3", .uid = "u3", .gpus = "1", .owner = "o"));
	assert_int_equal(request->answers, 0);
	assert_true(request->retry && request->delay_ns > 0);
	for (int i = 0; i < 3; i++) {
		world.clock.mono_ns += request->delay_ns;
		request_handle(&world, request);
		assert_int_equal(request->answers, 0);
	}
	assert_int_equal(app_held(world.ledger, "team-a", -1), 2);
	see("u1", "p1", "o");
	request_run(&world, request);
	assert_allowed(request);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 3);
	request_free(request);
	assert_int_equal(counted_all(&world), 3); /* waiting is no answer */
}

static void waits_until_the_deadline(void **state)
{
	(void)state;
	two_unseen();
	int64_t begin_ns = world.clock.mono_ns;
	struct gq_request *request = ask_pod(
	    &world, POD(.ns = "a-train", .name = "p3", .uid = "u3", .gpus = "1", .owner = "o"));
	request_run(&world, request);
	assert_has(assert_last_word(request), "time that the API server gave");
	assert_true(world.clock.mono_ns < begin_ns + 10 * GQ_NS_PER_S);
	assert_true(world.clock.mono_ns > begin_ns + 9 * GQ_NS_PER_S);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 2);
	assert_int_equal(counted(&world, GQ_VERDICT_UNAVAILABLE, GQ_REASON_TOO_LATE), 1);
	request_free(request);
}

/* A caller that is gone gets nothing reserved. */
static void waits_for_nobody(void **state)
{
	(void)state;
	two_unseen();
	struct gq_request *request = ask_pod(
	    &world, POD(.ns = "a-train", .name = "p3", .uid = "u3", .gpus = "1", .owner = "o"));
	assert_true(request->retry);
	see("u1", "p1", "o");
	request->orphaned = true;
	request_run(&world, request);
	(void)assert_failed(request, 503);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 2);
	request_free(request);
}

/* ---- reads ---- */

static void reads_an_unknown_namespace(void **state)
{
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "b-1", .name = "p", .uid = "u1", .gpus = "1"));

	(void)state;
	assert_int_equal(request->answers, 0);
	assert_false(request->retry);
	assert_int_equal(world.n_reads, 1);
	assert_string_equal(world.reads[0].path, "/api/v1/namespaces/b-1");
	world_finish_read(&world, 0, 0, "{'metadata':{'name':'b-1','labels':{'team':'b'}}}");
	assert_int_equal(request->answers, 0); /* not on the thread that reads */
	assert_true(request->retry && request->delay_ns == 0);
	request_run(&world, request);
	assert_allowed(request);
	assert_int_equal(app_held(world.ledger, "team-b", GQ_STATE_RESERVED), 1);
	request_free(request);
	/* it is known now */
	request = ask_pod(&world, POD(.ns = "b-1", .name = "q", .uid = "u2", .gpus = "1"));
	assert_has(assert_denied(request), "team-b may hold 1 A100 GPU");
	assert_int_equal(world.n_reads, 1);
	request_free(request);
}

static void namespace_reads_that_fail(void **state)
{
	static const struct {
		int code;
		const char *json;
		int status;
		const char *message;
	} cases[] = {
	    {GQ_ENOTFOUND, NULL, 200, "belongs to no tenant"},
	    {0, "{'metadata':{'name':'b-1','labels':{'team':'x'}}}", 200, "belongs to no tenant"},
	    {GQ_EIO, NULL, 503, ""},
	    {GQ_EDENIED, NULL, 503, ""},
	    {GQ_ETHROTTLED, NULL, 503, ""},
	    {GQ_ENOMEM, NULL, 503, ""},
	    {0, "{}", 503, ""},
	    {0, "", 503, ""},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		world.n_reads = 0;
		struct gq_request *request =
		    ask_pod(&world, POD(.ns = "b-1", .name = "p", .uid = "u1", .gpus = "1"));
		assert_int_equal(world.n_reads, 1);
		world_finish_read(&world, 0, cases[i].code, cases[i].json);
		request_run(&world, request);
		assert_int_equal(world.n_reads, 1); /* not again for this request */
		if (cases[i].status == 503)
			(void)assert_failed(request, 503);
		else
			(void)assert_denied(request);
		assert_int_equal(app_charges(world.ledger), 0);
		gq_ledger_namespace_gone(world.ledger, "b-1");
		request_free(request);
	}
}

#define TWO_CLAIMS                                                                                 \
	",'resourceClaims':[{'name':'x','resourceClaimName':'c1'},"                                \
	"{'name':'y','resourceClaimTemplateName':'t1'}]"

#define CLAIM(of)                                                                                  \
	"{'spec':{'devices':{'requests':[{'name':'r','exactly':{'deviceClassName':'" of "'}}]}}}"
#define TEMPLATE(of) "{'spec':" CLAIM(of) "}"
/* \u0022 is a double quote inside a JSON string */
#define NIC_CLASS                                                                                  \
	"{'spec':{'selectors':[{'cel':{'expression':"                                              \
	"'device.driver == \\u0022nic.example.com\\u0022'}}]}}"

/* Everything that is known to be needed is asked for at once, and the last answer decides. */
static void reads_claims_together(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		world.n_reads = 0;
		struct gq_request *request = ask_pod(
		    &world, POD(.ns = "a-train", .name = "p", .uid = "u1", .spec = TWO_CLAIMS));
		assert_int_equal(world.n_reads, 2);
		assert_has(world.reads[0].path, "/namespaces/a-train/resourceclaims/c1");
		assert_has(world.reads[1].path, "/namespaces/a-train/resourceclaimtemplates/t1");
		for (size_t i = 0; i < 2; i++) {
			size_t which = order ? 1 - i : i;
			assert_false(request->retry);
			world_finish_read(&world, which, 0,
					  which ? TEMPLATE("gpu.nvidia.com") : CLAIM("nic"));
		}
		assert_int_equal(request->answers, 0);
		assert_int_equal(request->retries, 1);
		request_run(&world, request);
		while (request->answers == 0) { /* the class of the NIC may be read first */
			assert_int_equal(world.n_reads, 3);
			assert_has(world.reads[2].path, "/deviceclasses/nic");
			world_finish_read(&world, 2, GQ_ENOTFOUND, NULL);
			request_run(&world, request);
		}
		(void)assert_denied(request);
		request_free(request);
	}
	assert_int_equal(counted(&world, GQ_VERDICT_DENY, GQ_REASON_CLAIM), 2);
	assert_int_equal(app_charges(world.ledger), 0);
}

static void harmless_claims(void **state)
{
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .spec = TWO_CLAIMS));

	(void)state;
	world_finish_read(&world, 1, 0, TEMPLATE("nic"));
	world_finish_read(&world, 0, 0, CLAIM("nic"));
	request_run(&world, request);
	assert_int_equal(world.n_reads, 3);
	assert_int_equal(request->answers, 0);
	world_finish_read(&world, 2, 0, NIC_CLASS);
	request_run(&world, request);
	assert_allowed(request);
	assert_int_equal(app_charges(world.ledger), 0);
	request_free(request);
}

static void claim_reads_that_fail(void **state)
{
	static const struct {
		int code;
		int status;
	} cases[] = {{GQ_ENOTFOUND, 200}, {GQ_EDENIED, 200}, {GQ_EIO, 503}, {GQ_ETOOBIG, 503}};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		world.n_reads = 0;
		struct gq_request *request = ask_pod(
		    &world,
		    POD(.ns = "a-train", .name = "p", .uid = "u1",
			.spec = ",'resourceClaims':[{'name':'x','resourceClaimName':'c1'}]"));
		world_finish_read(&world, 0, cases[i].code, NULL);
		request_run(&world, request);
		if (cases[i].status == 503)
			(void)assert_failed(request, 503);
		else
			(void)assert_denied(request);
		request_free(request);
	}
}

static int not_found(struct gq_read *read)
{
	(void)read;
	return GQ_ENOTFOUND;
}

/* Answers that come before the call returns lead to one retry, not to several. */
static void reads_that_end_at_once(void **state)
{
	(void)state;
	world.read_at_once = not_found;
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .spec = TWO_CLAIMS));
	assert_int_equal(world.n_reads, 2);
	assert_int_equal(request->retries, 1);
	request_run(&world, request);
	(void)assert_denied(request);
	request_free(request);
}

/* The time is up while the API server is asked. */
static void reads_that_last_too_long(void **state)
{
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "b-1", .name = "p", .uid = "u1", .gpus = "1"));

	(void)state;
	world.clock.mono_ns += 10 * GQ_NS_PER_S;
	world_finish_read(&world, 0, 0, "{'metadata':{'name':'b-1','labels':{'team':'b'}}}");
	request_run(&world, request);
	(void)assert_last_word(request);
	assert_int_equal(app_charges(world.ledger), 0);
	request_free(request);
}

/* ---- commits ---- */

static void answers_after_the_commit(void **state)
{
	(void)state;
	world.hold_commits = true;
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "4"));
	assert_int_equal(world.n_commits, 1);
	assert_int_equal(request->answers, 0);
	assert_false(request->retry);
	assert_int_equal(counted_all(&world), 0);
	/* what is proposed is held already */
	struct gq_request *other =
	    ask_pod(&world, POD(.ns = "a-train", .name = "q", .uid = "u2", .gpus = "1"));
	assert_has(assert_denied(other), "holds 4");
	request_free(other);
	/* the same pod joins the ticket */
	struct gq_request *again =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "4"));
	assert_int_equal(again->answers, 0);
	assert_int_equal(world.n_commits, 2);
	assert_true(world.commits[0].ticket == world.commits[1].ticket);
	world_finish_commit(&world, 0, 0);
	assert_allowed(request);
	assert_int_equal(again->answers, 0);
	world_finish_commit(&world, 1, 0);
	assert_allowed(again);
	assert_int_equal(app_held(world.ledger, "team-a", -1), 4);
	request_free(request);
	request_free(again);
}

static void commits_that_fail(void **state)
{
	(void)state;
	world.commit_code = GQ_EIO;
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "4"));
	assert_has(assert_failed(request, 503), "cannot note reservations");
	assert_int_equal(app_charges(world.ledger), 0);
	assert_int_equal(counted(&world, GQ_VERDICT_UNAVAILABLE, GQ_REASON_JOURNAL), 1);
	assert_int_equal(counted_all(&world), 1);
	request_free(request);
	world.commit_code = 0;
	allow(POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "4"));
}

/* The API server asks again until the time of its first call is over. The last answer before that
 * is the one that its user reads. */
static void the_last_word(void **state)
{
	static const struct {
		int64_t after_ms;
		bool last;
	} calls[] = {{0, false}, {4000, false}, {7400, false}, {7600, true}, {9900, true}};
	int64_t begin_ns = world.clock.mono_ns;

	(void)state;
	world.commit_code = GQ_EIO;
	for (size_t i = 0; i < LEN(calls); i++) {
		world.clock.mono_ns = begin_ns + calls[i].after_ms * GQ_NS_PER_MS;
		struct gq_request *request =
		    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "4"));
		assert_has(calls[i].last ? assert_last_word(request) : assert_failed(request, 503),
			   "cannot note reservations");
		request_free(request);
	}
	/* another one has its own time */
	struct gq_request *other =
	    ask_pod(&world, POD(.ns = "a-train", .name = "q", .uid = "u2", .gpus = "4"));
	(void)assert_failed(other, 503);
	request_free(other);
	world.commit_code = 0;
}

/* Another replica decides: the connection is closed, so that the next call may reach it. */
static bool leads;

static bool on_leads(void *arg)
{
	(void)arg;
	return leads;
}

static void leading(void **state)
{
	struct gq_admission *always = world.admission;

	(void)state;
	world.admission =
	    gq_admission_new(&(struct gq_admission_options){.ledger = world.ledger,
							    .clock = &world.clock.clock,
							    .policy_namespace = "gpuquota-system",
							    .policy_name = "gpuquota-policy",
							    .read = world_read,
							    .commit = world_commit,
							    .leads = on_leads,
							    .arg = &world});
	assert_non_null(world.admission);
	leads = false;
	struct gq_request *request =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "1"));
	assert_has(assert_failed(request, 503), "does not lead");
	assert_true(request->answer.close);
	assert_int_equal(request->answer.retry_after_s, 1);
	assert_int_equal(app_charges(world.ledger), 0);
	assert_int_equal(counted(&world, GQ_VERDICT_UNAVAILABLE, GQ_REASON_NOT_LEADER), 1);
	request_free(request);
	leads = true;
	allow(POD(.ns = "a-train", .name = "p", .uid = "u1", .gpus = "1"));
	gq_admission_free(world.admission);
	world.admission = always;
}

/* A server that ends frees what waits for a read; the sanitizer sees what is left. */
static void given_up(void **state)
{
	struct gq_request *reading =
	    ask_pod(&world, POD(.ns = "b-1", .name = "p", .uid = "u1", .gpus = "1"));
	struct gq_request *claims =
	    ask_pod(&world, POD(.ns = "a-train", .name = "p", .uid = "u2", .spec = TWO_CLAIMS));

	(void)state;
	world_finish_read(&world, 1, 0, CLAIM("nic"));
	request_free(reading);
	request_free(claims);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(waits_for_the_watch),
	    TEST(waits_until_the_deadline),
	    TEST(waits_for_nobody),
	    TEST(reads_an_unknown_namespace),
	    TEST(namespace_reads_that_fail),
	    TEST(reads_claims_together),
	    TEST(harmless_claims),
	    TEST(claim_reads_that_fail),
	    TEST(reads_that_end_at_once),
	    TEST(reads_that_last_too_long),
	    TEST(answers_after_the_commit),
	    TEST(commits_that_fail),
	    TEST(the_last_word),
	    TEST(leading),
	    TEST(given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
