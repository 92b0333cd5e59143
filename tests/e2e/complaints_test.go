package e2e

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What users of other quota systems report, and the tests that hold gpuquota to better.
//
//	A burst passes before usage is recorded        TestParallelCreates, TestOneFreeGPU
//	Percentages, or no memory at all, count as 0   TestVGPU
//	Memory of several vGPUs counts once            TestVGPU
//	An idle init container hides the others        TestVGPU, TestEffectiveRequest
//	Sidecars are not counted                       TestSidecarsCount, TestEffectiveRequest
//	A missed DELETE holds GPUs until a restart     TestMissedDeletion
//	A deletion known only by its absence leaks     TestMissedDeletion
//	A second release makes the usage negative      TestMissedDeletion, TestRelease
//	A renewed certificate needs a restart          TestCertificateRotation
//	An outage blocks every pod                     TestProgramStopped, TestGPUNames
//	Ready before everything is loaded              TestNotSynced
//	No quota once its object is deleted            TestForcedPolicyDeletion, TestBrokenPolicyForcedIn
//	Creates that something else refuses are kept   TestRefusedAfterUs, TestIdempotentReviews
//	Exceeded now and then under churn              TestWatchLagsUnderChurn, TestWatchCut
//	A terminating pod is charged too long          TestRelease (until it is gone, no longer)
//	A full quota stops a rolling update            TestRollingUpdate
//	Churn and a restart overcommit                 TestKillAndRestart, TestAPIServerRestart
//	A finished pod's replacement is not charged    TestReplacementOfFailedPod, TestRelease
//	Absurd quantities overflow or are accepted     TestMalformedReviews
//	A moved namespace stays charged to its old one TestNamespaceMoves, TestManyNamespacesMove
//	One model's name is part of another's          TestModelNamesAreWhole

func TestOneFreeGPU(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 3))
	s.mustRun(ns, newPod("holds", 2, on(a100)))
	p.waitUsage("team-a", "A100", "used=2 reserved=0")
	var allowed atomic.Int32
	var wait sync.WaitGroup
	start := make(chan struct{})
	for i := range 200 {
		wait.Go(func() {
			<-start
			if _, err := s.create(ns, newPod(fmt.Sprintf("p-%03d", i), 1, on(a100), held)); err == nil {
				allowed.Add(1)
			} else {
				s.denial(err, "quota.gpuquota.io", "team-a may hold 3 A100 GPUs and holds 3")
			}
		})
	}
	close(start)
	wait.Wait()
	if n, exist := allowed.Load(), len(s.pods(ns))-1; n != 1 || exist != 1 {
		t.Errorf("%d creates for one free GPU were allowed, %d pods exist", n, exist)
	}
	p.waitUsage("team-a", "A100", "used=3 reserved=0 free=0")
}

// The formula of Kubernetes: sidecars run beside the containers, and beside the init containers
// that start after them.
func TestSidecarsCount(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 20))
	always := corev1.ContainerRestartPolicyAlways
	container := func(name string, gpus int64, sidecar bool) corev1.Container {
		c := corev1.Container{Name: name, Image: "none"}
		if gpus > 0 {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
		}
		if sidecar {
			c.RestartPolicy = &always
		}
		return c
	}
	for i, tc := range []struct {
		what string
		init []corev1.Container
		main []int64
		want int
	}{
		{"a sidecar beside its container", []corev1.Container{container("s", 4, true)}, []int64{4}, 8},
		{"an init container only", []corev1.Container{container("i", 6, false)}, []int64{4}, 6},
		{"init containers one after the other", []corev1.Container{container("i", 3, false), container("j", 2, false)}, []int64{1}, 3},
		{"before and after a sidecar", []corev1.Container{container("i", 5, false), container("s", 2, true), container("j", 4, false)}, []int64{1}, 6},
		{"two sidecars", []corev1.Container{container("s", 1, true), container("r", 2, true)}, []int64{1, 1}, 5},
		{"a sidecar without GPUs", []corev1.Container{container("s", 0, true)}, []int64{4}, 4},
		{"an init container without GPUs", []corev1.Container{container("i", 0, false)}, []int64{3, 0}, 3},
	} {
		pod := newPod(fmt.Sprintf("pod-%d", i), 0, on(a100), held)
		pod.Spec.InitContainers = tc.init
		pod.Spec.Containers = nil
		for j, gpus := range tc.main {
			pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("main-%d", j), gpus, false))
		}
		s.mustCreate(ns, pod)
		s.eventually(tc.what, func() error {
			return p.usageIs("team-a", "A100", fmt.Sprintf("used=%d reserved=0", tc.want))
		})
		s.deletePod(ns, pod.Name)
		p.waitUsage("team-a", "A100", "used=0 reserved=0 free=20")
	}
}

// The watch never says that the pods went away; the next list does not have them.
func TestMissedDeletion(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 8), withProxy)
	s.mustRun(ns, newPod("large", 6, on(a100)))
	s.mustRun(ns, newPod("stays", 1, on(a100)))
	s.mustRun(ns, newPod("again", 1, on(a100)))
	p.waitUsage("team-a", "A100", "used=8 reserved=0 bound=8 free=0")
	p.proxy.Hold(podWatch)
	p.proxy.Expire(podWatch)
	s.deletePod(ns, "large")
	s.deletePod(ns, "again")
	s.waitGone(ns, "large")
	s.waitGone(ns, "again")
	if err := p.usageIs("team-a", "A100", "used=8 free=0"); err != nil {
		t.Errorf("while the watch is held: %v", err)
	}
	// What was held is lost with its connection, and cannot be had again.
	if n := p.proxy.Cut(podWatch); n != 1 {
		t.Errorf("%d watches of pods were cut", n)
	}
	s.eventually("it asks for the events since, in vain", func() error {
		if p.proxy.Expired() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	p.proxy.Release()
	p.waitUsage("team-a", "A100", "used=1 reserved=0 bound=1 terminating=0 free=7")
	s.mustRun(ns, newPod("again", 3, on(a100)))
	s.mustRefuse(ns, newPod("much", 5, on(a100)), "team-a may hold 8 A100 GPUs and holds 4")
	s.deletePod(ns, "again")
	s.deletePod(ns, "stays")
	p.waitUsage("team-a", "A100", "used=0 reserved=0 bound=0 terminating=0 free=8")
}

func TestReplacementOfFailedPod(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	selector, pods := template(2, on(a100))
	replicas := int32(2)
	if _, err := client.AppsV1().ReplicaSets(ns).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "rs"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: pods},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.waitRunningPods(ns, 2)
		p.waitUsage("team-a", "A100", "used=4 reserved=0 bound=4 free=0")
		s.mustRefuse(ns, newPod("beside", 1, on(a100)), "team-a may hold 4 A100 GPUs and holds 4")
		for _, pod := range s.pods(ns) {
			if pod.Status.Phase == corev1.PodRunning {
				s.setPhase(ns, pod.Name, corev1.PodFailed)
				break
			}
		}
	}
	s.waitRunningPods(ns, 2)
	p.waitUsage("team-a", "A100", "used=4 reserved=0 bound=4 free=0")
}

// H20 is not H200, and A10 is not A100, whatever begins with what.
func TestModelNamesAreWhole(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      H20: {gpus: 1}
      H200: {gpus: 2}
      A10: {gpus: 3}
      A100: {gpus: 4}
`, ns))
	used := map[string]int{"H20": 0, "H200": 0, "A10": 0, "A100": 0}
	for i, tc := range []struct{ product, class string }{
		{"NVIDIA-H200", "H200"}, {"NVIDIA-H20", "H20"}, {"NVIDIA-A10", "A10"}, {"NVIDIA-A100-SXM4-80GB", "A100"},
		{"NVIDIA-A100-PCIE-40GB", "A100"}, {"A100-SXM4-40GB", "A100"}, {"NVIDIA-A100-80GB-PCIe", "A100"},
	} {
		s.mustCreate(ns, newPod(fmt.Sprintf("pod-%d", i), 1, on(tc.product), held))
		used[tc.class]++
		for class, n := range used {
			p.waitUsage("team-a", class, fmt.Sprintf("used=%d reserved=0", n))
		}
	}
	s.mustRefuse(ns, newPod("h20", 1, on("NVIDIA-H20"), held), "team-a may hold 1 H20 GPU and holds 1")
	s.mustRefuse(ns, newPod("a100", 1, on("NVIDIA-A100-SXM4-80GB"), held), "team-a may hold 4 A100 GPUs and holds 4")
	s.mustRefuse(ns, newPod("mig", 1, on("A100-SXM4-40GB-MIG-1g.5gb-SHARED"), held), "A100")
}
