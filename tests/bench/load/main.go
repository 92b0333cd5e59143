// The load program asks a webhook about new pods over some TLS connections that are kept open, each
// with one request at a time, and prints as JSON what it saw. It is lean, since it shares the machine
// with what it measures: the bodies are ready but for their UIDs, and HTTP is read by hand.
//
// With -events, the pods that were allowed appear in the watch of that listserver, and go again.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"gpuquota.io/tests/bench/objects"
	"gpuquota.io/tests/bench/process"
)

type result struct {
	Name        string  `json:"name"`
	Connections int     `json:"connections"`
	BodyBytes   int     `json:"body_bytes"`
	Reviews     int     `json:"reviews"`
	PerSecond   float64 `json:"per_second"`
	P50us       float64 `json:"p50_us"`
	P99us       float64 `json:"p99_us"`
	CPUus       float64 `json:"cpu_us"` // of the server for one review
	Failed      int     `json:"failed"`
	Failure     string  `json:"failure,omitempty"`
	ResidentKiB int     `json:"rss_kib"`
}

type worker struct {
	number    int
	target    *url.URL
	tls       *tls.Config
	review    *objects.Template
	watcher   *watcher // or nil
	measuring *atomic.Bool
	stop      *atomic.Bool
	taken     []uint32 // nanoseconds
	failed    int
	failure   error
}

func answerOK(reader *bufio.Reader, text *textproto.Reader, body []byte, request string) ([]byte, error) {
	line, err := text.ReadLine()
	if err != nil {
		return body, err
	}
	header, err := text.ReadMIMEHeader()
	if err != nil {
		return body, err
	}
	length, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		return body, fmt.Errorf("%s, without a length", line)
	}
	body = slices.Grow(body[:0], length)[:length]
	if _, err := io.ReadFull(reader, body); err != nil {
		return body, err
	}
	if len(line) < 12 || line[9:12] != "200" || !bytes.Contains(body, []byte(`"allowed":true`)) ||
		!bytes.Contains(body, []byte(request)) {
		return body, errors.New(line + ": " + string(body[:min(len(body), 400)]))
	}
	return body, nil
}

func (w *worker) run(run uint64) {
	connection, err := tls.Dial("tcp", w.target.Host, w.tls)
	if err != nil {
		w.failed, w.failure = 1, err
		return
	}
	defer connection.Close()
	reader := bufio.NewReaderSize(connection, 8<<10)
	text := textproto.NewReader(reader)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kube-apiserver-admission\r\n"+
		"Content-Length: %d\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"+
		"Accept-Encoding: gzip\r\n\r\n", w.target.RequestURI(), w.target.Host, w.review.Size())
	var out, body []byte
	for n := uint64(0); !w.stop.Load(); n++ {
		id := run<<40 | uint64(w.number)<<28 | n
		values := &objects.Values{Name: fmt.Sprintf("bench-%08x", id&0xffffffff), UID: objects.UID("f", id),
			Request: objects.UID("b", id), Team: objects.Team(w.number + int(n)), Version: "900000000",
			Node: "node-0000"}
		out = w.review.Append(append(out[:0], head...), values)
		begin := time.Now()
		if _, err = connection.Write(out); err == nil {
			body, err = answerOK(reader, text, body, values.Request)
		}
		took := time.Since(begin)
		if err != nil {
			w.failed++
			w.failure = err
			return
		}
		if w.measuring.Load() {
			w.taken = append(w.taken, uint32(min(took, 4*time.Second)))
		}
		if w.watcher != nil {
			w.watcher.add(values)
		}
	}
}

// watcher lets pods appear in the listserver's watch and go when there are many of them.
type watcher struct {
	target *url.URL
	tls    *tls.Config
	pod    *objects.Template
	mu     sync.Mutex
	fresh  []*objects.Values
	alive  []*objects.Values
}

const (
	aliveMax   = 2000
	reportEach = 10 * time.Millisecond
)

func (w *watcher) add(values *objects.Values) {
	w.mu.Lock()
	w.fresh = append(w.fresh, values)
	w.mu.Unlock()
}

func (w *watcher) line(to []byte, kind byte, values *objects.Values) []byte {
	to = append(to, kind, '\t')
	to = append(to, values.Team...)
	to = append(to, '/')
	to = append(to, values.Name...)
	to = append(to, '\t')
	to = w.pod.Append(to, values)
	return append(to, '\n')
}

// report sends what happened since the last time. keep: how many pods stay.
func (w *watcher) report(connection io.ReadWriter, reader *bufio.Reader, keep int) error {
	w.mu.Lock()
	fresh := w.fresh
	w.fresh = nil
	w.mu.Unlock()
	var lines []byte
	for _, values := range fresh {
		lines = w.line(lines, 'A', values)
	}
	w.alive = append(w.alive, fresh...)
	for ; len(w.alive) > keep; w.alive = w.alive[1:] {
		lines = w.line(lines, 'D', w.alive[0])
	}
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintf(connection, "POST /bench/events HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n",
		w.target.Host, len(lines))
	if _, err := connection.Write(lines); err != nil {
		return err
	}
	text := textproto.NewReader(reader)
	status, err := text.ReadLine()
	if err == nil {
		_, err = text.ReadMIMEHeader()
	}
	if err == nil && status != "HTTP/1.1 200 OK" {
		err = errors.New(status)
	}
	return err
}

func (w *watcher) run(stop *atomic.Bool) error {
	connection, err := tls.Dial("tcp", w.target.Host, w.tls)
	if err != nil {
		return err
	}
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for !stop.Load() {
		time.Sleep(reportEach)
		if err := w.report(connection, reader, aliveMax); err != nil {
			return err
		}
	}
	return nil
}

// drain: the last pods go.
func (w *watcher) drain() error {
	connection, err := tls.Dial("tcp", w.target.Host, w.tls)
	if err != nil {
		return err
	}
	defer connection.Close()
	return w.report(connection, bufio.NewReader(connection), 0)
}

func summarise(workers []*worker, window, cpu time.Duration, r *result) {
	var all []uint32
	for _, w := range workers {
		all = append(all, w.taken...)
		r.Failed += w.failed
		if w.failure != nil && r.Failure == "" {
			r.Failure = w.failure.Error()
		}
	}
	r.Reviews = len(all)
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	r.PerSecond = float64(len(all)) / window.Seconds()
	r.P50us = float64(all[len(all)/2]) / 1e3
	r.P99us = float64(all[len(all)*99/100]) / 1e3
	r.CPUus = float64(cpu.Microseconds()) / float64(len(all))
}

func measure(workers []*worker, pid int, warm, window time.Duration, r *result) error {
	var group sync.WaitGroup
	run := uint64(time.Now().UnixMilli()) & 0xffffff
	for _, w := range workers {
		group.Go(func() { w.run(run) })
	}
	time.Sleep(warm)
	before, err := process.CPU(pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	workers[0].measuring.Store(true)
	time.Sleep(window)
	workers[0].measuring.Store(false)
	took := time.Since(begin)
	after, err := process.CPU(pid)
	workers[0].stop.Store(true)
	group.Wait()
	if err != nil {
		return err
	}
	memory, err := process.Memory(pid)
	r.ResidentKiB = memory.ResidentKiB
	summarise(workers, took, after-before, r)
	return err
}

func main() {
	var (
		target      = flag.String("url", "", "of the webhook")
		ca          = flag.String("ca", "", "certificate authority")
		events      = flag.String("events", "", "https://HOST:PORT of the listserver that shows the pods")
		name        = flag.String("name", "", "of the run")
		connections = flag.Int("connections", 10, "connections")
		big         = flag.Bool("big", false, "pods of 64 KB instead of 2 KB")
		dryRun      = flag.Bool("dry-run", false, "reviews of dry runs")
		warm        = flag.Duration("warm", 500*time.Millisecond, "before the measurement")
		window      = flag.Duration("for", 4*time.Second, "of the measurement")
		pid         = flag.Int("pid", 0, "process of the webhook")
	)
	flag.Parse()
	authorities := x509.NewCertPool()
	pem, err := os.ReadFile(*ca)
	if err != nil || !authorities.AppendCertsFromPEM(pem) {
		log.Fatal("no authority: ", err)
	}
	config := &tls.Config{RootCAs: authorities, NextProtos: []string{"http/1.1"}}
	at, err := url.Parse(*target)
	if err != nil {
		log.Fatal(err)
	}
	pod := objects.Pod(0)
	if *big {
		pod = objects.BigPod()
	}
	review := objects.NewTemplate(objects.Review(pod, *dryRun))
	var measuring, stop, stopWatcher atomic.Bool
	var show *watcher
	watched := make(chan error, 1)
	if *events != "" {
		pod.ResourceVersion = objects.MarkVersion
		show = &watcher{tls: config, pod: objects.NewTemplate(pod)}
		if show.target, err = url.Parse(*events); err != nil {
			log.Fatal(err)
		}
		go func() { watched <- show.run(&stopWatcher) }()
	}
	var workers []*worker
	for i := range *connections {
		workers = append(workers, &worker{number: i, target: at, tls: config, review: review,
			watcher: show, measuring: &measuring, stop: &stop})
	}
	r := result{Name: *name, Connections: *connections, BodyBytes: review.Size()}
	if err := measure(workers, *pid, *warm, *window, &r); err != nil {
		log.Fatal(err)
	}
	if show != nil {
		stopWatcher.Store(true)
		if err = <-watched; err == nil {
			err = show.drain()
		}
		if err != nil {
			log.Fatal("the listserver does not take events: ", err)
		}
	}
	json.NewEncoder(os.Stdout).Encode(&r)
}
