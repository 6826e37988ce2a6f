package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed *.txt
var lists embed.FS

// mutant is a deliberate fault, and the test that must find it.
type mutant struct {
	name, fault string
	file        string // below the folder of the checkout
	old, new    string
	pkg, test   string // the folder of the test's package, and its name

	overlay string // the file that go build -overlay takes, once it is written
}

func load() (mutants []mutant, err error) {
	known := map[string]bool{}
	files, err := fs.Glob(lists, "*.txt")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := lists.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for block := range strings.SplitSeq(string(text), "\n\n") {
			if block = strings.Trim(block, "\n"); block == "" || strings.HasPrefix(block, "#") {
				continue
			}
			m, err := parse(block)
			if err != nil {
				return nil, fmt.Errorf("%s: %w:\n%s", file, err, block)
			}
			if known[m.name] {
				return nil, fmt.Errorf("%s: there is another %s", file, m.name)
			}
			known[m.name] = true
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
}

func parse(block string) (m mutant, err error) {
	head, rest, _ := strings.Cut(block, "\n")
	m.name, m.fault, _ = strings.Cut(head, ": ")
	var before, after []string
	for line := range strings.SplitSeq(rest, "\n") {
		kind, text, _ := strings.Cut(line, " ")
		switch kind {
		case "file":
			m.file = text
		case "-":
			before = append(before, text)
		case "+":
			after = append(after, text)
		case "test":
			m.pkg, m.test, _ = strings.Cut(text, " ")
		default:
			return m, fmt.Errorf("what is %q?", line)
		}
	}
	m.old, m.new = strings.Join(before, "\n"), strings.Join(after, "\n")
	if m.fault == "" || m.file == "" || m.old == "" || m.test == "" {
		return m, errors.New("want name: fault, file, -, + and test")
	}
	return m, nil
}

// changed is the file with the fault in it.
func (m mutant) changed(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s: the old text is in %s %d times, not once", m.name, m.file, n)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

// writeOverlay writes the file with the fault, and what makes `go build -overlay` take it. It returns the name of the latter.
func (m mutant) writeOverlay(root, folder string) (string, error) {
	text, err := m.changed(root)
	if err != nil {
		return "", err
	}
	copied, overlay := filepath.Join(folder, m.name+filepath.Ext(m.file)), filepath.Join(folder, m.name+".json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): copied}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(copied, []byte(text), 0o644), os.WriteFile(overlay, replace, 0o644))
}

// caught has the test look for the fault. An error says that it survived, or that there is no telling: the code does not compile,
// PostgreSQL does not understand a statement, or the test hangs or did not get to it.
func (m mutant) caught(root string) (result string, err error) {
	output, err := goTest(root, m.overlay, m.pkg, m.test)
	switch {
	case err == nil:
		return "SURVIVED", fmt.Errorf("%s: %s, and %s of %s passes", m.name, m.fault, m.test, m.pkg)
	case !strings.Contains(output, "--- FAIL: "+m.test),
		strings.Contains(output, "(SQLSTATE 42"), // a syntax error, or an unknown name or type
		strings.Contains(output, "panic: test timed out"):
		return "WRONG", fmt.Errorf("%s is not a fault that a test can find: %w\n%s", m.name, err, output)
	}
	return "caught", nil
}
