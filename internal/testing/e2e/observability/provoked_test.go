//go:build faults && linux

package observability_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/docs"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
)

const (
	// promised is within how long an alert about what is down fires, without a request.
	promised = 2 * time.Minute
	// pace is how much faster the second Prometheus' rules run, for those whose windows take up to an hour: a minute is a second.
	pace = 60
)

// TestAlertsAreProvoked brings about the cause of each alert of docs/alerts.yaml, sees it fire, removes the cause and sees it end. Two
// servers run with a primary, a replica, Redis and a mail server of their own. Two Prometheus programs scrape them: one with the rules as
// they are, every 15 s, for all that needs no window, and one with rules that run 60 times as fast. `make test-alerts` prints the seconds.
func TestAlertsAreProvoked(t *testing.T) {
	w := newWatched(t)
	// The disk of the test is full when six gigabytes less are free, whatever it has now.
	rules := strings.ReplaceAll(string(docs.Alerts), "0.1 * connect_database_disk_bytes", fmt.Sprint(w.free(t)-6e9))
	asIs := startPrometheus(t, w, "as is", rules, 15*time.Second)
	faster := regexp.MustCompile(`\b(\d+)(s|m|h)\b`).ReplaceAllStringFunc(rules, func(text string) string {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return (d / pace).String()
	})
	// The age of a webhook is a time, too. The database of this test is a thousandth of the size at which its growth matters.
	faster = strings.NewReplacer("pending_seconds) > 3600", "pending_seconds) > 60", "10e9", "10e6").Replace(faster)
	scaled := startPrometheus(t, w, "60 times as fast", faster, time.Second/2)
	asIs.ended(t, time.Now())

	// Nobody sends a request: all of this is what the servers find out by themselves.
	began := time.Now()
	w.redis.Kill()
	w.wayToMail.Close()
	stopAtOnce(t, w.replica)
	w.second.stop()
	w.present(t, 13*24*time.Hour)
	_ = w.first.app.Withdraw(nil, errors.New("CONNECT_BRAND_LOGO: not a picture")) // as a SIGHUP with such a setting does
	asIs.fires(t, began, "ConnectLimiterDown", "ConnectMailServerDown", "ConnectReplicaLeftOut", "ConnectDown", "ConnectCertificateEnds", "ConnectReloadFailed")

	began = time.Now()
	w.redis.Restart(t)
	w.wayToMail.Open(t, "smtp://"+w.mail.Address)
	w.startReplica(t)
	w.second = w.serve(t, w.second.private)
	w.present(t, 90*24*time.Hour)
	if err := w.first.app.Reload(app.Config{}, nil); err != nil {
		t.Fatal(err)
	}
	asIs.ended(t, began)

	began = time.Now()
	stopAtOnce(t, w.primary)
	asIs.fires(t, began, "ConnectDatabaseDown", "ConnectReplicaLeftOut") // which may be late: nobody can tell
	began = time.Now()
	w.startPrimary(t)
	stopAtOnce(t, w.replica) // it follows the port of before
	w.startReplica(t)
	asIs.ended(t, began)

	began = time.Now()
	w.readOnly(t, "on")
	asIs.fires(t, began, "ConnectDatabaseRefusesWrites")
	began = time.Now()
	w.readOnly(t, "off")
	asIs.ended(t, began)

	began = time.Now()
	w.db.Exec(t, "update database_history set reconciled = 'of another cluster'") // as in a database that was copied
	asIs.fires(t, began, "ConnectDatabaseNotReconciled")
	began = time.Now()
	if err := postgres.RecordReconciliation(t.Context(), w.db.Pool); err != nil {
		t.Fatal(err)
	}
	asIs.ended(t, began)

	began = time.Now()
	w.db.Jump(t, time.Hour)
	asIs.fires(t, began, "ConnectClockNotBelieved", "ConnectClocksDiffer")
	began = time.Now()
	w.db.Jump(t, 0)
	asIs.ended(t, began)

	// Now with requests.
	gone, away := w.receives(t, "Gone", http.StatusGone), w.receives(t, "Away", http.StatusServiceUnavailable)
	w.tokens = w.connect(t, w.partner)
	began = time.Now()
	w.redis.Kill()
	w.wayToMail.Close()
	stopTraffic := w.traffic(func() {
		w.read(w.tokens)
		_ = w.first.app.Accounts.SendCode(context.Background(), account.CodeRequest{SignIn: uuid.New(), Email: uuid.NewString() + "@example.com"})
		<-time.After(100 * time.Millisecond)
	})
	scaled.fires(t, began, "ConnectLimiterFailing", "ConnectFailing", "ConnectMailFailing", "ConnectMailWaiting")
	stopTraffic()
	began = time.Now()
	w.redis.Restart(t)
	w.wayToMail.Open(t, "smtp://"+w.mail.Address)
	scaled.ended(t, began)
	w.provokeByRequests(t, scaled, gone, away)

	var missing []string
	for _, name := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(docs.Alerts), -1) {
		if w.fired[name[1]] == "" {
			missing = append(missing, name[1])
		}
	}
	if len(missing) > 0 {
		t.Errorf("these did not fire: %q", missing)
	}
	for _, name := range slices.Sorted(maps.Keys(w.fired)) {
		t.Logf("%-28s %s", name, w.fired[name])
	}
}

// provokeByRequests is for the alerts about partners, users and load.
func (w *watched) provokeByRequests(t *testing.T, scaled *watcher, gone, away pgtest.Client) {
	t.Helper()
	accounts, wrong := w.first.app.Accounts, map[bool]string{true: "000000", false: "000001"}
	policy := w.db.Client(t, func(c *pgtest.Client) { c.Name, c.RequestsPerMinute, c.Burst = "Eager", 60, 1 })
	eager := w.connect(t, policy)
	began := time.Now()
	stopReading := w.traffic(func() { w.read(eager); <-time.After(20 * time.Millisecond) })
	for range 15 {
		tokens := w.connect(t, w.partner)
		for range 2 {
			w.refresh(tokens)
		}
	}
	for range 15 {
		signIn := uuid.New()
		if err := accounts.SendCode(t.Context(), account.CodeRequest{SignIn: signIn, Email: uuid.NewString() + "@example.com"}); err != nil {
			t.Fatal(err)
		}
		for guess := range 5 {
			_, _ = accounts.VerifyCode(t.Context(), signIn, wrong[guess%2 == 0])
		}
	}
	for _, partner := range []pgtest.Client{gone, away} {
		w.disconnects(t, partner)
	}
	scaled.fires(t, began, "ConnectRefusingReads", "ConnectRefreshReplays", "ConnectCodesGuessed", "ConnectWebhooksFailed", "ConnectWebhooksWaiting")
	stopReading()
	began = time.Now()
	w.db.Exec(t, "update webhook_events set state = 'failed', due_at = null, ready = null where state = 'pending'") // in place of four days
	scaled.ended(t, began)

	// A lock makes a statement of each request wait, until its time is over.
	began = time.Now()
	w.tokens = w.connect(t, w.partner)
	free := w.hold(t, "lock table connections in access exclusive mode")
	var stops []func()
	for range 150 {
		stops = append(stops, w.traffic(w.visit))
	}
	scaled.fires(t, began, "ConnectSlow", "ConnectDatabasePoolExhausted", "ConnectConnectionsRefused")
	began = time.Now()
	free()
	for _, stop := range stops {
		stop()
	}
	scaled.ended(t, began)

	free = w.hold(t, "lock table usage_hours in access exclusive mode")
	w.manyPartners(t, 5_200)
	began = time.Now() // so many take minutes on a busy machine
	scaled.fires(t, began, "ConnectUsageNotCounted")
	began = time.Now()
	free()
	scaled.ended(t, began)

	began = time.Now()
	w.db.Exec(t, "insert into database_sizes select current_date - 7, database_bytes()")
	w.db.Exec(t, "create table filler as select n, repeat('x', 100) from generate_series(1, 200000) n")
	w.db.Exec(t, "delete from database_sizes where day = current_date") // the next sweep measures, within a minute
	scaled.fires(t, began, "ConnectDatabaseGrows")
	began = time.Now()
	w.db.Exec(t, "drop table filler")
	w.db.Exec(t, "delete from database_sizes where day = current_date")
	scaled.ended(t, began)

	began = time.Now()
	remove := w.fill(t, 7e9)
	scaled.fires(t, began, "ConnectDatabaseDiskFills")
	began = time.Now()
	remove()
	scaled.ended(t, began)
}

// free is what is free of the primary's disk, in bytes.
func (w *watched) free(t *testing.T) int64 {
	t.Helper()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(w.primary.Dir(), &disk); err != nil {
		t.Fatal(err)
	}
	return int64(disk.Bavail) * disk.Bsize
}

// fill takes space from the primary's disk until it is removed.
func (w *watched) fill(t *testing.T, bytes int64) (remove func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(w.primary.Dir(), "filler"))
	if err == nil {
		err = errors.Join(syscall.Fallocate(int(file.Fd()), 0, 0, bytes), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = os.Remove(file.Name()) }
}
