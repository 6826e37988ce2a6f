package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

// TestLicenses holds docs/licenses.md against what is linked into the service, and each license against those that are
// accepted.
func TestLicenses(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "connect-svc")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/connect-svc")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0") // as `make build` does
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	bom, err := billOf(program)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, component := range *bom.Components {
		var names []string
		for _, license := range *component.Licenses {
			names = append(names, license.License.ID+license.License.Name)
		}
		rows = append(rows, "| `"+component.Name+"` | "+strings.Join(names, ", ")+" |")
	}
	document, err := os.ReadFile("../../docs/licenses.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "| `") {
			listed = append(listed, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(rows, listed); diff != "" {
		t.Errorf("docs/licenses.md (-want +got):\n%s", diff)
	}
	for _, name := range accepted {
		if !strings.Contains(string(document), name) {
			t.Errorf("docs/licenses.md does not say that %s is accepted", name)
		}
	}

	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).Encode(bom); err != nil {
		t.Fatal(err)
	}
	if err := cdx.NewBOMDecoder(&text, cdx.BOMFileFormatJSON).Decode(new(cdx.BOM)); err != nil {
		t.Errorf("the bill of materials cannot be read: %v", err)
	}
}

// TestLicensesOfWhatBuildsAndTests asks the same of the modules and packages that are only needed to build and to test.
func TestLicensesOfWhatBuildsAndTests(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"../..", "../../sdk/go", ".."} {
		list := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./...")
		list.Dir = folder
		output, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(output)) {
			path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			if dir == "" || seen[path] || strings.HasPrefix(path, "connect") {
				continue
			}
			seen[path] = true
			if _, err := licensesOf(path, dir); err != nil {
				t.Error(err)
			}
		}
		if len(seen) < 5 {
			t.Errorf("%s: only %d modules were seen", folder, len(seen))
		}
	}
	text, err := os.ReadFile("../../sdk/typescript/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ License string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for name, found := range lock.Packages {
		if name == "" || found.License == "Python-2.0" { // argparse, which the generator of types uses
			continue
		}
		if err := accept([]string{strings.Replace(found.License, "(MIT OR CC0-1.0)", "MIT", 1)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
