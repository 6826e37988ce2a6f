package operator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/generated"
)

// Requests that the document describes, and requests close to them, are answered as the document says: never with a fault or an
// undocumented answer, never with success where the document forbids it, and never as malformed where it allows it.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	document, err := operatorapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	sent, successes := 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		own := *f
		own.User = f.DB.User(t)
		partner, _ := own.ConnectNew(t, "Ride Club")
		users := []string{own.User.ID.String(), f.DB.User(t).ID.String()}
		known := func(name string) []string {
			switch name {
			case "user_id":
				return users
			case "client_id":
				return []string{partner.ID.String()}
			case "email":
				return []string{f.User.Email, uuid.NewString() + "@example.com"}
			case "timezone":
				return []string{"Europe/Berlin", "UTC"}
			case "date", "registered_on":
				return []string{"2026-03-09", "1900-01-01", "9999-12-31"}
			case "recorded_start_time", "recorded_end_time":
				return []string{"2026-03-09T10:00:00", "2026-03-09T23:59:59.999999", "1900-01-01T00:00:00"}
			case "source_id":
				return []string{"ride-1", "ride-2"}
			}
			return nil
		}
		for range rapid.IntRange(1, 20).Draw(rt, "requests") {
			g := generated.Generator{T: rt, Known: known}
			r := g.Request(document)
			good := "Bearer " + token
			r.Header["Authorization"] = []string{good}
			if g.Chance(10, "other credentials?") {
				r.Header["Authorization"] = rapid.SampledFrom([][]string{nil, {""}, {good, good}, {good + "x"}, {"Bearer \xff"}, {"Basic eA=="},
					{strings.Repeat("x", 5000)}}).Draw(rt, "credentials")
				r.Valid = false
			}
			status, body := r.Try(rt, f.url, contracttest.Operator)
			var answered struct {
				UserID string `json:"user_id"`
			}
			_ = json.Unmarshal(body, &answered)
			if answered.UserID != "" {
				users = append(users, answered.UserID)
			}
			if sent++; status < 300 {
				successes[r.Operation.OperationID]++
			}
		}
	})
	if len(successes) < 5 {
		t.Errorf("of %d requests succeeded just %v", sent, successes)
	}
	t.Logf("%d requests, of which succeeded %v", sent, successes)
}
