package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"connect-svc/tools/sbom/serial"
	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill is the bill of materials of an image: that of the program, and the Debian packages from which files come, each with those
// files and their hashes.
func (s source) bill(files tree) ([]byte, error) {
	program, err := os.Open(s.Bill)
	if err != nil {
		return nil, err
	}
	defer program.Close() //nolint:errcheck // it is only read
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(program, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Bill, err)
	}
	packages, err := packagesOf(s.Root, files)
	if err != nil {
		return nil, err
	}
	*bom.Components = append(*bom.Components, packages...)
	for i, d := range *bom.Dependencies {
		if d.Ref != bom.Metadata.Component.BOMRef {
			continue
		}
		needs := *d.Dependencies
		for _, p := range packages {
			needs = append(needs, p.BOMRef)
		}
		(*bom.Dependencies)[i].Dependencies = &needs
	}
	var text bytes.Buffer
	err = serial.Write(&text, bom)
	return text.Bytes(), err
}

// packagesOf lists the packages that brought files to the Debian at root.
func packagesOf(root string, files tree) (packages []cdx.Component, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	owners, err := ownersOf(root)
	if err != nil {
		return nil, err
	}
	of := map[string][]cdx.Component{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name].mode.IsDir() {
			continue
		}
		owner := owners.of(root, name)
		if owner == "" {
			return nil, fmt.Errorf("%s is of no Debian package", name)
		}
		sum := sha256.Sum256(files[name].content)
		of[owner] = append(of[owner], cdx.Component{
			Type: cdx.ComponentTypeFile, Name: name, Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		})
	}
	for _, owner := range slices.Sorted(maps.Keys(of)) {
		out, err := exec.Command("dpkg-query", "--admindir="+root+"/var/lib/dpkg", "--show", "--showformat=${Package} ${Version} ${Architecture}", owner).Output() //nolint:gosec // a name of dpkg's own
		known := strings.Fields(string(out))
		if err != nil || len(known) != 3 {
			return nil, fmt.Errorf("dpkg-query %s: %q, %w", owner, out, err)
		}
		purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", known[0], strings.ReplaceAll(known[1], "+", "%2B"), known[2])
		list := of[owner]
		packages = append(packages, cdx.Component{
			Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: known[0], Version: known[1], PackageURL: purl, Components: &list,
		})
	}
	return packages, nil
}

// ownership is which Debian package brought each file.
type ownership map[string]string

// ownersOf reads dpkg's lists.
func ownersOf(root string) (ownership, error) {
	lists, err := filepath.Glob(root + "/var/lib/dpkg/info/*.list")
	if err != nil {
		return nil, err
	}
	found := ownership{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for name := range strings.Lines(string(text)) {
			found[merged(strings.TrimSuffix(name, "\n"))] = strings.TrimSuffix(filepath.Base(list), ".list")
		}
	}
	return found, nil
}

// of is the package that brought a file of the Debian at root, or what the file links to; empty if none did.
func (o ownership) of(root, name string) string {
	if owner := o[merged(name)]; owner != "" {
		return owner
	}
	target, err := filepath.EvalSymlinks(root + name)
	if err != nil {
		return ""
	}
	return o[merged(strings.TrimPrefix(target, root))]
}

// merged is a file's name where /bin and /lib are those below /usr, which some packages do not say.
func merged(name string) string { return strings.TrimPrefix(name, "/usr") }
