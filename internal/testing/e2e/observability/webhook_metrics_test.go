package observability_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"connect-svc/internal/app"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/wait"
)

// How delivery goes can be read from the metrics, by the client's name.
func TestWebhookMetrics(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(receiver.Close)
	e := e2e.New(t, func(c *app.Config) {
		c.Webhooks.AllowedNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.Webhooks.RootCAs = x509.NewCertPool()
		c.Webhooks.RootCAs.AddCert(receiver.Certificate())
	})
	event := func() {
		t.Helper()
		e.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, created_at)
			values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', connect_now() - interval '9000 s')`, e.Partner.ID)
	}
	label := fmt.Sprintf("{client=%q", e.Partner.Name)
	// until reads the metrics until they hold all the lines.
	until := func(lines ...string) {
		t.Helper()
		wait.Until(t, fmt.Sprintf("the metrics have %q", lines), func() bool {
			text := "\n" + e.Private(t, "/metrics")
			return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(text, "\nconnect_webhook_"+line) })
		})
	}
	if _, err := e.App.Webhooks.SetEndpoint(t.Context(), e.Partner.ID, receiver.URL); err != nil {
		t.Fatal(err)
	}
	// All counts begin at 0: Prometheus takes a count that appears for one that has not risen.
	until("events_total"+label+`,outcome="delivered"} 0`, "events_total"+label+`,outcome="failed"} 0`, "failed_attempts_total"+label+"} 0")
	if text := e.Private(t, "/metrics"); !strings.Contains(text, `connect_requests_total{operation="requestToken",status="500"} 0`) {
		t.Error("the first fault of an operation would not be an increase")
	}
	event()
	until("events_pending"+label+"} 1\n", "oldest_pending_seconds"+label+"} 9", "events_total"+label+`,outcome="delivered"} 0`)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { e.App.Webhooks.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	until("events_pending"+label+"} 0\n", "oldest_pending_seconds"+label+"} 0\n", "events_total"+label+`,outcome="delivered"} 1`)

	status.Store(http.StatusGone)
	event()
	until("events_total"+label+`,outcome="failed"} 1`, "events_total"+label+`,outcome="delivered"} 1`, "failed_attempts_total"+label+"} 1\n")

	writeUsage(t, e)
	if report, err := e.App.Usage.DaysOf(t.Context(), e.Partner.ID, e.DB.Now()); err != nil || report.Total.WebhooksDelivered != 1 || report.Total.WebhooksFailed != 1 {
		t.Errorf("the days: %+v, %v", report.Total, err)
	}

	problems, err := promlint.New(strings.NewReader(e.Private(t, "/metrics"))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// If not all waiting events can be counted, the metric is absent: a part of them would look as if all were well.
func TestWebhookMetricsAreWhole(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	e.DB.Webhook(t, e.Partner.ID)
	e.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected')`, e.Partner.ID)
	if text := e.Private(t, "/metrics"); !strings.Contains(text, "\nconnect_webhook_events_pending{") {
		t.Fatal("nothing waits")
	}
	e.DB.Exec(t, "alter table webhook_events rename to gone")
	text := e.Private(t, "/metrics")
	if strings.Contains(text, "\nconnect_webhook_") || !strings.Contains(text, "\nconnect_emails_waiting ") {
		t.Errorf("the metrics are\n%s", text)
	}
}
