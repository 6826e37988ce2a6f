package sandbox

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"
)

// No listener answers for a name that a page in a browser could have.
func testHosts(t *testing.T, r *running) {
	network := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.authority.Roots, MinVersion: tls.VersionTLS12}}
	defer network.CloseIdleConnections()
	for url, listener := range map[string]net.Listener{
		r.described.BaseUrl + "/.well-known/oauth-authorization-server": r.public,
		r.described.DriverUrl + "/sandbox":                              r.private,
		r.described.DriverUrl + "/metrics":                              r.private,
		r.described.MailUrl:                                             r.mailPage,
		"https://" + r.receiver.Addr().String():                         r.receiver,
	} {
		for host, foreign := range map[string]bool{listener.Addr().String(): false, "localhost": false, "rebound.example": true} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			response, err := network.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if refused := response.StatusCode == http.StatusMisdirectedRequest; refused != foreign {
				t.Errorf("%s of %s: %d", url, host, response.StatusCode)
			}
		}
	}
}
