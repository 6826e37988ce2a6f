package developers

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/testing/browsertest"
)

// shownIn are the languages of the examples that the page shows.
func shownIn(tab *browsertest.Tab) (languages []string) {
	tab.Evaluate(`[...document.querySelectorAll(".examples .code")].filter((e) => e.checkVisibility()).map((e) => e.dataset.language)`, &languages)
	return languages
}

func press(tab *browsertest.Tab, keys ...string) {
	for _, key := range keys {
		tab.Do(chromedp.KeyEvent(key))
	}
}

const (
	arrowDown  = "\u0301"
	arrowRight = "\u0303"
	escape     = "\u001b"
)

// focus is the text, or the name, of what has the focus.
func focus(tab *browsertest.Tab) (text string) {
	tab.Evaluate(`document.activeElement.ariaLabel ?? document.activeElement.textContent`, &text)
	return text
}

// One example at a time, in the language that was chosen last, on this page and on those that its links lead to. Mouse and
// keyboard choose.
func inLanguages(t *testing.T, browser *browsertest.Browser, servers map[string]*httptest.Server) {
	for form, server := range servers {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			tab := browser.NewTab(t)
			tab.Open(server.URL + "consent.html")
			if got := strings.Join(shownIn(tab), " "); strings.Contains(got, "ts") || !strings.Contains(got, "go") {
				t.Errorf("at first the examples are in %s", got)
			}
			tab.Do(chromedp.Click(chromedp.CSS(`[role=tab][id$="-ts"]`)))
			if got := strings.Join(shownIn(tab), " "); strings.Contains(got, "go") || !strings.Contains(got, "ts") {
				t.Errorf("after the choice they are in %s", got)
			}
			tab.Do(chromedp.Evaluate[chromedp.Void](`self.kept = true`), chromedp.Evaluate[chromedp.Void](`document.querySelector("article .anchor").click()`))
			var same bool // the page was not loaded again
			tab.Evaluate(`self.kept === true`, &same)
			if got := tab.Location(); !strings.HasSuffix(got, "consent.html?language=ts#begin") || !same {
				t.Errorf("a link on the page leads to %s, on the same page: %t", got, same)
			}
			tab.Submit(chromedp.Click(chromedp.CSS(`.contents [href^="refresh.html"], .contents [href*="/refresh.html"]`)))
			if got := strings.Join(shownIn(tab), " "); strings.Contains(got, "go") || !strings.Contains(got, "ts") {
				t.Errorf("on the next page they are in %s", got)
			}
			tab.Submit(chromedp.Click(chromedp.CSS(`.contents [href*="reference.html"]`)))
			tab.Do(chromedp.Focus(chromedp.CSS(`[role=tab][id$="-ts"]`)))
			press(tab, arrowRight) // the last leads to the first
			if got := strings.Join(shownIn(tab), " "); strings.Contains(got, "ts") || focus(tab) != "curl" {
				t.Errorf("the arrow leads to %s, and examples in %s", focus(tab), got)
			}
			for _, problem := range tab.Problems() {
				t.Errorf("the console shows: %s", problem)
			}
		})
	}
}

// A button copies an example to the letter.
func copies(t *testing.T, browser *browsertest.Browser, servers map[string]*httptest.Server) {
	server := servers["served"]
	tab := browser.NewTab(t)
	tab.Open(server.URL + "quick-start.html")
	// The browser's clipboard cannot be read here. The button hands over the same text by either of its two ways.
	tab.Do(chromedp.Evaluate[chromedp.Void](`
				document.addEventListener("copy", () => { self.copied = getSelection().toString() });
				if (navigator.clipboard) {
					const write = navigator.clipboard.writeText.bind(navigator.clipboard);
					navigator.clipboard.writeText = async (text) => { await write(text); self.copied = text };
				}; void 0`))
	const button = `document.querySelector(".code .copy")`
	tab.Do(chromedp.Click(chromedp.CSS(".code .copy")), chromedp.WaitVisible(chromedp.CSS(".news:not(:empty)")))
	var got [3]string
	tab.Evaluate(`[self.copied, `+button+`.textContent, `+button+`.parentElement.querySelector("code").textContent]`, &got)
	if strings.TrimSpace(got[0]) != strings.TrimSpace(got[2]) || got[0] == "" || got[1] != "Copied" {
		t.Errorf("the button says %q, and copied %q of %q", got[1], got[0], got[2])
	}
	for _, problem := range tab.Problems() {
		t.Errorf("the console shows: %s", problem)
	}
}

// The search finds guides, operations, fields and error codes, by keyboard alone, without asking for more than its list.
func searches(t *testing.T, browser *browsertest.Browser, servers map[string]*httptest.Server) {
	for form, server := range servers {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			tab := browser.NewTab(t)
			tab.Open(server.URL + "index.html")
			tab.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2))) // Ctrl
			if got := focus(tab); got != "Search" {
				t.Fatalf("Ctrl+K leads to %q", got)
			}
			found := func(query string) (addresses []string) {
				tab.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".search input").select()`))
				press(tab, query)
				tab.Do(chromedp.WaitVisible(chromedp.CSS(".results a")))
				tab.Evaluate(`[...document.querySelectorAll(".results a")].map((e) => e.href)`, &addresses)
				return addresses
			}
			for query, want := range map[string]string{
				"invalid_cursor":     "error-codes.html#invalid_cursor",
				"rate policy":        "limits.html#your-rate-policy",
				"Read daily steps":   "reference.html#readDailyActivity",
				"connection.revoked": "reference.html#connectionRevoked",
				"pagination":         "paging.html",
				"idempotency":        "refresh.html#four-rules",
				"rotate secret":      "token-storage.html#the-client-secret",
				"docker":             "sandbox.html",
				"postman":            "index.html#pick-your-tools",
				"support":            "going-live.html#watching",
				"why refused":        "errors.html",
				"wehbook":            "webhooks.html",
				"paginaton":          "paging.html",
				"rate polisy":        "limits.html#your-rate-policy",
			} {
				got := found(query)
				if !slices.ContainsFunc(got[:min(3, len(got))], func(address string) bool { return address == server.URL+want }) {
					t.Errorf("%s: found %q", query, got)
				}
			}
			const want = "reference.html#requestToken-request-authorization_code-code_verifier"
			at := slices.Index(found("code_verifier"), server.URL+want)
			if at < 0 {
				t.Fatal("code_verifier is not found")
			}
			for _, violation := range tab.Violations() {
				t.Error(violation)
			}
			if browsertest.Pictures() {
				tab.ScreenshotWindow(filepath.Join(t.ArtifactDir(), fmt.Sprintf("search-%s.png", form)))
			}
			press(tab, escape)
			if got := focus(tab); got != "Search" {
				t.Errorf("Escape leads to %q", got)
			}
			press(tab, " ")
			tab.Do(chromedp.WaitVisible(chromedp.CSS(".results a")))
			for range at + 1 {
				press(tab, arrowDown)
			}
			tab.Submit(chromedp.KeyEvent("\r"))
			if got := tab.Location(); got != server.URL+want {
				t.Errorf("the keyboard leads to %s", got)
			}
			for _, problem := range tab.Problems() {
				t.Errorf("the console shows: %s", problem)
			}
		})
	}
}

// Without scripts every example is there, and a page of links takes the place of the search. On paper there is what was read
// and nothing to press.
func withoutScripts(t *testing.T, browser *browsertest.Browser, servers map[string]*httptest.Server) {
	server := servers["served"]
	tab := browser.NewTab(t)
	tab.WithoutScripts()
	const hidden = `[...document.querySelectorAll("main .code, .search a")].filter((e) => !e.checkVisibility()).length`
	for _, name := range []string{"consent", "reference"} {
		tab.Open(server.URL + name + ".html")
		var counts [3]int
		tab.Evaluate(`[document.querySelectorAll("main .code").length, `+hidden+`, document.querySelectorAll("button, input").length]`, &counts)
		if counts[0] < 5 || counts[1] != 0 || counts[2] != 0 {
			t.Errorf("%s: %d examples and the site's index, of which %d are hidden; and %d buttons", name, counts[0], counts[1], counts[2])
		}
	}
	paper := browser.NewTab(t)
	paper.Open(server.URL + "reference.html")
	paper.Print()
	var pressed, folded []string
	paper.Evaluate(`[...document.querySelectorAll("button, input, nav, .search")].filter((e) => e.checkVisibility()).map((e) => e.outerHTML)`, &pressed)
	paper.Evaluate(`[...document.querySelectorAll("main .field")].filter((e) => e.getBoundingClientRect().height === 0).map((e) => e.id)`, &folded)
	if len(pressed) != 0 || len(folded) != 0 {
		t.Errorf("on paper there are %q, and not the fields %q", pressed, folded)
	}
}
