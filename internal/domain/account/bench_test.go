package account

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/testing/pgtest"
)

// BenchmarkImportUsers measures an import of new users, the same import again, and, to compare, a bare COPY of the same rows into
// the same table, which makes neither addresses nor entries of the audit log.
func BenchmarkImportUsers(b *testing.B) {
	db := pgtest.New(b)
	accounts := New(db.Pool, nil, nil, Settings{EndRequests: func(context.Context, pgx.Tx, []uuid.UUID) error { return nil }})
	const users = 100_000
	var file bytes.Buffer
	file.WriteString(usersHeader)
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"}
	for i := range users {
		fmt.Fprintf(&file, "%s,somebody.%d@mail.example.com,%s,2026-01-%02d\n", uuid.New(), i, zones[i%len(zones)], 1+i%31)
	}
	perSecond := func(b *testing.B) { b.ReportMetric(float64(users*b.N)/b.Elapsed().Seconds(), "users/s") }
	empty := func(b *testing.B) {
		b.StopTimer()
		db.Exec(b, "truncate users cascade")
		db.Exec(b, "truncate user_addresses, audit_log")
		b.StartTimer()
	}
	imported := func(b *testing.B) {
		if _, err := accounts.ImportUsers(b.Context(), bytes.NewReader(file.Bytes()), nil); err != nil {
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
	db.Exec(b, "create table bare (like users including all)")
	db.Exec(b, "alter table bare alter created_at set default now()")
	b.Run("copy", func(b *testing.B) {
		conn, err := pgx.Connect(b.Context(), db.URL)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(b.Context())
		if _, err := conn.Exec(b.Context(), "set statement_timeout = 0"); err != nil { // as the import does
			b.Fatal(err)
		}
		for b.Loop() {
			b.StopTimer()
			db.Exec(b, "truncate bare")
			b.StartTimer()
			if _, err := conn.PgConn().CopyFrom(b.Context(), bytes.NewReader(file.Bytes()),
				"copy bare (user_id, email, timezone, registered_on) from stdin (format csv, header)"); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	})
}
