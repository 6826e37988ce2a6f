package docs_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// habits are sentence patterns that a reader has to read twice. A sentence says its subject first, then its verb.
var habits = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{`"is no X": say "is not", "has no" or "cannot"`,
		regexp.MustCompile(`(?i)(?:^|\s)(\S+ (?:is|are|was|were) no (\w+))`)},
	{`"none of": say who did not do it`, regexp.MustCompile(`(?i)(\bnone of (?:this|the)\b)()`)},
	{`a sentence that begins with a relative clause: begin with its subject, or with "if"`,
		regexp.MustCompile(`(?:^|[.:;!] |\()((?:Who|Whoever|What|Whatever|Whose|Where|Whichever) [a-z]\w*)()`)},
}

// allowed are matches of the first pattern that are plain English.
var allowed = regexp.MustCompile(`(?i)^(?:there (?:is|are|was|were) no|\S+ \w+ no (?:longer|more|less|fewer|later|earlier|different))\b`)

// paragraph is text of a file for people, in one line.
type paragraph struct {
	line int
	text string
}

// TestProse: comments, SQL comments, documents and texts are written as an engineer would say them.
func TestProse(t *testing.T) {
	t.Parallel()
	for _, name := range tracked(t, "*.go", "*.sql", "*.md", "*/en.toml", "Makefile", ".ci/*") {
		if strings.HasPrefix(name, "gen/") || strings.Contains(name, ".gen.") || name == "docs/prose_test.go" {
			continue
		}
		for _, p := range paragraphs(t, name) {
			for _, habit := range habits {
				for _, match := range habit.pattern.FindAllStringSubmatchIndex(p.text, -1) {
					found := p.text[match[2]:match[3]]
					if allowed.MatchString(found) || question(p.text[match[2]:]) {
						continue
					}
					t.Errorf("%s:%d: %q: %s", name, p.line, found, habit.name)
				}
			}
		}
	}
}

// question tells whether the first sentence of text is one.
func question(text string) bool {
	end := strings.IndexAny(text, ".?!:")
	return end >= 0 && text[end] == '?'
}

func paragraphs(t *testing.T, name string) []paragraph {
	if filepath.Ext(name) != ".go" {
		return joined(read(t, name), map[string]*regexp.Regexp{
			".sql":  regexp.MustCompile(`^\s*--\s?(.*)`),
			".toml": regexp.MustCompile(`^\w+ = "(.*[.!])"$`), // sentences, without headings and labels
			".md":   regexp.MustCompile(`^(?:[-*>] |\d+\. )?([^#|].*)`),
		}[filepath.Ext(name)])
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join("..", name), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var list []paragraph
	for _, group := range file.Comments {
		for _, p := range joined(group.Text(), regexp.MustCompile(`^(?:\s+- )?(.*)`)) {
			p.line += files.Position(group.Pos()).Line - 1
			list = append(list, p)
		}
	}
	return list
}

// joined has a paragraph for each run of lines that content matches. A line with a bullet begins one. Fenced code is left out.
func joined(text string, content *regexp.Regexp) (list []paragraph) {
	if content == nil {
		content = regexp.MustCompile(`^\s*#\s?(.*)`) // of shell and make
	}
	fenced, open := false, false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			fenced, open = !fenced, false
			continue
		}
		match := content.FindStringSubmatch(line)
		switch {
		case fenced || match == nil || strings.TrimSpace(match[1]) == "":
			open = false
		case open && match[0] == match[1] || open && !strings.ContainsAny(line[:1], "-*>0123456789 \t"):
			list[len(list)-1].text += " " + strings.TrimSpace(match[1])
		default:
			list, open = append(list, paragraph{number, strings.TrimSpace(match[1])}), true
		}
	}
	return list
}
