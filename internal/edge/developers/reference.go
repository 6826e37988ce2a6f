package developers

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"connect-svc/api"
	"connect-svc/internal/edge/developers/reference"
)

// contract reads the partner API's document once.
var contract = sync.OnceValues(func() (*reference.Document, error) { return reference.Read(api.Partner, "{base_url}") })

// driver reads the document of the sandbox's driver once.
var driver = sync.OnceValues(func() (*reference.Document, error) { return reference.Read(api.Sandbox, "http://127.0.0.1:9090") })

// sdkSamples has a file of examples with the SDKs for each operation ID.
//
//go:embed samples
var sdkSamples embed.FS

// addSamples returns the contract's examples of an operation, followed by those of the SDKs.
func addSamples(o reference.Operation) ([]reference.Sample, error) {
	source, err := fs.ReadFile(sdkSamples, "samples/"+o.ID+".md")
	if errors.Is(err, fs.ErrNotExist) {
		return o.Samples, nil
	}
	samples := slices.Clone(o.Samples)
	document := markdown.Parser().Parse(text.NewReader(source))
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		if block, is := node.(*ast.FencedCodeBlock); is {
			samples = append(samples, reference.Sample{Language: string(block.Language(source)), Text: string(block.Lines().Value(source))})
		}
	}
	return samples, err
}

// outlineOf lists the headings of the reference.
func outlineOf(document *reference.Document) []section {
	var outline []section
	if document.Schemes != nil {
		outline = []section{{ID: "authentication", Label: "Authentication"}}
	}
	for _, g := range document.Groups {
		s := section{ID: g.ID, Label: g.Label}
		for _, o := range g.Operations {
			s.Sections = append(s.Sections, section{ID: o.ID, Label: o.Label})
		}
		outline = append(outline, s)
	}
	return outline
}

// withAnswers adds to each code on the page of error codes the operations that respond with it.
func withAnswers(page []byte, document *reference.Document) []byte {
	for _, code := range document.Codes {
		if len(code.Uses) == 0 {
			continue
		}
		table := "| Status | Text | Answers |\n|---|---|---|\n"
		for _, use := range code.Uses {
			var names []string
			for _, o := range use.Operations {
				names = append(names, fmt.Sprintf("[%s](%s.html#%s-%s)", o.Label, referenceName, o.ID, use.Status))
			}
			table += fmt.Sprintf("| %s | %s | %s |\n", use.Status, use.Text, strings.Join(names, ", "))
		}
		heading := "\n## " + code.Name + "\n"
		page = bytes.Replace(page, []byte(heading), []byte(heading+"\n"+table), 1)
	}
	return page
}
