//go:build check

package observability_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/wait"
)

// Debian's Prometheus scrapes the private listener in the format that the two agree on, and its promtool has nothing to say against the metrics.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	private := httptest.NewServer(e.App.PrivateHandler())
	t.Cleanup(private.Close)

	promtool := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	promtool.Stdin = strings.NewReader(e.Private(t, "/metrics"))
	if output, err := promtool.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("promtool: %v\n%s", err, output)
	}

	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: connect\n  scrape_interval: 1s\n  static_configs:\n  - targets: ['%s']\n", private.Listener.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var base string
	process.Start(t, func(port string) process.Config {
		base = "http://127.0.0.1:" + port
		return process.Config{
			Args: []string{"--config.file", config, "--storage.tsdb.path", filepath.Join(dir, port), "--web.listen-address", "127.0.0.1:" + port},
			Ready: func(ctx context.Context) error {
				answer, err := ask(ctx, base+"/-/ready")
				if err == nil {
					_ = answer.Body.Close()
				}
				return err
			},
		}
	}, "prometheus")
	for query, least := range map[string]float64{
		"up": 1, "scrape_samples_scraped": 100, "connect_build_info": 1, `count(connect_requests_total{operation="requestToken"})`: 2,
		"count(go_goroutines)": 1,
	} {
		wait.Until(t, query, func() bool { return value(t, base, query) >= least })
	}
}

func ask(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return answer, err
}

// value returns what Prometheus says to a query, or -1 if it has nothing yet.
func value(t *testing.T, base, query string) float64 {
	t.Helper()
	answer, err := ask(t.Context(), base+"/api/v1/query?query="+url.QueryEscape(query))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if len(got.Data.Result) == 0 {
		return -1
	}
	text, _ := got.Data.Result[0].Value[1].(string)
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
