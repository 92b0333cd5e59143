package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	probeNamespace  = "probe"
	filledNamespace = "filled"
	// askPause is between two questions to the process itself.
	askPause = 10 * time.Millisecond
	// probePause is between the begins of two creates through the Service, whatever became of the
	// ones before; so many users make them in turn.
	probePause = 20 * time.Millisecond
	probers    = 50
	// failoverMost bounds what takes seconds.
	failoverMost = 90 * time.Second
)

// fault is what happens to the leader.
type fault struct {
	name     string
	signal   syscall.Signal
	follower bool // there is one, which takes over; else the process is started again
	deleted  bool // its pod is, so that the Service has it no more, whatever its labels
}

var faults = []fault{
	{"SIGTERM, a follower", syscall.SIGTERM, true, false},
	{"deletion, a follower", syscall.SIGTERM, true, true},
	{"kill -9, a follower", syscall.SIGKILL, true, false},
	{"kill -9, a restart", syscall.SIGKILL, false, false},
}

// change of the leader. Times are since the signal; those without a comment are by the log of the
// process that leads next.
type change struct {
	synced    time.Duration // 0: it had been before
	takesOver time.Duration
	leads     time.Duration
	process   time.Duration // it grants what is asked of it directly
	slice     time.Duration // the EndpointSlice has its address
	service   time.Duration // a create goes through
	longest   time.Duration // create that succeeded
	creates   int           // all of them, those before and after the change too
	refused   figures
}

// successes are when things went well, and how things failed.
type successes struct {
	mu       sync.Mutex
	at       []time.Time
	took     []time.Duration
	failures figures
}

func (s *successes) add(begin time.Time, err error) {
	end := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failures.add(0, err)
		return
	}
	s.at = append(s.at, end)
	s.took = append(s.took, end.Sub(begin))
}

// after gives the first one that ended at that time or later.
func (s *successes) after(at time.Time) (first time.Time, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.at {
		if !end.Before(at) && (!found || end.Before(first)) {
			first, found = end, true
		}
	}
	return first, found
}

// probeService creates pods until the context ends.
func (w *world) probeService(ctx context.Context, wait *sync.WaitGroup) (*successes, error) {
	s := &successes{}
	clients := make([]rest.Interface, probers)
	w.probes++
	for i := range clients {
		var err error
		if clients[i], err = w.user(fmt.Sprintf("prober-%d-%d", w.probes, i)); err != nil {
			return nil, err
		}
	}
	prefix := fmt.Sprintf("probe-%d", w.probes)
	wait.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			wait.Go(func() {
				begin := time.Now()
				// What has begun is waited for: only then it is known how it ended.
				s.add(begin, create(context.Background(), clients[i%probers], probeNamespace,
					gpuPod(fmt.Sprintf("%s-%d", prefix, i))))
			})
			time.Sleep(probePause)
		}
	})
	return s, nil
}

// probeProcess asks the process itself until it grants a pod, which nobody will store.
func (r *replica) probeProcess(ctx context.Context) (time.Time, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.webhookCA.PEM)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: programName + "." + systemNamespace + ".svc"}}}
	defer client.CloseIdleConnections()
	r.probes++
	body, err := reviewOf(fmt.Sprintf("asker-%d", r.probes))
	if err != nil {
		return time.Time{}, err
	}
	url := fmt.Sprintf("https://%s:%d/validate?timeout=10s", r.address, webhookPort)
	last := errors.New("was not asked")
	for ctx.Err() == nil {
		if last = ask(client, url, body); last == nil {
			return time.Now(), nil
		}
		time.Sleep(askPause)
	}
	return time.Time{}, fmt.Errorf("%s grants nothing: %w", r.name, last)
}

func reviewOf(name string) ([]byte, error) {
	pod := gpuPod(name)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Namespace, pod.UID = probeNamespace, types.UID(name)
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       types.UID("review-" + name),
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Name:      name,
			Namespace: probeNamespace,
			Operation: admissionv1.Create,
			UserInfo:  authenticationv1.UserInfo{Username: name},
			Object:    runtime.RawExtension{Raw: raw},
		}})
}

func ask(client *http.Client, url string, body []byte) error {
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return err
	}
	if review.Response == nil || !review.Response.Allowed {
		return fmt.Errorf("refused: %v", review.Response)
	}
	return nil
}

// watchSlices notes when EndpointSlices of the Service came to have an address.
func (w *world) watchSlices(ctx context.Context, address string, wait *sync.WaitGroup) (*successes, error) {
	watcher, err := w.client.DiscoveryV1().EndpointSlices(systemNamespace).Watch(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + programName})
	if err != nil {
		return nil, err
	}
	s := &successes{}
	wait.Go(func() {
		defer watcher.Stop()
		had := true // what is there already is no news
		for event := range watcher.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			has := ok && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
				return slices.Contains(e.Addresses, address)
			})
			if has && !had {
				s.add(time.Now(), nil)
			}
			had = has
		}
	})
	return s, nil
}

// loggedAt gives the time of the last line with that text behind an offset of the log.
func (r *replica) loggedAt(offset int64, text string) (at time.Time, found bool) {
	content, err := os.ReadFile(r.log)
	if err != nil || int64(len(content)) < offset {
		return at, false
	}
	for line := range strings.Lines(string(content[offset:])) {
		stamp, rest, _ := strings.Cut(line, " ")
		if !strings.Contains(rest, text) {
			continue
		}
		if t, err := time.Parse("2006-01-02T15:04:05.000Z", stamp); err == nil {
			at, found = t, true
		}
	}
	return at, found
}

func (r *replica) logSize() int64 {
	info, err := os.Stat(r.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// changeLeader does that to the leader and measures until creates go through again.
func (w *world) changeLeader(ctx context.Context, f fault) (*change, error) {
	leader, err := w.waitLeader()
	if err != nil {
		return nil, err
	}
	next := leader
	if f.follower {
		next = leader.other()
	}
	var wait sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, failoverMost)
	defer wait.Wait()
	defer cancel()
	inSlice, err := w.watchSlices(ctx, next.address, &wait)
	if err != nil {
		return nil, err
	}
	service, err := w.probeService(ctx, &wait)
	if err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // connections are there, as they are in a cluster at work
	if _, works := service.after(time.Time{}); !works {
		return nil, fmt.Errorf("nothing is created before the change: %v", service.failures.example)
	}
	offset := next.logSize()

	begin := time.Now()
	if f.deleted {
		grace := int64(30)
		if err := w.client.CoreV1().Pods(systemNamespace).Delete(ctx, leader.name,
			metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			return nil, err
		}
	}
	if err := leader.process.Signal(f.signal); err != nil {
		return nil, err
	}
	if !f.follower {
		<-leader.process.Done()
		if err := leader.launch(); err != nil {
			return nil, err
		}
	}
	process, err := next.probeProcess(ctx)
	if err != nil {
		return nil, err
	}
	leads, found := next.loggedAt(offset, " leads ")
	if !found {
		return nil, fmt.Errorf("%s does not say that it leads", next.name)
	}
	var served, listed time.Time
	if err := eventually("creates go through", func() error {
		if served, found = service.after(leads); !found {
			return fmt.Errorf("%v", service.failures.example)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if listed, found = inSlice.after(begin); !found {
		listed = begin
	}
	cancel()
	wait.Wait()
	c := &change{leads: leads.Sub(begin), process: process.Sub(begin), slice: listed.Sub(begin),
		service: served.Sub(begin), longest: slices.Max(service.took), refused: service.failures,
		creates: len(service.took) + service.failures.count(func(int) bool { return true })}
	if at, found := next.loggedAt(offset, "takes the journal over"); found {
		c.takesOver = at.Sub(begin)
	}
	if at, found := next.loggedAt(offset, "every cache has synced"); found {
		c.synced = at.Sub(begin)
	}
	return c, nil
}

// restore brings back what a change took away.
func (w *world) restore(ctx context.Context, f fault) error {
	if f.follower {
		// One that was asked to leave takes its time.
		if err := eventually("one has ended", w.oneEnded); err != nil {
			return err
		}
		for _, r := range w.replicas {
			if r.running() {
				continue
			}
			if f.deleted {
				if err := r.replaceStandIn(ctx); err != nil {
					return err
				}
			}
			if err := r.launch(); err != nil {
				return err
			}
		}
	}
	for _, r := range w.replicas {
		if r.running() {
			if err := r.waitReady(); err != nil {
				return err
			}
		}
	}
	return w.empty(ctx, probeNamespace)
}

func (w *world) oneEnded() error {
	for _, r := range w.replicas {
		if !r.running() {
			return nil
		}
	}
	return errors.New("all run")
}

// changes of one kind at one size.
type changes struct {
	fault
	pods int
	all  []*change
}

func (w *world) failovers(ctx context.Context, pods, rounds int) (ret []*changes, err error) {
	for _, f := range faults {
		leader, err := w.waitLeader()
		if err != nil {
			return nil, err
		}
		if !f.follower {
			if err := leader.other().process.Stop(0); err != nil && leader.other().running() {
				return nil, err
			}
		}
		each := &changes{fault: f, pods: pods}
		for range rounds {
			c, err := w.changeLeader(ctx, f)
			if err != nil {
				return nil, fmt.Errorf("%s, %d pods: %w", f.name, pods, err)
			}
			progress("%s, %d pods: synced %s, takes over %s, leads %s, grants %s, slice %s, serves %s; longest create %s; of %d refused %v, such as: %v",
				f.name, pods, seconds(c.synced), seconds(c.takesOver), seconds(c.leads), seconds(c.process), seconds(c.slice), seconds(c.service),
				seconds(c.longest), c.creates, c.refused.refused, c.refused.example)
			each.all = append(each.all, c)
			if err := w.restore(ctx, f); err != nil {
				return nil, err
			}
			time.Sleep(time.Second) // its follower has renewed its view of the Lease
		}
		ret = append(ret, each)
	}
	return ret, w.restore(ctx, fault{follower: true})
}

// fill makes pods on the node: the first ones by 50 clients, further ones straight in etcd.
func (w *world) fill(ctx context.Context, have, want int) error {
	const byClients = 1000
	begin := time.Now()
	if have == 0 {
		if err := w.createBound(ctx, min(want, byClients)); err != nil {
			return err
		}
		have = min(want, byClients)
	}
	if want > have {
		if err := w.copyPods(ctx, want-have); err != nil {
			return err
		}
	}
	progress("%d pods are there after %s", want, seconds(time.Since(begin)))
	if err := within(5*time.Minute, "the pods are counted", func() error {
		leader, err := w.leader()
		if err != nil {
			return err
		}
		m, err := leader.metrics()
		if n := int(m.sum("gpuquota_used_gpus")); err == nil && n < want {
			err = fmt.Errorf("%d of %d", n, want)
		}
		return err
	}); err != nil {
		return err
	}
	progress("%d pods are counted after %s", want, seconds(time.Since(begin)))
	if err := w.waitCalm(); err != nil {
		return err
	}
	return w.timeList(ctx, want)
}

// copyPods stores pods while the API server is away, as it would be long in taking them in.
func (w *world) copyPods(ctx context.Context, n int) error {
	w.cluster.StopAPIServer(syscall.SIGKILL)
	if err := w.etcd.copyPod(filledNamespace, "filled-1", n); err != nil {
		return err
	}
	return w.cluster.StartAPIServer(ctx)
}

// timeList prints how long the API server takes to send all pods: nobody who starts anew has them sooner.
func (w *world) timeList(ctx context.Context, pods int) error {
	begin := time.Now()
	stream, err := w.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods").Param("resourceVersion", "0").
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	n, err := io.Copy(io.Discard, stream)
	if err == nil {
		fmt.Printf("\nA list of %d pods, %.0f MiB, takes the API server %s.\n", pods, float64(n)/(1<<20), seconds(time.Since(begin)))
	}
	return err
}

// waitCalm waits until the watches have brought all there is.
func (w *world) waitCalm() error {
	events := func() (sum float64) {
		for _, r := range w.replicas {
			if m, err := r.metrics(); err == nil {
				sum += m.sum(`gpuquota_watch_events_total{resource="pods"}`)
			}
		}
		return sum
	}
	last := events()
	return within(2*time.Minute, "the watches are calm", func() error {
		time.Sleep(3 * time.Second)
		was := last
		if last = events(); last != was {
			return fmt.Errorf("%v further events", last-was)
		}
		return nil
	})
}

func (w *world) createBound(ctx context.Context, n int) error {
	var next atomic.Int64
	errs := make(chan error, n)
	var wait sync.WaitGroup
	for i := range 50 {
		client, err := w.user(fmt.Sprintf("filler-%d", i))
		if err != nil {
			return err
		}
		wait.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				pod := gpuPod(fmt.Sprintf("filled-%d", i))
				pod.Spec.NodeName = nodeName
				errs <- createUntil(ctx, client, pod)
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func createUntil(ctx context.Context, client rest.Interface, pod *corev1.Pod) error {
	return eventually("create "+pod.Name, func() error { return create(ctx, client, filledNamespace, pod) })
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func printFailovers(all []*changes) {
	fmt.Printf("\n#### From the signal until pods are granted again, seconds\n\n")
	fmt.Printf("Medians, and in parentheses the longest. A restarted process is started at once; a kubelet would take longer. Through the Service, a create begins every %d ms; the last columns are what those were told.\n\n", probePause.Milliseconds())
	fmt.Printf("| The leader gets, there is | Pods | Synced | Takes over | Leads | Grants, at the process | In the EndpointSlice | Grants, through the Service | Longest create | 409 | 5xx |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, each := range all {
		column := func(f func(c *change) time.Duration) string {
			var values []float64
			for _, c := range each.all {
				values = append(values, f(c).Seconds())
			}
			slices.Sort(values)
			if values[len(values)-1] == 0 {
				return "–"
			}
			return fmt.Sprintf("%.2f (%.2f)", values[len(values)/2], values[len(values)-1])
		}
		total := func(is func(code int) bool) (n int) {
			for _, c := range each.all {
				n += c.refused.count(is)
			}
			return n
		}
		fmt.Printf("| %s | %d | %s | %s | %s | %s | %s | %s | %s | %d | %d |\n", each.name, each.pods,
			column(func(c *change) time.Duration { return c.synced }),
			column(func(c *change) time.Duration { return c.takesOver }),
			column(func(c *change) time.Duration { return c.leads }),
			column(func(c *change) time.Duration { return c.process }),
			column(func(c *change) time.Duration { return c.slice }),
			column(func(c *change) time.Duration { return c.service }),
			column(func(c *change) time.Duration { return c.longest }), total(isConflict), total(isServer))
	}
}
