package locale

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

//go:embed texts/*.toml texts/console/en.toml
var files embed.FS

// Catalogue has the texts of all languages. It is safe for concurrent use.
type Catalogue struct {
	locales map[string]*Locale
	console map[string]*Locale
}

// Locale is one language.
type Locale struct {
	Tag string // BCP 47

	localizer *i18n.Localizer
}

// New reads the built-in texts, and then the operator's files, which are named by their language, such as de.toml. Their texts
// replace the built-in ones. If a file has texts of the console, the console has that language, too. A file of a language that
// the pages do not have may hold nothing else. operator may be nil. An error is one line that names the file and the text.
func New(operator fs.FS) (*Catalogue, error) {
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	embedded, err := fs.Sub(files, "texts")
	if err != nil {
		return nil, err
	}
	known := map[string]string{} // the names of the values of each text
	for _, name := range []string{"en.toml", "console/en.toml"} {
		english, err := add(bundle, embedded, name, nil)
		if err != nil {
			return nil, err
		}
		for _, message := range english {
			known[message.ID] = slots(message)
		}
	}
	names, err := fs.Glob(embedded, "*.toml")
	if err != nil {
		return nil, err
	}
	c := &Catalogue{locales: map[string]*Locale{}}
	for _, name := range names {
		if _, err := add(bundle, embedded, name, known); err != nil {
			return nil, err
		}
		tag := strings.TrimSuffix(name, ".toml")
		c.locales[tag] = newLocale(bundle, tag)
	}
	c.console = map[string]*Locale{"en": c.locales["en"]}
	if operator == nil {
		return c, nil
	}
	own, err := fs.Glob(operator, "*.toml")
	if err != nil {
		return nil, err
	}
	for _, name := range own {
		tag := strings.TrimSuffix(name, ".toml")
		base, err := language.ParseBase(tag)
		if err != nil || base.String() != tag {
			return nil, fmt.Errorf("%s: want the code of a language, such as de.toml", name)
		}
		added, err := add(bundle, operator, name, known)
		if err != nil {
			return nil, err
		}
		for _, message := range added {
			if strings.HasPrefix(message.ID, "console.") {
				c.console[tag] = newLocale(bundle, tag)
			} else if c.locales[tag] == nil {
				return nil, fmt.Errorf("%s: %s: pages and emails have no language %s, only %s", name, message.ID, tag, strings.Join(c.Tags(), ", "))
			}
		}
	}
	return c, nil
}

func newLocale(bundle *i18n.Bundle, tag string) *Locale {
	return &Locale{Tag: tag, localizer: i18n.NewLocalizer(bundle, tag)}
}

// Console returns the languages of the console: English, and those of the operator's texts. A missing text is in English.
func (c *Catalogue) Console() *Catalogue { return &Catalogue{locales: c.console} }

// Default returns the built-in texts.
var Default = sync.OnceValue(func() *Catalogue {
	c, err := New(nil)
	if err != nil {
		panic(err) // the files are embedded, and tested
	}
	return c
})

// add reads a file of texts. If known is not nil, it refuses unknown texts and unknown names of values.
func add(bundle *i18n.Bundle, files fs.FS, name string, known map[string]string) ([]*i18n.Message, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	file, err := bundle.ParseMessageFileBytes(text, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	for _, message := range file.Messages {
		if known == nil {
			continue
		}
		has, is := known[message.ID]
		if !is {
			return nil, fmt.Errorf("%s: there is no text %s", name, message.ID)
		}
		for put := range strings.FieldsSeq(slots(message)) {
			if !slices.Contains(strings.Fields(has), put) {
				return nil, fmt.Errorf("%s: %s: {{.%s}} is not known here", name, message.ID, put)
			}
		}
		if _, err := template.New("").Parse(strings.Join(forms(message), "")); err != nil {
			return nil, errors.New(name + ": " + message.ID + ": not a text with {{.Name}} in it")
		}
	}
	return file.Messages, nil
}

func forms(m *i18n.Message) []string {
	return slices.DeleteFunc([]string{m.Zero, m.One, m.Two, m.Few, m.Many, m.Other}, func(form string) bool { return form == "" })
}

var slot = regexp.MustCompile(`\{\{\s*\.(\w+)\s*\}\}`)

// slots returns the names of a message's values, sorted and separated by spaces.
func slots(message *i18n.Message) string {
	var names []string
	for _, form := range forms(message) {
		for _, found := range slot.FindAllStringSubmatch(form, -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// Tags returns the languages, sorted.
func (c *Catalogue) Tags() []string {
	var tags []string
	for tag := range c.locales {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return tags
}

// Locale returns a language by its tag, or English.
func (c *Catalogue) Locale(tag string) *Locale {
	if found, ok := c.locales[tag]; ok {
		return found
	}
	return c.locales["en"]
}

// maxHeader limits the length of an Accept-Language. Real ones are shorter.
const maxHeader = 1000

// Negotiate returns the language for an Accept-Language header.
func (c *Catalogue) Negotiate(header string) *Locale {
	if len(header) > maxHeader {
		return c.Locale("en")
	}
	type wanted struct {
		tag     language.Tag
		quality float32
	}
	var list []wanted
	for part := range strings.SplitSeq(header, ",") { // each separately, so that an invalid one does not affect the others
		tags, qualities, err := language.ParseAcceptLanguage(part)
		if err == nil && len(tags) == 1 {
			list = append(list, wanted{tags[0], qualities[0]})
		}
	}
	slices.SortStableFunc(list, func(a, b wanted) int { return cmp.Compare(b.quality, a.quality) })
	for _, one := range list {
		base, confidence := one.tag.Base()
		name := base.String()
		if name == "no" || name == "nn" { // readers of Nynorsk prefer Bokmål to English
			name = "nb"
		}
		if found, ok := c.locales[name]; ok && confidence != language.No {
			return found
		}
	}
	return c.Locale("en")
}

// Text returns a text with values, which are pairs of a name and a value. The value named Count selects the plural form.
func (l *Locale) Text(key string, values ...any) string {
	return l.localize(key, values, func(value any) any { return value })
}

// HTML returns a text as HTML. It escapes values that are strings.
func (l *Locale) HTML(key string, values ...any) template.HTML {
	return template.HTML(l.localize(key, values, func(value any) any { //nolint:gosec // of texts that are ours or the operator's
		if text, ok := value.(string); ok {
			return template.HTMLEscapeString(text)
		}
		return value
	}))
}

func (l *Locale) localize(key string, values []any, escape func(any) any) string {
	data := map[string]any{}
	for pair := range slices.Chunk(values, 2) {
		data[pair[0].(string)] = escape(pair[1])
	}
	text, err := l.localizer.Localize(&i18n.LocalizeConfig{MessageID: key, TemplateData: data, PluralCount: data["Count"]})
	if text == "" {
		panic(fmt.Errorf("locale: text %s in %s: %w", key, l.Tag, err))
	}
	return text
}

// Day writes a day in words, such as 21 November 2026.
func (l *Locale) Day(day time.Time) string {
	return l.Text("date.long", "Day", day.Day(), "Month", l.Text(fmt.Sprintf("month.m%d", day.Month())), "Year", day.Year())
}

// Direction returns the direction of its script: ltr or rtl.
func (l *Locale) Direction() string {
	script, _ := language.Make(l.Tag).Script()
	if slices.Contains([]string{"Arab", "Hebr", "Syrc", "Thaa"}, script.String()) {
		return "rtl"
	}
	return "ltr"
}
