package edgetest

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
)

// Walk is a walk over the routes of a router. GET, HEAD and OPTIONS change nothing (RFC 9110, section 9.2.1): the previews of programs, the
// prefetches of browsers and programs that look at emails send them without anybody's doing.
type Walk struct {
	Handler http.Handler
	Router  http.Handler // the chi.Routes of the handler
	Pool    *postgres.Pool

	Values  map[string]string   // of the parameters of the routes, by name, or by pattern and name
	Queries map[string]string   // that routes need, by pattern
	Ask     func(*http.Request) // adds what lets a request in

	SignIn  string            // where requests without credentials are led to, or empty
	Refuses []string          // patterns whose GET is not a success
	Sets    map[string]string // reasons for the cookies that GET sets, by pattern and name, such as "/oauth/authorize x"
	Writes  map[string]string // reasons for the rows that GET writes, by pattern, or * for all, and table or column, as of [pgtest.Rows]
}

var parameterOfRoute = regexp.MustCompile(`\{[^}]+\}`)

// ChangesNothing sends GET, also as a browser's prefetch, HEAD and OPTIONS to all routes, also to those that only POST has. The test fails if
// that changes a row or sets a cookie, or if the GET of a route does not succeed: then the walk has not got there.
func (w Walk) ChangesNothing(t *testing.T) {
	t.Helper()
	methods := map[string][]string{}
	if err := chi.Walk(w.Router.(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		methods[pattern] = append(methods[pattern], method)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	gets := 0
	for pattern, has := range methods {
		var except []string
		for name := range w.Writes {
			if route, rows, _ := strings.Cut(name, " "); route == pattern || route == "*" {
				except = append(except, rows)
			}
		}
		before := pgtest.Rows(t, w.Pool, except...)
		target := parameterOfRoute.ReplaceAllStringFunc(pattern, func(name string) string {
			for _, key := range []string{pattern + " " + strings.Trim(name, "{}"), strings.Trim(name, "{}")} {
				if value, known := w.Values[key]; known {
					return value
				}
			}
			t.Fatalf("%s: no value of %s", pattern, name)
			return ""
		})
		if query := w.Queries[pattern]; query != "" {
			target += "?" + query
		}
		for _, method := range []string{http.MethodGet, "prefetch", http.MethodHead, http.MethodOptions} {
			request := httptest.NewRequestWithContext(t.Context(), strings.Replace(method, "prefetch", http.MethodGet, 1), target, nil)
			request.Host = "127.0.0.1"
			if method == "prefetch" {
				request.Header.Set("Sec-Purpose", "prefetch")
			}
			w.Ask(request)
			answer := httptest.NewRecorder()
			w.Handler.ServeHTTP(answer, request)
			if method == http.MethodGet && slices.Contains(has, method) {
				gets++
				refused := answer.Code >= http.StatusBadRequest || w.SignIn != "" && strings.HasPrefix(answer.Header().Get("Location"), w.SignIn)
				if refused != slices.Contains(w.Refuses, pattern) {
					t.Errorf("GET %s answers %d: %.300s", target, answer.Code, answer.Body)
				}
			}
			for _, cookie := range answer.Result().Cookies() {
				if w.Sets[pattern+" "+cookie.Name] == "" {
					t.Errorf("%s %s sets the cookie %s", method, pattern, cookie.Name)
				}
			}
			if after := pgtest.Rows(t, w.Pool, except...); !cmp.Equal(before, after) {
				t.Errorf("%s %s changes rows (-before +after):\n%s", method, pattern, cmp.Diff(before, after))
				before = after
			}
		}
	}
	if gets == 0 {
		t.Error("the router has no GET")
	}
}
