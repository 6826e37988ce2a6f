package oauth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

func (f *fixture) ofUser(t *testing.T) []Connection {
	t.Helper()
	list, err := f.ConnectionsOfUser(t.Context(), f.user)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// People find a partner by its name as they expect it, whatever the database's locale.
func TestConnectionsOfUserAreSorted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := []string{"ähnlich", "Apfel", "Äpfel", "Über", "um", "Zoo"}
	for _, i := range []int{5, 2, 0, 4, 3, 1} {
		partner := f.db.Client(t, func(c *pgtest.Client) { c.Name = want[i] })
		f.db.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation,
			refresh_deadline) values ($1, $2, $3, 1, 'revoked', 7, '2026-01-01', now(), 1, now())`, f.user, partner.ID, uuid.New())
	}
	var names []string
	for _, connection := range f.ofUser(t) {
		names = append(names, connection.Partner.Name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Specification 2.2, 3: the list shows each connection with its state.
func TestConnectionsOfUser_2_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Exec(t, `update clients set homepage_url = 'https://ride.example/' where client_id = $1`, f.client.ID)
	if list := f.ofUser(t); len(list) != 0 {
		t.Fatalf("connections of nobody: %+v", list)
	}
	tokens := f.connect(t, scope.DailySteps)
	want := Connection{
		UserID: f.user, Partner: Partner{ClientID: f.client.ID, Name: "Ride Club", HomepageURL: "https://ride.example/"}, GrantID: tokens.GrantID, Version: 1, State: Authorized, Scopes: scope.DailySteps,
		HistoryFrom: time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), AuthorizedAt: start,
		RefreshDeadline: start.Add(f.settings.RefreshInactivity), ClientStatus: "active",
	}
	about := cmpopts.EquateApproxTime(time.Minute)
	if diff := cmp.Diff([]Connection{want}, f.ofUser(t), about); diff != "" {
		t.Errorf("authorized (-want +got):\n%s", diff)
	}

	// The others' connections are not the user's.
	f.connectOther(t)
	if list := f.ofUser(t); len(list) != 1 {
		t.Errorf("%d connections, want 1", len(list))
	}

	f.db.Clock.Advance(91 * 24 * time.Hour)
	want.State = Lapsed
	if diff := cmp.Diff([]Connection{want}, f.ofUser(t), about); diff != "" {
		t.Errorf("lapsed (-want +got):\n%s", diff)
	}

	tokens = f.connect(t, scope.DailySteps)
	if err := f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if list := f.ofUser(t); len(list) != 1 || list[0].State != Revoked || list[0].Version != 2 {
		t.Errorf("revoked: %+v", list)
	}

	if err := f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
		t.Fatal(err)
	}
	if list := f.ofUser(t); len(list) != 0 {
		t.Errorf("disconnected: %+v", list)
	}
}

func TestListOfConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := map[uuid.UUID]bool{}
	for range 5 {
		f.user = f.newUser(t, "UTC")
		users[f.user] = true
		f.connect(t, scope.All)
	}
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	disconnected := 0
	var after page.Key
	of := Filter{ClientID: &f.client.ID}
	for pages := 1; ; pages++ {
		list, err := f.Connections(t.Context(), of, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if !users[c.UserID] || c.Partner.ClientID != f.client.ID {
				t.Errorf("not of this client, or twice: %+v", c)
			}
			delete(users, c.UserID)
			if c.State == Disconnected {
				disconnected++
			}
			after = c.Key()
		}
		if len(list) < 2 {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
	}
	if len(users) != 0 || disconnected != 1 {
		t.Errorf("missing %v; %d disconnected, want 1", users, disconnected)
	}
	stranger := uuid.New()
	for name, test := range map[string]struct {
		filter Filter
		want   int
	}{
		"nothing":                 {Filter{}, 5},
		"a user":                  {Filter{UserID: &f.user}, 1},
		"a user and a client":     {Filter{&f.user, &f.client.ID}, 1},
		"an unknown client":       {Filter{ClientID: &stranger}, 0},
		"an unknown user":         {Filter{UserID: &stranger}, 0},
		"a user and a stranger":   {Filter{&f.user, &stranger}, 0},
		"a stranger and a client": {Filter{&stranger, &f.client.ID}, 0},
	} {
		if list, err := f.Connections(t.Context(), test.filter, page.Key{}, 10); err != nil || len(list) != test.want {
			t.Errorf("filter by %s: %d connections, %v, want %d", name, len(list), err, test.want)
		}
	}
}

// Specification 3.2: a user's disconnect is the client's: everything ends, a code in flight too, and the next
// connection is fresh.
func TestDisconnectUser_3_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); !errors.Is(err, ErrNotConnected) {
		t.Fatalf("never connected: %v", err)
	}
	tokens := f.connect(t, scope.DailySteps)
	f.db.Clock.Advance(24 * time.Hour)
	tokens = f.refresh(t, tokens)
	code := f.code(t, scope.DailySteps)
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	f.dead(t, tokens)
	f.noGrant(t, tokens)
	if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("a code of before: %v", err)
	}

	// The same again ends what was allowed since.
	code = f.code(t, scope.All)
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("a code of between: %v", err)
	}

	fresh := f.connect(t, scope.All)
	if fresh.GrantID != tokens.GrantID || fresh.ConnectionVersion != 4 || fresh.HistoryFrom.Format(time.DateOnly) != "2026-03-11" {
		t.Errorf("connected anew: grant %v, version %d, from %v", fresh.GrantID, fresh.ConnectionVersion, fresh.HistoryFrom)
	}
}

// The details of a connection tell how often and when it was refreshed, although a refresh writes nothing for that.
func TestDetails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	life := func() Connection {
		t.Helper()
		life, err := f.Connection(t.Context(), f.user, f.client.ID)
		if err != nil {
			t.Fatal(err)
		}
		return life
	}
	if _, err := f.Connection(t.Context(), f.user, f.client.ID); !errors.Is(err, ErrNotConnected) {
		t.Errorf("before a connection: %v", err)
	}
	code := f.code(t, scope.All)
	if _, err := f.Connection(t.Context(), f.user, f.client.ID); !errors.Is(err, ErrNotConnected) {
		t.Errorf("of a code that was not exchanged: %v", err)
	}
	tokens, err := f.exchange(t, code)
	if err != nil {
		t.Fatal(err)
	}
	if got := life(); got.Refreshes != 0 || !got.LastRefreshAt.IsZero() || got.State != Authorized || got.ClientStatus != "active" || got.MissingScopes != 0 ||
		got.GrantID != tokens.GrantID || got.Partner.Name != "Ride Club" {
		t.Errorf("just connected: %+v", got)
	}

	f.db.Clock.Advance(24 * time.Hour)
	f.refresh(t, f.refresh(t, tokens))
	refreshed := f.db.Now()
	about := func(got, want time.Time) bool { return got.Sub(want).Abs() < time.Minute }
	if got := life(); got.Refreshes != 2 || !about(got.LastRefreshAt, refreshed) || !about(got.RefreshDeadline, refreshed.Add(f.settings.RefreshInactivity)) {
		t.Errorf("after two refreshes: %+v", got)
	}

	if _, err := f.registry.Update(t.Context(), f.client.ID, func(r *client.Registration) { r.Scopes = scope.DailySteps }); err != nil {
		t.Fatal(err)
	}
	if got := life(); got.MissingScopes != scope.All&^scope.DailySteps {
		t.Errorf("the registration has lost scopes: %+v", got)
	}
	f.db.Clock.Advance(f.settings.RefreshInactivity)
	if got := life(); got.State != Lapsed || !about(got.RefreshDeadline, refreshed.Add(f.settings.RefreshInactivity)) {
		t.Errorf("lapsed: %+v", got)
	}
	if err := f.DisconnectByOperator(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	if err := f.registry.Disable(t.Context(), f.client.ID); err != nil {
		t.Fatal(err)
	}
	if got := life(); got.State != Disconnected || got.Refreshes != 2 || !about(got.LastRefreshAt, refreshed) || got.ClientStatus != "disabled" {
		t.Errorf("disconnected: %+v", got)
	}
}

// Requests that have ended are not counted.
func TestCountRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.signedIn(t, scope.All)
	f.db.Clock.Advance(DefaultSettings.RequestLifetime + time.Second)
	f.signedIn(t, scope.All)
	f.signedIn(t, scope.DailySteps)
	if n, err := f.CountRequests(t.Context(), f.user); err != nil || n != 2 {
		t.Errorf("%d requests, %v; want 2", n, err)
	}
	if n, err := f.CountRequests(t.Context(), f.newUser(t, "UTC")); err != nil || n != 0 {
		t.Errorf("%d requests of another user, %v", n, err)
	}
}

// The table refuses every row that is not a connection.
func TestConnectionsAreWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.connect(t, scope.DailySteps)
	for _, wrong := range []string{
		"version = -1", "state = 'lapsed', refresh_hash = null", "refresh_generation = -1", "refresh_hash = 'short'", "refresh_hash = null",
		"state = 'disconnected'", "version = 0",
	} {
		// A shard's constraint has the same name and a number.
		_, err := f.db.Pool.Exec(t.Context(), "update connections set "+wrong)
		if err == nil || !strings.Contains(err.Error(), "connections_whole") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestBrowserOfAConnection is that of the consent that the connection has, and is unknown if a server of release 1.0.0 took the consent.
func TestBrowserOfAConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	allow := func(in string) {
		t.Helper()
		id, browser := f.consent(t, scope.All)
		location, err := f.Allow(t.Context(), id, browser, in)
		if err == nil {
			_, err = f.exchange(t, parameter(t, location, "code"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		if list := f.ofUser(t); len(list) != 1 || list[0].Browser != want {
			t.Errorf("the user's connections are %+v, want one of the browser %q", list, want)
		}
	}
	const older = "update connections set version = version + 1, authorized_at = connect_now()"
	allow("Firefox (Linux)")
	is("Firefox (Linux)")
	allow("Chrome (Windows)")
	is("Chrome (Windows)")
	f.db.Exec(t, older)
	is("")
	allow("Safari (macOS)")
	is("Safari (macOS)")
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	f.db.Exec(t, older+", state = 'authorized', refresh_hash = sha256('')")
	is("")
}
