package apiproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// First selects the first n of those requests that a rule asks about.
func First(n int, match Match) Match {
	var left atomic.Int64
	left.Store(int64(n))
	return func(r *http.Request) bool { return match(r) && left.Add(-1) >= 0 }
}

// Writes selects requests that create, replace or change the object of that name in a collection
// such as "/api/v1/namespaces/a/configmaps". A creation carries no name, so all are selected.
func Writes(collection, name string) Match {
	return func(r *http.Request) bool {
		switch r.Method {
		case http.MethodPost:
			return r.URL.Path == collection
		case http.MethodPut, http.MethodPatch:
			return r.URL.Path == collection+"/"+name
		}
		return false
	}
}

// faults are what befalls requests rather than answers.
type faults struct {
	answered  Match
	status    int
	broken    Match
	late      Match
	delays    []time.Duration
	disturbed int
}

// fault is what befalls one request.
type fault struct {
	status int
	broken bool
	late   time.Duration
}

// of asks every rule about a new request, once.
func (f *faults) of(r *http.Request) (ret fault) {
	if f.answered != nil && f.answered(r) {
		ret.status = f.status
	} else if f.broken != nil && f.broken(r) {
		ret.broken = true
	} else if f.late != nil && len(f.delays) > 0 && f.late(r) {
		ret.late, f.delays = f.delays[0], f.delays[1:]
	}
	if ret != (fault{}) {
		f.disturbed++
	}
	return ret
}

// Answer answers matching requests with that status in place of the API server, until Release.
func (p *Proxy) Answer(match Match, status int) {
	p.change(func() { p.faults.answered, p.faults.status = match, status })
}

// Break hands matching requests on and breaks the connection when the answer has come, so that the
// client can't know what became of them, until Release.
func (p *Proxy) Break(match Match) { p.change(func() { p.faults.broken = match }) }

// Late keeps the n-th matching request back for the n-th delay, then sends it even when its client
// has given up. Release is about requests that have not come yet.
func (p *Proxy) Late(match Match, delays ...time.Duration) {
	p.change(func() { p.faults.late, p.faults.delays = match, delays })
}

// Disturbed says how many requests Answer, Break and Late have met.
func (p *Proxy) Disturbed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.disturbed
}

func answer(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,`+
		`"message":"answered by the test"}`, reason, status)
}

// keepBack reads a request to its end, waits, and gives one that outlives its client.
func keepBack(r *http.Request, by time.Duration) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	time.Sleep(by)
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.Body = io.NopCloser(bytes.NewReader(body))
	return out
}
