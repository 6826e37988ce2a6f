package developers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/testing/browsertest"
)

// forms are the site as it is served and as `make docs` writes it, each in a real browser.
func forms(t *testing.T) map[string]*httptest.Server {
	t.Helper()
	site := newSite(t)
	dir := t.TempDir()
	if err := site.Write(filepath.Join(dir, "any", "folder")); err != nil {
		t.Fatal(err)
	}
	servers := map[string]*httptest.Server{
		"served": httptest.NewServer(site),
		"static": httptest.NewServer(http.FileServer(http.Dir(dir))),
	}
	for _, server := range servers {
		t.Cleanup(server.Close)
	}
	servers["served"].URL += Path
	servers["static"].URL += "/any/folder/"
	return servers
}

// Every guide, as people with each kind of screen and each kind of sight see it.
func TestPagesInChromium(t *testing.T) {
	t.Parallel()
	server := forms(t)["served"]
	tab := browsertest.Start(t).NewTab(t)
	for _, name := range append(markdownPages(), "no-such-page") {
		tab.Open(server.URL + name + ".html")
		for _, scheme := range []string{"light", "dark"} {
			tab.Media("prefers-color-scheme", scheme)
			for _, width := range []int64{1100, 320} {
				tab.Do(chromedp.EmulateViewport(width, 800))
				for _, fault := range tab.LayoutFaults() {
					t.Errorf("%s, %s, %d px: %s", name, scheme, width, fault)
				}
				tab.Screenshot(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", name, scheme, width)))
				for _, violation := range tab.Violations() {
					t.Errorf("%s, %s, %d px: %s", name, scheme, width, violation)
				}
			}
			var light bool
			tab.Evaluate(`getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] > 128`, &light)
			if light != (scheme == "light") {
				t.Errorf("%s: not drawn for %s", name, scheme)
			}
		}
		var scripts int
		if tab.Evaluate("document.scripts.length", &scripts); scripts != 0 {
			t.Errorf("%s has a script", name)
		}
	}
	for _, problem := range tab.Problems() {
		if !strings.Contains(problem, "no-such-page") {
			t.Errorf("the console shows: %s", problem)
		}
	}
}

// The first press of Tab leads past the contents.
func TestSkipLink(t *testing.T) {
	t.Parallel()
	server := forms(t)["served"]
	tab := browsertest.Start(t).NewTab(t)
	tab.Open(server.URL + "consent.html")
	tab.Do(chromedp.KeyEvent("\t"))
	var focused string
	if tab.Evaluate("document.activeElement.textContent", &focused); focused != "Skip to the content" {
		t.Errorf("the first focus is on %q", focused)
	}
	tab.Do(chromedp.KeyEvent("\r"), chromedp.KeyEvent("\t"))
	var inside bool
	if tab.Evaluate(`document.querySelector("main").contains(document.activeElement)`, &inside); !inside {
		t.Error("the skip link does not lead to the content")
	}
}

// The reference draws the whole contract, in both forms, without asking another host and without a word of the console.
func TestReferenceInChromium(t *testing.T) {
	t.Parallel()
	for form, server := range forms(t) {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			tab := browsertest.Start(t).NewTab(t)
			tab.Open(server.URL + "reference.html")
			for _, scheme := range []string{"light", "dark"} {
				tab.Media("prefers-color-scheme", scheme)
				tab.Do(chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf(`#reference > .%s [id="operation/disconnectGrant"]`, scheme))))
				for _, width := range []int64{1100, 320} {
					tab.Do(chromedp.EmulateViewport(width, 800))
					var wide int
					for _, violation := range tab.Violations() {
						// What is ours of it: the colors, and that what scrolls can be reached.
						if strings.HasPrefix(violation, "color-contrast:") || strings.HasPrefix(violation, "scrollable-region-focusable:") {
							t.Errorf("%s, %d px: %s", scheme, width, violation)
						}
					}
					if tab.Evaluate("document.documentElement.scrollWidth", &wide); wide > int(width) {
						t.Errorf("%s: %d px wide in a window of %d", scheme, wide, width)
					}
					for _, id := range []string{"content", "section/Errors-and-retries", "tag/Activity/operation/readCyclingActivities"} {
						tab.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.getElementById(%q).scrollIntoView()`, id)))
						picture := fmt.Sprintf("reference-%s-%s-%d-%s.png", form, scheme, width, filepath.Base(id))
						tab.ScreenshotWindow(filepath.Join(t.ArtifactDir(), picture))
					}
				}
			}
			for _, link := range linksOf(t, newSite(t)) {
				if _, anchor, has := strings.Cut(link.to, referenceName+".html#"); has {
					var there bool
					if tab.Evaluate(fmt.Sprintf("!!document.getElementById(%q)", anchor), &there); !there {
						t.Errorf("%s leads to %s, where no such anchor is", link.page, link.to)
					}
				}
			}
			for _, address := range tab.Requests() {
				if !strings.HasPrefix(address, server.URL) && !strings.HasPrefix(address, "data:") {
					t.Errorf("it asks for %s", address)
				}
			}
			for _, problem := range tab.Problems() {
				t.Errorf("the console shows: %s", problem)
			}
		})
	}
}

// A script of the reference has no power over the pages that users sign in to, which are on the same host: it can read none of
// them, and neither their cookies nor what the browser stores. A request that it sends has the origin null, which forms refuse.
func TestReferenceIsNobodyToOtherPages(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/account" {
			site.ServeHTTP(w, r)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "visible", Value: "to-scripts", Path: "/"})
		if r.Method != http.MethodGet {
			t.Errorf("the script had the browser send a form, from %s", r.Header.Get("Origin"))
		}
		fmt.Fprint(w, "<title>a page of a user</title>")
	}))
	t.Cleanup(server.Close)
	tab := browsertest.Start(t).NewTab(t)
	tab.Open(server.URL + "/account")
	tab.Open(server.URL + Path + "reference.html")
	for name, attack := range map[string]string{
		"reads a page": `const answer = await fetch("/account", {credentials: "include"}); return answer.text()`,
		"sends a form": `const form = document.createElement("form"); form.method = "post"; form.action = "/account";
			document.body.append(form); form.submit(); await new Promise((done) => setTimeout(done, 300)); throw "nothing was sent"`,
		"cookies":      `return document.cookie`,
		"storage":      `return localStorage.length`,
		"opens a page": `const page = open("/account"); await new Promise((done) => setTimeout(done, 300)); return page.document.title`,
	} {
		var got string
		tab.Evaluate(`(async () => { try { return "got " + await (async () => {`+attack+`})() } catch (refusal) { return "refused" } })()`, &got)
		if got != "refused" {
			t.Errorf("the script %s: %s", name, got)
		}
	}
}
