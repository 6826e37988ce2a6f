package partner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// hoard is one credential of each kind, all good, of one client.
func (f *fixture) hoard(t *testing.T) (map[string]string, string) {
	t.Helper()
	for i := range 3 {
		f.addRide(t, fmt.Sprint("ride-", i), today+" 07:00:00", nil, 1000)
	}
	tokens := f.Connect(t, f.client, scope.All)
	grant := "/connect-svc/v1/grants/" + tokens.GrantID.String()
	page := f.send(t, reading(tokens.AccessToken, grant, "&limit=1"))
	page.Check(t, 200, "")
	return map[string]string{
		"access token": tokens.AccessToken, "refresh token": tokens.RefreshToken, "code": f.Code(t, f.client, scope.All),
		"client secret": f.client.Secret, "cursor": nextCursor(t, page),
	}, grant
}

// nextCursor is that of a page that is not the last.
func nextCursor(t *testing.T, page answer) string {
	t.Helper()
	var body struct {
		Meta struct {
			NextCursor string `json:"next_cursor"`
		}
	}
	if err := json.Unmarshal([]byte(page.Body), &body); err != nil || body.Meta.NextCursor == "" {
		t.Fatalf("no cursor: %v", err)
	}
	return body.Meta.NextCursor
}

// reading asks for the rides of today.
func reading(token, grant, more string) outgoing {
	return outgoing{
		Method: "GET", Target: grant + "/cycling-activities?from=" + today + "&to=" + today + more,
		Header: http.Header{"Authorization": {"Bearer " + token}},
	}
}

// places are where a credential is presented; each has a kind of its own, and fails in its own way. Revoke does not
// belong here, because it accepts an unknown credential.
var places = []struct {
	kind   string
	status int
	code   string
	ask    func(f *fixture, grant string, held map[string]string, credential string) outgoing
}{
	{"access token", 401, "invalid_access_token", func(_ *fixture, grant string, _ map[string]string, credential string) outgoing {
		return reading(credential, grant, "&limit=1")
	}},
	{"cursor", 400, "invalid_cursor", func(_ *fixture, grant string, held map[string]string, credential string) outgoing {
		return reading(held["access token"], grant, "&limit=1&cursor="+url.QueryEscape(credential))
	}},
	{"refresh token", 400, "invalid_grant", func(f *fixture, _ string, _ map[string]string, credential string) outgoing {
		return post(f.client, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {credential}})
	}},
	{"code", 400, "invalid_grant", func(f *fixture, _ string, _ map[string]string, credential string) outgoing {
		return post(f.client, "/oauth/token", url.Values{
			"grant_type": {"authorization_code"}, "code": {credential}, "redirect_uri": {callback}, "code_verifier": {verifier},
		})
	}},
	{"client secret", 401, "invalid_client", func(f *fixture, _ string, held map[string]string, credential string) outgoing {
		return post(pgtest.Client{ID: f.client.ID, Secret: credential}, "/oauth/revoke", url.Values{"token": {"svca_unknown"}})
	}},
}

// TestCredentialsInTheWrongPlace presents each kind of credential in each place (RFC 9700, section 4.10; OWASP ASVS 5.0,
// 9.2.2), and then each in its own: what was tried before has used up none.
func TestCredentialsInTheWrongPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, grant := f.hoard(t)
	for _, place := range places {
		for kind, credential := range held {
			if kind != place.kind {
				f.send(t, place.ask(f, grant, held, credential)).Check(t, place.status, place.code, kind+" as "+place.kind)
			}
		}
	}
	for _, place := range places { // the code comes after the reads: its exchange ends the tokens of the version before
		if answer := f.send(t, place.ask(f, grant, held, held[place.kind])); answer.Status != 200 {
			t.Errorf("%s in its own place: %d %q", place.kind, answer.Status, answer.Code)
		}
	}
}

// TestAlteredCredentials changes each byte of each credential, and leaves out and adds some. Nothing that is not what was
// issued is taken, and nothing of it harms what was.
func TestAlteredCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held, grant := f.hoard(t)
	for _, place := range places {
		t.Run(place.kind, func(t *testing.T) {
			good := held[place.kind]
			for name, altered := range alterations(good) {
				f.send(t, place.ask(f, grant, held, altered)).Check(t, place.status, place.code, name)
			}
		})
	}
	for name, altered := range alterations(held["refresh token"]) {
		f.send(t, post(f.client, "/oauth/revoke", url.Values{"token": {altered}})).Check(t, 200, "", "revoke, "+name)
	}
	for _, place := range places {
		if answer := f.send(t, place.ask(f, grant, held, held[place.kind])); answer.Status != 200 {
			t.Errorf("%s, unaltered: %d %q", place.kind, answer.Status, answer.Code)
		}
	}
}

// alterations of a credential, none of which is longer than the field may be.
func alterations(good string) map[string]string {
	altered := map[string]string{
		"first byte less": good[1:], "last byte less": good[:len(good)-1], "one byte more": good + "A", "padded": good + "=",
		"twice": good[:len(good)/2] + good[:len(good)/2], "prefix alone": good[:5],
	}
	for i := range good {
		other := byte('A')
		if good[i] == other {
			other = 'B'
		}
		altered[fmt.Sprintf("byte %d of %d", i, len(good))] = good[:i] + string(other) + good[i+1:]
	}
	return altered
}

// TestStolenCodeIsWorthless: whoever sees a code in a callback has neither the verifier nor the client's secret (RFC 9700,
// sections 4.5 and 4.8). No attempt uses the code up.
func TestStolenCodeIsWorthless(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	thief := f.newClient(t, plenty)
	code := f.Code(t, f.client, scope.All)
	form := func(change func(url.Values)) url.Values {
		fields := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}}
		change(fields)
		return fields
	}
	for name, test := range map[string]struct {
		out    outgoing
		status int
		code   string
	}{
		"another client":       {post(thief, "/oauth/token", form(func(url.Values) {})), 400, "invalid_grant"},
		"no verifier":          {post(f.client, "/oauth/token", form(func(v url.Values) { v.Del("code_verifier") })), 400, "invalid_request"},
		"empty verifier":       {post(f.client, "/oauth/token", form(func(v url.Values) { v.Set("code_verifier", "") })), 400, "invalid_request"},
		"another verifier":     {post(f.client, "/oauth/token", form(func(v url.Values) { v.Set("code_verifier", verifier[1:]+"A") })), 400, "invalid_grant"},
		"the challenge itself": {post(f.client, "/oauth/token", form(func(v url.Values) { v.Set("code_verifier", edgetest.Challenge(verifier)) })), 400, "invalid_grant"},
		"the plain method":     {post(f.client, "/oauth/token", form(func(v url.Values) { v.Set("code_challenge_method", "plain") })), 400, "invalid_request"},
		"another callback":     {post(f.client, "/oauth/token", form(func(v url.Values) { v.Set("redirect_uri", callback+"/") })), 400, "invalid_grant"},
		"no client": {outgoing{Method: "POST", Target: "/oauth/token", Body: form(func(url.Values) {}).Encode(),
			Header: http.Header{"Content-Type": {formText}}}, 401, "invalid_client"},
		"the client in the body": {outgoing{Method: "POST", Target: "/oauth/token", Header: http.Header{"Content-Type": {formText}},
			Body: form(func(v url.Values) { v.Set("client_id", f.client.ID.String()); v.Set("client_secret", f.client.Secret) }).Encode()},
			400, "invalid_request"},
	} {
		f.send(t, test.out).Check(t, test.status, test.code, name)
	}
	f.send(t, post(f.client, "/oauth/token", form(func(url.Values) {}))).Check(t, 200, "")
	f.send(t, post(f.client, "/oauth/token", form(func(url.Values) {}))).Check(t, 400, "invalid_grant")
}
