package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// serve sends one request through [Requests] and returns the logged lines.
func serve(t *testing.T, handler http.HandlerFunc) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	req := httptest.NewRequest(http.MethodGet, "/connect-svc/v1/grants/a-grant/daily-activity?from=2026-01-01", nil)
	req.RemoteAddr = "192.0.2.7:51234"
	func() {
		defer func() { _ = recover() }()
		Requests(NewLogger(&out, slog.LevelInfo), handler).ServeHTTP(httptest.NewRecorder(), req)
	}()
	for _, secret := range []string{"a-grant", "2026-01-01", "192.0.2.7"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the event holds %q: %s", secret, &out)
		}
	}
	var events []map[string]any
	for line := range strings.Lines(out.String()) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

func TestOneEventForEachRequest(t *testing.T) {
	t.Parallel()
	client := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	tests := map[string]struct {
		handler http.HandlerFunc
		want    map[string]any
	}{
		"success": {
			func(w http.ResponseWriter, r *http.Request) {
				EventOf(r.Context()).Operation = "GetDailyActivity"
				EventOf(r.Context()).ClientID = client
				EventOf(r.Context()).GrantID = uuid.MustParse("22222222-2222-4333-8444-555555555555")
				EventOf(r.Context()).Rows = 31
				w.WriteHeader(http.StatusNoContent)
			},
			map[string]any{
				"level": "INFO", "operation": "GetDailyActivity", "status": 204.0, "client_id": client.String(), "grant": "83f57eba045c990a", "rows": 31.0,
			},
		},
		"nothing written": {
			func(http.ResponseWriter, *http.Request) {},
			map[string]any{"level": "INFO", "operation": "none", "status": 200.0},
		},
		"refused": {
			func(w http.ResponseWriter, r *http.Request) {
				EventOf(r.Context()).Code, EventOf(r.Context()).Reason = "invalid_date_range", "to is before from"
				w.WriteHeader(http.StatusBadRequest)
			},
			map[string]any{"level": "INFO", "operation": "none", "status": 400.0, "code": "invalid_date_range", "reason": "to is before from"},
		},
		"inner error": {
			func(w http.ResponseWriter, r *http.Request) {
				EventOf(r.Context()).Cause = errors.New("the pool is closed; token svca_" + body)
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			map[string]any{"level": "ERROR", "operation": "none", "status": 503.0},
		},
		"panic": {
			func(http.ResponseWriter, *http.Request) { panic("index out of range") },
			map[string]any{"level": "ERROR", "operation": "none", "status": 500.0},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := serve(t, tt.handler)
			if len(events) != 1 {
				t.Fatalf("%d events, want 1", len(events))
			}
			got := events[0]
			if _, err := uuid.Parse(got["request_id"].(string)); err != nil {
				t.Errorf("request_id: %v", err)
			}
			if cause, _ := got["cause"].(string); strings.Contains(cause, body) {
				t.Errorf("the cause holds a credential: %s", cause)
			}
			tt.want["msg"], tt.want["method"] = "request", "GET"
			if name == "inner error" || name == "panic" {
				tt.want["cause"] = got["cause"]
			}
			if cause, _ := got["cause"].(string); name == "panic" &&
				(!strings.HasPrefix(cause, "panic: index out of range\n") || !strings.Contains(cause, "telemetry.TestOneEventForEachRequest")) {
				t.Errorf("the cause is not the panic with its stack: %s", cause)
			}
			for _, varying := range []string{"time", "duration_ms", "request_id"} {
				delete(got, varying)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The caller and the log see the same request id.
func TestEventAndHandlerShareTheRequestID(t *testing.T) {
	t.Parallel()
	var seen string
	events := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen = EventOf(r.Context()).RequestID.String() })
	if events[0]["request_id"] != seen {
		t.Errorf("logged %v, the handler saw %v", events[0]["request_id"], seen)
	}
}
