package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// halfRequest is a request of which only a part has been sent.
type halfRequest struct {
	connection *tls.Conn
	rest       string
}

func (p *program) sendHalf(path, body string) (*halfRequest, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(webhookCA.PEM)
	connection, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{RootCAs: roots})
	if err != nil {
		return nil, err
	}
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	middle := len(body) / 2
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body[:middle])
	return &halfRequest{connection: connection, rest: body[middle:]}, err
}

// finish sends what is missing and returns the status of the whole answer.
func (h *halfRequest) finish() (int, error) {
	if _, err := io.WriteString(h.connection, h.rest); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(h.connection), nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return response.StatusCode, err
}
