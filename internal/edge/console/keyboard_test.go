package console

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// to goes on to what has a name, past the navigation of its page.
func (s *screen) to(t *testing.T, name string) {
	t.Helper()
	var passed []string
	for len(passed) < 60 {
		got := s.NextFocus()
		if got == name {
			return
		}
		if passed = append(passed, got); len(passed) == 1 && got == "Skip to the content" {
			s.Do(chromedp.KeyEvent(kb.Enter))
		}
	}
	t.Fatalf("no key leads to %q: %q", name, passed)
}

// stroke is what somebody does at the keyboard of a page.
type stroke func(t *testing.T, s *screen)

// follow goes to a link or a button, and on to the page behind it.
func follow(name string) stroke {
	return func(t *testing.T, s *screen) {
		t.Helper()
		s.to(t, name)
		s.Submit(chromedp.KeyEvent(kb.Enter))
	}
}

// order holds what takes the keys next to names.
func order(want ...string) stroke {
	return func(t *testing.T, s *screen) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, s.NextFocus())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order of the focus = %q, want %q", got, want)
		}
	}
}

// write goes to a field and presses keys in it, which replace what is there.
func write(label string, keys ...string) stroke {
	return func(t *testing.T, s *screen) {
		t.Helper()
		s.to(t, label)
		for _, key := range keys {
			s.Do(chromedp.KeyEvent(key))
		}
	}
}

// Every act of the console is done by the keyboard alone, from the page that leads to it. The first key of a page leads past its
// navigation.
func TestChromiumKeyboard(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	address, _ := edgetest.Receiver(t, nil)
	ride, _ := s.ConnectNew(t, "Ride Club")
	walk, _ := s.ConnectNew(t, "Walk Club")
	s.putSteps(t, 9, 12_345)
	s.events(t, walk.ID, "failed", 2)
	logo := filepath.Join(t.TempDir(), "logo.svg")
	if err := os.WriteFile(logo, []byte(circle), 0o600); err != nil {
		t.Fatal(err)
	}
	// The dialog for files is the system's: the keyboard gets as far as the field.
	choose := func(t *testing.T, s *screen) {
		t.Helper()
		s.to(t, "File")
		s.Do(chromedp.SetUploadFiles(chromedp.CSS("#f-logo:focus"), []string{logo}))
	}
	user, connection := userPath(s.User.ID), connectionPath(s.User.ID, ride.ID)
	partner, hooks := pathOf(walk.ID), pathOf(walk.ID)+"/webhooks"
	failed := hooks + "/" + pgtest.Value[uuid.UUID](t, s.DB, "select event_id from webhook_events where state = 'failed' limit 1").String()
	find := func(_ *testing.T, s *screen) {
		s.Do(chromedp.WaitReady(chromedp.CSS("#find:focus")), chromedp.KeyEvent("new@example.com"))
		s.Submit(chromedp.KeyEvent(kb.Enter))
	}
	enter := func(_ *testing.T, s *screen) { s.Submit(chromedp.KeyEvent(kb.Enter)) }
	skip := func(_ *testing.T, s *screen) { s.Do(chromedp.KeyEvent(kb.Enter)) }
	back := func(_ *testing.T, s *screen) {
		s.Do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)))
	}
	for _, act := range []struct {
		path    string
		strokes []stroke
		says    string
	}{
		{user, []stroke{follow("Correct steps or distance"), write("Date", "03092026"), write("Change", "-2000"), write("Note", "twice"), follow("Preview the correction"),
			follow("Correct")}, "The day is corrected."},
		{user, []stroke{follow("Correct steps or distance"), write("What", kb.ArrowDown), write("Date", "03092026"), write("Change", "70"), follow("Preview the correction"),
			follow("Correct")}, "The day is corrected."},
		{user, []stroke{follow("Remove"), follow("Remove")}, "The correction is removed."},
		{connection, []stroke{follow("Disconnect"), follow("Disconnect")}, "The connection has ended."},
		{user, []stroke{follow("Change address, time zone or registration"), write("Email address", "new@example.com"), follow("Change")}, "The user is changed."},
		{partnersPath, []stroke{follow("Register a partner"), write("Name", "Swim Club"), write("Callback address", "https://swim.example/cb"), write("cycling_daily:read", " "),
			follow("Register"), follow("I have saved it")}, "Swim Club"},
		{partner, []stroke{follow("Change"), write("Website", "https://walk.example/"), follow("Save")}, "The registration is changed."},
		{partner, []stroke{follow("Logo"), choose, follow("Use this logo")}, "The logo is set."},
		{partner, []stroke{follow("Logo"), follow("Remove the logo")}, "The logo is removed."},
		{partner, []stroke{follow("Replace the secret"), follow("Replace the secret")}, "The previous secret works until"},
		{partner, []stroke{follow("Replace the secret"), write("How long the current secret keeps working", kb.Home), follow("Replace the secret")},
			"The previous secret no longer works."},
		{hooks, []stroke{follow("Set an address"), write("Address", address), follow("Set the address")}, "The webhook is set"},
		{hooks, []stroke{follow("Send a test"), write("connection.revoked", kb.ArrowDown), follow("Send")}, "The receiver accepted it."},
		{failed, []stroke{follow("Send again"), follow("Send again")}, "The event is sent again."},
		{hooks, []stroke{follow("Send all failed ones again"), follow("Send them again")}, "No failed event is left."},
		{hooks, []stroke{follow("Replace the secret"), follow("Replace the secret")}, "The webhook secret is replaced"},
		{hooks, []stroke{follow("Remove"), follow("Remove")}, "The webhook is removed."},
		{partner, []stroke{follow("Disable"), follow("Disable")}, "The partner is disabled."},
		{partner, []stroke{follow("Enable"), follow("Enable")}, "The partner is enabled."},
		{partner, []stroke{follow("Revoke all tokens"), follow("Revoke all tokens")}, "All tokens of the partner are revoked."},
		{partner, []stroke{follow("Offboard"), write("Name of the partner", "Walk Club"), follow("Offboard for good")}, "The partner is offboarded."},
		{usersPath, []stroke{find, order("Skip to the content", "Overview", "Users", "Partners", "Service", "Audit log", "Address, name or ID", "Find", "Sign out", "Users", "Audit log of this user",
			"Download a copy of the user’s data", "Change address, time zone or registration", "Delete this user"), enter, order("Skip to the content"), skip, order("Delete for good", "Go back"),
			back, enter}, "The user is deleted."},
		{Path + "/service", []stroke{follow("Sign out")}, "Sign in to the console"},
		{Path + "/audit", []stroke{write("Operator token", edgetest.AdaToken), follow("Sign in")}, "user.deleted"},
	} {
		s.at(t, act.path)
		for _, stroke := range act.strokes {
			stroke(t, s)
		}
		var text string
		s.Evaluate("document.querySelector('main').innerText", &text)
		if !strings.Contains(text, act.says) {
			t.Errorf("%s: the page does not say %q:\n%s", act.path, act.says, text)
		}
	}
}
