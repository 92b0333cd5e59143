package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/apiproxy"
)

// kill ends the program at once and starts it again, until it says that it is ready.
func (p *program) kill() {
	p.Helper()
	if err := p.process.Signal(syscall.SIGKILL); err != nil {
		p.Fatal(err)
	}
	<-p.process.Done()
	p.launch()
	p.waitReady()
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, other := s.namespace("ns", nil), s.namespace("other", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s, %s]
    quota:
      A100: {gpus: 6}
      H100: {gpus: 4}
      "*": {gpus: 8}
`, ns, other), withTTL(5))
	s.mustRun(ns, newPod("one", 2, on(a100)))
	s.mustRun(other, newPod("two", 1, on(h100)))
	s.mustCreate(ns, newPod("either", 1, on(a100, h100), held))
	s.mustRun(ns, newPod("going", 1, on(a100), finalized))
	s.deletePod(ns, "going")
	s.mustRun(ns, newPod("done", 1, on(a100)))
	s.setPhase(ns, "done", corev1.PodSucceeded)
	classes := map[string]string{
		"A100": "limit=6 used=4 reserved=0 pending=1 bound=2 terminating=1 free=2",
		"H100": "limit=4 used=2 reserved=0 pending=1 bound=1 terminating=0 free=2",
		"*":    "limit=8 used=5 reserved=0 pending=1 bound=3 terminating=1 free=3",
	}
	for class, want := range classes {
		p.waitUsage("team-a", class, want)
	}
	p.waitNoReservations()
	p.kill()
	// At once, not after a while: being ready means that everything is known.
	for class, want := range classes {
		if err := p.usageIs("team-a", class, want); err != nil {
			t.Errorf("after the kill: %v", err)
		}
	}
	s.mustRefuse(ns, newPod("three", 3, on(a100)), "team-a may hold 6 A100 GPUs and holds 4 (2 bound, 1 pending, 0 reserved, 1 terminating)")
	s.mustRefuse(other, newPod("four", 3, on(h100)), "team-a may hold 4 H100 GPUs and holds 2")
	s.mustRun(ns, newPod("three", 2, on(a100)))
	p.waitUsage("team-a", "A100", "used=6 free=0")

	// Killed while pods come and go. What was allowed just before and stored after is seen later, and
	// what was gone before the restart counts for one time to live; in the end the totals are those of
	// the API server's pods.
	s.deletePod(ns, "three")
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.churn(other, 4, 3*time.Second)
	}()
	time.Sleep(time.Second)
	p.kill()
	<-finished
	s.eventually("the churn is over", func() error {
		if n := len(s.pods(other)); n != 1 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	p.waitUsage("team-a", "A100", "used=4 reserved=0 pending=1 bound=2 terminating=1 free=2")
	s.mustCreate(other, newPod("last", 1, on(a100), held))
	p.waitUsage("team-a", "A100", "used=5 reserved=0 pending=2 bound=2 terminating=1 free=1")
	p.waitUsage("team-a", "*", "used=6 reserved=0")
	p.releaseFinalizer(ns, "going")
	p.waitUsage("team-a", "A100", "used=4 terminating=0")
}

func (s *scope) releaseFinalizer(namespace, name string) {
	s.Helper()
	s.eventually("remove the finalizer", func() error {
		_, err := client.CoreV1().Pods(namespace).Patch(s.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	})
	s.waitGone(namespace, name)
}

// A full quota and maxSurge leave no room for the next revision; the refusal says what to do.
func TestRollingUpdate(t *testing.T) {
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
	selector, pods := template(1, on(a100))
	replicas := int32(2)
	deployments := client.AppsV1().Deployments(ns)
	if _, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: pods},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitRunningPods(ns, 2)
	p.waitUsage("team-a", "A100", "used=2 bound=2 free=0")
	patch := func(body string) {
		t.Helper()
		if _, err := deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}},` +
		`"template":{"spec":{"containers":[{"name":"main","image":"next"}]}}}}`)
	s.eventually("the new ReplicaSet says why it is stuck", func() error {
		sets, err := client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			for _, condition := range set.Status.Conditions {
				if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue {
					if !containsAll(condition.Message, "team-a may hold 2 A100 GPUs and holds 2",
						"ReplicaSet "+set.Name+" starts new pods before it ends old ones", "maxSurge to 0") {
						return fmt.Errorf("the condition says %q", condition.Message)
					}
					return nil
				}
			}
		}
		return errors.New("no condition yet")
	})
	next := func() (n int) {
		for _, pod := range s.pods(ns) {
			if pod.Spec.Containers[0].Image == "next" {
				n++
			}
		}
		return n
	}
	if n := s.running(ns); n != 2 || next() != 0 {
		t.Errorf("%d pods run, %d are new", n, next())
	}
	// A pod beside the rollout is not told about it.
	if told := s.mustRefuse(ns, newPod("alone", 1, on(a100)), "holds 2"); strings.Contains(told, "maxSurge") {
		t.Errorf("a pod of no Deployment is told about maxSurge: %s", told)
	}

	patch(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)
	s.within(2*patience, "it rolls", func() error {
		deployment, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status := deployment.Status; status.UpdatedReplicas != 2 || status.AvailableReplicas != 2 || status.Replicas != 2 {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
	s.waitRunningPods(ns, 2)
	if n := next(); n != 2 {
		t.Errorf("%d pods are new", n)
	}
	p.waitUsage("team-a", "A100", "used=2 reserved=0 bound=2 free=0")
}

// The selector of a pod may change while gates hold it back from the scheduler.
func TestSchedulerNarrowing(t *testing.T) {
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
      "*": {gpus: 3}
`, ns))
	gated := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "e2e.gpuquota.io/gate"}}
	}
	s.mustCreate(ns, newPod("pod", 2, on(a100, h100), gated))
	p.waitUsage("team-a", "A100", "used=2 pending=2 free=0")
	p.waitUsage("team-a", "H100", "used=2 pending=2 free=0")
	p.waitUsage("team-a", "*", "used=2 pending=2 free=1")
	s.mustRefuse(ns, newPod("other", 1, on(a100)), "team-a may hold 2 A100 GPUs and holds 2")
	patch := func(body string) {
		t.Helper()
		if _, err := client.CoreV1().Pods(ns).Patch(t.Context(), "pod", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(fmt.Sprintf(`{"spec":{"nodeSelector":{"nvidia.com/gpu.product":%q}}}`, h100))
	p.waitUsage("team-a", "A100", "used=0 free=2")
	p.waitUsage("team-a", "H100", "used=2 pending=2 free=0")
	p.waitUsage("team-a", "*", "used=2 pending=2 free=1")
	s.mustRun(ns, newPod("other", 1, on(a100)))
	patch(`{"spec":{"schedulingGates":null}}`)
	if node := s.waitRunning(ns, "pod").Spec.NodeName; !strings.HasPrefix(node, "h100-") {
		t.Errorf("the pod went to %s", node)
	}
	p.waitUsage("team-a", "A100", "used=1 bound=1")
	p.waitUsage("team-a", "H100", "used=2 bound=2 pending=0")
	p.waitUsage("team-a", "*", "used=3 bound=3 free=0")
}

// A GPU pod comes with the very next request after its namespace.
func TestNamespaceJustCreated(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaceSelector: {matchLabels: {team: %s-a}}
    quota: {A100: {gpus: 12}}
  - name: team-b
    namespaceSelector: {matchLabels: {team: %s-b}}
    quota: {A100: {gpus: 100}}
`, s.id, s.id), withProxy)
	// First as it happens to be; then the program learns of no namespace by itself.
	for round, name := range []string{"live", "held"} {
		if name == "held" {
			p.proxy.Hold(apiproxy.WatchesOf("/api/v1/namespaces"))
		}
		const perTeam = 8
		var allowed [3]atomic.Int32
		var wait sync.WaitGroup
		for i := range 3 * perTeam {
			team := i % 3
			wait.Go(func() {
				ns := fmt.Sprintf("%s-%s-%d", s.id, name, i)
				labels := map[string]string{scopeLabel: s.id, "team": fmt.Sprintf("%s-%c", s.id, 'a'+team)}
				if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: labels}}, metav1.CreateOptions{}); err != nil {
					t.Errorf("create namespace: %v", err)
					return
				}
				s.deleteLater("namespace "+ns, func(ctx context.Context) error {
					return client.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})
				})
				// The API server takes no pod before this exists; it waits for the controller else.
				account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
				if _, err := client.CoreV1().ServiceAccounts(ns).Create(t.Context(), account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Errorf("create service account: %v", err)
				}
				_, err := s.create(ns, newPod("pod", 1, on(a100), held))
				switch {
				case err == nil:
					allowed[team].Add(1)
				case team == 0:
					s.denial(err, "quota.gpuquota.io", "team-a may hold 12 A100 GPUs and holds 12")
				case team == 1:
					t.Errorf("team-b has room: %v", err)
				default:
					s.denial(err, "quota.gpuquota.io", "Namespace "+ns+" belongs to no tenant")
				}
			})
		}
		wait.Wait()
		usedA, wantA := 8, int32(8)
		if round == 1 {
			usedA, wantA = 12, 4
		}
		if a, b, c := allowed[0].Load(), allowed[1].Load(), allowed[2].Load(); a != wantA || b != perTeam || c != 0 {
			t.Errorf("%s: allowed %d of team-a, %d of team-b, %d of nobody; want %d, %d, 0", name, a, b, c, wantA, perTeam)
		}
		p.waitUsage("team-a", "A100", fmt.Sprintf("used=%d reserved=0", usedA))
		p.waitUsage("team-b", "A100", fmt.Sprintf("used=%d reserved=0", perTeam*(round+1)))
	}
	p.proxy.Release()
	s.throughout(500*time.Millisecond, "the watch changes nothing", func() error {
		return errors.Join(p.usageIs("team-a", "A100", "used=12 reserved=0 pending=12"),
			p.usageIs("team-b", "A100", "used=16 reserved=0 pending=16"))
	})
}

// A namespace of many pods moves to another tenant: no page ever shows a part of them moved.
func TestManyNamespacesMove(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("moves", map[string]string{"team": s.id + "-a"})
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaceSelector: {matchLabels: {team: %s-a}}
    quota: {A100: {gpus: 300}}
  - name: team-b
    namespaceSelector: {matchLabels: {team: %s-b}}
    quota: {A100: {gpus: 100}}
`, s.id, s.id))
	const pods = 300
	var wait sync.WaitGroup
	names := make(chan string, pods)
	for i := range pods {
		names <- fmt.Sprintf("pod-%03d", i)
	}
	close(names)
	for range 8 {
		wait.Go(func() {
			for name := range names {
				if _, err := s.create(ns, newPod(name, 1, on(a100), held)); err != nil {
					t.Errorf("pod %s: %v", name, err)
				}
			}
		})
	}
	wait.Wait()
	p.waitUsage("team-a", "A100", "used=300 reserved=0 free=0")
	p.waitUsage("team-b", "A100", "used=0 reserved=0 free=100")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var pages atomic.Int64
	for range 2 {
		wait.Go(func() {
			for ctx.Err() == nil {
				page, err := p.fetch("/usage")
				if err != nil {
					t.Errorf("during the move: %v", err)
					return
				}
				pages.Add(1)
				var usage usagePage
				if err := json.Unmarshal([]byte(page), &usage); err != nil {
					t.Error(err)
					return
				}
				inA := usage.is("team-a", "A100", "used=300 reserved=0") == nil && usage.is("team-b", "A100", "used=0 reserved=0") == nil
				inB := usage.is("team-a", "A100", "used=0 reserved=0") == nil && usage.is("team-b", "A100", "used=300 reserved=0") == nil
				if !inA && !inB {
					t.Errorf("halfway: %s and %s", usage.line("team-a", "A100"), usage.line("team-b", "A100"))
					return
				}
			}
		})
	}
	for _, team := range []string{"b", "a", "b"} {
		s.setLabels(ns, map[string]string{"team": s.id + "-" + team})
		p.waitUsage("team-"+team, "A100", "used=300 pending=300 reserved=0")
	}
	cancel()
	wait.Wait()
	t.Logf("%d pages", pages.Load())
	s.mustRefuse(ns, newPod("more", 1, on(a100), held), "team-b may hold 100 A100 GPUs and holds 300")
	page, err := p.fetch("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if value, found := metric(page, `gpuquota_used_gpus{tenant="team-b",class="A100",state="pending"}`); !found || value != pods {
		t.Errorf("the metric says %v (found: %v)", value, found)
	}
}
