// Platforms checks that a program's packages fit together on every platform that it is built for, in a fraction of the time
// that building takes: it reads the types of all packages, and the bodies of the functions of the project's own.
//
//	go run -C tools ./platforms FOLDER PACKAGE...
//
// It exits with 1 where something does not compile, and with 2 for wrong usage.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

// platforms are those of `make cross`.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: platforms FOLDER PACKAGE...")
		os.Exit(2)
	}
	status := 0
	for _, platform := range platforms {
		problems, err := check(platform, os.Args[1], os.Args[2:])
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, problem := range problems {
			fmt.Fprintf(os.Stderr, "%s: %s\n", platform, problem)
			status = 1
		}
	}
	os.Exit(status)
}

// check lists what does not compile in the project's packages below folder, or in what they import.
func check(platform, folder string, patterns []string) (problems []string, err error) {
	system, architecture, _ := strings.Cut(platform, "/")
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
		Dir: folder,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture),
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
			if err == nil && !strings.HasPrefix(name, folder+"/") { // others have compiled it
				for _, declared := range file.Decls {
					if function, is := declared.(*ast.FuncDecl); is {
						function.Body = nil
					}
				}
			}
			return file, err
		},
	}, patterns...)
	if err != nil {
		return nil, err
	}
	packages.Visit(loaded, nil, func(found *packages.Package) {
		for _, file := range found.GoFiles {
			if !strings.HasPrefix(file, folder+"/") {
				return
			}
		}
		for _, problem := range found.Errors {
			problems = append(problems, problem.Error())
		}
	})
	return problems, nil
}
