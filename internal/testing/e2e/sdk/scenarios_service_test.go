package sdk_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/testing/contracttest"
)

// scripted plays the service for one partner with one user. Its own answers are held against the contract. It uses up codes and refresh
// tokens as the service does, and notes each that comes again although it must not.
type scripted struct {
	t       *testing.T
	network *network

	mu        sync.Mutex
	partner   partner
	planned   []*planned
	keep      bool  // connections of HTTP/1.1
	pages     []int // rides on the pages of the next traversal
	accounts  map[string]*account
	consents  string // the account of the next user who agrees
	issued    int
	challenge string          // of the code that was given
	spent     map[string]bool // refresh tokens that may have been used
	sent      map[string]int  // whole requests with each refresh token
	seen      map[string]int  // requests by endpoint
}

// account is one of the service's users, with its connection.
type account struct {
	grant           string
	version         int
	access, refresh string // those that work
	open            bool
}

type partner struct{ id, secret, callback string }

// planned is the answer of a scenario to the next request of an endpoint.
type planned struct {
	To      string            `json:"to"`
	Status  int               `json:"status"`
	Code    string            `json:"code"`
	Headers map[string]string `json:"headers"`
	Half    bool              `json:"half"`
	Times   int               `json:"times"`
	After   int               `json:"after"` // so many requests are answered before
}

// messages are the texts of the contract's errors.
var messages = map[string]string{
	"invalid_grant": "The code or refresh token is not valid.", "invalid_client": "Client authentication failed.",
	"server_error": "The request could not be completed.", "invalid_request": "The request is malformed.",
	"invalid_date_range": "The date range is missing or not allowed.", "invalid_cursor": "The cursor is not valid for this request.",
	"invalid_access_token": "The access token is missing or not valid.", "insufficient_scope": "The access token lacks the required scope.",
	"rate_limited": "Too many requests.", "data_unavailable": "The data is temporarily unavailable.",
}

func newScripted(t *testing.T, n *network) *scripted {
	t.Helper()
	s := &scripted{
		t: t, network: n, accounts: map[string]*account{}, spent: map[string]bool{}, sent: map[string]int{}, seen: map[string]int{},
		partner: partner{uuid.NewString(), "svci_a secret: with + and %", "https://partner.example/callback?for=connect"},
	}
	server := &http.Server{
		Handler: s, TLSConfig: n.tlsConfig(), ErrorLog: log.New(io.Discard, "", 0), // of handshakes that fail, as they are to
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, rawConn{}, conn)
		},
	}
	go func() { _ = server.ServeTLS(n.admitted, "", "") }()
	t.Cleanup(func() { close(n.admitted.closed); _ = server.Close() })
	return s
}

type rawConn struct{}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		s.t.Errorf("a body cannot be read: %v", err)
	}
	to := "elsewhere"
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/oauth/token" && form.Get("grant_type") == "refresh_token":
		to = "refresh"
	case r.Method == http.MethodPost && r.URL.Path == "/oauth/token":
		to = "exchange"
	case r.Method == http.MethodPost && r.URL.Path == "/oauth/revoke":
		to = "revoke"
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/connect-svc/v1/customer/grants/"):
		to = "disconnect"
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/connect-svc/v1/grants/"):
		to = "read"
	}
	s.mu.Lock()
	s.seen[to]++
	plan := s.next(to)
	token := form.Get("refresh_token")
	if to == "refresh" {
		s.sent[token]++
		if s.spent[token] {
			s.t.Errorf("a refresh token was sent a second time, though it may have been used")
		}
	}
	if !s.keep && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	fault, gone := s.network.now()
	var status int
	var header http.Header
	var answer []byte
	documented := true
	switch {
	case plan != nil && plan.Status != 0:
		status, header, answer, documented = s.refuse(plan)
		if status == 200 || status >= 500 && header.Get("Connect-Outcome") == "" || plan.Code == "invalid_grant" {
			s.spent[token] = true
		}
	case to == "refresh" && !slices.Contains([]string{"", "reset-reused", "idle-closed", "over"}, fault):
		s.spent[token] = true
		s.mu.Unlock()
		s.fail(w, r, fault, gone)
		return
	default:
		status, header, answer = s.answer(to, r, form)
	}
	s.mu.Unlock()
	if plan != nil && plan.Half {
		header.Set("Content-Length", strconv.Itoa(len(answer)))
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = w.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if documented {
		if err := contracttest.Partner.Check(r, status, header, answer); err != nil {
			s.t.Errorf("the scripted %s %d is not as documented: %v", to, status, err)
		}
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// keepAlive has connections stay open after an answer. Before, a client has none to use again, so that it meets the fault of a test anew.
func (s *scripted) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = true
}

// current is the refresh token that the driver has.
func (s *scripted) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("svcr2_%d", s.issued)
}

func (s *scripted) sentTimes(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[token]
}

// takeSeen is how many requests came to each endpoint since it was last asked.
func (s *scripted) takeSeen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = map[string]int{}
	return seen
}

// agreed sets the account of the next user who agrees.
func (s *scripted) agreed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consents = name
}

// opened are the accounts that are connected.
func (s *scripted) opened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for name, a := range s.accounts {
		if a.open {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// plan prepares what a step of a scenario says of the service.
func (s *scripted) plan(next step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case next.Answer != nil:
		s.planned = append(s.planned, next.Answer)
	case next.Pages != nil:
		s.pages = next.Pages
	default:
		s.t.Error("the step says nothing")
	}
}

// next is what a scenario planned for this request, if anything.
func (s *scripted) next(to string) *planned {
	i := slices.IndexFunc(s.planned, func(p *planned) bool { return p.To == to })
	if i < 0 {
		return nil
	}
	p := s.planned[i]
	if p.After > 0 {
		p.After--
		return nil
	}
	if p.Times--; p.Times <= 0 {
		s.planned = slices.Delete(s.planned, i, i+1)
	}
	return p
}

// fail does to a refresh what the fault is.
func (s *scripted) fail(w http.ResponseWriter, r *http.Request, fault string, gone <-chan struct{}) {
	switch fault {
	case "reset":
		reset(r.Context().Value(rawConn{}).(*tls.Conn).NetConn().(*watched).TCPConn)
		panic(http.ErrAbortHandler)
	case "silent":
		select {
		case <-gone:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case "half":
		header := s.header()
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", "300")
		maps.Copy(w.Header(), header)
		_, _ = io.WriteString(w, `{"grant_id":"`+uuid.NewString()+`","access_token":"svca_`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "answer-500":
		status, header, answer, _ := s.refuse(&planned{To: "refresh", Status: 500, Code: "server_error"})
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	case "answer-502", "answer-503": // a balancer's own
		status, _ := strconv.Atoi(strings.TrimPrefix(fault, "answer-"))
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>"+http.StatusText(status)+"</html>")
	case "answer-unreadable":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "<html>Welcome to our network</html>")
	case "answer-redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	default:
		s.t.Errorf("the service does not know the fault %q", fault)
	}
}

func (s *scripted) header() http.Header {
	return http.Header{
		"Cache-Control": {"no-store"}, "Pragma": {"no-cache"}, "Referrer-Policy": {"no-referrer"}, "X-Request-Id": {uuid.NewString()},
	}
}

// refuse is the error that a scenario wants, in the shape of its endpoint. The contract has no redirects.
func (s *scripted) refuse(p *planned) (status int, header http.Header, body []byte, documented bool) {
	header = s.header()
	if p.Status == http.StatusTemporaryRedirect {
		header.Set("Location", "/elsewhere")
		return p.Status, header, nil, false
	}
	header.Set("Content-Type", "application/json")
	for name, value := range p.Headers {
		header.Set(name, value)
	}
	failure := map[string]any{"error": p.Code, "error_description": messages[p.Code]}
	if p.To == "read" {
		failure = map[string]any{"error": map[string]string{"code": p.Code, "message": messages[p.Code]}, "request_id": header.Get("X-Request-Id")}
	}
	switch p.Code {
	case "invalid_client":
		header.Set("WWW-Authenticate", `Basic realm="svc-connect"`)
	case "invalid_access_token":
		header.Set("WWW-Authenticate", `Bearer realm="svc-connect", error="invalid_token"`)
	case "insufficient_scope":
		header.Set("WWW-Authenticate", `Bearer realm="svc-connect", error="insufficient_scope"`)
	case "rate_limited", "invalid_date_range", "invalid_cursor":
		counted(header)
	}
	return p.Status, header, marshal(failure), true
}

func counted(header http.Header) {
	header.Set("RateLimit-Limit", "600")
	header.Set("RateLimit-Remaining", "42")
	header.Set("RateLimit-Reset", "1")
}

func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// answer does what the service does.
func (s *scripted) answer(to string, r *http.Request, form url.Values) (int, http.Header, []byte) {
	refuse := func(status int, code string) (int, http.Header, []byte) {
		status, header, body, _ := s.refuse(&planned{To: to, Status: status, Code: code})
		return status, header, body
	}
	id, secret, _ := r.BasicAuth()
	if to != "read" && to != "elsewhere" && (id != url.QueryEscape(s.partner.id) || secret != url.QueryEscape(s.partner.secret)) {
		return refuse(http.StatusUnauthorized, "invalid_client")
	}
	header := s.header()
	switch to {
	case "exchange":
		verifier := sha256.Sum256([]byte(form.Get("code_verifier")))
		if form.Get("code") != "svcc_code" || form.Get("redirect_uri") != s.partner.callback ||
			base64.RawURLEncoding.EncodeToString(verifier[:]) != s.challenge {
			return refuse(http.StatusBadRequest, "invalid_grant")
		}
		a := s.accounts[s.consents]
		if a == nil {
			a = &account{grant: uuid.NewString()}
			s.accounts[s.consents] = a
		}
		a.version++
		a.open = true
		return s.tokens(a, header)
	case "refresh":
		token := form.Get("refresh_token")
		a := s.accountOf(func(a *account) bool { return a.refresh == token })
		if a == nil || s.spent[token] {
			return refuse(http.StatusBadRequest, "invalid_grant")
		}
		s.spent[token] = true
		return s.tokens(a, header)
	case "revoke":
		if a := s.accountOf(func(a *account) bool { return a.refresh == form.Get("token") }); a != nil {
			a.access, a.refresh = "", ""
		}
		return http.StatusOK, header, nil
	case "disconnect":
		a := s.accountOf(func(a *account) bool { return strings.HasSuffix(r.URL.Path, "/"+a.grant) })
		if a == nil {
			return refuse(http.StatusBadRequest, "invalid_request")
		}
		a.version++
		a.access, a.refresh, a.open = "", "", false
		return http.StatusNoContent, header, nil
	case "read":
		bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.accountOf(func(a *account) bool { return a.access == bearer && strings.Contains(r.URL.Path, a.grant) }) == nil {
			return refuse(http.StatusUnauthorized, "invalid_access_token")
		}
		header.Set("Content-Type", "application/json")
		counted(header)
		return http.StatusOK, header, s.rows(r)
	}
	s.t.Errorf("%s %s leads nowhere", r.Method, r.URL.Path)
	return http.StatusNotFound, header, nil
}

// accountOf is the first that it is, or nil.
func (s *scripted) accountOf(is func(*account) bool) *account {
	for _, a := range s.accounts {
		if is(a) {
			return a
		}
	}
	return nil
}

// tokens is the next pair of an account, in place of the former.
func (s *scripted) tokens(a *account, header http.Header) (int, http.Header, []byte) {
	s.issued++
	a.access, a.refresh = fmt.Sprintf("svca_%d", s.issued), fmt.Sprintf("svcr2_%d", s.issued)
	header.Set("Content-Type", "application/json")
	return http.StatusOK, header, marshal(map[string]any{
		"grant_id": a.grant, "history_from": "2026-08-01", "connection_version": strconv.Itoa(a.version), "access_token": a.access,
		"token_type": "Bearer", "expires_in": 300, "refresh_token": a.refresh,
		"scope": "daily_steps:read cycling_daily:read cycling_activities:read",
	})
}

// rows are one for each read by day, and the planned rides.
func (s *scripted) rows(r *http.Request) []byte {
	query := r.URL.Query()
	meta := map[string]any{
		"from": query.Get("from"), "to": query.Get("to"), "date_basis": "svc_recorded_date", "snapshot_at": "2026-11-21T10:00:00.000Z",
	}
	var from, to time.Time
	from, _ = time.Parse(time.DateOnly, query.Get("from"))
	to, _ = time.Parse(time.DateOnly, query.Get("to"))
	if days := to.Sub(from).Hours()/24 + 1; days < 1 || days > 31 {
		s.t.Errorf("a read asks for %v days", days)
	}
	data := []map[string]any{}
	switch dataset := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; dataset {
	case "daily-activity":
		meta["source"] = "svc"
		data = append(data, map[string]any{"date": query.Get("from"), "steps": 4321, "updated_at": nil})
	case "cycling-daily":
		data = append(data, map[string]any{"date": query.Get("from"), "distance_meters": 6000, "source": "svc", "updated_at": nil})
	case "cycling-activities":
		meta["time_basis"], meta["next_cursor"] = "svc_recorded_clock", nil
		page, _ := strconv.Atoi(strings.TrimPrefix(query.Get("cursor"), "cc1_"))
		if page >= len(s.pages) {
			break
		}
		for ride := range s.pages[page] {
			data = append(data, map[string]any{
				"id": "ca_" + fmt.Sprintf("%043d", 1000*page+ride), "date": query.Get("from"), "distance_meters": 1000,
				"recorded_start_time": query.Get("from") + "T08:00:00.000000", "recorded_end_time": nil, "timezone": nil, "manual": nil,
				"granularity": "unknown", "source": "svc", "updated_at": nil,
			})
		}
		if page+1 < len(s.pages) {
			meta["next_cursor"] = fmt.Sprintf("cc1_%d", page+1)
		}
	}
	return marshal(map[string]any{"data": data, "meta": meta})
}

// consent is what the user's browser brings back to the callback after it was sent to the address, which must be right.
func (s *scripted) consent(address string) (state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := url.Parse(address)
	if err != nil {
		s.t.Errorf("%s: %v", address, err)
		return ""
	}
	query := at.Query()
	want := url.Values{
		"client_id": {s.partner.id}, "redirect_uri": {s.partner.callback}, "response_type": {"code"}, "code_challenge_method": {"S256"},
		"scope": {query.Get("scope")}, "state": {query.Get("state")}, "code_challenge": {query.Get("code_challenge")},
	}
	if query.Encode() != want.Encode() || at.Path != "/oauth/authorize" || len(query.Get("state")) < 22 || len(query.Get("code_challenge")) != 43 {
		s.t.Errorf("the browser is sent to %s", address)
	}
	s.challenge = query.Get("code_challenge")
	return query.Get("state")
}
