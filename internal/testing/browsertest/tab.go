package browsertest

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"connect-svc/internal/testing/wait"
)

// Tab is one page of the browser. Its methods fail the test on the first thing that does not work, and only the
// test's own goroutine may call them.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// NewTab opens a tab in a private window of its own, which shares no cookies with any other.
func (b *Browser) NewTab(t testing.TB) *Tab {
	t.Helper()
	return newTab(t, b.ctx, chromedp.WithNewBrowserContext(func(window *target.CreateBrowserContextParams) { window.ProxyServer = b.proxy }))
}

// NewTab opens a second tab in the private window of this one: they share their cookies.
func (tab *Tab) NewTab() *Tab {
	tab.t.Helper()
	return newTab(tab.t, tab.ctx)
}

// Popup does what has the page open a window, and returns that window.
func (tab *Tab) Popup(steps ...chromedp.Action[chromedp.Void]) *Tab {
	tab.t.Helper()
	opened := chromedp.WaitNewTarget(tab.ctx, func(info *target.Info) bool { return info.OpenerID != "" })
	tab.Do(steps...)
	return newTab(tab.t, tab.ctx, chromedp.WithTargetID(wait.For(tab.t, "the window", opened)))
}

func newTab(t testing.TB, parent context.Context, opts ...chromedp.ContextOption) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, opts...)
	t.Cleanup(cancel)
	// The first use opens the tab, which lives as long as the context of that use: the limit of a step comes after it.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("no new tab: %v", err)
	}
	tab := &Tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		t.Fatal(err)
	}
	command(tab, audits.Enable, cdp.Empty{})
	// The page behaves as if it had the focus, even if another window has it.
	command(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	tab.Do(chromedp.EmulateViewport(1024, 800))
	return tab
}

// limited is the time of one step: a hang becomes a failure.
func (tab *Tab) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(tab.ctx, wait.Limit)
}

// Do does one step after the other.
func (tab *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	for i, step := range steps {
		ctx, cancel := tab.limited()
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			tab.t.Fatalf("step %d: %v; the page's problems: %q", i+1, err, tab.Problems())
		}
	}
}

// Submit does what leaves the page (a click, a key) and waits until the page that follows has loaded. It returns the
// status of that page.
func (tab *Tab) Submit(steps ...chromedp.Action[chromedp.Void]) int64 {
	tab.t.Helper()
	ctx, cancel := tab.limited()
	defer cancel()
	response, err := chromedp.RunResponse(ctx, steps...)
	if err != nil {
		tab.t.Fatalf("no page follows: %v; the page's problems: %q", err, tab.Problems())
	}
	return response.Status
}

// Open goes to an address, waits for its page and returns the status.
func (tab *Tab) Open(url string) int64 {
	tab.t.Helper()
	return tab.Submit(chromedp.Navigate(url))
}

// Location is the address that the tab shows.
func (tab *Tab) Location() string {
	tab.t.Helper()
	return value(tab, chromedp.Location())
}

// WaitTitle waits until the page has one of these titles. It needs no event of the page's loading, which a page that the
// browser had kept and shows again does not cause.
func (tab *Tab) WaitTitle(titles ...string) {
	tab.t.Helper()
	ctx, cancel := tab.limited()
	defer cancel()
	for {
		// An error is a page that is just being left, or the end of the time.
		title, err := chromedp.Run(ctx, chromedp.Title())
		if err == nil && slices.Contains(titles, title) {
			return
		}
		if ctx.Err() != nil {
			tab.t.Fatalf("title = %q, want one of %q; the page's problems: %q", title, titles, tab.Problems())
		}
	}
}

// Evaluate runs a JavaScript expression, as a developer's console does, and stores its value in result: that of a promise
// when it is kept.
func (tab *Tab) Evaluate(expression string, result any) {
	tab.t.Helper()
	if err := json.Unmarshal(value(tab, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise)), result); err != nil {
		tab.t.Fatalf("value of %s: %v", expression, err)
	}
}

// Media makes the page see a feature of the user's system, such as "prefers-color-scheme" with "dark".
func (tab *Tab) Media(feature, setting string) {
	tab.t.Helper()
	command(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: setting}},
	})
}

// Print makes the page look as on paper.
func (tab *Tab) Print() {
	tab.t.Helper()
	command(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
}

// AnyCertificate lets the tab open servers whatever certificate they show.
func (tab *Tab) AnyCertificate() {
	tab.t.Helper()
	command(tab, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
}

// WithoutScripts makes the browser run no script of the pages that are opened from now on.
func (tab *Tab) WithoutScripts() {
	tab.t.Helper()
	command(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// Language makes the browser ask for pages in these languages, in the form of an Accept-Language.
func (tab *Tab) Language(accept string) {
	tab.t.Helper()
	command(tab, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": accept}})
}

// Pictures says that somebody wants to look at the pages: `go test -artifacts -outputdir DIR`. Drawing them takes long.
func Pictures() bool { return flag.Lookup("test.artifacts").Value.String() == "true" }

// Screenshot writes the whole page, also what lies below the window, as a PNG file; its folder is made when missing.
func (tab *Tab) Screenshot(path string) {
	tab.t.Helper()
	tab.keep(path, value(tab, chromedp.FullScreenshot(100)))
}

// ScreenshotWindow is Screenshot of what the window shows: some pages are too long for a picture.
func (tab *Tab) ScreenshotWindow(path string) {
	tab.t.Helper()
	tab.keep(path, value(tab, chromedp.CaptureScreenshot()))
}

func (tab *Tab) keep(path string, picture []byte) {
	tab.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tab.t.Fatal(err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		tab.t.Fatal(err)
	}
}

// Problems are what the console would have shown as errors since the tab was opened: refusals by the content security
// policy, resources that did not load (with a 4xx or 5xx, the page itself included), scripts that failed.
func (tab *Tab) Problems() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.problems)
}

// Requests are the addresses that the tab has requested since it was opened, in this order, whether or not the content
// security policy let it.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.requests)
}

func (tab *Tab) listen(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	report := func(source, text string) { tab.problems = append(tab.problems, source+": "+text) }
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, event.Request.URL)
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError {
			report(string(event.Entry.Source), event.Entry.Text+" "+event.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.ConsoleAPICalledTypeError || event.Type == runtime.ConsoleAPICalledTypeAssert {
			report("console", asJSON(event.Args))
		}
	case *runtime.EventExceptionThrown:
		report("exception", asJSON(event.ExceptionDetails))
	case *audits.EventIssueAdded:
		if details := event.Issue.Details.ContentSecurityPolicyIssueDetails; details != nil {
			report("content security policy", asJSON(details))
		}
	}
}

// value runs an action that has a result.
func value[T any](tab *Tab, action chromedp.Action[T]) T {
	tab.t.Helper()
	ctx, cancel := tab.limited()
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		tab.t.Fatalf("%v; the page's problems: %q", err, tab.Problems())
	}
	return result
}

// command sends one command of the DevTools protocol.
func command[P, R any](tab *Tab, name cdp.Command[P, R], params P) R {
	tab.t.Helper()
	return value(tab, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, name, params)
	})
}

func asJSON(value any) string {
	text, _ := json.Marshal(value) // came as JSON
	return string(text)
}
