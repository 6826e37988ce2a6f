package sdk_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/connect/pgstore"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// The scenarios of the SDKs. TypeScript plays the same, by the same names: sdk/typescript/test/service.test.ts.

// sdkKey is the partner's own name for its user.
const sdkKey = "member-7"

// sdkUser is one partner with a client of the SDK, and one user with data of today.
type sdkUser struct {
	*e2e.Service
	client *connect.Client
	store  connect.Store

	mu    sync.Mutex
	slept []time.Duration
	// sleep is what a wait of the client does; at first it moves the service's clock.
	sleep func(d time.Duration)
}

// newSDKUser makes the partner and the user on a service that runs. Their data: 4321 steps and three rides today.
func newSDKUser(t *testing.T, e *e2e.Service, store connect.Store, change ...func(*pgtest.Client)) *sdkUser {
	t.Helper()
	own := *e
	own.Partner, own.User = e.DB.Client(t, change...), e.DB.User(t)
	e.DB.Exec(t, `insert into daily_steps (user_id, date, steps) values ($1, (connect_now() at time zone 'UTC')::date, 4321)`, own.User.ID)
	e.DB.Exec(t, `insert into cycling_activities (user_id, source_id, start_time, distance_meters)
		select $1, 'ride-' || n, date_trunc('day', connect_now() at time zone 'UTC') + n * interval '1 minute', 1000 * n from generate_series(1, 3) n`, own.User.ID)
	u := &sdkUser{Service: &own, store: store}
	u.sleep = func(d time.Duration) { e.DB.Clock.Advance(d) }
	u.client = u.instance(t, store)
	return u
}

// instance is another process of the partner's backend.
func (u *sdkUser) instance(t *testing.T, store connect.Store) *connect.Client {
	t.Helper()
	client, err := connect.New(connect.Config{
		BaseURL: u.Base, ClientID: u.Partner.ID.String(), ClientSecret: u.Partner.Secret, CallbackURL: u.Partner.CallbackURL,
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead, connectsdk.ScopeCyclingDailyRead, connectsdk.ScopeCyclingActivitiesRead},
		Store:  store, HTTPClient: &http.Client{Transport: u.TLS}, // newEndToEnd holds the service's own answers against the document
		Now: u.DB.Clock.Now, Jitter: func(time.Duration) time.Duration { return 0 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			u.mu.Lock()
			u.slept = append(u.slept, d)
			u.mu.Unlock()
			u.sleep(d)
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Wait)
	return client
}

func (u *sdkUser) connect(t *testing.T) connect.Connection {
	t.Helper()
	begun := u.client.Begin()
	connection, err := u.client.Finish(t.Context(), sdkKey, begun, u.Authorize(t, begun.URL))
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

func (u *sdkUser) steps(t *testing.T) (connectsdk.DailyActivity, error) {
	t.Helper()
	held, err := u.store.Load(t.Context(), sdkKey)
	if err != nil {
		return connectsdk.DailyActivity{}, err
	}
	return u.client.DailySteps(t.Context(), sdkKey, held.HistoryFrom, held.HistoryFrom)
}

// expire lets the access token run out.
func (u *sdkUser) expire() { u.DB.Clock.Advance(6 * time.Minute) }

func wantReconnect(t *testing.T, err error, want connect.State) {
	t.Helper()
	var reconnect *connect.ReconnectError
	if !errors.As(err, &reconnect) || reconnect.State != want || !errors.Is(err, connect.ErrReconnect) {
		t.Errorf("the error is %v, want that the user must connect again (%s)", err, want)
	}
}

// sdkScenarios are those of both languages, by name.
var sdkScenarios = map[string]func(*testing.T, *e2e.Service, connect.Store){
	"connect and read all three datasets with paging": sdkReads,
	"a user says no":                               sdkDenied,
	"eight reads at once refresh once":             sdkRefreshesOnce,
	"a used refresh token is never sent again":     sdkReplay,
	"a 429 holds back the whole pool":              sdkRateLimited,
	"a 503 is tried again":                         sdkUnavailable,
	"a refresh of unknown outcome is not repeated": sdkUncertain,
	"a rejected access token is refreshed once":    sdkRejected,
	"revoke":     sdkRevoke,
	"disconnect": sdkDisconnect,
}

func TestGoSDK(t *testing.T) {
	t.Parallel()
	stores := map[string]func(*testing.T, *e2e.Service) connect.Store{
		"memory":     func(*testing.T, *e2e.Service) connect.Store { return connect.NewMemoryStore() },
		"PostgreSQL": func(t *testing.T, e *e2e.Service) connect.Store { return newPGStore(t, e.DB.URL) },
	}
	for kind, store := range stores {
		for name, scenario := range sdkScenarios {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := e2e.New(t)
				scenario(t, e, store(t, e))
			})
		}
	}
}

func newPGStore(t *testing.T, database string, asItIs ...bool) connect.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if !slices.Contains(asItIs, true) {
		if _, err := pool.Exec(t.Context(), pgstore.Schema); err != nil {
			t.Fatal(err)
		}
	}
	partners := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = partners.Close() })
	store, err := pgstore.New(partners, []byte(strings.Repeat("k", pgstore.KeyBytes)))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func sdkReads(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	connection := u.connect(t)
	day := connection.HistoryFrom
	steps, err := u.steps(t)
	if err != nil || len(steps.Data) != 1 || steps.Data[0].Steps != 4321 {
		t.Errorf("steps %+v, %v", steps.Data, err)
	}
	cycling, err := u.client.CyclingDaily(t.Context(), sdkKey, day, day)
	if err != nil || len(cycling.Data) != 1 || cycling.Data[0].DistanceMeters != 6000 {
		t.Errorf("cycling %+v, %v", cycling.Data, err)
	}
	var meters []int64
	for ride, err := range u.client.CyclingActivities(t.Context(), sdkKey, day, day, 2) {
		if err != nil {
			t.Fatal(err)
		}
		meters = append(meters, ride.DistanceMeters)
	}
	if len(meters) != 3 || meters[0] != 1000 || meters[2] != 3000 || e.Faults.Seen("cycling-activities") != 2 {
		t.Errorf("rides %v in %d pages", meters, e.Faults.Seen("cycling-activities"))
	}
	tooLong := connectsdk.CalendarDate{Time: day.AddDate(0, 0, 31)}
	var refused *connect.Error
	if _, err := u.client.DailySteps(t.Context(), sdkKey, day, tooLong); !errors.As(err, &refused) ||
		refused.Code != "invalid_date_range" || refused.RequestID == "" {
		t.Errorf("32 days: %v", err)
	}
}

func sdkDenied(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	begun := u.client.Begin()
	no := url.Values{"state": {begun.State}, "error": {"access_denied"}}
	if _, err := u.client.Finish(t.Context(), sdkKey, begun, no); !errors.Is(err, connect.ErrDenied) {
		t.Errorf("a no: %v", err)
	}
	yes := u.Authorize(t, begun.URL)
	if _, err := u.client.Finish(t.Context(), sdkKey, u.client.Begin(), yes); !errors.Is(err, connect.ErrState) {
		t.Errorf("the answer to another question: %v", err)
	}
	if _, err := u.steps(t); !errors.Is(err, connect.ErrNotConnected) || e.Faults.Seen("token") != 0 {
		t.Errorf("a read: %v, after %d token requests", err, e.Faults.Seen("token"))
	}
}

func sdkRefreshesOnce(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	first := u.connect(t)
	u.expire()
	instances := []*connect.Client{u.client, u.instance(t, store)} // they share nothing but the store
	before := e.Faults.Seen("token")
	var reads sync.WaitGroup
	for i := range 8 {
		reads.Go(func() {
			if _, err := instances[i%2].DailySteps(t.Context(), sdkKey, first.HistoryFrom, first.HistoryFrom); err != nil {
				t.Error(err)
			}
		})
	}
	reads.Wait()
	if n := e.Faults.Seen("token") - before; n != 1 {
		t.Errorf("%d refreshes", n)
	}
	second, err := store.Load(t.Context(), sdkKey)
	if err != nil || second.RefreshToken == first.RefreshToken || second.GrantID != first.GrantID || second.Version != first.Version {
		t.Errorf("the connection after the refresh: %v, %v", second, err)
	}
}

func sdkReplay(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	u.connect(t)
	for range 3 { // a chain: each token once
		if _, err := u.client.Refresh(t.Context(), sdkKey); err != nil {
			t.Fatal(err)
		}
	}
	used, err := store.Load(t.Context(), sdkKey)
	if err != nil {
		t.Fatal(err)
	}
	// The process ends while its refresh is on the way: the next one must not send the token again.
	lock, err := store.Lock(t.Context(), sdkKey)
	if err != nil {
		t.Fatal(err)
	}
	sent := used
	sent.State = connect.StateRefreshing
	if err := lock.Save(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	u.expire()
	before := e.Faults.Seen("token")
	_, err = u.steps(t)
	wantReconnect(t, err, connect.StateUncertain)
	if n := e.Faults.Seen("token") - before; n != 0 {
		t.Errorf("%d refreshes with a token that was sent before", n)
	}
	// Somebody stole a token and used it: the service ends the connection, and the SDK says so.
	u.connect(t)
	stolen, err := store.Load(t.Context(), sdkKey)
	if err != nil {
		t.Fatal(err)
	}
	thief := connect.NewMemoryStore()
	theirs, err := thief.Lock(t.Context(), sdkKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.Save(t.Context(), stolen); err != nil {
		t.Fatal(err)
	}
	theirs.Unlock()
	if _, err := u.instance(t, thief).Refresh(t.Context(), sdkKey); err != nil {
		t.Fatal(err)
	}
	_, err = u.client.Refresh(t.Context(), sdkKey)
	wantReconnect(t, err, connect.StateEnded)
}

func sdkRateLimited(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store, func(c *pgtest.Client) { c.RequestsPerMinute, c.Burst = 1, 2 })
	connection := u.connect(t)
	if _, err := u.steps(t); err != nil {
		t.Fatal(err)
	}
	// Another program spends the rest of the budget, and the client does not know.
	answer, err := u.api(t).ReadCyclingActivitiesWithResponse(t.Context(), connection.GrantID,
		&connectsdk.ReadCyclingActivitiesParams{From: connection.HistoryFrom, To: connection.HistoryFrom},
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+connection.AccessToken)
			return nil
		})
	if err != nil || answer.StatusCode() != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	// The wait after the 429 begins a second read, which is not to be sent before the time has come.
	var second sync.WaitGroup
	var begin sync.Once
	u.sleep = func(d time.Duration) {
		if d > 30*time.Second {
			begin.Do(func() {
				second.Go(func() {
					if _, err := u.client.CyclingDaily(t.Context(), sdkKey, connection.HistoryFrom, connection.HistoryFrom); err != nil {
						t.Error(err)
					}
				})
			})
		}
		e.DB.Clock.Advance(d)
	}
	if _, err := u.steps(t); err != nil {
		t.Error(err)
	}
	second.Wait()
	if n := e.Faults.Seen("daily-activity"); n != 3 || e.Faults.Seen("cycling-daily") != 1 {
		t.Errorf("steps were asked for %d times, want 3: once with success, once too often, once more; cycling %d times, want 1; it slept %v", n, e.Faults.Seen("cycling-daily"), u.slept)
	}
}

// api is a client of the document alone.
func (u *sdkUser) api(t *testing.T) *connectsdk.ClientWithResponses {
	t.Helper()
	api, err := connectsdk.NewClientWithResponses(u.Base, connectsdk.WithHTTPClient(&http.Client{Transport: u.TLS}))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func sdkUnavailable(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	u.connect(t)
	for range 3 {
		e.Faults.Plant("daily-activity", e2e.FaultUnavailable)
	}
	if steps, err := u.steps(t); err != nil || len(steps.Data) != 1 {
		t.Errorf("after three failures: %+v, %v", steps.Data, err)
	}
	// Beside these it waits for slots, which the database gives by its own clock.
	waits := slices.DeleteFunc(slices.Clone(u.slept), func(d time.Duration) bool { return d%(250*time.Millisecond) != 0 })
	if !slices.Equal(waits, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second}) {
		t.Errorf("the waits were %v", u.slept)
	}
	for range 4 {
		e.Faults.Plant("daily-activity", e2e.FaultUnavailable)
	}
	var refused *connect.Error
	if _, err := u.steps(t); !errors.As(err, &refused) || refused.Code != "data_unavailable" {
		t.Errorf("after four failures: %v", err)
	}
	e.Faults.Plant("daily-activity", e2e.FaultLost)
	if _, err := u.steps(t); err != nil {
		t.Errorf("after a broken connection: %v", err)
	}
}

func sdkUncertain(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	for _, kind := range []string{e2e.FaultLost, e2e.FaultSwallowed, e2e.FaultUnavailable} {
		first := u.connect(t)
		u.expire()
		e.Faults.Plant("/oauth/token", kind)
		before := e.Faults.Seen("token")
		for range 2 {
			_, err := u.steps(t)
			wantReconnect(t, err, connect.StateUncertain)
		}
		if n := e.Faults.Seen("token") - before; n != 1 {
			t.Errorf("%s: the token was sent %d times", kind, n)
		}
		held, err := store.Load(t.Context(), sdkKey)
		if err != nil || held.RefreshToken != "" || held.AccessToken != "" || held.GrantID != first.GrantID {
			t.Errorf("%s: what is kept: %v, %v", kind, held, err)
		}
		wantReconnect(t, u.client.Revoke(t.Context(), sdkKey), connect.StateUncertain)
	}
	u.connect(t)
	if _, err := u.steps(t); err != nil {
		t.Errorf("connected again: %v", err)
	}
}

func sdkRejected(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	first := u.connect(t)
	answer, err := u.api(t).RevokeTokenWithFormdataBodyWithResponse(t.Context(), connectsdk.RevokeRequest{Token: first.AccessToken},
		func(_ context.Context, r *http.Request) error {
			r.SetBasicAuth(u.Partner.ID.String(), u.Partner.Secret)
			return nil
		})
	if err != nil || answer.StatusCode() != http.StatusOK {
		t.Fatal(err)
	}
	before := e.Faults.Seen("token")
	if _, err := u.steps(t); err != nil {
		t.Error(err)
	}
	if n := e.Faults.Seen("token") - before; n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

func sdkRevoke(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	first := u.connect(t)
	e.Faults.Plant("/oauth/revoke", e2e.FaultUnavailable) // tried again
	for range 2 {
		if err := u.client.Revoke(t.Context(), sdkKey); err != nil {
			t.Error(err)
		}
	}
	_, err := u.steps(t)
	wantReconnect(t, err, connect.StateEnded)
	if n := e.Faults.Seen("revoke"); n != 2 {
		t.Errorf("%d requests", n)
	}
	if again := u.connect(t); again.GrantID != first.GrantID || again.HistoryFrom != first.HistoryFrom || again.Version == first.Version {
		t.Errorf("connected again: %v after %v", again, first)
	}
}

func sdkDisconnect(t *testing.T, e *e2e.Service, store connect.Store) {
	u := newSDKUser(t, e, store)
	u.connect(t)
	e.Faults.Plant(sdkGrantPath(t, store), e2e.FaultSwallowed) // tried again
	if err := u.client.Disconnect(t.Context(), sdkKey); err != nil {
		t.Error(err)
	}
	if _, err := u.steps(t); !errors.Is(err, connect.ErrNotConnected) {
		t.Errorf("a read: %v", err)
	}
	if err := u.client.Disconnect(t.Context(), sdkKey); !errors.Is(err, connect.ErrNotConnected) {
		t.Errorf("once more: %v", err)
	}
	if state := pgtest.Value[string](t, e.DB, "select state from connections"); state != "disconnected" {
		t.Errorf("the service says %s", state)
	}
	u.connect(t)
	if _, err := u.steps(t); err != nil {
		t.Errorf("connected again: %v", err)
	}
}

func sdkGrantPath(t *testing.T, store connect.Store) string {
	t.Helper()
	held, err := store.Load(t.Context(), sdkKey)
	if err != nil {
		t.Fatal(err)
	}
	return held.GrantID.String()
}
