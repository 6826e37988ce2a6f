// Package browsertest starts a real Chromium for the tests of pages.
//
// A test gets tabs of a browser that it shares with others, each like a fresh private window. Errors of the page's console, above
// all refusals by the content security policy, are collected and fail the test. On a machine without Chromium the test fails.
//
// The package is for tests only and knows nothing of the service.
package browsertest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"connect-svc/internal/edge/pages/chromium"
	"connect-svc/internal/testing/wait"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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

// IsTitled fails the test at once unless the page has this title.
func (tab *Tab) IsTitled(want string) {
	tab.t.Helper()
	if title := value(tab, chromedp.Title()); title != want {
		tab.t.Fatalf("title = %q, want %q; problems %q", title, want, tab.Problems())
	}
}

// NextFocus goes on to what takes the keys next, which must be seen to have them, and returns its name.
func (tab *Tab) NextFocus() string {
	tab.t.Helper()
	tab.Do(chromedp.KeyEvent(kb.Tab))
	var focused struct{ Name, Outline string }
	tab.Evaluate(`(at => at === document.body ? {Name: "the end of the page", Outline: "solid"} : {
		Name: at.ariaLabel ?? (at.labels?.[0]?.textContent ?? at.textContent).trim(), Outline: getComputedStyle(at).outlineStyle})(document.activeElement)`, &focused)
	if focused.Outline != "solid" {
		tab.t.Errorf("the focus on %q cannot be seen: outline %s", focused.Name, focused.Outline)
	}
	return focused.Name
}

// axeScript prints where axe-core is. Tests run in the folder of their package, which is as deep as this one.
const axeScript = "../../../internal/testing/browsertest/axe.sh"

var axe = sync.OnceValues(func() (string, error) {
	var complaint strings.Builder
	command := exec.Command(axeScript)
	command.Stderr = &complaint
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("no axe-core, which npm fetches: %w: %s", err, complaint.String())
	}
	source, err := os.ReadFile(strings.TrimSpace(string(path)))
	return string(source), err
})

// Violations are what axe-core finds wrong with the page as it is now, by the rules of WCAG 2.2 AA and by those that it
// calls best practices, or by the named rules alone: the rule, what it asks for, and where. It runs as in a developer's console,
// which the page's content security policy does not restrict.
func (tab *Tab) Violations(rules ...string) []string {
	tab.t.Helper()
	source, err := axe()
	if err != nil {
		tab.t.Fatal(err)
	}
	if !value(tab, chromedp.Evaluate[bool](`"axe" in window`)) {
		tab.Do(chromedp.Evaluate[chromedp.Void](source + "\n;void 0"))
	}
	// Without preload it puts no copies of style sheets into the page, which the page's policy refuses: one rule needs them, for
	// pages that lock the screen's orientation, and no style sheet of ours asks for it.
	only, passes := "", 10
	if len(rules) > 0 {
		only, passes = ", runOnly: "+asJSON(rules), 1
	}
	run := `axe.run(document, {preload: false, resultTypes: ["violations"]` + only + `}).then((result) => {
		if (result.passes.length < ` + strconv.Itoa(passes) + `) throw new Error("axe-core has checked next to nothing");
		return result.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ")).join(", "));
	})`
	return value(tab, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
}

// LayoutFaults are the [chromium.Faults] of the page as it is now.
func (tab *Tab) LayoutFaults() []string {
	tab.t.Helper()
	return value(tab, chromedp.Evaluate[[]string](chromium.Faults, chromedp.EvalAwaitPromise))
}
