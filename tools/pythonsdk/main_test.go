package main

import (
	"strings"
	"testing"
)

// The module has what a schema says. The tool refuses a schema of which it cannot say all.
func TestConvert(t *testing.T) {
	t.Parallel()
	const paths = `
paths:
  /things/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get:
      operationId: readThing
      summary: Read a thing
      parameters: [{name: from, in: query, schema: {type: integer}}]
      responses: {'200': {content: {application/json: {schema: {$ref: '#/components/schemas/Thing'}}}}}
components:
  schemas:
    Thing:
      type: object
      required: [id]
      properties: {id: {type: [string, 'null'], description: Names it.}, kind: {enum: [a, b]}}
`
	module, err := convert([]byte(paths))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"class _Thing(TypedDict):\n    id: Union[str, None]\n    \"\"\"Names it.\"\"\"\n",
		"class Thing(_Thing, total=False):\n    kind: Literal[\"a\", \"b\"]\n",
		"def read_thing(id: str, from_: Union[int, None] = None) -> Call[Thing]:\n    \"\"\"Read a thing.\"\"\"\n" +
			`    return Call("readThing", "GET", f"/things/{path_part(id)}", query={"from": from_})`,
	} {
		if !strings.Contains(string(module), want) {
			t.Errorf("no %s in\n%s", want, module)
		}
	}
	for _, change := range []struct{ old, now string }{
		{"kind: {enum: [a, b]}", "kind: {type: number}"}, {"in: query", "in: cookie"}, {"    get:", "    post: {operationId: other}\n    get:"},
		{"kind: {enum: [a, b]}", "from: {type: string}"}, // no keyword can be optional
	} {
		if module, err := convert([]byte(strings.Replace(paths, change.old, change.now, 1))); err == nil {
			t.Errorf("%s is said as\n%s", change.now, module)
		}
	}
}
