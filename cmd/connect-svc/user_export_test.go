package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// A user is exported by id and by address, to standard output as it comes.
func TestUserExport(t *testing.T) {
	t.Parallel()
	db, keyset := withWalker(t), filepath.Join(t.TempDir(), "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "insert into daily_steps select $1, '2010-01-01'::date + n, 7 from generate_series(1, 2500) n", walker)
	env := append(env(db), "CONNECT_KEYSET_FILE="+keyset)
	for _, name := range []string{walker, "ADA@example.com"} {
		text := succeed(t, env, "", "user", "export", name)
		if err := contracttest.Operator.CheckSchema("UserCopy", []byte(text)); err != nil || strings.Count(text, `"steps"`) != 2500 {
			t.Errorf("%s: %d days, %v", name, strings.Count(text, `"steps"`), err)
		}
	}
	if n := pgtest.Value[int](t, db, `select count(*) from audit_log where actor = 'cli:grace' and action = 'user.exported' and detail = '{"by": "command_line"}'`); n != 1 {
		t.Errorf("%d entries of a minute, want 1", n)
	}
	if got := call(t, env, "", "user", "export", "nobody@example.com"); got.status != statusFailed || got.stdout != "" || !strings.Contains(got.stderr, "there is no such user") {
		t.Errorf("nobody: %+v", got)
	}
}

// A copy whose place is full fails the command, which has held no more than a part of it.
func TestUserExportOnAFullDisk(t *testing.T) {
	t.Parallel()
	db, keyset := withWalker(t), filepath.Join(t.TempDir(), "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, "insert into daily_steps select $1, '2010-01-01'::date + n, 7 from generate_series(1, 2500) n", walker)
	disk, stderr := fullDisk{room: 2}, bytes.Buffer{}
	status := run(t.Context(), []string{"user", "export", walker}, append(env(db), "CONNECT_KEYSET_FILE="+keyset), strings.NewReader(""), &disk, &stderr)
	if status != statusFailed || !strings.Contains(stderr.String(), "the disk is full") {
		t.Errorf("status %d: %s", status, &stderr)
	}
	if disk.longest == 0 || disk.longest > 1<<14 {
		t.Errorf("%d bytes were written at once, of 70,000", disk.longest)
	}
}

// fullDisk has room for a number of writes.
type fullDisk struct{ room, longest int }

func (d *fullDisk) Write(part []byte) (int, error) {
	d.longest = max(d.longest, len(part))
	if d.room--; d.room < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(part), nil
}
