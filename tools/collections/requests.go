package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const title = "Partner Activity Connect Service"

// step is a request in the order of the collection: an operation, with one of the examples of its body.
type step struct{ operation, example string }

var steps = []step{
	{"readSandbox", ""}, {"decideAuthorization", "allow"}, {"getAuthorizationServerMetadata", ""}, {"requestToken", "authorization_code"},
	{"readDailyActivity", ""}, {"readCyclingDaily", ""}, {"readCyclingActivities", ""},
	{"requestToken", "refresh_token"}, {"revokeToken", "refresh_token"}, {"disconnectGrant", ""},
}

// variables have the values of a sandbox that listens where it does by default. The verifier and its challenge are those of RFC 7636,
// Appendix B, which nobody may use outside of a sandbox.
var variables = []pair{
	{"driver_url", "http://127.0.0.1:9090", false},
	{"base_url", "https://127.0.0.1:8443", false},
	{"client_id", "", false}, {"client_secret", "", false}, {"callback_url", "", false}, {"user_id", "", false},
	{"state", "for-trying-in-a-sandbox-only", false},
	{"code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", false},
	{"code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", false},
	{"code", "", false}, {"access_token", "", false}, {"refresh_token", "", false}, {"grant_id", "", false}, {"history_from", "", false},
}

// values stand in place of the documents' examples.
var values = map[string]string{
	"grant_id": "{{grant_id}}", "from": "{{history_from}}", "to": "{{history_from}}", "code": "{{code}}", "redirect_uri": "{{callback_url}}",
	"code_verifier": "{{code_verifier}}", "refresh_token": "{{refresh_token}}", "token": "{{refresh_token}}", "user_id": "{{user_id}}",
	"authorization_url": "{{base_url}}/oauth/authorize?client_id={{client_id}}&redirect_uri={{callback_url}}&response_type=code" +
		"&scope=daily_steps%3Aread%20cycling_daily%3Aread%20cycling_activities%3Aread" +
		"&state={{state}}&code_challenge={{code_challenge}}&code_challenge_method=S256",
}

// scripts keep what an answer has, in the language of both programs. Each program has its own answer and set.
var scripts = map[string][]string{
	"readSandbox": {
		`for (const name of ["client_id", "client_secret", "callback_url"]) set(name, answer.client[name]);`,
		`set("base_url", answer.base_url);`,
		`set("user_id", answer.users.find((user) => user.kind === "active").user_id);`,
	},
	"decideAuthorization": {`set("code", answer.redirect_url.match(/[?&]code=([^&]+)/)[1]);`},
	"requestToken":        {`for (const name of ["access_token", "refresh_token", "grant_id", "history_from"]) set(name, answer[name]);`},
}

// pair is a parameter, a field or a variable.
type pair struct {
	Name, Value string
	Off         bool // left out unless somebody switches it on
}

type request struct {
	Number                           int
	Name, Method, Server, Path, Docs string
	Basic, Bearer                    bool
	Query, Form                      []pair
	JSON                             string
	Status                           string // of the answer
	Script                           []string
}

// Address returns the URL with its query.
func (r request) Address() string {
	address, separator := r.Server+r.Path, "?"
	for _, p := range r.Query {
		if !p.Off {
			address += separator + p.Name + "=" + p.Value
			separator = "&"
		}
	}
	return address
}

// requests returns the requests of all steps, from the files of the documents.
func requests(partner, sandbox string) (list []request, err error) {
	operations := map[string]request{}
	bodies := map[string]*openapi3.RequestBodyRef{}
	for server, file := range map[string]string{"{{base_url}}": partner, "{{driver_url}}": sandbox} {
		document, err := openapi3.NewLoader().LoadFromFile(file)
		if err != nil {
			return nil, err
		}
		for path, item := range document.Paths.Map() {
			for method, described := range item.Operations() {
				r := request{Name: described.Summary, Method: method, Docs: strings.TrimSpace(described.Description)}
				r.Server, r.Path = server, strings.NewReplacer("{", "{{", "}", "}}").Replace(path)
				r.read(slices.Concat(item.Parameters, described.Parameters), described.Responses)
				security := document.Security
				if described.Security != nil {
					security = *described.Security
				}
				for _, needed := range security {
					_, r.Basic = needed["clientCredentials"]
					_, r.Bearer = needed["accessToken"]
				}
				r.Script = scripts[described.OperationID]
				operations[described.OperationID], bodies[described.OperationID] = r, described.RequestBody
			}
		}
	}
	for i, s := range steps {
		r, known := operations[s.operation]
		if !known {
			return nil, fmt.Errorf("no operation %s", s.operation)
		}
		r.Number = i + 1
		if s.example != "" {
			if err := r.readBody(bodies[s.operation].Value.Content, s.example); err != nil {
				return nil, fmt.Errorf("%s: %w", s.operation, err)
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// read takes the parameters of the query, and the status of success.
func (r *request) read(parameters openapi3.Parameters, responses *openapi3.Responses) {
	for _, p := range parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			value := cmp.Or(values[p.Value.Name], text(p.Value.Example))
			r.Query = append(r.Query, pair{p.Value.Name, value, !p.Value.Required})
		}
	}
	r.Status = slices.Min(slices.Collect(maps.Keys(responses.Map())))
}

// readBody takes an example of the body.
func (r *request) readBody(content openapi3.Content, name string) error {
	for mediaType, described := range content {
		example := described.Examples[name]
		if example == nil {
			return fmt.Errorf("no example %s", name)
		}
		if example.Value.Summary != "" {
			r.Name = example.Value.Summary
		}
		fields := example.Value.Value.(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			value := cmp.Or(values[field], text(fields[field]))
			fields[field] = value
			if mediaType != "application/json" {
				r.Form = append(r.Form, pair{field, value, false})
			}
		}
		if mediaType == "application/json" {
			encoded, err := indented(fields)
			if err != nil {
				return err
			}
			r.JSON = strings.TrimSpace(string(encoded))
		}
	}
	return nil
}

// indented returns JSON for people.
func indented(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

func text(example any) string {
	if example == nil {
		return ""
	}
	return fmt.Sprint(example)
}
