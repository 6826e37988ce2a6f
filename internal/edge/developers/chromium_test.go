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

// One browser does for all.
func TestInChromium(t *testing.T) {
	t.Parallel()
	browser, servers := browsertest.Share(t, nil), forms(t)
	for name, test := range map[string]func(*testing.T, *browsertest.Browser, map[string]*httptest.Server){
		"pages": pages, "skip link": skipLink, "languages": inLanguages, "copy": copies, "search": searches,
		"without scripts": withoutScripts,
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
				looks(t, tab, names[i], "light", 320, 1280)
				for _, violation := range tab.Violations() {
					t.Errorf("%s: %s", names[i], violation)
				}
				looks(t, tab, names[i], "dark", 1280)
				for _, violation := range tab.Violations("color-contrast", "link-in-text-block") { // which colors decide
					t.Errorf("%s, dark: %s", names[i], violation)
				}
				if browsertest.Pictures() {
					looks(t, tab, names[i], "dark", 320)
				}
				if names[i] == referenceName {
					forcedColors(t, tab)
				}
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

// looks measures a page at these widths.
func looks(t *testing.T, tab *browsertest.Tab, page, scheme string, widths ...int64) {
	t.Helper()
	tab.Media("prefers-color-scheme", scheme)
	for _, width := range widths {
		tab.Do(chromedp.EmulateViewport(width, 800))
		for _, fault := range tab.LayoutFaults() {
			t.Errorf("%s, %s, %d px: %s", page, scheme, width, fault)
		}
		if browsertest.Pictures() {
			tab.ScreenshotWindow(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", page, scheme, width)))
		}
	}
	var light bool
	tab.Evaluate(`getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] > 128`, &light)
	if light != (scheme == "light") {
		t.Errorf("%s: not drawn for %s", page, scheme)
	}
}

// In forced colors everything can be read, and the chosen tab differs from the others.
func forcedColors(t *testing.T, tab *browsertest.Tab) {
	t.Helper()
	tab.Media("forced-colors", "active")
	for _, fault := range tab.LayoutFaults() {
		t.Errorf("forced colors: %s", fault)
	}
	if browsertest.Pictures() {
		tab.ScreenshotWindow(filepath.Join(t.ArtifactDir(), "forced-colors.png"))
	}
	var borders []string
	tab.Evaluate(`[...document.querySelector(".tabs").children].map((e) => getComputedStyle(e).borderBottomColor)`, &borders)
	if len(borders) < 2 || borders[0] == borders[1] {
		t.Errorf("the tabs have the borders %q", borders)
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
