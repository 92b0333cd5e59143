package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventOf selects the watch events of that type that are about one of the pods.
func eventOf(eventType, namespace string, names ...string) func([]byte) bool {
	return func(line []byte) bool {
		var event struct {
			Type   string
			Object struct{ Metadata metav1.ObjectMeta }
		}
		return json.Unmarshal(line, &event) == nil && event.Type == eventType &&
			event.Object.Metadata.Namespace == namespace && slices.Contains(names, event.Object.Metadata.Name)
	}
}

// waitDropped waits until so many events are lost.
func (p *program) waitDropped(want int) {
	p.Helper()
	p.eventually("events are lost", func() error {
		if n := p.proxy.Dropped(); n != want {
			return fmt.Errorf("%d events were dropped, want %d", n, want)
		}
		return nil
	})
}

// recount asks for one as an admin does and returns what it says.
func (p *program) recount() string {
	p.Helper()
	p.eventually("there is a status", func() error {
		_, err := p.status()
		return err
	})
	out, err := p.run("usage", "--namespace", p.namespace, "--recount")
	if err != nil {
		p.Fatalf("usage --recount: %v\n%s", err, out)
	}
	return out
}

const driftOfTeamA = `gpuquota_ledger_drift_total{tenant="team-a",class="A100"}`

// The watch loses the end of one pod, and the beginning and the binding of others. Nothing but a fresh
// list tells; it does, names them and puts them right.
func TestRecountFindsWhatTheWatchLost(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 8), withProxy)
	p.drifts = true
	s.mustRun(ns, newPod("stays", 1, on(a100)))
	s.mustRun(ns, newPod("ends", 3, on(a100)))
	p.waitUsage("team-a", "A100", "used=4 reserved=0 bound=4")
	if out := p.recount(); !strings.Contains(out, "no drift") {
		t.Errorf("before anything was lost:\n%s", out)
	}

	p.proxy.Drop(podWatch, eventOf("DELETED", ns, "ends"))
	s.deletePod(ns, "ends")
	s.waitGone(ns, "ends")
	p.waitDropped(1)
	s.throughout(3*time.Second, "it is charged on", func() error {
		usage, err := p.usage()
		if err != nil {
			return err
		}
		return usage.is("team-a", "A100", "used=4")
	})
	s.mustRefuse(ns, newPod("next", 5, on(a100)), "may hold 8 A100 GPUs and holds 4")
	if err := p.metricIs(driftOfTeamA, 0); err != nil {
		t.Error(err)
	}
	out := p.recount()
	for _, want := range []string{"team-a", "A100", "3", ns + "/ends"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in what the recount says:\n%s", want, out)
		}
	}
	if strings.Contains(out, "stays") {
		t.Errorf("a pod that was charged rightly is named:\n%s", out)
	}
	p.waitUsage("team-a", "A100", "used=1 reserved=0 bound=1")
	if err := p.metricIs(driftOfTeamA, 1); err != nil {
		t.Error(err)
	}
	p.waitEvent(p.namespace, "ConfigMap", policyName, "LedgerDrift", "A100 of team-a", "pod "+ns+"/ends")
	if status, err := p.status(); err != nil || !containsAll(status, "drift:", "{tenant: team-a, class: A100, gpus: ", "driftPods:\n  - "+ns+"/ends\n") {
		t.Errorf("the status does not show the drift: %v\n%s", err, status)
	}
	if lines := p.logLines("ends"); !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, ns) }) {
		t.Errorf("the log does not name the pod: %q", lines)
	}
	s.mustRun(ns, newPod("next", 5, on(a100)))

	// Created while nobody asked us, and nobody told us; so the recount goes over the limit, and later
	// pods are refused.
	if err := p.unregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.proxy.Drop(podWatch, func(line []byte) bool {
		return eventOf("ADDED", ns, "unseen")(line) || eventOf("MODIFIED", ns, "unseen")(line)
	})
	s.eventually("nobody is asked", func() error {
		_, err := s.create(ns, newPod("unseen", 3, on(a100)))
		return err
	})
	s.waitRunning(ns, "unseen")
	if n := p.proxy.Dropped(); n < 3 {
		t.Errorf("%d events were dropped; the pod's beginning and its binding should be", n)
	}
	if usage, err := p.usage(); err != nil || usage.is("team-a", "A100", "used=6") != nil {
		t.Errorf("the unseen pod is charged before the recount: %v %+v", err, usage)
	}
	p.proxy.Release()
	p.register()
	if out := p.recount(); !strings.Contains(out, ns+"/unseen") {
		t.Errorf("the recount does not name the pod:\n%s", out)
	}
	p.waitUsage("team-a", "A100", "used=9 bound=9")
	s.mustRefuse(ns, newPod("over", 1, on(a100)), "may hold 8 A100 GPUs and holds 9")
	// Its end is seen as any other's.
	s.deletePod(ns, "unseen")
	s.waitGone(ns, "unseen")
	p.waitUsage("team-a", "A100", "used=6 bound=6 free=2")
	if out := p.recount(); !strings.Contains(out, "no drift") {
		t.Errorf("at the end:\n%s", out)
	}
	if err := p.metricIs(driftOfTeamA, 2); err != nil {
		t.Error(err)
	}
}

// Pods come and go while recounts are under way: none of that is drift.
func TestRecountUnderChurn(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 50), withProxy)
	p.proxy.Delay(podWatch, 500*time.Millisecond)
	done := make(chan int)
	go func() { done <- s.churn(ns, 3, 15*time.Second) }()
	recounts, created := 0, 0
	for created == 0 {
		if out := p.recount(); !strings.Contains(out, "no drift") {
			t.Errorf("a recount under churn:\n%s", out)
		}
		recounts++
		select {
		case created = <-done:
		default:
		}
	}
	if created < 20 || recounts < 2 {
		t.Error(errors.New("the test did too little"))
	}
	t.Logf("%d recounts while %d pods came and went", recounts, created)
}
