package sandbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/timelimit"
)

// limit is promised for every operation (decisions, section 5).
const limit = 5 * time.Second

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
	return []asked{
		{"readSandbox", "GET", "/sandbox", "", 200, 500},
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
		{"setWebhook", "PUT", "/sandbox/webhook", fmt.Sprintf(`{"url":%q}`, r.described.Client.WebhookUrl), 204, 500},
	}
}

// Whatever is away, everything is answered in time, as documented.
func TestStandstill(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { c.Limits = timelimit.Default })
	first, second, after := r.everything(t), r.everything(t), r.everything(t)
	coverEverything(t, after)
	r.pause(t)
	for when, all := range map[string][]asked{"at first": first, "again": second} {
		r.standsStill(t, when, all)
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

// The same while the users record the day that has just begun, which they do by themselves.
func TestStandstillAtMidnight(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) { c.Limits = timelimit.Default })
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
	under.Go(func() { _ = r.growAll(context.Background()) }) // what becomes of it does not matter here
	eventually(t, "the users record", func() bool {
		var waiting bool
		err := r.service.Pool.QueryRow(t.Context(), "select exists (select from pg_stat_activity where wait_event_type = 'Lock')").Scan(&waiting)
		return err != nil || waiting
	})
	r.pause(t)
	r.standsStill(t, "at midnight", all)
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

// standsStill asks everything at one time, and wants whole answers within the limit.
func (r *running) standsStill(t *testing.T, when string, all []asked) {
	t.Helper()
	times := make([]time.Duration, len(all))
	lost := watchStalls()
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
	stall := lost()
	for i, took := range times {
		if took > limit+stall {
			t.Errorf("%s: %s: answered after %s, want %s; the machine gave no turn for %s", when, all[i].operation, took, limit, stall)
		}
	}
	t.Logf("%s: the slowest answer: %s, without a turn for %s", when, slices.Max(times), stall)
}

// ask returns an error where the answer is not whole.
func (r *running) ask(t *testing.T, a asked) (took time.Duration, status int, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
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

// watchStalls measures for how long the machine, which others use, too, let this process wait for its turns: the waits
// that are long enough to be no mere chance, all together.
func watchStalls() (lost func() time.Duration) {
	const every, noticeable = 5 * time.Millisecond, 50 * time.Millisecond
	done, measured := make(chan struct{}), make(chan time.Duration)
	go func() {
		turns := time.NewTicker(every)
		defer turns.Stop()
		last, sum, ended := time.Now(), time.Duration(0), false
		for !ended {
			select {
			case <-turns.C:
			case <-done:
				ended = true
			}
			now := time.Now()
			if wait := now.Sub(last) - every; wait > noticeable {
				sum += wait
			}
			last = now
		}
		measured <- sum
	}()
	return func() time.Duration {
		close(done)
		return <-measured
	}
}

// fillPool opens all connections that the service may have.
func (r *running) fillPool(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range r.service.Pool.Config().MaxConns - 2 { // the sandbox itself asks now and then
		conn, err := r.service.Pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
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

// eventually waits until something has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for end := time.After(time.Minute); !happened(); {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("in vain: %s", what)
		}
	}
}
