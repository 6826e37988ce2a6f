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

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// Config has the values that the service's operator gave the partner, and the partner's own.
type Config struct {
	Issuer       string // of the service, an https origin
	ClientID     string
	ClientSecret string
	BaseURL      string            // the partner's own https origin; the registered callback is beneath it
	Transport    http.RoundTripper // to the service
	Store        connect.Store     // keeps the connections with their tokens
	// WebhookSecret is the signing secret of the configured webhook address, BaseURL with WebhookPath.
	WebhookSecret string
	Members       []Member // at least one; the first is signed in until the browser says otherwise
	MailPage      string   // with the email that has a demo member's code
	Service       string   // its name; empty: the one that the texts have

	Timeout time.Duration // of a request to the service
}

// Member has an account at the partner. There is no sign-in: the page has a switch.
type Member struct {
	Key      string // in forms and in the store
	Name     string
	Email    string // of the account at the service
	Timezone *time.Location
}

const (
	// CallbackPath is the path of the registered callback.
	CallbackPath = "/connect/callback"
	// WebhookPath is the path of the address that the operator configures.
	WebhookPath = "/webhooks"

	mostDates   = 31                 // of one read (specification section 8)
	serviceName = "Activity Connect" // in the texts
)

// Partner is the backend with its pages. It is safe for concurrent use.
type Partner struct {
	config    Config
	connector *Connector

	mu       sync.Mutex
	owners   map[uuid.UUID]string // also of ended connections, whose last event may still arrive
	endings  map[ended]ending
	stories  map[string][]step    // by member, newest first
	sums     map[string]sums      // of the last reading, by member
	received []*received          // calls to the webhook address, newest first
	seen     map[string]*received // by webhook-id

	inbox chan task // for Run
}

// ended is a member's connection that has ended.
type ended struct{ member, version string }

// ending is the reason why a member must connect again, if it is known.
type ending struct {
	Why       string
	Forgotten bool // the service dropped the consent, so that a new connection begins with its own first day
}

// New reads the connections in the store, and sends no requests.
func New(ctx context.Context, config Config) (*Partner, error) {
	client, err := connect.New(connect.Config{
		BaseURL: config.Issuer, ClientID: config.ClientID, ClientSecret: config.ClientSecret,
		CallbackURL: config.BaseURL + CallbackPath,
		Scopes:      []connectsdk.Scope{connectsdk.ScopeDailyStepsRead, connectsdk.ScopeCyclingDailyRead, connectsdk.ScopeCyclingActivitiesRead},
		Store:       config.Store, HTTPClient: &http.Client{Transport: recorder{config.Transport}},
		Timeout: config.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("partner: %w", err)
	}
	p := &Partner{
		config: config, owners: map[uuid.UUID]string{}, endings: map[ended]ending{},
		stories: map[string][]step{}, sums: map[string]sums{}, seen: map[string]*received{}, inbox: make(chan task, mostWaiting),
	}
	p.connector = &Connector{Client: client}
	for _, member := range config.Members {
		if _, _, err := p.held(ctx, member.Key); err != nil {
			return nil, fmt.Errorf("partner: %w", err)
		}
	}
	return p, nil
}

// held returns the connection of a member, and its state: none, connected or over.
func (p *Partner) held(ctx context.Context, member string) (connect.Connection, string, error) {
	held, err := p.connector.Client.Connection(ctx, member)
	if errors.Is(err, connect.ErrNotConnected) {
		return held, "none", nil
	}
	if err != nil {
		return held, "", err
	}
	p.mu.Lock()
	p.owners[held.GrantID] = member
	p.mu.Unlock()
	if held.State == connect.StateEnded || held.State == connect.StateUncertain {
		return held, "over", nil
	}
	return held, "connected", nil
}

// memberOf returns the member whose connection has or had the grant; empty: none.
func (p *Partner) memberOf(grant uuid.UUID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners[grant]
}

// Begin begins an authorization without a browser, for the connection that the demo makes in the past.
func (p *Partner) Begin() connect.Authorization { return p.connector.Client.Begin() }

// Keep stores a connection of a member, and replaces the previous one.
func (p *Partner) Keep(ctx context.Context, member string, connection connect.Connection) error {
	lock, err := p.config.Store.Lock(ctx, member)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := lock.Save(ctx, connection); err != nil {
		return err
	}
	_, _, err = p.held(ctx, member)
	return err
}

// Connected reports whether the member has a connection that has not ended.
func (p *Partner) Connected(ctx context.Context, member string) bool {
	_, state, err := p.held(ctx, member)
	return err == nil && state == "connected"
}

// Wait waits for running refreshes. Call it after the last request.
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
	mux.Handle("GET /style.css", http.FileServerFS(files))
	mux.Handle("GET /received.js", http.FileServerFS(files))
	mux.HandleFunc("GET /webhooks/received", p.listReceived)
	mux.HandleFunc("POST "+WebhookPath, p.receive)
	mux.HandleFunc("POST /member", p.switchMember)
	mux.HandleFunc("POST /connect", p.connect)
	mux.HandleFunc("GET "+CallbackPath, p.callback)
	mux.HandleFunc("POST /refresh", p.act(p.refresh, "refreshed", "trade the second key for new ones"))
	mux.HandleFunc("POST /revoke", p.act(p.revoke, "revoked", "give the keys back"))
	mux.HandleFunc("POST /disconnect", p.act(p.connector.Disconnect, "disconnected", "end the connection"))
	return headers(p.config.Issuer, http.NewCrossOriginProtection().Handler(mux))
}

func (p *Partner) connect(w http.ResponseWriter, r *http.Request) {
	id, member := p.session(w, r)
	begun := p.connector.Begin(id, member.Key)
	p.add(member.Key, beginning("sent away", nil,
		navigation(begun.URL, "The answer went to your browser alone: the pages on which you sign in and decide.")))
	http.Redirect(w, r, begun.URL, http.StatusSeeOther)
}

func (p *Partner) callback(w http.ResponseWriter, r *http.Request) {
	id, member := p.session(w, r)
	ctx, trace := traced(r.Context())
	err := p.connector.Callback(ctx, id, member.Key, r.URL.Query())
	if errors.Is(err, connect.ErrState) {
		wrong := failure(err, "connect you", nil)
		p.write(w, r, http.StatusBadRequest, member, view{Notice: &wrong})
		return
	}
	sent := trace.take()
	back := navigation(r.URL.String(), "303 See Other\n\nWe sent your browser on to our page, so that nothing of this stays in its address bar.")
	if len(sent) == 0 { // there was no code
		sent = []exchange{back}
	} else {
		p.add(member.Key, newStep("code came", nil, back))
	}
	if err != nil {
		p.add(member.Key, failure(err, "connect you", sent))
	} else {
		p.add(member.Key, newStep("exchanged", nil, sent...))
		_, _, _ = p.held(ctx, member.Key) // sets the owner of its webhooks
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// act acts for the member of the session, adds the step to the story and shows the page again.
func (p *Partner) act(do func(ctx context.Context, member string) error, done, doing string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, member := p.session(w, r)
		// The act continues if the browser leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
		defer cancel()
		ctx, trace := traced(ctx)
		err := do(ctx, member.Key)
		s := beginning(done, nil, trace.take()...)
		if err != nil {
			s = failure(err, doing, s.Exchanges)
			s.begins = true
		}
		p.add(member.Key, s)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (p *Partner) refresh(ctx context.Context, member string) error {
	_, err := p.connector.Client.Refresh(ctx, member)
	return err
}

func (p *Partner) revoke(ctx context.Context, member string) error {
	if err := p.connector.Client.Revoke(ctx, member); err != nil {
		return err
	}
	held, _, err := p.held(ctx, member)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endings[ended{member, held.Version}] = ending{Why: "we gave our keys back ourselves"}
	return err
}

// read reads the last 31 days, as far as the connection may read them, and adds a step to the story. The second result describes a
// failure.
func (p *Partner) read(ctx context.Context, member Member, first connectsdk.CalendarDate) (*reading, *step) {
	ctx, trace := traced(ctx)
	now := time.Now().In(member.Timezone)
	to := connect.Day(now.Date())
	from := connectsdk.CalendarDate{Time: to.AddDate(0, 0, 1-mostDates)}
	if first.After(from.Time) {
		from = first
	}
	if from.After(to.Time) {
		to = from // around midnight the service may have the next day already
	}
	a, err := p.connector.Read(ctx, member.Key, from, to)
	sent := trace.take()
	if err != nil {
		failed := failure(err, "read your data", sent)
		failed.read = true
		p.add(member.Key, failed)
		return nil, &failed
	}
	renews := func(e exchange) bool { return strings.Contains(e.Summary, "/oauth/token") }
	reads := slices.DeleteFunc(slices.Clone(sent), renews)
	if renewals := slices.DeleteFunc(sent, func(e exchange) bool { return !renews(e) }); len(renewals) > 0 {
		p.add(member.Key, beginning("renewed", nil, renewals...))
	}
	shown := drawn(a, now, to.AddDate(0, 0, 1-mostDates), first.Time, to.Time)
	s := newStep("read", struct{ Pages, Change string }{
		fmt.Sprintf("%s of %d", count(a.Pages, "page"), pageSize),
		p.since(member.Key, sums{from.Time, shown.StepsTotal, shown.CyclingTotal, len(shown.Rides)}),
	}, reads...)
	s.read = true
	p.add(member.Key, s)
	return shown, nil
}
