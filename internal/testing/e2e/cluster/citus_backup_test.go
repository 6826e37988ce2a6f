//go:build citus

package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// A dump of a cluster is not one snapshot: the script says so, and names a restore point that every node has.
func TestBackupOnACluster(t *testing.T) {
	db := pgtest.New(t)
	backup := filepath.Join(t.TempDir(), "backup")
	script := exec.CommandContext(t.Context(), "../../../../docs/backup.sh", backup)
	script.Env = append(os.Environ(), "CONNECT_DATABASE_URL="+db.URLs[0])
	said, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if !regexp.MustCompile(`not read in one snapshot.* restore point connect-svc-\d{8}T\d{6}Z`).Match(said) {
		t.Errorf("it says %q", said)
	}
	if info, err := os.Stat(filepath.Join(backup, "database.dump")); err != nil || info.Size() == 0 {
		t.Error(err)
	}
}
