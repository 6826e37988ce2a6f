package pages

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/locale"
	"connect-svc/internal/testing/browsertest"
)

var pictures = flag.String("pages", "", "a folder for pictures of all pages side by side: `make pages`")

// TestChromiumEveryLanguage holds every page in every state and language against the rules for all: complete at 1280, 390 and
// 320 px and with letters twice as large, readable in light, dark and forced colors, with sizes and names (WCAG 2.2 AA). Colors
// are the same in all languages, and so looked at in one.
func TestChromiumEveryLanguage(t *testing.T) {
	t.Parallel()
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	chromium := browsertest.Start(t)
	for _, tag := range locale.Default().Tags() {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			tab := chromium.NewTab(t)
			for _, s := range samples() {
				tab.Open(server.URL + "/" + tag + "/" + s.Name)
				look(t, tab, s.Name, tag == "en")
			}
		})
	}
}

// look holds the page that a tab shows against the rules.
func look(t *testing.T, tab *browsertest.Tab, name string, inAllColors bool) {
	t.Helper()
	for _, width := range []int64{1280, 390, 320} {
		tab.Do(chromedp.EmulateViewport(width, 844))
		for _, fault := range tab.LayoutFaults() {
			t.Errorf("%s at %d px: %s", name, width, fault)
		}
	}
	for _, violation := range tab.Violations() {
		t.Errorf("%s: %s", name, violation)
	}
	if inAllColors {
		for _, color := range [][2]string{{"prefers-color-scheme", "dark"}, {"forced-colors", "active"}} {
			tab.Media(color[0], color[1])
			for _, fault := range append(tab.Violations(), tab.LayoutFaults()...) {
				t.Errorf("%s, %s: %s", name, color[1], fault)
			}
			tab.Media(color[0], "")
		}
	}
	var size string
	tab.Evaluate("document.documentElement.style.fontSize = '200%'", &size)
	for _, fault := range tab.LayoutFaults() {
		t.Errorf("%s with letters twice as large: %s", name, fault)
	}
}

// TestChromiumPictures draws all pages and emails side by side, as an operator sees them before users do.
func TestChromiumPictures(t *testing.T) {
	t.Parallel()
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	tab := browsertest.Start(t).NewTab(t)
	folder := t.ArtifactDir()
	if *pictures != "" {
		folder = *pictures
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tag := range []string{"en", "de"} {
		for _, scheme := range []string{"light", "dark"} {
			tab.Media("prefers-color-scheme", scheme)
			tab.Do(chromedp.EmulateViewport(2600, 1000))
			tab.Open(server.URL + "/" + tag)
			var heights []int
			tab.Evaluate(`[...document.querySelectorAll("iframe")].map(f => f.offsetHeight)`, &heights)
			if len(heights) != len(samples())+3 || slices.Min(heights) < 150 {
				t.Errorf("%s, %s: frames of the heights %v", tag, scheme, heights)
			}
			tab.Screenshot(filepath.Join(folder, fmt.Sprintf("%s-%s.png", tag, scheme)))
		}
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the console shows %q", problems)
	}
}
