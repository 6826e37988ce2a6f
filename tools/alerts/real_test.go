//go:build check

package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"connect-svc/docs"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/wait"
)

// pace is how much faster time passes here: an hour of the rules takes a minute.
const pace = 60

const scrapeEvery = 500 * time.Millisecond

// stage is a service of two servers, of which the second one can go. Trouble raises every alert.
type stage struct {
	mu      sync.Mutex
	list    []*played
	trouble bool
	second  net.Listener // nil: it has gone
	address string       // of the second
}

// played is a series. A counter grows by well or ill at each step, and a gauge has that value.
type played struct {
	alerts.Sample
	counter   bool
	well, ill float64
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := new(stage)
	add := func(counter bool, well, ill float64, name string, labels ...string) {
		p := &played{alerts.Sample{Metric: "connect_" + name, Labels: alerts.Labels{}}, counter, well, ill}
		for pair := range slices.Chunk(labels, 2) {
			p.Labels[pair[0]] = pair[1]
		}
		s.list = append(s.list, p)
	}
	add(true, 10, 10, "requests_total", "operation", "requestToken", "status", "200")
	add(true, 0, 10, "requests_total", "operation", "requestToken", "status", "500")
	add(true, 10, 0, "request_duration_seconds_bucket", "operation", "requestToken", "le", "1")
	add(true, 10, 10, "request_duration_seconds_bucket", "operation", "requestToken", "le", "2.5")
	add(true, 10, 10, "request_duration_seconds_bucket", "operation", "requestToken", "le", "+Inf")
	add(true, 10, 1, "limiter_decisions_total", "decision", "admitted")
	add(true, 0, 10, "limiter_decisions_total", "decision", "rate")
	add(true, 0, 5, "limiter_decisions_total", "decision", "failed")
	add(true, 0, 5, "refreshes_total", "outcome", "replayed")
	add(true, 0, 1, "emails_total", "outcome", "failed")
	add(true, 0, 2, "mail_server_failures_total")
	add(true, 1, 0, "sign_in_codes_total", "outcome", "accepted")
	add(true, 0, 20, "sign_in_codes_total", "outcome", "rejected")
	add(true, 0, 3, "http_connections_closed_total", "outcome", "refused")
	add(true, 0, 1000, "database_wait_seconds_total")
	add(true, 0, 5, "usage_uncounted_requests_total")
	add(true, 0, 1, "webhook_events_total", "client", "Acme", "outcome", "failed")
	add(false, 0, 1e5, "webhook_oldest_pending_seconds", "client", "Acme")
	add(false, 0, 600, "emails_oldest_waiting_seconds")
	add(false, 1, 0, "database_clock_believed")
	add(false, 0, 3600, "database_clock_ahead_seconds")
	add(false, 0, 1, "database_replicas", "state", "left_out")
	add(false, 2e10, 2e10, "database_size_bytes")
	add(false, 1.9e10, 1e10, "database_size_week_before_bytes")
	add(false, 1, 0, "config_last_reload_successful")
	add(false, 0, 1e5, "usage_rows_waiting")
	year := float64(365 * 24 * 3600)
	add(false, float64(time.Now().Unix())+10*year, float64(time.Now().Unix()), "certificate_expiry_timestamp_seconds", "listener", "public")
	s.play()
	return s
}

// play lets one step pass.
func (s *stage) play() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.list {
		value := p.well
		if s.trouble {
			value = p.ill
		}
		if p.counter {
			value += p.Value
		}
		p.Value = value
	}
}

// samples are those of the first server, with what it knows of both.
func (s *stage) samples() (list []alerts.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.list {
		list = append(list, p.Sample)
	}
	up := 1.0
	if s.second == nil {
		up = 0
	}
	return append(list, alerts.Sample{Metric: "up", Labels: alerts.Labels{"instance": "web-1"}, Value: 1},
		alerts.Sample{Metric: "up", Labels: alerts.Labels{"instance": "web-2"}, Value: up})
}

// ServeHTTP answers a scrape.
func (s *stage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for _, sample := range s.samples() {
		var labels []string
		for name, value := range sample.Labels {
			labels = append(labels, name+"="+strconv.Quote(value))
		}
		if sample.Metric != "up" {
			fmt.Fprintf(w, "%s{%s} %g\n", sample.Metric, strings.Join(labels, ","), sample.Value)
		}
	}
}

// listen serves scrapes at an address, or at a free one, until the test ends or the listener is closed.
func (s *stage) listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var listener net.Listener
	if err := process.Rebind(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: wait.Limit}
	t.Cleanup(func() { _ = server.Close() })
	server.SetKeepAlivesEnabled(false)
	go func() { _ = server.Serve(listener) }()
	return listener
}

// has the second server come or go.
func (s *stage) has(t *testing.T, second bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case second:
		s.second = s.listen(t, s.address)
		s.address = s.second.Addr().String()
	default:
		_ = s.second.Close()
		s.second = nil
	}
}

// firing are alerts as an operator sees them.
type firing map[string]bool

// Prometheus, the program of the Debian package, scrapes two servers and evaluates docs/alerts.yaml, in which an hour is a minute. All
// rules are provoked. The alerts that Prometheus fires and those of the console have the same names, and the same words, which name the
// server, the client or the listener; and all end in both.
func TestRealPrometheus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := s.listen(t, "127.0.0.1:0")
	s.address = "127.0.0.1:0"
	s.has(t, true)
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules.yaml", regexp.MustCompile(`\b(\d+)(m|h)\b`).ReplaceAllStringFunc(string(docs.Alerts), func(text string) string {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return (d / pace).String()
	}))
	write("prometheus.yaml", fmt.Sprintf(`global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: connect-svc
    static_configs:
      - {targets: [%[2]q], labels: {instance: web-1}}
      - {targets: [%[3]q], labels: {instance: web-2}}
`, scrapeEvery, first.Addr(), s.address))
	var base string
	process.Start(t, func(port string) process.Config {
		base = "http://127.0.0.1:" + port
		return process.Config{
			Args: []string{
				"--config.file=" + filepath.Join(folder, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(folder, "data"),
				"--web.listen-address=127.0.0.1:" + port, "--log.level=error",
			},
			Ready: func(ctx context.Context) error { return get(ctx, base+"/-/ready", nil) },
		}
	}, "prometheus")

	console, err := alerts.New(docs.Alerts)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	steps := time.NewTicker(alerts.Interval / pace)
	t.Cleanup(steps.Stop)
	// until plays on until both agree on what they fire, and it is what is wanted.
	until := func(what string, wanted func(firing) bool) {
		t.Helper()
		var differ string
		for deadline := time.Now().Add(5 * wait.Limit); ; <-steps.C {
			s.play()
			console.Evaluate(began.Add(time.Since(began)*pace), s.samples())
			ours := firing{}
			for _, alert := range console.Firing() {
				ours[alert.Name+": "+alert.Summary] = true
			}
			theirs := prometheusFires(t, base)
			differ = gocmp.Diff(theirs, ours)
			if differ == "" && wanted(ours) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: waited in vain (-Prometheus +console):\n%s\n%v", what, differ, ours)
			}
		}
	}
	until("before", func(f firing) bool { return len(f) == 0 })
	s.trouble = true
	s.has(t, false)
	names := newPrometheus(t).names()
	until("all rules fire", func(f firing) bool {
		fired := map[string]bool{}
		for text := range f {
			name, _, _ := strings.Cut(text, ":")
			fired[name] = true
		}
		return len(fired) == len(names) && f["ConnectDown: web-2 does not answer on its private listener."]
	})
	s.trouble = false
	s.has(t, true)
	until("all ended", func(f firing) bool { return len(f) == 0 })
}

// prometheusFires asks Prometheus for the alerts that fire.
func prometheusFires(t *testing.T, base string) firing {
	t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := get(t.Context(), base+"/api/v1/alerts", &answer); err != nil {
		t.Fatal(err)
	}
	found := firing{}
	for _, alert := range answer.Data.Alerts {
		if alert.State == "firing" {
			found[alert.Labels["alertname"]+": "+alert.Annotations["summary"]] = true
		}
	}
	return found
}

// get asks for a page, and reads JSON.
func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
