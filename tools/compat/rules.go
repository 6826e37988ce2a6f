package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/diff"
)

// unjudgedChanges are those that oasdiff lists among all differences and has no rule for, or none that is strict enough.
func unjudgedChanges(differences *diff.Diff) ([]Break, error) {
	text, err := json.Marshal(differences) //nolint:staticcheck // the endpoints, whose keys JSON cannot have, are left out before
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return walk(nil, tree), nil
}

// walk looks for breaks in a tree of differences, whose inner nodes name the parts of a document.
func walk(at []string, differences map[string]any) (breaks []Break) {
	for _, name := range slices.Sorted(maps.Keys(differences)) {
		if breaksClient(at, name, differences[name]) {
			change, _ := json.Marshal(differences[name]) // came out of JSON
			where := slices.DeleteFunc(append(slices.Clone(at), name), func(part string) bool {
				return part == "paths" || part == "operations" || part == "modified"
			})
			breaks = append(breaks, Break{strings.Join(where, " "), fmt.Sprintf("changed: %s", change)})
		} else if inner, ok := differences[name].(map[string]any); ok {
			breaks = append(breaks, walk(append(slices.Clip(at), name), inner)...)
		}
	}
	return breaks
}

// breaksClient says whether the change of a keyword at a place in the document breaks a client, as far as no rule of
// oasdiff says so. Keywords have the names that oasdiff gives them.
func breaksClient(at []string, keyword string, change any) bool {
	is, _ := change.(map[string]any)
	if len(at) > 0 && at[0] == "components" {
		// Generators make types of the names, whether or not anything on the wire depends on them.
		named := len(at) == 2 && at[1] != "examples"
		return keyword == "deleted" && (named || slices.Contains(at, "OAuthFlows"))
	}
	switch keyword {
	case "openAPI", "callbacks", "links", "encoding", "style", "explode", "allowEmptyValue", "allowReserved",
		"not", "if", "default", "discriminatorDiff", "XML", "contentMediaType", "contentEncoding":
		return true
	case "servers": // The document may have more of them. An operation that gets its own has moved.
		return len(at) > 0 || is["deleted"] != nil || is["modified"] != nil
	case "additionalPropertiesAllowed": // A closed object refuses input. An open one is wider output.
		closed := is["to"] == false
		return closed != slices.Contains(at, "responses")
	case "additionalProperties":
		return is["schemaAdded"] != nil || is["schemaDeleted"] != nil
	case "type": // oasdiff takes a parameter of another type for a wider one, because all of them are sent as text.
		added, _ := is["added"].([]any)
		return slices.Contains(at, "parameters") && is["deleted"] != nil && added != nil && !slices.Contains(added, any("number"))
	}
	return false
}

// changedErrors compares the examples of errors. They are more than examples: codes and messages are fixed
// (specification 7). There may be more of them, as long as the schema lists the code.
func changedErrors(released, next *openapi3.T) (breaks []Break) {
	now := errorsOf(next)
	for response, texts := range errorsOf(released) {
		for text := range texts {
			if left, found := now[response]; found && !left[text] {
				breaks = append(breaks, Break{response, "the error " + text + " was removed or changed"})
			}
		}
	}
	return breaks
}

// errorsOf are the errors of each response, as in "POST /oauth/token 400", without the id of the request.
func errorsOf(document *openapi3.T) map[string]map[string]bool {
	errors := map[string]map[string]bool{}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				texts := map[string]bool{}
				for _, content := range response.Value.Content {
					for _, example := range content.Examples {
						value := example.Value.Value
						if fields, ok := value.(map[string]any); ok {
							fields = maps.Clone(fields)
							delete(fields, "request_id")
							value = fields
						}
						text, _ := json.Marshal(value) // came out of JSON or YAML
						texts[string(text)] = true
					}
				}
				if status >= "4" {
					errors[method+" "+path+" "+status] = texts
				}
			}
		}
	}
	return errors
}
