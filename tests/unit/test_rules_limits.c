#include "rules_cases.h"

#include <limits.h>

#include "base/lock.h"
#include "fail_alloc.h"
#include "quota/decision_internal.h"
#include "quota/rules_internal.h"
#include "quota_testing.h"

/* Rules where something is short: memory, room for words, answers of the API server; and what is
 * saved where they have nothing to say. */

/* The linker sends these here, and malloc() to fail_alloc.c. */
char *__wrap_strdup(const char *text);
void __real_gq_lock_take(struct gq_lock *lock);
void __wrap_gq_lock_take(struct gq_lock *lock);

char *__wrap_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	if (copy)
		memcpy(copy, text, size);
	return copy;
}

static unsigned locks_taken;

void __wrap_gq_lock_take(struct gq_lock *lock)
{
	locks_taken++;
	__real_gq_lock_take(lock);
}

#define TEAM "tenants: [{name: team, namespaces: [a-train], quota: {\"*\": {gpus: 8}}}]\n"
#define PRIVILEGED "'securityContext':{'privileged':true}"
#define SEES_ALL "'env':[{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'}]"
#define GPUS(n) "'resources':{'limits':{'nvidia.com/gpu':'" n "'}}"
#define CLAIMED "{'name':'c','persistentVolumeClaim':{'claimName':'data'}}"
#define DOCKER "{'name':'d','hostPath':{'path':'/run/docker.sock'}}"

/* With that many allocations, -1 any number; one more fails. The reads are those of the world. */
static enum gq_verdict_kind decide(struct world *w, const struct rules_pod *pod, long allocations,
				   bool *ret_failed)
{
	const struct gq_create create = {.pod = pod->pod,
					 .posture = pod->posture,
					 .request_uid = "r",
					 .user = "jane",
					 .now_ns = w->now_ns,
					 .wall_s = w->wall_s,
					 .deadline_ns = w->now_ns + S,
					 .reads = &w->reads};
	struct gq_err err = {0};

	gq_verdict_done(&w->verdict);
	fail_alloc(allocations);
	int code = gq_decide_create(w->ledger, &create, &w->verdict, &err);
	bool failed = fail_alloc_done();
	if (ret_failed)
		*ret_failed = failed;
	if (code && (!failed || code != GQ_ENOMEM))
		fail_msg("%s", err.msg);
	return code ? GQ_VERDICT_UNAVAILABLE : w->verdict.kind;
}

/* Too little memory, at whatever place: nobody is let pass for it, and a refusal has words. */
static void too_little_memory(void **state)
{
	static const struct {
		const char *policy, *pod, *objects;
	} cases[] = {
	    {TEAM "rules: {privileged: enforce, containerRuntimeSockets: enforce, hostPath: "
		  "{mode: enforce, allow: [/data, {path: /mnt, readOnly: true}]}, "
		  "gpuWithoutRequest: enforce}\n",
	     "{'spec':{'containers':[{'name':'c'," PRIVILEGED "," SEES_ALL "}],'volumes':[" DOCKER
	     "]}}",
	     NULL},
	    {"locale: zh\n" TEAM "rules: {privileged: audit, hostDevices: enforce}\n",
	     "{'spec':{'containers':[{'name':'c'," PRIVILEGED "}],'volumes':[{'name':'v',"
	     "'hostPath':{'path':'/'}}]}}",
	     NULL},
	    {"tenants: [{name: team, namespaces: [a-train], quota: {\"*\": {gpus: 8}}, podLimit: "
	     "{gpus: 2}}]\nrules: {podLimit: {mode: enforce, gpus: 4}, requireGpuMemory: enforce, "
	     "requireReadinessProbe: enforce, bypassLabels: {mode: enforce, schedulerNames: "
	     "[hami-scheduler, volcano]}}\n",
	     "{'spec':{'containers':[{'name':'c'," SEES_ALL
	     "," GPUS("5") ",'ports':[{"
			   "'containerPort':80}]}]}}",
	     NULL},
	    {TEAM "rules: {containerRuntimeSockets: enforce}\n",
	     "{'spec':{'volumes':[" CLAIMED "]}}",
	     "[{'kind':'PersistentVolumeClaim','metadata':{'name':'data'},'spec':{'volumeName':"
	     "'pv'}},{'kind':'PersistentVolume','metadata':{'name':'pv'},'spec':{'local':{'path':"
	     "'/run'}}}]"},
	    {TEAM "rules: {gpuWithoutRequest: enforce, bypassLabels: enforce}\n",
	     "{'spec':{'containers':[{'name':'c','envFrom':[{'configMapRef':{'name':'m'}}]}]}}",
	     "[{'kind':'ConfigMap','metadata':{'name':'m'},'data':{'NVIDIA_VISIBLE_DEVICES':'all',"
	     "'CUDA_DISABLE_CONTROL':'true'}}]"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(cases[i].pod);
		struct world *w = rules_world(cases[i].policy);
		bool failed = true;
		long n = 0;
		assert_int_equal(rules_ask(w, &pod, cases[i].objects), GQ_VERDICT_DENY);
		char *words = strdup(message_of(w));
		enum gq_reason reason = w->verdict.reason;
		for (; failed; n++) {
			enum gq_verdict_kind kind = decide(w, &pod, n, &failed);
			if (kind != GQ_VERDICT_DENY && kind != GQ_VERDICT_UNAVAILABLE)
				fail_msg("case %zu, allocation %ld: %d", i, n, kind);
			if (kind == GQ_VERDICT_DENY)
				assert_true(w->verdict.message.len > 0);
		}
		assert_true(n > 3);
		assert_int_equal(w->verdict.reason, reason);
		assert_string_equal(message_of(w), words);
		assert_string_equal(pods_of(w), "");
		free(words);
		world_free(w);
	}
}

#define TALKATIVE 5

/* A name as long as they may be. */
static void put_name(struct gq_buf *out, char first, unsigned i)
{
	gq_buf_printf(out, "%c%u", first, i);
	for (unsigned k = 0; k < 240; k++)
		gq_buf_putc(out, first);
}

/* "/././…/", longer than anybody is told: everything of a node. */
static void put_long_root(struct gq_buf *out)
{
	for (unsigned i = 0; i < 500; i++)
		gq_buf_puts(out, "/.");
}

static struct rules_pod talkative_pod(void)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);

	gq_buf_puts(&text, "{'spec':{'containers':[");
	for (unsigned i = 0; i < TALKATIVE; i++) {
		gq_buf_puts(&text, i ? ",{'name':'" : "{'name':'");
		put_name(&text, 'c', i);
		gq_buf_puts(&text, "'," PRIVILEGED "," SEES_ALL "}");
	}
	gq_buf_puts(&text, "],'volumes':[");
	for (unsigned i = 0; i < TALKATIVE; i++) {
		gq_buf_puts(&text, i ? ",{'name':'" : "{'name':'");
		put_name(&text, 'd', i);
		gq_buf_puts(&text, "','persistentVolumeClaim':{'claimName':'");
		put_name(&text, 'e', i);
		gq_buf_puts(&text, "'}},{'name':'");
		put_name(&text, 'h', i);
		gq_buf_puts(&text, "','hostPath':{'path':'/somewhere");
		put_long_root(&text);
		gq_buf_puts(&text, "'}}");
	}
	gq_buf_puts(&text, "]}}");
	assert_int_equal(text.code, 0);
	return rules_pod(text.data);
}

/* Its claims, and the volume that they are all bound to; to be freed. */
static char *talkative_objects(void)
{
	struct gq_buf text = GQ_BUF_INIT(64u << 10);

	gq_buf_puts(&text, "[{'kind':'PersistentVolume','metadata':{'name':'");
	put_name(&text, 'p', 0);
	gq_buf_puts(&text, "'},'spec':{'local':{'path':'");
	put_long_root(&text);
	gq_buf_puts(&text, "'}}}");
	for (unsigned i = 0; i < TALKATIVE; i++) {
		gq_buf_puts(&text, ",{'kind':'PersistentVolumeClaim','metadata':{'name':'");
		put_name(&text, 'e', i);
		gq_buf_puts(&text, "'},'spec':{'volumeName':'");
		put_name(&text, 'p', 0);
		gq_buf_puts(&text, "'}}");
	}
	gq_buf_puts(&text, "]");
	assert_int_equal(text.code, 0);
	return text.data;
}

/* A policy of these rules in that mode, with a long list of what may be mounted. */
static struct world *talkative_world(const char *mode)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(16u << 10);

	gq_buf_printf(&text,
		      TEAM "rules: {privileged: %s, containerRuntimeSockets: %s, hostDevices: %s, "
			   "gpuWithoutRequest: %s, hostPath: {mode: %s, allow: [/data",
		      mode, mode, mode, mode, mode);
	for (unsigned i = 0; i < 60; i++)
		gq_buf_printf(&text, ", /data-that-is-somewhere-else-%u", i);
	gq_buf_puts(&text, "]}}\n");
	assert_int_equal(text.code, 0);
	return rules_world(text.data);
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

/* More words than anybody is told: whole lines, and how many findings have none. */
static void more_words_than_fit(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = talkative_pod();
	char *objects = talkative_objects();
	struct world *w = talkative_world("enforce");

	(void)state;
	assert_int_equal(rules_ask(w, &pod, objects), GQ_VERDICT_DENY);
	/* what needs no read is told at once; the test wants all of it */
	assert_int_equal(count(message_of(w), "is privileged"), 4);
	for (size_t i = 0; i < w->reads.n; i++)
		assert_false(w->reads.items[i].done);
	while (rules_answer_objects(&w->reads, objects))
		assert_int_equal(decide(w, &pod, -1, NULL), GQ_VERDICT_DENY);
	assert_int_equal(w->verdict.reason, GQ_REASON_PRIVILEGED);
	const char *text = message_of(w);
	assert_ptr_equal(strstr(text, "containers/c0"), text);
	assert_int_equal(count(text, "is privileged"), 4);
	assert_int_equal(count(text, "by which it can start containers"), 4);
	assert_int_equal(count(text, "devices that nobody asked for"), 4);
	assert_int_equal(count(text, "is outside of what pods may mount"), 0);
	assert_int_equal(count(text, "asks for no nvidia.com/gpu"), 4);
	assert_int_equal(count(text, "\n1 more of this kind.\n"), 4);
	static const char end[] = "\n5 more findings are left out here.";
	assert_string_equal(text + strlen(text) - strlen(end), end);
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		assert_true(at[-1] == '.');
	assert_true(w->verdict.rule_findings[GQ_MODE_ENFORCE] & 1u << GQ_RULE_HOST_PATH);
	free(objects);
	world_free(w);
}

/* The same where nobody is refused: each rule has a warning, whole, or notes. */
static void many_words_that_refuse_nobody(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = talkative_pod();
	char *objects = talkative_objects();
	struct world *w = talkative_world("warn");

	(void)state;
	assert_int_equal(rules_ask(w, &pod, objects), GQ_VERDICT_ALLOW);
	assert_int_equal(w->verdict.n_warnings, 5);
	assert_false(w->verdict.warnings_cut);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(count(w->verdict.warnings[i].data, " more of this kind."), 1);
	world_free(w);
	w = talkative_world("audit");
	assert_int_equal(rules_ask(w, &pod, objects), GQ_VERDICT_ALLOW);
	assert_int_equal(count(w->verdict.audit.data, " more of this kind."), 5);
	free(objects);
	world_free(w);
}

/* ---- reads ---- */

static void answer_all(struct world *w, int code)
{
	for (size_t i = 0; i < w->reads.n; i++) {
		w->reads.items[i].done = true;
		w->reads.items[i].code = code;
	}
}

#define IN_MODE(mode) (mode), (mode)

/* A claim, or a ConfigMap, that can't be read for now, and in `beside` a finding as well. */
static void reads_that_fail(void **state)
{
	static const char *const modes[] = {"enforce", "warn", "audit", "disabled"};
	static const struct {
		const char *pod;
		bool finding;
	} cases[] = {
	    {"{'spec':{'volumes':[" CLAIMED "]}}", false},
	    {"{'spec':{'volumes':[" CLAIMED "," DOCKER "]}}", true},
	    {"{'spec':{'containers':[{'name':'a','envFrom':[{'configMapRef':{'name':'m'}}]}]}}",
	     false},
	    {"{'spec':{'containers':[{'name':'a','envFrom':[{'configMapRef':{'name':'m'}}]},"
	     "{'name':'b'," SEES_ALL "}]}}",
	     true},
	    {"{'spec':{'containers':[{'name':'a','envFrom':[{'configMapRef':{'name':'m'}},"
	     "{'configMapRef':{'name':'n'}}]}]}}",
	     false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(cases[i].pod);
		for (size_t m = 0; m < LEN(modes); m++) {
			char policy[256];
			(void)snprintf(policy, sizeof policy,
				       TEAM "rules: {containerRuntimeSockets: %s, "
					    "gpuWithoutRequest: %s}\n",
				       IN_MODE(modes[m]));
			struct world *w = rules_world(policy);
			enum gq_verdict_kind kind = decide(w, &pod, -1, NULL);
			if (m == 0 && cases[i].finding) {
				/* at once: whatever is read can't change it */
				assert_int_equal(kind, GQ_VERDICT_DENY);
				answer_all(w, GQ_EIO);
				assert_int_equal(decide(w, &pod, -1, NULL), GQ_VERDICT_DENY);
				world_free(w);
				continue;
			}
			assert_int_equal(kind, m < 3 ? GQ_VERDICT_READ : GQ_VERDICT_ALLOW);
			assert_int_equal(w->reads.n > 0, m < 3);
			answer_all(w, GQ_EIO);
			kind = decide(w, &pod, -1, NULL);
			assert_int_equal(kind, m == 0 ? GQ_VERDICT_UNAVAILABLE : GQ_VERDICT_ALLOW);
			if (m == 0) {
				assert_int_equal(w->verdict.reason, GQ_REASON_REFERENCE);
				assert_string_equal(
				    message_of(w),
				    "What the pod refers to (a claim, its PersistentVolume or a "
				    "ConfigMap) could not be read for now, so it is not known "
				    "whether it may be created: try again in a few seconds.");
			}
			assert_int_equal(w->verdict.n_warnings, m == 1 && cases[i].finding);
			assert_int_equal(w->verdict.audit.len > 0, m == 2 && cases[i].finding);
			world_free(w);
		}
	}
}

/* A rule that is enforced has found something: what another would have to read is not waited for,
 * be it enforced or not. */
static void no_reads_once_refused(void **state)
{
	static const char *const modes[] = {"enforce", "warn", "audit"};
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(
	    "{'spec':{'containers':[{'name':'c'," PRIVILEGED "}],'volumes':[" CLAIMED "]}}");

	(void)state;
	for (size_t m = 0; m < LEN(modes); m++) {
		char policy[256];
		(void)snprintf(policy, sizeof policy,
			       TEAM "rules: {privileged: enforce, containerRuntimeSockets: %s}\n",
			       modes[m]);
		struct world *w = rules_world(policy);
		for (int round = 0; round < 2; round++) {
			assert_int_equal(decide(w, &pod, -1, NULL), GQ_VERDICT_DENY);
			assert_int_equal(w->verdict.reason, GQ_REASON_PRIVILEGED);
			answer_all(w, GQ_EIO);
		}
		world_free(w);
	}
}

/* Claims beyond what is looked at are no reason to read them, nor to refuse where a rule only
 * warns; and there stays room for what the quota has to read. */
static void more_claims_than_are_read(void **state)
{
	struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	struct world *w = rules_world(TEAM "rules: {hostDevices: warn}\n");

	(void)state;
	gq_buf_puts(&text, "{'spec':{'containers':[{'name':'c'," GPUS(
			       "1") ",'resources':{"
				    "'claims':[{'name':'nic'}]}}],'resourceClaims':[{'name':'nic',"
				    "'resourceClaimName':'nic'}],'volumes':[");
	for (unsigned i = 0; i < 200; i++)
		gq_buf_printf(&text, "%s{'name':'v%u','persistentVolumeClaim':{'claimName':'c%u'}}",
			      i ? "," : "", i, i);
	gq_buf_puts(&text, "]}}");
	assert_int_equal(text.code, 0);
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(text.data);
	assert_int_equal(decide(w, &pod, -1, NULL), GQ_VERDICT_READ);
	assert_int_equal(w->reads.n, 96);
	answer_all(w, GQ_ENOTFOUND);
	assert_int_equal(decide(w, &pod, -1, NULL), GQ_VERDICT_READ);
	assert_int_equal(w->reads.n, 97);
	assert_int_equal(w->reads.items[96].kind, GQ_READ_CLAIM);
	assert_int_equal(w->verdict.n_warnings, 1);
	assert_non_null(strstr(w->verdict.warnings[0].data, "volume v96 among them"));
	world_free(w);
}

/* ---- rules that are switched on ---- */

static void active_rules(void **state)
{
	const unsigned privileged = 1u << GQ_RULE_PRIVILEGED;
	struct world *w = world_bare(NULL);
	struct gq_err err;

	(void)state;
	assert_int_equal(gq_ledger_rules_active(w->ledger), UINT_MAX);
	world_policy(w, TEAM "rules: {privileged: enforce, hostPath: disabled}\n");
	assert_int_equal(gq_ledger_rules_active(w->ledger), privileged);
	world_policy(w, "tenants:\n"
			"  - {name: a, rules: {hostDevices: audit}}\n"
			"  - {name: b, rules: {privileged: disabled}}\n"
			"rules: {privileged: warn}\n");
	assert_int_equal(gq_ledger_rules_active(w->ledger),
			 privileged | 1u << GQ_RULE_HOST_DEVICES);
	world_policy(w, TEAM);
	assert_int_equal(gq_ledger_rules_active(w->ledger), 0);

	/* a policy that could not be taken over leaves those of the old one */
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) =
	    policy_make(TEAM "rules: {privileged: enforce}\n");
	fail_alloc(0);
	assert_int_equal(gq_ledger_set_policy(w->ledger, policy, w->now_ns, &err), GQ_ENOMEM);
	assert_true(fail_alloc_done());
	assert_int_equal(gq_ledger_rules_active(w->ledger), 0);
	world_free(w);
}

/* Pods that ask for no GPU and that no rule in force could concern wait for nothing. */
static void pods_that_take_no_lock(void **state)
{
	static const struct {
		const char *pod;
		bool waits; /* where privileged is switched on */
	} cases[] = {
	    {"{}", false},
	    {"{'spec':{'hostUsers':false}}", false},
	    {"{'spec':{'volumes':[" CLAIMED "," DOCKER "]}}", false},
	    {"{'spec':{'containers':[{'name':'c'," SEES_ALL "}]}}", false},
	    {"{'metadata':{'labels':{'hami.io/webhook':'ignore'}},'spec':{'nodeName':'a1'}}",
	     false},
	    {"{'spec':{'containers':[{'name':'c'," PRIVILEGED "}]}}", true},
	    {"{'spec':{'containers':[{'name':'c','securityContext':{'privileged':false}}]}}",
	     false},
	};
	struct world *off = rules_world(TEAM),
		     *on = rules_world(TEAM "rules: {privileged: warn}\n");

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(cases[i].pod);
		locks_taken = 0;
		assert_int_equal(decide(off, &pod, -1, NULL), GQ_VERDICT_ALLOW);
		assert_int_equal(off->verdict.reason, GQ_REASON_NO_GPU);
		assert_int_equal(locks_taken, 0);
		assert_int_equal(decide(on, &pod, -1, NULL), GQ_VERDICT_ALLOW);
		assert_int_equal(locks_taken > 0, cases[i].waits);
		assert_int_equal(off->reads.n + on->reads.n, 0);
	}
	world_free(off);
	world_free(on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(too_little_memory),
	    cmocka_unit_test(more_words_than_fit),
	    cmocka_unit_test(many_words_that_refuse_nobody),
	    cmocka_unit_test(reads_that_fail),
	    cmocka_unit_test(no_reads_once_refused),
	    cmocka_unit_test(more_claims_than_are_read),
	    cmocka_unit_test(active_rules),
	    cmocka_unit_test(pods_that_take_no_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
