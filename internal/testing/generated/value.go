package generated

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// Generator draws requests and their parts.
type Generator struct {
	*rapid.T
	// Known are values that exist, for a parameter or field of this name. Most that are drawn for it are of them.
	Known func(name string) []string

	careful bool // or most bodies would have a fault somewhere
}

// Part is a piece of a request with what the document says of it.
type Part struct {
	Text  string
	Valid bool
}

// Chance is true about once in n times.
func (g Generator) Chance(n int, of string) bool {
	return rapid.IntRange(1, n).Draw(g.T, of) == 1
}

// careless is [Generator.Chance] for what makes a value wrong.
func (g Generator) careless(n int, of string) bool { return !g.careful && g.Chance(n, of) }

// One is one of the texts.
func (g Generator) One(label string, texts ...string) string {
	return rapid.SampledFrom(texts).Draw(g.T, label)
}

// hostile are texts that programs trip over.
var hostile = []string{
	"", " ", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "�", "'", "\"", "%", "%00", "\\", "../..", "null", "0", "-1", "007", "1e3",
	"9223372036854775808", "2026-02-30", "0000-00-00", "10000-01-01", "2026-03-10T00:00:00Z", "٣", "\u202e", "😀",
	"{}", "[]", "$ref", "x;y", "a=b&c=d", strings.Repeat("x", 2049), strings.Repeat("ü", 1500),
}

// Value is one for a schema of a text, or of a number in a text, valid or not.
func (g Generator) Value(name string, schema *openapi3.Schema) Part {
	text := g.text(name, schema)
	return Part{text, allowed(schema, text)}
}

func (g Generator) text(name string, schema *openapi3.Schema) (text string) {
	switch known := g.Known(name); {
	case g.careless(9, name+" hostile?"):
		return g.One(name+" hostile", hostile...)
	case g.careless(30, name+" free?"):
		return rapid.String().Draw(g.T, name+" free")
	case len(known) > 0 && !g.careless(4, name+" unknown?"):
		if text = g.One(name+" known", known...); g.careless(10, name+" in capitals?") {
			text = strings.ToUpper(text)
		}
		return text
	case len(schema.Enum) > 0:
		return rapid.SampledFrom(schema.Enum).Draw(g.T, name).(string)
	case schema.Pattern != "":
		return rapid.StringMatching(schema.Pattern).Draw(g.T, name)
	}
	most := 100
	if schema.MaxLength != nil && g.careless(5, name+" long?") {
		most = int(*schema.MaxLength) + 1
	}
	least := int(schema.MinLength)
	if most > 100 {
		least = most - 2
	}
	return rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ019-_.~ /+&=%?#ü")), least, most, -1).Draw(g.T, name)
}

// allowed says whether the document allows the text, which is that of a number where the schema wants one.
func allowed(schema *openapi3.Schema, text string) bool {
	var value any = text
	if schema.Type.Is(openapi3.TypeInteger) {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || !regexp.MustCompile(schema.Pattern).MatchString(text) {
			return false
		}
		value = number
	}
	return Clean(text) && fits(schema, value)
}

func fits(schema *openapi3.Schema, value any) bool {
	return schema.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation()) == nil
}

// Clean says whether text is UTF-8 without NUL.
func Clean(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
