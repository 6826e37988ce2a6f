package reference

import (
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// problemPrefix begins the types of problem details. The rest is the code.
const problemPrefix = "urn:connect-svc:problem:"

// errorOf returns the code and the text of an error's body, in one of its three shapes.
func errorOf(body any) (code, text string) {
	object, _ := body.(map[string]any)
	if kind, is := object["type"].(string); is && strings.HasPrefix(kind, problemPrefix) {
		text, _ = object["title"].(string)
		return strings.TrimPrefix(kind, problemPrefix), text
	}
	if detail, is := object["error"].(map[string]any); is {
		code, _ = detail["code"].(string)
		text, _ = detail["message"].(string)
		return code, text
	}
	code, _ = object["error"].(string)
	text, _ = object["error_description"].(string)
	return code, text
}

// readCodes finds the operations of each code by the examples of their responses. Some codes have no operation.
func (r *Document) readCodes(parsed *openapi3.T, operations []Operation) {
	codes := map[string]*Code{}
	know := func(name string) *Code {
		if codes[name] == nil {
			codes[name] = &Code{Name: name}
		}
		return codes[name]
	}
	for _, name := range knownCodes(parsed) {
		know(name)
	}
	for _, o := range operations {
		for _, answer := range o.Errors {
			for i, name := range answer.Codes {
				know(name).use(answer.Status, answer.texts[i], o)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(codes)) {
		r.Codes = append(r.Codes, *codes[name])
	}
}

func (c *Code) use(status, text string, o Operation) {
	for i := range c.Uses {
		if u := &c.Uses[i]; u.Status == status && u.Text == text {
			u.Operations = append(u.Operations, o)
			return
		}
	}
	c.Uses = append(c.Uses, Use{status, text, []Operation{o}})
}

// knownCodes returns the codes that the schemas of errors allow.
func knownCodes(parsed *openapi3.T) (names []string) {
	for name, schema := range parsed.Components.Schemas {
		values := schema.Value.Enum
		if code := schema.Value.Properties["code"]; code != nil && strings.HasSuffix(name, "Detail") {
			values = append(code.Value.Enum, code.Value.Const)
		} else if !strings.HasSuffix(name, "ErrorCode") {
			continue
		}
		for _, value := range values {
			if code, is := value.(string); is {
				names = append(names, code)
			}
		}
	}
	return names
}
