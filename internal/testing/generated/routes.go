package generated

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"pgregory.net/rapid"
)

// unforeseen are values of which one or another was not foreseen somewhere, as they stand in a path, a query or a form.
var unforeseen = []string{
	"", "%00", "x%00y", "%FF", "%C3%28", "%E2%80%AE", "%F0%9F%98%80", "..", "%2e%2e%2f", "%2F", "-1", "0", "9223372036854775808", "1e400",
	"00000000-0000-0000-0000-000000000000", "8C7BE7A0-9D0B-4C1E-8F6B-2F8F4F6A1C55", "2026-02-30", "0000-01-01", "+infinity", "99999-01-01",
	"%27%3B--", "%7B%7D", "%5B%5D", "null", "true", "a@b.example", "a%40b.example%0D%0AX:", strings.Repeat("x", 5000),
}

// names are those of parameters and fields that are read somewhere.
var names = []string{
	"cursor", "limit", "before", "after", "since", "until", "from", "to", "q", "query", "user", "user_id", "client", "client_id", "email",
	"actor", "action", "state", "status", "code", "token", "decision", "browser", "name", "scope", "url", "note", "date", "days", "delta",
	"file", "next", "page", "format", "timezone", "registered_on", "verbose",
}

var parameter = regexp.MustCompile(`\{[^}]+\}|\*`)

// Hostile sends requests to all routes of the routers, with values that nobody foresaw beside known ones, which are those of the
// fixture's ids and names. change adds what lets a request in. None is answered with 500 or more, but for 503; one that
// panics or hangs ends the test.
func Hostile(t *testing.T, handler http.Handler, routers []http.Handler, known []string, change func(*http.Request)) {
	t.Helper()
	type route struct{ method, pattern string }
	var routes []route
	for _, router := range routers {
		list, ok := router.(chi.Routes)
		if !ok {
			t.Fatalf("%T has no routes", router)
		}
		if err := chi.Walk(list, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			routes = append(routes, route{method, pattern})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(routes) == 0 {
		t.Fatal("there are no routes")
	}
	values := [][]string{known, unforeseen}
	bodies := map[string][]string{
		"application/x-www-form-urlencoded": nil,
		"application/json":                  {"", "{}", "[]", "null", `{"a":"\u0000"}`, `{"email":"\u0000","name":"x"}`, strings.Repeat("[", 3000), "{", `"\ud800"`},
		"text/csv; charset=x":               {"a,b\x00\n"},
		"multipart/form-data; boundary=x":   {"--x\r\nContent-Disposition: form-data; name=\"logo\"; filename=\"\x00\"\r\n\r\n<svg\r\n--x--"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		for range 10 {
			chosen := rapid.SampledFrom(routes).Draw(rt, "route")
			value := func(string) string { // a known one as often as not, so that some requests get far
				return rapid.SampledFrom(values[rapid.IntRange(0, 1).Draw(rt, "known")]).Draw(rt, "value")
			}
			target := parameter.ReplaceAllStringFunc(chosen.pattern, value)
			method := chosen.method
			if rapid.IntRange(0, 9).Draw(rt, "other method") == 0 {
				method = rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}).Draw(rt, "method")
			}
			var pairs []string
			for range rapid.IntRange(0, 3).Draw(rt, "pairs") {
				pairs = append(pairs, rapid.SampledFrom(names).Draw(rt, "name")+"="+value(""))
			}
			query := strings.Join(pairs, "&")
			contentType, body := "", ""
			if method != "GET" && method != "HEAD" {
				contentType = rapid.SampledFrom([]string{"application/x-www-form-urlencoded", "application/json", "text/csv; charset=x",
					"multipart/form-data; boundary=x"}).Draw(rt, "type")
				if list := bodies[contentType]; list != nil {
					body = rapid.SampledFrom(list).Draw(rt, "body")
				} else {
					body, query = query, ""
				}
			}
			if query != "" {
				target += "?" + query
			}
			request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")))
			if err != nil {
				continue // the server would not have passed it on
			}
			request = request.WithContext(t.Context())
			request.Body, request.ContentLength = http.NoBody, 0
			if contentType != "" {
				request.Header.Set("Content-Type", contentType)
				with := httptest.NewRequest(method, "/", strings.NewReader(body))
				request.Body, request.ContentLength = with.Body, with.ContentLength
			}
			request.RemoteAddr = "127.0.0.1:1"
			change(request)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code >= 500 && answer.Code != http.StatusServiceUnavailable {
				rt.Fatalf("%s %s of %s, %s %s: %d", method, chosen.pattern, target, contentType, url.QueryEscape(body), answer.Code)
			}
		}
	})
}

// Generator draws requests and their parts.
type Generator struct {
	*rapid.T
	// Known are values that exist, for a parameter or field of this name. Most that are drawn for it are of them.
	Known func(name string) []string

	careful bool // or most bodies would have a fault somewhere
}

// Part is a piece of a request with what the document says of it.
type Part struct {
	Text  string
	Valid bool
}

// Chance is true about once in n times.
func (g Generator) Chance(n int, label string) bool {
	return rapid.IntRange(1, n).Draw(g.T, label) == 1
}

// careless is [Generator.Chance] for what makes a value wrong.
func (g Generator) careless(n int, label string) bool { return !g.careful && g.Chance(n, label) }

// One is one of the texts.
func (g Generator) One(label string, texts ...string) string {
	return rapid.SampledFrom(texts).Draw(g.T, label)
}

// hostile are texts that programs trip over.
var hostile = []string{
	"", " ", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "�", "'", "\"", "%", "%00", "\\", "../..", "null", "0", "-1", "007", "1e3",
	"9223372036854775808", "2026-02-30", "0000-00-00", "10000-01-01", "2026-03-10T00:00:00Z", "٣", "\u202e", "😀",
	"{}", "[]", "$ref", "x;y", "a=b&c=d", strings.Repeat("x", 2049), strings.Repeat("ü", 1500),
}

// Value is one for a schema of a text, or of a number in a text, valid or not.
func (g Generator) Value(name string, schema *openapi3.Schema) Part {
	text := g.text(name, schema)
	return Part{text, allowed(schema, text)}
}

func (g Generator) text(name string, schema *openapi3.Schema) (text string) {
	switch known := g.Known(name); {
	case g.careless(9, name+" hostile?"):
		return g.One(name+" hostile", hostile...)
	case g.careless(30, name+" free?"):
		return rapid.String().Draw(g.T, name+" free")
	case len(known) > 0 && !g.careless(4, name+" unknown?"):
		if text = g.One(name+" known", known...); g.careless(10, name+" in capitals?") {
			text = strings.ToUpper(text)
		}
		return text
	case len(schema.Enum) > 0:
		return rapid.SampledFrom(schema.Enum).Draw(g.T, name).(string)
	case schema.Pattern != "":
		return rapid.StringMatching(schema.Pattern).Draw(g.T, name)
	}
	most := 100
	if schema.MaxLength != nil && g.careless(5, name+" long?") {
		most = int(*schema.MaxLength) + 1
	}
	least := int(schema.MinLength)
	if most > 100 {
		least = most - 2
	}
	return rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019-_.~ /+&=%?#ü")), least, most, -1).Draw(g.T, name)
}

// allowed says whether the document allows the text, which is that of a number where the schema wants one.
func allowed(schema *openapi3.Schema, text string) bool {
	var value any = text
	if schema.Type.Is(openapi3.TypeInteger) {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || !regexp.MustCompile(schema.Pattern).MatchString(text) {
			return false
		}
		value = number
	}
	return Clean(text) && fits(schema, value)
}

func fits(schema *openapi3.Schema, value any) bool {
	return schema.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation()) == nil
}

// Clean says whether text is UTF-8 without NUL.
func Clean(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
