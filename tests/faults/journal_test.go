package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	journalMost = 128 << 10 // of the content of one write
	// journalAround is what the rest of the object may take.
	journalAround = 4 << 10
	journalRate   = 256 << 10 // bytes a second, averaged over a minute
)

// journalWrites is what became of the journal, by every write of it that etcd has.
type journalWrites struct {
	mu       sync.Mutex
	at       []time.Time
	sizes    []int // of the stored objects
	contents []int // of what is in them
	failure  error
}

func (j *journalWrites) take(event etcdEvent) error {
	if event.Type == "DELETE" {
		return nil
	}
	content, found := bytes.CutPrefix(event.KV.Value, storedMagic)
	if !found {
		return fmt.Errorf("not stored as protobuf: %.16q", event.KV.Value)
	}
	var unknown runtime.Unknown
	var object corev1.ConfigMap
	if err := unknown.Unmarshal(content); err != nil {
		return err
	}
	if err := object.Unmarshal(unknown.Raw); err != nil {
		return err
	}
	size := 0
	for key, value := range object.Data {
		size += len(key) + len(value)
	}
	for key, value := range object.BinaryData {
		size += len(key) + len(value)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at = append(j.at, time.Now())
	j.sizes = append(j.sizes, len(event.KV.Value))
	j.contents = append(j.contents, size)
	return nil
}

// mostInAMinute gives the most bytes that were stored within one minute.
func (j *journalWrites) mostInAMinute() (most int) {
	sum, first := 0, 0
	for i, at := range j.at {
		sum += j.sizes[i]
		for at.Sub(j.at[first]) > time.Minute {
			sum -= j.sizes[first]
			first++
		}
		most = max(most, sum)
	}
	return most
}

func (w *world) watchJournal() *journalWrites {
	w.Helper()
	j := &journalWrites{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := etcd{w.cluster.EtcdURL}.watch(ctx, "/registry/configmaps/"+systemNamespace+"/"+journalName, 1, j.take)
		j.mu.Lock()
		defer j.mu.Unlock()
		if ctx.Err() == nil {
			j.failure = fmt.Errorf("the watch of the test ended: %w", err)
		}
	}()
	w.Cleanup(func() {
		cancel()
		<-done
		if j.failure != nil {
			w.Error(j.failure)
		}
	})
	return j
}

// saysWhatToDo finds in an error what its reader can do about it.
var saysWhatToDo = regexp.MustCompile(`(?i)\b(again|retry|wait)\b`)

// With the leader's watch of pods stopped, no reservation is seen. The journal stays within its bounds
// and nobody is left without an answer. For 20 s, or a minute when -duration asks for a long run.
func TestJournalBounds(t *testing.T) {
	needNamespaces(t)
	held := 20 * time.Second
	if *duration > 0 {
		held = min(*duration, time.Minute)
	}
	const users, tenants = 50, 10
	seed := newSeed(t)
	w := newWorld(t, "a100=1x8xA100-80GB")
	policy := policyText("tenants:\n")
	for i := range tenants {
		w.createNamespace(fmt.Sprintf("t-%d", i), nil)
		policy += fmt.Sprintf("  - {name: team-%d, namespaces: [t-%d], quota: {A100: {gpus: 1000000}}}\n", i, i)
	}
	w.allowUsers()
	w.applyPolicy(policy)
	journal := w.watchJournal()
	replicas := 1
	if *electing {
		replicas = 2
	}
	w.startReplicas(replicas)
	w.waitPolicy(policy)
	w.register()
	leader := w.leader()
	if leader == nil {
		t.Fatal("nobody leads")
	}
	sizeBefore, inUseBefore := w.etcdSize()

	leader.proxy.Hold(podWatch)
	begin := time.Now()
	var told answers
	var wait sync.WaitGroup
	create := func(user int) func(name string) error {
		client, namespace := w.user(fmt.Sprintf("user-%d", user)), fmt.Sprintf("t-%d", user%tenants)
		return func(name string) error {
			pod := gpuPod(name, 1, "A100")
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "faults.gpuquota.io/held"}}
			ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
			defer cancel()
			return createPod(ctx, client, namespace, pod)
		}
	}
	for user := range users {
		rand, try := newRand(seed, uint64(100+user)), create(user)
		wait.Go(func() {
			for i := 0; time.Since(begin) < held; i++ {
				since := time.Now()
				told.add(since, try(fmt.Sprintf("pod-%d-%d", user, i)))
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	size, inUse := w.etcdSize()
	leader.proxy.Release()

	classes := map[string]int{}
	examples := map[string]string{}
	var longest time.Duration
	for _, answer := range told.all {
		classes[answer.class]++
		longest = max(longest, answer.end.Sub(answer.begin))
		switch answer.class {
		case allowed, denied:
			continue
		case unavailable, throttled:
			if saysWhatToDo.MatchString(answer.text) {
				examples[answer.class] = answer.text
				continue
			}
		}
		if examples["unclear"] == "" {
			examples["unclear"] = answer.text
			t.Errorf("a client was told %s and not what to do: %s", answer.class, answer.text)
		}
	}
	w.logf("the watch was held for %.1f s: %d creates by %d clients: %v, the longest took %.2f s", took.Seconds(),
		len(told.all), users, classes, longest.Seconds())
	for class, text := range examples {
		w.logf("such as %s: %s", class, text)
	}
	if limit := 15 * time.Second; longest > limit {
		t.Errorf("a client waited %v, longer than the webhook's 10 s", longest)
	}
	if classes[allowed] == 0 {
		t.Error("nothing was allowed")
	}

	journal.mu.Lock()
	n := len(journal.at)
	if n == 0 {
		t.Error("nobody wrote a journal")
	} else {
		largest, content, sum := slices.Max(journal.sizes), slices.Max(journal.contents), 0
		for _, size := range journal.sizes {
			sum += size
		}
		w.logf("%d journal writes, %.2f a grant, %.0f KiB in all; largest %d bytes, of these content %d; etcd grew by %.1f MiB, what is in use of it by %.1f MiB",
			n, float64(n)/float64(max(classes[allowed], 1)), float64(sum)/1024, largest, content,
			float64(size-sizeBefore)/(1<<20), float64(inUse-inUseBefore)/(1<<20))
		if content > journalMost || largest > journalMost+journalAround {
			t.Errorf("the journal had %d bytes, its object %d; at most %d", content, largest, journalMost)
		}
		if most := journal.mostInAMinute(); most > journalRate*60 {
			t.Errorf("%d bytes of journal within one minute, at most %d", most, journalRate*60)
		}
	}
	journal.mu.Unlock()
	w.logf("etcd synced its log within %s in 99%% of the cases", w.walSync(0.99))
	if page, err := leader.page("/metrics"); err == nil {
		w.logf("%s", strings.Join(regexp.MustCompile(`(?m)^gpuquota_journal_.*$`).FindAllString(page, -1), "\n"))
	}

	// And it goes on as before.
	try := create(users)
	w.eventually("creates work again", func() error { return try(fmt.Sprintf("after-%d", time.Now().UnixNano())) })
	if w.leader() != leader {
		t.Error("somebody else leads now")
	}
}

func (w *world) etcdSize() (size, inUse int64) {
	w.Helper()
	size, inUse, err := etcd{w.cluster.EtcdURL}.size(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return size, inUse
}

// walSync reads from etcd's histogram the bucket in which a quantile lies.
func (w *world) walSync(quantile float64) string {
	w.Helper()
	response, err := http.Get(w.cluster.EtcdURL + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	page := string(content)
	all := metricOf(page, "etcd_disk_wal_fsync_duration_seconds_count")
	for _, match := range regexp.MustCompile(`(?m)^etcd_disk_wal_fsync_duration_seconds_bucket\{le="([^"]+)"\} (\S+)$`).
		FindAllStringSubmatch(page, -1) {
		var below float64
		if _, err := fmt.Sscan(match[2], &below); err == nil && all > 0 && below >= quantile*all {
			return match[1] + " s"
		}
	}
	return "unknown"
}
