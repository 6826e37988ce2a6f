package locale

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

//go:embed texts/*.toml texts/console/en.toml
var files embed.FS

// Source returns the built-in file of a language: the texts of the pages and emails, or those of the console. The error names the languages
// that are built in.
func Source(tag string, ofConsole bool) ([]byte, error) {
	folder := "texts"
	if ofConsole {
		folder = "texts/console"
	}
	source, err := files.ReadFile(folder + "/" + tag + ".toml")
	if err != nil {
		names, _ := fs.Glob(files, folder+"/*.toml") // the pattern is well formed
		for i, name := range names {
			names[i] = tagOf(name)
		}
		err = errors.New("built in are " + strings.Join(names, ", "))
	}
	return source, err
}

// texts are those of a language, by key.
type texts = map[string]*i18n.Message

// reader reads files of texts.
type reader struct {
	bundle         *i18n.Bundle
	texts          map[string]texts // by language
	known          texts            // English; nil while the built-in files are read
	pages, console map[string]*Locale
}

// readAll reads the files of a folder: a language before its regions.
func (r *reader) readAll(folder fs.FS, pattern string) error {
	names, err := fs.Glob(folder, pattern)
	if err != nil {
		return err
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(tagOf(a), tagOf(b)) })
	for _, name := range names {
		if err := r.read(folder, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func tagOf(name string) string { return strings.TrimSuffix(path.Base(name), ".toml") }

// read adds a file to the texts of its language.
func (r *reader) read(folder fs.FS, name string) error {
	tag := tagOf(name)
	parsed, err := language.Parse(tag)
	if err != nil || parsed.String() != tag || len(parsed.Extensions()) > 0 {
		return errors.New("want the code of a language, such as de.toml or pt-BR.toml")
	}
	file, err := r.bundle.LoadMessageFileFS(folder, name)
	if err != nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	if r.texts[tag] == nil {
		r.texts[tag] = texts{}
	}
	ofPages, ofConsole := false, false
	for _, message := range file.Messages {
		if err := r.check(parsed, message); err != nil {
			return err
		}
		former := r.texts[tag][message.ID]
		r.texts[tag][message.ID] = message
		for region, own := range r.texts {
			if former != nil && own[message.ID] == former { // a built-in region has it from the language
				own[message.ID] = message
				r.bundle.MustAddMessages(language.Make(region), message)
			}
		}
		isConsole := strings.HasPrefix(message.ID, console)
		ofPages, ofConsole = ofPages || !isConsole, ofConsole || isConsole
	}
	loc := &Locale{Tag: tag, localizer: i18n.NewLocalizer(r.bundle, tag)}
	if ofConsole {
		r.console[tag] = loc
	}
	if !ofPages || r.pages[tag] != nil {
		return nil
	}
	if closest := newCatalogue(r.pages).match(parsed); closest != nil { // the file is of a region of a language
		for key, message := range r.texts[closest.Tag] {
			if r.texts[tag][key] == nil {
				r.texts[tag][key] = message
				r.bundle.MustAddMessages(parsed, message)
			}
		}
	}
	r.pages[tag] = loc
	if r.known == nil {
		return nil
	}
	return r.isComplete(parsed)
}

// console begins the keys of the console's texts.
const console = "console."

// check returns an error if a text of the operator cannot take the place of the built-in one. A form that is missing is said in the form other.
func (r *reader) check(tag language.Tag, message *i18n.Message) error {
	if r.known == nil {
		return nil // the built-in texts are tested
	}
	known := r.known[message.ID]
	if known == nil {
		return errors.New("there is no text " + message.ID)
	}
	for _, value := range slots(message) {
		if !slices.Contains(slots(known), value) {
			return fmt.Errorf("%s: {{.%s}} is not known here", message.ID, value)
		}
	}
	if _, err := template.New("").Parse(strings.Join(forms(message), "")); err != nil {
		return errors.New(message.ID + ": not a text with {{.Name}} in it")
	}
	if message.Other == "" {
		lacks := func(form string) bool { return reflect.ValueOf(*message).FieldByName(form).String() == "" }
		if needed, err := formsOf(tag); err != nil || known.One == "" || slices.ContainsFunc(needed, lacks) {
			return errors.New(message.ID + ": empty, or without the form other")
		}
	}
	if message.ID == "date.time" && !clock.MatchString(message.Other) {
		return errors.New(message.ID + ": want how 3:04 in the afternoon is written, such as 15:04 or 3:04 PM")
	}
	return nil
}

// clock matches a layout for a time of the day that shows its hours and minutes.
var clock = regexp.MustCompile(`(15|3).*04`)

// isComplete returns an error that names texts, and forms of texts, that pages and emails in a language would lack.
func (r *reader) isComplete(tag language.Tag) error {
	var missing []string
	needed, err := formsOf(tag)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(r.known)) {
		text := r.texts[tag.String()][key]
		switch {
		case strings.HasPrefix(key, console):
		case text == nil:
			missing = append(missing, key)
		case r.known[key].One != "":
			for _, form := range needed {
				if reflect.ValueOf(*text).FieldByName(form).String() == "" {
					missing = append(missing, key+"."+strings.ToLower(form))
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("missing: " + strings.Join(missing, ", "))
}

// formsOf returns the names of the forms that numbers need in a language (Unicode CLDR).
func formsOf(tag language.Tag) (needed []string, err error) {
	bundle := i18n.NewBundle(language.English)
	each := &i18n.Message{ID: "form", Zero: "Zero", One: "One", Two: "Two", Few: "Few", Many: "Many", Other: "Other"}
	if err := bundle.AddMessages(tag, each); err != nil {
		return nil, err
	}
	localizer := i18n.NewLocalizer(bundle, tag.String())
	for count := range 200 {
		needed = append(needed, localizer.MustLocalize(&i18n.LocalizeConfig{MessageID: each.ID, PluralCount: count}))
	}
	slices.Sort(needed)
	return slices.Compact(needed), nil
}

func forms(m *i18n.Message) []string {
	return slices.DeleteFunc([]string{m.Zero, m.One, m.Two, m.Few, m.Many, m.Other}, func(form string) bool { return form == "" })
}

var slot = regexp.MustCompile(`\{\{\s*\.(\w+)\s*\}\}`)

// slots returns the names of a message's values, sorted.
func slots(message *i18n.Message) (names []string) {
	for _, match := range slot.FindAllStringSubmatch(strings.Join(forms(message), ""), -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
