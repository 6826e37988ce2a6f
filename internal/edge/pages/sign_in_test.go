package pages

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// TestForms4 are the names that tests and password managers rely on (decisions, section 4).
func TestForms4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)

	page := v.Get(base + "/sign-in").Document
	if page.Find("form[method=post] input[name=email][type=email][autocomplete=email][required]").Length() != 1 {
		t.Error("no field for the address")
	}
	if got := page.Find("h1").Text(); got != "Sign in to connect Stride & Co" {
		t.Errorf("heading = %q", got)
	}
	code := v.ask(base, email)
	page = v.Get(base + "/code").Document
	if page.Find("form[method=post] input[name=code][autocomplete=one-time-code][inputmode=numeric][required]").Length() != 1 {
		t.Error("no field for the code")
	}
	if got := page.Find("strong.address").Text(); got != email {
		t.Errorf("the page names %q", got)
	}
	v.Location(v.Post(base+"/code", "code", code))
	page = v.Get(base + "/consent").Document
	for _, decision := range []string{"allow", "deny"} {
		if page.Find("form[method=post] button[name=decision][value="+decision+"]:not([disabled])").Length() != 1 {
			t.Errorf("no button for %s", decision)
		}
	}
	for _, path := range []string{"/sign-in", "/code"} {
		fresh := v.open(scope.All)
		if path == "/code" {
			v.ask(fresh, email)
		}
		form := v.Get(fresh + path).Find("form.cancel")
		if got := form.AttrOr("action", ""); got != fresh+"/consent" || form.Find("button[name=decision][value=deny]").Length() != 1 {
			t.Fatalf("%s: Cancel is a form to %q", path, got)
		}
		if got := v.Location(v.Post(fresh+"/consent", "decision", "deny")); !strings.HasPrefix(got, callback) || !strings.Contains(got, "error=access_denied") {
			t.Errorf("%s: Cancel leads to %q", path, got)
		}
		v.isError(v.Get(fresh+"/sign-in"), http.StatusBadRequest, headingDecided)
	}
}

// A user may be deleted while the code is entered. Then the request is ended for this user, and waits for another one.
func TestUserDeletedDuringSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	code := v.ask(base, email)
	f.DB.Exec(t, "delete from users where user_id = $1", f.User.ID) // the sign-in is not yet gone
	v.isError(v.Post(base+"/code", "code", code), http.StatusBadRequest, headingExpired)
	if got := v.Location(v.Get(base + "/consent")); got != base+"/sign-in" {
		t.Errorf("the consent page leads to %q", got)
	}
}

// changing changes the address of a user before a pool stores a sign-in.
type changing struct {
	once   sync.Once
	change func()
}

func (c *changing) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(query.SQL, "-- name: SignInAuthorizationRequest ") {
		c.once.Do(c.change)
	}
	return ctx
}

func (*changing) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestAddressChangesDuringSignIn: a user's address may be changed while the code of the former one is entered. Then nobody is signed in with it.
func TestAddressChangesDuringSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	pool, err := postgres.Open(t.Context(), f.DB.URL, postgres.WithClock(f.DB.Clock), postgres.WithTracer(&changing{change: func() {
		if _, err := f.Accounts.ChangeUser(t.Context(), f.User.ID, account.UserChange{Email: new("ada@new.example")}); err != nil {
			t.Error(err)
		}
	}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f.OAuth = oauth.New(pool, f.Keys, oauth.DefaultSettings)
	f.serve()

	v := f.visitor(t)
	base := v.open(scope.All)
	v.Post(base+"/code", "code", v.ask(base, email))
	for _, page := range []edgetest.Page{v.Get(base + "/consent"), v.Post(base+"/consent", "decision", "allow")} {
		if got := v.Location(page); got != base+"/sign-in" {
			t.Errorf("%s leads to %q", page.Request.Method, got)
		}
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from known_browsers"); n != 0 || v.Cookies("/")[knownCookie] != nil {
		t.Errorf("%d browsers are known", n)
	}
	if email, _ := v.Get(base + "/sign-in").Find("input[name=email]").Attr("value"); email != "" {
		t.Errorf("the browser is told the address %q", email)
	}
}

// TestSteps: whoever goes back, reloads or skips a step is led to where the request stands.
func TestSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	leads := func(a edgetest.Page, to string) {
		t.Helper()
		if got := v.Location(a); got != base+to {
			t.Errorf("location = %q, want …%s", got, to)
		}
	}
	leads(v.Get(base+"/code"), "/sign-in")
	leads(v.Get(base+"/consent"), "/sign-in")
	leads(v.Post(base+"/new-code"), "/sign-in")
	leads(v.Post(base+"/code", "code", "123456"), "/sign-in")
	leads(v.Post(base+"/consent", "decision", "allow"), "/sign-in")

	code := v.ask(base, email)
	leads(v.Get(base+"/consent"), "/sign-in")
	if got, _ := v.Get(base + "/sign-in").Find("input[name=email]").Attr("value"); got != email {
		t.Errorf("going back to the address shows %q", got)
	}
	for range 2 { // the form is sent again
		leads(v.Post(base+"/code", "code", code), "/consent")
	}
	leads(v.Get(base+"/sign-in"), "/consent")
	leads(v.Get(base+"/code"), "/consent")
	leads(v.Post(base+"/sign-in", "email", "other@example.com"), "/consent")
	leads(v.Post(base+"/new-code"), "/consent")
	if got := f.post.Waiting(); got != 0 {
		t.Errorf("%d emails too many", got)
	}
	for range 2 { // reload
		if got := v.Get(base + "/consent").StatusCode; got != http.StatusOK {
			t.Errorf("status of the consent = %d", got)
		}
	}
}

// TestSignInIsForOneRequest: the user signs in again for every authorization (specification 5.3).
func TestSignInIsForOneRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	one, other := v.open(scope.All), v.open(scope.All)
	code := v.ask(one, email)
	for v.ask(other, email) == code { // once in a million
	}
	answer := v.Get(v.Location(v.Post(other+"/code", "code", code)))
	if got := answer.Find("#problem").Text(); !strings.Contains(got, "not the right code") {
		t.Errorf("the code of another request: %q", got)
	}
	v.Location(v.Post(one+"/code", "code", code))
	if got := v.Location(v.Get(other + "/consent")); got != other+"/sign-in" {
		t.Errorf("signed in for one request, the other leads to %q", got)
	}
	if got := v.Location(v.Get(v.open(scope.All) + "/consent")); !strings.HasSuffix(got, "/sign-in") {
		t.Errorf("signed in for one request, a new one leads to %q", got)
	}
}

func TestCodeProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	code := v.ask(base, email)
	enter := func(code, problem string, field bool) {
		t.Helper()
		next := v.Location(v.Post(base+"/code", "code", code))
		v.Get(next)
		answer := v.Get(next) // reloading enters nothing again
		if got := strings.TrimSpace(answer.Find("#problem[role=alert]").Text()); got != problem {
			t.Errorf("problem = %q, want %q", got, problem)
		}
		if got := answer.Find("title").Text(); !strings.HasPrefix(got, "Error: ") {
			t.Errorf("title = %q", got)
		}
		invalid := answer.Find("input[name=code][aria-invalid=true][aria-describedby~=problem]").Length()
		if again := answer.Find("form[action$='/new-code'] button").Length(); again != 1 || (invalid == 1) != field {
			t.Errorf("%d fields and %d ways to a new code", invalid, again)
		}
		if code != "" && strings.Contains(answer.Source, code) {
			t.Error("the page repeats what was entered")
		}
	}
	enter("", "A code has six digits, for example 012345.", true)
	enter("98765x", "A code has six digits, for example 012345.", true)
	enter(otherThan(code), "That’s not the right code. You have 4 tries left.", true)
	enter(otherThan(code), "That’s not the right code. You have 3 tries left.", true)
	enter(otherThan(code), "That’s not the right code. You have 2 tries left.", true)
	enter(otherThan(code), "That’s not the right code. You have one try left.", true)
	const spent = "This code was tried five times and no longer works."
	enter(otherThan(code), spent, false)
	enter(code, spent, false)
	if got := v.Get(base + "/code").Find("#problem").Text(); !strings.Contains(got, spent) {
		t.Errorf("reload: %q", got)
	}

	if got := v.Location(v.Post(base + "/new-code")); got != base+"/code?again" {
		t.Errorf("location = %q", got)
	}
	code = f.post.Next(t).Code
	if got := v.Get(base + "/code?again").Find("[role=status]").Text(); got != "We’ve sent a new code. Only the code in the newest email works." {
		t.Errorf("after a new code: %q", got)
	}
	f.DB.Exec(t, "update sign_ins set expires_at = connect_now()")
	enter(code, "This code is more than 10 minutes old and no longer works.", false)
	v.Location(v.Post(base + "/new-code"))
	code = f.post.Next(t).Code
	if got := v.Location(v.Post(base+"/code", "code", " "+code[:3]+" "+code[3:]+" ")); got != base+"/consent" {
		t.Errorf("location = %q", got)
	}
}

func TestAddressProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	for _, typed := range []string{"", "ada", "ada@", "<b>@example.com\"", "Ada <ada@>", strings.Repeat("a", 300) + "@example.com"} {
		answer := v.Post(base+"/sign-in", "email", typed)
		if answer.StatusCode != http.StatusUnprocessableEntity || answer.Find("#problem[role=alert]").Length() != 1 {
			t.Errorf("%q: status %d", typed, answer.StatusCode)
		}
		field := answer.Find("input[name=email][aria-invalid=true][aria-describedby~=problem]")
		if got, _ := field.Attr("value"); got != typed {
			t.Errorf("the field holds %q, want %q", got, typed)
		}
	}
}

// seen is what somebody without an account could tell an answer by.
type seen struct {
	Status   int
	Location string
	Page     string
}

// signInSeen is the whole of a sign-in whose codes are all wrong, up to the limit of codes, without what names it.
func (v visitor) signInSeen(base, email string) (trace []seen) {
	v.T.Helper()
	blank := strings.NewReplacer(base, "BASE", email, "EMAIL").Replace
	see := func(a edgetest.Page) {
		trace = append(trace, seen{a.StatusCode, blank(a.Header.Get("Location")), blank(a.Source)})
	}
	see(v.Post(base+"/sign-in", "email", email))
	see(v.Get(base + "/code"))
	for range 6 {
		see(v.Post(base+"/code", "code", "000000"))
	}
	see(v.Post(base + "/new-code"))
	see(v.Get(base + "/code?again"))
	see(v.Post(base + "/new-code"))
	return trace
}

// TestUnknownAddress4: "the pages and their timing are the same for an address that has no account".
func TestUnknownAddress4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 2, CodesPerNetwork: 30})
	f.newUser(t, "known@example.com")
	visit := func(email string) []seen {
		v := f.visitor(t)
		return v.signInSeen(v.open(scope.All), email)
	}
	if diff := cmp.Diff(visit("known@example.com"), visit("stranger@example.org")); diff != "" {
		t.Errorf("known and unknown address differ:\n%s", diff)
	}
}

func TestTooManyCodes4(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		settings account.Settings
		from     func(i int) string // the network
		email    func(i int) string
	}{
		{"e-mail", account.Settings{CodesPerEmail: 2},
			func(int) string { return "192.0.2.1" }, // a new network would get its first email
			func(int) string { return email }},
		{"network behind the trusted proxy", account.Settings{CodesPerNetwork: 2},
			func(int) string { return "192.0.2.1" },
			func(i int) string { return []string{"a@example.com", "b@example.com", "c@example.com"}[i] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.settings)
			v := f.visitor(t)
			for i := range 3 {
				v.Header.Set("X-Forwarded-For", "10.9.8.7, "+test.from(i))
				base := v.open(scope.All)
				answer := v.Post(base+"/sign-in", "email", test.email(i))
				if i < 2 {
					v.Location(answer)
					continue
				}
				v.isError(answer, http.StatusTooManyRequests, headingTooMany)
				if !regexp.MustCompile(`You can ask for another email in (59|60) minutes\.`).MatchString(answer.Find("main").Text()) {
					t.Errorf("it does not say when: %q", answer.Find("main").Text())
				}
				if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err != nil || seconds < 3500 || seconds > 3600 {
					t.Errorf("Retry-After = %q", answer.Header.Get("Retry-After"))
				}
				if got, _ := answer.Find("main a").Attr("href"); got != base+"/code" {
					t.Errorf("the way back is %q", got)
				}
			}
			v.Header.Set("X-Forwarded-For", "192.0.2.99")
			v.Location(v.Post(v.open(scope.All)+"/sign-in", "email", "other@example.com"))
		})
	}
}

// TestNextCode: the page says in how long another email can be asked for, where that is not now.
func TestNextCode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 2})
	v := f.visitor(t)
	base := v.open(scope.All)
	says := func() string {
		t.Helper()
		return v.Get(base + "/code").Find(".next").Text()
	}
	v.ask(base, email)
	if got := says(); got != "" {
		t.Errorf("with a code left: %q", got)
	}
	v.Location(v.Post(base + "/new-code"))
	if got := says(); !regexp.MustCompile(`^You can ask for another email in (59|60) minutes\. Then start again at the company that sent you here\.$`).MatchString(got) {
		t.Errorf("with none left: %q", got)
	}
	f.DB.Exec(t, "update sign_in_limits set asked_at = array(select now_is - n * interval '2 hours' from connect_now() as now_is, generate_series(0, 7) as n)")
	if got := says(); !regexp.MustCompile(`^You can ask for another email in \d+ hours\. Then start again at the company that sent you here\.$`).MatchString(got) {
		t.Errorf("with none left for a day: %q", got)
	}
}

// TestNextCodeByTheDatabasesClock: whether a request ends before another code may be asked for does not depend on the server's clock. That of
// a sandbox is moved.
func TestNextCodeByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 2})
	for _, year := range []int{2020, 2040} {
		f.DB.SetTime(time.Date(year, 5, 1, 12, 0, 0, 0, time.UTC))
		for minutes, want := range map[time.Duration]string{
			0: `^You can ask for another email in (59|60) minutes\. Then start again at the company that sent you here\.$`, 55: `^You can ask for another email in [45] minutes\.$`,
		} {
			user := f.newUser(t, fmt.Sprintf("user-%d-%d@example.com", year, minutes))
			v := f.visitor(t)
			v.ask(v.open(scope.All), user.Email)
			f.DB.Clock.Advance(minutes * time.Minute)
			base := v.open(scope.All)
			v.ask(base, user.Email)
			for _, page := range []edgetest.Page{v.Get(base + "/code"), v.Post(base + "/new-code")} {
				if got := page.Find(".next, h1 + p + p").Text(); !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("in %d, %d minutes after the first code: %d, %q, want %s", year, minutes, page.StatusCode, got, want)
				}
			}
		}
	}
}

// TestSpentWithoutAnother: after five wrong codes the page says when another email can be asked for, and offers nothing before.
func TestSpentWithoutAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 1})
	v := f.visitor(t)
	const next = `^You can ask for another email in (59|60) minutes\.`
	for base, says := range map[string]string{
		v.open(scope.All): next + ` Then start again at the company that sent you here\.$`, accountBase: next + "$",
	} {
		v.Post(base+"/sign-in", "email", strings.Trim(base, "/")[:7]+"@example.com")
		v.Get(base + "/code") // waits until the code is sent
		for range account.Attempts {
			v.Post(base+"/code", "code", "000000")
		}
		page := v.Get(base + "/code")
		if got := page.Find("#problem[role=alert]").Text(); got != "This code was tried five times and no longer works." {
			t.Errorf("%s: the problem is %q", base, got)
		}
		if got := page.Find("#problem + .next").Text(); !regexp.MustCompile(says).MatchString(got) || page.Find(".next, form[action$='/new-code']").Length() != 1 {
			t.Errorf("%s: %q", base, page.Find("main").Text())
		}
		if strings.Contains(page.Source, "we’ve sent a code") {
			t.Errorf("%s: the page says that the spent code is on its way", base)
		}
	}
}

// TestOnlyTheLink: where no code works, the page asks for none. It names the link of the email, and when another one can be asked for.
func TestOnlyTheLink(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 2})
	v := f.visitor(t)
	base := v.open(scope.All)
	v.ask(base, email)
	f.DB.Exec(t, "update sign_in_limits set failed = 100")
	page := v.Get(base + "/code")
	if title, heading := page.Find("title").Text(), page.Find("h1").Text(); !strings.Contains(title, heading) || heading != "Open the link in your email" {
		t.Errorf("title %q, heading %q", title, heading)
	}
	if page.Find("input[name=code]").Length() != 0 || page.Find("form[action$='/new-code'] button").Text() != "Send a new link" {
		t.Errorf("it asks for a code, or sends no link: %q", page.Find("main").Text())
	}
	v.Location(v.Post(base + "/new-code"))
	page = v.Get(base + "/code")
	if got := page.Find(".next").Text(); !strings.HasPrefix(got, "You can ask for another email in ") || page.Find("form[action$='/new-code']").Length() != 0 {
		t.Errorf("with no email left: %q", page.Find("main").Text())
	}
}

// TestTimeThatIsLeft: whoever comes back to the first page is told how much of the time is left, not how much there was.
func TestTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	for _, at := range []struct {
		later time.Duration
		want  string
	}{{0, "you have 10 minutes to finish"}, {7 * time.Minute, "you have 3 minutes to finish"}, {150 * time.Second, "you have a minute to finish"}} {
		f.DB.Clock.Advance(at.later)
		if got := v.Get(base + "/sign-in").Find("main > .aside").Text(); !strings.Contains(got, at.want) {
			t.Errorf("%q, want %q", got, at.want)
		}
	}
}

// TestLog: one event for each request, which tells what happened and to nobody whom.
func TestLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 1})
	v := f.visitor(t)
	v.Header.Set("X-Forwarded-For", "192.0.2.77")
	base := v.open(scope.All)
	code := v.ask(base, email)
	v.Post(base + "/new-code")
	v.Post(base+"/code", "code", otherThan(code))
	v.Post(base+"/code", "code", code)
	v.Get(base + "/consent")
	location := v.Location(v.Post(base+"/consent", "decision", "allow"))
	v.Get(base + "/consent")
	v.Get("/nothing")
	f.server.Close() // every event is written

	log := f.Log.String()
	for _, want := range []string{
		`"operation":"/oauth/authorize"`, `"operation":"/authorize/{request}/code"`, `"operation":"/authorize/{request}/consent"`,
		`"code":"too_many_codes"`, `"code":"invalid_request"`, `"code":"not_found"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	_, issued, _ := strings.Cut(location, "svcc_")
	for name, secret := range map[string]string{
		"address": email, "code of the email": code, "authorization code": issued, "request": base[11:], "network": "192.0.2.77",
		"state": "st~ate", "cookie": browserCookie, "cookie of the request": askedCookie,
	} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds the %s", name)
		}
	}
	if strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("errors in the log:\n%s", log)
	}
}

// TestFault: what nobody foresaw is an opaque page, and its cause one event.
func TestFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	f.DB.Exec(t, "alter table sign_ins rename to gone")
	answer := v.Post(base+"/sign-in", "email", email)
	v.isError(answer, http.StatusInternalServerError, "Something went wrong")
	if strings.Contains(answer.Source, "sign_ins") {
		t.Error("the page shows the cause")
	}
	f.server.Close()
	if log := f.Log.String(); !strings.Contains(log, `relation \"sign_ins\" does not exist`) || strings.Contains(log, email) {
		t.Errorf("log:\n%s", log)
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from sign_in_limits"); n != 0 {
		t.Error("the failed code was counted")
	}
}

// TestNoMail: the page says that the code is being sent until the mail server has it, and when that was given up. It is the
// same without an account.
func TestNoMail(t *testing.T) {
	t.Parallel()
	f := newFixture(t, account.Settings{CodesPerEmail: 1})
	f.stopMail()
	for _, email := range []string{email, "stranger@example.org"} {
		v := f.visitor(t)
		base := v.open(scope.All)
		if got := v.Location(v.Post(base+"/sign-in", "email", email)); got != base+"/code" {
			t.Errorf("location = %q", got)
		}
		sending := v.Get(base + "/code")
		if got := sending.Find("h1").Text(); got != "We’re sending a code" || sending.Header.Get("Refresh") != "" || // F41: no page reloads by itself
			sending.Find("input").Length() != 0 || strings.Contains(sending.Source, "we’ve sent") {
			t.Errorf("while it is being sent: heading %q, Refresh %q", got, sending.Header.Get("Refresh"))
		}

		f.DB.Exec(t, "update code_emails set put_at = now() - interval '1 hour', due_at = now()")
		sendUntilSettled(t, f)
		failed := v.Get(base + "/code")
		if got := failed.Find("h1").Text(); got != "We can’t send codes right now" || failed.Header.Get("Refresh") != "" {
			t.Errorf("when it was given up: heading %q, Refresh %q", got, failed.Header.Get("Refresh"))
		}
		if got := v.Location(v.Post(base+"/code", "code", "123456")); got != base+"/code?wrong" {
			t.Errorf("a code leads to %q", got)
		}
		again, _ := failed.Find("form[action$='/new-code']").Attr("action")
		if got := v.Location(v.Post(again)); got != base+"/code?again" {
			t.Errorf("trying again leads to %q", got)
		}
		sendUntilSettled(t, f)
		sent := v.Get(base + "/code?again")
		if sent.Find("input[name=code]").Length() != 1 || sent.Header.Get("Refresh") != "" {
			t.Errorf("when it was sent: %q, Refresh %q", sent.Find("h1").Text(), sent.Header.Get("Refresh"))
		}
	}
}

// sendUntilSettled has the emails sent until none waits.
func sendUntilSettled(t *testing.T, f *fixture) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() { f.Accounts.Run(ctx) })
	defer sending.Wait()
	defer cancel()
	wait.Until(t, "no email waits", func() bool {
		return pgtest.Value[int64](t, f.DB, "select count(*) from code_emails") == 0
	})
}

// TestNoticeOnlyWhenAsked keeps the notice of a new code off pages that have something else to say.
func TestNoticeOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	v.ask(base, email)
	f.DB.Clock.Advance(time.Minute)
	if v.Get(base+"/code").Find("[role=status]").Length() != 0 {
		t.Error("a notice without a reason")
	}
	if v.Post(base+"/code?again", "code", "1").Find("[role=status]").Length() != 0 {
		t.Error("a notice beside a problem")
	}
}
