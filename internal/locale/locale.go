package locale

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
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
	known   map[string][]string // the names of the values of each text, from English
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
	c := &Catalogue{locales: map[string]*Locale{}, known: map[string][]string{}}
	names, err := fs.Glob(files, "texts/*.toml")
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, "texts/console/en.toml") {
		file, err := bundle.LoadMessageFileFS(files, name)
		if err != nil {
			return nil, err
		}
		tag := file.Tag.String()
		c.locales[tag] = newLocale(bundle, tag)
		for _, message := range file.Messages {
			if tag == "en" {
				c.known[message.ID] = slots(message)
			}
		}
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
		if err := c.add(bundle, operator, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

// add reads a file of the operator.
func (c *Catalogue) add(bundle *i18n.Bundle, operator fs.FS, name string) error {
	tag := strings.TrimSuffix(name, ".toml")
	if base, err := language.ParseBase(tag); err != nil || base.String() != tag {
		return errors.New("want the code of a language, such as de.toml")
	}
	file, err := bundle.LoadMessageFileFS(operator, name)
	if err != nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	for _, message := range file.Messages {
		values, known := c.known[message.ID]
		if !known {
			return errors.New("there is no text " + message.ID)
		}
		for _, value := range slots(message) {
			if !slices.Contains(values, value) {
				return fmt.Errorf("%s: {{.%s}} is not known here", message.ID, value)
			}
		}
		if _, err := template.New("").Parse(strings.Join(forms(message), "")); err != nil {
			return errors.New(message.ID + ": not a text with {{.Name}} in it")
		}
		if strings.HasPrefix(message.ID, "console.") {
			c.console[tag] = newLocale(bundle, tag)
		} else if c.locales[tag] == nil {
			return fmt.Errorf("%s: pages and emails have no language %s, only %s", message.ID, tag, strings.Join(c.Tags(), ", "))
		}
	}
	return nil
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

func forms(m *i18n.Message) []string {
	return slices.DeleteFunc([]string{m.Zero, m.One, m.Two, m.Few, m.Many, m.Other}, func(form string) bool { return form == "" })
}

var slot = regexp.MustCompile(`\{\{\s*\.(\w+)\s*\}\}`)

// slots returns the names of a message's values, sorted.
func slots(message *i18n.Message) (names []string) {
	for _, found := range slot.FindAllStringSubmatch(strings.Join(forms(message), ""), -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Tags returns the languages, sorted.
func (c *Catalogue) Tags() []string { return slices.Sorted(maps.Keys(c.locales)) }

// Locale returns a language by its tag, or English.
func (c *Catalogue) Locale(tag string) *Locale { return cmp.Or(c.locales[tag], c.locales["en"]) }

// maxHeader limits the length of an Accept-Language. Real ones are shorter.
const maxHeader = 1000

// Negotiate returns the language for an Accept-Language header.
func (c *Catalogue) Negotiate(header string) *Locale {
	best, quality := c.Locale("en"), float32(0)
	if len(header) > maxHeader {
		return best
	}
	for part := range strings.SplitSeq(header, ",") { // each separately, so that an invalid one does not affect the others
		tags, qualities, err := language.ParseAcceptLanguage(part)
		if err != nil || len(tags) != 1 || qualities[0] <= quality {
			continue
		}
		base, confidence := tags[0].Base()
		name := base.String()
		if name == "no" || name == "nn" { // readers of Nynorsk prefer Bokmål to English
			name = "nb"
		}
		if found, ok := c.locales[name]; ok && confidence != language.No {
			best, quality = found, qualities[0]
		}
	}
	return best
}

// Text returns a text with values, which are pairs of a name and a value. The value named Count selects the plural form.
func (l *Locale) Text(key string, values ...any) string {
	data := map[string]any{}
	for pair := range slices.Chunk(values, 2) {
		data[pair[0].(string)] = pair[1]
	}
	text, err := l.localizer.Localize(&i18n.LocalizeConfig{MessageID: key, TemplateData: data, PluralCount: data["Count"]})
	if text == "" {
		panic(fmt.Errorf("locale: text %s in %s: %w", key, l.Tag, err))
	}
	return text
}

// HTML returns a text as HTML. It escapes values that are strings.
func (l *Locale) HTML(key string, values ...any) template.HTML {
	escaped := slices.Clone(values)
	for i := 1; i < len(escaped); i += 2 {
		if text, ok := escaped[i].(string); ok {
			escaped[i] = template.HTMLEscapeString(text)
		}
	}
	return template.HTML(l.Text(key, escaped...)) //nolint:gosec // the texts are ours or the operator's
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
