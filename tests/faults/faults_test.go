package faults

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	probeTenant = "probe"
	clients     = 40
	// wholePolicy has tenants of one limit and of several, under a parent, one whose limit changes
	// and one for the real controllers.
	wholePolicy = `
tenants:
  - name: team-a
    namespaces: [a-1, a-2]
    quota: {A100: {gpus: 16}}
  - name: team-b
    namespaces: [b-1, b-2]
    quota: {A100: {gpus: 12}, H100: {gpus: 10}, "*": {gpus: 18}}
  - name: research
    quota: {A100: {gpus: 20}}
  - name: team-c
    parent: research
    namespaces: [c-1]
    quota: {A100: {gpus: 16}}
  - name: team-d
    parent: research
    namespaces: [d-1]
    quota: {A100: {gpus: 16}}
  - name: elastic
    namespaces: [e-1]
    quota: {A100: {gpus: %d}}
  - name: workloads
    namespaces: [w-1]
    quota: {H100: {gpus: 6}}
  - name: probe
    namespaces: [probe]
    quota: {A100: {gpus: 1000}}
`
)

func startRun(t *testing.T) *faultRun {
	t.Helper()
	needNamespaces(t)
	seed := newSeed(t)
	w := newWorld(t, "a100=14x8xA100-80GB,h100=4x8xH100,cpu=1")
	in := func(namespaces ...string) map[string]bool {
		ret := map[string]bool{}
		for _, ns := range namespaces {
			ret[ns] = true
		}
		return ret
	}
	elastic := &limit{tenant: "elastic", class: "A100", namespaces: in("e-1"), cap: 20, share: 20}
	limits := []*limit{
		{tenant: "team-a", class: "A100", namespaces: in("a-1", "a-2"), cap: 16, share: 16},
		{tenant: "team-b", class: "A100", namespaces: in("b-1", "b-2"), cap: 12, share: 12},
		{tenant: "team-b", class: "H100", namespaces: in("b-1", "b-2"), cap: 10, share: 6},
		{tenant: "team-b", class: "*", namespaces: in("b-1", "b-2"), cap: 18},
		{tenant: "research", class: "A100", namespaces: in("c-1", "d-1"), cap: 20},
		{tenant: "team-c", class: "A100", namespaces: in("c-1"), cap: 16, share: 16},
		{tenant: "team-d", class: "A100", namespaces: in("d-1"), cap: 16, share: 4},
		elastic,
		{tenant: "workloads", class: "H100", namespaces: in("w-1"), cap: 6, share: 6},
		{tenant: probeTenant, class: "A100", namespaces: in(probeNamespace), cap: 1000},
	}
	r := &faultRun{world: w, rand: newRand(seed, 3), elastic: elastic,
		policy: func(gpus int) string { return policyText(wholePolicy, gpus) }}
	r.watcher = w.watchPods(limits)
	for _, ns := range workNamespaces {
		w.createNamespace(ns, map[string]string{delayedLabel: "true"})
	}
	w.createNamespace(probeNamespace, nil)
	w.allowUsers()
	r.store = w.startSlowStore(seed)
	w.applyPolicy(r.policy(elastic.cap))
	replicas := 1
	if *electing {
		replicas = 2
	}
	w.startReplicas(replicas)
	w.waitPolicy(r.policy(elastic.cap))
	w.register()
	r.waitServing("the start")
	r.store.set(lateShare, mostLate, refusedShare)
	spots := []spot{{"a-1", "A100"}, {"a-2", "A100"}, {"b-1", "A100"}, {"b-1", "H100"}, {"b-2", "H100"},
		{"c-1", "A100"}, {"d-1", "A100"}, {"e-1", "A100"}, {"e-1", "A100"}}
	r.workload = w.startWorkload(clients, spots, seed)
	r.workload.startControllers("w-1", "H100", seed)
	w.Cleanup(func() { w.printAnswers(&r.workload.answers, r.windows) })
	return r
}

var workNamespaces = []string{"a-1", "a-2", "b-1", "b-2", "c-1", "d-1", "e-1", "w-1"}

// finish holds the end, and what clients were told, to what was promised.
func (r *faultRun) finish() {
	r.Helper()
	r.checkEnd(workNamespaces)
	r.checkAnswers(&r.workload.answers, r.windows)
	r.logf("%d kills of a leader with grants on their way: %d pods were stored after the kill; the store came late %d times and refused %d",
		r.kills, r.landed, r.store.late, r.store.refused)
	if r.landed == 0 && (*only == "" || r.kills > 0) {
		r.Error("no kill met a grant between its commit and its store")
	}
}

// step is one fault by its name, for -faults.
type step struct {
	name  string
	run   func()
	short bool
}

// steps gives what -faults names, else all of them, or those of the short run.
func (r *faultRun) steps(short bool) (ret []step) {
	r.Helper()
	all := []step{
		{"restart", r.killAndRestart, true},
		{"takeover", func() { r.killAndTakeover(false) }, false},
		{"lag", func() { r.killAndTakeover(true) }, true},
		{"badpolicy", func() { r.breakPolicy(*electing) }, true},
		{"handover", r.handover, true},
		{"cut", r.cutWatches, true},
		{"policy", r.editPolicy, true},
		{"delay", r.delayWatch, true},
		{"expire", r.expireWatches, true},
		{"freeze", r.freeze, true},
		// Last in the short run: the reservations of creates that it loses hold the workload up.
		{"apiserver", r.restartAPIServer, true},
	}
	if *only == "" {
		return slices.DeleteFunc(all, func(s step) bool { return short && !s.short })
	}
	for _, name := range strings.Split(*only, ",") {
		i := slices.IndexFunc(all, func(s step) bool { return s.name == name })
		if i < 0 {
			r.Fatalf("-faults: there is no %q", name)
		}
		ret = append(ret, all[i])
	}
	return ret
}

// Each fault once.
func TestFaultsShort(t *testing.T) {
	r := startRun(t)
	r.calm(6 * time.Second)
	for _, step := range r.steps(true) {
		step.run()
		r.calm(1500 * time.Millisecond)
	}
	r.finish()
}

// Faults in random order for -duration.
func TestFaultsLong(t *testing.T) {
	if *duration == 0 {
		t.Skip("runs with -duration only; see hack/soak.sh")
	}
	r := startRun(t)
	end := time.Now().Add(*duration)
	steps := r.steps(false)
	for round := 1; time.Now().Before(end); round++ {
		r.calm(6 * time.Second)
		step := steps[r.rand.IntN(len(steps))]
		r.logf("round %d, %v left, %d kills, %d pods stored after one; %s", round,
			time.Until(end).Round(time.Second), r.kills, r.landed, r.watcher.progress())
		step.run()
	}
	r.finish()
}
