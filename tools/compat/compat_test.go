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

// The document breaks no client of a released one. `make compat` is this test alone.
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

// eventID is the parameter webhook-id of a webhook.
func (d tree) eventID() tree {
	return d.at("webhooks", "activity.updated", "post")["parameters"].([]any)[0].(map[string]any)
}

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
	{"path removed", func(d tree) { delete(d.at("paths"), token) }, "POST " + token, "api path removed without deprecation"},
	{"path renamed", func(d tree) { d.at("paths").rename(token, "/oauth/tokens") }, "POST " + token, "api path removed without deprecation"},
	{"path parameter renamed", func(d tree) {
		d.at("paths").rename(steps, strings.Replace(steps, "grant_id", "id", 1))
		d.at("paths", strings.Replace(steps, "grant_id", "id", 1))["parameters"] = values(object{
			"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}})
	}, "GET " + steps, "api path removed without deprecation"},
	{"path added", func(d tree) {
		d.at("paths")["/connect-svc/v1/news"] = object{"get": object{"operationId": "news", "security": values(),
			"responses": object{"204": object{"description": "Nothing."}}}}
	}, "", ""},
	{"operation removed", func(d tree) { d.at("paths", token).rename("post", "put") }, "POST " + token, "api removed without deprecation"},
	{"operation added", func(d tree) {
		d.at("paths", discovery)["head"] = object{"operationId": "probe", "security": values(),
			"responses": object{"204": object{"description": "Here."}}}
	}, "", ""},
	{"operationId", func(d tree) { d.operation(token, "post")["operationId"] = "token" },
		"POST " + token, "api operation id `requestToken` removed and replaced with `token`"},
	{"tag", func(d tree) { d.operation(steps, "get")["tags"] = values("OAuth") }, "GET " + steps, "api tag `Activity` removed"},
	{"webhook removed", func(d tree) { delete(d.at("webhooks"), "activity.updated") },
		"POST webhook activity.updated", "api path removed without deprecation"},
	{"webhook renamed", func(d tree) { d.at("webhooks").rename("activity.updated", "activity.changed") },
		"POST webhook activity.updated", "api path removed without deprecation"},
	{"webhook added", func(d tree) {
		d.at("webhooks")["client.changed"] = object{"post": object{"operationId": "clientChanged", "security": values(),
			"responses": object{"2XX": object{"description": "Received."}}}}
	}, "", ""},
	{"webhook with a not", func(d tree) { d.schema("ActivityUpdatedData")["not"] = object{"required": values("to")} },
		"webhook activity.updated POST responses 200 content application/json schema properties data not", `changed: {"schemaAdded":true}`},
	{"webhook with a not that excludes nothing", func(d tree) { d.schema("ActivityUpdatedData")["not"] = object{"required": values("type")} }, "", ""},
	{"server removed", func(d tree) { d["servers"] = values(object{"url": "https://other.example"}) },
		"servers", `changed: {"added":["https://other.example"],"deleted":["{base_url}"]}`},
	{"server added", func(d tree) { d.list("servers", plus(object{"url": "https://other.example"})) }, "", ""},
	{"server of an operation", func(d tree) {
		d.operation(token, "post")["servers"] = values(object{"url": "https://other.example"})
	}, token + " POST servers", `changed: {"added":["https://other.example"]}`},
	{"OpenAPI 3.2", func(d tree) { d["openapi"] = "3.2.0" }, "openAPI", `changed: {"from":"3.1.0","to":"3.2.0"}`},
	{"OpenAPI 3.1.1", func(d tree) { d["openapi"] = "3.1.1" }, "", ""},

	// Parameters and bodies: input.
	{"parameter removed", func(d tree) {
		d.operation(activities, "get").list("parameters", func(list []any) []any { return list[:3] })
	}, "GET " + activities, "deleted the `query` request parameter `cursor`"},
	{"parameter renamed", func(d tree) { d.parameter("Cursor")["name"] = "page" },
		"GET " + activities, "deleted the `query` request parameter `cursor`"},
	{"parameter moved", func(d tree) { d.parameter("Cursor")["in"] = "header" }, "GET " + activities, "deleted the `query` request parameter `cursor`"},
	{"required parameter added", func(d tree) {
		d.operation(steps, "get").list("parameters", plus(object{"name": "tz", "in": "query", "required": true, "schema": object{"type": "string"}}))
	}, "GET " + steps, "added the new required `query` request parameter `tz`"},
	{"optional parameter added", func(d tree) {
		d.operation(steps, "get").list("parameters", plus(object{"name": "tz", "in": "query", "schema": object{"type": "string"}}))
	}, "", ""},
	{"parameter became required", func(d tree) { d.parameter("Limit")["required"] = true },
		"GET " + activities, "`query` request parameter `limit` became required"},
	{"parameter became optional", func(d tree) { d.parameter("From")["required"] = false }, "", ""},
	{"path's parameter overridden", func(d tree) {
		d.operation(steps, "get").list("parameters", plus(object{"name": "grant_id", "in": "path", "required": true,
			"schema": object{"type": "string", "format": "uuid", "maxLength": 36, "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}))
	}, "GET " + steps, "`grant_id`, the maxLength was set to `36`"},
	{"style", func(d tree) { d.parameter("Limit")["explode"] = false },
		activities + " GET parameters query limit explode", `changed: {"from":null,"to":false}`},
	{"input maximum lowered", func(d tree) { d.parameter("Limit").at("schema")["maximum"] = 100 },
		"GET " + activities, "`limit`, the max was decreased from `500.00`"},
	{"input maximum raised", func(d tree) { d.parameter("Limit").at("schema")["maximum"] = 1000 }, "", ""},
	{"input maximum removed", func(d tree) { delete(d.parameter("Limit").at("schema"), "maximum") }, "", ""},
	{"input minimum raised", func(d tree) { d.parameter("Limit").at("schema")["minimum"] = 2 },
		"GET " + activities, "`limit`, the min was increased from `1.00`"},
	{"input minimum lowered", func(d tree) { d.parameter("Limit").at("schema")["minimum"] = 0 }, "", ""},
	{"input exclusiveMaximum added", func(d tree) { d.parameter("Limit").at("schema")["exclusiveMaximum"] = 500 },
		"GET " + activities, "`limit`, the exclusiveMaximum was set to `500.00`"},
	{"input multipleOf added", func(d tree) { d.parameter("Limit").at("schema")["multipleOf"] = 10 },
		"GET " + activities, "`limit`, the multipleOf was set to `10.00`"},
	{"default changed", func(d tree) { d.parameter("Limit").at("schema")["default"] = 50 },
		activities + " GET parameters query limit schema default", `changed: {"from":100,"to":50}`},
	{"default removed", func(d tree) { delete(d.parameter("Limit").at("schema"), "default") },
		activities + " GET parameters query limit schema default", `changed: {"from":100,"to":null}`},
	{"input type changed", func(d tree) { d.parameter("Limit").at("schema")["type"] = "string" },
		activities + " GET parameters query limit schema type", `changed: {"added":["string"],"deleted":["integer"]}`},
	{"input type widened", func(d tree) { d.parameter("Limit").at("schema")["type"] = "number" }, "", ""},
	{"input type added", func(d tree) { d.parameter("Limit").at("schema")["type"] = values("integer", "string") }, "", ""},
	{"input pattern changed", func(d tree) { d.schema("CodeVerifier")["pattern"] = "^[a-z]{43,128}$" },
		"POST " + token, "changed the pattern of the request property `oneOf[#/components/schemas/AuthorizationCodeRequest]/code_verifier` from `^[A-Za-z0-9._~-]{43,128}$` to `^[a-z]{43,128}$`"},
	{"input pattern removed", func(d tree) { delete(d.schema("CodeVerifier"), "pattern") }, "", ""},
	{"input pattern added", func(d tree) { d.parameter("Cursor").at("schema")["pattern"] = "^cc1_" },
		"GET " + activities, "added the pattern `^cc1_` to the `query` request parameter `cursor`"},
	{"input format added", func(d tree) { d.parameter("Cursor").at("schema")["format"] = "uuid" },
		"GET " + activities, "`cursor`, the `format` was changed from `none`"},
	{"input maxLength lowered", func(d tree) { d.field("RevokeRequest", "token")["maxLength"] = 100 },
		"POST /oauth/revoke", "`token` request property's maxLength was decreased to `100`"},
	{"input minLength raised", func(d tree) { d.field("RevokeRequest", "token")["minLength"] = 5 },
		"POST /oauth/revoke", "`token` request property's minLength was increased from `1`"},
	{"input field removed", func(d tree) { delete(d.schema("RevokeRequest").at("properties"), "token_type_hint") },
		"POST /oauth/revoke", "removed the request property `token_type_hint`"},
	{"input field renamed", func(d tree) { d.schema("RevokeRequest").at("properties").rename("token_type_hint", "hint") },
		"POST /oauth/revoke", "removed the request property `token_type_hint`"},
	{"optional input field added", func(d tree) { d.schema("RevokeRequest").at("properties")["reason"] = object{"type": "string"} }, "", ""},
	{"required input field added", func(d tree) {
		d.schema("RevokeRequest").at("properties")["reason"] = object{"type": "string"}
		d.schema("RevokeRequest").list("required", plus("reason"))
	}, "POST /oauth/revoke", "added the new required request property `reason`"},
	{"input field became required", func(d tree) { d.schema("RevokeRequest").list("required", plus("token_type_hint")) },
		"POST /oauth/revoke", "the request property `token_type_hint` became required"},
	{"input field became optional", func(d tree) { d.schema("RevokeRequest").list("required", minus("token")) }, "", ""},
	{"input value removed", func(d tree) { d.field("RevokeRequest", "token_type_hint")["enum"] = values("access_token") },
		"POST /oauth/revoke", "removed the enum value `refresh_token` of the request property `token_type_hint`"},
	{"input value added", func(d tree) { d.field("RevokeRequest", "token_type_hint").list("enum", plus("cursor")) }, "", ""},
	{"input values listed", func(d tree) { d.field("RevokeRequest", "token")["enum"] = values("a") },
		"POST /oauth/revoke", "request property `token` was restricted to a list of enum values"},
	{"input object opened", func(d tree) { delete(d.schema("RevokeRequest"), "additionalProperties") }, "", ""},
	{"input choice tightened", func(d tree) {
		d.schema("RefreshTokenRequest").at("properties")["device"] = object{"type": "string"}
		d.schema("RefreshTokenRequest").list("required", plus("device"))
	}, "POST " + token, "added the new required request property `oneOf[#/components/schemas/RefreshTokenRequest]/device`"},
	{"input choice refuses more", func(d tree) { delete(d.schema("AuthorizationCodeRequest").at("properties"), "code") },
		"POST " + token, "removed the request property `oneOf[#/components/schemas/AuthorizationCodeRequest]/code`"},
	{"input choice refuses less", func(d tree) { d.schema("AuthorizationCodeRequest").list("required", minus("code_verifier")) }, "", ""},
	{"input choice changed", func(d tree) { d.schema("RefreshTokenRequest").at("properties", "grant_type")["const"] = "x" },
		"POST " + token, "the `grant_type` request property const value changed from `refresh_token` to `x`"},
	{"input choice removed", func(d tree) { d.schema("TokenRequest").list("oneOf", func(list []any) []any { return list[1:] }) },
		"POST " + token, "removed `#/components/schemas/AuthorizationCodeRequest` from the request body `oneOf` list"},
	{"unknown keyword", func(d tree) { d.schema("RevokeRequest")["propertyNames"] = object{"maxLength": 5} },
		"POST /oauth/revoke", "added 'propertyNames' constraint to the request body"},
	{"body removed", func(d tree) { delete(d.operation(token, "post"), "requestBody") }, "POST " + token, "removed the request body"},
	{"required body added", func(d tree) {
		d.operation(discovery, "get")["requestBody"] = object{"required": true, "content": object{"text/plain": object{}}}
	}, "GET " + discovery, "added required request body"},
	{"optional body added", func(d tree) {
		d.operation(discovery, "get")["requestBody"] = object{"content": object{"text/plain": object{}}}
	}, "", ""},
	{"body became optional", func(d tree) { d.operation(token, "post").at("requestBody")["required"] = false }, "", ""},
	{"media type of a body replaced", func(d tree) {
		d.operation(token, "post").at("requestBody", "content").rename("application/x-www-form-urlencoded", "application/json")
	}, "POST " + token, "removed the media type `application/x-www-form-urlencoded` from the request body"},
	{"media type of a body added", func(d tree) {
		d.operation(token, "post").at("requestBody", "content")["application/json"] = object{}
	}, "", ""},

	// Responses: output.
	{"status removed", func(d tree) { delete(d.operation(steps, "get").at("responses"), "429") },
		"GET " + steps, "removed the non-success response with the status `429`"},
	{"status added", func(d tree) {
		d.operation(steps, "get").at("responses")["410"] = object{"description": "Gone."}
	}, "GET " + steps, "added the non-success response with the status `410`"},
	{"status changed", func(d tree) { d.operation(token, "post").at("responses").rename("200", "201") },
		"POST " + token, "removed the success response with the status `200`"},
	{"header removed", func(d tree) { delete(d.response("RateLimited").at("headers"), "Retry-After") },
		"GET " + activities, "removed the required property `header Retry-After`"},
	{"header added", func(d tree) {
		d.response("RateLimited").at("headers")["Sunset"] = object{"schema": object{"type": "string"}}
	}, "", ""},
	{"header became optional", func(d tree) { d.at("components", "headers", "RetryAfter")["required"] = false },
		"GET " + activities, "the response property `header Retry-After` became optional"},
	{"header became required", func(d tree) { d.at("components", "headers", "CountedRateLimitReset")["required"] = true }, "", ""},
	{"header's type", func(d tree) { d.at("components", "headers", "RetryAfter", "schema")["type"] = "string" },
		"GET " + activities, "`header Retry-After` response's property `type` changed from `integer` to `string`"},
	{"header's value", func(d tree) { d.at("components", "headers", "CacheControl", "schema")["const"] = "private" },
		"GET " + discovery, "`header Cache-Control` response property const value changed from `no-store` to `private`"},
	{"media type of a response removed", func(d tree) { d.response("NotFound").at("content").rename("application/json", "text/plain") },
		"GET " + activities, "removed the media type `application/json` for the response with the status `404`"},
	{"media type of a response added", func(d tree) { d.response("NotFound").at("content")["text/plain"] = object{} },
		"GET " + activities, "added the media type `text/plain` for the response with the status `404`"},
	{"output field removed", func(d tree) { delete(d.schema("DailySteps").at("properties"), "updated_at") },
		"GET " + steps, "removed the required property `data/items/updated_at`"},
	{"output field renamed", func(d tree) { d.schema("DailySteps").at("properties").rename("steps", "count") },
		"GET " + steps, "removed the required property `data/items/steps`"},
	{"output field added to a closed object", func(d tree) {
		d.schema("DailySteps").at("properties")["goal"] = object{"type": "integer"}
	}, "GET " + steps, "added the optional property `data/items/goal` to the response with the `200` status"},
	{"output object opened", func(d tree) { delete(d.schema("DailySteps"), "additionalProperties") },
		steps + " GET responses 200 content application/json schema properties data items additionalPropertiesAllowed", `changed: {"from":false,"to":null}`},
	{"output field became optional", func(d tree) { d.schema("DailySteps").list("required", minus("steps")) },
		"GET " + steps, "the response property `data/items/steps` became optional"},
	{"output type changed", func(d tree) { d.field("DailySteps", "steps")["type"] = "string" },
		"GET " + steps, "`data/items/steps` response's property `type` changed from `integer` to `string`"},
	{"output type widened", func(d tree) { d.field("DailySteps", "steps")["type"] = values("integer", "null") },
		"GET " + steps, "the response property `data/items/steps` became nullable"},
	{"output type narrowed", func(d tree) { d.field("CyclingActivity", "recorded_end_time")["type"] = "string" }, "", ""},
	{"output null gets a value", func(d tree) { d.field("DailySteps", "updated_at")["type"] = values("string", "null") },
		"GET " + steps, "`data/items/updated_at` response's property `type` was widened from `null` to `string, null`"},
	{"output value added", func(d tree) { d.field("CyclingActivitiesBadRequestDetail", "code").list("enum", plus("gone")) },
		"GET " + activities, "added the new `gone` enum value to the `error/code` response property"},
	{"output value removed", func(d tree) {
		d.field("CyclingActivitiesBadRequestDetail", "code").list("enum", minus("invalid_cursor"))
	},
		"GET " + activities, "removed the `invalid_cursor` enum value from the `error/code` response property"},
	{"output const changed", func(d tree) { d.schema("Source")["const"] = "SVC" },
		"GET " + activities, "`source` response property const value changed from `svc` to `SVC`"},
	{"output const dropped", func(d tree) { delete(d.schema("Source"), "const") },
		"GET " + activities, "`source` response property const value `svc` was removed"},
	{"output maximum raised", func(d tree) { d.field("TokenResponse", "expires_in")["maximum"] = 3600 },
		"POST " + token, "`expires_in` response property's max was increased from `300.00`"},
	{"output maximum lowered", func(d tree) { d.field("TokenResponse", "expires_in")["maximum"] = 200 }, "", ""},
	{"output minimum lowered", func(d tree) { d.field("DailySteps", "steps")["minimum"] = -1 },
		"GET " + steps, "`data/items/steps` response property's min was decreased from `0.00`"},
	{"output maxLength raised", func(d tree) { d.field("TokenResponse", "access_token")["maxLength"] = 4096 },
		"POST " + token, "`access_token` response property's maxLength was increased from `2048`"},
	{"output maxItems raised", func(d tree) { d.field("CyclingActivities", "data")["maxItems"] = 1000 },
		"GET " + activities, "`data` response property's maxItems was increased from `500`"},
	{"output minItems lowered", func(d tree) { d.field("AuthorizationServerMetadata", "scopes_supported")["minItems"] = 1 },
		"GET " + discovery, "`scopes_supported` response property's minItems was decreased from `3`"},
	{"output uniqueItems dropped", func(d tree) { d.field("AuthorizationServerMetadata", "scopes_supported")["uniqueItems"] = false },
		"GET " + discovery, "`scopes_supported` response property's uniqueItems was unset"},
	{"output pattern changed", func(d tree) { d.field("CyclingActivity", "id")["pattern"] = "^ca_" },
		"GET " + activities, "`data/items/id` response's property pattern was changed from `^ca_[A-Za-z0-9_-]{43}$`"},
	{"output format dropped", func(d tree) { delete(d.schema("Instant"), "format") },
		"GET " + activities, "`meta/snapshot_at` response's property `format` changed from `date-time` to `none`"},
	{"output format added", func(d tree) { d.schema("RecordedTime")["format"] = "recorded-time" }, "", ""},
	{"output items changed", func(d tree) { d.field("DailyActivity", "data")["items"] = object{"type": "string"} },
		"GET " + steps, "`data/items/` response's property `type` changed from `object` to `string`"},
	{"output choice", func(d tree) {
		d.schema("CalendarDate")["anyOf"] = values(object{"maxLength": 10}, object{"maxLength": 12})
	}, "GET " + activities, "added `subschema #1, subschema #2` to the `data/items/date` response property `anyOf` list"},
	{"error's text", func(d tree) {
		d.at("components", "examples", "RateLimited", "value", "error")["message"] = "Slow down."
	}, "GET " + activities + " 429", `the error {"error":{"code":"rate_limited","message":"Too many requests."}} was removed or changed`},
	{"error removed", func(d tree) {
		delete(d.response("TokenBadRequest").at("content", "application/json", "examples"), "invalid_grant")
	}, "POST " + token + " 400", `the error {"error":"invalid_grant","error_description":"The code or refresh token is not valid."} was removed or changed`},
	{"error with a known code added", func(d tree) {
		d.response("ActivityBadRequest").at("content", "application/json", "examples")["invalid_cursor"] = object{"$ref": "#/components/examples/InvalidCursor"}
	}, "", ""},

	// Webhooks: the service is the caller.
	{"event's field removed", func(d tree) { delete(d.schema("ConnectionRevokedData").at("properties"), "reason") },
		"POST webhook connection.revoked", "removed the required property `data/reason`"},
	{"event's field added", func(d tree) {
		d.schema("ConnectionRevokedData").at("properties")["note"] = object{"type": "string"}
	}, "POST webhook connection.revoked", "added the optional property `data/note` to the response with the `200` status"},
	{"event's value added", func(d tree) { d.field("ConnectionRevokedData", "reason").list("enum", plus("expired")) },
		"POST webhook connection.revoked", "added the new `expired` enum value to the `data/reason` response property"},
	{"event's media type added", func(d tree) {
		d.at("webhooks", "activity.updated", "post", "requestBody", "content")["text/plain"] = object{}
	}, "POST webhook activity.updated", "added the media type `text/plain` for the response with the status `200`"},
	{"event's header removed", func(d tree) {
		d.at("webhooks", "activity.updated", "post").list("parameters", func(list []any) []any { return list[1:] })
	}, "POST webhook activity.updated", "removed the required property `header webhook-id`"},
	{"event's header became optional", func(d tree) { d.eventID()["required"] = false },
		"POST webhook activity.updated", "the response property `header webhook-id` became optional"},
	{"event's header wider", func(d tree) { d.eventID().at("schema")["maxLength"] = 500 },
		"POST webhook activity.updated", "`header webhook-id` response property's maxLength was increased from `255`"},
	{"event's header narrower", func(d tree) { d.eventID().at("schema")["maxLength"] = 100 }, "", ""},
	{"event's header added", func(d tree) {
		d.at("webhooks", "activity.updated", "post").list("parameters", plus(object{"name": "traceparent", "in": "header", "required": true, "schema": object{"type": "string"}}))
	}, "", ""},
	{"event's response removed", func(d tree) {
		d.at("webhooks", "activity.updated", "post", "responses").rename("2XX", "204")
	}, "POST webhook activity.updated", "removed the enum value `2XX` from the `query` request parameter `status`"},
	{"event's response added", func(d tree) {
		d.at("webhooks", "activity.updated", "post", "responses")["410"] = object{"description": "Stop."}
	}, "", ""},

	// Security.
	{"security added", func(d tree) { delete(d.operation(discovery, "get"), "security") },
		"GET " + discovery, "the endpoint no longer allows anonymous access and now only accepts `clientCredentials`"},
	{"security removed", func(d tree) { d.operation(token, "post")["security"] = values() },
		"POST " + token, "the endpoint now allows anonymous access"},
	{"security replaced", func(d tree) { d["security"] = values(object{"accessToken": values()}) },
		"POST /oauth/revoke", "scheme security `clientCredentials` was removed from the API"},
	{"scope added", func(d tree) {
		d.operation(steps, "get")["security"] = values(object{"accessToken": values("daily_steps:read", "cycling_daily:read")})
	}, "GET " + steps, "the security scope `cycling_daily:read` was added to the endpoint's security scheme `accessToken`"},
	{"alternative added", func(d tree) {
		d["security"] = values(object{"clientCredentials": values()}, object{"mutualTLS": values()})
		d.at("components", "securitySchemes")["mutualTLS"] = object{"type": "mutualTLS"}
	}, "", ""},
	{"scheme changed", func(d tree) { d.at("components", "securitySchemes", "clientCredentials")["scheme"] = "digest" },
		"components", "the component security scheme `clientCredentials` http scheme changed from `basic` to `digest`"},
	{"scheme's address", func(d tree) {
		d.at("components", "securitySchemes", "accessToken", "flows", "authorizationCode")["tokenUrl"] = "https://connect.example/token"
	}, "components", "the component security scheme `accessToken` oauth `authorizationCode` flow token url changed from `https://connect.example/oauth/token`"},
	{"scheme's flow", func(d tree) {
		d.at("components", "securitySchemes", "accessToken", "flows").rename("authorizationCode", "clientCredentials")
	}, "components securitySchemes accessToken OAuthFlows authorizationCode deleted", "changed: true"},
	{"scheme's scope removed", func(d tree) {
		delete(d.at("components", "securitySchemes", "accessToken", "flows", "authorizationCode", "scopes"), "cycling_daily:read")
	}, "components securitySchemes accessToken OAuthFlows authorizationCode scopes deleted", `changed: ["cycling_daily:read"]`},
	{"scheme's scope added", func(d tree) {
		d.at("components", "securitySchemes", "accessToken", "flows", "authorizationCode", "scopes")["sleep:read"] = "Read sleep."
	}, "", ""},

	// Names, and what nobody depends on.
	{"component renamed", func(d tree) {
		d.at("components", "schemas").rename("RevokeRequest", "Revocation")
		d.operation("/oauth/revoke", "post").at("requestBody", "content", "application/x-www-form-urlencoded")["schema"] =
			object{"$ref": "#/components/schemas/Revocation"}
	}, "components schemas deleted", `changed: ["RevokeRequest"]`},
	{"component added", func(d tree) { d.at("components", "schemas")["Sleep"] = object{"type": "integer"} }, "", ""},
	{"prose", func(d tree) {
		d.at("info")["description"], d.at("info")["version"] = "Other words.", "1.1.0"
		d.schema("CalendarDate")["description"], d.schema("CalendarDate")["title"] = "A day.", "Day"
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
	for _, test := range planted {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			changed := parse(t, plant(t, source, test.change))
			breaks, err := Compare(parse(t, source), changed)
			if err != nil {
				t.Fatal(err)
			}
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
	breaks, err := Compare(parse(t, source("1")), parse(t, source("2")))
	if err != nil {
		t.Fatal(err)
	}
	want := []Break{{"GET /", "the `n` response property's max was increased from `1.00` to `2.00` for the response status `200`"}}
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
