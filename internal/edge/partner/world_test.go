package partner

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// A small world, tried whole: two users and two clients, connected each with each; one of the connections in each state that
// there is; every operation with every credential on every grant. The model knows in a few lines what has to come out, and the
// database is asked afterwards whether anything else has changed.

// link is a connection of the model.
type link struct {
	user, client int
	grant        string
	scopes       scope.Set
	state        oauth.State
	version      int64
	generation   int // of the current refresh token
}

// ticket is a token of the model.
type ticket struct {
	of         int // the link
	text       string
	access     bool
	version    int64
	generation int // of a refresh token
	revoked    bool
}

type world struct {
	*fixture
	users   [2]uuid.UUID
	clients [2]pgtest.Client
	links   [4]link
	tickets []ticket

	expired, lapsed bool // of all tokens
	disabled        bool // the first client
	deleted         bool // the first user
}

// newWorld has everything authorized, and whatever the state does to the first connection. It has a fixture to itself, or shares it
// with worlds of the same state, one after the other.
func newWorld(t *testing.T, f *fixture, scopes scope.Set, state string) *world {
	t.Helper()
	w := &world{
		fixture: f, users: [2]uuid.UUID{f.DB.User(t).ID, f.DB.User(t).ID},
		clients: [2]pgtest.Client{f.newClient(t, plenty), f.newClient(t, plenty)},
	}
	for i := range w.links {
		w.links[i] = link{user: i % 2, client: i / 2, scopes: scope.All}
		if i == 0 {
			w.links[i].scopes = scopes
		}
		w.connect(t, i)
	}
	first := &w.links[0]
	switch state {
	case "authorized":
	case "used":
		w.refresh(t, slices.IndexFunc(w.tickets, func(k ticket) bool { return k.of == 0 && !k.access }))
	case "revoked":
		if err := w.config.OAuth.Revoke(t.Context(), edgetest.Credentials(w.clients[0]), w.tickets[1].text); err != nil {
			t.Fatal(err)
		}
		first.state = oauth.Revoked
	case "disconnected", "reconnected":
		if err := w.config.OAuth.DisconnectUser(t.Context(), w.users[0], w.clients[0].ID); err != nil {
			t.Fatal(err)
		}
		first.state = oauth.Disconnected
		first.version++
		if state == "reconnected" {
			w.connect(t, 0)
		}
	case "expired":
		f.DB.Clock.Advance(301 * time.Second)
		w.expired = true
	case "lapsed":
		f.DB.Clock.Advance(91 * 24 * time.Hour)
		w.expired, w.lapsed = true, true
	case "disabled":
		if err := f.Clients.Disable(t.Context(), w.clients[0].ID); err != nil {
			t.Fatal(err)
		}
		w.disabled = true
	case "deleted":
		accounts := account.New(f.DB.Pool, f.Keys, nil, account.Settings{EndConnections: oauth.EndConnectionsOfUser})
		if _, err := accounts.DeleteUser(t.Context(), w.users[0]); err != nil {
			t.Fatal(err)
		}
		w.deleted = true
	}
	return w
}

// connect authorizes a connection anew, and remembers its tokens.
func (w *world) connect(t *testing.T, i int) {
	t.Helper()
	l := &w.links[i]
	w.User.ID = w.users[l.user]
	tokens := w.Connect(t, w.clients[l.client], l.scopes)
	l.state, l.version, l.generation, l.grant = oauth.Authorized, l.version+1, 1, tokens.GrantID.String()
	w.remember(i, tokens)
}

func (w *world) remember(i int, tokens oauth.Tokens) {
	l := w.links[i]
	w.tickets = append(w.tickets,
		ticket{of: i, text: tokens.AccessToken, access: true, version: l.version},
		ticket{of: i, text: tokens.RefreshToken, version: l.version, generation: l.generation})
}

// refresh rotates a refresh token that is known to be right.
func (w *world) refresh(t *testing.T, k int) {
	t.Helper()
	held := w.tickets[k]
	tokens, err := w.config.OAuth.Refresh(t.Context(), edgetest.Credentials(w.clients[w.links[held.of].client]), held.text)
	if err != nil {
		t.Fatal(err)
	}
	w.links[held.of].generation++
	w.remember(held.of, tokens)
}

// has is false once the user of a connection was deleted.
func (w *world) has(l link) bool { return l.user != 0 || !w.deleted }

// usable is false once the connection, its user or its client has gone.
func (w *world) usable(l link) bool {
	return l.state == oauth.Authorized && w.has(l) && (l.client != 0 || !w.disabled)
}

// read is the answer to a read of a dataset with a token, on a grant.
func (w *world) read(k ticket, needs scope.Set, grant string) (status int, code string) {
	l := w.links[k.of]
	switch {
	case !k.access || k.revoked || k.version != l.version || w.expired || !w.usable(l):
		return 401, "invalid_access_token"
	case !l.scopes.Contains(needs):
		return 403, "insufficient_scope"
	case grant != l.grant:
		return 404, "not_found"
	}
	return 200, ""
}

// authenticated says whether a caller of the OAuth endpoints is known: 0 and 1 are the clients, 2 has a wrong secret and 3
// none at all.
func (w *world) authenticated(caller int) bool { return caller == 1 || caller == 0 && !w.disabled }

// refreshed is the answer to a refresh, and what it changes.
func (w *world) refreshed(caller int, k ticket) (status int, code string) {
	l := &w.links[k.of]
	switch {
	case !w.authenticated(caller):
		return 401, "invalid_client"
	case k.access || l.client != caller || k.version != l.version || w.lapsed || !w.usable(*l):
		return 400, "invalid_grant"
	case k.generation != l.generation:
		l.state = oauth.Revoked
		return 400, "invalid_grant"
	}
	l.generation++
	return 200, ""
}

func (w *world) revoked(caller int, k *ticket) (status int, code string) {
	l := &w.links[k.of]
	switch {
	case !w.authenticated(caller):
		return 401, "invalid_client"
	case l.client != caller || k.version != l.version || !w.usable(*l):
	case k.access:
		k.revoked = true
	default:
		l.state = oauth.Revoked
	}
	return 200, ""
}

func (w *world) disconnected(caller int, grant string) (status int, code string) {
	if !w.authenticated(caller) {
		return 401, "invalid_client"
	}
	for i := range w.links {
		if l := &w.links[i]; l.grant == grant && l.client == caller && w.has(*l) {
			l.state = oauth.Disconnected
			l.version++
		}
	}
	return 204, ""
}

// header authenticates a caller.
func (w *world) header(caller int) http.Header {
	header := http.Header{"Content-Type": {formText}}
	switch caller {
	case 0, 1:
		header.Set("Authorization", edgetest.BasicOf(w.clients[caller]))
	case 2:
		header.Set("Authorization", edgetest.Basic(w.clients[0].ID.String(), w.clients[1].Secret))
	}
	return header
}

// facts are what the model and the database can be compared by.
func (w *world) facts() map[string]string {
	facts := map[string]string{}
	for _, l := range w.links {
		if !w.has(l) {
			continue
		}
		facts[l.grant] = fmt.Sprintf("%s, version %d", l.state, l.version)
	}
	return facts
}

func (w *world) stored(t *testing.T) map[string]string {
	t.Helper()
	rows, err := w.DB.Pool.Query(context.Background(), `select grant_id::text, state || ', version ' || version from connections
		where user_id = any($1)`, w.users[:])
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	facts := map[string]string{}
	for rows.Next() {
		var grant, fact string
		if err := rows.Scan(&grant, &fact); err != nil {
			t.Fatal(err)
		}
		facts[grant] = fact
	}
	return facts
}

var worldStates = []string{"authorized", "used", "revoked", "disconnected", "reconnected", "expired", "lapsed", "disabled", "deleted"}

// grants are those of all connections, and one that nobody has.
func (w *world) grants() []string {
	grants := []string{uuid.NewString()}
	for _, l := range w.links {
		grants = append(grants, l.grant)
	}
	return grants
}

// datasets are the last parts of their paths, with the scope that each needs.
var datasets = map[string]scope.Set{
	"daily-activity": scope.DailySteps, "cycling-daily": scope.CyclingDaily, "cycling-activities": scope.CyclingActivities,
}

// readAll tries tokens on every grant of a dataset.
func (w *world) readAll(t *testing.T, when string, tickets []ticket, paths ...string) {
	t.Helper()
	day := w.DB.Now().UTC().Format(time.DateOnly)
	for _, path := range paths {
		needs := datasets[path]
		for n, k := range append(tickets, ticket{text: "svca_made-up"}) {
			for g, grant := range w.grants() {
				out := outgoing{
					Method: "GET", Target: "/connect-svc/v1/grants/" + grant + "/" + path + "?from=" + day + "&to=" + day,
					Header: http.Header{"Authorization": {"Bearer " + k.text}},
				}
				status, code := w.read(k, needs, grant)
				w.send(t, out).Check(t, status, code, fmt.Sprintf("%s: %s with token %d on grant %d", when, path, n, g))
			}
		}
	}
}

// TestWorldOfReads tries each token in each state. The scopes of the first connection matter to its own tokens alone.
func TestWorldOfReads(t *testing.T) {
	t.Parallel()
	for _, state := range worldStates {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			for scopes := scope.Set(1); scopes <= scope.All; scopes++ {
				w := newWorld(t, f, scopes, state)
				tickets := w.tickets
				if scopes != scope.All {
					tickets = slices.DeleteFunc(slices.Clone(tickets), func(k ticket) bool { return k.of != 0 })
				}
				w.readAll(t, scopes.String(), tickets, slices.Collect(maps.Keys(datasets))...)
				if diff := cmp.Diff(w.facts(), w.stored(t)); diff != "" {
					t.Errorf("%s: reads have changed connections (-model +database):\n%s", scopes, diff)
				}
			}
		})
	}
}

// TestWorldOfActs tries each act in each state; what changes something is followed by all reads, and gets a new world.
func TestWorldOfActs(t *testing.T) {
	t.Parallel()
	for _, state := range worldStates {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			w := newWorld(t, f, scope.All, state)
			acts, changes := 0, 0
			try := func(name string, out outgoing, model func(w *world) (int, string)) {
				t.Helper()
				before := w.facts()
				generations, revoked := w.generations(), w.revokedTickets()
				status, code := model(w)
				w.send(t, out).Check(t, status, code, name)
				acts++
				if maps.Equal(before, w.facts()) && generations == w.generations() && revoked == w.revokedTickets() {
					return
				}
				changes++
				w.readAll(t, name, w.tickets, "cycling-daily")
				if diff := cmp.Diff(w.facts(), w.stored(t)); diff != "" {
					t.Errorf("after %s (-model +database):\n%s", name, diff)
				}
				w = newWorld(t, f, scope.All, state)
			}
			for caller := range 4 {
				for k := range w.tickets {
					try(fmt.Sprintf("refresh by %d with token %d", caller, k), outgoing{
						Method: "POST", Target: "/oauth/token", Header: w.header(caller),
						Body: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {w.tickets[k].text}}.Encode(),
					}, func(w *world) (int, string) { return w.refreshed(caller, w.tickets[k]) })
					try(fmt.Sprintf("revoke by %d of token %d", caller, k), outgoing{
						Method: "POST", Target: "/oauth/revoke", Header: w.header(caller),
						Body: url.Values{"token": {w.tickets[k].text}}.Encode(),
					}, func(w *world) (int, string) { return w.revoked(caller, &w.tickets[k]) })
				}
				for g := range w.grants() {
					grant := w.grants()[g]
					header := w.header(caller)
					header.Del("Content-Type")
					try(fmt.Sprintf("disconnect by %d of grant %d", caller, g), outgoing{
						Method: "DELETE", Target: "/connect-svc/v1/customer/grants/" + grant, Header: header,
					}, func(w *world) (int, string) { return w.disconnected(caller, grant) })
				}
			}
			if diff := cmp.Diff(w.facts(), w.stored(t)); diff != "" {
				t.Errorf("what was refused has changed connections (-model +database):\n%s", diff)
			}
			t.Logf("%d acts, %d of which changed something", acts, changes)
		})
	}
}

func (w *world) generations() (all [4]int) {
	for i, l := range w.links {
		all[i] = l.generation
	}
	return all
}

func (w *world) revokedTickets() (n int) {
	for _, k := range w.tickets {
		if k.revoked {
			n++
		}
	}
	return n
}
