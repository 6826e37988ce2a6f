package partner

import (
	"encoding/base64"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// witness searches every page for whatever was secret up to then (specification 5.5).
type witness struct {
	*browserOf
	s     *service
	p     *Partner
	known []string // secrets that the service did not give away
}

func (w *witness) look() string {
	w.t.Helper()
	w.p.mu.Lock()
	for _, c := range w.cookies {
		w.known = append(w.known, c.Value)
	}
	w.p.mu.Unlock()
	w.p.connector.mu.Lock()
	for state, a := range w.p.connector.begun {
		w.known = append(w.known, state, a.Verifier)
	}
	w.p.connector.mu.Unlock()
	front := w.page("/")
	w.search(front)
	w.search(w.page("/webhooks/received"))
	return html.UnescapeString(front)
}

// search fails where twelve characters in a row of a secret can be read.
func (w *witness) search(page string) {
	w.t.Helper()
	page = html.UnescapeString(page)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for _, secret := range append(w.s.secrets, w.known...) {
		for i := 0; i+12 <= len(secret); i++ {
			if strings.Contains(page, secret[i:i+12]) {
				w.t.Fatalf("a page holds %q of %q:\n%s", secret[i:i+12], secret, page)
			}
		}
	}
}

func newWitness(t *testing.T) *witness {
	s := newService()
	p := s.partner(t)
	basic := base64.StdEncoding.EncodeToString([]byte(clientID + ":" + url.QueryEscape(clientSecret)))
	return &witness{
		browserOf: &browserOf{t: t, handler: p.Handler()}, s: s, p: p,
		known: []string{clientSecret, url.QueryEscape(clientSecret), webhookSecret, basic[len(basic)/2:], grant},
	}
}

// connect is the whole way, with a code.
func (w *witness) connect() string {
	w.t.Helper()
	query := w.begin()
	w.known = append(w.known, query.Get("code_challenge"))
	w.look()
	w.do("GET", CallbackPath+"?code="+w.s.secret("svcc_")+"&state="+query.Get("state"))
	return w.look()
}

func (w *witness) says(page string, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if !strings.Contains(page, word) {
			w.t.Errorf("the page does not say %q:\n%s", word, page)
		}
	}
}

// Each step is told in plain words, with what was sent for it, and no page in any of them holds a credential.
func TestStory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t)
		w.says(w.look(), "Alex is not connected")
		w.says(w.connect(), "Alex is connected",
			"You were sent to Activity Connect with a one-time question", "GET /oauth/authorize", "code_challenge_method=S256", "state=…",
			"It sent you back with a code that works once", "GET /connect/callback", "code=svcc_…",
			"We exchanged the code for two keys", "POST /oauth/token → 200", "grant_type=authorization_code", "code_verifier=…",
			"Basic base64("+clientID+":svci_…", `"access_token": "svca_…`, `"refresh_token": "svcr2_…`, `"grant_id": "…1c55"`,
			"We read your steps and rides", "GET /connect-svc/v1/grants/…1c55/daily-activity → 200", "Bearer svca_…", `"steps": 8123`,
			`"next_cursor": "cc1_…`, "&cursor=cc1_…", "in 2 pages",
			"There are 8,123 steps, and 0 rides of 0.0 km in all.")
		w.says(w.look(), "2 times in a row", "Nothing changed since the last reading.")

		<-time.After(10 * time.Minute) // the access token runs out
		w.says(w.look(), "The first key had run out, so we traded the second for two new ones", "grant_type=refresh_token", "refresh_token=svcr2_…")
		w.do("POST", "/refresh")
		w.says(w.look(), "We traded the second key for two new ones")

		w.call("msg_1", updatedEvent("1", "2000-01-01", "2000-01-01"), nil)
		w.call("msg_2", "{}", nil)
		worked(t, w.p)
		w.says(w.look(), "webhook-signature: v1,…", "POST /webhooks → 204", "POST /webhooks → 401", "no event")

		w.do("POST", "/revoke")
		w.says(w.look(), "We gave the keys back", "POST /oauth/revoke → 200", "token=svcr2_…", "token_type_hint=refresh_token",
			"Alex needs to connect again", "we gave our keys back ourselves")
		if w.p.Connected(t.Context(), "alex") {
			t.Error("a connection that is over counts as one")
		}
		w.connect()
		w.call("msg_3", revokedEvent(grant, "2", "user_disconnected"), nil)
		worked(t, w.p)
		w.says(w.look(), "Activity Connect told us that the connection is over", "you disconnected this partner", "Alex needs to connect again")
		w.do("POST", "/disconnect")
		w.says(w.look(), "We ended the connection", "DELETE /connect-svc/v1/customer/grants/…1c55 → 204", "Alex is not connected")
		var told []string
		for _, chapter := range w.p.story(w.p.config.Members[0]) {
			told = append(told, "—")
			for _, s := range chapter {
				told = append(told, s.Title)
			}
		}
		const sent, back, keys, read = "You were sent to Activity Connect with a one-time question", "It sent you back with a code that works once",
			"We exchanged the code for two keys", "We read your steps and rides"
		want := []string{
			"—", "We ended the connection",
			"—", "Activity Connect told us that the connection is over",
			"—", sent, back, keys, read,
			"—", "We gave the keys back",
			"—", "We traded the second key for two new ones", read,
			"—", "The first key had run out, so we traded the second for two new ones", read,
			"—", sent, back, keys, read,
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A reading says what the one before did not have.
func TestSince(t *testing.T) {
	t.Parallel()
	p := newService().partner(t)
	first := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		member string
		sums   sums
		want   string
	}{
		{"alex", sums{first, 38, 0, 0}, "There are 38 steps, and 0 rides of 0.0 km in all."},
		{"alex", sums{first, 1252, 4100, 1}, "Since the last reading: 1,214 steps more and 1 ride more."},
		{"robin", sums{first, 1252, 4100, 1}, "There are 1,252 steps, and 1 ride of 4.1 km in all."},
		{"alex", sums{first, 1251, 4100, 1}, "Since the last reading: 1 step fewer."},
		{"alex", sums{first, 1251, 0, 0}, "Since the last reading: 1 ride fewer."},
		{"alex", sums{first, 1251, 0, 0}, "Nothing changed since the last reading."},
		{"alex", sums{first, 1251, 10, 0}, "Since the last reading, a ride was corrected."},
		{"alex", sums{first.AddDate(0, 0, 1), 900, 10, 0}, "There are 900 steps, and 0 rides of 0.0 km in all."},
	} {
		if got := p.since(test.member, test.sums); got != test.want {
			t.Errorf("%s reads %+v: %q, want %q", test.member, test.sums, got, test.want)
		}
	}
}

// Failures are told as well: what happened, and what to do next.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		act  func(*witness)
		want []string
	}{
		{"a no", func(w *witness) {
			w.do("GET", CallbackPath+"?error=access_denied&state="+w.begin().Get("state"))
		}, []string{"You said no.", "Nothing was connected", "If you change your mind", "error=access_denied"}},
		{"a strange callback", func(w *witness) {
			page := w.page(CallbackPath + "?code=" + w.s.secret("svcc_") + "&state=" + w.s.secret(""))
			w.search(page)
			w.says(page, "belongs to no question of ours", "Choose Connect to begin anew.")
		}, nil},
		{"too late", func(w *witness) {
			state := w.begin().Get("state")
			<-time.After(time.Hour)
			page := w.page(CallbackPath + "?code=" + w.s.secret("svcc_") + "&state=" + state)
			w.search(page)
			w.says(page, "came too late")
		}, nil},
		{"the code is refused", func(w *witness) {
			w.s.set("token", 400)
			w.connect()
		}, []string{"The code was not accepted", "begin anew", "POST /oauth/token → 400", "invalid_grant", "is not connected"}},
		{"the company is refused", func(w *witness) {
			w.s.set("token", 401)
			w.connect()
		}, []string{"does not accept this company", "asks the operator", "POST /oauth/token → 401"}},
		{"no exchange", func(w *witness) {
			w.s.set("token", 500)
			w.connect()
		}, []string{"Activity Connect is away just now", "Try again in a minute", "POST /oauth/token → 500"}},
		{"revoked elsewhere, or lapsed", func(w *witness) {
			w.connect()
			w.s.set("daily-activity", 401)
			w.s.set("token", 400)
			w.says(w.look(), "does not accept our keys any more", "daily-activity → 401", "POST /oauth/token → 400")
		}, []string{"needs to connect again", "was not used for 90 days", "Choose Connect again."}},
		{"a refresh in doubt", func(w *witness) {
			w.connect()
			w.s.set("token", 503)
			w.do("POST", "/refresh")
			w.says(w.look(), "We do not know whether the second key was used up.", "Choose Connect again.")
		}, []string{"needs to connect again", "must not be sent again", "POST /oauth/token → 503"}},
		{"a refresh that never left", func(w *witness) {
			w.connect()
			w.s.set("token", -1)
			w.do("POST", "/refresh")
		}, []string{"is connected", "Activity Connect is away just now.", "POST /oauth/token → no answer", "nobody listens there"}},
		{"away", func(w *witness) {
			w.connect()
			w.s.set("daily-activity", 503)
			w.look()
		}, []string{"is connected", "Activity Connect is away just now.", "Its answer was 503.", "Try again in a minute.", "daily-activity → 503"}},
		{"too much", func(w *witness) {
			w.connect()
			w.s.set("cycling-daily", 429)
		}, []string{"is connected", "We have asked too often.", "Wait a minute", "cycling-daily → 429", "Retry-After: 30"}},
		{"refused", func(w *witness) {
			w.connect()
			w.s.set("cycling-daily", 403)
		}, []string{"is connected", "refused to read your data", "403 insufficient_scope", "by the request id 7b0a8f0d"}},
		{"nothing to end", func(w *witness) { w.do("POST", "/disconnect") }, []string{"There is no connection."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWitness(t)
				test.act(w)
				w.says(w.look(), test.want...)
			})
		})
	}
}

// A page that is open for days, and a caller who sends much, take no more room than there is.
func TestStoryIsBounded(t *testing.T) {
	t.Parallel()
	p := newService().partner(t)
	ctx, trace := traced(t.Context())
	for range 2 * mostExchanges {
		r, err := http.NewRequestWithContext(ctx, "GET", "https://connect.example/x?from="+strings.Repeat("x", 3*mostShown), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := recorder{newService()}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	sent := trace.take()
	if len(sent) != mostExchanges || len(sent[0].Request) > mostShown+32 {
		t.Errorf("%d exchanges, the first of %d bytes", len(sent), len(sent[0].Request))
	}
	for range 2 * storyLength {
		p.add("alex", beginning("revoked", nil, sent...))
	}
	if n := len(p.stories["alex"]); n != storyLength {
		t.Errorf("%d steps", n)
	}
}

// The masked parts, and the visible ones.
func TestMask(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"svca_abcdefghijklmnopqrstuvwxyz": "svca_…wxyz",
		"svcr2_short":                     "svcr2_…",
		"abcdefghijklmnopqrstuvwxyz":      "…wxyz",
		"":                                "…",
	} {
		if got := mask(value); got != want || maskAll(got) != got {
			t.Errorf("%q is %q, and then %q", value, got, maskAll(got))
		}
	}
	const secret = "svca_abcdefghijklmnopqrstuvwxyz"
	for name, text := range map[string]string{
		"a field of an unknown name": maskBody([]byte(`{"new":"` + secret + `"}`)),
		"a quote in a token":         maskBody([]byte(`{"access_token":"x\"` + secret + `"}`)),
		"a name that is a token":     maskFields(secret+"=1", "\n"),
		"a strange encoding":         maskFields("from=%zz"+secret, "\n"),
		"a harmless field":           maskFields("error="+secret, "\n"),
		"no JSON":                    maskBody([]byte(secret)),
		"a path":                     maskTarget(&url.URL{Path: "/" + secret}),
		"another scheme":             maskHeaders(http.Header{"Authorization": {"Digest " + secret}}),
		"Basic of one part":          maskHeaders(http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(secret))}}),
		"another signature":          maskHeaders(http.Header{"Webhook-Signature": {"v2," + secret + " " + secret}}),
	} {
		if strings.Contains(text, "ghij") {
			t.Errorf("%s: %s", name, text)
		}
	}
	long := maskBody([]byte(`[` + strings.Repeat("1,", 100) + `2]`))
	if lines := strings.Count(strings.TrimSpace(long), "\n") + 1; lines != firstLines+lastLines+1 || !strings.Contains(long, "more lines") {
		t.Errorf("%d lines:\n%s", lines, long)
	}
}
