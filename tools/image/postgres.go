package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// architectures are how Debian's folders and ELF files name those of Go.
var architectures = map[string]struct {
	triplet string
	machine elf.Machine
}{"amd64": {"x86_64-linux-gnu", elf.EM_X86_64}, "arm64": {"aarch64-linux-gnu", elf.EM_AARCH64}}

// postgres is the newest PostgreSQL of the Debian at root, with the shared libraries and the time zones that it needs, and the shell
// that initdb calls. The program finds it where it finds an installed one.
func postgres(root, arch string) (tree, error) {
	found, err := filepath.Glob(root + "/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, errors.New("is not installed below " + root + "/usr/lib/postgresql")
	}
	bin := filepath.Dir(strings.TrimPrefix(slices.Max(found), root))
	home := filepath.Dir(bin)
	files := tree{}
	programs := []string{bin + "/postgres", bin + "/initdb", "/bin/sh"}
	for _, module := range []string{"plpgsql", "dict_snowball"} { // what initdb loads
		programs = append(programs, home+"/lib/"+module+".so")
	}
	for _, program := range programs {
		if err := files.addProgram(root, program, arch); err != nil {
			return nil, err
		}
	}
	for _, folder := range []string{"/usr/share/postgresql/" + filepath.Base(home), "/usr/share/zoneinfo"} {
		if err := files.addAll(root, folder); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// addProgram adds a program or a library, its loader, and the libraries that it needs.
func (t tree) addProgram(root, name, arch string) error {
	if _, found := t[name]; found {
		return nil
	}
	if err := t.add(root, name); err != nil {
		return err
	}
	program, err := elf.NewFile(bytes.NewReader(t[name].content))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if program.Machine != architectures[arch].machine {
		return fmt.Errorf("%s is for %s, and not for %s", root+name, program.Machine, arch)
	}
	if loader := program.Section(".interp"); loader != nil {
		path, err := loader.Data()
		if err != nil {
			return err
		}
		if err := t.addProgram(root, string(bytes.TrimRight(path, "\x00")), arch); err != nil {
			return err
		}
	}
	libraries, err := program.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, library := range libraries {
		if err := t.addProgram(root, "/lib/"+architectures[arch].triplet+"/"+library, arch); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
