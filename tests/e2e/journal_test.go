package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuquota.io/tests/apiproxy"
)

const (
	journalName = "gpuquota-journal"
	lateLabel   = "e2e.gpuquota.io/late"
)

func (p *program) readJournal() (*corev1.ConfigMap, error) {
	return client.CoreV1().ConfigMaps(p.namespace).Get(p.Context(), journalName, metav1.GetOptions{})
}

// inJournal says whether exactly the pods of those names are in the journal.
func (p *program) inJournal(names ...string) error {
	journal, err := p.readJournal()
	if err != nil {
		return err
	}
	var have []string
	for line := range strings.Lines(journal.Data["reservations"]) {
		var entry corev1.Pod
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		have = append(have, entry.Name)
	}
	slices.Sort(have)
	slices.Sort(names)
	if !slices.Equal(have, names) {
		return fmt.Errorf("the journal has %q, want %q", have, names)
	}
	return nil
}

func (p *program) waitJournal(names ...string) {
	p.Helper()
	p.eventually("the journal is as it should be", func() error { return p.inJournal(names...) })
}

// journalWrites selects the program's writes of the journal.
func (p *program) journalWrites() apiproxy.Match {
	return apiproxy.Writes("/api/v1/namespaces/"+p.namespace+"/configmaps", journalName)
}

// waitNoReservations waits until no reservation is left in the journal. A pod that was seen and deleted
// just before a kill may else be restored as a reservation, for one time to live: whoever starts can't
// know that it was seen.
func (p *program) waitNoReservations() {
	p.Helper()
	p.eventually("the journal is empty", func() error { return p.metricIs("gpuquota_journal_reservations", 0) })
}

// waitGrants waits until the API server has the answers to so many grants, of which it may still hold
// back the pods.
func (p *program) waitGrants(want float64) {
	p.Helper()
	p.eventually("the grants are answered", func() error { return p.metricIs("gpuquota_journal_grants_total", want) })
	time.Sleep(100 * time.Millisecond)
}

// createLater creates a pod in the background.
func (s *scope) createLater(namespace string, pod *corev1.Pod) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.create(namespace, pod)
		done <- err
	}()
	return done
}

// wait waits for the end of something in the background.
func (s *scope) wait(what string, done <-chan error) error {
	s.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		s.Fatalf("%s: not within %v", what, patience)
		return nil
	}
}

// lateStore is a webhook beside gpuquota that answers about the pods with lateLabel when it is told to.
// The API server asks all webhooks at once and stores a pod when the last has answered.
type lateStore struct {
	mu     sync.Mutex
	gate   chan struct{} // nil: open
	refuse bool
	asked  int
}

// close keeps pods from being stored until open is called.
func (l *lateStore) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
}

// open lets the pods that wait be stored, or has them refused.
func (l *lateStore) open(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
	if l.gate != nil {
		close(l.gate)
		l.gate = nil
	}
}

func (l *lateStore) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(io.LimitReader(request.Body, 1<<20)).Decode(&review); err != nil || review.Request == nil {
		http.Error(writer, "not a review", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.asked++
	gate := l.gate
	l.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-request.Context().Done():
		}
	}
	l.mu.Lock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !l.refuse}
	l.mu.Unlock()
	review.Request = nil
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(&review)
}

// late makes the store of a pod wait for the test's webhook.
func late(pod *corev1.Pod) { pod.Labels = map[string]string{lateLabel: "true"} }

func (s *scope) startLateStore(namespace string) *lateStore {
	s.Helper()
	pair, err := webhookCA.Server("late-store", "127.0.0.1")
	if err != nil {
		s.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		s.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	l := &lateStore{}
	server := &http.Server{Handler: l, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	url := "https://" + listener.Addr().String()
	fail, none, seconds := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(30)
	all := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	name := "e2e-late-" + s.id
	if _, err := all.Create(s.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "late.e2e.gpuquota.io",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhookCA.PEM},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{scopeLabel: s.id}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{lateLabel: "true"}},
			FailurePolicy:     &fail,
			SideEffects:       &none,
			TimeoutSeconds:    &seconds,
		}},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		l.open(true)
		_ = server.Close()
	})
	s.deleteLater("the late webhook", func(ctx context.Context) error {
		return all.Delete(ctx, name, metav1.DeleteOptions{})
	})
	s.eventually("the late webhook is asked", func() error {
		if _, err := client.CoreV1().Pods(namespace).Create(s.Context(), newPod("probe", 0, late),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.asked == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return l
}

// Nobody is told yes before the journal has it.
func TestGrantIsNotedFirst(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 3), withProxy)
	p.proxy.Hold(podWatch)
	s.mustCreate(ns, newPod("one", 1, on(a100), held))
	if err := p.inJournal("one"); err != nil {
		t.Errorf("right after the answer: %v", err)
	}
	writes := p.journalWrites()
	p.proxy.Hold(func(r *http.Request) bool { return podWatch(r) || writes(r) })
	answered := s.createLater(ns, newPod("two", 1, on(a100), held))
	p.waitJournal("one", "two")
	// Stored, but the program was not told so.
	s.throughout(300*time.Millisecond, "no answer before the write is known to have succeeded", func() error {
		select {
		case err := <-answered:
			return fmt.Errorf("answered: %v", err)
		default:
			return nil
		}
	})
	p.proxy.Hold(podWatch)
	if err := s.wait("the create", answered); err != nil {
		t.Fatal(err)
	}
	if err := p.usageIs("team-a", "A100", "used=0 reserved=2 free=1"); err != nil {
		t.Error(err)
	}
	s.mustRefuse(ns, newPod("three", 2, on(a100)), "may hold 3 A100 GPUs and holds 2 (0 bound, 0 pending, 2 reserved)")
	// A refusal needs no entry, and neither do pods without GPUs.
	if err := p.inJournal("one", "two"); err != nil {
		t.Error(err)
	}
	p.proxy.Release()
	p.waitUsage("team-a", "A100", "used=2 reserved=0 pending=2")
	p.waitJournal()
}

// Killed after its answer and before the pod is stored: who starts again still counts it.
func TestKillBeforeStore(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withTTL(3))
	store := s.startLateStore(ns)
	store.close()
	answered := s.createLater(ns, newPod("late", 3, on(a100), late))
	p.waitJournal("late")
	p.waitGrants(1)
	p.kill()
	p.waitLeads()
	if err := p.usageIs("team-a", "A100", "used=0 reserved=3 free=1"); err != nil {
		t.Errorf("after the kill: %v", err)
	}
	s.mustRefuse(ns, newPod("over", 2, on(a100)), "may hold 4 A100 GPUs and holds 3 (0 bound, 0 pending, 3 reserved)")
	s.mustRun(ns, newPod("fits", 1, on(a100)))
	store.open(false)
	if err := s.wait("the late create", answered); err != nil {
		t.Fatal(err)
	}
	p.waitUsage("team-a", "A100", "used=4 reserved=0 free=0")
	p.waitJournal()

	// One that is refused in the end is given back once its time to live is over, and no earlier.
	s.deletePod(ns, "late")
	p.waitUsage("team-a", "A100", "used=1 reserved=0")
	store.close()
	answered = s.createLater(ns, newPod("never", 3, on(a100), late))
	p.waitJournal("never")
	p.waitGrants(2)
	p.kill()
	restarted := time.Now()
	p.waitLeads()
	store.open(true)
	if err := s.wait("the refused create", answered); err == nil {
		t.Error("the test's webhook did not refuse")
	}
	p.waitUsage("team-a", "A100", "used=1 reserved=0 free=3")
	if after := time.Since(restarted); after < p.ttl {
		t.Errorf("the reservation was given back %v after the restart", after)
	}
	p.waitJournal()
}

// waitLeads waits until the program decides.
func (p *program) waitLeads() {
	p.Helper()
	p.eventually("it leads", func() error { return p.metricIs("gpuquota_leader", 1) })
}

// refusedNow asks the program itself, since the API server asks again and again.
func (p *program) refusedNow(namespace, name string, wants ...string) {
	p.Helper()
	client := webhookClient(true)
	answer, err := p.post(client, "/validate", []byte(review(p.id+name, namespace, name, false, `{"nvidia.com/gpu":"1"}`)))
	if err != nil {
		p.Fatal(err)
	}
	if answer.status != http.StatusServiceUnavailable || answer.allowed {
		p.Errorf("answered %d: %s", answer.status, answer.body)
	}
	if answer.header.Get("Retry-After") == "" {
		p.Errorf("no Retry-After: %v", answer.header)
	}
	for _, want := range wants {
		if !strings.Contains(answer.body, want) {
			p.Errorf("no %q in %s", want, answer.body)
		}
	}
}

// othersPass checks that what needs no journal is answered at once.
func (p *program) othersPass(namespace string) {
	p.Helper()
	begin := time.Now()
	p.mustCreate(namespace, newPod("cpu", 0, generated))
	p.mustRefuse(namespace, newPod("large", 1000, on(a100)), "this pod asks for 1000")
	if took := time.Since(begin); took > 2*time.Second {
		p.Errorf("a pod without GPUs and a refusal took %v", took)
	}
}

func (p *program) editJournal(data map[string]string) {
	p.Helper()
	if err := p.patch(client.CoreV1().ConfigMaps(p.namespace), journalName, data); err != nil {
		p.Fatal(err)
	}
}

func TestJournalDeleted(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withTTL(5))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	p.waitNoReservations()
	if err := client.CoreV1().ConfigMaps(p.namespace).Delete(t.Context(), journalName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p.refusedNow(ns, "asked", "cannot note reservations", "try again")
	answered := s.createLater(ns, newPod("two", 1, on(a100)))
	s.eventually("the journal is written anew", func() error { return p.inJournal() })
	p.othersPass(ns)
	s.throughout(p.ttl-time.Since(begin)-time.Second/2, "nothing is granted", func() error {
		if err := p.metricIs("gpuquota_journal_held", 1); err != nil {
			return err
		}
		return p.usageIs("team-a", "A100", "used=1 reserved=0")
	})
	// The API server asks again until then.
	if err := s.wait("the create", answered); err != nil {
		t.Errorf("the pause was longer than a create waits: %v", err)
	}
	if after := time.Since(begin); after < p.ttl {
		t.Errorf("granted after %v", after)
	}
	if err := p.metricIs("gpuquota_journal_held", 0); err != nil {
		t.Error(err)
	}
	p.waitUsage("team-a", "A100", "used=2 reserved=0")
	p.waitEvent(p.namespace, "ConfigMap", journalName, "JournalLost", "was deleted", "5 s")
}

// What people do to the journal costs a moment, never a GPU.
func TestJournalEdited(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 8), withTTL(4), withProxy)
	p.proxy.Hold(podWatch)
	s.mustCreate(ns, newPod("one", 1, on(a100), held))
	p.editJournal(map[string]string{"reservations": ""})
	begin := time.Now()
	s.mustCreate(ns, newPod("two", 1, on(a100), held))
	if err := p.inJournal("one", "two"); err != nil {
		t.Errorf("lines were removed: %v", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("the create after the lines were removed took %v", took)
	}
	if err := p.usageIs("team-a", "A100", "reserved=2"); err != nil {
		t.Error(err)
	}

	s.waitAll(ns, p, 2)

	// As if another had taken over: steps down, and takes over in turn.
	journal, err := p.readJournal()
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := strconv.ParseUint(journal.Data["epoch"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.editJournal(map[string]string{"epoch": strconv.FormatUint(epoch+7, 10), "holder": "somebody"})
	begin = time.Now()
	s.mustCreate(ns, newPod("three", 1, on(a100), held))
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the create after the epoch was changed took %v", took)
	}
	if journal, err = p.readJournal(); err != nil {
		t.Fatal(err)
	}
	if got, err := strconv.ParseUint(journal.Data["epoch"], 10, 64); err != nil || got <= epoch+7 || journal.Data["holder"] != p.identity {
		t.Errorf("epoch %q of %q after %d of somebody else", journal.Data["epoch"], journal.Data["holder"], epoch+7)
	}
	if err := p.metricIs("gpuquota_leader_terms_total", 2); err != nil {
		t.Error(err)
	}
	s.waitAll(ns, p, 3)

	for name, data := range map[string]map[string]string{
		"another format": {"format": "99"},
		"no number":      {"epoch": "many"},
		"nothing":        {"format": "", "epoch": "", "seq": "", "holder": "", "reservations": "\x01garbage"},
	} {
		p.editJournal(data)
		begin = time.Now()
		p.refusedNow(ns, "asked-"+notLower.ReplaceAllString(name, ""), "cannot note reservations")
		s.eventually(name+": the journal is written anew", func() error {
			journal, err := p.readJournal()
			if err == nil && (journal.Data["format"] != "1" || journal.Data["holder"] != p.identity) {
				err = fmt.Errorf("%q", journal.Data)
			}
			return err
		})
		created := s.mustCreate(ns, newPod("after", 1, on(a100), generated, held))
		if after := time.Since(begin); after < p.ttl || after > p.ttl+3*time.Second {
			t.Errorf("%s: granted after %v", name, after)
		}
		s.deletePod(ns, created.Name)
		s.waitAll(ns, p, 3)
	}
	p.waitEvent(p.namespace, "ConfigMap", journalName, "JournalLost", "was replaced")
}

// waitAll lets the watch go on until so many GPUs are used, by what exists.
func (s *scope) waitAll(namespace string, p *program, want int) {
	s.Helper()
	p.proxy.Release()
	p.waitUsage("team-a", "A100", fmt.Sprintf("used=%d reserved=0", want))
	p.waitJournal()
}

func TestJournalNotWritable(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	p.waitNoReservations()
	roles := client.RbacV1().Roles(p.namespace)
	rename := func(from, to string) {
		t.Helper()
		s.eventually("change the role", func() error {
			role, err := roles.Get(t.Context(), "gpuquota", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, rule := range role.Rules {
				for i, name := range rule.ResourceNames {
					if name == from {
						rule.ResourceNames[i] = to
					}
				}
			}
			_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
			return err
		})
	}
	// The API server learns of a role by a watch of its own.
	allowed := func(want bool) {
		t.Helper()
		s.eventually("the API server knows the role", func() error {
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + p.namespace + ":" + p.account,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: p.namespace, Verb: "update",
						Resource: "configmaps", Name: journalName},
				}}, metav1.CreateOptions{})
			if err == nil && review.Status.Allowed != want {
				err = fmt.Errorf("allowed: %v", review.Status.Allowed)
			}
			return err
		})
	}
	rename(journalName, "nothing")
	allowed(false)
	_, err := s.create(ns, newPod("two", 1, on(a100)))
	if err == nil {
		t.Fatal("granted without a journal")
	}
	t.Logf("a user is told: %v", err)
	for _, want := range []string{"cannot note reservations", "try again", "gpuquota-status"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in the error: %v", want, err)
		}
	}
	p.othersPass(ns)
	if lines := p.logLines("the journal could not be written"); len(lines) == 0 || !strings.Contains(lines[0], "forbidden") {
		t.Errorf("the log does not say why: %q", lines)
	}
	s.eventually("the status says why", func() error {
		status, err := p.status()
		if err != nil {
			return err
		}
		if !containsAll(status, "journal:", "forbidden", journalName) {
			return fmt.Errorf("%s", status)
		}
		return nil
	})
	if err := p.usageIs("team-a", "A100", "used=1 reserved=0"); err != nil {
		t.Error(err)
	}
	rename("nothing", journalName)
	allowed(true)
	s.mustRun(ns, newPod("two", 1, on(a100)))
	p.waitUsage("team-a", "A100", "used=2 reserved=0")
	s.eventually("the status has no complaint", func() error {
		status, err := p.status()
		if err == nil && strings.Contains(status, "forbidden") {
			err = fmt.Errorf("%s", status)
		}
		return err
	})
}

// Whatever the API server answers to a write of the journal, nobody is charged twice, the limit holds,
// and users see nothing but their pods.
func TestJournalWriteFaults(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(onlyA100, ns, 4), withProxy)
	writes := p.journalWrites()
	status := func(n, code int) func() {
		return func() { p.proxy.Answer(apiproxy.First(n, writes), code) }
	}
	for _, tc := range []struct {
		name  string
		begin func()
		most  time.Duration
	}{
		{"429", status(2, http.StatusTooManyRequests), 6 * time.Second},
		{"500", status(3, http.StatusInternalServerError), 4 * time.Second},
		{"503", status(3, http.StatusServiceUnavailable), 4 * time.Second},
		{"504", status(3, http.StatusGatewayTimeout), 4 * time.Second},
		{"409", status(3, http.StatusConflict), 4 * time.Second},
		{"answers lost", func() { p.proxy.Break(apiproxy.First(4, writes)) }, 4 * time.Second},
		// Given up after 5 s; the first write arrives while the second is on its way.
		{"late arrival", func() { p.proxy.Late(writes, 5600*time.Millisecond, 1200*time.Millisecond) }, 9 * time.Second},
	} {
		before := p.proxy.Disturbed()
		tc.begin()
		begin := time.Now()
		var mu sync.Mutex
		var wait sync.WaitGroup
		allowed := 0
		for i := range 7 {
			wait.Go(func() {
				_, err := s.create(ns, newPod(fmt.Sprintf("pod-%d", i), 1, on(a100), held))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					allowed++
				} else if !strings.Contains(err.Error(), "team-a may hold 4 A100 GPUs and holds 4") {
					t.Errorf("%s: a user is told: %v", tc.name, err)
				}
			})
		}
		wait.Wait()
		took := time.Since(begin)
		p.proxy.Release()
		if n := len(s.pods(ns)); allowed != 4 || n != 4 {
			t.Errorf("%s: %d were allowed, %d exist, want 4", tc.name, allowed, n)
		}
		if took > tc.most {
			t.Errorf("%s: took %v", tc.name, took)
		}
		if p.proxy.Disturbed() == before {
			t.Errorf("%s: no write was disturbed", tc.name)
		}
		t.Logf("%s: %d writes disturbed, all answered after %v", tc.name, p.proxy.Disturbed()-before, took)
		p.waitUsage("team-a", "A100", "used=4 reserved=0 pending=4 free=0")
		for _, pod := range s.pods(ns) {
			s.deletePod(ns, pod.Name)
		}
		p.waitUsage("team-a", "A100", "used=0 reserved=0 free=4")
		p.waitJournal()
	}
	if err := p.metricIs("gpuquota_leader_terms_total", 1); err != nil {
		t.Error(err)
	}
}
