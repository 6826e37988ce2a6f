package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// maxModules is how many modules the program may consist of, without its own.
const maxModules = 75

// The last block of go.mod lists the modules that only tests use. Nothing of them is in the program, on any system, and it has
// something of each of the others.
func TestModules(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
		command.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		modules := map[string]bool{}
		for _, module := range strings.Fields(string(out)) {
			if module != "connect-svc" {
				modules[module], linked[module] = true, true
			}
		}
		if len(modules) > maxModules {
			t.Errorf("on %s the program consists of %d modules, more than %d", system, len(modules), maxModules)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, ofTests, found := strings.Cut(string(text), "// Only tests use these:")
	if !found {
		t.Fatal("go.mod has no block of modules that only tests use")
	}
	names := strings.Fields(ofTests)
	for _, required := range file.Require {
		switch inBlock := slices.Contains(names, required.Mod.Path); {
		case inBlock && linked[required.Mod.Path]:
			t.Errorf("%s is in the program, and in the block of tests", required.Mod.Path)
		case !inBlock && !linked[required.Mod.Path]:
			t.Errorf("%s is not in the program: it belongs to the block of tests", required.Mod.Path)
		}
	}
}
