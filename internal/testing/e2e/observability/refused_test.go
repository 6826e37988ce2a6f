package observability_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/page"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// A refused authorization URL of any kind is in the list of the client that it names, with a reason in words of the service.
func TestRefusedAuthorizationURLs(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	disabled := e.DB.Client(t)
	if err := e.App.Clients.Disable(t.Context(), disabled.ID); err != nil {
		t.Fatal(err)
	}
	right := url.Values{
		"client_id": {e.Partner.ID.String()}, "redirect_uri": {e.Partner.CallbackURL}, "response_type": {"code"}, "scope": {"daily_steps:read"},
		"state": {strings.Repeat("s", 22)}, "code_challenge": {strings.Repeat("A", 43)}, "code_challenge_method": {"S256"},
	}
	want := map[string]bool{}
	refused := func(query, reason string) {
		t.Helper()
		if answer := edgetest.Visit(t, e.Server, e.Base).Get("/oauth/authorize?" + query); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%q is answered with %d", reason, answer.StatusCode)
		}
		want[reason] = true
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
	set("client_id", disabled.ID.String(), "client_id is that of a client that was disabled or offboarded")
	e.StopRequests()
	writeUsage(t, e)
	got := map[string]bool{}
	for _, client := range []pgtest.Client{e.Partner, disabled} {
		listed, err := e.App.Usage.Errors(t.Context(), client.ID, page.Key{}, 100)
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
}
