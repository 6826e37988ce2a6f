package browser

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/browsertest"
	"connect-svc/internal/scope"
)

func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}

// TestScreens takes a picture of every page, wide and narrow, light and dark (go test -artifacts keeps them).
func TestScreens(t *testing.T) {
	f := newFixture(t, limits)
	partner := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(partner.Close)
	chromium := browsertest.Start(t, browsertest.Trust(f.server.Certificate()),
		browsertest.Host(serviceHost, f.server.Listener.Addr().String()), browsertest.Host(partnerHost, partner.Listener.Addr().String()))
	tab := chromium.NewTab(t)
	shoot := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			tab.Media("prefers-color-scheme", scheme)
			for width, label := range map[int64]string{1024: "wide", 320: "narrow"} {
				tab.Do(chromedp.EmulateViewport(width, 700))
				tab.Screenshot(filepath.Join(t.ArtifactDir(), name+"-"+scheme+"-"+label+".png"))
			}
		}
	}
	authorize := at("/oauth/authorize?" + f.query(scope.All).Encode())
	tab.Open(authorize)
	shoot("sign-in")
	tab.Do(chromedp.SendKeys(chromedp.CSS("input[name=email]"), "ada@"))
	tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	shoot("sign-in-invalid")
	tab.Do(chromedp.SetValue(chromedp.CSS("input[name=email]"), email))
	tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	shoot("code")
	code := f.post.Next(t).Code()
	base := strings.TrimSuffix(tab.Location(), "/code")
	tab.Do(chromedp.SendKeys(chromedp.CSS("input[name=code]"), "12345"))
	tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	shoot("code-malformed")
	for range 5 {
		tab.Do(chromedp.SetValue(chromedp.CSS("input[name=code]"), "000000"))
		tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	}
	shoot("code-spent")
	tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	shoot("code-again")
	code = f.post.Next(t).Code()
	tab.Do(chromedp.SetValue(chromedp.CSS("input[name=code]"), code))
	tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	shoot("consent")
	f.connect(t, scope.DailySteps)
	tab.Open(base + "/consent")
	shoot("consent-mismatch")
	tab.Open(at("/oauth/authorize?x=1"))
	shoot("refused")
	tab.Open(at("/authorize/00000000-0000-4000-8000-000000000000/sign-in"))
	shoot("ended")
	tab.Open(at("/authorize/"))
	shoot("not-found")
	for range 4 {
		tab.Open(authorize)
		tab.Do(chromedp.SetValue(chromedp.CSS("input[name=email]"), email))
		tab.Submit(chromedp.Click(chromedp.CSS("form button.act")))
	}
	shoot("too-many-codes")
	t.Log(tab.Problems())
}
