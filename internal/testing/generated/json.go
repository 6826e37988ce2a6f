package generated

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// json makes a body of JSON. The document's prose wants numbers in digits alone, and UTF-8.
func (g Generator) json(r *Request, schema *openapi3.Schema) {
	g.careful = g.Chance(2, "careful?")
	content := g.content("body", schema)
	text, err := json.Marshal(content)
	if err != nil {
		g.Fatal(err)
	}
	r.Body = g.spoilJSON(string(text), &r.Valid)
	if !r.Valid {
		return
	}
	var value any
	err = json.Unmarshal([]byte(r.Body), &value) // fails for numbers that no schema allows
	r.Valid = err == nil && utf8.ValidString(r.Body) && inDigits(r.Body) && fits(schema, value)
}

// others are values of each kind, of which a schema allows few.
var others = []any{
	nil, true, false, "", "0", "a\x00b", "\u2028", json.Number("0"), json.Number("-0"), json.Number("1.0"), json.Number("1e400"),
	json.Number("-1e-400"), json.Number("1e3"), json.Number("0.1"), json.Number("2147483648"), json.Number("-2147483649"),
	json.Number("9223372036854775808"), json.Number(strings.Repeat("9", 400)), []any{}, []any{nil}, map[string]any{},
	map[string]any{"": map[string]any{"~/": nil}}, []any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{}}}}}}}}},
}

// content is a value for a schema, valid or not.
func (g Generator) content(name string, schema *openapi3.Schema) any {
	if len(schema.AllOf) == 1 {
		schema = schema.AllOf[0].Value
	}
	if g.careless(25, name+" of another kind?") {
		return rapid.SampledFrom(others).Draw(g.T, name+" other")
	}
	switch {
	case schema.Type.Includes(openapi3.TypeObject):
		object := map[string]any{}
		for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
			required := slices.Contains(schema.Required, field) && !g.careless(25, field+" left out?")
			if required || g.Chance(2, field+"?") {
				object[field] = g.content(field, schema.Properties[field].Value)
			}
		}
		if g.careless(25, name+" more?") {
			object[g.One("unknown field", append([]string{"unknown", "User_ID"}, hostile...)...)] = rapid.SampledFrom(others).Draw(g.T, "more")
		}
		return object
	case schema.Type.Includes(openapi3.TypeArray):
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(g.T, name+" items") {
			list = append(list, g.content(name, schema.Items.Value))
		}
		return list
	case schema.Type.Includes(openapi3.TypeInteger):
		if known := g.Known(name); len(known) > 0 && !g.careless(10, name+" unknown?") {
			return json.Number(g.One(name+" known", known...))
		}
		least, most := int64(-1<<40), int64(1<<40)
		if schema.Min != nil && schema.Max != nil {
			least, most = int64(*schema.Min), int64(*schema.Max)
			if g.careless(8, name+" too large?") {
				least, most = least-1, most+1
			}
		}
		return json.Number(strconv.FormatInt(rapid.Int64Range(least, most).Draw(g.T, name), 10))
	}
	return g.text(name, schema)
}

// spoilJSON breaks the text now and then.
func (g Generator) spoilJSON(text string, valid *bool) string {
	if !g.careless(4, "JSON spoilt?") {
		return text
	}
	*valid = false
	switch how := g.One("JSON spoilt", "cut", "more", "twice", "UTF-8", "comment", "deep", "wide", "empty", "mark"); how {
	case "cut":
		return text[:rapid.IntRange(0, len(text)-1).Draw(g.T, "cut")] // an empty body cannot be cut
	case "more":
		return text + g.One("behind", "x", "{}", ",", "]", "\x00")
	case "twice":
		if !strings.HasPrefix(text, `{"`) {
			return text + text
		}
		return `{"x":1,"x":1,` + text[1:]
	case "UTF-8":
		return strings.Replace(text, `"`, "\"\xff", 1) + " \xc3("
	case "comment":
		return "/**/" + text
	case "deep":
		return strings.Repeat(`[`, 5000) + text + strings.Repeat("]", 5000)
	case "wide":
		var fields bytes.Buffer
		for i := range 5000 {
			fields.WriteString(`"` + strconv.Itoa(i) + `":0,`)
		}
		return `{` + fields.String() + `"x":` + text + `}`
	case "empty":
		return g.One("empty", "", " ", "\n")
	}
	return "\ufeff" + text
}

var digits = regexp.MustCompile(`^-?[0-9]+$`)

// inDigits says whether each number of a JSON text consists of digits.
func inDigits(text string) bool {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if number, ok := token.(json.Number); ok && !digits.MatchString(number.String()) {
			return false
		}
	}
}
