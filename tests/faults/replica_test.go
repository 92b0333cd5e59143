package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/apiproxy"
	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
)

const (
	webhookPort = install.WebhookPort
	metricsPort = install.MetricsPort
)

// replica is one process of gpuquota with its pod, its network namespace and its way to the API
// server.
type replica struct {
	*world
	name    string
	network *netns
	proxy   *apiproxy.Proxy
	args    []string
	trace   string
	tracer  tracer
	log     string
	process *controlplane.Process
	// wantEnd: the process is meant to be gone.
	wantEnd bool
	frozen  bool
}

// startReplicas starts them all and waits until one leads.
func (w *world) startReplicas(n int) {
	w.Helper()
	for i := range n {
		w.replicas = append(w.replicas, w.newReplica(i, n == 1 && !*electing))
	}
	w.Cleanup(w.endReplicas)
	for _, r := range w.replicas {
		r.launch()
	}
	for _, r := range w.replicas {
		w.eventually(r.name+" is ready", func() error {
			if !r.process.Running() {
				w.Fatalf("%s ended: %v\n%s", r.name, r.process.Err(), r.process.Log(8192))
			}
			_, err := r.page("/readyz")
			return err
		})
	}
	w.eventually("one leads", func() error {
		if w.leader() == nil {
			return fmt.Errorf("nobody leads")
		}
		return nil
	})
}

func (w *world) newReplica(index int, leads bool) *replica {
	w.Helper()
	r := &replica{world: w, name: fmt.Sprintf("%s-%d", programName, index)}
	var err error
	if r.network, err = newNetns(11 + index); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(r.network.close)
	if r.proxy, err = apiproxy.Listen(bridgeAddress, w.cluster.Server, w.cluster.CA); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(r.proxy.Close)
	file := func(suffix string) string { return filepath.Join(w.dir, r.name+suffix) }
	r.trace, r.log = file(".trace"), file(".log")
	r.tracer.file = r.trace
	pair, err := w.webhookCA.Server(programName, r.network.address,
		programName+"."+systemNamespace+".svc", programName+"."+systemNamespace+".svc.cluster.local")
	if err != nil {
		w.Fatal(err)
	}
	if err := pair.WriteFiles(file(".crt"), file(".key")); err != nil {
		w.Fatal(err)
	}
	if err := w.cluster.WriteServiceAccountKubeconfig(w.Context(), file(".kubeconfig"), systemNamespace,
		programName, r.proxy.URL); err != nil {
		w.Fatal(err)
	}
	if err := (install.StandIn{Name: r.name, Address: r.network.address, Node: standInNode, Leads: leads}).Create(w.Context(), w.client); err != nil {
		w.Fatal(err)
	}
	r.args = append(r.network.argv(), programBin, "serve",
		"--kubeconfig", file(".kubeconfig"),
		"--namespace", systemNamespace,
		"--listen", fmt.Sprintf("0.0.0.0:%d", webhookPort),
		"--metrics-listen", fmt.Sprintf("0.0.0.0:%d", metricsPort),
		"--tls-cert", file(".crt"), "--tls-key", file(".key"),
		"--leader-elect="+strconv.FormatBool(*electing && !leads),
		"--identity", r.name,
		"--log-format", "text")
	return r
}

// launch starts the process only.
func (r *replica) launch() {
	r.Helper()
	var err error
	r.wantEnd = false
	env := append(controlplane.SanitizerOptions(), "GPUQUOTA_TRACE="+r.trace)
	if r.process, err = controlplane.StartProcess(r.name, r.log, env, r.args...); err != nil {
		r.Fatal(err)
	}
}

// kill ends the process at once, as an out-of-memory kill does.
func (r *replica) kill() {
	r.Helper()
	r.wantEnd = true
	if err := r.process.Signal(syscall.SIGKILL); err != nil {
		r.Fatalf("kill %s: %v", r.name, err)
	}
	<-r.process.Done()
}

// endReplicas ends them as a kubelet does and checks that they were there and obey.
func (w *world) endReplicas() {
	for _, r := range w.replicas {
		if r.process == nil || r.wantEnd {
			continue
		}
		if !r.process.Running() {
			w.Errorf("%s ended by itself: %v", r.name, r.process.Err())
		} else if err := r.process.Stop(20 * time.Second); err != nil {
			w.Errorf("%s did not end well: %v", r.name, err)
		}
	}
	for _, r := range w.replicas {
		if r.process == nil {
			continue
		}
		log, err := os.ReadFile(r.log)
		if err != nil {
			w.Error(err)
		}
		if report := controlplane.FirstSanitizerReport(log); report != "" {
			w.Errorf("a sanitizer complains about %s: %s", r.name, report)
		}
		if w.Failed() {
			w.Logf("log of %s:\n%s", r.name, r.process.Log(6<<10))
		}
	}
}

// plainClient keeps no connection: the other end may be frozen or gone the next time.
var plainClient = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (r *replica) page(path string) (string, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
		fmt.Sprintf("http://%s:%d%s", r.network.address, metricsPort, path), nil)
	if err != nil {
		return "", err
	}
	response, err := plainClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of %s answers %d: %s", path, r.name, response.StatusCode, body)
	}
	return string(body), err
}

// metric gives the sum of the series of that name, or that one series; 0 when there is none.
func (r *replica) metric(series string) (sum float64) {
	page, err := r.page("/metrics")
	if err != nil {
		return 0
	}
	return metricOf(page, series)
}

func metricOf(page, series string) (sum float64) {
	wantName, wantLabels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for line := range strings.Lines(page) {
		i := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:i], "}"), "{")
		if name != wantName || wantLabels != "" && !sameLabels(labels, wantLabels) {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64); err == nil {
			sum += value
		}
	}
	return sum
}

func sameLabels(a, b string) bool {
	left, right := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(left)
	slices.Sort(right)
	return slices.Equal(left, right)
}

// leader gives the replica that says that it leads; nil if none or more than one do.
func (w *world) leader() (ret *replica) {
	for _, r := range w.replicas {
		if r.wantEnd || r.frozen || !r.process.Running() || r.metric("gpuquota_leader") != 1 {
			continue
		}
		if ret != nil {
			return nil
		}
		ret = r
	}
	return ret
}

// other gives a replica that is not this one and runs; nil if there is none.
func (r *replica) other() *replica {
	for _, other := range r.replicas {
		if other != r && !other.wantEnd && other.process.Running() {
			return other
		}
	}
	return nil
}

// setLeaderLabel does by hand what a leader does by itself.
func (w *world) setLeaderLabel(pod string, leads bool) {
	w.Helper()
	value := "null"
	if leads {
		value = `"true"`
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, leaderLabel, value)
	if _, err := w.client.CoreV1().Pods(systemNamespace).Patch(w.Context(), pod, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}
