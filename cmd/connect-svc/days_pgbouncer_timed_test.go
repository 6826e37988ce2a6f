//go:build timed

package main

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/testing/wait"
)

// RESUME comes later than requests wait. As documented, each is told in time that nothing was attempted, and its refresh token works afterwards. It is
// so because PgBouncer drops a statement before its request gives up: without query_wait_timeout a refresh happens at RESUME, after its partner was
// told that it failed, so that the token was used.
func TestTimedLateResume(t *testing.T) {
	for name, timeout := range map[string]string{"as documented": "4", "without a limit": "0"} {
		t.Run(name, func(t *testing.T) {
			m, bouncer := newMovableBehind(t, 8, "query_wait_timeout", timeout)
			defer m.stop(t)
			m.refreshing(t)() // which makes connections
			console := "psql -XAtqd '" + bouncer.Console + "' -c "
			bashDone(t, nil, console+"'pause connect'")
			var all sync.WaitGroup
			in := func(what string, limit time.Duration, act func()) {
				all.Go(func() {
					stalled, began := wait.Stalls(), time.Now()
					act()
					wait.InTime(t, what, time.Since(began), limit, stalled())
				})
			}
			in("a read", 2*time.Second, func() {
				if status, body := m.read(t); status != http.StatusServiceUnavailable {
					t.Errorf("a read meanwhile: %d %s", status, body)
				}
			})
			outcomes := make([]string, len(m.tokens))
			for i := range m.tokens {
				in("a refresh", 5*time.Second, func() {
					status, body, header := refreshed(t, m.public, m.partner, &m.tokens[i])
					if outcomes[i] = header.Get("Connect-Outcome"); status != http.StatusInternalServerError {
						t.Errorf("a refresh meanwhile: %d %s", status, body)
					}
				})
			}
			all.Wait()
			bashDone(t, nil, console+"'resume connect'")
			wait.Until(t, "a read afterwards", func() bool { status, _ := m.read(t); return status == http.StatusOK })
			lost := 0
			for i, outcome := range outcomes {
				status, body, _ := refreshed(t, m.public, m.partner, &m.tokens[i])
				if status != http.StatusOK {
					lost++
				}
				if told := outcome == "not-attempted"; told != (status == http.StatusOK) {
					t.Errorf("a refresh with Connect-Outcome %q, and then again: %d %s", outcome, status, body)
				}
			}
			if (lost == 0) != (timeout == "4") {
				t.Errorf("%d of %d connections were lost", lost, len(m.tokens))
			}
		})
	}
}
