package activity_test

import (
	"strings"
	"testing"
	"time"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
)

// A read is one statement, and that is a range of primary keys and nothing else, however much is stored.
func TestReadsUsePrimaryKeysAlone(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	w := newWorld(t)
	w.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(1, 200) n`)
	w.Exec(t, `insert into daily_steps select user_id, date, 1 from users,
		generate_series('2026-01-01'::date, '2026-04-30', '1 day') date`)
	w.Exec(t, `insert into cycling_activities (user_id, start_time, distance_meters, source_id)
		select user_id, at, 1, at::text from users,
		generate_series('2026-01-01'::timestamp, '2026-04-30', '1 day') at`)
	w.Exec(t, "insert into step_corrections select user_id, date, gen_random_uuid(), 1, '', now() from daily_steps")
	w.Exec(t, "insert into cycling_adjustments select user_id, date, gen_random_uuid(), 1, '', now() from daily_steps")
	w.Exec(t, "vacuum analyze")
	reader := w.reader(w.newUser(t, "UTC"))

	for _, test := range []struct {
		name string
		read func(*activity.Store) error
	}{
		{"4.7 daily steps", func(a *activity.Store) error {
			_, err := a.DailySteps(t.Context(), reader.UserID, april)
			return err
		}},
		{"4.8 daily cycling", func(a *activity.Store) error {
			_, err := a.CyclingDaily(t.Context(), reader.UserID, april)
			return err
		}},
		{"4.9 cycling activities", func(a *activity.Store) error {
			_, err := a.CyclingPage(t.Context(), reader, april, 100, "")
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			queries := new(pgtest.Statements)
			pool, err := postgres.Open(t.Context(), w.URL, postgres.WithTracer(queries))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			*queries = nil // what opening it asked
			a := activity.New(pool, credential.NewTestKeyring(), activity.Settings{CursorLifetime: time.Minute})
			if err := test.read(a); err != nil {
				t.Fatal(err)
			}
			if len(*queries) != 1 {
				t.Fatalf("%d statements, want 1: %v", len(*queries), *queries)
			}
			queries.Explain(t, pool, func(_ string, plan []pgtest.PlanNode) {
				for _, n := range plan {
					good := strings.HasSuffix(n.Index, "_pkey") || n.Type == "Bitmap Heap Scan" || n.Alias == "rides" && n.Table == ""
					if strings.HasSuffix(n.Type, "Scan") && !good {
						t.Errorf("%s of %s %s in the plan", n.Type, n.Alias, n.Index)
					}
					if n.Filter != "" {
						t.Errorf("the plan reads rows that it throws away: %s", n.Filter)
					}
				}
			})
		})
	}
}
