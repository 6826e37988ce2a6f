package users_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// The service works on a database of any locale. A user whom release 1.0.0 has stored, by the lower() of that locale, connects, in another case
// and spelling of the address, and the partner reads.
func TestAnyLocale(t *testing.T) {
	t.Parallel()
	for kind := range pgtest.Locales {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewIn(t, kind)
			id := uuid.New()
			db.Exec(t, `with address as (insert into user_addresses (address, user_id, email) values (lower($2), $1, $2))
				insert into users (user_id, email, timezone, registered_on, created_at) values ($1, $2, 'UTC', '2020-01-01', connect_now())`,
				id, "INES1@Bücher.example")
			e := e2e.NewOn(t, db)
			if unusable, err := e.App.Accounts.KeyAddresses(t.Context()); err != nil || len(unusable.Shared)+len(unusable.Invalid) != 0 {
				t.Fatalf("%v, %v", unusable, err)
			}
			db.Exec(t, "update clients set name = 'İstanbul Koşu Kulübü' where client_id = $1", e.Partner.ID)
			rows := strings.NewReader("user_id,date,steps\n" + id.String() + ",2026-01-31,7000\n")
			if _, err := e.App.Activity.ImportDailySteps(t.Context(), rows, activity.ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			e.User.Email = "ines1@XN--Bcher-KVA.Example"
			_, token := e.Connect(t)
			if status := e.Read(t, token); status != http.StatusOK {
				t.Errorf("a read answers %d", status)
			}
			if user, err := e.App.Accounts.FindUser(t.Context(), "INES1@bücher.example"); err != nil || user.ID != id {
				t.Errorf("found %v, %v", user, err)
			}
			if list, err := e.App.Clients.List(t.Context(), client.Filter{Query: "KOŞU kulü"}, page.Key{}, 10); err != nil || len(list) != 1 {
				t.Errorf("found %v, %v", list, err)
			}
			if list, err := e.App.OAuth.ConnectionsOfUser(t.Context(), id); err != nil || len(list) != 1 {
				t.Errorf("connections: %v, %v", list, err)
			}
		})
	}
}
