package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// credentials are the prefixes of specification 2.9 and the secrets of webhooks. Each gets a body that the redacted line must not
// contain.
var credentials = []string{"svci_", "svcc_", "svca_", "svcr2_", "cc1_", "whsec_"}

const body = "Ab3-_9xYzAb3-_9xYzAb3-_9xYzAb3-_9xYz0123456789"

type valuer struct{ text string }

func (v valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("inside", v.text)) }

type record struct {
	Token string            `json:"token"`
	More  map[string]string `json:"more"`
}

// Specification 5.5 and decisions section 3: a log never contains a credential, in any position.
func TestLoggerRedacts(t *testing.T) {
	t.Parallel()
	places := map[string]func(*slog.Logger, string){
		"message":          func(l *slog.Logger, s string) { l.Info("failed for " + s) },
		"message, tight":   func(l *slog.Logger, s string) { l.Info("x=" + s + "&y=1") },
		"after newline":    func(l *slog.Logger, s string) { l.Info("first line\n" + s + "\nlast") },
		"string":           func(l *slog.Logger, s string) { l.Info("m", "a", s) },
		"key":              func(l *slog.Logger, s string) { l.Info("m", s, 1) },
		"error":            func(l *slog.Logger, s string) { l.Info("m", "a", errors.New("bad "+s)) },
		"wrapped error":    func(l *slog.Logger, s string) { l.Info("m", "a", fmt.Errorf("outer: %w", errors.New(s))) },
		"group":            func(l *slog.Logger, s string) { l.Info("m", slog.Group("g", slog.Group("h", "a", s))) },
		"with attributes":  func(l *slog.Logger, s string) { l.With("a", s).Info("m") },
		"with group":       func(l *slog.Logger, s string) { l.WithGroup("g").With("a", s).Info("m", "b", s) },
		"log valuer":       func(l *slog.Logger, s string) { l.Info("m", "a", valuer{s}) },
		"struct":           func(l *slog.Logger, s string) { l.Info("m", "a", record{Token: s}) },
		"map in struct":    func(l *slog.Logger, s string) { l.Info("m", "a", &record{More: map[string]string{s: s}}) },
		"slice":            func(l *slog.Logger, s string) { l.Info("m", "a", []string{"x", s}) },
		"bytes":            func(l *slog.Logger, s string) { l.Info("m", "a", []byte(s)) },
		"group by Any":     func(l *slog.Logger, s string) { l.Info("m", "a", slog.GroupValue(slog.Any("b", errors.New(s)))) },
		"two in one":       func(l *slog.Logger, s string) { l.Info(s + " and " + s) },
		"http.Server logs": func(l *slog.Logger, s string) { ServerErrors(l).Print("odd request ", s) },
	}
	for place, write := range places {
		for _, prefix := range credentials {
			t.Run(place+"/"+prefix, func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				write(NewLogger(&out, slog.LevelInfo), prefix+body)
				if out.Len() == 0 {
					t.Fatal("nothing was logged")
				}
				if strings.Contains(out.String(), body) || !strings.Contains(out.String(), "[redacted]") {
					t.Errorf("the log holds a credential, or hides one otherwise: %s", &out)
				}
				if !json.Valid(out.Bytes()) {
					t.Errorf("not one JSON object: %s", &out)
				}
			})
		}
	}
}

// Everything except credentials is logged unchanged.
func TestLoggerKeepsTheRest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo).Info("m", "n", 7, "s", "plain text", "e", errors.New("no rows"), "v", []int{1, 2})
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"msg": "m", "n": "7", "s": "plain text", "e": "no rows", "v": "[1 2]"} {
		if fmt.Sprint(got[key]) != want {
			t.Errorf("%s = %v, want %s", key, got[key], want)
		}
	}
}

func TestServerErrorsHideThePeer(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{"192.0.2.7:51234", "[2001:db8::7]:443", "[fe80::1%eth0]:9", "[fe80::1%br-0a1b2c3d4e5f]:9"} {
		var out bytes.Buffer
		ServerErrors(NewLogger(&out, slog.LevelInfo)).Printf("http: TLS handshake error from %s: EOF", peer)
		if strings.Contains(out.String(), peer) || !strings.Contains(out.String(), "handshake error from a peer: EOF") {
			t.Errorf("peer %s: %s", peer, &out)
		}
	}
}

// writes receives each write.
type writes chan string

func (w writes) Write(lines []byte) (int, error) {
	w <- string(lines)
	return len(lines), nil
}

// Events of requests are buffered, and stay before later lines.
func TestGatheringLogger(t *testing.T) {
	t.Parallel()
	out := make(writes, 100)
	logger, flush := NewGatheringLogger(out, slog.LevelInfo)
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	failing := newOutages(logger)
	event := func(operation string) { write(request, failing, &Event{Operation: operation}) }
	check := func(lines string, want ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(lines) {
			var fields struct{ Msg, Operation string }
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(err)
			}
			got = append(got, fields.Msg+fields.Operation)
		}
		if !slices.Equal(got, want) {
			t.Errorf("wrote %q, want %q", got, want)
		}
	}
	event("1")
	check(<-out, "request1") // by itself

	event("2")
	event("3")
	logger.Warn("now")
	lines := <-out
	for !strings.Contains(lines, "now") {
		lines += <-out
	}
	check(lines, "request2", "request3", "now")

	event("4")
	flush()
	check(<-out, "request4")

	long := strings.Repeat("x", maxLine/4-1) // the longest text of an event
	var many []string
	for range maxBuffered/len(long) + 1 {
		event(long)
		many = append(many, "request"+long)
	}
	lines = <-out // although nothing was flushed
	flush()
	for len(out) > 0 {
		lines += <-out
	}
	check(lines, many...)
	flush()
	if len(out) > 0 {
		t.Errorf("wrote %q again", <-out)
	}
}

// Libraries print by themselves what a peer sent: net/http does it if a webhook's receiver sends more than its answer. While the service logs,
// that is not printed.
func TestLibrariesPrintNothing(t *testing.T) { //nolint:paralleltest // there is one standard logger
	var printed, logged bytes.Buffer
	log.SetOutput(&printed)
	defer log.SetOutput(os.Stderr)
	_, flush := NewGatheringLogger(&logged, slog.LevelDebug)
	closed := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(closed)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n"+credentials[0]+body)
		_, _ = io.Copy(io.Discard, conn) // until the caller has seen it
	}))
	defer receiver.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, receiver.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := new(http.Transport).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	<-closed
	flush()
	if printed.Len()+logged.Len() > 0 {
		t.Errorf("printed %q, logged %q", &printed, &logged)
	}
}
