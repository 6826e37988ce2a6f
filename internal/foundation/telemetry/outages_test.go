package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/work"
)

// An outage is a line at ERROR when it begins and each minute, and one when it ends. Each request has its own event with the cause.
func TestOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var cause error
		handler := Requests(NewLogger(&out, slog.LevelInfo), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { EventOf(r.Context()).Cause = cause }))
		send := func(failure error) {
			cause = failure
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		for i := range 150 { // two and a half minutes
			send(fmt.Errorf("redis: dial 127.0.0.1:%d: connection refused", 40000+i))
			send(nil) // of another operation
			<-time.After(time.Second)
		}
		send(errors.New("another cause"))
		for range 2 {
			send(work.NewPanic("index out of range"))
		}
		<-time.After(time.Hour)
		send(nil)
		send(nil)

		levels, told := map[string]int{}, []string{}
		for line := range strings.Lines(out.String()) {
			var event struct {
				Level, Msg, Cause string
				Requests          int
				Seconds           float64
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			if event.Msg == "request" {
				levels[event.Level]++
				if (event.Cause == "") != (event.Level == "INFO") {
					t.Errorf("an event at %s has the cause %q", event.Level, event.Cause)
				}
				continue
			}
			told = append(told, fmt.Sprintf("%s %s: %d, %.0f s, %s", event.Level, event.Msg, event.Requests, event.Seconds, event.Cause))
		}
		// The first of each cause and both panics are at ERROR.
		if diff := cmp.Diff(map[string]int{"ERROR": 4, "WARN": 149, "INFO": 152}, levels); diff != "" {
			t.Errorf("events of requests (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{
			"ERROR requests fail: 59, 0 s, redis: dial 127.0.0.1:40000: connection refused",
			"ERROR requests fail: 60, 0 s, redis: dial 127.0.0.1:40000: connection refused",
			"INFO requests do not fail for this any more: 150, 149 s, redis: dial 127.0.0.1:40000: connection refused",
		}, told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Causes that are all different are at ERROR each, and no more of them are kept than there may be.
func TestOutagesAreBounded(t *testing.T) {
	t.Parallel()
	failing := newOutages(slog.New(slog.DiscardHandler))
	for i := range 10 * maxOutages {
		if level := failing.level(t.Context(), &Event{Cause: errors.New(strings.Repeat("x", i+1))}); level != slog.LevelError {
			t.Errorf("the cause %d is at %s", i, level)
		}
	}
	if n := len(failing.kinds); n != maxOutages {
		t.Errorf("%d causes are kept", n)
	}
}
