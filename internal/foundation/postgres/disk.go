package postgres

import (
	"context"
	"os"
	"time"
)

// Disk returns what is free and all of the file system on which PostgreSQL has its data directory, in bytes. They are 0 if that cannot be
// known: the directory must be on this machine, and the role must be allowed to read the setting data_directory (pg_read_all_settings) and to
// call pg_stat_file. A directory of the same name that is not PostgreSQL's has not changed in the same second.
func Disk(ctx context.Context, pool *Pool) (free, size uint64, err error) {
	var may bool
	err = pool.QueryRow(ctx, "select pg_has_role('pg_read_all_settings', 'member') and has_function_privilege('pg_stat_file(text)', 'execute')").Scan(&may)
	if err != nil || !may {
		return 0, 0, Wrap("disk", err)
	}
	var dir string
	var changed time.Time
	if err := pool.QueryRow(ctx, "select current_setting('data_directory'), (pg_stat_file('.')).modification").Scan(&dir, &changed); err != nil {
		return 0, 0, Wrap("disk", err)
	}
	if here, err := os.Stat(dir); err != nil || here.ModTime().Unix() != changed.Unix() {
		return 0, 0, nil
	}
	free, size = fileSystem(dir)
	return free, size, nil
}
