package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/apiproxy"
	"gpuquota.io/tests/controlplane"
)

const (
	policyName   = "gpuquota-policy"
	acceptedName = "gpuquota-policy-accepted"
	policyKey    = "policy.yaml"
)

// program is a running gpuquota that decides for the namespaces of one test.
type program struct {
	*scope
	identity   string
	namespace  string // its own
	probe      string // a namespace of no tenant
	account    string // its service account
	dir        string
	kubeconfig string
	url        string
	front      string // where the API server asks, if not at url
	metricsURL string
	ttl        time.Duration
	elect      bool            // it runs for leader, and a pod stands for it
	proxy      *apiproxy.Proxy // nil: it talks to the API server itself
	process    *controlplane.Process
	registered bool
	drifts     bool // the test makes the ledger wrong; else a recount that finds something is an error
	args       []string
}

type programOption func(*program)

// withTTL sets how long a reservation lives that no pod followed.
func withTTL(seconds int) programOption {
	return func(p *program) { p.ttl = time.Duration(seconds) * time.Second }
}

// withProxy puts a proxy between the program and the API server.
func withProxy(p *program) {
	proxy, err := apiproxy.New(cluster.Server, cluster.CA)
	if err != nil {
		p.Fatal(err)
	}
	p.proxy = proxy
	p.Cleanup(proxy.Close)
}

// electing lets the program run for leader, so that there may be another replica.
func electing(p *program) { p.elect = true }

// policyText completes the part of a policy that a test cares about.
func policyText(format string, args ...any) string {
	return "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\n" + strings.TrimLeft(fmt.Sprintf(format, args...), "\n")
}

// start runs a program with that policy, registered and ready.
func (s *scope) start(policy string, options ...programOption) *program {
	s.Helper()
	p := s.prepare(policy, options...)
	p.launch()
	p.waitReady()
	p.waitPolicy(policy)
	p.register()
	return p
}

// prepare does everything that comes before the program's start.
func (s *scope) prepare(policy string, options ...programOption) *program {
	s.Helper()
	p := &program{scope: s, identity: s.id, namespace: "gpuquota-" + s.id, ttl: 60 * time.Second}
	s.createNamespace(p.namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	p.probe = s.namespace("probe", nil)
	for _, option := range options {
		option(p)
	}
	p.account = s.applyIdentity(p.namespace)
	if policy != "" {
		p.applyPolicy(policy)
	}
	p.furnish()
	return p
}

// furnish gives the program what it has for itself.
func (p *program) furnish() {
	p.Helper()
	p.dir = p.TempDir()
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = controlplane.FreePort(); err != nil {
			p.Fatal(err)
		}
	}
	p.url = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	p.metricsURL = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	p.rotateCertificate()
	server := cluster.Server
	if p.proxy != nil {
		server = p.proxy.URL
	}
	p.kubeconfig = filepath.Join(p.dir, "kubeconfig")
	if err := cluster.WriteServiceAccountKubeconfig(p.Context(), p.kubeconfig, p.namespace, p.account, server); err != nil {
		p.Fatal(err)
	}
	if p.elect {
		p.createStandIn(p.identity)
	}
	p.args = []string{"serve",
		"--kubeconfig", p.kubeconfig,
		"--namespace", p.namespace,
		"--listen", fmt.Sprintf("127.0.0.1:%d", ports[0]),
		"--metrics-listen", fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"--tls-cert", p.certFile(), "--tls-key", p.keyFile(),
		"--leader-elect=" + strconv.FormatBool(p.elect),
		"--identity", p.identity,
		"--reservation-ttl", strconv.Itoa(int(p.ttl.Seconds())),
		"--log-level", "debug",
		"--log-format", "text",
	}
	p.Cleanup(p.finish)
}

func (p *program) certFile() string { return filepath.Join(p.dir, "tls.crt") }
func (p *program) keyFile() string  { return filepath.Join(p.dir, "tls.key") }
func (p *program) logFile() string  { return filepath.Join(p.dir, "gpuquota.log") }

// rotateCertificate replaces the serving certificate and returns the serial of the new one.
func (p *program) rotateCertificate() string {
	p.Helper()
	pair, err := webhookCA.Server("gpuquota", "127.0.0.1", "localhost", "gpuquota."+p.namespace+".svc")
	if err != nil {
		p.Fatal(err)
	}
	if err := pair.WriteFiles(p.certFile(), p.keyFile()); err != nil {
		p.Fatal(err)
	}
	return pair.Serial.String()
}

// logLines returns the lines of the program's log that hold a text.
func (p *program) logLines(text string) (lines []string) {
	p.Helper()
	log, err := os.ReadFile(p.logFile())
	if err != nil {
		p.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// launch starts the process only.
func (p *program) launch() {
	p.Helper()
	var err error
	argv := append([]string{programBin}, p.args...)
	if p.process, err = controlplane.StartProcess("gpuquota", p.logFile(), controlplane.SanitizerOptions(), argv...); err != nil {
		p.Fatal(err)
	}
}

// stop ends the program as a kubelet would and checks that it obeys.
func (p *program) stop() {
	p.Helper()
	if p.elect {
		defer p.pretendSuccessor()()
	}
	if err := p.process.Stop(20 * time.Second); err != nil {
		p.Errorf("gpuquota did not end well: %v", err)
	}
}

// finish checks what has to hold at the end of every test, and cleans up.
func (p *program) finish() {
	if p.process == nil {
		return
	}
	if p.process.Running() {
		p.checkMetricsPage()
		if page, err := p.fetch("/metrics"); err == nil {
			if drift, found := metric(page, "gpuquota_ledger_drift_total"); found && drift != 0 && !p.drifts {
				p.Errorf("gpuquota_ledger_drift_total is %v", drift)
			}
		}
	} else if !p.Failed() && p.process.Err() != nil {
		p.Errorf("gpuquota ended by itself: %v", p.process.Err())
	}
	usage, _ := p.fetch("/usage")
	if err := p.unregister(context.Background()); err != nil && !apierrors.IsNotFound(err) {
		p.Errorf("unregister: %v", err)
	}
	if p.process.Running() {
		p.stop()
	}
	p.checkSanitizers()
	if p.Failed() {
		p.Logf("usage at the end: %s\nlog of gpuquota:\n%s", usage, p.process.Log(12<<10))
	}
}

var plainClient = &http.Client{Timeout: 10 * time.Second}

// fetch gets a page of the metrics address that has to be there.
func (p *program) fetch(path string) (string, error) {
	status, body, err := p.get(path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", path, status, body)
	}
	return body, err
}

func (p *program) get(path string) (int, string, error) {
	response, err := plainClient.Get(p.metricsURL + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func (p *program) waitReady() {
	p.Helper()
	p.eventually("gpuquota is ready", func() error {
		if !p.process.Running() {
			p.Fatalf("gpuquota ended: %v\n%s", p.process.Err(), p.process.Log(8192))
		}
		_, err := p.fetch("/readyz")
		return err
	})
}

// applyPolicy stores the policy, which has to be accepted.
func (p *program) applyPolicy(policy string) {
	p.Helper()
	if err := p.tryPolicy(policy); err != nil {
		p.Fatalf("apply the policy: %v", err)
	}
}

func (p *program) tryPolicy(policy string, dryRun ...string) error {
	maps := client.CoreV1().ConfigMaps(p.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Data: map[string]string{policyKey: policy}}
	_, err := maps.Update(p.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(p.Context(), object, metav1.CreateOptions{DryRun: dryRun})
	}
	return err
}

// setPolicy applies a policy and waits until the program decides by it.
func (p *program) setPolicy(policy string) {
	p.Helper()
	p.applyPolicy(policy)
	p.waitPolicy(policy)
}

func (p *program) waitPolicy(policy string) {
	p.Helper()
	p.eventually("gpuquota uses the policy", func() error { return p.usesPolicy(policy) })
}

func (p *program) usesPolicy(policy string) error {
	page, err := p.fetch("/metrics")
	if err != nil {
		return err
	}
	want := fmt.Sprintf(`gpuquota_policy_info{hash="%x"}`, sha256.Sum256([]byte(policy)))
	if value, found := metric(page, want); !found || value != 1 {
		return fmt.Errorf("no %s 1 among %q", want, regexp.MustCompile(`(?m)^gpuquota_policy.*$`).FindAllString(page, -1))
	}
	return nil
}

// metric finds the value of one series in a page, its labels in any order, or the sum over all
// series of a name.
func metric(page, series string) (sum float64, found bool) {
	wantName, wantLabels := splitSeries(series)
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		name, labels := splitSeries(line[:i])
		if name != wantName || wantLabels != nil && !slices.Equal(labels, wantLabels) {
			continue
		}
		if number, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			sum += number
			found = true
		}
	}
	return sum, found
}

func splitSeries(series string) (name string, labels []string) {
	name, rest, ok := strings.Cut(series, "{")
	if ok {
		labels = strings.Split(strings.TrimSuffix(rest, "}"), ",")
		slices.Sort(labels)
	}
	return name, labels
}

func (p *program) metricIs(series string, want float64) error {
	page, err := p.fetch("/metrics")
	if err != nil {
		return err
	}
	if value, found := metric(page, series); !found || value != want {
		return fmt.Errorf("%s is %v (found: %v), want %v", series, value, found, want)
	}
	return nil
}

// reviews counts the reviews that the program has answered.
func (p *program) reviews() float64 {
	page, err := p.fetch("/metrics")
	if err != nil {
		return 0
	}
	sum, _ := metric(page, "gpuquota_reviews_total")
	return sum
}

// checkMetricsPage lets promtool judge the page.
func (p *program) checkMetricsPage() {
	p.Helper()
	page, err := p.fetch("/metrics")
	if err != nil {
		p.Errorf("metrics: %v", err)
		return
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		promtool = filepath.Join(controlplane.CacheDir(), "bin/promtool")
	}
	command := exec.Command(promtool, "check", "metrics")
	command.Stdin = strings.NewReader(page)
	if out, err := command.CombinedOutput(); err != nil {
		p.Errorf("promtool check metrics: %v\n%s\n%s", err, out, page)
	}
}

type amounts struct {
	Limit       *string `json:"limit"`
	Used        string  `json:"used"`
	Reserved    string  `json:"reserved"`
	Free        *string `json:"free"`
	Pending     string  `json:"pending"`
	Bound       string  `json:"bound"`
	Terminating string  `json:"terminating"`
	Unready     string  `json:"unready"`
}

type memoryAmounts struct {
	Limit       *int64 `json:"limit"`
	Used        int64  `json:"used"`
	Reserved    int64  `json:"reserved"`
	Free        *int64 `json:"free"`
	Pending     int64  `json:"pending"`
	Bound       int64  `json:"bound"`
	Terminating int64  `json:"terminating"`
	Unready     int64  `json:"unready"`
}

type usagePage struct {
	PolicyHash string `json:"policyHash"`
	Synced     bool   `json:"synced"`
	Tenants    []struct {
		Name   string `json:"name"`
		Parent string `json:"parent"`
		Mode   string `json:"mode"`
		Limits []struct {
			Class     string        `json:"class"`
			GPUs      amounts       `json:"gpus"`
			MemoryMiB memoryAmounts `json:"memoryMiB"`
		} `json:"limits"`
	} `json:"tenants"`
	Uncharged []struct {
		Namespace string `json:"namespace"`
		Pods      int    `json:"pods"`
	} `json:"uncharged"`
}

func (p *program) usage() (*usagePage, error) {
	page, err := p.fetch("/usage")
	if err != nil {
		return nil, err
	}
	var usage usagePage
	if err := json.Unmarshal([]byte(page), &usage); err != nil {
		return nil, fmt.Errorf("%w in %s", err, page)
	}
	return &usage, nil
}

// line writes a limit's numbers as "limit=8 used=3 …", the form that tests compare with.
func (u *usagePage) line(tenant, class string) string {
	show := func(s *string) string {
		if s == nil {
			return "none"
		}
		return *s
	}
	showMiB := func(n *int64) string {
		if n == nil {
			return "none"
		}
		return strconv.FormatInt(*n, 10)
	}
	for _, t := range u.Tenants {
		if t.Name != tenant {
			continue
		}
		for _, l := range t.Limits {
			if l.Class != class {
				continue
			}
			g, m := l.GPUs, l.MemoryMiB
			return fmt.Sprintf("limit=%s used=%s reserved=%s free=%s pending=%s bound=%s terminating=%s unready=%s "+
				"memory: mlimit=%s mused=%d mreserved=%d mfree=%s mpending=%d mbound=%d mterminating=%d munready=%d",
				show(g.Limit), g.Used, g.Reserved, show(g.Free), g.Pending, g.Bound, g.Terminating, g.Unready,
				showMiB(m.Limit), m.Used, m.Reserved, showMiB(m.Free), m.Pending, m.Bound, m.Terminating, m.Unready)
		}
	}
	return ""
}

// usageIs checks some of the numbers: usageIs("team-a", "A100", "used=3 bound=3").
func (p *program) usageIs(tenant, class, wants string) error {
	usage, err := p.usage()
	if err != nil {
		return err
	}
	return usage.is(tenant, class, wants)
}

func (u *usagePage) is(tenant, class, wants string) error {
	line := u.line(tenant, class)
	have := " " + line + " "
	for _, want := range strings.Fields(wants) {
		if !strings.Contains(have, " "+want+" ") {
			return fmt.Errorf("usage of %s in %s: want %s, have %q", class, tenant, wants, line)
		}
	}
	return nil
}

func (p *program) waitUsage(tenant, class, wants string) {
	p.Helper()
	p.eventually("usage "+wants, func() error { return p.usageIs(tenant, class, wants) })
}

// webhookClient trusts the program's certificate. fresh: a new connection for each request.
func webhookClient(fresh bool) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(webhookCA.PEM)
	return &http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots},
			DisableKeepAlives:   fresh,
			MaxIdleConnsPerHost: 16,
		},
	}
}

// answer is what the program said to a review.
type answer struct {
	status  int
	header  http.Header
	body    string
	allowed bool
	closes  bool // the connection
}

// post sends bytes straight to the program.
func (p *program) post(c *http.Client, path string, body []byte) (*answer, error) {
	request, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	ret := &answer{status: response.StatusCode, header: response.Header, body: string(content), closes: response.Close}
	var review struct {
		Response struct {
			Allowed bool `json:"allowed"`
		} `json:"response"`
	}
	if json.Unmarshal(content, &review) == nil {
		ret.allowed = review.Response.Allowed
	}
	return ret, nil
}

// peerSerial says which certificate a new connection meets.
func (p *program) peerSerial() (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(webhookCA.PEM)
	connection, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{RootCAs: roots})
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// run runs another command of the program, as an admin on a laptop.
func (p *program) run(args ...string) (string, error) {
	command := exec.CommandContext(p.Context(), programBin, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.CombinedOutput()
	return string(out), err
}
