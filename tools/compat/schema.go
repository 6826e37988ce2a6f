package compat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// pair are two schemas that are compared, and in which direction.
type pair struct {
	old, new *openapi3.Schema
	sent     direction
}

// schema compares what a value may be: as input everything that was accepted must still be, as output nothing may come
// that could not come before.
func (c *comparison) schema(at string, before, after *openapi3.SchemaRef, sent direction) {
	old, new := resolve(before), resolve(after)
	now, found := pair{old, new, sent}, len(c.breaks)
	if old == anything && new == anything || c.compared[now] {
		return
	}
	c.compared[now] = true
	defer func() {
		if len(c.breaks) > found { // to be told wherever else it matters
			delete(c.compared, now)
		}
	}()
	switch {
	case nothing(old) && nothing(new):
		return
	case nothing(old):
		if sent == output {
			c.add(at, "it can be there now, and could not")
		}
		return
	case nothing(new):
		if sent == input {
			c.add(at, "it is not accepted any more")
		}
		return
	}
	c.values(at, old, new, sent)
	c.types(at, old, new, sent)
	c.texts(at, old, new, sent)
	c.bounds(at, old, new, sent)
	c.object(at, old, new, sent)
	c.schema(at+"[*]", old.Items, new.Items, sent)
	c.combined(at, old, new, sent)
	if old.Default != nil && different(old.Default, new.Default) {
		c.add(at, "default %s became %s", text(old.Default), text(new.Default))
	}
	was, is := rest(old), rest(new)
	if different(was, is) || hasReference(was) {
		c.add(at, "it has keywords that this check cannot judge: %s became %s", text(was), text(is))
	}
}

// resolve makes no schema one that accepts everything, which it means.
func resolve(reference *openapi3.SchemaRef) *openapi3.Schema {
	if reference == nil || reference.Value == nil {
		return anything
	}
	if always := reference.Value.Always; always != nil && *always {
		return anything
	}
	return reference.Value
}

var anything = &openapi3.Schema{}

// nothing says whether no value fits the schema.
func nothing(s *openapi3.Schema) bool { return s.Always != nil && !*s.Always }

// values compares those that are listed. One that goes breaks who uses its name, in either direction.
func (c *comparison) values(at string, old, new *openapi3.Schema, sent direction) {
	before, after := listed(old), listed(new)
	for _, value := range before {
		if after != nil && !slices.Contains(after, value) {
			c.add(at, "value %s was removed", value)
		}
	}
	switch {
	case sent == input && before == nil && after != nil:
		c.add(at, "only %s is accepted now", strings.Join(after, ", "))
	case sent == output && before != nil && after == nil:
		c.add(at, "it is no longer limited to %s", strings.Join(before, ", "))
	case sent == output && before != nil:
		for _, value := range after {
			if !slices.Contains(before, value) {
				c.add(at, "value %s was added, which the client does not know", value)
			}
		}
	}
}

// listed are the values of enum or const as JSON, and nil where all are possible.
func listed(s *openapi3.Schema) []string {
	values := s.Enum
	if s.Const != nil {
		values = []any{s.Const}
	}
	var texts []string
	for _, value := range values {
		texts = append(texts, text(value))
	}
	return texts
}

func (c *comparison) types(at string, old, new *openapi3.Schema, sent direction) {
	from, to := old, new // everything that from allows, to must allow
	if sent == output {
		from, to = new, old
	}
	if to.Type.IsEmpty() {
		return
	}
	fits := func(name string) bool {
		return to.Type.Includes(name) || name == openapi3.TypeInteger && to.Type.Includes(openapi3.TypeNumber)
	}
	if from.Type.IsEmpty() || slices.ContainsFunc(from.Type.Slice(), func(name string) bool { return !fits(name) }) {
		c.add(at, "type %s became %s", types(old), types(new))
	}
}

func types(s *openapi3.Schema) string {
	if s.Type.IsEmpty() {
		return "anything"
	}
	return strings.Join(s.Type.Slice(), " or ")
}

// texts compares format and pattern: another one can be narrower and wider at the same time, so that only its removal
// from input and its addition to output are harmless.
func (c *comparison) texts(at string, old, new *openapi3.Schema, sent direction) {
	for _, keyword := range []struct{ name, old, new string }{
		{"format", old.Format, new.Format},
		{"pattern", old.Pattern, new.Pattern},
	} {
		harmless := keyword.new == ""
		if sent == output {
			harmless = keyword.old == ""
		}
		if keyword.old != keyword.new && !harmless {
			c.add(at, "%s %q became %q", keyword.name, keyword.old, keyword.new)
		}
	}
}

// bounds compares those of numbers, texts, lists and objects.
func (c *comparison) bounds(at string, old, new *openapi3.Schema, sent direction) {
	for _, bound := range []struct {
		name     string
		old, new *float64
		upper    bool
	}{
		{"minimum", old.Min, new.Min, false},
		{"maximum", old.Max, new.Max, true},
		{"exclusiveMinimum", old.ExclusiveMin.Value, new.ExclusiveMin.Value, false},
		{"exclusiveMaximum", old.ExclusiveMax.Value, new.ExclusiveMax.Value, true},
		{"minLength", count(&old.MinLength), count(&new.MinLength), false},
		{"maxLength", count(old.MaxLength), count(new.MaxLength), true},
		{"minItems", count(&old.MinItems), count(&new.MinItems), false},
		{"maxItems", count(old.MaxItems), count(new.MaxItems), true},
		{"minProperties", count(&old.MinProps), count(&new.MinProps), false},
		{"maxProperties", count(old.MaxProps), count(new.MaxProps), true},
	} {
		if sent == input && tighter(bound.new, bound.old, bound.upper) || sent == output && tighter(bound.old, bound.new, bound.upper) {
			c.add(at, "%s %s became %s", bound.name, text(bound.old), text(bound.new))
		}
	}
	if old.UniqueItems != new.UniqueItems && new.UniqueItems == (sent == input) {
		c.add(at, "uniqueItems %t became %t", old.UniqueItems, new.UniqueItems)
	}
}

func count(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	number := float64(*n)
	return &number
}

// tighter says whether a allows less than b; nil allows all.
func tighter(a, b *float64, upper bool) bool {
	switch {
	case a == nil:
		return false
	case b == nil:
		return true
	case upper:
		return *a < *b
	}
	return *a > *b
}

func (c *comparison) object(at string, old, new *openapi3.Schema, sent direction) {
	for _, name := range sorted(old.Properties) {
		field := at + "." + name
		if new.Properties[name] == nil {
			if !nothing(resolve(old.Properties[name])) {
				c.add(field, "the field was removed")
			}
			continue
		}
		c.schema(field, old.Properties[name], new.Properties[name], sent)
	}
	for _, name := range sorted(new.Properties) {
		if old.Properties[name] == nil {
			c.added(at+"."+name, additional(old), new.Properties[name], sent)
		}
	}
	for _, name := range new.Required {
		if sent == input && !slices.Contains(old.Required, name) {
			c.add(at+"."+name, "the field became required")
		}
	}
	for _, name := range old.Required {
		gone := old.Properties[name] != nil && new.Properties[name] == nil // and has been told
		if sent == output && !gone && !slices.Contains(new.Required, name) {
			c.add(at+"."+name, "the field is no longer always there")
		}
	}
	c.schema(at+".*", additional(old), additional(new), sent)
}

// added compares a new field with what was said of fields without a name of their own: as input it must accept what
// they could be, as output it must be one of them.
func (c *comparison) added(at string, before, after *openapi3.SchemaRef, sent direction) {
	if sent == output && nothing(resolve(before)) {
		c.add(at, "the field was added to a closed object")
		return
	}
	c.schema(at, before, after, sent)
}

// additional is the schema of the fields that an object does not name.
func additional(s *openapi3.Schema) *openapi3.SchemaRef {
	if has := s.AdditionalProperties.Has; has != nil && !*has {
		return &openapi3.SchemaRef{Value: closed}
	}
	return s.AdditionalProperties.Schema
}

var closed = &openapi3.Schema{Always: new(bool)}

// combined compares schemas that are made of schemas. Their number and order must stay.
func (c *comparison) combined(at string, old, new *openapi3.Schema, sent direction) {
	for _, list := range []struct {
		name     string
		old, new openapi3.SchemaRefs
		same     bool
	}{
		{"allOf", old.AllOf, new.AllOf, false},
		{"anyOf", old.AnyOf, new.AnyOf, false},
		{"oneOf", old.OneOf, new.OneOf, true},
		{"not", openapi3.SchemaRefs{old.Not}, openapi3.SchemaRefs{new.Not}, true},
		{"if", openapi3.SchemaRefs{old.If}, openapi3.SchemaRefs{new.If}, true},
		{"then", openapi3.SchemaRefs{old.Then}, openapi3.SchemaRefs{new.Then}, false},
		{"else", openapi3.SchemaRefs{old.Else}, openapi3.SchemaRefs{new.Else}, false},
	} {
		if len(list.old) != len(list.new) {
			c.add(at, "%s has another number of schemas", list.name)
			continue
		}
		for i := range list.old {
			if list.same {
				c.same(at, list.name, list.old[i], list.new[i])
			} else {
				c.schema(at+" ("+list.name+")", list.old[i], list.new[i], sent)
			}
		}
	}
}

// same wants two schemas to accept the same.
func (c *comparison) same(at, keyword string, old, new *openapi3.SchemaRef) {
	if old == nil || new == nil {
		if old != new {
			c.add(at, "%s was added or removed", keyword)
		}
		return
	}
	both := &comparison{compared: c.compared}
	both.schema("", old, new, input)
	both.schema("", old, new, output)
	for _, found := range both.breaks {
		c.add(at+" ("+keyword+")"+found.Where, "%s", found.What)
	}
}

// rest are the keywords without a rule of their own, which are none of prose.
func rest(s *openapi3.Schema) *openapi3.Schema {
	left := *s
	left.Extensions, left.Origin, left.Title, left.Description, left.Comment = nil, nil, "", "", ""
	left.Example, left.Examples, left.ExternalDocs, left.Deprecated, left.Default = nil, nil, nil, false, nil
	left.Enum, left.Const, left.Type, left.Format, left.Pattern = nil, nil, nil, "", ""
	left.Min, left.Max, left.ExclusiveMin.Value, left.ExclusiveMax.Value = nil, nil, nil, nil
	left.MinLength, left.MaxLength, left.MinItems, left.MaxItems, left.UniqueItems = 0, nil, 0, nil, false
	left.MinProps, left.MaxProps, left.Required, left.Properties = 0, nil, nil, nil
	left.AdditionalProperties, left.Items = openapi3.AdditionalProperties{}, nil
	left.AllOf, left.AnyOf, left.OneOf, left.Not = nil, nil, nil, nil
	left.If, left.Then, left.Else = nil, nil, nil
	return &left
}

// hasReference says whether something refers to a schema elsewhere, whose changes would go unseen.
func hasReference(value any) bool { return strings.Contains(text(value), `"$ref"`) }

func different(a, b any) bool {
	left, _ := json.Marshal(a)
	right, _ := json.Marshal(b)
	return !bytes.Equal(left, right)
}

// text shows a value as JSON, and what is not there as "none".
func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error() // differs from everything that could be written
	}
	if string(encoded) == "null" {
		return "none"
	}
	return string(encoded)
}
