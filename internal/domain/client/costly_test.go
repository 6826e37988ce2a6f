package client_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// A hundred and fifty acts at once on thirty servers are as many as the budget allows, which is there again after an hour.
func TestCostlyActsAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	servers := make([]*client.Registry, 30)
	for i := range servers {
		servers[i] = client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	}
	partner, _ := create(t, servers[0], rideClub)
	other, _ := create(t, servers[0], rideClub)
	kim := work.WithActor(t.Context(), "partner:kim")
	atOnce := func() int64 {
		t.Helper()
		var made atomic.Int64
		var group sync.WaitGroup
		for i := range 150 {
			group.Go(func() {
				_, err := servers[i%len(servers)].RotateSecret(work.WithActor(t.Context(), fmt.Sprintf("partner:kim%d", i%3)), partner.ID, 0)
				spent, isSpent := errors.AsType[refusal.OverBudget](err)
				switch {
				case err == nil:
					made.Add(1)
				case !isSpent || spent.Wait <= 0 || spent.Wait > time.Hour || spent.Until.Sub(db.Now()) > time.Hour:
					t.Error(err)
				}
			})
		}
		group.Wait()
		return made.Load()
	}
	if made := atOnce(); made != 6 {
		t.Errorf("%d acts were made", made)
	}
	if entries := pgtest.Value[int](t, db, "select count(*) from audit_log where action = 'client.secret_replaced'"); entries != 6 {
		t.Errorf("the log has %d", entries)
	}
	if _, err := servers[1].RotateSecret(kim, other.ID, 0); err != nil {
		t.Errorf("of another client: %v", err)
	}
	if _, err := servers[1].RotateSecret(t.Context(), partner.ID, 0); err != nil {
		t.Errorf("by an operator: %v", err)
	}
	db.Clock.Advance(time.Hour - time.Minute)
	if _, err := servers[0].RotateSecret(kim, partner.ID, 0); !errors.Is(err, refusal.ErrOverBudget) {
		t.Errorf("a minute too soon: %v", err)
	}
	db.Clock.Advance(2 * time.Minute)
	if made := atOnce(); made != 6 {
		t.Errorf("%d acts were made in the next hour", made)
	}
	db.Clock.Advance(-300 * 24 * time.Hour) // entries of a clock that was wrong
	if _, err := servers[0].RotateSecret(kim, partner.ID, 0); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
}

// Operators have more, and do not share it with the partner's people. The service itself has no budget.
func TestBudgetOfOperators(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	partner, _ := create(t, clients, rideClub)
	made := 0
	act := func(actor string) error {
		return clients.Costly(work.WithActor(t.Context(), actor), partner.ID, "webhook.tested", func(tx pgx.Tx) error {
			made++
			_, err := tx.Exec(t.Context(), "insert into audit_log (subject, actor, action, client_id) values ($1, $2, 'webhook.tested', $1)", partner.ID, actor)
			return err
		})
	}
	for actor, want := range map[string]int{"ada": 300, "partner:kim": 30} {
		made = 0
		var err error
		for err == nil {
			err = act(actor)
		}
		if !errors.Is(err, refusal.ErrOverBudget) || made != want {
			t.Errorf("%s: %d acts, then %v", actor, made, err)
		}
	}
	if err := act(work.System); err != nil {
		t.Error(err)
	}
}

// The contact gets an email about the first act at once. Those that follow within an hour are in one email, at its end or before the
// mail server has taken the first.
func TestContactIsToldOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	partner, _ := create(t, clients, rideClub)
	waiting := func(want ...string) {
		t.Helper()
		rows, err := db.Pool.Query(t.Context(), `select concat_ws(' ', data ->> 'what', data ->> 'by', data ->> 'times',
			case when due_at > now() + interval '59 minutes' then 'later' end) from notices order by due_at`)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		got, err = pgx.AppendRows(got, rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	must := func(actors ...string) {
		t.Helper()
		for _, actor := range actors {
			if _, err := clients.RotateSecret(work.WithActor(t.Context(), actor), partner.ID, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	must("ada")
	waiting()
	must("partner:kim")
	waiting("client_secret partner:kim")
	must("partner:kimi")
	waiting("client_secret partner:kim, partner:kimi 2")
	must("partner:kim")
	waiting("client_secret partner:kim, partner:kimi 3")
	db.Exec(t, "update notices set leased_until = now() + interval '1 minute'") // a server sends it
	must("partner:kim", "partner:kim")
	waiting("client_secret partner:kim, partner:kimi 3", "client_secret partner:kim 2 later")
	db.Exec(t, "delete from notices")
	db.Clock.Advance(2 * time.Hour)
	must("partner:kim")
	waiting("client_secret partner:kim")
	db.Exec(t, "delete from notices")
	// A refused act tells nobody.
	if _, err := clients.RotateSecret(work.WithActor(t.Context(), "partner:kim"), partner.ID, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	waiting("client_secret partner:kim later")
	if _, err := clients.RotateSeenSecret(work.WithActor(t.Context(), "partner:kim"), partner.ID, 0, db.Now()); !errors.Is(err, client.ErrReplacedSince) {
		t.Fatal(err)
	}
	waiting("client_secret partner:kim later")
}

// While the mail server is away an email waits that has failed for most of a day. A later act that it also tells of gives it another day, and a try soon.
func TestContactIsToldAfterAnOutage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	clients := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	partner, _ := create(t, clients, rideClub)
	rotate := func() {
		t.Helper()
		if _, err := clients.RotateSecret(work.WithActor(t.Context(), "partner:kim"), partner.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	db.Exec(t, "update notices set attempts = 9, due_at = now() + interval '8 hours'")
	db.Clock.Advance(24 * time.Hour)
	rotate()
	if got := pgtest.Value[string](t, db, "select concat_ws(' ', data ->> 'times', attempts, due_at <= now() + interval '1 hour') from notices"); got != "2 0 t" {
		t.Errorf("times, attempts, soon: %s", got)
	}
}
