package pages

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/testing/browsertest"
)

var pictures = flag.String("pages", "", "a folder for pictures of all pages side by side: `make pages`")

// TestChromiumEveryLanguage holds every page in every state against the rules for all: complete at 1280 and 320 px and with
// letters twice as large, and every text seen. A page that fits in the languages with the longest word and with most letters fits
// in the others, too; -every-language checks them all. Colors, names and structure (WCAG 2.2 AA) are the same in all languages, and
// so are looked at in one: in light, dark and forced colors.
func TestChromiumEveryLanguage(t *testing.T) {
	t.Parallel()
	handler, err := Preview(acme(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	chromium := browsertest.Share(t, nil)
	chosen := map[string][]string{} // samples by language
	for _, s := range samples() {
		for tag := range longest(t, handler, s.Name) {
			chosen[tag] = append(chosen[tag], s.Name)
		}
	}
	for tag, names := range chosen {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			tab := chromium.NewTab(t)
			for _, name := range names {
				tab.Open(server.URL + "/" + tag + "/" + name)
				lookAtLayout(t, tab, name)
				if tag == "en" {
					lookAtColors(t, tab, name)
				}
			}
		})
	}
}

var everyLanguage = flag.Bool("every-language", false, "look at pages in every language")

// longest are the languages in which a page has its longest word, and most letters, and English.
func longest(t *testing.T, handler http.Handler, name string) map[string]bool {
	t.Helper()
	var longestWord, mostLetters string
	var word, letters int
	tags := map[string]bool{"en": true}
	for _, tag := range locale.Default().Tags() {
		page := httptest.NewRecorder()
		handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/"+tag+"/"+name, nil))
		text := htmlTag.ReplaceAllString(page.Body.String(), " ")
		if n := utf8.RuneCountInString(slices.MaxFunc(strings.Fields(text), func(a, b string) int {
			return utf8.RuneCountInString(a) - utf8.RuneCountInString(b)
		})); n > word {
			longestWord, word = tag, n
		}
		if n := utf8.RuneCountInString(text); n > letters {
			mostLetters, letters = tag, n
		}
		if *everyLanguage {
			tags[tag] = true
		}
	}
	tags[longestWord], tags[mostLetters] = true, true
	return tags
}

var htmlTag = regexp.MustCompile(`(?s)<style.*?</style>|<[^>]*>`)

func lookAtLayout(t *testing.T, tab *browsertest.Tab, name string) {
	t.Helper()
	for _, width := range []int64{1280, 320} {
		tab.Do(chromedp.EmulateViewport(width, 844))
		for _, fault := range tab.LayoutFaults() {
			t.Errorf("%s at %d px: %s", name, width, fault)
		}
	}
	var size string
	tab.Evaluate("document.documentElement.style.fontSize = '200%'", &size)
	for _, fault := range tab.LayoutFaults() {
		t.Errorf("%s with letters twice as large: %s", name, fault)
	}
	tab.Evaluate("document.documentElement.style.fontSize = ''", &size)
}

func lookAtColors(t *testing.T, tab *browsertest.Tab, name string) {
	t.Helper()
	for i, media := range [][2]string{{"prefers-color-scheme", "light"}, {"prefers-color-scheme", "dark"}, {"forced-colors", "active"}} {
		tab.Media(media[0], media[1])
		var rules []string // all
		if i > 0 {
			rules = []string{"color-contrast", "link-in-text-block"} // what else they hold does not depend on colors
		}
		for _, fault := range append(tab.Violations(rules...), tab.LayoutFaults()...) {
			t.Errorf("%s, %s: %s", name, media[1], fault)
		}
		if media[0] == "prefers-color-scheme" {
			var light bool
			tab.Evaluate(`getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] > 128`, &light)
			if light != (media[1] == "light") {
				t.Errorf("%s: not drawn for %s", name, media[1])
			}
		}
		tab.Media(media[0], "")
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
	tab := browsertest.Share(t, nil).NewTab(t)
	folder, tags, schemes := t.ArtifactDir(), []string{"de"}, []string{"dark"}
	if *pictures != "" {
		folder, tags, schemes = *pictures, []string{"en", "de"}, []string{"light", "dark"}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tag := range tags {
		for _, scheme := range schemes {
			tab.Media("prefers-color-scheme", scheme)
			tab.Do(chromedp.EmulateViewport(2600, 1000))
			tab.Open(server.URL + "/" + tag)
			var heights []int
			tab.Evaluate(`[...document.querySelectorAll("iframe")].map(f => f.offsetHeight)`, &heights)
			if len(heights) != len(samples())+4+len(account.ReceiptKinds) || slices.Min(heights) < 150 {
				t.Errorf("%s, %s: frames of the heights %v", tag, scheme, heights)
			}
			tab.Screenshot(filepath.Join(folder, fmt.Sprintf("%s-%s.png", tag, scheme)))
		}
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the console shows %q", problems)
	}
}
