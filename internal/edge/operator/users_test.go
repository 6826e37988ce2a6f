package operator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func TestUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const id = "3F0A4BD6-9d5c-4d8a-9a53-7d1f6f1f8a01"
	body := `{"user_id":"` + id + `","email":"ada@example.com","timezone":"Europe/Berlin","registered_on":"2026-01-31"}`
	created := f.post(t, "/operator/v1/users", body)
	created.Check(t, 201, "", "create")
	path := "/operator/v1/users/" + strings.ToLower(id)
	if got := created.Header.Get("Location"); got != path {
		t.Errorf("Location is %s", got)
	}
	user := edgetest.Decode[map[string]string](t, created)
	if !strings.HasPrefix(user["created_at"], "2026-03-10T12:0") {
		t.Errorf("created_at is %s", user["created_at"])
	}
	delete(user, "created_at")
	if diff := cmp.Diff(map[string]string{
		"user_id": strings.ToLower(id), "email": "ada@example.com", "timezone": "Europe/Berlin", "registered_on": "2026-01-31",
	}, user); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if got := f.send(t, outgoing{Method: "GET", Target: "/operator/v1/users/" + id}); got.Body != created.Body {
		t.Errorf("read after create: %s", got.Body)
	}
	f.post(t, "/operator/v1/users", body).Check(t, 409, "user-exists", "create again")

	changed := f.send(t, outgoing{Method: "PATCH", Target: path, Body: `{"email":"countess@example.com"}`})
	changed.Check(t, 200, "", "change")
	want := strings.Replace(created.Body, "ada@", "countess@", 1)
	if changed.Body != want {
		t.Errorf("changed: %s", changed.Body)
	}
	if got := f.send(t, outgoing{Method: "GET", Target: path}); got.Body != want {
		t.Errorf("read after change: %s", got.Body)
	}

	f.send(t, outgoing{Method: "PATCH", Target: path, Body: `{"registered_on":"2026-01-01"}`}).Check(t, 200, "", "change the day")
	if got := f.send(t, outgoing{Method: "GET", Target: path}); got.Body != strings.Replace(want, "2026-01-31", "2026-01-01", 1) {
		t.Errorf("read after another registration day: %s", got.Body)
	}

	without := f.post(t, "/operator/v1/users", `{"email":"b@example.com","timezone":"UTC","registered_on":"1900-01-01"}`)
	without.Check(t, 201, "", "create without an id")
	if id := edgetest.Decode[operatorapi.User](t, without).UserId; id == uuid.Nil || !strings.HasSuffix(without.Header.Get("Location"), id.String()) {
		t.Errorf("the id is %s, Location %s", id, without.Header.Get("Location"))
	}
}

// Fields that are refused are named, with what is accepted, and nothing is changed.
func TestInvalidUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const email, timezone, date = "must be an address such as name@example.com, at most 254 bytes",
		"must be a name of the time zone database such as Europe/Berlin", "must be a date"
	create := func(field, value string) string {
		fields := map[string]json.RawMessage{
			"email": json.RawMessage(`"x@example.com"`), "timezone": json.RawMessage(`"UTC"`), "registered_on": json.RawMessage(`"2026-01-31"`),
		}
		fields[field] = json.RawMessage(value)
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const required = "is required"
	for body, want := range map[string]map[string]string{
		`{}`:                                     {"/email": required, "/timezone": required, "/registered_on": required},
		create("email", `"nobody"`):              {"/email": email},
		create("email", `"a\u0000@example.com"`): {"/email": email},
		create("email", `"Ada <a@example.com>"`): {"/email": email},
		create("email", `"`+strings.Repeat("é", 200)+`@x.y"`):         {"/email": email},
		create("email", `"`+strings.Repeat("a", 255)+`"`):             {"/email": "must have at most 254 characters"},
		create("email", `null`):                                       {"/email": "must be of type string"},
		create("email", `["a@example.com"]`):                          {"/email": "must be of type string"},
		create("timezone", `"Mars/Phobos"`):                           {"/timezone": timezone},
		create("timezone", `"Local"`):                                 {"/timezone": timezone},
		create("timezone", `"../../etc/passwd"`):                      {"/timezone": timezone},
		create("timezone", `"UTC\u0000"`):                             {"/timezone": timezone},
		create("timezone", `""`):                                      {"/timezone": "must not be empty"},
		create("registered_on", `"2026-02-30"`):                       {"/registered_on": date},
		create("registered_on", `"31.01.2026"`):                       {"/registered_on": date},
		create("registered_on", `20260131`):                           {"/registered_on": "must be of type string"},
		create("user_id", `"me"`):                                     {"/user_id": "must be a uuid"},
		create("user_id", `"{3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01}"`): {"/user_id": "must be a uuid"},
		create("user_id", `"00000000-0000-0000-0000-000000000000"`):   {"/user_id": "must not be the nil UUID"},
		create("role", `"admin"`):                                     {"/role": "is not known"},
		create("Email", `"x@example.com"`):                            {"/Email": "is not known"},
		create("a/b~c", `1`):                                          {"/a~1b~0c": "is not known"},
		create(strings.Repeat("x", 101), `1`):                         {"": "has a field that is not known"},
		create("email", `1e400`):                                      {"/email": "must be a whole number in digits"},
		`[]`:                                                          {"": "must be of type object"},
		`null`:                                                        {"": "must be of type object"},
	} {
		f.post(t, "/operator/v1/users", body).WantErrors(t, body, want)
	}
	path := "/operator/v1/users/" + f.User.ID.String()
	for body, want := range map[string]map[string]string{
		`{}`:                             {"": "must not be empty"},
		`{"email":"nobody"}`:             {"/email": email},
		`{"timezone":"posix/UTC"}`:       {"/timezone": timezone},
		`{"email":null}`:                 {"/email": "must be of type string"},
		`{"registered_on":"2026-02-30"}`: {"/registered_on": date},
	} {
		f.send(t, outgoing{Method: "PATCH", Target: path, Body: body}).WantErrors(t, body, want)
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from users where email = $1 and timezone = 'UTC'", f.User.Email); n != 1 {
		t.Error("a refused change changed the user")
	}
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from users"); n != 1 {
		t.Errorf("there are %d users", n)
	}
}

// Bodies that are not JSON, or that two readers may take differently.
func TestMalformedBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const good = `{"email":"x@example.com","timezone":"UTC","registered_on":"2026-01-31"}`
	for _, body := range []string{
		" ", "{", good[:len(good)-1], good + good, good + "x", "\xff", `{"email":"` + "\xff" + `"}`, `{'email':'x'}`, "\x00" + good,
		"\ufeff" + good, `{"email":"a@example.com",` + good[1:], `{"email":"a@example.com","\u0065mail":"b@example.com"}`,
		`{"x":{"y":1,"y":2}}`, `{"x":[{"y":1},{"y":2,"y":3}]}`, `{"timezone":01}`, `{"timezone":NaN}`, `{"email":"a` + "\n" + `b"}`,
		`{"a":1,}`, `[1 2]`, `{1:2}`, strings.Repeat("[", 50_000), strings.Repeat(`{"a":`, 50_000), "]", "}",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), strings.Repeat("[", 200_000),
	} {
		f.post(t, "/operator/v1/users", body).Check(t, 400, "malformed-request", body)
	}
	for _, body := range []string{
		"[" + strings.Repeat("1,", 100_000) + "1]", strings.Repeat(" ", contract.MaxBody) + "x",
	} {
		f.post(t, "/operator/v1/users", body).Check(t, 413, "too-large", body)
	}
	path := "/operator/v1/users/" + f.User.ID.String()
	f.send(t, outgoing{Method: "GET", Target: path, Body: "{}"}).Check(t, 400, "malformed-request", "body of a GET")
	for _, query := range []string{"?", "?a=1&a=2", "?%00", "?%zz"} {
		f.send(t, outgoing{Method: "GET", Target: path + query}).Check(t, 400, "malformed-request", query)
	}
	f.post(t, "/operator/v1/users", "").Check(t, 415, "unsupported-media-type", "no body")
	for contentType, status := range map[string]int{
		"application/json": 201, "Application/JSON; charset=UTF-8": 201, "application/json; charset=latin1": 415,
		"application/problem+json": 415, "text/json": 415, "": 415, "application/json, text/plain": 415, "application/json; x=y": 415,
	} {
		body := fmt.Sprintf(`{"email":"%s@example.com","timezone":"UTC","registered_on":"2026-01-31"}`, uuid.New())
		got := f.send(t, outgoing{Method: "POST", Target: "/operator/v1/users", Body: body, Header: map[string][]string{"Content-Type": {contentType}}})
		if got.Status != status {
			t.Errorf("%s: %d, want %d", contentType, got.Status, status)
		}
	}
	twice := map[string][]string{"Content-Type": {"application/json", "application/json"}}
	f.send(t, outgoing{Method: "POST", Target: "/operator/v1/users", Body: good, Header: twice}).Check(t, 415, "unsupported-media-type", "two types")
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from users"); n != 3 {
		t.Errorf("%d users, want 3", n)
	}
}

// A body may come in gzip, once and whole. The limits of other bodies hold for what it unpacks to.
func TestPackedBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pack := func(texts ...string) (packed string) {
		var out bytes.Buffer
		for _, text := range texts {
			writer := gzip.NewWriter(&out)
			_, err := io.WriteString(writer, text)
			if err := errors.Join(err, writer.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	user := func() string {
		return fmt.Sprintf(`{"email":"%s@example.com","timezone":"UTC","registered_on":"2026-01-31"}`, uuid.New())
	}
	whole := pack(user())
	for name, test := range map[string]struct {
		body    string
		codings []string
		status  int
		code    string
	}{
		"gzip":                {pack(user()), []string{"gzip"}, 201, ""},
		"in capitals":         {pack(user()), []string{"GZIP"}, 201, ""},
		"plain":               {user(), nil, 201, ""},
		"packed, untold":      {whole, nil, 400, "malformed-request"},
		"told, not packed":    {user(), []string{"gzip"}, 400, "malformed-request"},
		"nothing":             {"", []string{"gzip"}, 400, "malformed-request"},
		"cut off":             {whole[:len(whole)-4], []string{"gzip"}, 400, "malformed-request"},
		"a wrong checksum":    {whole[:len(whole)-8] + "12345678", []string{"gzip"}, 400, "malformed-request"},
		"something behind it": {whole + "x", []string{"gzip"}, 400, "malformed-request"},
		"two members":         {pack(user()[:20], user()[20:]), []string{"gzip"}, 400, "malformed-request"},
		"packed twice":        {pack(whole), []string{"gzip"}, 400, "malformed-request"},
		"16 MiB and one byte": {pack(strings.Repeat(" ", contract.MaxBody) + "x"), []string{"gzip"}, 413, "too-large"},
		"too many values":     {pack("[" + strings.Repeat("1,", 100_000) + "1]"), []string{"gzip"}, 413, "too-large"},
		"zstd":                {whole, []string{"zstd"}, 415, "unsupported-encoding"},
		"two codings":         {whole, []string{"gzip, gzip"}, 415, "unsupported-encoding"},
		"two headers":         {whole, []string{"gzip", "gzip"}, 415, "unsupported-encoding"},
		"an empty coding":     {user(), []string{""}, 415, "unsupported-encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := map[string][]string{"Content-Type": {"application/json"}}
			if test.codings != nil {
				header["Content-Encoding"] = test.codings
			}
			got := f.send(t, outgoing{Method: "POST", Target: "/operator/v1/users", Body: test.body, Header: header})
			if got.Status != test.status || test.code != "" && got.Code != test.code {
				t.Errorf("%d %s, want %d %s", got.Status, got.Code, test.status, test.code)
			}
			if accepts := got.Header.Get("Accept-Encoding"); (accepts == "gzip") != (test.code == "unsupported-encoding") {
				t.Errorf("Accept-Encoding: %q", accepts)
			}
		})
	}
}

// Deleting disconnects first: no credential works, and nothing of the user is left.
func TestDeleteUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, tokens := f.ConnectNew(t, "Ride Club")
	f.post(t, "/operator/v1/activity", fmt.Sprintf(`{"daily_steps":[{"user_id":%q,"date":"2026-03-09","steps":1}]}`, f.User.ID)).Check(t, 200, "", "steps")
	path := "/operator/v1/users/" + f.User.ID.String()
	f.send(t, outgoing{Method: "DELETE", Target: path}).Check(t, 204, "", "delete")
	f.send(t, outgoing{Method: "DELETE", Target: path}).Check(t, 404, "user-not-found", "delete again")
	f.send(t, outgoing{Method: "GET", Target: path}).Check(t, 404, "user-not-found", "read")
	if _, err := f.config.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
		t.Error("the access token works")
	}
	if n := pgtest.Value[int](t, f.DB, `select count(*)::int from daily_steps`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
