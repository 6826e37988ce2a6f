//go:build faults

package storm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/local/mailcatcher"
	"connect-svc/internal/testing/contracttest"
)

// retry is the pause before somebody asks again who got no answer.
const retry = 300 * time.Millisecond

// patience is for how long a client waits for an answer.
const patience = 12 * time.Second

// anyServer sends each request to one of the servers that are not out, as a load balancer does. In a storm it knows of no fault.
type anyServer struct {
	*storm
	base *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (a anyServer) RoundTrip(request *http.Request) (*http.Response, error) {
	in := slices.DeleteFunc(slices.Clone(a.servers), func(one *server) bool { return one.out.Load() })
	if len(in) == 0 {
		return nil, errors.New("no server is ready")
	}
	one := in[rand.IntN(len(in))]
	sent := request.Clone(request.Context())
	sent.URL.Scheme, sent.URL.Host = "http", one.front.address
	if strings.HasPrefix(request.URL.Path, "/operator/") {
		sent.URL.Host = one.back.address
		sent.Host = sent.URL.Host
	}
	return a.base.RoundTrip(sent)
}

func (s *storm) newClients() {
	transport := &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: 20 * time.Second}
	s.Cleanup(transport.CloseIdleConnections)
	to := anyServer{s, transport}
	s.plain = to
	s.api = &http.Client{Transport: contracttest.Partner.Transport(s.T, to), Timeout: patience}
	s.operator = &http.Client{Transport: contracttest.Operator.Transport(s.T, to), Timeout: 32 * time.Second}
}

// reply is an answer that came to its end; a status of 0 means that it did not.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) json(into any) error { return json.Unmarshal(r.body, into) }

// unknown: it may have happened or not.
func (r reply) unknown() bool { return r.status == 0 || r.status >= 500 }

// send sends a request and notes its answer under a kind.
func (s *storm) send(kind string, client *http.Client, request *http.Request) reply {
	began := time.Now()
	answer, err := client.Do(request)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
	}
	if err != nil {
		s.sum.answer(kind, "none", time.Since(began))
		return reply{}
	}
	s.sum.answer(kind, http.StatusText(answer.StatusCode), time.Since(began))
	return reply{answer.StatusCode, answer.Header, body}
}

// request makes one. A form is posted.
func (s *storm) request(method, path string, form url.Values) *http.Request {
	request, err := http.NewRequest(method, baseURL+path, strings.NewReader(form.Encode()))
	if err != nil {
		panic("a request that cannot be made: " + method)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else {
		request.Body, request.ContentLength = nil, 0
	}
	return request
}

func (s *storm) act(kind string, p *partner, method, path string, form url.Values) reply {
	request := s.request(method, path, form)
	request.SetBasicAuth(p.id.String(), url.QueryEscape(p.secret))
	return s.send(kind, s.api, request)
}

// operate calls the operator API.
func (s *storm) operate(kind, method, path string, body any) reply {
	request := s.request(method, "/operator/v1"+path, nil)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.Error(err)
			return reply{}
		}
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(string(text))), int64(len(text))
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Authorization", "Bearer "+operatorToken)
	return s.send(kind, s.operator, request)
}

// newUser asks until it is there. It returns nil where the storm is over before.
func (s *storm) newUser(ctx context.Context) *user {
	u := &user{id: uuid.New(), email: newEmail()}
	s.book.addUser(u)
	acknowledged := s.audit.ask("user.created", u.id, nobody)
	for ctx.Err() == nil {
		got := s.operate("create user", http.MethodPost, "/users", map[string]any{
			"user_id": u.id, "email": u.email, "timezone": "UTC", "registered_on": "2020-01-01",
		})
		switch {
		case got.status == http.StatusCreated || got.status == http.StatusConflict:
			acknowledged()
			u.created = true
			return u
		case !got.unknown():
			s.Errorf("the creation of a user is answered %d %s", got.status, got.body)
			return nil
		}
		await(ctx, 300*time.Millisecond)
	}
	return nil
}

// errNoCode: the browser did not get a code. In a storm this is not a failure.
var errNoCode = errors.New("no code")

var verifier = oauth2.GenerateVerifier()

// open opens an authorization request.
func (s *storm) open(p *partner) (*browser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	b := &browser{storm: s, partner: p, client: &http.Client{
		Transport: s.api.Transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	config := oauth2.Config{ClientID: p.id.String(), RedirectURL: callback, Scopes: scope.All.Names(), Endpoint: oauth2.Endpoint{AuthURL: "/oauth/authorize"}}
	first := config.AuthCodeURL(strings.Repeat("s", 22), oauth2.S256ChallengeOption(verifier))
	location, err := b.visit("authorize", http.MethodGet, first, nil, http.StatusSeeOther)
	b.base = strings.TrimSuffix(location, "/sign-in")
	return b, err
}

// consent plays the browser of a user up to the last page.
func (s *storm) consent(u *user, p *partner) (*browser, error) {
	b, code, err := s.signIn(u, p)
	if err != nil {
		return nil, err
	}
	if in, err := b.enter(code); err != nil || !in {
		return nil, errNoCode
	}
	_, err = b.visit("consent page", http.MethodGet, b.base+"/consent", nil, http.StatusOK)
	return b, err
}

// mailbox is where one-time codes arrive.
type mailbox struct {
	address string

	mu    sync.Mutex
	codes map[string]chan string
}

func newMailbox(t *testing.T, ledger *codeLedger, bare bool) *mailbox {
	t.Helper()
	m := &mailbox{codes: map[string]chan string{}}
	catcher := &mailcatcher.Catcher{Config: mailcatcher.Config{Bare: bare, OnEmail: func(email mailcatcher.Email) {
		ledger.arrived(email.To[0], email.Code, email.Subject)
		if email.Code == "" { // a receipt
			return
		}
		select {
		case m.of(email.To[0]) <- email.Code:
		default: // nobody waits for so many
		}
	}}}
	listener := listen(t)
	m.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = catcher.ServeSMTP(ctx, listener, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { stop(); <-done })
	return m
}

// of returns the codes that are sent to an address.
func (m *mailbox) of(address string) chan string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.codes[address] == nil {
		m.codes[address] = make(chan string, 4)
	}
	return m.codes[address]
}
