package contracttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkSchemas holds the headers and the body of a response against their schemas. The validator of kin-openapi would do so,
// too, but compiles each schema anew for each value, which takes longer than all else that a test does.
func (d *document) checkSchemas(response *openapi3.Response, header http.Header, body []byte) error {
	if err := d.checkHeaderSchemas(response, header); err != nil {
		return err
	}
	for mediaType, content := range response.Content { // there is at most one
		if mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
			return fmt.Errorf("a body of %s cannot be checked", mediaType)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("the body is not JSON: %w", err)
		}
		if err := d.matches(content.Schema, value); err != nil {
			return fmt.Errorf("the body does not match the schema: %w", err)
		}
	}
	return nil
}

// CheckSchema is nil if a JSON value is what the document describes under this name in its components.
func (c Contract) CheckSchema(name string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	document := c()
	return document.matches(document.spec.Components.Schemas[name], value)
}

func (d *document) checkHeaderSchemas(response *openapi3.Response, header http.Header) error {
	for name, documented := range response.Headers {
		text := header.Get(name)
		if text == "" {
			if documented.Value.Required {
				return fmt.Errorf("header %s is missing", name)
			}
			continue
		}
		if err := d.matches(documented.Value.Schema, headerValue(documented.Value.Schema.Value, text)); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

// headerValue is the text of a header as the value that its schema is about.
func headerValue(schema *openapi3.Schema, text string) any {
	if schema.Type.Is(openapi3.TypeInteger) || schema.Type.Is(openapi3.TypeNumber) || schema.Type.Is(openapi3.TypeBoolean) {
		if value, err := jsonschema.UnmarshalJSON(strings.NewReader(text)); err == nil {
			return value
		}
	}
	return text
}

func (d *document) matches(schema *openapi3.SchemaRef, value any) error {
	compile, _ := d.compiled.LoadOrStore(schema.Value, sync.OnceValues(func() (*jsonschema.Schema, error) { return d.compile(schema) }))
	compiled, err := compile.(func() (*jsonschema.Schema, error))()
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

// compile makes a schema one of a document with the same components, to which its references lead.
func (d *document) compile(schema *openapi3.SchemaRef) (*jsonschema.Schema, error) {
	text, err := json.Marshal(map[string]any{"components": d.spec.Components, "schema": schema})
	if err != nil {
		return nil, err
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	for _, bits := range []int{32, 64} { // the formats of OpenAPI that JSON Schema does not know
		compiler.RegisterFormat(&jsonschema.Format{Name: fmt.Sprint("int", bits), Validate: func(value any) error {
			number, ok := value.(json.Number)
			if !ok {
				return nil
			}
			if _, err := strconv.ParseInt(number.String(), 10, bits); errors.Is(err, strconv.ErrRange) {
				return err
			}
			return nil
		}})
	}
	const name = "urn:document"
	if err := compiler.AddResource(name, resource); err != nil {
		return nil, err
	}
	return compiler.Compile(name + "#/schema")
}
