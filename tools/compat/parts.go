package compat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// parameters compares those of an operation, its path's included. Those of a webhook are headers that the client
// receives: like the headers of an answer, there may be more of them.
func (c *comparison) parameters(where string, before, after openapi3.Parameters, sent direction) {
	for _, reference := range before {
		old := reference.Value
		at := where + ", " + old.In + " parameter " + old.Name
		new := after.GetByInAndName(old.In, old.Name)
		if new == nil {
			c.add(at, "the parameter was removed")
			continue
		}
		c.value(at, old, new, sent)
	}
	for _, reference := range after {
		new := reference.Value
		if sent == input && new.Required && before.GetByInAndName(new.In, new.Name) == nil {
			c.add(where+", "+new.In+" parameter "+new.Name, "a required parameter was added")
		}
	}
}

// value compares what parameters and headers have in common.
func (c *comparison) value(at string, old, new *openapi3.Parameter, sent direction) {
	c.presence(at, old.Required, new.Required, sent)
	wire := func(p *openapi3.Parameter) any {
		return []any{p.Style, p.Explode, p.AllowEmptyValue, p.AllowReserved}
	}
	if different(wire(old), wire(new)) {
		c.add(at, "it is written in another way (style, explode, allowEmptyValue or allowReserved)")
	}
	c.schema(at, old.Schema, new.Schema, sent)
	c.content(at, old.Content, new.Content, sent)
}

// presence compares whether something must be there.
func (c *comparison) presence(at string, old, new bool, sent direction) {
	switch {
	case sent == input && new && !old:
		c.add(at, "it became required")
	case sent == output && old && !new:
		c.add(at, "it is no longer always there")
	}
}

func (c *comparison) body(at string, old, new *openapi3.RequestBodyRef, sent direction) {
	switch {
	case old == nil && new == nil:
	case new == nil:
		c.add(at, "the body was removed")
	case old == nil:
		if sent == output || new.Value.Required {
			c.add(at, "a body was added")
		}
	default:
		c.presence(at, old.Value.Required, new.Value.Required, sent)
		c.content(at, old.Value.Content, new.Value.Content, sent)
	}
}

func (c *comparison) content(at string, before, after openapi3.Content, sent direction) {
	for _, mediaType := range sorted(before) {
		old, new := before[mediaType], after[mediaType]
		if new == nil {
			c.add(at, "media type %s was removed", mediaType)
			continue
		}
		c.schema(at+", "+mediaType+" $", old.Schema, new.Schema, sent)
		if different([]any{old.Encoding, old.ItemSchema}, []any{new.Encoding, new.ItemSchema}) {
			c.add(at+", "+mediaType, "its encoding was changed, which this check cannot judge")
		}
	}
	for _, mediaType := range sorted(after) {
		if sent == output && before[mediaType] == nil {
			c.add(at, "media type %s was added, which the client does not expect", mediaType)
		}
	}
}

func (c *comparison) responses(where string, before, after *openapi3.Responses, sent direction) {
	for _, status := range sorted(before.Map()) {
		at := where + ", answer " + status
		reference := after.Value(status)
		if reference == nil {
			c.add(at, "the status was removed")
			continue
		}
		old, new := before.Value(status).Value, reference.Value
		c.headers(at, old.Headers, new.Headers, sent)
		c.content(at, old.Content, new.Content, sent)
		if status >= "4" {
			c.errors(at, old.Content, new.Content)
		}
		if different(old.Links, new.Links) {
			c.add(at, "links were changed, which this check cannot judge")
		}
	}
	for _, status := range sorted(after.Map()) {
		if sent == output && before.Value(status) == nil {
			c.add(where+", answer "+status, "the status was added, which the client does not expect")
		}
	}
}

func (c *comparison) headers(where string, before, after openapi3.Headers, sent direction) {
	for _, name := range sorted(before) {
		at := where + ", header " + name
		if after[name] == nil {
			c.add(at, "the header was removed")
			continue
		}
		c.value(at, &before[name].Value.Parameter, &after[name].Value.Parameter, sent)
	}
	for _, name := range sorted(after) {
		if sent == input && before[name] == nil && after[name].Value.Required {
			c.add(where+", header "+name, "a required header was added")
		}
	}
}

// errors compares the examples of an error answer. They are no mere examples: codes and messages are fixed
// (specification 7). There may be more of them, as long as the code is one that the schema lists.
func (c *comparison) errors(at string, before, after openapi3.Content) {
	for _, mediaType := range sorted(before) {
		now := map[string]bool{}
		if new := after[mediaType]; new != nil {
			for _, example := range new.Examples {
				now[fixed(example)] = true
			}
		}
		for _, name := range sorted(before[mediaType].Examples) {
			if text := fixed(before[mediaType].Examples[name]); !now[text] {
				c.add(at, "the error %s was removed or changed", text)
			}
		}
	}
}

// fixed is an error without what is different each time.
func fixed(example *openapi3.ExampleRef) string {
	value := example.Value.Value
	if fields, ok := value.(map[string]any); ok {
		value = without(fields, "request_id")
	}
	text, _ := json.Marshal(value) // came out of JSON or YAML
	return string(text)
}

func without(fields map[string]any, name string) map[string]any {
	rest := map[string]any{}
	for key, value := range fields {
		if key != name {
			rest[key] = value
		}
	}
	return rest
}

// security compares the alternatives of which a client uses one: there may be more.
func (c *comparison) security(where string, before, after openapi3.SecurityRequirements) {
	now := alternatives(after)
	for _, way := range alternatives(before) {
		if !slices.Contains(now, way) {
			c.add(where, "security was changed: %s is not enough any more, but %s", way, strings.Join(now, ", or "))
		}
	}
}

func alternatives(requirements openapi3.SecurityRequirements) []string {
	if len(requirements) == 0 {
		return []string{"no authentication"}
	}
	var ways []string
	for _, requirement := range requirements {
		var parts []string
		for _, scheme := range sorted(requirement) {
			scopes := slices.Sorted(slices.Values(requirement[scheme]))
			parts = append(parts, strings.TrimSpace(scheme+" "+strings.Join(scopes, " ")))
		}
		if len(parts) == 0 {
			parts = []string{"no authentication"}
		}
		ways = append(ways, strings.Join(parts, " with "))
	}
	return ways
}

// components compares what is named. Generators make types of the names, also where nothing on the wire depends on them.
func (c *comparison) components(before, after *openapi3.Components) {
	if before == nil {
		return
	}
	if after == nil {
		after = &openapi3.Components{}
	}
	removed(c, "schema", before.Schemas, after.Schemas)
	removed(c, "parameter", before.Parameters, after.Parameters)
	removed(c, "header", before.Headers, after.Headers)
	removed(c, "response", before.Responses, after.Responses)
	removed(c, "request body", before.RequestBodies, after.RequestBodies)
	removed(c, "security scheme", before.SecuritySchemes, after.SecuritySchemes)
	for _, name := range sorted(before.SecuritySchemes) {
		if after.SecuritySchemes[name] != nil {
			c.scheme("security scheme "+name, before.SecuritySchemes[name].Value, after.SecuritySchemes[name].Value)
		}
	}
}

func removed[V any](c *comparison, kind string, before, after map[string]V) {
	for _, name := range sorted(before) {
		if _, there := after[name]; !there {
			c.add(kind+" "+name, "the component was removed, and what generators name after it")
		}
	}
}

func (c *comparison) scheme(where string, old, new *openapi3.SecurityScheme) {
	before, after := *old, *new
	for _, scheme := range []*openapi3.SecurityScheme{&before, &after} {
		scheme.Description, scheme.Flows, scheme.Extensions, scheme.Origin = "", nil, nil, nil
	}
	if different(before, after) {
		c.add(where, "it was changed")
	}
	was, is := flows(old.Flows), flows(new.Flows)
	for _, name := range sorted(was) {
		at := where + ", flow " + name
		if is[name] == nil {
			c.add(at, "the flow was removed")
			continue
		}
		urls := func(f *openapi3.OAuthFlow) []string { return []string{f.AuthorizationURL, f.TokenURL, f.RefreshURL} }
		if !slices.Equal(urls(was[name]), urls(is[name])) {
			c.add(at, "an address was changed")
		}
		for _, scope := range sorted(was[name].Scopes) {
			if _, there := is[name].Scopes[scope]; !there {
				c.add(at, "scope %s was removed", scope)
			}
		}
	}
}

func flows(all *openapi3.OAuthFlows) map[string]*openapi3.OAuthFlow {
	named := map[string]*openapi3.OAuthFlow{}
	if all == nil {
		return named
	}
	for name, flow := range map[string]*openapi3.OAuthFlow{
		"implicit": all.Implicit, "password": all.Password,
		"clientCredentials": all.ClientCredentials, "authorizationCode": all.AuthorizationCode,
	} {
		if flow != nil {
			named[name] = flow
		}
	}
	return named
}
