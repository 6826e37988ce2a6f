package isolation_test

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"connect-svc/internal/app"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/redistest"
)

// hotFor is how long the tests of many servers let a hot client ask: for `make test` as often as shows the rule, a minute for
// `make test-long`.
var hotFor = flag.Duration("hot", 0, "how long a hot client asks many servers")

// servers are one service as a partner meets it: several processes' worth of it on one database, behind TLS.
type servers struct {
	*e2e.Service
	client *http.Client
	bases  []string
	token  *oauth2.Token
}

// newServers starts n servers that share a database, a keyset and a limiter.
func newServers(t *testing.T, n int, limiterURL string) *servers {
	t.Helper()
	var common app.Config
	change := func(config *app.Config) {
		config.LimiterURL = limiterURL
		config.DatabaseURL += "&pool_max_conns=16" // the reads that a test holds take a connection each
		common = *config
	}
	s := &servers{Service: e2e.New(t, change)}
	s.client = &http.Client{Transport: s.TLS.(*http.Transport).Clone()}
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 32
	s.client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true // each server has a certificate of its own
	t.Cleanup(s.client.CloseIdleConnections)
	s.bases = []string{s.Base}
	for range n - 1 {
		config := common
		config.Logger = telemetry.NewLogger(t.Output(), slog.LevelWarn)
		a, err := app.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewTLSServer(a.Handler())
		t.Cleanup(func() { server.Close(); a.Close() })
		s.bases = append(s.bases, server.URL)
	}
	_, s.token = s.Connect(t)
	return s
}

// answer to a read, as the client sees it.
type answer struct {
	sent, received time.Time
	status         int
}

// ask reads the day's steps from one of the servers.
func (s *servers) ask(t *testing.T, server int) answer {
	day := s.token.Extra("history_from")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf(
		"%s/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", s.bases[server%len(s.bases)], s.token.Extra("grant_id"), day, day), nil)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	s.token.SetAuthHeader(request)
	sent := time.Now()
	response, err := s.client.Do(request)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	_ = response.Body.Close()
	return answer{sent, time.Now(), response.StatusCode}
}

// Specification 8, from the client's side: however many servers there are, and however hot the client is, it is admitted
// as one.
func TestManyServers(t *testing.T) {
	t.Parallel()
	for limiter, start := range map[string]func(testing.TB) string{
		"PostgreSQL": func(testing.TB) string { return "" },
		"Redis":      func(t testing.TB) string { return redistest.Start(t).URL() },
	} {
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s, %d servers, rate", limiter, n), func(t *testing.T) {
				t.Parallel()
				testHotClient(t, newServers(t, n, start(t)))
			})
			t.Run(fmt.Sprintf("%s, %d servers, reads at one time", limiter, n), func(t *testing.T) {
				t.Parallel()
				testReadsAtOneTime(t, newServers(t, n, start(t)))
			})
		}
	}
}

// testHotClient asks all servers without a pause. In no span of the time was more admitted than the burst, what refilled,
// and one.
func testHotClient(t *testing.T, s *servers) {
	const burst, perMinute = 20, 120
	s.DB.Exec(t, "update clients set burst = $1, requests_per_minute = $2, concurrent_reads = 1000", burst, perMinute)
	var mu sync.Mutex
	var admitted []answer
	refused := 0
	var workers sync.WaitGroup
	end := time.Now().Add(*hotFor)
	for worker := range 8 {
		workers.Go(func() {
			for round := 0; ; round++ {
				got := s.ask(t, worker+round)
				mu.Lock()
				// However slow the machine is, the burst is spent, and something refused.
				done := round >= burst && refused > 0 && time.Now().After(end) || t.Failed()
				switch got.status {
				case http.StatusOK:
					admitted = append(admitted, got)
				case http.StatusTooManyRequests:
					refused++
				default:
					t.Errorf("a read answers %d", got.status)
				}
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	workers.Wait()
	t.Logf("admitted %d, refused %d", len(admitted), refused)
	if len(admitted) < burst || refused == 0 {
		t.Errorf("admitted %d, refused %d: want at least the burst of %d, and refusals", len(admitted), refused, burst)
	}
	// Requests sent at or after one instant and answered by another were admitted between the two.
	slices.SortFunc(admitted, func(a, b answer) int { return a.received.Compare(b.received) })
	for i, first := range admitted {
		within := 0
		for _, a := range admitted {
			if a.sent.Before(first.sent) {
				continue
			}
			within++
			if most := burst + perMinute/60*a.received.Sub(first.sent).Seconds() + 1; float64(within) > most {
				t.Fatalf("from the %dth on %d were admitted in %s, want at most %.1f", i+1, within, a.received.Sub(first.sent), most)
			}
		}
	}
}

// testReadsAtOneTime holds the reads that are admitted at the table that they read: no more than allowed stay without an
// answer, and all others are refused at once.
func testReadsAtOneTime(t *testing.T, s *servers) {
	const allowed, asked = 3, 15
	s.DB.Exec(t, "update clients set burst = 1000000, requests_per_minute = 1000000, concurrent_reads = $1", allowed)
	for round, end := 0, time.Now().Add(*hotFor); round == 0 || time.Now().Before(end); round++ {
		hold, err := s.DB.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hold.Exec(t.Context(), "lock table daily_steps in access exclusive mode"); err != nil {
			t.Fatal(err)
		}
		answers := make(chan answer, asked)
		for server := range asked {
			go func() { answers <- s.ask(t, server) }()
		}
		counts := map[int]int{}
		for range asked - allowed { // where more were admitted, one of these waits until its time is over: 503
			counts[(<-answers).status]++
		}
		if counts[http.StatusTooManyRequests] != asked-allowed {
			t.Errorf("round %d: while the others wait the answers are %v, want %d times 429", round, counts, asked-allowed)
		}
		if err := hold.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		clear(counts)
		for range allowed {
			counts[(<-answers).status]++
		}
		if counts[http.StatusOK] != allowed {
			t.Errorf("round %d: those that waited got %v, want %d times 200", round, counts, allowed)
		}
		if t.Failed() {
			return
		}
	}
}
