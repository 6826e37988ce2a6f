package operator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/credential"
)

// documented are all answers of the document, as "createUser 409 email-taken".
func documented(t *testing.T) []string {
	t.Helper()
	spec, err := operatorapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, item := range spec.Paths.Map() {
		for _, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				problem := response.Value.Content["application/problem+json"]
				if problem == nil {
					all = append(all, operation.OperationID+" "+status)
					continue
				}
				for name := range problem.Examples {
					all = append(all, operation.OperationID+" "+status+" "+name)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// expected is an answer of an operation, and the request that gets it.
type expected struct{ want, method, path, body string }

// Every answer of the document is given, and what is given is in the document: the client of the fixture looks.
func TestEveryDocumentedAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.connect(t, "Ride Club")
	taken, other, gone := f.db.User(t), f.db.User(t), f.db.User(t)
	f.send(t, outgoing{method: "DELETE", path: "/operator/v1/users/" + gone.ID.String()}).check(t, "delete", 204, "")
	broken := newFixture(t)
	broken.db.Define(t, "drop table users, connections, clients, webhook_events, audit_log cascade") // a database that is away is waited for

	user, nobody := "/operator/v1/users/"+f.user.ID.String(), "/operator/v1/users/"+uuid.NewString()
	newUser := func(id uuid.UUID, email string) string {
		return fmt.Sprintf(`{"user_id":%q,"email":%q,"timezone":"UTC","registered_on":"2026-01-31"}`, id, email)
	}
	batch := fmt.Sprintf(`{"daily_steps":[{"user_id":%q,"date":"2026-03-09","steps":1}]}`, f.user.ID)

	// What each operation answers by itself. The first one is good.
	answers := map[string][]expected{
		"createUser": {
			{"201", "POST", "/operator/v1/users", newUser(uuid.New(), "new@example.com")},
			{"409 user-exists", "POST", "/operator/v1/users", newUser(f.user.ID, "else@example.com")},
			{"409 user-deleted", "POST", "/operator/v1/users", newUser(gone.ID, "else@example.com")},
			{"409 email-taken", "POST", "/operator/v1/users", newUser(uuid.New(), strings.ToUpper(taken.Email))},
			{"422 invalid-content", "POST", "/operator/v1/users", `{}`},
		},
		"putUsers": {
			{"200", "PUT", "/operator/v1/users", `{"users":[` + newUser(uuid.New(), "one@example.com") + `]}`},
			{"422 invalid-content", "PUT", "/operator/v1/users", `{}`},
		},
		"readUser": {
			{"200", "GET", user, ""},
			{"404 user-not-found", "GET", nobody, ""},
			{"404 not-found", "GET", "/operator/v1/users/me", ""},
		},
		"changeUser": {
			{"200", "PATCH", user, `{"timezone":"Asia/Tokyo"}`},
			{"404 user-not-found", "PATCH", nobody, `{"timezone":"Asia/Tokyo"}`},
			{"404 not-found", "PATCH", "/operator/v1/users/me", `{"timezone":"Asia/Tokyo"}`},
			{"409 email-taken", "PATCH", user, fmt.Sprintf(`{"email":%q}`, taken.Email)},
			{"422 invalid-content", "PATCH", user, `{}`},
		},
		"deleteUser": {
			{"204", "DELETE", "/operator/v1/users/" + other.ID.String(), ""},
			{"404 user-not-found", "DELETE", nobody, ""},
			{"404 not-found", "DELETE", "/operator/v1/users/me", ""},
		},
		"listConnections": {
			{"200", "GET", user + "/connections", ""},
			{"404 user-not-found", "GET", nobody + "/connections", ""},
			{"404 not-found", "GET", "/operator/v1/users/me/connections", ""},
		},
		"disconnectUser": {
			{"204", "DELETE", user + "/connections/" + partner.ID.String(), ""},
			{"404 not-connected", "DELETE", user + "/connections/" + uuid.NewString(), ""},
			{"404 not-found", "DELETE", user + "/connections/all", ""},
		},
		"putActivity": {
			{"200", "POST", "/operator/v1/activity", batch},
			{"422 invalid-content", "POST", "/operator/v1/activity", `{}`},
		},
	}
	maps.Copy(answers, f.supportAnswers(t))
	var given []string
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		for i, test := range answers[id] {
			out := outgoing{method: test.method, path: test.path, body: test.body}
			note := func(f *fixture, out outgoing) {
				got := f.send(t, out)
				given = append(given, strings.TrimSpace(fmt.Sprintf("%s %d %s", id, got.status, got.name)))
			}
			note(f, out)
			if last := given[len(given)-1]; last != id+" "+test.want {
				t.Errorf("%s %s is %s, want %s", test.method, test.path, last, test.want)
			}
			if i > 0 {
				continue
			}
			query := out
			query.path += "?nothing=1"
			note(f, query)
			unauthorized := out
			unauthorized.header = http.Header{"Authorization": nil}
			note(f, unauthorized)
			if out.method != "GET" {
				reading := out
				reading.header = http.Header{"Authorization": {"Bearer " + graceToken}}
				if out.body != "" {
					reading.header.Set("Content-Type", "application/json")
				}
				note(f, reading)
			}
			note(broken, out)
			if out.body != "" {
				text, long := out, out
				text.header = http.Header{"Content-Type": {"text/plain"}}
				note(f, text)
				long.body = strings.Repeat(" ", contract.MaxBody) + out.body
				note(f, long)
			}
		}
	}
	slices.Sort(given)
	if diff := cmp.Diff(documented(t), given); diff != "" {
		t.Errorf("answers (-documented +given):\n%s", diff)
	}
	if log := broken.log.String(); strings.Count(log, "does not exist") != len(answers) {
		t.Errorf("the causes are not in the log: %s", log)
	}
}

// Who has no token learns nothing, not even which paths there are.
func TestToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, header := range map[string][]string{
		"none":             nil,
		"empty":            {""},
		"another":          {"Bearer 0123456789abcdef0123456789abcdeF"},
		"the beginning":    {"Bearer " + token[:31]},
		"more":             {"Bearer " + token + "0"},
		"no scheme":        {token},
		"another scheme":   {"Basic " + token},
		"nothing behind":   {"Bearer"},
		"two":              {"Bearer " + token, "Bearer " + token},
		"two spaces":       {"Bearer  " + token},
		"its hash":         {fmt.Sprintf("Bearer %x", credential.Hash(token))},
		"two in one":       {"Bearer " + token + ", Bearer " + token},
		"in the challenge": {`Bearer realm="svc-operator"`},
	} {
		for _, path := range []string{"/operator/v1/users/" + f.user.ID.String(), "/operator/v1/nothing", "/operator/v1/users?x"} {
			got := f.send(t, outgoing{method: "GET", path: path, header: http.Header{"Authorization": header}})
			got.check(t, name+" "+path, 401, "unauthorized")
		}
	}
	good := outgoing{method: "GET", path: "/operator/v1/users/" + f.user.ID.String(), header: http.Header{"Authorization": {"bearer " + token}}}
	f.send(t, good).check(t, "scheme in lower case", 200, "")
	if strings.Contains(f.log.String(), token[:31]) {
		t.Error("the token is in the log")
	}
}

// Unknown paths and wrong methods.
func TestNoOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.user.ID.String()
	for _, test := range []struct{ method, path string }{
		{"GET", "/operator/"},
		{"GET", "/operator/v1"},
		{"GET", "/operator/v1/users"},
		{"GET", "/operator/v1/users/"},
		{"PUT", "/operator/v1/users/" + id},
		{"HEAD", "/operator/v1/users/" + id},
		{"OPTIONS", "/operator/v1/users/" + id},
		{"INVENTED", "/operator/v1/users/" + id},
		{"GET", "/operator/v1/users/" + id + "/"},
		{"GET", "/operator//v1/users/" + id},
		{"GET", "/operator/v1/../v1/users/" + id},
		{"GET", "/operator/v1/users/%00"},
		{"GET", "/operator/v1/users/" + strings.Replace(id, "-", "%2D", 1)},
		{"GET", "/operator/v1/users/" + id + "%2Fconnections"},
		{"GET", "/operator/v1/users/{" + id + "}"},
		{"GET", "/operator/v1/users/" + strings.ReplaceAll(id, "-", "")},
		{"DELETE", "/operator/v1/users/" + id + "/connections"},
		{"GET", "/operator/v1/activity"},
		{"DELETE", "/operator/v1/activity"},
		{"POST", "/operator/v2/activity"},
	} {
		got := f.send(t, outgoing{method: test.method, path: test.path})
		if got.status != 404 || got.name != "not-found" && test.method != "HEAD" {
			t.Errorf("%s %s: %d %s", test.method, test.path, got.status, got.name)
		}
	}
}

// The log has one event for each request, without a path, an address, the token or a row.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post(t, "/operator/v1/users", `{"email":"ada@example.com","timezone":"UTC","registered_on":"2026-01-31"}`).check(t, "create", 201, "")
	f.post(t, "/operator/v1/users", `{"email":"ada@example.com","timezone":"UTC","registered_on":"2026-01-31"}`).check(t, "again", 409, "email-taken")
	f.post(t, "/operator/v1/activity", fmt.Sprintf(
		`{"cycling_activities":[{"user_id":%q,"source_id":"secret-ride","recorded_start_time":"2026-03-09T10:00:00","distance_meters":12345}]}`,
		f.user.ID)).check(t, "ride", 200, "")
	log := f.log.String()
	if n := strings.Count(log, "\n"); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
	for _, want := range []string{`"operation":"createUser"`, `"code":"email-taken"`, `"operation":"putActivity"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	for _, never := range []string{"ada@", "secret-ride", "12345,", f.user.ID.String(), token, "/operator/"} {
		if strings.Contains(log, never) {
			t.Errorf("the log has %s", never)
		}
	}
}

// A panic is an opaque error, with its cause in the log.
func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.Accounts = nil
	f.serve(t)
	f.send(t, outgoing{method: "GET", path: "/operator/v1/users/" + f.user.ID.String()}).check(t, "panic", 500, "server-error")
	if !strings.Contains(f.log.String(), "nil pointer") {
		t.Errorf("the log has no cause: %s", f.log)
	}
}
