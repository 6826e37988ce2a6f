// Size counts what a reader of the repository meets, and fails if it passes a bound, so that what was made smaller stays so.
//
//	go run -C tools ./size FOLDER
//
// Generated code does not count, nor do the released versions of the SDKs. It exits with 1 if a bound is passed.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// group is a part of the repository. A bound of zero bounds nothing.
type group struct {
	name                          string
	maxLines, maxFiles, maxFuncs  int
	maxExported                   int
	has                           func(file string) bool
	lines, files, funcs, exported int
	packages                      map[string]bool
}

// groups are the parts in the order in which a file is looked for. Tests have no bound: more of them are welcome.
func groups() []*group {
	under := func(folders ...string) func(string) bool {
		return func(file string) bool {
			for _, folder := range folders {
				if strings.HasPrefix(file, folder+"/") {
					return true
				}
			}
			return false
		}
	}
	return []*group{
		{name: "tests", has: func(file string) bool { return strings.HasSuffix(file, "_test.go") }},
		{name: "helpers", has: under("internal/testing"), maxLines: 5_645},
		{name: "tools", has: under("tools"), maxLines: 5_491},
		{name: "sdk", has: under("sdk")},
		{name: "service", has: func(string) bool { return true }, maxLines: 48_629, maxFiles: 246, maxFuncs: 2_377, maxExported: 1_230},
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: size FOLDER")
		os.Exit(2)
	}
	all := groups()
	if err := count(os.Args[1], all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !report(os.Stdout, all) {
		os.Exit(1)
	}
}

// count adds each tracked file to the first group that has it.
func count(root string, all []*group) error {
	list := exec.Command("git", "ls-files", "*.go")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		if strings.HasPrefix(name, "gen/") || strings.HasPrefix(name, "sdk/released/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			continue
		}
		for _, g := range all {
			if g.has(name) {
				g.add(path.Dir(name), content, file)
				break
			}
		}
	}
	return nil
}

func (g *group) add(folder string, content []byte, file *ast.File) {
	if g.packages == nil {
		g.packages = map[string]bool{}
	}
	g.packages[folder] = true
	g.files++
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		g.lines++
	}
	name := func(ident *ast.Ident) {
		if ident.IsExported() {
			g.exported++
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			g.funcs++
			if decl.Recv == nil || ast.IsExported(strings.TrimPrefix(types.ExprString(decl.Recv.List[0].Type), "*")) { // others have no name outside
				name(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					name(spec.Name)
				case *ast.ValueSpec:
					for _, ident := range spec.Names {
						name(ident)
					}
				}
			}
		}
	}
}

// report prints the table and reports whether all bounds hold.
func report(out io.Writer, all []*group) (fits bool) {
	fits = true
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tlines\tfiles\tfunctions\texported\tpackages\t")
	for _, g := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", g.name, g.lines, g.files, g.funcs, g.exported, len(g.packages))
	}
	_ = w.Flush()
	for _, g := range all {
		for _, bound := range []struct {
			of          string
			count, most int
		}{{"lines", g.lines, g.maxLines}, {"files", g.files, g.maxFiles}, {"functions", g.funcs, g.maxFuncs}, {"exported names", g.exported, g.maxExported}} {
			if bound.most > 0 && bound.count > bound.most {
				fmt.Fprintf(out, "%s: %d %s, at most %d\n", g.name, bound.count, bound.of, bound.most)
				fits = false
			}
		}
	}
	return fits
}
