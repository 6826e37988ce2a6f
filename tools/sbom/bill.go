package main

import (
	"debug/buildinfo"
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

// billOf is the bill of materials of a program: the modules that the Go tool has linked.
func billOf(program string) (*cdx.BOM, error) {
	build, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var components []cdx.Component
	for _, module := range build.Deps {
		if module.Replace != nil {
			continue // a folder of this repository
		}
		component, err := componentOf(module)
		if err != nil {
			return nil, err
		}
		components = append(components, component)
	}
	bom := cdx.NewBOM()
	bom.Components = &components
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: build.Main.Path, Version: build.Main.Version,
		Properties: &[]cdx.Property{{Name: "go:version", Value: build.GoVersion}},
	}}
	return bom, nil
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
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
		PackageURL: "pkg:golang/" + module.Path + "@" + module.Version,
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
