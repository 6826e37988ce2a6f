// Command openapi30 writes the OpenAPI 3.0.3 edition of an OpenAPI 3.1 document, for generators that do not read 3.1. It reads
// standard input and writes standard output. It knows what our documents use of 3.1, and refuses what it cannot say in 3.0.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"gopkg.in/yaml.v3"
)

func main() {
	document, err := io.ReadAll(os.Stdin)
	if err == nil {
		document, err = convert(document)
	}
	if err == nil {
		_, err = os.Stdout.Write(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi30:", err)
		os.Exit(1)
	}
}

func convert(document []byte) ([]byte, error) {
	var parsed yaml.Node
	if err := yaml.Unmarshal(document, &parsed); err != nil {
		return nil, err
	}
	root := parsed.Content[0]
	field(root, "openapi").Value = "3.0.3"
	info := field(root, "info")
	remove(info, "summary")
	remove(field(info, "license"), "identifier")
	for i := 0; i < len(root.Content); i += 2 {
		if key := root.Content[i]; key.Value == "webhooks" {
			key.Value = "x-webhooks" // what 3.0 does not know; Redoc, for one, draws it
		}
	}
	if err := walk(root); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&parsed); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// unknown are the keywords of JSON Schema that 3.0 has no word for, and that no document uses.
var unknown = []string{"if", "then", "else", "$defs", "$id", "$anchor", "prefixItems", "patternProperties", "propertyNames",
	"unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas", "contains", "contentEncoding", "contentMediaType"}

// walk rewrites what it finds below a node. Names of fields and values of examples are not keywords.
func walk(node *yaml.Node) error {
	if node.Kind == yaml.SequenceNode {
		for _, item := range node.Content {
			if err := walk(item); err != nil {
				return err
			}
		}
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	if err := rewrite(node); err != nil {
		return err
	}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		switch {
		case slices.Contains(unknown, key):
			return fmt.Errorf("line %d: %s has no counterpart", node.Content[i].Line, key)
		case key == "example" || key == "examples" || key == "default" && value.Kind != yaml.MappingNode:
		case key == "properties":
			for j := 1; j < len(value.Content); j += 2 {
				if err := walk(value.Content[j]); err != nil {
					return err
				}
			}
		default:
			if err := walk(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite puts const and null into the words of 3.0. It leaves out what openapi-generator fails at: the pattern of a date, for which it has
// a type, and an enum of nothing but null.
func rewrite(schema *yaml.Node) error {
	if field(schema, "$ref") != nil && len(schema.Content) > 2 {
		return fmt.Errorf("line %d: 3.0 ignores what stands beside $ref", schema.Line)
	}
	for i := 0; i < len(schema.Content); i += 2 {
		if key, value := schema.Content[i], schema.Content[i+1]; key.Value == "const" {
			key.Value = "enum"
			schema.Content[i+1] = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{value}}
		}
	}
	kind := field(schema, "type")
	switch {
	case kind == nil:
	case kind.Kind == yaml.SequenceNode:
		if len(kind.Content) != 2 || kind.Content[1].Value != "null" {
			return fmt.Errorf("line %d: only one type and null can be said in 3.0", kind.Line)
		}
		*kind = *kind.Content[0]
		add(schema, "nullable", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	case kind.Value == "null":
		*kind = yaml.Node{Kind: yaml.ScalarNode, Value: "string"} // nullable needs a type
		add(schema, "nullable", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
	if format := field(schema, "format"); format != nil && (format.Value == "date" || format.Value == "date-time") {
		remove(schema, "pattern")
	}
	return nil
}

func field(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	return nil
}

func remove(object *yaml.Node, name string) {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			object.Content = slices.Delete(object.Content, i, i+2)
			return
		}
	}
}

func add(object *yaml.Node, name string, value *yaml.Node) {
	object.Content = append(object.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
}
