package pages

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// receipts are the settings of a service that sends them.
var receipts = account.Settings{CodesPerEmail: 20, CodesPerNetwork: 100, Receipts: true}

var receiptLink = regexp.MustCompile(`https://` + serviceHost + `(/account/receipt/\S+)`)

// receipt waits for a receipt and returns the path of its link.
func (f *fixture) receipt(t testing.TB, subject string) string {
	t.Helper()
	email := f.post.NextNotice(t)
	link := receiptLink.FindStringSubmatch(email.Text)
	if email.Subject != subject || link == nil {
		t.Fatalf("the receipt %q has no link, or is not %q", email.Subject, subject)
	}
	return link[1]
}

// allow has a new visitor connect the partner in a browser of their own.
func (f *fixture) allow(t testing.TB) (visitor, oauth.Tokens) {
	t.Helper()
	v := f.visitor(t)
	v.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	base, _ := v.consent(scope.All)
	return v, f.exchange(t, v.Location(v.Post(base+"/consent", "decision", "allow")))
}

const begun = "Stride & Co can now see your activity"

// TestReceiptOfAnOffboardedCompany: it does not lead back to the company, where nobody can connect again. That of another end does.
func TestReceiptOfAnOffboardedCompany(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receipts)
	end := func(act func() error) (text string) {
		t.Helper()
		f.connect(t, scope.All)
		f.receipt(t, begun)
		if err := act(); err != nil {
			t.Fatal(err)
		}
		email := f.post.NextNotice(t)
		if email.Subject != "Stride & Co can no longer see your activity" || !strings.Contains(email.Text, at("/account")) {
			t.Errorf("the receipt %q:\n%s", email.Subject, email.Text)
		}
		return email.Text
	}
	const again = "To connect again, start at Stride & Co."
	if text := end(func() error { return f.OAuth.DisconnectByOperator(t.Context(), f.User.ID, f.client.ID) }); !strings.Contains(text, again) {
		t.Errorf("the receipt of an end:\n%s", text)
	}
	if text := end(func() error { _, err := f.Clients.Offboard(t.Context(), f.client.ID); return err }); strings.Contains(text, again) {
		t.Errorf("the receipt of an offboarded company:\n%s", text)
	}
}

// TestReceiptEndsAConnection: without a session and without a code, by one press, once. Opening the link any number of times changes nothing.
func TestReceiptEndsAConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receipts)
	_, tokens := f.allow(t)
	link := f.receipt(t, begun)
	works := func() bool {
		_, err := f.OAuth.Authenticate(t.Context(), tokens.AccessToken)
		if err != nil && !errors.Is(err, oauth.ErrInvalidAccessToken) {
			t.Fatal(err)
		}
		return err == nil
	}

	scanner := f.visitor(t)
	rows := func() string {
		return pgtest.Value[string](t, f.DB, `select md5(string_agg(r, ' ')) from (
			select c::text as r from connections c union all select a::text from audit_log a union all select s::text from account_sessions s order by 1) t`)
	}
	before := rows()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodGet} {
		request, err := http.NewRequestWithContext(t.Context(), method, f.server.URL+link, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Sec-Purpose", "prefetch")
		answer, err := f.server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if len(answer.Cookies()) != 0 {
			t.Errorf("%s sets cookies", method)
		}
	}
	scanner.Header.Set("Sec-Fetch-Site", "cross-site")
	if foreign := scanner.Post(link); foreign.StatusCode != http.StatusForbidden || rows() != before || !works() {
		t.Fatalf("another site's form: %d; changed: %t", foreign.StatusCode, rows() != before)
	}

	user := f.visitor(t)
	page := user.Get(link)
	if got := page.Find("h1").Text(); page.StatusCode != http.StatusOK || got != "Disconnect Stride & Co?" {
		t.Errorf("status %d, heading %q", page.StatusCode, got)
	}
	if text := page.Find("html").Text(); strings.Contains(text, email) || strings.Contains(text, "ada") {
		t.Error("the page has the user's address")
	}
	if got, _ := page.Find("main form").Attr("action"); got != link {
		t.Errorf("the form leads to %q", got)
	}
	for name, want := range map[string]string{"Referrer-Policy": "same-origin", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin"} {
		if got := page.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	var presses sync.WaitGroup
	for range 4 {
		other := f.visitor(t)
		presses.Go(func() {
			if got := other.Post(link); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != link {
				t.Errorf("status %d", got.StatusCode)
			}
		})
	}
	presses.Wait()
	if works() {
		t.Fatal("the connection has not ended")
	}
	for range 2 {
		page := user.Get(link)
		if got := page.Find("h1").Text(); got != "Stride & Co is disconnected" || page.Find("main form").Length() != 0 {
			t.Errorf("afterwards: %q", got)
		}
		user.Location(user.Post(link))
	}
	if got := pgtest.Value[string](t, f.DB, "select string_agg(actor, ' ') from audit_log where action = 'connection.disconnected'"); got != "user" {
		t.Errorf("ended by %q", got)
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from notices"); n != 0 || f.post.NoticesWaiting() != 0 {
		t.Errorf("%d receipts of an end that the user made", n)
	}

	_, tokens = f.allow(t)
	f.DB.Exec(t, "delete from notices where kind = 'new_browser'")
	if got := user.Get(link).Find("h1").Text(); got != "You’ve connected Stride & Co again" {
		t.Errorf("with a new connection: %q", got)
	}
	user.Location(user.Post(link))
	if !works() {
		t.Error("the link ended a later connection")
	}
}

// TestNoSignInWithoutAReceipt: if the browser cannot be remembered, nobody is signed in there. The same code again does all of it: a browser that
// is signed in and has no receipt would be one of which the user does not know.
func TestNoSignInWithoutAReceipt(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard has no trigger")
	t.Parallel()
	f := newFixture(t, receipts)
	f.visitor(t).enter(email) // another browser, so that a new one has a receipt
	f.DB.Exec(t, `create function away() returns trigger language plpgsql as $$ begin raise exception 'away'; end $$`)
	for where, begin := range map[string]func(visitor) (base string){
		"account": func(visitor) string { return "/account" },
		"request": func(v visitor) string { return v.open(scope.All) },
	} {
		v := f.visitor(t)
		base := begin(v)
		code := v.ask(base, email)
		f.DB.Exec(t, "create trigger away before insert on known_browsers for each row execute function away()")
		if got := v.Post(base+"/code", "code", code).StatusCode; got < http.StatusInternalServerError {
			t.Errorf("%s: status %d", where, got)
		}
		f.DB.Exec(t, "drop trigger away on known_browsers")
		if got := v.Get(map[string]string{"account": "/account", "request": base + "/consent"}[where]); got.StatusCode == http.StatusOK {
			t.Errorf("%s: signed in without a receipt", where)
		}
		v.Location(v.Post(base+"/code", "code", code))
		f.receipt(t, "New sign-in to your account")
	}
}

// TestReceiptSignsABrowserOut, also one whose user has removed it from the list.
func TestReceiptSignsABrowserOut(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]bool{"": false, "removed from the list": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, receipts)
			owner, stranger, reader := f.visitor(t), f.visitor(t), f.visitor(t)
			owner.enter(email)
			stranger.Header.Set("User-Agent", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1")
			stranger.enter(email)
			base := stranger.open(scope.All)
			stranger.signedIn(base)
			link := f.receipt(t, "New sign-in to your account")
			if hide {
				field, _ := stranger.account().Find(".browsers li:has(.this) input").Attr("value")
				stranger.Location(stranger.Post("/account/browsers", "browser", field))
			}
			page := reader.Get(link)
			if got := page.Find("h1").Text(); got != "Sign this browser out?" || !hide && !strings.Contains(page.Find("main").Text(), "Safari") {
				t.Fatalf("heading %q", got)
			}
			stranger.account()
			if got := reader.Location(reader.Post(link)); got != link {
				t.Errorf("location = %q", got)
			}
			if got := stranger.Location(stranger.Get("/account")); got != "/account/sign-in" {
				t.Errorf("the browser is still signed in: %q", got)
			}
			if got := stranger.Get(base + "/consent").StatusCode; got == http.StatusOK {
				t.Error("the browser can still allow")
			}
			if got := reader.Get(link).Find("h1").Text(); got != "That browser is signed out" {
				t.Errorf("afterwards: %q", got)
			}
			reader.Location(reader.Post(link))
		})
	}
}

// TestReceiptSignsOutABrowserThatSignedInAgain: nobody is told of a known browser, so the link of its first sign-in signs it out also when the
// session of that is over, and when the browser was removed from the list in the session of a later one.
func TestReceiptSignsOutABrowserThatSignedInAgain(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]bool{"": false, "removed from the list": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, receipts)
			owner, stranger, reader := f.visitor(t), f.visitor(t), f.visitor(t)
			owner.enter(email)
			f.DB.Clock.Advance(2 * time.Minute)
			stranger.enter(email)
			link := f.receipt(t, "New sign-in to your account")
			for range 2 {
				f.DB.Clock.Advance(account.SessionLifetime + time.Minute)
				stranger.enter(email)
			}
			if hide {
				field, _ := stranger.account().Find(".browsers li:has(.this) input").Attr("value")
				stranger.Location(stranger.Post("/account/browsers", "browser", field))
				stranger.account()
			}
			if got := reader.Get(link).Find("h1").Text(); got != "Sign this browser out?" {
				t.Errorf("heading %q", got)
			}
			reader.Location(reader.Post(link))
			if got := stranger.Location(stranger.Get("/account")); got != "/account/sign-in" {
				t.Errorf("the browser is still signed in: %q", got)
			}
			if n := pgtest.Value[int](t, f.DB, "select count(*)::int from known_browsers"); n != 1 {
				t.Errorf("%d browsers are known, want the owner's", n)
			}
			owner.enter(email) // in a browser that is still known
			if got := reader.Get(link).Find("h1").Text(); got != "That browser is signed out" {
				t.Errorf("afterwards: %q", got)
			}
		})
	}
}

// TestReceiptsThatDoNotWork look the same: forged, cut short, too old, and of a user who was deleted.
func TestReceiptsThatDoNotWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receipts)
	f.allow(t)
	link := f.receipt(t, begun)
	v := f.visitor(t)
	of := account.Receipt{UserID: f.User.ID, ClientID: uuid.New(), Version: 1, ExpiresAt: f.DB.Now().Add(time.Hour)}
	unknown, err := f.Accounts.SealReceipt(of)
	if err != nil {
		t.Fatal(err)
	}
	of.ClientID, of.UserID = f.client.ID, uuid.New()
	stranger, err := f.Accounts.SealReceipt(of)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	dead := func(name, link string) {
		t.Helper()
		for method, page := range map[string]edgetest.Page{"GET": v.Get(link), "POST": v.Post(link)} {
			v.isError(page, http.StatusNotFound, "This link doesn’t work")
			if text := page.Find("main").Text(); want == "" {
				want = text
			} else if text != want {
				t.Errorf("%s %s: %q, want %q", method, name, text, want)
			}
		}
	}
	dead("forged", account.ReceiptPath+"svcl_"+strings.Repeat("A", 150))
	dead("cut short", link[:len(link)-1])
	dead("of another connection", unknown)
	dead("of another user", stranger)
	of.UserID, of.ExpiresAt = f.User.ID, f.DB.Now()
	old, err := f.Accounts.SealReceipt(of)
	if err != nil {
		t.Fatal(err)
	}
	dead("too old", old)
	if got := v.Get(link).StatusCode; got != http.StatusOK {
		t.Fatalf("in time: %d", got)
	}
	if _, err := f.Accounts.DeleteUser(t.Context(), f.User.ID); err != nil {
		t.Fatal(err)
	}
	dead("of a deleted user", link)
}

// TestReceiptOfAnEnd: one, which leads to the account pages.
func TestReceiptOfAnEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receipts)
	_, tokens := f.allow(t)
	f.receipt(t, begun)
	for range 2 {
		if err := f.OAuth.Disconnect(t.Context(), edgetest.Credentials(f.client), tokens.GrantID); err != nil {
			t.Fatal(err)
		}
	}
	got := f.post.NextNotice(t)
	if got.Subject != "Stride & Co can no longer see your activity" || !strings.Contains(got.Text, "https://"+serviceHost+"/account\n") {
		t.Errorf("%q:\n%s", got.Subject, got.Text)
	}
	if f.post.NoticesWaiting() != 0 {
		t.Error("another receipt")
	}
}
