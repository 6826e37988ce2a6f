package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	bom, err := billOf(program, "v1.2.3")
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

	holdsGraph(t, bom)

	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).Encode(bom); err != nil {
		t.Fatal(err)
	}
	if err := cdx.NewBOMDecoder(&text, cdx.BOMFileFormatJSON).Decode(new(cdx.BOM)); err != nil {
		t.Errorf("the bill of materials cannot be read: %v", err)
	}
}

// holdsGraph checks that each component but the standard library has a hash, and that all of them are reached from the program.
func holdsGraph(t *testing.T, bom *cdx.BOM) {
	t.Helper()
	needs := map[string][]string{}
	for _, d := range *bom.Dependencies {
		needs[d.Ref] = nil
		if d.Dependencies != nil {
			needs[d.Ref] = *d.Dependencies
		}
	}
	reached := map[string]bool{}
	var reach func(string)
	reach = func(ref string) {
		if _, known := needs[ref]; !known {
			t.Errorf("%s is needed, and is no component", ref)
		}
		if !reached[ref] {
			reached[ref] = true
			for _, next := range needs[ref] {
				reach(next)
			}
		}
	}
	reach(bom.Metadata.Component.BOMRef)
	std := false
	for _, c := range *bom.Components {
		if !reached[c.BOMRef] {
			t.Errorf("nothing needs %s", c.BOMRef)
		}
		if c.Name == "std" {
			std = c.Version == strings.TrimPrefix(runtime.Version(), "go")
		} else if c.Hashes == nil || len((*c.Hashes)[0].Value) != 64 {
			t.Errorf("%s has no hash", c.Name)
		}
	}
	if !std || len(needs) != len(*bom.Components)+1 {
		t.Errorf("the standard library is listed: %v; %d components, %d of them in the graph", std, len(*bom.Components), len(needs)-1)
	}
}

// TestLicensesOfWhatBuildsAndTests asks the same of the modules and packages that are only needed to build and to test.
func TestLicensesOfWhatBuildsAndTests(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"../..", "../../sdk/go", "../../sdk/examples/partner", ".."} {
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

// TestLicenseOfTheSDKs: sdk/LICENSE decides, and everything that names the SDKs' license says the same, by its SPDX name.
func TestLicenseOfTheSDKs(t *testing.T) {
	t.Parallel()
	names, err := licensesOf("the SDKs", "../../sdk")
	if err != nil || len(names) != 1 {
		t.Fatalf("sdk/LICENSE has the licenses %q; %v", names, err)
	}
	for file, want := range map[string]string{
		"sdk/typescript/package.json":                   `"license": "` + names[0] + `"`,
		"sdk/python/METADATA":                           "\nLicense: " + names[0] + "\n",
		"sdk/CHANGELOG.md":                              "The licence is " + names[0],
		"docs/licenses.md":                              "The SDKs are under " + names[0],
		"internal/edge/developers/pages/quick-start.md": "the licence " + names[0],
	} {
		if text, err := os.ReadFile("../../" + file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not have %q; %v", file, want, err)
		}
	}
	ours, err := os.ReadFile("../../sdk/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := os.ReadFile("../../sdk/go/LICENSE"); err != nil || string(copied) != string(ours) {
		t.Errorf("sdk/go/LICENSE is not sdk/LICENSE: run make generate; %v", err)
	}
}
