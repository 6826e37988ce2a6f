package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// TestAfterDenying: no page sends somebody who has allowed nothing to a list of nothing.
func TestAfterDenying(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for decision, list := range map[string]int{"deny": 0, "allow": 1} {
		v := f.visitor(t)
		base, _ := v.consent(scope.All)
		v.Location(v.Post(base+"/consent", "decision", decision))
		after := v.Get(base + "/consent")
		if said(after.Find("h1")) != headingDecided || after.Find(`main a[href="/account"]:not([target])`).Length() != list {
			t.Errorf("after %s: %q", decision, said(after.Find("main")))
		}
		if got := said(after.Find("details.cause summary")); got != "Details for the company’s support team" {
			t.Errorf("the code of the error is for %q", got)
		}
	}
}

// TestOlderCodeIsTold: whoever enters the code of an earlier email is told so, and has as many tries as before.
func TestOlderCodeIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	older := v.ask(base, email)
	newest := older
	for newest == older { // once in a million
		v.Location(v.Post(base + "/new-code"))
		newest = f.post.Next(t).Code
	}
	to := v.Location(v.Post(base+"/code", "code", "Code: "+older))
	if got := said(v.Get(to).Find("#problem")); to != base+"/code?older" || !strings.HasPrefix(got, "That code is from an earlier email.") {
		t.Errorf("%s says %q", to, got)
	}
	if got := v.Location(v.Post(base+"/code", "code", "“"+newest+"”")); got != base+"/consent" {
		t.Errorf("the newest leads to %q", got)
	}
}

// TestNoOfferWithoutACode: no button asks for a code that would be refused.
func TestNoOfferWithoutACode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 1})
	v := f.visitor(t)
	base := v.open(scope.All)
	v.ask(base, email)
	for _, state := range []string{"attempts = 0", "attempts = 5", "mail = 'failed'"} {
		f.DB.Exec(t, "update sign_ins set "+state)
		page := v.Get(base + "/code")
		if page.Find(`form[action$="/new-code"]`).Length() != 0 || page.Find(".next").Length() != 1 {
			t.Errorf("%s: %q", state, said(page.Find("main")))
		}
	}
}

// TestBrowsersCanBeTold: ten browsers of one kind and of one day differ by time, also for a screen reader.
func TestBrowsersCanBeTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	v.enter(email)
	signIn := pgtest.Value[uuid.UUID](t, f.DB, "select sign_in_id from sign_ins")
	for i := range byte(9) {
		f.DB.Clock.Advance(time.Minute)
		if err := f.Accounts.RememberBrowser(t.Context(), signIn, account.BrowserKey{UserID: f.User.ID, Secret: [32]byte{i + 1}}, nil, "", "en"); err != nil {
			t.Fatal(err)
		}
	}
	list := v.account().Find(".browsers li")
	names := map[string]bool{}
	for _, button := range list.Find("button").EachIter() {
		names[button.AttrOr("aria-label", "")] = true
	}
	if list.Length() != 10 || len(names) != 10 || !names["Remove A browser, 21\u00a0November 2026, 13:00"] {
		t.Errorf("%d browsers, %v", list.Length(), names)
	}
	if got := said(list.Last().Find(".aside")); got != "Last sign-in: 21 November 2026, 13:00" {
		t.Errorf("%q", got)
	}
	v.Location(v.Post("/account/sign-out"))
	v.enter(email)
	if got := said(v.account().Find(".browsers li").First().Find(".aside")); got != "Last sign-in: 21 November 2026, 13:09First sign-in: 21 November 2026, 13:00" {
		t.Errorf("%q", got)
	}
}

// TestAccountCodeOfLongAgo: who enters a code or opens its link after the code was swept is told that it is too old, in the browser that asked for
// it. In another one the link leads to that browser still.
func TestAccountCodeOfLongAgo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v, other := f.visitor(t), f.visitor(t)
	link, code := v.linked(accountBase)
	f.DB.Clock.Advance(account.CodeLifetime + 6*time.Minute)
	if err := f.Accounts.Sweep(t.Context(), f.DB.Now().Add(-5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for want, answer := range map[string]edgetest.Page{
		"This code is more than 10 minutes old and no longer works.": v.Post("/account/code", "code", code),
		"This link is more than 10 minutes old and no longer works.": v.Get(link),
	} {
		page := v.Get(v.Location(answer))
		if got := said(page.Find("[role=status]")); got != want || page.Find("input[name=email]").Length() != 1 {
			t.Errorf("the page says %q, want %q", got, want)
		}
	}
	if got := v.Location(v.Post(link)); got != "/account/sign-in?late-link" {
		t.Errorf("the button of the link leads to %q", got)
	}
	if got := other.Get(link).Find("h1").Text(); got != headingElsewhere {
		t.Errorf("another browser sees %q", got)
	}
	if got := v.Location(v.Get("/account/code")); got != "/account/sign-in" {
		t.Errorf("the page for the code leads to %q", got)
	}
}
