package app_test

import (
	"context"
	"sync"
	"testing"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// A request knows which part of its time the database and the limiter had, and the service keeps the sums by hour and operation.
func TestLatencyOfRequests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]telemetry.Event{}
	e := e2e.New(t, func(c *app.Config) {
		c.Observe = func(event *telemetry.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen[event.Operation] = *event
		}
	})
	_, token := e.Connect(t)
	e.Read(t, token)
	e.StopRequests()
	ended, end := context.WithCancel(t.Context())
	end()
	e.App.Usage.Run(ended) // it writes what is left
	mu.Lock()
	defer mu.Unlock()
	read, refresh := seen["readDailyActivity"], seen["requestToken"]
	if read.Database <= 0 || read.Limited <= 0 || read.Database+read.Limited > read.Duration {
		t.Errorf("of a read of %s the database had %s and the limiter %s", read.Duration, read.Database, read.Limited)
	}
	if refresh.Database <= 0 || refresh.Limited != 0 || refresh.Database > refresh.Duration {
		t.Errorf("of an exchange of %s the database had %s and the limiter %s", refresh.Duration, refresh.Database, refresh.Limited)
	}
	if rows := pgtest.Value[int](t, e.DB, `select count(*) from latency_hours where requests > 0 and database_us > 0 and total_us >= database_us + limiter_us
		and (limiter_us > 0) = (operation = 'readDailyActivity') and operation in ('readDailyActivity', 'requestToken')`); rows != 2 {
		t.Errorf("%d operations are kept", rows)
	}
}
