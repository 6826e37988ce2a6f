package demo

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// No listener of the demo answers for a name that a page in a browser could have.
func testHosts(t *testing.T, r *running) {
	certificate, err := os.ReadFile(filepath.Join(r.Dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	network := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer network.CloseIdleConnections()
	for _, url := range []string{r.Service + "/developers/", r.Partner, r.Mail, r.Private + "/metrics"} {
		for host, foreign := range map[string]bool{"": false, "rebound.example": true} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host // empty: that of the URL
			response, err := network.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if refused := response.StatusCode == http.StatusMisdirectedRequest; refused != foreign {
				t.Errorf("%s of %q: %d", url, host, response.StatusCode)
			}
		}
	}
}
