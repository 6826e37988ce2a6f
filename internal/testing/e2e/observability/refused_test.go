package observability_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/app"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// engineer opens a client's own pages, as an engineer of the partner, after the last request.
func engineer(t *testing.T, e *e2e.Service, client uuid.UUID) (v *edgetest.Visitor, home string) {
	t.Helper()
	_, secret, err := e.App.Portal.CreateLink(t.Context(), portal.NewLink{ClientID: client, Valid: portal.MaxValid})
	if err != nil {
		t.Fatal(err)
	}
	public := httptest.NewTLSServer(e.App.Handler())
	t.Cleanup(public.Close)
	v = edgetest.Visit(t, public, e.Base)
	return v, v.Location(v.Post(portal.LinkPath(client, secret)))
}

func withPortal(c *app.Config) { c.PartnerPortal, c.DevelopersSite = true, true }

// A partner's engineer finds each mistake by the id of its request: the reason, and the page about the code. No partner
// sees a request that names no client.
func TestMistakesInThePortal(t *testing.T) {
	t.Parallel()
	e := e2e.New(t, withPortal)
	mistakes := edgetest.Mistakes(t, e.App.OAuth, e.Partner, e.DB.Client(t), e.User.ID)
	answers := make([]edgetest.Answer, len(mistakes))
	for i, mistake := range mistakes {
		answers[i] = edgetest.Send(t, &http.Client{Transport: e.TLS}, e.Base, mistake.Request)
	}
	e.StopRequests()
	writeUsage(t, e)
	v, home := engineer(t, e, e.Partner.ID)
	for i, mistake := range mistakes {
		rows := v.Get(home + "/refused?request=" + answers[i].Header.Get("X-Request-ID")).Find("tbody tr")
		if mistake.Knows == edgetest.Nobody {
			if rows.Length() > 0 {
				t.Errorf("%s: the partner sees it: %q", mistake.Name, rows.Text())
			}
			continue
		}
		if named := rows.Find(".badge").Length() > 0; rows.Length() != 1 || !strings.Contains(rows.Text(), mistake.Reason) || named != (mistake.Knows == edgetest.Named) {
			t.Errorf("%s: %d rows %q, want %q", mistake.Name, rows.Length(), rows.Text(), mistake.Reason)
		}
		if got, want := rows.Find("a").AttrOr("href", ""), e.Base+"/developers/error-codes.html#"+answers[i].Code; got != want {
			t.Errorf("%s: its code leads to %s, want %s", mistake.Name, got, want)
		}
	}
}

// A refused authorization URL of any kind is in the list of the client that it names, with a reason in words of the service.
func TestRefusedAuthorizationURLs(t *testing.T) {
	t.Parallel()
	e := e2e.New(t, withPortal)
	disabled := e.DB.Client(t)
	if err := e.App.Clients.Disable(t.Context(), disabled.ID); err != nil {
		t.Fatal(err)
	}
	right := url.Values{
		"client_id": {e.Partner.ID.String()}, "redirect_uri": {e.Partner.CallbackURL}, "response_type": {"code"}, "scope": {"daily_steps:read"},
		"state": {strings.Repeat("s", 22)}, "code_challenge": {strings.Repeat("A", 43)}, "code_challenge_method": {"S256"},
	}
	want, ids := map[string]bool{}, map[string]string{}
	refused := func(query, reason string) {
		t.Helper()
		answer := edgetest.Visit(t, e.Server, e.Base).Get("/oauth/authorize?" + query)
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%q is answered with %d", reason, answer.StatusCode)
		}
		want[reason], ids[reason] = true, answer.Header.Get("X-Request-ID")
	}
	set := func(name, value, reason string) {
		t.Helper()
		query := url.Values{}
		for each, values := range right {
			query[each] = values
		}
		query.Set(name, value)
		refused(query.Encode(), reason)
	}
	set("redirect_uri", e.Partner.CallbackURL+"/secret-value", "redirect_uri is not the registered one: it has another path")
	set("state", "", "state is missing or empty")
	set("callback", "secret-value", "an unknown parameter: perhaps redirect_uri is meant")
	set("state", strings.Repeat("s", 16<<10), "the URL is longer than 16 KiB")
	set("scope", "steps:read", "scope has an unknown scope: perhaps daily_steps:read is meant")
	set("scope", "daily_steps:read,cycling_daily:read", "scope does not separate its scopes by single spaces")
	set("code_challenge", "secret-value", "code_challenge is not a SHA-256 hash in unpadded base64url, which has 43 characters")
	set("client_id", strings.ToUpper(e.Partner.ID.String()), "client_id is no UUID in lower case")
	refused(right.Encode()+"&state=secret-value", "state is repeated")
	refused(right.Encode()+"&%zz=secret-value", "a parameter is not form-encoded: it has a semicolon, or a percent sign without two hexadecimal digits behind it")
	const ofDisabled = "client_id is that of a client that was disabled or offboarded"
	set("client_id", disabled.ID.String(), ofDisabled)
	e.StopRequests()
	writeUsage(t, e)
	got := map[string]bool{}
	for _, client := range []pgtest.Client{e.Partner, disabled} {
		listed, err := e.App.Usage.Errors(t.Context(), client.ID, usage.ErrorFilter{}, page.Key{}, 100)
		if err != nil || len(listed) == 0 {
			t.Errorf("%d errors, %v", len(listed), err)
		}
		for _, one := range listed {
			got[one.Reason] = !one.Authenticated && len(one.RequestIDs) == 1
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v, home := engineer(t, e, e.Partner.ID)
	delete(ids, ofDisabled) // its partner has no pages
	for reason, id := range ids {
		if rows := v.Get(home + "/refused?request=" + id).Find("tbody tr"); rows.Length() != 1 || !strings.Contains(rows.Text(), reason) {
			t.Errorf("%d rows %q, want %q", rows.Length(), rows.Text(), reason)
		}
	}
}
