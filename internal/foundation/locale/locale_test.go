package locale

import (
	"html/template"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// messages are the texts of a file, by key.
func messages(t *testing.T, name string) map[string]*i18n.Message {
	t.Helper()
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	text, err := os.ReadFile("texts/" + name + ".toml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := bundle.ParseMessageFileBytes(text, name+".toml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*i18n.Message{}
	for _, message := range file.Messages {
		found[message.ID] = message
	}
	return found
}

// complete are the languages that have files with all texts: all but the regions of one.
func complete() []string {
	return slices.DeleteFunc(Default().Tags(), func(tag string) bool { return tag == "en-US" })
}

// formFor tells the form that a number needs in a language: a text without it would be said in the form Other.
func formFor(t *testing.T, tag string) func(count int) string {
	t.Helper()
	bundle := i18n.NewBundle(language.English)
	err := bundle.AddMessages(language.Make(tag),
		&i18n.Message{ID: "form", Zero: "Zero", One: "One", Two: "Two", Few: "Few", Many: "Many", Other: "Other"})
	if err != nil {
		t.Fatal(err)
	}
	localizer := i18n.NewLocalizer(bundle, tag)
	return func(count int) string {
		return localizer.MustLocalize(&i18n.LocalizeConfig{MessageID: "form", PluralCount: count})
	}
}

// TestLanguagesAreComplete holds each language to English: the same texts, with the same things put in and the same marks, in
// each form that its numbers need.
func TestLanguagesAreComplete(t *testing.T) {
	t.Parallel()
	english := messages(t, "en")
	counts := []int{1_000_000} // has a form of its own in some languages
	for count := range 200 {
		counts = append(counts, count)
	}
	for _, tag := range complete() {
		found, formFor := messages(t, tag), formFor(t, tag)
		for key, want := range english {
			got := found[key]
			if got == nil {
				t.Errorf("%s has no %s", tag, key)
				continue
			}
			if diff := cmp.Diff(slots(want), slots(got)); diff != "" && want.One == "" {
				t.Errorf("%s: %s (-English +here):\n%s", tag, key, diff)
			}
			for _, mark := range []string{"<strong", "</strong>", "<time", "</time>", "<a ", `class="address"`} {
				if strings.Count(want.Other, mark) != strings.Count(got.Other, mark) {
					t.Errorf("%s: %s has another number of %s", tag, key, mark)
				}
			}
			if want.One == "" {
				continue
			}
			for _, count := range counts {
				if form := formFor(count); reflect.ValueOf(*got).FieldByName(form).String() == "" {
					t.Errorf("%s: %s has no form %s, for %d", tag, key, form, count)
				}
				text := Default().Locale(tag).Text(key, "Count", count, "Number", strconv.Itoa(count)) // as the language writes it
				if count > 1 && !strings.Contains(text, strconv.Itoa(count)) {
					t.Errorf("%s: %s for %d is %q", tag, key, count, text)
				}
			}
		}
		for key := range found {
			if english[key] == nil {
				t.Errorf("%s has %s, which English has not", tag, key)
			}
		}
	}
}

// inserted is what is not the words of a text.
var inserted = regexp.MustCompile(`\{\{[^}]*\}\}|<[^>]*>`)

// cutSign is a French sign without its no-break space.
var cutSign = regexp.MustCompile(`[^\x{a0}\x{202f}][:;!?»]|«[^\x{a0}]`)

// quotedName is the name of the account pages in quotes, as it stands in a sentence.
var quotedName = regexp.MustCompile(`[„«“‘”]\x{a0}?\{\{\.Account\}\}\x{a0}?[“»”’]`)

// TestTextsAreSet: typographic quotes, no stray spaces, the name of a control has the words that are seen on it (WCAG 2.2, 2.5.3), and the
// name of a page stands in quotes. In English its capital is enough.
func TestTextsAreSet(t *testing.T) {
	t.Parallel()
	for _, name := range append(Default().Tags(), "console/en") {
		for key, message := range messages(t, name) {
			for _, form := range forms(message) {
				words := inserted.ReplaceAllString(form, "x")
				if strings.ContainsAny(words, "\"'&") || strings.Contains(words, "  ") || strings.TrimSpace(form) != form {
					t.Errorf("%s: %s is not well set: %q", name, key, form)
				}
			}
		}
	}
	for key, message := range messages(t, "fr") {
		for _, form := range forms(message) {
			if found := cutSign.FindString(inserted.ReplaceAllString(form, "x")); found != "" {
				t.Errorf("fr: a line may end before a sign of %s: %q", key, found)
			}
		}
	}
	for _, tag := range complete() {
		for key, message := range messages(t, tag) {
			if tag != "en" && slices.Contains(slots(message), "Account") && !quotedName.MatchString(message.Other) {
				t.Errorf("%s: the name of a page in %s is not in quotes: %q", tag, key, message.Other)
			}
		}
	}
	for _, tag := range Default().Tags() {
		in := Default().Locale(tag)
		// Nobody is asked for a code that is none: pages and emails say that nobody asks for one.
		for _, key := range []string{"refused.tell", "mail.not_you", "mail.link_keep_secret"} {
			if text := in.Text(key); strings.Contains(strings.ToLower(text), strings.ToLower(in.Text("step.code"))) {
				t.Errorf("%s: %s speaks of a code: %q", tag, key, text)
			}
		}
		for name, label := range map[string]string{"account.disconnect_whom": "account.disconnect", "browsers.remove_which": "browsers.remove"} {
			if whole := in.Text(name, "Partner", "", "Browser", "", "Day", ""); !strings.Contains(strings.ToLower(whole), strings.ToLower(in.Text(label))) {
				t.Errorf("%s: %s does not have %q in it: %q", tag, name, in.Text(label), whole)
			}
		}
	}
}

// TestTextsTellNoGender: the user is a woman, a man or neither. A French participle agrees with "vous" before it, and the Polish past tense with its
// subject.
func TestTextsTellNoGender(t *testing.T) {
	t.Parallel()
	for tag, gendered := range map[string]*regexp.Regexp{
		"fr": regexp.MustCompile(`(?i)\bvous (a|ont|avons|êtes|serez) (\p{L}+é|\p{L}+u|\p{L}+is)([^\p{L}]|$)`),
		"pl": regexp.MustCompile(`ł[ae](ś|m)([^\p{L}]|$)`),
	} {
		for key, message := range messages(t, tag) {
			for _, form := range forms(message) {
				if found := gendered.FindString(inserted.ReplaceAllString(form, "x")); found != "" {
					t.Errorf("%s: %s says %q: %q", tag, key, found, form)
				}
			}
		}
	}
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"xx, de-AT;q=0.8, en;q=0.5": "de", "en;q=0.1,,;q=1,!,pl;q=0.2": "pl",
		"": "en", "*": "en", "en-US,en;q=0.9": "en-US", "xx": "en", "ja,zh-CN;q=0.9": "en", "en-GB": "en", "en-AU": "en", "en-US": "en-US", "\xff;;q=": "en",
		"de": "de", "de-AT": "de", "DE-at": "de", "de-ZZ": "de", "de-Latn-CH-1996": "de", "es-419": "es", "pt-BR": "pt-BR", "PT-PT,pt": "pt-PT", "pt": "pt-BR", "pt-AO": "pt-PT",
		"nb": "nb", "no": "nb", "nn-NO": "nb", "nb-NO,nb;q=0.9,no;q=0.8,nn;q=0.7": "nb", "da,sv;q=0.8": "sv",
		"fr;q=0.5,de;q=0.9": "de", "fr;q=0.5, nl": "nl", "it;q=0.8,pl;q=0.8": "it", // of equals, the first
		"zh,de": "de", "zh-CN,zh;q=0.9,de;q=0.8,en;q=0.7": "de", "sv,*;q=0.1": "sv", "ja,*": "en", "de;q=0,*": "en",
		"en;q=0": "en", "de;q=0,fr;q=0.1": "fr", "de;q=0": "en", // q=0 is what somebody does not want
		strings.Repeat("de,", 1000): "en", // longer than anybody's
	} {
		if got := Default().Negotiate(header).Tag; got != want {
			t.Errorf("%.40q gives %s, want %s", header, got, want)
		}
	}
}

func TestDaysInEveryLanguage(t *testing.T) {
	t.Parallel()
	want := map[string]string{ // ~ is a space at which no line ends
		"de":    "21.~November 2026, 15:04~Uhr; 1.~März 2027",
		"en":    "21~November 2026, 15:04; 1~March 2027",
		"en-US": "November~21, 2026, 3:04~PM; March~1, 2027",
		"es":    "21~de~noviembre de~2026, 15:04; 1~de~marzo de~2027",
		"fr":    "21~novembre 2026 à~15~h~04; 1er~mars 2027",
		"it":    "21~novembre 2026, 15:04; 1~marzo 2027",
		"nb":    "21.~november 2026 kl.~15:04; 1.~mars 2027",
		"nl":    "21~november 2026, 15:04; 1~maart 2027",
		"pl":    "21~listopada 2026~r., godz.~15:04; 1~marca 2027~r.",
		"pt-BR": "21~de~novembro de~2026, 15:04; 1~de~março de~2027",
		"pt-PT": "21~de~novembro de~2026, 15:04; 1~de~março de~2027",
		"sv":    "21~november 2026 kl.~15:04; 1~mars 2027",
	}
	got := map[string]string{}
	for _, tag := range Default().Tags() {
		in := Default().Locale(tag)
		got[tag] = strings.ReplaceAll(in.Moment(time.Date(2026, 11, 21, 15, 4, 0, 0, time.UTC))+"; "+in.Day(time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)), "\u00a0", "~")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("days (-want +got):\n%s", diff)
	}
}

func TestTextIsEscapedWhereItIsHTML(t *testing.T) {
	t.Parallel()
	english := Default().Locale("en")
	const name = `<b>"Ada"</b>`
	if got, want := english.HTML("consent.you", "Email", name), template.HTML(`You’re signed in as <strong class="address">&lt;b&gt;&#34;Ada&#34;&lt;/b&gt;</strong>.`); got != want {
		t.Errorf("HTML: %s", got)
	}
	if got := english.Text("sign_in.heading", "Partner", name); got != "Sign in to connect "+name {
		t.Errorf("text: %s", got)
	}
	if got := english.Day(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)); got != "1\u00a0November 2026" {
		t.Errorf("day: %s", got)
	}
	if got := english.Direction() + (&Locale{Tag: "ar"}).Direction(); got != "ltrrtl" {
		t.Errorf("directions: %s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown text is no fault")
		}
	}()
	english.Text("nothing.like_it")
}

func TestTextsOfTheOperator(t *testing.T) {
	t.Parallel()
	own := func(name, text string) fstest.MapFS { return fstest.MapFS{name: {Data: []byte(text)}} }
	c, err := New(own("en.toml", "[list]\nnext = \"{{.First}} · {{.Next}}\"\n[consent]\nallow = \"Yes\"\n[code.wrong]\none = \"One left\"\nother = \"{{.Count}} left\""))
	if err != nil {
		t.Fatal(err)
	}
	english := c.Locale("en")
	if got := english.List([]string{"steps", "distance", "rides"}); got != "steps · distance · rides" {
		t.Errorf("a list: %s", got)
	}
	if got := english.Text("consent.allow") + ", " + english.Text("consent.deny") + ", " + english.Text("code.wrong", "Count", 2); got != "Yes, Don’t allow, 2 left" {
		t.Errorf("texts: %s", got)
	}
	for name, files := range map[string]fstest.MapFS{
		"en.toml: there is no text consent.alow":                  own("en.toml", "[consent]\nalow = \"Yes\""),
		"en.toml: consent.allow: {{.Nobody}} is not known here":   own("en.toml", "[consent]\nallow = \"Yes, {{.Nobody}}\""),
		"en.toml: consent.allow: not a text with {{.Name}} in it": own("en.toml", "[consent]\nallow = \"Yes {{\""),
		"en.toml: date.time: want how 3:04 in the afternoon":      own("en.toml", "[date]\ntime = \"14:32\""),
		"en.toml: consent.allow: empty":                           own("en.toml", "[consent]\nallow = \"\""),
		"de.toml: consent.allow: empty":                           own("de.toml", "[consent]\nallow = \"\""),
		"de.toml: consent.allow: empty, or without the form":      own("de.toml", "[consent.allow]\none = \"Ja\""),
		"de.toml: code.wrong: empty, or without the form other":   own("de.toml", "[code.wrong]\none = \"Einmal\""),
		"pl.toml: code.wrong: empty, or without the form other":   own("pl.toml", "[code.wrong]\none = \"1\"\nfew = \"{{.Count}}\""),
		"en.toml: console.nav.users: empty":                       own("en.toml", "[console.nav]\nusers = \"\""),
		"xx.toml: want the code of a language":                    own("xx.toml", ""),
		"german.toml: want the code of a language":                own("german.toml", ""),
		"DE.toml: want the code of a language":                    own("DE.toml", ""),
		"tlh.toml: ":                                              own("tlh.toml", "[consent]\nallow = \"luq\""), // Unicode has no rule for its numbers
		"fi.toml: missing: account.can_see, account.data, ":       own("fi.toml", "[consent]\nallow = \"Salli\""),
		"en.toml: toml:": own("en.toml", "[consent\n"),
	} {
		if _, err := New(files); err == nil || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}

// TestTextsOfTheOperatorInRegions: a text that replaces one of a language also does so in its regions, where they do not say it otherwise.
func TestTextsOfTheOperatorInRegions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]fstest.MapFS{
		"a language":               {"en.toml": {Data: []byte("[consent]\nallow = \"Yes\"\n[date]\nlong = \"{{.Month}}\"\n[code.wrong]\nother = \"{{.Count}} left\"")}},
		"a language and a region":  {"en.toml": {Data: []byte("[consent]\nallow = \"Yes\"\n[code.wrong]\nother = \"{{.Count}} left\"")}, "en-US.toml": {Data: []byte("[consent]\ndeny = \"No\"")}},
		"a language and new ones":  {"en.toml": {Data: []byte("[consent]\nallow = \"Yes\"\n[code.wrong]\none = \"One left\"\nother = \"{{.Count}} left\"")}, "en-CA.toml": {Data: []byte("[consent]\ndeny = \"No\"")}},
		"a region that says it so": {"en.toml": {Data: []byte("[consent]\nallow = \"Yea\"\n[code.wrong]\nother = \"{{.Count}} left\"")}, "en-US.toml": {Data: []byte("[consent]\nallow = \"Yes\"")}},
	} {
		texts, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		in := texts.Negotiate("en-US,en;q=0.9")
		got := strings.Join([]string{in.Tag, in.Text("consent.allow"), in.Text("code.wrong", "Count", 2), in.Day(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))}, ", ")
		if want := "en-US, Yes, 2 left, November\u00a021, 2026"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestAddedLanguages: a file with all texts adds a language, in the forms that its numbers need, and a file of a region of a language
// needs only what differs there.
func TestAddedLanguages(t *testing.T) {
	t.Parallel()
	english, err := Source("en", false)
	if err != nil {
		t.Fatal(err)
	}
	danish := strings.NewReplacer(`allow = "Allow"`, `allow = "Tillad"`, `name = "English"`, `name = "Dansk"`).Replace(string(english))
	c, err := New(fstest.MapFS{
		"da.toml":    {Data: []byte(danish)},
		"de.toml":    {Data: []byte("[consent]\nallow = \"Ja\"")},
		"de-AT.toml": {Data: []byte("[month]\nm1 = \"Jänner\"")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"da-DK,en;q=0.5": "da Dansk Tillad January", "de-AT": "de-AT Deutsch Ja Jänner", "de-CH": "de Deutsch Ja Januar", "de": "de Deutsch Ja Januar",
	} {
		in := c.Negotiate(header)
		if got := strings.Join([]string{in.Tag, in.Name(), in.Text("consent.allow"), in.Text("month.m1")}, " "); got != want {
			t.Errorf("%s gives %s, want %s", header, got, want)
		}
	}
	if got := c.Locale("da").Text("code.wrong", "Count", 1); got != Default().Locale("en").Text("code.wrong", "Count", 1) {
		t.Errorf("one: %s", got)
	}
	_, err = New(fstest.MapFS{"ru.toml": {Data: english}})
	if want := "ru.toml: missing: account.stay.few, account.stay.many, code.wrong.few, code.wrong.many, "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "today.steps.many") {
		t.Errorf("error %v, want %s…", err, want)
	}
	persian := &Locale{Tag: "fa"}
	if got := persian.Number(12345); got != "12,345" {
		t.Errorf("in Persian, beside codes and dates: %s", got)
	}
}

// TestLanguagesOfTheConsole: the console has the languages for which the operator has texts of it, and no others.
func TestLanguagesOfTheConsole(t *testing.T) {
	t.Parallel()
	c, err := New(fstest.MapFS{
		"de.toml": {Data: []byte("[console.nav]\nusers = \"Leute\"\n[consent]\nallow = \"Ja\"")},
		"fi.toml": {Data: []byte("[console.nav]\nusers = \"Käyttäjät\"")},
		"fr.toml": {Data: []byte("[consent]\nallow = \"Oui\"")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"de", "en", "fi"}, c.Console().Tags()); diff != "" {
		t.Errorf("the console's languages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Default().Tags(), c.Tags()); diff != "" {
		t.Errorf("the languages of pages (-want +got):\n%s", diff)
	}
	for header, want := range map[string]string{
		"de": "de Leute, Partners", "fi": "fi Käyttäjät, Partners", "fr": "en Users, Partners", "fr,fi;q=0.5": "fi Käyttäjät, Partners",
	} {
		in := c.Console().Negotiate(header)
		if got := in.Tag + " " + in.Text("console.nav.users") + ", " + in.Text("console.nav.partners"); got != want {
			t.Errorf("%s gives %s, want %s", header, got, want)
		}
	}
	if got := Default().Console().Negotiate("de").Tag; got != "en" {
		t.Errorf("without texts of the operator, the console speaks %s", got)
	}
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	english, american, german := Default().Locale("en"), Default().Locale("en-US"), Default().Locale("de")
	for got, want := range map[string]string{
		english.Span(0): "1 minute", english.Span(57*time.Minute + time.Second): "58 minutes", english.Span(119 * time.Minute): "119 minutes",
		english.Span(2 * time.Hour): "2 hours", english.Span(23*time.Hour + time.Minute): "24 hours",
		english.Number(4312): "4,312", german.Number(4312): "4.312", english.Distance(850): "850\u00a0m", german.Distance(7440): "7,4\u00a0km",
		american.Distance(850): "850\u00a0m", american.Distance(7440): "7.4\u00a0km (4.6\u00a0mi)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
