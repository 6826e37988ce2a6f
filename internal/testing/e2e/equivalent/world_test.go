package equivalent_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wiretest"
)

const (
	host = "connect.example.com"
	form = "application/x-www-form-urlencoded"
)

// world is the service with a connection, on a listener with TLS, and on two servers in plain HTTP if there are proxies in front of it.
type world struct {
	secured   string // address of the listener with TLS
	pair      *tls.Certificate
	proxied   e2e.Proxied
	questions []question
}

// question is a request in the form that most callers send. It changes nothing, so that it can be sent again.
type question struct {
	name, method, path string
	fields             []string // names and values in turn
	body               string
	want               int
}

func newWorld(t *testing.T, proxies bool) world {
	t.Helper()
	e := e2e.New(t, func(c *app.Config) {
		c.BaseURL, c.DevelopersSite = "https://"+host, true
		c.TrustedProxies = network.Proxies{netip.MustParsePrefix("127.0.0.0/8")} // so that the many connections of a test do not count as one network's
	})
	partner := e.DB.Client(t, func(c *pgtest.Client) { c.RequestsPerMinute, c.Burst, c.ConcurrentReads = 100_000, 100_000, 1000 })
	_, tokens := e.NewConnection(t, partner)
	pair := edgetest.Certificate(t, host, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
	day := tokens.HistoryFrom.Format(time.DateOnly)
	w := world{
		secured: run(t, e.Config, func(c *app.Config) { c.Certificate = listener.FixedCertificate(pair) }).PublicAddr().String(),
		pair:    pair,
	}
	if proxies {
		for range 2 {
			server := run(t, e.Config, func(c *app.Config) { c.ReadyListen = "127.0.0.1:0" })
			w.proxied.Listen, w.proxied.Ready = append(w.proxied.Listen, server.PublicAddr().String()), append(w.proxied.Ready, server.ReadyAddr().String())
		}
	}
	basic, bearer := edgetest.BasicOf(partner), "Bearer "+tokens.AccessToken
	read := "/connect-svc/v1/grants/" + tokens.GrantID.String() + "/daily-activity?from=" + day + "&to=" + day
	w.questions = []question{
		{"discovery", "GET", "/.well-known/oauth-authorization-server", nil, "", 200},
		{"read", "GET", read, []string{"Authorization", bearer}, "", 200},
		{"read without a token", "GET", read, nil, "", 401},
		{"read of another grant", "GET", "/connect-svc/v1/grants/" + uuid.NewString() + "/cycling-daily", []string{"Authorization", bearer}, "", 404},
		{"refresh", "POST", "/oauth/token", []string{"Authorization", basic, "Content-Type", form}, "grant_type=refresh_token&refresh_token=svcr2_un+known", 400},
		{"revoke", "POST", "/oauth/revoke", []string{"Authorization", basic, "Content-Type", form}, "token=svca_unknown&token_type_hint=access_token", 200},
		{"disconnect", "DELETE", "/connect-svc/v1/customer/grants/" + uuid.NewString(), []string{"Authorization", basic}, "", 204},
		{"page", "GET", "/account/sign-in", []string{"Accept-Language", "xx, de;q=0.9, en;q=0.8"}, "", 200},
		{"form of an old browser", "POST", "/account/language", []string{"Origin", "https://" + host, "Content-Type", form}, "language=de", 303},
		{"developers", "GET", "/developers/", []string{"Accept-Encoding", "gzip;q=0.5, identity;q=0.1"}, "", 200},
	}
	return w
}

// run runs the service until the test ends.
func run(t *testing.T, config app.Config, change func(*app.Config)) *app.App {
	t.Helper()
	change(&config)
	a, err := app.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

// changing are what two answers to one question may differ in: the time, ids, and what is of the connection alone.
var changing = regexp.MustCompile(`"(request_id|snapshot_at)":"[^"]*"`)

// usual returns an answer without that.
func usual(a wiretest.Answer) wiretest.Answer {
	a.Body = changing.ReplaceAllString(a.Body, `"$1":""`)
	header := http.Header{}
	for name, values := range a.Header {
		switch name = http.CanonicalHeaderKey(name); name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Server", "Accept-Ranges": // of a connection, or of a proxy
		case "Date", "X-Request-Id", "Ratelimit-Remaining", "Ratelimit-Reset":
			header[name] = []string{"is there"}
		default:
			header[name] = values
		}
	}
	a.Header = header
	return a
}

// sameHead checks the answer to HEAD against that to GET.
func (q question) sameHead(t *testing.T, get, head wiretest.Answer) {
	t.Helper()
	get.Body = ""
	q.method = http.MethodHead
	q.same(t, get, head)
}

// same checks an answer against the usual one and the contract.
func (q question) same(t *testing.T, want, got wiretest.Answer) {
	t.Helper()
	if diff := cmp.Diff(usual(want), usual(got)); diff != "" {
		t.Errorf("%s: the answer (-usual form +this form):\n%.3000s", q.name, diff)
	}
	request, err := http.NewRequestWithContext(t.Context(), q.method, "https://"+host+q.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	for name, values := range got.Header {
		switch name = http.CanonicalHeaderKey(name); name {
		case "Keep-Alive", "Transfer-Encoding", "Server": // of a proxy
		default:
			header[name] = values
		}
	}
	if err := contracttest.Partner.Check(request, got.Status, header, []byte(got.Body)); err != nil {
		t.Errorf("%s: not as documented: %v", q.name, err)
	}
}

// field returns the value of a field, and whether the question has it.
func (q question) field(name string) (value string, has bool) {
	for i := 0; i < len(q.fields); i += 2 {
		if q.fields[i] == name {
			return q.fields[i+1], true
		}
	}
	return "", false
}

// with returns the question with a field of another value.
func (q question) with(name, value string) question {
	q.fields = slices.Clone(q.fields)
	for i := 0; i < len(q.fields); i += 2 {
		if q.fields[i] == name {
			q.fields[i+1] = value
		}
	}
	return q
}

// escaped returns a text in which characters that need no escape have one.
func escaped(text string) string {
	const digits = "0123456789abcdef"
	var all strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case strings.IndexByte("=&/%+?", c) >= 0: // these mean something
			all.WriteByte(c)
		default:
			all.WriteString("%" + digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
		}
	}
	return all.String()
}
