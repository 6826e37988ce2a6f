package developers

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// example is a block of code of a page, as it stands there.
type example struct {
	language string
	code     string
	file     string // where the reader is told to save it, if anywhere
}

var saveAs = regexp.MustCompile("Save as `([^`]+)`")

func examplesOf(t *testing.T, page string) (examples []example) {
	t.Helper()
	source, err := fs.ReadFile(files, "pages/"+page+".md")
	if errors.Is(err, fs.ErrNotExist) {
		source, err = fs.ReadFile(sdkSamples, "samples/"+page+".md")
	}
	if err != nil {
		t.Fatal(err)
	}
	document := markdown.Parser().Parse(text.NewReader(source))
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		block, is := node.(*ast.FencedCodeBlock)
		if !is {
			continue
		}
		found := example{language: string(block.Language(source)), code: string(block.Lines().Value(source))}
		if before, is := node.PreviousSibling().(*ast.Paragraph); is {
			if name := saveAs.FindSubmatch(before.Lines().Value(source)); name != nil {
				found.file = string(name[1])
			}
		}
		if languages[found.language].label == "" {
			t.Errorf("%s: the language %q has no name", page, found.language)
		}
		examples = append(examples, found)
	}
	return examples
}

// guides are the pages whose examples are parts of a program, and the operations that the SDKs have such examples for. The quick
// start has whole ones ([TestQuickStart]), and those of the libraries are run against the service (TestLibraries of the app).
func guides(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range markdownPages() {
		if name != "quick-start" && name != "libraries" {
			names = append(names, name)
		}
	}
	entries, err := fs.ReadDir(sdkSamples, "samples")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".md"))
	}
	return names
}
