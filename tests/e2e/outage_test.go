package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// placed puts a pod on a node without a scheduler.
func placed(node string) podOption { return func(pod *corev1.Pod) { pod.Spec.NodeName = node } }

// mirror makes the pod that a kubelet shows for one of its own files.
func mirror(node string) podOption {
	return func(pod *corev1.Pod) {
		no := false
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "e2e"}
		pod.Spec.NodeName = node
		pod.Spec.AutomountServiceAccountToken = &no
	}
}

// What came in while nobody asked us is charged as soon as it is seen, told of, and not added to.
func TestAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	s.mustRun(ns, newPod("asked", 2, on(a100)))
	if err := p.unregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.eventually("nobody is asked", func() error {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), newPod("probe", 100, on(a100)),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	s.mustRun(ns, newPod("scheduled", 2, on(a100)))
	s.mustCreate(ns, newPod("placed", 1, placed("a100-1")))
	s.mustCreate(ns, newPod("static", 1, mirror("a100-2")))
	p.waitUsage("team-a", "A100", "used=6 reserved=0 bound=6 free=0")
	p.register()

	over := `gpuquota_over_gpus{tenant="team-a",class="A100"}`
	if err := p.metricIs(over, 2); err != nil {
		t.Error(err)
	}
	s.mustRefuse(ns, newPod("next", 1, on(a100)), "team-a may hold 4 A100 GPUs and holds 6")
	p.statusShows("over:\n- tenant: team-a\n  class: A100\n  gpus: {held: 6, limit: 4, over: 2}\n",
		"{pod: "+ns+"/scheduled, gpus: 2, memory: 160Gi, unasked: true}",
		"{pod: "+ns+"/placed, gpus: 1, memory: 80Gi, unasked: true}",
		"{pod: "+ns+"/static, gpus: 1, memory: 80Gi, unasked: true}",
		"{pod: "+ns+"/asked, gpus: 2, memory: 160Gi}")
	event := s.waitEvent(p.namespace, "ConfigMap", policyName, "TenantOverQuota", "team-a holds 6 A100 GPUs and may hold 4",
		"Pods that came in without gpuquota: "+ns+"/scheduled, "+ns+"/placed, "+ns+"/static. Others that hold of it: "+ns+"/asked.")
	if event.Type != corev1.EventTypeWarning {
		t.Errorf("the Event: %s: %s", event.Type, event.Note)
	}

	s.deletePod(ns, "scheduled")
	p.waitUsage("team-a", "A100", "used=4 free=0")
	page, err := p.fetch("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if value, found := metric(page, over); found {
		t.Errorf("%s is %v", over, value)
	}
	p.statusShows("over: []\n")
	s.waitEvent(p.namespace, "ConfigMap", policyName, "TenantWithinQuota", "team-a is within its quota again", "may hold 4 A100 GPUs")
	s.mustRefuse(ns, newPod("next", 1, on(a100)), "team-a may hold 4 A100 GPUs and holds 4")
	s.deletePod(ns, "asked")
	p.waitUsage("team-a", "A100", "used=2 free=2")
	s.mustRun(ns, newPod("next", 2, on(a100)))
}

// Only a pod that is deleted while it runs may run on without being counted. Not parallel: the metric
// counts the pods of everybody.
func TestForcedDeletions(t *testing.T) {
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 8))
	none := int64(0)
	force := func(name string) {
		t.Helper()
		if err := client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Fatal(err)
		}
		s.waitGone(ns, name)
	}
	page, err := p.fetch("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := metric(page, "gpuquota_forced_deletions_total")
	forced := func(want float64) {
		t.Helper()
		s.eventually(fmt.Sprintf("%v forced deletions", want), func() error {
			return p.metricIs("gpuquota_forced_deletions_total", before+want)
		})
	}
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		name := strings.ToLower(string(phase))
		s.mustRun(ns, newPod(name, 1, on(a100)))
		s.setPhase(ns, name, phase)
		p.waitUsage("team-a", "A100", "used=0 reserved=0")
		force(name)
	}
	s.mustCreate(ns, newPod("unbound", 1, on(a100), held))
	p.waitUsage("team-a", "A100", "used=1 reserved=0")
	force("unbound")
	// As a kubelet does it, which ends the containers first.
	s.mustRun(ns, newPod("graceful", 1, on(a100), finalized))
	s.deletePod(ns, "graceful")
	s.setPhase(ns, "graceful", corev1.PodSucceeded)
	p.waitUsage("team-a", "A100", "used=0 reserved=0")
	s.releaseFinalizer(ns, "graceful")
	p.waitUsage("team-a", "A100", "used=0 reserved=0")
	forced(0)
	for i := range 2 {
		name := fmt.Sprintf("forced-%d", i)
		s.mustRun(ns, newPod(name, 1, on(a100)))
		p.waitUsage("team-a", "A100", "used=1 reserved=0 bound=1")
		force(name)
		forced(float64(i + 1))
	}
	p.waitUsage("team-a", "A100", "used=0 reserved=0 free=8")
}
