package browsertest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long a tab may take for all that a test does in it: a hang becomes a failure. A test that looks at
// every page takes a minute on a busy machine.
const patience = 5 * time.Minute

// Browser is one running Chromium. It ends with the test that started it.
type Browser struct {
	ctx context.Context
}

// Option changes how the browser is started.
type Option func(*options)

type options struct {
	trusted []string
	hosts   []string
}

// Trust lets the browser accept servers that show this certificate, or one whose chain has it, for any name: the
// certificate of an httptest.Server, say. Nothing else that is wrong with a certificate is let through.
func Trust(certificate *x509.Certificate) Option {
	return func(o *options) {
		fingerprint := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
		o.trusted = append(o.trusted, base64.StdEncoding.EncodeToString(fingerprint[:]))
	}
}

// Host sends requests for host, whatever their port, to address ("127.0.0.1:41234"), so that pages have the names, the
// origins and the sites that they would have in the world.
func Host(host, address string) Option {
	return func(o *options) { o.hosts = append(o.hosts, "MAP "+host+" "+address) }
}

// Start runs a headless Chromium with an empty profile until the test ends.
func Start(t testing.TB, opts ...Option) *Browser {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}

	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)),
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox) // Chromium's sandbox refuses to start as root
	}
	if len(o.trusted) > 0 {
		flags = append(flags, chromedp.Flag("ignore-certificate-errors-spki-list", strings.Join(o.trusted, ",")))
	}
	if len(o.hosts) > 0 {
		flags = append(flags, chromedp.Flag("host-resolver-rules", strings.Join(o.hosts, ", ")))
	}

	allocator, stop := chromedp.NewExecAllocator(context.Background(), flags...)
	t.Cleanup(stop) // ends the process and removes its profile
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("chromium does not start: %v", err)
	}
	return &Browser{ctx: ctx}
}

// find looks for a Chromium in PATH under the names that distributions give it.
func find(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("the tests of pages need Chromium, and PATH has none of %s", strings.Join(names, ", "))
	return ""
}
