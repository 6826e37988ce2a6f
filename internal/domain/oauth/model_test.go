package oauth

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
)

// The model test plays random acts of several users and clients against the server and against a model that holds the
// specification's sections 2.2, 3.1 and 3.2 in its plainest form, and compares every outcome.

type pair struct{ user, client int }

type modelConnection struct {
	version     int64
	state       string
	scopes      scope.Set
	historyFrom string
	generation  int64
	deadline    time.Time
	grantID     uuid.UUID
}

type modelCode struct {
	pair
	value   string
	version int64
	scopes  scope.Set
	day     string
	expires time.Time
}

type modelTokens struct {
	pair
	Tokens
	version, generation int64
	expires             time.Time
	accessRevoked       bool
}

type model struct {
	*fixture
	t           *rapid.T
	tb          testing.TB // for what is set up in between
	users       []uuid.UUID
	zones       []*time.Location
	clients     []client.Client
	disabled    []bool // offboarded ones too
	present     [2]int // the two clients that are not offboarded
	connections map[pair]*modelConnection
	codes       []modelCode
	tokens      []*modelTokens
	events      []string // that the clients must have
}

func TestModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		f.db.SetTime(start) // each sequence begins anew, so that a failure can be replayed
		m := &model{fixture: f, t: rt, tb: t, connections: map[pair]*modelConnection{}}
		for _, zone := range []string{"Asia/Tokyo", "America/Los_Angeles"} {
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			m.users, m.zones = append(m.users, f.newUser(t, zone)), append(m.zones, location)
			m.present[len(m.clients)] = m.newModelClient(t)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"authorize":        m.authorize,
			"exchange":         m.exchangeCode,
			"refresh newest":   m.refreshNewest,
			"refresh any":      m.refreshAny,
			"revoke access":    m.revokeAccess,
			"revoke refresh":   m.revokeRefresh,
			"disconnect":       m.disconnectGrant,
			"user disconnects": m.disconnectByUser,
			"offboard":         m.offboard,
			"disable, enable":  m.toggleClient,
			"let time pass":    m.letTimePass,
			"":                 m.check,
			"foreign attempts": m.foreign,
		})
		m.checkEvents(rt)
	})
}

func (m *model) now() time.Time { return m.db.Now() }

// newModelClient adds a client and tells its place.
func (m *model) newModelClient(t testing.TB) int {
	m.clients, m.disabled = append(m.clients, m.newClient(t)), append(m.disabled, false)
	m.db.Webhook(t, m.clients[len(m.clients)-1].ID)
	return len(m.clients) - 1
}

func (m *model) drawPair() pair { return pair{rapid.IntRange(0, 1).Draw(m.t, "user"), m.drawClient()} }

func (m *model) drawClient() int { return m.present[rapid.IntRange(0, 1).Draw(m.t, "client")] }

func draw[T any](m *model, list []T, what string) T {
	if len(list) == 0 {
		m.t.Skip("no " + what)
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(m.t, what)]
}

// alive: the connection's credentials of this version work.
func (m *model) alive(p pair, version int64) bool {
	c := m.connections[p]
	return c != nil && c.version == version && c.state == "authorized" && c.deadline.After(m.now()) && !m.disabled[p.client]
}

func (m *model) authorize(*rapid.T) {
	p := m.drawPair()
	scopes := rapid.SampledFrom([]scope.Set{scope.All, scope.All, scope.DailySteps}).Draw(m.t, "scopes")
	browser := newBrowser()
	query := m.query(scopes)
	query.Set("client_id", m.clients[p.client].ID.String())
	asked, err := m.Authorize(m.t.Context(), query.Encode(), 1000, browser)
	var refused *AuthorizeError
	if errors.As(err, &refused) != m.disabled[p.client] {
		m.t.Fatalf("authorize: %v, disabled %v", err, m.disabled[p.client])
	}
	if err != nil {
		return
	}
	if err := m.SignIn(m.t.Context(), asked, browser, browser, m.users[p.user]); err != nil {
		m.t.Fatal(err)
	}
	day := m.now().In(m.zones[p.user]).Format(time.DateOnly)
	c := m.connections[p]
	mismatch := c != nil && c.state != "disconnected" && c.scopes != scopes
	first := day
	if c != nil && c.state != "disconnected" {
		first = c.historyFrom
	}
	consent, err := m.Consent(m.t.Context(), asked.ID, browser)
	if err != nil || consent.ScopeMismatch != mismatch || consent.HistoryFrom.Format(time.DateOnly) != first {
		m.t.Fatalf("consent: %v, mismatch %v want %v, from %v want %s", err, consent.ScopeMismatch, mismatch, consent.HistoryFrom, first)
	}
	location, err := m.Allow(m.t.Context(), asked.ID, browser, "")
	if (err != nil) != mismatch {
		m.t.Fatalf("allow: %v, mismatch %v", err, mismatch)
	}
	if err == nil {
		code := modelCode{pair: p, value: parameter(m.t, location, "code"), scopes: scopes, day: day, expires: m.now().Add(120 * time.Second)}
		if c != nil {
			code.version = c.version
		}
		m.codes = append(m.codes, code)
	}
}

func (m *model) exchangeCode(*rapid.T) {
	code := draw(m, m.codes, "code")
	c := m.connections[code.pair]
	var version int64
	if c != nil {
		version = c.version
	}
	good := code.version == version && code.expires.After(m.now()) && !m.disabled[code.client]
	tokens, err := m.Exchange(m.t.Context(), m.as(m.clients[code.client].ID), ExchangeParams{code.value, callback, verifier})
	m.outcome("exchange", err, good, m.disabled[code.client])
	if !good {
		return
	}
	if c == nil {
		c = &modelConnection{state: "disconnected", grantID: tokens.GrantID}
		m.connections[code.pair] = c
	}
	if c.state == "disconnected" {
		c.historyFrom = code.day
	}
	c.version, c.state, c.scopes, c.generation = version+1, "authorized", code.scopes, 1
	m.issued(code.pair, tokens)
}

func (m *model) refreshNewest(*rapid.T) {
	if len(m.tokens) == 0 {
		m.t.Skip("no tokens")
	}
	m.refreshWith(m.tokens[len(m.tokens)-1])
}

func (m *model) refreshAny(*rapid.T) { m.refreshWith(draw(m, m.tokens, "tokens")) }

func (m *model) refreshWith(old *modelTokens) {
	c := m.connections[old.pair]
	good := m.alive(old.pair, old.version) && old.generation == c.generation
	tokens, err := m.Refresh(m.t.Context(), m.as(m.clients[old.client].ID), old.RefreshToken)
	m.outcome("refresh", err, good, m.disabled[old.client])
	switch {
	case m.disabled[old.client]: // the credentials do not count then
	case good:
		c.generation++
		m.issued(old.pair, tokens)
	case c.version == old.version && c.state == "authorized" && old.generation < c.generation:
		m.expectEvent(c, "refresh_token_replayed")
		c.state = "revoked"
	}
}

// issued checks new tokens against the connection of the model, and keeps them.
func (m *model) issued(p pair, tokens Tokens) {
	c := m.connections[p]
	c.deadline = m.now().Add(DefaultSettings.RefreshInactivity)
	if tokens.ConnectionVersion != c.version || tokens.Scopes != c.scopes || tokens.GrantID != c.grantID ||
		tokens.HistoryFrom.Format(time.DateOnly) != c.historyFrom {
		m.t.Fatalf("tokens of version %d, scopes %s, from %v; want %d, %s, %s, or another grant",
			tokens.ConnectionVersion, tokens.Scopes, tokens.HistoryFrom, c.version, c.scopes, c.historyFrom)
	}
	m.tokens = append(m.tokens, &modelTokens{
		pair: p, Tokens: tokens, version: c.version, generation: c.generation, expires: m.now().Add(300 * time.Second),
	})
}

func (m *model) revokeAccess(*rapid.T) {
	tokens := draw(m, m.tokens, "tokens")
	m.done("revoke", m.Revoke(m.t.Context(), m.as(m.clients[tokens.client].ID), tokens.AccessToken), tokens.client)
	tokens.accessRevoked = tokens.accessRevoked || !m.disabled[tokens.client]
}

func (m *model) revokeRefresh(*rapid.T) {
	tokens := draw(m, m.tokens, "tokens")
	m.done("revoke", m.Revoke(m.t.Context(), m.as(m.clients[tokens.client].ID), tokens.RefreshToken), tokens.client)
	if c := m.connections[tokens.pair]; !m.disabled[tokens.client] && c.version == tokens.version && c.state == "authorized" {
		m.expectEvent(c, "refresh_token_revoked")
		c.state = "revoked"
	}
}

func (m *model) disconnectGrant(*rapid.T) {
	tokens := draw(m, m.tokens, "tokens")
	m.done("disconnect", m.Disconnect(m.t.Context(), m.as(m.clients[tokens.client].ID), tokens.GrantID), tokens.client)
	if m.disabled[tokens.client] {
		return
	}
	c := m.connections[tokens.pair]
	m.expectEvent(c, "client_disconnected")
	c.state = "disconnected"
	c.version++
}

func (m *model) disconnectByUser(*rapid.T) {
	p := m.drawPair()
	c := m.connections[p]
	err := m.DisconnectUser(m.t.Context(), m.users[p.user], m.clients[p.client].ID)
	if c == nil {
		if !errors.Is(err, ErrNotConnected) {
			m.t.Fatalf("disconnect of a user who is not connected: %v", err)
		}
		return
	}
	m.must(err)
	m.expectEvent(c, "user_disconnected")
	c.state = "disconnected"
	c.version++
}

// expectEvent adds the event of a change of state.
func (m *model) expectEvent(c *modelConnection, reason string) {
	if c.state != "disconnected" {
		m.events = append(m.events, eventText(c.grantID, c.version, reason))
	}
}

// offboard ends a client and its connections permanently; a new client replaces it.
func (m *model) offboard(*rapid.T) {
	slot := rapid.IntRange(0, 1).Draw(m.t, "client")
	i := m.present[slot]
	want := int64(0)
	for p, c := range m.connections {
		if p.client == i && c.state != "disconnected" {
			c.state = "disconnected"
			c.version++
			want++
		}
	}
	n, err := m.registry.Offboard(m.t.Context(), m.clients[i].ID)
	if err != nil || n != want {
		m.t.Fatalf("offboard: %d connections ended, want %d: %v", n, want, err)
	}
	if err := m.registry.Enable(m.t.Context(), m.clients[i].ID); !errors.Is(err, refusal.ErrClientOffboarded) {
		m.t.Fatalf("enable after offboard: %v", err)
	}
	m.disabled[i] = true
	m.present[slot] = m.newModelClient(m.tb)
}

func (m *model) toggleClient(*rapid.T) {
	i := m.drawClient()
	m.disabled[i] = !m.disabled[i]
	change := m.registry.Enable
	if m.disabled[i] {
		change = m.registry.Disable
	}
	m.must(change(m.t.Context(), m.clients[i].ID))
}

func (m *model) letTimePass(*rapid.T) {
	m.db.Clock.Advance(rapid.SampledFrom([]time.Duration{
		7 * time.Second, 61 * time.Second, 241 * time.Second, 25 * time.Hour, 47 * 24 * time.Hour, 91 * 24 * time.Hour,
	}).Draw(m.t, "time"))
}

// foreign attempts with the credentials of one client by the other change nothing.
func (m *model) foreign(*rapid.T) {
	tokens := draw(m, m.tokens, "tokens")
	i := m.present[0]
	if i == tokens.client {
		i = m.present[1]
	}
	other := m.clients[i].ID
	_, err := m.Refresh(m.t.Context(), m.as(other), tokens.RefreshToken)
	m.outcome("foreign refresh", err, false, m.disabled[i])
	m.done("foreign revoke", m.Revoke(m.t.Context(), m.as(other), tokens.AccessToken), i)
	m.done("foreign revoke", m.Revoke(m.t.Context(), m.as(other), tokens.RefreshToken), i)
	m.done("foreign disconnect", m.Disconnect(m.t.Context(), m.as(other), tokens.GrantID), i)
	if i = tokens.client; m.disabled[i] {
		return
	}
	// Without the secret no act of the client is possible.
	stranger := m.as(m.clients[i].ID)
	stranger.SecretHash[0]++
	_, err = m.Refresh(m.t.Context(), stranger, tokens.RefreshToken)
	m.outcome("a stranger's refresh", err, false, true)
	for _, act := range []error{
		m.Revoke(m.t.Context(), stranger, tokens.AccessToken),
		m.Revoke(m.t.Context(), stranger, tokens.RefreshToken),
		m.Disconnect(m.t.Context(), stranger, tokens.GrantID),
	} {
		m.outcome("a stranger's act", act, false, true)
	}
}

// check compares what the newest access tokens can do, after every act.
func (m *model) check(*rapid.T) {
	for _, tokens := range m.tokens[max(0, len(m.tokens)-6):] {
		good := m.alive(tokens.pair, tokens.version) && tokens.expires.After(m.now()) && !tokens.accessRevoked
		access, err := m.Authenticate(m.t.Context(), tokens.AccessToken)
		if good != (err == nil) || err != nil && !errors.Is(err, ErrInvalidAccessToken) {
			m.t.Fatalf("access token of version %d: %v, want it to work: %v", tokens.version, err, good)
		}
		if good && (access.UserID != m.users[tokens.user] || access.GrantID != tokens.GrantID || access.Scopes != tokens.Scopes) {
			m.t.Fatal("an access token gives access to something else")
		}
	}
	for i, user := range m.users {
		list, err := m.ConnectionsOfUser(m.t.Context(), user)
		m.must(err)
		got := map[uuid.UUID]State{}
		for _, c := range list {
			got[c.Partner.ClientID] = c.State
		}
		for p := range m.connections {
			if want := m.shown(p); p.user == i && want != Disconnected {
				if got[m.clients[p.client].ID] != want {
					m.t.Fatalf("a connection is shown as %q, want %q", got[m.clients[p.client].ID], want)
				}
				delete(got, m.clients[p.client].ID)
			}
		}
		if len(got) != 0 {
			m.t.Fatalf("shown besides: %v", got)
		}
	}
}

// checkEvents compares the events of the clients of this sequence.
func (m *model) checkEvents(t *rapid.T) {
	var clients []uuid.UUID
	for _, c := range m.clients {
		clients = append(clients, c.ID)
	}
	slices.Sort(m.events)
	if diff := cmp.Diff(m.events, m.eventsOf(m.tb, clients...), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// shown is what the state of a connection is for people.
func (m *model) shown(p pair) State {
	switch c := m.connections[p]; {
	case c.state == "authorized" && !c.deadline.After(m.now()):
		return Lapsed
	default:
		return State(c.state)
	}
}

// outcome of an exchange or a refresh: a client that is not active learns nothing about the grant.
func (m *model) outcome(act string, err error, good, stranger bool) {
	refusal := ErrInvalidGrant
	if stranger {
		refusal = ErrInvalidClient
	}
	if good != (err == nil) || err != nil && !errors.Is(err, refusal) {
		m.t.Fatalf("%s: %v, want success: %v, else %v", act, err, good, refusal)
	}
}

// done is the outcome of an act that says nothing but who the client is.
func (m *model) done(act string, err error, clientPlace int) {
	m.outcome(act, err, !m.disabled[clientPlace], m.disabled[clientPlace])
}

func (m *model) must(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}
