package restart_test

import (
	"net/http"
	"testing"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/wait"
)

// A restart of PostgreSQL is waited for: a refresh that was not sent is sent when it is back.
func TestIsolationFromARestart(t *testing.T) {
	t.Parallel()
	r := newRestartable(t)
	e := e2e.NewOn(t, r.db)
	f := e2e.NewFront(t, e, false)
	const asked = 30 // more than the connections of the pool
	var connections []oauth.Tokens
	for range asked {
		_, tokens := e.NewConnection(t, e.Partner)
		connections = append(connections, tokens)
	}

	r.Close()
	if err := r.running.Stop(); err != nil {
		t.Fatal(err)
	}
	answers := make(chan e2e.Response, asked)
	r.start(t) // nobody knows yet
	for _, tokens := range connections {
		go func() { answers <- f.Refresh(t.Context(), t, e.Partner, tokens.RefreshToken) }()
	}
	wait.Until(t, "all are under way", func() bool { return f.Came.Load() == asked })
	turnedAway := r.TurnedAway.Load()
	wait.Until(t, "they try again", func() bool { return r.TurnedAway.Load() > turnedAway })
	if n := len(answers); n != 0 {
		t.Errorf("%d were answered without a database", n)
	}
	r.Open(t, r.running.URL())
	statuses := map[int]int{}
	for range asked {
		statuses[(<-answers).Status]++
	}
	if statuses[http.StatusOK] != asked {
		t.Errorf("answers %v, want %d times 200", statuses, asked)
	}
}
