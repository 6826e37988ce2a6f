package partner

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "connect-svc/gen/sdk/go"
)

// Config is what the service's operator gave the company, and what is the company's own.
type Config struct {
	Issuer       string // of the service, an https origin
	ClientID     string
	ClientSecret string
	BaseURL      string       // the partner's own https origin; the registered callback is beneath it
	HTTP         *http.Client // how the service is reached
	TokensFile   string       // is made when it is missing
	// WebhookSecret is the signing secret of the address that the operator configured, BaseURL with WebhookPath.
	WebhookSecret string
	Members       []Member // at least one; the first is signed in until the browser says otherwise
	MailPage      string   // where a member of the demo finds the mail with the code
}

// Member is somebody who has an account at the partner. There is no sign-in there: the page has a switch.
type Member struct {
	Key      string // in forms and in the file
	Name     string
	Email    string // of the account at the service
	Timezone *time.Location
}

// CallbackPath is the path of the registered callback.
const CallbackPath = "/connect/callback"

// scopes is what the partner asks for: all that it shows.
const scopes = "daily_steps:read cycling_daily:read cycling_activities:read"

// Partner is the backend. It is safe for concurrent use.
type Partner struct {
	config Config
	api    *sdk.ClientWithResponses
	store  *store
	now    func() time.Time

	mu       sync.Mutex
	sessions map[string]*session
	attempts map[string]attempt   // by state
	journals map[string][]entry   // by member
	received []*received          // calls to the webhook address, newest first
	seen     map[string]*received // by webhook-id

	inbox      chan task              // what Run works on
	refreshing map[string]*sync.Mutex // by member: at most one refresh of a connection runs at a time
}

// New opens the file of tokens and reaches nobody.
func New(config Config) (*Partner, error) {
	store, err := openStore(config.TokensFile)
	if err != nil {
		return nil, err
	}
	client := *config.HTTP
	client.Transport = &patience{next: client.Transport}
	api, err := sdk.NewClientWithResponses(config.Issuer, sdk.WithHTTPClient(&client))
	if err != nil {
		return nil, fmt.Errorf("partner: %w", err)
	}
	p := &Partner{
		config: config, api: api, store: store, now: time.Now,
		sessions: map[string]*session{}, attempts: map[string]attempt{}, journals: map[string][]entry{},
		seen: map[string]*received{}, inbox: make(chan task, mostWaiting),
		refreshing: map[string]*sync.Mutex{},
	}
	for _, member := range config.Members {
		p.refreshing[member.Key] = new(sync.Mutex)
	}
	return p, nil
}

// Connected reports whether there is a connection of the member in the file.
func (p *Partner) Connected(member string) bool {
	_, found := p.store.get(member)
	return found
}

func (p *Partner) member(key string) (Member, bool) {
	i := slices.IndexFunc(p.config.Members, func(m Member) bool { return m.Key == key })
	if i < 0 {
		return Member{}, false
	}
	return p.config.Members[i], true
}

func (p *Partner) callback() string { return p.config.BaseURL + CallbackPath }

// basic is the client authentication of token, revoke and disconnect: ID and secret are form-encoded first
// (specification 5.1).
func (p *Partner) basic(_ context.Context, r *http.Request) error {
	r.SetBasicAuth(url.QueryEscape(p.config.ClientID), url.QueryEscape(p.config.ClientSecret))
	return nil
}

// entry is one thing that happened, in words for a person.
type entry struct {
	At   time.Time
	Text string
}

const journalLength = 8

func (p *Partner) tell(member, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	journal := append([]entry{{p.now(), fmt.Sprintf(format, args...)}}, p.journals[member]...)
	p.journals[member] = journal[:min(len(journal), journalLength)]
}

func (p *Partner) journal(member string) []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.journals[member])
}

// Handler serves the pages.
func (p *Partner) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.page)
	mux.HandleFunc("GET /style.css", serveFile)
	mux.HandleFunc("GET /received.js", serveFile)
	mux.HandleFunc("GET /webhooks/received", p.showReceived)
	mux.HandleFunc("POST "+WebhookPath, p.receive)
	mux.HandleFunc("POST /member", p.switchMember)
	mux.HandleFunc("POST /connect", p.connect)
	mux.HandleFunc("GET "+CallbackPath, p.finish)
	mux.HandleFunc("POST /refresh", p.act((*Partner).refreshNow))
	mux.HandleFunc("POST /revoke", p.act((*Partner).revoke))
	mux.HandleFunc("POST /disconnect", p.act((*Partner).disconnect))
	return headers(strings.TrimSuffix(p.config.Issuer, "/"), http.NewCrossOriginProtection().Handler(mux))
}

// act runs something for the member of the session, notes how it went and shows the page again.
func (p *Partner) act(do func(*Partner, context.Context, Member) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, member := p.session(w, r)
		// A browser that leaves must not cut off a refresh in the middle.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
		defer cancel()
		text, err := do(p, ctx, member)
		if err != nil {
			text = sentence(err)
		}
		p.tell(member.Key, "%s", text)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}
