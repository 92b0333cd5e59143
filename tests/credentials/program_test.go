package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gpuquota.io/tests/apiproxy"
	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
	"gpuquota.io/tests/signer"
)

// patience bounds how long anything may take that should take a moment.
const patience = 30 * time.Second

const (
	scopeLabel = "credentials.gpuquota.io/scope"
	quotaEntry = "quota.gpuquota.io"
)

// seen is one request of the program and what the API server answered.
type seen struct {
	at     time.Time
	method string
	path   string
	watch  bool
	token  string
	status int
}

// program is a running gpuquota that has its token from a file, and a tenant of 1000 GPUs.
type program struct {
	*testing.T
	id         string
	namespace  string // its own
	tenant     string // a namespace with quota
	dir        string
	url        string
	metricsURL string
	proxy      *apiproxy.Proxy
	process    *controlplane.Process
	turn       int // of the token file

	mu       sync.Mutex
	requests []seen
}

// start runs a program that runs for leader, as manifests/ have it, behind a proxy that notes what
// it asks for.
func start(t *testing.T) *program {
	t.Helper()
	id := fmt.Sprintf("%s-%04x", strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), rand.IntN(1<<16))
	p := &program{T: t, id: id, namespace: "gpuquota-" + id, tenant: id, dir: t.TempDir()}
	p.createNamespace(p.namespace)
	p.createNamespace(p.tenant)
	p.install()
	proxy, err := apiproxy.New(cluster.Server, cluster.CA)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	proxy.Observe(p.observe)
	p.proxy = proxy
	p.writeToken(p.requestToken())
	p.launch()
	p.eventually("gpuquota leads", func() error {
		if !p.process.Running() {
			t.Fatalf("gpuquota ended: %v\n%s", p.process.Err(), p.process.Log(8192))
		}
		page, err := p.metrics()
		if err == nil && !strings.Contains(page, "\ngpuquota_leader 1\n") {
			err = errors.New("it does not")
		}
		return err
	})
	p.register()
	return p
}

func (p *program) createNamespace(name string) {
	p.Helper()
	if _, err := client.CoreV1().Namespaces().Create(p.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{scopeLabel: p.id}}}, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	p.eventually("the service account of "+name, func() error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(p.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// install applies manifests/, its policy, and a pod that stands for the process. No kubelet of this
// cluster would start the program.
func (p *program) install() {
	p.Helper()
	p.apply(func(object runtime.Object) bool {
		switch object.(type) {
		case *corev1.Namespace, *appsv1.Deployment, *policyv1.PodDisruptionBudget,
			*admissionregistrationv1.ValidatingWebhookConfiguration:
			return false
		}
		return true
	})
	pod := p.pod()
	pod.GenerateName, pod.Name = "", p.id
	pod.Spec.Containers[0].Resources.Limits = nil
	if _, err := client.CoreV1().Pods(p.namespace).Create(p.Context(), pod, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
}

// apply applies those objects of manifests/ that are wanted.
func (p *program) apply(wanted func(runtime.Object) bool) {
	p.Helper()
	objects, err := install.Manifests(manifests, p.namespace)
	if err != nil {
		p.Fatal(err)
	}
	var text strings.Builder
	for _, object := range objects {
		if !wanted(object) {
			continue
		}
		p.adapt(object)
		content, err := json.Marshal(object)
		if err != nil {
			p.Fatal(err)
		}
		text.Write(content)
		text.WriteByte('\n')
	}
	command := exec.CommandContext(p.Context(), cluster.Kubectl(), "--kubeconfig="+cluster.Kubeconfig, "apply", "-f", "-")
	command.Stdin = strings.NewReader(text.String())
	if out, err := command.CombinedOutput(); err != nil {
		p.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// adapt makes an object of manifests/ this test's own.
func (p *program) adapt(object runtime.Object) {
	p.Helper()
	access, err := meta.Accessor(object)
	if err != nil {
		p.Fatal(err)
	}
	switch o := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		if !strings.HasPrefix(o.RoleRef.Name, "system:") {
			o.RoleRef.Name += "-" + p.id
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			webhook := &o.Webhooks[i]
			url := p.url + *webhook.ClientConfig.Service.Path
			webhook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhookCA.PEM}
			if webhook.NamespaceSelector == nil {
				webhook.NamespaceSelector = &metav1.LabelSelector{}
			}
			webhook.NamespaceSelector.MatchExpressions = append(webhook.NamespaceSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: scopeLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{p.id}})
		}
	case *corev1.ConfigMap:
		if _, ok := o.Data["policy.yaml"]; ok {
			o.Data["policy.yaml"] = fmt.Sprintf("apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\n"+
				"tenants:\n  - name: team\n    namespaces: [%s]\n    quota: {A100: {gpus: 1000}}\n", p.tenant)
		}
	}
	if access.GetNamespace() != p.namespace {
		access.SetName(access.GetName() + "-" + p.id)
	}
}

func (p *program) tokenFile() string { return filepath.Join(p.dir, "token") }
func (p *program) logFile() string   { return filepath.Join(p.dir, "gpuquota.log") }

// requestToken has the API server make a token of the program's account, of the least life that it
// grants.
func (p *program) requestToken() string {
	p.Helper()
	seconds := int64(600)
	request, err := client.CoreV1().ServiceAccounts(p.namespace).CreateToken(p.Context(), install.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return request.Status.Token
}

// expiring makes another token of that account, which the API server refuses after the given time.
func (p *program) expiring(in time.Duration) string {
	p.Helper()
	claims, _, err := signer.Read(p.lastToken())
	if err != nil {
		p.Fatal(err)
	}
	claims["jti"] = fmt.Sprintf("%s-%d", p.id, rand.Int64())
	// Clocks may differ by a minute, so it is taken for a minute more.
	end := time.Now().Add(in - time.Minute)
	claims["iat"], claims["nbf"], claims["exp"] = end.Add(-time.Hour).Unix(), end.Add(-time.Hour).Unix(), end.Unix()
	token, err := signing.Token(claims)
	if err != nil {
		p.Fatal(err)
	}
	return token
}

// writeToken replaces the file as a kubelet does: what the path leads to is another directory at once.
func (p *program) writeToken(token string) {
	p.Helper()
	p.turn++
	version := fmt.Sprintf("..version-%d", p.turn)
	steps := []error{
		os.Mkdir(filepath.Join(p.dir, version), 0o700),
		os.WriteFile(filepath.Join(p.dir, version, "token"), []byte(token), 0o600),
		os.Symlink(version, filepath.Join(p.dir, "..data_tmp")),
		os.Rename(filepath.Join(p.dir, "..data_tmp"), filepath.Join(p.dir, "..data")),
	}
	if p.turn == 1 {
		steps = append(steps, os.Symlink("..data/token", p.tokenFile()))
	} else {
		steps = append(steps, os.RemoveAll(filepath.Join(p.dir, fmt.Sprintf("..version-%d", p.turn-1))))
	}
	if err := errors.Join(steps...); err != nil {
		p.Fatal(err)
	}
}

func (p *program) launch() {
	p.Helper()
	pair, err := webhookCA.Server("gpuquota", "127.0.0.1")
	if err != nil {
		p.Fatal(err)
	}
	certFile, keyFile := filepath.Join(p.dir, "tls.crt"), filepath.Join(p.dir, "tls.key")
	if err := pair.WriteFiles(certFile, keyFile); err != nil {
		p.Fatal(err)
	}
	kubeconfig := filepath.Join(p.dir, "kubeconfig")
	// The path of the token is relative to that of the kubeconfig.
	if err := controlplane.WriteKubeconfig(kubeconfig, controlplane.Credentials{Server: p.proxy.URL,
		CA: cluster.CA.PEM, TokenFile: "token", Namespace: p.namespace}); err != nil {
		p.Fatal(err)
	}
	port, err1 := controlplane.FreePort()
	metricsPort, err2 := controlplane.FreePort()
	if err := errors.Join(err1, err2); err != nil {
		p.Fatal(err)
	}
	p.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	p.metricsURL = fmt.Sprintf("http://127.0.0.1:%d", metricsPort)
	p.process, err = controlplane.StartProcess("gpuquota", p.logFile(), controlplane.SanitizerOptions(), programBin, "serve",
		"--kubeconfig", kubeconfig, "--namespace", p.namespace, "--identity", p.id,
		"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--metrics-listen", fmt.Sprintf("127.0.0.1:%d", metricsPort),
		"--tls-cert", certFile, "--tls-key", keyFile)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(p.finish)
}

// finish ends the program and looks at what it has left in its log.
func (p *program) finish() {
	if !p.process.Running() {
		p.Errorf("gpuquota ended by itself: %v", p.process.Err())
	}
	// Nobody follows that it could hand over to; asked twice it does not wait.
	_ = p.process.Signal(syscall.SIGTERM)
	p.eventually("gpuquota ends", func() error {
		if len(p.logLines("ending signal=")) == 0 {
			return errors.New("it was not asked")
		}
		return nil
	})
	if err := p.process.Stop(20 * time.Second); err != nil {
		p.Errorf("gpuquota did not end well: %v", err)
	}
	log := p.process.Log(1 << 20)
	if report := controlplane.FirstSanitizerReport([]byte(log)); report != "" {
		p.Errorf("a sanitizer reports:\n%s", report)
	}
	if strings.Contains(log, "eyJ") {
		p.Errorf("a token stands in the log")
	}
	if p.Failed() {
		p.Logf("log of gpuquota:\n%s", log)
	}
}

// register registers the webhooks for the namespaces of the test and waits until it is asked.
func (p *program) register() {
	p.Helper()
	p.apply(func(object runtime.Object) bool {
		_, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
		return ok
	})
	p.eventually("the API server asks", func() error {
		pod := p.pod()
		pod.Spec.Containers[0].Resources.Limits[gpu] = resource.MustParse("1001")
		_, err := client.CoreV1().Pods(p.tenant).Create(p.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "denied the request: team may hold 1000 A100 GPUs") {
			return fmt.Errorf("want a denial, have: %v", err)
		}
		return nil
	})
	p.Cleanup(func() {
		_ = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(context.Background(),
			metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=gpuquota-" + p.id})
	})
}

const gpu = corev1.ResourceName("nvidia.com/gpu")

// pod asks for one GPU, and no scheduler feels responsible for it.
func (p *program) pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			NodeSelector:  map[string]string{controlplane.LabelProduct: controlplane.ProductA100x80},
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{gpu: resource.MustParse("1")}}}},
		},
	}
}

// create creates a pod with a GPU and says what the user hears.
func (p *program) create() error {
	pods := client.CoreV1().Pods(p.tenant)
	pod, err := pods.Create(p.Context(), p.pod(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := int64(0)
	return pods.Delete(p.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// creating creates one pod after the other until the function that it returns is called, which says
// how many there were. Each has to be allowed.
func (p *program) creating() (end func() int) {
	stop, done := make(chan struct{}), make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		for {
			if err := p.create(); err != nil {
				p.Errorf("pod %d: %v", n, err)
				return
			}
			n++
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() int {
		close(stop)
		<-done
		return n
	}
}

// observe notes a request of the program.
func (p *program) observe(r *http.Request, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, seen{at: time.Now(), method: r.Method, path: r.URL.Path, watch: apiproxy.Watches(r),
		token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), status: status})
}

// asked gives the requests since some time that match.
func (p *program) asked(since time.Time, match func(seen) bool) (ret []seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, request := range p.requests {
		if request.at.After(since) && match(request) {
			ret = append(ret, request)
		}
	}
	return ret
}

func with(status int) func(seen) bool { return func(s seen) bool { return s.status == status } }

func (p *program) eventually(what string, f func() error) {
	p.Helper()
	p.within(patience, what, f)
}

// within polls until f returns nil.
func (p *program) within(limit time.Duration, what string, f func() error) {
	p.Helper()
	if err := controlplane.Poll(context.Background(), limit, f); err != nil {
		p.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

var plainClient = &http.Client{Timeout: 10 * time.Second}

func (p *program) metrics() (string, error) {
	response, err := plainClient.Get(p.metricsURL + "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return "\n" + string(body), err
}

// logLines returns the lines of the program's log that hold all of the texts.
func (p *program) logLines(texts ...string) (lines []string) {
	p.Helper()
	log, err := os.ReadFile(p.logFile())
	if err != nil {
		p.Fatal(err)
	}
next:
	for line := range strings.Lines(string(log)) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (p *program) waitLog(texts ...string) string {
	p.Helper()
	var lines []string
	p.eventually(fmt.Sprintf("the log says %q", texts), func() error {
		if lines = p.logLines(texts...); len(lines) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	return lines[0]
}
