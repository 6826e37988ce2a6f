package contracttest

import (
	"net/http"
	"strings"
	"testing"
)

// Responses of the operator API that pass, and that fail.
func TestCheckOperator(t *testing.T) {
	t.Parallel()
	const (
		user    = "/operator/v1/users/8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55"
		unknown = `{"type":"urn:connect-svc:problem:user-not-found","title":"There is no such user.","status":404,"request_id":"` + id + `"}`
		nothing = `{"type":"urn:connect-svc:problem:not-found","title":"There is nothing here.","status":404,"request_id":"` + id + `"}`
		token   = `{"type":"urn:connect-svc:problem:unauthorized","title":"The operator token is missing or wrong.","status":401,"request_id":"` + id + `"}`
		invalid = `{"type":"urn:connect-svc:problem:invalid-content","title":"Fields of the request are invalid.","status":422,"request_id":"` + id + `",` +
			`"errors":[{"pointer":"/email","detail":"is required"}]}`
		ada = `{"user_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55","email":"a@b.c","timezone":"UTC","registered_on":"2026-01-31","created_at":"2026-11-21T10:00:00.000Z"}`
	)
	empty := http.Header{"Cache-Control": {"no-store"}, "X-Request-Id": {id}}
	problem := with(empty, "Content-Type", "application/problem+json")
	challenged := with(problem, "Www-Authenticate", `Bearer realm="svc-operator"`)
	good := with(empty, "Content-Type", "application/json")
	expect(t, Operator, []response{
		{"a user", "GET", user, 200, good, ada, ""},
		{"nothing", "DELETE", user, 204, empty, "", ""},
		{"a problem", "GET", user, 404, problem, unknown, ""},
		{"errors", "PATCH", user, 422, problem, invalid, ""},
		{"an unknown path", "GET", "/operator/v1/x", 404, problem, nothing, ""},
		{"an unknown path without a token", "GET", "/operator/v1/x", 401, challenged, token, ""},

		{"status", "GET", user, 409, problem, unknown, "no such status"},
		{"header missing", "GET", user, 404, with(problem, "Cache-Control", ""), unknown, "Cache-Control"},
		{"undocumented header", "GET", user, 404, challenged, unknown, "Www-Authenticate"},
		{"no challenge", "GET", user, 401, problem, token, "WWW-Authenticate"},
		{"other content type", "GET", user, 404, good, unknown, "Content-Type"},
		{"undocumented body", "DELETE", user, 204, empty, "{}", "body"},
		{"another field", "GET", user, 200, good, strings.Replace(ada, "{", `{"role":"x",`, 1), "schema"},
		{"another field of a problem", "GET", user, 404, problem, strings.Replace(unknown, "{", `{"detail":"x",`, 1), "schema"},
		{"other text", "GET", user, 404, problem, strings.Replace(unknown, "such ", "", 1), "examples"},
		{"problem of another response", "DELETE", user, 404, problem, strings.Replace(token, "401", "404", 1), "examples"},
		{"other status inside", "GET", user, 404, problem, strings.Replace(unknown, "404", "401", 1), "examples"},
		{"other request id", "GET", user, 404, with(problem, "X-Request-Id", strings.Replace(id, "4", "5", 1)), unknown, "request_id"},
		{"no errors", "PATCH", user, 422, problem, strings.Split(invalid, `,"errors"`)[0] + "}", "errors"},
		{"errors elsewhere", "GET", user, 404, problem, strings.Replace(unknown, "{", `{"errors":[{"pointer":"","detail":"x"}],`, 1), "errors"},
		{"unknown path answered", "GET", "/operator/v1/x", 200, good, ada, "[401 403 404]"},
		{"unknown path with another text", "GET", "/operator/v1/x", 404, problem, token, "examples"},
	})
}

// The sandbox's driver is checked in the same way. An unknown operation must be 404 there.
func TestCheckSandbox(t *testing.T) {
	t.Parallel()
	const nothing = `{"type":"urn:connect-svc:problem:not-found","title":"There is nothing here.","status":404,"request_id":"` + id + `"}`
	empty := http.Header{"Cache-Control": {"no-store"}, "X-Request-Id": {id}}
	problem, good := with(empty, "Content-Type", "application/problem+json"), with(empty, "Content-Type", "application/json")
	expect(t, Sandbox, []response{
		{"the time", "POST", "/sandbox/clock", 200, good, `{"now":"2026-11-21T10:00:00.000Z"}`, ""},
		{"an unknown path", "GET", "/sandbox/x", 404, problem, nothing, ""},
		{"without milliseconds", "POST", "/sandbox/clock", 200, good, `{"now":"2026-11-21T10:00:00Z"}`, "schema"},
		{"an unknown path answered", "GET", "/sandbox/x", 401, problem, nothing, "[404]"},
	})
}
