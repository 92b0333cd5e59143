package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func containsAll(text string, wants ...string) bool {
	for _, want := range wants {
		if !strings.Contains(text, want) {
			return false
		}
	}
	return true
}

func template(gpus int, options ...podOption) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	pod := newPod("template", gpus, options...)
	labels := map[string]string{"app": "test"}
	return &metav1.LabelSelector{MatchLabels: labels},
		corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}
}

// running counts the pods of a workload that run.
func (s *scope) running(namespace string) int {
	s.Helper()
	n := 0
	for _, pod := range s.pods(namespace) {
		if pod.Labels["app"] == "test" && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (s *scope) waitRunningPods(namespace string, want int) {
	s.Helper()
	s.within(2*patience, fmt.Sprintf("%d pods run", want), func() error {
		if n := s.running(namespace); n != want {
			return fmt.Errorf("%d pods run, want %d", n, want)
		}
		return nil
	})
}

// waitReplicas waits for the pods of ReplicaSets that were refused before. Their controller pauses
// twice as long after each refusal, a minute in the end, but looks again when an object changes.
func (s *scope) waitReplicas(namespace string, want int) {
	s.Helper()
	next := time.Now().Add(time.Second)
	s.within(2*patience, fmt.Sprintf("%d pods run", want), func() error {
		n := s.running(namespace)
		if n == want {
			return nil
		}
		if time.Now().After(next) {
			next = time.Now().Add(time.Second)
			s.touchReplicaSets(namespace)
		}
		return fmt.Errorf("%d pods run, want %d", n, want)
	})
}

func (s *scope) touchReplicaSets(namespace string) {
	s.Helper()
	sets := client.AppsV1().ReplicaSets(namespace)
	list, err := sets.List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e.gpuquota.io/touched":"%d"}}}`, time.Now().UnixNano())
	for _, set := range list.Items {
		if _, err := sets.Patch(s.Context(), set.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
	}
}

func TestDeploymentGetsWhatFits(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, other := s.namespace("ns", nil), s.namespace("other", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 20}
`, ns, other))
	for i := range 3 {
		s.mustRun(other, newPod(fmt.Sprintf("occupies-%d", i), 5, on(a100)))
	}
	selector, pods := template(1, on(a100))
	replicas := int32(20)
	if _, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: pods},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitRunningPods(ns, 5)
	s.eventually("the ReplicaSet says why", func() error {
		sets, err := client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			for _, condition := range set.Status.Conditions {
				if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue {
					if !strings.Contains(condition.Message, "team-a may hold 20 A100 GPUs and holds 20") {
						return fmt.Errorf("the condition says %q", condition.Message)
					}
					return nil
				}
			}
		}
		return errors.New("no condition yet")
	})
	p.waitUsage("team-a", "A100", "used=20 reserved=0 free=0")
	if n := len(s.pods(ns)); n != 5 {
		t.Errorf("%d pods for 5 free GPUs", n)
	}
	for i := range 3 {
		s.deletePod(other, fmt.Sprintf("occupies-%d", i))
		s.waitReplicas(ns, 10+5*i)
	}
	p.waitUsage("team-a", "A100", "used=20 reserved=0 bound=20 free=0")
}

// Charges of one namespace and name count as the largest, so the successor of a pod finds room
// even when the deletion is not yet known to the program.
func TestStatefulSetPodRecreated(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 4}
`, ns), withProxy)
	selector, pods := template(2, on(a100))
	replicas := int32(2)
	if _, err := client.AppsV1().StatefulSets(ns).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: pods,
			ServiceName: "db", PodManagementPolicy: appsv1.ParallelPodManagement},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitRunningPods(ns, 2)
	p.waitUsage("team-a", "A100", "used=4 reserved=0 free=0")
	// The program learns of each deletion long after the successor was created.
	p.proxy.Delay(podWatch, 700*time.Millisecond)
	for range 4 {
		old, err := client.CoreV1().Pods(ns).Get(t.Context(), "db-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.deletePod(ns, "db-0")
		s.eventually("db-0 is made again", func() error {
			pod, err := client.CoreV1().Pods(ns).Get(t.Context(), "db-0", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pod.UID == old.UID || pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("uid %s, phase %s", pod.UID, pod.Status.Phase)
			}
			return nil
		})
	}
	p.proxy.Release()
	events, err := client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		if strings.Contains(event.Message, "gpuquota.io") {
			t.Errorf("a successor was refused: %s: %s", event.Reason, event.Message)
		}
	}
	p.waitUsage("team-a", "A100", "used=4 reserved=0 bound=4 free=0")
	s.mustRefuse(ns, newPod("third", 2, on(a100)), "team-a may hold 4 A100 GPUs and holds 4")
}

// nativeQuota puts a ResourceQuota of Kubernetes in force.
func (s *scope) nativeQuota(namespace string, gpus int64) {
	s.Helper()
	const resourceName = "requests.nvidia.com/gpu"
	quotas := client.CoreV1().ResourceQuotas(namespace)
	if _, err := quotas.Create(s.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{resourceName: *resource.NewQuantity(gpus, resource.DecimalSI)}},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("the native quota is in force", func() error {
		quota, err := quotas.Get(s.Context(), "none", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, ok := quota.Status.Hard[resourceName]; !ok {
			return errors.New("no status yet")
		}
		return nil
	})
}

// What something after us refuses gives its reservation back, and cannot starve others meanwhile.
func TestRefusedAfterUs(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	blocked, other := s.namespace("blocked", nil), s.namespace("other", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 8}
`, blocked, other), withTTL(3))
	s.nativeQuota(blocked, 0)

	_, err := s.create(blocked, newPod("single", 1, on(a100)))
	if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Fatalf("want a refusal of the native quota, got %v", err)
	}
	p.waitUsage("team-a", "A100", "used=0 reserved=1")
	s.within(p.ttl+10*time.Second, "the reservation comes back", func() error {
		return p.usageIs("team-a", "A100", "used=0 reserved=0 free=8")
	})

	selector, pods := template(1, on(a100))
	replicas := int32(8)
	if _, err := client.AppsV1().ReplicaSets(blocked).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "hopeless"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: pods},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	attempts := func() (events []corev1.Event) {
		list, err := client.CoreV1().Events(blocked).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range list.Items {
			if event.Reason == "FailedCreate" {
				events = append(events, event)
			}
		}
		return events
	}
	s.eventually("the ReplicaSet tries in vain", func() error {
		if n := len(attempts()); n < 3 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	// Two attempts older than 2 s may stand; everything else belongs to the tenant.
	s.within(4*p.ttl, "another namespace gets its GPUs", func() error {
		_, err := s.create(other, newPod(fmt.Sprintf("pod-%d", len(s.pods(other))), 1, on(a100)))
		if err != nil {
			return err
		}
		if n := len(s.pods(other)); n < 6 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	if n := len(s.pods(blocked)); n != 0 {
		t.Errorf("%d pods behind a native quota of 0", n)
	}
	if err := client.AppsV1().ReplicaSets(blocked).Delete(t.Context(), "hopeless", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.within(p.ttl+10*time.Second, "the attempts are forgotten", func() error {
		return p.usageIs("team-a", "A100", "used=6 reserved=0 free=2")
	})
	s.mustRun(other, newPod("last", 2, on(a100)))
	p.waitUsage("team-a", "A100", "used=8 reserved=0 free=0")
}

// A ReplicaSet that something after us refuses again and again does not keep its tenant's other
// namespaces waiting, and is told why it gets nothing.
func TestStarvesNobody(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	blocked, other := s.namespace("blocked", nil), s.namespace("other", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 8}
`, blocked, other))
	s.nativeQuota(blocked, 0)
	selector, pods := template(1, on(a100))
	replicas := int32(20)
	set, err := client.AppsV1().ReplicaSets(blocked).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "hopeless"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: pods},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	trying := func() float64 {
		page, err := p.fetch("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		grants, _ := metric(page, "gpuquota_journal_grants_total")
		refusals, _ := metric(page, `gpuquota_reviews_total{decision="deny",reason="owner_attempts"}`)
		return grants + refusals
	}
	s.eventually("the ReplicaSet tries in vain", func() error {
		if trying() < 1 {
			return errors.New("no attempt yet")
		}
		return nil
	})
	for i := range 4 {
		before := trying()
		s.touchReplicaSets(blocked)
		begin := time.Now()
		s.mustCreate(other, newPod(fmt.Sprintf("pod-%d", i), 1, on(a100)))
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("pod %d beside it took %v", i, took)
		}
		s.eventually("the ReplicaSet goes on trying", func() error {
			if trying() == before {
				s.touchReplicaSets(blocked)
				return errors.New("no new attempt")
			}
			return nil
		})
	}
	p.waitUsage("team-a", "A100", "used=4 reserved=2 free=2")
	s.waitEvent(blocked, "ReplicaSet", set.Name, "FailedCreate",
		"2 earlier pods of ReplicaSet hopeless were allowed and never appeared",
		"something after gpuquota refuses them (a ResourceQuota, another webhook?)")
	s.waitEvent(blocked, "ReplicaSet", set.Name, "GPUPodRefused", "never appeared")
	s.waitEvent(blocked, "ReplicaSet", set.Name, "FailedCreate", "exceeded quota: none")
	if n := len(s.pods(blocked)); n != 0 {
		t.Errorf("%d pods behind a native quota of 0", n)
	}
}
