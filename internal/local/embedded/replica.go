package embedded

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
)

// StartReplica runs an ephemeral streaming replica of a primary and returns when it answers reads. [Server.URL] of it
// is that of the primary's database, on the replica. The error is one line.
func StartReplica(ctx context.Context, primary *Server) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	place, err := openPlace(ctx, Config{Ephemeral: true})
	if err != nil {
		return nil, fmt.Errorf("embedded PostgreSQL: %w", err)
	}
	s := &Server{place: place, password: primary.password}
	s.stop = sync.OnceValue(s.shutDown)
	if err = copyCluster(ctx, place, primary.url("postgres")); err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		place.close()
		return nil, fmt.Errorf("embedded PostgreSQL: replica: %w", err)
	}
	return s, nil
}

// copyCluster makes the data those of a replica, which knows where its primary is.
func copyCluster(ctx context.Context, place *place, primary string) error {
	program, err := place.programs.baseBackup(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "--pgdata", place.data(), "--dbname", primary,
		"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = place.dir, place.env(), place.account.attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}
