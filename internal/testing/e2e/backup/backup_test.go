package backup_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgbouncertest"
	"connect-svc/internal/testing/pgtest"
)

// The scripts of docs/ back up a service and restore it elsewhere: every credential and connection works as before.
func TestBackupAndRestore(t *testing.T) {
	pgtest.NotOnCluster(t, "TestBackupOnACluster is for it")
	t.Parallel()
	before := pgtest.New(t)
	before.Define(t, createRole)
	t.Cleanup(func() { before.Define(t, "drop role "+role) })
	backUpAndRestore(t, before, pgtest.NewEmpty(t))
}

// The role that makes the backup, and restores it. A password may have any characters, in either place of a URL.
const (
	role, password = "backup_and_restore", "p@ss/w%rd:é\\n&x"
	createRole     = "create role " + role + " superuser login password '" + password + "'"
)

// backUpAndRestore connects a partner on one database, and uses the connection on another one, which is empty. Both servers have the role.
func backUpAndRestore(t *testing.T, before, after *pgtest.DB) {
	t.Helper()
	dir := t.TempDir()
	keyset, backup, restored := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "backup"), filepath.Join(dir, "restored.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	partner, user := before.Client(t), before.User(t)
	old := e2e.Open(t, before, keyset)
	day := time.Now().UTC().Truncate(24 * time.Hour)
	if _, err := old.Activity.Put(t.Context(), activity.Batch{DailySteps: []activity.StepsRecord{{UserID: user.ID, Date: day, Steps: 4711}}}); err != nil {
		t.Fatal(err)
	}
	connected := edgetest.Connect(t, old.OAuth, partner, scope.All, user.ID)
	inFlight := edgetest.Code(t, old.OAuth, partner, scope.All, user.ID)

	as := func(address string, inQuery bool) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, password)
		u.RawQuery += "&pool_max_conns=8" // for the service alone, as `connect-svc check` asks for it
		if inQuery {
			u.User = url.User(role)
			u.RawQuery += "&password=" + url.QueryEscape(password) + "&connect_timeout=10&pool_max_conn_lifetime=1h&statement_cache_capacity=64"
		}
		return u.String()
	}
	script(t, "backup.sh", as(before.URL, false), keyset, backup)
	if kept, err := filepath.Glob(filepath.Join(backup, "*")); err != nil || len(kept) != 1 || filepath.Base(kept[0]) != "database.dump" {
		t.Errorf("the backup has %v, %v: want the dump alone", kept, err)
	}
	refused := func(says string) {
		t.Helper()
		if out, err := command("restore.sh", after.URL, restored, backup).CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("restored: %v, %s, want %q", err, out, says)
		}
	}
	refused("is missing")
	if err := credential.CreateKeyset(restored); err != nil { // of somebody else
		t.Fatal(err)
	}
	refused("lacks key")
	copyFile(t, keyset, restored)
	script(t, "restore.sh", as(after.URL, true), restored, backup)
	fresh := e2e.Open(t, after, restored)

	access, err := fresh.OAuth.Authenticate(t.Context(), connected.AccessToken)
	if err != nil || access.GrantID != connected.GrantID || access.UserID != user.ID {
		t.Fatalf("the access token: %v", err)
	}
	if err := fresh.OAuth.AuthenticateClient(t.Context(), edgetest.Credentials(partner)); err != nil {
		t.Errorf("the client secret: %v", err)
	}
	dates := activity.Range{From: day, To: day}
	if steps, err := fresh.Activity.DailySteps(t.Context(), user.ID, dates); err != nil || len(steps) != 1 || steps[0].Steps != 4711 {
		t.Errorf("the steps: %v, %v", steps, err)
	}
	refreshed, err := fresh.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), connected.RefreshToken)
	if err != nil || refreshed.GrantID != connected.GrantID || !refreshed.HistoryFrom.Equal(connected.HistoryFrom) {
		t.Fatalf("the refresh token: %v", err)
	}
	again := edgetest.Exchange(t, fresh.OAuth, partner, inFlight)
	if again.ConnectionVersion != connected.ConnectionVersion+1 {
		t.Errorf("the code in flight: version %d", again.ConnectionVersion)
	}

	// The restored database knows its keyset.
	if err := credential.NewTestKeyring().CheckMarks(t.Context(), after.Pool); err == nil {
		t.Error("another keyset may be used with the restored database")
	}

	// Neither script writes over anything.
	for name, says := range map[string]string{"backup.sh": "exists already", "restore.sh": "already exists"} {
		if out, err := command(name, after.URL, restored, backup).CombinedOutput(); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s again: %v, %s", name, err, out)
		}
	}
	// A password that is not in a URL would be seen in the list of processes.
	for _, name := range []string{"backup.sh", "restore.sh"} {
		if out, err := command(name, "host=127.0.0.1 password=secret", restored, backup+"2").CombinedOutput(); err == nil || !strings.Contains(string(out), "must be a URL") {
			t.Errorf("%s with keywords: %v, %s", name, err, out)
		}
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the backup can be read by others: %v", err)
	}
}

// A role that owns the database restores it, with the grants that it may give to roles that are there. Those on PostgreSQL's own functions, as
// docs/troubleshooting.md recommends one, and those to roles of another server are told, and are in the way of nothing.
func TestRestoreByTheOwner(t *testing.T) {
	pgtest.NotOnCluster(t, "the roles are of one server")
	t.Parallel()
	before, dir := pgtest.New(t), t.TempDir()
	const owner, reader, gone = "restoring_owner", "restored_reader", "restored_gone"
	for _, name := range []string{owner, reader, gone} {
		before.Define(t, "create role "+name+" login password '"+name+"'")
	}
	t.Cleanup(func() { before.Define(t, "drop owned by "+owner+", "+reader+"; drop role "+owner+", "+reader) })
	before.Define(t, "grant execute on function pg_stat_file(text) to "+owner+"; grant select on daily_steps to "+reader+"; grant select on cycling_activities to "+gone)
	keyset, backup := keysetFile(t), filepath.Join(dir, "backup")
	e2e.Open(t, before, keyset)
	user := before.User(t)
	if out, err := command("backup.sh", before.URL, keyset, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	before.Define(t, "drop owned by "+gone+"; drop role "+gone)

	after := pgtest.NewEmpty(t)
	name := pgtest.Value[string](t, after, "select quote_ident(current_database())")
	after.Define(t, "alter database "+name+" owner to "+owner)
	as, err := url.Parse(after.URL)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword(owner, owner)
	out, err := command("restore.sh", as.String(), keyset, backup).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "these grants") || !strings.Contains(string(out), gone) || !strings.Contains(string(out), "pg_stat_file") {
		t.Fatalf("%v, %s", err, out)
	}
	if id := pgtest.Value[string](t, after, "select user_id::text from users"); id != user.ID.String() {
		t.Errorf("the user is %s", id)
	}
	if !pgtest.Value[bool](t, after, "select has_table_privilege('"+reader+"', 'daily_steps', 'select')") {
		t.Error("a role that is there has lost its grant")
	}
}

// Without sslmode the scripts verify the server of another machine by the authorities of this one, whichever libpq there is.
func TestBackupVerifiesTLS(t *testing.T) {
	pgtest.NotOnCluster(t, "the way to one PostgreSQL is tested")
	t.Parallel()
	dir := t.TempDir()
	keyset := filepath.Join(dir, "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"backup.sh", "restore.sh"} {
		database := pgtest.New(t)
		if name == "restore.sh" {
			database = pgtest.NewEmpty(t)
		}
		server, err := url.Parse(pgbouncertest.Start(t, "../../../../docs/pgbouncer.ini", database.URL, "pool_mode", "session").URL)
		if err != nil {
			t.Fatal(err)
		}
		authority := server.Query().Get("sslrootcert")
		server.Host, server.RawQuery = "pgbouncer:"+server.Port(), "hostaddr=127.0.0.1" // the name in its certificate
		run := func(trusted string) (string, error) {
			c := command(name, server.String(), keyset, filepath.Join(dir, "backup"))
			c.Env = append(c.Env, "HOME="+dir, "SSL_CERT_FILE="+trusted, "PGSSLROOTCERT=")
			out, err := c.CombinedOutput()
			return string(out), err
		}
		if out, err := run(""); err == nil || !strings.Contains(out, "certificate verify failed") {
			t.Errorf("%s, of an authority that nobody knows: %v, %s", name, err, out)
		}
		if out, err := run(authority); err != nil {
			t.Fatalf("%s: %v, %s", name, err, out)
		}
	}
}

// The scripts ask this machine without TLS, as the service does, however the URL names it.
func TestBackupOnThisMachine(t *testing.T) {
	pgtest.NotOnCluster(t, "the way to one PostgreSQL is tested")
	t.Parallel()
	keyset, dir := keysetFile(t), t.TempDir()
	for name, named := range map[string]func(at *url.URL){
		"by its host":     func(*url.URL) {},
		"by two hosts":    func(at *url.URL) { at.Host += "," + at.Host },
		"by a parameter":  func(at *url.URL) { at.RawQuery, at.Host = "host="+at.Hostname()+"&port="+at.Port(), "" },
		"by two in there": func(at *url.URL) { at.RawQuery, at.Host = "port="+at.Port()+"&host=localhost,"+at.Hostname(), "" },
	} {
		run := func(script string, database *pgtest.DB) {
			at, err := url.Parse(database.URL)
			if err != nil {
				t.Fatal(err)
			}
			at.RawQuery = ""
			named(at)
			c := command(script, at.String(), keyset, filepath.Join(dir, name))
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v, %s", script, name, err, out)
			}
		}
		run("backup.sh", pgtest.New(t))
		run("restore.sh", pgtest.NewEmpty(t))
	}
}

// copyFile replaces a file.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Backups of release 1.0.0 have the keyset in them.
func TestRestoreOfAnOlderBackup(t *testing.T) {
	pgtest.NotOnCluster(t, "the scripts are the same")
	t.Parallel()
	before, after, dir := pgtest.New(t), pgtest.NewEmpty(t), t.TempDir()
	keyset, backup, restored := keysetFile(t), filepath.Join(dir, "backup"), filepath.Join(dir, "restored.json")
	e2e.Open(t, before, keyset)
	if out, err := command("backup.sh", before.URL, keyset, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	copyFile(t, keyset, filepath.Join(backup, "keyset.json"))
	if out, err := command("restore.sh", after.URL, restored, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	e2e.Open(t, after, restored)
}

func command(name, databaseURL, keyset, dir string) *exec.Cmd {
	c := exec.Command("../../../../docs/"+name, dir)
	c.Env = append(os.Environ(), "CONNECT_DATABASE_URL="+databaseURL, "CONNECT_KEYSET_FILE="+keyset)
	return c
}

// script runs one of the scripts, and sees what it calls programs with: no password, which everybody on the machine could read.
func script(t *testing.T, name, databaseURL, keyset, dir string) {
	t.Helper()
	seen := t.TempDir()
	for _, program := range []string{"pg_dump", "pg_restore"} {
		wrapper := "#!/bin/sh\nprintf '%s\\n' \"$@\" >> " + seen + "/arguments\nPATH=${PATH#*:} exec " + program + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(seen, program), []byte(wrapper), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := command(name, databaseURL, keyset, dir)
	c.Env = append(c.Env, "PATH="+seen+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	arguments, err := os.ReadFile(filepath.Join(seen, "arguments"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	_, password, _ := strings.Cut(at.User.String(), ":")
	if password == "" {
		password = url.QueryEscape(at.Query().Get("password"))
	}
	if password == "" || strings.Contains(string(arguments), password) {
		t.Errorf("%s calls programs with the password, or there is none", name)
	}
}
