package partner

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"connect-svc/internal/foundation/text"
	"connect-svc/internal/testing/edgetest"
)

// Basic credentials are form-encoded each for itself (specification 5.1; RFC 6749, section 2.3.1).
func TestBasicCredentials_5_1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, header, id, secret string
		ok                       bool
	}{
		{"plain", "Basic aWQ6c2VjcmV0", "id", "secret", true},                        // id:secret
		{"scheme in other letters", "bAsIc aWQ6c2VjcmV0", "id", "secret", true},      // id:secret
		{"encoded colon in the id", "Basic aSUzQWQ6c2VjcmV0", "i:d", "secret", true}, // i%3Ad:secret
		{"colon in the secret", "Basic aWQ6c2VjOnJldA==", "id", "sec:ret", true},     // id:sec:ret
		{"plus is a space", "Basic aStkOnMrdA==", "i d", "s t", true},                // i+d:s+t
		{"encoded plus", "Basic aSUyQmQ6cw==", "i+d", "s", true},                     // i%2Bd:s
		{"encoded UTF-8", "Basic aWQ6JUMzJUJD", "id", "ü", true},                     // id:%C3%BC
		{"empty secret", "Basic aWQ6", "id", "", true},                               // id:
		{"no colon", "Basic aWQ=", "", "", false},                                    // id
		{"bad percent-encoding", "Basic aWQ6JXp6", "", "", false},                    // id:%zz
		{"NUL", "Basic aWQ6JTAw", "", "", false},                                     // id:%00
		{"broken UTF-8", "Basic aWQ6JWZm", "", "", false},                            // id:%ff
		{"no padding", "Basic aWQ6cw", "", "", false},                                // id:s
		{"bits left over", "Basic aWQ6cx==", "", "", false},                          // id:s, not canonical
		{"line break", "Basic aWQ6\nc2VjcmV0", "", "", false},                        // which base64 would skip
		{"two spaces", "Basic  aWQ6c2VjcmV0", "id", "secret", true},                  // RFC 9110, section 11.4: 1*SP
		{"more words", "Basic aWQ6c2VjcmV0 x", "", "", false},
		{"another scheme", "Bearer aWQ6c2VjcmV0", "", "", false},
		{"scheme alone", "Basic", "", "", false},
		{"empty", "", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id, secret, ok := basicCredentials(test.header)
			if id != test.id || secret != test.secret || ok != test.ok {
				t.Errorf("got %q, %q, %t; want %q, %q, %t", id, secret, ok, test.id, test.secret, test.ok)
			}
		})
	}
}

func FuzzBasicCredentials(f *testing.F) {
	for _, seed := range []string{"Basic aWQ6c2VjcmV0", "basic aSUzQWQ6c2VjOnJldA==", "Bearer x", "Basic JTAwOiVmZg==", "Basic =", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		id, secret, ok := basicCredentials(header)
		if !ok {
			if id+secret != "" {
				t.Error("refused, but credentials are returned")
			}
			return
		}
		if !text.IsStorable(id) || !text.IsStorable(secret) {
			t.Errorf("%q gives what is no text", header)
		}
		if again, secretAgain, ok := basicCredentials(edgetest.Basic(id, secret)); !ok || again != id || secretAgain != secret {
			t.Errorf("%q does not survive encoding", header)
		}
	})
}

func FuzzForm(f *testing.F) {
	operations, err := readOperations()
	if err != nil {
		f.Fatal(err)
	}
	op := operations["POST /oauth/token"]
	for _, seed := range []string{
		"grant_type=refresh_token&refresh_token=svcr2_x", "grant_type=authorization_code&code=a&redirect_uri=b&code_verifier=" + verifier,
		"grant_type=a&grant_type=b", "code=%00", "code=%ff", "code=%zz", "code=;", "&&", "=x", "code", "client_secret=x", "code=%C3%BC+x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest(http.MethodPost, "/oauth/token", bytes.NewReader(body))
		request.Header.Set("Content-Type", formText)
		fields, err := op.readForm(request)
		if err != nil {
			return
		}
		if len(body) > 8192 {
			t.Error("a body over 8192 bytes was read")
		}
		for name, value := range fields {
			text := value.(string)
			if op.Body.Properties[name] == nil || text == "" || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
				t.Errorf("field %q is %q", name, text)
			}
		}
		if op.checkFields(fields) != nil {
			return
		}
		// An accepted form has every field of its grant and no field of the other.
		want := []string{"grant_type", "refresh_token"}
		if fields["grant_type"] == "authorization_code" {
			want = []string{"grant_type", "code", "redirect_uri", "code_verifier"}
		}
		for _, name := range want {
			if fields[name] == nil {
				t.Errorf("accepted without %s: %q", name, body)
			}
		}
		if len(fields) != len(want) {
			t.Errorf("accepted with %d fields: %q", len(fields), body)
		}
	})
}

// A query is read the same way, and what is accepted is what the generated binding sees.
func FuzzReadQuery(f *testing.F) {
	operations, err := readOperations()
	if err != nil {
		f.Fatal(err)
	}
	op := operations["GET /connect-svc/v1/grants/{grant_id}/cycling-activities"]
	for _, seed := range []string{
		"from=2026-03-10&to=2026-03-10", "limit=500&cursor=cc1_x", "limit=0500", "limit=%2B5", "from=%00", "from=%ff", "a=b",
		"from=a&from=b", ";", "%zz", "&&=", "limit", "cursor=" + strings.Repeat("x", 4097),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.URL.RawQuery = raw
		if op.checkRead(request, baseURL) != nil {
			return
		}
		for name, values := range request.URL.Query() {
			if _, known := op.Query[name]; !known || len(values) != 1 || !text.IsStorable(values[0]) {
				t.Errorf("accepted %s in %q", name, raw)
			}
		}
		query, err := url.ParseQuery(raw)
		if limit := query.Get("limit"); err != nil || query.Has("limit") && (len(limit) > 3 || limit < "1" || limit[0] > '9') {
			t.Errorf("accepted limit %q", limit)
		}
	})
}
