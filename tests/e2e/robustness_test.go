package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"gpuquota.io/tests/apiproxy"
	"gpuquota.io/tests/controlplane"
)

var podWatch = apiproxy.WatchesOf("/api/v1/pods")

// No clock alone frees a GPU: the watch may lag for longer than a reservation lives.
func TestWatchHeldBeyondTTL(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withTTL(2), withProxy)
	p.proxy.Hold(podWatch)
	for i := range 4 {
		s.mustCreate(ns, newPod(fmt.Sprintf("pod-%d", i), 1, on(a100)))
	}
	s.throughout(3*p.ttl, "never over while the watch is held", func() error {
		if _, err := s.create(ns, newPod("fifth", 1, on(a100))); err == nil {
			return errors.New("a fifth pod was allowed")
		}
		return nil
	})
	if n := len(s.pods(ns)); n != 4 {
		t.Errorf("%d pods for 4 GPUs", n)
	}
	p.proxy.Release()
	p.waitUsage("team-a", "A100", "used=4 reserved=0 bound=4 free=0")
	s.mustRefuse(ns, newPod("fifth", 1, on(a100)), "may hold 4 A100 GPUs and holds 4")
	s.deletePod(ns, "pod-0")
	p.waitUsage("team-a", "A100", "used=3 free=1")
	s.mustRun(ns, newPod("fifth", 1, on(a100)))
}

// peak follows the pods of a namespace as the API server orders them and finds the most that
// existed at one time.
type peak struct {
	names map[types.UID]bool
	most  int
}

func (s *scope) watchPeak(namespace string) (stop func() int) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	stream, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		s.Fatal(err)
	}
	state := peak{names: map[types.UID]bool{}, most: len(list.Items)}
	for _, pod := range list.Items {
		state.names[pod.UID] = true
	}
	done := make(chan struct{})
	complete := false
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if pod.Name == "marker" {
				complete = true
				return
			}
			if event.Type == watch.Deleted {
				delete(state.names, pod.UID)
			} else {
				state.names[pod.UID] = true
			}
			state.most = max(state.most, len(state.names))
		}
	}()
	return func() int {
		s.Helper()
		defer cancel()
		defer stream.Stop()
		// A pod without GPUs marks the end of the stream: all before it has been counted then.
		s.mustCreate(namespace, newPod("marker", 0, held))
		select {
		case <-done:
		case <-time.After(patience):
			stream.Stop()
			<-done
		}
		if !complete {
			s.Error("the watch of the test ended early")
		}
		return state.most
	}
}

// churn creates and deletes pods from several clients until the time is over.
func (s *scope) churn(namespace string, clients int, duration time.Duration) (created int) {
	deadline := time.Now().Add(duration)
	var total atomic.Int64
	var wait sync.WaitGroup
	for worker := range clients {
		wait.Go(func() {
			for i := 0; time.Now().Before(deadline); i++ {
				name := fmt.Sprintf("churn-%d-%d", worker, i)
				if _, err := s.create(namespace, newPod(name, 1, on(a100))); err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				total.Add(1)
				if err := client.CoreV1().Pods(namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
					s.Errorf("delete %s: %v", name, err)
				}
			}
		})
	}
	wait.Wait()
	return int(total.Load())
}

func TestWatchLagsUnderChurn(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withTTL(1), withProxy)
	stop := s.watchPeak(ns)
	p.proxy.Delay(podWatch, 2500*time.Millisecond)
	created := s.churn(ns, 6, 10*time.Second)
	most := stop()
	p.proxy.Release()
	if most > 4 {
		t.Errorf("%d pods existed at one time, the quota is 4", most)
	}
	if created < 4 {
		t.Errorf("only %d pods came through in 10 s", created)
	}
	t.Logf("%d pods came through, at most %d at one time", created, most)
	s.eventually("all pods are gone", func() error {
		if n := len(s.pods(ns)); n > 1 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	p.waitUsage("team-a", "A100", "used=0 reserved=0 free=4")
}

func TestWatchCut(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withTTL(2), withProxy)
	s.mustRun(ns, newPod("stays", 1, on(a100)))
	stop := s.watchPeak(ns)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.churn(ns, 4, 5*time.Second)
	}()
	cuts := 0
	for running := true; running; {
		select {
		case <-finished:
			running = false
		case <-time.After(300 * time.Millisecond):
			cuts += p.proxy.Cut(apiproxy.Everything)
		}
	}
	if most := stop(); most > 4 {
		t.Errorf("%d pods existed at one time, the quota is 4", most)
	}
	if cuts < 5 {
		t.Errorf("only %d requests were cut", cuts)
	}
	s.eventually("all pods of the churn are gone", func() error {
		if n := len(s.pods(ns)); n > 2 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	p.waitUsage("team-a", "A100", "used=1 reserved=0 bound=1 free=3")
}

// Not parallel: it takes the API server away from everybody.
func TestAPIServerRestart(t *testing.T) {
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withTTL(5))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustRun(ns, newPod("two", 1, on(a100)))
	for round, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		cluster.StopAPIServer(sig)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := cluster.StartAPIServer(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		var allowed atomic.Int32
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				err := controlplane.Poll(t.Context(), patience, func() error {
					_, err := s.create(ns, newPod(fmt.Sprintf("after-%d-%d", round, i), 1, on(a100), held))
					if err != nil && strings.Contains(err.Error(), "denied the request: team-a may hold 4") {
						return nil
					}
					if err == nil {
						allowed.Add(1)
					}
					return err
				})
				if err != nil {
					t.Errorf("a create after the restart: %v", err)
				}
			})
		}
		wait.Wait()
		if n := allowed.Load(); n != 2 {
			t.Errorf("%d pods were allowed for 2 free GPUs after %v", n, sig)
		}
		p.waitUsage("team-a", "A100", "used=4 reserved=0 bound=2 pending=2")
		for _, pod := range s.pods(ns) {
			if strings.HasPrefix(pod.Name, "after-") {
				s.deletePod(ns, pod.Name)
			}
		}
		p.waitUsage("team-a", "A100", "used=2 reserved=0 bound=2 free=2")
	}
}

func TestProgramStopped(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	policy := policyText(onlyA100, ns, 2)
	p := s.start(policy)
	s.mustRun(ns, newPod("before", 1, on(a100)))
	p.stop()
	begin := time.Now()
	s.mustRun(ns, newPod("cpu", 0))
	t.Logf("a pod without GPUs ran after %v", time.Since(begin))
	_, err := s.create(ns, newPod("gpu", 1, on(a100)))
	if err == nil {
		t.Fatal("a pod with GPUs was allowed without the program")
	}
	if !containsAll(err.Error(), `failed calling webhook "quota.gpuquota.io"`) {
		t.Errorf("want the failed call named: %v", err)
	}
	p.launch()
	p.waitReady()
	p.waitPolicy(policy)
	p.waitUsage("team-a", "A100", "used=1 bound=1 free=1")
	s.mustRun(ns, newPod("gpu", 1, on(a100)))
	s.mustRefuse(ns, newPod("more", 1, on(a100)), "may hold 2 A100 GPUs and holds 2")
}

// review makes the body of an AdmissionReview as the API server would send it.
func review(uid, namespace, name string, dryRun bool, limits string) string {
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":%q,`+
		`"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},`+
		`"requestKind":{"group":"","version":"v1","kind":"Pod"},"requestResource":{"group":"","version":"v1","resource":"pods"},`+
		`"name":%q,"namespace":%q,"operation":"CREATE","userInfo":{"username":"admin","groups":["system:masters"]},`+
		`"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"pod-%s",`+
		`"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeSelector":{"nvidia.com/gpu.product":%q},`+
		`"containers":[{"name":"c","image":"x","resources":{"limits":%s,"requests":%s}}]},"status":{"phase":"Pending"}},`+
		`"oldObject":null,"dryRun":%v,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}`,
		uid, name, namespace, name, namespace, uid, a100, limits, limits, dryRun)
}

func TestMalformedReviews(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	p.waitUsage("team-a", "A100", "used=1 reserved=0 bound=1")
	good := review("good", ns, "x", false, `{"nvidia.com/gpu":"1"}`)

	const badRequest = 0 // else: either that or an answer that does not allow
	const refused = 1
	limits := func(text string) string { return review("limits", ns, "x", false, text) }
	cases := []struct {
		name string
		body string
		want int
	}{
		{"empty", "", badRequest},
		{"null", "null", badRequest},
		{"empty object", "{}", badRequest},
		{"array", "[]", badRequest},
		{"not JSON", "kind: AdmissionReview", badRequest},
		{"truncated", good[:len(good)/2], badRequest},
		{"last byte missing", good[:len(good)-1], badRequest},
		{"garbage after", good + "}", badRequest},
		{"two documents", good + good, badRequest},
		{"wrong kind", strings.Replace(good, `"AdmissionReview"`, `"AdmissionRevue"`, 1), badRequest},
		{"wrong version", strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v2", 1), badRequest},
		{"no request", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, badRequest},
		{"request is a string", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":"x"}`, badRequest},
		{"no uid", strings.Replace(good, `"uid":"good",`, "", 1), badRequest},
		{"object is null", strings.Replace(good, `"object":{"kind":"Pod"`, `"object":null,"other":{"kind":"Pod"`, 1), badRequest},
		{"object is an array", strings.Replace(good, `"object":{"kind":"Pod"`, `"object":[],"other":{"kind":"Pod"`, 1), badRequest},
		{"containers is an object", strings.Replace(good, `"containers":[`, `"containers":{},"other":[`, 1), badRequest},
		{"spec is a number", strings.Replace(good, `"spec":{`, `"spec":1,"other":{`, 1), badRequest},
		{"NUL in a key", strings.Replace(good, `"nvidia.com/gpu":`, `"nvidia.com/gpu\u0000":`, 1), refused},
		{"duplicate key in limits", limits(`{"nvidia.com/gpu":"4","nvidia.com/gpu":"1"}`), refused},
		{"duplicate object", strings.Replace(good, `"oldObject":null`, `"object":{}`, 1), badRequest},
		{"deep", strings.Replace(good, `"options":{`, `"deep":`+strings.Repeat("[", 100000)+strings.Repeat("]", 100000)+`,"options":{`, 1), badRequest},
		{"unclosed deep", strings.Repeat(`{"a":`, 100000), badRequest},
		{"too large", strings.Replace(good, `"options":{`, `"big":"`+strings.Repeat("x", 9<<20)+`","options":{`, 1), badRequest},
		{"broken UTF-8", strings.Replace(good, `"name":"c"`, "\"name\":\"\xff\xfe\"", 1), refused},
		{"negative", limits(`{"nvidia.com/gpu":"-1"}`), refused},
		{"fraction", limits(`{"nvidia.com/gpu":"500m"}`), refused},
		{"not a number", limits(`{"nvidia.com/gpu":"lots"}`), refused},
		{"infinite", limits(`{"nvidia.com/gpu":"Inf"}`), refused},
		{"empty quantity", limits(`{"nvidia.com/gpu":""}`), refused},
		{"overflow", limits(`{"nvidia.com/gpu":"99999999999999999999999999"}`), refused},
		{"absurd exponent", limits(`{"nvidia.com/gpu":"1e1000000000"}`), refused},
		{"exa", limits(`{"nvidia.com/gpu":"9E"}`), refused},
		{"quantity is an object", limits(`{"nvidia.com/gpu":{"x":1}}`), refused},
		{"quantity is null", limits(`{"nvidia.com/gpu":null}`), refused},
		{"quantity is true", limits(`{"nvidia.com/gpu":true}`), refused},
		{"limits is an array", limits(`[{"nvidia.com/gpu":"1"}]`), refused},
	}
	c := webhookClient(false)
	defer c.CloseIdleConnections()
	for _, path := range []string{"/validate", "/validate-ai-pod"} {
		for _, tc := range cases {
			t.Run(path[1:]+"/"+tc.name, func(t *testing.T) {
				answer, err := p.post(c, path, []byte(tc.body))
				if tc.name == "too large" && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
					return // it did not wait for the rest
				}
				if err != nil {
					t.Fatal(err)
				}
				if answer.allowed {
					t.Errorf("allowed: %d %s", answer.status, answer.body)
				}
				if tc.name == "too large" && answer.status == http.StatusRequestEntityTooLarge {
					return
				}
				if answer.status == http.StatusBadRequest || tc.want == refused && answer.status == http.StatusOK &&
					strings.Contains(answer.body, `"allowed":false`) {
					return
				}
				t.Errorf("answers %d %s", answer.status, answer.body)
			})
		}
	}
	for _, body := range []string{"", "{}", "null", good[:100], strings.Repeat("[", 100000)} {
		answer, err := p.post(c, "/validate-policy", []byte(body))
		if err != nil || answer.status != http.StatusBadRequest {
			t.Errorf("/validate-policy answers %+v, %v to %.40q", answer, err, body)
		}
	}
	for method, want := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPut: http.StatusMethodNotAllowed} {
		request, err := http.NewRequestWithContext(t.Context(), method, p.url+"/validate", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s /validate: %s", method, response.Status)
		}
	}
	if answer, err := p.post(c, "/elsewhere", []byte(good)); err != nil || answer.status != http.StatusNotFound {
		t.Errorf("/elsewhere answers %+v, %v", answer, err)
	}
	// Nothing of it left a trace, and the same connection still serves.
	if err := p.usageIs("team-a", "A100", "used=1 reserved=0 bound=1 free=3"); err != nil {
		t.Error(err)
	}
	if answer, err := p.post(c, "/validate", []byte(review("fine", ns, "x", true, `{"nvidia.com/gpu":"1"}`))); err != nil || !answer.allowed {
		t.Errorf("a good review: %+v, %v", answer, err)
	}
}

// The same review and the same pod are charged once.
func TestIdempotentReviews(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 2), withTTL(3))
	c := webhookClient(false)
	defer c.CloseIdleConnections()
	body := review("same", ns, "x", false, `{"nvidia.com/gpu":"2"}`)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if answer, err := p.post(c, "/validate", []byte(body)); err != nil || !answer.allowed {
				t.Errorf("the same review again: %+v, %v", answer, err)
			}
		})
	}
	wait.Wait()
	if err := p.usageIs("team-a", "A100", "used=0 reserved=2 free=0"); err != nil {
		t.Error(err)
	}
	s.within(p.ttl+10*time.Second, "the reservation of an invented pod ends", func() error {
		return p.usageIs("team-a", "A100", "used=0 reserved=0 free=2")
	})
}

func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int64
	var wait sync.WaitGroup
	for worker := range 4 {
		c := webhookClient(worker%2 == 0)
		wait.Go(func() {
			defer c.CloseIdleConnections()
			for i := 0; ctx.Err() == nil; i++ {
				body := review(fmt.Sprintf("cert-%d-%d", worker, i), ns, "x", true, `{"nvidia.com/gpu":"1"}`)
				answer, err := p.post(c, "/validate", []byte(body))
				if err != nil || !answer.allowed {
					t.Errorf("during the rotation: %+v, %v", answer, err)
					return
				}
				requests.Add(1)
			}
		})
	}
	wait.Go(func() {
		for ctx.Err() == nil {
			_, err := client.CoreV1().Pods(ns).Create(t.Context(), newPod("dry", 1, on(a100)),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Errorf("during the rotation, through the API server: %v", err)
				return
			}
			requests.Add(1)
		}
	})
	for range 3 {
		want := p.rotateCertificate()
		s.within(time.Minute, "the new certificate is served", func() error {
			have, err := p.peerSerial()
			if err != nil {
				t.Errorf("a handshake fails: %v", err)
				return nil
			}
			if have != want {
				return fmt.Errorf("serial %s, want %s", have, want)
			}
			return nil
		})
	}
	cancel()
	wait.Wait()
	t.Logf("%d requests during three rotations", requests.Load())
}

// A pair that can't be used is told of once, however often the files are looked at, and the one
// before it goes on to serve.
func TestCertificateBroken(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	other, err := webhookCA.Server("gpuquota", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := p.peerSerial()
	if err != nil {
		t.Fatal(err)
	}
	const refused = "the new certificate is not usable, the old one stays"
	for round, tc := range []struct {
		what    string
		content []byte
		says    string
	}{
		{"no certificate", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "holds no PEM certificate"},
		{"a certificate of another key", other.CertPEM, "is not that of the certificate"},
	} {
		// As one step, or else a file that is half written would be another one to tell of.
		if err := os.WriteFile(p.certFile()+".new", tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(p.certFile()+".new", p.certFile()); err != nil {
			t.Fatal(err)
		}
		s.eventually(tc.what+" is told", func() error {
			if n := len(p.logLines(refused)); n != round+1 {
				return fmt.Errorf("%d refusals, want %d", n, round+1)
			}
			return nil
		})
		// The files are looked at once a second.
		s.throughout(4*time.Second, tc.what+" on disk", func() error {
			if lines := p.logLines(refused); len(lines) != round+1 {
				return fmt.Errorf("told again: %q", lines)
			}
			have, err := p.peerSerial()
			if err == nil && have != serving {
				err = fmt.Errorf("serial %s, want %s", have, serving)
			}
			return err
		})
		if line := p.logLines(refused)[round]; !containsAll(line, tc.says, p.certFile()) {
			t.Errorf("%s: want %q: %s", tc.what, tc.says, line)
		}
	}
	s.mustCreate(ns, newPod("meanwhile", 1, on(a100), held))

	want := p.rotateCertificate()
	s.within(time.Minute, "the good certificate is served", func() error {
		have, err := p.peerSerial()
		if err == nil && have != want {
			err = fmt.Errorf("serial %s, want %s", have, want)
		}
		return err
	})
	s.eventually("the good certificate is told", func() error {
		if n := len(p.logLines("certificate loaded")); n != 1 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	s.mustCreate(ns, newPod("after", 1, on(a100), held))
}

func TestNotSynced(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	policy := policyText(onlyA100, ns, 1)
	p := s.prepare(policy, withProxy)
	p.proxy.Hold(apiproxy.Lists("/api/v1/pods"))
	p.launch()
	c := webhookClient(false)
	defer c.CloseIdleConnections()
	s.eventually("the program waits for pods", func() error {
		if n := p.proxy.Live(apiproxy.Lists("/api/v1/pods")); n == 0 {
			return errors.New("no request for pods yet")
		}
		_, err := p.fetch("/healthz")
		return err
	})
	if status, body, err := p.get("/readyz"); err != nil || status == http.StatusOK {
		t.Errorf("/readyz before the pods are known: %d %s %v", status, body, err)
	}
	answer, err := p.post(c, "/validate", []byte(review("early", ns, "x", false, `{"nvidia.com/gpu":"1"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if answer.status != http.StatusServiceUnavailable || answer.header.Get("Retry-After") == "" || answer.allowed {
		t.Errorf("before the pods are known: %d, Retry-After %q, %s", answer.status, answer.header.Get("Retry-After"), answer.body)
	}

	// Through the API server the call waits, and goes through when the program is ready.
	configuration := p.registration()
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.registered = true
	before := p.reviews()
	done := make(chan error, 1)
	go func() {
		done <- controlplane.Poll(t.Context(), patience, func() error {
			_, err := s.create(ns, newPod("early", 1, on(a100)))
			return err
		})
	}()
	s.eventually("the API server asks", func() error {
		page, err := p.fetch("/metrics")
		if err != nil {
			return err
		}
		if sum, _ := metric(page, "gpuquota_reviews_total"); sum <= before {
			return errors.New("no review yet")
		}
		return nil
	})
	select {
	case err := <-done:
		t.Fatalf("answered before the pods are known: %v", err)
	default:
	}
	p.proxy.Release()
	if err := <-done; err != nil {
		t.Errorf("the create that waited: %v", err)
	}
	p.waitReady()
	p.waitPolicy(policy)
	s.mustRefuse(ns, newPod("second", 1, on(a100)), "may hold 1 A100 GPU and holds 1")
}

func TestDrain(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	// Requests whose heads and half of whose bodies have arrived when the signal comes.
	const inFlight = 8
	var connections []*halfRequest
	for i := range inFlight {
		body := review(fmt.Sprintf("drain-%d", i), ns, "x", true, `{"nvidia.com/gpu":"1"}`)
		half, err := p.sendHalf("/validate", body)
		if err != nil {
			t.Fatal(err)
		}
		defer half.connection.Close()
		connections = append(connections, half)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	var answered, refusedConnections atomic.Int64
	broken := make(chan time.Time, 4)
	for worker := range 4 {
		c := webhookClient(true)
		wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := review(fmt.Sprintf("load-%d-%d", worker, i), ns, "x", true, `{"nvidia.com/gpu":"1"}`)
				answer, err := p.post(c, "/validate", []byte(body))
				switch {
				case err == nil && (answer.status == http.StatusOK || answer.status == http.StatusServiceUnavailable):
					answered.Add(1)
				case err == nil:
					t.Errorf("during the drain: %d %s", answer.status, answer.body)
				case errors.Is(err, syscall.ECONNREFUSED):
					refusedConnections.Add(1)
					return
				default:
					broken <- time.Now()
					return
				}
			}
		})
	}
	s.eventually("load arrives", func() error {
		if answered.Load() < 20 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := p.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.eventually("the drain has begun", func() error {
		if _, err := p.fetch("/readyz"); err == nil {
			return errors.New("still ready")
		}
		return nil
	})
	for i, half := range connections {
		status, err := half.finish()
		if err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("request %d, in flight at the signal: status %d, %v", i, status, err)
		}
	}
	select {
	case <-p.process.Done():
		if err := p.process.Err(); err != nil {
			t.Errorf("gpuquota ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("gpuquota does not end")
	}
	ended := time.Now()
	cancel()
	wait.Wait()
	close(broken)
	for at := range broken {
		// Only the end of the listener may break connections: those that it had not accepted.
		if at.Before(ended.Add(-time.Second)) {
			t.Errorf("a connection broke %v before the end", ended.Sub(at))
		}
	}
	t.Logf("%d requests answered, %d found the port closed", answered.Load(), refusedConnections.Load())
}

// What manifests/ holds is accepted by a real API server.
func TestManifests(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	// A dry run creates no namespace for what follows it.
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", systemNamespace)
	if out, err := s.kubectl(namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	out, err := s.kubectl("", "apply", "--dry-run=server", "-f", manifestDir())
	if err != nil {
		t.Fatalf("kubectl apply --dry-run=server: %v\n%s", err, out)
	}
	if strings.Contains(out, "Warning") {
		t.Errorf("the API server warns: %s", out)
	}
	entries := map[string]string{}
	for _, webhook := range (&program{scope: s, namespace: systemNamespace}).registration().Webhooks {
		path := *webhook.ClientConfig.URL
		timeout := "none"
		if webhook.TimeoutSeconds != nil {
			timeout = fmt.Sprint(*webhook.TimeoutSeconds)
		}
		entries[webhook.Name] = fmt.Sprintf("%s %s %s %s", path, *webhook.FailurePolicy, timeout, *webhook.SideEffects)
	}
	for name, want := range map[string]string{
		"quota.gpuquota.io":   "/validate Fail 10 NoneOnDryRun",
		"binding.gpuquota.io": "/validate Ignore 3 NoneOnDryRun",
		"policy.gpuquota.io":  "/validate-policy Ignore 3 None",
	} {
		if entries[name] != want {
			t.Errorf("%s: %q, want %q", name, entries[name], want)
		}
	}
	// The sample policy is one that the program accepts.
	for _, object := range s.manifests(systemNamespace) {
		if sample, ok := object.(*corev1.ConfigMap); ok && sample.Name == policyName {
			p := s.start(policyText("tenants: []\n"))
			if err := p.tryPolicy(sample.Data[policyKey], metav1.DryRunAll); err != nil {
				t.Errorf("the sample policy: %v", err)
			}
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	policy := policyText(onlyA100, ns, 4)
	p := s.start(policy)
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustRefuse(ns, newPod("five", 5, on(a100)), "may hold 4 A100 GPUs and holds 1")
	p.waitUsage("team-a", "A100", "used=1 bound=1")
	p.checkMetricsPage()
	page, err := p.fetch("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for series, want := range map[string]float64{
		`gpuquota_limit_gpus{tenant="team-a",class="A100"}`:                 4,
		`gpuquota_used_gpus{tenant="team-a",class="A100",state="bound"}`:    1,
		`gpuquota_used_gpus{tenant="team-a",class="A100",state="reserved"}`: 0,
		`gpuquota_policy_last_reload_successful`:                            1,
	} {
		if value, found := metric(page, series); !found || value != want {
			t.Errorf("%s is %v (found: %v), want %v", series, value, found, want)
		}
	}
	for _, name := range []string{"gpuquota_reviews_total", "gpuquota_review_duration_seconds_count", "gpuquota_build_info",
		"gpuquota_ledger_drift_total"} {
		if _, found := metric(page, name); !found {
			t.Errorf("no %s", name)
		}
	}
	if strings.Contains(page, `"one"`) {
		t.Error("a metric names a pod")
	}
	usage, err := p.usage()
	if err != nil {
		t.Fatal(err)
	}
	if !usage.Synced || len(usage.Tenants) != 1 || usage.Tenants[0].Mode != "enforce" || !strings.Contains(page, usage.PolicyHash) {
		t.Errorf("usage: %+v", usage)
	}
	raw, err := p.fetch("/usage")
	if err != nil || !json.Valid([]byte(raw)) {
		t.Errorf("/usage: %v %s", err, raw)
	}
	if strings.Contains(raw, `"one"`) {
		t.Error("/usage names a pod to an anonymous caller")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if _, err := p.fetch(path); err != nil {
			t.Error(err)
		}
	}
	if status, _, err := p.get("/elsewhere"); err != nil || status != http.StatusNotFound {
		t.Errorf("/elsewhere: %d %v", status, err)
	}
}
