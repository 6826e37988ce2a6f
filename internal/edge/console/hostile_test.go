package console

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
)

// attack is what somebody may write who wants the console to act for them: a script in each way to have one run, the end of an
// attribute and of an element, a template, a direction that turns what follows, and a word that is longer than any line.
const attack = "\"'><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">" +
	"<svg onload=document.title='owned'></textarea></title><a href=javascript:document.title='owned'>{{.}}\u202e" + "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"

// hostileWorld writes it wherever users, partners, operators and receivers of webhooks can write, and past the domains that would
// have refused some of it. It returns what the parameters of paths stand for.
func hostileWorld(t *testing.T, f *fixture) map[string]string {
	t.Helper()
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.DB.Webhook(t, partner.ID)
	event, correction := uuid.New(), uuid.New()
	f.DB.Exec(t, "update users set email = substr($1, 1, 200) || '@x.example'", attack)
	f.DB.Exec(t, `update clients set name = substr($1, 1, 100), contact_email = substr($1, 1, 200), homepage_url = 'https://x.example/' || substr($1, 1, 200),
		privacy_url = 'https://x.example/' || substr($1, 1, 200), terms_url = 'https://x.example/' || substr($1, 1, 200),
		callback_url = 'https://x.example/' || substr($1, 1, 200)`, attack)
	f.DB.Exec(t, `insert into step_corrections (user_id, date, correction_id, delta, note, created_at) values ($1, '2026-03-09', $2, 1, $3, connect_now())`,
		f.User.ID, correction, attack)
	f.DB.Exec(t, `insert into webhook_events (user_id, event_id, client_id, type, grant_id, connection_version, reason, created_at, state, attempts, queued)
		select user_id, $1, client_id, 'connection.revoked', grant_id, 1, 'user_disconnected', connect_now(), 'failed', 1, true from connections`, event)
	f.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault, response)
		values ($1, $2, 1, connect_now(), 1, 500, substr($3, 1, 150), convert_to($3, 'UTF8'))`, f.User.ID, event, attack)
	f.DB.Exec(t, "update audit_log set detail = jsonb_build_object('reason', $1::text, $1::text, $1::text)", attack)
	f.config.Usage.AddError(usage.ErrorKind{ClientID: partner.ID, Authenticated: true, Operation: attack, Status: 400, Code: "invalid_request", Reason: attack}, uuid.New(), uuid.Nil, netip.Prefix{})
	f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
		values ($1, true, connect_now(), $2, 400, $2, $2, 1)`, partner.ID, attack)
	f.DB.Exec(t, "insert into usage_hours (client_id, hour, operation, status, requests, durations) values ($1, $2, $3, 200, 5, array[5])",
		partner.ID, start.Truncate(time.Hour), attack)
	link, _, err := f.Portal.CreateLink(t.Context(), portal.NewLink{ClientID: partner.ID, Valid: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	asked := uuid.NewString()
	f.DB.Exec(t, `insert into change_requests (client_id, request_id, state, wanted, requested_by, requested_at)
		values ($1, $2, 'open', jsonb_build_object('name', $3::text, 'homepage_url', $3::text), $3, connect_now())`, partner.ID, asked, attack)
	return map[string]string{
		"changes/approve": "changes/approve?request=" + asked, "changes/refuse": "changes/refuse?request=" + asked,
		"changes/withdraw": "changes/withdraw?request=" + asked,
		"{user}":           f.User.ID.String(), "{client}": partner.ID.String(), "{partner}": partner.ID.String(), "{event}": event.String(),
		"{id}": correction.String(), "{correction}": correction.String(), "{dataset}": "daily_steps", "{date}": "2026-03-09", "{language}": "en", "{session}": link.ID.String(),
	}
}

// Words of others are text on every page of the console: no script of theirs runs, no element of theirs is there, and nothing is
// cut off, and everything can be read in forced colors.
func TestChromiumHostileTexts(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	known := hostileWorld(t, s.fixture)
	replacer := strings.NewReplacer(slices.Concat(pairs(known)...)...)
	router, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if err := chi.Walk(router.(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodGet || strings.Contains(pattern, "{name}") || strings.Contains(pattern, "{file}") || strings.HasSuffix(pattern, ".csv") || strings.HasSuffix(pattern, "/export") || pattern == Path+"/sign-in" {
			return nil // files, and a page that shows nothing of anybody
		}
		path := replacer.Replace(pattern)
		if strings.Contains(path, "{") {
			t.Errorf("%s: what does the parameter stand for?", pattern)
			return nil
		}
		seen++
		s.Do(chromedp.EmulateViewport(320, 800))
		s.isHarmless(t, pattern, path)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Errorf("%d pages were looked at", seen)
	}
	for _, problem := range s.Problems() {
		t.Error(problem)
	}
}

// isHarmless opens a page, and looks for what an attacker would have there.
func (s *screen) isHarmless(t *testing.T, pattern, path string) {
	t.Helper()
	s.at(t, path)
	var foreign []string
	s.Evaluate(`[...document.querySelectorAll('script, img[src=x], [onerror], [onload], a[href^="javascript:"]')].map((e) => e.outerHTML)
		.concat(document.title === 'owned' ? ['the title was changed'] : [])`, &foreign)
	s.Media("forced-colors", "active")
	for _, fault := range slices.Concat(foreign, s.LayoutFaults(), s.Violations("color-contrast")) {
		t.Errorf("%s: %s", pattern, fault)
	}
}

func pairs(m map[string]string) (list [][]string) {
	for key, value := range m {
		list = append(list, []string{key, value})
	}
	return list
}
