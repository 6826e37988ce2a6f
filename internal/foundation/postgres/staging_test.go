package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Each row is in one part, with all rows of its user, in the order of the users, whatever pages the table has: here its first pages, some in
// the middle and its last ones are empty, as PostgreSQL 16 and later leave the last ones when they extend a table by several pages at once.
func TestInParts(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	for _, test := range []struct{ rows, ofUser, parts int }{
		{0, 1, 0}, {1, 1, 1}, {4096, 1, 1}, {4097, 1, 2}, {10_000, 1, 3}, {10_000, 3000, 2}, {10_000, 10_000, 1},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			read := func(tx pgx.Tx, condition string, args ...any) []int64 {
				found, _ := tx.Query(t.Context(), "select n from staged where "+condition+" order by n", args...) // CollectRows has its error
				numbers, err := pgx.CollectRows(found, pgx.RowTo[int64])
				if err != nil {
					t.Fatal(err)
				}
				return numbers
			}
			err := postgres.InTx(t.Context(), db.Pool, func(tx pgx.Tx) error {
				for _, statement := range []string{
					"create temporary table staged (user_id uuid, n bigint) on commit drop",
					"insert into staged select gen_random_uuid(), -n from generate_series(1, 20000) n",
					// The first user has the lowest id that there is.
					fmt.Sprintf("insert into staged select lpad(to_hex((n - 1) / %d), 32, '0')::uuid, n from generate_series(1, %d) n", test.ofUser, test.rows),
					"update staged set n = n where n % 8192 > 4096",
					"insert into staged select gen_random_uuid(), -n from generate_series(1, 20000) n",
					"delete from staged where n < 0",
				} {
					if _, err := tx.Exec(t.Context(), statement); err != nil {
						return err
					}
				}
				want := read(tx, "true")
				got := want[:0:0]
				parts, share := 0, 0.0
				if err := postgres.InParts(t.Context(), tx, "staged", func(part postgres.Part) error {
					numbers := read(tx, postgres.InPart, part.Args()...)
					got = append(got, numbers...)
					if parts++; int(part.Rows) != len(numbers) || part.Rows == 0 || part.Share <= share {
						t.Errorf("%d rows in %+v after %v", len(numbers), part, share)
					}
					share = part.Share
					return nil
				}); err != nil {
					return err
				}
				if diff := cmp.Diff(want, got); diff != "" || len(want) != test.rows || parts != test.parts || parts > 0 && share != 1 {
					t.Errorf("%d rows in %d parts, up to %v: %s", len(want), parts, share, diff)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that vanishes in the middle of a batch, so that nothing closes its connection, does not keep the batch's locks. An import, which can take
// any time, goes on after any pause.
func TestStageOfAServerThatVanishes(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	limits := wait.Patient
	limits.IdleTransaction = 50 * time.Millisecond
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithLimits(limits))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for limit, ends := range map[time.Duration]bool{limits.Batch: true, 0: false} {
		_ = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			if err := postgres.Stage(t.Context(), tx, limit, []string{"n"}, []string{"int"}, pgx.CopyFromRows([][]any{{1}})); err != nil {
				t.Fatal(err)
			}
			var pid int
			var pause string
			if err := tx.QueryRow(t.Context(), "select pg_backend_pid(), current_setting('idle_in_transaction_session_timeout')").Scan(&pid, &pause); err != nil {
				t.Fatal(err)
			}
			if !ends {
				if pause != "0" {
					t.Errorf("an import may pause for %s", pause)
				}
				return nil
			}
			wait.Until(t, "the end of the batch", func() bool {
				return pgtest.Value[int](t, db, "select count(*)::int from pg_stat_activity where pid = $1", pid) == 0
			})
			return nil
		})
	}
}
