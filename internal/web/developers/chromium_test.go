package developers

import (
	"flag"
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

// pictures says that somebody wants to look at the pages: `go test -artifacts -outputdir DIR`. Drawing them takes long.
func pictures() bool { return flag.Lookup("test.artifacts").Value.String() == "true" }

// One browser does for all.
func TestInChromium(t *testing.T) {
	t.Parallel()
	browser, servers := browsertest.Start(t), forms(t)
	for name, test := range map[string]func(*testing.T, *browsertest.Browser, map[string]*httptest.Server){
		"pages": pages, "skip link": skipLink, "languages": inLanguages, "copy": copies, "search": searches,
		"without scripts": withoutScripts, "forced colors": forcedColors,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, browser, servers)
		})
	}
}

// Every page, as people with each kind of screen and each kind of sight see it.
func pages(t *testing.T, browser *browsertest.Browser, servers map[string]*httptest.Server) {
	server := servers["served"]
	names := append(pageNames(), "no-such-page")
	const tabs = 2 // at the same time
	for first := range tabs {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			tab := browser.NewTab(t)
			for i := first; i < len(names); i += tabs {
				tab.Open(server.URL + names[i] + ".html")
				looks(t, tab, names[i], "light")
				looks(t, tab, names[i], "dark", "color-contrast", "link-in-text-block") // what the colors decide
			}
			for _, address := range tab.Requests() {
				if !strings.HasPrefix(address, server.URL) {
					t.Errorf("a page asks for %s", address)
				}
			}
			for _, problem := range tab.Problems() {
				if !strings.Contains(problem, "no-such-page") {
					t.Errorf("the console shows: %s", problem)
				}
			}
		})
	}
}

// looks looks at a page on a wide screen and on a narrow one, with these rules of axe or all.
func looks(t *testing.T, tab *browsertest.Tab, page, scheme string, rules ...string) {
	t.Helper()
	tab.Media("prefers-color-scheme", scheme)
	for _, width := range []int64{320, 1280} {
		tab.Do(chromedp.EmulateViewport(width, 800))
		for _, fault := range tab.LayoutFaults() {
			t.Errorf("%s, %s, %d px: %s", page, scheme, width, fault)
		}
		if pictures() {
			tab.ScreenshotWindow(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", page, scheme, width)))
		}
	}
	for _, violation := range tab.Violations(rules...) {
		t.Errorf("%s, %s: %s", page, scheme, violation)
	}
	var light bool
	tab.Evaluate(`getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] > 128`, &light)
	if light != (scheme == "light") {
		t.Errorf("%s: not drawn for %s", page, scheme)
	}
}

// The first press of Tab leads past the contents.
func skipLink(t *testing.T, browser *browsertest.Browser, servers map[string]*httptest.Server) {
	server := servers["served"]
	tab := browser.NewTab(t)
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
