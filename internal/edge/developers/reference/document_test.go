package reference

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"connect-svc/api"
)

func contract(t *testing.T) (*Document, *openapi3.T) {
	t.Helper()
	document, err := Read(api.Partner, "{base_url}")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := openapi3.NewLoader().LoadFromData(api.Partner)
	if err != nil {
		t.Fatal(err)
	}
	return document, parsed
}

// Operations come by their tags, in the order of the document.
func TestOrder(t *testing.T) {
	t.Parallel()
	document, _ := contract(t)
	var got []string
	for _, g := range document.Groups {
		got = append(got, g.Label)
		for _, o := range g.Operations {
			got = append(got, o.ID)
		}
	}
	want := []string{"OAuth", "getAuthorizationServerMetadata", "requestToken", "revokeToken", "disconnectGrant",
		"Activity", "readDailyActivity", "readCyclingDaily", "readCyclingActivities", "Events", "connectionRevoked", "activityUpdated"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// paths are those of all fields of a schema, with those of its choices and of the items of its lists.
func paths(parent string, schema *openapi3.Schema) (found []string) {
	if schema.Items != nil {
		schema = schema.Items.Value
	}
	for name, property := range schema.Properties {
		found = append(found, parent+"-"+name)
		found = append(found, paths(parent+"-"+name, property.Value)...)
	}
	return found
}

func idsOf(fields []Field) (ids []string) {
	for _, f := range fields {
		ids = append(append(ids, f.ID), idsOf(f.Fields)...)
	}
	return ids
}

// Nothing of the document is left out: every parameter, header and field of every body, and each has an ID of its own.
func TestComplete(t *testing.T) {
	t.Parallel()
	document, parsed := contract(t)
	var want []string
	collect := func(item *openapi3.PathItem) {
		for _, operation := range item.Operations() {
			id := operation.OperationID
			for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
				want = append(want, id+"-request-"+p.Value.Name)
			}
			if operation.RequestBody != nil {
				for _, media := range operation.RequestBody.Value.Content {
					if media.Schema.Value.OneOf == nil {
						want = append(want, paths(id+"-request", media.Schema.Value)...)
						continue
					}
					for value, choice := range media.Schema.Value.Discriminator.Mapping {
						name := choice.Ref[strings.LastIndexByte(choice.Ref, '/')+1:]
						want = append(want, paths(id+"-request-"+value, parsed.Components.Schemas[name].Value)...)
					}
				}
			}
			for status, answer := range operation.Responses.Map() {
				for name := range answer.Value.Headers {
					want = append(want, id+"-"+status+"-header-"+name)
				}
				for _, media := range answer.Value.Content {
					want = append(want, paths(id+"-"+status, media.Schema.Value)...)
				}
			}
		}
	}
	for _, item := range parsed.Paths.Map() {
		collect(item)
	}
	for _, item := range parsed.Webhooks {
		collect(item)
	}
	var got []string
	for _, g := range document.Groups {
		for _, o := range g.Operations {
			for _, p := range o.Parameters {
				got = append(got, idsOf(p.Fields)...)
			}
			for _, b := range o.Bodies {
				got = append(got, idsOf(b.Fields)...)
			}
			for _, a := range slices.Concat(o.Answers, o.Errors) {
				got = append(append(got, idsOf(a.Headers)...), idsOf(a.Fields)...)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 300 {
		t.Errorf("%d fields\n%s", len(got), diff)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	document, _ := contract(t)
	all := map[string]Field{}
	var add func([]Field)
	add = func(fields []Field) {
		for _, f := range fields {
			add(f.Fields)
			f.Fields, f.Description = nil, ""
			all[f.ID] = f
		}
	}
	for _, g := range document.Groups {
		for _, o := range g.Operations {
			for _, p := range o.Parameters {
				add(p.Fields)
			}
			for _, b := range o.Bodies {
				add(b.Fields)
			}
			for _, a := range slices.Concat(o.Answers, o.Errors) {
				add(a.Fields)
			}
		}
	}
	for _, want := range []Field{
		{ID: "readCyclingActivities-request-limit", Name: "limit", Type: "integer", Presence: "optional",
			Rules: []string{"1 to 500", "100 if left out"}, Pattern: "^([1-9][0-9]?|[1-4][0-9]{2}|500)$"},
		{ID: "readDailyActivity-request-from", Name: "from", Type: "date", Presence: "required"},
		{ID: "requestToken-request-refresh_token-grant_type", Name: "grant_type", Type: "string", Presence: "required", Values: []string{"refresh_token"}},
		{ID: "revokeToken-request-token_type_hint", Name: "token_type_hint", Type: "string", Presence: "optional", Values: []string{"access_token", "refresh_token"}},
		{ID: "readCyclingActivities-200-meta-next_cursor", Name: "next_cursor", Type: "string or null", Rules: []string{"1 to 4096 characters"}},
		{ID: "readDailyActivity-200-data", Name: "data", Type: "array of objects", Rules: []string{"at most 31 items"}},
		{ID: "activityUpdated-request-data-datasets", Name: "datasets", Type: "array of strings", Presence: "required",
			Rules: []string{"1 to 3 items", "none twice"}, Values: []string{"daily_steps", "cycling_daily", "cycling_activities"}},
		{ID: "revokeToken-400-error", Name: "error", Type: "string", Values: []string{"invalid_request", "unsupported_token_type"}},
	} {
		if diff := cmp.Diff(want, all[want.ID]); diff != "" {
			t.Errorf("%s: %s", want.ID, diff)
		}
	}
}

// The examples of answers and events are those of the document: only the order of their fields is the schemas'.
func TestSamples(t *testing.T) {
	t.Parallel()
	document, parsed := contract(t)
	seen := 0
	for _, g := range document.Groups {
		for _, o := range g.Operations {
			if o.Webhook != "" {
				continue
			}
			for _, a := range slices.Concat(o.Answers, o.Errors) {
				for _, media := range parsed.Paths.Find(o.Path).GetOperation(o.Method).Responses.Value(a.Status).Value.Content {
					var want, got []any
					for _, e := range examplesOf(media) {
						want = append(want, e.value)
					}
					for _, sample := range a.Samples {
						var value any
						if err := json.Unmarshal([]byte(sample.Text), &value); err != nil {
							t.Errorf("%s: %v", a.ID, err)
						}
						got = append(got, value)
						seen++
					}
					if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return a == b })); diff != "" {
						t.Errorf("%s: %s", a.ID, diff)
					}
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d samples", seen)
	}
}

// The curl samples send requests that the document allows.
func TestCurl(t *testing.T) {
	t.Parallel()
	document, _ := contract(t)
	var r *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		r = request
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	for _, g := range document.Groups {
		for _, o := range g.Operations {
			if o.Webhook != "" {
				continue
			}
			bodies := o.Bodies
			if bodies == nil {
				bodies = []Body{{}}
			}
			if len(o.Samples) != len(bodies) {
				t.Errorf("%s: %d samples of %d bodies", o.ID, len(o.Samples), len(bodies))
				continue
			}
			for i, sample := range o.Samples {
				curl := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail")
				curl.Stdin = strings.NewReader("CLIENT_ID=id CLIENT_SECRET=secret ACCESS_TOKEN=token\n" + strings.ReplaceAll(sample.Text, "{base_url}", server.URL))
				if output, err := curl.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", o.ID, err, output)
				}
				sent := map[string]bool{}
				for name := range r.Form {
					sent[name] = true
				}
				asked := map[string]bool{}
				for _, f := range bodies[i].Fields {
					asked[f.Name] = true
				}
				for _, p := range o.Parameters {
					for _, f := range p.Fields {
						if p.Label == "Query" && f.Presence == "required" {
							asked[f.Name] = true
						}
					}
				}
				path := strings.ReplaceAll(o.Path, "{grant_id}", "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55")
				if r.Method != o.Method || r.URL.Path != path || !reflect.DeepEqual(sent, asked) || (r.URL.RawQuery != "") != (o.Method == "GET" && len(asked) > 0) {
					t.Errorf("%s sends %s %s with %v, want %v", o.ID, r.Method, r.URL, sent, asked)
				}
				authorization := map[string]string{"": "", "Client credentials": "Basic aWQ6c2VjcmV0", "Access token": "Bearer token"}
				scheme := ""
				if o.Scheme != nil {
					scheme = o.Scheme.Label
				}
				if got := r.Header.Get("Authorization"); got != authorization[scheme] {
					t.Errorf("%s: %s is %q", o.ID, scheme, got)
				}
			}
		}
	}
}

// A tag that the document does not explain has no place on the page.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Read([]byte("openapi: ["), ""); err == nil {
		t.Error("no document")
	}
	broken := strings.Replace(string(api.Partner), "tags: [OAuth]", "tags: [Oath]", 1)
	if _, err := Read([]byte(broken), ""); err == nil || !strings.Contains(err.Error(), "getAuthorizationServerMetadata") {
		t.Error(err)
	}
}

// The document of the sandbox's driver is read as well: problem details, bodies in JSON, and schemas that only add a description.
func TestDriver(t *testing.T) {
	t.Parallel()
	document, err := Read(api.Sandbox, "http://driver")
	if err != nil {
		t.Fatal(err)
	}
	operations := map[string]Operation{}
	for _, g := range document.Groups {
		for _, o := range g.Operations {
			operations[o.ID] = o
			if !o.Open || len(o.Errors) == 0 || strings.Contains(o.Samples[0].Text, "nil") {
				t.Errorf("%s: open is %t, %d errors, %s", o.ID, o.Open, len(o.Errors), o.Samples[0].Text)
			}
		}
	}
	if len(operations) < 20 {
		t.Errorf("%d operations", len(operations))
	}
	set := operations["setClientStatus"]
	const want = `curl --request PUT "http://driver/sandbox/clients/0b6f1a52-3a8e-4a3c-9b8d-6b1f0c7f2d10/status" \
  --header "Content-Type: application/json" \
  --data '{
  "status": "disabled"
}'
`
	if diff := cmp.Diff(want, set.Samples[0].Text); diff != "" {
		t.Error(diff)
	}
	var codes []string
	for _, answer := range set.Errors {
		codes = append(codes, answer.Codes...)
		if got := answer.Fields[0].Values; len(got) != len(answer.Codes) || got[0] != problemPrefix+answer.Codes[0] && len(got) == 1 {
			t.Errorf("%s: the types are %v", answer.ID, got)
		}
	}
	if diff := cmp.Diff([]string{"malformed-request", "client-not-found", "not-found", "client-offboarded", "too-large",
		"unsupported-media-type", "invalid-content", "server-error"}, codes); diff != "" {
		t.Error(diff)
	}
	if first := operations["readSandbox"].Answers[0]; first.Fields[5].Name != "client" || len(first.Fields[5].Fields) < 10 ||
		first.Fields[5].Description != "The first of the clients." || !strings.Contains(first.Samples[0].Text, `"name": "Sandbox Partner"`) {
		t.Errorf("a client is %+v", first.Fields[5])
	}
}
