package equivalent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/testing/wiretest"
)

// TestGoClient sends a body of unknown length that turns out to be empty, as programs in Go do by mistake.
func TestGoClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	for _, q := range w.questions {
		usual := wiretest.HTTP1(t, wiretest.Dial(t, w.secured, "http/1.1"), shapeOf(q).text())
		for _, http2 := range []bool{false, true} {
			q.same(t, usual, goClient(t, w, q, http2))
		}
	}
}

func goClient(t *testing.T, w world, q question, http2 bool) wiretest.Answer {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(w.pair.Leaf)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, w.secured)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), q.method, "https://"+host+q.path, io.MultiReader(strings.NewReader(q.body)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(q.fields); i += 2 {
		request.Header.Set(q.fields[i], q.fields[i+1])
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return wiretest.Answer{Status: response.StatusCode, Header: response.Header, Body: string(body)}
}
