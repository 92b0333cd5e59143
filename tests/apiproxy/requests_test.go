package apiproxy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuquota.io/tests/controlplane"
)

func TestRequestFaults(t *testing.T) {
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
	var arrived atomic.Int64
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && string(body) == "content" {
			arrived.Add(1)
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

	const maps = "/api/v1/namespaces/a/configmaps"
	put := func(client *http.Client) (*http.Response, error) {
		request, _ := http.NewRequest(http.MethodPut, proxy.URL+maps+"/journal", strings.NewReader("content"))
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
		}
		return response, err
	}
	expect := func(what string, status int, wantArrived int64, wantDisturbed int) {
		t.Helper()
		response, err := put(client)
		if status == 0 && err == nil {
			t.Errorf("%s: answered %s, want none", what, response.Status)
		} else if status != 0 && (err != nil || response.StatusCode != status) {
			t.Errorf("%s: want %d, got %v %v", what, status, response, err)
		}
		if n := arrived.Load(); n != wantArrived {
			t.Errorf("%s: %d have arrived, want %d", what, n, wantArrived)
		}
		if n := proxy.Disturbed(); n != wantDisturbed {
			t.Errorf("%s: %d were disturbed, want %d", what, n, wantDisturbed)
		}
	}
	journal := Writes(maps, "journal")
	proxy.Answer(Writes(maps, "other"), http.StatusInternalServerError)
	expect("another object", http.StatusOK, 1, 0)
	proxy.Answer(First(1, journal), http.StatusTooManyRequests)
	expect("answered", http.StatusTooManyRequests, 1, 1)
	expect("answered once", http.StatusOK, 2, 1)
	proxy.Break(journal)
	expect("broken", 0, 3, 2)
	proxy.Release()
	expect("released", http.StatusOK, 4, 2)

	proxy.Late(journal, 300*time.Millisecond, 0)
	impatient := *client
	impatient.Timeout = 50 * time.Millisecond
	if _, err := put(&impatient); err == nil {
		t.Error("a late request was answered at once")
	}
	expect("after the late one", http.StatusOK, 5, 3)
	deadline := time.Now().Add(5 * time.Second)
	for arrived.Load() != 6 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if n := arrived.Load(); n != 6 {
		t.Errorf("%d have arrived in the end, want 6", n)
	}
}
