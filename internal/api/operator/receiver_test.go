package operator

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
)

// receiverCAs sign the certificate of every receiver.
var receiverCAs = func() *x509.CertPool {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}()

// newReceiver takes every webhook.
func newReceiver(t testing.TB) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	return server
}
