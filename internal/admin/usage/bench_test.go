package usage

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// BenchmarkCount is what the counting adds to a request.
func BenchmarkCount(b *testing.B) {
	u := New(nil, work.DefaultLimits, slog.New(slog.DiscardHandler), time.Now)
	request := Request{uuid.New(), "readDailyActivity", 200, 3 * time.Millisecond, true}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			u.Count(request)
		}
	})
}

// BenchmarkFold measures a fold of 2,000 clients, all of which have asked since the last one, or none, with what is written to the
// write-ahead log.
func BenchmarkFold(b *testing.B) {
	db := pgtest.New(b)
	db.StartAt(b, start)
	u := patient(db, slog.New(slog.DiscardHandler))
	db.Exec(b, `insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads,
			contact_email, created_at)
		select md5('client ' || n)::uuid, 'Partner ' || n, 'https://p.example/cb', 7, sha256('x'), 600, 60, 10, 'team@p' || n || '.example', connect_now()
		from generate_series(1, 2000) n`)
	db.Exec(b, `insert into usage_hours (client_id, hour, operation, status, requests, durations)
		select client_id, date_trunc('hour', connect_now()) - h * interval '1 hour', o, s, 10, array[1, 2, 3, 4]
		from clients, generate_series(0, 3) h, (values ('readDailyActivity', 200), ('requestToken', 200), ('readDailyActivity', 429)) o (o, s)`)
	db.Exec(b, "insert into usage_minutes (client_id, minute, charged) select client_id, date_trunc('minute', connect_now()), 7 from clients")
	db.Exec(b, `insert into users (user_id, email, timezone, registered_on, created_at)
		select md5(client_id::text)::uuid, client_id || '@user.example', 'UTC', '2020-01-01', connect_now() from clients`)
	db.Exec(b, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
			refresh_generation, refresh_hash, refresh_deadline)
		select md5(client_id::text)::uuid, client_id, gen_random_uuid(), 1, 'authorized', 1, '2026-03-01', connect_now(), 1, sha256(''),
			connect_now() + interval '90 days'
		from clients`)
	db.Exec(b, "analyze")
	fold := func(b *testing.B) {
		b.Helper()
		if err := u.Fold(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	written := func() int64 {
		return pgtest.Value[int64](b, db, "select (pg_current_wal_insert_lsn() - '0/0')::bigint")
	}
	fold(b)
	for name, asked := range map[string]int{"busy": 1, "quiet": 0} {
		b.Run(name, func(b *testing.B) {
			var wal int64
			for b.Loop() {
				b.StopTimer()
				db.Exec(b, "update usage_hours set requests = requests + 2, durations = add_counts(durations, array[0, 1, 1]) where hour = date_trunc('hour', connect_now()) and $1 > 0", asked)
				db.Exec(b, "checkpoint")
				before := written()
				b.StartTimer()
				fold(b)
				b.StopTimer()
				wal += written() - before
				b.StartTimer()
			}
			b.ReportMetric(float64(wal)/float64(b.N)/1e6, "MB-WAL/op")
		})
	}
	b.Logf("usage_days: %s rows, %s bytes", pgtest.Value[string](b, db, "select count(*)::text from usage_days"),
		pgtest.Value[string](b, db, "select pg_total_relation_size('usage_days')::text"))
}
