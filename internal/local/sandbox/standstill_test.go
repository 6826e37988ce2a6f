package sandbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/testing/wait"
)

// asked is a request to the driver with all that it needs to succeed, and how it is answered: when all is well, and
// while the database says nothing.
type asked struct {
	operation, method, path, body string
	well, fault                   int
}

// everything is a request for each operation, with users of its own. Done one after the other all succeed.
func (r *running) everything(t *testing.T) []asked {
	t.Helper()
	disconnected, active := r.newPartner(t, sandboxapi.KindNew), r.newUser(t, sandboxapi.KindActive)
	disconnected.connect(t)
	client := "/sandbox/clients/" + r.newClient(t, `{}`).ClientId.String()
	return []asked{
		{"readSandbox", "GET", "/sandbox", "", 200, 200},
		{"createClient", "POST", "/sandbox/clients", `{}`, 201, 500},
		{"rotateClientSecret", "POST", client + "/secret", `{}`, 200, 500},
		{"rotateWebhookSecret", "POST", client + "/webhook-secret", "", 200, 500},
		{"createPortalLink", "POST", client + "/portal-link", "", 200, 500},
		{"setClientStatus", "PUT", client + "/status", `{"status":"offboarded"}`, 204, 500},
		{"changeUser", "PATCH", "/sandbox/users/" + active.String(), `{"timezone":"Asia/Tokyo"}`, 200, 500},
		{"resendWebhook", "POST", "/sandbox/webhooks/" + r.newWebhook(t).Id + "/resend", "", 204, 500},
		{"disturbDeliveries", "POST", "/sandbox/deliveries", `{"fault":"duplicate"}`, 204, 204},
		{"decideAuthorization", "POST", "/sandbox/authorizations", decision(r.authorizationURL("daily_steps:read"), active, "allow"), 200, 500},
		{"createUser", "POST", "/sandbox/users", `{"kind":"active"}`, 201, 500},
		{"addActivity", "POST", "/sandbox/users/" + active.String() + "/activity",
			fmt.Sprintf(`{"daily_steps":[{"date":%q,"steps":8421}]}`, r.clock.Now().Format(time.DateOnly)), 200, 500},
		{"disconnectUser", "DELETE", "/sandbox/users/" + disconnected.user.String() + "/connections/" + r.described.Client.ClientId.String(), "", 204, 500},
		{"deleteUser", "DELETE", "/sandbox/users/" + r.newUser(t, sandboxapi.KindNew).String(), "", 204, 500},
		{"listRequests", "GET", "/sandbox/requests", "", 200, 200},
		{"advanceClock", "POST", "/sandbox/clock", `{"advance_seconds":172800}`, 200, 500}, // there are days to record
		{"forceAnswers", "POST", "/sandbox/answers", `{"operation_id":"readDailyActivity","status":429,"code":"rate_limited"}`, 204, 204},
		{"forgetAnswers", "DELETE", "/sandbox/answers", "", 204, 204},
		{"listWebhooks", "GET", "/sandbox/webhooks", "", 200, 200},
		{"listNotices", "GET", "/sandbox/notices", "", 200, 200},
		{"setWebhook", "PUT", "/sandbox/webhook", fmt.Sprintf(`{"url":%q}`, r.described.Client.WebhookUrl), 204, 500},
	}
}

// Everything is answered as documented, even if something is away. TestTimedStandstill measures that it is answered in time.
func TestStandstill(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.standstill(t, 300*time.Millisecond, 0)
}

// The same while the users record the day that has just begun, which they do by themselves.
func TestStandstillAtMidnight(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.standstillAtMidnight(t, 300*time.Millisecond, 0)
}

// standstill has the driver's requests take at most act while the database stands still, and wants answers within what is
// promised; 0: whenever.
func (r *running) standstill(t *testing.T, act, promised time.Duration) {
	t.Helper()
	first, second, after := r.everything(t), r.everything(t), r.everything(t)
	coverEverything(t, after)
	r.pause(t)
	for when, all := range map[string][]asked{"at first": first, "again": second} {
		r.standsStill(t, when, all, act, promised)
	}
	if err := r.database.Continue(); err != nil {
		t.Fatal(err)
	}
	for _, a := range after {
		if _, status, err := r.ask(t, a); err != nil || status != a.well {
			t.Errorf("after the standstill: %s: %d, want %d; %v", a.operation, status, a.well, err)
		}
	}
}

// standstillAtMidnight is standstill while the users record.
func (r *running) standstillAtMidnight(t *testing.T, act, promised time.Duration) {
	t.Helper()
	all := r.everything(t)
	session, err := pgx.Connect(t.Context(), r.database.URL())
	if err != nil {
		t.Fatal(err)
	}
	free := func() { _ = session.Close(context.Background()) } // a second time it does nothing
	t.Cleanup(free)
	if _, err := session.Exec(t.Context(), "begin; select from users for update"); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(48 * time.Hour)
	var under sync.WaitGroup
	under.Go(func() { _ = r.growAll(context.Background(), 0) }) // what becomes of it does not matter here
	wait.Until(t, "the users record", func() bool {
		var waiting bool
		err := r.service.Pool.QueryRow(t.Context(), "select exists (select from pg_stat_activity where wait_event_type = 'Lock')").Scan(&waiting)
		return err != nil || waiting
	})
	r.pause(t)
	r.standsStill(t, "at midnight", all, act, promised)
	if err := r.database.Continue(); err != nil {
		t.Fatal(err)
	}
	free()
	under.Wait()
}

// pause lets the database stand still, with all connections to it open, until the test ends.
func (r *running) pause(t *testing.T) {
	t.Helper()
	r.fillPool(t)
	t.Cleanup(func() {
		if err := r.database.Continue(); err != nil {
			t.Error(err)
		}
	})
	if err := r.database.Pause(); err != nil {
		t.Fatal(err)
	}
}

// standsStill asks everything at one time, and wants whole answers.
func (r *running) standsStill(t *testing.T, when string, all []asked, act, promised time.Duration) {
	t.Helper()
	before := r.config.Limits
	r.config.Limits.Act, r.config.Limits.Batch = act, act // the driver looks at each request
	defer func() { r.config.Limits = before }()
	times := make([]time.Duration, len(all))
	lost := wait.Stalls()
	var under sync.WaitGroup
	for i, a := range all {
		under.Go(func() {
			took, status, err := r.ask(t, a)
			times[i] = took
			if err != nil || status != a.fault {
				t.Errorf("%s: %s: %d after %s, want %d; %v", when, a.operation, status, took, a.fault, err)
			}
		})
	}
	under.Wait()
	stalled := lost()
	for i, took := range times {
		if promised > 0 {
			wait.InTime(t, when+": "+all[i].operation, took, promised, stalled)
		}
	}
}

// ask returns an error where the answer is not whole.
func (r *running) ask(t *testing.T, a asked) (took time.Duration, status int, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, a.method, r.described.DriverUrl+a.path, strings.NewReader(a.body))
	if err != nil {
		return 0, 0, err
	}
	if a.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	response, err := r.driver.Do(request)
	if err != nil {
		return time.Since(began), 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return time.Since(began), response.StatusCode, err
}

// fillPool opens all connections that the service may have.
func (r *running) fillPool(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for range r.service.Pool.MaxConns() - 2 { // the sandbox itself asks now and then
		held, err := r.service.Pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Rollback(ctx) }()
	}
}

// coverEverything fails where there is an operation that nothing is asked of.
func coverEverything(t *testing.T, all []asked) {
	t.Helper()
	spec, err := sandboxapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, a := range all {
		covered[a.operation] = true
	}
	for _, item := range spec.Paths.Map() {
		for _, operation := range item.Operations() {
			if !covered[operation.OperationID] {
				t.Errorf("nothing is asked of %s: add a request", operation.OperationID)
			}
		}
	}
}
