package developers

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// section is an entry of the list of a page's headings.
type section struct {
	ID, Label string
	Sections  []section
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	// Before goldmark's own renderers, which have priority 1000 and 500.
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(wide{}, 100))),
)

// convert renders a Markdown page, whose first line is the title. Pages link to each other's Markdown files, so that the links also
// work in the repository.
func convert(source []byte) (title string, body template.HTML, sections []section, err error) {
	document := markdown.Parser().Parse(text.NewReader(source))
	err = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			label := string(node.Lines().Value(source)) // headings are plain text
			if name.MatchString(label) {
				node.SetAttributeString("id", []byte(label)) // an error code is its own anchor
			}
			switch node.Level {
			case 1:
				title = label
			case 2:
				id, _ := node.AttributeString("id")
				sections = append(sections, section{ID: string(id.([]byte)), Label: label})
			}
		case *ast.Link:
			file, anchor, _ := strings.Cut(string(node.Destination), "#")
			if page, ok := strings.CutSuffix(file, ".md"); ok && !strings.Contains(page, "/") {
				if anchor != "" {
					anchor = "#" + anchor
				}
				node.Destination = []byte(page + ".html" + anchor)
			}
		}
		return ast.WalkContinue, nil
	})
	together(document, source)
	if err == nil && title == "" {
		err = errors.New("no title")
	}
	if err != nil {
		return "", "", nil, err
	}
	body, err = render(document, source)
	return title, body, sections, err
}

func render(document ast.Node, source []byte) (template.HTML, error) {
	var rendered bytes.Buffer
	err := markdown.Renderer().Render(&rendered, source, document)
	return template.HTML(rendered.String()), err //nolint:gosec // our own Markdown
}

// described renders a description in the contract.
func described(description string) (template.HTML, error) {
	source := []byte(description)
	return render(markdown.Parser().Parse(text.NewReader(source)), source)
}

// name matches an identifier such as invalid_grant. No heading in words matches.
var name = regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`)

// wide renders code and tables, which may be wider than the window: each scrolls by itself, also by keyboard. It also renders
// headings, with links to themselves.
type wide struct{}

func (wide) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindHeading, renderHeading)
	r.Register(extensionast.KindTable, renderTable)
}

func renderHeading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	heading := node.(*ast.Heading)
	id, _ := heading.AttributeString("id")
	if entering {
		_, _ = fmt.Fprintf(w, `<h%d id="%s">`, heading.Level, id)
		return ast.WalkContinue, nil
	}
	if heading.Level > 1 {
		_, _ = fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to this section">#</a>`, id)
	}
	_, _ = fmt.Fprintf(w, "</h%d>\n", heading.Level)
	return ast.WalkContinue, nil
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="table" tabindex="0"><table>` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// language of examples.
type language struct {
	label   string
	program bool           // neighboring examples in different languages are the same example
	words   *regexp.Regexp // what is highlighted; the groups are comments, strings, keywords and numbers
}

const (
	slashes = `//.*|/\*[\s\S]*?\*/`
	hashes  = `(?:^|\s)#.*`
	quotes  = `"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`
	numbers = `\b\d[\d_]*(?:\.\d+)?\b`
)

func words(comments, strings, keywords string) *regexp.Regexp {
	keywords = regexp.MustCompile(`\s+`).ReplaceAllString(keywords, "|")
	return regexp.MustCompile(`(?m)(` + comments + `)|(` + strings + `)|(\b(?:` + keywords + `)\b)|(` + numbers + `)`)
}

// languages lists the languages of examples by their names in Markdown.
var languages = map[string]language{
	"bash": shell,
	"sh":   shell,
	"go": {"Go", true, words(slashes, quotes+"|`[^`]*`",
		`break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false`)},
	"ts": {"TypeScript", true, script},
	"js": {"JavaScript", true, script},
	"python": {"Python", true, words(hashes, `"""[\s\S]*?"""|`+quotes,
		`and as assert async await break class continue def del elif else except finally for from global if import in is lambda not or pass raise return try while with yield None True False`)},
	"php": {"PHP", true, words(slashes+"|"+hashes, quotes,
		`abstract as break case catch class const continue declare default do echo else elseif extends final finally fn for foreach function if implements instanceof match namespace new null private protected public readonly return static switch throw true false try use while yield`)},
	"ruby": {"Ruby", true, words(hashes, quotes,
		`begin break case class def do else elsif end ensure false if in module next nil not or raise require rescue return self then true unless until when while yield`)},
	"json": {"JSON", false, words(`\A\z`, `"(?:\\.|[^"\\\n])*"`, `true false null`)},
	"http": {"HTTP", false, words(`\A\z`, `"(?:\\.|[^"\\\n])*"`, `GET POST PUT DELETE true false null`)},
	"text": {"Text", false, regexp.MustCompile(`()()()()\A\z\z.`)},
}

var shell = language{"Shell", true, words(hashes, quotes, `if then else elif fi for in do done while case esac function export set exit return`)}

var script = words(slashes, quotes+"|`(?:\\\\.|[^`\\\\])*`",
	`as async await break case catch class const continue declare default do else enum export extends false finally for from function if implements import in instanceof interface let new null of return static switch this throw true try type typeof undefined var void while yield`)

// highlighted returns code as HTML with marked comments, strings, keywords and numbers.
func highlighted(name, code string) template.HTML {
	var marked strings.Builder
	last := 0
	for _, at := range languages[name].words.FindAllStringSubmatchIndex(code, -1) {
		marked.WriteString(template.HTMLEscapeString(code[last:at[0]]))
		for group, class := range []string{"comment", "string", "keyword", "number"} {
			if at[2*group+2] >= 0 {
				marked.WriteString(`<span class="` + class + `">` + template.HTMLEscapeString(code[at[0]:at[1]]) + `</span>`)
			}
		}
		last = at[1]
	}
	marked.WriteString(template.HTMLEscapeString(code[last:]))
	return template.HTML(marked.String()) //nolint:gosec // escaped
}

// listing returns a block of code. The script adds a button that copies it.
func listing(name, code string) template.HTML {
	label := languages[name].label
	if strings.HasPrefix(code, "curl ") {
		label = "curl"
	}
	return template.HTML(`<div class="code" data-language="`+name+`"><p class="language">`+label+ //nolint:gosec // both are ours
		`</p><pre tabindex="0"><code>`) + highlighted(name, code) + "</code></pre></div>\n"
}

func renderCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	if _, first := node.AttributeString(firstExample); first {
		_, _ = w.WriteString("<div class=\"examples\">\n")
	}
	block := node.(*ast.FencedCodeBlock)
	_, _ = w.WriteString(string(listing(string(block.Language(source)), string(block.Lines().Value(source)))))
	if _, last := node.AttributeString(lastExample); last {
		_, _ = w.WriteString("</div>\n")
	}
	return ast.WalkSkipChildren, nil
}

// Attributes of the first and the last block of an example in several languages.
const firstExample, lastExample = "first example", "last example"

// together marks blocks of code in different languages with nothing between them: they are the same example.
func together(document ast.Node, source []byte) {
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		var seen []string
		last := node
		for next := node; next != nil; next = next.NextSibling() {
			block, ok := next.(*ast.FencedCodeBlock)
			if !ok || !languages[string(block.Language(source))].program || slices.Contains(seen, string(block.Language(source))) {
				break
			}
			seen, last = append(seen, string(block.Language(source))), next
		}
		if len(seen) > 1 {
			node.SetAttributeString(firstExample, true)
			last.SetAttributeString(lastExample, true)
			node = last
		}
	}
}
