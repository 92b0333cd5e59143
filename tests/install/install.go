// Package install knows what an installation of gpuquota consists of: the program, its manifests,
// and the pods behind its Service.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

const (
	// Name is that of the program, its Service, its ServiceAccount and its containers.
	Name = "gpuquota"
	// Namespace is what manifests/ call the namespace of the program.
	Namespace   = "gpuquota-system"
	WebhookPort = 9443
	MetricsPort = 9402
)

// Program is the path of the program to test: GPUQUOTA_BIN, or the release build's.
func Program(repository string) (string, error) {
	program := os.Getenv("GPUQUOTA_BIN")
	if program == "" {
		program = filepath.Join(repository, "build/release/gpuquota")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("no program to test: %w (build it, or set GPUQUOTA_BIN)", err)
	}
	return program, nil
}

// ManifestDir is GPUQUOTA_MANIFESTS, or the repository's manifests.
func ManifestDir(repository string) string {
	if dir := os.Getenv("GPUQUOTA_MANIFESTS"); dir != "" {
		return dir
	}
	return filepath.Join(repository, "manifests")
}

// Manifests reads all objects of a directory, in the order of their files, moved to the given
// namespace.
func Manifests(dir, namespace string) ([]runtime.Object, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no manifests in %s", dir)
	}
	var objects []runtime.Object
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		content = bytes.ReplaceAll(content, []byte(Namespace), []byte(namespace))
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var raw runtime.RawExtension
			if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if text := bytes.TrimSpace(raw.Raw); len(text) == 0 || bytes.Equal(text, []byte("null")) {
				continue
			}
			object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// StandIn is a pod that stands for a process of ours which no kubelet has started.
type StandIn struct {
	Name    string
	Address string // of the process
	Node    string // one that no simulated kubelet looks after
	Leads   bool
}

// Create makes the pod, in Namespace, and says that it is ready.
func (p StandIn) Create(ctx context.Context, client kubernetes.Interface) error {
	no, yes := false, true
	labels := map[string]string{"app.kubernetes.io/name": Name}
	if p.Leads {
		labels["gpuquota.io/leader"] = "true"
	}
	pods := client.CoreV1().Pods(Namespace)
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName:           p.Node,
			ServiceAccountName: Name,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: Name, Image: "none",
				Ports: []corev1.ContainerPort{
					{Name: "webhook", ContainerPort: WebhookPort}, {Name: "metrics", ContainerPort: MetricsPort}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("stand-in pod %s: %w", p.Name, err)
	}
	patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],
		"conditions":[{"type":"Ready","status":"True"},{"type":"ContainersReady","status":"True"}]}}`, p.Address, p.Address)
	if _, err := pods.Patch(ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of the stand-in pod %s: %w", p.Name, err)
	}
	return nil
}
