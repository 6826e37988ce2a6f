package reference

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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

func span(least, most uint64, unit string) string {
	plural := unit + "s"
	switch {
	case least == most && most == 1:
		return "1 " + unit
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

// example is an example of the document.
type example struct {
	label  string
	value  any
	schema *openapi3.Schema
}

func examplesOf(media *openapi3.MediaType) (examples []example) {
	for _, name := range slices.Sorted(maps.Keys(media.Examples)) {
		e := media.Examples[name].Value
		label := e.Summary
		if label == "" && len(media.Examples) > 1 {
			label = name
		}
		examples = append(examples, example{label, e.Value, plainSchema(media.Schema)})
	}
	return examples
}

// requestSamples returns a curl command for each example of a request's body, or a webhook's request.
func requestSamples(base string, o Operation, parameters openapi3.Parameters, bodies []example) (samples []Sample) {
	if o.Webhook != "" {
		for _, body := range bodies {
			text := "POST <your webhook address>\ncontent-type: application/json\n"
			for _, p := range parameters {
				text += fmt.Sprintf("%s: %v\n", p.Value.Name, plain(p.Value.Example))
			}
			samples = append(samples, Sample{body.label, "http", text + "\n" + jsonOf(body.value, body.schema)})
		}
		return samples
	}
	if bodies == nil {
		bodies = []example{{}}
	}
	for _, body := range bodies {
		address := base + o.Path
		var fields []string
		for _, p := range parameters {
			value := fmt.Sprint(plain(p.Value.Example))
			switch {
			case p.Value.In == openapi3.ParameterInPath:
				address = strings.ReplaceAll(address, "{"+p.Value.Name+"}", value)
			case p.Value.Required:
				fields = append(fields, fmt.Sprintf("--data-urlencode %s=%s", p.Value.Name, value))
			}
		}
		object, ok := body.value.(map[string]any)
		inJSON := ok && o.Bodies[0].MediaType == "application/json"
		if ok && !inJSON {
			for _, name := range inOrder(object, body.schema) {
				fields = append(fields, fmt.Sprintf("--data-urlencode %s=%v", name, object[name]))
			}
		}
		command := "curl "
		switch {
		case o.Method == "GET" && fields != nil:
			command += "--get "
		case o.Method != "GET" && (o.Method != "POST" || !ok):
			command += "--request " + o.Method + " "
		}
		lines := []string{command + `"` + address + `"`}
		switch {
		case o.Scheme == nil:
		case len(o.Scopes) > 0:
			lines = append(lines, `--header "Authorization: Bearer $ACCESS_TOKEN"`)
		default:
			lines = append(lines, `--user "$CLIENT_ID:$CLIENT_SECRET"`)
		}
		if inJSON {
			compact := strings.ReplaceAll(strings.TrimSpace(jsonOf(body.value, body.schema)), "'", `'\''`)
			fields = append(fields, `--header "Content-Type: application/json"`, "--data '"+compact+"'")
		}
		lines = append(lines, fields...)
		samples = append(samples, Sample{body.label, "bash", strings.Join(lines, " \\\n  ") + "\n"})
	}
	return samples
}

// plain writes numbers without an exponent.
func plain(value any) any {
	if number, ok := value.(float64); ok {
		return int64(number)
	}
	return value
}

// inOrder returns the names of an object's fields in the order of the schema.
func inOrder(object map[string]any, schema *openapi3.Schema) (ordered []string) {
	if schema != nil {
		for _, choice := range schema.OneOf {
			if first := inOrder(object, choice.Value); len(first) == len(object) {
				return first
			}
		}
		ordered = slices.DeleteFunc(names(schema), func(name string) bool { _, has := object[name]; return !has })
	}
	for _, name := range slices.Sorted(maps.Keys(object)) { // those that the schema does not name
		if !slices.Contains(ordered, name) {
			ordered = append(ordered, name)
		}
	}
	return ordered
}

// jsonOf writes a value with its fields in the order of the schema, each on a line.
func jsonOf(value any, schema *openapi3.Schema) string {
	var compact bytes.Buffer
	write(&compact, value, schema)
	var text bytes.Buffer
	_ = json.Indent(&text, compact.Bytes(), "", "  ") // valid
	return text.String() + "\n"
}

func write(w *bytes.Buffer, value any, schema *openapi3.Schema) {
	switch value := value.(type) {
	case map[string]any:
		w.WriteByte('{')
		for i, name := range inOrder(value, schema) {
			if i > 0 {
				w.WriteByte(',')
			}
			fmt.Fprintf(w, "%q:", name)
			var known *openapi3.Schema // of the field
			if schema != nil && schema.Properties[name] != nil {
				known = plainSchema(schema.Properties[name])
			}
			write(w, value[name], known)
		}
		w.WriteByte('}')
	case []any:
		w.WriteByte('[')
		for i, item := range value {
			if i > 0 {
				w.WriteByte(',')
			}
			write(w, item, plainSchema(schema.Items))
		}
		w.WriteByte(']')
	default:
		text, _ := json.Marshal(value) // read from JSON
		w.Write(text)
	}
}
