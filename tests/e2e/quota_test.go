package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/controlplane"
)

const (
	a100 = controlplane.ProductA100x80
	h100 = controlplane.ProductH100
)

func TestQuotaOverTwoNamespaces(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	train, serve := s.namespace("train", nil), s.namespace("serve", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 8}
      H100: {gpus: 4}
`, train, serve))
	for i := range 5 {
		s.mustRun(train, newPod(fmt.Sprintf("train-%d", i), 1, on(a100)))
	}
	s.mustRun(serve, newPod("llm", 1, on(a100)))
	s.mustCreate(train, newPod("waiting", 1, on(a100), held))
	p.waitUsage("team-a", "A100", "limit=8 used=7 reserved=0 free=1 pending=1 bound=6 terminating=0")
	p.waitUsage("team-a", "H100", "limit=4 used=0 free=4")

	out, err := s.kubectl(s.manifest("Pod", "v1", newPod("second", 2, on(a100))), "apply", "-n", serve, "-f", "-")
	if err == nil {
		t.Fatalf("kubectl apply went through: %s", out)
	}
	s.denialText(out, "quota.gpuquota.io",
		"Error from server (Forbidden)",
		"team-a may hold 8 A100 GPUs and holds 7 (6 bound, 1 pending, 0 reserved); this pod asks for 2: 1 too many.\n",
		"Holders in "+serve+": llm (1), 6 more in other namespaces.",
		"It would fit with 1 GPU, or on H100 (4 free): nodeSelector nvidia.com/gpu.product="+h100)

	s.mustRun(serve, newPod("second", 1, on(a100)))
	s.mustRefuse(train, newPod("ninth", 1, on(a100)), "team-a may hold 8 A100 GPUs and holds 8", "1 too many")
	p.waitUsage("team-a", "A100", "used=8 free=0")
}

func TestPerModel(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
      H100: {gpus: 2}
`, ns))
	s.mustRun(ns, newPod("a-1", 1, on(a100)))
	s.mustRefuse(ns, newPod("a-2", 1, on(a100)), "may hold 1 A100 GPU and holds 1")
	s.mustRun(ns, newPod("h-1", 2, on(h100)))
	s.mustRefuse(ns, newPod("h-2", 1, on(h100)), "may hold 2 H100 GPUs and holds 2")
	p.waitUsage("team-a", "A100", "used=1 bound=1 free=0")
	p.waitUsage("team-a", "H100", "used=2 bound=2 free=0")
}

func TestMemoryQuota(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {memory: 160Gi}
`, ns))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustRun(ns, newPod("two", 1, on(a100)))
	p.waitUsage("team-a", "A100", "limit=none used=2 mlimit=163840 mused=163840 mfree=0 mbound=163840")
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "team-a may hold", "A100")
}

func TestParentQuota(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	one, two := s.namespace("one", nil), s.namespace("two", nil)
	p := s.start(policyText(`
tenants:
  - name: research
    quota:
      A100: {gpus: 3}
  - name: team-a
    parent: research
    namespaces: [%s]
    quota:
      A100: {gpus: 3}
  - name: team-b
    parent: research
    namespaces: [%s]
    quota:
      A100: {gpus: 3}
`, one, two))
	s.mustRun(one, newPod("x", 2, on(a100)))
	s.mustRun(two, newPod("x", 1, on(a100)))
	s.mustRefuse(two, newPod("y", 1, on(a100)), "research may hold 3 A100 GPUs and holds 3")
	p.waitUsage("research", "A100", "used=3 bound=3 free=0")
	p.waitUsage("team-a", "A100", "used=2 free=1")
	p.waitUsage("team-b", "A100", "used=1 free=2")
}

func TestParallelCreates(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	namespaces := []string{s.namespace("one", nil), s.namespace("two", nil)}
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 10}
`, namespaces[0], namespaces[1]))
	s.mustRun(namespaces[0], newPod("holds", 2, on(a100)))
	const attempts = 200
	errs := make([]error, attempts)
	start := make(chan struct{})
	var wait sync.WaitGroup
	for i := range attempts {
		wait.Go(func() {
			<-start
			_, errs[i] = s.create(namespaces[i%2], newPod(fmt.Sprintf("p-%03d", i), 1, on(a100)))
		})
	}
	begin := time.Now()
	close(start)
	wait.Wait()
	t.Logf("%d creates took %v", attempts, time.Since(begin))
	allowed := 0
	for _, err := range errs {
		if err == nil {
			allowed++
		} else {
			s.denial(err, "quota.gpuquota.io", "team-a may hold 10 A100 GPUs and holds ", "this pod asks for 1: 1 too many")
		}
	}
	if exist := len(s.pods(namespaces[0])) + len(s.pods(namespaces[1])) - 1; allowed != 8 || exist != 8 {
		t.Errorf("%d of %d creates for 8 free GPUs were allowed, %d pods exist", allowed, attempts, exist)
	}
	p.waitUsage("team-a", "A100", "used=10 reserved=0 bound=10 free=0")
}

func TestGenerateName(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
`, ns))
	s.mustCreate(ns, newPod("gen", 1, on(a100), generated))
	s.mustCreate(ns, newPod("gen", 1, on(a100), generated))
	s.mustRefuse(ns, newPod("gen", 1, on(a100), generated), "may hold 2 A100 GPUs and holds 2")
	p.waitUsage("team-a", "A100", "used=2 reserved=0 bound=2")
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
`, ns))
	dryRun := func(pod *corev1.Pod) error {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for range 5 {
		if err := dryRun(newPod("would-fit", 2, on(a100))); err != nil {
			t.Fatalf("a dry run that would fit: %v", err)
		}
		if err := p.usageIs("team-a", "A100", "used=0 reserved=0 free=2"); err != nil {
			t.Errorf("after a dry run: %v", err)
		}
	}
	s.denial(dryRun(newPod("too-big", 3, on(a100))), "quota.gpuquota.io", "this pod asks for 3: 1 too many")
	s.mustRun(ns, newPod("real", 2, on(a100)))
	s.denial(dryRun(newPod("full", 1, on(a100))), "quota.gpuquota.io", "holds 2")
	p.waitUsage("team-a", "A100", "used=2 reserved=0 free=0")
}

func TestUnassignedNamespace(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	mine, nobodys := s.namespace("mine", nil), s.namespace("nobodys", nil)
	const text = `
unassigned: %s
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
`
	p := s.start(policyText(text, "deny", mine))
	s.mustRefuse(nobodys, newPod("x", 1, on(a100)), nobodys)
	s.mustRun(nobodys, newPod("cpu", 0))

	p.setPolicy(policyText(text, "allow", mine))
	s.mustRun(nobodys, newPod("x", 1, on(a100)))
	s.eventually("the uncharged pod is named", func() error {
		usage, err := p.usage()
		if err != nil {
			return err
		}
		for _, u := range usage.Uncharged {
			if u.Namespace == nobodys && u.Pods == 1 {
				return nil
			}
		}
		return fmt.Errorf("%s is not among %v", nobodys, usage.Uncharged)
	})
	p.waitUsage("team-a", "A100", "used=0 reserved=0")
}

func TestUnlistedClass(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	strict, open := s.namespace("strict", nil), s.namespace("open", nil)
	s.start(policyText(`
tenants:
  - name: strict
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
  - name: open
    namespaces: [%s]
    unlisted: allow
    quota:
      A100: {gpus: 1}
`, strict, open))
	s.mustRefuse(strict, newPod("h", 1, on(h100)), "strict", "H100")
	s.mustRun(strict, newPod("a", 1, on(a100)))
	s.mustRun(open, newPod("h", 8, on(h100)))
	s.mustRun(open, newPod("a", 1, on(a100)))
	s.mustRefuse(open, newPod("a-2", 1, on(a100)), "open may hold 1 A100 GPU and holds 1")
}

func TestEitherModelCountsOnce(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 4}
      H100: {gpus: 4}
      "*": {gpus: 3}
`, ns))
	for i := range 3 {
		s.mustCreate(ns, newPod(fmt.Sprintf("either-%d", i), 1, on(a100, h100), held))
	}
	p.waitUsage("team-a", "*", "used=3 pending=3 free=0")
	p.waitUsage("team-a", "A100", "used=3 pending=3 free=1")
	p.waitUsage("team-a", "H100", "used=3 pending=3 free=1")
	s.mustRefuse(ns, newPod("fourth", 1, on(a100, h100), held), "team-a may hold 3 ", "holds 3")

	if err := s.bind(ns, "either-0", "a100-1"); err != nil {
		t.Fatal(err)
	}
	p.waitUsage("team-a", "A100", "used=3 pending=2 bound=1")
	p.waitUsage("team-a", "H100", "used=2 pending=2 bound=0")
	p.waitUsage("team-a", "*", "used=3 pending=2 bound=1")
}

func TestRelease(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
`, ns))
	full := func() {
		t.Helper()
		s.mustRefuse(ns, newPod("other", 1, on(a100)), "holds 1")
	}
	free := func(after string) {
		t.Helper()
		p.waitUsage("team-a", "A100", "used=0 reserved=0 free=1")
	}
	s.mustRun(ns, newPod("deleted", 1, on(a100)))
	full()
	s.deletePod(ns, "deleted")
	free("deletion")

	s.mustRun(ns, newPod("succeeded", 1, on(a100)))
	full()
	s.setPhase(ns, "succeeded", corev1.PodSucceeded)
	free("success")

	s.mustRun(ns, newPod("failed", 1, on(a100)))
	full()
	s.setPhase(ns, "failed", corev1.PodFailed)
	free("failure")

	s.mustRun(ns, newPod("going", 1, on(a100), finalized))
	s.deletePod(ns, "going")
	p.waitUsage("team-a", "A100", "used=1 terminating=1 bound=0 free=0")
	full()
	s.eventually("remove the finalizer", func() error {
		pod, err := client.CoreV1().Pods(ns).Get(t.Context(), "going", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Finalizers = nil
		_, err = client.CoreV1().Pods(ns).Update(t.Context(), pod, metav1.UpdateOptions{})
		return err
	})
	s.waitGone(ns, "going")
	free("the end of its termination")
	s.mustRun(ns, newPod("last", 1, on(a100)))
}

// Init containers, sidecars and several containers count by the formula of Kubernetes.
func TestEffectiveRequest(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 5}
`, ns))
	gpus := func(n int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	pod := newPod("mixed", 1, on(a100))
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "more", Image: "none", Resources: gpus(1)})
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "side", Image: "none", Resources: gpus(1), RestartPolicy: &always},
		{Name: "init", Image: "none", Resources: gpus(3)},
	}
	// max(1 + 1 + sidecar 1, init 3 + sidecar 1 started before it) = 4
	s.mustCreate(ns, pod)
	p.waitUsage("team-a", "A100", "used=4 free=1")
	s.mustRefuse(ns, newPod("two", 2, on(a100)), "holds 4", "asks for 2: 1 too many")
	s.mustRun(ns, newPod("one", 1, on(a100)))
}

// A tenant in warn mode is told and let through; its enforcing parent still refuses.
func TestWarnMode(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: research
    quota:
      A100: {gpus: 2}
  - name: team-a
    parent: research
    mode: warn
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
`, ns))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	out, err := s.kubectl(s.manifest("Pod", "v1", newPod("two", 1, on(a100))), "apply", "-n", ns, "-f", "-")
	if err != nil {
		t.Fatalf("refused in warn mode: %s", out)
	}
	if want := "Warning: "; !containsAll(out, want, "team-a may hold 1 A100 GPU and holds 1") {
		t.Errorf("no warning: %s", out)
	}
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "research may hold 2 A100 GPUs and holds 2")
	p.waitUsage("team-a", "A100", "limit=1 used=2")
	p.waitUsage("research", "A100", "limit=2 used=2 free=0")
}

func (s *scope) bind(namespace, pod, node string) error {
	return client.CoreV1().Pods(namespace).Bind(s.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// legacyBind binds through the older resource that is still served.
func (s *scope) legacyBind(ctx context.Context, namespace, pod, node string) error {
	return client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("bindings").Body(&corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}).Do(ctx).Error()
}

func TestBindingToFullClass(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
      H100: {gpus: 1}
`, ns))
	s.mustRun(ns, newPod("holder", 1, on(h100)))
	s.mustCreate(ns, newPod("pod", 1, on(a100), held))
	p.waitUsage("team-a", "A100", "used=1 pending=1")
	p.waitUsage("team-a", "H100", "used=1 bound=1 free=0")

	s.denial(s.bind(ns, "pod", "h100-1"), "binding.gpuquota.io", "team-a", "H100")
	if event := s.waitEvent(ns, "Pod", "pod", "GPUBindingRefused", "cannot go to node h100-1", "team-a", "H100"); event.Type != corev1.EventTypeWarning {
		t.Errorf("the Event is of type %s", event.Type)
	}
	s.denial(s.legacyBind(t.Context(), ns, "pod", "h100-1"), "binding.gpuquota.io", "team-a", "H100")
	if pod := s.pods(ns); len(pod) != 2 {
		t.Errorf("%d pods", len(pod))
	}
	p.waitUsage("team-a", "A100", "used=1 pending=1")
	p.waitUsage("team-a", "H100", "used=1 bound=1 pending=0 free=0")

	if err := s.bind(ns, "pod", "a100-1"); err != nil {
		t.Errorf("bind to a node with room: %v", err)
	}
	p.waitUsage("team-a", "A100", "used=1 bound=1 pending=0")

	s.deletePod(ns, "holder")
	p.waitUsage("team-a", "H100", "used=0 free=1")
	s.mustCreate(ns, newPod("mover", 1, on(a100), held))
	if err := s.legacyBind(t.Context(), ns, "mover", "h100-1"); err != nil {
		t.Errorf("legacy binding to a node with room: %v", err)
	}
	p.waitUsage("team-a", "H100", "used=1 bound=1")
	p.waitUsage("team-a", "A100", "used=1 bound=1 pending=0")
}

// A toleration that is added later lets a pod onto nodes that nobody was asked about.
func TestTolerationAddedLater(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	node := s.node("tainted", h100, 8)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 4}
      H100: {gpus: 1}
`, ns))
	s.mustRun(ns, newPod("holder", 1, tolerating(s)))
	pod := newPod("pod", 1, held)
	for key, value := range map[string]string{controlplane.LabelProduct: a100, scopeLabel: s.id} {
		either := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		}
		required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, either)
	}
	created := s.mustCreate(ns, pod)
	p.waitUsage("team-a", "A100", "used=1 pending=1")
	p.waitUsage("team-a", "H100", "used=1 bound=1 pending=0 free=0")

	created.Spec.Tolerations = append(created.Spec.Tolerations, corev1.Toleration{Key: scopeLabel,
		Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	if _, err := client.CoreV1().Pods(ns).Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.waitUsage("team-a", "H100", "used=2 bound=1 pending=1")
	s.denial(s.bind(ns, "pod", node), "binding.gpuquota.io", "team-a", "H100")
	s.deletePod(ns, "holder")
	p.waitUsage("team-a", "H100", "used=1 pending=1 free=0")
	if err := s.bind(ns, "pod", node); err != nil {
		t.Errorf("bind when there is room: %v", err)
	}
	p.waitUsage("team-a", "H100", "used=1 bound=1 free=0")
	p.waitUsage("team-a", "A100", "used=0 free=4")
}

func TestNamespaceMoves(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	label := func(team string) map[string]string { return map[string]string{"team": s.id + "-" + team} }
	ns := s.namespace("moves", label("a"))
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaceSelector: {matchLabels: {team: %s-a}}
    quota:
      A100: {gpus: 3}
  - name: team-b
    namespaceSelector: {matchLabels: {team: %s-b}}
    quota:
      A100: {gpus: 1}
`, s.id, s.id))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustRun(ns, newPod("two", 1, on(a100)))
	p.waitUsage("team-a", "A100", "used=2 bound=2 free=1")
	p.waitUsage("team-b", "A100", "used=0 free=1")

	move := func(team string) {
		t.Helper()
		s.eventually("change the label", func() error {
			namespace, err := client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
			if err != nil {
				return err
			}
			namespace.Labels["team"] = s.id + "-" + team
			_, err = client.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{})
			return err
		})
	}
	// In one step: no page shows the pods with both tenants, or with none.
	moved := func(from, to string) {
		t.Helper()
		s.eventually("the charges move to "+to, func() error {
			usage, err := p.usage()
			if err != nil {
				return err
			}
			if usage.is(from, "A100", "used=2") == nil && usage.is(to, "A100", "used=0") == nil {
				return errors.New("not moved yet")
			}
			if usage.is(from, "A100", "used=0") == nil && usage.is(to, "A100", "used=2 bound=2") == nil {
				return nil
			}
			t.Fatalf("halfway: %s and %s", usage.line(from, "A100"), usage.line(to, "A100"))
			return nil
		})
	}
	move("b")
	moved("team-a", "team-b")
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "team-b may hold 1 A100 GPU and holds 2")
	move("a")
	moved("team-b", "team-a")
	s.mustRun(ns, newPod("three", 1, on(a100)))
	s.mustRefuse(ns, newPod("four", 1, on(a100)), "team-a may hold 3 A100 GPUs and holds 3")
}

func TestUsageCommand(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 4}
`, ns))
	s.mustRun(ns, newPod("x", 3, on(a100)))
	p.waitUsage("team-a", "A100", "used=3 bound=3")
	out, err := p.run("usage", "--url", p.metricsURL)
	if err != nil || !containsAll(out, "team-a", "A100", "4", "3") {
		t.Errorf("gpuquota usage: %v\n%s", err, out)
	}
}
