package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// productionNamespace is one that policies in the field exempt by its name.
const productionNamespace = "ai-core-production"

func TestPodLimit(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	small, big := s.namespace("small", nil), s.namespace("big", nil)
	s.eventually("the namespace of an earlier run is gone", func() error {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), productionNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s exists (%v)", productionNamespace, err)
	})
	s.createNamespace(productionNamespace, nil)
	const text = `
tenants:
  - name: small
    namespaces: [%s]
    quota: {A100: {gpus: 20}}
    podLimit: {gpus: 2}
  - name: big
    namespaces: [%s, %s]
    quota: {A100: {gpus: 20}, H100: {gpus: 20}}
rules:
  podLimit: {mode: %s, gpus: 3, exemptNamespaces: [%s]}
`
	p := s.start(policyText(text, small, big, productionNamespace, "enforce", productionNamespace))
	s.mustCreate(small, newPod("two", 2, on(a100), held))
	s.mustRefuse(small, newPod("three", 3, on(a100), held), "One pod of small may ask for at most 2 GPUs; this pod asks for 3")
	s.mustCreate(big, newPod("three", 3, on(a100), held))
	s.mustRefuse(big, newPod("four", 4, on(a100), held), "One pod of this cluster may ask for at most 3 GPUs; this pod asks for 4")
	s.mustRefuse(big, newPod("any", 4, on(a100, h100), held), "One pod of this cluster may ask for at most 3 GPUs; this pod asks for 4")
	s.mustCreate(productionNamespace, newPod("four", 4, on(a100), held))
	s.mustRefuse(productionNamespace, newPod("too-many", 21, on(a100), held), "big may hold 20 A100 GPUs")
	// The limit is on one pod: all its containers together.
	split := newPod("split", 2, on(a100), held)
	split.Spec.Containers = append(split.Spec.Containers, *split.Spec.Containers[0].DeepCopy())
	split.Spec.Containers[1].Name = "second"
	s.mustRefuse(big, split, "at most 3 GPUs; this pod asks for 4")
	p.waitUsage("small", "A100", "used=2 reserved=0")
	p.waitUsage("big", "A100", "used=7 reserved=0")

	p.setPolicy(policyText(text, small, big, productionNamespace, "warn", productionNamespace))
	out, err := s.kubectl(s.manifest("Pod", "v1", newPod("four", 4, on(a100), held)), "apply", "-n", big, "-f", "-")
	if err != nil || !containsAll(out, "Warning: ", "One pod of this cluster may ask for at most 3 GPUs") {
		t.Errorf("the rule in warn: %v %s", err, out)
	}
	s.mustRefuse(small, newPod("three", 3, on(a100), held), "One pod of small may ask for at most 2 GPUs")
	p.setPolicy(policyText(text, small, big, productionNamespace, "disabled", productionNamespace))
	out, err = s.kubectl(s.manifest("Pod", "v1", newPod("five", 5, on(a100), held)), "apply", "-n", big, "-f", "-")
	if err != nil || strings.Contains(out, "Warning") {
		t.Errorf("the rule disabled: %v %s", err, out)
	}
}

// A grant ends by the wall clock, while the program runs.
func TestGrant(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	const text = `
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
grants:
  - {tenant: team-a, class: A100, gpus: 2, until: %q, reason: launch}
  - {tenant: team-a, class: H100, gpus: 1, until: %q, reason: launch}
`
	at := func(from time.Duration) string { return time.Now().Add(from).UTC().Format(time.RFC3339) }
	p := s.start(policyText(text, ns, at(-time.Minute), at(-time.Hour)))
	p.waitUsage("team-a", "A100", "limit=1 used=0 free=1")
	s.mustRefuse(ns, newPod("two", 2, on(a100), held), "team-a may hold 1 A100 GPU and holds 0")
	s.mustRefuse(ns, newPod("h", 1, on(h100), held), "team-a may hold 0 H100 GPUs and holds 0")

	p.setPolicy(policyText(text, ns, at(time.Hour), at(time.Hour)))
	p.waitUsage("team-a", "A100", "limit=3 used=0 free=3")
	s.mustCreate(ns, newPod("two", 2, on(a100), held))
	s.mustCreate(ns, newPod("h", 1, on(h100), held))
	s.mustRefuse(ns, newPod("another", 2, on(a100), held), "team-a may hold 3 A100 GPUs and holds 2")
	p.waitUsage("team-a", "H100", "limit=1 used=1 free=0")

	end := time.Now().Add(4 * time.Second).Truncate(time.Second)
	p.setPolicy(policyText(text, ns, end.UTC().Format(time.RFC3339), at(time.Hour)))
	if err := p.usageIs("team-a", "A100", "limit=3 used=2"); err != nil && time.Now().Before(end) {
		t.Errorf("before the grant ends: %v", err)
	}
	p.waitUsage("team-a", "A100", "limit=1 used=2 reserved=0")
	if now := time.Now(); now.Before(end) {
		t.Errorf("the grant ended %v early", end.Sub(now))
	}
	s.mustRefuse(ns, newPod("another", 1, on(a100), held), "team-a may hold 1 A100 GPU and holds 2")
	if n := len(s.pods(ns)); n != 2 {
		t.Errorf("%d pods are left of 2", n)
	}
	p.waitUsage("team-a", "H100", "limit=1 used=1 free=0")
}

// Whose pods a refusal names.
func TestHolders(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	here, there := s.namespace("here", nil), s.namespace("there", nil)
	const text = `
holders: %s
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 6}
`
	p := s.start(policyText(text, "namespace", here, there))
	s.mustCreate(here, newPod("alpha", 1, on(a100), held))
	s.mustCreate(here, newPod("beta", 2, on(a100), held))
	s.mustCreate(there, newPod("gamma", 3, on(a100), held))
	p.waitUsage("team-a", "A100", "used=6 reserved=0")
	pod := newPod("x", 1, on(a100), held)

	told := s.mustRefuse(here, pod, "Holders in "+here+": beta (2), alpha (1), 3 more in other namespaces.")
	if strings.Contains(told, "gamma") {
		t.Errorf("a pod of another namespace is named: %s", told)
	}
	p.setPolicy(policyText(text, "tenant", here, there))
	s.mustRefuse(here, pod, there+"/gamma (3)", "beta (2)", "alpha (1)")
	p.setPolicy(policyText(text, "none", here, there))
	told = s.mustRefuse(here, pod, "team-a may hold 6 A100 GPUs and holds 6")
	for _, name := range []string{"alpha", "beta", "gamma", "Holders", there} {
		if strings.Contains(told, name) {
			t.Errorf("with holders: none, %q is told: %s", name, told)
		}
	}
}

func (s *scope) setLabels(namespace string, change map[string]string) {
	s.Helper()
	s.eventually("change the labels of "+namespace, func() error {
		object, err := client.CoreV1().Namespaces().Get(s.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name, value := range change {
			if object.Labels[name] = value; value == "" {
				delete(object.Labels, name)
			}
		}
		_, err = client.CoreV1().Namespaces().Update(s.Context(), object, metav1.UpdateOptions{})
		return err
	})
}

// Two selectors match: new pods are refused, and what is charged stays where it was.
func TestAmbiguousNamespace(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", map[string]string{"one": s.id})
	const text = `
tenants:
  - name: team-a
    namespaceSelector: {matchLabels: {one: %s}}
    quota: {A100: {gpus: 4}}
  - name: team-b
    namespaceSelector: {matchLabels: {two: %s}}
    %squota: {A100: {gpus: 4}}
`
	p := s.start(policyText(text, s.id, s.id, ""))
	s.mustRun(ns, newPod("before", 1, on(a100)))
	p.waitUsage("team-a", "A100", "used=1 bound=1 free=3")
	ambiguous := func() error {
		page, err := p.fetch("/usage")
		if err == nil && !strings.Contains(page, fmt.Sprintf(`{"namespace":%q,"pods":0,"ambiguous":true}`, ns)) {
			err = fmt.Errorf("%s is not told as ambiguous: %s", ns, page)
		}
		return err
	}
	s.setLabels(ns, map[string]string{"two": s.id})
	s.eventually("the namespace is ambiguous", ambiguous)
	s.mustRefuse(ns, newPod("after", 1, on(a100)), "The labels of namespace "+ns+" match two tenants, team-a and team-b")
	s.mustRun(ns, newPod("cpu", 0))
	p.waitUsage("team-a", "A100", "used=1 bound=1 free=3")
	p.waitUsage("team-b", "A100", "used=0 reserved=0 free=4")

	// A name beats selectors.
	p.setPolicy(policyText(text, s.id, s.id, fmt.Sprintf("namespaces: [%s]\n    ", ns)))
	p.waitUsage("team-b", "A100", "used=1 bound=1 free=3")
	p.waitUsage("team-a", "A100", "used=0 free=4")
	s.mustRun(ns, newPod("after", 1, on(a100)))
	p.waitUsage("team-b", "A100", "used=2 bound=2 free=2")

	p.setPolicy(policyText(text, s.id, s.id, ""))
	s.eventually("the namespace is ambiguous again", ambiguous)
	p.waitUsage("team-b", "A100", "used=2 bound=2 free=2")
	s.setLabels(ns, map[string]string{"two": ""})
	p.waitUsage("team-a", "A100", "used=2 bound=2 free=2")
	p.waitUsage("team-b", "A100", "used=0 free=4")
	s.mustRun(ns, newPod("last", 2, on(a100)))
}

func TestAmbiguousClass(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	s.node("forty", "NVIDIA-A100-SXM4-40GB", 8)
	s.node("eighty", a100, 8)
	p := s.start(policyText(`
ambiguous: deny
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 8}
      H100: {gpus: 8}
`, ns))
	const says = "This pod of team-a may land on GPUs of several classes"
	told := s.mustRefuse(ns, newPod("either", 1, on(a100, h100)), says, "A100", "H100", "nodeSelector nvidia.com/gpu.product=")
	if !strings.Contains(told, a100) && !strings.Contains(told, h100) {
		t.Errorf("no product is proposed: %s", told)
	}
	s.mustRefuse(ns, newPod("any", 1), says)
	s.mustRun(ns, newPod("a", 1, on(a100)))
	s.mustRun(ns, newPod("h", 1, on(h100)))
	// Two classes inside one limit are one model for the quota.
	s.mustRun(ns, newPod("inside", 1, tolerating(s)))
	p.waitUsage("team-a", "A100", "used=2 bound=2 reserved=0")
	p.waitUsage("team-a", "H100", "used=1 bound=1 reserved=0")
}

// A limit is enforced in the mode of the tenant that owns it.
func TestParentWarn(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	one, two := s.namespace("one", nil), s.namespace("two", nil)
	p := s.start(policyText(`
tenants:
  - name: strict
    quota: {A100: {gpus: 2}}
  - name: strict-child
    parent: strict
    mode: warn
    namespaces: [%s]
    quota: {A100: {gpus: 1}}
  - name: mild
    mode: warn
    quota: {A100: {gpus: 1}}
  - name: mild-child
    parent: mild
    mode: enforce
    namespaces: [%s]
    quota: {A100: {gpus: 2}}
`, one, two))
	apply := func(ns, name string, wants ...string) {
		t.Helper()
		out, err := s.kubectl(s.manifest("Pod", "v1", newPod(name, 1, on(a100))), "apply", "-n", ns, "-f", "-")
		if err != nil {
			t.Fatalf("pod %s: %s", name, out)
		}
		if warned := strings.Contains(out, "Warning: "); warned != (len(wants) > 0) || !containsAll(out, wants...) {
			t.Errorf("pod %s: want a warning with %q: %s", name, wants, out)
		}
	}
	apply(one, "first")
	apply(one, "second", "strict-child may hold 1 A100 GPU and holds 1")
	s.mustRefuse(one, newPod("third", 1, on(a100)),
		"strict may hold 2 A100 GPUs and holds 2", "with all its tenants, strict-child among them")
	apply(two, "first")
	apply(two, "second", "mild may hold 1 A100 GPU and holds 1")
	s.mustRefuse(two, newPod("third", 1, on(a100)), "mild-child may hold 2 A100 GPUs and holds 2")
	p.waitUsage("strict", "A100", "limit=2 used=2 free=0")
	p.waitUsage("strict-child", "A100", "limit=1 used=2")
	p.waitUsage("mild", "A100", "limit=1 used=2")
	p.waitUsage("mild-child", "A100", "limit=2 used=2 free=0")
}

// Nothing is refused and nobody is told; the audit log is.
func TestAuditMode(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, nobodys := s.namespace("ns", nil), s.namespace("nobodys", nil)
	p := s.start(policyText(`
mode: audit
unassigned: deny
tenants:
  - name: team-a
    namespaces: [%s]
    quota: {A100: {gpus: 1}}
    podLimit: {gpus: 2}
`, ns))
	for _, name := range []string{"one", "two", "three"} {
		out, err := s.kubectl(s.manifest("Pod", "v1", newPod(name, 1, on(a100))), "apply", "-n", ns, "-f", "-")
		if err != nil || strings.Contains(out, "Warning") {
			t.Errorf("pod %s: %v %s", name, err, out)
		}
	}
	s.mustCreate(ns, newPod("large", 3, on(a100), held))
	s.mustCreate(ns, newPod("unlisted", 1, on(h100), held))
	s.mustCreate(ns, newPod("unknown", 0, held, asks("nvidia.com/mig-1g.5gb", "1")))
	s.mustCreate(nobodys, newPod("nobodys", 1, on(a100), held))
	p.waitUsage("team-a", "A100", "limit=1 used=6 reserved=0 bound=3 pending=3")

	c := webhookClient(true)
	audit := func(namespace, limits string) (annotations map[string]string) {
		t.Helper()
		answer, err := p.post(c, "/validate", []byte(review("audit", namespace, "direct", true, limits)))
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Response struct {
				Allowed          bool              `json:"allowed"`
				Warnings         []string          `json:"warnings"`
				AuditAnnotations map[string]string `json:"auditAnnotations"`
			} `json:"response"`
		}
		if err := json.Unmarshal([]byte(answer.body), &body); err != nil {
			t.Fatalf("%v: %s", err, answer.body)
		}
		if !body.Response.Allowed || len(body.Response.Warnings) != 0 {
			t.Errorf("in audit: %s", answer.body)
		}
		return body.Response.AuditAnnotations
	}
	for _, tc := range []struct{ namespace, limits, tenant, says string }{
		{ns, `{"nvidia.com/gpu":"1"}`, "team-a", "team-a may hold 1 A100 GPU and holds 6"},
		{ns, `{"nvidia.com/gpu":"3"}`, "team-a", "One pod of team-a may ask for at most 2 GPUs"},
		{ns, `{"nvidia.com/mig-1g.5gb":"1"}`, "team-a", "nvidia.com/mig-1g.5gb"},
		{nobodys, `{"nvidia.com/gpu":"1"}`, "", "Namespace " + nobodys + " belongs to no tenant"},
	} {
		have := audit(tc.namespace, tc.limits)
		if have["tenant"] != tc.tenant || have["reason"] == "" || !strings.Contains(have["would-refuse"], tc.says) {
			t.Errorf("%s: want %q in %v", tc.limits, tc.says, have)
		}
	}
}
