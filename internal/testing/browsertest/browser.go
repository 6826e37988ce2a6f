package browsertest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"os"
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

// Trust lets the browser accept servers that show this certificate, or one whose chain has it, for any name: the
// certificate of an httptest.Server, say. Nothing else that is wrong with a certificate is let through.
func Trust(certificate *x509.Certificate) chromedp.ExecAllocatorOption {
	fingerprint := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(fingerprint[:]))
}

// Hosts sends requests for hosts, whatever their port, to addresses such as "127.0.0.1:41234", so that pages have the names,
// the origins and the sites that they would have in the world.
func Hosts(addresses map[string]string) chromedp.ExecAllocatorOption {
	var rules []string
	for host, address := range addresses {
		rules = append(rules, "MAP "+host+" "+address)
	}
	return chromedp.Flag("host-resolver-rules", strings.Join(rules, ", "))
}

// Start runs a headless Chromium with an empty profile until the test ends.
func Start(t testing.TB, options ...chromedp.ExecAllocatorOption) *Browser {
	t.Helper()
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox) // Chromium's sandbox refuses to start as root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(flags, options...)...)
	t.Cleanup(stop) // ends the process and removes its profile
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium, which the tests of pages need, does not start: %v", err)
	}
	return &Browser{ctx: ctx}
}
