package partner

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/client"
	"connect-svc/internal/scope"
	"connect-svc/internal/testing/contracttest"
)

// generator makes requests from the document: of each operation, with values that its schemas allow and values that
// they do not, and in part with the credentials of a connection that is really there.
type generator struct {
	*rapid.T
	state *played
}

// played is what the requests of one sequence act on, and what came back.
type played struct {
	partners               []partner
	codes, access, refresh []string
	grants, cursors        []string
}

// part is a piece of a request with what the document says of it.
type part struct {
	text  string
	valid bool
}

// chance is true about once in n times.
func (g generator) chance(n int, of string) bool {
	return rapid.IntRange(1, n).Draw(g.T, of) == 1
}

func (g generator) one(label string, texts ...string) string {
	return rapid.SampledFrom(texts).Draw(g.T, label)
}

// known are values of the running sequence for the parameters and fields that carry one.
func (g generator) known(name string) []string {
	switch name {
	case "grant_id":
		return latest(g.state.grants)
	case "code":
		return g.state.codes
	case "refresh_token":
		return latest(g.state.refresh)
	case "token":
		return slices.Concat(g.state.access, g.state.refresh)
	case "cursor":
		return g.state.cursors
	case "redirect_uri":
		return []string{callback}
	case "code_verifier":
		return []string{verifier}
	case "from", "to":
		return []string{today, tomorrow, yesterday}
	}
	return nil
}

// latest are values of which the last is the one that probably still works, and so comes most often.
func latest(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return append(slices.Clone(values), slices.Repeat(values[len(values)-1:], 2*len(values))...)
}

// hostile are texts that programs trip over.
var hostile = []string{
	"", " ", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "�", "'", "\"", "%", "%00", "\\", "../..", "null", "0", "-1", "007", "1e3",
	"9223372036854775808", "2026-02-30", "0000-00-00", "10000-01-01", "2026-03-10T00:00:00Z", "٣", "\u202e", "😀",
	"{}", "[]", "$ref", "x;y", "a=b&c=d", strings.Repeat("x", 2049), strings.Repeat("ü", 1500),
}

// value is one for a schema, valid or not.
func (g generator) value(name string, schema *openapi3.Schema) part {
	var text string
	switch known := g.known(name); {
	case g.chance(9, name+" hostile?"):
		text = g.one(name+" hostile", hostile...)
	case g.chance(30, name+" free?"):
		text = rapid.String().Draw(g.T, name+" free")
	case len(known) > 0 && !g.chance(4, name+" unknown?"):
		if text = g.one(name+" known", known...); g.chance(10, name+" in capitals?") {
			text = strings.ToUpper(text)
		}
	case len(schema.Enum) > 0:
		text = rapid.SampledFrom(schema.Enum).Draw(g.T, name).(string)
	case schema.Pattern != "":
		text = rapid.StringMatching(schema.Pattern).Draw(g.T, name)
	default:
		most := 100
		if schema.MaxLength != nil && g.chance(5, name+" long?") {
			most = int(*schema.MaxLength) + 1
		}
		least := int(schema.MinLength)
		if most > 100 {
			least = most - 2
		}
		text = rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019-_.~ /+&=%?#ü")), least, most, -1).Draw(g.T, name)
	}
	return part{text, allowed(schema, text)}
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
	return clean(text) && schema.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation()) == nil
}

// request is one of the document, with whether the document allows it.
type request struct {
	outgoing
	operation *openapi3.Operation
	valid     bool
}

// request makes one for a random operation.
func (g generator) request(document *openapi3.T) request {
	path := g.one("path", slices.Sorted(maps.Keys(document.Paths.Map()))...)
	item := document.Paths.Value(path)
	method := g.one("method", slices.Sorted(maps.Keys(item.Operations()))...)
	r := request{outgoing: outgoing{method: method, header: http.Header{}}, operation: item.GetOperation(method), valid: true}
	var query []string
	for _, reference := range append(slices.Clone(item.Parameters), r.operation.Parameters...) {
		parameter := reference.Value
		value := g.value(parameter.Name, parameter.Schema.Value)
		if parameter.In == openapi3.ParameterInPath {
			path = strings.Replace(path, "{"+parameter.Name+"}", url.PathEscape(value.text), 1)
			r.valid = r.valid && value.valid
		} else if !g.chance(10, parameter.Name+" left out?") && (parameter.Required || g.chance(2, parameter.Name+"?")) {
			query = append(query, url.QueryEscape(parameter.Name)+"="+url.QueryEscape(value.text))
			r.valid = r.valid && value.valid
		} else {
			r.valid = r.valid && !parameter.Required
		}
	}
	r.target = path
	query = g.spoil("query", query, &r.valid)
	if len(query) > 0 {
		r.target += "?" + strings.Join(query, "&")
	}
	if len(baseURL)+len(r.target) > maxReadURL {
		r.valid = false // a limit of the document's prose
	}
	g.body(&r)
	g.authorization(document, &r)
	if g.chance(25, "another method?") {
		r.method = g.one("other method", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "INVENTED")
		r.valid = r.valid && r.method == method
	}
	return r
}

// spoil repeats, adds or breaks a pair now and then.
func (g generator) spoil(of string, pairs []string, valid *bool) []string {
	if !g.chance(6, of+" spoilt?") {
		return pairs
	}
	*valid = false
	if len(pairs) > 0 && g.chance(2, of+" repeated?") {
		return append(pairs, g.one(of+" again", pairs...))
	}
	return append(pairs, g.one(of+" spoilt", "a=b", "%zz", "=", "a;b", "a=%ff", "%00", "client_secret=x", "from="))
}

// body makes the form of an operation that has one, and seldom a body for one that has none.
func (g generator) body(r *request) {
	if r.operation.RequestBody == nil {
		if g.chance(15, "body?") {
			r.body, r.chunked, r.valid = "x", g.chance(2, "chunked?"), false
		}
		return
	}
	schema := r.operation.RequestBody.Value.Content[formText].Schema.Value
	fields := map[string]any{}
	fine := true
	add := func(name string) {
		value := g.value(name, schema.Properties[name].Value)
		if value.text != "" { // a field without a value counts as missing
			fields[name] = value.text
		}
		fine = fine && clean(value.text)
	}
	for _, name := range schema.Required {
		add(name)
	}
	// Most forms have just the fields that go with the choice that was made.
	branch := schema
	if schema.If != nil {
		if branch = schema.Else.Value; schema.If.Value.VisitJSON(fields, openapi3.EnableJSONSchema2020()) == nil {
			branch = schema.Then.Value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		wanted := slices.Contains(branch.Required, name) && !g.chance(15, name+" left out?")
		if fields[name] == nil && (wanted || g.chance(12, name+" extra?")) {
			add(name)
		}
	}
	r.valid = r.valid && fine && schema.VisitJSON(fields, openapi3.EnableJSONSchema2020()) == nil
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(fields[name].(string)))
	}
	r.body = strings.Join(g.spoil("form", pairs, &r.valid), "&")
	r.valid = r.valid && len(r.body) <= maxBody // a limit of the document's prose
	r.chunked = r.body != "" && g.chance(10, "chunked?")
	r.header["Content-Type"] = []string{g.one("charset", formText, formText+"; charset=utf-8")}
	if g.chance(15, "another content type?") {
		r.header["Content-Type"] = []string{g.one("content type", "application/json", "text/plain", "", "multipart/form-data; boundary=x", "a/b/c")}
		r.valid = false
	}
}

// authorization adds credentials: as the operation wants them, or other ones.
func (g generator) authorization(document *openapi3.T, r *request) {
	security := &document.Security
	if r.operation.Security != nil {
		security = r.operation.Security
	}
	good := basic(g.state.partners[0].ID.String(), g.state.partners[0].secret)
	if len(*security) > 0 && (*security)[0][bearerScheme] != nil {
		good = "Bearer " + g.one("access token", latest(g.state.access)...)
	}
	r.header["Authorization"] = []string{good}
	switch {
	case !g.chance(6, "other credentials?"):
	case g.chance(4, "two headers?"):
		r.header["Authorization"] = []string{good, good}
		r.valid = false
	default:
		values := []string{"", "Basic", "Basic ", "Basic !", "Basic eA==", "Bearer", "Bearer ", "Bearer a b", "Bearer \xff",
			"Digest x", "Basic Og==", "Basic AAA6AAA=", strings.Repeat("x", 5000)}
		for _, p := range g.state.partners {
			values = append(values, p.basic(), basic(p.ID.String(), "wrong"))
		}
		for _, token := range slices.Concat(g.state.access, g.state.refresh, g.state.codes, g.state.cursors) {
			values = append(values, "Bearer "+token)
		}
		r.header["Authorization"] = []string{g.one("credentials", values...)}
	}
}

// remember takes from an answer what later requests can be made with.
func (s *played) remember(body []byte) {
	var fields struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Meta    struct {
			Cursor string `json:"next_cursor"`
		} `json:"meta"`
	}
	if json.Unmarshal(body, &fields) != nil {
		return
	}
	if fields.Access != "" {
		s.access, s.refresh = append(s.access, fields.Access), append(s.refresh, fields.Refresh)
	}
	if fields.Meta.Cursor != "" {
		s.cursors = append(s.cursors, fields.Meta.Cursor)
	}
}

// Whatever comes that the document describes, and whatever comes close to it, is answered as the document says: never
// with a fault, with what is not documented, or with success for what the document does not allow; and what it allows
// is never called malformed. Each sequence of requests has a connection of its own, which they use, refresh and end.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	document, err := partnerapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	slow := f.newClient(t, client.Policy{RequestsPerMinute: 1, Burst: 3, ConcurrentReads: 1})
	sent, successes := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		own := *f
		own.user = f.newUser(t)
		for _, ride := range []string{"a", "b", "c"} {
			own.addRide(t, ride, today+" 07:00:00", nil, 1000)
		}
		partners := []partner{f.client, slow}
		if rapid.IntRange(1, 5).Draw(rt, "slow client?") == 1 {
			slices.Reverse(partners)
		}
		scopes := rapid.SampledFrom([]scope.Set{scope.All, scope.All, scope.DailySteps, scope.CyclingActivities}).Draw(rt, "scopes")
		state := &played{partners: partners}
		connect := func(p partner, scopes scope.Set) {
			tokens := own.connect(t, p, scopes)
			state.codes = append(state.codes, own.code(t, p, scopes))
			state.access, state.refresh = append(state.access, tokens.AccessToken), append(state.refresh, tokens.RefreshToken)
			state.grants = append(state.grants, tokens.GrantID.String())
		}
		connect(partners[1], scope.All)
		connect(partners[0], scopes)
		for range rapid.IntRange(1, 20).Draw(rt, "requests") {
			g := generator{rt, state}
			if g.chance(5, "connect again?") { // the requests before may have ended the connection
				connect(partners[0], scopes)
			}
			r := g.request(document)
			status, body := f.generated(rt, r)
			sent++
			if status < 300 {
				successes++
			}
			state.remember(body)
			code := errorCode(body)
			secured := r.operation.Security == nil || len(*r.operation.Security) > 0
			switch {
			case status >= 500:
				rt.Fatalf("%s %q: %d", r.method, r.target, status)
			case r.valid && (code == "invalid_request" || strings.HasPrefix(code, "unsupported")):
				rt.Fatalf("%s %q with %q: the document allows it, but the answer is %s", r.method, r.target, r.body, code)
			case !r.valid && secured && status < 400:
				rt.Fatalf("%s %q with %q: the document does not allow it, but the answer is %d", r.method, r.target, r.body, status)
			}
		}
	})
	if successes == 0 {
		t.Errorf("none of %d requests succeeded", sent)
	}
	t.Logf("%d requests, of which %d succeeded", sent, successes)
}

// generated sends a request and holds the answer against the document.
func (f *fixture) generated(rt *rapid.T, r request) (status int, body []byte) {
	var content io.Reader
	if r.body != "" {
		content = strings.NewReader(r.body)
		if r.chunked {
			content = io.MultiReader(content)
		}
	}
	request, err := http.NewRequestWithContext(context.Background(), r.method, f.url+r.target, content)
	if err != nil {
		rt.Fatal(err)
	}
	maps.Copy(request.Header, r.header)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		rt.Fatalf("%s %q: %v", r.method, r.target, err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		rt.Fatal(err)
	}
	if err := contracttest.Check(request, response.StatusCode, response.Header, body); err != nil {
		rt.Fatalf("%s %q with %q and %q: %d is not as documented: %v", r.method, r.target, r.header, r.body, response.StatusCode, err)
	}
	return response.StatusCode, bytes.TrimSpace(body)
}
