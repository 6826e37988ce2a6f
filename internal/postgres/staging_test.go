package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
	"connect-svc/internal/testing/pgtest"
)

// Each row is in one part, in the order of the key, whatever pages the table has: here its first pages, some in the middle and its last
// ones are empty, as PostgreSQL 16 and later leave the last ones when they extend a table by several pages at once.
func TestInParts(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	for _, rows := range []int{0, 1, 4096, 4097, 10_000} {
		err := postgres.InTx(t.Context(), db.Pool, func(tx pgx.Tx) error {
			query := fmt.Sprintf("select md5(n::text)::uuid as user_id, n from generate_series(1, %d) n", rows)
			if err := postgres.Number(t.Context(), tx, "numbered", query, "user_id"); err != nil {
				return err
			}
			for _, statement := range []string{
				"insert into numbered select -n, gen_random_uuid(), n from generate_series(1, 20000) n",
				"update numbered set n = n where number % 8192 > 4096",
				"insert into numbered select -20000 - n, gen_random_uuid(), n from generate_series(1, 20000) n",
				"delete from numbered where number < 0",
			} {
				if _, err := tx.Exec(t.Context(), statement); err != nil {
					return err
				}
			}
			var got []uuid.UUID
			share := 0.0
			if err := postgres.InParts(t.Context(), tx, "numbered", func(part postgres.Part) error {
				read := func(condition string, args ...any) []uuid.UUID {
					found, _ := tx.Query(t.Context(), "select user_id from numbered where "+condition+" order by number", args...)
					ids, err := pgx.CollectRows(found, pgx.RowTo[uuid.UUID])
					if err != nil {
						t.Fatal(err)
					}
					return ids
				}
				ids := read(postgres.InPart, part.Args()[:2]...)
				if len(ids) == 0 || ids[0] != part.First || ids[len(ids)-1] != part.Last || part.Share <= share {
					t.Errorf("%d rows, %+v after %v", len(ids), part, share)
				}
				if diff := cmp.Diff(ids, read("user_id between $1 and $2", part.Args()[2:]...)); diff != "" {
					t.Errorf("rows by number and by user: %s", diff)
				}
				share, got = part.Share, append(got, ids...)
				return nil
			}); err != nil {
				return err
			}
			found, _ := tx.Query(t.Context(), "select user_id from numbered order by user_id")
			want, err := pgx.CollectRows(found, pgx.RowTo[uuid.UUID])
			if diff := cmp.Diff(want, append([]uuid.UUID{}, got...)); diff != "" || len(want) != rows || (rows > 0) != (share == 1) {
				t.Errorf("%d rows of %d, up to %v: %s", len(want), rows, share, diff)
			}
			return err
		})
		if err != nil {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}
