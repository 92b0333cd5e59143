package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/trace"
)

const (
	markerNamespace = "markers"
	capAnnotation   = "faults.gpuquota.io/cap"
	gpuResource     = "nvidia.com/gpu"
)

// limit is what one tenant may hold of one class, as the watcher counts it.
type limit struct {
	tenant, class string
	namespaces    map[string]bool
	cap           int
	// share is what pods of this limit's namespaces take at the end, when every limit is used in full.
	share      int
	live, peak int
}

func (l *limit) String() string { return l.tenant + "/" + l.class }

// first gives the first of its namespaces.
func (l *limit) first() string { return slices.Min(slices.Collect(maps.Keys(l.namespaces))) }

func (l *limit) holds(namespace, class string) bool {
	return l.namespaces[namespace] && (l.class == class || l.class == "*")
}

// livePod is a stored pod that holds GPUs.
type livePod struct {
	uid              types.UID
	namespace, class string
	gpus             int
}

// watcher counts live GPUs at every revision of etcd, one change after the other, whatever the API
// server and gpuquota do meanwhile.
//
// A limit is held against each change that makes a tenant hold more. So a limit may be lowered under
// what is held; from then on nothing may be added until it fits. Pods that were allowed before may
// still be stored after: cap() is lowered by a marker in the same stream that is written only when no
// create of before is on its way.
type watcher struct {
	*world
	limits []*limit

	mu       sync.Mutex
	pods     map[string]livePod
	asking   map[string]types.UID    // by key: every pod with a GPU in its spec
	lines    []trace.Line            // when those came and went
	stored   map[types.UID]time.Time // when a pod was first seen
	marks    map[string]bool
	revision int64
	changes  int
	breaches []string
	failure  error
}

func (w *world) watchPods(limits []*limit) *watcher {
	w.Helper()
	ret := &watcher{world: w, limits: limits, pods: map[string]livePod{}, asking: map[string]types.UID{},
		stored: map[types.UID]time.Time{}, marks: map[string]bool{}}
	w.createNamespace(markerNamespace, map[string]string{scopeLabel: "false"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := etcd{w.cluster.EtcdURL}.watch(ctx, "/registry/pods/", 1, ret.take)
		ret.mu.Lock()
		defer ret.mu.Unlock()
		if ctx.Err() == nil {
			ret.failure = fmt.Errorf("the watch of the test ended: %w", err)
		}
	}()
	w.Cleanup(func() {
		cancel()
		<-done
		ret.report()
	})
	return ret
}

// demandOf is what a pod of these tests holds: they have one container and a selector.
func demandOf(pod *corev1.Pod) (gpus int, class string) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0, ""
	}
	for _, container := range pod.Spec.Containers {
		if quantity, asks := container.Resources.Limits[gpuResource]; asks {
			gpus += int(quantity.Value())
		}
	}
	for name, product := range products {
		if product == pod.Spec.NodeSelector[controlplane.LabelProduct] {
			class = name
		}
	}
	return gpus, class
}

// take counts one change.
func (w *watcher) take(event etcdEvent) error {
	revision, err := strconv.ParseInt(event.KV.Revision, 10, 64)
	if err != nil {
		return err
	}
	key := string(event.KV.Key)
	var pod *corev1.Pod
	if event.Type != "DELETE" {
		if pod, err = decodeStoredPod(event.KV.Value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision = revision
	w.changes++
	if pod != nil && pod.Namespace == markerNamespace {
		w.mark(pod)
		return nil
	}
	before := map[*limit]int{}
	if old, known := w.pods[key]; known {
		for _, l := range w.limits {
			if l.holds(old.namespace, old.class) {
				before[l] = l.live
				l.live -= old.gpus
			}
		}
		delete(w.pods, key)
	}
	w.traceStore(key, pod)
	if pod == nil {
		return nil
	}
	if _, known := w.stored[pod.UID]; !known {
		w.stored[pod.UID] = time.Now()
	}
	gpus, class := demandOf(pod)
	if gpus == 0 {
		return nil
	}
	w.pods[key] = livePod{uid: pod.UID, namespace: pod.Namespace, class: class, gpus: gpus}
	for _, l := range w.limits {
		if !l.holds(pod.Namespace, class) {
			continue
		}
		was, counted := before[l]
		if !counted {
			was = l.live
		}
		l.live += gpus
		l.peak = max(l.peak, l.live)
		if l.live > l.cap && l.live > was {
			w.breaches = append(w.breaches, fmt.Sprintf("%.1f s, revision %d: %s holds %d GPUs of %d with %s (uid %s, %d GPUs)",
				time.Since(w.begin).Seconds(), revision, l, l.live, l.cap, key, pod.UID, gpus))
		}
	}
	return nil
}

// traceStore notes for the replay of traces when a pod came or went; nil: it went.
func (w *watcher) traceStore(key string, pod *corev1.Pod) {
	note := func(event string, uid types.UID) {
		w.lines = append(w.lines, trace.Line{NS: trace.Now(), By: "etcd", Event: event, UIDs: []string{string(uid)}})
	}
	old, known := w.asking[key]
	if known && (pod == nil || pod.UID != old) {
		note("deleted", old)
		delete(w.asking, key)
	}
	if pod == nil || w.asking[key] == pod.UID {
		return
	}
	for _, container := range pod.Spec.Containers {
		if _, asks := container.Resources.Limits[gpuResource]; asks {
			note("created", pod.UID)
			w.asking[key] = pod.UID
		}
	}
}

func (w *watcher) mark(pod *corev1.Pod) {
	if w.marks[pod.Name] {
		return
	}
	w.marks[pod.Name] = true
	name, value, _ := strings.Cut(pod.Annotations[capAnnotation], "=")
	for _, l := range w.limits {
		if l.String() == name {
			l.cap, _ = strconv.Atoi(value)
		}
	}
}

// setCap changes what the watcher holds a limit to, from one place in the stream of changes on.
func (w *watcher) setCap(l *limit, gpus int) {
	w.Helper()
	name := fmt.Sprintf("mark-%d", time.Now().UnixNano())
	pod := gpuPod(name, 0, "A100")
	pod.Annotations = map[string]string{capAnnotation: fmt.Sprintf("%s=%d", l, gpus)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "faults.gpuquota.io/marker"}}
	w.eventually("a marker", func() error {
		_, err := w.client.CoreV1().Pods(markerNamespace).Create(w.Context(), pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	w.eventually("the watcher sees the marker", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.marks[name] {
			return fmt.Errorf("revision %d: %v", w.revision, w.failure)
		}
		return nil
	})
}

// storedAt says when a pod was first seen.
func (w *watcher) storedAt(uid types.UID) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known := w.stored[uid]
	return at, known
}

// holding counts the pods of the workload that hold GPUs.
func (w *watcher) holding() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods)
}

// progress is a line about now, and fails the test at once when a limit was passed.
func (w *watcher) progress() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, l := range w.limits {
		fmt.Fprintf(&b, " %s=%d/%d", l, l.live, l.cap)
	}
	return strings.TrimSpace(b.String())
}

// over says how often a limit was passed so far.
func (w *watcher) over() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.breaches)
}

func (w *watcher) report() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		w.Error(w.failure)
	}
	for i, breach := range w.breaches {
		if i == 20 {
			w.Errorf("and %d more", len(w.breaches)-i)
			break
		}
		w.Errorf("over: %s", breach)
	}
	var peaks []string
	for _, l := range w.limits {
		peaks = append(peaks, fmt.Sprintf("%s %d of %d", l, l.peak, l.cap))
	}
	w.logf("the watcher held %d changes of pods against the limits: %d breaches; most: %s",
		w.changes, len(w.breaches), strings.Join(peaks, ", "))
}
