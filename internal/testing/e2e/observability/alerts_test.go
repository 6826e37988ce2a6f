package observability_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
)

// Every metric that an alert or the dashboard asks for is there, and every alert is explained.
func TestAlerts(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile("../../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	alerts, guide, dashboard := read("alerts.yaml"), read("troubleshooting.md"), read("../deploy/grafana/connect-svc.json")
	e := e2e.New(t, func(c *app.Config) {
		c.Certificate = listener.FixedCertificate(edgetest.Certificate(t, "127.0.0.1", time.Now(), time.Now().Add(time.Hour)))
		c.DatabaseReadURL = c.DatabaseURL // no replica, but one that is asked
	})
	e.Private(t, "/healthz") // or no request would have been counted
	e.DB.Webhook(t, e.Partner.ID)
	e.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected')`, e.Partner.ID) // nor an event
	e.DB.Exec(t, "insert into database_sizes (day, bytes) values (current_date, 2), (current_date - 7, 1) on conflict (day) do nothing")
	metrics := e.Private(t, "/metrics")
	asked := regexp.MustCompile(`connect_[a-z_]+`).FindAllString(alerts+dashboard, -1)
	if len(asked) < 10 {
		t.Fatalf("the alerts ask for %q", asked)
	}
	for _, name := range asked {
		if strings.HasPrefix(name, "connect_database_disk_") {
			continue // of a database on this machine, which lets its role see that
		}
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(metrics) {
			t.Errorf("an alert or the dashboard asks for %s, which is no metric", name)
		}
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !strings.Contains(guide, "| `"+alert[1]+"` |") {
			t.Errorf("the guide does not explain %s", alert[1])
		}
	}
	for _, alert := range regexp.MustCompile(`Connect[A-Z]\w+`).FindAllString(dashboard, -1) {
		if !strings.Contains(alerts, "alert: "+alert+"\n") {
			t.Errorf("the dashboard names %s, which is no alert", alert)
		}
	}
	if !json.Valid([]byte(dashboard)) {
		t.Error("the dashboard is no JSON")
	}
}
