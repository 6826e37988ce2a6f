package sandbox

import (
	"testing"

	"pgregory.net/rapid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/generated"
)

// Requests that the document describes, and requests close to them, are answered as the document says: never with a fault or an
// undocumented answer, never with success where the document forbids it, and never as malformed where it allows it.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	document, err := sandboxapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t)
	codes := []string{"rate_limited", "invalid_request", "server_error", "temporarily_unavailable"}
	authorization := r.authorizationURL("daily_steps:read")
	sequences, sent, successes := 0, 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		if sequences++; sequences%100 == 0 { // or hundreds of users have ten years to record when the clock moves
			if err := r.stop(); err != nil {
				rt.Fatal(err)
			}
			r = start(t)
			authorization = r.authorizationURL("daily_steps:read")
		}
		users := []string{r.described.Users[0].UserId.String(), r.described.Users[1].UserId.String()}
		known := func(name string) []string {
			switch name {
			case "user_id":
				return users
			case "client_id":
				return []string{r.described.Client.ClientId.String()}
			case "authorization_url":
				return []string{authorization}
			case "timezone":
				return []string{"Europe/Berlin", "UTC"}
			case "date":
				return []string{"2026-03-09", "1900-01-01", "9999-12-31"}
			case "recorded_start_time", "recorded_end_time":
				return []string{"2026-03-09T10:00:00", "2026-03-09T23:59:59.999999"}
			case "source_id":
				return []string{"ride-1", "ride-2"}
			case "advance_seconds":
				return []string{"1", "86400"}
			case "status":
				return []string{"400", "429", "500", "503"}
			case "code":
				return codes
			case "url":
				return []string{"https://127.0.0.1:9/hook", "https://[::1]:9/", "http://localhost:9/hook"}
			case "webhook_id":
				return []string{"msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"}
			}
			return nil
		}
		for range rapid.IntRange(1, 10).Draw(rt, "requests") {
			g := generated.Generator{T: rt, Known: known}
			made := g.Request(document)
			status, _ := made.Try(rt, r.described.DriverUrl, contracttest.Sandbox)
			if sent++; status < 300 {
				successes[made.Operation.OperationID]++
			}
		}
	})
	if len(successes) < 5 {
		t.Errorf("of %d requests succeeded just %v", sent, successes)
	}
	t.Logf("%d requests, of which succeeded %v", sent, successes)
}
