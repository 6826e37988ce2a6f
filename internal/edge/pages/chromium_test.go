package pages

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/browsertest"
)

// partnerAppHost is another host of the partner, and another site.
const partnerAppHost = "app.stride.example"

// screen is a fixture that a real browser looks at, and a partner on a site of its own.
type screen struct {
	*fixture
	chromium *browsertest.Browser
	*browsertest.Tab
}

// partnerSite is what a partner's server has: a page with a link to us, and the callback, which sends the browser on to
// a page on another host, as many do.
func partnerSite(f *fixture) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+partnerHost+"/connect", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><title>Partner</title><a href="%s">Connect</a>
			<script>onmessage = message => { document.title = message.data + (popup.closed ? ", closed" : "") }</script>`,
			at("/oauth/authorize?"+strings.ReplaceAll(f.query(scope.All).Encode(), "&", "&amp;")))
	})
	mux.HandleFunc("GET "+partnerHost+"/activity/callback", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+partnerAppHost+"/connected?"+r.URL.RawQuery, http.StatusSeeOther)
	})
	mux.HandleFunc("GET "+partnerAppHost+"/connected", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><title>Back at the partner</title>
			<script>window.opener?.postMessage("connected", "*")</script>`)
	})
	return mux
}

func newScreen(t *testing.T, of ...brand.Brand) *screen {
	t.Helper()
	f := newFixture(t, limits, of...)
	partner := httptest.NewTLSServer(partnerSite(f))
	t.Cleanup(partner.Close)
	chromium := browsertest.Share(t, map[string]string{
		serviceHost:    f.server.Listener.Addr().String(),
		partnerHost:    partner.Listener.Addr().String(),
		partnerAppHost: partner.Listener.Addr().String(),
	})
	return &screen{f, chromium, chromium.NewTab(t)}
}

const (
	emailField   = chromedp.CSS("input[name=email]")
	codeField    = chromedp.CSS("input[name=code]")
	mainButton   = chromedp.CSS("button.act")
	allowButton  = chromedp.CSS("button[name=decision][value=allow]")
	denyButton   = chromedp.CSS("button[name=decision][value=deny]")
	cancelButton = chromedp.CSS(".cancel button")
)

// arrive comes from the partner's page to the sign-in.
func (s *screen) arrive(t *testing.T) {
	t.Helper()
	s.Open("https://" + partnerHost + "/connect")
	if status := s.Submit(chromedp.Click(chromedp.CSS("a"))); status != http.StatusOK {
		t.Fatalf("status = %d at %s", status, s.Location())
	}
}

// signIn goes on to the consent.
func (s *screen) signIn(t *testing.T) {
	t.Helper()
	s.Submit(chromedp.SetValue(emailField, email), chromedp.Click(mainButton))
	code := s.post.Next(t).Code
	s.Submit(chromedp.SendKeys(codeField, code), chromedp.Click(mainButton))
	s.WaitTitle("Let Stride & Co see your activity? · Activity Connect", "Let Stride & Co see your activity? · Acme Move",
		"Renew your connection to Stride & Co? · Acme Move", "Renew your connection to Stride & Co? · Activity Connect")
}

// isBack is the end of the way: the partner's page, with exactly these parameters.
func (s *screen) isBack(t *testing.T, outcome string) (value string) {
	t.Helper()
	location, err := url.Parse(s.Location())
	if err != nil {
		t.Fatal(err)
	}
	query := location.Query()
	if location.Host != partnerAppHost || len(query) != 3 {
		t.Fatalf("location = %s; problems %q", location, s.Problems())
	}
	if got := query.Get("state"); got != state {
		t.Errorf("state = %q, want %q", got, state)
	}
	if got := query.Get("tenant"); got != "7" {
		t.Errorf("the registered query has become %q", got)
	}
	if len(query[outcome]) != 1 {
		t.Fatalf("no %s in %s", outcome, location)
	}
	s.IsTitled("Back at the partner")
	return query.Get(outcome)
}

// isClean fails the test on whatever the console would have shown, such as a refusal by the content security policy.
func (s *screen) isClean(t *testing.T) {
	t.Helper()
	if got := s.Problems(); len(got) != 0 {
		t.Errorf("the console shows:\n%s", strings.Join(got, "\n"))
	}
}

func TestChromiumAllow_4_2(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.arrive(t)
	s.signIn(t)
	s.Submit(chromedp.Click(allowButton))
	if code := s.isBack(t, "code"); !strings.HasPrefix(code, "svcc_") {
		t.Error("the callback got no authorization code")
	}
	s.isClean(t)

	// The browser may have kept the page that the user goes back to; it leads nowhere any more. (setTimeout: what is
	// evaluated answers before the page is left.)
	s.Do(chromedp.Evaluate[chromedp.Void]("void setTimeout(() => history.back())"))
	s.WaitTitle("Let Stride & Co see your activity? · Activity Connect", "You’ve already decided · Activity Connect")
	s.Do(chromedp.Evaluate[chromedp.Void]("void setTimeout(() => document.querySelector('button[value=allow]')?.click())"))
	s.WaitTitle("You’ve already decided · Activity Connect")
}

// A partner opens the consent in a window of its page. That window stays the page's, also when the user chooses a language, so the callback
// can tell the page that it is done.
func TestChromiumPopup(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.Open("https://" + partnerHost + "/connect")
	page := s.Tab
	s.Tab = page.Popup(chromedp.Evaluate[chromedp.Void]("void (window.popup = open(document.querySelector('a').href))"))
	s.Do(chromedp.WaitReady(emailField))
	s.Submit(chromedp.Click(chromedp.CSS("footer summary")), chromedp.Click(chromedp.CSS("button[lang=en-US]")))
	var isOpened bool
	if s.Evaluate("window.opener !== null", &isOpened); !isOpened {
		t.Fatal("the window is the partner's no more once a language was chosen")
	}
	s.signIn(t)
	s.Submit(chromedp.Click(allowButton))
	if code := s.isBack(t, "code"); code == "" {
		t.Error("the callback got no authorization code")
	}
	page.WaitTitle("connected")
}

func TestChromiumDeny_3_1(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.arrive(t)
	s.signIn(t)
	s.Submit(chromedp.Click(denyButton))
	if got := s.isBack(t, "error"); got != "access_denied" {
		t.Errorf("error = %q, want access_denied", got)
	}
	s.isClean(t)
}

// TestChromium31CancelAtSignIn: nobody needs an account to go back.
func TestChromiumCancelAtSignIn_3_1(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.arrive(t)
	s.Submit(chromedp.Click(cancelButton))
	if got := s.isBack(t, "error"); got != "access_denied" {
		t.Errorf("error = %q, want access_denied", got)
	}
	s.arrive(t)
	s.Submit(chromedp.SetValue(emailField, email), chromedp.Click(mainButton))
	s.Submit(chromedp.Click(cancelButton))
	s.isBack(t, "error")
	s.isClean(t)
}

func TestChromiumScopeMismatch_3_1(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.connect(t, scope.DailySteps)
	s.arrive(t)
	s.Submit(chromedp.SetValue(emailField, email), chromedp.Click(mainButton))
	s.Submit(chromedp.SendKeys(codeField, s.post.Next(t).Code), chromedp.Click(mainButton))
	s.IsTitled("Stride & Co is now asking for different data · Activity Connect")
	var disabled bool
	s.Evaluate(`document.querySelector("button[value=allow]").disabled`, &disabled)
	if !disabled {
		t.Error("Allow is not disabled")
	}
	// Acts that need developer tools are refused, with the reason.
	s.Evaluate(`document.querySelector("button[value=allow]").disabled = false`, new(bool))
	if status := s.Submit(chromedp.Click(allowButton)); status != http.StatusConflict {
		t.Errorf("status of a forced Allow = %d, want 409", status)
	}
	s.IsTitled("Stride & Co is now asking for different data · Activity Connect")
	s.Submit(chromedp.Click(denyButton))
	s.isBack(t, "error")
}

// TestChromiumConsentFits: whoever decides sees both ways to decide without scrolling, in every language, on telephones of today and laptops.
// TestChromiumSeenBeforeAllowed looks at smaller ones.
func TestChromiumConsentFits(t *testing.T) {
	t.Parallel()
	s := newScreen(t, acme(t))
	s.branded(t) // with all the links that there can be
	s.record(t, noon.Truncate(24*time.Hour), 14312, 7400, 12850)
	for _, visit := range []struct {
		scopes  scope.Set
		heading string
	}{{scope.DailySteps, "consent.heading"}, {scope.All, "consent.heading"}, {scope.All, "again.heading"}} {
		scopes := visit.scopes
		if visit.heading == "again.heading" {
			s.connect(t, scopes)
		}
		s.Language("en")
		s.Open(at("/oauth/authorize?" + s.query(scopes).Encode()))
		s.signIn(t)
		for _, tag := range locale.Default().Tags() {
			s.Language(tag)
			s.Submit(chromedp.Reload())
			s.IsTitled(locale.Default().Locale(tag).Text(visit.heading, "Partner", "Stride & Co") + " · Acme Move")
			for _, size := range [][2]int64{{390, 844}, {390, 664}, {1280, 720}} { // 664: Safari, with its bars
				s.Do(chromedp.EmulateViewport(size[0], size[1]))
				var bottom int64
				s.Evaluate("Math.ceil(Math.max(...[...document.querySelectorAll('button[name=decision]')].map(b => b.getBoundingClientRect().bottom)))", &bottom)
				if bottom > size[1] {
					t.Errorf("%s (%s) in %s at %d × %d: the buttons end at %d", visit.heading, scopes, tag, size[0], size[1], bottom)
				}
				var lines []bool // neither decision looks like more than the other
				s.Evaluate("[...document.querySelectorAll('button[name=decision]')].map(b => b.getBoundingClientRect().height < 50)", &lines)
				if !slices.Equal(lines, []bool{true, true}) {
					t.Errorf("%s in %s at %d × %d: the words of a button need a second line", scopes, tag, size[0], size[1])
				}
			}
			s.Do(chromedp.EmulateViewport(320, 700))
			for _, fault := range s.LayoutFaults() {
				t.Errorf("%s in %s at 320 px: %s", scopes, tag, fault)
			}
		}
	}
}

// TestChromiumKeyboard goes the whole way without a mouse, and without touching what has the focus already.
func TestChromiumKeyboard(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.arrive(t)
	s.Do(chromedp.WaitReady(emailField+":focus"), chromedp.KeyEvent(email))
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.Do(chromedp.WaitReady(codeField+":focus"), chromedp.KeyEvent(s.post.Next(t).Code))
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.IsTitled("Let Stride & Co see your activity? · Activity Connect")

	var order []string
	for range 5 {
		order = append(order, s.NextFocus())
	}
	if want := []string{"www.partner.example (opens in a new tab)", "Your connections (opens in a new tab)", "Not you?", "Allow", "Don’t allow"}; !slices.Equal(order, want) {
		t.Errorf("order of the focus = %q, want %q", order, want)
	}
	s.Submit(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)), chromedp.KeyEvent(kb.Enter))
	s.isBack(t, "code")
	s.isClean(t)
}

// TestChromium5TwoTabs: two requests of one browser do not disturb each other, and another browser has neither.
func TestChromium5TwoTabs(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	other := &screen{s.fixture, s.chromium, s.NewTab()}
	s.arrive(t)
	other.arrive(t)
	s.signIn(t)
	other.signIn(t)
	stranger := s.chromium.NewTab(t)
	if status := stranger.Open(other.Location()); status != http.StatusBadRequest {
		t.Errorf("status for another browser = %d, want 400", status)
	}
	s.Submit(chromedp.Click(allowButton))
	s.isBack(t, "code")
	other.Submit(chromedp.Click(denyButton))
	other.isBack(t, "error")
}

// TestChromiumEveryPage brings up every page there is. TestChromiumEveryLanguage looks at the same pages at all sizes and in all
// colors; this test shows that the service sends them, and what a screen reader is told then.
func TestChromiumEveryPage(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	seen := map[string]bool{}
	look := func(name string) {
		t.Helper()
		s.lookAt(t, name)
		seen[name] = true
	}
	submit := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		s.Submit(append(steps, chromedp.Click(mainButton))...)
	}

	s.arrive(t)
	look("sign-in")
	submit(chromedp.SendKeys(emailField, "ada@"))
	look("sign-in, no address")
	submit(chromedp.SetValue(emailField, email))
	look("code")
	base := strings.TrimSuffix(s.Location(), "/code")
	code := s.post.Next(t).Code
	submit(chromedp.SendKeys(codeField, "12345"))
	look("code, malformed")
	for range 4 {
		submit(chromedp.SetValue(codeField, otherThan(code)))
	}
	look("code, wrong")
	submit(chromedp.SetValue(codeField, otherThan(code)))
	look("code, spent")
	submit()
	look("code, sent again")
	code = s.post.Next(t).Code
	s.DB.Exec(t, "update sign_ins set expires_at = connect_now()")
	submit(chromedp.SetValue(codeField, code))
	look("code, expired")
	submit()
	submit(chromedp.SetValue(codeField, s.post.Next(t).Code))
	look("consent")
	s.connect(t, scope.DailySteps)
	s.Open(base + "/consent")
	look("consent, mismatch")

	s.Open(at("/oauth/authorize?client_id=x"))
	look("refused")
	s.Open(at("/authorize/00000000-0000-4000-8000-000000000000/sign-in"))
	look("ended")
	s.Open(at("/authorize"))
	look("not found")
	for range 3 {
		s.arrive(t)
		submit(chromedp.SetValue(emailField, email))
	}
	look("too many codes")
	s.stopMail()
	s.arrive(t)
	submit(chromedp.SetValue(emailField, "grace@example.com"))
	s.Evaluate(`window.stop(), ""`, new(string)) // or the page would reload while it is looked at
	look("sending")
	s.DB.Exec(t, "update sign_ins set mail = 'failed'")
	s.Submit(chromedp.Reload())
	look("unavailable")
	s.arrive(t)
	s.Evaluate(`document.querySelector("input").name = "other"`, new(string))
	submit()
	look("bad form")
	s.arrive(t)
	s.DB.Exec(t, "alter table sign_ins rename to gone")
	s.Submit(chromedp.Reload())
	look("fault")

	for _, problem := range s.Problems() {
		if !strings.HasPrefix(problem, "network: Failed to load resource: the server responded with a status of") {
			t.Errorf("the console shows: %s", problem)
		}
	}
}

// otherThan is a wrong code.
func otherThan(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

// lookAt holds one page, as the service sends it, against what a sample of it cannot show: that a screen reader is told what
// happened, and that nothing is lost when the page runs from right to left.
func (s *screen) lookAt(t *testing.T, name string) {
	t.Helper()
	for _, fault := range accessibilityFaults(s.Accessible(), strings.Contains(name, ",") && !strings.Contains(name, "sent again")) {
		t.Errorf("%s: %s", name, fault)
	}
	var direction string
	s.Evaluate("document.documentElement.dir = 'rtl'", &direction)
	s.Do(chromedp.EmulateViewport(320, 700))
	for _, fault := range s.LayoutFaults() {
		t.Errorf("%s from right to left: %s", name, fault)
	}
	s.Evaluate("document.documentElement.dir = 'ltr'", &direction)
	s.Do(chromedp.EmulateViewport(1024, 700))
}

// accessibilityFaults are what a person with a screen reader would miss. A page of a problem must announce it, and tell
// it again with the field or the button that it is about.
func accessibilityFaults(nodes []browsertest.Node, problem bool) (faults []string) {
	count := map[string]int{}
	told := false
	for _, node := range nodes {
		switch {
		case node.Role == "heading" && node.Is("level", "1"):
			count["main heading"]++
		case node.Role == "heading" && !node.Is("level", "2"):
			faults = append(faults, "a heading of level "+node.Properties["level"])
		case node.Role == "RootWebArea" && node.Name == "":
			faults = append(faults, "no title")
		case (node.Role == "image" || node.Role == "img") && node.Name == "":
			faults = append(faults, "a picture without words")
		}
		count[node.Role]++
		if node.Is("focusable", "true") && node.Role != "RootWebArea" && node.Name == "" {
			faults = append(faults, "no name: "+node.Role)
		}
		if node.Role == "textbox" && node.Is("invalid", "true") != problem {
			faults = append(faults, "the field says invalid = "+node.Properties["invalid"])
		}
		if (node.Role == "textbox" || node.Role == "button") && problem && len(node.Description) > 20 {
			told = true
		}
	}
	for _, role := range []string{"main", "banner", "contentinfo", "main heading"} {
		if count[role] != 1 {
			faults = append(faults, fmt.Sprintf("%d of %s", count[role], role))
		}
	}
	if want := map[bool]int{true: 1}[problem]; count["alert"] != want {
		faults = append(faults, fmt.Sprintf("%d alerts, want %d", count["alert"], want))
	}
	if told != problem {
		faults = append(faults, fmt.Sprintf("the problem is told with what it is about: %v, want %v", told, problem))
	}
	return faults
}
