// Package controlplane starts a real Kubernetes control plane as plain processes on loopback:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK as the kubelets.
package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Names of the processes, for Pause, Resume and Process.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Options of Start. The zero value serves.
type Options struct {
	// Dir holds everything that the run writes; a temporary one, removed by Stop, when empty.
	Dir string
	// BinDir holds the programs; what hack/controlplane.sh built when empty.
	BinDir string
	// StageDir holds KWOK's stages; what hack/controlplane.sh copied when empty.
	StageDir string
	// Progress is told about each step.
	Progress func(format string, args ...any)
	// APIServerArgs are added to those of the API server.
	APIServerArgs []string
	// SigningEndpoint is the socket of a signer of service account tokens (package signer). The API
	// server signs them itself when empty.
	SigningEndpoint string
	// ControllerManagerArgs are added to those of kube-controller-manager.
	ControllerManagerArgs []string
	// Address is where the API server listens; 127.0.0.1 when empty.
	Address string
	// Fsync makes etcd sync what it writes, as it does in a real cluster.
	Fsync bool
	// KwokNodes selects by label the nodes that KWOK manages; all when empty.
	KwokNodes string
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Dir holds certificates, logs, kubeconfigs and etcd's data.
	Dir string
	// Kubeconfig is the file of a cluster admin.
	Kubeconfig string
	// Server is the URL of the API server.
	Server string
	// EtcdURL is where etcd serves clients, its JSON gateway and its metrics included.
	EtcdURL string
	// CA signed all certificates of the control plane.
	CA *CA

	options   Options
	removeDir bool
	admin     *rest.Config
	client    kubernetes.Interface
	apiArgs   []string
	ended     chan string

	mu        sync.Mutex
	processes map[string]*Process
	order     []string
}

// CacheDir is where hack/ scripts keep what they built.
func CacheDir() string {
	if dir := os.Getenv("GPUQUOTA_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "gpuquota")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	return filepath.Join(home, ".cache", "gpuquota")
}

// Start starts everything and waits until the API server is ready. The context bounds the
// start only. On an error nothing is left running.
func Start(ctx context.Context, options Options) (ret *ControlPlane, err error) {
	if options.BinDir == "" {
		options.BinDir = filepath.Join(CacheDir(), "bin")
	}
	if options.StageDir == "" {
		options.StageDir = filepath.Join(CacheDir(), "kwok")
	}
	if options.Address == "" {
		options.Address = "127.0.0.1"
	}
	if options.Progress == nil {
		options.Progress = func(string, ...any) {}
	}
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok} {
		if _, err := os.Stat(filepath.Join(options.BinDir, name)); err != nil {
			return nil, fmt.Errorf("%w (run hack/controlplane.sh build)", err)
		}
	}
	c := &ControlPlane{Dir: options.Dir, options: options, processes: map[string]*Process{},
		ended: make(chan string, 1)}
	if c.Dir == "" {
		if c.Dir, err = os.MkdirTemp("", "gpuquota-controlplane-"); err != nil {
			return nil, err
		}
		c.removeDir = true
	} else if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	var etcdClient, etcdPeer, apiPort, cmPort, schedulerPort int
	for _, port := range []*int{&etcdClient, &etcdPeer, &apiPort, &cmPort, &schedulerPort} {
		var err error
		if *port, err = FreePort(); err != nil {
			return err
		}
	}
	c.Server = fmt.Sprintf("https://%s:%d", c.options.Address, apiPort)
	c.Kubeconfig = c.path("kubeconfig")
	if err := c.writeCredentials(); err != nil {
		return err
	}

	c.EtcdURL = fmt.Sprintf("http://127.0.0.1:%d", etcdClient)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", etcdPeer)
	etcdArgs := []string{
		"--name=default", "--data-dir=" + c.path("etcd-data"), "--log-level=warn",
		"--listen-client-urls=" + c.EtcdURL, "--advertise-client-urls=" + c.EtcdURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=default=" + peerURL,
	}
	if !c.options.Fsync {
		etcdArgs = append(etcdArgs, "--unsafe-no-fsync")
	}
	if err := c.run(Etcd, etcdArgs...); err != nil {
		return err
	}

	c.apiArgs = append([]string{
		"--etcd-servers=" + c.EtcdURL,
		"--bind-address=" + c.options.Address, fmt.Sprintf("--secure-port=%d", apiPort),
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		"--endpoint-reconciler-type=none",
		"--cert-dir=" + c.path("apiserver-certs"),
	}, c.options.APIServerArgs...)
	// Keys of Secrets' tokens go with those that sign, so an outer signer leaves no place for them.
	var controllerKeyArgs []string
	if c.options.SigningEndpoint != "" {
		c.apiArgs = append(c.apiArgs, "--service-account-signing-endpoint="+c.options.SigningEndpoint)
	} else {
		c.apiArgs = append(c.apiArgs, "--service-account-signing-key-file="+c.path("sa.key"),
			"--service-account-key-file="+c.path("sa.key"))
		controllerKeyArgs = []string{"--service-account-private-key-file=" + c.path("sa.key")}
	}
	if err := c.run(APIServer, c.apiArgs...); err != nil {
		return err
	}
	if err := c.WaitReady(ctx); err != nil {
		return err
	}

	// High client rates and short back-offs: a test waits for what controllers do.
	if err := c.run(ControllerManager, append([]string{
		"--kubeconfig=" + c.path("controller-manager.kubeconfig"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", cmPort),
		"--cert-dir=" + c.path("controller-manager-certs"),
		"--root-ca-file=" + c.path("ca.crt"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10",
		"--concurrent-statefulset-syncs=10", "--concurrent-namespace-syncs=20",
		"--concurrent-resource-quota-syncs=10", "--resource-quota-sync-period=10s",
	}, append(controllerKeyArgs, c.options.ControllerManagerArgs...)...)...); err != nil {
		return err
	}
	schedulerConfig := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 500
  burst: 1000
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
`, c.path("scheduler.kubeconfig"))
	if err := os.WriteFile(c.path("scheduler.yaml"), []byte(schedulerConfig), 0o600); err != nil {
		return err
	}
	if err := c.run(Scheduler, "--config="+c.path("scheduler.yaml"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", schedulerPort),
		"--cert-dir="+c.path("scheduler-certs")); err != nil {
		return err
	}
	nodes := "--manage-all-nodes=true"
	if c.options.KwokNodes != "" {
		nodes = "--manage-nodes-with-label-selector=" + c.options.KwokNodes
	}
	kwokArgs := []string{"--kubeconfig=" + c.path("kwok.kubeconfig"), nodes,
		"--node-lease-duration-seconds=40"}
	stages, err := filepath.Glob(filepath.Join(c.options.StageDir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(stages) == 0 {
		return fmt.Errorf("no stages of KWOK in %s (run hack/controlplane.sh build)", c.options.StageDir)
	}
	for _, stage := range stages {
		kwokArgs = append(kwokArgs, "--config="+stage)
	}
	if err := c.run(Kwok, kwokArgs...); err != nil {
		return err
	}
	return c.waitServiceAccounts(ctx)
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.Dir, name) }

func (c *ControlPlane) writeCredentials() error {
	var err error
	if c.CA, err = NewCA("gpuquota test control plane"); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("ca.crt"), c.CA.PEM, 0o600); err != nil {
		return err
	}
	serving, err := c.CA.Server("kube-apiserver", "127.0.0.1", c.options.Address, "10.0.0.1", "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	if err := serving.WriteFiles(c.path("apiserver.crt"), c.path("apiserver.key")); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	// The API server reads EC keys of service accounts only in this older form.
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(c.path("sa.key"), pemKey, 0o600); err != nil {
		return err
	}
	for _, user := range []struct{ file, name, group string }{
		{"kubeconfig", "admin", "system:masters"},
		{"controller-manager.kubeconfig", "system:kube-controller-manager", ""},
		{"scheduler.kubeconfig", "system:kube-scheduler", ""},
		{"kwok.kubeconfig", "kwok", "system:masters"},
	} {
		var groups []string
		if user.group != "" {
			groups = []string{user.group}
		}
		pair, err := c.CA.Client(user.name, groups...)
		if err != nil {
			return err
		}
		if err := WriteKubeconfig(c.path(user.file), Credentials{Server: c.Server, CA: c.CA.PEM,
			ClientCert: pair.CertPEM, ClientKey: pair.KeyPEM}); err != nil {
			return err
		}
		if user.file == "kubeconfig" {
			c.admin = &rest.Config{Host: c.Server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
				CAData: c.CA.PEM, CertData: pair.CertPEM, KeyData: pair.KeyPEM}}
		}
	}
	c.client, err = kubernetes.NewForConfig(c.admin)
	return err
}

func (c *ControlPlane) run(name string, args ...string) error {
	c.options.Progress("starting %s", name)
	argv := append([]string{filepath.Join(c.options.BinDir, name)}, args...)
	process, err := StartProcess(name, c.path(name+".log"), nil, argv...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.processes[name]; !known {
		c.order = append(c.order, name)
	}
	c.processes[name] = process
	go func() {
		<-process.done
		if !process.stopping.Load() {
			select {
			case c.ended <- name:
			default:
			}
		}
	}()
	return nil
}

// Ended receives the name of a process that ended without being asked to.
func (c *ControlPlane) Ended() <-chan string { return c.ended }

// Process gives one of the processes by its name.
func (c *ControlPlane) Process(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[name]
}

// Admin gives a client configuration of a cluster admin, without a rate limit.
func (c *ControlPlane) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Client gives a client of a cluster admin.
func (c *ControlPlane) Client() kubernetes.Interface { return c.client }

// Kubectl is the path of kubectl.
func (c *ControlPlane) Kubectl() string { return filepath.Join(c.options.BinDir, "kubectl") }

// WaitReady waits until the API server says that it is ready.
func (c *ControlPlane) WaitReady(ctx context.Context) error {
	start := time.Now()
	config := c.Admin()
	config.Timeout = 2 * time.Second
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	last := errors.New("no answer yet")
	for {
		for _, name := range []string{Etcd, APIServer} {
			if process := c.Process(name); process != nil && !process.Running() {
				return fmt.Errorf("%s ended (%v):\n%s", name, process.Err(), process.Log(4096))
			}
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Server+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := transport.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				c.options.Progress("kube-apiserver is ready after %.1f s", time.Since(start).Seconds())
				return nil
			}
			err = fmt.Errorf("/readyz answers %s", response.Status)
		}
		last = err
		if err := pause(ctx); err != nil {
			return fmt.Errorf("kube-apiserver: %w: %v\n%s", err, last, c.Process(APIServer).Log(4096))
		}
	}
}

// waitServiceAccounts waits until the controllers work: only then can pods be created.
func (c *ControlPlane) waitServiceAccounts(ctx context.Context) error {
	for {
		for _, name := range []string{ControllerManager, Scheduler, Kwok} {
			if process := c.Process(name); !process.Running() {
				return fmt.Errorf("%s ended (%v):\n%s", name, process.Err(), process.Log(4096))
			}
		}
		_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if pauseErr := pause(ctx); pauseErr != nil {
			return fmt.Errorf("kube-controller-manager: %w: %v", pauseErr, err)
		}
	}
}

// StopAPIServer ends the API server: at once, or in its own way, which waits for the watches
// of its clients for longer than a test wants to.
func (c *ControlPlane) StopAPIServer(sig syscall.Signal) {
	process := c.Process(APIServer)
	grace := 3 * time.Second
	if sig == syscall.SIGKILL {
		grace = 0
	}
	_ = process.Stop(grace)
}

// StartAPIServer starts it again on the same port and waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if err := c.run(APIServer, c.apiArgs...); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// Pause stops a process where it is; Resume lets it go on.
func (c *ControlPlane) Pause(name string) error { return c.Process(name).Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (c *ControlPlane) Resume(name string) error { return c.Process(name).Signal(syscall.SIGCONT) }

// Stop ends everything and removes the temporary directory. Nothing here is worth an orderly
// end: the data goes with it.
func (c *ControlPlane) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.order) - 1; i >= 0; i-- {
		_ = c.processes[c.order[i]].Stop(0)
	}
	if c.removeDir {
		_ = os.RemoveAll(c.Dir)
	}
}

// Logs returns the ends of all logs.
func (c *ControlPlane) Logs(limit int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, name := range c.order {
		fmt.Fprintf(&b, "--- %s\n%s", name, c.processes[name].Log(limit))
	}
	return b.String()
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(25 * time.Millisecond):
		return nil
	}
}
