#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/app_testing.h"
#include "webhook/subject.h"

/* Which decision a review asks for. */

#define REVIEWS GQ_TEST_DATA "/captures/reviews/"
#define HEAD                                                                                       \
	"{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{'uid':'r',"       \
	"'namespace':'a','name':'p',"
#define PODS(operation, subresource)                                                               \
	HEAD "'operation':'" operation "','resource':{'group':'','resource':'pods'},"              \
	     "'subResource':'" subresource "',"

/* Without a policy, so every rule may be switched on. */
static struct gq_ledger *ledger;

static int setup(void **state)
{
	(void)state;
	ledger = gq_ledger_new(&(struct gq_ledger_options){0});
	return ledger ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_ledger_free(ledger);
	return 0;
}

static const struct gq_policy_place place = {"gpuquota-system", "gpuquota-policy"};

struct read {
	char *body;
	struct gq_review review;
	struct gq_subject subject;
	int code;
	struct gq_err err;
};

static void read_body(struct read *r, char *body, size_t len, const struct gq_policy_place *policy)
{
	*r = (struct read){.body = body};
	if (gq_review_decode(body, len, &r->review, &r->err))
		fail_msg("%s: %s", body, r->err.msg);
	r->code = gq_subject_read(&r->review, policy, &r->subject, &r->err);
}

static void read_text(struct read *r, const char *single_quoted)
{
	char *body = json_of(single_quoted);

	read_body(r, body, strlen(body), NULL);
}

static void read_capture(struct read *r, const char *name, const struct gq_policy_place *policy)
{
	char path[512];
	size_t len;

	(void)snprintf(path, sizeof path, REVIEWS "%s.json", name);
	char *body = read_file(path, &len);
	read_body(r, body, len, policy);
	if (r->code)
		fail_msg("%s: %s", name, r->err.msg);
}

static void read_done(struct read *r)
{
	gq_subject_done(&r->subject);
	gq_review_done(&r->review);
	free(r->body);
}

/* What the API server sent. */
static void captures(void **state)
{
	static const struct {
		const char *file;
		enum gq_subject_kind kind;
		bool reads; /* of pods: they ask for GPUs, or a rule may have something to read */
	} cases[] = {
	    {"configmap-create", GQ_SUBJECT_NONE, false},
	    {"deployment-create", GQ_SUBJECT_WORKLOAD, true},
	    {"deployment-scale", GQ_SUBJECT_SCALE, true},
	    {"job-create", GQ_SUBJECT_WORKLOAD, true},
	    {"legacy-binding", GQ_SUBJECT_BINDING, false},
	    {"namespace-create", GQ_SUBJECT_NONE, false},
	    {"pod-binding", GQ_SUBJECT_BINDING, false},
	    {"pod-create", GQ_SUBJECT_POD, true},
	    {"pod-create-by-job", GQ_SUBJECT_POD, true},
	    {"pod-create-by-replicaset", GQ_SUBJECT_POD, true},
	    {"pod-create-dra-claim", GQ_SUBJECT_POD, true},
	    {"pod-create-dra-extended", GQ_SUBJECT_POD, true},
	    {"pod-create-dryrun", GQ_SUBJECT_POD, true},
	    {"pod-create-generatename", GQ_SUBJECT_POD, true},
	    {"pod-delete", GQ_SUBJECT_NONE, false},
	    {"pod-ephemeralcontainers", GQ_SUBJECT_EPHEMERAL, true},
	    {"pod-update", GQ_SUBJECT_NONE, false},
	    {"replicaset-update", GQ_SUBJECT_WORKLOAD, true},
	    {"resourceclaim-create", GQ_SUBJECT_NONE, false},
	    {"resourceclaimtemplate-create", GQ_SUBJECT_NONE, false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		read_capture(&r, cases[i].file, NULL);
		if (r.subject.kind != cases[i].kind)
			fail_msg("%s: %d", cases[i].file, r.subject.kind);
		assert_int_equal(gq_subject_needs_reads(&r.subject, ledger), cases[i].reads);
		bool pod = cases[i].kind == GQ_SUBJECT_POD || cases[i].kind == GQ_SUBJECT_EPHEMERAL;
		assert_int_equal(r.subject.pod != NULL, pod);
		assert_int_equal(r.subject.posture != NULL, pod);
		read_done(&r);

		/* the path that judges policies has an opinion on nothing else */
		read_capture(&r, cases[i].file, &place);
		assert_int_equal(r.subject.kind, GQ_SUBJECT_NONE);
		read_done(&r);
	}
}

static void contents(void **state)
{
	struct read r;

	(void)state;
	read_capture(&r, "pod-binding", NULL);
	assert_string_equal(r.subject.binding.namespace_, "default");
	assert_string_equal(r.subject.binding.name, "ok2");
	assert_true(*r.subject.binding.node && *r.subject.binding.uid);
	read_done(&r);
	read_capture(&r, "deployment-create", NULL);
	assert_int_equal(r.subject.workload_kind, GQ_WORKLOAD_DEPLOYMENT);
	assert_string_equal(r.subject.workload.name, "denye");
	assert_false(r.subject.updates);
	read_done(&r);
	read_capture(&r, "replicaset-update", NULL);
	assert_int_equal(r.subject.workload_kind, GQ_WORKLOAD_REPLICA_SET);
	assert_true(r.subject.updates);
	assert_string_equal(r.subject.before.name, r.subject.workload.name);
	read_done(&r);
	read_capture(&r, "deployment-scale", NULL);
	assert_int_equal(r.subject.workload_kind, GQ_WORKLOAD_DEPLOYMENT);
	assert_int_not_equal(r.subject.replicas, r.subject.had_replicas);
	read_done(&r);
	read_capture(&r, "pod-ephemeralcontainers", NULL);
	assert_int_equal(r.subject.n_had, 0);
	assert_int_equal(r.subject.posture->n_containers, 2);
	assert_int_equal(r.subject.posture->containers[1].kind, GQ_CONTAINER_EPHEMERAL);
	read_done(&r);
}

/* The names of the ephemeral containers that were there. */
static void had(void **state)
{
	static const struct {
		const char *old;
		size_t n;
	} cases[] = {
	    {"null", 0},
	    {"{}", 0},
	    {"{'spec':{}}", 0},
	    {"{'spec':{'ephemeralContainers':[]}}", 0},
	    {"{'spec':{'ephemeralContainers':[{'name':'a'},{'name':'b'}]}}", 2},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		char text[1024];
		(void)snprintf(
		    text, sizeof text,
		    PODS("UPDATE", "ephemeralcontainers") "'oldObject':%s,'object':{"
							  "'metadata':{'name':'p','namespace':'a','"
							  "uid':'u'},'spec':{'containers':[]}}"
							  "}}",
		    cases[i].old);
		read_text(&r, text);
		if (r.code)
			fail_msg("%s: %s", cases[i].old, r.err.msg);
		assert_int_equal(r.subject.kind, GQ_SUBJECT_EPHEMERAL);
		assert_int_equal(r.subject.n_had, cases[i].n);
		for (size_t k = 0; k < cases[i].n; k++)
			assert_string_equal(r.subject.had[k], k ? "b" : "a");
		read_done(&r);
	}
}

#define POD(meta, spec) "'object':{'metadata':{" meta "},'spec':{" spec "}}"
#define ONE_GPU "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}]"

/* Bad input is never let pass, and what is wrong with it is told. */
static void bad_input(void **state)
{
	static const struct {
		const char *body, *says;
	} cases[] = {
	    {PODS("CREATE", "") "'object':null}}", "request.object is missing"},
	    {PODS("UPDATE", "ephemeralcontainers") "'object':null}}", "request.object is missing"},
	    {PODS("CREATE", "") "'object':{'kind':'Node','metadata':{'name':'p'}}}}",
	     "request.object is no Pod"},
	    {PODS("CREATE", "") POD("'name':'p','namespace':'b'", "") "}}",
	     "request.namespace and the pod's differ"},
	    {PODS("CREATE", "") POD("'name':'../p'", "") "}}", "no pod can have such a name"},
	    {PODS("CREATE", "") POD("'name':'p'", ONE_GPU) "}}", "metadata.uid is missing"},
	    {PODS("CREATE", "") POD("'name':'p'", "'hostPID':'yes'") "}}",
	     "request.object: spec.hostPID"},
	    {PODS("CREATE", "") POD("'name':'p'", "'volumes':[{'hostPath':7}]") "}}",
	     "request.object: spec.volumes[0].hostPath"},
	    {PODS("UPDATE", "ephemeralcontainers")
		 POD("'name':'p'", "") ",'oldObject':{'spec':7}}}",
	     "request.oldObject: spec"},
	    {PODS("UPDATE", "ephemeralcontainers") POD(
		 "'name':'p'", "") ",'oldObject':{'spec':{'ephemeralContainers':[{'name':7}]}}}}",
	     "request.oldObject: spec.ephemeralContainers[0].name"},
	    {PODS("CREATE", "binding") "'object':{'target':{'kind':'Node'}}}}", "a Binding names"},
	    {PODS("CREATE", "binding") "'object':{'target':{'kind':'Pod','name':'x'}}}}",
	     "a Binding names"},
	    {PODS("CREATE", "binding") "'object':{'target':{'name':'a\\u0000b'}}}}",
	     "NUL character"},
	    {PODS("CREATE", "binding") "'object':{'target':{'name':7}}}}", "name must be a string"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		read_text(&r, cases[i].body);
		if (r.code != GQ_EINVALID || !strstr(r.err.msg, cases[i].says))
			fail_msg("%s: %d %s", cases[i].body, r.code, r.err.msg);
		read_done(&r);
		assert_null(r.subject.pod);
		assert_null(r.subject.posture);
	}
}

static struct gq_ledger *ledger_with(const char *rules)
{
	struct gq_ledger *ret = gq_ledger_new(&(struct gq_ledger_options){0});
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = NULL;
	struct gq_policy_problems problems = {0};
	struct gq_err err;
	char text[512];

	(void)snprintf(text, sizeof text,
		       "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\nrules: %s\n",
		       rules);
	assert_non_null(ret);
	if (gq_policy_parse(text, strlen(text), "hash", &policy, &problems, &err) ||
	    gq_ledger_set_policy(ret, policy, START_NS, &err))
		fail_msg("%s", err.msg);
	gq_policy_problems_done(&problems);
	return ret;
}

/* A pod that asks for nothing needs no uid, and what no rule could concern reads nothing. */
static void harmless_pods(void **state)
{
	static const struct {
		const char *spec;
		bool reads;
	} cases[] = {
	    {"'hostUsers':false,'containers':[{'name':'c'}]", false},
	    {"'hostUsers':false,'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'x'}}]",
	     true},
	    {"'containers':[{'name':'c'}]", true}, /* a user namespace may be asked of it */
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		char text[1024];
		(void)snprintf(text, sizeof text, PODS("CREATE", "") POD("'name':'p'", "%s") "}}",
			       cases[i].spec);
		read_text(&r, text);
		assert_int_equal(r.code, 0);
		assert_int_equal(r.subject.kind, GQ_SUBJECT_POD);
		assert_int_equal(gq_subject_needs_reads(&r.subject, ledger), cases[i].reads);
		read_done(&r);
	}
}

/* Nor does one that only rules could concern which are switched off for everybody. */
static void rules_that_are_switched_off(void **state)
{
	static const struct {
		const char *spec;
		bool reads; /* where privileged is switched on */
	} cases[] = {
	    {"'containers':[{'name':'c'}]", false},
	    {"'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'x'}}]", false},
	    {"'containers':[{'name':'c','securityContext':{'privileged':true}}]", true},
	};
	struct gq_ledger *off = ledger_with("{}"), *on = ledger_with("{privileged: audit}");

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		char text[1024];
		(void)snprintf(text, sizeof text, PODS("CREATE", "") POD("'name':'p'", "%s") "}}",
			       cases[i].spec);
		read_text(&r, text);
		assert_false(gq_subject_needs_reads(&r.subject, off));
		assert_int_equal(gq_subject_needs_reads(&r.subject, on), cases[i].reads);
		read_done(&r);
	}
	gq_ledger_free(off);
	gq_ledger_free(on);
}

/* Which operations and subresources are somebody's. */
static void others(void **state)
{
	static const struct {
		const char *operation, *subresource;
		enum gq_subject_kind kind;
	} cases[] = {
	    {"CREATE", "", GQ_SUBJECT_POD},
	    {"CREATE", "binding", GQ_SUBJECT_BINDING},
	    {"UPDATE", "ephemeralcontainers", GQ_SUBJECT_EPHEMERAL},
	    {"CREATE", "ephemeralcontainers", GQ_SUBJECT_NONE},
	    {"CREATE", "eviction", GQ_SUBJECT_NONE},
	    {"UPDATE", "", GQ_SUBJECT_NONE},
	    {"UPDATE", "resize", GQ_SUBJECT_NONE},
	    {"UPDATE", "status", GQ_SUBJECT_NONE},
	    {"CONNECT", "exec", GQ_SUBJECT_NONE},
	    {"DELETE", "", GQ_SUBJECT_NONE},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		char text[1024];
		(void)snprintf(
		    text, sizeof text,
		    PODS("%s", "%s") "'object':{'metadata':{'name':'p'},'target':{'name':"
				     "'n'}}}}",
		    cases[i].operation, cases[i].subresource);
		read_text(&r, text);
		if (r.code || r.subject.kind != cases[i].kind)
			fail_msg("%s %s: %d, %d %s", cases[i].operation, cases[i].subresource,
				 r.subject.kind, r.code, r.err.msg);
		read_done(&r);
	}
}

/* The ConfigMap that is the policy, and no other. */
static void policies(void **state)
{
	static const struct {
		const char *namespace_, *name, *object;
		bool it;
	} cases[] = {
	    {"gpuquota-system", "gpuquota-policy", "{}", true},
	    {"gpuquota-system", "gpuquota-policy", "null", false}, /* DELETE has none */
	    {"gpuquota-system", "gpuquota-policy-accepted", "{}", false},
	    {"other", "gpuquota-policy", "{}", false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct read r;
		char text[1024];
		(void)snprintf(
		    text, sizeof text,
		    "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','request':{"
		    "'uid':'r','namespace':'%s','name':'%s','operation':'UPDATE','resource':{"
		    "'group':'','resource':'configmaps'},'object':%s}}",
		    cases[i].namespace_, cases[i].name, cases[i].object);
		char *body = json_of(text);
		read_body(&r, body, strlen(body), &place);
		assert_int_equal(r.code, 0);
		assert_int_equal(r.subject.kind, cases[i].it ? GQ_SUBJECT_POLICY : GQ_SUBJECT_NONE);
		assert_false(gq_subject_needs_reads(&r.subject, ledger));
		read_done(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(captures),      cmocka_unit_test(contents),
	    cmocka_unit_test(had),           cmocka_unit_test(bad_input),
	    cmocka_unit_test(harmless_pods), cmocka_unit_test(rules_that_are_switched_off),
	    cmocka_unit_test(others),        cmocka_unit_test(policies),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
