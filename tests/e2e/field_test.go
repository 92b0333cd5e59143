package e2e

import (
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fieldEntry is what registrations in the field call theirs.
const fieldEntry = "validate-ai-pod.example.com"

// registerAsInTheField sends every pod, created or updated, to the program.
func (p *program) registerAsInTheField() {
	p.Helper()
	url := p.url + "/validate-ai-pod"
	fail, none, seconds := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(3)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + p.id},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         fieldEntry,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhookCA.PEM},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &seconds,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{scopeLabel: p.id},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName,
					Operator: metav1.LabelSelectorOpNotIn, Values: []string{p.namespace}}},
			},
		}},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(p.Context(), configuration, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	p.registered = true
	before := p.reviews()
	p.eventually("the API server asks about pods", func() error {
		_, err := client.CoreV1().Pods(p.probe).Create(p.Context(), newPod("probe", 0),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && p.reviews() == before {
			err = errors.New("it did not ask")
		}
		return err
	})
}

func TestOldRegistration(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, other, nobodys := s.namespace("ns", nil), s.namespace("other", nil), s.namespace("nobodys", nil)
	policy := policyText(onlyA100+`
  - name: team-b
    namespaces: [%s]
    quota: {H100: {gpus: 1}}
`, ns, 2, other)
	p := s.prepare(policy)
	p.launch()
	p.waitReady()
	p.waitPolicy(policy)
	// From before the registration, in a namespace where nobody may have any.
	s.mustCreate(nobodys, newPod("older", 1, on(a100), held))
	p.registerAsInTheField()
	denied := func(err error, wants ...string) {
		t.Helper()
		s.denial(err, fieldEntry, wants...)
	}

	before := p.reviews()
	s.mustRun(ns, newPod("cpu", 0))
	s.mustRun(nobodys, newPod("cpu", 0))
	if n := p.reviews() - before; n < 2 {
		t.Errorf("asked %v times about two pods", n)
	}
	s.mustRun(ns, newPod("one", 2, on(a100)))
	_, err := s.create(ns, newPod("two", 1, on(a100)))
	denied(err, "team-a may hold 2 A100 GPUs and holds 2", "1 too many")
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), newPod("dry", 1, on(a100)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	denied(err, "team-a may hold 2 A100 GPUs and holds 2")
	_, err = s.create(nobodys, newPod("gpu", 1, on(a100)))
	denied(err, "Namespace "+nobodys+" belongs to no tenant")
	_, err = s.create(ns, newPod("mig", 0, asks("nvidia.com/mig-1g.5gb", "1")))
	denied(err, "nvidia.com/mig-1g.5gb (MIG)")

	// Updates pass at a full quota, of pods with and without GPUs, and change no charge.
	s.mustRun(other, newPod("done", 1, on(h100)))
	s.setPhase(other, "done", corev1.PodSucceeded)
	p.waitUsage("team-b", "H100", "used=0 reserved=0 free=1")
	s.mustRun(other, newPod("successor", 1, on(h100)))
	before = p.reviews()
	for i, pod := range []struct{ namespace, name string }{{ns, "one"}, {ns, "cpu"}, {nobodys, "older"}, {other, "done"}, {ns, "one"}} {
		body := fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}},"spec":{"containers":[{"name":"main","image":"image-%d"}]}}`, i, i)
		if _, err := client.CoreV1().Pods(pod.namespace).Patch(t.Context(), pod.name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Errorf("update %s/%s: %v", pod.namespace, pod.name, err)
		}
	}
	if n := p.reviews() - before; n < 5 {
		t.Errorf("asked %v times about five updates", n)
	}
	p.waitUsage("team-a", "A100", "used=2 reserved=0 bound=2 free=0")
	p.waitUsage("team-b", "H100", "used=1 reserved=0 bound=1 free=0")
	s.deletePod(ns, "one")
	p.waitUsage("team-a", "A100", "used=0 reserved=0 free=2")
	s.mustRun(ns, newPod("two", 1, on(a100)))

	// Such a registration makes every pod wait for the program.
	p.stop()
	_, err = s.create(ns, newPod("outage", 0))
	if err == nil || !containsAll(err.Error(), fmt.Sprintf("failed calling webhook %q", fieldEntry)) {
		t.Errorf("with failurePolicy Fail and no program: %v", err)
	}
}
