package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
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
