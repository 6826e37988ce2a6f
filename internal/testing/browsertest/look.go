package browsertest

import (
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

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
