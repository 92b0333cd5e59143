package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
)

// program is gpuquota, running as its ServiceAccount in its own namespace and registered for the
// whole cluster.
type program struct {
	bin        string
	metricsURL string
	process    *controlplane.Process
}

// serve installs gpuquota for the time of a test and waits until it leads.
func serve(t *testing.T, policy string) *program {
	t.Helper()
	bin, err := install.Program(repository)
	if err != nil {
		t.Fatal(err)
	}
	manifests := install.ManifestDir(repository)
	for _, name := range []string{"00-namespace", "rbac", "journal", "service"} {
		if out, err := kubectl(t, "", "apply", "-f", filepath.Join(manifests, name+".yaml")); err != nil {
			t.Fatalf("apply %s: %s", name, out)
		}
	}
	t.Cleanup(func() { removeNamespace(t) })
	eventually(t, "the service account", func() error {
		_, err := client.CoreV1().ServiceAccounts(install.Namespace).Get(t.Context(), install.Name, metav1.GetOptions{})
		return err
	})
	if _, err := client.CoreV1().ConfigMaps(install.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-policy"}, Data: map[string]string{"policy.yaml": policy}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := &program{bin: bin}
	p.launch(t)
	p.register(t, manifests)
	return p
}

// removeNamespace is done by controllers, with whatever policy is in force.
func removeNamespace(t *testing.T) {
	t.Helper()
	namespaces := client.CoreV1().Namespaces()
	if err := namespaces.Delete(context.Background(), install.Namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
		return
	}
	eventually(t, install.Namespace+" is gone", func() error {
		namespace, err := namespaces.Get(context.Background(), install.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v %+v", err, namespace.Status)
	})
}

func (p *program) launch(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	// A pod stands for the process: it gets the leader's label.
	identity := "gpuquota-stand-in"
	stand := newPod(t, `
schedulerName: nobody
securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
containers: [{name: main, image: none, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`)
	stand.Name = identity
	if _, err := client.CoreV1().Pods(install.Namespace).Create(t.Context(), stand, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := cluster.WriteServiceAccountKubeconfig(t.Context(), kubeconfig, install.Namespace, install.Name, ""); err != nil {
		t.Fatal(err)
	}
	metricsPort, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := webhookCA.Server("gpuquota", "127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if err := pair.WriteFiles(certificate, key); err != nil {
		t.Fatal(err)
	}
	p.metricsURL = fmt.Sprintf("http://127.0.0.1:%d", metricsPort)
	log := filepath.Join(dir, "gpuquota.log")
	p.process, err = controlplane.StartProcess("gpuquota", log, controlplane.SanitizerOptions(), p.bin, "serve",
		"--kubeconfig", kubeconfig, "--identity", identity, "--listen", fmt.Sprintf("127.0.0.1:%d", webhookPort),
		"--metrics-listen", fmt.Sprintf("127.0.0.1:%d", metricsPort), "--tls-cert", certificate, "--tls-key", key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.process.Stop(0) // there is nobody to hand over to
		if text, _ := os.ReadFile(log); strings.Contains(string(text), "ValidatingAdmissionPolicy") || t.Failed() {
			t.Errorf("gpuquota was refused something, or the test failed:\n%s", p.process.Log(8<<10))
		}
	})
	eventually(t, "gpuquota leads", func() error {
		if !p.process.Running() {
			t.Fatalf("gpuquota ended: %s", p.process.Log(8<<10))
		}
		page, err := p.page("/metrics")
		if err == nil && !strings.Contains(page, "\ngpuquota_leader 1\n") {
			err = fmt.Errorf("it does not lead")
		}
		return err
	})
}

// register registers the webhooks, at the address of the process.
func (p *program) register(t *testing.T, manifests string) {
	t.Helper()
	objects, err := install.Manifests(manifests, install.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	all := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	for _, object := range objects {
		configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
		if !ok {
			continue
		}
		for i := range configuration.Webhooks {
			config := &configuration.Webhooks[i].ClientConfig
			url := fmt.Sprintf("https://127.0.0.1:%d%s", webhookPort, *config.Service.Path)
			*config = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhookCA.PEM}
		}
		if _, err := all.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = all.Delete(context.Background(), configuration.Name, metav1.DeleteOptions{}) })
	}
	nobodys := newNamespace(t, nil)
	eventually(t, "the API server asks gpuquota", func() error {
		_, err := try(t, nobodys, newPod(t, "containers: ["+limits("main", "gpu: 1")+"]"))
		if err != nil && strings.Contains(err.Error(), "belongs to no tenant") {
			return nil
		}
		return fmt.Errorf("it did not: %v", err)
	})
}

func (p *program) page(path string) (string, error) {
	c := http.Client{Timeout: 10 * time.Second}
	response, err := c.Get(p.metricsURL + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// waitUsage waits for what a tenant uses of its only limit: GPUs and MiB.
func (p *program) waitUsage(t *testing.T, tenant, gpus string, mib int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s uses %s GPUs and %d MiB", tenant, gpus, mib), func() error {
		page, err := p.page("/usage")
		if err != nil {
			return err
		}
		var usage struct {
			Tenants []struct {
				Name   string `json:"name"`
				Limits []struct {
					GPUs      struct{ Used string } `json:"gpus"`
					MemoryMiB struct{ Used int64 }  `json:"memoryMiB"`
				} `json:"limits"`
			} `json:"tenants"`
		}
		if err := json.Unmarshal([]byte(page), &usage); err != nil {
			return err
		}
		for _, found := range usage.Tenants {
			if found.Name == tenant && found.Limits[0].GPUs.Used == gpus && found.Limits[0].MemoryMiB.Used == mib {
				return nil
			}
		}
		return fmt.Errorf("usage is %s", page)
	})
}

// run runs another command of the program with a user's kubeconfig.
func (p *program) run(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), p.bin, append(args, "--kubeconfig", kubeconfig)...)
	out, err := command.CombinedOutput()
	return string(out), err
}
