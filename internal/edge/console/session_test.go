package console

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

const (
	headingSignIn   = "Sign in to the console"
	headingUsers    = "Users"
	headingReadOnly = "Your token is read-only"
	headingForeign  = "This form came from another site"
	headingBadForm  = "This form cannot be read"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.visitor(t)
	v.goes(v.Get(Path), Path+"/sign-in")
	v.goes(v.Get(Path+"/users?q=x"), Path+"/sign-in?to=%2Fconsole%2Fusers%3Fq%3Dx")
	v.shows(v.Get(Path+"/sign-in"), headingSignIn)

	wrong := v.Post(Path+"/sign-in", "token", edgetest.AdaToken+"x", "to", Path+"/users?q=x")
	v.fails(wrong, http.StatusUnprocessableEntity, headingSignIn)
	if strings.Contains(wrong.Source, edgetest.AdaToken) || len(wrong.Cookies()) != 0 {
		t.Error("a wrong token is shown again, or got a cookie")
	}
	said := "" // of the field, which has the focus
	for id := range strings.FieldsSeq(wrong.Find("#token[aria-invalid]").AttrOr("aria-describedby", "")) {
		said += strings.TrimSpace(wrong.Find("#"+id).Text()) + "; "
	}
	if !strings.HasPrefix(said, "No operator has this token.") || !strings.Contains(said, "CONNECT_OPERATOR_TOKEN") {
		t.Errorf("the field is described by %q", said)
	}
	if log := f.Log.String(); !strings.Contains(log, `"code":"unauthorized"`) || strings.Contains(log, edgetest.AdaToken) {
		t.Errorf("the log: %s", log)
	}
	v.goes(v.Post(Path+"/sign-in", "token", edgetest.AdaToken, "to", Path+"/users?q=x"), Path+"/users?q=x")
	v.shows(v.Get(Path+"/users"), headingUsers, "Signed in as ada")
	v.goes(v.Get(Path+"/sign-in"), Path)

	// A session is over after eight hours, whatever was done in it, and the way back leads to the same page.
	f.DB.Clock.Advance(operators.SessionLifetime + time.Second)
	v.goes(v.Get(Path+"/users"), Path+"/sign-in?ended=&to=%2Fconsole%2Fusers")
	v.shows(v.Get(Path+"/sign-in?ended="), headingSignIn, "Your session has ended.")
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.UnnamedToken)
	server, _ := url.Parse(f.server.URL + Path)
	stolen := v.Client.Jar.Cookies(server)
	v.shows(v.Get(Path+"/users"), headingUsers, "Signed in as operator")
	v.goes(v.Post(Path+"/sign-out"), Path+"/sign-in?signed-out")
	v.shows(v.Get(Path+"/sign-in?signed-out"), headingSignIn, "You are signed out.")
	v.Client.Jar.SetCookies(server, stolen)
	v.goes(v.Get(Path+"/users"), Path+"/sign-in?ended=&to=%2Fconsole%2Fusers")
}

// Signing in, signing out and exporting the log are in the audit log, and failed sign-ins once a minute for each network, without
// an address. The log's lines name the operator.
func TestSignInsAreAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.TrustedProxies = network.Proxies{netip.MustParsePrefix("127.0.0.0/8")}
	f.serve(t)
	v := f.visitor(t)
	tries := func(address string, times int) {
		v.Header = http.Header{"X-Forwarded-For": {address}}
		for range times {
			v.fails(v.Post(Path+"/sign-in", "token", "wrong"), http.StatusUnprocessableEntity, headingSignIn)
		}
		v.Header = nil
	}
	tries("192.0.2.1", 20)
	tries("2001:db8:1:2::3", 3)
	tries("2001:db8:1:4::5", 3) // of the same network
	f.DB.Clock.Advance(time.Minute)
	tries("192.0.2.1", 2)
	v.goes(v.Post(Path+"/sign-in", "token", edgetest.GraceToken), Path)
	v.goes(v.Post(Path+"/sign-in", "token", edgetest.AdaToken), Path) // in the same browser
	v.shows(v.Get(Path+"/audit?actor=ada"), "Audit log")
	if csv := v.Get(Path + "/audit.csv?actor=ada@example.com&action=user.created&from=2026-01-31&user=" + f.User.ID.String()); csv.StatusCode != http.StatusOK {
		t.Errorf("the file: %d", csv.StatusCode)
	}
	v.goes(v.Post(Path+"/sign-out"), Path+"/sign-in?signed-out")
	v.goes(v.Post(Path+"/sign-out"), Path+"/sign-in?signed-out")
	want := []string{
		"system console.sign_in_failed {}", "system console.sign_in_failed {}", "system console.sign_in_failed {}",
		"grace console.signed_in {}", "ada console.signed_in {}", "grace console.signed_out {}",
		`ada audit.exported {"by": "console", "since": "2026-01-31T00:00:00Z", "action": "user.created", "user_id": "` + f.User.ID.String() + `"}`,
		"ada console.signed_out {}",
	}
	got := pgtest.Value[[]string](t, f.DB, "select array_agg(actor || ' ' || action || ' ' || detail order by id) from audit_log where user_id is null and client_id is null")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
	for operation, want := range map[string]int{"GET /console/audit": 1, "GET /console/audit.csv": 1, "POST /console/sign-out": 1, "POST /console/sign-in": 1} {
		method, path, _ := strings.Cut(operation, " ")
		n := 0
		for line := range strings.Lines(f.Log.String()) {
			if strings.Contains(line, `"operation":"`+path+`"`) && strings.Contains(line, `"method":"`+method+`"`) && strings.Contains(line, `"operator":"ada"`) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d lines name ada at %s, want %d: %s", n, operation, want, f.Log.String())
		}
	}
}

// A session ends with its token, and has the rights that its token has now.
func TestSessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	read := func(lines ...string) { // the list again
		f.config.Operators = edgetest.Tokens(t, lines...)
		f.server.Config.Handler = f.handler(t)
	}
	read("ada read", edgetest.AdaToken)
	v.shows(v.Get(Path+"/users"), headingUsers, "Read-only")
	v.fails(v.Post(userPath(f.User.ID)+"/delete"), http.StatusForbidden, headingReadOnly)
	read()
	v.goes(v.Get(Path+"/users"), Path+"/sign-in?ended=&to=%2Fconsole%2Fusers")
}

// The cookie is for the console alone, and for nobody who comes from elsewhere; over TLS it is of this host alone.
func TestCookie(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.visitor(t)
	cookies := v.Post(Path+"/sign-in", "token", edgetest.AdaToken).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies", len(cookies))
	}
	got := cookies[0]
	if got.Name != "connect-console" || got.Path != Path || !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.MaxAge != 8*60*60 {
		t.Errorf("cookie %+v", got)
	}
	secure := httptest.NewTLSServer(f.handler(t))
	t.Cleanup(secure.Close)
	v.Visitor = edgetest.Visit(t, secure, secure.URL)
	got = v.Post(Path+"/sign-in", "token", edgetest.AdaToken).Cookies()[0]
	if got.Name != "__Host-connect-console" || got.Path != "/" || got.Domain != "" || !got.Secure || !got.HttpOnly || got.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie over TLS %+v", got)
	}
}

// A browser that brings a key along does not choose the key of the session: it is new with each sign-in, and the old one ends.
func TestFixation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attacker := f.signedIn(t, edgetest.GraceToken)
	server, _ := url.Parse(f.server.URL + Path)
	planted := attacker.Client.Jar.Cookies(server)

	victim := f.visitor(t)
	victim.Client.Jar.SetCookies(server, planted)
	victim.goes(victim.Post(Path+"/sign-in", "token", edgetest.AdaToken), Path)
	if now := victim.Client.Jar.Cookies(server); now[0].Value == planted[0].Value {
		t.Error("the session has the key that was planted")
	}
	victim.shows(victim.Get(Path+"/users"), headingUsers, "Signed in as ada")
	attacker.goes(attacker.Get(Path+"/users"), Path+"/sign-in?ended=&to=%2Fconsole%2Fusers")
}

// Nobody is led out of the console after the sign-in.
func TestNobodyIsLedAway(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": Path, "/": Path, "/metrics": Path, "//evil.example/console/users": Path, "https://evil.example/console/users": Path,
		"/console/../metrics": Path, "/console//evil.example": Path, `/console/\evil.example`: `/console/%5Cevil.example`, "/consolex": Path,
		"console/users": Path, "/console/users?q=a@example.com": "/console/users?q=a@example.com", "\x00": Path, "/console/users#x": "/console/users",
		"http:/console/users": Path, "/console/a\r\nX: y": Path, "javascript:alert(1)": Path, "//user@/console": Path,
	} {
		if got := safeReturnPath(given); got != want {
			t.Errorf("%q leads to %q, want %q", given, got, want)
		}
	}
}

// No form is taken from another site, whatever the browser tells of where it came from, and none that is not ours.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	target := userPath(f.User.ID) + "/delete"
	for name, header := range map[string]http.Header{
		"another site":            {"Sec-Fetch-Site": {"cross-site"}},
		"another port":            {"Sec-Fetch-Site": {"same-site"}},
		"old browser, other site": {"Origin": {"https://evil.example"}},
		"no origin":               {"Origin": {"null"}},
	} {
		v.Header = header
		for _, path := range []string{target, Path + "/sign-out", Path + "/sign-in"} {
			t.Run(name+path, func(t *testing.T) { v.fails(v.Post(path), http.StatusForbidden, headingForeign) })
		}
	}
	v.Header = http.Header{"Sec-Fetch-Site": {"same-origin"}}
	const form = "application/x-www-form-urlencoded"
	for name, sent := range map[string][2]string{
		"another content type": {"text/plain", ""}, "a field too many": {form, "next=x"}, "NUL": {form, "token=%00"}, "huge": {form, "token=" + strings.Repeat("a", 9000)},
	} {
		t.Run(name, func(t *testing.T) {
			v.fails(v.Send(http.MethodPost, target, sent[0], sent[1]), http.StatusBadRequest, headingBadForm)
		})
	}
	v.shows(v.Get(userPath(f.User.ID)), f.User.Email)
}

// The console speaks English, and each language for which the operator has texts of it.
func TestLanguagesOfTheOperator(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var err error
	if f.config.Texts, err = locale.New(fstest.MapFS{"fi.toml": {Data: []byte("[console.sign_in]\nheading = \"Kirjaudu konsoliin\"")}}); err != nil {
		t.Fatal(err)
	}
	f.serve(t)
	v := f.visitor(t)
	for header, want := range map[string]string{"fi": "fi Kirjaudu konsoliin", "de": "en Sign in to the console"} {
		v.Header.Set("Accept-Language", header)
		page := v.Get(Path + "/sign-in")
		if got := page.Find("html").AttrOr("lang", "") + " " + page.Find("h1").Text(); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}
