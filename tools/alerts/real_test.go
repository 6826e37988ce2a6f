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

// stage is a service of two servers, of which the second one can go.
type stage struct {
	mu      sync.Mutex
	series  *series
	second  net.Listener // nil: it has gone
	address string       // of the second
}

// play lets one step pass.
func (s *stage) play() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.series.play(1)
}

// samples are those of the first server, with what it knows of both.
func (s *stage) samples() []alerts.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := 1.0
	if s.second == nil {
		up = 0
	}
	return append(s.series.samples(), alerts.Sample{Metric: "up", Labels: alerts.Labels{"instance": "web-1"}, Value: 1},
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
	s := &stage{series: newSeries()}
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

	console := newAlerts(t)
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
			ours := firing(namesOf(console.Firing()))
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
	s.series.trouble = true
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
	s.series.trouble = false
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
