package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	userpages "connect-svc/internal/edge/pages"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// portal serves the portal with what is configured now.
func (f *fixture) portal(t testing.TB) *httptest.Server {
	t.Helper()
	config := f.config
	var err error
	if config.Consent, err = userpages.NewConsentPreview(PortalPreviewFiles, brand.Brand{}, nil, f.DB.Now); err != nil {
		t.Fatal(err)
	}
	handler, err := NewPortal(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(telemetry.Requests(telemetry.NewLogger(f.Log, slog.LevelDebug), handler))
	t.Cleanup(server.Close)
	return server
}

// link returns the path of a new link to a partner's pages.
func (f *fixture) link(t testing.TB, partner uuid.UUID, change ...func(*portal.NewLink)) string {
	t.Helper()
	of := portal.NewLink{ClientID: partner, Name: "kim", Valid: time.Hour}
	for _, one := range change {
		one(&of)
	}
	_, secret, err := f.config.Portal.CreateLink(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return portal.LinkPath(partner, secret)
}

// engineer is a browser that has opened a link to a partner's pages.
func (f *fixture) engineer(t testing.TB, server *httptest.Server, partner uuid.UUID, change ...func(*portal.NewLink)) visitor {
	t.Helper()
	v := visitor{edgetest.Visit(t, server, server.URL)}
	v.goes(v.Post(f.link(t, partner, change...)), portal.Path+"/"+partner.String())
	return v
}

func reading(l *portal.NewLink) { l.ReadOnly = true }

// Each route answers each principal as the table says.
func TestRights(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.DB.Webhook(t, partner.ID)
	event := uuid.New()
	f.DB.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		select user_id, $1, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', connect_now(), 'failed', 1, true from connections`, event)
	other := f.DB.Client(t)
	f.config.Changes = portal.Changes{Webhooks: true, Secrets: true}
	server := f.portal(t)
	bare := *f
	bare.config.Changes = portal.Changes{}
	strict := bare.portal(t)

	// Whom a route of each right admits, with GET and with POST.
	const none, get, both = "", "GET", "GET POST"
	principals := []struct {
		name   string
		v      visitor
		base   string
		admits map[right]string
	}{
		{"operator", f.signedIn(t, edgetest.AdaToken), partnersPath, map[right]string{operator: both, engineers: both, secrets: both, webhooks: both}},
		{"operator who reads", f.signedIn(t, edgetest.GraceToken), partnersPath, map[right]string{operator: get, engineers: get, secrets: get, webhooks: get}},
		{"engineer", f.engineer(t, server, partner.ID), portal.Path, map[right]string{operator: none, engineers: both, secrets: both, webhooks: both}},
		{"engineer who reads", f.engineer(t, server, partner.ID, reading), portal.Path, map[right]string{operator: none, engineers: get, secrets: get, webhooks: get}},
		{"engineer without changes", bare.engineer(t, strict, partner.ID), portal.Path, map[right]string{operator: none, engineers: both, secrets: none, webhooks: none}},
		{"engineer of another", f.engineer(t, server, other.ID), portal.Path, map[right]string{}},
		{"nobody", visitor{edgetest.Visit(t, server, server.URL)}, portal.Path, map[right]string{}},
		{"nobody at the console", f.visitor(t), partnersPath, map[right]string{}},
	}
	asked := 0
	for _, p := range principals {
		p.v.Look = func(edgetest.Page) {} // the preview of the consent page has headers of its own
	}
	for pattern, who := range rightsOf(t, f.config) {
		rest, about := strings.CutPrefix(pattern, "{partner}")
		if who == anyone {
			continue
		}
		for _, p := range principals {
			path := pattern
			if about {
				path = p.base + "/" + partner.ID.String() + rest
			} else if p.base == portal.Path {
				path = "/console-is-not-here" + pattern
			}
			path = strings.NewReplacer("{event}", event.String(), "{session}", uuid.NewString(), "{language}", "en", "{file}", "x.png",
				"{user}", f.User.ID.String(), "{client}", partner.ID.String(), "{dataset}", "daily_steps", "{correction}", uuid.NewString(), "{name}", "x").Replace(path)
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				asked++
				var got edgetest.Page
				if method == http.MethodGet {
					got = p.v.Get(path)
				} else {
					got = p.v.Post(path, "no such field", "")
				}
				// A form with an unknown field is refused once its sender has the right to send one.
				refused := got.StatusCode == http.StatusForbidden || strings.HasPrefix(got.Header.Get("Location"), Path+"/sign-in")
				admitted, found := strings.Contains(p.admits[who], method), got.StatusCode != http.StatusNotFound
				if refused && admitted || found && !refused && !admitted { // a route may lack a method, or what it shows
					t.Errorf("%s, %s %s: status %d, admitted %t", p.name, method, pattern, got.StatusCode, admitted)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("nothing was asked")
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*) from clients where status <> 'active'"); n != 0 {
		t.Errorf("%d clients were changed", n)
	}
}

// rightsOf has the rights of all routes, of the console and of the portal, by the pattern.
func rightsOf(t *testing.T, config Config) map[string]right {
	t.Helper()
	rights := map[string]right{}
	for _, base := range []string{Path, ""} {
		c, err := newConsole(config, base, Path+"/static/")
		if err != nil {
			t.Fatal(err)
		}
		for _, route := range c.routes() {
			if other := rights[route.pattern]; other != 0 && other != route.who {
				t.Errorf("%s has the rights %d and %d", route.pattern, other, route.who)
			}
			rights[route.pattern] = route.who
		}
	}
	return rights
}

// A route without a right or without a time does not start.
func TestEveryRouteHasARight(t *testing.T) {
	t.Parallel()
	c, err := newConsole(newFixture(t).config, Path, Path+"/static/")
	if err != nil {
		t.Fatal(err)
	}
	whole := route{Path + "/new-page", operator, short, handlers{get: c.showHome}}
	if _, err := c.router([]route{whole}, nil); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*route){
		"no right": func(r *route) { r.who = 0 },
		"no time":  func(r *route) { r.takes = 0 },
	} {
		r := whole
		if change(&r); err == nil {
			_, err = c.router([]route{r}, nil)
		}
		if err == nil {
			t.Errorf("%s: it is added", name)
		}
		err = nil
	}
	if _, err := c.router([]route{whole, whole}, nil); err == nil {
		t.Error("a route is added twice")
	}
}

// Acts that end many connections or call a partner's server may take longer than others, and than pages.
func TestTimeOfActs(t *testing.T) {
	t.Parallel()
	c, err := newConsole(newFixture(t).config, Path, Path+"/static/")
	if err != nil {
		t.Fatal(err)
	}
	var slow []string
	for _, route := range c.routes() {
		if route.takes == long {
			slow = append(slow, route.pattern)
		}
	}
	if want := []string{"{partner}/webhooks/test", "{partner}/webhooks/replay", "{partner}/revoke", "{partner}/offboard"}; !slices.Equal(slow, want) {
		t.Errorf("the long acts are %q, want %q", slow, want)
	}
	c.Limits = work.Limits{Act: time.Hour, Batch: 3 * time.Hour}
	var left time.Duration
	record := func(_ http.ResponseWriter, r *http.Request) error {
		deadline, _ := r.Context().Deadline()
		left = time.Until(deadline)
		return nil
	}
	router, err := c.router([]route{{"/short", anyone, short, handlers{record, record}}, {"/long", anyone, long, handlers{record, record}}},
		func(*http.Request) work.Caller { return inConsole })
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path string
		want         time.Duration
	}{
		{http.MethodGet, "/short", time.Hour}, {http.MethodPost, "/short", time.Hour}, {http.MethodGet, "/long", time.Hour}, {http.MethodPost, "/long", 3 * time.Hour},
	} {
		left = 0
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		router.ServeHTTP(httptest.NewRecorder(), r)
		if got := left.Round(time.Hour); got != test.want {
			t.Errorf("%s %s may take %s, want %s", test.method, test.path, got, test.want)
		}
	}
}

func TestPortal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.Changes = portal.Changes{Webhooks: true, Secrets: true}
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.DB.Webhook(t, partner.ID)
	server := f.portal(t)
	home := portal.Path + "/" + partner.ID.String()

	stranger := visitor{edgetest.Visit(t, server, server.URL)}
	stranger.fails(stranger.Get(home), http.StatusForbidden, "This page needs a link")
	stranger.fails(stranger.Get(portal.Path), http.StatusForbidden, "This page needs a link")
	stranger.fails(stranger.Get(portal.LinkPath(uuid.New(), "x")), http.StatusForbidden, "This page needs a link")

	link := f.link(t, partner.ID)
	f.DB.Exec(t, "alter table clients rename to away")
	stranger.fails(stranger.Get(link), http.StatusInternalServerError, "Something went wrong")
	f.DB.Exec(t, "alter table away rename to clients")
	for range 2 { // programs that look at messages open links, too
		stranger.shows(stranger.Get(link), "Open the pages of Ride Club?", "partner:kim")
	}
	v := visitor{edgetest.Visit(t, server, server.URL)}
	v.goes(v.Post(link), home)
	stranger.fails(stranger.Get(link), http.StatusForbidden, "This page needs a link")
	stranger.fails(stranger.Post(link), http.StatusForbidden, "This page needs a link")
	v.shows(v.Get(home), "Ride Club", partner.ID.String(), "partner:kim")
	for _, page := range []string{"/usage", "/refused", "/connections", "/webhooks", "/log", "/consent"} {
		got := v.Get(home + page)
		v.shows(got, "Ride Club")
		for _, secret := range []string{f.User.Email, f.User.ID.String(), "/console/"} {
			if text := got.Source; strings.Contains(text, secret) {
				t.Errorf("%s has %s", page, secret)
			}
		}
	}
	grant := pgtest.Value[uuid.UUID](t, f.DB, "select grant_id from connections where client_id = $1", partner.ID)
	v.shows(v.Get(home+"/connections?grant="+grant.String()), "Ride Club", grant.String(), "authorized")
	v.shows(v.Get(home+"/connections?grant="+strings.ReplaceAll(grant.String(), "-", "")), "Ride Club", "authorized") // as some programs write it
	v.shows(v.Get(home+"/connections?grant="+uuid.NewString()), "Ride Club", "no connection")

	v.shows(v.Post(home+"/secret", "overlap", "86400", "older", ""), "The secret is replaced")
	v.shows(v.Get(home+"/log"), "Ride Club", "partner:kim", "client.portal_opened", "client.secret_replaced")
	if got := pgtest.Value[string](t, f.DB, "select actor from audit_log where action = 'client.secret_replaced'"); got != "partner:kim" {
		t.Errorf("%s replaced the secret", got)
	}
	v.goes(v.Post(home+"/sign-out"), portal.Path+"?signed-out")
	v.shows(v.Get(portal.Path+"?signed-out"), "You have signed out")
	v.fails(v.Get(home), http.StatusForbidden, "This page needs a link")
	if secret := link[strings.LastIndex(link, "/")+1:]; strings.Contains(f.Log.String(), secret) {
		t.Error("the log has the secret of a link")
	}
}

// A second link that is opened in a browser ends the first session, also that of another partner. One that does not open ends nothing.
func TestSecondLinkInABrowser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, other := f.DB.Client(t), f.DB.Client(t)
	server := f.portal(t)
	v := f.engineer(t, server, partner.ID)
	elsewhere := f.engineer(t, server, partner.ID)
	v.fails(v.Post(portal.LinkPath(partner.ID, "x")), http.StatusForbidden, "This page needs a link")
	sessions := func(want int, id uuid.UUID) {
		t.Helper()
		if now, err := f.Portal.Sessions(t.Context(), id); err != nil || len(now) != want {
			t.Errorf("%d sessions, want %d: %v", len(now), want, err)
		}
	}
	sessions(2, partner.ID)
	for _, id := range []uuid.UUID{partner.ID, other.ID} {
		v.goes(v.Post(f.link(t, id)), portal.Path+"/"+id.String())
		v.shows(v.Get(portal.Path+"/"+id.String()), partner.Name)
	}
	sessions(1, partner.ID)
	sessions(1, other.ID)
	elsewhere.shows(elsewhere.Get(portal.Path+"/"+partner.ID.String()), partner.Name)
	v.fails(v.Get(portal.Path+"/"+partner.ID.String()), http.StatusForbidden, "This page needs a link")
	if ended := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where action = 'client.portal_session_ended' and actor = 'partner:kim'"); ended != 2 {
		t.Errorf("the log has %d ends", ended)
	}
}

// If the button is pressed twice, the browser shows the last answer, and may have dropped the first one with its cookie. Both answers open the pages
// then, in one session. The form of somebody else opens nothing.
func TestLinkThatIsOpenedTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	server, link, home := f.portal(t), f.link(t, partner.ID), portal.Path+"/"+partner.ID.String()
	visit := func() visitor { return visitor{edgetest.Visit(t, server, server.URL)} }
	v, dropped, stranger := visit(), visit(), visit()
	form, others := formOf(v.Get(link)), formOf(stranger.Get(link))
	dropped.goes(dropped.Post(link, form...), home)
	stranger.fails(stranger.Post(link, others...), http.StatusForbidden, "This page needs a link")
	for range 2 {
		v.goes(v.Post(link, form...), home)
		v.shows(v.Get(home), partner.Name, "partner:kim")
	}
	if all, err := f.Portal.Sessions(t.Context(), partner.ID); err != nil || len(all) != 1 {
		t.Errorf("%d sessions, %v", len(all), err)
	}
	if opened := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where action = 'client.portal_opened'"); opened != 1 {
		t.Errorf("the log has %d openings", opened)
	}
	v.goes(v.Post(home+"/sign-out"), portal.Path+"?signed-out")
	for _, again := range [][]string{form, nil} {
		v.fails(v.Post(link, again...), http.StatusForbidden, "This page needs a link")
	}
}

// The pages speak to the partner's engineers, who know of no console and are the operator's contact themselves.
func TestPortalSpeaksToEngineers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.config.Changes = portal.Changes{Webhooks: true, Secrets: true}
	v := f.engineer(t, f.portal(t), partner.ID)
	home, forms := portal.Path+"/"+partner.ID.String(), 0
	speaks := func(p edgetest.Page) {
		t.Helper()
		forms += p.Find("main form").Length()
		text := strings.ToLower(strings.Join(strings.Fields(p.Find("html").Text()), " "))
		for _, word := range []string{"console", "your contact"} {
			if strings.Contains(text, word) {
				t.Errorf("%s %s says %q: %s", p.Request.Method, p.Request.URL.Path, word, text)
			}
		}
	}
	for pattern, who := range rightsOf(t, f.config) {
		if rest, about := strings.CutPrefix(pattern, "{partner}"); about && who != operator {
			speaks(v.Get(home + strings.Replace(rest, "{language}", "en", 1)))
			speaks(v.Post(home+rest, "no such field", ""))
		}
	}
	if forms == 0 {
		t.Error("no page had a form")
	}
	v.Header.Set("Sec-Fetch-Site", "cross-site")
	speaks(v.Post(home + "/secret"))
}

// The address of all partners' pages leads who has a session to the own ones, and tells others that a link is needed.
func TestPortalFromOutside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	server, home := f.portal(t), portal.Path+"/"+partner.ID.String()
	v, stranger := f.engineer(t, server, partner.ID), visitor{edgetest.Visit(t, server, server.URL)}
	v.goes(v.Get(portal.Path), home)
	stranger.fails(stranger.Get(portal.Path), http.StatusForbidden, "This page needs a link")
	stranger.Give("/", &http.Cookie{Name: portalCookie, Value: "x.y", Path: "/", Secure: true})
	stranger.fails(stranger.Get(portal.Path), http.StatusForbidden, "This page needs a link")
	v.goes(v.Post(home+"/sign-out"), portal.Path+"?signed-out")
	v.fails(v.Get(portal.Path), http.StatusForbidden, "This page needs a link")
}

// An engineer who presses "Sign out" twice, or after the session has ended, is told to be signed out, as in the console.
func TestPortalSignOutTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	server, path := f.portal(t), portal.Path+"/"+partner.ID.String()+"/sign-out"
	v, dropped, late := f.engineer(t, server, partner.ID), f.engineer(t, server, partner.ID), f.engineer(t, server, partner.ID)
	cookie := dropped.Cookies("/")[portalCookie]
	for range 2 {
		v.goes(v.Post(path), portal.Path+"?signed-out")
		dropped.Give("/", &http.Cookie{Name: portalCookie, Value: cookie.Value, Path: "/", Secure: true})
		dropped.goes(dropped.Post(path), portal.Path+"?signed-out")
	}
	other := f.engineer(t, server, f.DB.Client(t).ID)
	own := other.Cookies("/")[portalCookie]
	other.goes(other.Post(path), portal.Path+"?signed-out") // from a page of before the other partner's link was opened in the browser
	other.Give("/", own)
	other.fails(other.Get(portal.Path), http.StatusForbidden, "This page needs a link")
	f.DB.Clock.Advance(portal.SessionLifetime)
	late.goes(late.Post(path), portal.Path+"?signed-out")
	late.shows(late.Get(portal.Path+"?signed-out"), "You have signed out")
	if ended := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where action = 'client.portal_session_ended' and actor = 'partner:kim'"); ended != 3 {
		t.Errorf("the log has %d ends", ended)
	}
}

// However many test deliveries an engineer asks for at once, as many reach the receiver as the budget allows, each with an entry in the log. The page says
// when it goes on.
func TestBudgetOfTestDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	hang := make(chan struct{})
	address, sent := edgetest.Receiver(t, func(http.ResponseWriter, *http.Request) { <-hang })
	answer := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(answer) // before the receiver closes, which waits for its requests
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, address); err != nil {
		t.Fatal(err)
	}
	server := f.portal(t)
	v, path := f.engineer(t, server, partner.ID), portal.Path+"/"+partner.ID.String()+"/webhooks/test"
	answers := make(chan edgetest.Page, 150)
	for range cap(answers) {
		go func() { answers <- v.Post(path, "type", "activity.updated") }()
	}
	for range cap(answers) - 30 { // the others hang
		got := <-answers
		v.fails(got, http.StatusTooManyRequests, "Not again so soon")
		until, err := time.Parse(time.RFC3339, got.Find("main time").AttrOr("datetime", ""))
		seconds, _ := strconv.Atoi(got.Header.Get("Retry-After"))
		if wait := until.Sub(f.DB.Now()); err != nil || wait < 50*time.Minute || wait > time.Hour || seconds < 3000 || seconds > 3600 {
			t.Errorf("it goes on in %s, Retry-After %d: %v", wait, seconds, err)
		}
	}
	answer()
	for range 30 {
		v.shows(<-answers, "Send a test to "+partner.Name, "The receiver")
	}
	if reached := len(sent()); reached != 30 {
		t.Errorf("%d deliveries reached the receiver", reached)
	}
	if entries := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where action = 'webhook.tested' and actor = 'partner:kim' and detail = '{\"type\": \"activity.updated\"}'"); entries != 30 {
		t.Errorf("the log has %d", entries)
	}
	f.DB.Clock.Advance(time.Hour)
	v = f.engineer(t, server, partner.ID)
	if got := v.Post(path, "type", "activity.updated"); got.StatusCode != http.StatusOK {
		t.Errorf("an hour later: status %d", got.StatusCode)
	}
}

// A link that an operator makes in the console opens the portal, and ends with the press of a button.
func TestLinkFromTheConsole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	server := f.portal(t)
	ada, path := f.signedIn(t, edgetest.AdaToken), pathOf(partner.ID)+"/portal"
	made := ada.Post(path+"/link", "name", "kim", "rights", "read", "valid", "3600")
	ada.shows(made, "The link is made")
	link := strings.TrimPrefix(strings.TrimSpace(made.Find(".secrets pre").Text()), f.config.BaseURL)
	v := visitor{edgetest.Visit(t, server, server.URL)}
	v.goes(v.Post(link), portal.Path+"/"+partner.ID.String())
	listed := ada.Get(path)
	ada.shows(listed, partner.Name, "kim", "only look", "ada")
	end, _ := listed.Find("tbody a").Attr("href")
	ada.shows(ada.Get(end), "End the access of kim?")
	for range 2 { // the button is pressed twice, or another operator has been quicker
		ada.goes(ada.Post(end), path+"?done=session_ended")
	}
	ada.goes(ada.Get(end), path+"?done=session_ended")
	ada.shows(ada.Get(path+"?done=session_ended"), partner.Name, "It has ended.", "No link waits, and nobody is signed in.")
	v.fails(v.Get(portal.Path+"/"+partner.ID.String()), http.StatusForbidden, "This page needs a link")
	ada.Post(path+"/link", "name", "lee", "rights", "change", "valid", "86400")
	for act, heading := range map[string]string{"/portal/end": "End all access of %s?", "/disable": "Disable %s?", "/offboard": "Offboard %s for good?"} {
		ada.shows(ada.Get(pathOf(partner.ID)+act), fmt.Sprintf(heading, partner.Name), "own pages that end: 1. Sessions there that end: 0.")
	}
	ada.goes(ada.Post(path+"/end"), path+"?done=sessions_ended")
	ada.shows(ada.Get(path), partner.Name, "No link waits")
	ada.shows(ada.Post(path+"/link", "name", "kim lee", "rights", "read", "valid", "3600"), fmt.Sprintf("Make a link for %s", partner.Name), "must be 1 to 64 letters")
}
