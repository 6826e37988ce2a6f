package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// statements are those of sql/ and its folders, by name.
type statements map[string]string

var (
	statementName = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+\n`)
	argument      = regexp.MustCompile(`@([a-z_]+)`)
	comment       = regexp.MustCompile(`(?m)^\s*--.*\n`)
)

func readStatements(dir string) (statements, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.sql"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no statements in %s: run this at the top of the checkout", dir)
	}
	found := statements{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		names := statementName.FindAllSubmatchIndex(text, -1)
		for i, at := range names {
			end := len(text)
			if i+1 < len(names) {
				end = names[i+1][0]
			}
			name := string(text[at[2]:at[3]])
			if _, twice := found[name]; twice {
				return nil, fmt.Errorf("two statements are called %s", name)
			}
			found[name] = strings.TrimSpace(comment.ReplaceAllString(string(text[at[1]:end]), ""))
		}
	}
	return found, nil
}

// script is a statement with values in place of its arguments: variables of pgbench, or expressions of them.
func (s statements) script(name string, values map[string]string) (string, error) {
	statement, found := s[name]
	if !found {
		return "", fmt.Errorf("there is no statement %s", name)
	}
	var missing error
	statement = argument.ReplaceAllStringFunc(statement, func(arg string) string {
		value, found := values[arg[1:]]
		if !found {
			missing = fmt.Errorf("statement %s: no value for %s", name, arg)
		}
		return "(" + value + ")"
	})
	return statement + "\n", missing
}
