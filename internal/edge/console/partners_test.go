package console

import (
	"bytes"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// hostile are texts that pages must show as they are.
var hostile = []string{
	`<script>document.title="hacked"</script>`, `"><img src=x onerror=alert(1)>`, "שלום " + "עולם (RTL)", strings.Repeat("W", 100), `{{.}} &amp; ' "`,
}

// registration is the form of one, as pairs of a name and a value; others replace some of them, or add to them.
func registration(others ...string) []string {
	values := url.Values{
		"name": {"Ride Club"}, "callback": {"https://ride.example/callback"}, "daily_steps:read": {"yes"}, "contact-email": {"it@ride.example"},
		"homepage": {"https://ride.example/"}, "privacy-url": {""}, "terms-url": {""}, "requests-per-minute": {"600"}, "burst": {"60"},
		"concurrent-reads": {"10"}, "webhook-parallel": {"8"},
	}
	for i := 0; i < len(others); i += 2 {
		values.Set(others[i], others[i+1])
	}
	var fields []string
	for name := range values {
		fields = append(fields, name, values.Get(name))
	}
	return fields
}

// acts holds the audit log to have entries of who did what to a partner, in this order.
func (f *fixture) acts(t *testing.T, partner uuid.UUID, want ...string) {
	t.Helper()
	got := pgtest.Value[[]string](t, f.DB, `select coalesce(array_agg(actor || ' ' || action order by at, id), '{}') from audit_log where client_id = $1`, partner)
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

// accepted are credentials that authenticate a partner.
func (f *fixture) accepted(t *testing.T, id uuid.UUID, secret string) bool {
	t.Helper()
	hash := credential.Hash(secret)
	return pgtest.Value[bool](t, f.DB, `select exists (select from clients where client_id = $1 and status = 'active'
		and (secret_hash = $2 or previous_secret_hash = $2 and previous_secret_until > connect_now()))`, id, hash[:])
}

func TestRegister(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	form := v.Get(partnersPath + "/new")
	v.shows(form, "Register a partner")
	id := form.Find("input[name=id]").AttrOr("value", "")
	for name, wrong := range map[string][]string{
		"name": {"name", ""}, "callback": {"callback", "http://ride.example/callback"}, "homepage": {"homepage", "javascript:alert(1)"},
		"contact-email": {"contact-email", "nobody"}, "burst": {"burst", "many"}, "webhook-parallel": {"webhook-parallel", "0"},
	} {
		page := v.Post(partnersPath+"/new", registration(append(wrong, "id", id)...)...)
		if page.StatusCode != http.StatusUnprocessableEntity || page.Find("#p-"+name).Length() != 1 || page.Find("#f-"+name).AttrOr("value", "") != wrong[1] {
			t.Errorf("%s: status %d, problem %q, value %q", name, page.StatusCode, page.Find(".wrong").Text(), page.Find("#f-"+name).AttrOr("value", ""))
		}
	}
	if page := v.Post(partnersPath+"/new", registration("id", id, "daily_steps:read", "")...); page.Find("#p-scope").Length() != 1 {
		t.Error("no scope is no problem")
	}
	for _, bad := range []string{"", "x", uuid.Nil.String(), strings.ToUpper(id)} {
		v.fails(v.Post(partnersPath+"/new", registration("id", bad)...), http.StatusBadRequest, "This form cannot be read")
	}

	made := v.Post(partnersPath+"/new", registration("id", id)...)
	v.shows(made, "The partner is registered", "Ride Club", id, "cannot be shown again")
	secret := made.Find(".secrets pre").Last().Text()
	partner, err := f.config.Clients.Get(t.Context(), uuid.MustParse(id))
	if err != nil || partner.Name != "Ride Club" || partner.Scopes != scope.DailySteps || !f.accepted(t, partner.ID, secret) {
		t.Fatalf("%+v, %v", partner, err)
	}
	if page := v.Get(pathOf(partner.ID)); strings.Contains(page.Source, secret) {
		t.Error("the secret is shown again")
	}
	// The form that was sent twice made one partner, whose secret stays as it was shown.
	again := v.Post(partnersPath+"/new", registration("id", id, "name", "Ride Club")...)
	if again.StatusCode == http.StatusUnprocessableEntity {
		t.Fatal("the second press of the button is asked about the first one's name")
	}
	v.goes(again, pathOf(partner.ID)+"?done=partner_exists")
	v.shows(v.Get(pathOf(partner.ID)+"?done=partner_exists"), "Ride Club", "This form was sent before")
	if !f.accepted(t, partner.ID, secret) {
		t.Error("the secret that was shown does not work")
	}
	f.acts(t, partner.ID, "ada client.created")
	if n := pgtest.Value[int](t, f.DB, "select count(*) from clients"); n != 1 {
		t.Errorf("%d partners", n)
	}
}

// Both presses of the button at once make one partner, too.
func TestRegisterTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	id := uuid.NewString()
	statuses := make([]int, 4)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() { statuses[i] = v.Post(partnersPath+"/new", registration("id", id)...).StatusCode })
	}
	all.Wait()
	made := 0
	for _, status := range statuses {
		if status == http.StatusOK {
			made++
		} else if status != http.StatusSeeOther {
			t.Errorf("status %d", status)
		}
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*) from clients"); n != 1 || made != 1 {
		t.Errorf("%d partners, shown %d times", n, made)
	}
}

func TestChangePartner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	other := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Walk Rewards" })
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/change"
	open := func() (seen string) {
		page := v.Get(path)
		v.shows(page, "Change "+f.nameOf(t, partner.ID))
		return page.Find("input[name=seen]").AttrOr("value", "")
	}
	v.goes(v.Post(path, registration("seen", open(), "name", "Ride Society", "burst", "99")...), pathOf(partner.ID)+"?done=partner_changed")
	v.shows(v.Get(pathOf(partner.ID)+"?done=partner_changed"), "Ride Society", "The registration is changed.", "it@ride.example", "99")

	if log := v.Get(v.Get(pathOf(partner.ID)).Find("main .way a").AttrOr("href", "")); log.Find("tbody tr").Length() != 1 || !strings.Contains(log.Source, "client.updated") {
		t.Errorf("the partner's page does not lead to what happened to it: %s", log.Request.URL)
	}

	// A name that looks like another's must be meant.
	seen := open()
	alike := v.Post(path, registration("seen", seen, "name", "WaIk Rewards")...)
	v.shows(alike, "Change Ride Society", "Users could mistake “WaIk Rewards” for another partner", "Walk Rewards")
	if alike.StatusCode != http.StatusUnprocessableEntity || alike.Find(".problem a").AttrOr("href", "") != pathOf(other.ID) {
		t.Errorf("status %d", alike.StatusCode)
	}
	if page := v.Post(path, registration("seen", seen, "name", "WaIk Rewards", "alike", "Another")...); page.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("what was confirmed of another name: status %d", page.StatusCode)
	}
	v.goes(v.Post(path, registration("seen", seen, "name", "WaIk Rewards", "alike", "WaIk Rewards")...), pathOf(partner.ID)+"?done=partner_changed")

	// Saving a form that began with an older registration undoes nothing that somebody else has saved.
	stale := v.Post(path, registration("seen", seen, "name", "Ride Club", "burst", "1")...)
	v.shows(stale, "Change WaIk Rewards", "Somebody else changed this registration in the meantime")
	if stale.StatusCode != http.StatusUnprocessableEntity || stale.Find("#f-burst").AttrOr("value", "") != "60" {
		t.Errorf("status %d, burst %s", stale.StatusCode, stale.Find("#f-burst").AttrOr("value", ""))
	}
	page := v.Post(path, registration("seen", open(), "name", "Ride Club", "callback", "https://ride.example/")...)
	if page.StatusCode != http.StatusUnprocessableEntity || page.Find("#p-callback").Length() != 1 {
		t.Errorf("a wrong callback: status %d", page.StatusCode)
	}
	f.acts(t, partner.ID, "ada client.updated", "ada client.updated")
}

func (f *fixture) nameOf(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return pgtest.Value[string](t, f.DB, "select name from clients where client_id = $1", id)
}

// file is the body of a form with one file.
func file(t *testing.T, name string, content []byte) (contentType, body string) {
	t.Helper()
	var text bytes.Buffer
	form := multipart.NewWriter(&text)
	part, err := form.CreateFormFile(name, "logo.svg")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(content)
	_ = form.Close()
	return form.FormDataContentType(), text.String()
}

const circle = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><script>alert(1)</script><circle cx="4" cy="4" r="4" fill="teal"/></svg>`

func TestLogo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/logo"
	v.shows(v.Get(path), "Logo of "+f.nameOf(t, partner.ID))
	upload := func(name, content string) edgetest.Page {
		t.Helper()
		contentType, body := file(t, name, []byte(content))
		return v.Send(http.MethodPost, path, contentType, body)
	}
	for content, says := range map[string]string{"no picture": "The file draws nothing", circle + strings.Repeat(" ", 64<<10): "The file is larger than 64 KiB."} {
		page := upload("logo", content)
		if page.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(page.Find("#p-logo").Text(), says) {
			t.Errorf("status %d: %q, want %q", page.StatusCode, page.Find("#p-logo").Text(), says)
		}
	}
	v.fails(upload("file", circle), http.StatusBadRequest, "This form cannot be read")
	v.fails(upload("logo", strings.Repeat(" ", 128<<10)), http.StatusUnprocessableEntity, "Logo of "+f.nameOf(t, partner.ID))
	v.fails(v.Post(path, "logo", circle), http.StatusBadRequest, "This form cannot be read")

	v.goes(upload("logo", circle), pathOf(partner.ID)+"?done=logo_set")
	shown := v.Get(pathOf(partner.ID)).Find("img.partner-logo").AttrOr("src", "")
	for _, name := range []string{"/%00", "/x%00.svg", "/other.svg"} { // PostgreSQL takes no NUL
		if got := v.Get(path + name).StatusCode; got != http.StatusNotFound {
			t.Errorf("a logo named %s: status %d", name, got)
		}
	}
	response, err := v.Client.Get(v.Base + shown)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var content bytes.Buffer
	_, _ = content.ReadFrom(response.Body)
	if response.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(response.Header.Get("Content-Security-Policy"), "sandbox") ||
		!strings.Contains(content.String(), "<circle") || strings.Contains(content.String(), "script") {
		t.Errorf("the logo: %v %s", response.Header, &content)
	}
	v.fails(v.Get(path+"/logo-0.svg"), http.StatusNotFound, "There is no such page")
	v.goes(v.Post(path+"/remove"), pathOf(partner.ID)+"?done=logo_removed")
	if v.Get(pathOf(partner.ID)).Find("img.partner-logo").Length() != 0 {
		t.Error("there is a logo yet")
	}
	f.acts(t, partner.ID, "ada client.updated", "ada client.updated")
}

// Each reason for refusing a logo has its own words.
func TestLogoIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := pathOf(f.DB.Client(t).ID) + "/logo"
	v := f.signedIn(t, edgetest.AdaToken)
	var wide bytes.Buffer
	if err := png.Encode(&wide, image.NewGray(image.Rect(0, 0, 2048, 513))); err != nil {
		t.Fatal(err)
	}
	const drawing = `<svg xmlns="http://www.w3.org/2000/svg">`
	said := map[string]string{}
	for name, content := range map[string]string{
		"large": strings.Repeat(" ", 64<<10+1), "written": drawing + `<text>` + strings.Repeat(`"`, 20_000) + "</text></svg>",
		"png": "\x89PNG\r\n\x1a\n", "pixels": wide.String(), "unknown": "<svg/>", "complex": drawing + `<g id="a"><path/><use href="#a"/></g></svg>`, "nothing": drawing + "</svg>",
	} {
		contentType, body := file(t, "logo", []byte(content))
		got := v.Send(http.MethodPost, path, contentType, body).Find("#p-logo").Text()
		if other, is := said[got]; is || got == "" {
			t.Errorf("%s: %q, as of %s", name, got, other)
		}
		said[got] = name
	}
	for _, want := range []string{"The file is 2048 x 513 pixels large; 1024 x 1024 is the most.", "The file is too complex a drawing: simplify it, or use a PNG file."} {
		if said[want] == "" {
			t.Errorf("nothing says %q", want)
		}
	}
}

func TestReplaceSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID) + "/secret"
	v.shows(v.Get(path), "Replace the secret of Ride Club?", "1 day", "7 days")
	for _, bad := range []string{"", "1", "-1", "x", "99999999"} {
		v.fails(v.Post(path, "overlap", bad), http.StatusBadRequest, "This form cannot be read")
	}
	replaced := v.Post(path, "overlap", "604800")
	v.shows(replaced, "The secret is replaced", "Ride Club", "The previous secret works until 2026-03-17 12:34")
	newer := replaced.Find(".secrets pre").Last().Text()
	if !f.accepted(t, partner.ID, newer) || !f.accepted(t, partner.ID, partner.Secret) {
		t.Error("not both secrets work")
	}
	// The button was pressed twice: the second press does not cut the partner off.
	twice := v.Post(path, "overlap", "604800")
	v.shows(twice, "Replace the secret of Ride Club?", "replaced after you opened this page", "A previous secret works until 2026-03-17")
	if twice.StatusCode != http.StatusUnprocessableEntity || !f.accepted(t, partner.ID, newer) || !f.accepted(t, partner.ID, partner.Secret) {
		t.Errorf("status %d; or the secrets that were promised to work do not", twice.StatusCode)
	}
	form := v.Get(path)
	v.shows(form, "Replace the secret of Ride Club?", "A previous secret works until 2026-03-17")
	v.shows(v.Get(pathOf(partner.ID)), "Ride Club", "works until 2026-03-17")
	v.shows(v.Post(path, with(sent(form), "overlap", "0")...), "The secret is replaced", "no longer works")
	if f.accepted(t, partner.ID, newer) {
		t.Error("a secret without an overlap works")
	}
	f.acts(t, partner.ID, "ada client.secret_replaced", "ada client.secret_replaced")
}

func TestDisableEnable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, tokens := f.ConnectNew(t, "Ride Club")
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID)
	offered := func(kind string, want ...string) {
		t.Helper()
		var acts []string
		for _, link := range v.Get(path).Find("main .acts" + kind).EachIter() {
			acts = append(acts, link.Text())
		}
		if diff := cmp.Diff(want, acts); diff != "" {
			t.Errorf("acts beside the name (-want +got):\n%s", diff)
		}
	}
	offered(" > a", "Change", "Logo", "Replace the secret", "Disable")
	offered(" .apart a.grave", "Revoke all tokens", "Offboard")
	if first := v.Get(path).Find("main section, main .acts").First(); !first.Is(".acts") || first.Find(".badge").Text() != "active" {
		t.Errorf("the acts do not stand beside the name, with the state: %s", first.Text())
	}
	v.shows(v.Get(path), "Ride Club", "No request came in these 35 days.")
	v.shows(v.Get(path+"/disable"), "Disable Ride Club?", "Connections that stop working until then: 1.")
	v.goes(v.Post(path+"/disable"), path+"?done=partner_disabled")
	v.shows(v.Get(path+"?done=partner_disabled"), "Ride Club disabled", "The partner is disabled.")
	offered(" > a", "Change", "Logo", "Replace the secret", "Enable", "Resume with new secrets")
	if _, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err == nil {
		t.Error("a disabled partner is served")
	}
	v.shows(v.Get(path+"/enable"), "Enable Ride Club?", "Connections that work again: 1.")
	v.goes(v.Post(path+"/enable"), path+"?done=partner_enabled")
	if _, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err != nil {
		t.Error(err)
	}
	f.acts(t, partner.ID, "user consent.allowed", "client connection.authorized", "ada client.disabled", "ada client.enabled")
}

// A partner that was broken into comes back with new secrets, which are shown once.
func TestResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, tokens := f.ConnectNew(t, "Ride Club")
	path := pathOf(partner.ID)
	signing, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://ride.example/hook")
	if err != nil {
		t.Fatal(err)
	}
	v := f.signedIn(t, edgetest.AdaToken)
	if v.Get(path).Find("a[href='"+path+"/resume']").Length() != 0 {
		t.Error("a partner that is active can be resumed")
	}
	v.goes(v.Post(path+"/disable"), path+"?done=partner_disabled")
	if v.Get(path).Find("a[href='"+path+"/resume']").Length() != 1 {
		t.Error("a disabled partner cannot be resumed")
	}
	v.shows(v.Get(path+"/resume"), "Resume Ride Club with new secrets?", "look at that first")
	shown := v.Post(path + "/resume")
	v.shows(shown, "The partner is enabled with new secrets", "Client secret", "cannot be shown again", "The previous secret no longer works.")
	text := shown.Find("main").Text()
	if strings.Contains(text, partner.Secret) || strings.Contains(text, signing) || strings.Count(text, "svci_") != 1 || strings.Count(text, "whsec_") != 1 {
		t.Errorf("the page shows %q", text)
	}
	if _, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err == nil {
		t.Error("the former secret works")
	}
	f.acts(t, partner.ID, "user consent.allowed", "client connection.authorized", "operator webhook.created", "ada client.disabled",
		"ada client.secret_replaced", "ada webhook.secret_rotated", "ada client.enabled")
}

func TestOffboard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.waiting(t, partner.ID, 3)
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID)
	v.shows(v.Get(path+"/offboard"), "Offboard Ride Club for good?", "Connections that end: 1.", "not sent: 3.", "Type “Ride Club” to continue.")
	wrong := v.Post(path+"/offboard", "name", "ride club")
	v.shows(wrong, "Offboard Ride Club for good?", "That is not the partner’s name.")
	if wrong.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("status %d", wrong.StatusCode)
	}
	v.goes(v.Post(path+"/offboard", "name", "Ride Club"), path+"?done=partner_offboarded")
	after := v.Get(path)
	v.shows(after, "Ride Club offboarded")
	if after.Find(".acts").Length() != 0 {
		t.Error("there is something to be done with an offboarded partner")
	}
	for _, act := range []string{"/change", "/logo", "/secret", "/disable", "/enable", "/revoke", "/offboard", "/webhooks/address", "/webhooks/remove"} {
		v.fails(v.Get(path+act), http.StatusConflict, "The partner was offboarded")
		if act != "/logo" && act != "/change" {
			v.fails(v.Post(path+act), http.StatusConflict, "The partner was offboarded")
		}
	}
	if state := pgtest.Value[string](t, f.DB, "select state from connections where client_id = $1", partner.ID); state != "disconnected" {
		t.Errorf("its connection is %s", state)
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where client_id = $1 and action = 'client.offboarded' and actor = 'ada'", partner.ID); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
}

// A name is what a person sees of it: a browser shows several spaces as one, and a keyboard composes letters otherwise than a file may.
func TestOffboardByTheNameThatIsSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	for registered, typed := range map[string]string{"Ride  Club": "Ride Club", "Zoe\u0308 Rides": "Zoë Rides", "Ride\u00a0Hub": "Ride Hub"} {
		partner, _ := f.ConnectNew(t, registered)
		path := pathOf(partner.ID)
		v.fails(v.Post(path+"/offboard", "name", typed+"s"), http.StatusUnprocessableEntity, "Offboard "+registered+" for good?")
		v.goes(v.Post(path+"/offboard", "name", typed), path+"?done=partner_offboarded")
	}
}

// waiting has events wait that are to be sent to a partner.
func (f *fixture) waiting(t *testing.T, partner uuid.UUID, n int) {
	t.Helper()
	f.events(t, partner, "pending", n)
}

// events are written of a partner's connections, a second apart, the last one a second before the start.
func (f *fixture) events(t *testing.T, partner uuid.UUID, state string, n int) {
	t.Helper()
	f.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, state, queued, created_at)
		select gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 3, 'refresh_token_revoked', $2, true, $4::timestamptz - i * interval '1 s'
		from generate_series(1, $3::int) i`, partner, state, n, start)
}

// An operator whose token is for looking sees every page, and no way to an act; none of them is done.
func TestPartnersForReadingAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.events(t, partner.ID, "failed", 1)
	event := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events")
	if _, err := f.config.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://127.0.0.1:1/"); err != nil {
		t.Fatal(err)
	}
	v := f.signedIn(t, edgetest.GraceToken)
	before := pgtest.Value[int](t, f.DB, "select count(*) from audit_log")
	path := pathOf(partner.ID)
	hook := path + "/webhooks/" + event.String()
	for _, page := range []string{partnersPath, path, path + "/usage", path + "/refused", path + "/webhooks", hook, path + "/consent"} {
		if got := v.Get(page); got.StatusCode != http.StatusOK || got.Find(".acts").Length() != 0 {
			t.Errorf("%s: status %d, %d acts", page, got.StatusCode, got.Find(".acts").Length())
		}
	}
	for _, act := range []string{
		partnersPath + "/new", path + "/change", path + "/logo", path + "/logo/remove", path + "/secret", path + "/disable", path + "/enable", path + "/resume",
		path + "/revoke", path + "/offboard", path + "/webhooks/address", path + "/webhooks/secret", path + "/webhooks/remove", path + "/webhooks/test",
		path + "/webhooks/replay", hook + "/replay",
	} {
		v.fails(v.Post(act, registration("id", uuid.NewString())...), http.StatusForbidden, "Your token is read-only")
	}
	if after := pgtest.Value[int](t, f.DB, "select count(*) from audit_log"); after != before {
		t.Errorf("%d entries in the audit log, before it were %d", after, before)
	}
}

// Words of a partner, or of the operator who registers it, are text.
func TestHostilePartner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	for _, name := range hostile {
		id := uuid.NewString()
		v.shows(v.Post(partnersPath+"/new", registration("id", id, "name", name, "homepage", "https://ride.example/?q=<script>'\"")...), "The partner is registered")
		f.events(t, uuid.MustParse(id), "failed", 1)
		event := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events where client_id = $1", uuid.MustParse(id))
		if _, err := f.config.Webhooks.SetEndpoint(t.Context(), uuid.MustParse(id), "https://127.0.0.1:1/<script>'\""); err != nil {
			t.Fatal(err)
		}
		f.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
			select user_id, event_id, 1, connect_now(), 5, 500, $2, convert_to($2, 'UTF8') from webhook_events where event_id = $1`, event, name)
		f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
			values ($1, true, connect_now(), $2, 400, $2, $2, 1)`, uuid.MustParse(id), name)
		path := partnersPath + "/" + id
		for _, page := range []string{
			partnersPath, path, path + "/usage", path + "/refused", path + "/change", path + "/logo", path + "/secret", path + "/disable", path + "/revoke", path + "/offboard",
			path + "/webhooks", path + "/webhooks/address", path + "/webhooks/secret", path + "/webhooks/remove", path + "/webhooks/test", path + "/webhooks/replay",
			path + "/webhooks/" + event.String(), path + "/webhooks/" + event.String() + "/replay", path + "/consent",
		} {
			got := v.Get(page)
			if got.StatusCode != http.StatusOK || got.Find("script").Length() != 0 || got.Find("[onerror]").Length() != 0 {
				t.Errorf("%s of %q: status %d", page, name, got.StatusCode)
			}
			if !strings.Contains(got.Find("html").Text(), name) {
				t.Errorf("%s does not show %q", page, name)
			}
		}
	}
}

// All pages of the list are all partners, each once, whoever asks more first.
func TestPartnerPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	busy := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Busy" })
	f.DB.Exec(t, "insert into usage_hours (client_id, hour, operation, status, requests, durations) values ($1, $2, 'requestToken', 200, 5, array[5])",
		busy.ID, start.Truncate(time.Hour))
	f.fold(t)
	for range 119 {
		f.DB.Client(t)
	}
	v := f.signedIn(t, edgetest.GraceToken)
	seen := map[string]bool{}
	path, read := partnersPath+"?hours=168", 0
	for path != "" {
		list := v.Get(path)
		if name := list.Find("tbody th a").First().Text(); read == 0 && name != "Busy" {
			t.Errorf("the first is %s", name)
		}
		read++
		for _, link := range list.Find("tbody th a").EachIter() {
			seen[link.AttrOr("href", "")] = true
		}
		path = list.Find("a[rel=next]").AttrOr("href", "")
	}
	if len(seen) != 120 || read != 3 {
		t.Errorf("%d partners on %d pages", len(seen), read)
	}
	v.fails(v.Get(partnersPath+"?after=x"), http.StatusBadRequest, "This page of the list does not exist")
}

// A fault while the form is handled shows only the page of the fault.
func TestRegisterDuringAFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	id := v.Get(partnersPath+"/new").Find("input[name=id]").AttrOr("value", "")
	f.DB.Exec(t, "alter table clients rename to gone")
	page := v.Post(partnersPath+"/new", registration("id", id)...)
	v.fails(page, http.StatusInternalServerError, "Something went wrong")
	if page.Find("input[name=callback]").Length() != 0 {
		t.Error("the form is on the page of the fault")
	}
}
