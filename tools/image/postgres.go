package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// library is a line of ldd's: the file that the program needs.
var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// postgres is the newest PostgreSQL of this machine, as Debian installs it, with the shared libraries and the time zones that it
// needs, and the shell that initdb calls. The program finds it where it finds an installed one.
func postgres() (tree, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, errors.New("is not installed below /usr/lib/postgresql")
	}
	bin := filepath.Dir(slices.Max(found))
	home := filepath.Dir(bin)
	files := tree{}
	programs := []string{bin + "/postgres", bin + "/initdb", "/bin/sh"}
	for _, module := range []string{"plpgsql", "dict_snowball"} { // what initdb loads
		programs = append(programs, home+"/lib/"+module+".so")
	}
	for _, program := range programs {
		if err := files.add(program); err != nil {
			return nil, err
		}
		needs, err := exec.Command("ldd", program).Output() //nolint:gosec // a program of PostgreSQL
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w", program, err)
		}
		for _, match := range library.FindAllSubmatch(needs, -1) {
			if err := files.add(string(match[1])); err != nil {
				return nil, err
			}
		}
	}
	for _, folder := range []string{"/usr/share/postgresql/" + filepath.Base(home), "/usr/share/zoneinfo"} {
		if err := files.addAll(folder); err != nil {
			return nil, err
		}
	}
	return files, nil
}
