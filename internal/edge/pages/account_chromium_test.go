package pages

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
)

const (
	disconnectLink = chromedp.CSS(".connections a.other")
	signOutButton  = chromedp.CSS(".signed-in button")
)

// enter signs in to the account pages, to which the tab has just been led.
func (s *screen) enter(t *testing.T) {
	t.Helper()
	s.IsTitled("Sign in to your connections · Activity Connect")
	s.Submit(chromedp.SetValue(emailField, email), chromedp.Click(mainButton))
	s.IsTitled("Enter your code · Activity Connect")
	s.Submit(chromedp.SendKeys(codeField, s.post.Next(t).Code), chromedp.Click(mainButton))
	s.IsTitled("Your connections · Activity Connect")
}

// names are the companies of the list.
func (s *screen) names() (names []string) {
	s.Evaluate(`[...document.querySelectorAll(".connections h2")].map((h) => h.textContent)`, &names)
	return names
}

func TestChromiumAccount_4(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	tokens := s.connect(t, scope.All)
	s.partner(t, "Kept GmbH").connect(t, scope.DailySteps)
	s.Open(at("/account"))
	s.enter(t)
	if got := s.names(); !slices.Equal(got, []string{"Kept GmbH", "Stride & Co"}) {
		t.Fatalf("connections: %q", got)
	}

	// Keeping the connection is one press, too, and leads back to the list.
	stride := chromedp.CSS(`a[href="` + s.disconnectPage() + `"]`)
	s.Submit(chromedp.Click(stride))
	s.IsTitled("Disconnect Stride & Co? · Activity Connect")
	s.Submit(chromedp.Click(chromedp.CSS("a.other")))
	if _, err := s.OAuth.Authenticate(t.Context(), tokens.AccessToken); err != nil {
		t.Fatalf("the connection was not kept: %v", err)
	}

	s.Submit(chromedp.Click(stride))
	s.Submit(chromedp.Click(mainButton))
	s.IsTitled("Stride & Co is disconnected: Your connections · Activity Connect")
	if got := s.names(); !slices.Equal(got, []string{"Kept GmbH"}) {
		t.Errorf("connections: %q", got)
	}
	if _, err := s.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
		t.Error("the access token still works")
	}
	s.Submit(chromedp.Reload())
	s.IsTitled("Stride & Co is disconnected: Your connections · Activity Connect")

	// A second tab of the browser is signed in, and signed out, with the first.
	second := &screen{s.fixture, s.chromium, s.NewTab()}
	second.Open(at("/account"))
	second.IsTitled("Your connections · Activity Connect")
	s.Submit(chromedp.Click(signOutButton))
	s.IsTitled("Sign in to your connections · Activity Connect")
	second.Submit(chromedp.Click(disconnectLink))
	second.IsTitled("Sign in to your connections · Activity Connect")
	s.isClean(t)
	second.isClean(t)

	// Going back does not show the former page again.
	s.Do(chromedp.Evaluate[chromedp.Void]("void setTimeout(() => history.back())"))
	s.WaitTitle("Sign in to your connections · Activity Connect")
}

// TestChromiumCopyAfterTheSession: who asks for a copy when the session has ended signs in again. The browser saves no page as the copy.
func TestChromiumCopyAfterTheSession(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.Open(at("/account"))
	s.enter(t)
	s.DB.Clock.Advance(account.SessionLifetime)
	s.Submit(chromedp.Click(chromedp.CSS(`a[href="` + copyPath + `"]`)))
	s.IsTitled("Sign in to your connections · Activity Connect")
	if got := s.Location(); got != at("/account/sign-in?ended") {
		t.Errorf("location = %q", got)
	}
}

// TestChromiumAccountAnotherSite: a page elsewhere that posts our forms changes nothing.
func TestChromiumAccountAnotherSite_4(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	tokens := s.connect(t, scope.All)
	s.Open(at("/account"))
	s.enter(t)
	for _, path := range []string{s.disconnectPage(), "/account/sign-out"} {
		s.Open("https://" + partnerHost + "/connect")
		s.Evaluate(`document.body.innerHTML = '<form method="post" action="`+at(path)+`"><button class="act">Win</button></form>'`, new(string))
		if status := s.Submit(chromedp.Click(mainButton)); status != http.StatusForbidden {
			t.Errorf("%s: status = %d, want 403", path, status)
		}
	}
	s.Open(at("/account"))
	s.IsTitled("Your connections · Activity Connect")
	if _, err := s.OAuth.Authenticate(t.Context(), tokens.AccessToken); err != nil {
		t.Errorf("another site has disconnected: %v", err)
	}
}

// TestChromiumAccountKeyboard goes the whole way without a mouse.
func TestChromiumAccountKeyboard(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.connect(t, scope.All)
	s.Open(at("/account"))
	s.Do(chromedp.WaitReady(emailField+":focus"), chromedp.KeyEvent(email))
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.Do(chromedp.WaitReady(codeField+":focus"), chromedp.KeyEvent(s.post.Next(t).Code))
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.IsTitled("Your connections · Activity Connect")

	order := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, s.NextFocus())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("order of the focus = %q, want %q", got, want)
		}
	}
	const site = "www.partner.example (opens in a new tab)"
	order(site, "Disconnect Stride & Co")
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.IsTitled("Disconnect Stride & Co? · Activity Connect")
	order(site, "Disconnect", "Keep connected")
	s.Submit(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)), chromedp.KeyEvent(kb.Enter))
	s.IsTitled("Stride & Co is disconnected: Your connections · Activity Connect")
	order("Remove A browser, 21\u00a0November 2026, 13:00", "Download a copy", "Sign out")
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.IsTitled("Sign in to your connections · Activity Connect")
	s.isClean(t)
}

// TestChromiumEveryAccountPage holds the account pages against the rules for all, as TestChromiumEveryPage does the
// others.
func TestChromiumEveryAccountPage(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	look := func(name string) {
		t.Helper()
		s.lookAt(t, "account "+name)
	}
	submit := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		s.Submit(append(steps, chromedp.Click(mainButton))...)
	}

	s.Open(at("/account"))
	look("sign-in")
	submit(chromedp.SendKeys(emailField, "ada@"))
	look("sign-in, no address")
	submit(chromedp.SetValue(emailField, email))
	look("code")
	code := s.post.Next(t).Code
	submit(chromedp.SendKeys(codeField, otherThan(code)))
	look("code, wrong")
	submit(chromedp.SetValue(codeField, code))
	look("list without connections")

	lapsed := s.partner(t, "Lapsing Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft mbH")
	lapsed.connect(t, scope.CyclingActivities|scope.CyclingDaily)
	s.DB.Clock.Advance(91 * 24 * time.Hour)
	revoked := s.partner(t, "Revoking SA")
	if err := s.OAuth.Revoke(t.Context(), edgetest.Credentials(revoked.client), revoked.connect(t, scope.DailySteps).RefreshToken); err != nil {
		t.Fatal(err)
	}
	tokens := s.connect(t, scope.All)
	s.Read(t, tokens, scope.All)
	s.Open(at(s.disconnectPage()))
	look("sign-in after the end of the session")
	s.enter(t)
	look("list")
	s.Open(at(lapsed.disconnectPage()))
	look("disconnect lapsed")
	s.Open(at(revoked.disconnectPage()))
	look("disconnect revoked")
	s.Open(at(s.disconnectPage()))
	look("disconnect")
	submit()
	look("list after a disconnect")
	s.Open(at("/account/other"))
	look("not found")
	s.Open(at("/account"))
	s.Submit(chromedp.Click(signOutButton))
	look("sign-in after signing out")

	for range limits.CodesPerEmail {
		s.Open(at("/account/sign-in"))
		submit(chromedp.SetValue(emailField, email))
	}
	look("too many codes")
	s.stopMail()
	s.Open(at("/account/sign-in"))
	submit(chromedp.SetValue(emailField, "bea@example.com"))
	look("no mail")
	s.DB.Exec(t, "alter table sign_ins rename to gone")
	s.Submit(chromedp.Reload())
	look("fault")

	for _, problem := range s.Problems() {
		if !strings.HasPrefix(problem, "network: Failed to load resource: the server responded with a status of") {
			t.Errorf("the console shows: %s", problem)
		}
	}
}
