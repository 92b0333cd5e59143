package controlplane

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Products as GPU feature discovery names them.
const (
	ProductA100x40 = "NVIDIA-A100-SXM4-40GB"
	ProductA100x80 = "NVIDIA-A100-SXM4-80GB"
	ProductH100    = "NVIDIA-H100-80GB-HBM3"
	ProductH200    = "NVIDIA-H200"
)

var memoryOfProduct = map[string]int{
	ProductA100x40: 40960,
	ProductA100x80: 81920,
	ProductH100:    81559,
	ProductH200:    143771,
}

// LabelProduct is the label that says which GPU a node has.
const LabelProduct = "nvidia.com/gpu.product"

// GPUNode describes a simulated node.
type GPUNode struct {
	Name    string
	Product string // empty: no labels of GPU feature discovery
	GPUs    int    // 0: a node without GPUs
	Labels  map[string]string
	Taints  []corev1.Taint
	// Offers are resources beside those, or in their place: a vGPU plugin's.
	Offers corev1.ResourceList
}

// GPULabels are the labels that GPU feature discovery gives to a node.
func GPULabels(product string, gpus int) map[string]string {
	labels := map[string]string{
		LabelProduct:                      product,
		"nvidia.com/gpu.count":            strconv.Itoa(gpus),
		"nvidia.com/gpu.replicas":         "1",
		"nvidia.com/gpu.present":          "true",
		"nvidia.com/mig.capable":          "true",
		"nvidia.com/mig.strategy":         "single",
		"nvidia.com/gpu.sharing-strategy": "none",
	}
	if mib, known := memoryOfProduct[product]; known {
		labels["nvidia.com/gpu.memory"] = strconv.Itoa(mib)
	}
	return labels
}

// DefaultNodes are what the demo and most tests run on: 4 nodes of 8 A100 80 GB, 2 of 8 H100.
func DefaultNodes() []GPUNode {
	nodes, err := ParseNodes("a100=4x8xA100-80GB,h100=2x8xH100")
	if err != nil {
		panic(err)
	}
	return nodes
}

// ParseNodes reads a list such as "a100=4x8xA100-80GB,h100=2x8xH100,cpu=1": prefix of the
// names, number of nodes, GPUs on each, model.
func ParseNodes(text string) ([]GPUNode, error) {
	models := map[string]string{
		"A100-40GB": ProductA100x40, "A100-80GB": ProductA100x80, "A100": ProductA100x80,
		"H100": ProductH100, "H200": ProductH200,
	}
	var nodes []GPUNode
	for _, group := range strings.Split(text, ",") {
		group = strings.TrimSpace(group)
		if group == "" || group == "none" {
			continue
		}
		prefix, shape, ok := strings.Cut(group, "=")
		if !ok {
			return nil, fmt.Errorf("nodes %q: want PREFIX=COUNT[xGPUSxMODEL]", group)
		}
		fields := strings.SplitN(shape, "x", 3)
		count, err := strconv.Atoi(fields[0])
		if err != nil || count < 0 || count > 1000 || len(fields) == 2 {
			return nil, fmt.Errorf("nodes %q: want PREFIX=COUNT[xGPUSxMODEL]", group)
		}
		var gpus int
		var product string
		if len(fields) == 3 {
			if gpus, err = strconv.Atoi(fields[1]); err != nil || gpus < 1 {
				return nil, fmt.Errorf("nodes %q: %q is no number of GPUs", group, fields[1])
			}
			if product = models[fields[2]]; product == "" {
				product = fields[2]
			}
		}
		for i := 1; i <= count; i++ {
			nodes = append(nodes, GPUNode{Name: fmt.Sprintf("%s-%d", prefix, i), Product: product, GPUs: gpus})
		}
	}
	return nodes, nil
}

// CreateNode creates a node and waits until it is ready and carries no taint of a condition.
func CreateNode(ctx context.Context, client kubernetes.Interface, spec GPUNode) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("1000"),
	}
	labels := map[string]string{
		corev1.LabelHostname:   spec.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	if spec.GPUs > 0 {
		capacity["nvidia.com/gpu"] = *resource.NewQuantity(int64(spec.GPUs), resource.DecimalSI)
		if spec.Product != "" {
			maps.Copy(labels, GPULabels(spec.Product, spec.GPUs))
		}
	}
	maps.Copy(labels, spec.Labels)
	maps.Copy(capacity, spec.Offers)
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: spec.Taints},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", spec.Name, err)
	}
	for {
		node, err := nodes.Get(ctx, spec.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("node %s: %w", spec.Name, err)
		}
		ready := false
		for _, condition := range node.Status.Conditions {
			ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}
		tainted := false
		for _, taint := range node.Spec.Taints {
			tainted = tainted || strings.HasPrefix(taint.Key, "node.kubernetes.io/")
		}
		if ready && tainted {
			// The node lifecycle controller would do this within seconds.
			if err := removeConditionTaints(ctx, client, spec.Name); err != nil {
				return err
			}
		} else if ready && sameQuantities(node.Status.Allocatable, capacity) {
			return nil
		} else if ready {
			// The simulated kubelet wrote its own idea over ours.
			node.Status.Capacity, node.Status.Allocatable = capacity, capacity
			if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				return fmt.Errorf("node %s: %w", spec.Name, err)
			}
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("node %s: ready %v, tainted %v: %w", spec.Name, ready, tainted, err)
		}
	}
}

func removeConditionTaints(ctx context.Context, client kubernetes.Interface, name string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var kept []corev1.Taint
		for _, taint := range node.Spec.Taints {
			if !strings.HasPrefix(taint.Key, "node.kubernetes.io/") {
				kept = append(kept, taint)
			}
		}
		node.Spec.Taints = kept
		_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func sameQuantities(a, b corev1.ResourceList) bool {
	for name, quantity := range b {
		if other, ok := a[name]; !ok || other.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

// CreateNodes creates several nodes at once.
func CreateNodes(ctx context.Context, client kubernetes.Interface, specs []GPUNode) error {
	errs := make(chan error, len(specs))
	for _, spec := range specs {
		go func() { errs <- CreateNode(ctx, client, spec) }()
	}
	var first error
	for range specs {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
