#include "rules_cases.h"

#include "quota/rules_internal.h"
#include "quota_testing.h"

/* The rules about a pod's node, one by one and without a decision around them; most of what they
 * find is in tests/data/rules. */

static const char *found_by(enum gq_rules_answer (*rule)(const struct gq_ruled *,
							 struct gq_found *),
			    const struct gq_ruled *ruled)
{
	static char text[16u << 10];
	struct gq_found found = {.text = GQ_BUF_INIT(sizeof text - 1)};

	assert_int_equal(rule(ruled, &found), GQ_RULES_PASSED);
	assert_int_equal(found.n > 0, found.text.len > 0);
	(void)snprintf(text, sizeof text, "%s", found.text.data ? found.text.data : "");
	gq_buf_done(&found.text);
	return text;
}

/* Everything that a container has is told, in one order. */
static void powers(void **state)
{
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(
	    "{'spec':{'hostPID':true,'securityContext':{'windowsOptions':{'hostProcess':true}},"
	    "'containers':[{'name':'c','securityContext':{'privileged':true,'procMount':'Unmasked',"
	    "'capabilities':{'add':['SYS_PTRACE','SYS_ADMIN']}}},{'name':'d'}]}}");
	const struct gq_ruled ruled = {.pod = pod.pod, .posture = pod.posture};
	static const char *const says[] = {
	    "containers/c is privileged",
	    "\ncontainers/c is a host process",
	    "\ncontainers/c adds the capability SYS_ADMIN, SYS_PTRACE in",
	    "\ncontainers/c has procMount: Unmasked",
	};

	(void)state;
	const char *at = found_by(gq_rule_privileged, &ruled);
	for (size_t i = 0; i < LEN(says); i++) {
		at = strstr(at, says[i]);
		assert_non_null(at);
	}
	/* a fifth finding: counted, not written */
	assert_null(strstr(at, "containers/d"));
}

/* Of two allowed directories the one that lets it be mounted counts, whatever their order. */
static void nested_allowed_paths(void **state)
{
	static const struct {
		const char *allow, *path;
		bool read_only;
		const char *says; /* NULL: allowed */
	} cases[] = {
	    {"[{path: /mnt, readOnly: true}, /mnt/scratch]", "/mnt/scratch/a", false, NULL},
	    {"[/mnt/scratch, {path: /mnt, readOnly: true}]", "/mnt/scratch/a", false, NULL},
	    {"[/mnt/scratch, {path: /mnt, readOnly: true}]", "/mnt/a", true, NULL},
	    {"[/mnt/scratch, {path: /mnt, readOnly: true}]", "/mnt/a", false,
	     "/mnt may be mounted"},
	    {"[{path: /mnt, readOnly: true}, {path: /mnt/a, readOnly: true}]", "/mnt/a", false,
	     "may be mounted read-only"},
	    {"[/mnt/scratch]", "/mnt", true,
	     "is outside of what pods may mount of a node here "
	     "(/mnt/scratch)"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char policy_text[512], pod_text[512];
		(void)snprintf(policy_text, sizeof policy_text,
			       "rules: {hostPath: {mode: enforce, allow: %s}}\n", cases[i].allow);
		(void)snprintf(
		    pod_text, sizeof pod_text,
		    "{'spec':{'volumes':[{'name':'v','hostPath':{'path':'%s'}}],"
		    "'containers':[{'name':'c','volumeMounts':[{'name':'v','readOnly':%s}]}"
		    "]}}",
		    cases[i].path, cases[i].read_only ? "true" : "false");
		struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = policy_make(policy_text);
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(pod_text);
		const struct gq_ruled ruled = {
		    .policy = policy, .pod = pod.pod, .posture = pod.posture};
		const char *text = found_by(gq_rule_host_path, &ruled);
		if (!cases[i].says ? *text != '\0' : !strstr(text, cases[i].says))
			fail_msg("%s, %s: %s", cases[i].allow, cases[i].path, text);
	}
}

/* A volume that is handed over as a device is written to, whatever the mounts beside it say. */
static void devices_may_write(void **state)
{
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = policy_make(
	    "rules: {hostPath: {mode: enforce, allow: [{path: /mnt, readOnly: true}]}}\n");
	struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(
	    "{'spec':{'volumes':[{'name':'v','hostPath':{'path':'/"
	    "mnt'}}],'containers':[{'name':'c',"
	    "'volumeMounts':[{'name':'v','readOnly':true}],'volumeDevices':[{'name':'v'}]}]}}");
	const struct gq_ruled ruled = {.policy = policy, .pod = pod.pod, .posture = pod.posture};

	(void)state;
	assert_non_null(strstr(found_by(gq_rule_host_path, &ruled), "may be mounted read-only"));
}

/* Every reason why there can be no user namespace is told, but where there is none whatever the pod
 * says. */
static void user_namespaces(void **state)
{
	static const struct {
		const char *spec, *says;
	} cases[] = {
	    {"", "set hostUsers: false in its spec."},
	    {"'hostUsers':true", "set hostUsers: false in its spec."},
	    {"'hostUsers':false", ""},
	    {"'hostNetwork':true,'hostPID':true", "with hostNetwork: true: remove hostNetwork"},
	    {"'hostNetwork':true,'hostPID':true", "with hostPID: true: remove hostPID"},
	    {"'hostPID':true,'hostIPC':true", "with hostPID: true: remove hostPID"},
	    {"'hostPID':true,'hostIPC':true", "with hostIPC: true: remove hostIPC"},
	    {"'hostIPC':true", "with hostIPC: true: remove hostIPC"},
	    {"'os':{'name':'windows'},'hostNetwork':true",
	     "Windows does not have (os.name: windows)"},
	    {"'os':{'name':'linux'}", "set hostUsers: false in its spec."},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char text[256];
		(void)snprintf(text, sizeof text, "{'spec':{%s}}", cases[i].spec);
		struct rules_pod pod GQ_CLEANUP(rules_pod_done) = rules_pod(text);
		const struct gq_ruled ruled = {.pod = pod.pod, .posture = pod.posture};
		const char *says = found_by(gq_rule_user_namespace, &ruled);
		if (*cases[i].says ? !strstr(says, cases[i].says) : *says)
			fail_msg("%s: %s", cases[i].spec, says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(powers),
	    cmocka_unit_test(nested_allowed_paths),
	    cmocka_unit_test(devices_may_write),
	    cmocka_unit_test(user_namespaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
