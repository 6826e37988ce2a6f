package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the oldest major version that the service supports.
const oldest = 15

// programs is a directory with PostgreSQL's programs, of one major version.
type programs struct {
	bin   string
	major int
}

func (p programs) postgres() string { return filepath.Join(p.bin, "postgres") }
func (p programs) initdb() string   { return filepath.Join(p.bin, "initdb") }

// baseBackup is pg_basebackup of the same major version, which not every directory with a server has.
func (p programs) baseBackup(ctx context.Context) (string, error) {
	for _, other := range append([]programs{p}, installed(ctx)...) {
		path := filepath.Join(other.bin, "pg_basebackup")
		if _, err := os.Stat(path); err == nil && other.major == p.major {
			return path, nil
		}
	}
	return "", fmt.Errorf("no pg_basebackup of PostgreSQL %d on this machine", p.major)
}

// findPrograms finds the newest programs of the machine, or those of the major version that existing data need, and
// fetches some when there are none.
func findPrograms(ctx context.Context, major string) (programs, error) {
	found := installed(ctx)
	for _, p := range found {
		if major == "" || major == strconv.Itoa(p.major) {
			return p, nil
		}
	}
	if major != "" && major != strconv.Itoa(fetchedMajor) {
		return programs{}, fmt.Errorf("the data are PostgreSQL %s's, which is not installed any more: "+
			"install it, or remove the directory to begin anew", major)
	}
	if err := ctx.Err(); err != nil { // nothing was found because nothing was looked at
		return programs{}, err
	}
	return fetchPrograms(ctx, "", fetchedDir())
}

// majorOf is the major version that made the data, empty when there are none.
func majorOf(data string) string {
	text, _ := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	return strings.TrimSpace(string(text))
}

// installed lists the machine's programs, newest first.
func installed(ctx context.Context) []programs {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                                                // Debian
		"/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin", "/usr/libexec/postgresql*", // Red Hat, SUSE, Alpine
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", // Homebrew
	} {
		more, _ := filepath.Glob(pattern)
		dirs = append(dirs, more...)
	}
	var found []programs
	for _, dir := range dirs {
		if p, ok := inspect(ctx, dir); ok {
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b programs) int { return b.major - a.major })
	return found
}

var versionPattern = regexp.MustCompile(`^postgres \(PostgreSQL\) ([0-9]+)`)

// inspect reports whether dir holds programs that we can use.
func inspect(ctx context.Context, dir string) (programs, bool) {
	p := programs{bin: dir}
	out, err := exec.CommandContext(ctx, p.postgres(), "--version").Output()
	version := versionPattern.FindSubmatch(out)
	if err != nil || version == nil {
		return p, false
	}
	if _, err := os.Stat(p.initdb()); err != nil {
		return p, false
	}
	p.major, _ = strconv.Atoi(string(version[1]))
	return p, p.major >= oldest
}
