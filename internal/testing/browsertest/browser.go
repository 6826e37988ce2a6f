package browsertest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/edge/pages/chromium"
	"connect-svc/internal/testing/wait"
)

// Browser is one running Chromium. It ends with the last of the tests that share it.
type Browser struct {
	ctx   context.Context
	proxy string // that the tabs go through; empty for none
}

// start runs a headless Chromium with an empty profile until it is stopped, which it must be after an error, too. It accepts servers
// that show this certificate, for any name; nothing else that is wrong with a certificate is let through.
func start(trusted *x509.Certificate) (ctx context.Context, stop func(), err error) {
	fingerprint := sha256.Sum256(trusted.RawSubjectPublicKeyInfo)
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(wait.Limit),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(fingerprint[:])),
	)
	if os.Geteuid() == 0 {
		flags = append(flags, chromedp.NoSandbox) // Chromium's sandbox refuses to start as root
	}
	path, err := chromium.Find()
	if err != nil {
		return nil, func() {}, fmt.Errorf("tests of pages: %w", err)
	}
	flags = append(flags, chromedp.ExecPath(path))
	allocator, end := chromedp.NewExecAllocator(context.Background(), flags...)
	ctx, cancel := chromedp.NewContext(allocator)
	stop = func() {
		cancel()
		end() // the process, and removes its profile
	}
	if err := chromedp.Do(ctx); err != nil {
		return nil, stop, fmt.Errorf("start Chromium, which the tests of pages need: %w", err)
	}
	return ctx, stop, nil
}
