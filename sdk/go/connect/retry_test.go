//go:build go1.25

package connect_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// reader is a client with one place for reads, on the bubble's clock, and a connection.
func reader(t *testing.T, answer func(read int) (*http.Response, error), change ...func(*connect.Config)) *connect.Client {
	t.Helper()
	asked := 0
	config := connect.Config{
		BaseURL: "https://connect.example.com", ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, ConcurrentReads: 1,
		Now: func() time.Time {
			<-time.After(1) // until all others wait: whatever may happen in between does
			return time.Now()
		},
		HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/oauth/token" {
				return respond(http.StatusOK, tokens)
			}
			asked++
			return answer(asked)
		})},
	}
	for _, one := range change {
		one(&config)
	}
	client, err := connect.New(config)
	if err != nil {
		t.Fatal(err)
	}
	begun := client.Begin()
	if _, err := client.Finish(t.Context(), "ada", begun, map[string][]string{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
		t.Fatal(err)
	}
	return client
}

func readSteps(ctx context.Context, client *connect.Client) error {
	day := connect.Day(2026, time.November, 20)
	_, err := client.DailySteps(ctx, "ada", day, day)
	return err
}

func tooMany(retryAfter string) (*http.Response, error) {
	answer, err := respond(http.StatusTooManyRequests, `{"error":{"code":"rate_limited","message":"x"},"request_id":"x"}`)
	answer.Header.Set("Retry-After", retryAfter)
	return answer, err
}

// An error has what helps to find its cause: the request's id, the page about the code and, in a sandbox, the reason.
func TestErrorsExplain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := reader(t, func(int) (*http.Response, error) {
			answer, err := respond(http.StatusBadRequest, `{"error":{"code":"invalid_date_range","message":"x"},"request_id":"x"}`)
			answer.Header.Set("X-Request-ID", "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55")
			answer.Header.Set("X-Connect-Reason", "to is before from")
			return answer, err
		})
		err := readSteps(t.Context(), client)
		var refused *connect.Error
		if !errors.As(err, &refused) || refused.Documentation != "https://connect.example.com/developers/error-codes.html#invalid_date_range" ||
			refused.Reason != "to is before from" {
			t.Errorf("%+v", refused)
		}
		const want = "connect: readDailyActivity: the answer was 400 invalid_date_range (request 8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55): to is before from"
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// Specification section 8: a 429 holds back the read that waits for the place of the one that got it.
func TestNoReadSlipsPastA429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held, second time.Time
		client := reader(t, func(read int) (*http.Response, error) {
			switch read {
			case 1:
				<-time.After(time.Second) // until the other waits for the place
				held = time.Now()
				return tooMany("60")
			case 2:
				second = time.Now()
			}
			return respond(http.StatusOK, `{}`)
		})
		ended := make(chan error)
		for range 2 {
			go func() { ended <- readSteps(t.Context(), client) }()
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if waited := second.Sub(held); waited < time.Minute {
			t.Errorf("the second request left %v after the 429", waited)
		}
	})
}

// A read that gives up while it waits out a 429, or waits for its turn, leaves its place to the next.
func TestPlaceOfAReadThatGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := reader(t, func(read int) (*http.Response, error) {
			if read == 1 {
				return tooMany("120")
			}
			return respond(http.StatusOK, `{}`)
		})
		impatient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error)
		for range 3 {
			go func() { ended <- readSteps(impatient, client) }()
		}
		for range 3 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if err := readSteps(t.Context(), client); err != nil {
			t.Error(err)
		}
	})
}

// A Retry-After beyond all measure, of a machine between us and the service, does not count backwards.
func TestEndlessRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := reader(t, func(int) (*http.Response, error) { return tooMany("9223372036854775807") })
		var refused *connect.Error
		if err := readSteps(t.Context(), client); !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := readSteps(ctx, client); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the next read does not wait: %v", err)
		}
	})
}

// A loop over a range waits out each 429 and goes on; it fails when one of its requests has waited for MaxWait, or with its context.
func TestRangeWaitsFor429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := reader(t, func(read int) (*http.Response, error) {
			if read%2 == 1 || read > 4 {
				return tooMany("200")
			}
			return respond(http.StatusOK, `{"data":[{"date":"2026-10-01"}]}`)
		})
		begun, days := time.Now(), 0
		var last error
		for _, err := range client.StepDays(t.Context(), "ada", connect.Day(2026, 10, 1), connect.Day(2027, 10, 1)) {
			days, last = days+1, err
		}
		var refused *connect.Error
		if waited := time.Since(begun).Round(time.Second); days != 3 || !errors.As(last, &refused) || refused.Code != "rate_limited" || waited != 600*time.Second {
			t.Errorf("%d elements in %v, then %v", days, waited, last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun = time.Now()
		for _, err := range client.StepDays(ctx, "ada", connect.Day(2026, 10, 1), connect.Day(2027, 10, 1)) {
			last = err
		}
		if waited := time.Since(begun); !errors.Is(last, context.DeadlineExceeded) || waited > 11*time.Second {
			t.Errorf("after %v: %v", waited, last)
		}
	})
}

// A refresh holds its lock for 90 seconds at most, and does not wait for a pause that ends later.
func TestRefreshDoesNotHoldItsLock(t *testing.T) {
	t.Parallel()
	for retryAfter, want := range map[string]struct {
		sent   int
		waited time.Duration
	}{"40": {3, 80 * time.Second}, "91": {1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			store := connect.NewMemoryStore()
			client := reader(t, nil, func(c *connect.Config) {
				c.Store = store
				exchange := c.HTTPClient.Transport
				c.HTTPClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					if sent++; sent == 1 {
						return exchange.RoundTrip(r)
					}
					answer, err := respond(http.StatusServiceUnavailable, "<html>")
					answer.Header.Set("Connect-Outcome", "not-attempted")
					answer.Header.Set("Retry-After", retryAfter)
					return answer, err
				})
			})
			begun := time.Now()
			_, err := client.Refresh(t.Context(), "ada")
			held, loadErr := store.Load(t.Context(), "ada")
			var refused *connect.Error
			if waited := time.Since(begun).Round(time.Second); !errors.As(err, &refused) || sent != 1+want.sent || waited != want.waited {
				t.Errorf("Retry-After %s: %d requests in %v, then %v", retryAfter, sent-1, waited, err)
			}
			if loadErr != nil || held.State != connect.StateActive {
				t.Errorf("Retry-After %s: %v, %v", retryAfter, held, loadErr)
			}
		})
	}
}
