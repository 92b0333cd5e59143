// Package apiproxy stands between a client and an API server and can hold, delay, cut and lose what
// the API server answers, for watches only or for everything; and it can keep requests back, or
// answer them itself. Clients authenticate by bearer token, since the proxy ends their TLS
// connection.
package apiproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"gpuquota.io/tests/controlplane"
)

// Match selects requests.
type Match func(*http.Request) bool

// Everything selects every request.
func Everything(*http.Request) bool { return true }

// Watches selects watches of any resource.
func Watches(r *http.Request) bool {
	value := r.URL.Query().Get("watch")
	return value == "1" || value == "true"
}

// WatchesOf selects watches of a cluster-wide list such as "/api/v1/pods".
func WatchesOf(path string) Match {
	return func(r *http.Request) bool { return r.URL.Path == path && Watches(r) }
}

// Lists selects lists and watches of a cluster-wide list such as "/api/v1/pods".
func Lists(path string) Match {
	return func(r *http.Request) bool { return r.URL.Path == path && r.Method == http.MethodGet }
}

// Proxy is a running proxy.
type Proxy struct {
	// URL is where clients reach it.
	URL string

	upstream  *url.URL
	transport *http.Transport
	server    *http.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever the rules change
	held    Match
	delayed Match
	delay   time.Duration
	expired Match
	gone    int
	dropped Match
	drops   func(event []byte) bool
	lost    int
	faults  faults
	observe func(r *http.Request, status int)
	live    map[*http.Request]context.CancelCauseFunc
}

var errCut = errors.New("cut by the test")

// New starts a proxy on a free loopback port. Its certificate is signed by ca, which also has
// signed that of the API server.
func New(upstream string, ca *controlplane.CA) (*Proxy, error) {
	return Listen("127.0.0.1", upstream, ca)
}

// Listen is New on another address.
func Listen(address, upstream string, ca *controlplane.CA) (*Proxy, error) {
	target, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	pair, err := ca.Server("api-proxy", address)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		URL:      "https://" + listener.Addr().String(),
		upstream: target,
		transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots},
			ForceAttemptHTTP2:   false,
			DisableCompression:  true, // pass on what the client asked for
			MaxIdleConnsPerHost: 50,
		},
		changed: make(chan struct{}),
		live:    map[*http.Request]context.CancelCauseFunc{},
	}
	p.server = &http.Server{
		Handler:   http.HandlerFunc(p.serve),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() {
	_ = p.server.Close()
	p.Cut(Everything)
	p.transport.CloseIdleConnections()
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Hold keeps back the answers to matching requests, from the next byte on, until Release.
// What was held is delivered then; nothing is lost.
func (p *Proxy) Hold(match Match) { p.change(func() { p.held = match }) }

// Delay passes on the answers to matching requests only when they are that old.
func (p *Proxy) Delay(match Match, by time.Duration) {
	p.change(func() { p.delayed, p.delay = match, by })
}

// Expire answers new matching requests that go on from a resourceVersion with 410 Gone, as an API
// server does that no longer has the events since, until Release.
func (p *Proxy) Expire(match Match) { p.change(func() { p.expired = match }) }

// Expired says how many requests were answered so.
func (p *Proxy) Expired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// Drop loses single events of matching watches, as no API server does: those of which drops says so,
// which gets each event's line of JSON, until Release.
func (p *Proxy) Drop(match Match, drops func(event []byte) bool) {
	p.change(func() { p.dropped, p.drops = match, drops })
}

// Dropped says how many events were lost so.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Observe has f told of each request that the API server has answered, and of the answer's status.
func (p *Proxy) Observe(f func(r *http.Request, status int)) { p.change(func() { p.observe = f }) }

// Release undoes everything but Cut and Observe.
func (p *Proxy) Release() {
	p.change(func() {
		p.faults = faults{disturbed: p.faults.disturbed}
		p.held, p.delayed, p.delay, p.expired = nil, nil, 0, nil
		p.dropped, p.drops = nil, nil
	})
}

// keep returns the lines of a watch that go to the client.
func (p *Proxy) keep(r *http.Request, lines []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped == nil || !p.dropped(r) {
		return lines
	}
	var kept []byte
	for line := range bytes.Lines(lines) {
		if p.drops(line) {
			p.lost++
		} else {
			kept = append(kept, line...)
		}
	}
	return kept
}

// Cut breaks off the matching requests that are going on and says how many there were.
func (p *Proxy) Cut(match Match) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for request, cancel := range p.live {
		if match(request) {
			cancel(errCut)
			n++
		}
	}
	return n
}

// Live says how many matching requests are going on.
func (p *Proxy) Live(match Match) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for request := range p.live {
		if match(request) {
			n++
		}
	}
	return n
}

// pass waits until bytes that came at the given time may go to the client.
func (p *Proxy) pass(ctx context.Context, r *http.Request, came time.Time) error {
	for {
		p.mu.Lock()
		changed := p.changed
		held := p.held != nil && p.held(r)
		var wait time.Duration
		if p.delayed != nil && p.delayed(r) {
			wait = time.Until(came.Add(p.delay))
		}
		p.mu.Unlock()
		if !held && wait <= 0 {
			return ctx.Err()
		}
		var timer <-chan time.Time
		if !held {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-timer:
		}
	}
}

type piece struct {
	came time.Time
	data []byte
	err  error
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	p.mu.Lock()
	p.live[r] = cancel
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.live, r)
		p.mu.Unlock()
		cancel(nil)
	}()

	p.mu.Lock()
	fault := p.faults.of(r)
	expired := p.expired != nil && p.expired(r) && r.URL.Query().Get("resourceVersion") != ""
	if expired {
		p.gone++
	}
	p.mu.Unlock()
	if expired {
		answer(w, http.StatusGone, "Expired")
		return
	}
	if fault.status != 0 {
		answer(w, fault.status, "")
		return
	}

	out := r.Clone(ctx)
	if fault.late > 0 {
		if out = keepBack(r, fault.late); out == nil {
			panic(http.ErrAbortHandler)
		}
	}
	out.URL.Scheme, out.URL.Host = p.upstream.Scheme, p.upstream.Host
	out.Host = p.upstream.Host
	out.RequestURI = ""
	response, err := p.transport.RoundTrip(out)
	if err != nil {
		// The client sees what it would see without us: a broken connection.
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	p.mu.Lock()
	observe := p.observe
	p.mu.Unlock()
	if observe != nil {
		observe(r, response.StatusCode)
	}
	if fault.broken {
		_, _ = io.Copy(io.Discard, response.Body)
		panic(http.ErrAbortHandler)
	}
	if err := p.pass(ctx, r, time.Now()); err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	flusher := http.NewResponseController(w)
	if err := flusher.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}

	// Read on while bytes are held, so that the API server does not notice a slow client.
	pieces := make(chan piece, 1<<16)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 16<<10)
			n, err := response.Body.Read(buffer)
			select {
			case pieces <- piece{came: time.Now(), data: buffer[:n], err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var rest []byte // of a watch: the beginning of an event
	for piece := range pieces {
		if err := p.pass(ctx, r, piece.came); err != nil {
			panic(http.ErrAbortHandler)
		}
		if Watches(r) && response.StatusCode == http.StatusOK {
			lines := append(rest, piece.data...)
			end := bytes.LastIndexByte(lines, '\n') + 1
			if piece.err != nil {
				end = len(lines)
			}
			piece.data, rest = p.keep(r, lines[:end]), bytes.Clone(lines[end:])
		}
		if len(piece.data) > 0 {
			if _, err := w.Write(piece.data); err != nil {
				panic(http.ErrAbortHandler)
			}
			if err := flusher.Flush(); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		if piece.err == io.EOF {
			return
		}
		if piece.err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	panic(http.ErrAbortHandler) // cut
}
