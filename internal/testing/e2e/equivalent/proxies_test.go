package equivalent_test

import (
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/wiretest"
)

// Each form of a request has the answer of its usual form without a proxy, in HTTP/1.1 and in HTTP/2, through the proxies of the documentation,
// which give it a form of their own.
func TestProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	for proxy, start := range map[string]func(*testing.T, e2e.Proxied) string{"nginx": e2e.StartNginx, "HAProxy": e2e.StartHAProxy} {
		t.Run(proxy, func(t *testing.T) {
			t.Parallel()
			of := w.proxied
			of.Dir = t.TempDir()
			e2e.WriteCertificate(t, of.Dir, w.pair)
			address := start(t, of)
			for _, q := range w.questions {
				usual := wiretest.HTTP1(t, wiretest.Dial(t, w.secured, "http/1.1"), shapeOf(q).text())
				for _, form := range forms1 {
					if s := shapeOf(q); !form.noProxies && form.change(q, &s) {
						t.Run(q.name+"/"+form.name, func(t *testing.T) {
							q.same(t, usual, wiretest.HTTP1(t, wiretest.Dial(t, address, "http/1.1"), s.text()))
						})
					}
				}
				body, whole := wiretest.Data(""), wiretest.Ended
				if q.body != "" {
					body, whole = wiretest.Data(strings.Split(q.body, "")...), wiretest.Data(q.body)
				}
				for name, frames := range map[string]wiretest.Frames{"whole": whole, "in frames": body} {
					t.Run(q.name+"/HTTP 2, "+name, func(t *testing.T) {
						q.same(t, usual, wiretest.HTTP2(t, wiretest.Dial(t, address, "h2"), frames, fields2(q, host)...))
					})
				}
				if q.method == http.MethodGet {
					head := q
					head.method = http.MethodHead
					t.Run(q.name+"/HEAD", func(t *testing.T) {
						q.sameHead(t, usual, wiretest.HTTP1(t, wiretest.Dial(t, address, "http/1.1"), shapeOf(head).text()))
						q.sameHead(t, usual, wiretest.HTTP2(t, wiretest.Dial(t, address, "h2"), wiretest.Data(""), fields2(head, host)...))
					})
				}
			}
		})
	}
}
