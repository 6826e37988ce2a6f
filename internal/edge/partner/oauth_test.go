package partner

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func TestDiscovery_4_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := f.send(t, outgoing{Method: "GET", Target: "/.well-known/oauth-authorization-server"})
	got.Check(t, 200, "")
	var metadata, want any
	if err := json.Unmarshal([]byte(got.Body), &metadata); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{
		"issuer": "https://connect.example",
		"authorization_endpoint": "https://connect.example/oauth/authorize",
		"token_endpoint": "https://connect.example/oauth/token",
		"revocation_endpoint": "https://connect.example/oauth/revoke",
		"token_endpoint_auth_methods_supported": ["client_secret_basic"],
		"revocation_endpoint_auth_methods_supported": ["client_secret_basic"],
		"code_challenge_methods_supported": ["S256"],
		"scopes_supported": ["daily_steps:read", "cycling_daily:read", "cycling_activities:read"],
		"response_types_supported": ["code"],
		"grant_types_supported": ["authorization_code", "refresh_token"]
	}`), &want)
	if diff := cmp.Diff(want, metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// oauthRow changes one thing of a request that would succeed.
type oauthRow struct {
	name   string
	change func(*outgoing)
	status int
	code   string
}

// Changes of a request.
var set, drop, extend, query, header, all = edgetest.Set, edgetest.Drop, edgetest.Extend, edgetest.Query, edgetest.Header, edgetest.All

// formRows are the rules that token and revoke share (specification 4.3, 5.1, 7.3; decisions, section 2).
func formRows(p pgtest.Client) []oauthRow {
	noClient := header("Authorization")
	return []oauthRow{
		{"4.3 query string", query("?a=b"), 400, "invalid_request"},
		{"4.3 empty query string", query("?"), 400, "invalid_request"},
		{"5.1 credentials in the query string", query("?client_id=" + p.ID.String()), 400, "invalid_request"},
		{"5.1 two Authorization headers", header("Authorization", edgetest.BasicOf(p), edgetest.BasicOf(p)), 400, "invalid_request"},
		{"4 no content type", header("Content-Type"), 400, "invalid_request"},
		{"4 two content types", header("Content-Type", formText, formText), 400, "invalid_request"},
		{"4 JSON", header("Content-Type", "application/json"), 400, "invalid_request"},
		{"4 multipart", header("Content-Type", "multipart/form-data; boundary=x"), 400, "invalid_request"},
		{"4 another charset", header("Content-Type", formText+"; charset=iso-8859-1"), 400, "invalid_request"},
		{"4 another parameter", header("Content-Type", formText+"; version=1"), 400, "invalid_request"},
		{"4 charset and another parameter", header("Content-Type", formText+"; charset=utf-8; version=1"), 400, "invalid_request"},
		{"4 broken content type", header("Content-Type", formText+"; charset"), 400, "invalid_request"},
		{"8 body of 8193 bytes", func(out *outgoing) { out.Body = "code=" + strings.Repeat("x", 8193-5) }, 400, "invalid_request"},
		{"8 body of 8193 bytes, chunked", func(out *outgoing) {
			out.Body, out.Chunked = "code="+strings.Repeat("x", 8193-5), true
		}, 400, "invalid_request"},
		{"7.3 no body", func(out *outgoing) { out.Body = "" }, 400, "invalid_request"},
		{"7.3 bad percent-encoding", extend("&state=%zz"), 400, "invalid_request"},
		{"7.3 cut percent-encoding", extend("%4"), 400, "invalid_request"},
		{"7.3 semicolon", extend(";a=b"), 400, "invalid_request"},
		{"7.3 NUL", extend("%00"), 400, "invalid_request"},
		{"7.3 broken UTF-8", extend("%ff"), 400, "invalid_request"},
		{"7.3 unknown field", extend("&audience=x"), 400, "invalid_request"},
		{"7.3 unknown field without value", extend("&audience="), 400, "invalid_request"},
		{"7.3 field without name", extend("&=x"), 400, "invalid_request"},
		{"5.1 client id in the body", extend("&client_id=" + p.ID.String()), 400, "invalid_request"},
		{"5.1 client secret in the body", extend("&client_secret=x"), 400, "invalid_request"},
		{"5.1 client assertion in the body", extend("&client_assertion=x&client_assertion_type=y"), 400, "invalid_request"},

		{"5.1 no credentials", noClient, 401, "invalid_client"},
		{"5.1 empty header", header("Authorization", ""), 401, "invalid_client"},
		{"5.1 another scheme", header("Authorization", "Bearer x"), 401, "invalid_client"},
		{"5.1 no base64", header("Authorization", "Basic ***"), 401, "invalid_client"},
		{"5.1 no colon", header("Authorization", "Basic eHh4"), 401, "invalid_client"},
		{"5.1 wrong secret", header("Authorization", edgetest.Basic(p.ID.String(), p.Secret+"x")), 401, "invalid_client"},
		{"5.1 empty secret", header("Authorization", edgetest.Basic(p.ID.String(), "")), 401, "invalid_client"},
		{"5.1 unknown client", header("Authorization", edgetest.Basic(uuid.NewString(), p.Secret)), 401, "invalid_client"},
		{"5.1 client id is no UUID", header("Authorization", edgetest.Basic("partner", p.Secret)), 401, "invalid_client"},
		{"5.1 NUL in the id", header("Authorization", edgetest.Basic(p.ID.String()+"\x00", p.Secret)), 401, "invalid_client"},
		{"5.1 NUL in the secret", header("Authorization", edgetest.Basic(p.ID.String(), "\x00")), 401, "invalid_client"},

		{"order: query string before client", all(query("?a=b"), noClient), 400, "invalid_request"},
		{"order: content type before client", all(header("Content-Type", "text/plain"), noClient), 400, "invalid_request"},
		{"order: form before client", all(extend("&a=%zz"), noClient), 400, "invalid_request"},
		{"order: unknown field before client", all(extend("&audience=x"), noClient), 400, "invalid_request"},
	}
}

// checkRows sends each row, one after the other, and holds the answer against it.
func checkRows(t *testing.T, f *fixture, base outgoing, rows []oauthRow) {
	t.Helper()
	for _, row := range rows {
		out := base
		out.Header = base.Header.Clone()
		row.change(&out)
		f.send(t, out).Check(t, row.status, row.code, row.name)
	}
}

// filler is a form of exactly 8192 bytes whose fields are within their bounds.
func filler(grant string) string {
	head := "grant_type=authorization_code&code_verifier=" + verifier + "&code=" + strings.Repeat("%41", 2020) + "&redirect_uri="
	return head + strings.Repeat("x", 8192-len(head)) + grant
}

func TestExchange_4_3(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t, client.DefaultPolicy)
	tokens := f.Connect(t, other, scope.All)
	base := post(f.client, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {f.Code(t, f.client, scope.All)},
		"redirect_uri": {callback}, "code_verifier": {verifier},
	})
	noClient := header("Authorization")

	// None of these may consume the code.
	checkRows(t, f, base, append(formRows(f.client), []oauthRow{
		{"7.3 repeated field", extend("&code=x"), 400, "invalid_request"},
		{"7.3 field repeated without value", extend("&code="), 400, "invalid_request"},
		{"4.3 no grant_type", drop("grant_type"), 400, "invalid_request"},
		{"4.3 empty grant_type", set("grant_type", ""), 400, "invalid_request"},
		{"4.3 no code", drop("code"), 400, "invalid_request"},
		{"4.3 empty code", set("code", ""), 400, "invalid_request"},
		{"4.3 no redirect_uri", drop("redirect_uri"), 400, "invalid_request"},
		{"4.3 empty redirect_uri", set("redirect_uri", ""), 400, "invalid_request"},
		{"4.3 no code_verifier", drop("code_verifier"), 400, "invalid_request"},
		{"4.3 empty code_verifier", set("code_verifier", ""), 400, "invalid_request"},
		{"4.3 code of 2049 characters", set("code", strings.Repeat("x", 2049)), 400, "invalid_request"},
		{"4.3 code of 2048 characters", set("code", strings.Repeat("ü", 2048/2)), 400, "invalid_grant"},
		{"4.3 redirect_uri of 2049 characters", set("redirect_uri", strings.Repeat("x", 2049)), 400, "invalid_request"},
		{"4.3 redirect_uri of 2048 characters", set("redirect_uri", strings.Repeat("x", 2048)), 400, "invalid_grant"},
		{"4.3 code_verifier of 42 characters", set("code_verifier", verifier[:42]), 400, "invalid_request"},
		{"4.3 code_verifier of 128 characters", set("code_verifier", strings.Repeat("x", 128)), 400, "invalid_grant"},
		{"4.3 code_verifier of 129 characters", set("code_verifier", strings.Repeat("x", 129)), 400, "invalid_request"},
		{"4.3 code_verifier with a space", set("code_verifier", " "+verifier), 400, "invalid_request"},
		{"4.3 code_verifier with a line break", set("code_verifier", verifier+"\n"), 400, "invalid_request"},
		{"4.3 field of the other grant", set("refresh_token", "x"), 400, "invalid_request"},
		{"4.3 empty field of the other grant, wrong code", all(set("refresh_token", ""), set("code", "x")), 400, "invalid_grant"},
		{"8 body of 8192 bytes", func(out *outgoing) { out.Body = filler("") }, 400, "invalid_grant"},
		{"8 body of 8192 bytes and one", func(out *outgoing) { out.Body = filler("x") }, 400, "invalid_request"},
		{"8 body of 200 kB", func(out *outgoing) { out.Body = filler(strings.Repeat("x", 200_000)) }, 400, "invalid_request"},

		{"7.3 unsupported grant", set("grant_type", "password"), 400, "unsupported_grant_type"},
		{"7.3 unsupported grant alone", func(out *outgoing) { out.Body = "grant_type=client_credentials" }, 400, "unsupported_grant_type"},
		{"7.3 grant in other letters", set("grant_type", "Authorization_Code"), 400, "unsupported_grant_type"},
		{"8 grant of 2049 characters", set("grant_type", strings.Repeat("x", 2049)), 400, "invalid_request"},
		{"order: client before grant type", all(set("grant_type", "password"), noClient), 401, "invalid_client"},
		{"order: client before missing field", all(drop("code"), noClient), 401, "invalid_client"},
		{"order: client before bad field", all(set("code_verifier", "x"), noClient), 401, "invalid_client"},
		{"order: client before grant", all(set("code", "x"), noClient), 401, "invalid_client"},
		{"order: field before grant type", all(set("grant_type", "password"), set("code_verifier", "x")), 400, "invalid_request"},

		{"7.3 unknown code", set("code", "svcc_unknown"), 400, "invalid_grant"},
		{"7.3 another kind of credential", set("code", tokens.RefreshToken), 400, "invalid_grant"},
		{"7.3 wrong redirect_uri", set("redirect_uri", callback+"/"), 400, "invalid_grant"},
		{"7.3 wrong verifier", set("code_verifier", strings.Repeat("x", 43)), 400, "invalid_grant"},
		{"7.3 another client's code", header("Authorization", edgetest.BasicOf(other)), 400, "invalid_grant"},
	}...))

	base.Header.Set("Content-Type", formText+"; charset=UTF-8")
	got := f.send(t, base)
	got.Check(t, 200, "")
	checkTokens(t, got, tokenFields{HistoryFrom: "2026-03-10", ConnectionVersion: "1", TokenType: "Bearer", ExpiresIn: 300,
		Scope: "daily_steps:read cycling_daily:read cycling_activities:read"})
	f.send(t, base).Check(t, 400, "invalid_grant") // used
}

// tokenFields are the facts in a token response.
type tokenFields struct {
	GrantID           string `json:"grant_id"`
	HistoryFrom       string `json:"history_from"`
	ConnectionVersion string `json:"connection_version"`
	AccessToken       string `json:"access_token"`
	TokenType         string `json:"token_type"`
	ExpiresIn         int    `json:"expires_in"`
	RefreshToken      string `json:"refresh_token"`
	Scope             string `json:"scope"`
}

// checkTokens compares what is not random, and returns all of it.
func checkTokens(t *testing.T, got answer, want tokenFields) tokenFields {
	t.Helper()
	var fields tokenFields
	if err := json.Unmarshal([]byte(got.Body), &fields); err != nil {
		t.Fatal(err)
	}
	compared := fields
	compared.GrantID, compared.AccessToken, compared.RefreshToken = "", "", ""
	if diff := cmp.Diff(want, compared); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(fields.AccessToken, "svca_") || !strings.HasPrefix(fields.RefreshToken, "svcr2_") {
		t.Error("a token without its prefix")
	}
	return fields
}

func refreshForm(p pgtest.Client, token string) outgoing {
	return post(p, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

func TestRefresh_4_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t, client.DefaultPolicy)
	tokens := f.Connect(t, f.client, scope.DailySteps)
	base := refreshForm(f.client, tokens.RefreshToken)

	// None of these may consume the refresh token.
	checkRows(t, f, base, append(formRows(f.client), []oauthRow{
		{"7.3 repeated field", extend("&refresh_token=x"), 400, "invalid_request"},
		{"4.4 no refresh_token", drop("refresh_token"), 400, "invalid_request"},
		{"4.4 empty refresh_token", set("refresh_token", ""), 400, "invalid_request"},
		{"4.4 refresh_token of 2049 characters", set("refresh_token", strings.Repeat("x", 2049)), 400, "invalid_request"},
		{"4.4 refresh_token of 2048 characters", set("refresh_token", strings.Repeat("x", 2048)), 400, "invalid_grant"},
		{"4.4 field of the other grant", set("code", "x"), 400, "invalid_request"},
		{"4.4 scope", set("scope", "daily_steps:read"), 400, "invalid_request"},
		{"7.3 unknown refresh token", set("refresh_token", "svcr2_unknown"), 400, "invalid_grant"},
		{"7.3 another kind of credential", set("refresh_token", tokens.AccessToken), 400, "invalid_grant"},
		{"7.3 another client's refresh token", header("Authorization", edgetest.BasicOf(other)), 400, "invalid_grant"},
		{"order: client before grant", all(set("refresh_token", "x"), header("Authorization")), 401, "invalid_client"},
	}...))

	want := tokenFields{HistoryFrom: "2026-03-10", ConnectionVersion: "1", TokenType: "Bearer", ExpiresIn: 300, Scope: "daily_steps:read"}
	got := f.send(t, base)
	got.Check(t, 200, "")
	next := checkTokens(t, got, want)
	if next.GrantID != tokens.GrantID.String() || next.RefreshToken == tokens.RefreshToken || next.AccessToken == tokens.AccessToken {
		t.Error("grant_id must stay, the tokens must not")
	}
	f.send(t, base).Check(t, 400, "invalid_grant")                                     // a replay …
	f.send(t, refreshForm(f.client, next.RefreshToken)).Check(t, 400, "invalid_grant") // … ends the family (3.2)
	f.send(t, steps(tokens.GrantID, next.AccessToken)).Check(t, 401, "invalid_access_token")
}

// atEnd is what a body does when it has been read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// Hanging up right after a replay does not save the family (specification 3.2).
func TestHangUp_3_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	next := checkedRefresh(t, f, f.client, tokens)
	gone, hangUp := context.WithCancel(t.Context())
	replay := refreshForm(f.client, tokens.RefreshToken)
	body := io.MultiReader(strings.NewReader(replay.Body), atEnd(hangUp))
	request := httptest.NewRequestWithContext(gone, replay.Method, replay.Target, body)
	request.Header = replay.Header
	nobody := httptest.NewRecorder()
	f.handler.ServeHTTP(nobody, request)
	if gone.Err() == nil {
		t.Error("nobody hung up")
	}
	if code := contracttest.ErrorCode(nobody.Body.Bytes()); code != "invalid_grant" {
		t.Errorf("replay: %d %s, want invalid_grant", nobody.Code, code)
	}
	f.send(t, steps(next.GrantID, next.AccessToken)).Check(t, 401, "invalid_access_token")
}

func TestClientAuthentication_5_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unknown := func(authorization string) answer {
		out := refreshForm(f.client, "svcr2_unknown")
		out.Header.Set("Authorization", authorization)
		return f.send(t, out)
	}
	good := edgetest.BasicOf(f.client)
	unknown(good).Check(t, 400, "invalid_grant")
	unknown("basic "+strings.TrimPrefix(good, "Basic ")).Check(t, 400, "invalid_grant")

	got := unknown("Basic x")
	got.Check(t, 401, "invalid_client")
	if challenge := got.Header.Get("WWW-Authenticate"); challenge != `Basic realm="svc-connect"` {
		t.Errorf("WWW-Authenticate is %q", challenge)
	}

	replacement, err := f.Clients.RotateSecret(t.Context(), f.client.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	unknown(good).Check(t, 401, "invalid_client") // replaced secret
	good = edgetest.Basic(f.client.ID.String(), replacement.Secret)
	unknown(good).Check(t, 400, "invalid_grant")

	if err := f.Clients.Disable(t.Context(), f.client.ID); err != nil {
		t.Fatal(err)
	}
	unknown(good).Check(t, 401, "invalid_client") // disabled client
}

func TestRevoke_4_5(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t, client.DefaultPolicy)
	foreign := f.Connect(t, other, scope.All)
	tokens := f.Connect(t, f.client, scope.All)
	revoke := func(token string) outgoing { return post(f.client, "/oauth/revoke", url.Values{"token": {token}}) }

	checkRows(t, f, revoke(tokens.RefreshToken), append(formRows(f.client), []oauthRow{
		{"4.5 no token", drop("token"), 400, "invalid_request"},
		{"4.5 empty token", set("token", ""), 400, "invalid_request"},
		{"4.5 token of 2049 characters", set("token", strings.Repeat("x", 2049)), 400, "invalid_request"},
		{"7.3 repeated field", extend("&token=x"), 400, "invalid_request"},
		{"4.5 unknown hint", set("token_type_hint", "id_token"), 400, "unsupported_token_type"},
		{"order: client before hint", all(set("token_type_hint", "id_token"), header("Authorization")), 401, "invalid_client"},
		{"order: client before missing field", all(drop("token"), header("Authorization")), 401, "invalid_client"},
		{"order: field before hint", all(drop("token"), set("token_type_hint", "id_token")), 400, "invalid_request"},
		{"4.5 unknown token", set("token", "svcr2_unknown"), 200, ""},
		{"4.5 token of 2048 characters", set("token", strings.Repeat("x", 2048)), 200, ""},
		{"4.5 another client's token", set("token", foreign.RefreshToken), 200, ""},
	}...))
	f.send(t, steps(tokens.GrantID, tokens.AccessToken)).Check(t, 200, "") // nothing has ended
	f.send(t, steps(foreign.GrantID, foreign.AccessToken)).Check(t, 200, "")

	// 3.2, an access token: it ends alone. The hint is wrong, but the service finds out the real type itself.
	out := revoke(tokens.AccessToken)
	set("token_type_hint", "refresh_token")(&out)
	f.send(t, out).Check(t, 200, "")
	f.send(t, out).Check(t, 200, "") // already revoked
	f.send(t, steps(tokens.GrantID, tokens.AccessToken)).Check(t, 401, "invalid_access_token")

	// 3.2, a refresh token: everything ends. An empty hint counts as a missing one.
	next := checkedRefresh(t, f, f.client, tokens)
	out = revoke(next.RefreshToken)
	set("token_type_hint", "")(&out)
	f.send(t, out).Check(t, 200, "")
	f.send(t, steps(tokens.GrantID, next.AccessToken)).Check(t, 401, "invalid_access_token")
	f.send(t, refreshForm(f.client, next.RefreshToken)).Check(t, 400, "invalid_grant")
}

func checkedRefresh(t *testing.T, f *fixture, p pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
	t.Helper()
	next, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(p), tokens.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func disconnect(p pgtest.Client, grant string) outgoing {
	return outgoing{
		Method: "DELETE", Target: "/connect-svc/v1/customer/grants/" + grant,
		Header: http.Header{"Authorization": {edgetest.BasicOf(p)}},
	}
}

func TestDisconnect_4_10(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newClient(t, client.DefaultPolicy)
	foreign := f.Connect(t, other, scope.All)
	tokens := f.Connect(t, f.client, scope.All)
	to := func(grant string) func(*outgoing) {
		return func(out *outgoing) { out.Target = "/connect-svc/v1/customer/grants/" + grant }
	}
	grant := tokens.GrantID.String()

	checkRows(t, f, disconnect(f.client, grant), []oauthRow{
		{"4.10 query string", query("?a=b"), 400, "invalid_request"},
		{"4.10 empty query string", query("?"), 400, "invalid_request"},
		{"4.10 body", extend("x"), 400, "invalid_request"},
		{"4.10 body, chunked", func(out *outgoing) { out.Body, out.Chunked = "x", true }, 400, "invalid_request"},
		{"5.1 two Authorization headers", header("Authorization", edgetest.BasicOf(f.client), edgetest.BasicOf(f.client)), 400, "invalid_request"},
		{"4.10 no UUID", to("123"), 400, "invalid_request"},
		{"4.10 UUID in capitals", to(strings.ToUpper(grant)), 400, "invalid_request"},
		{"4.10 UUID without hyphens", to(strings.ReplaceAll(grant, "-", "")), 400, "invalid_request"},
		{"4.10 UUID in braces", to("%7B" + grant + "%7D"), 400, "invalid_request"},
		{"4.10 NUL", to(grant + "%00"), 400, "invalid_request"},
		{"5.1 no credentials", header("Authorization"), 401, "invalid_client"},
		{"5.1 wrong secret", header("Authorization", edgetest.Basic(f.client.ID.String(), "x")), 401, "invalid_client"},
		{"order: query string before client", all(query("?a=b"), header("Authorization")), 400, "invalid_request"},
		{"order: client before grant id", all(to("123"), header("Authorization")), 401, "invalid_client"},
		{"4.10 unknown grant", to(uuid.NewString()), 204, ""},
		{"4.10 another client's grant", to(foreign.GrantID.String()), 204, ""},
	})
	f.send(t, steps(tokens.GrantID, tokens.AccessToken)).Check(t, 200, "") // nothing has ended
	f.send(t, steps(foreign.GrantID, foreign.AccessToken)).Check(t, 200, "")

	code := f.Code(t, f.client, scope.All)
	f.send(t, disconnect(f.client, grant)).Check(t, 204, "")
	f.send(t, disconnect(f.client, grant)).Check(t, 204, "") // already ended
	f.send(t, steps(tokens.GrantID, tokens.AccessToken)).Check(t, 401, "invalid_access_token")
	f.send(t, refreshForm(f.client, tokens.RefreshToken)).Check(t, 400, "invalid_grant")
	f.send(t, post(f.client, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier},
	})).Check(t, 400, "invalid_grant")
}
