package sdk_test

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"connect.invalid/connect-go/connect"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// Two users of a partner with one account, and one with two: nobody ends another unseen, and nothing stays open for ever.
func TestGoSDKSharedAccounts(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(*e2e.Service) connect.Store{
		"memory": func(*e2e.Service) connect.Store { return connect.NewMemoryStore() },
		// One connection to the database: who has a lock of the store needs no second one.
		"PostgreSQL": func(e *e2e.Service) connect.Store {
			database, err := url.Parse(e.DB.URL)
			if err != nil {
				t.Fatal(err)
			}
			query := database.Query()
			query.Set("pool_max_conns", "1")
			database.RawQuery = query.Encode()
			return newPGStore(t, database.String())
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := e2e.New(t)
			u := newSDKUser(t, e, open(e))
			finish := func(key string) connect.Connection {
				t.Helper()
				begun := u.client.Begin()
				connection, err := u.client.Finish(t.Context(), key, begun, u.Authorize(t, begun.URL))
				if err != nil {
					t.Fatal(err)
				}
				return connection
			}
			anna := finish("anna")
			if ben := finish("ben"); !slices.Equal(ben.SharedWith, []string{"anna"}) || ben.GrantID != anna.GrantID {
				t.Errorf("%v, shared with %v", ben, ben.SharedWith)
			}
			_, err := u.client.AccessToken(t.Context(), "anna")
			wantReconnect(t, err, connect.StateEnded)
			var shared *connect.SharedError
			if err := u.client.Disconnect(t.Context(), "anna"); !errors.As(err, &shared) || !slices.Equal(shared.Keys, []string{"ben"}) {
				t.Errorf("anna's disconnect: %v", err)
			}
			if err := u.client.Forget(t.Context(), "anna"); err != nil {
				t.Error(err)
			}
			if _, err := u.client.DailySteps(t.Context(), "ben", anna.HistoryFrom, anna.HistoryFrom); err != nil {
				t.Errorf("ben's read: %v", err)
			}

			u.User = e.DB.User(t) // another account
			if ben := finish("ben"); len(ben.FormerGrants) != 1 || ben.FormerGrants[0] != anna.GrantID {
				t.Errorf("ben's former accounts: %v", ben.FormerGrants)
			}
			ended := func() int64 {
				return pgtest.Value[int64](t, e.DB, "select count(*) from connections where state = 'disconnected'")
			}
			if n := ended(); n != 0 {
				t.Errorf("%d connections have ended", n)
			}
			if err := u.client.DisconnectFormer(t.Context(), "ben"); err != nil || ended() != 1 {
				t.Errorf("%v; %d connections have ended", err, ended())
			}
			if _, err := u.client.AccessToken(t.Context(), "ben"); err != nil {
				t.Error(err)
			}
		})
	}
}
