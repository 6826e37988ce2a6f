package pages

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
)

var linkInEmail = regexp.MustCompile(`(?m)^https://\S+/link/\S{43}$`)

// linked has an email sent and returns the path of its link, and the code.
func (v visitor) linked(base string) (path, code string) {
	v.T.Helper()
	if got := v.Location(v.Post(base+"/sign-in", "email", email)); got != base+"/code" {
		v.T.Fatalf("location = %q", got)
	}
	mail := v.f.post.Next(v.T)
	link, err := url.Parse(linkInEmail.FindString(mail.Text))
	if err != nil || !strings.HasPrefix(link.Path, base+"/link/") {
		v.T.Fatalf("link = %q, %v", link, err)
	}
	return link.Path, mail.Code
}

// TestLink: the link of an email signs in to both kinds of pages, by a button, once.
func TestLink(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for _, pages := range []string{"of a request", "of the account"} {
		v := f.visitor(t)
		base, goal := accountBase, accountBase
		if pages == "of a request" {
			base = v.open(scope.All)
			goal = base + "/consent"
		}
		link, code := v.linked(base)
		for range 3 { // programs that look at emails, and people who open it again
			page := v.Get(link)
			if action, _ := page.Find("form .act").Parent().Attr("action"); page.StatusCode != http.StatusOK || action != link {
				t.Fatalf("%s: %d, a form of %q", pages, page.StatusCode, action)
			}
			if got := page.Find("strong.address").Text(); got != email {
				t.Errorf("%s: as %q", pages, got)
			}
		}
		newest, _ := v.linked(base)
		if got := v.Location(v.Get(link)); got != base+"/code?old-link" {
			t.Errorf("%s: an older link leads to %q", pages, got)
		}
		if got := v.Location(v.Post(link)); got != base+"/code?old-link" {
			t.Errorf("%s: an older link leads to %q", pages, got)
		}
		if got := v.Get(base + "/code?old-link").Find(".problem").Text(); !strings.Contains(got, "newest email") {
			t.Errorf("%s: the page says %q", pages, got)
		}
		if got := v.Location(v.Post(base+"/code", "code", code)); got != base+"/code?older" {
			t.Errorf("%s: an older code leads to %q", pages, got)
		}
		if got := v.Location(v.Post(newest)); got != goal {
			t.Errorf("%s: the link leads to %q", pages, got)
		}
		for _, again := range []string{v.Location(v.Get(newest)), v.Location(v.Post(newest))} {
			if again != goal {
				t.Errorf("%s: afterwards it leads to %q", pages, again)
			}
		}
		if got := v.Get(goal); got.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", pages, got.StatusCode)
		}
	}
}

// TestLinkElsewhere: in another browser, in one that has a sign-in of its own, and after the end, a link signs nobody in.
func TestLinkElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	for _, pages := range []string{"of a request", "of the account"} {
		v, other, busy := f.visitor(t), f.visitor(t), f.visitor(t)
		base := accountBase
		if pages == "of a request" {
			base = v.open(scope.All)
			busy.open(scope.All)
		}
		link, _ := v.linked(base)
		busy.Post("/account/sign-in", "email", email)
		f.post.Next(t)
		for name, browser := range map[string]visitor{"another browser": other, "one that is signing in": busy} {
			for _, page := range []*http.Response{browser.Get(link).Response, browser.Post(link).Response} {
				if got := page.Header.Get("Location"); got != "" && !strings.HasSuffix(got, "/code?old-link") || page.StatusCode >= 400 {
					t.Errorf("%s, %s: %d, %q", pages, name, page.StatusCode, got)
				}
			}
			if got := browser.Location(browser.Get("/account")); got != "/account/sign-in" {
				t.Errorf("%s, %s: /account leads to %q", pages, name, got)
			}
		}
		if got := other.Get(link); got.Find("h1").Text() != headingElsewhere || got.Find("main form").Length() != 0 || strings.Contains(got.Text(), email) {
			t.Errorf("%s: another browser sees %q", pages, got.Find("main").Text())
		}
		if got := v.Get(link); got.StatusCode != http.StatusOK || got.Find("form .act").Length() != 1 {
			t.Errorf("%s: the link was used up: %d", pages, got.StatusCode)
		}
		v.Header.Set("Sec-Fetch-Site", "cross-site")
		v.isError(v.Post(link), http.StatusForbidden, headingForm)
		v.Header.Del("Sec-Fetch-Site")
		f.DB.Clock.Advance(10 * time.Minute)
		if pages == "of the account" {
			if got := v.Location(v.Post(link)); got != base+"/code" {
				t.Errorf("a late link leads to %q", got)
			}
			continue
		}
		v.isError(v.Get(link), http.StatusBadRequest, headingExpired)
		v.isError(v.Post(link), http.StatusBadRequest, headingExpired)
	}
}

// TestLinkAloneIsLate: the page says it of the link, as the email has no code, and does not ask to open it.
func TestLinkAloneIsLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{})
	v := f.visitor(t)
	v.ask(accountBase, email)
	f.DB.Exec(t, "update sign_in_limits set failed = 100")
	v.Location(v.Post(accountBase + "/new-code"))
	link, err := url.Parse(linkInEmail.FindString(f.post.Next(t).Text))
	if err != nil {
		t.Fatal(err)
	}
	f.DB.Clock.Advance(account.CodeLifetime)
	page := v.Get(v.Location(v.Get(link.Path)))
	if got := said(page.Find("#problem")); got != "This link is more than 10 minutes old and no longer works." {
		t.Errorf("the problem is %q", got)
	}
	if got := said(page.Find("main")); strings.Contains(got, "sent a link") || page.Find("form[action$='/new-code'] button").Text() != "Send a new link" {
		t.Errorf("the page says %q", got)
	}
}

// TestOlderLinkAlone: where codes work no more, the page of an older link says that it is not the newest, as it would ask to open the same one
// again otherwise.
func TestOlderLinkAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{})
	for _, pages := range []string{"of a request", "of the account"} {
		v := f.visitor(t)
		base := accountBase
		if pages == "of a request" {
			base = v.open(scope.All)
		}
		v.ask(base, email)
		f.DB.Exec(t, "update sign_in_limits set failed = 100")
		var links []string
		for range 2 {
			v.Location(v.Post(base + "/new-code"))
			link, err := url.Parse(linkInEmail.FindString(f.post.Next(t).Text))
			if err != nil {
				t.Fatal(err)
			}
			links = append(links, link.Path)
		}
		page := v.Get(v.Location(v.Get(links[0])))
		if got := said(page.Find("#problem")); got != "That link isn’t from the newest email, or not all of it arrived. Use the newest email." {
			t.Errorf("%s: the problem is %q", pages, got)
		}
		if page.Find("input[name=code]").Length() != 0 || page.Find("form[action$='/new-code'] button[aria-describedby=problem]").Length() != 1 {
			t.Errorf("%s: the page says %q", pages, said(page.Find("main")))
		}
		if got := said(v.Get(base + "/code").Find("#problem")); !strings.Contains(got, "codes are off for now") {
			t.Errorf("%s: afterwards the problem is %q", pages, got)
		}
		if got := v.Get(links[1]); got.StatusCode != http.StatusOK || got.Find("form .act").Length() != 1 {
			t.Errorf("%s: the newest link gives %d", pages, got.StatusCode)
		}
		f.DB.Exec(t, "update sign_in_limits set failed = 0")
	}
}

// TestLinkAlone: where codes work no more, the page says so, and the link of the next email leads on.
func TestLinkAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{})
	v := f.visitor(t)
	base := v.open(scope.All)
	code := v.ask(base, email)
	f.DB.Exec(t, "update sign_in_limits set failed = 100")
	if got := v.Location(v.Post(base+"/code", "code", code)); got != base+"/code?wrong" {
		t.Errorf("the code leads to %q", got)
	}
	page := v.Get(base + "/code")
	if got := page.Find(".problem").Text(); !strings.Contains(got, "Open the link in the email") || page.Find("input[name=code]").Length() != 0 {
		t.Errorf("the page says %q", got)
	}
	v.Location(v.Post(base + "/new-code"))
	mail := f.post.Next(t)
	link, err := url.Parse(linkInEmail.FindString(mail.Text))
	if err != nil || mail.Code != "" {
		t.Fatalf("the email has a code, or no link: %v", err)
	}
	if got := v.Location(v.Post(link.Path)); got != base+"/consent" {
		t.Errorf("the link leads to %q", got)
	}
}
