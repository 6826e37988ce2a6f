package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The edition that is handed out is made from the contract of today.
func TestEdition(t *testing.T) {
	t.Parallel()
	contract, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	edition, err := os.ReadFile("../../gen/openapi30/openapi-3.0.yaml")
	if err != nil {
		t.Fatal(err)
	}
	made, err := convert(contract)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, edition) {
		t.Error("gen/openapi30/openapi-3.0.yaml is of another contract: run make generate")
	}
}

func TestConvert(t *testing.T) {
	t.Parallel()
	const head = "openapi: 3.1.0\ninfo: {license: {}}\n"
	for _, c := range []struct{ schema, want string }{
		{"type: [string, 'null']", "{type: string, nullable: true}"},
		{"type: 'null'", "{type: string, nullable: true}"},
		{"type: string, format: date, pattern: a", "{type: string, format: date}"},
		{"type: string, format: uuid, pattern: a", "{type: string, format: uuid, pattern: a}"},
		{"type: string, const: a", "{type: string, enum: [a]}"},
		{"properties: {const: {type: string}, if: {const: a}}", "{properties: {const: {type: string}, if: {enum: [a]}}}"},
		{"example: {const: a, type: 'null'}", "{example: {const: a, type: 'null'}}"},
		{"type: [string, integer]", ""},
		{"if: {type: string}", ""},
		{"$ref: '#/a', description: b", ""},
	} {
		got, err := convert([]byte(head + "schema: {" + c.schema + "}\n"))
		if c.want == "" && err == nil || c.want != "" && !strings.HasSuffix(string(got), "schema: "+c.want+"\n") {
			t.Errorf("%s became %s, %v", c.schema, got, err)
		}
	}
}
