package sdk_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// fleet is several processes of a partner's backend that read as fast as they can.
type fleet struct {
	processes, workers int // workers of each process
	reads              int // of all
	config             connect.Config
	noPace             bool // the table is missing
	client             func(*pgtest.Client)
}

// run returns the requests that were sent, those that were refused with 429, and how long it took.
func (f fleet) run(t *testing.T) (sent, refused int64, took time.Duration) {
	t.Helper()
	e := e2e.New(t)
	u := newSDKUser(t, e, newPGStore(t, e.DB.URL), f.client)
	day := u.connect(t).HistoryFrom
	if f.noPace {
		e.DB.Exec(t, "drop table connect_pace")
	}
	transport := countingTransport{RoundTripper: e.TLS}
	var left atomic.Int64
	left.Store(int64(f.reads))
	var workers sync.WaitGroup
	begun := time.Now()
	for range f.processes {
		config := f.config
		config.BaseURL, config.ClientID, config.ClientSecret, config.CallbackURL = u.Base, u.Partner.ID.String(), u.Partner.Secret, u.Partner.CallbackURL
		config.Scopes, config.HTTPClient = []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, &http.Client{Transport: &transport}
		config.Store = newPGStore(t, e.DB.URL, f.noPace)
		process, err := connect.New(config)
		if err != nil {
			t.Fatal(err)
		}
		for range f.workers {
			workers.Go(func() {
				for left.Add(-1) >= 0 {
					if _, err := process.DailySteps(t.Context(), sdkKey, day, day); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	workers.Wait()
	return transport.sent.Load(), transport.refused.Load(), time.Since(begun)
}

// countingTransport counts reads.
type countingTransport struct {
	http.RoundTripper
	sent, refused atomic.Int64
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if strings.HasPrefix(r.URL.Path, "/connect-svc/") {
		c.sent.Add(1)
		if err == nil && response.StatusCode == http.StatusTooManyRequests {
			c.refused.Add(1)
		}
	}
	return response, err
}

// Three processes with one registration stay within its budget: with one pace hardly a request is refused, and without the table few are.
// That is the service's to say, and not how fast this machine is: a process that comes late finds a fuller budget.
func TestProcessesKeepTheBudget(t *testing.T) {
	t.Parallel()
	for name, noPace := range map[string]bool{"with one pace": false, "each by itself, without the table": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, refused, _ := fleet{
				processes: 3, workers: 10, reads: 200, noPace: noPace,
				client: func(c *pgtest.Client) { c.RequestsPerMinute, c.Burst, c.ConcurrentReads = 1200, 60, 1000 },
			}.run(t)
			if most := map[bool]int64{false: 2, true: 20}[noPace]; refused > most || sent != 200+refused {
				t.Errorf("%d requests, of which %d were refused", sent, refused)
			}
		})
	}
}
