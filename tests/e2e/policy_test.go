package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const onlyA100 = `
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: %d}
`

func TestPolicyChange(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 1))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustRefuse(ns, newPod("two", 1, on(a100)), "may hold 1 A100 GPU and holds 1")

	p.setPolicy(policyText(onlyA100, ns, 2))
	s.mustRun(ns, newPod("two", 1, on(a100)))
	p.waitUsage("team-a", "A100", "limit=2 used=2 free=0")

	// Lowering a limit evicts nobody; it refuses what comes next.
	p.setPolicy(policyText(onlyA100, ns, 1))
	p.waitUsage("team-a", "A100", "limit=1 used=2")
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "may hold 1 A100 GPU and holds 2")
	s.deletePod(ns, "one")
	p.waitUsage("team-a", "A100", "limit=1 used=1 free=0")
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "may hold 1 A100 GPU and holds 1")
	s.deletePod(ns, "two")
	p.waitUsage("team-a", "A100", "limit=1 used=0 free=1")
	s.mustRun(ns, newPod("three", 1, on(a100)))
	if err := p.metricIs("gpuquota_policy_last_reload_successful", 1); err != nil {
		t.Error(err)
	}
}

// brokenPolicies have their error at the given line and column.
var brokenPolicies = []struct {
	name, text   string
	line, column int
	says         string
}{
	{"unknown key", `apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: team-a
    namespaces: [a]
    quotas:
      A100: {gpus: 1}
`, 6, 5, "quota"},
	{"wrong type", `apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: team-a
    namespaces: [a]
    quota:
      A100: {gpus: many}
`, 7, 20, "gpus"},
	{"unknown class", `apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: team-a
    namespaces: [a]
    quota:
      A10O: {gpus: 1}
`, 7, 7, "A100"},
	{"namespace of two tenants", `apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: team-a
    namespaces: [a]
    quota: {A100: {gpus: 1}}
  - name: team-b
    namespaces: [a]
    quota: {A100: {gpus: 1}}
`, 8, 18, "team-a"},
	{"no YAML", `apiVersion: config.gpuquota.io/v1alpha1
kind: "QuotaPolicy
`, 0, 0, ""},
}

func TestBrokenPolicyRefusedAtApply(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	good := policyText(onlyA100, ns, 1)
	p := s.start(good)
	for _, broken := range brokenPolicies {
		t.Run(broken.name, func(t *testing.T) {
			manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  %s: |\n    %s\n",
				policyName, policyKey, strings.ReplaceAll(broken.text, "\n", "\n    "))
			out, err := s.kubectl(manifest, "apply", "--server-side", "--force-conflicts", "-n", p.namespace, "-f", "-")
			if err == nil {
				t.Fatalf("accepted: %s", out)
			}
			if !containsAll(out, `admission webhook "policy.gpuquota.io" denied the request: `, broken.says) {
				t.Errorf("want a refusal that names %q: %s", broken.says, out)
			}
			where := regexp.MustCompile(`policy\.yaml:\d+:\d+: `)
			if broken.line > 0 {
				where = regexp.MustCompile(fmt.Sprintf(`policy\.yaml:%d:%d: `, broken.line, broken.column))
			}
			if !where.MatchString(out) {
				t.Errorf("want %v: %s", where, out)
			}
		})
	}
	if err := p.usesPolicy(good); err != nil {
		t.Error(err)
	}
	if err := p.metricIs("gpuquota_policy_last_reload_successful", 1); err != nil {
		t.Error(err)
	}
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustRefuse(ns, newPod("two", 1, on(a100)), "may hold 1 A100 GPU and holds 1")
}

func TestBrokenPolicyForcedIn(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	good := policyText(onlyA100, ns, 1)
	p := s.start(good)
	s.mustRun(ns, newPod("one", 1, on(a100)))
	p.register("policy.gpuquota.io") // all but this one

	inForce := func(situation string) {
		t.Helper()
		if err := p.usesPolicy(good); err != nil {
			t.Errorf("%s: %v", situation, err)
		}
		s.mustRefuse(ns, newPod("two", 1, on(a100)), "may hold 1 A100 GPU and holds 1")
		p.waitUsage("team-a", "A100", "limit=1 used=1")
	}
	for _, broken := range brokenPolicies {
		p.applyPolicy(broken.text)
		s.eventually("the failed reload is seen", func() error {
			return p.metricIs("gpuquota_policy_last_reload_successful", 0)
		})
		inForce(broken.name)
		p.setPolicy(good)
		s.eventually("the good policy is back", func() error {
			return p.metricIs("gpuquota_policy_last_reload_successful", 1)
		})
	}
	if err := client.CoreV1().ConfigMaps(p.namespace).Delete(t.Context(), policyName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the missing policy is seen", func() error {
		return p.metricIs("gpuquota_policy_last_reload_successful", 0)
	})
	inForce("deleted")
	p.kill()
	inForce("deleted, after a restart")
	p.applyPolicy(brokenPolicies[0].text)
	p.kill()
	inForce("broken, after a restart")
	if err := p.metricIs("gpuquota_policy_last_reload_successful", 0); err != nil {
		t.Error(err)
	}
	p.setPolicy(policyText(onlyA100, ns, 2))
	s.mustRun(ns, newPod("two", 1, on(a100)))
}

// What was accepted is gpuquota's own: whatever a person does to it is undone, and is never enforced.
func TestAcceptedPolicyEdited(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	policy := policyText(onlyA100, ns, 1)
	p := s.start(policy)
	configMaps := client.CoreV1().ConfigMaps(p.namespace)
	accepted := func() (*corev1.ConfigMap, error) {
		return configMaps.Get(t.Context(), acceptedName, metav1.GetOptions{})
	}
	want, err := accepted()
	if err != nil {
		t.Fatal(err)
	}
	if want.Data["policy.yaml"] != policy || len(want.Data["hash"]) != 64 || want.Data["epoch"] == "" {
		t.Fatalf("accepted: %v", want.Data)
	}
	more := policyText(onlyA100, ns, 5)
	for name, do := range map[string]func() error{
		"edited": func() error {
			return s.patch(configMaps, acceptedName, map[string]string{"policy.yaml": more})
		},
		"edited with its hash": func() error {
			return s.patch(configMaps, acceptedName, map[string]string{
				"policy.yaml": more, "hash": fmt.Sprintf("%x", sha256.Sum256([]byte(more)))})
		},
		"emptied": func() error {
			return s.patch(configMaps, acceptedName, map[string]string{"policy.yaml": ""})
		},
		"deleted": func() error {
			return configMaps.Delete(t.Context(), acceptedName, metav1.DeleteOptions{})
		},
	} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.eventually("what was accepted is back: "+name, func() error {
			got, err := accepted()
			if err == nil && !maps.Equal(got.Data, want.Data) {
				err = fmt.Errorf("%v", got.Data)
			}
			return err
		})
		if err := p.usesPolicy(policy); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (s *scope) patch(configMaps corev1client.ConfigMapInterface, name string, data map[string]string) error {
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = configMaps.Patch(s.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Without its ConfigMap the program goes on with the last good policy, and says so.
func TestForcedPolicyDeletion(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	policy := policyText(onlyA100, ns, 2)
	p := s.start(policy)
	s.mustRun(ns, newPod("one", 1, on(a100)))
	out, err := s.kubectl("", "delete", "configmap", policyName, "-n", p.namespace)
	if err != nil {
		t.Fatal(out)
	}
	reloaded := func(want float64) func() error {
		return func() error { return p.metricIs("gpuquota_policy_last_reload_successful", want) }
	}
	s.eventually("the loss is seen", reloaded(0))
	if err := p.usesPolicy(policy); err != nil {
		t.Error(err)
	}
	if _, err := p.fetch("/readyz"); err != nil {
		t.Errorf("not ready without a ConfigMap: %v", err)
	}
	s.mustRefuse(ns, newPod("three", 2, on(a100)), "team-a may hold 2 A100 GPUs and holds 1")
	s.mustRun(ns, newPod("two", 1, on(a100)))
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "team-a may hold 2 A100 GPUs and holds 2")
	p.waitUsage("team-a", "A100", "limit=2 used=2 free=0")

	// The same text again, which changes nothing but that there is one.
	p.applyPolicy(policy)
	s.eventually("the policy is back", reloaded(1))
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "team-a may hold 2 A100 GPUs and holds 2")
	p.setPolicy(policyText(onlyA100, ns, 3))
	s.mustRun(ns, newPod("three", 1, on(a100)))
}
