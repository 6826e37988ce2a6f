package restart_test

import (
	"context"
	"crypto/x509"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// soakFor is how long the service is under load: for `make test` a few rounds, which show that everything works; a minute for
// `make test-long`.
var soakFor = flag.Duration("soak", 0, "how long a service is under load while what it uses is measured")

const (
	soakWindows = 40 // in a soak that is long enough for so many
	// soakStep is how far the clock goes with each window: the first quarter is past the time for which anything is kept.
	soakStep = 20 * 24 * time.Hour
	// soakJudged is the time from which growth is judged. In less than that a window is too short to mean anything.
	soakJudged = 30 * time.Second
)

// sample is what is in use after a window, by what it is.
type sample map[string]float64

// noise is how much of a figure may come and go: a part of it, and so much besides. The last quarter of the windows may be
// above the second by this, each by the median of its windows.
func noise(figure string) (factor, slack float64) {
	switch figure {
	case "p99, ms":
		return 3, 5
	case "heap, KiB":
		return 1.25, 2048
	case "RSS, KiB":
		return 1.25, 16384
	case "goroutines", "file descriptors":
		return 1.25, 10
	}
	return 1.25, 256 // KiB of a table or an index
}

// The whole service under a mixed load, while the clock passes years: refreshes, reads, writes, consents, revocations, sign-ins
// in a browser, imports, and webhooks. Its use of memory, goroutines, file descriptors and tables does not grow from quarter to
// quarter, nor do its answers become slower.
func TestSoak(t *testing.T) {
	t.Parallel()
	var delivered atomic.Int64
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		delivered.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	e := e2e.New(t, func(c *app.Config) {
		c.Webhooks.AllowedNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.Webhooks.RootCAs = x509.NewCertPool()
		c.Webhooks.RootCAs.AddCert(receiver.Certificate())
		c.AuditRetention = 30 * 24 * time.Hour
	})
	if _, err := e.App.Webhooks.SetEndpoint(t.Context(), e.Partner.ID, receiver.URL); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	background.Go(func() { e.App.Webhooks.Run(ctx) })
	background.Go(func() { e.App.Usage.Run(ctx) })
	t.Cleanup(func() { stop(); background.Wait() })

	load := startTraffic(t, e, 4)
	var samples []sample
	var rounds int64 // of each window, as many as the first one had time for
	windows := min(max(int(*soakFor/time.Second), 4), soakWindows)
	for len(samples) < windows && !t.Failed() {
		end, before := time.After(*soakFor/time.Duration(windows)), load.rounds.Load()
		e.Connect(t) // a sign-in and a consent in a browser
		importSteps(t, e)
		if rounds == 0 {
			<-end
			rounds = max(load.rounds.Load()-before, 4)
		}
		load.waitFor(t, before+rounds)
		samples = append(samples, measure(t, e, load))
	}
	load.stop()
	if t.Failed() {
		return
	}
	wait.Until(t, "a webhook is delivered", func() bool { return delivered.Load() > 0 })
	again, all := load.again.Load(), load.rounds.Load()
	if again > 1+all/1000 { // where the machine stands still for a moment, and no more
		t.Errorf("%d of %d reads were answered 503", again, all)
	}
	t.Logf("%d rounds in each of %d windows, %d webhooks, %d reads asked again", rounds, len(samples), delivered.Load(), again)
	for _, figure := range slices.Sorted(maps.Keys(samples[len(samples)-1])) {
		quarter := len(samples) / 4
		second, last := median(samples[quarter:2*quarter], figure), median(samples[3*quarter:], figure)
		factor, slack := noise(figure)
		if grown := last > second*factor+slack; grown && *soakFor >= soakJudged {
			t.Errorf("%s: %.0f in the second quarter, %.0f in the last", figure, second, last)
		} else if !strings.HasPrefix(figure, "table") || last > 200 {
			t.Logf("%-40s %10.1f %10.1f", figure, second, last)
		}
	}
}

func median(samples []sample, figure string) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, s[figure])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// waitFor waits until there have been so many rounds.
func (tr *traffic) waitFor(t *testing.T, rounds int64) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for hangs := time.After(wait.Limit + *soakFor); tr.rounds.Load() < rounds && !t.Failed(); {
		select {
		case <-look.C:
		case <-hangs:
			t.Fatalf("waited in vain for %d rounds", rounds)
		}
	}
}

// measure stops the traffic, lets time pass, sweeps, and looks at what is in use.
func measure(t *testing.T, e *e2e.Service, load *traffic) sample {
	t.Helper()
	load.gate.Lock()
	defer load.gate.Unlock()
	e.DB.Clock.Advance(soakStep)
	e.App.Sweep(t.Context(), e.DB.Now())
	e.DB.Exec(t, "vacuum")
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	slices.Sort(load.took)
	s := sample{
		"heap, KiB":  float64(memory.HeapAlloc >> 10),
		"goroutines": float64(runtime.NumGoroutine()),
		"p99, ms":    float64(load.took[len(load.took)*99/100].Microseconds()) / 1000,
	}
	load.took = nil
	if files, err := os.ReadDir("/proc/self/fd"); err == nil { // on Linux
		s["file descriptors"] = float64(len(files))
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident int
		if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
			t.Fatal(err)
		}
		s["RSS, KiB"] = float64(resident * os.Getpagesize() >> 10)
	}
	rows, err := e.DB.Pool.Query(t.Context(), `select relname, pg_relation_size(oid) / 1024.0::float8 from pg_class
		where relnamespace = 'public'::regnamespace and relkind in ('r', 'i')`)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var size float64
	if _, err := pgx.ForEachRow(rows, []any{&name, &size}, func() error { s["table or index "+name+", KiB"] = size; return nil }); err != nil {
		t.Fatal(err)
	}
	return s
}

// importSteps imports a file of a user's days, each time with other totals.
func importSteps(t *testing.T, e *e2e.Service) {
	t.Helper()
	var file strings.Builder
	file.WriteString("user_id,date,steps\n")
	for day := range 1000 {
		fmt.Fprintf(&file, "%s,%s,%d\n", e.User.ID, time.Date(2020, 1, 1+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), time.Now().UnixMilli()%10000)
	}
	if _, err := e.App.Activity.ImportDailySteps(t.Context(), strings.NewReader(file.String()), activity.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, e.DB, "select count(*) from daily_steps where user_id = $1", e.User.ID); n < 1000 {
		t.Fatalf("%d days of the import", n)
	}
}
