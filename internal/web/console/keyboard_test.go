package console

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab goes on to what takes the keys next, and returns its name.
func (s *screen) tab(t *testing.T) string {
	t.Helper()
	s.Do(chromedp.KeyEvent(kb.Tab))
	var focused struct{ Name, Outline string }
	s.Evaluate(`({Name: document.activeElement.ariaLabel ?? (document.activeElement.textContent.trim() || document.activeElement.labels?.[0]?.textContent),
		Outline: getComputedStyle(document.activeElement).outlineStyle})`, &focused)
	if focused.Outline != "solid" {
		t.Errorf("the focus on %q cannot be seen: outline %s", focused.Name, focused.Outline)
	}
	return focused.Name
}

// TestChromiumKeyboard signs in, finds a user and deletes them without a mouse. The first key of each page leads past its
// navigation.
func TestChromiumKeyboard(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	enter := func(steps ...chromedp.Action[chromedp.Void]) { s.Submit(append(steps, chromedp.KeyEvent(kb.Enter))...) }
	order := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, s.tab(t))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order of the focus = %q, want %q", got, want)
		}
	}
	enter(chromedp.WaitReady(chromedp.CSS("#q:focus")), chromedp.KeyEvent(s.user.Email))
	s.isTitled(t, s.user.Email+" · Console · Activity Connect")
	order("Skip to the content", "Users", "Partners", "Service", "Audit log", "Sign out", "Users", "Audit log of this user",
		"Change address, time zone or registration", "Delete this user")
	enter()
	s.isTitled(t, "Delete "+s.user.Email+"? · Console · Activity Connect")
	order("Skip to the content")
	s.Do(chromedp.KeyEvent(kb.Enter))
	order("Delete for good", "Go back")
	enter(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)))
	s.isTitled(t, "Users · Console · Activity Connect")
}
