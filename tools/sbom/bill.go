package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// accepted are the licenses, by their SPDX names, under which the project takes other people's work: none asks that the
// program around it is published.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PostgreSQL", "Unlicense"}

// billOf is the bill of materials of a program of that version: the modules that the Go tool has linked, the standard library, and which needs which.
func billOf(program, version string) (*cdx.BOM, error) {
	build, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	std, err := standardLibrary(strings.TrimPrefix(build.GoVersion, "go"))
	if err != nil {
		return nil, err
	}
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: build.Main.Path, Version: version,
		BOMRef: "pkg:golang/" + build.Main.Path + "@" + version,
	}
	var components []cdx.Component
	refs := map[string]string{build.Main.Path: main.BOMRef} // by the module's path
	linked := map[string]string{build.Main.Path: ""}        // to the version that is linked
	for _, module := range build.Deps {
		linked[module.Path] = module.Version
		if module.Replace != nil { // a folder of this repository
			refs[module.Path] = main.BOMRef
			continue
		}
		component, err := componentOf(module)
		if err != nil {
			return nil, err
		}
		refs[module.Path] = component.BOMRef
		components = append(components, component)
	}
	needs, err := needsOf(build.Main.Path, linked, refs)
	if err != nil {
		return nil, err
	}
	var dependencies []cdx.Dependency
	for _, component := range append([]cdx.Component{main}, components...) {
		all := slices.Compact(slices.Sorted(slices.Values(append(needs[component.BOMRef], std.BOMRef))))
		dependencies = append(dependencies, cdx.Dependency{Ref: component.BOMRef, Dependencies: &all})
	}
	components = append(components, std)
	dependencies = append(dependencies, cdx.Dependency{Ref: std.BOMRef})
	bom := cdx.NewBOM()
	bom.Metadata, bom.Components, bom.Dependencies = &cdx.Metadata{Component: &main}, &components, &dependencies
	return bom, nil
}

// needsOf lists what each linked module requires, by their references, of what is linked as well.
func needsOf(main string, linked, refs map[string]string) (map[string][]string, error) {
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", main).Output() //nolint:gosec // the program's own module
	if err != nil {
		return nil, fmt.Errorf("%s: %w", main, err)
	}
	graph := exec.Command("go", "mod", "graph")
	graph.Dir = strings.TrimSpace(string(folder))
	output, err := graph.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod graph: %w", err)
	}
	needs := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, version, _ := strings.Cut(from, "@")
		to, _, _ = strings.Cut(to, "@")
		if is, found := linked[from]; found && is == version && refs[to] != "" && refs[to] != refs[from] {
			needs[refs[from]] = append(needs[refs[from]], refs[to])
		}
	}
	return needs, nil
}

// standardLibrary is Go's own part of each program. It has no checksum: it comes with the Go tool.
func standardLibrary(version string) (cdx.Component, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return cdx.Component{}, fmt.Errorf("go env: %w", err)
	}
	licenses, err := licensesOf("std", strings.TrimSpace(string(root)))
	if err != nil {
		return cdx.Component{}, err
	}
	purl := "pkg:golang/std@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: "std", Version: version, PackageURL: purl, Licenses: licensed(licenses...)}, nil
}

func componentOf(module *debug.Module) (cdx.Component, error) {
	// No shell, and the names are those that the Go tool wrote into the program.
	output, err := exec.Command("go", "mod", "download", "-json", module.Path+"@"+module.Version).Output() //nolint:gosec // above
	if err != nil {
		return cdx.Component{}, fmt.Errorf("%s: %w", module.Path, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(output, &found); err != nil {
		return cdx.Component{}, err
	}
	licenses, err := licensesOf(module.Path, found.Dir)
	if err != nil {
		return cdx.Component{}, err
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return cdx.Component{}, fmt.Errorf("%s: the checksum %q is not one of go.sum", module.Path, module.Sum)
	}
	purl := "pkg:golang/" + module.Path + "@" + module.Version
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: module.Path, Version: module.Version, PackageURL: purl,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}},
		Licenses:   licensed(licenses...),
		Properties: &[]cdx.Property{{Name: "go.sum", Value: module.Sum}},
	}, nil
}

func licensed(names ...string) *cdx.Licenses {
	var licenses cdx.Licenses
	for _, name := range names {
		license := cdx.License{ID: name}
		if name == "public domain" { // SPDX has no name for it
			license = cdx.License{Name: name}
		}
		licenses = append(licenses, cdx.LicenseChoice{License: &license})
	}
	return &licenses
}

// publicDomain are modules whose authors gave up their rights, in their own words: read by a person.
var publicDomain = []string{"github.com/xi2/xz"}

// licensesOf are the licenses that a module's files name, sorted. Error: it has none, or one that is not accepted.
func licensesOf(module, folder string) (names []string, err error) {
	if slices.Contains(publicDomain, module) {
		return []string{"public domain"}, nil
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.ToUpper(file.Name())
		if file.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") || name == "LICENSE.DOCS" {
			continue // a license of the module's documents is not one of its code
		}
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		for _, match := range licensecheck.Scan(text).Match {
			if !match.IsURL {
				names = append(names, match.ID)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if err := accept(names); err != nil {
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	return names, nil
}

func accept(names []string) error {
	if len(names) == 0 {
		return errors.New("no license was found")
	}
	for _, name := range names {
		if !slices.Contains(accepted, name) {
			return fmt.Errorf("%q is none of the accepted licenses: %s", name, strings.Join(accepted, ", "))
		}
	}
	return nil
}
