package connect_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// A range of any length is asked for in parts of 31 days, one after the other, without a gap and without a day twice.
func TestRanges(t *testing.T) {
	t.Parallel()
	day := func(text string) connectsdk.CalendarDate {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return connectsdk.CalendarDate{Time: at}
	}
	east := time.FixedZone("", 14*60*60)
	for name, test := range map[string]struct {
		from, to connectsdk.CalendarDate
		want     []string
	}{
		"a day":              {day("2026-11-20"), day("2026-11-20"), []string{"2026-11-20 2026-11-20"}},
		"31 days":            {day("2026-10-01"), day("2026-10-31"), []string{"2026-10-01 2026-10-31"}},
		"32 days":            {day("2026-10-01"), day("2026-11-01"), []string{"2026-10-01 2026-10-31", "2026-11-01 2026-11-01"}},
		"62 days":            {day("2026-10-01"), day("2026-12-01"), []string{"2026-10-01 2026-10-31", "2026-11-01 2026-12-01"}},
		"over a leap day":    {day("2028-01-31"), day("2028-03-05"), []string{"2028-01-31 2028-03-01", "2028-03-02 2028-03-05"}},
		"no range":           {day("2026-11-20"), day("2026-11-19"), []string{"2026-11-20 2026-11-19"}}, // for the service to refuse
		"at hours of a zone": {connectsdk.CalendarDate{Time: time.Date(2026, 10, 1, 23, 0, 0, 0, east)}, connectsdk.CalendarDate{Time: time.Date(2026, 10, 31, 1, 0, 0, 0, time.UTC)}, []string{"2026-10-01 2026-10-31"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			client := connected(t, connect.NewMemoryStore(), func(r *http.Request) (*http.Response, error) {
				from, to := r.URL.Query().Get("from"), r.URL.Query().Get("to")
				asked = append(asked, from+" "+to)
				if from > to {
					return respond(http.StatusBadRequest, `{"error":{"code":"invalid_date_range","message":"x"},"request_id":"x"}`)
				}
				return respond(http.StatusOK, `{"data":[{"date":"`+from+`"}],"meta":{"next_cursor":null}}`)
			})
			for kind, read := range map[string]func() (rows int, err error){
				"steps": func() (rows int, err error) {
					for _, rowErr := range client.StepDays(t.Context(), "ada", test.from, test.to) {
						rows, err = rows+1, rowErr
					}
					return rows, err
				},
				"cycling": func() (rows int, err error) {
					for _, rowErr := range client.CyclingDays(t.Context(), "ada", test.from, test.to) {
						rows, err = rows+1, rowErr
					}
					return rows, err
				},
				"rides": func() (rows int, err error) {
					for _, rowErr := range client.CyclingActivities(t.Context(), "ada", test.from, test.to, 0) {
						rows, err = rows+1, rowErr
					}
					return rows, err
				},
			} {
				asked = nil
				rows, err := read()
				var refused *connect.Error
				if !slices.Equal(asked, test.want) || rows != len(test.want) || errors.As(err, &refused) != (name == "no range") {
					t.Errorf("%s: asked for %q, want %q; %d rows, then %v", kind, asked, test.want, rows, err)
				}
			}
		})
	}
}

// The pages of each part are read to the end, and the cursor of one part is not sent with another.
func TestRangeOfPages(t *testing.T) {
	t.Parallel()
	var asked []string
	client := connected(t, connect.NewMemoryStore(), func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		from, cursor := query.Get("from"), query.Get("cursor")
		asked = append(asked, from+" "+cursor)
		if cursor == "" {
			return respond(http.StatusOK, page(from, from+"T07:30:00.000000", 1, `"cc1_`+from+`"`))
		}
		return respond(http.StatusOK, page(from, from+"T07:31:00.000000", 2, "null"))
	})
	var meters int64
	for ride, err := range client.CyclingActivities(t.Context(), "ada", connect.Day(2026, 10, 1), connect.Day(2026, 11, 1), 1) {
		if err != nil {
			t.Fatal(err)
		}
		meters = meters*10 + ride.DistanceMeters
	}
	want := []string{"2026-10-01 ", "2026-10-01 cc1_2026-10-01", "2026-11-01 ", "2026-11-01 cc1_2026-11-01"}
	if !slices.Equal(asked, want) || meters != 1212 {
		t.Errorf("asked for %q, want %q; rides %d", asked, want, meters)
	}
}

// The end of the context ends a loop in the middle of a page and in a pause; a loop that is left sends no more.
func TestRangeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	client := connected(t, connect.NewMemoryStore(), func(*http.Request) (*http.Response, error) {
		asked++
		var rows []string
		for day := 1; day <= 31; day++ {
			rows = append(rows, fmt.Sprintf(`{"date":"2026-10-%02d","steps":%d,"updated_at":null}`, day, day))
		}
		return respond(http.StatusOK, `{"data":[`+strings.Join(rows, ",")+`]}`)
	})
	var days int
	var last error
	for _, err := range client.StepDays(ctx, "ada", connect.Day(2026, 10, 1), connect.Day(2027, 10, 1)) {
		if days++; days == 40 {
			cancel()
		}
		last = err
	}
	if days != 41 || asked != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d elements of %d answers, the last with %v", days, asked, last)
	}
	asked = 0
	next, leave := iter.Pull2(client.StepDays(t.Context(), "ada", connect.Day(2026, 10, 1), connect.Day(2027, 10, 1)))
	_, err, found := next()
	leave()
	if err != nil || !found || asked != 1 {
		t.Errorf("a loop that was left sent %d requests: %v", asked, err)
	}
}

// An exchange and a revocation that were not attempted are sent again when Retry-After has passed, and MaxWait bounds that. Without the
// header the pause is the backoff.
func TestRetryAfterOfTheOAuthEndpoints(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome, retryAfter string
		want                time.Duration
	}{
		"not attempted":            {"not-attempted", "7", 7 * time.Second},
		"sooner than the backoff":  {"not-attempted", "", time.Second},
		"longer than MaxWait":      {"not-attempted", "86400", 5 * time.Minute},
		"of unknown outcome":       {"", "7", 500 * time.Millisecond},
		"of an outcome of its own": {"attempted", "7", 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var slept []time.Duration
			sent := 0
			client := connected(t, connect.NewMemoryStore(), func(*http.Request) (*http.Response, error) {
				if sent++; sent%2 == 0 {
					return respond(http.StatusOK, tokens)
				}
				answer, err := respond(http.StatusServiceUnavailable, "<html>")
				answer.Header.Set("Connect-Outcome", test.outcome)
				answer.Header.Set("Retry-After", test.retryAfter)
				return answer, err
			}, func(d time.Duration) { slept = append(slept, d) })
			begun := client.Begin()
			if _, err := client.Finish(t.Context(), "ada", begun, map[string][]string{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
				t.Error(err)
			}
			if err := client.Revoke(t.Context(), "ada"); err != nil {
				t.Error(err)
			}
			within := func(got time.Duration) bool {
				return got == test.want || test.outcome != "not-attempted" && got <= test.want
			}
			if sent != 4 || len(slept) != 2 || !within(slept[0]) || !within(slept[1]) {
				t.Errorf("%d requests, pauses of %v, want %v", sent, slept, test.want)
			}
		})
	}
}
