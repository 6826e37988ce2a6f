package activity_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/activity"
)

// The rows of a month for 10,000 users: what a feed sends, in no order of ours.
const benchmarkUsers, benchmarkDays = 10_000, 30

func (w world) benchmarkFile(b *testing.B) []byte {
	w.Exec(b, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(1, $1) n`,
		benchmarkUsers)
	rows, err := w.Pool.Query(b.Context(), "select user_id from users")
	if err != nil {
		b.Fatal(err)
	}
	var users []uuid.UUID
	for rows.Next() {
		var user uuid.UUID
		if err := rows.Scan(&user); err != nil {
			b.Fatal(err)
		}
		users = append(users, user)
	}
	var file bytes.Buffer
	file.WriteString("user_id,date,steps\n")
	for d := range benchmarkDays {
		date := day("2026-01-01").AddDate(0, 0, d).Format(time.DateOnly)
		for n, user := range users {
			fmt.Fprintf(&file, "%s,%s,%d\n", user, date, 1000+(n*7919+d)%15000)
		}
	}
	return file.Bytes()
}

// BenchmarkImportDailySteps measures an import of new rows, the same import again, and, to compare, a bare COPY of the
// same file into the same table, which spends most of its time on the foreign key of each row, and into a table without
// one.
func BenchmarkImportDailySteps(b *testing.B) {
	w := newWorld(b)
	file := w.benchmarkFile(b)
	const rows = benchmarkUsers * benchmarkDays
	perSecond := func(b *testing.B) {
		b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
	}
	empty := func(b *testing.B) {
		b.StopTimer()
		w.Exec(b, "truncate daily_steps")
		b.StartTimer()
	}
	imported := func(b *testing.B) {
		if _, err := w.ImportDailySteps(b.Context(), bytes.NewReader(file), activity.ImportOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			empty(b)
			imported(b)
		}
		perSecond(b)
	})
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			imported(b)
		}
		perSecond(b)
	})
	copied := func(b *testing.B, table string) {
		conn, err := pgx.Connect(b.Context(), w.URL)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(b.Context())
		if _, err := conn.Exec(b.Context(), "set statement_timeout = 0"); err != nil { // as the import does
			b.Fatal(err)
		}
		for b.Loop() {
			b.StopTimer()
			w.Exec(b, "truncate "+table)
			b.StartTimer()
			if _, err := conn.PgConn().CopyFrom(
				b.Context(), bytes.NewReader(file), "copy "+table+" (user_id, date, steps) from stdin (format csv, header)"); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	}
	b.Run("copy", func(b *testing.B) { copied(b, "daily_steps") })
	w.Exec(b, "create table no_foreign_key (like daily_steps including all)")
	b.Run("copy-no-foreign-key", func(b *testing.B) { copied(b, "no_foreign_key") })
}
