package e2e

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// events gives the Events about one object with that reason, oldest first.
func (s *scope) events(namespace, kind, name, reason string) ([]eventsv1.Event, error) {
	list, err := client.EventsV1().Events(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Kind == kind && event.Regarding.Name == name && (reason == "" || event.Reason == reason) {
			found = append(found, event)
		}
	}
	return found, nil
}

// waitEvent waits for an Event whose note holds those texts.
func (s *scope) waitEvent(namespace, kind, name, reason string, wants ...string) (ret eventsv1.Event) {
	s.Helper()
	s.eventually(fmt.Sprintf("Event %s about %s %s", reason, kind, name), func() error {
		found, err := s.events(namespace, kind, name, "")
		if err != nil {
			return err
		}
		var notes []string
		for _, event := range found {
			if event.Reason == reason && containsAll(event.Note, wants...) {
				ret = event
				return nil
			}
			notes = append(notes, event.Reason+": "+event.Note)
		}
		return fmt.Errorf("there are %q", notes)
	})
	return ret
}

// A denial is shown where the owner of the workload looks, once, with how often it came.
func TestDenialEvents(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 1))
	s.mustRun(ns, newPod("holds", 1, on(a100)))
	selector, pods := template(1, on(a100))
	replicas := int32(3)
	if _, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: pods},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var set appsv1.ReplicaSet
	s.eventually("the ReplicaSet is there", func() error {
		list, err := client.AppsV1().ReplicaSets(ns).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err == nil {
			set = list.Items[0]
		}
		return err
	})
	const says = "team-a may hold 1 A100 GPU and holds 1"
	event := s.waitEvent(ns, "ReplicaSet", set.Name, "GPUQuotaExceeded", says)
	if event.Type != corev1.EventTypeWarning || event.Regarding.UID != set.UID || event.Regarding.APIVersion != "apps/v1" ||
		event.Action == "" || event.ReportingController == "" || event.ReportingInstance == "" {
		t.Errorf("the Event: %+v", event)
	}
	s.eventually("it is refused again", func() error {
		s.touchReplicaSets(ns)
		page, err := p.fetch("/metrics")
		if err != nil {
			return err
		}
		if n, _ := metric(page, `gpuquota_reviews_total{decision="deny",reason="over_limit"}`); n < 5 {
			return fmt.Errorf("%v refusals", n)
		}
		return nil
	})
	s.throughout(time.Second, "one Event tells of all", func() error {
		found, err := s.events(ns, "ReplicaSet", set.Name, "GPUQuotaExceeded")
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("there are %d", len(found))
		}
		return err
	})
	for _, args := range [][]string{
		{"describe", "replicaset", "-n", ns, set.Name},
		{"get", "events", "-n", ns, "--field-selector", "reason=GPUQuotaExceeded"},
		{"events", "-n", ns, "--for", "replicaset/" + set.Name},
	} {
		out, err := s.kubectl("", args...)
		if err != nil || !containsAll(out, "Warning", "GPUQuotaExceeded", says) {
			t.Errorf("kubectl %q: %v\n%s", args, err, out)
		}
	}
	// Who creates a pod by hand has the answer.
	s.mustRefuse(ns, newPod("bare", 1, on(a100)), says)
	if found, err := s.events(ns, "Pod", "bare", ""); err != nil || len(found) != 0 {
		t.Errorf("Events about a pod that was never there: %v %+v", err, found)
	}
}

func TestPolicyEvents(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	good := policyText(onlyA100, ns, 1)
	p := s.start(good)
	s.waitEvent(p.namespace, "Lease", leaseName, "LeaderElected", p.identity+" leads")
	p.register("policy.gpuquota.io") // all but this one
	broken := brokenPolicies[0]
	p.applyPolicy(broken.text)
	s.waitEvent(p.namespace, "ConfigMap", policyName, "PolicyRefused",
		fmt.Sprintf("policy.yaml:%d:%d: ", broken.line, broken.column), fmt.Sprintf("policy %x", sha256.Sum256([]byte(good))))
	s.eventually("the status says so", func() error {
		status, err := p.status()
		if err == nil && !containsAll(status, "inForce: true", fmt.Sprintf("policy.yaml:%d:%d: ", broken.line, broken.column)) {
			err = fmt.Errorf("%s", status)
		}
		return err
	})
	// Applied while nobody is there to judge it.
	p.stop()
	broken = brokenPolicies[1]
	p.applyPolicy(broken.text)
	p.launch()
	p.waitReady()
	s.waitEvent(p.namespace, "ConfigMap", policyName, "PolicyRefused", fmt.Sprintf("policy.yaml:%d:%d: ", broken.line, broken.column))
	next := policyText(onlyA100, ns, 2)
	p.setPolicy(next)
	s.waitEvent(p.namespace, "ConfigMap", policyName, "PolicyAccepted", fmt.Sprintf("%x", sha256.Sum256([]byte(next))))
}
