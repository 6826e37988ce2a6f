package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

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
		object, is := body.value.(map[string]any)
		inJSON := is && o.Bodies[0].MediaType == "application/json"
		if is && !inJSON {
			for _, name := range inOrder(object, body.schema) {
				fields = append(fields, fmt.Sprintf("--data-urlencode %s=%v", name, object[name]))
			}
		}
		command := "curl "
		switch {
		case o.Method == "GET" && fields != nil:
			command += "--get "
		case o.Method != "GET" && (o.Method != "POST" || !is):
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
	if number, is := value.(float64); is {
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

// within returns the schema of an object's field, or nil.
func within(schema *openapi3.Schema, name string) *openapi3.Schema {
	if schema == nil || schema.Properties[name] == nil {
		return nil
	}
	return plainSchema(schema.Properties[name])
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
			write(w, value[name], within(schema, name))
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
