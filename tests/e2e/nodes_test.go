package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/controlplane"
)

// setProduct gives a node the labels of a product, or takes them all away.
func (s *scope) setProduct(node, product string) {
	s.Helper()
	s.eventually("change the labels of "+node, func() error {
		object, err := client.CoreV1().Nodes().Get(s.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name := range object.Labels {
			if strings.HasPrefix(name, "nvidia.com/") {
				delete(object.Labels, name)
			}
		}
		if product != "" {
			for name, value := range controlplane.GPULabels(product, 8) {
				object.Labels[name] = value
			}
		}
		_, err = client.CoreV1().Nodes().Update(s.Context(), object, metav1.UpdateOptions{})
		return err
	})
}

func TestNodeClassIsStable(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, fenceNS := s.namespace("ns", nil), s.namespace("fence", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
      H100: {gpus: 1}
  - name: fence
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
      H100: {gpus: 1}
`, ns, fenceNS))
	node, fenceNode := s.node("gpu", a100, 8), s.node("fence", a100, 8)
	s.mustRun(ns, s.pinned("pod", 1, "gpu"))
	s.mustRun(fenceNS, s.pinned("pod", 1, "fence"))
	p.waitUsage("team-a", "A100", "used=1 bound=1 free=1")
	p.waitUsage("fence", "A100", "used=1 bound=1")

	// Events of nodes come in order: once the program knows what happened to the second node,
	// it knows what happened to the first before that.
	models := []string{h100, a100}
	fence := func() {
		t.Helper()
		s.setProduct(fenceNode, models[0])
		p.waitUsage("fence", map[string]string{h100: "H100", a100: "A100"}[models[0]], "used=1 bound=1")
		models[0], models[1] = models[1], models[0]
	}
	const kept = "used=1 bound=1 pending=0 free=1"

	s.setProduct(node, "")
	fence()
	p.waitUsage("team-a", "A100", kept)
	p.waitUsage("team-a", "H100", "used=0 free=1")

	s.setProduct(node, a100)
	fence()
	p.waitUsage("team-a", "A100", kept)

	// Another known model moves the charge.
	s.setProduct(node, h100)
	p.waitUsage("team-a", "H100", "used=1 bound=1 free=0")
	p.waitUsage("team-a", "A100", "used=0 free=2")
	s.mustRefuse(ns, newPod("h", 1, on(h100)), "team-a may hold 1 H100 GPU and holds 1")

	s.setProduct(node, a100)
	p.waitUsage("team-a", "A100", kept)
	p.waitUsage("team-a", "H100", "used=0 free=1")

	// Over a limit, too: two pods of A100 turn into H100, of which one is allowed.
	s.mustRun(ns, s.pinned("pod-2", 1, "gpu"))
	p.waitUsage("team-a", "A100", "used=2 bound=2 free=0")
	s.setProduct(node, h100)
	p.waitUsage("team-a", "H100", "limit=1 used=2 bound=2")
	p.waitUsage("team-a", "A100", "used=0 free=2")
	s.setProduct(node, a100)
	p.waitUsage("team-a", "A100", "used=2 bound=2 free=0")

	if err := client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fence()
	if n := len(s.pods(ns)); n != 2 {
		t.Skipf("the control plane removed the pods of the deleted node at once: %d left", n)
	}
	p.waitUsage("team-a", "A100", "used=2 bound=2 free=0")
	s.mustRefuse(ns, newPod("another", 1, on(a100)), "team-a may hold 2 A100 GPUs and holds 2")
}

// pinned makes a pod for one node of the test, whatever its model.
func (s *scope) pinned(name string, gpus int, node string) *corev1.Pod {
	pod := newPod(name, gpus, tolerating(s))
	pod.Spec.NodeSelector["e2e.gpuquota.io/node"] = node
	return pod
}

// When nodes of another model appear, what pending pods may use is computed again.
func TestCandidatesFollowNodes(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 3}
      H100: {gpus: 3}
`, ns))
	s.node("first", a100, 8)
	s.mustCreate(ns, newPod("pod", 1, tolerating(s), held))
	p.waitUsage("team-a", "A100", "used=1 pending=1")
	p.waitUsage("team-a", "H100", "used=0")
	s.node("second", h100, 8)
	p.waitUsage("team-a", "H100", "used=1 pending=1")
	p.waitUsage("team-a", "A100", "used=1 pending=1")
	if err := s.bind(ns, "pod", s.id+"-second"); err != nil {
		t.Fatal(err)
	}
	p.waitUsage("team-a", "H100", "used=1 bound=1")
	p.waitUsage("team-a", "A100", "used=0")
}

// A pod bound to a node that never had a known model counts in every limit of its tenant.
func TestUnknownNode(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
      H100: {gpus: 2}
`, ns))
	s.node("unlabelled", "", 8)
	s.mustRun(ns, s.pinned("pod", 1, "unlabelled"))
	for _, class := range []string{"A100", "H100"} {
		p.waitUsage("team-a", class, "used=1 bound=1 free=1")
	}
	s.mustRefuse(ns, s.pinned("more", 2, "unlabelled"), "team-a may hold 2 ", fmt.Sprintf("asks for %d", 2))
}
