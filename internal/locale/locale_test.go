package locale

import (
	"html/template"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// messages are the texts of a language's file, by key.
func messages(t *testing.T, tag string) map[string]*i18n.Message {
	t.Helper()
	text, err := os.ReadFile("texts/" + File(tag))
	if err != nil {
		t.Fatal(err)
	}
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	file, err := bundle.ParseMessageFileBytes(text, File(tag))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*i18n.Message{}
	for _, message := range file.Messages {
		found[message.ID] = message
	}
	return found
}

// TestLanguagesAreComplete holds each language to English: the same texts, with the same things put in and the same marks, in
// each form that its numbers need.
func TestLanguagesAreComplete(t *testing.T) {
	t.Parallel()
	english := messages(t, "en")
	for _, tag := range Default().Tags() {
		found := messages(t, tag)
		for key, want := range english {
			got := found[key]
			if got == nil {
				t.Errorf("%s has no %s", tag, key)
				continue
			}
			if diff := cmp.Diff(placeholders(want), placeholders(got)); diff != "" && want.One == "" {
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
			for count := range 200 { // a number whose form is missing is said in English
				if text := Default().Locale(tag).Text(key, "Count", count); tag != "en" && (text == want.One || strings.HasPrefix(text, want.Other[:10])) {
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

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"": "en", "*": "en", "en-US,en;q=0.9": "en", "xx": "en", "ja,zh-CN;q=0.9": "en", "\xff;;q=": "en",
		strings.Repeat("de,", 1000): "en", // longer than anybody's
	} {
		if got := Default().Negotiate(header).Tag; got != want {
			t.Errorf("%.40q gives %s, want %s", header, got, want)
		}
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
	if got := english.Day(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)); got != "1 November 2026" {
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
	c, err := New(own("en.toml", "[consent]\nallow = \"Yes\"\n[code.wrong]\none = \"One left\"\nother = \"{{.Count}} left\""))
	if err != nil {
		t.Fatal(err)
	}
	english := c.Locale("en")
	if got := english.Text("consent.allow") + ", " + english.Text("consent.deny") + ", " + english.Text("code.wrong", "Count", 2); got != "Yes, Don’t allow, 2 left" {
		t.Errorf("texts: %s", got)
	}
	for name, files := range map[string]fstest.MapFS{
		"en.toml: there is no text consent.alow":                  own("en.toml", "[consent]\nalow = \"Yes\""),
		"en.toml: consent.allow: {{.Nobody}} is not known here":   own("en.toml", "[consent]\nallow = \"Yes, {{.Nobody}}\""),
		"en.toml: consent.allow: not a text with {{.Name}} in it": own("en.toml", "[consent]\nallow = \"Yes {{\""),
		"xx.toml: want one of":                                    own("xx.toml", ""),
		"en.toml: toml:":                                          own("en.toml", "[consent\n"),
	} {
		if _, err := New(files); err == nil || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q", err, name)
		}
	}
}
