package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	leaderLabel = "gpuquota.io/leader"
	leaseName   = "gpuquota"
	// leaseTime is how long a leader that is gone is waited for.
	leaseTime = 5 * time.Second
)

// createStandIn makes the pod that stands for a process. No scheduler takes it, so nobody but the
// program and the test touches it.
func (p *program) createStandIn(name string) {
	p.Helper()
	if _, err := client.CoreV1().Pods(p.namespace).Create(p.Context(), restricted(newPod(name, 0, held)), metav1.CreateOptions{}); err != nil {
		p.Fatalf("stand-in pod: %v", err)
	}
}

// pretendSuccessor shows a program that ends a leader after it, which it waits for, until the function
// that it returns is called.
func (p *program) pretendSuccessor() (end func()) {
	p.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	pods := client.CoreV1().Pods(p.namespace)
	name := p.identity + "-next"
	_, _ = pods.Create(ctx, restricted(newPod(name, 0, held)), metav1.CreateOptions{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true","turn":"%d"}}}`, leaderLabel, i)
			_, _ = pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			patch = fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, leaderLabel)
			_, _ = pods.Patch(ctx, p.identity, types.MergePatchType, patch, metav1.PatchOptions{})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// front is where the API server asks. It hands each connection to the replica of the moment.
type front struct {
	url string

	mu     sync.Mutex
	target string
	live   map[net.Conn]bool
}

func (s *scope) newFront() *front {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	f := &front{url: "https://" + listener.Addr().String(), live: map[net.Conn]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	s.Cleanup(func() {
		cancel()
		_ = listener.Close()
	})
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(ctx, connection.(*net.TCPConn))
		}
	}()
	return f
}

func (f *front) serve(ctx context.Context, here *net.TCPConn) {
	defer here.Close()
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	if target == "" {
		return
	}
	connection, err := net.Dial("tcp", target)
	if err != nil {
		_ = here.SetLinger(0) // as if nobody listened
		return
	}
	there := connection.(*net.TCPConn)
	defer there.Close()
	defer context.AfterFunc(ctx, func() { _ = there.Close() })()
	f.mu.Lock()
	f.live[there] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.live, there)
	}()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(there, here)
		_ = there.CloseWrite()
	}()
	_, _ = io.Copy(here, there)
	_ = here.CloseWrite()
	select {
	case <-sent:
	case <-time.After(time.Second):
	}
}

// to sends new connections to a replica; those that there are stay.
func (f *front) to(p *program) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = ""
	if p != nil {
		f.target = strings.TrimPrefix(p.url, "https://")
	}
}

// cut breaks the connections that there are.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for connection := range f.live {
		_ = connection.Close()
	}
}

// pair is two replicas behind one front.
type pair struct {
	*scope
	a, b  *program
	front *front
}

// startPair starts two replicas; a leads, and the API server asks there.
func (s *scope) startPair(policy string, options ...programOption) *pair {
	s.Helper()
	a := s.prepare(policy, append(options, electing)...)
	b := &program{scope: s, identity: s.id + "-b", namespace: a.namespace, probe: a.probe, account: a.account,
		ttl: a.ttl, elect: true}
	b.furnish()
	pair := &pair{scope: s, a: a, b: b, front: s.newFront()}
	a.launch()
	a.waitReady()
	a.waitLeads()
	a.waitPolicy(policy)
	b.launch()
	b.waitReady()
	pair.front.to(a)
	a.front = pair.front.url
	a.register()
	return pair
}

// follow hands connections to whoever has the leader's label, as the Service does, until the test ends.
func (r *pair) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list, err := client.CoreV1().Pods(r.a.namespace).List(ctx, metav1.ListOptions{LabelSelector: leaderLabel + "=true"})
			if err == nil {
				var leader *program
				for _, pod := range list.Items {
					for _, p := range []*program{r.a, r.b} {
						if pod.Name == p.identity {
							leader = p
						}
					}
				}
				// A successor takes the label off the others first. That moment is over before
				// EndpointSlices would show it.
				if leader != nil {
					r.front.to(leader)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

func (r *pair) lease() (*coordinationv1.Lease, error) {
	return client.CoordinationV1().Leases(r.a.namespace).Get(r.Context(), leaseName, metav1.GetOptions{})
}

func (r *pair) holder() string {
	lease, err := r.lease()
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// labelled says whether exactly that replica has the leader's label.
func (r *pair) labelled(leader *program) error {
	for _, p := range []*program{r.a, r.b} {
		pod, err := client.CoreV1().Pods(p.namespace).Get(r.Context(), p.identity, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if value, found := pod.Labels[leaderLabel]; found != (p == leader) || found && value != "true" {
			return fmt.Errorf("the label of %s is %q (found: %v)", p.identity, value, found)
		}
	}
	return nil
}

func (r *pair) waitLabelled(leader *program) {
	r.Helper()
	r.eventually(leader.identity+" has the leader's label", func() error { return r.labelled(leader) })
}

// doesNotLead checks what a replica says that does not lead.
func (p *program) doesNotLead(namespace, name string) {
	p.Helper()
	answer, err := p.post(webhookClient(false), "/validate", []byte(review(p.identity+name, namespace, name, false, `{"nvidia.com/gpu":"1"}`)))
	if err != nil {
		p.Fatal(err)
	}
	if answer.status != http.StatusServiceUnavailable || answer.allowed || answer.header.Get("Retry-After") != "1" {
		p.Errorf("%s, which does not lead, answers %d %v: %s", p.identity, answer.status, answer.header, answer.body)
	}
	if !answer.closes {
		p.Errorf("%s, which does not lead, keeps the connection", p.identity)
	}
	if !strings.Contains(answer.body, "does not lead") {
		p.Errorf("%s says %s", p.identity, answer.body)
	}
}

func TestFollower(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	r := s.startPair(policyText(onlyA100, ns, 3))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	r.waitLabelled(r.a)

	lease, err := r.lease()
	if err != nil {
		t.Fatal(err)
	}
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity != r.a.identity ||
		spec.LeaseDurationSeconds == nil || *spec.LeaseDurationSeconds != 5 ||
		spec.AcquireTime == nil || spec.LeaseTransitions == nil || *spec.LeaseTransitions > 1 ||
		spec.RenewTime == nil || time.Since(spec.RenewTime.Time) > leaseTime {
		t.Errorf("the Lease: %+v", spec)
	}
	s.eventually("the Lease is renewed", func() error {
		again, err := r.lease()
		if err == nil && !again.Spec.RenewTime.After(spec.RenewTime.Time) {
			err = errors.New("not yet")
		}
		return err
	})

	for _, p := range []*program{r.a, r.b} {
		leads := 0.0
		if p == r.a {
			leads = 1
		}
		page, err := p.fetch("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if value, found := metric(page, "gpuquota_leader"); !found || value != leads {
			t.Errorf("gpuquota_leader of %s is %v (found: %v)", p.identity, value, found)
		}
		for _, series := range []string{"gpuquota_limit_gpus", "gpuquota_used_gpus"} {
			if _, found := metric(page, series); found != (p == r.a) {
				t.Errorf("%s has series of %s: %v", p.identity, series, found)
			}
		}
		if _, err := p.fetch("/readyz"); err != nil {
			t.Errorf("%s: %v", p.identity, err)
		}
	}
	// It knows all the same.
	r.b.waitUsage("team-a", "A100", "limit=3 used=1 bound=1")
	r.b.doesNotLead(ns, "asked")

	// The API server asks again, on a connection of its own, and so finds the leader.
	r.front.to(r.b)
	r.front.cut()
	time.Sleep(100 * time.Millisecond) // until the API server has noticed
	answered := s.createLater(ns, newPod("two", 1, on(a100)))
	s.throughout(1200*time.Millisecond, "nobody is answered by a follower", func() error {
		select {
		case err := <-answered:
			return fmt.Errorf("answered: %v", err)
		default:
			return nil
		}
	})
	if err := r.b.metricIs(`gpuquota_reviews_total{decision="unavailable",reason="not_leader"}`, 1); err == nil {
		t.Error("the API server did not ask the follower")
	}
	r.front.to(r.a)
	if err := s.wait("the create", answered); err != nil {
		t.Error(err)
	}
	r.a.waitUsage("team-a", "A100", "used=2 reserved=0 free=1")
	if err := r.b.metricIs("gpuquota_journal_grants_total", 0); err != nil {
		t.Error(err)
	}
}

// The leader is asked to end while users go on: nobody notices.
func TestHandover(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	r := s.startPair(policyText(onlyA100, ns, 4), withTTL(5))
	r.waitLabelled(r.a)
	r.follow()
	stop := s.watchPeak(ns)
	var failed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("pod-%d-%d", worker, i)
				_, err := s.create(ns, newPod(name, 1, on(a100), held))
				if err != nil && !strings.Contains(err.Error(), "may hold 4 A100 GPUs and holds") {
					if failed.Add(1) <= 3 {
						t.Errorf("a user is told: %v", err)
					}
				}
				if err == nil {
					s.deletePod(ns, name)
				}
			}
		})
	}
	defer func() {
		cancel()
		wait.Wait()
	}()
	time.Sleep(500 * time.Millisecond)

	// A successor that is not there is waited for.
	if err := r.b.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := r.a.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Lease is given up", func() error {
		if holder := r.holder(); holder != "" {
			return fmt.Errorf("%s has it", holder)
		}
		return nil
	})
	r.a.doesNotLead(ns, "asked")
	s.throughout(1500*time.Millisecond, "the leader waits for its successor", func() error {
		if !r.a.process.Running() {
			return fmt.Errorf("it ended: %v", r.a.process.Err())
		}
		return nil
	})
	if err := r.b.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	s.within(3*time.Second, "the other one leads", func() error {
		return r.b.metricIs("gpuquota_leader", 1)
	})
	t.Logf("the other one leads after %v", time.Since(resumed))
	s.within(2*time.Second, "the first one ends", func() error {
		if r.a.process.Running() {
			return errors.New("it runs")
		}
		return r.a.process.Err()
	})
	if err := r.labelled(r.b); err != nil {
		t.Errorf("it ended before its successor had the label: %v", err)
	}
	if holder := r.holder(); holder != r.b.identity {
		t.Errorf("the Lease is held by %q", holder)
	}
	s.waitEvent(r.a.namespace, "Lease", leaseName, "LeaderLost", r.a.identity+" leads no more: it was asked to end")
	s.waitEvent(r.a.namespace, "Lease", leaseName, "LeaderElected", r.b.identity+" leads")

	// And back, with everybody there.
	r.a.launch()
	r.a.waitReady()
	begin := time.Now()
	if err := r.b.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.within(2500*time.Millisecond, "the first one leads again", func() error { return r.a.metricIs("gpuquota_leader", 1) })
	t.Logf("handed over after %v", time.Since(begin))
	s.within(2*time.Second, "the other one ends", func() error {
		if r.b.process.Running() {
			return errors.New("it runs")
		}
		return r.b.process.Err()
	})
	if err := r.labelled(r.a); err != nil {
		t.Errorf("it ended before its successor had the label: %v", err)
	}
	time.Sleep(500 * time.Millisecond)
	cancel()
	wait.Wait()
	if most := stop(); most > 4 || most == 0 {
		t.Errorf("%d pods existed at one time, the quota is 4", most)
	}
	r.b.launch()
	r.b.waitReady()
	for _, pod := range s.pods(ns) {
		s.deletePod(ns, pod.Name)
	}
	r.a.waitUsage("team-a", "A100", "used=0 reserved=0 free=4")
}

// A leader that is killed or frozen is followed within its Lease and a second, and what it had allowed
// still counts.
func TestLeaderLost(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	r := s.startPair(policyText(onlyA100, ns, 3))
	r.waitLabelled(r.a)
	store := s.startLateStore(ns)
	s.mustRun(ns, newPod("one", 1, on(a100)))
	store.close()
	answered := s.createLater(ns, newPod("late", 1, on(a100), late))
	r.a.waitJournal("late")
	r.a.waitGrants(2)
	begin := time.Now()
	if err := r.a.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.within(leaseTime+1500*time.Millisecond, "the other one leads", func() error { return r.b.metricIs("gpuquota_leader", 1) })
	t.Logf("the other one leads %v after the kill", time.Since(begin))
	r.front.to(r.b)
	if err := r.b.usageIs("team-a", "A100", "used=1 reserved=1 free=1"); err != nil {
		t.Errorf("after the kill: %v", err)
	}
	s.mustRefuse(ns, newPod("over", 2, on(a100)), "may hold 3 A100 GPUs and holds 2 (1 bound, 0 pending, 1 reserved)")
	r.waitLabelled(r.b)
	store.open(false)
	if err := s.wait("the late create", answered); err != nil {
		t.Error(err)
	}
	r.b.waitUsage("team-a", "A100", "used=2 reserved=0 free=1")

	// Back again it follows.
	r.a.launch()
	r.a.waitReady()
	s.throughout(time.Second, "the first one follows", func() error {
		return errors.Join(r.a.metricIs("gpuquota_leader", 0), r.labelled(r.b))
	})
	r.a.doesNotLead(ns, "asked")

	// Frozen, and let go when another leads: it must not grant what it still believes to be free.
	begin = time.Now()
	if err := r.b.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.within(leaseTime+1500*time.Millisecond, "the first one leads", func() error { return r.a.metricIs("gpuquota_leader", 1) })
	t.Logf("the first one leads %v after the freeze", time.Since(begin))
	r.front.to(r.a)
	r.front.cut() // or the next create waits for the frozen one, until its time is over
	s.eventually("the first one is asked", func() error {
		_, err := s.create(ns, newPod("three", 1, on(a100)))
		return err
	})
	if err := r.b.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	answer, err := r.b.post(webhookClient(true), "/validate", []byte(review("frozen", ns, "four", false, `{"nvidia.com/gpu":"1"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if answer.allowed {
		t.Errorf("a leader of the past grants: %s", answer.body)
	}
	s.eventually("the frozen one follows", func() error {
		return errors.Join(r.b.metricIs("gpuquota_leader", 0), r.a.metricIs("gpuquota_leader", 1), r.labelled(r.a))
	})
	r.b.doesNotLead(ns, "asked-again")
	r.a.waitUsage("team-a", "A100", "used=3 reserved=0 free=0")
	s.mustRefuse(ns, newPod("over", 1, on(a100)), "may hold 3 A100 GPUs and holds 3")
}

// The policy is edited while leaders change; a bad one never replaces a good one.
func TestPolicyAcrossLeaders(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	r := s.startPair(policyText(onlyA100, ns, 1))
	r.waitLabelled(r.a)
	r.follow()
	leads := func(p *program) func() error {
		return func() error { return p.metricIs("gpuquota_leader", 1) }
	}
	s.mustRun(ns, newPod("one", 1, on(a100)))

	// Edited while nobody leads.
	if err := r.b.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := r.a.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.eventually("nobody leads", func() error {
		if holder := r.holder(); holder != "" {
			return fmt.Errorf("%s does", holder)
		}
		return nil
	})
	next := policyText(onlyA100, ns, 2)
	r.a.applyPolicy(next)
	if err := r.b.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.eventually("the other one leads", leads(r.b))
	r.b.waitPolicy(next)
	s.mustRun(ns, newPod("two", 1, on(a100)))
	s.mustRefuse(ns, newPod("three", 1, on(a100)), "may hold 2 A100 GPUs and holds 2")

	<-r.a.process.Done()
	r.a.launch()
	r.a.waitReady()
	r.a.waitPolicy(next)
	r.a.register("policy.gpuquota.io") // all but this one
	r.a.applyPolicy(brokenPolicies[0].text)
	s.eventually("the broken one is seen", func() error {
		return r.b.metricIs("gpuquota_policy_last_reload_successful", 0)
	})
	if err := r.b.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.eventually("the first one leads", leads(r.a))
	if err := r.a.usesPolicy(next); err != nil {
		t.Error(err)
	}
	if err := r.a.metricIs("gpuquota_policy_last_reload_successful", 0); err != nil {
		t.Error(err)
	}
	s.eventually("the refusal is by the policy in force", func() error {
		_, err := s.create(ns, newPod("three", 1, on(a100)))
		if err == nil || !strings.Contains(err.Error(), "may hold 2 A100 GPUs and holds 2") {
			return fmt.Errorf("%v", err)
		}
		return nil
	})
	<-r.b.process.Done()
	r.b.launch()
	r.b.waitReady()
	if err := r.b.usesPolicy(next); err != nil {
		t.Errorf("a new follower: %v", err)
	}
	last := policyText(onlyA100, ns, 3)
	r.a.setPolicy(last)
	r.b.waitPolicy(last)
	s.mustRun(ns, newPod("three", 1, on(a100)))
}
