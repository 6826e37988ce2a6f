package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Field is a field of a body, a parameter or a header.
type Field struct {
	ID, Name, Type string
	Presence       string   // such as "optional"; empty if that is obvious
	Rules          []string // such as "1 to 500"
	Values         []string // all allowed values, if they are few
	Pattern        string
	Description    string
	Fields         []Field
}

// presence has the words for required and optional fields.
type presence struct{ required, optional string }

var (
	sent     = presence{"required", "optional"}
	received = presence{"", "not always"}
)

// names returns the fields of a schema: the required ones in the order of the schema, then the others.
func names(schema *openapi3.Schema) []string {
	names := slices.DeleteFunc(slices.Clone(schema.Required), func(name string) bool { return schema.Properties[name] == nil })
	var others []string
	for name := range schema.Properties {
		if !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

func (p presence) fieldsOf(parent string, schema *openapi3.Schema) (fields []Field) {
	for _, name := range names(schema) {
		fields = append(fields, p.fieldOf(parent, name, schema.Properties[name], slices.Contains(schema.Required, name)))
	}
	return fields
}

// plainSchema returns a schema. If it only adds a description or a default to another one, the result has everything.
func plainSchema(ref *openapi3.SchemaRef) *openapi3.Schema {
	schema := ref.Value
	if len(schema.AllOf) != 1 {
		return schema
	}
	whole := *plainSchema(schema.AllOf[0])
	whole.Description, whole.Default = cmp.Or(schema.Description, whole.Description), schema.Default
	return &whole
}

func (p presence) fieldOf(parent, name string, ref *openapi3.SchemaRef, required bool) Field {
	schema := plainSchema(ref)
	f := Field{ID: parent + "-" + name, Name: name, Presence: p.optional, Type: typeOf(schema), Description: schema.Description}
	if required {
		f.Presence = p.required
	}
	f.Rules, f.Values, f.Pattern = rulesOf(schema)
	inner := schema
	if schema.Items != nil {
		inner = plainSchema(schema.Items)
		rules, values, pattern := rulesOf(inner)
		for _, rule := range rules {
			f.Rules = append(f.Rules, "each "+rule)
		}
		f.Values, f.Pattern = append(f.Values, values...), f.Pattern+pattern
		if f.Description == "" {
			f.Description = inner.Description
		}
	}
	f.Fields = p.fieldsOf(f.ID, inner)
	return f
}

func typeOf(schema *openapi3.Schema) string {
	types := slices.Clone(schema.Type.Slice())
	for i, name := range types {
		switch {
		case name == "array":
			types[i] = "array of " + typeOf(schema.Items.Value) + "s"
		case name == "string" && schema.Format != "":
			types[i] = map[string]string{"uuid": "UUID", "date": "date", "date-time": "instant", "uri": "URL"}[schema.Format]
		}
	}
	return strings.Join(types, " or ")
}

// rulesOf describes the rules of a schema in words.
func rulesOf(schema *openapi3.Schema) (rules, values []string, pattern string) {
	for _, value := range schema.Enum {
		values = append(values, fmt.Sprint(value))
	}
	if schema.Const != nil {
		values = []string{fmt.Sprint(schema.Const)}
	}
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	switch {
	case schema.Min != nil && schema.Max != nil:
		rules = append(rules, number(*schema.Min)+" to "+number(*schema.Max))
	case schema.Min != nil:
		rules = append(rules, "at least "+number(*schema.Min))
	}
	if schema.MaxLength != nil {
		rules = append(rules, span(schema.MinLength, *schema.MaxLength, "character"))
	}
	if schema.MaxItems != nil {
		rules = append(rules, span(schema.MinItems, *schema.MaxItems, "item"))
	}
	if schema.UniqueItems {
		rules = append(rules, "none twice")
	}
	if schema.Default != nil {
		rules = append(rules, fmt.Sprint(schema.Default)+" if left out")
	}
	if values == nil && schema.Format == "" { // the format describes it better
		pattern = schema.Pattern
	}
	return rules, values, pattern
}

func span(least, most uint64, what string) string {
	plural := what + "s"
	switch {
	case least == most && most == 1:
		return "1 " + what
	case least == most:
		return fmt.Sprintf("%d %s", most, plural)
	case least == 0:
		return fmt.Sprintf("at most %d %s", most, plural)
	default:
		return fmt.Sprintf("%d to %d %s", least, most, plural)
	}
}

// bodiesOf returns the possible bodies of a request: one for each value of the schema's discriminator, if it has one.
func bodiesOf(parent, mediaType string, ref *openapi3.SchemaRef) (bodies []Body) {
	if ref.Value.Discriminator == nil {
		return []Body{{"", mediaType, sent.fieldsOf(parent, ref.Value)}}
	}
	told := ref.Value.Discriminator
	for _, choice := range ref.Value.OneOf {
		for value, target := range told.Mapping {
			if target.Ref == choice.Ref {
				bodies = append(bodies, Body{told.PropertyName + "=" + value, mediaType, sent.fieldsOf(parent+"-"+value, choice.Value)})
			}
		}
	}
	return bodies
}
