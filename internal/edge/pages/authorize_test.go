package pages

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// TestAuthorize42 is the beginning: a 303 to our own pages, and a cookie that tells this browser from others.
func TestAuthorize_4_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	answer := v.Get("/oauth/authorize?" + f.query(scope.All).Encode())
	if got := v.Location(answer); !strings.HasPrefix(got, "/authorize/") || !strings.HasSuffix(got, "/sign-in") {
		t.Errorf("location = %q", got)
	}
	cookies := answer.Cookies()
	if len(cookies) != 2 {
		t.Fatalf("cookies = %v, want two", cookies)
	}
	base, _ := strings.CutSuffix(answer.Header.Get("Location"), "/sign-in")
	cookie := cookies[0]
	for i, want := range []http.Cookie{
		{Name: "__Host-connect-browser", Path: "/"}, {Name: "__Secure-connect-request", Path: base},
	} {
		want.Value, want.MaxAge, want.Secure, want.HttpOnly, want.SameSite = cookies[i].Value, 4200, true, true, http.SameSiteLaxMode
		if got := cookies[i].String(); got != want.String() {
			t.Errorf("cookie = %s, want %s", got, &want)
		}
		if len(cookies[i].String()) > 4096 {
			t.Errorf("browsers refuse a cookie of %d bytes", len(cookies[i].String()))
		}
	}
	if len(cookie.Value) != 43 {
		t.Errorf("the secret has %d characters, want the 43 of 256 bits", len(cookie.Value))
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from authorization_requests"); n != 0 {
		t.Errorf("%d requests are stored before anybody has signed in", n)
	}
	again := v.Get("/oauth/authorize?" + f.query(scope.All).Encode())
	if got := again.Cookies()[0].Value; got != cookie.Value {
		t.Error("a second request of the browser changed its secret")
	}
	if other := f.visitor(t).Get("/oauth/authorize?" + f.query(scope.All).Encode()); other.Cookies()[0].Value == cookie.Value {
		t.Error("another browser got the same secret")
	}
}

// TestAuthorizeErrors72: each cause is a page with status 400, small on it, and nothing else happens.
func TestAuthorizeErrors_7_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	disabled := f.newClient(t, "Gone")
	if err := f.Clients.Disable(t.Context(), disabled.ID); err != nil {
		t.Fatal(err)
	}
	set := func(name, value string) func(url.Values) {
		return func(query url.Values) { query.Set(name, value) }
	}
	for _, test := range []struct {
		name, cause string
		change      func(url.Values)
	}{
		{"parameter missing", "invalid_request", func(q url.Values) { q.Del("state") }},
		{"parameter repeated", "invalid_request", func(q url.Values) { q.Add("state", state) }},
		{"unknown parameter", "invalid_request", set("prompt", "login")},
		{"another callback", "invalid_request", set("redirect_uri", "https://partner.example/other")},
		{"bad state", "invalid_request", set("state", "short")},
		{"bad code challenge", "invalid_request", set("code_challenge", "short")},
		{"URL over 16 KB", "invalid_request", set("state", strings.Repeat("s", 16*1024))},
		{"NUL", "invalid_request", set("state", state+"\x00")},
		{"unknown client", "unauthorized_client", set("client_id", "00000000-0000-4000-8000-000000000000")},
		{"inactive client", "unauthorized_client", set("client_id", disabled.ID.String())},
		{"response type", "unsupported_response_type", set("response_type", "token")},
		{"unknown scope", "invalid_scope", set("scope", "daily_steps:write")},
		{"scope twice", "invalid_scope", set("scope", "daily_steps:read daily_steps:read")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := f.visitor(t)
			query := f.query(scope.All)
			test.change(query)
			answer := v.Get("/oauth/authorize?" + query.Encode())
			v.isError(answer, http.StatusBadRequest, headingRefused)
			if got := answer.Find(".cause code").Text(); got != test.cause {
				t.Errorf("cause = %q, want %q", got, test.cause)
			}
			if uuid.Validate(answer.Header.Get("X-Request-ID")) != nil {
				t.Error("the answer does not name its request")
			}
			if len(answer.Cookies()) != 0 {
				t.Error("the browser got a cookie")
			}
			if strings.Contains(answer.Source, "partner.example") || strings.Contains(answer.Source, "Stride") {
				t.Error("the page repeats the request")
			}
		})
	}
	t.Run("broken encoding", func(t *testing.T) {
		t.Parallel()
		v := f.visitor(t)
		v.isError(v.Get("/oauth/authorize?"+f.query(scope.All).Encode()+"&%zz"), http.StatusBadRequest, headingRefused)
	})
}

// TestWholeWay31 goes from the authorization to both decisions, and looks at the address that the browser is sent to.
func TestWholeWay_3_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	const begin = callback + "&state=st~ate-with%2Bodd%2F%26%3D%25chars%3B%27%22%3C%3E&"

	t.Run("allow", func(t *testing.T) {
		t.Parallel()
		v := f.visitor(t)
		base := v.open(scope.All)
		v.signedIn(base)
		v.Get(base + "/consent")
		location := v.Location(v.Post(base+"/consent", "decision", "allow"))
		if !strings.HasPrefix(location, begin+"code=svcc_") {
			t.Errorf("location does not go on as registered: %q", strings.SplitAfter(location, "svcc_")[0])
		}
		back := v.Get(base + "/consent")
		v.isError(back, http.StatusBadRequest, headingDecided)
		if got, _ := back.Find("a.other").Attr("href"); got != homepage || back.Find("a[href='/account']").Length() == 0 {
			t.Errorf("going back leads on to %q", got)
		}
	})
	t.Run("deny", func(t *testing.T) {
		t.Parallel()
		v := f.visitor(t)
		base := v.open(scope.All)
		if got, want := v.Location(v.Post(base+"/consent", "decision", "deny")), begin+"error=access_denied"; got != want {
			t.Errorf("location = %q, want %q", got, want)
		}
		v.isError(v.Get(base+"/consent"), http.StatusBadRequest, headingDecided)
		v.Header.Set("Cookie", askedCookie+"=x")
		v.Client.Jar = nil
		v.isError(v.Get(base+"/consent"), http.StatusBadRequest, headingElsewhere)
	})
}

// TestLongestResponse: a proxy that passes on as much as it is told to passes on the longest response, that to a decision whose state and
// callback are as long as they may be.
func TestLongestResponse(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile(`pass on request lines of \d+ KB .* and response headers of (\d+) KB`).FindSubmatch(document)
	if told == nil {
		t.Fatal("operations.md does not say how long headers may be")
	}
	most, _ := strconv.Atoi(string(told[1]))
	f := newFixture(t, limits)
	f.client = f.DB.Client(t, func(c *pgtest.Client) {
		c.CallbackURL = "https://" + partnerHost + "/" + strings.Repeat("c", 2048-len("https://"+partnerHost+"/"))
	})
	query := f.query(scope.All)
	query.Set("state", strings.Repeat("/", 2048)) // each is escaped
	v := f.visitor(t)
	base := strings.TrimSuffix(v.Location(v.Get("/oauth/authorize?"+query.Encode())), "/sign-in")
	v.signedIn(base)
	answer := v.Post(base+"/consent", "decision", "allow")
	var header bytes.Buffer
	if err := answer.Header.Write(&header); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.Location(answer), f.client.CallbackURL+"?state=%2F%2F") || header.Len() > most*1000 {
		t.Errorf("status %d with %d bytes of headers, of which a proxy passes on %d KB", answer.StatusCode, header.Len(), most)
	}
}

// TestRequestEnds31: 10 minutes, the user's midnight, and a client that is disabled meanwhile.
func TestRequestEnds_3_1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, heading string
		end           func(*testing.T, *fixture)
	}{
		{"10 minutes", headingExpired, func(_ *testing.T, f *fixture) { f.DB.Clock.Advance(10 * time.Minute) }},
		{"midnight in Berlin", "A new day has begun", func(_ *testing.T, f *fixture) {
			// The request was opened at 23:59:00 there.
			f.DB.Clock.Advance(time.Minute)
		}},
		{"client disabled", headingPartner, func(t *testing.T, f *fixture) {
			if err := f.Clients.Disable(t.Context(), f.client.ID); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, limits)
			f.DB.SetTime(time.Date(2026, 11, 21, 22, 59, 0, 0, time.UTC))
			v := f.visitor(t)
			base, page := v.consent(scope.All)
			if page.StatusCode != http.StatusOK {
				t.Fatalf("status = %d", page.StatusCode)
			}
			test.end(t, f)
			for _, decision := range []string{"allow", "deny", "disconnect"} {
				v.isError(v.Post(base+"/consent", "decision", decision), http.StatusBadRequest, test.heading)
			}
			back := v.Get(base + "/consent")
			v.isError(back, http.StatusBadRequest, test.heading)
			if got, _ := back.Find("a.other").Attr("href"); got != homepage {
				t.Errorf("the page leads on to %q", got)
			}
			if n := pgtest.Value[int64](t, f.DB, "select count(*) from connections"); n != 0 {
				t.Error("a connection came about")
			}
		})
	}
}

// TestCauseOfAnEnd_7_2: the page of a request whose client has changed names the cause that a new request has, before and after the sign-in.
func TestCauseOfAnEnd_7_2(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*client.Registration){
		"unauthorized_client": nil,
		"invalid_request":     func(r *client.Registration) { r.CallbackURL += "&more" },
		"invalid_scope":       func(r *client.Registration) { r.Scopes = scope.DailySteps },
	} {
		f := newFixture(t, limits)
		v := f.visitor(t)
		asked := v.open(scope.All)
		signedIn, _ := v.consent(scope.All)
		err := f.Clients.Disable(t.Context(), f.client.ID)
		if change != nil {
			err = f.Clients.Enable(t.Context(), f.client.ID)
			if err == nil {
				_, err = f.Clients.Update(t.Context(), f.client.ID, change)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []edgetest.Page{
			v.Get(asked + "/sign-in"), v.Get(signedIn + "/consent"), v.Post(signedIn+"/consent", "decision", "allow"),
		} {
			v.isError(answer, http.StatusBadRequest, headingPartner)
			if got := answer.Find(".cause code").Text(); got != want {
				t.Errorf("the page has the cause %q, want %q", got, want)
			}
		}
		if page := v.Get("/oauth/authorize?" + f.query(scope.All).Encode()); page.Find(".cause code").Text() != want {
			t.Errorf("a new request has the cause %q, want %q", page.Find(".cause code").Text(), want)
		}
	}
}

// TestAnotherBrowser: "a code signs in one authorization request in the browser that asked for it and nothing else".
func TestAnotherBrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	owner := f.visitor(t)
	base := owner.open(scope.All)
	code := owner.ask(base, email)

	empty, other := f.visitor(t), f.visitor(t)
	other.open(scope.All)
	broken := f.visitor(t)
	broken.Header.Set("Cookie", browserCookie+"=not-a-secret")
	for name, stranger := range map[string]visitor{"no cookie": empty, "another cookie": other, "broken cookie": broken} {
		for _, page := range []string{"/sign-in", "/code", "/consent"} {
			stranger.isError(stranger.Get(base+page), http.StatusBadRequest, headingElsewhere)
		}
		for page, form := range map[string][]string{
			"/sign-in":  {"email", email},
			"/code":     {"code", code},
			"/new-code": {},
			"/consent":  {"decision", "deny"},
		} {
			answer := stranger.Post(base+page, form...)
			stranger.isError(answer, http.StatusBadRequest, headingElsewhere)
			if strings.Contains(answer.Source, "Stride") {
				t.Errorf("%s: %s tells who asks", name, page)
			}
		}
	}
	if got := owner.Location(owner.Post(base+"/code", "code", code)); got != base+"/consent" {
		t.Errorf("the owner's code: location = %q", got)
	}
	if got := f.post.Waiting(); got != 0 {
		t.Errorf("strangers had %d emails sent", got)
	}
}

// TestBrand: pages and emails are those of the operator, and its name is text.
func TestBrand(t *testing.T) {
	t.Parallel()
	settings := limits
	settings.BaseURL = "https://" + serviceHost
	const acme = "Acme & <b>Søn</b>"
	settings.Brand = brand.Brand{Name: acme, Logo: pngLogo(t, 64, 32), SupportURL: "https://acme.example/help?a=1&b=2", PrivacyURL: "https://acme.example/privacy"}
	f := newFixture(t, settings)
	v := f.visitor(t)
	base := v.open(scope.All)
	page := v.Get(base + "/sign-in").Document
	if got := said(page.Find("header")); got != acme {
		t.Errorf("the page is headed %q", got)
	}
	if got := page.Find("title").Text(); got != "Sign in to connect Stride & Co · "+acme {
		t.Errorf("title = %q", got)
	}
	v.Location(v.Post(base+"/sign-in", "email", email))
	sent := f.post.Next(t)
	if sent.Subject != sent.Code+" is your "+acme+" code" || !strings.HasPrefix(sent.Text, acme+"\n") ||
		!strings.Contains(sent.Text, "only at "+serviceHost+",") || strings.Contains(sent.HTML, "<b>") {
		t.Errorf("the email %q:\n%s", sent.Subject, sent.Text)
	}
	if !strings.HasSuffix(sent.Text, "\n\nHelp: https://acme.example/help?a=1&b=2\nPrivacy policy: https://acme.example/privacy") ||
		!strings.Contains(sent.HTML, `<a href="https://acme.example/help?a=1&amp;b=2"`) || !strings.Contains(sent.HTML, `<img src="data:image/png;base64,`) {
		t.Errorf("the email ends with:\n%s\n%s", sent.Text, sent.HTML)
	}
}

// TestLanguageOfTheBrowser: pages, errors and the email have the language that the browser asks for, and caches know it.
func TestLanguageOfTheBrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	v.Header.Set("Accept-Language", "xx, de-AT;q=0.8, en;q=0.5")
	base := v.open(scope.All)
	page := v.Get(base + "/sign-in")
	if lang, _ := page.Find("html").Attr("lang"); lang != "de" || page.Header.Get("Vary") != "Accept-Language" ||
		page.Find("h1").Text() != "Anmelden, um Stride & Co zu verbinden" {
		t.Errorf("lang = %q, Vary %q, heading %q", lang, page.Header.Get("Vary"), page.Find("h1").Text())
	}
	v.Location(v.Post(base+"/sign-in", "email", email))
	sent := f.post.Next(t)
	if sent.Header.Get("Content-Language") != "de" || !strings.Contains(sent.Text, "10 Minuten") || !strings.Contains(sent.HTML, `lang="de"`) {
		t.Errorf("the email in %s:\n%s", sent.Header.Get("Content-Language"), sent.Text)
	}
	v.Location(v.Post(base+"/code", "code", sent.Code))
	if got := v.Get(base + "/consent").Find(".until time").Text(); got != "21.\u00a0November 2026" {
		t.Errorf("the first day is %q", got)
	}
	v.Header.Set("Accept-Language", "pl")
	if got := v.Get("/nothing").Find("h1").Text(); got != "Nie ma takiej strony" {
		t.Errorf("an error is headed %q", got)
	}
}

// TestPaths: an unknown path is an HTML page with status 404, for every method.
func TestPaths(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	for _, path := range []string{
		"/nothing", "/authorize", "/authorize/", base, base + "/", base + "/sign-in/", base + "/other", base + "/new-code",
		"/authorize/x/sign-in", strings.ToUpper(base) + "/sign-in", "/authorize/" + strings.ToUpper(base[11:]) + "/sign-in",
		"/account/", "/account/other", "/account/new-code", "/account/sign-out", "/account/connections",
		"/oauth/authorize/", "/static/", "/static/connect.css", "/static/../doc.go", "//" + serviceHost + "/sign-in",
	} {
		v.isError(v.Get(path), http.StatusNotFound, headingMissing)
	}
	if got := v.Location(v.Get("/")); got != "/account" {
		t.Errorf("/ leads to %q", got)
	}
	for _, site := range []string{"same-origin", "cross-site"} { // partners' pages may try to send a request as a form
		v.Header.Set("Sec-Fetch-Site", site)
		for _, path := range []string{"/", "/oauth/authorize", "/nothing", v.stylesheet()} {
			v.isError(v.Post(path), http.StatusNotFound, headingMissing)
		}
	}
}

// TestHeaders: every answer carries them, and only pages that can end at the callback let forms go there.
func TestHeaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base, consent := v.consent(scope.All)
	foreign := f.visitor(t)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	codePage := func() edgetest.Page {
		base := v.open(scope.All)
		v.ask(base, email)
		return v.Get(base + "/code")
	}
	const (
		strict = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
		goes   = strict + " https:"
	)
	for name, test := range map[string]struct {
		answer edgetest.Page
		policy string
	}{
		"303":            {v.Get("/oauth/authorize?" + f.query(scope.All).Encode()), strict},
		"sign-in":        {v.Get(v.open(scope.All) + "/sign-in"), goes},
		"cancelled":      {v.Post(v.open(scope.All)+"/consent", "decision", "deny"), strict},
		"consent":        {consent, goes},
		"error":          {v.Get("/oauth/authorize"), strict},
		"broken form":    {v.Post(base+"/consent", "decision", "perhaps"), strict},
		"foreign form":   {foreign.Post(base+"/consent", "decision", "deny"), strict},
		"not found":      {v.Get("/nothing"), strict},
		"stylesheet":     {v.Get(v.stylesheet()), strict},
		"account":        {v.Get("/account/sign-in"), strict},
		"code":           {codePage(), goes},
		"to the partner": {v.Post(base+"/consent", "decision", "allow"), strict},
	} {
		t.Run(name, func(t *testing.T) {
			want := http.Header{
				"Content-Security-Policy":      {test.policy},
				"Referrer-Policy":              {"same-origin"},
				"X-Content-Type-Options":       {"nosniff"},
				"X-Frame-Options":              {"DENY"},
				"Cache-Control":                {"no-store"},
				"Cross-Origin-Opener-Policy":   {"same-origin"},
				"Cross-Origin-Resource-Policy": {"same-origin"},
				"Permissions-Policy":           {"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"},
				"Strict-Transport-Security":    {"max-age=63072000"},
			}
			switch name {
			case "not found", "stylesheet", "account", "foreign form":
			default: // a page of an authorization
				want.Set("Cross-Origin-Opener-Policy", "unsafe-none")
			}
			if name == "stylesheet" {
				want.Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			got := http.Header{}
			for header := range want {
				got[header] = test.answer.Header[header]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatic(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	page := v.Get("/nothing").Document
	for selector, mediaType := range map[string]string{
		"link[rel=stylesheet]": "text/css; charset=utf-8",
		"link[rel=icon]":       "image/svg+xml",
	} {
		path, _ := page.Find(selector).Attr("href")
		answer := v.Get(path)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != mediaType || answer.Source == "" {
			t.Errorf("%s: status %d, %s, %d bytes", path, answer.StatusCode, answer.Header.Get("Content-Type"), len(answer.Source))
		}
	}
	if got := page.Find("script, style, [style], iframe, object, [onclick]").Length(); got != 0 {
		t.Errorf("%d elements that the policy refuses", got)
	}
}

// Files that are the same for everybody are compressed. Pages never are: they hold secrets beside what their reader chose (BREACH).
func TestOnlyStaticFilesAreCompressed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base, _ := v.consent(scope.All)
	v.Header.Set("Accept-Encoding", "gzip")
	css := v.Get(v.stylesheet())
	if css.Header.Get("Content-Encoding") != "gzip" || css.Header.Get("Vary") != "Accept-Encoding" || !strings.HasPrefix(css.Source, "\x1f\x8b") {
		t.Errorf("the style sheet: %v", css.Header)
	}
	for _, path := range []string{base + "/consent", "/account/sign-in", "/nothing", "/oauth/authorize"} {
		if page := v.Get(path); page.Header.Get("Content-Encoding") != "" || page.Find("h1").Length() != 1 {
			t.Errorf("%s: %q", path, page.Header.Get("Content-Encoding"))
		}
	}
}

// TestManyRequestsOfABrowser: a browser keeps cookies of the newest requests alone, however often a page navigates it, and each of those still works.
func TestManyRequestsOfABrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	v.Give("/oauth/authorize", &http.Cookie{Name: askedCookie, Value: encoded(make([]byte, 2000)), Path: "/oauth/authorize", Secure: true}) // of another host of the site
	v.open(scope.All)
	signedIn := v.open(scope.All)
	v.signedIn(signedIn)
	v.Give(signedIn, &http.Cookie{Name: typedCookie, Value: "1", Path: signedIn, Secure: true})
	first := v.f.visitor(t)
	if kept := first.open(scope.All); len(first.Cookies(kept)) != 2 || len(first.Cookies("/oauth/authorize")) != 1 {
		t.Error("the first request sets other cookies than two")
	}
	bases := []string{signedIn}
	for range 200 {
		got := v.Get("/oauth/authorize?" + f.query(scope.All).Encode())
		if set := len(got.Cookies()); set > 6 {
			t.Fatalf("an answer sets %d cookies", set)
		}
		bases = append(bases, strings.TrimSuffix(v.Location(got), "/sign-in"))
	}
	everywhere := len(v.Cookies("/"))
	kept := len(v.Cookies("/oauth/authorize")) - everywhere
	for i, base := range bases {
		kept += len(v.Cookies(base)) - everywhere
		if want := i >= len(bases)-maxRequests; (len(v.Cookies(base)) > everywhere) != want {
			t.Errorf("request %d of %d is kept: %t", i, len(bases), !want)
		}
	}
	if kept != maxRequests+1 {
		t.Errorf("%d cookies are kept for some paths", kept)
	}
	for _, base := range bases[len(bases)-maxRequests:] {
		v.signIn(base)
		if got := v.Get(base + "/consent"); got.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", base, got.StatusCode)
		}
	}
}
