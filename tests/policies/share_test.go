package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/controlplane"
)

// vgpuNodes makes nodes as HAMi makes them, for the time of a test: each device is offered ten times, and
// its memory and cores beside it.
func vgpuNodes(t *testing.T, nodes, devices int64) {
	t.Helper()
	number := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
	var specs []controlplane.GPUNode
	for i := range nodes {
		specs = append(specs, controlplane.GPUNode{Name: fmt.Sprintf("vgpu-%d", i+1), GPUs: int(devices),
			Product: controlplane.ProductA100x80, Offers: corev1.ResourceList{"nvidia.com/gpu": number(10 * devices),
				"nvidia.com/gpumem": number(81920 * devices), "nvidia.com/gpucores": number(100 * devices)}})
	}
	t.Cleanup(func() {
		for _, spec := range specs {
			_ = client.CoreV1().Nodes().Delete(context.Background(), spec.Name, metav1.DeleteOptions{})
		}
	})
	if err := controlplane.CreateNodes(t.Context(), client, specs); err != nil {
		t.Fatal(err)
	}
}

// A hundred quarters of a GPU on 25 GPUs, written as fractions, and not one more.
func TestSharedGPUs(t *testing.T) {
	vgpuNodes(t, 5, 5)
	namespace := newNamespace(t, nil)
	p := serve(t, fmt.Sprintf(`apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: sharing
    namespaces: [%s]
    quota:
      A100: {gpus: 25, memory: 2000Gi}
`, namespace))
	inForce(t, "fractions-hami.yaml", hamiActs(t, namespace))
	pods := client.CoreV1().Pods(namespace)

	half := newPod(t, "containers: ["+limits("main", "gpu: 0.5, gpu-memory: 8Gi")+"]")
	if _, err := pods.Create(t.Context(), half, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.waitUsage(t, "sharing", "0.5", 8192)
	eventually(t, "gpuquota usage shows half a GPU and 8Gi", func() error {
		out, err := p.run(t, cluster.Kubeconfig, "usage")
		if err == nil && (!strings.Contains(out, " 0.5 ") || !strings.Contains(out, "8Gi")) {
			err = errors.New(out)
		}
		return err
	})
	if err := pods.Delete(t.Context(), half.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.waitUsage(t, "sharing", "0", 0)

	quarter := newPod(t, "containers: ["+limits("main", "gpu: 0.25, gpu-memory: 20Gi")+"]")
	containers, _ := apply(t, namespace, "Deployment",
		"spec: {replicas: 100, selector: {matchLabels: {a: b}}, template: TEMPLATE}", flow(t, quarter.Spec))
	if have := list(containers[0].Resources.Limits); have != "gpu=1 gpucores=25 gpumem=20480" {
		t.Errorf("the Deployment says %s", have)
	}
	eventually(t, "a hundred pods run", func() error {
		all, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err == nil && len(all.Items) != 100 {
			err = fmt.Errorf("%d run", len(all.Items))
		}
		return err
	})
	p.waitUsage(t, "sharing", "25", 25*81920)
	_, err := pods.Create(t.Context(), quarter, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "sharing may hold 25 A100 GPUs and holds 25") ||
		!strings.Contains(err.Error(), "asks for 0.25: 0.25 too many") {
		t.Errorf("the hundred and first: %v", err)
	}
}
