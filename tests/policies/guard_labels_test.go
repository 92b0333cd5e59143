package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// grantRules gives a user rights everywhere, by a ClusterRole of that name.
func grantRules(t *testing.T, user, role string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	roles := client.RbacV1().ClusterRoles()
	if _, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roles.Delete(context.Background(), role, metav1.DeleteOptions{}) })
	grant(t, user, role, "")
}

func namespaceRights(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: verbs,
		Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}}
}

func TestGuardNamespaceLabels(t *testing.T) {
	const creator, administrator = "makes-namespaces", "labels-namespaces"
	grantRules(t, creator, "policies-test-namespaces", namespaceRights("*"))
	grant(t, administrator, "policies-test-namespaces", "")
	grantRules(t, administrator, "policies-test-administer", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"},
		ResourceNames: []string{"gpuquota-policy"}, Verbs: []string{"administer"}})
	own, _ := as(t, creator)
	create := func(labels map[string]string) error {
		_, err := own.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "policies-created", Labels: labels}}, dry)
		return err
	}
	inForce(t, "guard-namespace-labels.yaml", func() bool {
		err := create(map[string]string{"team": "a"})
		return err != nil && strings.Contains(err.Error(), "only administrators of gpuquota")
	})
	wantNoTypeWarnings(t, "gpuquota-guard-namespace-labels")

	for _, labels := range []map[string]string{nil, {"a": "b"}, {"teams": "a"}, {"x.gpuquota.io/y": "z"}, {"gpuquota.iox/y": "z"},
		{"Team": "a"}, {"hami.io/webhooks": "ignore"}, {"pod-security.kubernetes.io/enforce": "restricted"}} {
		if err := create(labels); err != nil {
			t.Errorf("create with %v: %v", labels, err)
		}
	}
	for _, key := range []string{"team", "gpuquota.io/guard", "gpuquota.io/user-namespaces",
		"gpuquota.io/require-user-namespaces", "gpuquota.io/default-gpu-memory", "hami.io/webhook"} {
		wantRefused(t, create(map[string]string{"a": "b", key: ""}), "namespace policies-created: ",
			"the label "+key+": it decides whose quota pods count in, or what they may do. Leave it")
	}

	namespace := newNamespace(t, map[string]string{"team": "a", "other": "x"})
	merge := func(user, patch string, subresources ...string) error {
		c, _ := as(t, user)
		_, err := c.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	for patch, key := range map[string]string{
		`{"metadata":{"labels":{"team":"b"}}}`:                                   "team",
		`{"metadata":{"labels":{"team":""}}}`:                                    "team",
		`{"metadata":{"labels":{"team":null}}}`:                                  "team",
		`{"metadata":{"labels":null}}`:                                           "team",
		`{"metadata":{"labels":{"gpuquota.io/guard":"exempt"}}}`:                 "gpuquota.io/guard",
		`{"metadata":{"labels":{"other":"y","hami.io/webhook":"ignore"}}}`:       "hami.io/webhook",
		`{"metadata":{"labels":{"gpuquota.io/require-user-namespaces":"true"}}}`: "gpuquota.io/require-user-namespaces",
		`{"metadata":{"labels":{"gpuquota.io/scrapes-metrics":"true","a":"b"}}}`: "gpuquota.io/scrapes-metrics",
	} {
		// Labels can be written along with the status.
		for _, subresource := range [][]string{nil, {"status"}} {
			wantRefused(t, merge(creator, patch, subresource...), "namespace "+namespace, "the label "+key+":")
		}
	}
	object, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Labels["team"] = "b"
	_, err = own.CoreV1().Namespaces().Finalize(t.Context(), object, metav1.UpdateOptions{})
	wantRefused(t, err, "the label team:")
	for _, patch := range []string{`{"metadata":{"labels":{"other":"y","new":"z"}}}`, `{"metadata":{"labels":{"other":null}}}`,
		`{"metadata":{"annotations":{"team":"b"}}}`, `{"metadata":{"labels":{"team":"a"}}}`} {
		if err := merge(creator, patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	// A right in one namespace is not one on namespaces; the verb on another ConfigMap neither.
	for _, patch := range []string{`{"metadata":{"labels":{"team":"c","gpuquota.io/guard":"exempt"}}}`, `{"metadata":{"labels":{"team":null}}}`} {
		if err := merge(administrator, patch); err != nil {
			t.Errorf("an administrator, %s: %v", patch, err)
		}
	}
	if err := merge("system:serviceaccount:kube-system:namespace-controller", `{"metadata":{"labels":{"team":"d"}}}`); err == nil {
		t.Error("the namespace controller may move a namespace to another team")
	}
	// Deleting is no change of labels: the controllers go through with it.
	object, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "policies-goes", Labels: map[string]string{"team": "a"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.CoreV1().Namespaces().Delete(t.Context(), object.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func() error {
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), object.Name, metav1.GetOptions{}); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// Why docs/policies.md sends readers to RBAC for the policies: the API server asks no policy about
// policies and their bindings, while it does about the registrations of webhooks.
func TestPoliciesAreNotGuarded(t *testing.T) {
	const text = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: gpuquota-test-everything}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [admissionregistration.k8s.io], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}
  matchConditions: [{name: ours, expression: "(object == null ? oldObject : object).metadata.name.startsWith('gpuquota-test')"}]
  validations: [{expression: "false", reason: Forbidden, message: never}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: gpuquota-test-everything}
spec: {policyName: gpuquota-test-everything, validationActions: [Deny]}
`
	if out, err := kubectl(t, text, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	webhook := func() error {
		_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-test"}}, dry)
		return err
	}
	eventually(t, "the policy is asked about a webhook", func() error {
		if webhook() == nil {
			return fmt.Errorf("it is allowed")
		}
		return nil
	})
	for _, kind := range []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"} {
		for _, suffix := range []string{"", "Binding"} {
			spec := map[string]string{
				"ValidatingAdmissionPolicy": `matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [a]}]},
					validations: [{expression: "true"}]`,
				"MutatingAdmissionPolicy": `matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [a]}]},
					reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/a', value: 1}]"}}]`,
				"ValidatingAdmissionPolicyBinding": "policyName: a, validationActions: [Deny]",
				"MutatingAdmissionPolicyBinding":   "policyName: a",
			}[kind+suffix]
			object := "apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + suffix + "\nmetadata: {name: gpuquota-test}\nspec: {" + spec + "}"
			for _, verb := range []string{"create", "replace", "delete"} {
				if out, err := kubectl(t, object, verb, "-f", "-"); err != nil {
					t.Errorf("%s %s%s is refused now: %s", verb, kind, suffix, out)
				}
			}
		}
	}
	wantRefused(t, webhook(), "never")
	if out, err := kubectl(t, text, "delete", "-f", "-"); err != nil {
		t.Errorf("the policy itself: %s", out)
	}
	eventually(t, "the policy is out of force", webhook)
}

func TestKubeletMonitoring(t *testing.T) {
	const scraper = "scraper"
	if out, err := kubectl(t, "", "apply", "-f", policyFile("kubelet-monitoring.yaml")); err != nil {
		t.Fatal(out)
	}
	grant(t, scraper, "gpuquota-kubelet-monitoring", "")
	may := func(verb, resource string) bool {
		t.Helper()
		out, err := kubectl(t, "", "auth", "can-i", "--as="+scraper, verb, "nodes", "--subresource="+resource)
		return err == nil && strings.TrimSpace(strings.TrimPrefix(out, "Warning: resource 'nodes' is not namespace scoped\n")) == "yes"
	}
	eventually(t, "the right is there", func() error {
		if !may("get", "metrics") {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	for _, resource := range []string{"metrics", "stats", "pods", "healthz", ""} {
		if !may("get", resource) {
			t.Errorf("may not get nodes/%s", resource)
		}
		if may("create", resource) {
			t.Errorf("may create nodes/%s", resource)
		}
	}
	for _, resource := range []string{"proxy", "log", "configz", "spec", "status"} {
		if may("get", resource) {
			t.Errorf("may get nodes/%s", resource)
		}
	}
}

func TestWarnNodesProxy(t *testing.T) {
	admin, told := as(t, "cluster-admin-user", "system:masters")
	write := func(update bool, rules ...rbacv1.PolicyRule) []string {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "policies-test-proxy"}, Rules: rules}
		var err error
		if update {
			_, err = admin.RbacV1().ClusterRoles().Update(context.Background(), role, metav1.UpdateOptions{})
		} else {
			_, err = admin.RbacV1().ClusterRoles().Create(context.Background(), role, dry)
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return told.take()
	}
	rule := func(groups, resources string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","), Verbs: []string{"get"}}
	}
	inForce(t, "warn-nodes-proxy.yaml", func() bool { return len(write(false, rule("", "nodes/proxy"))) > 0 })
	wantNoTypeWarnings(t, "gpuquota-warn-nodes-proxy")
	url := rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
	for _, tc := range []struct {
		rules  []rbacv1.PolicyRule
		naming string // empty: no warning
	}{
		{[]rbacv1.PolicyRule{rule("", "nodes/proxy")}, "(nodes/proxy)"},
		{[]rbacv1.PolicyRule{url, rule("apps", "deployments"), rule("x,", "pods,nodes/proxy")}, "(nodes/proxy)"},
		{[]rbacv1.PolicyRule{rule("", "nodes/*")}, "(nodes/*)"},
		{[]rbacv1.PolicyRule{rule("", "*/proxy")}, "(*/proxy)"},
		{[]rbacv1.PolicyRule{rule("*", "*")}, "(*)"},
		{[]rbacv1.PolicyRule{rule("", "pods,*")}, "(*)"},
		{nil, ""},
		{[]rbacv1.PolicyRule{url}, ""},
		{[]rbacv1.PolicyRule{rule("", "nodes,nodes/metrics,nodes/stats,services/proxy,pods/proxy")}, ""},
		{[]rbacv1.PolicyRule{rule("apps", "*"), rule("example.com", "nodes/proxy")}, ""},
	} {
		have := write(false, tc.rules...)
		if tc.naming == "" && len(have) != 0 || tc.naming != "" && (len(have) != 1 ||
			!strings.Contains(have[0], "clusterroles policies-test-proxy grants nodes/proxy "+tc.naming)) {
			t.Errorf("%v: warned %q, want %q", tc.rules, have, tc.naming)
		}
	}
	// Changing one that exists, and a Role.
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "policies-test-proxy"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.RbacV1().ClusterRoles().Delete(context.Background(), "policies-test-proxy", metav1.DeleteOptions{})
	})
	if have := write(true, rule("", "nodes/proxy")); len(have) != 1 {
		t.Errorf("an update: warned %q", have)
	}
	if _, err := admin.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Rules: []rbacv1.PolicyRule{rule("", "nodes/proxy")}}, dry); err != nil {
		t.Fatal(err)
	}
	if have := told.take(); len(have) != 1 || !strings.Contains(have[0], "roles a grants nodes/proxy") {
		t.Errorf("a Role: warned %q", have)
	}
	// That nodes/* grants nothing is why the file says so.
	if _, err := client.RbacV1().ClusterRoles().Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "policies-test-proxy"},
		Rules: []rbacv1.PolicyRule{rule("", "nodes/*")}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	grant(t, "stars", "policies-test-proxy", "")
	if out, _ := kubectl(t, "", "auth", "can-i", "--as=stars", "get", "nodes", "--subresource=proxy"); strings.Contains(out, "yes") {
		t.Errorf("nodes/* grants nodes/proxy: %s", out)
	}

	// The API server writes its own roles when it starts, some of them with nodes/proxy.
	const own = "system:kubelet-api-admin"
	if err := client.RbacV1().ClusterRoles().Delete(t.Context(), own, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.StopAPIServer(9)
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server's own role is back", func() error {
		_, err := client.RbacV1().ClusterRoles().Get(t.Context(), own, metav1.GetOptions{})
		return err
	})
	page, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total") && strings.Contains(line, "gpuquota-warn-nodes-proxy") &&
			strings.Contains(line, `enforcement_action="warn"`) {
			t.Errorf("the API server is warned about its own roles: %s", line)
		}
	}
}
