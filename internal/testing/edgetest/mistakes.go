package edgetest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// Mistake is a request as an integration sends it by mistake, and the true reason why it is refused, in words of the service.
type Mistake struct {
	Name    string
	Request Request
	Reason  string
	Knows   Known // whether the service knows whose request it is
}

// Known is whether the service knows whose request it is.
type Known int

// A client proved its identity, or a request named it without proof, or named none.
const (
	Proven Known = iota
	Named
	Nobody
)

// Form is a request with a form of a client.
func Form(partner pgtest.Client, target string, fields url.Values) Request {
	return Request{Method: http.MethodPost, Target: target, Body: fields.Encode(), Header: http.Header{
		"Authorization": {BasicOf(partner)}, "Content-Type": {formType},
	}}
}

// Mistakes are requests of a client to the token endpoint and for the activity of a user. Each is refused and changes nothing, and what
// they send has the text secret-value where it is not right. The other client is connected with the user, too.
func Mistakes(t testing.TB, server *oauth.Server, partner, other pgtest.Client, user uuid.UUID) []Mistake {
	t.Helper()
	foreign := Connect(t, server, other, scope.All, user)
	tokens := Connect(t, server, partner, scope.DailySteps|scope.CyclingActivities, user)
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}}
	exchange := url.Values{"grant_type": {"authorization_code"}, "code": {Code(t, server, partner, scope.DailySteps|scope.CyclingActivities, user)},
		"redirect_uri": {partner.CallbackURL}, "code_verifier": {Verifier}}
	return append(formMistakes(partner, foreign, refresh, exchange), readMistakes(tokens)...)
}

func formMistakes(partner pgtest.Client, foreign oauth.Tokens, refresh, exchange url.Values) (all []Mistake) {
	for _, row := range []struct {
		name   string
		fields url.Values
		change Change
		reason string
		knows  Known
	}{
		{"query", refresh, Query("?token=secret-value"), "there is a query string, and the operation takes none", Proven},
		{"two headers", refresh, Header("Authorization", BasicOf(partner), BasicOf(partner)), "there is more than one Authorization header", Named},
		{"content type", refresh, Header("Content-Type", "application/json"), "Content-Type is not application/x-www-form-urlencoded, once", Proven},
		{"long", refresh, Extend("&x=" + strings.Repeat("x", 8192)), "the body has more than 8192 bytes", Proven},
		{"encoding", refresh, Extend("&secret-value=%zz"), "a field " + refusal.NotEncoded, Proven},
		{"encoding of a field", refresh, Extend("&code=%zz"), "field code " + refusal.NotEncoded, Proven},
		{"NUL", refresh, Set("refresh_token", "\x00"), "field refresh_token has a NUL, or text that is not UTF-8", Proven},
		{"repeated", refresh, Extend("&grant_type=refresh_token"), "field grant_type is repeated", Proven},
		{"unknown and repeated", refresh, Extend("&secret-value=x&secret-value=x"), "a field is repeated", Proven},
		{"unknown", refresh, Extend("&secret-value=x"), "an unknown field: there is no other than code, code_verifier, grant_type, redirect_uri, refresh_token", Proven},
		{"misspelt", refresh, Extend("&refresh-tokn=x"), "an unknown field: perhaps refresh_token is meant", Proven},
		{"scope", refresh, Set("scope", "daily_steps:read"), "field scope is not allowed with grant_type=refresh_token", Proven},
		{"secret in the body", refresh, All(Header("Authorization"), Set("client_id", partner.ID.String()), Set("client_secret", partner.Secret)),
			"credentials in the body: client_secret (they belong in the Authorization header)", Named},
		{"no header", refresh, Header("Authorization"), "there is no Authorization header", Nobody},
		{"bearer", refresh, Header("Authorization", "Bearer x"), "Authorization is not Basic with the base64 of client_id:client_secret, each form-encoded", Nobody},
		{"id", refresh, Header("Authorization", Basic("secret-value", "x")), "client_id is no UUID in lower case", Nobody},
		{"secret", refresh, Header("Authorization", Basic(partner.ID.String(), "secret-value")), "client_id or client_secret is wrong, or the client is not active", Named},
		{"no grant type", refresh, Drop("grant_type"), "field grant_type is missing", Proven},
		{"grant type", refresh, Set("grant_type", "secret-value"), "grant_type is not authorization_code or refresh_token", Proven},
		{"no refresh token", refresh, Drop("refresh_token"), "field refresh_token is missing with grant_type=refresh_token", Proven},
		{"code with refresh", refresh, Set("code", "secret-value"), "field code is not allowed with grant_type=refresh_token", Proven},
		{"verifier", exchange, Set("code_verifier", "secret-value"), "field code_verifier is not of 43 to 128 characters, which are letters, digits and . _ ~ -", Proven},
		{"no refresh token of ours", refresh, Set("refresh_token", "secret-value"), "refresh_token was not issued by this service, or was altered", Proven},
		{"another client's", refresh, Set("refresh_token", foreign.RefreshToken), "refresh_token is another client's", Proven},
		{"no code of ours", exchange, Set("code", "secret-value"), "code was not issued by this service, or was altered", Proven},
		{"redirect_uri", exchange, Set("redirect_uri", partner.CallbackURL+"/"), "redirect_uri is not the one of the authorization request", Proven},
		{"another verifier", exchange, Set("code_verifier", strings.Repeat("a", 43)), "code_verifier does not match code_challenge of the authorization request", Proven},
	} {
		mistake := Mistake{row.name, Form(partner, "/oauth/token", row.fields), row.reason, row.knows}
		row.change(&mistake.Request)
		all = append(all, mistake)
	}
	return all
}

func readMistakes(tokens oauth.Tokens) (all []Mistake) {
	on := func(days int) string { return tokens.HistoryFrom.AddDate(0, 0, days).Format("2006-01-02") }
	base, today := "/connect-svc/v1/grants/"+tokens.GrantID.String(), on(0)
	day, bearer := "from="+today+"&to="+today, "Bearer "+tokens.AccessToken
	for _, row := range []struct {
		target, reason string
		knows          Known
	}{
		{base + "/cycling-daily?" + day, "the connection does not have the scope cycling_daily:read", Proven},
		{"/connect-svc/v1/grants/8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55/daily-activity?" + day, "grant_id is not that of the access token", Proven},
		{base + "/daily-activity?" + day + "&secret-value=1", "an unknown parameter: there is no other than from, to", Proven},
		{base + "/daily-activity?start_date=" + today + "&to=" + today, "an unknown parameter: perhaps from is meant", Proven},
		{base + "/daily-activity?" + day + "&from=" + today, "parameter from is repeated", Proven},
		{base + "/daily-activity?" + day + "&secret-value=%zz", "a parameter " + refusal.NotEncoded, Proven},
		{base + "/daily-activity?to=" + today, "from is missing, a date YYYY-MM-DD", Proven},
		{base + "/daily-activity?from=secret-value&to=" + today, "from is no date YYYY-MM-DD", Proven},
		{base + "/daily-activity?from=&to=" + today, "from is missing or not a date", Proven},
		{base + "/cycling-activities?from=" + today + "&to", "to is missing or not a date", Proven},
		{base + "/daily-activity?from=" + today + "&to=" + on(-1), "to is before from", Proven},
		{base + "/daily-activity?from=" + today + "&to=" + on(5), "to is later than tomorrow in UTC", Proven},
		{base + "/daily-activity?from=" + on(-1) + "&to=" + today, "from is before history_from of the connection", Proven},
		{base + "/cycling-activities?" + day + "&limit=501", "limit is no number from 1 to 500 in plain digits", Proven},
		{base + "/cycling-activities?" + day + "&cursor=", "cursor is empty, or has more than 4096 characters", Proven},
		{base + "/cycling-activities?" + day + "&cursor=secret-value", "cursor was not issued by this service, or was altered", Proven},
		{base + "/secret-value", "no such path or method", Nobody},
		{base + "/daily-activities", "no such path or method: perhaps GET /connect-svc/v1/grants/{grant_id}/daily-activity is meant", Nobody},
		{"/oauth//token/", "no such path or method: perhaps POST /oauth/token is meant", Nobody},
		{"/connect-svc/v1/customer/grants/" + tokens.GrantID.String(), "no such path or method: perhaps DELETE /connect-svc/v1/customer/grants/{grant_id} is meant", Nobody},
		{"/connect-svc/v1/grants//daily-activity", "no such path or method: perhaps GET /connect-svc/v1/grants/{grant_id}/daily-activity is meant", Nobody},
	} {
		all = append(all, Mistake{row.target, Request{Method: http.MethodGet, Target: row.target, Header: http.Header{"Authorization": {bearer}}}, row.reason, row.knows})
	}
	for _, row := range []struct{ authorization, reason string }{
		{"Basic x", "Authorization is not Bearer with an access token"},
		{"Bearer secret-value", "the access token was not issued by this service, or was altered"},
	} {
		all = append(all, Mistake{row.authorization, Request{Method: http.MethodGet, Target: base + "/daily-activity?" + day,
			Header: http.Header{"Authorization": {row.authorization}}}, row.reason, Nobody})
	}
	return append(all, Mistake{"no header", Request{Method: http.MethodGet, Target: base + "/daily-activity?" + day}, "there is no Authorization header", Nobody})
}
