package oauth

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
)

// Specification 4.2 and 7.2: each wrong authorization request has its cause.
func TestAuthorize_4_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	narrow, _, err := f.registry.Create(t.Context(), f.client.Registration)
	if err != nil {
		t.Fatal(err)
	}
	f.db.Exec(t, `update clients set scopes = 1 where client_id = $1`, narrow.ID)
	disabled := f.newClient(t)
	if err := f.registry.Disable(t.Context(), disabled.ID); err != nil {
		t.Fatal(err)
	}

	set := func(name string, values ...string) func(url.Values) {
		return func(q url.Values) { q[name] = values }
	}
	type test struct {
		name   string
		change func(url.Values)
		want   Cause
	}
	tests := []test{
		{"valid", func(url.Values) {}, ""},
		{"state of 22 characters", set("state", strings.Repeat("s", 22)), ""},
		{"state of 2048 characters", set("state", strings.Repeat("~", 2048)), ""},
		{"one scope", set("scope", "cycling_daily:read"), ""},
		{"scopes in another order", set("scope", "cycling_activities:read daily_steps:read"), ""},

		{"unknown parameter", set("prompt", "login"), InvalidRequest},
		{"redirect_uri not registered", set("redirect_uri", "https://partner.example/other"), InvalidRequest},
		{"redirect_uri with another query", set("redirect_uri", "https://partner.example/callback?tenant=8"), InvalidRequest},
		{"redirect_uri in other case", set("redirect_uri", "https://Partner.example/callback?tenant=7"), InvalidRequest},
		{"state of 21 characters", set("state", strings.Repeat("s", 21)), InvalidRequest},
		{"state of 2049 characters", set("state", strings.Repeat("s", 2049)), InvalidRequest},
		{"state with a space", set("state", strings.Repeat("s", 22)+" "), InvalidRequest},
		{"state beyond ASCII", set("state", strings.Repeat("s", 22)+"é"), InvalidRequest},
		{"state with NUL", set("state", strings.Repeat("s", 22)+"\x00"), InvalidRequest},
		{"challenge of 42 characters", set("code_challenge", strings.Repeat("A", 42)), InvalidRequest},
		{"challenge of 44 characters", set("code_challenge", strings.Repeat("A", 44)), InvalidRequest},
		{"challenge padded", set("code_challenge", strings.Repeat("A", 42)+"="), InvalidRequest},
		{"challenge in standard base64", set("code_challenge", strings.Repeat("A", 41)+"+A"), InvalidRequest},
		{"challenge that encodes more than 256 bits", set("code_challenge", strings.Repeat("A", 42)+"B"), InvalidRequest},
		{"challenge with a line break", set("code_challenge", strings.Repeat("A", 42)+"\n"), InvalidRequest},
		{"method plain", set("code_challenge_method", "plain"), InvalidRequest},
		{"method in lower case", set("code_challenge_method", "s256"), InvalidRequest},

		{"unknown client", set("client_id", uuid.NewString()), UnauthorizedClient},
		{"client ID that is no UUID", set("client_id", "me"), UnauthorizedClient},
		{"client ID in upper case", set("client_id", strings.ToUpper(f.client.ID.String())), UnauthorizedClient},
		{"inactive client", set("client_id", disabled.ID.String()), UnauthorizedClient},

		{"response_type token", set("response_type", "token"), UnsupportedResponseType},
		{"response_type code token", set("response_type", "code token"), UnsupportedResponseType},

		{"unknown scope", set("scope", "openid"), InvalidScope},
		{"scope twice", set("scope", "daily_steps:read daily_steps:read"), InvalidScope},
		{"scopes with a comma", set("scope", "daily_steps:read,cycling_daily:read"), InvalidScope},
		{"scopes with two spaces", set("scope", "daily_steps:read  cycling_daily:read"), InvalidScope},
		{"scope beyond 512 characters", set("scope", strings.Repeat("x", 513)), InvalidScope},
		{"scope outside the allowance", func(q url.Values) {
			q.Set("client_id", narrow.ID.String())
			q.Set("scope", "cycling_daily:read")
		}, InvalidScope},
	}
	for _, name := range authorizeParameters {
		tests = append(tests,
			test{name + " missing", func(q url.Values) { q.Del(name) }, InvalidRequest},
			test{name + " empty", set(name, ""), InvalidRequest},
			test{name + " repeated", func(q url.Values) { q.Add(name, q.Get(name)) }, InvalidRequest})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			query := f.query(scope.All)
			test.change(query)
			_, err := f.Authorize(t.Context(), query.Encode(), 1000, newBrowser())
			checkCause(t, err, test.want)
		})
	}
	for name, raw := range map[string]string{
		"bad percent":     f.query(scope.All).Encode() + "&x=%zz",
		"semicolon":       strings.ReplaceAll(f.query(scope.All).Encode(), "&", ";"),
		"empty":           "",
		"nothing but one": "client_id",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Authorize(t.Context(), raw, 1000, newBrowser())
			checkCause(t, err, InvalidRequest)
		})
	}
	t.Run("URL of 16 KB", func(t *testing.T) {
		_, err := f.Authorize(t.Context(), f.query(scope.All).Encode(), 16*1024, newBrowser())
		checkCause(t, err, "")
		_, err = f.Authorize(t.Context(), f.query(scope.All).Encode(), 16*1024+1, newBrowser())
		checkCause(t, err, InvalidRequest)
	})
}

func checkCause(t *testing.T, err error, want Cause) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var refused *AuthorizeError
	if !errors.As(err, &refused) || refused.Cause != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzAuthorizeQuery(f *testing.F) {
	f.Add("client_id=a&redirect_uri=b&response_type=code&scope=c&state=d&code_challenge=e&code_challenge_method=S256")
	f.Add("client_id=%00&client_id=b")
	f.Add("a=%")
	f.Fuzz(func(t *testing.T, raw string) {
		parameters, err := authorizeQuery(raw)
		if err != nil {
			return
		}
		if len(parameters) != len(authorizeParameters) {
			t.Fatalf("%d parameters", len(parameters))
		}
		for _, name := range authorizeParameters {
			if parameters[name] == "" || strings.Count("&"+raw, "&"+name+"=") > 1 {
				t.Errorf("%s is empty or repeated", name)
			}
		}
	})
}
