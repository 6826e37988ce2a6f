package compat

import (
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/flatten/commonparams"
)

// headerPrefix begins the names of the fields that stand for headers.
const headerPrefix = "header "

// rewrite gives a document a form that oasdiff has all rules for:
//
//   - A webhook becomes an operation with the roles reversed, because the service is its caller.
//   - The headers of a response become the fields of one more content: oasdiff has more rules for fields.
//   - An operation gets the parameters of its path.
//   - A closed object loses a `not` of an object that requires other fields: it excludes nothing.
//   - The version of OpenAPI loses its patch level, which changes nothing for a client's tools.
func rewrite(document *openapi3.T) {
	if end := strings.LastIndex(document.OpenAPI, "."); end > 0 {
		document.OpenAPI = document.OpenAPI[:end] + ".0"
	}
	for _, schema := range document.Components.Schemas {
		s := schema.Value
		closed := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
		if closed && s.Not != nil && slices.ContainsFunc(s.Not.Value.Required, func(name string) bool { return s.Properties[name] == nil }) {
			s.Not = nil
		}
	}
	for name, webhook := range document.Webhooks {
		reversed := &openapi3.PathItem{Servers: webhook.Servers}
		for method, operation := range webhook.Operations() {
			reversed.SetOperation(method, reverse(operation, webhook.Parameters))
		}
		document.Paths.Set("webhook "+name, reversed)
	}
	document.Webhooks = nil
	commonparams.Move(document)
	for _, item := range document.Paths.Map() {
		for _, operation := range item.Operations() {
			for _, response := range operation.Responses.Map() {
				headersToFields(response.Value)
			}
		}
	}
}

// reverse makes an operation that returns what the webhook sends and takes what the client responds, its status as a
// parameter.
func reverse(webhook *openapi3.Operation, shared openapi3.Parameters) *openapi3.Operation {
	sent := &openapi3.Response{Headers: openapi3.Headers{}}
	for _, parameter := range slices.Concat(shared, webhook.Parameters) {
		sent.Headers[parameter.Value.Name] = &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: *parameter.Value}}
	}
	if webhook.RequestBody != nil {
		sent.Content = webhook.RequestBody.Value.Content
	}
	status, taken := openapi3.NewStringSchema(), openapi3.Content{}
	for name, response := range webhook.Responses.Map() {
		status.Enum = append(status.Enum, name)
		maps.Copy(taken, response.Value.Content)
	}
	reversed := *webhook
	reversed.Parameters = openapi3.Parameters{{Value: openapi3.NewQueryParameter("status").WithSchema(status)}}
	reversed.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithContent(taken)}
	reversed.Responses = openapi3.NewResponses(openapi3.WithStatus(200, &openapi3.ResponseRef{Value: sent}))
	return &reversed
}

// headersToFields may find a response done already, because several operations share it.
func headersToFields(response *openapi3.Response) {
	if len(response.Headers) == 0 {
		return
	}
	fields := openapi3.NewObjectSchema()
	for name, header := range response.Headers {
		fields.Properties[headerPrefix+name] = header.Value.Schema
		if header.Value.Required {
			fields.Required = append(fields.Required, headerPrefix+name)
		}
	}
	content := openapi3.Content{"headers": &openapi3.MediaType{Schema: fields.NewRef()}}
	maps.Copy(content, response.Content)
	response.Content, response.Headers = content, nil
}
