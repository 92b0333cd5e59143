package controlplane

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestControlPlane(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, Options{Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if err := CreateNodes(ctx, c.Client(), DefaultNodes()); err != nil {
		t.Fatal(err)
	}
	pods := c.Client().CoreV1().Pods("default")
	create := func(name string) {
		t.Helper()
		if _, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{LabelProduct: ProductH100},
				Containers: []corev1.Container{{Name: "main", Image: "none",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						"nvidia.com/gpu": resource.MustParse("8")}}}},
			},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if pod.Status.Phase == corev1.PodRunning {
				t.Logf("%s runs on %s", name, pod.Spec.NodeName)
				return
			}
			if err := pause(ctx); err != nil {
				t.Fatalf("pod: %+v\n%s", pod.Status, c.Logs(2048))
			}
		}
	}
	create("first")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		begin := time.Now()
		c.StopAPIServer(sig)
		if err := c.StartAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("restart with %v took %v", sig, time.Since(begin))
	}
	create("second")

	server := c.Process(APIServer)
	if err := c.Pause(APIServer); err != nil {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancelShort()
	if _, err := pods.Get(short, "first", metav1.GetOptions{}); err == nil {
		t.Error("a paused API server answers")
	}
	if err := c.Resume(APIServer); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(ctx, "first", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	dir := c.Dir
	c.Stop()
	if server.Running() {
		t.Error("the API server outlived Stop")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s outlived Stop", dir)
	}
}

func TestParseNodes(t *testing.T) {
	for text, want := range map[string]int{"": 0, "none": 0, "a=2x8xA100": 2, "cpu=1,h=3x4xNVIDIA-L4": 4} {
		nodes, err := ParseNodes(text)
		if err != nil || len(nodes) != want {
			t.Errorf("ParseNodes(%q) = %v, %v; want %d nodes", text, nodes, err, want)
		}
	}
	for _, text := range []string{"a", "a=x", "a=2x8", "a=2x0xA100", "a=-1"} {
		if nodes, err := ParseNodes(text); err == nil {
			t.Errorf("ParseNodes(%q) = %v, want an error", text, nodes)
		}
	}
}
