package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// storedEvent is what etcd tells about a pod; of no pod: its deletion.
func storedEvent(t *testing.T, revision int, key string, pod *corev1.Pod) etcdEvent {
	t.Helper()
	line := fmt.Sprintf(`{"type":"DELETE","kv":{"key":%q,"mod_revision":"%d"}}`, "", revision)
	var event etcdEvent
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		t.Fatal(err)
	}
	event.KV.Key = []byte("/registry/pods/" + key)
	if pod != nil {
		pod.UID = types.UID("uid of " + key)
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		unknown, err := (&runtime.Unknown{Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		event.Type, event.KV.Value = "", append(append([]byte{}, storedMagic...), unknown...)
	}
	return event
}

// The watcher must see what it is there for.
func TestWatcherSeesABreach(t *testing.T) {
	one := &limit{tenant: "team-a", class: "A100", namespaces: map[string]bool{"a": true}, cap: 4}
	all := &limit{tenant: "team-a", class: "*", namespaces: map[string]bool{"a": true}, cap: 6}
	w := &watcher{world: &world{T: t, begin: time.Now()}, limits: []*limit{one, all}, pods: map[string]livePod{},
		asking: map[string]types.UID{}, stored: map[types.UID]time.Time{}, marks: map[string]bool{}}
	pod := func(gpus int, class string, phase corev1.PodPhase) *corev1.Pod {
		ret := gpuPod("pod", gpus, class)
		ret.Namespace = "a"
		ret.Status.Phase = phase
		return ret
	}
	mark := func(value string) *corev1.Pod {
		ret := gpuPod("mark-"+value, 0, "A100")
		ret.Namespace = markerNamespace
		ret.Annotations = map[string]string{capAnnotation: "team-a/A100=" + value}
		return ret
	}
	for i, step := range []struct {
		key              string
		pod              *corev1.Pod
		liveOne, liveAll int
		breach           string
	}{
		{"a/1", pod(3, "A100", corev1.PodPending), 3, 3, ""},
		{"a/1", pod(3, "A100", corev1.PodRunning), 3, 3, ""},
		{"a/2", pod(1, "A100", corev1.PodPending), 4, 4, ""},
		{"a/3", pod(1, "A100", corev1.PodPending), 5, 5, "team-a/A100 holds 5 GPUs of 4"},
		{"a/2", nil, 4, 4, ""},
		{"a/4", pod(2, "H100", corev1.PodPending), 4, 6, ""},
		{"a/5", pod(1, "H100", corev1.PodPending), 4, 7, "team-a/* holds 7 GPUs of 6"},
		{"a/5", pod(1, "H100", corev1.PodSucceeded), 4, 6, ""},
		{"a/5", nil, 4, 6, ""},
		{"markers/1", mark("2"), 4, 6, ""},
		{"a/1", pod(3, "A100", corev1.PodRunning), 4, 6, ""}, // nothing is added
		{"a/1", pod(3, "A100", corev1.PodFailed), 1, 3, ""},
		{"a/6", pod(1, "A100", corev1.PodPending), 2, 4, ""},
		{"a/7", pod(1, "A100", corev1.PodPending), 3, 5, "team-a/A100 holds 3 GPUs of 2"},
		{"markers/2", mark("5"), 3, 5, ""},
		{"a/8", pod(1, "A100", corev1.PodPending), 4, 6, ""},
	} {
		w.breaches = nil
		if err := w.take(storedEvent(t, i+1, step.key, step.pod)); err != nil {
			t.Fatal(err)
		}
		if one.live != step.liveOne || all.live != step.liveAll {
			t.Errorf("step %d: holds %d A100 and %d of all, want %d and %d", i, one.live, all.live, step.liveOne, step.liveAll)
		}
		told := strings.Join(w.breaches, "; ")
		if (told != "") != (step.breach != "") || !strings.Contains(told, step.breach) {
			t.Errorf("step %d: breaches %q, want %q", i, told, step.breach)
		}
	}
	var came []string
	for _, line := range w.lines {
		came = append(came, line.Event)
	}
	if want := "created created created deleted created created deleted created created created"; strings.Join(came, " ") != want {
		t.Errorf("pods came and went: %v, want %s", came, want)
	}
	if w.revision != 16 {
		t.Errorf("revision %d", w.revision)
	}
	if err := w.take(etcdEvent{}); err == nil {
		t.Error("an event without a revision is taken")
	}
}

func TestAnswersOfPhases(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	windows := []window{{"kill", at(10), at(20), true}, {"policy", at(18), at(30), false}}
	for _, c := range []struct {
		begin, end int
		name       string
		excused    bool
	}{
		{0, 9, "quiet", false},
		{9, 10, "kill", true},
		{19, 19, "kill", true},
		{21, 22, "policy", false},
		{5, 40, "kill", true},
		{31, 40, "quiet", false},
	} {
		name, excused := phaseOf(answer{begin: at(c.begin), end: at(c.end)}, windows)
		if name != c.name || excused != c.excused {
			t.Errorf("%d to %d: %s, excused %v, want %s, %v", c.begin, c.end, name, excused, c.name, c.excused)
		}
	}
	if class := classify(errors.New("connection refused")); class != unreachable {
		t.Errorf("a lost connection is %s", class)
	}
}

// A trace grows while it is read, and its last line may not be whole.
func TestTraceIsReadOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	reader := tracer{file: file}
	if traced, err := reader.read(); traced || err != nil {
		t.Errorf("no file: %v, %v", traced, err)
	}
	line := func(event, uid string) string {
		return fmt.Sprintf(`{"ns":1,"by":"a","event":%q,"epoch":1,"seq":2,"uids":[%q]}`, event, uid) + "\n"
	}
	whole := line("write", "x") + line("grant", "one") + line("grant", "two")
	for _, end := range []int{0, 10, len(whole) - 10, len(whole)} {
		if err := os.WriteFile(file, []byte(whole[:end]), 0o600); err != nil {
			t.Fatal(err)
		}
		traced, err := reader.read()
		if err != nil || traced != (end > 10) {
			t.Errorf("%d bytes: %v, %v", end, traced, err)
		}
		if one, two := reader.grants["one"], reader.grants["two"]; reader.grants["x"] || one != (end > 10) || two != (end == len(whole)) {
			t.Errorf("%d bytes: grants %v", end, reader.grants)
		}
	}
}
