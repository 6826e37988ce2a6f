package compat

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

const document = "../../api/openapi.yaml"

// The document breaks no client of a released one. `make compat` prints the same list.
func TestReleased(t *testing.T) {
	t.Parallel()
	released, err := filepath.Glob("../../api/released/openapi-*.yaml")
	if err != nil || len(released) == 0 {
		t.Fatalf("there is no released document: %v", err)
	}
	for _, path := range released {
		old, err := openapi3.NewLoader().LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := "openapi-" + old.Info.Version + ".yaml"; filepath.Base(path) != want {
			t.Errorf("%s holds version %s", path, old.Info.Version)
		}
		breaks, err := Files(path, document)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range breaks {
			t.Errorf("breaks clients of %s: %s", filepath.Base(path), found)
		}
	}
}

// tree is a document as JSON, to plant changes in.
type tree map[string]any

// at goes down to an object.
func (d tree) at(names ...string) tree {
	for _, name := range names {
		d = d[name].(map[string]any)
	}
	return d
}

func (d tree) schema(name string) tree          { return d.at("components", "schemas", name) }
func (d tree) field(schema, name string) tree   { return d.schema(schema).at("properties", name) }
func (d tree) parameter(name string) tree       { return d.at("components", "parameters", name) }
func (d tree) response(name string) tree        { return d.at("components", "responses", name) }
func (d tree) operation(path, verb string) tree { return d.at("paths", path, verb) }

func (d tree) rename(old, new string) {
	d[new] = d[old]
	delete(d, old)
}

// list changes a list of texts.
func (d tree) list(name string, change func([]any) []any) {
	values, _ := d[name].([]any)
	d[name] = change(values)
}

func plus(value any) func([]any) []any {
	return func(list []any) []any { return append(slices.Clone(list), value) }
}

func minus(value any) func([]any) []any {
	return func(list []any) []any {
		return slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == value })
	}
}

func values(list ...any) []any { return append([]any{}, list...) } // an empty list is a list

const (
	steps      = "/connect-svc/v1/grants/{grant_id}/daily-activity"
	activities = "/connect-svc/v1/grants/{grant_id}/cycling-activities"
	discovery  = "/.well-known/oauth-authorization-server"
	token      = "/oauth/token"
)

type object = map[string]any

// planted are changes of the document, each with what must be found, where and what; empty where it is allowed.
var planted = []struct {
	name   string
	change func(d tree)
	where  string
	what   string
}{
	// Whole operations.
	{"path removed", func(d tree) { delete(d.at("paths"), token) }, token, "path was removed"},
	{"path renamed", func(d tree) { d.at("paths").rename(token, "/oauth/tokens") }, token, "path was removed"},
	{"path parameter renamed", func(d tree) {
		d.at("paths").rename(steps, strings.Replace(steps, "grant_id", "id", 1))
		d.at("paths", strings.Replace(steps, "grant_id", "id", 1))["parameters"] = values(object{
			"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
	}, steps, "path was removed"},
	{"path added", func(d tree) {
		d.at("paths")["/connect-svc/v1/news"] = object{"get": object{"operationId": "news", "security": values(),
			"responses": object{"204": object{"description": "Nothing."}}}}
	}, "", ""},
	{"operation removed", func(d tree) { d.at("paths", token).rename("post", "put") }, "POST " + token, "operation was removed"},
	{"operation added", func(d tree) {
		d.at("paths", discovery)["head"] = object{"operationId": "probe", "security": values(),
			"responses": object{"204": object{"description": "Here."}}}
	}, "", ""},
	{"operationId", func(d tree) { d.operation(token, "post")["operationId"] = "token" }, "POST " + token, "operationId"},
	{"tag", func(d tree) { d.operation(steps, "get")["tags"] = values("OAuth") }, "GET " + steps, "tag Activity"},
	{"webhook removed", func(d tree) { delete(d.at("webhooks"), "activity.updated") }, "webhook activity.updated", "webhook was removed"},
	{"webhook renamed", func(d tree) { d.at("webhooks").rename("activity.updated", "activity.changed") }, "webhook activity.updated", "webhook was removed"},
	{"webhook added", func(d tree) {
		d.at("webhooks")["client.changed"] = object{"post": object{"operationId": "clientChanged", "security": values(),
			"responses": object{"2XX": object{"description": "Received."}}}}
	}, "", ""},
	{"server removed", func(d tree) { d["servers"] = values(object{"url": "https://other.example"}) }, "the document", "server {base_url} was removed"},
	{"server added", func(d tree) { d.list("servers", plus(object{"url": "https://other.example"})) }, "", ""},
	{"server of an operation", func(d tree) {
		d.operation(token, "post")["servers"] = values(object{"url": "https://other.example"})
	}, "POST " + token, "servers of its own"},
	{"OpenAPI 3.2", func(d tree) { d["openapi"] = "3.2.0" }, "the document", "OpenAPI 3.1 became 3.2"},
	{"OpenAPI 3.1.1", func(d tree) { d["openapi"] = "3.1.1" }, "", ""},

	// Parameters and bodies: input.
	{"parameter removed", func(d tree) {
		d.operation(activities, "get").list("parameters", func(list []any) []any { return list[:3] })
	}, "GET " + activities + ", query parameter cursor", "parameter was removed"},
	{"parameter renamed", func(d tree) { d.parameter("Cursor")["name"] = "page" }, "GET " + activities + ", query parameter cursor", "parameter was removed"},
	{"parameter moved", func(d tree) { d.parameter("Cursor")["in"] = "header" }, "query parameter cursor", "parameter was removed"},
	{"required parameter added", func(d tree) {
		d.operation(steps, "get").list("parameters", plus(object{"name": "tz", "in": "query", "required": true, "schema": object{"type": "string"}}))
	}, "GET " + steps + ", query parameter tz", "required parameter was added"},
	{"optional parameter added", func(d tree) {
		d.operation(steps, "get").list("parameters", plus(object{"name": "tz", "in": "query", "schema": object{"type": "string"}}))
	}, "", ""},
	{"parameter became required", func(d tree) { d.parameter("Limit")["required"] = true }, "query parameter limit", "became required"},
	{"parameter became optional", func(d tree) { d.parameter("From")["required"] = false }, "", ""},
	{"path's parameter overridden", func(d tree) {
		d.operation(steps, "get").list("parameters", plus(object{"name": "grant_id", "in": "path", "required": true,
			"schema": object{"type": "string", "format": "uuid", "maxLength": 36, "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}))
	}, "GET " + steps + ", path parameter grant_id", "maxLength none became 36"},
	{"style", func(d tree) { d.parameter("Limit")["explode"] = false }, "query parameter limit", "written in another way"},
	{"input maximum lowered", func(d tree) { d.parameter("Limit").at("schema")["maximum"] = 100 }, "query parameter limit", "maximum 500 became 100"},
	{"input maximum raised", func(d tree) { d.parameter("Limit").at("schema")["maximum"] = 1000 }, "", ""},
	{"input maximum removed", func(d tree) { delete(d.parameter("Limit").at("schema"), "maximum") }, "", ""},
	{"input minimum raised", func(d tree) { d.parameter("Limit").at("schema")["minimum"] = 2 }, "query parameter limit", "minimum 1 became 2"},
	{"input minimum lowered", func(d tree) { d.parameter("Limit").at("schema")["minimum"] = 0 }, "", ""},
	{"input exclusiveMaximum added", func(d tree) { d.parameter("Limit").at("schema")["exclusiveMaximum"] = 500 }, "query parameter limit", "exclusiveMaximum none became 500"},
	{"input multipleOf added", func(d tree) { d.parameter("Limit").at("schema")["multipleOf"] = 10 }, "query parameter limit", "cannot judge"},
	{"default changed", func(d tree) { d.parameter("Limit").at("schema")["default"] = 50 }, "query parameter limit", "default 100 became 50"},
	{"default removed", func(d tree) { delete(d.parameter("Limit").at("schema"), "default") }, "query parameter limit", "default 100 became none"},
	{"input type changed", func(d tree) { d.parameter("Limit").at("schema")["type"] = "string" }, "query parameter limit", "type integer became string"},
	{"input type widened", func(d tree) { d.parameter("Limit").at("schema")["type"] = "number" }, "", ""},
	{"input type added", func(d tree) { d.parameter("Limit").at("schema")["type"] = values("integer", "string") }, "", ""},
	{"input pattern changed", func(d tree) { d.field("TokenRequest", "code_verifier")["pattern"] = "^[a-z]{43,128}$" }, "$.code_verifier", "pattern"},
	{"input pattern removed", func(d tree) { delete(d.field("TokenRequest", "code_verifier"), "pattern") }, "", ""},
	{"input pattern added", func(d tree) { d.parameter("Cursor").at("schema")["pattern"] = "^cc1_" }, "query parameter cursor", `pattern "" became`},
	{"input format added", func(d tree) { d.parameter("Cursor").at("schema")["format"] = "uuid" }, "query parameter cursor", "format"},
	{"input maxLength lowered", func(d tree) { d.field("RevokeRequest", "token")["maxLength"] = 100 }, "body, application/x-www-form-urlencoded $.token", "maxLength 2048 became 100"},
	{"input minLength raised", func(d tree) { d.field("RevokeRequest", "token")["minLength"] = 5 }, "$.token", "minLength 1 became 5"},
	{"input field removed", func(d tree) { delete(d.schema("RevokeRequest").at("properties"), "token_type_hint") }, "$.token_type_hint", "field was removed"},
	{"input field renamed", func(d tree) { d.schema("RevokeRequest").at("properties").rename("token_type_hint", "hint") }, "$.token_type_hint", "field was removed"},
	{"optional input field added", func(d tree) { d.schema("RevokeRequest").at("properties")["reason"] = object{"type": "string"} }, "", ""},
	{"required input field added", func(d tree) {
		d.schema("RevokeRequest").at("properties")["reason"] = object{"type": "string"}
		d.schema("RevokeRequest").list("required", plus("reason"))
	}, "$.reason", "field became required"},
	{"input field became required", func(d tree) { d.schema("RevokeRequest").list("required", plus("token_type_hint")) }, "$.token_type_hint", "became required"},
	{"input field became optional", func(d tree) { d.schema("RevokeRequest").list("required", minus("token")) }, "", ""},
	{"input value removed", func(d tree) { d.field("RevokeRequest", "token_type_hint")["enum"] = values("access_token") }, "$.token_type_hint", `value "refresh_token" was removed`},
	{"input value added", func(d tree) { d.field("RevokeRequest", "token_type_hint").list("enum", plus("cursor")) }, "", ""},
	{"input values listed", func(d tree) { d.field("RevokeRequest", "token")["enum"] = values("a") }, "$.token", `only "a" is accepted`},
	{"input object opened", func(d tree) { delete(d.schema("RevokeRequest"), "additionalProperties") }, "", ""},
	{"input condition tightened", func(d tree) { d.schema("TokenRequest").at("then").list("required", plus("code")) }, "(then).code", "became required"},
	{"input condition refuses more", func(d tree) { d.schema("TokenRequest").at("else", "properties")["code"] = false }, "(else).code", "not accepted any more"},
	{"input condition refuses less", func(d tree) { d.schema("TokenRequest").at("else", "properties")["refresh_token"] = true }, "", ""},
	{"input condition changed", func(d tree) { d.schema("TokenRequest").at("if", "properties", "grant_type")["const"] = "x" }, "(if).grant_type", "was removed"},
	{"input condition removed", func(d tree) { delete(d.schema("TokenRequest"), "if") }, "$", "if was added or removed"},
	{"unknown keyword", func(d tree) { d.schema("RevokeRequest")["propertyNames"] = object{"maxLength": 5} }, "$", "cannot judge"},
	{"body removed", func(d tree) { delete(d.operation(token, "post"), "requestBody") }, "POST " + token + ", body", "body was removed"},
	{"required body added", func(d tree) {
		d.operation(discovery, "get")["requestBody"] = object{"required": true, "content": object{"text/plain": object{}}}
	}, "GET " + discovery + ", body", "a body was added"},
	{"optional body added", func(d tree) {
		d.operation(discovery, "get")["requestBody"] = object{"content": object{"text/plain": object{}}}
	}, "", ""},
	{"body became optional", func(d tree) { d.operation(token, "post").at("requestBody")["required"] = false }, "", ""},
	{"media type of a body replaced", func(d tree) {
		d.operation(token, "post").at("requestBody", "content").rename("application/x-www-form-urlencoded", "application/json")
	}, "POST " + token + ", body", "media type application/x-www-form-urlencoded was removed"},
	{"media type of a body added", func(d tree) {
		d.operation(token, "post").at("requestBody", "content")["application/json"] = object{}
	}, "", ""},

	// Answers: output.
	{"status removed", func(d tree) { delete(d.operation(steps, "get").at("responses"), "429") }, "GET " + steps + ", answer 429", "status was removed"},
	{"status added", func(d tree) {
		d.operation(steps, "get").at("responses")["410"] = object{"description": "Gone."}
	}, "GET " + steps + ", answer 410", "status was added"},
	{"status changed", func(d tree) { d.operation(token, "post").at("responses").rename("200", "201") }, "answer 200", "status was removed"},
	{"header removed", func(d tree) { delete(d.response("RateLimited").at("headers"), "Retry-After") }, "answer 429, header Retry-After", "header was removed"},
	{"header added", func(d tree) {
		d.response("RateLimited").at("headers")["Sunset"] = object{"schema": object{"type": "string"}}
	}, "", ""},
	{"header became optional", func(d tree) { d.at("components", "headers", "RetryAfter")["required"] = false }, "header Retry-After", "no longer always there"},
	{"header became required", func(d tree) { d.at("components", "headers", "CountedRateLimitReset")["required"] = true }, "", ""},
	{"header's type", func(d tree) { d.at("components", "headers", "RetryAfter", "schema")["type"] = "string" }, "header Retry-After", "type integer became string"},
	{"header's value", func(d tree) { d.at("components", "headers", "CacheControl", "schema")["const"] = "private" }, "header Cache-Control", `"private" was added`},
	{"media type of an answer removed", func(d tree) { d.response("NotFound").at("content").rename("application/json", "text/plain") }, "answer 404", "media type application/json was removed"},
	{"media type of an answer added", func(d tree) { d.response("NotFound").at("content")["text/plain"] = object{} }, "answer 404", "media type text/plain was added"},
	{"output field removed", func(d tree) { delete(d.schema("DailySteps").at("properties"), "updated_at") }, "application/json $.data[*].updated_at", "field was removed"},
	{"output field renamed", func(d tree) { d.schema("DailySteps").at("properties").rename("steps", "count") }, "$.data[*].steps", "field was removed"},
	{"output field added to a closed object", func(d tree) {
		d.schema("DailySteps").at("properties")["goal"] = object{"type": "integer"}
	}, "$.data[*].goal", "added to a closed object"},
	{"output object opened", func(d tree) { delete(d.schema("DailySteps"), "additionalProperties") }, "$.data[*].*", "can be there now"},
	{"output field became optional", func(d tree) { d.schema("DailySteps").list("required", minus("steps")) }, "$.data[*].steps", "no longer always there"},
	{"output type changed", func(d tree) { d.field("DailySteps", "steps")["type"] = "string" }, "$.data[*].steps", "type integer became string"},
	{"output type widened", func(d tree) { d.field("DailySteps", "steps")["type"] = values("integer", "null") }, "$.data[*].steps", "type integer became integer or null"},
	{"output type narrowed", func(d tree) { d.field("CyclingActivity", "recorded_end_time")["type"] = "string" }, "", ""},
	{"output null gets a value", func(d tree) { d.field("DailySteps", "updated_at")["type"] = values("string", "null") }, "$.data[*].updated_at", "type null became"},
	{"output value added", func(d tree) { d.schema("ActivityErrorCode").list("enum", plus("gone")) }, "$.error.code", `value "gone" was added`},
	{"output value removed", func(d tree) { d.schema("ActivityErrorCode").list("enum", minus("not_found")) }, "$.error.code", `value "not_found" was removed`},
	{"output const changed", func(d tree) { d.schema("Source")["const"] = "SVC" }, "source", `value "svc" was removed`},
	{"output const dropped", func(d tree) { delete(d.schema("Source"), "const") }, "source", "no longer limited"},
	{"output maximum raised", func(d tree) { d.field("TokenResponse", "expires_in")["maximum"] = 3600 }, "$.expires_in", "maximum 300 became 3600"},
	{"output maximum lowered", func(d tree) { d.field("TokenResponse", "expires_in")["maximum"] = 200 }, "", ""},
	{"output minimum lowered", func(d tree) { d.field("DailySteps", "steps")["minimum"] = -1 }, "$.data[*].steps", "minimum 0 became -1"},
	{"output maxLength raised", func(d tree) { d.field("TokenResponse", "access_token")["maxLength"] = 4096 }, "$.access_token", "maxLength 2048 became 4096"},
	{"output maxItems raised", func(d tree) { d.field("CyclingActivities", "data")["maxItems"] = 1000 }, "$.data", "maxItems 500 became 1000"},
	{"output minItems lowered", func(d tree) { d.field("AuthorizationServerMetadata", "scopes_supported")["minItems"] = 1 }, "$.scopes_supported", "minItems 3 became 1"},
	{"output uniqueItems dropped", func(d tree) { d.field("AuthorizationServerMetadata", "scopes_supported")["uniqueItems"] = false }, "$.scopes_supported", "uniqueItems true became false"},
	{"output pattern changed", func(d tree) { d.field("CyclingActivity", "id")["pattern"] = "^ca_" }, "$.data[*].id", "pattern"},
	{"output format dropped", func(d tree) { delete(d.schema("Instant"), "format") }, "snapshot_at", "format"},
	{"output format added", func(d tree) { d.schema("RecordedTime")["format"] = "recorded-time" }, "", ""},
	{"output items changed", func(d tree) { d.field("DailyActivity", "data")["items"] = object{"type": "string"} }, "$.data[*]", "type object became string"},
	{"output choice", func(d tree) {
		d.schema("Date")["anyOf"] = values(object{"maxLength": 10}, object{"maxLength": 12})
	}, "", "anyOf has another number of schemas"},
	{"error's text", func(d tree) {
		d.at("components", "examples", "RateLimited", "value", "error")["message"] = "Slow down."
	}, "answer 429", "the error"},
	{"error removed", func(d tree) {
		delete(d.response("TokenBadRequest").at("content", "application/json", "examples"), "invalid_grant")
	}, "POST " + token + ", answer 400", "invalid_grant"},
	{"error with a known code added", func(d tree) {
		d.response("ActivityBadRequest").at("content", "application/json", "examples")["invalid_cursor"] = object{"$ref": "#/components/examples/InvalidCursor"}
	}, "", ""},

	// Webhooks: the service is the caller.
	{"event's field removed", func(d tree) { delete(d.schema("ConnectionRevokedData").at("properties"), "reason") }, "POST webhook connection.revoked, body, application/json $.data.reason", "field was removed"},
	{"event's field added", func(d tree) {
		d.schema("ConnectionRevokedData").at("properties")["note"] = object{"type": "string"}
	}, "$.data.note", "added to a closed object"},
	{"event's value added", func(d tree) { d.field("ConnectionRevokedData", "reason").list("enum", plus("expired")) }, "$.data.reason", `value "expired" was added`},
	{"event's media type added", func(d tree) {
		d.at("webhooks", "activity.updated", "post", "requestBody", "content")["text/plain"] = object{}
	}, "webhook activity.updated, body", "media type text/plain was added"},
	{"event's header removed", func(d tree) {
		d.at("webhooks", "activity.updated", "post").list("parameters", func(list []any) []any { return list[1:] })
	}, "webhook activity.updated, header parameter webhook-id", "parameter was removed"},
	{"event's header became optional", func(d tree) { d.parameter("WebhookId")["required"] = false }, "webhook-id", "no longer always there"},
	{"event's header wider", func(d tree) { d.parameter("WebhookId").at("schema")["maxLength"] = 500 }, "webhook-id", "maxLength 255 became 500"},
	{"event's header narrower", func(d tree) { d.parameter("WebhookId").at("schema")["maxLength"] = 100 }, "", ""},
	{"event's header added", func(d tree) {
		d.at("webhooks", "activity.updated", "post").list("parameters", plus(object{"name": "traceparent", "in": "header", "required": true, "schema": object{"type": "string"}}))
	}, "", ""},
	{"event's answer removed", func(d tree) {
		d.at("webhooks", "activity.updated", "post", "responses").rename("2XX", "204")
	}, "webhook activity.updated, answer 2XX", "status was removed"},
	{"event's answer added", func(d tree) {
		d.at("webhooks", "activity.updated", "post", "responses")["410"] = object{"description": "Stop."}
	}, "", ""},

	// Security.
	{"security added", func(d tree) { delete(d.operation(discovery, "get"), "security") }, "GET " + discovery, "no authentication is not enough"},
	{"security removed", func(d tree) { d.operation(token, "post")["security"] = values() }, "POST " + token, "security was changed"},
	{"security replaced", func(d tree) { d["security"] = values(object{"accessToken": values()}) }, "POST " + token, "clientCredentials is not enough"},
	{"scope added", func(d tree) {
		d.operation(steps, "get")["security"] = values(object{"accessToken": values("daily_steps:read", "cycling_daily:read")})
	}, "GET " + steps, "security was changed"},
	{"alternative added", func(d tree) {
		d["security"] = values(object{"clientCredentials": values()}, object{"mutualTLS": values()})
		d.at("components", "securitySchemes")["mutualTLS"] = object{"type": "mutualTLS"}
	}, "", ""},
	{"scheme changed", func(d tree) { d.at("components", "securitySchemes", "clientCredentials")["scheme"] = "digest" }, "security scheme clientCredentials", "changed"},
	{"scheme's address", func(d tree) {
		d.at("components", "securitySchemes", "accessToken", "flows", "authorizationCode")["tokenUrl"] = "https://connect.example/token"
	}, "security scheme accessToken, flow authorizationCode", "an address was changed"},
	{"scheme's flow", func(d tree) {
		d.at("components", "securitySchemes", "accessToken", "flows").rename("authorizationCode", "clientCredentials")
	}, "flow authorizationCode", "flow was removed"},
	{"scheme's scope removed", func(d tree) {
		delete(d.at("components", "securitySchemes", "accessToken", "flows", "authorizationCode", "scopes"), "cycling_daily:read")
	}, "flow authorizationCode", "scope cycling_daily:read was removed"},
	{"scheme's scope added", func(d tree) {
		d.at("components", "securitySchemes", "accessToken", "flows", "authorizationCode", "scopes")["sleep:read"] = "Read sleep."
	}, "", ""},

	// Names, and what nobody depends on.
	{"component renamed", func(d tree) {
		d.at("components", "schemas").rename("RevokeRequest", "Revocation")
		d.operation("/oauth/revoke", "post").at("requestBody", "content", "application/x-www-form-urlencoded")["schema"] =
			object{"$ref": "#/components/schemas/Revocation"}
	}, "schema RevokeRequest", "component was removed"},
	{"component added", func(d tree) { d.at("components", "schemas")["Sleep"] = object{"type": "integer"} }, "", ""},
	{"prose", func(d tree) {
		d.at("info")["description"], d.at("info")["version"] = "Other words.", "1.1.0"
		d.schema("Date")["description"], d.schema("Date")["title"] = "A day.", "Day"
		d.operation(token, "post")["summary"] = "Tokens"
		d.response("NotFound")["description"] = "Not there."
		d["tags"], d["x-logo"] = values(object{"name": "OAuth"}), "logo.svg"
	}, "", ""},
	{"example of what is no error", func(d tree) {
		d.parameter("From")["example"] = "2026-11-19"
		delete(d.operation(steps, "get").at("responses", "200", "content", "application/json"), "examples")
	}, "", ""},
	{"deprecation", func(d tree) { d.operation(steps, "get")["deprecated"] = true }, "", ""},
}

// Each kind of break, planted in a copy of the document, is found where it is; each kind of addition is let through.
func TestPlanted(t *testing.T) {
	t.Parallel()
	original, err := openapi3.NewLoader().LoadFromFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/connect-svc/v1/grants/{grant_id}/cycling-daily", "/connect-svc/v1/customer/grants/{grant_id}"} {
		original.Paths.Delete(path) // what is left has one of everything, and is read once for each test
	}
	original.Info.Description = ""
	source, err := json.Marshal(original)
	if err != nil {
		t.Fatal(err)
	}
	released := parse(t, source)
	for _, test := range planted {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			changed := parse(t, plant(t, source, test.change))
			breaks := Compare(released, changed)
			found := slices.ContainsFunc(breaks, func(b Break) bool {
				return strings.Contains(b.Where, test.where) && strings.Contains(b.What, test.what)
			})
			switch {
			case test.what == "" && len(breaks) > 0:
				t.Errorf("refused: %v", breaks)
			case test.what != "" && !found:
				t.Errorf("found %q, want %q about %q", breaks, test.what, test.where)
			}
		})
	}
}

// plant makes a change in a copy of the document.
func plant(t *testing.T, source []byte, change func(tree)) []byte {
	t.Helper()
	var copied tree
	if err := json.Unmarshal(source, &copied); err != nil {
		t.Fatal(err)
	}
	change(copied)
	text, err := json.Marshal(copied)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(text, source) {
		t.Fatal("nothing was planted")
	}
	return text
}

func parse(t *testing.T, text []byte) *openapi3.T {
	t.Helper()
	parsed, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// A schema that holds itself ends, and is compared once.
func TestRecursion(t *testing.T) {
	t.Parallel()
	source := func(most string) []byte {
		return []byte(`{"openapi":"3.1.0","info":{"title":"t","version":"1.0.0"},"paths":{"/":{"get":{"operationId":"get",
			"responses":{"200":{"description":"A tree.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Tree"}}}}}}}},
			"components":{"schemas":{"Tree":{"type":"object","properties":{"n":{"type":"integer","maximum":` + most + `},
			"left":{"$ref":"#/components/schemas/Tree"},"others":{"type":"array","items":{"oneOf":[{"$ref":"#/components/schemas/Tree"}]}}}}}}}`)
	}
	breaks := Compare(parse(t, source("1")), parse(t, source("2")))
	want := []Break{{"GET /, answer 200, application/json $.n", "maximum 1 became 2"}}
	if !slices.Equal(breaks, want) {
		t.Errorf("found %q, want %q", breaks, want)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	if _, err := Files("missing.yaml", document); err == nil {
		t.Error("a missing released document is no error")
	}
	if _, err := Files(document, "compat.go"); err == nil {
		t.Error("what is no document is no error")
	}
}
