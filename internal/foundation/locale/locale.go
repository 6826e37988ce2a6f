// Package locale has the texts of pages and emails in each language, and chooses the language for a request.
//
// texts/*.toml has one file for each language of users' pages and emails, and texts/console/en.toml the console in English. An
// operator's folder of files of the same form replaces texts, and adds languages to the console.
//
// # Invariants
//
//   - Every language of users' pages has every text of English (TestLanguagesAreComplete).
//   - Values are escaped if the text is HTML. The texts are not, because the project and the operator write them
//     (TestTextIsEscapedWhereItIsHTML).
//   - A language is chosen by lookup (RFC 4647, section 3.4) in the order of the browser's qualities (RFC 9110, section 12.5.4): the
//     first available one, or else English (TestNegotiate).
//   - The console has English, and the languages for which the operator has texts of it (TestLanguagesOfTheConsole).
//   - A key that English lacks is a fault of the program and panics (TestTextsAreSet).
package locale

import (
	"cmp"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
)

// Catalogue has the texts of all languages. It is safe for concurrent use.
type Catalogue struct {
	locales  map[string]*Locale
	matchers map[string]matcher // by base language, such as pt
	console  *Catalogue
}

// matcher has the locales of a base language.
type matcher struct {
	language.Matcher
	locales []*Locale // in the order of the matcher
}

// Locale is one language, or a language as it is written in one region.
type Locale struct {
	Tag string // BCP 47

	localizer *i18n.Localizer
}

// Name returns the name of the language, in that language.
func (l *Locale) Name() string { return l.Text("language.name") }

// New reads the built-in texts, and then the operator's files, which are named by their language, such as de.toml or pt-BR.toml. Their
// texts replace the built-in ones. A file adds a language if it has all texts of the pages and emails, and a region of a language if it
// has those that differ. If a file has texts of the console, the console has that language, too. operator may be nil. An error is one
// line that names the file and the text.
func New(operator fs.FS) (*Catalogue, error) {
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	r := reader{bundle: bundle, texts: map[string]texts{}, pages: map[string]*Locale{}, console: map[string]*Locale{}}
	if err := cmp.Or(r.readAll(files, "texts/*.toml"), r.readAll(files, "texts/console/*.toml")); err != nil {
		return nil, err
	}
	r.known = maps.Clone(r.texts["en"])
	if operator != nil {
		if err := r.readAll(operator, "*.toml"); err != nil {
			return nil, err
		}
	}
	c := newCatalogue(r.pages)
	c.console = newCatalogue(r.console)
	return c, nil
}

func newCatalogue(locales map[string]*Locale) *Catalogue {
	c := &Catalogue{locales: locales, matchers: map[string]matcher{}}
	for _, tag := range c.Tags() {
		base := baseOf(language.Make(tag))
		m := c.matchers[base]
		m.locales = append(m.locales, locales[tag])
		c.matchers[base] = m
	}
	for base, m := range c.matchers {
		var tags []language.Tag
		for _, loc := range m.locales {
			tags = append(tags, language.Make(loc.Tag))
		}
		m.Matcher = language.NewMatcher(tags)
		c.matchers[base] = m
	}
	return c
}

// baseOf returns the language without script and region. Readers of Nynorsk prefer Bokmål to English.
func baseOf(tag language.Tag) string {
	base, confidence := tag.Base()
	switch name := base.String(); {
	case confidence == language.No:
		return ""
	case name == "no", name == "nn":
		return "nb"
	default:
		return name
	}
}

// Console returns the languages of the console: English, and those of the operator's texts. A missing text is in English.
func (c *Catalogue) Console() *Catalogue { return c.console }

// Default returns the built-in texts.
var Default = sync.OnceValue(func() *Catalogue {
	c, err := New(nil)
	if err != nil {
		panic(err) // the files are embedded, and tested
	}
	return c
})

// Tags returns the languages, sorted.
func (c *Catalogue) Tags() []string { return slices.Sorted(maps.Keys(c.locales)) }

// All returns the languages, sorted by their tags.
func (c *Catalogue) All() (all []*Locale) {
	for _, tag := range c.Tags() {
		all = append(all, c.locales[tag])
	}
	return all
}

// Locale returns the language of a tag, or English.
func (c *Catalogue) Locale(tag string) *Locale {
	return cmp.Or(c.match(language.Make(tag)), c.locales["en"])
}

// match returns the locale that fits a tag best, or nil if the catalogue lacks the language.
func (c *Catalogue) match(tag language.Tag) *Locale {
	m, ok := c.matchers[baseOf(tag)]
	if !ok {
		return nil
	}
	_, i, _ := m.Match(tag)
	return m.locales[i]
}

// maxHeader limits the length of an Accept-Language. Real ones are shorter.
const maxHeader = 1000

// Negotiate returns the language for an Accept-Language header.
func (c *Catalogue) Negotiate(header string) *Locale {
	best, quality := c.locales["en"], float32(0)
	if len(header) > maxHeader {
		return best
	}
	for part := range strings.SplitSeq(header, ",") { // each separately, so that an invalid one does not affect the others
		tags, qualities, err := language.ParseAcceptLanguage(part)
		if err != nil || len(tags) != 1 || qualities[0] <= quality {
			continue
		}
		if match := c.match(tags[0]); match != nil {
			best, quality = match, qualities[0]
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

// Day writes a day in words, such as 21 November 2026. A line does not end after the number of the day.
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

// List writes parts one after the other, as in steps, rides.
func (l *Locale) List(parts []string) (list string) {
	for i, part := range parts {
		if i > 0 {
			part = l.Text("list.next", "First", list, "Next", part)
		}
		list = part
	}
	return list
}

// Number writes 4312 as 4,312, always with the digits of codes, dates and times.
func (l *Locale) Number(n any) string { return l.decimal(n) }

func (l *Locale) decimal(x any, options ...number.Option) string {
	return message.NewPrinter(language.Make(l.Tag + "-u-nu-latn")).Sprint(number.Decimal(x, options...))
}

// Distance writes meters as 850 m or, from a kilometer on, as 7.4 km, and as 7.4 km (4.6 mi) for the United States.
func (l *Locale) Distance(meters int64) string {
	in := func(unit string, length float64) string {
		return l.decimal(float64(meters)/length, number.MinFractionDigits(1), number.MaxFractionDigits(1)) + "\u00a0" + unit
	}
	switch {
	case meters < 1000:
		return l.decimal(meters) + "\u00a0m"
	case strings.HasSuffix(l.Tag, "-US"):
		return in("km", 1000) + " (" + in("mi", 1609.344) + ")"
	}
	return in("km", 1000)
}

// Span writes a duration in minutes or, from two hours on, in hours. It rounds up, and is at least a minute.
func (l *Locale) Span(d time.Duration) string {
	if minutes := max(1, int(math.Ceil(d.Minutes()))); minutes < 120 {
		return l.Text("span.minutes", "Count", minutes)
	}
	return l.Text("span.hours", "Count", int(math.Ceil(d.Hours())))
}

// Moment writes a day and a time of it, such as 21 November 2026, 13:05.
func (l *Locale) Moment(at time.Time) string {
	return l.Text("date.moment", "Day", l.Day(at), "Time", l.Time(at))
}

// Time writes a time of the day, such as 13:05 or 1:05 PM.
func (l *Locale) Time(at time.Time) string { return at.Format(l.Text("date.time")) }
