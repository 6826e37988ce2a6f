package usage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Latencies of several servers add up by hour and operation, cost a server one transaction a minute, and are deleted after eight days.
func TestLatencies(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	hour := db.Now().UTC().Truncate(time.Hour)
	at := hour
	server := func() *Usage { return New(db.Pool, wait.Patient, nil, func() time.Time { return at }) }
	flush := func(u *Usage) {
		t.Helper()
		ended, end := context.WithCancel(t.Context())
		end()
		u.latencies.Run(ended)
	}
	one, other := server(), server()
	for range 96 {
		one.Took(Latency{Operation: "readDailyActivity", Total: 4 * time.Millisecond, Database: 2 * time.Millisecond, Limiter: time.Millisecond})
	}
	for range 4 {
		other.Took(Latency{Operation: "readDailyActivity", Total: 900 * time.Millisecond, Database: 800 * time.Millisecond})
	}
	other.Took(Latency{Operation: "requestToken", Total: time.Millisecond, Database: 5 * time.Millisecond})
	flush(one)
	flush(other)
	at = hour.Add(time.Hour)
	one.Took(Latency{Operation: "readDailyActivity", Total: 2 * time.Second})
	flush(one)
	list := func() (lines []string) {
		t.Helper()
		latencies, err := other.Latencies(t.Context(), hour.Add(-LatenciesKept))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range latencies {
			lines = append(lines, fmt.Sprintf("%s +%s %d %s %.2f %.2f %t", l.Operation, l.Hour.Sub(hour), l.Requests, l.Mean(),
				l.ShareOf(l.Database), l.ShareOf(l.Limiter), l.Quantile(.95) <= 5*time.Millisecond))
		}
		return lines
	}
	want := []string{
		"readDailyActivity +0s 100 39.84ms 0.85 0.02 true", "readDailyActivity +1h0m0s 1 2s 0.00 0.00 false", "requestToken +0s 1 1ms 1.00 0.00 true",
	}
	if got := list(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("latencies are %q, want %q", got, want)
	}
	at = hour.Add(LatenciesKept + time.Hour)
	one.Took(Latency{Operation: "readDailyActivity", Total: time.Millisecond})
	flush(one)
	if got := pgtest.Value[int](t, db, "select count(*) from latency_hours where hour <= $1", hour); got != 0 {
		t.Errorf("%d rows of more than eight days ago", got)
	}
	if got := pgtest.Value[int](t, db, "select count(*) from latency_hours"); got != 2 {
		t.Errorf("%d rows, want 2", got)
	}
}
