package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// mode is who counts the GPUs of a create.
type mode int

const (
	none mode = iota
	native
	quota
	modes
)

const namespacesEach = 10

func (m mode) String() string {
	return [...]string{"no webhook", "native ResourceQuota", "gpuquota"}[m]
}

func (m mode) namespace(i int) string {
	return fmt.Sprintf("%s-%d", [...]string{"none", "native", "quota"}[m], i)
}

// load is how pods are created: by so many clients at once, which share users and namespaces.
type load struct {
	clients, users, namespaces int
	creates, rounds            int // creates of one round
}

func (l load) String() string {
	plural := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return plural(l.clients, "client") + ", " + plural(l.users, "user") + ", " + plural(l.namespaces, "namespace")
}

// figures of all rounds of one mode under one load.
type figures struct {
	took    []time.Duration // of the creates that succeeded
	seconds float64
	refused map[int]int // by status code; 0: none came
	example error

	// of the journal, of the reviews in gpuquota, of the calls that the API server made for them
	writes, grants, writeSeconds, bytesMost float64
	reviews, reviewSeconds                  float64
	calls, callSeconds                      float64
}

func (f *figures) add(took time.Duration, err error) {
	if err == nil {
		f.took = append(f.took, took)
		return
	}
	code := 0
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	if f.refused == nil {
		f.refused = map[int]int{}
	}
	f.refused[code]++
	f.example = err
}

func (f *figures) mean() time.Duration {
	var sum time.Duration
	for _, took := range f.took {
		sum += took
	}
	return sum / time.Duration(max(len(f.took), 1))
}

func (f *figures) quantile(q float64) time.Duration {
	if len(f.took) == 0 {
		return 0
	}
	slices.Sort(f.took)
	return f.took[min(int(q*float64(len(f.took))), len(f.took)-1)]
}

// count of the refusals with such a status code.
func (f *figures) count(is func(code int) bool) (n int) {
	for code, times := range f.refused {
		if is(code) {
			n += times
		}
	}
	return n
}

func isConflict(code int) bool { return code == http.StatusConflict }
func isServer(code int) bool   { return code >= 500 || code == 0 }
func isOther(code int) bool    { return !isConflict(code) && !isServer(code) }

// measured is what became of one load.
type measured struct {
	load
	figures [modes]figures
}

// measure runs the rounds of a load, the modes in turn, each round beginning with another, so that a
// machine that gets slower does so for all.
func (w *world) measure(ctx context.Context, l load) (*measured, error) {
	m := &measured{load: l}
	clients := make([]rest.Interface, l.users)
	for i := range clients {
		var err error
		if clients[i], err = w.user(fmt.Sprintf("user-%d", i)); err != nil {
			return nil, err
		}
	}
	for round := range l.rounds {
		for i := range modes {
			mode := (mode(round) + i) % modes
			if err := w.round(ctx, l, mode, clients, round, &m.figures[mode]); err != nil {
				return nil, fmt.Errorf("%v, %v: %w", l, mode, err)
			}
		}
	}
	for i := range m.figures {
		if f := &m.figures[i]; f.example != nil {
			progress("%v, %v: refused %v, such as: %v", l, mode(i), f.refused, f.example)
		}
	}
	return m, nil
}

func (w *world) round(ctx context.Context, l load, mode mode, clients []rest.Interface, round int, f *figures) error {
	leader, err := w.leader()
	if err != nil {
		return err
	}
	before, err := leader.metrics()
	if err != nil {
		return err
	}
	beforeCalls, err := w.apiMetrics(ctx)
	if err != nil {
		return err
	}
	stop := func() float64 { return 0 }
	if mode == quota {
		stop = leader.watchJournal()
	}
	w.createAll(ctx, l, mode, clients, round, f)
	f.bytesMost = max(f.bytesMost, stop())
	after, err := leader.metrics()
	if err != nil {
		return err
	}
	afterCalls, err := w.apiMetrics(ctx)
	if err != nil {
		return err
	}
	if mode == quota {
		added := func(series string) float64 { return after.sum(series) - before.sum(series) }
		f.writes += added(`gpuquota_journal_writes_total{outcome="written"}`)
		f.grants += added("gpuquota_journal_grants_total")
		f.writeSeconds += added("gpuquota_journal_write_duration_seconds_sum")
		f.reviews += added("gpuquota_review_duration_seconds_count")
		f.reviewSeconds += added("gpuquota_review_duration_seconds_sum")
		called := func(series string) float64 { return afterCalls.sum(series) - beforeCalls.sum(series) }
		f.calls += called("apiserver_admission_webhook_admission_duration_seconds_count")
		f.callSeconds += called("apiserver_admission_webhook_admission_duration_seconds_sum")
	}
	return w.clear(ctx, l, mode)
}

func (w *world) createAll(ctx context.Context, l load, mode mode, clients []rest.Interface, round int, f *figures) {
	var next atomic.Int64
	var wait sync.WaitGroup
	var mu sync.Mutex
	begin := time.Now()
	for client := range l.clients {
		wait.Go(func() {
			var mine figures
			user, namespace := clients[client%l.users], mode.namespace(client%l.namespaces)
			for {
				i := next.Add(1)
				if i > int64(l.creates) {
					break
				}
				pod := gpuPod(fmt.Sprintf("pod-%d-%d", round, i))
				since := time.Now()
				err := create(ctx, user, namespace, pod)
				mine.add(time.Since(since), err)
			}
			mu.Lock()
			defer mu.Unlock()
			f.took = append(f.took, mine.took...)
			for code, n := range mine.refused {
				if f.refused == nil {
					f.refused = map[int]int{}
				}
				f.refused[code] += n
				f.example = mine.example
			}
		})
	}
	wait.Wait()
	f.seconds += time.Since(begin).Seconds()
}

// clear deletes the pods of a round and waits until nobody counts them any more.
func (w *world) clear(ctx context.Context, l load, mode mode) error {
	for i := range l.namespaces {
		if err := w.empty(ctx, mode.namespace(i)); err != nil {
			return err
		}
	}
	return eventually("the pods are gone", func() error {
		switch mode {
		case native:
			for i := range l.namespaces {
				if err := w.nativeIsEmpty(ctx, mode.namespace(i)); err != nil {
					return err
				}
			}
		case quota:
			leader, err := w.leader()
			if err != nil {
				return err
			}
			m, err := leader.metrics()
			if err != nil {
				return err
			}
			if used := m.sum("gpuquota_used_gpus"); used != 0 {
				return fmt.Errorf("%v GPUs used", used)
			}
		}
		return nil
	})
}

// watchJournal looks at the size of the journal until it is stopped, which gives the largest.
func (r *replica) watchJournal() func() float64 {
	ctx, cancel := context.WithCancel(context.Background())
	var most float64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if m, err := r.metrics(); err == nil {
				most = max(most, m.sum("gpuquota_journal_bytes"))
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() float64 {
		cancel()
		<-done
		return most
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

func printLoads(all []*measured) {
	fmt.Printf("\n#### Time of one pod create\n\n")
	fmt.Printf("| Load | Who counts | Creates | mean ms | p50 ms | p99 ms | Creates/s | 409 | 5xx | Other refusals |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, m := range all {
		for i := range m.figures {
			f := &m.figures[i]
			fmt.Printf("| %v | %v | %d | %s | %s | %s | %.0f | %d | %d | %d |\n", m.load, mode(i), len(f.took),
				ms(f.mean()), ms(f.quantile(0.5)), ms(f.quantile(0.99)), float64(len(f.took))/f.seconds,
				f.count(isConflict), f.count(isServer), f.count(isOther))
		}
	}
	fmt.Printf("\n#### Added to it (goal: gpuquota / native at most 1)\n\n")
	fmt.Printf("| Load | native mean, p50 ms | gpuquota mean, p50 ms | / native, mean | / native, p50 |\n|---|---|---|---|---|\n")
	for _, m := range all {
		base := &m.figures[none]
		added := func(mode mode) (mean, p50 time.Duration) {
			f := &m.figures[mode]
			return f.mean() - base.mean(), f.quantile(0.5) - base.quantile(0.5)
		}
		nativeMean, nativeP50 := added(native)
		ourMean, ourP50 := added(quota)
		fmt.Printf("| %v | %s, %s | %s, %s | %.2f | %.2f |\n", m.load, ms(nativeMean), ms(nativeP50), ms(ourMean), ms(ourP50),
			float64(ourMean)/float64(nativeMean), float64(ourP50)/float64(nativeP50))
	}
	fmt.Printf("\n#### The journal and the way to it\n\n")
	fmt.Printf("| Load | Grants | Writes | Writes / grant | Largest seen, bytes | One write, mean ms | A review in gpuquota, mean ms | The API server's call for it, mean ms |\n|---|---|---|---|---|---|---|---|\n")
	for _, m := range all {
		f := &m.figures[quota]
		fmt.Printf("| %v | %.0f | %.0f | %.2f | %.0f | %.2f | %.2f | %.2f |\n", m.load, f.grants, f.writes,
			f.writes/max(f.grants, 1), f.bytesMost, 1000*f.writeSeconds/max(f.writes, 1),
			1000*f.reviewSeconds/max(f.reviews, 1), 1000*f.callSeconds/max(f.calls, 1))
	}
}
