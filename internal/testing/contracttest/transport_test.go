package contracttest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	reads = "/connect-svc/v1/grants/8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55/daily-activity"
	id    = "4f1f7d3e-52a4-4c8e-9c6c-7b0a8f0d9f21"

	malformed = `{"error":"invalid_request","error_description":"The request is malformed."}`
	notFound  = `{"error":{"code":"not_found","message":"There is nothing here."},"request_id":"` + id + `"}`
	badDates  = `{"error":{"code":"invalid_date_range","message":"The date range is missing or not allowed."},"request_id":"` + id + `"}`
	steps     = `{"data":[],"meta":{"from":"2026-11-20","to":"2026-11-20","date_basis":"svc_recorded_date","source":"svc",` +
		`"snapshot_at":"2026-11-21T10:00:00.000Z"}}`
)

// Responses of the partner API that pass, and that fail.
func TestCheck(t *testing.T) {
	t.Parallel()
	oauth := http.Header{
		"Cache-Control": {"no-store"}, "Pragma": {"no-cache"}, "Referrer-Policy": {"no-referrer"}, "X-Request-Id": {id},
		"Content-Type": {"application/json"}, "Date": {"Sat, 21 Nov 2026 10:00:00 GMT"},
	}
	empty := with(oauth, "Content-Type", "")
	counted := with(oauth, "Ratelimit-Limit", "600", "Ratelimit-Remaining", "59", "Ratelimit-Reset", "1")

	expect(t, Partner, []response{
		{"an OAuth error", "POST", "/oauth/token", 400, oauth, malformed, ""},
		{"an empty response", "POST", "/oauth/revoke", 200, empty, "", ""},
		{"rows", "GET", reads, 200, counted, steps, ""},
		{"a counted error", "GET", reads, 400, counted, badDates, ""},
		{"an unknown path of reads", "GET", "/connect-svc/v1/grants/x", 404, oauth, notFound, ""},
		{"an unknown path", "GET", "/connect-svc/v1/x", 404, oauth, malformed, ""},
		{"a wrong method", "GET", "/oauth/token", 404, oauth, malformed, ""},
		{"a page", "GET", "/account", 200, http.Header{}, "<html>", ""},

		{"status", "POST", "/oauth/token", 418, oauth, malformed, "no such status"},
		{"missing header", "POST", "/oauth/token", 400, with(oauth, "Pragma", ""), malformed, "Pragma"},
		{"header with another value", "POST", "/oauth/token", 400, with(oauth, "Cache-Control", "private"), malformed, "Cache-Control"},
		{"undocumented header", "POST", "/oauth/token", 400, with(oauth, "Server", "x"), malformed, "Server"},
		{"header of another response", "POST", "/oauth/token", 400, with(oauth, "Retry-After", "1"), malformed, "Retry-After"},
		{"other text", "POST", "/oauth/token", 400, oauth, strings.Replace(malformed, "malformed", "bad", 1), "examples"},
		{"code of another operation", "POST", "/oauth/revoke", 400, oauth,
			`{"error":"invalid_grant","error_description":"The code or refresh token is not valid."}`, "examples"},
		{"another field", "POST", "/oauth/token", 400, oauth, strings.Replace(malformed, "{", `{"uri":"x",`, 1), "schema"},
		{"undocumented body", "POST", "/oauth/revoke", 200, empty, "{}", "body"},
		{"other content type", "POST", "/oauth/token", 400, with(oauth, "Content-Type", "text/plain"), malformed, "Content-Type"},
		{"bad value", "GET", reads, 200, counted, strings.Replace(steps, ".000Z", "Z", 1), "schema"},
		{"missing field", "GET", reads, 200, counted, strings.Replace(steps, `"source":"svc",`, "", 1), "schema"},
		{"other request id", "GET", reads, 400, with(counted, "X-Request-Id", strings.Replace(id, "4", "5", 1)), badDates, "request_id"},
		{"counted without headers", "GET", reads, 400, oauth, badDates, "RateLimit"},
		{"no number", "GET", reads, 200, with(counted, "Ratelimit-Reset", "0"), steps, "RateLimit-Reset"},
		{"unknown path answered", "GET", "/connect-svc/v1/x", 200, oauth, malformed, "404"},
		{"unknown path in the other shape", "GET", "/connect-svc/v1/x", 404, oauth, notFound, "examples"},
		{"unknown path without header", "GET", "/connect-svc/v1/grants/x", 404, with(oauth, "X-Request-Id", ""), notFound, "X-Request-ID"},
	})
}

// response is one that is as documented, or a wrong one that differs in one thing.
type response struct {
	name, method, path string
	status             int
	header             http.Header
	body               string
	complaint          string // part of it; empty where there must be none
}

func expect(t *testing.T, contract Contract, responses []response) {
	t.Helper()
	document := contract()
	for _, r := range responses {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			err := document.check(httptest.NewRequest(r.method, r.path, nil), r.status, r.header, []byte(r.body))
			switch {
			case r.complaint == "" && err != nil:
				t.Errorf("refused: %v", err)
			case r.complaint != "" && (err == nil || !strings.Contains(err.Error(), r.complaint)):
				t.Errorf("complaint is %v, want one about %q", err, r.complaint)
			}
		})
	}
}

// with is header with other values; an empty one takes the header away.
func with(header http.Header, pairs ...string) http.Header {
	header = header.Clone()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			header.Del(pairs[i])
		} else {
			header.Set(pairs[i], pairs[i+1])
		}
	}
	return header
}
