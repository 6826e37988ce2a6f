package app

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/proxytest"
	"connect-svc/internal/testing/wait"
)

// told are the dependencies with the values that /metrics has of them.
func told(t *testing.T, a *App) map[string]float64 {
	t.Helper()
	samples, err := a.alerts.Gather(a.metrics)
	if err != nil {
		t.Log(err) // of what only the database knows
	}
	up := map[string]float64{}
	for _, sample := range samples {
		if sample.Metric == "connect_dependency_up" {
			up[sample.Labels["dependency"]+" "+sample.Labels["name"]] = sample.Value
		}
	}
	return up
}

func mailerAt(t *testing.T, address string) *account.Mailer {
	t.Helper()
	mailer, err := account.NewMailer("smtp://"+address, "no-reply@example.com")
	if err != nil {
		t.Fatal(err)
	}
	return mailer
}

// A server notices by itself what is down, and says so in its metrics, in /readyz and once in its log. Nobody sends a request.
func TestHealthWithoutRequests(t *testing.T) {
	t.Parallel()
	db, way := pgtest.New(t), proxytest.New(t)
	url := way.Open(t, db.URL)
	mail := mailtest.Start(t, mailtest.Config{})
	a, log := openOn(t, db, func(c *Config) {
		c.Mailer = mailerAt(t, mail.Address)
		c.DatabaseURL, c.DatabaseReadURL, c.Limits.Probe, c.Limits.Scrape = url, "postgres://u:hush@127.0.0.1:1/n", time.Second, time.Second
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	up := map[string]float64{
		"database primary": 1, "database_writes primary": 1, "limiter PostgreSQL": 1, "mail_server " + mail.Address: 1, "replica 127.0.0.1:1": 0,
	}
	wait.Until(t, "all is looked at", func() bool { return cmp.Equal(up, told(t, a)) })
	readyz := func() string {
		t.Helper()
		status, body := edgetest.GetAnew(t, "http://"+a.PrivateAddr().String()+"/readyz")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		return body
	}
	if body := readyz(); !strings.Contains(body, `"status":"ready","without":["replica"]`) {
		t.Errorf("with a database: %s", body)
	}
	way.Close()
	db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
	wait.Until(t, "the database is down", func() bool { return told(t, a)["database primary"] == 0 })
	if _, err := a.metrics.Gather(); err == nil || !strings.Contains(err.Error(), errDown.Error()) {
		t.Errorf("a scrape still asks the database: %v", err)
	}
	if body := readyz(); !strings.Contains(body, `"status":"ready","without":["database","replica"]`) {
		t.Errorf("without a database: %s", body)
	}
	way.Open(t, db.URL)
	wait.Until(t, "the database is up again", func() bool { return cmp.Equal(up, told(t, a)) })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, line := range []string{`"a dependency is down","dependency":"database","name":"primary","cause":`, `"a dependency is up again","dependency":"database"`} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, log)
		}
	}
	if strings.Contains(log.String(), "hush") || mail.Waiting()+mail.NoticesWaiting() > 0 {
		t.Errorf("%d emails were sent; the log:\n%s", mail.Waiting()+mail.NoticesWaiting(), log)
	}
}

// A mail server that goes away is noticed at the next session, and so is that it is back. /readyz?verbose tells the cause, without what the
// server said.
func TestMailServerWithoutEmails(t *testing.T) {
	t.Parallel()
	way, mail := proxytest.New(t), mailtest.Start(t, mailtest.Config{})
	address := strings.TrimPrefix(way.Open(t, "smtp://"+mail.Address), "smtp://")
	a, _, log := openWith(t, func(c *Config) { c.Mailer = mailerAt(t, address) })
	defer a.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		a.attend(ctx, ofMail, address, 10*time.Millisecond, wait.Limit, a.Accounts.CheckMailServer)
		close(ended)
	}()
	becomes := func(value float64) {
		t.Helper()
		wait.Until(t, "the mail server's state", func() bool {
			up, known := told(t, a)["mail_server "+address]
			return known && up == value
		})
	}
	becomes(1)
	if trouble, used := a.Accounts.MailTrouble(); trouble != "" || !used {
		t.Errorf("%q, %t", trouble, used)
	}
	way.Close()
	becomes(0)
	if trouble, _ := a.Accounts.MailTrouble(); trouble == "" {
		t.Error("the cause is not told")
	}
	way.Open(t, "smtp://"+mail.Address)
	becomes(1)
	stop()
	<-ended
	if got := strings.Count(log.String(), "a dependency is down"); got != 1 {
		t.Errorf("%d lines begin an outage:\n%s", got, log)
	}
}

// A database that is read-only, as after a failover or with a full disk, answers the looks and takes no heartbeat. The alert for it ends with it.
func TestDatabaseRefusesWrites(t *testing.T) {
	pgtest.NotOnCluster(t, "a node keeps the setting")
	t.Parallel()
	// A heartbeat waits for as long as it may for a database that takes no writes.
	a, db, _ := openWith(t, func(c *Config) { c.Limits.Probe = time.Second })
	defer a.Close()
	firing := func() (names []string) {
		for range 2 * time.Minute / alerts.Interval {
			db.Clock.Advance(alerts.Interval)
			a.lookAtClock(t.Context())
			_ = a.look(t.Context(), db.Clock.Now())
		}
		for _, alert := range a.alerts.Firing() {
			names = append(names, alert.Name)
		}
		return names
	}
	set := func(to string) {
		t.Helper()
		name := pgtest.Value[string](t, db, "select current_database()::text")
		db.Exec(t, "set default_transaction_read_only = off; alter database "+pgx.Identifier{name}.Sanitize()+" set default_transaction_read_only = "+to)
		db.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
	}
	if names := firing(); len(names) > 0 {
		t.Errorf("before: %q", names)
	}
	set("on")
	if diff := cmp.Diff([]string{"ConnectDatabaseRefusesWrites"}, firing()); diff != "" {
		t.Errorf("while it is read-only (-want +got):\n%s", diff)
	}
	if up := told(t, a); up["database primary"] != 1 {
		t.Errorf("it answers, but: %v", up)
	}
	set("off")
	if names := firing(); len(names) > 0 {
		t.Errorf("when it is over: %q", names)
	}
}
