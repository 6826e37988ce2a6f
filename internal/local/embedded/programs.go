package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	library "github.com/fergusstrange/embedded-postgres"
)

const (
	oldest       = 15 // the oldest major version that the service supports
	fetchedMajor = 17 // of library.V17
)

// programs is a directory with PostgreSQL's programs, of one major version.
type programs struct {
	bin   string
	major int
}

func (p programs) path(name string) string { return filepath.Join(p.bin, name+extension) }

// findPrograms finds the first installed programs, or those of the major version that existing data need (0: no data). If none
// are installed it downloads them.
func findPrograms(ctx context.Context, major int) (programs, error) {
	for _, p := range installed(ctx) {
		if major == 0 || major == p.major {
			return p, nil
		}
	}
	if major != 0 && major != fetchedMajor {
		return programs{}, fmt.Errorf("the data need PostgreSQL %d, which is not installed any more: "+
			"install it, or remove the directory to start over", major)
	}
	if err := ctx.Err(); err != nil { // the search was cut off
		return programs{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil || os.Geteuid() == 0 {
		cache = filepath.Dir(sharedState) // root's unprivileged account must be able to run them
	}
	return fetchPrograms(ctx, "", filepath.Join(cache, "connect-svc", fmt.Sprint("postgresql-", fetchedMajor)))
}

// installed lists the installed programs: those in PATH, then the others, newest first.
func installed(ctx context.Context) []programs {
	var chosen, complete []programs
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // the links of the other programs may differ
			if p, ok := inspect(ctx, filepath.Dir(path)); ok {
				chosen = append(chosen, p)
			}
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                                                // Debian
		"/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin", "/usr/libexec/postgresql*", // Red Hat, SUSE, Alpine
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", // Homebrew
	} {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			if p, ok := inspect(ctx, dir); ok {
				complete = append(complete, p)
			}
		}
	}
	slices.SortStableFunc(complete, func(a, b programs) int { return cmp.Compare(b.major, a.major) })
	return append(chosen, complete...)
}

// inspect reports whether dir has programs that run here and are new enough.
func inspect(ctx context.Context, dir string) (programs, bool) {
	p := programs{bin: dir}
	out, _ := exec.CommandContext(ctx, p.path("postgres"), "--version").Output()
	_, _ = fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &p.major)
	_, err := os.Stat(p.path("initdb"))
	return p, err == nil && p.major >= oldest
}

// fetchPrograms downloads the programs into dir, unless they exist. An empty repository is the library's default.
func fetchPrograms(ctx context.Context, repository, dir string) (programs, error) {
	bin := filepath.Join(dir, "bin")
	if p, ok := inspect(ctx, bin); ok {
		return p, nil
	}
	err := fetch(repository, dir)
	if p, ok := inspect(ctx, bin); ok {
		return p, nil
	}
	err = cmp.Or(err, errors.New("the download does not run here"))
	return programs{}, fmt.Errorf("no PostgreSQL %d or newer on this machine, and downloading one failed (%s): "+
		"install it, on Debian with `apt-get install postgresql`", oldest, oneLine([]byte(err.Error())))
}

// fetch puts the programs into dir in one step, so that an interrupted download leaves nothing there.
func fetch(repository, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // the account must be able to enter it
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	port, err := freePort()
	if err != nil {
		return err
	}
	fetched := filepath.Join(work, "programs")
	config := library.DefaultConfig().Version(library.V17).Port(uint32(port)).Logger(io.Discard).
		CachePath(filepath.Join(work, "cache")).RuntimePath(filepath.Join(work, "run")).BinariesPath(fetched)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	// The library always starts a server after the download. That server is stopped at once; for root it fails to start, but the
	// programs exist by then.
	server := library.NewDatabase(config)
	if err = server.Start(); err == nil {
		err = server.Stop()
	}
	if _, missing := os.Stat(programs{bin: filepath.Join(fetched, "bin")}.path("postgres")); missing != nil {
		return err
	}
	if err := os.Rename(fetched, dir); !errors.Is(err, fs.ErrExist) { // another process may have been faster
		return err
	}
	return nil
}
