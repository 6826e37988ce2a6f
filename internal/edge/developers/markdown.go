package developers

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"regexp"
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
			if page, is := strings.CutSuffix(file, ".md"); is && !strings.Contains(page, "/") {
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
