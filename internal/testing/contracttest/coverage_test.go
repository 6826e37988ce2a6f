package contracttest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// Each status of an operation is an outcome, of an error each code; those that did not come are missing.
func TestCoverage(t *testing.T) {
	t.Parallel()
	document := &document{spec: Partner().spec, seen: map[string]int{}}
	_, before, err := document.report()
	if err != nil {
		t.Fatal(err)
	}
	document.saw(httptest.NewRequest("POST", "/oauth/token", nil), 400, []byte(malformed))
	document.saw(httptest.NewRequest("GET", reads, nil), 404, []byte(notFound))
	document.saw(httptest.NewRequest("GET", reads, nil), 200, []byte(steps))
	document.saw(httptest.NewRequest("GET", "/oauth/token", nil), 404, []byte(malformed)) // no operation
	table, missing, err := document.report()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []string{"requestToken 400 invalid_request", "readDailyActivity 404 not_found", "readDailyActivity 200 "} {
		if !slices.Contains(before, o) || slices.Contains(missing, o) {
			t.Errorf("%v did not become covered", o)
		}
	}
	if len(before)-len(missing) != 3 || !slices.Contains(missing, "requestToken 400 invalid_grant") {
		t.Errorf("missing are %v", missing)
	}
	if !strings.Contains(table, "readDailyActivity               404     not_found               1\n") {
		t.Errorf("the table:\n%s", table)
	}
}

// A response to another process is checked on its way out, and goes out as it is.
func TestHandler(t *testing.T) {
	t.Parallel()
	reported := &complaints{TB: t}
	handler := Handler(reported, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Cache-Control": "no-store", "Pragma": "no-cache", "Referrer-Policy": "no-referrer", "Content-Type": "application/json", "X-Request-ID": id,
		} {
			w.Header().Set(name, value)
		}
		if r.Header.Get("Wrong") != "" {
			w.Header().Set("Server", "x")
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(malformed))
	}))
	request := httptest.NewRequest("POST", "/oauth/token", nil)
	for _, test := range []struct{ wrong, complaint string }{{"", ""}, {"yes", "header Server is not documented"}} {
		reported.text = ""
		request.Header.Set("Wrong", test.wrong)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		if response.Code != 400 || response.Body.String() != malformed || response.Header().Get("Pragma") != "no-cache" {
			t.Errorf("passed on: %d %v %s", response.Code, response.Header(), response.Body)
		}
		if (reported.text == "") != (test.complaint == "") || !strings.Contains(reported.text, test.complaint) {
			t.Errorf("complaint is %q, want %q", reported.text, test.complaint)
		}
	}
}

// complaints keeps what a test is reported.
type complaints struct {
	testing.TB
	text string
}

func (c *complaints) Errorf(format string, values ...any) { c.text = fmt.Sprintf(format, values...) }
