package apiproxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gpuquota.io/tests/controlplane"
)

func TestProxy(t *testing.T) {
	ca, err := controlplane.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Server("server", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Watches(r) {
			fmt.Fprintln(w, "plain", r.Header.Get("Authorization"))
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case line := <-events:
				// What comes behind a zero comes a little later.
				for part := range strings.SplitSeq(line+"\n", "\x00") {
					_, _ = io.WriteString(w, part)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(10 * time.Millisecond)
				}
			case <-r.Context().Done():
				return
			}
		}
	}))
	upstream.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	upstream.StartTLS()
	defer upstream.Close()
	proxy, err := New(upstream.URL, ca)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()

	get := func() error {
		request, _ := http.NewRequest(http.MethodGet, proxy.URL+"/api/v1/pods", nil)
		request.Header.Set("Authorization", "Bearer x")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		line, err := bufio.NewReader(response.Body).ReadString('\n')
		if err == nil && line != "plain Bearer x\n" {
			return fmt.Errorf("got %q", line)
		}
		return err
	}
	if err := get(); err != nil {
		t.Fatal(err)
	}
	watch, err := client.Get(proxy.URL + "/api/v1/pods?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(watch.Body)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	next := func() string {
		t.Helper()
		select {
		case line := <-lines:
			return line
		case <-time.After(5 * time.Second):
			t.Fatal("nothing came through")
			return ""
		}
	}
	events <- "one"
	if got := next(); got != "one" {
		t.Fatalf("got %q", got)
	}

	proxy.Hold(WatchesOf("/api/v1/pods"))
	events <- "two"
	if err := get(); err != nil {
		t.Errorf("a GET was held: %v", err)
	}
	select {
	case line := <-lines:
		t.Fatalf("%q passed while held", line)
	case <-time.After(50 * time.Millisecond):
	}
	proxy.Release()
	if got := next(); got != "two" {
		t.Fatalf("got %q", got)
	}

	proxy.Delay(Watches, 200*time.Millisecond)
	begin := time.Now()
	events <- "three"
	if got := next(); got != "three" || time.Since(begin) < 200*time.Millisecond {
		t.Fatalf("%q after %v", got, time.Since(begin))
	}
	proxy.Release()

	isFour := func(event []byte) bool { return string(event) == "four\n" }
	proxy.Drop(WatchesOf("/api/v1/nodes"), func([]byte) bool { return true })
	events <- "four" // of another collection
	if got := next(); got != "four" {
		t.Fatalf("got %q", got)
	}
	proxy.Drop(WatchesOf("/api/v1/pods"), isFour)
	// Two events in one write, one in two, and one whose end is all that is alike.
	for _, event := range []string{"four\nfive", "six\nfo\x00ur\nseven", "twenty-four"} {
		events <- event
	}
	for _, want := range []string{"five", "six", "seven", "twenty-four"} {
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if n := proxy.Dropped(); n != 2 {
		t.Errorf("%d events were dropped, want 2", n)
	}
	proxy.Release()
	events <- "four"
	if got := next(); got != "four" {
		t.Fatalf("got %q after the release", got)
	}

	if n := proxy.Cut(Watches); n != 1 {
		t.Errorf("cut %d requests, want 1", n)
	}
	select {
	case line, open := <-lines:
		if open {
			t.Errorf("%q after the cut", line)
		}
	case <-time.After(5 * time.Second):
		t.Error("the watch goes on after the cut")
	}

	proxy.Expire(Watches)
	for query, want := range map[string]int{"watch=1&resourceVersion=5": http.StatusGone, "watch=0&resourceVersion=5": http.StatusOK} {
		response, err := client.Get(proxy.URL + "/api/v1/pods?" + query)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s, want %d", query, response.Status, want)
		}
	}
	if n := proxy.Expired(); n != 1 {
		t.Errorf("%d requests have expired, want 1", n)
	}
	proxy.Release()

	proxy.Hold(Everything)
	done := make(chan error, 1)
	go func() { done <- get() }()
	select {
	case err := <-done:
		t.Fatalf("GET passed while everything is held: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	proxy.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
