package partner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// Config is what the service's operator gave the company, and what is the company's own.
type Config struct {
	Issuer       string // of the service, an https origin
	ClientID     string
	ClientSecret string
	BaseURL      string            // the partner's own https origin; the registered callback is beneath it
	Transport    http.RoundTripper // how the service is reached
	// ConnectionsFile keeps the connections with their tokens. It is made when it is missing.
	ConnectionsFile string
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

const (
	// CallbackPath is the path of the registered callback.
	CallbackPath = "/connect/callback"
	// WebhookPath is the path of the address that the operator configures.
	WebhookPath = "/webhooks"
)

// Partner is the backend with its pages. It is safe for concurrent use.
type Partner struct {
	config    Config
	connector *Connector
	store     *fileStore

	mu       sync.Mutex
	sessions map[string]*session
	stories  map[string][]step    // by member, newest first
	received []*received          // calls to the webhook address, newest first
	seen     map[string]*received // by webhook-id

	inbox chan task // what Run works on
}

// New opens the file of connections and reaches nobody.
func New(config Config) (*Partner, error) {
	store, err := openStore(config.ConnectionsFile)
	if err != nil {
		return nil, err
	}
	client, err := connect.New(connect.Config{
		BaseURL: config.Issuer, ClientID: config.ClientID, ClientSecret: config.ClientSecret,
		CallbackURL: config.BaseURL + CallbackPath,
		Scopes:      []connectsdk.Scope{connectsdk.ScopeDailyStepsRead, connectsdk.ScopeCyclingDailyRead, connectsdk.ScopeCyclingActivitiesRead},
		Store:       store, HTTPClient: &http.Client{Transport: recorder{config.Transport}},
		Timeout: 10 * time.Second, // a person is waiting
	})
	if err != nil {
		return nil, fmt.Errorf("partner: %w", err)
	}
	p := &Partner{
		config: config, store: store,
		sessions: map[string]*session{}, stories: map[string][]step{},
		seen: map[string]*received{}, inbox: make(chan task, mostWaiting),
	}
	p.connector = &Connector{Client: client, WebhookSecret: config.WebhookSecret, PutAside: p.putAside, UserOf: store.memberOf}
	return p, nil
}

// Keep stores a connection that a member made at the given time, in place of the one that was there.
func (p *Partner) Keep(ctx context.Context, member string, connection connect.Connection, connectedAt time.Time) error {
	lock, err := p.store.Lock(ctx, member)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := lock.Save(ctx, connection); err != nil {
		return err
	}
	return p.store.note(member, func(k *kept) { k.ConnectedAt = connectedAt })
}

// Connected reports whether there is a connection of the member in the file.
func (p *Partner) Connected(member string) bool {
	_, found := p.store.get(member)
	return found
}

// Wait returns when no refresh is under way any more. Call it when no request is served any more.
func (p *Partner) Wait() { p.connector.Client.Wait() }

func (p *Partner) member(key string) (Member, bool) {
	i := slices.IndexFunc(p.config.Members, func(m Member) bool { return m.Key == key })
	if i < 0 {
		return Member{}, false
	}
	return p.config.Members[i], true
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
	mux.HandleFunc("GET "+CallbackPath, p.callback)
	mux.HandleFunc("POST /refresh", p.act(p.refresh))
	mux.HandleFunc("POST /revoke", p.act(p.revoke))
	mux.HandleFunc("POST /disconnect", p.act(p.disconnect))
	return headers(strings.TrimSuffix(p.config.Issuer, "/"), http.NewCrossOriginProtection().Handler(mux))
}

// connect sends the browser to the service.
func (p *Partner) connect(w http.ResponseWriter, r *http.Request) {
	id, member := p.session(w, r)
	begun := p.connector.Begin(id, member.Key)
	p.tell(member.Key, sentAway(begun.URL))
	http.Redirect(w, r, begun.URL, http.StatusSeeOther)
}

// callback takes the browser back, with a code or with a no.
func (p *Partner) callback(w http.ResponseWriter, r *http.Request) {
	id, member := p.session(w, r)
	ctx, trace := traced(r.Context())
	user, err := p.connector.Callback(ctx, id, r.URL.Query())
	if errors.Is(err, connect.ErrState) {
		wrong := trouble(err, "connect you", nil)
		p.show(w, http.StatusBadRequest, member, view{Notice: &wrong})
		return
	}
	p.mu.Lock()
	p.sessions[id].member = user
	p.mu.Unlock()
	sent := trace.take()
	back := navigation(r.URL.String(), "303 See Other\n\nWe sent your browser on to our page, so that nothing of this stays in its address bar.")
	switch {
	case len(sent) == 0: // there was no code to exchange
		p.wrong(id, user, trouble(err, "connect you", []exchange{back}))
	case err != nil:
		p.tell(user, codeCame(back))
		p.wrong(id, user, trouble(err, "connect you", sent))
	default:
		p.tell(user, codeCame(back))
		p.tell(user, exchanged(sent))
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// act does something for the member of the session and shows the page again.
func (p *Partner) act(do func(ctx context.Context, member string) (well func(sent []exchange) step, doing string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, member := p.session(w, r)
		// A browser that leaves does not stop what it began.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
		defer cancel()
		ctx, trace := traced(ctx)
		well, doing, err := do(ctx, member.Key)
		sent := trace.take()
		if err != nil {
			wrong := trouble(err, doing, sent)
			wrong.begins = true
			p.wrong(id, member.Key, wrong)
		} else {
			p.tell(member.Key, well(sent))
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (p *Partner) refresh(ctx context.Context, member string) (func([]exchange) step, string, error) {
	_, err := p.connector.Client.Refresh(ctx, member)
	return func(sent []exchange) step { return renewed(sent, true) }, "trade the second key for new ones", err
}

func (p *Partner) revoke(ctx context.Context, member string) (func([]exchange) step, string, error) {
	err := p.connector.Client.Revoke(ctx, member)
	if err == nil {
		err = p.store.note(member, func(k *kept) { k.Why = "we gave our keys back ourselves" })
	}
	return revoked, "give the keys back", err
}

func (p *Partner) disconnect(ctx context.Context, member string) (func([]exchange) step, string, error) {
	return disconnected, "end the connection", p.connector.Client.Disconnect(ctx, member)
}

// wrong tells what went wrong, and shows it above all else on the next page.
func (p *Partner) wrong(session, member string, wrong step) {
	p.tell(member, wrong)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[session]; s != nil {
		s.notice = &wrong
	}
}

// read reads the last 31 days, or what of them the connection reaches, and tells of it. If that goes wrong, how is the
// second result.
func (p *Partner) read(ctx context.Context, member Member, k kept) (reading, *step) {
	ctx, trace := traced(ctx)
	result := reading{At: time.Now().In(member.Timezone)}
	result.To = date(result.At)
	result.From = result.To.AddDate(0, 0, 1-mostDates)
	if k.HistoryFrom.After(result.From) {
		result.From = k.HistoryFrom.Time
	}
	if result.From.After(result.To) {
		result.To = result.From // the service's calendar may be ahead of ours by a moment at midnight
	}
	a, err := p.connector.Read(ctx, member.Key, connectsdk.Date{Time: result.From}, connectsdk.Date{Time: result.To})
	sent := trace.take()
	if err != nil {
		wrong := trouble(err, "read your data", sent)
		wrong.reading = true
		p.tell(member.Key, wrong)
		return result, &wrong
	}
	renewal, sent := renewals(sent)
	if len(renewal) > 0 {
		p.tell(member.Key, renewed(renewal, false))
	}
	p.tell(member.Key, readAll(sent, a))
	result.Activity = a
	return result, nil
}

// mostDates of one read (specification section 8).
const mostDates = 31

// reading is all that was read of one member.
type reading struct {
	From, To time.Time // dates: midnight UTC
	At       time.Time
	Activity
}

// date is the calendar day of t, in t's own location, as midnight UTC.
func date(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// state is none, connected or over.
func (p *Partner) state(member string) string {
	switch k, found := p.store.get(member); {
	case !found:
		return "none"
	case k.over():
		return "over"
	default:
		return "connected"
	}
}
