// Command ha measures what gpuquota adds to the creation of a pod with its journal on, beside a native
// ResourceQuota, and how long nobody grants when its leader goes away. It wants a network namespace of
// its own with the addresses of world.go; tests/bench/run.sh ha makes one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"gpuquota.io/tests/controlplane"
)

var begin = time.Now()

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
}

// eventually asks until there is no error.
func eventually(what string, f func() error) error { return within(60*time.Second, what, f) }

func within(limit time.Duration, what string, f func() error) error {
	if err := controlplane.Poll(context.Background(), limit, f); err != nil {
		return fmt.Errorf("%s: not within %v: %w", what, limit, err)
	}
	return nil
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(content))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func main() {
	program := flag.String("program", "", "gpuquota")
	manifests := flag.String("manifests", "manifests", "directory of the manifests")
	dir := flag.String("dir", "", "directory for certificates, data and logs; it is emptied")
	rounds := flag.Int("rounds", 3, "rounds of each load and changes of the leader")
	pods := flag.Int("pods", 100_000, "pods of the larger cluster; 0: there is none")
	loads := flag.Bool("loads", true, "measure creates")
	failovers := flag.Bool("failovers", true, "measure changes of the leader")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := &world{dir: *dir}
	err := run(ctx, w, *program, *manifests, *rounds, *pods, *loads, *failovers)
	for _, r := range w.replicas {
		_ = r.process.Stop(0)
	}
	if w.cluster != nil {
		w.cluster.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ha:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w *world, program, manifests string, rounds, pods int, loads, failovers bool) error {
	if err := os.RemoveAll(w.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	if err := w.start(ctx, program, manifests); err != nil {
		return err
	}
	progress("a control plane with gpuquota is up")
	if loads {
		if err := w.loads(ctx, rounds); err != nil {
			return err
		}
	}
	if !failovers {
		return nil
	}
	var all []*changes
	have := 0
	for _, want := range []int{1000, pods} {
		if want <= have {
			continue
		}
		if err := w.fill(ctx, have, want); err != nil {
			return err
		}
		have = want
		some, err := w.failovers(ctx, want, rounds)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	printFailovers(all)
	return nil
}

func (w *world) loads(ctx context.Context, rounds int) error {
	before, err := w.etcd.syncs()
	if err != nil {
		return err
	}
	var all []*measured
	for _, l := range []load{
		{1, 1, 1, 200, rounds},
		{50, 50, 10, 1000, rounds},
		{50, 50, 1, 1000, rounds},
		{50, 1, 1, 1000, rounds},
	} {
		loadBefore := loadAverage()
		m, err := w.measure(ctx, l)
		if err != nil {
			return err
		}
		progress("%v: load average %s before, %s after", l, loadBefore, loadAverage())
		all = append(all, m)
	}
	after, err := w.etcd.syncs()
	if err != nil {
		return err
	}
	printLoads(all)
	fmt.Printf("\netcd synced its log %.0f times meanwhile: p50 %.2f ms, p99 %.2f ms. Load average now %s.\n",
		after.total()-before.total(), 1000*after.quantile(before, 0.5), 1000*after.quantile(before, 0.99), loadAverage())
	return nil
}
