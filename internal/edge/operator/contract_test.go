package operator

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
)

// expected is an answer of an operation, and the request that gets it.
type expected struct{ want, method, path, body string }

// Every answer of the document is given, and what is given is in the document: the client of the fixture looks.
func TestEveryDocumentedAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	taken, other, gone := f.DB.User(t), f.DB.User(t), f.DB.User(t)
	f.send(t, outgoing{Method: "DELETE", Target: "/operator/v1/users/" + gone.ID.String()}).Check(t, 204, "", "delete")
	full := newFixture(t)
	full.config.Budget = contract.NewBudget(1, time.Millisecond)
	full.serve(t)
	full.fill(t)
	broken := newFixture(t)
	broken.DB.Define(t, "drop table users, user_addresses, connections, clients, webhook_events, audit_log cascade") // a database that is away is waited for

	user, nobody := "/operator/v1/users/"+f.User.ID.String(), "/operator/v1/users/"+uuid.NewString()
	newUser := func(id uuid.UUID, email string) string {
		return fmt.Sprintf(`{"user_id":%q,"email":%q,"timezone":"UTC","registered_on":"2026-01-31"}`, id, email)
	}
	batch := fmt.Sprintf(`{"daily_steps":[{"user_id":%q,"date":"2026-03-09","steps":1}]}`, f.User.ID)

	// The answers of each operation by itself. The first one is a success.
	answers := map[string][]expected{
		"listUsers": {
			{"200", "GET", "/operator/v1/users", ""},
			{"400 invalid-cursor", "GET", "/operator/v1/users?cursor=e30", ""},
		},
		"createUser": {
			{"201", "POST", "/operator/v1/users", newUser(uuid.New(), "new@example.com")},
			{"409 user-exists", "POST", "/operator/v1/users", newUser(f.User.ID, "else@example.com")},
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
		"previewActivity": {
			{"200", "POST", "/operator/v1/activity/preview", batch},
			{"422 invalid-content", "POST", "/operator/v1/activity/preview", `{}`},
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
			out := outgoing{Method: test.method, Target: test.path, Body: test.body}
			note := func(f *fixture, out outgoing) {
				got := f.send(t, out)
				given = append(given, strings.TrimSpace(fmt.Sprintf("%s %d %s", id, got.Status, got.Code)))
			}
			note(f, out)
			if last := given[len(given)-1]; last != id+" "+test.want {
				t.Errorf("%s %s is %s, want %s", test.method, test.path, last, test.want)
			}
			if i > 0 {
				continue
			}
			query := out
			query.Target += map[bool]string{false: "?", true: "&"}[strings.Contains(out.Target, "?")] + "nothing=1"
			note(f, query)
			unauthorized := out
			unauthorized.Header = http.Header{"Authorization": nil}
			note(f, unauthorized)
			if out.Method != "GET" {
				reading := out
				reading.Header = http.Header{"Authorization": {"Bearer " + edgetest.GraceToken}}
				if out.Body != "" {
					reading.Header.Set("Content-Type", "application/json")
				}
				note(f, reading)
			}
			note(broken, out)
			if out.Body != "" {
				text, packed, long := out, out, out
				text.Header = http.Header{"Content-Type": {"text/plain"}}
				note(f, text)
				packed.Header = http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"br"}}
				note(f, packed)
				long.Body = strings.Repeat(" ", contract.MaxBody) + out.Body
				note(f, long)
				note(full, long)
			}
		}
	}
	slices.Sort(given)
	if diff := cmp.Diff(contracttest.Operator.Documented(t), given); diff != "" {
		t.Errorf("answers (-documented +given):\n%s", diff)
	}
	if log := broken.Log.String(); strings.Count(log, "does not exist") != len(answers) {
		t.Errorf("the causes are not in the log: %s", log)
	}
}

// fill takes all the memory for bodies, with one that has begun and does not end.
func (f *fixture) fill(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST /operator/v1/activity HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", token, contract.MaxBody)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the body is not read: %q, %v", line, err)
	}
}

// Without a token a caller learns nothing, not even which paths exist.
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
		"its hash":         {fmt.Sprintf("Bearer %x", credential.Hash(token))},
		"two in one":       {"Bearer " + token + ", Bearer " + token},
		"in the challenge": {`Bearer realm="svc-operator"`},
	} {
		for _, path := range []string{"/operator/v1/users/" + f.User.ID.String(), "/operator/v1/nothing", "/operator/v1/users?x"} {
			got := f.send(t, outgoing{Method: "GET", Target: path, Header: http.Header{"Authorization": header}})
			got.Check(t, 401, "unauthorized", name+" "+path)
		}
	}
	for _, header := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
		good := outgoing{Method: "GET", Target: "/operator/v1/users/" + f.User.ID.String(), Header: http.Header{"Authorization": {header}}}
		f.send(t, good).Check(t, 200, "", header[:8])
	}
	if strings.Contains(f.Log.String(), token[:31]) {
		t.Error("the token is in the log")
	}
}

// Unknown paths and wrong methods.
func TestNoOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.User.ID.String()
	for _, test := range []struct{ method, path string }{
		{"GET", "/operator/"},
		{"GET", "/operator/v1"},
		{"GET", "/operator/v1/users/"},
		{"PUT", "/operator/v1/users/" + id},
		{"HEAD", "/operator/v1/activity"},
		{"OPTIONS", "/operator/v1/users/" + id},
		{"INVENTED", "/operator/v1/users/" + id},
		{"GET", "/operator/v1/users/" + id + "/"},
		{"GET", "/operator//v1/users/" + id},
		{"GET", "/operator/v1/../v1/users/" + id},
		{"GET", "/operator/v1/users/%00"},
		{"GET", "/operator/v1/users/" + id + "%2Fconnections"},
		{"GET", "/operator/v1/users/{" + id + "}"},
		{"GET", "/operator/v1/users/" + strings.ReplaceAll(id, "-", "")},
		{"DELETE", "/operator/v1/users/" + id + "/connections"},
		{"GET", "/operator/v1/activity"},
		{"DELETE", "/operator/v1/activity"},
		{"POST", "/operator/v2/activity"},
	} {
		got := f.send(t, outgoing{Method: test.method, Target: test.path})
		if got.Status != 404 || got.Code != "not-found" && test.method != "HEAD" {
			t.Errorf("%s %s: %d %s", test.method, test.path, got.Status, got.Code)
		}
	}
}

// The log has one event for each request, without a path, an address, the token or a row.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post(t, "/operator/v1/users", `{"email":"ada@example.com","timezone":"UTC","registered_on":"2026-01-31"}`).Check(t, 201, "", "create")
	f.post(t, "/operator/v1/users", `{"email":"ada@example.com","timezone":"UTC","registered_on":"2026-01-31"}`).Check(t, 409, "email-taken", "again")
	f.post(t, "/operator/v1/activity", fmt.Sprintf(
		`{"cycling_activities":[{"user_id":%q,"source_id":"secret-ride","recorded_start_time":"2026-03-09T10:00:00","distance_meters":12345}]}`,
		f.User.ID)).Check(t, 200, "", "ride")
	log := f.Log.String()
	if n := strings.Count(log, "\n"); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
	for _, want := range []string{`"operation":"createUser"`, `"code":"email-taken"`, `"operation":"putActivity"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	for _, never := range []string{"ada@", "secret-ride", "12345,", f.User.ID.String(), token, "/operator/"} {
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
	f.send(t, outgoing{Method: "GET", Target: "/operator/v1/users/" + f.User.ID.String()}).Check(t, 500, "server-error", "panic")
	if !strings.Contains(f.Log.String(), "nil pointer") {
		t.Errorf("the log has no cause: %s", f.Log)
	}
}

// TestLimitsAreTheDomains holds the document's limits of what operators enter to those of the domains, which the console has, too.
func TestLimitsAreTheDomains(t *testing.T) {
	t.Parallel()
	document, err := operatorapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	read := func(name string, schema *openapi3.Schema) {
		if schema.MaxLength != nil {
			got[name] = int(*schema.MaxLength)
		} else if schema.Max != nil {
			got[name] = int(*schema.Max)
		}
	}
	for _, name := range []string{"Email", "Note"} {
		read(name, document.Components.Schemas[name].Value)
	}
	read("url", document.Components.Schemas["WebhookTarget"].Value.Properties["url"].Value)
	want := map[string]int{"Email": text.MaxAddress, "Note": activity.MaxNote, "url": webhook.MaxURL}
	for field, limit := range client.Limits {
		for _, schema := range []string{"NewClient", "ClientChange"} {
			name := jsonFields[field]
			if name == "" {
				name = strings.ReplaceAll(field, "-", "_")
			}
			read(schema+" "+name, document.Components.Schemas[schema].Value.Properties[name].Value)
			want[schema+" "+name] = limit
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-domains +document):\n%s", diff)
	}
}
