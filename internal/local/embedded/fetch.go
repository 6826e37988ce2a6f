package embedded

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	library "github.com/fergusstrange/embedded-postgres"
)

const (
	fetchedVersion = library.V17
	fetchedMajor   = 17
)

// fetchedDir keeps the fetched programs for all checkouts, where root's unprivileged account can run them.
func fetchedDir() string {
	base := sharedState
	if os.Geteuid() != 0 {
		if cache, err := os.UserCacheDir(); err == nil {
			base = filepath.Join(cache, "connect-svc")
		}
	}
	return filepath.Join(base, "postgresql-"+strconv.Itoa(fetchedMajor))
}

// fetchPrograms has the library fetch the programs into dir, unless they are there. The empty repository is the
// library's own.
func fetchPrograms(ctx context.Context, repository, dir string) (programs, error) {
	if p, ok := inspect(ctx, filepath.Join(dir, "bin")); ok {
		return p, nil
	}
	err := fetch(repository, dir)
	if p, ok := inspect(ctx, filepath.Join(dir, "bin")); ok {
		return p, nil
	}
	if err == nil {
		err = fmt.Errorf("what was fetched does not run here")
	}
	return programs{}, fmt.Errorf("no PostgreSQL %d or newer on this machine, and fetching one failed (%s): "+
		"install it, on Debian with `apt-get install postgresql`", oldest, strings.Join(strings.Fields(err.Error()), " "))
}

func fetch(repository, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // the account must reach what is below
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
	config := library.DefaultConfig().
		Version(fetchedVersion).
		CachePath(filepath.Join(work, "cache")).
		BinariesPath(fetched).
		RuntimePath(filepath.Join(work, "run")).
		DataPath(filepath.Join(work, "data")).
		Port(uint32(port)).
		Logger(io.Discard)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	// The library has no call for the fetching alone. What it starts afterwards, as a server of its own, is stopped
	// at once; as root that start fails, when the programs are already there.
	server := library.NewDatabase(config)
	err = server.Start()
	if err == nil {
		_ = server.Stop()
	}
	if _, statErr := os.Stat(filepath.Join(fetched, "bin", "postgres")); statErr != nil {
		return err
	}
	if err := os.Chmod(fetched, 0o755); err != nil {
		return err
	}
	if err := os.Rename(fetched, dir); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}
