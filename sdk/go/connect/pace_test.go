//go:build go1.25

package connect_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// budget is a service with a rate policy, as the specification's section 8 has it.
type budget struct {
	perMinute, burst, atOnce int
	takes                    time.Duration // an answer

	mu                    sync.Mutex
	credit                float64
	at                    time.Time
	running, sent, denied int
	most                  int // requests within the same tenth of a second
	tenth                 time.Time
	inTenth               int
}

func (b *budget) answer(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/oauth/token" {
		return respond(http.StatusOK, tokens)
	}
	b.mu.Lock()
	now := time.Now()
	if b.at.IsZero() {
		b.credit = float64(b.burst)
	}
	b.credit = min(float64(b.burst), b.credit+now.Sub(b.at).Minutes()*float64(b.perMinute))
	b.at = now
	b.sent++
	if tenth := now.Truncate(100 * time.Millisecond); tenth.Equal(b.tenth) {
		b.inTenth++
	} else {
		b.tenth, b.inTenth = tenth, 1
	}
	b.most = max(b.most, b.inTenth)
	status, retryAfter := http.StatusOK, 1
	switch {
	case b.credit < 1:
		status, retryAfter = http.StatusTooManyRequests, max(1, int((1-b.credit)*60/float64(b.perMinute)+.999))
	case b.running >= b.atOnce:
		status = http.StatusTooManyRequests
		b.credit--
	default:
		b.running++
		b.credit--
	}
	remaining := int(b.credit)
	b.mu.Unlock()
	answer, err := respond(status, `{}`)
	answer.Header.Set("RateLimit-Limit", strconv.Itoa(b.perMinute))
	answer.Header.Set("RateLimit-Remaining", strconv.Itoa(remaining))
	if status != http.StatusOK {
		answer.Header.Set("Retry-After", strconv.Itoa(retryAfter))
		b.mu.Lock()
		b.denied++
		b.mu.Unlock()
		return answer, err
	}
	<-time.After(b.takes)
	b.mu.Lock()
	b.running--
	b.mu.Unlock()
	return answer, err
}

// process is one of a partner's backend.
func (b *budget) process(t *testing.T, store connect.Store, atOnce int) *connect.Client {
	t.Helper()
	client, err := connect.New(connect.Config{
		BaseURL: "https://connect.example.com", ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, ConcurrentReads: atOnce, Store: store, HTTPClient: &http.Client{Transport: roundTrip(b.answer)},
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := client.Begin()
	if _, err := client.Finish(t.Context(), "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
		t.Fatal(err)
	}
	return client
}

// readAll has workers of each process read so often in sum, and returns how long that took.
func readAll(t *testing.T, reads, workers int, processes ...*connect.Client) time.Duration {
	t.Helper()
	begun := time.Now()
	work := make(chan struct{})
	var done sync.WaitGroup
	for _, process := range processes {
		for range workers {
			done.Add(1)
			go func() {
				defer done.Done()
				for range work {
					if err := readSteps(t.Context(), process); err != nil {
						t.Error(err)
					}
				}
			}()
		}
	}
	for range reads {
		work <- struct{}{}
	}
	close(work)
	done.Wait()
	return time.Since(begun)
}

// paced is a store with one pace for those who share it.
type paced struct {
	*connect.MemoryStore
	mu    sync.Mutex
	last  time.Time
	asked int
	fails bool
}

func (s *paced) Pace(_ context.Context, _ string, slots int, interval, hold time.Duration) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.fails {
		return 0, errors.New("there is no such table")
	}
	now := time.Now()
	first := now.Add(hold)
	if next := s.last.Add(interval); next.After(first) {
		first = next
	}
	s.last = first.Add(time.Duration(slots-1) * interval)
	return first.Sub(now), nil
}

// Three processes that read as fast as they can: the rate is what the policy allows, and hardly a request is refused.
func TestPace(t *testing.T) {
	t.Parallel()
	type run struct {
		budget
		atOnce int
		shared bool
		reads  int
		rate   float64 // at least
	}
	usual := func(takes time.Duration) budget {
		return budget{perMinute: 600, burst: 60, atOnce: 10, takes: takes}
	}
	for name, test := range map[string]*run{
		"3 x 10, one pace":                {usual(30 * time.Millisecond), 10, true, 1530, .9},
		"3 x 3, one pace":                 {usual(30 * time.Millisecond), 3, true, 1530, .9},
		"3 x 10, each its own":            {usual(30 * time.Millisecond), 10, false, 1530, .9},
		"3 x 3, each its own":             {usual(30 * time.Millisecond), 3, false, 1530, .9},
		"3 x 10, slow answers":            {usual(400 * time.Millisecond), 10, true, 1530, .9},
		"3 x 10, very slow answers":       {usual(2 * time.Second), 10, true, 1530, .4}, // 0.5 is all that ten at a time can do
		"3 x 10, a thousand back to back": {budget{perMinute: 600, burst: 1000, atOnce: 10, takes: 20 * time.Millisecond}, 10, true, 3000, .9},
		"3 x 10, five back to back": { // so little that each keeps away from its end
			budget{perMinute: 600, burst: 5, atOnce: 10, takes: 20 * time.Millisecond}, 10, true, 600, .7},
		"3 x 10, one a second": {budget{perMinute: 60, burst: 10, atOnce: 10, takes: 20 * time.Millisecond}, 10, true, 200, .9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &paced{MemoryStore: connect.NewMemoryStore()}
				var processes []*connect.Client
				for range 3 {
					if !test.shared {
						store = &paced{MemoryStore: connect.NewMemoryStore(), fails: true}
					}
					processes = append(processes, test.process(t, store, test.atOnce))
				}
				took := readAll(t, test.reads, 10, processes...)
				rate := float64(test.reads) / took.Minutes() / float64(test.perMinute)
				t.Logf("%d requests in %v, %d of them 429, at %.3f of the rate, %d questions", test.sent, took, test.denied, rate, store.asked)
				if 100*test.denied > test.sent || rate < test.rate || test.sent != test.reads+test.denied {
					t.Errorf("%d requests in %v, %d of them 429, at %.3f of the rate", test.sent, took, test.denied, rate)
				}
				if test.most > max(12, test.burst/10) {
					t.Errorf("%d requests within a tenth of a second", test.most)
				}
			})
		})
	}
}

// After a Retry-After the reads that waited do not leave together.
func TestReadsSpreadAfterA429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{perMinute: 600, burst: 60, atOnce: 10}
		client := b.process(t, connect.NewMemoryStore(), 10)
		readAll(t, 20, 10, client)
		b.mu.Lock()
		b.credit = 0 // somebody else has spent it
		b.mu.Unlock()
		b.most = 0
		readAll(t, 60, 20, client)
		if b.denied == 0 || b.denied > 10 || b.most > 3 {
			t.Errorf("%d refused, and then %d requests within a tenth of a second", b.denied, b.most)
		}
	})
}

// A service without the headers sets no pace, and neither does a store whose table is missing keep reads from it.
func TestReadsWithoutAPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := reader(t, func(int) (*http.Response, error) { return respond(http.StatusOK, `{}`) }, func(c *connect.Config) { c.ConcurrentReads = 10 })
		begun := time.Now()
		readAll(t, 1000, 10, client)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("without the headers a thousand reads take %v", took)
		}
		store := &paced{MemoryStore: connect.NewMemoryStore(), fails: true}
		b := &budget{perMinute: 600, burst: 60, atOnce: 10}
		readAll(t, 600, 10, b.process(t, store, 10))
		if store.asked > 2 {
			t.Errorf("a table that is missing was asked for %d times within a minute", store.asked)
		}
	})
}
