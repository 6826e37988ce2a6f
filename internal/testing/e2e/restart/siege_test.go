//go:build faults

package restart_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

var visits = flag.Int("visits", 250, "how often a visitor and a partner ask during each siege")

// Networks ask for half of a server's places each, at most for three times all places together, and begin anew what ends. Meanwhile a visitor from
// another network is answered 250 times, each time on a new connection, and a partner refreshes as often.
func TestSieges(t *testing.T) {
	const places = 1024
	var config app.Config
	r := rolling{dir: t.TempDir()}
	r.e = e2e.New(t, func(c *app.Config) {
		c.ReadyListen, c.Limits, c.Memory = "127.0.0.1:0", work.DefaultLimits, places*4*48<<10
		c.Logger = telemetry.NewLogger(io.Discard, nil)
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		config = *c
	})
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	roots := e2e.WriteCertificate(t, r.dir, pair)
	direct := &rollingServer{config: config}
	direct.config.Certificate = listener.FixedCertificate(pair)
	for _, s := range []**rollingServer{&r.servers[0], &r.servers[1]} {
		*s = &rollingServer{config: config}
	}
	for _, s := range r.servers {
		s.start(t)
		defer s.end(t)
	}
	from := func(address string, http2 bool) *http.Client {
		return &http.Client{Timeout: wait.Limit, Transport: &http.Transport{
			DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext,
			TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "connect.example.com"},
			ForceAttemptHTTP2: http2,
			DisableKeepAlives: !http2,
		}}
	}
	for _, front := range []struct{ name, address string }{
		{"direct", ""}, {"HAProxy", startHAProxy(t, r)}, {"nginx", startNginx(t, r)},
	} {
		for _, networks := range []int{2, 8, 100} {
			for _, http2 := range []bool{false, true} {
				for _, slow := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, %d networks, HTTP/2 %t, slow %t", front.name, networks, http2, slow), func(t *testing.T) {
						address := front.address
						if address == "" { // a new server: one keeps the places of streams that it ended from their network for minutes
							direct.start(t)
							defer direct.end(t)
							address = direct.config.Listen
						}
						siege := wiretest.Siege{Server: address, TLS: true, HTTP2: http2, Slow: slow, Connections: min(places/2, 3*places/networks)}
						if http2 {
							siege.Connections = max(1, siege.Connections/16)
						}
						for n := range networks {
							siege.Networks = append(siege.Networks, netip.AddrFrom4([4]byte{127, 1, 0, byte(n + 1)}))
						}
						ctx, lift := context.WithCancel(t.Context())
						var laid sync.WaitGroup
						laid.Go(func() { siege.Lay(ctx) })
						enough := int64(networks * siege.Connections)
						wait.Until(t, "each connection has asked", func() bool { return siege.Asked.Load() >= enough })
						visitor, partner := from("127.2.0.1", false), e2e.Front{Base: "https://" + address, Client: from("127.2.0.2", true)}
						began, failed, refused := time.Now(), 0, 0
						var visiting sync.WaitGroup
						visiting.Go(func() {
							for range *visits {
								answer, err := visitor.Get(partner.Base + "/.well-known/oauth-authorization-server")
								status := 0
								if err == nil {
									_, status = answer.Body.Close(), answer.StatusCode
								}
								if status != http.StatusOK {
									failed++
									t.Logf("after %s a visit got %d, %v", time.Since(began).Round(time.Second), status, err)
								}
							}
						})
						_, tokens := r.e.NewConnection(t, r.e.Partner)
						token := tokens.RefreshToken
						for range *visits {
							got := partner.Refresh(t.Context(), t, r.e.Partner, token)
							if got.Status == http.StatusOK {
								token = got.RefreshToken(t)
								continue
							}
							refused++
							t.Logf("after %s a refresh got %d: %s", time.Since(began).Round(time.Second), got.Status, got.Body)
							_, tokens = r.e.NewConnection(t, r.e.Partner)
							token = tokens.RefreshToken
						}
						visiting.Wait()
						t.Logf("%d of %d visits and %d of %d refreshes failed in %s beside %d requests", failed, *visits, refused, *visits,
							time.Since(began).Round(time.Second), siege.Asked.Load())
						if failed > 0 || refused > 0 {
							t.Fail()
						}
						lift()
						laid.Wait()
						partner.Client.CloseIdleConnections()
					})
				}
			}
		}
	}
}
