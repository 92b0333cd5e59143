package faults

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/controlplane"
)

// products are the models that pods of the tests choose between, by class.
var products = map[string]string{"A100": controlplane.ProductA100x80, "H100": controlplane.ProductH100}

func gpuPod(name string, gpus int, class string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{controlplane.LabelProduct: products[class]},
			Containers: []corev1.Container{{Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)}}}},
		},
	}
}

func policyText(format string, args ...any) string {
	return "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\n" + strings.TrimLeft(fmt.Sprintf(format, args...), "\n")
}

// The way that everything else here goes: API server, Service, EndpointSlice, the address of the
// pod that carries the leader's label.
func TestServiceReachesThePod(t *testing.T) {
	w := newWorld(t, "a100=1x8xA100-80GB")
	old := *electing
	*electing = false
	defer func() { *electing = old }()
	w.createNamespace("user", nil)
	policy := policyText(`
tenants:
  - name: team-a
    namespaces: [user]
    quota: {A100: {gpus: 2}}
`)
	w.applyPolicy(policy)
	w.startReplicas(1)
	w.waitPolicy(policy)
	w.register()
	pods := w.client.CoreV1().Pods("user")
	if _, err := pods.Create(t.Context(), gpuPod("fits", 2, "A100"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := pods.Create(t.Context(), gpuPod("more", 1, "A100"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "team-a may hold 2 A100 GPUs and holds 2") {
		t.Fatalf("a pod too many: %v", err)
	}
	w.logf("%v", err)

	// Without the label there is nobody to ask. The API server keeps the connection that it has, so
	// that must go first.
	r := w.replicas[0]
	w.setLeaderLabel(r.name, false)
	r.kill()
	r.launch()
	w.eventually("it is ready again", func() error {
		_, err := r.page("/readyz")
		return err
	})
	w.eventually("nobody is asked", func() error {
		_, err := pods.Create(t.Context(), gpuPod("more", 1, "A100"), metav1.CreateOptions{})
		if apierrors.IsInternalError(err) && strings.Contains(err.Error(), "no endpoints available") {
			return nil
		}
		return fmt.Errorf("unexpected: %v", err)
	})
	w.setLeaderLabel(r.name, true)
	w.eventually("it is asked again", func() error {
		_, err := pods.Create(t.Context(), gpuPod("more", 1, "A100"), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("unexpected: %v", err)
	})
}
