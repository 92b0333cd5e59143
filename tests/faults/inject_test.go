package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/apiproxy"
)

const (
	// leaseSeconds is how long a leader that is gone stays one.
	leaseSeconds = 5 * time.Second
	// What the slow store does with creates.
	lateShare, mostLate, refusedShare = 0.3, 3 * time.Second, 0.002
	// recovery bounds how long any fault is felt after it ended.
	recovery = 20 * time.Second
	// probeNamespace has a tenant with room for every probe.
	probeNamespace = "probe"
)

var podWatch = apiproxy.WatchesOf("/api/v1/pods")

// faultRun is a workload under faults.
type faultRun struct {
	*world
	watcher  *watcher
	store    *slowStore
	workload *workload
	rand     *rand.Rand
	probes   int

	windows []window
	kills   int // of a leader, each with grants on their way
	landed  int // pods that were stored after the kill of who had allowed them
	policy  func(elastic int) string
	elastic *limit
}

// fault runs one fault: its window goes from the begin of f until creates work again.
func (r *faultRun) fault(name string, excused bool, f func()) {
	r.Helper()
	begin := time.Now()
	r.logf("%s", name)
	f()
	since := time.Now()
	r.waitServing(name)
	end := time.Now()
	r.windows = append(r.windows, window{name: name, begin: begin, end: end.Add(time.Second), excused: excused})
	r.logf("    over after %.1f s, served again %.1f s later; %s", since.Sub(begin).Seconds(),
		end.Sub(since).Seconds(), r.watcher.progress())
	if n := r.watcher.over(); n > 0 {
		r.Fatalf("a limit was passed %d times", n)
	}
	for _, replica := range r.replicas {
		if !replica.wantEnd && !replica.process.Running() {
			r.Fatalf("%s ended by itself: %v", replica.name, replica.process.Err())
		}
	}
	select {
	case name := <-r.cluster.Ended():
		r.Fatalf("%s ended by itself:\n%s", name, r.cluster.Process(name).Log(8192))
	default:
	}
}

// probeOnce creates a pod that has room for sure, and deletes it. It is a new user's each time: one
// whose pods are gone before gpuquota sees them is held to a few of them.
func (r *faultRun) probeOnce() error {
	r.probes++
	user := r.user(fmt.Sprintf("prober-%d", r.probes))
	name := fmt.Sprintf("probe-%d", r.probes)
	pod := gpuPod(name, 1, "A100")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "faults.gpuquota.io/probe"}}
	ctx, cancel := context.WithTimeout(r.Context(), clientTimeout)
	defer cancel()
	err := createPod(ctx, user, probeNamespace, pod)
	// It may have been stored whatever the answer was.
	if deletion := deletePod(ctx, user, probeNamespace, name, new(int64)); err == nil {
		return deletion
	}
	return err
}

// waitServing waits until creates work, three times in a row.
func (r *faultRun) waitServing(what string) {
	r.Helper()
	good := 0
	r.within(recovery, "GPU pods can be created after: "+what, func() error {
		if err := r.probeOnce(); err != nil {
			good = 0
			return err
		}
		time.Sleep(50 * time.Millisecond)
		if good++; good < 3 {
			return fmt.Errorf("worked %d times in a row", good)
		}
		return nil
	})
}

// currentLeader waits until there is one.
func (r *faultRun) currentLeader() (leader *replica) {
	r.Helper()
	r.within(recovery, "there is one leader", func() error {
		if leader = r.leader(); leader == nil {
			return fmt.Errorf("none, or several")
		}
		return nil
	})
	return leader
}

// waitGrants waits until some pods are on their way that the replica has allowed and that are not
// stored at once.
func (r *faultRun) waitGrants(leader *replica) {
	r.Helper()
	for range 5 {
		for since := time.Now(); time.Since(since) < 2*time.Second; time.Sleep(5 * time.Millisecond) {
			uids := r.store.waiting(250*time.Millisecond, 100*time.Millisecond, time.Hour)
			if len(r.granted(leader, uids)) >= 3 {
				return
			}
		}
		// The quotas are full.
		mode := r.workload.mode.Swap(draining)
		time.Sleep(time.Second)
		r.workload.mode.Store(mode)
	}
	r.Fatal("hardly any pod was on its way between the answer and the store")
}

// granted keeps those pods whose grant the replica's trace shows; all when it writes no trace.
func (r *faultRun) granted(leader *replica, uids []types.UID) (ret []types.UID) {
	r.Helper()
	if len(uids) == 0 {
		return nil
	}
	trace, err := leader.tracer.read()
	if err != nil {
		r.Fatal(err)
	}
	if !trace {
		return uids
	}
	for _, uid := range uids {
		if leader.tracer.grants[uid] {
			ret = append(ret, uid)
		}
	}
	return ret
}

// surge lets the quotas become free and then fill up with pods that are stored late, so that what a
// leader knows and nobody else does is most of what they hold. late: the share of them. between: when
// the quotas are free.
func (r *faultRun) surge(late float64, between func()) {
	r.Helper()
	r.workload.mode.Store(draining)
	time.Sleep(1500 * time.Millisecond)
	between()
	r.store.set(late, mostLate, 0)
	r.workload.mode.Store(filling)
	time.Sleep(500 * time.Millisecond)
}

// settle ends a surge.
func (r *faultRun) settle() {
	r.workload.mode.Store(churning)
	r.store.set(lateShare, mostLate, refusedShare)
}

// kill is one kill of a leader.
type kill struct {
	of *replica
	at time.Time
	// asked are the pods that were on their way.
	asked []types.UID
}

// killLeader kills the leader while grants are on their way.
func (r *faultRun) killLeader() kill {
	r.Helper()
	leader := r.currentLeader()
	r.waitGrants(leader)
	ret := kill{of: leader, asked: r.store.waiting(0, 0, time.Hour), at: time.Now()}
	leader.kill()
	return ret
}

// countLanded counts the pods that were stored after the kill of who had allowed them. until: before
// anybody else can have allowed one; without a trace that is the only sign of who did.
func (r *faultRun) countLanded(k kill, until time.Time) {
	r.Helper()
	traced, err := k.of.tracer.read()
	if err != nil {
		r.Fatal(err)
	}
	granted := r.granted(k.of, k.asked)
	stored := 0
	for {
		stored = 0
		for _, uid := range granted {
			at, known := r.watcher.storedAt(uid)
			if known && at.After(k.at) && (traced || at.Before(until)) {
				stored++
			}
		}
		if stored == len(granted) || time.Since(k.at) > mostLate+2*time.Second {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.kills++
	r.landed += stored
	r.logf("    %d pods were stored after the kill of who had allowed them", stored)
	if traced && stored == 0 {
		r.Error("the kill met no grant between its commit and its store")
	}
}

func (r *faultRun) killAndRestart() {
	r.fault("kill -9, restart", true, func() {
		defer r.settle()
		r.surge(0.9, func() {})
		kill := r.killLeader()
		time.Sleep(time.Duration(r.rand.IntN(1500)) * time.Millisecond)
		// Nobody allows anything before this.
		restart := time.Now()
		kill.of.launch()
		r.waitServing("restart")
		r.logf("    %.1f s from the kill to the next creates", time.Since(kill.at).Seconds())
		r.countLanded(kill, restart)
	})
}

// killAndTakeover: the other replica leads on. lags: it has not seen what the killed one had, nor will
// it when its turn comes.
func (r *faultRun) killAndTakeover(lags bool) {
	name := "kill -9, the other takes over"
	if lags {
		name += ", lagging"
	}
	r.fault(name, true, func() {
		other := r.currentLeader().other()
		defer r.settle()
		late := 0.9
		if lags {
			late = 0.5 // the others are stored, and seen by the leader alone
		}
		r.surge(late, func() {
			if lags && other != nil {
				other.proxy.Delay(podWatch, 2*leaseSeconds)
			}
		})
		kill := r.killLeader()
		if lags && other != nil {
			timer := time.AfterFunc(leaseSeconds+4*time.Second, other.proxy.Release)
			defer func() {
				timer.Stop()
				other.proxy.Release()
			}()
		}
		// Its Lease was renewed at most 2 s before the kill, so nobody else leads before this.
		until := kill.at.Add(leaseSeconds - 2*time.Second)
		if other == nil {
			time.Sleep(time.Second)
			until = time.Now()
			kill.of.launch()
		}
		r.waitServing(name)
		r.logf("    %.1f s from the kill to the next creates", time.Since(kill.at).Seconds())
		r.countLanded(kill, until)
		if other != nil {
			kill.of.launch()
		}
		r.waitReady(kill.of)
	})
}

func (r *faultRun) waitReady(replica *replica) {
	r.Helper()
	r.within(recovery, replica.name+" is ready", func() error {
		_, err := replica.page("/readyz")
		return err
	})
}

// handover ends the leader as a rollout does.
func (r *faultRun) handover() {
	r.fault("SIGTERM, handover", false, func() {
		leader := r.currentLeader()
		leader.wantEnd = true
		since := time.Now()
		if err := leader.process.Stop(30 * time.Second); err != nil {
			r.Errorf("%s did not end well: %v", leader.name, err)
		}
		r.logf("    %s ended after %.1f s", leader.name, time.Since(since).Seconds())
		if leader.other() != nil {
			r.waitServing("handover")
			r.logf("    %.1f s from SIGTERM to creates through the successor", time.Since(since).Seconds())
		}
		leader.launch()
		r.waitReady(leader)
	})
}

// freeze stops the leader where it is for longer than its Lease.
func (r *faultRun) freeze() {
	r.fault("SIGSTOP past the Lease, SIGCONT", true, func() {
		defer r.settle()
		leader := r.currentLeader()
		other := leader.other()
		r.surge(0.9, func() {})
		r.waitGrants(leader)
		if err := leader.process.Signal(syscall.SIGSTOP); err != nil {
			r.Fatal(err)
		}
		leader.frozen = true
		time.Sleep(6*time.Second + time.Duration(r.rand.IntN(2000))*time.Millisecond)
		if other != nil {
			r.within(recovery, "the other leads", func() error {
				if r.leader() != other {
					return fmt.Errorf("it does not")
				}
				return nil
			})
		}
		if err := leader.process.Signal(syscall.SIGCONT); err != nil {
			r.Fatal(err)
		}
		leader.frozen = false
		if other != nil {
			r.currentLeader()
		}
		r.waitServing("freeze")
	})
}

// restartAPIServer loses creates that were allowed and not yet stored. Few are late for it: each keeps
// its GPUs for the whole time to live, and the other faults want a workload that gets some.
func (r *faultRun) restartAPIServer() {
	r.fault("API server: kill -9, restart", true, func() {
		r.store.set(0.02, time.Second, 0)
		defer r.store.set(lateShare, mostLate, refusedShare)
		time.Sleep(mostLate)
		r.cluster.StopAPIServer(syscall.SIGKILL)
		time.Sleep(time.Duration(r.rand.IntN(4000)) * time.Millisecond)
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		if err := r.cluster.StartAPIServer(ctx); err != nil {
			r.Fatal(err)
		}
	})
}

func (r *faultRun) cutWatches() {
	r.fault("watches cut", false, func() {
		for range 3 {
			for _, replica := range r.replicas {
				replica.proxy.Cut(apiproxy.Watches)
			}
			time.Sleep(time.Duration(200+r.rand.IntN(800)) * time.Millisecond)
		}
	})
}

func (r *faultRun) expireWatches() {
	r.fault("watches cut, 410 Gone", false, func() {
		for _, replica := range r.replicas {
			replica.proxy.Expire(podWatch)
			replica.proxy.Cut(podWatch)
		}
		time.Sleep(time.Second)
		for _, replica := range r.replicas {
			replica.proxy.Release()
		}
		time.Sleep(time.Second)
	})
}

func (r *faultRun) delayWatch() {
	r.fault("pods watch 3 s late", false, func() {
		for _, replica := range r.replicas {
			replica.proxy.Delay(podWatch, 3*time.Second)
		}
		time.Sleep(6 * time.Second)
		for _, replica := range r.replicas {
			replica.proxy.Release()
		}
	})
}

// editPolicy raises and lowers the limit of one tenant.
func (r *faultRun) editPolicy() {
	usual := r.elastic.cap
	r.fault("policy edited", false, func() {
		defer r.settle()
		r.store.set(lateShare, time.Second, refusedShare)
		for _, gpus := range []int{usual + 2 + r.rand.IntN(8), 2 + r.rand.IntN(usual-2), usual} {
			if gpus >= r.elastic.cap {
				r.watcher.setCap(r.elastic, gpus)
			}
			r.applyPolicy(r.policy(gpus))
			r.waitPolicy(r.policy(gpus))
			r.logf("    %s may hold %d", r.elastic, gpus)
			if gpus < r.elastic.cap {
				// What was asked about before may have been allowed by the old limit.
				r.workload.waitAnswered()
				r.watcher.setCap(r.elastic, gpus)
			}
			time.Sleep(time.Duration(1000+r.rand.IntN(1500)) * time.Millisecond)
		}
	})
}

// breakPolicy puts a policy in place that our webhook would have refused. over: and then kills the
// leader, which must not cost the policy of before.
func (r *faultRun) breakPolicy(over bool) {
	good := r.policy(r.elastic.cap)
	r.unregisterPolicy()
	r.fault("bad policy", false, func() {
		r.applyPolicy(strings.Replace(good, "tenants:", "tenant:", 1))
		time.Sleep(2 * time.Second)
		r.waitPolicy(good)
		if r.currentLeader().metric("gpuquota_policy_last_reload_successful") != 0 {
			r.Error("gpuquota_policy_last_reload_successful does not tell of the bad policy")
		}
	})
	if over {
		r.killAndRestart()
		r.waitPolicy(good)
	}
	r.fault("bad policy put right", false, func() {
		r.register()
		r.applyPolicy(good)
		r.waitPolicy(good)
	})
}

// calm lets the workload go on undisturbed.
func (r *faultRun) calm(most time.Duration) {
	time.Sleep(most/2 + time.Duration(r.rand.Int64N(int64(most/2))))
}

// checkEnd holds everything to what must be true when the last pod is gone.
func (r *faultRun) checkEnd(namespaces []string) {
	r.Helper()
	r.workload.stop()
	r.store.set(0, 0, 0)
	r.watcher.removeAll(namespaces)
	since := time.Now()
	r.logf("all pods are gone; each tenant takes its whole quota")
	r.takeAll(since.Add(60*time.Second + 5*time.Second))
	r.logf("whole quotas after %.1f s", time.Since(since).Seconds())
	r.watcher.removeAll(namespaces)
	for _, replica := range r.replicas {
		r.waitReady(replica)
		if drift := replica.metric("gpuquota_ledger_drift_total"); drift != 0 {
			r.Errorf("%s: gpuquota_ledger_drift_total is %v", replica.name, drift)
		}
	}
	r.checkTraces()
}

// takeAll has every limit used in full before a deadline, and then nothing more allowed.
func (r *faultRun) takeAll(deadline time.Time) {
	r.Helper()
	taker := r.user("taker")
	failed := make(chan error)
	each := func(f func(l *limit) error) {
		n := 0
		for _, l := range r.watcher.limits {
			if l.share > 0 {
				n++
				go func() { failed <- f(l) }()
			}
		}
		for range n {
			if err := <-failed; err != nil {
				r.Error(err)
			}
		}
	}
	create := func(l *limit, name string) error {
		ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
		defer cancel()
		return createPod(ctx, taker, l.first(), gpuPod(strings.ToLower(l.class)+name, 1, l.class))
	}
	each(func(l *limit) error {
		for i := 0; i < l.share; {
			err := create(l, fmt.Sprintf("-take-%d", i))
			if err == nil {
				i++
			} else if time.Now().After(deadline) {
				return fmt.Errorf("%s: %d of %d GPUs with no other pods, then: %w", l, i, l.share, err)
			} else {
				time.Sleep(200 * time.Millisecond)
			}
		}
		return nil
	})
	each(func(l *limit) error {
		if err := create(l, "-beyond"); classify(err) != denied {
			return fmt.Errorf("%s: one pod beyond the limit: %v", l, err)
		}
		return nil
	})
}
